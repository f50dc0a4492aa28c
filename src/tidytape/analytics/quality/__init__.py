"""Quality of a frame: wrong values, missing intervals, and completeness.

- `audit` : the findings of all checks that apply, one row per series and finding.
- `examples` : some rows that a finding is about.
- `gaps` : runs of intervals without a row.
- `completeness` : the share of the intervals that have a row.

They take any frame of the client; its columns decide which checks apply. `audit` never fails on a bad value, because
it looks for bad values. `tidytape.lake.hygiene` checks lakes.
"""

from __future__ import annotations

from tidytape import _other_clients
from tidytape.analytics.quality._audit import audit, examples
from tidytape.analytics.quality._gaps import completeness, gaps

__all__ = ["audit", "completeness", "examples", "gaps"]

_other_clients.explain(__name__, __all__)
