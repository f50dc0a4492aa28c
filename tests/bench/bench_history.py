"""A day of daily candles out of 30 days of trades, and out of 300: what ten times the history costs a query.

Run ``python tests/bench/bench_history.py [trades per day]``. Both lakes hold one market and end on the same day, which
is asked for through ``Client.local``, from the request to the frame. Both are rolled up first, if this tidytape can;
without rollups it is the raw trades that are read. "tidytape" is the shorter history, so that the ratio is the cost of
the longer one; the target is at most 1.2.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from contest import contest

from tidytape import Client
from tidytape.lake import Lake

DAY = 86_400 * 10**9
END = 20_000 * DAY  # 2024-10-04
EXCHANGE, SYMBOL = "BENCH", "BTCUSDT"
AT_ONCE = 10  # days that go into one commit: a file each


def trades(first: int, days: int, per_day: int) -> pl.DataFrame:
    """Trades of some days, the first of them counted from the epoch."""
    rows = days * per_day
    rng = np.random.default_rng(first)
    times = first * DAY + np.sort(rng.integers(0, days * DAY // 10**6, rows)) * 10**6
    price = np.round(60_000 + np.cumsum(rng.normal(0, 1, rows)), 2)
    amount = np.round(rng.exponential(0.1, rows) + 1e-5, 5)
    sequence = first * per_day + np.arange(rows)
    return pl.DataFrame(
        {
            "timestamp": times,
            "sequence": sequence,
            "side": np.array(["BUY", "SELL"])[rng.integers(0, 2, rows)],
            "price": price,
            "amount": amount,
            "quote_amount": price * amount,
        }
    ).with_columns(
        pl.lit(EXCHANGE).alias("exchange"),
        pl.lit(SYMBOL).alias("raw_symbol"),
        pl.col("sequence").cast(pl.String).alias("id"),
    )


def filled(folder: Path, *, days: int, per_day: int) -> Lake:
    """Return a lake with the trades of some days, the last of which ends at ``END``."""
    lake = Lake.create(folder)
    market = {
        "exchange": EXCHANGE, "raw_symbol": SYMBOL, "normalized_symbol": "BTC-USDT", "coin": "BTC",
        "quote_coin": "USDT", "category": "SPOT", "tick_size": 0.01, "block_size": 10.0,
    }  # fmt: skip
    lake.writer().register(pl.DataFrame([market]))
    for first in range(END // DAY - days, END // DAY, AT_ONCE):
        count = min(AT_ONCE, END // DAY - first)
        lake.writer().append("trades", trades(first, count, per_day), source=f"bench:{first}")
    return lake


def rolled_up(lake: Lake) -> bool:
    """Keep the minutes of a lake beside its trades, if this tidytape can."""
    try:
        from tidytape.lake.rollup import rollup
    except ImportError:
        return False
    rollup(lake, progress=False)
    return True


def main(per_day: int = 20_000) -> dict[str, float]:
    """Print the times and their ratios to the shorter history; return the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        short = filled(Path(folder) / "30", days=30, per_day=per_day)
        long = filled(Path(folder) / "300", days=300, per_day=per_day)
        kind = (
            "rolled up" if all([rolled_up(short), rolled_up(long)]) else "raw, for there are no rollups yet"
        )
        clients = {"tidytape": Client.local(short.path), "ten times the history": Client.local(long.path)}
        window = {"start": (END - DAY) // 10**9, "end": END // 10**9}

        def asked(client: Client) -> pl.DataFrame:
            return client.candles(exchange=EXCHANGE, raw_symbol=SYMBOL, interval="1d", **window)

        answers = [asked(client) for client in clients.values()]
        assert answers[0].height == 1
        assert answers[0].equals(answers[1])
        print(f"30 and 300 days of {per_day:,} trades, {kind}")
        ratios = contest({name: lambda c=client: asked(c) for name, client in clients.items()}, rounds=21)
        for client in clients.values():
            client.close()
    return ratios


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
