"""Find the new rows of a batch and their order among the rows of the lake, and make ids for events without one.

A row that contradicts another of the same key is an error, never a choice.

An event happens once, so two rows of one id must agree, wherever they come from. An exchange may report a state several
times under one timestamp, in a burst of updates. Of the reports in one file the one that was received last counts;
the others are counted as superseded. Without a time of receipt nothing says which came last, so differing reports of
one time are refused.

Two files must agree on a state, because nothing else shows a wrong unit or symbol. Two recorders of one feed agree:
both saw the burst from its begin to its end. Only at the begin or the end of a recording may a part of a burst be
missing. So at the first and the last timestamp of a market in a file the lake's row stays, and the file's row is
counted as superseded: both were true at that instant. (A file with a single timestamp must agree.) A second recording
with other gaps is refused as soon as a gap cuts a burst in two.

In three cases a row takes the place of the lake's row, and is counted as replaced:

- The lake's row is the last candle of its market and length, and the file has later ones: that candle was still open
  when it was recorded.
- The caller lets the file's states win.
- The rows agree, but the file knows a value that is null in the lake. Nothing is lost, because the lake's other values
  stay.

Memory holds some parts at a time, and 8 bytes for each row of parts whose ranges of ids overlap: for no row if the ids
of a tape rise, for every row if they are random. A tape with random ids is also compared with all rows that the lake
has of its market, once per million rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import polars as pl

from tidytape.errors import IngestError
from tidytape.lake._batch import Batch, Part
from tidytape.lake._tables import Table
from tidytape.query import _values as values
from tidytape.times import SECOND, FrameInterval

Stored = Callable[[pl.DataFrame], pl.LazyFrame]
"""A function that returns the lake's rows of some ranges of a column; it may return other rows too.

