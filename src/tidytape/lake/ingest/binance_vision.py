"""Dumps of data.binance.vision: CSV files, most of them the only one in a zip archive.

========================= =========================================================================================
dump                      becomes
========================= =========================================================================================
``trades``                trades
``aggTrades``             trades, each one the fills of one order at one price. Their ids count otherwise than those of
                          ``trades``: put one or the other of a market into a lake, never both
``fundingRate``           funding, settled rates
``metrics``               open interest. The ratios of traders are left out
``liquidationSnapshot``   liquidations, at the average price and with the amount that was filled. Rows come doubled;
                          the repeated ones are counted, not kept
``klines``                recorded candles, see `_klines`. They are served where a market has no trades
``bookDepth``             nothing, an error: a row is the amount between the price and some percent off it. Which prices
                          it rests at is lost, so no level of a book can be made of it
``bookTicker``            nothing, an error: the best prices alone are no book
========================= =========================================================================================

Which dump a file is, its name tells, e.g. ``BTCUSDT-trades-2024-08-08.zip``, or its header; where both do they must
agree. Files of the spot market have no header. Times are milliseconds or, of the spot market since 2025, microseconds;
the first one tells which.

Nothing in a file tells the market it is from, so the venue has to be given.

Amounts of COIN-M futures, BTCUSD_PERP or BTCUSD_240927, are contracts of some USD each. So trades and liquidations need
the ``contract``, ``"INVERSE"``, and its ``contract_size``, see `tidytape.lake.ingest.ingest`, unless they are
registered. Binance says 100 USD for BTC and mostly 10 USD for others [1]_: "mostly" is why it is not filled in here.
The amounts in coin that ``trades`` hold beside must agree with it. ``metrics`` and ``klines`` tell coins as well, which
are taken.

References
----------
.. [1] Binance, "Coin-Margined Futures Contract Specifications", contract multiplier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import polars as pl

from tidytape.catalogue import Side
from tidytape.errors import IngestError, QueryError, counted
from tidytape.lake.amount_units import is_coin_margined, of_binance
from tidytape.lake.batch import Spool
from tidytape.lake.ingest import _klines
from tidytape.lake.ingest._delimited import split
from tidytape.lake.ingest._fields import (
    ABOVE_ZERO,
    FLAG,
    INTEGER,
    NAME,
    NOT_NEGATIVE,
    NUMBER,
    TEXT,
    Field,
    checked,
    time,
    word,
)
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._time import ISO, unit_of
from tidytape.lake.tables import FUNDING, LIQUIDATIONS, OPEN_INTEREST, TRADES
from tidytape.times import HOUR

__all__ = ["parse", "recognises"]

_ANY_TIME = time("ms")  # a stand-in: the file's first time tells the unit
_ORDER_CLOSES = {"sell": Side.BUY.value, "buy": Side.SELL.value}
"""A liquidating order that sells closes a long, which is our BUY."""


@dataclass(frozen=True, slots=True)
class _Dump:
    """One kind of dump.

    Attributes
    ----------
    columns : tuple of str
        Its header, of the columns that every version has; more may follow.
    widths : tuple of int
        Numbers of columns that a file without a header may have; empty where all have one.
    fields : mapping of str to Field
        The columns that are read, by our names.
    refusal : str
        Why it cannot go into a lake, empty where it can.
    """

    columns: tuple[str, ...]
    widths: tuple[int, ...] = ()
    fields: Mapping[str, Field] = field(default_factory=dict)
    refusal: str = ""


_DUMPS: Mapping[str, _Dump] = MappingProxyType(
    {
        "trades": _Dump(
            # The fourth is quote_qty, price times qty, or base_qty of COIN-M: the contracts in coin.
            ("id", "price", "qty", "", "time", "is_buyer_maker"),
            (6, 7),
            {
                "id": Field("id", INTEGER),
                "price": Field("price", NUMBER),
                "amount": Field("qty", ABOVE_ZERO),
                "coins": Field("base_qty", ABOVE_ZERO, needed=False),
                "timestamp": Field("time", _ANY_TIME),
                "buyer_is_maker": Field("is_buyer_maker", FLAG),
            },
        ),
        "aggTrades": _Dump(
            (
                "agg_trade_id", "price", "quantity", "first_trade_id", "last_trade_id", "transact_time",
                "is_buyer_maker",
            ),
            (7, 8),
            {
                "id": Field("agg_trade_id", INTEGER),
                "price": Field("price", NUMBER),
                "amount": Field("quantity", ABOVE_ZERO),
                "timestamp": Field("transact_time", _ANY_TIME),
                "buyer_is_maker": Field("is_buyer_maker", FLAG),
            },
        ),
        "klines": _Dump(
            (
                "open_time", "open", "high", "low", "close", "volume", "close_time", "quote_volume", "count",
                "taker_buy_volume", "taker_buy_quote_volume", "ignore",
            ),
            (12,),
            {
                "timestamp": Field("open_time", _ANY_TIME),
                "close_time": Field("close_time", _ANY_TIME),
                **{name: Field(name, NUMBER) for name in ("open", "high", "low", "close")},
                "volume": Field("volume", NOT_NEGATIVE),
                "quote_volume": Field("quote_volume", NOT_NEGATIVE),
                "trades": Field("count", INTEGER),
                "buy_volume": Field("taker_buy_volume", NOT_NEGATIVE),
                "buy_quote_volume": Field("taker_buy_quote_volume", NOT_NEGATIVE),
            },
        ),
        "fundingRate": _Dump(
            ("calc_time", "funding_interval_hours", "last_funding_rate"),
            fields={
                "timestamp": Field("calc_time", _ANY_TIME),
                "hours": Field("funding_interval_hours", INTEGER),
                "rate": Field("last_funding_rate", NUMBER),
            },
        ),
        "metrics": _Dump(
            ("create_time", "symbol", "sum_open_interest", "sum_open_interest_value"),
            fields={
                "timestamp": Field("create_time", time(ISO)),
                "raw_symbol": Field("symbol", NAME),
                "amount": Field("sum_open_interest", NOT_NEGATIVE, needed=False),
                "value": Field("sum_open_interest_value", NOT_NEGATIVE, needed=False),
            },
        ),
        "liquidationSnapshot": _Dump(
            (
                "time", "side", "order_type", "time_in_force", "original_quantity", "price", "average_price",
                "order_status", "last_fill_quantity", "accumulated_fill_quantity",
            ),
            fields={
                "timestamp": Field("time", _ANY_TIME),
                "side": Field("side", word(_ORDER_CLOSES)),
                "price": Field("average_price", NOT_NEGATIVE),
                "amount": Field("accumulated_fill_quantity", NOT_NEGATIVE),
                # The rest of the order: what is the same in all of it is the same row.
                "order": Field("order_type", TEXT, needed=False),
                "in_force": Field("time_in_force", TEXT, needed=False),
                "quantity": Field("original_quantity", TEXT, needed=False),
                "limit": Field("price", TEXT, needed=False),
                "status": Field("order_status", TEXT, needed=False),
                "last": Field("last_fill_quantity", TEXT, needed=False),
            },
        ),
        "bookDepth": _Dump(
            ("timestamp", "percentage", "depth", "notional"),
            refusal="bookDepth: amounts within some percent of the price. Which prices they rest at is not told, so "
            "they are no levels of a book",
        ),
        "bookTicker": _Dump(
            ("update_id", "best_bid_price", "best_bid_qty", "best_ask_price", "best_ask_qty"),
            refusal="bookTicker: the best bid and ask alone are no book, and the lake has no table for them",
        ),
    }
)  # fmt: skip

_NAME = re.compile(
    rf"([A-Z0-9_]{{2,40}})-({'|'.join(_DUMPS)}|{_klines.INTERVALS})-\d{{4}}-\d{{2}}(?:-\d{{2}})?\.(?:zip|csv|csv\.gz)"
)


def parse(job: Job, spool: Spool, progress: Callable[[int], object]) -> Parsed:
    """Read one file.

    Parameters
    ----------
    job : Job
        The file and its ``exchange``; ``raw_symbol`` where neither the name nor a column tells it.
    spool : Spool
        Takes the rows.
    progress : callable
        Called with the number of bytes read.

    Returns
    -------
    Parsed

    Raises
    ------
    QueryError
        If no venue is given, or no instrument where the file does not tell it.
    IngestError
        If the file cannot be read, is no dump, or one that holds nothing a lake has a table for.
    """
    venue = job.venue
    parsed = Parsed(spool, amount_unit=of_binance)
    for kind, rows in _blocks(job.path, parsed, progress):
        _PUT[kind](rows.with_columns(exchange=pl.lit(venue)), job, parsed)
    return parsed


def recognises(name: str, head: str) -> bool:
    """Whether a file is a dump: by its name as Binance gives it, or by its header."""
    return _NAME.fullmatch(name) is not None or _by_header(_split_header(head.partition("\n")[0])) is not None


def _blocks(
    path: Path, parsed: Parsed, progress: Callable[[int], object]
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the name of the dump and its rows, checked, block by block."""
    kind = ""
    columns: list[str] = []
    for block in numbered(path, parsed.bad, progress):
        lines = block
        if not kind and lines.height:
            kind, columns, has_header = _kind(path, lines["text"][0])
            lines = lines[1:] if has_header else lines
            if _DUMPS[kind].refusal:
                raise _refused(path, _DUMPS[kind].refusal)
        if not kind:
            continue
        # A column that only some versions have is read where it is.
        wanted_fields = {
            ours: column
            for ours, column in _DUMPS[kind].fields.items()
            if column.needed or column.name in columns
        }
        parsed.lines += lines.height
        texts = split(lines, len(columns), ",", parsed.bad)
        wanted = texts.select(
            "line",
            *(pl.col(f"c{columns.index(column.name)}").alias(ours) for ours, column in wanted_fields.items()),
        )
        if parsed.time_unit is None:
            parsed.time_unit = unit_of(wanted["timestamp"])
        unit = parsed.time_unit or "ms"
        fields = {
            ours: Field(column.name, time(unit)) if column.kind is _ANY_TIME else column
            for ours, column in wanted_fields.items()
        }
        yield kind, parsed.bad.take(checked(wanted, fields))
    if not kind:
        if parsed.bad.first:
            line, reason = parsed.bad.first[0]
            raise IngestError(
                f"{path}:{line}: {reason}", path=str(path), line=line, bad_lines=parsed.bad.count
            )
        raise _refused(path, "the file has no lines")


