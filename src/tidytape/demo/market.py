"""A fictitious market: trades of two venues that do not exist, and that never happened.

Both venues trade one coin around one hidden price, a random walk whose volatility comes in clusters. Trades arrive in
bursts, more of them when the market moves and at the busy hours of the day, and aggressors follow the price. It looks
like a market and says nothing about one: no number in here was recorded anywhere.

The same seed gives the same bits on every machine, see `tidytape.demo.exact`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidytape.demo.exact import Bits, Floats, Integers, between, exp
from tidytape.errors import QueryError, did_you_mean
from tidytape.times import MILLISECOND, SECOND

if TYPE_CHECKING:
    import polars as pl

__all__ = ["START_NS", "markets", "trades"]

START_NS = 1_722_988_800_000_000_000
"""Where the demo's two days begin: 2024-08-07T00:00Z. [ns since 1970, UTC]"""

_MINUTE_MS = 60_000

_PRICE = 60_000.0  # at the start [quote per coin]
_DAILY_VOLATILITY = 0.022  # of the log price, at its usual level
_CLUSTERS = (
    (240, 0.35),
    (45, 0.30),
    (7, 0.25),
)  # [min] between two drawn levels of log volatility, and their spread

# Activity at 0, 2, 4, ... 24 h UTC, relative to the usual: quiet nights, a busy overlap of Europe and America.
_DAY = np.array([0.9, 0.8, 0.65, 0.6, 0.8, 1.0, 1.2, 1.7, 1.75, 1.3, 1.0, 0.95, 0.9])


@dataclass(frozen=True, slots=True)
class _Venue:
    exchange: str
    raw_symbol: str
    category: str
    tick: int  # price step, in 10 ** -decimals
    decimals: int
    lot: int  # amount step, in 10 ** -lot_decimals
    lot_decimals: int
    typical_lots: float  # size of a usual trade [lots]
    orders_per_minute: float
    basis: float  # usual distance from the hidden price [1]
    first_id: int


_VENUES = (
    _Venue("DEMO_SPOT", "BTCUSDT", "SPOT", 1, 1, 1, 5, 900.0, 11.0, 0.0, 3_700_000_001),
    _Venue("DEMO_PERP", "BTC-PERP", "PERPETUAL", 5, 1, 1, 3, 24.0, 14.5, 0.0004, 810_000_001),
)
_BLOCK_SIZE = 10.0


def markets() -> pl.DataFrame:
    """Return the markets of the demo: a spot pair and a perpetual, on two venues that do not exist.

    Returns
    -------
    polars.DataFrame, one row per market, key (exchange, raw_symbol)
        ``exchange``, ``raw_symbol``, ``normalized_symbol``, ``coin``, ``quote_coin``, ``category`` : str, and

        - ``tick_size`` : float64, step of its prices. [quote per coin]
        - ``block_size`` : float64, height of a row of its profiles and books. [quote per coin]

    Examples
    --------
    >>> markets().select("exchange", "raw_symbol", "normalized_symbol", "tick_size").rows()
    [('DEMO_SPOT', 'BTCUSDT', 'BTC-USDT', 0.1), ('DEMO_PERP', 'BTC-PERP', 'BTC-USDT', 0.5)]
    """
    import polars as pl

    return pl.DataFrame(
        [
            {
                "exchange": venue.exchange,
                "raw_symbol": venue.raw_symbol,
                "normalized_symbol": "BTC-USDT",
                "coin": "BTC",
                "quote_coin": "USDT",
                "category": venue.category,
                "tick_size": venue.tick / 10**venue.decimals,
                "block_size": _BLOCK_SIZE,
            }
            for venue in _VENUES
        ]
    )


