"""The unit of a market's amounts: coins, the quote or contracts; and whether amounts in coin and in the quote agree.

Three sources say the unit, in this order: the message or file itself, the symbol, and the documentation of the
exchange. The name that a caller gives to the exchange overrules none of them. If no source says the unit, it is
unknown, and `tidytape.lake.ingest` asks for ``amount_unit`` or ``contract``.

The tables below repeat what the exchanges document. They never convert anything: contract sizes differ per market and
change, so the caller, the registry or BitMEX's list of instruments must state them.

Examples
--------
>>> of_symbol("BTCUSD_PERP"), of_symbol("BTCUSDT_240927"), of_symbol("BTCUSDT")
(<CountedUnit.CONTRACTS: 'contracts'>, <CountedUnit.COIN: 'coin'>, None)
>>> documented("bybit", "BTCUSD", "trades", otherwise=None)
<CountedUnit.QUOTE: 'quote'>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import polars as pl

from tidytape.catalogue import Category
from tidytape.lake._symbols import guessed, told_class
from tidytape.lake._tables import LIQUIDATIONS, OPEN_INTEREST, OPTION_QUOTES, RECORDED_CANDLES, TRADES


class CountedUnit(StrEnum):
    """What an amount counts."""

    COIN = "coin"
    QUOTE = "quote"
    CONTRACTS = "contracts"


_COIN, _QUOTE, _CONTRACTS = CountedUnit

_BINANCE_FUTURE = re.compile(r"([A-Z0-9]+)_(?:PERP|\d{6})")

_STABLECOINS = ("USDT", "USDC", "BUSD")
"""Quotes of Binance's USD-M futures."""

_BY_SYMBOL: tuple[tuple[re.Pattern[str], CountedUnit], ...] = (
    (re.compile(r"[A-Z0-9]+-(?:USD|USDT|USDC)-(?:SWAP|\d{6})"), _CONTRACTS),  # OKX: BTC-USDT-SWAP
    (re.compile(r"[A-Z0-9]+_(?:CW|NW|CQ|NQ)"), _CONTRACTS),  # Huobi: BTC_CQ
    (re.compile(r"[PF]I_[A-Z0-9]+(?:_\d{6})?"), _QUOTE),  # Kraken: PI_XBTUSD
    (re.compile(r"[A-Z0-9]+USD[TC]?M"), _CONTRACTS),  # KuCoin: XBTUSDTM
)
"""Symbols that only markets with this unit have."""

_IN_COIN = frozenset(
    {
        "ASCENDEX", "ASTER", "ASTER_FUTURES", "BINANCE", "BINANCE_DEX", "BINANCE_EUROPEAN_OPTIONS", "BINANCE_FUTURES",
        "BINANCE_JERSEY", "BINANCE_OPTIONS", "BINANCE_US", "BITFINEX", "BITFINEX_DERIVATIVES", "BITFLYER", "BITGET",
        "BITSTAMP", "BLOCKCHAIN_COM", "BULLISH", "BYBIT_OPTIONS", "BYBIT_SPOT", "COINBASE", "COINBASE_INTERNATIONAL",
        "COINFLEX", "CRYPTO_COM", "CRYPTO_COM_DERIVATIVES", "DYDX", "DYDX_V4", "FTX", "FTX_US", "GATE_IO", "GEMINI",
        "HITBTC", "HUOBI", "HYPERLIQUID", "KRAKEN", "KUCOIN", "LIGHTER", "MANGO", "OKCOIN", "OKEX", "POLONIEX",
        "POLYMARKET", "SERUM", "STAR_ATLAS", "UPBIT", "WOO_X",
    }
)  # fmt: skip
"""Exchanges whose amounts are coins in all markets."""

_IN_CONTRACTS = frozenset(
    {
        "BINANCE_COINM", "BINANCE_DELIVERY", "BITMEX", "BITNOMIAL", "CME", "DELTA", "GATE_IO_FUTURES", "HUOBI_DM",
        "HUOBI_DM_LINEAR_SWAP", "HUOBI_DM_OPTIONS", "HUOBI_DM_SWAP", "KUCOIN_FUTURES", "OKEX_FUTURES", "OKEX_OPTIONS",
        "OKEX_SPREADS", "OKEX_SWAP",
    }
)  # fmt: skip
"""Exchanges whose amounts are contracts in all markets."""

