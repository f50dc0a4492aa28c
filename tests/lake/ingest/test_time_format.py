"""Times as a format says: the oracle is Python's own reading of it."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingested import ingest
from lakes import empty_lake
from tables import each_row
from tidytape.errors import IngestError, QueryError
from tidytape.lake.ingest._time import nanoseconds, written_as

FORMATS = [
    "%d-%m-%Y",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S.%f",
    "%d.%m.%y %H:%M",
    "%B %d, %Y %I:%M:%S %p",
    "%d %b %Y %H:%M:%S %z",
    "%Y%m%d%H%M%S",
    "%dth of %m (%Y) at 100%% [%H:%M]",
]


def ns(text: str, written: str) -> int | None:
    found: int | None = pl.DataFrame({"t": [text]}).select(nanoseconds(pl.col("t"), written))["t"][0]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("written", FORMATS)
@given(
    seconds=st.integers(946_684_800, 3_124_137_599), micro=st.integers(0, 999_999)
)  # to 2068, for two digits
def test_it_is_read_as_python_reads_it(written: str, seconds: int, micro: int) -> None:
    assert written_as(None, written) == written
    text = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micro).strftime(written)
    read = datetime.strptime(text, written).replace(tzinfo=UTC)
    expected = int(read.replace(microsecond=0).timestamp()) * 10**9 + read.microsecond * 1000
    assert ns(text, written) == expected


@each_row(
    ("text", "written"),
    [
        ("12/31/2023 10:00:00", "%d/%m/%Y %H:%M:%S"),
        ("31/12/2023", "%d/%m/%Y %H:%M:%S"),
        ("31/12/2023 10:00:00 and more", "%d/%m/%Y %H:%M:%S"),
        ("31-12-2023", "%d/%m/%Y"),
        ("30/02/2023", "%d/%m/%Y"),
        ("31/12/23", "%d/%m/%Y"),
        ("31/12/2607", "%d/%m/%Y"),  # more nanoseconds than 64 bits hold
        ("31/12/1999", "%d/%m/%Y"),
        ("31/12/2023 24:00", "%d/%m/%Y %H:%M"),
        ("31/12/2023 10:60", "%d/%m/%Y %H:%M"),
        ("31/12/2023 13:00 PM", "%d/%m/%Y %I:%M %p"),
        ("31 Foo 2023", "%d %b %Y"),
        ("31x12x2023", "%d.%m.%Y"),
    ],
)
def test_what_is_not_in_the_format_is_no_time(text: str, written: str) -> None:
    assert ns(text, written) is None


def test_a_fraction_is_digits_after_the_point_and_noon_is_twelve_pm() -> None:
    day = 1_703_980_800 * 10**9
    assert ns("31-12-2023 00:00:00.5", "%d-%m-%Y %H:%M:%S.%f") == day + 500_000_000
    assert ns("31-12-2023 00:00:00.000000001", "%d-%m-%Y %H:%M:%S.%f") == day + 1
    assert ns("31-12-2023 12:00 am", "%d-%m-%Y %I:%M %p") == day
    assert ns("31-12-2023 12:00 PM", "%d-%m-%Y %I:%M %p") == day + 12 * 3600 * 10**9
    assert ns("31-12-2023 02:00 +02:00", "%d-%m-%Y %H:%M %z") == day


@each_row(
    ("written", "expected"),
    [
        ("%d/%m %H:%M", "one of %Y, %y, to tell the year"),
        ("%Y %y %m %d", "one of %Y, %y, to tell the year"),
        ("%d/%Y", "one of %m, %b, %B, to tell the month"),
        ("%m/%Y", "one of %d, to tell the day"),
        ("%d/%m/%Y %M", "one of %H, %I, to tell the hour"),
        ("%d/%m/%Y %I:%M", "%I and %p together"),
        ("%d/%m/%Y %H:%S", "%M where there is %S"),
        ("%d/%m/%Y %H:%M:%f", "%S where there is %f"),
        ("%d/%d/%Y", "%d once"),
        ("%x %H:%M", "no directives but %Y"),
        ("%d/%m/%Y %", "no directives but %Y"),
        ("", "one of %Y, %y"),
    ],
)
def test_a_format_that_tells_no_time_is_refused(written: str, expected: str) -> None:
    with pytest.raises(QueryError, match="time_format: got ") as caught:
        written_as(None, written)
    assert expected in str(caught.value)


def test_it_is_said_instead_of_a_unit() -> None:
    with pytest.raises(QueryError, match="time_format: got '%d-%m-%Y', expected nothing, for time_unit says"):
        written_as("ms", "%d-%m-%Y")
    with pytest.raises(QueryError, match=r"time_unit: got 'dd-mm-yyyy', .*; time_format says any other way"):
        written_as("dd-mm-yyyy", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "head", "row"),
    [("trades", "time,price,amount,side", "1.5,2,buy"), ("funding", "time,rate", "0.0001")],
)
def test_days_are_never_guessed(tmp_path, table, head, row):
    path, lake = tmp_path / "a.csv", empty_lake(tmp_path / "lake")
    path.write_text(f"{head}\n03-04-2023 10:00:00,{row}\n31-12-2023 10:00:00,{row}\n")
    say = {"layout": "csv", "exchange": "X", "raw_symbol": "BTC-USD", "columns": {"timestamp": "time"}}
    with pytest.raises(IngestError) as caught:
        ingest(path, lake, table=table, **say)
    assert str(caught.value) == (
        f"{path}:2: the time '03-04-2023 10:00:00' is not a written date and time between 2000 and 2100; "
        "time_unit or time_format says how times are written; 2 bad lines in all; "
        "skip_bad=True leaves them out"
    )
    with pytest.raises(
        IngestError, match=r":3: the time '31-12-2023 10:00:00' is not a time written as %m-%d"
    ):
        ingest(path, lake, table=table, time_format="%m-%d-%Y %H:%M:%S", **say)
    report = ingest(path, lake, table=table, time_format="%d-%m-%Y %H:%M:%S", **say)
    assert "times as %d-%m-%Y %H:%M:%S" in str(report)
    assert lake.scan(table).collect()["timestamp"].sort().to_list() == [
        int(datetime(*day, 10, tzinfo=UTC).timestamp()) * 10**9 for day in ((2023, 4, 3), (2023, 12, 31))
    ]


@pytest.mark.slow
def test_a_message_shows_a_value_on_one_line_and_not_without_end(tmp_path):
    path, lake = tmp_path / "a.csv", empty_lake(tmp_path / "lake")
    path.write_text(f"timestamp,rate\n1700000000,\x1b[31m{'9' * 500}x\n")
    with pytest.raises(IngestError) as caught:
        ingest(path, lake, layout="csv", table="funding", exchange="X", raw_symbol="A")
    assert "\x1b" not in str(caught.value)
    assert f"the rate '\N{REPLACEMENT CHARACTER}[31m{'9' * 74}…' is not" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["jsonl", "parquet"])
def test_every_layout_with_a_map_takes_a_format(tmp_path, layout):
    path, lake = tmp_path / "a", empty_lake(tmp_path / "lake")
    frame = pl.DataFrame({"timestamp": ["3/4/2023"], "rate": [0.0001]})
    (frame.write_ndjson if layout == "jsonl" else frame.write_parquet)(path)
    ingest(path, lake, layout=layout, table="funding", exchange="X", raw_symbol="A", time_format="%d/%m/%Y")
    assert lake.scan("funding").collect()["timestamp"].to_list() == [1_680_480_000 * 10**9]
    with pytest.raises(QueryError, match="time_format: got '%Y', expected nothing, tardis files have none"):
        ingest(path, lake, layout="tardis", time_format="%Y")
