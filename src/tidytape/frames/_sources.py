"""Which calls return a frame with some columns: the hint in the error for a missing column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from tidytape.catalogue import DATA_TYPES, DESCRIPTOR_FIELDS, IDENTITY_FIELDS
from tidytape.errors import MissingColumnError
from tidytape.schema import TPO_SESSIONS, schema_of

CLIENT_CALLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TRADE_SIDE_AGNOSTIC_AGG": "candles(...)",
        "TRADE_AGG": "candles(..., by_side=True)",
        "TRADE": "trades(...)",
        "OPEN_INTEREST_AGG": "open_interest(...)",
        "CME_OPEN_INTEREST_AGG": "cme_open_interest(...)",
        "OPTION_OPEN_INTEREST_AGG": "option_open_interest(...)",
        "FUNDING_RATE_AGG": "funding(...)",
        "LIQUIDATION_AGG": "liquidations(...)",
        "TOKEN_SUPPLY_AGG": "token_supply(...)",
        "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": "implied_volatility(...)",
        "SKEW_OPTION_SUMMARY_AGG": "skew(...)",
        "VOLUME_PROFILE_AGG": "volume_profile(...)",
        "TPO_AGG": "tpo(...)",
        "VENUEX_LIQUIDATION_AGG": "liquidation_heatmap(...)",
        "BLOCK_BOOK_SNAPSHOT_AGG": "book_heatmap(...)",
    }
)
"""Method of a client that fetches each data type."""

_TRADES: Final = ("price", "amount", "side")
_IN_ORDER: Final = (*_TRADES, "sequence")  # trades of a lake; a client's have no ``sequence``
_CHAIN: Final = ("expiry", "option_type", "strike", "forward", "implied_volatility")

# Functions that return a data type, and the columns of the frame that they take.
_AGGREGATES: Final = (
    ("candles(...)", "TRADE_SIDE_AGNOSTIC_AGG", _IN_ORDER),
    ("candles(..., by_side=True)", "TRADE_AGG", _IN_ORDER),
    ("volume_profile(...)", "VOLUME_PROFILE_AGG", _TRADES),
    ("tpo(...)", "TPO_AGG", _TRADES),
    ("candle_profile(...)", "VOLUME_PROFILE_AGG", ("low", "high", "close", "volume")),
)
# Functions that return other columns, and the columns of the frame that they take.
_ANALYTICS: Final = (
    (
        "options.svi(...)",
        ("a", "b", "rho", "m", "sigma", "lowest", "highest", "days", "forward", "expiry"),
        _CHAIN,
    ),
    ("options.delta_points(...)", ("days", "iv_atm", "iv_25p", "iv_25c", "forward", "expiry"), _CHAIN),
    ("options.term_structure(...)", ("days", "implied_volatility"), ("days", "iv_atm")),
    ("options.realized_volatility(...)", ("realized_volatility", "coin"), ("close",)),
    ("pit.known_at(...)", ("known_at", "known_at_rule"), ("timestamp", "interval")),
)

_MOST_SUGGESTED: Final = 3
_EVERYWHERE: Final = frozenset(
    {"timestamp", *(field.column for field in (*IDENTITY_FIELDS, *DESCRIPTOR_FIELDS))} - {"side", "tenor"}
)
"""Columns that many data types have, so that they do not tell data types apart."""
_ANYWHERE: Final = frozenset({"price"})
"""Columns that trades, profiles, books and heatmaps have: a function that needs no other column takes any of these."""


@dataclass(frozen=True)
class Source:
    """A call that returns a frame.

    Attributes
    ----------
    call : str
        The call, as a user writes it.
    has : frozenset of str
        Columns of the frame that it returns.
    takes : frozenset of str
        Columns of the frame that it takes; empty for a client's method.
    """

    call: str
    has: frozenset[str]
    takes: frozenset[str] = frozenset()


@cache
def sources() -> tuple[Source, ...]:
    """Return every call that errors suggest: first those of a client, then functions that take a frame."""
    columns = {name: frozenset(schema_of(name).names) for name in DATA_TYPES}
    of_sessions = frozenset(TPO_SESSIONS.names)
    return (
        *(Source(f"client.{call}", columns[name]) for name, call in CLIENT_CALLS.items()),
        Source("client.tpo_sessions(...)", of_sessions),
        *(Source(f"aggregate.{call}", columns[name], frozenset(takes)) for call, name, takes in _AGGREGATES),
        Source("aggregate.tpo_sessions(...)", of_sessions, frozenset(_TRADES)),
        *(Source(f"analytics.{call}", frozenset(has), frozenset(takes)) for call, has, takes in _ANALYTICS),
    )


def suggestion(needed: Iterable[str], available: Iterable[str]) -> str | None:
    """Return a hint that names calls that return a frame with all needed columns; None if there are too many, or none.

    Parameters
    ----------
    needed : iterable of str
        Every column that a function takes, not only those that are missing.
    available : iterable of str
        The columns of the caller's frame.

    Examples
    --------
    >>> candles = ["timestamp", "open", "high", "low", "close", "volume"]
    >>> suggestion(["timestamp", "side", "volume"], candles)
    'client.candles(..., by_side=True) returns it'
    >>> suggestion(["price", "volume"], candles)
    'client.volume_profile(...) or client.tpo(...) returns it; aggregate.candle_profile(...) makes it of this frame'
    """
    columns, source_columns = set(available), frozenset[str]().union(*(source.has for source in sources()))
    # A column of the frame that no source knows is the caller's own, e.g. a column to group by.
    distinctive = {name for name in needed if name not in columns or name in source_columns} - _EVERYWHERE
    if distinctive <= columns or distinctive <= _ANYWHERE:
        return None
    matching = [source for source in sources() if distinctive <= source.has]
    client_calls = _calls(source for source in matching if not source.takes)
    function_calls = _calls(source for source in matching if source.takes and source.takes <= columns)
    if not client_calls and not function_calls:
        client_calls = _calls(matching)
    parts = [f"{' or '.join(client_calls)} returns it"] if 0 < len(client_calls) <= _MOST_SUGGESTED else []
    parts += (
        [f"{' or '.join(function_calls)} makes it of this frame"]
        if 0 < len(function_calls) <= _MOST_SUGGESTED
        else []
    )
    return "; ".join(parts) or None


def missing(names: Iterable[Any], *, needed: Iterable[Any], available: Iterable[str]) -> MissingColumnError:
    """Return the error for missing columns; its hint names calls that return a frame with all needed columns."""
    available = tuple(available)
    texts = [name for name in needed if isinstance(name, str)]
    return MissingColumnError(names, available=available, hint=suggestion(texts, available))


def _calls(matching: Iterable[Source]) -> list[str]:
    """Return one call per function: the first, because its other calls only have more arguments."""
    calls: dict[str, str] = {}
    for source in matching:
        calls.setdefault(source.call.partition("(")[0], source.call)
    return list(calls.values())
