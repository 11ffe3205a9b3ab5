"""The report: what it says, what it refuses to say, what it escapes, and how it behaves in a real browser."""

import csv
import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.evalset.config import Choice, Config
from hindcast_dagster.forecast.forecaster import Seen
from hindcast_dagster.forecast.records import journal_of
from hindcast_dagster.report import build as reporting
from hindcast_dagster.report import latency, page
from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.report.gather import gather
from hindcast_dagster.scoring import build, compare
from hindcast_dagster.settings import load
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.store import Store, open_store
from hindcast_dagster.storage.tables import publish_table
from tests.score_world import (
    T0,
    journal,
    noisy,
    question,
    seal_audit,
    seal_baselines,
    seal_forecasts,
    seal_prices,
    seal_questions,
)  # fmt: skip

CHROMIUM = Path("/usr/bin/chromium")
HOSTILE = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">{{ 7*7 }}'
CANARY = "canary-of-a-post-7f3a"
HANDLE = "handle-of-an-author-7f3a"
NAME = "small"


def score(store: Store, **settings):
    found = load(data_root=str(store.root), **settings)
    build.build_scored(store, found, eval_set=NAME)
    build.build_tables(store, found, eval_set=NAME)
    compare.build(store, found, eval_set=NAME)
    return found


def draw(store: Store, settings, name: str = NAME) -> str:
    """The page without its figures: they take seconds and these tests look at words."""
    return page.render(gather(store, settings, eval_set=name), {})


def seen_by(row):
    if row["arm"] != "retrieval":
        return []
    before = row["t0"] - 86_400
    return [
        Seen(key="t3_abc1", created_at=before, text_as_of=before, engagement_as_of=row["t0"] + 5, engagement_shown=False),
        Seen(key=f"t1_def{row['run']}", created_at=before, text_as_of=before, engagement_as_of=None, engagement_shown=False),
    ]  # fmt: skip


def questions():
    rows = [question(n, outcome="Yes" if n % 3 else "No") for n in range(24)]
    rows[0] |= {"text": HOSTILE + " zebra", "criteria": HOSTILE + CANARY, "event_id": "<b>e</b>"}
    rows[1] |= {"text": "Will the aardvark win?", "flags": ["capped"]}
    return rows


def models(rows):
    for model, lift in (("smollm2", 0.0), ("gemma-3-4b", 0.1)):
        yield noisy(rows, arm="zero_shot", lift=lift, runs=2, model=model, rationale=HOSTILE)
        yield noisy(
            rows,
            arm="retrieval",
            lift=lift + 0.1,
            runs=2,
            model=model,
            evidence_quality="strong",
            stop_reason="confidence",
            model_revision=f"{HANDLE} said {CANARY}",
        )


def seal_models(store, rows):
    for made in models(rows):
        seal_forecasts(store, [{k: v for k, v in row.items() if k != "rationale"} for row in made])
        journal(
            store,
            [row | {"rationale": f"{HOSTILE} {CANARY}"} for row in made],
            seen=seen_by,
            query=f"{CANARY} {HANDLE}",
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Store:
    store, rows = open_store(tmp_path_factory.mktemp("report") / "root"), questions()
    seal_questions(
        store,
        rows,
        policy="day_before_close",
        excluded={"void_50_50": 3},
        flags={"capped": 1},
        gap_days={"median": 2.0},
    )
    seal_baselines(store, rows)
    seal_prices(store, rows)
    seal_models(store, rows)
    seal_audit(store)
    settings = score(store, polymarket={"source": "sample"})
    reporting.build(store, settings, eval_set=NAME)
    return store


@pytest.fixture(scope="module")
def html(world) -> str:
    return reporting.path_of(world, NAME).read_text(encoding="utf-8")


def data_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def card(html: str, name: str) -> str:
    return re.search(rf'<article class="card (\w+)" id="card-{name}">.*?</article>', html, re.DOTALL)[0]


def test_the_page_loads_nothing_from_anywhere(html):
    links = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert links
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in links)
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_the_policy_admits_exactly_the_page_s_own_script(html):
    import base64
    import hashlib

    script = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html


