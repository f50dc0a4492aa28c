"""Laws of what is made of several markets: plain loops agree, order does not matter, one market is itself."""

from __future__ import annotations

from math import isclose

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from oracles import cross as oracle
from thorough import often
from tidytape.aggregate import group
from tidytape.analytics import cross

few = settings(max_examples=often(7, thoroughly=15))  # of several calls each

HOUR = 3_600_000_000_000
FLOAT = {"close": pl.Float64, "rate_close": pl.Float64}

amounts = st.none() | st.integers(0, 10**6).map(lambda count: count / 1000) | st.floats(1e-3, 1e9)
places = st.tuples(st.sampled_from("ABCD"), st.integers(0, 8))
points = st.dictionaries(places, amounts, min_size=1)
rates = st.dictionaries(places, st.none() | st.integers(-99, 99).map(lambda count: count / 1e5), min_size=1)
prices = st.integers(990, 1010).map(lambda ticks: ticks / 10)
candles = st.dictionaries(
    places,
    st.tuples(
        prices,
        prices,
        st.none() | st.integers(0, 5),
        st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)),
    ),
    min_size=1,
)


def frame(cells, column="close"):
    return pl.DataFrame(
        {
            "exchange": [name for name, _ in cells],
            "raw_symbol": ["X"] * len(cells),
            "timestamp": [hour * HOUR for _, hour in cells],
            column: list(cells.values()),
        },
        schema_overrides=FLOAT,
    )


def candle_frame(cells):
    rows = []
    for (name, hour), (opened, closed, volume, times) in cells.items():
        first, last = (None, None) if times is None else (hour * HOUR + min(times), hour * HOUR + max(times))
        rows.append(
            {
                "exchange": name,
                "raw_symbol": "X",
                "timestamp": hour * HOUR,
                "open": opened,
                "high": max(opened, closed),
                "low": min(opened, closed),
                "close": closed,
                "volume": 0.0 if times is None else None if volume is None else float(volume),
                "first_timestamp": first,
                "last_timestamp": last,
            }
        )
    times = {"first_timestamp": pl.Int64, "last_timestamp": pl.Int64, "volume": pl.Float64}
    return pl.DataFrame(rows, schema_overrides=times)


def close(mine, theirs):
    """Whether rows are equal, numbers to twelve digits."""

    def same(one, other):
        numbers = isinstance(one, float) and isinstance(other, float)
        return isclose(one, other, rel_tol=1e-12, abs_tol=1e-13) if numbers else one == other

    return len(mine) == len(theirs) and all(
        same(one, other)
        for first, second in zip(mine, theirs, strict=True)
        for one, other in zip(first, second, strict=True)
    )


@pytest.mark.slow
@given(points)
def test_sums_are_those_of_a_loop(cells):
    rows = frame(cells)
    names = ["timestamp", "close", "markets", "coverage"]
    assert close(cross.total(rows, amount="close").select(names).rows(), oracle.total(rows.to_dicts()))
    held = cross.total(rows, amount="close", carry="3h").select(names).rows()
    assert close(held, oracle.total(rows.to_dicts(), carry=3 * HOUR))


@pytest.mark.slow
@given(rates, points)
def test_averages_are_those_of_a_loop(rate, interest):
    rates, reports = frame(rate, "rate_close"), frame(interest)
    got = cross.oi_weighted(rates, reports, carry="3h")
    wanted = oracle.oi_weighted(rates.to_dicts(), reports.to_dicts(), carry=3 * HOUR)
    assert close(got.select("timestamp", "rate_close", "coverage", "markets").rows(), wanted)


@pytest.mark.slow
@given(points)
def test_dispersion_is_that_of_a_loop(cells):
    got = cross.dispersion(frame(cells)).select(
        "timestamp",
        "markets",
        "lowest",
        "highest",
        "mean",
        "median",
        "deviation",
        "lowest_exchange",
        "highest_exchange",
    )
    wanted = oracle.dispersion(frame(cells).to_dicts())
    # The deviation of nearly equal numbers is told to the digits of the numbers.
    for mine, theirs in zip(got.rows(), wanted, strict=True):
        assert close([mine[:6]], [theirs[:6]])
        assert mine[7:] == theirs[7:]
        assert mine[6] is theirs[6] is None or isclose(
            mine[6], theirs[6], rel_tol=1e-9, abs_tol=1e-12 * mine[3]
        )


