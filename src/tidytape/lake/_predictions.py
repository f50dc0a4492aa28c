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
"""Height of a price row of an outcome's profile: prices lie between 0 and 1. [quote per coin]"""

_OWNER = ["exchange", "condition_id"]
_REPORT = [*_OWNER, "reported"]
_SINCE = "available_since"
_VALUES = [name for name in PREDICTION_MARKETS.names if name not in _REPORT]
_MOST_NAMES_TO_COMPARE = 2_000

_DECIMALS = 12  # of a probability: 1 - 0.9 is 0.1
# A report has these values of the first outcome; here they are converted to the second of two outcomes.
_OPPOSITES = {
    "last_price": (1.0 - pl.col("last_price")).round(_DECIMALS),
    "one_day_price_change": 0.0 - pl.col("one_day_price_change"),
    "prices": pl.col("prices").list.eval((1.0 - pl.element()).round(_DECIMALS)),
}


def merged(registered: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Return the reports with new ones merged in, each with only the values that no newer one has.

    The result depends on the set of all reports ever merged, neither on their order nor on how often each came. Of two
    reports of one time the larger value counts as the later. ``available_since`` is the earliest of all, in the newest
    report. NaN counts as null.

    Parameters
    ----------
    registered, new : polars.DataFrame, n and m rows, in any order
        The table PREDICTION_MARKETS.

    Returns
    -------
    polars.DataFrame, one row per report that still has a value, sorted by the key
        The same columns; for each prediction market at most one report has a value of a column.

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
    floats = [column.name for column in PREDICTION_MARKETS.columns if column.dtype == "float64"]
    reports = (
        pl.concat([registered, new], how="diagonal")
        .with_columns(pl.col(floats).fill_nan(None))
        .group_by(_REPORT)
        .agg(_larger(name) for name in _VALUES)
    )
    newest = pl.col("reported").max()
    values = [
        pl.when(
            pl.col("reported") == pl.col("reported").filter(pl.col(name).is_not_null()).max().over(_OWNER)
        )
        .then(pl.col(name))
        .alias(name)
        for name in _VALUES
        if name != _SINCE
    ]
    since = pl.when(pl.col("reported") == newest.over(_OWNER)).then(pl.col(_SINCE).min().over(_OWNER))
    pruned = reports.with_columns(*values, since.alias(_SINCE))
    # The newest report always stays: it says when the prediction market was last reported.
    stays = pl.any_horizontal(pl.col(_VALUES).is_not_null()) | (pl.col("reported") == newest.over(_OWNER))
    return pruned.filter(stays).select(PREDICTION_MARKETS.names).sort(_REPORT)


def _larger(name: str) -> pl.Expr:
    if name == _SINCE:
        return pl.col(name).min()
    if isinstance(PREDICTION_MARKETS.polars()[name], pl.List):
        known = pl.col(name).drop_nulls()
        return known.sort_by(known.cast(pl.List(pl.String)).list.join("\n", ignore_nulls=True)).last()
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
        The same columns; ``reported`` is the time of the newest.
    """
    folded = reports.group_by(_OWNER).agg(
        pl.col("reported").max(), *(pl.col(name).drop_nulls().first() for name in _VALUES)
    )
    return folded.select(PREDICTION_MARKETS.names).sort(_OWNER)


def by_outcome(predictions: pl.DataFrame) -> pl.DataFrame:
    """Return the prediction markets, one row per market of an outcome.

    Parameters
    ----------
    predictions : polars.DataFrame, n rows
        What `Lake.prediction_markets` returns.

    Returns
    -------
    polars.DataFrame, one row per outcome that has a market, in the order of ``predictions``
        ``raw_symbol`` and ``outcome`` (null if it has no name), and its columns except ``raw_symbols``. A report has
        ``last_price``, ``one_day_price_change`` and ``prices`` of the first outcome; here each outcome has its own. Of
        two outcomes one will happen, so the probability of the second is 1 minus that of the first. The second and
        later of three or more outcomes have nulls: no report has their values.

    Examples
    --------
    >>> yes_no = pl.DataFrame({"slug": ["a"], "outcomes": [["Yes", "No"]], "raw_symbols": [["1", "2"]]})
    >>> by_outcome(yes_no).select("slug", "raw_symbol", "outcome").rows()
    [('a', '1', 'Yes'), ('a', '2', 'No')]
    >>> by_outcome(yes_no.with_columns(last_price=0.51))["last_price"].to_list()
    [0.51, 0.49]
    """
    places = pl.int_ranges(pl.col("raw_symbols").list.len()).alias("_place")
    outcomes = (
        predictions.filter(pl.col("raw_symbols").list.len() > 0)
        .with_columns(places, _outcomes=pl.col("raw_symbols").list.len())
        .explode("raw_symbols", "_place")
        .rename({"raw_symbols": "raw_symbol"})
    )
    outcome = pl.col("outcomes").list.get(pl.col("_place"), null_on_oob=True).alias("outcome")
    is_first, is_second_of_two = pl.col("_place") == 0, (pl.col("_place") == 1) & (pl.col("_outcomes") == 2)
    of_outcome = [
        pl.when(is_first).then(pl.col(name)).when(is_second_of_two).then(opposite).alias(name)
        for name, opposite in _OPPOSITES.items()
        if name in outcomes.columns
    ]
    return outcomes.with_columns(outcome, *of_outcome).drop("_place", "_outcomes")


def outcome_markets(predictions: pl.DataFrame, *, quote_coin: str, quote_coin_name: str) -> pl.DataFrame:
    """Return the markets of outcomes, to be registered.

    An outcome is bought and held outright, so it is a SPOT market like any other. Its coin is the outcome itself,
    never what the question is about: a probability must not be mixed with the prices of a coin of that name.

    Parameters
    ----------
    predictions : polars.DataFrame, n rows
        What `Lake.prediction_markets` returns.
    quote_coin, quote_coin_name : str
        What the exchange's prices are in, e.g. ``"USDC"`` and ``"USD Coin"``.

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
    # A token of two prediction markets is one market.
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
    """Keep the markets whose prediction market, or the event it is grouped in, has one of some slugs.

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
        Empty if the exchanges have these events, and ``markets`` has no market of them.

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
    known = (
        pl.concat([of_exchanges["slug"], of_exchanges["event_slug"].cast(pl.String)])
        .drop_nulls()
        .unique()
        .sort()
    )
    for slug in slugs:
        if slug not in known:
            close = _nearest(slug, known)
            raise QueryError(
                "event",
                got=slug,
                expected="the slug of a prediction market or event that the lake holds for the exchanges asked for",
                hint=f"did you mean {close!r}?" if close else "``client.markets()`` lists what there is",
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


def _nearest(slug: str, known: pl.Series) -> str | None:
    # An exchange has a hundred thousand slugs and comparing is slow, so compare only the ones with the longest common
    # beginning.
    for length in range(1, len(slug) + 1):
        with_beginning = known.filter(known.str.starts_with(slug[:length]))
        if len(known) <= _MOST_NAMES_TO_COMPARE or with_beginning.is_empty():
            break
        known = with_beginning
    return nearest(slug, known.head(_MOST_NAMES_TO_COMPARE))
