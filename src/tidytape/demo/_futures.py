"""Open interest of the demo's futures on a regulated exchange, reported once an hour."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl

from tidytape.demo._hidden import Hidden
from tidytape.demo._market import FUTURES
from tidytape.demo._noise import generator
from tidytape.times import SECOND, YEAR

_COIN = "BTC"
_CONTRACT_SIZE = 5.0  # [coin]
_MONTHS = "FGHJKMNQUVXZ"  # letters of the months, January first, in the symbols of futures
_TICK = 5.0
_CARRY = 0.07  # growth of the future over the spot price [1 per year]
_FRIDAY = 4
_ROLL = 7  # time before the expiry of a future at which all open interest moves to the next one [d]


class Futures:
    """The monthly futures, of which one at a time has open interest; simulated day by day.

    Parameters
    ----------
    seed : int, >= 0
        Seed of the hidden market.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._contracts = 5_400.0

    def day(self, hidden: Hidden) -> tuple[dict[str, object], pl.DataFrame]:
        """Return the future that has open interest on the next day, and its open interest at each hour.

        Parameters
        ----------
        hidden : Hidden
            The day.

        Returns
        -------
        dict
            The future, as a row of the lake's table ``markets``.
        polars.DataFrame, one row per whole hour
            The lake's table ``cme_open_interest``.
        """
        today = datetime.fromtimestamp(hidden.start // SECOND, UTC).date()
        expiry = _last_friday(today)
        if today > expiry - timedelta(days=_ROLL):
            expiry = _last_friday(expiry + timedelta(days=8))
        symbol = f"{_COIN}{_MONTHS[expiry.month - 1]}{expiry.year % 10}"
        spot = hidden.hourly(_COIN)
        hours = hidden.start + np.arange(spot.size) * 3600 * SECOND
        expiry_time = (
            int(datetime(expiry.year, expiry.month, expiry.day, 15, tzinfo=UTC).timestamp()) * SECOND
        )
        price = np.rint(spot * (1.0 + _CARRY * (expiry_time - hours) / YEAR) / _TICK) * _TICK
        draws = generator(self._seed, hidden.number, "futures")
        changes = draws.normal(size=spot.size) * np.where(today.weekday() <= _FRIDAY, 14.0, 0.0)
        contracts = np.rint(np.maximum(self._contracts + np.cumsum(changes), 1_000.0))
        self._contracts = float(contracts[-1])
        amount = contracts * _CONTRACT_SIZE
        market = {
            "exchange": FUTURES,
            "raw_symbol": symbol,
            "normalized_symbol": f"{_COIN}-USD",
            "coin": _COIN,
            "quote_coin": "USD",
            "category": "FUTURE",
            "tick_size": _TICK,
            "block_size": 10.0,
            "coin_name": "Bitcoin",
        }
        rows = pl.DataFrame(
            {"timestamp": hours, "amount": amount, "usd_amount": amount * price, "price": price}
        ).with_columns(exchange=pl.lit(FUTURES), raw_symbol=pl.lit(symbol))
        return market, rows


def _last_friday(day: date) -> date:
    """Return the last Friday of a month."""
    last = (day.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)
    return last - timedelta(days=(last.weekday() - _FRIDAY) % 7)
