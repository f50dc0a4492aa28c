"""Funding rates of perpetuals, over time and across exchanges, and the premium of futures over spot.

Positive funding: longs pay shorts. A rate is a fraction of the position's value per funding interval. The client brings
all rates to a funding interval of 8 hours, unless you pass another one, however often the exchange settles. A frame of
``FUNDING_RATE_AGG`` does not contain the funding interval. So functions here take the argument ``funding_interval``,
unless the frame has a column of that name [ns], as `normalized` adds.

- `normalized` : rates converted to another funding interval.
- `annualized` : rates per year, simple (apr) and compounded (apy).
- `accrued` : what a position has paid or received, settlement by settlement.
- `predicted_error` : how far predicted rates were from the settled rates.
- `spread` : differences of rates between each two markets.
- `carry` : the best pair of exchanges to be long on one and short on the other, after costs.
- `basis` : the premium of a future over spot, and the same per year.
- `cash_and_carry` : what buying spot and selling the future earns until expiry, after costs and financing.
"""

from __future__ import annotations

from tidytape import _other_clients
from tidytape.analytics.funding._exchanges import carry, spread
from tidytape.analytics.funding._rates import annualized, basis, cash_and_carry, normalized
from tidytape.analytics.funding._settlements import accrued, predicted_error

__all__ = [
    "accrued",
    "annualized",
    "basis",
    "carry",
    "cash_and_carry",
    "normalized",
    "predicted_error",
    "spread",
]

_other_clients.explain(__name__, __all__)
