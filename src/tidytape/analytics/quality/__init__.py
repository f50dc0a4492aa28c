"""Quality of a frame: what is wrong in it, what is missing, how much of it there is.

- `audit` : findings of every check that applies, one row per series and finding.
- `examples` : rows of one finding.
- `gaps` : runs of intervals without a row.
- `completeness` : the share of the intervals that have one.

They take any frame of the client, and say of it what they can: the checks follow from the columns. `audit` never
fails on a bad value, for these are what it looks for. What a lake holds is checked by `tidytape.lake.hygiene`.
"""

from __future__ import annotations

from tidytape.analytics.quality._audit import audit, examples
from tidytape.analytics.quality._gaps import completeness, gaps

__all__ = ["audit", "completeness", "examples", "gaps"]