def trades(
    *,
    seed: int = 7,
    start_ns: int = START_NS,
    minutes: int = 2 * 24 * 60,
    venues: Sequence[str] = ("DEMO_SPOT", "DEMO_PERP"),
) -> pl.DataFrame:
    """Return fictitious trades, the same for the same arguments on every machine.

    Parameters
    ----------
    seed : int, >= 0
        Another seed, another market.
    start_ns : int, >= 0
        Start of the market, inclusive; at time 0 of every seed one coin costs about 60,000. [ns since 1970, UTC]
    minutes : int, >= 1
        How long it lasts; about 70 trades a minute on the two venues together. [min]
    venues : sequence of str
        Which of the venues of `markets`. Each one's trades are the same whether others are asked for or not.

    Returns
    -------
    polars.DataFrame, one row per trade, key (exchange, raw_symbol, id), by (timestamp, exchange, sequence)
        In the layout of a lake's trades.

        - ``exchange``, ``raw_symbol`` : str.
        - ``id`` : str, an integer that counts up on each venue.
        - ``timestamp`` : int64, on whole milliseconds, before ``start_ns`` + ``minutes``. [ns since 1970, UTC]
        - ``sequence`` : int64, order of the trades of a venue, from 1, also within one timestamp.
        - ``side`` : str, BUY or SELL, the aggressor's.
        - ``price`` : float64, the float closest to a multiple of the tick size. [quote per coin]
        - ``amount`` : float64, above 0. [coin]
        - ``quote_amount`` : float64, the float closest to price times amount. [quote]
        - ``received`` : int64, when a recorder would have had it, after ``timestamp``. [ns since 1970, UTC]

    Raises
    ------
    QueryError
        If an argument is out of its range or a venue is not one of the demo's.

    Examples
    --------
    >>> trades(minutes=60).select("exchange", "id", "side", "price", "amount").row(0)
    ('DEMO_PERP', '810000001', 'SELL', 60014.5, 0.038)
    """
    import polars as pl

    _at_least(0, "seed", seed)
    _at_least(0, "start_ns", start_ns)
    _at_least(1, "minutes", minutes)
    known = {venue.exchange: venue for venue in _VENUES}
    for name in venues or [""]:
        if name not in known:
            hint = did_you_mean(name, known)
            raise QueryError("venues", got=name or venues, expected=f"some of {', '.join(known)}", hint=hint)

    hidden = _hidden(Bits(seed, 0), minutes, start_ns)
    frames = [
        _tape(venue, hidden, Bits(seed, stream), start_ns)
        for stream, venue in enumerate(_VENUES, start=1)
        if venue.exchange in venues
    ]
    return pl.concat(frames).sort("timestamp", "exchange", "sequence")


# --- the hidden market ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Hidden:
    """What both venues see: one value per second, and one more price at the end."""

    price: Floats
    pull: Floats  # how the price moves, in standard deviations at the usual volatility
    cumulative: Integers  # arrivals due before the end of each second, in parts of 2 ** -16


