"""Option chains and the service's summaries: smiles, term structures and realised volatility.

A chain is a frame of one row per series, time, expiry, strike and option type, such as the lake's ``option_quotes``.
Volatilities are in percent, time is counted ACT/365, and an expiry is a time, or a date, which means 08:00 UTC of that
day.

From a chain:

- `forward` : the forward price of each expiry, as quoted or by put-call parity.
- `atm_volatility` : the volatility at the money of each expiry.
- `black76_price` : Black's price of each option, in coin or in the quote.
- `implied_volatility` : the volatility that each price implies, or the reason why none does.
- `delta_points` : the volatility of each expiry at the money and at chosen deltas.

- `svi` : a curve of five parameters for each smile.

From such curves:

- `svi_arbitrage` : arbitrage between strikes, in the wings and between expiries.
- `smile`, `surface` : volatilities along a curve and between curves.

From points of smiles:

- `risk_reversal`, `butterfly` : slope and curvature of the smile.
- `constant_maturity` : the points at maturities between expiries.
- `term_structure` : volatility or skew by days to expiry.

From a term structure:

- `slope` : the value at the long maturity minus that at the short one; contango or backwardation.
- `forward_volatility` : volatility between maturities, and calendar arbitrage.

From the service's summaries, and from candles:

- `tenor_structure`, `tenor_slope` : volatility or skew by tenor, and its slope.
- `z_score`, `percentile`, `rank` : a value compared with the values before it.
- `realized_volatility` : volatility over the last candles.
- `volatility_risk_premium` : implied volatility minus the realised volatility known at the time.
"""

from __future__ import annotations

from tidytape import _other_clients
from tidytape.analytics.options._black import black76_price, implied_volatility
from tidytape.analytics.options._chain import forward
from tidytape.analytics.options._curves import smile, surface, svi_arbitrage
from tidytape.analytics.options._maturity import constant_maturity
from tidytape.analytics.options._points import atm_volatility, butterfly, delta_points, risk_reversal
from tidytape.analytics.options._realized import realized_volatility, volatility_risk_premium
from tidytape.analytics.options._relative import percentile, rank, z_score
from tidytape.analytics.options._svi import svi
from tidytape.analytics.options._term_structure import (
    forward_volatility,
    slope,
    tenor_slope,
    tenor_structure,
    term_structure,
)

__all__ = [
    "atm_volatility",
    "black76_price",
    "butterfly",
    "constant_maturity",
    "delta_points",
    "forward",
    "forward_volatility",
    "implied_volatility",
    "percentile",
    "rank",
    "realized_volatility",
    "risk_reversal",
    "slope",
    "smile",
    "surface",
    "svi",
    "svi_arbitrage",
    "tenor_slope",
    "tenor_structure",
    "term_structure",
    "volatility_risk_premium",
    "z_score",
]

_other_clients.explain(__name__, __all__)
