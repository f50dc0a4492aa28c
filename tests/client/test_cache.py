"""What was fetched is not fetched again: by closed intervals, across clients and processes, and never damaged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from client.driven import NS, Clock, Driven
from lakes import empty_lake
from simulated.everything import ASKED, START, everything
from tidytape import Client
from tidytape.catalogue import NoteCode
from tidytape.client import _cache
from tidytape.client._cache import Cache
from tidytape.client._local import AppTransport
from tidytape.client._plans import planned
from tidytape.client._window import Window
from tidytape.errors import IncompleteDataError, QueryError
from tidytape.lake import Lake
from tidytape.lake.ingest import Market, ingest_frame
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.times import without
from tidytape.wire._notes import Note

S0 = START // NS
HOUR = 3_600


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake whose points of the first two hours are final."""
    made = everything(tmp_path_factory.mktemp("cached") / "lake")
    later = {"token_name": ["bitcoin", "ethereum"], "coin": ["BTC", "ETH"], "timestamp": (S0 + 3 * HOUR) * NS}
    made.writer().append("token_supply", pl.DataFrame(later | {"marketcap": [3e12, 1e12]}), source="later")
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock(S0 + 200 * 86_400)


@pytest.fixture
def service(lake: Lake, clock: Clock) -> Iterator[AppTransport]:
    keys = Keys([Key("k", hashed("the-secret-key"), "enterprise", created=0)])
    transport = AppTransport(create_app(lake, keys, clock=clock))
    yield transport
    transport.close()


def window_of(name: str, start: int, end: int, **more: Any) -> Window:
    return Window.of(PointsQuery.split(type=name, interval="1m", start=start, end=end, **ASKED[name], **more))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ASKED))
def test_the_second_fetch_is_the_same_and_costs_nothing(
    service: Any, clock: Clock, tmp_path: Path, name: str
) -> None:
    client = Driven(service, clock, cache=tmp_path)
    plain, _ = Driven(service, clock).fetch(window_of(name, S0, S0 + 2 * HOUR))
    first, told = client.fetch(window_of(name, S0, S0 + 2 * HOUR))
    assert told.weight > 0
    again, told = client.fetch(window_of(name, S0, S0 + 2 * HOUR))
    assert (told.weight, told.requests) == (0, 0)
    assert told.cached == (window_of(name, S0, S0 + 2 * HOUR).span,)
    for frame in (first, again):
        assert frame.schema == plain.schema
        assert frame.equals(plain)
    newest_first = window_of(name, S0, S0 + 2 * HOUR, sort_direction="desc")
    turned, told = client.fetch(newest_first)
    assert told.weight == 0
    assert turned.equals(Driven(service, clock).fetch(newest_first)[0])


@pytest.mark.slow
def test_only_what_is_missing_is_asked_for(service: Any, clock: Clock, tmp_path: Path) -> None:
    client = Driven(service, clock, cache=tmp_path)
    client.fetch(window_of("TRADE_AGG", S0 + 2 * HOUR, S0 + 3 * HOUR))
    day = window_of("TRADE_AGG", S0 - 30 * 86_400, S0 + 60 * 86_400)
    client.requests.clear()
    frame, told = client.fetch(day)
    asked = [
        (int(one.url.params["from"]), int(one.url.params["from"]) + int(one.url.params["period"]))
        for one in client.requests
        if one.url.path == "/v1/points"
    ]
    assert without(day.span, [*asked, (S0 + 2 * HOUR, S0 + 3 * HOUR)]) == []
    assert told.weight <= 130  # as much as the whole would have weighed
    assert frame.equals(Driven(service, clock).fetch(day)[0])
    _, told = client.fetch(window_of("TRADE_AGG", S0 - 86_400 + 30, S0 + 3 * HOUR))
    assert told.weight == 0


def test_what_is_still_going_on_is_not_kept(tmp_path: Path) -> None:
    window = window_of("TRADE_AGG", 0, 60)
    kept = Cache(tmp_path).series("http://service", window)
    now = 10 * 86_400 + 90
    seconds = range(now - 90 - HOUR, now + HOUR, 60)
    frame = pl.DataFrame({"timestamp": [second * NS for second in seconds]}).cast(pl.Datetime("ns", "UTC"))
    kept.store((seconds[0], now + HOUR), frame, closed=window.closed(now), now=now)
    assert kept.missing((seconds[0], now + HOUR)) == [(now - 30, now + HOUR)]


