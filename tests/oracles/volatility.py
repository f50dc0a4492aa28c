"""Realised volatility as the papers write it: one loop over the candles of one window."""

from __future__ import annotations

from math import log, sqrt
from statistics import mean, variance


def realized(candles, *, estimator, per_year):
    """Return percent per year of (open, high, low, close), oldest first; the first one only for its close.

    ``parkinson``, ``garman_klass`` and ``rogers_satchell`` do not look at it.
    """
    before, rest = candles[:-1], candles[1:]
    overnight = [log(now[0] / then[3]) for then, now in zip(before, rest, strict=True)]
    close = [log(c / o) for o, _, _, c in rest]
    up, down = [log(h / o) for o, h, _, _ in rest], [log(low / o) for o, _, low, _ in rest]
    satchell = mean(u * (u - c) + d * (d - c) for u, d, c in zip(up, down, close, strict=True))
    n = len(rest)
    k = 0.34 / (1.34 + (n + 1) / (n - 1))
    one = {
        "close_to_close": lambda: variance(o + c for o, c in zip(overnight, close, strict=True)),
        "parkinson": lambda: mean((u - d) ** 2 for u, d in zip(up, down, strict=True)) / (4 * log(2)),
        "garman_klass": lambda: mean(
            (u - d) ** 2 / 2 - (2 * log(2) - 1) * c**2 for u, d, c in zip(up, down, close, strict=True)
        ),
        "rogers_satchell": lambda: satchell,
        "yang_zhang": lambda: variance(overnight) + k * variance(close) + (1 - k) * satchell,
    }[estimator]()
    return 100 * sqrt(one * per_year)
