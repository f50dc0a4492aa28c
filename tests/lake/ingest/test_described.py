"""What a map of columns can say, as laws: however a file is written, the lake holds the same rows."""

from __future__ import annotations

import datetime as dt
import json
import re
import zoneinfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tidytape.errors import IngestError, QueryError
from tidytape.lake import Lake
from tidytape.lake.ingest import Csv, Feather, Json, Market, Parquet, ingest
from tidytape.lake.ingest._described import Auto, length_named
from tidytape.lake.ingest._descriptions import DESCRIPTIONS
from tidytape.lake.ingest._own_files import is_row
from tidytape.lake.ingest._time import Zone, nanoseconds

X = Market(exchange="X", raw_symbol="BTC-USD")
TRADES = (
    ("2024-08-08T12:00:00Z", "60000.5", "0.25", "sell"),
    ("2024-08-08T12:00:01Z", "60001.5", "0.5", "buy"),
    ("2024-08-08T12:00:02Z", "60002.5", "0.125", "sell"),
)
NAMES = ("timestamp", "price", "amount", "side")
PLACES = {name: f"#{place}" for place, name in enumerate(NAMES, 1)}


def lines(*rows, delimiter=","):
    return "".join(delimiter.join(row) + "\n" for row in rows)


def split_time(row):
    return (row[0][:10].replace("-", "."), row[0][11:19], *row[1:])


def worded(row):
    return (*row[:3], {"sell": "A", "buy": "B"}[row[3]])


OBJECTS = [dict(zip(NAMES, row, strict=True)) for row in TRADES]
WAYS = {
    "as it is": (lines(NAMES, *TRADES), Csv()),
    "names in capitals": (lines([name.upper() for name in NAMES], *TRADES), Csv()),
    "names in brackets": (lines([f"<{name}>" for name in NAMES], *TRADES), Csv()),
    "other names by place": (lines("abcd", *TRADES), Csv(columns=PLACES)),
    "names that come twice, by place": (lines("xxxx", *TRADES), Csv(columns=PLACES)),
    "columns without names": (lines(["", "", "", ""], *TRADES), Csv(columns=PLACES)),
    "no header": (lines(*TRADES), Csv(header=",".join(NAMES))),
    "a column that is not read": (
        lines(*((*row, "9") for row in TRADES)), Csv(header="timestamp,price,amount,side,-")
    ),
    "date and time": (
        lines(("Date", "Time", *NAMES[1:]), *map(split_time, TRADES)), Csv(columns={"timestamp": "Date+Time"})
    ),
    "words": (
        lines(NAMES, *map(worded, TRADES)), Csv(words={"side": {"A": "sell", "b": "buy"}})
    ),
    "lines before the header": (lines(["exported by hand"], ["x"], NAMES, *TRADES), Csv(skip_lines=2)),
    "comments": (lines(["# a"], NAMES, *TRADES, ["# end"]), Csv()),
    "tabs": (lines(NAMES, *TRADES, delimiter="\t"), Csv()),
    "New York": (
        lines(NAMES, *((row[0].replace("T12", " 08").replace("Z", ""), *row[1:]) for row in TRADES)),
        Csv(time_zone="America/New_York"),
    ),
    "a broker": (
        lines(NAMES, *((row[0].replace("T12", " 15").replace("Z", ""), *row[1:]) for row in TRADES)),
        Csv(time_zone="America/New_York+7h"),
    ),
    "objects": (json.dumps(OBJECTS), Json()),
    "objects inside": (json.dumps({"code": 0, "result": {"rows": OBJECTS}}), Json()),
    "objects at a place": (json.dumps({"b": [{}], "a": {"rows": OBJECTS}}), Json(at="a.rows")),
    "lines of objects": ("\n".join(map(json.dumps, OBJECTS)), Json()),
    "arrays": (json.dumps(TRADES), Json(header=",".join(NAMES))),
    "lines of answers": ("\n".join(json.dumps({"data": [one]}) for one in OBJECTS), Json()),
}  # fmt: skip


def stored(folder, content, layout, market=X, table="trades"):
    folder.mkdir(exist_ok=True)
    path = folder / "file"
    if isinstance(content, pl.DataFrame):
        content.write_ipc(path) if isinstance(layout, Feather) else content.write_parquet(path)
    else:
        path.write_text(content)
    lake = Lake.create(folder / "lake")
    ingest(path, lake, layout, market=market, progress=False)
    return lake.scan(table).collect().drop("sequence", strict=False)  # the number of the line


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_however_trades_are_written_the_lake_holds_the_same(tmp_path, way):
    content, layout = WAYS[way]
    expected = stored(tmp_path / "plain", *WAYS["as it is"])
    assert expected.height == len(TRADES)
    assert_frame_equal(stored(tmp_path / "other", content, layout), expected)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [Feather(), Parquet()])
