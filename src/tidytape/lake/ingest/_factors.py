"""Markets whose unit is several coins: ``1000PEPEUSDT`` trades units of 1,000 PEPE.

The lake has amounts in coins, and prices of one coin, so that markets of one coin add up and compare. So a market has a
factor, the number of coins in one unit, and this module converts each event of the market:

========================================= ==================
amounts, sizes, volumes, open interest    times the factor
prices                                    over the factor
amounts in the quote, rates               unchanged
========================================= ==================

Both are the floats nearest to the decimal results: 0.0100007 over 1,000 is 1.00007e-05, although the quotient of the
two floats is 1.0000699999999999e-05, which a profile would count on the level below.

For each market the first of these says the factor: the caller, the registry, the symbol. A market that is registered
without a factor has the factor 1, so what a symbol says never changes the unit of a market that the lake has already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidytape.errors import QueryError
from tidytape.frames._grid import exact
from tidytape.lake._batch import Batch
from tidytape.lake._symbols import multiple, multiple_of
from tidytape.lake._tables import MARKETS, TRADES, Table
from tidytape.lake.ingest._contracts import COUNTED
from tidytape.lake.ingest._conversions import HoldsEvents
from tidytape.lake.ingest._layout import Parsed
from tidytape.lake.ingest._market import Market, MarketKey, Number
from tidytape.lake.ingest._report import Note

_MARKET = ["exchange", "raw_symbol"]
_ONE = Decimal(1)

READ = (
    "whose unit is {factor:,} {coin}: its amounts count {coin}, and its prices are those of one; factor=1 (--factor 1) "
    "if a unit of {raw_symbol} is one coin"
)
"""The note about a market whose factor was read from its symbol."""


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors of the markets of a file.

    Attributes
    ----------
    by_market : dict of (str, str) to Decimal
        The factor of each market; 1 if a unit is a coin.
    registry : polars.DataFrame, one row per market
        Key and ``factor`` to be registered before the events.
    """

    by_market: dict[MarketKey, Decimal]
    registry: pl.DataFrame


def factors(parsed: Parsed, market: Market, registered: pl.DataFrame, holds_events: HoldsEvents) -> Factors:
    """Return the factors of the markets of a file; a factor that is read from a symbol adds a note to the file.

    Parameters
    ----------
    parsed : Parsed
        What was read.
    market : Market
        What the caller says; it holds for every market of the file.
    registered : polars.DataFrame
        The registry.
    holds_events : callable
        See `tidytape.lake.ingest._conversions.HoldsEvents`.

    Raises
    ------
    QueryError
        If the caller states another factor than that of the events in the lake, or names the coin of a market that the
        lake has without a factor, and the symbol says another one than 1.
    """
    facts = registered.filter(pl.col("tenor").is_null()).select(*_MARKET, "factor", "coin")
    known = {(exchange, symbol): (number, coin) for exchange, symbol, number, coin in facts.iter_rows()}
    registered_factors = {
        key: _ONE if number is None else exact(number) for key, (number, _) in known.items()
    }
    by_market: dict[MarketKey, Decimal] = {}
    for key in sorted(parsed.market_keys):
        registered_factor = registered_factors.get(key)
        factor = _ONE if registered_factor is None else registered_factor
        if market.factor is not None and exact(market.factor) != factor:
            if holds_events(key, COUNTED):
                raise QueryError(
                    "factor",
                    got=_text(market.factor),
                    expected=f"what {' '.join(key)} was stored with: {_text(factor)}",
                )
            factor = exact(market.factor)
        number, coin = known.get(key, (None, None))
        unit = _unit_of(key, parsed.markets.get(key), market)
        if market.factor is None and number is None and unit is not None:
            if registered_factor is None and not holds_events(key, COUNTED):
                factor = Decimal(unit[0])
                text = READ.format(factor=unit[0], coin=unit[1], raw_symbol=key[1])
                parsed.notes.append(Note("market", text, 1, key[0]))
            elif coin_of(market) not in {None, coin}:
                raise QueryError(
                    "factor",
                    got=None,
                    expected=f"the number of {unit[1]} in one unit of {key[1]}: its symbol says {unit[0]:,}, and the "
                    "lake has the market with 1",
                )
        by_market[key] = factor
    rows = [
        (*key, float(factor))
        for key, factor in by_market.items()
        if factor != registered_factors.get(key, _ONE)
        or (market.factor is not None and key not in registered_factors)
    ]
    registry = pl.DataFrame(
        rows, schema={**dict.fromkeys(_MARKET, pl.String), "factor": pl.Float64}, orient="row"
    )
    return Factors(by_market, MARKETS.conform(registry))