_KRAKEN_FUTURES = ((re.compile(r"[PF]F_.*"), _COIN), (re.compile(r".*"), _CONTRACTS))
_BY_EXCHANGE: Mapping[str, tuple[tuple[re.Pattern[str], CountedUnit], ...]] = MappingProxyType(
    {
        "BITGET_FUTURES": ((re.compile(r".*(?:USDT|USDC|PERP)"), _COIN),),
        "BYBIT": ((re.compile(r"[A-Z0-9]+USD(?:[FGHJKMNQUVXZ]\d{2})?"), _QUOTE), (re.compile(r".*"), _COIN)),
        "CRYPTOFACILITIES": _KRAKEN_FUTURES,
        "DERIBIT": (
            (re.compile(r".*-[CP]"), _COIN),
            (re.compile(r".*_USD[CT](?:-.*)?"), _COIN),
            (re.compile(r"[A-Z]+-(?:PERPETUAL|\d{1,2}[A-Z]{3}\d{2})"), _QUOTE),
        ),
        "KRAKEN_FUTURES": _KRAKEN_FUTURES,
        "PHEMEX": ((re.compile(r".*USDT"), _COIN), (re.compile(r".*"), _CONTRACTS)),
    }
)
"""Exchanges whose markets differ: the first pattern that a symbol fits decides; if none fits, the unit is unknown."""

_KNOWN: Final = {name.replace("_", ""): name for name in (*_IN_COIN, *_IN_CONTRACTS, *_BY_EXCHANGE)}
"""The exchanges above, by their names without underscores."""

_DERIVATIVES: Final = re.compile(
    r"FUTURE|PERP|SWAP|INVERSE|LINEAR|COINM|COIN_M|USDM|USD_M|DELIVERY|DERIVATIVE|_DM$"
)
"""Words in the name of an exchange that say that its markets are perpetuals or futures."""

_BY_TABLE: Mapping[tuple[str, str], CountedUnit | None] = MappingProxyType(
    {
        ("FTX", RECORDED_CANDLES.name): _QUOTE,
        ("FTX_US", RECORDED_CANDLES.name): _QUOTE,
        ("LIGHTER", OPEN_INTEREST.name): None,
        ("DERIBIT", OPTION_QUOTES.name): _COIN,
    }
)
"""Tables of an exchange whose unit differs from that of its trades."""


def is_coin_margined(raw_symbol: str) -> bool:
    """Return whether a symbol names a COIN-M future of Binance, whose margin is in coin.

    The symbol of a USD-M future looks the same, but its quote is a stablecoin.

    Examples
    --------
    >>> [is_coin_margined(symbol) for symbol in ("BTCUSD_PERP", "BTCUSD_240927", "BTCUSDT_240927", "BTCBUSD_210129")]
    [True, True, False, False]
    """
    return of_symbol(raw_symbol) is _CONTRACTS and _BINANCE_FUTURE.fullmatch(raw_symbol.upper()) is not None


def is_in_dollars(pair: str) -> bool:
    """Return whether a pair is quoted in USD and not in a stablecoin; an ambiguous pair counts as USD.

    Examples
    --------
    >>> [is_in_dollars(pair) for pair in ("BTCUSD", "1000SHIBUSD", "BTCUSDT", "BTCBUSD")]
    [True, True, False, False]
    """
    symbol = guessed(pair)
    return pair.upper().endswith("USD") and (symbol is None or symbol.quote_coin == "USD")


def of_symbol(raw_symbol: str) -> CountedUnit | None:
    """Return the unit that a symbol shows; None if it shows no unit."""
    symbol = raw_symbol.strip().upper()
    future = _BINANCE_FUTURE.fullmatch(symbol)
    if future and is_in_dollars(future[1]):
        return _CONTRACTS
    if future and future[1].endswith(_STABLECOINS):
        return _COIN
    return next((unit for pattern, unit in _BY_SYMBOL if pattern.fullmatch(symbol)), None)


def of_binance(table: str, exchange: str, raw_symbol: str) -> CountedUnit:
    """Return the unit of the amounts in Binance's own layouts: contracts in COIN-M markets, coins in all others."""
    return CountedUnit.CONTRACTS if is_coin_margined(raw_symbol) else CountedUnit.COIN


def of_coins(table: str, exchange: str, raw_symbol: str) -> CountedUnit:
    """Return COIN, for layouts whose amounts are always coins."""
    return _COIN


def of_mapped(table: str, exchange: str, raw_symbol: str, category: str | None = None) -> CountedUnit | None:
    """Return the unit of the amounts in a file with a column map.

    The map assigns a column of the file to the table's column, so its amounts count coins. Exceptions are symbols and
    exchanges whose amounts are known to count something else, and futures in USD, whose unit is unknown. So is that of
    a market which the caller says is a perpetual or a future, unless symbol or exchange shows it.
    """
    otherwise = None if category in _OF_CONTRACTS else of_future(raw_symbol)
    return documented(exchange, raw_symbol, table, otherwise=otherwise)


_OF_CONTRACTS: Final = (Category.PERPETUAL.value, Category.FUTURE.value)


def of_future(raw_symbol: str) -> CountedUnit | None:
    """Return COIN, or None for a future in USD: such futures count coins, USD or contracts.

    Examples
    --------
    >>> of_future("BTC-PERP") is None, of_future("BTC-USD")
    (True, <CountedUnit.COIN: 'coin'>)
    """
    pair = guessed(raw_symbol)
    is_future = told_class(raw_symbol) in _OF_CONTRACTS
    return None if is_future and (pair is None or pair.quote_coin == "USD") else _COIN


