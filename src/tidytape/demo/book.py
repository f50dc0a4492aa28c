"""The demo's order books: a snapshot a minute of both venues, thicker the further from the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidytape.demo.exact import Bits, Floats, exp
from tidytape.demo.minutes import Minutes

if TYPE_CHECKING:
    import polars as pl

__all__ = ["books"]

_LEVELS = 12  # of each side
_STEP = 10  # between two levels [quote per coin]
_SIDES = ("BID", "ASK")


def books(minutes: Minutes, bits: Bits) -> pl.DataFrame:
    """Return snapshots of the books of both venues, one at the end of each minute.

    Parameters
    ----------
    minutes : Minutes
    bits : Bits

    Returns
    -------
    polars.DataFrame, one row per venue, minute, side and level
        The lake's table ``book``.
    """
    import polars as pl

    return pl.concat(
        [
            _book(minutes, minutes.spot, 1.5, bits).with_columns(
                exchange=pl.lit("DEMO_SPOT"), raw_symbol=pl.lit("BTCUSDT")
            ),
            _book(minutes, minutes.perpetual, 4.0, bits).with_columns(
                exchange=pl.lit("DEMO_PERP"), raw_symbol=pl.lit("BTC-PERP")
            ),
        ]
    )


def _book(minutes: Minutes, price: Floats, typical: float, bits: Bits) -> pl.DataFrame:
    import polars as pl

    shape = (len(minutes), len(_SIDES), _LEVELS)
    level = np.arange(_LEVELS) * _STEP
    below = np.floor(price / _STEP) * _STEP
    prices = np.stack([below[:, None] - level, below[:, None] + _STEP + level], axis=1)
    wobble = exp(bits.normal(prices.size) * 0.5).reshape(shape)
    sizes = np.rint(wobble * (typical * (1.0 + np.arange(_LEVELS) / 4.0)) * 1_000.0) / 1_000.0
    snapshot = np.repeat(np.arange(1, len(minutes) + 1), len(_SIDES) * _LEVELS)
    return pl.DataFrame(
        {
            "timestamp": np.repeat(minutes.end - 1_000_000, len(_SIDES) * _LEVELS),
            "last_id": snapshot,
            "is_snapshot": True,
            "side": pl.Series(_SIDES * len(minutes)).repeat_by(_LEVELS).explode(),
            "price": prices.ravel(),
            "size": sizes.ravel(),
            "sequence": np.arange(1, prices.size + 1),
        }
    )
