"""Prediction markets: merge reports of them, and list the markets of their outcomes.

A prediction market asks a question. Each outcome is a market of its exchange, whose price between 0 and 1 is the
probability that the outcome happens.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from tidytape.catalogue import Category
from tidytape.errors import QueryError, nearest
from tidytape.lake._tables import MARKETS, PREDICTION_MARKETS

BLOCK_SIZE = 0.001
"""Height of a level of an outcome's profile: prices lie between 0 and 1. [quote per coin]"""

_MARKET_COLUMNS = ["exchange", "condition_id"]
_REPORT_COLUMNS = [*_MARKET_COLUMNS, "reported"]
_SINCE_COLUMN = "available_since"
_VALUE_COLUMNS = [name for name in PREDICTION_MARKETS.names if name not in _REPORT_COLUMNS]
_MOST_NAMES_TO_COMPARE = 2_000

_DECIMALS = 12  # of a probability, so that 1 - 0.9 is 0.1
# A report has these values for the first outcome; the expressions give those of the second of two outcomes.
_OPPOSITES = {
    "last_price": (1.0 - pl.col("last_price")).round(_DECIMALS),
    "one_day_price_change": 0.0 - pl.col("one_day_price_change"),
    "prices": pl.col("prices").list.eval((1.0 - pl.element()).round(_DECIMALS)),
}


