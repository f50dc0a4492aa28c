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
    """Return the random generator of one purpose on one day; its draws do not depend on other purposes and days.

    Parameters
    ----------
    seed : int, >= 0
        Seed of the market.
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
    r"""Processes that return to zero step by step (Ornstein-Uhlenbeck, sampled exactly).

    .. math:: x_{k+1} = a x_k + s \sqrt{1 - a^2} z_k, \quad a = e^{-1 / \tau}

    A process with s = 0 starts at 0 and only adds up what `driven` gets.

    Parameters
    ----------
    seed : int, >= 0
        Seed of the market.
    purpose : str
        What the draws are for.
    memories : sequence of float
        Tau of each process. [steps, which are minutes or hours]
    deviations : sequence of float
        Standard deviation s of each process, in the unit of its values.
    """

    def __init__(self, seed: int, purpose: str, memories: list[float], deviations: list[float]) -> None:
        self._seed, self._purpose = seed, purpose
        self._decay = np.exp(-1.0 / np.array(memories))
        self._deviations = np.array(deviations)
        self._last: Floats = (
            generator(seed, 0, f"{purpose} begins").normal(size=len(memories)) * self._deviations
        )

    def day(self, number: int, steps: int, shocks: Floats | None = None) -> Floats:
        """Return the values at the beginning of each step of a day, and at the end of the day.

        Parameters
        ----------
        number : int
            Number of the day; callers ask for one day after the other.
        steps : int
            Number of steps of the day.
        shocks : array, steps x processes, optional
            Standard normal draws z; by default those of the generator of this purpose.

        Returns
        -------
        array, (steps + 1) x processes
        """
        if shocks is None:
            shocks = generator(self._seed, number, self._purpose).normal(size=(steps, self._deviations.size))
        return self.driven(shocks * (self._deviations * np.sqrt(1.0 - self._decay**2)))

    def driven(self, inputs: Floats) -> Floats:
        """Return the values x[k + 1] = a x[k] + inputs[k], from the last value of the day before on."""
        values = np.empty((len(inputs) + 1, self._deviations.size))
        value = values[0] = self._last
        for step, shock in enumerate(inputs, start=1):
            value = values[step] = self._decay * value + shock
        self._last = values[-1].copy()
        return values
