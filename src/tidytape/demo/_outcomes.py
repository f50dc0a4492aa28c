"""The demo's prediction market: its two outcomes are that a coin ends above a price, or does not.

The price of an outcome is its probability in a Black-Scholes model, plus noise, rounded to cents.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tidytape.demo._hidden import TAIL, Hidden
from tidytape.demo._hours import SECONDS
from tidytape.demo._market import EVENTS, START_NS
from tidytape.demo._noise import Reverting, generator
from tidytape.times import DAY, MILLISECOND, SECOND, YEAR

_SYMBOLS = ("1001", "1002")
_COIN, _STRIKE = "BTC", 60_000.0
_RESOLVES = START_NS + 25 * DAY  # 2024-09-01T00:00Z
_VOLATILITY = 0.55  # annualised [1]
_ORDERS = 600.0  # orders of a usual day
_FIRST_ID = 100_000_001


def prediction_market() -> pl.DataFrame:
    """Return the description of the demo's only prediction market.

    Returns
    -------
    polars.DataFrame, one row
        The lake's table ``prediction_markets``.
    """
    return pl.DataFrame(
        [
            {
                "exchange": EVENTS,
                "condition_id": "0xdemo",
                "reported": START_NS,
                "raw_symbols": list(_SYMBOLS),
                "event_slug": "bitcoin-at-the-end-of-august",
                "slug": "above-60000",
                "question": "Will one bitcoin be above 60,000 at the end of August 2024?",
                "outcomes": ["Yes", "No"],
                "order_price_min_tick_size": 0.01,
                "closed": False,
                "available_since": START_NS,
                "available_to": _RESOLVES,
            }
        ]
    )


class Outcomes:
    """The trades of both outcomes, day by day.

    Parameters
    ----------
    seed : int, >= 0
        Seed of the hidden market.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._count = 0
        # Difference between the traders' opinion and the model. [cents]
        self._opinion = Reverting(seed, "opinion", memories=[240.0], deviations=[1.2])

    def day(self, hidden: Hidden) -> pl.DataFrame:
        """Return trades of the next day; the prices of both outcomes add up to one.

        Parameters
        ----------
        hidden : Hidden
            The day.

        Returns
        -------
        polars.DataFrame, one row per trade; empty after the market has resolved
            The lake's table ``trades``.
        """
        from scipy.special import ndtr

        draws = generator(self._seed, hidden.number, "outcomes")
        second = np.repeat(np.arange(SECONDS), draws.poisson(hidden.busy[_COIN] * (_ORDERS / SECONDS)))
        at = hidden.start + second * SECOND + draws.integers(1_000, size=second.size) * MILLISECOND
        years = np.maximum(_RESOLVES - at, 60 * SECOND) / YEAR
        deviation = _VOLATILITY * np.sqrt(years)
        probability = ndtr(np.log(hidden.price[_COIN][TAIL + second] / _STRIKE) / deviation - deviation / 2.0)
        opinion = self._opinion.day(hidden.number, SECONDS // 60)[second // 60, 0]
        buys_yes = draws.random(second.size) < 0.5
        cents = np.rint(100.0 * probability + opinion + np.where(buys_yes, 0.4, -0.4))
        cents = np.clip(cents, 1.0, 99.0)
        amount = np.rint(np.clip(40.0 * np.exp(1.3 * draws.normal(size=second.size)), 1.0, 20_000.0))
        is_yes = draws.random(second.size) < 0.6
        number = self._count + np.arange(1, second.size + 1)
        self._count += second.size
        price = np.where(is_yes, cents, 100.0 - cents)
        return (
            pl.DataFrame(
                {
                    "timestamp": at,
                    "sequence": number,
                    "id": number + (_FIRST_ID - 1),
                    "is_yes": is_yes,
                    "buys": buys_yes == is_yes,
                    "price": price / 100.0,
                    "amount": amount,
                    "quote_amount": price * amount / 100.0,
                }
            )
            .filter(pl.col("timestamp") < _RESOLVES)
            .sort("timestamp", "sequence")
            .select(
                pl.exclude("is_yes", "buys", "id"),
                exchange=pl.lit(EVENTS),
                raw_symbol=pl.when("is_yes").then(pl.lit(_SYMBOLS[0])).otherwise(pl.lit(_SYMBOLS[1])),
                id=pl.col("id").cast(pl.String),
                side=pl.when("buys").then(pl.lit("BUY")).otherwise(pl.lit("SELL")),
            )
        )
