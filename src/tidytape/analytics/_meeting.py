"""Frames that are joined, and whether any row of one meets one of the other."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.errors import NoMatchWarning, shown
from tidytape.frames.members import matched
from tidytape.frames.table import Table

_SUGGESTED: Final = ("coin", "normalized_symbol", "raw_symbol", "exchange")
"""Columns by which frames of unlike markets are joined, the likeliest first."""


def warn_unless_met(
    function: str,
    first: Table[Any],
    second: Table[Any],
    keys: Sequence[str],
    *,
    called: tuple[str, str],
    parameter: str = "by",
) -> None:
    """Warn if two frames in memory have rows, and no values of the keys in common; lazy frames are not read.

    Parameters
    ----------
    function : str
        The public function, whose caller the warning points at.
    first, second : Table
    keys : sequence of str
        Columns of both that must be equal.
    called : tuple of str
        What the function calls the two frames.
    parameter : str
        The argument that names the keys.
    """
    if not first.is_eager or not second.is_eager or not keys:
        return
    columns = {name: [_values(table, [name]) for table in (first, second)] for name in keys}
    if any(len(values) == 0 for both in columns.values() for values in both):
        return
    if _meet(_values(first, keys), _values(second, keys), keys):
        return
    apart = [name for name, (ours, theirs) in columns.items() if not _meet(ours, theirs, [name])]
    reasons = [f"{name} is {' and '.join(map(_example, columns[name]))}" for name in apart[:3]]
    message = (
        f"{function}: no row of {called[0]} has the {', '.join(keys)} of a row of {called[1]}, so nothing matches"
        f" ({', '.join(reasons) or 'each is in both, but never together'})"
    )
    if "interval" in apart:
        message += "; fetch both with one interval, or resample one"
    elif hint := _common(first, second, apart):
        message += f"; {hint} is the same in both: pass {parameter}={hint!r}"
    warnings.warn(NoMatchWarning(message, keys=keys), stacklevel=3)


def _common(first: Table[Any], second: Table[Any], apart: Sequence[str]) -> str | None:
    """Return the likeliest column of two frames by which some of their rows meet, or None."""
    both = [name for name in _SUGGESTED if name in first.names and name in second.names and name not in apart]
    found = (name for name in both if _meet(_values(first, [name]), _values(second, [name]), [name]))
    return next(found, None)


def _values(table: Table[Any], names: Sequence[str]) -> nw.DataFrame[Any]:
    """Return the different values that some columns of a frame have together."""
    return table.rows.select(*names).unique().collect()


def _meet(first: nw.DataFrame[Any], second: nw.DataFrame[Any], names: Sequence[str]) -> bool:
    """Return whether two frames have values in common, null being equal to null."""
    (ours, texts), (theirs, _) = matched(first, names), matched(second, names)
    return len(ours.select(*texts).join(theirs.select(*texts), on=texts, how="inner")) > 0


def _example(values: nw.DataFrame[Any]) -> str:
    """Return one value as a message quotes it, and how many others there are."""
    (value,) = values.sort(*values.columns, nulls_last=True).row(0)
    return shown(value, 40) + (f" (of {len(values)})" if len(values) > 1 else "")