@pytest.mark.slow
@given(candles)
def test_candles_are_those_of_a_loop(cells):
    rows = candle_frame(cells)
    got = cross.consolidated(rows).select("timestamp", "open", "high", "low", "close", "volume", "markets")
    assert close(got.rows(), oracle.consolidated(rows.to_dicts()))


@pytest.mark.slow
@few
@given(rates, st.floats(1e-3, 1e9))
def test_equal_weights_give_the_mean(rate, weight):
    rates = frame(rate, "rate_close")
    reports = rates.select("exchange", "raw_symbol", "timestamp", close=pl.lit(weight))
    got = cross.oi_weighted(rates, reports, carry="1h").select("timestamp", "rate_close", "coverage")
    known = rates.drop_nulls("rate_close").sort("timestamp").group_by("timestamp", maintain_order=True)
    mean = known.agg(pl.col("rate_close").mean(), own=pl.len())
    assert close(got.select("timestamp", "rate_close").rows(), mean.select("timestamp", "rate_close").rows())


@pytest.mark.slow
@few
@given(points, points, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_change_a_bit(first, second, draw):
    rows, reports = frame(first), frame(second)
    mixed, shuffled = (one[draw.sample(range(len(one)), len(one))] for one in (rows, reports))
    for call in (
        lambda one, _: cross.total(one, amount="close", carry="2h"),
        lambda one, other: cross.oi_weighted(one, other, rate="close", carry="2h"),
        lambda one, _: cross.market_share(one, amount="close"),
    ):
        assert call(rows, reports).equals(call(mixed, shuffled))


@pytest.mark.slow
@few
@given(points, points, st.integers(0, 8))
def test_the_future_changes_no_past(first, second, now):
    rows, others = frame(first), frame(second)
    past = pl.col("timestamp") < now * HOUR
    changed = pl.concat([rows.filter(past), others.filter(~past)])
    for call in (
        lambda one: cross.total(one, amount="close", carry="3h"),
        lambda one: cross.oi_weighted(one, one, rate="close", carry="3h"),
        cross.dispersion,
    ):
        assert call(rows).filter(past).equals(call(changed).filter(past))


@pytest.mark.slow
@few
@given(candles)
def test_one_market_alone_is_itself(cells):
    rows = candle_frame(
        {place: cell for place, cell in cells.items() if place[0] == "A"}
        or {("A", 0): (99.0, 98.0, 1, (0, 1))}
    )
    own = rows.sort("timestamp")
    columns = ["timestamp", "open", "high", "low", "close", "volume", "first_timestamp", "last_timestamp"]
    assert cross.consolidated(rows).select(columns).equals(own.select(columns))
    assert (
        cross.total(rows, amount="volume")
        .select("timestamp", "volume")
        .equals(own.select("timestamp", "volume"))
    )
    apart = cross.dispersion(rows)
    assert apart["lowest"].equals(own["close"].rename("lowest"))
    assert (apart["range"] == 0).all()
    assert (cross.premium(rows)["premium"] == 0).all()
    traded = own.filter(pl.col("volume") > 0)
    assert close(
        cross.volume_weighted(rows).drop_nulls("vwap").select("timestamp", "vwap").rows(),
        traded.select("timestamp", "close").rows(),
    )


@pytest.mark.slow
@given(points)
def test_shares_add_up_to_one(cells):
    got = cross.market_share(frame(cells), amount="close").drop_nulls("share")
    assert all(
        isclose(total, 1, rel_tol=1e-12)
        for total in got.group_by("timestamp").agg(pl.col("share").sum())["share"]
    )


@pytest.mark.slow
@given(candles)
def test_an_average_price_lies_between_the_lowest_and_the_highest(cells):
    rows = candle_frame(cells).filter(pl.col("volume") > 0)
    got = cross.volume_weighted(rows).join(cross.dispersion(rows), on="timestamp")
    assert len(got) == rows["timestamp"].n_unique()
    assert (got["vwap"] >= got["lowest"] * (1 - 1e-12)).all()
    assert (got["vwap"] <= got["highest"] * (1 + 1e-12)).all()


@pytest.mark.slow
@settings(max_examples=8)  # an engine's start-up each time
@given(rates, points)
def test_engines_agree(rate, interest):
    frames = frame(rate, "rate_close"), frame(interest)
    wanted = cross.oi_weighted(*frames, carry="3h").rows()
    connection = duckdb.connect()
    duck = cross.oi_weighted(*(connection.from_arrow(one.to_arrow()) for one in frames), carry="3h").pl()
    pandas = pl.from_pandas(cross.oi_weighted(*(one.to_pandas() for one in frames), carry="3h"))
    assert close(duck.rows(), wanted)
    assert close(pandas.rows(), wanted)


@pytest.mark.slow
@few
@given(rates, points, st.integers(-20, 20))
def test_the_unit_of_open_interest_does_not_matter(rate, interest, power):
    rates, reports = frame(rate, "rate_close"), frame(interest)
    scaled = reports.with_columns(pl.col("close") * 2.0**power)
    columns = ["timestamp", "rate_close", "coverage", "markets"]
    mine, theirs = (cross.oi_weighted(rates, one).select(columns) for one in (reports, scaled))
    assert close(mine.rows(), theirs.rows())


@pytest.mark.slow
@few
@given(points, points)
def test_coins_do_not_touch_each_other(first, second):
    one, other = (
        frame(cells).with_columns(coin=pl.lit(coin)) for cells, coin in ((first, "BTC"), (second, "ETH"))
    )
    for call in (
        lambda rows: cross.total(rows, amount="close", carry="3h"),
        lambda rows: cross.oi_weighted(rows, rows, rate="close"),
        cross.dispersion,
        lambda rows: cross.market_share(rows, amount="close"),
    ):
        # A deviation is a sum of floats, in whatever order an engine adds.
        apart = pl.concat([call(one), call(other)])
        assert_frame_equal(call(pl.concat([other, one])), apart, rel_tol=1e-12, abs_tol=1e-12)


reports = st.sampled_from([None, "null", 0.0, 1.0, 2.0, 7.0])
"""Open interest that a market reports: no row, a row with a null, or a number."""


@pytest.mark.slow
@given(st.lists(st.tuples(reports, st.sampled_from([None, 0.1, -0.2, 0.4])), min_size=1, max_size=4))
def test_absent_and_unknown_mean_the_same_in_groups_and_across(members):
    names = [
        {"exchange": name, "raw_symbol": "X", "coin": "C"} for name, _ in zip("ABCD", members, strict=False)
    ]
    rates = [name | {"rate": rate} for name, (_, rate) in zip(names, members, strict=True)]
    interest = [
        name | {"close": None if report == "null" else report}
        for name, (report, _) in zip(names, members, strict=True)
        if report is not None
    ]
    words = dict.fromkeys(("exchange", "raw_symbol", "coin"), pl.String)
    weights = pl.DataFrame(interest, schema={**words, "close": pl.Float64}).with_columns(timestamp=0)
    columns = [
        f"{kind}_{part}" for kind in ("rate", "predicted") for part in ("open", "high", "low", "close")
    ]
    points = pl.DataFrame(rates, schema={**words, "rate": pl.Float64}).with_columns(timestamp=0)
    points = points.with_columns(pl.col("rate").alias(name) for name in columns)
    grouped = group(points.drop("rate"), data_type="FUNDING_RATE_AGG", weights=weights)
    across = cross.oi_weighted(points.select(*words, "timestamp", "rate_close"), weights)
    assert across["rate_close"].to_list() == grouped["rate_close"].to_list()
    both = [(report, rate) for report, rate in members if report is not None and rate is not None]
    known = [(report, rate) for report, rate in both if report not in {"null", 0.0}]
    if not known:
        assert len(across) == 0
    elif any(report == "null" for report, _ in both):
        assert across["rate_close"].to_list() == [None]
    else:
        mean = sum(report * rate for report, rate in known) / sum(report for report, _ in known)
        assert across["rate_close"].to_list() == [pytest.approx(mean)]
