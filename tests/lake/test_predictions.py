"""Prediction markets: what reports of them add up to, and which markets their outcomes are."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tidytape.errors import IngestError, MissingColumnError, QueryError
from tidytape.lake import MARKETS, PREDICTION_MARKETS
from tidytape.lake._predictions import latest, merged, of_events, outcome_markets

NOTHING = PREDICTION_MARKETS.empty()
REPORT = ["exchange", "condition_id", "reported"]
TOLD = [name for name in PREDICTION_MARKETS.names if name not in REPORT]

VALUES = {
    "string": st.sampled_from(["a", "b", "c"]),
    "float64": st.sampled_from([0.0, 0.25, 1.0]),
    "int64": st.integers(0, 9),
    "bool": st.booleans(),
    "list[string]": st.lists(st.sampled_from(["x", "y"]), max_size=2),
    "list[float64]": st.lists(st.sampled_from([0.5, 10.0, 9.0]), max_size=2),
}


@st.composite
def reports(draw: st.DrawFn) -> pl.DataFrame:
    some = st.sets(st.sampled_from([name for name in TOLD if name != "slug"]), max_size=6)
    rows = [
        {
            "exchange": "P",
            "condition_id": draw(st.sampled_from(["0x1", "0x2"])),
            "reported": draw(st.integers(0, 4)),
            "slug": draw(VALUES["string"]),
        }
        | {name: draw(VALUES[PREDICTION_MARKETS[name].dtype]) for name in sorted(draw(some))}
        for _ in range(draw(st.integers(0, 7)))
    ]
    return pl.DataFrame(rows, schema=PREDICTION_MARKETS.polars())


# -- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(reports(), st.randoms(use_true_random=False))
def test_neither_order_nor_grouping_of_reports_matters(said, random):
    together = merged(NOTHING, said)
    order = list(range(said.height))
    random.shuffle(order)
    cut = random.randint(0, said.height)
    one_by_one = NOTHING
    for row in order:
        one_by_one = merged(one_by_one, said[row])
    assert_frame_equal(one_by_one, together)
    halves = merged(merged(NOTHING, said[order[cut:]]), said[order[:cut]])
    assert_frame_equal(halves, together)


@pytest.mark.slow
@given(reports(), reports())
def test_the_same_again_changes_nothing(first, second):
    both = merged(merged(NOTHING, first), second)
    assert_frame_equal(merged(both, first), both)
    assert_frame_equal(merged(both, both), both)


def by_plain_loops(said: pl.DataFrame) -> dict[tuple[str, str], dict[str, object]]:
    """Of each market and column the value of the newest report that tells it; of equal times the larger value."""
    found: dict[tuple[str, str], dict[str, tuple[object, ...]]] = {}
    for row in said.to_dicts():
        market = found.setdefault((row["exchange"], row["condition_id"]), {})
        market["reported"] = max(market.get("reported", (-1,)), (row["reported"],))
        for name in TOLD:
            value = row[name]
            if value is None:
                continue
            if name == "available_since":
                market[name] = min(market.get(name, (value,)), (value,))
                continue
            rank = "\n".join(map(str, value)) if isinstance(value, list) else value
            known = market.get(name)
            if known is None or (row["reported"], rank) > known[:2]:
                market[name] = (row["reported"], rank, value)
    return {key: {name: facts[-1] for name, facts in market.items()} for key, market in found.items()}


@given(reports())
def test_of_each_field_the_newest_report_that_tells_it_counts(said):
    got = {
        (row.pop("exchange"), row.pop("condition_id")): {k: v for k, v in row.items() if v is not None}
        for row in latest(merged(NOTHING, said)).to_dicts()
    }
    assert got == by_plain_loops(said)


@given(reports())
def test_each_field_of_a_market_is_told_once(said):
    state = merged(NOTHING, said)
    assert not state.select(REPORT).is_duplicated().any()
    told = state.group_by(REPORT[:2]).agg(pl.col(TOLD).is_not_null().sum())
    assert told.select(pl.max_horizontal(TOLD).max()).item() in {None, 1}
    assert state.filter(pl.all_horizontal(pl.col(TOLD).is_null())).is_empty()


# -- in the lake -----------------------------------------------------------------------------------------------------


def report(reported: int, **fields: object) -> pl.DataFrame:
    row = {"exchange": "P", "condition_id": "0x1", "reported": reported, "slug": "rain"} | fields
    return pl.DataFrame([row])


def test_a_newer_report_updates_and_an_older_one_does_not(lake):
    lake.writer().register_prediction_markets(
        report(5, last_price=0.5, closed=False, available_since=3, prices=[0.1, 0.5])
    )
    lake.writer().register_prediction_markets(report(9, last_price=0.7, available_since=4))
    lake.writer().register_prediction_markets(
        report(7, last_price=0.6, closed=True, line=1.5, available_since=2)
    )
    row = lake.prediction_markets().row(0, named=True)
    assert {name: value for name, value in row.items() if value is not None} == {
        "exchange": "P", "condition_id": "0x1", "reported": 9, "slug": "rain", "last_price": 0.7, "closed": True,
        "line": 1.5, "prices": [0.1, 0.5], "available_since": 2,
    }  # fmt: skip
    assert_frame_equal(latest(lake.scan("prediction_markets").collect()), lake.prediction_markets())


def test_the_same_again_makes_no_version(lake):
    said = report(5, outcomes=["Yes", "No"], raw_symbols=["1", "2"], last_price=float("nan"))
    lake.writer().register_prediction_markets(said, sources=["a"])
    version = lake.version()
    lake.writer().register_prediction_markets(said, sources=["a"])
    lake.writer().register_prediction_markets(pl.concat([said, said]))
    assert lake.version() == version
    assert lake.has_source("prediction_markets", "a")
    assert lake.prediction_markets()["last_price"].to_list() == [None]


def test_a_report_says_what_of_and_when(lake):
    for name in ("exchange", "condition_id", "reported", "slug"):
        with pytest.raises(MissingColumnError, match=name):
            lake.writer().register_prediction_markets(report(5).drop(name))
        with pytest.raises(IngestError, match=name):
            lake.writer().register_prediction_markets(report(5).with_columns(pl.lit(None).alias(name)))
    with pytest.raises(QueryError, match="markets are registered"):
        lake.writer().append("prediction_markets", report(5), source="a")


# -- markets of outcomes ---------------------------------------------------------------------------------------------


def two_events() -> pl.DataFrame:
    rows = [
        {"condition_id": "0x1", "slug": "rain-in-may", "event_slug": "rain", "outcomes": ["Yes", "No"],
         "raw_symbols": ["1", "2"]},
        {"condition_id": "0x2", "slug": "rain-in-june", "event_slug": "rain", "outcomes": ["Yes", "No"],
         "raw_symbols": ["3", "4"]},
        {"condition_id": "0x3", "slug": "snow", "outcomes": None, "raw_symbols": ["5"]},
        {"condition_id": "0x4", "slug": "no-market", "outcomes": ["Yes"], "raw_symbols": None},
    ]  # fmt: skip
    return pl.DataFrame(
        [{"exchange": "P", "reported": 1} | row for row in rows], schema=PREDICTION_MARKETS.polars()
    )


def test_every_outcome_is_a_market():
    got = outcome_markets(two_events(), quote_coin="USDC", quote_coin_name="USD Coin")
    assert got.schema == MARKETS.empty().schema
    assert got.select("raw_symbol", "coin", "normalized_symbol", "full_name").rows()[::2] == [
        ("1", "rain-in-may:Yes", "rain-in-may:Yes-USDC", "Yes"),
        ("3", "rain-in-june:Yes", "rain-in-june:Yes-USDC", "Yes"),
        ("5", "snow:5", "snow:5-USDC", "5"),
    ]
    assert outcome_markets(NOTHING, quote_coin="USDC", quote_coin_name="").schema == MARKETS.empty().schema


def test_a_token_of_two_prediction_markets_is_one_market():
    twice = two_events().with_columns(raw_symbols=pl.lit(["1", "2"]))
    assert outcome_markets(twice, quote_coin="USDC", quote_coin_name="")["raw_symbol"].to_list() == ["1", "2"]


@pytest.mark.parametrize(
    ("slugs", "symbols"),
    [
        ([], ["5", "4", "3", "2", "1", "BTC"]),
        (["rain-in-may"], ["2", "1"]),
        (["rain"], ["4", "3", "2", "1"]),
        (["snow", "rain-in-june"], ["5", "4", "3"]),
        (["no-market"], []),
    ],
)
def test_markets_of_events(slugs, symbols):
    markets = pl.DataFrame({"exchange": "P", "raw_symbol": ["5", "4", "3", "2", "1", "BTC"]})
    got = of_events(markets, two_events(), slugs)
    assert got.columns == markets.columns
    assert got["raw_symbol"].to_list() == symbols


def test_the_same_symbol_elsewhere_is_another_market():
    markets = pl.DataFrame({"exchange": ["P", "Q"], "raw_symbol": ["5", "5"]})
    assert of_events(markets, two_events(), ["snow"]).rows() == [("P", "5")]


@pytest.mark.parametrize("copies", [1, 2_000])
def test_an_unknown_slug_names_the_nearest(copies):
    many = pl.concat(
        [two_events(), *[two_events()[2].with_columns(slug=pl.lit(f"z{n}")) for n in range(copies)]]
    )
    markets = pl.DataFrame({"exchange": ["P"], "raw_symbol": ["5"]})
    with pytest.raises(QueryError, match="did you mean 'rain-in-june'") as caught:
        of_events(markets, many, ["rain-in-jun"])
    assert (caught.value.parameter, caught.value.code) == ("event", "INVALID_SYMBOL")
    with pytest.raises(QueryError, match=r"client\.markets\(\)"):
        of_events(markets, many, ["qqqqqqqq"])
    # A venue that was not asked for has no say.
    with pytest.raises(QueryError):
        of_events(markets.with_columns(exchange=pl.lit("Q")), many, ["snow"])
