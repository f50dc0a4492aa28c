"""Funding rates of a perpetual, which follow its premium."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidytape.demo._hours import MINUTES
from tidytape.demo._market import DemoMarket, Funding
from tidytape.demo._noise import Floats, generator
from tidytape.demo._quotes import Quoted
from tidytape.times import HOUR, MINUTE


class FundingRates:
    r"""The funding of one perpetual, day by day.

    .. math:: f = \frac{T}{8\,\mathrm{h}} \left( \bar p + \mathrm{clamp}(r - \bar p, -c, c) \right)

    with the mean premium p of the funding interval T, the interest rate r and the clamp c, both per 8 h. The predicted
    rate uses the mean premium of the interval so far.

    Parameters
    ----------
    market : DemoMarket
        A perpetual.
    seed : int, >= 0
        Seed of the hidden market.
    """

    def __init__(self, market: DemoMarket, terms: Funding, seed: int) -> None:
        self._market, self._terms = market, terms
        first_premium = market.premium + 0.00008 * generator(seed, 0, f"funding {market.name}").normal()
        self._settled = float(self._rate(np.array(first_premium)))  # the rate at the last settlement

    def day(self, quoted: Quoted) -> pl.DataFrame:
        """Return reports of the next day, one at the end of each minute.

        Parameters
        ----------
        quoted : Quoted
            The market on that day.

        Returns
        -------
        polars.DataFrame, one row per minute
            The lake's table ``funding``.
        """
        terms, hidden = self._terms, quoted.hidden
        length = terms.hours * 60
        premiums = quoted.premiums.reshape(-1, length)  # a day has a whole number of intervals
        predicted = self._rate(np.cumsum(premiums, axis=1) / np.arange(1, length + 1))
        settled = np.concatenate([[self._settled], predicted[:, -1]])
        self._settled = settled[-1]
        settlements = hidden.start + np.arange(1, MINUTES // length + 1) * length * MINUTE
        return quoted.reports(
            {
                "timestamp": hidden.minute_ends,
                "rate": np.repeat(settled[:-1], length),
                "predicted_rate": predicted.ravel(),
                "funding_interval": np.full(MINUTES, terms.hours * HOUR),
                "next_funding": np.repeat(settlements, length),
            },
        )

    def _rate(self, premium: Floats) -> Floats:
        terms = self._terms
        rate = premium + np.clip(terms.interest - premium, -terms.clamp, terms.clamp)
        return np.rint(rate * (terms.hours / 8.0) * 1e8) / 1e8
