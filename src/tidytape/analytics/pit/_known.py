"""When a point is known; the rows that were known at an instant; and the last fact known at each decision."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from tidytape.analytics._arguments import column, nanoseconds, one_of
from tidytape.analytics._series import (
    SESSION_END,
    TWICE,
    WORDS,
    is_of_levels,
    knows_length,
    of_rows,
    one_engine,
    repeated,
    warn_unless_met,
)
from tidytape.errors import NoMatchWarning, QueryError
from tidytape.frames._door import require
from tidytape.frames._joined import as_of as with_last
from tidytape.frames._joined import joined, matched
from tidytape.frames._table import IDENTITY, OpenTable, Rows
from tidytape.frames._times import dated, length_of
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.times import SECOND, interval_of

EVER = 2**61
"""73 years, as good as no limit. [ns]"""

KNOWN_AT = "known_at"
"""The column that says when a row is known."""

KNOWN = (KNOWN_AT, "known_at_rule")
"""The columns that `known_at` adds."""

_TIMES = ("timestamp", "interval", "period_start", SESSION_END, *KNOWN)
"""Columns from which `known_at` and others conclude when a row is known."""

WHEN = "__when"
"""Working column: when a row is known, null where it never is. [ns]"""

Rule = Literal["interval", "period", "event"]

_TRADE, _SUMS = {"id", "price"}, {"open", "close"}
_HINDSIGHT = "is_naked"


def known_at(
    frame: IntoFrameT,
    /,
    *,
    rule: Rule | None = None,
    interval: str | None = None,
    delay: str | timedelta = timedelta(0),
) -> IntoFrameT:
    r"""Add the time at which each point is known: for a candle from 12:00 to 13:00 this is 13:00.

    .. math:: t_\mathrm{known} = t + \Delta + \mathrm{delay},

    with the timestamp :math:`t`, and :math:`\Delta` the interval that the point sums up. A profile is known when its
    period ends. What happens at its timestamp and sums up nothing, :math:`\Delta = 0`, is known then: a settlement at
    the time it settles, a trade when it trades.

    Parameters
    ----------
    frame : frame, n rows, any order
        Points of any schema. Uses ``timestamp``, and what the rule needs.
    rule : {"interval", "period", "event"}, optional
        ``"interval"``: with the interval of the point; ``"period"``: at ``period_end``; ``"event"``: at ``timestamp``,
        for settlements and trades. Without it, a column ``known_at`` that is there stays as it is; else ``"period"``
        where there is a column ``period_end``, or ``"interval"``; that a row is an event is never guessed, and
        trades, which have an ``id`` and a ``price``, need a rule that is said. Nor is an interval taken for the length
        of a session of blocks.
    interval : str, optional
        Name or alias of the interval; what the column ``interval`` says in each row, unless said. A rule, if said.
    delay : str or timedelta, >= 0
        How much later points arrive, e.g. ``"2s"``. With a column ``known_at`` that is there, say the rule too.

    Returns
    -------
    frame, n rows, order and kind of ``frame``
        ``frame`` itself where it has ``known_at`` and no rule is said: what made it knew more than its rows say.
        Otherwise adds, or replaces, ``known_at``, as ``timestamp`` says times, and ``known_at_rule`` : str. Null where
        the timestamp is, or the interval is null or no name of one, or a period ends before its timestamp: such a point
        is never known.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or a column of times holds none; or the frame is one of trades, or of sessions
        of blocks without ``period_end``, which may be a week of interval DAY, or says ``is_naked``, which later
        sessions decide, and no rule is said.

    Notes
    -----
    The point of an interval in progress is served as it stands, and is known at the interval's end like any other; what
    it then says may differ.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> candles = pl.DataFrame({"timestamp": [datetime(2024, 8, 8, 12, tzinfo=UTC)], "interval": ["HOUR"]})
    >>> known_at(candles)["known_at"].item().isoformat()
    '2024-08-08T13:00:00+00:00'
    """
    table, rows, chosen = known(frame, rule=rule, interval=interval, delay=delay)
    if chosen is None:
        if nanoseconds("delay", delay):
            raise QueryError(
                "delay",
                got=delay,
                expected="none, or the rule too: the frame says in known_at when its rows are known",
            )
        return frame
    others = [name for name in table.names if name not in KNOWN]
    result = rows.select(*others, nw.col(WHEN).alias(KNOWN_AT), known_at_rule=nw.lit(chosen))
    return table.closed(result, times={KNOWN_AT: "timestamp"}, like_rows=True)


def as_of(frame: IntoFrameT, /, at: TimeLike) -> IntoFrameT:
    """Rows of a frame that were known at a time.

    Parameters
    ----------
    frame : frame, n rows, any order
        Points of any schema. Uses ``known_at``; without that column, what `known_at` says of the frame.
    at : datetime, date, str or int
        The instant; a whole number is seconds since the epoch, and what has no zone is UTC. What becomes known at it is
        known.

    Returns
    -------
    frame, m <= n rows, order, columns and kind of ``frame``

    Raises
    ------
    MissingColumnError
        If there is neither ``known_at`` nor what it is made of.
    QueryError
        If ``at`` is no time, a column of times holds none, or the frame is one of trades without ``known_at``.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> hours = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (11, 12)]
    >>> candles = pl.DataFrame({"timestamp": hours, "interval": "HOUR", "close": [61_000.0, 62_000.0]})
    >>> as_of(candles, "2024-08-08T12:59:59Z")["close"].to_list()
    [61000.0]
    """
    table, rows, _ = known(frame)
    return table.closed(rows.filter(nw.col(WHEN) <= _instant(at)).select(*table.names))


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
    """Join each decision with the last row that was known at its time, by ``known_at``.

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
        Numbers, or whole numbers as text, as exchanges write ids: without a sign or zeros in front; null is before all.
    tolerance : str or timedelta, >= 0, optional
        How long before the decision the fact may have become known, at most, e.g. ``"8h"``.
    suffix : str
        What is added to names of columns of the facts that the decisions have too, and to those that say of which time
        a fact is and when it was known: ``timestamp``, ``interval``, ``period_start``, ``period_end``, ``known_at`` and
        ``known_at_rule``. Without it, `known_at` would take them for the decision's own.

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

    References
    ----------
    tidytape's own convention; see definitions.

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
    decision_table = OpenTable.of(decisions, times=[on], parameter="decisions")
    fact_table, rows, _ = known(facts, parameter="facts")
    one_engine(decision_table, fact_table, "facts")
    keys = _by(decision_table, fact_table, by, on)
    names = _names(decision_table, fact_table, keys, suffix)
    time = {"__time": nw.col("timestamp")} if "timestamp" in fact_table.names else {}
    places = time | _order(fact_table, order)
    clocks = {name: clock for name, clock in fact_table.clocks.items() if name in names}
    rows = dated(rows.with_columns(**places) if places else rows, clocks)
    matches = last_known(decision_table.rows, rows, names, at=on, by=keys, order=list(places), limit=limit)
    table = decision_table.with_words({new: name for name, new in names.items()}, of=fact_table)
    result = table.closed(matches.select(*decision_table.names, *names.values()), sort=[*keys, on])
    warn_unless_met("asof_join", decision_table, fact_table, keys, called=("decisions", "facts"))
    if order is None:
        _warn_of_repeated(fact_table, rows, keys, list(places))
    return result


