"""All measures of a session in one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._block_ends import BlockEnds
from tidytape.analytics.profile._day_type import (
    DAY_FEATURES,
    DAY_THRESHOLDS,
    balance_columns,
    balances,
    block_features,
    day_label,
    with_day_features,
)
from tidytape.analytics.profile._extremes import extreme_columns, extremes, runs, with_ends
from tidytape.analytics.profile._growth import AREA, Rules, areas
from tidytape.analytics.profile._levels import (
    block_length,
    checked_minutes,
    counted_levels,
    counted_rows,
    merged,
    row_price,
    touched_rows,
)
from tidytape.analytics.profile._opening import SESSION, holds, opened
from tidytape.analytics.profile._sessions import untouched
from tidytape.analytics.profile._shape import (
    SHAPE_FEATURES,
    SHAPE_THRESHOLDS,
    features,
    letter,
    nodes_of,
    shares,
)
from tidytape.errors import QueryError
from tidytape.frames._dialects import in_sql
from tidytape.query._values import TimeLike
from tidytape.sessions import Session

_COUNTED: Final = ("high", "low", "total", "poc", "poc_count", "val", "vah", "value_area_share")
_NODES: Final = ("high_nodes", "low_nodes")
_RUNS: Final = ("single_print_runs", "single_print_rows")
_OF_BLOCKS: Final = (
    *(f"{part}_{end}" for part in ("touched", "balance", "last", "end", "tail") for end in ("high", "low")),
    *(f"{end}_{part}" for part in ("blocks", "in_progress") for end in ("high", "low")),
    *(*_RUNS, "tpo_valley_depth", "tpo_second_share"),
)
_THRESHOLDS: Final = {**SHAPE_THRESHOLDS, **DAY_THRESHOLDS}


def summary(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    count: str = "volume",
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    poc_tie: Literal["center", "lower", "upper"] = "center",
    row_size: float | Decimal | None = None,
    minutes: float = 60,
    extension_from: Literal["edge", "opposite"] = "edge",
    min_excess_rows: int = 2,
    within: int = 2,
    lookback: int = 10,
    thresholds: Mapping[str, float] | None = None,
    now: TimeLike | None = None,
    block_minutes: float | None = None,
    session: Session | None = None,
    price: str = "price",
) -> IntoFrameT:
    """All measures of each session in one row, with the rules by which they were computed.

    Parameters
    ----------
    levels : frame, n rows, one per (by, timestamp, price), or per (by, timestamp, block, price), any order
        Profiles of sessions that start at ``timestamp``: TPO levels of `tidytape.Client.tpo` or
        `tidytape.aggregate.tpo`, touches of `tidytape.aggregate.tpo_touches`, or volume profiles. Results that need
        time blocks are null if the frame has no blocks; ``has_blocks`` tells.
    by : str or iterable of str, optional
        The columns that tell one series of sessions from another; by default the identity columns of the frame. Null
        counts as a value. Without any column, all sessions belong to one series.
    count : str
        Column that the point of control, the value area, the nodes and the shape count, e.g. ``volume`` or
        ``tpo_count``; for rows coarser than the levels see `value_area`. Other results count time blocks. [count]
    share, rule, tie, stop, poc_tie, row_size
        As in `value_area`; ``row_size`` applies to all results.
    minutes, extension_from
        As in `initial_balance`.
    min_excess_rows, now, session
        As in `poor_extremes`.
    within
        As in `nodes`.
    lookback
        As in `day_type`.
    thresholds : mapping of str to float, optional
        Thresholds of `shape` and `day_type` by name, by default theirs; both use ``max_valley`` and ``min_second``.
    block_minutes : float, > 0, optional
        Length of a block; by default the column ``block_size_minutes``; touches do not have it. [min]
    price : str
        Column of the levels' prices. [price]

    Returns
    -------
    frame, one row per (by, timestamp), sorted by these, of the kind of ``levels``
        ``by``, ``timestamp``, ``period_end`` where the levels have it, and, float64 unless noted otherwise,

        - ``high``, ``low`` : the highest and the lowest row [price]; ``total`` : the count of all [count];
        - ``poc``, ``poc_count``, ``val``, ``vah``, ``value_area_share`` : as in `point_of_control`, `value_area`;
        - ``is_naked`` bool, ``touched_at`` as ``timestamp`` : as in `naked_pocs`;
        - ``high_nodes``, ``low_nodes`` : how many `nodes` there are;
        - ``shape`` str, ``poc_position``, ``mean_position``, ``valley_depth``, ``second_share`` : as in `shape`;
        - ``has_blocks`` : bool, whether the frame has time blocks, which the next results need;
        - the results of `initial_balance`;
        - ``single_print_runs``, ``single_print_rows`` : how many runs of single prints, and how many rows they have,
          without tails;
        - the results of `poor_extremes` except ``high`` and ``low``;
        - ``day_type`` str and the features of `day_type`;
        - ``count`` str, ``share``, ``rule``, ``tie``, ``stop``, ``poc_tie``, ``within``, ``lookback`` and the
          thresholds : the arguments.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``levels`` has time blocks but not their length, or an argument is not one of those listed.

    Notes
    -----
    Everything in a row is computed from the levels. Session values of the service have other names (``poc_price``,
    ``vah_price``, ``val_price``, ``ibr_high``, ``poor_highs``, …) and are ignored.

    Only ``is_naked`` and ``touched_at`` depend on later sessions.

    References
    ----------
    The sources of its parts: `value_area`, `initial_balance`, `single_prints`, `tails`, `poor_extremes`, `shape`,
    `day_type` and `naked_pocs`. One row per session is tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> blocks = [[0], [0, 1], [1, 2, 3], [3]]
    >>> levels = pl.DataFrame({"price": range(4), "block_ids": blocks, "volume": [1, 5, 9, 2]})
    >>> row = summary(levels.with_columns(timestamp=pl.lit(0, pl.Int64)), block_minutes=30).row(0, named=True)
    >>> row["poc"], row["initial_balance_high"], row["shape"], row["day_type"], row["rule"]
    (2.0, 2.0, 'P', 'normal_variation', 'two_row')
    """
    rules = Rules(share, rule, tie, stop, poc_tie)
    minutes = arguments.positive("minutes", minutes)
    min_excess_rows = arguments.integer("min_excess_rows", min_excess_rows)
    within, lookback = arguments.integer("within", within), arguments.integer("lookback", lookback)
    limits = _limits({} if thresholds is None else thresholds)
    count = arguments.column("count", count)
    checked_minutes(block_minutes)
    columns = {
        "count": nw.lit(count),
        **{name: nw.col(name) for name in _COUNTED},
        "is_naked": holds(nw.col("touched_at").is_null(), "poc"),
        "touched_at": nw.col("touched_at"),
        **{name: holds(nw.col(name).fill_null(0.0), "poc") for name in _NODES},
        "shape": letter(limits),
        **{name: nw.col(name) for name in SHAPE_FEATURES},
        "has_blocks": nw.lit(value=False),
        **balance_columns(minutes=minutes, extension_from=extension_from),
        **{name: holds(nw.col(name).fill_null(0.0), "end_high") for name in _RUNS},
        **extreme_columns(min_excess_rows),
        "day_type": day_label(limits),
        **{name: nw.col(name) for name in DAY_FEATURES},
        **rules.columns(),
        "within": nw.lit(within, nw.Int64),
        "lookback": nw.lit(lookback, nw.Int64),
        **{name: nw.lit(value) for name, value in limits.items()},
    }
    sessions = opened(
        levels,
        by,
        results=[SESSION, *columns],
        numbers={"price": price, "count": count},
        row_size=row_size,
        of="series",
    )
    columns |= {
        "high": nw.col("high"),
        "low": nw.col("low"),
        "has_blocks": nw.lit(value=sessions.has_blocks),
    }
    keys, step, min_second = sessions.keys, sessions.step, limits["min_second"]
    profile_levels = _shared(counted_levels(sessions, {"count": count}))
    rows = _shared(counted_rows(profile_levels, keys, step, tie=poc_tie))
    known_price = holds(row_price(step), "total")
    parts = [
        rows.group_by(*keys).agg(
            known_price.max().alias("high"),
            known_price.min().alias("low"),
            nw.col("total").max(),
            nw.when(nw.col("from_poc") == 0).then(holds(nw.col("count"), "total")).max().alias("poc_count"),
        ),
        areas(profile_levels, keys, rules, step, in_memory=not in_sql(profile_levels)).select(*keys, *AREA),
        _sums(
            nodes_of(rows, keys, step, within=within),
            keys,
            high_nodes=nw.col("is_high"),
            low_nodes=nw.col("is_low"),
        ),
        features(rows, keys, min_second=min_second),
    ]
    if sessions.has_blocks:
        block_ends = BlockEnds.at(now, sessions, block_minutes, session)
        context = {} if block_ends is None else block_ends.context
        length = {"block_length": block_length(sessions, block_minutes)}
        block_rows = _shared(touched_rows(sessions, {**length, **context}))
        ends = _shared(with_ends(block_rows, sessions, now=now, ends=block_ends))
        inside = runs(ends, keys).filter(~(nw.col("at_low") | nw.col("at_high")))
        parts += [
            balances(block_rows, keys, step, minutes=minutes),
            extremes(ends, keys),
            _sums(inside, keys, single_print_runs=nw.lit(1.0), single_print_rows=nw.col("rows")),
            block_features(block_rows, keys, step, min_second=min_second),
        ]
    summaries = merged(parts, keys)
    if not sessions.has_blocks:
        summaries = summaries.with_columns(nw.lit(None, nw.Float64).alias(name) for name in _OF_BLOCKS)
    summaries = untouched(
        with_day_features(summaries, sessions.series_columns, lookback), sessions.series_columns
    )
    main = ["val", "poc", "vah", "day_type"]
    return sessions.closed(summaries.select(*keys, **columns), times={"touched_at": SESSION}, main=main)


def _limits(thresholds: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(thresholds, Mapping):
        raise QueryError("thresholds", got=thresholds, expected="numbers by the names of thresholds")
    for name in thresholds:
        one_of("thresholds", name, _THRESHOLDS)
    return shares(**{**_THRESHOLDS, **thresholds})


def _shared(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return rows that several parts read, collected by polars: otherwise it computes them once per part."""
    return rows if in_sql(rows) else rows.collect().lazy()


def _sums(rows: nw.LazyFrame[Any], keys: list[str], **columns: nw.Expr) -> nw.LazyFrame[Any]:
    """Return the sums of some columns, one row per profile."""
    return (
        rows.select(*keys, **{name: value.cast(nw.Float64) for name, value in columns.items()})
        .group_by(*keys)
        .agg(nw.col(*columns).sum())
    )
