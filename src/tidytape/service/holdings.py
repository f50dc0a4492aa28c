"""What a lake holds: which data types there are, of which subjects, from when to when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import polars as pl

from tidytape import aggregate
from tidytape.catalogue import DATA_TYPES, Category
from tidytape.lake import Lake
from tidytape.service.plans import SOURCES
from tidytape.service.remembered import Remembered
from tidytape.service.selection import summaries
from tidytape.times import DAY

__all__ = ["COLUMNS", "Holdings", "holdings", "tenors"]

COLUMNS = ("type", "exchange", "raw_symbol", "normalized_symbol", "coin", "category", "first", "last")
"""Of `holdings`."""

_NAMES = ("normalized_symbol", "coin", "category")
_SUMMARIES: Mapping[str, Callable[..., pl.LazyFrame]] = {
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": aggregate.implied_volatility,
    "SKEW_OPTION_SUMMARY_AGG": aggregate.skew,
}


class Holdings:
    """What a lake holds, looked up once and again when it has changed.

    Parameters
    ----------
    lake : Lake
    """

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._known: Remembered[pl.DataFrame] = Remembered(lake)

    def all(self) -> pl.DataFrame:
        """Return `holdings` of the lake."""
        return self._known.get("holdings", lambda: holdings(self.lake))

    def option_summaries(self) -> pl.DataFrame:
        """Return the option summaries as markets.

        Returns
        -------
        polars.DataFrame, one row per venue, symbol and tenor
            ``exchange``, ``raw_symbol``, ``normalized_symbol``, ``coin``, ``category``, ``tenor``, ``available_since``
            [ns since the epoch].
        """
        return self._known.get("summaries", self._option_summaries)

    def marketcaps(self) -> pl.DataFrame:
        """Return the last known market capitalization of each coin, by the reports of token supply.

        Returns
        -------
        polars.DataFrame, one row per coin of which one is known
            ``coin``, ``marketcap`` [USD]. Of several tokens of one coin, that of the largest counts: others are wrapped
            or pegged to it.
        """
        return self._known.get("marketcaps", lambda: _marketcaps(self.lake))

    def _option_summaries(self) -> pl.DataFrame:
        held = self.all()
        key = ["type", "exchange", "raw_symbol", "coin"]
        names = ("exchange", "raw_symbol", "normalized_symbol", "coin", "category", "tenor")
        return tenors(self.lake, held).join(held, on=key).select(*names, available_since="first")


def _marketcaps(lake: Lake) -> pl.DataFrame:
    marketcap, coin = pl.col("marketcap"), pl.col("coin")
    # Of each fact the newest report that has it: a report may lack the coin, or the number.
    known = pl.when(marketcap.is_finite() & (marketcap >= 0)).then(marketcap)
    tokens = (
        lake.scan("token_supply")
        .group_by("token_name")
        .agg(
            coin.sort_by("timestamp").drop_nulls().last(),
            known.sort_by("timestamp").drop_nulls().last().alias("marketcap"),
        )
    )
    return tokens.drop_nulls().group_by("coin").agg(marketcap.max()).collect(engine="streaming")


def holdings(lake: Lake) -> pl.DataFrame:
    """Return every data type with every subject that it can be asked for.

    Parameters
    ----------
    lake : Lake

    Returns
    -------
    polars.DataFrame, one row per data type and subject, in the order of the catalogue and then by venue and symbol
        ``type``; ``exchange``, ``raw_symbol``, ``normalized_symbol``, ``coin``, ``category``, null where the subject
        has none; ``first``, ``last``, times of its first and last event [ns since the epoch].

    Raises
    ------
    LakeError
        If the lake cannot be read.
    """
    order = {name: place for place, name in enumerate(DATA_TYPES)}
    found = pl.concat([part.select(COLUMNS) for part in _parts(lake)])
    place = pl.col("type").replace_strict(order, return_dtype=pl.Int64)
    return found.sort(place, "exchange", "raw_symbol", "coin")


def _parts(lake: Lake) -> Iterator[pl.DataFrame]:
    key = ["exchange", "raw_symbol"]
    names = lake.markets().filter(pl.col("tenor").is_null()).select(*key, *_NAMES)
    spans = {
        table: lake.extents(table) for table in sorted({one for many in SOURCES.values() for one in many})
    }
    for name, tables in SOURCES.items():
        span = pl.concat([spans[table] for table in tables])
        one = span.group_by(key).agg(pl.col("first").min(), pl.col("last").max())
        yield one.join(names, on=key, how="left").with_columns(type=pl.lit(name))
    chains = lake.extents("option_quotes")
    for name in (*_SUMMARIES, "OPTION_OPEN_INTEREST_AGG"):
        symbols = pl.DataFrame(
            [(coin, symbol or None) for coin in chains["coin"].unique() for symbol in summaries(name, coin)],
            schema={"coin": pl.String, "raw_symbol": pl.String},
            orient="row",
        )
        yield chains.join(symbols, on="coin").with_columns(
            type=pl.lit(name), normalized_symbol=pl.col("coin"), category=pl.lit(Category.OPTION.value)
        )
    time, none = pl.col("timestamp"), pl.lit(None, pl.String)
    tokens = lake.scan("token_supply").group_by("token_name", "coin").agg(first=time.min(), last=time.max())
    yield tokens.with_columns(
        type=pl.lit("TOKEN_SUPPLY_AGG"), exchange=none, raw_symbol=none, normalized_symbol=none, category=none
    ).collect(engine="streaming")


def tenors(lake: Lake, held: pl.DataFrame, *, end: int | None = None) -> pl.DataFrame:
    """Return the tenors that option summaries have on the last day with quotes of each chain.

    Parameters
    ----------
    lake : Lake
    held : polars.DataFrame
        From `holdings`; rows of other types have no tenor.
    end : int, optional
        Quotes before it count. [ns since the epoch]

    Returns
    -------
    polars.DataFrame, one row per type, exchange, raw_symbol and tenor
        Those columns, and ``coin``.
    """
    found = [
        pl.DataFrame(schema=dict.fromkeys(("type", "exchange", "raw_symbol", "coin", "tenor"), pl.String))
    ]
    wanted = held.filter(pl.col("type").is_in(list(_SUMMARIES)))
    chains = wanted.select("exchange", "coin", "last").unique(maintain_order=True)
    for exchange, coin, newest in chains.iter_rows():
        last = newest if end is None else min(newest, end - 1)
        quotes = lake.scan("option_quotes", exchange=exchange, start=last // DAY * DAY, end=last + 1)
        quotes = quotes.filter(pl.col("coin") == coin)
        for name, summary in _SUMMARIES.items():
            found.append(
                summary(quotes, interval="1d")
                .select("exchange", "raw_symbol", "tenor")
                .unique()
                .with_columns(type=pl.lit(name), coin=pl.lit(coin))
                .select(found[0].columns)
                .collect(engine="streaming")
            )
    key = ["type", "exchange", "raw_symbol"]
    return pl.concat(found).join(wanted.select(key), on=key, how="semi")
