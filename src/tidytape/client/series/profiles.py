"""Profiles: what was traded, and how long, at each price."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from tidytape.catalogue import Interval
from tidytape.client.documented import documented
from tidytape.client.series.wanted import Asking, Wanted
from tidytape.errors import IncompleteDataError, QueryError
from tidytape.query import respelled
from tidytape.query.values import Names, TimeLike
from tidytape.schema import TPO_SESSIONS, Schema, schema_of

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Profiles"]

ResultT = TypeVar("ResultT")

_IN_TIME = "Order in time, ``asc`` or ``desc``; prices always ascend."
_VOLUMES = "``USD`` converts the volumes; prices stay as they are."
_SESSION = (
    f"``{' '.join(one.alias for one in Interval)}``: how long a session is, and what its points weigh, unless "
    "``session`` says so; one of both."
)
_PROFILES = "``sum`` joins the markets of a coin into one profile; volumes are in USD then."


class Profiles(Asking[ResultT]):
    """Volume profiles and market profiles."""

    @documented(
        schema_of("VOLUME_PROFILE_AGG"),
        sort_direction=_IN_TIME,
        quote=_VOLUMES,
        group_by=_PROFILES,
    )
    def volume_profile(
        self,
        *,
        exchange: Names,
        interval: str,
        start: TimeLike,
        end: TimeLike,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        block_size: float | str | Decimal | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch the volume traded at each price level.

        Each interval has a profile of its own.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     levels = client.volume_profile(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09",
        ...         block_size=100,
        ...     )
        >>> bool((levels["price"] % 100 == 0).all())
        True
        """
        return self._points(Wanted.of("VOLUME_PROFILE_AGG", locals()))

    @documented(
        schema_of("TPO_AGG"), interval=_SESSION, sort_direction=_IN_TIME, quote=_VOLUMES, group_by=_PROFILES
    )
    def tpo(
        self,
        *,
        exchange: Names,
        start: TimeLike,
        end: TimeLike,
        interval: str | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        block_minutes: int | None = None,
        session: str | None = None,
        block_size: float | str | Decimal | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch market profiles (TPO), level by level.

        Time price opportunity: which blocks of time touched each price level. What is said of a session as a whole, its
        value area for one, stands in each of its rows. A session is a day, a week from Monday on or a calendar month
        with ``session``, which needs no ``interval``, or else one ``interval`` long. Where both are given ``session``
        counts, and ``interval`` only says what it weighs.

        See Also
        --------
        tpo_sessions : The same sessions, one row each.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     levels = client.tpo(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09",
        ...         session="daily", block_minutes=30, block_size=100,
        ...     )
        >>> int(levels["block_ids"].explode().n_unique())
        48
        """
        return self._points(_tpo(locals()))

    @documented(TPO_SESSIONS, interval=_SESSION, quote=_VOLUMES, group_by=_PROFILES)
    def tpo_sessions(
        self,
        *,
        exchange: Names,
        start: TimeLike,
        end: TimeLike,
        interval: str | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        block_minutes: int | None = None,
        session: str | None = None,
        block_size: float | str | Decimal | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch market profiles (TPO), session by session.

        Point of control, value area, initial balance and the rest, without the levels. The request, ``session`` and
        ``interval`` among it, and what it costs are those of ``tpo``. Fields that the contract does not name are left
        out.

        See Also
        --------
        tpo : The levels.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.tpo_sessions(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09",
        ...         session="daily", block_size=100,
        ...     )
        >>> day.select("val_price", "poc_price", "vah_price").rows()
        [(...)]
        """
        wanted = _tpo(locals())
        grouped = wanted.queries[0].group_by is not None
        schema = TPO_SESSIONS.with_coverage() if grouped else TPO_SESSIONS
        return self._points(
            Wanted(wanted.queries, schema, lambda levels: _sessions(levels, schema, grouped=grouped))
        )


def _tpo(arguments: Mapping[str, Any]) -> Wanted:
    """What is wanted of market profiles, whose options have a prefix in a query of any type."""
    prefixed = {"block_minutes": "tpo_block_minutes", "session": "tpo_session"}
    asked = {prefixed.get(name, name): value for name, value in arguments.items()}
    if asked["interval"] is None:
        if asked["tpo_session"] is None:
            raise QueryError(
                "interval",
                got=None,
                expected="how long a session is: a session ('daily', 'weekly', 'monthly'), or an interval ('4h')",
                code="INVALID_INTERVAL",
            )
        # The contract wants one. Every session starts with a day, and the days of a window weigh next to nothing.
        asked["interval"] = Interval.DAY
    try:
        return Wanted.of("TPO_AGG", asked)
    except QueryError as error:
        raise respelled(error, {query: method for method, query in prefixed.items()}) from None


def _sessions(levels: pl.DataFrame, schema: Schema, *, grouped: bool) -> pl.DataFrame:
    """Return one row per session, with what it says as a whole; a tape of an older release lacks some columns."""
    names = [name for name in schema.names if name in levels.columns]
    sessions = levels.select(names).unique(maintain_order=True)
    key = schema.key_of(grouped=grouped)
    twice = sessions.filter(sessions.select(key).is_duplicated())
    if not twice.is_empty():
        moments = tuple(twice["timestamp"].dt.epoch("s").unique().sort())
        raise IncompleteDataError(
            f"TPO_AGG: {len(moments)} sessions came twice with different values, the first at {moments[0]}",
            missing=tuple((moment, moment + 1) for moment in moments),
        )
    return sessions
