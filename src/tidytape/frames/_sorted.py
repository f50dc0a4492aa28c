"""Frames of polars in memory: sort only those that are not sorted yet, and find the last fact known at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import numpy as np

from tidytape.frames._joined import joined

if TYPE_CHECKING:
    import polars as pl


def is_new(frame: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Return for each row whether one of the keys differs from that of the row before; null equals null.

    Examples
    --------
    >>> import polars as pl
    >>> is_new(pl.DataFrame({"coin": ["BTC", "BTC", None, None]}), ["coin"]).to_list()
    [True, False, True, False]
    """
    import polars as pl

    is_first = pl.int_range(pl.len()) == 0
    changes = [pl.col(name).ne_missing(pl.col(name).shift()) for name in keys]
    return frame.select(pl.any_horizontal(is_first, *changes)).to_series()


def in_order(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return a frame sorted by columns, null first; the frame itself, without a sort, if it is sorted already."""
    keys = list(columns)
    while keys and (frame.schema[keys[-1]].is_numeric() or frame.schema[keys[-1]].is_temporal()):
        keys.pop()
    begins = is_new(frame, keys)
    if keys:
        # Texts are slow to compare, so only the first row of each run of equal texts is.
        heads = frame.select(keys).filter(begins)
        if 2 * len(heads) > len(frame) or not heads.equals(heads.sort(keys)):
            return frame.sort(columns)
    is_same = ~begins
    for name in columns[len(keys) :]:
        number, before = frame[name], frame[name].shift()
        falls = number < before
        if number.null_count():
            falls |= number.is_null() & before.is_not_null()
        if (falls & is_same).any():
            return frame.sort(columns)
        is_same = is_same if name == columns[-1] else is_same & number.eq_missing(before)
    return frame


def last_values(
    decisions: pl.DataFrame,
    facts: pl.DataFrame,
    column: str,
    *,
    by: Sequence[str],
    at: str,
    when: str,
    limit: int,
) -> pl.Series:
    """Return for each decision a column of the last fact that was known at its time; null if none was.

    Parameters
    ----------
    decisions : polars DataFrame, n rows
        Sorted by ``by`` and ``at``, an int64. [ns]
    facts : polars DataFrame, m rows, key (by, when)
        Sorted by ``by`` and ``when``, an int64 without null. [ns]
    column : str
        The column of the facts.
    by : sequence of str
        Columns of both that must be equal; null equals null.
    limit : int
        The longest time between the two. [ns]

    Examples
    --------
    >>> import polars as pl
    >>> decisions = pl.DataFrame({"coin": [None, None, "BTC"], "at": [2, 9, 5]})
    >>> facts = pl.DataFrame({"coin": [None, None], "when": [3, 4], "rate": [0.1, 0.2]})
    >>> last_values(decisions, facts, "rate", by=["coin"], at="at", when="when", limit=10).to_list()
    [None, 0.2, None]
    """
    decision_runs, decision_keys = _runs(decisions, by)
    fact_runs, fact_keys = _runs(facts, by)
    # Keys are compared once per run; rows are compared by the number of their run.
    runs = joined(fact_keys, decision_keys.rename({"__run": "__of"}), on=["__all", *by]).sort("__run")
    numbers = runs["__of"].to_native().gather(fact_runs)
    times = decisions.select(__at=at).with_columns(__run=decision_runs)
    last = facts.select(column, __at=when).with_columns(__run=numbers)
    return times.join_asof(last, on="__at", by="__run", tolerance=limit, check_sortedness=False)[column]


def with_facts(
    decisions: pl.DataFrame,
    facts: pl.DataFrame,
    is_taken: pl.Series,
    names: Mapping[str, str],
    *,
    by: Sequence[str],
    at: str,
    when: str,
    limit: int,
) -> tuple[pl.DataFrame, bool]:
    """Return decisions with columns of their last facts, and whether any decision has one.

    ``names`` has the new name of each column of the facts. A fact that is not taken keeps its place, so that no earlier
    fact takes it. Both frames are sorted as for `last_values`.
    """
    import polars as pl

    numbered = facts.select(*by, when, __number=pl.when(is_taken).then(pl.int_range(pl.len())))
    last = numbered.filter(is_new(numbered, [*by, when]).shift(-1, fill_value=True))
    numbers = last_values(decisions, last, "__number", by=by, at=at, when=when, limit=limit)
    columns = facts.select(pl.col(name).gather(numbers).alias(new) for name, new in names.items())
    return decisions.with_columns(columns.get_columns()), numbers.null_count() < len(numbers)


def _runs(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[pl.Series, nw.DataFrame[pl.DataFrame]]:
    """Return the number of each row's run of equal keys, and the keys of each run."""
    import polars as pl

    begins = is_new(frame, keys)
    starts = begins.arg_true().to_numpy()
    numbers = np.arange(len(starts))
    runs = pl.Series(np.repeat(numbers, np.diff(starts, append=len(frame))))
    heads = frame.select(*keys, __run=runs).filter(begins).with_columns(__all=0)
    return runs, nw.from_native(heads)
