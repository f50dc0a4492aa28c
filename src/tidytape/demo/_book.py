"""Order books: a snapshot at the end of each minute, with walls at round prices that appear and vanish.

The size of a level belongs to its price and changes slowly, so that a heatmap shows bands. A book is thin at the best
prices, thickest a little away from them, and thinner again further out. When traders are nervous, all of it is thin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidytape.demo._hours import MINUTES
from tidytape.demo._market import DemoMarket
from tidytape.demo._noise import Floats, Integers, Reverting, generator
from tidytape.demo._quotes import Quoted

_SIDES = ("BID", "ASK")
_COLUMNS = 1_024  # level number n has the noise of column n % 1024
_KNOT = 20  # time between two draws of the noise of a level [min]
_WALLS = 45.0  # usual number of walls that appear on a day
_TOO_CLOSE = 3  # a wall that is not firm is cancelled when the price is fewer levels away


@dataclass(frozen=True, slots=True)
class _Wall:
    """A large order at one level, from one minute to another since the market began; a firm one waits to be filled."""

    bid: bool
    level: int
    first: int
    last: int
    size: float
    is_firm: bool


class Books:
    """The book of one market, day by day.

    Parameters
    ----------
    market : DemoMarket
        A market with a book.
    seed : int, >= 0
        That of the hidden market.
    """

    def __init__(self, market: DemoMarket, seed: int) -> None:
        self._market, self._seed = market, seed
        self._liquidity = Reverting(seed, f"liquidity {market.name}", [90.0, 25.0], [0.18, 0.16])
        self._walls: list[_Wall] = []

    def day(self, quoted: Quoted) -> pl.DataFrame:
        """Return snapshots of the next day.

        Parameters
        ----------
        quoted : Quoted
            The market on that day.

        Returns
        -------
        polars.DataFrame, one row per minute, side and level
            The lake's table ``book``. Minutes in which the exchange is silent have none.
        """
        market, hidden = self._market, quoted.hidden
        best = np.floor(quoted.closes / market.block_size).astype(np.int64)  # level of the best bid
        steps = np.arange(market.book_levels)
        levels = np.stack([best[:, None] - steps, best[:, None] + 1 + steps], axis=1)  # minute x side x level
        sizes = self._resting(quoted, levels)
        self._add_walls(sizes, best, hidden.number)
        lots = 10.0 ** (
            2 - np.floor(np.log10(market.book))
        )  # lots of one coin, so that sizes have three digits
        sizes = np.maximum(np.rint(sizes * lots), 1.0) / lots

        number = hidden.number * MINUTES + np.arange(1, MINUTES + 1)
        rows = len(_SIDES) * market.book_levels
        # Divide integers if blocks are smaller than 1: that gives the float closest to the decimal price.
        parts = round(1 / market.block_size) if market.block_size < 1 else 1
        prices = levels / parts if parts > 1 else levels * market.block_size
        return (
            pl.DataFrame(
                {
                    "timestamp": np.repeat(hidden.minute_ends, rows),
                    "last_id": np.repeat(number, rows),
                    "side": pl.Series(_SIDES * MINUTES).repeat_by(market.book_levels).explode(),
                    "price": prices.ravel(),
                    "size": sizes.ravel(),
                    "sequence": np.arange(1, prices.size + 1),
                }
            )
            .filter(pl.Series(np.repeat(quoted.recorded, rows)))
            .with_columns(
                exchange=pl.lit(market.exchange),
                raw_symbol=pl.lit(market.raw_symbol),
                is_snapshot=True,
            )
        )

    def _resting(self, quoted: Quoted, levels: Integers) -> Floats:
        """Return the size of each level without walls."""
        market, hidden = self._market, quoted.hidden
        away = (np.arange(market.book_levels) + 0.5) / market.book_levels
        shape = 0.35 + 1.9 * (away / 0.22) * np.exp(1.0 - away / 0.22) + 0.45 * away
        liquidity = self._liquidity.day(hidden.number, MINUTES)[1:]
        both = np.exp(liquidity[:, 0] - 0.35 * hidden.nerves[market.coin][1:])
        tilt = liquidity[:, 1] + 0.08 * hidden.mood[1:]
        sides = np.stack([both * np.exp(tilt), both * np.exp(-tilt)], axis=1)
        draws = generator(self._seed, hidden.number, f"book {market.name}")
        flicker = np.exp(0.12 * draws.normal(size=levels.shape))
        round_numbers = 1.0 + 0.6 * (levels % 10 == 0) + 1.2 * (levels % 50 == 0)
        noise = np.exp(0.45 * self._noise(hidden.number, levels))
        sizes: Floats = market.book * shape * sides[:, :, None] * flicker * round_numbers * noise
        return sizes

    def _noise(self, day: int, levels: Integers) -> Floats:
        """Return the noise of levels, linear between knots. It depends on the price of a level, not on the market."""
        rows = MINUTES // _KNOT
        purpose = f"levels {self._market.name}"
        today = generator(self._seed, day, purpose).normal(size=(rows, _COLUMNS))
        tomorrow = generator(self._seed, day + 1, purpose).normal(size=(1, _COLUMNS))
        knots = np.concatenate([today, tomorrow])
        minute = np.arange(1, MINUTES + 1)
        row, weight = minute // _KNOT, (minute % _KNOT / _KNOT)[:, None, None]
        column, row = levels % _COLUMNS, row[:, None, None]
        return knots[row, column] * (1.0 - weight) + knots[np.minimum(row + 1, rows), column] * weight

    def _add_walls(self, sizes: Floats, best: Integers, day: int) -> None:
        """Add the walls of a day to the sizes, and keep the walls that last longer."""
        self._walls += self._born(day, best)
        minute = day * MINUTES + np.arange(MINUTES)
        lasting = []
        for wall in self._walls:
            # Levels from the best price of its side to the wall; below 0 the price has passed it.
            distance = best - wall.level if wall.bid else wall.level - best - 1
            present = (minute >= wall.first) & (minute < wall.last)
            gone = present & (distance < (0 if wall.is_firm else _TOO_CLOSE))
            if gone.any():
                present[np.argmax(gone) :] = False
            elif wall.last > minute[-1] + 1:
                lasting.append(wall)
            at = np.flatnonzero(present & (distance < self._market.book_levels))
            grown = np.minimum(1.0, (minute[at] - wall.first + 1) / 4.0)  # traders place it in parts
            sizes[at, 0 if wall.bid else 1, distance[at]] += grown * wall.size
        self._walls = lasting

    def _born(self, day: int, best: Integers) -> list[_Wall]:
        market = self._market
        draws = generator(self._seed, day, f"walls {market.name}")
        walls = []
        for _ in range(draws.poisson(_WALLS)):
            minute, bid = int(draws.integers(MINUTES)), bool(draws.random() < 0.5)
            away = int(market.book_levels * draws.uniform(0.08, 0.95))
            level = int(best[minute]) + (-away if bid else 1 + away)
            if draws.random() < 0.7:
                level = round(level / 5) * 5
            first = day * MINUTES + minute
            last = first + int(np.clip(draws.exponential(140.0), 6, MINUTES))
            size = market.book * (5.0 + draws.exponential(9.0))
            walls.append(_Wall(bid, level, first, last, size, is_firm=bool(draws.random() < 0.6)))
        return walls
