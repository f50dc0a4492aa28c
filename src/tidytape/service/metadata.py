"""What an answer says of its series beside the points: descriptors, up to when they are known, and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from tidytape.catalogue import AmountUnit, DataType, Interval, NoteCode, Selection, Tenor
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.schema import data_type, schema_of
from tidytape.service.candles import has_tiles, untold_lengths
from tidytape.service.inventory import tenors
from tidytape.service.plans import PLANS, TABLES_OF_MARKETS
from tidytape.service.scan import Market, MarketScan, in_usd, quote_markets
from tidytape.times import DAY, SECOND
from tidytape.wire import Note
from tidytape.wire.tidy import DATA_UNTIL, with_finality

__all__ = ["able_intervals", "descriptions", "notes_of", "with_descriptors"]

_CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"


def descriptions(name: str, scans: Iterable[MarketScan]) -> pl.DataFrame:
    """Return the descriptors of the series of each market.

    Parameters
    ----------
    name : str
        Name of the data type.
    scans : iterable of MarketScan
        The scan of each market.

    Returns
    -------
    polars.DataFrame, one row per market
        ``exchange``, ``raw_symbol``, ``coin``, the descriptors of the type without ``is_final``, and ``data_until``
        [UTC]: the newest event in every table that the points are made of. A market without an event in one of these
        tables has none, because its events may still be ingested; a market of a category that has no such data does
        not count.
    """
    rows = [
        {
            "exchange": scan.market.exchange,
            "raw_symbol": scan.market.raw_symbol,
            "coin": scan.market.coin,
            "amount_unit": AmountUnit.USD if in_usd(scan.query) else AmountUnit.COIN,
            "block_size": None if scan.market.block_size is None else float(scan.market.block_size),
            DATA_UNTIL: _known_until(name, scan),
        }
        for scan in scans
    ]
    dtypes = {
        **dict.fromkeys(["exchange", "raw_symbol", "coin", "amount_unit"], pl.String()),
        "block_size": pl.Float64(),
        DATA_UNTIL: pl.Datetime("ns", "UTC"),
    }
    left_out = {"amount_unit", "block_size"}.difference(schema_of(name).names)
    return pl.DataFrame(rows, schema=dtypes).drop(left_out)


def with_descriptors(
    frame: pl.DataFrame, described: pl.DataFrame, data_type: str, *, by_coin: bool
) -> pl.DataFrame:
    """Return points with the descriptors of their series.

    Parameters
    ----------
    frame : polars.DataFrame
        In the schema of its data type.
    described : polars.DataFrame
        The descriptors of the markets, see `descriptions`.
    data_type : str
        Its name.
    by_coin : bool
        Whether the coin alone names a series, as for a group or a token. A group is known as far as its oldest
        member; its members have one unit and one block size.
    """
    keys = ["exchange", "raw_symbol", "coin"]
    values = [name for name in described.columns if name not in keys]
    dtypes = {**described.schema, **frame.schema}
    if described.height == 1:  # without a join, which takes longer than reading the points
        frame = frame.with_columns(pl.lit(described[name]).first().cast(dtypes[name]) for name in values)
        return with_finality(frame, data_type)
    if by_coin:
        keys = ["coin"]
        described = described.group_by(keys).agg(pl.col(name).min() for name in values)
    described = described.with_columns(
        pl.col(keys).replace("", None)
    )  # subjects without an exchange or a symbol
    series = frame.select(pl.col(keys).cast(pl.String))
    descriptors = series.join(described, on=keys, how="left", nulls_equal=True, maintain_order="left")
    frame = frame.with_columns(descriptors[name].cast(dtypes[name]) for name in values)
    return with_finality(frame, data_type)


def _known_until(name: str, scan: MarketScan) -> int | None:
    """Return the oldest of the newest events in the tables that points are made of; None where none is needed. [ns]"""
    return min(_newest_events(name, scan), default=None)


def _newest_events(name: str, scan: MarketScan) -> Iterator[int]:
    """Yield the newest event of each table that points are made of; 0 for a table without events. [ns]"""
    lake, market = scan.lake, scan.market
    if name == "TOKEN_SUPPLY_AGG":
        yield from _newest_of_tokens(lake, market)
    else:
        newest = _newest_of_candles(scan) if name == _CANDLES else _newest_of_first(lake, name, market)
        categories = data_type(name).categories
        if not newest and categories and market.category is not None and market.category not in categories:
            return  # a spot market never has funding, so it does not keep a group from being final
        yield newest
        # A group's funding is weighted by open interest in US dollars.
        if name == "FUNDING_RATE_AGG" and in_usd(scan.query):
            yield _newest_of_first(lake, "OPEN_INTEREST_AGG", market)
        if name in {"FUNDING_RATE_AGG", "OPEN_INTEREST_AGG"} and in_usd(scan.query):
            yield _newest_of_candles(scan)
    if scan.needs_rates and market.quote_coin is not None:
        yield from _rate_times(lake, market.quote_coin)


def _newest_of_candles(scan: MarketScan) -> int:
    """Return the newest trade, or the newest recorded candle if those of the window make up its interval."""
    partition = scan.market.exchange, scan.market.raw_symbol
    trade, candle = (_newest(scan.lake, table, *partition) for table in ("trades", "candles"))
    return max(trade, candle) if not trade or (candle > trade and has_tiles(scan)) else trade


def _newest_of_first(lake: Lake, name: str, market: Market) -> int:
    """Return the newest event of the first table of a data type that has any of a market; 0 where none has.

    Of a coin across several markets it is the oldest of their newest events. Markets without events do not count: most
    markets of a coin never have liquidations.
    """
    newest_of_markets = (
        next(filter(None, (_newest(lake, table, *names) for table in PLANS[name].tables)), 0)
        for names in market.partitions
    )
    return min(filter(None, newest_of_markets), default=0)


def _newest(lake: Lake, table: str, *partition: str) -> int:
    """Return the newest event of a partition of a table; 0 without any."""
    _, last = lake.extent(table, *partition)
    return last or 0


def _newest_of_tokens(lake: Lake, market: Market) -> Iterator[int]:
    """Yield the newest report of each token whose market capitalisation counts in this token's dominance."""
    newest = lake.scan("token_supply").group_by("token_name").agg(pl.col("timestamp").max()).collect()
    own = newest.filter(pl.col("token_name") == market.raw_symbol)["timestamp"].max()
    yield from newest.filter(pl.col("timestamp") > own - DAY)["timestamp"]  # type: ignore[operator]  # an int


