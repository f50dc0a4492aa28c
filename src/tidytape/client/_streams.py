"""The methods that stream, and the query that their arguments make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Generic, Literal, TypeVar

from tidytape._other_clients import explained
from tidytape.client._following import OnGap
from tidytape.client._live import Keep
from tidytape.client._series import arguments_of, refuse_ignored
from tidytape.client._window import Times
from tidytape.query import PointsQuery, StreamQuery
from tidytape.query._values import Names, TimeLike

LiveT = TypeVar("LiveT")
StreamT = TypeVar("StreamT")

DataTypeName = Literal[
    "TRADE",
    "TRADE_SIDE_AGNOSTIC_AGG",
    "TRADE_AGG",
    "OPEN_INTEREST_AGG",
    "FUNDING_RATE_AGG",
    "LIQUIDATION_AGG",
    "TOKEN_SUPPLY_AGG",
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG",
    "SKEW_OPTION_SUMMARY_AGG",
    "VOLUME_PROFILE_AGG",
    "TPO_AGG",
    "VENUEX_LIQUIDATION_AGG",
    "BLOCK_BOOK_SNAPSHOT_AGG",
    "CME_OPEN_INTEREST_AGG",
    "OPTION_OPEN_INTEREST_AGG",
]
"""The names of the data types, so that an editor completes them; a test compares them with the catalogue."""


def stream_query(arguments: Mapping[str, Any]) -> StreamQuery:
    """Return the query that the arguments of a method describe.

    Raises
    ------
    QueryError
        If an argument is wrong.
    """
    fields = arguments_of(arguments)
    start, end = fields.pop("start", None), fields.pop("end", None)
    if start is not None:
        times = Times(start, end).resolved(lambda: PointsQuery(start=0, end=1, **fields))
        start, end = times[0], None if end is None else times[1]
    query = StreamQuery(type=fields.pop("data_type"), start=start, end=end, **fields)
    refuse_ignored(query)
    return query


@explained
class StreamMethods(ABC, Generic[StreamT, LiveT]):
    """The methods that stream."""

    @abstractmethod
    def _streamed(self, query: StreamQuery, on_gap: OnGap) -> StreamT: ...

    @abstractmethod
    def _followed(self, query: StreamQuery, on_gap: OnGap, keep: Keep) -> LiveT: ...

    def stream(
        self,
        data_type: DataTypeName | str | Iterable[str],
        *,
        exchange: Names = None,
        interval: str | None = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        side: str | None = None,
        token_name: str | None = None,
        tenor: str | None = None,
        quote: str | None = None,
        group_by: str | None = None,
        funding_interval: int | str | timedelta | None = None,
        tpo_block_minutes: int | None = None,
        tpo_session: str | None = None,
        max_depth: int | None = None,
        block_size: float | str | Decimal | None = None,
        event: Names = None,
        token: str | None = None,
        on_gap: OnGap = "raise",
    ) -> StreamT:
        """Stream points: first those from ``start`` on, then each change as the service learns of it.

        A point of the interval in progress comes as updates. When its interval is over, it comes once as a
        final point, and later only as a revision, if a trade came late. The newest value of a point is valid.
        Finals, with all revisions applied, are what a fetch of the same window returns. Raw trades come as
        they arrive.

        Parameters
        ----------
        data_type : str or list of str
            Data type, e.g. ``TRADE_SIDE_AGNOSTIC_AGG``, or several.
        exchange : str or list of str, optional
            Exchange.
        interval : str, optional
            ``1m 5m 15m 30m 1h 4h 1d 1w``; only raw trades have none.
        start : int, datetime, date or str, optional
            Start of the window, inclusive: ISO 8601 or epoch seconds; UTC if it has no zone. ``-1h`` counts
            back from now; the units are s, m, h, d and w. By default the interval in progress.
        end : int, datetime, date or str, optional
            End of the window, exclusive, written like ``start``, which it needs. The stream ends when all
            intervals before ``end`` are final; by default it goes on.
        raw_symbol : str or list of str, optional
            Symbol of the market on its exchange. Select markets by one of ``raw_symbol``, ``coin`` and
            ``normalized_symbol``.
        coin : str or list of str, optional
            Base asset, instead of ``raw_symbol``.
        normalized_symbol : str or list of str, optional
            Symbol that all exchanges share, such as BTC-USD; instead of ``raw_symbol``.
        category : str or list of str, optional
            Only markets of these classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        side : str, optional
            Only this side: BUY or SELL.
        token_name : str, optional
            Token of a supply query.
        tenor : str, optional
            Time to expiry of an option summary.
        quote : str, optional
            ``USD`` converts amounts.
        group_by : str, optional
            ``sum`` or ``open_interest_weighted_avg``: the exchanges become one series.
        funding_interval : int, str or timedelta, optional
            Interval that all funding rates are converted to. A number is in milliseconds.
        tpo_block_minutes : int, optional
            Length of a time block of a market profile: 5, 30, 60 or 240. [min]
        tpo_session : str, optional
            Length of a session of a market profile: ``daily``, ``weekly`` or ``monthly``.
        max_depth : int, optional
            Largest number of price levels per side of a heatmap.
        block_size : number, optional
            Height of a price level; by default the service chooses it. [quote per coin]
        event : str or list of str, optional
            Slugs of prediction-market events.
        token : str, optional
            Resume token of the last batch that was applied; the other arguments are as they were.
        on_gap : {"raise", "restart"}
            What to do when the service can no longer go on from the token: raise `StreamGapError`, or start anew from
            the first interval that was not final, and say so in ``gap`` of the next batch.

        Returns
        -------
        Stream or AsyncStream of StreamBatch
            An iterator of batches, and a context manager. Each batch has the frames ``frame``, ``finals``, ``updates``
            and ``revisions``, in the schema of a fetch of the same type, the time ``over`` and a resume ``token``.

        Raises
        ------
        QueryError
            If an argument is wrong; then nothing was sent.
        TapeError
            If the client records or replays a tape, which cannot hold a stream.
        TransportError
            If the client is offline.
        FetchError
            During the iteration, by its subclasses: `StreamGapError`, see ``on_gap``; `DecodeError`, a line that breaks
            the contract or is longer than ``max_body``; `ServiceError`, no answer within the ``attempts`` and the
            ``deadline`` of the client, counted anew after each batch.

        Notes
        -----
        It is no error if the connection is cut, or the service shuts down or is silent for 45 s: the stream goes on
        after the last complete batch. Streams do not count for ``parallel``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     hour = client.stream(
        ...         "TRADE_SIDE_AGNOSTIC_AGG", exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="1m",
        ...         start="2024-08-08T00:00Z", end="2024-08-08T01:00Z",
        ...     )
        ...     sum(batch.finals.height for batch in hour)
        60
        """
        arguments = {name: value for name, value in locals().items() if name != "on_gap"}
        return self._streamed(stream_query(arguments), on_gap)

    def live(
        self,
        data_type: DataTypeName | str | Iterable[str],
        *,
        keep: str | int | timedelta = "1d",
        exchange: Names = None,
        interval: str | None = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        side: str | None = None,
        token_name: str | None = None,
        tenor: str | None = None,
        quote: str | None = None,
        group_by: str | None = None,
        funding_interval: int | str | timedelta | None = None,
        tpo_block_minutes: int | None = None,
        tpo_session: str | None = None,
        max_depth: int | None = None,
        block_size: float | str | Decimal | None = None,
        event: Names = None,
        token: str | None = None,
        on_gap: OnGap = "raise",
    ) -> LiveT:
        """Follow a stream in the background, and keep the newest value of each point in a frame.

        Parameters
        ----------
        data_type : str or list of str
            Data type, e.g. ``TRADE_SIDE_AGNOSTIC_AGG``, or several.
        keep : str, timedelta or int, default '1d'
            How much to keep: a time before the newest point, as ``"4h"``, or a number of rows.
        exchange : str or list of str, optional
            Exchange.
        interval : str, optional
            ``1m 5m 15m 30m 1h 4h 1d 1w``; only raw trades have none.
        start : int, datetime, date or str, optional
            Start of the window, inclusive: ISO 8601 or epoch seconds; UTC if it has no zone. ``-1h`` counts
            back from now; the units are s, m, h, d and w. By default the interval in progress.
        end : int, datetime, date or str, optional
            End of the window, exclusive, written like ``start``, which it needs. The stream ends when all
            intervals before ``end`` are final; by default it goes on.
        raw_symbol : str or list of str, optional
            Symbol of the market on its exchange. Select markets by one of ``raw_symbol``, ``coin`` and
            ``normalized_symbol``.
        coin : str or list of str, optional
            Base asset, instead of ``raw_symbol``.
        normalized_symbol : str or list of str, optional
            Symbol that all exchanges share, such as BTC-USD; instead of ``raw_symbol``.
        category : str or list of str, optional
            Only markets of these classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        side : str, optional
            Only this side: BUY or SELL.
        token_name : str, optional
            Token of a supply query.
        tenor : str, optional
            Time to expiry of an option summary.
        quote : str, optional
            ``USD`` converts amounts.
        group_by : str, optional
            ``sum`` or ``open_interest_weighted_avg``: the exchanges become one series.
        funding_interval : int, str or timedelta, optional
            Interval that all funding rates are converted to. A number is in milliseconds.
        tpo_block_minutes : int, optional
            Length of a time block of a market profile: 5, 30, 60 or 240. [min]
        tpo_session : str, optional
            Length of a session of a market profile: ``daily``, ``weekly`` or ``monthly``.
        max_depth : int, optional
            Largest number of price levels per side of a heatmap.
        block_size : number, optional
            Height of a price level; by default the service chooses it. [quote per coin]
        event : str or list of str, optional
            Slugs of prediction-market events.
        token : str, optional
            Resume token of the last batch that was applied; the other arguments are as they were.
        on_gap : {"raise", "restart"}
            What to do when the service can no longer go on from the token: raise `StreamGapError`, or start anew from
            the first interval that was not final, and say so in ``gap`` of the next batch.

        Returns
        -------
        Live
            ``live.frame`` is the frame as it is now, ``live.wait()`` waits for the next batch, and ``live.stop()`` ends
            the stream. `Live` is a context manager too. ``tidytape.plot.live`` draws the frame as it grows.

        Raises
        ------
        QueryError, TapeError, TransportError
            The same errors as ``client.stream``. ``live.error`` has a later error, and ``live.wait`` raises it.

        Notes
        -----
        With an ``AsyncClient`` too, a thread follows the stream, so do not await this method.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     live = client.live(
        ...         "TRADE_AGG", exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="1h", start="2024-08-08", keep=10
        ...     )
        ...     with live:
        ...         live.wait()
        ...     live.frame.height
        True
        10
        """
        arguments = {name: value for name, value in locals().items() if name not in {"on_gap", "keep"}}
        return self._followed(stream_query(arguments), on_gap, Keep(keep))
