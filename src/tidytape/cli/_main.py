"""The command ``tidytape``: its subcommands, and how it prints errors and warnings."""

from __future__ import annotations

import ast
import logging
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from tidytape._version import __version__
from tidytape.cli import _cache as cached
from tidytape.cli import _demo as demo
from tidytape.cli import _download as download
from tidytape.cli import _ingest as ingest
from tidytape.cli import _keys as keys
from tidytape.cli import _lake as lake
from tidytape.cli import _methods as methods
from tidytape.cli import _openapi as openapi
from tidytape.cli import _prediction as prediction
from tidytape.cli import _pull as pull
from tidytape.cli import _replay as replay
from tidytape.cli import _report as report
from tidytape.cli import _rollup as rollup
from tidytape.cli import _serve as serve
from tidytape.cli import _tape as tape
from tidytape.cli._examples import add_examples
from tidytape.errors import Argument, QueryError, TidytapeError, escaped, worded

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
app.command("pull")(pull.pull)
app.add_typer(methods.fetch, name="fetch")
app.add_typer(methods.plan, name="plan")
app.add_typer(keys.app, name="keys")
app.command("download")(download.download)
app.command("replay")(replay.replay)
app.command("rollup")(rollup.rollup)
app.add_typer(lake.app, name="lake")
methods.add_list(app, "markets")
methods.add_list(app, "usage")
app.add_typer(cached.app, name="cache")
app.add_typer(tape.app, name="tape")
app.command("serve")(serve.serve)
app.command("openapi")(openapi.openapi)
app.command("report")(report.report)
app.command("demo")(demo.demo)
add_examples(app)

_INTERRUPTED = 130


def _print_version(is_asked: bool) -> None:
    if is_asked:
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


@cache
def _options(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of the command that the words of a command line call, by the names of their parameters."""
    command: Any = typer.main.get_command(app)
    for word in words:
        commands = getattr(command, "commands", {})
        if word not in commands:
            break
        command = commands[word]
    return {option.name: option for option in command.params if option.opts[0].startswith("--")}


def _as_option(words: tuple[str, ...], code: str) -> str:
    """Return Python code in an error as the command line spells it.

    The name of a parameter becomes its option, and arguments such as ``interval='1h'`` become options with values. The
    name of a parameter that is not an option of this command becomes plain words.
    """
    if (call := _INGEST.fullmatch(code)) is not None:
        command = ("ingest", call[1].lower())
        return f"tidytape {' '.join(command)} FILE {_as_options(_options(command), call[2])}".rstrip()
    options = _options(words)
    if code in options:
        return str(options[code].opts[0])
    if pairs := _as_options(options, code):
        return pairs
    return _COMMANDS.get(code, code.replace("_", " "))


def _as_options(options: Mapping[str, Any], code: str) -> str:
    """Return arguments of Python as options with values; empty if the code is none, or none of them is an option."""
    with suppress(SyntaxError, ValueError):
        arguments = [node for node in ast.walk(ast.parse(f"call({code})")) if isinstance(node, ast.keyword)]
        return " ".join(
            _option_with(options[argument.arg], ast.literal_eval(argument.value))
            for argument in arguments
            if argument.arg is not None and argument.arg in options
        )
    return ""


def _option_with(option: Any, value: object) -> str:
    """Return an option with its value, as words of a command line."""
    if isinstance(value, bool):
        return str((option.opts if value else option.secondary_opts)[0])
    if isinstance(value, Mapping):
        value = ",".join(
            f"{name}={text}"
            for name, texts in value.items()
            for text in (map(":".join, texts.items()) if isinstance(texts, Mapping) else [texts])
        )
    return f"{option.opts[0]} {shlex.quote('inf' if value is None else str(value))}"


_INGEST = re.compile(r"ingest\(file, lake, (Csv|Json|Jsonl|Parquet|Feather)\((.*)\)\)")
_COMMANDS = {
    "client.markets()": "tidytape markets",
}
"""By call that an error names, the command that does the same."""


class _Warnings(logging.Handler):
    """Writes logged warnings and errors of the library to standard error, with the traceback if there is one."""

    def __init__(self, spell: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self._spell = spell

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        spelled = copy(record)
        if isinstance(record.args, tuple):
            spelled.args = tuple(
                self._spell(arg) if isinstance(arg, Argument) else arg for arg in record.args
            )
        typer.echo(escaped(f"{level}: {spelled.getMessage()}", keep="\n"), err=True)
        if record.exc_info:
            typer.echo(logging.Formatter().formatException(record.exc_info), err=True)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Write a Python warning on one line, without file name and line number."""
    typer.echo(escaped(f"warning: {message}", keep="\n"), err=True)


def main() -> None:
    """Run the command line; print an error as one line on standard error, and exit with one of `EXIT_CODES`."""
    if sys.stderr is None:  # the parent process closed it, but progress bars write to it
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    words = [word for word in sys.argv[1:] if word != _DEBUG]
    is_debug = _DEBUG in sys.argv[1:]
    spell = partial(_as_option, tuple(words))
    handler, showwarning = _Warnings(spell), warnings.showwarning
    logging.getLogger("tidytape").addHandler(handler)
    warnings.showwarning = _show_warning
    try:
        app(args=words, prog_name="tidytape")
    except TidytapeError as error:
        code = 2 if isinstance(error, QueryError) else 1
        _fail(error, worded(error.marked, spell), code, is_debug=is_debug)
    except (OSError, ModuleNotFoundError) as error:  # a command that needs an extra may lack a module
        _fail(error, str(error), 1, is_debug=is_debug)
    except KeyboardInterrupt as error:
        _fail(error, "interrupted", _INTERRUPTED, is_debug=is_debug)
    except Exception as error:  # noqa: BLE001 - users get one line instead of a traceback
        reason = f"unexpected {type(error).__name__}: {error}; {_DEBUG} shows where"
        _fail(error, reason, 1, is_debug=is_debug)
    finally:
        logging.getLogger("tidytape").removeHandler(handler)
        warnings.showwarning = showwarning


def _fail(error: BaseException, reason: str, code: int, *, is_debug: bool) -> NoReturn:
    """Write the reason to standard error, with --debug also the traceback, and end the process."""
    if is_debug:
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    typer.echo(escaped(reason if code == _INTERRUPTED else f"error: {reason}", keep="\n"), err=True)
    sys.exit(code)
