"""The rules between the values of a points query, each as the specification states it."""

from __future__ import annotations

from typing import Any

import pytest

from tables import each_row

ALL = (
    *("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "OPEN_INTEREST_AGG", "FUNDING_RATE_AGG", "LIQUIDATION_AGG"),
    *("TOKEN_SUPPLY_AGG", "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", "SKEW_OPTION_SUMMARY_AGG"),
    *("VOLUME_PROFILE_AGG", "TPO_AGG", "VENUEX_LIQUIDATION_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"),
    *("TRADE", "CME_OPEN_INTEREST_AGG", "OPTION_OPEN_INTEREST_AGG"),
)
CANDLES = ("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG")
SPECIAL = (
    *("TOKEN_SUPPLY_AGG", "VENUEX_LIQUIDATION_AGG"),
    *("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", "SKEW_OPTION_SUMMARY_AGG"),
)
OF_MARKETS = tuple(name for name in ALL if name not in SPECIAL)


def without(*names: str) -> list[str]:
    return [name for name in ALL if name not in names]


@each_row("name", ALL)
def test_every_type_can_be_asked_for(ask, name: str) -> None:
    query = ask(name)
    assert query.type == (name,)
    assert query.points == 60


def test_nothing_asked_for(refuse) -> None:
    error = refuse(type=[])
    assert (error.parameter, error.code) == ("type", "INVALID_TYPE")


def test_known_types_are_written_in_any_case_and_unknown_ones_kept(ask) -> None:
    assert ask("trade_agg").type == ("TRADE_AGG",)
    assert ask("New_Agg").type == ("New_Agg",)


# --- selection ---


@each_row("name", OF_MARKETS)
@each_row("way", ["raw_symbol", "normalized_symbol", "coin"])
def test_one_of_three_ways_picks_markets(ask, name: str, way: str) -> None:
    query = ask(name, **{"coin": ..., way: "S"})
    picked = {one: getattr(query, one) for one in ("raw_symbol", "normalized_symbol", "coin")}
    assert {one: values for one, values in picked.items() if values} == {way: ("S",)}


@each_row("name", OF_MARKETS)
@each_row(
    "given",
    [
        {"raw_symbol": "S", "coin": "BTC"},
        {"normalized_symbol": "S", "coin": "BTC"},
        {"raw_symbol": "S", "normalized_symbol": "S", "coin": ...},
        {"raw_symbol": "S", "normalized_symbol": "S", "coin": "BTC"},
    ],
)
def test_two_ways_to_pick_are_refused(refuse, name: str, given: dict[str, Any]) -> None:
    error = refuse(name, **given)
    assert error.parameter in given
    assert error.code == "INVALID_SYMBOL"
    assert "exactly one of raw_symbol, normalized_symbol and coin" in error.expected
    assert name in str(error)


@each_row("name", OF_MARKETS)
def test_no_way_to_pick_is_refused(refuse, name: str) -> None:
    error = refuse(name, coin=...)
    assert (error.parameter, error.got, error.code) == ("raw_symbol", None, "INVALID_SYMBOL")
    assert "exactly one of raw_symbol, normalized_symbol and coin" in error.expected


@each_row("name", without("TOKEN_SUPPLY_AGG", "VENUEX_LIQUIDATION_AGG"))
@each_row("exchange", [None, [], ...])
def test_a_venue_is_needed(refuse, name: str, exchange: Any) -> None:
    error = refuse(name, exchange=exchange)
    assert (error.parameter, error.got, error.code) == ("exchange", None, "INVALID_EXCHANGE")


def test_single_venue_heatmap_is_picked_by_coin_alone(ask, refuse) -> None:
    assert ask("VENUEX_LIQUIDATION_AGG").exchange == ()
    assert ask("VENUEX_LIQUIDATION_AGG", coin=["BTC", "ETH"]).coin == ("BTC", "ETH")
    for changes in ({"coin": ...}, {"raw_symbol": "S"}, {"coin": ..., "normalized_symbol": "S"}):
        error = refuse("VENUEX_LIQUIDATION_AGG", **changes)
        assert (error.parameter, error.code) == ("coin", "INVALID_SYMBOL")


@pytest.mark.parametrize(
    "given", [{"token_name": "Bitcoin"}, {"coin": "BTC"}, {"token_name": "Bitcoin", "coin": "BTC"}]
)
def test_token_supply_is_picked_by_token_or_coin(ask, given: dict[str, str]) -> None:
    query = ask("TOKEN_SUPPLY_AGG", **{"token_name": ..., **given})
    assert (query.token_name, query.coin) == (
        given.get("token_name"),
        (given["coin"],) if "coin" in given else (),
    )
    assert query.exchange == ()


def test_token_supply_of_nothing(refuse) -> None:
    error = refuse("TOKEN_SUPPLY_AGG", token_name=...)
    assert (error.parameter, error.got, error.expected) == (
        "token_name",
        None,
        "token_name or coin, for TOKEN_SUPPLY_AGG",
    )


@each_row("name", without("TOKEN_SUPPLY_AGG"))
def test_token_name_is_for_token_supply_only(refuse, name: str) -> None:
    error = refuse(name, token_name="Bitcoin")
    assert (error.parameter, error.got, error.code) == ("token_name", "Bitcoin", "UNSUPPORTED")


@pytest.mark.parametrize(
    ("missing", "code"),
    [
        ("exchange", "INVALID_EXCHANGE"),
        ("coin", "INVALID_SYMBOL"),
        ("raw_symbol", "INVALID_SYMBOL"),
        ("tenor", "INVALID_PARAMS"),
    ],
)
def test_skew_needs_all_four(refuse, missing: str, code: str) -> None:
    error = refuse("SKEW_OPTION_SUMMARY_AGG", **{missing: ...})
    assert (error.parameter, error.got, error.code) == (missing, None, code)


def test_skew_is_of_a_single_venue(refuse) -> None:
    error = refuse("SKEW_OPTION_SUMMARY_AGG", exchange=["X", "Y"])
    assert (error.parameter, error.got, error.code) == ("exchange", ("X", "Y"), "UNSUPPORTED")


@pytest.mark.parametrize("left_out", [{"raw_symbol": ...}, {"coin": ...}, {"tenor": ...}, {}])
def test_implied_volatility_takes_coin_and_symbol_together_or_either(ask, left_out: dict[str, Any]) -> None:
    query = ask("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", **left_out)
    assert query.coin == (() if "coin" in left_out else ("BTC",))
    assert query.raw_symbol == (() if "raw_symbol" in left_out else ("BTC_ATM",))


def test_implied_volatility_of_nothing(refuse) -> None:
    error = refuse("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", coin=..., raw_symbol=...)
    assert (error.parameter, error.code) == ("coin", "INVALID_SYMBOL")


@each_row("name", without("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", "SKEW_OPTION_SUMMARY_AGG"))
def test_tenor_is_for_option_summaries_only(refuse, name: str) -> None:
    error = refuse(name, tenor="1w")
    assert (error.parameter, error.got, error.code) == ("tenor", "ONE_W", "UNSUPPORTED")


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("FUNDING_RATE_AGG", "SPOT"),
        ("OPEN_INTEREST_AGG", "SPOT"),
        ("FUNDING_RATE_AGG", "OPTION"),
        ("OPEN_INTEREST_AGG", "FUTURE"),
        ("TRADE_AGG", "OPTION"),
    ],
)
def test_market_class_without_the_type_is_refused(refuse, name: str, category: str) -> None:
    # Specification, "Category": funding rate and open interest apply only to PERPETUAL markets.
    error = refuse(name, category=category)
    assert (error.parameter, error.code) == ("category", "UNSUPPORTED")


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("FUNDING_RATE_AGG", "PERPETUAL"),
        ("OPEN_INTEREST_AGG", "PERPETUAL"),
        ("TRADE_AGG", "SPOT"),
        ("TRADE_AGG", "PERPETUAL"),
        ("LIQUIDATION_AGG", "FUTURE"),
    ],
)
def test_market_class_of_the_type_is_taken(ask, name: str, category: str) -> None:
    assert ask(name, category=category).category == (category,)


