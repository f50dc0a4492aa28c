"""The heartbeats of followed logs: small files in the lake, which say that a follower lives and how far it is."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import polars as pl
import pyarrow.fs
import pyarrow.parquet as pq

from tidytape.lake._parquet import filesystem
from tidytape.lake._reader import LakeReader

_FOLDER = "recorders"
_TIME = pl.Datetime("us", "UTC")
HEARTBEAT: Mapping[str, pl.DataType] = MappingProxyType(
    {
        "log": pl.String(),
        "host": pl.String(),
        "beat": _TIME,
        "last_line": _TIME,
        "lag": pl.Float64(),
        "lines": pl.Int64(),
        "rows": pl.Int64(),
        "bad_lines": pl.Int64(),
        "missing": pl.Int64(),
    }
)
"""The columns of `recorders`."""


def beat(lake: LakeReader, log: str, facts: Mapping[str, Any] | None) -> None:
    """Write the heartbeat of a followed log, or delete it if there are no facts: its follower ended as it should.

    A heartbeat that cannot be written grows old, which is what it is for.
    """
    host = socket.gethostname()
    path = f"{_FOLDER}/{hashlib.sha256(f'{host}:{log}'.encode()).hexdigest()[:16]}.parquet"
    store = filesystem(lake.path, lake.storage_options)
    with suppress(OSError):
        if facts is None:
            store.delete_file(path)
        else:
            heartbeat = pl.DataFrame([{"log": log, "host": host, **facts}], schema=HEARTBEAT)
            pq.write_table(heartbeat.to_arrow(), path, filesystem=store)


def recorders(lake: LakeReader) -> pl.DataFrame:
    """Return the heartbeats of the logs that are followed into a lake, or that were until their follower died.

    A follower writes one every five seconds, and deletes it when it is stopped.

    Parameters
    ----------
    lake : LakeReader
        The lake to read.

    Returns
    -------
    polars.DataFrame, one row per followed path, sorted by log
        - ``log``, ``host`` : path of the log, and the machine of its follower
        - ``beat`` : time of the heartbeat; if it is old, the follower hangs or was killed [UTC, us]
        - ``last_line`` : when the follower last found new text in the log, null if it never did [UTC, us]
        - ``lag`` : how long the lake has lacked lines of the log that the follower has read [s]
        - ``lines``, ``rows``, ``bad_lines`` : int64, how many lines it put in since it began, rows of them that were
          new, and broken lines that it left out
        - ``missing`` : int64, how often lines could not be found, see `tidytape.lake.record.follow`

    Raises
    ------
    OSError
        If the lake cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake import Lake
    >>> recorders(Lake.create(tempfile.mkdtemp())).height
    0
    """
    store = filesystem(lake.path, lake.storage_options)
    entries = store.get_file_info(pyarrow.fs.FileSelector(_FOLDER, allow_not_found=True))
    files = [store.open_input_file(entry.path) for entry in entries if entry.base_name.endswith(".parquet")]
    heartbeats = [pl.DataFrame(pq.read_table(file)) for file in files]
    return pl.concat([pl.DataFrame(schema=HEARTBEAT), *heartbeats]).sort("log", "host")
