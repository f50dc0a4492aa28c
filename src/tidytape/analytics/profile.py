r"""Points of control and value areas of volume and time profiles.

A profile is a frame of levels: one row per session and price, with the count (volume, blocks, trades) seen
there. Nothing in here loops over the levels. Growing a value area takes the larger of the two next candidates
again and again, and that visits them in the order of the *running minimum along each side*, larger first: a
candidate behind a smaller one waits for it, and is then at once larger than whatever the other side offers.
So the growth is a sort and a cumulative sum, the same expression on every engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._arguments import is_number, one_of
from tidytape.errors import MissingColumnError, QueryError

__all__ = ["point_of_control", "value_area"]

# Numbers are compared to twelve of the sixteen digits a float carries. 0.1 + 0.2 then equals 0.3, and no
# comparison turns on the order in which an engine adds. The digits are decimal, so that decimals are not cut
# in the middle.
_DIGITS = 12

_ROWS = {"two_row": 2, "one_row": 1}


def point_of_control(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str],
    price: str = "price",
    count: str = "volume",
    tie: Literal["center", "lower", "upper"] = "center",
) -> IntoFrameT:
    r"""Point of control: the price row with the largest count.

    .. math:: \mathrm{poc} = \arg\max_i n_i

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), any order
        A profile. Rows of the same price are added, so buy and sell rows may stand apart.
    by : str or iterable of str
        The columns that tell one profile from another, e.g. ``["raw_symbol", "timestamp"]``. Null is
        a value.
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``. [count]
    tie : {"center", "lower", "upper"}
        Which of several largest rows: the one closest to the middle between the lowest and the highest price,
        then the lower price; or the lowest; or the highest.

    Returns
    -------
    frame, one row per ``by``, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``poc`` : float64, null where the profile has none. [price]
        - ``poc_count`` : float64, the count there. [count]
        - ``poc_tie`` : str, the rule that decided.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric, or ``levels`` is not a frame.

    See Also
    --------
    value_area : Grows the value area from here.

    Notes
    -----
    A profile whose counts are all zero has no point of control, nor has one with a price or count that is
    null, not finite, or a count below zero: what is unknown could be the largest. Other profiles are not
    affected.

    Counts equal to twelve digits of the profile's total are equal, and prices equal to twelve digits of its
    highest are one row.

    References
    ----------
    .. [1] J. F. Dalton, E. T. Jones and R. B. Dalton, "Mind over Markets", 1990, appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame({"day": [1] * 4, "price": [10.0, 10.1, 10.2, 10.3], "volume": [1, 7, 7, 2]})
    >>> point_of_control(levels, by="day").row(0)
    (1, 10.1, 7.0, 'center')
    >>> point_of_control(levels, by="day", tie="upper").row(0)
    (1, 10.2, 7.0, 'upper')
    """
    one_of("tie", tie, ("center", "lower", "upper"))
    frame, names = _opened(levels, by, price, count, results=("poc", "poc_count", "poc_tie"))
    keys = list(names)
    has_poc = ~nw.col("total").is_null()
    result = (
        _rows(frame, keys, tie=tie, step=None)
        .filter(nw.col("from_poc") == 0)
        .select(
            *keys,
            poc=nw.when(has_poc).then(nw.col("price")),
            poc_count=nw.when(has_poc).then(nw.col("count")),
            poc_tie=nw.lit(tie),
        )
    )
    return _closed(result, names, like=levels)


def value_area(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str],
    price: str = "price",
    count: str = "volume",
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    poc_tie: Literal["center", "lower", "upper"] = "center",
    row_size: float | Decimal | None = None,
) -> IntoFrameT:
    r"""Value area: the rows around the point of control that hold a share of the count.

    The area starts as the point of control alone. While it holds too little, the next candidate above is
    compared with the next below and the larger joins. With rows :math:`1, 2, \dots` outward from the point of
    control on one side, candidate :math:`k` and the bound that ranks it are

    .. math:: c_k = n_{wk - w + 1} + \dots + n_{wk}, \qquad m_k = \min(c_1, \dots, c_k),

    with :math:`w = 2` for ``two_row`` and 1 for ``one_row``. Candidates of both sides are taken by falling
    :math:`m_k`, nearer ones of a side first, while what is enclosed is short of ``share`` of the total.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), any order
        A profile. Rows of the same price are added, so buy and sell rows may stand apart.
    by : str or iterable of str
        The columns that tell one profile from another, e.g. ``["raw_symbol", "timestamp"]``. Null is
        a value.
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``. [count]
    share : float, 0 < share <= 1
        The share of the total to enclose. [1]
    rule : {"two_row", "one_row"}
        A candidate is the next two rows of a side, both of which join, and at the edge the one that is left
        (the CBOT rule); or it is the next row.
    tie : {"up", "down"}
        The side that is taken when both candidates are equal.
    stop : {"reach", "exceed"}
        Grow until the share is reached, or until it is exceeded.
    poc_tie : {"center", "lower", "upper"}
        ``tie`` of `point_of_control`.
    row_size : float or Decimal, > 0, optional
        The step of the prices. With it a price without a row, between the lowest and the highest, is a row of
        count zero, and prices are published exactly on the grid, so 3 steps of 0.1 are 0.3; a price between
        two of the grid belongs to the lower. Without it rows are neighbours as given, whatever lies between. [price]

    Returns
    -------
    frame, one row per ``by``, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``poc`` : float64, the point of control, null where the profile has none. [price]
        - ``val`` : float64, the area's lowest row. [price]
        - ``vah`` : float64, the area's highest row. [price]
        - ``value_area_share`` : float64, the share enclosed. [1]
        - ``share``, ``rule``, ``tie``, ``stop``, ``poc_tie`` : the arguments, for these rules often disagree.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric, or ``levels`` is not a frame.

    See Also
    --------
    point_of_control : The row this grows from.

    Notes
    -----
    A profile whose counts are all zero has no value area, nor has one with a price or count that is null, not
    finite, or a count below zero: what is unknown could turn the growth. Other profiles are not affected.

    Counts equal to twelve digits of the profile's total are equal, prices equal to twelve digits of its
    highest are one row, and a share is met within 1e-12, to which ``value_area_share`` is rounded. So every
    engine answers the same, and 0.1 + 0.7 of 1 reaches 0.8 although it is 0.7999999999999999 in floats.

    References
    ----------
    .. [1] J. F. Dalton, E. T. Jones and R. B. Dalton, "Mind over Markets", 1990, appendix 1: the rule of the
       Chicago Board of Trade (CBOT), two rows at a time.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame({"day": [1] * 5, "price": [10, 11, 12, 13, 14], "volume": [1, 4, 10, 4, 1]})
    >>> value_area(levels, by="day").row(0)[:5]
    (1, 12.0, 12.0, 14.0, 0.75)
    >>> value_area(levels, by="day", rule="one_row", tie="down").row(0)[:5]
    (1, 12.0, 11.0, 12.0, 0.7)
    """
    one_of("rule", rule, tuple(_ROWS))
    one_of("tie", tie, ("up", "down"))
    one_of("stop", stop, ("reach", "exceed"))
    one_of("poc_tie", poc_tie, ("center", "lower", "upper"))
    share = arguments.share("share", share)
    rules = {"share": share, "rule": rule, "tie": tie, "stop": stop, "poc_tie": poc_tie}
    measures = ("poc", "val", "vah", "value_area_share")
    frame, names = _opened(levels, by, price, count, results=(*measures, *rules))
    keys = list(names)

    step = None if row_size is None else _step(row_size)
    rows = _rows(frame, keys, tie=poc_tie, step=step)
    candidates = _candidates(rows, keys, width=_ROWS[rule], step=step)
    result = (
        _taken(candidates, keys, share=share, tie=tie, stop=stop)
        .group_by(keys)
        .agg(nw.col("poc", "low").min(), nw.col("high", "total").max(), nw.col("count").sum())
        .with_columns(enclosed=nw.col("count") / nw.col("total"))
        .select(
            *keys,
            "poc",
            val=nw.col("low"),
            vah=nw.col("high"),
            value_area_share=_quotient((nw.col("enclosed") * 10.0**_DIGITS + 0.5).floor(), 10**_DIGITS),
            **{name: nw.lit(value) for name, value in rules.items()},
        )
    )
    return _closed(result, names, like=levels)


def _rows(
    levels: nw.LazyFrame[Any], keys: list[str], *, tie: str, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return one row per (keys, price row), with its signed distance from the point of control in rows.

    ``total`` is the profile's count, null where there is no answer.
    """
    price, count, total = nw.col("price"), nw.col("count"), nw.col("total")
    known = (price.is_finite() & count.is_finite() & (count >= 0)).fill_null(value=False)
    levels = levels.with_columns(known=known).with_columns(
        price=nw.when("known").then(price).otherwise(0.0), count=nw.when("known").then(count).otherwise(0.0)
    )
    if step is None:
        levels = levels.with_columns(highest=price.abs().max().over(keys))
        place = _whole(price, nw.col("highest"))
    else:
        # A row is its low edge: 0.19 lies in the row of 0.1. What is on the grid but for a float's noise is on it.
        steps = price / float(step)
        nearest = (steps + 0.5).floor()
        place = nearest - (nearest - steps > 1e-9 + 1e-12 * steps.abs()).cast(nw.Float64)
    rows = (
        levels.with_columns(place=place)
        .group_by(*keys, "place")
        .agg(price.min(), count.sum(), nw.col("known").all())
    )

    place = nw.col("place")
    rows = rows.with_columns(
        total=count.sum().over(keys),
        known=nw.col("known").all().over(keys),
        lowest=place.min().over(keys),
        highest=place.max().over(keys),
        index=place if step else place.rank("dense").over(keys).cast(nw.Float64),
    ).with_columns(weight=_whole(count, total))
    # Places are whole numbers, so a quarter leans to the lower of two rows equally far and moves no other.
    middle = nw.col("lowest") + nw.col("highest") - 0.25
    away = {"center": (2 * place - middle).abs(), "lower": place, "upper": -place}[tie]
    rows = rows.with_columns(
        away=away, largest=nw.col("weight").max().over(keys), total=nw.when("known", total > 0).then(total)
    )
    rows = rows.with_columns(nearest=nw.when(nw.col("weight") == nw.col("largest")).then(nw.col("away")))
    rows = rows.with_columns(nearest=nw.col("nearest").min().over(keys))
    rows = rows.with_columns(poc_index=nw.when(nw.col("away") == nw.col("nearest")).then(nw.col("index")))
    rows = rows.with_columns(poc_index=nw.col("poc_index").max().over(keys))
    return rows.with_columns(from_poc=nw.col("index") - nw.col("poc_index"))


