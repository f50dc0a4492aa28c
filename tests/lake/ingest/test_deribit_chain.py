"""Option chains into the lake, and from there to the summaries."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ingested import ingest
from tidytape.aggregate import implied_volatility, skew
from tidytape.cli._ingest import app
from tidytape.errors import IngestError
from tidytape.lake import Lake

HEADER = (
    "timestamp,instrument_name,option_type,strike,expiry_datetime,mark_price,futures_price,implied_volatility,"
    "delta,open_interest,currency,volume_usd"
)
CALL = (
    "2026-03-05T04:27:46.919786+00:00,BTC-25DEC26-100000-C,call,100000.0,2026-12-25T08:00:00+00:00,0.07949545,"
    "75082.3,0.4949,0.33664,2968.5,BTC,50142.34"
)
PUT = (
    "2026-03-05T04:27:46.919786+00:00,BTC-27MAR26-60000-P,put,60000.0,2026-03-27T08:00:00+00:00,0.00824129,"
    "72905.93,0.6589,-0.10008,8505.7,BTC,306359.16"
)
NAMES = [f"deribit_options_snapshot_20260305T{time}Z.csv.gz" for time in ("042746", "093529", "155733")]


def put_in(path, lake, **options):
    return ingest(path, lake, layout="deribit-chain", exchange="DERIBIT", **options)


def changed(line: str, **fields: str) -> str:
    names, values = HEADER.split(","), line.split(",")
    return ",".join(fields.get(name, value) for name, value in zip(names, values, strict=True))


@pytest.mark.parametrize("packed", [False, True])
def test_a_chain_becomes_quotes(lake, write, packed):
    report = put_in(write(HEADER, CALL, PUT, packed=packed), lake)
    assert (report.quotes_read, report.quotes_new, report.trades_read) == (2, 2, 0)
    call, put = lake.scan("option_quotes").sort("expiry", descending=True).collect().to_dicts()
    assert call == {
        "exchange": "DERIBIT",
        "raw_symbol": "BTC-25DEC26-100000-C",
        "timestamp": 1_772_684_866_919_786_000,
        "coin": "BTC",
        "option_type": "CALL",
        "strike": 100_000.0,
        "expiry": 1_798_185_600 * 10**9,
        "implied_volatility": pytest.approx(49.49, abs=1e-12),
        "delta": 0.33664,
        "forward": 75_082.3,
        "mark_price": 0.07949545,
        "open_interest": 2968.5,
        "received": None,
    }
    assert (put["option_type"], put["delta"]) == ("PUT", -0.10008)
    assert lake.markets().is_empty()


@pytest.mark.slow
def test_columns_are_known_by_name(lake, write):
    order = sorted(HEADER.split(","))
    line = dict(zip(HEADER.split(","), CALL.split(","), strict=True))
    put_in(write(HEADER, CALL), lake)
    again = put_in(write(",".join(order), ",".join(line[name] for name in order), name="other"), lake)
    assert (again.quotes_read, again.quotes_new) == (1, 0)


@pytest.mark.slow
def test_the_same_file_and_an_overlapping_one_change_nothing(lake, write):
    path = write(HEADER, CALL, PUT)
    put_in(path, lake)
    again = put_in(path, lake)
    assert again.files[0].already_ingested
    assert str(again.files[0]).endswith("already in the lake")
    overlapping = put_in(
        write(HEADER, PUT, changed(PUT, strike="61000", instrument_name="X"), name="b"), lake
    )
    assert (overlapping.quotes_read, overlapping.quotes_new) == (2, 1)
    assert "2 option quotes, 1 of them new" in str(overlapping)
    assert lake.scan("option_quotes").collect().height == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"timestamp": "soon"}, "the timestamp 'soon' is not a written date and time between 2000 and 2100"),
        ({"expiry_datetime": ""}, "no expiry_datetime"),
        ({"option_type": "straddle"}, "the option_type 'straddle' is not one of call, put"),
        ({"strike": "0"}, "the strike '0' is not a finite number above 0"),
        ({"implied_volatility": "high"}, "the implied_volatility 'high' is not a finite number"),
        ({"futures_price": "nan"}, "the futures_price 'nan' is not a finite number"),
        ({"instrument_name": ""}, "no instrument_name"),
        ({"currency": " "}, "no currency"),
        ({"volume_usd": "1,2"}, "more columns than the header"),
    ],
)
def test_a_broken_line_is_named_and_nothing_goes_in(lake, write, fields, reason):
    path = write(HEADER, CALL, changed(PUT, **fields))
    with pytest.raises(IngestError, match=reason) as caught:
        put_in(path, lake)
    assert caught.value.line == 3
    assert lake.scan("option_quotes").collect().is_empty()
    report = put_in(path, lake, skip_bad=True)
    assert (report.bad_lines, report.quotes_new) == (1, 1)


def test_numbers_that_are_left_out_are_unknown(lake, write):
    names = ("implied_volatility", "delta", "futures_price", "mark_price", "open_interest")
    put_in(write(HEADER, changed(CALL, **dict.fromkeys(names, ""))), lake)
    row = lake.scan("option_quotes").collect().row(0, named=True)
    assert [
        row[name] for name in ("implied_volatility", "delta", "forward", "mark_price", "open_interest")
    ] == [None] * 5


def test_a_file_of_something_else_is_refused(lake, write):
    with pytest.raises(IngestError, match=r"its header lacks .*instrument_name"):
        put_in(write("timestamp,price", "1,2"), lake)


@pytest.mark.slow
def test_a_quote_that_contradicts_the_lake_is_an_error(lake, write):
    put_in(write(HEADER, CALL), lake)
    with pytest.raises(IngestError, match="implied_volatility"):
        put_in(write(HEADER, changed(CALL, implied_volatility="0.5"), name="b"), lake)


def test_one_option_can_be_taken(lake, write):
    report = put_in(write(HEADER, CALL, PUT), lake, raw_symbol="BTC-27MAR26-60000-P")
    assert report.files[0].ignored == (("quote of another option", 1),)
    assert lake.scan("option_quotes").collect()["raw_symbol"].to_list() == ["BTC-27MAR26-60000-P"]


@pytest.mark.slow
def test_the_command_line(tmp_path, write):
    path = write(HEADER, CALL, PUT)
    result = CliRunner().invoke(app, ["deribit-chain", str(path), "--lake", str(tmp_path / "made")])
    assert result.exit_code == 0
    assert "2 option quotes" in result.output
    assert Lake(tmp_path / "made").scan("option_quotes", exchange="DERIBIT").collect().height == 2


@pytest.mark.slow
def test_the_recorded_chains(lake, recorded):
    report = put_in([recorded / name for name in NAMES], lake)
    assert [file.quotes_new for file in report.files] == [1874, 1848, 1856]
    assert report.bad_lines == 0
    quotes = lake.scan("option_quotes").collect()
    assert quotes["implied_volatility"].is_between(40, 250).all()
    assert quotes.group_by("coin").len().sort("coin").rows() == [("BTC", 3044), ("ETH", 2534)]
    assert all(file.already_ingested for file in put_in([recorded / name for name in NAMES], lake).files)
    volatility = implied_volatility(lake.scan("option_quotes"), interval="1h").collect()
    assert volatility.height == 42
    first = volatility.filter(raw_symbol="BTC_ATM", tenor="ONE_M").sort("timestamp")["implied_volatility"]
    assert first.round(4).to_list() == [52.2539, 51.4806, 52.4716]
    assert skew(lake.scan("option_quotes"), interval="1h").collect().height == 84