def test_texts_from_outside_are_data_and_never_markup(html):
    assert "<script>window.pwned" not in html
    assert "<img src=x" not in html
    assert "<b>e</b>" not in html
    assert html.count("</script>") == 2  # the data and the script, nothing else
    found = data_of(html)["questions"]
    assert any(each["text"] == HOSTILE + " zebra" for each in found)  # whole, as text
    assert any(f["why"].startswith(HOSTILE) for each in found for f in each["forecasts"] if "why" in f)
    assert "49" not in [each["text"][-9:-7] for each in found]  # a template inside a text is not run


@pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "\u2028", "&lt;", 'a"b', "</SCRIPT >"])
def test_embedded_json_cannot_close_its_element_and_reads_back(text):
    embedded = page.embed({"x": text})
    assert not set("<>&\u2028\u2029") & set(embedded)
    assert json.loads(embedded) == {"x": text}


def test_an_invented_world_and_a_model_without_skill_are_named_before_any_number(html):
    lead = html[: html.index('<section id="scores">')]
    assert "The sample world is invented" in lead
    assert "SmolLM2-135M (embedded) has no forecasting skill" in lead


def test_the_headline_table_holds_every_cell_and_the_market(html):
    table = html[html.index('<section id="scores">') : html.index('<section id="trust">')]
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", table))
    for word in (
        "SmolLM2-135M (embedded)",
        "Gemma-3-4B",
        "Zero-shot",
        "Retrieval",
        "Market price at t0",
        "Always one half",
    ):
        assert word in text
    assert "0.250" in text
    assert "48 2 runs" in text


def test_trust_cards_carry_the_counts(html):
    leaks, late = card(html, "leaks"), card(html, "late")
    assert "Nothing leaked" in leaks
    assert "1,234" in leaks
    assert 'class="card good"' in late
    assert ">192<" in late  # 2 models x 2 runs x 24 questions x 2 documents, every one with later votes, none shown
    assert "void 50 50" in card(html, "exclusions")
    assert "24 after its cutoff" in card(html, "contamination")
    assert "24 cutoff not published" in card(html, "contamination")


def test_every_figure_with_data_is_there_in_both_modes_and_as_png(world, html):
    names = {path.stem for path in (reporting.path_of(world, NAME).parent / "figures").glob("*.png")}
    assert {"headline", "topics", "topic_effects", "reliability", "scatter", "trajectory", "frontier"} <= names
    assert "frontier_seconds" in names
    assert "frontier_cost" not in names  # no model of this world has a price
    assert "sweep_brier" not in names  # one fraction is no sweep
    for name in names:
        figure = re.search(rf'id="figure-{name}">.*?</figure>', html, re.DOTALL)[0]
        assert figure.count("data:image/svg+xml") == 2


def test_small_pictures_for_an_event_log_stay_below_thirty_kilobytes(world):
    small = reporting.pictures(world, NAME)
    assert set(small) == {path.stem for path in (reporting.path_of(world, NAME).parent / "figures").glob("*.png")}
    assert all(data.startswith(b"\x89PNG") and len(data) < 30_000 for data in small.values())


def test_a_question_holds_prices_forecasts_reasons_and_document_ids(html):
    found = next(each for each in data_of(html)["questions"] if "aardvark" in each["text"])
    assert len(found["prices"]) == 30
    assert len(found["forecasts"]) == 3 + 8
    assert found["documents"][0][0] == "t3_abc1"
    assert found["documents_total"] == 3
    assert found["documents"][0][2] == 4  # both models, both runs


def test_the_same_input_gives_the_same_page(world):
    settings = load(data_root=str(world.root), polymarket={"source": "sample"})
    first = world.partition("report", NAME).manifest()
    second = reporting.build(world, settings, eval_set=NAME)
    assert second.without_time() == first.without_time()


