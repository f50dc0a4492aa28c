"""Slow and plain: candles and profiles with loops and dictionaries."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal

SECONDS = {
    "1m": 60,
    "5m": 300,
    "15m": 900,
    "30m": 1800,
    "1h": 3600,
    "4h": 14_400,
    "1d": 86_400,
    "1w": 604_800,
}


def start(timestamp: int, interval: str) -> int:
    """Start of the bucket: counted from the epoch, weeks from its first Monday."""
    origin = 345_600 * 10**9 if interval == "1w" else 0
    step = SECONDS[interval] * 10**9
    while (timestamp - origin) % step:  # at most once: what is left over comes off
        timestamp -= (timestamp - origin) % step
    return timestamp


def candles(trades: list[dict], interval: str, *, by_side: bool = False) -> list[dict]:
    groups: dict[tuple, list[dict]] = {}
    for trade in trades:
        side = (trade["side"],) if by_side else ()
        key = (trade["exchange"], trade["raw_symbol"], *side, start(trade["timestamp"], interval))
        groups.setdefault(key, []).append(trade)
    points = []
    for key, members in sorted(groups.items()):
        members.sort(key=lambda trade: (trade["timestamp"], trade["sequence"]))
        prices = [trade["price"] for trade in members]
        points.append(
            {
                "exchange": key[0],
                "raw_symbol": key[1],
                **({"side": key[2]} if by_side else {}),
                "timestamp": key[-1],
                "open": prices[0],
                "high": max(prices),
                "low": min(prices),
                "close": prices[-1],
                "volume": float(sum(Decimal(repr(trade["amount"])) for trade in members)),
                "first_timestamp": members[0]["timestamp"],
                "last_timestamp": members[-1]["timestamp"],
            }
        )
    return points


def row(price: float, block_size: str) -> int:
    return int((Decimal(repr(price)) / Decimal(block_size)).to_integral_value(ROUND_FLOOR))


def volume_profile(trades: list[dict], interval: str, block_size: str) -> list[dict]:
    sums: dict[tuple, dict[str, Decimal]] = {}
    for trade in trades:
        key = (
            trade["exchange"],
            trade["raw_symbol"],
            start(trade["timestamp"], interval),
            row(trade["price"], block_size),
        )
        both = sums.setdefault(key, {"BUY": Decimal(0), "SELL": Decimal(0)})
        both[trade["side"]] += Decimal(repr(trade["amount"]))
    return [
        {
            "exchange": key[0],
            "raw_symbol": key[1],
            "timestamp": key[2],
            "price": float(key[3] * Decimal(block_size)),
            "buy_volume": float(both["BUY"]),
            "sell_volume": float(both["SELL"]),
            "volume": float(both["BUY"] + both["SELL"]),
        }
        for key, both in sorted(sums.items())
    ]
