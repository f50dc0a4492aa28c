"""The command ``tidytape`` and how its errors look."""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from tidytape._version import __version__
from tidytape.cli import _cache as cache
from tidytape.cli import _demo as demo
from tidytape.cli import _fetch as fetch
from tidytape.cli import _ingest as ingest
from tidytape.cli import _keys as keys
from tidytape.cli import _lake as lake
from tidytape.cli import _openapi as openapi
from tidytape.cli import _prediction as prediction
from tidytape.cli import _replay as replay
from tidytape.cli import _report as report
from tidytape.cli import _rollup as rollup
from tidytape.cli import _serve as serve
from tidytape.cli import _tape as tape
from tidytape.cli._examples import add_examples
from tidytape.errors import BudgetError, IngestError, QueryError, TidytapeError, escaped

EXIT_CODES = {
    0: "done",
    1: "something is wrong: a check found it, a part is missing, or the command failed",
    2: "the command line cannot be right: nothing was done",
    130: "interrupted by Ctrl-C; replay and ingest --follow end with 0 instead",
}
"""What each exit code means, the same for every command."""

_EPILOG = "\n".join(
    ["\b", "Exit codes:", *(f"  {code:<3}  {meaning}" for code, meaning in EXIT_CODES.items())]
)
_DEBUG = "--debug"

app = typer.Typer(
    name="tidytape",
    help="Market data as tidy frames: fetch, store, serve, analyse and draw them.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
ingest.app.command("polymarket-gamma")(prediction.polymarket_gamma)
app.add_typer(ingest.app, name="ingest")
app.add_typer(fetch.app, name="fetch")
app.add_typer(fetch.plans, name="plan")
app.add_typer(keys.app, name="keys")
app.command("replay")(replay.replay)
app.command("rollup")(rollup.rollup)
app.add_typer(lake.app, name="lake")
app.command("markets")(fetch.markets)
app.command("usage")(fetch.usage)
app.add_typer(cache.app, name="cache")
app.add_typer(tape.app, name="tape")
app.command("serve")(serve.serve)
app.command("openapi")(openapi.openapi)
app.command("report")(report.report)
app.command("demo")(demo.demo)
add_examples(app)

_INTERRUPTED = 130


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidytape {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            _DEBUG, help="Also print the traceback of an error; it may stand anywhere in the command."
        ),
    ] = False,
) -> None:
    pass


def _as_options(error: QueryError) -> QueryError:
    """Return the error with parameters named as options; what a service said stands as it is."""
    from tidytape.query import respelled

    if error.status is not None:
        return error
    options = _options(typer.main.get_command(app))
    # In the text only names that are no words of prose; the parameter itself in any case. What is said of a column
    # map are names of columns, which may be the names of options too.
    in_text = (
        {} if error.parameter == "columns" else {name: to for name, to in options.items() if "_" in name}
    )
    said = respelled(error, in_text) if in_text else error
    got = error.got
    if error.parameter == "columns" and isinstance(got, Mapping):
        got = ",".join(f"{ours}={theirs}" for ours, theirs in got.items())
    return QueryError(
        options.get(error.parameter, error.parameter),
        got=got,
        expected=said.expected,
        hint=said.hint,
        code=said.code,
    )


def _options(command: Any) -> dict[str, str]:
    """The options of a command and of those inside, by the names of the arguments that they are."""
    options = {one.name: one.opts[0] for one in command.params if one.name and one.opts[0].startswith("--")}
    for inside in getattr(command, "commands", {}).values():
        options |= _options(inside)
    return options


def _told(error: TidytapeError) -> str:
    """The message of an error, with parameters named as options, those of every file among them."""
    if isinstance(error, QueryError):
        return str(_as_options(error))
    text = str(error)
    if isinstance(error, BudgetError):
        return _with_options(text)
    for _, failure in error.failures if isinstance(error, IngestError) else ():
        if isinstance(failure, QueryError):
            text = text.replace(failure.message, str(_as_options(failure)))
    return text


def _with_options(text: str) -> str:
    """A text of the library for a terminal, where the arguments of a client are options."""
    arguments = {name: to for name, to in _options(typer.main.get_command(app)).items() if "_" in name}
    pattern = rf"\b({'|'.join(map(re.escape, arguments))})\b"
    return re.sub(pattern, lambda found: arguments[found[1]], text)


class _Warnings(logging.Handler):
    """Writes to standard error what the library warns of, and of a failure the traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        typer.echo(f"{level}: {_with_options(record.getMessage())}", err=True)
        if record.exc_info:
            typer.echo(logging.Formatter().formatException(record.exc_info), err=True)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Write a warning of Python on one line, without the place in the source where it was given."""
    typer.echo(f"warning: {_with_options(str(message))}", err=True)


def main() -> None:
    """Run the command line; an error is one line on standard error and an exit code, see `EXIT_CODES`.

    The code is 2 where the request was wrong and 1 where carrying it out failed.
    """
    if sys.stderr is None:  # it was closed, and a progress bar writes there
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    handler, showwarning = _Warnings(logging.WARNING), warnings.showwarning
    logging.getLogger("tidytape").addHandler(handler)
    warnings.showwarning = _show_warning
    words = [word for word in sys.argv[1:] if word != _DEBUG]
    is_debug = len(words) < len(sys.argv) - 1
    try:
        app(args=words, prog_name="tidytape")
    except QueryError as error:
        _fail(error, _told(error), 2, is_debug=is_debug)
    except TidytapeError as error:
        _fail(error, _told(error), 1, is_debug=is_debug)
    except (
        OSError,
        ModuleNotFoundError,
    ) as error:  # a module that is not there: an extra that is not installed
        _fail(error, str(error), 1, is_debug=is_debug)
    except KeyboardInterrupt as error:
        _fail(error, "interrupted", _INTERRUPTED, is_debug=is_debug)
    except Exception as error:  # noqa: BLE001 - whatever it is, a user gets a line and not a traceback
        reason = f"unexpected {type(error).__name__}: {error}; {_DEBUG} shows where"
        _fail(error, reason, 1, is_debug=is_debug)
    finally:
        logging.getLogger("tidytape").removeHandler(handler)
        warnings.showwarning = showwarning


def _fail(error: BaseException, reason: str, code: int, *, is_debug: bool) -> NoReturn:
    """Say why on standard error, with the traceback if it was asked for, and end the process."""
    if is_debug:
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    typer.echo(escaped(reason if code == _INTERRUPTED else f"error: {reason}", keep="\n"), err=True)
    sys.exit(code)
