"""Random book events, and books as one would keep them: a dict per side, one event after another."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from random import Random

import polars as pl

SCHEMA = {
    "exchange": pl.String,
    "raw_symbol": pl.String,
    "timestamp": pl.Int64,
    "first_id": pl.Int64,
    "last_id": pl.Int64,
    "is_snapshot": pl.Boolean,
    "side": pl.String,
    "price": pl.Float64,
    "size": pl.Float64,
    "sequence": pl.Int64,
    "received": pl.Int64,
}
SECOND = 10**9


def stream(seed, *, events=60, with_ids=True, symbol="X", step=20 * SECOND):
    """Events of one market: deltas, removals, and snapshots that stand anywhere among the ids."""
    random = Random(seed)
    rows, sequence, snapshots = [], 0, set()
    next_id, time = random.randrange(50), random.randrange(60) * SECOND
    for number in range(events):
        first, last = next_id, next_id + random.randrange(6)
        # A snapshot takes the id of the update before it, or one inside the update after it; an id has one book.
        inside = first - 1 + random.randrange(2)
        snapshot = number and random.random() < 0.1 and inside not in snapshots
        at = inside if snapshot else last
        snapshots |= {at} if snapshot else set()
        stamp = time if not (snapshot and with_ids) else time + random.randrange(-90, 90) * SECOND
        sides = {side: random.sample(range(8), random.randrange(1, 5)) for side in ("BID", "ASK")}
        for side, ticks in sides.items():
            for tick in ticks:
                sequence += 1
                size = 0.0 if not snapshot and random.random() < 0.3 else random.randrange(1, 5000) / 1000
                price = (100 - tick if side == "BID" else 101 + tick) / 10
                ids = (None if snapshot else first, at) if with_ids else (None, None)
                rows.append(("E", symbol, stamp, *ids, bool(snapshot), side, price, size, sequence, stamp))
        if not snapshot:
            next_id = last + 1
        # Several events in one instant; without ids a snapshot and updates too.
        time += random.choice([0, 0, 1, 1, 1, 15]) * random.randrange(step)
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def three_markets(seed, **arguments):
    """Events of three markets, one of them without ids, in no order."""
    frames = [
        stream(3 * seed, symbol="A", **arguments),
        stream(3 * seed + 1, symbol="B", **arguments),
        stream(3 * seed + 2, symbol="N", with_ids=False, **arguments),
    ]
    return pl.concat(frames).sample(fraction=1, shuffle=True, seed=seed)


def book_by_id(rows, last_id):
    """The book at an id the way exchanges tell it: the latest snapshot, and the updates that end above it."""
    snapshots = [row["last_id"] for row in rows if row["is_snapshot"] and row["last_id"] <= last_id]
    if not snapshots:
        return {}
    start = max(snapshots)
    book = {
        (row["side"], row["price"]): row["size"]
        for row in rows
        if row["is_snapshot"] and row["last_id"] == start
    }
    for row in sorted(rows, key=lambda row: (row["last_id"], row["sequence"])):
        if not row["is_snapshot"] and start < row["last_id"] <= last_id:
            book[row["side"], row["price"]] = row["size"]
    return {level: size for level, size in book.items() if size}


def history(rows):
    """(time, book) after each row of one market, in order; times never go back."""
    has_ids = all(row["last_id"] is not None for row in rows)
    if has_ids:
        rows = sorted(rows, key=lambda row: (row["last_id"], row["is_snapshot"], row["sequence"]))
    else:
        rows = sorted(rows, key=lambda row: (row["timestamp"], row["sequence"]))
    book, snapshot, clock, last, told = None, None, None, None, []
    for place, row in enumerate(rows):
        time = row["timestamp"]
        if row["is_snapshot"]:
            later = [other["timestamp"] for other in rows[place:] if not other["is_snapshot"]]
            time = min([time, *later])
            this = row["last_id"] if has_ids else row["timestamp"]
            if this != snapshot:
                book, snapshot = {}, this
        # A snapshot of an update's id tells what was so at that update.
        if clock is None or not has_ids or row["last_id"] != last:
            clock = time if clock is None else max(clock, time)
        last = row["last_id"]
        if book is not None:
            book = book | {(row["side"], row["price"]): row["size"]}
        told.append((clock, {level: size for level, size in (book or {}).items() if size}))
    return told


def book_by_time(told, time):
    """The last book at or before a time."""
    return next((book for at, book in reversed(told) if at <= time), {})


def by_market(frame):
    """Rows of each market."""
    found = defaultdict(list)
    for row in frame.to_dicts():
        found[row["exchange"], row["raw_symbol"]].append(row)
    return dict(sorted(found.items()))


def heatmap(frame, *, step, block_size, max_depth, max_age):
    """Rows of the heatmap: every interval from the first event to the last, one after another."""
    size = Fraction(Decimal(block_size))
    found = []
    for market, rows in by_market(frame).items():
        told = history(rows)
        first, last = told[0][0] // step * step, told[-1][0] // step * step
        for start in range(first, last + 1, step):
            newest = max(at for at, _ in told if at < start + step)
            if start < last and start + step - newest > max_age:
                continue
            blocks = defaultdict(Fraction)
            for (side, price), amount in book_by_time(told, start + step - 1).items():
                blocks[side, Fraction(str(price)) // size] += Fraction(str(amount))
            for side, sign in (("ASK", 1), ("BID", -1)):
                depth = sorted((row for of, row in blocks if of == side), key=lambda row: sign * row)
                found += [
                    (*market, start, side, float(row * size), float(blocks[side, row]))
                    for row in sorted(depth[:max_depth])
                ]
    return found


def test_streams_have_what_is_hard():
    rows = [row for seed in range(6) for row in stream(seed, events=60).with_columns(seed=seed).to_dicts()]
    snapshots = {(row["seed"], row["last_id"]): row for row in rows if row["is_snapshot"]}
    updates = [row for row in rows if not row["is_snapshot"]]
    assert len(snapshots) > 10
    assert any(row["size"] == 0 for row in updates)
    assert any((row["seed"], row["last_id"]) in snapshots for row in updates)  # in the snapshot already
    straddling = [
        (row, snapshot)
        for row in updates
        for (seed, last), snapshot in snapshots.items()
        if seed == row["seed"] and row["first_id"] <= last < row["last_id"]
    ]
    assert straddling
    assert any(row["timestamp"] < snapshot["timestamp"] for row, snapshot in straddling)
    assert any(row["timestamp"] > snapshot["timestamp"] for row, snapshot in straddling)
