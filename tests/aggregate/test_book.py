"""Runs and the books made of them: literal values, plain loops on random streams, recorded logs."""

from __future__ import annotations

import gzip
import json
import runpy
from pathlib import Path

import narwhals.stable.v2 as nw
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lakes import empty_lake
from tables import in_columns
from tidytape.aggregate import book_at, book_runs
from tidytape.errors import MissingColumnError, QueryError

streams = runpy.run_path(str(Path(__file__).parent / "test_book_streams.py"))
WHOSE = ["exchange", "raw_symbol"]
LOGS = [
    ("binance-spot_ws_btcusdt_20240808.gz", "BTCUSDT", 564),
    ("binance-spot_ws_ethusdt_20240808.gz", "ETHUSDT", 577),
    ("binance-usdm_ws_btcusdt_20240808.gz", "BTCUSDT", 629),
]


def events(*rows):
    """(time, last id, is_snapshot, side, price, size) each, in the order they arrived."""
    return pl.DataFrame(
        [
            ("E", "X", time, None, last, snapshot, side, price, size, number, None)
            for number, (time, last, snapshot, side, price, size) in enumerate(rows)
        ],
        schema=streams["SCHEMA"],
        orient="row",
    )


def instants(frame, by):
    """Every instant of the events, as a frame of the same engine and connection."""
    return nw.from_native(frame).select(*WHOSE, by).unique().to_native()


RUN = ["side", "price", "since_id", "until_id", "since", "until", "size"]


def test_literal_runs(engine):
    frame = events(
        (50, 5, False, "BID", 9.0, 7.0),  # below the snapshot: in it already
        (90, 12, False, "BID", 9.0, 3.0),  # arrived before the snapshot and straddles it
        (95, 10, True, "BID", 9.0, 1.0),
        (95, 10, True, "ASK", 11.0, 2.0),
        (97, 13, False, "ASK", 11.0, 0.0),
        (99, 20, True, "BID", 9.0, 3.0),
    )
    assert engine.polars(book_runs(engine.frame(frame))).select(RUN).rows() == [
        # side, price, ids, times, size; the snapshot counts from the update that follows it, its clock is ahead
        ("ASK", 11.0, 10, 13, 90, 97, 2.0),
        ("BID", 9.0, 10, 12, 90, 90, 1.0),
        ("BID", 9.0, 12, 20, 90, 99, 3.0),
        ("BID", 9.0, 20, None, 99, None, 3.0),
    ]


def test_an_update_of_the_snapshots_own_id_is_in_it(engine):
    frame = events(
        (10, 7, True, "BID", 9.0, 1.0), (9, 7, False, "BID", 9.0, 5.0), (9, 7, False, "BID", 8.0, 5.0)
    )
    assert engine.polars(book_runs(engine.frame(frame)))["size"].to_list() == [1.0]


def test_a_snapshot_whose_clock_is_behind_counts_from_the_update_before_it():
    frame = events(
        (100, 5, False, "BID", 9.0, 1.0), (40, 6, True, "BID", 9.0, 2.0), (110, 7, False, "ASK", 9.5, 1.0)
    )
    assert book_runs(frame).filter(side="BID")["since"].to_list() == [100]


def test_without_ids_the_order_is_that_of_time_and_sequence(engine):
    frame = events(
        (10, None, False, "BID", 9.0, 5.0),
        (10, None, True, "BID", 9.0, 1.0),
        (10, None, True, "ASK", 9.5, 1.0),
        (10, None, False, "BID", 9.0, 2.0),  # of the snapshot's time, after it
        (30, None, False, "BID", 9.0, 0.0),
    )
    got = engine.polars(book_runs(engine.frame(frame.reverse())))
    assert got.select(RUN).rows() == [
        ("ASK", 9.5, None, None, 10, None, 1.0),
        ("BID", 9.0, None, None, 10, 30, 2.0),
    ]