def test_that_there_is_nothing_yet_is_believed_after_a_week_only(tmp_path: Path) -> None:
    window = window_of("TRADE_AGG", 0, 60)
    kept = Cache(tmp_path).series("http://service", window)
    empty = pl.DataFrame(schema={"timestamp": pl.Datetime("ns", "UTC")})
    day = 86_400
    kept.store((0, day), empty, closed=2 * day, now=2 * day)
    assert kept.missing((0, day)) == [(0, day)]
    kept.store((0, day), empty, closed=10 * day, now=10 * day)
    assert kept.missing((0, day)) == []
    one = pl.DataFrame({"timestamp": [10 * day * NS]}).cast(pl.Datetime("ns", "UTC"))
    kept.store((10 * day, 11 * day), one, closed=12 * day, now=12 * day)
    assert kept.missing((10 * day, 11 * day)) == [(10 * day + 60, 11 * day)]


@pytest.mark.parametrize("age", [HOUR, 8 * 86_400])
def test_an_interval_that_is_not_final_is_never_kept(tmp_path: Path, age: int) -> None:
    """The clock says that it is over; the service says that more of it may come."""
    window = window_of("TRADE_AGG", 0, 60)
    now = 10 * 86_400
    kept = Cache(tmp_path).series("http://service", window)
    seconds = range(now - 2 * HOUR - age, now - age, 60)
    frame = pl.DataFrame(
        {
            "timestamp": [second * NS for second in seconds],
            "is_final": [second < seconds[-2] for second in seconds],
        }
    ).cast({"timestamp": pl.Datetime("ns", "UTC")})
    kept.store((seconds[0], now - age), frame, closed=window.closed(now), now=now)
    assert kept.missing((seconds[0], now - age)) == [(now - age - 120, now - age)]


def test_a_market_that_ended_leaves_only_its_last_interval_to_ask_for_again(tmp_path: Path) -> None:
    window = window_of("TRADE_AGG", 0, 60)
    now = 30 * 86_400
    kept = Cache(tmp_path).series("http://service", window)
    frame = pl.DataFrame(
        {
            "raw_symbol": ["GONE"] * 3 + ["HERE"] * 10,
            "timestamp": [60 * minute * NS for minute in (*range(3), *range(10))],
            "is_final": [True, True, False] + [True] * 10,
        }
    ).cast({"timestamp": pl.Datetime("ns", "UTC")})
    kept.store((0, HOUR), frame, closed=HOUR, now=now)
    assert kept.missing((0, HOUR)) == [(120, 180)]
    again = frame.filter(pl.col("timestamp").dt.epoch("s") == 120)
    kept.store((120, 180), again, closed=HOUR, now=now)
    assert kept.missing((0, HOUR)) == [(120, 180)]
    kept.store((120, 180), again.with_columns(is_final=pl.lit(True)), closed=HOUR, now=now)
    assert kept.missing((0, HOUR)) == []


@pytest.mark.parametrize(
    ("code", "held", "kept_until"),
    [
        (NoteCode.OUTSIDE, (-9, -5), -5),  # it lags behind
        (NoteCode.OUTSIDE, (1, 2), 0),  # it begins later
        (NoteCode.NO_DATA, None, -7 * 24),
        (NoteCode.QUIET, None, 0),
    ],
)
def test_that_one_of_two_markets_has_nothing_yet_is_believed_after_a_week_only(
    tmp_path: Path, code: NoteCode, held: tuple[int, int] | None, kept_until: int
) -> None:
    window = window_of("TRADE_AGG", 0, 60)
    now = 30 * 86_400
    end = now - HOUR
    kept = Cache(tmp_path).series("http://service", window)
    seconds = range(end - 10 * 86_400, end, 60)
    frame = pl.DataFrame({"timestamp": [second * NS for second in seconds]}).cast(pl.Datetime("ns", "UTC"))
    first, last = ((end + hour * HOUR) * NS for hour in held) if held else (None, None)
    kept.store((seconds[0], end), frame, closed=end, now=now, notes=[Note(code, first=first, last=last)])
    ((start, _),) = kept.missing((seconds[0], end)) or [(end, end)]
    assert start == (now - 7 * 86_400 if code is NoteCode.NO_DATA else end + kept_until * HOUR)


