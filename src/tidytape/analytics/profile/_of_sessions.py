"""Add to levels what their sessions say of time."""

from __future__ import annotations

from collections.abc import Sequence

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from tidytape.analytics._series import SESSION_END, require_one_engine
from tidytape.analytics.profile._levels import BLOCK_MINUTES
from tidytape.analytics.profile._opening import COUNTED, SESSION
from tidytape.errors import QueryError
from tidytape.frames._dialects import in_sql
from tidytape.frames._joined import joined
from tidytape.frames._table import OpenTable, Rows
from tidytape.times import MINUTE

_NAMES = ("exchange", "raw_symbol", "coin", "interval")
_ADDED = (SESSION_END, BLOCK_MINUTES)
_ROW, _COUNT = "__row", "__count"


def with_sessions(levels: IntoFrameT, sessions: IntoFrame, /) -> IntoFrameT:
    """Add to each level when its session ends, and how long the time blocks of the session are.

    Levels of a market profile say neither. `initial_balance`, `day_type`, `developing` and `summary` need the length of
    a block, and `tidytape.analytics.pit.known_at` needs the end of a session.

    Parameters
    ----------
    levels : frame, n rows
        From ``client.tpo``: ``timestamp``, start of the session, and the names of the market.
    sessions : frame, one row per session, of the same engine
        From ``client.tpo_sessions`` with the same arguments: ``timestamp``, ``period_end``, ``block_size_minutes``
        [min], and the names of the market. If both frames have ``interval``, it is a part of the key. Shorter time
        blocks than those of the levels are not noticed.

    Returns
    -------
    frame, n rows, in the same order, but on DuckDB and Spark in any
        The columns of ``levels``, ``period_end``, of the type of ``timestamp``, and ``block_size_minutes`` [min]; both
        null where ``sessions`` lacks the session. Of a lazy frame both are also null where a session comes twice, or
        ends before a time block of its levels begins.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frames have two engines, or ``levels`` has one of the two columns already. In memory, if a session comes
        twice, or ends before a time block of its levels begins, because it is of other arguments.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import tidytape
    >>> from tidytape.analytics import pit, profile
    >>> day = {
    ...     "exchange": "DEMO_SPOT", "coin": "BTC", "session": "daily", "start": "2024-08-08", "end": "2024-08-09",
    ... }
    >>> with tidytape.Client.demo() as client:
    ...     levels = profile.with_sessions(client.tpo(**day), client.tpo_sessions(**day))
    >>> pit.known_at(profile.value_area(levels)).select("known_at", "poc").row(0)[0].isoformat()
    '2024-08-09T00:00:00+00:00'
    """
    table = OpenTable.of(levels, [SESSION], parameter="levels")
    of_sessions = OpenTable.of(sessions, [SESSION, BLOCK_MINUTES], times=[SESSION_END], parameter="sessions")
    require_one_engine(table, of_sessions, "sessions")
    for name in _ADDED:
        if name in table.names:
            raise QueryError("levels", got=f"a frame with column {name}", expected="levels without it")
    key = [name for name in (*_NAMES, SESSION) if name in table.names and name in of_sessions.names]
    added = of_sessions.rows.select(*key, *_ADDED)
    if not of_sessions.is_eager:
        added = _without_repeated(added, key)
    elif added.select(key).collect().is_duplicated().any():
        raise QueryError("sessions", got="a session that comes twice", expected="one row per session")
    if in_sql(table.rows):
        rows = joined(table.rows, added, key)
    else:
        numbered = nw.from_native(table.rows.to_native().with_row_index(_ROW))
        rows = joined(numbered, added, key).sort(_ROW)
    if COUNTED["last"] in table.names:
        block = nw.col(COUNTED["last"]).max().over(*key)
        fits = nw.col(SESSION) + block * nw.col(BLOCK_MINUTES) * MINUTE < nw.col(SESSION_END)
        fits = fits.fill_null(value=True)
        if table.is_eager and not rows.filter(~fits).collect().is_empty():
            raise QueryError(
                "sessions",
                got="a session that ends before a time block of its levels begins",
                expected="the sessions of the same arguments as the levels",
            )
        rows = rows.with_columns(nw.when(fits).then(name).alias(name) for name in _ADDED)
    return table.closed(rows.select(*table.names, *_ADDED), times={SESSION_END: SESSION}, like_rows=True)


def _without_repeated(sessions: Rows, key: Sequence[str]) -> Rows:
    """Return one row per session, with null in place of the facts of a session that comes twice."""
    sessions = sessions.group_by(*key).agg(*(nw.col(name).max() for name in _ADDED), nw.len().alias(_COUNT))
    is_single = nw.col(_COUNT) == 1
    return sessions.select(*key, *(nw.when(is_single).then(name).alias(name) for name in _ADDED))
