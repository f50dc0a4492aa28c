"""What lies between a client and its service: proxies, certificates, the key over plain http, and what is logged."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import ssl
import threading
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidytape
from tables import each_row
from tidytape.client._secret import Secret
from tidytape.errors import (
    CertificateError,
    DecodeError,
    ProxyError,
    QueryError,
    TransportError,
    UnencryptedKeyWarning,
)

KEY = "the-secret-key"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Listening:
    """Gives the same bytes to whoever asks, and keeps what was asked."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.heard = answer, [b""][:0]
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                self.heard.append(connection.recv(2**16))
                connection.sendall(self.answer)

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(5)


@pytest.fixture
def listening() -> Iterator[Any]:
    made: list[Listening] = []

    def listen(answer: bytes) -> Listening:
        made.append(Listening(answer))
        return made[-1]

    yield listen
    for one in made:
        one.close()


COINS = b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\nConnection: close\r\n\r\n{"coins":["BTC"]}'
REFUSAL = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"


async def _coins(address: str, **options: Any) -> list[str]:
    async with tidytape.AsyncClient(address, KEY, **options) as client:
        return await client.coins()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_service_on_this_machine_is_asked_without_the_proxy(
    listening: Any, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    service, proxy = listening(COINS), listening(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
    monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
    monkeypatch.setenv("ALL_PROXY", "a proxy that is no address")
    address = f"http://{host}:{service.address.partition(':')[2]}"
    with tidytape.Client(address, KEY) as client:
        assert client.coins() == ["BTC"]
    assert asyncio.run(_coins(address)) == ["BTC"]
    assert (len(service.heard), len(proxy.heard)) == (2, 0)


@pytest.mark.slow
def test_another_machine_is_asked_through_the_proxy(listening: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = listening(COINS)
    monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
    with (
        pytest.warns(UnencryptedKeyWarning),
        tidytape.Client("http://data.example.org", KEY, cache=False) as client,
    ):
        assert client.coins() == ["BTC"]
    assert proxy.heard[0].startswith(b"GET http://data.example.org/v1/coins")


@pytest.mark.slow
def test_a_proxy_that_refuses_is_an_error_of_its_own(listening: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = listening(REFUSAL)
    monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
    with (
        tidytape.Client("https://data.example.org", KEY, attempts=1) as client,
        pytest.raises(ProxyError, match=r"407 Proxy Authentication Required; the proxy that .* NO_PROXY="),
    ):
        client.coins()
    assert KEY.encode() not in b"".join(proxy.heard)


@pytest.mark.slow
def test_a_proxy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{taken.getsockname()[1]}")
        with (
            tidytape.Client("https://data.example.org", KEY, attempts=1) as client,
            pytest.raises(TransportError, match="is the proxy running that HTTP_PROXY"),
        ):
            client.coins()


@pytest.mark.slow
@pytest.mark.parametrize(
    "given", ["ftp://user:password@proxy", "socks5://user:password@proxy", "http://[::1"]
)
def test_a_proxy_that_cannot_be_used_is_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", given)
    with pytest.raises(ProxyError, match="cannot be used") as caught:
        tidytape.Client("https://data.example.org", KEY)
    with pytest.raises(ProxyError, match="cannot be used"):
        asyncio.run(_coins("https://data.example.org"))
    assert "password" not in str(caught.value)


def test_certificates_that_cannot_be_read_are_an_error_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(CertificateError, match="that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read"):
        tidytape.Client("https://data.example.org", KEY)


def test_a_certificate_that_is_not_trusted_is_tried_once(script: Any, waits: list[float]) -> None:
    failure = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
    failure.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    service = script(failure)
    with pytest.raises(CertificateError, match="SSL_CERT_FILE names its file"):
        tidytape.Client("https://data.example.org", KEY, transport=service).usage()
    assert len(service.requests) == 1
    assert waits == []


# --- the key ---


@pytest.mark.parametrize("kind", [tidytape.Client, tidytape.AsyncClient])
def test_a_key_over_plain_http_is_warned_of_once_per_client(kind: Any) -> None:
    with pytest.warns(UnencryptedKeyWarning, match=r"data\.example\.org over plain http") as caught:
        kind("http://data.example.org", KEY, cache=False)
    assert [one.filename for one in caught] == [__file__]
    assert KEY not in str(caught[0].message)


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("https://data.example.org", {}),
        ("http://127.0.0.1:8000", {}),
        ("http://[::1]:8000", {}),
        ("http://localhost", {}),
        ("http://data.example.org", {"transport": httpx.MockTransport(lambda request: httpx.Response(200))}),
    ],
)
def test_a_key_that_nobody_can_read_is_not_warned_of(address: str, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tidytape.Client(address, KEY, **options).close()


@each_row(
    "spelling",
    [
        "the-secret/key",
        "the-secret%2Fkey",
        "the-secret%2fkey",
        r"the-secret\/key",
        r"\u0074he-secret\u002Fkey",
        "%74%68%65-secret/key",
        r"\x74he-secret/key",
        r"\\u0074he-secret\\/key",
    ],
)
def test_a_key_is_hidden_however_it_is_spelt(spelling: str) -> None:
    assert Secret("the-secret/key").hidden(f"got {spelling}.") == "got <key>."


@pytest.mark.parametrize("key", ["short", "1700000000", "BTC"])
def test_what_may_be_any_word_or_number_is_no_secret(key: str) -> None:
    assert Secret(key).hidden(f'{{"a": {key}}}') == f'{{"a": {key}}}'


def test_what_the_libraries_log_has_no_key(listening: Any, caplog: pytest.LogCaptureFixture) -> None:
    head = b"HTTP/1.1 200 OK the-secret-key\r\nX-Echo: the-secret-key\r\nContent-Length: 17\r\n"
    service = listening(head + COINS[COINS.index(b"Connection") :])
    with (
        caplog.at_level(logging.DEBUG),
        tidytape.Client(f"http://{service.address}", KEY) as client,
    ):
        client.coins()
    assert "OK <key>" in caplog.text
    assert KEY not in caplog.text
    assert KEY.encode() in service.heard[0]


# --- what an error shows ---

WRONG = {"exchange": "X", "coin": "BTC", "interval": "1m", "start": 0, "end": 600}


def refusing(request: httpx.Request) -> httpx.Response:
    return httpx.Response(
        400, json={"error": "INVALID_EXCHANGE", "message": "exchange: got 'X', expected 'Y'"}
    )


def shown(error: BaseException) -> tuple[int, object, object]:
    """How many frames of the library an error shows, and what it leads to."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [one for one in frames if one.filename != __file__]
    return len(inside), error.__cause__, error.__context__


@pytest.mark.parametrize("parts", [1, 3])
def test_an_error_shows_three_frames_of_the_library_at_most(tmp_path: Path, parts: int) -> None:
    transport = httpx.MockTransport(refusing)
    window = {**WRONG, "end": parts * 90_000 * 60}
    with tidytape.Client("https://service", KEY, transport=transport) as client:
        asked = client.query.candles(**window)  # type: ignore[arg-type]
        calls = {
            "candles": lambda: client.candles(**window),  # type: ignore[arg-type]
            "fetch": lambda: client.fetch(asked),
            "points": lambda: client.fetch(asked).frame,
            "markets": client.markets,
            "to_parquet": lambda: client.to_parquet(asked, tmp_path / "none.parquet"),
        }
        for name, call in calls.items():
            with pytest.raises(QueryError, match="exchange: got 'X'") as caught:
                call()
            frames, *others = shown(caught.value)
            assert frames <= 3, name
            assert others == [None, None]
        with pytest.raises(QueryError) as caught:
            next(client.iter_frames(asked))
        assert shown(caught.value) == (2, None, None)


@pytest.mark.parametrize("parts", [1, 3])
def test_an_error_of_asyncio_shows_one_frame_of_the_library(parts: int) -> None:
    async def call() -> None:
        transport = httpx.MockTransport(refusing)
        window = {**WRONG, "end": parts * 90_000 * 60}
        async with tidytape.AsyncClient("https://service", KEY, transport=transport) as client:
            await client.candles(**window)  # type: ignore[arg-type]

    with pytest.raises(QueryError, match="exchange: got 'X'") as caught:
        asyncio.run(call())
    frames = [one for one in traceback.extract_tb(caught.value.__traceback__) if "tidytape" in one.filename]
    assert [one.name for one in frames if one.filename != __file__] == ["_run"]
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_what_the_caller_handles_stays_the_context(script: Any) -> None:
    def handle() -> None:
        try:
            raise KeyError("of the caller")
        except KeyError:
            client.coins()

    with tidytape.Client("https://service", KEY, transport=script(httpx.Response(200, json=3))) as client:
        with pytest.raises(DecodeError) as caught:
            handle()
        assert isinstance(caught.value.__context__, KeyError)


# --- the key in an answer -------------------------------------------------------------------------------------------

KEY_OF_TEST = "a key/of 'tests' %2f"


def spelled(character: str, how: int) -> str:
    """Return a character of a key as it is, or as URLs, JSON and Python escape it."""
    code = f"{ord(character):02x}"
    ways = [character, f"%{code}", f"%{code.upper()}", f"\\u00{code}", f"\\\\x{code}", f"\\\\\\\\u00{code}"]
    return ways[how % len(ways)]


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from([b"%", b"\\", b"\\u00", b"%2", b"\\x6", KEY_OF_TEST[:5].encode(), b"%61 key"]),
            st.lists(st.integers(0, 5), min_size=len(KEY_OF_TEST), max_size=len(KEY_OF_TEST)).map(
                lambda ways: "".join(map(spelled, KEY_OF_TEST, ways)).encode()
            ),
            st.just(KEY_OF_TEST.replace(" ", "+").encode()),
        ),
        max_size=12,
    ).map(b"".join)
)
def test_a_key_is_found_in_bytes_wherever_the_whole_pattern_finds_it(content: bytes) -> None:
    secret = Secret(KEY_OF_TEST)
    expected = secret._in_bytes.sub(lambda found: b"*" * len(found[0]), content)
    assert secret._hidden_in(content) == expected


def test_a_body_with_a_hint_at_every_byte_is_searched_once() -> None:
    """A megabyte of backslashes took twelve seconds, each of them with a search of its own."""
    secret, content = Secret(KEY_OF_TEST), b"\\" * 10_000
    ((start, end),) = secret._around_hints(content)
    assert (start, end >= len(content)) == (0, True)
    apart = list(secret._around_hints(b"%61" + b"-" * 5_000 + b"%61"))
    assert all(before[1] < after[0] for before, after in itertools.pairwise(apart))
    assert sum(end - start for start, end in apart) < 1_000
