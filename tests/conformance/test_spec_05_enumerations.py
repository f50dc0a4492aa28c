"""spec.md, "Enumerations": every value, as a request may have it."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import AVERAGE, FUNDING_GROUP, GROUP, SKEW, SUM, TPO
from conformance.lake import AUGUST, DAY, HOUR, MONDAY, T0, WEEK

# The only trade of LATEUSDT is in the last second of the Friday; where its interval starts, in seconds after midnight.
INTERVALS = {
    "MINUTE": DAY - 60,
    "FIVE_MINUTES": DAY - 300,
    "FIFTEEN_MINUTES": DAY - 900,
    "THIRTY_MINUTES": DAY - 1_800,
    "HOUR": DAY - HOUR,
    "FOUR_HOURS": DAY - 4 * HOUR,
    "DAY": 0,
    "WEEK": -4 * DAY,
}


@pytest.mark.parametrize(("interval", "start"), INTERVALS.items(), ids=INTERVALS)
def test_interval(service: Any, interval: str, start: int) -> None:
    asked = {"rawSymbol": "LATEUSDT", "from_": MONDAY, "period": WEEK}
    assert service.rows("close", interval=interval, **asked) == [(start, 7.0)]


@pytest.mark.parametrize("interval", ["UNKNOWN_AGGREGATION_INTERVAL", "TWO_MINUTES", "MONTH", "1M", ""])
def test_interval_unknown_is_an_error(service: Any, interval: str) -> None:
    assert service.refused(interval=interval) == (400, "INVALID_INTERVAL")


@pytest.mark.parametrize(
    ("category", "symbols"),
    [("SPOT", ["BTCUSDT"]), ("PERPETUAL", ["BTCUSDT_PERP"])],
    ids=["SPOT", "PERPETUAL"],
)
def test_category(service: Any, category: str, symbols: list[str]) -> None:
    found = service.series(rawSymbol=None, coin="BTC", category=category)
    assert [one["id"]["rawSymbol"] for one in found] == symbols


@pytest.mark.slow
@pytest.mark.parametrize(
    ("category", "venue"), [("FUTURE", "CME"), ("OPTION", "OPTIONS")], ids=["FUTURE", "OPTION"]
)
def test_category_of_the_service_definition(service: Any, category: str, venue: str) -> None:
    listed = service.get("/v1/markets", category=category).json()["symbols"]
    assert {one["exchange"] for one in listed} == {venue}


@pytest.mark.slow
def test_category_combo_of_the_service_definition(service: Any) -> None:
    assert service.markets(category="COMBO") == []


@pytest.mark.parametrize("category", ["UNKNOWN_CATEGORY", "SWAP"])
def test_category_unknown_is_an_error(service: Any, category: str) -> None:
    assert service.refused(category=category) == (400, "INVALID_PARAMS")


@pytest.mark.parametrize("name", ["FUNDING_RATE_AGG", "OPEN_INTEREST_AGG"])
def test_category_funding_and_open_interest_apply_only_to_perpetual(service: Any, name: str) -> None:
    found = service.series(type=name, rawSymbol=None, coin="BTC", exchange=["ALPHA", "BETA"])
    assert {one["id"]["category"] for one in found} == {"PERPETUAL"}


@pytest.mark.parametrize("name", ["FUNDING_RATE_AGG", "OPEN_INTEREST_AGG"])
def test_category_funding_and_open_interest_do_not_apply_to_spot(service: Any, name: str) -> None:
    assert service.refused(type=name, category="SPOT") == (400, "UNSUPPORTED")


@pytest.mark.parametrize(
    ("symbol", "category"), [("BTCUSDT", "SPOT"), ("BTCUSDT_PERP", "PERPETUAL")], ids=["SPOT", "PERPETUAL"]
)
def test_category_trade_agg_exists_for_spot_and_perpetual(service: Any, symbol: str, category: str) -> None:
    found = service.series(type="TRADE_AGG", rawSymbol=symbol, category=category)
    assert [one["id"]["category"] for one in found] == [category] * 2


@pytest.mark.parametrize("side", ["BUY", "SELL"])
def test_side(service: Any, side: str) -> None:
    assert service.id(type="TRADE_AGG", side=side)["side"] == side


@pytest.mark.parametrize("side", ["UNKNOWN_SIDE", "BOTH"])
def test_side_unknown_is_an_error(service: Any, side: str) -> None:
    assert service.refused(type="TRADE_AGG", side=side) == (400, "INVALID_PARAMS")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tenor", "days"),
    [("ONE_D", 1), ("THREE_D", 3), ("ONE_W", 7), ("ONE_M", 30), ("TWO_M", 60), ("THREE_M", 90), ("SIX_M", 180),
     ("ONE_Y", 365)],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_tenor(service: Any, tenor: str, days: int) -> None:
    # Expiries are listed 28 and 56 days away, and nothing is extrapolated: only 30 days lies between them.
    found = service.series(**{**SKEW, "tenor": tenor})
    assert [one["id"]["tenor"] for one in found] == (["ONE_M"] if 28 <= days <= 56 else [])


def test_tenor_unknown_is_an_error(service: Any) -> None:
    assert service.refused(**{**SKEW, "tenor": "TWO_W"}) == (400, "INVALID_PARAMS")


@pytest.mark.parametrize(
    ("direction", "starts"),
    [("SORT_DIRECTION_ASC", [0, 60, 180]), ("SORT_DIRECTION_DESC", [180, 60, 0]), (None, [0, 60, 180])],
    ids=["SORT_DIRECTION_ASC", "SORT_DIRECTION_DESC", "default"],
)
def test_sort_direction(service: Any, direction: str | None, starts: list[int]) -> None:
    assert [start for (start,) in service.rows(sortDirection=direction)] == starts


# silences.md: sessions start at 00:00 UTC, weekly ones on Monday; unspecified is one interval long.
SESSIONS = {
    "TPO_SESSION_DAILY": [(T0, DAY), (T0 + DAY, DAY)],
    "TPO_SESSION_WEEKLY": [(MONDAY, WEEK)],
    "TPO_SESSION_MONTHLY": [(AUGUST, 31 * DAY)],
    "default": [(T0, HOUR * 4), (T0 + 4 * HOUR, HOUR * 4), (T0 + DAY, HOUR * 4)],
}


@pytest.mark.slow
@pytest.mark.parametrize(("session", "expected"), SESSIONS.items(), ids=SESSIONS)
def test_tpo_session(service: Any, session: str, expected: list[tuple[int, int]]) -> None:
    asked = {**TPO, "from_": AUGUST, "period": 31 * DAY, "interval": "FOUR_HOURS"}
    found = service.payloads(**asked, tpoSession=None if session == "default" else session)
    starts = [(one["period_start"]["s"], one["period_end"]["s"] - one["period_start"]["s"]) for one in found]
    assert starts == expected
    assert [one["timestamp"] for one in found] == [one["period_start"] for one in found]


def test_group_by_sum(service: Any) -> None:
    assert GROUP["transform_groupBy_type"] == SUM == "GROUP_BY_TYPE_SUM"
    assert service.payloads(**GROUP)


@pytest.mark.slow
def test_group_by_open_interest_weighted_avg(service: Any) -> None:
    assert AVERAGE == "GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG"
    assert service.payloads(**FUNDING_GROUP)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MARKET_SYMBOL_MARKETCAP", "AVAILABLE_SINCE"])
def test_market_sort_field(service: Any, name: str) -> None:
    asked = {"sortCriteria.field": name, "sortCriteria.direction": "SORT_DIRECTION_DESC"}
    assert (
        "ALPHA BTCUSDT" in service.markets(**asked)[:2]
    )  # one of two, or the only one, of which it is known


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "VOLUME_24H",
        "PRICE_CHANGE_24H",
        "PCT_FROM_ATH",
        "MARKET_SYMBOL_OI_CHANGE_24H",
        "MARKET_SYMBOL_ATR_PERCENT",
    ],
)
def test_market_sort_field_of_figures(service: Any, name: str) -> None:
    assert service.get("/v1/markets", **{"sortCriteria.field": name}).status_code == 200


EXCHANGES = ["ALPHA", "BETA", "CME", "STOCKS", "METALS", "BANKS", "PREDICT"]


@pytest.mark.slow
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_exchange_identifiers_of_every_kind_of_venue(service: Any, exchange: str) -> None:
    listed = service.get("/v1/markets", exchange=exchange).json()["symbols"]
    assert {one["exchange"] for one in listed} == {exchange}


@pytest.mark.parametrize("exchange", ["alpha", "Alpha", "UNKNOWN_EXCHANGE"])
def test_exchange_identifiers_are_case_sensitive_and_closed(service: Any, exchange: str) -> None:
    assert service.refused(exchange=exchange) == (400, "INVALID_EXCHANGE")
