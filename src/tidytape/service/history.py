"""Keys that see nothing of a lake, because it holds recorded data that is older than the history of their tiers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidytape.budget import Tier, tier
from tidytape.errors import counted
from tidytape.lake import Lake
from tidytape.query.values import written_time
from tidytape.service.holdings import holdings
from tidytape.service.keys import Key
from tidytape.times import SECOND

__all__ = ["out_of_history"]


def out_of_history(
    lake: Lake, keys: Iterable[Key], tiers: Mapping[str, Tier], *, now: float
) -> tuple[str, ...]:
    """Return a sentence for each tier in use that all data of a lake is too old for.

    Parameters
    ----------
    lake : Lake
        What is served.
    keys : iterable of Key
        Those that are known; expired ones count for nothing.
    tiers : mapping of str to Tier
        The tiers there are.
    now : float
        Epoch second. [s]

    Raises
    ------
    LakeError
        If the lake cannot be read.
    """
    newest = holdings(lake)["last"].max()
    if not isinstance(newest, int):
        return ()
    in_use = {tier(key.tier, tiers).name for key in keys if key.expires is None or now < key.expires}

    def reaches(one: Tier) -> bool:
        first = one.history_start(now=now)
        return first is None or newest >= first * SECOND

    deep = [name for name, one in tiers.items() if reaches(one)]
    others = f"'tidytape keys new --tier {deep[0]}' makes a key that reaches it, and a" if deep else "a"
    return tuple(
        f"the newest data is of {written_time(newest // SECOND)}, and keys of tier {name} have the last "
        f"{counted(one.history_days or 0, 'day')}: whatever they ask of it is refused; {others} file of tiers "
        "(--tiers) sets how far back a tier has"
        for name, one in tiers.items()
        if one.name in in_use and not reaches(one)
    )