The frame of ranges has one row per market: the table's partition columns, and ``low`` and ``high``, ends included.
"""

_AT_ONCE = 2**20
"""Most rows of several parts that are looked up in the lake together. [rows]"""

_HASH, _PART, _ROW = "__hash", "__part", "__row"
_MARKET = ["exchange", "raw_symbol"]
_LAST = 2**63 - 1
_THERE = "_there"
"""Ending of the columns with the values of the lake, beside those of a batch."""


class Fresh(NamedTuple):
    """What a batch adds to the lake.

    Attributes
    ----------
    rows : Batch
        The rows to write, each key once.
    superseded : int
        Number of states that were left out because another state of the same time counts.
    replaced : polars.DataFrame, one row per row of the lake whose place a row of ``rows`` takes
        The columns of the table's key and partitions.
    """

    rows: Batch
    superseded: int
    replaced: pl.DataFrame


def fresh(batch: Batch, stored: Stored, *, replace: bool = False) -> Fresh:
    """Return the rows of a batch whose key the lake does not have, and the states that replace those of the lake.

    Parameters
    ----------
    batch : Batch
        The rows that were read.
    stored : callable
        Returns the stored rows that may have the same keys.
    replace : bool
        Whether a state of the batch counts instead of the lake's if the two differ.

    Returns
    -------
    Fresh

    Raises
    ------
    IngestError
        If two rows of the same key contradict each other.
    """
    table = batch.table
    repeats = _repeats(batch)
    superseded = sum(map(len, repeats.values())) if table.tells_states else 0
    new = Batch(table, batch.spool)
    replaced = [table.empty().select(table.place)]
    for run in _runs(batch):
        frames = {position: part.frame() for position, part in run}
        for position in frames.keys() & repeats.keys():
            frames[position] = _dropped(frames[position], repeats[position])
        lake_rows = _in_lake([(part, frames[position]) for position, part in run], stored, table)
        for position, part in run:
            frame = frames[position]
            if not lake_rows.is_empty():
                both = frame.join(lake_rows, on=table.key, suffix=_THERE, maintain_order="left")
                frame = frame.join(lake_rows, on=table.key, how="anti", maintain_order="left")
                winners, count = _winners(both, batch, stored, replace=replace)
                superseded += count
                if winners.height:
                    replaced.append(winners.select(table.place))
                    new.add(winners.select(frame.columns))
            if frame.height == part.rows:
                new.parts.append(part)  # unchanged, because `add` would copy its rows
            else:
                new.add(frame)
    return Fresh(new, superseded, pl.concat(replaced))


def _runs(batch: Batch) -> Iterator[list[tuple[int, Part]]]:
    """Yield the parts with their positions, in lists that fit into memory."""
    run: list[tuple[int, Part]] = []
    for position, part in enumerate(batch):
        if run and sum(other.rows for _, other in run) + part.rows > _AT_ONCE:
            yield run
            run = []
        run.append((position, part))
    if run:
        yield run


# -- inside the batch ------------------------------------------------------------------------------------------------


def _repeats(batch: Batch) -> dict[int, pl.Series]:
    """Return the rows to leave out because another row of the batch with the same key counts.

    The result has the positions of these rows inside their part, by the position of the part.
    """
    table = batch.table
    hashes = _repeated_hashes(batch)
    if hashes.is_empty():
        return {}
    received_columns = ["received"] if "received" in table.names else []
    rows = pl.concat(
        _hashed(part.frame(), table)
        .select(*dict.fromkeys([*table.key, *table.same, *received_columns]), _HASH)
        .with_row_index(_ROW)
        .filter(pl.col(_HASH).is_not_null())
        .filter(_among(hashes))
        .with_columns(pl.lit(position).alias(_PART))
        for position, part in enumerate(batch)
    )
    if table.tells_states:
        # Nulls come first, so a row with a time of receipt counts instead of a row without.
        rows = rows.sort(*received_columns, _PART, _ROW)
    counting_rows = rows.unique(
        table.key, keep="last" if table.tells_states else "first", maintain_order=True
    )
    if table.tells_states:
        received = pl.col("received") if received_columns else pl.lit(None)
        unordered_rows = _differing(rows, counting_rows.filter(received.is_null()), table)
        _refuse_unordered(unordered_rows, sum(part.rows for part in batch), table)
    else:
        _refuse(_differing(rows, counting_rows, table), table)
    repeated_rows = rows.join(counting_rows, on=[_PART, _ROW], how="anti")
    return {
        position: rows_of_part[_ROW]
        for (position,), rows_of_part in repeated_rows.partition_by(_PART, as_dict=True).items()
    }


def _repeated_hashes(batch: Batch) -> pl.Series:
    """Return the sorted hashes of keys that more than one row has; two keys may have the same hash by chance."""
    hashes_of_parts = [pl.Series(dtype=pl.UInt64)]
    is_told_by_identity = batch.table.identity in batch.table.key
    for position, part in enumerate(batch):
        may_share_ids = any(
            part.meets(other) for other_position, other in enumerate(batch) if other_position != position
        )
        if part.rises and is_told_by_identity and not may_share_ids:
            continue  # looking costs a twentieth of hashing
        hashes = _hashed(part.frame(), batch.table)[_HASH].drop_nulls()
        hashes_of_parts.append(hashes if may_share_ids else hashes.filter(hashes.is_duplicated()))
    hashes = pl.concat(hashes_of_parts).sort()
    return hashes.filter(hashes == hashes.shift(1))


def _hashed(frame: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Add the hash of each row's key; null for a key with a null, which equals no other key."""
    is_complete = pl.all_horizontal(pl.col(table.key).is_not_null())
    # Hashing each column by itself is many times faster than hashing them as one struct.
    key_hash = pl.sum_horizontal(pl.col(name).hash(seed) for seed, name in enumerate(table.key))
    return frame.with_columns(pl.when(is_complete).then(key_hash).alias(_HASH))


