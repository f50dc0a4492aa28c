"""Book events to runs, to books at instants, and to heatmaps of price blocks.

A book is a table of runs: a run says which size rested at which price, from when until when. It begins at an event with
the price, and ends at the next event with the price, or at the next snapshot, which ends every run. So the book at an
instant is a filter, and books at many instants are one join. No function replays events.

Events are put in the order of their update ids, because the times of a snapshot and of the updates around it may come
from different clocks. The times of a run follow that order: an update takes effect no earlier than the updates before
it, and a snapshot no later than the update after it, whatever their own times are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.catalogue import BookSide, Interval
from tidytape.errors import QueryError
from tidytape.frames import _exact as exact
from tidytape.frames._door import MARKET
from tidytape.frames._grid import Grid
from tidytape.frames._kinds import OF_BOOKS
from tidytape.frames._rows import spread
from tidytape.frames._table import OpenTable, Rows, tabular
from tidytape.frames._times import bucket_start
from tidytape.times import SECOND, AnyInterval, frame_interval

EVENTS: Final = (
    *MARKET,
    *("timestamp", "last_id", "is_snapshot", "side", "price", "size", "sequence"),
)
"""Columns of the lake's book events that books are computed from."""

RUNS: Final = (*MARKET, "side", "price", "since_id", "until_id", "since", "until", "size")
"""Columns of runs."""

_ORDER: Final = ("place", "overrides", "sequence")
_LAST: Final = 2**63 - 1
_FIRST: Final = -_LAST
_BOUNDS: Final = {"timestamp": ("since", "until"), "last_id": ("since_id", "until_id")}


@tabular(
    EVENTS,
    kinds=OF_BOOKS,
    new_times=dict.fromkeys(("since", "until"), "timestamp"),
    in_parts=True,
    main=["price", "since", "until", "size"],
)
def book_runs(events: Rows, /) -> Rows:
    """Runs of each price level: the size that rested there from one event until the next.

    Parameters
    ----------
    events : frame, n rows, in any order
        The lake's table ``book``: ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] or with a
        zone, ``last_id`` int64, ``is_snapshot`` bool, ``side`` (BID or ASK), ``price`` [quote per coin], ``size``
        [coin], ``sequence`` int64.

    Returns
    -------
    frame, one row per market, side, price and run; of the same kind as ``events``
        - ``exchange``, ``raw_symbol``, ``side``, ``price`` [quote per coin]
        - ``since_id``, ``until_id`` : int64, the update ids from which (included) to which (excluded) the run holds.
          Null if the market has no ids.
        - ``since``, ``until`` : the same as times, of the type in ``events``.
        - ``size`` : float64, above 0; null if it is unknown. [coin]

        ``until`` and ``until_id`` are null while the run has not ended. Sorted by (exchange, raw_symbol, side, price,
        since, since_id) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``events`` is not a frame.

    See Also
    --------
    book_at : The book at instants.

    Notes
    -----
    - Events are ordered by ``last_id``, and a snapshot comes after the update with the same id. So an update comes
      after a snapshot exactly if its last id is above the snapshot's, also if the update arrived first and its ids
      straddle the snapshot. If any event of a market has no id, its events are ordered by (timestamp, sequence).
    - A snapshot consists of all rows with its id, or without ids, with its timestamp.
    - Before the first snapshot the book is unknown. A crossed book is not changed.
    - ``until`` equals ``since`` if two events have the same time: only ids find such a run.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> events = pl.DataFrame(
    ...     {
    ...         "exchange": "X",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start + 100, start + 100, start + 90, start + 120],
    ...         "last_id": [7, 7, 6, 9],
    ...         "is_snapshot": [True, True, False, False],
    ...         "side": ["BID", "ASK", "BID", "ASK"],
    ...         "price": [10.0, 11.0, 10.0, 11.0],
    ...         "size": [1.0, 2.0, 5.0, 0.0],
    ...         "sequence": [2, 3, 1, 4],
    ...     }
    ... )
    >>> book_runs(events).select("side", "price", "since_id", "until_id", "size").rows()
    [('ASK', 11.0, 7, 9, 2.0), ('BID', 10.0, 7, None, 1.0)]
    """
    return runs_of(timed(events)).sort(*MARKET, "side", "price", "since", "since_id")


