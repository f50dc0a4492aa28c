"""The time at which a point is known; the rows known at an instant; and the last fact known at each decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from tidytape.analytics._arguments import column, nanoseconds, one_of
from tidytape.analytics._series import (
    IS_REPEATED,
    SESSION_END,
    WORDS,
    is_of_levels,
    knows_length,
    repeated,
    require_one_engine,
    row_columns,
    warn_unless_met,
)
from tidytape.errors import NoMatchWarning, QueryError, warn
from tidytape.frames._door import require
from tidytape.frames._joined import as_of as with_last
from tidytape.frames._joined import joined, matched
from tidytape.frames._sorted import in_order, is_new, with_facts
from tidytape.frames._table import IDENTITY, OpenTable, Rows
from tidytape.frames._times import dated
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.times import SECOND, frame_interval

if TYPE_CHECKING:
    import polars as pl

EVER = 2**61
"""A length that is as good as no limit: 73 years. [ns]"""

KNOWN_AT = "known_at"
"""The column that says when a row is known."""

KNOWN = (KNOWN_AT, "known_at_rule")
"""The columns that `known_at` adds."""

_TIMES = ("timestamp", "interval", "period_start", SESSION_END, *KNOWN)
"""Columns of a fact that say when the fact was known."""

WHEN = "__when"
"""Working column: the time at which a row is known, null if it never is. [ns]"""

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
    r"""Add the time at which each point is known; a candle from 12:00 to 13:00 is known at 13:00.

    .. math:: t_\mathrm{known} = t + \Delta + \mathrm{delay},

    with the timestamp :math:`t` and the length :math:`\Delta` of the interval that the point sums up. A profile is
    known when its period ends. An event, such as a settlement or a trade, sums up nothing, :math:`\Delta = 0`, and is
    known at its timestamp.

    Parameters
    ----------
    frame : frame, n rows, any order
        Points of any schema. Uses ``timestamp``, and what the rule needs.
    rule : {"interval", "period", "event"}, optional
        ``"interval"``: a point is known when its interval ends; ``"period"``: at ``period_end``; ``"event"``: at
        ``timestamp``, for settlements and trades. By default a frame with a column ``known_at`` keeps it; otherwise the
        rule is ``"period"`` if the frame has a column ``period_end``, else ``"interval"``. ``"event"`` is never
        guessed: trades, which have an ``id`` and a ``price``, need the argument. So do sessions of time blocks without
        ``period_end``, because their ``interval`` is not their length.
    interval : str, optional
        Name or alias of the interval; by default the column ``interval`` of each row. It implies the rule
        ``"interval"``.
    delay : str or timedelta, >= 0
        How much later points arrive, e.g. ``"2s"``. If the frame has a column ``known_at``, pass the rule too.

    Returns
    -------
    frame, n rows, order and kind of ``frame``
        ``frame`` itself if it has ``known_at`` and the call has no rule: whoever added the column knew more than the
        rows say. Otherwise the result adds, or replaces, ``known_at``, of the type of ``timestamp``, and
        ``known_at_rule`` : str. ``known_at`` is null, so that the point is never known, if the timestamp is null, if
        the interval is null or not the name of an interval, or if the period ends before the timestamp.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or a column of times has other values. Without ``rule`` also for frames of
        trades, of sessions with time blocks but without ``period_end``, and with ``is_naked``, which depends on later
        sessions.

    Notes
    -----
    The point of an interval in progress gets the end of the interval too. Its values may change until then.

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
    table, rows, used_rule = known(frame, rule=rule, interval=interval, delay=delay)
    if used_rule is None:
        if nanoseconds("delay", delay):
            raise QueryError(
                "delay",
                got=delay,
                expected="none, or the rule too: the frame says in known_at when its rows are known",
            )
        return frame
    other_columns = [name for name in table.names if name not in KNOWN]
    result = rows.select(*other_columns, nw.col(WHEN).alias(KNOWN_AT), known_at_rule=nw.lit(used_rule))
    return table.closed(result, times={KNOWN_AT: "timestamp"}, like_rows=True)


