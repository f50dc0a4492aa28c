"""Supply and market capitalisation of tokens, reported once an hour. Tokens are coins of the demo and a stablecoin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidytape.demo._hidden import Hidden
from tidytape.demo._market import COINS
from tidytape.demo._noise import generator
from tidytape.times import SECOND


@dataclass(frozen=True, slots=True)
class _Token:
    """A token and how its supply grows."""

    coin: str
    name: str
    supply: float  # at the start of the demo [coin]
    growth: float  # [coin per hour]
    max_supply: float | None  # [coin]
    turnover: float  # usual volume of a day as a share of the market capitalisation [1]


_TOKENS = (
    _Token("BTC", COINS["BTC"].name, 19_735_000.0, 18.75, 21_000_000.0, 0.03),
    _Token("ETH", COINS["ETH"].name, 120_200_000.0, 60.0, None, 0.055),
    _Token("USDT", "Tether", 115_600_000_000.0, 900_000.0, None, 0.45),
    _Token("SOL", COINS["SOL"].name, 466_000_000.0, 2_900.0, None, 0.06),
)


def tokens(hidden: Hidden) -> pl.DataFrame:
    """Return the reports of token supply of one day.

    Parameters
    ----------
    hidden : Hidden
        The day.

    Returns
    -------
    polars.DataFrame, one row per token and whole hour
        The lake's table ``token_supply``.
    """
    hour = np.arange(24)
    reports = []
    for rank, token in enumerate(_TOKENS, start=1):
        draws = generator(hidden.seed, hidden.number, f"token {token.coin}")
        price = np.rint(hidden.hourly(token.coin) * 100.0) / 100.0 if token.coin in COINS else np.ones(24)
        supply = token.supply + (hidden.number * 24 + hour) * token.growth
        marketcap = price * supply
        reports.append(
            pl.DataFrame(
                {
                    "timestamp": hidden.start + hour * 3600 * SECOND,
                    "usd_price": price,
                    "circulating_supply": supply,
                    "total_supply": supply,
                    "marketcap": marketcap,
                    "total_volume": np.rint(marketcap * token.turnover * np.exp(0.1 * draws.normal(size=24))),
                }
            ).with_columns(
                token_name=pl.lit(token.name),
                coin=pl.lit(token.coin),
                max_supply=pl.lit(token.max_supply, pl.Float64),
                fully_diluted_valuation=pl.col("usd_price") * pl.lit(token.max_supply, pl.Float64),
                cg_marketcap_rank=pl.lit(rank),
            )
        )
    return pl.concat(reports)
