"""A law: a block of a delimited file that is read as numbers at once gives what reading line by line gives."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thorough import often
from tidytape.errors import TidytapeError
from tidytape.lake._batch import Spool
from tidytape.lake.ingest import (
    BinanceVision,
    Csv,
    Job,
    Market,
    Parquet,
    Tardis,
    _decode,
    _lines,
    _mapped_rows,
)
from tidytape.lake.ingest._decode import Block

TIMES = {"s": "1723075200", "ms": "1723075200123", "us": "1723075200123456", "ns": "1723075200123456789"}
NUMBERS = (
    "0.1",
    "61837.63000000",
    "5",
    "1e5",
    "3.3333333333333335",
    "4503599627370497.5",
    "0.00000001",
    "7E-3",
)
ODD = (
    "", " ", "+1", "-1", "-0", "0", "1e5", "1e400", "0x10", " 1", "1 ", "\t1", "NaN", "nan", "inf", "-inf", "infinity",
    "1_000", "1.", ".5", "--1", "null", "None", "true", "abc", "#1", "1\r", "\r1", "\v1", "\xa01", "é", "\x001",
    "9223372036854775807", "9223372036854775808", "0007", "00000000000000000000001723075200123", "-1723075200123",
    "946684799999", "946684800000", "4102444800000", "1723075200.5", "1723075200123.25", "1.7230752e12",
    "2024-08-08T00:00:00Z", "2024-08-08 00:00:00.123456789", "1969-12-31T23:59:59Z", "20240808 120000",
    '"1"', '"1,5"', '1"', '"', "1,5", "1;5", "buy", "SELL", "B", "T", "x" * 100,
)  # fmt: skip
ODD_LINES = ("", "   ", "# a comment", "#,", "1", ",,,,", ",,,,,,,,,,", "\t", "\x0b", '"', "\ufeff")

MARKET = Market(exchange="BINANCE", raw_symbol="BTCUSDT")
OWN = "timestamp,price,amount,side,id"
KINDS = {
    "trades with ids": (Csv(), OWN, ("T", "N", "N", "buy", "I")),
    "trades without ids": (Csv(), "timestamp,price,amount,buyer_is_maker", ("T", "N", "N", "true")),
    "trades in billionths": (Csv(divisors={"price": 1e9}), OWN, ("T", "1723075200", "N", "sell", "I")),
    "trades with words": (Csv(words={"side": {"A": "sell", "U": "none"}}), OWN, ("T", "N", "N", "A", "I")),
    "trades of a unit": (Csv(time_unit="ms"), OWN, ("T", "N", "N", "s", "I")),
    "trades of a zone": (Csv(time_zone="America/New_York"), OWN, ("T", "N", "N", "s", "I")),
    "joined times": (Csv(columns={"timestamp": "day+time"}), f"day,time,{OWN}", ("D", "C", "x", "N", "N", "b", "I")),
    "trades with colons": (Csv(delimiter=":"), f"note:{OWN}".replace(",", ":"), ("", "T", "N", "N", "b", "I")),
    "funding": (Csv(table="funding"), "timestamp,rate,next_funding,note", ("T", "0.0001", "T", "x")),
    "candles": (
        Csv(table="candles", interval="1m"),
        "timestamp,open,high,low,close,volume,quote_volume",
        ("1723075200000", "1", "2", "0.5", "1", "N", ""),
    ),
    "dump": (BinanceVision(), None, ("I", "N", "N", "N", "T", "true", "true")),
    "dump with header": (
        BinanceVision(), "id,price,qty,quote_qty,time,is_buyer_maker", ("I", "N", "N", "N", "T", "false")
    ),
    "dataset": (
        Tardis(),
        "exchange,symbol,timestamp,local_timestamp,id,side,price,amount",
        ("deribit", "BTC-PERPETUAL", "1723075200123456", "1723075200123456", "I", "buy", "N", "N"),
    ),
}  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    kind = draw(st.sampled_from(list(KINDS)))
    _, header, template = KINDS[kind]
    unit = draw(st.sampled_from(list(TIMES)))
    rows = []
    for number in range(draw(st.integers(0, 12))):
        cells = {
            "T": str(int(TIMES[unit]) + number), "D": "2024-08-08", "C": f"12:00:{number:02}", "I": str(100 + number)
        }  # fmt: skip
        rows.append(
            [draw(st.sampled_from(NUMBERS)) if cell == "N" else cells.get(cell, cell) for cell in template]
        )
    odd = st.sampled_from(ODD) | st.text("0123456789+-.eE_ ", max_size=24) | st.floats().map(repr)
    for _ in range(draw(st.integers(0, 2)) if rows else 0):
        row = draw(st.sampled_from(rows))
        row[draw(st.integers(0, len(row) - 1))] = draw(odd)
    if rows and draw(st.booleans()):  # a column of another kind
        place, cell = draw(st.integers(0, len(template) - 1)), draw(odd)
        for row in rows:
            row[place] = cell
    delimiter = ":" if kind == "trades with colons" else ","
    lines = [delimiter.join(row) for row in rows]
    if header is not None:
        lines.insert(0, header)
    for _ in range(draw(st.integers(0, 1))):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(ODD_LINES)))
    if lines and draw(st.integers(0, 9)) == 0:
        place = draw(st.integers(0, len(lines) - 1))
        lines[place] = draw(
            st.sampled_from((lines[place] + ",", lines[place].rpartition(",")[0], lines[place][:9]))
        )
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    data = (
        draw(st.sampled_from(["", "", "\ufeff"])) + end.join(lines) + draw(st.sampled_from([end, ""]))
    ).encode()
    if draw(st.integers(0, 9)) == 0:
        data = data.replace(b"1", b"\xff", 1)
    return kind, data


def read(kind: str, data: bytes, block: int) -> object:
    """All that is known of a file after it was read, or why it cannot be read."""
    layout = KINDS[kind][0]
    market = Market() if isinstance(layout, Tardis) else MARKET
    with tempfile.TemporaryDirectory() as folder, Spool() as spool, patch.object(_lines, "BLOCK", 4 * block):
        is_dataset = isinstance(layout, Tardis)
        path = Path(folder) / (
            "deribit_trades_2024-08-08_X.csv" if is_dataset else "BTCUSDT-trades-2024-08-08.csv"
        )
        path.write_bytes(data or b"\n")
        return told(layout, Job(path, market, layout), spool)


def told(layout, job: Job, spool: Spool) -> object:
    try:
        parsed = layout.read(job, spool, lambda _: None)
    except TidytapeError as error:
        return type(error), str(error).replace(str(job.path), "")
    frames = {
        batch.table.name: pl.concat([part.frame() for part in batch]).write_ndjson()
        for batch in parsed.batches
    }
    facts = parsed.bad, parsed.lines, parsed.ignored, parsed.time_unit, parsed.notes, parsed.inverse
    return frames, facts


@pytest.mark.slow
@settings(max_examples=often(150, thoroughly=5_000), deadline=None)
@given(files(), st.sampled_from([40, 150, 2**20]))
@example(("trades with ids", f"{OWN}\n1723075200,1,1,buy\n1723075200,1,1,buy,8,\n".encode()), 2**20)
@example(
    (
        "funding",
        b"timestamp,rate,next_funding,note\n1723075200,0,1723075201,\n1723075201,0,\n1723075202,0,,,\n",
    ),
    2**20,
)
@example(("trades with colons", f"note,{OWN}\n#,1723075200,1,1,buy,8\n".replace(",", ":").encode()), 2**20)
@example(("trades of a unit", f"{OWN}\n0000000001723075200123,1,1,buy,8\n".encode()), 2**20)
@example(("trades of a unit", f"{OWN}\n+1723075200123,1,1,buy,8\n".encode()), 2**20)
def test_a_block_read_at_once_gives_what_its_lines_give(file, block):
    kind, data = file
    at_once = read(kind, data, block)
    with patch.object(Block, "all_good", lambda *_: None):
        by_line = read(kind, data, block)
    assert at_once == by_line


@pytest.mark.slow
def test_good_blocks_are_not_split_into_texts(tmp_path):
    lines = "".join(f"{1723075200000 + number},0.5,1e-3,buy,{number}\n" for number in range(100))
    with patch.object(_decode, "split", side_effect=AssertionError("split into texts")):
        for end in ("\n", "\r\n"):
            frames, facts = read("trades with ids", f"{OWN}\n{lines}".replace("\n", end).encode(), 150)
            assert facts[1] == 100
            assert frames["trades"].count("\n") == 100


def test_times_with_decimals_cost_no_other_column(tmp_path):
    lines = "".join(f"{1723075200 + number}.25,0.5,1e-3,buy,{number}\n" for number in range(100))
    with patch.object(_decode, "split", side_effect=_decode.split) as split:
        read("trades with ids", f"{OWN}\n{lines}".encode(), 1000)
    assert split.call_count == 1


ARROW = {
    "timestamp": st.sampled_from(
        [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")]
        + [pa.int64(), pa.uint64(), pa.int32(), pa.float64(), pa.string(), pa.date32()]
    ),
    "price": st.sampled_from(
        [pa.float64(), pa.float32(), pa.int64(), pa.int16(), pa.uint64(), pa.decimal128(20, 4), pa.string()]
    ),
    "id": st.sampled_from([pa.int64(), pa.uint64(), pa.string(), pa.float64()]),
}  # fmt: skip


@pytest.mark.slow
@settings(max_examples=often(80, thoroughly=3_000), deadline=None)
@given(st.data())
def test_a_parquet_file_read_as_it_is_gives_what_its_texts_give(data):
    types = {name: data.draw(strategy) for name, strategy in ARROW.items()}
    moments = (
        st.integers(-(2**40), 2**34) if types["timestamp"] == pa.date32() else st.integers(-(2**33), 2**33)
    )
    count = data.draw(st.integers(1, 5))

    def column(name: str, values: st.SearchStrategy[object]) -> pa.Array:
        drawn = data.draw(
            st.lists(
                values | st.none() if data.draw(st.booleans()) else values, min_size=count, max_size=count
            )
        )
        return pa.array(drawn).cast(types[name], safe=False) if name in types else pa.array(drawn)

    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.get(
        getattr(types["timestamp"], "unit", "ms"), 10**3
    )
    usual = st.integers(1_723_075_200, 1_723_075_300).map(lambda second: second * scale + scale // 7)
    columns = {
        "timestamp": usual if data.draw(st.integers(0, 3)) else moments,
        "price": st.floats(0.5, 1e6)
        if types["price"] not in {pa.int64(), pa.int16(), pa.uint64()}
        else st.integers(0, 30_000),
        "id": st.integers(0, 10**6),
        "amount": st.floats(width=64),
        "side": st.sampled_from(["buy", "sell", "S", "long", ""]),
    }
    try:
        table = pa.table({name: column(name, values) for name, values in columns.items()})
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return
    layout = Parquet(
        time_unit=data.draw(st.sampled_from([None, "iso", "ms", "us", "date"])),
        time_zone=data.draw(st.sampled_from([None, "Asia/Tokyo"])),
    )
    with tempfile.TemporaryDirectory() as folder, Spool() as spool, Spool() as other:
        path = Path(folder) / "trades.parquet"
        pq.write_table(table, path)
        job = Job(path, MARKET, layout)
        as_it_is = told(layout, job, spool)
        with patch.object(_mapped_rows, "all_good", lambda *_: None):
            assert told(layout, job, other) == as_it_is


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_parquet_file_of_times_and_numbers_becomes_no_text(tmp_path, unit):
    rows = pl.DataFrame(
        {
            "timestamp": [1723075200123456] * 2,
            "price": [0.1, 3.0],
            "amount": [1, 2],
            "side": "buy",
            "id": [1, 2],
        }
    ).with_columns(
        pl.from_epoch("timestamp", time_unit="us").dt.cast_time_unit(unit).dt.replace_time_zone("UTC")
    )
    rows.write_parquet(tmp_path / "trades.parquet")
    layout = Parquet()
    with (
        Spool() as spool,
        patch.object(_mapped_rows.MappedRows, "take", side_effect=AssertionError("became text")),
    ):
        frames, facts = told(layout, Job(tmp_path / "trades.parquet", MARKET, layout), spool)
    assert facts[3] == "iso"
    assert '"timestamp":1723075200123456000' in frames["trades"]
