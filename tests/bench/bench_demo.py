"""A thousand minutes of candles through the whole way of a local client, and by polars alone from the same Delta table.

Run ``python tests/bench/bench_demo.py [minutes]``. The client checks the query, charges its weight, asks the service
in this process over Arrow, decodes the answer, and looks whether it is whole. polars opens the table and reads the
minutes; "kept open" leaves the opening out. Each round asks for another window, so that no answer is asked for twice.
"""

from __future__ import annotations

import itertools
import sys
import tempfile

import polars as pl
from contest import contest
from deltalake import DeltaTable

from tidytape import Client
from tidytape.demo import fill
from tidytape.demo._market import START_NS
from tidytape.lake import Lake
from tidytape.lake.rollup import rollup

EXCHANGE, SYMBOL = "DEMO_SPOT", "BTCUSDT"
_NS = 10**9


def main(minutes: int = 1_000) -> dict[str, float]:
    """Print the times and their ratios to ours; return the ratios."""
    with tempfile.TemporaryDirectory() as lake:
        fill(lake, days=2)
        rollup(Lake(lake), progress=False)
        table = f"{lake}/candles_of_both_1m"
        opened = DeltaTable(table)
        starts = itertools.count(START_NS // _NS + 7_200, 60)

        def ours() -> pl.DataFrame:
            start = next(starts)
            frame: pl.DataFrame = client.candles(
                exchange=EXCHANGE, raw_symbol=SYMBOL, interval="1m", start=start, end=start + 60 * minutes
            )
            return frame

        def alone(delta: DeltaTable) -> pl.DataFrame:
            start = next(starts) * _NS
            time = pl.col("timestamp")
            return (
                pl.scan_delta(delta)
                .filter(pl.col("exchange") == EXCHANGE, pl.col("raw_symbol") == SYMBOL)
                .filter(time >= start, time < start + minutes * 60 * _NS)
                .sort("timestamp")
                .collect()
            )

        with Client.local(lake) as client:
            rows = [len(run()) for run in (ours, lambda: alone(opened))]
            print(f"{minutes:,} minutes: {rows[0]:,} candles, {rows[1]:,} by polars a minute later")
            return contest(
                {
                    "tidytape": ours,
                    "polars alone": lambda: alone(DeltaTable(table)),
                    "polars alone, kept open": lambda: alone(opened),
                },
                rounds=31,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
