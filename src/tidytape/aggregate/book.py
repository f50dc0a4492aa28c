"""Book events to validity runs: which size rested at which price, from when until when.

A book is a table of runs. A run begins where an event names a price and ends at the next event that does, or at the
next snapshot, which ends every run. The book at an instant is then a filter, and books at many instants are one join.
Nothing replays events.

Events are put in the order of their update ids, because a snapshot and the updates around it may be timed by different
clocks. A run's times follow that order: an update is in force no earlier than those before it, and a snapshot no later
than the update that follows it, whatever its own time says.
"""

from __future__ import annotations

from typing import Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.frames.door import INSTRUMENT
from tidytape.frames.table import Rows, Table, tabular

EVENTS: Final = (
    *INSTRUMENT,
    *("timestamp", "last_id", "is_snapshot", "side", "price", "size", "sequence"),
)
"""Columns of the lake's book events that a book is rebuilt from."""

RUNS: Final = (*INSTRUMENT, "side", "price", "since_id", "until_id", "since", "until", "size")
"""Columns of runs."""

_ORDER: Final = ("place", "overrides", "sequence")
_LAST: Final = 2**63 - 1
_FIRST: Final = -_LAST
_BOUNDS: Final = {"timestamp": ("since", "until"), "last_id": ("since_id", "until_id")}


