"""Messages of a recorded log, as small as they can be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RECEIVED = 1_723_161_253_000_000_000
"""When the first line was received. [ns]"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def make(*lines: str | bytes, name: str = "log", packed: bool = False, end: str = "\n") -> Path:
        data = b"".join((line if isinstance(line, bytes) else line.encode()) + end.encode() for line in lines)
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if packed else data)
        return path

    return make


class Log:
    """Lines of a log, one method per message."""

    def __init__(self) -> None:
        self.received = RECEIVED

    def line(self, message: Any) -> str:
        self.received += 1_000_000
        return f"{self.received} {json.dumps(message, separators=(',', ':'))}"

    def trade(self, number: int, **changes: Any) -> str:
        data = {
            "e": "trade", "E": 1_723_161_255_000 + number, "s": "BTCUSDT", "t": number, "p": "61837.63000000",
            "q": "0.02000000", "T": 1_723_161_255_000 + number, "m": True, "M": True,
        }  # fmt: skip
        data |= changes
        kept = {key: value for key, value in data.items() if value is not ...}
        return self.line({"stream": "btcusdt@trade", "data": kept})

    def update(self, first: int, last: int, bids: Any = (), asks: Any = (), **changes: Any) -> str:
        data = {
            "e": "depthUpdate", "E": 1_723_161_255_000 + last, "s": "BTCUSDT", "U": first, "u": last, "b": bids,
            "a": asks,
        }  # fmt: skip
        return self.line({"stream": "btcusdt@depth@100ms", "data": data | changes})

    def snapshot(self, last: int, bids: Any = (), asks: Any = (), **more: Any) -> str:
        return self.line({"lastUpdateId": last, **more, "bids": bids, "asks": asks})

    def ticker(self, symbol: str = "BTCUSDT") -> str:
        return self.line(
            {"stream": "btcusdt@bookTicker", "data": {"u": 1, "s": symbol, "b": "1", "B": "2", "a": "3"}}
        )


@pytest.fixture
def log() -> Log:
    return Log()