def _kind(path: Path, first: str) -> tuple[str, list[str], bool]:
    """Name of the dump, its columns, and whether the first line is a header."""
    match = _NAME.fullmatch(path.name)
    named = None if match is None else match[2] if match[2] in _DUMPS else "klines"
    header = _split_header(first)
    told = _by_header(header)
    if told is not None and named not in {None, told}:
        raise _refused(path, f"its name says {named}, and its header {told}")
    if told is not None:
        return told, header, True
    if named is None:
        raise _refused(
            path,
            "neither the header nor the name tells which dump it is; a name is e.g. BTCUSDT-trades-2024-08-08.zip",
        )
    dump = _DUMPS[named]
    if dump.refusal:
        raise _refused(path, dump.refusal)
    if len(header) not in dump.widths:
        widths = " or ".join(map(str, dump.widths))
        what = f"no header of {named}, and " if dump.widths else f"{named} without its header: "
        wanted = (
            f"{counted(len(header), 'column')} instead of {widths}"
            if dump.widths
            else ", ".join(dump.columns)
        )
        raise _refused(path, what + wanted)
    return named, [*dump.columns, *("",) * (len(header) - len(dump.columns))], False


def _split_header(line: str) -> list[str]:
    return [name.strip().strip('"') for name in line.split(",")]