def _candidates(
    rows: nw.LazyFrame[Any], keys: list[str], *, width: int, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return one row per (keys, side, rank outward), the point of control being side 0 and rank 0."""
    distance, side, rank = nw.col("from_poc"), nw.col("side"), nw.col("rank")
    rows = rows.with_columns(
        side=(distance > 0).cast(nw.Float64) - (distance < 0).cast(nw.Float64),
        rank=((distance.abs() + (width - 1)) / width).floor(),
    )
    edge = nw.col("price")
    if step is not None:
        # The outer row of a pair may have no level: it counts zero, and the area ends there all the same.
        outer = nw.col("poc_index") + side * rank * width
        index = nw.min_horizontal(nw.max_horizontal(outer, "lowest"), "highest")
        edge = _quotient(index * float(step.numerator), step.denominator)
    edge = nw.when(~nw.col("total").is_null()).then(edge)
    return (
        rows.with_columns(low=edge, high=edge, poc=edge)
        .with_columns(poc=nw.when(side == 0).then(nw.col("poc")))
        .group_by(*keys, "side", "rank")
        .agg(nw.col("poc", "low").min(), nw.col("high", "total").max(), nw.col("count").sum())
    )


def _taken(
    candidates: nw.LazyFrame[Any], keys: list[str], *, share: float, tie: str, stop: str
) -> nw.LazyFrame[Any]:
    """Keep the candidates that the growth takes."""
    count, total, rank = nw.col("count"), nw.col("total"), nw.col("rank")
    outward = [*keys, "side"]
    candidates = candidates.with_columns(weight=_whole(count, total))
    candidates = candidates.with_columns(
        bound=nw.col("weight").cum_min().over(outward, order_by="rank"),
        present=count.cum_count().over(outward, order_by="rank"),
    )
    # (Not ``rank`` is counted: in narwhals' pandas windows a counted column is lost as one to order by.)
    # A nearer candidate without any level counts zero. The point of control goes before every weight.
    bound = nw.when(rank <= nw.col("present")).then(nw.col("bound")).otherwise(0.0)
    bound = nw.when(rank > 0).then(bound).otherwise(10.0 ** (_DIGITS + 1))
    favoured = 1 if tie == "up" else -1
    candidates = candidates.with_columns(later=-bound, second=nw.col("side") * -favoured)
    enclosed = count.cum_sum().over(keys, order_by=["later", "second", "rank"])
    candidates = candidates.with_columns(before=(enclosed - count) / total)
    noise = 10.0**-_DIGITS
    short = nw.col("before") < share - noise if stop == "reach" else nw.col("before") < share + noise
    return candidates.filter((rank == 0) | short.fill_null(value=False))


def _whole(value: nw.Expr, largest: nw.Expr) -> nw.Expr:
    """Return ``value`` in whole decimal units, of which ``largest`` holds about ``10 ** _DIGITS``."""
    # The rounded logarithm turns over at a root of 10, where no decimal lies: engines agree on the digit.
    decade = nw.when(largest > 0).then(largest).log(10).round()
    # floor(x + 1/2), because engines disagree on how to round a half.
    return (value * 10.0 ** (_DIGITS - decade) + 0.5).floor().fill_null(0.0)


def _quotient(whole: nw.Expr, denominator: int) -> nw.Expr:
    """Return the float closest to a fraction of whole numbers, e.g. 0.3 for 3 and 10."""
    # By a column, because polars multiplies by the rounded reciprocal of a literal: 3 * 0.1 is not 0.3.
    return whole / (whole * 0.0 + float(denominator))


def _opened(
    levels: IntoFrameT, by: str | Iterable[str], price: str, count: str, *, results: tuple[str, ...]
) -> tuple[nw.LazyFrame[Any], dict[str, str]]:
    """Return the columns that count as ``by_0, by_1, …, price, count``, and the names of the first ones."""
    columns = [by] if isinstance(by, str) else list(by)
    taken = (price, count, *results)
    if not columns or len(set(columns)) < len(columns) or not set(columns).isdisjoint(taken):
        expected = f"at least one name, each once and none of {', '.join(map(repr, taken))}"
        raise QueryError("by", got=columns, expected=expected)
    frame = _narwhal(levels)
    schema = frame.collect_schema()
    if missing := [name for name in (*columns, price, count) if name not in schema]:
        raise MissingColumnError(missing, available=schema)
    for parameter, name in (("price", price), ("count", count)):
        if not schema[name].is_numeric():
            raise QueryError(parameter, got=f"{name}: {schema[name]}", expected="a numeric column")
    names = {f"by_{position}": name for position, name in enumerate(columns)}
    if isinstance(frame, nw.DataFrame):
        # Lazily, so that an optimiser is used where there is one. pyarrow has no windows: polars computes.
        frame = frame.lazy("polars" if frame.implementation.is_pyarrow() else None)
    return frame.select(
        **{key: nw.col(name) for key, name in names.items()},
        price=nw.col(price).cast(nw.Float64),
        count=nw.col(count).cast(nw.Float64),
    ), names


def _closed(result: nw.LazyFrame[Any], names: dict[str, str], *, like: IntoFrameT) -> IntoFrameT:
    """Return ``result`` sorted, under the caller's names, as the kind of frame that ``like`` is."""
    result = result.sort(*names).rename(names)
    frame = _narwhal(like)
    if isinstance(frame, nw.DataFrame):
        native = nw.maybe_reset_index(result.collect(frame.implementation)).to_native()
    else:
        native = result.to_native()
    return cast("IntoFrameT", native)


def _narwhal(levels: Any) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    try:
        return nw.from_native(levels)  # type: ignore[no-any-return]
    except TypeError as error:
        expected = "a frame of polars, pandas, pyarrow, DuckDB or Spark"
        raise QueryError("levels", got=type(levels).__name__, expected=expected) from error


def _step(row_size: object) -> Fraction:
    """Return the step as the exact decimal that its shortest spelling says: 0.1 is a tenth."""
    if not is_number(row_size) or not row_size > 0:
        raise QueryError("row_size", got=row_size, expected="a finite number above 0, or None")
    return Fraction(str(row_size))