def known(
    frame: IntoFrameT | OpenTable[IntoFrameT],
    *,
    rule: Rule | None = None,
    interval: str | None = None,
    delay: str | timedelta = timedelta(0),
    parameter: str = "frame",
) -> tuple[OpenTable[IntoFrameT], Rows, Rule | None]:
    """Open a frame; return the table, its rows with `WHEN`, and the rule, None if a column ``known_at`` says it."""
    later = nanoseconds("delay", delay)
    length = None if interval is None else interval_of(interval).seconds * SECOND
    table = OpenTable.of(frame, parameter=parameter)
    if rule is None and length is None:
        if KNOWN_AT in table.names:
            table = OpenTable.of(table, times=[KNOWN_AT], optional_times=["timestamp"], parameter=parameter)
            return table, table.rows.with_columns(nw.col(KNOWN_AT).alias(WHEN)), None
        _refuse_to_guess(table.names)
        rule = "period" if SESSION_END in table.names else "interval"
    rule = "interval" if rule is None else rule
    one_of("rule", rule, ("interval", "period", "event"))
    if rule != "interval" and length is not None:
        raise QueryError("interval", got=interval, expected=f"none, by the rule {rule!r}")
    needed = ["interval"] if rule == "interval" and length is None else []
    table = OpenTable.of(table, needed, times=["timestamp", *([SESSION_END] if rule == "period" else [])])
    start, end = nw.col("timestamp"), nw.col(SESSION_END)
    lengths = length_of(nw.col("interval")) if length is None else nw.lit(length, nw.Int64)
    when = {
        "event": start,
        "period": nw.when(end >= start).then(end),
        "interval": nw.when(lengths > 0).then(start + lengths),
    }
    return table, table.rows.with_columns((when[rule] + later).alias(WHEN)), rule