def test_what_is_filled_or_of_one_series_alone_tells_nothing_of_the_end(tmp_path: Path) -> None:
    now = 10 * 86_400
    times = pl.Series("timestamp", [(now - 60 * n) * NS for n in range(60, 0, -1)]).cast(
        pl.Datetime("ns", "UTC")
    )
    frame = pl.DataFrame({"raw_symbol": ["A"] * 60, "timestamp": times})
    late = frame[:30].with_columns(raw_symbol=pl.lit("B"))
    span = (now - HOUR, now)
    for more, missing in (({}, [(now - 1_800, now)]), ({"gapfill": True}, [span])):
        kept = Cache(tmp_path).series("http://service", window_of("TRADE_SIDE_AGNOSTIC_AGG", 0, 60, **more))
        kept.store(span, pl.concat([frame, late]), closed=now, now=now)
        assert kept.missing(span) == missing


@pytest.mark.slow
def test_files_of_another_series_or_span_are_not_taken(service: Any, clock: Clock, tmp_path: Path) -> None:
    client = Driven(service, clock, cache=tmp_path)
    windows = [window_of(name, S0, S0 + HOUR) for name in ("TRADE_AGG", "LIQUIDATION_AGG")]
    plain = [client.fetch(window)[0] for window in windows]
    files = [next(tmp_path.glob(f"{window.data_type}/*/*.parquet")) for window in windows]
    files[1].write_bytes(files[0].read_bytes())
    start, end, digest = files[0].stem.split("-")
    files[0].rename(files[0].with_name(f"{start}-{int(end) + HOUR}-{digest}.parquet"))
    for window, frame in zip(windows, plain, strict=True):
        again, told = client.fetch(window)
        assert told.weight == 1
        assert again.equals(frame)


@pytest.mark.slow
def test_a_window_without_a_point_is_empty(service: Any, clock: Clock, tmp_path: Path) -> None:
    query = PointsQuery(type="TRADE_AGG", interval="4h", start=S0 + 60, end=S0 + 120, **ASKED["TRADE_AGG"])
    frame, told = Driven(service, clock, cache=tmp_path).fetch(Window.of(query))
    assert (frame.height, told.weight) == (0, 0)
    assert "close" in frame.columns