# ---- what is not there -----------------------------------------------------------------------------------------

PARTS = {
    "Paired comparisons": "hindcast score --eval-set small",
    "Leak audit": "hindcast audit --eval-set small",
    "Price histories": "hindcast markets fetch",
    "Rationales and documents": "hindcast forecast run",
    "Retrieval latency": "python benchmarks/retrieval.py --out DATA_ROOT/benchmarks/retrieval.json",
}


def latency_file(store, **changes):
    """What `benchmarks/retrieval.py --out` writes (docs/archive.md), under the data root."""
    row = {"partitions": 3, "median_ms": 41.5, "p95_ms": 77.0, "embedding_share": 0.62, "queries": 32, "rows": 26_514}
    document = {
        "table3": [row | {"partitions": 25, "median_ms": 123.4, "rows": 220_950, "p95_ms": 222.2}, row | changes],
        "host": {
            "cpus": 2,
            "processor": "A CPU",
            "load": 0.1,
            "memory_gib": 23.4,
            "model": "minilm",
            "dimension": 1024,
        },
        "made_at": 1_764_500_000,
        "search": [{"more": "than the report shows"}],
    }
    path = store.area("benchmarks", "retrieval.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def test_a_part_without_input_says_so_with_its_command_and_fills_in_when_it_is_there(store, settings):
    rows = [question(n, outcome="Yes" if n % 2 else "No") for n in range(6)]
    seal_questions(store, rows)
    seal_baselines(store, rows)
    made = [noisy(rows, arm=arm, lift=0.1, runs=1) for arm in ("zero_shot", "retrieval")]
    for each in made:
        seal_forecasts(store, each)
    build.build_scored(store, settings, eval_set=NAME)
    build.build_tables(store, settings, eval_set=NAME)
    assert {part.what for part in gather(store, settings, eval_set=NAME).not_measured} == set(PARTS)
    bare = draw(store, settings)
    text = re.sub(r"<[^>]+>", "", bare)
    for what, command in PARTS.items():
        assert what in text
        assert command in text
    assert "Nothing leaked" not in bare
    assert "Arm minus zero-shot" not in bare

    compare.build(store, settings, eval_set=NAME)
    seal_prices(store, rows)
    for each in made:
        journal(store, each, seen=seen_by)
    seal_audit(store)
    latency_file(store)
    manifest = reporting.build(store, settings, eval_set=NAME)
    assert manifest.stats["not_measured"] == []
    full = reporting.path_of(store, NAME).read_text()
    table = re.search(r'aria-label="Retrieval latency".*?</figure>', full, re.DOTALL)[0]
    assert re.findall(r'scope="row"[^>]*>(\d+)<', table) == ["3", "25"]  # by months admitted, as in the paper
    for text in (">26,514<", ">42<", ">123<", ">222<", ">62<", ">144 / 155<", ">836 / 944<"):
        assert text in table
    assert "A CPU, 2 cores" in full
    assert "Nothing leaked" in full
    assert "Arm minus zero-shot" in full
    assert "trajectory" in manifest.stats["figures"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"median_ms": -1}, "table3.1.median_ms"),
        ({"median_ms": None}, "table3.1.median_ms"),
        ({"median_ms": 900.0}, "p95_ms is below median_ms"),
        ({"embedding_share": 62}, "table3.1.embedding_share"),
        ({"partitions": 0}, "table3.1.partitions"),
    ],
)
def test_a_benchmark_s_file_that_is_wrong_shows_no_number(store, changes, said):
    latency_file(store, **changes)
    found = latency.read(store)
    assert isinstance(found, NotMeasured)
    assert said in found.what
    assert found.command == PARTS["Retrieval latency"]


@pytest.mark.parametrize("data", ["", "{}", "[]", '{"table3": []', '{"table3": [], "host": {}, "made_at": 1}'])
def test_a_benchmark_s_file_that_is_cut_or_empty_is_not_measured(store, data):
    latency_file(store)
    store.area("benchmarks", "retrieval.json").write_text(data)
    assert isinstance(latency.read(store), NotMeasured)