def book_at(
    runs: IntoFrameT, instants: IntoFrameT, /, *, by: Literal["timestamp", "last_id"] = "timestamp"
) -> IntoFrameT:
    """Books at instants, which are times or update ids.

    Parameters
    ----------
    runs : frame, n rows
        From `book_runs`.
    instants : frame, m rows, of the same kind
        ``exchange``, ``raw_symbol`` and ``timestamp`` int64 [ns since the epoch] or with a zone, or ``last_id`` int64.
        Other columns are kept.
    by : {"timestamp", "last_id"}
        Whether ``instants`` are times or update ids. A book includes the event of its time or id.

    Returns
    -------
    frame, one row per row of ``instants``, side and price with a size; of the same kind
        The columns of ``instants``, and ``side``, ``price`` [quote per coin], ``size`` [coin]. The rows have no order,
        because sorting so many rows would take longer than finding them. An instant before the first snapshot has no
        rows; an instant after the last event has the last known book.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``by`` is not as listed, or an argument is not a frame.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> columns = {"exchange": "X", "raw_symbol": "BTCUSDT", "side": "BID", "price": 10.0}
    >>> ids = {"since_id": [1, 3], "until_id": [3, None], "since": [start + 100, start + 300]}
    >>> ids |= {"until": [start + 300, None]}
    >>> frame = pl.DataFrame(columns | ids | {"size": [2.0, 1.5]})
    >>> moments = [start + 50, start + 299, start + 300]
    >>> instants = pl.DataFrame({"exchange": "X", "raw_symbol": "BTCUSDT", "timestamp": moments})
    >>> book_at(frame, instants).sort("timestamp").select(pl.col("timestamp") - start, "price", "size").rows()
    [(299, 10.0, 2.0), (300, 10.0, 1.5)]
    """
    one_of("by", by, _BOUNDS)
    table = OpenTable.of(runs, (*MARKET, "side", "price", *_BOUNDS[by], "size"), kinds=OF_BOOKS)
    instant_table = OpenTable.of(instants, (*MARKET, by), parameter="instants")
    rows = at(table.rows, instant_table.rows, by=by)
    return instant_table.closed(rows, in_parts=True, main=["side", "price", "size"])


def timed(events: Rows) -> Rows:
    """Add ``place``, ``since``, and ``epoch``, the place of the snapshot that an event belongs to.

    The place of an event is its id, or its time if the market has no ids.
    """
    timestamp, snapshot, has_ids = nw.col("timestamp"), nw.col("is_snapshot"), nw.col("has_ids")
    ordered_events = (
        events.select(*EVENTS)
        .with_columns(has_ids=~nw.col("last_id").is_null().any().over(*MARKET))
        .with_columns(
            place=nw.when(has_ids).then(nw.col("last_id")).otherwise(timestamp),
            # A snapshot includes the update that has its id, so the snapshot comes after that update.
            overrides=nw.when(has_ids & snapshot).then(nw.lit(1)).otherwise(nw.lit(0)),
        )
        .with_columns(
            epoch=nw.when(snapshot).then(nw.col("place")).otherwise(nw.lit(_FIRST)),
            following=nw.when(snapshot).then(nw.lit(_LAST)).otherwise(timestamp),
            is_update=~snapshot,
        )
        .with_columns(
            epoch=nw.col("epoch").cum_max().over(*MARKET, order_by=_ORDER),
            # For a snapshot, the update with the same id counts as following, because the snapshot is the book after
            # it.
            following=nw.col("following")
            .cum_min(reverse=True)
            .over(*MARKET, order_by=("place", "is_update")),
        )
    )
    earliest = nw.when(snapshot).then(nw.min_horizontal("timestamp", "following")).otherwise(timestamp)
    return ordered_events.with_columns(since=earliest).with_columns(
        since=nw.col("since").cum_max().over(*MARKET, order_by=_ORDER)
    )


def runs_of(events: Rows) -> Rows:
    """Return the runs of `timed` events, in any order."""
    places = events.group_by(*MARKET, "place").agg(until=nw.col("since").min())
    epochs = (
        events.filter(nw.col("is_snapshot"))
        .select(*MARKET, "epoch")
        .unique()
        .with_columns(epoch_end=nw.col("epoch").shift(-1).over(*MARKET, order_by="epoch"))
    )
    return (
        events.with_columns(
            next_place=nw.col("place").shift(-1).over(*MARKET, "side", "price", order_by=_ORDER)
        )
        .join(epochs, on=[*MARKET, "epoch"], how="inner")  # drops events before the first snapshot
        .with_columns(
            until_place=nw.min_horizontal(
                nw.col("next_place").fill_null(_LAST), nw.col("epoch_end").fill_null(_LAST)
            )
        )
        .filter(
            (nw.col("size") > 0) | nw.col("size").is_null(),  # a null size may be above 0
            nw.col("until_place") > nw.col("place"),
        )
        .join(places, left_on=[*MARKET, "until_place"], right_on=[*MARKET, "place"], how="left")
        .with_columns(
            since_id=nw.when("has_ids").then(nw.col("place")),
            until_id=nw.when(nw.col("has_ids") & ~nw.col("until").is_null()).then(nw.col("until_place")),
        )
        .select(*RUNS)
    )


