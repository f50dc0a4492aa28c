"""The descriptors of a series as they were sent, and which intervals are final.

An interval is final when it ends no later than what its market is known up to.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from tidytape.catalogue import AmountUnit, Interval
from tidytape.schema import schema_of
from tidytape.times import SECOND

__all__ = ["DATA_UNTIL", "SENT_UNIT", "finality", "with_finality", "with_known"]

DATA_UNTIL = "data_until"
"""The column of a decoded frame that says up to when the market of a row is known, where the service sent it."""

SENT_UNIT = "series_amount_unit"
"""The column of a decoded frame that says which unit the service sent, where it is not one we know."""

_EARLIEST = -(2**62)  # a length can be subtracted from it without leaving int64
_LENGTHS = {
    name: interval.seconds * SECOND for interval in Interval for name in (interval.value, interval.alias)
}


def with_known(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose amount units and block sizes are null where they are not ones we know.

    A unit that we do not know is kept as it was sent in the column `SENT_UNIT`, if there is one.
    """
    size, unit = pl.col("block_size"), pl.col("amount_unit").cast(pl.String)
    is_known = unit.is_in([one.value for one in AmountUnit])
    if "block_size" in frame.columns:
        frame = frame.with_columns(pl.when(size.is_finite() & (size > 0)).then(size))
    if "amount_unit" not in frame.columns:
        return frame
    sent = frame.select(pl.when(~is_known & (unit != "")).then(unit).alias(SENT_UNIT)).to_series()
    frame = frame.with_columns(pl.when(is_known).then("amount_unit"))
    return frame if sent.null_count() == len(sent) else frame.with_columns(sent)


def finality(columns: Collection[str], *, until: pl.Expr, length: pl.Expr) -> pl.Expr:
    """Return whether the interval of each row is final.

    Parameters
    ----------
    columns : collection of str
        Columns of the frame. ``period_end`` counts before ``timestamp`` and ``length`` where it is known.
    until : polars expression, timestamp
        Up to when the market is known.
    length : polars expression, int64
        Length of the interval. [ns]

    Returns
    -------
    polars expression, bool
        Null where the end of the interval or ``until`` is null.
    """
    known = until.dt.epoch("ns").clip(lower_bound=_EARLIEST)
    ended = pl.col("timestamp").dt.epoch("ns") <= known - length
    if "period_end" in columns:
        ended = pl.coalesce(pl.col("period_end") <= until, ended)
    return ended.alias("is_final")


def with_finality(frame: pl.DataFrame, data_type: str) -> pl.DataFrame:
    """Return a decoded frame with ``is_final`` as far as the service sent what it follows from."""
    schema = schema_of(data_type)
    if DATA_UNTIL not in frame.columns or "is_final" not in schema.names:
        return frame
    length: pl.Expr = pl.lit(None, pl.Int64)
    if "period_end" not in schema.names:  # a session may be longer than the interval
        for name in frame["interval"].unique().drop_nulls().cast(pl.String):
            length = pl.when(pl.col("interval") == name).then(_LENGTHS.get(name)).otherwise(length)
    return frame.with_columns(finality(frame.columns, until=pl.col(DATA_UNTIL), length=length))