def test_an_audit_of_other_forecasts_does_not_vouch_for_these(store, settings):
    rows = [question(n) for n in range(3)]
    seal_questions(store, rows)
    seal_forecasts(store, noisy(rows, arm="zero_shot", lift=0.1, runs=1))
    seal_audit(store)
    seal_forecasts(store, noisy(rows, arm="retrieval", lift=0.1, runs=1))
    score(store)
    assert "Leak audit" in {part.what for part in gather(store, settings, eval_set=NAME).not_measured}


def test_a_leak_is_the_first_thing_that_the_page_says(store, settings):
    rows = [question(n) for n in range(3)]
    seal_questions(store, rows)
    seal_forecasts(store, noisy(rows, arm="retrieval", lift=0.1, runs=1))
    leak = {"kind": "created_after_t0", "question_id": rows[0]["id"], "model": "toy-1b", "arm": "retrieval", "run": 1}
    seal_audit(store, rows=[leak | {"step": "0:search", "document": "t3_x", "detail": "later"}])
    score(store)
    found = card(draw(store, settings), "leaks")
    assert 'class="card bad"' in found
    assert "1 violation" in found
    assert "created after t0" in found


@pytest.mark.parametrize(
    ("stats", "verdict", "headline"),
    [
        ({"documents": 7}, "good", "Nothing leaked"),
        ({"documents": 0}, "unknown", "No document was read"),
        ({"documents": 7, "unverified": 2}, "warn", "2 questions could not be checked"),
        ({"documents": 7, "unverified": 0, "imported": 3}, "warn", "3 imported forecasts not vouched for"),
    ],
)
def test_an_audit_vouches_for_no_more_than_it_looked_at(store, settings, stats, verdict, headline):
    rows = [question(n) for n in range(2)]
    seal_questions(store, rows)
    seal_forecasts(store, noisy(rows, arm="retrieval", lift=0.1, runs=1))
    seal_audit(store, **stats)
    score(store)
    found = card(draw(store, settings), "leaks")
    assert f'class="card {verdict}"' in found
    assert headline in found


@pytest.mark.parametrize("change", ["edited", "removed", "never sealed"])
def test_an_audit_vouches_only_for_the_traces_that_it_read(store, settings, change):
    rows = [question(n) for n in range(2)]
    made = noisy(rows, arm="retrieval", lift=0.1, runs=1)
    seal_questions(store, rows)
    seal_forecasts(store, made)
    journal(store, made, seen=seen_by)
    score(store)
    seal_audit(store)
    assert "Nothing leaked" in card(draw(store, settings), "leaks")
    path = min(journal_of(store, arm="retrieval", model=made[0]["model"], eval_set=NAME).path.glob("*.json"))
    if change == "edited":
        path.write_bytes(path.read_bytes().replace(b'"cutoff": ', b'"cutoff": 1'))
    elif change == "removed":
        path.unlink()
    else:
        journal(store, noisy(rows, arm="other", lift=0.1, runs=1), seen=seen_by)
    assert "Not measured" in card(draw(store, settings), "leaks")


@pytest.mark.parametrize(
    ("verdicts", "verdict", "headline"),
    [
        (("ok", "ok"), "good", "No hollow month"),
        (("ok", "hollow"), "bad", "1 of 2 months are hollow"),
        (("unknown", "ok"), "warn", "1 of 2 months of unknown health"),
        ((), "unknown", "No archive pinned"),
    ],
)
def test_hollow_months_behind_the_archive_are_named(store, settings, verdicts, verdict, headline):
    pins = []
    for number, word in enumerate(verdicts, start=1):
        month = f"2026-{number:02d}"
        with store.partition("submissions", month).draft() as draft:
            sealed = draft.seal(rows=0, schema_version="x", code_version="x", stats={"health": {"verdict": word}})
        pins.append(Input(table="submission_index", key=(month,), version=sealed.version))
    rows = [question(n) for n in range(2)]
    publish_table(store.partition("eval_set", NAME), EVAL_SET.frame(rows), EVAL_SET, code_version="x", pins=pins)
    seal_forecasts(store, noisy(rows, arm="retrieval", lift=0.1, runs=1))
    score(store)
    found = card(draw(store, settings), "months")
    assert f'class="card {verdict}"' in found
    assert headline in found


