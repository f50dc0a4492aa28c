"""Running sums since an anchor: the cumulative volume delta, and the volume-weighted average price.

An anchor is the first row of a series, or each session's open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.flow._sides import (
    VOLUMES,
    amount_of,
    has_intervals,
    quotient,
    sides,
    summed_by_bucket,
    usable,
)
from tidytape.catalogue import Interval
from tidytape.errors import QueryError, warn
from tidytape.frames import _exact as exact
from tidytape.frames._joined import EARLIEST
from tidytape.frames._rows import within
from tidytape.frames._table import OpenTable
from tidytape.frames._times import bucket_by, length_of
from tidytape.frames._trading import sessions_near, span_of, with_session
from tidytape.frames._units import AMOUNT_UNIT, require_one_unit, require_unit
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.sessions import Session, a_session
from tidytape.times import MONDAY, SECOND, WEEK, AnyInterval, frame_interval

IS_KNOWN: Final = "__is_known"
"""Whether the running sum up to a row is known: the row and every row since the anchor must be known."""

Periods = tuple[int, int]
"""The length of periods, and a time at which one of them begins. [ns]"""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions, and the first and the last time of the rows that they are looked up for. [ns since the epoch]"""

    session: Session
    first: int = 0
    last: int = 0

    def of(self, rows: nw.LazyFrame[Any], time: nw.Expr, name: str) -> nw.LazyFrame[Any]:
        """Add a column with the open of the session in which a time lies, null while the market is closed. [ns]"""
        found = with_session(
            rows.with_columns(__at=time),
            self.session,
            first=self.first,
            last=self.last + WEEK,
            prefix="__found_",
            by="__at",
        )
        names = [column for column in rows.collect_schema().names() if column != name]
        return found.select(*names, nw.col("__found_open").alias(name))


def cvd(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    anchor: Literal["none", "session"] = "none",
    session: Session | str | timedelta | None = None,
    period: str | timedelta | None = None,
    session_open: TimeLike = None,
    interval: str | timedelta | None = None,
    volume: str | None = None,
) -> IntoFrameT:
    r"""Cumulative volume delta (CVD): the sum of all deltas since an anchor.

    .. math:: C_t = \sum_{a \le s \le t} \left(V^\mathrm{buy}_s - V^\mathrm{sell}_s\right)

    Parameters
    ----------
    frame, by, interval, volume
        As in `delta`. A frame that `delta` returned will do, too.
    anchor : {"none", "session"}
        Where the sum starts: at the first row of each series, or again at the open of each session.
    session : Session, optional
        When the market trades: the sum starts at each open, exact when the clock of the zone changes, and is null while
        the market is closed. Only with ``anchor="session"``. A length is `period`; here it still works, with a
        `DeprecationWarning`.
    period : str or timedelta, optional
        Instead of a session, a length of time that sessions have: an interval such as ``"1d"`` or ``"1w"``, or a
        duration such as ``"8h"``; by default ``"1d"``. Only with ``anchor="session"``.
    session_open : moment, optional
        A time at which such a period begins, e.g. ``"2024-08-08T13:30Z"``; the others begin whole periods before and
        after. Epoch seconds, a datetime, a date or an ISO 8601 string; a time without a zone is UTC. Without it days
        begin at 00:00 UTC and weeks on Mondays. Only with ``anchor="session"`` and without a session.

    Returns
    -------
    frame, one row per (by, timestamp), sorted by these, of the kind of ``frame``
        ``by``, ``timestamp`` (start of the interval), and

        - ``buy_volume``, ``sell_volume``, ``delta`` : float64, as in `delta`. [as in ``frame``]
        - ``cvd`` : float64, the sum up to the end of the interval, included. [as in ``frame``]
        - ``anchor`` : str, the argument.
        - ``anchored_at`` : time, the open of the row's session, or the first time of the series; null while the market
          is closed.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``anchor``, ``session``, ``period`` or ``session_open`` is not as listed, if one of them is given without
        ``anchor="session"``, if a session opens within an ``interval``, or as in `delta`.

    Notes
    -----
    The sum is exact: it does not depend on how trades were cut into intervals, and it is zero where exactly as much was
    sold as bought.

    If a delta is unknown, every sum that contains it is unknown: ``cvd`` is null from there to the end of the session,
    or of the series. The same holds if a candle, by its column ``interval``, begins in one session and ends in another:
    how much of it belongs to each is not known, so ``cvd`` is null in both sessions from there on. No row depends on a
    later one.

    References
    ----------
    .. [1] Chordia, T., Roll, R. and Subrahmanyam, A., "Order imbalance, liquidity, and market returns", Journal of
       Financial Economics 65 (1), 2002, for what is summed. The anchors are tidytape's own convention; see
       definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> candles = pl.DataFrame(
    ...     {
    ...         "timestamp": [datetime(2024, 8, 8, 22, tzinfo=UTC), datetime(2024, 8, 8, 23, tzinfo=UTC)]
    ...         + [datetime(2024, 8, 9, tzinfo=UTC)],
    ...         "side": ["BUY", "BUY", "SELL"],
    ...         "volume": [3.0, 1.0, 2.0],
    ...     }
    ... )
    >>> cvd(candles)["cvd"].to_list()
    [3.0, 4.0, 2.0]
    >>> cvd(candles, anchor="session", period="1d")["cvd"].to_list()
    [3.0, 4.0, -2.0]
    >>> from tidytape import Session
    >>> cvd(candles, anchor="session", session=Session.of("FX"))["cvd"].to_list()
    [3.0, 4.0, 2.0]
    """
    sessions = sessions_of(anchor, session, period, session_open, interval)
    table, rows, keys = sides(
        frame, by=by, interval=interval, amount=volume, results=("delta", "cvd", "anchor", "anchored_at")
    )
    sessions = in_time(sessions, table, interval)
    rows = rows.with_columns(delta=nw.col("buy_volume") - nw.col("sell_volume"))
    has_lengths = interval is None and has_intervals(table, keys)
    rows = anchored(rows, keys, sessions, is_known=~nw.col("delta").is_null(), has_lengths=has_lengths)
    # Summed in parts: equal amounts bought and sold cancel exactly, and rows before the anchor change no digit.
    rows = (
        exact.in_parts(rows, "buy_volume", "sell_volume")
        .with_columns(exact.difference("buy_volume", "sell_volume", "cvd"))
        .with_columns(exact.running("cvd").over(*keys, "anchored_at", order_by="timestamp"))
        .select(
            *keys,
            "timestamp",
            "buy_volume",
            "sell_volume",
            "delta",
            nw.when(nw.col(IS_KNOWN)).then(exact.total("cvd")).alias("cvd"),
            nw.lit(anchor).alias("anchor"),
            "anchored_at",
        )
    )
    return table.closed(
        rows,
        sort=[*keys, "timestamp"],
        times={"anchored_at": "timestamp"},
        main=["buy_volume", "sell_volume", "delta", "cvd"],
    )


