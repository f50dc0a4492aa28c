"""spec.md knows no minutes that are kept: what a client gets is the same with and without, of every type."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import BY_TYPE, FUNDING_GROUP, GROUP, of
from conformance.lake import DAY, HOUR, T0
from tidytape.lake import Lake

ASKED = {name: of(name) for name in BY_TYPE} | {
    "a group of candles": GROUP,
    "a group of open interest": {**GROUP, "type": "OPEN_INTEREST_AGG"},
    "a group of funding": FUNDING_GROUP,
    "filled gaps": {"gapfill": "true"},
}


@pytest.mark.long
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_answers_are_the_same_of_a_lake_whose_minutes_are_kept(
    service: Any, rolled_lake: Lake, asked: dict[str, Any]
) -> None:
    before = service.points(**asked)
    service.lake = rolled_lake
    service.open()
    assert before.status_code == 200
    assert service.points(**asked).json() == before.json()


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True], ids=["no minutes", "minutes"])
@pytest.mark.parametrize("name", [name for name in BY_TYPE if name != "TRADE"])
def test_a_window_in_which_no_interval_starts_is_empty(
    service: Any, rolled_lake: Lake, name: str, *, kept: bool
) -> None:
    """A second after midnight no day starts for 24 hours; the next one is a day whose minutes are kept."""
    service.lake = rolled_lake if kept else service.lake
    service.open()
    answer = service.points(**of(name, interval="DAY", from_=T0 - DAY + 1, period=HOUR)).json()
    assert answer["series"] == []
    assert {note["code"] for note in answer["notes"]} == {"NOT_BEGUN"}
