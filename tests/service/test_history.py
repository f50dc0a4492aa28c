"""Whether the keys of a service see anything of what it serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingested import ingest
from lakes import empty_lake
from tidytape.budget import TIERS
from tidytape.lake import Lake
from tidytape.service import Key, hashed
from tidytape.service.answer._inventory import out_of_history

DAY = 86_400
NEWEST = 1_700_000_000  # 2023-11-14T22:13:20Z
MIDNIGHT = NEWEST // DAY * DAY


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("history")
    path, lake = folder / "a.csv", empty_lake(folder / "lake")
    path.write_text(f"timestamp,price,amount,side\n1500000000,1,2,buy\n{NEWEST},1,2,sell\n")
    ingest(path, lake, layout="csv", exchange="X", raw_symbol="BTC-USD")
    return lake


def key(tier: str, *, expires: int | None = None) -> Key:
    return Key(tier, hashed(tier), tier, created=0, expires=expires)


@pytest.mark.slow
def test_a_tier_that_sees_nothing_is_told_with_those_that_do(lake: Lake) -> None:
    every = [key(name) for name in (*TIERS, "Basic")]
    now = MIDNIGHT + 91 * DAY
    (told,) = out_of_history(lake, every, TIERS, now=now)
    assert told == (
        "the newest data is of 2023-11-14T22:13:20Z, and keys of tier basic have the last 90 days: whatever they ask "
        "of it is refused; 'tidytape keys new --tier advanced' makes a key that reaches it, and a file of tiers "
        "(--tiers) sets how far back a tier has"
    )
    assert out_of_history(lake, [key("enterprise")], TIERS, now=now) == ()
    assert out_of_history(lake, [key("basic", expires=now)], TIERS, now=now) == ()
    assert len(out_of_history(lake, every, TIERS, now=MIDNIGHT + 400 * DAY)) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("days", "told"), [(90, 0), (91, 1)])
def test_it_is_told_on_the_day_on_which_the_service_begins_to_refuse(
    lake: Lake, days: int, told: int
) -> None:
    now = MIDNIGHT + days * DAY
    assert len(out_of_history(lake, [key("basic")], TIERS, now=now)) == told
    first = TIERS["basic"].history_start(now=now)
    assert first is not None
    assert (first > NEWEST) == bool(told)


@pytest.mark.slow
def test_where_no_tier_is_deep_enough_that_is_told(lake: Lake) -> None:
    tiers = {"basic": TIERS["basic"]}
    (told,) = out_of_history(lake, [key("basic")], tiers, now=NEWEST + 1000 * DAY)
    assert "is refused; a file of tiers (--tiers) sets" in told


@pytest.mark.slow
def test_a_lake_without_data_has_nothing_too_old(tmp_path: Path) -> None:
    lake = empty_lake(tmp_path / "lake")
    assert out_of_history(lake, [key("basic")], TIERS, now=NEWEST) == ()
