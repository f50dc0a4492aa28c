"""Order flow: who traded, who was liquidated, and what open interest says of it.

From candles by side, raw trades, or any frame with ``buy_volume`` and ``sell_volume``:

- `delta` : volume bought minus volume sold.
- `cvd` : delta, cumulated from an anchor.
- `imbalance` : delta as a share of the volume.
- `vwap` : the volume-weighted average price since an anchor.
- `large_trade_share` : the share of the volume that comes from large trades.

From open interest and candles:

- `oi_price_quadrant` : whether longs or shorts open or close positions.

From liquidations:

- `liquidation_imbalance` : liquidated longs minus shorts, as a share of both.
- `liquidation_cascades` : runs of liquidations.

The side of a trade is the aggressor's. The side of a liquidation is the position's: BUY means that longs were
liquidated.
"""

from __future__ import annotations

from tidytape import _other_clients
from tidytape.analytics.flow._anchored import cvd, vwap
from tidytape.analytics.flow._large import large_trade_share, liquidation_cascades
from tidytape.analytics.flow._quadrants import oi_price_quadrant
from tidytape.analytics.flow._sides import delta, imbalance, liquidation_imbalance

__all__ = [
    "cvd",
    "delta",
    "imbalance",
    "large_trade_share",
    "liquidation_cascades",
    "liquidation_imbalance",
    "oi_price_quadrant",
    "vwap",
]

_other_clients.explain(__name__, __all__)
