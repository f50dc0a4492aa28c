"""``tidytape serve`` in processes of its own, as an operator runs replicas of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from redis_server import RedisServer
from served import served
from tidytape.service import KeyFile, tiers_of

pytestmark = pytest.mark.slow

# One token flows in per minute: what is counted does not depend on how long a test takes.
TIERS = '[fixed]\nper_minute = 1\nburst = 100\ntypes = "enterprise"\n'


def test_replicas_that_share_redis_spend_a_budget_once(
    lake: Path, tmp_path: Path, fragile_redis: RedisServer, window: Any
) -> None:
    tiers = tmp_path / "tiers.toml"
    tiers.write_text(TIERS)
    key, secret = KeyFile(tmp_path / "keys.json", tiers=tiers_of(tiers)).new("fixed")
    words = (
        "--lake",
        lake,
        "--keys",
        tmp_path / "keys.json",
        "--tiers",
        tiers,
        "--workers",
        1,
        "--waiting",
        200,
        "--waiting-of-key",
        200,
    )

    async def ask(addresses: list[str]) -> list[httpx.Response]:
        async with httpx.AsyncClient(headers={"X-Service-Key": secret}, timeout=60) as client:
            return await asyncio.gather(
                *(client.get(f"{addresses[n % 2]}/v1/points", params=window()) for n in range(200))
            )

    logs = [tmp_path / name for name in ("one.log", "two.log")]
    with ExitStack() as both:
        addresses = [
            both.enter_context(served(log, *words, TIDYTAPE_BUCKETS=fragile_redis.url)) for log in logs
        ]
        statuses = [one.status_code for one in asyncio.run(ask(addresses))]
    assert (statuses.count(200), statuses.count(429)) == (100, 100)
    for log in logs:
        told = log.read_text()
        assert f'"key":"{key.id}"' in told
        assert secret not in told
        assert "hunter2" not in told


def test_an_address_that_is_none_is_one_line_without_its_password(tmp_path: Path, lake: Path) -> None:
    KeyFile(tmp_path / "keys.json").new("basic")
    words = ["serve", "--lake", str(lake), "--keys", str(tmp_path / "keys.json")]
    said = subprocess.run(
        [sys.executable, "-c", "from tidytape.cli import main; main()", *words],
        env=os.environ | {"TIDYTAPE_BUCKETS": "redis://:hunter2@host:port/0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 2
    assert said.stderr.startswith("error: --buckets: got")
    assert len(said.stderr.splitlines()) == 1
    assert "hunter2" not in said.stderr + said.stdout
