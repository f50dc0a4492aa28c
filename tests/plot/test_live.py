"""A live frame is drawn anew when it has changed, and the last picture is of all of it."""

from __future__ import annotations

import time
from typing import Any

import matplotlib.pyplot as plt
import orjson
import pytest

from client.stream_service import FOREVER, LINES, QUERY, TYPE, Streaming, answer, make, resuming
from tidytape import plot
from tidytape.errors import DecodeError, QueryError

pytestmark = pytest.mark.usefixtures("small_times")  # times are small numbers of nanoseconds


def market(*parts: bytes, types: Any = TYPE) -> Any:
    service = Streaming(answer(*parts)) if parts else resuming(LINES)
    return make("sync", service).live(types, **QUERY)


@pytest.fixture(autouse=True)
def closed() -> Any:
    yield
    plt.close("all")


@pytest.mark.slow
def test_the_last_picture_is_of_the_whole_frame() -> None:
    source, frames = market(), []

    def draw(frame: Any, *, ax: Any) -> None:
        frames.append(frame)
        ax.plot(frame["timestamp"], frame["close"])

    ax = plot.live(source, draw, every=0.01)
    assert frames[-1].equals(source.frame)
    assert len(ax.lines) == 1
    assert list(ax.lines[0].get_ydata()) == [1.1, 2.0, 1.7]
    assert len(frames) <= source.batches + 1


@pytest.mark.slow
def test_candles_are_drawn_unless_something_else_is_asked_for() -> None:
    ax = plot.live(market(), every=0.01)
    assert ax.get_ylabel() == "Price [quote per coin]"
    with pytest.raises(QueryError, match="draw"):
        plot.live(market(types="OPEN_INTEREST_AGG"))
    with pytest.raises(QueryError, match="every"):
        plot.live(market(), every=0)


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "minutes"), [({}, 30), ({"tpo_block_minutes": 5}, 5)])
def test_a_market_profile_is_drawn_in_the_time_blocks_that_were_asked_for(asked: Any, minutes: int) -> None:
    levels = [{"price": price, "block_ids": blocks} for price, blocks in ((1.0, [0, 1]), (2.0, [1]))]
    point = {"Point": {"TpoAggregation": {"timestamp": {"s": 0}, "levels": levels}}}
    whose = {"type": "TPO_AGG", "exchange": "X", "rawSymbol": "BTC", "interval": "HOUR", "blockSize": 1.0}
    batch = {"final": [{"id": whose, "points": [point]}], "token": "a"}
    end = {"token": "b", "end": {"code": "PERIOD_OVER", "message": "so it is"}}
    service = resuming([orjson.dumps(line) + b"\n" for line in (batch, end)])
    ax = plot.live(make("sync", service).live("TPO_AGG", **QUERY | {"interval": "1h"} | asked), every=0.01)
    assert ax.get_xlabel().endswith(f"longest row: 2 × {minutes} min")


@pytest.mark.slow
def test_a_frame_that_is_empty_at_first_hides_nothing_of_later_pictures() -> None:
    source = market(b'{"token":"a","over":{"%b":{"s":0}}}\n' % TYPE.encode(), *LINES)
    empty = make("sync", Streaming(answer(FOREVER))).live(TYPE, **QUERY)
    ax = plot.live(empty, every=0.01, until=lambda: True)
    assert [text.get_text() for text in ax.texts] == ["no data yet"]
    empty.stop()
    plot.live(source, every=0.01, ax=ax)
    ax.figure.canvas.draw()
    assert ax.axison
    assert all(one.label1.get_visible() for one in ax.yaxis.get_major_ticks())


@pytest.mark.slow
def test_it_draws_on_the_axes_it_is_given_and_leaves_the_others() -> None:
    figure, (left, right) = plt.subplots(1, 2)
    right.plot([1, 2])
    assert plot.live(market(), every=0.01, ax=left) is left
    assert figure.axes == [left, right]
    assert len(right.lines) == 1


@pytest.mark.slow
def test_it_ends_when_something_is_so_or_with_ctrl_c_and_the_stream_goes_on() -> None:
    with market(LINES[0], FOREVER) as source:
        plot.live(source, every=0.01, until=lambda: source.batches > 0)

        def interrupted(frame: Any, *, ax: Any) -> None:
            raise KeyboardInterrupt

        plot.live(source, interrupted, every=0.01)
        assert source.is_running


@pytest.mark.slow
def test_what_ended_the_stream_is_raised() -> None:
    with pytest.raises(DecodeError):
        plot.live(market(LINES[0], b"garbage\n"), every=0.01)


@pytest.mark.slow
def test_a_notebook_replaces_the_picture_and_shows_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    IPython = pytest.importorskip("IPython.display")  # noqa: N806
    shown: list[str] = []

    class Handle:
        def update(self, figure: Any) -> None:
            shown.append("updated")

    def display(figure: Any, **options: Any) -> Handle:
        shown.append("displayed")
        return Handle()

    monkeypatch.setattr(IPython, "display", display)
    monkeypatch.setattr("matplotlib.get_backend", lambda: "module://matplotlib_inline.backend_inline")
    source = market()
    plot.live(source, every=0.05)
    assert shown[0] == "displayed"
    assert shown.count("displayed") == 1
    assert plt.get_fignums() == []


# --- as a widget ------------------------------------------------------------------------------------------------------


def settled(figure: Any) -> str:
    for _ in range(1_000):
        if figure.layout.title.text:
            break
        time.sleep(0.01)
    return str(figure.layout.title.text)


@pytest.mark.slow
def test_a_widget_has_the_newest_candles_and_says_how_the_stream_ended() -> None:
    pytest.importorskip("plotly")
    figure = plot.live_widget(market(), every=0.01)
    assert settled(figure) == "The stream ended"
    assert list(figure.data[0].close) == [1.1, 2.0, 1.7]
    assert len(figure.data) == 1
    figure = plot.live_widget(market(LINES[0], b"garbage\n"), every=0.01)
    assert settled(figure).startswith("Ended by an error: the body is not JSON")


def test_a_widget_is_updated_as_the_caller_says() -> None:
    pytest.importorskip("plotly")

    def update(figure: Any, frame: Any) -> None:
        if not figure.data:
            figure.add_scatter()
        figure.data[0].y = frame["close"].to_list()

    figure = plot.live_widget(market(), update, every=0.01)
    assert settled(figure) == "The stream ended"
    assert list(figure.data[0].y) == [1.1, 2.0, 1.7]
    with pytest.raises(QueryError, match="update"):
        plot.live_widget(market(types="OPEN_INTEREST_AGG"))
