"""A live query on the page: its chart and rows grow with the lake, over cuts and restarts, and stay small."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import polars as pl
import pytest

from page_reader import IN_A_BROWSER, NS, Page, Served, assert_harmless, browser, requested, serving, until
from simulated import rollup_events as events
from stream_readers import registered, trades
from tidytape.budget import weight
from tidytape.errors import QueryError
from tidytape.lake import TABLES, Lake
from tidytape.query import PointsQuery, StreamQuery

pytestmark = IN_A_BROWSER

START = events.START
TOKENS = b"t" * 32
SYMBOL = "BTCUSDT"


class Market:
    """A lake with one market that trades when a test says so."""

    def __init__(self, path: Any) -> None:
        self.lake = Lake.create(path)
        self.count = 0
        registered(self.lake, SYMBOL)

    def trade(self, *rows: tuple[float, float]) -> None:
        """Append trades of (minutes since the start, price)."""
        listed = []
        for minute, price in rows:
            self.count += 1
            side = "BUY" if self.count % 2 else "SELL"
            listed.append((str(self.count), START + int(minute * 60 * NS), side, price, 1.5))
        self.lake.writer().append("trades", trades(listed, SYMBOL), source=str(self.count))


@pytest.fixture
def market(tmp_path: Any) -> Market:
    made = Market(tmp_path / "lake")
    made.trade(*((minute / 2, 100.0 + minute % 7) for minute in range(10)))  # five minutes
    return made


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser(tmp_path_factory.mktemp("chromium")) as made:
        yield made


@pytest.fixture
def served(market: Market) -> Iterator[Served]:
    with serving(market.lake, token_secret=TOKENS) as made:
        yield made


@pytest.fixture
def page(driver: Any, served: Served) -> Iterator[Page]:
    """The page with a query of minutes that is to be live."""
    opened = opened_page(driver, served)
    yield opened
    assert_harmless(opened)


def opened_page(driver: Any, served: Served) -> Page:
    opened = Page(driver, served.origin)
    opened.open()
    opened.enter()
    opened.choose("#interval", "MINUTE")
    opened.find("#live").click()
    until(opened.is_ready)
    opened.type("#from", "2024-08-09")
    return opened


def candles(page: Page) -> list[list[float]]:
    """What the chart draws."""
    drawn = "(chart.shown()?.rows() ?? [])"
    names = "start, open, high, low, close, volume"
    return list(page.js(f"return {drawn}.map(({{ {names} }}) => [{names}])"))


def history(served: Served) -> list[list[float]]:
    """What the service says of the same time when it is asked once."""
    window = f"type=TRADE_SIDE_AGNOSTIC_AGG&exchange=X&rawSymbol={SYMBOL}&interval=MINUTE"
    answer = served.ask(f"/v1/points?{window}&from={START // NS}&period=3600").json()
    points = [one["Point"] for one in answer["series"][0]["points"]]
    names = ("open", "high", "low", "close", "volume")
    return [[one["timestamp"]["s"], *(one[name] for name in names)] for one in points]


def changes(page: Page) -> dict[str, str]:
    """By minute how its point came last; the newest row is the first."""
    rows = [(row["timestamp"][11:16], row["change"]) for row in page.rows()]
    assert [minute for minute, _ in rows] == sorted({minute for minute, _ in rows}, reverse=True)
    return dict(rows)


def is_history(page: Page, served: Served) -> bool:
    return candles(page) == history(served)


# --- what is shown ---


def test_the_chart_grows_and_a_final_takes_the_place_of_its_update(
    page: Page, served: Served, market: Market
) -> None:
    told, before = page.weight(), served.used()
    page.send()
    until(lambda: is_history(page, served))
    assert told == 1
    assert page.text("#answer-status").startswith("Live since 20")
    assert "weight of the history 1, of what is live 0" in page.text("#answer-status")
    until(lambda: changes(page)["00:04"] == "update")
    assert set(list(changes(page).values())[1:]) == {"final"}

    asked = served.used()
    for minute in (4.6, 4.8, 5.1, 5.5, 6.2, 7.0):
        market.trade((minute, 110.0 + minute))
        newest = f"00:0{int(minute)}"
        until(lambda: changes(page).get(newest) == "update")  # noqa: B023 - called at once
        until(lambda: is_history(page, served))
    assert set(list(changes(page).values())[1:]) == {"final"}
    assert len(candles(page)) == 8
    market.trade((2.9, 140.0))  # late
    until(lambda: changes(page)["00:02"] == "revision")
    until(lambda: is_history(page, served))
    assert "8 candles of 1 minute" in page.text("#caption")
    figures = page.text("#live-figures")
    assert figures == (
        "Newest point 2024-08-09 00:07:00 · the interval of 2024-08-09 00:06:00 is over · 8 points in 1 series"
    )
    assert asked - before >= told
    asks = served.used()
    market.trade((9.5, 120.0), (11.5, 121.0))
    until(lambda: "00:11" in changes(page))
    assert served.used() == asks  # of the stream itself nothing

    page.find("#stop").click()
    until(lambda: page.text("#answer-status").startswith("Stopped at 20"))
    assert not page.find("#stop").is_displayed()
    market.trade((12.0, 99.0))
    time.sleep(1)
    assert "00:12" not in changes(page)


@pytest.mark.long
def test_what_is_told_is_what_the_history_weighs(page: Page, served: Served, market: Market) -> None:
    market.trade((2_500.5, 100.0))
    page.find("#live").click()
    page.find("#live").click()  # it looks at the lake again
    until(page.is_ready)
    page.type("#from", "2024-08-09")
    before = served.used()
    assert page.weight() == 3
    assert "what is live weighs nothing" in page.text("#weight-how")
    page.send()
    until(lambda: page.text("#answer-status").startswith("Live since"))
    until(lambda: served.used() - before == 3)
    page.find("#stop").click()
    page.type("#from", "")
    assert (page.weight(), page.text("#weight-how")) == (0, "what is live weighs nothing")
    page.send()
    until(lambda: [row[0] for row in candles(page)] == [START // NS + 2_500 * 60])
    assert served.used() - before == 3


def test_a_stream_ends_with_its_period_and_says_so(page: Page, market: Market) -> None:
    page.type("#to", "2024-08-09 00:06")
    page.send()
    until(lambda: len(candles(page)) == 5)
    market.trade((5.5, 100.0), (6.1, 100.0))
    until(lambda: page.text("#answer-status").endswith("(PERIOD_OVER)."))
    until(lambda: len(candles(page)) == 6)
    assert set(changes(page).values()) == {"final"}
    assert not page.find("#stop").is_displayed()


@pytest.mark.long
def test_another_query_ends_the_stream(page: Page, market: Market) -> None:
    page.send()
    until(lambda: len(candles(page)) == 5)
    page.find("#live").click()
    until(page.is_ready)
    assert page.text("#send") == "Send"
    page.type("#to", "2024-08-09 00:03")
    page.ask()
    assert page.text("#rows-title") == "First rows"
    assert not page.find("#live-figures").is_displayed()
    market.trade((5.5, 100.0))
    time.sleep(1)
    assert len(candles(page)) == 3
    assert "change" not in page.rows()[0]


@pytest.mark.long
def test_a_part_that_was_zoomed_to_stays_or_moves_on_with_time(page: Page, market: Market) -> None:
    market.trade(*((minute + 0.1, 100.0) for minute in range(5, 40)))
    page.send()
    until(lambda: len(candles(page)) == 40)
    end = START // NS + 40 * 60
    page.js("chart.shown().plot.root.focus()")
    page.js("window.root = chart.shown().plot.root")
    for _ in range(2):
        page.find("#plot .uplot").send_keys("+")
    shown = "const { x } = chart.shown().plot.scales; return [x.min, x.max]"
    inside = page.js(shown)
    market.trade((40.5, 101.0))
    until(lambda: len(candles(page)) == 41)
    assert page.js(shown) == inside
    page.driver.execute_script(
        "chart.shown().plot.root.dispatchEvent(new KeyboardEvent('keydown', { key: '0' }))"
    )
    assert page.js(shown) == [START // NS, end + 60]
    market.trade((41.5, 101.0))
    until(lambda: page.js(shown) == [START // NS, end + 120])
    assert page.js("return document.activeElement === window.root")  # it is the same picture all the time


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["TRADE", "TRADE_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"]
)
def test_other_charts_grow_too(page: Page, market: Market, name: str) -> None:
    book(market, 0)
    page.driver.refresh()
    page.enter()
    page.choose("#type", name)
    if name != "TRADE":
        page.choose("#interval", "MINUTE")
    page.find("#live").click()
    until(page.is_ready)
    page.type("#from", "2024-08-09")
    page.send()
    until(lambda: page.all("#plot .uplot"))
    count = (
        "return Number(document.querySelector('#live-figures').textContent.match(/([\\d,]+) points? in/)[1])"
    )
    until(lambda: page.js(count) > 0)
    for minute in (6, 7, 8):
        before = page.js(count)
        market.trade((minute + 0.5, 100.0 + minute))
        book(market, minute)
        until(lambda: page.js(count) > before)  # noqa: B023 - called at once
    until(lambda: page.rows()[0]["timestamp"].startswith("2024-08-09 00:08"))
    newest = (
        "return timestampText({ s: Math.max(...chart.shown().rows().map(({ start }) => start.s ?? start)) })"
    )
    if name in {"VOLUME_PROFILE_AGG", "TPO_AGG"}:
        until(lambda: page.text("#chart-controls output") == "2024-08-09 00:08:00")
    else:
        until(lambda: page.js(newest).startswith("2024-08-09 00:08"))
    assert len(page.all("#plot .heat")) == (name == "BLOCK_BOOK_SNAPSHOT_AGG")
    page.find("#stop").click()


def book(market: Market, minute: int) -> None:
    """Append a snapshot of the book."""
    levels = [("BID", 100.0 - 5 * place) for place in range(4)] + [
        ("ASK", 105.0 + 5 * place) for place in range(4)
    ]
    frame = pl.DataFrame(
        {
            "exchange": "X",
            "raw_symbol": SYMBOL,
            "timestamp": START + minute * 60 * NS + NS,
            "first_id": None,
            "last_id": minute,
            "sequence": list(range(len(levels))),
            "side": [side for side, _ in levels],
            "price": [price for _, price in levels],
            "size": 1.0 + minute,
            "is_snapshot": True,
            "received": None,
        }
    )
    frame = TABLES["book"].conform(frame)
    market.lake.writer().append("book", frame, source=f"book {minute}")


# --- over cuts ---


def test_it_goes_on_over_a_restart_of_the_service(driver: Any, market: Market) -> None:
    with ExitStack() as first:
        served = first.enter_context(serving(market.lake, token_secret=TOKENS))
        port = urlsplit(served.origin).port
        page = opened_page(driver, served)
        page.send()
        until(lambda: is_history(page, served))
    until(lambda: page.text("#answer-status").startswith("Connecting again in "))
    assert page.find("#stop").is_displayed()
    market.trade((4.9, 130.0), (5.5, 131.0), (6.5, 132.0))
    with serving(market.lake, token_secret=TOKENS, port=port) as served:
        until(lambda: "Connected again at" in page.text("#answer-status"))
        until(lambda: is_history(page, served))
        market.trade((7.5, 133.0))
        until(lambda: is_history(page, served))
        assert changes(page)["00:04"] == "final"
        urls = [url for url in requested(driver) if "/v1/stream" in url]
        tokens = [dict(parse_qsl(urlsplit(url).query)).get("token") for url in urls]
        assert tokens[0] is None
        assert all(tokens[1:])
        assert "enterprise" not in "".join(urls)
        page.find("#stop").click()
        assert_harmless(page)


@pytest.mark.long
def test_a_token_that_is_of_no_use_ends_the_stream_by_name(driver: Any, market: Market) -> None:
    with ExitStack() as first:
        served = first.enter_context(serving(market.lake, token_secret=TOKENS))
        port = urlsplit(served.origin).port
        page = opened_page(driver, served)
        page.send()
        until(lambda: is_history(page, served))
    with serving(market.lake, token_secret=b"o" * 32, port=port):
        until(lambda: page.text("#answer-refusal"))
        assert page.text("#answer-refusal").startswith("INVALID_PARAMS token: ")
        assert "the service refused to go on" in page.text("#answer-status")
        assert len(candles(page)) == 5  # what there is stays
        assert_harmless(page)


# The lines that are read of parts of a body, and why there are no more; `null` stands for a cut.
LINES = """
const [parts, done] = arguments;
const encoder = new TextEncoder();
const body = new ReadableStream({
  start(controller) {
    for (const part of parts) {
      if (part === null) controller.error(new TypeError('network error'));
      else controller.enqueue(Uint8Array.from(part));
    }
    if (!parts.includes(null)) controller.close();
  },
});
(async () => {
  const lines = [];
  try {
    for await (const line of streamedLines(body, () => {})) lines.push(line);
  } catch (error) {
    done([lines, error.code, error.message]);
  }
})();
"""


@pytest.mark.long
def test_half_a_line_at_a_cut_is_thrown_away(page: Page) -> None:
    text = '{"token":"é"}\n{"token":"b"}\n{"tok'.encode()
    chosen = random.Random(3)
    for _ in range(50):
        cuts = sorted(chosen.sample(range(len(text)), 4))
        parts = [list(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        lines, code, why = page.driver.execute_async_script(LINES, parts)
        assert ([one["token"] for one in lines], code, why) == (
            ["é", "b"],
            "NO_ANSWER",
            "the connection was cut",
        )
    assert page.driver.execute_async_script(LINES, [list(b"{}\nno\n")])[::2] == [
        [{}],
        "a line of the stream is no JSON",
    ]


# --- what is kept ---


@pytest.mark.long
def test_no_more_is_kept_than_may_be(page: Page) -> None:
    """Of points in any order the newest stay, one of each time; those that were let go do not come back."""
    found = page.js(
        "const [lines, most] = arguments;"
        "const query = { type: 'TRADE_SIDE_AGNOSTIC_AGG', interval: 'MINUTE', from: 0 };"
        "const state = growing(query, most); let longest = 0;"
        "for (const line of lines) {"
        "  state.apply(line);"
        "  const sizes = state.answer().series.map(({ points }) => points.length);"
        "  longest = Math.max(longest, sizes.reduce((sum, size) => sum + size, 0));"
        "}"
        "const { series } = state.answer();"
        "const valuesOf = ({ label, points }) => points.map((one) => [label, one.timestamp.s, one.close]);"
        "return [longest, series.flatMap(valuesOf), state.gone()?.s]",
        *kept_of(random.Random(4), 2_000),
    )
    longest, points, gone = found
    assert longest <= 100
    lines, _ = kept_of(random.Random(4), 2_000)
    newest: dict[tuple[str, int], float] = {}
    for line in lines:
        for series in line["update"]:
            for one in series["points"]:
                newest[series["id"]["rawSymbol"], one["Point"]["timestamp"]["s"]] = one["Point"]["close"]
    expected = [[f"X {name}", at, close] for (name, at), close in sorted(newest.items()) if at > gone]
    assert sorted(points) == expected
    assert 50 < len(points) <= 100


def kept_of(chosen: random.Random, count: int) -> tuple[list[dict[str, Any]], int]:
    """Lines of points of two series, each mostly near the newest one, and how many may be kept."""
    lines = []
    for number in range(count):
        at = 60 * max(0, number + chosen.randint(-30, 0))
        point = {"Point": {"timestamp": {"s": at}, "close": number}}
        name = chosen.choice("AB")
        lines.append(
            {"update": [{"id": {"exchange": "X", "rawSymbol": name}, "points": [point]}], "token": "t"}
        )
    return lines, 100


@pytest.mark.long
def test_it_is_drawn_a_few_times_a_second_at_most(page: Page) -> None:
    page.js(
        "const drawing = drawnNowAndThen(() => { window.times.push(performance.now()); }, asking.next());"
        "window.times = []; window.ticking = setInterval(drawing.soon, 5)"
    )
    until(lambda: page.js("return window.times.length") >= 4)
    times = page.js("clearInterval(window.ticking); return window.times")
    assert all(later - earlier >= 499 for earlier, later in pairwise(times))


# --- what is asked ---


@pytest.mark.long
def test_lines_to_copy_ask_for_the_same_stream(page: Page, served: Served) -> None:
    lines = page.lines()
    asked = StreamQuery.from_params(parse_qsl(urlsplit(lines["URL"]).query))
    assert urlsplit(lines["URL"]).path == "/v1/stream"
    assert (asked.start, asked.end) == (START // NS, None)
    assert lines["curl"] == f"""curl -N -H "X-Service-Key: $TIDYTAPE_API_KEY" '{lines["URL"]}'"""
    call = lines["Python"].removeprefix(f'tidytape.Client("{served.origin}").stream(').removesuffix(")")
    assert (
        eval(f"as_query({call})", {"as_query": lambda name, **more: StreamQuery(type=name, **more)}) == asked
    )
    page.type("#to", "2024-08-09 00:30")
    assert 'end="2024-08-09T00:30:00Z"' in page.lines()["Python"]


@pytest.mark.long
def test_faults_and_weights_are_those_of_a_stream(page: Page) -> None:
    chosen = random.Random(8)
    windows: list[dict[str, int]] = []
    for _ in range(300):
        begin, length = chosen.randint(10**9, 10**9 + 10**6), chosen.choice([0, 1, 60, 10**6, 2 * 10**7])
        windows += [
            chosen.choice([{}, {"from": begin}, {"from": begin, "period": length}, {"period": length}])
        ]
    fields = {"type": "TPO_AGG", "exchange": ["X"], "coin": "A", "interval": "MINUTE"}
    sessions = [None, "TPO_SESSION_DAILY", "TPO_SESSION_WEEKLY", "TPO_SESSION_MONTHLY"]
    queries = [
        fields | window | ({"tpoSession": session} if (session := chosen.choice(sessions)) else {})
        for window in windows
    ]
    last = 10**9 + 3 * 10**6 + 0.5
    found = page.js(
        "return arguments[0].map((query) => [faults(query, true), String(historyWeight(query, arguments[1]))])",
        queries,
        last,
    )
    for query, (wrong, told) in zip(queries, found, strict=True):
        params = [
            (name, str(one))
            for name, many in query.items()
            for one in (many if name == "exchange" else [many])
        ]
        try:
            asked = StreamQuery.from_params(params)
        except QueryError:
            assert wrong, query
            continue
        assert not wrong, (query, wrong)
        assert int(told) == history_weight(asked, int(last)), query


def history_weight(query: StreamQuery, last: int) -> int:
    """What the service takes for a stream without a token."""
    if query.start is None:
        return 0
    base: PointsQuery = query.window(0, 1)[0]
    end = last if query.end is None else min(last, query.end)
    first, end = base.start_of(query.start), base.start_of(end)
    return sum(map(weight, query.window(first, end))) if end > first else 0


@pytest.mark.long
def test_it_can_be_switched_by_keyboard(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys as Pressed

    live = page.find("#live")
    assert live.is_selected()
    assert (page.text("#send"), page.find("#to").get_attribute("placeholder")) == ("Go live", "no end")
    live.send_keys(Pressed.SPACE)
    until(page.is_ready)
    assert page.text("#send") == "Send"
    assert page.find("#to").get_attribute("value") == "2024-08-09 00:05"
    assert {"gapfill", "sortDirection"} <= page.offered()
    live.send_keys(Pressed.SPACE)
    until(page.is_ready)
    assert not {"gapfill", "sortDirection"} & page.offered()
    page.find("#send").send_keys(Pressed.ENTER)
    until(lambda: len(candles(page)) == 5)
    page.find("#stop").send_keys(Pressed.ENTER)
    until(lambda: page.text("#answer-status").startswith("Stopped at"))
