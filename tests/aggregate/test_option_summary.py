"""Option summaries: literal values on every engine, and the recorded chains against plain Python."""

from __future__ import annotations

import csv
import gzip
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from oracles import options as oracle
from tables import in_columns
from tidytape.aggregate import implied_volatility, skew
from tidytape.catalogue import Tenor
from tidytape.errors import MissingColumnError, QueryError

HOUR = 3600 * 10**9
DAY = 24 * HOUR
SNAPSHOTS = [f"deribit_options_snapshot_20260305T{time}Z.csv.gz" for time in ("042746", "093529", "155733")]

SCHEMA = {
    "exchange": pl.String,
    "raw_symbol": pl.String,
    "timestamp": pl.Int64,
    "coin": pl.String,
    "option_type": pl.String,
    "strike": pl.Float64,
    "expiry": pl.Int64,
    "implied_volatility": pl.Float64,
    "forward": pl.Float64,
}

KEY = ["exchange", "raw_symbol", "tenor", "timestamp"]


def quotes(
    *rows: tuple[float, str, float, float | None], forward: float | None = 100.0, at: int = 0
) -> pl.DataFrame:
    """Options of one coin: (days, C or P, strike, volatility) each."""
    return pl.DataFrame(
        [
            ("DERIBIT", f"BTC-{days}-{strike}-{kind}", at, "BTC", {"C": "CALL", "P": "PUT"}[kind], strike,
             int(days * DAY), volatility, forward)
            for days, kind, strike, volatility in rows
        ],
        schema=SCHEMA,
        orient="row",
    )  # fmt: skip


def by_tenor(summary: pl.DataFrame) -> dict[str, float]:
    return dict(summary.select("tenor", summary.columns[-1]).rows())


TERM = quotes((28, "P", 90.0, 61.0), (28, "C", 100.0, 60.0), (56, "C", 100.0, 58.0), (56, "C", 110.0, 57.0))


def test_constant_maturity_is_linear_in_total_variance(engine):
    got = engine.polars(implied_volatility(engine.frame(TERM), interval="1h"))
    got = in_columns(got, ["exchange", "raw_symbol", "coin", "tenor", "timestamp", "implied_volatility"])
    assert got.rows() == [("DERIBIT", "BTC_ATM", "BTC", "ONE_M", 0, pytest.approx(59.7372, abs=5e-5))]
    assert got["implied_volatility"][0] == pytest.approx(
        math.sqrt((60**2 * 28 + (58**2 * 56 - 60**2 * 28) * 2 / 28) / 30), abs=1e-12
    )


def test_money_lies_between_the_put_below_and_the_call_above(engine):
    rows = [
        (7, "P", 90.0, 70.0), (7, "C", 90.0, 1.0), (7, "P", 110.0, 1.0), (7, "C", 110.0, 60.0)
    ]  # fmt: skip
    got = engine.polars(implied_volatility(engine.frame(quotes(*rows)), interval="1h"))
    share = math.log(1 / 0.9) / math.log(1.1 / 0.9)
    assert by_tenor(got) == {"ONE_W": pytest.approx(70 - 10 * share, abs=1e-12)}


def test_at_the_forward_itself_the_call_counts():
    rows = [(7, "P", 100.0, 50.0), (7, "C", 100.0, 60.0)]
    assert by_tenor(implied_volatility(quotes(*rows), interval="1h")) == {"ONE_W": 60.0}


def test_delta_neutral_is_the_strike_without_forward_delta():
    strike = 100 * math.exp(0.6**2 * 7 / 365 / 2)
    rows = [(7, "P", 90.0, 80.0), (7, "C", strike, 60.0), (7, "C", 120.0, 50.0)]
    got = by_tenor(implied_volatility(quotes(*rows), interval="1h", atm="delta_neutral"))
    assert got == {"ONE_W": pytest.approx(60.0, abs=1e-9)}
    assert by_tenor(implied_volatility(quotes(*rows), interval="1h"))["ONE_W"] > 60.0


