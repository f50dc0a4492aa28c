"""Data of tardis.dev: its CSV datasets, and the normalised messages of tardis-node and tardis-machine.

In both, every line names its exchange and market. Times in a dataset are epoch microseconds.

========================= =========================================================================================
dataset                   becomes
========================= =========================================================================================
trades                    trades; those whose side is ``unknown`` have no side
incremental_book_L2       book events. They have no update ids, so time and line order them; the rows of one
                          snapshot have the same timestamp
book_snapshot_5, _25      book events; each line is a snapshot of the levels that it names. If several lines have one
                          timestamp, the last line is kept
derivative_ticker         funding, if a rate or a predicted rate is known, and open interest, if it is known
liquidations              liquidations
options_chain             option quotes
quotes, book_ticker       nothing: the best prices alone are not a book
========================= =========================================================================================

The header shows which dataset a file is; trades and liquidations have the same header, so the file's name tells these
two apart. In a book, an amount is the size at its price from that time on, and 0 removes the price.

========================= =========================================================================================
``type``                  becomes
========================= =========================================================================================
``trade``                 trades; those whose side is ``unknown`` have no side
``derivative_ticker``     funding, if a rate or a predicted rate is known, and open interest, if it is known
``liquidation``           liquidations
``option_summary``        option quotes
anything else             is counted, not kept
========================= =========================================================================================

One file of messages may hold many exchanges.

Amounts are in the unit of the exchange: coins, the quote or contracts. Tardis's own name of the exchange and the symbol
show the unit, see `tidytape.lake._amount_units`, whatever name the caller gives to the exchange.

Liquidations have the side of the order that closed the position [1]_: a sell closed a long. Our side is that of the
position, so their sell is our BUY, a liquidated long.

Some exchanges publish implied volatilities in percent, others as decimals. `VOLATILITY` lists which. A quote of an
exchange that is not in the list is a bad line, because the quote does not show whether 0.8 is 0.8% or 80%.

If several reports of a market have one timestamp, one of them is kept, because the lake has one state per time, see
`tidytape.lake._dedupe`. Messages do not have the time between settlements of funding, see ``funding_interval`` of
`tidytape.lake.ingest.Market`.

Trades of Binance are those of its channel ``trade`` [2]_, so a market with aggregated trades refuses them.

References
----------
.. [1] Tardis, "Data Types", liquidations. Its mappers turn Bybit's "Buy", the side of the position, into "sell".
.. [2] Tardis, "tardis-node", the mappers of Binance: ids of trades are ``t`` of ``trade``, liquidations ``forceOrder``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import ClassVar

import polars as pl

from tidytape.catalogue import BookSide, Side
from tidytape.errors import IngestError, counted
from tidytape.lake._amount_units import CountedUnit, documented
from tidytape.lake._batch import Spool
from tidytape.lake._dedupe import keep_latest, one_id_each, with_ids
from tidytape.lake._tables import BOOK, FUNDING, LIQUIDATIONS, OPEN_INTEREST, OPTION_QUOTES, TRADES, Table
from tidytape.lake.ingest._decode import Header, decoded, delimited
from tidytape.lake.ingest._fields import (
    ABOVE_ZERO,
    FLAG,
    NAME,
    NOT_NEGATIVE,
    NUMBER,
    TEXT,
    Field,
    Kind,
    checked,
    time,
    word,
)
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._time import ISO

_BY_NAME = "Tardis's own name of the exchange, and the symbol"
_AMOUNTS = {
    TRADES.name: _BY_NAME,
    OPEN_INTEREST.name: _BY_NAME,
    LIQUIDATIONS.name: _BY_NAME,
    OPTION_QUOTES.name: f"{_BY_NAME}; if they do not show the unit, open interest is null",
}

_BUY, _SELL = Side.BUY.value, Side.SELL.value
_UNKNOWN = "UNKNOWN"

VOLATILITY: Mapping[str, float] = MappingProxyType(
    {
        "binance-european-options": 100.0,
        "bullish": 100.0,
        "bybit-options": 100.0,
        "deribit": 1.0,
        "huobi-dm-options": 100.0,
        "okex-options": 100.0,
    }
)
"""Factor that converts the implied volatility of an exchange to percent."""

_TIME = time("iso")  # a placeholder: `_fields` replaces it by the kind of the layout's times

# A column: Tardis's name in CSV files, its name in messages, what it holds, and whether every row needs a value.
_Source = tuple[str, str, Kind, bool]

_COMMON: Mapping[str, _Source] = {
    "exchange": ("exchange", "exchange", NAME, True),
    "raw_symbol": ("symbol", "symbol", NAME, True),
    "timestamp": ("timestamp", "timestamp", _TIME, True),
    "received": ("local_timestamp", "localTimestamp", _TIME, False),
}
_TRADE: Mapping[str, _Source] = {
    "id": ("id", "id", TEXT, False),
    "price": ("price", "price", NUMBER, True),
    "amount": ("amount", "amount", ABOVE_ZERO, True),
}
_KINDS: Mapping[str, Mapping[str, _Source]] = MappingProxyType(
    {
        "trade": {
            **_TRADE,
            "side": ("side", "side", word({"buy": _BUY, "sell": _SELL, "unknown": _UNKNOWN}), True),
        },
        "liquidation": {**_TRADE, "side": ("side", "side", word({"buy": _SELL, "sell": _BUY}), True)},
        "derivative_ticker": {
            "rate": ("funding_rate", "fundingRate", NUMBER, False),
            "predicted_rate": ("predicted_funding_rate", "predictedFundingRate", NUMBER, False),
            "next_funding": ("funding_timestamp", "fundingTimestamp", _TIME, False),
            "amount": ("open_interest", "openInterest", NOT_NEGATIVE, False),
            "price": ("mark_price", "markPrice", NUMBER, False),
        },
        "option_summary": {
            "option_type": ("type", "optionType", word({"call": "CALL", "put": "PUT"}), True),
            "strike": ("strike_price", "strikePrice", ABOVE_ZERO, True),
            "expiry": ("expiration", "expirationDate", _TIME, True),
            "implied_volatility": ("mark_iv", "markIV", NOT_NEGATIVE, False),
            "delta": ("delta", "delta", NUMBER, False),
            "forward": ("underlying_price", "underlyingPrice", NUMBER, False),
            "mark_price": ("mark_price", "markPrice", NUMBER, False),
            "open_interest": ("open_interest", "openInterest", NOT_NEGATIVE, False),
        },
    }
)
"""The kinds of rows and messages that are kept, with their columns by our names."""


def _fields(columns: Mapping[str, _Source], *, message: bool, time_unit: str) -> dict[str, Field]:
    """Return the fields of one kind of rows, by our names.

    Parameters
    ----------
    columns : mapping
        The columns of this kind, as in `_KINDS`, without those of `_COMMON`.
    message : bool
        Whether to return the names in messages; otherwise those in CSV files.
    time_unit : str
        How times are written.
    """
    times = time(time_unit)
    return {
        column: Field(in_message if message else in_csv, times if kind is _TIME else kind, is_needed)
        for column, (in_csv, in_message, kind, is_needed) in {**_COMMON, **columns}.items()
    }


def _of_market(
    rows: pl.DataFrame, job: Job, parsed: Parsed, *, what: str, exchanges: set[str]
) -> pl.DataFrame:
    """Return the rows of the caller's market, with our name of the exchange, and Tardis's name in ``tardis_exchange``.

    ``binance-futures`` becomes BINANCE_FUTURES, unless the caller names the exchange.

    Parameters
    ----------
    rows : polars.DataFrame
        What `tidytape.lake.ingest._fields.checked` returns.
    job : Job
        Says which exchange and symbol the caller names.
    parsed : Parsed
        Counts the rows of other markets.
    what : str
        What a report calls one row.
    exchanges : set of str
        Tardis's names of the exchanges of the file so far; the names of these rows are added.

    Raises
    ------
    IngestError
        If the caller names one exchange, and the file has rows of several.
    """
    if job.exchange is None:
        name = pl.col("exchange").str.to_uppercase().str.replace_all("-", "_", literal=True)
    else:
        exchanges.update(rows["exchange"].unique())
        if len(exchanges) > 1:
            message = f"{job.path}: holds {', '.join(sorted(exchanges)[:3])} and not {job.exchange} alone"
            raise IngestError(message, path=str(job.path))
        name = pl.lit(job.exchange)
    renamed_rows = rows.with_columns(name.alias("exchange"), pl.col("exchange").alias("tardis_exchange"))
    parsed.exchanges.update(renamed_rows.select("exchange", "tardis_exchange").unique().iter_rows())
    return parsed.only(renamed_rows, job.raw_symbol, others=f"{what} of another market")


def _put(kind: str, rows: pl.DataFrame, parsed: Parsed) -> None:
    """Put checked rows of one of `_KINDS` into their tables."""
    {
        "trade": _trades,
        "liquidation": _liquidations,
        "derivative_ticker": _tickers,
        "option_summary": _options,
    }[kind](rows, parsed)


def _finish(parsed: Parsed) -> None:
    """Set the attributes of ``parsed`` that hold for all rows of a file."""
    parsed.any_class = True
    parsed.amount_unit = partial(_amount_unit, parsed.exchanges)
    is_binance = all(name.startswith("binance") for name in parsed.exchanges.values())
    for table, kind in ((TRADES, "trades"), (LIQUIDATIONS, "forceOrder")):
        parsed.batch(table).counted = True
        parsed.batch(table).kind = kind if is_binance else None


def _amount_unit(
    exchanges: Mapping[str, str], table: str, exchange: str, raw_symbol: str
) -> CountedUnit | None:
    """Return the unit that Tardis's own name of the exchange shows; None if the exchange is not known."""
    return documented(exchanges.get(exchange, exchange), raw_symbol, table, otherwise=None)


