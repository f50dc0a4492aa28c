"""What a tier may ask for, and tiers from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakes import empty_lake
from tidytape.budget import TIERS, Tier
from tidytape.catalogue import TierName
from tidytape.errors import QueryError
from tidytape.service import KeyFile, create_app, tiers_of

DAY = 86_400
T0 = 1_723_161_600
TODAY = T0 + 30 * DAY  # of the clock of the service


@pytest.mark.parametrize(
    ("key", "start", "status"),
    [
        ("basic-key", TODAY - 90 * DAY, 200),
        ("basic-key", TODAY - 90 * DAY - 60, 403),
        ("advanced-key", TODAY - 365 * DAY, 200),
        ("advanced-key", TODAY - 365 * DAY - 60, 403),
        ("enterprise-key", 0, 200),
    ],
)
def test_history_is_as_deep_as_the_tier(service: Any, window: Any, key: str, start: int, status: int) -> None:
    answer = service.get("/v1/points", params=window(**{"from": start, "period": 60}), key=key)
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["error"] == "HISTORY_NOT_PERMITTED"
        assert answer.headers["X-RateLimit-Used"] == "0"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tiers.toml"
    path.write_text(text)
    return path


def test_without_a_file_the_tiers_are_the_contracts() -> None:
    assert tiers_of(None) is TIERS


def test_tiers_of_a_file(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        [Student]
        per_minute = 20
        [desk]
        per_minute = 5000
        burst = 7000
        history_days = 10
        aggregation = true
        types = "enterprise"
        """,
    )
    assert tiers_of(path) == {
        "student": Tier("student", 20, 40, None, aggregation=False, rank=TierName.BASIC),
        "desk": Tier("desk", 5000, 7000, 10, aggregation=True, rank=TierName.ENTERPRISE),
    }
    keys = KeyFile(tmp_path / "keys.json", tiers=tiers_of(path))
    assert keys.new("student")[0].tier == "student"
    with pytest.raises(QueryError, match="student"):
        keys.new("basic")
    create_app(empty_lake(tmp_path / "lake"), keys, tiers=tiers_of(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one tier"),
        ("per_minute = 5", "a table"),
        ("[a]\nper_minut = 5", "did you mean 'per_minute'"),
        ("[a]\nburst = 5", "per_minute"),
        ("[a]\nper_minute = 0", "from 1"),
        ("[a]\nper_minute = 50_000_001", r"a\.per_minute: .* to 50000000"),
        ("[a]\nper_minute = 50_000_001\nburst = 100_000_001", r"a\.burst: .* to 100000000"),
        ("[a]\nper_minute = true", "whole number"),
        ("[a]\nper_minute = 1\naggregation = 1", "true or false"),
        ('[a]\nper_minute = 1\ntypes = "some"', r"BASIC \(basic\), ADVANCED"),
        (
            "[a]\nper_minute = 1\n[A]\nper_minute = 2",
            "got 'a, A', expected names that differ in more than capitals",
        ),
        ("[a\n", "TOML"),
    ],
)
def test_what_is_no_tier_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        tiers_of(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="TOML file"):
        tiers_of(tmp_path / "none.toml")


def test_the_guide_tells_the_contracts_tiers() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "serve.md").read_text("utf-8")
    for tier in TIERS.values():
        history = "all" if tier.history_days is None else f"{tier.history_days} days"
        types = "all" if tier.rank is list(TierName)[-1] else f"those of `{tier.rank.alias}`"
        joins = "yes" if tier.aggregation else "no"
        sizes = f"{tier.per_minute:,} | {tier.burst:,}"
        row = f"| `{tier.name}` | {history} | {sizes} | {joins} | {types} | {tier.streams} |"
        assert row in guide.splitlines(), row


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[a]\nper_minute = 5\nx = " + "[" * 5000 + "]" * 5000, 3),
        ("[a]\r\nx = " + "{b = " * 5000 + "1" + "}" * 5000 + "\r\n[b]\r\nper_minute = 5", 2),
        ("[a]\n# [[[[\nx = '[[['\ny = [\n" + "[" * 5000, 5),
    ],
)
def test_brackets_too_deep_are_an_error_with_their_line(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(
        QueryError, match=f"a TOML file of tiers: line {line} has brackets within too many others$"
    ):
        tiers_of(written(tmp_path, text))
