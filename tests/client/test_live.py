"""A live frame has the newest value of each point, whatever came before it."""

from __future__ import annotations

import gc
import threading
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidytape
from client.stream_service import (
    FOREVER,
    KINDS,
    LINES,
    QUERY,
    TYPE,
    Streaming,
    answer,
    line,
    make,
    refusal,
    resuming,
)
from tables import each_row
from tidytape.catalogue import Change
from tidytape.errors import DecodeError, QueryError, StreamGapError
from tidytape.schema import schema_of

both = pytest.mark.parametrize("kind", KINDS)
DAY: dict[str, Any] = {
    "exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT", "start": "2024-08-08T20:00Z", "end": "2024-08-08T22:00Z",
}  # fmt: skip


@pytest.fixture(scope="module")
def demo() -> Any:
    with tidytape.Client.demo() as client:
        yield client


def closes(frame: pl.DataFrame) -> list[tuple[int, float]]:
    return list(frame.select(pl.col("timestamp").dt.epoch("s"), "close").iter_rows())


def whole(kind: str, lines: list[bytes], keep: Any = "1d", **options: Any) -> Any:
    """A live frame after its stream has ended."""
    live = make(kind, resuming(lines), **options).live(TYPE, **QUERY, keep=keep)
    live.wait(lambda: not live.is_running, timeout=20)
    assert live.error is None
    return live


@both
def test_an_update_is_replaced_by_the_final_point_and_that_by_a_revision(kind: str) -> None:
    live = whole(kind, LINES)
    assert closes(live.frame) == [(0, 1.1), (60, 2.0), (120, 1.7)]
    assert live.frame.schema == schema_of(TYPE).empty().schema
    assert live.frame["is_final"].all()
    assert (live.batches, live.is_running, live.gaps) == (3, False, ())
    assert live.over[TYPE].timestamp() == 120
    assert "3 rows, ended" in repr(live)


def test_a_live_frame_is_of_the_kind_of_the_client() -> None:
    assert type(whole("sync", LINES, backend="pandas").frame).__module__.startswith("pandas")


@pytest.mark.slow
@given(
    batches=st.lists(
        st.dictionaries(
            st.sampled_from([change.value for change in Change]),
            st.lists(st.integers(0, 20), min_size=1, max_size=5, unique=True),
            max_size=3,
        ),
        max_size=8,
    ),
    keep=st.one_of(st.integers(1, 30), st.sampled_from(["1m", "5m", "1d"])),
)
@settings(deadline=None, max_examples=40)
def test_it_is_what_a_plain_loop_keeps(batches: list[dict[str, list[int]]], keep: int | str) -> None:
    lines, newest = [], {}
    for number, batch in enumerate(batches):
        points = {
            change: [(60 * one, float(number)) for one in sorted(set(batch[change]))] for change in batch
        }
        lines.append(line(f"t{number}", **points))
        for change in Change:  # a batch has revisions first, then finals and updates
            newest.update(points.get(change.value, []))
    expected = sorted(newest.items())
    if isinstance(keep, int):
        expected = expected[-keep:]
    elif expected:
        length = {"1m": 60, "5m": 300, "1d": 86_400}[keep]
        expected = [(second, close) for second, close in expected if second > expected[-1][0] - length]
    live = whole("sync", [*lines, LINES[-1]], keep)
    assert closes(live.frame) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["VOLUME_PROFILE_AGG", "TPO_AGG", "BLOCK_BOOK_SNAPSHOT_AGG", "TRADE_AGG", "TRADE"]
)
def test_a_point_with_levels_is_replaced_as_a_whole(name: str, demo: Any) -> None:
    hours = {**DAY, "interval": None if name == "TRADE" else "1h"}
    live = demo.live(name, **hours, keep="2d")
    live.wait(lambda: not live.is_running, timeout=60)
    streamed = pl.concat([batch.frame for batch in demo.stream(name, **hours)])
    assert live.frame.height == streamed.height > 0
    # A point that comes again with its first level alone has no other level afterwards.
    first = streamed.head(1)
    live._state.frames[name].add(first)
    same = [pl.col(key) == first[key][0] for key in ("exchange", "raw_symbol", "timestamp")]
    before, after = streamed.filter(same).height, live.frame.filter(same).height
    assert after == (before if "price" not in schema_of(name).key else 1)