def vwap(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    anchor: Literal["none", "session"] = "none",
    session: Session | str | timedelta | None = None,
    period: str | timedelta | None = None,
    session_open: TimeLike = None,
    interval: str | timedelta | None = None,
    volume: str | None = None,
) -> IntoFrameT:
    r"""Volume-weighted average price (VWAP) since an anchor.

    .. math:: \mathrm{VWAP}_t = \frac{\sum_{a \le s \le t} P_s V_s}{\sum_{a \le s \le t} V_s}

    where :math:`P` is the price of a trade, or the typical price of a candle, :math:`(H + L + C) / 3`.

    Parameters
    ----------
    frame : frame, n rows, in any order
        Raw trades (schema TRADE): ``timestamp``, ``price`` [quote per coin], ``amount`` [coin]. Or candles, by side or
        not: ``timestamp``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` [coin]. If the frame has a column
        ``price``, it is the price.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame except ``side``. Null
        counts as a value.
    anchor, session, period, session_open
        Where the sums start, as in `cvd`.
    interval : str or timedelta, optional
        Name, alias or length of the intervals to sum over, as in `delta`. By default each ``timestamp`` has a row of
        its own.
    volume : str, optional
        Column of the amounts; without it ``volume``, or else ``amount``. [coin]

    Returns
    -------
    frame, one row per (by, timestamp), sorted by these, of the kind of ``frame``
        ``by``, ``timestamp`` (start of the interval), and

        - ``volume`` : float64, what was traded in the interval. [coin]
        - ``vwap`` : float64, the average up to the end of the interval, included. [quote per coin]
        - ``anchor`` : str, the argument.
        - ``anchored_at`` : time, the open of the row's session, or the first time of the series.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        As in `cvd`. Or if an eager frame has amounts in USD, which cannot weight a price; in a lazy frame the results
        are null there.

    See Also
    --------
    cvd : Volume bought minus volume sold since the same anchor.

    Notes
    -----
    Trades give the exact average. Candles give an approximation, as good as the typical price is. Neither sum depends
    on the order of the rows.

    If an amount is null, not finite or below zero, or if the price of a row with volume is unknown, every average that
    contains the row is unknown: ``vwap`` is null from there to the end of the session, or of the series, as in `cvd`.
    Before the first trade ``vwap`` is null. No row depends on a later one.

    References
    ----------
    .. [1] Berkowitz, Logue, Noser, "The total cost of transactions on the NYSE", Journal of Finance 43 (1), 1988.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> trades = pl.DataFrame(
    ...     {
    ...         "timestamp": [datetime(2024, 8, 8, 23, tzinfo=UTC), datetime(2024, 8, 9, tzinfo=UTC)],
    ...         "price": [100.0, 104.0],
    ...         "amount": [3.0, 1.0],
    ...     }
    ... )
    >>> vwap(trades)["vwap"].to_list()
    [100.0, 101.0]
    >>> vwap(trades, anchor="session")["vwap"].to_list()
    [100.0, 104.0]
    """
    sessions = sessions_of(anchor, session, period, session_open, interval)
    table = OpenTable.of(frame)
    volume = amount_of(table, volume, VOLUMES)
    prices = ["price"] if "price" in table.names else ["high", "low", "close"]
    table = OpenTable.of(table, ["timestamp"], numbers=[*prices, volume])
    keys = table.series_columns(by, without=["side", "timestamp", "volume", "vwap", "anchor", "anchored_at"])
    table = require_unit(
        table, "COIN", [volume], parameter="frame", expected="amounts in coins", hint="fetch it without quote"
    )
    table = require_one_unit(table, AMOUNT_UNIT, keys, [volume])
    has_lengths = interval is None and has_intervals(table, keys)
    sessions = in_time(sessions, table, interval)

    price = sum((nw.col(name) for name in prices[1:]), nw.col(prices[0])) / float(len(prices))
    known_volume = nw.when(usable(nw.col(volume))).then(nw.col(volume))
    turnover = nw.when(known_volume == 0).then(0.0).otherwise(known_volume * price)
    amounts = {"volume": known_volume, "__turnover": nw.when(turnover.is_finite()).then(turnover)}
    table, rows = summed_by_bucket(table, keys, interval, amounts)

    is_known = ~nw.col("volume").is_null() & ~nw.col("__turnover").is_null()
    rows = anchored(rows, keys, sessions, is_known=is_known, has_lengths=has_lengths)
    rows = (
        exact.in_parts(rows.with_columns(__volume=nw.col("volume")), "__volume", "__turnover")
        .with_columns(
            exact.running("__volume", "__turnover").over(*keys, "anchored_at", order_by="timestamp")
        )
        .with_columns(exact.total("__volume"), exact.total("__turnover"))
        .select(
            *keys,
            "timestamp",
            "volume",
            nw.when(nw.col(IS_KNOWN)).then(quotient(nw.col("__turnover"), nw.col("__volume"))).alias("vwap"),
            nw.lit(anchor).alias("anchor"),
            "anchored_at",
        )
    )
    return table.closed(
        rows, sort=[*keys, "timestamp"], times={"anchored_at": "timestamp"}, main=["volume", "vwap"]
    )


