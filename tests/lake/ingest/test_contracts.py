"""Amounts in contracts: what they are in coin and in quote."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingested import ingest
from lakes import empty_lake
from tidytape.errors import IngestError, QueryError
from tidytape.lake import TRADES, Batch
from tidytape.lake._tables import BOOK, LIQUIDATIONS, OPEN_INTEREST, RECORDED_CANDLES
from tidytape.lake.ingest._contracts import Contract, ContractKind, in_coin

HEAD = "id,timestamp,side,price,amount"
DAY = 1_693_929_600


def take(path, lake, **options):
    return ingest(path, lake, layout="csv", **{"exchange": "X", "raw_symbol": "BTC-USD", **options})


def row(number, price=100.5, amount=3):
    return f"{number},{DAY + number},buy,{price},{amount}"


def amounts(lake, **which):
    return lake.scan("trades", **which).sort("sequence").select("amount", "quote_amount").collect().rows()


def converted(table, contract, **columns):
    frame = pl.DataFrame({"exchange": "X", "raw_symbol": "Y", "timestamp": 1, **columns})
    batch = Batch(table)
    batch.add(frame.with_columns(pl.lit("1").alias("id"), pl.lit(1).alias("last_id")))
    in_coin(batch, {("X", "Y"): contract})
    return batch.parts[0].frame()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size", "want"),
    [
        ("linear", "0.001", (0.003, 0.003 * 100.5)),
        ("LINEAR", 0.1, (0.3, 0.3 * 100.5)),  # 3 × 0.1 in floats is 0.30000000000000004
        ("vanilla", None, (3.0, 301.5)),
        ("vanilla", 5, (15.0, 15 * 100.5)),
        ("inverse", Decimal(100), (300 / 100.5, 300.0)),
        ("inverse", 1, (3 / 100.5, 3.0)),
    ],
)
def test_trades_are_converted(write, lake, kind, size, want):
    take(write(HEAD, row(1)), lake, contract=kind, contract_size=size)
    assert amounts(lake) == [want]
    assert lake.markets().select("contract", "contract_size").rows() == [
        (kind.upper(), float(1 if size is None else size))
    ]


def test_amounts_stay_as_they_are_without_a_contract(write, lake):
    take(write(HEAD, row(1)), lake)
    assert amounts(lake) == [(3.0, 301.5)]
    assert lake.markets().select("contract", "contract_size").rows() == [(None, None)]


@pytest.mark.slow
def test_the_registered_contract_holds(write, lake):
    take(write(HEAD, row(1)), lake, contract="inverse", contract_size=100)
    take(write(HEAD, row(2), name="b"), lake)
    take(write(HEAD, row(3), name="c"), lake, contract="INVERSE", contract_size="100.0")
    assert amounts(lake) == [(300 / 100.5, 300.0)] * 3
    assert take(write(HEAD, row(1)), lake).files[0].already_ingested
    assert take(write(HEAD, row(1)), lake, contract="inverse", contract_size=100).files[0].already_ingested


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"contract": "linear", "contract_size": 100}, {"contract_size": 10}])
def test_another_contract_than_the_registered_one_is_refused(write, lake, options):
    take(write(HEAD, row(1)), lake, contract="inverse", contract_size=100)
    version = lake.version()
    with pytest.raises(QueryError, match=r"contract: got .* stored with: INVERSE of 100"):
        take(write(HEAD, row(2), name="b"), lake, **{"contract": "inverse", **options})
    assert lake.version() == version


def test_contracts_after_coins_are_refused(write, lake):
    take(write(HEAD, row(1)), lake)
    with pytest.raises(QueryError, match="X BTC-USD was stored with: amounts in coin"):
        take(write(HEAD, row(2), name="b"), lake, contract="vanilla")


@pytest.mark.slow
def test_a_market_without_events_may_get_another_contract(write, lake):
    lake.writer().register(
        pl.DataFrame(
            {"exchange": ["X"], "raw_symbol": ["BTC-USD"], "contract": ["LINEAR"], "contract_size": [5.0]}
        )
    )
    take(write(HEAD, row(1)), lake, contract="inverse", contract_size=100)
    assert amounts(lake) == [(300 / 100.5, 300.0)]


def test_a_kind_without_a_size_is_not_converted(write, lake):
    lake.writer().register(
        pl.DataFrame({"exchange": ["X"], "raw_symbol": ["BTC-USD"], "contract": ["INVERSE"]})
    )
    take(write(HEAD, row(1)), lake)
    assert amounts(lake) == [(3.0, 301.5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contract": "invers"}, "contract: got 'invers', expected one of .*did you mean 'INVERSE'"),
        ({"contract": "inverse"}, "contract_size: left out"),
        ({"contract": "linear"}, "contract_size: left out"),
        ({"contract_size": 5}, "contract_size: got 5, expected contract beside it"),
        ({"contract": "linear", "contract_size": 0}, "contract_size: got 0"),
        ({"contract": "linear", "contract_size": "x"}, "contract_size: got 'x'"),
        ({"contract": "linear", "contract_size": "1e400"}, "contract_size: got '1e400'"),
    ],
)
def test_what_cannot_be_right_is_named(write, lake, options, message):
    version = lake.version()
    with pytest.raises(QueryError, match=message):
        take(write(HEAD, row(1)), lake, **options)
    assert lake.version() == version


@pytest.mark.slow
def test_a_file_of_several_markets_takes_each_by_its_own(write, lake):
    take(write(HEAD, row(1)), lake, contract="inverse", contract_size=100)
    both = write("raw_symbol," + HEAD, "BTC-USD," + row(2), "ETH-USD," + row(2), name="both")
    take(both, lake, raw_symbol=None)
    assert amounts(lake, raw_symbol="BTC-USD") == [(300 / 100.5, 300.0)] * 2
    assert amounts(lake, raw_symbol="ETH-USD") == [(3.0, 301.5)]


def test_a_book(lake):
    inverse = Contract(ContractKind.INVERSE, Decimal(10))
    got = converted(BOOK, inverse, price=[50.0, 0.0], size=[5.0, 0.0])
    assert got["size"].to_list() == [1.0, 0.0]  # an empty level needs no price
    linear = converted(BOOK, Contract(ContractKind.LINEAR, Decimal("0.1")), price=[50.0], size=[3.0])
    assert linear["size"].to_list() == [0.3]


def test_liquidations():
    got = converted(
        LIQUIDATIONS,
        Contract(ContractKind.INVERSE, Decimal(1)),
        price=[50.0],
        amount=[5.0],
        quote_amount=[0.0],
    )
    assert got.select("amount", "quote_amount").rows() == [(0.1, 5.0)]


def test_open_interest_of_an_inverse_contract_needs_a_price(lake):
    inverse = Contract(ContractKind.INVERSE, Decimal(10))
    got = converted(OPEN_INTEREST, inverse, amount=[5.0], quote_amount=[None], price=[25.0])
    assert got.select("amount", "quote_amount").rows() == [(2.0, 50.0)]
    for price in ({}, {"price": [None]}, {"price": [0.0]}):
        with pytest.raises(
            IngestError, match="open_interest: 1 amount of inverse contracts or in the quote without"
        ):
            converted(OPEN_INTEREST, inverse, amount=[5.0], **price)
    linear = Contract(ContractKind.LINEAR, Decimal("0.001"))
    assert converted(OPEN_INTEREST, linear, amount=[3.0])["amount"].to_list() == [0.003]
    kept = converted(OPEN_INTEREST, linear, amount=[3.0], quote_amount=[7.0])
    assert kept["quote_amount"].to_list() == [7.0]


def test_a_helper_price_is_not_stored(lake):
    batch = Batch(OPEN_INTEREST)
    batch.add(
        OPEN_INTEREST.conform(
            pl.DataFrame({"exchange": ["X"], "raw_symbol": ["Y"], "timestamp": [1], "amount": [5.0]})
        ).with_columns(price=25.0)
    )
    in_coin(batch, {("X", "Y"): Contract(ContractKind.INVERSE, Decimal(10))})
    lake.writer().append("open_interest", batch, source="a")
    row_ = lake.scan("open_interest").collect().row(0, named=True)
    assert (row_["amount"], row_["quote_amount"]) == (2.0, 50.0)


CANDLE = {
    "interval": 60, "open": 1.0, "high": 1.0, "low": 1.0, "close": 1.0, "volume": 3.0, "buy_volume": 1.0,
    "quote_volume": 7.0, "buy_quote_volume": None,
}  # fmt: skip


def test_volumes_of_linear_contracts(lake):
    got = converted(RECORDED_CANDLES, Contract(ContractKind.LINEAR, Decimal("0.001")), **CANDLE)
    assert got.select("volume", "buy_volume", "quote_volume").rows() == [(0.003, 0.001, 7.0)]


def test_volumes_of_inverse_contracts_without_coins_are_known_in_the_quote_alone():
    inverse = Contract(ContractKind.INVERSE, Decimal(100))
    names = ("volume", "buy_volume", "quote_volume", "buy_quote_volume")
    bare = CANDLE | {"quote_volume": None}
    got = converted(RECORDED_CANDLES, inverse, **bare)
    assert got.select(names).rows() == [(None, None, 300.0, 100.0)]
    with pytest.raises(
        IngestError, match=r"not as the file says in quote: 300 by the size .* and 7 by the file"
    ):
        converted(RECORDED_CANDLES, inverse, **CANDLE)
    both = bare | {"contracts": 30.0, "buy_contracts": 10.0}
    got = converted(RECORDED_CANDLES, inverse, **both)
    assert got.select(names).rows() == [(3.0, 1.0, 3000.0, 1000.0)]


@pytest.mark.slow
@given(count=st.integers(1, 10**6), price=st.floats(0.01, 1e5), off=st.sampled_from([0.1, 10.0, 1.01]))
def test_the_coins_of_the_venue_are_agreed_with_or_refused(count, price, off):
    """What is rounded as the venue does is the same amount; another size of a contract is another."""
    size = Contract(ContractKind.INVERSE, Decimal(100))
    coins = count * 100 / price
    columns = {"price": [price], "amount": [float(count)], "quote_amount": [0.0]}
    assert converted(TRADES, size, coins=[round(coins, 8)], **columns)["amount"].item() == pytest.approx(
        coins
    )
    with pytest.raises(IngestError, match="is the size another"):
        converted(TRADES, size, coins=[coins * off], **columns)


decimals = st.decimals(min_value=Decimal("0.00000001"), max_value=Decimal(10**6), places=4).filter(bool)


@pytest.mark.slow
@given(
    count=st.integers(1, 10**6),
    size=st.sampled_from(["0.1", "0.001", "0.01", "10", "100", "0.0001", "7", "2.5"]),
)
def test_whole_contracts_are_exact_decimals(count, size):
    got = converted(
        TRADES,
        Contract(ContractKind.LINEAR, Decimal(size)),
        price=[1.0],
        amount=[float(count)],
        quote_amount=[0.0],
    )
    assert got["amount"].item() == float(count * Decimal(size))


@given(count=decimals, size=st.sampled_from(["0.1", "0.001", "0.01", "10", "100", "0.0001", "7", "2.5"]))
def test_decimal_contracts_are_exact_decimals(count, size):
    got = converted(
        TRADES,
        Contract(ContractKind.LINEAR, Decimal(size)),
        price=[1.0],
        amount=[float(count)],
        quote_amount=[0.0],
    )
    want = count * Decimal(size)
    if len(want.normalize().as_tuple().digits) <= 15:
        assert got["amount"].item() == float(want)
    assert got["amount"].item() == pytest.approx(float(want), rel=1e-14)


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(
    trades=st.lists(
        st.tuples(st.integers(1, 10**6), st.decimals(min_value=1, max_value=10**5, places=2)),
        min_size=1,
        max_size=20,
    ),
    size=st.sampled_from([1, 10, 100]),
)
def test_an_inverse_perpetual_and_a_spot_market_of_one_volume_can_be_summed(tmp_path_factory, trades, size):
    folder = tmp_path_factory.mktemp("x")
    lake = empty_lake(folder / "lake")
    coins = [Decimal(count * size) / price for count, price in trades]
    for name, values in (("perp", [count for count, _ in trades]), ("spot", coins)):
        lines = [
            row(n, price, value) for n, ((_, price), value) in enumerate(zip(trades, values, strict=True), 1)
        ]
        (folder / name).write_text("\n".join([HEAD, *lines, ""]))
    take(folder / "perp", lake, raw_symbol="BTC-PERP", category="perpetual", normalized_symbol="BTC-USD",
         contract="inverse", contract_size=size)  # fmt: skip
    take(folder / "spot", lake)
    perp, spot = (
        lake.scan("trades", raw_symbol=name).sort("sequence").collect()["amount"]
        for name in ("BTC-PERP", "BTC-USD")
    )
    assert perp.to_list() == pytest.approx(spot.to_list(), rel=1e-12)
    both = lake.scan("trades").collect()["amount"].sum()
    assert both == pytest.approx(2 * float(sum(coins)), rel=1e-12)
