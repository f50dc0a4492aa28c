"""The demo's markets as data: coins, markets on invented exchanges, trading hours and outages.

All numbers are invented. The simulated market says nothing about a real one.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

START_NS = 1_722_988_800_000_000_000
"""The start of the demo: 2024-08-07T00:00Z, a Wednesday. [ns since 1970, UTC]"""

OPTIONS, EVENTS, FUTURES = "DEMO_OPTIONS", "DEMO_EVENTS", "DEMO_CME"
"""Names of the exchanges of options, of the prediction market and of regulated futures."""


@dataclass(frozen=True, slots=True)
class Coin:
    """A traded coin, and how its hidden price moves.

    Attributes
    ----------
    coin, name : str
        Ticker and full name.
    price : float
        Price at the start of the demo. [USD]
    volatility : float
        Usual volatility between jumps, annualised. [1]
    common : float
        Correlation of the coin's moves with the factor that moves all coins. [1]
    jump : float
        The coin's move in a shock of all coins, relative to that of BTC. [1]
    hours : str
        The coin's trading hours, see `tidytape.demo._hours.activity`.
    """

    coin: str
    name: str
    price: float
    volatility: float
    common: float
    jump: float
    hours: str = "always"


COINS = {
    coin.coin: coin
    for coin in (
        Coin("BTC", "Bitcoin", 60_000.0, 0.40, 0.94, 1.0),
        Coin("ETH", "Ethereum", 2_450.0, 0.51, 0.86, 1.15),
        Coin("SOL", "Solana", 145.0, 0.68, 0.78, 1.35),
        Coin("ACME", "Acme Corporation", 182.0, 0.22, 0.35, 0.15, "stocks"),
        Coin("XAU", "Gold", 2_390.0, 0.13, 0.10, 0.0, "metals"),
        Coin("EUR", "Euro", 1.0925, 0.065, 0.15, 0.0, "fx"),
    )
}
"""The coins by ticker. The trend of the first coin moves the mood of traders in all markets."""

SESSIONS = {
    "stocks": "09:30-16:00 America/New_York Mon-Fri",
    "metals": "18:00-17:00 America/New_York Mon-Fri",
    "fx": "17:00-17:00 America/New_York Mon-Fri",
}
"""The trading hours of coins that do not always trade, as `tidytape.Session` writes them."""


@dataclass(frozen=True, slots=True)
class Funding:
    """The terms of the funding of a perpetual.

    Attributes
    ----------
    hours : int
        Time between two settlements. [h]
    clamp : float
        Largest difference that the interest rate can make between funding rate and premium. [1 per 8 h]
    interest : float
        Interest rate. [1 per 8 h]
    """

    hours: int
    clamp: float
    interest: float = 0.0001


@dataclass(frozen=True, slots=True)
class DemoMarket:
    """One market of the demo, and how much it trades.

    Attributes
    ----------
    exchange, raw_symbol : str
        The names of the market.
    coin, quote_coin, category : str
        Traded coin, quote, and category of the market.
    tick, decimals : int
        Price step, in 10 ** -decimals. [quote per coin]
    lot, lot_decimals : int
        Amount step, in 10 ** -lot_decimals. [coin, or contracts of an inverse market]
    block_size : float
        Height of a level of its profiles and books. [quote per coin]
    orders : float
        Number of market orders of a usual day. They come in clusters that follow the moves of the price.
    steady : float
        Time between the small orders of programs that trade all the time. [s]
    typical : float
        Amount of a typical trade. [coin, or contracts of an inverse market]
    half_spread : float
        Distance from the mid to the best price, as a share of the mid. [1]
    lag : float
        Delay of the market's price after the hidden price. [s]
    premium : float
        Usual distance from the hidden price, as a share of it. [1]
    swing : float
        How strongly the mood of traders moves the premium; 0 for spot. [1]
    open_interest : float
        Open interest at the start; 0 for spot. [coin]
    book : float
        Typical size of a level of its book; 0 for a market without a book. [coin]
    book_levels : int
        Number of levels of each side of the book.
    funding : Funding, optional
        Terms of the funding of a perpetual.
    contract : float
        Size of an inverse contract; 0 if amounts are coins. [quote]
    """

    exchange: str
    raw_symbol: str
    coin: str
    quote_coin: str
    category: str
    tick: int
    decimals: int
    lot: int
    lot_decimals: int
    block_size: float
    orders: float
    steady: float
    typical: float
    half_spread: float
    lag: float = 0.0
    premium: float = 0.0
    swing: float = 0.0
    open_interest: float = 0.0
    book: float = 0.0
    book_levels: int = 0
    funding: Funding | None = None
    contract: float = 0.0

    @property
    def name(self) -> str:
        """Exchange and symbol, which seed the market's random generators."""
        return f"{self.exchange} {self.raw_symbol}"


