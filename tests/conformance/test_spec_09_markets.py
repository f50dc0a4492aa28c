"""spec.md, "GET /v1/markets": every parameter, and the pages. silences.md, "Selection": how pages end."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.lake import MARKETS, NS, T0

ALL = sorted(
    [f"{row[0]} {row[1]}" for row in MARKETS] + [f"OPTIONS BTC_{one}" for one in ("10", "25", "ATM")]
)


@pytest.mark.slow
def test_everything_is_listed(service: Any) -> None:
    assert service.markets() == ALL


@pytest.mark.slow
def test_the_body_has_symbols_and_next_offset(service: Any) -> None:
    assert set(service.get("/v1/markets").json()) == {"symbols", "nextOffset"}


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["basic", "advanced", "enterprise"])
def test_weighs_nothing(service: Any, tier: str) -> None:
    assert service.get("/v1/markets", key=tier).headers["X-RateLimit-Used"] == "0"


FILTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "exchange": ({"exchange": "CME"}, ["CME BTCQ4"]),
    "exchange, repeated": ({"exchange": ["CME", "METALS"]}, ["CME BTCQ4", "METALS XAU"]),
    "coin": ({"coin": "ETH"}, ["ALPHA ETHUSDT", "BETA ETHUSD"]),
    "coin, repeated": ({"coin": ["XAU", "ACME"]}, ["METALS XAU", "STOCKS ACME"]),
    "category": ({"category": "SPOT", "exchange": "BETA"}, ["BETA ETHUSD"]),
    "category, repeated": (
        {"category": ["SPOT", "PERPETUAL"], "exchange": ["BETA", "CME"]},
        ["BETA BTC-PERP", "BETA ETHUSD", "BETA TPO-PERP"],
    ),
    "type": ({"type": "OPEN_INTEREST_AGG"}, ["ALPHA BTCUSDT_PERP", "BETA BTC-PERP"]),
    "type, repeated": (
        {"type": ["OPEN_INTEREST_AGG", "CME_OPEN_INTEREST_AGG"]},
        ["ALPHA BTCUSDT_PERP", "BETA BTC-PERP", "CME BTCQ4"],
    ),
    "type of a book": ({"type": "BLOCK_BOOK_SNAPSHOT_AGG"}, ["ALPHA BTCUSDT", "BETA BTC-PERP"]),
    "type of candles, recorded ones too": (
        {"type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "GAMMA"},
        ["GAMMA BTCEUR", "GAMMA BTCTRY", "GAMMA EURUSDT", "GAMMA OLDUSDT"],
    ),
    "symbolFilter of a symbol, in any case": ({"symbolFilter": "xaU"}, ["METALS XAU"]),
    "symbolFilter of a normalized symbol": ({"symbolFilter": "btc-eur"}, ["GAMMA BTCEUR"]),
    "symbolFilter of a coin name": ({"symbolFilter": "BITCOIN"}, ["ALPHA BTCUSDT"]),
    "symbolFilter of a title": ({"symbolFilter": "bitcoin / t"}, ["ALPHA BTCUSDT"]),
    "symbolFilter is no pattern": ({"symbolFilter": ".*"}, []),
    "filters together": ({"exchange": "ALPHA", "coin": "BTC", "category": "SPOT"}, ["ALPHA BTCUSDT"]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "found"), FILTERS.values(), ids=FILTERS)
def test_filter(service: Any, asked: dict[str, Any], found: list[str]) -> None:
    assert service.markets(**asked) == found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SKEW_OPTION_SUMMARY_AGG", "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG"])
def test_filter_type_of_option_summaries(service: Any, name: str) -> None:
    symbols = ["BTC_ATM"] if name.startswith("IMPLIED") else ["BTC_10", "BTC_25"]
    assert service.markets(type=name) == [f"OPTIONS {symbol}" for symbol in symbols]


@pytest.mark.slow
def test_every_type_of_an_exchange_has_markets(service: Any) -> None:
    for exchange in service.get("/v1/exchanges").json()["exchanges"]:
        for name in service.get("/v1/types", exchange=exchange).json()["types"]:
            (market, *_) = service.get("/v1/markets", type=name, exchange=exchange).json()["symbols"]
            assert market["exchange"] == exchange
    (chain,) = service.get("/v1/markets", type="OPTION_OPEN_INTEREST_AGG").json()["symbols"]
    assert (chain["rawSymbol"], chain["coin"], chain["normalizedSymbol"]) == ("", "BTC", "BTC")


@pytest.mark.slow
def test_option_summaries_are_discovered_where_the_lake_has_the_quotes(
    service: Any, only_quotes: Any
) -> None:
    service.lake = only_quotes
    service.open()
    listed = service.get("/v1/markets", exchange="OPTIONS").json()["symbols"]
    assert {(one["rawSymbol"], one["tenor"]) for one in listed} == {
        ("BTC_ATM", "ONE_M"), ("BTC_25", "ONE_M"), ("BTC_10", "ONE_M"),
    }  # fmt: skip


@pytest.mark.slow
def test_filter_unknown_type_is_an_error(service: Any) -> None:
    response = service.get("/v1/markets", type="CANDLES")
    assert (response.status_code, response.json()["error"]) == (400, "INVALID_TYPE")


# --- pages ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_page_size_is_the_number_of_results(service: Any) -> None:
    assert service.markets(pageSize=3) == ALL[:3]


@pytest.mark.slow
def test_page_offset_is_zero_based(service: Any) -> None:
    assert service.markets(pageSize=2, pageOffset=0) == ALL[:2]
    assert service.markets(pageSize=2, pageOffset=2) == ALL[2:4]


@pytest.mark.slow
def test_next_offset_is_the_page_offset_of_the_next_page(service: Any) -> None:
    found: list[str] = []
    offset, last = 0, -1
    while offset > last:
        body = service.get("/v1/markets", pageSize=7, pageOffset=offset).json()
        found += [f"{one['exchange']} {one['rawSymbol']}" for one in body["symbols"]]
        last, offset = offset, body["nextOffset"]
    assert found == ALL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("offset", "size", "following"), [(0, 5, 5), (5, 5, 10), (20, 100, 25), (25, 5, 25), (99, 5, 99)]
)
def test_silences_next_offset_is_the_offset_plus_the_number_returned(
    service: Any, offset: int, size: int, following: int
) -> None:
    assert len(ALL) == 25
    body = service.get("/v1/markets", pageOffset=offset, pageSize=size).json()
    assert body["nextOffset"] == following


@pytest.mark.slow
@pytest.mark.parametrize(("size", "status"), [(1, 200), (1_000, 200), (1_001, 400), (0, 400), (-1, 400)])
def test_silences_page_size_is_at_most_1000(service: Any, size: int, status: int) -> None:
    assert service.get("/v1/markets", pageSize=size).status_code == status


@pytest.mark.slow
def test_silences_page_size_is_100_by_default(service: Any, many_markets: Any) -> None:
    service.lake = many_markets
    service.open()
    assert len(service.markets()) == 100
    assert len(service.markets(pageSize=1_000)) == 101


# --- order ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("direction", "first"),
    [("SORT_DIRECTION_ASC", "ALPHA BTCUSDT"), ("SORT_DIRECTION_DESC", "ALPHA BTCUSDT_PERP")],
)
def test_sort_direction(service: Any, direction: str, first: str) -> None:
    """Two have a time since when they are available; the spot market is the older one. What has none comes last."""
    asked = {"sortCriteria.field": "AVAILABLE_SINCE", "sortCriteria.direction": direction}
    assert service.markets(**asked)[0] == first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("direction", "order"),
    [
        ("SORT_DIRECTION_ASC", ["ALPHA BTCUSDT_PERP", "BETA BTC-PERP", "ALPHA BTCUSDT"]),
        ("SORT_DIRECTION_DESC", ["ALPHA BTCUSDT", "BETA BTC-PERP", "ALPHA BTCUSDT_PERP"]),
    ],
)
def test_sort_by_24h_volume(service: Any, direction: str, order: list[str]) -> None:
    service.clock.now_ns = (T0 + 300) * NS
    asked = {"sortCriteria.field": "VOLUME_24H", "sortCriteria.direction": direction}
    assert service.markets(**asked, exchange=["ALPHA", "BETA"], coin="BTC") == order


@pytest.mark.parametrize(
    "asked", [{"sortCriteria.field": "NAME"}, {"sortCriteria.direction": "DOWN"}, {"sortCriteria.order": "x"}]
)
def test_sort_unknown_is_an_error(service: Any, asked: dict[str, str]) -> None:
    response = service.get("/v1/markets", **asked)
    assert (response.status_code, response.json()["error"]) == (400, "INVALID_PARAMS")


@pytest.mark.slow
def test_distinct_is_one_result_per_normalized_symbol(service: Any) -> None:
    symbols = service.get("/v1/markets", coin="BTC", distinct="true").json()["symbols"]
    names = [one["normalizedSymbol"] for one in symbols]
    assert sorted(names) == ["BTC", "BTC-EUR", "BTC-TRY", "BTC-USD", "BTC-USDT"]


@pytest.mark.slow
def test_distinct_is_off_by_default(service: Any) -> None:
    assert service.markets(coin="BTC", distinct="false") == service.markets(coin="BTC")


@pytest.mark.slow
def test_distinct_is_the_highest_ranked_exchange(service: Any) -> None:
    service.clock.now_ns = (T0 + 300) * NS
    # In the last 24 hours 4 coins were traded on BETA, 3 of ALPHA's perpetual and none on VENUEX.
    found = service.markets(coin="BTC", category="PERPETUAL", distinct="true")
    assert found == ["BETA BTC-PERP"]