def test_a_cache_that_cannot_be_written_keeps_nothing_and_loses_nothing(
    service: Any, clock: Clock, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    window = window_of("TRADE_AGG", S0, S0 + HOUR)
    with pytest.warns(RuntimeWarning, match="the cache cannot be written"):
        frame, _ = Driven(service, clock, cache=file).fetch(window)
    assert frame.equals(Driven(service, clock).fetch(window)[0])


@pytest.mark.slow
def test_a_damaged_file_is_fetched_again_and_never_returned(
    service: Any, clock: Clock, tmp_path: Path
) -> None:
    client = Driven(service, clock, cache=tmp_path)
    window = window_of("TRADE_AGG", S0, S0 + 2 * HOUR)
    plain, _ = client.fetch(window)
    for damage in (
        lambda content: b"",
        lambda content: content[:-9],
        lambda content: content[:50] + b"x" + content[51:],
    ):
        (file,) = tmp_path.glob("TRADE_AGG/*/*.parquet")
        file.write_bytes(damage(file.read_bytes()))
        frame, told = client.fetch(window)
        assert told.weight == 1
        assert frame.equals(plain)
        assert client.fetch(window)[1].weight == 0


@pytest.mark.slow
def test_the_last_files_stay_in_memory_while_nobody_writes_to_them(
    service: Any, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    opened = _cache._opened
    monkeypatch.setattr(
        _cache, "_opened", lambda segment: opened(segment) if reads.append(segment.path) is None else None
    )
    client, other = (Driven(service, clock, cache=tmp_path) for _ in range(2))
    first, second = (window_of("TRADE_AGG", S0 + hour * HOUR, S0 + (hour + 1) * HOUR) for hour in (0, 4))
    plain = [Driven(service, clock).fetch(window)[0] for window in (first, second)]
    other.fetch(first)
    reads.clear()
    for _ in range(3):
        assert client.fetch(first)[0].equals(plain[0])
    assert len(reads) == 1
    other.fetch(second)  # this client sees what another one has cached
    reads.clear()
    assert client.fetch(second)[0].equals(plain[1])
    assert client.fetch(second)[1].weight == 0
    assert len(reads) == 1
    reads[0].write_bytes(b"damaged")
    assert client.fetch(second)[0].equals(plain[1])
    assert client.fetch(second)[1].weight == 0
    monkeypatch.setattr(_cache, "_IN_MEMORY", 1)
    reads.clear()
    for _ in range(2):
        assert client.fetch(first)[0].equals(plain[0])
    assert client.settings.cache is not None
    assert not client.settings.cache._recent
    assert len(reads) == 1  # the first of these readings was from memory, and then there is no room


def test_files_are_plain_parquet_and_say_what_they_are(service: Any, clock: Clock, tmp_path: Path) -> None:
    client = Driven(service, clock, cache=tmp_path)
    plain, _ = client.fetch(window_of("TRADE_AGG", S0, S0 + 2 * HOUR))
    (file,) = tmp_path.glob("TRADE_AGG/*/*.parquet")
    assert pl.read_parquet(file).height == plain.height
    said = json.loads(file.with_name("query.json").read_text())
    assert said["base_url"] == "http://service"
    assert ["coin", "BTC"] in said["params"]
    everywhere = b"".join(one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())
    assert b"the-secret-key" not in everywhere


@pytest.mark.slow
def test_small_files_that_adjoin_become_one(service: Any, clock: Clock, tmp_path: Path) -> None:
    client = Driven(service, clock, cache=tmp_path)
    for hour in range(2):
        client.fetch(window_of("TRADE_AGG", S0 + hour * HOUR, S0 + (hour + 1) * HOUR))
    assert len(list(tmp_path.glob("TRADE_AGG/*/*.parquet"))) == 1
    window = window_of("TRADE_AGG", S0, S0 + 2 * HOUR)
    frame, told = client.fetch(window)
    assert told.weight == 0
    assert frame.equals(Driven(service, clock).fetch(window)[0])


@pytest.mark.slow
def test_what_was_not_read_for_longest_goes_first(service: Any, clock: Clock, tmp_path: Path) -> None:
    client = Driven(service, clock, cache=tmp_path)
    for age, name in enumerate(("TRADE_AGG", "LIQUIDATION_AGG", "OPEN_INTEREST_AGG")):
        client.fetch(window_of(name, S0, S0 + HOUR))
        (file,) = tmp_path.glob(f"{name}/*/*.parquet")
        os.utime(file, (10**9 + age, 10**9 + age))
    client.fetch(window_of("TRADE_AGG", S0, S0 + HOUR))  # read just now
    sizes = {one.data_type: one.size for one in Cache(tmp_path).entries()}
    Cache(tmp_path, limit=sum(sizes.values()) - 1).trim()
    left = {one.data_type for one in Cache(tmp_path).entries() if one.size}
    assert left == {"TRADE_AGG", "OPEN_INTEREST_AGG"}
    assert Cache(tmp_path).entries()[0].data_type == "TRADE_AGG"
    assert Cache(tmp_path).clear() == sizes["TRADE_AGG"] + sizes["OPEN_INTEREST_AGG"]
    assert Cache(tmp_path).entries() == []


def test_offline_answers_from_the_cache_and_names_what_it_lacks(
    service: Any, clock: Clock, tmp_path: Path
) -> None:
    window = window_of("TRADE_AGG", S0, S0 + 2 * HOUR)
    plain, _ = Driven(service, clock, cache=tmp_path).fetch(window)
    offline = Driven(service, clock, cache=tmp_path, offline=True)
    assert offline.fetch(window)[0].equals(plain)
    with pytest.raises(IncompleteDataError) as caught:
        offline.fetch(window_of("TRADE_AGG", S0, S0 + 3 * HOUR))
    assert caught.value.missing == ((S0 + 2 * HOUR, S0 + 3 * HOUR),)
    assert offline.requests == []
    with pytest.raises(QueryError, match="offline"):
        Client("http://service", "k", cache=False, offline=True)


def test_an_offline_plan_lists_nothing_that_is_not_sent(service: Any, clock: Clock, tmp_path: Path) -> None:
    Driven(service, clock, cache=tmp_path).fetch(window_of("TRADE_AGG", S0, S0 + 2 * HOUR))
    offline = Driven(service, clock, cache=tmp_path, offline=True)
    longer = window_of("TRADE_AGG", S0, S0 + 3 * HOUR)
    plan = offline.run(planned(offline.settings, [longer, longer]))
    assert (plan.requests, plan.weight, plan.cached) == ((), 0, ((S0, S0 + 2 * HOUR),) * 2)
    assert [part.lacking for part in plan.parts] == [((S0 + 2 * HOUR, S0 + 3 * HOUR),)] * 2
    assert offline.requests == []


def test_offline_says_how_anything_comes_to_be_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDYTAPE_CACHE_DIR", str(tmp_path))
    hour = {"exchange": "X", "coin": "BTC", "interval": "1m", "start": 0, "end": HOUR}
    for address, how in (
        ("http://127.0.0.1:8000", "online with cache=True first"),
        ("http://service", "online first"),
    ):
        with Client(address, "k", offline=True) as client, pytest.raises(IncompleteDataError) as caught:
            client.candles(**hour)  # type: ignore[arg-type]
        assert str(caught.value).endswith(f"the cache has no answer to it from {address}; fetch it {how}")


@pytest.mark.slow
def test_by_default_only_the_network_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, service: Any
) -> None:
    monkeypatch.setenv("TIDYTAPE_CACHE_DIR", str(tmp_path / "mine"))
    with Client("https://service", "k") as client:
        assert client._settings.cache is not None
        assert client._settings.cache.folder == tmp_path / "mine"
    with Client("http://service", "k", transport=service) as client:
        assert client._settings.cache is None
    for own in ("http://127.0.0.1:8000", "http://localhost:8000", "http://[::1]"):
        with Client(own, "k") as client:
            assert client._settings.cache is None
        with Client(own, "k", cache=True) as client:
            assert client._settings.cache is not None


@pytest.mark.slow
def test_who_fetches_the_same_waits_and_spends_nothing(service: Any, clock: Clock, tmp_path: Path) -> None:
    window = window_of("TRADE_AGG", S0 + 2 * HOUR - 90 * 86_400, S0 + 2 * HOUR)
    spent: list[int] = []

    def fetch() -> None:
        spent.append(Driven(service, clock, cache=tmp_path).fetch(window)[1].weight)

    lock = Cache(tmp_path).series("http://service", window).lock()
    with lock:  # somebody else is at it
        waiting = threading.Thread(target=fetch)
        waiting.start()
        time.sleep(0.3)
        assert spent == []
    waiting.join()
    assert spent == [130]
    fetch()
    assert spent == [130, 0]


KILLED = """
import os, sys, time
from pathlib import Path
import httpx, tidytape
from tidytape.query import PointsQuery

class Slow(httpx.BaseTransport):
    sent = 0
    def handle_request(self, request):
        if request.url.path != "/v1/points":
            return httpx.Response(404)
        Slow.sent += 1
        if Slow.sent > int(sys.argv[2]):
            print("dying", flush=True)
            os.kill(os.getpid(), 9)
        start = int(request.url.params["from"])
        ids = {"type": "LIQUIDATION_AGG", "exchange": "X", "coin": "BTC", "side": "BUY"}
        points = [{"Point": {"timestamp": {"s": start + 60 * i}, "liquidations": 1.0}} for i in range(10)]
        return httpx.Response(200, json={"series": [{"id": ids, "points": points}]})

client = tidytape.Client("http://service", "k", transport=Slow(), cache=sys.argv[1], parallel=1, progress=False)
queries = PointsQuery.split(type="LIQUIDATION_AGG", exchange="X", coin="BTC", interval="1m", start=0, end=400_000 * 60)
frame = client.fetch(queries).frame
print(Slow.sent, frame.height)
"""


@pytest.mark.slow
def test_a_fetch_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    def run(most: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), str(most)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run(2).stdout == "dying\n"
    assert run(99).stdout.split() == ["2", "40"]  # of the four requests two were left
    assert run(99).stdout.split() == ["0", "40"]


@pytest.mark.slow
def test_a_lock_that_cannot_be_taken_keeps_nobody_waiting(service: Any, clock: Clock, tmp_path: Path) -> None:
    client = Driven(service, clock, cache=tmp_path)
    client.fetch(window_of("TRADE_AGG", S0, S0 + HOUR))
    lock = next(tmp_path.glob("*/*/.lock"), None) or next(tmp_path.glob("*/*")) / ".lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    with pytest.warns(RuntimeWarning, match="the cache cannot be written"):
        _, told = client.fetch(window_of("TRADE_AGG", S0, S0 + 2 * HOUR))
    assert told.requests == 1


@pytest.mark.slow
def test_a_file_that_cannot_be_read_just_now_is_not_removed(
    service: Any, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, window = Driven(service, clock, cache=tmp_path), window_of("TRADE_AGG", S0, S0 + HOUR)
    plain, _ = client.fetch(window)
    kept = set(tmp_path.glob("*/*/*.parquet"))

    def failing(path: Path) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "read_bytes", failing)
        again, told = client.fetch(window)
    assert again.equals(plain)
    assert told.requests == 1
    assert kept <= set(tmp_path.glob("*/*/*.parquet"))
    assert client.fetch(window)[1].requests == 0


@pytest.mark.slow
def test_a_field_without_anything_in_it_is_kept_and_written(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        point = {"timestamp": {"s": S0}, "close": 1.0, "meta": {}}
        ids = {"type": "TRADE_AGG", "exchange": "X", "rawSymbol": "BTC", "side": "BUY"}
        return httpx.Response(200, json={"series": [{"id": ids, "points": [{"Point": point}]}]})

    query = PointsQuery(
        type="TRADE_AGG", exchange="X", raw_symbol="BTC", interval="1m", start=S0, end=S0 + HOUR
    )
    client = Driven(httpx.MockTransport(answer), Clock(S0 + 30 * 86_400), cache=tmp_path / "cache")
    frame, _ = client.fetch(Window.of(query))
    again, told = client.fetch(Window.of(query))
    assert frame["meta"].to_list() == ["{}"]
    assert again.equals(frame)
    assert told.requests == 0
    plain = Client("http://service", "k", transport=httpx.MockTransport(answer))
    assert plain.to_parquet(query, tmp_path / "x.parquet").rows == 1


def test_what_a_clock_that_was_ahead_kept_of_the_future_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(int(request.url.params["from"]))
        return httpx.Response(200, json={})

    now = time.time()
    today = int(now) // 86_400 * 86_400
    query = PointsQuery(
        type="TRADE_AGG", exchange="X", raw_symbol="BTC", interval="1m", start=today, end=today + 10 * 86_400
    )
    client = Driven(httpx.MockTransport(answer), Clock(now), cache=tmp_path)
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda: now + 400 * 86_400)
        client.fetch(Window.of(query))
        assert client.fetch(Window.of(query))[1].requests == 0
    assert client.fetch(Window.of(query))[1].requests == 1
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: now + 20 * 86_400)
        assert client.fetch(Window.of(query))[1].requests == 1
    assert len(asked) == 3


