"""``tidytape replay``: put recorded files into a lake at the pace of their events, or a multiple of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidytape.cli.ingest import shown_rows, stopped_by_signals, with_pairs
from tidytape.cli.output import Json, put_json

__all__ = ["replay"]


def replay(
    files: Annotated[list[Path], typer.Argument(help="Files, plain, gzipped or zipped.")],
    lake: Annotated[str, typer.Option("--lake", help="The lake; made if it is not there.")],
    speed: Annotated[float, typer.Option(help="Seconds of events per second; inf: without waiting.")] = 60.0,
    layout: Annotated[
        str | None, typer.Option(help="How the files are written, if they do not tell: a command of ingest.")
    ] = None,
    exchange: Annotated[
        str | None, typer.Option(help="Venue the files were recorded at, if they do not say.")
    ] = None,
    raw_symbol: Annotated[
        str | None, typer.Option(help="The one instrument to take, or of files that name none.")
    ] = None,
    normalized_symbol: Annotated[
        str | None, typer.Option(help="Cross-exchange symbol; guessed from the raw one if left out.")
    ] = None,
    coin: Annotated[
        str | None, typer.Option(help="Base asset; guessed from the raw symbol if left out.")
    ] = None,
    category: Annotated[str | None, typer.Option(help="SPOT, PERPETUAL, FUTURE, OPTION or COMBO.")] = None,
    block_size: Annotated[
        str | None, typer.Option(help="Height of a profile level; else chosen from the price.")
    ] = None,
    contract: Annotated[
        str | None, typer.Option(help="What a contract is, if amounts count contracts.")
    ] = None,
    contract_size: Annotated[str | None, typer.Option(help="Size of one contract.")] = None,
    amount_unit: Annotated[
        str | None, typer.Option(help="What amounts count: coin, quote or contracts.")
    ] = None,
    funding_interval: Annotated[
        str | None, typer.Option(help="Time between settlements of funding reports that state none.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Of csv and jsonl: what the rows are.")] = None,
    columns: Annotated[
        str | None, typer.Option("--map", help="Of csv and jsonl: which column is what, price=px,amount=qty.")
    ] = None,
    time_unit: Annotated[str | None, typer.Option(help="Of csv and jsonl: how times are written.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave broken lines out instead of failing.")
    ] = False,
    every: Annotated[float, typer.Option(help="Seconds between two commits of one file.")] = 1.0,
    keep: Annotated[
        float, typer.Option(help="Seconds that older versions of the lake stay, for streams.")
    ] = 900.0,
    as_json: Json = False,
) -> None:
    """Put recorded files into a lake as if their events happened now, at a multiple of real time."""
    from tidytape.lake import Lake
    from tidytape.lake.ingest import replay as replayed
    from tidytape.lake.ingest import summary
    from tidytape.lake.ingest.layouts import by_name

    options = {
        "exchange": exchange, "raw_symbol": raw_symbol, "normalized_symbol": normalized_symbol, "coin": coin,
        "category": category, "block_size": block_size, "contract": contract, "contract_size": contract_size,
        "amount_unit": amount_unit, "funding_interval": funding_interval, "table": table, "columns": columns,
        "time_unit": time_unit,
    }  # fmt: skip
    chosen, market = by_name(layout, with_pairs(options))
    with stopped_by_signals() as stop, shown_rows() as progress:
        report = replayed(
            files, Lake.create(lake), chosen, market=market, speed=speed, every=every, keep=keep,
            skip_bad=skip_bad, stop=stop, progress=progress,
        )  # fmt: skip
    put_json(report) if as_json else typer.echo(summary(report))
