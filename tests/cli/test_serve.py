"""``tidytape serve`` as a process: it answers, and ends as it should."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from lakes import demo_lake
from tidytape.errors import QueryError
from tidytape.service import KeyFile
from tidytape.service.http._connection import require_free

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are of another kind there"),
]

DAY = {
    "type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "DEMO_SPOT", "rawSymbol": "BTCUSDT", "interval": "MINUTE",
    "from": "1723075200", "period": "86400",
}  # fmt: skip


@dataclass
class Served:
    """A running service, what it said so far, and the key to it."""

    process: subprocess.Popen[str]
    secret: str
    said: list[str] = field(default_factory=list)
    address: str = ""

    def get(self, path: str, **params: str) -> httpx.Response:
        return httpx.get(
            self.address + path, params=params, headers={"X-Service-Key": self.secret}, timeout=60
        )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    demo_lake(tmp_path / "lake")
    KeyFile(tmp_path / "keys.json").new("basic")
    _, secret = KeyFile(tmp_path / "keys.json").new("enterprise")
    program = Path(sys.executable).with_name("tidytape")
    command = [
        str(program),
        *["serve", "--lake", "lake", "--keys", "keys.json", "--port", "0", "--workers", "1"],
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        one = Served(process, secret)
        reader = threading.Thread(target=lambda: one.said.extend(process.stdout or ()))
        try:
            for line in process.stdout or ():
                one.said.append(line)
                if found := re.search(r"running on (\S+)", line):
                    one.address = found[1]
                    break
            assert one.address, one.said
            reader.start()
            yield one
        finally:
            process.kill()
            process.wait()
            if reader.ident:
                reader.join()


def test_it_answers_and_writes_a_line_per_request(served: Served) -> None:
    answer = served.get("/v1/points", **DAY)
    assert answer.status_code == 200
    assert len(answer.json()["series"][0]["points"]) > 1000
    assert httpx.get(served.address + "/readyz").status_code == 200
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(30) == 0
    lines = [json.loads(line) for line in served.said if line.startswith("{")]
    (line,) = (one for one in lines if one.get("route") == "points")
    assert line["id"] == answer.headers["X-Request-Id"]
    assert (line["status"], line["weight"]) == (200, 2)
    assert served.secret not in "".join(served.said)
    # The simulated days are longer ago than a basic key sees.
    assert sum(line.startswith("warning: the newest data is of 2024-08-") for line in served.said) == 1


def test_what_is_no_request_is_refused_by_the_same_words(served: Served) -> None:
    host, _, port = served.address.removeprefix("http://").partition(":")
    told = {}
    for sent in (b"hello?\r\n\r\n", b"GET /" + b"a" * (1 << 20)):
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            sock.sendall(sent)
            body = b"".join(iter(lambda: sock.recv(1 << 16), b"")).partition(b"\r\n\r\n")[2]
            told[sent[:5]] = json.loads(body)["error"]
    assert told == {b"hello": "INVALID_REQUEST", b"GET /": "URI_TOO_LONG"}
    assert served.get("/v1/usage").status_code == 200


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_it_finishes_what_was_begun_and_leaves_nothing_behind(served: Served, how: signal.Signals) -> None:
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(served.get("/v1/points", **DAY)))
    asking.start()
    while "tidytape_requests_open 2.0" not in httpx.get(served.address + "/metrics").text and not answers:
        pass  # the second one open is this question itself
    children = children_of(served.process.pid)
    served.process.send_signal(how)
    asking.join()
    assert answers[0].status_code == 200
    served.process.wait(30)
    assert "leaked" not in "".join(served.said)
    assert "Traceback" not in "".join(served.said)
    # Those that clean up after the others are the last to go.
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in children):
        assert time.monotonic() < until
        time.sleep(0.02)


def children_of(pid: int) -> list[str]:
    """Processes that a process began; none where the system does not tell."""
    told = Path(f"/proc/{pid}/task/{pid}/children")
    return told.read_text().split() if told.exists() else []


def test_a_port_in_use_is_refused_before_the_service_starts():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(QueryError, match=f"port: got {port}, expected a port that is free on 127.0.0.1"):
            require_free("127.0.0.1", port)
    require_free("127.0.0.1", port)
