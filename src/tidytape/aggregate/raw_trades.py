"""Trades as they are served: identity, price and amounts, in order."""

from __future__ import annotations

from narwhals.stable.v2.typing import IntoFrameT

from tidytape.frames.door import INSTRUMENT
from tidytape.frames.table import Table

__all__ = ["raw_trades"]

_SERIES = (*INSTRUMENT, "side")
_PAYLOAD = ("timestamp", "id", "price", "amount", "quote_amount")


def raw_trades(trades: IntoFrameT, /) -> IntoFrameT:
    """Trades of each instrument and side, in the order in which they happened.

    Parameters
    ----------
    trades : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``side`` (BUY or SELL, of the aggressor), ``timestamp`` int64 [ns since
        the epoch], ``sequence`` int64, order among trades of one timestamp, ``id``, ``price`` [quote per coin],
        ``amount`` [coin], ``quote_amount`` [quote].

    Returns
    -------
    frame, n rows; of the same kind as ``trades``
        ``exchange``, ``raw_symbol``, ``side``, ``timestamp``, ``id``, ``price``, ``amount``, ``quote_amount``. Sorted
        by (exchange, raw_symbol, side, timestamp, sequence, id) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.

    Examples
    --------
    >>> import polars as pl
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "side": "BUY",
    ...         "timestamp": [5, 5, 1],
    ...         "sequence": [3, 2, 1],
    ...         "id": ["c", "b", "a"],
    ...         "price": [12.0, 11.0, 10.0],
    ...         "amount": 1.0,
    ...         "quote_amount": [12.0, 11.0, 10.0],
    ...     }
    ... )
    >>> raw_trades(trades).select("timestamp", "id", "price").rows()
    [(1, 'a', 10.0), (5, 'b', 11.0), (5, 'c', 12.0)]
    """
    table = Table.opened(trades, [*_SERIES, *_PAYLOAD, "sequence"], times=["timestamp"])
    ordered = table.rows.sort(*_SERIES, "timestamp", "sequence", "id").select(*_SERIES, *_PAYLOAD)
    return table.closed(ordered)