def sessions_of(
    anchor: str,
    session: Session | str | timedelta | None,
    period: str | timedelta | None,
    session_open: TimeLike,
    interval: str | timedelta | None,
) -> Sessions | Periods | None:
    """Return the sessions that the arguments name, None for ``anchor="none"``; raise QueryError if they disagree."""
    arguments.one_of("anchor", anchor, ("none", "session"))
    given = {"session": session, "period": period, "session_open": session_open}
    for parameter, argument in given.items():
        if argument is not None and anchor != "session":
            raise QueryError(
                parameter,
                got=argument,
                expected="none, or anchor='session' too",
                hint="without it the sum runs on",
            )
    if anchor == "none":
        return None
    if isinstance(session, Session):
        for parameter in ("period", "session_open"):
            if given[parameter] is not None:
                raise QueryError(
                    parameter, got=given[parameter], expected="none, for the session says when it opens"
                )
        return Sessions(session)
    if session is not None:
        if period is not None:
            raise QueryError("session", got=session, expected="a Session, or nothing beside ``period``")
        try:
            arguments.length("session", session)
        except QueryError:
            a_session(session)
        warn(DeprecationWarning(f"``session`` takes a Session; a length is ``period={session!r}``"))
        period = session
    name = "period" if session is None else "session"
    length, opens = arguments.length(name, "1d" if period is None else period), MONDAY
    if session_open is not None:
        opens = epoch_seconds(session_open, parameter="session_open") * SECOND
    if interval is not None:
        _require_fit(interval, length, {opens})
    return length, opens