def _rate_times(lake: Lake, quote: str) -> Iterator[int]:
    """Yield the time of the newest known price of a quote."""
    reported = lake.scan("quote_rates").filter(pl.col("quote_coin") == quote)
    last = reported.select(pl.col("timestamp").max()).collect().item()
    if last is not None:
        yield last
        return
    yield from filter(None, (_newest(lake, "trades", *market) for market in quote_markets(lake, quote)))


_QUIET = DAY
"""The longest time between two events of a market that the lake covers; a longer one is a hole in its data. [ns]"""

_CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"
_TABLES = sorted({table for tables in TABLES_OF_MARKETS.values() for table in tables})


def notes_of(
    lake: Lake,
    query: PointsQuery,
    name: str,
    markets: Sequence[Market],
    frame: pl.DataFrame,
    *,
    now: int,
) -> list[Note]:
    """Return a note for each market of the query whose points do not fill the window.

    Nearly everything comes from the logs of the lake's tables, which are in memory. Rows are read only of markets with
    recorded candles, because no log has their lengths.

    Parameters
    ----------
    lake : Lake
    query : PointsQuery
    name : str
        The data type.
    markets : sequence of Market
        The markets that the query selects of that type.
    frame : polars.DataFrame
        The answer.
    now : int
        [ns since the epoch]

    Returns
    -------
    list of Note
        A market without points has a note that says why. A market with points has one if its type is dense and the
        points do not reach both ends of the window. A member of a group has one too if it adds nothing.
    """
    kind = data_type(name)
    if len(markets) == 1 and frame.height and not kind.dense:
        return []
    columns = ["coin"] if query.group_by or kind.selection is Selection.TOKEN else _MARKET
    full = _full(frame, kind, query, columns, is_one=len(markets) == 1)
    lookup = _Lookup(lake, query, kind, now)
    notes = []
    for one in markets:
        key = tuple(getattr(one, column) or None for column in columns)
        if key not in full or query.group_by:
            note = lookup.note(one, is_empty=key not in full, is_full=full.get(key, False))
            notes += [] if note is None or (frame.height and lookup.is_of_no_such_class(one)) else [note]
        elif (note := lookup.part(one, is_full=full[key])) is not None:
            notes.append(note)
    return notes


