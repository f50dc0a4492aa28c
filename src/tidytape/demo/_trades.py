"""Trades of one market: orders that trigger more orders, each filled in one trade or several.

Orders arrive by a Hawkes process, built as clusters: the hidden market triggers orders, and each order triggers others,
mostly of the same side. Aggressors foresee a part of the next move of the price. Sizes have a long tail.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from tidytape.demo._hidden import TAIL
from tidytape.demo._hours import SECONDS
from tidytape.demo._market import DemoMarket
from tidytape.demo._noise import Booleans, Floats, Integers, generator
from tidytape.demo._quotes import Quoted
from tidytape.times import MILLISECOND

_CHILDREN = 0.55  # orders that an order triggers, on average
_FAST, _SLOW = 0.4, 14.0  # mean delays of the triggered orders, which are exponential [s]
_LASTING = 0.25  # share of the slow ones
_LOYAL = 0.85  # share of the triggered orders that are of the same side
_FILLS = 40  # largest number of trades of an order
_LARGEST = 300.0  # largest trade, in usual trades
_FIRST_ID = 100_000_001


class _Orders(NamedTuple):
    """Orders of one day, or those that orders of one day trigger on the next.

    Attributes
    ----------
    second : array of float
        Seconds of the day.
    buy : array of bool
        Whether the aggressor buys.
    size : array of float
        Size relative to the usual.
    """

    second: Floats
    buy: Booleans
    size: Floats


class Tape:
    """The trades of one market, day by day.

    Parameters
    ----------
    market : DemoMarket
    seed : int, >= 0
        That of the hidden market.
    """

    def __init__(self, market: DemoMarket, seed: int) -> None:
        self._market, self._seed = market, seed
        self._late = _NONE
        self._count = 0

    def day(self, quoted: Quoted) -> pl.DataFrame:
        """Return the trades of the next day.

        Parameters
        ----------
        quoted : Quoted
            The market on that day.

        Returns
        -------
        polars.DataFrame, one row per trade, by (timestamp, sequence)
            The lake's table ``trades``. Minutes in which the exchange is silent have none.
        """
        market, hidden = self._market, quoted.hidden
        draws = generator(self._seed, hidden.number, f"trades {market.name}")
        orders = self._orders(quoted, draws)
        count = orders.second.size

        # u ** -0.5 has a long tail: most orders fill at once, a few sweep the book.
        fills = np.minimum((1.0 - draws.random(count)) ** -0.5, _FILLS).astype(np.int64)
        order = np.repeat(np.arange(count), fills)
        fill = np.arange(order.size) - np.repeat(np.cumsum(fills) - fills, fills)
        # About every third fill comes a little later: the order is refilled, or others join in.
        pause = np.where(
            (fill > 0) & (draws.random(order.size) > 0.7), draws.integers(40, size=order.size), 0
        )
        waited = np.cumsum(pause)
        waited = waited - np.repeat(waited[fill == 0], fills)
        at_ms = np.minimum((orders.second * 1000.0).astype(np.int64)[order] + waited, SECONDS * 1000 - 1)
        buy = orders.buy[order]

        middle = np.interp(at_ms / 1000.0, np.arange(-TAIL, SECONDS + 1.0), quoted.middle)
        scale, lot_scale = 10**market.decimals, 10**market.lot_decimals
        # A large order walks the book: each further fill is a little worse.
        away = market.half_spread * middle * (1.0 + 0.35 * fill + 0.6 * draws.random(order.size))
        towards = np.ceil if market.half_spread else np.rint
        ticks = np.rint((middle * scale + np.where(buy, 1.0, -1.0) * towards(away * scale)) / market.tick)
        price = ticks.astype(np.int64) * market.tick
        lots = self._lots(draws, order, orders.size / np.maximum(1.0, fills / 5.0))

        timestamp = hidden.start + at_ms * MILLISECOND
        latency = MILLISECOND + (draws.random(order.size) * 12.0 * MILLISECOND).astype(np.int64)
        frame = pl.DataFrame(
            {
                "timestamp": timestamp,
                "side": buy,
                # An integer divided by a power of ten is the float closest to the decimal.
                "price": price / scale,
                **_amounts(market, price, lots, scale, lot_scale),
                "received": timestamp + latency,
                "recorded": quoted.recorded[at_ms // 60_000],
            }
        )[np.argsort(at_ms, kind="stable")].filter("recorded")
        number = self._count + np.arange(1, frame.height + 1)
        self._count += frame.height
        return frame.select(
            pl.lit(market.exchange).alias("exchange"),
            pl.lit(market.raw_symbol).alias("raw_symbol"),
            pl.Series("id", number + (_FIRST_ID - 1)).cast(pl.String),
            "timestamp",
            pl.Series("sequence", number),
            pl.when("side").then(pl.lit("BUY")).otherwise(pl.lit("SELL")).alias("side"),
            "price",
            "amount",
            "quote_amount",
            pl.col("received").cum_max(),  # one connection delivers in order
        )

    def _orders(self, quoted: Quoted, draws: np.random.Generator) -> _Orders:
        """Return the orders of a day, and keep those that it triggers on the next."""
        market, hidden = self._market, quoted.hidden
        busy, pull = hidden.busy[market.coin], hidden.pull[market.coin]
        expected = busy * (market.orders * (1.0 - _CHILDREN) / SECONDS)
        first = np.repeat(np.arange(SECONDS), draws.poisson(expected))
        lean = 0.5 + 0.42 * pull / (1.0 + np.abs(pull)) + 0.03 * np.repeat(hidden.mood[:-1], 60)
        parents = _Orders(
            first + draws.random(first.size),
            draws.random(first.size) < lean[first],
            np.clip(busy[first], 0.25, 25.0) ** 0.4,  # orders are larger when trading is busy
        )
        parents = _joined([parents, self._late])
        every, late = [], []
        while parents.second.size:
            today = parents.second < SECONDS
            late.append(_chosen(parents, ~today))
            parents = _chosen(parents, today)
            every.append(parents)
            parent = np.repeat(np.arange(parents.second.size), draws.poisson(_CHILDREN, parents.second.size))
            slow = draws.random(parent.size) < _LASTING
            delay = draws.exponential(size=parent.size) * np.where(slow, _SLOW, _FAST)
            loyal = draws.random(parent.size) < _LOYAL
            parents = _Orders(
                parents.second[parent] + delay, parents.buy[parent] == loyal, parents.size[parent]
            )
        tomorrow = _joined(late)
        self._late = tomorrow._replace(second=tomorrow.second - SECONDS)
        # Programs trade a little all the time, so that no minute of a busy market is without trades.
        slots = np.flatnonzero(draws.random(int(SECONDS / market.steady)) < 0.85)
        programs = (slots + draws.random(slots.size)) * market.steady
        buys = draws.random(slots.size) < lean[programs.astype(np.int64)]
        orders = _joined([*every, _Orders(programs, buys, np.full(slots.size, 0.3))])
        return _chosen(orders, busy[orders.second.astype(np.int64)] > 0)

    def _lots(self, draws: np.random.Generator, order: Integers, sizes: Floats) -> Integers:
        market = self._market
        typical = market.typical * 10**market.lot_decimals / market.lot
        # Every fourteenth order is a large one, with a tail like u ** -0.6.
        large = np.where(draws.random(sizes.size) < 0.07, 3.0 * (1.0 - draws.random(sizes.size)) ** -0.6, 1.0)
        size = (sizes * large)[order] * np.exp(1.1 * draws.normal(size=order.size))
        size = typical * np.minimum(size, _LARGEST)
        # People like round numbers: every fourth trade has one significant digit.
        digit = 10.0 ** np.floor(np.log10(np.maximum(size, 1.0)))
        size = np.where(draws.random(order.size) < 0.25, np.rint(size / digit) * digit, size)
        lots: Integers = np.maximum(np.rint(size), 1.0).astype(np.int64) * market.lot
        return lots


_NONE = _Orders(np.empty(0), np.empty(0, dtype=bool), np.empty(0))


def _joined(orders: list[_Orders]) -> _Orders:
    seconds, buys, sizes = zip(_NONE, *orders, strict=True)
    return _Orders(np.concatenate(seconds), np.concatenate(buys), np.concatenate(sizes))


def _chosen(orders: _Orders, chosen: Booleans) -> _Orders:
    return _Orders(orders.second[chosen], orders.buy[chosen], orders.size[chosen])


def _amounts(
    market: DemoMarket, price: Integers, lots: Integers, scale: int, lot_scale: int
) -> dict[str, Floats]:
    """Return amounts in coin and quote; a contract of an inverse market always has the same value in the quote."""
    if market.contract:
        quote = lots.astype(np.float64) * market.contract
        return {"amount": quote / (price / scale), "quote_amount": quote}
    return {"amount": lots / lot_scale, "quote_amount": price * lots / (scale * lot_scale)}