def _refuse_to_guess(names: list[str]) -> None:
    """Raise QueryError if the columns of a frame do not say when its rows are known."""
    if "interval" in names and not knows_length(names):
        expected = (
            f"a rule, or the column {SESSION_END!r}: an interval does not say how long a session of blocks is"
        )
        hint = f"keep {SESSION_END!r}, or say rule='interval' where a session is one interval"
    elif _HINDSIGHT in names:
        expected = f"a rule, or no column {_HINDSIGHT!r}, which later sessions decide"
        hint = f"drop {_HINDSIGHT!r} and 'touched_at', or take them of the sessions known by then"
    elif _TRADE.issubset(names) and _SUMS.isdisjoint(names):
        expected = "'event' for trades, or 'interval' where they are known by the interval"
        hint = "known_at(trades, rule='event')"
    else:
        return
    raise QueryError("rule", got=None, expected=expected, hint=hint)


def _instant(at: TimeLike) -> int:
    """Return a moment in nanoseconds since the epoch, with the fraction of a second that a datetime may have."""
    if not isinstance(at, datetime) or at != at:  # noqa: PLR0124 -- NaT of pandas is unequal to itself
        return epoch_seconds(at, parameter="at") * SECOND
    moment: Any = at  # a pandas Timestamp has nanoseconds, too
    finer = {
        name: int(getattr(moment, name)) for name in ("microsecond", "nanosecond") if hasattr(moment, name)
    }
    second = epoch_seconds(moment.replace(**dict.fromkeys(finer, 0)), parameter="at")
    return second * SECOND + finer["microsecond"] * 1_000 + finer.get("nanosecond", 0)


