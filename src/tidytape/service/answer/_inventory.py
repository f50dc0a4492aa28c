"""The inventory of a lake: data types by market with their first and last event, and the lists made of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import polars as pl

from tidytape.aggregate import recommended_block_size
from tidytape.budget import Tier
from tidytape.budget import tier as tier_of
from tidytape.catalogue import DATA_TYPES, LISTS, LISTS_OF_A_TYPE, Category, Tenor
from tidytape.errors import QueryError, counted
from tidytape.lake import LakeReader
from tidytape.query import MarketsQuery, MetaQuery
from tidytape.query._values import written_time
from tidytape.schema import data_type
from tidytape.service._accounts import Key
from tidytape.service.answer._plans import PLANS, TABLES_OF_MARKETS
from tidytape.service.answer._selection import summaries
from tidytape.times import DAY, SECOND
from tidytape.wire._values import written_time as wire_time

T = TypeVar("T")


class LakeCache(Generic[T]):
    """Values by name; a new version of any table of the lake empties it.

    Parameters
    ----------
    lake : LakeReader
        The lake that the values are computed from.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> from tidytape.lake import Lake
    >>> lake = Lake.create(tempfile.mkdtemp())
    >>> remembered = LakeCache(lake)
    >>> remembered.get("markets", lambda: lake.markets().height), remembered.get("markets", lambda: 5)
    (0, 0)
    >>> lake.writer().register(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["BTCUSDT"]}))
    >>> remembered.get("markets", lambda: lake.markets().height)
    1
    """

    def __init__(self, lake: LakeReader) -> None:
        self._lake = lake
        self._version: dict[str, int] = {}
        self._values: dict[Hashable, T] = {}
        self._lock = threading.Lock()

    def get(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a name; compute it if the cache has none for the lake's present version."""
        version = self._lake.version()
        with self._lock:
            if version != self._version:
                self._version, self._values = version, {}
            if name in self._values:
                return self._values[name]
        # Computed outside the lock: two callers at the same time both compute it, and neither waits for the other.
        value = make()
        with self._lock:
            if version == self._version:
                self._values[name] = value
        return value


COLUMNS = ("type", "exchange", "raw_symbol", "normalized_symbol", "coin", "category", "first", "last")
"""The columns of `holdings`."""

_NAMES = ("normalized_symbol", "coin", "category")
_SUMMARIES = {name: plan.summary for name, plan in PLANS.items() if plan.summary is not None}


class Inventory:
    """The holdings of a lake, kept until the lake changes.

    Parameters
    ----------
    lake : LakeReader
    """

    def __init__(self, lake: LakeReader) -> None:
        self.lake = lake
        self._known: LakeCache[pl.DataFrame] = LakeCache(lake)

    def all(self) -> pl.DataFrame:
        """Return `holdings` of the lake."""
        return self._known.get("holdings", lambda: holdings(self.lake))

    def option_summaries(self) -> pl.DataFrame:
        """Return the option summaries as markets.

        Returns
        -------
        polars.DataFrame, one row per exchange, symbol and tenor
            ``exchange``, ``raw_symbol``, ``normalized_symbol``, ``coin``, ``category``, ``tenor``, ``available_since``
            [ns since the epoch].
        """
        return self._known.get("summaries", self._option_summaries)

    def marketcaps(self) -> pl.DataFrame:
        """Return the last known market capitalization of each coin, from the reports of token supply.

        Returns
        -------
        polars.DataFrame, one row per coin with a known market capitalization
            ``coin``, ``marketcap`` [USD]. If a coin has several tokens, the largest counts: the others are wrapped or
            pegged to it.
        """
        return self._known.get("marketcaps", lambda: _marketcaps(self.lake))

    def _option_summaries(self) -> pl.DataFrame:
        holdings_ = self.all()
        key = ["type", "exchange", "raw_symbol", "coin"]
        names = ("exchange", "raw_symbol", "normalized_symbol", "coin", "category", "tenor")
        return tenors(self.lake, holdings_).join(holdings_, on=key).select(*names, available_since="first")


