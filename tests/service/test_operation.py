"""What a deployment needs: compressed bodies, ETags, health, figures, and a line per request without a secret."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pyarrow as pa
import pytest

from lakes import empty_lake
from tables import each_row
from tidytape import Client
from tidytape.lake import Lake
from tidytape.lake.hygiene._info import beat
from tidytape.service import Key, KeyFile, Keys, create_app, hashed
from tidytape.service.work._computing import compressed

T0 = 1_723_161_600


@pytest.fixture
def ask(service: Any, window: Any) -> Any:
    def points(params: dict[str, Any] | None = None, **headers: str) -> Any:
        # The transport of a local client asks for nothing compressed, so the app is asked past it.
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return raw(service.app, "/v1/points", window(**(params or {})), sent)

    return points


def raw(app: Any, path: str, params: dict[str, Any], headers: dict[str, str]) -> Any:
    return asked(
        app,
        path,
        params,
        {"X-Service-Key": "enterprise-key", "Accept-Encoding": "identity", **headers},
    )


def asked(
    app: Any, path: str, params: dict[str, Any] | None = None, headers: dict[str, str] | None = None
) -> Any:
    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
            return await client.get(path, params=params, headers=headers)

    return asyncio.run(answer())


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_packed_body_is_the_body(coding: str) -> None:
    body = json.dumps(list(range(5000))).encode()
    small, headers = compressed(body, coding)
    assert headers == {"Content-Encoding": coding}
    assert len(small) < len(body) / 2
    if coding == "gzip":
        assert gzip.decompress(small) == body
    else:
        assert pa.CompressedInputStream(io.BytesIO(small), "zstd").read() == body


@each_row(
    ("header", "coding"),
    [
        ("", None),
        ("identity", None),
        ("br", None),
        ("gzip", "gzip"),
        ("GZIP, deflate", "gzip"),
        ("gzip, zstd", "zstd"),
        ("gzip;q=1, zstd;q=0.2", "gzip"),
        ("gzip;q=0", None),
        ("*", "gzip"),
        ("gzip;q=much", None),
        ("identity;q=1, gzip;q=0.5", None),
    ],
)
def test_the_caller_says_what_it_takes(header: str, coding: str | None) -> None:
    assert compressed(b"x" * 5000, header)[1].get("Content-Encoding") == coding


def test_a_short_body_is_not_packed() -> None:
    assert compressed(b"x" * 100, "gzip") == (b"x" * 100, {})


@pytest.mark.slow
def test_a_caller_reads_what_was_packed(ask: Any) -> None:
    long = {"gapfill": "true", "period": 86_400}
    plain, small = ask(long), ask(long, Accept_Encoding="gzip")
    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert small.json() == plain.json()
    assert {"Accept", "Accept-Encoding", "Prefer"} == set(small.headers["vary"].split(", "))


def test_an_answer_that_is_known_is_not_made_again(ask: Any, service: Any) -> None:
    first = ask()
    tag = first.headers["etag"]
    used = service.get("/v1/usage").json()["used"]
    again = ask(If_None_Match=tag)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert service.get("/v1/usage").json()["used"] == used  # nothing was computed, nothing is charged
    assert ask(If_None_Match='W/"other"').status_code == 200
    assert ask(If_None_Match=f'"a", {tag}').status_code == 304


@pytest.mark.slow
def test_other_answers_have_other_tags(ask: Any) -> None:
    tags = [
        ask().headers["etag"],
        ask({"interval": "FIVE_MINUTES"}).headers["etag"],
        ask(Accept="application/vnd.apache.arrow.stream").headers["etag"],
        ask(Accept="application/vnd.apache.arrow.stream;constants=once").headers["etag"],
    ]
    assert len(set(tags)) == 4


def test_a_window_that_is_not_over_has_no_tag(ask: Any, service: Any) -> None:
    now = service.clock() // 10**9
    assert "etag" in ask({"from": now - 120, "period": 120}).headers
    assert "etag" not in ask({"from": now - 120, "period": 121}).headers


def test_a_lake_with_late_events_has_other_answers(ask: Any, lake: Path, tmp_path: Path) -> None:
    from tidytape.query import PointsQuery
    from tidytape.service._responses import etag

    made = empty_lake(tmp_path / "lake")
    query = PointsQuery(type="TRADE", exchange="X", raw_symbol="Y", interval="1m", start=T0, end=T0 + 60)
    before = etag(made, query, form="json", now=T0 + 60)
    made.writer().register(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["Y"]}))
    assert before is not None
    assert etag(made, query, form="json", now=T0 + 60) != before


def test_health_needs_no_key_and_discovery_does(service: Any) -> None:
    assert [service.get(path, key=None).status_code for path in ("/healthz", "/readyz", "/metrics")] == [
        200
    ] * 3
    assert service.get("/v1/types", key=None).status_code == 401


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def break_off(path: Path) -> None:
    path.write_text('{"broken')


def newest_log(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "the lake is gone": (shutil.rmtree, "lake"),
    "a table is gone": (lambda lake: shutil.rmtree(lake / "book"), "book"),
    "the log of a table is broken": (lambda lake: break_off(newest_log(lake / "trades")), "trades"),
    "the log of the registry is broken": (lambda lake: break_off(newest_log(lake / "markets")), "markets"),
    "a Parquet file is cut": (lambda lake: cut(next((lake / "trades").rglob("*.parquet"))), "trades"),
    "a Parquet file is missing": (lambda lake: next((lake / "trades").rglob("*.parquet")).unlink(), "trades"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "named"), FAULTS.values(), ids=FAULTS)
def test_a_service_that_cannot_read_its_lake_is_alive_and_not_ready(
    lake: Path, tmp_path: Path, fault: Any, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The lake was read before: what a service remembers of it must not hide that it is gone."""
    mine = Path(shutil.copytree(lake, tmp_path / "lake"))
    app = create_app(Lake(mine), Keys([]))
    assert asked(app, "/readyz").status_code == 200
    fault(mine)
    for _ in range(2):
        answer = asked(app, "/readyz")
        assert (answer.status_code, answer.json()["error"]) == (503, "UNAVAILABLE")
        assert str(mine) not in answer.text
    (record,) = (
        record for record in caplog.records if "not ready" in record.message
    )  # once, not at every probe
    assert named in record.message
    assert asked(app, "/healthz").status_code == 200