def test_a_crossed_book_is_kept(engine):
    frame = events((1, 1, True, "BID", 10.0, 1.0), (1, 1, True, "ASK", 9.0, 2.0))
    runs = engine.polars(book_runs(engine.frame(frame)))
    assert runs.select("side", "price", "size").rows() == [("ASK", 9.0, 2.0), ("BID", 10.0, 1.0)]


def test_nanoseconds_survive_pandas():
    time = 1_723_161_254_206_652_067
    frame = events((time, 1, True, "BID", 9.0, 1.0), (time + 1, 2, False, "BID", 9.0, 2.0))
    got = book_runs(frame.to_pandas())
    assert got["until"].to_list() == [time + 1, pd.NA]
    assert got.dtypes[["since", "until", "until_id"]].astype(str).to_list() == ["int64", "Int64", "Int64"]


def levels(rows):
    return {(row["side"], row["price"]): row["size"] for row in rows}


def books(frame, by):
    """Market and instant -> levels."""
    found = {}
    for row in frame.to_dicts():
        found.setdefault((row["exchange"], row["raw_symbol"], row[by]), []).append(row)
    assert all(len(levels(rows)) == len(rows) for rows in found.values())  # each price once
    return {key: levels(rows) for key, rows in found.items()}


@pytest.mark.parametrize("seed", range(3))
def test_books_by_id_equal_the_plain_loop(engine, seed):
    markets = streams["three_markets"](seed).filter(pl.col("raw_symbol") != "N")
    frame = engine.frame(markets)
    got = engine.polars(book_at(book_runs(frame), instants(frame, "last_id"), by="last_id"))
    expected = {
        (*market, last): book
        for market, rows in streams["by_market"](markets).items()
        for last in {row["last_id"] for row in rows}
        if (book := streams["book_by_id"](rows, last))
    }
    assert len(expected) > 50
    assert books(got, "last_id") == expected


@pytest.mark.parametrize("seed", range(3))
def test_books_by_time_equal_the_plain_loop(engine, seed):
    markets = streams["three_markets"](seed)
    frame = engine.frame(markets)
    got = engine.polars(book_at(book_runs(frame), instants(frame, "timestamp")))
    expected = {
        (*market, time): book
        for market, rows in streams["by_market"](markets).items()
        for told in [streams["history"](rows)]
        for time in {row["timestamp"] for row in rows}
        if (book := streams["book_by_time"](told, time))
    }
    assert len(expected) > 50
    assert books(got, "timestamp") == expected


def test_every_engine_gives_the_same_frame_whatever_the_order_of_the_rows(engine):
    markets = streams["three_markets"](11)
    expected = book_runs(markets)
    for seed in range(3):
        shuffled = markets.sample(fraction=1, shuffle=True, seed=seed)
        got = engine.polars(book_runs(engine.frame(shuffled)))
        assert_frame_equal(got, expected)


def test_runs_of_a_price_do_not_overlap():
    runs = book_runs(streams["three_markets"](5))
    key = [*WHOSE, "side", "price"]
    ends = runs.sort(*key, "since", "since_id").select(
        *key, "until", following=pl.col("since").shift(-1).over(key)
    )
    assert (runs["size"] > 0).all()
    assert ends.filter(pl.col("until") > pl.col("following")).is_empty()
    assert ends.filter(pl.col("until").is_null() & pl.col("following").is_not_null()).is_empty()


def test_instants_keep_their_columns(engine):
    runs = book_runs(engine.frame(events((1, 1, True, "BID", 10.0, 1.0), (5, 2, False, "BID", 10.0, 2.0))))
    named = nw.from_native(runs).select(*WHOSE, nw.col("since").alias("timestamp"), label=nw.col("size") * 10)
    got = engine.polars(book_at(runs, named.to_native()))
    got = in_columns(got, [*WHOSE, "timestamp", "label", "side", "price", "size"])
    assert got.sort("timestamp").select("timestamp", "label", "size").rows() == [
        (1, 10.0, 1.0),
        (5, 20.0, 2.0),
    ]


