"""Find the new rows of a batch and their order among the rows of the lake, and make ids for events without one.

A row that contradicts another of the same key is an error, never a choice.

An event happens once, so two rows of one id must agree, wherever they come from. An exchange may report a state several
times under one timestamp, in a burst of updates. Of the reports in one file the one that was received last counts, or
without a time of receipt the one on the last line; the others are counted as superseded.

Two files must agree on a state, because nothing else shows a wrong unit or symbol. Two recorders of one feed agree:
both saw the burst from its begin to its end. Only at the begin or the end of a recording may a part of a burst be
missing. So at the first and the last timestamp of a market in a file the lake's row stays, and the file's row is
counted as superseded: both were true at that instant. (A file with a single timestamp must agree.) A second recording
with other gaps is refused as soon as a gap cuts a burst in two.

Memory is bounded by the parts, and 8 bytes for each row of parts that may share ids: no row if the ids of a tape rise,
every row if they are random. A tape with random ids is also compared with all rows that the lake has of its market,
once per million rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import polars as pl

from tidytape.errors import IngestError
from tidytape.lake._batch import Batch, Part
from tidytape.lake._tables import Table

Stored = Callable[[Collection[tuple[str, ...]], Any, Any], pl.LazyFrame]
"""Returns the rows of some markets between two values of a column, ends included."""

_AT_ONCE = 2**20
"""Rows that are looked up in the lake together. [rows]"""

_HASH, _PART, _ROW = "__hash", "__part", "__row"
_MARKET = ["exchange", "raw_symbol"]


def fresh(batch: Batch, stored: Stored) -> tuple[Batch, int]:
    """Return the rows of a batch whose key is new, each once.

    Parameters
    ----------
    batch : Batch
        The rows that were read.
    stored : callable
        The rows of the table that could repeat some: at least the columns of its ``key`` and ``same``.

    Returns
    -------
    Batch
        Its new rows.
    int
        How many states were left out because another one of the same time counts.

    Raises
    ------
    IngestError
        If two rows have the same key and are not the same.
    """
    table = batch.table
    again = _again(batch)
    superseded = sum(map(len, again.values())) if table.tells_states else 0
    new = Batch(table, batch.spool)
    for run in _runs(batch):
        frames = {position: part.frame() for position, part in run}
        for position in frames.keys() & again.keys():
            frames[position] = _dropped(frames[position], again[position])
        lake_rows = _in_lake([part for _, part in run], list(frames.values()), stored, table)
        for position, part in run:
            frame = frames[position]
            if not lake_rows.is_empty():
                wrong = _differing(frame, lake_rows, table)
                if table.tells_states and wrong.height:
                    inside = _inside(wrong, batch)
                    superseded += wrong.height - inside.height
                    wrong = inside
                _refuse(wrong, table)
                frame = frame.join(lake_rows, on=table.key, how="anti", maintain_order="left")
            if frame.height == part.rows:
                new.parts.append(part)  # as it is, because a frame would be another copy
            else:
                new.add(frame)
    return new, superseded


def _runs(batch: Batch) -> Iterator[list[tuple[int, Part]]]:
    """Yield the parts with their positions, so many at once as fit into memory together."""
    run: list[tuple[int, Part]] = []
    for position, part in enumerate(batch):
        if run and sum(other.rows for _, other in run) + part.rows > _AT_ONCE:
            yield run
            run = []
        run.append((position, part))
    if run:
        yield run


# -- inside the batch ------------------------------------------------------------------------------------------------


def _again(batch: Batch) -> dict[int, pl.Series]:
    """Return by the position of a part the positions in it of rows whose key another row of the batch has."""
    table = batch.table
    repeated = _repeated(batch)
    if repeated.is_empty():
        return {}
    time = ["received"] if "received" in table.names else []
    rows = pl.concat(
        _hashed(part.frame(), table)
        .select(*dict.fromkeys([*table.key, *table.same, *time]), _HASH)
        .with_row_index(_ROW)
        .filter(pl.col(_HASH).is_not_null())
        .filter(_among(repeated))
        .with_columns(pl.lit(position).alias(_PART))
        for position, part in enumerate(batch)
    )
    if table.tells_states:
        rows = rows.sort(*time, _PART, _ROW)  # nulls first, so that a row with a time of receipt counts
    chosen = rows.unique(table.key, keep="last" if table.tells_states else "first", maintain_order=True)
    if not table.tells_states:
        _refuse(_differing(rows, chosen, table), table)
    others = rows.join(chosen, on=[_PART, _ROW], how="anti")
    return {
        position: rows_of_part[_ROW]
        for (position,), rows_of_part in others.partition_by(_PART, as_dict=True).items()
    }


def _repeated(batch: Batch) -> pl.Series:
    """Return the hashes, sorted, that more than one row has; two keys may have the same hash by chance."""
    hashes_of_parts = [pl.Series(dtype=pl.UInt64)]
    for position, part in enumerate(batch):
        hashes = _hashed(part.frame(), batch.table)[_HASH].drop_nulls()
        crowded = any(part.meets(other) for place, other in enumerate(batch) if place != position)
        hashes_of_parts.append(hashes if crowded else hashes.filter(hashes.is_duplicated()))
    hashes = pl.concat(hashes_of_parts).sort()
    return hashes.filter(hashes == hashes.shift(1))


def _hashed(frame: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return the rows with the hash of their key; null for a key with a null, which repeats no other key."""
    keyed = pl.all_horizontal(pl.col(table.key).is_not_null())
    # Each column by itself is many times faster than the columns as one struct.
    mixed = pl.sum_horizontal(pl.col(name).hash(seed) for seed, name in enumerate(table.key))
    return frame.with_columns(pl.when(keyed).then(mixed).alias(_HASH))


