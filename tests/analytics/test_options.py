"""Forwards and points of smiles, and term structures made of them: by hand, by plain Python, by another library."""

from __future__ import annotations

import math
import warnings
from datetime import UTC, date, datetime, timedelta
from itertools import count

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from oracles import options as oracle
from tidytape import aggregate
from tidytape.analytics import options
from tidytape.errors import MissingColumnError, QueryError

NOW = datetime(2026, 3, 5, 8, tzinfo=UTC)
T = 7 / 365

# Puts dearer than calls by 0.2 vol points per unit of strike.
WIDE = [(7.0, kind, float(strike), 80 - 0.2 * strike) for strike in range(60, 151) for kind in "CP"]


def structure(*rows, **columns):
    """A term structure of (days, volatility) at one time."""
    days, volatility = zip(*rows, strict=True) if rows else ((), ())
    return pl.DataFrame(
        {"timestamp": NOW, "days": days, "implied_volatility": volatility, **columns},
        schema_overrides={"days": pl.Float64, "implied_volatility": pl.Float64},
    )


# -- forward


def test_forward_is_the_median_of_what_is_quoted(engine, quotes):
    chain = quotes(
        (7, "C", 90, 50), (7, "P", 90, 50), (7, "C", 100, None), (7, "P", 110, 50), (28, "C", 90, 50)
    )
    chain = chain.with_columns(forward=pl.Series([100.0, 102.0, 101.0, -5.0, None]))
    got = engine.polars(options.forward(engine.frame(chain)))
    assert got.columns == [
        "timestamp", "exchange", "expiry", "coin", "method", "days", "quotes", "lowest", "highest", "forward"
    ]  # fmt: skip
    assert got.select("days", "forward", "lowest", "highest", "quotes", "method").rows() == [
        (7.0, 101.0, 100.0, 102.0, 3, "quoted"),
        (28.0, None, None, None, 0, "quoted"),
    ]


def test_forward_by_parity_is_of_the_strike_where_call_and_put_differ_least(engine, quotes):
    chain = quotes((7, "C", 90, 0), (7, "P", 90, 0), (7, "C", 100, 0), (7, "P", 100, 0), (7, "C", 110, 0))
    # In coin: at 90 c - p = 0.12, at 100 it is 0.02; at 110 there is no put.
    chain = chain.with_columns(mark_price=pl.Series([0.15, 0.03, 0.06, 0.04, 0.01]))
    got = engine.polars(options.forward(engine.frame(chain), method="parity"))
    [row] = got.select("forward", "lowest", "highest", "quotes").rows()
    assert row == (pytest.approx(100 / 0.98), pytest.approx(100 / 0.98), pytest.approx(90 / 0.88), 2)
    quote = chain.with_columns(paid=pl.Series([15.0, 3.0, 6.0, 4.0, 1.0]))
    got = engine.polars(options.forward(engine.frame(quote), method="parity", price="paid", premium="quote"))
    assert got.select("forward", "lowest", "highest", "quotes", "method").rows() == [
        (102, 102, 102, 2, "parity")
    ]


def test_forward_by_parity_takes_the_lower_of_two_strikes(quotes):
    chain = quotes((7, "C", 100, 0), (7, "P", 100, 0), (7, "C", 104, 0), (7, "P", 104, 0))
    chain = chain.with_columns(mark_price=pl.Series([6.0, 4.0, 4.0, 6.0]))
    assert options.forward(chain, method="parity", premium="quote")["forward"].to_list() == [102.0]
    chain = chain.with_columns(mark_price=pl.Series([6.0, 4.0, 3.0, 5.0]))
    assert options.forward(chain, method="parity", premium="quote")["forward"].to_list() == [102.0]
    chain = chain.with_columns(mark_price=pl.Series([5.0, None, 3.0, float("nan")]))
    assert options.forward(chain, method="parity", premium="quote").select("forward", "quotes").rows() == [
        (None, 0)
    ]


def test_recorded_forward_by_parity_is_the_one_quoted(chains):
    quoted = options.forward(chains)
    parity = options.forward(chains, method="parity")
    both = quoted.join(parity, on=["coin", "timestamp", "expiry"], suffix="_parity")
    assert len(both) == len(quoted) == 72
    # Call and put of a strike are seconds apart in a snapshot, and the forward of short expiries moves meanwhile.
    assert ((both["forward_parity"] / both["forward"] - 1).abs() < 1e-3).all()
    assert (both["highest"] / both["lowest"] - 1).max() == pytest.approx(8e-4, abs=1e-5)


