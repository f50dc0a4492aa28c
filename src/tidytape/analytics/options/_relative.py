"""A value compared with the values before it: z-score, percentile and rank."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT
from numpy.typing import NDArray

from tidytape.analytics._arguments import integer
from tidytape.analytics._series import finite, row_columns
from tidytape.analytics.options._chain import number_column
from tidytape.analytics.options._maturity import single
from tidytape.errors import QueryError
from tidytape.frames._rows import starts_run
from tidytape.frames._table import OpenTable

Ints = NDArray[np.int64]

_AT_ONCE = 32
"""With how many earlier rows one step of a query plan compares each row."""


def z_score(
    frame: IntoFrameT,
    /,
    *,
    value: str,
    window: int,
    least: int | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Distance of a value from the mean of the values before it, in their standard deviations.

    .. math:: z_i = \frac{x_i - \bar x}{s}, \qquad \bar x, s \text{ of } x_{i-n}, \dots, x_{i-1}

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp), any order
        Any frame with ``timestamp`` and the value.
    value : str
        The column to compare.
    window : int, >= 2
        n, how many rows of the series before this one. Rows without a value count as rows, but not as values. Rows that
        share their time have no value.
    least : int, optional
        How many of these rows must have a value; by default all n.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame, ``tenor`` and ``side``
        among them, and whatever else tells rows of one time apart: the ``expiry`` or the ``days`` of a maturity,
        ``strike``, ``moneyness``, ``price`` of levels, ``bps``, the other market of a spread, ``estimator`` and
        ``window``.

    Returns
    -------
    frame, n rows, same key, order and kind as ``frame`` where it has an order
        Adds ``z_score`` : float64, null if there are too few values before, if they are all equal, or if the row has no
        value [1]; and ``z_score_since`` : time of the oldest row of the window, null if no row came before.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or the frame has a column ``z_score``.

    Notes
    -----
    The window ends before the row, so a row is compared neither with itself nor with later rows. It counts rows,
    however far apart their times are: across a hole in the data ``z_score_since`` is more than n intervals earlier. *s*
    is the sample standard deviation, with n - 1.

    References
    ----------
    .. [1] Kreyszig, E., "Advanced Engineering Mathematics", 4th edition, 1979, p. 880, eq. 5: the standard score.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> frame = pl.DataFrame({"timestamp": [start, start + 1, start + 2, start + 3],
    ...     "implied_volatility": [50.0, 52.0, 54.0, 56.0]})
    >>> z_score(frame, value="implied_volatility", window=3)["z_score"].to_list()
    [None, None, None, 2.0]
    """
    table, rows, keys, window, least = _opened(
        frame, "z_score", value=value, window=window, least=least, by=by
    )
    x, time, origin = nw.col("__value"), nw.col("__time"), nw.col("__origin")
    before, mean, deviation = nw.col("__before"), nw.col("__mean"), nw.col("__deviation")
    # Subtract the first value of the series, because sums of large numbers would lose the digits of a small deviation.
    rows = (
        rows.with_columns(__start=nw.when(~x.is_null()).then(time).min().over(*keys))
        .with_columns(__origin=nw.when(time == nw.col("__start")).then(x).max().over(*keys))
        .with_columns(__before=(x - origin).shift(1).over(*keys, order_by="__time"))
        .with_columns(
            __mean=before.rolling_mean(window, min_samples=least).over(*keys, order_by="__time"),
            __deviation=before.rolling_std(window, min_samples=least).over(*keys, order_by="__time"),
        )
    )
    # A standard deviation that rounding of the values can explain counts as 0.
    has_deviation = (deviation > 0) & (deviation > (mean + origin).abs() * 1e-12)
    z = nw.when(has_deviation).then((x - origin - mean) / deviation)
    return _closed(table, rows.with_columns(z_score=z), "z_score", of=value)


