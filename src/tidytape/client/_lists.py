"""The methods that list what a service has: markets, names, block sizes and the quota. They have no weight."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidytape._other_clients import explained

if TYPE_CHECKING:
    from tidytape.query._values import Names, TimeLike

FrameT = TypeVar("FrameT")
NamesT = TypeVar("NamesT")
UsageT = TypeVar("UsageT")


@explained
class ListMethods(ABC, Generic[FrameT, NamesT, UsageT]):
    """The methods that list what a service has. All arguments are keyword-only, and all filters are optional.

    Lists are in the order of the service. If nothing matches a filter, the list is empty.
    """

    @abstractmethod
    def _names(self, name: str, arguments: Mapping[str, Any]) -> NamesT: ...

    @abstractmethod
    def _table(self, name: str, arguments: Mapping[str, Any]) -> FrameT: ...

    @abstractmethod
    def _usage(self) -> UsageT: ...

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
        as_of: TimeLike | None = None,
    ) -> FrameT:
        """Search the markets. The client fetches all pages; if a market is on two pages, the later one counts.

        If a market is an outcome of prediction markets, the frame has one more column, ``prediction_markets``, with
        lists of them. The method ``prediction_markets`` returns them as rows.

        With ``as_of``, the markets that existed then, among them those that have died since: they were available, and
        their last event was at most a day before. Values of the present, such as ``last_price``, are null then, as are
        later renamings. Services other than tidytape's do not tell the last event; then every market counts that was
        available, ``last_timestamp`` is null, and Python warns. ``tidytape.analytics.pit.universe`` answers for many
        times.

        Parameters
        ----------
        exchange : str or list of str, optional
            Only entries of these exchanges.
        coin : str or list of str, optional
            Only entries of these base assets.
        category : str or list of str, optional
            Only entries of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        type : str or list of str, optional
            Only entries with these data types.
        symbol_filter : str, optional
            Part of a symbol, coin name or title, in any case.
        sort_field : str, optional
            What to sort by, e.g. ``volume_24h``.
        sort_direction : str, optional
            ``asc`` or ``desc``, by ``sort_field``.
        distinct : bool, default False
            One row per normalized symbol, of the exchange that ranks highest.
        page_size : int, optional
            Rows to fetch at a time; it does not change the result.
        as_of : int, datetime, date or str, optional
            Only markets that existed at this time: ISO 8601 or epoch seconds; UTC if it has no zone. Not with
            ``distinct``, and only sorted by ``available_since``, because other ranks are those of today.

        Returns
        -------
        frame, one row per market; of an option summary one per tenor, key (exchange, raw_symbol, tenor)
            In the service's order. Schema MARKETS:

            - ``exchange`` : string, Exchange.
            - ``raw_symbol`` : string, Symbol of the market on its exchange.
            - ``normalized_symbol`` : string, Cross-exchange symbol.
            - ``coin`` : string, Base asset.
            - ``category`` : string, Market class.
            - ``tenor`` : string, Option summary tenor.
            - ``coin_name`` : string, Full coin name.
            - ``quote_coin_name`` : string, Quote asset name.
            - ``full_name`` : string, Full market name.
            - ``icon_url`` : string, Asset icon URL.
            - ``available_since`` : timestamp, When the market became available. [UTC]
            - ``volume_change_24h`` : float64, Change of that volume. [%]
            - ``marketcap`` : float64, Market capitalization. [USD]
            - ``factor`` : float64, Coins in one unit that the exchange trades, where a unit is not a coin; the service
              has converted them. [coins per unit]
            - ``renamed_to`` : string, Symbol that the market has since its renaming.
            - ``renamed_at`` : timestamp, When the market was renamed. [UTC]
            - ``session`` : string, When the market trades; null where not stated: the UTC day.
            - ``oi_change_24h`` : float64, Change of the open interest over 24 hours. [as served]
            - ``price_change_24h`` : float64, Change of the price over 24 hours. [%]
            - ``volume_24h`` : float64, Volume of the last 24 hours. [as served]
            - ``last_price`` : float64, Last traded price. [quote per coin]

            With ``as_of`` it has one more column, ``last_timestamp``: the last event that the service has of the market
            and the data types. [UTC]

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer, or not all pages in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.
        IncompleteDataError
            If the pages have no end.

        Warns
        -----
        SurvivorWarning
            With ``as_of``, if the service does not tell the last event of some markets.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.markets(coin="BTC", category="perpetual").select("exchange", "raw_symbol").rows()
        [('DEMO_INVERSE', 'BTCUSD'), ('DEMO_LINEAR', 'BTCUSDT'), ('DEMO_PERP', 'BTC-PERP')]
        """
        return self._table("markets" if as_of is None else "markets-as-of", locals())

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
        """Search the prediction markets. The client fetches all pages.

        Each outcome of a prediction market is a market. So a prediction market with the outcomes yes and no has two
        rows, which differ in ``raw_symbol``: fetch the series of an outcome by it. In ``markets``, ``coin_name`` is the
        name of the outcome. ``last_price``, ``one_day_price_change`` and ``prices`` are those of the outcome; they are
        null if the service has them only for another outcome. Volumes are those of the whole prediction market.

        Parameters
        ----------
        exchange : str or list of str, optional
            Only entries of these exchanges.
        coin : str or list of str, optional
            Only entries of these base assets.
        category : str or list of str, optional
            Only entries of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        type : str or list of str, optional
            Only entries with these data types.
        symbol_filter : str, optional
            Part of a symbol, coin name or title, in any case.
        sort_field : str, optional
            What to sort by, e.g. ``volume_24h``.
        sort_direction : str, optional
            ``asc`` or ``desc``, by ``sort_field``.
        distinct : bool, default False
            One row per normalized symbol, of the exchange that ranks highest.
        page_size : int, optional
            Rows to fetch at a time; it does not change the result.

        Returns
        -------
        frame, one row per market and prediction market it is an outcome of, key (exchange, raw_symbol, slug)
            In the service's order. Schema PREDICTION_MARKETS:

            - ``exchange`` : string, Exchange.
            - ``raw_symbol`` : string, Symbol of the market on its exchange.
            - ``slug`` : string, Market URL slug.
            - ``available_since`` : timestamp, When the market became available. [UTC]
            - ``available_to`` : timestamp, Market expiry. [UTC]
            - ``question`` : string, Market question.
            - ``group_item_title`` : string, Title within a grouped market.
            - ``outcomes`` : list[string], Possible outcomes.
            - ``prices`` : list[float64], Recent price history. [probability]
            - ``buy_volume_24h`` : float64, 24-hour buy volume. [USD]
            - ``sell_volume_24h`` : float64, 24-hour sell volume. [USD]
            - ``volume_change_24h`` : float64, 24-hour volume change. [%]
            - ``open_interest`` : float64, Current open interest. [USD]
            - ``one_day_oi_change`` : float64, 24-hour open interest change. [USD]
            - ``unique_traders`` : float64, Number of unique traders. [traders]
            - ``order_price_min_tick_size`` : float64, Minimum price tick. [probability]
            - ``condition_id`` : string, Condition identifier of the exchange.
            - ``closed`` : bool, Whether the market has resolved.
            - ``sports_market_type`` : string, Sports market type.
            - ``line`` : float64, Line value for sports markets.
            - ``outcome`` : string, Outcome that the market is; null where the service does not tell.
            - ``one_day_price_change`` : float64, 24-hour price change. [probability]
            - ``total_volume`` : float64, Total volume traded. [USD]
            - ``last_price`` : float64, Last price, 0 to 1. [probability]

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer, or not all pages in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.
        IncompleteDataError
            If the pages have no end.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     outcomes = client.prediction_markets()
        >>> outcomes.select("slug", "outcome").rows()
        [('above-60000', 'Yes'), ('above-60000', 'No')]
        """
        return self._table("prediction-markets", locals())

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

        A block size is the height of a level. The service recommends the finest one for a heatmap; five times that is
        coarse enough for a screen of a thousand lines. If the service answers with a bare number, exchange and symbol
        are null.

        Parameters
        ----------
        type : str or list of str, optional
            Only entries with these data types.
        exchange : str or list of str, optional
            Only entries of these exchanges.
        category : str or list of str, optional
            Only entries of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        coin : str or list of str, optional
            Only entries of these base assets.
        raw_symbol : str or list of str, optional
            Only entries of these exchange-native symbols.
        normalized_symbol : str or list of str, optional
            Only entries of these cross-exchange symbols.
        start : int, datetime, date or str, optional
            Only entries with data at this time or later: ISO 8601 or epoch seconds; UTC if it has no zone.
        end : int, datetime, date or str, optional
            Only entries with data before this time.

        Returns
        -------
        frame, one row per market with a book, key (exchange, raw_symbol)
            In the service's order. Schema BLOCK_SIZES:

            - ``exchange`` : string, Exchange.
            - ``raw_symbol`` : string, Symbol of the market on its exchange.
            - ``block_size`` : float64, Recommended height of a level of the order-book heatmap. [quote per
              coin]

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.block_sizes(exchange="DEMO_SPOT").rows()
        [('DEMO_SPOT', 'BTCUSDT', 2.0), ('DEMO_SPOT', 'ETHUSDT', 0.1)]
        """
        return self._table("block-sizes", locals())

    def describe(
        self,
        *,
        type: Names = None,
        exchange: Names = None,
        category: Names = None,
        coin: Names = None,
        raw_symbol: Names = None,
        normalized_symbol: Names = None,
    ) -> FrameT:
        """Describe the data: one row per market and data type, with first time, last time and gaps.

        ``tidytape.plot.coverage`` draws the frame. Services other than tidytape's list only their markets. Then
        first and last times, rows and gaps are null, because the API has no request for them.

        Parameters
        ----------
        type : str or list of str, optional
            Only these data types.
        exchange : str or list of str, optional
            Only these exchanges.
        category : str or list of str, optional
            Only these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        coin : str or list of str, optional
            Only these base assets.
        raw_symbol : str or list of str, optional
            Only these exchange-native symbols; for token supply, only these tokens.
        normalized_symbol : str or list of str, optional
            Only these cross-exchange symbols.

        Returns
        -------
        frame, one row per market and data type; of an option summary per symbol, of token supply per token, key
        (exchange, raw_symbol, coin, type)
            In the order of exchange, symbol and type. Schema HOLDINGS:

            - ``exchange`` : string, Exchange; null for token supply.
            - ``raw_symbol`` : string, Symbol of the market on its exchange; of token supply the token.
            - ``type`` : string, Data type.
            - ``normalized_symbol`` : string, Cross-exchange symbol.
            - ``coin`` : string, Base asset.
            - ``category`` : string, Market class.
            - ``quiet`` : duration, From what length on a stretch without an event is a gap.
            - ``tables`` : string, Tables of the lake that hold the events.
            - ``gaps_from`` : string, What the gaps are read from: events, minutes or files.
            - ``available_since`` : timestamp, When the market became available, as markets() has it. [UTC]
            - ``longest_gap`` : duration, Longest of them; null without any.
            - ``bytes`` : int64, Size of the files that hold the events. [bytes]
            - ``renamed_to`` : string, Symbol that the market has since its renaming.
            - ``renamed_at`` : timestamp, When the market was renamed. [UTC]
            - ``gap_starts`` : list[timestamp], Last event before each gap, in order of time. [UTC]
            - ``gap_ends`` : list[timestamp], First event after each gap. [UTC]
            - ``gaps`` : int64, Stretches without an event that last at least `quiet`. [gaps]
            - ``first_timestamp`` : timestamp, First event that the type is made of. [UTC]
            - ``last_timestamp`` : timestamp, Last event; of recorded candles the start of the last. [UTC]
            - ``rows`` : int64, Events that the type is made of. [events]

            A gap is a stretch between two neighbouring events that is at least ``quiet`` long: an hour, or longer for a
            market whose events are rare. A market that closes at night has a gap each night. ``gaps_from`` says what
            the gaps are read from: ``events`` and ``minutes`` show every gap, ``files`` only those between two files.
            Liquidations have no gaps, because a quiet hour and a lost one look the same. The lists have the 1,000
            longest gaps of a market.

            Types that are made of the same ``tables`` have the same rows, bytes and gaps, so do not add these up.

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     holdings = client.describe(exchange="DEMO_PERP", type="FUNDING_RATE_AGG", coin="BTC")
        >>> holdings.select("raw_symbol", "first_timestamp", "gaps").row(0)[0]
        'BTC-PERP'
        """
        return self._table("holdings", locals())

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

        Parameters
        ----------
        type : str or list of str, optional
            Only entries with these data types.
        exchange : str or list of str, optional
            Only entries of these exchanges.
        category : str or list of str, optional
            Only entries of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        coin : str or list of str, optional
            Only entries of these base assets.
        raw_symbol : str or list of str, optional
            Only entries of these exchange-native symbols.
        normalized_symbol : str or list of str, optional
            Only entries of these cross-exchange symbols.
        start : int, datetime, date or str, optional
            Only entries with data at this time or later: ISO 8601 or epoch seconds; UTC if it has no zone.
        end : int, datetime, date or str, optional
            Only entries with data before this time.

        Returns
        -------
        list of str

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.types(exchange="DEMO_CME")
        ['CME_OPEN_INTEREST_AGG']
        """
        return self._names("types", locals())

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
        """List the exchanges.

        Parameters
        ----------
        type : str or list of str, optional
            Only entries with these data types.
        exchange : str or list of str, optional
            Only entries of these exchanges.
        category : str or list of str, optional
            Only entries of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        coin : str or list of str, optional
            Only entries of these base assets.
        raw_symbol : str or list of str, optional
            Only entries of these exchange-native symbols.
        normalized_symbol : str or list of str, optional
            Only entries of these cross-exchange symbols.
        start : int, datetime, date or str, optional
            Only entries with data at this time or later: ISO 8601 or epoch seconds; UTC if it has no zone.
        end : int, datetime, date or str, optional
            Only entries with data before this time.

        Returns
        -------
        list of str

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.exchanges(type="TRADE_AGG", coin="BTC")
        ['DEMO_INVERSE', 'DEMO_LINEAR', 'DEMO_PERP', 'DEMO_SPOT', 'DEMO_USD']
        """
        return self._names("exchanges", locals())

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

        Parameters
        ----------
        type : str or list of str, optional
            Only entries with these data types.
        exchange : str or list of str, optional
            Only entries of these exchanges.
        category : str or list of str, optional
            Only entries of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        coin : str or list of str, optional
            Only entries of these base assets.
        raw_symbol : str or list of str, optional
            Only entries of these exchange-native symbols.
        normalized_symbol : str or list of str, optional
            Only entries of these cross-exchange symbols.
        start : int, datetime, date or str, optional
            Only entries with data at this time or later: ISO 8601 or epoch seconds; UTC if it has no zone.
        end : int, datetime, date or str, optional
            Only entries with data before this time.

        Returns
        -------
        list of str

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.categories(coin="BTC")
        ['SPOT', 'PERPETUAL', 'FUTURE', 'OPTION']
        """
        return self._names("categories", locals())

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

        Parameters
        ----------
        type : str or list of str, optional
            Only entries with these data types.
        exchange : str or list of str, optional
            Only entries of these exchanges.
        category : str or list of str, optional
            Only entries of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        coin : str or list of str, optional
            Only entries of these base assets.
        raw_symbol : str or list of str, optional
            Only entries of these exchange-native symbols.
        normalized_symbol : str or list of str, optional
            Only entries of these cross-exchange symbols.
        start : int, datetime, date or str, optional
            Only entries with data at this time or later: ISO 8601 or epoch seconds; UTC if it has no zone.
        end : int, datetime, date or str, optional
            Only entries with data before this time.

        Returns
        -------
        list of str

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.coins(type="TOKEN_SUPPLY_AGG")
        ['BTC', 'ETH', 'SOL', 'USDT']
        """
        return self._names("coins", locals())

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

        Parameters
        ----------
        type : str or list of str, optional
            Data types, at least one: services fail without any.
        exchange : str or list of str, optional
            Only entries of these exchanges.
        category : str or list of str, optional
            Only entries of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        coin : str or list of str, optional
            Only entries of these base assets.
        raw_symbol : str or list of str, optional
            Only entries of these exchange-native symbols.
        normalized_symbol : str or list of str, optional
            Only entries of these cross-exchange symbols.
        start : int, datetime, date or str, optional
            Only entries with data at this time or later: ISO 8601 or epoch seconds; UTC if it has no zone.
        end : int, datetime, date or str, optional
            Only entries with data before this time.

        Returns
        -------
        list of str

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.symbols(type="TRADE_AGG", coin="BTC")
        ['BTC-PERP', 'BTC-USD', 'BTCUSD', 'BTCUSDT']
        """
        return self._names("symbols", locals())

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

        Parameters
        ----------
        type : str or list of str, optional
            Data types, at least one: services fail without any.
        exchange : str or list of str, optional
            Only entries of these exchanges.
        category : str or list of str, optional
            Only entries of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        coin : str or list of str, optional
            Only entries of these base assets.
        raw_symbol : str or list of str, optional
            Only entries of these exchange-native symbols.
        normalized_symbol : str or list of str, optional
            Only entries of these cross-exchange symbols.
        start : int, datetime, date or str, optional
            Only entries with data at this time or later: ISO 8601 or epoch seconds; UTC if it has no zone.
        end : int, datetime, date or str, optional
            Only entries with data before this time.

        Returns
        -------
        list of str

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.normalized_symbols(type=["TRADE_AGG", "CME_OPEN_INTEREST_AGG"], coin="BTC")
        ['BTC-USD', 'BTC-USDT']
        """
        return self._names("normalized-symbols", locals())

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

        Parameters
        ----------
        type : str or list of str, optional
            Only entries with these data types.
        exchange : str or list of str, optional
            Only entries of these exchanges.
        category : str or list of str, optional
            Only entries of these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        coin : str or list of str, optional
            Only entries of these base assets.
        raw_symbol : str or list of str, optional
            Only entries of these exchange-native symbols.
        normalized_symbol : str or list of str, optional
            Only entries of these cross-exchange symbols.
        start : int, datetime, date or str, optional
            Only entries with data at this time or later: ISO 8601 or epoch seconds; UTC if it has no zone.
        end : int, datetime, date or str, optional
            Only entries with data before this time.

        Returns
        -------
        list of str

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.tenors(exchange="DEMO_OPTIONS")
        ['ONE_D', 'THREE_D', 'ONE_W', 'ONE_M', 'TWO_M', 'THREE_M']
        """
        return self._names("tenors", locals())

    def usage(self) -> UsageT:
        """Fetch the budget of the key.

        Returns
        -------
        Usage
            Limit, remaining and used weight, and when the bucket is full again.

        Raises
        ------
        QueryError
            If an argument is wrong; a `RefusedQueryError` if only the service can know that.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer breaks the contract, or is longer than ``max_body``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.usage().window_seconds
        60
        """
        return self._usage()