def _marketcaps(lake: LakeReader) -> pl.DataFrame:
    marketcap, coin = pl.col("marketcap"), pl.col("coin")
    # A report may lack the coin or the market capitalization, so each comes from the newest report that has it.
    known_marketcap = pl.when(marketcap.is_finite() & (marketcap >= 0)).then(marketcap)
    return (
        lake.scan("token_supply")
        .group_by("token_name")
        .agg(
            coin.sort_by("timestamp").drop_nulls().last(),
            known_marketcap.sort_by("timestamp").drop_nulls().last().alias("marketcap"),
        )
        .drop_nulls()
        .group_by("coin")
        .agg(marketcap.max())
        .collect(engine="streaming")
    )


def holdings(lake: LakeReader) -> pl.DataFrame:
    """Return every data type with every market that has it.

    Parameters
    ----------
    lake : LakeReader

    Returns
    -------
    polars.DataFrame, one row per data type and market, in the order of the catalogue and then by exchange and symbol
        ``type``; ``exchange``, ``raw_symbol``, ``normalized_symbol``, ``coin``, ``category``, each null if the market
        has none; ``first``, ``last``, times of its first and last event [ns since the epoch]. Option summaries and
        tokens count as markets here.

    Raises
    ------
    LakeError
        If the lake cannot be read.
    """
    position_by_type = {name: position for position, name in enumerate(DATA_TYPES)}
    rows = pl.concat([part.select(COLUMNS) for part in _parts(lake)])
    position = pl.col("type").replace_strict(position_by_type, return_dtype=pl.Int64)
    return rows.sort(position, "exchange", "raw_symbol", "coin")


def _parts(lake: LakeReader) -> Iterator[pl.DataFrame]:
    market_columns = ["exchange", "raw_symbol"]
    names_of_markets = lake.markets().filter(pl.col("tenor").is_null()).select(*market_columns, *_NAMES)
    extents_by_table = {
        table: lake.extents(table)
        for table in sorted({table for tables in TABLES_OF_MARKETS.values() for table in tables})
    }
    for name, tables in TABLES_OF_MARKETS.items():
        extents = pl.concat([extents_by_table[table] for table in tables])
        markets = extents.group_by(market_columns).agg(pl.col("first").min(), pl.col("last").max())
        yield markets.join(names_of_markets, on=market_columns, how="left").with_columns(type=pl.lit(name))
    chains = lake.extents("option_quotes")
    for name in types_of("option_quotes"):
        symbols = pl.DataFrame(
            [(coin, symbol or None) for coin in chains["coin"].unique() for symbol in summaries(name, coin)],
            schema={"coin": pl.String, "raw_symbol": pl.String},
            orient="row",
        )
        yield chains.join(symbols, on="coin").with_columns(
            type=pl.lit(name), normalized_symbol=pl.col("coin"), category=pl.lit(Category.OPTION.value)
        )
    time, no_name = pl.col("timestamp"), pl.lit(None, pl.String)
    tokens = lake.scan("token_supply").group_by("token_name", "coin").agg(first=time.min(), last=time.max())
    for name in types_of("token_supply"):
        yield tokens.with_columns(
            type=pl.lit(name),
            exchange=no_name,
            raw_symbol=no_name,
            normalized_symbol=no_name,
            category=no_name,
        ).collect(engine="streaming")


def types_of(table: str) -> list[str]:
    """Return the data types whose points are made of a table."""
    return [name for name, plan in PLANS.items() if table in plan.tables]


