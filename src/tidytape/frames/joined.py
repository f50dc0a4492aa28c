"""Points of one key joined to one: sums, extremes, first and last, means by weight; and values that hold.

Weights are amounts, and added as `exact` does. Of their products with what they weigh nobody knows the decimals, and a
mean has few rows, the markets of a coin: those are taken apart into three floats, which costs half as much. They are
whole numbers, multiples of 2**-40, and what is left. Up to 2**14 rows of products of 1e-8 to 1e11 and more add up
exactly, to sums below 9e15. Others add up to 1e-15 of the sum of magnitudes too, but for the last bit in any order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape import catalogue
from tidytape.frames import exact
from tidytape.frames.door import Frame
from tidytape.frames.ordered import with_neighbour

COVERAGE: Final = catalogue.COVERAGE.column
"""Share of the rows of a sum whose amounts are known. [1]"""

LATEST: Final = 2**63 - 1
"""A time no point is as late as. [ns]"""

EARLIEST: Final = -(2**63)
"""A time no point is as early as. [ns]"""

IDLE: Final = "__idle"
"""1 where a candle only fills a gap, else 0."""


def traded(frame: Any, keys: Sequence[str]) -> Any:
    """Return candles without those that only fill a gap, where another of the same keys does not; with `IDLE`."""
    fills = nw.col("first_timestamp").is_null() & (nw.col("volume") == 0)
    idle = nw.when(fills).then(nw.lit(1)).otherwise(nw.lit(0)).alias(IDLE)
    return frame.with_columns(idle).filter(nw.col(IDLE) == nw.col(IDLE).min().over(*keys))


def with_coverage(frame: Any, columns: Collection[str], *, point: Sequence[str] = ()) -> Any:
    """Return points with `COVERAGE`: 1 where their amounts are known, else 0.

    Parameters
    ----------
    frame : frame, n rows
        Points.
    columns : collection of str
        Their payload. A row is known where all columns that are summed are finite, or the first close if none is.
    point : sequence of str
        Columns that name what one point will be made of, if points have levels: the coverage is then the share of rows
        of that point that are known, on each of its levels.
    """
    amounts = [name for name in columns if _rule(name) == "sum"]
    amounts = amounts or [name for name in columns if _rule(name) == "close"][:1]
    known = nw.all_horizontal(*(nw.col(name).is_finite() for name in amounts), ignore_nulls=False)
    frame = frame.with_columns(nw.when(known).then(1.0).otherwise(0.0).alias(COVERAGE))
    if not point or (isinstance(frame, nw.DataFrame) and frame[COVERAGE].min() == 1.0):
        return frame
    return frame.with_columns(nw.col(COVERAGE).mean().over(*point))


def reduced(frame: Frame, keys: Sequence[str], columns: Iterable[str], *, first: str, last: str) -> Frame:
    """Return one row per keys, with the columns joined by the rule that their names say.

    Opens are the first that is not null by the whole numbers in column ``first``, closes the last by those in ``last``;
    no two rows of the same keys have the same. What is null in every row stays null, and a sum of which one amount is
    unknown is null.
    """
    rules = {name: _rule(name) for name in columns}
    ends = {
        name: (nw.col(first), LATEST) if rule == "open" else (nw.col(last), EARLIEST)
        for name, rule in rules.items()
        if rule in {"open", "close"}
    }
    # Not `first` and `last` in a group: Spark has no order there.
    places = [
        nw.when(nw.col(name).is_null()).then(nw.lit(never)).otherwise(place).alias(f"__place_{name}")
        for name, (place, never) in ends.items()
    ]
    bounds = [
        (place.min() if rules[name] == "open" else place.max()).over(*keys).alias(f"__bound_{name}")
        for name in ends
        for place in [nw.col(f"__place_{name}")]
    ]
    picked = [
        nw.when(place == nw.col(f"__bound_{name}")).then(nw.col(name)).alias(name)
        for name, (place, _) in ends.items()
    ]
    if ends:
        frame = frame.with_columns(*places).with_columns(*bounds).with_columns(*picked)
    return _joined(frame, keys, rules)


def summed(frame: Frame, keys: Sequence[str], columns: Iterable[str]) -> Frame:
    """Return one row per keys, with the sums of the columns, null where one of the amounts is unknown."""
    return _joined(frame, keys, {name: "share" if name == COVERAGE else "sum" for name in columns})


def _rule(column: str) -> str:
    """Return what a column's name says of how points join: open, high, low, close, sum or share."""
    if column == COVERAGE:
        return "share"
    word = {"first_timestamp": "low", "last_timestamp": "high"}.get(column, column.rpartition("_")[2])
    return word if word in {"open", "high", "low", "close"} else "sum"


