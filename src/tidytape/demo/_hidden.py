"""The hidden state behind all markets: prices, second by second, and the nerves and mood of traders.

One factor moves all coins. Its volatility is a product of processes that remember ten minutes, two hours and a day and
a half; it rises when prices fall. Shocks come at random, most of them down, and bring aftershocks: the price runs for a
minute or so and returns in part, and volatility stays high for half an hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tidytape.demo._hours import MINUTES, SECONDS, activity
from tidytape.demo._market import COINS, START_NS, Coin
from tidytape.demo._noise import Floats, Integers, Reverting, generator
from tidytape.times import DAY, MINUTE

TAIL = 600
"""Each day begins with so much of the day before, for code that looks back. [s]"""

_YEAR = 365.25 * SECONDS  # [s]
_CALMS = 1_500.0  # time in which the fear after a shock decays [s]
_IDLE = 0.25  # activity that moves the price while a market is closed

# Parts of the log volatility: how long each remembers [min], and its standard deviation.
_LASTING = [10.0, 120.0, 2_160.0]
_SPREAD = [0.24, 0.24, 0.14]
_OWN_LASTING, _OWN_SPREAD = 180.0, 0.18  # the part that each coin has for itself
_VARIANCE = sum(spread**2 for spread in [*_SPREAD, _OWN_SPREAD])
_LEVERAGE = 0.4  # correlation of its shocks with falls of the price

_BURSTS = 0.1  # shape of the gamma draws: a smaller one makes bursts rarer and larger

_MOOD_LASTING = 420.0  # how long the mood remembers [min]
_MEMORY = 180.0  # memory of the mean price from which the trend is measured [min]


@dataclass(frozen=True, slots=True)
class Hidden:
    """The hidden state of one day.

    Attributes
    ----------
    seed, number : int
        Seed of the market; days since it began.
    price : dict of str to array, `TAIL` + 86,401
        By coin, at the beginning of each second and at the end of the day, `TAIL` seconds of the day before first.
        [USD]
    pull : dict of str to array, 86,400
        Move of the price in and around each second, in standard deviations at the usual volatility.
    busy : dict of str to array, 86,400
        Trading in each second, relative to the usual; 0 while the coin is closed.
    nerves : dict of str to array, 1,441
        Log volatility at the beginning of each minute and at the end of the day, relative to the usual.
    trend : dict of str to array, 1,441
        Log price minus its running mean over some hours.
    mood : array, 1,441
        The mood of traders, which makes perpetuals dear; its standard deviation is about 1.
    """

    seed: int
    number: int
    price: dict[str, Floats] = field(default_factory=dict)
    pull: dict[str, Floats] = field(default_factory=dict)
    busy: dict[str, Floats] = field(default_factory=dict)
    nerves: dict[str, Floats] = field(default_factory=dict)
    trend: dict[str, Floats] = field(default_factory=dict)
    mood: Floats = field(default_factory=lambda: np.zeros(MINUTES + 1))

    @property
    def start(self) -> int:
        """The start of the day. [ns since 1970, UTC]"""
        return START_NS + self.number * DAY

    @property
    def minute_ends(self) -> Integers:
        """The last millisecond of each minute, at which markets report. [ns since 1970, UTC]"""
        return self.start + np.arange(1, MINUTES + 1) * MINUTE - 1_000_000

    def hourly(self, coin: str) -> Floats:
        """Return the price of a coin at the beginning of each hour. [USD]"""
        return self.price[coin][TAIL:-1:3600]


def hidden_days(seed: int) -> Iterator[Hidden]:
    """Yield the days of the hidden market without end; a day does not depend on how many are taken.

    Parameters
    ----------
    seed : int, >= 0
        Another seed gives another market.

    Yields
    ------
    Hidden
    """
    crowd, paths = _Crowd(seed), [_Path(seed, coin) for coin in COINS.values()]
    mood = Reverting(seed, "mood", [_MOOD_LASTING], [0.8])
    shocks: list[_Shock] = []
    number = 0
    while True:
        shocks = [shock for shock in shocks if shock.day == number - 1] + _shocks(seed, number)
        moves = crowd.day(number)
        hidden = Hidden(seed, number)
        for path in paths:
            path.day(hidden, moves, [shock for shock in shocks if path.coin.coin in shock.size])
        lead = hidden.trend[paths[0].coin.coin]
        hidden.mood[:] = mood.day(number, MINUTES)[:, 0] + 0.7 * np.clip(lead / 0.012, -2.5, 2.5)
        yield hidden
        number += 1


class _Moves(NamedTuple):
    """The moves and the volatility that all coins share on one day.

    Attributes
    ----------
    factor : array, 86,400
        Standard normal moves, one per second.
    bursts : array, 86,400
        Variance of each second relative to the usual: markets move in bursts, and rest between them.
    nerves : array, 1,441
        Log volatility at the beginning of each minute and at the end of the day.
    """

    factor: Floats
    bursts: Floats
    nerves: Floats


class _Crowd:
    """Draws the moves that all coins share, day by day."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._nerves = Reverting(seed, "volatility", _LASTING, _SPREAD)
        self._fall = 0.0  # of the last minute of the day before

    def day(self, number: int) -> _Moves:
        factor = generator(self._seed, number, "moves").normal(size=SECONDS)
        bursts = generator(self._seed, number, "bursts").gamma(_BURSTS, 1.0 / _BURSTS, size=SECONDS)
        minutes = factor.reshape(MINUTES, 60).sum(axis=1) / np.sqrt(60.0)
        falls = -np.concatenate([[self._fall], minutes[:-1]])
        self._fall = float(minutes[-1])
        free = generator(self._seed, number, "volatility").normal(size=(MINUTES, len(_LASTING)))
        drawn = _LEVERAGE * falls[:, None] + np.sqrt(1.0 - _LEVERAGE**2) * free
        return _Moves(factor, bursts, self._nerves.day(number, MINUTES, drawn).sum(axis=1))