def tenors(lake: LakeReader, rows: pl.DataFrame, *, end: int | None = None) -> pl.DataFrame:
    """Return the tenors of option summaries on the last day on which each chain has quotes.

    Parameters
    ----------
    lake : LakeReader
    rows : polars.DataFrame
        Rows of `holdings`; those of other types have no tenor.
    end : int, optional
        Only quotes before this time count. [ns since the epoch]

    Returns
    -------
    polars.DataFrame, one row per type, exchange, raw_symbol and tenor
        These columns, and ``coin``.
    """
    frames = [
        pl.DataFrame(schema=dict.fromkeys(("type", "exchange", "raw_symbol", "coin", "tenor"), pl.String))
    ]
    summary_rows = rows.filter(pl.col("type").is_in(list(_SUMMARIES)))
    chains = summary_rows.select("exchange", "coin", "last").unique(maintain_order=True)
    for exchange, coin, last_quote in chains.iter_rows():
        last_time = last_quote if end is None else min(last_quote, end - 1)
        quotes = lake.scan(
            "option_quotes", exchange=exchange, start=last_time // DAY * DAY, end=last_time + 1
        ).filter(pl.col("coin") == coin)
        for name, summary in _SUMMARIES.items():
            frames.append(
                summary(quotes, interval="1d")
                .select("exchange", "raw_symbol", "tenor")
                .unique()
                .with_columns(type=pl.lit(name), coin=pl.lit(coin))
                .select(frames[0].columns)
                .collect(engine="streaming")
            )
    key_columns = ["type", "exchange", "raw_symbol"]
    return pl.concat(frames).join(summary_rows.select(key_columns), on=key_columns, how="semi")


_FILTERS = ("type", "exchange", "category", "coin", "raw_symbol", "normalized_symbol")


def entries(holdings: Inventory, name: str, query: MetaQuery) -> list[Any]:
    """Return the entries of a list endpoint.

    Parameters
    ----------
    holdings : Inventory
        What the lake holds.
    name : str
        Name of the endpoint, one of `tidytape.catalogue.LISTS`.
    query : MetaQuery
        The filters: an entry needs one of the data types, exchanges, categories, coins and symbols that the query
        names, and an event between ``start`` and ``end``.

    Returns
    -------
    list of str, sorted; for block sizes, list of dict
        ``exchange``, ``rawSymbol`` and ``blockSize`` [quote per coin].

    Raises
    ------
    QueryError
        If a type does not exist; or if the endpoint needs a type and the query has none: the API's contract defines
        this as a server error.
    LakeError
        If the lake cannot be read.
    """
    if name in LISTS_OF_A_TYPE and not query.type:
        raise QueryError("type", got=None, expected="at least one data type", code="INTERNAL_ERROR")
    rows, field = narrowed(holdings, query), LISTS[name]
    if field == "blockSizes":
        return _block_sizes(holdings.lake, rows)
    if field == "tenors":
        column = tenors(holdings.lake, rows, end=None if query.end is None else query.end * SECOND)["tenor"]
    else:
        column = rows[_COLUMNS_OF_LISTS[field]]
    names = set(column.drop_nulls())
    return [str(name) for name in _ORDERS.get(field, sorted(names)) if name in names]


_COLUMNS_OF_LISTS = {
    "types": "type",
    "exchanges": "exchange",
    "categories": "category",
    "coins": "coin",
    "rawSymbols": "raw_symbol",
    "normalizedSymbols": "normalized_symbol",
}
_ORDERS: Mapping[str, Iterable[str]] = {"types": DATA_TYPES, "categories": Category, "tenors": Tenor}


def narrowed(holdings: Inventory, query: MetaQuery) -> pl.DataFrame:
    """Return the part of the inventory that passes the filters of a query, see `filtered`.

    Parameters
    ----------
    holdings : Inventory
        What the lake holds.
    query : MetaQuery
        As for `entries`.

    Returns
    -------
    polars.DataFrame, one row per data type and market
        The columns of the inventory.

    Raises
    ------
    QueryError
        If a type does not exist.
    LakeError
        If the lake cannot be read.
    """
    rows = filtered(holdings.all(), query)
    if query.start is not None:
        rows = rows.filter(pl.col("last") >= query.start * SECOND)
    if query.end is not None:
        rows = rows.filter(pl.col("first") < query.end * SECOND)
    return rows


def filtered(
    rows: pl.DataFrame, query: MetaQuery | MarketsQuery, columns: Iterable[str] = _FILTERS
) -> pl.DataFrame:
    """Return the rows that have one of the names of each filter of a query.

    Raises
    ------
    QueryError
        If a type of the query does not exist.
    """
    for name in query.type:
        data_type(name)  # raises if the type does not exist
    for column in columns:
        names = [str(name) for name in getattr(query, column)]
        if names:
            rows = rows.filter(pl.col(column).is_in(names))
    return rows