def _trades(rows: pl.DataFrame, parsed: Parsed) -> None:
    trades = rows.with_columns(side=pl.when(pl.col("side") != _UNKNOWN).then("side"))
    parsed.batch(TRADES).add(TRADES.conform(_identified(trades, parsed, TRADES)))


def _liquidations(rows: pl.DataFrame, parsed: Parsed) -> None:
    parsed.batch(LIQUIDATIONS).add(LIQUIDATIONS.conform(_identified(rows, parsed, LIQUIDATIONS)))


def _identified(rows: pl.DataFrame, parsed: Parsed, table: Table) -> pl.DataFrame:
    """Return events in the order of their lines, each with the exchange's id or an id made from its content."""
    good_rows = parsed.bad.take(one_id_each(rows, table.same))
    has_id = pl.col("id").is_not_null()
    with_made_ids = with_ids(good_rows.filter(~has_id).drop("id"), parsed.before(table)).select(
        good_rows.columns
    )
    return (
        pl.concat([good_rows.filter(has_id), with_made_ids])
        .sort("line")
        .with_columns(sequence=pl.col("line"), quote_amount=pl.col("price") * pl.col("amount"))
    )


def _tickers(rows: pl.DataFrame, parsed: Parsed) -> None:
    has_funding = pl.any_horizontal(pl.col("rate", "predicted_rate").is_not_null())
    has_interest = pl.col("amount").is_not_null()
    parsed.batch(FUNDING).add(FUNDING.conform(rows.filter(has_funding)))
    interest = rows.filter(has_interest)
    # The mark price is kept, because it converts amounts that are contracts of an inverse future.
    parsed.batch(OPEN_INTEREST).add(OPEN_INTEREST.conform(interest).with_columns(interest["price"]))
    neither = rows.filter(~has_funding & ~has_interest)
    parsed.ignore("ticker without funding rate and open interest", neither.height)