def as_of(frame: IntoFrameT, /, at: TimeLike) -> IntoFrameT:
    """Return the rows of a frame that were known at a time.

    Parameters
    ----------
    frame : frame, n rows, any order
        Points of any schema. Uses ``known_at``; without that column, the times that `known_at` computes.
    at : datetime, date, str or int
        The instant, included: a row that becomes known at it is in the result. A whole number is seconds since the
        epoch, and a time without a zone is UTC.

    Returns
    -------
    frame, m <= n rows, order, columns and kind of ``frame``

    Raises
    ------
    MissingColumnError
        If the frame has neither ``known_at`` nor the columns that `known_at` needs.
    QueryError
        If ``at`` is not a time, a column of times has other values, or the frame has trades without ``known_at``.

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

    A decision gets the fact of the same ``by`` with the largest ``known_at`` at or before ``on``. Among facts with
    equal ``known_at``, the largest ``timestamp`` decides, and then the largest ``order``. If several facts are equal in
    all of these, the decision gets none. Facts that become known later have no influence.

    Parameters
    ----------
    decisions : frame, n rows, any order
        Uses ``on`` and ``by``.
    facts : frame of the same engine, m rows, key (by, known_at, timestamp), any order
        Points of any schema. Uses ``by`` and ``known_at``; without that column, the times that `known_at` computes.
    on : str
        Column of the times of the decisions. For decisions made when a candle is complete, pass the candle's
        ``known_at``, because its ``timestamp`` is its start.
    by : str or iterable of str, optional
        Columns of both frames that must be equal; null equals null. By default the identity columns that both have,
        except ``interval``. Facts of another market or exchange have no such key in common: join them with
        ``by="coin"``, or another column that they share.
    order : str, optional
        Column of the facts that decides which of several facts of one time is the last: ``"sequence"`` or ``"id"`` of
        trades. It holds numbers, or whole numbers as text without sign or leading zeros, as exchanges write ids. Null
        comes first.
    tolerance : str or timedelta, >= 0, optional
        The longest time between the fact becoming known and the decision, e.g. ``"8h"``.
    suffix : str
        The suffix for names of columns of the facts that the decisions have too, and for the times of a fact:
        ``timestamp``, ``interval``, ``period_start``, ``period_end``, ``known_at`` and ``known_at_rule``. Without the
        suffix, `known_at` would take these times for those of the decision.

    Returns
    -------
    frame, n rows, sorted by (by, on), of the kind of ``decisions``
        All columns of the decisions, and those of the facts except ``by``. The latter are null if no fact was known, or
        if several facts share the last place.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, the frames have two engines, a column of ``by`` has two types, or the result
        would have a name twice. Also if the facts have a column that tells several facts of one time apart, and ``by``
        lacks it: ``tenor``, ``side`` (except of trades, which have an ``id``), ``strike``, ``option_type``, or
        ``price`` of levels.

    Warns
    -----
    NoMatchWarning
        If no decision has the key of a fact, or if every fact shares its key and times with another fact: the columns
        of the facts are then null everywhere. Only frames in memory are checked.

    Notes
    -----
    Frames in memory are sorted only if they are not sorted by (by, on) yet. On other engines, with and without an as-of
    join, the function stacks facts and decisions, and carries the number of the last fact forward.

    Facts that are equal in key and times have no order. The result must not depend on the order of the rows, so none of
    them is taken; ``order`` names a column that decides.

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
    require_one_engine(decision_table, fact_table, "facts")
    keys = _by(decision_table, fact_table, by, on)
    names = _names(decision_table, fact_table, keys, suffix)
    time = {"__time": nw.col("timestamp")} if "timestamp" in fact_table.names else {}
    order_columns = time | _order(fact_table, order)
    clocks = {name: clock for name, clock in fact_table.clocks.items() if name in names}
    rows = dated(rows.with_columns(**order_columns) if order_columns else rows, clocks)
    rows = rows.filter(~nw.col(WHEN).is_null())
    in_memory = _Facts.of(rows, keys, list(order_columns)) if fact_table.is_eager else None
    has_met = False
    if in_memory is not None and decision_table.is_eager:
        matches, has_met = in_memory.joined_to(decision_table.rows, names, at=on, limit=limit)
    else:
        matches = last_known(
            decision_table.rows, rows, names, at=on, by=keys, order=list(order_columns), limit=limit
        )
    table = decision_table.with_text_columns({new: name for name, new in names.items()}, of=fact_table)
    result = table.closed(matches.select(*decision_table.names, *names.values()), sort=[*keys, on])
    if not has_met:
        warn_unless_met("asof_join", decision_table, fact_table, keys, called=("decisions", "facts"))
    if order is None and in_memory is not None and in_memory.are_all_repeated:
        _warn_of_repeated(fact_table, keys)
    return result


def known(
    frame: IntoFrameT | OpenTable[IntoFrameT],
    *,
    rule: Rule | None = None,
    interval: str | None = None,
    delay: str | timedelta = timedelta(0),
    parameter: str = "frame",
) -> tuple[OpenTable[IntoFrameT], Rows, Rule | None]:
    """Open a frame; return the table, its rows with `WHEN`, and the rule, or None if the frame has ``known_at``."""
    arrival_delay = nanoseconds("delay", delay)
    length = None if interval is None else frame_interval(interval).nanoseconds
    table = OpenTable.of(frame, parameter=parameter)
    if rule is None and length is None:
        if KNOWN_AT in table.names:
            table = OpenTable.of(table, times=[KNOWN_AT], optional=["timestamp"], parameter=parameter)
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
    if rule == "event":
        when = start
    elif rule == "period":
        when = nw.when(end >= start).then(end)
    elif length is not None:
        when = start + length
    else:
        when = nw.when(table.lengths > 0).then(start + table.lengths)
    return table, table.rows.with_columns((when + arrival_delay).alias(WHEN)), rule


def _refuse_to_guess(names: list[str]) -> None:
    """Raise QueryError if the columns of a frame do not say when its rows are known."""
    if "interval" in names and not knows_length(names):
        expected = (
            f"a rule, or the column {SESSION_END!r}: an interval does not say how long a session of blocks is"
        )
        hint = (
            f"profile.with_sessions adds {SESSION_END!r} to levels; or say rule='interval' where a session is one "
            "interval"
        )
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
    """Return a time as nanoseconds since the epoch, with the fraction of a second that a datetime may have."""
    if not isinstance(at, datetime) or at != at:  # noqa: PLR0124 -- NaT of pandas is unequal to itself
        return epoch_seconds(at, parameter="at") * SECOND
    instant: Any = at  # a pandas Timestamp has nanoseconds, too
    fractions = {
        name: int(getattr(instant, name)) for name in ("microsecond", "nanosecond") if hasattr(instant, name)
    }
    second = epoch_seconds(instant.replace(**dict.fromkeys(fractions, 0)), parameter="at")
    return second * SECOND + fractions["microsecond"] * 1_000 + fractions.get("nanosecond", 0)


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
    """Add columns of the last fact that was known at the time of each decision.

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
        Columns of both that must be equal; null equals null.
    order : sequence of str
        Columns that put the facts that became known at one time in order: the last of them counts. Facts that are equal
        in all of these columns have no last one, so none of them counts.
    limit : int
        The longest time between the fact becoming known and the decision. [ns]

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
    unique_facts = facts.filter(nw.col(IS_REPEATED) == 0).select(*keys, "__rank", **columns)
    return joined(decisions, unique_facts, on=[*keys, "__rank"])


