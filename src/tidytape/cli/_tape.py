"""``tidytape tape``: list the answers on a tape, and check that they are unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidytape.cli._output import Json, put_json
from tidytape.errors import counted, escaped

if TYPE_CHECKING:
    from tidytape.client._tape import TapeEntry


app = typer.Typer(help="List and verify tapes: folders with every answer of a study.", no_args_is_help=True)

Tape = Annotated[Path, typer.Argument(help="The tape.")]


@app.command()
def verify(tape: Tape, as_json: Json = False) -> None:
    """Check every byte of a tape; print what has changed since the recording, with exit code 1."""
    from tidytape.client._tape import entries
    from tidytape.client._tape import verify as faults_of

    faults = faults_of(tape)
    if as_json:
        put_json({"is_sound": not faults, "entries": len(entries(tape)), "wrong": faults})
    else:
        for fault in faults:
            typer.echo(escaped(fault))
    if faults:
        raise typer.Exit(1)
    if not as_json:
        typer.echo(f"{counted(len(entries(tape)), 'entry', 'entries')}, as recorded", err=True)


@app.command("ls")
def show(tape: Tape, as_json: Json = False) -> None:
    """List the answers of a tape, one line each, in the order of recording."""
    from tidytape.client._tape import described_ask, opened

    contents = opened(tape)
    if as_json:
        put_json([_as_json(entry) for entry in contents.answers])
    for entry in () if as_json else contents.answers:
        rows = (
            "  missing" if entry.missing else "" if entry.rows is None else f"  {counted(entry.rows, 'row')}"
        )
        query = described_ask(entry.ask, entry.facts.get("returned", {}).get("method"))
        typer.echo(escaped(f"{entry.number}  {entry.at}{rows}  {entry.hash[:16]}  {query}"))
    if contents.broken:
        typer.echo(escaped(f"error: {tape}: {contents.broken}"), err=True)


def _as_json(entry: TapeEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "at": entry.at,
        "ask": entry.ask,
        "rows": entry.rows,
        "hash": entry.hash,
        "missing": entry.missing,
        "returned": entry.facts.get("returned"),
    }
