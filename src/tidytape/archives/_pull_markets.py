"""What ccxt says about a market, as the lake needs it: its names, its class, and what its amounts count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidytape.catalogue import Category
from tidytape.errors import QueryError
from tidytape.frames._grid import exact
from tidytape.lake._amount_units import CountedUnit, documented
from tidytape.lake._tables import FUNDING, OPEN_INTEREST, RECORDED_CANDLES, Table
from tidytape.lake.ingest._contracts import COUNTED, Contract, ContractKind
from tidytape.lake.ingest._exchange_names import EXCHANGES, PARTS
from tidytape.lake.ingest._market import Market

_CLASSES = {"spot": Category.SPOT, "swap": Category.PERPETUAL, "future": Category.FUTURE}

BINANCE = ("binance", "binancecoinm", "binanceusdm")
"""The names of Binance in ccxt."""

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
    """

    source: str
    listing: Mapping[str, Any]
    stated_unit: CountedUnit | None = None

    def __post_init__(self) -> None:
        if self.type not in _CLASSES:
            raise QueryError("symbols", got=self.symbol, expected="spot markets, perpetuals and futures")

    @property
    def symbol(self) -> str:
        """Its symbol in ccxt."""
        return str(self.listing["symbol"])

    @property
    def type(self) -> str:
        """Its class in ccxt, e.g. swap."""
        return self.listing.get("type") or next((name for name in _CLASSES if self.listing.get(name)), "")

    @property
    def is_contract(self) -> bool:
        """Whether it is a perpetual or a future."""
        return self.type != "spot"

    @property
    def is_inverse(self) -> bool:
        """Whether its margin is in coin."""
        return bool(self.listing.get("inverse"))

    @property
    def key(self) -> tuple[str, str]:
        """Its exchange and raw symbol in the lake, as files of the same market have them."""
        exchange = EXCHANGES.get(self.source, self.source.upper())
        words = [self.type, "inverse" if self.is_inverse else "linear", "contract"]
        parts = PARTS.get(exchange, {"contract": f"{exchange}_FUTURES"})
        named = (parts[word] for word in words[: 3 if self.is_contract else 1] if word in parts)
        return next(named, exchange), str(self.listing["id"])

    @property
    def names(self) -> Market:
        """Its coin, quote and class, which the lake keeps if it does not know them yet."""
        return Market(
            coin=self.listing["base"],
            quote=self.listing["quote"],
            category=_CLASSES[self.type].value,
        )

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

    @property
    def contract(self) -> Contract | None:
        """What one contract is; None if ccxt does not say it."""
        size = self.listing.get("contractSize")
        if not self.is_contract or not size or self.listing.get("linear") == self.listing.get("inverse"):
            return None
        return Contract(ContractKind.INVERSE if self.is_inverse else ContractKind.LINEAR, exact(size))

    def require_unit(self, table: Table) -> None:
        """Raise QueryError if nothing says what the amounts of a table count, or what one contract is."""
        unit = self.unit(table)
        if table in COUNTED and (unit is None or (unit is CountedUnit.CONTRACTS and self.contract is None)):
            raise QueryError(
                "amount_unit",
                got=unit and str(unit),
                expected=f"coin, quote or contracts: ccxt does not say what amounts of {self.symbol} count in "
                f"{table.name} of {self.source}{'' if unit is None else ', or what one contract is'}",
            )

    def without(self, table: Table) -> str | None:
        """Return why the market has no rows of a table, or none that can be converted to coin; None if it has."""
        if table in (FUNDING, OPEN_INTEREST) and not self.is_contract:
            return f"a spot market has no {table.name.replace('_', ' ')}"
        if table is OPEN_INTEREST and self.is_inverse and self.unit(table) is not CountedUnit.COIN:
            return "its open interest counts the quote, and ccxt gives no price to convert it to coin"
        return None
