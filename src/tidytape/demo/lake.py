"""The demo's lake: every kind of data the service has, all of it following the trades of `tidytape.demo.market`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidytape.demo import book, derivatives, market, options, outcomes, tokens
from tidytape.demo.exact import Bits
from tidytape.demo.minutes import minutes_of

if TYPE_CHECKING:
    import polars as pl

__all__ = ["fill", "tables"]

_FIRST_STREAM = 100  # of random bits; those before it are the trades'


def tables(*, seed: int = 7) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the events of the demo, table by table.

    Parameters
    ----------
    seed : int
        Another seed, another market.

    Yields
    ------
    table : str
        One of `tidytape.lake.TABLES`.
    rows : polars.DataFrame
    """
    import polars as pl

    tape = market.trades(seed=seed)
    minutes = minutes_of(tape)
    open_interest, books, chain, supply, futures, outcome = (
        Bits(seed, _FIRST_STREAM + number) for number in range(6)
    )
    yield "trades", pl.concat([tape, outcomes.trades(minutes, outcome)], how="diagonal")
    yield "book", book.books(minutes, books)
    yield "open_interest", derivatives.open_interest(minutes, open_interest)
    yield "funding", derivatives.funding(minutes)
    yield "liquidations", derivatives.liquidations(minutes, tape)
    yield "cme_open_interest", derivatives.futures(minutes, futures)
    yield "option_quotes", options.chain(minutes, chain)
    yield "token_supply", tokens.tokens(minutes, supply)


def fill(path: str | Path, *, seed: int = 7) -> None:
    """Fill a lake with the demo's market. Filling it again changes nothing.

    Parameters
    ----------
    path : path
        The lake; made if it is not there.
    seed : int
        Another seed, another market.
    """
    import polars as pl

    from tidytape.lake import Lake
    from tidytape.lake.predictions import instruments

    lake = Lake.create(path)
    lake.register_prediction_markets(outcomes.prediction_market())
    of_outcomes = instruments(lake.prediction_markets(), quote_coin="USDC", quote_coin_name="USD Coin")
    known = [market.markets(), pl.DataFrame([derivatives.FUTURE]), of_outcomes]
    lake.register(pl.concat(known, how="diagonal_relaxed"))
    for table, rows in tables(seed=seed):
        lake.append(table, rows, source=f"demo:{seed}")
