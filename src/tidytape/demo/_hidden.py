"""The hidden state behind all markets: prices, second by second, their volatility, and the mood of traders.

One factor moves all coins. Its volatility is a product of processes that remember ten minutes, two hours and 36 hours;
it rises when prices fall. Shocks come at random, most of them down, and bring aftershocks. In a shock the price moves
for a minute or so and then returns in part, and volatility stays high for half an hour.
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
"""How much of the day before each day's prices begin with, for code that looks back. [s]"""

_YEAR = 365.25 * SECONDS  # [s]
_RISE_LASTS = 1_500.0  # time in which the rise of volatility after a shock decays [s]
# Activity that still moves the hidden price of a closed market, relative to the usual.
_CLOSED_ACTIVITY = 0.25

# Parts of the log volatility: the memory [min] and the standard deviation of each.
_MEMORIES = [10.0, 120.0, 2_160.0]
_DEVIATIONS = [0.24, 0.24, 0.14]
_COIN_MEMORY, _COIN_DEVIATION = 180.0, 0.18  # of the part that each coin has for itself
_VARIANCE = sum(deviation**2 for deviation in [*_DEVIATIONS, _COIN_DEVIATION])
_LEVERAGE = 0.4  # correlation of the shocks of log volatility with falls of the price

_BURSTS = 0.1  # shape of the gamma draws: a smaller one makes bursts rarer and larger

_MOOD_MEMORY = 420.0  # memory of the mood [min]
_TREND_MEMORY = 180.0  # memory of the mean price from which the trend is measured [min]


@dataclass(frozen=True, slots=True)
class Hidden:
    """The hidden state of one day.

    Attributes
    ----------
    seed, number : int
        Seed of the market; number of the day, counted from 0.
    price : dict of str to array, `TAIL` + 86,401
        By coin: the last `TAIL` seconds of the day before, then the price at the beginning of each second and at the
        end of the day. [USD]
    pull : dict of str to array, 86,400
        Move of the price in and around each second, in standard deviations at the usual volatility. It decides whether
        aggressors buy.
    busy : dict of str to array, 86,400
        Trading activity in each second, relative to the usual; 0 while the coin's markets are closed.
    log_volatility : dict of str to array, 1,441
        Log volatility at the beginning of each minute and at the end of the day, relative to the usual.
    trend : dict of str to array, 1,441
        Log price minus its running mean over some hours.
    mood : array, 1,441
        The mood of traders, with a standard deviation of about 1. Perpetuals are dear when it is high.
    """

    seed: int
    number: int
    price: dict[str, Floats] = field(default_factory=dict)
    pull: dict[str, Floats] = field(default_factory=dict)
    busy: dict[str, Floats] = field(default_factory=dict)
    log_volatility: dict[str, Floats] = field(default_factory=dict)
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
    """Yield the days of the hidden market without end; a day does not depend on how many days follow it.

    Parameters
    ----------
    seed : int, >= 0
        Another seed gives another market.

    Yields
    ------
    Hidden
    """
    shared, paths = _SharedMoves(seed), [_Path(seed, coin) for coin in COINS.values()]
    mood = Reverting(seed, "mood", [_MOOD_MEMORY], [0.8])
    shocks: list[_Shock] = []
    number = 0
    while True:
        # A shock also acts on the day after its start.
        shocks = [shock for shock in shocks if shock.day == number - 1] + _shocks(seed, number)
        moves = shared.day(number)
        hidden = Hidden(seed, number)
        for path in paths:
            path.day(hidden, moves, [shock for shock in shocks if path.coin.coin in shock.size])
        lead_trend = hidden.trend[paths[0].coin.coin]
        hidden.mood[:] = mood.day(number, MINUTES)[:, 0] + 0.7 * np.clip(lead_trend / 0.012, -2.5, 2.5)
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
    log_volatility : array, 1,441
        Log volatility at the beginning of each minute and at the end of the day, relative to the usual.
    """

    factor: Floats
    bursts: Floats
    log_volatility: Floats


class _SharedMoves:
    """Draws the moves that all coins share, day by day."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._log_volatility = Reverting(seed, "volatility", _MEMORIES, _DEVIATIONS)
        self._last_move = 0.0  # of the last minute of the day before

    def day(self, number: int) -> _Moves:
        factor = generator(self._seed, number, "moves").normal(size=SECONDS)
        bursts = generator(self._seed, number, "bursts").gamma(_BURSTS, 1.0 / _BURSTS, size=SECONDS)
        minutes = factor.reshape(MINUTES, 60).sum(axis=1) / np.sqrt(60.0)
        falls = -np.concatenate([[self._last_move], minutes[:-1]])
        self._last_move = float(minutes[-1])
        independent = generator(self._seed, number, "volatility").normal(size=(MINUTES, len(_MEMORIES)))
        shocks = _LEVERAGE * falls[:, None] + np.sqrt(1.0 - _LEVERAGE**2) * independent
        return _Moves(factor, bursts, self._log_volatility.day(number, MINUTES, shocks).sum(axis=1))