# --- interval and size ---


@each_row("name", without("TRADE"))
def test_interval_is_needed(refuse, name: str) -> None:
    error = refuse(name, interval=...)
    assert (error.parameter, error.got, error.code) == ("interval", None, "INVALID_INTERVAL")


def test_raw_trades_without_an_interval_count_as_minutes(ask) -> None:
    query = ask("TRADE", interval=None)
    assert (query.interval, query.step, query.points) == (None, 60, 60)


def test_types_we_do_not_know_need_an_interval(ask, refuse) -> None:
    assert ask("NEW_AGG").interval == "MINUTE"
    assert refuse("NEW_AGG", interval=None).parameter == "interval"


MOST = {
    **dict.fromkeys(ALL, 100_000),
    "VOLUME_PROFILE_AGG": 20_000,
    "TPO_AGG": 20_000,
    "VENUEX_LIQUIDATION_AGG": 5_000,
    "BLOCK_BOOK_SNAPSHOT_AGG": 4_000,
}


@each_row(("name", "most"), MOST.items())
def test_most_points_of_a_type(ask, refuse, name: str, most: int) -> None:
    assert ask(name, end=60 * most).points == most
    error = refuse(name, end=60 * most + 1)  # one second into the next point
    assert (error.parameter, error.code) == ("end", "POINT_LIMIT_EXCEEDED")
    assert error.got == f"{most + 1} points"
    assert error.expected == f"at most {most} points of {name} in one request"
    assert str(60 * most) in (error.hint or "")


