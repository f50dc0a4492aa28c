"""Book events to a heatmap: the rebuilt book at each interval's end, in blocks of price."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

import narwhals.stable.v2 as nw

from tidytape.aggregate.book import EVENTS, at, runs_of, timed
from tidytape.analytics._arguments import one_of
from tidytape.catalogue import BookSide, Interval
from tidytape.errors import QueryError
from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start
from tidytape.frames.door import INSTRUMENT
from tidytape.frames.grid import Grid
from tidytape.frames.numbers import spread
from tidytape.frames.table import Rows, tabular
from tidytape.times import SECOND, interval_of

_KEY = (*INSTRUMENT, "timestamp", "side")
_SIZES = {"coin": "size", "quote": "quote_size"}


@tabular(EVENTS, in_parts=True)
def book_heatmap(
    events: Rows,
    /,
    *,
    interval: str,
    block_size: Decimal | float | str,
    max_depth: int | None = None,
    max_age: timedelta = timedelta(minutes=5),
    in_quote: bool = False,
    last: int | None = None,
) -> Rows:
    """Resting size per block of price, side and interval, as the book stood when the interval ended.

    A block holds the prices in ``[price, price + block_size)``. Blocks are integer multiples of the block size, decided
    on exact decimals; one around the mid can have bids and asks. A block without size does not appear. Where one of its
    sizes is unknown (null), the size of the block is null.

    Parameters
    ----------
    events : frame, n rows, in any order
        The lake's table ``book``, as for `tidytape.aggregate.book_runs`.
    interval : str
        Name or alias of an interval, e.g. ``"MINUTE"`` or ``"1m"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.
    block_size : Decimal, int, float or str, > 0
        Height of a block. [quote per coin]
    max_depth : int, >= 1, optional
        Keep so many blocks per side, those closest to the other side; all of them by default.
    max_age : timedelta, >= 0
        How long a book is believed after the instrument's last event. An interval at whose end it is older has no
        rows: the recording may have stopped.
    in_quote : bool
        Add ``quote_size``, the size in terms of the quote, each order at its own price.
    last : int, optional
        Time of the last event of all, where ``events`` are only those up to an earlier time: then none of their
        intervals is in progress but the one it lies in. [ns since the epoch]

    Returns
    -------
    frame, one row per instrument, interval, side and block with size; of the same kind as ``events``
        Key and payload of schema BLOCK_BOOK_SNAPSHOT_AGG: ``exchange``, ``raw_symbol``, ``timestamp`` int64, start of
        the interval [ns], ``side`` (BID or ASK), ``price``, low edge of the block [quote per coin], ``size`` [coin],
        and ``quote_size`` [quote] if ``in_quote``.
        Sorted by (exchange, raw_symbol, timestamp, side, price) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, or another argument is not as listed.

    Notes
    -----
    An event at the very end of an interval belongs to the next. An interval that ends before the first snapshot has no
    rows. The interval of an instrument's last event is in progress, and is returned as it stands, however old.

    Examples
    --------
    >>> import polars as pl
    >>> events = pl.DataFrame(
    ...     {
    ...         "exchange": "X",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [0, 0, 0, 61_000_000_000],
    ...         "last_id": [7, 7, 7, 9],
    ...         "is_snapshot": [True, True, True, False],
    ...         "side": ["BID", "BID", "ASK", "BID"],
    ...         "price": [10.1, 10.4, 10.6, 10.4],
    ...         "size": [1.0, 2.0, 4.0, 0.5],
    ...         "sequence": [1, 2, 3, 4],
    ...     }
    ... )
    >>> heatmap = book_heatmap(events, interval="1m", block_size="0.5")
    >>> heatmap.select(pl.col("timestamp") // 10**9, "side", "price", "size").rows()
    [(0, 'ASK', 10.5, 4.0), (0, 'BID', 10.0, 3.0), (60, 'ASK', 10.5, 4.0), (60, 'BID', 10.0, 1.5)]
    """
    length, grid = interval_of(interval), Grid.of(block_size)
    _require_depth(max_depth)
    if max_age < timedelta():
        raise QueryError("max_age", got=max_age, expected="a timedelta, not below 0")
    placed = timed(events)
    # Most runs are over within their interval, and are in no book here.
    lasting = runs_of(placed).filter(
        nw.col("until").is_null() | (_bucket("since", length) < _bucket("until", length))
    )
    sizes = ("size", "quote_size") if in_quote else ("size",)
    blocks = (
        at(lasting, _ends(placed, length, max_age, last), by="timestamp")
        .with_columns(row=grid.row(nw.col("price")), quote_size=nw.col("size") * nw.col("price"))
        .pipe(exact.in_parts, *sizes)
        .group_by(*INSTRUMENT, "start", "side", "row")
        .agg(exact.summed(*sizes))
        .select(
            *INSTRUMENT,
            nw.col("start").alias("timestamp"),
            "side",
            "row",
            grid.price(nw.col("row")).alias("price"),
            *(exact.total(name) for name in sizes),
        )
    )
    blocks = _closest(blocks, max_depth)
    return blocks.select(*_KEY, "price", *sizes).sort(*_KEY, "price")


def _needed(*, amount: str = "coin", **_: Any) -> list[str]:
    one_of("amount", amount, _SIZES)
    return [*_KEY, "price", _SIZES[amount]]


@tabular(_needed)
def book_of(
    minutes: Rows,
    /,
    *,
    interval: str,
    block_size: Decimal | float | str,
    amount: Literal["coin", "quote"] = "coin",
    max_depth: int | None = None,
    in_progress: int | None = None,
) -> Rows:
    """Resting size per block of price, side and interval, made of the books at the ends of minutes.

    Parameters
    ----------
    minutes : frame, n rows, in any order
        From `book_heatmap` with ``interval="1m"`` and ``in_quote=True``, of all blocks, of a size that divides this
        one.
    interval : str
        Name or alias of an interval.
    block_size : Decimal, int, float or str, > 0
        Height of a block. [quote per coin]
    amount : {"coin", "quote"}
        What ``size`` counts.
    max_depth : int, >= 1, optional
        Keep so many blocks per side, those closest to the other side; all of them by default.
    in_progress : int, optional
        Time of the instrument's last event: the interval it lies in is returned as it stands then. [ns since the epoch]

    Returns
    -------
    frame, one row per instrument, interval, side and block with size; of the same kind as ``minutes``
        As from `book_heatmap`. [coin or quote]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, or another argument is not as listed.

    Examples
    --------
    >>> import polars as pl
    >>> minutes = pl.DataFrame(
    ...     {
    ...         "exchange": "X", "raw_symbol": "BTCUSDT", "timestamp": [3_480_000_000_000, 3_540_000_000_000],
    ...         "side": "BID", "price": 10.0, "size": [1.0, 2.0], "quote_size": [10.0, 20.0],
    ...     }
    ... )
    >>> book_of(minutes, interval="1h", block_size=5).select("timestamp", "price", "size").rows()
    [(0, 10.0, 2.0)]
    """
    wanted, grid = interval_of(interval), Grid.of(block_size)
    _require_depth(max_depth)
    time, size = nw.col("timestamp"), nw.col(_SIZES[amount])
    frame = minutes.with_columns(bucket_start(time, wanted).alias("start"))
    shown = time == nw.col("start") + (wanted.seconds - Interval.MINUTE.seconds) * SECOND
    if in_progress is not None:
        shown |= time == bucket_start(nw.lit(in_progress, nw.Int64), Interval.MINUTE)
    blocks = (
        frame.filter(shown)
        .select(*_KEY, "start", grid.row(nw.col("price")).alias("row"), size.alias("size"))
        .pipe(exact.in_parts, "size")
        .group_by(*INSTRUMENT, "start", "side", "row")
        .agg(exact.summed("size"))
        .select(
            *INSTRUMENT,
            nw.col("start").alias("timestamp"),
            *("side", "row"),
            grid.price(nw.col("row")).alias("price"),
            exact.total("size"),
        )
    )
    return _closest(blocks, max_depth).select(*_KEY, "price", "size").sort(*_KEY, "price")


def _require_depth(max_depth: int | None) -> None:
    if max_depth is not None and max_depth < 1:
        raise QueryError("max_depth", got=max_depth, expected="a number of blocks, at least 1, or None")


def _closest(blocks: Rows, max_depth: int | None) -> Rows:
    """Return the blocks of each side that are closest to the other."""
    if max_depth is None:
        return blocks
    away = nw.when(nw.col("side") == BookSide.BID.value).then(-nw.col("row")).otherwise(nw.col("row"))
    ranked = blocks.with_columns(away=away)
    return ranked.filter(nw.col("away").rank("ordinal").over(*_KEY) <= max_depth)


def _ends(events: Rows, interval: Interval, max_age: timedelta, last: int | None) -> Rows:
    """Return the intervals whose book is known: their ``start``, and as ``timestamp`` the last instant inside."""
    step = interval.seconds * SECOND
    age = min(max_age // timedelta(microseconds=1) * 1_000, 2**62)
    busy = (
        events.select(*INSTRUMENT, "since", start=_bucket("since", interval))
        .group_by(*INSTRUMENT, "start")
        .agg(nw.col("since").max())
        .with_columns(next_start=nw.col("start").shift(-1).over(*INSTRUMENT, order_by="start"))
    )
    if last is not None:
        later = bucket_start(nw.lit(last, nw.Int64), interval)
        follows = nw.when(later > nw.col("start")).then(later)
        busy = busy.with_columns(next_start=nw.coalesce(nw.col("next_start"), follows))
    # The quiet ones after a busy one, up to the next one and to the age; after the last one nothing is known.
    start, following = nw.col("start"), nw.col("next_start")
    believed = nw.min_horizontal(following - start, nw.col("since") - start + age) // step
    lasting = nw.when(~following.is_null()).then(believed - 1).otherwise(0)
    quiet = spread(busy.with_columns(first=nw.lit(0), last=lasting), "first", "last", name="number")
    return quiet.select(*INSTRUMENT, start=start + nw.col("number") * step).with_columns(
        timestamp=nw.col("start") + (step - 1)
    )


def _bucket(column: str, interval: Interval) -> nw.Expr:
    return bucket_start(nw.col(column), interval)
