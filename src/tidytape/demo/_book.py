"""Order books: a snapshot at the end of each minute, with walls at round prices that appear and vanish.

The size at a price changes slowly, so that a heatmap shows bands. A book is thin at the best prices, thickest a little
away from them, and thinner again further out. When volatility is high, the whole book is thin.
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
_NOISE_COLUMNS = 1_024  # level number n has the noise of column n % 1024
_KNOT = 20  # time between two draws of the noise of a level [min]
_WALLS = 45.0  # usual number of walls that appear on a day
_TOO_CLOSE = 3  # a wall that is not firm is cancelled when it is fewer levels away from the best price


@dataclass(frozen=True, slots=True)
class _Wall:
    """A large order at one level."""

    is_bid: bool
    level: int
    start: int  # minutes since the market began
    end: int
    size: float
    is_firm: bool  # whether it stays until it is filled


class Books:
    """The book of one market, day by day.

    Parameters
    ----------
    market : DemoMarket
        A market with a book.
    seed : int, >= 0
        Seed of the hidden market.
    """

    def __init__(self, market: DemoMarket, seed: int) -> None:
        self._market, self._seed = market, seed
        # Log size of both sides together, and of bids relative to asks.
        self._liquidity = Reverting(
            seed, f"liquidity {market.name}", memories=[90.0, 25.0], deviations=[0.18, 0.16]
        )
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
        best_bid = np.floor(quoted.closes / market.block_size).astype(np.int64)  # its level, by minute
        steps = np.arange(market.book_levels)
        # The axes are minute, side and level.
        levels = np.stack([best_bid[:, None] - steps, best_bid[:, None] + 1 + steps], axis=1)
        sizes = self._resting(quoted, levels)
        self._add_walls(sizes, best_bid, hidden.number)
        lots = 10.0 ** (2 - np.floor(np.log10(market.book)))  # lots per coin; typical sizes have three digits
        sizes = np.maximum(np.rint(sizes * lots), 1.0) / lots

        number = hidden.number * MINUTES + np.arange(1, MINUTES + 1)
        rows = len(_SIDES) * market.book_levels
        # Divide integers if blocks are smaller than 1: that gives the float closest to the decimal price.
        blocks_per_unit = round(1 / market.block_size) if market.block_size < 1 else 1
        prices = levels / blocks_per_unit if blocks_per_unit > 1 else levels * market.block_size
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
            .filter(pl.Series(np.repeat(quoted.is_recorded, rows)))
            .with_columns(
                exchange=pl.lit(market.exchange),
                raw_symbol=pl.lit(market.raw_symbol),
                is_snapshot=True,
            )
        )

    def _resting(self, quoted: Quoted, levels: Integers) -> Floats:
        """Return the size of each level without walls, by minute, side and level. [coin]"""
        market, hidden = self._market, quoted.hidden
        depth = (np.arange(market.book_levels) + 0.5) / market.book_levels  # from 0 at the best price to 1
        shape = 0.35 + 1.9 * (depth / 0.22) * np.exp(1.0 - depth / 0.22) + 0.45 * depth
        liquidity = self._liquidity.day(hidden.number, MINUTES)[1:]
        both = np.exp(liquidity[:, 0] - 0.35 * hidden.log_volatility[market.coin][1:])
        tilt = liquidity[:, 1] + 0.08 * hidden.mood[1:]
        sides = np.stack([both * np.exp(tilt), both * np.exp(-tilt)], axis=1)
        draws = generator(self._seed, hidden.number, f"book {market.name}")
        flicker = np.exp(0.12 * draws.normal(size=levels.shape))
        round_numbers = 1.0 + 0.6 * (levels % 10 == 0) + 1.2 * (levels % 50 == 0)
        noise = np.exp(0.45 * self._noise(hidden.number, levels))
        sizes: Floats = market.book * shape * sides[:, :, None] * flicker * round_numbers * noise
        return sizes

    def _noise(self, day: int, levels: Integers) -> Floats:
        """Return the noise of levels, linear in time between knots. A level keeps its noise if the mid moves."""
        rows = MINUTES // _KNOT
        purpose = f"levels {self._market.name}"
        today = generator(self._seed, day, purpose).normal(size=(rows, _NOISE_COLUMNS))
        tomorrow = generator(self._seed, day + 1, purpose).normal(size=(1, _NOISE_COLUMNS))
        knots = np.concatenate([today, tomorrow])
        minute = np.arange(1, MINUTES + 1)
        weight = (minute % _KNOT / _KNOT)[:, None, None]  # of the next knot
        column, row = levels % _NOISE_COLUMNS, (minute // _KNOT)[:, None, None]
        return knots[row, column] * (1.0 - weight) + knots[np.minimum(row + 1, rows), column] * weight

    def _add_walls(self, sizes: Floats, best_bid: Integers, day: int) -> None:
        """Add the walls of a day to the sizes, and keep the walls that stay until the next day."""
        self._walls += self._new_walls(day, best_bid)
        minute = day * MINUTES + np.arange(MINUTES)
        remaining = []
        for wall in self._walls:
            # Levels from the best price of its side to the wall; below 0 if the price has passed the wall.
            distance = best_bid - wall.level if wall.is_bid else wall.level - best_bid - 1
            is_present = (minute >= wall.start) & (minute < wall.end)
            is_removed = is_present & (distance < (0 if wall.is_firm else _TOO_CLOSE))
            if is_removed.any():
                is_present[np.argmax(is_removed) :] = False
            elif wall.end > minute[-1] + 1:
                remaining.append(wall)
            at = np.flatnonzero(is_present & (distance < self._market.book_levels))
            # Traders place a wall in four parts.
            placed_share = np.minimum(1.0, (minute[at] - wall.start + 1) / 4.0)
            sizes[at, 0 if wall.is_bid else 1, distance[at]] += placed_share * wall.size
        self._walls = remaining

    def _new_walls(self, day: int, best_bid: Integers) -> list[_Wall]:
        """Return the walls that appear on a day."""
        market = self._market
        draws = generator(self._seed, day, f"walls {market.name}")
        walls = []
        for _ in range(draws.poisson(_WALLS)):
            minute, is_bid = int(draws.integers(MINUTES)), bool(draws.random() < 0.5)
            distance = int(market.book_levels * draws.uniform(0.08, 0.95))
            level = int(best_bid[minute]) + (-distance if is_bid else 1 + distance)
            if draws.random() < 0.7:
                level = round(level / 5) * 5
            start = day * MINUTES + minute
            end = start + int(np.clip(draws.exponential(140.0), 6, MINUTES))
            size = market.book * (5.0 + draws.exponential(9.0))
            walls.append(_Wall(is_bid, level, start, end, size, is_firm=bool(draws.random() < 0.6)))
        return walls