def test_most_points_of_the_strictest_type_hold(refuse) -> None:
    error = refuse(type=["TRADE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"], end=60 * 4_001)
    assert error.expected == "at most 4000 points of BLOCK_BOOK_SNAPSHOT_AGG in one request"


@each_row(
    ("interval", "start", "end", "expected"),
    [
        ("1m", 0, 60, (0, 60)),
        ("1m", 30, 90, (60, 120)),
        ("1m", 1, 59, (60, 60)),
        ("4h", 1, 14_401, (14_400, 28_800)),
        ("1w", 0, 604_800, (345_600, 950_400)),  # 5 January 1970 was a Monday
        ("1w", 345_600, 345_601, (345_600, 950_400)),
        (None, 30, 90, (30, 90)),
    ],
)
def test_span_is_the_whole_intervals_that_start_inside(
    ask, interval: str | None, start: int, end: int, expected: tuple[int, int]
) -> None:
    assert ask("TRADE", interval=interval, start=start, end=end).span == expected


@each_row(
    ("interval", "end", "points"),
    [("1m", 1, 1), ("1m", 60, 1), ("1m", 61, 2), ("1h", 86_400, 24), ("1w", 604_801, 2), ("4h", 14_399, 1)],
)
def test_points_round_up(ask, interval: str, end: int, points: int) -> None:
    assert ask(interval=interval, end=end).points == points


@pytest.mark.parametrize(
    ("start", "end", "first", "last"),
    [
        (60, 60, "1970-01-01T00:01:00Z", "1970-01-01T00:01:00Z"),
        (61, 60, "1970-01-01T00:01:01Z", "1970-01-01T00:01:00Z"),
        ("2024-08-09", "2024-08-08", "2024-08-09T00:00:00Z", "2024-08-08T00:00:00Z"),
    ],
)
def test_window_must_have_length(refuse, start: int | str, end: int | str, first: str, last: str) -> None:
    error = refuse(start=start, end=end)
    assert (error.parameter, error.got, error.expected) == ("end", last, f"a time after start ({first})")


