r"""Black's price of an option on a forward, and the volatility that a price implies.

An option's time value is that of the out-of-the-money option of its strike, by put-call parity. In terms of
:math:`x = -|\ln(F/K)|` and the total deviation :math:`s = \sigma \sqrt{T}`, with :math:`h = x/s` and :math:`t = s/2`,

.. math:: b(x, s) = e^{x/2} \Phi(h + t) - e^{-x/2} \Phi(h - t)

is that value divided by :math:`\sqrt{FK}` [1]_. In the wings it is small beside its terms, and computed as it stands
would have no digits left.

References
----------
.. [1] P. Jäckel, "Let's be rational", Wilmott, 2015: the normalised Black function and its scaled complements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import elementwise
from scipy.special import erfcx, log_ndtr, ndtri

Floats = NDArray[np.float64]

_ROOT_2_PI: Final = np.sqrt(2 * np.pi)
_EPSILON: Final = np.finfo(float).eps
_SHORT: Final = 1e-3  # deviation/2 below which a series is closer than a difference


def implied_deviation(x: Floats, share: Floats) -> Floats:
    r"""Total deviation at which an out-of-the-money option has a time value.

    Parameters
    ----------
    x : array
        :math:`-|\ln(F/K)|`. [1]
    share : array
        Time value as a share of the most it can be, min(F, K): above 0 and below 1. [1]

    Returns
    -------
    array
        :math:`\sigma \sqrt{T}`, NaN where the search does not end. [1]
    """
    deviation = np.full(x.shape, np.nan)
    for part, ends, objective in (
        (share <= 0.5, _ends_low, _log_value),
        (share > 0.5, _ends_high, _log_complement),
    ):
        if part.any():
            deviation[part] = _solved(objective, ends, x[part], share[part])
    return deviation


def relative_error(x: Floats, deviation: Floats, noise: Floats) -> Floats:
    r"""What an error of the time value, as a share of :math:`\sqrt{FK}`, does to the deviation, as a share of it."""
    vega = np.exp(-0.5 * ((x / deviation) ** 2 + (deviation / 2) ** 2)) / _ROOT_2_PI
    with np.errstate(divide="ignore"):
        error: Floats = noise / (vega * deviation)
    return error


def _solved(
    objective: Callable[..., Floats],
    ends: Callable[[Floats, Floats], tuple[Floats, Floats]],
    x: Floats,
    share: Floats,
) -> Floats:
    """Search by the logarithm of the deviation, in which the logarithm of the value bends little."""
    low, high = ends(x, share)
    target = 0.5 * x + (np.log(share) if objective is _log_value else np.log1p(-share))
    found: Any = elementwise.find_root(
        lambda u, x, target: objective(x, np.exp(u)) - target,
        (np.log(low), np.log(high)),
        args=(x, target),
        tolerances={"xatol": 2 * _EPSILON, "xrtol": 2 * _EPSILON, "fatol": 0.0, "frtol": 0.0},
        maxiter=200,
    )
    deviation: Floats = np.where(found.success, np.exp(found.x), np.nan)
    return deviation


def _ends_low(x: Floats, share: Floats) -> tuple[Floats, Floats]:
    r"""Deviations around the root for values of at most half of the most.

    Below: :math:`b \le s / \sqrt{2\pi}`, and :math:`b \le e^{-h^2/2}/2` where :math:`t \le |h|`. Above: what is missing
    to the most is at most :math:`2 \Phi(-c/2)` of it at :math:`s = \sqrt{2|x|} + c`.
    """
    logarithm, turn = 0.5 * x + np.log(share), np.sqrt(-2 * x)
    with np.errstate(divide="ignore", invalid="ignore"):
        wing = np.minimum(turn, -x / np.sqrt(-2 * (logarithm + np.log(2))))
    low = np.fmax(_ROOT_2_PI * np.exp(logarithm), wing)
    return 0.99 * low, turn + 2.0


def _ends_high(x: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Deviations around the root for values of more than half of the most, by the same bounds."""
    low = _ROOT_2_PI * share * np.exp(0.5 * x)
    return 0.99 * low, np.sqrt(-2 * x) - 2 * ndtri((1 - share) / 2) + 0.1


def _log_value(x: Floats, s: Floats) -> Floats:
    """Logarithm of b."""
    h, t = x / s, s / 2
    near = h + t <= 1
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        scaled = np.where(
            t < _SHORT, _series(h, t), erfcx(-(h + t) / np.sqrt(2)) - erfcx(-(h - t) / np.sqrt(2))
        )
        value = np.log(scaled / 2) - 0.5 * (h * h + t * t)
        return np.where(near, value, 0.5 * x + np.log1p(-np.exp(_log_complement(x, s) - 0.5 * x)))


def _series(h: Floats, t: Floats) -> Floats:
    """Difference of erfcx(-z/√2) at z = h ± t, to the third power of t."""
    value = erfcx(-h / np.sqrt(2))
    first = h * value + np.sqrt(2 / np.pi)
    second = value + h * first
    third = 2 * first + h * second
    difference: Floats = 2 * t * (first + t * t / 6 * third)
    return difference


def _log_complement(x: Floats, s: Floats) -> Floats:
    """Logarithm of what b is short of the most it can be."""
    h, t = x / s, s / 2
    missing: Floats = np.logaddexp(0.5 * x + log_ndtr(-h - t), -0.5 * x + log_ndtr(h - t))
    return missing
