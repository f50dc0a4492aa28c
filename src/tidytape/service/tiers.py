"""Tiers from a file, instead of the contract's."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidytape.budget import MOST_BURST, TIERS, Tier
from tidytape.catalogue import TierName
from tidytape.errors import QueryError, did_you_mean

__all__ = ["tiers_of"]

_KINDS: Mapping[str, type] = {
    "per_minute": int, "burst": int, "history_days": int, "aggregation": bool, "types": str
}  # fmt: skip


def tiers_of(path: str | os.PathLike[str] | None) -> Mapping[str, Tier]:
    """Return the tiers that a TOML file names; the contract's where there is none.

    A table per tier::

        [student]
        per_minute = 20          # sustained budget [weight per min], needed
        burst = 40               # most weight at once [weight]; twice the budget where left out
        history_days = 30        # how far back [d]; without limit where left out
        aggregation = false      # may join exchanges into one series; false where left out
        types = "basic"          # the data types of this tier of the contract; basic where left out

    Parameters
    ----------
    path : str or path, optional
        The file.

    Returns
    -------
    mapping of str to Tier

    Raises
    ------
    QueryError
        If it cannot be read, or says something that is no tier.
    """
    if path is None:
        return TIERS
    try:
        tables = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise QueryError("tiers", got=str(path), expected=f"a TOML file of tiers: {error}") from None
    if not tables:
        raise QueryError("tiers", got=str(path), expected="at least one tier")
    return {name.lower(): _tier(name.lower(), table) for name, table in tables.items()}


def _tier(name: str, table: Any) -> Tier:
    if not isinstance(table, dict):
        raise QueryError("tiers", got=name, expected="a table of what the tier may ask for")
    for key, value in table.items():
        if key not in _KINDS:
            raise QueryError(
                "tiers",
                got=f"{name}.{key}",
                expected="one of " + ", ".join(_KINDS),
                hint=did_you_mean(key, _KINDS),
            )
        if type(value) is not _KINDS[key] or (
            isinstance(value, int) and value < (0 if key == "aggregation" else 1)
        ):
            expected = "a whole number above 0" if _KINDS[key] is int else f"a {_KINDS[key].__name__}"
            raise QueryError("tiers", got=f"{name}.{key} = {value!r}", expected=expected)
    if "per_minute" not in table:
        raise QueryError("tiers", got=name, expected="per_minute, its budget")
    rank = str(table.get("types", "basic")).lower()
    if rank not in {one.alias for one in TierName}:
        raise QueryError(
            "tiers",
            got=f"{name}.types = {rank!r}",
            expected="one of " + ", ".join(one.alias for one in TierName),
        )
    burst = table.get("burst", 2 * table["per_minute"])
    if burst > MOST_BURST:
        raise QueryError("tiers", got=f"{name}: a burst of {burst}", expected=f"at most {MOST_BURST}")
    return Tier(
        name,
        table["per_minute"],
        burst,
        table.get("history_days"),
        aggregation=table.get("aggregation", False),
        rank=next(one for one in TierName if one.alias == rank),
    )