def test_a_set_that_was_not_selected_is_not_told_to_make_a_twin_that_would_be_refused(store, settings):
    rows = [question(n) for n in range(2)]
    publish_table(
        store.partition("eval_set", NAME), EVAL_SET.frame(rows), EVAL_SET, code_version="x", stats={"selection": None}
    )
    seal_forecasts(store, noisy(rows, arm="retrieval", lift=0.1, runs=1))
    score(store)
    found = card(draw(store, settings), "twin")
    assert "Nothing was selected" in found
    assert "hindcast evalset twin" not in found


def test_the_outcome_blind_twin_is_shown_beside_its_set_once_it_is_scored(store, settings):
    chosen = Config.of(policy="day_before_close", size=4)
    blind = Config.of(policy="day_before_close", size=4, keep="any", choice=Choice(blind=True))
    for name, lift, config in ((NAME, 0.2, chosen), (f"{NAME}-blind", 0.0, blind)):
        rows = [question(n) for n in range(4)]
        seal_questions(store, rows, name=name, config=config.as_stats(), selection={})
        seal_forecasts(store, noisy(rows, arm="retrieval", lift=lift, runs=1, eval_set=name), name=name)
        build.build_scored(store, settings, eval_set=name)
        if name == NAME:
            build.build_tables(store, settings, eval_set=name)
            assert "hindcast evalset twin small" in card(draw(store, settings), "twin")
    build.build_tables(store, settings, eval_set=f"{NAME}-blind")
    ours, theirs = (
        build.read_cells(store, name)[0].filter(pl.col("n") > 0)["brier"][0] for name in (NAME, f"{NAME}-blind")
    )
    html = draw(store, settings)
    assert f"Brier {ours:.3f}, twin {theirs:.3f}" in card(html, "twin")
    headline = html[html.index('<section id="scores">') : html.index('<section id="trust">')]
    assert "Brier, blind twin" in headline, "every headline shows both"
    assert f"{theirs:.3f}" in headline
    twin = draw(store, settings, f"{NAME}-blind")
    assert "Brier, chosen set" in twin
    for other in (chosen, replace(blind, seed=8), replace(blind, policy=chosen.policy.parse("lookback:0.5")), None):
        told = {} if other is None else other.as_stats()
        seal_questions(store, rows, name=f"{NAME}-blind", config=told, selection={})
        assert "not measured" in card(draw(store, settings), "twin").lower(), "a name alone makes no twin"
    assert f"{ours:.3f}" in twin[twin.index('<section id="scores">') : twin.index('<section id="trust">')]


def test_the_funnel_stands_beside_the_papers_with_every_exclusion_and_its_reason(store, settings):
    rows = [question(n) for n in range(4)]
    steps = [
        {"step": "resolved Yes or No", "markets": 40, "events": 30, "no_share": 0.75, "excluded": {"void_50_50": 7},
         "paper": {"step": "resolved Yes or No", "markets": 3427, "events": None, "no_share": 0.831923}},
        {"step": "selected", "markets": 4, "events": 4, "no_share": 0.5, "excluded": {"not_needed_for_balance": 9},
         "paper": None},
    ]  # fmt: skip
    taken = [{"outcome": "Yes", "topic": "Sports", "available": 11, "taken": 2}]
    stats = {"funnel": steps, "selection": {"taken": taken}}
    publish_table(store.partition("eval_set", NAME), EVAL_SET.frame(rows), EVAL_SET, code_version="x", stats=stats)
    seal_forecasts(store, noisy(rows, arm="retrieval", lift=0.1, runs=1))
    score(store)
    html = draw(store, settings)
    section = html[html.index('<section id="choice">') : html.index('<section id="strata">')]
    for said in (
        "3,427",
        "83",
        "7 void 50 50",
        "9 not needed for balance",
        ">11<",
        "Knowledge cutoffs",
        "ministral-8b",
    ):
        assert said in section, said