def test_frames_in_files(tmp_path, layout):
    frame = pl.DataFrame(OBJECTS).with_columns(pl.col("timestamp").str.to_datetime(time_zone="UTC"))
    expected = stored(tmp_path / "plain", *WAYS["as it is"])
    assert_frame_equal(stored(tmp_path / "other", frame, layout), expected)


CANDLE = "timestamp,open,high,low,close,volume"


@pytest.mark.slow
def test_times_of_ends(tmp_path):
    starts = stored(
        tmp_path / "a", f"{CANDLE}\n2024-08-08T00:00:00Z,1,2,1,2,3\n2024-08-08T00:01:00Z,2,3,2,3,4\n",
        Csv(table="candles", interval="1m"), table="candles",
    )  # fmt: skip
    for ends in (("00:01:00", "00:02:00"), ("00:00:59", "00:01:59"), ("00:00:59.999", "00:01:59.999")):
        text = f"{CANDLE}\n2024-08-08T{ends[0]}Z,1,2,1,2,3\n2024-08-08T{ends[1]}Z,2,3,2,3,4\n"
        layout = Csv(table="candles", interval="1m", stamped="end")
        assert_frame_equal(stored(tmp_path / ends[0], text, layout, table="candles"), starts)


def test_a_time_that_starts_no_candle_is_named(tmp_path):
    text = f"{CANDLE}\n2024-08-08T00:00:59.5Z,1,2,1,2,3\n"
    with pytest.raises(IngestError, match=r"starts at 2024-08-08T00:00:59\.500+Z: .*stamped='end' says"):
        stored(tmp_path, text, Csv(table="candles", interval="1m"))


@pytest.mark.parametrize("empty", ["", "NaN", "null", "N/A"])
def test_candles_without_values_are_left_out_and_counted(tmp_path, empty):
    path = tmp_path / "candles.csv"
    path.write_text(f"{CANDLE}\n2024-08-08,1,2,1,2,3\n2024-08-09,{','.join([empty] * 5)}\n")
    layout = Csv(table="candles", interval="1d", time_unit="date")
    report = ingest(path, Lake.create(tmp_path / "lake"), layout, market=X, progress=False)
    assert dict(report.files[0].ignored) == {"candle without prices or volume": 1}


@pytest.mark.slow
def test_a_volume_with_another_name_is_asked_for_and_none_is_null(tmp_path):
    layout = Csv(table="candles", interval="1d", time_unit="date")
    with pytest.raises(QueryError, match="expected volume mapped to one of the columns"):
        stored(tmp_path / "a", "timestamp,open,high,low,close,vol\n2024-08-08,1,2,1,2,3\n", layout)
    candles = stored(
        tmp_path / "b", "timestamp,open,high,low,close\n2024-08-08,1,2,1,2\n", layout, table="candles"
    )
    assert candles["volume"].to_list() == [None]


CHAIN = "timestamp,coin,option_type,strike,expiry,implied_volatility"


def chain(volatility, *, strike="60000"):
    quotes = [f"2024-08-08T12:00:00Z,BTC,{kind},{strike},2024-09-27T08:00:00Z,{volatility}" for kind in "CP"]
    return "\n".join([CHAIN, *quotes]) + "\n"


def test_options_get_a_name_of_what_tells_them_apart(tmp_path):
    market = Market(exchange="X")
    quotes = stored(
        tmp_path, chain(40, strike="60000.5"), Csv(table="option_quotes"), market, table="option_quotes"
    )
    assert set(quotes["raw_symbol"]) == {"BTC-240927-60000.5-C", "BTC-240927-60000.5-P"}


DOUBTFUL = {
    "volatility_unit": ("option_quotes", chain(0.4), "decimal", "implied_volatility", 40.0),
    "rate_unit": ("funding", "timestamp,rate\n2024-08-08T00:00:00Z,0.01\n", "percent", "rate", 0.0001),
}


@pytest.mark.parametrize("parameter", DOUBTFUL)
def test_a_unit_that_nobody_said_is_asked_for(tmp_path, parameter):
    table, content, unit, column, expected = DOUBTFUL[parameter]
    market = Market(exchange="X", raw_symbol=None if table == "option_quotes" else "BTC-PERP")
    if table == "funding":
        market = Market(exchange="X", raw_symbol="BTC-PERP", funding_interval="8h")
    with pytest.raises(QueryError, match=f"{parameter}: left out, expected"):
        stored(tmp_path / "a", content, Csv(table=table), market)
    rows = stored(tmp_path / "b", content, Csv(table=table, **{parameter: unit}), market, table=table)
    assert rows[column].to_list() == pytest.approx([expected] * rows.height, rel=1e-12)


def test_a_first_line_that_is_a_row_is_no_header(tmp_path):
    columns = dict(zip(NAMES, TRADES[0], strict=True))
    with pytest.raises(QueryError, match=r"header: left out, .* whose first line is a row"):
        stored(tmp_path, lines(*TRADES), Csv(columns=columns))
    assert not is_row(["0", "1", "2", "3"])  # a frame without names of columns
    assert not is_row(["", "open", "24h volume"])


