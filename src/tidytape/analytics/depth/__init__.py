"""Resting size over time and price: order books and heatmaps.

- `matrix` : order-book heatmap as arrays by time and price; `liquidation_matrix` : the same for liquidations.
- `regrid` : heatmap of coarser prices and times.
- `depth_within` : size within a distance of the mid; `imbalance` : the imbalance of its two sides.
- `slippage` : cost of a market order of a given size.
- `walls` : prices at which a large size stays.

A book is a frame of one row per series, ``timestamp``, ``side`` (BID or ASK) and ``price``, with its ``size``: schema
BLOCK_BOOK_SNAPSHOT_AGG, or any snapshots of that shape.
"""

from tidytape import _other_clients
from tidytape.analytics.depth._book import depth_within, imbalance, slippage
from tidytape.analytics.depth._heatmap import regrid, walls
from tidytape.analytics.depth._matrix import LiquidationMatrix, Matrix, liquidation_matrix, matrix

__all__ = [
    "LiquidationMatrix",
    "Matrix",
    "depth_within",
    "imbalance",
    "liquidation_matrix",
    "matrix",
    "regrid",
    "slippage",
    "walls",
]

_other_clients.explain(__name__, __all__)
