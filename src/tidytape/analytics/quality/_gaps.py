"""Intervals that have no row, and how many have one."""

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
from tidytape.frames._times import bucket_by, length_of
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.times import SECOND


def gaps(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    start: TimeLike = None,
    end: TimeLike = None,
) -> IntoFrameT:
    """Gaps: runs of intervals without a row.

    Parameters
    ----------
    frame : frame, n rows, in any order
        Any schema with ``timestamp``. A time within an interval counts for it.
    by : str or iterable of str, optional
        The columns that tell one series from another; without it, the identity columns that there are. Null is a
        value.
    interval : str or timedelta, optional
        Length of the intervals, aligned to the Unix epoch in UTC, weeks to Monday; without it, what the column
        ``interval`` says of each row.
    start, end : moment, optional
        The window, start inclusive, end exclusive: epoch seconds, a datetime, a date or an ISO 8601 string; what has no
        zone is UTC. With it the intervals before the first row of a series, or after its last, are missing too.
        Without it each series is looked at from its first row to its last.

    Returns
    -------
    frame, one row per gap, sorted by ``by`` and ``start``, of the kind of ``frame``
        ``by``, and

        - ``start`` : time, start of the first interval that is missing.
        - ``end`` : time, end of the last one.
        - ``missing`` : int64. [intervals]

    Raises
    ------
    MissingColumnError
        If ``timestamp`` or a column of ``by`` is absent.
    QueryError
        If the length of the intervals is not known, a time has no zone, or the window ends before it starts.

    Notes
    -----
    In candles and liquidations a missing interval may be one in which nothing happened: the frame cannot tell. A series
    of which no row is in the frame at all is not known to be missing. Rows with an unknown interval, or without a time,
    are left out; `audit` counts them.

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
    table, rows, keys = _opened(frame, by, interval, results=("start", "end", "missing"))
    series = [*keys, "__step", "__length"]
    bucket, length = nw.col("__bucket"), nw.col("__length")
    present, outside = rows.select(*series, "__bucket").unique(), []
    if since is not None:
        present = present.filter(bucket >= _first_from(since))
        outside.append(_first_from(since) - length)
    if until is not None:
        present = present.filter(bucket < _first_from(until))
        outside.append(_first_from(until))
    # The intervals just outside of the window count as present, so that a gap may begin or end with the window.
    edges = [rows.select(*series).unique().with_columns(__bucket=edge) for edge in outside]
    runs = (
        nw.concat([present, *edges])
        .with_columns(start=bucket + length, end=bucket.shift(-1).over(series, order_by="__bucket"))
        .with_columns(missing=count_of(nw.col("end") - bucket) - 1)
        .filter(nw.col("missing") > 0)
        .select(*keys, "start", "end", "missing")
    )
    return table.closed(runs, sort=[*keys, "start"], times={"start": "timestamp", "end": "timestamp"})


def completeness(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    start: TimeLike = None,
    end: TimeLike = None,
    every: str | timedelta | None = None,
) -> IntoFrameT:
    r"""Completeness: the share of the intervals of a window that have a row.

    .. math:: c = n_\mathrm{present} / n_\mathrm{expected}

    Parameters
    ----------
    frame, by, interval
        As of `gaps`.
    start, end : moment, optional
        The window, start inclusive, end exclusive: the intervals that start in it are expected. Without them, from the
        first interval of the whole frame to its last, so that a series that begins late or ends early is not complete.
    every : str or timedelta, optional
        Count each span of this length by itself, e.g. ``"1d"`` for each day of UTC: an interval belongs to the span
        that it starts in. Spans are aligned as intervals are, and those at the ends of the window are cut off by it.

    Returns
    -------
    frame, one row per ``by``, or per ``by`` and span with ``every``, sorted by it, of the kind of ``frame``
        Where ``interval`` is among ``by``, one row for each length of interval. A span that starts no interval has no
        row.
        ``by``, and

        - ``start``, ``end`` : time, of the intervals that are expected, the end of the last one included.
        - ``expected``, ``present``, ``missing`` : int64. [intervals]
        - ``completeness`` : float64, 0 to 1, null where none is expected. [1]

    Raises
    ------
    MissingColumnError
        If ``timestamp`` or a column of ``by`` is absent.
    QueryError
        If the length of the intervals is not known, a time has no zone, the window ends before it starts, or ``every``
        is no length.

    See Also
    --------
    tidytape.plot.completeness : Its picture.

    Notes
    -----
    As of `gaps`. An interval with two rows is present once.

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
        frame, by, interval, results=("start", "end", "expected", "present", "missing", "completeness")
    )
    series = [*keys, "__step", "__length"]
    bucket, length = nw.col("__bucket"), nw.col("__length")
    # Intervals of different lengths begin and end at different times, so each length has its own window of whole
    # intervals.
    rows = rows.with_columns(
        start=_first_from(bucket.min() if since is None else since),
        end=_first_from((bucket + length).max() if until is None else until),
    )
    inside = (bucket >= nw.col("start")) & (bucket < nw.col("end"))
    rows = rows.select(*series, "start", "end", "__bucket", __inside=inside.cast(nw.Int64)).unique()
    expected = nw.max_horizontal(count_of(nw.col("end") - nw.col("start")), nw.lit(0, nw.Int64()))
    present = nw.col("present").cast(nw.Int64)
    if every is None:
        counted = rows.group_by(*series, "start", "end").agg(present=nw.col("__inside").sum())
    else:
        counted = _counted_by_span(rows, [*keys, "__length"], arguments.length("every", every))
    counted = counted.select(
        *keys,
        "start",
        "end",
        expected=expected,
        present=present,
        missing=expected - present,
        completeness=nw.when(expected > 0).then(present.cast(nw.Float64) / expected.cast(nw.Float64)),
    )
    order = keys if every is None else [*keys, "start"]
    return table.closed(counted, sort=order, times={"start": "timestamp", "end": "timestamp"})