def _joined(frame: Frame, keys: Sequence[str], rules: dict[str, str]) -> Frame:
    sums = [name for name, rule in rules.items() if rule == "sum"]
    lows = [name for name, rule in rules.items() if rule == "low"]
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
        frame.group_by(*keys).agg(*parts).select(*keys, *(results.get(name, nw.col(name)) for name in rules))
    )
    if {"buy_volume", "sell_volume"} <= set(rules) and "volume" not in keys:
        points = points.with_columns((nw.col("buy_volume") + nw.col("sell_volume")).alias("volume"))
    return points


def last_known(frame: Any, name: str, *, known: nw.Expr, by: Sequence[str], order: Sequence[str]) -> Any:
    """Return the frame with the last known value of a column that is not null, at or before each row, as ``__name``.

    ``by`` names the series, ``order`` puts its rows in an order without ties. Before the first it is null.
    """
    found = nw.when(known).then(nw.col(name)).alias(f"__{name}")
    last = nw.col(f"__{name}").fill_null(strategy="forward")
    return frame.with_columns(found).with_columns(last.over(*by, order_by=order))


_PLACES: Final = {"whole": 0, "fraction": -40}
_PARTS: Final = (*_PLACES, "left")


def weighted(frame: Any, keys: Sequence[str], values: Sequence[str], *, weight: str) -> Any:
    r"""Return one row per keys, with the mean of each column by weight, :math:`\sum_i w_i x_i / \sum_i w_i`.

    Rows in which a value is null are left out of its mean; ``__used_`` and its name is the sum of the other rows'
    weights, null where there is none; ``__members`` the number of all rows. The sums do not depend on their order.
    """
    frame = exact.in_parts(_in_parts(frame, values, weight=weight), weight)
    # Of values without nulls the weights are all used. A lazy frame does not know; there each has a sum of its own.
    used = {name: weight if _is_whole(frame, name) else f"__used_{name}" for name in values}
    for name, own in used.items():
        if own != weight:
            frame = frame.with_columns(exact.where(~nw.col(name).is_null(), weight, own))
    owns = list(dict.fromkeys(used.values()))
    parts = [_name(name, part) for name in values for part in _PARTS]
    sums = frame.group_by(*keys).agg(nw.col(*parts).sum(), exact.summed(*owns), nw.len().alias("__members"))
    sums = sums.with_columns(*(_total(name) for name in values), *(exact.total(own) for own in owns))
    has = {name: nw.col(own) > 0 for name, own in used.items()}
    return sums.select(
        *keys,
        "__members",
        *(nw.when(has[name]).then(nw.col(name) / nw.col(own)).alias(name) for name, own in used.items()),
        *(nw.when(has[name]).then(nw.col(own)).alias(f"__used_{name}") for name, own in used.items()),
    )


def _in_parts(frame: Any, values: Sequence[str], *, weight: str) -> Any:
    """Add the parts of the products of values and their weight."""
    left = {name: nw.col(_name(name, "left")) for name in values}
    frame = frame.with_columns((nw.col(weight) * nw.col(name)).alias(_name(name, "left")) for name in values)
    for part, place in _PLACES.items():
        frame = frame.with_columns(
            exact.rounded(left[name], place).alias(_name(name, part)) for name in values
        )
        frame = frame.with_columns(
            (left[name] - nw.col(_name(name, part))).alias(_name(name, "left")) for name in values
        )
    return frame


def _is_whole(frame: Any, name: str) -> bool:
    return isinstance(frame, nw.DataFrame) and frame[name].null_count() == 0


def _total(name: str) -> nw.Expr:
    whole, fraction, left = (nw.col(_name(name, part)) for part in _PARTS)
    exact_sum = whole + (fraction + left)
    return nw.when(whole.is_finite()).then(exact_sum).otherwise(whole).alias(name)


def _name(column: str, part: str) -> str:
    return f"__weighted_{column}_{part}"


STANDING: Final = "__standing"
"""How many reports a sum is of."""

UNKNOWN: Final = "__unknown"
"""How many of those reports say no amount, or one beyond `MOST`."""

MOST: Final = 1e24
"""What a report is at most to be added and taken off again without a trace; no stock is as large. [coin]"""

_ASKED = "__asked"
_EVER: Final = 2**62  # 146 years, as good as no limit; there is room to add it to a time


def as_texts(frame: Any, columns: Iterable[str]) -> dict[str, nw.Expr]:
    """Return columns of a frame as texts that are never null, and equal where their values are.

    With a sign before each, so that null and the empty text stay two; and of floats, zero has no sign of its own.
    """
    schema = frame.collect_schema()
    values = {name: nw.col(name) for name in columns}
    values |= {
        name: nw.when(value == 0.0).then(nw.lit(0.0)).otherwise(value)
        for name, value in values.items()
        if schema[name].is_float()
    }
    return {
        name: nw.concat_str(nw.lit("="), value.cast(nw.String())).fill_null("")
        for name, value in values.items()
    }