def documented(
    exchange: str, raw_symbol: str, table: str, *, otherwise: CountedUnit | None
) -> CountedUnit | None:
    """Return the unit that the symbol shows, else the unit that the exchange documents.

    Parameters
    ----------
    exchange : str
        Any spelling: ``binance-delivery`` is ``BINANCE_DELIVERY``.
    raw_symbol : str
        The symbol of the market; for option quotes, which are partitioned by coin, the coin.
    table : str
        Name of the table that the amounts are for.
    otherwise : CountedUnit or None
        The unit if this module does not know the exchange.

    Returns
    -------
    CountedUnit or None
        None if the unit is not known.
    """
    exchange_name = re.sub(r"[^A-Z0-9]+", "_", exchange.upper())
    unit_of_symbol = of_symbol(raw_symbol)
    if unit_of_symbol is not None:
        return unit_of_symbol
    exchange_name = _KNOWN.get(exchange_name.replace("_", ""), exchange_name)
    if exchange_name not in _KNOWN.values() and _DERIVATIVES.search(exchange_name):
        # BYBIT_INVERSE is a part of Bybit. A part of an exchange in coins may count something else, so it is not known.
        otherwise = None
        named = [known for known in (*_IN_CONTRACTS, *_BY_EXCHANGE) if exchange_name.startswith(known)]
        exchange_name = max(named, key=len, default=exchange_name)
    if (exchange_name, table) in _BY_TABLE:
        return _BY_TABLE[exchange_name, table]
    if exchange_name in _IN_COIN:
        return _COIN
    if exchange_name in _IN_CONTRACTS:
        return _CONTRACTS
    if exchange_name in _BY_EXCHANGE:
        symbol = raw_symbol.upper()
        return next(
            (unit for pattern, unit in _BY_EXCHANGE[exchange_name] if pattern.fullmatch(symbol)), None
        )
    return otherwise


_TRADED = ("price", "price", "amount", "quote_amount")
QUOTED: Mapping[str, tuple[str, str, str, str]] = MappingProxyType(
    {
        TRADES.name: _TRADED,
        LIQUIDATIONS.name: _TRADED,
        RECORDED_CANDLES.name: ("low", "high", "volume", "quote_volume"),
    }
)
"""The columns of tables with both amounts: lowest and highest price, amount in coin and amount in the quote."""

_TOLERANCE = 0.01
"""Largest relative difference that rounding by the exchange explains; a wrong unit differs by much more. [1]"""


def mismatched(rows: pl.LazyFrame, table: str, *, by: list[pl.Expr]) -> pl.DataFrame:
    """Return the groups whose amounts in the quote are not their amounts in coin times any of their prices.

    It compares the sums of a group, because exchanges round the amounts of a row.

    Parameters
    ----------
    rows : polars.LazyFrame
        Rows of one of the tables `QUOTED`.
    table : str
        Its name.
    by : list of expressions
        Expressions that group the rows.

    Returns
    -------
    polars.DataFrame, one row per such group, sorted by ``by``
        ``by``, and ``ratio``: the sum in the quote, divided by the nearest sum that the prices allow. [1]

    Examples
    --------
    >>> rows = pl.LazyFrame({"raw_symbol": "A", "price": [2.0], "amount": [3.0], "quote_amount": [60.0]})
    >>> mismatched(rows, "trades", by=[pl.col("raw_symbol")]).rows()
    [('A', 10.0)]
    """
    low, high, amount, quote = (pl.col(name) for name in QUOTED[table])
    is_known = (amount > 0) & amount.is_finite() & quote.is_finite() & low.is_finite() & high.is_finite()
    lowest_quote, highest_quote, quote_sum = pl.col("__least"), pl.col("__most"), pl.col("__quote")
    is_above = quote_sum > highest_quote + _TOLERANCE * highest_quote.abs()
    is_below = quote_sum < lowest_quote - _TOLERANCE * lowest_quote.abs()
    return (
        rows.filter(is_known)
        .group_by(by)
        .agg(__quote=quote.sum(), __least=(low * amount).sum(), __most=(high * amount).sum())
        .filter(is_above | is_below)
        .with_columns(ratio=quote_sum / pl.when(is_above).then(highest_quote).otherwise(lowest_quote))
        .drop("__quote", "__least", "__most")
        .sort([expression.meta.output_name() for expression in by])
        .collect(engine="streaming")
    )


def description(table: str, ratio: float) -> str:
    """Describe a mismatch, for a message."""
    _, _, amount, quote = QUOTED[table]
    return f"{quote} is {ratio:.4g} times {amount} × price, so one of them counts something else"