@pytest.mark.parametrize("expiries", [(8, 20), (2, 6.5), (6.5,), (8,)])
def test_nothing_is_extrapolated_in_time(expiries):
    rows = [(days, "C", 100.0, 60.0) for days in expiries]
    assert "ONE_W" not in by_tenor(implied_volatility(quotes(*rows), interval="1h"))


@pytest.mark.parametrize("strikes", [(101.0, 120.0), (101.0,)])
def test_nothing_is_extrapolated_in_strike(strikes):
    rows = [(7, "C", strike, 60.0) for strike in strikes]
    assert implied_volatility(quotes(*rows), interval="1h").is_empty()


def test_an_expiry_without_the_point_is_not_passed_over():
    term = [(6, "C", 100.0, 60.0), (8, "C", 100.0, 60.0)]
    assert list(by_tenor(implied_volatility(quotes(*term), interval="1h"))) == ["ONE_W"]
    between = (7.5, "C", 150.0, 60.0)
    assert implied_volatility(quotes(*term, between), interval="1h").is_empty()


def test_an_expiry_at_the_tenor_needs_no_other(engine):
    def alone(at: int) -> pl.DataFrame:
        """A coin per tenor, with one expiry."""
        return pl.concat(
            quotes((tenor.days, "C", 100.0, 50.0), at=at).with_columns(coin=pl.lit(tenor.value))
            for tenor in Tenor
        )

    got = engine.polars(implied_volatility(engine.frame(alone(0)), interval="1h"))
    assert got.select("coin", "tenor").rows() == sorted((tenor.value, tenor.value) for tenor in Tenor)
    assert got["implied_volatility"].to_list() == pytest.approx([50.0] * len(Tenor), abs=1e-12)
    assert implied_volatility(alone(1_000), interval="1h").is_empty()


def test_every_tenor_has_its_length():
    rows = [(days, "C", 100.0, 50.0) for days in (0.5, 400)]
    got = implied_volatility(quotes(*rows), interval="1h")
    assert got["tenor"].to_list() == [tenor.value for tenor in Tenor]
    assert got["implied_volatility"].to_list() == pytest.approx([50.0] * len(Tenor), abs=1e-12)


def smile(days: float = 7.0) -> list[tuple[float, str, float, float]]:
    """Puts dearer than calls by 0.2 vol points per unit of strike, from 60 to 150."""
    return [
        (days, kind, float(strike), 80 - 0.2 * strike) for strike in range(60, 151) for kind in "CP"
    ]  # fmt: skip


def test_skew_is_positive_when_puts_are_dearer(engine):
    got = engine.polars(skew(engine.frame(quotes(*smile())), interval="1h"))
    assert got.select("raw_symbol", "tenor").rows() == [("BTC_10", "ONE_W"), ("BTC_25", "ONE_W")]
    ten, twenty_five = got["skew"]
    assert ten > twenty_five > 0


def test_skew_is_negative_when_calls_are_dearer():
    rows = [(days, kind, strike, 40 + 0.2 * strike) for days, kind, strike, _ in smile()]
    assert all(value < 0 for value in skew(quotes(*rows), interval="1h")["skew"])


@pytest.mark.slow
def test_skew_of_a_flat_smile_is_none(engine):
    rows = [(days, kind, strike, 50.0) for days, kind, strike, _ in smile()]
    got = engine.polars(skew(engine.frame(quotes(*rows)), interval="1h"))
    assert got["skew"].to_list() == [0.0, 0.0]


def test_the_point_is_where_the_forward_delta_is():
    """Two options that bracket 25 delta by hand: linear in delta between them."""
    deviation = 0.5 * math.sqrt(7 / 365)
    d1 = {strike: math.log(100 / strike) / deviation + deviation / 2 for strike in (104.0, 106.0)}
    high, low = (0.5 * math.erfc(-value / math.sqrt(2)) for value in d1.values())
    assert high > 0.25 > low
    rows = [(7, "C", 104.0, 50.0), (7, "C", 106.0, 50.0), (7, "P", 90.0, 60.0), (7, "P", 99.0, 60.0)]
    assert by_tenor(skew(quotes(*rows), interval="1h")) == {"ONE_W": pytest.approx(10.0, abs=1e-12)}


