"""From a query to tidy frames: pick the instruments, scan the lake, aggregate, give the frame its schema.

Examples
--------
The engine answers one query with one frame per data type, in the schema the client decodes into::

    engine = Engine(Lake("lake"))
    instruments = engine.instruments(query)   # refuses what the lake does not hold, before any weight is taken
    frames = engine.frames(query, instruments)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType

import polars as pl

from tidytape import aggregate
from tidytape.catalogue import Interval, Side, SortDirection
from tidytape.errors import QueryError, nearest
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.schema import data_type, schema_of
from tidytape.service.options import Instrument, grouped, last_closes, rates

__all__ = ["SERVED", "Engine", "Instrument"]

_NS = 1_000_000_000


class Engine:
    """Answers points queries over a lake.

    Parameters
    ----------
    lake : Lake
        The recorded events.
    clock : callable
        Returns epoch nanoseconds: no gap is filled that has not begun. [ns]
    """

    def __init__(self, lake: Lake, *, clock: Callable[[], int] = time.time_ns) -> None:
        self.lake = lake
        self.clock = clock

    def instruments(self, query: PointsQuery) -> list[Instrument]:
        """Return the markets that a query selects, ordered by venue and symbol.

        Raises
        ------
        QueryError
            If a type is not served, a venue, a symbol or a coin is not in the lake (the hint names the nearest), or
            the lake does not know what a market's quote is worth in USD where that is asked for.
        """
        for name in query.type:
            _require_served(name)
        for option in _NOT_YET:
            if getattr(query, option):
                given = getattr(query, option)
                shown = given if isinstance(given, bool | tuple) else str(given)
                raise QueryError(option, got=shown, expected="no value; not served yet", code="UNSUPPORTED")
        markets = self.lake.markets()
        for exchange in query.exchange:
            _require(exchange, markets["exchange"], "exchange", "INVALID_EXCHANGE")
        markets = markets.filter(pl.col("exchange").is_in(query.exchange))
        for selector in ("raw_symbol", "normalized_symbol", "coin"):
            wanted = getattr(query, selector)
            for one in wanted:
                _require(one, markets[selector], selector, "INVALID_SYMBOL")
            if wanted:
                markets = markets.filter(pl.col(selector).is_in(wanted))
        if query.category:
            markets = markets.filter(pl.col("category").is_in(query.category))
        if markets.is_empty():
            raise QueryError(
                "category",
                got=[str(one) for one in query.category],
                expected="a class that one of the selected markets has",
                code="INVALID_SYMBOL",
            )
        found = [
            Instrument(
                row["exchange"],
                row["raw_symbol"],
                row["normalized_symbol"],
                row["coin"],
                row["category"],
                query.block_size or _decimal(row["block_size"]),
                row["quote_coin"],
                row["available_since"],
            )
            for row in markets.sort("exchange", "raw_symbol").iter_rows(named=True)
        ]
        if _in_usd(query):
            for quote in {one.quote_coin for one in found}:
                self._rates(quote, query)
        return grouped(found) if query.group_by else found

    def frames(self, query: PointsQuery, instruments: list[Instrument]) -> list[tuple[str, pl.DataFrame]]:
        """Compute the answer: a tidy frame per data type, in the order asked for.

        Parameters
        ----------
        query : PointsQuery
        instruments : list of Instrument
            What ``instruments`` returned for the same query.

        Returns
        -------
        list of (str, polars.DataFrame)
            Each frame has its type's schema; rows by series, then by time in the direction asked for, then by price.
        """
        return [(name, self._frame(name, query, instruments)) for name in query.type]

    def _frame(self, name: str, query: PointsQuery, instruments: list[Instrument]) -> pl.DataFrame:
        schema = schema_of(name)
        interval = query.interval or Interval.MINUTE
        plans = [SERVED[name](self._trades(one, query), one, query, interval) for one in instruments]
        frame = pl.concat(
            part.with_columns(*one.named(interval))
            for one, part in zip(instruments, pl.collect_all(plans, engine="streaming"), strict=True)
        )
        if query.group_by:
            frame = aggregate.group(frame, data_type=name)
        if query.gapfill:
            frame = self._filled(name, frame, query, instruments, interval)
        frame = schema.conform(frame)
        newest_first = query.sort_direction is SortDirection.DESC
        order = ["coin", *schema.key] if query.group_by else schema.key
        return frame.sort(order, descending=[newest_first and name == "timestamp" for name in order])

    def _filled(
        self,
        name: str,
        frame: pl.DataFrame,
        query: PointsQuery,
        instruments: list[Instrument],
        interval: Interval,
    ) -> pl.DataFrame:
        start, end = (second * _NS for second in query.span)
        sides = [query.side] if query.side else Side
        of_sides = tuple(map(str, sides)) if data_type(name).per_side else ()
        last = last_closes(self.lake, instruments, interval, before=start, sides=of_sides)
        if last is not None:
            series = [column for column in schema_of(name).identity if column in frame.columns]
            last = last.unique(series, keep="last").select(*series, "close")
        end = min(end, self.clock())
        return aggregate.gapfill(frame, interval=interval, start=start, end=end, last=last)

    def _trades(self, one: Instrument, query: PointsQuery) -> pl.LazyFrame:
        start, end = query.span
        trades = self.lake.scan(
            "trades", exchange=one.exchange, raw_symbol=one.raw_symbol, start=start * _NS, end=end * _NS
        )
        if not _in_usd(query):
            return trades
        worth = self._rates(one.quote_coin, query)
        return aggregate.to_usd(trades, quote=one.quote_coin, rates=None if worth is None else worth.lazy())

    def _rates(self, quote: str | None, query: PointsQuery) -> pl.DataFrame | None:
        start, end = query.span
        return rates(self.lake, quote, start=start * _NS, end=end * _NS)


def _in_usd(query: PointsQuery) -> bool:
    """Whether amounts are in USD: where that is asked for, and always in a group."""
    return query.quote is not None or query.group_by is not None


# --- one plan per data type -----------------------------------------------------------------------------------------

Plan = Callable[[pl.LazyFrame, Instrument, PointsQuery, Interval], pl.LazyFrame]


def _candles(trades: pl.LazyFrame, one: Instrument, query: PointsQuery, interval: Interval) -> pl.LazyFrame:
    return aggregate.candles(trades, interval=interval)


def _candles_by_side(
    trades: pl.LazyFrame, one: Instrument, query: PointsQuery, interval: Interval
) -> pl.LazyFrame:
    if query.side:
        trades = trades.filter(pl.col("side") == str(query.side))
    return aggregate.candles(trades, interval=interval, by_side=True)


def _volume_profile(
    trades: pl.LazyFrame, one: Instrument, query: PointsQuery, interval: Interval
) -> pl.LazyFrame:
    if one.block_size is None:
        raise QueryError(
            "block_size",
            got=None,
            expected=f"a block size; none is registered for {one.exchange} {one.raw_symbol}",
        )
    highest = trades.select(pl.col("price").abs().max()).collect(engine="streaming").item()
    if highest is not None and highest > _MOST_ROWS * float(one.block_size):
        expected = f"at least {highest / _MOST_ROWS:.1g} at prices of {highest:g}; rows below that cannot be told apart"
        raise QueryError("block_size", got=str(one.block_size), expected=expected)
    return aggregate.volume_profile(trades, interval=interval, block_size=one.block_size)


SERVED: Mapping[str, Plan] = MappingProxyType(
    {
        "TRADE_SIDE_AGNOSTIC_AGG": _candles,
        "TRADE_AGG": _candles_by_side,
        "VOLUME_PROFILE_AGG": _volume_profile,
    }
)
"""The data types that are answered from a lake, each with its plan."""

_MOST_ROWS = 2.0**53


def _decimal(size: float | None) -> Decimal | None:
    return None if size is None else Decimal(repr(size))


_NOT_YET = ("event",)


def _require_served(name: str) -> None:
    schema_of(name)  # a type that does not exist is INVALID_TYPE
    if name not in SERVED:
        raise QueryError(
            "type", got=name, expected="a type this service answers: " + ", ".join(SERVED), code="UNSUPPORTED"
        )


def _require(name: str, known: pl.Series, parameter: str, code: str) -> None:
    names = known.drop_nulls().unique().sort().to_list()
    if name not in names:
        close = nearest(name, names)
        raise QueryError(
            parameter,
            got=name,
            expected="one that the lake holds",
            hint=f"did you mean {close!r}?" if close else "ask /v1/markets for what there is",
            code=code,
        )
