"""Fetches the data that a report shows, and records the answers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from tidytape.catalogue import Interval
from tidytape.client import Client
from tidytape.errors import EmptyAnswerWarning, QueryError
from tidytape.query._values import TimeLike, epoch_seconds, written_time
from tidytape.report._options import USUAL_DELTA
from tidytape.times import interval_of

_MOST_CANDLES = 600  # of a market: a picture shows no more
_MOST_COLUMNS = 300  # of a heatmap
DAYS = 3
"""Length of the window by default. [d]"""
_HOUR = 3_600  # [s]
_CANDLE = "TRADE_SIDE_AGNOSTIC_AGG"


def record(
    client: Client[Any],
    tape: str | os.PathLike[str],
    /,
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    exchange: str | Sequence[str] | None = None,
    coin: str | Sequence[str] | None = None,
    interval: str | None = None,
    overwrite: bool = False,
    about: Mapping[str, Any] | None = None,
    step: Callable[[str], object] = lambda name: None,
) -> Path:
    """Fetch the data that a report shows, and record the answers on a tape.

    Parameters
    ----------
    client : Client
        A client of a service, of a lake, or of the demo. Only a client of a lake has option chains.
    tape : path
        The folder of the tape.
    start, end : time, optional
        The window; ``start`` is inclusive, ``end`` exclusive. By default the last three days of the candles that the
        client has, or all of them if they span less.
    exchange, coin : str or list of str, optional
        Only markets of these exchanges or coins; by default all that the client lists. Profiles, books and options are
        of one coin: the first of ``coin``, or the coin with the most data types.
    interval : str, optional
        Interval of the candles; by default the shortest that the service has and that gives at most 600 candles.
    overwrite : bool
        Whether to replace an existing tape.
    about : mapping, optional
        Facts of the study for the manifest, such as ``{"seed": 7}``.
    step : callable, optional
        Called with the name of each step before it begins, e.g. to show progress.

    Returns
    -------
    pathlib.Path
        The tape.

    Raises
    ------
    QueryError
        If an argument is not as listed, or no market of these exchanges and coins has candles in the window.
    TidytapeError
        As for the methods of the client.
    """
    exchanges, coins = _many(exchange), _many(coin)
    with client.record(tape, overwrite=overwrite, about=about), warnings.catch_warnings():
        # Do not warn of empty answers, such as a market without liquidations: the report says which data it lacks.
        warnings.simplefilter("ignore", EmptyAnswerWarning)
        described_types = _described_types(client, exchanges, coins)
        window = _window(described_types, start, end)
        queries = _Queries(client, described_types, window, coins, step)
        queries.run(*([interval] if interval else _from_shortest(window, _MOST_CANDLES)))
    return Path(tape)


def _many(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or [])


def _described_types(client: Client[Any], exchanges: list[str], coins: list[str]) -> pl.DataFrame:
    """Return the data types of the markets of these exchanges and coins; raise QueryError if none has candles."""
    described_types = pl.DataFrame(client.describe(exchange=exchanges or None, coin=coins or None))
    if described_types.filter(type=_CANDLE).is_empty():
        expected = "an exchange and a coin that have candles"
        raise QueryError(
            "exchange" if exchanges else "coin", got=exchanges or coins or None, expected=expected
        )
    return described_types


def _window(described_types: pl.DataFrame, start: TimeLike | None, end: TimeLike | None) -> tuple[int, int]:
    """Return the window. [s since the epoch]"""
    if end is None:
        last = described_types.filter(type=_CANDLE)["last_timestamp"].max()
        if not isinstance(last, datetime):
            raise QueryError("end", got=None, expected="a time, for the service does not say what it holds")
        # End the window at a full hour, so that it has a whole number of intervals.
        until = (int(last.timestamp()) // _HOUR + 1) * _HOUR
    else:
        until = epoch_seconds(end, "end")
    since = until - DAYS * 86_400 if start is None else epoch_seconds(start, "start")
    first = described_types.filter(type=_CANDLE)["first_timestamp"].min()
    if start is None and isinstance(first, datetime) and first.timestamp() < until:
        since = max(since, int(first.timestamp()) // _HOUR * _HOUR)
    if since >= until:
        raise QueryError("end", got=written_time(until), expected=f"a time after {written_time(since)}")
    return since, until


def _from_shortest(window: tuple[int, int], most: int) -> list[str]:
    """Return the intervals that cut a window into at most ``most`` parts, the shortest first; else only a week."""
    seconds = window[1] - window[0]
    intervals = [interval for interval in Interval if seconds <= most * interval.seconds] or [Interval.WEEK]
    return [interval.alias for interval in sorted(intervals, key=lambda interval: interval.seconds)]


class _Queries:
    """Sends the queries of a report, in the order of its sections."""

    def __init__(
        self,
        client: Client[Any],
        described_types: pl.DataFrame,
        window: tuple[int, int],
        coins: list[str],
        step: Callable[[str], object],
    ) -> None:
        self._client, self._described_types, self._coins, self._step = client, described_types, coins, step
        self._start, self._end = window

    def run(self, *intervals: str) -> None:
        """Send all queries; other series get the first of the intervals that the service accepts for candles."""
        client, window = self._client, (self._start, self._end)
        self._step("fetch candles")
        candles, interval = self._first_points(_CANDLE, client.candles, intervals)
        hours = max(interval, "1h", key=lambda alias: interval_of(alias).seconds)
        if candles.is_empty():
            times = f"{written_time(self._start)} to {written_time(self._end)}"
            raise QueryError("start", got=times, expected="a window in which a market has candles")
        coin = self._coins[0] if self._coins else _main_coin(self._described_types, candles)
        self._step("fetch buys and sells")
        self._points("TRADE_AGG", client.candles, interval=interval, by_side=True)
        self._step("fetch profiles")
        self._points("VOLUME_PROFILE_AGG", client.volume_profile, coin=coin, interval="1d")
        self._points("TPO_AGG", client.tpo, coin=coin, interval="1d", session="daily")
        self._step("fetch open interest and funding")
        self._points("OPEN_INTEREST_AGG", client.open_interest, interval=interval)
        self._points("FUNDING_RATE_AGG", client.funding, interval=hours)
        self._step("fetch liquidations")
        self._points("LIQUIDATION_AGG", client.liquidations, interval=interval)
        columns = _from_shortest(window, _MOST_COLUMNS)[0]
        self._points("VENUEX_LIQUIDATION_AGG", client.liquidation_heatmap, coin=coin, interval=columns)
        self._step("fetch order books")
        self._points("BLOCK_BOOK_SNAPSHOT_AGG", client.book_heatmap, coin=coin, interval=columns)
        self._step("fetch options")
        self._summaries("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", client.implied_volatility, coin, hours)
        self._summaries("SKEW_OPTION_SUMMARY_AGG", client.skew, coin, hours)
        if self._has("option_quotes", coin):
            # Quotes come every hour or more often, and the report shows only the newest chain.
            client.events(
                "option_quotes", coin=coin, start=max(self._start, self._end - _HOUR), end=self._end
            )

    def _first_points(
        self, data_type: str, method: Callable[..., Any], intervals: Sequence[str]
    ) -> tuple[pl.DataFrame, str]:
        """Return the points at the first interval that the service does not refuse, and that interval."""
        for interval in intervals[:-1]:
            try:
                return self._points(data_type, method, interval=interval), interval
            except QueryError as error:
                if error.code != "INVALID_INTERVAL":
                    raise
        return self._points(data_type, method, interval=intervals[-1]), intervals[-1]

    def _points(
        self, data_type: str, method: Callable[..., Any], *, coin: str | None = None, **options: Any
    ) -> pl.DataFrame:
        """Fetch the points of every market that has the data type."""
        markets = self._described_types.filter(type=data_type).drop_nulls("coin")
        if coin is not None:
            markets = markets.filter(coin=coin)
        if markets.is_empty():
            return markets
        names = {
            name: markets[name].cast(pl.String).unique().sort().to_list() for name in ("exchange", "coin")
        }
        return pl.DataFrame(method(**names, start=self._start, end=self._end, **options))

    def _summaries(self, data_type: str, method: Callable[..., Any], coin: str, interval: str) -> None:
        """Fetch option summaries: each query takes one market and one tenor."""
        markets = pl.DataFrame(self._client.markets(type=data_type, coin=coin)).filter(
            pl.col("exchange").is_in(self._described_types["exchange"].unique().implode())
        )
        # Fetch only the skews of the usual delta, or all skews of an exchange that has none of this delta.
        is_usual = pl.col("raw_symbol").cast(pl.String).str.ends_with(USUAL_DELTA)
        markets = markets.filter(is_usual | ~is_usual.any().over("exchange"))
        for exchange, symbol, tenor in (
            markets.select("exchange", "raw_symbol", "tenor").sort(pl.all()).iter_rows()
        ):
            method(
                exchange=exchange, coin=coin, raw_symbol=symbol, tenor=tenor, interval=interval,
                start=self._start, end=self._end,
            )  # fmt: skip

    def _has(self, table: str, coin: str) -> bool:
        """Return whether the client can fetch events of a table and a coin."""
        has_table = pl.col("tables").str.contains(table, literal=True)
        return self._client.has_lake and not self._described_types.filter(has_table, coin=coin).is_empty()


def _main_coin(described_types: pl.DataFrame, candles: pl.DataFrame) -> str:
    """Return the coin with the most data types; among equals the coin with the largest turnover."""
    types = described_types.group_by("coin").agg(pl.col("type").n_unique())
    turnovers = candles.group_by(pl.col("coin").cast(pl.String), maintain_order=True).agg(
        turnover=(pl.col("volume") * pl.col("close")).sum()
    )
    coins = turnovers.join(types.with_columns(pl.col("coin").cast(pl.String)), on="coin", how="left")
    return str(
        coins.sort("type", "turnover", "coin", descending=[True, True, False], nulls_last=True)["coin"][0]
    )