def matched(frame: Any, columns: Iterable[str]) -> tuple[Any, list[str]]:
    """Return the frame with a text beside each column, never null, and the names of those.

    Nulls do not meet in a join; these do. There is one of no column too, so that there is always one to join on.
    """
    texts = {f"__of_{name}": text for name, text in as_texts(frame, columns).items()}
    return frame.with_columns(nw.lit("").alias("__of"), **texts), ["__of", *texts]


def consolidated(
    frame: Frame, keys: Sequence[str], columns: Iterable[str], *, members: Sequence[str]
) -> Frame:
    """Return one candle per keys: volumes added, extremes, the open of who traded first, the close of who did last.

    Of members that traded at one time the first by name opens, the last closes. A candle that only fills a gap counts
    where no member traded. Where there are several members, and it is not known when one of them traded first (last),
    nobody knows the open (close), nor the time of the first (last) trade.
    """
    columns = list(columns)
    frame = traded(frame, keys).with_columns(
        nw.col("first_timestamp").cast(nw.Int64()).fill_null(LATEST).alias("__first"),
        nw.col("last_timestamp").cast(nw.Int64()).fill_null(EARLIEST).alias("__last"),
    )
    for place in ("__first", "__last"):
        frame = frame.with_row_index(f"{place}_place", order_by=[place, *members])
    frame = frame.with_columns(nw.col("__first_place", "__last_place").cast(nw.Int64()))
    for place, of_place in (("first_timestamp", "open"), ("last_timestamp", "close")):
        frame = _without_unknown(frame, keys, place, [one for one in (of_place, place) if one in columns])
    return reduced(frame, keys, columns, first="__first_place", last="__last_place")


def _without_unknown(frame: Frame, keys: Sequence[str], place: str, columns: Sequence[str]) -> Frame:
    """Return candles with null in columns where one of several members traded, and nobody knows at which time."""
    lacks = nw.col(place).is_null() & (nw.col(IDLE) == 0)
    rows = frame.with_columns(
        nw.lit(1).alias("__one"), nw.when(lacks).then(nw.lit(1)).otherwise(nw.lit(0)).alias("__lacks")
    ).with_columns(nw.col("__lacks").max().over(*keys), nw.col("__one").sum().over(*keys))
    is_known = (nw.col("__lacks") == 0) | (nw.col("__one") == 1)
    known = [nw.when(is_known).then(nw.col(name)).alias(f"__known_{name}") for name in columns]
    rows = rows.with_columns(*known).drop(*columns, "__one", "__lacks")
    return rows.rename({f"__known_{name}": name for name in columns})


def standing(
    reports: Any, asked: Any, *, members: Sequence[str], series: Sequence[str], column: str, carry: int
) -> Any:
    """Return what members last reported, at times at which each is asked.

    Parameters
    ----------
    reports : frame, n rows, key (members, series, timestamp), in any order
        Reports of a stock: each holds until the next one. Without a value there is no report.
    asked : frame, m rows
        ``members``, ``series`` and ``timestamp`` int64 [ns], each once or more often.
    members, series : sequence of str
        Columns that name a member, and the series it is a member of; texts.
    column : str
        What is reported, float64.
    carry : int
        The age up to which a report holds. [ns]

    Returns
    -------
    frame, one row per member, series and time at which one is asked and something holds
        The texts that `matched` puts beside ``members`` and ``series``, ``timestamp`` and the column.
    """
    is_report = nw.col(_ASKED) == 0
    whose = [*members, *series]
    reports, texts = matched(reports.filter(~nw.col(column).is_null()), whose)
    asked = matched(asked, whose)[0].unique(subset=[*texts, "timestamp"], keep="any")
    kept = [*texts, "timestamp", column, _ASKED]
    rows = nw.concat(
        [
            reports.with_columns(nw.lit(0).alias(_ASKED)).select(*kept),
            asked.with_columns(nw.lit(0.0).alias(column), nw.lit(1).alias(_ASKED)).select(*kept),
        ]
    ).with_columns(nw.col("timestamp").alias("__moment"))
    order = ["__moment", _ASKED]
    rows = rows.with_columns(
        nw.when(is_report).then(nw.col("timestamp")).otherwise(nw.lit(EARLIEST)).alias("__reported")
    )
    rows = last_known(rows, column, known=is_report, by=texts, order=order)
    rows = rows.with_columns(nw.col("__reported").cum_max().over(*texts, order_by=order))
    holds = nw.col("timestamp") <= nw.col("__reported") + min(carry, _EVER)
    return rows.filter(~is_report, holds).select(*texts, "timestamp", nw.col(f"__{column}").alias(column))


