"""``tidytape demo``: the main job from end to end, on a simulated market."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the lake, the frames and the picture; made if need be.")
    ],
) -> None:
    """Simulate two venues, store, serve, fetch, analyse and draw them."""
    from tidytape.demo import journey

    typer.echo(journey(out))
