"""Points to points of a coarser interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.catalogue import Interval
from tidytape.errors import QueryError
from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start, interval_of
from tidytape.frames.doors import BUCKET, Frame, closed, opened
from tidytape.schema import schema_of

__all__ = [
    "CANDLES",
    "payload_of",
    "reduced",
    "resample",
    "series_of",
    "summed",
    "traded",
    "with_windows",
    "without_windows",
]

CANDLES: Final = ("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG")
"""The candle types."""

_ABLE = (
    *CANDLES,
    "OPEN_INTEREST_AGG",
    "FUNDING_RATE_AGG",
    "LIQUIDATION_AGG",
    "VOLUME_PROFILE_AGG",
    "CME_OPEN_INTEREST_AGG",
)
_IDLE = "__idle"
_LATEST, _EARLIEST = 2**63 - 1, -(2**63)


def resample(
    points: IntoFrameT, /, *, data_type: str, interval: str, source: str | None = None
) -> IntoFrameT:
    """Points of a coarser interval: what aggregating their raw events at it would give.

    Opens are those of the first point of the interval that has one, closes of the last; highs and lows the extremes;
    volumes and liquidations summed, in a way that does not depend on the order of the rows. A candle that only fills a
    gap (no volume, no first trade) counts where its interval has no other.

    Parameters
    ----------
    points : frame, n rows, key (series, timestamp) or (series, timestamp, price), in any order
        Schema of ``data_type``, with ``timestamp``, ``first_timestamp`` and ``last_timestamp`` as int64
        [ns since the epoch]. Of the columns that name a series, those it has count.
    data_type : str
        A candle type, ``OPEN_INTEREST_AGG``, ``FUNDING_RATE_AGG``, ``LIQUIDATION_AGG``, ``VOLUME_PROFILE_AGG`` or
        ``CME_OPEN_INTEREST_AGG``.
    interval : str
        Name or alias of the interval wanted, a whole multiple of that of the points.
    source : str, optional
        Interval of the points; where it is left out, it is taken to be fine enough.

    Returns
    -------
    frame, one row per series and interval (and price) with a point; of the same kind as ``points``
        The columns that name a series, ``interval`` if there was one, ``timestamp`` int64, start of the interval [ns],
        and the payload of the type in its units. Sorted by that key where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown or no whole multiple of ``source``, or the points of the type cannot be joined.

    Examples
    --------
    >>> import polars as pl
    >>> minutes = pl.DataFrame(
    ...     {
    ...         "exchange": "X",
    ...         "raw_symbol": "BTCUSDT",
    ...         "side": "BUY",
    ...         "timestamp": [0, 60_000_000_000, 300_000_000_000],
    ...         "liquidations": [0.1, 0.2, 4.0],
    ...     }
    ... )
    >>> resample(minutes, data_type="LIQUIDATION_AGG", interval="5m").select("timestamp", "liquidations").rows()
    [(0, 0.3), (300000000000, 4.0)]
    """
    wanted = interval_of(interval)
    _require(data_type, wanted, source)
    schema = schema_of(data_type)
    columns = payload_of(data_type)
    needed = [*columns, "timestamp", *(name for name in ("side", "price") if name in schema.key)]
    frame = with_windows(points, needed)
    series = [name for name in series_of(frame, data_type) if name != "interval"]
    level = ["price"] if "price" in schema.key else []
    keys = [*series, BUCKET, *level]
    frame = frame.with_columns(bucket_start(nw.col("timestamp"), wanted).alias(BUCKET))
    if data_type in CANDLES:
        frame = traded(frame, keys)
    joined = reduced(frame, keys, columns, first="timestamp", last="timestamp").rename({BUCKET: "timestamp"})
    if "interval" in frame.collect_schema().names():
        joined = joined.with_columns(nw.lit(str(wanted)).alias("interval"))
    named = series_of(joined, data_type)
    payload = [name for name in schema.names if name in {*columns, *level, "volume"} and name not in named]
    return without_windows(
        joined.select(*named, "timestamp", *payload).sort(*series, "timestamp", *level), like=points
    )


def _require(data_type: str, wanted: Interval, source: str | None) -> None:
    schema_of(data_type)
    if data_type not in _ABLE:
        raise QueryError(
            "data_type",
            got=data_type,
            expected="one of " + ", ".join(_ABLE),
            hint="aggregate its raw events at the interval wanted",
            code="UNSUPPORTED",
        )
    if source is not None and wanted.seconds % interval_of(source).seconds:
        raise QueryError(
            "interval",
            got=wanted.alias,
            expected=f"a whole multiple of {interval_of(source).alias}",
            code="INVALID_INTERVAL",
        )


# --- points joined to one, by whatever they have in common ----------------------------------------------------------


def with_windows(native: Any, needed: Iterable[str]) -> Any:
    """Return the native frame opened; of pyarrow, whose windows lose the order of the rows, for polars to compute."""
    frame: Any = opened(native, needed)
    arrow = isinstance(frame, nw.DataFrame) and frame.implementation.is_pyarrow()
    return frame.lazy("polars") if arrow else frame


def without_windows(frame: Any, *, like: IntoFrameT) -> IntoFrameT:
    """Return the native frame of the kind of ``like``."""
    return closed(frame.collect("pyarrow") if nw.dependencies.is_pyarrow_table(like) else frame, like=like)


def series_of(frame: Frame, data_type: str) -> list[str]:
    """Return the columns of a frame that name its series, in the order of the schema."""
    present = frame.collect_schema().names()
    return [name for name in schema_of(data_type).identity if name in present]


def payload_of(data_type: str) -> list[str]:
    """Return the columns of a type that are neither identity nor key, without what is derived from others."""
    schema = schema_of(data_type)
    named = {*schema.identity, *schema.key}
    derived = {"volume"} if data_type == "VOLUME_PROFILE_AGG" else set()
    return [name for name in schema.names if name not in named | derived]


def traded(frame: Frame, keys: Sequence[str]) -> Frame:
    """Return candles without those that only fill a gap, where another of the same keys does not."""
    fills = nw.col("first_timestamp").is_null() & (nw.col("volume") == 0)
    idle = nw.when(fills).then(nw.lit(1)).otherwise(nw.lit(0)).alias(_IDLE)
    return frame.with_columns(idle).filter(nw.col(_IDLE) == nw.col(_IDLE).min().over(*keys))


def reduced(frame: Frame, keys: Sequence[str], columns: Iterable[str], *, first: str, last: str) -> Frame:
    """Return one row per keys, with the columns joined by the rule that their names say.

    Opens are the first that is not null by the whole numbers in column ``first``, closes the last by those in ``last``;
    no two rows of the same keys have the same. What is null in every row stays null.
    """
    rules = {name: _rule(name) for name in columns}
    ends = {
        name: (nw.col(first), _LATEST) if rule == "open" else (nw.col(last), _EARLIEST)
        for name, rule in rules.items()
        if rule in {"open", "close"}
    }
    # Not `first` and `last` in a group: pandas and pyarrow know only one order there.
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
    """Return one row per keys, with the sums of the columns; of nothing but nulls null."""
    return _joined(frame, keys, dict.fromkeys(columns, "sum"))


def _rule(column: str) -> str:
    """Return what a column's name says of how points join: open, high, low, close or sum."""
    word = {"first_timestamp": "low", "last_timestamp": "high"}.get(column, column.rpartition("_")[2])
    return word if word in {"open", "high", "low", "close"} else "sum"


def _joined(frame: Frame, keys: Sequence[str], rules: dict[str, str]) -> Frame:
    sums = [name for name, rule in rules.items() if rule == "sum"]
    lows = [name for name, rule in rules.items() if rule == "low"]
    highs = [name for name, rule in rules.items() if rule in {"open", "high", "close"}]
    if sums:
        frame = frame.with_columns(part for name in sums for part in exact.parts(name))
    parts = [
        *(nw.col(name).max() for name in highs),
        *(nw.col(name).min() for name in lows),
        *([exact.summed(*sums)] if sums else []),
        *(nw.col(name).count().alias(f"__count_{name}") for name in sums),
    ]
    results = {
        name: nw.when(nw.col(f"__count_{name}") > 0).then(exact.total(name)).alias(name) for name in sums
    }
    points = (
        frame.group_by(*keys).agg(*parts).select(*keys, *(results.get(name, nw.col(name)) for name in rules))
    )
    if {"buy_volume", "sell_volume"} <= set(rules):
        points = points.with_columns((nw.col("buy_volume") + nw.col("sell_volume")).alias("volume"))
    return points
