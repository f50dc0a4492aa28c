"""Trades of one market: orders that trigger further orders, each filled in one trade or several.

Orders arrive by a Hawkes process, built as clusters: the hidden market triggers orders, and each order triggers further
orders, mostly of the same side. Aggressors foresee part of the next move of the price. Sizes have a long tail.
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

_CHILDREN = 0.55  # mean number of orders that an order triggers
_FAST, _SLOW = 0.4, 14.0  # mean delays of fast and of slow triggered orders; delays are exponential [s]
_SLOW_SHARE = 0.25  # share of slow orders among the triggered ones
_SAME_SIDE = 0.85  # share of the triggered orders that have the side of their parent
_MOST_FILLS = 40  # largest number of trades of an order
_LARGEST = 300.0  # amount of the largest trade, relative to a typical one
_FIRST_ID = 100_000_001


class _Orders(NamedTuple):
    """Market orders.

    Attributes
    ----------
    second : array of float
        Time since the start of the day. [s]
    is_buy : array of bool
        Whether the aggressor buys.
    size : array of float
        Size relative to a typical order.
    """

    second: Floats
    is_buy: Booleans
    size: Floats


class DemoTrades:
    """The trades of one market, day by day.

    Parameters
    ----------
    market : DemoMarket
    seed : int, >= 0
        Seed of the hidden market.
    """

    def __init__(self, market: DemoMarket, seed: int) -> None:
        self._market, self._seed = market, seed
        self._carried = _NONE  # orders that the day before triggered on this day
        self._count = 0  # of the trades so far

    def day(self, quoted: Quoted) -> pl.DataFrame:
        """Return the trades of the next day.

        Parameters
        ----------
        quoted : Quoted
            The market on that day.

        Returns
        -------
        polars.DataFrame, one row per trade, by (timestamp, sequence)
            The lake's table ``trades``. Minutes of an outage have no trades.
        """
        market, hidden = self._market, quoted.hidden
        draws = generator(self._seed, hidden.number, f"trades {market.name}")
        orders = self._orders(quoted, draws)
        count = orders.second.size

        # u ** -0.5 has a long tail: most orders fill in one trade, a few sweep the book.
        fills = np.minimum((1.0 - draws.random(count)) ** -0.5, _MOST_FILLS).astype(np.int64)
        # Two arrays with an element per trade: the index of its order, and its index among the fills of that order.
        order = np.repeat(np.arange(count), fills)
        fill = np.arange(order.size) - np.repeat(np.cumsum(fills) - fills, fills)
        # About every third fill comes a little later than the one before it.
        pause = np.where(
            (fill > 0) & (draws.random(order.size) > 0.7), draws.integers(40, size=order.size), 0
        )
        delay = np.cumsum(pause)
        delay = delay - np.repeat(delay[fill == 0], fills)
        at_ms = np.minimum((orders.second * 1000.0).astype(np.int64)[order] + delay, SECONDS * 1000 - 1)
        is_buy = orders.is_buy[order]

        mid = np.interp(at_ms / 1000.0, np.arange(-TAIL, SECONDS + 1.0), quoted.mid)
        scale, lot_scale = 10**market.decimals, 10**market.lot_decimals
        # A large order walks the book: each further fill is a little worse.
        distance = market.half_spread * mid * (1.0 + 0.35 * fill + 0.6 * draws.random(order.size))
        round_distance = np.ceil if market.half_spread else np.rint
        ticks = np.rint(
            (mid * scale + np.where(is_buy, 1.0, -1.0) * round_distance(distance * scale)) / market.tick
        )
        price = ticks.astype(np.int64) * market.tick
        lots = self._lots(draws, order, orders.size / np.maximum(1.0, fills / 5.0))

        timestamp = hidden.start + at_ms * MILLISECOND
        latency = MILLISECOND + (draws.random(order.size) * 12.0 * MILLISECOND).astype(np.int64)
        frame = pl.DataFrame(
            {
                "timestamp": timestamp,
                "is_buy": is_buy,
                # An integer divided by a power of ten is the float closest to the decimal.
                "price": price / scale,
                **_amounts(market, price, lots, scale, lot_scale),
                "received": timestamp + latency,
                "is_recorded": quoted.is_recorded[at_ms // 60_000],
            }
        )[np.argsort(at_ms, kind="stable")].filter("is_recorded")
        number = self._count + np.arange(1, frame.height + 1)
        self._count += frame.height
        return frame.select(
            pl.lit(market.exchange).alias("exchange"),
            pl.lit(market.raw_symbol).alias("raw_symbol"),
            pl.Series("id", number + (_FIRST_ID - 1)).cast(pl.String),
            "timestamp",
            pl.Series("sequence", number),
            pl.when("is_buy").then(pl.lit("BUY")).otherwise(pl.lit("SELL")).alias("side"),
            "price",
            "amount",
            "quote_amount",
            pl.col("received").cum_max(),  # one connection delivers in order
        )

    def _orders(self, quoted: Quoted, draws: np.random.Generator) -> _Orders:
        """Return the orders of a day, and keep the orders that they trigger on the next day."""
        market, hidden = self._market, quoted.hidden
        busy, pull = hidden.busy[market.coin], hidden.pull[market.coin]
        expected = busy * (market.orders * (1.0 - _CHILDREN) / SECONDS)
        first = np.repeat(np.arange(SECONDS), draws.poisson(expected))
        buy_share = 0.5 + 0.42 * pull / (1.0 + np.abs(pull)) + 0.03 * np.repeat(hidden.mood[:-1], 60)
        parents = _Orders(
            first + draws.random(first.size),
            draws.random(first.size) < buy_share[first],
            np.clip(busy[first], 0.25, 25.0) ** 0.4,  # orders are larger when trading is busy
        )
        parents = _joined([parents, self._carried])
        generations, late = [], []
        while parents.second.size:
            is_today = parents.second < SECONDS
            late.append(_filtered(parents, ~is_today))
            parents = _filtered(parents, is_today)
            generations.append(parents)
            parent = np.repeat(np.arange(parents.second.size), draws.poisson(_CHILDREN, parents.second.size))
            is_slow = draws.random(parent.size) < _SLOW_SHARE
            delay = draws.exponential(size=parent.size) * np.where(is_slow, _SLOW, _FAST)
            has_same_side = draws.random(parent.size) < _SAME_SIDE
            parents = _Orders(
                parents.second[parent] + delay, parents.is_buy[parent] == has_same_side, parents.size[parent]
            )
        tomorrow = _joined(late)
        self._carried = tomorrow._replace(second=tomorrow.second - SECONDS)
        # Programs trade a little all the time, so that no minute of a busy market is without trades.
        slots = np.flatnonzero(draws.random(int(SECONDS / market.steady)) < 0.85)
        second = (slots + draws.random(slots.size)) * market.steady
        is_buy = draws.random(slots.size) < buy_share[second.astype(np.int64)]
        orders = _joined([*generations, _Orders(second, is_buy, np.full(slots.size, 0.3))])
        return _filtered(orders, busy[orders.second.astype(np.int64)] > 0)

    def _lots(self, draws: np.random.Generator, order: Integers, sizes: Floats) -> Integers:
        """Return the amount of each trade from the index of its order and the sizes of orders. [10 ** -lot_decimals]"""
        market = self._market
        typical = market.typical * 10**market.lot_decimals / market.lot
        # About one order in fourteen is large, with a tail like u ** -0.6.
        large = np.where(draws.random(sizes.size) < 0.07, 3.0 * (1.0 - draws.random(sizes.size)) ** -0.6, 1.0)
        size = (sizes * large)[order] * np.exp(1.1 * draws.normal(size=order.size))
        size = typical * np.minimum(size, _LARGEST)
        # People like round numbers: about one trade in four is rounded to one significant digit.
        power = 10.0 ** np.floor(np.log10(np.maximum(size, 1.0)))
        size = np.where(draws.random(order.size) < 0.25, np.rint(size / power) * power, size)
        lots: Integers = np.maximum(np.rint(size), 1.0).astype(np.int64) * market.lot
        return lots


_NONE = _Orders(np.empty(0), np.empty(0, dtype=bool), np.empty(0))


def _joined(orders: list[_Orders]) -> _Orders:
    # Begin with no orders, so that zip gives three tuples even if the list is empty.
    seconds, are_buys, sizes = zip(_NONE, *orders, strict=True)
    return _Orders(np.concatenate(seconds), np.concatenate(are_buys), np.concatenate(sizes))


def _filtered(orders: _Orders, mask: Booleans) -> _Orders:
    return _Orders(orders.second[mask], orders.is_buy[mask], orders.size[mask])


def _amounts(
    market: DemoMarket, price: Integers, lots: Integers, scale: int, lot_scale: int
) -> dict[str, Floats]:
    """Return the amounts in coin and in quote; a contract of an inverse market has a fixed value in the quote."""
    if market.contract:
        quote = lots.astype(np.float64) * market.contract
        return {"amount": quote / (price / scale), "quote_amount": quote}
    return {"amount": lots / lot_scale, "quote_amount": price * lots / (scale * lot_scale)}