# -- points


def test_money_lies_between_the_put_below_and_the_call_above(engine, quotes):
    chain = quotes((7, "P", 90, 70), (7, "C", 90, 1), (7, "P", 110, 1), (7, "C", 110, 60))
    share = math.log(1 / 0.9) / math.log(1.1 / 0.9)
    got = engine.polars(options.atm_volatility(engine.frame(chain)))
    assert got.columns == ["timestamp", "exchange", "expiry", "coin", "atm", "days", "forward", "iv_atm"]
    assert got.row(0)[4:] == ("forward", 7.0, 100.0, pytest.approx(70 - 10 * share, abs=1e-12))


def test_delta_neutral_money_is_where_the_straddle_has_no_delta(quotes):
    strike = 100 * math.exp(0.6**2 * T / 2)
    chain = quotes((7, "P", 90, 80), (7, "C", strike, 60), (7, "C", 120, 50))
    got = options.atm_volatility(chain, atm="delta_neutral")
    assert got.select("iv_atm", "atm").row(0) == (pytest.approx(60, abs=1e-9), "delta_neutral")
    assert options.atm_volatility(chain)["iv_atm"].item() > 60.0


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["forward", "premium_adjusted"])
@pytest.mark.parametrize("percent", [25, 10])
def test_points_lie_on_delta_between_two_strikes(engine, quotes, rule, percent):
    """The two strikes around the point by hand, and linear in delta between them."""

    def delta(strike, kind):
        d1, d2 = (
            (math.log(100 / strike) + sign * (v := 80 - 0.2 * strike) ** 2 / 1e4 * T / 2) / (v / 100 * T**0.5)
            for sign in (1, -1)
        )
        side = 1 if kind == "C" else -1
        return side * (oracle.cdf(side * d1) if rule == "forward" else strike / 100 * oracle.cdf(side * d2))

    def by_hand(kind, at):
        for strike in range(150, 60, -1):
            above, below = delta(strike, kind), delta(strike - 1, kind)
            if above <= at < below:
                volatility = 80 - 0.2 * strike
                return volatility + 0.2 * (at - above) / (below - above)
        raise AssertionError

    got = engine.polars(options.delta_points(engine.frame(quotes(*WIDE)), deltas=[percent], delta=rule))
    assert got.select(f"iv_{percent}p", f"iv_{percent}c", "delta").row(0) == (
        pytest.approx(by_hand("P", -percent / 100), abs=1e-9),
        pytest.approx(by_hand("C", percent / 100), abs=1e-9),
        rule,
    )


def test_points_outside_the_listed_strikes_are_null(engine, quotes):
    chain = quotes((7, "P", 98, 50), (7, "C", 98, 50), (7, "P", 102, 50), (7, "C", 102, 50))
    got = engine.polars(options.delta_points(engine.frame(chain), deltas=(25, 45)))
    assert got.select("iv_atm", "iv_25p", "iv_25c", "iv_45p", "iv_45c").row(0) == (
        pytest.approx(50), None, None, pytest.approx(50), pytest.approx(50)
    )  # fmt: skip


@pytest.mark.slow
def test_expiries_without_a_smile_are_there_and_null(engine, quotes):
    chain = quotes(
        (7, "P", 90, 50), (7, "C", 110, None), (0, "C", 100, 50), (-1, "C", 100, 50), (9, None, 100, 5)
    )
    got = engine.polars(options.delta_points(engine.frame(chain)))
    assert got["days"].to_list() == [-1.0, 0.0, 7.0, 9.0]
    assert got.select("iv_atm", "iv_25p", "iv_25c").rows() == [(None,) * 3] * 4


