"""CSV datasets of tardis.dev, which name their venue and instrument on every line. Times are epoch microseconds.

========================= =========================================================================================
dataset                   becomes
========================= =========================================================================================
trades                    trades; one whose side is ``unknown`` is counted, not kept
incremental_book_L2       book events. They have no update ids, so they are ordered by time and line; a snapshot is the
                          rows that share its timestamp
book_snapshot_5, _25      book events, each line a snapshot of all the levels that it names. Of several lines with one
                          timestamp the last is kept
derivative_ticker         funding, where a rate or a predicted rate is known, and open interest, where that is known
liquidations              liquidations
options_chain             option quotes
quotes, book_ticker       nothing: the best prices alone are no book
========================= =========================================================================================

The header tells which it is; trades and liquidations have the same one, and are told by the file's name. What the
columns mean is told in `_tardis`. In a book an amount is what rests at the price from then on, 0 takes it away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from tidytape.catalogue import BookSide
from tidytape.errors import IngestError, counted
from tidytape.lake.batch import Spool
from tidytape.lake.ingest import _tardis
from tidytape.lake.ingest._delimited import split
from tidytape.lake.ingest._fields import FLAG, NOT_NEGATIVE, NUMBER, Field, checked, word
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._repeats import keep_latest
from tidytape.lake.tables import BOOK

__all__ = ["parse", "recognises"]

_UNIT = "us"
_FIRST = ["exchange", "symbol", "timestamp", "local_timestamp"]
_BID, _ASK = BookSide.BID.value, BookSide.ASK.value
_LEVEL: Mapping[str, _tardis.Name] = {
    "price": ("price", "price", NUMBER, True),
    "size": ("amount", "amount", NOT_NEGATIVE, True),
}
_UPDATE: Mapping[str, _tardis.Name] = {
    "is_snapshot": ("is_snapshot", "isSnapshot", FLAG, True),
    "side": ("side", "side", word({"bid": _BID, "ask": _ASK}), True),
    **_LEVEL,
}
_SNAPSHOT_LEVEL = re.compile(r"(asks|bids)\[(\d+)\]\.(price|amount)")
_TOP_OF_BOOK = {"ask_amount", "ask_price", "bid_price", "bid_amount"}
_NAMED = re.compile(r"(?:^|_)(trades|liquidations)(?=_|\.|$)")


@dataclass(slots=True)
class _Dataset:
    """Which dataset a file is.

    Attributes
    ----------
    kind : str
        One of `_tardis.KINDS`, ``update`` or ``snapshot``.
    fields : dict of str to Field
        Its columns, by our names.
    header : list of str
        The file's columns.
    depth : int
        Levels of a side, of a snapshot.
    """

    kind: str
    fields: dict[str, Field]
    header: list[str]
    depth: int = 0


def parse(job: Job, spool: Spool, progress: Callable[[int], object]) -> Parsed:
    """Read one file.

    Parameters
    ----------
    job : Job
        The file; ``exchange`` is what its venue is to be called, instead of Tardis's name for it in capitals with _
        for -; ``raw_symbol`` takes one instrument out of it.
    spool : Spool
        Takes the rows.
    progress : callable
        Called with the number of bytes read.

    Returns
    -------
    Parsed

    Raises
    ------
    IngestError
        If the file cannot be read, is no dataset that the lake has a table for, or ``exchange`` is given and it holds
        several venues.
    """
    parsed = Parsed(spool, time_unit=_UNIT)
    dataset: _Dataset | None = None
    venues: set[str] = set()
    for block in numbered(job.path, parsed.bad, progress):
        lines = block
        if dataset is None and lines.height:
            dataset = _dataset(job, lines["text"][0])
            lines = lines[1:]
        if dataset is None or lines.is_empty():
            continue
        parsed.lines += lines.height
        texts = split(lines, len(dataset.header), ",", parsed.bad)
        wanted = texts.select(
            "line",
            *(
                pl.col(f"c{dataset.header.index(column.name)}").alias(ours)
                for ours, column in dataset.fields.items()
            ),
        )
        rows = parsed.bad.take(checked(wanted, dataset.fields))
        rows = _tardis.own(rows, job, parsed, what=dataset.kind.replace("_", " "), venues=venues)
        if dataset.kind == "update":
            parsed.batch(BOOK).add(BOOK.conform(rows.with_columns(sequence=pl.col("line"))))
        elif dataset.kind == "snapshot":
            parsed.batch(BOOK).add(_levels(parsed.bad.take(_whole(rows, dataset.depth)), dataset.depth))
        else:
            _tardis.put(dataset.kind, rows, parsed)
    if dataset is None:
        raise IngestError(f"{job.path}: no header, the file has no lines", path=str(job.path))
    if dataset.kind == "snapshot":
        gone = keep_latest(parsed.batch(BOOK), pl.col("sequence") // (2 * dataset.depth))
        if gone:
            parsed.ignore("snapshot overtaken at its own timestamp", gone)
    _tardis.finish(parsed)
    return parsed


def recognises(name: str, head: str) -> bool:
    """Whether a file is a dataset: its header begins as all of them do."""
    return head.partition("\n")[0].strip().split(",")[:4] == _FIRST


def _dataset(job: Job, text: str) -> _Dataset:
    header = text.strip().split(",")

    def has(own: Mapping[str, _tardis.Name]) -> bool:
        return all(header.count(name[0]) == 1 for name in own.values())

    def fields(own: Mapping[str, _tardis.Name]) -> dict[str, Field]:
        return _tardis.fields(own, message=False, time_unit=_UNIT)

    if header[:4] != _FIRST or len(set(header)) < len(header):
        raise _refused(job, f"no dataset of tardis.dev, its header does not begin with {', '.join(_FIRST)}")
    levels = [match for name in header if (match := _SNAPSHOT_LEVEL.fullmatch(name))]
    if levels:
        depth = 1 + max(int(match[2]) for match in levels)
        if len(levels) != 4 * depth:
            raise _refused(
                job, f"{counted(len(levels), 'column')} of levels, and a book {depth} deep has {4 * depth}"
            )
        own = {f"{side}:{level}:{what}": (name, name, NUMBER if what == "price" else NOT_NEGATIVE, False)
               for side in ("asks", "bids") for level in range(depth) for what in ("price", "amount")
               for name in (f"{side}[{level}].{what}",)}  # fmt: skip
        return _Dataset("snapshot", fields(own), header, depth)
    if has(_UPDATE):
        return _Dataset("update", fields(_UPDATE), header)
    if set(header) >= _TOP_OF_BOOK and "strike_price" not in header:
        raise _refused(
            job, "quotes: the best bid and ask alone are no book, and the lake has no table for them"
        )
    kind = next(
        (kind for kind in ("option_summary", "derivative_ticker", "trade") if has(_tardis.KINDS[kind])), None
    )
    if kind is None:
        raise _refused(job, f"a dataset that is not known, with the columns {', '.join(header)[:200]}")
    if kind == "trade":
        named = {match[1] for match in _NAMED.finditer(job.path.name)}
        if len(named) != 1:
            raise _refused(
                job,
                "trades and liquidations have the same columns; the file's name must hold _trades_ or _liquidations_",
            )
        kind = named.pop().removesuffix("s")
    return _Dataset(kind, fields(_tardis.KINDS[kind]), header)


def _refused(job: Job, reason: str) -> IngestError:
    return IngestError(f"{job.path}: {reason}", path=str(job.path), line=1)


def _whole(rows: pl.DataFrame, depth: int) -> pl.DataFrame:
    """The snapshots, and a ``reason`` where one has half a level."""
    half = pl.any_horizontal(
        pl.col(f"{side}:{level}:price").is_null() != pl.col(f"{side}:{level}:amount").is_null()
        for side in ("asks", "bids")
        for level in range(depth)
    )
    return rows.with_columns(reason=pl.when(half).then(pl.lit("a level with a price or an amount alone")))


def _levels(rows: pl.DataFrame, depth: int) -> pl.DataFrame:
    """One row per level that a snapshot names: a side may hold fewer than there are columns."""
    first = ("line", "exchange", "raw_symbol", "timestamp", "received")
    sides = {"bids": _BID, "asks": _ASK}
    levels = [
        rows.select(
            *first,
            pl.lit(side).alias("side"),
            pl.col(f"{column}:{level}:price").alias("price"),
            pl.col(f"{column}:{level}:amount").alias("size"),
            (pl.col("line") * (2 * depth) + place * depth + level).alias("sequence"),
        )
        for place, (column, side) in enumerate(sides.items())
        for level in range(depth)
    ]
    named = pl.concat(levels).filter(pl.col("price").is_not_null() & pl.col("size").is_not_null())
    return BOOK.conform(named.sort("sequence").with_columns(is_snapshot=pl.lit(value=True)))
