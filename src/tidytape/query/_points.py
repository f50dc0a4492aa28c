"""The query for points, which every tidy frame comes from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, NoReturn, Self

from pydantic import model_validator

from tidytape.catalogue import (
    DATA_TYPES,
    POINTS_PER_WEIGHT,
    Category,
    DataType,
    GroupBy,
    Interval,
    Quote,
    Selection,
    Side,
    SortDirection,
    Tenor,
    TPOSession,
)
from tidytape.errors import QueryError
from tidytape.query import _values as values
from tidytape.query._base import Parameter, Query, code_of, whole_numbers
from tidytape.query._values import Names, TimeLike


class PointFields(Query):
    """The fields that requests for points and for streams share: all but the times, the order and the gap filling."""

    type: tuple[str, ...]
    exchange: tuple[str, ...] = ()
    raw_symbol: tuple[str, ...] = ()
    coin: tuple[str, ...] = ()
    normalized_symbol: tuple[str, ...] = ()
    category: tuple[Category, ...] = ()
    token_name: str | None = None
    interval: Interval | None = None
    tenor: Tenor | None = None
    side: Side | None = None
    quote: Quote | None = None
    group_by: GroupBy | None = None
    funding_interval: int | None = None
    tpo_block_minutes: int | None = None
    tpo_session: TPOSession | None = None
    max_depth: int | None = None
    block_size: Decimal | None = None
    event: tuple[str, ...] = ()

    REPEATABLE: ClassVar[frozenset[str]] = frozenset(
        {"type", "exchange", "raw_symbol", "coin", "normalized_symbol", "category", "event"}
    )
    # On the wire a time is always a number of seconds; nothing is guessed from how it is written.
    ONLY_ON_WIRE: ClassVar[Mapping[str, Parameter]] = {
        "start": Parameter(
            whole_numbers(low=0, high=values.LAST_SECOND - 1),
            "Start of the window, inclusive, in seconds since 1970 in UTC. [s]",
        ),
        "end": Parameter(
            whole_numbers(low=1, high=values.LAST_SECOND),
            "Length of the window; a point belongs to it if its timestamp is before `from` + `period`. [s]",
        ),
    }

    @property
    def data_types(self) -> tuple[DataType, ...]:
        """The catalogue's facts of the query's data types, without types that the catalogue does not know."""
        return tuple(filter(None, map(DATA_TYPES.get, self.type)))

    @property
    def step(self) -> int:
        """Seconds per point; a type without an interval counts as MINUTE. [s]"""
        return (self.interval or Interval.MINUTE).seconds

    @property
    def grid(self) -> Interval | None:
        """The interval at whose starts points lie; None if they may lie at any time.

        With ``tpo_session`` a market profile may start at any midnight, also if ``interval`` is a week.
        """
        is_longer = self.interval is not None and self.interval.seconds > Interval.DAY.seconds
        return Interval.DAY if is_longer and self.tpo_session is not None else self.interval

    @property
    def is_aggregation(self) -> bool:
        """Whether the query joins several exchanges into one series, which weighs more and needs a higher tier."""
        return self.group_by is not None and len(self.exchange) > 1


class PointsQuery(PointFields):
    """One request for points: data types, markets, window and options.

    Data types that the catalogue does not know are allowed, because services add some.

    Parameters
    ----------
    type : str or list of str
        Data type, e.g. ``TRADE_AGG``, or several: their series follow one another, and their weights add up.
    exchange : str or list of str
        Exchange, case-sensitive.
    raw_symbol : str or list of str
        Exchange-native symbol.
    coin : str or list of str
        Base asset: every market of it on these exchanges.
    normalized_symbol : str or list of str
        Cross-exchange symbol, e.g. ``BTC-USDT``.
    category : str or list of str
        Only markets of these classes.
    token_name : str
        Token of a supply query.
    interval : str
        Length of a point, ``MINUTE`` … ``WEEK`` or ``1m 5m 15m 30m 1h 4h 1d 1w``; only raw trades have none.
    tenor : str
        Time to expiry of an option summary, ``ONE_D`` … ``ONE_Y`` or ``1d 3d 1w 1m 2m 3m 6m 1y``.
    start, end : time
        The window, start inclusive, end exclusive. Epoch seconds, datetimes or strings; UTC without a zone. [s]
    side : str
        BUY or SELL; changes nothing for types without sides.
    sort_direction : str
        ``asc`` (oldest first, default) or ``desc``.
    gapfill : bool
        Fill missing intervals with the last close; candles only.
    quote : str
        ``USD`` converts values to USD.
    group_by : str
        ``sum`` or ``open_interest_weighted_avg``: the exchanges become one series.
    funding_interval : int, timedelta or str
        Interval that funding rates are normalised to; an integer counts milliseconds. [ms]
    tpo_block_minutes : int
        Length of a block of a market profile: 5, 30, 60 or 240. [min]
    tpo_session : str
        Length of a session of a market profile, ``daily``, ``weekly`` or ``monthly``; by default one interval.
    max_depth : int, >= 1
        Number of price levels of a heatmap.
    block_size : number
        Height of a price level, read as the decimal it is written as. [quote per coin]
    event : str or list of str
        Only markets of these prediction-market events, named by their slugs.

    Raises
    ------
    QueryError
        If a parameter breaks a rule that can be checked before sending. The error has the parameter, what it got and
        what it expects.

    Notes
    -----
    Exactly one of ``raw_symbol``, ``normalized_symbol`` and ``coin`` selects the markets. But option summaries take
    ``coin`` and ``raw_symbol`` together, token supply ``token_name`` or ``coin``, and the single-exchange liquidation
    heatmap ``coin`` alone, without an exchange.

    Examples
    --------
    >>> PointsQuery(type="TRADE_AGG", exchange="X", coin="BTC", interval="2m", start=0, end=60)
    Traceback (most recent call last):
        ...
    tidytape.errors.QueryError: interval: got '2m', expected one of MINUTE (1m), FIVE_MINUTES (5m), ...
    """

    start: int
    end: int
    sort_direction: SortDirection = SortDirection.ASC
    gapfill: bool = False

    WIRE: ClassVar[dict[str, str]] = {
        "type": "type",
        "exchange": "exchange",
        "raw_symbol": "rawSymbol",
        "coin": "coin",
        "normalized_symbol": "normalizedSymbol",
        "category": "category",
        "token_name": "tokenName",
        "interval": "interval",
        "tenor": "tenor",
        "start": "from",
        "end": "period",
        "side": "side",
        "sort_direction": "sortDirection",
        "gapfill": "gapfill",
        "quote": "transform.normalize.quote",
        "group_by": "transform.groupBy.type",
        "funding_interval": "transform.normalize.fundingInterval",
        "tpo_block_minutes": "tpoBlockSizeMinutes",
        "tpo_session": "tpoSession",
        "max_depth": "maxDepth",
        "block_size": "blockSize",
        "event": "event",
    }

    def __init__(
        self,
        *,
        type: Names,
        start: TimeLike,
        end: TimeLike,
        exchange: Names = (),
        raw_symbol: Names = (),
        coin: Names = (),
        normalized_symbol: Names = (),
        category: Names = (),
        token_name: str | None = None,
        interval: str | None = None,
        tenor: str | None = None,
        side: str | None = None,
        sort_direction: str | None = SortDirection.ASC,
        gapfill: bool | str = False,
        quote: str | None = None,
        group_by: str | None = None,
        funding_interval: int | str | timedelta | None = None,
        tpo_block_minutes: int | str | None = None,
        tpo_session: str | None = None,
        max_depth: int | str | None = None,
        block_size: float | str | Decimal | None = None,
        event: Names = (),
        **unknown: Any,
    ) -> None:
        fields = {name: value for name, value in locals().items() if name in PointsQuery.WIRE}
        super().__init__(**fields, **unknown)

    # --- rules between values ---

    @model_validator(mode="after")
    def _rules(self) -> Self:
        if not self.type:
            raise QueryError("type", got=None, expected="at least one data type", code="INVALID_TYPE")
        self._require_window(self.start, self.end)
        for data_type in self.data_types:
            _check_interval(self, data_type)
            _check_selection(self, data_type)
            _check_options(self, data_type)
            _check_group(self, data_type)
        if not self.data_types and self.interval is None:
            _refuse("interval", None, "an interval")
        _check_profile_options(self)
        return self

    # --- reading ---

    @property
    def period(self) -> int:
        """Length of the window. [s]"""
        return self.end - self.start

    @property
    def points(self) -> int:
        """Number of intervals in the window, rounded up: a series cannot have more points."""
        return -(-self.period // self.step)

    @property
    def span(self) -> tuple[int, int]:
        """The time that the query's points cover: all intervals that start inside the window, half-open. [s]

        Examples
        --------
        >>> PointsQuery(type="TRADE_AGG", exchange="X", coin="BTC", interval="1m", start=30, end=90).span
        (60, 120)
        """
        grid = self.grid
        if grid is None:
            return self.start, self.end
        # Round both ends up to the start of an interval.
        step, offset = grid.seconds, grid.offset
        return -(-(self.start - offset) // step) * step + offset, -(
            -(self.end - offset) // step
        ) * step + offset

    @property
    def around(self) -> int | None:
        """Start of the interval or session that contains the whole window; None if one starts in the window. [s]

        Examples
        --------
        >>> PointsQuery(type="TRADE_AGG", exchange="X", coin="BTC", interval="1m", start=90, end=100).around
        60
        """
        last = self.start_of(self.end - 1)
        return last if last < self.start else None

    def start_of(self, second: int) -> int:
        """Return the start of the interval or session around a second; if points lie anywhere, the second itself. [s]

        Examples
        --------
        >>> PointsQuery(type="TRADE_AGG", exchange="X", coin="BTC", interval="1h", start=0, end=60).start_of(4_000)
        3600
        """
        if self.tpo_session is TPOSession.MONTHLY:
            month = datetime.fromtimestamp(second, UTC).replace(day=1, hour=0, minute=0, second=0)
            return int(month.timestamp())
        session_intervals = {TPOSession.DAILY: Interval.DAY, TPOSession.WEEKLY: Interval.WEEK}
        interval = session_intervals[self.tpo_session] if self.tpo_session else self.interval
        if interval is None:
            return second
        return second - (second - interval.offset) % interval.seconds

    # --- the wire ---

    @classmethod
    def _from_wire(cls, fields: dict[str, Any]) -> dict[str, Any]:
        for name in ("start", "end"):
            if name not in fields:
                raise QueryError(name, got=None, expected="a value; it is required")
        start, period = fields["start"], fields["end"]
        values.whole_number(period, parameter="end", low=1, high=values.LAST_SECOND - start)
        return {"type": (), **fields, "end": start + period}

    def to_params(self) -> list[tuple[str, str]]:
        """Return the URL parameters of this query in a fixed order, without fields that have their default.

        Returns
        -------
        list of (str, str)

        Examples
        --------
        >>> PointsQuery(type="LIQUIDATION_AGG", exchange="X", coin="BTC", interval="1h", start=0, end=7200).to_params()
        [('type', 'LIQUIDATION_AGG'), ('exchange', 'X'), ('coin', 'BTC'), ('interval', 'HOUR'), ('from', '0'),
         ('period', '7200')]
        """
        return [
            (wire, str(self.period) if wire == "period" else value) for wire, value in super().to_params()
        ]

    @classmethod
    def split(cls, *, start: TimeLike, end: TimeLike, **fields: Any) -> list[PointsQuery]:
        """Return the requests that cover a window of any length, oldest first.

        Each request has at most as many points as one request may return. The cuts lie at multiples of 1,000 points
        from ``start``, so that no thousand is paid for twice. If one request can serve the window, the list has one.

        Parameters
        ----------
        start, end : time
            The window, start inclusive, end exclusive.
        **fields
            The other fields of a PointsQuery.

        Returns
        -------
        list of PointsQuery

        Raises
        ------
        QueryError
            As for PointsQuery, except for the limit of points.

        Examples
        --------
        >>> [q.points for q in PointsQuery.split(
        ...     type="TRADE_AGG", exchange="X", coin="BTC", interval="1m", start=0, end=250_000 * 60)]
        [100000, 100000, 50000]
        """
        first = values.epoch_seconds(start, parameter="start")
        last = values.epoch_seconds(end, parameter="end")
        # A query of one second checks every rule, and cannot exceed the limit of points.
        probe = cls(start=first, end=min(last, first + 1), **fields)
        field_values = {name: value for name, value in probe if name not in {"start", "end"}}
        most = min((data_type.max_points for data_type in probe.data_types), default=POINTS_PER_WEIGHT)
        length = most // POINTS_PER_WEIGHT * POINTS_PER_WEIGHT * probe.step
        return [
            cls(start=cut, end=min(cut + length, last), **field_values) for cut in range(first, last, length)
        ]


# --- rules between values; the client checks them all before it sends a query ---

_SELECTORS = ("raw_symbol", "normalized_symbol", "coin")


def _check_interval(query: PointsQuery, data_type: DataType) -> None:
    """Refuse an interval that is missing, or more points than one request may have."""
    if query.interval is None and not data_type.interval_optional:
        raise QueryError(
            "interval",
            got=None,
            expected=f"an interval; {data_type.name} needs one",
            hint="for example '1m' or '1h'",
            code="INVALID_INTERVAL",
        )
    # A query without an interval asks for trades, which the service counts.
    if query.points > data_type.max_points and query.interval is not None:
        raise QueryError(
            "end",
            got=f"{query.points} points",
            expected=f"at most {data_type.max_points} points of {data_type.name} in one request",
            hint=f"{values.window_hint(data_type.max_points * query.step)}, or a coarser interval",
            code="POINT_LIMIT_EXCEEDED",
        )


def _check_selection(query: PointsQuery, data_type: DataType) -> None:
    """Refuse parameters that do not select markets as the type requires."""
    selectors = [name for name in _SELECTORS if getattr(query, name)]
    marked = [f"``{name}``" for name in selectors]
    needs = f"{data_type.selection}, for {data_type.name}"
    if data_type.selection in {Selection.MARKET, Selection.OPTION_SUMMARY} and not query.exchange:
        _refuse("exchange", None, f"an exchange; {data_type.name} needs {data_type.selection}")
    if data_type.selection is Selection.MARKET and len(selectors) != 1:
        if not selectors:
            _refuse("raw_symbol", None, needs)
        second = selectors[1]
        _refuse(second, getattr(query, second), f"{needs}; {' and '.join(marked)} are given")
    if data_type.selection is Selection.OPTION_SUMMARY and not selectors:
        _refuse("coin", None, needs)
    if data_type.selection is Selection.OPTION_SKEW:
        for name in ("exchange", "coin", "raw_symbol", "tenor"):
            if not getattr(query, name):
                _refuse(name, None, f"a value; {data_type.name} needs {data_type.selection}")
        if len(query.exchange) > 1:
            expected = f"a single exchange; {data_type.name} cannot be aggregated"
            _refuse("exchange", query.exchange, expected, "UNSUPPORTED")
    if data_type.selection is Selection.TOKEN and not (query.token_name or query.coin):
        _refuse("token_name", None, needs)
    if data_type.selection is Selection.COIN and selectors != ["coin"]:
        expected = f"``coin`` alone, for {data_type.name}; given are {', '.join(marked) or 'none'}"
        _refuse("coin", query.coin or None, expected)


def _check_options(query: PointsQuery, data_type: DataType) -> None:
    """Refuse options that the data type does not have."""
    if data_type.categories and query.category and not set(data_type.categories) & set(query.category):
        expected = " or ".join(data_type.categories)
        _refuse(
            "category",
            [str(category) for category in query.category],
            f"{expected}, for {data_type.name}",
            "UNSUPPORTED",
        )
    if query.gapfill and not data_type.gapfill:
        fillable = ", ".join(name for name, other in DATA_TYPES.items() if other.gapfill)
        _refuse(
            "gapfill",
            query.gapfill,
            f"false for {data_type.name}; only {fillable} can be filled",
            "UNSUPPORTED",
        )
    # A group implies USD, so each type that can be grouped takes it; it changes nothing where there are no amounts.
    if query.quote and not (data_type.usd or data_type.group_by):
        _refuse(
            "quote",
            str(query.quote),
            f"no value; {data_type.name} has no denomination to convert",
            "UNSUPPORTED",
        )
    if query.tenor and not data_type.per_tenor:
        _refuse("tenor", str(query.tenor), f"no value; {data_type.name} has no tenors", "UNSUPPORTED")
    if query.token_name and data_type.selection is not Selection.TOKEN:
        _refuse(
            "token_name",
            query.token_name,
            f"no value; {data_type.name} is of markets, not of tokens",
            "UNSUPPORTED",
        )


def _check_group(query: PointsQuery, data_type: DataType) -> None:
    """Refuse an aggregation that the data type does not have."""
    if query.group_by is None:
        return
    if data_type.group_by is None:
        _refuse(
            "group_by", str(query.group_by), f"no value; {data_type.name} cannot be aggregated", "UNSUPPORTED"
        )
    if query.group_by is not data_type.group_by:
        _refuse("group_by", str(query.group_by), f"{data_type.group_by} for {data_type.name}", "UNSUPPORTED")
    if query.raw_symbol and not data_type.group_by_raw_symbol:
        _refuse(
            "raw_symbol",
            query.raw_symbol,
            f"``coin`` instead, to aggregate {data_type.name} across exchanges",
        )


def _check_profile_options(query: PointsQuery) -> None:
    """Refuse options of market profiles or of levels if no data type of the query takes them.

    A data type that the catalogue does not know may take any of them.
    """
    data_types = query.data_types
    if len(data_types) < len(query.type):
        return
    for name in ("tpo_block_minutes", "tpo_session"):
        if getattr(query, name) is not None and all(data_type.name != "TPO_AGG" for data_type in data_types):
            _refuse(name, getattr(query, name), "no value; only TPO_AGG takes it", "UNSUPPORTED")
    if query.block_size is not None and not any(data_type.levels for data_type in data_types):
        _refuse(
            "block_size", str(query.block_size), "no value; only profiles and heatmaps take it", "UNSUPPORTED"
        )


def _refuse(parameter: str, got: object, expected: str, code: str | None = None) -> NoReturn:
    raise QueryError(parameter, got=got, expected=expected, code=code or code_of(parameter))