class _Path:
    """The price of one coin, day by day."""

    def __init__(self, seed: int, coin: Coin) -> None:
        self.coin = coin
        self._seed = seed
        self._log_volatility = Reverting(seed, f"volatility {coin.coin}", [_COIN_MEMORY], [_COIN_DEVIATION])
        self._mean = Reverting(seed, "", [_TREND_MEMORY], [0.0])
        self._last = np.full(TAIL + 1, np.log(coin.price))  # log prices at the end of the day before
        self._usual_volatility = coin.volatility / np.sqrt(_YEAR)  # of one second

    def day(self, hidden: Hidden, moves: _Moves, shocks: list[_Shock]) -> None:
        """Add the next day to ``hidden``."""
        coin, number = self.coin, hidden.number
        second = np.arange(SECONDS + 1.0)
        log_volatility = moves.log_volatility + self._log_volatility.day(number, MINUTES)[:, 0]
        jumps = np.zeros(SECONDS + 1)
        for shock in shocks:
            log_volatility += shock.log_volatility(number, second[::60])
            jumps += shock.path(number, second, coin.coin)
        busy = activity(coin.hours, number)
        coin_moves = generator(self._seed, number, f"moves {coin.coin}").normal(size=SECONDS)
        returns = coin.common * moves.factor + np.sqrt(1.0 - coin.common**2) * coin_moves
        volatility = np.exp(np.interp(second[:-1], second[::60], log_volatility) - _VARIANCE)
        returns *= (
            self._usual_volatility * volatility * np.sqrt(np.maximum(busy, _CLOSED_ACTIVITY) * moves.bursts)
        )
        steps = np.concatenate([[0.0], np.cumsum(returns)])
        log_price = self._last[-1] + steps + (jumps - jumps[0])
        hidden.price[coin.coin] = np.exp(np.concatenate([self._last[:-1], log_price]))
        self._last = log_price[-TAIL - 1 :]

        # Traders foresee part of the move of each second and of its minute.
        second_moves, minute_moves = np.diff(log_price), np.diff(log_price[::60]) / np.sqrt(60.0)
        hidden.pull[coin.coin] = (
            0.5 * second_moves + 1.5 * np.repeat(minute_moves, 60)
        ) / self._usual_volatility
        relative_moves = np.minimum(np.abs(second_moves) / self._usual_volatility, 40.0)
        hidden.busy[coin.coin] = busy * (0.15 + 0.4 * volatility**0.8 * moves.bursts + 0.5 * relative_moves)
        hidden.log_volatility[coin.coin] = log_volatility
        path = log_price[::60] - np.log(coin.price)
        mean = self._mean.driven((1.0 - np.exp(-1.0 / _TREND_MEMORY)) * path[:-1, None])
        hidden.trend[coin.coin] = path - mean[:, 0]


@dataclass(frozen=True, slots=True)
class _Shock:
    """A sudden move of one coin or of all, a part of which returns later.

    Attributes
    ----------
    day, at : int, float
        Start of the shock: number of the day, and seconds of that day.
    size : dict of str to float
        Move of the log price of each coin.
    duration : float
        Duration of the move. [s]
    returned_share : float
        Share of the move that returns.
    return_time : float
        Time that the return takes. [s]
    volatility_rise : float
        Rise of the log volatility at the start.
    """

    day: int
    at: float
    size: dict[str, float]
    duration: float
    returned_share: float
    return_time: float
    volatility_rise: float

    def path(self, day: int, second: Floats, coin: str) -> Floats:
        """Return what the shock adds to the log price of a coin at each second of a day."""
        since = second + ((day - self.day) * SECONDS - self.at)
        progress = np.clip(since / self.duration, 0.0, 1.0)
        returned = self.returned_share * -np.expm1(-np.maximum(since - self.duration, 0.0) / self.return_time)
        return self.size[coin] * (progress * progress * (3.0 - 2.0 * progress) - returned)

    def log_volatility(self, day: int, second: Floats) -> Floats:
        """Return what the shock adds to the log volatility at each second of a day."""
        since = second + ((day - self.day) * SECONDS - self.at)
        rise: Floats = self.volatility_rise * np.exp(-np.maximum(since, 0.0) / _RISE_LASTS)
        return np.where(since >= 0, rise, 0.0)


def _shocks(seed: int, day: int) -> list[_Shock]:
    """Return the shocks that start on a day: shocks of all coins, their aftershocks, and shocks of single coins."""
    draws = generator(seed, day, "shocks")
    shocks = []
    for _ in range(draws.poisson(1.7)):
        size = (0.0025 + draws.exponential(0.0037)) * (-1.0 if draws.random() < 0.6 else 1.0)
        at = draws.random() * SECONDS
        shocks.append(_shock(draws, day, at, {name: size * coin.jump for name, coin in COINS.items()}))
        for _ in range(draws.poisson(1.3)):
            after_size = size * draws.uniform(0.2, 0.6) * (1.0 if draws.random() < 0.7 else -0.8)
            later = at + draws.exponential(1_500.0)
            shocks.append(
                _shock(draws, day, later, {name: after_size * coin.jump for name, coin in COINS.items()})
            )
    for name, coin in COINS.items():
        for _ in range(draws.poisson(0.7)):
            size = 0.7 * draws.normal() * coin.volatility * np.sqrt(3_600.0 / _YEAR)
            shocks.append(_shock(draws, day, draws.random() * SECONDS, {name: size}))
    return shocks


def _shock(draws: np.random.Generator, day: int, at: float, sizes: dict[str, float]) -> _Shock:
    coin_sizes = {name: size * np.exp(0.15 * draws.normal()) for name, size in sizes.items() if size}
    strength = max((abs(size) / COINS[name].volatility for name, size in coin_sizes.items()), default=0.0)
    return _Shock(
        day,
        at,
        coin_sizes,
        duration=20.0 + draws.exponential(100.0),
        returned_share=draws.uniform(0.05, 0.45),
        return_time=120.0 + draws.exponential(600.0),
        volatility_rise=min(0.9, 50.0 * strength),
    )