@pytest.mark.long
@pytest.mark.parametrize("column", ["strike", "implied_volatility", "forward"])
def test_a_bad_quote_is_as_if_it_were_not_there(engine, quotes, column):
    chain = quotes(*WIDE)
    good = chain.filter(pl.col("strike") == 100)
    bad = [
        good.with_columns(pl.lit(value, pl.Float64).alias(column))
        for value in (None, 0.0, -1.0, float("nan"), float("inf"))
    ]
    got = engine.polars(options.delta_points(engine.frame(pl.concat([*bad, chain]))))
    want = options.delta_points(chain).rows()
    assert got.rows() == want
    for one in bad:  # none of them undoes what another one does
        assert options.delta_points(pl.concat([one, chain])).rows() == want


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["polars", "duckdb", "pyarrow dates in pandas"])
def test_an_expiry_that_is_a_date_is_eight_in_the_morning_utc(kind, quotes):
    from engines import Engine

    chain = quotes(*WIDE)
    dates = chain.with_columns(pl.col("expiry").dt.date())
    assert dates["expiry"][0] == date(2026, 3, 12)
    want = options.delta_points(chain)
    if kind == "pyarrow dates in pandas":
        frame = dates.to_pandas().assign(
            expiry=pd.array(dates["expiry"].to_list(), dtype=pd.ArrowDtype(pa.date32()))
        )
        got = pl.from_pandas(options.delta_points(frame))
    else:
        got = Engine(kind).polars(options.delta_points(Engine(kind).frame(dates)))
    assert got["expiry"].dt.convert_time_zone("UTC")[0] == NOW + timedelta(days=7)
    assert got.drop("timestamp", "expiry").rows() == want.drop("timestamp", "expiry").rows()


@pytest.mark.slow
def test_recorded_points_equal_plain_python(chains):
    rows = chains.with_columns(pl.col("timestamp", "expiry").dt.timestamp("ns")).rows(named=True)
    for rule in ("forward", "premium_adjusted"):
        got = options.delta_points(chains, deltas=(25, 10), delta=rule)
        found = {(row["coin"], row["timestamp"], row["expiry"]): row for row in got.rows(named=True)}
        assert len(found) == 72
        compared = 0
        for (_, coin, _), expiries in oracle.chains(rows, 1).items():
            for days, smile in expiries.values():
                [row] = [
                    row for (name, *_), row in found.items()
                    if name == coin and abs(row["days"] - days) < 1e-9
                ]  # fmt: skip
                for name, kind, at in [
                    ("iv_25p", "PUT", -0.25), ("iv_25c", "CALL", 0.25), ("iv_10p", "PUT", -0.1), ("iv_10c", "CALL", 0.1)
                ]:  # fmt: skip
                    ladder = [
                        (
                            -oracle.delta_of(quote, rule),
                            quote["implied_volatility"],
                            abs(oracle.moneyness(quote)),
                        )
                        for quote in smile
                        if quote["option_type"] == kind
                    ]
                    want = oracle.read_off(ladder, -at)
                    assert row[name] == (None if want is None else pytest.approx(want, abs=1e-9))
                    compared += want is not None
        assert compared > 200