@pytest.mark.slow
def test_a_service_that_never_read_the_trades_is_not_ready_without_them(lake: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(lake, tmp_path / "lake"))
    shutil.rmtree(mine / "trades")
    app = create_app(Lake(mine), Keys([]))
    answer = asked(app, "/readyz")
    assert (answer.status_code, answer.json()["error"]) == (503, "UNAVAILABLE")


def test_a_lake_that_is_whole_again_is_ready_again(lake: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(lake, tmp_path / "lake"))
    app = create_app(Lake(mine), Keys([]))
    moved = mine.rename(tmp_path / "elsewhere")
    assert asked(app, "/readyz").status_code == 503
    moved.rename(mine)
    assert asked(app, "/readyz").status_code == 200


def test_faults_of_keys_and_buckets_are_counted(lake: Path, tmp_path: Path) -> None:
    KeyFile(tmp_path / "keys.json").new("basic")
    keys = KeyFile(tmp_path / "keys.json")
    app = create_app(Lake(lake), keys)
    assert asked(app, "/v1/types", headers={"X-Service-Key": "guess"}).status_code == 401
    assert "tidytape_key_file_faults_total 0.0" in asked(app, "/metrics").text
    (tmp_path / "keys.json").unlink()
    assert asked(app, "/v1/types", headers={"X-Service-Key": "guess"}).status_code == 401
    shown = asked(app, "/metrics").text
    assert "tidytape_key_file_faults_total 1.0" in shown
    assert "tidytape_bucket_store_faults_total 0.0" in shown


def test_the_heartbeats_of_followed_logs_are_shown(lake: Path, tmp_path: Path) -> None:
    app = create_app(Lake(lake), Keys([]))
    now = datetime.now(UTC)
    facts = {
        "beat": now, "last_line": None, "lag": 2.5, "lines": 9, "rows": 7, "bad_lines": 1, "missing": 0,
    }  # fmt: skip
    beat(Lake(lake), tmp_path / "log", facts)
    shown = asked(app, "/metrics").text
    beat(Lake(lake), tmp_path / "log", None)
    log = f'{{host="{socket.gethostname()}",log="{tmp_path / "log"}"}}'
    assert f"tidytape_recorder_lag_seconds{log} 2.5\n" in shown
    assert f"tidytape_recorder_rows{log} 7.0\n" in shown
    (beats,) = [line for line in shown.splitlines() if line.startswith("tidytape_recorder_beat_seconds{")]
    assert float(beats.rpartition(" ")[2]) == pytest.approx(now.timestamp(), abs=0.01)
    assert "tidytape_recorder_last_line_seconds{" not in shown
    assert "tidytape_recorder_rows{" not in asked(app, "/metrics").text


