"""What a frame says of its own values, from the service where it sends that, else from what was asked and when."""

from __future__ import annotations

import polars as pl

from tidytape import wire
from tidytape.catalogue import AmountUnit, TPOSession
from tidytape.query import PointsQuery
from tidytape.schema import schema_of
from tidytape.times import DAY, SECOND

__all__ = ["described"]

_LATEST = 2**63 - 1


def described(frame: pl.DataFrame, query: PointsQuery, *, answered_at: float | None) -> pl.DataFrame:
    """Return a frame with its descriptors filled in.

    Parameters
    ----------
    frame : polars.DataFrame
        In the schema of its data type. What it says of itself stays as it is.
    query : PointsQuery
        What was asked. Amounts count coins, or US dollars where that was asked for or exchanges were joined, unless the
        service sent a unit that we do not know; levels are as high as was asked for.
    answered_at : float or None
        By the clock of the service: intervals that had ended by then are final where it did not send up to when the
        market is known. None of a frame that was kept because all of it was final. [s since the epoch]

    Returns
    -------
    polars.DataFrame, same rows and columns
    """
    descriptors = schema_of(query.type[0]).descriptors
    in_usd = query.quote is not None or query.group_by is not None
    size = None if query.block_size is None else float(query.block_size)
    unit: pl.Expr = pl.lit(AmountUnit.USD if in_usd else AmountUnit.COIN)
    if wire.SENT_UNIT in frame.columns:  # what the service calls by another name is not what was asked for
        unit = pl.when(pl.col(wire.SENT_UNIT).is_null()).then(unit)
    asked = {
        "amount_unit": unit,
        "block_size": pl.lit(size, pl.Float64),
        "is_final": pl.lit(True),
    }
    if answered_at is not None and "is_final" in descriptors:
        now = min(max(int(answered_at * SECOND), 0), _LATEST)  # a header may name any year
        until = pl.from_epoch(pl.lit(now), "ns").dt.replace_time_zone("UTC")
        if wire.DATA_UNTIL in frame.columns:
            until = pl.coalesce(wire.DATA_UNTIL, until)
        asked["is_final"] = wire.finality(frame.columns, until=until, length=_length(query))
    return frame.with_columns(
        pl.coalesce(name, asked[name]).cast(frame.schema[name]).alias(name)
        for name in descriptors
        if frame[name].null_count()
    )


def _length(query: PointsQuery) -> pl.Expr:
    """Return how long the interval of each row lasts; of a market profile the session. [ns]"""
    start = pl.col("timestamp")
    if query.tpo_session is TPOSession.MONTHLY:
        return (start.dt.offset_by("1mo") - start).dt.total_nanoseconds()
    if query.tpo_session is not None:
        return pl.lit({TPOSession.DAILY: DAY, TPOSession.WEEKLY: 7 * DAY}[query.tpo_session])
    assert query.interval is not None  # only trades have none, and they have no intervals
    return pl.lit(query.interval.seconds * SECOND)
