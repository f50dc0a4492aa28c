"""Volume and time profiles: points of control, value areas, and what else is read off them.

A profile is a frame of levels: one row per session and price, with the count (volume, blocks, trades) seen there.
Nothing in here loops over the levels.

- `point_of_control`, `value_area` : the row with the largest count, and the rows around it.
"""

from tidytape.analytics.profile._point_of_control import point_of_control
from tidytape.analytics.profile._value_area import value_area

__all__ = ["point_of_control", "value_area"]
