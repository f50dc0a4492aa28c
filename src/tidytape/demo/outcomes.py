"""The demo's prediction market: whether its coin ends above a price, traded as two outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidytape.demo.exact import Bits, Floats
from tidytape.demo.market import START_NS
from tidytape.demo.minutes import Minutes
from tidytape.times import DAY, MINUTE

if TYPE_CHECKING:
    import polars as pl

__all__ = ["prediction_market", "trades"]

_EXCHANGE = "DEMO_EVENTS"
_SYMBOLS = ("1001", "1002")
_EVERY = 10  # minutes between two trades of an outcome
_PRICE = 60_000.0


def prediction_market() -> pl.DataFrame:
    """Return the report of the one prediction market.

    Returns
    -------
    polars.DataFrame, one row
        The lake's table ``prediction_markets``.
    """
    import polars as pl

    return pl.DataFrame(
        [
            {
                "exchange": _EXCHANGE,
                "condition_id": "0xdemo",
                "reported": START_NS,
                "raw_symbols": list(_SYMBOLS),
                "event_slug": "bitcoin-on-9-august",
                "slug": "above-60000",
                "question": "Will one bitcoin be above 60,000 on 9 August 2024?",
                "outcomes": ["Yes", "No"],
                "order_price_min_tick_size": 0.01,
                "closed": False,
                "available_since": START_NS,
                "available_to": START_NS + 2 * DAY,
            }
        ]
    )


def trades(minutes: Minutes, bits: Bits) -> pl.DataFrame:
    """Return trades of both outcomes; the price of one outcome is what is missing to one of the other.

    Parameters
    ----------
    minutes : Minutes
    bits : Bits

    Returns
    -------
    polars.DataFrame, one row per trade
        The lake's table ``trades``.
    """
    import polars as pl

    likely = np.rint(50.0 + (minutes.spot[_EVERY - 1 :: _EVERY] - _PRICE) / 60.0)
    cents = np.minimum(np.maximum(likely, 2.0), 98.0)
    at = minutes.end[_EVERY - 1 :: _EVERY] - MINUTE // 2
    return pl.concat(
        [
            _outcome(symbol, at, price, bits)
            for symbol, price in zip(_SYMBOLS, (cents, 100.0 - cents), strict=True)
        ]
    )


def _outcome(symbol: str, at: np.ndarray, cents: Floats, bits: Bits) -> pl.DataFrame:
    import polars as pl

    amount = np.rint(1.0 + 200.0 * bits.uniform(at.size))
    buys = bits.uniform(at.size) < 0.5
    number = np.arange(1, at.size + 1)
    return pl.DataFrame(
        {
            "timestamp": at,
            "sequence": number,
            "price": cents / 100.0,
            "amount": amount,
            "quote_amount": cents * amount / 100.0,
        }
    ).with_columns(
        exchange=pl.lit(_EXCHANGE),
        raw_symbol=pl.lit(symbol),
        id=pl.Series(number).cast(pl.String),
        side=pl.when(pl.Series(buys)).then(pl.lit("BUY")).otherwise(pl.lit("SELL")),
    )