def _require_fit(interval: str | timedelta, length: int, opens: Collection[int]) -> None:
    """Raise QueryError if a session opens within an interval; ``length`` [ns] is that of periods, or 0."""

    def fits(candidate: AnyInterval) -> bool:
        step, offset = candidate.seconds * SECOND, candidate.offset * SECOND
        return length % step == 0 and all((open_ - offset) % step == 0 for open_ in opens)

    if fits(frame_interval(interval)):
        return
    longest = next((candidate.alias for candidate in reversed(Interval) if fits(candidate)), None)
    hint = f"the longest that does is {longest!r}" if longest else "have sessions open on whole minutes"
    expected = "an interval that ends where a session opens"
    raise QueryError("interval", got=interval, expected=expected, hint=hint)


def in_time(
    sessions: Sessions | Periods | None, table: OpenTable[Any], interval: str | timedelta | None
) -> Sessions | Periods | None:
    """Return sessions with the first and the last time of a frame; raise QueryError if one opens in an interval."""
    if not isinstance(sessions, Sessions):
        return sessions
    first, last = span_of(table.rows)
    if interval is not None:
        opens = {times.open for times in sessions_near(sessions.session, first, last)}
        _require_fit(interval, 0, opens)
    return replace(sessions, first=first, last=last)


def anchored(
    rows: nw.LazyFrame[Any],
    keys: Sequence[str],
    sessions: Sessions | Periods | None,
    *,
    is_known: nw.Expr,
    has_lengths: bool,
) -> nw.LazyFrame[Any]:
    """Add ``anchored_at``, the time at which the running sum of a row starts [ns], and `IS_KNOWN`.

    Parameters
    ----------
    rows : narwhals LazyFrame, one row per keys and ``timestamp`` int64 [ns]
    keys : sequence of str
        Columns that name a series.
    sessions : Sessions or Periods, optional
        The sessions at whose open a sum starts; None if it starts at the first row of its series.
    is_known : expression, bool
        Whether the amounts of a row are known.
    has_lengths : bool
        Whether the column ``interval`` is the length of a row, so that a row may lie in two sessions.
    """
    time = nw.col("timestamp")
    rows = rows.with_columns(__unknown=(~is_known).cast(nw.Int64))
    rows = _opened(rows, time, "anchored_at", sessions, keys)
    if sessions is not None and has_lengths:
        last_moment = nw.max_horizontal(time + length_of(nw.col("interval")) - 1, time)
        rows = _without_parts(_opened(rows, last_moment, "__ends_in", sessions, keys), keys)
    unknown = nw.col("__unknown").cum_sum().over(*keys, "anchored_at", order_by="timestamp")
    is_open = ~nw.col("anchored_at").is_null()
    return rows.with_columns(((unknown == 0) & is_open).alias(IS_KNOWN)).drop("__unknown")


def _opened(
    rows: nw.LazyFrame[Any],
    time: nw.Expr,
    name: str,
    sessions: Sessions | Periods | None,
    keys: Sequence[str],
) -> nw.LazyFrame[Any]:
    """Add a column with the time at which the sum begins that a row at ``time`` belongs to. [ns]"""
    if isinstance(sessions, Sessions):
        return sessions.of(rows, time, name)
    if sessions is None:
        return rows.with_columns(within(time.min(), keys).alias(name))
    return rows.with_columns(bucket_by(time, sessions[0], origin=sessions[1]).alias(name))


def _without_parts(rows: nw.LazyFrame[Any], keys: Sequence[str]) -> nw.LazyFrame[Any]:
    """Count a candle that lies in two sessions as unknown in both: how much belongs to each is not known.

    The same holds for a candle that lies in a session and in the time before or after it.
    """
    begins_in, ends_in = nw.col("anchored_at"), nw.col("__ends_in")
    is_cut = ~begins_in.is_null() & (ends_in.is_null() | (ends_in != begins_in))
    spoils = ~ends_in.is_null() & (begins_in.is_null() | (ends_in > begins_in))
    rows = rows.with_columns(__spoiled=nw.when(spoils).then(ends_in).otherwise(EARLIEST))
    is_spoiled = nw.col("__spoiled").cum_max().over(*keys, order_by="timestamp") >= begins_in
    unknown = nw.col("__unknown") + (is_cut | is_spoiled).fill_null(value=False).cast(nw.Int64)
    return rows.with_columns(__unknown=unknown).drop("__ends_in", "__spoiled")