def test_a_failure_is_logged_with_its_traceback_and_the_id_that_the_caller_got(
    lake: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = Path(shutil.copytree(lake, tmp_path / "lake"))
    app = create_app(Lake(mine), Keys([Key("e", hashed("enterprise-key"), "enterprise", created=0)]))
    asks = {
        "type": "TRADE",
        "exchange": "ALPHA",
        "rawSymbol": "BTCUSDT",
        "from": T0,
    }  # raw trades stay in no memory
    assert raw(app, "/v1/points", asks | {"period": 60}, {}).status_code == 200
    shutil.rmtree(mine / "trades")
    answer = raw(app, "/v1/points", asks | {"period": 120}, {})
    assert (answer.status_code, answer.json()["error"]) == (500, "INTERNAL_ERROR")
    (record,) = (record for record in caplog.records if record.name == "tidytape.service")
    assert answer.headers["X-Request-Id"] in record.message
    assert answer.headers["X-Request-Id"] in answer.json()["message"]
    assert record.exc_info is not None
    assert "No such file" in caplog.text
    assert "Traceback" in caplog.text
    assert "Traceback" not in answer.text


def test_json_is_never_taken_for_a_page(service: Any) -> None:
    for path in ("/v1/types", "/v1/nothing", "/v1/points", "/healthz", "/openapi.json"):
        assert service.get(path).headers["x-content-type-options"] == "nosniff"


def test_figures_count_requests_weight_and_rows(service: Any, window: Any) -> None:
    service.get("/v1/points", params=window())
    service.get("/v1/points", params=window(rawSymbol="NOPE"))
    service.get("/v1/types")
    shown = service.get("/metrics", key=None).text
    assert 'tidytape_requests_total{route="points",status="200"} 1.0' in shown
    assert 'tidytape_requests_total{route="points",status="400"} 1.0' in shown
    assert 'tidytape_requests_total{route="types",status="200"} 1.0' in shown
    assert 'tidytape_weight_total{tier="enterprise"} 1.0' in shown
    assert 'tidytape_rows_total{type="TRADE_SIDE_AGNOSTIC_AGG"} 3.0' in shown
    assert "tidytape_requests_open 1.0" in shown  # this one


def test_a_line_per_request_says_everything_but_the_key(
    service: Any, window: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="tidytape.access"):
        answer = service.get("/v1/points", params=window())
        service.get("/v1/points", params=window(), key="a-guess-at-a-key")
    good, bad = (json.loads(record.message) for record in caplog.records)
    assert good["id"] == answer.headers["X-Request-Id"]
    assert good["ms"] > 0
    told = {
        name: good[name] for name in ("method", "status", "key", "tier", "route", "type", "weight", "rows")
    }
    assert told == {
        "method": "GET", "status": 200, "key": "e", "tier": "enterprise", "route": "points",
        "type": "TRADE_SIDE_AGNOSTIC_AGG", "weight": 1, "rows": 3,
    }  # fmt: skip
    assert bad["status"] == 401
    assert "enterprise-key" not in caplog.text
    assert "a-guess-at-a-key" not in caplog.text


def test_a_refused_request_has_no_weight(service: Any, window: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tidytape.access"):
        service.get("/v1/points", params=window(rawSymbol="NOPE"))
    assert "weight" not in json.loads(caplog.records[-1].message)


def test_a_local_client_asks_for_nothing_packed(lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Client.local(lake) as client:
        found = client.candles(
            exchange="ALPHA", raw_symbol="BTCUSDT", interval="1m", start=T0, end=T0 + 86_400, gapfill=True
        )
    assert found.height > 1000


@pytest.mark.slow
def test_threads_compress_at_once() -> None:
    """A codec that two threads share ends the process, which no test would survive: so in one of its own."""
    code = """
import gzip, os
from concurrent.futures import ThreadPoolExecutor
from tidytape.service.work._computing import compressed
bodies = [os.urandom(3_000) * 100 for _ in range(8)]
with ThreadPoolExecutor(8) as pool:
    for body, (packed, _) in zip(bodies * 40, pool.map(lambda body: compressed(body, "gzip"), bodies * 40)):
        assert gzip.decompress(packed) == body
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