def _options(rows: pl.DataFrame, parsed: Parsed) -> None:
    scale = pl.col("tardis_exchange").replace_strict(dict(VOLATILITY), default=None, return_dtype=pl.Float64)
    is_unknown_scale = pl.col("implied_volatility").is_not_null() & scale.is_null()
    coin = pl.col("raw_symbol").str.extract(r"^([A-Z0-9$]+)[-_]", 1)
    quotes = parsed.bad.take(
        rows.with_columns(
            coin=coin,
            reason=pl.coalesce(
                pl.when(is_unknown_scale).then(
                    pl.format(
                        "whether {} quotes volatility in percent or as a decimal is not known",
                        "tardis_exchange",
                    )
                ),
                pl.when(coin.is_null()).then(pl.lit("the symbol does not begin with a coin and a - or _")),
            ),
        )
    )
    parsed.batch(OPTION_QUOTES).add(
        OPTION_QUOTES.conform(quotes.with_columns(implied_volatility=pl.col("implied_volatility") * scale))
    )


_UNIT = "us"
_FIRST_COLUMNS = ["exchange", "symbol", "timestamp", "local_timestamp"]
_BID, _ASK = BookSide.BID.value, BookSide.ASK.value
_LEVEL: Mapping[str, _Source] = {
    "price": ("price", "price", NUMBER, True),
    "size": ("amount", "amount", NOT_NEGATIVE, True),
}
_UPDATE: Mapping[str, _Source] = {
    "is_snapshot": ("is_snapshot", "isSnapshot", FLAG, True),
    "side": ("side", "side", word({"bid": _BID, "ask": _ASK}), True),
    **_LEVEL,
}
_SNAPSHOT_LEVEL = re.compile(r"(asks|bids)\[(\d+)\]\.(price|amount)")
_TOP_OF_BOOK = {"ask_amount", "ask_price", "bid_price", "bid_amount"}
_NAMED = re.compile(r"(?:^|_)(trades|liquidations)(?=_|\.|$)")
_BY_HEADER = ("option_summary", "derivative_ticker", "trade")
"""Kinds that the header shows, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class _Dataset(Header):
    """The columns of a dataset, and its kind.

    Attributes
    ----------
    kind : str
        One of `_KINDS`, ``update`` or ``snapshot``.
    fields : dict of str to Field
        The columns that are read, by our names.
    depth : int
        Number of levels of each side, if it is a snapshot.
    """

    kind: str = ""
    fields: Mapping[str, Field] = field(default_factory=dict)
    depth: int = 0


def _dataset(job: Job, text: str) -> _Dataset:
    """Return which dataset a file is, by its header; IngestError if the dataset cannot become events."""
    header = text.strip().split(",")
    if header[:4] != _FIRST_COLUMNS or len(set(header)) < len(header):
        raise _refused(
            job, f"no dataset of tardis.dev, its header does not begin with {', '.join(_FIRST_COLUMNS)}"
        )
    levels = [match for name in header if (match := _SNAPSHOT_LEVEL.fullmatch(name))]
    if levels:
        return _snapshots(job, header, levels)
    if _has(header, _UPDATE):
        return _Dataset(header, kind="update", fields=_csv_fields(_UPDATE))
    if set(header) >= _TOP_OF_BOOK and "strike_price" not in header:
        raise _refused(
            job, "quotes: the best bid and ask alone are no book, and the lake has no table for them"
        )
    kind = next((kind for kind in _BY_HEADER if _has(header, _KINDS[kind])), None)
    if kind is None:
        raise _refused(job, f"a dataset that is not known, with the columns {', '.join(header)[:200]}")
    if kind == "trade":
        kind = _kind_by_name(job)
    return _Dataset(header, kind=kind, fields=_csv_fields(_KINDS[kind]))


def _has(header: list[str], columns: Mapping[str, _Source]) -> bool:
    """Return whether a header has each of some columns exactly once."""
    return all(header.count(name[0]) == 1 for name in columns.values())


def _csv_fields(columns: Mapping[str, _Source]) -> dict[str, Field]:
    return _fields(columns, message=False, time_unit=_UNIT)


def _snapshots(job: Job, header: list[str], levels: list[re.Match[str]]) -> _Dataset:
    """Return the dataset whose header has columns of levels; IngestError if a level lacks a column."""
    depth = 1 + max(int(match[2]) for match in levels)
    if len(levels) != 4 * depth:
        raise _refused(
            job, f"{counted(len(levels), 'column')} of levels, and a book {depth} deep has {4 * depth}"
        )
    columns = {
        f"{side}:{level}:{what}": (name, name, NUMBER if what == "price" else NOT_NEGATIVE, False)
        for side in ("asks", "bids")
        for level in range(depth)
        for what in ("price", "amount")
        for name in (f"{side}[{level}].{what}",)
    }
    return _Dataset(header, kind="snapshot", fields=_csv_fields(columns), depth=depth)


def _kind_by_name(job: Job) -> str:
    """Return the kind that a file's name shows: trades and liquidations have the same header."""
    words = {match[1] for match in _NAMED.finditer(job.path.name)}
    if len(words) != 1:
        raise _refused(
            job,
            "trades and liquidations have the same columns; the file's name must hold _trades_ or _liquidations_",
        )
    return words.pop().removesuffix("s")


