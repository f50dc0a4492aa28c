"""The command ``tidytape`` and how its errors look."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidytape._version import __version__
from tidytape.cli import demo, fetch, ingest, keys, serve
from tidytape.errors import QueryError, TidytapeError

__all__ = ["app", "main"]

app = typer.Typer(
    name="tidytape",
    help="Market data as tidy frames: fetch, store, serve, analyse and draw it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(ingest.app, name="ingest")
app.add_typer(fetch.app, name="fetch")
app.add_typer(keys.app, name="keys")
app.command("markets")(fetch.markets)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)

_INTERRUPTED = 130


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidytape {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; an error of ours is one line on standard error and an exit code.

    The code is 2 where the request was wrong and 1 where carrying it out failed.
    """
    try:
        app(prog_name="tidytape")
    except QueryError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except TidytapeError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(_INTERRUPTED)
