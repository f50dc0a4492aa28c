"""Reports to token supply: market cap, dominance and supplies per interval."""

from __future__ import annotations

from collections.abc import Collection

import narwhals.stable.v2 as nw

from tidytape.aggregate._reports import CARRY, by_bucket, known_sum, latest, number
from tidytape.errors import QueryError
from tidytape.frames._door import BUCKET
from tidytape.frames._table import Rows, tabular
from tidytape.frames._times import bucket_start
from tidytape.schema import schema_of
from tidytape.times import SECOND, AnyInterval, frame_interval

_TOKEN = ("token_name",)
_NUMBERS = (
    "marketcap",
    "circulating_supply",
    "total_supply",
    "max_supply",
    "total_value_locked",
    "fully_diluted_valuation",
    "total_volume",
    "usd_price",
)
_RANK = "cg_marketcap_rank"
_TEXTS = ("coin", "chain", "contract_address")
_POINT = (
    *("token_name", "coin", "timestamp", "marketcap", "first_marketcap", "marketcap_dominance_percent"),
    *(*_NUMBERS[1:], _RANK, *_TEXTS[1:]),
)
_LAST = {name: (name, "last") for name in _NUMBERS} | {"first_marketcap": ("marketcap", "first")}


@tabular(
    [*_TOKEN, "timestamp", *_NUMBERS, _RANK, *_TEXTS],
    sort=[*_TOKEN, "timestamp"],
    main=schema_of("TOKEN_SUPPLY_AGG").names[-4:],
)
def token_supply(reports: Rows, /, *, interval: str, universe: Collection[str] | None = None) -> Rows:
    r"""Last reported market cap, supplies and price of each token in each interval, with its dominance.

    .. math:: d_i = 100 \, M_i / \sum_{j \in U} M_j

    where M is the market cap last reported in the interval. If a token of the universe U reported none in the interval,
    its last one from before counts, up to 24 hours before the last report of the universe in the interval. So
    ``reports`` must contain the 24 hours before the first interval. A share is null if the sum is unknown, because a
    token of the universe has no market cap at that time, or one of 9e15 or more. Without a universe the sum has every
    token that reported anything in these 24 hours, and at least two tokens; the fewer tokens are recorded, the larger
    are the shares.

    Every other column is the last value of the interval that is not null; it is not carried into other intervals. If
    two reports have the same time, the larger value counts as the later. A value that is null, NaN or infinite is no
    report.

    Parameters
    ----------
    reports : frame, n rows, in any order
        Columns ``token_name``, ``coin``, ``timestamp`` int64 [ns since the epoch] or with a zone, ``marketcap``,
        ``total_value_locked``, ``fully_diluted_valuation``, ``total_volume`` [USD], ``circulating_supply``,
        ``total_supply``, ``max_supply`` [coin], ``usd_price`` [USD per coin], ``cg_marketcap_rank``, ``chain``,
        ``contract_address``.
    interval : str
        Name or alias of an interval, e.g. ``"DAY"`` or ``"1d"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.
    universe : collection of str, optional
        Names of the tokens whose market caps are summed; by default all tokens of ``reports``.

    Returns
    -------
    frame, one row per token and bucket with a reported number; of the same kind as ``reports``
        ``token_name``, ``coin``, ``timestamp`` as in ``reports``, start of the bucket, ``marketcap``, last of the
        bucket, and ``first_marketcap``, first of it [USD], ``marketcap_dominance_percent`` [%], null for a token
        outside the universe and where the market cap is null or the sum is not positive, then the other columns of
        ``reports``. It has no ``exchange`` and no ``raw_symbol``. Sorted by (token_name, timestamp) where the engine
        keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, or the universe is empty or a single string.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> from tidytape.schema import schema_of
    >>> reports = pl.DataFrame(
    ...     dict.fromkeys(schema_of("TOKEN_SUPPLY_AGG").names)
    ...     | {"token_name": ["bitcoin", "ethereum"], "timestamp": [0, 0], "marketcap": [3e12, 1e12]}
    ... )
    >>> token_supply(reports, interval="1d").select("token_name", "marketcap_dominance_percent").rows()
    [('bitcoin', 75.0), ('ethereum', 25.0)]
    """
    bucket = frame_interval(interval)
    if isinstance(universe, str) or (universe is not None and not universe):
        raise QueryError("universe", got=universe, expected="names of tokens, at least one")
    frame = reports.with_columns(*(number(name) for name in _NUMBERS), nw.col(*_TEXTS).cast(nw.String()))
    is_complete, members = nw.col("count") > 1, frame
    if universe is not None:
        is_in_universe = nw.col("token_name").is_in(list(universe))
        is_complete = is_in_universe & (nw.col("count") == len(set(universe)))
        members = frame.filter(is_in_universe)
    has_share = is_complete & (nw.col("total") > 0)
    points = by_bucket(frame, bucket, _TOKEN, _LAST)
    for columns in ([_RANK], _TEXTS):
        points = points.join(
            by_bucket(frame, bucket, _TOKEN, {name: (name, "last") for name in columns}),
            on=[*_TOKEN, "timestamp"],
            how="left",
        )
    # Divide by a column that differs from row to row: for a constant polars multiplies by the rounded reciprocal, and
    # the total is a constant if a single bucket is joined to all points.
    total = nw.col("total") + nw.col("marketcap") * 0.0
    share = nw.when(has_share).then(100.0 * nw.col("marketcap") / total)
    return (
        points.join(_total(members, bucket), on="timestamp", how="left")
        .with_columns(share.alias("marketcap_dominance_percent"))
        .select(*_POINT)
    )


def _total(frame: Rows, interval: AnyInterval) -> Rows:
    """Return the sum of the last market caps in each bucket, one row per bucket."""
    start = bucket_start(nw.col("timestamp"), interval)
    bucketed = frame.with_columns(start.alias(BUCKET))
    last_reports = bucketed.group_by(*_TOKEN, BUCKET).agg(nw.col("timestamp").max())
    return known_sum(
        latest(frame, interval, _TOKEN, "marketcap"),
        bucketed.group_by(BUCKET).agg(nw.col("timestamp").max()).select("timestamp"),
        all_reports=last_reports.select(*_TOKEN, "timestamp"),
        groups=(),
        members=_TOKEN,
        value="marketcap",
        until=nw.max_horizontal(nw.col("timestamp") + CARRY + 1, start + interval.seconds * SECOND),
    ).select(start.alias("timestamp"), nw.col("marketcap").alias("total"), "count")
