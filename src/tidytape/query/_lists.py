"""The requests for lists: markets, and the filters that all other lists share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import model_validator

from tidytape.catalogue import Category, MarketSortField, SortDirection
from tidytape.query import _values as values
from tidytape.query._base import Parameter, Query, whole_numbers
from tidytape.query._values import Names, TimeLike


class MarketsQuery(Query):
    """One request for a page of markets.

    Parameters
    ----------
    exchange, coin : str or list of str
        Keep these exchanges, these base assets.
    category : str or list of str
        Keep these market classes.
    type : str or list of str
        Keep markets that have these data types.
    symbol_filter : str
        Part of a symbol, coin name or title, in any case.
    page_size : int, >= 1
        Results to return.
    page_offset : int, >= 0
        Results to skip.
    sort_field : str
        What to sort by, e.g. ``volume_24h``.
    sort_direction : str
        ``asc`` or ``desc``.
    distinct : bool
        One result per normalized symbol, of the highest-ranked exchange.

    Raises
    ------
    QueryError
        With the parameter, what it got and what it expects.

    Examples
    --------
    >>> MarketsQuery(coin="BTC", distinct=True).to_params()
    [('coin', 'BTC'), ('distinct', 'true')]
    """

    exchange: tuple[str, ...] = ()
    coin: tuple[str, ...] = ()
    category: tuple[Category, ...] = ()
    type: tuple[str, ...] = ()
    symbol_filter: str | None = None
    page_size: int | None = None
    page_offset: int = 0
    sort_field: MarketSortField | None = None
    sort_direction: SortDirection | None = None
    distinct: bool = False

    WIRE: ClassVar[dict[str, str]] = {
        "exchange": "exchange",
        "coin": "coin",
        "category": "category",
        "type": "type",
        "symbol_filter": "symbolFilter",
        "page_size": "pageSize",
        "page_offset": "pageOffset",
        "sort_field": "sortCriteria.field",
        "sort_direction": "sortCriteria.direction",
        "distinct": "distinct",
    }
    REPEATABLE: ClassVar[frozenset[str]] = frozenset({"exchange", "coin", "category", "type"})

    def __init__(
        self,
        *,
        exchange: Names = (),
        coin: Names = (),
        category: Names = (),
        type: Names = (),
        symbol_filter: str | None = None,
        page_size: int | str | None = None,
        page_offset: int | str = 0,
        sort_field: str | None = None,
        sort_direction: str | None = None,
        distinct: bool | str = False,
        **unknown: Any,
    ) -> None:
        fields = {name: value for name, value in locals().items() if name in MarketsQuery.WIRE}
        super().__init__(**fields, **unknown)


class MetaQuery(Query):
    """The filters that every list endpoint takes: coins, symbols, block sizes, tenors and the rest.

    Parameters
    ----------
    type, exchange, coin, raw_symbol, normalized_symbol : str or list of str
        Keep entries with these values.
    category : str or list of str
        Keep these market classes.
    start, end : time
        Keep entries with data in this half-open span. [s since the epoch]

    Raises
    ------
    QueryError
        With the parameter, what it got and what it expects.

    Examples
    --------
    >>> MetaQuery(type="TPO_AGG", coin="BTC").to_params()
    [('type', 'TPO_AGG'), ('coin', 'BTC')]
    """

    type: tuple[str, ...] = ()
    exchange: tuple[str, ...] = ()
    category: tuple[Category, ...] = ()
    coin: tuple[str, ...] = ()
    raw_symbol: tuple[str, ...] = ()
    normalized_symbol: tuple[str, ...] = ()
    start: int | None = None
    end: int | None = None

    WIRE: ClassVar[dict[str, str]] = {
        "type": "type",
        "exchange": "exchange",
        "category": "category",
        "coin": "coin",
        "raw_symbol": "rawSymbol",
        "normalized_symbol": "normalizedSymbol",
        "start": "from",
        "end": "to",
    }
    REPEATABLE: ClassVar[frozenset[str]] = frozenset(WIRE) - {"start", "end"}
    # On the wire a time is always a number of seconds; nothing is guessed from how it is written.
    ONLY_ON_WIRE: ClassVar[Mapping[str, Parameter]] = {
        "start": Parameter(
            whole_numbers(low=0, high=values.LAST_SECOND),
            "Keep entries with data at or after this time, in seconds since 1970 in UTC. [s]",
        ),
        "end": Parameter(
            whole_numbers(low=0, high=values.LAST_SECOND),
            "Keep entries with data before this time, later than `from`, in seconds since 1970 in UTC. [s]",
        ),
    }

    def __init__(
        self,
        *,
        type: Names = (),
        exchange: Names = (),
        category: Names = (),
        coin: Names = (),
        raw_symbol: Names = (),
        normalized_symbol: Names = (),
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        **unknown: Any,
    ) -> None:
        fields = {name: value for name, value in locals().items() if name in MetaQuery.WIRE}
        super().__init__(**fields, **unknown)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.start is not None and self.end is not None:
            self._require_window(self.start, self.end)
        return self
