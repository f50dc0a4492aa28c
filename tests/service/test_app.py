"""The service through its real app: routes, keys, weight, headers, one error shape."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import polars as pl
import pytest

from tidytape import wire
from tidytape.catalogue import ERROR_STATUS
from tidytape.schema import schema_of, wire_schema
from tidytape.wire._arrow import ARROW_MIME, ONCE_MIME
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._tidy import DATA_UNTIL

T0 = 1_723_161_600


def points(body: Any, series: int = 0) -> list[dict[str, Any]]:
    return [one["Point"] for one in body["series"][series]["points"]]


# --- candles ---


def test_candles_of_one_market(service: Any, window: Any) -> None:
    response = service.get("/v1/points", params=window())
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "notes": [],
        "series": [
            {
                "id": {
                    "type": "TRADE_SIDE_AGNOSTIC_AGG",
                    "exchange": "ALPHA",
                    "rawSymbol": "BTCUSDT",
                    "normalizedSymbol": "BTC-USDT",
                    "coin": "BTC",
                    "category": "SPOT",
                    "interval": "MINUTE",
                    "amountUnit": "COIN",
                    "dataUntil": {"s": T0 + 180},  # its newest trade
                },
                "points": [
                    {
                        "Point": {
                            "timestamp": {"s": T0},
                            "open": 100.0,
                            "high": 101.5,
                            "low": 100.0,
                            "close": 101.5,
                            "volume": 3.0,
                            "firstTimestamp": {"s": T0},
                            "lastTimestamp": {"s": T0 + 59, "ns": 999_000_000},
                        }
                    },
                    {
                        "Point": {
                            "timestamp": {"s": T0 + 60},
                            "open": 100.3,
                            "high": 100.3,
                            "low": 100.3,
                            "close": 100.3,
                            "volume": 0.75,
                            "firstTimestamp": {"s": T0 + 60},
                            "lastTimestamp": {"s": T0 + 61, "ns": 500_000_000},
                        }
                    },
                    {
                        "Point": {
                            "timestamp": {"s": T0 + 180},
                            "open": 99.9,
                            "high": 99.9,
                            "low": 99.9,
                            "close": 99.9,
                            "volume": 4.0,
                            "firstTimestamp": {"s": T0 + 180},
                            "lastTimestamp": {"s": T0 + 180},
                        }
                    },
                ],
            }
        ],
    }


@pytest.mark.slow
def test_candles_by_side_are_two_series(service: Any, window: Any) -> None:
    body = service.get("/v1/points", params=window(type="TRADE_AGG")).json()
    assert [(one["id"]["side"], [p["Point"]["volume"] for p in one["points"]]) for one in body["series"]] == [
        ("BUY", [1.0, 0.25, 4.0]),
        ("SELL", [2.0, 0.5]),
    ]


def test_side_keeps_one_series(service: Any, window: Any) -> None:
    body = service.get("/v1/points", params=window(type="TRADE_AGG", side="SELL")).json()
    assert [one["id"]["side"] for one in body["series"]] == ["SELL"]


def test_side_changes_nothing_where_there_are_no_sides(service: Any, window: Any) -> None:
    assert (
        service.get("/v1/points", params=window(side="SELL")).json()
        == service.get("/v1/points", params=window()).json()
    )


def test_descending_is_newest_first(service: Any, window: Any) -> None:
    body = service.get("/v1/points", params=window(sortDirection="SORT_DIRECTION_DESC")).json()
    assert [one["timestamp"]["s"] - T0 for one in points(body)] == [180, 60, 0]


def test_the_window_is_half_open_and_buckets_are_whole(service: Any, window: Any) -> None:
    body = service.get("/v1/points", params=window(**{"from": T0 + 1, "period": 60})).json()
    assert [(one["timestamp"]["s"] - T0, one["volume"]) for one in points(body)] == [(60, 0.75)]


@pytest.mark.slow
def test_coin_selects_every_market_of_the_venues(service: Any, window: Any) -> None:
    params = window(rawSymbol=None, coin="BTC", exchange=["ALPHA", "BETA"])
    body = service.get("/v1/points", params=params).json()
    assert [(one["id"]["exchange"], one["id"]["rawSymbol"]) for one in body["series"]] == [
        ("ALPHA", "BTCUSDT"),
        ("BETA", "BTC-PERP"),
    ]
    only = service.get("/v1/points", params={**params, "category": "PERPETUAL"}).json()
    assert [one["id"]["exchange"] for one in only["series"]] == ["BETA"]


@pytest.mark.slow
def test_several_types_are_answered_together_and_weights_add_up(service: Any, window: Any) -> None:
    response = service.get("/v1/points", params=window(type=["TRADE_AGG", "VOLUME_PROFILE_AGG"]))
    assert [one["id"]["type"] for one in response.json()["series"]] == [
        "TRADE_AGG",
        "TRADE_AGG",
        "VOLUME_PROFILE_AGG",
    ]
    assert response.headers["x-ratelimit-used"] == "3"


def test_an_empty_window_is_an_empty_answer(service: Any, window: Any) -> None:
    response = service.get("/v1/points", params=window(**{"from": 0}))
    assert (response.status_code, response.json()["series"]) == (200, [])
    (note,) = response.json()["notes"]
    assert (note["code"], note["exchange"], note["rawSymbol"]) == ("OUTSIDE", "ALPHA", "BTCUSDT")
    assert note["first"] == {"s": T0}


# --- volume profile ---


@pytest.mark.slow
def test_volume_profile_uses_the_market_block_size(service: Any, window: Any) -> None:
    body = service.get("/v1/points", params=window(type="VOLUME_PROFILE_AGG", interval="HOUR")).json()
    assert points(body) == [
        {
            "timestamp": {"s": T0},
            "profile": [99.9, 4.0, 0.0, 100.0, 1.0, 0.0, 100.3, 0.25, 0.5, 101.5, 0.0, 2.0],
        }
    ]


@pytest.mark.slow
def test_volume_profile_takes_a_block_size(service: Any, window: Any) -> None:
    params = window(type="VOLUME_PROFILE_AGG", interval="HOUR", blockSize="1")
    assert points(service.get("/v1/points", params=params).json())[0]["profile"] == [
        99.0, 4.0, 0.0, 100.0, 1.25, 0.5, 101.0, 0.0, 2.0,
    ]  # fmt: skip


# --- what the answer looks like ---


@pytest.mark.slow
def test_arrow_holds_the_same_frame_as_json(service: Any, window: Any) -> None:
    for name in ("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "VOLUME_PROFILE_AGG"):
        params = window(type=name)
        as_json = wire.decode(service.get("/v1/points", params=params).content, name)
        response = service.get("/v1/points", params=params, headers={"Accept": ARROW_MIME})
        assert response.headers["content-type"] == ARROW_MIME
        as_arrow = wire.from_arrow(response.content, name)
        documented = schema_of(name).polars()
        assert as_arrow.schema == as_json.schema == {**documented, DATA_UNTIL: documented["timestamp"]}
        assert as_arrow.cast({pl.Categorical: pl.String}).equals(as_json.cast({pl.Categorical: pl.String}))


# --- keys ---


@pytest.mark.parametrize("key", [None, "", "guess", "expired-key"])
@pytest.mark.parametrize("path", ["/v1/points", "/v1/markets", "/v1/usage", "/v1/nothing"])
def test_no_valid_key_no_answer(service: Any, key: str | None, path: str) -> None:
    response = service.get(path, key=key)
    assert response.status_code == 401
    assert response.json()["error"] == "INVALID_API_KEY"
    assert set(response.json()) == {"error", "message"}
    assert "x-ratelimit-limit" not in response.headers
    if key:
        assert key not in response.text


def test_a_type_above_the_tier_is_refused_and_free(service: Any, window: Any) -> None:
    params = {
        "type": "TOKEN_SUPPLY_AGG",
        "tokenName": "Bitcoin",
        "interval": "DAY",
        "from": T0,
        "period": 86400,
    }
    response = service.get("/v1/points", key="basic-key", params=params)
    assert (response.status_code, response.json()["error"]) == (403, "TYPE_NOT_PERMITTED")
    assert response.headers["x-ratelimit-remaining"] == "200"


# --- one error shape ---


@pytest.mark.parametrize(
    ("changed", "code", "named"),
    [
        ({"rawSymbol": "BTCUSD"}, "INVALID_SYMBOL", "rawSymbol: got 'BTCUSD'"),
        ({"rawSymbol": None, "coin": "XRP"}, "INVALID_SYMBOL", "coin: got 'XRP'"),
        ({"rawSymbol": None, "normalizedSymbol": "A-B"}, "INVALID_SYMBOL", "normalizedSymbol: got 'A-B'"),
        ({"exchange": "alpha"}, "INVALID_EXCHANGE", "did you mean 'ALPHA'?"),
        ({"category": "OPTION"}, "UNSUPPORTED", "category: got ['OPTION']"),
        ({"category": "PERPETUAL"}, "INVALID_SYMBOL", "category: got ['PERPETUAL']"),
        ({"type": "TRADE_AG"}, "INVALID_TYPE", "did you mean 'TRADE_AGG'?"),
        ({"type": None}, "INVALID_TYPE", "type"),
        ({"interval": "2m"}, "INVALID_INTERVAL", "interval: got '2m'"),
        ({"interval": None}, "INVALID_INTERVAL", "interval"),
        ({"from": None}, "INVALID_PARAMS", "from: left out"),
        ({"period": "-5"}, "INVALID_PARAMS", "period: got '-5'"),
        ({"period": 100_001 * 60}, "POINT_LIMIT_EXCEEDED", "100000 points"),
        ({"type": "VOLUME_PROFILE_AGG", "gapfill": "true"}, "UNSUPPORTED", "gapfill"),
        ({"event": "no-such-event"}, "INVALID_SYMBOL", "event"),
        ({"transform.groupBy.type": "GROUP_BY_TYPE_SUM"}, "INVALID_SYMBOL", "rawSymbol"),
        ({"rawSymbl": "BTCUSDT"}, "INVALID_PARAMS", "did you mean 'rawSymbol'?"),
        ({"interval": ["MINUTE", "HOUR"]}, "INVALID_PARAMS", "interval"),
    ],
)
def test_a_wrong_request_says_what_got_expected_and_costs_nothing(
    service: Any, window: Any, changed: dict[str, Any], code: str, named: str
) -> None:
    response = service.get("/v1/points", params=window(**changed))
    assert response.status_code == ERROR_STATUS[code]
    assert {"error", "message", "parameter", "expected"} <= set(response.json())
    assert set(response.json()) <= {"error", "message", "parameter", "got", "expected", "hint"}
    assert response.json()["error"] == code
    assert named in response.json()["message"]
    assert "expected" in response.json()["message"]
    assert response.headers["x-ratelimit-remaining"] == "1500"


def test_other_paths_and_methods_have_the_same_shape(service: Any) -> None:
    missing = service.get("/v1/nothing")
    assert (missing.status_code, missing.json()["error"]) == (404, "NOT_FOUND")
    wrong = service.request("POST", "/v1/points")
    assert (wrong.status_code, wrong.json()["error"]) == (405, "METHOD_NOT_ALLOWED")
    for response in (missing, wrong):
        assert set(response.json()) == {"error", "message"}
        assert response.headers["x-ratelimit-limit"] == "750"


def test_a_failure_says_no_more_than_a_request_id_and_costs_nothing(
    service: Any, window: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object, **more: object) -> None:
        raise RuntimeError("a secret of the lake")

    monkeypatch.setattr("tidytape.service.work._computing.computed", broken)
    response = service.get("/v1/points", params=window())
    assert (response.status_code, response.json()["error"]) == (500, "INTERNAL_ERROR")
    assert response.headers["x-request-id"] in response.json()["message"]
    assert "secret" not in response.text
    assert response.headers["x-ratelimit-remaining"] == "1500"
    assert "a secret of the lake" in caplog.text  # where its operator finds it
    assert "enterprise-key" not in caplog.text


# --- weight ---


def heavy(window: Any, weight: int) -> dict[str, Any]:
    return window(**{"from": T0, "period": weight * 1000 * 60})


def test_a_fresh_basic_key_has_a_burst_of_two_hundred(service: Any, window: Any) -> None:
    first = service.get("/v1/points", key="basic-key", params=heavy(window, 100))
    assert first.status_code == 200
    assert first.headers["x-ratelimit-used"] == "100"
    beyond = service.get("/v1/points", key="basic-key", params=heavy(window, 1))
    assert beyond.status_code == 200
    rest = service.get("/v1/points", key="basic-key", params=heavy(window, 99))
    assert (rest.status_code, rest.headers["x-ratelimit-remaining"]) == (200, "0")
    refused = service.get("/v1/points", key="basic-key", params=heavy(window, 1))
    assert refused.status_code == 429
    assert refused.json()["error"] == "RATE_LIMITED"
    assert refused.json()["retry_after"] == 1
    assert refused.headers["retry-after"] == "1"
    service.clock.move(1)
    assert service.get("/v1/points", key="basic-key", params=heavy(window, 1)).status_code == 200


@pytest.mark.slow
def test_headers_on_every_answer_to_a_known_key(service: Any, window: Any) -> None:
    service.get("/v1/points", key="basic-key", params=heavy(window, 50))
    for path in ("/v1/usage", "/v1/markets", "/v1/nothing", "/v1/points"):
        headers = service.get(path, key="basic-key").headers
        assert headers["x-ratelimit-limit"] == "100"
        assert headers["x-ratelimit-remaining"] == "150"
        assert headers["x-ratelimit-used"] == "50"
        assert headers["x-ratelimit-reset"] == str(T0 + 30 * 86_400 + 30)


def test_usage_is_the_headers_as_a_body_and_free(service: Any, window: Any) -> None:
    service.get("/v1/points", key="basic-key", params=heavy(window, 50))
    for _ in range(2):
        assert service.get("/v1/usage", key="basic-key").json() == {
            "limit": 100,
            "remaining": 150,
            "used": 50,
            "reset": T0 + 30 * 86_400 + 30,
            "window_seconds": 60,
        }


def test_keys_do_not_share_a_bucket(service: Any, window: Any) -> None:
    service.get("/v1/points", key="basic-key", params=heavy(window, 100))
    assert service.get("/v1/usage", key="advanced-key").json()["remaining"] == 1500


@pytest.mark.slow
def test_parallel_requests_cannot_overspend(service: Any, window: Any) -> None:
    with ThreadPoolExecutor(16) as pool:
        asked = [
            pool.submit(service.get, "/v1/points", key="basic-key", params=heavy(window, 3))
            for _ in range(80)
        ]
    statuses = [one.result().status_code for one in asked]
    assert (statuses.count(200), statuses.count(429)) == (66, 14)
    assert service.get("/v1/usage", key="basic-key").json()["remaining"] == 2


# --- markets ---


@pytest.mark.slow
def test_markets_lists_every_market_with_its_metadata(service: Any) -> None:
    body = service.get("/v1/markets").json()
    assert body["nextOffset"] == 4
    assert [(one["exchange"], one["rawSymbol"], one["coin"], one["category"]) for one in body["symbols"]] == [
        ("ALPHA", "BTCUSDT", "BTC", "SPOT"),
        ("ALPHA", "ETHUSDT", "ETH", "SPOT"),
        ("ALPHA", "HUGE", "HUGE", "SPOT"),
        ("BETA", "BTC-PERP", "BTC", "PERPETUAL"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"exchange": "BETA"}, ["BTC-PERP"]),
        ({"coin": ["ETH", "BTC"], "category": "SPOT"}, ["BTCUSDT", "ETHUSDT"]),
        ({"symbolFilter": "eth"}, ["ETHUSDT"]),
        ({"symbolFilter": "btc-u"}, ["BTCUSDT", "BTC-PERP"]),
        ({"distinct": "true"}, ["BTCUSDT", "ETHUSDT", "HUGE"]),
        ({"type": "OPEN_INTEREST_AGG"}, []),
        ({"type": ["OPEN_INTEREST_AGG", "TRADE_AGG"]}, ["BTCUSDT", "ETHUSDT", "HUGE", "BTC-PERP"]),
        ({"pageSize": 2}, ["BTCUSDT", "ETHUSDT"]),
        ({"pageSize": 2, "pageOffset": 2}, ["HUGE", "BTC-PERP"]),
        ({"pageOffset": 4}, []),
    ],
)
def test_markets_filters_and_pages(service: Any, params: dict[str, Any], expected: list[str]) -> None:
    body = service.get("/v1/markets", params=params).json()
    assert [one["rawSymbol"] for one in body["symbols"]] == expected
    assert body["nextOffset"] == params.get("pageOffset", 0) + len(expected)


def test_markets_refuses_a_page_that_is_too_large(service: Any) -> None:
    response = service.get("/v1/markets", params={"pageSize": 1001})
    assert (response.status_code, response.json()["error"]) == (400, "INVALID_PARAMS")


# --- found by attacking it ---


def test_a_trailing_slash_is_not_found_and_never_a_redirect(service: Any) -> None:
    response = service.get("/v1/points/", headers={"Host": "elsewhere.example"})
    assert (response.status_code, response.json()["error"]) == (404, "NOT_FOUND")
    assert "location" not in response.headers


def test_405_says_what_is_allowed(service: Any) -> None:
    assert service.request("DELETE", "/v1/usage").headers["allow"] == "GET"


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "period"), [("DAY", 86_400), ("MINUTE", 240)])
def test_a_market_profile_of_too_many_rows_is_refused_and_free(
    service: Any, window: Any, interval: str, period: int
) -> None:
    params = window(type="TPO_AGG", interval=interval, period=period)
    fine = service.get("/v1/points", params={**params, "blockSize": "0.001"})
    assert fine.status_code == 200
    used = fine.headers["x-ratelimit-used"]
    for size in ("0.000001", "0.000000000001"):  # a block of 1.5 in height has 1.5 million rows of the first
        finer = service.get("/v1/points", params={**params, "blockSize": size})
        assert (finer.status_code, finer.json()["error"]) == (400, "INVALID_PARAMS")
        assert finer.json()["message"].startswith("blockSize: got '")
        assert finer.headers["x-ratelimit-used"] == used


@pytest.mark.slow
def test_a_block_size_too_fine_for_the_prices_is_refused_and_free(service: Any, window: Any) -> None:
    params = window(type="VOLUME_PROFILE_AGG", blockSize="0.000000000001")
    fine = service.get("/v1/points", params=params)
    assert fine.status_code == 200  # 1e14 rows of 100 are still told apart
    lake_of_large_prices = service.get(
        "/v1/points", params=window(type="VOLUME_PROFILE_AGG", rawSymbol="HUGE", blockSize="0.000000000001")
    )
    assert (lake_of_large_prices.status_code, lake_of_large_prices.json()["error"]) == (400, "INVALID_PARAMS")
    assert lake_of_large_prices.json()["message"].startswith("blockSize: got '1E-12', expected at least")
    assert lake_of_large_prices.headers["x-ratelimit-used"] == "2"


@pytest.mark.slow
def test_a_market_without_a_block_size_has_candles_and_says_what_its_profile_needs(
    service: Any, window: Any
) -> None:
    candles = service.get("/v1/points", params=window(rawSymbol="HUGE"))
    assert candles.status_code == 200
    refused = service.get("/v1/points", params=window(type="VOLUME_PROFILE_AGG", rawSymbol="HUGE"))
    assert (refused.status_code, refused.json()["error"]) == (400, "INVALID_PARAMS")
    assert refused.json()["message"].startswith("blockSize: left out, expected a block size")
    served = service.get(
        "/v1/points", params=window(type="VOLUME_PROFILE_AGG", rawSymbol="HUGE", blockSize="1000")
    )
    assert points(served.json())[0]["profile"] == [1e9, 1.0, 0.0]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (f"{ARROW_MIME}, application/json;q=0.9", ARROW_MIME),
        (ARROW_MIME.upper(), ARROW_MIME),
        (f"{ARROW_MIME};q=0", JSON_MIME),
        (f"{ARROW_MIME};q=many", JSON_MIME),
        (f"{ARROW_MIME};q=nan", JSON_MIME),
        (ONCE_MIME, ONCE_MIME),
        (ONCE_MIME.upper(), ONCE_MIME),
        (f'{ARROW_MIME} ; constants = "once" ; q=0.1', ONCE_MIME),
        (f"{ONCE_MIME};q=0", JSON_MIME),
        (f"{ONCE_MIME}, {ARROW_MIME};q=0.9, application/json;q=0.8", ONCE_MIME),
        (f"{ARROW_MIME};q=0.9, {ONCE_MIME}", ONCE_MIME),
        (f"{ARROW_MIME}, {ONCE_MIME};q=0.9", ARROW_MIME),
        (f"{ARROW_MIME}, {ONCE_MIME}", ONCE_MIME),
        (f"{ONCE_MIME};q=0, {ARROW_MIME}", ARROW_MIME),
        (f"{ARROW_MIME};q=0, {ONCE_MIME}", ONCE_MIME),
        (f"{ARROW_MIME};constants=twice", ARROW_MIME),
        (f"{ARROW_MIME};constants", ARROW_MIME),
        (f"{ARROW_MIME};version=9", ARROW_MIME),
        (f"{ARROW_MIME}, {ARROW_MIME};constants=twice;q=0", ARROW_MIME),
        ("*/*", JSON_MIME),
        ("", JSON_MIME),
    ],
)
def test_arrow_is_for_those_who_ask_for_it(service: Any, window: Any, accept: str, expected: str) -> None:
    response = service.get("/v1/points", params=window(), headers={"Accept": accept})
    assert response.headers["content-type"] == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"from": T0 + 30, "period": 90},
        {"sortDirection": "SORT_DIRECTION_DESC"},
        {"rawSymbol": None, "coin": "BTC", "exchange": ["ALPHA", "BETA"]},
        {"from": T0 - 86_400, "period": 60},
        {"type": "TRADE_AGG"},
        {"type": "VOLUME_PROFILE_AGG", "interval": "HOUR"},
        {"type": "TPO_AGG", "interval": "HOUR"},
    ],
    ids=str,
)
def test_both_forms_of_arrow_are_the_same_frame(service: Any, window: Any, more: dict[str, Any]) -> None:
    params = window(**more)
    name = params["type"]
    plain, once = (
        service.get("/v1/points", params=params, headers={"Accept": form}) for form in (ARROW_MIME, ONCE_MIME)
    )
    assert (plain.status_code, plain.headers["content-type"]) == (200, ARROW_MIME), plain.text
    assert (once.status_code, once.headers["content-type"]) == (200, ONCE_MIME)
    assert plain.headers.get("etag") != once.headers.get("etag") or "etag" not in plain.headers
    assert plain.headers["vary"] == once.headers["vary"] == "Accept, Accept-Encoding, Prefer"
    frame = wire.from_arrow(plain.content, name)
    assert wire.from_arrow(once.content, name).equals(frame)
    assert wire.from_arrow(once.content, name).schema == frame.schema
    assert pl.read_ipc_stream(plain.content).columns == [*wire_schema(name).names, DATA_UNTIL]


def test_an_unknown_parameter_is_named_as_it_was_written(service: Any, window: Any) -> None:
    said = service.get("/v1/points", params=window(raw_symbol="BTCUSDT")).json()["message"]
    assert said.startswith(
        "raw_symbol: got 'BTCUSDT', expected no such parameter here; did you mean 'rawSymbol'?"
    )
    said = service.get("/v1/points", params=window(foo="1")).json()["message"]
    assert "transform.normalize.quote, transform.groupBy.type" in said


def test_who_hangs_up_pays_for_what_had_begun(
    service: Any, window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Event()

    def slow(*args: object, **more: object) -> list[tuple[str, pl.DataFrame]]:
        started.set()
        time.sleep(0.3)
        return [("TRADE_AGG", schema_of("TRADE_AGG").empty())]

    monkeypatch.setattr("tidytape.service.work._computing.computed", slow)

    async def asked_and_gone() -> list[Any]:
        sent: list[Any] = []

        async def receive() -> dict[str, str]:
            while not started.is_set():
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        query = urlencode(window(type="TRADE_AGG"), doseq=True)
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/points",
            "raw_path": b"/v1/points",
            "query_string": query.encode(),
            "headers": [(b"x-service-key", b"basic-key"), (b"host", b"service")],
            "scheme": "http",
            "server": ("service", 80),
        }
        await service.app(scope, receive, send)
        return sent

    asyncio.run(asked_and_gone())
    assert started.is_set()
    assert service.get("/v1/usage", key="basic-key").json()["used"] == 1
