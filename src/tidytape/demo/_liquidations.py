"""Liquidations of a perpetual: trades that a fast move forced."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidytape.demo._hidden import TAIL
from tidytape.demo._market import COINS
from tidytape.demo._noise import generator
from tidytape.demo._quotes import Quoted
from tidytape.times import SECOND

_RUN = 300  # time over which a move is measured [s]
_CALM = 0.0075  # a move of this share of the annual volatility liquidates hardly any position


def liquidations(quoted: Quoted, tape: pl.DataFrame) -> pl.DataFrame:
    """Return liquidations: trades in the direction of a fast move; the faster the move, the more of its trades.

    Parameters
    ----------
    quoted : Quoted
        The market on one day.
    tape : polars.DataFrame
        Its trades.

    Returns
    -------
    polars.DataFrame, one row per liquidation
        The lake's table ``liquidations``. A long is liquidated by an aggressive sell.
    """
    market, hidden = quoted.market, quoted.hidden
    second = TAIL + ((tape["timestamp"].to_numpy() - hidden.start) // SECOND)
    run = np.log(quoted.middle[second] / quoted.middle[second - _RUN])
    along = np.where((tape["side"] == "BUY").to_numpy(), run, -run)
    calm = _CALM * COINS[market.coin].volatility
    chance = 0.002 + np.clip((along - calm) / (2.3 * calm), 0.0, 0.75)
    draws = generator(hidden.seed, hidden.number, f"liquidations {market.name}")
    hit = (draws.random(tape.height) < chance) & (along > -calm)
    side = pl.when(pl.col("side") == "SELL").then(pl.lit("BUY")).otherwise(pl.lit("SELL"))
    return tape.filter(pl.Series(hit)).select(
        "exchange",
        "raw_symbol",
        pl.concat_str(pl.lit("L"), "id").alias("id"),
        "timestamp",
        "sequence",
        side.alias("side"),
        "price",
        "amount",
        "quote_amount",
    )
