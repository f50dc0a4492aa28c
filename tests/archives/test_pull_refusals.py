"""What `pull` does when an exchange fails, refuses, or leaves a unit open; and where keys may not be."""

from __future__ import annotations

import json
import socket
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import ccxt
import ccxt.async_support
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

import exchange_apis as apis
import tidytape
from odd_exchange import MARKETS, MINUTE, NOW, OPEN, OddExchange, candle, served
from tables import each_row
from tidytape.archives._pull_exchange import Source
from tidytape.archives._pull_keys import without_keys
from tidytape.archives._pull_markets import PulledMarket
from tidytape.cli import app
from tidytape.errors import (
    AuthenticationError,
    DecodeError,
    QueryError,
    RateLimitError,
    RefusedQueryError,
    ServerError,
    ServiceError,
    TidytapeError,
    TransportError,
)
from tidytape.lake import Lake
from tidytape.lake._amount_units import _KNOWN
from tidytape.lake.ingest._exchange_names import EXCHANGES, PARTS

START = OPEN - 100 * MINUTE
WINDOW: dict[str, Any] = {"since": START // 1000, "progress": False}
TIMES = list(range(START, OPEN + MINUTE, MINUTE))


def failing(*errors: Exception, after: int = 1) -> OddExchange:
    """An exchange whose answers after some pages are errors, and then pages again."""
    todo: list[Exception | None] = [*[None] * after, *errors]

    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        error = todo.pop(0) if todo else None
        if error is not None:
            raise error
        return served(TIMES)(since, params)

    return OddExchange(candles=page)


# --- failures ---


def test_a_failure_that_passes_is_waited_for(tmp_path: Path) -> None:
    errors = [ccxt.DDoSProtection("429"), ccxt.ExchangeNotAvailable("503"), ccxt.RequestTimeout("late")]
    exchange = failing(*errors)
    result = tidytape.pull(exchange, "BTC/USDT", lake=tmp_path, **WINDOW)
    assert result.select("rows", "gap_from").rows() == [(100, None)]
    assert exchange.slept == [1_000, 2_000, 4_000]


@pytest.mark.slow
@each_row(
    ("error", "kind"),
    [
        (ccxt.ExchangeNotAvailable("down"), ServerError),
        (ccxt.OnMaintenance("down"), ServerError),
        (ccxt.DDoSProtection("slow down"), RateLimitError),
        (ccxt.RateLimitExceeded("slow down"), RateLimitError),
        (ccxt.NetworkError("no route"), TransportError),
        (ccxt.RequestTimeout("late"), TransportError),
        (ccxt.BadResponse("<html>"), ServerError),
        (ccxt.AuthenticationError("who?"), AuthenticationError),
        (ccxt.PermissionDenied("not you"), AuthenticationError),
        (ccxt.BadSymbol("no such market"), RefusedQueryError),
        (ccxt.BadRequest("too old"), RefusedQueryError),
        (ccxt.NotSupported("no"), RefusedQueryError),
        (ccxt.ExchangeError("something"), ServiceError),
        (KeyError("list"), DecodeError),
    ],
)
def test_a_failure_that_stays_is_ours(tmp_path: Path, error: Exception, kind: type[TidytapeError]) -> None:
    with pytest.raises(kind, match=r"odd .*fetch_ohlcv") as raised:
        tidytape.pull(failing(*[error] * 10, after=0), "BTC/USDT", lake=tmp_path, **WINDOW)
    assert type(raised.value) is kind
    assert raised.value.__cause__ is None
    assert str(error.args[0]) in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("error", [ccxt.NetworkError("no route"), ccxt.ExchangeError("something")])
def test_a_failure_in_the_middle_keeps_what_came(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(ServiceError):
        tidytape.pull(failing(*[error] * 10), "BTC/USDT", lake=tmp_path, **WINDOW)
    assert Lake(tmp_path).scan("candles").collect().height == 40
    again = failing()
    assert tidytape.pull(again, "BTC/USDT", lake=tmp_path, **WINDOW)["rows"].to_list() == [100]
    assert again.asked[0] == START + 40 * MINUTE


def test_an_interrupt_keeps_what_came(tmp_path: Path) -> None:
    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        if since and since > START + 50 * MINUTE:
            raise KeyboardInterrupt
        return served(TIMES)(since, params)

    with pytest.raises(KeyboardInterrupt):
        tidytape.pull(OddExchange(candles=page), "BTC/USDT", lake=tmp_path, **WINDOW)
    assert Lake(tmp_path).scan("candles").collect().height == 80


def test_an_end_that_an_exchange_refuses_is_only_tried(tmp_path: Path) -> None:
    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        if "until" in params:
            raise ccxt.BadRequest("unknown parameter until")
        return [candle(time) for time in TIMES[-30:]]

    result = tidytape.pull(OddExchange(candles=page), "BTC/USDT", lake=tmp_path, **WINDOW)
    assert result["rows"].to_list() == [29, 0]


def test_an_exchange_that_sends_the_newest_rows_first_is_walked_backwards(tmp_path: Path) -> None:
    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        return [candle(time) for time in TIMES if since is None or since <= time < params.get("until", NOW)][
            -7:
        ]

    result = tidytape.pull(OddExchange(candles=page), "BTC/USDT", lake=tmp_path, **WINDOW)
    assert result.select("rows", "gap_from").rows() == [(100, None)]


@each_row("answer", [["a", "b"], {"code": "0"}, [[1]], 5, [[True] * 6], [[10**30, 1, 1, 1, 1, 1]]])
def test_an_answer_of_another_form_is_refused(tmp_path: Path, answer: Any) -> None:
    with pytest.raises(DecodeError, match="odd answered fetch_ohlcv in another form"):
        tidytape.pull(OddExchange(candles=lambda *_: answer), "BTC/USDT", lake=tmp_path, **WINDOW)


TIME_OF_OTHER_TYPE = [
    str,
    float,
    lambda time: time // 1000,
    lambda time: time * 1000,
    lambda time: float("nan"),
    bool,
]
BAD_NUMBERS = [10**400, "much", True, [1.0], {}]
BAD_WORDS = [1.5, True, ["buy"], "\ud800"]
FUTURE = {
    "timestamp": NOW - MINUTE,
    "id": "1",
    "side": "buy",
    "price": 1.0,
    "amount": 1.0,
    "fundingRate": 0.1,
}


@pytest.mark.slow
@each_row(
    ("kind", "place", "cells"),
    [
        ("candles", 0, [change(NOW - MINUTE) for change in TIME_OF_OTHER_TYPE]),
        *[("candles", place, BAD_NUMBERS) for place in range(1, 6)],
        ("funding", "timestamp", [change(NOW - MINUTE) for change in TIME_OF_OTHER_TYPE]),
        ("funding", "fundingRate", BAD_NUMBERS),
        ("trades", "timestamp", [change(NOW - MINUTE) for change in TIME_OF_OTHER_TYPE]),
        *[("trades", place, BAD_NUMBERS) for place in ("price", "amount")],
        *[("trades", place, BAD_WORDS) for place in ("id", "side")],
    ],
)
def test_a_cell_of_another_type_is_refused_before_its_page_is_written(
    tmp_path: Path, kind: str, place: Any, cells: list[Any]
) -> None:
    for cell in cells:
        good: Any = candle(TIMES[-3]) if kind == "candles" else FUTURE
        bad: Any = (
            [cell if place == column else held for column, held in enumerate(good)]
            if kind == "candles"
            else ({**good, place: cell})
        )
        exchange = OddExchange(**{kind: lambda *_, rows=(good, bad): list(rows)})
        with pytest.raises(DecodeError, match="in another form than ccxt's"):
            tidytape.pull(exchange, "BTC/USDT:USDT", data=kind, lake=tmp_path, amount_unit="coin", **WINDOW)
    assert Lake(tmp_path).scan(kind).collect().is_empty()


@pytest.mark.slow
def test_numbers_that_are_text_are_numbers(tmp_path: Path) -> None:
    hours = [NOW // 28_800_000 * 28_800_000 - hour * 28_800_000 for hour in range(3)]
    rates = [{"timestamp": hour, "fundingRate": "0.0001"} for hour in hours]
    pages: dict[str, Any] = {
        "candles": lambda *_: [[time, *map(str, cells)] for time, *cells in map(candle, TIMES)],
        "funding": lambda *_: rates,
    }
    arguments = {**WINDOW, "since": "1d", "amount_unit": "coin"}
    tidytape.pull(OddExchange(**pages), "BTC/USDT:USDT", data=list(pages), lake=tmp_path, **arguments)
    assert Lake(tmp_path).scan("funding").collect()["rate"].to_list() == [0.0001] * 3
    rows = Lake(tmp_path).scan("candles").sort("timestamp").collect()
    assert rows.select("open", "volume").rows() == [
        (row[1], row[5]) for row in map(candle, TIMES) if row[0] < OPEN
    ]


@each_row("time", ["x", float("nan"), float("inf"), -5, True, 1.5e12, NOW // 1000, [1], f"{NOW}", 10**5000])
def test_a_clock_of_another_form_is_refused(tmp_path: Path, time: Any) -> None:
    exchange = failing()
    exchange.fetch_time = lambda params=None: time  # type: ignore[method-assign]
    with pytest.raises(DecodeError, match="odd answered fetch_time in another form"):
        tidytape.pull(exchange, "BTC/USDT", lake=tmp_path, **WINDOW)


@each_row("symbol, data", [("BTC/USDT", "funding"), ("BTC/USDT", "open_interest")])
def test_data_that_a_market_does_not_have_are_no_hole(tmp_path: Path, symbol: str, data: str) -> None:
    result = tidytape.pull(failing(), symbol, data=data, lake=tmp_path, **WINDOW)
    assert result.drop("market").rows() == [
        (data, 0, None, None, None, None, f"a spot market has no {data.replace('_', ' ')}")
    ]


@pytest.mark.slow
def test_rows_that_cannot_be_are_holes(tmp_path: Path) -> None:
    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        rows = [candle(time) for time in TIMES if since is None or time >= since]
        for row in rows:
            if row[0] == START + 3 * MINUTE:
                row[2] = 0.5  # the highest price is below the lowest one
            if row[0] == START + 5 * MINUTE:
                row[4] = None
            if row[0] == START + 7 * MINUTE:
                row[5] = float("nan")
            if row[0] == START + 9 * MINUTE:
                row[5] = None
        return rows

    result = tidytape.pull(OddExchange(candles=page), "BTC/USDT", lake=tmp_path, **WINDOW)
    gaps = result["gap_from"].drop_nulls().dt.epoch("ms").to_list()
    assert gaps == [START + minute * MINUTE for minute in (3, 5, 7, 9)]


# --- units ---


@each_row("symbol", ["BTC/USDT:USDT", "BTC/USD:BTC"])
def test_an_unknown_unit_is_asked_for_before_anything_is_pulled(tmp_path: Path, symbol: str) -> None:
    exchange = failing()
    with pytest.raises(
        QueryError, match=r"amount_unit: left out, expected coin, quote or contracts: .*candles of odd"
    ):
        tidytape.pull(exchange, ["BTC/USDT", symbol], lake=tmp_path, **WINDOW)
    assert exchange.asked == []


@pytest.mark.slow
@each_row(
    ("symbol", "unit", "volume", "quote_volume"),
    [
        ("BTC/USDT:USDT", "coin", 1.0, None),
        ("BTC/USDT:USDT", "contracts", 0.01, None),
        ("BTC/USDT:USDT", "quote", None, 1.0),
        ("BTC/USD:BTC", "coin", 1.0, None),
        ("BTC/USD:BTC", "contracts", None, 100.0),
        ("BTC/USD:BTC", "quote", None, 1.0),
    ],
)
def test_a_stated_unit_converts(
    tmp_path: Path, symbol: str, unit: str, volume: float | None, quote_volume: float | None
) -> None:
    lake = tmp_path / f"{unit} {symbol[-3:]}"
    tidytape.pull(failing(), symbol, lake=lake, amount_unit=unit, **WINDOW)
    rows = Lake(lake).scan("candles", exchange="ODD_FUTURES").sort("timestamp").collect()
    for column, factor in (("volume", volume), ("quote_volume", quote_volume)):
        served_volumes = [None if factor is None else factor * candle(time)[5] for time in TIMES[:100]]
        assert rows[column].to_list() == pytest.approx(served_volumes)


@pytest.mark.slow
def test_a_unit_of_several_coins_becomes_coins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = MARKETS["BTC/USDT"] | {"id": "1000PEPEUSDT", "base": "1000PEPE"}
    monkeypatch.setitem(MARKETS, "1000PEPE/USDT", listing)
    tidytape.pull(failing(), "1000PEPE/USDT", lake=tmp_path, **WINDOW)
    market = Lake(tmp_path).markets().select("coin", "normalized_symbol", "category", "factor").rows()
    assert market == [("PEPE", "PEPE-USDT", "SPOT", 1000.0)]
    rows = Lake(tmp_path).scan("candles").sort("timestamp").collect()
    served = [candle(time) for time in TIMES[:100]]
    assert rows["open"].to_list() == [float(f"{row[1]}e-3") for row in served]
    assert rows["volume"].to_list() == [1000 * row[5] for row in served]


def test_a_contract_of_unknown_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MARKETS["BTC/USDT:USDT"], "contractSize", None)
    with pytest.raises(QueryError, match="or what one contract is"):
        tidytape.pull(failing(), "BTC/USDT:USDT", lake=tmp_path, amount_unit="contracts", **WINDOW)


@each_row("name", sorted(ccxt.exchanges))
def test_markets_of_two_classes_do_not_share_a_name(name: str) -> None:
    spot, linear, inverse = (
        PulledMarket(name, {"base": "BTC", **facts}).key[0] for facts in MARKETS.values()
    )
    # Symbols of these show their class, or they have no spot markets.
    if name not in {"deribit", "hyperliquid", "krakenfutures"}:
        assert spot not in {linear, inverse}


def test_the_names_of_parts_are_those_whose_units_are_documented() -> None:
    names = {*PARTS, *(name for parts in PARTS.values() for name in parts.values())}
    assert names <= set(_KNOWN.values())
    assert set(EXCHANGES.values()) <= set(_KNOWN.values()) | {"CME"}


# --- arguments, keys, and what is installed ---


@each_row(
    ("arguments", "message"),
    [
        (
            {"data": "candels"},
            "data: got 'candels', expected any of candles, funding.*did you mean 'candles'",
        ),
        ({"interval": "soon"}, "interval: got 'soon'"),
        ({"since": "soon"}, "since: got 'soon'"),
        ({"since": "1h", "until": "2h"}, "since: got '1h', expected a time before until and before now"),
        ({"amount_unit": "lots"}, "amount_unit: got 'lots'"),
        ({"symbols": "BTC-USDT"}, "symbols: got 'BTC-USDT', expected a symbol of odd in ccxt"),
    ],
)
def test_a_wrong_argument_is_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    symbols = arguments.pop("symbols", "BTC/USDT")
    with pytest.raises(QueryError, match=message):
        tidytape.pull(failing(), symbols, lake=tmp_path / "lake", **{**WINDOW, **arguments})
    assert not (tmp_path / "lake").exists()


@each_row("exchange", [ccxt.async_support.bybit(), object(), None])
def test_an_object_that_is_no_exchange_of_ccxt_is_refused(tmp_path: Path, exchange: object) -> None:
    with pytest.raises(QueryError, match=r"expected a name such as 'bybit', or an object of ccxt\.bybit"):
        tidytape.pull(exchange, "BTC/USDT", lake=tmp_path)


@pytest.mark.slow
def test_no_symbols_give_no_rows_with_all_columns(tmp_path: Path) -> None:
    result = tidytape.pull(failing(), [], lake=tmp_path, **WINDOW)
    other = tidytape.pull(failing(), "BTC/USDT", lake=tmp_path, **WINDOW)
    assert result.height == 0
    assert result.schema == other.schema
    assert result.columns == ["market", "data", "rows", "first", "last", "gap_from", "gap_to", "reason"]


def test_ccxt_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ccxt", None)
    with pytest.raises(TidytapeError, match=r"pip install 'tidytape\[ccxt\]'"):
        tidytape.pull("bybit", "BTC/USDT", lake=tmp_path)


def test_a_key_comes_from_the_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Source("bybit").exchange.apiKey in {None, ""}
    monkeypatch.setenv("TIDYTAPE_BYBIT_API_KEY", "the-key")
    monkeypatch.setenv("TIDYTAPE_BYBIT_API_SECRET", "the-secret")
    source = Source("bybit")
    assert (source.exchange.apiKey, source.exchange.secret) == ("the-key", "the-secret")
    assert "the-" not in repr(source)


@pytest.mark.slow
def test_a_key_is_in_no_error_and_in_no_lake(tmp_path: Path) -> None:
    exchange = failing(ccxt.ExchangeError("GET /kline?apiKey=the-key-of-a-user&sign=the-secret-of-a-user"))
    with pytest.raises(ServiceError) as raised:
        tidytape.pull(exchange, "BTC/USDT", lake=tmp_path, **WINDOW)
    assert "of-a-user" not in repr(raised.value)
    assert "apiKey=…&sign=…" in str(raised.value)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"of-a-user" not in written


PARTS_OF_KEYS = [
    "a+b/c==",
    "päss word",
    "-----BEGIN-----\nMII/x+y==\n",
    'quo"te\\',
    "0xAbCdEf0123",
    "12345",
    "🔑" * 6,
]
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "quoted": lambda key: quote(key, safe=""),
    "quoted but for slashes": quote,
    "quoted as a form": quote_plus,
    "quoted twice": lambda key: quote(quote(key, safe=""), safe=""),
    "quoted in small letters": lambda key: quote(key, safe="").lower(),
    "as JSON": lambda key: json.dumps(key)[1:-1],
    "as Python": lambda key: repr(key)[1:-1],
    "in base64": lambda key: b64encode(key.encode()).decode().rstrip("="),
    "in base64 of URLs": lambda key: urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "in base64, quoted": lambda key: quote(b64encode(key.encode()).decode().rstrip("="), safe=""),
}


@each_row("key", PARTS_OF_KEYS)
def test_a_part_of_a_key_is_hidden_however_it_is_spelled(key: str) -> None:
    for name, spell in SPELLINGS.items():
        assert without_keys(f"/?key={spell(key)}&sign=1, {key}", ["other", key]) == "/?key=…&sign=1, …", name


@pytest.mark.slow
@each_row("part", sorted(ccxt.Exchange().requiredCredentials))
def test_every_part_of_a_key_is_hidden_before_a_message_is_cut(part: str) -> None:
    key = PARTS_OF_KEYS[0]
    for kind in (ccxt.AuthenticationError, ccxt.BadRequest, ValueError):
        exchange = failing(kind(f"{'.' * 100} {' '.join([quote(key, safe=''), key] * 9)}"), after=0)
        setattr(exchange, part, key)
        with pytest.raises(TidytapeError, match=r"\.{100}( …){18}") as raised:
            Source(exchange).ask("fetch_ohlcv", "BTC/USDT")
        assert "a+b" not in repr(raised.value)


@pytest.mark.slow
@given(before=st.binary(max_size=4), key=st.text(min_size=12, max_size=40), after=st.binary(max_size=4))
def test_a_key_among_other_bytes_is_hidden_in_base64(before: bytes, key: str, after: bytes) -> None:
    octets = key.encode(errors="surrogatepass")
    message = without_keys(b64encode(before + octets + after).decode(), [key])
    assume(key.strip())
    assert "…" in message
    assert len(message) <= 2 + 4 * (len(before) + len(after) + 3) / 3


def test_no_key_leaves_a_message_as_it_is() -> None:
    assert without_keys("GET /kline", ["", " "]) == "GET /kline"


def test_without_a_connection_that_comes_first(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        exchange = ccxt.bybit({"rateLimit": 1})
        exchange.urls["api"] = dict.fromkeys(
            exchange.urls["api"], f"http://127.0.0.1:{unused.getsockname()[1]}"
        )
        exchange.sleep = lambda milliseconds: None
        try:
            raise FileNotFoundError(2, "No such file", "lake")
        except FileNotFoundError:
            with pytest.raises(TransportError) as raised:
                tidytape.pull(exchange, "BTC/USDT", lake=tmp_path / "lake", progress=False)
    begin = "bybit did not answer fetch_time: no connection (Connection refused); bybit GET http://127.0.0.1:"
    assert str(raised.value).startswith(begin)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "lake").exists()


# --- the command ---


@pytest.mark.slow
def test_the_command_prints_what_came_and_the_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with apis.opened("bybit") as exchange:
        monkeypatch.setattr(ccxt, "bybit", lambda keys: exchange)
        words = [
            "pull",
            "bybit",
            "BTC/USDT:USDT",
            "--data",
            "candles,funding",
            "--since",
            "1d",
            "--lake",
            str(tmp_path),
        ]
        table = CliRunner().invoke(app, words)
        printed = CliRunner().invoke(app, [*words, "--json"])
    assert table.exit_code == printed.exit_code == 0
    assert "none came" in table.stdout
    rows = json.loads(printed.stdout)
    assert [(row["data"], row["rows"], row["gap_from"]) for row in rows] == [
        ("candles", 1379, None),
        ("candles", 0, "2024-08-08T07:00:00Z"),
        ("funding", 3, None),
    ]
    assert pl.DataFrame(rows)["market"].unique().to_list() == ["BYBIT BTCUSDT"]
