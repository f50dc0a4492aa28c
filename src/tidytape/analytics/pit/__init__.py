"""Point in time: what was known when, so that nothing looks ahead.

- `known_at` : when each point is known.
- `as_of` : the rows that were known at an instant.
- `asof_join` : the last fact known at each of some times.
- `to_backtesting`, `to_vectorbt`, `to_nautilus` : candles as these libraries take them.
"""

from tidytape.analytics.pit._backtests import to_backtesting, to_nautilus, to_vectorbt
from tidytape.analytics.pit._known import as_of, asof_join, known_at

__all__ = ["as_of", "asof_join", "known_at", "to_backtesting", "to_nautilus", "to_vectorbt"]