@dataclass(frozen=True)
class _Facts:
    """Facts in memory, sorted by their keys and by when they were known.

    Attributes
    ----------
    rows : polars DataFrame
        The facts that are known at some time.
    by : list of str
        Columns that a decision and its fact must share.
    is_single : polars Series
        Whether no other fact is equal in the keys, in when it was known, and in the order.
    """

    rows: pl.DataFrame
    by: list[str]
    is_single: pl.Series

    @classmethod
    def of(cls, rows: Rows, by: list[str], order: list[str]) -> _Facts:
        """Collect facts and sort them by ``by``, `WHEN` and ``order``."""
        key = [*by, WHEN, *order]
        facts = in_order(rows.collect("polars").to_native(), key)
        is_other = is_new(facts, key)
        return cls(facts, by, is_other & is_other.shift(-1, fill_value=True))

    @property
    def are_all_repeated(self) -> bool:
        """Whether no fact can be taken, because each shares its keys and times with another fact."""
        return len(self.is_single) > 0 and not self.is_single.any()

    def joined_to(
        self, decisions: Rows, names: Mapping[str, str], *, at: str, limit: int
    ) -> tuple[Rows, bool]:
        """Return decisions in memory with columns of their facts, as `last_known`, and whether any decision has one."""
        sorted_decisions = in_order(decisions.collect("polars").to_native(), [*self.by, at])
        joined_rows, has_met = with_facts(
            sorted_decisions, self.rows, self.is_single, names, by=self.by, at=at, when=WHEN, limit=limit
        )
        return nw.from_native(joined_rows).lazy(), has_met


