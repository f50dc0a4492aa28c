"""How long the parts of a stream are: none reads too many rows, and none is short in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tidytape.errors import QueryError
from tidytape.query import PointsQuery
from tidytape.service.answer._estimate import Estimate, Statistics
from tidytape.service.stream import _changes as changes

START, DAY = 1_723_161_600, 86_400
QUERY = PointsQuery(
    type="OPTION_OPEN_INTEREST_AGG", exchange="X", coin="BTC", interval="1m", start=START, end=START + 60
)


@pytest.mark.parametrize(
    ("rows_of", "length"),
    [
        (lambda seconds: seconds * 10, DAY),  # few rows
        (lambda seconds: seconds * 40, DAY // 4),  # a million rows at most
        (lambda seconds: 2_000_000 * seconds // 60, 120),  # an interval has more
        # Each part reads the day before: half a day more is no more than that.
        (lambda seconds: 1_400_000 + seconds * 20, DAY // 2),
        (lambda seconds: 1_400_000 + seconds, DAY),
    ],
    ids=["few", "many", "too many of an interval", "many beside a day before", "few beside a day before"],
)
def test_a_part_reads_a_million_rows_or_twice_what_an_interval_does(
    monkeypatch: pytest.MonkeyPatch, rows_of: Callable[[int], int], length: int
) -> None:
    def estimated(part: PointsQuery, *_: Any) -> Estimate:
        return Estimate(rows_of(part.end - part.start), 0)

    monkeypatch.setattr(changes, "estimated", estimated)
    assert changes._cut(QUERY, {}, cast(Statistics, None), START, START + DAY) == START + length


def test_an_interval_of_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "estimated", lambda *_: Estimate(20_000_001, 0))
    with pytest.raises(QueryError, match=r"about 20,000,001 rows to read .*, expected at most 20,000,000"):
        changes._cut(QUERY, {}, cast(Statistics, None), START, START + DAY)