def test_what_could_not_be_removed_was_not_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "TRADE" / "one"
    folder.mkdir(parents=True)
    (folder / "query.json").write_text("{}")
    (folder / f"0-60-{'0' * 32}.parquet").write_bytes(b"1234")
    with monkeypatch.context() as readable:
        readable.setattr(shutil, "rmtree", lambda path, **options: None)
        assert Cache(tmp_path).clear() == 0
    assert Cache(tmp_path).clear() == 4


@pytest.mark.slow
def test_lakes_of_local_clients_are_kept_apart_in_one_cache(tmp_path: Path) -> None:
    """Two lakes of the same market in one cache, and a third made where the first was."""
    hour = {"exchange": "X", "coin": "BTC", "interval": "1h", "start": S0, "end": S0 + HOUR}

    def close(lake: Path, price: float) -> float:
        shutil.rmtree(lake, ignore_errors=True)
        candle = {"timestamp": [S0], "volume": 1.0} | dict.fromkeys(["open", "high", "low", "close"], price)
        frame = pl.DataFrame(candle)
        market = Market(exchange="X", raw_symbol="BTC-USD")
        ingest_frame(frame, empty_lake(lake), table="candles", interval="1h", time_unit="s", market=market)
        with Client.local(lake, cache=tmp_path / "cache") as client:
            return float(client.candles(**hour)["close"].item())

    places = [tmp_path / "a", tmp_path / "b", tmp_path / "a"]
    assert [close(place, price) for place, price in zip(places, [100.0, 500.0, 900.0], strict=True)] == [
        100.0,
        500.0,
        900.0,
    ]