@pytest.mark.slow
def test_the_service_says_the_same_of_recorded_chains(chains):
    counted = chains.with_columns(pl.col("timestamp", "expiry").dt.timestamp("ns"))
    tenors = {1.0: "ONE_D", 3.0: "THREE_D", 7.0: "ONE_W", 30.0: "ONE_M", 60.0: "TWO_M", 90.0: "THREE_M",
              180.0: "SIX_M", 365.0: "ONE_Y"}  # fmt: skip
    points = options.constant_maturity(options.delta_points(chains), days=list(tenors))
    for value, whose in (("implied_volatility", "ATM"), ("skew", "25")):
        want = {
            (row["coin"], row["tenor"], row["timestamp"] // 3_600_000_000_000): row[value]
            for row in getattr(aggregate, value)(counted, interval="1h").rows(named=True)
            if row["raw_symbol"].endswith(whose)
        }
        got = {
            (row["coin"], tenors[row["days"]], int(row["timestamp"].timestamp()) // 3600): row[value]
            for row in options.term_structure(points, value=value).drop_nulls(value).rows(named=True)
        }
        assert got == {key: pytest.approx(number, abs=1e-9) for key, number in want.items()}
        assert len(got) == 42


@pytest.mark.slow
def test_strikes_may_be_whole_numbers(engine, quotes):
    whole = quotes(*WIDE).cast({"strike": pl.Int32})
    assert (
        engine.polars(options.delta_points(engine.frame(whole))).rows()
        == options.delta_points(quotes(*WIDE)).rows()
    )


# -- differences


def test_risk_reversal_and_butterfly_have_their_signs(engine):
    points = pl.DataFrame(
        {"iv_atm": [54.0, 54.0], "iv_25p": [58.0, None], "iv_25c": [54.0, 54.0], "else": [1, 2]}
    )
    reversal = engine.polars(options.risk_reversal(engine.frame(points)))
    assert reversal["rr25_call_minus_put"].fill_nan(None).to_list() == [-4.0, None]
    assert reversal.columns == [*points.columns, "rr25_call_minus_put"]
    fly = engine.polars(options.butterfly(engine.frame(points)))
    assert fly["bf25"].fill_nan(None).to_list() == [2.0, None]


def test_rows_of_pandas_keep_their_index():
    points = pd.DataFrame({"iv_25p": [58.0, 57.0], "iv_25c": [54.0, 56.0]}, index=[7, 3])
    assert options.risk_reversal(points)["rr25_call_minus_put"].to_dict() == {7: -4.0, 3: -1.0}


# -- maturities


def test_constant_maturity_is_linear_in_total_variance(engine):
    points = pl.DataFrame(
        {"timestamp": NOW, "days": [56.0, 28.0], "iv_atm": [58.0, 60.0], "iv_25p": [None, 61.0]}
    )
    got = engine.polars(options.constant_maturity(engine.frame(points), days=[30, 28, 56, 27.9, 56.1]))
    assert got["days"].to_list() == [27.9, 28.0, 30.0, 56.0, 56.1]
    at_30 = math.sqrt((60**2 * 28 + (58**2 * 56 - 60**2 * 28) * 2 / 28) / 30)
    assert round(at_30, 4) == 59.7372  # definitions
    want = [None, 60.0, at_30, 58.0, None]
    assert got["iv_atm"].fill_nan(None).to_list() == [
        value and pytest.approx(value, abs=1e-12) for value in want
    ]
    assert got["iv_25p"].fill_nan(None).to_list() == [None, pytest.approx(61.0, abs=1e-12), None, None, None]


def test_each_delta_is_interpolated_before_the_difference():
    points = pl.DataFrame(
        {"timestamp": NOW, "days": [10.0, 40.0], "iv_25p": [90.0, 50.0], "iv_25c": [70.0, 48.0]}
    )

    def at_20(near, far):
        return math.sqrt((near**2 * 10 * 2 / 3 + far**2 * 40 / 3) / 20)

    reversal = options.risk_reversal(options.constant_maturity(points, days=20))["rr25_call_minus_put"].item()
    assert reversal == pytest.approx(at_20(70, 48) - at_20(90, 50), abs=1e-12)
    assert abs(reversal - (-20 * 2 / 3 - 2 / 3)) > 0.5  # which interpolating the difference would give


def test_an_expiry_without_the_point_is_not_passed_over():
    points = pl.DataFrame({"timestamp": NOW, "days": [6.0, 7.5, 8.0], "iv_atm": [60.0, None, 60.0]})
    assert options.constant_maturity(points, days=7)["iv_atm"].to_list() == [None]


def test_maturities_may_be_tenors():
    points = pl.DataFrame({"timestamp": NOW, "days": [6.0, 40.0], "iv_atm": [60.0, 50.0]})
    by_name = options.constant_maturity(points, days=["1w", 30])
    assert by_name.equals(options.constant_maturity(points, days=[7, 30]))
    assert options.constant_maturity(points, days="1m").equals(by_name.filter(days=30))
    with pytest.raises(QueryError, match="days: got 'ten'"):
        options.constant_maturity(points, days="ten")


def test_rules_are_not_mixed():
    points = pl.DataFrame(
        {"timestamp": NOW, "days": [28.0, 56.0], "iv_atm": [60.0, 58.0], "atm": ["forward", "x"]}
    )
    got = options.constant_maturity(points, days=30)
    assert got.select("atm", "iv_atm").rows() == [("forward", None), ("x", None)]


@pytest.mark.slow
def test_constant_maturity_is_that_of_quantlib():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its types have no module
        ql = pytest.importorskip(
            "QuantLib", reason="QuantLib has no wheel for this Python: nothing to compare with"
        )
    today = ql.Date(5, 3, 2026)
    days = [1, 3, 8, 15, 22, 50, 113, 204, 295, 386]
    vols = [61.0, 57.5, 54.25, 55.0, 52.0, 51.125, 50.0, 50.5, 51.0, 49.0]
    curve = ql.BlackVarianceCurve(
        today, [today + day for day in days], [vol / 100 for vol in vols], ql.Actual365Fixed()
    )
    points = pl.DataFrame({"timestamp": NOW, "days": [float(day) for day in days], "iv_atm": vols})
    wanted = [1, *(1.25 * 1.11**step for step in range(54)), 30, 90, 365, 386]
    assert max(wanted) == 386
    got = options.constant_maturity(points, days=wanted)
    want = [curve.blackVol(day / 365, 100.0) * 100 for day in got["days"]]
    assert got["iv_atm"].to_list() == pytest.approx(want, abs=1e-10)
    assert len(want) == 59


def test_term_structure_is_in_order_and_at_a_time(engine):
    later = NOW + timedelta(hours=1)
    points = pl.DataFrame(
        {
            "coin": ["B", "B", "B", "E"], "timestamp": [NOW, later, NOW, NOW], "expiry": NOW + timedelta(days=56),
            "days": [56.0, 55.0, 28.0, 56.0], "iv_atm": [58.0, 57.0, 60.0, 70.0], "iv_10p": 62.0, "iv_10c": 59.0,
        }
    )  # fmt: skip
    got = engine.polars(options.term_structure(engine.frame(points)))
    assert got.columns == ["timestamp", "coin", "expiry", "days", "implied_volatility"]
    assert got.select("coin", "days", "implied_volatility").rows() == [
        ("B", 28.0, 60.0), ("B", 56.0, 58.0), ("B", 55.0, 57.0), ("E", 56.0, 70.0)
    ]  # fmt: skip
    skew = options.term_structure(engine.frame(points), value="skew", delta=10, at="2026-03-05T09:00:00Z")
    assert engine.polars(skew).select("coin", "days", "skew").rows() == [("B", 55.0, 3.0), ("E", 56.0, 3.0)]
    before = options.term_structure(engine.frame(points), at=NOW + timedelta(minutes=59))
    assert engine.polars(before)["days"].to_list() == [28.0, 56.0, 56.0]


def test_at_is_of_all_rows_where_there_is_one_series():
    points = pl.DataFrame({"timestamp": [NOW, NOW + timedelta(hours=1)], "days": [2.0, 1.0], "iv_atm": 50.0})
    assert options.term_structure(points, at="2026-03-06")["days"].to_list() == [1.0]


@pytest.mark.parametrize(
    ("rows", "slope", "shape"),
    [
        ([(7, 60), (30, 55), (90, 53)], -7.0, "backwardation"),
        ([(90, 63), (7, 60)], 3.0, "contango"),
        ([(7, 60), (90, 60)], 0.0, "flat"),
        ([(7, 60), (30, 55)], None, None),
        ([(7, None), (90, 55)], None, None),
    ],
)
def test_slope_is_long_less_short(engine, rows, slope, shape):
    got = engine.polars(options.slope(engine.frame(structure(*rows)), short="1w", long="3m"))
    assert got.columns == [
        "timestamp", "short_days", "long_days", "flat_within", "short", "long", "slope", "structure"
    ]  # fmt: skip
    assert got.select("short_days", "long_days", pl.col("slope").fill_nan(None), "structure").row(0) == (
        7.0, 90.0, slope, shape
    )  # fmt: skip
    assert engine.polars(options.slope(engine.frame(structure(*rows)), short=7, long=90)).rows() == got.rows()


def test_forward_volatility_and_the_flag(engine):
    rows = structure((56, 58), (28, 60), (60, 50), (61, None), (62, 0), (90, 50))
    got = engine.polars(options.forward_volatility(engine.frame(rows)))
    assert got.columns == ["timestamp", "days", "next_days", "calendar_arbitrage", "forward_volatility"]
    expected = math.sqrt((58**2 * 56 - 60**2 * 28) / 28)
    assert got.drop("timestamp").with_columns(pl.col("forward_volatility").fill_nan(None)).rows() == [
        (28.0, 56.0, False, pytest.approx(expected, abs=1e-12)),
        (56.0, 60.0, True, None),
        (60.0, 90.0, False, pytest.approx(50.0, abs=1e-12)),
    ]


def test_equal_total_variance_is_no_arbitrage():
    rows = structure((0.1, 60), (0.2, 60 / math.sqrt(2)), (0.3, 60 / math.sqrt(3)))
    got = options.forward_volatility(rows)
    assert got["calendar_arbitrage"].to_list() == [False, False]
    assert got["forward_volatility"].to_list() == pytest.approx([0, 0], abs=1e-4)


def test_a_slope_within_a_band_is_flat(engine):
    rows = structure((7, 60), (90, 58))
    for flat, shape in ((0, "backwardation"), (1.9, "backwardation"), (2, "flat"), (3, "flat")):
        got = engine.polars(options.slope(engine.frame(rows), short=7, long=90, flat=flat))
        assert got.select("structure", "flat_within").row(0) == (shape, flat)


# -- arguments


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda chain: options.atm_volatility(chain, atm="spot"), "atm"),
        (lambda chain: options.delta_points(chain, delta="spot"), "delta"),
        (lambda chain: options.delta_points(chain, deltas=[0.25]), "delta"),
        (lambda chain: options.delta_points(chain, deltas=[50]), "delta"),
        (lambda chain: options.delta_points(chain, deltas="25"), "delta"),
        (lambda chain: options.delta_points(chain, by="strike"), "by"),
        (lambda chain: options.delta_points(chain, by="iv_25c"), "by"),
        (lambda chain: options.forward(chain, method="spot"), "method"),
        (lambda chain: options.forward(chain, premium="usd"), "premium"),
        (lambda chain: options.forward(chain.with_columns(forward=pl.lit("1"))), "frame"),
        (lambda chain: options.delta_points(chain.with_columns(expiry=pl.lit("2026-03-27"))), "expiry"),
        (lambda chain: options.delta_points(42), "frame"),
        (
            lambda _: options.constant_maturity(structure((1, 2)), days=[], columns=["implied_volatility"]),
            "days",
        ),
        (
            lambda _: options.constant_maturity(structure((1, 2)), days=0, columns=["implied_volatility"]),
            "days",
        ),
        (
            lambda _: options.constant_maturity(structure((1, 2)), days="30", columns=["implied_volatility"]),
            "days",
        ),
        (lambda _: options.slope(structure((1, 2)), short=30, long=30), "long"),
        (lambda _: options.slope(structure((1, 2)), short="2w", long=30), "short"),
        (lambda _: options.slope(structure((1, 2)), short=-1, long=30), "short"),
        (lambda _: options.slope(structure((1, 2)), short=1, long=30, flat=-1), "flat"),
        (lambda _: options.slope(structure((1, 2), skew=1.0), short=1, long=30), "value"),
        (lambda _: options.slope(structure((1, 2)), short=1, long=30, value="rr"), "value"),
        (lambda _: options.term_structure(structure((1, 2), iv_atm=1.0), at="soon"), "at"),
        (lambda _: options.term_structure(structure((1, 2), iv_atm=1.0), value="rr"), "value"),
    ],
    ids=count(),
)
def test_argument_that_cannot_be_right_is_refused(quotes, call, parameter):
    with pytest.raises(QueryError) as error:
        call(quotes((7, "C", 100, 50)))
    assert error.value.parameter == parameter


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        (lambda chain: options.delta_points(chain.drop("strike", "forward")), ("strike", "forward")),
        (lambda chain: options.forward(chain, method="parity"), ("mark_price",)),
        (options.risk_reversal, ("iv_25c", "iv_25p")),
        (lambda chain: options.constant_maturity(chain, days=30), ("days",)),
        (lambda _: options.constant_maturity(structure((1, 2)), days=30), ("iv_atm",)),
        (lambda _: options.constant_maturity(structure((1, 2)), days=30, columns=["iv"]), ("iv",)),
        (
            lambda chain: options.slope(chain.drop("implied_volatility"), short=1, long=2),
            ("implied_volatility",),
        ),
    ],
    ids=count(),
)
def test_missing_column_says_what_is_there(quotes, call, missing):
    with pytest.raises(MissingColumnError) as error:
        call(quotes((7, "C", 100, 50)))
    assert error.value.missing == missing


