"""Liquidations of a perpetual: trades that a fast move of the price forced."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidytape.demo._hidden import TAIL
from tidytape.demo._market import COINS
from tidytape.demo._noise import generator
from tidytape.demo._quotes import Quoted
from tidytape.times import SECOND

_LOOK_BACK = 300  # time over which a move is measured [s]
_CALM = 0.0075  # a move up to this share of the annual volatility liquidates hardly any position


def liquidations(quoted: Quoted, tape: pl.DataFrame) -> pl.DataFrame:
    """Return liquidations, drawn from the trades in the direction of a move; the faster the move, the more trades.

    Parameters
    ----------
    quoted : Quoted
        The market on one day.
    tape : polars.DataFrame
        The market's trades of that day.

    Returns
    -------
    polars.DataFrame, one row per liquidation
        The lake's table ``liquidations``. A long is liquidated by an aggressive sell.
    """
    market, hidden = quoted.market, quoted.hidden
    second = TAIL + ((tape["timestamp"].to_numpy() - hidden.start) // SECOND)
    move = np.log(quoted.mid[second] / quoted.mid[second - _LOOK_BACK])
    move_along = np.where((tape["side"] == "BUY").to_numpy(), move, -move)  # in the direction of the trade
    calm = _CALM * COINS[market.coin].volatility
    chance = 0.002 + np.clip((move_along - calm) / (2.3 * calm), 0.0, 0.75)
    draws = generator(hidden.seed, hidden.number, f"liquidations {market.name}")
    is_liquidation = (draws.random(tape.height) < chance) & (move_along > -calm)
    position_side = pl.when(pl.col("side") == "SELL").then(pl.lit("BUY")).otherwise(pl.lit("SELL"))
    return tape.filter(pl.Series(is_liquidation)).select(
        "exchange",
        "raw_symbol",
        pl.concat_str(pl.lit("L"), "id").alias("id"),
        "timestamp",
        "sequence",
        position_side.alias("side"),
        "price",
        "amount",
        "quote_amount",
    )
