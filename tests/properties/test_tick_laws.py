"""Laws of open interest, funding, liquidations, option and regulated open interest, token supply and raw trades."""

from __future__ import annotations

import math
import runpy
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from thorough import often
from tidytape.aggregate import (
    cme_open_interest,
    funding,
    liquidation_heatmap,
    liquidations,
    open_interest,
    option_open_interest,
    raw_trades,
    token_supply,
)

oracle = runpy.run_path(str(Path(__file__).parents[1] / "aggregate" / "oracle.py"))
start = oracle["start"]

HOUR = 3_600 * 10**9
DAY = 24 * HOUR
STEP = {alias: seconds * 10**9 for alias, seconds in oracle["SECONDS"].items()}

# --- frames ---------------------------------------------------------------------------------------------------------

MARKET_AT = {"exchange": pl.String, "raw_symbol": pl.String, "timestamp": pl.Int64}
NUMBERS = (
    "marketcap", "circulating_supply", "total_supply", "max_supply", "total_value_locked",
    "fully_diluted_valuation", "total_volume", "usd_price",
)  # fmt: skip

# Few times, so that ties are the rule; some exactly 24 hours apart, and one nanosecond more.
times = st.sampled_from(
    [0, 1, 59_999_999_999, 60 * 10**9, HOUR, -1, DAY, DAY + 1, 2 * DAY + 1]
) | st.integers(-DAY, 3 * DAY)
venues = st.sampled_from(["A", "B"])
symbols = st.sampled_from(["X", "Y"])
amounts = st.integers(1, 10**9).map(lambda n: n / 10**5)
maybe = st.none() | st.sampled_from([math.nan, math.inf, 0.0]) | amounts
rates = st.none() | st.integers(-1000, 1000).map(lambda n: n / 2**20)  # products of powers of two are exact


def frames(schema, *columns, max_size=30):
    """Frames of independent cells, one strategy per column."""
    return st.lists(st.tuples(*columns), max_size=max_size).map(
        lambda rows: pl.DataFrame(rows, schema=schema, orient="row")
    )


reports = frames(
    MARKET_AT | {"amount": pl.Float64, "usd_amount": pl.Float64, "price": pl.Float64},
    *(venues, symbols, times, maybe, maybe, maybe),
)
funding_reports = frames(
    MARKET_AT | {"rate": pl.Float64, "predicted_rate": pl.Float64, "funding_interval": pl.Int64},
    *(venues, symbols, times, rates, rates, st.sampled_from([None, 0, HOUR, 4 * HOUR, 8 * HOUR])),
)
events = frames(
    MARKET_AT | {"side": pl.String, "coin": pl.String, "price": pl.Float64, "amount": pl.Float64},
    *(venues, symbols, times, st.sampled_from(["BUY", "SELL"]), st.sampled_from(["C", "D", None])),
    *(st.integers(1, 500).map(lambda n: n / 100), amounts),
)
EXPIRY = {"P": 0, "Q": DAY, "R": 2 * DAY + 8 * HOUR, "S": 400 * DAY, "T": 400 * DAY}
quotes = frames(
    MARKET_AT | {"coin": pl.String, "expiry": pl.Int64, "forward": pl.Float64, "open_interest": pl.Float64},
    *(venues, st.sampled_from(list(EXPIRY)), times, st.sampled_from(["C", "D"]), st.just(0), maybe, maybe),
).map(
    lambda frame: frame.with_columns(
        expiry=pl.col("raw_symbol").replace_strict(EXPIRY, return_dtype=pl.Int64)
    )
)
tokens = frames(
    {"token_name": pl.String, "timestamp": pl.Int64}
    | dict.fromkeys(NUMBERS, pl.Float64)
    | {"cg_marketcap_rank": pl.Int64}
    | dict.fromkeys(["coin", "chain", "contract_address"], pl.String),
    *(st.sampled_from(["b", "e", "s"]), times, *[maybe] * len(NUMBERS), st.none() | st.integers(1, 9)),
    *[st.sampled_from([None, "u", "v"])] * 3,
    max_size=12,
)
intervals = st.sampled_from(["1m", "1h", "1d", "1w"])
universes = st.sampled_from([None, ["b", "e"], ["b", "never listed"]])

AGGREGATES = {
    "open_interest": (reports, open_interest),
    "cme_open_interest": (reports, cme_open_interest),
    "funding": (funding_reports, funding),
    "liquidations": (events, liquidations),
    "liquidation_heatmap": (
        events,
        lambda frame, *, interval: liquidation_heatmap(frame, interval=interval, block_size="0.1"),
    ),
    "option_open_interest": (quotes, option_open_interest),
    "token_supply": (tokens, token_supply),
}
CARRIED = {"option_open_interest", "token_supply"}
every = pytest.mark.parametrize("name", AGGREGATES)


