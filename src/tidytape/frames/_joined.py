"""Combine the points of one key into one: sums, extremes, first and last, weighted means; and join last known values.

Weights are amounts, and are summed as `exact` sums amounts. The products of weights and values have an unknown number
of decimals, so they are split differently: into an integer, a multiple of 2**-40, and the remainder. That takes half
the time, and suffices because a mean has few rows, one per market of a coin. Up to 2**14 products of 1e-8 or more add
up exactly if their sum is below 9e15. Any other sum of products is right to 1e-15 of the sum of magnitudes, but its
last bit may depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, cast

import narwhals.stable.v2 as nw

from tidytape import catalogue
from tidytape.frames import _exact as exact
from tidytape.frames._dialects import Frame, in_sql
from tidytape.frames._door import OHLC
from tidytape.frames._rows import with_all

_Frame = TypeVar("_Frame", bound=Frame)

COVERAGE: Final = catalogue.COVERAGE.column
"""Share of the rows of a sum whose amounts are known. [1]"""

LATEST: Final = 2**63 - 1
"""A time later than that of any point. [ns]"""

EARLIEST: Final = -(2**63)
"""A time earlier than that of any point. [ns]"""

TRADED: Final = ("first_timestamp", "last_timestamp")
"""Times of the first and the last trade of a candle, which candles of other sources lack."""

IDLE: Final = "__idle"
"""1 where a candle only fills a gap, else 0."""


def with_times(candles: nw.LazyFrame[Any], columns: Iterable[str] = TRADED) -> nw.LazyFrame[Any]:
    """Add the times of the first and last trade that are among ``columns`` and the candles lack, as null."""
    absent = {*columns}.intersection(TRADED).difference(candles.collect_schema().names())
    return with_all(candles, (nw.lit(None, nw.Int64).alias(name) for name in sorted(absent)))


def with_fills(frame: Any, by: Sequence[str], *, cut: bool) -> Any:
    """Add `IDLE`: 1 where a candle only fills a gap.

    Such a candle has no volume and no first trade, and its four prices are the close before it. Any other candle
    counts, also one without volume whose price moved.

    Parameters
    ----------
    frame : frame, n rows
        Candles.
    by : sequence of str
        The columns that name the series of one market.
    cut : bool
        Whether a candle without a close before it fills a gap if its four prices are equal: the rows before it may have
        been cut off.
    """
    close = nw.col("close")
    close_before = close.shift(1).over(*by, order_by="timestamp")
    is_flat = nw.all_horizontal(*(nw.col(name) == close for name in OHLC[:3]), ignore_nulls=False)
    has_no_move = nw.when(close_before.is_null()).then(nw.lit(value=cut)).otherwise(close == close_before)
    is_fill = nw.col("first_timestamp").is_null() & (nw.col("volume") == 0) & is_flat & has_no_move
    return frame.with_columns(nw.when(is_fill).then(nw.lit(1)).otherwise(nw.lit(0)).alias(IDLE))


def traded(frame: Any, keys: Sequence[str]) -> Any:
    """Drop candles that only fill a gap, see `with_fills`, if another candle of the same keys counts."""
    return frame.filter(nw.col(IDLE) == nw.col(IDLE).min().over(*keys))


def with_coverage(frame: Any, columns: Collection[str], *, point: Sequence[str] = ()) -> Any:
    """Return points with `COVERAGE`: 1 where their amounts are known, else 0.

    Parameters
    ----------
    frame : frame, n rows
        Points.
    columns : collection of str
        The columns of values. A row is known if all its summed columns are finite; if no column is summed, if its first
        close is finite.
    point : sequence of str
        If points have levels, the key of the combined point: each of its levels then gets the share of known rows
        among all rows of that point.
    """
    amounts = [name for name in columns if _rule(name) == "sum"]
    amounts = amounts or [name for name in columns if _rule(name) == "close"][:1]
    is_known = nw.all_horizontal(*(nw.col(name).is_finite() for name in amounts), ignore_nulls=False)
    frame = frame.with_columns(nw.when(is_known).then(1.0).otherwise(0.0).alias(COVERAGE))
    return frame.with_columns(nw.col(COVERAGE).mean().over(*point)) if point else frame


def reduced(frame: Frame, keys: Sequence[str], columns: Iterable[str], *, first: str, last: str) -> Frame:
    """Return one row per keys; the name of each column decides how its values are combined, see `_rule`.

    An open is the first value that is not null in the order of column ``first``, a close the last in the order of
    ``last``. Both hold integers, which differ between the rows of one key. A column that is null in every row stays
    null. A sum is null if one of its amounts is.
    """
    rules = {name: _rule(name) for name in columns}
    ends = {
        name: (nw.col(first), LATEST) if rule == "open" else (nw.col(last), EARLIEST)
        for name, rule in rules.items()
        if rule in {"open", "close"}
    }
    # The aggregations `first` and `last` are not used, because Spark has no row order within a group. A null gets the
    # place beyond all others, so that it is never the first or last value.
    places = [
        nw.when(nw.col(name).is_null()).then(nw.lit(beyond)).otherwise(place).alias(f"__place_{name}")
        for name, (place, beyond) in ends.items()
    ]
    bounds = [
        (place.min() if rules[name] == "open" else place.max()).over(*keys).alias(f"__bound_{name}")
        for name in ends
        for place in [nw.col(f"__place_{name}")]
    ]
    end_values = [
        nw.when(place == nw.col(f"__bound_{name}")).then(nw.col(name)).alias(name)
        for name, (place, _) in ends.items()
    ]
    if ends:
        frame = frame.with_columns(*places).with_columns(*bounds).with_columns(*end_values)
    return _joined(frame, keys, rules)


def summed(frame: Frame, keys: Sequence[str], columns: Iterable[str]) -> Frame:
    """Return one row per keys, with the sums of the columns, null where one of the amounts is unknown."""
    return _joined(frame, keys, {name: "share" if name == COVERAGE else "sum" for name in columns})


def _rule(column: str) -> str:
    """Return how a column of this name is combined: open, high, low, close, sum or share."""
    if column == COVERAGE:
        return "share"
    word = {"first_timestamp": "low", "last_timestamp": "high"}.get(column, column.rpartition("_")[2])
    return word if word in {"open", "high", "low", "close"} else "sum"


def _joined(frame: Frame, keys: Sequence[str], rules: dict[str, str]) -> Frame:
    """Return one row per keys; an open or close must be null in all rows of the keys but the one that has it."""
    has_sides = {"buy_volume", "sell_volume"} <= set(rules) and "volume" not in keys
    has_total = has_sides and "volume" in frame.collect_schema().names()
    totals = ["volume"] if has_total else []
    sums = [*(name for name, rule in rules.items() if rule == "sum"), *totals]
    lows = [name for name, rule in rules.items() if rule == "low"]
    # At most one row has an open or close, and a maximum ignores nulls, so it returns that value.
    highs = [name for name, rule in rules.items() if rule in {"open", "high", "close"}]
    if sums:
        frame = exact.in_parts(frame, *sums)
    parts = [
        *(nw.col(name).max() for name in highs),
        *(nw.col(name).min() for name in lows),
        *(nw.col(name).mean() for name, rule in rules.items() if rule == "share"),
        *([exact.summed(*sums)] if sums else []),
    ]
    results = {name: exact.total(name) for name in sums}
    points = (
        frame.group_by(*keys)
        .agg(*parts)
        .select(*keys, *(results.get(name, nw.col(name)) for name in (*rules, *totals)))
    )
    if has_sides:  # the total counts the trades without a side too
        volume = nw.col("buy_volume") + nw.col("sell_volume")
        points = points.with_columns(nw.coalesce(volume, *totals).alias("volume"))
    return points


_EXPONENTS: Final = {"whole": 0, "fraction": -40}
_PARTS: Final = (*_EXPONENTS, "left")


def weighted(
    frame: Any,
    keys: Sequence[str],
    values: Sequence[str],
    *,
    weight: str,
    same_nulls: Mapping[str, str] | None = None,
) -> Any:
    r"""Return one row per keys, with the weighted mean of each column, :math:`\sum_i w_i x_i / \sum_i w_i`.

    The mean of a column leaves out rows in which the column is null. The column ``__used_<name>`` is the sum of the
    weights that the mean used, null if that is 0; ``__members`` is the number of all rows. No sum depends on the order
    of the rows.

    ``same_nulls`` maps a column to another one that is null in the same rows; both then share one sum of weights.
    """
    frame = exact.in_parts(_in_parts(frame, values, weight=weight), weight)
    shared = {name: (same_nulls or {}).get(name, name) for name in values}
    used = {name: f"__weights_{other}" for name, other in shared.items()}
    frame = frame.with_columns(
        part
        for name in dict.fromkeys(shared.values())
        for part in exact.where(~nw.col(name).is_null(), weight, used[name])
    )
    sums_of_weights = list(dict.fromkeys(used.values()))
    parts = [_name(name, part) for name in values for part in _PARTS]
    return (
        frame.group_by(*keys)
        .agg(nw.col(*parts).sum(), exact.summed(*sums_of_weights), nw.len().alias("__members"))
        .with_columns(*map(_total, values), *map(exact.total, sums_of_weights))
        .select(
            *keys,
            "__members",
            *(
                nw.when(nw.col(weights) > 0).then(nw.col(name) / nw.col(weights)).alias(name)
                for name, weights in used.items()
            ),
            *(
                nw.when(nw.col(weights) > 0).then(nw.col(weights)).alias(f"__used_{name}")
                for name, weights in used.items()
            ),
        )
    )


def _in_parts(frame: Any, values: Sequence[str], *, weight: str) -> Any:
    """Add the parts of the products of values and their weight."""
    remainder = {name: nw.col(_name(name, "left")) for name in values}
    frame = frame.with_columns((nw.col(weight) * nw.col(name)).alias(_name(name, "left")) for name in values)
    for part, exponent in _EXPONENTS.items():
        frame = frame.with_columns(
            exact.rounded(remainder[name], exponent).alias(_name(name, part)) for name in values
        ).with_columns(
            (remainder[name] - nw.col(_name(name, part))).alias(_name(name, "left")) for name in values
        )
    return frame


def _total(name: str) -> nw.Expr:
    """Add up the parts of a sum; the small parts first, to lose fewer digits."""
    integers, fractions, remainders = (nw.col(_name(name, part)) for part in _PARTS)
    # The other parts of an infinite product are NaN, which would hide that the sum is infinite.
    return (
        nw.when(integers.is_finite())
        .then(integers + (fractions + remainders))
        .otherwise(integers)
        .alias(name)
    )


def _name(column: str, part: str) -> str:
    return f"__weighted_{column}_{part}"


STANDING: Final = "__standing"
"""Column of the number of reports that a sum adds."""

UNKNOWN: Final = "__unknown"
"""Column of the number of those reports that have no amount, or one beyond `MOST`."""

MOST: Final = 1e24
"""Largest report that is added to sums: a larger one would round the others, and no stock is as large. [coin]"""

_FOREVER: Final = 2**62  # 146 years; added to a time it does not overflow int64


def joined(left: _Frame, right: _Frame, on: Sequence[str], how: Literal["inner", "left"] = "left") -> _Frame:
    """Join two frames on equal keys; on every engine, null equals null.

    Both have the columns ``on``; the other columns of ``right`` have names that ``left`` does not have.
    """
    left_schema, right_schema = left.collect_schema(), right.collect_schema()
    rows: Any
    if not in_sql(left) and all(left_schema[name] == right_schema[name] for name in on):
        rows = left.to_native().join(right.to_native(), on=list(on), how=how, nulls_equal=True)
        return cast("_Frame", nw.from_native(rows))
    # SQL engines, and keys of two types: compare the keys as text.
    others = [name for name in right_schema if name not in on]
    rows = left.with_columns(_text(name, left_schema[name]) for name in on)
    texts = right.select(*others, *(_text(name, right_schema[name]) for name in on))
    rows = rows.join(texts, on=[f"__of_{name}" for name in on], how=how)
    return cast("_Frame", rows.select(*left_schema, *others))


def matched(frame: Any, columns: Iterable[str]) -> tuple[Any, list[str]]:
    """Add each column as text that is never null, and one constant column; return the frame and these columns' names.

    Use it for keys of two frames that are concatenated and may differ in type; to join frames, use `joined`.
    """
    schema = frame.collect_schema()
    texts = [_text(name, schema[name]) for name in columns]
    return frame.with_columns(nw.lit("").alias("__of"), *texts), [
        "__of",
        *(f"__of_{name}" for name in columns),
    ]


def _text(name: str, dtype: Any) -> nw.Expr:
    """Return a column as text, named ``__of_<name>``; null becomes "", and every other value begins with "="."""
    value = nw.col(name)
    if dtype.is_float():
        value = nw.when(value == 0.0).then(nw.lit(0.0)).otherwise(value)  # -0.0 would become "-0.0"
    return nw.concat_str(nw.lit("="), value.cast(nw.String())).fill_null("").alias(f"__of_{name}")


def last_known(name: str, *, by: Sequence[str], order: Sequence[str]) -> nw.Expr:
    """Return the last value of a column that is not null, at or before each row of its series; null before the first.

    ``order`` names columns that put the rows of a series in an order without ties.
    """
    return nw.col(name).fill_null(strategy="forward").over(*by, order_by=list(order))


def as_of(
    frame: Any,
    reports: Any,
    column: str,
    *,
    by: Sequence[str],
    at: str = "timestamp",
    carry: int = _FOREVER,
) -> Any:
    """Add a report's last known value to each row: the newest value at or before the row's time.

    Parameters
    ----------
    frame : frame, n rows
        Has ``by`` and ``at``, but no column with the name ``column``.
    reports : frame, m rows, key (by, at), in any order
        Has ``column``, float64; rows in which it is null are ignored.
    column : str
        The column that is reported.
    by : sequence of str
        Columns of the series, equal in a report and in the rows that it applies to. Null equals null.
    at : str
        Column of the times of both, int64. [ns]
    carry : int
        The age up to which a report holds. [ns]

    Returns
    -------
    frame, n rows
        The column is null where no report holds.
    """
    key, null = [*by, at], nw.lit(None, nw.Int64())
    # `__asked` is 1 in a row that asks for the last report; at equal times it comes after the reports.
    rows = nw.concat(
        [
            reports.filter(~nw.col(column).is_null()).select(
                *key, column, __reported=nw.col(at), __asked=nw.lit(0)
            ),
            frame.select(*key)
            .unique()
            .select(*key, null.cast(nw.Float64()).alias(column), __reported=null, __asked=nw.lit(1)),
        ]
    )
    order = [at, "__asked"]
    rows = rows.with_columns(last_known(name, by=by, order=order) for name in (column, "__reported"))
    holds = nw.col(at) - nw.col("__reported") <= min(carry, _FOREVER)
    return joined(frame, rows.filter(nw.col("__asked") == 1, holds).select(*key, column), on=key)


def consolidated(
    frame: Frame, keys: Sequence[str], columns: Iterable[str], *, members: Sequence[str]
) -> Frame:
    """Return one candle per keys: summed volumes, extremes, the first member's open and the last member's close.

    If several members traded first at the same time, the first by name gives the open; likewise the last by name gives
    the close. Candles that only fill a gap count only where no member traded. If it is unknown when one of several
    members traded first (last), the open (close) is null, and so is the time of the first (last) trade.
    """
    columns, series_columns = list(columns), [name for name in keys if name != "timestamp"]
    frame = traded(with_fills(frame, [*series_columns, *members], cut=True), keys)
    ends = {"first_timestamp": ("open", LATEST), "last_timestamp": ("close", EARLIEST)}
    for time, (_, beyond) in ends.items():
        order = nw.col(time).cast(nw.Int64()).fill_null(beyond).alias("__order")
        frame = (
            frame.with_columns(order)
            .with_row_index(f"__place_{time}", order_by=["__order", *members])
            .with_columns(nw.col(f"__place_{time}").cast(nw.Int64()))
        )
    known_ends = []
    for time, (price, _) in ends.items():
        lacks_time = (nw.col(time).is_null() & (nw.col(IDLE) == 0)).cast(nw.Int64())
        is_known = (lacks_time.max().over(*keys) == 0) | (nw.len().over(*keys) == 1)
        known_ends += [
            nw.when(is_known).then(nw.col(name)).alias(name) for name in (price, time) if name in columns
        ]
    frame = frame.with_columns(known_ends)
    return reduced(frame, keys, columns, first="__place_first_timestamp", last="__place_last_timestamp")


def standing_sums(
    reports: Any,
    moments: Any,
    *,
    members: Sequence[str],
    series_columns: Sequence[str],
    columns: Sequence[str],
    carry: int,
    counts: Sequence[str] = (),
) -> Any:
    """Return, at given moments of each series, the sum over all members of their last known values.

    A report adds its value to the sum at its own time; the value is subtracted when the member's next report comes or
    the report expires. So there are two changes per report, instead of a row per member and moment. Values are split
    into parts as in `exact`, so that subtracting leaves no rounding error behind.

    Parameters
    ----------
    reports : frame, n rows, key (members, series, timestamp), in any order
        Reports of a stock, such as open interest. The last of ``columns`` is the close of the report's interval. It
        stays the last known value until the next report, and replaces the other columns where they are null or the
        member sends no report. If it is null, the stock is unknown until the next report.
    moments : frame, m rows
        ``series_columns`` and ``timestamp`` int64 [ns], each once or more often.
    members, series_columns : sequence of str
        Columns that name a member, and the series it is a member of.
    columns : sequence of str
        The columns that are reported, float64 and finite.
    carry : int
        The age up to which a report holds. [ns]
    counts : sequence of str
        Columns of small integers, as float64, that stay valid as long as the close and are summed, too.

    Returns
    -------
    frame, one row per series and moment
        ``series_columns``, ``timestamp``; the columns, null where no report holds, or where one that holds is unknown
        or beyond `MOST`, because its rounding would spoil later sums; `STANDING`, how many reports hold; `UNKNOWN`, how
        many of them are unknown or beyond `MOST`; and the counts.
    """
    close, others = columns[-1], columns[:-1]
    offsets = {name: f"beside_{name}" for name in others}
    key, more = [*series_columns, "timestamp"], [STANDING, UNKNOWN, *counts]
    reports = with_all(reports, (nw.coalesce(name, close).alias(name) for name in others))
    is_addable = nw.all_horizontal(*(nw.col(name).abs() <= MOST for name in columns), ignore_nulls=False)
    next_time = nw.col("timestamp").shift(-1).over(*members, *series_columns, order_by="timestamp")
    reports = reports.with_columns(
        nw.when(is_addable).then(0.0).otherwise(1.0).alias(UNKNOWN),
        nw.lit(1.0).alias(STANDING),
        *(nw.when(is_addable).then(nw.col(name)).otherwise(0.0).alias(name) for name in columns),
        __end=nw.min_horizontal(next_time, nw.col("timestamp") + (min(carry, _FOREVER) + 1)),
    )
    reports = with_all(
        exact.in_parts(reports, *columns),
        (part for name in others for part in exact.difference(name, close, offsets[name])),
    )
    # A close counts until the next report. Another column's offset from it counts only at the report's own time.
    standing, brief = [*exact.parts_of(close), *more], exact.parts_of(*offsets.values())
    changes = nw.concat(
        [
            reports.select(*key, *standing, *brief, __asked=nw.lit(0)),
            reports.select(
                *series_columns,
                nw.col("__end").alias("timestamp"),
                *((0.0 - nw.col(name)).alias(name) for name in standing),
                *(nw.lit(0.0).alias(name) for name in brief),
                __asked=nw.lit(0),
            ),
            moments.select(*key)
            .unique()
            .select(*key, *(nw.lit(0.0).alias(name) for name in (*standing, *brief)), __asked=nw.lit(1)),
        ]
    )
    sums = changes.group_by(*key).agg(nw.col(*standing, *brief, "__asked").sum())
    sums = sums.with_columns(nw.col(*standing).cum_sum().over(*series_columns, order_by="timestamp")).filter(
        nw.col("__asked") > 0
    )
    sums = with_all(sums, (part for name in others for part in exact.added(close, offsets[name], name)))
    holds = (nw.col(STANDING) > 0) & (nw.col(UNKNOWN) == 0)
    return sums.select(*key, *(nw.when(holds).then(exact.total(name)).alias(name) for name in columns), *more)