@both
def test_waiting_ends_with_a_batch_a_condition_or_the_time(kind: str) -> None:
    live = make(kind, Streaming(answer(LINES[0], FOREVER))).live(TYPE, **QUERY)
    assert live.wait(lambda: live.batches == 1, timeout=20)
    assert not live.wait(timeout=0.05)
    assert not live.wait(lambda: live.frame.height > 3, timeout=0.05)
    assert live.is_running
    live.stop()
    assert not live.wait(timeout=20)
    assert not live.is_running
    assert live.frame.height == 3


@both
def test_what_ended_the_stream_is_kept_and_raised(kind: str) -> None:
    live = make(kind, Streaming(answer(LINES[0], b"garbage\n"))).live(TYPE, **QUERY)
    with pytest.raises(DecodeError):
        live.wait(lambda: False, timeout=20)
    assert isinstance(live.error, DecodeError)
    assert "failed" in repr(live)
    with pytest.raises(DecodeError), live:
        pass
    with pytest.raises(KeyError), live:  # what the caller raises is not hidden
        raise KeyError


@pytest.mark.slow
def test_a_gap_is_an_error_or_noted() -> None:
    anew = [line("u0", final=[(120, 1.7)], over=120), LINES[-1]]
    for on_gap in ("raise", "restart"):
        service = Streaming(answer(LINES[0]), refusal(410, "TOKEN_EXPIRED"), answer(*anew))
        live = make("sync", service).live(TYPE, **QUERY, on_gap=on_gap)
        try:
            live.wait(lambda live=live: not live.is_running, timeout=20)  # type: ignore[misc]
        except StreamGapError:
            assert on_gap == "raise"
        else:
            assert closes(live.frame) == [(0, 1.0), (60, 2.0), (120, 1.7)]
            assert [gap[1].timestamp() for gap in live.gaps] == [120]


@pytest.mark.slow
def test_a_live_frame_that_is_forgotten_ends_its_stream() -> None:
    given = answer(LINES[0], FOREVER)
    body: Any = given.stream
    live = make("sync", Streaming(given)).live(TYPE, **QUERY)
    while not live.batches:
        live.wait(timeout=0.1)
    del live
    gc.collect()
    assert body.closed.wait(20)


def test_several_types_have_frames_of_their_own() -> None:
    live = make("sync", resuming(LINES)).live([TYPE, "TRADE_AGG"], **QUERY)
    live.wait(lambda: not live.is_running, timeout=20)
    assert {name: frame.height for name, frame in live.frames.items()} == {TYPE: 3, "TRADE_AGG": 0}
    with pytest.raises(QueryError, match=r"live\.frames"):
        _ = live.frame


@each_row("keep", [0, -1, "1x", "", True, None, 1.5])
def test_what_cannot_be_kept_is_refused(keep: Any) -> None:
    with pytest.raises(QueryError) as refused:
        make("sync", Streaming(answer())).live(TYPE, **QUERY, keep=keep)
    assert refused.value.parameter == "keep"
    assert not [one for one in threading.enumerate() if one.name == "tidytape-live"]


# --- the service in this process -------------------------------------------------------------------------------------


@both
@pytest.mark.slow
def test_streams_of_the_service_in_this_process_are_read_while_they_go_on(kind: str) -> None:
    client = (tidytape.Client if kind == "sync" else tidytape.AsyncClient).demo()
    live = client.live(TYPE, interval="1m", **{**DAY, "end": None})
    assert live.wait(lambda: live.batches > 0, timeout=30)
    assert live.is_running
    live.stop()
    live.wait(lambda: not live.is_running, timeout=30)
    assert live.frame.height > 200
