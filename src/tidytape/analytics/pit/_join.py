"""The last fact that was known when each decision was made."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from tidytape.analytics._arguments import column, nanoseconds
from tidytape.analytics._series import (
    TWICE,
    is_of_levels,
    of_rows,
    one_engine,
    repeated,
    warn_unless_met,
)
from tidytape.analytics.pit._known import WHEN, known
from tidytape.errors import NoMatchWarning, QueryError
from tidytape.frames.door import require
from tidytape.frames.joined import as_of, joined, matched
from tidytape.frames.table import IDENTITY, Table
from tidytape.frames.times import dated

Frame = nw.LazyFrame[Any]

EVER = 2**61
"""73 years, as good as no limit. [ns]"""

_WORDS = (nw.String, nw.Categorical, nw.Enum)


def asof_join(
    decisions: IntoFrameT,
    facts: IntoFrame,
    /,
    *,
    on: str = "timestamp",
    by: str | Iterable[str] | None = None,
    order: str | None = None,
    tolerance: str | timedelta | None = None,
    suffix: str = "_right",
) -> IntoFrameT:
    """Join each decision with the last fact that was known when it was made: backward, on ``known_at``.

    Of the facts of the same ``by`` with ``known_at`` at or before ``on``, the one with the largest ``known_at``; of
    several, the one with the largest ``timestamp``; of several, the one with the largest ``order``; where that is said
    twice, none. Nothing that becomes known later has any part in it.

    Parameters
    ----------
    decisions : frame, n rows, any order
        Uses ``on`` and ``by``.
    facts : frame of the same engine, m rows, key (by, known_at, timestamp), any order
        Points of any schema. Uses ``by`` and ``known_at``; without that column, what `known_at` says of the frame.
    on : str
        Column of the times of the decisions. A candle's ``timestamp`` is its start: of decisions made when a candle is
        complete, it is the candle's own ``known_at``.
    by : str or iterable of str, optional
        Columns of both that must be equal, null being equal to null. Without it, the columns of the identity that both
        have, but for ``interval``, which says how often there is a row and not what it is. Facts of another market or
        exchange share no such key: join those ``by="coin"``, or by what they share.
    order : str, optional
        Column of the facts that says which of those alike in time is the last: ``"sequence"`` or ``"id"`` of trades.
        Numbers, or whole numbers as text, as venues write ids: without a sign or zeros in front; null is before all.
    tolerance : str or timedelta, >= 0, optional
        How long before the decision the fact may have become known, at most, e.g. ``"8h"``.
    suffix : str
        What is added to names of columns of the facts that the decisions have too.

    Returns
    -------
    frame, n rows, sorted by (by, on), of the kind of ``decisions``
        All columns of the decisions, and those of the facts but for ``by``: null where no fact was known, and where the
        last of them is several rows with all of the key alike.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, the frames are of two engines, a column of ``by`` is of two types, a name would
        be there twice, or the facts have a column that tells several of a time apart and is none of ``by``: ``tenor``,
        ``side`` (of trades, which have an ``id``, it does not), ``strike`` and ``option_type``, or ``price`` of levels.

    Warns
    -----
    NoMatchWarning
        If no decision has the key of a fact, or no fact is alone with its key and times, so that all is null. Only
        frames in memory are looked at.

    Notes
    -----
    Facts and decisions are put below each other, and the number of the last fact is carried forward, so that one
    definition serves engines with and without such a join of their own. Facts with all of the key alike have no order,
    so that none of them is taken, lest the answer be that of the order of the rows: say one with ``order``.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> hours = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (0, 1, 2)]
    >>> funding = pl.DataFrame({"timestamp": hours, "interval": "HOUR", "rate_close": [1e-4, 2e-4, 3e-4]})
    >>> asof_join(pl.DataFrame({"timestamp": hours}), funding)["rate_close"].to_list()
    [None, 0.0001, 0.0002]
    """
    limit = EVER if tolerance is None else nanoseconds("tolerance", tolerance)
    left = Table.opened(decisions, times=[on], parameter="decisions")
    right, rows, _ = known(facts, parameter="facts")
    one_engine(left, right, "facts")
    keys = _by(left, right, by, on)
    names = _names(left, right, keys, suffix)
    places = {"__time": nw.col("timestamp")} if "timestamp" in right.names else {}
    places |= _order(right, order)
    clocks = {name: clock for name, clock in right.clocks.items() if name in names}
    rows = dated(rows.with_columns(**places), clocks)
    matches = last_known(left.rows, rows, names, at=on, by=keys, order=list(places), limit=limit)
    table = left.with_words({new: name for name, new in names.items()}, of=right)
    result = table.closed(matches.select(*left.names, *names.values()), sort=[*keys, on])
    warn_unless_met("asof_join", left, right, keys, called=("decisions", "facts"))
    if order is None:
        _warn_of_repeated(right, rows, keys, list(places))
    return result


def last_known(
    decisions: Frame,
    facts: Frame,
    names: Mapping[str, str],
    *,
    at: str,
    by: Sequence[str],
    order: Sequence[str] = (),
    limit: int = EVER,
) -> Frame:
    """Return the decisions with columns of the last fact that was known when each was made.

    Parameters
    ----------
    decisions : frame, n rows
        ``by`` and ``at``.
    facts : frame, m rows
        ``by``, `WHEN`, ``order`` and the columns.
    names : mapping of str to str
        Columns of the facts, each with its name in the result.
    at : str
        Column of the times of the decisions. [ns]
    by : sequence of str
        Columns of both that must be equal, null being equal to null.
    order : sequence of str
        Columns by which of facts known at one time the last is taken; none is where all of them are equal.
    limit : int
        How long before the decision the fact may have become known. [ns]

    Returns
    -------
    frame, n rows
        The columns are null where no fact was known.
    """
    facts = facts.filter(~nw.col(WHEN).is_null()).with_columns(__at=nw.col(WHEN))
    decisions, keys = decisions.with_columns(__at=nw.col(at)), list(by)
    ours, theirs = decisions.collect_schema(), facts.collect_schema()
    if any(ours[name] != theirs[name] for name in by):
        decisions, keys = matched(decisions, by)
        facts, _ = matched(facts, by)
    number = nw.col("__at").cum_count().over(*keys, order_by=["__at", *order]).cast(nw.Float64)
    facts = repeated(facts.with_columns(__number=number), [*keys, "__at", *order])
    last = facts.group_by(*keys, "__at").agg(nw.col("__number").max())
    decisions = as_of(decisions, last, "__number", by=keys, at="__at", carry=limit)
    columns = {new: nw.col(name) for name, new in names.items()}
    # Facts that are there twice have numbers too, so that no earlier fact is taken in their place.
    alone = facts.filter(nw.col(TWICE) == 0).select(*keys, "__number", **columns)
    return joined(decisions, alone, on=[*keys, "__number"])


def _warn_of_repeated(facts: Table[Any], rows: Frame, by: list[str], order: list[str]) -> None:
    """Warn if no fact in memory is the only one of its keys and times, so that none is taken."""
    if not facts.is_eager:
        return
    rows = rows.filter(~nw.col(WHEN).is_null())
    counts = repeated(rows, [*by, WHEN, *order]).select(TWICE).collect()[TWICE]
    if len(counts) == 0 or (counts == 0).any():
        return
    others = [name for name in of_rows(facts) if name not in (*by, "interval")]
    hint = f"; join by {', '.join(others)}, or keep one of each" if others else "; say an order"
    message = (
        f"asof_join: every fact is there more than once with the same keys and times, so none is taken{hint}"
    )
    warnings.warn(NoMatchWarning(message, keys=by), stacklevel=3)


def _by(left: Table[Any], right: Table[Any], by: str | Iterable[str] | None, on: str) -> list[str]:
    """Return the columns that must be equal."""
    if by is None:
        keys = [
            name for name in IDENTITY if name in left.names and name in right.names and name != "interval"
        ]
    else:
        keys = left.series(by, without=[on])
        require(keys, right.names)
    for name in keys:
        ours, theirs = (
            _WORDS if isinstance(one, _WORDS) else one for one in (left.schema[name], right.schema[name])
        )
        # A column of nulls alone has no type of its own on some engines.
        if ours != theirs and not any(isinstance(one, nw.Unknown | nw.Object) for one in (ours, theirs)):
            got = f"{name}: {left.schema[name]} and {right.schema[name]}"
            raise QueryError("by", got=got, expected="columns of one type")
    several = ["tenor"] if "id" in right.names else ["tenor", "side", "strike", "option_type"]
    several += ["price"] if is_of_levels(right.names) else []
    if apart := [name for name in several if name in right.names and name not in keys]:
        got = f"facts with column {apart[0]}, joined by {', '.join(keys) or 'nothing'}"
        hint = f"keep one {apart[0]} and drop the column, or join by it: facts of several must not be mixed"
        raise QueryError("by", got=got, expected=f"{apart[0]} among the columns of by", hint=hint)
    return keys


def _order(facts: Table[Any], order: str | None) -> dict[str, nw.Expr]:
    """Return the columns that put facts of one time in order: a number, or of a text its length and its digits."""
    if order is None:
        return {}
    require([order := column("order", order)], facts.names)
    dtype, place = facts.schema[order], nw.col(order)
    if dtype.is_integer():
        return {"__order": place.cast(nw.Int64)}
    if dtype.is_float():
        return {"__order": nw.when(place.is_finite()).then(place)}
    if not isinstance(dtype, _WORDS):
        raise QueryError("order", got=f"{order}: {dtype}", expected="a column of numbers, or of text")
    text = place.cast(nw.String).fill_null("")
    return {"__digits": text.str.len_chars().cast(nw.Int64), "__order": text}


def _names(left: Table[Any], right: Table[Any], by: list[str], suffix: str) -> dict[str, str]:
    """Return the columns of the facts, each with its name in the result."""
    if not isinstance(suffix, str):
        raise QueryError("suffix", got=suffix, expected="a text")
    names = {name: name + suffix if name in left.names else name for name in right.names if name not in by}
    everything = [*left.names, *names.values()]
    if len(set(everything)) < len(everything):
        twice = next(name for name in everything if everything.count(name) > 1)
        raise QueryError("suffix", got=suffix, expected=f"one that leaves {twice!r} once")
    return names
