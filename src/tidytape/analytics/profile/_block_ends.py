"""When the time blocks of a session end: by the clock, or by the time in which a market trades."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.analytics._series import SESSION_END
from tidytape.analytics.profile._levels import MOST_MINUTES, block_length
from tidytape.analytics.profile._opening import SESSION, Profiles
from tidytape.catalogue import Interval
from tidytape.errors import QueryError
from tidytape.frames._table import OpenTable, Rows
from tidytape.frames._times import bucket_start
from tidytape.frames._trading import span_of
from tidytape.frames._trading_clock import TradingClock, with_world_time
from tidytape.query._values import TimeLike
from tidytape.sessions import Session, a_session
from tidytape.times import DAY, MINUTE, SECOND

_NEARBY: Final = 90 * DAY
"""How far from its levels a block may end: a month of sessions, and the days off around it. [ns]"""


@dataclass(frozen=True)
class BlockEnds:
    """The ends of the blocks of some profiles.

    Attributes
    ----------
    context : dict of str to str or expression
        What `added` needs of a session, by working name: when it ``began``, the ``length`` of its blocks [min], and its
        ``session_end``, if the frame says it.
    trading : TradingClock or None
        The clock that blocks count on, which stands still while the market is closed; None if they count all time.
    """

    context: dict[str, str | nw.Expr]
    trading: TradingClock | None

    @classmethod
    def of(cls, profiles: Profiles[Any], block_minutes: object, session: Session | None) -> BlockEnds:
        """Return the ends of blocks that count the time of a session, or that of the clock.

        The clock tells only the blocks of UTC days, weeks and shorter intervals. In memory, other sessions are refused
        without a Session; in a lazy frame the length of their blocks is null, so that none ends before its session.
        Sessions that do not start when the Session opens are treated in the same way.
        """
        table, length = profiles.table, block_length(profiles, block_minutes)
        trading: TradingClock | None = None
        fits, wanted = _is_of_clock(table), "that they were made of, or Session.utc_day() for UTC months"
        if session is not None:
            first, last = span_of(table.rows)
            trading = TradingClock(a_session(session), first - _NEARBY, last + _NEARBY)
            begins = [part.begin for part in trading.parts]
            fits = nw.col(SESSION).is_in(begins) | nw.col(SESSION).is_null()
            wanted = "that opens when they do"
        if table.is_eager:
            for (start,) in table.rows.filter(~fits).select(SESSION).head(1).collect("polars").rows():
                got = (
                    f"{session} for a session from {datetime.fromtimestamp(start // SECOND, UTC).isoformat()}"
                )
                expected = f"the Session of the levels, for their blocks count trading time: the one {wanted}"
                raise QueryError("session", got=got, expected=expected)
        session_end = {"session_end": SESSION_END} if SESSION_END in table.names else {}
        return cls({"began": SESSION, "length": nw.when(fits).then(length), **session_end}, trading)

    @classmethod
    def at(
        cls, now: TimeLike | None, profiles: Profiles[Any], block_minutes: object, session: Session | None
    ) -> BlockEnds | None:
        """Return the ends that tell which block is in progress at a time; None without one, for then no block is."""
        if session is not None:
            a_session(session)
        return None if now is None else cls.of(profiles, block_minutes, session)

    def added(self, rows: Rows, block: str, name: str) -> Rows:
        """Add the end of a block, but no later than its session's; null if its length is unknown. [ns]"""
        names = [column for column in rows.collect_schema().names() if column != name]
        minutes, start = (nw.col(block) + 1) * nw.col("length"), nw.col("began")
        # Lengths have few decimals, so the product is exact; the cast gives whole nanoseconds.
        since_start = (nw.when(minutes <= MOST_MINUTES).then(minutes) * float(MINUTE)).cast(nw.Int64)
        end = start + since_start
        if self.trading is not None:
            rows = self.trading.running(rows, start, "__start")
            # The last moment of a block lies in trading: its end may be a close, from which the next open differs.
            last = nw.col("__start") + since_start - 1
            rows = with_world_time(rows, last, "__last", {(): self.trading})
            end = nw.col("__last") + 1
        if "session_end" in self.context:
            end = nw.min_horizontal(end, "session_end")
        return rows.select(*names, end.alias(name))


def _is_of_clock(table: OpenTable[Any]) -> nw.Expr:
    """Return whether the session of a level lies as those do in which no time without trading can be; true for null."""
    start = nw.col(SESSION)
    if SESSION_END not in table.names:
        if "interval" not in table.names:
            return start.is_null() | ~start.is_null()  # nothing tells them from sessions of the clock
        is_short = (table.lengths > 0) & (table.lengths < DAY)
        return (start % nw.when(is_short).then(table.lengths).otherwise(DAY) == 0).fill_null(value=True)
    length, fits = nw.col(SESSION_END) - start, nw.lit(value=False)
    for interval in Interval:  # not for months: those of a market that rests at the weekend may look alike
        fits |= (length == interval.seconds * SECOND) & (bucket_start(start, interval) == start)
    return fits.fill_null(value=True)