def at(runs: Rows, instants: Rows, *, by: Literal["timestamp", "last_id"]) -> Rows:
    """Return the rows of ``instants``, each repeated for every price with a size at that instant, in any order."""
    since, until = _BOUNDS[by]
    bounded_runs = runs.select(
        *MARKET, "side", "price", "size", since, **{until: nw.col(until).fill_null(_LAST)}
    )
    # First join on the range only, which engines do by sorting. With the market as a key they would compare all pairs
    # within a market.
    books = (
        bounded_runs.join(instants.select(nw.col(by).alias("__instant")).unique(), how="cross")
        .filter(nw.col(since) <= nw.col("__instant"), nw.col("__instant") < nw.col(until))
        .select(*MARKET, nw.col("__instant").alias(by), "side", "price", "size")
    )
    return instants.join(books, on=[*MARKET, by], how="inner")


_KEY = (*MARKET, "timestamp", "side")
_SIZES = {"coin": "size", "quote": "quote_size"}


@tabular(EVENTS, kinds=OF_BOOKS, in_parts=True)
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
    """Resting size per price block, side and interval, in the book at the end of the interval.

    A block holds the prices in ``[price, price + block_size)``. Blocks are integer multiples of the block size, decided
    on exact decimals; a block around the mid can have bids and asks. A block without size does not appear. If a size in
    a block is unknown (null), the size of the block is null.

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
        Keep this many blocks per side, those closest to the other side; by default all.
    max_age : timedelta, >= 0
        How long a book counts after the market's last event. If it is older at the end of an interval, the interval has
        no rows, because the recording may have stopped.
    in_quote : bool
        Add ``quote_size``, the size in the quote, with each order at its own price.
    last : int, optional
        Time of the last event of the market, if ``events`` end earlier. Then only the interval that contains this time
        is in progress. [ns since the epoch]

    Returns
    -------
    frame, one row per market, interval, side and block with size; of the same kind as ``events``
        Key and payload of schema BLOCK_BOOK_SNAPSHOT_AGG: ``exchange``, ``raw_symbol``, ``timestamp`` as in ``events``,
        start of the interval, ``side`` (BID or ASK), ``price``, low edge of the block [quote per coin], ``size``
        [coin], and ``quote_size`` [quote] if ``in_quote``. Sorted by (exchange, raw_symbol, timestamp, side, price)
        where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, or another argument is not as listed.

    Notes
    -----
    An event exactly at the end of an interval belongs to the next. An interval that ends before the first snapshot has
    no rows. The interval of a market's last event is in progress: it has the book at the last event, however old.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> events = pl.DataFrame(
    ...     {
    ...         "exchange": "X",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start, start, start, start + 61_000_000_000],
    ...         "last_id": [7, 7, 7, 9],
    ...         "is_snapshot": [True, True, True, False],
    ...         "side": ["BID", "BID", "ASK", "BID"],
    ...         "price": [10.1, 10.4, 10.6, 10.4],
    ...         "size": [1.0, 2.0, 4.0, 0.5],
    ...         "sequence": [1, 2, 3, 4],
    ...     }
    ... )
    >>> heatmap = book_heatmap(events, interval="1m", block_size="0.5")
    >>> heatmap.select((pl.col("timestamp") - start) // 10**9, "side", "price", "size").rows()
    [(0, 'ASK', 10.5, 4.0), (0, 'BID', 10.0, 3.0), (60, 'ASK', 10.5, 4.0), (60, 'BID', 10.0, 1.5)]
    """
    length, grid = frame_interval(interval), Grid.of(block_size)
    _require_depth(max_depth)
    if max_age < timedelta():
        raise QueryError("max_age", got=max_age, expected="a timedelta, not below 0")
    ordered_events = timed(events)
    # Most runs begin and end within one interval. No book at the end of an interval contains them, so drop them early.
    lasting = runs_of(ordered_events).filter(
        nw.col("until").is_null()
        | (bucket_start(nw.col("since"), length) < bucket_start(nw.col("until"), length))
    )
    sizes = ("size", "quote_size") if in_quote else ("size",)
    rows = at(lasting, _ends(ordered_events, length, max_age, last), by="timestamp")
    return (
        _in_blocks(rows.with_columns(quote_size=nw.col("size") * nw.col("price")), grid, sizes, max_depth)
        .select(*_KEY, "price", *sizes)
        .sort(*_KEY, "price")
    )


def _needed(*, amount: str = "coin", **_: Any) -> list[str]:
    one_of("amount", amount, _SIZES)
    return [*_KEY, "price", _SIZES[amount]]


