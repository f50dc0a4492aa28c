"""The price of each market: the hidden price, a little late, plus a distance that returns to its usual value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidytape.demo._hidden import TAIL, Hidden
from tidytape.demo._hours import MINUTES, SECONDS, silent
from tidytape.demo._market import DemoMarket
from tidytape.demo._noise import Booleans, Floats, Reverting

_LASTING, _SPREAD = (
    [30.0, 3.0],
    [0.00006, 0.00002],
)  # random parts of the distance: memory [min], deviation [1]
_SWING = 0.00025  # how much one standard deviation of the mood moves the distance [1]
_OVERSHOOT = 0.03  # share of the trend of the price that moves the distance
_LOOK_BACK = TAIL // 60


@dataclass(frozen=True, slots=True)
class Quoted:
    """One market on one day.

    Attributes
    ----------
    market : DemoMarket
        The market.
    hidden : Hidden
        The day.
    middle : array, `TAIL` + 86,401
        Middle between best bid and ask, at the beginning of each second and at the end of the day, `TAIL` seconds of
        the day before first. [quote per coin]
    recorded : array of bool, 1,440
        Whether each minute is recorded, because the exchange is not silent.
    """

    market: DemoMarket
    hidden: Hidden
    middle: Floats
    recorded: Booleans

    @property
    def closes(self) -> Floats:
        """The middle price at the end of each minute. [quote per coin]"""
        return self.middle[TAIL + 60 :: 60]

    @property
    def premiums(self) -> Floats:
        """The relative distance of the middle from the hidden price at the end of each minute. [1]"""
        return self.closes / self.hidden.price[self.market.coin][TAIL + 60 :: 60] - 1.0

    def reports(self, columns: Mapping[str, np.ndarray]) -> pl.DataFrame:
        """Return columns with one value per minute as rows of a table, without silent minutes."""
        return (
            pl.DataFrame(dict(columns))
            .filter(pl.Series(self.recorded))
            .with_columns(exchange=pl.lit(self.market.exchange), raw_symbol=pl.lit(self.market.raw_symbol))
        )


class Quotes:
    """The prices of one market, day by day.

    Parameters
    ----------
    market : DemoMarket
    seed : int, >= 0
        That of the hidden market.
    """

    def __init__(self, market: DemoMarket, seed: int) -> None:
        self._market, self._seed = market, seed
        self._own = Reverting(seed, f"premium {market.name}", _LASTING, _SPREAD)
        self._before = np.full(_LOOK_BACK, market.premium)

    def day(self, hidden: Hidden) -> Quoted:
        """Return the market on the next day."""
        market = self._market
        price = hidden.price[market.coin]
        premium = market.premium + self._own.day(hidden.number, MINUTES).sum(axis=1)
        if market.swing:
            trend = np.clip(hidden.trend[market.coin] * _OVERSHOOT, -0.0006, 0.0006)
            premium = premium + market.swing * (_SWING * hidden.mood + trend)
        knots = np.concatenate([self._before, premium])
        self._before = premium[-_LOOK_BACK - 1 : -1]
        second = np.arange(-TAIL, SECONDS + 1.0)
        late = np.interp(second - market.lag, second, price)
        away = np.interp(second, np.arange(-_LOOK_BACK, MINUTES + 1) * 60.0, knots)
        recorded = ~silent(market.exchange, hidden.number, self._seed)
        return Quoted(market, hidden, late * (1.0 + away), recorded)
