"""Random draws: a generator per day and purpose, and processes that keep their state from day to day."""

from __future__ import annotations

import zlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]


def generator(seed: int, day: int, purpose: str) -> np.random.Generator:
    """Return the generator of one purpose on one day; the draws of purposes and days do not depend on each other.

    Parameters
    ----------
    seed : int, >= 0
        That of the market.
    day : int, >= 0
        Days since the market began.
    purpose : str
        What the draws are for.

    Returns
    -------
    numpy.random.Generator
    """
    return np.random.default_rng([seed, day, zlib.crc32(purpose.encode())])


class Reverting:
    r"""Processes that return to zero, minute by minute (Ornstein-Uhlenbeck, sampled exactly).

    .. math:: x_{k+1} = a x_k + s \sqrt{1 - a^2} z_k, \quad a = e^{-1 / \tau}

    Parameters
    ----------
    seed : int, >= 0
        That of the market.
    purpose : str
        What the draws are for.
    lasting : sequence of float
        Tau of each process: how long it remembers. [min]
    spread : sequence of float
        Standard deviation s of each, in the unit of its values.
    """

    def __init__(self, seed: int, purpose: str, lasting: list[float], spread: list[float]) -> None:
        self._seed, self._purpose = seed, purpose
        self._decay = np.exp(-1.0 / np.array(lasting))
        self._spread = np.array(spread)
        self._last: Floats = generator(seed, 0, f"{purpose} begins").normal(size=len(lasting)) * self._spread

    def day(self, number: int, minutes: int, shocks: Floats | None = None) -> Floats:
        """Return the values at the beginning of each minute of a day, and at its end.

        Parameters
        ----------
        number : int
            Number of the day; callers ask for one day after the other.
        minutes : int
            Number of minutes of the day.
        shocks : array, minutes x processes, optional
            Standard normal draws; if left out those of the generator of this purpose.

        Returns
        -------
        array, (minutes + 1) x processes
        """
        if shocks is None:
            shocks = generator(self._seed, number, self._purpose).normal(size=(minutes, self._spread.size))
        return self.driven(shocks * (self._spread * np.sqrt(1.0 - self._decay**2)))

    def driven(self, inputs: Floats) -> Floats:
        """Return the values that given inputs drive: x[k + 1] = a x[k] + inputs[k]."""
        values = np.empty((len(inputs) + 1, self._spread.size))
        value = values[0] = self._last
        for minute, added in enumerate(inputs, start=1):
            value = values[minute] = self._decay * value + added
        self._last = values[-1].copy()
        return values
