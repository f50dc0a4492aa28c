"""What the demo's perpetual and a regulated future report beside trades: open interest, funding, liquidations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidytape.demo.exact import Bits
from tidytape.demo.minutes import Minutes
from tidytape.times import MINUTE

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FUTURE", "funding", "futures", "liquidations", "open_interest"]

_PERPETUAL = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP"}

FUTURE = {
    "exchange": "DEMO_CME", "raw_symbol": "BTCQ4", "normalized_symbol": "BTC-USD", "coin": "BTC", "quote_coin": "USD",
    "category": "FUTURE", "tick_size": 5.0, "block_size": 10.0, "coin_name": "Bitcoin",
}  # fmt: skip
"""The regulated future, as a market."""

_SETTLED_EVERY = 480  # [min]
_FIRST_RATE = 0.0001  # [1 per 8 h]


def open_interest(minutes: Minutes, bits: Bits) -> pl.DataFrame:
    """Return reports of the perpetual's open interest, one at the end of each minute.

    Parameters
    ----------
    minutes : Minutes
    bits : Bits

    Returns
    -------
    polars.DataFrame, one row per minute
        The lake's table ``open_interest``.
    """
    import polars as pl

    opened = np.rint(bits.normal(len(minutes)) * 4_000.0).astype(np.int64)
    amount = (18_500_000 + np.cumsum(opened)) / 1_000
    return pl.DataFrame(
        {"timestamp": minutes.end - 1_000_000, "amount": amount, "quote_amount": amount * minutes.perpetual}
    ).with_columns(**_named(_PERPETUAL))


def funding(minutes: Minutes) -> pl.DataFrame:
    """Return reports of the perpetual's funding rate, one at the end of each minute.

    The rate is the mean premium of the perpetual over the spot price in the eight hours before; the predicted one, that
    since then.

    Parameters
    ----------
    minutes : Minutes

    Returns
    -------
    polars.DataFrame, one row per minute
        The lake's table ``funding``.
    """
    import polars as pl

    count = len(minutes)
    period = np.arange(count) // _SETTLED_EVERY
    since = period * _SETTLED_EVERY
    total = np.concatenate([np.zeros(1), np.cumsum(minutes.perpetual / minutes.spot - 1.0)])
    predicted = (total[1:] - total[since]) / (np.arange(count) - since + 1.0)
    settled = np.concatenate([[_FIRST_RATE], predicted[_SETTLED_EVERY - 1 :: _SETTLED_EVERY]])
    return pl.DataFrame(
        {
            "timestamp": minutes.end - 1_000_000,
            "rate": settled[period],
            "predicted_rate": predicted,
            "funding_interval": _SETTLED_EVERY * MINUTE,
            "next_funding": minutes.start[0] + (period + 1) * _SETTLED_EVERY * MINUTE,
        }
    ).with_columns(**_named(_PERPETUAL))


def liquidations(minutes: Minutes, tape: pl.DataFrame) -> pl.DataFrame:
    """Return liquidations: the larger trades of the perpetual that went with a price that ran.

    Parameters
    ----------
    minutes : Minutes
    tape : polars.DataFrame
        The trades the minutes are of.

    Returns
    -------
    polars.DataFrame, one row per liquidation
        The lake's table ``liquidations``. A long is liquidated by an aggressive sell.
    """
    import polars as pl

    price = minutes.perpetual
    ran = np.zeros(len(minutes))
    ran[5:] = price[5:] / price[:-5] - 1.0
    moves = pl.DataFrame({"start": minutes.start, "ran": ran}).filter(pl.col("ran").abs() > 0.002)
    sells = pl.col("side") == "SELL"
    return (
        tape.filter(pl.col("exchange") == _PERPETUAL["exchange"], pl.col("amount") > 0.1)
        .join(
            moves,
            left_on=pl.col("timestamp") // MINUTE * MINUTE,
            right_on="start",
            maintain_order="left",
        )
        .filter(sells == (pl.col("ran") < 0))
        .select(
            "exchange",
            "raw_symbol",
            pl.concat_str(pl.lit("L"), "id").alias("id"),
            "timestamp",
            "sequence",
            pl.when(sells).then(pl.lit("BUY")).otherwise(pl.lit("SELL")).alias("side"),
            "price",
            "amount",
            "quote_amount",
        )
    )


def futures(minutes: Minutes, bits: Bits) -> pl.DataFrame:
    """Return reports of the regulated future's open interest, one per hour.

    Parameters
    ----------
    minutes : Minutes
    bits : Bits

    Returns
    -------
    polars.DataFrame, one row per whole hour
        The lake's table ``cme_open_interest``.
    """
    import polars as pl

    hours = minutes.start[::60]
    price = np.rint(minutes.spot[::60] * 1.004 / 5.0) * 5.0
    contracts = 27_000 + np.cumsum(np.rint(bits.normal(hours.size) * 60.0).astype(np.int64))
    amount = contracts * 5.0  # coins
    return pl.DataFrame(
        {"timestamp": hours, "amount": amount, "usd_amount": amount * price, "price": price}
    ).with_columns(**_named(FUTURE))


def _named(market: Mapping[str, object]) -> dict[str, pl.Expr]:
    import polars as pl

    return {name: pl.lit(market[name]) for name in ("exchange", "raw_symbol")}
