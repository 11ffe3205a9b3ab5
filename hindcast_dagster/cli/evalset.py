"""`hindcast evalset`: build, look at and move the frozen lists of questions that forecasters answer."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from hindcast_dagster.cli import evalset_text
from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import UsageError

Name = Annotated[str, typer.Argument(help="Name of the eval set: a-z, 0-9, - and _.")]
Limit = Annotated[int, typer.Option(min=0, help="Questions listed at most; --json always has all.")]
Offset = Annotated[int, typer.Option(min=0, help="Questions skipped before the first that is listed.")]
LISTED = 20
_SHOWN = ("id", "event_id", "t0", "outcome", "price_at_t0", "price_age_s", "topic", "duration")


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, help="Eval sets: frozen lists of (market, t0) with the price at t0.")
    group.command("build")(build)
    group.command("twin")(twin)
    group.command("sweep")(sweep)
    group.command("list")(list_sets)
    group.command("show")(show)
    group.command("export")(export)
    group.command("import")(import_set)
    app.add_typer(group, name="evalset")


def build(
    context: typer.Context,
    name: Name,
    *,
    t0: Annotated[
        str, typer.Option("--t0", help="day_before_close, lookback:F (0 < F <= 1), days_before:N or fixed:T.")
    ],
    archive_end: Annotated[str | None, typer.Option(help="No t0 later than this; the paper's is 2026-01-31.")] = None,
    take_all: Annotated[bool, typer.Option("--all", help="Every sealed market.")] = False,
    closed_from: Annotated[str | None, typer.Option(help="First close: a date or an instant.")] = None,
    closed_to: Annotated[str | None, typer.Option(help="Last close; a date is meant with its whole day.")] = None,
    markets: Annotated[Path | None, typer.Option(help="Market ids, one a line; of a CSV the first column.")] = None,
    vintage: Annotated[
        str | None, typer.Option(help="The markets that resolved since this eval set was built.")
    ] = None,
    max_price_age: Annotated[float | None, typer.Option(help="Drop prices older than so many hours at t0.")] = None,
    size: Annotated[int | None, typer.Option(help="Select so many, balanced by outcome, then topic.")] = None,
    seed: Annotated[int, typer.Option(help="Decides picks and ties of --size.")] = 0,
    topics_by: Annotated[
        str | None, typer.Option(help="A model of the roster that sorts questions whose tags tell no topic.")
    ] = None,
    keep: Annotated[
        str, typer.Option(help="Evidence that --size keeps: auto (strong where probed), any, or strong,weak,none.")
    ] = "auto",
    balanced: Annotated[
        bool, typer.Option(help="Select as many as the rarer outcome allows (--size without N).")
    ] = False,
    per_event: Annotated[int | None, typer.Option(help="Select at most so many markets of one event.")] = None,
    price_band: Annotated[
        str | None,
        typer.Option(help="Select only prices at t0 in LOW,HIGH: leaves out what was decided, e.g. 0.02,0.98."),
    ] = None,
    min_lead: Annotated[
        float | None, typer.Option(help="Select only markets that close at least so many hours after t0.")
    ] = None,
) -> None:
    """Build an eval set. It is immutable: the same command again returns it, another configuration is refused.

    Example: hindcast evalset build paper-like --t0 day_before_close --archive-end 2026-01-31 --all
    """
    from hindcast_dagster.evalset.build import build as run
    from hindcast_dagster.evalset.config import Choice

    chosen = sum((take_all, closed_from is not None or closed_to is not None, markets is not None, vintage is not None))
    if chosen != 1:
        raise UsageError(
            "Choose the markets in exactly one way: --all, --closed-from/--closed-to, --markets FILE or --vintage NAME."
        )
    obj: Context = context.obj
    with obj.progress("eval set") as bar:
        run(
            obj.store,
            obj.settings,
            name=name,
            policy=t0,
            archive_end=archive_end,
            market_ids=None if markets is None else _read_ids(markets),
            closed_from=closed_from,
            closed_to=closed_to,
            vintage=vintage,
            max_price_age_h=max_price_age,
            size=size,
            seed=seed,
            keep=keep,
            choice=Choice(balanced=balanced, per_event=per_event, price_band=_band(price_band), min_lead_h=min_lead),
            topics_by=topics_by,
            progress=bar,
        )
    _emit(obj, name)


def twin(context: typer.Context, name: Name) -> None:
    """Build the outcome-blind twin of a selected set: same size, by |evidence| at t0, without looking at outcomes.

    It needs the probe at t0 over the same close window. Every headline then shows both sets.

    Example: hindcast evalset twin paper-like
    """
    from hindcast_dagster.evalset.twin import build_twin, name_of

    obj: Context = context.obj
    with obj.progress("eval set") as bar:
        build_twin(obj.store, obj.settings, name=name, progress=bar)
    _emit(obj, name_of(name))


def sweep(
    context: typer.Context,
    name: Name,
    *,
    count: Annotated[
        int | None, typer.Option("--points", help="A trajectory of so many points; default: 25, 50, 75 and 100 %.")
    ] = None,
) -> None:
    """Build sets over the same markets at several points of their lives: a lookback sweep, or a trajectory.

    Example: hindcast evalset sweep paper-like

    `hindcast forecast sweep` builds them too, asks models about them and scores them.
    """
    from hindcast_dagster.evalset.sweep import build_sweep, points

    obj: Context = context.obj
    with obj.progress("eval sets") as bar:
        found = build_sweep(
            obj.store,
            obj.settings,
            name=name,
            fractions=points(count),
            progress=bar,
        )
    sets = [
        {"name": manifest.key[0], "fraction": fraction, "questions": manifest.rows}
        for fraction, manifest in found.sets.items()
    ]
    told = "\n".join(f"{one['name']}: {one['questions']} questions at {one['fraction']:.0%}" for one in sets)
    document = {"name": name, "sets": sets, "left_out": found.left_out}
    obj.emit(
        document,
        text=f"{told}\n{found.left_out} markets are not sealed here or have no price at some point, and are left out.",
    )


def list_sets(context: typer.Context) -> None:
    """List the eval sets.

    Example: hindcast evalset list --json | jq '.eval_sets[].name'
    """
    obj: Context = context.obj
    sets = [
        {
            "name": manifest.key[0],
            "questions": manifest.rows,
            "policy": manifest.stats.get("policy"),
            "archive_end": manifest.stats.get("archive_end"),
            "median_gap_days": (manifest.stats.get("gap_days") or {}).get("median"),
            "version": manifest.version[:12],
        }
        for manifest in obj.store.manifests("eval_set")
    ]
    table: Table | str = "No eval set yet: see `hindcast evalset build --help`."
    if sets:
        table = Table(*sets[0], box=box.SIMPLE, pad_edge=False)
        for row in sets:
            table.add_row(*("" if value is None else escape(str(value)) for value in row.values()))
    obj.emit({"eval_sets": sets}, text=table)


def show(context: typer.Context, name: Name, *, limit: Limit = LISTED, offset: Offset = 0) -> None:
    """Show an eval set: its questions, what was left out and why, and how t0 lies to the close.

    Example: hindcast evalset show paper-like --offset 20
    """
    _emit(context.obj, name, limit=limit, offset=offset)


def export(
    context: typer.Context,
    name: Name,
    *,
    out: Annotated[Path | None, typer.Option(help="Where to write it; default: exports/ in the data root.")] = None,
) -> None:
    """Write an eval set as one JSON file that another machine can import: no post text, no archive.

    Example: hindcast evalset export paper-like --out paper-like.json
    """
    from hindcast_dagster.evalset.portable import export as run

    obj: Context = context.obj
    written = run(obj.store, name=name, out=out)
    obj.emit(
        {"name": name, "path": str(written.path), "questions": written.questions, "sha256": written.sha256},
        text=f"{written.questions} questions in {written.path}",
    )


def import_set(
    context: typer.Context, file: Annotated[Path, typer.Argument(help="What `evalset export` wrote.")]
) -> None:
    """Import an eval set. A known name with other content is refused.

    Example: hindcast evalset import paper-like.json
    """
    from hindcast_dagster.evalset.portable import import_file

    obj: Context = context.obj
    manifest = import_file(obj.store, file)
    _emit(obj, manifest.key[0])


def _read_ids(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--markets {path} cannot be read: {error}.") from error
    ids = [line.partition("#")[0].partition(",")[0].strip() for line in lines]
    ids = ids[1:] if ids and ids[0] in {"id", "market_id"} else ids  # the heading of a CSV
    if not any(ids):
        raise UsageError(f"--markets {path} names no market: write one condition id a line.")
    return [market for market in ids if market]


def _band(text: str | None) -> tuple[float, float] | None:
    from hindcast_dagster.evalset.config import price_band

    try:
        return price_band([float(part) for part in text.split(",")] if text is not None else [])
    except ValueError as error:
        raise UsageError(f"--price-band {text!r}: write two prices, for example 0.02,0.98.") from error


def _emit(obj: Context, name: str, *, limit: int = LISTED, offset: int = 0) -> None:
    """Print an eval set; what its checks found goes to stderr too, so that nobody overlooks it."""
    from hindcast_dagster.contracts.questions import EVAL_SET
    from hindcast_dagster.evalset.checks import warnings
    from hindcast_dagster.evalset.contamination import view
    from hindcast_dagster.questions.load import frozen
    from hindcast_dagster.storage.tables import read_table

    sealed = frozen(obj.store, name)
    frame, stats = read_table(sealed, EVAL_SET), sealed.manifest.stats
    questions = [
        {key: row[key] for key in _SHOWN} | {"flags": row["flags"], "close_at": row["close_at"], "text": row["text"]}
        for row in frame.iter_rows(named=True)
    ]
    document: dict[str, Any] = {"name": name, "version": sealed.manifest.version, "questions": questions}
    document |= {key: stats.get(key) for key in _SUMMARY}
    document["excluded"] = stats.get("excluded", {})
    document["contamination"] = [exposure._asdict() for exposure in view(obj.store, obj.settings, name)]
    document["warnings"] = warnings(sealed.manifest.checks)
    for warning in document["warnings"]:
        obj.err.print(f"Warning: {warning}", markup=False, style="yellow")
    obj.emit(document, text=evalset_text.whole(name, document, limit=limit, offset=offset))


_SUMMARY = (
    "policy", "archive_end", "config", "gap_days", "capped_share", "decided_share", "yes_share", "stale_share", "flags",
    "topics", "durations", "outcomes", "without_topic", "topics_by_model", "evidence", "judge", "selection", "funnel",
)  # fmt: skip
