"""The page at ``/`` in a browser: a key, what there is, queries with their weight, charts and rows, no way out."""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np
import polars as pl
import pytest

from page_reader import (
    IN_A_BROWSER,
    NS,
    SECRET,
    Page,
    Served,
    assert_harmless,
    browser,
    requested,
    serving,
    until,
)
from simulated import rollup_events as events
from simulated.everything import everything
from tidytape import Client, wire
from tidytape.budget import TIERS, weight
from tidytape.catalogue import DATA_TYPES, Interval, Selection
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.query import PointsQuery

pytestmark = IN_A_BROWSER

EVIL = "<img src=x onerror=alert(1)>"
VENUE = "x<b>EVIL</b>"


# --- a service and a browser ---


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = everything(tmp_path_factory.mktemp("page") / "lake")
    market = {"exchange": VENUE, "raw_symbol": EVIL, "normalized_symbol": "<i>A</i>-USD", "coin": "<i>A</i>"}
    made.writer().register(
        pl.DataFrame({**market, "quote_coin": "USD", "category": "SPOT", "block_size": 0.25})
    )
    rng = np.random.default_rng(1)
    times = events.START + np.arange(40) * events.MINUTE
    trades = events.events("trades", times, rng, 999)
    named = trades.with_columns(exchange=pl.lit(VENUE), raw_symbol=pl.lit(EVIL))
    made.writer().append("trades", named, source="evil")
    nameless = {"exchange": "X", "raw_symbol": ["SILENT", "STILL"]}  # and without any events
    made.writer().register(pl.DataFrame(nameless))
    return made


@pytest.fixture(scope="module")
def served(lake: Lake) -> Iterator[Served]:
    with serving(lake) as made:
        yield made


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser(tmp_path_factory.mktemp("chromium")) as made:
        yield made


@pytest.fixture
def page(driver: Any, served: Served) -> Iterator[Page]:
    """The page as it is opened."""
    opened = Page(driver, served.origin)
    opened.open()
    yield opened
    assert_harmless(opened)


@pytest.fixture
def entered(driver: Any, served: Served) -> Iterator[Page]:
    """The page with a key, as the last test with one left it."""
    opened = Page(driver, served.origin)
    if not opened.is_entered():
        opened.open()
        opened.enter()
    yield opened
    assert_harmless(opened)


# --- a key ---


def test_before_a_key_there_is_no_data(page: Page) -> None:
    assert not page.find("#room").is_displayed()
    assert page.find("#key").is_displayed()
    assert page.driver.switch_to.active_element == page.find("#key")
    assert page.text("#key-header") == "X-Service-Key"
    assert {urlsplit(url).path for url in requested(page.driver)} == {"/"}


def test_a_wrong_key_is_refused_in_the_words_of_the_service(page: Page, served: Served) -> None:
    page.find("#key").send_keys("wrong\n")
    until(lambda: page.text("#entry-refusal"))
    said = served.ask("/v1/usage", "wrong").json()
    assert page.text("#entry-refusal").startswith(f"{said['error']} {said['message']} request ")
    assert re.search(r"request [0-9a-f]{16}$", page.text("#entry-refusal"))
    assert not page.find("#room").is_displayed()


def test_the_key_is_kept_nowhere(page: Page, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "tidytape"), caplog.at_level(logging.DEBUG, "uvicorn"):
        page.enter(SECRET)
        page.ask()
    kept = page.js(
        "return [document.documentElement.outerHTML, location.href, document.cookie, ...Object.values(localStorage),"
        " ...Object.values(sessionStorage), JSON.stringify(history.state),"
        " ...[...document.querySelectorAll('input')].map((one) => one.value),"
        " ...performance.getEntries().map((one) => one.name)]"
    )
    assert len(kept) > 10
    assert not any(SECRET in one for one in kept)
    lines = [one.getMessage() for one in caplog.records if one.name.startswith(("tidytape", "uvicorn"))]
    assert any('"route":"points"' in line for line in lines)
    assert not any(SECRET in line for line in lines)
    page.find("#forget").click()
    until(lambda: page.find("#key").is_displayed())
    assert not page.find("#room").is_displayed()


@pytest.mark.long
def test_another_header_may_carry_the_key_and_a_proxy_pass_it_on(driver: Any, lake: Lake) -> None:
    with serving(lake, prefix="/market/data", key_header="X-Other") as served:
        page = Page(driver, served.origin)
        page.open()
        page.enter()
        assert page.text("#key-header") == "X-Other"
        assert '-H "X-Other: $TIDYTAPE_API_KEY"' in page.lines()["curl"]
        assert f'tidytape.Client("{served.origin}", auth_header="X-Other")' in page.lines()["Python"]
        page.ask()
        assert page.rows()
        assert_harmless(page)


