"""Select the markets of a query: markets of the registry, option summaries, tokens, or a coin on one exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType

import polars as pl

from tidytape.catalogue import USD_QUOTES, Category, Selection
from tidytape.errors import QueryError, nearest
from tidytape.lake import LakeReader
from tidytape.lake._predictions import of_events
from tidytape.lake._tables import TABLES
from tidytape.query import PointsQuery
from tidytape.schema import data_type
from tidytape.service.answer._plans import PLANS
from tidytape.service.answer._scan import MARKET, Market

_NAMES = ("exchange", "raw_symbol", "coin")

HEATMAP_VENUE = "VENUEX"
"""The exchange of the liquidation heatmap if neither a query nor the lake names one, and the lake has it."""


def summaries(name: str, coin: str) -> list[str]:
    """Return the symbols that a data type has for the options of a coin; one empty symbol if it has none.

    Examples
    --------
    >>> summaries("SKEW_OPTION_SUMMARY_AGG", "BTC"), summaries("OPTION_OPEN_INTEREST_AGG", "BTC")
    (['BTC_25', 'BTC_10'], [''])
    """
    return [f"{coin}_{symbol}" for symbol in PLANS[name].symbols] or [""]


def selected(lake: LakeReader, query: PointsQuery, name: str) -> list[Market]:
    """Return the markets of one data type that a query selects, in the order of their names.

    Raises
    ------
    QueryError
        If the lake has no such exchange, symbol, coin or token; the hint names the most similar.
    """
    if data_type(name).selection is Selection.COIN:
        return _coins(lake, query, name)
    return _SELECTORS[TABLES[PLANS[name].tables[0]].partitions](lake, query, name)


def _markets(lake: LakeReader, query: PointsQuery, name: str) -> list[Market]:
    markets = lake.markets()
    exchanges, chains = {*markets["exchange"]}, []
    if not exchanges.issuperset(query.exchange):  # an exchange may have options alone
        chains = [chain for chain in lake.markets_in("option_quotes") if chain[0] in query.exchange]
    _require(query.exchange, {*exchanges, *(chain[0] for chain in chains)}, "exchange", "INVALID_EXCHANGE")
    markets = _among(markets, "exchange", query.exchange)
    for selector in ("raw_symbol", "normalized_symbol", "coin"):
        if names := getattr(query, selector):
            chains = [chain for chain in chains if chain[1] in names and selector != "raw_symbol"]
            names_there = [*markets[selector], *(coin for _, coin in chains)]
            _require(names, names_there, selector, "INVALID_SYMBOL", on=query.exchange)
            markets = _among(markets, selector, names)
    without_events = [_without_events((exchange, coin), [(exchange, coin)]) for exchange, coin in chains]
    if query.event:
        markets, without_events = of_events(markets, lake.prediction_markets(), query.event), []
    if query.category:
        markets, without_events = markets.filter(pl.col("category").is_in(query.category)), []
    if markets.is_empty() and query.event:
        raise QueryError(
            "event",
            got=list(query.event),
            expected="an event that one of the selected markets is of",
            code="INVALID_SYMBOL",
        )
    if markets.is_empty() and not without_events:
        raise QueryError(
            "category",
            got=list(map(str, query.category)),
            expected="a class that one of the selected markets has",
            code="INVALID_SYMBOL",
        )
    return _with_notes([_market(row, query) for row in markets.rows(named=True)], without_events, query)


def _without_events(market: tuple[str, str], partitions: Sequence[tuple[str, str]]) -> Market:
    """Return a coin of an exchange that has other types of data, in ``partitions``, so that a note says so."""
    exchange, coin = market
    # There is nothing to convert to USD, so the quote needs no rate.
    return Market(exchange, "", coin, coin, None, None, quote_coin="USD", own_partitions=tuple(partitions))


def _with_notes(markets: list[Market], without_events: list[Market], query: PointsQuery) -> list[Market]:
    """Return markets, and those without events; a group has only members with events, if there are any."""
    return markets if markets and query.group_by else [*markets, *without_events]


def _among(markets: pl.DataFrame, column: str, names: Sequence[str]) -> pl.DataFrame:
    if len(names) > 1:
        return markets.filter(pl.col(column).is_in(names))
    # Comparing with one name takes a quarter of the time of `is_in`, and a filter four times as long as comparing.
    is_named = markets[column] == names[0]
    return markets if is_named.all(ignore_nulls=False) else markets.filter(is_named)


def _market(row: Mapping[str, object], query: PointsQuery) -> Market:
    block_size = _decimal(row["block_size"])
    registered = {
        column: row[column]
        for column in (
            "exchange",
            "raw_symbol",
            "normalized_symbol",
            "coin",
            "category",
            "quote_coin",
            "available_since",
            "session",
        )
    }
    return Market(**registered, block_size=query.block_size or block_size, registered_block_size=block_size)  # type: ignore[arg-type]  # rows of the table


def _options(lake: LakeReader, query: PointsQuery, name: str) -> list[Market]:
    """Return the option chains of coins on exchanges; for a summary, one market per symbol of the data type."""
    chains = lake.markets_in("option_quotes")
    exchanges = {exchange for exchange, _ in chains}
    others: dict[tuple[str, str], list[tuple[str, str]]] = {}  # coins of exchanges without options
    if not query.raw_symbol and not exchanges.issuperset(query.exchange):
        markets_there = _among(lake.markets(), "exchange", query.exchange)
        for exchange, symbol, coin in markets_there.select(_NAMES).drop_nulls().iter_rows():
            if exchange not in exchanges:
                others.setdefault((exchange, coin), []).append((exchange, symbol))
    exchanges_there = {*exchanges, *(exchange for exchange, _ in others)}
    _require(query.exchange, exchanges_there, "exchange", "INVALID_EXCHANGE", of="options")
    chains = [(exchange, coin) for exchange, coin in chains if exchange in query.exchange]
    for selector in ("coin", "normalized_symbol"):  # the normalized symbol of an option chain is its coin
        if coins := getattr(query, selector):
            others = {market: partitions for market, partitions in others.items() if market[1] in coins}
            coins_there = (coin for _, coin in (*chains, *others))
            _require(coins, coins_there, selector, "INVALID_SYMBOL", on=query.exchange)
            chains = [(exchange, coin) for exchange, coin in chains if coin in coins]
    markets = [
        Market(
            exchange,
            symbol,
            coin,
            coin,
            Category.OPTION.value,
            None,
            own_partitions=((exchange, coin),),
        )
        for exchange, coin in chains
        for symbol in summaries(name, coin)
    ]
    if symbols := query.raw_symbol:
        _require(symbols, (market.raw_symbol for market in markets), "raw_symbol", "INVALID_SYMBOL")
        return [market for market in markets if market.raw_symbol in symbols]
    return _with_notes(markets, [_without_events(*other) for other in others.items()], query)


def _tokens(lake: LakeReader, query: PointsQuery, name: str) -> list[Market]:
    # Some reports may lack the coin, so the last known one counts.
    last_coin = pl.col("coin").sort_by("timestamp").drop_nulls().last()
    tokens = lake.scan("token_supply").group_by("token_name").agg(last_coin).sort("token_name").collect()
    if query.token_name:
        _require([query.token_name], tokens["token_name"], "token_name", "INVALID_SYMBOL")
        tokens = tokens.filter(pl.col("token_name") == query.token_name)
    _require(query.coin, tokens["coin"], "coin", "INVALID_SYMBOL")
    if query.coin:
        tokens = tokens.filter(pl.col("coin").is_in(query.coin))
    return [
        Market("", token, None, coin, None, None, own_partitions=((),)) for token, coin in tokens.iter_rows()
    ]


def _coins(lake: LakeReader, query: PointsQuery, name: str) -> list[Market]:
    """Return each coin on an exchange as one market, across the exchange's markets with the same quote.

    If neither the query nor the lake names an exchange, a coin is one market across all exchanges.
    """
    exchanges = sorted({exchange for exchange, _ in lake.markets_in("liquidations")})
    _require(query.exchange, exchanges, "exchange", "INVALID_EXCHANGE", of="liquidations")
    if not exchanges:
        raise QueryError(
            "exchange", got=None, expected="a lake with liquidations; it has none", code="INVALID_EXCHANGE"
        )
    named = lake.heatmap_exchange() or HEATMAP_VENUE
    chosen = query.exchange or ([named] if named in exchanges else exchanges)
    markets = lake.markets().filter(pl.col("exchange").is_in(chosen))
    _require(query.coin, markets["coin"], "coin", "INVALID_SYMBOL", on=chosen)
    coins = []
    markets_of_coins = markets.filter(pl.col("coin").is_in(query.coin)).sort("exchange", "coin", "raw_symbol")
    if not query.exchange and len(chosen) > 1:
        # Prices in quotes that count as USD can be added up, as in groups.
        currency = pl.when(pl.col("quote_coin").is_in(USD_QUOTES)).then(pl.lit("USD")).otherwise("quote_coin")
        markets_of_coins = markets_of_coins.join(lake.extents("liquidations"), on=MARKET, how="semi")
        markets_of_coins = markets_of_coins.with_columns(quote_coin=currency)
        exchange_of_sum = pl.lit("")
    else:
        exchange_of_sum = pl.col("exchange")
    groups = markets_of_coins.group_by(exchange_of_sum.alias("group"), "coin", maintain_order=True)
    for (exchange, coin), members in groups:
        # Prices in different quotes cannot be mixed, so take the markets with the most frequent quote.
        quote = (
            members.group_by("quote_coin")
            .len()
            .sort("len", "quote_coin", descending=[True, False])["quote_coin"][0]
        )
        members_of_quote = members.filter(pl.col("quote_coin").eq_missing(pl.lit(quote)))
        size = _decimal(members_of_quote["block_size"].max())
        coins.append(
            Market(
                str(exchange), "", None, str(coin), None, query.block_size or size, quote,
                own_partitions=tuple(members_of_quote.select("exchange", "raw_symbol").iter_rows()),
            )
        )  # fmt: skip
    return coins


_SELECTORS: Mapping[tuple[str, ...], Callable[[LakeReader, PointsQuery, str], list[Market]]] = (
    MappingProxyType({("exchange", "raw_symbol"): _markets, ("exchange", "coin"): _options, (): _tokens})
)
"""The function that selects the markets of a data type, by the partitions of its tables."""


def _decimal(size: object) -> Decimal | None:
    return None if size is None else Decimal(repr(size))


def _require(
    requested: Iterable[str],
    known: Iterable[str | None],
    parameter: str,
    code: str,
    *,
    of: str | None = None,
    on: Sequence[str] = (),
) -> None:
    """Raise QueryError for the first unknown name; ``of`` says which data known names have, ``on`` their exchanges."""
    names = {name for name in known if name is not None}
    for name in requested:
        if name not in names:
            similar_name = nearest(name, sorted(names))
            raise QueryError(
                parameter,
                got=name,
                expected=(
                    f"one of which the lake holds {of}"
                    if of
                    else "one that the lake holds" + (f" of {' or '.join(on)}" if on else "")
                ),
                hint=f"did you mean {similar_name!r}?"
                if similar_name
                else "``client.markets()`` lists what there is",
                code=code,
            )


def grouped(markets: list[Market]) -> list[Market]:
    """Return the members of groups, one group per coin, with the same block size and the names that they share.

    The block size is the largest of the group's members, so that levels of equal price have equal height.

    Raises
    ------
    QueryError
        If the coin of several members is unknown, or the prices of a group cannot be compared: they are neither in the
        same quote nor all in quotes that count as USD.
    """
    members: dict[str | None, list[Market]] = {}
    for market in markets:
        members.setdefault(market.coin, []).append(market)
    for coin, group in members.items():
        if coin is None and len(group) > 1:
            raise QueryError(
                "group_by",
                got=", ".join(sorted(market.raw_symbol for market in group)),
                expected="markets whose coin is known",
                hint="ingest their files again with ``normalized_symbol``",
                code="UNSUPPORTED",
            )
        quotes = {"USD" if market.quote_coin in USD_QUOTES else str(market.quote_coin) for market in group}
        if len(quotes) > 1:
            raise QueryError(
                "group_by",
                got=f"markets of {coin} in "
                + ", ".join(sorted({str(market.quote_coin) for market in group})),
                expected="markets priced in one currency, or in some that all count as USD",
                hint="select them with ``normalized_symbol``",
                code="UNSUPPORTED",
            )
    return [
        replace(
            market,
            normalized_symbol=_shared(member.normalized_symbol for member in members[market.coin]),
            category=_shared(member.category for member in members[market.coin]),
            session=None,  # its points are sums over intervals in UTC
            block_size=max(
                (size for member in members[market.coin] if (size := member.block_size)), default=None
            ),
        )
        for market in markets
    ]


def _shared(names: Iterable[str | None]) -> str | None:
    """Return the name that all members have; None if they differ."""
    distinct = set(names)
    return distinct.pop() if len(distinct) == 1 else None