def test_what_is_no_volatility_has_no_constant_maturity():
    points = pl.DataFrame({"timestamp": [0, 0], "days": [10.0, 30.0], "iv_atm": [-60.0, 50.0]})
    assert options.constant_maturity(points, days=20)["iv_atm"].to_list() == [None]


def _quotes(forward: float, volatility: float, **whose: str) -> pl.DataFrame:
    """Three strikes of a smile that is flat, so that its points are known without a calculation."""
    return pl.DataFrame(
        {
            "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC),
            "expiry": datetime(2026, 4, 4, 8, tzinfo=UTC),
            "option_type": ["PUT", "PUT", "CALL", "CALL"],
            "strike": [90.0, 100.0, 100.0, 110.0],
            "forward": forward,
            "implied_volatility": volatility,
            "mark_price": [0.1, 0.2, 0.2, 0.1],
            **whose,
        }
    )


@pytest.mark.slow
def test_two_underlyings_without_a_name_have_no_points() -> None:
    both = pl.concat([_quotes(100.0, 50.0, coin="A"), _quotes(101.0, 80.0, coin="B")])
    assert options.atm_volatility(both)["iv_atm"].to_list() == [50.0, 80.0]
    for mixed in (both.drop("coin"), both.drop("coin").reverse()):
        assert options.delta_points(mixed).select("forward", "iv_atm", "iv_25c").row(0) == (None, None, None)
        assert options.forward(mixed)["forward"].to_list() == [None]
    priced = both.drop("coin").with_columns(mark_price=pl.Series(range(8)) / 16)
    assert options.forward(priced, method="parity")["forward"].to_list() == [None]
    # The same quote twice is no other quote.
    twice = pl.concat([_quotes(100.0, 50.0)] * 2)
    assert options.atm_volatility(twice)["iv_atm"].to_list() == [50.0]
    assert options.forward(twice)["forward"].to_list() == [100.0]


