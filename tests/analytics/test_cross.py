"""Across exchanges: golden numbers, ties, what is not known, and recorded venues."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import polars as pl
import pytest

from analytics.cases.cross import CANDLES, INTEREST, RATES, at
from tables import each_row
from tidytape.analytics import cross
from tidytape.errors import MissingColumnError, NoMatchWarning, QueryError

pytestmark = pytest.mark.usefixtures("small_times")  # times are small numbers of nanoseconds

HOUR = 3_600_000_000_000


def markets(*values, column="close", time=0, **columns):
    """One row per market A, B, … of one time."""
    names = [chr(ord("A") + number) for number in range(len(values))]
    return pl.DataFrame(
        {
            "exchange": names,
            "raw_symbol": ["X"] * len(names),
            "timestamp": [time] * len(names),
            column: pl.Series(values, dtype=pl.Float64),
            **columns,
        }
    )


def btc(frame, *columns, hour=None):
    frame = frame.filter(coin="BTC") if hour is None else frame.filter(coin="BTC", timestamp=at(hour))
    return frame.select(columns).rows()


# --- sums ----------------------------------------------------------------------------------------------------------


def test_amounts_add_up_to_the_decimal_one_gets_by_hand():
    got = cross.total(CANDLES, amount="volume")
    assert btc(got, "volume", "markets", "coverage")[:3] == [(0.6, 3, 1.0), (0.7, 2, 1.0), (0.0, 1, 1.0)]
    assert 0.1 + 0.2 + 0.3 != 0.6


def test_a_sum_with_an_unknown_amount_is_unknown():
    got = cross.total(CANDLES, amount="volume")
    assert btc(got, "volume", "markets", "coverage")[3] == (None, 1, 0.5)  # A's volume of hour 3 is null
    got = cross.total(markets(None, float("nan"), float("inf")), amount="close")
    assert got.rows() == [(0, 0, 0.0, None)]


@pytest.mark.slow
def test_amounts_of_several_units_do_not_add_up(engine):
    coins = markets(1.0, 2.0, amount_unit=["COIN", "COIN"])
    mixed = pl.concat([coins, markets(3.0, 4.0, time=HOUR, amount_unit=["COIN", "USD"])])
    for frame, value in ((coins, 3.0), (mixed, None)):
        native = engine.frame(frame)
        sums = [
            cross.total(native, amount="close"),
            cross.total(native, amount="close", carry="1h"),
            cross.market_share(native, amount="close"),
        ]
        for got, name in zip(sums, ("close", "close", "total"), strict=True):
            assert set(engine.polars(got).fill_nan(None)[name]) == {value}
    means = cross.oi_weighted(mixed.rename({"close": "rate_close"}), mixed)
    assert (
        means.select("rate_close", "coverage", "open_interest", "markets").rows() == [(None,) * 3 + (2,)] * 2
    )
    candles = markets(10.0, 14.0, volume=[3.0, 1.0], amount_unit=["COIN", "USD"])
    means = cross.volume_weighted(candles.lazy()).collect()
    assert means.select("vwap", "volume", "coverage").rows() == [(None, None, None)]


def test_coins_without_a_name_are_one_coin():
    got = cross.total(CANDLES, amount="volume").filter(pl.col("coin").is_null())
    assert got.select("volume", "markets").rows() == [(5.0, 2)]


@pytest.mark.slow
def test_a_stock_holds_for_as_long_as_is_said():
    got = cross.total(INTEREST, amount=["open", "high", "low", "close"], carry="24h")
    assert btc(got, "open", "high", "low", "close", "markets") == [
        (10.1e9, 12.1e9, 11.1e9, 11.1e9, 3),  # A's low counts as its close
        (11.2e9, 11.4e9, 11.1e9, 11.3e9, 3),  # only B reported
        (None, None, None, None, 1),  # C's report has no close, B's lapsed
    ]
    short = cross.total(INTEREST, amount="close", carry="1h")
    assert btc(short, "close", "coverage") == [(11.1e9, 1.0), (0.3e9, 1.0), (None, 0.5)]
    flow = cross.total(INTEREST, amount="close")
    assert btc(flow, "close", "markets") == [(11.1e9, 3), (0.3e9, 1), (None, 1)]


def test_a_stock_is_unknown_while_the_last_report_has_no_number():
    names = {
        "exchange": ["A", "B"] * 3,
        "raw_symbol": "X",
        "timestamp": [0, 0, HOUR, HOUR, 9 * HOUR, 9 * HOUR],
    }
    frame = pl.DataFrame({**names, "close": [5.0, 7.0, None, float("nan"), None, None]})
    got = cross.total(frame, amount="close", carry="1h")
    assert got.rows() == [(0, 2, 1.0, 12.0), (HOUR, 0, 0.0, None), (9 * HOUR, 0, 0.0, None)]


def test_there_is_no_share_of_an_unknown_total():
    got = cross.market_share(markets(3.0, 1.0, column="volume"), amount="volume")
    assert got.select("total", "share").rows() == [(4.0, 0.75), (4.0, 0.25)]
    for unknown in (None, float("nan")):
        got = cross.market_share(markets(3.0, 1.0, unknown, column="volume"), amount="volume")
        assert got.select("total", "share").rows() == [(None, None)] * 3
    none = cross.market_share(markets(0.0, -1.0, column="volume"), amount="volume")
    assert none["share"].to_list() == [None, None]


def test_dominance_is_of_the_universe_that_is_stated():
    caps = pl.DataFrame({"coin": ["BTC", "ETH", "X"], "timestamp": [0] * 3, "marketcap": [3e12, 1e12, 4e12]})
    two = cross.dominance(caps, universe=["BTC", "ETH"])
    assert two.select("coin", "dominance", "universe_total").rows() == [
        ("BTC", 0.75, 4e12),
        ("ETH", 0.25, 4e12),
        ("X", None, 4e12),
    ]
    three = cross.dominance(caps, universe={"BTC", "ETH", "X"})
    assert three["dominance"].to_list() == [0.375, 0.125, 0.5]
    # Of Y nothing is known, so neither is the whole that the others are a share of.
    four = cross.dominance(caps, universe={"BTC", "ETH", "X", "Y"})
    assert four.select("dominance", "universe_total").unique().rows() == [(None, None)]
    assert four.select("universe_known", "universe_size").unique().rows() == [(3, 4)]
    alone = cross.dominance(caps.filter(coin="BTC"), universe=["BTC", "ETH"])
    assert alone.select("dominance", "universe_known").rows() == [(None, 1)]


def test_a_token_that_does_not_report_counts_for_a_day():
    caps = pl.DataFrame(
        {
            "coin": ["BTC", "ETH", "BTC", "BTC"],
            "timestamp": [0, 0, 24 * HOUR, 25 * HOUR],
            "marketcap": [3.0, 1.0, 1.0, 1.0],
        }
    )
    got = cross.dominance(caps, universe=["BTC", "ETH"]).filter(coin="BTC")
    assert got.select("dominance", "universe_known").rows() == [(0.75, 2), (0.5, 2), (None, 1)]


@pytest.mark.slow
def test_a_token_that_is_there_twice_makes_no_share_until_it_reports_anew(engine):
    caps = pl.DataFrame(
        {
            "coin": ["BTC", "BTC", "ETH", "ETH", "BTC"],
            "timestamp": [0, 0, 0, HOUR, 2 * HOUR],
            "marketcap": [3.0, 5.0, 1.0, 1.0, 3.0],
        }
    )
    for frame in (caps, caps.reverse()):
        got = engine.polars(cross.dominance(engine.frame(frame), universe=["BTC", "ETH"])).fill_nan(None)
        eth = got.filter(coin="ETH").sort("timestamp")
        assert eth.select("dominance", "universe_total", "universe_known").rows() == [(None, None, 2)] * 2
        btc = got.filter(coin="BTC").sort("timestamp")
        assert btc["dominance"].to_list() == [None, None, 0.75]


@pytest.mark.parametrize("universe", ["BTC", [], [1]])
def test_a_universe_is_names(universe):
    caps = pl.DataFrame({"coin": ["BTC"], "timestamp": [0], "marketcap": [1.0]})
    with pytest.raises(QueryError, match="universe"):
        cross.dominance(caps, universe=universe)


# --- means ---------------------------------------------------------------------------------------------------------


def test_golden_average_by_open_interest():
    rates, interest = markets(0.0005, 0.002, column="rate_close"), markets(10e9, 0.1e9)
    got = cross.oi_weighted(rates, interest)
    assert got["rate_close"].item() == pytest.approx(0.00051485, abs=5e-9)  # 0.051485%
    assert got["rate_close"].item() == pytest.approx((0.0005 * 100 + 0.002) / 101, rel=1e-14)
    assert got.select("coverage", "open_interest", "markets").row(0) == (1.0, 10.1e9, 2)


def test_coverage_is_what_the_markets_that_have_both_hold_of_all():
    got = cross.oi_weighted(RATES, INTEREST)
    hours = got.filter(coin="BTC")
    assert hours["timestamp"].to_list() == [at(0), at(1), at(26)]
    assert hours["markets"].to_list() == [2, 1, 1]
    # D has a rate and no open interest at hour 0, A's has lapsed at hour 26. C has no rate, ever.
    assert hours["coverage"].to_list() == [None, pytest.approx(0.1 / 11.1), None]
    assert hours["open_interest"].to_list() == [None, 11.1e9, None]
    both = cross.oi_weighted(RATES.filter(pl.col("exchange") != "D"), INTEREST).filter(coin="BTC")
    assert both["coverage"][0] == pytest.approx(10.1 / 11.1)
    assert hours["rate_close"].to_list()[1:] == [-0.001, 0.0003]
    # Zero is no open interest.
    assert got.filter(pl.col("coin").is_null()).select("rate_close", "coverage", "markets").rows() == [
        (0.0004, 1.0, 1)
    ]


@pytest.mark.slow
def test_open_interest_of_another_interval_counts_from_its_end():
    interest = markets(1.0, 3.0).with_columns(interval=pl.lit("DAY"))

    def of(hour, **terms):
        rates = markets(0.1, 0.3, column="rate_close", time=hour * HOUR).with_columns(interval=pl.lit("HOUR"))
        return cross.oi_weighted(rates, interest, **terms)["rate_close"].to_list()

    assert of(5) == of(22) == []  # the day's close is not known before the day ends
    assert of(23) == of(28) == pytest.approx([0.25])
    assert of(28, carry="4h") == []
    # An hour's close counts for the day that it ends with.
    hours = pl.concat(markets(one, 3.0, time=time * HOUR) for one, time in ((9.0, 22), (1.0, 23), (99.0, 24)))
    days = markets(0.1, 0.3, column="rate_close").with_columns(interval=pl.lit("DAY"))
    got = cross.oi_weighted(days, hours.with_columns(interval=pl.lit("HOUR")))
    assert got["rate_close"].to_list() == pytest.approx([0.25])
    assert len(cross.oi_weighted(days, hours.with_columns(interval=pl.lit("2D")))) == 0
    # Rates of both lengths in one average: what the shorter one's end knows.
    mixed = days.with_columns(interval=pl.Series(["DAY", "HOUR"]))
    assert len(cross.oi_weighted(mixed, hours.with_columns(interval=pl.lit("HOUR")), by=())) == 0


def test_open_interest_of_the_future_does_not_count():
    rates, interest = markets(0.1, 0.3, column="rate_close"), markets(1.0, 3.0, time=1)
    assert len(cross.oi_weighted(rates, interest)) == 0


def test_what_cannot_be_averaged_is_refused():
    rates, interest = markets(0.1, column="rate_close", coin=["BTC"]), markets(1.0)
    with pytest.raises(MissingColumnError, match="coin"):
        cross.oi_weighted(rates, interest)
    with pytest.raises(
        QueryError, match="open_interest: got 'a frame of pandas', expected a frame of polars"
    ):
        cross.oi_weighted(rates, interest.to_pandas(), by=())


def test_prices_are_weighted_by_what_was_traded_at_them():
    candles = markets(10.0, 14.0, 99.0, volume=[3.0, 1.0, 0.0])
    assert cross.volume_weighted(candles).rows() == [(0, 2, 1.0, 4.0, 11.0)]
    # The same volumes in USD: 30 and 14 of them.
    usd = candles.with_columns(volume=pl.Series([30.0, 14.0, 0.0]))
    assert cross.volume_weighted(usd, unit="quote").rows() == [(0, 2, 1.0, 4.0, 11.0)]
    for unknown in (markets(10.0, None, volume=[3.0, 7.0]), markets(10.0, 14.0, volume=[3.0, None])):
        assert cross.volume_weighted(unknown).rows() == [(0, 1, 0.5, None, None)]
    assert len(cross.volume_weighted(markets(10.0, volume=[0.0]))) == 0
    with pytest.raises(QueryError, match="unit"):
        cross.volume_weighted(candles, unit="USD")


# --- candles -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "order", [["exchange", "raw_symbol"], ["raw_symbol", "volume"]], ids=["by name", "otherwise"]
)
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
def test_the_first_to_trade_opens_and_the_last_closes(order, descending):
    got = cross.consolidated(CANDLES.sort(order, descending=descending))
    [first, second, third, fourth] = btc(got, "open", "high", "low", "close", "volume", "markets")
    # B and A traded in the same moments: the first by name opens, the last closes.
    assert first == (10.5, 12.0, 9.0, 11.0, 0.6, 3)
    assert second == (10.0, 10.5, 9.5, 10.25, 0.7, 1)  # a filled gap is no market
    assert third == (11.0, 11.0, 11.0, 11.0, 0.0, 0)  # unless there is no other
    assert fourth == (10.0, 10.0, 10.0, 10.0, None, 2)  # A's volume is null
    assert [row[0] for row in btc(got, "coverage")] == [1.0, 1.0, 1.0, 0.5]
    assert btc(got, "first_timestamp", "last_timestamp", hour=0) == [(at(0, 5), at(0, 50))]
    assert btc(got, "first_timestamp", hour=2) == [(None,)]


# --- beside each other ---------------------------------------------------------------------------------------------


def test_dispersion_names_the_ends():
    frame = markets(10.0, 12.0, 11.0, 12.0, 10.0, None)
    got = cross.dispersion(frame.reverse()).row(0, named=True)
    assert (got["markets"], got["lowest"], got["highest"], got["mean"], got["median"]) == (5, 10, 12, 11, 11)
    assert (got["range"], got["deviation"]) == (2, 1)
    assert got["relative_range"] == pytest.approx(2 / 11)
    assert (got["lowest_exchange"], got["highest_exchange"]) == ("A", "B")  # of equals the first


def test_one_market_is_not_apart():
    got = cross.dispersion(markets(10.0, None)).row(0, named=True)
    assert (got["markets"], got["range"], got["deviation"]) == (1, 0, None)
    rates = cross.dispersion(markets(-0.1, 0.1)).row(0, named=True)
    assert rates["relative_range"] is None


def test_deviation_of_large_prices_keeps_its_digits():
    got = cross.dispersion(markets(1e9, 1e9 + 1, 1e9 + 2))
    assert got["deviation"].item() == 1.0


def test_premium_is_over_the_reference():
    frame = markets(10.0, 12.0, 11.0, None)
    over = cross.premium(frame)
    assert over["premium"].to_list() == pytest.approx([-1 / 11, 1 / 11, 0])
    assert over["reference_rule"].unique().to_list() == ["median"]
    one = cross.premium(frame, reference={"exchange": "A"})
    assert one["premium"].to_list() == pytest.approx([0, 0.2, 0.1])
    assert one["reference_rule"].unique().to_list() == ["exchange=A"]


def test_a_reference_that_is_not_one_market_is_none():
    frame = markets(10.0, 12.0)
    with pytest.warns(NoMatchWarning, match="no row is of the reference"):
        of_none = cross.premium(frame, reference={"exchange": "Z"})
    for got in (cross.premium(frame, reference={"raw_symbol": "X"}), of_none):
        assert got.select("reference", "premium").rows() == [(None, None)] * 2
    assert cross.premium(markets(-1.0, 1.0), reference="mean")["premium"].to_list() == [None, None]
    with pytest.raises(QueryError, match="did you mean 'median'"):
        cross.premium(frame, reference="medium")
    with pytest.raises(QueryError, match="reference"):
        cross.premium(frame, reference={})
    with pytest.raises(MissingColumnError, match="venue"):
        cross.premium(frame, reference={"venue": "A"})


@pytest.mark.slow
def test_a_market_that_is_there_twice_is_one_venue_and_makes_no_number():
    frame = markets(1.0, 2.0, volume=[1.0, 3.0])
    later = frame.with_columns(pl.col("timestamp") + HOUR)
    double = pl.concat([frame, frame, later])
    total = cross.total(double, amount="close")
    assert total.select("close", "markets").rows() == [(None, 2), (3.0, 2)]
    standing = cross.total(double, amount="close", carry="1h")
    assert standing.equals(total)
    shares = cross.market_share(double, amount="close")
    assert shares["total"].to_list() == [None] * 4 + [3.0] * 2
    assert shares["share"].null_count() == 4
    apart = cross.dispersion(double)
    assert apart.select("markets", "lowest", "mean", "deviation", "highest_exchange").rows()[0] == (
        2,
        *[None] * 4,
    )
    assert apart.select("markets", "lowest", "mean").rows()[1] == (2, 1.0, 1.5)
    over = cross.premium(double)
    assert over["premium"].null_count() == 4
    assert cross.premium(double, reference={"exchange": "A"})["premium"].null_count() == 4
    mean = cross.volume_weighted(double)
    assert mean.select("vwap", "volume", "markets").rows() == [(None, None, 2), (1.75, 4.0, 2)]
    [row] = (
        cross.volume_weighted(pl.concat([frame, frame.head(1)])).select("vwap", "volume", "markets").rows()
    )
    assert row == (None, None, 2)
    once, rates = double.unique(), double.rename({"close": "rate_close"})
    for given in ((rates, once), (rates.unique(), double)):
        got = cross.oi_weighted(*given).select("rate_close", "markets").rows()
        assert got == [(None, 2), (pytest.approx(5 / 3), 2)]
    # Also where one of the two only fills a gap.
    candles = CANDLES.filter(coin="BTC", timestamp=at(1))
    filled = candles.with_columns(volume=0.0, first_timestamp=None, last_timestamp=None).cast(candles.schema)
    [row] = (
        cross.consolidated(pl.concat([candles, filled])).select("open", "close", "volume", "markets").rows()
    )
    assert row == (None, None, None, 1)


def test_levels_are_no_markets():
    levels = pl.concat([markets(1.0, 2.0, price=[10.0, 10.0]), markets(3.0, price=[11.0])])
    for call in (
        lambda frame, **by: cross.total(frame, amount="close", **by),
        lambda frame, **by: cross.market_share(frame, amount="close", **by),
        cross.dispersion,
        cross.premium,
    ):
        with pytest.raises(QueryError, match="price"):
            call(levels)
    got = cross.total(levels, amount="close", by="price")
    assert got.select("price", "close", "markets").rows() == [(10.0, 3.0, 2), (11.0, 3.0, 1)]


@pytest.mark.slow
def test_categories_of_two_frames_meet():
    rates, interest = (
        markets(0.1, 0.3, column=name).with_columns(pl.Series("exchange", order).cast(pl.Categorical))
        for name, order in (("rate_close", ["A", "B"]), ("close", ["B", "A"]))
    )
    for frames in ((rates, interest), (rates.to_pandas(), interest.to_pandas())):
        got = cross.oi_weighted(*frames)
        assert list(got["rate_close"]) == pytest.approx([(0.1 * 0.3 + 0.3 * 0.1) / 0.4])


@each_row(
    ("call", "column"),
    [
        (lambda frame: cross.total(frame, amount="markets"), "markets"),
        (lambda frame: cross.total(frame, amount="close", by="markets"), "markets"),
        (lambda frame: cross.market_share(frame, amount="share"), "share"),
        (lambda frame: cross.oi_weighted(frame, frame, rate="coverage"), "coverage"),
        (lambda frame: cross.premium(frame, value="premium"), "premium"),
        (lambda frame: cross.dispersion(frame, by="deviation"), "deviation"),
        (
            lambda frame: cross.dominance(frame, universe=["A"], token="exchange", marketcap="dominance"),
            "dominance",
        ),
    ],
)
def test_what_the_result_is_called_is_no_input(call, column):
    with pytest.raises(QueryError, match=column):
        call(markets(1.0, **{column: [1.0]}))


def test_missing_columns_are_named():
    frame = markets(1.0)
    with pytest.raises(MissingColumnError, match="volume"):
        cross.total(frame, amount="volume")
    with pytest.raises(MissingColumnError, match="exchange"):
        cross.total(frame.drop("exchange"), amount="close", carry="1h")
    with pytest.raises(MissingColumnError, match="open"):
        cross.consolidated(frame.with_columns(high=1.0, low=1.0, volume=1.0))
    with pytest.raises(QueryError, match="amount"):
        cross.total(frame, amount=[])


# --- recorded ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_recorded_venues_of_a_day(recorded: Path):
    files = {
        "BINANCE": "lean_binance_btcbusd_1m_20221213_trade.zip",
        "BYBIT": "lean_bybit_btcusdt_1m_20221213_trade.zip",
    }
    rows = []
    for exchange, name in files.items():
        with zipfile.ZipFile(recorded / name) as archive:
            lines = archive.read(archive.namelist()[0]).decode().splitlines()
        for milliseconds, *values in csv.reader(lines):
            rows.append((exchange, "BTC", int(milliseconds) * 1_000_000, *map(float, values)))
    columns = ["exchange", "raw_symbol", "timestamp", "open", "high", "low", "close", "volume"]
    candles = pl.DataFrame(rows, schema=columns, orient="row")
    times = {"first_timestamp": pl.col("timestamp"), "last_timestamp": pl.col("timestamp")}
    one = cross.consolidated(candles.with_columns(**times))
    assert len(one) == 1440
    assert one["volume"].sum() == pytest.approx(candles["volume"].sum(), rel=1e-12)
    weighted, apart = cross.volume_weighted(candles), cross.dispersion(candles)
    both = weighted.join(apart.filter(markets=2), on="timestamp")
    assert len(both) > 1400
    assert (both["vwap"] >= both["lowest"] - 1e-9).all()
    assert (both["vwap"] <= both["highest"] + 1e-9).all()
    # Two venues of one coin that day: apart by some basis points, never by percents.
    assert 0 < both["relative_range"].median() < 0.001
    assert both["relative_range"].max() < 0.01
    over = cross.premium(candles, reference={"exchange": "BINANCE"})
    own = over.filter(exchange="BINANCE")["premium"].drop_nulls()
    assert (own == 0).all()


def test_what_is_no_number_is_no_price(engine):
    candles = pl.DataFrame(
        {
            "exchange": ["A", "B"], "raw_symbol": "X", "timestamp": [0, 0], "open": [10.0, 10.5],
            "high": [float("nan"), 11.0], "low": [9.0, 10.0], "close": [11.0, 10.0],
            "volume": [float("nan"), 0.2], "first_timestamp": [5, 4], "last_timestamp": [50, 40],
        }
    )  # fmt: skip
    found = engine.polars(cross.consolidated(engine.frame(candles))).fill_nan(None)
    assert found.select("high", "volume", "coverage").row(0) == (11.0, None, 0.5)


def test_zero_has_no_sign_in_a_key(engine):
    markets = pl.DataFrame(
        {"exchange": "x", "raw_symbol": ["a", "b"], "timestamp": at(0), "k": [0.0, -0.0], "close": [1.0, 2.0]}
    )
    found = engine.polars(cross.total(engine.frame(markets), amount="close", by="k", carry="1h"))
    assert found.select("k", "close", "markets").rows() == [(0.0, 3.0, 2)]


@pytest.mark.slow
def test_candles_of_a_market_whose_trades_have_no_times_leave_open_and_close_unknown() -> None:
    candles = pl.DataFrame(
        {
            "exchange": ["A", "B"],
            "raw_symbol": "X",
            "timestamp": [0, 0],
            "open": [10.0, 10.5],
            "high": [12.0, 11.0],
            "low": [9.0, 10.0],
            "close": [11.0, 10.0],
            "volume": [0.1, 0.2],
            "first_timestamp": [5, None],
            "last_timestamp": [50, None],
        }
    )
    names = ["open", "high", "low", "close", "volume"]
    joined = cross.consolidated(candles).select(names).row(0)
    assert joined == (None, 12.0, 9.0, None, pytest.approx(0.3))
    assert cross.consolidated(candles[1:]).select(names).row(0) == (10.5, 11.0, 10.0, 10.0, 0.2)


# --- absent and unknown -------------------------------------------------------------------------------------------


def test_a_market_that_stops_reporting_keeps_its_open_interest_for_a_day():
    def market(name: str, value: float, hours: range) -> pl.DataFrame:
        prices = dict.fromkeys(("open", "high", "low", "close"), value)
        times = [hour * HOUR for hour in hours]
        columns = {"exchange": name, "raw_symbol": name, "coin": "BTC", "amount_unit": "COIN", **prices}
        return pl.DataFrame({"timestamp": times}).with_columns(
            **{key: pl.lit(x) for key, x in columns.items()}
        )

    frame = pl.concat(
        [market("A", 100.0, range(40)), market("B", 50.0, range(40)), market("C", 30.0, range(5))]
    )
    got = cross.total(frame, amount="close")
    assert got["close"].to_list() == [180.0] * 29 + [150.0] * 11  # 24 hours after hour 4
    assert got["markets"].to_list() == [3] * 29 + [2] * 11
    assert cross.total(frame, amount="close", carry="0s")["close"].to_list() == [180.0] * 5 + [150.0] * 35
    # A frame with volumes has candles, and a price is no stock.
    assert cross.total(frame.with_columns(volume=1.0), amount="close")["close"][-1] == 150.0
    assert cross.total(frame.with_columns(volume=1.0), amount="close")["close"][6] == 150.0


def test_a_market_alone_has_no_premium():
    alone = pl.concat([markets(1.0), markets(2.0, 4.0, time=HOUR)])
    got = cross.premium(alone)
    assert got.select("premium", "reference").rows() == [(None, None), (2 / 3 - 1, 3.0), (4 / 3 - 1, 3.0)]
    assert cross.premium(alone, reference={"exchange": "A"})["premium"].to_list() == [0.0, 0.0, 1.0]


def test_contracts_are_no_unit(engine):
    frame = engine.frame(markets(1.0, 2.0, amount_unit=["CONTRACTS", "CONTRACTS"]))
    if engine.name in {"polars", "pandas", "pyarrow"}:
        with pytest.raises(QueryError, match="amount_unit: 'CONTRACTS'"):
            cross.total(frame, amount="close")
        return
    for got, name in (
        (cross.total(frame, amount="close"), "close"),
        (cross.market_share(frame, amount="close"), "share"),
    ):
        assert set(engine.polars(got).fill_nan(None)[name]) == {None}


@pytest.mark.slow
def test_a_market_without_a_report_stays_out_and_one_whose_report_is_null_makes_the_mean_null(engine):
    rates = markets(0.1, 0.2, 0.3).rename({"close": "rate_close"})
    for interest, expected in (
        (markets(1.0, 3.0), (0.175, None, 2)),
        (markets(1.0, 3.0, None), (None, None, 2)),
        (markets(1.0, 3.0, 0.0), (0.175, 1.0, 2)),
    ):
        got = engine.polars(cross.oi_weighted(engine.frame(rates), engine.frame(interest))).fill_nan(None)
        [(mean, coverage, count)] = got.select("rate_close", "coverage", "markets").rows()
        assert (mean, coverage, count) == (expected[0] and pytest.approx(expected[0]), *expected[1:])
