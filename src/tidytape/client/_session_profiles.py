"""Market profiles of a caller's session: the service has UTC days, so the client fetches minutes and computes here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tidytape.catalogue import TPOSession
from tidytape.errors import QueryError
from tidytape.sessions import Session
from tidytape.times import SECOND

if TYPE_CHECKING:
    import polars as pl

_WORDS = {word.casefold() for session in TPOSession for word in (session.value, session.alias)}


def session_of(argument: object) -> Session | None:
    """Return the session that an argument is, or is the text of; None for the service's own words, and for no text."""
    if isinstance(argument, Session):
        return argument
    if not isinstance(argument, str) or argument.casefold() in _WORDS:
        return None
    try:
        return Session.parsed(argument)
    except QueryError:
        return None  # the query says which words the service has


def profile_fields(
    arguments: Mapping[str, Any], session: Session, *, of_sessions: bool
) -> tuple[dict[str, Any], Callable[[pl.DataFrame], pl.DataFrame]]:
    """Return the arguments of a query for the minutes of a profile, and the function that computes it of them.

    Raises
    ------
    QueryError
        If the client cannot compute what the arguments ask for.
    """
    fields = {name: value for name, value in arguments.items() if name not in {"session", "interval"}}
    allowed: dict[str, tuple[tuple[object, ...], str]] = {
        "interval": ((None, "1d"), "1d or nothing"),
        "limit": ((None,), "start and end"),
        "group_by": ((None,), "nothing"),
        "sort_direction": (("asc",), "asc"),
    }
    for parameter, (values, expected) in allowed.items():
        if arguments[parameter] not in values:
            raise QueryError(parameter, got=arguments[parameter], expected=f"{expected}, with a Session")
    block_size, block_minutes = fields.pop("block_size"), fields.pop("block_minutes")
    if block_size is None:
        expected = "the height of a level, with a Session: the client computes here"
        raise QueryError("block_size", got=None, expected=expected)
    options = {"session": session, "block_size": block_size}
    if block_minutes is not None:
        options["block_minutes"] = block_minutes
    return fields | {"interval": "1m"}, partial(_computed, options=options, of_sessions=of_sessions)


def _computed(minutes: pl.DataFrame, *, options: Mapping[str, Any], of_sessions: bool) -> pl.DataFrame:
    """Return the levels, or the sessions, of minute candles by side; whether a session goes on is not known."""
    import polars as pl

    from tidytape.aggregate import candle_tpo, candle_tpo_sessions

    if of_sessions:
        return candle_tpo_sessions(minutes, **options)
    return candle_tpo(minutes, **options).with_columns(is_in_progress=pl.lit(None, pl.Boolean))


def whole_sessions(session: Session, start: int, end: int) -> tuple[int, int]:
    """Return the first open and the last close of the sessions that open in a window, on whole minutes. [s]

    Raises
    ------
    QueryError
        If no session opens in the window, or one opens within a minute.
    """
    from tidytape.frames._trading import sessions_near  # loads what a client without a session does not need

    nearby = sessions_near(session, start * SECOND, end * SECOND)
    sessions = [times for times in nearby if start * SECOND <= times.open < end * SECOND]
    if not sessions:
        window = " to ".join(f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%MZ}" for time in (start, end))
        raise QueryError("start", got=window, expected=f"a window in which a session of {session} opens")
    opens, closes = sessions[0].open // SECOND, sessions[-1].close // SECOND
    if opens % 60 or closes % 60:
        raise QueryError(
            "session", got=str(session), expected="a session that opens and closes on whole minutes"
        )
    return opens, closes
