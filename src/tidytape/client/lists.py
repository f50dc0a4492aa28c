"""The methods that ask what there is: markets, names, sizes and the quota. None of them weighs anything."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from tidytape.client.documented import documented
from tidytape.client.parameters import FILTERS, given
from tidytape.errors import QueryError
from tidytape.query import MarketsQuery, MetaQuery
from tidytape.query.values import Names, TimeLike
from tidytape.schema import BLOCK_SIZES, MARKETS, PREDICTION_MARKETS

__all__ = ["ListMethods"]

FrameT = TypeVar("FrameT")
NamesT = TypeVar("NamesT")
UsageT = TypeVar("UsageT")

_RAISES = {
    "QueryError": "If the request cannot be right.",
    "ServiceError": "If the service gives no answer in time.",
    "DecodeError": "If the answer is not what the contract says, or is longer than ``max_body``.",
}
_PAGES = _RAISES | {
    "ServiceError": "If the service gives no answer, or not all pages in time.",
    "IncompleteDataError": "If the pages have no end.",
}
_SEARCH = {name: FILTERS[name] for name in ("exchange", "coin", "category", "type")} | {
    "sort_direction": "``asc`` or ``desc``, by ``sort_field``."
}
_ONE_TYPE = FILTERS | {"type": "Data types; at least one, without which services fail."}


class ListMethods(ABC, Generic[FrameT, NamesT, UsageT]):
    """What there is, and what may still be asked for. All arguments are keyword-only, all filters may be left out.

    Lists come in the order of the service; a filter that nothing matches gives an empty one.
    """

    @abstractmethod
    def _names(self, name: str, query: MetaQuery) -> NamesT: ...

    @abstractmethod
    def _table(self, name: str, query: MetaQuery | MarketsQuery) -> FrameT: ...

    @abstractmethod
    def _usage(self) -> UsageT: ...

    @documented(MARKETS, raises=_PAGES, **_SEARCH)
    def markets(
        self,
        *,
        exchange: Names = None,
        coin: Names = None,
        category: Names = None,
        type: Names = None,
        symbol_filter: str | None = None,
        sort_field: str | None = None,
        sort_direction: str | None = None,
        distinct: bool = False,
        page_size: int | None = None,
    ) -> FrameT:
        """Search the markets, all pages. Where a market is on two of them, the last answer counts.

        Where a market is an outcome of prediction markets there is one more column, ``prediction_markets``, a list of
        them; ``prediction_markets`` has these as rows.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.markets(category="perpetual").select("exchange", "raw_symbol").rows()
        [('DEMO_PERP', 'BTC-PERP')]
        """
        return self._table("markets", MarketsQuery(**given(locals())))

    @documented(PREDICTION_MARKETS, raises=_PAGES, **_SEARCH)
    def prediction_markets(
        self,
        *,
        exchange: Names = None,
        coin: Names = None,
        category: Names = None,
        type: Names = None,
        symbol_filter: str | None = None,
        sort_field: str | None = None,
        sort_direction: str | None = None,
        distinct: bool = False,
        page_size: int | None = None,
    ) -> FrameT:
        """Search the prediction markets, all pages.

        Each outcome of a prediction market is a market, so one that can be answered with yes or no has two rows, which
        differ in ``raw_symbol``, the symbol that its series are fetched by. The outcome's name is the market's
        ``coin_name`` in ``markets``. ``last_price``, ``one_day_price_change`` and ``prices`` are those of the outcome,
        and null where the service has them of another outcome only; volumes are of the whole prediction market.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     found = client.prediction_markets()
        >>> found["outcomes"].to_list()
        [['Yes', 'No'], ['Yes', 'No']]
        """
        return self._table("prediction-markets", MarketsQuery(**given(locals())))

    @documented(BLOCK_SIZES, raises=_RAISES, **FILTERS)
    def block_sizes(
        self,
        *,
        type: Names = None,
        exchange: Names = None,
        category: Names = None,
        coin: Names = None,
        raw_symbol: Names = None,
        normalized_symbol: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> FrameT:
        """List block sizes for heatmaps of the order book.

        They are the heights of a level that the service recommends, the finest; five times that is coarse enough for a
        screen of a thousand lines. Where the service answers with nothing but a number, exchange and symbol are null.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.block_sizes(exchange="DEMO_SPOT").rows()
        [('DEMO_SPOT', 'BTCUSDT', 2.0)]
        """
        return self._table("block-sizes", MetaQuery(**given(locals())))

    @documented(raises=_RAISES, **FILTERS)
    def types(
        self,
        *,
        type: Names = None,
        exchange: Names = None,
        category: Names = None,
        coin: Names = None,
        raw_symbol: Names = None,
        normalized_symbol: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> NamesT:
        """List the data types that the service has.

        Returns
        -------
        list of str

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.types(exchange="DEMO_CME")
        ['CME_OPEN_INTEREST_AGG']
        """
        return self._names("types", MetaQuery(**given(locals())))

    @documented(raises=_RAISES, **FILTERS)
    def exchanges(
        self,
        *,
        type: Names = None,
        exchange: Names = None,
        category: Names = None,
        coin: Names = None,
        raw_symbol: Names = None,
        normalized_symbol: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> NamesT:
        """List the venues.

        Returns
        -------
        list of str

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.exchanges(type="TRADE_AGG", coin="BTC")
        ['DEMO_PERP', 'DEMO_SPOT']
        """
        return self._names("exchanges", MetaQuery(**given(locals())))

    @documented(raises=_RAISES, **FILTERS)
    def categories(
        self,
        *,
        type: Names = None,
        exchange: Names = None,
        category: Names = None,
        coin: Names = None,
        raw_symbol: Names = None,
        normalized_symbol: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> NamesT:
        """List the market classes.

        Returns
        -------
        list of str

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.categories(coin="BTC")
        ['SPOT', 'PERPETUAL', 'FUTURE', 'OPTION']
        """
        return self._names("categories", MetaQuery(**given(locals())))

    @documented(raises=_RAISES, **FILTERS)
    def coins(
        self,
        *,
        type: Names = None,
        exchange: Names = None,
        category: Names = None,
        coin: Names = None,
        raw_symbol: Names = None,
        normalized_symbol: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> NamesT:
        """List the base assets.

        Returns
        -------
        list of str

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.coins(type="TOKEN_SUPPLY_AGG")
        ['BTC', 'ETH']
        """
        return self._names("coins", MetaQuery(**given(locals())))

    @documented(raises=_RAISES, **_ONE_TYPE)
    def symbols(
        self,
        *,
        type: Names = None,
        exchange: Names = None,
        category: Names = None,
        coin: Names = None,
        raw_symbol: Names = None,
        normalized_symbol: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> NamesT:
        """List exchange-native symbols.

        Returns
        -------
        list of str

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.symbols(type="TRADE_AGG", coin="BTC")
        ['BTC-PERP', 'BTCUSDT']
        """
        return self._names("symbols", _of_a_type(MetaQuery(**given(locals()))))

    @documented(raises=_RAISES, **_ONE_TYPE)
    def normalized_symbols(
        self,
        *,
        type: Names = None,
        exchange: Names = None,
        category: Names = None,
        coin: Names = None,
        raw_symbol: Names = None,
        normalized_symbol: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> NamesT:
        """List cross-exchange symbols.

        Returns
        -------
        list of str

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.normalized_symbols(type=["TRADE_AGG", "CME_OPEN_INTEREST_AGG"], coin="BTC")
        ['BTC-USD', 'BTC-USDT']
        """
        return self._names("normalized-symbols", _of_a_type(MetaQuery(**given(locals()))))

    @documented(raises=_RAISES, **FILTERS)
    def tenors(
        self,
        *,
        type: Names = None,
        exchange: Names = None,
        category: Names = None,
        coin: Names = None,
        raw_symbol: Names = None,
        normalized_symbol: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> NamesT:
        """List the times to expiry of option summaries.

        Returns
        -------
        list of str

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.tenors(exchange="DEMO_OPTIONS")
        ['ONE_D', 'THREE_D', 'ONE_W', 'ONE_M', 'TWO_M', 'THREE_M']
        """
        return self._names("tenors", MetaQuery(**given(locals())))

    @documented(raises=_RAISES)
    def usage(self) -> UsageT:
        """Fetch the quota of the key.

        Returns
        -------
        Usage
            Limit, remaining and used weight, and when the bucket is full again.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.usage().window_seconds
        60
        """
        return self._usage()


def _of_a_type(query: MetaQuery) -> MetaQuery:
    if not query.type:
        raise QueryError("type", got=None, expected="at least one data type", code="INVALID_TYPE")
    return query
