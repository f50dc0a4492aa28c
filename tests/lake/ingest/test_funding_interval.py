"""Funding reports that do not state the time between settlements."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from ingested import ingest
from tidytape import Client
from tidytape.errors import IngestError, QueryError
from tidytape.lake._tables import FUNDING
from tidytape.lake.ingest import LAYOUTS
from tidytape.lake.ingest._write import UNSTATED
from tidytape.lake.rollup import rollup
from tidytape.query import PointsQuery

HOUR = 3600 * 10**9
T = 1_700_000_000  # [s]
HEAD = (
    "exchange,symbol,timestamp,local_timestamp,funding_timestamp,funding_rate,predicted_funding_rate,"
    "open_interest,last_price,index_price,mark_price"
)
TICKER = f"binance-futures,BTCUSDT,{T}000000,{T}000160,,0.0001,,5,,,"


KNOWN = {"binance-vision", "binance-ws", "cryptofeed", "deribit-chain", "tardis", "tardis-node"}


def intervals(lake):
    return lake.scan("funding").sort("timestamp").collect()["funding_interval"].to_list()


def noted(report):
    return {note.said: note.count for note in report.files[0].notes}


@pytest.mark.slow
@pytest.mark.parametrize("said", ["8h", 28_800_000, dt.timedelta(hours=8)])
def test_what_is_said_fills_what_is_not_stated(write, lake, said):
    report = ingest(write(HEAD, TICKER), lake, layout="tardis", funding_interval=said)
    assert intervals(lake) == [8 * HOUR]
    assert UNSTATED not in noted(report)


def test_reports_that_will_not_be_served_are_counted(write, lake):
    report = ingest(write(HEAD, TICKER), lake, layout="tardis")
    assert noted(report)[UNSTATED] == 1
    assert "\n  1 funding report, without a funding interval and so not served" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize(("said", "points"), [(None, 0), ("4h", 1)])
def test_the_service_answers_where_the_interval_is_known(write, lake, said, points):
    ingest(write(HEAD, TICKER), lake, layout="tardis", funding_interval=said)
    with Client.local(lake.path) as client:
        asked = {"exchange": "BINANCE_FUTURES", "raw_symbol": "BTCUSDT", "start": T - 3600, "end": T + 3600}
        found = client.fetch(PointsQuery(type="FUNDING_RATE_AGG", interval="1h", **asked)).frame
    assert found["rate_close"].to_list() == [0.0002] * points  # over 8 h


def test_a_stated_interval_holds(write, lake):
    rows = [
        {"timestamp": T, "rate": 1e-4, "funding_interval": HOUR},
        {"timestamp": T + 1, "rate": 1e-4, "funding_interval": None},
    ]
    path = write(*map(json.dumps, rows))
    ingest(
        path, lake, layout="jsonl", exchange="X", raw_symbol="BTCUSDT", table="funding", funding_interval="8h"
    )
    assert intervals(lake) == [HOUR, 8 * HOUR]


@pytest.mark.slow
def test_it_is_part_of_how_a_file_is_read(write, lake):
    path = write(HEAD, TICKER)
    ingest(path, lake, layout="tardis", funding_interval="8h")
    assert ingest(path, lake, layout="tardis", funding_interval="480m").files[0].already_ingested
    assert not ingest(path, lake, layout="tardis").files[0].already_ingested
    assert intervals(lake) == [8 * HOUR]


@pytest.mark.slow
def test_what_is_in_the_lake_cannot_get_another_silently(write, lake):
    path = write(HEAD, TICKER)
    ingest(path, lake, layout="tardis", funding_interval="4h")
    version = lake.version()
    with pytest.raises(
        IngestError,
        match=r"1 funding report of it in the lake with 4 h .* at 2023-11-14T22:13:20Z; replace=True",
    ):
        ingest(path, lake, layout="tardis", funding_interval="8h")
    assert lake.version() == version
    report = ingest(path, lake, layout="tardis", funding_interval="8h", replace=True)
    assert report.files[0].count(FUNDING).replaced == 1
    assert intervals(lake) == [8 * HOUR]


@pytest.mark.slow
def test_a_missing_interval_is_filled_in_and_then_served(write, lake):
    """By the same file with the interval; minutes that a rollup made before follow."""
    path = write(HEAD, TICKER, TICKER.replace(str(T), str(T + 300)))
    ingest(path, lake, layout="tardis")
    rollup(lake)
    asked = {"exchange": "BINANCE_FUTURES", "raw_symbol": "BTCUSDT", "start": T - 3600, "end": T + 3600}
    rates = []
    for _ in range(2):
        with Client.local(lake.path) as client:
            rates.append(client.funding(interval="1h", **asked)["rate_close"].to_list())
        report = ingest(path, lake, layout="tardis", funding_interval="8h")
    assert rates == [[], [0.0001]]
    assert report.files[0].already_ingested
    assert intervals(lake) == [8 * HOUR] * 2
    assert lake.scan("open_interest").collect().height == 2


@pytest.mark.parametrize("layout", [None, *LAYOUTS])
def test_layouts_without_funding_have_none_to_choose(write, lake, layout):
    mapped = {"csv", "feather", "json", "jsonl", "parquet"}
    refused = layout is not None and (
        layout in mapped or "funding_interval" not in LAYOUTS[layout].market_options
    )
    assert refused == (layout in {"binance-ws", "deribit-chain", *mapped}) or layout not in KNOWN
    told = None
    try:
        ingest(write("nonsense"), lake, layout=layout, exchange="X", raw_symbol="Y", funding_interval="8h")
    except (QueryError, IngestError) as error:
        told = getattr(error, "parameter", None)
    assert (told == "funding_interval") == refused


@pytest.mark.parametrize("said", [0, "8 hours", -1, "1w"])
def test_what_is_no_duration(write, lake, said):
    with pytest.raises(QueryError, match="funding_interval: got"):
        ingest(write(HEAD, TICKER), lake, layout="tardis", funding_interval=said)


@pytest.mark.slow
def test_the_recorded_tickers_state_none(recorded, lake):
    report = ingest(
        recorded / "tardis-node_normalized_derivative_ticker.jsonl.gz",
        lake,
        layout="tardis-node",
        amount_unit="coin",
    )
    assert noted(report)[UNSTATED] == 59 + 14  # overtaken ones too