def test_late_values_that_were_shown_are_a_warning(store, settings):
    rows = [question(0)]
    seal_questions(store, rows)
    made = noisy(rows, arm="retrieval", lift=0.1, runs=1)
    seal_forecasts(store, made)
    shown = Seen(key="t3_a", created_at=T0 - 9, text_as_of=T0 + 9, engagement_as_of=T0 + 9, engagement_shown=True)
    journal(store, made, seen=lambda row: [shown])
    score(store)
    found = card(draw(store, settings), "late")
    assert 'class="card warn"' in found
    assert "2 late values were shown" in found


def test_missing_cells_stand_above_the_scores(store, settings):
    rows = [question(n) for n in range(3)]
    seal_questions(store, rows)
    seal_forecasts(store, noisy(rows, arm="zero_shot", lift=0.1, runs=1))
    score(store)
    html = draw(store, settings)
    assert html.index("toy-1b / retrieval: 15 of 15 forecasts missing") < html.index('<section id="scores">')


def test_a_lookback_sweep_is_drawn_from_its_sibling_sets(store, settings):
    rows = [question(n, outcome="Yes" if n % 2 else "No") for n in range(8)]
    for name, fraction in (("back-25", 0.25), ("back-50", 0.5), ("back-100", 1.0)):
        moved = [row | {"t0": T0 - int((1 - fraction) * 30 * 86_400)} for row in rows]
        seal_questions(store, moved, name=name, policy=f"lookback:{fraction!r}")
        seal_baselines(store, moved, name=name)
        for arm in ("zero_shot", "retrieval"):
            seal_forecasts(store, noisy(moved, arm=arm, lift=0.1, runs=2, eval_set=name), name=name)
        build.build_scored(store, settings, eval_set=name)
        build.build_tables(store, settings, eval_set=name)
    seal_prices(store, rows)
    manifest = reporting.build(store, settings, eval_set="back-25")
    assert {"sweep_brier", "sweep_accuracy", "trajectory"} <= set(manifest.stats["figures"])
    html = reporting.path_of(store, "back-25").read_text()
    table = html[html.index('aria-label="Lookback sweep"') :]
    for share in ("25", "50", "100"):
        assert f">{share}</td>" in table


# ---- the release bundle ----------------------------------------------------------------------------------------


def test_words_that_an_arm_wrote_where_names_are_expected_stay_at_home(store, settings):
    words = f"{HANDLE} said {CANARY}"
    rows = [question(n) for n in range(2)]
    made = noisy(rows, arm="retrieval", lift=0.1, runs=1, parse_step=words, model_revision=words)
    seal_questions(store, rows)
    seal_forecasts(store, made)
    own = Seen(key=words, created_at=0, text_as_of=0, engagement_as_of=None, engagement_shown=False)
    journal(store, made, seen=lambda row: [own, *seen_by(row)])
    score(store)
    reporting.build(store, settings, eval_set=NAME)
    folder = reporting.path_of(store, NAME).parent / "release"
    assert (folder / "documents.csv").read_text().count("t3_abc1") == 2
    for path in folder.iterdir():
        assert not {word for word in (CANARY, HANDLE) if word.encode() in path.read_bytes()}, path.name