_MARKET = ["exchange", "raw_symbol", "coin"]


def _full(
    frame: pl.DataFrame, kind: DataType, query: PointsQuery, columns: list[str], *, is_one: bool
) -> dict[tuple[str | None, ...], bool]:
    """Return the markets that have points, and whether points of a dense type reach both ends of the window.

    ``is_one`` says that all points belong to one market.
    """
    start, end = query.span
    sides = ["side"] if kind.per_side else []
    first, last = pl.col("timestamp").min().dt.epoch("s"), pl.col("timestamp").max().dt.epoch("s")
    reaches = (first <= start) & (last >= end - query.step) if kind.dense else pl.lit(value=True)
    by = [*columns, *sides]
    if is_one and not sides and frame.height:  # grouping takes three times as long
        series = frame.select(pl.col(by).first(), reaches=reaches)
    else:
        series = frame.group_by(by).agg(reaches=reaches)
    full: dict[tuple[str | None, ...], bool] = {}
    for *names, is_full in series.iter_rows():
        market = tuple(names[: len(columns)])
        full[market] = bool(is_full) and full.get(market, True)
    return full


def able_intervals(lake: Lake, query: PointsQuery, market: Market) -> list[Interval] | None:
    """Return the intervals that the recorded candles of a market make up, if the points leave some candles out.

    None if trades or points of the query's interval include every candle of the window.
    """
    lengths = untold_lengths(MarketScan(lake, market, query))
    if not lengths:
        return None
    return [able for able in Interval if any(able.seconds % length == 0 for length in lengths)]


@dataclass(frozen=True, slots=True)
class _Extent:
    """The first and the last event that the lake holds. [ns since the epoch]"""

    first: int
    last: int


