"""Across exchanges: the markets of a coin combined, and compared with each other.

`total` and `consolidated` compute from single markets what the service returns for their group (``group_by``);
`oi_weighted` computes its average of funding rates. Sums of amounts do not depend on the order of the rows.

- `total` : amounts of all markets, summed.
- `oi_weighted` : average of a rate by open interest, and how much of the open interest it covers.
- `volume_weighted` : average price by volume.
- `consolidated` : one candle from the candles of all markets.
- `market_share` : each market's share of the sum.
- `dominance` : each token's share of the market caps of a universe.
- `dispersion` : how far markets are apart, and which is the lowest and the highest.
- `premium` : how much each market lies above a reference.
"""

from __future__ import annotations

from tidytape import _other_clients
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

_other_clients.explain(__name__, __all__)
