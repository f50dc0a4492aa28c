"""Levels of sessions by a plain loop over candles, from `Session.schedule` alone."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

from tidytape import Session

__all__ = ["levels"]


def levels(candles: list[dict[str, Any]], whole: Session, regular: Session) -> list[dict[str, Any]]:
    """Return highs, lows, closes and times of each session; no profiles."""
    first, last = (pick(candle["timestamp"] for candle in candles) for pick in (min, max))
    span = (first - timedelta(days=9)).date(), (last + timedelta(days=9)).date()
    days = regular.schedule(*span).rows(named=True)
    spans = [(day["open"], day["close"]) for day in whole.schedule(*span).rows(named=True)]
    rows: list[dict[str, Any]] = []
    prior: list[dict[str, Any]] = []
    for before, day in pairwise(days):
        night = [
            candle
            for candle in candles
            if before["close"] <= candle["timestamp"] < day["open"]
            and any(begin <= candle["timestamp"] < end for begin, end in spans)
        ]
        traded = [candle for candle in candles if day["open"] <= candle["timestamp"] < day["close"]]
        balance_end = day["open"] + timedelta(hours=1)
        hour = [candle for candle in traded if candle["timestamp"] < balance_end]
        follows = bool(prior) and prior[0]["timestamp"] >= before["open"]
        if night or traded or follows:
            own = [candle["timestamp"] + timedelta(minutes=30) for candle in (*night, *traded)]
            known = before["close"] if follows else min(own)
            rows.append(
                {
                    "timestamp": day["open"],
                    "prior_high": max((candle["high"] for candle in prior), default=None),
                    "prior_low": min((candle["low"] for candle in prior), default=None),
                    "prior_close": prior[-1]["close"] if prior else None,
                    "overnight_high": max((candle["high"] for candle in night), default=None),
                    "overnight_low": min((candle["low"] for candle in night), default=None),
                    "initial_balance_high": max((candle["high"] for candle in hour), default=None),
                    "initial_balance_low": min((candle["low"] for candle in hour), default=None),
                    "prior_known_at": known,
                    "overnight_known_at": max(known, day["open"]),
                    "initial_balance_known_at": max(known, balance_end),
                }
            )
        prior = traded or prior
    return rows
