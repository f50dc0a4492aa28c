"""spec.md, "Authentication". silences.md: the refusals, and "Keys" under "Weight, tiers, limits"."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from conformance.lake import NOW
from tables import each_row
from tidytape.service import KeyFile

PATHS = ["/v1/points", "/v1/markets", "/v1/usage", "/v1/coins", "/v1/symbols", "/v1/normalized-symbols",
         "/v1/block-sizes", "/v1/tenors", "/v1/types", "/v1/exchanges", "/v1/categories", "/v1/nothing"]  # fmt: skip


@each_row("path", PATHS)
@each_row("key", [None, "", "guess", "expired"])
def test_1_every_request_is_authenticated(service: Any, path: str, key: str | None) -> None:
    response = service.get(path, key=key)
    assert (response.status_code, response.json()["error"]) == (401, "INVALID_API_KEY")
    assert set(response.json()) == {"error", "message"}


def test_1_the_key_is_in_the_header_x_service_key(service: Any) -> None:
    assert service.get("/v1/usage", key="enterprise").status_code == 200
    assert service.get("/v1/usage", key=None, key_="enterprise").status_code == 401


def test_1_the_key_is_not_repeated_in_the_answer(service: Any) -> None:
    response = service.get("/v1/usage", key="guess-of-a-key")
    assert "guess-of-a-key" not in response.text


@pytest.mark.parametrize(("tier", "limit"), [("basic", 100), ("advanced", 750), ("enterprise", 750)])
def test_2_the_tier_determines_the_budget(service: Any, tier: str, limit: int) -> None:
    assert service.get("/v1/usage", key=tier).json()["limit"] == limit


def test_a_key_works_until_it_expires(service: Any) -> None:
    service.clock.move(-1)
    assert service.get("/v1/usage", key="expired").status_code == 200
    service.clock.move(1)
    assert service.clock.now_ns == NOW * 10**9
    assert service.get("/v1/usage", key="expired").status_code == 401


def test_silences_a_key_is_32_random_bytes_stored_as_sha_256(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    key, secret = KeyFile(path).new("basic")
    _, other = KeyFile(path).new("basic")
    assert len(base64.urlsafe_b64decode(secret + "=")) == 32
    assert secret != other
    stored = json.loads(path.read_text())
    assert stored[0]["sha256"] == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in path.read_text()
    assert (stored[0]["id"], stored[0]["tier"], stored[0]["expires"]) == (key.id, "basic", None)


def test_silences_a_key_has_a_tier_and_an_optional_expiry(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key, secret = file.new("advanced", expires=4_000_000_000)
    assert (key.tier, key.expires) == ("advanced", 4_000_000_000)
    assert file.find(secret, now=3_999_999_999) == key
    assert file.find(secret, now=4_000_000_000) is None
