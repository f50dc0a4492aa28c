"""Events of a lake through a client: equal to a scan, on the tape, refused where there is no lake."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

import tidytape
from simulated.everything import START, everything
from tidytape.analytics import options
from tidytape.client._commit import commit
from tidytape.client._tape import opened, verify
from tidytape.errors import QueryError, TapeError
from tidytape.lake import TABLES, Lake

S0 = START // 10**9
HOUR = 3_600


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return everything(tmp_path_factory.mktemp("events") / "lake")


@pytest.mark.parametrize("table", TABLES)
def test_events_are_the_rows_of_a_scan(lake: Lake, table: str) -> None:
    with tidytape.Client.local(lake.path) as client:
        frame = client.events(table)
    scanned = lake.scan(table).collect()
    assert frame.columns == list(TABLES[table].names)
    times = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    assert all(frame.schema[name] == pl.Datetime("ns", "UTC") for name in times)
    as_held = frame.with_columns(pl.col(times).dt.epoch("ns"))
    by = list(TABLES[table].names)
    assert as_held.sort(by).equals(scanned.sort(by))
    assert frame.sort(TABLES[table].order, maintain_order=True).equals(frame)


def test_a_window_is_half_open_and_filters_keep_only_their_rows(lake: Lake) -> None:
    with tidytape.Client.local(lake.path) as client:
        every = client.events("trades")
        middle = every["timestamp"].sort()[every.height // 2]
        second = middle.replace(microsecond=0)
        before, after = client.events("trades", end=second), client.events("trades", start=second)
        own = client.events("trades", exchange=["X"], raw_symbol="BTCUSDT")
    assert before.height + after.height == every.height
    assert before["timestamp"].max() < second <= after["timestamp"].min()  # type: ignore[operator]
    assert own.equals(every.filter(exchange="X", raw_symbol="BTCUSDT"))
    assert 0 < own.height < every.height


def study(client: tidytape.Client[Any]) -> pl.DataFrame:
    """An option study, from the chain to a term structure."""
    chain = client.events("option_quotes", start=S0, end=S0 + 24 * HOUR)
    return options.term_structure(options.delta_points(chain))


@pytest.mark.slow
def test_an_option_study_replays_from_its_tape_alone(lake: Lake, tmp_path: Path) -> None:
    tape = tmp_path / "study.tape"
    with tidytape.Client.local(lake.path) as client, client.record(tape):
        recorded = study(client)
    assert recorded.height
    assert verify(tape) == []
    with tidytape.Client.replay(tape) as client:
        assert study(client).equals(recorded)
        with pytest.raises(TapeError, match=r"no answer to events.*the nearest it has is entry 1"):
            client.events("option_quotes", start=S0, end=S0 + 23 * HOUR)


def test_pandas_and_asyncio_get_the_same_rows(lake: Lake) -> None:
    async def fetched() -> pl.DataFrame:
        async with tidytape.AsyncClient.local(lake.path) as client:
            return await client.events("funding")

    with tidytape.Client.local(lake.path, backend="pandas") as client:
        pandas = client.events("funding")
    polars = asyncio.run(fetched())
    assert polars.height
    assert list(pandas["timestamp"].astype("int64")) == polars["timestamp"].dt.epoch("ns").to_list()
    assert str(pandas["funding_interval"].dtype) == "Int64"
    assert str(pandas["timestamp"].dtype) == "datetime64[ns, UTC]"


@pytest.mark.parametrize(
    ("asked", "parameter"),
    [
        ({"table": "trade"}, "table"),
        ({"table": "trades", "coin": "BTC"}, "coin"),
        ({"table": "trades", "exchange": ""}, "exchange"),
        ({"table": "trades", "start": S0, "end": S0}, "end"),
        ({"table": "trades", "start": "yesterday noon"}, "start"),
    ],
)
def test_bad_arguments_are_named(lake: Lake, asked: dict[str, Any], parameter: str) -> None:
    with tidytape.Client.local(lake.path) as client, pytest.raises(QueryError) as raised:
        client.events(**asked)
    assert raised.value.parameter == parameter


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"table": "funding", "coin": "BTC"},
            r"got 'BTC', .*no column coin; .* exchange or raw_symbol or time$",
        ),
        ({"table": "funding", "coin": ["BTC"]}, r"got \['BTC'\], "),
        ({"table": "quote_rates", "coin": "BTC"}, "by time$"),
    ],
)
def test_a_filter_that_the_table_lacks_is_spelled_as_given(
    lake: Lake, asked: dict[str, Any], words: str
) -> None:
    with tidytape.Client.local(lake.path) as client, pytest.raises(QueryError, match=words):
        client.events(**asked)


def test_a_service_elsewhere_has_no_events() -> None:
    nowhere = httpx.MockTransport(lambda _: httpx.Response(500))
    with (
        tidytape.Client("http://127.0.0.1:1", "a-key-of-a-test", transport=nowhere) as client,
        pytest.raises(QueryError, match=r"a client of http://127.0.0.1:1', expected a client of a lake"),
    ):
        client.events("trades")


# --- the study on the tape ---


@pytest.mark.slow
def test_a_tape_keeps_the_commit_and_what_is_said_of_the_study(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    monkeypatch.chdir(code)
    assert commit() is None
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    (code / "study.py").write_text("1")
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "a"]):
        subprocess.run(["git", *command], check=True)
    clean = commit()
    assert clean is not None
    assert len(clean) == 40
    (code / "study.py").write_text("2")
    with (
        tidytape.Client.local(lake.path) as client,
        client.record(tmp_path / "study.tape", about={"seed": 7}),
    ):
        client.coins()
    assert opened(tmp_path / "study.tape").head["study"] == {
        "commit": f"{clean}+changes",
        "about": {"seed": 7},
    }


def test_what_is_said_of_a_study_must_be_json(lake: Lake, tmp_path: Path) -> None:
    with (
        tidytape.Client.local(lake.path) as client,
        pytest.raises(QueryError, match="about"),
        client.record(tmp_path / "study.tape", about={"seed": object()}),
    ):
        pass
    assert not (tmp_path / "study.tape").exists()
