"""The methods that fetch series. Each makes a query from its arguments; other modules fetch it."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidytape._other_clients import explained, unknown_name
from tidytape.budget import weight
from tidytape.catalogue import DATA_TYPES, Interval, Selection
from tidytape.client._display import facts_table, of_query
from tidytape.client._session_profiles import profile_fields, session_of, whole_sessions
from tidytape.client._window import Times
from tidytape.errors import QueryError, counted
from tidytape.frames._sources import CLIENT_CALLS
from tidytape.query import PointsQuery
from tidytape.query._points import PointFields
from tidytape.query._values import Names, TimeLike, flag, many
from tidytape.schema import TPO_SESSIONS, Schema, schema_of
from tidytape.sessions import Session
from tidytape.wire import levels_of, sessions_of

if TYPE_CHECKING:
    import polars as pl


ResultT = TypeVar("ResultT")
SeriesT = TypeVar("SeriesT")


@dataclass(frozen=True, slots=True, repr=False)
class FetchQuery:
    """A query to fetch later: what a method of ``client.query`` returns.

    ``client.fetch`` fetches it, ``client.iter_frames`` and ``client.to_parquet`` fetch it in parts, and ``client.plan``
    returns the requests and their weight.

    Attributes
    ----------
    queries : tuple of PointsQuery
        The requests that cover the window, of one data type, oldest first.
    schema : Schema
        The schema of the frame that the method returns.
    finish : callable, optional
        Computes that frame from the frame of the data type; None if the two are the same.
    relative : tuple of (str, str)
        The times as the caller wrote them, if they depend on the time of the call; else empty. ``queries`` has the
        absolute times.
    session : Session, optional
        The session whose profiles `finish` computes, of minutes that cover whole sessions.

    Examples
    --------
    >>> import tidytape
    >>> with tidytape.Client.demo() as client:
    ...     query = client.query.candles(
    ...         exchange="DEMO_SPOT", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-09"
    ...     )
    ...     client.fetch(query).frame.height
    24
    """

    queries: tuple[PointsQuery, ...]
    """The requests that cover the window, of one data type, oldest first."""

    schema: Schema
    """The schema of the frame that the method returns."""

    finish: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    """Computes that frame from the frame of the data type; None if the two are the same."""

    relative: tuple[tuple[str, str], ...] = ()
    """The times as the caller wrote them, if they depend on the time of the call."""

    session: Session | None = None
    """The session whose profiles `finish` computes; the queries then cover whole sessions."""

    if not TYPE_CHECKING:  # a type checker would accept any name at all

        def __getattr__(self, name):
            raise unknown_name(self, name, dir(type(self)))

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Any]) -> FetchQuery:
        """Return the query of a data type from the arguments of a method.

        Raises
        ------
        QueryError
            If an argument is wrong.
        """
        fields = arguments_of(arguments)
        is_of_all = "exchange" not in fields and DATA_TYPES[name].selection in _OF_EXCHANGES
        if is_of_all:
            if "coin" not in fields:
                expected = "an exchange; or ``coin`` instead of a symbol, for every exchange that has it"
                raise QueryError("exchange", got=None, expected=expected, code="INVALID_EXCHANGE")
            fields["exchange"] = "every"  # until the rules between the other fields are checked
        times = Times(*(fields.pop(parameter, None) for parameter in ("start", "end", "limit")))
        start, end = times.resolved(lambda: PointsQuery(type=name, start=0, end=1, **fields))
        queries = tuple(PointsQuery.split(type=name, start=start, end=end, **fields))
        if is_of_all:
            queries = tuple(query.model_copy(update={"exchange": ()}) for query in queries)
        return replace(cls.whole(queries), relative=times.written if times.are_relative else ())

    @classmethod
    def whole(cls, queries: tuple[PointsQuery, ...]) -> FetchQuery:
        """Return the query for the frame of a data type; of a market profile that of its levels."""
        query = queries[0]
        schema = schema_of(query.type[0], grouped=query.group_by is not None)
        has_sessions = query.data_types[0].has_sessions
        return cls(queries, schema, partial(levels_of, name=query.type[0]) if has_sessions else None)

    @property
    def is_of_all_exchanges(self) -> bool:
        """Whether the caller named no exchange, so that the client must ask which exchanges have the data type."""
        query = self.queries[0]
        return not query.exchange and any(kind.selection in _OF_EXCHANGES for kind in query.data_types)

    def on(self, exchanges: Sequence[str]) -> FetchQuery:
        """Return the same query with named exchanges."""
        update = {"exchange": tuple(exchanges)}
        return replace(self, queries=tuple(query.model_copy(update=update) for query in self.queries))

    def over(self, start: int, end: int) -> FetchQuery:
        """Return the same query with absolute times."""
        if self.session is not None:
            start, end = whole_sessions(self.session, start, end)
        query = self.queries[0].model_copy(update={"start": start, "end": end})
        return replace(self, queries=(query,), relative=())

    def __repr__(self) -> str:
        """Return the query and its cost on one line."""
        return f"<FetchQuery {self._in_words}: {self._cost}>"

    def _repr_html_(self) -> str:
        """Return the query, its cost and the columns of its frame as a table for a notebook."""
        columns = ", ".join(self.schema.names)
        return facts_table("FetchQuery", {"query": self._in_words, "at most": self._cost, "columns": columns})

    @property
    def _in_words(self) -> str:
        words = of_query(self.queries[0], self.queries[0].start, self.queries[-1].end)
        return f"{words}, every exchange" if self.is_of_all_exchanges else words

    @property
    def _cost(self) -> str:
        is_least = self.is_of_all_exchanges and self.queries[0].group_by is not None
        total = f"{'at least ' if is_least else ''}{sum(map(weight, self.queries)):,}"
        return f"{counted(len(self.queries), 'request')}, weight {total}"


_OF_EXCHANGES = (Selection.MARKET, Selection.OPTION_SUMMARY)
"""How data types whose markets lie on exchanges select them."""

_TYPES = {call.partition("(")[0]: name for name, call in reversed([*CLIENT_CALLS.items()])} | {
    "tpo_sessions": "TPO_AGG"
}
"""The data type that each method fetches."""

_REQUIRED = ("interval",)


def refuse_ignored(query: PointFields) -> None:
    """Raise QueryError if the query has a parameter that all its data types ignore."""
    for name, fact in (("max_depth", "included_depth"), ("funding_interval", "funding_interval")):
        is_taken = len(query.data_types) < len(query.type) or any(
            getattr(kind, fact) for kind in query.data_types
        )
        if getattr(query, name) is not None and not is_taken:
            expected = f"no value; {' and '.join(query.type)} would ignore it"
            raise QueryError(name, got=getattr(query, name), expected=expected, code="UNSUPPORTED")


def arguments_of(
    arguments: Mapping[str, Any], *, omit: frozenset[str] | set[str] = frozenset()
) -> dict[str, Any]:
    """Return the arguments that the caller of a method passed, without ``omit``; ``interval`` also if it is None.

    In ``type`` and ``data_type`` the name of a method becomes the data type that it fetches.

    Examples
    --------
    >>> arguments_of({"self": 0, "coin": "BTC", "side": None, "interval": None})
    {'coin': 'BTC', 'interval': None}
    >>> arguments_of({"type": ["candles", "TRADE_AGG"]})
    {'type': ['TRADE_SIDE_AGNOSTIC_AGG', 'TRADE_AGG']}
    """
    fields = {
        name: value
        for name, value in arguments.items()
        if name != "self" and name not in omit and (value is not None or name in _REQUIRED)
    }
    for name in {"type", "data_type"} & fields.keys():
        words = many(fields[name], "type")
        fields[name] = [_TYPES.get(word, word) if isinstance(word, str) else word for word in words]
    return fields


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring by their titles; the text before the first section has the title ""."""
    parts = re.split(r"(?:^|\n\n)(\w[\w ]*)\n-+\n", text)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


