"""Funding: what perpetuals pay for being held, across time and exchanges, and what futures pay over spot.

Positive funding: longs pay shorts. A rate is a fraction of the position's value per funding interval. The client brings
all rates to a funding interval of 8 hours, unless you pass another one, however often the exchange settles. A frame of
``FUNDING_RATE_AGG`` does not have the funding interval. So it is an argument here, ``funding_interval``, unless the
frame has a column of that name [ns], as `normalized` makes.

- `normalized` : rates brought to another funding interval.
- `annualized` : rates per year, simple (apr) and compounded (apy).
- `accrued` : what a position has paid or received, settlement by settlement.
- `predicted_error` : how far predicted rates were from those settled.
- `spread` : differences of rates, every exchange against every other.
- `carry` : the best pair of exchanges to be long on one and short on the other, after costs.
- `basis` : a future over spot, and that per year.
- `cash_and_carry` : what buying spot and selling the future earns until expiry, after costs and financing.
"""

from __future__ import annotations

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
