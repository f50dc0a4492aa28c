"""Randomness and functions that give the same bits on every machine.

A library's normal deviates and logarithms differ in the last digit from processor to processor, so only what IEEE 754
rounds exactly is used: raw random bits, integers, and one ``+ - * /`` or square root at a time. Sums are running sums:
numpy adds rows up in another order on another processor.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bits", "Floats", "Integers", "between", "exp"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


class Bits:
    """Draws that are the same everywhere: numpy promises the raw bits of PCG64, and the rest is exact.

    Parameters
    ----------
    seed : int, >= 0
        That of the market.
    stream : int, >= 0
        What the draws are for; each purpose has its own, so that none moves the others.
    """

    def __init__(self, seed: int, stream: int) -> None:
        self._source = np.random.PCG64(np.random.SeedSequence([seed, stream]))

    def uniform(self, size: int) -> Floats:
        """Return values in [0, 1)."""
        return (self._source.random_raw(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def normal(self, size: int) -> Floats:
        """Return values of mean 0 and variance 1, nearly normal: twelve 16-bit uniforms less their mean."""
        parts = self._source.random_raw(3 * size).reshape(3, size)
        total = np.zeros(size, dtype=np.int64)
        for shift in (0, 16, 32, 48):
            for part in parts:
                total += ((part >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
        return (total - 6 * 0xFFFF).astype(np.float64) / 65536.0


def exp(x: Floats) -> Floats:
    """Return e ** x to about x ** 2 / 2048: (1 + x / 1024) ** 1024, by squaring ten times."""
    power = 1.0 + x / 1024.0
    for _ in range(10):
        power = power * power
    return power


def between(levels: Floats, position: Floats) -> Floats:
    """Return ``levels`` at fractional positions, along straight lines. (numpy's own may fuse a multiply and an add.)"""
    left = np.floor(position)
    weight = position - left
    index = left.astype(np.int64)
    return levels[index] * (1.0 - weight) + levels[index + 1] * weight
