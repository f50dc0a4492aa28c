"""States that are told several times for one time of the exchange, in one file and in several."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from lakes import empty_lake
from tidytape.errors import IngestError
from tidytape.lake import Batch
from tidytape.lake._tables import FUNDING, OPEN_INTEREST, QUOTE_RATES


def ticks(*rows):
    """Reports of open interest: (timestamp, amount, received)."""
    frame = pl.DataFrame(
        rows, schema={"timestamp": pl.Int64, "amount": pl.Float64, "received": pl.Int64}, orient="row"
    )
    return OPEN_INTEREST.conform(frame.with_columns(exchange=pl.lit("X"), raw_symbol=pl.lit("BTC-PERP")))


def stored(lake):
    return lake.scan("open_interest").sort("timestamp").select("timestamp", "amount").collect().rows()


def append(lake, *frames, source="a"):
    batch = Batch(OPEN_INTEREST)
    for frame in frames:
        batch.add(frame)
    return lake.writer().append("open_interest", batch, source=source)


def test_in_a_file_the_one_received_last_holds(lake):
    report = append(
        lake, ticks((1, 10.0, 100), (2, 11.0, 203), (2, 12.0, 201), (2, 13.0, 202), (3, 14.0, 300))
    )
    assert stored(lake) == [(1, 10.0), (2, 11.0), (3, 14.0)]
    assert (report.rows_read, report.rows_new, report.superseded, report.duplicates) == (5, 3, 2, 0)


def test_of_those_received_at_once_the_later_line_holds(lake):
    append(lake, ticks((2, 11.0, 200), (2, 12.0, 200)), ticks((2, 13.0, 200), (2, 9.0, None)))
    assert stored(lake) == [(2, 13.0)]  # a time of receipt beats none


def test_without_times_of_receipt_states_of_one_time_must_agree(lake):
    rates = pl.DataFrame({"quote_coin": "EUR", "timestamp": [1, 2, 2, 3], "usd": [1.0, 1.1, 1.2, 1.3]})
    with pytest.raises(
        IngestError, match=r"1 of 4 rows have the .*timestamp of another row.*which came last"
    ):
        lake.writer().append("quote_rates", rates, source="a")  # a table without times of receipt
    assert stored(lake) == []
    report = lake.writer().append("quote_rates", rates.filter(pl.col("usd") != 1.2), source="a")
    assert report.rows_new == 3
    with pytest.raises(IngestError, match="2 of 3 rows"):
        append(lake, ticks((1, 10.0, None), (1, 11.0, None), (1, 12.0, None)))
    append(lake, ticks((1, 10.0, None), (1, 10.0, None)))
    assert stored(lake) == [(1, 10.0)]


def test_markets_do_not_supersede_each_other(lake):
    both = pl.concat([ticks((1, 10.0, 1)), ticks((1, 20.0, 2)).with_columns(raw_symbol=pl.lit("ETH-PERP"))])
    assert append(lake, both).superseded == 0


def test_the_first_row_that_contradicts_the_lake_is_named(lake):
    """The first by its key: rows that are looked up come in any order."""
    rates = pl.DataFrame({"quote_coin": [f"Q{n:03}" for n in range(400)], "timestamp": 1, "usd": 1.0})
    lake.writer().append("quote_rates", rates, source="a")
    others = rates.with_columns(usd=2.0)
    for source, rows in enumerate(
        (others, others.reverse(), others.sample(fraction=1, shuffle=True, seed=1))
    ):
        with pytest.raises(
            IngestError,
            match=r"400 in all: quote_coin 'Q000', timestamp 1970-01-01T00:00:00\.000000001Z has usd 2\.0 and 1\.0",
        ):
            lake.writer().append("quote_rates", rows, source=str(source))


def test_a_state_that_comes_again_is_a_duplicate(lake):
    append(lake, ticks((1, 10.0, 1), (2, 11.0, 2)))
    report = append(lake, ticks((1, 10.0, 5), (2, 7.0, 6), (2, 11.0, 7), (3, 12.0, 8)), source="b")
    assert (report.rows_new, report.superseded, report.duplicates) == (1, 1, 2)


def test_between_files_a_contradiction_is_an_error(lake):
    append(lake, ticks((1, 10.0, 1), (2, 11.0, 2), (3, 12.0, 3)))
    version = lake.version()
    with pytest.raises(
        IngestError, match=r"open_interest: .*1 in all: .*000000002Z has amount 11\.5 and 11\.0"
    ):
        append(lake, ticks((1, 10.0, 1), (2, 11.5, 2), (3, 12.0, 3)), source="b")
    with pytest.raises(IngestError, match="000000002Z"):  # of a single time: nothing can have been cut
        append(lake, ticks((2, 11.5, 2)), source="c")
    assert lake.version() == version


def test_a_burst_cut_by_two_files_keeps_the_row_that_is_there(lake):
    append(lake, ticks((1, 10.0, 1), (2, 11.0, 2)))
    report = append(lake, ticks((2, 11.5, 3), (3, 12.0, 4)), source="b")
    assert (report.rows_new, report.superseded) == (1, 1)
    assert stored(lake) == [(1, 10.0), (2, 11.0), (3, 12.0)]
    # The other way round as well.
    append(lake, ticks((5, 15.0, 9), (6, 16.0, 10)), source="c")
    report = append(lake, ticks((4, 14.0, 7), (5, 14.5, 8)), source="d")
    assert (report.rows_new, report.superseded) == (1, 1)


def test_two_recorders_of_one_feed_agree(lake):
    feed = [(1, 10.0), (2, 11.0), (2, 12.0), (2, 13.0), (3, 14.0), (4, 15.0)]
    one = ticks(*((time, amount, at) for at, (time, amount) in enumerate(feed[:5])))
    other = ticks(*((time, amount, at + 7) for at, (time, amount) in enumerate(feed[2:], 2)))
    append(lake, one)
    append(lake, other, source="b")
    assert stored(lake) == [(1, 10.0), (2, 13.0), (3, 14.0), (4, 15.0)]


feeds = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 4).map(float), st.none() | st.integers(1, 5)),
    min_size=1,
    max_size=30,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(feed=feeds, size=st.integers(1, 9))
def test_the_parts_of_a_file_do_not_matter(tmp_path_factory, feed, size):
    lake = empty_lake(tmp_path_factory.mktemp("lake"))
    rows = ticks(*feed)
    parts = [rows[at : at + size] for at in range(0, rows.height, size)]
    of_none = {time: {n for t, n, _ in feed if t == time} for time, *_ in feed}
    received_times = {time for time, _, received in feed if received is not None}
    if any(len(amounts) > 1 for time, amounts in of_none.items() if time not in received_times):
        with pytest.raises(IngestError, match="which came last"):
            append(lake, *parts)
        return
    report = append(lake, *parts)
    want: dict[int, tuple[int, float]] = {}
    for time, amount, received in feed:  # a plain loop: later lines win unless they were received earlier
        if time not in want or (received or 0) >= want[time][0]:
            want[time] = (received or 0, amount)
    assert stored(lake) == [(time, amount) for time, (_, amount) in sorted(want.items())]
    assert report.rows_read == report.rows_new + report.superseded


def test_every_table_of_states_says_so():
    assert FUNDING.tells_states
    assert QUOTE_RATES.tells_states


@pytest.mark.slow
def test_random_ids_in_many_parts(lake, tape, monkeypatch):
    """Parts that all overlap, and runs of several parts: the same rows as in one piece."""
    monkeypatch.setattr("tidytape.lake._dedupe._AT_ONCE", 50)
    from tidytape.lake import TRADES

    shuffled = tape(0, 400).sample(fraction=1.0, shuffle=True, seed=3)
    twice = pl.concat([shuffled, shuffled[::7]])
    batch = Batch(TRADES)
    for at in range(0, twice.height, 23):
        batch.add(twice[at : at + 23])
    assert lake.writer().append("trades", tape(100, 200), source="before").rows_new == 100
    report = lake.writer().append("trades", batch, source="a")
    assert (report.rows_new, report.duplicates) == (300, twice.height - 300)
    assert_frame_equal(lake.scan("trades").collect().sort("sequence"), tape(0, 400))
    wrong = tape(390, 420).with_columns(price=pl.when(pl.col("sequence") == 395).then(1.0).otherwise("price"))
    with pytest.raises(IngestError, match="id '395'"):
        lake.writer().append("trades", wrong, source="b")
