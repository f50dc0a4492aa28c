"""The answers of a tape by data type, which are the only source of a report."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

import polars as pl

from tidytape.analytics import profile
from tidytape.client._steps import printable
from tidytape.client._tape import MANIFEST, TapeContents, TapeEntry, described_ask, opened
from tidytape.errors import DecodeError, QueryError, TapeError
from tidytape.query import PointsQuery
from tidytape.schema import LEVELS, schema_of, wire_schema
from tidytape.wire import levels_of, sessions_of
from tidytape.wire._sessions import travelling

MARKET = ["exchange", "raw_symbol"]

# A report joins answers whose queries differ only in these options: the markets and the window.
_MARKET_OPTIONS = {
    "exchange", "raw_symbol", "coin", "normalized_symbol", "category", "token_name", "tenor", "event",
}  # fmt: skip
_WINDOW_OPTIONS = {"start", "end", "sort_direction"}


@dataclass(frozen=True)
class Points:
    """The points of one data type, from all answers whose queries differ only in markets and window.

    Attributes
    ----------
    frame : polars.DataFrame
        Each point once, sorted by series and time.
    query : PointsQuery
        The first of the queries.
    entries : tuple of int
        Numbers of the entries on the tape.
    query_window : (datetime, datetime)
        Start of the first and end of the last window of the queries.
    coin : str
        The coin for pictures of a single coin: the coin of the report if the frame has it, otherwise the coin with the
        most rows.
    """

    frame: pl.DataFrame
    query: PointsQuery
    entries: tuple[int, ...]
    query_window: tuple[datetime, datetime]
    coin: str

    @property
    def interval(self) -> str:
        """The short name of the interval, e.g. ``5m``; empty for a type without intervals."""
        return self.query.interval.alias if self.query.interval else ""

    @property
    def length(self) -> timedelta:
        """The length of the interval."""
        return timedelta(seconds=self.query.step)

    @property
    def window(self) -> tuple[datetime, datetime]:
        """The first and the last timestamp."""
        first, last = self.frame.select(first=pl.col("timestamp").min(), last=pl.col("timestamp").max()).row(
            0
        )
        return first, last

    @property
    def unit(self) -> str:
        """The unit of the amounts, for labels: ``coin``, ``USD``, or empty if it is unknown or there are several."""
        units = self.frame["amount_unit"].cast(pl.String).unique().to_list()
        return {"COIN": "coin", "USD": "USD"}.get(units[0] or "", "") if len(units) == 1 else ""

    @property
    def turnover(self) -> pl.Expr:
        """An expression of the turnover of each candle: in USD if the volumes are in USD, otherwise in the quote."""
        return pl.col("volume") if self.unit == "USD" else pl.col("volume") * pl.col("close")

    @property
    def of_coin(self) -> pl.DataFrame:
        """The points of the coin; all points if the service does not name their coin."""
        rows = self.frame.filter(coin=self.coin)
        return self.frame if rows.is_empty() else rows

    @property
    def largest(self) -> dict[str, str]:
        """The coin's market with the largest turnover or, if the points have no volumes, with the most rows."""
        has_amount = {"volume", "close"} <= set(self.frame.columns)
        return self.leading(self.turnover.sum() if has_amount else pl.len())

    def leading(self, amount: pl.Expr) -> dict[str, str]:
        """Return the coin's market with the largest ``amount``, an aggregation that has one value per market."""
        markets = self.of_coin.group_by(MARKET, maintain_order=True).agg(amount=amount)
        leader = markets.sort("amount", *MARKET, descending=[True, False, False]).row(0, named=True)
        return {name: leader[name] for name in MARKET}

    def of(self, **market: str | None) -> pl.DataFrame:
        """Return the points of one market; the market of points of a whole coin is null."""
        return self.frame.filter(pl.col(name).eq_missing(value) for name, value in market.items())


