"""Names that users of other clients type: every answer names what to write instead, and the guide says the same."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import tidytape
from tables import each_row
from tidytape._other_clients import (
    _CALL,
    _METHODS,
    _WORD,
    ARGUMENTS,
    DOWNLOADERS,
    FUNCTIONS,
    PARAMETERS,
    WRAPPERS,
    Row,
    _by_name,
    _plain,
)
from tidytape.client._endpoints import Endpoints
from tidytape.errors import CallError, UnknownNameError

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "from_other_clients.md"
METHODS = [name for name, _ in inspect.getmembers(Endpoints, inspect.isfunction) if not name.startswith("_")]


@pytest.fixture(scope="module")
def client() -> Any:
    return tidytape.Client("http://127.0.0.1:1", "the-key")


def table(head: str, rows: Iterable[Row]) -> str:
    lines = [f"| {theirs} | {ours} |" for theirs, ours in rows]
    return "\n".join([f"| {head} | tidytape |", "| --- | --- |", *lines])


@each_row(
    "head, rows",
    [
        ("ccxt", WRAPPERS),
        ("yfinance", DOWNLOADERS),
        ("other clients", PARAMETERS),
        ("other libraries", FUNCTIONS),
        ("other libraries take", ARGUMENTS),
    ],
)
def test_the_guide_shows_the_tables_that_the_errors_quote(head: str, rows: Iterable[Row]) -> None:
    assert table(head, rows) + "\n\n" in GUIDE.read_text("utf-8")


def test_what_the_tables_name_is_there() -> None:
    calls = [
        call for _, ours in (*WRAPPERS, *DOWNLOADERS) for call in re.findall(r"client\.(\w+)\((.*?)\)", ours)
    ]
    assert len(calls) > 8
    for method, arguments in calls:
        names = inspect.signature(getattr(tidytape.Client, method)).parameters
        assert set(re.findall(r"(\w+)=", arguments)) <= set(names), method


@each_row("name", list(_by_name(_CALL, WRAPPERS, DOWNLOADERS)))
def test_a_method_of_another_client_is_answered_with_ours(client: Any, name: str) -> None:
    if name == "binance":
        return  # a method of the module ccxt
    for owner in (client, client.query, tidytape):
        assert not hasattr(owner, name)
        with pytest.raises(
            UnknownNameError, match=re.escape(f"has no attribute {name!r}; write client.")
        ) as caught:
            getattr(owner, name)
        assert isinstance(caught.value, AttributeError)
        assert caught.value.name == name


@each_row("name", ["period", "enableRateLimit", "auto_adjust", *_by_name(_WORD, PARAMETERS)])
def test_a_parameter_of_another_client_is_answered_with_ours(client: Any, name: str) -> None:
    of_the_client = {"url", "host", "endpoint", "key", "apiKey", "apikey", "retries", "max_retries"}
    of_books = {"depth", "levels"}
    method = client.book_heatmap if name in of_books else client.candles
    method = tidytape.Client if name in {*of_the_client, "engine", "as_pandas"} else method
    with pytest.raises(
        CallError, match=f"unexpected keyword argument '{name}'; (write|leave it out: )"
    ) as caught:
        method(**{name: "the-secret"})
    assert caught.value.parameter == name
    assert "the-secret" not in repr(vars(caught.value))  # it may be a key


@each_row("name", list(_by_name(_CALL, FUNCTIONS)))
def test_a_function_of_another_library_is_answered_with_ours(client: Any, name: str) -> None:
    for owner in (client, tidytape.analytics, tidytape.analytics.flow, tidytape.plot):
        with pytest.raises(UnknownNameError, match=f"has no attribute '{name}'; write "):
            getattr(owner, name)


def test_what_the_rows_of_functions_name_is_there() -> None:
    calls = [call for _, ours in FUNCTIONS for call in re.findall(r"`(\w+)\.(\w+)\(", ours)]
    rooms = {"plot": tidytape.plot, "aggregate": tidytape.aggregate}
    for room, name in [call for call in calls if call[0] not in {"client", "polars"}]:
        assert name in (rooms.get(room) or getattr(tidytape.analytics, room)).__all__


def functions() -> list[tuple[str, Any]]:
    rooms = [getattr(tidytape.analytics, name) for name in tidytape.analytics.__all__]
    rooms += [tidytape.aggregate, tidytape.plot, tidytape.plot.interactive, tidytape.report]
    members = [(f"{room.__name__}.{name}", getattr(room, name)) for room in rooms for name in room.__all__]
    return [(path, function) for path, function in members if inspect.isfunction(function)]


@each_row("theirs, ours", list(ARGUMENTS))
def test_an_argument_of_another_library_is_answered_with_ours(theirs: str, ours: str) -> None:
    arguments = {*_WORD.findall(ours)} or {"tolerance"}
    takers = {
        function: parameters
        for _, function in functions()
        if not arguments.isdisjoint(parameters := inspect.signature(function).parameters)
    }
    for name in _WORD.findall(theirs):
        function = next(function for function, parameters in takers.items() if name not in parameters)
        with pytest.raises(CallError, match=f"unexpected keyword argument '{name}'; ") as caught:
            function(None, **{name: 1})
        assert str(caught.value).endswith(_plain(ours).removeprefix("nothing"))


@each_row("path, function", functions())
def test_a_function_is_as_it_was_written(path: str, function: Any) -> None:
    assert f"{function.__module__}.{function.__name__}" == path
    assert pickle.loads(pickle.dumps(function)) is function
    assert list(inspect.signature(function).parameters)
    assert inspect.getsource(function).lstrip().startswith(("def ", "@tabular"))
    assert function.__doc__


@each_row("name", METHODS)
def test_every_method_explains_a_call_that_does_not_fit(client: Any, name: str) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: getattr(client, name)(nothing=1),
        lambda: getattr(client, name)(*range(4)),
    ]
    for call in calls:
        with pytest.raises(CallError) as caught:
            call()
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, tidytape.QueryError)
        assert f"{name}()" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda client: client.candles("BINANCE", "BTC", "1h"),
            r"too many positional arguments; write candles\(exchange=…, interval=…",
        ),
        (lambda client: client.candles(coin="BTC"), "missing a required argument: 'interval'"),
        (lambda client: client.candels, "did you mean 'candles'"),
        (lambda client: client.candles(intervall="1h"), "did you mean 'interval'"),
        (lambda client: client.usage(1), r"too many positional arguments; write usage\(\)"),
        (
            lambda client: client.stream("TRADE", data_type="TRADE"),
            "multiple values for argument 'data_type'",
        ),
        (
            lambda client: client.candles(columns=["close"]),
            "'columns'; leave it out: select columns of the frame",
        ),
        (lambda client: tidytape.PointQuery, "did you mean 'PointsQuery'"),
        (
            lambda client: tidytape.Client("http://127.0.0.1:1", "k", "polars"),
            r"too many positional arguments; write Client\(base_url=…",
        ),
    ],
)
def test_other_mistakes(client: Any, call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises((CallError, UnknownNameError), match=words):
        call(client)


def test_a_key_in_a_dict_is_in_no_error() -> None:
    wrong: Any = {"apiKey": "the-secret"}
    with pytest.raises(tidytape.QueryError, match="base_url: got 'dict', expected the address") as caught:
        tidytape.Client(wrong)
    assert "the-secret" not in repr(vars(caught.value))


def test_completion_shows_the_methods_and_none_of_other_clients(client: Any) -> None:
    assert set(METHODS) <= set(dir(client))
    assert not set(_METHODS) & set(dir(client))
