"""Intervals without a row, and the share of intervals that have one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.errors import QueryError
from tidytape.frames._joined import joined
from tidytape.frames._rows import spread
from tidytape.frames._table import OpenTable, Rows
from tidytape.frames._times import FEW_WORDS, bucket_by, interval_words, length_of
from tidytape.frames._trading import numbers_table, on_session_dates
from tidytape.frames._trading_clock import Clocks, TradingClock, with_trading_time, with_world_time
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.sessions import Session, a_session
from tidytape.times import SECOND, WEEK


def gaps(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    start: TimeLike = None,
    end: TimeLike = None,
    session: Session | None = None,
) -> IntoFrameT:
    """Gaps: runs of intervals without a row.

    Parameters
    ----------
    frame : frame, n rows, in any order
        Any schema with ``timestamp``. A row at any time within an interval makes the interval present.
    by : str or iterable of str, optional
        The columns that tell one series from another; by default the identity columns of the frame. Null counts as a
        value.
    interval : str or timedelta, optional
        Length of the intervals, aligned to the Unix epoch in UTC, weeks to Monday; by default the column ``interval``
        of each row.
    start, end : moment, optional
        The window, start inclusive, end exclusive: epoch seconds, a datetime, a date or an ISO 8601 string; a time
        without a zone is UTC. Then the intervals of the window before the first row of a series, or after its last, are
        missing too. By default each series is checked from its first row to its last.
    session : Session, optional
        When the market trades: other times have no gap, and rows there do not count. An interval shorter than a day is
        expected if the market trades in a part of it, a longer one if the date of a session lies in it. A row of such
        a longer interval counts to the date of its session, whether it starts at the open or at midnight in any zone.

    Returns
    -------
    frame, one row per gap, sorted by ``by`` and ``start``, of the kind of ``frame``
        ``by``, and

        - ``start`` : time, start of the first missing interval.
        - ``end`` : time, end of the last missing interval; with a session the market may be closed between the two.
        - ``missing`` : int64. [intervals]

    Raises
    ------
    MissingColumnError
        If ``timestamp`` or a column of ``by`` is absent.
    QueryError
        If the length of the intervals is not known, a time has no zone, or the window ends before it starts.

    Notes
    -----
    In candles and liquidations nothing may have happened in a missing interval: the frame cannot tell. A series without
    any row in the frame is not reported. Rows with an unknown interval, or without a time, are left out; `audit` counts
    them.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> hours = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (0, 1, 5)]
    >>> frame = pl.DataFrame({"timestamp": hours})
    >>> gaps(frame, interval="1h").select(pl.col("start", "end").dt.hour(), "missing").rows()
    [(2, 5, 3)]
    >>> gaps(frame, interval="1h", end="2024-08-08T08:00Z").select(pl.col("start").dt.hour(), "missing").rows()
    [(2, 3), (6, 2)]
    """
    since, until = _window(start, end)
    table, rows, keys = _opened(frame, by, interval, session, results=("start", "end", "missing"))
    rows, clocks = placed(rows, session, since, until)
    series_columns = [*keys, "__step", "__length"]
    bucket, length, on_clock = nw.col("__bucket"), nw.col("__length"), nw.col("__on_clock")
    present, outside = rows.filter(~on_clock.is_null()) if clocks else rows, list[Rows]()
    # The intervals just outside the window count as present, so that a gap can begin or end at its edge.
    for edge, is_start in ((since, True), (until, False)):
        if edge is not None:
            first = first_from(edge)
            present = present.filter(bucket >= first if is_start else bucket < first)
            series = rows.select(*series_columns).unique()
            series = with_trading_time(series, first, "__on_clock", clocks, ["__length"])
            place = on_clock - length if is_start else on_clock
            outside.append(series.select(*series_columns, __on_clock=place))
    runs = (
        nw.concat([present.select(*series_columns, "__on_clock").unique(), *outside])
        .with_columns(
            start=on_clock + length, end=on_clock.shift(-1).over(series_columns, order_by="__on_clock")
        )
        .with_columns(missing=count_of(nw.col("end") - on_clock) - 1)
        .filter(nw.col("missing") > 0)
    )
    for name, time in (("start", nw.col("start")), ("__last", nw.col("end") - 1)):
        runs = with_world_time(runs, time, name, clocks, ["__length"])
    runs = runs.with_columns(end=nw.col("__last") + 1).select(*keys, "start", "end", "missing")
    times = dict.fromkeys(("start", "end"), "timestamp")
    return table.closed(runs, sort=[*keys, "start"], times=times, main=["start", "end", "missing"])


def completeness(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    start: TimeLike = None,
    end: TimeLike = None,
    every: str | timedelta | None = None,
    session: Session | None = None,
) -> IntoFrameT:
    r"""Completeness: the share of the intervals of a window that have a row.

    .. math:: c = n_\mathrm{present} / n_\mathrm{expected}

    Parameters
    ----------
    frame, by, interval
        As in `gaps`.
    start, end : moment, optional
        The window, start inclusive, end exclusive: the intervals that start in it are expected. By default the window
        reaches from the first interval of the whole frame to its last, so a series that begins late or ends early is
        not complete.
    every : str or timedelta, optional
        Count each span of this length separately, e.g. ``"1d"`` for each UTC day. An interval belongs to the span in
        which it starts. Spans are aligned like intervals; the window cuts the first and the last span. With a session,
        each expects the intervals in which the market trades.
    session : Session, optional
        When the market trades: only intervals in which it does are expected, and only these count, as in `gaps`.

    Returns
    -------
    frame, one row per ``by``, or per ``by`` and span with ``every``, sorted by it, of the kind of ``frame``
        If ``interval`` is in ``by``, each length of interval has rows of its own. A span in which no interval is
        expected has no row, such as a day off with a session. ``by``, and

        - ``start``, ``end`` : time, start of the first expected interval and end of the last; of the window if none is
          expected.
        - ``expected``, ``present``, ``missing`` : int64. [intervals]
        - ``completeness`` : float64, 0 to 1, null if no interval is expected. [1]

    Raises
    ------
    MissingColumnError
        If ``timestamp`` or a column of ``by`` is absent.
    QueryError
        If the length of the intervals is not known, a time has no zone, the window ends before it starts, or ``every``
        is not a length.

    See Also
    --------
    tidytape.plot.completeness : The plot.

    Notes
    -----
    The notes of `gaps` apply. An interval with two rows counts once.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> hours = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (0, 1, 3)]
    >>> frame = pl.DataFrame({"raw_symbol": ["A", "A", "B"], "timestamp": hours})
    >>> completeness(frame, interval="1h").select("raw_symbol", "present", "expected", "completeness").rows()
    [('A', 2, 4, 0.5), ('B', 1, 4, 0.25)]
    >>> halves = completeness(frame, interval="1h", every="2h")
    >>> halves.select("raw_symbol", pl.col("start", "end").dt.hour(), "completeness").rows()
    [('A', 0, 2, 1.0), ('A', 2, 4, 0.0), ('B', 0, 2, 0.0), ('B', 2, 4, 0.5)]
    """
    since, until = _window(start, end)
    table, rows, keys = _opened(
        frame,
        by,
        interval,
        session,
        results=("start", "end", "expected", "present", "missing", "completeness"),
    )
    rows, clocks = placed(rows, session, since, until)
    series_columns = [*keys, "__step", "__length"]
    length, bucket = nw.col("__length"), nw.when(~nw.col("__on_clock").is_null()).then("__bucket")
    # Intervals of different lengths start at different times, so each length has its own window of whole intervals.
    rows = rows.with_columns(
        start=first_from(bucket.min() if since is None else since),
        end=first_from((bucket + length).max() if until is None else until),
    )
    span_length = None if every is None else arguments.length("every", every)
    spans = _spans(rows, span_length, clocks)
    inside = ((bucket >= nw.col("start")) & (bucket < nw.col("end"))).fill_null(value=False)
    span = nw.lit(0, nw.Int64()) if span_length is None else bucket_by(nw.col("__bucket"), span_length)
    rows = rows.select(*series_columns, "__bucket", __span=span, __inside=inside.cast(nw.Int64)).unique()
    counted = rows.group_by(*series_columns, "__span").agg(present=nw.col("__inside").sum())
    counts = (
        rows.select(*series_columns)
        .unique()
        .join(spans, on="__length", how="left" if every is None else "inner")
    )
    counts = joined(counts, counted, on=[*series_columns, "__span"], how="left").with_columns(
        nw.col("expected", "present").fill_null(0)
    )
    expected, present = nw.col("expected"), nw.col("present").cast(nw.Int64)
    counts = counts.select(
        *keys,
        *("start", "end", "expected"),
        present=present,
        missing=expected - present,
        completeness=nw.when(expected > 0).then(present.cast(nw.Float64) / expected.cast(nw.Float64)),
    )
    order = keys if every is None else [*keys, "start"]
    return table.closed(counts, sort=order, times={"start": "timestamp", "end": "timestamp"})


def placed(
    rows: Rows, session: Session | None, since: int | None = None, until: int | None = None
) -> tuple[Rows, Clocks]:
    """Add ``__on_clock``, the start of the interval of each row on the clock of its length; return the clocks too.

    It is null if the market does not trade in the interval. With a session, ``__bucket`` of a row of a day or longer
    becomes that of the session's date. Without a session, it is ``__bucket``.
    """
    clocks: Clocks = {}
    if session is not None:
        rows = on_session_dates(rows, a_session(session))
        valid = rows.filter(~nw.col("timestamp").is_null(), nw.col("__step") > 0)
        bounds = valid.group_by("__length").agg(first=nw.col("__bucket").min(), last=nw.col("__bucket").max())
        lengths = bounds.collect("polars").rows()
        times = [time for row in [*lengths, (0, since, until)] for time in row[1:] if time is not None]
        clocks = {
            (length,): TradingClock.of_intervals(session, length, min(times), max(times) + WEEK)
            for length, *_ in lengths
        }
    rows = with_trading_time(rows, nw.col("__bucket"), "__on_clock", clocks, ["__length"])
    return rows.with_columns(__on_clock=nw.when("__is_open").then("__on_clock")) if clocks else rows, clocks


def _spans(rows: Rows, every: int | None, clocks: Clocks) -> Rows:
    """Return the spans of the window of each ``__length``: ``start``, ``end`` and how many intervals it has. [ns]

    ``__span`` is where a span starts, 0 if the window is one.
    """
    spans = rows.select("__length", "start", "end").unique()
    if clocks:
        # These are few rows, of a frame that was read already, and SQL engines would take seconds to plan the clocks.
        spans = nw.from_native(spans.collect("polars").to_native().lazy())
    if every is None:
        spans = spans.with_columns(__span=nw.lit(0, nw.Int64()))
    else:
        spans = spans.filter(nw.col("end") > nw.col("start"))
        first, last = bucket_by(nw.col("start"), every), bucket_by(nw.col("end") - 1, every)
        number = ((last - first).cast(nw.Float64) / float(every)).round().cast(nw.Int64)
        spans = spread(
            spans.with_columns(__span=first, __from=nw.lit(0, nw.Int64()), __to=number),
            "__from",
            "__to",
            name="__number",
        ).with_columns(__span=nw.col("__span") + nw.col("__number") * every)
        spans = spans.select(
            *("__length", "__span"),
            start=nw.max_horizontal(nw.col("start"), first_from(nw.col("__span"))),
            end=nw.min_horizontal(nw.col("end"), first_from(nw.col("__span") + every)),
        ).filter(nw.col("end") > nw.col("start"))
    for name, edge in (("__from", "start"), ("__until", "end")):
        spans = with_trading_time(spans, nw.col(edge), name, clocks, ["__length"])
    expected = count_of(nw.col("__until") - nw.col("__from")).fill_null(0)
    spans = spans.with_columns(expected=nw.max_horizontal(expected, nw.lit(0, nw.Int64())))
    for name, time in (("__first", nw.col("__from")), ("__last", nw.col("__until") - 1)):
        spans = with_world_time(spans, time, name, clocks, ["__length"])
    expected = nw.col("expected")
    spans = spans.select(
        *("__length", "__span", "expected"),
        start=nw.when(expected > 0).then("__first").otherwise("start"),
        end=nw.when(expected > 0).then(nw.col("__last") + 1).otherwise("end"),
    ).filter(~nw.col("start").is_null() if every is None else expected > 0)
    return numbers_table(rows, spans.collect("polars").to_dict(as_series=False)) if clocks else spans


def _window(start: TimeLike, end: TimeLike) -> list[int | None]:
    """Return the start and the end of a window, each None if the caller leaves it open. [ns]"""
    ends = [
        None if argument is None else epoch_seconds(argument, parameter=parameter) * SECOND
        for parameter, argument in (("start", start), ("end", end))
    ]
    since, until = ends
    if since is not None and until is not None and until <= since:
        raise QueryError("end", got=end, expected=f"a time after start, {start}")
    return ends


def _opened(
    frame: IntoFrameT,
    by: str | Iterable[str] | None,
    interval: str | timedelta | None,
    session: Session | None,
    *,
    results: tuple[str, ...],
) -> tuple[OpenTable[IntoFrameT], Rows, list[str]]:
    """Return the frame, its rows that have a time and an interval, and the columns that name a series."""
    table = OpenTable.of(frame, ["timestamp"])
    if interval is None and "interval" not in table.names:
        expected, hint = "the length of an interval", "the frame has no column 'interval'"
        raise QueryError("interval", got=None, expected=expected, hint=hint)
    keys = table.series_columns(by, without=["timestamp", *results])
    rows = table.rows.filter(~nw.col("timestamp").is_null()).with_columns(__time=nw.col("timestamp"))
    return table, with_grid(rows, interval, session, table).filter(nw.col("__step") > 0), keys


def first_from(time: nw.Expr | int) -> nw.Expr:
    """Return the start of the first interval that starts at a time or after it. [ns]"""
    moment = nw.lit(time, nw.Int64()) if isinstance(time, int) else time
    return bucket_by(moment + nw.col("__length") - 1, nw.col("__length"))


def with_grid(
    rows: nw.LazyFrame[Any],
    interval: str | timedelta | None,
    session: Session | None,
    table: OpenTable[Any],
) -> nw.LazyFrame[Any]:
    """Add the interval of each row of a table: its length ``__step`` and its start ``__bucket``. [ns]

    If the length is unknown, ``__step`` is 0 and the bucket starts at the row's own time. ``__length`` is ``__step``,
    but at least 1, so that it can be divided by.
    """
    step = (
        _length_of_rows(table, reads=table.is_eager or session is not None)
        if interval is None
        else nw.lit(arguments.length("interval", interval), nw.Int64())
    )
    return rows.with_columns(
        __step=step, __length=nw.max_horizontal(step, nw.lit(1, nw.Int64()))
    ).with_columns(__bucket=bucket_by(nw.col("__time"), nw.col("__length")))


def _length_of_rows(table: OpenTable[Any], *, reads: bool) -> nw.Expr:
    """Return the length of each row's ``interval``, which need not be one; 0 for null, and for what is none. [ns]

    ``reads`` says whether the rows may be read for it: those in memory, and those that a session reads for their times.
    """
    word = nw.col("interval").cast(nw.String)
    length = length_of(interval_words(word))
    if not reads:
        return length
    # Reading the text of each row takes most of the time of a check, and a frame has few different intervals.
    lengths = table.rows.select(word).unique().drop_nulls().with_columns(length=length).collect("polars")
    if len(lengths) > FEW_WORDS:
        return length
    length = nw.lit(0, nw.Int64())
    for text, nanoseconds in lengths.rows():
        length = nw.when(word == text).then(nw.lit(nanoseconds, nw.Int64())).otherwise(length)
    return length


def count_of(span: nw.Expr) -> nw.Expr:
    """Return how many intervals a span holds; the span is a whole multiple of the interval."""
    # Spark divides integers as floats and truncates, which may lose one. Rounding the float quotient does not.
    return (span.cast(nw.Float64) / nw.col("__length").cast(nw.Float64)).round().cast(nw.Int64)
