"""Names of exchanges and markets: the coins of a symbol, and which names can be stored and queried."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

import polars as pl

from tidytape.catalogue import Category
from tidytape.errors import QueryError
from tidytape.query import _values as values

QUOTES = (
    "FDUSD", "PYUSD", "BUSD", "TUSD", "USDC", "USDD", "USDE", "USDP", "USDT", "USD1",
    "AUD", "BIDR", "BRL", "BTC", "BNB", "CAD", "CHF", "DAI", "ETH", "EUR", "GBP", "IDR", "JPY", "KRW", "MXN", "TRY",
    "UAH", "USD", "XBT", "ZAR",
)  # fmt: skip
"""Quotes that a symbol without a separator may end in."""

# XBTUSD is XBT in USD, not XB in TUSD, and BTCBUSD is BTC in BUSD, not BTCB in USD: only a list of coins decides.
_KNOWN_COINS = frozenset(
    {
        "AAVE", "ADA", "APT", "ARB", "ATOM", "AVAX", "BAT", "BCH", "BNB", "BTC", "DAI", "DOGE", "DOT", "EOS", "ETC",
        "ETH", "FIL", "FTT", "GRT", "HBAR", "ICP", "INJ", "LINK", "LPT", "LTC", "MATIC", "MKR", "MNT", "NEAR", "OP",
        "PEPE", "POL", "QNT", "SHIB", "SOL", "SUI", "TON", "TRB", "TRX", "UNI", "USDC", "USDT", "WBT", "XBT", "XLM",
        "XMR", "XRP", "XTZ",
    }
)  # fmt: skip
_STABLECOINS = frozenset({"DAI", "USDC", "USDT"})

_LONGEST_FIRST = sorted(QUOTES, key=lambda quote: (-len(quote), quote))
_SEPARATORS = re.compile(r"[-_/:.]")
# Parts of a symbol that tell the markets of one pair apart: kind of contract, expiry.
_SUFFIX = re.compile(r"(PERP|PERPETUAL|SWAP|SPOT|FUTURES?|\d{4,8}|\d{1,2}[A-Z]{3}\d{2})")
# BTC-27DEC24-60000-C: strike, which may have decimals, and kind of an option.
_OPTION = re.compile(r"[-_]\d+(?:[.D]\d+)?[-_][CP]$")
_CLASS = re.compile(r"^[CX]:")  # of a vendor's symbols of currencies and coins
_DATED = re.compile(r"\d{6}|\d{8}|\d{1,2}[A-Z]{3}\d{2}")
_ALIASES = {"XBT": "BTC"}
_SHORTEST_QUOTE = 3
_TICKERS = re.compile(r"[A-Z](?:BTC|ETH|BNB|XBT)")
"""Symbols such as GBTC and FETH, which are more often shares than coins of one letter."""
_COIN = re.compile(r"[A-Z0-9$]{1,20}")
_KUCOIN_FUTURES = re.compile(r"([A-Z0-9]+USD[TC]?)M")
"""KuCoin's perpetuals, such as XBTUSDTM, have an M behind the pair."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """The coins of a symbol.

    Attributes
    ----------
    coin : str
        Base asset.
    quote_coin : str
        Quote asset.
    """

    coin: str
    quote_coin: str

    @property
    def normalized(self) -> str:
        """The cross-exchange symbol, e.g. ``BTC-USDT``."""
        return f"{self.coin}-{self.quote_coin}"


def guessed(raw_symbol: str) -> Symbol | None:
    """Return the most likely base and quote of an exchange's symbol, or None.

    Parameters
    ----------
    raw_symbol : str
        Exchange-native symbol.

    Returns
    -------
    Symbol or None
        None if several readings are equally likely, or no reading is possible.

    Examples
    --------
    >>> [guessed(symbol).normalized for symbol in ("BTCUSDT", "eth-usd", "XBTUSD", "BTCUSD_PERP", "BTC-PERPETUAL")]
    ['BTC-USDT', 'ETH-USD', 'BTC-USD', 'BTC-USD', 'BTC-USD']
    >>> guessed("KRW-DOGE").normalized, guessed("BTC_XMR"), guessed("WHATEVER")
    ('DOGE-KRW', None, None)
    """
    pair_and_date = _OPTION.sub("", _CLASS.sub("", raw_symbol.strip().upper()))
    parts = [part for part in _SEPARATORS.split(pair_and_date) if part]
    if len(parts) >= 2 and parts[0] in {"FF", "FI", "FX", "PF", "PI"}:
        parts.pop(0)  # PI_XBTUSD begins with the kind of contract
    pair = [part for part in parts if not _SUFFIX.fullmatch(part)]
    if not pair:
        return None
    if len(pair) == 1:
        perpetual = _KUCOIN_FUTURES.fullmatch(pair[0])
        coin, quote = _cut(perpetual[1] if perpetual else pair[0])
        if not quote and len(parts) > 1:
            quote = "USD"  # BTC-PERPETUAL and BTC-27DEC24 are in dollars: the symbol names no other quote
        if not quote:
            return None
    else:
        # BTC/USDT:USDT names base, quote and the asset of settlement.
        coin, quote = pair[0], pair[1]
        if coin in QUOTES and quote not in QUOTES:
            # Some exchanges name the quote first, as in KRW-DOGE. BTC_XMR is ambiguous: XMR in BTC, or BTC in XMR.
            if coin in _KNOWN_COINS - _STABLECOINS:
                return None
            coin, quote = quote, coin
        if len(quote) < _SHORTEST_QUOTE:
            return None  # BRK.B is a class of shares
    coin, quote = _ALIASES.get(coin, coin), _ALIASES.get(quote, quote)
    if not (_COIN.fullmatch(coin) and _COIN.fullmatch(quote)):
        return None
    return Symbol(coin, quote)


def told_class(raw_symbol: str) -> str | None:
    """Return the category of a market if its symbol shows the category, else None.

    Examples
    --------
    >>> [told_class(symbol) for symbol in ("BTC-27DEC24-60000-C", "BTC-PERPETUAL", "BTCUSD_240927", "BTCUSDT")]
    ['OPTION', 'PERPETUAL', 'FUTURE', None]
    """
    symbol = raw_symbol.strip().upper()
    parts = _SEPARATORS.split(symbol)
    if _OPTION.search(symbol) and any(map(_DATED.fullmatch, parts)):
        return Category.OPTION.value
    if {"PERP", "PERPETUAL", "SWAP"} & set(parts):
        return Category.PERPETUAL.value
    return Category.FUTURE.value if any(map(_DATED.fullmatch, parts[1:])) else None


_MULTIPLE = re.compile(r"(?:(10{3,7})|1M(?=[A-Z]{3}))([A-Z][A-Z0-9]{0,14})")
_MULTIPLE_BEHIND = re.compile(r"([A-Z]{3,})(10{3,7})")
_THOUSAND = re.compile(r"k([A-Z]{2}[A-Z0-9]{0,13})")
"""How symbols say that a unit of the market is several coins: before the coin; behind it, on Bybit; Hyperliquid's k."""
_THOUSANDS, _MILLION = 1_000, 1_000_000


