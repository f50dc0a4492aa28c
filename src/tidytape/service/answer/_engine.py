"""From a query to tidy frames: select the markets, scan the lake, aggregate, conform to the schema.

Examples
--------
The engine answers a query with one frame per data type, in the schema into which the client decodes::

    engine = Engine(Lake("lake"))
    markets = engine.markets(query)  # refuses names that the lake does not hold
    frames = engine.frames(query, markets)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import polars as pl

from tidytape import aggregate
from tidytape.catalogue import BookSide, Interval, Selection, Side, SortDirection
from tidytape.errors import QueryError
from tidytape.lake import LakeReader
from tidytape.query import PointsQuery
from tidytape.schema import LEVELS, data_type, schema_of, wire_schema
from tidytape.service.answer import _hot as hot
from tidytape.service.answer._candles import last_closes
from tidytape.service.answer._metadata import description, descriptions, with_descriptors
from tidytape.service.answer._notes import (
    able_intervals,
    note_of_reach,
    notes_of,
    notes_of_query,
    notes_of_sides,
)
from tidytape.service.answer._plans import PLANS, reads, require_touched, tpo_of_members
from tidytape.service.answer._scan import MARKET, UNHURRIED, Limits, Market, MarketsByType, MarketScan
from tidytape.service.answer._selection import grouped, selected
from tidytape.times import SECOND
from tidytape.wire._arrow import ARROW_MIME, ONCE_MIME, encode_batches
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._encode import encode_series
from tidytape.wire._notes import Note


class Engine:
    """Answers points queries over a lake.

    Parameters
    ----------
    lake : LakeReader
        The recorded events.
    clock : callable
        Returns epoch nanoseconds; gaps are filled up to that time. [ns]
    limits : Limits
        What one answer may take.
    keeps : bool
        Whether points stay in memory, see `tidytape.service.answer._hot`.
    """

    def __init__(
        self,
        lake: LakeReader,
        *,
        clock: Callable[[], int] = time.time_ns,
        limits: Limits = UNHURRIED,
        keeps: bool = True,
    ) -> None:
        self.lake = lake
        self.clock = clock
        self.limits = limits
        self.keeps = keeps

    def at(self, lake: LakeReader, *, keeps: bool = True) -> Engine:
        """Return the engine that answers from the lake at one moment, see `Lake.now`."""
        return Engine(lake, clock=self.clock, limits=self.limits, keeps=keeps)

    def markets(self, query: PointsQuery, *, rates: bool = True) -> MarketsByType:
        """Return the markets that a query selects, by data type, in the order of their names.

        ``rates`` says whether the lake must know the USD rates of their quotes when the window begins.

        Raises
        ------
        QueryError
            If a type does not exist, or the lake has no such exchange, symbol or coin (the hint names the nearest), or
            the query converts to USD and the lake does not know the USD rate of a market's quote.
        """
        markets_by_type = {}
        for name in query.type:
            schema_of(name)  # raises INVALID_TYPE if the type does not exist
            if name not in PLANS:
                raise QueryError(
                    "type",
                    got=name,
                    expected="a type this service answers: " + ", ".join(PLANS),
                    code="UNSUPPORTED",
                )
            markets = selected(self.lake, query, name)
            if rates:
                self.require_rates(query, markets)  # before any weight is taken
            markets_by_type[name] = grouped(markets) if query.group_by else markets
        return markets_by_type

    def require_rates(self, query: PointsQuery, markets: Iterable[Market]) -> None:
        """Raise QueryError if the query converts to USD and the lake does not know the USD rate of a market's quote."""
        for market in markets:
            scan = MarketScan(self.lake, market, query)
            if scan.needs_rates:
                _ = scan.rates

    def frames(
        self, query: PointsQuery, markets: MarketsByType, *, ordered: bool = True
    ) -> list[tuple[str, pl.DataFrame]]:
        """Compute the answer: a tidy frame per data type, in the order of the query.

        Parameters
        ----------
        query : PointsQuery
        markets : dict of str to list of Market
            What ``markets`` returned for the same query.
        ordered : bool
            False for a caller who orders the rows himself: they may then come in any order.

        Returns
        -------
        list of (str, polars.DataFrame)
            Each frame has its type's schema, see `wire_schema`; rows are ordered by series, then by time in the
            direction of the query, then by price; levels of a book from the middle out.
        """
        return [(name, self._frame(name, query, markets[name], ordered=ordered)) for name in query.type]

    def _frame(self, name: str, query: PointsQuery, markets: list[Market], *, ordered: bool) -> pl.DataFrame:
        schema, definition = wire_schema(name, grouped=query.group_by is not None), data_type(name)
        # Read before the events, so that events that arrive meanwhile do not count as known.
        descriptors = descriptions(name, (MarketScan(self.lake, market, query) for market in markets))
        if len(markets) == 1 and self.keeps:
            scan = MarketScan(self.lake, markets[0], query, limits=self.limits)
            if (points := hot.frame(scan, name)) is not None:
                return with_descriptors(points, descriptors, name, by_coin=False)
        look_back = reads(name, query)[name].before
        scans = [MarketScan(self.lake, market, query, look_back, limits=self.limits) for market in markets]
        if PLANS[name].has_time_blocks:
            require_touched(scans)
        frame = self._grouped(name, query, scans) if query.group_by else self._points(name, scans)
        if look_back:
            frame = frame.filter(pl.col("timestamp") >= query.span[0] * SECOND)
        if query.gapfill:
            frame = self._filled(name, frame, query, markets)
        by_coin = query.group_by is not None or definition.selection is Selection.TOKEN
        frame = with_descriptors(schema.conform(frame), descriptors, name, by_coin=by_coin)
        order = schema.key_of(grouped=query.group_by is not None)
        if any(levels.book_side for levels in definition.levels):
            return _closest_first(frame, order, query)
        if not ordered:
            return frame
        frame = frame.sort(order, maintain_order=True)
        if query.sort_direction is not SortDirection.DESC:
            return frame
        # Points of one time, such as trades, are reversed too; the levels of a point keep their order.
        columns = order if definition.level_rows else order[: order.index("timestamp") + 1]
        descending = [name == "timestamp" for name in columns]
        return frame.reverse().sort(columns, descending=descending, maintain_order=True)

    def answer(
        self, query: PointsQuery, markets: MarketsByType, *, ordered: bool = True
    ) -> tuple[list[tuple[str, pl.DataFrame]], list[Note]]:
        """Return what ``frames`` and ``notes`` return.

        Raises
        ------
        QueryError
            If the rows show that the query cannot be answered: all recorded candles are longer than its interval, or
            its time blocks touch too many levels.
        """
        frames = self.frames(query, markets, ordered=ordered)
        # If all recorded candles are longer than the interval, an empty answer would look like an hour without trades.
        if query.group_by is not None or query.gapfill or all(frame.is_empty() for _, frame in frames):
            self.refuse_finer(query, markets)
        return frames, self.notes(query, markets, frames)

    def body(
        self, query: PointsQuery, markets: MarketsByType, *, form: str = JSON_MIME
    ) -> tuple[bytes, int] | None:
        """Return the answer and its number of rows, if it is of one market whose points can be kept in memory.

        In JSON it has the same bytes as `tidytape.wire.encode_all` of `frames` and `notes`; in Arrow the same bytes as
        `tidytape.wire.to_arrow`. None for every other form.
        """
        series_of = {JSON_MIME: hot.texts, ARROW_MIME: hot.batches, ONCE_MIME: hot.batches}.get(form)
        if series_of is None or len(query.type) > 1 or len(markets[query.type[0]]) > 1:
            return None
        (name,), (market,) = query.type, markets[query.type[0]]
        scan = MarketScan(self.lake, market, query, limits=self.limits)
        names = {**market.names(scan.interval), **description(name, scan)}  # before the events are read
        series = series_of(scan, name)
        if series is None:
            return None
        first, last = max(part.first for part in series), min(part.last for part in series)
        notes = [
            *notes_of_query(query, name, [market]),
            *notes_of_sides(name, [scan]),
            *note_of_reach(query, name, scan, first, last),
        ]
        rows = sum(part.rows for part in series)
        if form == JSON_MIME:
            texts = [({**names, "side": part.side}, part.parts) for part in series]
            return encode_series(name, texts, notes), rows
        batches = [batch for part in series for batch in part.parts]
        body = encode_batches(
            name,
            batches,
            names,
            notes,
            first=min(part.first for part in series),
            last=max(part.last for part in series),
            constants_once=form == ONCE_MIME,
        )
        return body, rows

    def notes(
        self, query: PointsQuery, markets: MarketsByType, frames: Iterable[tuple[str, pl.DataFrame]]
    ) -> list[Note]:
        """Return a note for each market whose points do not fill the window, see `notes_of`.

        Parameters
        ----------
        query : PointsQuery
        markets : dict of str to list of Market
            What ``markets`` returned for the query.
        frames : sequence of (str, polars.DataFrame)
            What ``frames`` returned for the query.
        """
        now = self.clock()
        return [
            note
            for name, frame in frames
            for note in notes_of(self.lake, query, name, markets[name], frame, now=now)
        ]

    def refuse_finer(self, query: PointsQuery, markets: MarketsByType) -> None:
        """Raise QueryError if markets have recorded candles in the window that the query's interval leaves out.

        In a group and with ``gapfill`` one such market is enough: a sum would leave its candles out, and a gap would be
        filled although something was traded. Other queries are refused only if all their markets are of this kind.
        """
        candle_markets = [
            market for name in query.type if "candles" in PLANS[name].tables for market in markets[name]
        ]
        possible_intervals = [
            intervals
            for market in candle_markets
            if (intervals := able_intervals(MarketScan(self.lake, market, query))) is not None
        ]
        if possible_intervals and (
            query.group_by is not None or query.gapfill or len(possible_intervals) == len(candle_markets)
        ):
            intervals = [
                interval
                for interval in Interval
                if any(interval in possible for possible in possible_intervals)
            ]
            raise QueryError(
                "interval",
                got=str(query.interval),
                expected="one that the recorded candles of this market make up: "
                + (", ".join(intervals) or "none does"),
                hint="there are no trades of it then, and candles cannot be taken apart",
                code="INVALID_INTERVAL",
            )

    def _points(self, name: str, scans: list[MarketScan]) -> pl.DataFrame:
        """Return the points of each market."""
        plans = [PLANS[name].points(scan).with_columns(*scan.market.named(scan.interval)) for scan in scans]
        return pl.concat(pl.collect_all(plans, engine="streaming"), how="diagonal")

    def _grouped(self, name: str, query: PointsQuery, scans: list[MarketScan]) -> pl.DataFrame:
        """Return the points of each coin, computed from the points of its members."""
        plan = PLANS[name]
        if plan.has_time_blocks:
            return self._united(scans)
        points = self._points(name, scans)
        weights = self._weights(plan.weight_type, query, scans, points) if plan.weight_type else None
        return aggregate.group(points, data_type=name, weights=weights)

    def _united(self, scans: list[MarketScan]) -> pl.DataFrame:
        """Compute the market profile of each coin from its members' minute rows.

        Finished profiles have no time blocks any more, so they cannot be united.
        """
        coins: dict[str | None, list[MarketScan]] = {}
        for scan in scans:
            coins.setdefault(scan.market.coin, []).append(scan)
        frames = pl.collect_all(map(tpo_of_members, coins.values()), engine="streaming")
        profiles = [
            part.drop("exchange", "raw_symbol").with_columns(*members[0].market.named(members[0].interval))
            for members, part in zip(coins.values(), frames, strict=True)
        ]
        level = pl.element().struct
        is_known = level.field("buy_volume").is_not_null() & level.field("sell_volume").is_not_null()
        return pl.concat(profiles).with_columns(coverage=pl.col(LEVELS).list.eval(is_known).list.mean())

    def _weights(
        self, name: str, query: PointsQuery, scans: list[MarketScan], points: pl.DataFrame
    ) -> pl.DataFrame:
        """Return the weight of each member at each time of the points: its last report, unless that is too old.

        The weight is null if the report is; a member without a report has no row.
        """
        look_back = reads(name, query)[name].before
        reports = self._points(name, [replace(scan, before=look_back) for scan in scans])
        members = pl.DataFrame(
            [(scan.market.exchange, scan.market.raw_symbol, scan.market.coin) for scan in scans],
            schema=dict.fromkeys([*MARKET, "coin"], pl.String),
            orient="row",
        )
        return (
            points.select("timestamp")
            .unique()
            .join(members, how="cross")
            .sort("timestamp")
            .join_asof(
                reports.select(*MARKET, "timestamp", "close", is_report=pl.lit(value=True)).sort("timestamp"),
                on="timestamp",
                by=MARKET,
                strategy="backward",
                tolerance=look_back,
                check_sortedness=False,  # sorted by time above; polars does not see that per group
            )
            .filter("is_report")
            .select(*MARKET, "coin", "timestamp", "close")
        )

    def _filled(
        self, name: str, frame: pl.DataFrame, query: PointsQuery, markets: list[Market]
    ) -> pl.DataFrame:
        """Return candles without gaps, each gap filled with the close before it."""
        start, end = (second * SECOND for second in query.span)
        end = min(end, self.clock())
        if end <= start:  # nothing has begun that could be filled
            return frame
        interval = query.interval or Interval.MINUTE
        sides = [query.side] if query.side else Side
        side_names = tuple(map(str, sides)) if data_type(name).per_side else ()
        last_candles = last_closes(self.lake, markets, interval, before=start, sides=side_names)
        if last_candles is not None:
            series_columns = [column for column in schema_of(name).identity if column in frame.columns]
            last_candles = last_candles.unique(series_columns, keep="last").select(*series_columns, "close")
        return aggregate.gapfill(frame, interval=interval, start=start, end=end, last=last_candles)


def _closest_first(frame: pl.DataFrame, order: Sequence[str], query: PointsQuery) -> pl.DataFrame:
    """Sort the levels of each side of a book from the middle out; keep ``max_depth`` levels of each side of a group."""
    book_columns = [name for name in order if name != "price"]
    distance = pl.when(pl.col("side") == BookSide.BID.value).then(-pl.col("price")).otherwise(pl.col("price"))
    newest_first = query.sort_direction is SortDirection.DESC
    descending = [newest_first and name == "timestamp" for name in book_columns]
    frame = frame.sort(*book_columns, distance, descending=[*descending, False])
    if query.group_by is None or query.max_depth is None:
        return frame  # the plan of a single market has cut the levels already
    return frame.filter(pl.int_range(pl.len()).over(book_columns) < query.max_depth)
