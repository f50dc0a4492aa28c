"""Look for look-ahead in a caller's own function: run it again on histories that end earlier, and compare."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT
from numpy.typing import NDArray

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import as_lazy, in_memory, row_columns
from tidytape.analytics.pit._known import KNOWN_AT, WHEN, known
from tidytape.errors import QueryError, counted
from tidytape.frames._joined import joined
from tidytape.frames._table import OpenTable
from tidytape.frames._times import dated
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.times import MINUTE, SECOND

_LOG = logging.getLogger("tidytape.analytics")

_RESULTS: Final = (KNOWN_AT, "column", "cut_at", "difference", "with_future", "without_future", "minutes")
_NEVER: Final = 2**63 - 1
"""The time at which a row is known that never is. [ns]"""
_WHY: Final = "the function runs on many histories"


@dataclass(frozen=True, eq=False, repr=False)
class Leaks(Generic[IntoFrameT]):
    """What `leaks` found. Its length is the number of values that looked ahead, so it is false if none did.

    Attributes
    ----------
    frame : frame, one row per value that the future changed
        See `leaks`.
    cuts : int
        How many histories were tried.
    columns : tuple of str
        The columns that were compared.
    values : int
        How many values were compared, over all histories.
    """

    frame: IntoFrameT
    cuts: int
    columns: tuple[str, ...]
    values: int
    _changed: int

    def __len__(self) -> int:
        return self._changed

    def __repr__(self) -> str:
        changed = counted(self._changed, "value") if self._changed else "no value"
        compared = f"{counted(self.values, 'value')} of {counted(len(self.columns), 'column')}"
        return f"the future changed {changed}: {compared} compared in {counted(self.cuts, 'cut')}"


def leaks(
    function: Callable[..., IntoFrameT],
    frame: IntoFrame,
    /,
    *,
    others: Sequence[IntoFrame] = (),
    cuts: int = 20,
    seed: int = 0,
    start: TimeLike = None,
    by: str | Iterable[str] | None = None,
    tolerance: float = 1e-9,
) -> Leaks[IntoFrameT]:
    r"""Find values of a function that change if the future is cut off.

    The function runs once on the whole frame. Then it runs on histories: the rows that were known at a time :math:`c`,
    a cut. A value that was known by then, :math:`t_\mathrm{known} \le c`, must be the same in both answers,

    .. math:: f(H_c)_t = f(H_\infty)_t \quad \text{for all } t_\mathrm{known} \le c.

    Parameters
    ----------
    function : callable
        Takes the frame and returns one: candles with more columns, signals, or levels of sessions. It must give the
        same answer if it is called twice.
    frame : frame, n rows, any order
        What the function works on, of polars, pandas or pyarrow. A row is known at its ``known_at``, or without that
        column at the time that `known_at` computes.
    others : list of frames
        More frames that the function takes, after the first. All are cut at the same times. Data that the function gets
        in another way are not cut, so a look-ahead in them is not found.
    cuts : int, >= 1
        How many histories to try. Each is one call of the function.
    seed : int, >= 0
        The cuts are random times at which a row becomes known, one in each of ``cuts`` equal parts of these times. The
        same seed gives the same cuts. The latest time that leaves a row to the future is always among them.
    start : moment, optional
        No cut lies before it, e.g. if the function needs a history of some length. Epoch seconds, a datetime, a date or
        an ISO 8601 string.
    by : str or iterable of str, optional
        The columns that, with ``timestamp``, identify a row of what the function returns; by default those of its
        identity, such as ``exchange`` and ``raw_symbol``.
    tolerance : float, >= 0
        By how much floats may differ, as a share of the larger one, or of the median size of the column if that is
        more. Everything else must be equal.

    Returns
    -------
    Leaks
        Its ``frame``, of the kind that the function returns, has one row per value that a cut changed:

        - ``by``, ``timestamp`` and ``known_at`` : the row of the function's answer, and when it was known.
        - ``column`` : str; ``timestamp`` where the whole row is there only with the future, or only without it.
        - ``cut_at`` : as ``timestamp``, the first cut that changed the value.
        - ``with_future``, ``without_future`` : str, the value with the whole frame, and with that history; null for
          null, and for a row that is not there.
        - ``difference`` : float64, with the future minus without; null for what is no number.
        - ``minutes`` : float64, the look-ahead: the value depends on rows that become known so long after it, or later.
          More cuts find more of it. [min]

        An empty frame means that no cut changed a value; ``cuts``, ``columns`` and ``values`` say what was tried.

    Raises
    ------
    MissingColumnError
        If the frame, or what the function returns, has neither ``known_at`` nor the columns that `known_at` needs, or
        has no ``timestamp``.
    QueryError
        If an argument is not as listed; if nothing could be compared, because all rows are known at one time, or no row
        of the answer is known at a cut; if the function gives another answer when it is called again, or other columns
        for a history; or if several rows of its answer have the same key.

    Notes
    -----
    An error of the function is raised as it is, with a note that says which history it got.

    An empty result is no proof: a function may look ahead where no cut falls. Rows that are never known are not
    compared, and neither are columns of objects. A frame without rows has no cuts. The log ``tidytape.analytics`` has a
    line per cut.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> hours = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in range(6)]
    >>> candles = pl.DataFrame({"timestamp": hours, "interval": "HOUR", "close": [1.0, 2.0, 4.0, 3.0, 5.0, 9.0]})
    >>> def excess(candles):
    ...     return candles.with_columns(excess=pl.col("close") - pl.col("close").mean())
    >>> found = leaks(excess, candles)
    >>> print(found)
    the future changed 5 values: 30 values of 2 columns compared in 5 cuts
    >>> found.frame.select("column", "with_future", "without_future", "minutes").row(0)
    ('excess', '-3.0', '0.0', 300.0)
    >>> def mended(candles):
    ...     return candles.with_columns(excess=pl.col("close") - pl.col("close").rolling_mean(2))
    >>> print(leaks(mended, candles))
    the future changed no value: 30 values of 2 columns compared in 5 cuts
    """
    if not callable(function):
        raise QueryError("function", got=function, expected="a function from a frame to a frame")
    if not isinstance(others, list | tuple):
        raise QueryError("others", got=others, expected="a list of frames")
    number, seed = arguments.integer("cuts", cuts), arguments.integer("seed", seed, least=0)
    tolerance = arguments.number("tolerance", tolerance, least=0)
    facts = [_Facts.of(frame, "frame"), *(_Facts.of(other, "others") for other in others)]
    times = np.unique(np.concatenate([fact.when for fact in facts]))
    times = times[times < _NEVER]
    since = (
        0 if start is None else int(np.searchsorted(times, epoch_seconds(start, parameter="start") * SECOND))
    )
    moments = _cuts(times[since:], number, seed)
    if not moments and any(len(fact.when) for fact in facts):
        raise QueryError(
            "frame",
            got=f"rows known at {counted(len(times) - since, 'time')}",
            expected="rows known at two or more times, so that one can be cut off",
        )

    def answer(cut: int, history: str) -> _Answer[IntoFrameT]:
        try:
            return _Answer.of(function(*(fact.until(cut) for fact in facts)), by)
        except Exception as error:
            error.add_note(f"pit.leaks had called the function with {history}")
            raise

    full_answer = answer(_NEVER, "the whole frame")
    sizes = {name: _median_size(full_answer.rows[name]) for name in full_answer.columns}
    changes = full_answer.changes(answer(_NEVER, "the whole frame once more"), _NEVER, sizes, tolerance)
    for column, first, second in changes.select("column", "with_future", "without_future").head(1).rows():
        raise QueryError(
            "function",
            got=f"{first} and then {second} in column {column!r} for the same frame",
            expected="the same answer each time",
            hint="give it a seed",
        )
    key, values = [*full_answer.keys, "column"], 0
    first_changes, last_cuts = changes, changes.select(*key, "cut_at")
    for place, cut in enumerate(moments, 1):
        history = f"the history known at {_written(cut)}, cut {place} of {len(moments)}"
        _LOG.info("pit.leaks: %s", history)
        changes = full_answer.changes(answer(cut, history), cut, sizes, tolerance)
        values += len(full_answer.columns) * len(full_answer.known_at(cut))
        # A value that several cuts change is shown as the first of them shows it; the last says how far it reaches.
        first_changes = nw.concat([first_changes, changes]).unique(key, keep="first", maintain_order=True)
        all_cuts = nw.concat([last_cuts, changes.select(*key, "cut_at")])
        last_cuts = all_cuts.group_by(*key).agg(nw.col("cut_at").max())
    if moments and not values and not len(first_changes):
        raise QueryError(
            "function",
            got="an answer without a row that is known at a cut",
            expected="some of them, so that they can be compared",
        )
    next_times = {cut: int(times[np.searchsorted(times, cut, side="right")]) for cut in moments}
    reaches = last_cuts["cut_at"].replace_strict(next_times, return_dtype=nw.Int64)
    changed = joined(first_changes, last_cuts.drop("cut_at").with_columns(reaches.alias("__reach")), on=key)
    minutes = (nw.col("__reach") - nw.col(KNOWN_AT)).cast(nw.Float64) / float(MINUTE)
    result = full_answer.table.closed(
        changed.select(
            *key, *(name for name in _RESULTS if name not in {"column", "minutes"}), minutes=minutes
        ),
        sort=key,
        times={KNOWN_AT: "timestamp", "cut_at": "timestamp"},
        main=["difference", "with_future", "without_future", "minutes"],
    )
    frame_of_changes = as_lazy(result, is_lazy=full_answer.was_lazy)
    return Leaks(frame_of_changes, len(moments), tuple(full_answer.columns), values, len(changed))


def _cuts(times: NDArray[np.int64], number: int, seed: int) -> list[int]:
    """Return random times, one in each of ``number`` equal parts, and the last but one. [ns since the epoch]"""
    most = len(times) - 1
    if most < 1:
        return []
    number = min(number, most)
    places = (np.arange(number) + np.random.default_rng(seed).random(number)) * most / number
    return [int(time) for time in times[np.unique(np.append(places[:-1].astype(np.int64), most - 1))]]


def _written(time: int) -> str:
    """Return a time as text. [ns since the epoch]"""
    return datetime.fromtimestamp(time / SECOND, UTC).isoformat()


def _median_size(values: nw.Series[Any]) -> float:
    """Return the median of the absolute values of a column of floats that are neither 0 nor null; 0 for others."""
    sizes = values.abs().drop_nulls().to_numpy() if values.dtype.is_float() else np.array([])
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(np.median(sizes)) if len(sizes) else 0.0


@dataclass(frozen=True)
class _Facts:
    """A frame of the caller in memory, and when each of its rows is known, `_NEVER` for null. [ns since the epoch]"""

    frame: nw.DataFrame[Any]
    when: NDArray[np.int64]
    was_lazy: bool

    @classmethod
    def of(cls, native: IntoFrame, parameter: str) -> _Facts:
        """Collect a frame, and find out when its rows are known."""
        frame, is_lazy = in_memory(native, parameter, _WHY)
        _, rows, _ = known(frame, parameter=parameter)
        when = rows.select(nw.col(WHEN).fill_null(_NEVER)).collect("polars")[WHEN].to_numpy()
        return cls(nw.from_native(frame, eager_only=True), when, is_lazy)

    def until(self, cut: int) -> Any:
        """Return the rows that are known at a time, as a frame of the caller's kind that the caller may change."""
        rows = self.frame[np.flatnonzero(self.when <= cut)].clone()
        return as_lazy(rows.to_native(), is_lazy=self.was_lazy)


