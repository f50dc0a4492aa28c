"""Add to levels what their sessions say of time."""

from __future__ import annotations

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from tidytape.analytics._series import SESSION_END, require_one_engine
from tidytape.analytics.profile._levels import BLOCK_MINUTES
from tidytape.analytics.profile._opening import SESSION
from tidytape.errors import QueryError
from tidytape.frames._dialects import in_sql
from tidytape.frames._joined import joined
from tidytape.frames._table import OpenTable

_NAMES = ("exchange", "raw_symbol", "coin", "interval")
_ADDED = (SESSION_END, BLOCK_MINUTES)
_ROW = "__row"


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
        [min], and the names of the market.

    Returns
    -------
    frame, n rows, in the same order, but on DuckDB and Spark in any
        The columns of ``levels``, ``period_end``, of the type of ``timestamp``, and ``block_size_minutes`` [min]; both
        null where ``sessions`` lacks the session.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frames have two engines, ``levels`` has one of the two columns already, or, in memory, a session comes
        twice.

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
    if of_sessions.is_eager and added.select(key).collect().is_duplicated().any():
        raise QueryError("sessions", got="a session that comes twice", expected="one row per session")
    if in_sql(table.rows):
        rows = joined(table.rows, added, key)
    else:
        numbered = nw.from_native(table.rows.to_native().with_row_index(_ROW))
        rows = joined(numbered, added, key).sort(_ROW)
    return table.closed(rows.select(*table.names, *_ADDED), times={SESSION_END: SESSION}, like_rows=True)