def _hidden(bits: Bits, minutes: int, start_ns: int) -> _Hidden:
    seconds = minutes * 60
    second = np.arange(seconds, dtype=np.float64)
    hour = (second + float(start_ns // (SECOND) % 86_400)) / 3600.0
    activity = between(_DAY, (hour - 24.0 * np.floor(hour / 24.0)) / 2.0)

    log_volatility = np.zeros(seconds)
    for length, spread in _CLUSTERS:
        levels = bits.normal(minutes // length + 2) * spread
        log_volatility = log_volatility + between(levels, second / (60.0 * length))
    volatility = exp(log_volatility)

    move = bits.normal(seconds) * volatility * np.sqrt(activity)
    step = move * (_DAILY_VOLATILITY / np.sqrt(86_400.0))
    price = _PRICE * exp(np.concatenate([np.zeros(1), np.cumsum(step)]))
    # Trades follow volatility, and a second that moves draws more of them.
    arrivals = activity * volatility * (0.5 + 0.5 * np.abs(move))
    # Numpy adds rows up in another order on another processor, running sums it does not.
    minute = np.diff(np.cumsum(move)[59::60], prepend=0.0) / np.sqrt(60.0)
    return _Hidden(
        price,
        pull=0.5 * move + 1.5 * np.repeat(minute, 60),
        cumulative=np.cumsum((arrivals * 65536.0).astype(np.int64) + 1),
    )


def _tape(venue: _Venue, hidden: _Hidden, bits: Bits, start_ns: int) -> pl.DataFrame:
    """Return the trades of one venue: market orders that arrive, each filled in one trade or several."""
    import polars as pl

    seconds = hidden.pull.size
    orders = max(1, round(venue.orders_per_minute * seconds / 60))
    due = np.sort(bits.uniform(orders)) * hidden.cumulative[-1].astype(np.float64)
    second = np.searchsorted(hidden.cumulative, due.astype(np.int64), side="right")
    at_ms = second * 1000 + (bits.uniform(orders) * 1000.0).astype(np.int64)

    # Aggressors follow the second and the minute they are in, more surely the further these move.
    pull = hidden.pull[second]
    buy = bits.uniform(orders) < 0.5 + 0.3 * pull / (1.0 + np.abs(pull))

    # u ** -0.6 has a long tail: most orders fill at once, a few sweep the book.
    luck = 1.0 - bits.uniform(orders)
    fills = np.minimum(1.0 / np.sqrt(luck * np.sqrt(luck)), 40.0).astype(np.int64)
    order = np.repeat(np.arange(orders), fills)
    fill = np.arange(order.size) - np.repeat(np.cumsum(fills) - fills, fills)
    # Every third fill or so comes a little later: the order refills, or others join in.
    late = (fill > 0) & (bits.uniform(order.size) > 0.7)
    pause = np.where(late, (bits.uniform(order.size) * 40.0).astype(np.int64), 0)
    waited = np.cumsum(pause)
    waited = waited - np.repeat(waited[fill == 0], fills)
    at_ms = np.minimum(at_ms[order] + waited, seconds * 1000 - 1)

    by_time = np.argsort(at_ms, kind="stable")
    at_ms, order, fill, buy = at_ms[by_time], order[by_time], fill[by_time], buy[order[by_time]]

    basis = bits.normal(seconds // 1800 + 2) * 0.00008 + venue.basis
    middle = between(hidden.price, at_ms / 1000.0) * (1.0 + between(basis, at_ms / 1_800_000.0))
    away = 1 + fill // 2 + (bits.uniform(order.size) * 3.0).astype(np.int64)
    scale = 10**venue.decimals
    ticks = np.rint(middle * scale / venue.tick).astype(np.int64) + np.where(buy, away, -away)
    price = ticks * venue.tick
    size = exp(bits.normal(order.size) * 1.3) * venue.typical_lots
    lots = np.maximum(np.rint(size).astype(np.int64), 1) * venue.lot

    timestamp = start_ns + at_ms * MILLISECOND
    latency = MILLISECOND + (bits.uniform(order.size) * 12.0 * MILLISECOND).astype(np.int64)
    number = np.arange(1, order.size + 1)
    return pl.DataFrame(
        {
            "id": number + (venue.first_id - 1),
            "timestamp": timestamp,
            "sequence": number,
            "side": buy,
            # Integers over a power of ten: the float closest to the decimal.
            "price": price / scale,
            "amount": lots / 10**venue.lot_decimals,
            "quote_amount": price * lots / (scale * 10**venue.lot_decimals),
            # One connection delivers in order.
            "received": np.maximum.accumulate(timestamp + latency),
        }
    ).select(
        pl.lit(venue.exchange).alias("exchange"),
        pl.lit(venue.raw_symbol).alias("raw_symbol"),
        pl.col("id").cast(pl.String),
        "timestamp",
        "sequence",
        pl.when("side").then(pl.lit("BUY")).otherwise(pl.lit("SELL")).alias("side"),
        "price",
        "amount",
        "quote_amount",
        "received",
    )


def _at_least(least: int, parameter: str, got: object) -> None:
    if isinstance(got, bool) or not isinstance(got, int) or got < least:
        raise QueryError(parameter, got=got, expected=f"a whole number, at least {least}")
