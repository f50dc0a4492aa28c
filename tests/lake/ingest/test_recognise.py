"""Which layout a file is written in."""

from __future__ import annotations

import os

import pytest

from ingested import ingest
from tables import each_row
from tidytape.errors import IngestError, QueryError
from tidytape.lake.ingest import LAYOUTS
from tidytape.lake.ingest import _layouts as layouts
from tidytape.lake.ingest._layout import Layout
from tidytape.lake.ingest._layouts import recognised as layout_of
from tidytape.lake.ingest._mapped import Mapped

RECORDED = {
    "lean_bybit_btcusdt_1m_20221213_trade.zip": "lean",
    "binance-spot_ws_btcusdt_20240808.gz": "binance-ws",
    "binance-usdm_ws_btcusdt_20240808.gz": "binance-ws",
    "binance-vision_quoted_rows_BTCUSD_PERP_liquidationSnapshot.csv": "binance-vision",
    "binance-vision_quoted_rows_BTCUSD_PERP_metrics.csv": "binance-vision",
    "cryptofeed_BITMEX.0_instruments.gz": "cryptofeed",
    "deribit_options_snapshot_20260305T042746Z.csv.gz": "deribit-chain",
    "tardis-node_normalized_derivative_ticker.jsonl.gz": "tardis-node",
    "tardis-node_normalized_liquidation.jsonl": "tardis-node",
    "tardis-node_normalized_option_summary.jsonl": "tardis-node",
    "tardis-node_normalized_trade.jsonl.gz": "tardis-node",
    "tardis_binance-futures_book_snapshot_25_BTCUSDT.csv": "tardis",
    "tardis_bitmex_trades_XBTUSD.csv": "tardis",
    "tardis_deribit_incremental_book_L2_BTC-PERPETUAL.csv": "tardis",
}
UNKNOWN = (
    "coinbase_btc-usd_trades_20230905.csv.gz",
    "hathix_coingecko_bitcoin.csv",
    "lukmol_btc_funding_daily.csv.gz",
    "nautilus_polymarket_gamma_market.json",
)


def recognised(path):
    return layout_of(path).name


def test_every_layout_is_recognised_or_mapped():
    for layout in LAYOUTS.values():
        is_recognised = layout.recognises.__func__ is not Layout.recognises.__func__
        assert is_recognised != issubclass(layout, Mapped)


@pytest.mark.slow
@each_row(("name", "layout"), RECORDED.items())
def test_the_recorded_files(recorded, name, layout):
    assert recognised(recorded / name) == layout


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_recorded_files_are_no_layout(recorded, name):
    with pytest.raises(QueryError, match=r"as a file of your own: ingest\(file, lake, "):
        recognised(recorded / name)


def test_a_name_alone_can_tell(write):
    assert recognised(write("1,2,3,4,5,6", name="BTCUSDT-trades-2024-08-08.csv")) == "binance-vision"


def test_several_layouts_are_named(write, monkeypatch):
    def layout(name, answer):
        return type(name, (Layout,), {"name": name, "recognises": lambda *_: answer})

    some = {name: layout(name, name != "none") for name in ("one", "other", "none")}
    monkeypatch.setattr(layouts, "LAYOUTS", some)
    with pytest.raises(QueryError, match="one of the layouts it could be: one, other"):
        recognised(write("x"))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(IngestError, match="No such file"):
        recognised(tmp_path / "missing")


def test_what_is_no_file_with_text_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    for name, said in {"pipe": "not a regular file", "empty": "the file is empty", ".": "a folder"}.items():
        with pytest.raises(IngestError, match=said):
            recognised(tmp_path / name)


@pytest.mark.slow
def test_files_of_several_layouts_go_in_together(lake, recorded):
    names = ("tardis_bitmex_trades_XBTUSD.csv", "tardis-node_normalized_liquidation.jsonl")
    report = ingest([recorded / name for name in names], lake, amount_unit="quote")
    assert report.trades_new == 10
    assert lake.scan("liquidations").collect().height == 37
    again = ingest([recorded / name for name in names], lake, amount_unit="quote")
    assert all(file.already_ingested for file in again.files)


def test_what_columns_there_are_is_not_asked_of_a_recognised_file(write, lake):
    for option in ({"columns": {}}, {"table": "trades"}, {"delimiter": ";"}):
        with pytest.raises(QueryError, match="expected nothing, recognised files have none to choose"):
            ingest(write("x"), lake, **option)
    with pytest.raises(QueryError, match="delimiter"):
        ingest(write("x"), lake, layout="jsonl", exchange="X", delimiter=";")


def test_a_layout_that_is_not_there_is_named(write, lake):
    with pytest.raises(QueryError, match="did you mean 'tardis-node'"):
        ingest(write("x"), lake, layout="tardis_node")


def test_a_venue_is_asked_for_where_the_file_does_not_name_it(write, lake):
    with pytest.raises(QueryError, match="exchange: left out, expected the exchange of log"):
        ingest(write("1723161253000000000 {}"), lake)
