"""Layouts and markets as objects."""

from __future__ import annotations

import pytest

from tables import each_row
from tidytape.errors import QueryError
from tidytape.lake.ingest import Csv, Jsonl, Market, Tardis, ingest

COLUMNS = {"timestamp": "time", "price": "px", "amount": "qty"}


@pytest.fixture
def trades(write):
    return write("time,px,qty,side", "1693929601,100.5,2,buy", name="trades.csv")


def test_a_layout_is_an_object(trades, lake):
    for layout in ("csv", Csv):
        with pytest.raises(QueryError, match=r"layout: got .*, expected an object"):
            ingest(trades, lake, layout)


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