_8H, _4H, _1H = Funding(8, 0.0), Funding(4, 0.0002), Funding(1, 0.0001)

MARKETS = (
    DemoMarket(
        "DEMO_SPOT", "BTCUSDT", "BTC", "USDT", "SPOT",
        tick=1, decimals=1, lot=1, lot_decimals=5, block_size=10.0, orders=11_000, steady=10.0,
        typical=0.01, half_spread=3e-06, lag=0.3, book=1.6, book_levels=60,
    ),
    DemoMarket(
        "DEMO_SPOT", "ETHUSDT", "ETH", "USDT", "SPOT",
        tick=1, decimals=2, lot=1, lot_decimals=4, block_size=0.5, orders=6_500, steady=12.0, typical=0.16,
        half_spread=5e-06, lag=0.4, book=16.0, book_levels=60,
    ),
    DemoMarket(
        "DEMO_SPOT", "SOLUSDT", "SOL", "USDT", "SPOT",
        tick=1, decimals=2, lot=1, lot_decimals=3, block_size=0.05, orders=4_500, steady=15.0, typical=1.9,
        half_spread=0.0001, lag=0.5,
    ),
    DemoMarket(
        "DEMO_USD", "BTC-USD", "BTC", "USD", "SPOT",
        tick=1, decimals=2, lot=1, lot_decimals=6, block_size=10.0, orders=6_000, steady=15.0,
        typical=0.012, half_spread=8e-06, lag=0.7, premium=-8e-05,
    ),
    DemoMarket(
        "DEMO_USD", "ETH-USD", "ETH", "USD", "SPOT",
        tick=1, decimals=2, lot=1, lot_decimals=5, block_size=0.5, orders=3_500, steady=20.0, typical=0.2,
        half_spread=1.2e-05, lag=0.8, premium=-8e-05,
    ),
    DemoMarket(
        "DEMO_PERP", "BTC-PERP", "BTC", "USDT", "PERPETUAL",
        tick=5, decimals=1, lot=1, lot_decimals=3, block_size=10.0, orders=13_000, steady=9.0,
        typical=0.03, half_spread=5e-06, premium=0.00015, swing=1.0, open_interest=9_200.0, book=3.8,
        book_levels=60, funding=_8H,
    ),
    DemoMarket(
        "DEMO_PERP", "ETH-PERP", "ETH", "USDT", "PERPETUAL",
        tick=1, decimals=2, lot=1, lot_decimals=2, block_size=0.5, orders=8_000, steady=12.0, typical=0.55,
        half_spread=6e-06, premium=0.00012, swing=1.1, open_interest=118_000.0, book=38.0, book_levels=60,
        funding=_8H,
    ),
    DemoMarket(
        "DEMO_PERP", "SOL-PERP", "SOL", "USDT", "PERPETUAL",
        tick=1, decimals=2, lot=1, lot_decimals=1, block_size=0.05, orders=6_000, steady=12.0, typical=6.0,
        half_spread=8e-05, lag=0.1, premium=6e-05, swing=1.6, open_interest=1_150_000.0, funding=_8H,
    ),
    DemoMarket(
        "DEMO_LINEAR", "BTCUSDT", "BTC", "USDT", "PERPETUAL",
        tick=1, decimals=1, lot=1, lot_decimals=3, block_size=10.0, orders=10_000, steady=10.0,
        typical=0.025, half_spread=4e-06, lag=0.1, premium=0.0002, swing=1.2, open_interest=7_400.0,
        funding=_4H,
    ),
    DemoMarket(
        "DEMO_LINEAR", "ETHUSDT", "ETH", "USDT", "PERPETUAL",
        tick=1, decimals=2, lot=1, lot_decimals=2, block_size=0.5, orders=6_000, steady=14.0, typical=0.45,
        half_spread=6e-06, lag=0.1, premium=0.00016, swing=1.3, open_interest=92_000.0, funding=_4H,
    ),
    DemoMarket(
        "DEMO_INVERSE", "BTCUSD", "BTC", "USD", "PERPETUAL",
        tick=5, decimals=1, lot=1, lot_decimals=0, block_size=10.0, orders=4_500, steady=18.0,
        typical=14.0, half_spread=6e-06, lag=0.2, premium=0.0001, swing=0.9, open_interest=3_100.0,
        funding=_1H, contract=100.0,
    ),
    DemoMarket(
        "DEMO_STOCKS", "ACME", "ACME", "USD", "SPOT",
        tick=1, decimals=2, lot=1, lot_decimals=0, block_size=0.1, orders=2_600, steady=6.0, typical=45.0,
        half_spread=4e-05,
    ),
    DemoMarket(
        "DEMO_METALS", "XAUUSD", "XAU", "USD", "SPOT",
        tick=1, decimals=2, lot=1, lot_decimals=1, block_size=0.5, orders=2_400, steady=15.0, typical=2.2,
        half_spread=6e-05,
    ),
    DemoMarket(
        "DEMO_FX", "EURUSD", "EUR", "USD", "SPOT",
        tick=1, decimals=5, lot=1_000, lot_decimals=0, block_size=0.0002, orders=3_200, steady=12.0,
        typical=42_000.0, half_spread=3e-05,
    ),
)  # fmt: skip
"""The markets with trades, without the outcomes of the prediction market."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which the data of an exchange are not recorded, although it trades.

    Attributes
    ----------
    exchange : str
        Name of the exchange.
    day, minute : int
        Start of the outage: days since the market began, and minutes of that day.
    minutes : int
        Length of the outage. [min]
    """

    exchange: str
    day: int
    minute: int
    minutes: int


