"""`hindcast demo`: the whole pipeline on the sample world, materialised through Dagster.

The only command, with `reregister` and `backfill`, that touches Dagster, and it does so inside its functions.
"""

import json
import time
import tomllib
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.panel import Panel

from hindcast_dagster.cli.context import Context
from hindcast_dagster.cli.demo_pipeline import EVAL_SET, Pipeline
from hindcast_dagster.errors import UsageError
from hindcast_dagster.settings import CONFIG_NAME, DEFAULT_ROOT, Settings
from hindcast_dagster.storage.files import write_atomic

EMBEDDED: Final = "smollm2"
ROSTER: Final = "models.toml"

# A call of the embedded model costs seconds on two cores, so its arms answer few questions with short evidence.
_EMBEDDED_LIMITS: Final = """
[llm]
structured = true
concurrency = 1

[agent]
rounds = 1
seed_queries = 2
hits_per_query = 5
expanded = 3
author_posts = 0
author_comments = 0
threads = 1
comments_per_thread = 2
evidence_tokens = 500

[decoding]
zero_shot = {{ temperature = 0.1, max_tokens = 160 }}
seed_queries = {{ temperature = 0.2, max_tokens = 120 }}
reflection = {{ temperature = 0.3, max_tokens = 120 }}
summary = {{ temperature = 0.1, max_tokens = 200 }}
tally = {{ temperature = 0.1, max_tokens = 160 }}
forecast = {{ temperature = 0.1, max_tokens = 160 }}
repair = {{ temperature = 0.1, max_tokens = 120 }}
compact = {{ temperature = 0.1, max_tokens = 120 }}
json_only = {{ temperature = 0.1, max_tokens = 80 }}

[forecast]
runs = 1
question_limit = {questions}
"""

_SERVER: Final = """
[llm]
roster_file = {roster}
"""

_CONFIG: Final = """# Written by `hindcast demo`. This root holds an invented world: nobody and nothing in it is real.

[window]
first_month = "{first}"
last_month = "{last}"
first_close_month = "{first}"

[embedding]
model = "minilm"

[polymarket]
source = "sample"

[sample]
months = {months}
first_month = "{first}"
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    context: typer.Context,
    *,
    llm_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible server: run the full arms with it.")] = None,
    llm_model: Annotated[str | None, typer.Option(help="The model's name on that server.")] = None,
    months: Annotated[int, typer.Option(min=2, max=25, help="Months of the sample world.")] = 6,
    questions: Annotated[int, typer.Option(min=1, help="Questions that the embedded model answers in each arm.")] = 3,
) -> None:
    """Run the whole pipeline on an invented sample world, through Dagster; ends with the score table.

    Needs no network, key or GPU. What is sealed is not built again, so a second run is quick. Without --llm-url a tiny
    embedded model stands in: it proves that everything runs and has no forecasting skill.

    Example: hindcast demo --llm-url http://127.0.0.1:8000/v1 --llm-model Qwen/Qwen3-8B
    """
    given: Context = context.obj
    if (llm_url is None) != (llm_model is None):
        raise UsageError("--llm-url and --llm-model belong together: give both, or neither for the embedded model.")
    here = _root(given, months=months, questions=questions, embedded=llm_url is None)
    model = _model(Path(here.settings.data_root), llm_url, llm_model)
    pipeline = Pipeline(here, model)
    pipeline.run()
    _finish(here, pipeline)


def _root(given: Context, *, months: int, questions: int, embedded: bool) -> Context:
    """Return the context of the demo's own root, writing its settings; never touch a root that holds other data."""
    from hindcast_dagster import clock
    from hindcast_dagster.settings import Sample

    root = Path(given.data_root or Path(DEFAULT_ROOT) / "demo")
    first = Sample().first_month
    last = clock.shift_month(first, months)  # one more: markets of the last weeks close after the last dump
    config = _CONFIG.format(first=first, last=last, months=months)
    config += (
        _EMBEDDED_LIMITS.format(questions=questions)
        if embedded
        else _SERVER.format(roster=json.dumps(str(root / ROSTER)))
    )
    path = root / CONFIG_NAME
    if path.exists():
        if tomllib.loads(path.read_text(encoding="utf-8")).get("polymarket", {}).get("source") != "sample":
            raise UsageError(f"{root} holds real data; the demo wants a root of its own: --data-root data/demo.")
    elif root.is_dir() and any(root.iterdir()):
        raise UsageError(f"{root} is not empty and not a demo's root; choose another --data-root.")
    write_atomic(path, config.encode())
    return Context(data_root=str(root), json=given.json)


def _model(root: Path, url: str | None, name: str | None) -> str:
    """Return the slug of the model that answers; a server's model is added to the roster of this root."""
    if url is None or name is None:
        return EMBEDDED
    from hindcast_dagster.llm import roster

    entry = roster.ad_hoc(url, name)
    fields = entry.model_dump(mode="json", exclude={"slug"}, exclude_defaults=True, exclude_none=True)
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    write_atomic(root / ROSTER, "\n".join([f"[models.{entry.slug}]", *lines, ""]).encode())
    return entry.slug


def _finish(here: Context, pipeline: Pipeline) -> None:
    """Print the score table, the limits under which it was made, the report's path and the next step."""
    from hindcast_dagster.report.terminal import score_table
    from hindcast_dagster.scoring.build import score_document

    document = score_document(here.store, here.settings, eval_set=EVAL_SET)
    page = here.store.area("reports", EVAL_SET, "report.html")
    if here.json:
        here.emit(document | {"report": str(page), "seconds": round(time.monotonic() - pipeline.started, 1)})
        return
    here.out.print(score_table(document))
    here.out.print(Panel(_remarks(here.settings, pipeline.model), title="What these numbers are", expand=False))
    here.out.print(f"Report: {page}", soft_wrap=True)
    here.out.print(
        f"Look around: `hindcast status --data-root {here.settings.data_root}`, or `export "
        f"HINDCAST_DATA_ROOT={here.settings.data_root}` for every command.",
        soft_wrap=True,
    )
    here.out.print(
        "Next, with your own data: put RS_/RC_ dumps under data/dumps, then `hindcast corpus build --month 2024-01 "
        "--kind submissions`, `hindcast archive build --month 2024-01`, `hindcast markets fetch`; see README.md.",
        soft_wrap=True,
    )


def _remarks(settings: Settings, model: str) -> str:
    said = ["The sample world is invented: no post, person or market in it is real."]
    if model == EMBEDDED:
        limit, agent = settings.forecast.question_limit, settings.agent
        said.append(
            f"{EMBEDDED} is a 135M embedded model without forecasting skill: it shows that everything runs. Limits: "
            f"{limit} questions, {settings.forecast.runs} run, {agent.rounds} research round, "
            f"{agent.seed_queries} queries, {agent.evidence_tokens} evidence tokens."
        )
    return "\n".join(said)
