"""Open interest of the demo's regulated futures, reported once an hour."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl

from tidytape.demo._hidden import Hidden
from tidytape.demo._market import FUTURES
from tidytape.demo._noise import generator
from tidytape.times import SECOND, YEAR

_COIN, _SIZE = "BTC", 5.0  # a contract is 5 coins
_MONTHS = "FGHJKMNQUVXZ"  # the letters that exchanges use for months
_TICK = 5.0
_CARRY = 0.07  # growth of the future over the spot price [1 per year]
_FRIDAY = 4
_ROLL = 7  # days before its expiry that the open interest moves to the next future


class Futures:
    """The future of each month, hour by hour.

    Parameters
    ----------
    seed : int, >= 0
        That of the hidden market.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._contracts = 5_400.0

    def day(self, hidden: Hidden) -> tuple[dict[str, object], pl.DataFrame]:
        """Return the next day.

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
        ends = int(datetime(expiry.year, expiry.month, expiry.day, 15, tzinfo=UTC).timestamp()) * SECOND
        price = np.rint(spot * (1.0 + _CARRY * (ends - hours) / YEAR) / _TICK) * _TICK
        draws = generator(self._seed, hidden.number, "futures")
        moved = draws.normal(size=spot.size) * np.where(today.weekday() <= _FRIDAY, 14.0, 0.0)
        contracts = np.rint(np.maximum(self._contracts + np.cumsum(moved), 1_000.0))
        self._contracts = float(contracts[-1])
        amount = contracts * _SIZE
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
