"""``tidytape download``: files of public archives, verified, into a lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidytape.cli._output import Json, put, put_json
from tidytape.errors import counted, escaped

if TYPE_CHECKING:
    import polars as pl


def _list_kinds(is_asked: bool) -> None:
    if is_asked:
        from tidytape.archives import kinds

        put(kinds().drop("address"), None, rows=1000)
        raise typer.Exit


def download(
    archive: Annotated[str, typer.Argument(help="The archive, e.g. binance; --list shows all.")],
    symbols: Annotated[list[str], typer.Argument(help="Symbols as the exchange writes them, e.g. BTCUSDT.")],
    market: Annotated[str, typer.Option(help="Which of the archive's markets, e.g. spot.")],
    data: Annotated[str, typer.Option(help="What to fetch, with commas between, e.g. trades,funding.")],
    start: Annotated[str, typer.Option(help="Start of the window, inclusive.")],
    lake: Annotated[str, typer.Option("--lake", help="The lake; made if there is none.")],
    end: Annotated[
        str | None, typer.Option(help="End of the window, exclusive; by default the last midnight in UTC.")
    ] = None,
    interval: Annotated[str, typer.Option(help="Length of candles, if the archive has several.")] = "1m",
    contract: Annotated[
        str | None, typer.Option(help="Kind of contract, if amounts are in contracts: INVERSE or LINEAR.")
    ] = None,
    contract_size: Annotated[
        str | None, typer.Option(help="Size of one contract: in the quote if INVERSE, otherwise in coins.")
    ] = None,
    funding_interval: Annotated[
        str | None, typer.Option(help="Funding interval of rates that have none, e.g. 8h.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where files lie until they are in the lake; by default the user's cache folder."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the files after they are in the lake.")] = False,
    mirror: Annotated[str | None, typer.Option(help="Address of a copy of the archive.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be fetched, and its size.")
    ] = False,
    _: Annotated[
        bool,
        typer.Option("--list", callback=_list_kinds, is_eager=True, help="List the archives and exit."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Fetch files of a public archive, verify them, and put them into a lake. It needs no key.

    A second run goes on where the first one ended, and asks only for what the lake does not have.
    """
    from tidytape.archives import IN_LAKE, plan

    planned = plan(
        archive,
        symbols,
        market=market,
        data=[name.strip() for name in data.split(",")],
        start=start,
        end=end,
        interval=interval,
        contract=contract,
        contract_size=contract_size,
        funding_interval=funding_interval,
        lake=lake,
        mirror=mirror,
    )
    there = f"; {counted(planned.known, 'file')} in the lake already" if planned.known else ""
    if dry_run:
        size = planned.bytes
        if as_json:
            put_json({"files": planned.files.to_dicts(), "bytes": size, "known": planned.known})
        else:
            put(planned.files, None, rest="--json shows all")
            text = "of a size that the archive does not tell" if size is None else f"{size:,} bytes"
            typer.echo(f"{counted(planned.files.height, 'file')}, {text}{there}", err=True)
        return
    try:
        files = planned.run(lake, keep=keep, folder=folder)
    except KeyboardInterrupt:
        typer.echo("what came so far is in the lake; the same command goes on", err=True)
        raise
    if as_json:
        put_json(files)
    else:
        typer.echo(summary(files) + there)
    if not files["state"].cast(str).is_in(list(IN_LAKE)).all():
        raise typer.Exit(1)


def summary(files: pl.DataFrame) -> str:
    """Return the numbers of files and rows, and a line for the files with the same state and reason."""
    import polars as pl

    states = ", ".join(
        f"{count:,} {state}" for state, count in files["state"].value_counts(sort=True).iter_rows()
    )
    alike = ("raw_symbol", "data", "state", "reason")
    groups = files.drop_nulls("reason").group_by(alike, maintain_order=True).agg(pl.col("start").dt.date())
    lines = []
    for symbol, what, state, reason, days in groups.iter_rows():
        more = f" and {len(days) - _SHOWN:,} more" if len(days) > _SHOWN else ""
        lines.append(
            escaped(f"{symbol} {what}: {state}, {reason}: {', '.join(map(str, days[:_SHOWN]))}{more}")
        )
    unknown = files.group_by("raw_symbol", maintain_order=True).agg((pl.col("state") == "absent").all())
    for (symbol,) in unknown.filter("state").select("raw_symbol").iter_rows():
        lines.append(
            escaped(f"no file of {symbol}: is that how the exchange writes it, and did it trade then?")
        )
    rows = f"{files['rows'].sum():,} rows"
    return "\n".join([*lines, f"{counted(files.height, 'file')}{': ' if states else ''}{states}; {rows}"])


_SHOWN = 10
"""Most days that a line names; --json has all."""
