"""A small sealed world for audits: markets, prices, corpus, an eval set, and traces that a test can bend."""

from dataclasses import asdict, replace

from hindcast_dagster.archive.protocol import Document
from hindcast_dagster.clock import DAY, HOUR, instant, month_of
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.contracts.markets import MARKETS, PRICES
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.forecast import records, rows
from hindcast_dagster.forecast.fields import fingerprint
from hindcast_dagster.forecast.forecaster import Forecast, Seen, Step, Trace
from hindcast_dagster.forecast.records import Identity, TraceRecord, journal_of, to_record
from hindcast_dagster.questions.load import resolved
from hindcast_dagster.storage.tables import publish_table
from tests.toy_archive import document

SET = "small"
CLOSE = instant("2025-03-20T15:00:00Z")
T0 = instant("2025-03-19")
QUESTION = f"0x{1:064x}"
BEFORE = document("a1", T0 - 2 * DAY)
COMMENT = document("c1", T0 - DAY, "I agree.", link_id="a1")
AT_T0 = document("l1", T0)
EDITED = document("e1", T0 - DAY, text_as_of=T0)
VOTED = document("v1", T0 - DAY, engagement_as_of=T0)
UNVOTED = document("u1", T0 - DAY, engagement_as_of=None)
POSTS = (BEFORE, COMMENT, AT_T0, EDITED, VOTED, UNVOTED)


def corpus_row(found: Document):
    row = {name: getattr(found, name) for name in BY_KIND["submissions"].schema.names if hasattr(found, name)}
    return row | {"over_18": False, "deleted_later": False, "dump_sha256": "0" * 64}


def seal_corpus(store, posts=POSTS):
    kinds = {"submission": "submissions", "comment": "comments"}
    months = {(kinds[post.doc_type], post.month) for post in posts}
    for kind, month in sorted(months):
        rows = [corpus_row(post) for post in posts if (kinds[post.doc_type], post.month) == (kind, month)]
        contract = BY_KIND[kind]
        publish_table(store.partition(kind, month), contract.frame(rows), contract, code_version="1")


def market_row(**values):
    base = {
        "market_id": QUESTION, "gamma_id": None, "slug": None, "question": "Will it happen?", "rules": "As reported.",
        "addenda": "", "rules_sha256": "0" * 64, "event_id": None, "series": None, "tags": [], "topic": "Sports",
        "neg_risk": False, "yes_token": None, "no_token": None, "open_at": CLOSE - 20 * DAY, "planned_close": CLOSE,
        "close_at": CLOSE, "early_resolved": False, "outcome": "Yes", "excluded": None, "volume": None,
        "fetched_at": CLOSE + DAY, "raw_sha256": "0" * 64,
    }  # fmt: skip
    return base | values


def question_row(**values):
    base = {
        "id": QUESTION, "source": "polymarket", "event_id": None, "series": None, "text": "Will it happen?",
        "criteria": "As reported.", "options": ["Yes", "No"], "topic": "Sports", "duration": "medium", "tags": [],
        "open_at": CLOSE - 20 * DAY, "planned_close": CLOSE, "close_at": CLOSE, "t0": T0, "outcome": "Yes",
        "price_at_t0": 0.4, "price_age_s": HOUR, "price_route": "clob", "base_rate": 0.5, "base_rate_n": 0,
        "reference_rate": 0.5, "reference_n": 0, "flags": [],
    }  # fmt: skip
    return base | values


def seal_set(store, *, question=None, market=None, points=((T0 - DAY, 0.3), (T0 - HOUR, 0.4), (T0 + 60, 0.95))):
    month = month_of(CLOSE)
    rows = [market_row(**(market or {}))]
    parts = [
        publish_table(store.partition("markets", month), MARKETS.frame(rows), MARKETS, code_version="1"),
        publish_table(
            store.partition("market_prices", month),
            PRICES.frame(
                [
                    {"market_id": QUESTION, "at": at, "price": price, "route": "clob", "step_s": 60}
                    for at, price in points
                ]
            ),
            PRICES,
            code_version="1",
        ),
    ]
    frame = EVAL_SET.frame([question_row(**(question or {}))])
    pins = [part.as_input for part in parts]
    return publish_table(store.partition("eval_set", SET), frame, EVAL_SET, code_version="1", pins=pins)


def search_step(*posts, **detail):
    return Step("search", "search_database", {"query": "q", "cutoff": T0} | detail, [Seen.of(post) for post in posts])


def honest_steps():
    """What the archive would hand out: late votes withheld, late texts and late posts not there."""
    withheld = replace(VOTED, score=None, num_comments=None)
    return [
        search_step(BEFORE, withheld),
        Step("lookup", "getpostcommentslist", {"arguments": {}, "cutoff": T0}, [Seen.of(COMMENT)]),
        Step("call", "forecast", {"messages_sha256": "0" * 64, "reply": "{}"}),
    ]


def trace_record(
    steps=None,
    *,
    run=1,
    t0=T0,
    arm="retrieval",
    model="toy",
    prob_yes=0.7,
    question_id=QUESTION,
    mode="strict/withhold",
):
    identity = Identity(
        question_id,
        fingerprint(resolved(question_row()).question),
        t0,
        model,
        None,
        arm,
        "v1",
        archive_snapshot="0" * 64,
        archive_mode=mode,
        run=run,
    )
    forecast = Forecast(prob_yes, trace=Trace(honest_steps() if steps is None else list(steps)))
    return TraceRecord(identity.forecast_id, SET, identity, forecast, None, T0)


def write_trace(store, record):
    journal_of(store, arm=record.arm, model=record.model, eval_set=SET).write(record.forecast_id, to_record(record))
    return record


def forecast_row(record, **values):
    return rows.row(record) | values


def seal_forecasts(store, *found, **values):
    record = found[0]
    table = "market_baseline" if record.model == "none" else f"{record.arm}{records.SUFFIX}"
    key = (SET,) if record.model == "none" else (record.model, SET)
    told = FORECASTS.frame([forecast_row(record, **values) for record in found])
    publish_table(store.partition(table, *key), told, FORECASTS, code_version="1", stats=rows.counts(found))


def identity_of(record):
    return asdict(record.identity)
