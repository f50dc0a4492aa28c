"""Across exchanges: the markets of a coin as one, and each compared with the others.

From the points of single markets `total` and `consolidated` compute the sums that the service returns for their group
(``group_by``), and `oi_weighted` its average of funding. Sums of amounts do not depend on the order of the rows.

- `total` : amounts of all markets, summed.
- `oi_weighted` : average of a rate by open interest, and how much of the open interest it covers.
- `volume_weighted` : average price by volume.
- `consolidated` : one candle of the candles of all markets.
- `market_share` : each market's share of the sum.
- `dominance` : each token's share of the market caps of a universe.
- `dispersion` : how far markets are apart, and which is the lowest and which the highest.
- `premium` : each market over a reference.
"""

from __future__ import annotations

from tidytape.analytics.cross._means import dispersion, oi_weighted, premium, volume_weighted
from tidytape.analytics.cross._sums import consolidated, dominance, market_share, total

__all__ = [
    "consolidated",
    "dispersion",
    "dominance",
    "market_share",
    "oi_weighted",
    "premium",
    "total",
    "volume_weighted",
]
