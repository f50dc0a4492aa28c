"""The demo's lake: events for every data type of the service, simulated day by day from one hidden market."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import polars as pl

from tidytape.demo._book import Books
from tidytape.demo._funding import FundingRates
from tidytape.demo._futures import Futures
from tidytape.demo._hidden import Hidden, hidden_days
from tidytape.demo._liquidations import liquidations
from tidytape.demo._market import MARKETS, DemoMarket, markets
from tidytape.demo._open_interest import Interest
from tidytape.demo._options import CHAINS, Chain
from tidytape.demo._outcomes import Outcomes, prediction_market
from tidytape.demo._quotes import Quotes
from tidytape.demo._tokens import tokens
from tidytape.demo._trades import DemoTrades
from tidytape.errors import QueryError

DAYS = 3
"""Length of the market by default. [d]"""


class _Simulated:
    """Simulates all events of one market, day by day."""

    def __init__(self, market: DemoMarket, seed: int) -> None:
        self._quotes, self._trades = Quotes(market, seed), DemoTrades(market, seed)
        self._books = Books(market, seed) if market.book else None
        self._interest = Interest(market, seed) if market.open_interest else None
        self._funding = FundingRates(market, market.funding, seed) if market.funding else None

    def day(self, hidden: Hidden) -> dict[str, pl.DataFrame]:
        """Return the rows of the next day by table of the lake."""
        quoted = self._quotes.day(hidden)
        rows = {"trades": self._trades.day(quoted)}
        if self._books:
            rows["book"] = self._books.day(quoted)
        if self._funding:
            rows["funding"] = self._funding.day(quoted)
        if self._interest:
            rows["liquidations"] = liquidations(quoted, rows["trades"])
            rows["open_interest"] = self._interest.day(quoted, rows["trades"], rows["liquidations"])
        return rows


def tables(*, days: int = DAYS, seed: int = 7) -> Iterator[tuple[int, str, pl.DataFrame]]:
    """Yield the events of the demo, day by day and table by table.

    Parameters
    ----------
    days : int, >= 1
        Length of the market. A longer market begins with the rows of a shorter one.
    seed : int, >= 0
        Another seed gives another market.

    Yields
    ------
    day : int
        Days since the market began.
    table : str
        One of `tidytape.lake.TABLES`.
    rows : polars.DataFrame

    Raises
    ------
    QueryError
        If an argument is out of its range.
    """
    for day, rows, _ in _simulated(days, seed):
        for table, frame in rows.items():
            yield day, table, frame


def _simulated(days: int, seed: int) -> Iterator[tuple[int, dict[str, pl.DataFrame], pl.DataFrame]]:
    """Yield the number of each day, its rows by table, and its future as a row of the table ``markets``."""
    _at_least(1, "days", days)
    _at_least(0, "seed", seed)
    simulated = [_Simulated(market, seed) for market in MARKETS]
    outcomes, futures = Outcomes(seed), Futures(seed)
    chains = [Chain(terms, seed) for terms in CHAINS]
    for hidden in islice(hidden_days(seed), days):
        parts: dict[str, list[pl.DataFrame]] = {}
        for market in simulated:
            for table, rows in market.day(hidden).items():
                parts.setdefault(table, []).append(rows)
        parts["trades"].append(outcomes.day(hidden))
        future, open_interest = futures.day(hidden)
        parts["cme_open_interest"] = [open_interest]
        parts["option_quotes"] = [chain.day(hidden) for chain in chains]
        parts["token_supply"] = [tokens(hidden)]
        joined = {table: pl.concat(rows, how="diagonal") for table, rows in parts.items()}
        yield hidden.number, joined, pl.DataFrame([future])


def fill(
    path: str | Path,
    *,
    days: int = DAYS,
    seed: int = 7,
    progress: Callable[[int, int], object] | None = None,
) -> None:
    """Fill a lake with the demo's simulated market. Filling the same lake again changes nothing.

    The market begins on 2024-08-07 at 00:00 UTC. Each day is written before the next one is simulated, so the memory
    that this takes does not grow with the number of days.

    Parameters
    ----------
    path : path
        The lake; created if it does not exist.
    days : int, >= 1
        Length of the market. A longer market begins with the rows of a shorter one, so a lake can be filled further.
    seed : int, >= 0
        Another seed gives another market. The same seed gives the same bytes on one machine; on another machine values
        differ by at most 1e-12.
    progress : callable, optional
        Called after each day with the number of days written so far, and the number of all days.

    Raises
    ------
    QueryError
        If an argument is out of its range.
    LakeError
        If the lake cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake import Lake
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fill(folder, days=1)
    ...     len(Lake(folder).markets())
    17
    """
    from tidytape.lake import Lake
    from tidytape.lake._predictions import outcome_markets

    _at_least(1, "days", days)
    _at_least(0, "seed", seed)
    lake = Lake.create(path)
    writer = lake.writer()
    writer.register_prediction_markets(prediction_market())
    outcomes = outcome_markets(lake.prediction_markets(), quote_coin="USDC", quote_coin_name="USD Coin")
    for day, rows, future in _simulated(days, seed):
        writer.register(pl.concat([markets(), outcomes, future], how="diagonal_relaxed"))
        for table, frame in rows.items():
            writer.append(table, frame, source=f"demo:{seed}:{day}")
        if progress is not None:
            progress(day + 1, days)


def _at_least(least: int, parameter: str, argument: object) -> None:
    if isinstance(argument, bool) or not isinstance(argument, int) or argument < least:
        raise QueryError(parameter, got=argument, expected=f"a whole number, at least {least}")
