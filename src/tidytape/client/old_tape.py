"""Tapes of releases before 0.1: one file, a line of JSON per answer, the answer in the line.

A line is ``{"sha256":"<of the bytes of the entry>","entry":{...}}``, and an entry holds the hash of the one before. Its
body is a frame as an Arrow stream, or JSON, compressed with zstd and in base 64.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from tidytape.client.tape import CONTENT, Line, framed

_MOST_PACKED = 100_000
"""No body is smaller than that part of what it was: whoever says so wants memory."""


def lines_of(path: Path) -> Iterator[Line]:
    """Give the lines of a tape, up to the first that is not as it was recorded."""
    before, offset = "", 0
    with path.open("rb") as file:
        for line in file:
            content = line[CONTENT]
            digest = hashlib.sha256(content).hexdigest()
            if line != framed(digest, content):
                yield None
                return
            entry = orjson.loads(content)
            entry.pop("body", None)
            follows = entry.get("before") == before
            yield (entry, partial(_body, path, offset, len(line))) if follows else None
            before, offset = digest, offset + len(line)


def _body(path: Path, offset: int, length: int) -> bytes:
    """Return the body of the entry of a line."""
    with path.open("rb") as file:
        file.seek(offset)
        entry: dict[str, Any] = orjson.loads(file.read(length)[CONTENT])
    try:
        packed, size = base64.b64decode(entry["body"]), int(entry["size"])
        if not 0 <= size <= len(packed) * _MOST_PACKED:
            raise ValueError(f"{len(packed)} bytes cannot become {size}")
        return bytes(pa.Codec("zstd").decompress(packed, decompressed_size=size, asbytes=True))
    except (KeyError, TypeError, pa.ArrowException, OSError, SystemError) as error:
        raise ValueError(str(error)) from None
