"""Quality of a frame: what is wrong in it, what is missing, and how complete it is.

- `audit` : findings of every check that applies, one row per series and finding.
- `examples` : rows of one finding.
- `gaps` : runs of intervals without a row.
- `completeness` : the share of the intervals that have one.

They take any frame of the client; its columns decide which checks apply. `audit` never fails on a bad value, because
it looks for bad values. `tidytape.lake.hygiene` checks lakes.
"""

from __future__ import annotations

from tidytape.analytics.quality._audit import audit, examples
from tidytape.analytics.quality._gaps import completeness, gaps

__all__ = ["audit", "completeness", "examples", "gaps"]
