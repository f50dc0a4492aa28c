"""``tidytape serve``: answer the API over a lake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["serve"]


def serve(
    lake: Annotated[str, typer.Option(help="The lake to answer from: a folder or an object-store address.")],
    keys: Annotated[Path, typer.Option(help="File of keys; see 'tidytape keys new'.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    tiers: Annotated[
        Path | None, typer.Option(help="TOML file of tiers; the contract's if left out.")
    ] = None,
    key_header: Annotated[str, typer.Option(help="Header that carries the key.")] = "X-Service-Key",
) -> None:
    """Answer the API over HTTP until interrupted. A line of JSON per request goes to the standard output."""
    import logging
    import sys

    import uvicorn

    from tidytape.lake import Lake
    from tidytape.service import KeyFile, create_app, tiers_of

    allowed = tiers_of(tiers)
    known = KeyFile(keys, tiers=allowed)
    known.all()  # a service without a readable file of keys must not start
    lines = logging.StreamHandler(sys.stdout)
    lines.setFormatter(logging.Formatter("%(message)s"))
    access = logging.getLogger("tidytape.access")
    access.addHandler(lines)
    access.setLevel(logging.INFO)
    uvicorn.run(
        create_app(Lake(lake), known, key_header=key_header, tiers=allowed),
        host=host,
        port=port,
        server_header=False,
        access_log=False,  # the service writes its own, see `tidytape.service.observer`
    )
