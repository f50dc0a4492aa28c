"""Minutes: what a rollup keeps is what its events say."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tidytape.lake import _delta
from tidytape.lake.hygiene._book import late_by_id
from tidytape.lake.hygiene._spans import spans
from tidytape.lake.hygiene._subject import Found, Subject
from tidytape.lake.rollup.recipes import RECIPES, Ask, Recipe, within
from tidytape.lake.rollup.state import is_lost, noted, stale
from tidytape.lake.table import Table
from tidytape.times import MINUTE, Span, without

_AT_ONCE = 10_000_000
"""Events of many instruments that are read at once."""

_CLOSE = 1e-9
"""Sums of the same numbers in another order may differ by rounding. [1]"""


def unlike_events(subject: Subject) -> Iterator[Found]:
    """Minutes that are kept and not what their events say, or the other way round.

    Minutes that are known to be changed by events that came late are left out: nobody reads them. So are those of a
    book whose ids run against its times: its events do not say what it was, and the check of ids finds them.
    """
    recipe = RECIPES[subject.table.name]
    if subject.members:
        if not _are_like_events(subject, recipe):
            yield 1, "an instrument of many"
        return
    exchange, raw_symbol = (str(value) for value in subject.partition.values())
    said = noted(subject.delta, (exchange, raw_symbol))
    if said is None:
        yield subject.size, "minutes that no rollup has noted"
        return
    state, block_size = said
    if is_lost(subject.lake.delta(recipe.raw.name), state):
        yield 1, f"made of a newer version of {recipe.raw.name} than there is: commits of it are lost"
        return
    time = pl.col("timestamp")
    events = subject.lake.scan(recipe.raw.name, exchange=exchange, raw_symbol=raw_symbol)
    if recipe.lasts and late_by_id(events).height:
        return
    events = events.filter(time < state.until)
    both = pl.concat([events.select("timestamp"), subject.rows.select("timestamp")])
    counts = (
        both.group_by(minute=time // MINUTE).agg(rows=pl.len()).sort("minute").collect(engine="streaming")
    )
    count, example = 0, ""
    for first, last in spans(counts):
        span = first * MINUTE, min((last + 1) * MINUTE, state.until)
        for start, end in _known(subject, recipe, span):
            ask = Ask(exchange, raw_symbol, start, end, block_size)
            made = recipe.minutes(subject.lake, ask).select(subject.table.names)
            kept = subject.rows.filter(time.is_between(start, end, closed="left"))
            ours, theirs = pl.collect_all([kept, made], engine="streaming")
            wrong = _differing(ours, theirs, subject.table)
            # An event may have come just now that changed them.
            good = _known(subject, recipe, (start, end)) if wrong.height else []
            wrong = wrong.filter(
                pl.any_horizontal(pl.lit(False), *(time.is_between(*one, closed="left") for one in good))
            )
            count += wrong.height
            if wrong.height and not example:
                example = _shown(wrong, subject.table)
    if count:
        yield count, example


def _are_like_events(subject: Subject, recipe: Recipe) -> bool:
    """Whether the minutes of many instruments are certainly what their events say.

    Those of which it takes a closer look count as others: where events came late, or are too many to be read at once.
    """
    raw, asks, events = subject.lake.delta(recipe.raw.name), [], 0
    subject.delta.read_notes(len(subject.members))
    for member in subject.members:
        exchange, raw_symbol = (str(value) for value in member.partition.values())
        names = (exchange, raw_symbol)
        said = noted(subject.delta, names)
        if said is None or is_lost(raw, said[0]) or stale(recipe, raw, names, said[0]):
            return False
        asks.append(Ask(exchange, raw_symbol, -(2**63), said[0].until, said[1]))
        events += sum(file.rows or 0 for file in _delta.files(raw, names))
    if recipe.lasts or events > _AT_ONCE:
        return False
    made = recipe.minutes(subject.lake, *asks).select(subject.table.names)
    ours, theirs = pl.collect_all([within(subject.rows, asks), made], engine="streaming")
    return _differing(ours.select(subject.table.names), theirs, subject.table).is_empty()


def _known(subject: Subject, recipe: Recipe, span: Span) -> list[Span]:
    """The parts of a span whose minutes no event has changed since they were made."""
    exchange, raw_symbol = (str(value) for value in subject.partition.values())
    said = noted(subject.delta, (exchange, raw_symbol))
    if said is None:
        return []
    raw = subject.lake.delta(recipe.raw.name)
    return without(span, stale(recipe, raw, (exchange, raw_symbol), said[0]))


def _differing(kept: pl.DataFrame, made: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Keys that only one of the two has, or whose numbers differ; with the first pair of them."""
    values = [name for name in table.names if name not in table.key]
    both = kept.with_columns(__kept=pl.lit(True)).join(
        made.with_columns(__made=pl.lit(True)),
        on=table.key,
        how="full",
        coalesce=True,
        suffix="__made",
        nulls_equal=True,
    )
    unlike = [_unlike(pl.col(name), pl.col(f"{name}__made"), made.schema[name]) for name in values]
    alone = pl.col("__kept").is_null() | pl.col("__made").is_null()
    return both.filter(alone | pl.any_horizontal(unlike)).sort(table.key)


def _unlike(kept: pl.Expr, made: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if not dtype.is_float():
        return kept.ne_missing(made)
    far = (kept - made).abs() > _CLOSE * pl.max_horizontal(kept.abs(), made.abs())
    return far.fill_null(kept.is_null() != made.is_null())


def _shown(wrong: pl.DataFrame, table: Table) -> str:
    row = wrong.row(0, named=True)
    key = ", ".join(f"{name} {row[name]!r}" for name in table.key if name not in table.partitions)
    if row["__kept"] is None:
        return f"{key} is not kept"
    if row["__made"] is None:
        return f"{key} is kept, and no event says it"
    name = next(
        name
        for name in table.names
        if name not in table.key
        and wrong.select(_unlike(pl.col(name), pl.col(f"{name}__made"), wrong.schema[name]))[0, 0]
    )
    return f"{key}: {name} is {row[name]!r}, by its events {row[f'{name}__made']!r}"