def test_no_events_give_no_runs_but_all_columns(engine):
    markets = streams["three_markets"](1)
    got = engine.polars(book_runs(engine.frame(markets.clear())))
    assert got.height == 0
    assert got.columns == book_runs(markets).columns


def test_nothing_is_known_before_a_snapshot(engine):
    frame = engine.frame(events((1, 1, False, "BID", 10.0, 1.0), (2, 2, False, "ASK", 11.0, 1.0)))
    assert engine.polars(book_runs(frame)).height == 0


def test_wrong_arguments_are_named():
    runs = book_runs(streams["three_markets"](1))
    with pytest.raises(QueryError, match="by: got 'id'"):
        book_at(runs, runs, by="id")
    with pytest.raises(MissingColumnError, match="timestamp"):
        book_at(runs, runs.select(WHOSE))
    with pytest.raises(MissingColumnError, match="is_snapshot"):
        book_runs(streams["three_markets"](1).drop("is_snapshot"))


def tickers(path):
    """Best bid and ask of every bookTicker of a log: update id -> bid, its size, ask, its size."""
    found = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            message = json.loads(line.split(" ", 1)[1])
            if message.get("stream", "").endswith("@bookTicker"):
                data = message["data"]
                found[data["u"]] = tuple(float(data[name]) for name in "bBaA")
    return found


@pytest.mark.long
@pytest.mark.parametrize(("name", "symbol", "shared"), LOGS)
def test_recorded_books_equal_the_tickers(recorded, tmp_path, name, symbol, shared):
    from ingested import ingest

    lake = empty_lake(tmp_path / "lake")
    ingest(recorded / name, lake, layout="binance-ws", exchange="BINANCE")
    frame = lake.scan("book", exchange="BINANCE", raw_symbol=symbol)
    told = tickers(recorded / name)
    snapshot = frame.filter("is_snapshot").select(pl.col("last_id").max())
    ids = frame.select(*WHOSE, "last_id").unique().collect()
    both = ids.filter(pl.col("last_id").is_in(list(told)), pl.col("last_id") > snapshot.collect().item())
    assert both.height == shared

    books = book_at(book_runs(frame), both.lazy(), by="last_id")
    bids, asks = (books.filter(pl.col("side") == side).sort("price") for side in ("BID", "ASK"))
    best = (
        bids.group_by("last_id").agg(bid=pl.col("price").last(), bid_size=pl.col("size").last())
        .join(asks.group_by("last_id").agg(ask=pl.col("price").first(), ask_size=pl.col("size").first()), on="last_id")
        .collect(engine="streaming")
    )  # fmt: skip
    assert {last: tuple(row) for last, *row in best.rows()} == {last: told[last] for last in both["last_id"]}


@pytest.mark.long
@pytest.mark.parametrize(("name", "symbol", "shared"), LOGS)
def test_recorded_books_never_cross(recorded, tmp_path, name, symbol, shared):
    from ingested import ingest

    lake = empty_lake(tmp_path / "lake")
    ingest(recorded / name, lake, layout="binance-ws", exchange="BINANCE")
    frame = lake.scan("book", exchange="BINANCE", raw_symbol=symbol).collect()
    runs = book_runs(frame)
    bid, price = pl.col("side") == "BID", pl.col("price")
    # Only bids that are as high as some ask ever was can cross, and asks as low as some bid.
    highest = runs.filter(bid)["price"].max()
    lowest = runs.filter(~bid)["price"].min()
    met = runs.filter(pl.when(bid).then(price >= lowest).otherwise(price <= highest))
    books = book_at(met, frame.select(*WHOSE, "last_id").unique(), by="last_id")
    best = books.group_by("last_id").agg(bid=price.filter(bid).max(), ask=price.filter(~bid).min())
    assert best.drop_nulls().height > shared
    assert best.filter(pl.col("bid") >= pl.col("ask")).is_empty()
