"""URL parameters in and out: every name of the specification, and every mistake as the wire spells it."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode

import pytest

from tables import each_row
from tidytape.errors import QueryError
from tidytape.query import PointsQuery

EVERYTHING = [
    ("type", "TPO_AGG"),
    ("type", "VOLUME_PROFILE_AGG"),
    ("exchange", "X"),
    ("exchange", "Y"),
    ("coin", "BTC"),
    ("coin", "ETH"),
    ("category", "SPOT"),
    ("category", "PERPETUAL"),
    ("interval", "HOUR"),
    ("from", "1723161600"),
    ("period", "3600"),
    ("side", "BUY"),
    ("sortDirection", "SORT_DIRECTION_DESC"),
    ("transform.normalize.quote", "USD"),
    ("transform.groupBy.type", "GROUP_BY_TYPE_SUM"),
    ("transform.normalize.fundingInterval", "3600000"),
    ("tpoBlockSizeMinutes", "240"),
    ("tpoSession", "TPO_SESSION_WEEKLY"),
    ("maxDepth", "3501"),
    ("blockSize", "0.5"),
    ("event", "a-slug"),
    ("event", "b-slug"),
]


def test_every_parameter_to_its_field() -> None:
    assert PointsQuery.from_params(EVERYTHING) == PointsQuery(
        type=["TPO_AGG", "VOLUME_PROFILE_AGG"],
        exchange=["X", "Y"],
        coin=["BTC", "ETH"],
        category=["SPOT", "PERPETUAL"],
        interval="1h",
        start=1_723_161_600,
        end=1_723_165_200,
        side="BUY",
        sort_direction="desc",
        quote="USD",
        group_by="sum",
        funding_interval="1h",
        tpo_block_minutes=240,
        tpo_session="weekly",
        max_depth=3501,
        block_size=0.5,
        event=["a-slug", "b-slug"],
    )


def test_every_field_to_its_parameter() -> None:
    assert PointsQuery.from_params(EVERYTHING).to_params() == EVERYTHING


@each_row(
    ("name", "changes", "parameter"),
    [
        ("TRADE_AGG", {"coin": ..., "raw_symbol": "S"}, ("rawSymbol", "S")),
        ("TRADE_AGG", {"coin": ..., "normalized_symbol": "B-Q"}, ("normalizedSymbol", "B-Q")),
        ("TRADE_AGG", {"gapfill": True}, ("gapfill", "true")),
        ("TOKEN_SUPPLY_AGG", {"token_name": "Bitcoin"}, ("tokenName", "Bitcoin")),
        ("SKEW_OPTION_SUMMARY_AGG", {"tenor": "2m"}, ("tenor", "TWO_M")),
        (
            "FUNDING_RATE_AGG",
            {"exchange": ["X", "Y"], "group_by": "open_interest_weighted_avg"},
            ("transform.groupBy.type", "GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG"),
        ),
        ("VOLUME_PROFILE_AGG", {"block_size": "0.00000001"}, ("blockSize", "0.00000001")),
        ("VOLUME_PROFILE_AGG", {"block_size": 1e12}, ("blockSize", "1000000000000")),
    ],
)
def test_a_field_to_its_parameter_and_back(ask, name: str, changes: dict, parameter: tuple[str, str]) -> None:
    query = ask(name, **changes)
    assert parameter in query.to_params()
    assert PointsQuery.from_params(query.to_params()) == query


def test_defaults_are_left_out(ask) -> None:
    assert ask(sort_direction="asc", gapfill=False).to_params() == [
        ("type", "TRADE_AGG"),
        ("exchange", "X"),
        ("coin", "BTC"),
        ("interval", "MINUTE"),
        ("from", "0"),
        ("period", "3600"),
    ]


def test_order_of_parameters_does_not_matter() -> None:
    assert PointsQuery.from_params(reversed(EVERYTHING)).to_params()[8:12] == EVERYTHING[8:12]
    moved = [*EVERYTHING[8:], *EVERYTHING[:8]]
    assert PointsQuery.from_params(moved) == PointsQuery.from_params(EVERYTHING)


def test_names_survive_the_url() -> None:
    query = PointsQuery.from_params([("coin", "币安 &=+%/🚀"), *(p for p in EVERYTHING if p[0] != "coin")])
    assert PointsQuery.from_params(parse_qsl(urlencode(query.to_params()))) == query


# --- mistakes ---


def test_wire_names_are_exact(refuse_params) -> None:
    for wrong, right in {
        "intervall": "interval",
        "raw_symbol": "rawSymbol",
        "RawSymbol": "rawSymbol",
        "From": "from",
        "group_by": None,
        "transform.groupby.type": "transform.groupBy.type",
        "transform.normalize.fundinginterval": "transform.normalize.fundingInterval",
        "tpo_block_size_minutes": "tpoBlockSizeMinutes",
        "maxdepth": "maxDepth",
    }.items():
        error = refuse_params((wrong, "x"))
        assert (error.parameter, error.got, error.code) == (wrong, "x", "INVALID_PARAMS")
        if right:
            assert error.hint == f"did you mean {right!r}?"


@each_row("name", ["end", "zzz", "", "\x00", "🚀", "x" * 100_000])
def test_unknown_parameters_are_refused(refuse_params, name: str) -> None:
    error = refuse_params((name, "x"))
    assert error.parameter == name
    assert "no such parameter" in error.expected


@each_row(
    ("name", "value"),
    [
        ("interval", "HOUR"),
        ("from", "1"),
        ("period", "60"),
        ("side", "BUY"),
        ("sortDirection", "SORT_DIRECTION_ASC"),
        ("gapfill", "true"),
        ("tenor", "ONE_W"),
        ("tokenName", "B"),
        ("transform.normalize.quote", "USD"),
        ("transform.groupBy.type", "GROUP_BY_TYPE_SUM"),
        ("transform.normalize.fundingInterval", "1"),
        ("tpoBlockSizeMinutes", "5"),
        ("tpoSession", "TPO_SESSION_DAILY"),
        ("maxDepth", "1"),
        ("blockSize", "1"),
    ],
)
def test_single_valued_parameters_are_given_once(refuse_params, name: str, value: str) -> None:
    error = refuse_params(name, (name, value), (name, value))
    assert (error.parameter, error.got, error.expected) == (name, [value, value], "to be given once")


@each_row("name", ["from", "period"])
@each_row(
    "value",
    [
        "",
        " ",
        "x",
        "1.5",
        "1e3",
        "-1",
        "0x1",
        "1_0",
        "NaN",
        "١٢",
        "\uff11\uff12",
        "2024-08-09",
        "9" * 400,
        "4294967297",
        "1,000",
    ],
)
def test_what_is_no_wire_time(refuse_params, name: str, value: str) -> None:
    error = refuse_params(name, (name, value))
    assert (error.parameter, error.got, error.code) == (name, value, "INVALID_PARAMS")
    assert error.expected.startswith("a whole number from ")
    assert len(str(error)) < 250


def test_window_beyond_the_clock_of_the_service(refuse_params) -> None:
    error = refuse_params("from", "period", ("from", "4294967295"), ("period", "2"))
    assert (error.parameter, error.expected) == ("period", "a whole number from 1 to 1")


@each_row(
    ("name", "value", "code"),
    [
        ("type", "", "INVALID_TYPE"),
        ("exchange", " ", "INVALID_EXCHANGE"),
        ("coin", "a\x00b", "INVALID_SYMBOL"),
        ("rawSymbol", "", "INVALID_SYMBOL"),
        ("normalizedSymbol", "x" * 300, "INVALID_SYMBOL"),
        ("category", "PERPETUALS", "INVALID_PARAMS"),
        ("interval", "TWO_MINUTES", "INVALID_INTERVAL"),
        ("tenor", "ONE", "INVALID_PARAMS"),
        ("side", "", "INVALID_PARAMS"),
        ("sortDirection", "UP", "INVALID_PARAMS"),
        ("gapfill", "yes", "INVALID_PARAMS"),
        ("transform.normalize.quote", "EUR", "INVALID_PARAMS"),
        ("transform.groupBy.type", "GROUP_BY_TYPE_AVG", "INVALID_PARAMS"),
        ("transform.normalize.fundingInterval", "-5", "INVALID_PARAMS"),
        ("tpoBlockSizeMinutes", "15", "INVALID_PARAMS"),
        ("tpoSession", "TPO_SESSION_UNSPECIFIED", "INVALID_PARAMS"),
        ("maxDepth", "0", "INVALID_PARAMS"),
        ("blockSize", "0", "INVALID_PARAMS"),
        ("tokenName", "", "INVALID_PARAMS"),
        ("event", "", "INVALID_PARAMS"),
    ],
)
def test_wrong_value_names_the_wire_parameter(refuse_params, name: str, value: str, code: str) -> None:
    error = refuse_params(name, (name, value))
    assert (error.parameter, error.got, error.code) == (name, value, code)
    assert str(error).startswith(f"{name}: got ")


PYTHON_ONLY = re.compile(
    r"(?<![.\w])(raw_symbol|normalized_symbol|token_name|start|end|sort_direction|quote|group_by|funding_interval"
    r"|tpo_block_minutes|tpo_session|max_depth|block_size)\b"
)
BROKEN_RULES = {
    "two ways": [("rawSymbol", "S")],
    "no way": ["coin"],
    "no venue": ["exchange"],
    "no type": ["type"],
    "no interval": ["interval"],
    "no from": ["from"],
    "no period": ["period"],
    "too many points": ["period", ("period", "6000001")],
    "skew without symbol": ["type", ("type", "SKEW_OPTION_SUMMARY_AGG")],
    "skew without tenor": ["type", ("type", "SKEW_OPTION_SUMMARY_AGG"), ("rawSymbol", "S")],
    "volatility of nothing": ["type", "coin", ("type", "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG")],
    "supply of nothing": ["type", "coin", ("type", "TOKEN_SUPPLY_AGG")],
    "heatmap of a symbol": ["type", "coin", ("type", "VENUEX_LIQUIDATION_AGG"), ("rawSymbol", "S")],
    "gapfill": ["type", ("type", "OPEN_INTEREST_AGG"), ("gapfill", "true")],
    "usd": ["type", ("type", "CME_OPEN_INTEREST_AGG"), ("transform.normalize.quote", "USD")],
    "tenor": [("tenor", "ONE_W")],
    "token": [("tokenName", "Bitcoin")],
    "wrong group": [("transform.groupBy.type", "GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG")],
    "group of symbols": ["coin", ("rawSymbol", "S"), ("transform.groupBy.type", "GROUP_BY_TYPE_SUM")],
    "tpo block": [("tpoBlockSizeMinutes", "5")],
    "tpo session": [("tpoSession", "TPO_SESSION_DAILY")],
    "block size": [("blockSize", "5")],
}


@each_row("changes", BROKEN_RULES.values())
def test_broken_rule_is_told_in_wire_spelling(refuse_params, changes: list) -> None:
    error = refuse_params(*changes)
    assert error.parameter in PointsQuery.WIRE.values()
    assert PYTHON_ONLY.findall(str(error)) == []


@each_row(
    ("rule", "parameter", "code"),
    [
        ("two ways", "coin", "INVALID_SYMBOL"),
        ("no way", "rawSymbol", "INVALID_SYMBOL"),
        ("no venue", "exchange", "INVALID_EXCHANGE"),
        ("no type", "type", "INVALID_TYPE"),
        ("no interval", "interval", "INVALID_INTERVAL"),
        ("no from", "from", "INVALID_PARAMS"),
        ("no period", "period", "INVALID_PARAMS"),
        ("too many points", "period", "POINT_LIMIT_EXCEEDED"),
        ("gapfill", "gapfill", "UNSUPPORTED"),
        ("usd", "transform.normalize.quote", "UNSUPPORTED"),
        ("wrong group", "transform.groupBy.type", "UNSUPPORTED"),
        ("tpo block", "tpoBlockSizeMinutes", "UNSUPPORTED"),
        ("block size", "blockSize", "UNSUPPORTED"),
    ],
)
def test_broken_rule_has_its_code(refuse_params, rule: str, parameter: str, code: str) -> None:
    error = refuse_params(*BROKEN_RULES[rule])
    assert (error.parameter, error.code) == (parameter, code)


def test_no_parameters_at_all() -> None:
    with pytest.raises(QueryError, match="it is required"):
        PointsQuery.from_params([])