@pytest.mark.slow
def test_a_lake_that_was_written_to_is_not_the_one_in_the_cache(tmp_path: Path) -> None:
    """A gap in the middle of a window is believed of a service, which is not asked for what it may have by now."""
    lake = empty_lake(tmp_path / "lake")
    hours = {"exchange": "X", "coin": "BTC", "interval": "1h", "start": S0, "end": S0 + 3 * HOUR}
    heights = []
    for added in ([S0, S0 + 2 * HOUR], [S0 + HOUR]):
        candles = pl.DataFrame({"timestamp": added}).with_columns(
            [pl.lit(5.0).alias(name) for name in ("open", "high", "low", "close", "volume")]
        )
        market = Market(exchange="X", raw_symbol="BTC-USD")
        ingest_frame(candles, lake, table="candles", interval="1h", time_unit="s", market=market)
        with Client.local(lake.path, cache=tmp_path / "cache") as client:
            heights.append(client.candles(**hours).height)
    assert heights == [2, 3]


@pytest.mark.slow
def test_a_local_client_answers_from_the_cache_of_its_lake(lake: Lake, tmp_path: Path) -> None:
    day = {"exchange": "X", "coin": "BTC", "interval": "1h", "start": S0, "end": S0 + HOUR}
    for requests in (1, 0):
        with Client.local(lake.path, cache=tmp_path) as client:
            told = client.fetch(client.query.candles(**day)).metadata
        assert told.requests == requests


