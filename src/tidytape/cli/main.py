"""The command ``tidytape`` and how its errors look."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidytape._version import __version__
from tidytape.cli import cache, demo, fetch, ingest, keys, lake, openapi, prediction, rollup, serve, tape
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
ingest.app.command("polymarket-gamma")(prediction.polymarket_gamma)
app.add_typer(ingest.app, name="ingest")
app.add_typer(fetch.app, name="fetch")
app.add_typer(fetch.plans, name="plan")
app.add_typer(keys.app, name="keys")
app.command("rollup")(rollup.rollup)
app.add_typer(lake.app, name="lake")
app.command("markets")(fetch.markets)
app.command("usage")(fetch.usage)
app.add_typer(cache.app, name="cache")
app.add_typer(tape.app, name="tape")
app.command("serve")(serve.serve)
app.command("openapi")(openapi.openapi)
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


_MORE_OPTIONS = (
    "lake", "base_url", "out", "map", "expires", "tier", "table", "time_unit", "delimiter", "tick_size",
    "buckets",
)  # fmt: skip


def _as_options(error: QueryError) -> QueryError:
    """Return the error with parameters named as options; what a service said stands as it is."""
    from tidytape.client.parameters import PARAMETERS
    from tidytape.query import respelled

    if error.status is not None:
        return error
    names = (*PARAMETERS, *_MORE_OPTIONS)
    options = {name: "--" + name.replace("_", "-") for name in names} | {"columns": "--map"}
    # In the text only names that are no words of prose; the parameter itself in any case.
    said = respelled(error, {name: option for name, option in options.items() if "_" in name})
    return QueryError(
        options.get(error.parameter, error.parameter),
        got=said.got,
        expected=said.expected,
        hint=said.hint,
        code=said.code,
    )


def main() -> None:
    """Run the command line; an error of ours is one line on standard error and an exit code.

    The code is 2 where the request was wrong and 1 where carrying it out failed.
    """
    try:
        app(prog_name="tidytape")
    except QueryError as error:
        typer.echo(f"error: {_as_options(error)}", err=True)
        sys.exit(2)
    except (TidytapeError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(_INTERRUPTED)
