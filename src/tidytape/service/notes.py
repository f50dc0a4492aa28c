"""What an answer says of markets whose points do not fill the window: why there are none, or from when to when.

Nearly everything comes from the logs of the lake's tables, which are in memory. Rows are read of markets with recorded
candles alone: how long these are no log tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from tidytape.catalogue import DataType, Interval, NoteCode, Selection, Tenor
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.schema import data_type
from tidytape.service.holdings import tenors
from tidytape.service.options import Instrument
from tidytape.service.plans import SOURCES, Want, untold_lengths
from tidytape.times import DAY, SECOND
from tidytape.wire import Note

__all__ = ["able_intervals", "noted"]

_QUIET = DAY
"""Events may be so far apart in a market that is covered; a longer time without one is a time that is not held. [ns]"""

_CHAINS = "option_quotes"
_CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"
_TABLES = sorted({table for tables in SOURCES.values() for table in tables})


def noted(
    lake: Lake,
    query: PointsQuery,
    name: str,
    subjects: Sequence[Instrument],
    frame: pl.DataFrame,
    *,
    now: int,
) -> list[Note]:
    """Return a note for each market that was asked for and whose points do not fill the window.

    Parameters
    ----------
    lake : Lake
    query : PointsQuery
    name : str
        The data type.
    subjects : sequence of Instrument
        What the query selects of that type.
    frame : polars.DataFrame
        The answer.
    now : int
        [ns since the epoch]

    Returns
    -------
    list of Note
        Of a market without points: why. Of a market with points: one where its type is dense and the points do not
        reach both ends of the window. Of a member of a group: one too where it has nothing to add.
    """
    kind = data_type(name)
    if len(subjects) == 1 and frame.height and not kind.dense:
        return []
    columns = ["coin"] if query.group_by or kind.selection is Selection.TOKEN else _MARKET
    full = _full(frame, kind, query, columns, is_one=len(subjects) == 1)
    lookup = _Lookup(lake, query, kind, now)
    notes = []
    for one in subjects:
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
    """Return the markets that have points, and whether those of a dense type reach both ends of the window.

    ``is_one`` says that all points are of one market.
    """
    start, end = query.span
    sides = ["side"] if kind.per_side else []
    first, last = pl.col("timestamp").min().dt.epoch("s"), pl.col("timestamp").max().dt.epoch("s")
    reaches = (first <= start) & (last >= end - query.step) if kind.dense else pl.lit(value=True)
    by = [*columns, *sides]
    if is_one and not sides and frame.height:  # to group takes three times as long
        series = frame.select(pl.col(by).first(), reaches=reaches)
    else:
        series = frame.group_by(by).agg(reaches=reaches)
    full: dict[tuple[str | None, ...], bool] = {}
    for *names, is_full in series.iter_rows():
        market = tuple(names[: len(columns)])
        full[market] = bool(is_full) and full.get(market, True)
    return full


def able_intervals(lake: Lake, query: PointsQuery, one: Instrument) -> list[Interval] | None:
    """Return the intervals that recorded candles of a market make up where the points leave some of them out.

    None where every candle of the window is told of, by trades or by points of the interval that was asked for.
    """
    lengths = untold_lengths(Want(lake, one, query))
    if not lengths:
        return None
    return [able for able in Interval if any(able.seconds % length == 0 for length in lengths)]


@dataclass(frozen=True, slots=True)
class _Extent:
    """The first and the last event that are held. [ns since the epoch]"""

    first: int
    last: int


class _Lookup:
    """What the lake holds of the markets of one answer; each table's log is looked at once."""

    def __init__(self, lake: Lake, query: PointsQuery, kind: DataType, now: int) -> None:
        self._lake, self._query, self._kind, self._now = lake, query, kind, now
        self._tables: dict[str, dict[tuple[str, ...], _Extent]] = {}

    def is_of_no_such_class(self, one: Instrument) -> bool:
        """Whether a coin or a common symbol brought in a market of a class that does not have the type."""
        classes = self._kind.categories
        return not self._query.raw_symbol and bool(classes) and one.category not in classes

    def note(self, one: Instrument, *, is_empty: bool, is_full: bool) -> Note | None:
        """Return why a market has no points, or adds none to its group; None where there is nothing to say."""
        start, end = (second * SECOND for second in self._query.span)
        held = self._held(one)
        if held is None:
            types = tuple(name for name in SOURCES if any(self._extents(SOURCES[name], one)))
            return self.of(NoteCode.NO_DATA, one, types=types)
        if start > self._now or self._query.around is not None:
            return self.of(NoteCode.NOT_BEGUN, one)
        market = _united([held, *self._extents(_TABLES, one)])
        is_before = end <= max(market.first, held.first - _QUIET)
        types = self._of_candles(one, held)
        is_after = start > min(market.last, held.last + _QUIET)
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

    def part(self, one: Instrument, *, is_full: bool) -> Note | None:
        """Return what a market with points lacks; None where they reach both ends and leave no candle out."""
        intervals = self._intervals(one)
        if is_full and not intervals:
            return None
        held = self._held(one)
        types = () if held is None else self._of_candles(one, held)
        return self.of(NoteCode.PART, one, types=types, intervals=intervals)

    def _intervals(self, one: Instrument) -> tuple[str, ...]:
        """Return what `able_intervals` says of candles; nothing of another type."""
        if self._kind.name != _CANDLES:
            return ()
        return tuple(map(str, able_intervals(self._lake, self._query, one) or ()))

    def _of_candles(self, one: Instrument, held: _Extent) -> tuple[str, ...]:
        """Return the type that tells of the window where only recorded candles do: they know no sides and no levels."""
        if SOURCES.get(self._kind.name) != ("trades",):
            return ()
        start, end = (second * SECOND for second in self._query.span)
        candles = next(self._extents(["candles"], one), None)
        if candles is None or candles.last < start or candles.first >= end:
            return ()
        is_beyond = min(end - 1, candles.last) > held.last or max(start, candles.first) < held.first
        return (_CANDLES,) if is_beyond else ()

    def of(
        self,
        code: NoteCode,
        one: Instrument,
        *,
        types: tuple[str, ...] = (),
        intervals: tuple[str, ...] = (),
        able_tenors: tuple[str, ...] = (),
    ) -> Note:
        """Return a note about a market, with what is held of it."""
        held = self._held(one)
        first, last = (held.first, held.last) if held else (None, None)
        is_token = self._kind.selection is Selection.TOKEN
        symbol = None if is_token else one.raw_symbol or None
        coin = one.coin or (one.raw_symbol if is_token else None)
        market = one.exchange or None, symbol, coin
        return Note(code, self._kind.name, *market, first, last, types, intervals, able_tenors)

    def _tenors(self, one: Instrument) -> list[Tenor]:
        """Return the tenors that an option summary has on the last day with quotes, shortest first."""
        held = self._held(one)
        row = {
            "type": self._kind.name,
            "exchange": one.exchange,
            "raw_symbol": one.raw_symbol,
            "coin": one.coin,
            "last": held and held.last,
        }
        present = set(tenors(self._lake, pl.DataFrame([row]))["tenor"])
        return [tenor for tenor in Tenor if tenor in present]

    def _held(self, one: Instrument) -> _Extent | None:
        """Return from when to when a market has events that the type is made of; None where it has none."""
        name = self._kind.name
        if self._kind.selection is Selection.TOKEN:
            mine = self._lake.scan("token_supply").filter(pl.col("token_name") == one.raw_symbol)
            time = pl.col("timestamp")
            first, last = mine.select(first=time.min(), last=time.max()).collect().row(0)
            return None if first is None else _Extent(first, last)
        if name not in SOURCES:
            return self._table(_CHAINS).get((one.exchange, one.coin or ""))
        many = list(self._extents(SOURCES[name], one))
        return _united(many) if many else None

    def _extents(self, tables: Iterable[str], one: Instrument) -> Iterator[_Extent]:
        """Give the extent of a market in each of the tables that have it."""
        for table in tables:
            held = self._table(table)
            for symbol in one.members or (one.raw_symbol,):
                if extent := held.get((one.exchange, symbol)):
                    yield extent

    def _table(self, table: str) -> dict[tuple[str, ...], _Extent]:
        if table not in self._tables:
            rows = self._lake.extents(table).iter_rows()
            self._tables[table] = {tuple(key): _Extent(first, last) for *key, first, last in rows}
        return self._tables[table]


def _united(extents: Iterable[_Extent]) -> _Extent:
    many = list(extents)
    return _Extent(min(one.first for one in many), max(one.last for one in many))
