"""A warning for rates that change between settlements: then the market settles at other times."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import IS_REPEATED, Duration, finite, length, repeated
from tidytape.errors import SettlementWarning, warn
from tidytape.frames._door import MARKET
from tidytape.frames._joined import joined
from tidytape.frames._table import OpenTable
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.times import HOUR, MINUTE, SECOND

_NOISE: Final = 1e-9
"""Relative difference up to which two rates are equal."""


def warn_if_settled_between(
    table: OpenTable[Any],
    keys: list[str],
    rate: str,
    settled_every: Duration,
    *,
    anchor: TimeLike,
    interval: Duration | None,
) -> None:
    """Warn if a rate of an eager frame changes between two settlements; the warning points to the caller's caller."""
    every = arguments.duration("settled_every", settled_every)
    first = epoch_seconds(anchor, parameter="anchor") * SECOND % every
    has_length = interval is not None or "interval" in table.names
    row_length: Any = length(table, interval) if has_length else nw.lit(0, nw.Int64)
    time, low, high = nw.col("timestamp"), nw.col("__low"), nw.col("__high")
    rows = (
        repeated(table.rows.filter(~time.is_null()), [*keys, "timestamp"])
        .with_columns(__rate=finite(rate), __since=(time - first) % every)
        .filter(~nw.col("__rate").is_null(), nw.col(IS_REPEATED) == 0)
    )
    changed = (
        # Leave out rows that last beyond a settlement: they close with the next settlement's rate.
        rows.filter(nw.col("__since") + row_length <= every)
        .with_columns(__settled=time - nw.col("__since"))
        .group_by(*keys, "__settled")
        .agg(__low=nw.col("__rate").min(), __high=nw.col("__rate").max())
        .filter(high - low > _NOISE * nw.max_horizontal(high.abs(), low.abs()))
        .sort("__settled", *keys)
        .head(1)
        .select(*keys, "__settled")
        .collect()
    )
    if len(changed) == 0:
        return
    rows_of_market = joined(rows, changed.lazy().select(*keys), on=keys, how="inner") if keys else rows
    values = dict(zip(keys, changed.row(0)[:-1], strict=True))
    shown_columns = [name for name in MARKET if values.get(name)] or [name for name in keys if values[name]]
    series_name = ", ".join(f"{name}={values[name]!r}" for name in shown_columns)
    own_rows = rows_of_market.select("timestamp", "__rate").sort("timestamp").collect()
    changes = _changes(own_rows["timestamp"].to_list(), own_rows["__rate"].to_list(), changed.row(0)[-1])
    warn(
        SettlementWarning(
            "settled_every",
            got=settled_every,
            expected="the time between settlements, in which the rate stays the same",
            hint=(f"{rate} of {series_name} " if series_name else f"{rate} ") + changes,
        )
    )


def _changes(times: list[int], rates: list[float], since: int) -> str:
    """Return a text that says when a rate first changes after ``since``, and the shortest time between its changes."""
    change_times = [
        time
        for time, rate, rate_before in zip(times[1:], rates[1:], rates, strict=False)
        if abs(rate - rate_before) > _NOISE * max(abs(rate), abs(rate_before))
    ]
    first = next(time for time in change_times if time > since)
    description = f"changes at {datetime.fromtimestamp(first / SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"
    shortest = min((next_time - time for time, next_time in pairwise(change_times)), default=None)
    if shortest is None:
        return description
    amount = f"{shortest // HOUR}h" if shortest % HOUR == 0 else f"{shortest / MINUTE:g}m"
    advice = f"if the market settles so often, pass settled_every={amount!r}"
    return f"{description}, and the shortest time between two changes is {amount}; {advice}"
