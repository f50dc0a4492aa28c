"""Dumps of data.binance.vision: CSV files, most of them in a zip archive of one file.

========================= =========================================================================================
dump                      becomes
========================= =========================================================================================
``trades``                trades
``aggTrades``             trades; one row is all fills of an order at one price. Their ids differ from those of
                          ``trades``, so a market takes one of the two, and the other is refused
``fundingRate``           funding, settled rates
``metrics``               open interest. The ratios of traders are left out
``liquidationSnapshot``   liquidations, at the average price and with the amount that was filled. Each row comes twice;
                          repeated rows are counted, not kept
``klines``                recorded candles. The service uses them if a market has no trades
``bookDepth``             nothing, an error: a row is the amount between the price and some percent away from it. The
                          prices of its orders are lost, so it cannot become levels of a book
``bookTicker``            nothing, an error: the best prices alone are no book
========================= =========================================================================================

The name of a file, e.g. ``BTCUSDT-trades-2024-08-08.zip``, or its first line shows which dump it is; if both do, they
must agree. Files of the spot market have no header, so files of trades and candles with a header are of futures:
PERPETUAL, unless the symbol has a date. Times are in milliseconds, in files of the spot market since 2025 in
microseconds; the first time of a file shows the unit.

Nothing in a file shows from which of Binance's exchanges it is, so the caller must name the exchange.

Amounts of COIN-M futures, BTCUSD_PERP or BTCUSD_240927, are contracts of some USD each. So trades and liquidations need
the ``contract``, ``"INVERSE"``, and its ``contract_size``, see `tidytape.lake.ingest.ingest`, unless they are
registered. Binance says 100 USD for BTC and mostly 10 USD for others [1]_; because of "mostly" tidytape does not fill
it in. ``trades`` also have the amounts in coin, which must agree with the size. ``metrics`` and ``klines`` also have
amounts in coin, and tidytape takes those.

The name shows the length of candles: ``BTCUSDT-1m-2024-08-08.zip``. A row shows it too: from its open to one unit of
time after its close. Without such a name, the first row with a possible length of candles decides. Every row must
agree. Months differ in length, so their candles are refused.

Dumps of candles of mark, index and premium prices have the same names and columns. Their volume is 0
although prices moved; such rows are bad lines, because they are not of trades.

Candles of COIN-M futures have a column of contracts and a column of coins: the coins are the volume. The volume in the
quote is the number of contracts times their size, so it is null if the contract is not known.

References
----------
.. [1] Binance, "Coin-Margined Futures Contract Specifications", contract multiplier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import ClassVar

import polars as pl

from tidytape.catalogue import Category, Side
from tidytape.errors import IngestError, QueryError, counted
from tidytape.lake._amount_units import is_coin_margined, of_binance
from tidytape.lake._batch import Spool
from tidytape.lake._symbols import told_class
from tidytape.lake._tables import FUNDING, LIQUIDATIONS, OPEN_INTEREST, RECORDED_CANDLES, TRADES
from tidytape.lake.ingest._decode import Header, delimited
from tidytape.lake.ingest._fields import (
    ABOVE_ZERO,
    FLAG,
    INTEGER,
    LENGTHS,
    NAME,
    NOT_NEGATIVE,
    NUMBER,
    TEXT,
    Field,
    checked,
    impossible,
    time,
    word,
)
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._report import Note
from tidytape.lake.ingest._time import ISO, UNITS, unit_of
from tidytape.times import HOUR

_ANY_TIME = time("ms")  # a placeholder: the file's first time shows the unit
_ORDER_CLOSES = {"sell": Side.BUY.value, "buy": Side.SELL.value}
"""A liquidating order that sells closes a long, which is our BUY."""


@dataclass(frozen=True, slots=True)
class _Dump:
    """One kind of dump.

    Attributes
    ----------
    columns : tuple of str
        Names in the header of the columns that every version has; other columns may follow.
    widths : tuple of int
        How many columns a file without a header may have; empty if all files have a header.
    fields : mapping of str to Field
        The columns that are read, by our names.
    refusal : str
        Why the dump cannot go into a lake; empty if it can.
    """

    columns: tuple[str, ...]
    widths: tuple[int, ...] = ()
    fields: Mapping[str, Field] = field(default_factory=dict)
    refusal: str = ""


_DUMPS: Mapping[str, _Dump] = MappingProxyType(
    {
        "trades": _Dump(
            # The fourth column is quote_qty, which is price times qty; for COIN-M it is base_qty, the contracts in
            # coin.
            ("id", "price", "qty", "", "time", "is_buyer_maker"),
            (6, 7),
            {
                "id": Field("id", INTEGER),
                "price": Field("price", ABOVE_ZERO),
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
                "price": Field("price", ABOVE_ZERO),
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
                # Only to recognise repeated rows, which are equal in all fields.
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

_INTERVALS = r"\d{1,2}(?:s|m|h|d|w|mo)"
"""Pattern of the lengths of candles in names of files."""

_NAME = re.compile(
    rf"([A-Z0-9_]{{2,40}})-({'|'.join(_DUMPS)}|{_INTERVALS})-\d{{4}}-\d{{2}}(?:-\d{{2}})?\.(?:zip|csv|csv\.gz)"
)


@dataclass(frozen=True, slots=True)
class _Columns(Header):
    """The columns of a dump, and its name in `_DUMPS`."""

    kind: str = ""


def _described(job: Job, first: str) -> _Columns:
    """Return the columns of a file, and which dump it is, by its first line and its name, which must agree."""
    match = _NAME.fullmatch(job.path.name)
    kind_by_name = None if match is None else match[2] if match[2] in _DUMPS else "klines"
    names = _split_header(first)
    kind_by_header = _by_header(names)
    kind_by_line = kind_by_header or _by_row(names)
    if kind_by_line is not None and kind_by_name not in {None, kind_by_line}:
        part = "first row" if kind_by_header is None else "header"
        raise _refused(job, f"its name says {kind_by_name}, and its {part} {kind_by_line}")
    kind = kind_by_line or kind_by_name
    if kind is None:
        raise _refused(
            job,
            "neither the first line nor the name tells which dump it is; a name is e.g. "
            "BTCUSDT-trades-2024-08-08.zip",
        )
    dump = _DUMPS[kind]
    if dump.refusal:
        raise _refused(job, dump.refusal)
    if kind_by_header is not None:
        return _Columns(names, kind=kind)
    if not dump.widths:
        raise _refused(job, f"{kind} without its header: {', '.join(dump.columns)}")
    if len(names) not in dump.widths:
        widths = " or ".join(map(str, dump.widths))
        raise _refused(job, f"no header of {kind}, and {counted(len(names), 'column')} instead of {widths}")
    return _Columns([*dump.columns, *("",) * (len(names) - len(dump.columns))], is_line=False, kind=kind)


def _by_row(texts: list[str]) -> str | None:
    """Return the only dump without a header whose columns can hold the texts of a row; None if none or several can."""
    dumps = []
    for name, dump in _DUMPS.items():
        if len(texts) in dump.widths:
            values = dict(zip(dump.columns, texts, strict=False))
            fields = {column: field for column, field in dump.fields.items() if field.name in values}
            row = pl.DataFrame({"line": 0} | {column: values[field.name] for column, field in fields.items()})
            if checked(row, _timed(fields, unit_of(row["timestamp"])))["reason"].item() is None:
                dumps.append(name)
    return dumps[0] if len(dumps) == 1 else None


def _timed(fields: Mapping[str, Field], unit: str | None) -> dict[str, Field]:
    """Return the fields of a dump with their times in the unit of the file."""
    times = time(unit or "ms")
    return {
        name: Field(column.name, times) if column.kind is _ANY_TIME else column
        for name, column in fields.items()
    }


def _timed_by(parsed: Parsed, fields: Mapping[str, Field], times: pl.Series) -> dict[str, Field]:
    """Return the fields of a dump with their times in the unit of the file, which its first times show."""
    parsed.time_unit = parsed.time_unit or unit_of(times)
    return _timed(fields, parsed.time_unit)


def _split_header(line: str) -> list[str]:
    return [name.strip().strip('"') for name in line.split(",")]


def _by_header(header: list[str]) -> str | None:
    """Return the name of the only dump that has such a header; None if none or several have."""
    dumps = [
        name
        for name, dump in _DUMPS.items()
        if all(header.count(column) == 1 for column in dump.columns if column)
    ]
    return dumps[0] if len(dumps) == 1 else None


def _refused(job: Job, reason: str) -> IngestError:
    return IngestError(f"{job.path}: {reason}", path=str(job.path))


def _symbol(job: Job) -> str:
    """Return the symbol of a file without a column of symbols: the caller's, or that in the name of the file."""
    if job.raw_symbol is not None:
        return job.raw_symbol
    match = _NAME.fullmatch(job.path.name)
    if match is None:
        raise QueryError(
            "raw_symbol",
            got=None,
            expected=f"the market of {job.path.name}; a name as Binance gives it tells, e.g. "
            "BTCUSDT-trades-2024-08-08.zip",
        )
    return match[1]