def _unit_of(key: MarketKey, in_file: Market | None, market: Market) -> tuple[int, str] | None:
    """Return the factor and the coin that a symbol says; None if the caller names another coin, or the unit itself."""
    named = coin_of(market)
    if named is not None:
        number = multiple_of(named, *key)
        return None if number is None else (number, named)
    is_ticker = market.quote is not None or (in_file is not None and in_file.quote is not None)
    # The ticker of a coin may begin with a number, so without one the factor must be written as the exchange writes it.
    return multiple(*key, name="" if is_ticker else coin_of(in_file))


def _text(factor: Number) -> str:
    return f"{float(factor):,.15g}"


def coin_of(market: Market | None) -> str | None:
    """Return the coin that a market names, on its own or in its normalized symbol."""
    if market is None:
        return None
    return market.coin or (market.normalized_symbol or "").partition("-")[0] or None


def per_coin(batch: Batch, by_market: Mapping[MarketKey, Decimal]) -> None:
    """Convert amounts to coins, and prices to those of one coin; this happens when the rows of the batch are read.

    Parameters
    ----------
    batch : Batch
        Rows of any table; those of tables without amounts and prices of markets stay as they are.
    by_market : mapping of (str, str) to Decimal
        Factor by (exchange, raw_symbol).
    """
    of_batch = {
        key: factor for key, factor in by_market.items() if factor != _ONE and key in set(batch.markets)
    }
    if of_batch and batch.table.partitions == TRADES.partitions:
        batch.change(partial(_per_coin, by_market=of_batch, table=batch.table))


_POWERS = {"coin": 1, "quote per coin": -1}
"""The power of the factor by which the values of a column are multiplied, by the unit of the column."""


def _per_coin(rows: pl.DataFrame, *, by_market: Mapping[MarketKey, Decimal], table: Table) -> pl.DataFrame:
    # Equal factors may be written differently, 1000 and 1000.0, so rows are compared by the number.
    markets = [(*key, float(factor)) for key, factor in by_market.items()]
    schema = {**dict.fromkeys(_MARKET, pl.String), "__factor": pl.Float64}
    factors_of_rows = rows.select(_MARKET).join(
        pl.DataFrame(markets, schema=schema, orient="row"), on=_MARKET, how="left", maintain_order="left"
    )["__factor"]
    for column in table.columns:
        if column.unit not in _POWERS or column.name not in rows.columns:
            continue
        numbers = rows[column.name].to_numpy(writable=True)
        for factor in set(by_market.values()):
            places = (factors_of_rows == float(factor)).fill_null(value=False).to_numpy()
            numbers[places] = product(numbers[places], factor, power=_POWERS[column.unit])
        is_null = rows[column.name].is_null()
        rows = rows.with_columns(pl.when(~is_null).then(pl.Series(column.name, numbers)).alias(column.name))
    return rows


_MOST_PLACES = 22
"""Largest power of ten that is a float."""
_WHOLE = 2**53
"""A float holds every whole number up to this one exactly."""


def product(numbers: NDArray[np.float64], factor: Decimal, *, power: int) -> NDArray[np.float64]:
    """Return the floats nearest to decimals times the factor, or for the power -1 over it.

    Parameters
    ----------
    numbers : array of float64
        Each stands for the shortest decimal that is read as this float.
    factor : Decimal
        The factor.
    power : {1, -1}
        1 multiplies the numbers by the factor, and -1 divides them by it.

    Examples
    --------
    >>> product(np.array([0.0100007]), Decimal(1000), power=-1), 0.0100007 / 1000
    (array([1.00007e-05]), 1.0000699999999999e-05)
    """
    over, under = factor.as_integer_ratio()[::power]
    products = numbers.copy()
    remaining = np.flatnonzero(np.isfinite(numbers))
    for places in range(_MOST_PLACES + 1):
        if not remaining.size:
            return products
        # The quotient of two whole numbers is the float nearest to the exact result, if both are floats.
        with np.errstate(over="ignore"):
            integers = np.rint(numbers[remaining] * 10.0**places)
            is_decimal = (integers / 10.0**places == numbers[remaining]) & (np.abs(integers) * over <= _WHOLE)
        if float(10**places * under) != 10**places * under:
            break
        products[remaining[is_decimal]] = integers[is_decimal] * over / float(10**places * under)
        remaining = remaining[~is_decimal]
    context = Context(prec=60)  # more digits than a float and a factor have together
    operation = context.multiply if power == 1 else context.divide
    products[remaining] = [
        float(operation(Decimal(repr(number)), factor)) for number in numbers[remaining].tolist()
    ]
    return products