def bundle(world) -> dict[str, bytes]:
    folder = reporting.path_of(world, NAME).parent / "release"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_bundle_holds_no_text_of_a_post_a_market_or_a_model(world):
    files = bundle(world)
    texts = {
        name: pl.read_parquet(io.BytesIO(data)).write_csv() for name, data in files.items() if name.endswith(".parquet")
    }
    texts |= {name: data.decode() for name, data in files.items() if not name.endswith(".parquet")}
    assert len(texts) > 8
    for name, text in texts.items():
        for word in (CANARY, HANDLE, "pwned", "aardvark", "zebra", "Resolves Yes if"):
            assert word not in text, name


def test_the_bundle_can_be_read_and_checked_by_others(world):
    import hashlib

    files = bundle(world)
    rows = list(csv.DictReader(io.StringIO(files["forecasts.csv"].decode())))
    assert len(rows) == 24 * (3 + 8)
    assert pl.read_parquet(io.BytesIO(files["questions.parquet"])).height == 24
    assert "t3_abc1" in files["documents.csv"].decode()
    for line in files["SHA256SUMS"].decode().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256(files[name]).hexdigest() == digest
    readme = files["README.md"].decode()
    assert "hindcast evalset build small --t0 day_before_close" in readme
    assert "invented" in readme
    assert "Research use only" in readme
    made = json.loads(files["manifests.json"])["made_from"]
    assert {"eval_set", "retrieval_forecasts", "scored_forecasts"} <= {each["table"] for each in made}


def test_scores_can_be_computed_again_from_the_bundle_alone(world):
    files = bundle(world)
    forecasts, asked = (
        pl.read_csv(files[f"{name}.csv"], infer_schema_length=None) for name in ("forecasts", "questions")
    )
    joined = forecasts.join(asked.select(pl.col("id").alias("question_id"), "outcome"), on="question_id")
    error = (pl.col("prob_yes") - (pl.col("outcome") == "Yes").cast(pl.Int64)) ** 2
    runs = joined.group_by("model", "arm", "run").agg(error.mean().alias("brier"))
    means = runs.group_by("model", "arm").agg(pl.col("brier").mean())
    ours = {(model, arm): brier for model, arm, brier in means.iter_rows()}
    for model, arm, brier in pl.read_csv(files["cells.csv"]).select("model", "arm", "brier").iter_rows():
        assert ours[model, arm] == pytest.approx(brier)