@pytest.mark.parametrize("missing", ["C", "P"])
def test_without_one_of_the_two_points_there_is_no_skew(missing):
    rows = [row for row in smile() if row[1] != missing]
    assert skew(quotes(*rows), interval="1h").is_empty()


@pytest.mark.slow
def test_premium_adjusted_delta_is_read_off_beyond_its_largest_value():
    """So long and so volatile that the adjusted delta of calls first rises with the strike."""
    rows = [
        (365, kind, float(strike), 90.0 - 0.05 * strike) for strike in range(20, 600, 10) for kind in "CP"
    ]
    frame = quotes(*rows)
    got = by_tenor(skew(frame, interval="1h", delta="premium_adjusted").filter(raw_symbol="BTC_25"))
    want = oracle.skew(frame.to_dicts(), 3600, "premium_adjusted")
    assert got == {"ONE_Y": pytest.approx(want["DERIBIT", "BTC_25", "ONE_Y", 0], abs=1e-9)}
    assert got != by_tenor(skew(frame, interval="1h").filter(raw_symbol="BTC_25"))


def test_last_quote_of_each_option_in_a_bucket_counts(engine):
    def at(time: int, volatility: float) -> pl.DataFrame:
        return quotes((6, "C", 100.0, volatility), (9, "C", 100.0, volatility), at=time)

    frame = pl.concat([at(HOUR - 1, 60.0), at(0, 40.0), at(HOUR, 80.0)])
    got = engine.polars(implied_volatility(engine.frame(frame), interval="1h"))
    assert got.select("tenor", "timestamp").rows() == [("ONE_W", 0), ("ONE_W", HOUR)]
    assert got["implied_volatility"].to_list() == pytest.approx([60.0, 80.0], abs=1e-12)


def test_expired_options_are_left_out():
    term = [(days, "C", 100.0, 60.0) for days in (0.5, 2.0, 4.0)]
    later = quotes(*term[1:], at=DAY)
    together = pl.concat([quotes(*term), later])
    assert list(by_tenor(implied_volatility(quotes(*term), interval="1w"))) == ["ONE_D", "THREE_D"]
    # A day later two days have become one, and what expired after half a day says nothing any more.
    assert_frame_equal(
        implied_volatility(together, interval="1w"),
        implied_volatility(later, interval="1w"),
        check_exact=True,
    )
    assert list(by_tenor(implied_volatility(together, interval="1w"))) == ["ONE_D", "THREE_D"]


def test_a_quote_without_a_number_does_not_count(engine):
    broken = [
        quotes((28, "C", 99.0, 10.0)).with_columns(
            pl.lit(bad, pl.Float64).alias(column), raw_symbol=pl.lit(f"{column} {bad}")
        )
        for column in ("implied_volatility", "forward", "strike")
        for bad in (None, 0.0, -1.0, math.nan, math.inf)
    ]
    got = engine.polars(implied_volatility(engine.frame(pl.concat([TERM, *broken])), interval="1h"))
    assert by_tenor(got) == {"ONE_M": pytest.approx(59.7372, abs=5e-5)}


@pytest.mark.slow
def test_no_quotes_give_no_rows_but_all_columns(engine):
    for function in (implied_volatility, skew):
        got = engine.polars(function(engine.frame(TERM.clear()), interval="1h"))
        assert got.height == 0
        assert got.columns == function(TERM, interval="1h").columns