@tabular(EVENTS, new_times=dict.fromkeys(("since", "until"), "timestamp"), in_parts=True)
def book_runs(events: Rows, /) -> Rows:
    """Runs of each price level: the size that rested there, from one event until the next.

    Parameters
    ----------
    events : frame, n rows, in any order
        The lake's table ``book``: ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch], ``last_id``
        int64, ``is_snapshot`` bool, ``side`` (BID or ASK), ``price`` [quote per coin], ``size`` [coin], ``sequence``
        int64.

    Returns
    -------
    frame, one row per instrument, side, price and run; of the same kind as ``events``
        - ``exchange``, ``raw_symbol``, ``side``, ``price`` [quote per coin]
        - ``since_id``, ``until_id`` : int64, update ids the run holds from (included) and until (excluded). Null where
          the instrument has no ids.
        - ``since``, ``until`` : int64, the same as times. [ns since the epoch]
        - ``size`` : float64, above 0; null where it is not known. [coin]

        ``until`` and ``until_id`` are null while nothing has ended the run. Sorted by (exchange, raw_symbol, side,
        price, since, since_id) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``events`` is no frame.

    See Also
    --------
    book_at : The book at instants.

    Notes
    -----
    - The order is that of (last_id, snapshots after updates). So an update counts after a snapshot when its last id
      is above the snapshot's, also one that arrived before the snapshot and straddles it, and not otherwise.
      Instruments of which any event has no id are ordered by (timestamp, sequence).
    - A snapshot is all rows that share its id, or its timestamp where there are no ids.
    - Nothing is known before the first snapshot. A book that crosses is kept as it is.
    - ``until`` equals ``since`` where two events bear the same time: such a run is seen by ids alone.

    Examples
    --------
    >>> import polars as pl
    >>> events = pl.DataFrame(
    ...     {
    ...         "exchange": "X",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [100, 100, 90, 120],
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
    return runs_of(timed(events)).sort(*INSTRUMENT, "side", "price", "since", "since_id")


def book_at(
    runs: IntoFrameT, instants: IntoFrameT, /, *, by: Literal["timestamp", "last_id"] = "timestamp"
) -> IntoFrameT:
    """Books at instants, each a time or an update id.

    Parameters
    ----------
    runs : frame, n rows
        From `book_runs`.
    instants : frame, m rows, of the same kind
        ``exchange``, ``raw_symbol`` and ``timestamp`` int64 [ns since the epoch], or ``last_id`` int64. Other columns
        are kept.
    by : {"timestamp", "last_id"}
        Whether ``instants`` are times or update ids. The event of that time or id is in the book.

    Returns
    -------
    frame, one row per row of ``instants``, side and price with a size; of the same kind
        The columns of ``instants``, and ``side``, ``price`` [quote per coin], ``size`` [coin]. In no order: these are
        many rows, and sorting them takes longer than finding them. An instant before the first snapshot has no rows;
        one after the last event has the last book known.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``by`` is neither, or a frame is none.

    Examples
    --------
    >>> import polars as pl
    >>> columns = {"exchange": "X", "raw_symbol": "BTCUSDT", "side": "BID", "price": 10.0}
    >>> ids = {"since_id": [1, 3], "until_id": [3, None], "since": [100, 300], "until": [300, None]}
    >>> frame = pl.DataFrame(columns | ids | {"size": [2.0, 1.5]})
    >>> instants = pl.DataFrame({"exchange": "X", "raw_symbol": "BTCUSDT", "timestamp": [50, 299, 300]})
    >>> book_at(frame, instants).sort("timestamp").select("timestamp", "price", "size").rows()
    [(299, 10.0, 2.0), (300, 10.0, 1.5)]
    """
    one_of("by", by, _BOUNDS)
    is_of_times = by == "timestamp"
    table = Table.opened(
        runs, (*INSTRUMENT, "side", "price", *_BOUNDS[by], "size"), times=_BOUNDS[by] if is_of_times else ()
    )
    moments = Table.opened(
        instants, (*INSTRUMENT, by), times=[by] if is_of_times else (), parameter="instants"
    )
    return moments.closed(at(table.rows, moments.rows, by=by), in_parts=True)


def timed(events: Rows) -> Rows:
    """Return the events with ``place``, ``since`` and ``epoch``, the place of the snapshot they change.

    The place of an event is its id, or its time where the instrument has no ids.
    """
    timestamp, snapshot, has_ids = nw.col("timestamp"), nw.col("is_snapshot"), nw.col("has_ids")
    placed = (
        events.select(*EVENTS)
        .with_columns(has_ids=~nw.col("last_id").is_null().any().over(*INSTRUMENT))
        .with_columns(
            place=nw.when(has_ids).then(nw.col("last_id")).otherwise(timestamp),
            # A snapshot holds the update of its own id, so it comes after it.
            overrides=nw.when(has_ids & snapshot).then(nw.lit(1)).otherwise(nw.lit(0)),
        )
        .with_columns(
            epoch=nw.when(snapshot).then(nw.col("place")).otherwise(nw.lit(_FIRST)),
            following=nw.when(snapshot).then(nw.lit(_LAST)).otherwise(timestamp),
            is_update=~snapshot,
        )
        .with_columns(
            epoch=nw.col("epoch").cum_max().over(*INSTRUMENT, order_by=_ORDER),
            # The update of its own id too: a snapshot tells what was so then.
            following=nw.col("following")
            .cum_min(reverse=True)
            .over(*INSTRUMENT, order_by=("place", "is_update")),
        )
    )
    earliest = nw.when(snapshot).then(nw.min_horizontal("timestamp", "following")).otherwise(timestamp)
    return placed.with_columns(since=earliest).with_columns(
        since=nw.col("since").cum_max().over(*INSTRUMENT, order_by=_ORDER)
    )


def runs_of(events: Rows) -> Rows:
    """Return the runs of `timed` events, in any order."""
    places = events.group_by(*INSTRUMENT, "place").agg(until=nw.col("since").min())
    epochs = (
        events.filter(nw.col("is_snapshot"))
        .select(*INSTRUMENT, "epoch")
        .unique()
        .with_columns(epoch_end=nw.col("epoch").shift(-1).over(*INSTRUMENT, order_by="epoch"))
    )
    next_place = nw.col("place").shift(-1).over(*INSTRUMENT, "side", "price", order_by=_ORDER)
    return (
        events.with_columns(next_place=next_place)
        .join(epochs, on=[*INSTRUMENT, "epoch"], how="inner")  # before the first snapshot there is none
        .with_columns(
            until_place=nw.min_horizontal(
                nw.col("next_place").fill_null(_LAST), nw.col("epoch_end").fill_null(_LAST)
            )
        )
        .filter(
            (nw.col("size") > 0) | nw.col("size").is_null(),  # an unknown size is no proof that nothing rests
            nw.col("until_place") > nw.col("place"),
        )
        .join(places, left_on=[*INSTRUMENT, "until_place"], right_on=[*INSTRUMENT, "place"], how="left")
        .with_columns(
            since_id=nw.when("has_ids").then(nw.col("place")),
            until_id=nw.when(nw.col("has_ids") & ~nw.col("until").is_null()).then(nw.col("until_place")),
        )
        .select(*RUNS)
    )


def at(runs: Rows, instants: Rows, *, by: Literal["timestamp", "last_id"]) -> Rows:
    """Return the rows of ``instants``, each with every price that has a size then, in any order."""
    since, until = _BOUNDS[by]
    whole = runs.select(
        *INSTRUMENT, "side", "price", "size", since, **{until: nw.col(until).fill_null(_LAST)}
    )
    # First a join on nothing but the range, which engines sort for, instead of comparing every pair of an instrument.
    instant = instants.select(nw.col(by).alias("__instant")).unique()
    seen = whole.join(instant, how="cross").filter(
        nw.col(since) <= nw.col("__instant"), nw.col("__instant") < nw.col(until)
    )
    seen = seen.select(*INSTRUMENT, nw.col("__instant").alias(by), "side", "price", "size")
    return instants.join(seen, on=[*INSTRUMENT, by], how="inner")
