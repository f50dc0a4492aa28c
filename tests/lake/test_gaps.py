"""Gaps of a lake: those of the events, whether they are read from events, minutes or files."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import Any

import polars as pl
import pytest

from tidytape.errors import QueryError
from tidytape.lake import Lake, hygiene
from tidytape.lake._tables import FUNDING, LIQUIDATIONS, RECORDED_CANDLES, TRADES
from tidytape.lake.rollup import rollup

MINUTE, HOUR = 60 * 10**9, 3_600 * 10**9
DAY = 24 * HOUR
BEGIN = 1_700_006_400 * 10**9  # on the hour
NAMES = {"exchange": "X", "raw_symbol": "BTCUSDT"}


def trades(times: list[int], symbol: str = "BTCUSDT") -> pl.DataFrame:
    frame = pl.DataFrame({"timestamp": times}).with_row_index("sequence").with_columns(
        exchange=pl.lit("X"), raw_symbol=pl.lit(symbol), id=pl.col("timestamp").cast(pl.String),
        side=pl.lit("BUY"), price=pl.lit(10.0), amount=pl.lit(1.0), quote_amount=pl.lit(10.0),
    )  # fmt: skip
    return TRADES.conform(frame)


def apart(times: list[int], quiet: int) -> list[tuple[int, int]]:
    """The gaps of times, by a plain loop."""
    return [(one, next_) for one, next_ in pairwise(sorted(times)) if next_ - one >= quiet]


def spans(row: dict[str, Any]) -> list[tuple[int, int]]:
    return list(zip(row["gap_starts"], row["gap_ends"], strict=True))


def only(frame: pl.DataFrame) -> dict[str, Any]:
    assert frame.height == 1
    return frame.row(0, named=True)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("minutes", [10, 90, 400])
def test_gaps_are_those_of_a_plain_loop(lake: Lake, seed: int, minutes: int) -> None:
    dice = random.Random(seed)
    times = sorted(
        {BEGIN + dice.randrange(3 * DAY) // HOUR * HOUR + dice.randrange(HOUR // 4) for _ in range(300)}
    )
    lake.writer().append("trades", trades(times[::2]), source="a")
    lake.writer().append("trades", trades(times[1::2]), source="b")
    quiet = timedelta(minutes=minutes)
    row = only(hygiene.gaps(lake, "trades", quiet=quiet))
    starts = sorted({time // MINUTE: time for time in times[::-1]}.values())
    ends = sorted({time // MINUTE: time for time in times}.values())
    usual = median(start - end for end, start in zip(ends, starts[1:], strict=False))
    assert row["quiet"] == max(minutes * MINUTE, int(usual * 20))
    expected = apart(times, row["quiet"])
    assert spans(row) == expected
    assert row["gaps"] == len(expected)
    assert row["longest_gap"] == max((end - start for start, end in expected), default=None)
    assert (row["rows"], row["first"], row["last"]) == (len(times), times[0], times[-1])
    assert row["gaps_from"] == "events"


def test_minutes_tell_the_same_gaps_as_events(lake: Lake) -> None:
    dice = random.Random(7)
    times = sorted(
        {BEGIN + dice.randrange(5 * DAY) // DAY * DAY + dice.randrange(9 * HOUR) for _ in range(4_000)}
    )
    lake.writer().append("trades", trades(times), source="a")
    exact = hygiene.gaps(lake, "trades")
    assert exact["gaps"].item() == len(apart(times, HOUR)) > 3
    rollup(lake, progress=False)
    fewer = hygiene.gaps(lake, "trades", most_rows=3_900)
    assert fewer["gaps_from"].item() == "minutes"
    assert fewer.drop("gaps_from").equals(exact.drop("gaps_from"))


def test_minutes_that_later_events_changed_are_no_gaps(lake: Lake) -> None:
    first = [BEGIN + second * 10 * 10**9 for second in range(360)]  # an hour
    last = [time + 10 * HOUR for time in first]
    lake.writer().append("trades", trades(first + last), source="a")
    rollup(lake, progress=False)
    most_rows = 130  # fewer than events, more than minutes
    before = only(hygiene.gaps(lake, "trades", most_rows=most_rows))
    assert (before["gaps"], before["gaps_from"]) == (1, "minutes")
    between = [first[-1] + second * 10**10 for second in range(1, 3_250)]
    lake.writer().append("trades", trades(between), source="late")
    after = [last[-1] + second * 10**10 for second in range(1, 700)]
    lake.writer().append("trades", trades(after), source="new")
    row = only(hygiene.gaps(lake, "trades", most_rows=most_rows))
    assert (row["gaps"], row["gaps_from"], row["last"]) == (0, "minutes", after[-1])


def test_files_tell_the_gaps_between_them(lake: Lake) -> None:
    for hour in (0, 1, 5):
        start = BEGIN + hour * HOUR
        lake.writer().append("trades", trades([start + n * MINUTE for n in range(60)]), source=f"{hour}")
    row = only(hygiene.gaps(lake, "trades", most_rows=0))
    assert row["gaps_from"] == "files"
    assert spans(row) == [(BEGIN + 2 * HOUR - MINUTE, BEGIN + 5 * HOUR)]


def test_a_missing_candle_is_a_gap_from_an_hour_on(lake: Lake) -> None:
    def candles(times: list[int], interval: int, symbol: str) -> pl.DataFrame:
        one = {"exchange": "X", "raw_symbol": symbol, "timestamp": times, "interval": interval}
        return RECORDED_CANDLES.conform(
            pl.DataFrame(one | dict.fromkeys(("open", "high", "low", "close"), 1.0))
        )

    days = [BEGIN + day * DAY for day in (0, 1, 2, 4)]
    lake.writer().append("candles", candles(days, DAY, "DAILY"), source="a")
    minutes = [
        BEGIN + minute * MINUTE for minute in range(300) if not 20 <= minute < 50 and not 100 <= minute < 160
    ]
    lake.writer().append("candles", candles(minutes, MINUTE, "MINUTELY"), source="b")
    daily, minutely = hygiene.gaps(lake, "candles").iter_rows(named=True)
    assert spans(daily) == [(days[2] + DAY, days[3])]
    assert spans(minutely) == [(BEGIN + 100 * MINUTE, BEGIN + 160 * MINUTE)]


def test_a_settlement_that_is_left_out_is_a_gap(lake: Lake) -> None:
    times = [BEGIN + n * 8 * HOUR + n for n in range(12) if n != 7]
    lake.writer().append(
        "funding", FUNDING.conform(pl.DataFrame(NAMES | {"timestamp": times, "rate": 1e-4})), source="a"
    )
    row = only(hygiene.gaps(lake, "funding"))
    assert spans(row) == [(times[6], times[7])]
    assert row["quiet"] == pytest.approx(12 * HOUR, rel=1e-6)


def test_liquidations_have_no_gaps(lake: Lake) -> None:
    rows = {"id": ["a", "b"], "timestamp": [BEGIN, BEGIN + DAY], "sequence": [1, 2], "side": "BUY"}
    amounts = {"price": 1.0, "amount": 1.0, "quote_amount": 1.0}
    lake.writer().append(
        "liquidations", LIQUIDATIONS.conform(pl.DataFrame(NAMES | rows | amounts)), source="a"
    )
    row = only(hygiene.gaps(lake, "liquidations"))
    assert (row["rows"], row["gaps"], row["gaps_from"]) == (2, None, None)


def test_markets_do_not_mix(lake: Lake) -> None:
    lake.writer().append("trades", trades([BEGIN, BEGIN + MINUTE], "A"), source="a")
    times = [BEGIN + DAY + minute * MINUTE for minute in (0, 1, 2, 122)]
    lake.writer().append("trades", trades(times, "B"), source="b")
    frame = hygiene.gaps(lake, "trades", quiet=timedelta(hours=1))
    assert frame.select("raw_symbol", "gaps").rows() == [("A", 0), ("B", 1)]


@pytest.mark.parametrize("table", ["markets", "prediction_markets", "trade", "candles_1m"])
def test_only_events_have_gaps(lake: Lake, table: str) -> None:
    with pytest.raises(QueryError, match="table: got"):
        hygiene.gaps(lake, table)


def test_a_length_of_zero_is_no_gap(lake: Lake) -> None:
    with pytest.raises(QueryError, match="quiet: got"):
        hygiene.gaps(lake, "trades", quiet=timedelta(0))
