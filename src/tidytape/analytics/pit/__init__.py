"""Point in time: the time at which each row is known, so that no study looks ahead.

- `known_at` : the time at which each point is known.
- `as_of` : the rows that were known at a time.
- `asof_join` : for each decision, the last row that was known at its time.
- `leaks` : whether a function of yours looks ahead, found by cutting the future off.
- `universe` : the markets that existed at each time.
- `under_newest_name` : renamed markets as one series.
- `to_backtesting`, `to_vectorbt`, `to_nautilus` : candles in the form that these libraries take.
"""

from tidytape import _other_clients
from tidytape.analytics.pit._backtests import to_backtesting, to_nautilus, to_vectorbt
from tidytape.analytics.pit._known import as_of, asof_join, known_at
from tidytape.analytics.pit._leaks import Leaks, leaks
from tidytape.analytics.pit._universe import under_newest_name, universe

__all__ = [
    "Leaks",
    "as_of",
    "asof_join",
    "known_at",
    "leaks",
    "to_backtesting",
    "to_nautilus",
    "to_vectorbt",
    "under_newest_name",
    "universe",
]

_other_clients.explain(__name__, __all__)
