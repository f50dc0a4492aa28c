"""Columns beside the identity that tell the rows of one series and time from each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.frames.table import IDENTITY, Table

_WORDS: Final = (nw.String, nw.Categorical, nw.Enum)
_LEVELS: Final = {"size", "liquidations", "tpo_count", "volume", "block_ids", "block_id", "buy_volume"}
_POINTS: Final = {"id", "open", "close"}

_POINTS_OF_SMILES: Final = ("strike", "option_type", "moneyness")
_ARGUMENTS: Final = (
    "bps", "estimator", "window", "other_exchange", "other_raw_symbol", "short_days", "long_days", "short_tenor",
    "long_tenor", "realized_exchange", "realized_raw_symbol", "realized_estimator", "realized_window",
)  # fmt: skip
_RULES: Final = ("atm", "delta")


def is_of_levels(names: Iterable[str]) -> bool:
    """Return whether a frame has a row per price level.

    A trade and a candle have a price too; a row with a size or a count and no price of its own is a level.
    """
    names = set(names)
    return "price" in names and not _POINTS & names and bool(_LEVELS & names)


def of_rows(table: Table[Any], *, without: Iterable[str] = ()) -> list[str]:
    """Return the columns that tell apart the rows of one time: the identity columns, and those such as an expiry.

    A maturity, an expiry, a distance from the mid, the other market of a spread, the arguments of a result: a frame
    that has such a column holds, or may hold, several values of a series at each time. ``days`` to an expiry shrink
    from one time to the next, so they name a maturity only where there is no ``expiry``; of the service's summaries
    the tenor does.

    Parameters
    ----------
    table : Table
    without : iterable of str
        Columns that are none: the time, the value, columns of the result.
    """
    schema: Mapping[str, Any] = table.schema
    names = [*IDENTITY, *_POINTS_OF_SMILES, *_ARGUMENTS]
    names.append(next((name for name in ("expiry", "tenor", "days") if name in schema), "days"))
    # Chains may have the delta of an option as a number; points of smiles have the rule as a word.
    names += [name for name in _RULES if isinstance(schema.get(name), _WORDS)]
    if is_of_levels(schema):
        names.append("price")
    if "unfilled" in schema:  # a curve of slippage over sizes
        names.append("size")
    left_out = set(without)
    return [name for name in dict.fromkeys(names) if name in schema and name not in left_out]