def _coin_margined(job: Job, symbol: str, parsed: Parsed, *, has_coins: bool = False) -> bool:
    """Return whether a market is a COIN-M future, and if so, add it to ``parsed.inverse``.

    Its amounts are inverse contracts. The symbol shows it, or a column of coins, which other files do not have.
    """
    if not (has_coins or is_coin_margined(symbol)):
        return False
    parsed.inverse.add((job.known_exchange, symbol))
    return True


def _trades(rows: pl.DataFrame, job: Job, parsed: Parsed) -> None:
    symbol = _symbol(job)
    side = pl.when("buyer_is_maker").then(pl.lit(Side.SELL.value)).otherwise(pl.lit(Side.BUY.value))
    trades = TRADES.conform(
        rows.with_columns(
            raw_symbol=pl.lit(symbol),
            id=pl.col("id").cast(pl.String),
            sequence=pl.col("id"),
            side=side,
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
    candles = rows.with_columns(raw_symbol=pl.lit(symbol))
    _put_candles(candles, job, parsed, coin_margined=_coin_margined(job, symbol, parsed))


_NAMED = re.compile(rf"-({_INTERVALS})-\d{{4}}-")
_WORDS = {length: word for word, length in LENGTHS.items() if word.islower()}


def _named_length(job: Job) -> int | None:
    """Return the length of a file's candles by its name; None if the name does not show it. [ns]

    Raises
    ------
    IngestError
        If the name has a length that candles of the lake cannot have.
    """
    match = _NAMED.search(job.path.name)
    if match is None:
        return None
    if match[1].endswith("mo"):
        reason = "klines of months: they differ in length, and a candle of the lake has one; take those of 1d"
    elif match[1] not in LENGTHS:
        reason = f"klines of {match[1]}: none of {', '.join(_WORDS[length] for length in sorted(_WORDS))}"
    else:
        return LENGTHS[match[1]]
    raise IngestError(f"{job.path}: {reason}", path=str(job.path))


def _put_candles(rows: pl.DataFrame, job: Job, parsed: Parsed, *, coin_margined: bool) -> None:
    """Put checked rows into the table of recorded candles.

    Parameters
    ----------
    rows : polars.DataFrame, one row per line
        The columns of the dump by our names: those of the table, ``close_time`` and ``trades``.
    job : Job
        The file.
    parsed : Parsed
        Takes the rows. ``time_unit`` is the unit of both times, and ``interval`` the length that earlier rows showed.
    coin_margined : bool
        Whether the columns of volumes hold contracts, and the columns of quote volumes coins.
    """
    time_step = 10 ** UNITS.get(parsed.time_unit or "ms", 6)
    rows_with_length = rows.with_columns(interval=pl.col("close_time") - pl.col("timestamp") + time_step)
    length_by_name = _named_length(job)
    if parsed.interval is None:
        possible_lengths = rows_with_length["interval"].filter(
            rows_with_length["interval"].is_in(list(_WORDS))
        )
        parsed.interval = length_by_name or (possible_lengths[0] if possible_lengths.len() else None)
    good_rows = parsed.bad.take(
        _agreeing(rows_with_length, parsed.interval, is_named=length_by_name is not None)
    )
    is_without_trades = (pl.col("volume") == 0) & (
        (pl.col("trades") != 0) | (pl.col("high") != pl.col("low"))
    )
    good_rows = parsed.bad.take(
        good_rows.with_columns(
            reason=pl.when(is_without_trades).then(
                pl.lit("no volume, but a price that moved: of a mark, index or premium, not of trades")
            )
        )
    )
    if coin_margined:
        good_rows = good_rows.rename({"volume": "contracts", "buy_volume": "buy_contracts"}).rename(
            {"quote_volume": "volume", "buy_quote_volume": "buy_volume"}
        )
    good_rows = parsed.bad.take(impossible(good_rows))
    candles = RECORDED_CANDLES.conform(good_rows)
    if coin_margined:
        candles = candles.with_columns(good_rows["contracts"], good_rows["buy_contracts"])
    parsed.batch(RECORDED_CANDLES).add(candles)


def _agreeing(rows: pl.DataFrame, candle_length: int | None, *, is_named: bool) -> pl.DataFrame:
    """Add a ``reason`` to candles that do not close ``candle_length`` after their open."""
    if candle_length is None:
        reason = "it closes when no candle would whose length is one of " + ", ".join(
            _WORDS[length] for length in sorted(_WORDS)
        )
        return rows.with_columns(reason=pl.lit(reason))
    length_source = "the name of the file" if is_named else "a row before it"
    reason = f"it does not close after {_WORDS[candle_length]}, as {length_source} says"
    return rows.with_columns(reason=pl.when(pl.col("interval") != candle_length).then(pl.lit(reason)))


def _funding(rows: pl.DataFrame, job: Job, parsed: Parsed) -> None:
    parsed.batch(FUNDING).add(
        FUNDING.conform(
            rows.with_columns(raw_symbol=pl.lit(_symbol(job)), funding_interval=pl.col("hours") * HOUR)
        )
    )


def _open_interest(rows: pl.DataFrame, job: Job, parsed: Parsed) -> None:
    metrics = parsed.only(rows, job.raw_symbol, others="metrics of another market")
    # Open interest is in coin, even for futures whose trades count contracts: see the columns taken below.
    parsed.coins.add(OPEN_INTEREST.name)
    coin_margined_symbols = [symbol for symbol in metrics["raw_symbol"].unique() if is_coin_margined(symbol)]
    is_coin_margined_row = pl.col("raw_symbol").is_in(coin_margined_symbols)
    interest = metrics.with_columns(
        pl.when(is_coin_margined_row).then("value").otherwise("amount").alias("amount"),
        pl.when(~is_coin_margined_row).then("value").alias("quote_amount"),
    )
    parsed.ignore("metrics without open interest", interest["amount"].null_count())
    if zeros := interest.filter(pl.col("amount") == 0).height:
        parsed.notes.append(Note("open interest", "of 0, which may stand for one that was not known", zeros))
    parsed.batch(OPEN_INTEREST).add(OPEN_INTEREST.conform(interest.filter(pl.col("amount").is_not_null())))


def _liquidations(rows: pl.DataFrame, job: Job, parsed: Parsed) -> None:
    filled_orders = rows.filter((pl.col("amount") > 0) & (pl.col("price") > 0))
    parsed.ignore("liquidating order that was not filled", rows.height - filled_orders.height)
    # A row has no id, and files repeat it, so its whole content is its id.
    content_columns = list(_DUMPS["liquidationSnapshot"].fields)
    symbol = _symbol(job)
    _coin_margined(job, symbol, parsed)
    liquidations = LIQUIDATIONS.conform(
        filled_orders.unique(content_columns, keep="first", maintain_order=True).with_columns(
            raw_symbol=pl.lit(symbol),
            id=pl.concat_str(*content_columns, separator="/", ignore_nulls=True),
            sequence=pl.col("line"),
            quote_amount=pl.col("price") * pl.col("amount"),
        )
    )
    batch = parsed.batch(LIQUIDATIONS)
    for part in batch:
        liquidations = liquidations.join(
            part.frame().select("id"), on="id", how="anti", maintain_order="left"
        )
    parsed.ignore("repeated row", filled_orders.height - liquidations.height)
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


_OF_FUTURES = frozenset({"trades", "aggTrades", "klines"})
"""The dumps of which only those of futures have a header."""


class BinanceVision(Layout):
    """Dumps of data.binance.vision: trades, candles, funding, open interest, liquidations."""

    name = "binance-vision"
    needs_exchange = True
    amounts: ClassVar[Mapping[str, str]] = {
        TRADES.name: "the symbol, or a column `base_qty`",
        RECORDED_CANDLES.name: "the column of coins that the file also has",
        OPEN_INTEREST.name: "the column with the value in coins that the file also has",
        LIQUIDATIONS.name: "the symbol",
    }

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file is a dump, by the name that Binance gives it or by its header."""
        columns = _split_header(head.partition("\n")[0])
        has_other_header = columns[0].replace("_", "").isalpha()
        return _by_header(columns) is not None or (_NAME.fullmatch(name) is not None and not has_other_header)

    def told_by_name(self, job: Job) -> str:
        """Return the symbol that the name of a file tells: equal rates of two markets are not one file."""
        match = _NAME.fullmatch(job.path.name)
        return "" if match is None or job.raw_symbol is not None else match[1]

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        exchange = pl.lit(job.known_exchange)
        parsed = Parsed(spool, amount_unit=of_binance)
        for block in delimited(job, parsed, progress, lambda _, first: _described(job, first)):
            header = block.header
            # Leave out optional columns that this version of the dump does not have.
            dump_fields = {
                name: column
                for name, column in _DUMPS[header.kind].fields.items()
                if column.needed or column.name in header.names
            }
            parsed.kind = header.kind
            if header.is_line and header.kind in _OF_FUTURES and job.market.category is None:
                symbol = _symbol(job)
                category = told_class(symbol) or Category.PERPETUAL.value
                parsed.futures, parsed.markets[job.known_exchange, symbol] = True, Market(category=category)
            rows = block.rows(dump_fields, partial(_timed_by, parsed, dump_fields))
            _PUT[header.kind](rows.with_columns(exchange=exchange), job, parsed)
        return parsed
