"""Options."""

from tidytape.analytics.options._realized import realized_volatility
from tidytape.analytics.options._relative import percentile, z_score
from tidytape.analytics.options._tenors import tenor_slope, tenor_structure

__all__ = ["percentile", "realized_volatility", "tenor_slope", "tenor_structure", "z_score"]
