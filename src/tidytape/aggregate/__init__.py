"""Raw events to points, one module per data type. Pure frame to frame, on any engine Narwhals knows.

Every function takes a native frame (polars, pandas, pyarrow, DuckDB, …), eager or lazy, and gives back the same kind.
Time is int64 epoch nanoseconds, as the lake stores it.

Examples
--------
>>> import polars as pl
>>> from tidytape import aggregate
>>> trades = pl.DataFrame(
...     {
...         "exchange": "BINANCE",
...         "raw_symbol": "BTCUSDT",
...         "timestamp": [0, 1_000, 60_000_000_000],
...         "sequence": [1, 2, 3],
...         "side": ["BUY", "SELL", "BUY"],
...         "price": [10.0, 12.0, 11.0],
...         "amount": [1.0, 2.0, 4.0],
...     }
... )
>>> aggregate.candles(trades, interval="1m").select("timestamp", "open", "close", "volume").rows()
[(0, 10.0, 12.0, 3.0), (60000000000, 11.0, 11.0, 4.0)]
"""

from __future__ import annotations

from tidytape.aggregate.candles import candles
from tidytape.aggregate.grid import Grid, recommended_block_size
from tidytape.aggregate.volume_profile import volume_profile

__all__ = ["Grid", "candles", "recommended_block_size", "volume_profile"]