@pytest.mark.slow
@pytest.mark.parametrize("late", [30, 59, 60, 90])
def test_a_point_is_kept_a_minute_after_its_end(
    service: Any, clock: Clock, tmp_path: Path, late: int
) -> None:
    """By the service's clock, where that is behind the client's: a service may settle what has just ended."""
    window = window_of("TRADE_SIDE_AGNOSTIC_AGG", S0, S0 + HOUR)
    frame, _ = Driven(service, clock).fetch(window)
    last = max(frame["timestamp"].dt.epoch("s").to_list())

    def answer(request: httpx.Request) -> httpx.Response:
        response: httpx.Response = service.handle_request(request)
        response.headers["date"] = format_datetime(datetime.fromtimestamp(last + 60 + late, UTC), usegmt=True)
        return response

    Driven(httpx.MockTransport(answer), clock, cache=tmp_path).fetch(window)
    missing = Cache(tmp_path).series("http://service", window).missing(window.span)
    assert any(start <= last < end for start, end in missing) == (late < 60)


def test_newest_first_turns_time_alone(service: Any, clock: Clock) -> None:
    """Sides stay in the order of their names, whichever way time goes."""
    frame, _ = Driven(service, clock).fetch(window_of("TRADE_AGG", S0, S0 + HOUR, sort_direction="desc"))
    markets = ["exchange", "raw_symbol", "side"]
    assert frame.equals(frame.sort([*markets, "timestamp"], descending=[False, False, False, True]))
    assert frame["side"].n_unique() == 2
