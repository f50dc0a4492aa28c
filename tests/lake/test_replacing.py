"""States that replace those of the lake: the last candle, all with ``replace``, and values that fill nulls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from lakes import empty_lake
from tidytape import Client
from tidytape.errors import IngestError
from tidytape.lake import Batch, Lake
from tidytape.lake._tables import FUNDING, OPEN_INTEREST, OPTION_QUOTES, RECORDED_CANDLES, Table
from tidytape.lake.hygiene import check, compact
from tidytape.lake.ingest import Csv, Market, ingest, ingest_frame
from tidytape.lake.rollup import rollup

DAY = 86_400 * 10**9
MINUTE = 60 * 10**9
T0 = 19_943 * DAY  # 2024-08-08

Rows = dict[int, float]
"""The close of each candle by its number."""


def candles(rows: Rows, *, symbol: str = "BTC-USD", interval: int = DAY) -> pl.DataFrame:
    closes = list(rows.values())
    return RECORDED_CANDLES.conform(
        pl.DataFrame(
            {
                "timestamp": [T0 + number * interval for number in rows], "interval": interval,
                "open": 1.0, "high": 100.0, "low": 1.0, "close": closes, "volume": closes,
            }
        ).with_columns(exchange=pl.lit("X"), raw_symbol=pl.lit(symbol))
    )  # fmt: skip


def interest(rows: Rows, **columns: Any) -> pl.DataFrame:
    frame = pl.DataFrame({"timestamp": [T0 + at * MINUTE for at in rows], "amount": list(rows.values())})
    return OPEN_INTEREST.conform(
        frame.with_columns(exchange=pl.lit("X"), raw_symbol=pl.lit("BTC-PERP"), **columns)
    )


def funding(rows: Rows, **columns: Any) -> pl.DataFrame:
    frame = pl.DataFrame({"timestamp": [T0 + at * MINUTE for at in rows], "rate": list(rows.values())})
    columns = {name: pl.lit(value) for name, value in columns.items()}
    return FUNDING.conform(frame.with_columns(exchange=pl.lit("X"), raw_symbol=pl.lit("BTC-PERP"), **columns))


def stored(lake: Lake, table: Table, *names: str) -> list[Any]:
    frame = lake.scan(table.name).sort(table.key).collect()
    return frame.select(names).rows() if len(names) > 1 else frame[names[0]].to_list()


def closes(lake: Lake) -> Rows:
    return {(at - T0) // DAY: close for at, close in stored(lake, RECORDED_CANDLES, "timestamp", "close")}


# --- the last candle ---


downloads = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 5), st.lists(st.integers(1, 3).map(float), min_size=5, max_size=5)),
    min_size=1,
    max_size=6,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(files=downloads, replace=st.booleans(), size=st.integers(1, 5))
def test_any_files_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[int, int, list[float]]],
    replace: bool,  # noqa: FBT001
    size: int,
) -> None:
    """A plain loop: the lake keeps its row, except for its last one if the file goes on past it, or with replace."""
    lake = empty_lake(tmp_path_factory.mktemp("lake"))
    want: Rows = {}
    for number, (first, length, values) in enumerate(files):
        file = {first + n: values[n] for n in range(length)}
        last = max(want, default=-1)
        differing = {at for at in file if at in want and want[at] != file[at]}
        replaced = {at for at in differing if replace or (at == last and max(file) > at)}
        ends = {min(file), max(file)} if length > 1 else set()
        refused = differing - replaced - ends
        batch = Batch(RECORDED_CANDLES)
        for at in range(0, length, size):
            batch.add(candles(file)[at : at + size])
        version = lake.version()
        if refused:
            with pytest.raises(IngestError, match=rf"candles: .* {len(refused)} in all: .*replace=True"):
                lake.writer().append("candles", batch, source=str(number), replace=replace)
            assert lake.version() == version
            continue
        report = lake.writer().append("candles", batch, source=str(number), replace=replace)
        assert report.replaced == len(replaced)
        assert report.superseded == len(differing - replaced)
        assert report.rows_new == len(file.keys() - want.keys())
        assert report.duplicates == length - len(differing) - report.rows_new
        want |= {at: close for at, close in file.items() if at not in want or at in replaced}
        assert closes(lake) == want
    assert lake.scan("candles").collect().height == len(want)


def growing(first: int, last: int) -> Rows:
    """Return a download: candles whose close is 10 once they are over; the last one is still open."""
    return dict.fromkeys(range(first, last), 10.0) | {last: 3.0}


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [1, 3, 9])
def test_daily_downloads_end_in_the_candles_of_the_last_one(lake: Lake, overlap: int) -> None:
    for day in range(1, 9):
        file = growing(max(0, day - overlap), day)
        lake.writer().append("candles", candles(file), source=str(day))
        assert closes(lake) == growing(0, day)


def test_each_market_and_length_has_its_last_candle(lake: Lake) -> None:
    minutes = candles({0: 5.0, 5_000: 5.0}, interval=MINUTE)
    other = candles({0: 3.0, 4: 4.0}, symbol="ETH-USD")
    lake.writer().append("candles", pl.concat([candles({0: 1.0, 1: 3.0}), minutes, other]), source="a")
    file = pl.concat([candles({0: 1.0, 1: 10.0, 2: 3.0}), candles({0: 9.0, 4: 4.0}, symbol="ETH-USD")])
    report = lake.writer().append("candles", file, source="b")
    assert (report.replaced, report.rows_new, report.superseded) == (1, 1, 1)
    rows = lake.scan("candles", raw_symbol="BTC-USD").filter(pl.col("interval") == DAY).sort("timestamp")
    assert rows.collect()["close"].to_list() == [1.0, 10.0, 3.0]
    assert lake.scan("candles").filter(pl.col("interval") == MINUTE).collect().height == 2


@pytest.mark.slow
def test_the_cases_of_daily_downloads(lake: Lake, tmp_path: Path) -> None:
    """The values of the cases, by hand."""
    head = "timestamp,open,high,low,close,volume\n"
    old = ["2024-08-06T00:00:00Z,100,110,90,105,10\n", "2024-08-07T00:00:00Z,105,115,95,110,20\n"]
    new = ["2024-08-08T00:00:00Z,110,130,100,125,33\n", "2024-08-09T00:00:00Z,125,126,124,125,2\n"]
    files = {
        "1": head + "".join(old) + "2024-08-08T00:00:00Z,110,112,108,111,3\n",
        "2b": head + "".join(new),
        "2": head + "".join(old + new),
    }
    for order in (["1", "2", "2b"], ["1", "2b", "2"], ["2", "1"]):
        lake = empty_lake(tmp_path / "".join(order))
        replaced = []
        for name in order:
            path = tmp_path / f"{name}.csv"
            path.write_text(files[name])
            layout, market = Csv(table="candles", interval="1d"), Market(exchange="X", raw_symbol="BTC-USD")
            report = ingest(path, lake, layout, market=market)
            replaced.append(report.count(RECORDED_CANDLES).replaced)
            assert ("1 replaced in the lake" in str(report)) == (replaced[-1] == 1)
        assert sum(replaced) == (order[0] == "1")
        rows = stored(lake, RECORDED_CANDLES, "high", "low", "close", "volume")
        assert rows[2:] == [(130.0, 100.0, 125.0, 33.0), (126.0, 124.0, 125.0, 2.0)]
        assert len(rows) == 4


# --- replace ---


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    before=st.dictionaries(st.integers(0, 300), st.integers(1, 9).map(float), min_size=1),
    file=st.dictionaries(st.integers(0, 300), st.integers(1, 9).map(float), min_size=1),
    is_rolled_up=st.booleans(),
)
def test_with_replace_a_lake_is_that_of_the_last_values(
    tmp_path_factory: pytest.TempPathFactory,
    before: Rows,
    file: Rows,
    is_rolled_up: bool,  # noqa: FBT001
) -> None:
    """Rows, minutes and answers equal those of a lake that never had other values."""
    lakes = [empty_lake(tmp_path_factory.mktemp("lake")) for _ in range(2)]
    for table, make in ((OPEN_INTEREST, interest), (FUNDING, funding)):
        columns = {"funding_interval": 8 * 60 * MINUTE} if table is FUNDING else {}
        lakes[0].writer().append(table.name, make(before, **columns), source="before")
        if is_rolled_up:
            rollup(lakes[0])
        report = lakes[0].writer().append(table.name, make(file, **columns), source="file", replace=True)
        assert report.replaced == sum(before.get(at, value) != value for at, value in file.items())
        lakes[1].writer().append(table.name, make(before | file, **columns), source="both")
    markets = pl.DataFrame({"exchange": "X", "raw_symbol": "BTC-PERP", "coin": "BTC", "quote_coin": "USD"})
    answers = []
    for lake in lakes:
        lake.writer().register(markets)
        if is_rolled_up:
            rollup(lake)
        with Client.local(lake.path, progress=False) as client:
            window = {
                "exchange": "X",
                "raw_symbol": "BTC-PERP",
                "start": T0 // 10**9,
                "end": T0 // 10**9 + 86_400,
            }
            answers.append(
                [client.open_interest(interval="5m", **window), client.funding(interval="5m", **window)]
            )
        for table in (OPEN_INTEREST, FUNDING):
            answers[-1].append(lake.scan(table.name).sort(table.key).collect())
    for one, other in zip(*answers, strict=True):
        assert_frame_equal(one, other)
    assert check(lakes[0]).sound


def test_a_reader_of_an_older_version_reads_the_older_rows(lake: Lake) -> None:
    lake.writer().append("open_interest", interest({0: 1.0, 1: 2.0, 2: 3.0}), source="a")
    moment, versions = lake.now(), lake.version()
    moment.version()
    lake.writer().append("open_interest", interest({1: 9.0}), source="b", replace=True)
    assert stored(lake, OPEN_INTEREST, "amount") == [1.0, 9.0, 3.0]
    assert lake.at(versions).scan("open_interest").sort("timestamp").collect()["amount"].to_list() == [
        1,
        2,
        3,
    ]
    compact(lake)
    assert stored(lake, OPEN_INTEREST, "amount") == [1.0, 9.0, 3.0]


def test_a_file_that_the_lake_has_replaces_again(lake: Lake) -> None:
    for source, amount in (("a", 1.0), ("b", 2.0), ("a", 1.0)):
        lake.writer().append("open_interest", interest({0: amount, 1: 5.0}), source=source, replace=True)
        assert stored(lake, OPEN_INTEREST, "amount") == [amount, 5.0]


def test_rows_of_other_markets_and_files_stay(lake: Lake) -> None:
    quotes = pl.DataFrame(
        {
            "exchange": "X", "raw_symbol": ["A", "B"], "timestamp": [T0, T0], "coin": ["BTC", "ETH"],
            "option_type": "CALL", "strike": 5.0, "expiry": T0 + DAY, "implied_volatility": [50.0, 60.0],
        }
    )  # fmt: skip
    lake.writer().append("option_quotes", OPTION_QUOTES.conform(quotes), source="a")
    new = quotes.filter(pl.col("coin") == "BTC").with_columns(implied_volatility=55.0)
    with pytest.raises(IngestError, match=r"1 in all: X A, .* 2024-08-08T00:00:00Z has .* 55\.0 and 50\.0"):
        lake.writer().append("option_quotes", OPTION_QUOTES.conform(new), source="b")
    report = lake.writer().append("option_quotes", OPTION_QUOTES.conform(new), source="b", replace=True)
    assert (report.replaced, report.rows_new) == (1, 0)
    assert stored(lake, OPTION_QUOTES, "raw_symbol", "implied_volatility") == [("A", 55.0), ("B", 60.0)]


def test_trades_are_events_and_are_never_replaced(lake: Lake, tape: Any) -> None:
    lake.writer().append("trades", tape(0, 5), source="a")
    other = tape(3, 7).with_columns(price=1.0)
    with pytest.raises(IngestError, match="id '3'") as caught:
        lake.writer().append("trades", other, source="b", replace=True)
    assert "replace" not in str(caught.value)


@pytest.mark.slow
def test_a_client_that_stays_open_sees_what_was_replaced(lake: Lake) -> None:
    markets = pl.DataFrame({"exchange": "X", "raw_symbol": "BTC-USD", "coin": "BTC", "quote_coin": "USD"})
    lake.writer().register(pl.concat([markets, markets.with_columns(raw_symbol=pl.lit("BTC-PERP"))]))
    window = {"exchange": "X", "start": T0 // 10**9, "end": T0 // 10**9 + 9 * 86_400}
    with Client.local(lake.path, progress=False) as client:
        for day in range(1, 6):
            lake.writer().append("candles", candles(growing(max(0, day - 2), day)), source=f"candles {day}")
            rows = interest({0: 1.0, 1: float(day), 2: 3.0, 3: 4.0})
            lake.writer().append("open_interest", rows, source=f"interest {day}", replace=True)
            rollup(lake)
            answer = client.candles(raw_symbol="BTC-USD", interval="1d", **window)
            assert answer["close"].to_list() == list(growing(0, day).values())
            answer = client.open_interest(raw_symbol="BTC-PERP", interval="1m", **window)
            assert answer["close"].to_list() == [1.0, day, 3.0, 4.0]


# --- nulls ---


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    first=st.lists(st.tuples(st.none() | st.just(1), st.none() | st.just(2)), min_size=3, max_size=3),
    then=st.lists(st.tuples(st.none() | st.just(1), st.none() | st.just(2)), min_size=3, max_size=3),
)
def test_a_value_fills_a_null_and_no_null_a_value(
    tmp_path_factory: pytest.TempPathFactory, first: list[Any], then: list[Any]
) -> None:
    lake = empty_lake(tmp_path_factory.mktemp("lake"))

    def reports(rows: list[Any]) -> pl.DataFrame:
        lengths, next_times = zip(*rows, strict=True)
        return funding({0: 0.1, 1: 0.2, 2: 0.3}).with_columns(
            funding_interval=pl.Series(lengths, dtype=pl.Int64),
            next_funding=pl.Series(next_times, dtype=pl.Int64),
        )

    lake.writer().append("funding", reports(first), source="first")
    report = lake.writer().append("funding", reports(then), source="then")
    want = [(a[0] or b[0], a[1] or b[1]) for a, b in zip(first, then, strict=True)]
    assert stored(lake, FUNDING, "funding_interval", "next_funding") == want
    assert stored(lake, FUNDING, "rate") == [0.1, 0.2, 0.3]
    assert report.replaced == sum(a != b for a, b in zip(first, want, strict=True))
    assert report.rows_new == 0


def test_a_lake_without_funding_intervals_is_mended_without_the_files(lake: Lake) -> None:
    lake.writer().append("funding", funding({0: 0.1, 1: 0.2}), source="a")
    rows = lake.scan("funding").collect()
    report = ingest_frame(
        rows,
        lake,
        table="funding",
        time_unit="ns",
        rate_unit="fraction",
        market=Market(funding_interval="8h"),
    )
    assert report.count(FUNDING).replaced == 2
    assert stored(lake, FUNDING, "funding_interval") == [8 * 60 * MINUTE] * 2
    assert stored(lake, FUNDING, "rate") == [0.1, 0.2]
