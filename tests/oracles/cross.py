"""Markets of a coin joined in plain loops over rows, each a dict: the slow twins of `tidytape.analytics.cross`."""

from __future__ import annotations

from fractions import Fraction
from statistics import mean, median, stdev
from typing import Any

Row = dict[str, Any]


def _by_time(rows: list[Row]) -> list[tuple[int, list[Row]]]:
    times = sorted({row["timestamp"] for row in rows})
    return [(time, [row for row in rows if row["timestamp"] == time]) for time in times]


_ABSENT = object()


def _standing(reports: list[Row], market: str, time: int, carry: int) -> Any:
    """Return what a market last reported at a time, None where it said no number, absent if that is too old."""
    made = [row for row in reports if row["exchange"] == market and row["timestamp"] <= time]
    last = max(made, key=lambda row: row["timestamp"], default=None)
    if last is None or time - last["timestamp"] > carry:
        return _ABSENT
    return last["close"]


def total(rows: list[Row], *, carry: int | None = None) -> list[tuple[int, float | None, int, float | None]]:
    """Return (time, sum, markets, coverage), exactly summed."""
    found = []
    for time, here in _by_time(rows):
        if carry is None:
            values = [row["close"] for row in here]
        else:
            values = [_standing(rows, market, time, carry) for market in {row["exchange"] for row in rows}]
        values = [value for value in values if value is not _ABSENT]
        known = [Fraction(value) for value in values if value is not None]
        whole = float(sum(known)) if values and len(known) == len(values) else None
        found.append((time, whole, len(known), len(known) / len(values) if values else None))
    return found


def oi_weighted(
    rates: list[Row], reports: list[Row], *, carry: int
) -> list[tuple[int, float | None, float | None, int]]:
    """Return (time, mean, coverage, markets)."""
    found = []
    markets = {row["exchange"] for row in reports}
    for time, here in _by_time(rates):
        interest = {market: _standing(reports, market, time, carry) for market in markets}
        interest = {market: value for market, value in interest.items() if value is not _ABSENT}
        rated = [row for row in here if row["rate_close"] is not None]
        both = [row for row in rated if (interest.get(row["exchange"]) or 0.0) > 0]
        lacks = None in interest.values() or any(row["exchange"] not in interest for row in rated)
        if both:
            used = sum(Fraction(interest[row["exchange"]]) for row in both)
            parts = sum(Fraction(row["rate_close"]) * Fraction(interest[row["exchange"]]) for row in both)
            whole = sum(Fraction(value or 0.0) for value in interest.values())
            coverage = None if lacks else float(used / whole)
            unknown = any(interest.get(row["exchange"], 0.0) is None for row in rated)
            found.append((time, None if unknown else float(parts / used), coverage, len(both)))
    return found


def dispersion(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return (time, markets, lowest, highest, mean, median, deviation, lowest market, highest market)."""
    found = []
    for time, here in _by_time([row for row in rows if row["close"] is not None]):
        values = [row["close"] for row in here]
        low = min(here, key=lambda row: (row["close"], row["exchange"]))
        high = min(here, key=lambda row: (-row["close"], row["exchange"]))
        apart = stdev(values) if len(values) > 1 else None
        ends = (low["close"], high["close"], mean(values), median(values), apart)
        found.append((time, len(here), *ends, low["exchange"], high["exchange"]))
    return found


def consolidated(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return (time, open, high, low, close, volume, markets that traded)."""
    found = []
    last_closes: dict[str, float] = {}
    for time, here in _by_time(rows):
        traded = [row for row in here if not _fills(row, last_closes.get(row["exchange"], row["close"]))]
        last_closes |= {row["exchange"]: row["close"] for row in here}
        used = traded or here
        first = min(used, key=lambda row: (row["first_timestamp"] or 0, row["exchange"]))
        last = max(used, key=lambda row: (row["last_timestamp"] or 0, row["exchange"]))
        volumes = [row["volume"] for row in used]
        volume = None if None in volumes else float(sum(map(Fraction, volumes)))
        high, low = max(row["high"] for row in used), min(row["low"] for row in used)
        untimed = len(used) > 1 and any(row["first_timestamp"] is None for row in traded)
        ends = (None, None) if untimed else (first["open"], last["close"])
        found.append((time, ends[0], high, low, ends[1], volume, len(traded)))
    return found


def _fills(row: Row, close: float) -> bool:
    """Whether a candle has no volume and no first trade, and all its prices are the close before it."""
    prices = {row[name] for name in ("open", "high", "low", "close")}
    return row["volume"] == 0 and row["first_timestamp"] is None and prices == {close}
