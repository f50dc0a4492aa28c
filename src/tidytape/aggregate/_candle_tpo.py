"""Candles to a market profile: highs and lows say which price rows a time block touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Generic, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.aggregate._straddling import (
    STRADDLES,
    least_distance,
    length_of_candles,
    require_whole,
    with_straddles,
)
from tidytape.aggregate._tpo import (
    MAIN,
    MAIN_OF_SESSIONS,
    NEW_TIMES,
    PROFILE,
    SIDES,
    Cut,
    Parts,
    parts_of,
    profile_levels,
    profile_sessions,
    rows_of,
    with_blocks,
    with_lists,
    with_rows,
)
from tidytape.analytics._arguments import one_of
from tidytape.catalogue import DEFAULT_TPO_BLOCK_MINUTES, TPO_BLOCK_MINUTES, Interval
from tidytape.errors import QueryError
from tidytape.frames._dialects import in_sql
from tidytape.frames._door import BUCKET, MARKET
from tidytape.frames._rows import with_all
from tidytape.frames._spreading import PRICES, has_prices, levels_of
from tidytape.frames._table import OpenTable, Rows
from tidytape.frames._times import bucket_start, length_of
from tidytape.frames._units import AMOUNT_UNIT, require_one_unit
from tidytape.schema import TPO_SESSIONS, schema_of
from tidytape.sessions import Session
from tidytape.times import MINUTE, SECOND, interval_of

_NEEDED: Final = ("open", "high", "low", "close", "volume")
_NAMES: Final = ("normalized_symbol", "coin", "category", "amount_unit")
_LOST: Final = "__is_lost"


def candle_tpo(
    candles: IntoFrameT,
    /,
    *,
    block_size: Decimal | float | str,
    interval: str = "1d",
    session: Session | str | None = None,
    period: str | None = None,
    block_minutes: int = DEFAULT_TPO_BLOCK_MINUTES,
    spreading: Literal["close", "uniform"] = "uniform",
    now: int | None = None,
) -> IntoFrameT:
    r"""Market profile (TPO) of each market from candles, if no trades are available.

    A time block touches every row between its lowest and its highest price, traded on or not, as in
    `tidytape.aggregate.tpo`. Candles have both prices, so the touches, the point of control, the value area and the
    initial balance equal those of the trades. Only the volume of a row is an approximation: a candle does not tell at
    which of its prices it traded, so ``spreading`` says how to spread its volume.

    Parameters
    ----------
    candles : frame, n rows, in any order
        ``timestamp`` int64 [ns since the epoch] or with a zone, ``open``, ``high``, ``low``, ``close`` [quote per coin]
        and ``volume``. Candles must not be longer than a time block; minute candles fit every ``block_minutes``. With
        ``side``, as from ``client.candles(by_side=True)``, the result has the volume of each side.
    block_size : Decimal, int, float or str, > 0
        Height of a row. [quote per coin]
    interval : str
        Length of a session, unless ``period`` is given.
    session, period : optional
        As in `tidytape.aggregate.tpo`. A candle in which the market does not trade is left out.
    block_minutes : {30, 5, 60, 240}
        Length of a time block. The last one of a session ends with it. [min]
    spreading : {"uniform", "close"}
        How the volume of a candle is spread: evenly over its range, or all on the row of its close; see
        `tidytape.aggregate.candle_profile`.
    now : int, optional
        As in `tidytape.aggregate.tpo`. [ns]

    Returns
    -------
    frame, one row per market, session and price row touched; of the same kind as ``candles``
        The columns of schema TPO_AGG, as in ``client.tpo``, without ``is_final`` and the identity columns that the
        candles lack; ``buy_volume`` and ``sell_volume`` only for candles by side. And ``spreading`` : str, the rule,
        which marks the profile as one from candles. Sorted by (exchange, raw_symbol, timestamp, price).

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not one of those listed; if candles are longer than a time block, by their column
        ``interval``, or without it by the time between them; if one lies in two time blocks, or in a session in part;
        or if ``candles`` is a frame of DuckDB or Spark, which cannot make the lists of blocks. The lengths in a lazy
        polars frame are not checked: such candles count as lost.

    See Also
    --------
    candle_profile : A volume profile from candles.
    candle_tpo_sessions : The sessions, one row each.

    Notes
    -----
    A candle without a finite low and high, with a low above its high, or with a close outside of them is lost: it
    touches no row, and if it has volume, every volume of its session is null.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2 and appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> minute = 60 * 10**9
    >>> candles = pl.DataFrame(
    ...     {
    ...         "timestamp": [start, start + 29 * minute, start + 30 * minute],
    ...         "open": [10.0, 12.0, 12.0], "high": [11.5, 12.5, 12.0],
    ...         "low": [10.0, 12.0, 12.0], "close": [11.0, 12.5, 12.0], "volume": [3.0, 1.0, 2.0], "interval": "1m",
    ...     }
    ... )
    >>> levels = candle_tpo(candles, block_size=1)
    >>> levels.select("price", "block_ids", "volume", "spreading").rows()
    [(10.0, [0], 2.0, 'uniform'), (11.0, [0], 1.0, 'uniform'), (12.0, [0, 1], 3.0, 'uniform')]
    """
    profile = _Profile.of(
        candles, interval, Cut.of(interval, block_size, session, period, block_minutes), spreading
    )
    levels = with_blocks(
        profile_levels(rows_of(profile.parts, profile.cut), profile.cut, now),
        profile.parts.touched(profile.cut),
    )
    levels = profile.described(profile.cut.told(levels)).sort(*PROFILE, "price")
    names = [*schema_of("TPO_AGG").names, "spreading"]
    return profile.table.closed(profile.chosen(levels, names), main=MAIN)


def candle_tpo_sessions(
    candles: IntoFrameT,
    /,
    *,
    block_size: Decimal | float | str,
    interval: str = "1d",
    session: Session | str | None = None,
    period: str | None = None,
    block_minutes: int = DEFAULT_TPO_BLOCK_MINUTES,
    spreading: Literal["close", "uniform"] = "uniform",
) -> IntoFrameT:
    """Sessions of the market profile (TPO) of each market from candles, if no trades are available.

    Parameters
    ----------
    candles, block_size, interval, session, period, block_minutes, spreading
        As in `candle_tpo`.

    Returns
    -------
    frame, one row per market and session; of the same kind as ``candles``
        The columns of schema TPO_SESSIONS, as in ``client.tpo_sessions``, without ``is_final`` and the identity columns
        that the candles lack. And ``spreading`` : str, the rule, which marks the profile as one from candles. Sorted by
        (exchange, raw_symbol, timestamp).

    Raises
    ------
    MissingColumnError, QueryError
        As in `candle_tpo`.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2 and appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> minute = 60 * 10**9
    >>> candles = pl.DataFrame(
    ...     {
    ...         "timestamp": [start, start + 29 * minute, start + 30 * minute],
    ...         "open": [10.0, 12.0, 12.0], "high": [11.5, 12.5, 12.0],
    ...         "low": [10.0, 12.0, 12.0], "close": [11.0, 12.5, 12.0], "volume": [3.0, 1.0, 2.0], "interval": "1m",
    ...     }
    ... )
    >>> candle_tpo_sessions(candles, block_size=1).select("poor_highs", "total_volume", "poc_price").rows()
    [([12.0], 6.0, 12.0)]
    """
    profile = _Profile.of(
        candles, interval, Cut.of(interval, block_size, session, period, block_minutes), spreading
    )
    rows = rows_of(profile.parts, profile.cut)
    sessions = with_lists(profile_sessions(rows, profile.cut), profile_levels(rows, profile.cut, None))
    sessions = profile.described(profile.cut.told(sessions)).sort(*PROFILE)
    names = [*TPO_SESSIONS.names, "spreading"]
    return profile.table.closed(profile.chosen(sessions, names), times=NEW_TIMES, main=MAIN_OF_SESSIONS)


@dataclass(frozen=True, slots=True)
class _Profile(Generic[IntoFrameT]):
    """The parts of market profiles from candles, and what the candles say of their markets."""

    table: OpenTable[IntoFrameT]
    rows: Rows
    parts: Parts
    cut: Cut
    interval: str
    spreading: str

    @classmethod
    def of(cls, candles: IntoFrameT, interval: str, cut: Cut, spreading: str) -> _Profile[IntoFrameT]:
        """Return the parts of the market profiles of candles; raise QueryError if they cannot be made."""
        one_of("spreading", spreading, PRICES)
        table = OpenTable.of(candles, ["timestamp", *_NEEDED], optional=["side"])
        if in_sql(table.rows):
            table.collected("a list of time blocks per level cannot be said in SQL")  # raises
        _require_short(table, cut)
        length = length_of_candles(table)
        cut = cut.bound(table.rows)
        rows = with_all(
            table.rows.filter(~nw.col("timestamp").is_null()),
            (nw.lit("").alias(name) for name in MARKET if name not in table.names),
        )
        rows = with_straddles(rows, length, lambda time: bucket_start(time, cut.piece), cut.clock)
        if table.is_eager:
            rows = require_whole(rows, "time block", cut.session)
        rows = require_one_unit(
            replace(table, rows=rows), AMOUNT_UNIT, [*MARKET], ["volume"], parameter="candles"
        ).rows
        rows = _with_lost(rows, cut)
        pieces = with_rows(_pieces(rows, cut.piece), cut, eager=table.is_eager)
        traded = rows.with_columns(volume=nw.when(~nw.col(_LOST)).then(nw.col("volume")))
        parts = parts_of(pieces, pieces, lambda length: _volumes(traded, length, cut, spreading), cut)
        return cls(table, rows, parts, cut, interval, spreading)

    def described(self, rows: Rows) -> Rows:
        """Add what the candles say of their markets, and the arguments."""
        if names := [name for name in _NAMES if name in self.table.names]:
            of_markets = self.rows.group_by(*MARKET).agg(nw.col(name).min() for name in names)
            rows = rows.join(of_markets, on=[*MARKET], how="left")
        return rows.with_columns(
            interval=nw.lit(interval_of(self.interval).alias),
            block_size=nw.lit(float(self.cut.grid.size)),
            spreading=nw.lit(self.spreading),
        )

    def chosen(self, rows: Rows, names: Sequence[str]) -> Rows:
        """Return those columns that rows have and the candles can tell."""
        absent = {name for name in MARKET if name not in self.table.names}
        if "side" not in self.table.names:
            absent |= {*SIDES}
        present = {*rows.collect_schema().names()} - absent
        return rows.select(name for name in names if name in present)


def _require_short(table: OpenTable[Any], cut: Cut) -> None:
    """Raise QueryError if candles in memory are longer than a piece of a session."""
    frame = table.rows.collect() if table.is_eager else None
    if frame is None or not len(frame):
        return
    if "interval" in table.names:
        longest = frame.select(length_of(nw.col("interval")).max()).item()
        reason = "column interval says so"
    else:
        longest = least_distance(table)
        reason = "they are at least so far apart; a column interval, such as '1m', says how long they are"
    longest_allowed = cut.piece.seconds * SECOND
    if longest is not None and longest > longest_allowed:
        raise QueryError(
            "block_minutes",
            got=f"{longest_allowed // MINUTE} with candles of {longest // MINUTE} minutes",
            expected="candles no longer than a time block",
            hint=f"{reason}; fetch candles of a shorter interval{_or_longer(longest)}",
        )


def _or_longer(length: int) -> str:
    """Return a hint that names the shortest time block that is as long as a candle; an empty text if none is."""
    long_enough = [minutes for minutes in TPO_BLOCK_MINUTES if minutes * MINUTE >= length]
    return f", or pass block_minutes={long_enough[0]}" if long_enough else ""


def _with_lost(rows: Rows, cut: Cut) -> Rows:
    """Add whether a session has a lost candle with volume; set impossible prices of candles to null."""
    price = nw.col("close")
    is_possible = (
        has_prices(cut.grid, "low", "high", "close") & (price >= nw.col("low")) & (price <= nw.col("high"))
    )
    if STRADDLES in rows.collect_schema().names():
        is_possible = is_possible & ~nw.col(STRADDLES)
    is_lost = ~is_possible & (nw.col("volume") != 0).fill_null(value=True)
    checked = rows.with_columns(
        is_lost.cast(nw.Int8).alias(_LOST),
        *(nw.when(is_possible).then(nw.col(name)).alias(name) for name in ("open", "high", "low", "close")),
    )
    return (
        cut.placed(checked.rename({"timestamp": BUCKET}))
        .with_columns((nw.col(_LOST).max().over(*PROFILE) > 0).alias(_LOST))
        .drop("timestamp", "block_id")
        .rename({BUCKET: "timestamp"})
    )


def _pieces(rows: Rows, piece: Interval) -> Rows:
    """Return one candle per market and piece; open or close is null if candles at that time (one per side) disagree."""
    time, bucket = nw.col("timestamp"), [*MARKET, BUCKET]
    rows = rows.filter(~nw.col("low").is_null()).with_columns(bucket_start(time, piece).alias(BUCKET))
    is_first, is_last = time == time.min().over(*bucket), time == time.max().over(*bucket)
    ends = {"open": is_first, "close": is_last}
    rows = rows.with_columns(nw.when(is_end).then(nw.col(name)).alias(name) for name, is_end in ends.items())
    pieces = rows.group_by(*bucket).agg(
        nw.col("high").max(),
        nw.col("low").min(),
        *(nw.col(name).min() for name in ends),
        *(nw.col(name).max().alias(f"{name}_high") for name in ends),
    )
    agreed_ends = (
        nw.when(nw.col(name) == nw.col(f"{name}_high")).then(nw.col(name)).alias(name) for name in ends
    )
    return pieces.select(*MARKET, nw.col(BUCKET).alias("timestamp"), "high", "low", *agreed_ends)


def _volumes(rows: Rows, length: Interval, cut: Cut, spreading: str) -> Rows:
    """Return the volumes per market, bucket and price row; those of the sides are null without sides."""
    levels = (
        levels_of(rows, [*MARKET], bucket_start(nw.col("timestamp"), length), cut.grid, spreading)
        .rename({BUCKET: "timestamp"})
        .filter(~nw.col("price").is_null())  # drops the row for lost candles, whose volume is null by now
    )
    if "side" in rows.collect_schema().names():
        return levels
    return levels.with_columns(nw.lit(None, nw.Float64).alias(name) for name in SIDES)
