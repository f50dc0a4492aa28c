"""Which subjects of the lake a query selects: markets, option summaries, tokens, or a coin across one venue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType

import polars as pl

from tidytape.catalogue import Category, Selection
from tidytape.errors import QueryError, nearest
from tidytape.lake import Lake
from tidytape.lake.predictions import of_events
from tidytape.query import PointsQuery
from tidytape.schema import data_type
from tidytape.service.options import Instrument

__all__ = ["selected", "summaries"]

HEATMAP_VENUE = "VENUEX"
"""The venue of the single-venue liquidation heatmap, where a query names none."""

_FLAVOURS = {
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": ("ATM",),
    "SKEW_OPTION_SUMMARY_AGG": ("25", "10"),
}


def summaries(name: str, coin: str) -> list[str]:
    """Return the symbols that a data type has of the options of a coin; one that is empty where it has none.

    Examples
    --------
    >>> summaries("SKEW_OPTION_SUMMARY_AGG", "BTC"), summaries("OPTION_OPEN_INTEREST_AGG", "BTC")
    (['BTC_25', 'BTC_10'], [''])
    """
    return [f"{coin}_{flavour}" for flavour in _FLAVOURS.get(name, ())] or [""]


def selected(lake: Lake, query: PointsQuery, name: str) -> list[Instrument]:
    """Return the subjects of one data type that a query selects, in the order of their names.

    Raises
    ------
    QueryError
        If a venue, a symbol, a coin or a token is not in the lake; the hint names the nearest.
    """
    return _SELECTED[_ways(name)](lake, query, name)


def _ways(name: str) -> Selection | str:
    # Options of a coin are no one market, whatever names the coin.
    return "options" if name == "OPTION_OPEN_INTEREST_AGG" else data_type(name).selection


def _markets(lake: Lake, query: PointsQuery, name: str) -> list[Instrument]:
    markets = lake.markets()
    _require(query.exchange, markets["exchange"], "exchange", "INVALID_EXCHANGE")
    markets = _among(markets, "exchange", query.exchange)
    for selector in ("raw_symbol", "normalized_symbol", "coin"):
        if wanted := getattr(query, selector):
            _require(wanted, markets[selector], selector, "INVALID_SYMBOL")
            markets = _among(markets, selector, wanted)
    if query.event:
        markets = of_events(markets, lake.prediction_markets(), query.event)
    if query.category:
        markets = markets.filter(pl.col("category").is_in(query.category))
    if markets.is_empty() and query.event:
        raise QueryError(
            "event",
            got=list(query.event),
            expected="an event that one of the selected markets is of",
            code="INVALID_SYMBOL",
        )
    if markets.is_empty():
        raise QueryError(
            "category",
            got=[str(one) for one in query.category],
            expected="a class that one of the selected markets has",
            code="INVALID_SYMBOL",
        )
    return [_market(row, query) for row in markets.sort("exchange", "raw_symbol").iter_rows(named=True)]


def _among(markets: pl.DataFrame, column: str, names: Sequence[str]) -> pl.DataFrame:
    # One name is compared in a quarter of the time.
    return markets.filter(pl.col(column) == names[0] if len(names) == 1 else pl.col(column).is_in(names))


def _market(row: Mapping[str, object], query: PointsQuery) -> Instrument:
    size = _decimal(row["block_size"])
    known = {
        column: row[column]
        for column in (
            "exchange",
            "raw_symbol",
            "normalized_symbol",
            "coin",
            "category",
            "quote_coin",
            "available_since",
        )
    }
    return Instrument(**known, block_size=query.block_size or size, registered_block_size=size)  # type: ignore[arg-type]  # rows of the table


def _options(lake: Lake, query: PointsQuery, name: str) -> list[Instrument]:
    """Options of a coin on a venue; of summaries, each flavour that the type has."""
    chains = lake.instruments("option_quotes")
    _require(query.exchange, (venue for venue, _ in chains), "exchange", "INVALID_EXCHANGE", of="options")
    chains = [(venue, coin) for venue, coin in chains if venue in query.exchange]
    for selector in ("coin", "normalized_symbol"):  # which is the coin
        if wanted := getattr(query, selector):
            _require(wanted, (coin for _, coin in chains), selector, "INVALID_SYMBOL")
            chains = [(venue, coin) for venue, coin in chains if coin in wanted]
    found = [
        Instrument(venue, symbol, coin, coin, Category.OPTION.value, None)
        for venue, coin in chains
        for symbol in summaries(name, coin)
    ]
    _require(query.raw_symbol, (one.raw_symbol for one in found), "raw_symbol", "INVALID_SYMBOL")
    return [one for one in found if not query.raw_symbol or one.raw_symbol in query.raw_symbol]


def _tokens(lake: Lake, query: PointsQuery, name: str) -> list[Instrument]:
    # The coin as it was last told: some reports may lack it.
    told = pl.col("coin").sort_by("timestamp").drop_nulls().last()
    tokens = lake.scan("token_supply").group_by("token_name").agg(told).sort("token_name").collect()
    if query.token_name:
        _require([query.token_name], tokens["token_name"], "token_name", "INVALID_SYMBOL")
        tokens = tokens.filter(pl.col("token_name") == query.token_name)
    _require(query.coin, tokens["coin"], "coin", "INVALID_SYMBOL")
    if query.coin:
        tokens = tokens.filter(pl.col("coin").is_in(query.coin))
    return [Instrument("", token, None, coin, None, None) for token, coin in tokens.iter_rows()]


def _coins(lake: Lake, query: PointsQuery, name: str) -> list[Instrument]:
    """A coin across all markets of one venue that are quoted alike."""
    venues = sorted({venue for venue, _ in lake.instruments("liquidations")})
    _require(query.exchange, venues, "exchange", "INVALID_EXCHANGE", of="liquidations")
    if not query.exchange and HEATMAP_VENUE not in venues and len(venues) != 1:
        raise QueryError(
            "exchange",
            got=None,
            expected="a venue; liquidations are known of " + (", ".join(venues) or "none"),
            code="INVALID_EXCHANGE",
        )
    venue = HEATMAP_VENUE if HEATMAP_VENUE in venues else venues[0]
    markets = lake.markets().filter(pl.col("exchange").is_in(query.exchange or [venue]))
    _require(query.coin, markets["coin"], "coin", "INVALID_SYMBOL")
    found = []
    chosen = markets.filter(pl.col("coin").is_in(query.coin)).sort("exchange", "coin", "raw_symbol")
    for (exchange, coin), members in chosen.group_by("exchange", "coin", maintain_order=True):
        # Prices of markets with another quote are other prices: those of the most markets count.
        quote = (
            members.group_by("quote_coin")
            .len()
            .sort("len", "quote_coin", descending=[True, False])["quote_coin"][0]
        )
        alike = members.filter(pl.col("quote_coin").eq_missing(pl.lit(quote)))
        size = _decimal(alike["block_size"].max())
        found.append(
            Instrument(
                str(exchange), "", None, str(coin), None, query.block_size or size, quote,
                members=tuple(alike["raw_symbol"]),
            )
        )  # fmt: skip
    return found


_SELECTED: Mapping[Selection | str, Callable[[Lake, PointsQuery, str], list[Instrument]]] = MappingProxyType(
    {
        Selection.INSTRUMENT: _markets,
        Selection.OPTION_SUMMARY: _options,
        Selection.OPTION_SKEW: _options,
        "options": _options,
        Selection.TOKEN: _tokens,
        Selection.COIN: _coins,
    }
)


def _decimal(size: object) -> Decimal | None:
    return None if size is None else Decimal(repr(size))


def _require(
    wanted: Iterable[str], known: Iterable[str | None], parameter: str, code: str, *, of: str | None = None
) -> None:
    """Refuse the first name that is not known; ``of`` is the only kind of data of which names are known."""
    names = {one for one in known if one is not None}
    for name in wanted:
        if name not in names:
            close = nearest(name, sorted(names))
            raise QueryError(
                parameter,
                got=name,
                expected=f"one of which the lake holds {of}" if of else "one that the lake holds",
                hint=f"did you mean {close!r}?"
                if close
                else "client.markets(), or /v1/markets, lists what there is",
                code=code,
            )