def multiple(exchange: str, raw_symbol: str, name: str | None = None) -> tuple[int, str] | None:
    """Return how many coins one unit of a market is, and the coin, if the symbol says that it is several coins.

    Parameters
    ----------
    exchange : str
        The exchange of the market. Some ways of writing are of one exchange only.
    raw_symbol : str
        The symbol.
    name : str, optional
        The base asset as the symbol has it, if that is known, e.g. ``1000PEPE``; by default read from the symbol.

    Returns
    -------
    (int, str) or None
        None if the symbol does not say it, if coin and quote cannot be read of the symbol, and for a market with an
        expiry, whose date may look like a number of coins.

    Examples
    --------
    >>> multiple("BINANCE", "1000PEPEUSDT"), multiple("BINANCE", "1MBABYDOGEUSDT"), multiple("BYBIT", "SHIB1000USDT")
    ((1000, 'PEPE'), (1000000, 'BABYDOGE'), (1000, 'SHIB'))
    >>> multiple("HYPERLIQUID", "kPEPE"), multiple("BINANCE", "1INCHUSDT"), multiple("DERIBIT", "BTC-1MAR24")
    ((1000, 'PEPE'), None, None)
    """
    if told_class(raw_symbol) in {Category.FUTURE.value, Category.OPTION.value}:
        return None
    first_part = _SEPARATORS.split(raw_symbol.strip())[0]
    if exchange.upper().startswith("HYPERLIQUID") and (match := _THOUSAND.fullmatch(first_part)):
        return _THOUSANDS, match[1]
    if name is None:
        symbol, (coin, perpetual, _) = guessed(raw_symbol), raw_symbol.strip().upper().rpartition("PERP")
        name = symbol.coin if symbol else coin if perpetual else ""
    if match := _MULTIPLE.fullmatch(name.upper()):
        return int(match[1] or _MILLION), match[2]
    if exchange.upper().startswith("BYBIT") and (match := _MULTIPLE_BEHIND.fullmatch(name.upper())):
        return int(match[2]), match[1]
    return None


