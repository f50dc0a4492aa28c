"""Find the rows of a batch that are new, and their order among those of the lake; ids of rows that have none.

A row that contradicts another of the same key is an error, never a choice.

An event happens once, so two rows of one id must agree, wherever they come from. A state may be reported several times
for one time of the exchange: exchanges stamp a burst of updates alike. Of the reports in one file the one that was
received last counts, else the one on the later line; the others are counted as superseded.

Between files a state that differs stays an error, because a wrong unit or symbol shows itself by nothing else. Two
recorders of one feed agree: both saw the whole burst. Only where a recording begins or ends may it hold a part of one.
So at the first and the last time that a file has of a market the lake's row stays, and the file's is counted as
superseded: both were true at that instant. (A file of a single time has no ends to be cut at: it must agree.) A second
recording with gaps of its own is refused as soon as a gap cuts a burst in two.

Memory is bounded by the parts, beside 8 bytes for each row of those parts that could hold the same ids: none of a tape
whose ids rise, all of one whose ids are random. Such a tape is also compared with everything the lake has of its
market, once per million rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import polars as pl

from tidytape.errors import IngestError
from tidytape.lake._batch import Batch, Part
from tidytape.lake._tables import Table

Stored = Callable[[Collection[tuple[str, ...]], Any, Any], pl.LazyFrame]
"""Returns the rows of some markets between two values, both included, of a column."""

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
    kept = Batch(table, batch.spool)
    for run in _runs(batch):
        frames = {position: part.frame() for position, part in run}
        for position in frames.keys() & again.keys():
            frames[position] = _dropped(frames[position], again[position])
        there = _there([part for _, part in run], list(frames.values()), stored, table)
        for position, part in run:
            frame = frames[position]
            if not there.is_empty():
                wrong = _differing(frame, there, table)
                if table.tells_states and wrong.height:
                    inside = _inside(wrong, batch)
                    superseded += wrong.height - inside.height
                    wrong = inside
                _refuse(wrong, table)
                frame = frame.join(there, on=table.key, how="anti", maintain_order="left")
            if frame.height == part.rows:
                kept.parts.append(part)  # where it lies, instead of another copy
            else:
                kept.add(frame)
    return kept, superseded


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
    """Return the rows that come again, by the position of their part: their positions in it."""
    table = batch.table
    repeated = _repeated(batch)
    if repeated.is_empty():
        return {}
    time = ["received"] if "received" in table.names else []
    found = pl.concat(
        _hashed(part.frame(), table)
        .select(*dict.fromkeys([*table.key, *table.same, *time]), _HASH)
        .with_row_index(_ROW)
        .filter(pl.col(_HASH).is_not_null())
        .filter(_among(repeated))
        .with_columns(pl.lit(position).alias(_PART))
        for position, part in enumerate(batch)
    )
    if table.tells_states:
        found = found.sort(*time, _PART, _ROW)  # nulls first: what has a time of receipt holds
    once = found.unique(table.key, keep="last" if table.tells_states else "first", maintain_order=True)
    if not table.tells_states:
        _refuse(_differing(found, once, table), table)
    others = found.join(once, on=[_PART, _ROW], how="anti")
    return {position: rows[_ROW] for (position,), rows in others.partition_by(_PART, as_dict=True).items()}


def _repeated(batch: Batch) -> pl.Series:
    """Return the hashes, sorted, that more than one row has; a row may share its hash with another by chance."""
    seen = [pl.Series(dtype=pl.UInt64)]
    for position, part in enumerate(batch):
        hashes = _hashed(part.frame(), batch.table)[_HASH].drop_nulls()
        crowded = any(part.meets(other) for place, other in enumerate(batch) if place != position)
        seen.append(hashes if crowded else hashes.filter(hashes.is_duplicated()))
    every = pl.concat(seen).sort()
    return every.filter(every == every.shift(1))


def _hashed(frame: pl.DataFrame, table: Table) -> pl.DataFrame:
    """The rows with the hash of their key, null where any of it is null: such a row repeats nothing."""
    keyed = pl.all_horizontal(pl.col(table.key).is_not_null())
    # Each column by itself is many times faster than the columns as one struct.
    mixed = pl.sum_horizontal(pl.col(name).hash(seed) for seed, name in enumerate(table.key))
    return frame.with_columns(pl.when(keyed).then(mixed).alias(_HASH))


def _among(hashes: pl.Series) -> pl.Expr:
    place = pl.lit(hashes).search_sorted(pl.col(_HASH)).clip(0, len(hashes) - 1)
    return pl.lit(hashes).gather(place) == pl.col(_HASH)


def _dropped(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    return (
        frame.with_row_index(_ROW)
        .join(rows.to_frame(), on=_ROW, how="anti", maintain_order="left")
        .drop(_ROW)
    )


# -- beside the lake -------------------------------------------------------------------------------------------------


def _there(parts: list[Part], frames: list[pl.DataFrame], stored: Stored, table: Table) -> pl.DataFrame:
    """Return key and facts of the rows in the lake whose key some rows have."""
    facts = [*table.key, *table.same]
    known = [part for part in parts if part.low is not None]
    if not known:
        return table.empty().select(facts)
    keys = pl.concat(frame.select(table.key) for frame in frames)
    markets = frozenset().union(*(part.markets for part in known))
    rows = stored(markets, min(part.low for part in known), max(part.high for part in known))
    # Streaming, so that what the lake has is never in memory as a whole.
    return rows.select(facts).join(keys.lazy(), on=table.key, how="semi").collect(engine="streaming")


def _differing(frame: pl.DataFrame, there: pl.DataFrame, table: Table) -> pl.DataFrame:
    both = frame.join(there.select(*table.key, *table.same), on=table.key, suffix="_there")
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

    The lines of one file order its trades, and say nothing about another file. So a file that is added counts on from
    what the lake holds between its first and its last new trade: of one timestamp, what comes later to the lake
    happened later. One case is known better. If the file and the lake share only the timestamps at the file's ends,
    they are pieces of one tape, and the file's trades at its last timestamp happened before those of the lake.

    A tape cut anywhere into files is so put together again whatever the order in which they are added, oldest or newest
    trade first; only the pieces of one single timestamp must be added in their order. The order is unknown between
    trades that a later file has and an earlier one leaves out in the middle of a timestamp, and between trades with
    integer ids and trades without.

    Parameters
    ----------
    new : Batch
        New rows, whose ``sequence`` orders those of one market and timestamp.
    stored : callable
        Returns the rows of some markets from one timestamp to another, both included.

    Returns
    -------
    Batch
        The same rows. No two rows of one market, new or in the lake, have the same (timestamp, sequence), unless those
        of the lake have already.
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
    in_lake = (
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
    if in_lake.is_empty():
        return new
    shift = pl.coalesce(pl.when(time == pl.col("last")).then("down"), "up").fill_null(0)

    def shifted(rows: pl.DataFrame) -> pl.DataFrame:
        with_shift = rows.join(in_lake, on=_MARKET, how="left", maintain_order="left")
        return with_shift.with_columns(sequence=sequence + shift).select(rows.columns)

    counted = Batch(new.table, new.spool)
    counted.parts = [part.changed(shifted) for part in new]
    return counted


_CONTENT = ("exchange", "raw_symbol", "timestamp", "price", "amount", "side")


def with_ids(rows: pl.DataFrame, before: Batch) -> pl.DataFrame:
    """Add ids made from content; identical events are numbered, on from those read before.

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
        seen = pl.concat(earlier).group_by(_CONTENT).agg(pl.len().cast(pl.Int64).alias("__seen"))
        numbered = numbered.join(seen, on=_CONTENT, how="left", maintain_order="left").with_columns(
            pl.col("__number") + pl.col("__seen").fill_null(0)
        )
    return numbered.with_columns(ids.alias("id"))


