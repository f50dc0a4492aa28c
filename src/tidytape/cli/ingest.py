"""``tidytape ingest``: put recorded files into a lake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tidytape.errors import IngestError, QueryError

__all__ = ["app"]

app = typer.Typer(help="Put recorded files into a lake.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(help="Files, plain or gzipped.")]
LakeOption = Annotated[str, typer.Option("--lake", help="The lake; made if it is not there.")]
Exchange = Annotated[str, typer.Option(help="Venue the files were recorded at.")]
Normalized = Annotated[
    str | None, typer.Option(help="Cross-exchange symbol; guessed from the raw one if left out.")
]
Coin = Annotated[str | None, typer.Option(help="Base asset; guessed from the raw symbol if left out.")]
Category = Annotated[str | None, typer.Option(help="SPOT (if left out), PERPETUAL, FUTURE, OPTION or COMBO.")]
TickSize = Annotated[str | None, typer.Option(help="Smallest price step; else the finest one seen.")]
BlockSize = Annotated[str | None, typer.Option(help="Height of a profile level; else chosen from the price.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave broken lines out instead of failing.")]


@app.command("binance-ws")
def binance_ws(
    files: Files,
    lake: LakeOption,
    exchange: Exchange,
    normalized_symbol: Normalized = None,
    coin: Coin = None,
    category: Category = None,
    tick_size: TickSize = None,
    block_size: BlockSize = None,
    skip_bad: SkipBad = False,
) -> None:
    """Recorded WebSocket logs: trades, depth updates and snapshots."""
    _ingest(
        files,
        lake,
        layout="binance-ws",
        exchange=exchange,
        normalized_symbol=normalized_symbol,
        coin=coin,
        category=category,
        tick_size=tick_size,
        block_size=block_size,
        skip_bad=skip_bad,
    )


@app.command("csv")
def csv(
    files: Files,
    lake: LakeOption,
    exchange: Exchange,
    raw_symbol: Annotated[str, typer.Option(help="Exchange-native symbol of the trades.")],
    columns: Annotated[
        str,
        typer.Option(
            "--map",
            help="Which column is what: id=tid,price=px,amount=qty,side=side,timestamp=time. Of timestamp, price, "
            "amount, side (or buyer_is_maker), id and raw_symbol, those left out are columns of that very name.",
        ),
    ],
    normalized_symbol: Normalized = None,
    coin: Coin = None,
    category: Category = None,
    tick_size: TickSize = None,
    block_size: BlockSize = None,
    delimiter: Annotated[str | None, typer.Option(help="One character; else read off the header.")] = None,
    time_unit: Annotated[str | None, typer.Option(help="Unit of integer times: s, ms, us or ns.")] = None,
    skip_bad: SkipBad = False,
) -> None:
    """Delimited files of trades, with a map of their columns."""
    _ingest(
        files,
        lake,
        layout="csv",
        exchange=exchange,
        raw_symbol=raw_symbol,
        columns=_column_map(columns),
        normalized_symbol=normalized_symbol,
        coin=coin,
        category=category,
        tick_size=tick_size,
        block_size=block_size,
        delimiter=delimiter,
        time_unit=time_unit,
        skip_bad=skip_bad,
    )


@app.command("deribit-chain")
def deribit_chain(
    files: Files,
    lake: LakeOption,
    exchange: Exchange = "DERIBIT",
    skip_bad: SkipBad = False,
) -> None:
    """Snapshots of option chains: implied volatility, delta, forward, open interest."""
    _ingest(files, lake, layout="deribit-chain", exchange=exchange, skip_bad=skip_bad)


def _column_map(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not (name.strip() and equals and column.strip()) for name, equals, column in pairs):
        raise QueryError("map", got=text, expected="name=column pairs with commas between them")
    if len({name.strip() for name, _, _ in pairs}) < len(pairs):
        raise QueryError("map", got=text, expected="each name once")
    return {name.strip(): column.strip() for name, _, column in pairs}


def _ingest(files: list[Path], lake: str, **options: Any) -> None:
    from tidytape.lake import Lake
    from tidytape.lake.ingest import ingest

    try:
        report = ingest(files, Lake.create(lake), **options)
    except IngestError as error:
        if error.report is not None:  # of several files some went in
            typer.echo(str(error.report))
        raise
    typer.echo(str(report))