def _block_sizes(lake: LakeReader, rows: pl.DataFrame) -> list[Any]:
    """Return the recommended block size of every market with a book, at the mid price of its last snapshot."""
    books = rows.filter(pl.col("type").is_in(types_of("book"))).select("exchange", "raw_symbol")
    markets = books.join(
        lake.markets().filter(pl.col("tenor").is_null()), on=["exchange", "raw_symbol"], how="left"
    ).sort("exchange", "raw_symbol")
    sizes = []
    for exchange, symbol, tick, size in markets.select(
        "exchange", "raw_symbol", "tick_size", "block_size"
    ).iter_rows():
        mid_price = _middle(lake, exchange, symbol)
        best_size = size if mid_price is None else float(recommended_block_size(mid_price, tick_size=tick))
        if best_size is not None:
            sizes.append({"exchange": exchange, "rawSymbol": symbol, "blockSize": best_size})
    return sizes


def _middle(lake: LakeReader, exchange: str, symbol: str) -> float | None:
    """Return the mid price of the last snapshot of a book; None if there is no snapshot, or it lacks a side."""
    book = lake.scan("book", exchange=exchange, raw_symbol=symbol).filter("is_snapshot", pl.col("size") > 0)
    time, price, side = pl.col("timestamp"), pl.col("price"), pl.col("side")
    newest_time = book.select(time.max()).collect(engine="streaming").item()
    if newest_time is None:
        return None
    mid = book.filter(time == newest_time).select(
        (price.filter(side == "BID").max() + price.filter(side == "ASK").min()) / 2
    )
    mid_price: float | None = mid.collect(engine="streaming").item()
    return mid_price if mid_price is not None and mid_price > 0 else None


def spans(holdings: Inventory, query: MetaQuery) -> list[dict[str, Any]]:
    """Return how many markets each data type has on each exchange, with the first and the last event.

    Parameters
    ----------
    holdings : Inventory
        What the lake holds.
    query : MetaQuery
        As for `entries`.

    Returns
    -------
    list of dict, types in the order of the catalogue, exchanges sorted
        ``type``; ``exchange``, None if the type has none; ``subjects``, the number of markets, option summaries or
        tokens; ``first`` and ``last``, timestamps of the first and the last event.

    Raises
    ------
    QueryError
        If a type does not exist.
    LakeError
        If the lake cannot be read.
    """
    counts = (
        narrowed(holdings, query)
        .group_by("type", "exchange", maintain_order=True)
        .agg(pl.len().alias("subjects"), pl.col("first").min(), pl.col("last").max())
    )
    return [
        {**row, "first": wire_time(row["first"]), "last": wire_time(row["last"])}
        for row in counts.iter_rows(named=True)
    ]


def out_of_history(
    lake: LakeReader, keys: Iterable[Key], tiers: Mapping[str, Tier], *, now: float
) -> tuple[str, ...]:
    """Return a warning for each tier in use whose history does not reach the newest data of a lake.

    Parameters
    ----------
    lake : LakeReader
        The lake that is served.
    keys : iterable of Key
        The keys of the service; expired ones do not count.
    tiers : mapping of str to Tier
        All tiers.
    now : float
        Epoch second. [s]

    Raises
    ------
    LakeError
        If the lake cannot be read.
    """
    newest = holdings(lake)["last"].max()
    if not isinstance(newest, int):
        return ()
    in_use = {tier_of(key.tier, tiers).name for key in keys if key.expires is None or now < key.expires}

    def reaches(tier: Tier) -> bool:
        history_start = tier.history_start(now=now)
        return history_start is None or newest >= history_start * SECOND

    names_in_reach = [name for name, tier in tiers.items() if reaches(tier)]
    others = (
        f"'tidytape keys new --tier {names_in_reach[0]}' makes a key that reaches it, and a"
        if names_in_reach
        else "a"
    )
    return tuple(
        f"the newest data is of {written_time(newest // SECOND)}, and keys of tier {name} have the last "
        f"{counted(tier.history_days or 0, 'day')}: whatever they ask of it is refused; {others} file of tiers "
        "(--tiers) sets how far back a tier has"
        for name, tier in tiers.items()
        if tier.name in in_use and not reaches(tier)
    )
