"""Candles that somebody else made: how long they are, and what none of them can be.

A candle starts on the grid of its length: at a multiple of it since the Unix epoch in UTC, a week on Monday. Of other
lengths above a day nobody says which day they are counted from, so they start at any midnight.

Examples
--------
>>> LENGTHS["1w"] // LENGTHS["1d"], length("HOUR") == 60 * length("1m")
(7, True)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

from tidytape.catalogue import Interval
from tidytape.errors import QueryError, did_you_mean
from tidytape.lake.ingest._fields import Kind
from tidytape.query import values
from tidytape.times import DAY, MILLISECOND, MONDAY, SECOND, WEEK

LENGTHS: Mapping[str, int] = MappingProxyType(
    {
        # What dumps have beside the intervals of the service.
        **{word: values.milliseconds(word, parameter="interval") * MILLISECOND
           for word in ("1s", "3m", "2h", "6h", "8h", "12h", "3d")},
        **{word: interval.seconds * SECOND for interval in Interval for word in (interval.alias, interval.value)},
    }
)  # fmt: skip
"""Lengths by the words for them, 1M (a month, which has no length) not among them. [ns]"""


def length(word: object) -> int:
    """Return the length that a word stands for. [ns]

    Raises
    ------
    QueryError
        If it stands for none.
    """
    if not isinstance(word, str) or word.strip() not in LENGTHS:
        raise QueryError(
            "interval",
            got=word,
            expected="one of " + ", ".join(sorted(LENGTHS, key=LENGTHS.__getitem__)),
            hint=did_you_mean(str(word), LENGTHS),
            code="INVALID_INTERVAL",
        )
    return LENGTHS[word.strip()]


def _length(text: pl.Expr) -> pl.Expr:
    number = text.cast(pl.Int64, strict=False)
    # A number is nanoseconds. What would be less than a second was meant in another unit.
    told = pl.when(number >= SECOND).then(number)
    return pl.coalesce(text.replace_strict(dict(LENGTHS), default=None, return_dtype=pl.Int64), told)


INTERVAL = Kind(_length, "an interval such as 1m, or a number of ns from 1e9")


def impossible(candles: pl.DataFrame) -> pl.DataFrame:
    """Return the candles with a ``reason`` where one cannot be.

    Parameters
    ----------
    candles : polars.DataFrame, one row per candle
        ``timestamp`` and ``interval`` [ns], ``open``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` and, if
        they are known, ``buy_volume`` [coin], ``quote_volume`` and ``buy_quote_volume`` [quote].

    Returns
    -------
    polars.DataFrame, same rows
        With ``reason``, null where there is nothing against it.

    Examples
    --------
    >>> candle = {"timestamp": 10**9, "interval": 60 * 10**9, "open": 1.0, "high": 2.0, "low": 1.0, "close": 2.0}
    >>> impossible(pl.DataFrame(candle | {"volume": 1.0}))["reason"].item()
    'no candle of its length starts at its time'
    """
    time, interval = pl.col("timestamp"), pl.col("interval")
    week = interval == WEEK
    grid = pl.when((interval > DAY) & ~week).then(DAY).otherwise(interval)
    first = pl.when(week).then(MONDAY).otherwise(0)
    low, high = pl.col("low"), pl.col("high")
    wrong = [
        ((time - first) % grid != 0, "no candle of its length starts at its time"),
        (pl.min_horizontal("open", "high", "low", "close") <= 0, "a price is not above 0"),
        (
            (low > pl.min_horizontal("open", "close")) | (high < pl.max_horizontal("open", "close")),
            "the open or the close is not between low and high",
        ),
        *(
            (pl.col(f"buy_{whole}") > pl.col(whole), f"the buy_{whole} is more than the {whole}")
            for whole in ("volume", "quote_volume")
            if {whole, f"buy_{whole}"} <= set(candles.columns)
        ),
    ]
    return candles.with_columns(
        reason=pl.coalesce(*(pl.when(found).then(pl.lit(reason)) for found, reason in wrong))
    )
