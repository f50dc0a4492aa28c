"""Funding in plain loops over rows, each a dict: the slow twins of `tidytape.analytics.funding`."""

from __future__ import annotations

from decimal import Decimal, localcontext
from itertools import permutations
from typing import Any

Row = dict[str, Any]


def apy(rate: float, *, times: int) -> float:
    """Compound a rate so many times, in decimals of 50 digits."""
    with localcontext(prec=50):
        return float((1 + Decimal(rate)) ** times - 1)


def accrued(
    rows: list[Row], *, every: int, own: int, position: float
) -> list[tuple[int, float | None, float | None, int]]:
    """Return (time, payment, sum so far or None, settlements missed so far) of one series."""
    paid = {row["timestamp"]: row["rate"] for row in rows if row["timestamp"] % every == 0}
    found: list[tuple[int, float | None, float | None, int]] = []
    if not paid:
        return found
    total, missed = 0.0, 0
    for time in range(min(paid), max(paid) + 1, every):
        payment = None if paid.get(time) is None else -position * paid[time] * every / own
        missed += payment is None
        total += payment or 0.0
        if time in paid:
            found.append((time, payment, None if missed else total, missed))
    return found


def predicted_error(rows: list[Row], *, every: int, interval: int) -> list[tuple[int, float | None]]:
    """Return (time, predicted minus settled) of one series."""
    predicted = {row["timestamp"] + interval: row["predicted"] for row in rows}
    found = []
    for row in sorted(rows, key=lambda row: row["timestamp"]):
        if row["timestamp"] % every == 0:
            ends = (predicted.get(row["timestamp"]), row["rate"])
            found.append((row["timestamp"], None if None in ends else ends[0] - ends[1]))
    return found


def carry(rows: list[Row], *, ratio: float, costs: dict[str, float]) -> tuple[str, str, float] | None:
    """Return (long, short, what is left) of the rows of one time, one per venue."""
    best = None
    known = [row for row in rows if row["rate"] is not None and row["exchange"] in costs]
    for long, short in permutations(sorted(known, key=lambda row: row["exchange"]), 2):
        left = (
            short["rate"] * ratio
            - long["rate"] * ratio
            - (costs[long["exchange"]] + costs[short["exchange"]])
        )
        if best is None or left > best[2]:
            best = (long["exchange"], short["exchange"], left)
    return best
