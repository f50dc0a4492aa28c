"""``tidytape keys``: make the keys of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(help="Make the API keys of a service.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep ``new`` a subcommand, though it is the only one."""


@app.command()
def new(
    keys: Annotated[Path, typer.Option(help="File of keys; made if it is not there.")],
    tier: Annotated[
        str, typer.Option(help="basic, advanced or enterprise; or one of the file of tiers.")
    ] = "basic",
    tiers: Annotated[
        Path | None, typer.Option(help="TOML file of tiers; the contract's if left out.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="When the key ends, e.g. 2027-01-01; never if left out.")
    ] = None,
) -> None:
    """Make a key. It is printed once, alone on the last line; the file keeps only its hash."""
    from tidytape.query.values import epoch_seconds
    from tidytape.service import KeyFile, tiers_of

    until = None if expires is None else epoch_seconds(expires, parameter="expires")
    key, secret = KeyFile(keys, tiers=tiers_of(tiers)).new(tier, expires=until)
    typer.echo(
        f"key {key.id}, tier {key.tier}, stored as a hash in {keys}; it cannot be shown again:", err=True
    )
    typer.echo(secret)
