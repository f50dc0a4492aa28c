"""What the parameters of the client's methods are, each described once.

Docstrings and the help of the command line are made of this; which parameters a method has, its signature says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tidytape.catalogue import (
    DEFAULT_FUNDING_INTERVAL_MS,
    DEFAULT_TPO_BLOCK_MINUTES,
    TPO_BLOCK_MINUTES,
    Interval,
    Tenor,
    TPOSession,
)

__all__ = ["FILTERS", "PARAMETERS", "Parameter", "given"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: what it takes, and what it does. Names of parameters and literals stand in double backticks."""

    kind: str
    text: str


_NAMES = "str or list of str"
_TIME = "int, datetime, date or str"
_INTERVALS = " ".join(interval.alias for interval in Interval)
_TENORS = " ".join(tenor.alias for tenor in Tenor)
_SESSIONS = ", ".join(f"``{session.alias}``" for session in TPOSession)
_HOURS = DEFAULT_FUNDING_INTERVAL_MS // 3_600_000
_MINUTES = ", ".join(map(str, TPO_BLOCK_MINUTES))

PARAMETERS: Mapping[str, Parameter] = MappingProxyType(
    {
        "exchange": Parameter(_NAMES, "Venue."),
        "interval": Parameter("str", f"``{_INTERVALS}``."),
        "start": Parameter(_TIME, "Start, inclusive: ISO 8601 or epoch seconds; no zone means UTC."),
        "end": Parameter(_TIME, "End, exclusive; as ``start``."),
        "raw_symbol": Parameter(
            _NAMES,
            "Exchange-native symbol; exactly one of this, ``coin`` and ``normalized_symbol`` picks the markets.",
        ),
        "coin": Parameter(_NAMES, "Base asset, instead of ``raw_symbol``."),
        "normalized_symbol": Parameter(_NAMES, "Cross-exchange symbol, instead of ``raw_symbol``."),
        "token_name": Parameter("str", "Token."),
        "tenor": Parameter("str", f"Time to expiry: ``{_TENORS}``."),
        "category": Parameter(_NAMES, "Keep these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO."),
        "by_side": Parameter("bool", "One series per aggressor side; a ``side`` implies it."),
        "side": Parameter("str", "Keep BUY or SELL."),
        "block_size": Parameter(
            "number", "Height of a price level; the service chooses one otherwise. [quote per coin]"
        ),
        "block_minutes": Parameter(
            "int",
            f"Length of a block of time: {_MINUTES}; {DEFAULT_TPO_BLOCK_MINUTES} unless given. [min]",
        ),
        "session": Parameter(
            "str",
            f"Length of a session: {_SESSIONS}, from 00:00 UTC, weeks from Monday, months from the first; a session is "
            "one ``interval`` long unless given. It counts where it starts: one that began before ``start`` is left "
            "out.",
        ),
        "max_depth": Parameter("int", "Most price levels."),
        "funding_interval": Parameter(
            "int, str or timedelta",
            f"Time that the rates are brought to, e.g. ``1h``; {_HOURS} hours unless given. A number counts "
            "milliseconds.",
        ),
        "sort_direction": Parameter("str", "Order in time, ``asc`` or ``desc``."),
        "gapfill": Parameter("bool", "Fill missing intervals with the last close, if the service can."),
        "quote": Parameter("str", "``USD`` converts amounts to USD."),
        "group_by": Parameter(
            "str", "``sum`` joins the markets of a coin into one series; amounts are in USD then."
        ),
        "event": Parameter(_NAMES, "Slugs of prediction-market events."),
        "type": Parameter(_NAMES, "Keep what has these data types."),
        "symbol_filter": Parameter("str", "Part of a symbol, coin name or title, in any case."),
        "sort_field": Parameter("str", "What to sort by, e.g. ``volume_24h``."),
        "distinct": Parameter("bool", "One row per normalized symbol, of the venue that ranks highest."),
        "query": Parameter("PointsQuery", "Of one data type."),
        "page_size": Parameter("int", "Rows to fetch at a time; it does not change the result."),
    }
)
"""The parameters of series, and of searches for markets."""

FILTERS: dict[str, str] = {
    "type": "Keep what has these data types.",
    "exchange": "Keep what is of these venues.",
    "category": "Keep what is of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.",
    "coin": "Keep what is of these base assets.",
    "raw_symbol": "Keep what is of these exchange-native symbols.",
    "normalized_symbol": "Keep what is of these cross-exchange symbols.",
    "start": "Keep what has data at this time or later: ISO 8601 or epoch seconds; no zone means UTC.",
    "end": "Keep what has data before this time.",
}
"""What the same parameters do to a list."""

_REQUIRED = ("start", "end", "interval")


def given(arguments: Mapping[str, Any], *, leave: frozenset[str] | set[str] = frozenset()) -> dict[str, Any]:
    """Keep the arguments of a method that its caller gave a value, or that a query for points always has.

    Examples
    --------
    >>> given({"self": 0, "coin": "BTC", "side": None, "start": None})
    {'coin': 'BTC', 'start': None}
    """
    return {
        name: value
        for name, value in arguments.items()
        if name != "self" and name not in leave and (value is not None or name in _REQUIRED)
    }
