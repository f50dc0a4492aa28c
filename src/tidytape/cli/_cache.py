"""``tidytape cache``: the answers that the client stores on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidytape.cli._output import Json, put_json
from tidytape.errors import counted, escaped

if TYPE_CHECKING:
    from tidytape.client._cache import Entry


app = typer.Typer(help="List or clear the answers that are stored on this machine.", no_args_is_help=True)

Folder = Annotated[
    Path | None,
    typer.Option(envvar="TIDYTAPE_CACHE_DIR", help="Folder of the cache; by default the user's."),
]


@app.command("ls")
def show(folder: Folder = None, as_json: Json = False) -> None:
    """List what the cache has: one line per series, the last read first."""
    from tidytape.client._cache import Cache
    from tidytape.query._values import written_time

    cache = Cache(folder)
    total, entries = 0, cache.entries()
    if as_json:
        put_json([_as_json(entry) for entry in entries])
        return
    if entries:
        typer.echo("type  asked  kept, in UTC  size  service", err=True)
    for entry in entries:
        query = " ".join(f"{name}={value}" for name, value in entry.params if name != "type")
        spans = ", ".join(f"{written_time(start)} to {written_time(end)}" for start, end in entry.spans[:2])
        more = f" and {counted(len(entry.spans) - 2, 'more span')}" if len(entry.spans) > 2 else ""
        typer.echo(
            escaped(
                f"{entry.data_type}  {query}  {spans}{more}  {counted(entry.size, 'byte')}  {entry.base_url}"
            )
        )
        total += entry.size
    typer.echo(f"{counted(total, 'byte')} in {cache.folder}", err=True)


@app.command()
def clear(
    folder: Folder = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Empty the cache: later fetches request everything again, and pay its weight again."""
    from tidytape.client._cache import Cache

    cache = Cache(folder)
    if not yes:
        typer.confirm(f"Remove everything that is kept in {cache.folder}?", abort=True)
    removed = cache.clear()
    typer.echo(f"{counted(removed, 'byte')} removed from {cache.folder}", err=True)
    if as_json:
        put_json({"folder": str(cache.folder), "removed": removed})


def _as_json(entry: Entry) -> dict[str, Any]:
    from tidytape.query._values import written_time

    spans = [{"start": written_time(start), "end": written_time(end)} for start, end in entry.spans]
    params: dict[str, list[str]] = {}
    for name, value in entry.params:
        params.setdefault(name, []).append(value)
    return {
        "type": entry.data_type,
        "asked": params,
        "spans": spans,
        "bytes": entry.size,
        "used": written_time(int(entry.used)),
        "base_url": entry.base_url,
    }