def _among(hashes: pl.Series) -> pl.Expr:
    """Return the expression that says whether a row's hash is one of some sorted hashes."""
    index = pl.lit(hashes).search_sorted(pl.col(_HASH)).clip(0, len(hashes) - 1)
    return pl.lit(hashes).gather(index) == pl.col(_HASH)


def _dropped(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """Return a frame without the rows at some positions."""
    return (
        frame.with_row_index(_ROW)
        .join(rows.to_frame(), on=_ROW, how="anti", maintain_order="left")
        .drop(_ROW)
    )


# -- beside the lake -------------------------------------------------------------------------------------------------


def _in_lake(run: list[tuple[Part, pl.DataFrame]], stored: Stored, table: Table) -> pl.DataFrame:
    """Return the lake's rows whose keys the frames have: states whole, of events the columns ``key`` and ``same``."""
    columns = table.names if table.tells_states else [*table.key, *table.same]
    identity = pl.col(table.identity)
    # Each market has its own range, because the ids of two markets may be far apart. The bounds of a part of one market
    # are known.
    ranges_of_parts = pl.concat(
        _ranges(frame.select(table.place), table, identity.min(), identity.max())
        if len(part.markets) > 1 or part.low is None
        else pl.DataFrame({**dict(part.constants), "low": [part.low], "high": [part.high]})
        for part, frame in run
    )
    ranges = _ranges(ranges_of_parts, table, pl.col("low").min(), pl.col("high").max())
    if ranges.is_empty():
        return table.empty().select(columns)
    keys = pl.concat(frame.lazy().select(table.key) for _, frame in run)
    rows = stored(ranges).select(columns)
    # Streaming, so that the lake's rows are never all in memory. Mostly the lake has no row in these ranges: then
    # nothing is joined.
    first_row = rows.head(1).collect(engine="streaming")
    if first_row.is_empty():
        return first_row
    return rows.join(keys, on=table.key, how="semi").collect(engine="streaming")


def _ranges(rows: pl.DataFrame, table: Table, low: pl.Expr, high: pl.Expr) -> pl.DataFrame:
    """Return ``low`` and ``high`` of each market, without markets where they are null."""
    values = {"low": low, "high": high}
    of_markets = rows.group_by(table.partitions).agg(**values) if table.partitions else rows.select(**values)
    return of_markets.drop_nulls("low")


def _winners(both: pl.DataFrame, batch: Batch, stored: Stored, *, replace: bool) -> tuple[pl.DataFrame, int]:
    """Return the rows that replace those of the lake, and how many contradict the lake without replacing its row.

    Parameters
    ----------
    both : polars.DataFrame
        The rows whose key the lake has, with the lake's values in columns whose names end in `_THERE`.
    batch : Batch
        The batch that the rows are from.
    stored : callable
        See `fresh`.
    replace : bool
        See `fresh`.

    Raises
    ------
    IngestError
        If a row contradicts the lake in the middle of the batch.
    """
    table = batch.table
    differs = _any_differs(table.same)
    contradictions = both.filter(differs)
    if not table.tells_states:
        _refuse(contradictions, table)
        return both.clear(), 0
    winners = contradictions if replace else _reopened(contradictions, batch, stored)
    others = contradictions.join(winners, on=table.key, how="anti")
    _refuse(_inside(others, batch), table)
    names = [name for name in table.names if name not in table.key]
    merged = both.filter(~differs).with_columns(
        pl.coalesce(name, f"{name}{_THERE}") if replace else pl.coalesce(f"{name}{_THERE}", name).alias(name)
        for name in names
    )
    changed = merged.filter(_any_differs([name for name in names if name != "received"]))
    # A lake of an older release may have a key twice.
    return pl.concat([winners, changed]).unique(table.key, maintain_order=True), others.height


def _any_differs(names: Collection[str]) -> pl.Expr:
    return pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}{_THERE}")) for name in names)