def merged(registered: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Return the reports with new ones merged in; each keeps only the values of columns that no newer report has.

    The result depends only on the set of all reports, not on their order or on how often each came. Of two reports of
    one time the larger value counts as the newer. The newest report has the earliest ``available_since`` of all. NaN
    counts as null.

    Parameters
    ----------
    registered, new : polars.DataFrame, n and m rows, in any order
        The table PREDICTION_MARKETS.

    Returns
    -------
    polars.DataFrame, one row per report that still has a value, sorted by the key
        The same columns. For each prediction market and column at most one report has a value.

    Examples
    --------
    >>> first = pl.DataFrame(
    ...     {"exchange": "P", "condition_id": "0x1", "reported": [5], "slug": "a", "last_price": 0.5, "line": 1.5}
    ... )
    >>> second = first.drop("line").with_columns(reported=pl.lit(9), last_price=pl.lit(0.7))
    >>> both = merged(PREDICTION_MARKETS.conform(second), PREDICTION_MARKETS.conform(first))
    >>> both.select("reported", "last_price", "line").rows()
    [(5, None, 1.5), (9, 0.7, None)]
    """
    float_columns = [column.name for column in PREDICTION_MARKETS.columns if column.dtype == "float64"]
    reports = (
        pl.concat([registered, new], how="diagonal")
        .with_columns(pl.col(float_columns).fill_nan(None))
        .group_by(_REPORT_COLUMNS)
        .agg(_larger(name) for name in _VALUE_COLUMNS)
    )
    newest_report = pl.col("reported").max()
    newest_values = [
        pl.when(
            pl.col("reported")
            == pl.col("reported").filter(pl.col(name).is_not_null()).max().over(_MARKET_COLUMNS)
        )
        .then(pl.col(name))
        .alias(name)
        for name in _VALUE_COLUMNS
        if name != _SINCE_COLUMN
    ]
    earliest_since = pl.when(pl.col("reported") == newest_report.over(_MARKET_COLUMNS)).then(
        pl.col(_SINCE_COLUMN).min().over(_MARKET_COLUMNS)
    )
    pruned_reports = reports.with_columns(*newest_values, earliest_since.alias(_SINCE_COLUMN))
    # The newest report always stays: it says when the prediction market was last reported.
    is_kept = pl.any_horizontal(pl.col(_VALUE_COLUMNS).is_not_null()) | (
        pl.col("reported") == newest_report.over(_MARKET_COLUMNS)
    )
    return pruned_reports.filter(is_kept).select(PREDICTION_MARKETS.names).sort(_REPORT_COLUMNS)


def _larger(name: str) -> pl.Expr:
    """Return the value of a column that counts among reports of one time."""
    if name == _SINCE_COLUMN:
        return pl.col(name).min()
    if isinstance(PREDICTION_MARKETS.polars()[name], pl.List):
        lists = pl.col(name).drop_nulls()
        return lists.sort_by(lists.cast(pl.List(pl.String)).list.join("\n", ignore_nulls=True)).last()
    return pl.col(name).max()


def latest(reports: pl.DataFrame) -> pl.DataFrame:
    """Return the prediction markets, each value from the newest report that has it.

    Parameters
    ----------
    reports : polars.DataFrame, n rows
        What `merged` returned.

    Returns
    -------
    polars.DataFrame, one row per prediction market, sorted by (exchange, condition_id)
        The same columns; ``reported`` is the time of the newest report.
    """
    markets = reports.group_by(_MARKET_COLUMNS).agg(
        pl.col("reported").max(), *(pl.col(name).drop_nulls().first() for name in _VALUE_COLUMNS)
    )
    return markets.select(PREDICTION_MARKETS.names).sort(_MARKET_COLUMNS)


def by_outcome(predictions: pl.DataFrame) -> pl.DataFrame:
    """Return the prediction markets, one row per market of an outcome.

    Parameters
    ----------
    predictions : polars.DataFrame, n rows
        What `Lake.prediction_markets` returns.

    Returns
    -------
    polars.DataFrame, one row per outcome that has a market, in the order of ``predictions``
        ``raw_symbol`` and ``outcome`` (null if it has no name), and the columns of ``predictions`` except
        ``raw_symbols``. ``predictions`` has ``last_price``, ``one_day_price_change`` and ``prices`` of the first
        outcome only. Exactly one of two outcomes happens, so the probability of the second is 1 minus that of the
        first. Of three or more outcomes the others have nulls, because no report has their values.

    Examples
    --------
    >>> yes_no = pl.DataFrame({"slug": ["a"], "outcomes": [["Yes", "No"]], "raw_symbols": [["1", "2"]]})
    >>> by_outcome(yes_no).select("slug", "raw_symbol", "outcome").rows()
    [('a', '1', 'Yes'), ('a', '2', 'No')]
    >>> by_outcome(yes_no.with_columns(last_price=0.51))["last_price"].to_list()
    [0.51, 0.49]
    """
    indices = pl.int_ranges(pl.col("raw_symbols").list.len()).alias("_index")
    outcomes = (
        predictions.filter(pl.col("raw_symbols").list.len() > 0)
        .with_columns(indices, _outcome_count=pl.col("raw_symbols").list.len())
        .explode("raw_symbols", "_index")
        .rename({"raw_symbols": "raw_symbol"})
    )
    outcome = pl.col("outcomes").list.get(pl.col("_index"), null_on_oob=True).alias("outcome")
    is_first, is_second_of_two = (
        pl.col("_index") == 0,
        (pl.col("_index") == 1) & (pl.col("_outcome_count") == 2),
    )
    outcome_values = [
        pl.when(is_first).then(pl.col(name)).when(is_second_of_two).then(opposite).alias(name)
        for name, opposite in _OPPOSITES.items()
        if name in outcomes.columns
    ]
    return outcomes.with_columns(outcome, *outcome_values).drop("_index", "_outcome_count")


def outcome_markets(predictions: pl.DataFrame, *, quote_coin: str, quote_coin_name: str) -> pl.DataFrame:
    """Return the markets of outcomes, ready to be registered.

    An outcome is bought and held outright, so it is a SPOT market like any other. Its coin is the outcome itself,
    never what the question is about: a probability must not be mixed with the prices of a coin of that name.

    Parameters
    ----------
    predictions : polars.DataFrame, n rows
        What `Lake.prediction_markets` returns.
    quote_coin, quote_coin_name : str
        The quote of the exchange's prices, e.g. ``"USDC"`` and ``"USD Coin"``.

    Returns
    -------
    polars.DataFrame, one row per outcome that has a market
        The table MARKETS.

    Examples
    --------
    >>> row = {"exchange": "P", "condition_id": "0x1", "reported": 5, "slug": "rain", "question": "Will it rain?"}
    >>> rain = pl.DataFrame([row | {"outcomes": ["Yes", "No"], "raw_symbols": ["1", "2"]}])
    >>> markets = outcome_markets(PREDICTION_MARKETS.conform(rain), quote_coin="USDC", quote_coin_name="USD Coin")
    >>> markets.select("raw_symbol", "normalized_symbol", "full_name").row(0)
    ('1', 'rain:Yes-USDC', 'Will it rain? Yes')
    """
    # A token that two prediction markets name is one market.
    outcomes = by_outcome(predictions).unique(["exchange", "raw_symbol"], keep="first", maintain_order=True)
    outcome = pl.coalesce("outcome", "raw_symbol")
    coin = pl.concat_str(pl.col("slug"), pl.lit(":"), outcome)
    return MARKETS.conform(
        outcomes.with_columns(
            coin=coin,
            normalized_symbol=coin + pl.lit("-" + quote_coin),
            quote_coin=pl.lit(quote_coin),
            category=pl.lit(Category.SPOT.value),
            tick_size=pl.col("order_price_min_tick_size"),
            block_size=pl.lit(BLOCK_SIZE),
            coin_name=outcome,
            quote_coin_name=pl.lit(quote_coin_name),
            full_name=pl.concat_str("question", outcome, separator=" ", ignore_nulls=True),
        )
    )


def of_events(markets: pl.DataFrame, predictions: pl.DataFrame, slugs: Collection[str]) -> pl.DataFrame:
    """Keep the markets whose prediction market, or its event, has one of some slugs.

    Parameters
    ----------
    markets : polars.DataFrame, n rows, key (exchange, raw_symbol)
        Markets of the exchanges of a query.
    predictions : polars.DataFrame
        What `Lake.prediction_markets` returns.
    slugs : collection of str
        Slugs; an empty one keeps every market.

    Returns
    -------
    polars.DataFrame, at most n rows, same order and columns
        Empty if the exchanges have these events, but ``markets`` has no market of them.

    Raises
    ------
    QueryError
        If no prediction market of the exchanges of ``markets`` has a slug; the hint names the nearest.

    Examples
    --------
    >>> markets = pl.DataFrame({"exchange": ["P", "P"], "raw_symbol": ["1", "3"]})
    >>> rain = {"exchange": "P", "slug": "rain", "event_slug": None, "outcomes": ["Yes"], "raw_symbols": ["1"]}
    >>> of_events(markets, pl.DataFrame([rain]), ["rain"]).rows()
    [('P', '1')]
    """
    if not slugs:
        return markets
    of_exchanges = predictions.filter(pl.col("exchange").is_in(markets["exchange"].unique().to_list()))
    known_slugs = (
        pl.concat([of_exchanges["slug"], of_exchanges["event_slug"].cast(pl.String)])
        .drop_nulls()
        .unique()
        .sort()
    )
    for slug in slugs:
        if slug not in known_slugs:
            nearest_slug = _nearest(slug, known_slugs)
            raise QueryError(
                "event",
                got=slug,
                expected="the slug of a prediction market or event that the lake holds for the exchanges asked for",
                hint=f"did you mean {nearest_slug!r}?"
                if nearest_slug
                else "``client.markets()`` lists what there is",
                code="INVALID_SYMBOL",
            )
    has_slug = pl.col("slug").is_in(list(slugs))
    has_event_slug = pl.col("event_slug").cast(pl.String).is_in(list(slugs)).fill_null(value=False)
    return markets.join(
        by_outcome(of_exchanges.filter(has_slug | has_event_slug)),
        on=["exchange", "raw_symbol"],
        how="semi",
        maintain_order="left",
    )


def _nearest(slug: str, slugs: pl.Series) -> str | None:
    # An exchange has a hundred thousand slugs and comparing is slow. So compare only the slugs that share the longest
    # beginning with this one.
    for length in range(1, len(slug) + 1):
        similar_slugs = slugs.filter(slugs.str.starts_with(slug[:length]))
        if len(slugs) <= _MOST_NAMES_TO_COMPARE or similar_slugs.is_empty():
            break
        slugs = similar_slugs
    return nearest(slug, slugs.head(_MOST_NAMES_TO_COMPARE))