_TITLES = ("Parameters", "Returns", "Raises", "See Also", "Notes", "Examples")
_PARAMETER = re.compile(r"^(\w+) : .+\n(?:    .+\n?)+", re.MULTILINE)


def _with_shared(kind: type[SeriesT]) -> type[SeriesT]:
    """Add the shared parameters and sections, which the docstring of the class has, to the docstring of each method."""
    shared = _sections(inspect.cleandoc(kind.__doc__ or ""))
    for name, method in vars(kind).items():
        if name.startswith("_") or method.__doc__ is None:  # python -OO removes docstrings
            continue
        sections = _sections(inspect.cleandoc(method.__doc__))
        described = {
            entry[1]: entry[0].rstrip("\n")
            for text in (shared["Parameters"], sections.get("Parameters", ""))
            for entry in _PARAMETER.finditer(text)
        }
        names = [name for name in inspect.signature(method).parameters if name != "self"]
        sections["Parameters"] = "\n".join(map(described.__getitem__, names))
        complete = {"Raises": shared["Raises"], "Notes": shared["Notes"], **sections}
        titled = [f"{title}\n{'-' * len(title)}\n{complete[title]}" for title in _TITLES if title in complete]
        method.__doc__ = "\n\n".join([sections[""], *titled])
    return kind