def _warn_of_repeated(facts: OpenTable[Any], by: list[str]) -> None:
    """Warn that no fact can be taken, because each shares its keys and times with another fact."""
    other_columns = [name for name in row_columns(facts) if name not in (*by, "interval")]
    hint = f"; join by {', '.join(other_columns)}, or keep one of each" if other_columns else "; say an order"
    message = (
        f"asof_join: every fact is there more than once with the same keys and times, so none is taken{hint}"
    )
    warn(NoMatchWarning(message, keys=by))


def _by(
    decisions: OpenTable[Any], facts: OpenTable[Any], by: str | Iterable[str] | None, on: str
) -> list[str]:
    """Return the columns that a decision and its fact must share; raise QueryError if a join on them is impossible."""
    if by is None:
        keys = [
            name
            for name in IDENTITY
            if name in decisions.names and name in facts.names and name != "interval"
        ]
    else:
        keys = decisions.series_columns(by, without=[on])
        require(keys, facts.names)
    for name in keys:
        types = [table.schema[name] for table in (decisions, facts)]
        # On some engines a column that holds only nulls has no type.
        has_type = not any(isinstance(dtype, nw.Unknown | nw.Object) for dtype in types)
        if has_type and types[0] != types[1] and not all(isinstance(dtype, WORDS) for dtype in types):
            raise QueryError("by", got=f"{name}: {types[0]} and {types[1]}", expected="columns of one type")
    row_columns = ["tenor"] if "id" in facts.names else ["tenor", "side", "strike", "option_type"]
    row_columns += ["price"] if is_of_levels(facts.names) else []
    for name in row_columns:
        if name in facts.names and name not in keys:
            raise QueryError(
                "by",
                got=f"facts with column {name}, joined by {', '.join(keys) or 'nothing'}",
                expected=f"{name} among the columns of by",
                hint=f"keep one {name} and drop the column, or join by it: facts of several must not be mixed",
            )
    return keys


def _order(facts: OpenTable[Any], order: str | None) -> dict[str, nw.Expr]:
    """Return new columns that put the facts of one time in order.

    A column of text holds whole numbers: a longer text is a larger number, and texts of equal length sort as their
    numbers do. So text is ordered by its length first.
    """
    if order is None:
        return {}
    require([order := column("order", order)], facts.names)
    dtype, value = facts.schema[order], nw.col(order)
    if dtype.is_integer():
        return {"__order": value.cast(nw.Int64)}
    if dtype.is_float():
        return {"__order": nw.when(value.is_finite()).then(value)}
    if not isinstance(dtype, WORDS):
        raise QueryError("order", got=f"{order}: {dtype}", expected="a column of numbers, or of text")
    text = value.cast(nw.String).fill_null("")
    return {"__digits": text.str.len_chars().cast(nw.Int64), "__order": text}


def _names(decisions: OpenTable[Any], facts: OpenTable[Any], by: list[str], suffix: str) -> dict[str, str]:
    """Return the columns of the facts, each with its name in the result."""
    if not isinstance(suffix, str):
        raise QueryError("suffix", got=suffix, expected="a text")
    reserved = {*decisions.names, *_TIMES}
    names = {name: name + suffix if name in reserved else name for name in facts.names if name not in by}
    all_names = [*decisions.names, *names.values()]
    if len(set(all_names)) < len(all_names):
        repeated_name = next(name for name in all_names if all_names.count(name) > 1)
        raise QueryError("suffix", got=suffix, expected=f"one that leaves {repeated_name!r} once")
    return names
