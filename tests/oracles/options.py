"""Volatility and skew at constant maturity in plain Python, one option at a time, with ``math.erf``."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from typing import Any

DAY = 86_400 * 10**9
TENORS = {
    "ONE_D": 1, "THREE_D": 3, "ONE_W": 7, "ONE_M": 30, "TWO_M": 60, "THREE_M": 90, "SIX_M": 180, "ONE_Y": 365
}  # fmt: skip


def cdf(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def d1_of(row: dict[str, Any]) -> tuple[float, float]:
    deviation = row["implied_volatility"] / 100 * math.sqrt((row["expiry"] - row["timestamp"]) / DAY / 365)
    return math.log(row["forward"] / row["strike"]) / deviation + deviation / 2, deviation


def delta_of(row: dict[str, Any], rule: str) -> float:
    d1, deviation = d1_of(row)
    sign = 1 if row["option_type"] == "CALL" else -1
    if rule == "forward":
        return sign * cdf(sign * d1)
    return sign * row["strike"] / row["forward"] * cdf(sign * (d1 - deviation))


def read_off(ladder: list[tuple[float, float, float]], at: float) -> float | None:
    """Volatility where x is ``at``, of (x, volatility, |ln K/F|) in order of strike; the closest crossing."""
    found = [(distance, vol) for x, vol, distance in ladder if x == at]
    for (x0, v0, distance), (x1, v1, _) in pairwise(ladder):
        if x0 < at < x1:
            found.append((distance, v0 + (v1 - v0) * (at - x0) / (x1 - x0)))
    return min(found)[1] if found else None


def chains(
    rows: list[dict[str, Any]], seconds: int
) -> dict[Any, dict[int, tuple[float, list[dict[str, Any]]]]]:
    """Each bucket's chain: expiry to its days and its options, by strike."""
    last: dict[Any, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["timestamp"]):
        if all((row[name] or 0) > 0 for name in ("implied_volatility", "forward", "strike")):
            bucket = row["timestamp"] // (seconds * 10**9) * seconds * 10**9
            last[row["exchange"], row["coin"], bucket, row["raw_symbol"]] = row
    chain: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for (exchange, coin, bucket, _), row in last.items():
        chain[exchange, coin, bucket].append(row)
    result = {}
    for key, options in chain.items():
        now = max(row["timestamp"] for row in options)
        expiries = sorted({row["expiry"] for row in options if row["expiry"] > now})
        result[key] = {
            expiry: (
                (expiry - now) / DAY,
                sorted((row for row in options if row["expiry"] == expiry), key=lambda row: row["strike"]),
            )
            for expiry in expiries
        }
    return result


def at_tenors(term: list[tuple[float, float | None]]) -> dict[str, float]:
    """Volatility at each tenor of (days, volatility) in order of time, linear in total variance."""
    found = {}
    for name, length in TENORS.items():
        for days, vol in term:
            if days == length and vol is not None:
                found[name] = vol
        for (t0, v0), (t1, v1) in pairwise(term):
            if t0 < length < t1 and v0 is not None and v1 is not None:
                w0, w1 = v0 * v0 * t0, v1 * v1 * t1
                found[name] = math.sqrt((w0 + (w1 - w0) * (length - t0) / (t1 - t0)) / length)
    return found


def moneyness(row: dict[str, Any]) -> float:
    return math.log(row["strike"] / row["forward"])


def implied_volatility(rows: list[dict[str, Any]], seconds: int, atm: str) -> dict[Any, float]:
    answer = {}
    for (exchange, coin, bucket), expiries in chains(rows, seconds).items():
        term: list[tuple[float, float | None]] = []
        for days, options in expiries.values():
            out = [
                row for row in options if (row["option_type"] == "CALL") == (row["strike"] >= row["forward"])
            ]
            x = moneyness if atm == "forward" else lambda row: -cdf(d1_of(row)[0])
            ladder = [(x(row), row["implied_volatility"], abs(moneyness(row))) for row in out]
            term.append((days, read_off(ladder, 0.0 if atm == "forward" else -0.5)))
        for tenor, vol in at_tenors(term).items():
            answer[exchange, f"{coin}_ATM", tenor, bucket] = vol
    return answer


def skew(rows: list[dict[str, Any]], seconds: int, rule: str) -> dict[Any, float]:
    answer = {}
    for (exchange, coin, bucket), expiries in chains(rows, seconds).items():
        for percent in (25, 10):
            vols = []
            for kind, target in (("PUT", -percent / 100), ("CALL", percent / 100)):
                term: list[tuple[float, float | None]] = []
                for days, options in expiries.values():
                    ladder = [
                        (-delta_of(row, rule), row["implied_volatility"], abs(moneyness(row)))
                        for row in options
                        if row["option_type"] == kind
                    ]
                    term.append((days, read_off(ladder, -target)))
                vols.append(at_tenors(term))
            put, call = vols
            for tenor in put.keys() & call.keys():
                answer[exchange, f"{coin}_{percent}", tenor, bucket] = put[tenor] - call[tenor]
    return answer
