"""``tidytape serve --supervise``: a crash ends an answer, not the service."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import httpx
import orjson
import pytest

from lakes import demo_lake
from tidytape.service import KeyFile

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/task").exists(), reason="needs a system that names child processes"
    ),
]

MINUTES = {
    "type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "DEMO_SPOT", "rawSymbol": "BTCUSDT", "interval": "MINUTE",
    "from": "1723075200", "period": "86400",
}  # fmt: skip
SUPERVISED = "import sys; from tidytape.cli._supervise import supervised; sys.exit(supervised(sys.argv[1:]))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    demo_lake(tmp_path / "lake")
    (tmp_path / "key").write_text(KeyFile(tmp_path / "keys.json").new("enterprise")[1])
    return tmp_path


@contextmanager
def started(folder: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command that writes to the file ``log``; kill it and its children in the end."""
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([sys.executable, *command], cwd=folder, stdout=log, stderr=log) as process,
    ):
        try:
            yield process
        finally:
            for pid in children(process):
                os.kill(pid, signal.SIGKILL)
            process.kill()


def served(folder: Path, *options: str) -> tuple[str, ...]:
    return ("-m", "tidytape", "serve", "--lake", "lake", "--keys", "keys.json", "--supervise", *options)


def children(process: subprocess.Popen[bytes]) -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return list(map(int, path.read_text().split())) if process.poll() is None else []


def until(is_true: Callable[[], object], process: subprocess.Popen[bytes], folder: Path) -> None:
    last = time.monotonic() + 60
    while not is_true():
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < last, (folder / "log").read_text()
        time.sleep(0.02)


def address(folder: Path, starts: int = 1) -> str | None:
    addresses: list[str] = re.findall(r"running on (\S+)", (folder / "log").read_text())
    return addresses[-1] if len(addresses) == starts else None


def batches(folder: Path, url: str, count: int, **params: str) -> list[str]:
    """Return the first lines of a stream."""
    headers = {"X-Service-Key": (folder / "key").read_text()}
    with httpx.stream(
        "GET", f"{url}/v1/stream", params=MINUTES | params, headers=headers, timeout=60
    ) as answer:
        assert answer.status_code == 200, answer.read()
        return list(islice(answer.iter_lines(), count))


def test_after_a_crash_it_answers_on_the_same_ports_and_streams_go_on(folder: Path) -> None:
    pytest.importorskip("grpc")
    with started(folder, *served(folder, "--port", "0", "--grpc-port", "0")) as process:
        until(lambda: address(folder), process, folder)
        url = str(address(folder))
        first, second = batches(folder, url, 2)
        began = time.monotonic()
        os.kill(children(process)[0], signal.SIGSEGV)
        until(lambda: address(folder, starts=2), process, folder)
        assert address(folder, starts=2) == url
        assert batches(folder, url, 1, token=orjson.loads(first)["token"]) == [second]
        print(f"the stream went on {time.monotonic() - began:.1f} s after the crash")
        log = (folder / "log").read_text()
        assert "error: SIGSEGV ended the service; it starts again in 0 s" in log
        assert "Fatal Python error: Segmentation fault" in log
        assert len(set(re.findall(r"gRPC is answered on (\S+)", log))) == 1
        (child,) = children(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert not Path(f"/proc/{child}").exists()
    assert log.count("ended the service") == 1


def test_an_interrupt_ends_both_with_the_code_of_the_service(folder: Path) -> None:
    with started(folder, *served(folder, "--port", "0")) as process:
        until(lambda: address(folder), process, folder)
        (child,) = children(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert not Path(f"/proc/{child}").exists()


def test_a_service_that_cannot_start_ends_with_its_code(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        in_use = str(server.getsockname()[1])
        for options, code, error in [
            (("--port", in_use), 2, f"--port: got {in_use}, expected a port that is free"),
            (("--port", "0", "--tiers", "absent.toml"), 2, "expected a TOML file of tiers"),
            (("--port", "0", "--keys", "absent.json"), 1, "there is no key file absent.json"),
        ]:
            with started(folder, *served(folder, *options)) as process:
                assert process.wait(60) == code
            lines = (folder / "log").read_text().splitlines()
            assert [error in line for line in lines] == [True]


def test_each_crash_is_logged_and_several_in_a_row_wait_longer(tmp_path: Path) -> None:
    crash = """
import os, pathlib, signal
starts = pathlib.Path("starts")
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
for number in [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS][len(starts.read_text()) - 1 :][:1]:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
raise SystemExit(7)
"""
    began = time.monotonic()
    with started(tmp_path, "-c", SUPERVISED, sys.executable, "-c", crash) as process:
        assert process.wait(60) == 7
    assert time.monotonic() - began > 3
    assert (tmp_path / "starts").read_text() == "xxxx"
    assert (tmp_path / "log").read_text().splitlines() == [
        "error: SIGSEGV ended the service; it starts again in 0 s",
        "error: SIGABRT ended the service; it starts again in 1 s",
        "error: SIGBUS ended the service; it starts again in 2 s",
    ]


def test_a_signal_without_a_name_is_a_crash(tmp_path: Path) -> None:
    crash = (
        "import os, pathlib; up = pathlib.Path('up'); up.exists() or (up.touch(), os.kill(os.getpid(), 35))"
    )
    with started(tmp_path, "-c", SUPERVISED, sys.executable, "-c", crash) as process:
        assert process.wait(30) == 0
    assert (tmp_path / "log").read_text() == "error: signal 35 ended the service; it starts again in 0 s\n"


def test_it_starts_again_when_nobody_reads_its_errors(tmp_path: Path) -> None:
    crash = "import os, pathlib; up = pathlib.Path('up'); up.exists() and exit(7); up.touch(); os.abort()"
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISED, sys.executable, "-c", crash], cwd=tmp_path, stderr=writing
    ) as process:
        os.close(writing)
        assert process.wait(30) == 7


def test_modules_of_the_current_folder_stay_out(folder: Path) -> None:
    (folder / "polars.py").write_text("raise SystemExit(7)")
    script = "import sys; sys.path.remove(''); from tidytape.cli import main; main()"
    words = served(folder, "--port", "0")[2:]
    with started(folder, "-c", script, *words) as process:
        until(lambda: address(folder), process, folder)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_it_ends_at_once_while_it_waits_to_start_again(tmp_path: Path) -> None:
    crash = "import os; os.abort()"
    with started(tmp_path, "-c", SUPERVISED, sys.executable, "-c", crash) as process:
        until(lambda: "again in 4 s" in (tmp_path / "log").read_text(), process, tmp_path)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
        assert time.monotonic() - began < 3


def test_a_child_that_a_passed_on_signal_ends_is_no_crash(tmp_path: Path) -> None:
    child = "import pathlib, time; pathlib.Path('up').touch(); time.sleep(60)"
    with started(tmp_path, "-c", SUPERVISED, sys.executable, "-c", child) as process:
        until((tmp_path / "up").exists, process, tmp_path)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert (tmp_path / "log").read_text() == ""
