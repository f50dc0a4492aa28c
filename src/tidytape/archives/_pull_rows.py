"""Kinds of data that `tidytape.pull` knows: how ccxt is asked for them, and where their rows should be in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tidytape.lake._tables import FUNDING, OPEN_INTEREST, RECORDED_CANDLES, TRADES, Table
from tidytape.times import HOUR, MINUTE, Span

Row = dict[str, Any]
"""A row by our columns, with its time in milliseconds."""

USUAL_FUNDING = 8 * HOUR
"""Funding interval where the rows do not show one. [ns]"""


_EARLIEST, _LATEST = 10**11, 9 * 10**12
"""Least and most milliseconds of a time, in the years 1973 and 2255: times in other units are outside. [ms]"""


def milliseconds(time: Any) -> int:
    """Return a time that ccxt gives; ValueError if it is no whole number of milliseconds."""
    if isinstance(time, int) and _EARLIEST <= time < _LATEST:
        return int(time)
    raise ValueError(f"{time!r} is no time in milliseconds")


def _word(word: Any) -> str | None:
    """Return a text or a whole number as text, None if it is empty; TypeError if it is something else."""
    if isinstance(word, bool) or not isinstance(word, str | int):
        raise TypeError(f"{word!r} is no text")
    str(word).encode()  # raises if it has half of a surrogate pair
    return str(word) or None


def _number(number: Any) -> float:
    """Return a number, which some exchanges write as text; TypeError or ValueError if it is none."""
    if isinstance(number, bool):
        raise TypeError(f"{number!r} is no number")
    return float(number)


_READERS = {"timestamp": milliseconds, "id": _word, "side": _word}
"""How cells of a column are read, if not as numbers."""


@dataclass(frozen=True)
class Kind:
    """A kind of data.

    Attributes
    ----------
    table : Table
        The table of the lake.
    feature, method : str
        What ccxt calls it among the features of an exchange, and its method.
    columns : mapping of str to str or int
        Where an object of ccxt has each of our columns. A row that is not a trade has at least the first two.
    """

    table: Table
    feature: str
    method: str
    columns: Mapping[str, Any]

    @property
    def has_interval(self) -> bool:
        """Whether the rows are of an interval, which ccxt is asked for."""
        return self.table in (RECORDED_CANDLES, OPEN_INTEREST)

    def rows(self, answer: Any) -> list[Row]:
        """Return the rows of an answer, in the order of time.

        Rows without a time, or without a close, a rate or an amount, are left out. Trades are not, because no hole
        would show that they are missing; the first ones have no time.

        Raises
        ------
        ArithmeticError, LookupError, TypeError or ValueError
            If something is of another form than ccxt's.
        """
        rows = [
            {column: self._cell(column, entry[place]) for column, place in self.columns.items()}
            for entry in answer or ()
            if entry
        ]
        time, figure = list(self.columns)[:2]
        if self.table is not TRADES:
            rows = [row for row in rows if None not in {row[time], row[figure]}]
        return sorted(rows, key=lambda row: row[time] or 0)

    @staticmethod
    def _cell(column: str, cell: Any) -> Any:
        return None if cell is None else _READERS.get(column, _number)(cell)


_PLACES = ("timestamp", "close", "open", "high", "low", "volume")
KINDS: Mapping[str, Kind] = {
    "candles": Kind(
        RECORDED_CANDLES, "fetchOHLCV", "fetch_ohlcv", dict(zip(_PLACES, (0, 4, 1, 2, 3, 5), strict=True))
    ),
    "funding": Kind(
        FUNDING,
        "fetchFundingRateHistory",
        "fetch_funding_rate_history",
        {"timestamp": "timestamp", "rate": "fundingRate"},
    ),
    "open_interest": Kind(
        OPEN_INTEREST,
        "fetchOpenInterestHistory",
        "fetch_open_interest_history",
        {"timestamp": "timestamp", "amount": "openInterestAmount"},
    ),
    "trades": Kind(
        TRADES,
        "fetchTrades",
        "fetch_trades",
        {name: name for name in ("timestamp", "id", "side", "price", "amount")},
    ),
}
"""The kinds of data by their names in arguments and results, which are those of their tables."""


def funding_intervals(times: pl.Series) -> pl.Series:
    """Return the time since the settlement before, from which longer steps than both neighbours are taken for holes.

    The first settlement has the interval of the second one. An interval is null as long as only the next settlement
    can show whether it is a hole.

    Examples
    --------
    >>> hours = pl.Series([0, 8, 16, 32, 40, 44, 48]) * HOUR
    >>> (funding_intervals(hours) // HOUR).to_list()
    [8, 8, 8, 8, 8, 4, 4]
    >>> funding_intervals(hours[:2]).to_list()
    [None, None]
    """
    step = (times.diff() + MINUTE // 2) // MINUTE * MINUTE
    frame = pl.DataFrame({"step": step, "before": step.shift(1), "later": step.shift(-1)})
    is_regular = pl.col("step") <= pl.max_horizontal("before", "later")
    interval = pl.when(is_regular).then("step").when(pl.col("step").is_not_null()).then("later")
    of_first = pl.when(pl.int_range(pl.len()) == 0).then(interval.shift(-1))
    return frame.select(interval=pl.coalesce(interval, of_first)).to_series()


def holes(times: pl.Series, steps: pl.Series, start: int, end: int, *, usual: int) -> list[Span]:
    """Return the spans of a window in which rows are missing; a row may be up to a minute late.

    Parameters
    ----------
    times : polars.Series of int64, n rows, sorted
        Times of the rows. [ns]
    steps : polars.Series of int64, n rows
        Time since the row that should be before each of them. [ns]
    start, end : int
        The window. [ns]
    usual : int
        The step where there is none. [ns]

    Examples
    --------
    >>> holes(pl.Series([1, 2, 5]), pl.Series([1, 1, 1]), 0, 8, usual=1)
    [(0, 1), (3, 5), (6, 8)]
    """
    if times.is_empty():
        return [(start, end)] if end - start >= usual else []
    known_steps = steps.fill_null(strategy="forward").fill_null(usual)
    first, last, first_step, last_step = times[0], times[-1], known_steps[0], known_steps[-1]
    time, before, step = pl.col("time"), pl.col("before"), pl.col("step")
    inner = (
        pl.DataFrame({"time": times, "before": times.shift(1), "step": known_steps})
        .filter(time - before >= 2 * step - pl.min_horizontal(MINUTE, step // 2))
        .select(before + step, time)
        .rows()
    )
    before_first = [(start, first)] if first - start >= first_step else []
    after_last = [(last + last_step, end)] if end - last > last_step + min(MINUTE, last_step // 2) else []
    return [*before_first, *inner, *after_last]
