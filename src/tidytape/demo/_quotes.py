"""The price of each market: the hidden price, a little late, plus a premium that returns to its usual value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidytape.demo._hidden import TAIL, Hidden
from tidytape.demo._hours import MINUTES, SECONDS, silent
from tidytape.demo._market import DemoMarket
from tidytape.demo._noise import Booleans, Floats, Reverting

# Both random parts of the premium.
_MEMORIES = [30.0, 3.0]  # [min]
_DEVIATIONS = [0.00006, 0.00002]  # [1]
_SWING = 0.00025  # how much one standard deviation of the mood moves the premium [1]
_OVERSHOOT = 0.03  # share of the trend of the price that is added to the premium
_LOOK_BACK = TAIL // 60  # [min]


@dataclass(frozen=True, slots=True)
class Quoted:
    """One market on one day.

    Attributes
    ----------
    market : DemoMarket
        The market.
    hidden : Hidden
        The hidden state of the day.
    mid : array, `TAIL` + 86,401
        Mid between best bid and ask: at the last `TAIL` seconds of the day before, then at the beginning of each second
        and at the end of the day. [quote per coin]
    is_recorded : array of bool, 1,440
        Whether each minute is recorded; False during an outage.
    """

    market: DemoMarket
    hidden: Hidden
    mid: Floats
    is_recorded: Booleans

    @property
    def closes(self) -> Floats:
        """The mid at the end of each minute. [quote per coin]"""
        return self.mid[TAIL + 60 :: 60]

    @property
    def premiums(self) -> Floats:
        """The distance of the mid from the hidden price at the end of each minute, as a share of the latter. [1]"""
        return self.closes / self.hidden.price[self.market.coin][TAIL + 60 :: 60] - 1.0

    def reports(self, columns: Mapping[str, np.ndarray]) -> pl.DataFrame:
        """Return columns with one value per minute as rows of a table, without the minutes of outages."""
        return (
            pl.DataFrame(dict(columns))
            .filter(pl.Series(self.is_recorded))
            .with_columns(exchange=pl.lit(self.market.exchange), raw_symbol=pl.lit(self.market.raw_symbol))
        )


class Quotes:
    """The prices of one market, day by day.

    Parameters
    ----------
    market : DemoMarket
    seed : int, >= 0
        Seed of the hidden market.
    """

    def __init__(self, market: DemoMarket, seed: int) -> None:
        self._market, self._seed = market, seed
        self._random_premium = Reverting(seed, f"premium {market.name}", _MEMORIES, _DEVIATIONS)
        self._last_premiums = np.full(_LOOK_BACK, market.premium)  # of the last minutes of the day before

    def day(self, hidden: Hidden) -> Quoted:
        """Return the market on the next day."""
        market = self._market
        price = hidden.price[market.coin]
        premium = market.premium + self._random_premium.day(hidden.number, MINUTES).sum(axis=1)
        if market.swing:
            trend = np.clip(hidden.trend[market.coin] * _OVERSHOOT, -0.0006, 0.0006)
            premium = premium + market.swing * (_SWING * hidden.mood + trend)
        knots = np.concatenate([self._last_premiums, premium])
        self._last_premiums = premium[-_LOOK_BACK - 1 : -1]
        second = np.arange(-TAIL, SECONDS + 1.0)
        delayed_price = np.interp(second - market.lag, second, price)
        premium_by_second = np.interp(second, np.arange(-_LOOK_BACK, MINUTES + 1) * 60.0, knots)
        is_recorded = ~silent(market.exchange, hidden.number, self._seed)
        return Quoted(market, hidden, delayed_price * (1.0 + premium_by_second), is_recorded)
