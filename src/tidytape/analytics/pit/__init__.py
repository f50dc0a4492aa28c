"""Point in time: the time at which each row is known, so that no study looks ahead.

- `known_at` : the time at which each point is known.
- `as_of` : the rows that were known at a time.
- `asof_join` : for each decision, the last row that was known at its time.
- `to_backtesting`, `to_vectorbt`, `to_nautilus` : candles in the form that these libraries take.
"""

from tidytape import _other_clients
from tidytape.analytics.pit._backtests import to_backtesting, to_nautilus, to_vectorbt
from tidytape.analytics.pit._known import as_of, asof_join, known_at

__all__ = ["as_of", "asof_join", "known_at", "to_backtesting", "to_nautilus", "to_vectorbt"]

_other_clients.explain(__name__, __all__)