def standing_sums(
    reports: Any,
    moments: Any,
    *,
    members: Sequence[str],
    series: Sequence[str],
    columns: Sequence[str],
    carry: int,
    counts: Sequence[str] = (),
) -> Any:
    """Return the sums over all members of what they last reported, at the moments of their series.

    A report adds to the sum when it is made, and is taken off when the next is, or it lapses: so there are three rows
    for each report at most, and none for each member at each moment. The sums are of parts, as `exact` has them, which
    leave nothing behind.

    Parameters
    ----------
    reports : frame, n rows, key (members, series, timestamp), in any order
        Reports of a stock. The last of the columns is what stands when its interval ends, its close: it holds until the
        next report, and counts for the others where they are null or not reported. Where it is null, the stock is
        unknown until the next report.
    moments : frame, m rows
        ``series`` and ``timestamp`` int64 [ns], each once or more often.
    members, series : sequence of str
        Columns that name a member, and the series it is a member of.
    columns : sequence of str
        What is reported, float64 and finite.
    carry : int
        The age up to which a report holds. [ns]
    counts : sequence of str
        Columns of small whole numbers, float64, that hold as the close does and are summed too.

    Returns
    -------
    frame, one row per series and moment
        ``series``, ``timestamp``; the columns, null where nothing holds, or where a report holds that is unknown or
        beyond `MOST`, which would drown what comes after it; `STANDING`, how many reports hold; `UNKNOWN`, how many of
        them are unknown; and the counts.
    """
    close, others = columns[-1], list(columns[:-1])
    whose = [*members, *series]
    reports, texts = matched(reports, whose)
    of_series = [text for text in texts if text not in {f"__of_{name}" for name in members}]
    reports = reports.with_columns(nw.coalesce(name, close).alias(name) for name in others)
    is_sane = nw.all_horizontal(*(nw.col(name).abs() <= MOST for name in columns), ignore_nulls=False)
    reports = reports.with_columns(
        nw.when(is_sane).then(0.0).otherwise(1.0).alias(UNKNOWN),
        nw.lit(1.0).alias(STANDING),
        nw.col("timestamp").alias("__order"),
    ).with_columns(
        nw.when(nw.col(UNKNOWN) == 0).then(nw.col(name)).otherwise(0.0).alias(name) for name in columns
    )
    reports = with_neighbour(reports, "timestamp", name="__next", over=texts, order=["__order"], back=-1)
    lapses = nw.col("timestamp") + (min(carry, _EVER) + 1)
    is_followed = (nw.col("__next") > nw.col("timestamp")) & (nw.col("__next") < lapses)
    reports = exact.in_parts(
        reports.with_columns(__end=nw.when(is_followed).then(nw.col("__next")).otherwise(lapses)), *columns
    )
    held = [*exact.parts_of(close), STANDING, UNKNOWN, *counts]
    beside = [name for other in others for name in exact.parts_of(_beside(other))]
    reports = reports.with_columns(
        part for other in others for part in exact.difference(other, close, _beside(other))
    )
    key = [*of_series, "timestamp"]
    zeros = {name: nw.lit(0.0).alias(name) for name in (*held, *beside, _ASKED)}
    moments = matched(moments.select(*series, "timestamp"), series)[0].unique(subset=key, keep="any")
    changes = nw.concat(
        [
            reports.select(*key, *held, *beside, zeros[_ASKED]),
            reports.select(
                *of_series,
                nw.col("__end").alias("timestamp"),
                *((0.0 - nw.col(name)).alias(name) for name in held),
                *(zeros[name] for name in beside),
                zeros[_ASKED],
            ),
            moments.select(*key, *(zeros[name] for name in (*held, *beside)), nw.lit(1.0).alias(_ASKED)),
        ]
    )
    sums = changes.group_by(*key).agg(nw.col(*held, *beside, _ASKED).sum())
    sums = sums.with_columns(nw.col("timestamp").alias("__order"))
    sums = sums.with_columns(nw.col(*held).cum_sum().over(*of_series, order_by="__order"))
    sums = sums.filter(nw.col(_ASKED) > 0)
    sums = sums.with_columns(
        part for other in others for part in exact.together(close, _beside(other), other)
    )
    holds = (nw.col(STANDING) > 0) & (nw.col(UNKNOWN) == 0)
    more = [STANDING, UNKNOWN, *counts]
    sums = sums.select(*key, *(nw.when(holds).then(exact.total(name)).alias(name) for name in columns), *more)
    return moments.join(sums, on=key).select(*series, "timestamp", *columns, *more)


def _beside(name: str) -> str:
    """Return what the difference of a column of reports and their close is called."""
    return f"beside_{name}"
