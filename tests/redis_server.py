"""A Redis server on this machine, for tests: one that can be killed, frozen and started again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
import redis


class RedisServer:
    """A server on a free port of the loopback address, that keeps nothing on disk."""

    def __init__(self, folder: Path, *, password: str | None = None) -> None:
        found = shutil.which("redis-server")
        if found is None:
            pytest.skip("no redis-server on this machine")
        self._program = found
        self._folder = folder
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        user = f":{self._password}@" if self._password else ""
        return f"redis://{user}127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        """A plain client, to see what is stored."""
        return redis.Redis.from_url(self.url, protocol=2)

    def start(self) -> None:
        """Start it, and return when it answers."""
        words = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._folder), "--save", ""]
        if self._password:
            words += ["--requirepass", self._password]
        self._process = subprocess.Popen([self._program, *words], stdout=subprocess.DEVNULL)
        with self.client() as client:
            while self._process.poll() is None:
                with suppress(redis.ConnectionError):
                    client.ping()
                    return
                time.sleep(0.01)
        raise RuntimeError(f"redis-server ended with {self._process.returncode}")

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Let it take connections and answer nothing, until it is thawed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