def _among(hashes: pl.Series) -> pl.Expr:
    """Return the expression that says whether a row's hash is one of some sorted hashes."""
    place = pl.lit(hashes).search_sorted(pl.col(_HASH)).clip(0, len(hashes) - 1)
    return pl.lit(hashes).gather(place) == pl.col(_HASH)


def _dropped(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """Return a frame without the rows at some positions."""
    return (
        frame.with_row_index(_ROW)
        .join(rows.to_frame(), on=_ROW, how="anti", maintain_order="left")
        .drop(_ROW)
    )


# -- beside the lake -------------------------------------------------------------------------------------------------


def _in_lake(parts: list[Part], frames: list[pl.DataFrame], stored: Stored, table: Table) -> pl.DataFrame:
    """Return the columns ``key`` and ``same`` of the lake's rows whose keys the frames have."""
    facts = [*table.key, *table.same]
    with_ids = [part for part in parts if part.low is not None]
    if not with_ids:
        return table.empty().select(facts)
    keys = pl.concat(frame.select(table.key) for frame in frames)
    markets = frozenset().union(*(part.markets for part in with_ids))
    rows = stored(markets, min(part.low for part in with_ids), max(part.high for part in with_ids))
    # Streaming, so that the lake's rows are never all in memory.
    return rows.select(facts).join(keys.lazy(), on=table.key, how="semi").collect(engine="streaming")


def _differing(frame: pl.DataFrame, others: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return the rows that other rows of the same key contradict."""
    both = frame.join(others.select(*table.key, *table.same), on=table.key, suffix="_there")
    return both.filter(
        pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_there")) for name in table.same)
    )


def _inside(wrong: pl.DataFrame, batch: Batch) -> pl.DataFrame:
    """Return the rows that have neither the first nor the last time of their market in the batch."""
    names = [name for name in batch.table.key if name != "timestamp"]
    time = pl.col("timestamp")
    ends = (
        pl.concat(part.frame().group_by(names).agg(first=time.min(), last=time.max()) for part in batch)
        .group_by(names)
        .agg(pl.col("first").min(), pl.col("last").max())
    )
    between = (time > pl.col("first")) & (time < pl.col("last"))
    return wrong.join(ends, on=names).filter(between | (pl.col("first") == pl.col("last")))


def _refuse(wrong: pl.DataFrame, table: Table) -> None:
    """Raise IngestError if there are rows that `_differing` returned."""
    if wrong.is_empty():
        return
    row = wrong.sort(table.key).row(0, named=True)  # a join keeps no order
    key = ", ".join(f"{name} {row[name]!r}" for name in table.key)
    what = ", ".join(
        f"{name} {row[name]!r} and {row[f'{name}_there']!r}"
        for name in table.same
        if row[name] != row[f"{name}_there"]
    )
    raise IngestError(
        f"{table.name}: the same row with different content, {wrong.height} in all: {key} has {what}"
    )


# -- the order of trades of one timestamp -----------------------------------------------------------------------------


def counted_on(new: Batch, stored: Stored) -> Batch:
    """Return a batch with its ``sequence`` counted on from the rows of the lake.

    The lines of one file order its trades, and say nothing about the trades of another file. So a new file counts on
    from the lake's rows between the file's first and last new trade: of two trades with one timestamp, the one that
    comes later into the lake counts as the later. In one case more is known. If the file and the lake share only the
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
        Returns the rows of some markets from one timestamp to another, both included.

    Returns
    -------
    Batch
        The same rows. No two rows of one market, new or in the lake, have the same (timestamp, sequence), unless two
        rows of the lake have it already.
    """
    if not new.parts:
        return new
    time, sequence = pl.col("timestamp"), pl.col("sequence")
    spans = (
        pl.concat(
            part.frame()
            .group_by(_MARKET)
            .agg(first=time.min(), last=time.max(), low=sequence.min(), high=sequence.max())
            for part in new
        )
        .group_by(_MARKET)
        .agg(pl.col("first", "low").min(), pl.col("last", "high").max())
    )
    begin, end = min(part.first for part in new), max(part.last for part in new)
    lake_rows = (
        stored(new.markets, begin, end)
        .select(*_MARKET, "timestamp", "sequence")
        .join(spans.lazy(), on=_MARKET)
        .filter(time.is_between("first", "last"))
        .group_by(*_MARKET, "last", "low", "high")
        .agg(
            top=sequence.max(),
            bottom=sequence.filter(time == pl.col("last")).min(),
            apart=((time == pl.col("first")) | (time == pl.col("last"))).all()
            & (pl.col("first") < pl.col("last")).all(),
        )
        .select(
            *_MARKET,
            "last",
            up=pl.max_horizontal(pl.col("top") - pl.col("low") + 1, 0),
            down=pl.when("apart").then(pl.min_horizontal(pl.col("bottom") - pl.col("high") - 1, 0)),
        )
        .collect()
    )
    if lake_rows.is_empty():
        return new
    shift = pl.coalesce(pl.when(time == pl.col("last")).then("down"), "up").fill_null(0)

    def shifted(rows: pl.DataFrame) -> pl.DataFrame:
        with_shift = rows.join(lake_rows, on=_MARKET, how="left", maintain_order="left")
        return with_shift.with_columns(sequence=sequence + shift).select(rows.columns)

    counted = Batch(new.table, new.spool)
    counted.parts = [part.changed(shifted) for part in new]
    return counted


_CONTENT = ("exchange", "raw_symbol", "timestamp", "price", "amount", "side")


def with_ids(rows: pl.DataFrame, before: Batch) -> pl.DataFrame:
    """Add ids made from content; identical events are numbered, and the numbers go on from ``before``.

    Parameters
    ----------
    rows : polars.DataFrame, one row per event
        ``exchange``, ``raw_symbol``, ``timestamp``, ``price``, ``amount`` and ``side``.
    before : Batch
        The file's events so far.

    Returns
    -------
    polars.DataFrame, same rows
        With ``id``. The same events in another export get the same ids.
    """
    if rows.is_empty():
        return rows.with_columns(id=pl.lit(None, pl.String))
    first, last = rows["timestamp"].min(), rows["timestamp"].max()
    ids = pl.concat_str(
        *(pl.col(name) for name in ("timestamp", "price", "amount", "side", "__number")), separator="/"
    )
    earlier = [
        part.frame().select(_CONTENT)
        for part in before
        if part.first <= last and first <= part.last  # type: ignore[operator]  # polars types any value
    ]
    numbered = rows.with_columns(pl.int_range(pl.len()).over(_CONTENT).alias("__number"))
    if earlier:
        counts = pl.concat(earlier).group_by(_CONTENT).agg(pl.len().cast(pl.Int64).alias("__earlier"))
        numbered = numbered.join(counts, on=_CONTENT, how="left", maintain_order="left").with_columns(
            pl.col("__number") + pl.col("__earlier").fill_null(0)
        )
    return numbered.with_columns(ids.alias("id"))


def one_id_each(rows: pl.DataFrame, same: Sequence[str]) -> pl.DataFrame:
    """Add a ``reason`` where another event before has the same id; a row that repeats the same event has no reason.

    Only these rows are compared. If the other event is in another block of the file, `fresh` raises an error.

    Parameters
    ----------
    rows : polars.DataFrame, one row per event
        ``exchange``, ``raw_symbol``, ``id`` and what ``same`` names.
    same : sequence of str
        Columns in which events of one id must agree.
    """
    key = ["exchange", "raw_symbol", "id"]
    differs = pl.any_horizontal(pl.col(name) != pl.col(name).first().over(key) for name in same)
    return rows.with_columns(
        reason=pl.when(pl.col("id").is_not_null() & differs).then(
            pl.lit("another event before it has the same id")
        )
    )


def keep_latest(batch: Batch, event: pl.Expr) -> int:
    """Keep the last event of each market and timestamp; return how many events were removed.

    It is for events of many rows, such as snapshots of a book. Of states of one row `fresh` keeps one. Parts are
    compared only where their times overlap, so that a file may be larger than memory.

    Parameters
    ----------
    batch : Batch
        Of a table with exchange, raw_symbol and timestamp, its rows in the order of the file.
    event : expression
        Number of the event that a row belongs to, rising in the file.
    """
    key = ["exchange", "raw_symbol", "timestamp"]
    number = event.alias("__event")
    parts: list[Part] = []
    removed = 0
    for part in reversed(batch.parts):
        rows = part.frame().with_columns(number)
        rest = rows.filter(pl.col("__event") == pl.col("__event").max().over(key))
        for later in parts:
            if part.first <= later.last and later.first <= part.last:
                rest = rest.join(later.frame().select(key), on=key, how="anti", maintain_order="left")
        if rest.height == part.rows:
            parts.append(part)
            continue
        removed += rows["__event"].n_unique() - rest["__event"].n_unique()
        smaller = Batch(batch.table, batch.spool)
        smaller.add(rest.drop("__event"))
        parts += smaller.parts
    batch.parts = parts[::-1]
    return removed
