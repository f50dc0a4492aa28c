"""Where a running sum starts: at the first row of a series, or anew at each session's open."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.analytics import _arguments as arguments
from tidytape.catalogue import Interval
from tidytape.errors import QueryError
from tidytape.frames.buckets import bucket_by, length_of
from tidytape.frames.joined import EARLIEST
from tidytape.frames.ordered import within
from tidytape.query.values import TimeLike, epoch_seconds
from tidytape.times import MONDAY, SECOND, interval_of

IS_KNOWN: Final = "__is_known"
"""Whether a running sum that includes this row is known: it is, and so is every row before it since the anchor."""

Sessions = tuple[int, int]
"""How long a session is, and when one of them opens. [ns]"""


def sessions_of(
    anchor: str, session: str | timedelta | None, session_open: TimeLike, interval: str | timedelta | None
) -> Sessions | None:
    """Return the sessions that the arguments name, None for ``anchor="none"``; raise QueryError if they disagree."""
    arguments.one_of("anchor", anchor, ("none", "session"))
    for parameter, got in (("session", session), ("session_open", session_open)):
        if got is not None and anchor != "session":
            expected = "none, or anchor='session' too"
            raise QueryError(parameter, got=got, expected=expected, hint="without it the sum runs on")
    if anchor == "none":
        return None
    length, opens = arguments.length("session", "1d" if session is None else session), MONDAY
    if session_open is not None:
        opens = epoch_seconds(session_open, parameter="session_open") * SECOND
    if interval is not None:
        _require_whole(interval, length, opens)
    return length, opens


def anchored(
    rows: nw.LazyFrame[Any],
    keys: Sequence[str],
    sessions: Sessions | None,
    *,
    is_known: nw.Expr,
    has_lengths: bool,
) -> nw.LazyFrame[Any]:
    """Return the rows with ``anchored_at``, where the sum of each starts [ns], and `IS_KNOWN`.

    Parameters
    ----------
    rows : narwhals LazyFrame, one row per keys and ``timestamp`` int64 [ns]
    keys : sequence of str
        Columns that name a series.
    sessions : Sessions, optional
        Without it a sum starts at the first row of its series.
    is_known : expression, bool
        Whether what a row adds to the sum is known.
    has_lengths : bool
        Whether a row is of the interval that its column ``interval`` names, and so may lie in two sessions.
    """
    time = nw.col("timestamp")
    started = (
        within(time.min(), keys) if sessions is None else bucket_by(time, sessions[0], origin=sessions[1])
    )
    rows = rows.with_columns(anchored_at=started, __unknown=(~is_known).cast(nw.Int64))
    if sessions is not None and has_lengths:
        rows = _without_parts(rows, keys, *sessions)
    unknown = nw.col("__unknown").cum_sum().over(*keys, "anchored_at", order_by="timestamp")
    return rows.with_columns((unknown == 0).alias(IS_KNOWN)).drop("__unknown")


def _require_whole(interval: str | timedelta, session: int, opens: int) -> None:
    """Raise QueryError if a session opens within an interval."""
    wanted = interval_of(interval)
    if not _is_whole(wanted, session, opens):
        whole = [known for known in Interval if _is_whole(known, session, opens)]
        longest = max(whole, key=lambda known: known.seconds, default=None)
        hint = (
            f"the longest that does is {longest.alias!r}"
            if longest
            else "have sessions open on whole minutes"
        )
        expected = "an interval that ends where a session opens"
        raise QueryError("interval", got=interval, expected=expected, hint=hint)


def _is_whole(interval: Interval, session: int, opens: int) -> bool:
    step = interval.seconds * SECOND
    return session % step == 0 and (opens - interval.offset * SECOND) % step == 0


def _without_parts(
    rows: nw.LazyFrame[Any], keys: Sequence[str], session: int, opens: int
) -> nw.LazyFrame[Any]:
    """Count a candle that lies in two sessions as unknown in both: nobody knows how much of it is whose."""
    last = nw.col("timestamp") + length_of(nw.col("interval")) - 1
    last = nw.when(last > nw.col("timestamp")).then(last).otherwise(nw.col("timestamp"))
    into = bucket_by(last, session, origin=opens)
    spoiled = nw.when(into > nw.col("anchored_at")).then(into).otherwise(EARLIEST)
    rows = rows.with_columns(__spoiled=spoiled)
    rows = rows.with_columns(nw.col("__spoiled").cum_max().over(*keys, order_by="timestamp"))
    is_spoiled = (nw.col("__spoiled") >= nw.col("anchored_at")).cast(nw.Int64)
    return rows.with_columns(__unknown=nw.col("__unknown") + is_spoiled)