def same(left: pl.DataFrame, right: pl.DataFrame) -> None:
    """Equal to the last bit or one beside it."""
    assert_frame_equal(left, right, check_exact=False, rel_tol=5e-16, abs_tol=0)


def as_rows(points: pl.DataFrame, expected: list[dict]) -> None:
    same(points, pl.DataFrame(expected, schema=points.schema))


# --- plain loops ----------------------------------------------------------------------------------------------------


def known(rows, column):
    """(time, value) of the reports of a column, in order; of one time the smaller value first."""
    found = [(row["timestamp"], row[column]) for row in rows]
    return sorted(pair for pair in found if pair[1] is not None and is_finite(pair[1]))


def is_finite(value):
    return not isinstance(value, float) or math.isfinite(value)


def grouped(rows, keys, interval):
    groups = {}
    for row in rows:
        groups.setdefault((*(row[key] for key in keys), start(row["timestamp"], interval)), []).append(row)
    return sorted(groups.items())


def plain_ohlc(rows, interval, columns):
    points = []
    for (exchange, symbol, bucket), members in grouped(rows, ["exchange", "raw_symbol"], interval):
        point = {"exchange": exchange, "raw_symbol": symbol, "timestamp": bucket}
        for column, prefix in columns.items():
            values = [value for _, value in known(members, column)] or [None]
            lowest, highest = (values[0],) * 2 if values == [None] else (min(values), max(values))
            cells = {"open": values[0], "high": highest, "low": lowest, "close": values[-1]}
            point |= {prefix + name: value for name, value in cells.items()}
        if any(value is not None for value in list(point.values())[3:]):
            points.append(point)
    return points


def plain_sums(rows, interval, keys, price=None):
    sums = {}
    for row in rows:
        if all(row[key] is not None for key in keys):
            level = () if price is None else (oracle["row"](row["price"], price),)
            key = (*(row[name] for name in keys), start(row["timestamp"], interval), *level)
            sums[key] = sums.get(key, Decimal(0)) + Decimal(repr(row["amount"]))
    return [(*key, float(amount)) for key, amount in sorted(sums.items())]


def as_of(rows, column, moment, since=math.inf):
    """The last report of a column at a moment, if it is 24 hours old or less, or not before ``since``."""
    past = [pair for pair in known(rows, column) if pair[0] <= moment]
    return past[-1][1] if past and past[-1][0] >= min(moment - DAY, since) else None


def is_seen(rows, moment, since=math.inf):
    """Whether there is a row at a moment, 24 hours old or less, or not before ``since``."""
    return any(min(moment - DAY, since) <= row["timestamp"] <= moment for row in rows)


def whole(values):
    """The sum of values that are all known."""
    values = list(values)
    return None if None in values else total(values)


def total(values):
    counted = [Decimal(repr(value)) for value in values if value is not None]
    return float(sum(counted)) if counted else None


def plain_options(rows, interval):
    rows = [
        row
        for row in rows
        if row["timestamp"] < row["expiry"] and (known([row], "forward") or known([row], "open_interest"))
    ]
    points = []
    for (exchange, coin, bucket), members in grouped(rows, ["exchange", "coin"], interval):
        moment = max(row["timestamp"] for row in members)
        chain = {}
        for row in rows:
            if (row["exchange"], row["coin"]) == (exchange, coin) and moment < row["expiry"]:
                chain.setdefault(row["raw_symbol"], []).append(row)
        forwards = [
            (row["timestamp"], -row["expiry"], row["forward"])
            for row in members
            if row["forward"] is not None and is_finite(row["forward"])
        ]
        points.append(
            {
                "exchange": exchange,
                "coin": coin,
                "timestamp": bucket,
                "underlying_price_close": max(forwards)[2] if forwards else None,
                "oi_close": whole(
                    as_of(option, "open_interest", moment)
                    for option in chain.values()
                    if is_seen(option, moment)
                ),
            }
        )
    return points