def test_coins_and_venues_stay_apart(engine):
    other = TERM.with_columns(coin=pl.lit("ETH"), implied_volatility=pl.col("implied_volatility") + 10)
    venue = TERM.with_columns(exchange=pl.lit("OKX"), implied_volatility=pl.col("implied_volatility") + 20)
    got = engine.polars(implied_volatility(engine.frame(pl.concat([venue, other, TERM])), interval="1h"))
    assert got.select("exchange", "raw_symbol").rows() == [
        ("DERIBIT", "BTC_ATM"),
        ("DERIBIT", "ETH_ATM"),
        ("OKX", "BTC_ATM"),
    ]
    assert got["implied_volatility"].round(1).to_list() == [59.7, 69.7, 79.7]


def test_unknown_arguments_are_named():
    with pytest.raises(QueryError, match="atm: got 'spot'"):
        implied_volatility(TERM, interval="1h", atm="spot")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="did you mean 'premium_adjusted'"):
        skew(TERM, interval="1h", delta="premium-adjusted")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="interval: got '2x'"):
        skew(TERM, interval="2x")


def test_a_missing_column_is_named(engine):
    with pytest.raises(MissingColumnError, match="forward"):
        skew(engine.frame(TERM.drop("forward")), interval="1h")


@pytest.fixture(scope="module")
def recorded_rows(recorded: Path) -> list[dict[str, Any]]:
    """The three recorded chains, read with the standard library."""

    def time(text: str) -> int:
        moment = datetime.fromisoformat(text)
        return int(moment.replace(microsecond=0).timestamp()) * 10**9 + moment.microsecond * 1000

    rows = []
    for name in SNAPSHOTS:
        with gzip.open(recorded / name, "rt") as file:
            rows += [
                {
                    "exchange": "DERIBIT",
                    "raw_symbol": row["instrument_name"],
                    "timestamp": time(row["timestamp"]),
                    "coin": row["currency"],
                    "option_type": row["option_type"].upper(),
                    "strike": float(row["strike"]),
                    "expiry": time(row["expiry_datetime"]),
                    "implied_volatility": float(row["implied_volatility"]) * 100,
                    "forward": float(row["futures_price"]),
                }
                for row in csv.DictReader(file)
            ]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "argument", "value", "points"),
    [
        (implied_volatility, "atm", "forward", 42),
        (implied_volatility, "atm", "delta_neutral", 42),
        (skew, "delta", "forward", 84),
        (skew, "delta", "premium_adjusted", 84),
    ],
)
def test_recorded_chains_equal_plain_python(engine, recorded_rows, function, argument, value, points):
    shuffled = pl.DataFrame(recorded_rows, schema=SCHEMA).sample(fraction=1, shuffle=True, seed=3)
    got = engine.polars(function(engine.frame(shuffled), interval="1h", **{argument: value}))
    found = {row[:4]: row[4] for row in got.select(*KEY, got.columns[-1]).rows()}
    want = getattr(oracle, function.__name__)(recorded_rows, 3600, value)
    assert len(found) == points == got.height
    assert found.keys() == want.keys()
    for key, number in want.items():
        assert found[key] == pytest.approx(number, abs=1e-9, rel=0), key


def test_recorded_chains_in_one_bucket_are_that_of_the_day(engine, recorded_rows):
    """Options of the first chain that expired at 08:00 are out, those of the later ones win."""
    frame = pl.DataFrame(recorded_rows, schema=SCHEMA)
    got = engine.polars(implied_volatility(engine.frame(frame), interval="1d"))
    want = oracle.implied_volatility(recorded_rows, 86_400, "forward")
    assert {row[:4]: row[4] for row in got.select(*KEY, got.columns[-1]).rows()} == {
        key: pytest.approx(number, abs=1e-9, rel=0) for key, number in want.items()
    }


@pytest.mark.slow
def test_rows_permuted_give_the_same(recorded_rows):
    frame = pl.DataFrame(recorded_rows, schema=SCHEMA)
    for function in (implied_volatility, skew):
        want = function(frame, interval="1h")
        for seed in range(3):
            got = function(frame.sample(fraction=1, shuffle=True, seed=seed), interval="1h")
            assert_frame_equal(got, want, check_exact=True)
