"""``GET /v1/stream`` through the app, and readers as the service sees them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from lakes import empty_lake
from service.conftest import NS, T0, Service
from stream_readers import SECRET, Driven, account, registered, streams_of, trades
from tidytape import wire
from tidytape.budget import TIERS
from tidytape.errors import QueryError
from tidytape.lake import Lake, hygiene
from tidytape.query import StreamQuery
from tidytape.service._refusals import RefusedError
from tidytape.service.answer._engine import Engine
from tidytape.service.stream import _reader as reading
from tidytape.service.stream import _streams as opening
from tidytape.service.stream._part import ARROW, PartAnswer, PartTask
from tidytape.service.stream._tokens import Tokens
from tidytape.service.work._computing import Threads
from tidytape.times import MINUTE, SECOND
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._stream import Batch
from tidytape.wire._stream_arrow import ArrowStream

CANDLES = {
    "type": "TRADE_SIDE_AGNOSTIC_AGG",
    "exchange": "ALPHA",
    "rawSymbol": "BTCUSDT",
    "interval": "MINUTE",
}


def lines(service: Service, **params: Any) -> list[dict[str, Any]]:
    answer = service.get("/v1/stream", params={**CANDLES, **params})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


# --- over HTTP ------------------------------------------------------------------------------------------------------


def test_a_period_that_is_over_is_streamed_whole_and_ends(service: Service) -> None:
    history, end = lines(service, **{"from": T0, "period": 180})
    assert end["end"]["code"] == "PERIOD_OVER"
    assert history["over"] == {"TRADE_SIDE_AGNOSTIC_AGG": {"s": T0 + 120}}
    asked = service.get("/v1/points", params={**CANDLES, "from": T0, "period": 180}).json()
    assert history["final"] == asked["series"]
    assert "update" not in history


def test_arrow_has_the_rows_the_change_and_the_token(service: Service) -> None:
    params = {**CANDLES, "from": T0, "period": 180}
    answer = service.get("/v1/stream", params=params, headers={"Accept": ARROW_MIME})
    assert answer.headers["content-type"] == ARROW_MIME
    with pa.ipc.open_stream(answer.content) as reader:
        (rows, metadata), (none, ended) = (reader.read_next_batch_with_custom_metadata() for _ in range(2))
    assert rows.column("change").to_pylist() == ["final"] * 2
    expected = wire.decode(service.get("/v1/points", params=params).content, CANDLES["type"])
    assert rows.column("close").to_pylist() == expected["close"].to_list()
    assert json.loads(metadata[b"over"]) == {"TRADE_SIDE_AGNOSTIC_AGG": {"s": T0 + 120}}
    assert (none.num_rows, json.loads(ended[b"end"])["code"]) == (0, "PERIOD_OVER")
    assert ended[b"token"]


@pytest.mark.slow
def test_market_profiles_in_arrow_are_sessions_with_their_levels(service: Service) -> None:
    params = {**CANDLES, "type": "TPO_AGG", "interval": "HOUR", "from": T0, "period": 3_600}
    head = {"Accept": ARROW_MIME}
    expected = wire.from_arrow(service.get("/v1/points", params=params, headers=head).content, "TPO_AGG")
    # The hour is in progress, so the stream would not end: one batch is enough.
    streams, query = (
        service.app.state.streams,
        StreamQuery.from_params([*[*params.items()][:4], ("from", str(T0))]),
    )

    async def first() -> bytes:
        reader = await streams.open(query, account(), {}, form=ARROW)
        try:
            return b"".join(await reader.texts(await anext(aiter(reader.deliveries()))))
        finally:
            streams.leave(reader, account())

    batch = asyncio.run(first())
    written = ArrowStream("TPO_AGG")
    with pa.ipc.open_stream(written.head + batch + written.tail) as reader:
        rows = pl.from_arrow(reader.read_all())
    assert isinstance(rows, pl.DataFrame)
    for read in (wire.levels_of, wire.sessions_of):
        made, wanted = (
            read(frame).drop("is_final", "is_in_progress", strict=False) for frame in (rows, expected)
        )
        names = [name for name in wanted.columns if name not in {"change", "data_until"}]
        assert_frame_equal(made.select(names), wanted.select(names), categorical_as_str=True)


@pytest.mark.parametrize(
    ("params", "code", "status"),
    [
        ({"sortDirection": "SORT_DIRECTION_DESC"}, "INVALID_PARAMS", 400),
        ({"gapfill": "true"}, "INVALID_PARAMS", 400),
        ({"period": 60}, "INVALID_PARAMS", 400),  # without from
        ({"token": "x"}, "INVALID_PARAMS", 400),
        ({"rawSymbol": "NOBODY"}, "INVALID_SYMBOL", 400),
        ({"from": 0}, "INVALID_PARAMS", 400),  # fifty years of minutes weigh more than a bucket ever holds
        ({"interval": "2m"}, "INVALID_INTERVAL", 400),
    ],
)
def test_what_cannot_be_streamed_is_refused_before_it_begins(
    service: Service, params: dict[str, Any], code: str, status: int
) -> None:
    answer = service.get("/v1/stream", params={**CANDLES, **params})
    assert (answer.status_code, answer.json()["error"]) == (status, code), answer.text
    assert answer.headers["X-RateLimit-Used"] == "0"
    assert service.app.state.streams.readers == set()


def test_a_stream_needs_a_key_and_the_tier(service: Service) -> None:
    assert service.get("/v1/stream", params=CANDLES, key=None).status_code == 401
    skew = {"type": "SKEW_OPTION_SUMMARY_AGG", "exchange": "X", "coin": "BTC", "rawSymbol": "BTC_25"}
    answer = service.get("/v1/stream", params={**skew, "tenor": "ONE_W", "interval": "HOUR"}, key="basic-key")
    assert answer.json()["error"] == "TYPE_NOT_PERMITTED"
    service.clock.now_ns = (T0 + 400 * 86_400) * NS
    answer = service.get("/v1/stream", params={**CANDLES, "from": T0, "period": 60}, key="basic-key")
    assert answer.json()["error"] == "HISTORY_NOT_PERMITTED"


def test_history_weighs_as_points_do_and_what_is_resumed_weighs_nothing(service: Service) -> None:
    token = lines(service, **{"from": T0, "period": 180})[-1]["token"]
    used = service.get("/v1/usage").json()["used"]
    assert used == 1
    (end,) = lines(service, **{"from": T0, "period": 180, "token": token})
    assert end["end"]["code"] == "PERIOD_OVER"
    assert service.get("/v1/usage").json()["used"] == used


def test_metrics_tell_the_readers(service: Service) -> None:
    text = service.get("/metrics").text
    for name in ("readers", "lag_seconds", "conflated_total", "cut_total"):
        assert f"tidytape_stream_{name} 0.0" in text


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_a_token_is_of_one_query_one_lake_and_one_secret(service: Service) -> None:
    token = lines(service, **{"from": T0, "period": 180})[-1]["token"]
    for params in ({"interval": "HOUR"}, {"type": "TRADE_AGG"}, {"from": T0 + 60, "period": 60}):
        answer = service.get(
            "/v1/stream", params={**CANDLES, "from": T0, "period": 180, "token": token, **params}
        )
        assert answer.json()["error"] == "INVALID_PARAMS", params
    broken = token[:10] + ("A" if token[10] != "A" else "B") + token[11:]
    for wrong in (broken, token[:-2], token + "A", token.replace(".", ""), "ö", "a" * 5_000):
        answer = service.get("/v1/stream", params={**CANDLES, "token": wrong})
        assert answer.json()["error"] == "INVALID_PARAMS", wrong


# --- readers --------------------------------------------------------------------------------------------------------

Run = Callable[[Callable[[Lake], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a coroutine over a lake of one market, with a trade a minute before T0."""
    lake = empty_lake(tmp_path / "lake")
    registered(lake, "BTCUSDT")
    add(lake, 0, -60)
    return lambda work: asyncio.run(work(lake))


