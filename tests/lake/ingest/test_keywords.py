"""Layouts and markets as objects, and the keywords that stood for them before 0.1.0."""

from __future__ import annotations

import pytest

from tables import each_row
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.lake.ingest import Csv, Jsonl, Market, Tardis, ingest

COLUMNS = {"timestamp": "time", "price": "px", "amount": "qty"}


@pytest.fixture
def trades(write):
    return write("time,px,qty,side", "1693929601,100.5,2,buy", name="trades.csv")


@pytest.mark.slow
def test_keywords_still_work_and_warn(trades, lake, tmp_path):
    market = Market(exchange="COINBASE", raw_symbol="BTC-USD", tick_size="0.5")
    ingest(trades, lake, Csv(columns=COLUMNS), market=market)
    other = Lake.create(tmp_path / "other")
    options = {"exchange": "COINBASE", "raw_symbol": "BTC-USD", "tick_size": "0.5", "columns": COLUMNS}
    with pytest.warns(FutureWarning, match=r"layout=Csv\(columns=…\), market=Market\(exchange=…\)"):
        ingest(trades, other, layout="csv", **options)
    for table in ("trades", "markets"):
        ours, theirs = (
            one.markets() if table == "markets" else one.scan(table).collect() for one in (lake, other)
        )
        assert ours.equals(theirs)
    with pytest.warns(FutureWarning, match="keywords"):
        report = ingest(trades, lake, layout="csv", **options)
    assert report.bad_lines == 0
    assert lake.scan("trades").collect().height == 1


def test_a_file_that_keywords_put_in_is_known_to_the_layout(trades, lake):
    with pytest.warns(FutureWarning, match="keywords"):
        ingest(trades, lake, layout="csv", exchange="X", raw_symbol="BTC-USD", columns=COLUMNS)
    market = Market(exchange="X", raw_symbol="BTC-USD")
    assert ingest(trades, lake, Csv(columns=COLUMNS), market=market).files[0].already_ingested


def test_keywords_and_objects_do_not_mix(trades, lake):
    with pytest.raises(QueryError, match=r"market: .*expected exchange inside layout or market"):
        ingest(trades, lake, Csv(columns=COLUMNS), exchange="X")
    with pytest.raises(TypeError, match="unexpected keyword argument 'exchnage'"):
        ingest(trades, lake, exchnage="X")


@each_row(
    ("wrong", "message"),
    [
        (lambda: Csv(delimiter=";;"), "delimiter: got ';;', expected one ASCII character"),
        (lambda: Csv(interval="1h"), "interval: got '1h', expected nothing, csv files of trades have none"),
        (lambda: Jsonl(table="trade"), "table: got 'trade', expected one of trades.*did you mean 'trades'"),
        (lambda: Csv(table="candles", interval="90s"), "interval: got '90s'"),
        (lambda: Csv(time_unit="s", time_format="%Y"), "time_format: got '%Y', expected nothing"),
        (lambda: Market(contract="inverse"), "contract_size: left out"),
        (lambda: Market(exchange="a\n"), "exchange: got"),
    ],
)
def test_a_wrong_option_is_refused_where_it_is_said(wrong, message):
    with pytest.raises(QueryError, match=message):
        wrong()


def test_what_means_nothing_to_a_layout_is_refused(trades, lake):
    market = Market(exchange="X", raw_symbol="BTC-USD", funding_interval="8h")
    with pytest.raises(QueryError, match="funding_interval: got '8h', expected nothing, csv files of trades"):
        ingest(trades, lake, Csv(columns=COLUMNS), market=market)
    assert Tardis().name == "tardis"