@tabular(_needed, kinds=OF_BOOKS)
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
    """Resting size per price block, side and interval, from the books at the ends of minutes.

    Parameters
    ----------
    minutes : frame, n rows, in any order
        From `book_heatmap` with ``interval="1m"``, ``in_quote=True``, all blocks, and a block size that divides this
        one.
    interval : str
        Name or alias of an interval.
    block_size : Decimal, int, float or str, > 0
        Height of a block. [quote per coin]
    amount : {"coin", "quote"}
        What ``size`` counts.
    max_depth : int, >= 1, optional
        Keep this many blocks per side, those closest to the other side; by default all.
    in_progress : int, optional
        Time of the market's last event. The interval that contains it has the book at that time. [ns since the epoch]

    Returns
    -------
    frame, one row per market, interval, side and block with size; of the same kind as ``minutes``
        As from `book_heatmap`. [coin or quote]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, or another argument is not as listed.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> minutes = pl.DataFrame(
    ...     {
    ...         "exchange": "X", "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start + 3_480_000_000_000, start + 3_540_000_000_000],
    ...         "side": "BID", "price": 10.0, "size": [1.0, 2.0], "quote_size": [10.0, 20.0],
    ...     }
    ... )
    >>> book_of(minutes, interval="1h", block_size=5).select(pl.col("timestamp") - start, "price", "size").rows()
    [(0, 10.0, 2.0)]
    """
    length, grid = frame_interval(interval), Grid.of(block_size)
    _require_depth(max_depth)
    time, size = nw.col("timestamp"), nw.col(_SIZES[amount])
    frame = minutes.with_columns(bucket_start(time, length).alias("start"))
    is_last_minute = time == nw.col("start") + (length.seconds - Interval.MINUTE.seconds) * SECOND
    if in_progress is not None:
        is_last_minute |= time == bucket_start(nw.lit(in_progress, nw.Int64), Interval.MINUTE)
    rows = frame.filter(is_last_minute).select(*_KEY, "start", "price", size.alias("size"))
    return _in_blocks(rows, grid, ["size"], max_depth).select(*_KEY, "price", "size").sort(*_KEY, "price")


def _in_blocks(rows: Rows, grid: Grid, sizes: Sequence[str], max_depth: int | None) -> Rows:
    """Return the sums of sizes per market, ``start``, side and block; only the ``max_depth`` closest blocks."""
    blocks = (
        rows.with_columns(row=grid.row(nw.col("price")))
        .pipe(exact.in_parts, *sizes)
        .group_by(*MARKET, "start", "side", "row")
        .agg(exact.summed(*sizes))
        .select(
            *MARKET,
            nw.col("start").alias("timestamp"),
            *("side", "row"),
            grid.price(nw.col("row")).alias("price"),
            *(exact.total(name) for name in sizes),
        )
    )
    if max_depth is None:
        return blocks
    distance = nw.when(nw.col("side") == BookSide.BID.value).then(-nw.col("row")).otherwise(nw.col("row"))
    return blocks.with_columns(distance=distance).filter(
        nw.col("distance").rank("ordinal").over(*_KEY) <= max_depth
    )


def _require_depth(max_depth: int | None) -> None:
    if max_depth is not None and max_depth < 1:
        raise QueryError("max_depth", got=max_depth, expected="a number of blocks, at least 1, or None")


def _ends(events: Rows, interval: AnyInterval, max_age: timedelta, last: int | None) -> Rows:
    """Return the intervals with a known book: their ``start``, and their last instant as ``timestamp``."""
    step = interval.seconds * SECOND
    age = min(max_age // timedelta(microseconds=1) * 1_000, 2**62)
    busy = (
        events.select(*MARKET, "since", start=bucket_start(nw.col("since"), interval))
        .group_by(*MARKET, "start")
        .agg(nw.col("since").max())
        .with_columns(next_start=nw.col("start").shift(-1).over(*MARKET, order_by="start"))
    )
    if last is not None:
        last_start = bucket_start(nw.lit(last, nw.Int64), interval)
        busy = busy.with_columns(
            next_start=nw.coalesce(
                nw.col("next_start"), nw.when(last_start > nw.col("start")).then(last_start)
            )
        )
    # An interval with events is busy. The quiet intervals after it have its last book, until the next busy interval or
    # until the book is too old. After the last busy interval the book is unknown.
    start, next_start = nw.col("start"), nw.col("next_start")
    intervals = nw.min_horizontal(next_start - start, nw.col("since") - start + age) // step
    lasting = nw.when(~next_start.is_null()).then(intervals - 1).otherwise(0)
    quiet = spread(busy.with_columns(first=nw.lit(0), last=lasting), "first", "last", name="number", digits=6)
    return quiet.select(*MARKET, start=start + nw.col("number") * step).with_columns(
        timestamp=nw.col("start") + (step - 1)
    )