@dataclass(frozen=True)
class _Answer(Generic[IntoFrameT]):
    """What the function returned.

    Attributes
    ----------
    table : OpenTable
    rows : narwhals DataFrame
        The rows that are known at some time, on polars: keys, columns, and `WHEN`.
    keys : list of str
        Columns that identify a row; the last is ``timestamp``.
    columns : list of str
        Columns to compare.
    was_lazy : bool
        Whether it was a lazy frame.
    """

    table: OpenTable[IntoFrameT]
    rows: nw.DataFrame[Any]
    keys: list[str]
    columns: list[str]
    was_lazy: bool

    @classmethod
    def of(cls, native: IntoFrameT, by: str | Iterable[str] | None) -> _Answer[IntoFrameT]:
        """Open what the function returned."""
        frame, is_lazy = in_memory(native, "function", _WHY)
        table = OpenTable.of(frame, times=["timestamp"], parameter="function")
        table, rows, _ = known(table, parameter="function")
        left_out = ["timestamp", *_RESULTS]
        names = (
            row_columns(table, without=left_out) if by is None else table.series_columns(by, without=left_out)
        )
        keys = [*names, "timestamp"]
        objects = {} if table.door is None else table.door.outside
        columns = [name for name in table.names if name not in keys and name not in objects]
        rows = dated(rows, {name: clock for name, clock in table.clocks.items() if name in columns})
        is_known = ~nw.col(WHEN).is_null() & ~nw.col("timestamp").is_null()
        known_rows = rows.filter(is_known).select(*keys, WHEN, *columns).collect("polars")
        if known_rows.select(*keys).is_duplicated().any():
            raise QueryError(
                "by",
                got=f"several rows with the same {', '.join(keys)}",
                expected="columns that identify, with the timestamp, each row of the answer",
            )
        return cls(table, known_rows, keys, columns, is_lazy)

    def known_at(self, cut: int) -> nw.DataFrame[Any]:
        """Return the rows that are known at a time."""
        return self.rows.filter(nw.col(WHEN) <= cut)

    def changes(
        self, other: _Answer[IntoFrameT], cut: int, sizes: Mapping[str, float], tolerance: float
    ) -> nw.DataFrame[Any]:
        """Return the values known at a cut that the answer for that history has otherwise, one row each."""
        if set(other.columns) != set(self.columns):
            names = sorted(set(other.columns) ^ set(self.columns))
            raise QueryError(
                "function",
                got=f"an answer with the columns {', '.join(names)} only for some histories",
                expected="the same columns for every history",
            )
        other_names = {name: f"__of_{place}" for place, name in enumerate(self.columns)}
        is_there = nw.lit(1).alias("__is_there")
        other_rows = other.rows.select(
            *self.keys, is_there, **{new: nw.col(old) for old, new in other_names.items()}
        )
        pairs = joined(self.known_at(cut), other_rows, on=self.keys)
        extra = joined(other.known_at(cut), self.rows.select(*self.keys, is_there), on=self.keys)
        is_absent = nw.col("__is_there").is_null()
        lost, both, extra = pairs.filter(is_absent), pairs.filter(~is_absent), extra.filter(is_absent)
        parts = [
            self._rows(lost, "timestamp", cut, [*map(_written, lost["timestamp"])], [None] * len(lost)),
            self._rows(extra, "timestamp", cut, [None] * len(extra), [*map(_written, extra["timestamp"])]),
        ]
        for name, other_name in other_names.items():
            is_changed = _are_changed(both[name], both[other_name], sizes[name], tolerance)
            if is_changed.any():
                changed = both.filter(is_changed)
                values, other_values = changed[name].to_list(), changed[other_name].to_list()
                parts.append(self._rows(changed, name, cut, values, other_values))
        return nw.concat(parts)

    def _rows(
        self, rows: nw.DataFrame[Any], column: str, cut: int, values: list[Any], other_values: list[Any]
    ) -> nw.DataFrame[Any]:
        """Return rows of the result for changed values of one column."""
        differences = [
            float(value) - float(other) if arguments.is_number(value) and arguments.is_number(other) else None
            for value, other in zip(values, other_values, strict=True)
        ]
        texts = {
            name: [None if value is None else str(value) for value in of_side]
            for name, of_side in (("with_future", values), ("without_future", other_values))
        }
        engine = rows.implementation
        return rows.select(
            *self.keys,
            nw.col(WHEN).alias(KNOWN_AT),
            nw.lit(column).alias("column"),
            nw.lit(cut, nw.Int64).alias("cut_at"),
        ).with_columns(
            nw.new_series("difference", differences, nw.Float64, backend=engine),
            *(nw.new_series(name, of_side, nw.String, backend=engine) for name, of_side in texts.items()),
        )


def _are_changed(
    values: nw.Series[Any], others: nw.Series[Any], size: float, tolerance: float
) -> nw.Series[Any]:
    """Return whether values differ; null equals null and NaN, and floats differ by more than the tolerance."""
    if values.dtype != others.dtype:
        types = [dtype for dtype in (values.dtype, others.dtype) if not isinstance(dtype, nw.Unknown)]
        # A column of nothing but nulls has no type, and takes that of the other.
        common = nw.Float64() if all(dtype.is_numeric() for dtype in types) else nw.String()
        dtype = types[0] if len(types) == 1 else common
        values, others = values.cast(dtype), others.cast(dtype)
    if not values.dtype.is_float():
        return ~((values == others).fill_null(value=False) | (values.is_null() & others.is_null()))
    first, second = values.to_numpy(), others.to_numpy()
    with np.errstate(invalid="ignore", over="ignore"):
        is_near = np.abs(first - second) <= tolerance * np.fmax(np.fmax(np.abs(first), np.abs(second)), size)
    is_same = (first == second) | (np.isnan(first) & np.isnan(second))
    is_changed = ~(is_same | (is_near & np.isfinite(first) & np.isfinite(second)))
    return nw.new_series("changed", is_changed, nw.Boolean, backend=values.implementation)
