"""Supply and worth of two tokens, reported once an hour: the demo's coin, and a smaller one beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidytape.demo.exact import Bits, exp
from tidytape.demo.minutes import Minutes

if TYPE_CHECKING:
    import polars as pl

__all__ = ["tokens"]


def tokens(minutes: Minutes, bits: Bits) -> pl.DataFrame:
    """Return reports of token supply.

    Parameters
    ----------
    minutes : Minutes
    bits : Bits

    Returns
    -------
    polars.DataFrame, one row per token and whole hour
        The lake's table ``token_supply``.
    """
    import polars as pl

    hours = minutes.start[::60]
    number = np.arange(hours.size)
    bitcoin = {"token_name": "Bitcoin", "coin": "BTC", "max_supply": 21_000_000.0, "cg_marketcap_rank": 1}
    ethereum = {"token_name": "Ethereum", "coin": "ETH", "max_supply": None, "cg_marketcap_rank": 2}
    moved = exp(np.cumsum(bits.normal(hours.size)) * 0.004)
    of_each = (
        (bitcoin, minutes.spot[::60], 19_735_000.0 + np.floor(number * 18.75)),
        (ethereum, np.rint(moved * 245_000.0) / 100.0, 120_200_000.0 + number * 60.0),
    )
    reports = pl.concat(
        pl.DataFrame(
            {"timestamp": hours, "usd_price": price, "circulating_supply": supply, "total_supply": supply}
        ).with_columns(**{name: pl.lit(value) for name, value in token.items()})
        for token, price, supply in of_each
    )
    price = pl.col("usd_price")
    return reports.with_columns(
        marketcap=price * pl.col("circulating_supply"), fully_diluted_valuation=price * pl.col("max_supply")
    )