def test_an_empty_lake_says_so(driver: Any, tmp_path: Any) -> None:
    with serving(Lake.create(tmp_path / "lake")) as served:
        page = Page(driver, served.origin)
        page.open()
        page.find("#key").send_keys("basic\n")
        until(lambda: page.texts("#types tbody td") == ["This lake is empty."])
        until(lambda: page.text("#markets-note") == "No market is called so.")
        assert not page.find("#query").is_displayed()
        assert_harmless(page)


# --- what there is ---


def test_a_key_shows_what_the_lake_holds(page: Page, served: Served) -> None:
    page.enter()
    listed = {name: served.ask(f"/v1/{name}").json()[name] for name in ("types", "exchanges", "coins")}
    assert page.texts("#types tbody small") == listed["types"] == list(DATA_TYPES)
    markets = served.ask("/v1/markets").json()["symbols"]
    page.find("#markets-more").click()
    until(lambda: not page.find("#markets-more").is_displayed())
    shown = page.texts("#markets tbody tr td:nth-child(1)"), page.texts("#markets tbody tr td:nth-child(2)")
    assert shown == ([one["exchange"] for one in markets], [one["rawSymbol"] for one in markets])
    symbols = served.ask("/v1/symbols?" + urlencode([("type", name) for name in DATA_TYPES])).json()[
        "rawSymbols"
    ]
    figures = page.texts("#lake-figures span")
    assert figures[:4] == [f"{len(DATA_TYPES)} data types", f"{len(listed['exchanges'])} exchanges",
                           f"{len(listed['coins'])} coins", f"{len(symbols)} symbols"]  # fmt: skip
    assert figures[4].startswith("2024-08-09 00:00 to 2024-08-09 ")


@pytest.mark.long
def test_a_search_finds_markets_and_a_market_fills_the_query(page: Page) -> None:
    page.enter()
    page.type("#search", "perp")
    until(lambda: page.texts("#markets tbody button") == ["BTC'PERP/x"])
    page.find("#markets tbody button").click()
    until(lambda: page.find("#rawSymbol").get_attribute("value") == "BTC'PERP/x")
    until(page.is_ready)
    page.ask()
    assert {row["raw_symbol"] for row in page.rows()} == {"BTC'PERP/x"}
    assert "BTC%27PERP%2Fx" in page.lines()["curl"]


def test_names_that_are_markup_are_text(page: Page) -> None:
    page.enter()
    page.tick("input[name=exchange]", VENUE)
    page.tick("input[name=exchange]", "X", on=False)
    assert page.find("#rawSymbol").get_attribute("value") == EVIL
    assert page.js("return [...document.querySelector('#rawSymbols').options].map((one) => one.value)") == [
        EVIL
    ]
    page.ask()
    assert {(row["exchange"], row["raw_symbol"], row["coin"]) for row in page.rows()} == {
        (VENUE, EVIL, "<i>A</i>")
    }
    assert f"{VENUE} {EVIL}" in page.text("#caption")
    assert "[USD per <i>A</i>]" in page.text("#plot")
    # The browser itself would not parse it, whatever the page did.
    with pytest.raises(Exception, match="TrustedHTML"):
        page.js("document.body.innerHTML = '<p>'")
    page.driver.get_log("browser")


# --- queries ---


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(DATA_TYPES))
def test_a_query_of_every_type(entered: Page, served: Served, name: str) -> None:
    kind, page = DATA_TYPES[name], entered
    page.choose("#type", name)
    if name == "BLOCK_BOOK_SNAPSHOT_AGG":
        page.type("#rawSymbol", "BTCUSDT")  # of the other there is no snapshot, and so no book
    assert {
        "gapfill",
        "transform.normalize.quote",
        "transform.groupBy.type",
        "maxDepth",
        "side",
    } & page.offered() == {
        parameter
        for parameter, is_there in {
            "gapfill": kind.gapfill,
            "transform.normalize.quote": kind.usd,
            "transform.groupBy.type": kind.group_by,
            "maxDepth": kind.included_depth,
            "side": kind.per_side,
        }.items()
        if is_there
    }
    lines, told, before = page.lines(), page.weight(), served.used()
    page.ask()
    assert page.text("#answer-refusal") == ""
    assert served.used() - before == told
    assert f"weight {told} · request" in page.text("#answer-status")

    body = served.ask(lines["URL"].removeprefix(served.origin)).content
    frame = wire.decode(body, name)
    assert frame.height
    rows = page.rows()
    assert len(rows) == min(50, frame.height)
    assert f"{frame.height:,} row" in page.text("#rows-count")
    for shown, row in zip(rows, frame.iter_rows(named=True), strict=False):
        for column, cell in shown.items():
            assert is_written(cell, row[column]), (column, cell, row[column])

    assert coloured(page), name
    assert page.text("#caption")