# --- options ---


@pytest.mark.parametrize("name", CANDLES)
def test_gapfill_of_candles(ask, name: str) -> None:
    assert ask(name, gapfill=True).gapfill is True


@each_row("name", without(*CANDLES))
def test_gapfill_of_anything_else_is_refused(refuse, name: str) -> None:
    error = refuse(name, gapfill=True)
    assert (error.parameter, error.got, error.code) == ("gapfill", True, "UNSUPPORTED")
    assert "only TRADE_SIDE_AGNOSTIC_AGG, TRADE_AGG can be filled" in error.expected


@each_row("name", without(*CANDLES))
def test_gapfill_false_is_nothing(ask, name: str) -> None:
    assert ask(name, gapfill=False) == ask(name)


USD = (
    *("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "OPEN_INTEREST_AGG", "LIQUIDATION_AGG", "VOLUME_PROFILE_AGG"),
    *("TPO_AGG", "BLOCK_BOOK_SNAPSHOT_AGG", "VENUEX_LIQUIDATION_AGG"),
    "FUNDING_RATE_AGG",  # where it changes nothing
)


@each_row("name", USD)
def test_usd_where_it_applies(ask, name: str) -> None:
    assert ask(name, quote="usd").quote == "USD"


@each_row("name", without(*USD))
def test_usd_where_it_does_not_apply(refuse, name: str) -> None:
    error = refuse(name, quote="USD")
    assert (error.parameter, error.got, error.code) == ("quote", "USD", "UNSUPPORTED")


SUM = (
    *("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "OPEN_INTEREST_AGG", "LIQUIDATION_AGG", "VOLUME_PROFILE_AGG"),
    *("TPO_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"),
)
WEIGHTED = ("FUNDING_RATE_AGG",)


@each_row(
    ("name", "group_by", "value"),
    [
        *((name, "sum", "GROUP_BY_TYPE_SUM") for name in SUM),
        ("FUNDING_RATE_AGG", "open_interest_weighted_avg", "GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG"),
    ],
)
def test_group_by_of_a_type(ask, name: str, group_by: str, value: str) -> None:
    query = ask(name, exchange=["X", "Y"], group_by=group_by)
    assert query.group_by == value
    assert query.is_aggregation


@each_row(
    ("name", "group_by"),
    [*((name, "open_interest_weighted_avg") for name in SUM), *((name, "sum") for name in WEIGHTED)],
)
def test_group_by_of_another_type_is_refused(refuse, name: str, group_by: str) -> None:
    error = refuse(name, exchange=["X", "Y"], group_by=group_by)
    assert (error.parameter, error.code) == ("group_by", "UNSUPPORTED")
    able = "GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG" if name in WEIGHTED else "GROUP_BY_TYPE_SUM"
    assert error.expected == f"{able} for {name}"


@each_row("name", without(*SUM, *WEIGHTED))
@each_row("group_by", ["sum", "open_interest_weighted_avg"])
def test_types_that_cannot_be_grouped(refuse, name: str, group_by: str) -> None:
    error = refuse(name, group_by=group_by)
    assert (error.parameter, error.code) == ("group_by", "UNSUPPORTED")
    assert error.expected == f"no value; {name} cannot be aggregated"


@pytest.mark.parametrize("name", ["TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "TPO_AGG"])
def test_grouping_by_raw_symbol_is_refused_where_coin_is_asked_for(refuse, name: str) -> None:
    error = refuse(name, coin=..., raw_symbol="S", exchange=["X", "Y"], group_by="sum")
    assert (error.parameter, error.got, error.code) == ("raw_symbol", ("S",), "INVALID_SYMBOL")
    assert error.expected == f"coin instead, to aggregate {name} across exchanges"


@pytest.mark.parametrize("name", ["OPEN_INTEREST_AGG", "LIQUIDATION_AGG", "VOLUME_PROFILE_AGG"])
def test_grouping_by_raw_symbol_where_the_specification_allows(ask, name: str) -> None:
    assert ask(name, coin=..., raw_symbol="S", exchange=["X", "Y"], group_by="sum").is_aggregation


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"exchange": ["X", "Y"], "group_by": "sum"}, True),
        ({"exchange": ["X", "X"], "group_by": "sum"}, False),
        ({"exchange": "X", "group_by": "sum"}, False),
        ({"exchange": ["X", "Y"]}, False),
    ],
)
def test_aggregation_is_two_distinct_venues_and_a_group_by(
    ask,
    changes: dict[str, Any],
    expected: bool,  # noqa: FBT001
) -> None:
    assert ask(**changes).is_aggregation is expected


