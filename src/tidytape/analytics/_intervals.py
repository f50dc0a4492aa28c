"""How long the intervals of a frame's rows are, and when they end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import narwhals.stable.v2 as nw

from tidytape.analytics import _arguments as arguments
from tidytape.errors import QueryError
from tidytape.frames.buckets import length_of
from tidytape.frames.table import Table


def length(table: Table[Any], given: str | timedelta | None) -> Any:
    """Return the length of each row's interval, as given or as the column ``interval`` says. [ns]

    Raises
    ------
    QueryError
        If neither says it, or both do.
    """
    if given is None and "interval" in table.names:
        known = length_of(nw.col("interval"))
        return nw.when(known > 0).then(known)
    if given is None:
        raise QueryError("interval", got=None, expected="the length of the rows' intervals, e.g. '1h'")
    if "interval" in table.names:
        raise QueryError("interval", got=given, expected="nothing: the frame's column interval says it")
    return arguments.duration("interval", given)


def ends(table: Table[Any], given: str | timedelta | None) -> nw.Expr:
    """Return when each row's interval ends; of a frame that says no length, its time itself. [ns]"""
    start = nw.col("timestamp")
    says_none = given is None and "interval" not in table.names
    return start if says_none else start + cast("nw.Expr", length(table, given))
