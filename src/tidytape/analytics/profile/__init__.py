"""Volume and time profiles: points of control, value areas, and what else is read off them.

A profile is a frame of levels: one row per session and price, with the count (volume, blocks, trades) seen there.
Nothing in here loops over the levels.

- `point_of_control`, `value_area` : the row with the largest count, and the rows around it.
- `initial_balance` : the range of the first hour, its extensions, and whether trade went beyond.
- `single_prints`, `poor_extremes` : rows that one block alone touched, tails, and extremes without one.
"""

from tidytape.analytics.profile._initial_balance import initial_balance
from tidytape.analytics.profile._point_of_control import point_of_control
from tidytape.analytics.profile._single_prints import poor_extremes, single_prints
from tidytape.analytics.profile._value_area import value_area

__all__ = ["initial_balance", "point_of_control", "poor_extremes", "single_prints", "value_area"]
