"""Profiles: what was traded, and how long, at each price."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from tidytape.catalogue import Interval
from tidytape.client.series.wanted import Asking, Wanted
from tidytape.errors import IncompleteDataError, QueryError
from tidytape.query import respelled
from tidytape.query.values import Names, TimeLike
from tidytape.schema import TPO_SESSIONS, Schema

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Profiles"]

ResultT = TypeVar("ResultT")


class Profiles(Asking[ResultT]):
    """Volume profiles and market profiles."""

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

        Parameters
        ----------
        exchange : str or list of str
            Venue.
        interval : str
            ``1m 5m 15m 30m 1h 4h 1d 1w``.
        start : int, datetime, date or str
            Start, inclusive: ISO 8601 or epoch seconds; no zone means UTC.
        end : int, datetime, date or str
            End, exclusive; as ``start``.
        raw_symbol : str or list of str, optional
            Exchange-native symbol; exactly one of this, ``coin`` and ``normalized_symbol`` picks the
            markets.
        coin : str or list of str, optional
            Base asset, instead of ``raw_symbol``.
        normalized_symbol : str or list of str, optional
            Cross-exchange symbol, instead of ``raw_symbol``.
        category : str or list of str, optional
            Keep these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        block_size : number, optional
            Height of a price level; the service chooses one otherwise. [quote per coin]
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``; prices always ascend.
        quote : str, optional
            ``USD`` converts the volumes; prices stay as they are.
        group_by : str, optional
            ``sum`` joins the markets of a coin into one profile; volumes are in USD then.
        event : str or list of str, optional
            Slugs of prediction-market events.

        Returns
        -------
        frame, one row per series, timestamp and price, key (exchange, raw_symbol, timestamp, price)
            Sorted by the key, in time as asked. Schema VOLUME_PROFILE_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``block_size`` : float64, Height of a price level; null where not known. [quote per coin]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``price`` : float64, Low edge of the level. [quote per coin]
            - ``buy_volume`` : float64, Volume of aggressive buys at the level. [coin or USD, see
              amount_unit]
            - ``sell_volume`` : float64, Volume of aggressive sells at the level. [coin or USD, see
              amount_unit]
            - ``volume`` : float64, buy_volume + sell_volume. [coin or USD, see amount_unit]
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]

        Raises
        ------
        QueryError
            If the request cannot be right; nothing was sent or charged.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer is not what the contract says, is of something else, or is longer than
            ``max_body``.
        IncompleteDataError
            If a row came twice with different values.

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

        Parameters
        ----------
        exchange : str or list of str
            Venue.
        start : int, datetime, date or str
            Start, inclusive: ISO 8601 or epoch seconds; no zone means UTC.
        end : int, datetime, date or str
            End, exclusive; as ``start``.
        interval : str, optional
            ``1m 5m 15m 30m 1h 4h 1d 1w``: how long a session is, and what its points weigh, unless
            ``session`` says so; one of both.
        raw_symbol : str or list of str, optional
            Exchange-native symbol; exactly one of this, ``coin`` and ``normalized_symbol`` picks the
            markets.
        coin : str or list of str, optional
            Base asset, instead of ``raw_symbol``.
        normalized_symbol : str or list of str, optional
            Cross-exchange symbol, instead of ``raw_symbol``.
        category : str or list of str, optional
            Keep these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        block_minutes : int, optional
            Length of a block of time: 5, 30, 60, 240; 30 unless given. [min]
        session : str, optional
            Length of a session: ``daily``, ``weekly``, ``monthly``, from 00:00 UTC, weeks from Monday,
            months from the first; a session is one ``interval`` long unless given. It counts where it
            starts: one that began before ``start`` is left out.
        block_size : number, optional
            Height of a price level; the service chooses one otherwise. [quote per coin]
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``; prices always ascend.
        quote : str, optional
            ``USD`` converts the volumes; prices stay as they are.
        group_by : str, optional
            ``sum`` joins the markets of a coin into one profile; volumes are in USD then.
        event : str or list of str, optional
            Slugs of prediction-market events.

        Returns
        -------
        frame, one row per series, timestamp and price, key (exchange, raw_symbol, timestamp, price)
            Sorted by the key, in time as asked. Schema TPO_AGG: exchange, raw_symbol, normalized_symbol,
            coin, category, interval [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``block_size`` : float64, Height of a price level; null where not known. [quote per coin]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Session start. [UTC]
            - ``period_start`` : timestamp, Profile period start. [UTC]
            - ``period_end`` : timestamp, Profile period end. [UTC]
            - ``block_size_minutes`` : int64, Length of a time block. [min]
            - ``poc_price`` : float64, Point of control. [quote per coin]
            - ``vah_price`` : float64, Value area high. [quote per coin]
            - ``val_price`` : float64, Value area low. [quote per coin]
            - ``profile_high`` : float64, Highest level. [quote per coin]
            - ``profile_low`` : float64, Lowest level. [quote per coin]
            - ``opening_price`` : float64, First price of the session. [quote per coin]
            - ``closing_price`` : float64, Last price of the session. [quote per coin]
            - ``ibr_high`` : float64, Initial balance high. [quote per coin]
            - ``ibr_low`` : float64, Initial balance low. [quote per coin]
            - ``total_tpo_count`` : int64, Sum of the levels' counts. [TPO]
            - ``value_area_percentage`` : float64, Share of the counts inside the value area. [%]
            - ``poor_highs`` : list[float64], Poor highs. [quote per coin]
            - ``poor_lows`` : list[float64], Poor lows. [quote per coin]
            - ``total_volume`` : float64, Sum of the levels' volumes. [coin or USD, see amount_unit]
            - ``single_prints`` : list[float64], Levels touched by exactly one block. [quote per coin]
            - ``price`` : float64, Low edge of the level. [quote per coin]
            - ``block_ids`` : list[int32], Blocks, from 0 at the session's start, that touched the level.
            - ``buy_volume`` : float64, Volume of aggressive buys at the level. [coin or USD, see
              amount_unit]
            - ``sell_volume`` : float64, Volume of aggressive sells at the level. [coin or USD, see
              amount_unit]
            - ``tpo_count`` : int64, Number of blocks that touched the level. [TPO]
            - ``volume`` : float64, Volume at the level. [coin or USD, see amount_unit]
            - ``first_touch_block`` : int64, First block that touched the level.
            - ``last_touch_block`` : int64, Last block that touched the level.
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]

        Raises
        ------
        QueryError
            If the request cannot be right; nothing was sent or charged.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer is not what the contract says, is of something else, or is longer than
            ``max_body``.
        IncompleteDataError
            If a row came twice with different values.

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

        Parameters
        ----------
        exchange : str or list of str
            Venue.
        start : int, datetime, date or str
            Start, inclusive: ISO 8601 or epoch seconds; no zone means UTC.
        end : int, datetime, date or str
            End, exclusive; as ``start``.
        interval : str, optional
            ``1m 5m 15m 30m 1h 4h 1d 1w``: how long a session is, and what its points weigh, unless
            ``session`` says so; one of both.
        raw_symbol : str or list of str, optional
            Exchange-native symbol; exactly one of this, ``coin`` and ``normalized_symbol`` picks the
            markets.
        coin : str or list of str, optional
            Base asset, instead of ``raw_symbol``.
        normalized_symbol : str or list of str, optional
            Cross-exchange symbol, instead of ``raw_symbol``.
        category : str or list of str, optional
            Keep these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        block_minutes : int, optional
            Length of a block of time: 5, 30, 60, 240; 30 unless given. [min]
        session : str, optional
            Length of a session: ``daily``, ``weekly``, ``monthly``, from 00:00 UTC, weeks from Monday,
            months from the first; a session is one ``interval`` long unless given. It counts where it
            starts: one that began before ``start`` is left out.
        block_size : number, optional
            Height of a price level; the service chooses one otherwise. [quote per coin]
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.
        quote : str, optional
            ``USD`` converts the volumes; prices stay as they are.
        group_by : str, optional
            ``sum`` joins the markets of a coin into one profile; volumes are in USD then.
        event : str or list of str, optional
            Slugs of prediction-market events.

        Returns
        -------
        frame, one row per series and session, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time as asked. Schema TPO_SESSIONS: exchange, raw_symbol,
            normalized_symbol, coin, category, interval [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``block_size`` : float64, Height of a price level; null where not known. [quote per coin]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Session start. [UTC]
            - ``period_start`` : timestamp, Profile period start. [UTC]
            - ``period_end`` : timestamp, Profile period end. [UTC]
            - ``block_size_minutes`` : int64, Length of a time block. [min]
            - ``poc_price`` : float64, Point of control. [quote per coin]
            - ``vah_price`` : float64, Value area high. [quote per coin]
            - ``val_price`` : float64, Value area low. [quote per coin]
            - ``profile_high`` : float64, Highest level. [quote per coin]
            - ``profile_low`` : float64, Lowest level. [quote per coin]
            - ``opening_price`` : float64, First price of the session. [quote per coin]
            - ``closing_price`` : float64, Last price of the session. [quote per coin]
            - ``ibr_high`` : float64, Initial balance high. [quote per coin]
            - ``ibr_low`` : float64, Initial balance low. [quote per coin]
            - ``total_tpo_count`` : int64, Sum of the levels' counts. [TPO]
            - ``value_area_percentage`` : float64, Share of the counts inside the value area. [%]
            - ``poor_highs`` : list[float64], Poor highs. [quote per coin]
            - ``poor_lows`` : list[float64], Poor lows. [quote per coin]
            - ``total_volume`` : float64, Sum of the levels' volumes. [coin or USD, see amount_unit]
            - ``single_prints`` : list[float64], Levels touched by exactly one block. [quote per coin]
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]

        Raises
        ------
        QueryError
            If the request cannot be right; nothing was sent or charged.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer is not what the contract says, is of something else, or is longer than
            ``max_body``.
        IncompleteDataError
            If a row came twice with different values.

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
