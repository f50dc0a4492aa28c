"""``tidytape rollup``: keep minutes of everything in a lake."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["rollup"]


def rollup(lake: Annotated[str, typer.Option("--lake", help="The lake.")]) -> None:
    """Keep minutes of all events, so that queries cost what their answers do. Only what is new is made."""
    from tidytape.lake import Lake
    from tidytape.lake.rollup import rollup as keep

    for done in keep(Lake(lake)):
        typer.echo(str(done))
