"""Merges candles to a coarser interval if there are more than a figure shows."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from tidytape.aggregate import resample
from tidytape.catalogue import Interval
from tidytape.errors import QueryError
from tidytape.plot._frame import read_frame, with_datetimes
from tidytape.plot._series import interval_named, market_frame
from tidytape.times import MINUTE, SECOND

MOST_CANDLES = 5_000

_PRICES = ("open", "high", "low", "close")
_TRADED = ("volume", "first_timestamp", "last_timestamp")


def coarse_interval(frame: object, parameter: str) -> tuple[Interval | None, str]:
    """Return the finest interval at which candles are few enough to be sent, and a note that names it.

    If the candles already are few enough, the interval is None and the note is empty.

    Raises
    ------
    QueryError
        If there are too many candles, and no interval is coarse enough and a multiple of theirs.
    """
    candles, identity = market_frame(frame, parameter, ("timestamp",), key=("timestamp",))
    if len(candles) <= MOST_CANDLES:
        return None, ""
    times = with_datetimes(candles, parameter).get_column("timestamp").drop_nulls()
    time = np.unique(times.dt.timestamp("ns").to_numpy().astype(np.int64))
    current = interval_named(identity.interval)
    current_length = current.seconds * SECOND if current else int(np.diff(time).min(initial=MINUTE))
    for interval in Interval:
        length = interval.seconds * SECOND
        if (
            length > current_length
            and length % current_length == 0
            and np.unique(time // length).size <= MOST_CANDLES
        ):
            return interval, f"Shown in {interval.alias}: the {len(candles):,} rows are too many to show"
    raise QueryError(
        parameter,
        got=f"{len(candles):,} candles",
        expected=f"at most {MOST_CANDLES:,}, or an interval of which another one is a multiple",
        hint="ask for a coarser interval",
    )


def coarser(frame: object, parameter: str, interval: Interval | None) -> Any:
    """Return candles, or open interest, of a coarser interval, as `tidytape.aggregate.resample` makes them."""
    if interval is None:
        return frame
    candles = with_datetimes(read_frame(frame, parameter, ["timestamp"]), parameter)
    dtype = candles.schema["timestamp"]
    if isinstance(dtype, nw.Datetime) and dtype.time_zone is None:
        candles = candles.with_columns(nw.col("timestamp").dt.replace_time_zone("UTC"))
    is_traded = bool({*_TRADED} & {*candles.columns}) or "amount_unit" not in candles.columns
    missing_columns = [
        name for name in (*_PRICES, *(_TRADED if is_traded else ())) if name not in candles.columns
    ]
    # `resample` needs all prices and volumes: fill the missing columns, and drop them from its result.
    fillers = {
        name: nw.lit(1.0)
        if name == "volume"
        else nw.lit(None, nw.Int64() if name in _TRADED else nw.Float64())
        for name in missing_columns
    }
    candles = candles.with_columns(nw.lit(interval.alias).alias("interval"), **fillers)
    candle_type = "TRADE_AGG" if "side" in candles.columns else "TRADE_SIDE_AGNOSTIC_AGG"
    resampled: Any = resample(
        candles.to_native(),
        data_type=candle_type if is_traded else "OPEN_INTEREST_AGG",
        interval=interval.alias,
    )
    coarse_candles = nw.from_native(resampled, eager_only=True)
    # `resample` drops the unit, but amounts of one unit still have it when they are added up.
    units = candles.get_column("amount_unit").unique().to_list() if "amount_unit" in candles.columns else []
    coarse_candles = coarse_candles.with_columns(
        nw.lit(unit).alias("amount_unit") for unit in units if len(units) == 1
    )
    return coarse_candles.drop(missing_columns).to_native()
