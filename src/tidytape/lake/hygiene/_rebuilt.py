"""Checks that compute books from updates, and minutes from events, once more and compare them with what is stored."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

from tidytape.aggregate import book_at, book_runs
from tidytape.frames._table import planned
from tidytape.lake import _delta
from tidytape.lake._tables import Table
from tidytape.lake.hygiene._files import spans
from tidytape.lake.hygiene._scope import Faults, Scope
from tidytape.lake.rollup._recipes import RECIPES, SKEW, Ask, Recipe, within
from tidytape.lake.rollup._state import is_lost, noted, stale
from tidytape.times import DAY, MINUTE, SECOND, Span, without

_OVERLAP = 10 * SECOND
"""A day is read with the events of this time before it: an update may arrive before its snapshot. [ns]"""

_AT_ONCE = 10_000_000
"""Most events of many markets that are read at once."""

_CLOSE = 1e-9
"""Largest relative difference of equal sums: sums in another order round differently. [1]"""

_BEST = (
    pl.col("price").filter(pl.col("side") == "BID").max().alias("bid"),
    pl.col("price").filter(pl.col("side") == "ASK").min().alias("ask"),
)


# -- books -----------------------------------------------------------------------------------------------------------


def crossed_snapshot(scope: Scope) -> Faults:
    """Find recorded snapshots whose best bid is not below the best ask."""
    levels = scope.rows.filter("is_snapshot", pl.col("size") > 0)
    return _described(_where_crossed(levels, "timestamp", "last_id"))


def crossed_book(scope: Scope) -> Faults:
    """Rebuild the book at the end of each minute with an event, and find crossed ones.

    It reads day by day, so that memory holds the events of one day. The book at the end of a day begins the next day as
    if it were a snapshot.
    """
    crossed_by_day: list[pl.DataFrame] = []
    book: pl.DataFrame | None = None
    for day in _days(scope):
        time = pl.col("timestamp")
        events = scope.rows.filter(time >= day - _OVERLAP, time < day + DAY).collect(engine="streaming")
        if book is not None:
            # Leave out the events that the book of the day before includes: by id, or by time if there are no ids.
            last_id = book["last_id"][0]
            included = time < day if last_id is None else pl.col("last_id") <= last_id
            events = pl.concat(
                [book, events.filter(~included.fill_null(value=False))], how="diagonal_relaxed"
            )
        # The lake may hold words that no side has: other checks find them.
        runs = planned(book_runs.core, events.lazy()).collect()
        crossed_by_day.append(_crossed(scope, runs, events.filter(time >= day)))
        book = _last_book(runs, events)
    return _described(pl.concat(crossed_by_day) if crossed_by_day else pl.DataFrame())


def unlike_ids(scope: Scope) -> Faults:
    """Find minutes with events whose ids and times give different orders."""
    late_minutes = late_by_id(scope.rows)
    if late_minutes.height:
        row = late_minutes.row(0, named=True)
        time = datetime.fromtimestamp(row["minute"] * MINUTE // SECOND, UTC).isoformat()
        yield (
            late_minutes.height,
            f"{time}: id {row['lowest']} comes more than {SKEW // MINUTE} minutes after id {row['before']}",
        )


def late_by_id(events: pl.LazyFrame) -> pl.DataFrame:
    """Return the minutes of one book with events whose ids belong to a time more than `SKEW` earlier.

    A book is rebuilt in the order of ids from a snapshot on, with the events of the time `SKEW` before and after. If
    ids and times differ by more, the rebuilt book depends on which events are read.

    Parameters
    ----------
    events : polars.LazyFrame
        ``timestamp`` [ns since the epoch] and ``last_id`` of one market, in any order.

    Returns
    -------
    polars.DataFrame, one row per such minute, sorted
        ``minute`` [min since the epoch], its ``lowest`` id, and ``before``, a higher id that came earlier. No rows if
        an event has no id, because then only times give the order.
    """
    last_id = pl.col("last_id")
    minutes = (
        events.group_by(minute=pl.col("timestamp") // MINUTE)
        .agg(lowest=last_id.min(), highest=last_id.max(), unnumbered=last_id.null_count())
        .drop_nulls("minute")
        .sort("minute")
        .collect(engine="streaming")
    )
    earlier_ids = minutes.select(pl.col("minute") + SKEW // MINUTE + 1, before=pl.col("highest").cum_max())
    late_minutes = minutes.join_asof(earlier_ids, on="minute").filter(pl.col("lowest") < pl.col("before"))
    return (
        late_minutes.clear()
        if minutes["unnumbered"].sum()
        else late_minutes.select("minute", "lowest", "before")
    )


def _days(scope: Scope) -> list[int]:
    """Return the days with events, each by its start. [ns]"""
    start = (pl.col("timestamp") // DAY * DAY).alias("day")
    days = scope.rows.select(start.unique()).drop_nulls().sort("day").collect(engine="streaming")
    return days["day"].to_list()


def _crossed(scope: Scope, runs: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the crossed books at the ends of the minutes with events."""
    minute_end = (pl.col("timestamp") // MINUTE + 1) * MINUTE - 1
    instants = (
        events.drop_nulls("timestamp")
        .select(timestamp=minute_end.unique())
        .with_columns(**{name: pl.lit(value) for name, value in scope.partition.items()})
    )
    return _where_crossed(book_at(runs.lazy(), instants.lazy()), "timestamp")


def _where_crossed(levels: pl.LazyFrame, *by: str) -> pl.DataFrame:
    """Return the books whose best bid is not below the best ask."""
    books = levels.group_by(by).agg(*_BEST).filter(pl.col("bid") >= pl.col("ask"))
    return books.sort("timestamp").collect(engine="streaming")


def _last_book(runs: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame | None:
    """Return the last book as a snapshot; None if it is empty."""
    open_runs = runs.filter(pl.col("until").is_null())
    if open_runs.is_empty():
        return None
    has_ids = events["last_id"].null_count() == 0
    return open_runs.select(
        "exchange",
        "raw_symbol",
        timestamp=pl.lit(events["timestamp"].max(), pl.Int64),
        last_id=pl.lit(events["last_id"].max() if has_ids else None, pl.Int64),
        is_snapshot=pl.lit(True),
        side="side",
        price="price",
        size="size",
        sequence=pl.int_range(pl.len(), dtype=pl.Int64),
    )


def _described(crossed: pl.DataFrame) -> Faults:
    if crossed.height:
        row = crossed.row(0, named=True)
        time = datetime.fromtimestamp(row["timestamp"] // SECOND, UTC).isoformat()
        yield crossed.height, f"{time}: bid {row['bid']!r} is not below ask {row['ask']!r}"


# -- minutes ---------------------------------------------------------------------------------------------------------


def unlike_events(scope: Scope) -> Faults:
    """Find stored minutes that differ from the minutes computed from the events.

    It leaves out minutes that late events are known to have changed, because no query reads them. It also leaves out a
    book whose ids and times disagree: its events do not determine it, and the check ``ids`` finds it.
    """
    recipe = RECIPES[scope.table.name]
    if scope.members:
        if not _are_like_events(scope, recipe):
            yield 1, "a market of many"  # only says that each market must be checked
        return
    exchange, raw_symbol = market = scope.market[0], scope.market[1]
    state_and_size = noted(scope.delta, market)
    if state_and_size is None:
        yield scope.size, "minutes that no rollup has noted"
        return
    state, block_size = state_and_size
    if is_lost(scope.lake.delta(recipe.raw.name), state):
        yield 1, f"made of a newer version of {recipe.raw.name} than there is: commits of it are lost"
        return
    time = pl.col("timestamp")
    events = scope.lake.scan(recipe.raw.name, exchange=exchange, raw_symbol=raw_symbol)
    if recipe.lasts and late_by_id(events).height:
        return

    def unchanged(span: Span) -> list[Span]:
        """Return the parts of a span whose minutes no event has changed since they were made."""
        return without(span, stale(recipe, scope.lake.delta(recipe.raw.name), market, state))

    times = pl.concat([events.filter(time < state.until).select("timestamp"), scope.rows.select("timestamp")])
    counts = (
        times.group_by(minute=time // MINUTE).agg(rows=pl.len()).sort("minute").collect(engine="streaming")
    )
    count, example = 0, ""
    for first_minute, last_minute in spans(counts):
        for start, end in unchanged((first_minute * MINUTE, min((last_minute + 1) * MINUTE, state.until))):
            computed_minutes = recipe.minutes(scope.lake, Ask(exchange, raw_symbol, start, end, block_size))
            differences = _differing(
                scope.rows.filter(time.is_between(start, end, closed="left")), computed_minutes, scope.table
            )
            # Another process may have added events meanwhile, so look again.
            still_unchanged = unchanged((start, end)) if differences.height else []
            differences = differences.filter(
                pl.any_horizontal(
                    pl.lit(False), *(time.is_between(*span, closed="left") for span in still_unchanged)
                )
            )
            count += differences.height
            if differences.height and not example:
                example = _first_difference(differences, scope.table)
    if count:
        yield count, example


def _are_like_events(scope: Scope, recipe: Recipe) -> bool:
    """Return whether the minutes of many markets are certainly those of their events.

    It is also false if only a check of each market can tell: if events came late, or are too many to be read at once.
    """
    raw = scope.lake.delta(recipe.raw.name)
    asks: list[Ask] = []
    events = 0
    scope.delta.read_notes(len(scope.members))
    for member in scope.members:
        market = member.market[0], member.market[1]
        state_and_size = noted(scope.delta, market)
        if state_and_size is None:
            return False
        state, block_size = state_and_size
        if is_lost(raw, state) or stale(recipe, raw, market, state):
            return False
        asks.append(Ask(*market, -(2**63), state.until, block_size))
        events += sum(file.rows or 0 for file in _delta.files(raw, market))
    if recipe.lasts or events > _AT_ONCE:
        return False
    computed_minutes = recipe.minutes(scope.lake, *asks)
    return _differing(within(scope.rows, asks), computed_minutes, scope.table).is_empty()


def _differing(stored: pl.LazyFrame, computed: pl.LazyFrame, table: Table) -> pl.DataFrame:
    """Return the keys that only one of two frames has, or whose values differ, with the values of both."""
    frames = [frame.select(table.names) for frame in (stored, computed)]
    stored_rows, computed_rows = pl.collect_all(frames, engine="streaming")
    joined = stored_rows.with_columns(__stored=pl.lit(True)).join(
        computed_rows.with_columns(__computed=pl.lit(True)),
        on=table.key,
        how="full",
        coalesce=True,
        suffix="__computed",
        nulls_equal=True,
    )
    is_alone = pl.col("__stored").is_null() | pl.col("__computed").is_null()
    differences = [_differ(name, computed_rows.schema[name]) for name in table.names if name not in table.key]
    return joined.filter(is_alone | pl.any_horizontal(differences)).sort(table.key)


def _differ(name: str, dtype: pl.DataType) -> pl.Expr:
    stored_value, computed_value = pl.col(name), pl.col(f"{name}__computed")
    if not dtype.is_float():
        return stored_value.ne_missing(computed_value)
    is_far = (stored_value - computed_value).abs() > _CLOSE * pl.max_horizontal(
        stored_value.abs(), computed_value.abs()
    )
    return is_far.fill_null(stored_value.is_null() != computed_value.is_null())


def _first_difference(differences: pl.DataFrame, table: Table) -> str:
    row = differences.row(0, named=True)
    key = ", ".join(f"{name} {row[name]!r}" for name in table.key if name not in table.partitions)
    if row["__stored"] is None:
        return f"{key} is not kept"
    if row["__computed"] is None:
        return f"{key} is kept, and no event says it"
    value_columns = (name for name in table.names if name not in table.key)
    name = next(
        name for name in value_columns if differences.select(_differ(name, differences.schema[name]))[0, 0]
    )
    return f"{key}: {name} is {row[name]!r}, by its events {row[f'{name}__computed']!r}"