def last_known(
    decisions: Rows,
    facts: Rows,
    names: Mapping[str, str],
    *,
    at: str,
    by: Sequence[str],
    order: Sequence[str] = (),
    limit: int = EVER,
) -> Rows:
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
        Columns that put the facts that became known at one time in order: the last of them counts. Facts that are equal
        in all of these columns have no last one, so none of them counts.
    limit : int
        How long before the decision the fact may have become known. [ns]

    Returns
    -------
    frame, n rows
        The columns are null where no fact was known.
    """
    facts = facts.filter(~nw.col(WHEN).is_null()).with_columns(__at=nw.col(WHEN))
    decisions, keys = decisions.with_columns(__at=nw.col(at)), list(by)
    decision_schema, fact_schema = decisions.collect_schema(), facts.collect_schema()
    if any(decision_schema[name] != fact_schema[name] for name in by):
        decisions, keys = matched(decisions, by)
        facts, _ = matched(facts, by)
    fact_rank = nw.col("__at").cum_count().over(*keys, order_by=["__at", *order]).cast(nw.Float64)
    facts = repeated(facts.with_columns(__rank=fact_rank), [*keys, "__at", *order])
    last = facts.group_by(*keys, "__at").agg(nw.col("__rank").max())
    decisions = with_last(decisions, last, "__rank", by=keys, at="__at", carry=limit)
    columns = {new: nw.col(name) for name, new in names.items()}
    # Duplicate facts have ranks too, so that no earlier fact takes their place. They are dropped only here, so a
    # decision that got the rank of a duplicate finds no fact.
    unique_facts = facts.filter(nw.col(TWICE) == 0).select(*keys, "__rank", **columns)
    return joined(decisions, unique_facts, on=[*keys, "__rank"])


def _warn_of_repeated(facts: OpenTable[Any], rows: Rows, by: list[str], order: list[str]) -> None:
    """Warn if every fact of a frame in memory shares its keys and times with another fact, so that none is taken."""
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


def _by(
    decisions: OpenTable[Any], facts: OpenTable[Any], by: str | Iterable[str] | None, on: str
) -> list[str]:
    """Return the columns that must be equal in a decision and its fact; raise QueryError if these cannot join."""
    if by is None:
        keys = [
            name
            for name in IDENTITY
            if name in decisions.names and name in facts.names and name != "interval"
        ]
    else:
        keys = decisions.series(by, without=[on])
        require(keys, facts.names)
    for name in keys:
        types = [table.schema[name] for table in (decisions, facts)]
        # On some engines a column that holds only nulls has no type.
        has_type = not any(isinstance(dtype, nw.Unknown | nw.Object) for dtype in types)
        if has_type and types[0] != types[1] and not all(isinstance(dtype, WORDS) for dtype in types):
            raise QueryError("by", got=f"{name}: {types[0]} and {types[1]}", expected="columns of one type")
    several = ["tenor"] if "id" in facts.names else ["tenor", "side", "strike", "option_type"]
    several += ["price"] if is_of_levels(facts.names) else []
    for name in several:
        if name in facts.names and name not in keys:
            raise QueryError(
                "by",
                got=f"facts with column {name}, joined by {', '.join(keys) or 'nothing'}",
                expected=f"{name} among the columns of by",
                hint=f"keep one {name} and drop the column, or join by it: facts of several must not be mixed",
            )
    return keys


def _order(facts: OpenTable[Any], order: str | None) -> dict[str, nw.Expr]:
    """Return the columns that put the facts of one time in order.

    A column of text holds whole numbers: a longer text is a larger number, and texts of equal length sort as their
    numbers do. So text is ordered by its length first.
    """
    if order is None:
        return {}
    require([order := column("order", order)], facts.names)
    dtype, place = facts.schema[order], nw.col(order)
    if dtype.is_integer():
        return {"__order": place.cast(nw.Int64)}
    if dtype.is_float():
        return {"__order": nw.when(place.is_finite()).then(place)}
    if not isinstance(dtype, WORDS):
        raise QueryError("order", got=f"{order}: {dtype}", expected="a column of numbers, or of text")
    text = place.cast(nw.String).fill_null("")
    return {"__digits": text.str.len_chars().cast(nw.Int64), "__order": text}


def _names(decisions: OpenTable[Any], facts: OpenTable[Any], by: list[str], suffix: str) -> dict[str, str]:
    """Return the columns of the facts, each with its name in the result."""
    if not isinstance(suffix, str):
        raise QueryError("suffix", got=suffix, expected="a text")
    reserved = {*decisions.names, *_TIMES}
    names = {name: name + suffix if name in reserved else name for name in facts.names if name not in by}
    everything = [*decisions.names, *names.values()]
    if len(set(everything)) < len(everything):
        repeated_name = next(name for name in everything if everything.count(name) > 1)
        raise QueryError("suffix", got=suffix, expected=f"one that leaves {repeated_name!r} once")
    return names
