"""A million candles from ``tidytape serve`` on this machine, and what an import costs.

Run ``python tests/bench/bench_fetch.py [candles]``. The same rows of the same service are fetched by ``Client``, and as
clients of this field commonly do: page by page, one after the other, the JSON of each made a pandas frame, all of them
put together in the end. The target of an import is 1.3 times that of polars.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import httpx
import pandas as pd
from bench_history import END, EXCHANGE, SYMBOL, filled, rolled_up
from bench_serve import LAST, Server, tidytape
from contest import contest, imported

from tidytape import Client

PAGE = 5_000


def paged(server: Server, candles: int) -> pd.DataFrame:
    """Fetch page by page into pandas."""
    pages = []
    with httpx.Client(headers=server.headers) as http:
        for start in range(LAST - 60 * candles, LAST, 60 * PAGE):
            period = min(60 * PAGE, LAST - start)
            body = http.get(server.url.format(start=start, period=period)).raise_for_status().json()
            for series in body["series"]:
                page = pd.json_normalize(series["points"])
                page.columns = [name.removeprefix("Point.") for name in page.columns]
                page["timestamp"] = pd.to_datetime(page["timestamp.s"], unit="s", utc=True)
                for name, value in series["id"].items():
                    page[name] = value
                pages.append(page)
    return pd.concat(pages, ignore_index=True)


def main(candles: int = 1_000_000) -> dict[str, float]:
    """Print the times and their ratios to ours; return the ratios."""
    days = -(-candles // 1_440) + 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lake = filled(folder / "lake", days=days, per_day=2_880)
        rolled_up(lake)
        with tidytape(folder) as (server, _):
            where = server.url.partition("/v1/")[0]
            key = next(iter(server.headers.values()))
            window = {"start": LAST - 60 * candles, "end": LAST}

            def ours(**options: object) -> object:
                with Client(where, key, cache=False, progress=False, **options) as client:  # type: ignore[arg-type]
                    return client.candles(exchange=EXCHANGE, raw_symbol=SYMBOL, interval="1m", **window)  # type: ignore[arg-type]

            print(f"{candles:,} candles, the last of {END // 10**9}")
            rows = {len(ours()), len(paged(server, candles))}  # type: ignore[arg-type]
            assert len(rows) == 1, rows
            print(f"{rows.pop():,} rows each")
            ratios = contest(
                {
                    "tidytape": ours,
                    "tidytape, one at a time": lambda: ours(parallel=1),
                    "tidytape, into pandas": lambda: ours(backend="pandas"),
                    "pages into pandas": lambda: paged(server, candles),
                },
                rounds=3,
            )
    print(f"import tidytape / import polars: {imported('tidytape') / imported('polars'):.2f}")
    return ratios


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
