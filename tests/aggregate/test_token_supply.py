"""Token supply: literal values on every engine, and recorded market caps against plain Python."""

from __future__ import annotations

import csv

import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import token_supply
from tidytape.errors import MissingColumnError, QueryError
from tidytape.lake._tables import TOKEN_SUPPLY
from tidytape.schema import schema_of

HOUR = 3_600 * 10**9
DAY = 24 * HOUR
SCHEMA = {
    column.name: {"string": pl.String, "float64": pl.Float64, "int64": pl.Int64}[column.dtype]
    for column in TOKEN_SUPPLY.columns
}


def frame_of(*rows):
    """Reports with nothing but what is given."""
    return pl.DataFrame([dict.fromkeys(SCHEMA) | row for row in rows], schema=SCHEMA, orient="row")


def report(token, time, marketcap, **others):
    return {"token_name": token, "timestamp": time, "marketcap": marketcap, **others}


@pytest.fixture
def reports() -> pl.DataFrame:
    return frame_of(
        report("bitcoin", 2, 6.0, coin="BTC", usd_price=3.0, cg_marketcap_rank=1),
        report("bitcoin", 1, 5.0, coin="BTC", total_supply=21.0, chain="bitcoin", usd_price=2.0),
        report("ether", 1, 2.0, coin="ETH", cg_marketcap_rank=2),
        report("ether", 3, None, contract_address="0x"),
        report("bitcoin", HOUR, 7.0),
        report("dollar", HOUR, None, circulating_supply=9.0),
    )


def test_literal_points(engine, reports):
    got = engine.polars(token_supply(engine.frame(reports), interval="1h"))
    names = schema_of("TOKEN_SUPPLY_AGG").names
    values = names[names.index("is_final") + 1 :]
    got = in_columns(got, ["token_name", "coin", "timestamp", *values])
    caps = ["marketcap", "first_marketcap", "marketcap_dominance_percent"]
    assert got.select("token_name", "coin", "timestamp", *caps).rows() == [
        ("bitcoin", "BTC", 0, 6.0, 5.0, 75.0),
        ("bitcoin", None, HOUR, 7.0, 7.0, None),  # what the dollar adds is not known
        ("dollar", None, HOUR, None, None, None),
        ("ether", "ETH", 0, 2.0, 2.0, 25.0),
    ]
    others = ["total_supply", "usd_price", "cg_marketcap_rank", "chain", "contract_address"]
    assert got.select(others).rows() == [
        (21.0, 3.0, 1, "bitcoin", None),
        (None, None, None, None, None),
        (None, None, None, None, None),
        (None, None, 2, None, "0x"),
    ]


@pytest.mark.slow
def test_the_universe_is_the_whole(engine, reports):
    got = engine.polars(token_supply(engine.frame(reports), interval="1h", universe=["ether", "bitcoin"]))
    # Ether's 2 holds in the second hour.
    assert got["marketcap_dominance_percent"].to_list() == [75.0, 100 * 7 / 9, None, 25.0]
    for lacking in (["ether", "dollar"], ["ether", "bitcoin", "nobody"]):
        got = engine.polars(token_supply(engine.frame(reports), interval="1h", universe=lacking))
        assert got["marketcap_dominance_percent"].null_count() == 4


@pytest.mark.parametrize(("later", "expected"), [(DAY, 25.0), (DAY + 1, None)])
def test_a_market_cap_holds_for_24_hours(engine, later, expected):
    reports = frame_of(report("a", 7, 3.0), report("b", 7 + later, 1.0))
    got = engine.polars(token_supply(engine.frame(reports), interval="1h"))
    # One token alone is no universe.
    assert got["marketcap_dominance_percent"].fill_nan(None).to_list() == [None, expected]


def test_a_report_takes_the_place_of_the_one_before(engine):
    # In whole seconds and what is left of them their order is another one.
    times = (1, 60 * 10**9, -1)
    got = engine.polars(
        token_supply(
            engine.frame(frame_of(*(report("a", time, 2.0) for time in times))), interval="1m", universe=["a"]
        )
    )
    assert got["marketcap_dominance_percent"].to_list() == [100.0, 100.0, 100.0]


def test_what_a_week_reported_is_in_its_sum(engine):
    monday = 4 * DAY
    reports = frame_of(report("a", monday, 3.0), report("b", monday + 3 * DAY, 1.0))
    got = engine.polars(token_supply(engine.frame(reports), interval="1w"))
    assert got["marketcap_dominance_percent"].to_list() == [75.0, 25.0]


def test_a_sum_of_nothing_has_no_shares(engine):
    got = engine.polars(token_supply(engine.frame(frame_of(report("a", 0, 0.0))), interval="1h"))
    assert got.select("marketcap", "marketcap_dominance_percent").rows() == [(0.0, None)]


def test_no_reports_give_no_points_but_all_columns(engine, reports):
    got = engine.polars(token_supply(engine.frame(reports.clear()), interval="1h", universe=["a"]))
    assert got.height == 0
    assert got.columns == token_supply(reports, interval="1h").columns


@pytest.mark.parametrize("universe", ["bitcoin", [], ()])
def test_a_universe_is_a_list_of_names(reports, universe):
    with pytest.raises(QueryError, match=r"universe: .* expected names of tokens"):
        token_supply(reports, interval="1h", universe=universe)


def test_a_missing_column_is_named(engine, reports):
    with pytest.raises(MissingColumnError, match="usd_price"):
        token_supply(engine.frame(reports.drop("usd_price")), interval="1h")


def test_recorded_market_caps(engine, recorded):
    rows, caps = [], {}
    for token in ("bitcoin", "ethereum"):
        with (recorded / f"hathix_coingecko_{token}.csv").open() as lines:
            for line in csv.DictReader(lines):
                time = int(line["timestamp"]) * 10**6
                marketcap, price = float(line["marketCap"]), float(line["price"])
                rows.append(report(token, time, marketcap, usd_price=price))
                caps.setdefault(time // DAY * DAY, {}).setdefault(token, []).append(marketcap)
    expected = [
        (
            token,
            day,
            of_day[token][-1],
            of_day[token][0],
            100 * of_day[token][-1] / sum(c[-1] for c in of_day.values()),
        )
        for token in ("bitcoin", "ethereum")
        for day, of_day in sorted(caps.items())
    ]
    got = engine.polars(token_supply(engine.frame(frame_of(*rows)), interval="1d"))
    assert got.height == 2 * 365
    found = got.select(
        "token_name", "timestamp", "marketcap", "first_marketcap", "marketcap_dominance_percent"
    )
    assert [row[:4] for row in found.rows()] == [row[:4] for row in expected]
    assert found["marketcap_dominance_percent"].to_list() == pytest.approx(
        [row[4] for row in expected], rel=1e-14
    )