class _Path:
    """The price of one coin, day by day."""

    def __init__(self, seed: int, coin: Coin) -> None:
        self.coin = coin
        self._seed = seed
        self._nerves = Reverting(seed, f"volatility {coin.coin}", [_OWN_LASTING], [_OWN_SPREAD])
        self._mean = Reverting(seed, "", [_MEMORY], [0.0])
        self._last = np.full(TAIL + 1, np.log(coin.price))  # log prices of the end of the day before
        self._usual = coin.volatility / np.sqrt(_YEAR)  # of a second

    def day(self, hidden: Hidden, moves: _Moves, shocks: list[_Shock]) -> None:
        """Add the next day to ``hidden``."""
        coin, number = self.coin, hidden.number
        second = np.arange(SECONDS + 1.0)
        nerves = moves.nerves + self._nerves.day(number, MINUTES)[:, 0]
        jumps = np.zeros(SECONDS + 1)
        for shock in shocks:
            nerves += shock.nerves(number, second[::60])
            jumps += shock.path(number, second, coin.coin)
        busy = activity(coin.hours, number)
        coin_moves = generator(self._seed, number, f"moves {coin.coin}").normal(size=SECONDS)
        drawn = coin.common * moves.factor + np.sqrt(1.0 - coin.common**2) * coin_moves
        heat = np.exp(np.interp(second[:-1], second[::60], nerves) - _VARIANCE)
        drawn *= self._usual * heat * np.sqrt(np.maximum(busy, _IDLE) * moves.bursts)
        steps = np.concatenate([[0.0], np.cumsum(drawn)])
        log_price = self._last[-1] + steps + (jumps - jumps[0])
        hidden.price[coin.coin] = np.exp(np.concatenate([self._last[:-1], log_price]))
        self._last = log_price[-TAIL - 1 :]

        # Traders foresee a part of the move of this second, and of this minute.
        run, minutes = np.diff(log_price), np.diff(log_price[::60]) / np.sqrt(60.0)
        hidden.pull[coin.coin] = (0.5 * run + 1.5 * np.repeat(minutes, 60)) / self._usual
        flow = 0.15 + 0.4 * heat**0.8 * moves.bursts + 0.5 * np.minimum(np.abs(run) / self._usual, 40.0)
        hidden.busy[coin.coin] = busy * flow
        hidden.nerves[coin.coin] = nerves
        path = log_price[::60] - np.log(coin.price)
        mean = self._mean.driven((1.0 - np.exp(-1.0 / _MEMORY)) * path[:-1, None])
        hidden.trend[coin.coin] = path - mean[:, 0]


@dataclass(frozen=True, slots=True)
class _Shock:
    """A sudden move of one coin or of all, a part of which returns later.

    Attributes
    ----------
    day, at : int, float
        Its start: days since the market began, and seconds of that day.
    size : dict of str to float
        Move of the log price of each coin.
    lasts : float
        Duration of the move. [s]
    returned : float
        Share of the move that returns.
    slowly : float
        Time that the return takes. [s]
    fear : float
        Rise of the log volatility.
    """

    day: int
    at: float
    size: dict[str, float]
    lasts: float
    returned: float
    slowly: float
    fear: float

    def path(self, day: int, second: Floats, coin: str) -> Floats:
        since = second + ((day - self.day) * SECONDS - self.at)
        done = np.clip(since / self.lasts, 0.0, 1.0)
        returned = self.returned * -np.expm1(-np.maximum(since - self.lasts, 0.0) / self.slowly)
        return self.size[coin] * (done * done * (3.0 - 2.0 * done) - returned)

    def nerves(self, day: int, second: Floats) -> Floats:
        since = second + ((day - self.day) * SECONDS - self.at)
        fear: Floats = self.fear * np.exp(-np.maximum(since, 0.0) / _CALMS)
        return np.where(since >= 0, fear, 0.0)


def _shocks(seed: int, day: int) -> list[_Shock]:
    """Return the shocks of a day: those of all coins with their aftershocks, and those of one coin."""
    draws = generator(seed, day, "shocks")
    shocks = []
    for _ in range(draws.poisson(1.7)):
        size = (0.0025 + draws.exponential(0.0037)) * (-1.0 if draws.random() < 0.6 else 1.0)
        at = draws.random() * SECONDS
        shocks.append(_shock(draws, day, at, {name: size * coin.jump for name, coin in COINS.items()}))
        for _ in range(draws.poisson(1.3)):
            part = size * draws.uniform(0.2, 0.6) * (1.0 if draws.random() < 0.7 else -0.8)
            later = at + draws.exponential(1_500.0)
            shocks.append(_shock(draws, day, later, {name: part * coin.jump for name, coin in COINS.items()}))
    for name, coin in COINS.items():
        for _ in range(draws.poisson(0.7)):
            size = 0.7 * draws.normal() * coin.volatility * np.sqrt(3_600.0 / _YEAR)
            shocks.append(_shock(draws, day, draws.random() * SECONDS, {name: size}))
    return shocks


def _shock(draws: np.random.Generator, day: int, at: float, sizes: dict[str, float]) -> _Shock:
    of_each = {name: size * np.exp(0.15 * draws.normal()) for name, size in sizes.items() if size}
    strength = max((abs(size) / COINS[name].volatility for name, size in of_each.items()), default=0.0)
    return _Shock(
        day,
        at,
        of_each,
        lasts=20.0 + draws.exponential(100.0),
        returned=draws.uniform(0.05, 0.45),
        slowly=120.0 + draws.exponential(600.0),
        fear=min(0.9, 50.0 * strength),
    )
