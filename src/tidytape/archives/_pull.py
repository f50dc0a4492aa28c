"""`pull`: candles, funding, open interest and trades of an exchange's own API, through ccxt, into a lake."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
from tqdm.auto import tqdm

from tidytape.archives._pull_exchange import Source
from tidytape.archives._pull_markets import PulledMarket
from tidytape.archives._pull_rows import KINDS
from tidytape.archives._pull_series import Series
from tidytape.errors import QueryError, did_you_mean
from tidytape.lake._amount_units import CountedUnit
from tidytape.lake._lake import Lake
from tidytape.query import _values as values
from tidytape.times import MILLISECOND, SECOND, FrameInterval, frame_interval

_SHORTEST_INTEREST = FrameInterval(300)
"""Shortest time between reports of open interest that exchanges offer."""

_TIME = pl.Datetime("ns", "UTC")
_SCHEMA = {
    "market": pl.String(),
    "data": pl.String(),
    "rows": pl.Int64(),
    **dict.fromkeys(("first", "last", "gap_from", "gap_to"), _TIME),
    "reason": pl.String(),
}


def pull(
    exchange: Any,
    symbols: str | Iterable[str],
    *,
    lake: Lake | str | Path,
    data: str | Iterable[str] = ("candles",),
    interval: str | timedelta = "1m",
    since: str | timedelta | datetime | date | int = "30d",
    until: str | timedelta | datetime | date | int | None = None,
    amount_unit: str | None = None,
    progress: bool | None = None,
) -> pl.DataFrame:
    """Put market data of an exchange's own API into a lake, through ccxt, which is an extra.

    It only reads public data, and sends no order. A second pull asks only for what is new; an interrupted one keeps
    what is in the lake, and goes on when it is run again. The interval in progress is left out. Amounts are converted
    to coins by what ccxt says about the market. Requests keep to ccxt's rate limit, and are sent again with longer
    pauses if the exchange does not answer.

    Parameters
    ----------
    exchange : str or ccxt.Exchange
        The name of the exchange in ccxt, e.g. ``"bybit"``, or an object of yours. For a name, a key is used only if the
        environment has one, e.g. ``TIDYTAPE_BYBIT_API_KEY``, ``TIDYTAPE_BYBIT_API_SECRET`` and, where the exchange has
        one, ``TIDYTAPE_BYBIT_API_PASSWORD``. Public data need none.
    symbols : str or iterable of str
        Symbols of ccxt: ``"BTC/USDT"`` is a spot market, ``"BTC/USDT:USDT"`` a linear and ``"BTC/USD:BTC"`` an inverse
        perpetual.
    lake : Lake, str or Path
        The lake that gets the rows; made if there is none.
    data : str or iterable of str
        Any of ``"candles"``, ``"funding"`` (settled rates), ``"open_interest"`` and ``"trades"``.
    interval : str or timedelta
        Length of the candles. Reports of open interest have the same interval, but at least 5 minutes.
    since : str, timedelta, datetime or date
        Start of the window, inclusive: a time, or a duration before now such as ``"30d"``. A time without a zone is
        UTC.
    until : str, timedelta, datetime or date, optional
        End of the window, exclusive, in the same forms; by default, and at most, the time by the exchange's clock.
    amount_unit : {"coin", "quote", "contracts"}, optional
        What amounts of perpetuals and futures count in ccxt's answers, for exchanges of which this is not known.
    progress : bool, optional
        Whether to show a progress bar on the standard error; by default only on a terminal.

    Returns
    -------
    polars.DataFrame, for each market and kind of data one row, and one more row per hole
        ``market``, its exchange and raw symbol in the lake; ``data``; ``rows``, ``first`` and ``last``, the number and
        the times of the rows that the lake has of the window; a hole has 0 rows, ``gap_from``, inclusive, ``gap_to``,
        exclusive, and ``reason``. Data that a market does not have are one row of 0 rows with a ``reason`` and no gap.

    Raises
    ------
    TidytapeError
        If ccxt is not installed.
    QueryError
        If an argument is wrong, the exchange has no such market or data, or nothing says what amounts count.
    RefusedQueryError
        If the exchange refuses a request.
    ServiceError
        If it does not answer, even after a minute.
    DecodeError
        If an answer is of another form than ccxt's, e.g. with a time that is no whole number of milliseconds.
    IngestError
        If rows contradict those of the lake, e.g. trades of another kind.
    LakeError
        If the lake cannot be written.

    Examples
    --------
    >>> pull("bibit", "BTC/USDT", lake="lake")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tidytape.errors.QueryError: exchange: got 'bibit', expected the name of an exchange in ccxt; did you mean 'bybit'?
    """
    names = [data] if isinstance(data, str) else list(data)
    length = frame_interval(interval)
    unit = None if amount_unit is None else values.choice(amount_unit, CountedUnit, "amount_unit")
    source = Source(exchange)
    for name in names:
        _require_offered(source, name, length)
    now = source.now()
    window = _time(since, "since", now), now if until is None else min(_time(until, "until", now), now)
    if window[0] >= window[1]:
        raise QueryError("since", got=since, expected="a time before ``until`` and before now")
    symbols = [symbols] if isinstance(symbols, str) else list(dict.fromkeys(symbols))
    markets = [PulledMarket(source.name, source.market(symbol), unit) for symbol in symbols]
    for market, name in product(markets, names):
        if market.absence(KINDS[name].table) is None:
            market.facts(KINDS[name].table)  # raises if nothing says what the amounts count
    target = lake if isinstance(lake, Lake) else Lake.create(lake)
    results: list[dict[str, Any]] = []
    with tqdm(unit=" rows", unit_scale=True, disable=None if progress is None else not progress) as bar:
        for market, name in product(markets, names):
            bar.set_description(f"{market.listing['symbol']} {name}")
            step = max(length, _SHORTEST_INTEREST, key=lambda interval: interval.seconds)
            own_length = step if name == "open_interest" else length
            results += Series(target, source, market, KINDS[name], own_length, window).pulled(bar)
    numbers = {name: pl.Int64() if dtype.is_temporal() else dtype for name, dtype in _SCHEMA.items()}
    return pl.DataFrame(results, schema=numbers).cast(_SCHEMA)  # type: ignore[arg-type]  # a dict of dtypes


def _time(moment: Any, parameter: str, now: int) -> int:
    """Return a time, or a duration before now, as a time. [ns since the epoch]"""
    if isinstance(moment, timedelta) or (
        isinstance(moment, str) and re.fullmatch(values.DURATION, moment.strip())
    ):
        return now - values.milliseconds(moment, parameter) * MILLISECOND
    return values.epoch_seconds(moment, parameter) * SECOND


def _require_offered(source: Source, name: str, length: FrameInterval) -> None:
    """Raise QueryError if ccxt does not have a kind of data of an exchange, or candles of a length."""
    if name not in KINDS:
        hint = did_you_mean(str(name), KINDS)
        raise QueryError("data", got=name, expected=f"any of {', '.join(KINDS)}", hint=hint)
    if not source.has(KINDS[name].feature):
        offered = ", ".join(other for other, kind in KINDS.items() if source.has(kind.feature))
        raise QueryError("data", got=name, expected=f"what ccxt has of {source.name}: {offered or 'nothing'}")
    intervals = source.exchange.timeframes
    if name == "candles" and intervals and length.alias not in intervals:
        raise QueryError("interval", got=length.alias, expected=f"one of {', '.join(intervals)}")
