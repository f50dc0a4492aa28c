"""Open interest of a perpetual: trades open and close positions, liquidations close them."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidytape.demo._hours import MINUTES
from tidytape.demo._market import COINS, DemoMarket
from tidytape.demo._noise import Floats, Reverting
from tidytape.demo._quotes import Quoted
from tidytape.times import MINUTE

_MINUTE_VOLUME = 1.5e-4  # volume of a usual minute as a share of open interest
_MEMORY = 6.0 * MINUTES  # time in which open interest returns to its start [min]


class Interest:
    """The open interest of one perpetual, day by day.

    For an hour or so the trades mostly open positions, then they mostly close them. Liquidations close positions. Open
    interest also returns slowly to its start.

    Parameters
    ----------
    market : DemoMarket
    seed : int, >= 0
        Seed of the hidden market.
    """

    def __init__(self, market: DemoMarket, seed: int) -> None:
        self._market = market
        self._opening = Reverting(seed, f"open interest {market.name}", [75.0, 1_200.0], [0.22, 0.09])
        self._deviation = Reverting(seed, "", [_MEMORY], [0.0])

    def day(self, quoted: Quoted, tape: pl.DataFrame, liquidated: pl.DataFrame) -> pl.DataFrame:
        """Return reports of the next day, one at the end of each minute.

        Parameters
        ----------
        quoted : Quoted
            The market on that day.
        tape, liquidated : polars.DataFrame
            The market's trades and liquidations of that day.

        Returns
        -------
        polars.DataFrame, one row per minute
            The lake's table ``open_interest``.
        """
        market, hidden = self._market, quoted.hidden
        opening = self._opening.day(hidden.number, MINUTES)[1:].sum(axis=1)
        volume, closed = _per_minute(tape, hidden.start), _per_minute(liquidated, hidden.start)
        usual = market.open_interest
        # The power is below 1 because large trades often only pass a position on.
        activity = np.maximum(volume / _MINUTE_VOLUME / usual, 0.0) ** 0.6
        change = opening * activity * (_MINUTE_VOLUME * usual) - 2.5 * closed
        amount = np.maximum(usual + self._deviation.driven(change[:, None])[1:, 0], 0.2 * usual)
        if market.contract:  # report a whole number of contracts, whose amount in coins depends on the price
            contracts = np.rint(amount * COINS[market.coin].price / market.contract)
            amount = contracts * market.contract / quoted.closes
        else:
            amount = np.rint(amount * 1_000.0) / 1_000.0
        columns = {"timestamp": hidden.minute_ends, "amount": amount, "quote_amount": amount * quoted.closes}
        return quoted.reports(columns)


def _per_minute(events: pl.DataFrame, start: int) -> Floats:
    """Return the summed amount of the events of each minute of a day, which starts at ``start`` [ns]. [coin]"""
    minute = (events["timestamp"].to_numpy() - start) // MINUTE
    amounts: Floats = np.bincount(  # type: ignore[assignment]  # sums of floats
        minute, weights=events["amount"].to_numpy(), minlength=MINUTES
    )
    return amounts