@each_row("minutes", [5, 30, 60, 240, "30", 30.0])
def test_tpo_blocks(ask, minutes: object) -> None:
    assert ask("TPO_AGG", tpo_block_minutes=minutes).tpo_block_minutes == int(minutes)


@each_row("minutes", [0, 1, 15, 120, -5, 5.5, "x", True, 10**30, float("nan")])
def test_tpo_blocks_of_other_lengths(refuse, minutes: object) -> None:
    error = refuse("TPO_AGG", tpo_block_minutes=minutes)
    assert (error.parameter, error.expected, error.code) == (
        "tpo_block_minutes",
        "one of 5, 30, 60, 240",
        "INVALID_PARAMS",
    )
    assert error.got is minutes


@each_row("name", without("TPO_AGG"))
@each_row(("option", "value"), [("tpo_block_minutes", 30), ("tpo_session", "daily")])
def test_tpo_options_are_for_tpo_only(refuse, name: str, option: str, value: object) -> None:
    error = refuse(name, **{option: value})
    assert (error.parameter, error.expected, error.code) == (
        option,
        "no value; only TPO_AGG takes it",
        "UNSUPPORTED",
    )


def test_tpo_options_beside_another_type(ask) -> None:
    query = ask(type=["TRADE_AGG", "TPO_AGG"], tpo_block_minutes=5, tpo_session="weekly")
    assert (query.tpo_block_minutes, query.tpo_session) == (5, "TPO_SESSION_WEEKLY")


@pytest.mark.parametrize(
    "name", ["VOLUME_PROFILE_AGG", "TPO_AGG", "VENUEX_LIQUIDATION_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"]
)
def test_block_size_of_profiles_and_heatmaps(ask, name: str) -> None:
    assert str(ask(name, block_size="0.5").block_size) == "0.5"


@each_row(
    "name", without("VOLUME_PROFILE_AGG", "TPO_AGG", "VENUEX_LIQUIDATION_AGG", "BLOCK_BOOK_SNAPSHOT_AGG")
)
def test_block_size_of_anything_else_is_refused(refuse, name: str) -> None:
    error = refuse(name, block_size=5)
    assert (error.parameter, error.got, error.code) == ("block_size", "5", "UNSUPPORTED")


@each_row(
    "changes",
    [
        {"tpo_block_minutes": 30},
        {"tpo_session": "daily"},
        {"block_size": 5},
        {"gapfill": True},
        {"quote": "USD"},
        {"group_by": "sum"},
        {"tenor": "1w"},
        {"exchange": ..., "coin": ...},
    ],
)
def test_types_we_do_not_know_may_take_anything(ask, changes: dict[str, Any]) -> None:
    assert ask("NEW_AGG", **changes).type == ("NEW_AGG",)


@each_row("name", ALL)
@each_row("side", ["BUY", "sell"])
def test_side_never_hurts(ask, name: str, side: str) -> None:
    assert ask(name, side=side).side == side.upper()


def test_every_type_of_several_is_checked(refuse) -> None:
    error = refuse(type=["TRADE_AGG", "FUNDING_RATE_AGG"], gapfill=True)
    assert (error.parameter, "FUNDING_RATE_AGG" in error.expected) == ("gapfill", True)
