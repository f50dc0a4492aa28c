"""``tidytape ingest``: put recorded files into a lake.

Every option of a command is the argument of `tidytape.lake.ingest.ingest` that has its name, but for ``--verbose``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tidytape.errors import IngestError, QueryError

__all__ = ["app"]

app = typer.Typer(help="Put recorded files into a lake.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(help="Files, plain, gzipped or zipped.")]
LakeOption = Annotated[str, typer.Option("--lake", help="The lake; made if it is not there.")]
Exchange = Annotated[str, typer.Option(help="Venue the files were recorded at.")]
AnyExchange = Annotated[
    str | None, typer.Option(help="Venue the files were recorded at, if they do not say.")
]
RawSymbol = Annotated[
    str | None, typer.Option(help="The one instrument to take, or of files that name none.")
]
Normalized = Annotated[
    str | None, typer.Option(help="Cross-exchange symbol; guessed from the raw one if left out.")
]
Coin = Annotated[str | None, typer.Option(help="Base asset; guessed from the raw symbol if left out.")]
Category = Annotated[str | None, typer.Option(help="SPOT (if left out), PERPETUAL, FUTURE, OPTION or COMBO.")]
TickSize = Annotated[str | None, typer.Option(help="Smallest price step; else the finest one seen.")]
BlockSize = Annotated[str | None, typer.Option(help="Height of a profile level; else chosen from the price.")]
Contract = Annotated[
    str | None,
    typer.Option(help="What a contract is, if amounts count contracts: INVERSE, LINEAR or VANILLA."),
]
ContractSize = Annotated[
    str | None, typer.Option(help="Size of one contract: quote if INVERSE, coin otherwise.")
]
AmountUnit = Annotated[
    str | None,
    typer.Option(
        help="What amounts, or volumes of candles, count: coin, quote or contracts; else the files have to say it."
    ),
]
FundingInterval = Annotated[
    str | None,
    typer.Option(
        help="Time between settlements of funding reports that state none, e.g. 8h; else not served."
    ),
]
CandleInterval = Annotated[
    str | None, typer.Option(help="Length of candles whose file does not tell it, e.g. 1h.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Files that are read at once.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave broken lines out instead of failing.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Tell of every file and market, however many; else in sum.")
]
Table = Annotated[
    str, typer.Option(help="What the rows are: trades, candles, book, open_interest, funding, ….")
]
ColumnMap = Annotated[
    str | None,
    typer.Option(
        "--map",
        help="Which column is what: id=tid,price=px,amount=qty,side=side,timestamp=time. Columns of the table that "
        "are left out are columns of that very name. Of trades: timestamp, price, amount, side (or "
        "buyer_is_maker), id and raw_symbol.",
    ),
]
TimeUnit = Annotated[
    str | None,
    typer.Option(
        help="How times are written, if not plain: iso, date, s, ms, us or ns; or of each column, "
        "timestamp=iso,expiry=date."
    ),
]
TimeFormat = Annotated[
    str | None,
    typer.Option(help="How times are written otherwise, e.g. '%d-%m-%Y %H:%M:%S'; UTC without a %z."),
]


@app.command("auto")
def auto(
    files: Files,
    lake: LakeOption,
    exchange: AnyExchange = None,
    raw_symbol: RawSymbol = None,
    normalized_symbol: Normalized = None,
    coin: Coin = None,
    category: Category = None,
    tick_size: TickSize = None,
    block_size: BlockSize = None,
    contract: Contract = None,
    contract_size: ContractSize = None,
    amount_unit: AmountUnit = None,
    funding_interval: FundingInterval = None,
    workers: Workers = None,
    skip_bad: SkipBad = False,
    verbose: Verbose = False,
) -> None:
    """Files of any layout that their names and first lines tell."""
    _run(None, locals())


@app.command("binance-vision")
def binance_vision(
    files: Files,
    lake: LakeOption,
    exchange: Exchange,
    raw_symbol: RawSymbol = None,
    normalized_symbol: Normalized = None,
    coin: Coin = None,
    category: Category = None,
    tick_size: TickSize = None,
    block_size: BlockSize = None,
    contract: Contract = None,
    contract_size: ContractSize = None,
    amount_unit: AmountUnit = None,
    funding_interval: FundingInterval = None,
    workers: Workers = None,
    skip_bad: SkipBad = False,
    verbose: Verbose = False,
) -> None:
    """Dumps of data.binance.vision: trades, candles, funding, open interest, liquidations."""
    _run("binance-vision", locals())


@app.command("binance-ws")
def binance_ws(
    files: Files,
    lake: LakeOption,
    exchange: Exchange,
    raw_symbol: RawSymbol = None,
    normalized_symbol: Normalized = None,
    coin: Coin = None,
    category: Category = None,
    tick_size: TickSize = None,
    block_size: BlockSize = None,
    contract: Contract = None,
    contract_size: ContractSize = None,
    amount_unit: AmountUnit = None,
    workers: Workers = None,
    skip_bad: SkipBad = False,
    verbose: Verbose = False,
) -> None:
    """Recorded WebSocket logs: trades, depth updates and snapshots."""
    _run("binance-ws", locals())


@app.command("cryptofeed")
def cryptofeed(
    files: Files,
    lake: LakeOption,
    exchange: Exchange = "BITMEX",
    raw_symbol: RawSymbol = None,
    contract: Contract = None,
    contract_size: ContractSize = None,
    amount_unit: AmountUnit = None,
    funding_interval: FundingInterval = None,
    workers: Workers = None,
    skip_bad: SkipBad = False,
    verbose: Verbose = False,
) -> None:
    """Lists of BitMEX instruments: funding and open interest."""
    _run("cryptofeed", locals())


@app.command("csv")
def csv(
    files: Files,
    lake: LakeOption,
    exchange: AnyExchange = None,
    raw_symbol: RawSymbol = None,
    table: Table = "trades",
    columns: ColumnMap = None,
    normalized_symbol: Normalized = None,
    coin: Coin = None,
    category: Category = None,
    tick_size: TickSize = None,
    block_size: BlockSize = None,
    delimiter: Annotated[str | None, typer.Option(help="One character; else read off the header.")] = None,
    time_unit: TimeUnit = None,
    time_format: TimeFormat = None,
    contract: Contract = None,
    contract_size: ContractSize = None,
    amount_unit: AmountUnit = None,
    interval: CandleInterval = None,
    funding_interval: FundingInterval = None,
    workers: Workers = None,
    skip_bad: SkipBad = False,
    verbose: Verbose = False,
) -> None:
    """Delimited files, with a map of their columns."""
    _run("csv", locals())


@app.command("deribit-chain")
def deribit_chain(
    files: Files,
    lake: LakeOption,
    exchange: Exchange = "DERIBIT",
    raw_symbol: RawSymbol = None,
    workers: Workers = None,
    skip_bad: SkipBad = False,
    verbose: Verbose = False,
) -> None:
    """Snapshots of option chains: implied volatility, delta, forward, open interest."""
    _run("deribit-chain", locals())


@app.command("jsonl")
def jsonl(
    files: Files,
    lake: LakeOption,
    exchange: AnyExchange = None,
    raw_symbol: RawSymbol = None,
    table: Table = "trades",
    columns: ColumnMap = None,
    normalized_symbol: Normalized = None,
    coin: Coin = None,
    category: Category = None,
    tick_size: TickSize = None,
    block_size: BlockSize = None,
    time_unit: TimeUnit = None,
    time_format: TimeFormat = None,
    contract: Contract = None,
    contract_size: ContractSize = None,
    amount_unit: AmountUnit = None,
    interval: CandleInterval = None,
    funding_interval: FundingInterval = None,
    workers: Workers = None,
    skip_bad: SkipBad = False,
    verbose: Verbose = False,
) -> None:
    """Lines of JSON objects, with a map of their fields."""
    _run("jsonl", locals())


@app.command("parquet")
def parquet(
    files: Files,
    lake: LakeOption,
    exchange: AnyExchange = None,
    raw_symbol: RawSymbol = None,
    table: Table = "trades",
    columns: ColumnMap = None,
    normalized_symbol: Normalized = None,
    coin: Coin = None,
    category: Category = None,
    tick_size: TickSize = None,
    block_size: BlockSize = None,
    time_unit: TimeUnit = None,
    time_format: TimeFormat = None,
    contract: Contract = None,
    contract_size: ContractSize = None,
    amount_unit: AmountUnit = None,
    interval: CandleInterval = None,
    funding_interval: FundingInterval = None,
    workers: Workers = None,
    skip_bad: SkipBad = False,
    verbose: Verbose = False,
) -> None:
    """Parquet files, with a map of their columns."""
    _run("parquet", locals())


@app.command("tardis")
def tardis(
    files: Files,
    lake: LakeOption,
    exchange: AnyExchange = None,
    raw_symbol: RawSymbol = None,
    normalized_symbol: Normalized = None,
    coin: Coin = None,
    category: Category = None,
    tick_size: TickSize = None,
    block_size: BlockSize = None,
    contract: Contract = None,
    contract_size: ContractSize = None,
    amount_unit: AmountUnit = None,
    funding_interval: FundingInterval = None,
    workers: Workers = None,
    skip_bad: SkipBad = False,
    verbose: Verbose = False,
) -> None:
    """CSV datasets of tardis.dev, which name their venue and instrument."""
    _run("tardis", locals())


@app.command("tardis-node")
def tardis_node(
    files: Files,
    lake: LakeOption,
    exchange: AnyExchange = None,
    raw_symbol: RawSymbol = None,
    normalized_symbol: Normalized = None,
    coin: Coin = None,
    category: Category = None,
    tick_size: TickSize = None,
    block_size: BlockSize = None,
    contract: Contract = None,
    contract_size: ContractSize = None,
    amount_unit: AmountUnit = None,
    funding_interval: FundingInterval = None,
    workers: Workers = None,
    skip_bad: SkipBad = False,
    verbose: Verbose = False,
) -> None:
    """Normalised messages of tardis-node, which name their venue and instrument."""
    _run("tardis-node", locals())


def _run(layout: str | None, said: dict[str, Any]) -> None:
    """Ingest with what was said to a command; what was not is left to its default."""
    options = {
        name: value
        for name, value in said.items()
        if value is not None and name not in {"files", "lake", "verbose"}
    }
    if "columns" in options:
        options["columns"] = _pairs("columns", options["columns"], "column")
    if "=" in options.get("time_unit", ""):
        options["time_unit"] = _pairs("time_unit", options["time_unit"], "unit")
    _ingest(said["files"], said["lake"], verbose=said["verbose"], layout=layout, **options)


def _pairs(parameter: str, text: str, what: str) -> dict[str, str]:
    """Return what ``name=value,name=value`` says."""
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not (name.strip() and equals and value.strip()) for name, equals, value in pairs):
        raise QueryError(parameter, got=text, expected=f"name={what} pairs with commas between them")
    if len({name.strip() for name, _, _ in pairs}) < len(pairs):
        raise QueryError(parameter, got=text, expected="each name once")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _ingest(files: list[Path], lake: str, *, verbose: bool, **options: Any) -> None:
    from tidytape.lake import Lake
    from tidytape.lake.ingest import ingest, summary

    told = str if verbose else summary
    try:
        report = ingest(files, Lake.create(lake), **options)
    except IngestError as error:
        if error.report is not None:  # of several files some went in
            typer.echo(told(error.report))
        raise
    typer.echo(told(report))