def _by_header(header: list[str]) -> str | None:
    found = [
        name
        for name, dump in _DUMPS.items()
        if all(header.count(column) == 1 for column in dump.columns if column)
    ]
    return found[0] if len(found) == 1 else None


def _refused(path: Path, reason: str) -> IngestError:
    return IngestError(f"{path}: {reason}", path=str(path))


def _symbol(job: Job) -> str:
    """The instrument of a file whose columns do not name it."""
    if job.raw_symbol is not None:
        return job.raw_symbol
    match = _NAME.fullmatch(job.path.name)
    if match is None:
        raise QueryError(
            "raw_symbol",
            got=None,
            expected=f"the instrument of {job.path.name}; a name as Binance gives it tells, e.g. "
            "BTCUSDT-trades-2024-08-08.zip",
        )
    return match[1]


def _coin_margined(job: Job, symbol: str, parsed: Parsed, *, has_coins: bool = False) -> bool:
    """Return whether a market is a COIN-M future, whose amounts are inverse contracts, and note it.

    The symbol says it, or a column of coins, which no other market has.
    """
    found = has_coins or is_coin_margined(symbol)
    if found:
        parsed.inverse.add((job.venue, symbol))
    return found


def _trades(rows: pl.DataFrame, job: Job, parsed: Parsed) -> None:
    symbol = _symbol(job)
    sold = pl.when("buyer_is_maker").then(pl.lit(Side.SELL.value)).otherwise(pl.lit(Side.BUY.value))
    trades = TRADES.conform(
        rows.with_columns(
            raw_symbol=pl.lit(symbol),
            id=pl.col("id").cast(pl.String),
            sequence=pl.col("id"),
            side=sold,
            quote_amount=pl.col("price") * pl.col("amount"),
        )
    )
    has_coins = "coins" in rows.columns
    _coin_margined(job, symbol, parsed, has_coins=has_coins)
    if has_coins:
        trades = trades.with_columns(rows["coins"])
    parsed.batch(TRADES).add(trades)