@pytest.mark.slow
@settings(max_examples=12)
@given(
    st.sampled_from(["America/New_York", "Europe/Warsaw", "Asia/Kolkata", "Australia/Lord_Howe"]),
    st.integers(-12, 12),
)
def test_zones_are_those_of_the_database(name, ahead):
    zone = Zone.of(f"{name}{ahead:+d}h")
    # Days on which clocks change in one of these places, with their neighbours, and two on which they do not.
    days = ["01-01", "03-10", "03-31", "04-07", "07-01", "10-06", "10-27", "11-03"]
    clock = [
        dt.datetime.fromisoformat(f"2024-{day}") + dt.timedelta(minutes=30 * step)
        for day in days
        for step in range(-48, 2 * 48)
    ]
    local = [one - dt.timedelta(hours=ahead) for one in clock]
    read = pl.DataFrame({"t": [f"{one:%Y-%m-%d %H:%M}" for one in clock]}).select(
        nanoseconds(pl.col("t"), "iso", zone)
    )["t"]
    info = zoneinfo.ZoneInfo(name)
    for one, nanosecond in zip(local, read, strict=True):
        both = {one.replace(tzinfo=info, fold=fold).timestamp() for fold in (0, 1)}
        is_shown = all(dt.datetime.fromtimestamp(time, info).replace(tzinfo=None) == one for time in both)
        assert nanosecond == (int(both.pop()) * 10**9 if is_shown and len(both) == 1 else None)


@pytest.mark.parametrize("zone", ["Mars", "", "UTC+", "America/New_York+7x"])
def test_zones_that_there_are_not(zone):
    with pytest.raises(QueryError, match="time_zone: got"):
        Csv(time_zone=zone)


@pytest.mark.slow
@settings(max_examples=8)
@given(st.from_regex(r"[A-Z]{3,12}(_(INVERSE|PERP|FUTURES))?", fullmatch=True))
def test_what_a_kind_counts_does_not_hang_on_the_name_of_the_exchange(tmp_path_factory, exchange):
    folder = tmp_path_factory.mktemp("files")
    path = folder / "BTCUSD2024-08-08.csv"
    path.write_text(
        "timestamp,symbol,side,size,price,tickDirection,trdMatchID,grossValue,homeNotional,foreignNotional\n"
        "1723118400.1,BTCUSD,Buy,6000,60000.00,PlusTick,a1,10000000,6000,0.1\n"
    )
    lake = Lake.create(folder / "lake")
    ingest(path, lake, market=Market(exchange=exchange), progress=False)
    trades = lake.scan("trades").select("exchange", "amount").collect()
    assert trades.rows() == [(exchange, 0.1)]


def test_descriptions_are_whole():
    for description in DESCRIPTIONS:
        for pattern in (description.row, description.columns, description.in_row, *description.paths):
            re.compile(pattern)
        assert bool(description.reads) != bool(description.refusal)
        assert description.paths or not description.needs_path
        assert all(name == name.lower() for name in description.header)


def test_words_of_lengths():
    words = {
        "1": "1m",
        "60": "1h",
        "1440": "1d",
        "M15": "15m",
        "H4": "4h",
        "4_Hour": "4h",
        "1 Min": "1m",
        "Weekly": "1w",
        "1_M": "1m",
    }
    assert {word: length_named(word) for word in words} == words
    assert all(length_named(word) is None for word in ("2024", "1M", "month", "data"))
    assert length_named(None) is None


HISTDATA = "20240808 120000;1.1;1.2;1.0;1.1;0\n20240808 120100;1.1;1.2;1.0;1.1;0\n20240808 120200;1.1;1.2;1.0;1.1;0\n"


def auto(folder, content, name, **stated):
    path = folder / name
    path.write_text(content)
    lake = Lake.create(folder / "lake")
    ingest(path, lake, Auto(**stated), market=Market(exchange="X", quote="USD"), progress=False)
    return lake.scan("candles").sort("timestamp").collect()


@pytest.mark.slow
def test_what_the_caller_states_goes_before_the_kind(tmp_path):
    name = "DAT_ASCII_EURUSD_M1_202408.csv"
    (tmp_path / "utc").mkdir()
    of_kind = auto(tmp_path, HISTDATA, name)["timestamp"]
    stated = auto(tmp_path / "utc", HISTDATA, name, time_zone="UTC")["timestamp"]
    assert (of_kind - stated).unique().to_list() == [5 * 3_600 * 10**9]


@pytest.mark.parametrize("stated", [{"security": "equity"}])
def test_a_fact_that_a_kind_does_not_use_is_refused(tmp_path, stated):
    with pytest.raises(QueryError, match="expected nothing, candles of HistData have none to choose"):
        auto(tmp_path, HISTDATA, "DAT_ASCII_EURUSD_M1_202408.csv", **stated)