@pytest.mark.slow
def test_two_underlyings_whose_strikes_do_not_meet_have_no_points(engine) -> None:
    small = _quotes(3.0, 80.0, coin="B").with_columns(pl.col("strike") * 0.03)
    both = pl.concat([_quotes(100.0, 50.0, coin="A"), small]).sample(fraction=1, shuffle=True, seed=3)
    named = engine.polars(options.atm_volatility(engine.frame(both)))
    assert named["iv_atm"].to_list() == pytest.approx([50.0, 80.0], rel=1e-12)
    # By the coins that are there and not told apart; by forwards; by the price of the underlying.
    priced = both.drop("coin").rename({"forward": "underlying_price"})
    nameless = engine.frame(both.drop("coin"))
    for chain, by in ((engine.frame(both.with_columns(forward=100.0)), ()), (nameless, None)):
        points = engine.polars(options.delta_points(chain, by=by)).fill_nan(None)
        assert points.select("forward", "iv_atm", "iv_25c").row(0) == (None, None, None)
    for chain, method in ((nameless, "quoted"), (nameless, "parity"), (engine.frame(priced), "parity")):
        levels = engine.polars(options.forward(chain, method=method))
        assert levels["forward"].fill_nan(None).to_list() == [None]
        assert levels["lowest"].item() < levels["highest"].item()


