"""Volume and time profiles: points of control, value areas, and what else is read off them.

A profile is a frame of levels: one row per session and price, with the count (volume, blocks, trades) seen there.
Nothing in here loops over the levels.

- `point_of_control`, `value_area` : the row with the largest count, and the rows around it.
- `developing` : both at the close of each block.
- `naked_pocs` : points of control that no later session came back to.
- `initial_balance` : the range of the first hour, its extensions, and whether trade went beyond.
- `single_prints`, `tails`, `poor_extremes` : rows that one block alone touched, inside and at the ends; ends without.
- `nodes` : where a profile bulges and where it is thin.
- `shape`, `day_type` : heuristics, each with the features behind its label.
- `composite` : several sessions as one profile.
- `summary` : all of it, one row per session.

Everything here is computed from the levels. What a service sends of a session has names of its own, and is not looked
at: ``poc_price``, ``vah_price``, ``val_price``, ``value_area_percentage``, ``ibr_high``, ``ibr_low``, ``profile_high``,
``profile_low``, ``single_prints``, ``poor_highs``, ``poor_lows``, ``total_tpo_count``, ``total_volume``. Ours are
``poc``, ``vah``, ``val``, ``value_area_share``, ``initial_balance_high`` and so on, with the rules beside them. Where a
level has the list of its blocks, they are counted, and the service's ``tpo_count`` is taken only where it has none. Of
touches ``count="tpo_count"`` counts the blocks that touched a row.

What is read off a session is known when it ends. So where levels have ``period_end``, it stays with ``timestamp`` in
every result, for `tidytape.analytics.pit.known_at`. Levels of blocks from which it was dropped have an ``interval``
that need not be the length of their session, and results of theirs have none, unless ``by`` names it.
"""

from tidytape.analytics.profile._day_type import day_type, initial_balance
from tidytape.analytics.profile._extremes import poor_extremes, single_prints, tails
from tidytape.analytics.profile._sessions import composite, naked_pocs
from tidytape.analytics.profile._shape import nodes, shape
from tidytape.analytics.profile._summary import summary
from tidytape.analytics.profile._value_area import developing, point_of_control, value_area

__all__ = [
    "composite",
    "day_type",
    "developing",
    "initial_balance",
    "naked_pocs",
    "nodes",
    "point_of_control",
    "poor_extremes",
    "shape",
    "single_prints",
    "summary",
    "tails",
    "value_area",
]
