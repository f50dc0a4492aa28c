"""Candles and minutes as spans of time: which of them tell of the same time, and which of those count.

Every frame here has ``exchange``, ``raw_symbol``, ``timestamp`` and ``interval``, the start and the length of a span.
[ns since the epoch; ns]
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

__all__ = ["MARKET", "covered", "met", "tiled"]

MARKET = ["exchange", "raw_symbol"]

_START, _LENGTH = pl.col("timestamp"), pl.col("interval")


def tiled(candles: pl.LazyFrame, lengths: Collection[int]) -> pl.LazyFrame:
    """Return candles of several lengths without those that tell of the same time as others.

    A candle gives way to shorter ones that fill it wholly; of shorter ones that do not, it takes the place. So no time
    is counted twice, and none is left out that any candle tells of whole.

    Parameters
    ----------
    candles : polars.LazyFrame, n rows
        Those of one length do not overlap.
    lengths : collection of int
        The lengths to use. [ns]

    Returns
    -------
    polars.LazyFrame, at most n rows
        The same columns.
    """
    shortest, *longer = sorted(lengths) or [0]
    tiles = candles.filter(shortest == _LENGTH)
    for length in longer:
        whole = covered(candles.filter(length == _LENGTH), by=tiles)
        # Collected, for a plan of all lengths would read the shorter ones anew for each longer one.
        used = whole.filter(pl.col("covered") < _LENGTH).drop("covered").collect(engine="streaming").lazy()
        left = covered(tiles, by=used).filter(pl.col("covered") == 0).drop("covered")
        tiles = pl.concat([left, used]).collect(engine="streaming").lazy()
    return tiles


def covered(spans: pl.LazyFrame, *, by: pl.LazyFrame) -> pl.LazyFrame:
    """Return spans with ``covered``, how much of each lies in other spans, which do not overlap. [ns]"""
    order = [*MARKET, "timestamp"]
    others = by.select(*order, "interval").sort(order)
    before = (_LENGTH.cum_sum() - _LENGTH).over(MARKET)
    others = others.select(*MARKET, start="timestamp", length="interval", before=before).sort("start")
    within = pl.col("before") + pl.min_horizontal("length", pl.col("at") - pl.col("start"))

    def until(frame: pl.LazyFrame, at: pl.Expr, name: str) -> pl.LazyFrame:
        found = (
            frame.with_columns(at=at)
            .sort("at")
            .join_asof(others, left_on="at", right_on="start", by=MARKET, check_sortedness=False)
        )
        return found.with_columns(within.fill_null(0).alias(name)).drop("at", "start", "length", "before")

    found = until(until(spans, _START, "since"), _START + _LENGTH, "covered")
    return found.with_columns(pl.col("covered") - pl.col("since")).drop("since")


def met(spans: pl.LazyFrame, *, by: pl.LazyFrame) -> pl.LazyFrame:
    """Return spans with ``met``, whether any other span starts inside of each."""
    starts = by.select(*MARKET, start="timestamp").sort("start")
    found = spans.sort("timestamp").join_asof(
        starts, left_on="timestamp", right_on="start", by=MARKET, strategy="forward", check_sortedness=False
    )
    return found.with_columns(met=(pl.col("start") < _START + _LENGTH).fill_null(value=False)).drop("start")