# Of the canvas of the plot, without its axes: how many pixels are neither grey nor empty.
COLOURED = """
const { ctx, bbox } = chart.shown().plot;
const { left, top, width, height } = bbox;
const heat = document.querySelector('#plot .heat');
const picture = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
Object.assign(picture.canvas, { width: ctx.canvas.width, height: ctx.canvas.height });
picture.drawImage(ctx.canvas, 0, 0);
const count = ({ data }) => {
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    const [r, g, b, alpha] = data.slice(at, at + 4);
    found += alpha > 0 && Math.max(r, g, b) - Math.min(r, g, b) > 40;
  }
  return found;
};
return count(picture.getImageData(left, top, width, height))
  + (heat ? count(heat.getContext('2d').getImageData(0, 0, heat.width, heat.height)) : 0)
"""


def coloured(page: Page) -> int:
    """How many pixels of the picture are of a series."""
    return int(page.js(COLOURED))


def is_written(cell: str, value: Any) -> bool:
    """Whether a cell says what a frame has."""
    if value is None:
        return cell == ""
    if isinstance(value, list):
        return cell == ", ".join(f"{one:g}" for one in value)
    if isinstance(value, int | float):
        return float(cell) == value
    return (
        cell.replace(" ", "T").startswith(value.isoformat()[:19])
        if hasattr(value, "isoformat")
        else cell == value
    )


def test_every_candle_is_drawn_where_it_is(page: Page, served: Served) -> None:
    page.enter()
    page.ask()
    body = json.loads(served.ask(page.lines()["URL"].removeprefix(served.origin)).content)
    candles = [one["Point"] for one in body["series"][0]["points"]]
    drawn = page.js(CANDLES)
    assert len(drawn) == len(candles)
    assert [one["tone"] for one in drawn] == [
        "flat" if one["open"] == one["close"] else "up" if one["close"] > one["open"] else "down"
        for one in candles
    ]
    scale = page.js(
        "const { plot } = chart.shown(); return plot.valToPos(0, 'y', true) - plot.valToPos(1, 'y', true)"
    )
    for shape, one in zip(drawn, candles, strict=True):
        assert shape["height"] == pytest.approx(scale * spread(one), abs=1.5)
        assert shape["top"] == pytest.approx(
            drawn[0]["top"] + scale * (candles[0]["high"] - one["high"]), abs=1.5
        )


# From the pixels of the plot: along the middle of each candle, from where to where there is which colour.
CANDLES = """
const { plot, rows } = chart.shown();
const { top, height } = plot.bbox;
const floor = Math.round(plot.valToPos(Math.min(...rows().map(({ low }) => low)), 'y', true)) + 2; // then volumes
const picture = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
Object.assign(picture.canvas, { width: plot.ctx.canvas.width, height: plot.ctx.canvas.height });
picture.drawImage(plot.ctx.canvas, 0, 0);
const bytes = (name) => colour(name).match(/\\w\\w/g).map((byte) => parseInt(byte, 16));
const tones = ['up', 'down', 'flat'].map((name) => [name, bytes(name)]);
return rows().map(({ at }) => {
  const x = Math.round(plot.valToPos(at, 'x', true) - 0.5);
  const { data } = picture.getImageData(x, top, 1, floor - top);
  const found = [];
  for (let y = 0; y < floor - top; y += 1) {
    const pixel = data.slice(4 * y, 4 * y + 4);
    const tone = tones.find(([, rgb]) => pixel[3] === 255 && rgb.every((byte, part) => byte === pixel[part]));
    if (tone) found.push([y, tone[0]]);
  }
  const names = new Set(found.map(([, name]) => name));
  return { tone: [...names].join(), top: found[0]?.[0], height: found.length ? found.at(-1)[0] - found[0][0] + 1 : 0 };
})
"""


def spread(candle: dict[str, float]) -> float:
    return candle["high"] - candle["low"]