def test_forwards_of_a_snapshot_may_move_a_little() -> None:
    moving = _quotes(100.0, 50.0).with_columns(forward=pl.Series([99.0, 100.0, 100.0, 102.0]))
    assert options.forward(moving)["forward"].to_list() == [100.0]
    assert options.atm_volatility(moving)["iv_atm"].to_list() == [50.0]


@pytest.mark.slow
@pytest.mark.parametrize("written", [("call", "put"), ("C", "P"), ("c", "p"), ("Call", "Put")])
def test_calls_and_puts_may_be_written_in_any_way(written) -> None:
    chain = _quotes(100.0, 50.0)
    other = chain.with_columns(pl.col("option_type").replace(["CALL", "PUT"], list(written)))
    for function in (options.delta_points, options.forward):
        assert function(other).equals(function(chain))
    parity = [options.forward(rows, method="parity") for rows in (chain, other)]
    assert parity[0].equals(parity[1])
    for function in (options.black76_price, options.implied_volatility):
        assert function(other).equals(function(chain))


def test_a_slope_of_points_says_what_has_the_maturities() -> None:
    with pytest.raises(QueryError, match="constant_maturity"):
        options.slope(options.delta_points(_quotes(100.0, 50.0)), short=7, long=30)


@pytest.mark.parametrize("value", [None, "skew", "rr25_call_minus_put"])
def test_a_slope_of_risk_reversals_says_that_a_term_structure_of_skew_has_it(value: str | None) -> None:
    points = options.delta_points(_quotes(100.0, 50.0))
    reversal = options.risk_reversal(options.constant_maturity(points, days=[7, 30]))
    call = r'term_structure\(constant_maturity\(points, days=\[7, 30\]\), value="skew"\)'
    with pytest.raises(QueryError, match=call):
        options.slope(reversal, short=7, long=30, value=value)