def _refused(job: Job, reason: str) -> IngestError:
    return IngestError(f"{job.path}: {reason}", path=str(job.path), line=1)


def _checked_levels(rows: pl.DataFrame, depth: int) -> pl.DataFrame:
    """Add a ``reason`` to snapshots with a level that has only a price or only an amount."""
    is_incomplete = pl.any_horizontal(
        pl.col(f"{side}:{level}:price").is_null() != pl.col(f"{side}:{level}:amount").is_null()
        for side in ("asks", "bids")
        for level in range(depth)
    )
    return rows.with_columns(
        reason=pl.when(is_incomplete).then(pl.lit("a level with a price or an amount alone"))
    )


def _levels(rows: pl.DataFrame, depth: int) -> pl.DataFrame:
    """Return one row per level of each snapshot; a side may have fewer levels than columns."""
    event_columns = ("line", "exchange", "raw_symbol", "timestamp", "received")
    sides = {"bids": _BID, "asks": _ASK}
    frames = [
        rows.select(
            *event_columns,
            pl.lit(side).alias("side"),
            pl.col(f"{column}:{level}:price").alias("price"),
            pl.col(f"{column}:{level}:amount").alias("size"),
            (pl.col("line") * (2 * depth) + side_index * depth + level).alias("sequence"),
        )
        for side_index, (column, side) in enumerate(sides.items())
        for level in range(depth)
    ]
    complete_levels = pl.concat(frames).filter(pl.col("price").is_not_null() & pl.col("size").is_not_null())
    return BOOK.conform(complete_levels.sort("sequence").with_columns(is_snapshot=pl.lit(value=True)))