def test_joined_candles_are_those_of_the_longer_interval(page: Page, served: Served) -> None:
    window = {"type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "X", "rawSymbol": "BTCUSDT"} | {
        "from": events.START // NS,
        "period": 4 * 3_600,
    }
    minutes, hours = (
        [
            one["Point"]
            for one in served.ask(f"/v1/points?{urlencode({**window, 'interval': interval})}").json()[
                "series"
            ][0]["points"]
        ]
        for interval in ("MINUTE", "HOUR")
    )
    query = page_form([(name, str(value)) for name, value in window.items()]) | {"interval": "MINUTE"}
    joined = page.js("return joinedOf(arguments[0].period / stepOf(arguments[0]), 4)", query)
    assert joined == 60
    found = page.js("return joinedCandles(arguments[0], arguments[1], 60)", query, minutes)
    for candle, hour in zip(found, hours, strict=True):
        assert candle["start"] == hour["timestamp"]["s"]
        assert [candle[name] for name in ("open", "high", "low", "close")] == [
            hour[name] for name in ("open", "high", "low", "close")
        ]
        assert candle["volume"] == pytest.approx(hour["volume"])


def test_a_heatmap_has_a_cell_where_something_rests(page: Page, served: Served) -> None:
    page.enter()
    page.choose("#type", "BLOCK_BOOK_SNAPSHOT_AGG")
    page.type("#rawSymbol", "BTCUSDT")
    page.ask()
    frame = wire.decode(
        served.ask(page.lines()["URL"].removeprefix(served.origin)).content, "BLOCK_BOOK_SNAPSHOT_AGG"
    )
    painted = page.js(
        "const canvas = document.querySelector('#plot .heat');"
        "const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
        "let count = 0; for (let at = 3; at < data.length; at += 4) count += data[at] > 0; return count"
    )
    assert painted == frame.filter(pl.col("size") > 0).select("timestamp", "price").unique().height