@dataclass
class Answers:
    """The answers of a tape.

    Parameters
    ----------
    path : path
        The tape.

    Attributes
    ----------
    contents : TapeContents
        Head and entries of the tape.
    used : set of int
        Numbers of the entries that the report has used so far.
    exchanges : set of str
        Exchanges of the answers that the report has used so far.
    """

    path: Path
    contents: TapeContents = field(init=False)
    used: set[int] = field(init=False, default_factory=set)
    exchanges: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.contents = opened(self.path)
        if fault := self.contents.failed or self.contents.broken:
            raise TapeError(
                f"{self.path}: a report is made of a tape that is whole; {fault}", path=str(self.path)
            )

    @property
    def sha256(self) -> str:
        """The hash of the tape's manifest; the manifest has the hash of every answer."""
        manifest = self.path / MANIFEST if self.path.is_dir() else self.path
        return hashlib.sha256(manifest.read_bytes()).hexdigest()

    def points(self, data_type: str) -> Points | None:
        """Return the points of a data type; None if the tape has none.

        Answers are joined if their queries have the same form: the same interval and options, whatever the markets and
        the window. If two answers have the same point, the later answer wins. If a study asked in several forms, the
        points are those of the form with the most rows.
        """
        points = self._points.get(data_type)
        if points is None:
            return None
        self._mark_used(points.frame, points.entries)
        return replace(points, coin=self.coin if self.coin in points.frame["coin"] else points.coin)

    def leave(self, points: Points) -> None:
        """Mark the entries of points as not used, because the report does not draw them after all."""
        self.used.difference_update(points.entries)

    @cached_property
    def coin(self) -> str:
        """The coin with the most data types; among equals the coin with the largest turnover."""
        coins = [
            points.frame.select(pl.col("coin").cast(pl.String)).unique() for points in self._points.values()
        ]
        types = pl.concat(coins).drop_nulls().group_by("coin").len()
        candles = self._points.get("TRADE_SIDE_AGNOSTIC_AGG")
        if candles is not None:
            by_coin = candles.frame.group_by(pl.col("coin").cast(pl.String), maintain_order=True)
            types = types.join(by_coin.agg(turnover=candles.turnover.sum()), on="coin", how="left")
        turnover_columns = [name for name in types.columns if name not in {"coin", "len"}]
        ranked = types.sort(
            "len",
            *turnover_columns,
            "coin",
            descending=[True, *(True for _ in turnover_columns), False],
            nulls_last=True,
        )
        return str(ranked["coin"].first()) if ranked.height else ""

    @property
    def window(self) -> tuple[datetime, datetime] | None:
        """Start of the first and end of the last interval of all points; None without points."""
        windows = [
            (first, last + points.length)
            for points in self._points.values()
            for first, last in [points.window]
        ]
        return (min(start for start, _ in windows), max(end for _, end in windows)) if windows else None

    @property
    def markets(self) -> int:
        """The number of markets that have points."""
        names = pl.concat(
            [points.frame.select(pl.col(MARKET).cast(pl.String)) for points in self._points.values()]
        )
        return names.drop_nulls().n_unique()

    def events(self, table: str, columns: Iterable[str]) -> tuple[pl.DataFrame, tuple[int, ...]] | None:
        """Return the events of a lake's table, and the numbers of their entries; None if the tape has no such events.

        An answer that lacks one of the ``columns`` is damaged.
        """
        entries = [
            entry
            for entry in self.contents.answers
            if entry.ask.get("ask") == "events" and ["table", table] in (entry.ask.get("params") or ())
        ]
        frames = [frame_of(entry) for entry in entries]
        for entry, frame in zip(entries, frames, strict=True):
            if missing_columns := set(columns) - set(frame.columns):
                raise self._damaged(entry, f"it has no column {min(missing_columns)!r}")
        if not any(frame.height for frame in frames):
            return None
        numbers = tuple(entry.number for entry in entries)
        events = pl.concat(frames, how="diagonal_relaxed").unique(maintain_order=True)
        self._mark_used(events, numbers)
        return events, numbers

    def _mark_used(self, frame: pl.DataFrame, entries: tuple[int, ...]) -> None:
        self.used.update(entries)
        if "exchange" in frame.columns:
            self.exchanges.update(frame["exchange"].cast(pl.String).drop_nulls().unique())

    def holdings(self) -> tuple[pl.DataFrame, tuple[int, ...]] | None:
        """Return the first answer of ``describe`` and the number of its entry; None if the tape has none."""
        for entry in self.contents.answers:
            if entry.ask.get("ask") == "holdings" and entry.rows:
                self.used.add(entry.number)
                return frame_of(entry), (entry.number,)
        return None

    def described(self, entry: TapeEntry) -> str:
        """Return what the request of an entry asked for, on one line."""
        return described_ask(entry.ask, entry.facts.get("returned", {}).get("method"))

    @cached_property
    def _points(self) -> dict[str, Points]:
        """The points of each data type on the tape.

        If the tape has a type with several sets of options, such as two intervals, only the set with the most rows.
        """
        points_by_type = {}
        for data_type, entry_lists in self._by_options.items():
            largest = max(
                (self._joined(data_type, entries) for entries in entry_lists),
                key=lambda points: points.frame.height,
            )
            if not largest.frame.is_empty():
                points_by_type[data_type] = largest
        return points_by_type

    @cached_property
    def _by_options(self) -> dict[str, list[list[tuple[TapeEntry, PointsQuery]]]]:
        """For each data type, a list per set of options, with the entries and their queries."""
        entries_by_options: dict[tuple[Any, ...], list[tuple[TapeEntry, PointsQuery]]] = defaultdict(list)
        for entry in self.contents.answers:
            if entry.ask.get("ask") != "points":
                continue
            query = self._query(entry)
            if query.group_by is not None or len(query.type) != 1 or query.side is not None:
                continue  # no section draws groups of exchanges, which have no market, or a single side
            entries_by_options[_options(query)].append((entry, query))
        entry_lists_by_type: dict[str, list[list[tuple[TapeEntry, PointsQuery]]]] = defaultdict(list)
        for (data_type, *_), entries in entries_by_options.items():
            entry_lists_by_type[data_type].append(entries)
        return dict(entry_lists_by_type)

    def _query(self, entry: TapeEntry) -> PointsQuery:
        """Return the query of an entry; raise if it is damaged, as in a tape that was written by hand."""
        try:
            return PointsQuery.from_params(map(tuple, entry.ask["params"]))
        except (QueryError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._damaged(entry, f"its query cannot be read: {error}") from error

    def _points_of(self, entry: TapeEntry, data_type: str) -> pl.DataFrame:
        """Return the points of an entry, with the columns and dtypes of their type."""
        schema, frame = wire_schema(data_type), frame_of(entry)
        try:
            frame = travelling(frame, data_type)
        except DecodeError as error:
            raise self._damaged(entry, str(error)) from error
        # A tape of an older release may lack descriptors, which newer releases added.
        missing_columns = set(schema.names) - set(schema.descriptors) - set(frame.columns)
        if missing_columns:
            raise self._damaged(entry, f"it has no column {min(missing_columns)!r}")
        try:
            frame = schema.conform(frame)
        except DecodeError as error:
            raise self._damaged(entry, str(error)) from error
        if frame["timestamp"].has_nulls():
            raise self._damaged(entry, "a point has no time")
        if LEVELS not in frame.columns:
            return frame
        return profile.with_sessions(levels_of(frame, data_type), sessions_of(frame))

    def _damaged(self, entry: TapeEntry, fault: str) -> TapeError:
        message = f"{self.path}: entry {entry.number} is damaged: {printable(fault)}"
        return TapeError(message, path=str(self.path), entries=(entry.number,))

    def _joined(self, data_type: str, entries: list[tuple[TapeEntry, PointsQuery]]) -> Points:
        """Join the points of entries whose queries have the same options; later points replace earlier ones."""
        key = list(schema_of(data_type).key)
        frame = pl.concat([self._points_of(entry, data_type) for entry, _ in entries], how="diagonal_relaxed")
        frame = frame.unique(subset=key, keep="last", maintain_order=True).sort(key)
        coins = frame["coin"].cast(pl.String).drop_nulls().mode().sort()
        coin = str(coins.first()) if coins.len() else ""
        queries = [query for _, query in entries]
        seconds = min(query.start for query in queries), max(query.end for query in queries)
        start, end = (datetime.fromtimestamp(second, UTC) for second in seconds)
        return Points(frame, queries[0], tuple(entry.number for entry, _ in entries), (start, end), coin)


def _options(query: PointsQuery) -> tuple[Any, ...]:
    """Return the options that two queries must share for their points to be joined."""
    options = query.model_dump(exclude=_MARKET_OPTIONS | _WINDOW_OPTIONS | {"type"})
    return (query.type[0], *(str(value) for value in options.values()))


def held_days(tape: Path) -> int | None:
    """Return the time that the client's candles span, rounded up to days; None if the tape does not say it. [d]"""
    holdings = Answers(tape).holdings()
    if holdings is None:
        return None
    candles = holdings[0].filter(type="TRADE_SIDE_AGNOSTIC_AGG")
    first, last = candles.select(pl.col("first_timestamp").min(), pl.col("last_timestamp").max()).row(0)
    return None if first is None or last is None else ceil((last - first) / timedelta(days=1))


def frame_of(entry: TapeEntry) -> pl.DataFrame:
    """Return the frame of an entry whose answer is a frame."""
    frame = entry.read()
    assert isinstance(frame, pl.DataFrame)
    return frame


def numbers(entries: Iterable[int]) -> str:
    """Return the numbers of entries as text, with runs written as ranges.

    Examples
    --------
    >>> numbers([3]), numbers([5, 3, 4]), numbers([8, 3, 5, 4])
    ('entry 3', 'entries 3 to 5', 'entries 3 to 5 and 8')
    """
    runs: list[list[int]] = []
    for number in sorted(set(entries)):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    if len(runs) == 1 and len(runs[0]) == 1:
        return f"entry {parts[0]}"
    return "entries " + " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
