"""Heatmaps of books: literal values, and plain loops on random streams."""

from __future__ import annotations

import runpy
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tables import in_columns
from tidytape.aggregate import book_heatmap
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import schema_of

streams = runpy.run_path(str(Path(__file__).parent / "test_book_streams.py"))
SECOND = 10**9
MINUTE = 60 * SECOND
KEY = ["exchange", "raw_symbol", "timestamp", "side", "price"]


def quiet(*seconds):
    """A snapshot of two bids and two asks at second 0, and an update of a far level at each of the seconds."""
    book = [("BID", 9.96, 1.0), ("BID", 9.91, 0.1), ("ASK", 10.0, 4.0), ("ASK", 10.26, 0.2)]
    rows = [("E", "X", 0, None, 1, True, *level, 1 + n, None) for n, level in enumerate(book)]
    rows += [
        ("E", "X", second * SECOND, n, n, False, "BID", 9.0, 1.0, 10 + n, None)
        for n, second in enumerate(seconds, start=2)
    ]
    return pl.DataFrame(rows, schema=streams["SCHEMA"], orient="row")


def minutes(frame, **arguments):
    got = book_heatmap(frame, interval="1m", block_size="0.1", **arguments)
    return (got["timestamp"].unique().sort() // MINUTE).to_list()


@pytest.mark.slow
def test_literal_heatmap(engine):
    got = engine.polars(book_heatmap(engine.frame(quiet(61)), interval="1m", block_size="0.1"))
    got = in_columns(got, [*KEY, "size"])
    assert got.drop("exchange", "raw_symbol").rows() == [
        (0, "ASK", 10.0, 4.0),
        (0, "ASK", 10.2, 0.2),
        (0, "BID", 9.9, 1.1),
        (MINUTE, "ASK", 10.0, 4.0),
        (MINUTE, "ASK", 10.2, 0.2),
        (MINUTE, "BID", 9.0, 1.0),
        (MINUTE, "BID", 9.9, 1.1),
    ]


@pytest.mark.slow
def test_a_block_with_an_unknown_size_is_unknown(engine):
    events = quiet(61).with_columns(size=pl.when(price=9.91).then(None).otherwise("size"))
    got = book_heatmap(engine.frame(events), interval="1m", block_size="0.1", in_quote=True)
    assert engine.polars(got).filter(side="BID").select(
        "timestamp", "price", "size", "quote_size"
    ).rows() == [
        (0, 9.9, None, None),
        (MINUTE, 9.0, 1.0, 9.0),
        (MINUTE, 9.9, None, None),
    ]
    known_again = events.with_columns(price=pl.col("price").replace(9.0, 9.91))
    got = book_heatmap(engine.frame(known_again), interval="1m", block_size="0.1")
    assert engine.polars(got).filter(side="BID")["size"].to_list() == [None, 2.0]


@pytest.mark.slow
def test_depth_keeps_the_blocks_closest_to_the_other_side(engine):
    got = engine.polars(book_heatmap(engine.frame(quiet(1)), interval="1m", block_size="0.1", max_depth=1))
    assert got.select("side", "price").rows() == [("ASK", 10.0), ("BID", 9.9)]


@pytest.mark.slow
def test_key_and_payload_are_those_of_the_schema(engine):
    got = engine.polars(book_heatmap(engine.frame(quiet(61)), interval="1m", block_size="0.1"))
    assert schema_of("BLOCK_BOOK_SNAPSHOT_AGG").key == tuple(KEY)
    assert schema_of("BLOCK_BOOK_SNAPSHOT_AGG").conform(got).height == got.height


def test_an_event_at_the_end_belongs_to_the_next_interval():
    got = book_heatmap(quiet(60), interval="1m", block_size="0.1").filter(price=9.0)
    assert got["timestamp"].to_list() == [MINUTE]


@pytest.mark.parametrize(
    ("seconds", "age", "expected"),
    [
        ([200], 300, [0, 1, 2, 3]),  # quiet minutes have the book that still stands
        ([1000], 300, [0, 1, 2, 3, 4, 16]),  # until it is too old to be believed
        ([1000], 301, [0, 1, 2, 3, 4, 16]),
        ([1000], 59, [16]),
        ([1000], 60, [0, 16]),
        ([1000], 0, [16]),  # the last interval is in progress
        ([59, 121], 30, [0, 2]),
        ([960], 3600, list(range(17))),
    ],
)
def test_a_stale_book_gives_no_rows(seconds, age, expected):
    assert minutes(quiet(*seconds), max_age=timedelta(seconds=age)) == expected


def test_nothing_before_the_first_snapshot():
    late = quiet(200).with_columns(
        timestamp=pl.when("is_snapshot").then(150 * SECOND).otherwise("timestamp"),
    )
    early = pl.DataFrame(
        [("E", "X", 10 * SECOND, 0, 0, False, "BID", 5.0, 1.0, 1, None)], schema=late.schema, orient="row"
    )
    assert minutes(pl.concat([early, late])) == [2, 3]


@pytest.mark.parametrize(
    ("seed", "interval", "step", "block_size", "max_depth", "age"),
    [
        (0, "1m", 60, "0.1", None, 45),
        (1, "1m", 60, "0.3", 2, 150),
        (2, "5m", 300, "0.2", 1, 300),
        (3, "1h", 3600, "0.5", 3, 300),
    ],
)
def test_equals_the_plain_loop(engine, seed, interval, step, block_size, max_depth, age):
    markets = streams["three_markets"](seed)
    got = book_heatmap(
        engine.frame(markets),
        interval=interval,
        block_size=block_size,
        max_depth=max_depth,
        max_age=timedelta(seconds=age),
    )
    expected = streams["heatmap"](
        markets, step=step * SECOND, block_size=block_size, max_depth=max_depth, max_age=age * SECOND
    )
    assert engine.polars(got).select(*KEY, "size").rows() == expected
    assert expected


@pytest.mark.slow
def test_the_order_of_the_rows_does_not_matter():
    markets = streams["three_markets"](3)
    arguments = {"interval": "1m", "block_size": "0.3", "max_depth": 2}
    expected = book_heatmap(markets, **arguments)
    for seed in range(5):
        shuffled = markets.sample(fraction=1, shuffle=True, seed=seed)
        assert_frame_equal(book_heatmap(shuffled, **arguments), expected, check_exact=True)


@pytest.mark.slow
def test_no_events_give_no_rows_but_all_columns(engine):
    got = engine.polars(book_heatmap(engine.frame(quiet().clear()), interval="1m", block_size=1))
    assert got.height == 0
    got = in_columns(got, [*KEY, "size"])


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"max_depth": 0}, "max_depth"),
        ({"max_age": timedelta(-1)}, "max_age"),
        ({"interval": "2x"}, "interval"),
        ({"block_size": 0}, "block_size"),
    ],
)
def test_wrong_arguments_are_named(arguments, parameter):
    with pytest.raises(QueryError) as caught:
        book_heatmap(quiet(), **{"interval": "1m", "block_size": 1} | arguments)
    assert caught.value.parameter == parameter


def test_a_missing_column_is_named(engine):
    with pytest.raises(MissingColumnError, match="last_id"):
        book_heatmap(engine.frame(quiet().drop("last_id")), interval="1m", block_size=1)
