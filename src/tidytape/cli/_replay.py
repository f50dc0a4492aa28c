"""``tidytape replay``: put recorded files into a lake at the pace of their events, or a multiple of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidytape.cli._ingest import FILES_HELP, shown_rows, stopped_by_signals, with_pairs
from tidytape.cli._output import Json, put_json


def replay(
    files: Annotated[
        list[Path],
        typer.Argument(help=FILES_HELP),
    ],
    lake: Annotated[str, typer.Option("--lake", help="The lake; made if there is none.")],
    speed: Annotated[
        float, typer.Option(help="How many times as fast as recorded; inf: without waiting.")
    ] = 60.0,
    layout: Annotated[
        str | None, typer.Option(help="Layout of the files, if it cannot be recognised: a command of ingest.")
    ] = None,
    exchange: Annotated[
        str | None, typer.Option(help="Exchange of the files, if they do not name it.")
    ] = None,
    raw_symbol: Annotated[
        str | None, typer.Option(help="The only market to take; or the market of files that name none.")
    ] = None,
    normalized_symbol: Annotated[
        str | None,
        typer.Option(help="Symbol as coin-quote, e.g. BTC-USD; by default read from the raw symbol."),
    ] = None,
    coin: Annotated[str | None, typer.Option(help="Base asset; by default read from the raw symbol.")] = None,
    category: Annotated[str | None, typer.Option(help="SPOT, PERPETUAL, FUTURE, OPTION or COMBO.")] = None,
    block_size: Annotated[
        str | None, typer.Option(help="Height of a profile level; by default chosen from the price.")
    ] = None,
    contract: Annotated[
        str | None, typer.Option(help="Kind of contract, if amounts are in contracts.")
    ] = None,
    contract_size: Annotated[str | None, typer.Option(help="Size of one contract.")] = None,
    amount_unit: Annotated[
        str | None, typer.Option(help="Unit of amounts: coin, quote or contracts.")
    ] = None,
    funding_interval: Annotated[
        str | None, typer.Option(help="Funding interval of rates that have none, e.g. 8h.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Of csv and jsonl: the table to fill.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--map", help="Of csv and jsonl: columns of the table and of the file, price=px,amount=qty."
        ),
    ] = None,
    time_unit: Annotated[str | None, typer.Option(help="Of csv and jsonl: unit or format of times.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave broken lines out instead of failing.")
    ] = False,
    every: Annotated[float, typer.Option(help="Seconds between two commits of one file.")] = 1.0,
    keep: Annotated[
        float, typer.Option(help="Seconds for which older versions of the lake stay, for streams.")
    ] = 900.0,
    as_json: Json = False,
) -> None:
    """Write recorded files into a lake as if their events happened now, or several times as fast."""
    from tidytape.lake import Lake
    from tidytape.lake.ingest import summary
    from tidytape.lake.ingest._layouts import by_name
    from tidytape.lake.record import replay as replay_files

    options = {
        "exchange": exchange, "raw_symbol": raw_symbol, "normalized_symbol": normalized_symbol, "coin": coin,
        "category": category, "block_size": block_size, "contract": contract, "contract_size": contract_size,
        "amount_unit": amount_unit, "funding_interval": funding_interval, "table": table, "columns": columns,
        "time_unit": time_unit,
    }  # fmt: skip
    layout_object, market = by_name(layout, with_pairs(options))
    with stopped_by_signals() as stop, shown_rows() as progress:
        report = replay_files(
            files, Lake.create(lake), layout_object, market=market, speed=speed, every=every, keep=keep,
            skip_bad=skip_bad, stop=stop, progress=progress,
        )  # fmt: skip
    put_json(report) if as_json else typer.echo(summary(report))
