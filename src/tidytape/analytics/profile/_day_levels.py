"""The levels of each session that are known before it opens, at its open, and after its first hour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal, get_args

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import Duration, as_lazy, in_memory, length
from tidytape.analytics.profile._growth import Rules, areas
from tidytape.analytics.profile._sessions import untouched
from tidytape.errors import QueryError
from tidytape.frames._grid import Grid
from tidytape.frames._joined import joined, last_known
from tidytape.frames._rows import spread
from tidytape.frames._spreading import levels_of, require_room
from tidytape.frames._table import OpenTable, Rows
from tidytape.frames._times import as_dates
from tidytape.frames._trading import (
    TradingDay,
    require_inside,
    span_of,
    trading_days,
    with_facts_of_day,
    with_session,
    with_span,
)
from tidytape.frames._units import AMOUNT_UNIT, require_one_unit
from tidytape.sessions import Session, a_session
from tidytape.times import DAY, MINUTE, SECOND

_At = Literal["prior_close", "open", "initial_balance"]
_Spreading = Literal["close", "uniform"]

_OVERNIGHT: Final = ("overnight_high", "overnight_low")
_BALANCE: Final = ("initial_balance_high", "initial_balance_low")
_PRIOR: Final = ("prior_high", "prior_low", "prior_close", "prior_val", "prior_poc", "prior_vah")
_NAKED: Final = ("naked_pocs", "naked_poc_above", "naked_poc_below")
_TIMES: Final = ("prior_known_at", "overnight_known_at", "initial_balance_known_at", "known_at")
_ARGUMENTS: Final = ("initial_balance_minutes", "block_size", "spreading", "session", "regular")
_RESULTS: Final = ("session_date", "period_end", *_TIMES, *_PRIOR, *_NAKED, *_OVERNIGHT, *_BALANCE)
_NUMBER, _PRIOR_NUMBER = "__number", "__prior_number"
_INFINITE: Final = float("inf")
"""An end of a range with an unknown price among those that decide it."""


def levels(
    candles: IntoFrameT,
    /,
    *,
    session: Session,
    block_size: Decimal | float | str,
    spreading: _Spreading,
    regular: Session | None = None,
    at: _At = "initial_balance",
    by: str | Iterable[str] | None = None,
    minutes: float = 60,
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    poc_tie: Literal["center", "lower", "upper"] = "center",
    interval: Duration | None = None,
) -> IntoFrameT:
    r"""Levels of each session that a trader looks at first: those of the session before, overnight, and the first hour.

    Parameters
    ----------
    candles : frame, n rows, any order
        ``timestamp``, ``high``, ``low``, ``close`` [quote per coin], ``volume``, and ``interval``, of any length that
        ends at each open, at the end of each initial balance and at each close: minute candles fit every session.
    session : Session
        When the market trades.
    block_size : Decimal, int, float or str, > 0
        Height of a price row of the profiles. [quote per coin]
    spreading : {"close", "uniform"}
        At which prices a candle traded, as in `tidytape.aggregate.candle_profile`.
    regular : Session, optional
        The regular hours, if the market trades longer; by default all of ``session``. A row of the result is a regular
        session.
    at : {"initial_balance", "open", "prior_close"}
        Up to when a row waits for levels. ``known_at`` is that time, and levels that become known later are null: with
        ``"prior_close"`` there are only those of the session before, with ``"open"`` also those overnight.
    by : str or iterable of str, optional
        The columns that tell one series from another; by default the identity columns of the frame, except
        ``interval``. Null counts as a value.
    minutes : float, > 0
        Length of the initial balance, in time that the market trades: a break does not count. [min]
    share, rule, tie, stop, poc_tie
        As in `value_area`.
    interval : str or timedelta, optional
        The length of the candles, if the frame does not have the column.

    Returns
    -------
    frame, one row per (by, timestamp), sorted by these, of the kind of ``candles``
        A row for each regular session in which, or before which, something traded, and for the one after a session that
        traded: so the levels of tomorrow are there when today closes. ``by``, ``timestamp`` (the open), and

        - ``session_date`` : date; ``period_end`` : as ``timestamp``, the close.
        - ``prior_high``, ``prior_low``, ``prior_close`` : float64, of the last regular session before it that traded.
          [quote per coin]
        - ``prior_val``, ``prior_poc``, ``prior_vah`` : float64, its value area and point of control, low edges of price
          rows, as in `value_area`. [quote per coin]
        - ``naked_pocs`` : int64, how many points of control of the sessions before it no later session had touched by
          then, as in `naked_pocs`; ``naked_poc_above``, ``naked_poc_below`` : float64, the nearest of them above
          ``prior_close``, and at or below it. [quote per coin]
        - ``overnight_high``, ``overnight_low`` : float64, of what traded since the close before, until the open. [quote
          per coin]
        - ``initial_balance_high``, ``initial_balance_low`` : float64, of the first ``minutes``. [quote per coin]
        - ``prior_known_at``, ``overnight_known_at``, ``initial_balance_known_at`` : as ``timestamp``, when each group
          is known: at the close of the session before, at the open, and when the initial balance ends. If the session
          before did not trade, no group is known before the first candle since then ends.
        - ``known_at`` : as ``timestamp``, when the row is known, by ``at``.
        - ``initial_balance_minutes``, ``block_size``, ``spreading``, ``share``, ``rule``, ``tie``, ``stop``,
          ``poc_tie``, ``session``, ``regular`` : the arguments.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or ``regular`` reaches outside of ``session`` on one of its dates; if the
        candles are by side, of a length that is not known, or of DuckDB or Spark; or if one reaches beyond an open, the
        end of an initial balance, or a close.

    See Also
    --------
    tidytape.analytics.pit.asof_join : Joins them to candles by ``known_at``.
    developing : Point of control and value area in the course of a session.

    Notes
    -----
    To show each level from when it is known on, stack the answers for ``"prior_close"``, ``"open"`` and
    ``"initial_balance"``, in this order, and keep the last of rows with the same ``by``, ``timestamp`` and
    ``known_at``, because two groups are known at one time where a session closes as the next one opens.
    `tidytape.analytics.pit.asof_join` then finds the last row that was known.

    Overnight belongs what traded in ``session`` outside of the regular hours. Without ``regular`` it is what traded
    outside of ``session``. Points of control are those of regular sessions, and only regular sessions touch them.

    A candle with an unknown price makes the high and the low that it belongs to null, and one with an unknown volume
    the point of control and the value area.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2, on the initial balance,
       and appendix 1.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> from tidytape import Session
    >>> stocks = Session("09:30", "16:00", zone="America/New_York")
    >>> hours = [(8, 13.5), (8, 14.5), (8, 19.5), (9, 12.5), (9, 13.5)]
    >>> times = [datetime(2024, 8, day, int(hour), int(hour % 1 * 60), tzinfo=UTC) for day, hour in hours]
    >>> candles = pl.DataFrame({
    ...     "timestamp": times, "interval": "30m", "low": [10.0, 11.0, 12.0, 14.0, 13.0],
    ...     "high": [12.0, 14.0, 13.0, 15.0, 16.0], "close": [11.0, 12.0, 13.0, 14.0, 16.0], "volume": 1.0,
    ... })
    >>> friday = levels(candles, session=stocks, block_size=1, spreading="close").row(1, named=True)
    >>> friday["prior_high"], friday["prior_poc"], friday["overnight_high"], friday["initial_balance_high"]
    (14.0, 12.0, 15.0, 16.0)
    >>> friday["known_at"].isoformat()
    '2024-08-09T14:30:00+00:00'
    """
    a_session(session)
    if regular is not None:
        a_session(regular, "regular")
    arguments.one_of("at", at, get_args(_At))
    arguments.one_of("spreading", spreading, get_args(_Spreading))
    rules, grid = Rules(share, rule, tie, stop, poc_tie), Grid.of(block_size)
    balance = int(_minutes(minutes) * MINUTE)
    in_frame, is_lazy = in_memory(candles, "candles", "the levels of a session are those of the one before")
    table = OpenTable.of(
        in_frame, ["timestamp"], numbers=["high", "low", "close", "volume"], parameter="candles"
    )
    if "side" in table.names:
        hint = "fetch them without by_side, or resample them"
        raise QueryError("candles", got="candles by side", expected="one candle per time", hint=hint)
    left_out = ["timestamp", *_RESULTS, *rules.columns(), *_ARGUMENTS]
    keys = table.series_columns(by, without=[*left_out, *(["interval"] if by is None else [])])
    table = require_one_unit(table, AMOUNT_UNIT, keys, ["volume"], parameter="candles")
    names = {f"__by_{place}": name for place, name in enumerate(keys)}
    rows = table.rows.filter(~nw.col("timestamp").is_null()).select(
        **{working: nw.col(name) for working, name in names.items()},
        **{name: nw.col(name) for name in ("timestamp", "high", "low", "close", "volume")},
        __end=nw.col("timestamp") + length(table, interval),
        __all=nw.lit(0),
    )
    series, (first, last) = ["__all", *names], span_of(rows)
    days = trading_days(regular or session, first, last, balance)
    if regular is not None:
        require_inside(session, regular, first, last)
        rows = with_session(rows, session, first=first, last=last, prefix="__whole_")
    rows = with_span(rows, nw.col("timestamp"), {(): days}, TradingDay._fields)
    rows = _in_parts(rows, has_whole=regular is not None)
    _refuse_split(rows)
    profiles = _profiles(rows, series, grid, spreading)
    value_areas = areas(profiles, [*series, _NUMBER], rules, Fraction(grid.size), in_memory=True)
    sessions = joined(_ranges(rows, series), value_areas, on=[*series, _NUMBER])
    result = _with_prior(sessions, series)
    result = joined(result, _naked(profiles, sessions, result, series, days), on=[*series, _NUMBER])
    result = _with_times(with_facts_of_day(result, days), at)
    is_later = {_OVERNIGHT: at == "prior_close", _BALANCE: at != "initial_balance"}
    hidden = [name for names, is_hidden in is_later.items() if is_hidden for name in names]
    result = as_dates(result.with_columns(session_date=nw.col("__date")), "session_date").select(
        "session_date",
        **{name: nw.col(working) for working, name in names.items()},
        timestamp=nw.col("__open"),
        period_end=nw.col("__close"),
        **{name: nw.col(name) for name in (*_TIMES, *_PRIOR, *_NAKED)},
        **{
            name: nw.lit(None, nw.Float64) if name in hidden else nw.col(name)
            for name in (*_OVERNIGHT, *_BALANCE)
        },
        **rules.columns(),
        initial_balance_minutes=nw.lit(float(minutes)),
        block_size=nw.lit(float(grid.size)),
        spreading=nw.lit(spreading),
        session=nw.lit(str(session)),
        regular=nw.lit(str(regular or session)),
    )
    closed = table.closed(
        result,
        sort=[*keys, "timestamp"],
        times=dict.fromkeys(("period_end", *_TIMES), "timestamp"),
        main=["prior_val", "prior_poc", "prior_vah", "known_at"],
    )
    return as_lazy(closed, is_lazy=is_lazy)


def _minutes(minutes: float) -> float:
    """Return the length of an initial balance; raise QueryError if it is not positive, or longer than a day. [min]"""
    if arguments.positive("minutes", minutes) > DAY / MINUTE:
        raise QueryError("minutes", got=minutes, expected="at most a day, 1440")
    return float(minutes)


def _in_parts(rows: Rows, *, has_whole: bool) -> Rows:
    """Add the part of the day of each candle, and when that part ends.

    Candles of no day are left out, and those before the open that lie outside of the whole hours.
    """
    time, opens, balance_end = nw.col("timestamp"), nw.col("__open"), nw.col("__balance_end")
    rows = rows.filter(~opens.is_null())
    if has_whole:
        rows = rows.filter((time >= opens) | ~nw.col("__whole_open").is_null())
    in_regular = nw.when(time < balance_end).then(balance_end).otherwise(nw.col("__close"))
    parts = rows.with_columns(
        __is_regular=time >= opens,
        __is_balance=(time >= opens) & (time < balance_end),
        __is_overnight=time < opens,
        __part_end=nw.when(time < opens).then(opens).otherwise(in_regular),
    )
    return parts.collect("polars").lazy()


def _refuse_split(rows: Rows) -> None:
    """Raise QueryError if a candle lies in two parts of a day, or its length is not known."""
    is_whole = (nw.col("__end") <= nw.col("__part_end")).fill_null(value=False)
    for start, end in rows.filter(~is_whole).select("timestamp", "__end").head(1).collect().rows():
        length_text = "of unknown length" if end is None else f"of {(end - start) / MINUTE:g} minutes"
        begin = datetime.fromtimestamp(start / SECOND, UTC).isoformat()
        raise QueryError(
            "candles",
            got=f"a candle {length_text} from {begin}",
            expected="candles that end at each open, at the end of each initial balance and at each close",
            hint="fetch shorter candles",
        )


def _ranges(rows: Rows, series: list[str]) -> Rows:
    """Return one row per series and day with candles: high and low of each part, the close, and when it is known."""
    high, low, day = nw.col("high"), nw.col("low"), [*series, _NUMBER]
    is_known = (high.is_finite() & low.is_finite() & (low <= high)).fill_null(value=False)
    rows = rows.with_columns(
        high=nw.when(is_known).then(high).otherwise(_INFINITE),
        low=nw.when(is_known).then(low).otherwise(-_INFINITE),
        __regular_time=nw.when("__is_regular").then(nw.col("timestamp")),
    )
    is_last = nw.col("__regular_time") == nw.col("__regular_time").max().over(*day)
    ends = {
        f"{part}_{end}": nw.when(f"__is_{part}").then(nw.col(end))
        for part in ("regular", "overnight", "balance")
        for end in ("high", "low")
    }
    highs, lows = ([name for name in ends if name.endswith(end)] for end in ("high", "low"))
    rows = rows.with_columns(
        **ends,
        __last=nw.when(is_last).then(1).otherwise(0).cast(nw.Int64),
        __close_price=nw.when(is_last).then(nw.col("close")),
    )
    ranges = rows.group_by(*day).agg(
        nw.col(*highs, "__close_price").max(), nw.col(*lows, "__end").min(), nw.col("__last").sum()
    )
    # Of two candles at one time neither is the last.
    close = nw.when(nw.col("__close_price").is_finite(), nw.col("__last") == 1).then(nw.col("__close_price"))
    return ranges.with_columns(
        *(nw.when(nw.col(name).is_finite()).then(nw.col(name)).alias(name) for name in ends),
        __close_price=close,
        __traded=nw.when(nw.col("__last") > 0).then(nw.col(_NUMBER)),
    )


def _profiles(rows: Rows, series: list[str], grid: Grid, spreading: _Spreading) -> Rows:
    """Return the volume profile of each regular session."""
    rows = rows.filter("__is_regular").with_columns(timestamp=nw.col("__open"))
    if spreading == "uniform":
        require_room(rows, grid)
    profiles = levels_of(rows, [*series, _NUMBER], nw.col("timestamp"), grid, spreading)
    counts: Rows = profiles.select(*series, _NUMBER, "price", count=nw.col("volume"))
    return counts.collect("polars").lazy()


def _with_prior(sessions: Rows, series: list[str]) -> Rows:
    """Return one row per day with candles and per day after a session that traded, with that session's levels."""
    traded = sessions.filter(~nw.col("__traded").is_null())
    following = traded.select(*series, (nw.col(_NUMBER) + 1).alias(_NUMBER))
    numbers = nw.concat([sessions.select(*series, _NUMBER), following]).unique()
    rows = joined(numbers, sessions, on=[*series, _NUMBER])
    before = nw.col("__traded").shift(1).over(*series, order_by=_NUMBER)
    rows = rows.with_columns(before.alias(_PRIOR_NUMBER))
    rows = rows.with_columns(last_known(_PRIOR_NUMBER, by=series, order=[_NUMBER]))
    prior = traded.select(
        *series,
        nw.col(_NUMBER).alias(_PRIOR_NUMBER),
        prior_high=nw.col("regular_high"),
        prior_low=nw.col("regular_low"),
        prior_close=nw.col("__close_price"),
        **{f"prior_{name}": nw.col(name) for name in ("poc", "val", "vah")},
    )
    return joined(rows, prior, on=[*series, _PRIOR_NUMBER])


