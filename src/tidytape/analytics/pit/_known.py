"""When a point is known."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import nanoseconds, one_of
from tidytape.analytics._intervals import SESSION_END, knows_length
from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames.buckets import length_of
from tidytape.frames.table import Table
from tidytape.query.values import TimeLike, epoch_seconds
from tidytape.times import SECOND, interval_of

KNOWN_AT = "known_at"
"""The column that says when a row is known."""

KNOWN = (KNOWN_AT, "known_at_rule")
"""The columns that `known_at` adds."""

WHEN = "__when"
"""Working column: when a row is known, null where it never is. [ns]"""

Rule = Literal["interval", "period", "event"]

_TRADE, _SUMS = {"id", "price"}, {"open", "close"}
_HINDSIGHT = "is_naked"


def known_at(
    frame: IntoFrameT,
    /,
    *,
    rule: Rule | None = None,
    interval: str | None = None,
    delay: str | timedelta = timedelta(0),
) -> IntoFrameT:
    r"""Add when each point is known, which is not when it is stamped: a candle of 12:00 to 13:00 is stamped 12:00.

    .. math:: t_\mathrm{known} = t + \Delta + \mathrm{delay},

    with the timestamp :math:`t`, and :math:`\Delta` the interval that the point sums up. A profile is known when its
    period ends. What happens at its timestamp and sums up nothing, :math:`\Delta = 0`, is known then: a settlement at
    the time it settles, a trade when it trades.

    Parameters
    ----------
    frame : frame, n rows, any order
        Points of any schema. Uses ``timestamp``, and what the rule needs.
    rule : {"interval", "period", "event"}, optional
        ``"interval"``: with the interval of the point; ``"period"``: at ``period_end``; ``"event"``: at ``timestamp``,
        for settlements and trades. Without it, a column ``known_at`` that is there stays as it is; else ``"period"``
        where there is a column ``period_end``, or ``"interval"``; that a row is an event is never guessed, and
        trades, which have an ``id`` and a ``price``, need a rule that is said. Nor is an interval taken for the length
        of a session of blocks.
    interval : str, optional
        Name or alias of the interval; what the column ``interval`` says in each row, unless said. A rule, if said.
    delay : str or timedelta, >= 0
        How much later points arrive, e.g. ``"2s"``. With a column ``known_at`` that is there, say the rule too.

    Returns
    -------
    frame, n rows, order and kind of ``frame``
        ``frame`` itself where it has ``known_at`` and no rule is said: what made it knew more than its rows say.
        Otherwise adds, or replaces, ``known_at``, as ``timestamp`` says times, and ``known_at_rule`` : str. Null where
        the timestamp is, or the interval is null or no name of one, or a period ends before its timestamp: such a point
        is never known.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or a column of times holds none; or the frame is one of trades, or of sessions
        of blocks without ``period_end``, which may be a week of interval DAY, or says ``is_naked``, which later
        sessions decide, and no rule is said.

    Notes
    -----
    The point of an interval in progress is served as it stands, and is known at the interval's end like any other; what
    it then says may differ.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> candles = pl.DataFrame({"timestamp": [datetime(2024, 8, 8, 12, tzinfo=UTC)], "interval": ["HOUR"]})
    >>> known_at(candles)["known_at"].item().isoformat()
    '2024-08-08T13:00:00+00:00'
    """
    table, rows, chosen = known(frame, rule=rule, interval=interval, delay=delay)
    if chosen is None:
        if nanoseconds("delay", delay):
            expected = "none, or the rule too: the frame says in known_at when its rows are known"
            raise QueryError("delay", got=delay, expected=expected)
        return frame
    others = [name for name in table.names if name not in KNOWN]
    result = rows.select(*others, nw.col(WHEN).alias(KNOWN_AT), known_at_rule=nw.lit(chosen))
    return table.closed(result, times={KNOWN_AT: "timestamp"}, like_rows=True)


def as_of(frame: IntoFrameT, /, at: TimeLike) -> IntoFrameT:
    """View of a frame as of an instant: the rows that were known then.

    Parameters
    ----------
    frame : frame, n rows, any order
        Points of any schema. Uses ``known_at``; without that column, what `known_at` says of the frame.
    at : datetime, date, str or int
        The instant; a whole number is seconds since the epoch, and what has no zone is UTC. What becomes known at it is
        known.

    Returns
    -------
    frame, m <= n rows, order, columns and kind of ``frame``

    Raises
    ------
    MissingColumnError
        If there is neither ``known_at`` nor what it is made of.
    QueryError
        If ``at`` is no time, a column of times holds none, or the frame is one of trades without ``known_at``.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> hours = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (11, 12)]
    >>> candles = pl.DataFrame({"timestamp": hours, "interval": "HOUR", "close": [61_000.0, 62_000.0]})
    >>> as_of(candles, "2024-08-08T12:59:59Z")["close"].to_list()
    [61000.0]
    """
    table, rows, _ = known(frame)
    return table.closed(rows.filter(nw.col(WHEN) <= _instant(at)).select(*table.names))


def known(
    frame: IntoFrameT | Table[IntoFrameT],
    *,
    rule: Rule | None = None,
    interval: str | None = None,
    delay: str | timedelta = timedelta(0),
    parameter: str = "frame",
) -> tuple[Table[IntoFrameT], nw.LazyFrame[Any], Rule | None]:
    """Return a frame opened, its rows with `WHEN`, and the rule it follows from: None for a column ``known_at``."""
    later = nanoseconds("delay", delay)
    length = None if interval is None else interval_of(interval).seconds * SECOND
    table = Table.opened(frame, parameter=parameter)
    if rule is None and length is None and KNOWN_AT in table.names:
        times = [name for name in (KNOWN_AT, "timestamp") if name in table.names]
        table = Table.opened(table, times=times, parameter=parameter)
        return table, table.rows.with_columns(nw.col(KNOWN_AT).alias(WHEN)), None
    table = Table.opened(table, times=["timestamp"])
    if rule is None:
        if length is None:
            _refuse_to_guess(table.names)
        rule = "period" if SESSION_END in table.names and length is None else "interval"
    one_of("rule", rule, ("interval", "period", "event"))
    if rule != "interval" and length is not None:
        raise QueryError("interval", got=interval, expected=f"none, by the rule {rule!r}")
    if rule == "interval" and length is None and "interval" not in table.names:
        raise MissingColumnError(["interval"], available=table.names)
    start, end = nw.col("timestamp"), nw.col(SESSION_END)
    when = start
    if rule == "period":
        table = Table.opened(table, times=["timestamp", SESSION_END])
        when = nw.when(end >= start).then(end)
    elif rule == "interval":
        lengths = length_of(nw.col("interval")) if length is None else nw.lit(length, nw.Int64)
        when = nw.when(lengths > 0).then(start + lengths)
    return table, table.rows.with_columns((when + later).alias(WHEN)), rule


def _refuse_to_guess(names: list[str]) -> None:
    """Raise QueryError if the columns of a frame do not say when its rows are known."""
    if "interval" in names and not knows_length(names):
        expected = (
            f"a rule, or the column {SESSION_END!r}: an interval does not say how long a session of blocks is"
        )
        hint = f"keep {SESSION_END!r}, or say rule='interval' where a session is one interval"
    elif _HINDSIGHT in names:
        expected = f"a rule, or no column {_HINDSIGHT!r}, which later sessions decide"
        hint = f"drop {_HINDSIGHT!r} and 'touched_at', or take them of the sessions known by then"
    elif _TRADE.issubset(names) and _SUMS.isdisjoint(names):
        expected = "'event' for trades, or 'interval' where they are known by the interval"
        hint = "known_at(trades, rule='event')"
    else:
        return
    raise QueryError("rule", got=None, expected=expected, hint=hint)


def _instant(at: TimeLike) -> int:
    """Return a moment in nanoseconds since the epoch; a datetime may be between two seconds."""
    if not isinstance(at, datetime) or at != at:  # noqa: PLR0124 -- NaT of pandas is unequal to itself
        return epoch_seconds(at, parameter="at") * SECOND
    moment: Any = at  # of pandas it has nanoseconds, too
    finer = {
        name: int(getattr(moment, name)) for name in ("microsecond", "nanosecond") if hasattr(moment, name)
    }
    second = epoch_seconds(moment.replace(**dict.fromkeys(finer, 0)), parameter="at")
    return second * SECOND + finer["microsecond"] * 1_000 + finer.get("nanosecond", 0)
