"""A stream is what the service sent, once, wherever its connection is cut."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from datetime import UTC, datetime
from typing import Any, get_args

import httpx
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidytape
from client.stream_service import (
    FOREVER,
    KEY,
    KINDS,
    LINES,
    QUERY,
    TYPE,
    Streaming,
    answer,
    follow,
    line,
    make,
    refusal,
    rest_of,
    resuming,
    series,
)
from tables import each_row
from tidytape.catalogue import DATA_TYPES, Change
from tidytape.client._streams import DataTypeName
from tidytape.errors import (
    AuthenticationError,
    DecodeError,
    QueryError,
    RateLimitError,
    RefusedQueryError,
    ServerError,
    ServiceError,
    StreamGapError,
    TapeError,
    TidytapeError,
    TierError,
    TransportError,
)
from tidytape.schema import schema_of

both = pytest.mark.parametrize("kind", KINDS)
ENDED = LINES[-1]


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def rows(frame: pl.DataFrame) -> list[tuple[int, float]]:
    return list(frame.select(pl.col("timestamp").dt.epoch("s"), "close").iter_rows())


def received(batches: list[Any]) -> list[tuple[str, int, float]]:
    """Every row of all batches with its change, in the order in which it came."""
    return [
        (change, *row)
        for batch in batches
        for change, frame in (
            ("revision", batch.revisions), ("final", batch.finals), ("update", batch.updates)
        )
        for row in rows(frame)
    ]  # fmt: skip


EXPECTED = [
    ("final", 0, 1.0), ("final", 60, 2.0), ("update", 120, 1.5), ("update", 120, 1.6),
    ("revision", 0, 1.1), ("final", 120, 1.7),
]  # fmt: skip


# --- batches --------------------------------------------------------------------------------------------------------


@both
def test_a_batch_has_frames_a_time_and_a_token(kind: str) -> None:
    first, second, third = follow(kind, resuming(LINES))
    assert received([first, second, third]) == EXPECTED
    assert rows(third.frame) == [(0, 1.1), (120, 1.7)]
    assert [first.over, second.over, third.over] == [at(60), None, at(120)]
    assert [first.token, second.token, third.token] == ["t0", "t2", "t3"]
    assert first.frame["is_final"].to_list() == [True, True, False]
    assert repr(third) == f"<StreamBatch {TYPE}: 1 revision, 1 final, over 1970-01-01 00:02:00>"


@both
@pytest.mark.parametrize("backend", ["polars", "pandas"])
def test_frames_have_the_columns_and_dtypes_of_a_fetch(kind: str, backend: str) -> None:
    fetched = tidytape.Client(
        "http://service", KEY, backend=backend, cache=False,
        transport=httpx.MockTransport(lambda _: httpx.Response(200, json={"series": series([(0, 1.0)]), "notes": []})),
    ).candles(**QUERY, end=60)  # fmt: skip
    for batch in follow(kind, resuming(LINES), options={"backend": backend}):
        for frame in (batch.frame, batch.finals, batch.updates, batch.revisions):
            assert type(frame) is type(fetched)
            assert list(frame.columns) == list(fetched.columns)
            assert list(map(str, frame.dtypes)) == list(map(str, fetched.dtypes))


@each_row("name", DATA_TYPES)
def test_a_batch_without_rows_has_the_schema_of_its_type(name: str) -> None:
    select = {
        "TOKEN_SUPPLY_AGG": {"token_name": "Bitcoin"},
        "VENUEX_LIQUIDATION_AGG": {"coin": "BTC"},
        "SKEW_OPTION_SUMMARY_AGG": {"exchange": "X", "coin": "BTC", "raw_symbol": "S", "tenor": "1w"},
    }.get(name, {"exchange": "X", "coin": "BTC"})
    sent = b'{"over":{"%b":{"s":60}},"token":"a","end":{"code":"PERIOD_OVER"}}\n' % name.encode()
    client = make("sync", resuming([sent]))
    (batch,) = client.stream(name, interval="1m", **select)
    assert batch.frame.schema == schema_of(name).empty().schema
    assert batch.over == at(60)


@both
def test_several_types_have_frames_of_their_own(kind: str) -> None:
    other = "TRADE_AGG"
    sent = [
        b'{"final":%b,"over":{"%b":{"s":0}},"token":"a"}\n'
        % (httpx.Response(200, json=series([(0, 1.0)], other)).content, other.encode()),
        ENDED,
    ]
    (batch,) = follow(kind, resuming(sent), types=[TYPE, other])
    assert {name: frame.height for name, frame in batch.frames.items()} == {TYPE: 0, other: 1}
    assert batch.frames[TYPE].schema == schema_of(TYPE).empty().schema
    assert (batch.of("trade_agg").finals.height, batch.of(TYPE).over, batch.of(other).over) == (
        1,
        None,
        at(0),
    )
    with pytest.raises(QueryError, match=r"batch\.of"):
        _ = batch.frame
    with pytest.raises(QueryError, match="expected one of TRADE_SIDE"):
        batch.of("TRADE")


# --- laws -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@both
@given(cuts=st.lists(st.integers(0, 10_000), max_size=20), size=st.integers(1, 700))
@settings(deadline=None, max_examples=60)
def test_wherever_connections_are_cut_nothing_is_lost_and_nothing_comes_twice(
    kind: str, cuts: list[int], size: int
) -> None:
    service = resuming(LINES, cuts, size)
    assert received(follow(kind, service, options={"attempts": 100})) == EXPECTED
    assert len(service.requests) <= len(cuts) + 1


@pytest.mark.long
@both
def test_a_cut_after_any_byte_changes_nothing(kind: str) -> None:
    for cut in range(len(b"".join(LINES)) + 1):
        assert received(follow(kind, resuming(LINES, [cut]))) == EXPECTED


@pytest.mark.long
@both
@given(
    changes=st.lists(
        st.dictionaries(
            st.sampled_from([change.value for change in Change]),
            st.lists(st.integers(0, 50), min_size=1, max_size=4, unique=True),
            max_size=3,
        ),
        max_size=8,
    ),
    cuts=st.lists(st.integers(0, 100_000), max_size=10),
    resumes=st.integers(0, 8),
)
@settings(deadline=None, max_examples=60)
def test_whoever_keeps_the_token_of_a_batch_goes_on_after_it(
    kind: str, changes: list[dict[str, list[int]]], cuts: list[int], resumes: int
) -> None:
    lines, expected = [], []
    for number, batch in enumerate(changes):
        points = {
            change: [(60 * minute, float(number)) for minute in sorted(minutes)]
            for change, minutes in batch.items()
        }
        lines.append(line(f"t{number}", **points))
        expected += [(change.value, *row) for change in Change for row in points.get(change.value, [])]
    lines.append(ENDED)
    options = {"attempts": 100}
    begun: list[Any] = []

    def stop(stream: Any, batch: Any) -> None:
        begun.append(batch)
        if len(begun) > resumes:
            stream.stop()

    first = follow(kind, resuming(lines, cuts), options=options, each=stop)
    assert first == begun
    token = begun[-1].token if begun else None
    second = follow(kind, resuming(lines, cuts), options=options, token=token)
    assert received(first + second) == expected


# --- connections ----------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("code", ["SHUTTING_DOWN", "SLOW_READER", "INTERNAL_ERROR", "OF_A_NEWER_SERVICE"])
def test_a_service_that_ends_the_stream_is_asked_to_go_on(kind: str, code: str) -> None:
    first = answer(LINES[0], line("t2", update=[(120, 1.6)], end=code))
    service = Streaming(first, lambda request: answer(rest_of(LINES, request)))
    assert received(follow(kind, service)) == EXPECTED
    assert service.tokens == [None, "t2"]


@both
def test_refusals_that_pass_are_waited_for(kind: str) -> None:
    service = Streaming(
        refusal(503, "UNAVAILABLE"), httpx.ConnectError("refused"), refusal(429, "RATE_LIMITED", retry_after="1"),
        httpx.ReadError("reset"), answer(LINES[0], httpx.ReadError("reset")), refusal(502, "BAD"),
        lambda request: answer(rest_of(LINES, request)),
    )  # fmt: skip
    assert received(follow(kind, service)) == EXPECTED
    assert service.tokens == [None] * 5 + ["t0"] * 2


@both
@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (401, "INVALID_API_KEY", AuthenticationError),
        (403, "TYPE_NOT_PERMITTED", TierError),
        (403, "STREAM_LIMIT_EXCEEDED", TierError),
        (400, "INVALID_PARAMS", RefusedQueryError),
        (404, "NOT_FOUND", ServiceError),
        (410, "TOKEN_EXPIRED", ServiceError),
    ],
)
def test_other_refusals_are_errors_at_once(
    kind: str, status: int, code: str, error: type[TidytapeError]
) -> None:
    service = Streaming(refusal(status, code))
    with pytest.raises(error) as caught:
        follow(kind, service)
    assert len(service.requests) == 1
    assert type(caught.value) is error
    assert caught.value.__cause__ is caught.value.__context__ is None


@both
def test_the_place_of_a_connection_that_was_cut_is_waited_for(kind: str) -> None:
    service = Streaming(
        answer(LINES[0]),
        refusal(403, "STREAM_LIMIT_EXCEEDED"),
        lambda request: answer(rest_of(LINES, request)),
    )
    assert received(follow(kind, service)) == EXPECTED


@both
@pytest.mark.parametrize(
    "failing",
    [
        lambda _: refusal(503, "UNAVAILABLE"),
        httpx.ConnectError("refused"),
        lambda _: answer(),
        lambda _: answer(line("t0")),
    ],
    ids=["refused", "unreachable", "cut", "a sign of life"],
)
def test_attempts_are_counted_until_there_are_news(kind: str, failing: Any) -> None:
    service = Streaming(answer(LINES[0]), failing)
    with pytest.raises((ServerError, TransportError)):
        follow(kind, service, options={"attempts": 4})
    assert len(service.requests) == 4


@both
def test_a_pause_is_as_long_as_the_service_says_unless_no_waiting_is_wanted(kind: str) -> None:
    service = Streaming(refusal(429, "RATE_LIMITED", retry_after="3600"), answer(*LINES))
    client = make(kind, service, on_limit="raise")
    with pytest.raises(RateLimitError) as caught:
        first_of(client.stream(TYPE, **QUERY))
    assert caught.value.retry_after == 3600
    client = make(kind, Streaming(refusal(503, "UNAVAILABLE", retry_after="3600")), deadline=60)
    with pytest.raises(ServerError):  # it would come back too late
        first_of(client.stream(TYPE, **QUERY))


def first_of(stream: Any) -> Any:
    """The next batch of a stream of either client."""
    if hasattr(stream, "__next__"):
        return next(stream)

    async def awaited() -> Any:
        return await anext(stream)

    return asyncio.run(awaited())


@both
def test_a_connection_that_falls_silent_is_made_anew(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidytape.client._following.SILENCE", 0.05)
    service = Streaming(answer(LINES[0], FOREVER), lambda request: answer(rest_of(LINES, request)))
    assert received(follow(kind, service, options={"timeout": 0.05})) == EXPECTED
    assert service.tokens == [None, "t0"]


# --- gaps -----------------------------------------------------------------------------------------------------------

expiries = pytest.mark.parametrize(
    "expired",
    [lambda _: refusal(410, "TOKEN_EXPIRED"), lambda _: answer(line("t9", end="TOKEN_EXPIRED"))],
    ids=["refused", "ended"],
)


@both
@expiries
def test_a_token_that_expired_is_an_error_with_what_was_delivered(kind: str, expired: Any) -> None:
    with pytest.raises(StreamGapError) as caught:
        follow(kind, Streaming(answer(LINES[0]), expired))
    error = caught.value
    assert error.data_types == (TYPE,)
    assert error.over == {TYPE: at(60)}
    assert error.token in {"t0", "t9"}
    assert "on_gap='restart'" in str(error)


@both
def test_a_refused_token_of_another_process_says_what_it_had_delivered(kind: str) -> None:
    body = {
        "error": "TOKEN_EXPIRED",
        "message": "token: gone",
        "over": {TYPE: {"s": 60}, "TRADE": {"s": 1}, "X": 5},
    }
    expired = httpx.Response(410, json=body)
    with pytest.raises(StreamGapError) as caught:
        follow(kind, Streaming(expired), start=None, token="old")
    assert caught.value.over == {TYPE: at(60)}
    anew = answer(line("u0", final=[(120, 1.7)], over=120), ENDED)
    service = Streaming(httpx.Response(410, json=body), anew)
    (first, *_) = follow(kind, service, on_gap="restart", start=None, token="old")
    assert first.gap == (None, at(120))
    assert service.requests[-1].url.params["from"] == "120"


@each_row("over", [None, 5, [], {TYPE: None}, {TYPE: 5}, {TYPE: {"s": "x"}}])
def test_a_refusal_that_says_it_in_another_way_says_nothing(over: Any) -> None:
    refused = httpx.Response(410, json={"error": "TOKEN_EXPIRED", "message": "no", "over": over})
    with pytest.raises(StreamGapError, match="is not known here") as caught:
        follow("sync", Streaming(refused), start=None, token="old")
    assert caught.value.over == {}


@both
@expiries
def test_a_stream_that_starts_anew_says_so(kind: str, expired: Any) -> None:
    anew = [line("u0", final=[(120, 1.7)], over=120), line("u1", update=[(180, 1.8)]), ENDED]
    service = Streaming(answer(LINES[0]), expired, answer(*anew))
    first, second, third = follow(kind, service, on_gap="restart")
    assert (first.gap, second.gap, third.gap) == (None, (at(0), at(120)), None)
    assert received([second, third]) == [("final", 120, 1.7), ("update", 180, 1.8)]
    params = service.requests[-1].url.params
    assert (params["from"], "token" in params) == ("120", False)
    assert "started anew at 1970-01-01 00:02:00" in repr(second)


@both
def test_a_gap_that_reaches_the_end_is_still_reported(kind: str) -> None:
    service = Streaming(answer(LINES[0]), refusal(410, "TOKEN_EXPIRED"))
    *_, last = follow(kind, service, on_gap="restart", end=120)
    assert last.gap == (at(0), at(120))
    assert last.frame.is_empty()


@both
def test_trades_start_anew_at_the_newest_one_that_came(kind: str) -> None:
    trade = (
        b'{"final":[{"id":{"type":"TRADE","exchange":"X","rawSymbol":"BTC"},"points":[{"Point":{"timestamp":'
        b'{"s":%d,"ns":5},"id":"%d","price":1.0,"amount":1.0}}]}],"token":"a"}\n'
    )
    service = Streaming(
        answer(trade % (70, 1), trade % (65, 2)), refusal(410, "TOKEN_EXPIRED"), answer(ENDED)
    )
    *_, last = follow(kind, service, types="TRADE", interval=None, on_gap="restart")
    assert (last.gap, service.requests[-1].url.params["from"]) == ((at(0), at(70)), "70")


@both
def test_a_stream_that_does_not_know_where_to_start_anew_is_an_error(kind: str) -> None:
    with pytest.raises(StreamGapError, match="start names a time"):
        follow(kind, Streaming(refusal(410, "TOKEN_EXPIRED")), on_gap="restart", start=None, token="old")


@both
def test_a_service_that_forgets_every_token_is_given_up(kind: str) -> None:
    service = Streaming(lambda _: answer(line("t0"), line("t1", end="TOKEN_EXPIRED")))
    with pytest.raises(ServerError, match="TOKEN_EXPIRED"):
        follow(kind, service, on_gap="restart", options={"attempts": 5})
    assert len(service.requests) == 5


# --- stopping -------------------------------------------------------------------------------------------------------


def run_until_stopped(kind: str, transport: Any, stop: Any) -> float:
    """Follow a stream that waits for ever, and return how long it went on after ``stop`` was called. [s]"""
    stopped: list[float] = []

    def each(stream: Any, _: Any) -> None:
        def soon() -> None:
            time.sleep(0.05)
            stopped.append(time.monotonic())
            stop(stream)

        threading.Thread(target=soon).start()

    follow(kind, transport, each=each)
    return time.monotonic() - stopped[0]


@both
def test_stop_from_another_thread_ends_a_stream_that_waits(kind: str) -> None:
    service = Streaming(answer(LINES[0], FOREVER))
    assert run_until_stopped(kind, service, lambda stream: stream.stop()) < 10


@both
def test_stop_in_the_loop_ends_it(kind: str) -> None:
    assert len(follow(kind, resuming(LINES), each=lambda stream, batch: stream.stop())) == 1


@both
def test_stop_ends_a_pause_between_connections(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = make(kind, Streaming(refusal(503, "UNAVAILABLE", retry_after="100")))
    stream = client.stream(TYPE, **QUERY)
    threading.Timer(0.1, stream.stop).start()
    with pytest.raises((StopIteration, StopAsyncIteration, RuntimeError)):
        first_of(stream)


def test_stop_in_a_signal_handler_ends_it() -> None:
    stream = make("sync", Streaming(answer(LINES[0], FOREVER))).stream(TYPE, **QUERY)
    next(stream)
    before = signal.signal(signal.SIGALRM, lambda *_: stream.stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        assert list(stream) == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_ctrl_c_closes_the_connection_and_the_loop_can_be_begun_again() -> None:
    first = answer(LINES[0], FOREVER)
    body: Any = first.stream
    service = Streaming(first, lambda request: answer(rest_of(LINES, request)))
    stream = make("sync", service).stream(TYPE, **QUERY)
    batches = [next(stream)]
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            next(stream)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert body.closed.wait(10)
    assert received(batches + list(stream)) == EXPECTED


@pytest.mark.slow
@both
def test_a_stream_that_is_forgotten_closes_its_connection(kind: str) -> None:
    given = answer(LINES[0], FOREVER)
    body: Any = given.stream
    client = make(kind, Streaming(given))

    async def forget() -> None:
        stream = client.stream(TYPE, **QUERY)
        await anext(stream)
        del stream
        gc.collect()
        for _ in range(100):
            await asyncio.sleep(0.01)
            if body.closed.is_set():
                break

    if kind == "async":
        asyncio.run(forget())
    else:
        stream = client.stream(TYPE, **QUERY)
        next(stream)
        del stream
        gc.collect()
    assert body.closed.wait(10)


def test_a_cancelled_task_leaves_a_stream_that_goes_on() -> None:
    service = Streaming(answer(LINES[0], FOREVER), lambda request: answer(rest_of(LINES, request)))

    async def cancelled() -> list[Any]:
        stream = make("async", service).stream(TYPE, **QUERY)
        batches = [await anext(stream)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(stream)
        return batches + [batch async for batch in stream]

    assert received(asyncio.run(cancelled())) == EXPECTED


@both
def test_a_closed_client_ends_its_streams_with_an_error(kind: str) -> None:
    client = make(kind, Streaming(answer(LINES[0])))

    async def closed() -> None:
        stream = client.stream(TYPE, **QUERY)
        await anext(stream)
        await client.aclose()
        await anext(stream)

    def closed_meanwhile() -> None:
        stream = client.stream(TYPE, **QUERY)
        next(stream)
        client.close()
        next(stream)

    with pytest.raises(TransportError, match="the client is closed"):
        asyncio.run(closed()) if kind == "async" else closed_meanwhile()


# --- what is refused, and what is not shown -------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"interval": "2m"}, "interval"),
        ({"raw_symbol": None}, "raw_symbol"),
        ({"start": None, "end": 60}, "start"),
        ({"start": "-1parsec"}, "start"),
        ({"start": 60, "end": 60}, "end"),
        ({"token": "\n"}, "token"),
        ({"on_gap": "ignore"}, "on_gap"),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_is_sent(
    kind: str, changes: dict[str, Any], parameter: str
) -> None:
    service = Streaming(answer())
    with pytest.raises(QueryError) as refused:
        make(kind, service).stream(TYPE, **(QUERY | changes))
    assert refused.value.parameter == parameter
    assert service.requests == []


def test_a_time_before_now_is_the_same_on_every_connection() -> None:
    service = resuming([line("a"), line("b"), ENDED], [len(line("a")), len(line("b"))])
    begun = int(time.time())
    follow("sync", service, start="-1h")
    assert service.tokens == [None, "a", "b"]
    # The token knows where the stream began.
    assert ["from" in request.url.params for request in service.requests] == [True, False, False]
    assert begun - 3600 <= int(service.requests[0].url.params["from"]) <= time.time() - 3600


@both
def test_a_tape_and_a_client_that_is_offline_refuse_a_stream(kind: str, tmp_path: Any) -> None:
    client = make(kind, Streaming(answer()))
    with (
        client.record(tmp_path / "study.tape"),
        pytest.raises(TapeError, match="a tape cannot hold a stream"),
    ):
        client.stream(TYPE, **QUERY)
    replayed = type(client).replay(tmp_path / "study.tape")
    with pytest.raises(TapeError, match="a tape cannot hold a stream"):
        replayed.stream(TYPE, **QUERY)
    offline = make(kind, Streaming(answer()), offline=True, cache=tmp_path / "cache")
    with pytest.raises(TransportError, match="offline"):
        offline.stream(TYPE, **QUERY)


@both
def test_the_key_is_in_no_error_and_no_repr(kind: str) -> None:
    spoken = {"error": "INVALID_PARAMS", "message": f"the key {KEY} is wrong"}
    with pytest.raises(RefusedQueryError) as caught:
        follow(kind, Streaming(httpx.Response(400, json=spoken)))
    assert KEY not in repr(caught.value) + str(vars(caught.value))
    ended = b'{"token":"a","end":{"code":"INTERNAL_ERROR","message":"%b"}}\n' % KEY.encode()
    with pytest.raises(ServerError) as failed:
        follow(kind, Streaming(lambda _: answer(ended)))
    assert KEY not in repr(failed.value) + str(vars(failed.value))
    assert KEY not in repr(make(kind, Streaming(answer())).stream(TYPE, **QUERY))


def test_an_editor_completes_the_names_of_data_types() -> None:
    assert get_args(DataTypeName) == tuple(DATA_TYPES)


# --- a service that means harm --------------------------------------------------------------------------------------


def endless() -> Any:
    while True:
        yield b" " * 2**16


HOSTILE = {
    "garbage": [b"\x00\xff garbage\n"],
    "a page": [b"<html>log in</html>\n"],
    "no object": [b"[]\n"],
    "no token": [b"{}\n"],
    "a token that no URL takes": [b'{"token":"a b"}\n'],
    "a long token": [b'{"token":"' + b"a" * 100_000 + b'"}\n'],
    "a number as token": [b'{"token":1}\n'],
    "an empty line": [b"\n"],
    "series of another market": [
        b'{"final":[{"id":{"exchange":"Y"},"points":[{"Point":{"timestamp":{"s":0},"open":1}}]}],"token":"a"}\n'
    ],
    "no interval starts there": [line("a", final=[(7, 1.0)])],
    "a point twice": [line("a", final=[(0, 1.0), (0, 2.0)])],
    "before the start": [line("a", final=[(0, 1.0)])],
    "wrong types": [b'{"final":{"a":1},"token":"a"}\n'],
    "a text as price": [
        b'{"final":[{"id":{"exchange":"X"},"points":[{"Point":{"timestamp":{"s":0},"open":"x"}}]}],"token":"a"}\n'
    ],
    "over that is none": [b'{"over":[],"token":"a"}\n'],
    "over beyond all times": [b'{"over":{"%b":{"s":99999999999999}},"token":"a"}\n' % TYPE.encode()],
    "deep": [b"[" * 100_000 + b"\n"],
    "a long line": [b" " * 300_000],
    "a long whole line": [b" " * 300_000 + b"\n"],
}


@both
@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_service_of_ours_sends_is_an_error_that_says_so(kind: str, name: str) -> None:
    start = 86_400 if name == "before the start" else 0
    service = Streaming(answer(*HOSTILE[name], FOREVER))
    with pytest.raises(DecodeError):
        follow(kind, service, options={"max_body": 200_000}, start=start)
    assert len(service.requests) == 1


@both
def test_an_endless_line_takes_no_more_memory_than_was_allowed(kind: str) -> None:
    given = answer()
    given.stream = type(given.stream)(endless())  # type: ignore[call-arg]
    with pytest.raises(DecodeError, match="max_body"):
        follow(kind, Streaming(given), options={"max_body": 2**20})


@both
@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate"])
def test_a_compressed_stream_is_not_unpacked(kind: str, encoding: str) -> None:
    with pytest.raises(DecodeError, match="encoded as"):
        follow(kind, Streaming(answer(*LINES, content_encoding=encoding)))


@both
def test_a_line_that_never_ends_in_time_is_cut(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def drip() -> Any:
        while True:
            time.sleep(0.01)
            yield b" "

    def dripping(_: httpx.Request) -> httpx.Response:
        given = answer()
        given.stream = type(given.stream)(drip())  # type: ignore[call-arg]
        return given

    with pytest.raises(TransportError):
        follow(kind, Streaming(dripping), options={"deadline": 0.1, "attempts": 2})


@both
def test_after_an_error_nothing_comes(kind: str) -> None:
    stream = make(kind, Streaming(answer(LINES[0], b"garbage\n"))).stream(TYPE, **QUERY)

    async def awaited() -> None:
        await anext(stream)
        with pytest.raises(DecodeError):
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    if kind == "async":
        asyncio.run(awaited())
    else:
        next(stream)
        with pytest.raises(DecodeError):
            next(stream)
        with pytest.raises(StopIteration):
            next(stream)
    assert stream.token == "t0"
