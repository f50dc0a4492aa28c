"""What the columns of a frame are, as the catalogue says it: amounts, prices, times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidytape.catalogue import DATA_TYPES, Field


def _fields() -> Iterable[Field]:
    for kind in DATA_TYPES.values():
        yield from kind.fields
        for levels in kind.levels:
            yield from levels.fields


_TIMES: Final = frozenset(field.column for field in _fields() if field.kind == "timestamp")
_PRICES: Final = frozenset(field.column for field in _fields() if field.unit.endswith(" per coin"))
# What is counted, and cannot be less than nothing. Prices can, rates and skews too.
_AMOUNTS: Final = frozenset(
    field.column
    for field in _fields()
    if field.kind in {"double", "int64"} and field.unit.startswith(("coin", "USD", "quote", "TPO", "%"))
) - (_PRICES - {"open", "high", "low", "close"})

_FAMILIES: Final = tuple(
    tuple(f"{prefix}{part}" for part in ("open", "high", "low", "close"))
    for prefix in ("", "price_", "value_", "rate_", "predicted_")
)
# Levels that move by shares of themselves and are there at every interval, so that their logarithms can be compared.
_MOVING: Final = (
    "close",
    "price_close",
    "value_close",
    "oi_close",
    "underlying_price_close",
    "implied_volatility",
    "marketcap",
    "usd_price",
)
# Rates come back to where they were, and change seldom: the level tells what is usual, and not the move.
_RATES: Final = ("rate_close", "predicted_close")
_QUOTED: Final = (("price", "price", "amount", "quote_amount"), ("low", "high", "volume", "quote_volume"))
# What keeps its size for a while, too.
_SIZED: Final = ("volume", "circulating_supply", "total_supply")


@dataclass(frozen=True)
class Columns:
    """The columns of a frame by what they are.

    Attributes
    ----------
    numbers : tuple of str
        Payload.
    amounts : tuple of str
        Of these, what cannot be below zero.
    candles : tuple of tuple of str
        Open, high, low and close, where all four are there.
    prices : tuple of str
        Of these fours, the first of prices; empty where there is none.
    moving, sized : tuple of str
        What moves by shares of itself; and what keeps its size, these among them.
    rates : tuple of str
        What stays about one level, and may be below zero.
    traded : tuple of str
        Prices of events.
    quoted : tuple of str
        Lowest and highest price, amount in coin and amount in the quote; empty where one of them is not there.
    key : tuple of str
        What names a row beside its series and time: the id of an event, or else its price and amount; the price of a
        level.
    is_book : bool
        Whether rows are what rests at a price, on one side.
    is_sparse : bool
        Whether an interval in which nothing happened has no row.
    is_raw : bool
        Whether rows are events, at any time.
    is_periodic : bool
        Whether rows are sessions that say themselves when they end.
    """

    numbers: tuple[str, ...]
    amounts: tuple[str, ...]
    candles: tuple[tuple[str, ...], ...]
    prices: tuple[str, ...]
    moving: tuple[str, ...]
    sized: tuple[str, ...]
    rates: tuple[str, ...]
    traded: tuple[str, ...]
    quoted: tuple[str, ...]
    key: tuple[str, ...]
    is_book: bool
    is_sparse: bool
    is_raw: bool
    is_periodic: bool

    @classmethod
    def of(cls, schema: Mapping[str, Any], *, by: Iterable[str]) -> Columns:
        """Return what the columns of a schema are, but for those that name a series."""
        named = set(by)
        numbers = tuple(
            name
            for name, dtype in schema.items()
            if dtype.is_numeric() and name not in named and name not in _TIMES
        )
        # Open interest has an open and a close as well; it has no volume.
        is_priced = "volume" in numbers
        amounts = _AMOUNTS - _PRICES if is_priced else _AMOUNTS
        candles = tuple(four for four in _FAMILIES if set(four) <= set(numbers))
        prices = next(
            (four for four in candles if four[0] == "price_open" or (four[0] == "open" and is_priced)), ()
        )
        # An event has an amount; one without an id is told from others by all that it says.
        is_raw = "id" in schema or "amount" in schema
        tells = ("id",) if "id" in schema else ("price", "amount")
        key = tuple(name for name in tells if name in schema and name not in named)
        moving = () if key else tuple(name for name in _MOVING if name in numbers)
        return cls(
            numbers=numbers,
            amounts=tuple(name for name in numbers if name in amounts),
            candles=candles,
            prices=() if key else prices,
            moving=moving,
            sized=moving + (() if key else tuple(name for name in _SIZED if name in numbers)),
            rates=tuple(name for name in _RATES if name in numbers),
            traded=tuple(name for name in ("price",) if is_raw and name in numbers),
            quoted=next((four for four in _QUOTED if set(four) <= set(numbers)), ()),
            key=key,
            is_book=not is_raw and "side" in schema and {"price", "size"} <= set(numbers),
            is_sparse="liquidations" in schema,
            is_raw=is_raw,
            is_periodic="period_end" in schema,
        )