@explained
@_with_shared
class SeriesMethods(ABC, Generic[ResultT]):
    """The methods that fetch points. All arguments are keyword-only.

    Windows are half-open: ``start`` belongs to them, ``end`` does not. Times are epoch seconds, datetimes, dates or
    ISO 8601 strings; a time without a zone is UTC. A candle or profile belongs to the window if its interval starts
    there: a window from 23:50 to 00:05 has one candle of an hour, which starts at midnight. If a window is longer than
    one request may be, the client sends several requests.

    The sections below hold for every method. In the source, the docstring of a method has only its own parameters.
    `_with_shared` adds the others, so that ``help`` shows all of them.

    Parameters
    ----------
    exchange : str or list of str, optional
        Exchange. With a ``coin``, by default every exchange that has the data type.
    interval : str
        ``1m 5m 15m 30m 1h 4h 1d 1w``.
    start : int, datetime, date or str, optional
        Start of the window, inclusive: ISO 8601 or epoch seconds; UTC if it has no zone. ``-30d`` counts
        back from now; the units are s, m, h, d and w.
    end : int, datetime, date or str, optional
        End of the window, exclusive, written like ``start``; by default now.
    limit : int, optional
        Instead of ``start``: the number of intervals before ``end``. An interval in which nothing
        happened may have no point.
    raw_symbol : str or list of str, optional
        Symbol of the market on its exchange. Select markets by one of ``raw_symbol``, ``coin`` and
        ``normalized_symbol``.
    coin : str or list of str, optional
        Base asset, instead of ``raw_symbol``.
    normalized_symbol : str or list of str, optional
        Symbol that all exchanges share, such as BTC-USD; instead of ``raw_symbol``.
    category : str or list of str, optional
        Only markets of these classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
    sort_direction : str, default 'asc'
        Order in time, ``asc`` or ``desc``.
    event : str or list of str, optional
        Slugs of prediction-market events.
    block_size : number, optional
        Height of a price level; by default the service chooses it. [quote per coin]

    Raises
    ------
    QueryError
        If an argument is wrong; then nothing was sent. If only the service can know that, the error is
        a `RefusedQueryError`. Neither costs weight.
    FetchError
        If the fetch fails, by its subclasses: `ServiceError`, no answer in time; `BudgetError`, a longer
        wait for the budget than ``max_wait``; `DecodeError`, an answer that breaks the API, belongs to
        another query or is longer than ``max_body``; `IncompleteDataError`, a part is missing or a row
        came twice with different values; `TapeError`, the tape has no answer to this query.

    Notes
    -----
    ``client.query`` has the same method. It takes the same arguments, fetches nothing, and returns a `FetchQuery` for
    ``client.fetch`` and ``client.plan``.
    """

    @abstractmethod
    def _points(self, query: FetchQuery) -> ResultT: ...

    if not TYPE_CHECKING:  # a type checker would accept any name at all

        def __getattr__(self, name):
            raise unknown_name(self, name, dir(type(self)))

    # --- prices ---

    def candles(
        self,
        *,
        exchange: Names = None,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        by_side: bool = False,
        side: str | None = None,
        sort_direction: str = "asc",
        gapfill: bool = False,
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch candles.

        Parameters
        ----------
        by_side : bool, default False
            One series for BUY and one for SELL, the side of the aggressor. ``side`` implies it.
        side : str, optional
            Only this side: BUY or SELL.
        gapfill : bool, default False
            Fill intervals without trades with the last close, if the service can.
        quote : str, optional
            ``USD`` converts the volume to USD; prices stay in the quote of the market.
        group_by : str, optional
            ``sum`` adds up the markets of a coin into one series, with amounts in USD.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time by ``sort_direction``. Schema TRADE_SIDE_AGNOSTIC_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, normalized_symbol, coin, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]
            - ``first_timestamp`` : timestamp, Time of the first trade. [UTC]
            - ``last_timestamp`` : timestamp, Time of the last trade. [UTC]
            - ``open`` : float64, Price of the first trade. [quote per coin]
            - ``high`` : float64, Highest price. [quote per coin]
            - ``low`` : float64, Lowest price. [quote per coin]
            - ``close`` : float64, Price of the last trade. [quote per coin]
            - ``volume`` : float64, Traded volume, of the series' side where it has one. [coin or USD, see
              amount_unit]

            By side the schema is TRADE_AGG: ``side``, BUY or SELL, stands after ``raw_symbol``, and the key, by
            which rows are sorted, is (exchange, raw_symbol, side, timestamp): of each market first BUY, then
            SELL. If the source of some trades does not tell their side, these have candles of their own, whose
            ``side`` is null, before those of BUY.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.candles(
        ...         exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="1h", start="2024-08-08", end="2024-08-09"
        ...     )
        >>> day.height
        24
        """
        name = "TRADE_AGG" if flag(by_side, "by_side") or side else "TRADE_SIDE_AGNOSTIC_AGG"
        return self._points(FetchQuery.of(name, arguments_of(locals(), omit={"by_side", "name"})))

    def trades(
        self,
        *,
        exchange: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        side: str | None = None,
        sort_direction: str = "asc",
        event: Names = None,
    ) -> ResultT:
        """Fetch raw trades.

        BUY and SELL, the sides of the aggressor, are two series; ``side`` is null if the source does not tell.
        A trade has no interval: the column ``interval`` is null, or has the interval that the service uses for
        the weight of trades.

        Parameters
        ----------
        side : str, optional
            Only this side: BUY or SELL.

        Returns
        -------
        frame, one row per trade, key (exchange, raw_symbol, side, timestamp, id)
            Sorted by exchange, raw_symbol, timestamp and id, so both sides of a market are in the order of time, by
            ``sort_direction``. Schema TRADE, in this order:

            - ``timestamp`` : timestamp, Time of the trade. [UTC]
            - exchange, raw_symbol, side, normalized_symbol, coin, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``id`` : string, Exchange-native trade id.
            - ``price`` : float64, Price. [quote per coin]
            - ``amount`` : float64, Amount. [coin or USD, see amount_unit]
            - ``quote_amount`` : float64, Amount in terms of the quote. [quote]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     minute = client.trades(
        ...         exchange="DEMO_SPOT", coin="BTC", start="2024-08-08T12:00", end="2024-08-08T12:01", side="buy"
        ...     )
        >>> minute["side"].unique().to_list()
        ['BUY']
        """
        return self._points(FetchQuery.of("TRADE", locals()))

    # --- derivatives ---

    def open_interest(
        self,
        *,
        exchange: Names = None,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch the open interest of perpetuals.

        An interval without a report has no row. With ``quote="USD"`` all values are null if the service has
        no price of the market, neither from trades nor from recorded candles; then `candles` returns no rows.

        Parameters
        ----------
        quote : str, optional
            ``USD`` converts at the price at which the interval closed.
        group_by : str, optional
            ``sum`` adds up the markets of a coin, in USD; each counts with its last value for up to 24
            hours.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time by ``sort_direction``. Schema OPEN_INTEREST_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, normalized_symbol, coin, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]
            - ``open`` : float64, First open interest. [coin or USD, see amount_unit]
            - ``high`` : float64, Highest open interest. [coin or USD, see amount_unit]
            - ``low`` : float64, Lowest open interest. [coin or USD, see amount_unit]
            - ``close`` : float64, Last open interest. [coin or USD, see amount_unit]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.open_interest(
        ...         exchange="DEMO_PERP", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-09", quote="USD"
        ...     )
        >>> day.height
        24
        """
        return self._points(FetchQuery.of("OPEN_INTEREST_AGG", locals()))

    def funding(
        self,
        *,
        exchange: Names = None,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        funding_interval: int | str | timedelta | None = None,
        sort_direction: str = "asc",
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch funding rates and predicted rates of perpetuals.

        If a rate is positive, longs pay shorts. The predicted rate is the rate of the next settlement. Each rate
        is a fraction of the position's value per ``funding_interval``, by default 8 hours, whatever the
        interval of the exchange. Rates are converted in proportion: a rate per 8 hours is eight times the
        rate per hour. There is no column for this interval, because it is the same in all rows; ``interval``
        is the time that a row covers.

        Parameters
        ----------
        funding_interval : int, str or timedelta, optional
            Interval that all rates are converted to, e.g. ``1h``; by default 8 hours. A number is in
            milliseconds.
        group_by : str, optional
            ``open_interest_weighted_avg`` averages the rates of the markets of a coin, weighted by their open
            interest in USD.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time by ``sort_direction``. Schema FUNDING_RATE_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, normalized_symbol, coin, category, interval [categorical]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]
            - ``rate_open`` : float64, First funding rate; positive: longs pay shorts. [1 per funding
              interval]
            - ``rate_high`` : float64, Highest funding rate. [1 per funding interval]
            - ``rate_low`` : float64, Lowest funding rate. [1 per funding interval]
            - ``predicted_open`` : float64, First predicted rate of the next settlement. [1 per funding
              interval]
            - ``predicted_high`` : float64, Highest predicted rate. [1 per funding interval]
            - ``predicted_low`` : float64, Lowest predicted rate. [1 per funding interval]
            - ``predicted_close`` : float64, Last predicted rate. [1 per funding interval]
            - ``rate_close`` : float64, Last funding rate. [1 per funding interval]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     rates = [
        ...         client.funding(
        ...             exchange="DEMO_PERP", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09",
        ...             funding_interval=over,
        ...         )
        ...         for over in ("1h", "8h")
        ...     ]
        >>> hourly, usual = (rate["rate_close"].item() for rate in rates)
        >>> abs(usual - 8 * hourly) < 1e-12
        True
        """
        return self._points(FetchQuery.of("FUNDING_RATE_AGG", locals()))

    def liquidations(
        self,
        *,
        exchange: Names = None,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        side: str | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch liquidations, longs and shorts separately.

        BUY means that longs were liquidated, and SELL that shorts were. Exchanges report only some of their
        liquidations, so the amounts are lower bounds.

        Parameters
        ----------
        side : str, optional
            Only this side: BUY (longs were liquidated) or SELL (shorts were liquidated).
        quote : str, optional
            ``USD`` converts at the price of each liquidation.
        group_by : str, optional
            ``sum`` adds up the markets of a coin into one series, with amounts in USD.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, side, timestamp)
            Sorted by the key, in time by ``sort_direction``. Schema LIQUIDATION_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, side, normalized_symbol, coin, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]
            - ``liquidations`` : float64, Liquidated volume; BUY = longs. [coin or USD, see amount_unit]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.liquidations(
        ...         exchange="DEMO_PERP", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09"
        ...     )
        >>> day["side"].to_list()
        ['BUY', 'SELL']
        """
        return self._points(FetchQuery.of("LIQUIDATION_AGG", locals()))

    def cme_open_interest(
        self,
        *,
        exchange: Names = None,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        sort_direction: str = "asc",
        event: Names = None,
    ) -> ResultT:
        """Fetch the open interest of regulated futures.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time by ``sort_direction``. Schema CME_OPEN_INTEREST_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, normalized_symbol, coin, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``open`` : float64, First open interest. [coin or USD, see amount_unit]
            - ``high`` : float64, Highest open interest. [coin or USD, see amount_unit]
            - ``low`` : float64, Lowest open interest. [coin or USD, see amount_unit]
            - ``value_open`` : float64, First value of the open interest. [USD]
            - ``value_high`` : float64, Highest value. [USD]
            - ``value_low`` : float64, Lowest value. [USD]
            - ``price_open`` : float64, First price. [quote per coin]
            - ``price_high`` : float64, Highest price. [quote per coin]
            - ``price_low`` : float64, Lowest price. [quote per coin]
            - ``price_close`` : float64, Last price. [quote per coin]
            - ``value_close`` : float64, Last value. [USD]
            - ``close`` : float64, Last open interest. [coin or USD, see amount_unit]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.cme_open_interest(
        ...         exchange="DEMO_CME", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09"
        ...     )
        >>> day.select("open", "price_close", "value_close").null_count().row(0)
        (0, 0, 0)
        """
        return self._points(FetchQuery.of("CME_OPEN_INTEREST_AGG", locals()))

    # --- profiles ---

    def volume_profile(
        self,
        *,
        exchange: Names = None,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
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

        Each interval has its own profile.

        Parameters
        ----------
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``; prices always ascend.
        quote : str, optional
            ``USD`` converts the volumes to USD; prices stay in the quote of the market.
        group_by : str, optional
            ``sum`` adds up the markets of a coin into one profile, with volumes in USD.

        Returns
        -------
        frame, one row per series, timestamp and price, key (exchange, raw_symbol, timestamp, price)
            Sorted by the key, in time by ``sort_direction``. Schema VOLUME_PROFILE_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, normalized_symbol, coin, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``block_size`` : float64, Height of a price level; null where not known. [quote per coin]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]
            - ``price`` : float64, Low edge of the level. [quote per coin]
            - ``buy_volume`` : float64, Volume of aggressive buys at the level. [coin or USD, see
              amount_unit]
            - ``sell_volume`` : float64, Volume of aggressive sells at the level. [coin or USD, see
              amount_unit]
            - ``volume`` : float64, buy_volume + sell_volume, and trades without a side. [coin or USD, see
              amount_unit]

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
        return self._points(FetchQuery.of("VOLUME_PROFILE_AGG", locals()))

    def tpo(
        self,
        *,
        exchange: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        interval: str | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        block_minutes: int | None = None,
        session: Session | str | None = None,
        block_size: float | str | Decimal | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch market profiles (TPO), level by level.

        A market profile (time price opportunity) says in which time blocks the price traded at each level.
        What a whole session has, such as its value area, is in ``tpo_sessions``. With ``session`` a session
        is a day, a week from Monday or a calendar month, and ``interval`` is not needed. With ``interval``
        alone a session is one ``interval`` long. If you pass both, ``session`` sets the length, and
        ``interval`` only the weight of the request.

        Parameters
        ----------
        interval : str, optional
            Length of a session, ``1m 5m 15m 30m 1h 4h 1d 1w``, unless you pass ``session``. It also sets the
            weight of the request. Pass at least one of ``interval`` and ``session``.
        block_minutes : int, optional
            Length of a time block: 5, 30, 60 or 240; by default 30. [min]
        session : Session or str, optional
            Length of a session: ``daily``, ``weekly`` or ``monthly``, from 00:00 UTC; weeks begin on Monday,
            months on the first. Without it a session is one ``interval`` long. A session that began before
            ``start`` is left out. Or a `tidytape.Session`, or its text: the client fetches minutes, whose
            weight counts, and computes the sessions that open in the window, up to their close;
            ``block_size`` is then needed.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``; prices always ascend.
        quote : str, optional
            ``USD`` converts the volumes to USD; prices stay in the quote of the market.
        group_by : str, optional
            ``sum`` adds up the markets of a coin into one profile, with volumes in USD.

        Returns
        -------
        frame, one row per series, timestamp and price, key (exchange, raw_symbol, timestamp, price)
            Sorted by the key, in time by ``sort_direction``. Schema TPO_AGG, in this order:

            - ``timestamp`` : timestamp, Session start. [UTC]
            - exchange, raw_symbol, normalized_symbol, coin, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``block_size`` : float64, Height of a price level; null where not known. [quote per coin]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]
            - ``buy_volume`` : float64, Volume of aggressive buys at the level. [coin or USD, see
              amount_unit]
            - ``sell_volume`` : float64, Volume of aggressive sells at the level. [coin or USD, see
              amount_unit]
            - ``first_touch_block`` : int64, First block that touched the level.
            - ``last_touch_block`` : int64, Last block that touched the level.
            - ``is_single_print`` : bool, Whether it is one of the session's single prints.
            - ``is_poor_high`` : bool, Whether it is a poor high of the session.
            - ``is_poor_low`` : bool, Whether it is a poor low of the session.
            - ``is_in_progress`` : bool, Whether the block in progress touched it, so that it can still
              change; null where not known.
            - ``price`` : float64, Low edge of the level. [quote per coin]
            - ``block_ids`` : list[int32], Blocks, from 0 at the session's start, that touched the level.
            - ``tpo_count`` : int64, Number of blocks that touched the level. [TPO]
            - ``volume`` : float64, Volume at the level. [coin or USD, see amount_unit]

        See Also
        --------
        tpo_sessions : The sessions, one row each.
        tidytape.analytics.profile.with_sessions : Levels with the end of their session.

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
        exchange: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        interval: str | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        block_minutes: int | None = None,
        session: Session | str | None = None,
        block_size: float | str | Decimal | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch market profiles (TPO), session by session.

        A row has the point of control, the value area, the initial balance and more, but no levels. The
        arguments, the request and its weight are those of ``tpo``.

        Parameters
        ----------
        interval : str, optional
            Length of a session, ``1m 5m 15m 30m 1h 4h 1d 1w``, unless you pass ``session``. It also sets the
            weight of the request. Pass at least one of ``interval`` and ``session``.
        block_minutes : int, optional
            Length of a time block: 5, 30, 60 or 240; by default 30. [min]
        session : Session or str, optional
            Length of a session: ``daily``, ``weekly`` or ``monthly``, from 00:00 UTC; weeks begin on Monday,
            months on the first. Without it a session is one ``interval`` long. A session that began before
            ``start`` is left out. Or a `tidytape.Session`, or its text: the client fetches minutes, whose
            weight counts, and computes the sessions that open in the window, up to their close;
            ``block_size`` is then needed.
        quote : str, optional
            ``USD`` converts the volumes to USD; prices stay in the quote of the market.
        group_by : str, optional
            ``sum`` adds up the markets of a coin into one profile, with volumes in USD.

        Returns
        -------
        frame, one row per series and session, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time by ``sort_direction``. Schema TPO_SESSIONS, in this order:

            - ``timestamp`` : timestamp, Session start. [UTC]
            - exchange, raw_symbol, normalized_symbol, coin, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``block_size`` : float64, Height of a price level; null where not known. [quote per coin]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]
            - ``period_start`` : timestamp, Profile period start. [UTC]
            - ``period_end`` : timestamp, Profile period end. [UTC]
            - ``block_size_minutes`` : int64, Length of a time block. [min]
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
            - ``single_prints`` : list[float64], Levels touched by exactly one block. [quote per coin]
            - ``total_volume`` : float64, Sum of the levels' volumes. [coin or USD, see amount_unit]
            - ``val_price`` : float64, Value area low. [quote per coin]
            - ``poc_price`` : float64, Point of control. [quote per coin]
            - ``vah_price`` : float64, Value area high. [quote per coin]

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
        query = _tpo(locals(), of_sessions=True)
        grouped = query.queries[0].group_by is not None
        schema = TPO_SESSIONS.with_coverage() if grouped else TPO_SESSIONS
        finish = sessions_of if query.session is None else query.finish
        return self._points(replace(query, schema=schema, finish=finish))

    # --- heatmaps ---

    def book_heatmap(
        self,
        *,
        exchange: Names = None,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        block_size: float | str | Decimal | None = None,
        max_depth: int | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch the order book at each price level.

        A row has the size that rested at a level when the interval ended. ``block_sizes`` lists the heights
        of a level that the service recommends.

        Parameters
        ----------
        max_depth : int, optional
            Largest number of price levels per side, from the mid outwards; above 3500 a request weighs more.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``; prices always ascend.
        quote : str, optional
            ``USD`` converts the sizes, each at its own price.
        group_by : str, optional
            ``sum`` adds up the books of a coin into one book, with sizes in USD.

        Returns
        -------
        frame, one row per series, timestamp, side and price, key (exchange, raw_symbol, timestamp, side, price)
            Sorted by the key, in time by ``sort_direction``. Schema BLOCK_BOOK_SNAPSHOT_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, normalized_symbol, coin, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``block_size`` : float64, Height of a price level; null where not known. [quote per coin]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]
            - ``side`` : category, BID or ASK.
            - ``price`` : float64, Low edge of the level. [quote per coin]
            - ``size`` : float64, Resting size at the level. [coin or USD, see amount_unit]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     book = client.book_heatmap(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-08T01:00",
        ...         block_size=10, max_depth=3,
        ...     )
        >>> book["side"].to_list()
        ['ASK', 'ASK', 'ASK', 'BID', 'BID', 'BID']
        """
        return self._points(FetchQuery.of("BLOCK_BOOK_SNAPSHOT_AGG", locals()))

    def liquidation_heatmap(
        self,
        *,
        coin: Names,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        exchange: Names = None,
        block_size: float | str | Decimal | None = None,
        max_depth: int | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
    ) -> ResultT:
        """Fetch the liquidations at each price level.

        A level has the liquidations of all markets of a coin on one exchange.

        Parameters
        ----------
        coin : str or list of str
            Base asset.
        exchange : str or list of str, optional
            Exchange, if the service has several.
        max_depth : int, optional
            Largest number of price levels; above 1500 a request weighs more.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``; prices always ascend.
        quote : str, optional
            ``USD`` converts at the price of each liquidation.

        Returns
        -------
        frame, one row per series, timestamp and price, key (exchange, raw_symbol, coin, timestamp, price)
            Sorted by the key, in time by ``sort_direction``. Schema VENUEX_LIQUIDATION_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, coin, normalized_symbol, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``block_size`` : float64, Height of a price level; null where not known. [quote per coin]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``price`` : float64, Low edge of the level. [quote per coin]
            - ``liquidations`` : float64, Liquidation volume at the level. [coin or USD, see amount_unit]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     levels = client.liquidation_heatmap(
        ...         exchange="DEMO_PERP", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09",
        ...         block_size=500,
        ...     )
        >>> levels["liquidations"].min() > 0
        True
        """
        return self._points(FetchQuery.of("VENUEX_LIQUIDATION_AGG", locals()))

    # --- options ---

    def implied_volatility(
        self,
        *,
        exchange: Names = None,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        coin: Names = None,
        raw_symbol: Names = None,
        tenor: str | None = None,
        sort_direction: str = "asc",
    ) -> ResultT:
        """Fetch implied volatility at constant times to expiry.

        Parameters
        ----------
        exchange : str or list of str, optional
            Exchange of the options. With a ``coin``, by default every exchange that has the data type.
        coin : str or list of str, optional
            Base asset of the options.
        raw_symbol : str or list of str, optional
            Symbol of an option summary. Pass ``raw_symbol``, ``coin`` or both.
        tenor : str, optional
            Time to expiry: ``1d 3d 1w 1m 2m 3m 6m 1y``; by default all tenors.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, tenor, timestamp)
            Sorted by the key, in time by ``sort_direction``. Schema IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG, in this
            order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, tenor, normalized_symbol, coin, category, interval [categorical]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``implied_volatility`` : float64, Implied volatility, annualised. [%]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.implied_volatility(
        ...         exchange="DEMO_OPTIONS", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09", tenor="1m"
        ...     )
        >>> day.select("raw_symbol", "tenor").rows()
        [('BTC_ATM', 'ONE_M')]
        """
        return self._points(FetchQuery.of("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", locals()))

    def skew(
        self,
        *,
        exchange: str,
        coin: str,
        raw_symbol: str,
        tenor: str,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        sort_direction: str = "asc",
    ) -> ResultT:
        """Fetch the skew of options.

        The service defines the skew. The service of tidytape subtracts the volatility of the call from that of the put.
        ``markets(type="SKEW_OPTION_SUMMARY_AGG")`` lists the summaries and their tenors.

        Parameters
        ----------
        exchange : str
            Exchange of the options.
        coin : str
            Base asset of the options.
        raw_symbol : str
            Symbol of the summary, which says what kind of skew it is.
        tenor : str
            Time to expiry: ``1d 3d 1w 1m 2m 3m 6m 1y``.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, tenor, timestamp)
            Sorted by the key, in time by ``sort_direction``. Schema SKEW_OPTION_SUMMARY_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, tenor, normalized_symbol, coin, category, interval [categorical]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``skew`` : float64, Volatility of the put minus that of the call; positive: puts are dearer.
              [vol points]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.skew(
        ...         exchange="DEMO_OPTIONS", coin="BTC", raw_symbol="BTC_25", tenor="1w",
        ...         interval="1d", start="2024-08-08", end="2024-08-09",
        ...     )
        >>> day["skew"].item() > 0
        True
        """
        return self._points(FetchQuery.of("SKEW_OPTION_SUMMARY_AGG", locals()))

    def option_open_interest(
        self,
        *,
        exchange: Names = None,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        sort_direction: str = "asc",
    ) -> ResultT:
        """Fetch the open interest of all options of a coin.

        Parameters
        ----------
        exchange : str or list of str, optional
            Exchange of the options. With a ``coin``, by default every exchange that has the data type.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time by ``sort_direction``. Schema OPTION_OPEN_INTEREST_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, normalized_symbol, coin, category, interval [categorical]
            - ``amount_unit`` : category, Unit of the amounts, COIN or USD; null where not known.
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``underlying_price_close`` : float64, Last underlying price. [quote per coin]
            - ``oi_close`` : float64, Last open interest. [coin or USD, see amount_unit]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.option_open_interest(
        ...         exchange="DEMO_OPTIONS", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-09"
        ...     )
        >>> day.height
        24
        """
        return self._points(FetchQuery.of("OPTION_OPEN_INTEREST_AGG", locals()))

    # --- supply ---

    def token_supply(
        self,
        *,
        interval: str,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        limit: int | None = None,
        token_name: str | None = None,
        coin: Names = None,
        sort_direction: str = "asc",
    ) -> ResultT:
        """Fetch market value, supply and dominance of a token.

        Parameters
        ----------
        token_name : str, optional
            Name of the token, instead of ``coin``: usually the ``coin_name`` of a market.
        coin : str or list of str, optional
            Base asset, instead of ``token_name``.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, coin, timestamp)
            Sorted by the key, in time by ``sort_direction``. Schema TOKEN_SUPPLY_AGG, in this order:

            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - exchange, raw_symbol, coin, normalized_symbol, category, interval [categorical]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``chain`` : string, Chain the token lives on.
            - ``contract_address`` : string, Address of the token's contract.
            - ``first_marketcap`` : float64, Market capitalization, first of the interval. [USD]
            - ``total_supply`` : float64, Total supply. [coin]
            - ``max_supply`` : float64, Maximum supply. [coin]
            - ``total_value_locked`` : float64, Total value locked. [USD]
            - ``fully_diluted_valuation`` : float64, Fully diluted valuation. [USD]
            - ``total_volume`` : float64, Traded volume over 24 hours. [USD]
            - ``cg_marketcap_rank`` : int64, Rank by market capitalization.
            - ``circulating_supply`` : float64, Circulating supply. [coin]
            - ``usd_price`` : float64, Price. [USD per coin]
            - ``marketcap`` : float64, Market capitalization, last of the interval. [USD]
            - ``marketcap_dominance_percent`` : float64, Share of the total. [%]

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.token_supply(coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09")
        >>> 0 < day["marketcap_dominance_percent"].item() < 100
        True
        """
        return self._points(FetchQuery.of("TOKEN_SUPPLY_AGG", locals()))


def _tpo(arguments: Mapping[str, Any], *, of_sessions: bool = False) -> FetchQuery:
    """Return the query of a market profile; in a PointsQuery two of its arguments have the prefix ``tpo_``."""
    session = session_of(arguments["session"])
    if session is not None:
        own_fields, finish = profile_fields(arguments, session, of_sessions=of_sessions)
        query = FetchQuery.of("TRADE_AGG", own_fields)
        of_session = replace(query, schema=schema_of("TPO_AGG"), finish=finish, session=session)
        window = query.queries[0].start, query.queries[-1].end
        return replace(of_session.over(*window), relative=query.relative)
    field_names = {"block_minutes": "tpo_block_minutes", "session": "tpo_session"}
    fields = {field_names.get(name, name): value for name, value in arguments.items()}
    if fields["interval"] is None:
        if fields["tpo_session"] is None:
            raise QueryError(
                "interval",
                got=None,
                expected="how long a session is: a session ('daily', 'weekly', 'monthly'), or an interval ('4h')",
                code="INVALID_INTERVAL",
            )
        # The contract requires an interval. Every session starts with a day, and days weigh almost nothing.
        fields["interval"] = Interval.DAY
    try:
        return FetchQuery.of("TPO_AGG", fields)
    except QueryError as error:
        raise error.renamed({field: argument for argument, field in field_names.items()}) from None
