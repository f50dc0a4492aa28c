"""Keep a lake: say what is in it, check it, put its rows into fewer files, delete files.

::

    from tidytape.lake import Lake, hygiene

    lake = Lake("lake")
    hygiene.info(lake)            # rows, files, bytes and times of each table
    hygiene.markets(lake)         # the same of each market
    hygiene.recorders(lake)       # the logs that are followed into it: last line, rows, lag
    hygiene.gaps(lake, "trades")  # stretches without a trade, of each market
    hygiene.check(lake)           # is what is stored sound?
    hygiene.keep(lake)            # all that must be done again and again, e.g. once an hour
    hygiene.compact(lake)         # many small files -> few, in the order of time
    hygiene.vacuum(lake, dry_run=False)   # delete files that no version of the last week needs
"""

from __future__ import annotations

from tidytape.lake.hygiene._check import CheckReport, Finding, check, require_readable
from tidytape.lake.hygiene._files import Compacted, Vacuumed, compact, vacuum
from tidytape.lake.hygiene._gaps import gaps
from tidytape.lake.hygiene._info import info, markets, recorders
from tidytape.lake.hygiene._info import tables_of as tables
from tidytape.lake.hygiene._keep import Kept, keep

__all__ = [
    "CheckReport",
    "Compacted",
    "Finding",
    "Kept",
    "Vacuumed",
    "check",
    "compact",
    "gaps",
    "info",
    "keep",
    "markets",
    "recorders",
    "require_readable",
    "tables",
    "vacuum",
]
