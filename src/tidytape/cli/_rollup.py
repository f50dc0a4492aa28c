"""``tidytape rollup``: precompute one-minute rows of all events in a lake."""

from __future__ import annotations

from typing import Annotated

import typer

from tidytape.cli._output import Json, put_json


def rollup(lake: Annotated[str, typer.Option("--lake", help="The lake.")], as_json: Json = False) -> None:
    """Compute one-minute rows of all events, which make queries faster. Only new minutes are computed."""
    from tidytape.lake import Lake
    from tidytape.lake.rollup import rollup as roll_up

    tables = roll_up(Lake(lake))
    if as_json:
        put_json(tables)
        return
    for table in tables:
        typer.echo(str(table))