# ---- a real browser --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        assert not os.environ.get("CI"), "Chromium must be installed where CI runs (apt-get install chromium)."
        pytest.skip("Chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser, world):
    """A function that opens the report; what the page asks for and complains about must stay empty."""
    complaints: list[str] = []
    contexts = []

    def open_page(**options):
        context = browser.new_context(**options)
        contexts.append(context)
        tab = context.new_page()
        address = reporting.path_of(world, NAME).as_uri()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on(
            "request",
            lambda request: None if request.url.startswith((address, "data:")) else complaints.append(request.url),
        )
        tab.goto(address)
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def column(tab, number: int) -> list[str]:
    return tab.locator(f"#browser tbody tr > td:nth-child({number})").all_inner_texts()


@pytest.mark.browser
def test_questions_can_be_sorted_filtered_and_opened(opened):
    tab = opened()
    assert tab.locator("#browser tbody tr").count() == 24
    tab.get_by_role("button", name="Brier", exact=True).click()
    rising = [float(text) for text in column(tab, 8)]
    assert rising == sorted(rising)
    tab.get_by_role("button", name="Brier", exact=True).click()
    assert [float(text) for text in column(tab, 8)] == rising[::-1]
    assert tab.locator("#browser th[aria-sort=descending]").inner_text().startswith("Brier")
    tab.locator("#outcome").select_option("No")
    assert set(column(tab, 4)) == {"No"}
    tab.locator("#outcome").select_option("")
    tab.locator("#find").fill("AARDVARK win")
    assert column(tab, 1) == ["Will the aardvark win?"]
    tab.get_by_role("button", name="Will the aardvark win?").click()
    panel = tab.locator(".panel")
    assert panel.locator("svg path").count() == 1
    assert "t3_abc1" in panel.inner_text()
    panel.locator("summary", has_text="Gemma-3-4B, retrieval, run 1").click()
    assert CANARY in panel.locator("details[open] .why").inner_text()
    tab.get_by_role("button", name="Will the aardvark win?").click()
    assert tab.locator(".panel").count() == 0


@pytest.mark.browser
def test_a_hostile_text_is_shown_and_does_nothing(opened):
    tab = opened()
    tab.locator("#find").fill("zebra")
    tab.get_by_role("button", name="zebra").click()
    assert HOSTILE in tab.locator(".panel .criteria").inner_text()
    for summary in tab.locator(".panel summary").all():
        summary.click()
    assert tab.evaluate("window.pwned") is None
    assert tab.locator("#browser img").count() == 0


@pytest.mark.browser
def test_choosing_a_model_changes_the_numbers(opened):
    tab = opened()
    before = column(tab, 7)
    tab.locator("#model").select_option("smollm2")
    assert column(tab, 7) != before


@pytest.mark.browser
def test_the_page_fits_a_phone_and_only_tables_scroll_sideways(opened):
    tab = opened(viewport={"width": 360, "height": 740})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.locator("#browser tbody button").first.click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360


STICKING_OUT = """() => [...document.querySelectorAll('main *')]
  .filter((node) => !node.closest('.scroll, svg, .panel') && node.getBoundingClientRect().right > innerWidth + 1)
  .map((node) => node.outerHTML.slice(0, 80))"""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("desktop", {"viewport": {"width": 1280, "height": 900}}),
        ("dark", {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"}),
        ("phone", {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2}),
        ("tablet", {"viewport": {"width": 820, "height": 1180}}),
    ],
)
def test_nothing_sticks_out_of_the_page_and_every_picture_is_drawn(opened, tmp_path, name, options):
    """REPORT_SCREENSHOTS=DIR keeps the pictures of the page that this test takes."""
    tab = opened(**options)
    tab.locator("#browser tbody button").first.click()
    assert tab.evaluate(STICKING_OUT) == []
    drawn = tab.evaluate("[...document.images].filter((i) => i.checkVisibility()).map((i) => i.naturalWidth)")
    assert len(drawn) >= 7
    assert all(width > 200 for width in drawn)
    path = Path(os.environ.get("REPORT_SCREENSHOTS", tmp_path)) / f"report-{name}.png"
    tab.screenshot(path=path, full_page=True)
    assert path.stat().st_size > 50_000


@pytest.mark.browser
def test_light_and_dark_follow_the_reader_and_the_button(opened):
    tab = opened(color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = tab.evaluate(background)
    assert tab.locator("#figure-headline img.on-dark").is_visible()
    assert not tab.locator("#figure-headline img.on-light").is_visible()
    tab.locator("#theme").click()
    assert tab.evaluate(background) != dark
    assert tab.locator("#figure-headline img.on-light").is_visible()


@pytest.mark.browser
def test_print_shows_all_tables_on_white(opened):
    tab = opened(color_scheme="dark")
    tab.emulate_media(media="print", color_scheme="dark")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("details.fold:not([open])").count() == 0
    assert tab.locator("#figure-headline img.on-light").is_visible()
    assert not tab.locator("#filters").is_visible()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(tab.pdf()) > 50_000


@pytest.mark.browser
def test_a_link_to_a_question_opens_it(browser, world):
    with browser.new_context() as context:
        tab = context.new_page()
        tab.goto(f"{reporting.path_of(world, NAME).as_uri()}#q-{question(1)['id']}")
        assert tab.locator(".panel").count() == 1
        assert "capped" in tab.locator(".panel .facts").first.inner_text()


@pytest.mark.browser
def test_the_page_says_where_the_script_is_missing(browser, world):
    with browser.new_context(java_script_enabled=False) as context:
        tab = context.new_page()
        tab.goto(reporting.path_of(world, NAME).as_uri())
        assert "needs the script" in tab.locator("noscript").inner_text()
        assert tab.locator("#scores table tbody tr").count() > 7