def plain_tokens(rows, interval, universe):
    points = []
    inside = [row for row in rows if universe is None or row["token_name"] in universe]
    for (token, bucket), members in grouped(rows, ["token_name"], interval):
        last = {
            name: (known(members, name) or [(0, None)])[-1][1]
            for name in (*NUMBERS, "cg_marketcap_rank", "coin", "chain", "contract_address")
        }
        if all(last[name] is None for name in NUMBERS):
            continue
        moments = [row["timestamp"] for row in inside if bucket <= row["timestamp"] < bucket + STEP[interval]]
        share = None
        if moments and last["marketcap"] is not None and (universe is None or token in universe):
            of_each = {
                name: [row for row in inside if row["token_name"] == name] for name in universe or "bes"
            }
            there = [
                reports
                for reports in of_each.values()
                if universe is not None or is_seen(reports, max(moments), bucket)
            ]
            caps = whole(as_of(reports, "marketcap", max(moments), bucket) for reports in there)
            share = 100.0 * last["marketcap"] / caps if caps and len(there) > (universe is None) else None
        firsts = known(members, "marketcap")
        points.append(
            {
                "token_name": token,
                "timestamp": bucket,
                **last,
                "first_marketcap": firsts[0][1] if firsts else None,
                "marketcap_dominance_percent": share,
            }
        )
    return points


@pytest.mark.slow
@given(reports, intervals)
def test_open_interest_equals_the_plain_loop(frame, interval):
    as_rows(open_interest(frame, interval=interval), plain_ohlc(frame.to_dicts(), interval, {"amount": ""}))
    columns = {"amount": "", "usd_amount": "value_", "price": "price_"}
    as_rows(cme_open_interest(frame, interval=interval), plain_ohlc(frame.to_dicts(), interval, columns))


@pytest.mark.slow
@given(
    funding_reports,
    intervals,
    st.sampled_from(["1h", "8h", 14_400_000]),
    st.sampled_from([None, "2h", "8h"]),
)
def test_funding_equals_the_plain_loop(frame, interval, asked, unstated):
    hours = {"1h": 1, "2h": 2, "8h": 8, 14_400_000: 4, None: None}
    rows = frame.to_dicts()
    for row in rows:
        own = row["funding_interval"] / HOUR if row["funding_interval"] else hours[unstated]
        for rate in ("rate", "predicted_rate"):
            row[rate] = None if own is None or row[rate] is None else row[rate] * hours[asked] / own
    expected = plain_ohlc(rows, interval, {"rate": "rate_", "predicted_rate": "predicted_"})
    as_rows(funding(frame, interval=interval, funding_interval=asked, unstated=unstated), expected)


@pytest.mark.slow
@given(events, intervals, st.sampled_from(["0.1", "0.3", "1"]))
def test_liquidations_equal_the_plain_loop(frame, interval, size):
    rows = frame.to_dicts()
    got = liquidations(frame, interval=interval)
    sums = got.select("exchange", "raw_symbol", "side", "timestamp", "liquidations").rows()
    assert sums == plain_sums(rows, interval, ["exchange", "raw_symbol", "side"])
    got = liquidation_heatmap(frame, interval=interval, block_size=size)
    expected = plain_sums(rows, interval, ["exchange", "coin"], price=size)
    levels = got.select("exchange", "coin", "timestamp", "price", "liquidations").rows()
    assert levels == [(*key, float(row * Decimal(size)), amount) for *key, row, amount in expected]


@pytest.mark.slow
@given(quotes, intervals)
def test_option_open_interest_equals_the_plain_loop(frame, interval):
    as_rows(option_open_interest(frame, interval=interval), plain_options(frame.to_dicts(), interval))


@pytest.mark.slow
@given(tokens, intervals, universes)
def test_token_supply_equals_the_plain_loop(frame, interval, universe):
    got = token_supply(frame, interval=interval, universe=universe)
    as_rows(got, plain_tokens(frame.to_dicts(), interval, universe))


# --- laws -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@every
@settings(max_examples=often(12, thoroughly=25))  # seven types each
@given(data=st.data())
def test_the_order_of_rows_does_not_matter(name, data):
    strategy, aggregate = AGGREGATES[name]
    frame, interval = data.draw(strategy), data.draw(intervals)
    other = frame[data.draw(st.permutations(range(frame.height)))]
    assert aggregate(other, interval=interval).equals(aggregate(frame, interval=interval))


@pytest.mark.slow
@every
@settings(max_examples=often(12, thoroughly=25))  # seven types each
@given(data=st.data())
def test_split_and_joined(name, data):
    """Each half gives its own points; what carries needs the 24 hours before."""
    strategy, aggregate = AGGREGATES[name]
    frame, interval = data.draw(strategy), data.draw(intervals)
    cut = start(data.draw(times), interval)
    back = DAY if name in CARRIED else 0
    time = pl.col("timestamp")
    before = aggregate(frame.filter(time < cut), interval=interval)
    after = aggregate(frame.filter(time >= cut - back), interval=interval).filter(time >= cut)
    whole = aggregate(frame, interval=interval)
    joined = pl.concat([before, after])
    assert whole.filter(time < cut).equals(before)
    assert whole.filter(time >= cut).equals(after)
    assert whole.height == joined.height