OUTAGES = (Outage("DEMO_USD", 0, 15 * 60 + 32, 3), Outage("DEMO_LINEAR", 1, 9 * 60 + 40, 25))
"""The outages of the first days. Outages of later days are random, see `tidytape.demo._hours.silent`."""


def markets() -> pl.DataFrame:
    """Return the demo's markets with trades, without the outcomes of its prediction market.

    Returns
    -------
    polars.DataFrame, one row per market, key (exchange, raw_symbol)
        ``exchange``, ``raw_symbol``, ``normalized_symbol``, ``coin``, ``quote_coin``, ``category``, ``coin_name``,
        ``contract``, ``session`` : str, and

        - ``tick_size`` : float64, step of its prices. [quote per coin]
        - ``block_size`` : float64, height of a level of its profiles and books. [quote per coin]
        - ``contract_size`` : float64, size of an inverse contract, else null. [quote]

    Examples
    --------
    >>> markets().select("exchange", "raw_symbol", "normalized_symbol", "tick_size").rows()[5:7]
    [('DEMO_PERP', 'BTC-PERP', 'BTC-USDT', 0.5), ('DEMO_PERP', 'ETH-PERP', 'ETH-USDT', 0.01)]
    """
    return pl.DataFrame(
        [
            {
                "exchange": market.exchange,
                "raw_symbol": market.raw_symbol,
                "normalized_symbol": f"{market.coin}-{market.quote_coin}",
                "coin": market.coin,
                "quote_coin": market.quote_coin,
                "category": market.category,
                "tick_size": market.tick / 10**market.decimals,
                "block_size": market.block_size,
                "coin_name": COINS[market.coin].name,
                "contract": "INVERSE" if market.contract else None,
                "contract_size": market.contract or None,
                "session": SESSIONS.get(COINS[market.coin].hours),
            }
            for market in MARKETS
        ]
    )