def add(lake: Lake, number: int, *seconds: float, price: float = 100.0) -> None:
    rows = [
        (str(number * 1_000 + place), round((T0 + at) * SECOND), "BUY", price, 1.0)
        for place, at in enumerate(seconds)
    ]
    lake.writer().append("trades", trades(rows), source=f"source {number}")


def query(*types: str, **more: Any) -> StreamQuery:
    interval = {} if types == ("TRADE",) else {"interval": "1m"}
    return StreamQuery(
        type=list(types), exchange="X", raw_symbol="BTCUSDT", **interval, **{"start": T0 - 60, **more}
    )


CANDLE = "TRADE_SIDE_AGNOSTIC_AGG"


@pytest.mark.slow
def test_an_interval_is_updated_then_final_once_then_over_and_a_late_trade_revises_it(run: Run) -> None:
    async def work(lake: Lake) -> None:
        streams = streams_of(lake)
        reader = await Driven(streams, query(CANDLE)).open()
        seen: list[Batch] = []
        apply, reader.held.apply = reader.held.apply, lambda batch: (seen.append(batch), apply(batch))  # type: ignore[method-assign, func-returns-value, assignment]
        await reader.caught_up()
        for number, seconds in enumerate(((1, 2), (30,), (61,), (20,)), start=1):
            add(lake, number, *seconds)
            await streams.look()
            await reader.caught_up()
        told = [
            (
                change.value,
                [(at.timestamp() - T0, volume) for at, volume in frame.select("timestamp", "volume").rows()],
            )
            for batch in seen
            for (_, change), frame in batch.frames.items()
        ]
        assert told == [
            ("update", [(-60, 1.0)]),
            ("final", [(-60, 1.0)]),
            ("update", [(0, 2.0)]),
            ("update", [(0, 3.0)]),
            ("final", [(0, 3.0)]),
            ("update", [(60, 1.0)]),
            ("revision", [(0, 4.0)]),
        ]
        over = [{name: at // SECOND - T0 for name, at in batch.over.items()} for batch in seen]
        assert [one for one in over if one] == [{CANDLE: -60}, {CANDLE: 0}]  # nothing of before the window
        await reader.close()

    run(work)


@pytest.mark.slow
def test_a_slow_reader_of_state_gets_one_difference_and_does_not_hold_up_the_other(run: Run) -> None:
    async def work(lake: Lake) -> None:
        streams = streams_of(lake)
        slow, quick = [await Driven(streams, query(CANDLE)).open() for _ in range(2)]
        await slow.caught_up()
        await quick.caught_up()
        assert slow.reader.feed is quick.reader.feed
        slow.may_read.clear()
        for number in range(1, 12):
            add(lake, number, number * 5)
            await streams.look()
            await quick.caught_up()
            for sent in slow.reader.feed._sent:
                sent.made_at -= reading._LATE  # as if a second went by
        assert quick.held.batches == 12
        slow.may_read.set()
        await slow.caught_up()
        # The batch that it was handling, and one difference.
        assert slow.held.batches == 3
        assert streams.counts["conflated"] > 0
        (window,) = query(CANDLE).window(T0 - 60, T0 + 120)
        for one in (slow, quick):
            one.held.require_answer(lake, window)
            await one.close()

    run(work)


@pytest.mark.slow
def test_late_readers_of_one_place_share_a_difference_and_those_that_leave_do_not_end_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[PartTask] = []

    def counted(task: PartTask, engine: Engine, *, compute: Any = PartTask.computed) -> PartAnswer:
        computed.append(task)
        return compute(task, engine)  # type: ignore[no-any-return]

    async def work(lake: Lake) -> None:
        streams = streams_of(lake)
        readers = [await Driven(streams, query(CANDLE)).open() for _ in range(6)]
        for one in readers:
            await one.caught_up()
        monkeypatch.setattr(PartTask, "computed", counted)
        (feed,) = {one.reader.feed for one in readers}
        add(lake, 1, 5)
        monkeypatch.setattr(reading, "_LATE", -1.0)  # every batch is too old
        await streams.look()
        while not feed._shared:
            await asyncio.sleep(0)
        await readers.pop(0).close()
        for one in readers:
            await one.caught_up()
        assert len(computed) == 1
        (window,) = query(CANDLE).window(T0 - 60, T0 + 120)
        for one in readers:
            one.held.require_answer(lake, window)
            await one.close()
        assert not feed._shared

    run(work)


@pytest.mark.slow
def test_the_parts_of_a_key_do_not_fill_the_queue(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_PARTS_OF_KEY", 2)
    at_once = [0]

    async def work(lake: Lake) -> None:
        threads = Threads(Engine(lake))

        async def counted(task: PartTask, *, compute: Any = threads.run) -> PartAnswer:
            at_once.append(at_once[-1] + 1)
            try:
                return await compute(task)  # type: ignore[no-any-return]
            finally:
                at_once.append(at_once[-1] - 1)

        monkeypatch.setattr(threads, "run", counted)
        streams = streams_of(lake, computing=threads)
        readers = await asyncio.gather(*(Driven(streams, query(CANDLE)).open() for _ in range(6)))
        for one in readers:
            await one.caught_up()
            await one.close()

    run(work)
    assert max(at_once) == 2


@pytest.mark.slow
def test_a_reader_of_trades_gets_all_of_them_or_is_cut_with_its_token(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MOST_TRADES", 20)

    async def work(lake: Lake) -> None:
        streams = streams_of(lake)
        reader = await Driven(streams, query("TRADE")).open()
        await reader.caught_up()
        reader.may_read.clear()
        for number in range(1, 6):
            add(lake, number, *(number * 10 + place / 10 for place in range(9)))
            await streams.look()
            for sent in reader.reader.feed._sent:
                sent.made_at -= 5.0
        while len(reader.reader.feed._sent) > 1:  # as the bound of rows would
            gone = reader.reader.feed._sent.popleft()
            del reader.reader.feed._by_place[gone.before.place]
        reader.may_read.set()
        await asyncio.wait_for(asyncio.gather(reader._task), 30)
        assert reader.held.end is not None
        assert reader.held.end[0] == "SLOW_READER"
        assert streams.counts["cut"] == 1
        again = Driven(streams, query("TRADE", token=reader.held.token))
        again.held = reader.held
        await reader.close()
        await again.open()
        await again.caught_up()
        (window,) = query("TRADE").window(T0 - 60, T0 + 600)
        again.held.require_answer(lake, window)
        await again.close()

    run(work)


def test_a_key_holds_as_many_streams_as_its_tier_may(run: Run) -> None:
    async def work(lake: Lake) -> None:
        streams, who = streams_of(lake), account()
        who.tier = replace(TIERS["basic"], streams=2)
        readers = [await Driven(streams, query(CANDLE, start=None), who).open() for _ in range(2)]
        with pytest.raises(RefusedError, match="holds 2 streams") as refused:
            await Driven(streams, query(CANDLE, start=None), who).open()
        assert refused.value.code == "STREAM_LIMIT_EXCEEDED"
        await readers[0].close()
        await (await Driven(streams, query(CANDLE, start=None), who).open()).close()
        await readers[1].close()
        assert not streams._feeds
        assert streams._held.total() == 0

    run(work)


@pytest.mark.slow
def test_a_token_whose_files_were_vacuumed_is_refused_by_name(run: Run) -> None:
    async def work(lake: Lake) -> None:
        add(lake, 50, 200)
        streams = streams_of(lake)
        reader = await Driven(streams, query(CANDLE)).open()
        await reader.caught_up()
        await reader.close()
        for number in range(1, 4):
            add(lake, number, number * 30)
        hygiene.compact(lake, everything=True, progress=False)
        late = query(CANDLE, token=reader.held.token)
        await (await Driven(streams, late).open()).close()  # the old files are still there
        hygiene.vacuum(lake, retention_hours=0, dry_run=False)
        with pytest.raises(RefusedError, match="removed") as refused:
            await Driven(streams_of(Lake(lake.path)), late).open()
        assert refused.value.code == "TOKEN_EXPIRED"
        assert refused.value.over == reader.held.over != {}
        assert "the last interval that was over: TRADE_SIDE_AGNOSTIC_AGG from " in refused.value.message

    run(work)


def test_a_token_of_a_lake_that_was_put_back_is_refused(run: Run) -> None:
    async def work(lake: Lake) -> None:
        tokens = Tokens(SECRET)
        streams = streams_of(lake)
        reader = await Driven(streams, query(CANDLE)).open()
        await reader.caught_up()
        position = reader.reader.position
        ahead = replace(position, at={name: version + 5 for name, version in position.at.items()})
        token = reader.reader.write_token(ahead)
        await reader.close()
        with pytest.raises(RefusedError, match="older than it"):
            await Driven(streams_of(lake), query(CANDLE, token=token)).open()
        with pytest.raises(QueryError):
            tokens.read(token, lake="another", query="x")

    run(work)


def test_a_revoked_key_and_a_service_that_ends_end_the_streams_with_a_token(run: Run) -> None:
    async def work(lake: Lake) -> None:
        streams = streams_of(lake)
        streams._allowed = lambda key: key != "revoked"
        first = await Driven(streams, query(CANDLE), account(key="kept")).open()
        second = Driven(streams, query(CANDLE), account(key="revoked"))
        await second.open()
        await streams.look()
        await asyncio.wait_for(asyncio.gather(second._task), 10)
        assert second.held.end is not None
        assert second.held.end[0] == "INVALID_API_KEY"
        await first.caught_up()
        streams.close()
        await asyncio.wait_for(asyncio.gather(first._task), 10)
        assert first.held.end is not None
        assert first.held.end[0] == "SHUTTING_DOWN"
        assert first.held.token
        await first.close()
        await second.close()

    run(work)


@pytest.mark.slow
def test_without_a_start_the_stream_begins_with_the_interval_in_progress(run: Run) -> None:
    async def work(lake: Lake) -> None:
        add(lake, 1, 5, 65)
        streams = streams_of(lake)
        reader = await Driven(streams, query(CANDLE, start=None)).open()
        await reader.caught_up()
        assert reader.reader.weight == 0
        assert reader.reader.position.start == T0 + 60
        assert [*reader.held.points[CANDLE]["timestamp"].dt.epoch("s")] == [T0 + 60]
        await reader.close()

    run(work)


@pytest.mark.slow
def test_a_period_ends_the_stream_when_the_market_is_known_beyond_it(run: Run) -> None:
    async def work(lake: Lake) -> None:
        streams = streams_of(lake)
        reader = await Driven(streams, query(CANDLE, end=T0 + 60)).open()
        await reader.caught_up()
        for number, second in enumerate((10, 59.9, 60), start=1):
            assert reader.held.end is None
            add(lake, number, second)
            await streams.look()
            await asyncio.sleep(0.3 if number == 3 else 0.05)
            await reader.caught_up()
        await asyncio.wait_for(asyncio.gather(reader._task), 10)
        assert reader.held.end is not None
        assert reader.held.end[0] == "PERIOD_OVER"
        (window,) = query(CANDLE).window(T0 - 60, T0 + 60)
        reader.held.require_answer(lake, window)
        await reader.close()

    run(work)


@pytest.mark.slow
def test_a_period_that_ends_inside_an_interval_ends_with_the_interval(run: Run) -> None:
    async def work(lake: Lake) -> None:
        streams = streams_of(lake)
        reader = await Driven(streams, query(CANDLE, end=T0 + 30)).open()
        for number, second in enumerate((10, 35, 61), start=1):
            await reader.caught_up()
            assert reader.held.end is None
            add(lake, number, second)
            await streams.look()
        await asyncio.wait_for(asyncio.gather(reader._task), 10)
        assert [*reader.held.finals[CANDLE]["timestamp"].dt.epoch("s")] == [T0 - 60, T0]
        (window,) = query(CANDLE).window(T0 - 60, T0 + 30)
        reader.held.require_answer(lake, window)
        await reader.close()

    run(work)


@pytest.mark.slow
def test_minutes_do_not_lie_about_a_market_that_has_long_been_quiet(run: Run) -> None:
    """It does not hold up the end of intervals; what it delivers later are revisions."""

    async def work(lake: Lake) -> None:
        registered(lake, "BTCUSDT", "BTCQUIET")
        old = [("7", (T0 - 3 * 86_400) * SECOND, "BUY", 100.0, 1.0)]
        lake.writer().append("trades", trades(old, "BTCQUIET"), source="quiet")
        streams = streams_of(lake)
        both = StreamQuery(type=CANDLE, exchange="X", coin="BTC", interval="1m", start=T0 - 60)
        reader = await Driven(streams, both).open()
        add(lake, 1, 61)
        await streams.look()
        await reader.caught_up()
        assert reader.held.over == {CANDLE: T0 * SECOND}
        lake.writer().append(
            "trades", trades([("8", T0 * SECOND + MINUTE // 2, "BUY", 1.0, 1.0)], "BTCQUIET"), source="late"
        )
        await streams.look()
        await reader.caught_up()
        assert reader.held.points[CANDLE].filter(raw_symbol="BTCQUIET").height == 1
        await reader.close()

    run(work)