def percentile(
    frame: IntoFrameT,
    /,
    *,
    value: str,
    window: int,
    least: int | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Share of the earlier values that are below a value; equal values count half.

    .. math:: p_i = \frac{100}{m} \left(\#\{x_j < x_i\} + \tfrac12 \#\{x_j = x_i\}\right)

    over the :math:`m` values :math:`x_j` of the :math:`n` rows before, :math:`j = i - n, \dots, i - 1`.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp), any order
        Any frame with ``timestamp`` and the value.
    value : str
        The column to compare.
    window : int, >= 1
        n, how many rows of the series before this one, as for `z_score`.
    least : int, optional
        How many of these rows must have a value; by default all n.
    by : str or iterable of str, optional
        The columns that tell one series from another; by default as for `z_score`.

    Returns
    -------
    frame, n rows, same key, order and kind as ``frame`` where it has an order
        Adds ``percentile`` : float64, 0 to 100, null if there are too few values before, or if the row has no value
        [%]; and ``percentile_since`` : time of the oldest row of the window, null if no row came before.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or the frame has a column ``percentile``.

    Notes
    -----
    The window ends before the row and counts rows, as for `z_score`. For implied volatility this is the "IV
    percentile"; the "IV rank" is a different measure, see `rank`.

    For a frame in memory, the time does not depend on the window. The plan of a lazy frame, DuckDB or Spark has one
    column per row of the window: collect the frame before you use a window of many hundreds of rows.

    References
    ----------
    .. [1] Hyndman, R. J. and Fan, Y., "Sample quantiles in statistical packages", The American Statistician 50
       (1996): the empirical distribution, read at its steps' middle.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> frame = pl.DataFrame({"timestamp": [start, start + 1, start + 2, start + 3], "skew": [4.0, 1.0, 2.0, 2.0]})
    >>> percentile(frame, value="skew", window=2)["percentile"].to_list()
    [None, None, 50.0, 75.0]
    """
    table, rows, keys, window, least = _opened(
        frame, "percentile", value=value, window=window, least=least, by=by
    )
    if table.is_eager:
        ranked = _ranked(rows.collect(), keys, window=window, least=least)
        return _closed(table, ranked, "percentile", of=value)
    below, count, x = nw.col("__below"), nw.col("__count"), nw.col("__value")
    rows = rows.with_columns(__below=nw.lit(0.0), __count=nw.lit(0.0))
    for start in range(1, window + 1, _AT_ONCE):
        steps = range(start, min(start + _AT_ONCE, window + 1))
        shifted = {f"__value_{step}": x.shift(step).over(*keys, order_by="__time") for step in steps}
        others = [nw.col(name) for name in shifted]
        # A tie counts half.
        points_below = [
            nw.when(other < x).then(1.0).when(other == x).then(0.5).otherwise(0.0) for other in others
        ]
        has_value = [nw.when(other.is_null()).then(0.0).otherwise(1.0) for other in others]
        rows = (
            rows.with_columns(**shifted)
            .with_columns(__below=reduce(add, points_below, below), __count=reduce(add, has_value, count))
            .drop(*shifted)
        )
    share = nw.when(count >= least, ~x.is_null()).then(below / count * 100.0)
    return _closed(table, rows.with_columns(percentile=share), "percentile", of=value)


def rank(
    frame: IntoFrameT,
    /,
    *,
    value: str,
    window: int,
    least: int | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Position of a value between the lowest and the highest value before it; for volatilities the "IV rank".

    .. math:: r_i = 100 \, \frac{x_i - \min_j x_j}{\max_j x_j - \min_j x_j}

    over the values :math:`x_j` of the :math:`n` rows before, :math:`j = i - n, \dots, i - 1`.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp), any order
        Any frame with ``timestamp`` and the value.
    value : str
        The column to compare.
    window : int, >= 2
        n, how many rows of the series before this one, as for `z_score`.
    least : int, optional
        How many of these rows must have a value; by default all n.
    by : str or iterable of str, optional
        The columns that tell one series from another; by default as for `z_score`.

    Returns
    -------
    frame, n rows, same key, order and kind as ``frame`` where it has an order
        Adds ``rank`` : float64, below 0 for a value below all of them and above 100 for a value above, null if there
        are too few values before, if they are all equal, or if the row has no value [%]; and ``rank_since`` : time of
        the oldest row of the window, null if no row came before.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or the frame has a column ``rank``.

    See Also
    --------
    percentile : The share of the values that are below, which one extreme value does not move.

    Notes
    -----
    The window ends before the row and counts rows, as for `z_score`. A desk that counts the row itself among the n has
    0 and 100 for values beyond the others.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> frame = pl.DataFrame({
    ...     "timestamp": [start, start + 1, start + 2, start + 3], "implied_volatility": [50.0, 60.0, 55.0, 65.0]
    ... })
    >>> rank(frame, value="implied_volatility", window=2)["rank"].to_list()
    [None, None, 50.0, 200.0]
    """
    table, rows, keys, window, least = _opened(frame, "rank", value=value, window=window, least=least, by=by)
    low, high, x = nw.col("__low"), nw.col("__high"), nw.col("__value")
    before = x.shift(1).over(*keys, order_by="__time")
    rows = rows.with_columns(__low=before, __high=before).with_columns(
        __sum=low.rolling_sum(window, min_samples=least).over(*keys, order_by="__time")
    )
    # The extremes of two windows that overlap are those of both together, so each step doubles the window.
    size = 1
    while size < window:
        step = min(size, window - size)
        lower, higher = (bound.shift(step).over(*keys, order_by="__time") for bound in (low, high))
        rows = rows.with_columns(__low=nw.min_horizontal(low, lower), __high=nw.max_horizontal(high, higher))
        size += step
    position = nw.when(~nw.col("__sum").is_null(), high > low).then((x - low) / (high - low) * 100.0)
    return _closed(table, rows.with_columns(rank=position), "rank", of=value)


def _closed(table: OpenTable[IntoFrameT], rows: Any, result: str, *, of: str) -> IntoFrameT:
    """Return the rows with their result, and with the time at which the window of each row begins."""
    since = f"{result}_since"
    return table.closed(
        rows.select(*table.names, result, since),
        like_rows=True,
        times={since: "timestamp"},
        main=[of, result],
    )


def _opened(
    frame: IntoFrameT,
    result: str,
    *,
    value: str,
    window: int,
    least: int | None,
    by: str | Iterable[str] | None,
) -> tuple[OpenTable[IntoFrameT], nw.LazyFrame[Any], list[str], int, int]:
    """Check the arguments; return the table, its rows to compare, the series columns, window and least."""
    smallest = 1 if result == "percentile" else 2
    window = integer("window", window, least=smallest)
    least = window if least is None else integer("least", least, least=smallest)
    if least > window:
        raise QueryError("least", got=least, expected=f"at most the window, {window}")
    table = OpenTable.of(frame, ["timestamp"], numbers=[value])
    since = f"{result}_since"
    if name := next((name for name in (result, since) if name in table.names), None):
        raise QueryError("frame", got=f"a column {name!r}", expected="a frame without it")
    not_series = ("timestamp", value)
    series_columns = (
        row_columns(table, without=not_series) if by is None else table.series_columns(by, without=not_series)
    )
    rows = table.rows.with_columns(__one=nw.lit(1), __time=nw.col("timestamp"), __value=finite(value))
    keys = ["__one", *series_columns]
    rows = single(rows, [*series_columns, "timestamp"], ["__value"])
    time, first = nw.col("__time"), nw.col("__time").min().over(*keys)
    oldest = nw.coalesce(time.shift(window).over(*keys, order_by="__time"), first)
    return table, rows.with_columns(nw.when(time > first).then(oldest).alias(since)), keys, window, least


def _ranked(rows: nw.DataFrame[Any], keys: list[str], *, window: int, least: int) -> nw.DataFrame[Any]:
    """Add ``percentile`` to rows in memory with ``__time`` and ``__value``, computed from integer ranks.

    `below` counts smaller ranks bit by bit, so a longer window takes no more time.
    """
    ordered = rows.with_row_index("__row").sort(*keys, "__time")
    value = ordered["__value"].to_numpy()
    position = np.arange(len(value))
    series_start = np.maximum.accumulate(np.where(starts_run(ordered, keys), position, 0))
    has_value = ~np.isnan(value)
    values_before = np.append(0, np.cumsum(has_value))
    start, end = values_before[np.maximum(series_start, position - window)], values_before[position]
    has_enough = has_value & (end - start >= least)
    start, end = start[has_enough], end[has_enough]

    _, ranks = np.unique(value[has_value], return_inverse=True)
    row_ranks = ranks[has_enough[has_value]]
    lower, upper = below(ranks, start, end, row_ranks), below(ranks, start, end, row_ranks + 1)
    share = np.full(len(value), np.nan)
    share[ordered["__row"].to_numpy()[has_enough]] = (lower + 0.5 * (upper - lower)) / (end - start) * 100.0
    return rows.with_columns(number_column("percentile", share))


def below(ranks: Ints, start: Ints, end: Ints, limit: Ints) -> Ints:
    """Return how many of ``ranks[start:end]`` are less than ``limit``, for each start, end and limit.

    Examples
    --------
    >>> below(np.array([3, 0, 2, 0]), np.array([0, 1]), np.array([4, 3]), np.array([3, 1])).tolist()
    [3, 1]
    """
    counts = np.zeros(len(limit), np.int64)
    highest = max(ranks.max(initial=0), limit.max(initial=0))
    for bit in reversed(range(int(highest).bit_length())):
        is_low = ranks >> bit & 1 == 0
        lows = np.append(0, np.cumsum(is_low))
        low_start, low_end = lows[start], lows[end]
        # Among ranks that equal the limit in the higher bits, those without this bit are less if the limit has it.
        has_bit = limit >> bit & 1 == 1
        counts += np.where(has_bit, low_end - low_start, 0)
        start = np.where(has_bit, lows[-1] + start - low_start, low_start)
        end = np.where(has_bit, lows[-1] + end - low_end, low_end)
        ranks = np.concatenate([ranks[is_low], ranks[~is_low]])
    return counts
