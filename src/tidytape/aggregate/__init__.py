"""Raw events to points, one module per data type. Pure frame to frame, on any engine Narwhals knows.

Every function takes a native frame (polars, pandas, pyarrow, DuckDB, …), eager or lazy, and gives back the same kind.
Times are int64 epoch nanoseconds, as the lake stores them, or times with a zone, as a client returns them; times of
results have the same type. A frame whose times have no zone is a QueryError.

Examples
--------
>>> import polars as pl
>>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
>>> from tidytape import aggregate
>>> trades = pl.DataFrame(
...     {
...         "exchange": "BINANCE",
...         "raw_symbol": "BTCUSDT",
...         "timestamp": [start, start + 1_000, start + 60_000_000_000],
...         "sequence": [1, 2, 3],
...         "side": ["BUY", "SELL", "BUY"],
...         "price": [10.0, 12.0, 11.0],
...         "amount": [1.0, 2.0, 4.0],
...     }
... )
>>> aggregate.candles(trades, interval="1m").select(pl.col("timestamp") - start, "open", "close", "volume").rows()
[(0, 10.0, 12.0, 3.0), (60000000000, 11.0, 11.0, 4.0)]
"""

from __future__ import annotations

from tidytape import _other_clients
from tidytape.aggregate._book import book_at, book_heatmap, book_of, book_runs
from tidytape.aggregate._candle_profile import candle_profile
from tidytape.aggregate._candle_tpo import candle_tpo, candle_tpo_sessions
from tidytape.aggregate._group import group, to_usd
from tidytape.aggregate._minutes import candles_of, minute_candles, minute_profile, profile_of
from tidytape.aggregate._options import implied_volatility, option_open_interest, skew
from tidytape.aggregate._reports import cme_open_interest, funding, open_interest
from tidytape.aggregate._resample import gapfill, resample
from tidytape.aggregate._token_supply import token_supply
from tidytape.aggregate._tpo import tpo, tpo_of, tpo_sessions, tpo_sessions_of, tpo_touches, tpo_touches_of
from tidytape.aggregate._trades import candles, liquidation_heatmap, liquidations, raw_trades, volume_profile
from tidytape.frames._grid import Grid, recommended_block_size

__all__ = [
    "Grid",
    "book_at",
    "book_heatmap",
    "book_of",
    "book_runs",
    "candle_profile",
    "candle_tpo",
    "candle_tpo_sessions",
    "candles",
    "candles_of",
    "cme_open_interest",
    "funding",
    "gapfill",
    "group",
    "implied_volatility",
    "liquidation_heatmap",
    "liquidations",
    "minute_candles",
    "minute_profile",
    "open_interest",
    "option_open_interest",
    "profile_of",
    "raw_trades",
    "recommended_block_size",
    "resample",
    "skew",
    "to_usd",
    "token_supply",
    "tpo",
    "tpo_of",
    "tpo_sessions",
    "tpo_sessions_of",
    "tpo_touches",
    "tpo_touches_of",
    "volume_profile",
]

_other_clients.explain(__name__, __all__)