def _candles(rows: pl.DataFrame, job: Job, parsed: Parsed) -> None:
    symbol = _symbol(job)
    placed = rows.with_columns(raw_symbol=pl.lit(symbol))
    _klines.put(placed, job, parsed, coin_margined=_coin_margined(job, symbol, parsed))


def _funding(rows: pl.DataFrame, job: Job, parsed: Parsed) -> None:
    parsed.batch(FUNDING).add(
        FUNDING.conform(
            rows.with_columns(raw_symbol=pl.lit(_symbol(job)), funding_interval=pl.col("hours") * HOUR)
        )
    )


def _open_interest(rows: pl.DataFrame, job: Job, parsed: Parsed) -> None:
    kept = rows
    if job.raw_symbol is not None:
        kept = rows.filter(pl.col("raw_symbol") == job.raw_symbol)
        if kept.height < rows.height:
            parsed.ignore("metrics of another instrument", rows.height - kept.height)
    # Of a future whose trades are contracts as well: the value is in coin.
    parsed.coins.add(OPEN_INTEREST.name)
    symbols = [symbol for symbol in kept["raw_symbol"].unique() if is_coin_margined(symbol)]
    coin_margined = pl.col("raw_symbol").is_in(symbols)
    told = kept.with_columns(
        pl.when(coin_margined).then("value").otherwise("amount").alias("amount"),
        pl.when(~coin_margined).then("value").alias("quote_amount"),
    )
    unknown = told["amount"].null_count()
    if unknown:
        parsed.ignore("metrics without open interest", unknown)
    parsed.batch(OPEN_INTEREST).add(OPEN_INTEREST.conform(told.filter(pl.col("amount").is_not_null())))


def _liquidations(rows: pl.DataFrame, job: Job, parsed: Parsed) -> None:
    filled = rows.filter((pl.col("amount") > 0) & (pl.col("price") > 0))
    if filled.height < rows.height:
        parsed.ignore("liquidating order that was not filled", rows.height - filled.height)
    # There is no id, and each row comes twice: so a row's whole content names it.
    content = list(_DUMPS["liquidationSnapshot"].fields)
    symbol = _symbol(job)
    _coin_margined(job, symbol, parsed)
    liquidations = LIQUIDATIONS.conform(
        filled.unique(content, keep="first", maintain_order=True).with_columns(
            raw_symbol=pl.lit(symbol),
            id=pl.concat_str(*content, separator="/", ignore_nulls=True),
            sequence=pl.col("line"),
            quote_amount=pl.col("price") * pl.col("amount"),
        )
    )
    batch = parsed.batch(LIQUIDATIONS)
    for part in batch:
        liquidations = liquidations.join(
            part.frame().select("id"), on="id", how="anti", maintain_order="left"
        )
    if liquidations.height < filled.height:
        parsed.ignore("repeated row", filled.height - liquidations.height)
    batch.add(liquidations)
    batch.counted = True


_PUT: Mapping[str, Callable[[pl.DataFrame, Job, Parsed], None]] = {
    "trades": _trades,
    "aggTrades": _trades,
    "klines": _candles,
    "fundingRate": _funding,
    "metrics": _open_interest,
    "liquidationSnapshot": _liquidations,
}
