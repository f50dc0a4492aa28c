"""A lake in an object store: a small S3 of this machine stands for it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from tidytape.lake import Lake


@pytest.fixture
def store(tmp_path: Path):
    """Storage options of an S3 with one bucket, ``bucket``."""
    pytest.importorskip("moto.server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Another process: delta-rs would wait for a thread of this one, which waits for it.
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(
                    urllib.request.Request(f"{url}/bucket", method="PUT"), timeout=5
                ).close()
                break
            except OSError:
                time.sleep(0.1)
        yield {
            "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag",
        }  # fmt: skip
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow
def test_what_was_appended_is_read(store, tape):
    lake = Lake.create("s3://bucket/lake", storage_options=store)
    wanted = tape(0, 5000, exchange="X Y", raw_symbol="ETH/USDT:%é")
    lake.append("trades", wanted[:3000], source="a")
    assert lake.append("trades", wanted[2000:], source="b").rows_new == 2000
    again = Lake("s3://bucket/lake", storage_options=store)
    got = again.scan("trades", exchange="X Y", raw_symbol="ETH/USDT:%é").collect()
    assert_frame_equal(got.sort("sequence"), wanted)
