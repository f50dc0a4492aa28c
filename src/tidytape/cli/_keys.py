"""``tidytape keys``: make, list and revoke the keys of a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidytape.cli._output import Json, put_json
from tidytape.errors import counted, escaped

if TYPE_CHECKING:
    from tidytape.budget import Tier
    from tidytape.service import Key


app = typer.Typer(help="Make, list and revoke the API keys of a service.", no_args_is_help=True)


@app.command()
def new(
    keys: Annotated[Path, typer.Option(help="File of keys; made if there is none.")],
    tier: Annotated[
        str, typer.Option(help="basic, advanced or enterprise; or a tier of the file --tiers.")
    ] = "basic",
    tiers: Annotated[
        Path | None, typer.Option(help="TOML file of tiers; by default the three built-in tiers.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="Date at which the key expires, e.g. 2027-01-01; by default never.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a key, and print it once, alone on the standard output; the file has only its hash.

    A tier limits how far back a key sees. Of the built-in tiers, basic sees 90 days, advanced a year, and enterprise
    everything.
    """
    from tidytape.query._values import epoch_seconds
    from tidytape.service import KeyFile, tiers_of

    until = None if expires is None else epoch_seconds(expires, parameter="expires")
    tier_by_name = tiers_of(tiers)
    key, secret = KeyFile(keys, tiers=tier_by_name).new(tier, expires=until)
    typer.echo(_terms(tier_by_name[key.tier]), err=True)
    other_tiers = [f"--tier {name}" for name in tier_by_name if name != key.tier]
    if other_tiers:
        typer.echo(f"for another tier: {', '.join(other_tiers)}", err=True)
    typer.echo(
        f"key {key.id}, tier {key.tier}, stored as a hash in {keys}; it cannot be shown again:", err=True
    )
    put_json({**_as_json(key), "key": secret}) if as_json else typer.echo(secret)


def _terms(tier: Tier) -> str:
    """Return a line that says what a key of a tier may fetch."""
    days = tier.history_days
    history = "all of the history" if days is None else f"the last {counted(days, 'day')} and nothing before"
    aggregation = "may" if tier.aggregation else "may not"
    return (
        f"tier {tier.name} has {history}, the data types of {tier.rank.alias}, {tier.per_minute:,} weight a minute and "
        f"{tier.burst:,} at once, and {aggregation} join exchanges"
    )


@app.command("list")
def show(
    keys: Annotated[Path, typer.Option(help="File of keys.")],
    tiers: Annotated[
        Path | None, typer.Option(help="TOML file of tiers; by default the three built-in tiers.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the ids of the keys with tier, creation and expiry; never the keys themselves."""
    from tidytape.query._values import written_time
    from tidytape.service import KeyFile, tiers_of

    all_keys = KeyFile(keys, tiers=tiers_of(tiers)).all()
    if as_json:
        put_json([_as_json(key) for key in all_keys])
        return
    for key in all_keys:
        until = "never" if key.expires is None else written_time(key.expires)
        typer.echo(escaped(f"{key.id}  {key.tier:<12}  made {written_time(key.created)}  ends {until}"))


@app.command()
def revoke(
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the key, as 'tidytape keys list' shows it.")
    ],
    keys: Annotated[Path, typer.Option(help="File of keys.")],
    tiers: Annotated[
        Path | None, typer.Option(help="TOML file of tiers; by default the three built-in tiers.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Remove a key. A running service refuses it from then on, without a restart."""
    from tidytape.service import KeyFile, tiers_of

    revoked = KeyFile(keys, tiers=tiers_of(tiers)).revoke(key_id)
    typer.echo(f"key {revoked.id}, tier {revoked.tier}, is revoked", err=True)
    if as_json:
        put_json(_as_json(revoked))


def _as_json(key: Key) -> dict[str, str | None]:
    """Return the public facts of a key: neither the key nor its hash."""
    from tidytape.query._values import written_time

    expires = None if key.expires is None else written_time(key.expires)
    return {"id": key.id, "tier": key.tier, "created": written_time(key.created), "expires": expires}