class _Lookup:
    """What the lake holds of the markets of one answer; it reads each table's log once."""

    def __init__(self, lake: Lake, query: PointsQuery, kind: DataType, now: int) -> None:
        self._lake, self._query, self._kind, self._now = lake, query, kind, now
        self._tables: dict[str, dict[tuple[str, ...], _Extent]] = {}

    def is_of_no_such_class(self, market: Market) -> bool:
        """Return whether a coin or a common symbol selected a market whose category does not have the type."""
        classes = self._kind.categories
        return not self._query.raw_symbol and bool(classes) and market.category not in classes

    def note(self, one: Market, *, is_empty: bool, is_full: bool) -> Note | None:
        """Return why a market has no points, or adds none to its group; None if the points are complete."""
        start, end = (second * SECOND for second in self._query.span)
        held = self._held(one)
        if held is None:
            types = tuple(
                name for name in TABLES_OF_MARKETS if any(self._extents(TABLES_OF_MARKETS[name], one))
            )
            return self.of(NoteCode.NO_DATA, one, types=types)
        if start > self._now or self._query.around is not None:
            return self.of(NoteCode.NOT_BEGUN, one)
        tables = _TABLES if self._kind.name in TABLES_OF_MARKETS else ()
        all_events = _united([held, *self._extents(tables, one)])
        is_before = end <= max(all_events.first, held.first - _QUIET)
        types = self._of_candles(one, held)
        is_after = start > min(all_events.last, held.last + _QUIET)
        if is_before or is_after or (types and (end <= held.first or start > held.last)):
            return self.of(NoteCode.OUTSIDE, one, types=types)
        if is_empty and (intervals := self._intervals(one)):
            return self.of(NoteCode.NO_DATA, one, intervals=intervals)
        if is_empty and self._query.tenor is not None:
            able = self._tenors(one)
            if able and self._query.tenor not in able:
                return self.of(NoteCode.NO_DATA, one, able_tenors=tuple(map(str, able)))
        if is_empty:
            return self.of(NoteCode.QUIET, one)
        return self.part(one, is_full=is_full)

    def part(self, market: Market, *, is_full: bool) -> Note | None:
        """Return what a market with points lacks; None if they reach both ends and leave no candle out."""
        intervals = self._intervals(market)
        if is_full and not intervals:
            return None
        held = self._held(market)
        types = () if held is None else self._of_candles(market, held)
        return self.of(NoteCode.PART, market, types=types, intervals=intervals)

    def _intervals(self, market: Market) -> tuple[str, ...]:
        """Return `able_intervals` of candles; nothing for another type."""
        if self._kind.name != _CANDLES:
            return ()
        return tuple(map(str, able_intervals(self._lake, self._query, market) or ()))

    def _of_candles(self, market: Market, held: _Extent) -> tuple[str, ...]:
        """Return the candle type if only recorded candles cover the window: these have no sides and no levels."""
        if TABLES_OF_MARKETS.get(self._kind.name) != ("trades",):
            return ()
        start, end = (second * SECOND for second in self._query.span)
        candles = next(self._extents(["candles"], market), None)
        if candles is None or candles.last < start or candles.first >= end:
            return ()
        is_beyond = min(end - 1, candles.last) > held.last or max(start, candles.first) < held.first
        return (_CANDLES,) if is_beyond else ()

    def of(
        self,
        code: NoteCode,
        one: Market,
        *,
        types: tuple[str, ...] = (),
        intervals: tuple[str, ...] = (),
        able_tenors: tuple[str, ...] = (),
    ) -> Note:
        """Return a note about a market, with its first and last event."""
        held = self._held(one)
        first, last = (held.first, held.last) if held else (None, None)
        is_token = self._kind.selection is Selection.TOKEN
        symbol = None if is_token else one.raw_symbol or None
        coin = one.coin or (one.raw_symbol if is_token else None)
        market = one.exchange or None, symbol, coin
        return Note(code, self._kind.name, *market, first, last, types, intervals, able_tenors)

    def _tenors(self, market: Market) -> list[Tenor]:
        """Return the tenors that an option summary has on the last day with quotes, shortest first."""
        held = self._held(market)
        row = {
            "type": self._kind.name,
            "exchange": market.exchange,
            "raw_symbol": market.raw_symbol,
            "coin": market.coin,
            "last": held and held.last,
        }
        present = set(tenors(self._lake, pl.DataFrame([row]))["tenor"])
        return [tenor for tenor in Tenor if tenor in present]

    def _held(self, market: Market) -> _Extent | None:
        """Return the extent of the events that the type is made of; None if the market has none."""
        name = self._kind.name
        if self._kind.selection is Selection.TOKEN:
            reports = self._lake.scan("token_supply").filter(pl.col("token_name") == market.raw_symbol)
            time = pl.col("timestamp")
            first, last = reports.select(first=time.min(), last=time.max()).collect().row(0)
            return None if first is None else _Extent(first, last)
        many = list(self._extents(PLANS[name].tables, market))
        return _united(many) if many else None

    def _extents(self, tables: Iterable[str], market: Market) -> Iterator[_Extent]:
        """Yield the extent of a market in each of the tables that have events of it."""
        for table in tables:
            held = self._table(table)
            for names in market.partitions:
                if extent := held.get(names):
                    yield extent

    def _table(self, table: str) -> dict[tuple[str, ...], _Extent]:
        if table not in self._tables:
            rows = self._lake.extents(table).iter_rows()
            self._tables[table] = {tuple(key): _Extent(first, last) for *key, first, last in rows}
        return self._tables[table]


def _united(extents: Iterable[_Extent]) -> _Extent:
    many = list(extents)
    return _Extent(min(one.first for one in many), max(one.last for one in many))