@pytest.mark.slow
@every
@settings(max_examples=often(12, thoroughly=25))  # seven types each
@given(data=st.data())
def test_nothing_looks_ahead(name, data):
    """What happens after an interval does not change its point."""
    strategy, aggregate = AGGREGATES[name]
    frame, interval, cut = data.draw(strategy), data.draw(intervals), start(data.draw(times), "1d")
    cut = start(cut, interval)
    time = pl.col("timestamp")
    numbers = [column for column, dtype in frame.schema.items() if dtype == pl.Float64]
    future = pl.when(time >= cut)
    other = frame.with_columns(
        future.then(pl.col(column) * 3).otherwise(column).alias(column) for column in numbers
    )
    points = [aggregate(each, interval=interval).filter(time < cut) for each in (frame, other)]
    assert points[0].equals(points[1])


@pytest.mark.long
@every
@settings(max_examples=10)  # five engines and seven types each time
@given(data=st.data())
def test_engines_agree(name, data):
    strategy, aggregate = AGGREGATES[name]
    frame, interval = data.draw(strategy), data.draw(intervals)
    expected = aggregate(frame, interval=interval)
    with duckdb.connect() as connection:
        in_duckdb = aggregate(connection.from_arrow(frame.to_arrow()), interval=interval).pl()
    found = [
        aggregate(frame.lazy(), interval=interval).collect(engine="streaming"),
        in_duckdb,
        pl.from_pandas(
            aggregate(frame.to_pandas(), interval=interval), schema_overrides=dict(expected.schema)
        ),
        pl.DataFrame(aggregate(frame.to_arrow(), interval=interval)),
    ]
    for got in found:
        same(got, expected)


@pytest.mark.slow
@given(quotes, st.sampled_from([("1m", "1h"), ("1h", "1d"), ("1m", "1w")]))
def test_a_long_intervals_options_are_the_last_short_ones(frame, pair):
    short, long = (option_open_interest(frame, interval=interval) for interval in pair)
    bucket = pl.col("timestamp").map_elements(lambda time: start(time, pair[1]), return_dtype=pl.Int64)
    key = ["exchange", "coin", "timestamp"]
    lasts = short.with_columns(bucket).group_by(key, maintain_order=True)
    expected = lasts.agg(pl.col("underlying_price_close").drop_nulls().last(), pl.col("oi_close").last())
    assert expected.select(long.columns).equals(long)


@pytest.mark.slow
@given(quotes, intervals)
def test_open_interest_scales(frame, interval):
    doubled = frame.with_columns(pl.col("open_interest") * 4)
    got = option_open_interest(doubled, interval=interval)
    same(got, option_open_interest(frame, interval=interval).with_columns(pl.col("oi_close") * 4))


@pytest.mark.slow
@given(events, intervals)
def test_liquidated_volume_is_conserved(frame, interval):
    frame = frame.with_columns(pl.col("coin").fill_null("C"))
    whole = frame["amount"].sum()
    for points in (
        liquidations(frame, interval=interval),
        liquidation_heatmap(frame, interval=interval, block_size=1),
    ):
        assert points["liquidations"].sum() == pytest.approx(whole, rel=1e-12)


@pytest.mark.slow
@given(tokens, intervals)
def test_dominances_are_shares_of_one_whole(frame, interval):
    got = token_supply(frame, interval=interval)
    shares = got.group_by("timestamp").agg(pl.col("marketcap_dominance_percent").sum())
    assert (shares["marketcap_dominance_percent"] <= 100 + 1e-9).all()


@given(
    events.map(lambda frame: frame.with_row_index("sequence").with_columns(pl.col("sequence").cast(pl.Int64)))
)
def test_raw_trades_are_the_trades_in_order(frame):
    trades = frame.with_columns(id=pl.col("sequence").cast(pl.String), quote_amount=pl.col("amount"))
    key = ("exchange", "raw_symbol", "side", "timestamp", "sequence")
    expected = sorted(trades.rows(named=True), key=lambda row: tuple(row[name] for name in key))
    assert raw_trades(trades)["id"].to_list() == [row["id"] for row in expected]
