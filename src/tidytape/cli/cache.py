"""``tidytape cache``: what was fetched before and is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidytape.errors import counted

__all__ = ["app"]

app = typer.Typer(help="What was fetched before and is kept on this machine.", no_args_is_help=True)

Folder = Annotated[
    Path | None,
    typer.Option(envvar="TIDYTAPE_CACHE_DIR", help="Folder of the cache; the user's if left out."),
]


@app.command("ls")
def listed(folder: Folder = None) -> None:
    """List what is kept: one line per series, the one that was read last first."""
    from tidytape.client.cache import Cache
    from tidytape.query.values import written_time

    cache = Cache(folder)
    total = 0
    if kept := cache.entries():
        typer.echo("type  asked  kept, in UTC  size  service", err=True)
    for one in kept:
        asked = " ".join(f"{name}={value}" for name, value in one.params if name != "type")
        spans = ", ".join(f"{written_time(start)} to {written_time(end)}" for start, end in one.spans[:2])
        more = f" and {counted(len(one.spans) - 2, 'more span')}" if len(one.spans) > 2 else ""
        typer.echo(f"{one.data_type}  {asked}  {spans}{more}  {counted(one.size, 'byte')}  {one.base_url}")
        total += one.size
    typer.echo(f"{counted(total, 'byte')} in {cache.folder}", err=True)


@app.command()
def clear(
    folder: Folder = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove all of it: what is asked for again is fetched again, and weighs again."""
    from tidytape.client.cache import Cache

    cache = Cache(folder)
    if not yes:
        typer.confirm(f"Remove everything that is kept in {cache.folder}?", abort=True)
    typer.echo(f"{counted(cache.clear(), 'byte')} removed from {cache.folder}", err=True)