def test_options_change_the_request_and_its_weight(page: Page, served: Served) -> None:
    page.enter()
    page.js("document.querySelector('#options').open = true")
    page.tick("input[name=way]", "coin")
    page.tick("input[name=exchange]", VENUE)
    page.tick("input[name=exchange]", "X")
    page.find("#groupBy").click()
    page.type("#from", "2024-08-09")
    page.type("#to", "2024-08-10 00:00:00")
    page.choose("#interval", "MINUTE")
    asked = PointsQuery.from_params(parse_qsl(urlsplit(page.lines()["URL"]).query))
    assert (asked.exchange, asked.group_by, asked.interval) == (
        ("X", VENUE),
        "GROUP_BY_TYPE_SUM",
        Interval.MINUTE,
    )
    assert (asked.start, asked.end) == (events.START // NS, events.START // NS + 86_400)
    assert page.weight() == weight(asked) == 3
    page.type("#to", "2024-08-08")
    assert page.texts("#faults li") == ["The window ends before it begins."]
    assert not page.find("#send").is_enabled()
    page.type("#to", "tomorrow")
    assert page.texts("#faults li")[0].startswith("Both ends of the window are needed")


@pytest.mark.long
def test_a_refusal_is_shown_with_its_code_and_request(page: Page, served: Served) -> None:
    page.enter()
    page.type("#rawSymbol", "BTCUSDX")
    page.ask()
    said = served.ask(page.lines()["URL"].removeprefix(served.origin)).json()
    assert page.text("#answer-refusal").startswith(f"{said['error']} {said['message']} request ")
    assert "did you mean 'BTCUSDT'" in page.text("#answer-refusal")
    assert not page.find("#answer-body").is_displayed()


@pytest.mark.long
@pytest.mark.parametrize("name", ["TRADE_SIDE_AGNOSTIC_AGG", "FUNDING_RATE_AGG"])
def test_an_empty_window_says_so(page: Page, name: str) -> None:
    page.enter()
    page.choose("#type", name)
    page.type("#from", "2024-08-01")
    page.type("#to", "2024-08-02")
    page.ask()
    assert page.text("#plot") == "No data in this window."
    assert page.text("#rows-count") == "0 rows"


@pytest.mark.slow
def test_a_budget_that_is_used_up(page: Page, served: Served) -> None:
    page.enter("small")
    page.choose("#type", "TPO_AGG")
    assert page.weight() == 5
    for left in (15, 10, 5, 0):
        page.ask()
        shown = re.match(r"(\d+) of 20 weight left$", page.text("#quota-text"))
        assert shown
        assert left <= int(shown[1]) < left + 5  # the page counts on, as a service's own clock would
    page.ask()
    said = r"RATE_LIMITED weight 5 is more than the 0 left; wait 30 s request \w+ Again in \d+ s\."
    assert re.fullmatch(said, page.text("#answer-refusal"))
    assert any(one.startswith("That is more than is left: wait ") for one in page.texts("#faults li"))
    assert served.used("small") == 20


def test_a_tier_is_told_what_it_does_not_include(page: Page) -> None:
    page.enter("basic")
    disabled = page.js(
        "return [...document.querySelector('#type').options].filter((one) => one.disabled).map((one) => one.value)"
    )
    assert disabled == [name for name, kind in DATA_TYPES.items() if not TIERS["basic"].permits(kind)]
    assert "tier basic" in page.text("#quota-more")
    assert page.texts("#faults li") == ["The tier of this key reaches 90 days back."]


@pytest.mark.long
def test_what_is_stopped_or_asked_anew_is_not_charged(page: Page, served: Served) -> None:
    page.enter()
    before = served.used()
    served.held.back, served.held.asked = True, []
    try:
        page.send()
        until(lambda: len(served.held.asked) == 1)
        assert page.text("#answer-status") == "Asking …"
        page.find("#stop").click()
        until(lambda: page.text("#answer-status").startswith("Stopped."))
        until(lambda: served.used() == before)
        page.send()
        until(lambda: len(served.held.asked) == 2)
        page.choose("#interval", "HOUR")
        page.send()
        until(lambda: len(served.held.asked) == 3)
        until(lambda: served.used() == before + 1)
    finally:
        served.held.back = False
    until(lambda: page.is_at_rest("answer"))
    assert "of 1 hour" in page.text("#caption")
    assert served.used() == before + 1


# --- what a page computes is what the service computes ---


def test_weights_are_those_of_the_service(page: Page) -> None:
    chosen = random.Random(5)
    queries = [some_query(chosen) for _ in range(1_500)]
    found = page.js(
        "return arguments[0].map((query) => String(weight(query)))", [as_page(one) for one in queries]
    )
    assert [int(one) for one in found] == [weight(one) for one in queries]
    assert len({weight(one) for one in queries}) > 50


def some_query(chosen: random.Random) -> PointsQuery:
    kind = chosen.choice(list(DATA_TYPES.values()))
    interval = chosen.choice(list(Interval))
    points = min(chosen.choice([1, 999, 1_000, 1_001, kind.max_points]), 2**31 // interval.seconds)
    count = chosen.randint(1, 12)
    asked: dict[str, Any] = {"type": kind.name, "exchange": [f"V{one}" for one in range(count)], "coin": "A"}
    if kind.selection is Selection.OPTION_SKEW:
        asked |= {"exchange": "V", "raw_symbol": "A", "tenor": "1w"}
    if kind.group_by and chosen.random() < 0.7:
        asked["group_by"] = kind.group_by
    if kind.included_depth and chosen.random() < 0.8:
        asked["max_depth"] = kind.included_depth * chosen.randint(1, 9) + chosen.randint(-1, 1)
    if chosen.random() < 0.05:
        asked["max_depth"] = 10**17
    seconds = max(1, points * interval.seconds - chosen.randint(0, interval.seconds - 1))
    return PointsQuery(**asked, interval=interval, start=0, end=seconds)


def as_page(query: PointsQuery) -> dict[str, Any]:
    return page_form(query.to_params())


def page_form(params: list[tuple[str, str]]) -> dict[str, Any]:
    """A query as the page has it."""
    found: dict[str, Any] = {}
    for name, value in params:
        if name == "exchange":
            found.setdefault(name, []).append(value)
        else:
            found[name] = int(value) if name in {"from", "period"} else value
    return found


def test_faults_are_those_of_the_query_model(page: Page) -> None:
    chosen = random.Random(6)
    attempts = [some_attempt(chosen) for _ in range(1_500)]
    found = page.js("return arguments[0].map((query) => faults(query))", [page_form(one) for one in attempts])
    right = [is_right(one) for one in attempts]
    assert 100 < sum(right) < 1_400
    for attempt, is_ok, wrong in zip(attempts, right, found, strict=True):
        assert (not wrong) == is_ok, (attempt, wrong)


def is_right(params: list[tuple[str, str]]) -> bool:
    try:
        PointsQuery.from_params(params)
    except QueryError:
        return False
    return True


def some_attempt(chosen: random.Random) -> list[tuple[str, str]]:
    kind = chosen.choice(list(DATA_TYPES.values()))
    maybe = lambda share: chosen.random() < share  # noqa: E731
    picked = chosen.choice(
        [["rawSymbol"], ["coin"], ["normalizedSymbol"], ["rawSymbol", "coin"], ["coin"], []]
    )
    if picked == ["rawSymbol", "coin"] and kind.name.startswith("IMPLIED"):
        picked = ["coin"]  # both at once are right, and nothing this page offers
    if kind.name == "TOKEN_SUPPLY_AGG":
        picked = chosen.choice([["coin"], ["tokenName"], []])
    interval = chosen.choice(list(Interval))
    params = [("type", kind.name), *((name, "A") for name in picked)]
    params += [("exchange", f"V{one}") for one in range(chosen.choice([0, 1, 1, 1, 2]))]
    params += [("interval", interval.value)] if maybe(0.9) else []
    period = chosen.choice(
        [0, 60, 60, interval.seconds * chosen.choice([1_000, 4_000, 4_001, 20_001, 100_001])]
    )
    params += [("from", "0"), ("period", str(min(period, 2**32)))]
    options = {
        "gapfill": "true",
        "transform.normalize.quote": "USD",
        "transform.groupBy.type": kind.group_by or "GROUP_BY_TYPE_SUM",
        "tpoSession": "TPO_SESSION_DAILY",
        "tpoBlockSizeMinutes": "30",
        "blockSize": chosen.choice(["1", "0.5", "0", "-1", "x"]),
    }
    params += [(name, value) for name, value in options.items() if maybe(0.08)]
    if kind.included_depth and maybe(0.4):
        params.append(("maxDepth", chosen.choice(["1", "20000", "0", "-3", "1.5", "x"])))
    return params + ([("tenor", "ONE_W")] if maybe(0.8 if kind.per_tenor else 0.05) else [])


@pytest.mark.long
def test_lines_to_copy_ask_the_same(page: Page, served: Served) -> None:
    page.enter()
    page.choose("#type", "BLOCK_BOOK_SNAPSHOT_AGG")
    page.type("#rawSymbol", "BTCUSDT")
    lines = page.lines()
    asked = PointsQuery.from_params(parse_qsl(urlsplit(lines["URL"]).query))
    assert lines["curl"] == f"""curl --compressed -H "X-Service-Key: $TIDYTAPE_API_KEY" '{lines["URL"]}'"""
    found = re.fullmatch(
        r'tidytape\.Client\("(.*?)"\)\.points\(tidytape\.(PointsQuery\(.*\))\)', lines["Python"]
    )
    assert found
    assert found[1] == served.origin
    query = eval(found[2], {"PointsQuery": PointsQuery})
    assert query == asked
    with Client(served.origin, "enterprise") as client:
        assert client.fetch(query).frame.height


# --- how it is used and how it looks ---


@pytest.mark.long
def test_it_works_by_keyboard(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys as Pressed

    page.enter()
    page.js("document.querySelector('#type').focus()")
    for _ in range(40):
        page.driver.switch_to.active_element.send_keys(Pressed.TAB)
        if page.driver.switch_to.active_element.get_attribute("id") == "send":
            break
    page.driver.switch_to.active_element.send_keys(Pressed.ENTER)
    until(lambda: page.all("#plot .uplot"))
    until(lambda: page.is_at_rest("answer"))
    told = []
    for pressed in (Pressed.ARROW_RIGHT, Pressed.ARROW_RIGHT, Pressed.ARROW_LEFT):
        page.find("#plot .uplot").send_keys(pressed)
        told.append(page.text("#readout"))
    first = page.rows()[0]
    assert told[0].startswith(f"{first['timestamp'][:16]}, ")
    assert (
        f"open {first['open']} · high {first['high']} · low {first['low']} · close {first['close']}"
        in told[0]
    )
    assert told[1] != told[0] == told[2]


# --- zoom, by mouse and by fingers: as a device sends it ---


class Plot:
    """The picture of the last answer: which part of x it shows, and where that is on the screen."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.js("document.querySelector('#plot').scrollIntoView({ block: 'center' })")

    def shown(self) -> tuple[float, float]:
        low, high = self.page.js("const { x } = chart.shown().plot.scales; return [x.min, x.max]")
        return low, high

    def at(self, share: float, down: float = 0.5) -> dict[str, float]:
        """A place on the screen, as a share of the width and of the height of the plot."""
        box = self.page.js("return chart.shown().plot.over.getBoundingClientRect().toJSON()")
        return {"x": box["left"] + share * box["width"], "y": box["top"] + down * box["height"]}

    def mouse(self, kind: str, share: float, **more: Any) -> None:
        event = {"type": kind, **self.at(share), "button": "none", **more}
        self.page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)

    def touch(self, kind: str, *places: dict[str, float]) -> None:
        points = [{**place, "id": number} for number, place in enumerate(places)]
        self.page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def double_click(self, share: float) -> None:
        for count in (1, 2):
            self.mouse("mousePressed", share, button="left", clickCount=count)
            self.mouse("mouseReleased", share, button="left", clickCount=count)


@pytest.fixture
def plot(page: Page) -> Plot:
    page.enter()
    page.ask()
    return Plot(page)


@pytest.fixture
def fingers(page: Page) -> Iterator[None]:
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    yield
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


@pytest.mark.long
def test_a_wheel_zooms_around_the_pointer_and_a_double_click_shows_the_whole(page: Page, plot: Plot) -> None:
    low, high = plot.shown()
    assert not page.find("#zoom-out").is_displayed()
    plot.mouse("mouseWheel", 0.25, deltaX=0, deltaY=-200)
    until(lambda: plot.shown() != (low, high))
    nearer = plot.shown()
    assert nearer[1] - nearer[0] == pytest.approx((high - low) * np.exp(-0.5))
    assert nearer[0] + 0.25 * (nearer[1] - nearer[0]) == pytest.approx(
        low + 0.25 * (high - low), abs=(high - low) / 500
    )
    assert page.find("#zoom-out").is_displayed()
    plot.double_click(0.5)
    until(lambda: plot.shown() == (low, high))
    assert not page.find("#zoom-out").is_displayed()
    before = page.js("return scrollY")
    plot.mouse("mouseWheel", 0.25, deltaX=0, deltaY=-200)
    until(lambda: plot.shown() != (low, high))
    page.find("#zoom-out").click()
    assert plot.shown() == (low, high)
    plot.mouse(
        "mouseWheel", 0.25, deltaX=0, deltaY=200
    )  # there is nothing further out, so the page scrolls on
    until(lambda: page.js("return scrollY") > before)
    assert plot.shown() == (low, high)


@pytest.mark.long
def test_a_drag_shows_what_it_went_over(plot: Plot) -> None:
    low, high = plot.shown()
    plot.mouse("mousePressed", 0.2, button="left", clickCount=1)
    for share in (0.3, 0.5, 0.6):
        plot.mouse("mouseMoved", share, button="left")
    plot.mouse("mouseReleased", 0.6, button="left", clickCount=1)
    until(lambda: plot.shown() != (low, high))
    expected = (low + 0.2 * (high - low), low + 0.6 * (high - low))
    assert plot.shown() == pytest.approx(expected, abs=(high - low) / 300)


@pytest.mark.long
@pytest.mark.usefixtures("fingers")
def test_two_fingers_stretch_and_one_moves(page: Page, plot: Plot) -> None:
    low, high = plot.shown()
    plot.touch("touchStart", plot.at(0.4), plot.at(0.6))
    for step in (0.05, 0.1, 0.2):
        plot.touch("touchMove", plot.at(0.4 - step), plot.at(0.6 + step))
    plot.touch("touchEnd")
    until(lambda: plot.shown()[1] - plot.shown()[0] < 0.4 * (high - low))
    near = plot.shown()
    # What was under the fingers is still there: a fifth of the whole takes three fifths of the plot.
    assert near[1] - near[0] == pytest.approx((high - low) / 3, rel=0.02)
    assert sum(near) == pytest.approx(low + high, abs=(high - low) / 100)

    plot.touch("touchStart", plot.at(0.3))
    for share in (0.4, 0.5):
        plot.touch("touchMove", plot.at(share))
    plot.touch("touchEnd")
    moved = (near[0] - 0.2 * (near[1] - near[0]), near[1] - 0.2 * (near[1] - near[0]))
    until(lambda: plot.shown() == pytest.approx(moved, abs=(high - low) / 100))

    before = page.js("return scrollY")
    plot.touch("touchStart", plot.at(0.5, 0.8))
    for down in (0.6, 0.4, 0.2):
        plot.touch("touchMove", plot.at(0.5, down))
    plot.touch("touchEnd")
    until(lambda: page.js("return scrollY") > before)  # upwards it is the page that moves
    assert plot.shown() == pytest.approx(moved, abs=(high - low) / 100)


@pytest.mark.long
@pytest.mark.usefixtures("fingers")
def test_fingers_stretch_the_prices_of_a_profile(page: Page) -> None:
    page.enter()
    page.choose("#type", "VOLUME_PROFILE_AGG")
    page.ask()
    plot = Plot(page)
    low, high = plot.shown()
    plot.touch("touchStart", plot.at(0.5, 0.4), plot.at(0.5, 0.6))
    for step in (0.05, 0.1):
        plot.touch("touchMove", plot.at(0.5, 0.4 - step), plot.at(0.5, 0.6 + step))
    plot.touch("touchEnd")
    until(lambda: plot.shown()[1] - plot.shown()[0] < 0.6 * (high - low))
    assert sum(plot.shown()) == pytest.approx(low + high, abs=(high - low) / 50)


@pytest.mark.long
def test_keys_zoom(page: Page, plot: Plot) -> None:
    low, high = plot.shown()
    page.find("#plot .uplot").send_keys("+")
    assert plot.shown() == (low + (high - low) / 4, high - (high - low) / 4)
    page.find("#plot .uplot").send_keys("0")
    assert plot.shown() == (low, high)


# An answer of many candles that nobody had to compute, of the query that stands on the page.
MANY = """
const query = { ...builder.read(), interval: 'MINUTE', period: 60 * arguments[0] };
const point = (place) => {
  const price = 100 + 10 * Math.sin(place / 500);
  const timestamp = { s: query.from + 60 * place };
  return { Point: { timestamp, open: price, high: price + 1, low: price - 1, close: price + 0.5, volume: 1 } };
};
const points = Array.from({ length: arguments[0] }, (_, place) => point(place));
chart.show(answerOf({ series: [{ id: { exchange: 'X', rawSymbol: 'M' }, points }] }, query, 'none'));
return query.from
"""


@pytest.mark.long
def test_intervals_that_are_joined_are_parted_by_zooming_in(page: Page, plot: Plot) -> None:
    start = page.js(MANY, 100_000)
    whole = plot.shown()
    assert whole == (start, start + 6_000_000)
    joined = int(re.search(r", ([\d,]+) intervals each", page.text("#caption"))[1])  # type: ignore[index]
    assert joined > 100
    rows = page.js("return chart.shown().rows().length")
    assert rows == -(-100_000 // joined)
    for _ in range(20):
        plot.mouse("mouseWheel", 0.5, deltaX=0, deltaY=-400)
    until(lambda: page.text("#caption") == "X M: 100,000 candles of 1 minute.")
    assert page.js("return chart.shown().rows().length") == 100_000
    assert plot.shown()[1] - plot.shown()[0] == 240  # four intervals are the least
    assert coloured(page)


@pytest.mark.long
def test_no_line_crosses_a_gap(page: Page, plot: Plot) -> None:
    page.js(
        "const query = { type: 'FUNDING_RATE_AGG', exchange: ['X'], interval: 'MINUTE', from: 0, period: 6000 };"
        "const { name } = KINDS.get(query.type).fields.find(({ kind }) => kind === 'double');"
        "const fields = KINDS.get(query.type).fields.filter(({ kind }) => kind === 'double');"
        "const values = Object.fromEntries(fields.map((field) => [field.name, 1]));"
        "const point = (place) => ({ Point: { timestamp: { s: 60 * place }, ...values } });"
        "const points = Array.from({ length: 100 }, (_, place) => point(place));"
        "points.splice(40, 20);"
        "chart.show(answerOf({ series: [{ id: { exchange: 'X' }, points }] }, query, 'none'))"
    )
    columns = page.js(
        "const { plot: { ctx, bbox } } = chart.shown();"
        "const picture = document.createElement('canvas').getContext('2d', { willReadFrequently: true });"
        "Object.assign(picture.canvas, { width: ctx.canvas.width, height: ctx.canvas.height });"
        "picture.drawImage(ctx.canvas, 0, 0);"
        "return Array.from({ length: 100 }, (_, place) => {"
        "  const x = Math.floor(bbox.left + (bbox.width * (place + 0.5)) / 100);"
        "  const { data } = picture.getImageData(x, bbox.top, 1, bbox.height);"
        "  let found = false;"
        "  for (let at = 0; at < data.length; at += 4) found ||= Math.abs(data[at] - data[at + 2]) > 60;"
        "  return found;"
        "})"
    )
    assert columns[1:39] == [True] * 38
    assert columns[41:59] == [False] * 18
    assert columns[61:99] == [True] * 38


def test_every_control_has_a_name(page: Page) -> None:
    page.enter()
    nameless = page.js(
        "return [...document.querySelectorAll('input, select, button')]"
        ".filter((one) => !one.labels?.length && !one.getAttribute('aria-label') && !one.textContent.trim())"
        ".map((one) => one.id)"
    )
    assert nameless == []


def test_it_fits_a_narrow_screen_and_the_dark(page: Page) -> None:
    wide = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    paper = "return getComputedStyle(document.body).backgroundColor"
    light = page.js(paper)
    try:
        page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", wide)
        scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        page.enter()
        page.ask()
        assert page.js("return document.documentElement.scrollWidth <= innerWidth && innerWidth === 400")
        assert page.find("#plot .uplot").size["width"] < 400
        assert page.js(paper) != light
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
