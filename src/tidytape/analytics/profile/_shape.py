"""The shape of a profile, in a letter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._counts import counted_levels
from tidytape.analytics.profile._grid import DIGITS, step_of
from tidytape.analytics.profile._growth import counted_rows
from tidytape.analytics.profile._opening import opened
from tidytape.errors import QueryError

SHAPE_FEATURES: Final = ("poc_position", "mean_position", "valley_depth", "second_share")
SHAPE_THRESHOLDS: Final = {"low_poc": 1 / 3, "high_poc": 2 / 3, "max_valley": 0.5, "min_second": 0.25}


def shape(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    low_poc: float = 1 / 3,
    high_poc: float = 2 / 3,
    max_valley: float = 0.5,
    min_second: float = 0.25,
    price: str = "price",
    count: str = "volume",
    row_size: float | Decimal | None = None,
) -> IntoFrameT:
    r"""Shape of a profile: P, b, D or B, with the features that say so. A heuristic.

    - ``B``, two distributions: beyond a valley of at most ``max_valley`` of the peak behind it lies at least
      ``min_second`` of the count.
    - ``P``: else, the point of control is in the upper part of the range, from ``high_poc`` on.
    - ``b``: it is in the lower part, up to ``low_poc``.
    - ``D``: it is in between.

    Cut between two neighbouring rows, what lies outward of the cut, seen from the point of control, has a share
    :math:`m` of the count and a peak :math:`n_p`; the row inward of the cut counts :math:`n_v`. Of the cuts with
    :math:`m \ge` ``min_second``, the valley depth is the least :math:`n_v / n_p`.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), any order
        A profile. Rows of the same price are added, so buy and sell rows may stand apart.
    by : str or iterable of str, optional
        The columns that tell one profile from another; by default the identity columns there are, ``timestamp``
        and ``period_end``. Null is a value.
    low_poc, high_poc : float, 0 < low_poc <= high_poc <= 1
        Where the lower part of the range ends and the upper begins. [1]
    max_valley : float, 0 < max_valley <= 1
        How deep a valley must be. Noise makes valleys: the finer the rows, the smaller it should be. [1]
    min_second : float, 0 < min_second <= 1
        The share of the count that makes a second distribution. [1]
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``. On rows coarser than the levels ``tpo_count`` is
        that of the blocks listed in ``block_ids``; without a list it is unknown, since blocks do not add up. [count]
    row_size : float or Decimal, > 0, optional
        The step of the prices. With it a price without a row, between the lowest and the highest, is a row of
        count zero. Without it rows are neighbours as given. [price]

    Returns
    -------
    frame, one row per ``by``, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``shape`` : str; null where the profile has no point of control or is of one row.
        - ``poc_position``, ``mean_position`` : float64, where the point of control and the mean price of the count
          lie, from 0 at the lowest row to 1 at the highest. [1]
        - ``valley_depth`` : float64, of the deepest valley with enough behind it: 0 for rows without a count, 1 or more
          where the counts only fall; null where no cut has enough behind it. [1]
        - ``second_share`` : float64, the share of the count behind it. [1]
        - ``low_poc``, ``high_poc``, ``max_valley``, ``min_second`` : the arguments.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric, or ``levels`` is not a frame.

    Notes
    -----
    A profile with a price or count that is null, not finite, or a count below zero has no shape.

    References
    ----------
    .. [1] J. F. Dalton, R. B. Dalton and E. T. Jones, "Markets in Profile", 2007, chapter 7.

    Examples
    --------
    >>> import polars as pl
    >>> counts = {"bell": [1, 3, 5, 3, 1], "late": [1, 1, 2, 6, 4], "two": [5, 4, 1, 4, 6]}
    >>> rows = [(day, price, n) for day, of_day in counts.items() for price, n in enumerate(of_day)]
    >>> levels = pl.DataFrame(rows, schema=["day", "price", "volume"], orient="row")
    >>> shape(levels, by="day").select("day", "shape", "poc_position", "valley_depth").rows()
    [('bell', 'D', 0.5, 1.6666666666666667), ('late', 'P', 0.75, 1.5), ('two', 'B', 1.0, 0.2)]
    """
    limits = {"low_poc": low_poc, "high_poc": high_poc, "max_valley": max_valley, "min_second": min_second}
    thresholds = checked(limits)
    results = ("shape", *SHAPE_FEATURES, *SHAPE_THRESHOLDS)
    step = step_of(row_size)
    profiles = opened(levels, by, results=results, numbers={"price": price, "count": count}, step=step)
    given = counted_levels(profiles, {"count": count}, price, step)
    rows = counted_rows(given, profiles.keys, tie="center", step=step)
    found = features(rows, profiles.keys, min_second=thresholds["min_second"])
    values = {name: nw.lit(value) for name, value in thresholds.items()}
    result = found.with_columns(shape=letter(thresholds), **values)
    return profiles.closed(result.select(*profiles.keys, *results))


def checked(thresholds: Mapping[str, float]) -> dict[str, float]:
    """Return the thresholds of a shape, each a number above 0 and at most 1."""
    thresholds = {name: arguments.share(name, value) for name, value in thresholds.items()}
    if thresholds["low_poc"] > thresholds["high_poc"]:
        raise QueryError(
            "low_poc", got=thresholds["low_poc"], expected=f"at most high_poc, {thresholds['high_poc']:g}"
        )
    return thresholds


def features(rows: nw.LazyFrame[Any], keys: list[str], *, min_second: float) -> nw.LazyFrame[Any]:
    """Return one row per profile of `counted_rows`: its keys and `SHAPE_FEATURES`, all float64."""
    place, weight, outward = nw.col("place"), nw.col("weight"), [*keys, "side"]
    distance = nw.col("from_poc")
    rows = rows.with_columns(
        side=(distance > 0).cast(nw.Float64) - (distance < 0).cast(nw.Float64),
        away=distance.abs(),
        inward=-distance.abs(),
        all=weight.sum().over(keys),
        moment=place * weight,
    )
    # Seen from the point of control: what lies from here outward, and the row on the near side.
    rows = rows.with_columns(
        beyond=weight.cum_sum().over(outward, order_by="inward"),
        peak=weight.cum_max().over(outward, order_by="inward"),
        nearer=weight.shift(1).over(outward, order_by="away"),
        place_nearer=nw.col("away").shift(1).over(outward, order_by="away"),
    )
    is_first = nw.col("place_nearer").is_null()
    gap = nw.col("away") - nw.when(is_first).then(nw.lit(0.0)).otherwise(nw.col("place_nearer"))
    nearer = nw.when(is_first).then(nw.col("largest")).otherwise(nw.col("nearer"))
    valley = nw.when(gap > 1).then(nw.lit(0.0)).otherwise(nearer)
    enough = nw.col("beyond") >= (min_second - 10.0**-DIGITS) * nw.col("all")
    rows = rows.with_columns(
        depth=nw.when(nw.col("side") != 0, nw.col("peak") > 0, enough).then(valley / nw.col("peak"))
    )
    rows = rows.with_columns(valley_depth=nw.col("depth").min().over(keys))
    deepest = nw.col("depth") == nw.col("valley_depth")
    rows = rows.with_columns(
        second=nw.when(deepest).then(nw.col("beyond")), at=nw.when(distance == 0).then(place)
    )
    sums = rows.group_by(*keys).agg(
        nw.col("at", "lowest", "highest", "valley_depth", "second", "total", "all").max(),
        nw.col("moment").sum(),
    )
    width = nw.col("highest") - nw.col("lowest")
    known = ~nw.col("total").is_null()
    wide = nw.col("highest") > nw.col("lowest")
    mean = nw.col("moment") / nw.col("all")
    return sums.select(
        *keys,
        poc_position=nw.when(known, wide).then((nw.col("at") - nw.col("lowest")) / width),
        mean_position=nw.when(known, wide).then((mean - nw.col("lowest")) / width),
        valley_depth=nw.when(known).then(nw.col("valley_depth")),
        second_share=nw.when(known).then(nw.col("second") / nw.col("all")),
    )


def letter(thresholds: Mapping[str, float]) -> nw.Expr:
    """Return the shape that `features` say."""
    position = nw.col("poc_position")
    return (
        nw.when(position.is_null())
        .then(nw.lit(None, nw.String))
        .when(is_double(thresholds))
        .then(nw.lit("B"))
        .when(position >= thresholds["high_poc"] - 10.0**-DIGITS)
        .then(nw.lit("P"))
        .when(position <= thresholds["low_poc"] + 10.0**-DIGITS)
        .then(nw.lit("b"))
        .otherwise(nw.lit("D"))
    )


def is_double(thresholds: Mapping[str, float], depth: str = "valley_depth") -> nw.Expr:
    """Return whether there are two distributions; false where there is no cut."""
    return (nw.col(depth) <= thresholds["max_valley"] + 10.0**-DIGITS).fill_null(value=False)
