"""`hindcast`: the entry point. Puts the groups together and turns errors into one sentence and an exit code."""

import json
import sys
import traceback
from importlib.metadata import version
from typing import Annotated, Final

import typer

from hindcast_dagster.cli.context import Context, inert
from hindcast_dagster.errors import HindcastError

app = typer.Typer(
    name="hindcast",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Replay resolved prediction markets at a past instant t0 and grade forecasters who saw nothing later.",
    epilog="Exit codes: 0 done; 2 wrong usage or configuration; 3 input refused; 4 something needed is not ready; "
    "1 a bug.",
)

INTERRUPTED: Final = "Interrupted. Nothing that was finished is lost; run the same command again."
INTERRUPTED_CODE: Final = 130
_FLAGS: Final = {"--json"}
_VALUED: Final = {"--data-root"}


def _show_version(value: bool) -> None:
    if value:
        typer.echo(version("hindcast-dagster"))
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    *,
    data_root: Annotated[str | None, typer.Option(help="Where everything is stored (default: data).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print exactly one JSON document to stdout.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """--data-root and --json are accepted before and after the subcommand."""
    del show_version
    context.obj = Context(data_root=data_root, json=as_json)


def hoist(arguments: list[str]) -> list[str]:
    """Move the root options to the front: they are accepted after a subcommand too. Nothing behind `--` moves."""
    stop = arguments.index("--") if "--" in arguments else len(arguments)
    front: list[str] = []
    rest: list[str] = []
    words = iter(arguments[:stop])
    for word in words:
        if word in _FLAGS or word.partition("=")[0] in _VALUED:
            front.append(word)
            if word in _VALUED:
                front.extend(value for value in [next(words, None)] if value is not None)
        else:
            rest.append(word)
    return front + rest + arguments[stop:]


def run(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    given = hoist(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        code = app(args=given, prog_name="hindcast", standalone_mode=False)
    except HindcastError as error:
        sys.exit(_fail(str(error), error.exit_code, as_json=as_json))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(_fail(INTERRUPTED, INTERRUPTED_CODE, as_json=as_json))
    except typer.TyperException as error:  # wrong usage; Typer carries its own Click, so click's classes catch nothing
        show = getattr(error, "show", None)
        if as_json or show is None:
            sys.exit(_fail(error.format_message(), 2, as_json=as_json))
        show()
        sys.exit(2)
    except Exception as error:  # noqa: BLE001 - the last place that can turn one into a sentence and a code
        sys.exit(_unforeseen(error, as_json=as_json))
    sys.exit(code if isinstance(code, int) else 0)


def _unforeseen(error: Exception, *, as_json: bool) -> int:
    """Say a full or unwritable disk in one sentence wherever it shows; anything else is a bug, with its trace."""
    from hindcast_dagster.storage.files import disk_error

    place = getattr(error, "filename", None) or "the data root"
    if (plain := disk_error(error, place)) is not None:
        return _fail(str(plain), plain.exit_code, as_json=as_json)
    traceback.print_exception(error)
    return _fail(f"This is a bug ({type(error).__name__}: {error}); please report it.", 1, as_json=as_json)


def _fail(message: str, code: int, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json.dumps({"error": {"message": message, "exit_code": code}}, ensure_ascii=False) + "\n")
    else:
        sys.stderr.write(f"hindcast: {inert(message)}\n")
    return code


def _add_groups() -> None:
    """Add every command module. They import nothing heavy at import time."""
    from hindcast_dagster.cli import register

    register.all_groups(app)


_add_groups()
