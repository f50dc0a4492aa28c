"""Volume and time profiles: points of control, value areas and other results.

A profile is a frame of levels: one row per session and price, with the count (volume, time blocks, trades) at
this price.

- `point_of_control`, `value_area` : the level with the largest count, and the levels around it.
- `developing` : the point of control and the value area at the end of each time block.
- `naked_pocs` : points of control that no later session touched.
- `levels` : what a trader looks at first, one row per session: levels of the session before, overnight, first hour.
- `initial_balance` : the range of the first hour, its extensions, and whether the price left it.
- `single_prints`, `tails` : levels that only one time block touched, inside the range and at its ends.
- `poor_extremes` : ends of the range that two or more time blocks touched.
- `nodes` : prices with much and with little volume.
- `shape`, `day_type` : heuristic labels, with the numbers that decide them.
- `composite` : several sessions as one profile.
- `summary` : all results, one row per session.
- `with_sessions` : levels with the end of their session and the length of its blocks.

Everything here is computed from the levels, with the rules beside the results: ``poc``, ``vah``, ``val``,
``value_area_share``, ``initial_balance_high`` and so on. The service computes some of it too; that is in
``client.tpo_sessions``, under other names. If levels have the list of their blocks, the blocks are counted; otherwise
``tpo_count`` is used. For touches, ``count="tpo_count"`` counts the blocks that touched a row.

A result about a session is known when the session ends. So if levels have ``period_end``, which `with_sessions` adds,
every result keeps it beside ``timestamp``, for `tidytape.analytics.pit.known_at`. The ``interval`` of levels with time
blocks need not be the length of their session. So without ``period_end`` their results have no ``interval``, unless
``by`` names it.
"""

from tidytape import _other_clients
from tidytape.analytics.profile._day_levels import levels
from tidytape.analytics.profile._day_type import day_type, initial_balance
from tidytape.analytics.profile._extremes import poor_extremes, single_prints, tails
from tidytape.analytics.profile._of_sessions import with_sessions
from tidytape.analytics.profile._sessions import composite, naked_pocs
from tidytape.analytics.profile._shape import nodes, shape
from tidytape.analytics.profile._summary import summary
from tidytape.analytics.profile._value_area import developing, point_of_control, value_area

__all__ = [
    "composite",
    "day_type",
    "developing",
    "initial_balance",
    "levels",
    "naked_pocs",
    "nodes",
    "point_of_control",
    "poor_extremes",
    "shape",
    "single_prints",
    "summary",
    "tails",
    "value_area",
    "with_sessions",
]

_other_clients.explain(__name__, __all__)
