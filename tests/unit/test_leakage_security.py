"""Rules of docs/security.md that a machine can hold the repository to: no dangerous calls, loopback only, no secrets kept."""

import ast
import logging
import re
from pathlib import Path

import pytest

from hindcast_dagster.errors import UsageError
from hindcast_dagster.forecast import run as forecasting
from hindcast_dagster.llm.openai_compatible import KEY_VARIABLE
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from tests.forecast_world import FORECAST, question, seal_eval_set
from tests.scripted_llm import Script, Stage, scripted_server

ROOT = Path(__file__).resolve().parents[2]
OURS = sorted(
    path for name in ("hindcast_dagster", "assets", "resources", "scripts") for path in (ROOT / name).rglob("*.py")
)
NEVER_IMPORTED = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "telnetlib", "xmlrpc"}
NEVER_CALLED = {
    "eval",
    "exec",
    "os.system",
    "os.popen",
    "yaml.load",
    "yaml.unsafe_load",
    "torch.load",
    "tempfile.mktemp",
}
NEVER_TRUE = {"shell", "trust_remote_code", "allow_pickle", "weights_only_off"}


def dotted(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""


def findings(source):
    """Dangerous imports, calls and arguments of a source text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (name for name in names if name.partition(".")[0] in NEVER_IMPORTED)
        if isinstance(node, ast.Call):
            if dotted(node.func) in NEVER_CALLED:
                yield dotted(node.func)
            for word in node.keywords:
                if word.arg in NEVER_TRUE and not (isinstance(word.value, ast.Constant) and word.value.value is False):
                    yield f"{word.arg}={ast.unparse(word.value)}"


def test_no_dangerous_call_in_our_code():
    assert len(OURS) > 100
    found = {str(path.relative_to(ROOT)): list(findings(path.read_text(encoding="utf-8"))) for path in OURS}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from joblib import load", "eval('1')", "import os\nos.system('x')", "f(shell=True)",
        "load(trust_remote_code=flag)", "import yaml\nyaml.load(x)", "np.load(p, allow_pickle=True)",
    ],
)  # fmt: skip
def test_the_search_finds_what_it_looks_for(source):
    assert list(findings(source))


def test_every_server_binds_to_loopback():
    texts = [path for path in OURS if path.suffix == ".py"]
    texts += [path for name in ("Makefile", "workspace.yaml", ".ci/run") if (path := ROOT / name).is_file()]
    texts += sorted((ROOT / "scripts").glob("*.sh"))
    for path in texts:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"0\.0\.0\.0|--host[= ](?!127\.0\.0\.1)|host=\"(?!127\.0\.0\.1)[^\"]", text), path
    assert "--host 127.0.0.1" in (ROOT / "Makefile").read_text(encoding="utf-8")


STARTED = re.compile(r"vllm\.entrypoints\.openai\.api_server|vllm serve|dagster(?:-webserver| dev)\b|dagster_webserver")


def test_every_command_that_starts_a_server_names_its_address():
    """vLLM binds to every address unless it is told another: a command that names none is as open as one with 0.0.0.0."""
    texts = [ROOT / "Makefile", ROOT / ".ci/run", *(ROOT / "scripts").glob("*.sh"), *(ROOT / "docs").glob("*.md")]
    texts += [ROOT / "README.md", *OURS]
    lines = [
        (path.name, line)
        for path in texts
        for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        if STARTED.search(line) and not line.lstrip().startswith("#")
    ]
    assert {name for name, _ in lines} >= {"Makefile", "check_vllm_cpu.sh"}
    assert [(name, line) for name, line in lines if "--host 127.0.0.1" not in line] == []


def test_telemetry_is_off():
    text = (ROOT / "hindcast_dagster" / "dagster.yaml").read_text(encoding="utf-8")
    assert re.search(r"telemetry:\s*\n\s*enabled: false", text)


def test_a_key_reaches_the_server_and_nothing_that_is_kept(tmp_path, monkeypatch, caplog):
    """The key lies in no journal, manifest, table or log, whether the call succeeds or is refused."""
    secret = "sk-zqxsecret0123456789"
    monkeypatch.setenv(KEY_VARIABLE, secret)
    store = open_store(tmp_path / "root")
    seal_eval_set(store, [question(1)])
    script = Script(Stage("any", "", [FORECAST]))
    caplog.set_level(logging.DEBUG)
    with scripted_server(script) as server:
        settings = load(data_root=str(store.root), llm={"base_url": server.base_url, "wait_budget_s": 2.0})
        forecasting.build(store, settings, arm="zero_shot", model="qwen3-8b", eval_set="small", runs=1)
        assert server.headers[0]["authorization"] == f"Bearer {secret}"
    with pytest.raises(Exception, match=r".") as refused:
        forecasting.build(store, settings, arm="zero_shot", model="qwen3-8b", eval_set="small", runs=2)
    assert secret not in f"{refused.value!r} {refused.value}"
    kept = [path for path in store.root.rglob("*") if path.is_file()]
    assert len(kept) > 3
    assert not [path for path in kept if secret.encode() in path.read_bytes()]
    assert secret not in caplog.text
    assert secret not in settings.model_dump_json()


@pytest.mark.parametrize(
    "name", ["../../x", "a/b", "a\x00b", "..", "", "x" * 97, "2026-01/..", "\u0662\u0660\u0662\u0666"]
)
def test_no_name_leaves_the_data_root(store, name):
    for call in (
        lambda: store.partition("eval_set", name),
        lambda: store.partition(name, "key"),
        lambda: store.area("journal", "retrieval_forecasts", name) if name != "x" * 97 else store.partition(name),
    ):
        try:
            found = call()
        except UsageError:
            continue
        path = getattr(found, "path", found)
        assert path.resolve().is_relative_to(store.root.resolve()), name
        assert path.resolve() != store.root.resolve()
