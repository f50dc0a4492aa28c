"""The demo's option chain: calls and puts on one coin, quoted once an hour on a smile that leans to the puts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from tidytape.demo.exact import Bits, Floats, Integers
from tidytape.demo.minutes import Minutes
from tidytape.times import SECOND, YEAR

if TYPE_CHECKING:
    import polars as pl

__all__ = ["chain"]

_EXPIRIES = {
    "9AUG24": datetime(2024, 8, 9, 8, tzinfo=UTC),
    "16AUG24": datetime(2024, 8, 16, 8, tzinfo=UTC),
    "30AUG24": datetime(2024, 8, 30, 8, tzinfo=UTC),
    "27SEP24": datetime(2024, 9, 27, 8, tzinfo=UTC),
    "27DEC24": datetime(2024, 12, 27, 8, tzinfo=UTC),
}
_STRIKES = np.arange(40_000.0, 90_001.0, 2_500.0)
_KINDS = ("CALL", "PUT")


def chain(minutes: Minutes, bits: Bits) -> pl.DataFrame:
    """Return option quotes.

    Parameters
    ----------
    minutes : Minutes
    bits : Bits

    Returns
    -------
    polars.DataFrame, one row per option and whole hour before its expiry
        The lake's table ``option_quotes``.
    """
    import polars as pl

    hours, spot = minutes.start[::60], minutes.spot[::60]
    level = 50.0 + np.cumsum(bits.normal(hours.size)) * 0.4
    quoted = [
        _expiry(hours, spot, level, int(expiry.timestamp()) * SECOND, bits).with_columns(
            raw_symbol=pl.format(
                f"BTC-{name}-{{}}-{{}}", pl.col("strike").cast(pl.Int64), pl.col("option_type").str.head(1)
            )
        )
        for name, expiry in _EXPIRIES.items()
    ]
    names = {"exchange": pl.lit("DEMO_OPTIONS"), "coin": pl.lit("BTC")}
    return pl.concat(quoted).filter(pl.col("timestamp") < pl.col("expiry")).with_columns(**names)


def _expiry(hours: Integers, spot: Floats, level: Floats, expiry: int, bits: Bits) -> pl.DataFrame:
    import polars as pl

    years = np.maximum(expiry - hours, SECOND) / YEAR
    forward = np.rint(spot * (1.0 + 0.06 * years) * 100.0) / 100.0
    away = (_STRIKES / forward[:, None] - 1.0) / np.sqrt(years + 0.02)[:, None]
    smile = level[:, None] + 8.0 * np.sqrt(years)[:, None] - 7.0 * away + 9.0 * away * away
    held = np.rint((20.0 + 400.0 * bits.uniform(_STRIKES.size * len(_KINDS))) * 10.0) / 10.0
    one = pl.DataFrame(
        {
            "timestamp": np.repeat(hours, _STRIKES.size),
            "strike": np.tile(_STRIKES, hours.size),
            "expiry": expiry,
            "implied_volatility": np.rint(smile * 100.0).ravel() / 100.0,
            "forward": np.repeat(forward, _STRIKES.size),
        }
    )
    return pl.concat(
        one.with_columns(
            option_type=pl.lit(kind),
            open_interest=pl.Series(np.tile(held[number :: len(_KINDS)], hours.size)),
        )
        for number, kind in enumerate(_KINDS)
    )
