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
from collections.abc import Callable, Iterable, Sequence

import polars as pl

from tidytape import aggregate
from tidytape.catalogue import BookSide, Interval, Selection, Side, SortDirection
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.schema import data_type, schema_of
from tidytape.service.describing import descriptions, with_descriptors
from tidytape.service.estimate import UNHURRIED, Limits
from tidytape.service.notes import able_intervals, noted
from tidytape.service.options import Instrument, Subjects, grouped, last_closes
from tidytape.service.plans import PLANS, Want, require_touched, tpo_of_members
from tidytape.service.selection import selected
from tidytape.times import DAY, SECOND
from tidytape.wire import Note

__all__ = ["Engine", "Instrument", "Subjects"]

_CARRY = DAY


class Engine:
    """Answers points queries over a lake.

    Parameters
    ----------
    lake : Lake
        The recorded events.
    clock : callable
        Returns epoch nanoseconds: no gap is filled that has not begun. [ns]
    limits : Limits
        What one answer may take.
    """

    def __init__(
        self, lake: Lake, *, clock: Callable[[], int] = time.time_ns, limits: Limits = UNHURRIED
    ) -> None:
        self.lake = lake
        self.clock = clock
        self.limits = limits

    def instruments(self, query: PointsQuery) -> Subjects:
        """Return what a query selects: by data type, its subjects in the order of their names.

        Raises
        ------
        QueryError
            If a type does not exist, a venue, a symbol or a coin is not in the lake (the hint names the nearest),
            or the lake does not know what a market's quote is worth in USD where that is asked for.
        """
        found = {}
        for name in query.type:
            if name not in PLANS:
                _refuse(name)
            subjects = selected(self.lake, query, name)
            self.require_rates(name, query, subjects)  # before any weight is taken
            found[name] = grouped(subjects) if query.group_by else subjects
        return found

    def require_rates(self, name: str, query: PointsQuery, subjects: Iterable[Instrument]) -> None:
        """Raise QueryError if USD is asked for and the lake does not know what the quote of a subject is worth."""
        for one in subjects:
            want = Want(self.lake, one, query)
            if want.needs_rates and data_type(name).usd:
                _ = want.rates

    def frames(
        self, query: PointsQuery, instruments: Subjects, *, lists_once: bool = False
    ) -> list[tuple[str, pl.DataFrame]]:
        """Compute the answer: a tidy frame per data type, in the order asked for.

        Parameters
        ----------
        query : PointsQuery
        instruments : dict of str to list of Instrument
            What ``instruments`` returned for the same query.
        lists_once : bool
            Leave the lists of market profiles null but on the first level of each session, where `tidytape.wire.encode`
            reads them. On each level they take memory that grows with the square of the levels.

        Returns
        -------
        list of (str, polars.DataFrame)
            Each frame has its type's schema; rows by series, then by time in the direction asked for, then by price,
            those of a book from the middle out.
        """
        return [
            (name, self._frame(name, query, instruments[name], lists_once=lists_once)) for name in query.type
        ]

    def _frame(
        self, name: str, query: PointsQuery, subjects: list[Instrument], *, lists_once: bool
    ) -> pl.DataFrame:
        schema = schema_of(name, grouped=query.group_by is not None)
        interval = query.interval or Interval.MINUTE
        # Open interest is a stock: what was last reported counts on, so a group needs the day before.
        before = _CARRY if query.group_by and name == "OPEN_INTEREST_AGG" else 0
        # Before the events are read: what comes in meanwhile is not taken as known.
        described = descriptions(name, (Want(self.lake, one, query) for one in subjects))
        wants = [
            Want(self.lake, one, query, before, limits=self.limits, lists_once=lists_once) for one in subjects
        ]
        if name == "TPO_AGG":
            require_touched(wants)
        united = query.group_by is not None and name == "TPO_AGG"
        frame = self._united(query, wants) if united else self._points(name, query, wants)
        if query.group_by and name != "TPO_AGG":
            weights = self._weights(query, subjects, frame) if name == "FUNDING_RATE_AGG" else None
            frame = aggregate.group(frame, data_type=name, weights=weights)
            frame = frame.filter(pl.col("timestamp") >= query.span[0] * SECOND)
        if query.gapfill:
            frame = self._filled(name, frame, query, subjects, interval)
        by_coin = query.group_by is not None or data_type(name).selection is Selection.TOKEN
        frame = with_descriptors(schema.conform(frame), described, name, by_coin=by_coin)
        newest_first = query.sort_direction is SortDirection.DESC
        order = schema.key_of(grouped=query.group_by is not None)
        if name == "BLOCK_BOOK_SNAPSHOT_AGG":
            return _closest_first(frame, order, query)
        return frame.sort(order, descending=[newest_first and name == "timestamp" for name in order])

    def notes(
        self, query: PointsQuery, instruments: Subjects, frames: Iterable[tuple[str, pl.DataFrame]]
    ) -> list[Note]:
        """Return what `tidytape.service.notes` says of the markets whose points do not fill the window.

        Parameters
        ----------
        query : PointsQuery
        instruments : dict of str to list of Instrument
            What ``instruments`` returned for the query.
        frames : sequence of (str, polars.DataFrame)
            What ``frames`` returned for the query.
        """
        now = self.clock()
        return [
            note
            for name, frame in frames
            for note in noted(self.lake, query, name, instruments[name], frame, now=now)
        ]

    def refuse_finer(self, query: PointsQuery, instruments: Subjects) -> None:
        """Raise QueryError where only recorded candles that are longer than is asked for tell of a window.

        Of a group, and of candles without gaps, any market with such a time is refused: a sum would leave it out, and a
        gap would be filled where something was traded. Of other queries it is every market.
        """
        subjects = instruments.get("TRADE_SIDE_AGNOSTIC_AGG", [])
        able = [
            intervals for one in subjects if (intervals := able_intervals(self.lake, query, one)) is not None
        ]
        if able and (query.group_by is not None or query.gapfill or len(able) == len(subjects)):
            intervals = [one for one in Interval if any(one in many for many in able)]
            raise QueryError(
                "interval",
                got=str(query.interval),
                expected="one that the recorded candles of this market make up: "
                + (", ".join(intervals) or "none does"),
                hint="there are no trades of it then, and candles cannot be taken apart",
                code="INVALID_INTERVAL",
            )

    def _points(self, name: str, query: PointsQuery, wants: list[Want]) -> pl.DataFrame:
        interval = query.interval or Interval.MINUTE
        plans = [PLANS[name](want).with_columns(*want.one.named(interval)) for want in wants]
        return pl.concat(pl.collect_all(plans, engine="streaming"), how="diagonal")

    def _united(self, query: PointsQuery, wants: list[Want]) -> pl.DataFrame:
        """Return a market profile of each coin: what a block touched is known of the members, not of their profiles."""
        coins: dict[str | None, list[Want]] = {}
        for want in wants:
            coins.setdefault(want.one.coin, []).append(want)
        interval = query.interval or Interval.MINUTE
        parts = pl.collect_all(map(tpo_of_members, coins.values()), engine="streaming")
        named = [
            part.drop("exchange", "raw_symbol").with_columns(*members[0].one.named(interval))
            for members, part in zip(coins.values(), parts, strict=True)
        ]
        is_known = pl.col("buy_volume").is_not_null() & pl.col("sell_volume").is_not_null()
        return pl.concat(named).with_columns(coverage=is_known.mean().over("coin", "timestamp"))

    def _weights(self, query: PointsQuery, subjects: list[Instrument], rates: pl.DataFrame) -> pl.DataFrame:
        """Return every member's open interest in USD at each bucket's close, as last reported, at most a day ago."""
        wants = [Want(self.lake, one, query, _CARRY) for one in subjects]
        reports = self._points("OPEN_INTEREST_AGG", query, wants)
        member = ["exchange", "raw_symbol"]
        members = pl.DataFrame(
            [(one.exchange, one.raw_symbol, one.coin) for one in subjects],
            schema=dict.fromkeys([*member, "coin"], pl.String),
            orient="row",
        )
        return (
            rates.select("timestamp")
            .unique()
            .join(members, how="cross")
            .sort("timestamp")
            .join_asof(
                reports.select(*member, "timestamp", "close").sort("timestamp"),
                on="timestamp",
                by=member,
                strategy="backward",
                tolerance=_CARRY,
                check_sortedness=False,  # sorted by time just now, which is not seen by group
            )
            .select(*member, "coin", "timestamp", "close")
        )

    def _filled(
        self,
        name: str,
        frame: pl.DataFrame,
        query: PointsQuery,
        instruments: list[Instrument],
        interval: Interval,
    ) -> pl.DataFrame:
        start, end = (second * SECOND for second in query.span)
        sides = [query.side] if query.side else Side
        of_sides = tuple(map(str, sides)) if data_type(name).per_side else ()
        last = last_closes(self.lake, instruments, interval, before=start, sides=of_sides)
        if last is not None:
            series = [column for column in schema_of(name).identity if column in frame.columns]
            last = last.unique(series, keep="last").select(*series, "close")
        end = min(end, self.clock())
        return aggregate.gapfill(frame, interval=interval, start=start, end=end, last=last)


def _closest_first(frame: pl.DataFrame, order: Sequence[str], query: PointsQuery) -> pl.DataFrame:
    """Return a book with the levels of each side from the middle out, and of a group no more than were asked for."""
    book = [name for name in order if name != "price"]
    is_bid = pl.col("side") == BookSide.BID.value
    away = pl.when(is_bid).then(-pl.col("price")).otherwise(pl.col("price"))
    newest_first = query.sort_direction is SortDirection.DESC
    backwards = [newest_first and name == "timestamp" for name in book]
    frame = frame.sort(*book, away, descending=[*backwards, False])
    if query.group_by is None or query.max_depth is None:
        return frame  # of one market the plan has seen to it
    return frame.filter(pl.int_range(pl.len()).over(book) < query.max_depth)


def _refuse(name: str) -> None:
    schema_of(name)  # a type that does not exist is INVALID_TYPE
    raise QueryError(
        "type", got=name, expected="a type this service answers: " + ", ".join(PLANS), code="UNSUPPORTED"
    )
