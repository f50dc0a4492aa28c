"""Sessions of profiles, and whether a frame says how long they are."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

SESSION_END: Final = "period_end"
"""Column that says when a session ends."""

_OF_BLOCKS: Final = frozenset(
    {"block_ids", "block_id", "block_size_minutes", "tpo_count", "first_touch_block"}
)


def knows_length(names: Collection[str]) -> bool:
    """Return whether rows with these columns, if they have an interval, last as long as it or say when they end.

    Sessions of blocks have an interval that is not their length: a week's may be a day.

    Examples
    --------
    >>> knows_length(["timestamp", "interval", "price", "volume"])
    True
    >>> knows_length(["timestamp", "interval", "price", "tpo_count"])
    False
    """
    return SESSION_END in names or _OF_BLOCKS.isdisjoint(names)
