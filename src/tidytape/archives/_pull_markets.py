"""What ccxt says about a market, as the lake needs it: its names, its class, and what its amounts count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidytape.catalogue import Category
from tidytape.errors import QueryError
from tidytape.lake._amount_units import CountedUnit, documented
from tidytape.lake._tables import FUNDING, OPEN_INTEREST, RECORDED_CANDLES, Table
from tidytape.lake.ingest._exchange_names import EXCHANGES, PARTS
from tidytape.lake.ingest._market import Market

BINANCE = ("binance", "binancecoinm", "binanceusdm")
"""The names of Binance in ccxt."""
_CLASSES = {"spot": Category.SPOT, "swap": Category.PERPETUAL, "future": Category.FUTURE}
_CANDLES_IN_COIN = frozenset({*BINANCE, "bybit", "deribit", "hyperliquid", "okx"})
"""Exchanges for whose contracts ccxt takes the volume in coin of a candle, see `PulledMarket.unit`."""
_AS_SENT = frozenset({*BINANCE, "bybit", "deribit", "gate", "hyperliquid", "okx"})
"""Exchanges whose other amounts of contracts ccxt passes on as the exchange documents them."""


@dataclass(frozen=True)
class PulledMarket:
    """A market of an exchange.

    Attributes
    ----------
    source : str
        Name of the exchange in ccxt.
    listing : mapping of str to object
        What ccxt says about the market.
    stated_unit : CountedUnit or None
        What its amounts count, if it is a contract and the caller says it.

    Raises
    ------
    QueryError
        If it is an option.
    """

    source: str
    listing: Mapping[str, Any]
    stated_unit: CountedUnit | None = None

    def __post_init__(self) -> None:
        if self.listing["type"] not in _CLASSES:
            expected = "spot markets, perpetuals and futures"
            raise QueryError("symbols", got=self.listing["symbol"], expected=expected)

    @property
    def is_contract(self) -> bool:
        """Whether it is a perpetual or a future."""
        return bool(self.listing["type"] != "spot")

    @property
    def key(self) -> tuple[str, str]:
        """The exchange and raw symbol that the market has in the lake, the same that its files would get."""
        exchange = EXCHANGES.get(self.source, self.source.upper())
        words = [self.listing["type"], "inverse" if self.listing.get("inverse") else "linear", "contract"]
        parts = PARTS.get(exchange, {"contract": f"{exchange}_FUTURES"})
        named = (parts[word] for word in words[: 3 if self.is_contract else 1] if word in parts)
        return next(named, exchange), str(self.listing["id"])

    @property
    def names(self) -> Market:
        """Its coin, quote and class, which the lake keeps if it does not know them yet."""
        category = _CLASSES[self.listing["type"]].value
        return Market(normalized_symbol=f"{self.listing['base']}-{self.listing['quote']}", category=category)

    def unit(self, table: Table) -> CountedUnit | None:
        """Return what the amounts of a table count in ccxt's answers; None if this is not known.

        In spot markets they count coins, by the definition of ccxt. In others each exchange has its own way. ccxt takes
        the volume in coin of a candle where an exchange sends several, for the exchanges `_CANDLES_IN_COIN`. Trades and
        open interest it passes on as they are sent.
        """
        if not self.is_contract:
            return CountedUnit.COIN
        if self.stated_unit is not None:
            return self.stated_unit
        if table is RECORDED_CANDLES and self.source in _CANDLES_IN_COIN:
            return CountedUnit.COIN
        return documented(*self.key, table.name, otherwise=None) if self.source in _AS_SENT else None

    def facts(self, table: Table) -> Market:
        """Return what the lake is told about the market and the amounts of a table.

        Raises
        ------
        QueryError
            If nothing says what they count, or what one contract is.
        """
        exchange, raw_symbol = self.key
        if table is FUNDING:
            return Market(exchange=exchange, raw_symbol=raw_symbol)
        unit, size = self.unit(table), self.listing.get("contractSize")
        is_inverse = self.listing.get("inverse")
        if unit is None or (
            unit is CountedUnit.CONTRACTS and (not size or self.listing.get("linear") == is_inverse)
        ):
            raise QueryError(
                "amount_unit",
                got=unit and unit.value,
                expected=f"coin, quote or contracts: ccxt does not say what amounts of {self.listing['symbol']} count "
                f"in {table.name} of {self.source}{'' if unit is None else ', or what one contract is'}",
            )
        contract = {"contract": "INVERSE" if is_inverse else "LINEAR", "contract_size": str(size)}
        stated = contract if unit is CountedUnit.CONTRACTS else {}
        return Market(exchange=exchange, raw_symbol=raw_symbol, amount_unit=self.stated_unit, **stated)

    def absence(self, table: Table) -> str | None:
        """Return why the market has no rows of a table, or none that can be converted to coin; None if it has."""
        if table in (FUNDING, OPEN_INTEREST) and not self.is_contract:
            return f"a spot market has no {table.name.replace('_', ' ')}"
        if (
            table is OPEN_INTEREST
            and self.listing.get("inverse")
            and self.unit(table) is not CountedUnit.COIN
        ):
            return "its open interest counts the quote, and ccxt gives no price to convert it to coin"
        return None
