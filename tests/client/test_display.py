"""What a plan, a query and a fetch look like: one line, times as people write them; a table in a notebook."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

import tidytape
from tidytape.client._display import described, facts_table, lasting, spans
from tidytape.client._metadata import Metadata
from tidytape.client._plans import Plan, PlanPart
from tidytape.errors import ServerError
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery

QUERY = PointsQuery(
    type="TRADE_AGG", exchange=["X", "Y"], coin="BTC", interval="1m", start=0, end=600, group_by="sum"
)
WEEK = {"exchange": "DEMO_SPOT", "coin": "BTC", "start": "2024-08-01", "end": "2024-08-08"}


def told(rows: int, **more: object) -> Metadata:
    frame = pl.DataFrame({"close": range(rows)})
    facts = {
        "query": QUERY, "start": 0, "end": 86_400, "requests": 2, "weight": 3, "cached": (), "missing": (),
        "failures": (), "at": datetime(2024, 8, 8, 12, tzinfo=UTC), "_frame": frame,
    }  # fmt: skip
    return Metadata(**(facts | more))  # type: ignore[arg-type]


def test_what_is_wanted_is_one_line() -> None:
    with tidytape.Client("https://service", "k") as client:
        asked = client.query.book_heatmap(interval="1m", **WEEK)  # type: ignore[arg-type]
    assert repr(asked) == (
        "<FetchQuery BLOCK_BOOK_SNAPSHOT_AGG exchange=DEMO_SPOT coin=BTC interval=1m, "
        "2024-08-01T00:00:00Z to 2024-08-08T00:00:00Z: 3 requests, weight 110>"
    )
    assert "<td style='text-align:left'>3 requests, weight 110</td>" in asked._repr_html_()


def test_metadata_is_one_line() -> None:
    assert repr(told(2)) == (
        "<Metadata TRADE_AGG exchange=X,Y coin=BTC interval=1m group_by=sum, 1970-01-01T00:00:00Z to "
        f"1970-01-02T00:00:00Z: 2 rows, 2 requests, weight 3, hash {told(2).hash[:12]}>"
    )
    partial = told(2, cached=((0, 60), (120, 180)), missing=((60, 120),), failures=(ServerError("<b>"),) * 2)
    assert "from the cache 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z and 1 more, missing 1970" in repr(
        partial
    )
    shown = partial._repr_html_()
    assert "1970-01-01T00:01:00Z to 1970-01-01T00:02:00Z" in shown
    assert shown.count("&lt;b&gt;") == 1
    assert partial.hash in shown


def test_a_table_of_facts_writes_out_controls_of_direction() -> None:
    shown = facts_table("Plan", {"query": "a\u202eb<i>"})
    assert r"a\u202eb&lt;i&gt;" in shown
    assert "\u202e" not in shown


def test_the_hash_of_a_huge_frame_is_made_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = told(200_000)
    assert "hash" not in repr(huge)
    assert "on demand, of 200,000 rows" in huge._repr_html_()
    assert f"hash {huge.hash[:12]}" in repr(huge)  # asked for once, it is shown


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["polars", "pandas"])
def test_a_fetch_shows_what_it_was_and_its_frame(backend: str) -> None:
    with tidytape.Client.demo(backend=backend) as client:  # type: ignore[call-overload]
        day = client.fetch(client.query.candles(interval="1d", **WEEK))
    assert repr(day).startswith(
        "<Fetched <Metadata TRADE_SIDE_AGNOSTIC_AGG exchange=DEMO_SPOT coin=BTC interval=1d, "
    )
    assert repr(day).endswith(repr(day.frame))
    assert day._repr_html_().endswith(day.frame._repr_html_())
    assert "2024-08-01T00:00:00Z to 2024-08-08T00:00:00Z" in day._repr_html_()


def test_spans_are_told_as_times_too() -> None:
    partial = told(2, cached=((0, 60),), missing=((60, 120),))
    minutes = [datetime(1970, 1, 1, 0, minute, tzinfo=UTC) for minute in range(3)]
    assert partial.cached_times == ((minutes[0], minutes[1]),)
    assert partial.missing_times == ((minutes[1], minutes[2]),)


def test_a_plan_says_what_it_asks_again_what_it_lacks_and_what_is_to_come() -> None:
    kept = PlanPart(QUERY, 0, 600, (QUERY.model_copy(update={"start": 60}),), ((0, 60), (120, 180)), ahead=3)
    assert str(kept) == (
        "1 request, weight 2 (at most 10), weight 3 of it for a time more than a day ahead of now, 1 span from the "
        "cache, 1 span of the cache asked for again, which costs no more"
    )
    plan = Plan((kept,), None)
    assert ", the budget is not known, " in str(plan)
    assert plan.ahead == 3
    assert "from the cache: 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z, 1970" in plan._repr_html_()
    assert str(PlanPart(QUERY, 0, 600, (), (), lacking=((0, 600),))) == (
        "0 requests, weight 0, offline, and the cache lacks 1970-01-01T00:00:00Z to 1970-01-01T00:10:00Z"
    )


def test_lists_are_described_too() -> None:
    asked = MetaQuery(type="TRADE_AGG", start=0, end=60)
    assert described(asked.to_params()) == "TRADE_AGG, from 1970-01-01T00:00:00Z, until 1970-01-01T00:01:00Z"
    assert described(MarketsQuery(coin="BTC").to_params()) == "coin=BTC"


def test_spans_and_times_are_written_for_people() -> None:
    assert spans([(60 * n, 60 * n + 1) for n in range(9)]).endswith("1970-01-01T00:02:01Z and 6 more")
    assert [lasting(seconds) for seconds in (59.6, 119, 120, 3_599, 3_600, 100 * 86_400)] == [
        "60 s", "119 s", "2 min 0 s", "59 min 59 s", "1:00 h", "100 days, 0:00 h",
    ]  # fmt: skip
