"""The shape of a profile as a letter, and its high and low volume nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._levels import (
    NOISE,
    counted_in_rows,
    counted_rows,
    require_rows,
    row_price,
    with_prices,
)
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
    rows: int | None = None,
) -> IntoFrameT:
    r"""Shape of a profile: P, b, D or B, with the features that decide it. A heuristic.

    - ``B``, two distributions: a valley counts at most ``max_valley`` of the peak beyond it, and at least
      ``min_second`` of the count lies beyond it.
    - ``P``: otherwise, the point of control is in the upper part of the range, from ``high_poc`` on.
    - ``b``: the point of control is in the lower part, up to ``low_poc``.
    - ``D``: the point of control is in between.

    Cut a profile between two neighbouring rows. The part beyond the cut, seen from the point of control, has a share
    :math:`m` of the count, and its largest row counts :math:`n_p`; the row before the cut counts :math:`n_v`. The
    valley depth is the least :math:`n_v / n_p` over all cuts with :math:`m \ge` ``min_second``.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), any order
        A profile. Rows of the same price are added up, so buys and sells may be in rows of their own.
    by : str or iterable of str, optional
        The columns that tell one profile from another; by default the identity columns of the frame, ``timestamp`` and
        ``period_end``. Null counts as a value.
    low_poc, high_poc : float, 0 < low_poc <= high_poc <= 1
        The ends of the lower and the start of the upper part, as shares of the range. [1]
    max_valley : float, 0 < max_valley <= 1
        The largest valley depth of two distributions. Noise makes valleys: the finer the rows, the smaller it should
        be. [1]
    min_second : float, 0 < min_second <= 1
        The share of the count that makes a second distribution. [1]
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``. If rows are coarser than the levels, the blocks
        listed in ``block_ids`` are counted for ``tpo_count``; without a list it is unknown, because numbers of blocks
        do not add up. [count]
    row_size : float or Decimal, > 0, optional
        Height of the price rows. With it a row without levels, between the lowest and the highest, counts zero. By
        default each price is a row, and neighbouring prices of the frame are neighbours. [price]
    rows : int, 1 to 100,000, optional
        How many rows of equal height the range of each profile is cut into, instead of ``row_size``, as in
        `value_area`. Not for time blocks.

    Returns
    -------
    frame, one row per ``by``, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``shape`` : str; null if the profile has no point of control or only one row.
        - ``poc_position``, ``mean_position`` : float64, where the point of control and the mean price of the count
          lie, from 0 at the lowest row to 1 at the highest. [1]
        - ``valley_depth`` : float64: 0 if a row in between counts zero, 1 or more if counts only fall outward; null if
          no cut has enough count beyond it. [1]
        - ``second_share`` : float64, the share of the count beyond the deepest valley. [1]
        - ``low_poc``, ``high_poc``, ``max_valley``, ``min_second`` : the arguments.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric, or ``levels`` is not a frame.

    Notes
    -----
    A profile with a price or count that is null or not finite, or with a count below zero, has no shape.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 4, on short covering
       and long liquidation. Features and thresholds are tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> counts = {"bell": [1, 3, 5, 3, 1], "late": [1, 1, 2, 6, 4], "two": [5, 4, 1, 4, 6]}
    >>> rows = [(day, price, n) for day, of_day in counts.items() for price, n in enumerate(of_day)]
    >>> levels = pl.DataFrame(rows, schema=["day", "price", "volume"], orient="row")
    >>> shape(levels, by="day").select("day", "shape", "poc_position", "valley_depth").rows()
    [('bell', 'D', 0.5, 1.6666666666666667), ('late', 'P', 0.75, 1.5), ('two', 'B', 1.0, 0.2)]
    """
    thresholds = shares(low_poc=low_poc, high_poc=high_poc, max_valley=max_valley, min_second=min_second)
    results = ("shape", *SHAPE_FEATURES, *SHAPE_THRESHOLDS)
    require_rows(rows, row_size, count)
    profiles = opened(
        levels, by, results=results, numbers={"price": price, "count": count}, row_size=row_size
    )
    profile_levels, keys, step = counted_in_rows(profiles, count, rows)
    price_rows = counted_rows(profile_levels, keys, step)
    result = features(price_rows, keys, min_second=thresholds["min_second"]).with_columns(
        shape=letter(thresholds), **{name: nw.lit(value) for name, value in thresholds.items()}
    )
    return profiles.closed(result.select(*profiles.keys, *results), main=["shape"])


def shares(**thresholds: float) -> dict[str, float]:
    """Return thresholds; raise QueryError if one is not above 0 and at most 1, or ``low_poc`` is above ``high_poc``."""
    checked = {name: arguments.share(name, value) for name, value in thresholds.items()}
    if "low_poc" in checked and checked["low_poc"] > checked["high_poc"]:
        raise QueryError(
            "low_poc", got=checked["low_poc"], expected=f"at most high_poc, {checked['high_poc']:g}"
        )
    return checked


def features(rows: nw.LazyFrame[Any], keys: list[str], *, min_second: float) -> nw.LazyFrame[Any]:
    """Return one row per profile of `counted_rows`: its keys and `SHAPE_FEATURES`, all float64."""
    place, weight, outward = nw.col("place"), nw.col("weight"), [*keys, "side"]
    distance, steps = nw.col("from_poc"), nw.col("steps")
    rows = (
        rows.with_columns(
            side=(distance > 0).cast(nw.Float64) - (distance < 0).cast(nw.Float64),
            steps=distance.abs(),
            inward=-distance.abs(),
            all=weight.sum().over(keys),
        )
        # On each side of the point of control: sum and maximum over this row and the rows beyond, and the row before.
        .with_columns(
            beyond=weight.cum_sum().over(outward, order_by="inward"),
            peak=weight.cum_max().over(outward, order_by="inward"),
            weight_before=weight.shift(1).over(outward, order_by="steps"),
            steps_before=steps.shift(1).over(outward, order_by="steps"),
        )
    )
    # Before the first row of a side comes the point of control. An absent row counts zero.
    is_gap = steps - nw.col("steps_before").fill_null(0.0) > 1
    valley = nw.when(is_gap).then(nw.lit(0.0)).otherwise(nw.coalesce("weight_before", "largest"))
    has_enough = nw.col("beyond") >= (min_second - NOISE) * nw.col("all")
    rows = (
        rows.with_columns(
            depth=nw.when(nw.col("side") != 0, nw.col("peak") > 0, has_enough).then(valley / nw.col("peak"))
        )
        .with_columns(valley_depth=nw.col("depth").min().over(keys))
        .with_columns(
            second=nw.when(nw.col("depth") == nw.col("valley_depth")).then(nw.col("beyond")),
            poc_place=nw.when(distance == 0).then(place),
            # A cumulative sum has a fixed order; in a group the order differs from run to run. No term is negative, so
            # the maximum is the sum.
            moment=((place - nw.col("lowest")) * weight).cum_sum().over(keys, order_by="place"),
        )
    )
    sums = rows.group_by(*keys).agg(
        nw.col("poc_place", "lowest", "highest", "valley_depth", "second", "total", "all", "moment").max(),
    )
    lowest, highest, is_known = nw.col("lowest"), nw.col("highest"), ~nw.col("total").is_null()
    mean = nw.col("moment") / nw.col("all")
    return sums.select(
        *keys,
        poc_position=nw.when(is_known, highest > lowest).then(
            (nw.col("poc_place") - lowest) / (highest - lowest)
        ),
        mean_position=nw.when(is_known, highest > lowest).then(mean / (highest - lowest)),
        valley_depth=nw.when(is_known).then(nw.col("valley_depth")),
        second_share=nw.when(is_known).then(nw.col("second") / nw.col("all")),
    )


def letter(thresholds: Mapping[str, float]) -> nw.Expr:
    """Return the letter of the shape that follows from `features`."""
    position = nw.col("poc_position")
    return (
        nw.when(position.is_null())
        .then(nw.lit(None, nw.String))
        .when(is_double(thresholds))
        .then(nw.lit("B"))
        .when(position >= thresholds["high_poc"] - NOISE)
        .then(nw.lit("P"))
        .when(position <= thresholds["low_poc"] + NOISE)
        .then(nw.lit("b"))
        .otherwise(nw.lit("D"))
    )


def is_double(thresholds: Mapping[str, float], depth: str = "valley_depth") -> nw.Expr:
    """Return whether a profile has two distributions; false without a valley."""
    return (nw.col(depth) <= thresholds["max_valley"] + NOISE).fill_null(value=False)


_RESULTS: Final = ("kind", "low", "high", "rows", "count", "poc_share", "within")


def nodes(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    within: int = 2,
    price: str = "price",
    count: str = "volume",
    row_size: float | Decimal | None = None,
    rows: int | None = None,
) -> IntoFrameT:
    r"""High and low volume nodes (HVN, LVN): local maxima and minima of a profile.

    Neighbouring rows with equal counts form a plateau. A plateau :math:`a, \dots, b` is a high node if no row within
    :math:`k` rows of it counts more. It is a low node if no such row counts less and the profile has rows on both
    sides:

    .. math:: n_a \ge \max(n_{a-k}, \dots, n_{b+k}), \qquad n_a \le \min(n_{a-k}, \dots, n_{b+k}).

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), any order
        A profile. Rows of the same price are added up, so buys and sells may be in rows of their own.
    by : str or iterable of str, optional
        The columns that tell one profile from another; by default the identity columns of the frame, ``timestamp`` and
        ``period_end``. Null counts as a value.
    within : int, >= 1
        k, the distance. Noise makes nodes: the finer the rows, the larger it should be. [row]
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``. If rows are coarser than the levels, the blocks
        listed in ``block_ids`` are counted for ``tpo_count``; without a list it is unknown, because numbers of blocks
        do not add up. [count]
    row_size : float or Decimal, > 0, optional
        Height of the price rows. With it a row without levels, between the lowest and the highest, counts zero, and
        prices of results lie exactly on the grid. By default each price is a row, and neighbouring prices of the frame
        are neighbours. [price]
    rows : int, 1 to 100,000, optional
        How many rows of equal height the range of each profile is cut into, instead of ``row_size``, as in
        `value_area`. Not for time blocks.

    Returns
    -------
    frame, one row per node, sorted by (by, low), of the kind of ``levels``
        ``by``, and

        - ``kind`` : str, ``"hvn"`` or ``"lvn"``.
        - ``low``, ``high`` : float64, the lowest and the highest row of the plateau. [price]
        - ``rows`` : int64, how many rows it has, including rows without levels. [row]
        - ``count`` : float64, the count of each of its rows. [count]
        - ``poc_share`` : float64, ``count`` as a share of the profile's largest count. [1]
        - ``within`` : int64, the argument.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric, or ``levels`` is not a frame.

    Notes
    -----
    A profile whose rows all count the same has no nodes. Neither has a profile with a price or count that is null or
    not finite, or with a count below zero. Counts are equal if they agree to twelve digits of the profile's total.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 4, on high- and
       low-volume areas. The rule of ``k`` rows is tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> levels = pl.DataFrame({"timestamp": start, "price": range(7), "volume": [1, 8, 8, 2, 1, 4, 3]})
    >>> nodes(levels, within=1).select("kind", "low", "high", "count").rows()
    [('hvn', 1.0, 2.0, 8.0), ('lvn', 4.0, 4.0, 1.0), ('hvn', 5.0, 5.0, 4.0)]
    """
    within = arguments.integer("within", within)
    require_rows(rows, row_size, count)
    profiles = opened(
        levels, by, results=_RESULTS, numbers={"price": price, "count": count}, row_size=row_size
    )
    profile_levels, keys, step = counted_in_rows(profiles, count, rows)
    plateaus = nodes_of(counted_rows(profile_levels, keys, step), keys, step, within=within)
    result = with_prices(plateaus, rows, "low", "high").select(
        *profiles.keys,
        kind=nw.when("is_high").then(nw.lit("hvn")).otherwise(nw.lit("lvn")),
        low=nw.col("low"),
        high=nw.col("high"),
        rows=(nw.col("last_row") - nw.col("first_row") + 1).cast(nw.Int64),
        count=nw.col("count"),
        poc_share=nw.col("count") / nw.col("poc_count"),
        within=nw.lit(within, nw.Int64),
    )
    return profiles.closed(result, sort=["low"], main=["kind", "low", "high", "poc_share"])


def nodes_of(
    rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, *, within: int
) -> nw.LazyFrame[Any]:
    """Return one row per node of `counted_rows`: the columns of its plateau, ``is_high`` and ``is_low``."""

    def neighbour(name: str, steps_back: int) -> nw.Expr:
        return nw.col(name).shift(steps_back).over(keys, order_by="first_row")

    first, last, weight = nw.col("first_row"), nw.col("last_row"), nw.col("weight")
    # A plateau has at least one row, so the plateaus within k rows are among the next k plateaus.
    numbers = range(1, within + 1)
    neighbour_weights = [
        *(nw.when(neighbour("last_row", k) >= first - within).then(neighbour("weight", k)) for k in numbers),
        *(
            nw.when(neighbour("first_row", -k) <= last + within).then(neighbour("weight", -k))
            for k in numbers
        ),
    ]
    return (
        _plateaus(rows, keys, step)
        .with_columns(
            most=nw.max_horizontal(*neighbour_weights),
            least=nw.min_horizontal(*neighbour_weights),
            is_inside=~(neighbour("weight", 1).is_null() | neighbour("weight", -1).is_null()),
        )
        .with_columns(
            is_high=(weight >= nw.col("most")).fill_null(value=False),
            is_low=(nw.col("is_inside") & (weight <= nw.col("least"))).fill_null(value=False),
        )
        .filter(nw.col("is_high") | nw.col("is_low"))
    )


def _plateaus(rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None) -> nw.LazyFrame[Any]:
    """Return one row per plateau: its keys, its first and last row and their prices, and the count of each row."""
    first, weight = nw.col("first_row"), nw.col("weight")
    rows = rows.filter(~nw.col("total").is_null()).select(
        *keys,
        *("price", "count", "weight"),
        poc_count=nw.col("count").max().over(keys),
        first_row=nw.col("index"),
        last_row=nw.col("index"),
    )
    if step is not None:
        # Rows without levels, between two rows with levels, form a plateau of count zero.
        rows = rows.with_columns(following=first.shift(-1).over(keys, order_by="first_row"))
        gaps = rows.filter(nw.col("following") > first + 1).with_columns(
            first_row=first + 1, last_row=nw.col("following") - 1, count=nw.lit(0.0), weight=nw.lit(0.0)
        )
        rows = nw.concat([rows, gaps])
    before = weight.shift(1).over(keys, order_by="first_row")
    rows = rows.with_columns(plateau=((before != weight) | before.is_null()).cast(nw.Float64)).with_columns(
        nw.col("plateau").cum_sum().over(keys, order_by="first_row")
    )
    plateaus = rows.group_by(*keys, "plateau").agg(
        nw.col("price").min().alias("low"),
        nw.col("price").max().alias("high"),
        first.min(),
        nw.col("last_row", "count", "weight", "poc_count").max(),
    )
    if step is None:
        return plateaus
    return plateaus.with_columns(low=row_price(step, "first_row"), high=row_price(step, "last_row"))