def _counted_by_span(rows: Rows, series: list[str], every: int) -> Rows:
    """Return how many intervals of each series are present in each span of the window."""
    windows = rows.select(*series, "start", "end").unique().filter(nw.col("end") > nw.col("start"))
    first, last = bucket_by(nw.col("start"), every), bucket_by(nw.col("end") - 1, every)
    number = ((last - first).cast(nw.Float64) / float(every)).round().cast(nw.Int64)
    spans = spread(
        windows.with_columns(__span=first, __from=nw.lit(0, nw.Int64()), __to=number),
        "__from",
        "__to",
        name="__number",
    ).with_columns(__span=nw.col("__span") + nw.col("__number") * every)
    begin, end = nw.col("__span"), nw.col("__span") + every
    spans = spans.select(
        *series,
        "__span",
        start=nw.max_horizontal(nw.col("start"), _first_from(begin)),
        end=nw.min_horizontal(nw.col("end"), _first_from(end)),
    ).filter(nw.col("end") > nw.col("start"))
    span = [*series, "__span"]
    present = (
        rows.with_columns(__span=bucket_by(nw.col("__bucket"), every))
        .group_by(*span)
        .agg(present=nw.col("__inside").sum())
    )
    counts: Rows = joined(spans, present, on=span, how="left")
    return counts.with_columns(present=nw.col("present").fill_null(0))


def _window(start: TimeLike, end: TimeLike) -> list[nw.Expr | None]:
    """Return the start and end of a window, None where the caller leaves one open. [ns]"""
    moments = [
        None if moment is None else epoch_seconds(moment, parameter=parameter) * SECOND
        for parameter, moment in (("start", start), ("end", end))
    ]
    since, until = moments
    if since is not None and until is not None and until <= since:
        raise QueryError("end", got=end, expected=f"a time after start, {start}")
    return [None if moment is None else nw.lit(moment, nw.Int64()) for moment in moments]


def _opened(
    frame: IntoFrameT,
    by: str | Iterable[str] | None,
    interval: str | timedelta | None,
    *,
    results: tuple[str, ...],
) -> tuple[OpenTable[IntoFrameT], Rows, list[str]]:
    """Return the frame, its rows that have a time and an interval, and the columns that name a series."""
    table = OpenTable.of(frame, times=["timestamp"])
    if interval is None and "interval" not in table.names:
        expected, hint = "the length of an interval", "the frame has no column 'interval'"
        raise QueryError("interval", got=None, expected=expected, hint=hint)
    keys = table.series(by, without=["timestamp", *results])
    rows = table.rows.filter(~nw.col("timestamp").is_null()).with_columns(__time=nw.col("timestamp"))
    return table, with_grid(rows, interval).filter(nw.col("__step") > 0), keys


def _first_from(moment: nw.Expr) -> nw.Expr:
    """Return the start of the first interval that starts at a moment or after it. [ns]"""
    return bucket_by(moment + nw.col("__length") - 1, nw.col("__length"))


def with_grid(rows: nw.LazyFrame[Any], interval: str | timedelta | None) -> nw.LazyFrame[Any]:
    """Add the interval of each row: its length ``__step`` and its start ``__bucket``. [ns]

    Where the length is unknown, ``__step`` is 0 and the bucket starts at the row's own time. ``__length`` is the length
    to divide by: ``__step``, but at least 1.
    """
    if interval is None:
        step = length_of(nw.col("interval"))
    else:
        step = nw.lit(arguments.length("interval", interval), nw.Int64())
    return rows.with_columns(
        __step=step, __length=nw.max_horizontal(step, nw.lit(1, nw.Int64()))
    ).with_columns(__bucket=bucket_by(nw.col("__time"), nw.col("__length")))


def count_of(span: nw.Expr) -> nw.Expr:
    """Return how many intervals a span holds; the span is a whole multiple of the interval."""
    # Spark divides integers as floats and truncates, which may lose one. Rounding the float quotient does not.
    return (span.cast(nw.Float64) / nw.col("__length").cast(nw.Float64)).round().cast(nw.Int64)
