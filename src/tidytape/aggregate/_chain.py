"""Option quotes to the chain of each bucket."""

from __future__ import annotations

from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._smile import measured
from tidytape.frames.buckets import bucket_start
from tidytape.frames.door import BUCKET
from tidytape.frames.table import Table
from tidytape.times import YEAR, interval_of

Frame = nw.LazyFrame[Any]

CHAIN: Final = ("exchange", "coin", BUCKET)
"""What names one chain."""

EXPIRY: Final = (*CHAIN, "expiry")
"""What names one expiry of a chain, and so one smile."""

_MEASURED = ("strike", "implied_volatility", "forward")
_NEEDED = ("exchange", "raw_symbol", "timestamp", "coin", "option_type", "expiry", *_MEASURED)


def opened(quotes: IntoFrameT) -> Table[IntoFrameT]:
    """Return the lake's ``option_quotes`` opened; MissingColumnError if a needed column is absent."""
    return Table.opened(quotes, _NEEDED, times=["timestamp", "expiry"])


def chain(quotes: Frame, interval: str) -> Frame:
    """Return the chain of each bucket: the last quote of every option that is still alive at the last of them.

    A quote without a positive strike, volatility and forward is none.

    Parameters
    ----------
    quotes : frame, n rows
        The rows of what `opened` returns.
    interval : str
        Name or alias of an interval.

    Returns
    -------
    frame, one row per option and bucket
        The needed columns, the bucket, ``life``, float64, from the chain's last quote to the expiry [ns], and what
        `measured` adds, of the quote itself.
    """
    bucket = bucket_start(nw.col("timestamp"), interval_of(interval))
    time, expiry = nw.col("timestamp"), nw.col("expiry")
    known = [nw.col(name).is_finite() & (nw.col(name) > 0) for name in _MEASURED]
    chains = (
        quotes.select(*_NEEDED, bucket.alias(BUCKET))
        .filter(*known)
        .with_columns(time.max().over("exchange", "raw_symbol", BUCKET).alias("last"))
        .filter(time == nw.col("last"))
        .with_columns(time.max().over(*CHAIN).alias("last"))
        .filter(expiry > nw.col("last"))
        .with_columns((expiry - nw.col("last")).cast(nw.Float64()).alias("life"))
    )
    return measured(chains, (expiry - time).cast(nw.Float64()) / float(YEAR))
