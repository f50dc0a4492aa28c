"""The demo's trades minute by minute: what all its other data follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidytape.demo.exact import Floats, Integers
from tidytape.demo.market import START_NS
from tidytape.times import MINUTE

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Minutes", "minutes_of"]


@dataclass(frozen=True, slots=True)
class Minutes:
    """The whole minutes of a market.

    Attributes
    ----------
    start : array of int64
        Where each begins. [ns since 1970, UTC]
    spot, perpetual : array of float64
        Last price of each venue in each minute, or before it where nothing traded. [quote per coin]
    """

    start: Integers
    spot: Floats
    perpetual: Floats

    @property
    def end(self) -> Integers:
        """Where each minute ends, and its last prices are known. [ns since 1970, UTC]"""
        return self.start + MINUTE

    def __len__(self) -> int:
        return len(self.start)


def minutes_of(tape: pl.DataFrame, *, start_ns: int = START_NS) -> Minutes:
    """Return the minutes of trades.

    Parameters
    ----------
    tape : polars.DataFrame
        What `tidytape.demo.market.trades` returned for both venues.
    start_ns : int
        Where its market begins. [ns since 1970, UTC]

    Returns
    -------
    Minutes
    """
    import polars as pl

    minute = (pl.col("timestamp") - start_ns) // MINUTE
    last = tape.group_by("exchange", minute=minute, maintain_order=True).agg(pl.col("price").last())
    count = int(last["minute"].max()) + 1  # type: ignore[arg-type]  # an integer column that is not empty
    every = pl.DataFrame({"minute": pl.int_range(count, eager=True)})

    def closes(exchange: str) -> Floats:
        known = every.join(last.filter(exchange=exchange), on="minute", how="left", maintain_order="left")
        filled = known["price"].fill_null(strategy="forward").fill_null(strategy="backward")
        return np.asarray(filled.to_numpy(), dtype=np.float64)

    return Minutes(start_ns + every["minute"].to_numpy() * MINUTE, closes("DEMO_SPOT"), closes("DEMO_PERP"))