def _differing(frame: pl.DataFrame, others: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return the rows that contradict another row of the same key, with the values of both."""
    joined = frame.join(others.select(*table.key, *table.same), on=table.key, suffix=_THERE)
    return joined.filter(_any_differs(table.same))


def _reopened(contradictions: pl.DataFrame, batch: Batch, stored: Stored) -> pl.DataFrame:
    """Return the candles that are the last of their market and length in the lake, if the batch has later ones."""
    table = batch.table
    if "interval" not in table.key or contradictions.is_empty():
        return contradictions.clear()
    series = _series(table)
    ranges = _ranges(contradictions, table, pl.col("timestamp").min(), pl.lit(_LAST))
    lake_ends = stored(ranges).group_by(series).agg(lake_end=pl.col("timestamp").max())
    ends = lake_ends.collect(engine="streaming").join(_ends(batch), on=series)
    is_last = (pl.col("timestamp") == pl.col("lake_end")) & (pl.col("timestamp") < pl.col("last"))
    return contradictions.join(ends, on=series).filter(is_last).select(contradictions.columns)


def _inside(contradictions: pl.DataFrame, batch: Batch) -> pl.DataFrame:
    """Return the rows strictly between the first and the last time of their market in the batch.

    All rows of a market with a single time are returned.
    """
    time = pl.col("timestamp")
    is_inside = (time > pl.col("first")) & (time < pl.col("last"))
    return contradictions.join(_ends(batch), on=_series(batch.table)).filter(
        is_inside | (pl.col("first") == pl.col("last"))
    )


def _series(table: Table) -> list[str]:
    return [name for name in table.key if name != "timestamp"]


def _ends(batch: Batch) -> pl.DataFrame:
    """Return the ``first`` and the ``last`` time of each series of states in a batch."""
    series, time = _series(batch.table), pl.col("timestamp")
    return (
        pl.concat(part.frame().group_by(series).agg(first=time.min(), last=time.max()) for part in batch)
        .group_by(series)
        .agg(pl.col("first").min(), pl.col("last").max())
    )


def _refuse(contradictions: pl.DataFrame, table: Table) -> None:
    """Raise IngestError if there is a contradiction."""
    if contradictions.is_empty():
        return
    example = _contradiction(contradictions, table)
    hint = "; ``replace=True`` lets the rows of the file count" if table.tells_states else ""
    raise IngestError(
        f"{table.name}: the same row with different content, {contradictions.height:,} in all: {example}{hint}"
    )


def _contradiction(contradictions: pl.DataFrame, table: Table) -> str:
    """Return the first of the rows of `_differing` in words."""
    row = contradictions.sort(table.key).row(0, named=True)  # sorted, because a join keeps no order
    market = [" ".join(row[name] for name in _MARKET if name in table.key)]
    names = [name for name in table.key if name not in _MARKET]
    key = ", ".join(filter(None, [*market, *(f"{name} {written(row[name], table, name)}" for name in names)]))
    differences = ", ".join(
        f"{name} {written(row[name], table, name)} and {written(row[f'{name}{_THERE}'], table, name)}"
        for name in table.same
        if row[name] != row[f"{name}{_THERE}"]
    )
    return f"{key} has {differences}"


def written(value: Any, table: Table, name: str) -> str:
    """Return a value for a reader: a time as a date in UTC, a length as a word such as 1m."""
    unit = table[name].unit
    if isinstance(value, int) and unit.startswith("ns since the epoch"):
        return written_time(value)
    if isinstance(value, int) and unit == "ns":
        return FrameInterval(value // SECOND).alias
    return repr(value)


def written_time(time: int) -> str:
    """Return a time in nanoseconds as a date in UTC.

    Examples
    --------
    >>> written_time(1_723_161_240 * 10**9), written_time(1_723_161_240 * 10**9 + 1)
    ('2024-08-08T23:54:00Z', '2024-08-08T23:54:00.000000001Z')
    """
    second, rest = divmod(time, SECOND)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return values.written_time(second).replace("Z", f"{fraction}Z")


def _refuse_unordered(unordered_rows: pl.DataFrame, rows: int, table: Table) -> None:
    """Raise IngestError if states of one time differ and nothing says which of them came last."""
    if unordered_rows.is_empty():
        return
    key = " and ".join(name for name in table.key if name not in _MARKET)
    raise IngestError(
        f"{table.name}: {unordered_rows.height:,} of {rows:,} rows have the {key} of another row and other values, and "
        "no time of receipt says which came last; is the time in two columns, or is a column that tells rows apart "
        f"left out? E.g. {_contradiction(unordered_rows, table)}"
    )


# -- the order of trades of one timestamp -----------------------------------------------------------------------------


def counted_on(new: Batch, stored: Stored) -> Batch:
    """Return a batch with its ``sequence`` counted on from the rows of the lake.

    The lines of one file order its trades, and say nothing about the trades of another file. So a new file counts on
    from the lake's rows between the file's first and last new trade: of two trades with one timestamp, the one that
    comes later into the lake counts as the later. There is one exception. If the file and the lake share only the
    timestamps at the file's ends, they are pieces of one tape, and the file's trades at its last timestamp happened
    before those of the lake.

    So the files of a tape that was cut anywhere may be added in any order, with the oldest or the newest trade first.
    Only pieces of one single timestamp must be added in their order. The order is unknown between trades that a later
    file has and an earlier file lacks in the middle of a timestamp, and between trades with integer ids and without.

    Parameters
    ----------
    new : Batch
        New rows, whose ``sequence`` orders those of one market and timestamp.
    stored : callable
        Returns the rows of some markets from one timestamp to another.

    Returns
    -------
    Batch
        The same rows. No two rows of one market, new or in the lake, have the same (timestamp, sequence), unless two
        rows of the lake have it already.
    """
    if not new.parts:
        return new
    time, sequence = pl.col("timestamp"), pl.col("sequence")
    new_spans = (
        pl.concat(
            part.frame()
            .group_by(_MARKET)
            .agg(first=time.min(), last=time.max(), low=sequence.min(), high=sequence.max())
            for part in new
        )
        .group_by(_MARKET)
        .agg(pl.col("first", "low").min(), pl.col("last", "high").max())
    )
    lake_rows = (
        stored(new_spans.select(*_MARKET, low="first", high="last"))
        .select(*_MARKET, "timestamp", "sequence")
        .join(new_spans.lazy(), on=_MARKET)
        .filter(time.is_between("first", "last"))
        .group_by(*_MARKET, "last", "low", "high")
        .agg(
            highest=sequence.max(),
            lowest_at_last=sequence.filter(time == pl.col("last")).min(),
            only_ends_shared=((time == pl.col("first")) | (time == pl.col("last"))).all()
            & (pl.col("first") < pl.col("last")).all(),
        )
        .select(
            *_MARKET,
            "last",
            shift_up=pl.max_horizontal(pl.col("highest") - pl.col("low") + 1, 0),
            shift_down=pl.when("only_ends_shared").then(
                pl.min_horizontal(pl.col("lowest_at_last") - pl.col("high") - 1, 0)
            ),
        )
        .collect()
    )
    if lake_rows.is_empty():
        return new
    shift = pl.coalesce(pl.when(time == pl.col("last")).then("shift_down"), "shift_up").fill_null(0)

    def shifted(rows: pl.DataFrame) -> pl.DataFrame:
        with_shift = rows.join(lake_rows, on=_MARKET, how="left", maintain_order="left")
        return with_shift.with_columns(sequence=sequence + shift).select(rows.columns)

    shifted_batch = Batch(new.table, new.spool)
    shifted_batch.parts = [part.changed(shifted) for part in new]
    return shifted_batch


_CONTENT = ("exchange", "raw_symbol", "timestamp", "price", "amount", "side")


def with_ids(rows: pl.DataFrame, before: Batch) -> pl.DataFrame:
    """Add ids made from content, with a number that tells identical events apart and counts on from ``before``.

    Parameters
    ----------
    rows : polars.DataFrame, one row per event
        ``exchange``, ``raw_symbol``, ``timestamp``, ``price``, ``amount`` and ``side``.
    before : Batch
        The earlier events of the file.

    Returns
    -------
    polars.DataFrame, same rows
        Adds ``id``. The same events in another export get the same ids.
    """
    if rows.is_empty():
        return rows.with_columns(id=pl.lit(None, pl.String))
    first, last = rows["timestamp"].min(), rows["timestamp"].max()
    ids = pl.concat_str(
        *(pl.col(name) for name in ("timestamp", "price", "amount", "side", "__number")),
        separator="/",
        ignore_nulls=True,  # a trade may have no side
    )
    earlier_frames = [
        part.frame().select(_CONTENT)
        for part in before
        if part.first <= last and first <= part.last  # type: ignore[operator]  # polars types any value
    ]
    numbered_rows = rows.with_columns(pl.int_range(pl.len()).over(_CONTENT).alias("__number"))
    if earlier_frames:
        counts = pl.concat(earlier_frames).group_by(_CONTENT).agg(pl.len().cast(pl.Int64).alias("__earlier"))
        numbered_rows = numbered_rows.join(
            counts, on=_CONTENT, how="left", nulls_equal=True, maintain_order="left"
        ).with_columns(pl.col("__number") + pl.col("__earlier").fill_null(0))
    return numbered_rows.with_columns(ids.alias("id"))


def one_id_each(rows: pl.DataFrame, same: Sequence[str]) -> pl.DataFrame:
    """Add a ``reason`` to a row whose id an earlier, different event has; it is null for a repeated event.

    It compares only these rows. If the other event is in another block of the file, `fresh` raises an error.

    Parameters
    ----------
    rows : polars.DataFrame, one row per event
        ``exchange``, ``raw_symbol``, ``id`` and the columns of ``same``.
    same : sequence of str
        Columns in which events of one id must agree.
    """
    key = ["exchange", "raw_symbol", "id"]
    is_different = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).first().over(key)) for name in same)
    return rows.with_columns(
        reason=pl.when(pl.col("id").is_not_null() & is_different).then(
            pl.lit("another event before it has the same id")
        )
    )


def keep_latest(batch: Batch, event: pl.Expr) -> int:
    """Keep the last event of each market and timestamp; return how many events were removed.

    It is for events of many rows, such as snapshots of a book; `fresh` does the same for states of one row. It compares
    parts only if their times overlap, so that a file may be larger than memory.

    Parameters
    ----------
    batch : Batch
        Rows with exchange, raw_symbol and timestamp, in the order of the file.
    event : expression
        Number of the event that a row belongs to; it rises in the file.
    """
    key = ["exchange", "raw_symbol", "timestamp"]
    event_number = event.alias("__event")
    parts: list[Part] = []
    removed = 0
    for part in reversed(batch.parts):
        rows = part.frame().with_columns(event_number)
        latest_rows = rows.filter(pl.col("__event") == pl.col("__event").max().over(key))
        for later in parts:
            if part.first <= later.last and later.first <= part.last:
                latest_rows = latest_rows.join(
                    later.frame().select(key), on=key, how="anti", maintain_order="left"
                )
        if latest_rows.height == part.rows:
            parts.append(part)
            continue
        removed += rows["__event"].n_unique() - latest_rows["__event"].n_unique()
        smaller_batch = Batch(batch.table, batch.spool)
        smaller_batch.add(latest_rows.drop("__event"))
        parts += smaller_batch.parts
    batch.parts = parts[::-1]
    return removed