class Tardis(Layout):
    """CSV datasets of tardis.dev, which name their exchange and market."""

    name = "tardis"
    names_exchange = True
    follows = True
    header_lines = 1
    amounts: ClassVar[Mapping[str, str]] = _AMOUNTS | {BOOK.name: _BY_NAME}

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file is a dataset, by the first columns of its header, which all datasets have."""
        return head.partition("\n")[0].strip().split(",")[:4] == _FIRST_COLUMNS

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool, time_unit=_UNIT, piece=job.piece)
        dataset: _Dataset | None = None
        exchanges: set[str] = set() if job.piece is None else job.piece.memory.setdefault("exchanges", set())
        for block in delimited(job, parsed, progress, lambda _, first: _dataset(job, first)):
            dataset = block.header
            if dataset.kind == "snapshot" and job.piece is not None:
                raise _refused(
                    job, "cannot be followed: of its snapshots of one time only the last one counts"
                )
            rows = block.rows(dataset.fields)
            rows = _of_market(rows, job, parsed, what=dataset.kind.replace("_", " "), exchanges=exchanges)
            if dataset.kind == "update":
                parsed.batch(BOOK).add(BOOK.conform(rows.with_columns(sequence=pl.col("line"))))
            elif dataset.kind == "snapshot":
                parsed.batch(BOOK).add(
                    _levels(parsed.bad.take(_checked_levels(rows, dataset.depth)), dataset.depth)
                )
            else:
                _put(dataset.kind, rows, parsed)
        if dataset is not None and dataset.kind == "snapshot":
            overtaken_count = keep_latest(parsed.batch(BOOK), pl.col("sequence") // (2 * dataset.depth))
            parsed.ignore("snapshot overtaken at its own timestamp", overtaken_count)
        _finish(parsed)
        return parsed


class TardisNode(Layout):
    """Normalised messages of tardis-node, which name their exchange and market."""

    name = "tardis-node"
    names_exchange = True
    follows = True
    amounts: ClassVar[Mapping[str, str]] = _AMOUNTS

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file has such messages: its first line is an object with a known type."""
        first_line = head.partition("\n")[0]
        return (
            re.search(rf'"type":\s*"({_TYPES})"', first_line) is not None and '"localTimestamp"' in first_line
        )

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool, piece=job.piece)
        exchanges: set[str] = set() if job.piece is None else job.piece.memory.setdefault("exchanges", set())
        for lines in numbered(job.path, parsed.bad, progress, job.piece):
            parsed.lines += lines.height
            message = decoded(lines["text"], _MESSAGE).alias("message")
            reason = pl.when(pl.col("message").struct.field("type").is_null()).then(
                pl.lit("no JSON object with a type, or a field is no text or number")
            )
            messages = parsed.bad.take(lines.select("line", message).with_columns(reason=reason))
            messages = messages.unnest("message")
            for kind, fields in _IN_MESSAGES.items():
                texts = messages.filter(pl.col("type") == kind).select(
                    "line", *(pl.col(field.name).alias(column) for column, field in fields.items())
                )
                rows = parsed.bad.take(checked(texts, fields))
                _put(
                    kind,
                    _of_market(rows, job, parsed, what=kind.replace("_", " "), exchanges=exchanges),
                    parsed,
                )
            other_messages = messages.filter(~pl.col("type").is_in(list(_IN_MESSAGES)))
            for kind, count in other_messages.group_by("type").len().iter_rows():
                parsed.ignore(f"{kind} message", count)
        _finish(parsed)
        return parsed


_IN_MESSAGES = {kind: _fields(columns, message=True, time_unit=ISO) for kind, columns in _KINDS.items()}
_NAMES = {field.name for fields in _IN_MESSAGES.values() for field in fields.values()}
_MESSAGE = pl.Struct(dict.fromkeys(["type", *sorted(_NAMES)], pl.String()))
_TYPES = "|".join(
    [*_KINDS, "book_change", "book_snapshot", "book_ticker", "quote", "trade_bar", "disconnect"]
)
