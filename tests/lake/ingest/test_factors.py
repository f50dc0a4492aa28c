"""Markets whose unit is several coins: what is in the lake is in coins, exact to the last bit of a float."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import tidytape
from followed import Steps
from ingested import ingest
from lakes import empty_lake
from tables import each_row
from thorough import often
from tidytape.errors import QueryError
from tidytape.lake import TABLES, Batch, Lake, LakeWriter
from tidytape.lake._symbols import QUOTES, guessed, multiple, multiple_of
from tidytape.lake.ingest import Csv, Market
from tidytape.lake.ingest import ingest as library_ingest
from tidytape.lake.ingest._contracts import COUNTED
from tidytape.lake.ingest._factors import per_coin, product
from tidytape.lake.record import follow

DAY = 1_693_929_600
UNITS = {"exchange": "X", "raw_symbol": "1000PEPEUSDT"}
COINS = {"exchange": "X", "raw_symbol": "PEPEUSDT"}

# Decimals as exchanges write them: up to 15 digits, which a float tells apart, however small.
DECIMALS = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places),
    st.integers(1, 10**15 - 1),
    st.integers(0, 22),
)
FACTORS = st.one_of(
    st.integers(3, 8).map(lambda places: Decimal(10) ** places),
    st.sampled_from([Decimal("0.001"), Decimal(7), Decimal("12.5"), Decimal(10_000_000)]),
)


@pytest.mark.slow
@given(
    st.sampled_from([table.name for table in COUNTED]),
    st.lists(DECIMALS, min_size=1, max_size=20),
    FACTORS,
)
@settings(max_examples=60, deadline=None)
def test_each_number_is_the_float_nearest_to_the_decimal(
    name: str, numbers: list[Decimal], factor: Decimal
) -> None:
    table = TABLES[name]
    floats = [float(number) for number in numbers]
    filled = {column.name: floats for column in table.columns if column.dtype == "float64"}
    rows = pl.DataFrame({**UNITS, "timestamp": range(len(floats)), **filled})
    identity = pl.int_range(pl.len()).cast(pl.String if table.identity == "id" else pl.Int64)
    rows = rows.with_columns(identity.alias(table.identity))
    others = rows.with_columns(raw_symbol=pl.lit("OTHER"))
    batch = Batch(table)
    batch.add(pl.concat([rows, others]))
    per_coin(batch, {(UNITS["exchange"], UNITS["raw_symbol"]): factor, ("X", "OTHER"): Decimal(1)})
    (part,) = batch.parts
    got = part.frame()
    assert_frame_equal(got.filter(raw_symbol="OTHER"), others)
    precise = Context(prec=80)
    for column in table.columns:
        want = floats
        if column.unit == "coin":
            want = [float(precise.multiply(number, factor)) for number in numbers]
        elif column.unit == "quote per coin":
            want = [float(precise.divide(number, factor)) for number in numbers]
        if column.name in filled:
            assert got.filter(raw_symbol=UNITS["raw_symbol"])[column.name].to_list() == want, column.name


@pytest.mark.slow
@given(
    st.lists(st.one_of(st.floats(), DECIMALS.map(float), st.integers(-(10**6), 10**6).map(float))),
    FACTORS,
    st.sampled_from([1, -1]),
)
@settings(max_examples=300, deadline=None)
def test_a_product_is_that_of_the_shortest_decimals(
    numbers: list[float], factor: Decimal, power: int
) -> None:
    got = product(np.array(numbers, np.float64), factor, power=power).tolist()
    want = [
        float(Fraction(repr(number)) * Fraction(factor) ** power)
        if math.isfinite(number) and abs(number) < 1e290
        else number
        for number in numbers
    ]
    # Larger numbers overflow; no price or amount is one.
    got = [
        before if 1e290 <= abs(before) < math.inf else number
        for number, before in zip(got, numbers, strict=True)
    ]
    assert [str(abs(number)) for number in got] == [
        str(abs(number)) for number in want
    ]  # zeros have no sign here


def test_the_quotient_of_floats_would_be_another_number() -> None:
    """Why a division of floats does not suffice: the level of a profile would be another one."""
    assert 0.0100007 / 1000 == 1.0000699999999999e-05


# What files of a market of units hold, and what files of the same market in coins would.
PRICES = ("0.0123456", "0.0123457", "0.0119999", "0.0123456")
AMOUNTS = ("3", "2.5", "1000.125", "12")


def shifted(number: str, places: int) -> str:
    return f"{Decimal(number).scaleb(places):f}"


def trades(unit: int) -> list[str]:
    return ["id,timestamp,side,price,amount"] + [
        f"{n},{DAY + n},buy,{shifted(price, -unit)},{shifted(amount, unit)}"
        for n, (price, amount) in enumerate(zip(PRICES, AMOUNTS, strict=True))
    ]


def candles(unit: int) -> list[str]:
    low, high = shifted("0.0119999", -unit), shifted("0.0123457", -unit)
    return ["timestamp,open,high,low,close,volume,quote_volume,buy_volume,buy_quote_volume"] + [
        f"{DAY + n * 60},{low},{high},{low},{high},{shifted(amount, unit)},{Decimal(amount) * Decimal('0.012')},,"
        for n, amount in enumerate(AMOUNTS)
    ]


def book(unit: int) -> list[str]:
    return ["timestamp,last_id,first_id,is_snapshot,side,price,size"] + [
        f"{DAY + n},{n + 1},{n + 1},{'true' if n == 0 else 'false'},BID,{shifted(price, -unit)},{shifted(amount, unit)}"
        for n, (price, amount) in enumerate(zip(PRICES, AMOUNTS, strict=True))
    ]


def interest(unit: int) -> list[str]:
    return ["timestamp,amount,quote_amount"] + [
        f"{DAY + n},{shifted(amount, unit)},{amount}" for n, amount in enumerate(AMOUNTS)
    ]


def liquidations(unit: int) -> list[str]:
    return ["id,timestamp,side,price,amount"] + [
        f"{n},{DAY + n},BUY,{shifted(price, -unit)},{shifted(amount, unit)}"
        for n, (price, amount) in enumerate(zip(PRICES, AMOUNTS, strict=True))
    ]


FILES = {
    "trades": trades,
    "candles": candles,
    "book": book,
    "open_interest": interest,
    "liquidations": liquidations,
}


def rows_of(lake: Lake, table: str) -> pl.DataFrame:
    rows = lake.scan(table).drop("raw_symbol").collect()
    return rows.sort("timestamp", maintain_order=True)


@pytest.mark.slow
@each_row("table", list(FILES))
def test_units_and_coins_of_one_market_are_the_same_rows(
    table: str, write: Callable[..., Path], tmp_path: Path
) -> None:
    more = {"interval": "1m"} if table == "candles" else {}
    in_units, in_coins = empty_lake(tmp_path / "units"), empty_lake(tmp_path / "coins")
    lines = FILES[table]
    ingest(write(*lines(0), name="u"), in_units, layout="csv", table=table, **UNITS, **more)
    ingest(write(*lines(3), name="c"), in_coins, layout="csv", table=table, **COINS, **more)
    in_quote = [column.name for column in TABLES[table].columns if column.unit == "quote"]
    # Amounts in the quote do not change. Of trades they are computed, and may round to a neighbour.
    assert_frame_equal(
        rows_of(in_units, table).drop(in_quote), rows_of(in_coins, table).drop(in_quote), check_exact=True
    )
    assert_frame_equal(rows_of(in_units, table), rows_of(in_coins, table), rel_tol=1e-15)
    names = ("normalized_symbol", "coin", "quote_coin", "block_size")
    assert in_units.markets().select(names).rows() == in_coins.markets().select(names).rows()
    assert (in_units.markets()["factor"].item(), in_coins.markets()["factor"].item()) == (1000.0, None)


@pytest.mark.slow
def test_both_markets_of_a_coin_are_in_one_sum(write: Callable[..., Path], lake: Lake) -> None:
    ingest(write(*trades(0), name="u"), lake, layout="csv", **UNITS)
    ingest(write(*trades(3), name="c"), lake, layout="csv", exchange="Y", raw_symbol="PEPEUSDT")
    window = {"interval": "1h", "start": DAY, "end": DAY + 3600}
    with tidytape.Client.local(lake.path) as client:
        whole = client.candles(coin="PEPE", exchange=["X", "Y"], group_by="sum", quote=None, **window)
        parts = client.candles(coin="PEPE", exchange=["X", "Y"], **window)
        markets = client.markets(coin="PEPE").select("exchange", "raw_symbol", "factor").rows()
    assert markets == [("X", "1000PEPEUSDT", 1000.0), ("Y", "PEPEUSDT", None)]
    assert parts.select("open", "high", "low", "close", "volume").unique().height == 1
    coins = float(sum(map(Decimal, AMOUNTS)) * 1000)
    assert parts["volume"].to_list() == [coins, coins]
    assert (
        whole.select("open", "high", "low", "close").rows()
        == parts.select("open", "high", "low", "close")[:1].rows()
    )
    dollars = sum(Decimal(p) * Decimal(a) for p, a in zip(PRICES, AMOUNTS, strict=True))
    assert whole["volume"].item() == pytest.approx(float(2 * dollars), rel=1e-15)


# --- who says the factor ---


@each_row(
    ("exchange", "raw_symbol", "want"),
    [
        ("BINANCE_FUTURES", "1000PEPEUSDT", (1_000, "PEPE")),
        ("BINANCE", "1000SATSFDUSD", (1_000, "SATS")),
        ("BINANCE", "1MBABYDOGEUSDT", (1_000_000, "BABYDOGE")),
        ("BYBIT", "10000LADYSUSDT", (10_000, "LADYS")),
        ("BYBIT", "10000000AIDOGEUSDT", (10_000_000, "AIDOGE")),
        ("BYBIT", "SHIB1000USDT", (1_000, "SHIB")),
        ("BYBIT", "SHIB1000PERP", (1_000, "SHIB")),
        ("X", "1000BONK-USDT-SWAP", (1_000, "BONK")),
        ("X", "1000000MOG/USDT:USDT", (1_000_000, "MOG")),
        ("X", "1000pepeusdt", (1_000, "PEPE")),
        ("BINANCE", "1000XUSDT", (1_000, "X")),
        ("KUCOIN_FUTURES", "1000BONKUSDTM", (1_000, "BONK")),
        ("KUCOIN_FUTURES", "10000CATUSDCM", (10_000, "CAT")),
        ("KUCOIN_FUTURES", "XBTUSDM", None),
        # Coin and quote cannot be read, so what is left of the symbol is no coin.
        ("X", "1000PEPE", None),
        ("X", "1000HK", None),
        ("BINANCE", "1000SHIBBUSD", None),
        ("BYBIT", "ETHBTC1000", None),
        ("BYBIT", "1000PERP", None),
        ("HYPERLIQUID", "kPEPE", (1_000, "PEPE")),
        ("HYPERLIQUID", "kBONK-PERP", (1_000, "BONK")),
        ("X", "kPEPE", None),
        ("HYPERLIQUID", "KAS", None),
        ("HYPERLIQUID", "k", None),
        ("BINANCE", "SHIB1000USDT", None),
        ("BINANCE", "1INCHUSDT", None),
        ("KUCOIN", "1MIL-USDT", None),
        ("X", "100USDT", None),
        ("X", "1000USDT", None),
        ("X", "1CATUSDT", None),
        ("X", "100000.SZ", None),
        ("DERIBIT", "BTC-1MAR24", None),
        ("DERIBIT", "BTC-27DEC24-100000-C", None),
        ("BINANCE_FUTURES", "1000SHIBUSDT_240927", None),
        ("X", "BTCUSDT", None),
    ],
)
def test_what_a_symbol_says(exchange: str, raw_symbol: str, want: tuple[int, str] | None) -> None:
    assert multiple(exchange, raw_symbol) == want


@each_row(
    ("coin", "raw_symbol", "want"),
    [
        ("SHIB", "1000SHIBBUSD", 1_000),
        ("shib", "1000SHIBBUSD", 1_000),
        ("PEPE", "1000PEPE", 1_000),
        ("AB", "1MABUSDT", 1_000_000),
        ("SHIB", "SHIB1000BUSD", 1_000),
        ("SHIB", "1000SHIBUSDT_240927", 1_000),
        ("SHIB", "SHIBBUSD", None),
        ("1000SHIB", "1000SHIBBUSD", None),
        ("PEPE", "1000SHIBBUSD", None),
        ("S", "1000SHIBUSDT", None),  # the symbol is of SHIB in USDT
        ("B", "1000BUSD", 1_000),
        ("BTC", "BTC-27DEC24-100000-C", None),
    ],
)
def test_what_a_symbol_says_of_a_known_coin(coin: str, raw_symbol: str, want: int | None) -> None:
    assert multiple_of(coin, "X", raw_symbol) == want


@pytest.mark.slow
@given(
    st.text("ABCDEHSU", min_size=1, max_size=6),
    st.sampled_from(["1000", "10000", "1000000", "1M"]),
    st.data(),
)
@settings(max_examples=200, deadline=None)
def test_a_known_coin_behind_a_number_has_a_factor_unless_the_symbol_is_of_another(
    coin: str, number: str, draws: st.DataObject
) -> None:
    """Whoever names the coin never gets units of many under the name of one."""
    raw_symbol = number + coin + draws.draw(st.sampled_from(["", *QUOTES, "USDTM"]))
    symbol = guessed(raw_symbol)
    is_of_coin = symbol is None or symbol.coin == number + coin
    want = int(number.replace("M", "000000")) if is_of_coin else None
    assert multiple_of(coin, "X", raw_symbol) == want


def factor_of(lake: Lake) -> Any:
    return lake.markets().select("coin", "factor").row(0)


@pytest.mark.slow
def test_the_report_says_that_a_factor_was_read(write: Callable[..., Path], lake: Lake) -> None:
    report = ingest(write(*trades(0)), lake, layout="csv", **UNITS)
    assert "1 market of X, whose unit is 1,000 PEPE" in str(report)
    assert "factor=1 (--factor 1) if a unit of 1000PEPEUSDT is one coin" in str(report)
    assert "a unit is 1,000 PEPE" in str(report.markets[0])
    # Only the first file says it: later ones take what is registered.
    later = ingest(write(*trades(0)[:3], name="b"), lake, layout="csv", **UNITS)
    assert later.files[0].notes == ()
    assert factor_of(lake) == ("PEPE", 1000.0)


@pytest.mark.slow
@each_row(
    ("raw_symbol", "stated", "want"),
    [
        ("1000PEPEUSDT", {"factor": 1}, ("1000PEPE", 1.0)),
        ("1000PEPEUSDT", {"factor": "1000"}, ("PEPE", 1000.0)),
        ("1000PEPEUSDT", {"normalized_symbol": "PEPE-USDT"}, ("PEPE", 1000.0)),
        # Who calls the coin by the name of the unit counts units.
        ("1000PEPEUSDT", {"normalized_symbol": "1000PEPE-USDT"}, ("1000PEPE", None)),
        ("1000PEPEUSDT", {"coin": "1000PEPE"}, ("1000PEPE", None)),
        ("PEPEUSDT", {"factor": 1000}, ("PEPE", 1000.0)),
        ("BTCUSDT", {"factor": "0.001"}, ("BTC", 0.001)),
        ("1000AB", {"quote": "USD"}, ("1000AB", None)),  # a ticker
        # Coin and quote of this symbol cannot be read; who names the coin says where the number ends.
        ("1000SHIBBUSD", {"normalized_symbol": "SHIB-BUSD"}, ("SHIB", 1000.0)),
        ("1000SHIBBUSD", {"normalized_symbol": "1000SHIB-BUSD"}, ("1000SHIB", None)),
        ("1000SHIB", {"coin": "SHIB", "quote": "USD"}, ("SHIB", 1000.0)),
    ],
)
def test_the_caller_comes_first(
    raw_symbol: str,
    stated: dict[str, Any],
    want: tuple[str, float | None],
    write: Callable[..., Path],
    tmp_path: Path,
) -> None:
    lake = empty_lake(tmp_path / str((raw_symbol, *stated.items())))
    report = ingest(write(*trades(0)), lake, layout="csv", exchange="X", raw_symbol=raw_symbol, **stated)
    assert factor_of(lake) == want
    assert bool(report.files[0].notes) == (want[1] == 1000.0 and "factor" not in stated)
    amounts = lake.scan("trades").sort("sequence").collect()["amount"].to_list()
    assert amounts == [float(Decimal(amount) * Decimal(str(want[1] or 1))) for amount in AMOUNTS]


def test_a_coin_of_hyperliquid_with_its_quote(write: Callable[..., Path], lake: Lake) -> None:
    market = {"exchange": "HYPERLIQUID", "raw_symbol": "kPEPE", "quote": "USD"}
    ingest(write(*trades(0)), lake, layout="csv", **market, amount_unit="coin")
    assert lake.markets().select("normalized_symbol", "factor").row(0) == ("PEPE-USD", 1000.0)


@pytest.mark.slow
def test_a_market_of_an_older_lake_keeps_its_unit(write: Callable[..., Path], lake: Lake) -> None:
    """A lake that was made before there were factors: its market is registered, and has none."""
    ingest(write(*trades(0)[:2]), lake, layout="csv", **UNITS, factor=1)
    rows = lake.markets().with_columns(factor=pl.lit(None, pl.Float64))
    older = empty_lake(f"{lake.path}-older")
    older.writer().register(rows)
    older.writer().append("trades", lake.scan("trades").collect(), source="then")
    report = ingest(write(*trades(0)), older, layout="csv", **UNITS)
    assert report.files[0].notes == ()
    assert factor_of(older) == ("1000PEPE", None)
    assert older.scan("trades").sort("sequence").collect()["amount"].to_list() == list(map(float, AMOUNTS))
    with pytest.raises(
        QueryError, match=r"factor: got '1,000', expected what X 1000PEPEUSDT was stored with: 1"
    ):
        ingest(write(*trades(0), name="c"), older, layout="csv", **UNITS, factor=1000)
    assert factor_of(older) == ("1000PEPE", None)


@pytest.mark.slow
def test_events_without_a_registered_market_keep_their_unit(write: Callable[..., Path], lake: Lake) -> None:
    event = {**UNITS, "id": "a", "timestamp": 1, "sequence": 1, "side": "BUY", "price": 1.0, "amount": 1.0}
    lake.writer().append("trades", pl.DataFrame([event | {"quote_amount": 1.0}]), source="by hand")
    report = ingest(write(*trades(0)), lake, layout="csv", **UNITS)
    assert report.files[0].notes == ()
    assert set(lake.scan("trades").collect()["amount"]) == {1.0, *map(float, AMOUNTS)}


@pytest.mark.slow
def test_a_coin_that_is_named_later_is_asked_for_its_factor(write: Callable[..., Path], lake: Lake) -> None:
    """Units are in the lake, because nobody could read the symbol; under the name of the coin they would be wrong."""
    row = f"a,{DAY},buy,0.0123456,2.5"
    lines = ["id,timestamp,side,price,amount,symbol", f"{row},1000SHIBBUSD", f"{row},BTCUSDT"]
    ingest(write(*lines), lake, layout="csv", exchange="X", columns={"raw_symbol": "symbol"})
    later = {"layout": "csv", "exchange": "X", "raw_symbol": "1000SHIBBUSD", "normalized_symbol": "SHIB-BUSD"}
    with pytest.raises(
        QueryError, match="factor: left out, expected the number of SHIB in one unit of 1000SHIB"
    ):
        ingest(write(*trades(0), name="b"), lake, **later)
    for _ in range(2):
        ingest(write(*trades(0), name="b"), lake, **later, factor=1)
    assert lake.markets().filter(raw_symbol="1000SHIBBUSD").select("coin", "factor").row(0) == ("SHIB", None)
    assert ingest(write(*trades(0)[:2], name="c"), lake, **later).files[0].notes == ()


@pytest.mark.slow
def test_a_summary_of_options_in_the_registry_does_not_hide_the_factor(
    write: Callable[..., Path], lake: Lake
) -> None:
    ingest(write(*trades(0)[:3]), lake, layout="csv", **UNITS)
    lake.writer().register(pl.DataFrame([{**UNITS, "tenor": "ONE_W"}]))
    ingest(write(*trades(0), name="b"), lake, layout="csv", **UNITS)
    amounts = lake.scan("trades").sort("sequence").collect()["amount"].to_list()
    assert amounts == [float(Decimal(amount) * 1000) for amount in AMOUNTS]


def test_another_factor_than_that_of_the_events_is_refused(write: Callable[..., Path], lake: Lake) -> None:
    ingest(write(*trades(0)), lake, layout="csv", **UNITS)
    version = lake.version()
    for factor in (1, 10_000):
        with pytest.raises(QueryError, match="was stored with: 1,000"):
            ingest(write(*trades(0), name="b"), lake, layout="csv", **UNITS, factor=factor)
    assert lake.version() == version
    assert ingest(write(*trades(0)), lake, layout="csv", **UNITS, factor="1000.0").files[0].already_ingested


@each_row("factor", [0, -1, "many", float("nan"), "1e16", "1.0000000000000001"])
def test_what_is_no_factor_is_refused(factor: Any) -> None:
    with pytest.raises(QueryError, match="factor"):
        Market(factor=factor)


@pytest.mark.slow
def test_contracts_are_converted_to_units_and_these_to_coins(write: Callable[..., Path], lake: Lake) -> None:
    """The size of a contract counts units, as its price is that of a unit."""
    ingest(write(*trades(0)), lake, layout="csv", **UNITS, contract="linear", contract_size=10)
    rows = lake.scan("trades").sort("sequence").collect()
    assert rows["amount"].to_list() == [float(Decimal(amount) * 10_000) for amount in AMOUNTS]
    assert rows["price"].to_list() == [float(Decimal(price) / 1000) for price in PRICES]
    inverse = empty_lake(f"{lake.path}-inverse")
    ingest(write(*trades(0), name="i"), inverse, layout="csv", **UNITS, contract="inverse", contract_size=10)
    rows = inverse.scan("trades").sort("sequence").collect()
    assert rows["quote_amount"].to_list() == [float(Decimal(amount) * 10) for amount in AMOUNTS]
    assert (rows["price"] * rows["amount"]).to_list() == pytest.approx(
        rows["quote_amount"].to_list(), rel=1e-14
    )


@pytest.mark.slow
def test_the_factor_is_registered_before_the_events(
    write: Callable[..., Path], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest that ends between the two commits leaves no events whose unit the registry does not say."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LakeWriter, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ingest(write(*trades(0)), lake, layout="csv", **UNITS)
    assert lake.markets()["factor"].to_list() == [1000.0]
    assert lake.scan("trades").collect().is_empty()
    # No event has been stored, so the caller may still state another one.
    ingest(write(*trades(0)), lake, layout="csv", **UNITS, factor=1)
    assert factor_of(lake) == ("1000PEPE", 1.0)


@pytest.mark.slow
def test_a_followed_log_has_the_factor_in_every_piece(tmp_path: Path) -> None:
    lines = [line + "\n" for line in trades(0)]
    whole, lake = empty_lake(tmp_path / "whole"), empty_lake(tmp_path / "lake")
    log = tmp_path / "log.csv"
    log.write_text("".join(lines))
    ingest(log, whole, layout="csv", **UNITS)
    log.write_text("".join(lines[:2]))

    def add(line: str) -> Callable[[], object]:
        return lambda: log.write_text(log.read_text() + line)

    for stop in (Steps(add(lines[2])), Steps(add(lines[3]), add(lines[4]))):
        follow(log, lake, Csv(), market=Market(**UNITS), every=1e-9, stop=stop)
    assert_frame_equal(lake.scan("trades").collect().sort("id"), whole.scan("trades").collect().sort("id"))
    assert_frame_equal(lake.markets(), whole.markets())


@pytest.mark.slow
def test_one_file_of_both_markets(write: Callable[..., Path], lake: Lake) -> None:
    head, *units = trades(0)
    _, *coins = trades(3)
    rows = [f"{line},1000PEPEUSDT" for line in units] + [f"{line},PEPEUSDT" for line in coins]
    ingest(write(f"{head},symbol", *rows), lake, layout="csv", exchange="X", columns={"raw_symbol": "symbol"})
    both = (
        lake.scan("trades").select("raw_symbol", "id", "price", "amount").collect().sort("id", "raw_symbol")
    )
    first, second = (
        both.filter(raw_symbol=symbol).drop("raw_symbol") for symbol in ("1000PEPEUSDT", "PEPEUSDT")
    )
    assert_frame_equal(first, second, check_exact=True)
    assert set(lake.markets()["coin"]) == {"PEPE"}


# --- markets of a file do not change each other's rows ---

MIXED = ("1000PEPEUSDT", "1000BONKUSDT", "10000LADYSUSDT", "1MBABYDOGEUSDT", "PEPEUSDT", "BTCUSDT")
FILES_OF_MARKETS = st.lists(st.sets(st.sampled_from(MIXED), min_size=1), min_size=1, max_size=3)


def rows_of_markets(symbols: set[str], number: int) -> list[str]:
    """One trade of each market; the number makes times and identifiers differ between files."""
    return [f"{symbol}{number},{DAY + number},buy,0.0123456,2.5,{symbol}\n" for symbol in sorted(symbols)]


HEAD_OF_MARKETS = "id,timestamp,side,price,amount,symbol\n"
OF_MARKETS = Csv(columns={"raw_symbol": "symbol"})


def stored(lake: Lake) -> tuple[pl.DataFrame, pl.DataFrame]:
    trades_of_lake = lake.scan("trades").drop("sequence").collect().sort("raw_symbol", "id")
    return trades_of_lake, lake.markets().sort("raw_symbol")


@pytest.mark.slow
@given(FILES_OF_MARKETS)
@example(
    [{"1000PEPEUSDT"}, {"1000PEPEUSDT", "1000BONKUSDT"}]
)  # a registered factor is a float, a new one is not
@settings(max_examples=often(1, thoroughly=100), deadline=None)
def test_any_files_of_several_markets_are_stored_like_files_of_one(files: list[set[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        mixed, single, followed = (empty_lake(Path(folder, name)) for name in ("mixed", "single", "followed"))
        log = Path(folder, "log.csv")
        log.write_text(HEAD_OF_MARKETS)
        steps, of_several, of_one = [], [], []
        for number, symbols in enumerate(files):
            lines = rows_of_markets(symbols, number)
            steps.append(partial(_add, log, lines))
            of_several.append(Path(folder, f"{number}.csv"))
            of_several[-1].write_text(HEAD_OF_MARKETS + "".join(lines))
            for place, line in enumerate(lines):
                of_one.append(Path(folder, f"{number}-{place}.csv"))
                of_one[-1].write_text(HEAD_OF_MARKETS + line)
        market = Market(exchange="X")
        library_ingest(of_several, mixed, OF_MARKETS, market=market, progress=False)
        library_ingest(of_one, single, OF_MARKETS, market=market, progress=False)
        follow(log, followed, OF_MARKETS, market=market, every=1e-9, stop=Steps(*steps))
        for lake in (mixed, followed):
            for got, want in zip(stored(lake), stored(single), strict=True):
                assert_frame_equal(got, want, check_exact=True)


def _add(log: Path, lines: list[str]) -> None:
    with log.open("a") as file:
        file.writelines(lines)