def one_id_each(rows: pl.DataFrame, same: Sequence[str]) -> pl.DataFrame:
    """Add a ``reason`` where an id was given to another event before; a row that only repeats it is good.

    Only the rows at hand are compared. Such an id in another block of the file is an error when the file is checked.

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
    """Of several events of one market and timestamp keep the one that was read last; return how many went.

    It is for events of many rows, such as snapshots of a book; of states of one row the lake itself keeps one, see
    `tidytape.lake._dedupe`. Parts are compared only where their times overlap, so that a file larger than memory can be
    gone through.

    Parameters
    ----------
    batch : Batch
        Of a table with exchange, raw_symbol and timestamp, its rows in the order of the file.
    event : expression
        Number of the event that a row belongs to, rising in the file.
    """
    key = ["exchange", "raw_symbol", "timestamp"]
    number = event.alias("__event")
    kept: list[Part] = []
    gone = 0
    for part in reversed(batch.parts):
        every = part.frame().with_columns(number)
        rest = every.filter(pl.col("__event") == pl.col("__event").max().over(key))
        for later in kept:
            if part.first <= later.last and later.first <= part.last:
                rest = rest.join(later.frame().select(key), on=key, how="anti", maintain_order="left")
        if rest.height == part.rows:
            kept.append(part)
            continue
        gone += every["__event"].n_unique() - rest["__event"].n_unique()
        smaller = Batch(batch.table, batch.spool)
        smaller.add(rest.drop("__event"))
        kept += smaller.parts
    batch.parts = kept[::-1]
    return gone
