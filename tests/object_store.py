"""An object store on this machine, for tests: moto's S3 in a process of its own.

Of its own, because delta-rs waits for a store while it holds the interpreter: a server in the same process would never
get to answer.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest

KEY, SECRET = "testing-key-id", "testing-secret-key"

_SERVE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def served() -> Iterator[str]:
    """Serve an empty store; yields its address."""
    # It ends when its input does, so also when the tests are killed.
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.terminate()


def settings(address: str) -> dict[str, str]:
    """The settings under which everyone finds the store."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def client(address: str):
    """A client of the store."""
    return boto3.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )


def emptied(address: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Return the name of an empty bucket, with the settings for it in the environment and no other."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
    for name, value in settings(address).items():
        monkeypatch.setenv(name, value)
    bucket = f"bucket-{time.time_ns()}"
    client(address).create_bucket(Bucket=bucket)
    return bucket
