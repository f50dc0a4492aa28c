"""Markets whose coin and quote nobody can read out of their symbol."""

from __future__ import annotations

import pytest

from ingested import ingest
from tidytape import Client
from tidytape.errors import QueryError
from tidytape.query import PointsQuery

T = 1_700_000_000
HEAD = "symbol,id,timestamp,side,price,amount"
ODD, PLAIN = f"BUSZ2,1,{T},buy,5,2", f"BTC-USD,1,{T},buy,5,2"
WINDOW = {"exchange": "X", "interval": "1h", "start": T - 3600, "end": T + 3600}


def put(path, lake, **options):
    return ingest(
        path, lake, layout="csv", **{"exchange": "X", "columns": {"raw_symbol": "symbol"}, **options}
    )


@pytest.fixture
def both(write, lake):
    """A file of two markets, one of which cannot be named."""
    path = write(HEAD, ODD, PLAIN)
    return path, put(path, lake)


def names(lake):
    columns = ("raw_symbol", "normalized_symbol", "coin", "quote_coin")
    return lake.markets().sort("raw_symbol").select(columns).rows()


def test_it_does_not_lose_the_others_and_is_reported(both, lake):
    _, report = both
    assert report.trades_new == 2
    assert names(lake) == [("BTC-USD", "BTC-USD", "BTC", "USD"), ("BUSZ2", None, None, None)]
    assert report.unnamed == (("X", "BUSZ2"),)
    assert "X BUSZ2: no names, coin and quote cannot be read out of the raw symbol, SPOT" in str(report)
    assert "again with --raw-symbol BUSZ2 --normalized-symbol COIN-QUOTE" in str(report)


@pytest.mark.slow
def test_what_the_report_says_names_it(both, lake):
    path, _ = both
    report = put(path, lake, raw_symbol="BUSZ2", normalized_symbol="BUSD-USD")
    assert names(lake)[1] == ("BUSZ2", "BUSD-USD", "BUSD", "USD")
    assert (report.trades_new, report.unnamed) == (0, ())
    assert put(path, lake).unnamed == ()


@pytest.mark.slow
def test_a_file_of_it_alone_is_refused(write, lake):
    path = write(HEAD, ODD)
    version = lake.version()
    with pytest.raises(QueryError, match="quote: left out, expected the currency of BUSZ2"):
        put(path, lake)
    assert lake.version() == version
    put(path, lake, normalized_symbol="BUSD-USD")
    assert names(lake)[0][1] == "BUSD-USD"


@pytest.mark.slow
def test_several_that_cannot_be_named_are_not_one(write, lake):
    """Two markets without a name share none, whoever asks for distinct names."""
    put(write(HEAD, ODD, ODD.replace("BUSZ2", "ODDZ2")), lake)
    with Client.local(lake.path) as client:
        assert client.markets(distinct=True)["raw_symbol"].to_list() == ["BUSZ2", "ODDZ2"]


@pytest.mark.usefixtures("both")
class TestTheService:
    @pytest.mark.slow
    def test_lists_it(self, lake):
        with Client.local(lake.path) as client:
            found = client.markets()
            assert found["raw_symbol"].to_list() == ["BTC-USD", "BUSZ2"]
            assert found["coin"].to_list() == ["BTC", None]
            assert client.markets(coin="BTC")["raw_symbol"].to_list() == ["BTC-USD"]
            assert client.markets(symbol_filter="busz")["raw_symbol"].to_list() == ["BUSZ2"]

    def test_answers_by_raw_symbol(self, lake):
        with Client.local(lake.path) as client:
            found = client.candles(raw_symbol="BUSZ2", **WINDOW)
        assert found.select("raw_symbol", "close", "volume").rows() == [("BUSZ2", 5.0, 2.0)]

    def test_does_not_select_it_by_coin(self, lake):
        with Client.local(lake.path) as client:
            found = client.candles(coin="BTC", **WINDOW)
            assert found["raw_symbol"].unique().to_list() == ["BTC-USD"]
            with pytest.raises(QueryError, match="coin"):
                client.candles(coin="BUSZ2", **WINDOW)

    def test_refuses_dollars_of_an_unknown_quote(self, lake):
        with (
            Client.local(lake.path) as client,
            pytest.raises(QueryError, match="markets with names"),
        ):
            client.candles(raw_symbol="BUSZ2", quote="USD", **WINDOW)

    def test_never_sums_coins_that_may_be_different(self, write, lake):
        put(write(HEAD, ODD.replace("BUSZ2", "ODDZ2"), PLAIN, name="b"), lake)
        group = {"group_by": "open_interest_weighted_avg", "raw_symbol": ["BUSZ2", "ODDZ2"]}
        query = PointsQuery(type="FUNDING_RATE_AGG", **group, **WINDOW)
        with (
            Client.local(lake.path) as client,
            pytest.raises(
                QueryError, match="markets with names; ingest their files again with normalized_symbol"
            ),
        ):
            client.fetch(query)

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["TRADE_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG", "TRADE"])
    def test_answers_every_type_of_trades(self, lake, kind):
        with Client.local(lake.path) as client:
            assert client.fetch(PointsQuery(type=kind, raw_symbol="BUSZ2", **WINDOW)).frame.height


@pytest.mark.slow
def test_the_recorded_one(recorded, lake):
    path = recorded / "tardis-node_normalized_trade.jsonl.gz"
    report = ingest(path, lake, layout="tardis-node", skip_bad=True, amount_unit="coin")
    assert report.trades_new == 156  # two of them without a side
    assert "BUSZ2" in {symbol for _, symbol in report.unnamed}
    print(report.unnamed)
    ingest(path, lake, layout="tardis-node", skip_bad=True, raw_symbol="BUSZ2", normalized_symbol="B-USD")
    found = lake.markets()
    assert found.filter(raw_symbol="BUSZ2")["normalized_symbol"].to_list() == ["B-USD"]