def _naked(
    profiles: Rows, sessions: Rows, days_of_series: Rows, series: list[str], days: Sequence[TradingDay]
) -> Rows:
    """Return for each day the points of control that no session before it has touched, as `naked_pocs` counts them."""
    price, poc, close = nw.col("price"), nw.col("poc"), nw.col("prior_close")
    ends = profiles.group_by(*series, _NUMBER).agg(price.min().alias("low"), price.max().alias("high"))
    ends = joined(ends, sessions.select(*series, _NUMBER, "poc"), on=[*series, _NUMBER])
    # As in `naked_pocs`, a session without a point of control touches none.
    known_sessions = ends.filter(~poc.is_null()).select(*series, "poc", "low", "high", start=nw.col(_NUMBER))
    # A point of control is naked on the days after its session, up to the one on which it is touched.
    until = nw.coalesce(nw.col("touched_at"), nw.lit(len(days) - 1, nw.Int64))
    spans = untouched(known_sessions, series).select(
        *series, "poc", __first=nw.col("start") + 1, __last=until.cast(nw.Int64)
    )
    pairs = joined(
        spread(spans, "__first", "__last", name=_NUMBER),
        days_of_series.select(*series, _NUMBER, "prior_close"),
        on=[*series, _NUMBER],
    )
    return (
        pairs.with_columns(
            naked_poc_above=nw.when(poc > close).then(poc), naked_poc_below=nw.when(poc <= close).then(poc)
        )
        .group_by(*series, _NUMBER)
        .agg(
            poc.count().alias("naked_pocs"), nw.col("naked_poc_above").min(), nw.col("naked_poc_below").max()
        )
    )


def _with_times(rows: Rows, at: _At) -> Rows:
    """Add when each group of levels is known, and rename the ranges."""
    follows = (nw.col(_PRIOR_NUMBER) == nw.col(_NUMBER) - 1).fill_null(value=False)
    prior_known = nw.when(follows).then(nw.col("__prior_close")).otherwise(nw.col("__end"))
    rows = rows.with_columns(prior_known_at=prior_known).with_columns(
        overnight_known_at=nw.max_horizontal("prior_known_at", "__open"),
        initial_balance_known_at=nw.max_horizontal("prior_known_at", "__balance_end"),
    )
    group = {"prior_close": "prior", "open": "overnight"}.get(at, at)
    naked = nw.when(~nw.col(_PRIOR_NUMBER).is_null()).then(nw.col("naked_pocs").cast(nw.Int64).fill_null(0))
    return rows.with_columns(
        known_at=nw.col(f"{group}_known_at"),
        naked_pocs=naked,
        initial_balance_high=nw.col("balance_high"),
        initial_balance_low=nw.col("balance_low"),
    )
