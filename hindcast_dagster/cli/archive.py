"""`hindcast archive build`, and the five tools as commands: `search`, `post`, `comment`, `thread`, `author`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from hindcast_dagster import clock
from hindcast_dagster.archive.protocol import Document, Filters, SearchAnswer
from hindcast_dagster.archive.tools import many_json, one_json, search_json
from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import UsageError
from hindcast_dagster.storage.manifest import Manifest

if TYPE_CHECKING:
    from hindcast_dagster.archive.view import View

archive = typer.Typer(no_args_is_help=True, help="Sealed months to a searchable archive.")

SHOWN: Final = 400  # characters of a text on a terminal; --json has all of it

CutoffOption = Annotated[str, typer.Option("--cutoff", help="t0: an ISO instant, a date (00:00 UTC) or epoch seconds.")]
Subreddits = Annotated[list[str] | None, typer.Option("--subreddit", help="Only this one; may be repeated.")]
Author = Annotated[str | None, typer.Option(help="Only this author; exact.")]
Months = Annotated[list[str] | None, typer.Option("--month", help="Only this month, YYYY-MM; may be repeated.")]
Start = Annotated[str | None, typer.Option(help="Only what was created at or after this instant.")]
ModeOption = Annotated[
    Literal["strict", "paper"] | None,
    typer.Option(help="strict keeps back texts and votes of later than the cutoff; paper does not."),
]


def register(app: typer.Typer) -> None:
    """Add the group and the five tools."""
    app.add_typer(archive, name="archive")
    for command in (search, post, comment, thread, author):
        app.command()(command)


@archive.command()
def build(
    context: typer.Context,
    *,
    month: Annotated[str, typer.Option(help="The month, YYYY-MM.")],
    accept_hollow: Annotated[
        bool, typer.Option("--accept-hollow", help="Build a month whose votes are missing.")
    ] = False,
) -> None:
    """Embed and index a month: its submissions for search, its comments for look-ups.

    Kinds that the corpus has not sealed for that month are left out and named. A build that was interrupted goes on
    where it stopped.

    Example: hindcast archive build --month 2024-01
    """
    from hindcast_dagster.archive.build import build_comments, build_submissions
    from hindcast_dagster.storage.store import NotSealed

    given: Context = context.obj
    built: dict[str, Manifest] = {}
    missing: list[NotSealed] = []
    for kind, make in (("submissions", build_submissions), ("comments", build_comments)):
        with given.progress(f"{kind} {month}") as bar:
            try:
                built[kind] = make(given.store, given.settings, month=month, accept_hollow=accept_hollow, progress=bar)
            except NotSealed as error:
                missing.append(error)
    if not built:
        raise missing[0]
    absent = [str(error) for error in missing]
    document = {
        "month": month,
        "built": {kind: {"rows": each.rows, "version": each.version, **each.stats} for kind, each in built.items()},
        "missing": absent,
    }
    lines = [f"{kind} {month}: {each.rows} rows, version {each.version[:12]}" for kind, each in built.items()]
    given.emit(document, text="\n".join(lines + absent))


@archive.command()
def status(context: typer.Context) -> None:
    """Show every sealed month: its rows, disk, model, and how it is searched (exact, or through its index).

    Example: hindcast archive status --data-root data/demo
    """
    from hindcast_dagster.archive.open import open_archive

    given: Context = context.obj
    opened = open_archive(given.store, given.settings)
    months = opened.describe()
    given.emit({"snapshot": opened.snapshot, "months": months}, text=_status_table(months))


def search(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="What to look for.")],
    *,
    cutoff: CutoffOption,
    k: Annotated[int, typer.Option(help="How many hits.")] = 20,
    subreddit: Subreddits = None,
    author: Author = None,
    month: Months = None,
    start: Start = None,
    mode: ModeOption = None,
) -> None:
    """Find the submissions nearest in meaning, among those created strictly before the cutoff.

    Example: hindcast search "rate cut" --cutoff 2025-06-01 --subreddit Economics --k 5
    """
    given: Context = context.obj
    filters = _filters(subreddits=subreddit, author=author, months=month, start=start)
    answer = open_view(given, cutoff, mode, needs=("submissions",)).search_database(text, k=k, filters=filters)
    given.emit(search_json(answer), text=_search_text(answer))


def post(
    context: typer.Context,
    post_id: Annotated[
        str, typer.Argument(metavar="ID", help="A submission's id, with or without t3_, or its address.")
    ],
    *,
    cutoff: CutoffOption,
    mode: ModeOption = None,
) -> None:
    """Show one submission as it stood at the cutoff.

    Example: hindcast post t3_1ab2cd --cutoff 2025-06-01
    """
    given: Context = context.obj
    answer = open_view(given, cutoff, mode, needs=("submissions",)).getpostcoreinfo(post_id)
    given.emit(one_json(answer), text=_text(answer.documents, answer.note))


def comment(
    context: typer.Context,
    comment_id: Annotated[
        str, typer.Argument(metavar="ID", help="A comment's id, with or without t1_, or its address.")
    ],
    *,
    cutoff: CutoffOption,
    mode: ModeOption = None,
) -> None:
    """Show one comment as it stood at the cutoff.

    Example: hindcast comment t1_k9xyz1 --cutoff 2025-06-01
    """
    given: Context = context.obj
    answer = open_view(given, cutoff, mode, needs=("comments",)).getcommentcoreinfo(comment_id)
    given.emit(one_json(answer), text=_text(answer.documents, answer.note))


def thread(
    context: typer.Context,
    post_id: Annotated[str, typer.Argument(metavar="ID", help="The submission's id, or its address.")],
    *,
    cutoff: CutoffOption,
    comment: Annotated[str | None, typer.Option(help="Walk from this comment.")] = None,
    traversal: Annotated[Literal["all", "ancestors", "descendants"], typer.Option(help="Which way to walk.")] = "all",
    depth: Annotated[int, typer.Option(help="Levels of the thread, or steps from --comment.")] = 10,
    limit: Annotated[int, typer.Option(help="At most so many comments.")] = 100,
    author: Author = None,
    start: Start = None,
    mode: ModeOption = None,
) -> None:
    """List the comments under a post that existed at the cutoff, oldest first.

    Example: hindcast thread t3_1ab2cd --cutoff 2025-06-01 --depth 2
    """
    given: Context = context.obj
    answer = open_view(given, cutoff, mode, needs=("comments",)).getpostcommentslist(
        post_id,
        comment_id=comment,
        traversal=traversal,
        depth=depth,
        limit=limit,
        filters=_filters(author=author, start=start),
    )
    given.emit(many_json(answer), text=_text(answer.documents, answer.note))


def author(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The author, exactly as written.")],
    *,
    cutoff: CutoffOption,
    posts: Annotated[int, typer.Option(help="At most so many posts.")] = 5,
    comments: Annotated[int, typer.Option(help="At most so many comments.")] = 5,
    subreddit: Subreddits = None,
    month: Months = None,
    start: Start = None,
    mode: ModeOption = None,
) -> None:
    """List an author's most recent posts, then comments, that existed at the cutoff.

    Example: hindcast author some_name --cutoff 2025-06-01 --posts 10 --comments 0
    """
    given: Context = context.obj
    filters = _filters(subreddits=subreddit, months=month, start=start)
    needs = [kind for kind, wanted in (("submissions", posts), ("comments", comments)) if wanted > 0]
    view = open_view(given, cutoff, mode, needs=needs)
    answer = view.getauthorhistorylist(name, posts=posts, comments=comments, filters=filters)
    given.emit(many_json(answer), text=_text(answer.documents, answer.note))


def open_view(given: Context, cutoff: str, mode: str | None, *, needs: Sequence[str] = ()) -> "View":
    """Open the archive at the cutoff; the cutoff is read first, so that a wrong one fails at once.

    Raises `NotSealed` when no month of a kind that is needed has been built: an empty answer would hide that.
    """
    from hindcast_dagster.archive.open import open_archive
    from hindcast_dagster.storage.store import NotSealed

    t0 = clock.Cutoff.of(cutoff)
    settings = given.settings
    if mode is not None:
        settings = settings.model_copy(update={"archive": settings.archive.model_copy(update={"mode": mode})})
    opened = open_archive(given.store, settings)
    for kind in needs:
        if not getattr(opened, kind):
            raise NotSealed(
                f"The archive in {given.store.root} holds no {kind}: run `hindcast corpus build --month M --kind "
                f"{kind}`, then `hindcast archive build --month M`."
            )
    return opened.at(t0)


def _status_table(months: list[dict[str, Any]]) -> Table:
    table = Table("table", "month", "rows", "MiB", "model", "cut texts", "searched", box=None, header_style="bold")
    for found in months:
        shown = (found["model"], found["truncated"], found["searched"])
        words = ("" if value is None else str(value) for value in shown)
        table.add_row(found["table"], found["month"], f"{found['rows']:,}", f"{found['bytes'] / 2**20:,.1f}", *words)
    return table


def _filters(**values: Any) -> Filters:
    """Build the filter block. Raises `UsageError` naming the option."""
    for name, value in values.items():
        if value == "":  # a script's empty variable must not widen the search to everybody
            raise UsageError(f"--{name} is empty: leave it out, or say which.")
    try:
        return Filters(**{name: value for name, value in values.items() if value not in (None, [])})
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"--{str(first['loc'][0]).rstrip('s')}: {first['msg']}") from error


def _search_text(answer: SearchAnswer) -> Text:
    heads = [f"{number:3d}  {hit.distance:.4f}  " for number, hit in enumerate(answer.hits, start=1)]
    return _text([hit.document for hit in answer.hits], answer.note, heads)


def _text(documents: Sequence[Document], note: str, heads: Sequence[str] = ()) -> Text:
    """Return documents for a terminal: one line of facts, the title, and the beginning of the text."""
    out = Text()
    for index, found in enumerate(documents):
        out.append(heads[index] if heads else "")
        out.append(
            f"{found.key}  {clock.iso(found.created_at)}  r/{found.subreddit}  {_printable(found.author)}", style="bold"
        )
        out.append(f"  score {found.score}\n" if found.score is not None else "\n")
        if found.title:
            out.append(f"     {_one_line(found.title)}\n", style="italic")
        if body := _one_line(found.text):
            out.append(f"     {body[:SHOWN]}{'...' if len(body) > SHOWN else ''}\n")
    out.append(note, style="dim")
    out.rstrip()
    return out


def _one_line(text: str) -> str:
    return _printable(" ".join(text.split()))


def _printable(text: str) -> str:
    """Return untrusted text with a blank for all that a terminal would obey (escapes, bells, direction marks)."""
    return "".join(char if char.isprintable() else " " for char in text)
