"""``tidytape keys``: make, list and revoke the keys of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(help="Make, list and revoke the API keys of a service.", no_args_is_help=True)


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


@app.command("list")
def listed(
    keys: Annotated[Path, typer.Option(help="File of keys.")],
    tiers: Annotated[
        Path | None, typer.Option(help="TOML file of tiers; the contract's if left out.")
    ] = None,
) -> None:
    """List the keys by their ids, with tier, when they were made and when they end; never the keys themselves."""
    from tidytape.query.values import written_time
    from tidytape.service import KeyFile, tiers_of

    for key in KeyFile(keys, tiers=tiers_of(tiers)).all():
        until = "never" if key.expires is None else written_time(key.expires)
        typer.echo(f"{key.id}  {key.tier:<12}  made {written_time(key.created)}  ends {until}")


@app.command()
def revoke(
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the key, as 'tidytape keys list' shows it.")
    ],
    keys: Annotated[Path, typer.Option(help="File of keys.")],
    tiers: Annotated[
        Path | None, typer.Option(help="TOML file of tiers; the contract's if left out.")
    ] = None,
) -> None:
    """Remove a key. A service that runs refuses it from then on; no restart is needed."""
    from tidytape.service import KeyFile, tiers_of

    gone = KeyFile(keys, tiers=tiers_of(tiers)).revoke(key_id)
    typer.echo(f"key {gone.id}, tier {gone.tier}, is revoked", err=True)
