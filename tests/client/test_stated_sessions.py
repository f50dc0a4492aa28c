"""When a market trades travels with its points: into the metadata of a fetch, never into the columns of its frame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import tidytape
from lakes import empty_lake
from tables import each_row
from tidytape import Client, Session
from tidytape.catalogue import Change
from tidytape.client._local import AppTransport
from tidytape.client._tape import verify
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.service.answer._engine import Engine
from tidytape.service.proto import _encode as proto
from tidytape.service.proto import market_data_pb2 as pb
from tidytape.service.stream._changes import _differs
from tidytape.wire import decode, encode, from_arrow
from tidytape.wire._arrow import ARROW_MIME, ONCE_MIME, to_arrow
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._encode import encode_all
from tidytape.wire._stream import Batch, decode_batch, encode_batch
from tidytape.wire._stream_arrow import ArrowStream

START = 1_723_075_200  # 2024-08-08
HOUR = 3_600
TEXT = "09:30-16:00 America/New_York Mon-Fri off=2024-12-25"
SAID = f',"session":"{TEXT}"'.encode()
TYPES = ["TRADE", "TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG"]
WINDOW: dict[str, Any] = {"start": START, "end": START + 24 * HOUR}
BOTH: dict[str, Any] = {"exchange": "NY", "raw_symbol": ["ACME", "ZETA"]}
ACME: dict[str, Any] = {"exchange": "NY", "raw_symbol": "ACME"}
ZETA: dict[str, Any] = {"exchange": "NY", "raw_symbol": "ZETA"}


def made(path: Path, *, session: str | None) -> Lake:
    """A lake of two stocks, one of which may have a session."""
    lake = empty_lake(path)
    for symbol in ("ACME", "ZETA"):
        rows = [
            {
                "exchange": "NY", "raw_symbol": symbol, "id": str(n), "timestamp": (START + n * 600) * 10**9,
                "sequence": n, "side": "BUY" if n % 3 else "SELL", "price": 100.0 + n % 7, "amount": 2.0,
                "quote_amount": 2 * (100.0 + n % 7),
            }
            for n in range(140)
        ]  # fmt: skip
        lake.writer().append("trades", pl.DataFrame(rows), source=symbol)
        market = {"exchange": "NY", "raw_symbol": symbol, "coin": symbol, "normalized_symbol": f"{symbol}-USD",
                  "quote_coin": "USD", "category": "SPOT", "block_size": 1.0}  # fmt: skip
        market["session"] = session if symbol == "ACME" else None
        lake.writer().register(pl.DataFrame([market], schema_overrides={"session": pl.String}))
    return lake


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Lake]:
    """The same markets without a session, and with one."""
    folder = tmp_path_factory.mktemp("stated")
    return made(folder / "plain", session=None), made(folder / "stated", session=TEXT)


def over_http(lake: Lake, **options: Any) -> Client[pl.DataFrame]:
    keys = Keys([Key("k", hashed("key"), "enterprise", created=0)])
    return Client("http://service", "key", transport=AppTransport(create_app(lake, keys)), **options)


@pytest.fixture(scope="module")
def clients(lakes: tuple[Lake, Lake]) -> Iterator[list[Client[pl.DataFrame]]]:
    """In the process and over HTTP, of the lake that states a session."""
    _, stated = lakes
    with Client.local(stated.path) as local, over_http(stated) as far:
        yield [local, far]


def asked(name: str, **more: Any) -> PointsQuery:
    interval = {} if name == "TRADE" else {"interval": "1h"}
    return PointsQuery(type=name, **{**interval, **WINDOW, **more})


def bodies(lake: Lake, query: PointsQuery) -> dict[str, bytes]:
    """Every way in which the service writes an answer, from memory and computed."""
    written = {}
    for keeps in (True, False):
        engine = Engine(lake.now(), clock=lambda: (START + 48 * HOUR) * 10**9, keeps=keeps)
        markets = engine.markets(query)
        frames = engine.frames(query, markets)
        ((name, frame),) = frames
        written[f"json {keeps}"] = encode_all(frames, engine.notes(query, markets, frames))
        written[f"arrow {keeps}"] = to_arrow(frame, name)
        written[f"once {keeps}"] = to_arrow(frame, name, constants_once=True)
        written[f"proto {keeps}"] = proto.encode_all(frames)
        for form in (JSON_MIME, ARROW_MIME, ONCE_MIME):
            if keeps and (body := engine.body(query, markets, form=form)) is not None:
                written[f"hot {form}"] = body[0]
    return written


# --- on the wire ---


@pytest.mark.slow
@each_row("name", TYPES)
def test_the_id_of_a_series_says_it_and_no_other_byte_of_json_differs(
    name: str, lakes: tuple[Lake, Lake]
) -> None:
    for market in (ACME, BOTH):
        plain, stated = (bodies(lake, asked(name, **market)) for lake in lakes)
        assert plain.keys() == stated.keys()
        for form in plain:
            if "json" in form:
                assert SAID in stated[form], form
                assert stated[form].replace(SAID, b"") == plain[form], form


@pytest.mark.slow
@each_row("name", TYPES)
def test_an_answer_without_a_stated_market_has_the_bytes_that_it_had(
    name: str, lakes: tuple[Lake, Lake]
) -> None:
    plain, stated = (bodies(lake, asked(name, **ZETA)) for lake in lakes)
    assert plain == stated
    assert not any(b'session"' in body for form, body in plain.items() if name != "TPO_AGG")


@pytest.mark.slow
@each_row("name", TYPES)
def test_every_form_is_read_as_the_same_frame(name: str, lakes: tuple[Lake, Lake]) -> None:
    _, lake = lakes
    for market in (ACME, BOTH):
        written = bodies(lake, asked(name, **market))
        expected = decode(written["json False"], name)
        assert expected.columns[-1] == "session" or name == "TPO_AGG"
        sessions = expected.select("raw_symbol", "session").unique().cast(pl.String).rows()
        assert sorted(sessions, key=str) == [("ACME", TEXT), *([("ZETA", None)] if market is BOTH else [])]
        for form, body in written.items():
            if "proto" in form:
                ids = {
                    series.id.rawSymbol: series.id.session
                    for series in pb.PointResponse.FromString(body).series
                }
                assert ids == {"ACME": TEXT} | ({"ZETA": ""} if market is BOTH else {}), form
                continue
            read = decode if "json" in form else from_arrow
            got = read(body, name)
            assert_frame_equal(got, expected, categorical_as_str=True, check_row_order="json" not in form)
            assert got.schema["session"] == pl.Categorical


@pytest.mark.slow
def test_what_was_decoded_is_encoded_to_the_same_bytes(lakes: tuple[Lake, Lake]) -> None:
    _, lake = lakes
    for name in TYPES:
        body = bodies(lake, asked(name, **BOTH))["json False"].partition(b',"notes":')[0] + b"}"
        assert encode(decode(body, name), name) == body


def test_a_field_of_a_point_does_not_replace_that_of_its_series() -> None:
    def read(id_: dict[str, str], point: dict[str, str]) -> pl.DataFrame:
        points = [{"Point": {"timestamp": {"s": 60}, "skew": 1.5, **point}}]
        body = orjson.dumps({"series": [{"id": {"exchange": "X", **id_}, "points": points}]})
        return decode(body, "SKEW_OPTION_SUMMARY_AGG")

    said, other = {"session": TEXT}, {"session": "night"}
    assert read(said, other).select("session", "point_session").row(0) == (TEXT, "night")
    assert read({}, other).columns[-1] == "point_session"
    assert "session" not in read({}, {}).columns


@pytest.mark.slow
def test_a_group_has_none(lakes: tuple[Lake, Lake]) -> None:
    plain, stated = (
        bodies(lake, asked("TRADE_AGG", exchange="NY", coin=["ACME", "ZETA"], group_by="SUM"))
        for lake in lakes
    )
    assert plain == stated


def test_a_line_of_a_stream_says_it_and_its_arrow_does_not(lakes: tuple[Lake, Lake]) -> None:
    query = asked("TRADE_AGG", **ACME)
    plain, stated = (Engine(lake).frames(query, Engine(lake).markets(query))[0][1] for lake in lakes)
    of = {"plain": plain, "stated": stated}
    lines = {key: Batch({("TRADE_AGG", Change.FINAL): frame}, token="a") for key, frame in of.items()}
    assert encode_batch(lines["stated"]).replace(SAID, b"") == encode_batch(lines["plain"])
    read = decode_batch(encode_batch(lines["stated"]), ["TRADE_AGG"])
    assert read.frames["TRADE_AGG", Change.FINAL]["session"].unique().to_list() == [TEXT]
    arrow = {key: ArrowStream("TRADE_AGG").batch(batch) for key, batch in lines.items()}
    assert arrow["plain"] == arrow["stated"]


@pytest.mark.slow
def test_a_session_that_is_stated_anew_changes_no_point_of_a_stream(lakes: tuple[Lake, Lake]) -> None:
    _, lake = lakes
    for name in TYPES:
        query = asked(name, **BOTH)
        points = Engine(lake).frames(query, Engine(lake).markets(query))[0][1]
        earlier = points.with_columns(session=pl.lit("17:00-17:00 America/New_York Mon-Fri", pl.Categorical))
        assert not _differs(points, earlier, name, is_grouped=False).any()
        assert not _differs(points, earlier.drop("session"), name, is_grouped=False).any()


# --- for the caller ---


@pytest.mark.slow
def test_the_frame_has_the_same_columns_and_the_metadata_have_the_session(
    clients: list[Client[pl.DataFrame]], lakes: tuple[Lake, Lake]
) -> None:
    with Client.local(lakes[0].path) as plain:
        for name in TYPES:
            for market, expected in (
                (ACME, {("NY", "ACME"): TEXT}), (BOTH, {("NY", "ACME"): TEXT}), (ZETA, {}),
            ):  # fmt: skip
                without = plain.fetch(asked(name, **market))
                assert without.metadata.sessions == {}
                for client in clients:
                    got = client.fetch(asked(name, **market))
                    assert got.metadata.sessions == expected
                    assert_frame_equal(got.frame, without.frame)
                    assert got.metadata.hash == without.metadata.hash
    told = clients[0].fetch(asked("TRADE_AGG", **ACME)).metadata
    assert Session.parsed(told.sessions["NY", "ACME"]).days_off
    assert f"NY ACME: {TEXT}" in told._repr_html_()


def test_an_empty_answer_has_none(clients: list[Client[pl.DataFrame]]) -> None:
    for client in clients:
        with pytest.warns(tidytape.errors.EmptyAnswerWarning):
            got = client.fetch(asked("TRADE_AGG", **ACME, start=START - 9 * HOUR, end=START - 8 * HOUR))
        assert got.metadata.sessions == {}


@pytest.mark.slow
def test_the_list_of_markets_has_the_column_always(
    clients: list[Client[pl.DataFrame]], lakes: tuple[Lake, Lake]
) -> None:
    with Client.local(lakes[0].path) as plain:
        assert plain.markets().select("raw_symbol", "session").rows() == [("ACME", None), ("ZETA", None)]
    for client in clients:
        markets = client.markets()
        assert markets.schema["session"] == pl.String
        assert markets.select("raw_symbol", "session").rows() == [("ACME", TEXT), ("ZETA", None)]


@pytest.mark.slow
def test_a_cache_keeps_it(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    _, lake = lakes
    query = asked("TRADE_SIDE_AGNOSTIC_AGG", **BOTH, end=START + 6 * HOUR)
    with over_http(lake, cache=tmp_path) as client:
        first = client.fetch(query)
        again = client.fetch(query)
    assert again.metadata.weight == 0
    assert again.metadata.sessions == first.metadata.sessions == {("NY", "ACME"): TEXT}
    assert_frame_equal(again.frame, first.frame)


@pytest.mark.slow
def test_a_tape_keeps_it(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    plain, stated = lakes
    for lake, sessions in ((plain, {}), (stated, {("NY", "ACME"): TEXT})):
        tape = tmp_path / str(len(sessions))
        with Client.local(lake.path) as client, client.record(tape):
            client.fetch(asked("TRADE_AGG", **ACME))
        assert verify(tape) == []
        assert ("sessions" in (tape / "manifest.jsonl").read_text()) == bool(sessions)
        with Client.replay(tape) as replayed:
            assert replayed.fetch(asked("TRADE_AGG", **ACME)).metadata.sessions == sessions


@each_row(("text", "sessions"), [("early", {("NY", "ACME"): "early"}), ("", {})])
def test_a_service_may_say_what_is_no_session(text: str, sessions: dict[Any, str]) -> None:
    """The client passes a text on, and the caller reads it; an empty text says nothing."""
    identity = {"type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "NY", "rawSymbol": "ACME", "session": text}
    prices = dict.fromkeys(["open", "high", "low", "close", "volume"], 1)
    series = {"id": identity, "points": [{"Point": {"timestamp": {"s": START}, **prices}}]}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={"series": [series]}))
    with Client("http://service", "key", transport=transport) as client:
        got = client.fetch(asked("TRADE_SIDE_AGNOSTIC_AGG", **ACME, end=START + HOUR))
    assert got.metadata.sessions == sessions
    assert "session" not in got.frame.columns


def test_arrow_of_another_dtype_is_refused() -> None:
    frame = pl.DataFrame({"exchange": ["X"], "timestamp": [60 * 10**9], "skew": [1.5], "session": [5]})
    table = frame.with_columns(pl.col("timestamp").cast(pl.Datetime("ns", "UTC"))).to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(tidytape.errors.DecodeError):
        from_arrow(sink.getvalue().to_pybytes(), "SKEW_OPTION_SUMMARY_AGG")