def multiple_of(coin: str, exchange: str, raw_symbol: str) -> int | None:
    """Return how many of a known coin one unit of a market is, if the symbol says that it is several.

    Parameters
    ----------
    coin : str
        The coin without the number, e.g. ``SHIB``.
    exchange, raw_symbol : str
        The market.

    Returns
    -------
    int or None
        None if the symbol has no number beside this coin, or is about another coin.

    Examples
    --------
    >>> multiple("BINANCE", "1000SHIBBUSD"), multiple_of("SHIB", "BINANCE", "1000SHIBBUSD")
    (None, 1000)
    >>> multiple_of("SHIB", "BINANCE", "SHIBBUSD"), multiple_of("S", "BINANCE", "1000SHIBUSDT")
    (None, None)
    """
    coin = coin.upper()
    if (unit := multiple(exchange, raw_symbol)) is not None:
        return unit[0] if unit[1] == coin else None
    pattern = rf"(?:(10{{3,7}})|1M){re.escape(coin)}|{re.escape(coin)}(10{{3,7}})(?!\d)"
    match, symbol = re.match(pattern, raw_symbol.strip().upper()), guessed(raw_symbol)
    if match is None or (symbol is not None and symbol.coin != match[0]):
        return None
    return int(match[1] or match[2] or _MILLION)


def _cut(pair: str) -> tuple[str, str]:
    """Return base and quote of a pair without a separator; the quote is empty if the pair is ambiguous."""
    if _TICKERS.fullmatch(pair):
        return pair, ""
    cuts = [
        (pair.removesuffix(quote), quote)
        for quote in _LONGEST_FIRST
        if pair.endswith(quote) and len(pair) > len(quote)
    ]
    if len(cuts) > 1 and cuts[0][1] not in {"BUSD", "TUSD"}:
        return cuts[0]
    if len(cuts) > 1:
        cuts = [cut for cut in cuts if cut[0] in _KNOWN_COINS]
    return cuts[0] if len(cuts) == 1 else (pair, "")


_NULL = "__HIVE_DEFAULT_PARTITION__"
_LONGEST_NAME = 255 - len("raw_symbol=")
"""Longest value that fits into a folder's name. [bytes]"""


def storable(value: object, *, parameter: str, code: str = "INVALID_PARAMS") -> str:
    """Return a trimmed name, which must be valid in a query and fit into the name of a folder of the lake.

    Raises
    ------
    QueryError
        If the name is not valid.

    Examples
    --------
    >>> storable(" BTC/USDT ", parameter="raw_symbol")
    'BTC/USDT'
    """
    name = values.text(value, parameter=parameter, code=code)
    if not {".", ".."}.isdisjoint(re.split(r"[/\\]", name)):
        raise QueryError(parameter, got=value, expected="a name, and this one is a path", code=code)
    if name == _NULL:
        raise QueryError(parameter, got=value, expected="a name, and this one stands for none", code=code)
    if len(quote(name, safe="")) > _LONGEST_NAME:
        expected = f"a name of at most {_LONGEST_NAME} bytes, each other than A-Z a-z 0-9 _ . - ~ counted three times"
        raise QueryError(parameter, got=value, expected=expected, code=code)
    return name


def unstorable(names: pl.Series) -> pl.Series:
    """Return the distinct names that cannot be stored unchanged."""
    return (
        names.drop_nulls()
        .unique()
        .map_elements(lambda name: None if is_storable(name) else name, return_dtype=pl.String)
        .drop_nulls()
    )


def is_storable(name: str) -> bool:
    r"""Return whether a name can be stored unchanged.

    Examples
    --------
    >>> is_storable("BTC/USDT"), is_storable(" BTC"), is_storable("B\tTC"), is_storable("é" * 200)
    (True, False, False, False)
    """
    try:
        return storable(name, parameter="name") == name
    except QueryError:
        return False
