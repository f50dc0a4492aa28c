"""``tidytape lake``: look after a lake."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tidytape.cli.output import as_json_lines, put

__all__ = ["app"]

app = typer.Typer(help="Look after a lake: what is in it, is it sound, keep it small.", no_args_is_help=True)

LakeOption = Annotated[str, typer.Option("--lake", help="The lake: a folder or an object-store address.")]
Tables = Annotated[list[str] | None, typer.Option("--table", help="Only this table; may be repeated.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]


@app.command()
def info(
    lake: LakeOption,
    instruments: Annotated[bool, typer.Option("--instruments", help="One line per instrument.")] = False,
    as_json: Json = False,
) -> None:
    """Say what is in a lake, by its logs alone: rows, files, bytes, first and last time."""
    from tidytape.lake import Lake, hygiene

    found = hygiene.instruments(Lake(lake)) if instruments else hygiene.info(Lake(lake))
    if as_json:
        typer.echo(as_json_lines(found), nl=False)
    else:
        put(found, None, whole="--json prints all")


@app.command()
def check(
    lake: LakeOption,
    table: Tables = None,
    checks: Annotated[
        list[str] | None, typer.Option("--check", help="Only this check; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read all of a lake and say what is wrong with it; exit code 1 if anything is."""
    from tidytape.lake import Lake, hygiene

    report = hygiene.check(Lake(lake), tables=table, checks=checks)
    if as_json:
        typer.echo(as_json_lines(report.frame()), nl=False)
    else:
        typer.echo(str(report))
    if not report.sound:
        raise typer.Exit(1)


@app.command()
def compact(
    lake: LakeOption,
    table: Tables = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="Rewrite also what has few files, in the order of time.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put many small files into few, in the order of time; the rows stay the same."""
    from dataclasses import asdict

    from tidytape.lake import Lake, hygiene

    done = hygiene.compact(Lake(lake), tables=table, everything=everything)
    for one in done:
        typer.echo(json.dumps(asdict(one)) if as_json else str(one))
    if not done and not as_json:
        typer.echo("nothing to compact")


@app.command()
def vacuum(
    lake: LakeOption,
    table: Tables = None,
    retention_hours: Annotated[
        int | None,
        typer.Option(min=0, help="Keep files that were replaced within this time; a week (168) if left out."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be deleted; so also without --yes.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete the files that no version of the last week needs; only say which without --yes."""
    from dataclasses import asdict

    from tidytape.lake import Lake, hygiene

    done = hygiene.vacuum(
        Lake(lake), tables=table, retention_hours=retention_hours, dry_run=dry_run or not yes
    )
    for one in done:
        typer.echo(json.dumps(asdict(one)) if as_json else str(one))
    if not as_json and not yes and any(one.files for one in done):
        typer.echo("nothing was deleted; --yes deletes", err=True)
