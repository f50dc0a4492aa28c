"""Candles over HTTP on this machine: ``tidytape serve`` beside ROAPI and beside DuckDB behind FastAPI, same rows.

Run ``python tests/bench/bench_serve.py [seconds per measurement]``. It needs ``wrk``, a load generator; ROAPI takes
part where the command ``roapi`` is found or ``ROAPI`` names it. The lake holds 75 days of trades of one market, rolled
up; the others read the finished candles from a Parquet file. Every server has as many processes or threads as the
machine has processors. Each request asks for another window, so that no server can send the same answer again. Requests
per second and latencies are wrk's; the ratio is tidytape's throughput over the other's: the targets are 1 for 1,000
candles, 5 (DuckDB) and 3 (ROAPI) for 100,000 as JSON, and 1 for 100,000 as Arrow.

``python tests/bench/bench_serve.py soak [seconds]``: 64 clients at once, and what memory the service takes meanwhile,
for 1,000 and 100,000 candles, and then for ever other types, intervals and windows, more than memory keeps.

``python tests/bench/bench_serve.py cpu [rounds]``: the processor time that one answer takes of the server's processes
under four clients, every form in each round, the median of the rounds. The targets for 1,000 candles: Arrow
at most JSON, and at most twice ROAPI's Arrow.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx
import polars as pl
from bench_history import END, EXCHANGE, SYMBOL, filled, rolled_up
from polars import selectors as cs

from tidytape import Client, wire
from tidytape.wire._arrow import ARROW_MIME

DAYS = 75
CANDLES = (1_000, 100_000)
LAST = END // 10**9 - 86_400  # seconds; a day before the last trade: nothing of it is still in progress
TIERS = "[load]\nper_minute = 40000000\nburst = 80000000\naggregation = true\ntypes = 'enterprise'\n"
COLUMNS = "time,open,high,low,close,volume,first_timestamp,last_timestamp"
ARROW = {"Accept": ARROW_MIME}

FASTAPI = f"""
import duckdb, orjson
from fastapi import FastAPI, Response
app = FastAPI()
rows = duckdb.connect()
rows.execute("CREATE TABLE candles AS SELECT * FROM 'candles.parquet'")
@app.get("/candles")
def candles(start: int, end: int) -> Response:
    found = rows.cursor().execute("SELECT {COLUMNS} FROM candles WHERE time >= ? AND time < ?", [start, end])
    names = [one[0] for one in found.description]
    return Response(orjson.dumps([dict(zip(names, row)) for row in found.fetchall()]), media_type="application/json")
"""


WINDOWS = """
-- Each request asks for a window of the same length that ends at another minute.
request = function()
  local last = {last} - 60 * math.random(0, {spread})
  local path = string.gsub("{path}", "START", string.format("%d", last - {length}))
  return wrk.format("GET", (string.gsub(path, "END", string.format("%d", last))))
end
"""


@dataclass(frozen=True)
class Server:
    """One that is asked."""

    name: str
    url: str
    """With the places {start} and {end}. [s since the epoch]"""
    headers: dict[str, str] = field(default_factory=dict)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], *, probe: str, folder: Path) -> Iterator[int]:
    """Run a server until it is no longer needed; gives its process."""
    with (folder / f"{Path(command[0]).name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            for _ in range(300):
                with contextlib.suppress(httpx.HTTPError):
                    httpx.get(probe)
                    break
                time.sleep(0.1)
            else:
                raise SystemExit(f"{command[0]} does not answer")
            yield process.pid
        finally:
            process.terminate()
            process.wait(30)


def prepared(folder: Path) -> None:
    """Fill a lake, and write its candles as Parquet for the others."""
    lake = filled(folder / "lake", days=DAYS, per_day=20_000)
    rolled_up(lake)
    with Client.local(folder / "lake") as client:
        start = END // 10**9 - DAYS * 86_400
        candles = client.candles(
            exchange=EXCHANGE, raw_symbol=SYMBOL, interval="1m", start=start, end=END // 10**9
        )
    candles.with_columns(
        cs.categorical().cast(pl.String),
        cs.datetime().dt.replace_time_zone(None).dt.cast_time_unit("us"),
        pl.col("timestamp").dt.epoch("s").alias("time"),
    ).write_parquet(folder / "candles.parquet")


@contextlib.contextmanager
def tidytape(folder: Path) -> Iterator[tuple[Server, int]]:
    (folder / "tiers.toml").write_text(TIERS)
    keys = ["keys", "new", "--tier", "load", "--tiers", "tiers.toml", "--keys", "keys.json"]
    made = subprocess.run(["tidytape", *keys], cwd=folder, capture_output=True, text=True, check=True)
    header = {"X-Service-Key": made.stdout.split()[-1]}
    port = free_port()
    command = [
        "tidytape",
        "serve",
        "--lake",
        "lake",
        "--keys",
        "keys.json",
        "--tiers",
        "tiers.toml",
        "--port",
    ]
    where = f"http://127.0.0.1:{port}"
    url = (
        f"{where}/v1/points?type=TRADE_SIDE_AGNOSTIC_AGG&exchange={EXCHANGE}&rawSymbol={SYMBOL}&interval=MINUTE"
        "&from={start}&period={period}"
    )
    with running([*command, str(port)], probe=f"{where}/healthz", folder=folder) as pid:
        yield Server("tidytape", url, header), pid


@contextlib.contextmanager
def roapi(folder: Path) -> Iterator[tuple[Server, int] | None]:
    program = os.environ.get("ROAPI") or shutil.which("roapi")
    if program is None:
        yield None
        return
    port, others = free_port(), [free_port(), free_port()]
    (folder / "roapi.yml").write_text(
        f"addr:\n  http: 127.0.0.1:{port}\n  postgres: 127.0.0.1:{others[0]}\n  flight_sql: 127.0.0.1:{others[1]}\n"
        "tables:\n  - name: candles\n    uri: candles.parquet\n    option: {format: parquet, use_memory_table: true}\n"
    )
    where = f"http://127.0.0.1:{port}"
    url = (
        f"{where}/api/tables/candles?columns={COLUMNS}"
        "&filter%5Btime%5Dgte={start}&filter%5Btime%5Dlt={end}&limit=1000000"
    )
    with running([program, "-c", "roapi.yml"], probe=f"{where}/health", folder=folder) as pid:
        yield Server("ROAPI", url), pid


@contextlib.contextmanager
def fastapi(folder: Path) -> Iterator[Server]:
    (folder / "served.py").write_text(FASTAPI)
    port = free_port()
    workers = ["--workers", str(os.cpu_count()), "--no-access-log"]
    command = [sys.executable, "-m", "uvicorn", "served:app", "--port", str(port), *workers]
    where = f"http://127.0.0.1:{port}"
    with running(command, probe=f"{where}/docs", folder=folder):
        yield Server("DuckDB behind FastAPI", where + "/candles?start={start}&end={end}")


def loaded(
    server: Server, headers: dict[str, str], *, candles: int, clients: int, seconds: int, folder: Path
) -> dict[str, float]:
    """Return what wrk measures: requests per second, p50 and p99 [ms], answers that were none."""
    path, length = re.sub(r"^http://[^/]+", "", server.url), 60 * candles
    script = folder / "windows.lua"
    path = path.format(start="START", end="END", period=length)
    spread = (DAYS - 2) * 1_440 - candles
    script.write_text(WINDOWS.format(last=LAST, spread=spread, length=length, path=path))
    return measured(server, headers, script, clients=clients, seconds=seconds)


def measured(
    server: Server, headers: dict[str, str], script: Path, *, clients: int, seconds: int
) -> dict[str, float]:
    """Return what wrk measures of the requests of a script."""
    given = [
        part for name, value in (server.headers | headers).items() for part in ("-H", f"{name}: {value}")
    ]
    command = [
        "wrk",
        "-t1",
        f"-c{clients}",
        f"-d{seconds}s",
        "--timeout",
        "30s",
        "--latency",
        "-s",
        str(script),
    ]
    command += [*given, re.match(r"http://[^/]+", server.url)[0]]  # type: ignore[index]  # it is one
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    errors = sum(map(int, re.findall(r"(?:connect|read|write|timeout|responses:) (\d+)", said)))
    found = dict(re.findall(r"(50|99)%\s+(\S+)", said))
    rate, answers = (re.search(rf"{what}", said) for what in (r"Requests/sec:\s+(\S+)", r"(\d+) requests in"))
    return {
        "answers": float(answers[1]) if answers else 0.0,
        "rate": float(rate[1]) if rate else 0.0,
        "p50": milliseconds(found.get("50", "0ms")),
        "p99": milliseconds(found.get("99", "0ms")),
        "errors": errors,
    }


def milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 0.001, "ms": 1.0, "s": 1_000.0, "m": 60_000.0}[unit]


def against_encode(folder: Path, server: Server) -> None:
    """How much longer the whole answer takes than writing it down as JSON alone."""
    with Client.local(folder / "lake") as client:
        frame = client.candles(
            exchange=EXCHANGE, raw_symbol=SYMBOL, interval="1m", start=LAST - 6_000_000, end=LAST
        )
    url, answers, alone = at(server, 100_000), [], []
    with httpx.Client(headers=server.headers | {"Accept-Encoding": "identity"}) as http:
        for _ in range(20):
            began = time.perf_counter()
            http.get(url).raise_for_status()
            answers.append(time.perf_counter() - began)
            began = time.perf_counter()
            wire.encode(frame, "TRADE_SIDE_AGNOSTIC_AGG")
            alone.append(time.perf_counter() - began)
    whole, part = median(answers), median(alone)
    print(
        f"100,000 candles as JSON: {whole * 1e3:.0f} ms, wire.encode alone {part * 1e3:.0f} ms: {whole / part:.1f}x"
    )


def at(server: Server, candles: int) -> str:
    start = LAST - 60 * candles
    return server.url.format(start=start, end=LAST, period=60 * candles)


def main(seconds: int = 8) -> None:
    """Print requests per second, latencies and the ratios of throughput."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        prepared(folder)
        ours, _ = stack.enter_context(tidytape(folder))
        rust = stack.enter_context(roapi(folder))
        others = [rust and rust[0], stack.enter_context(fastapi(folder))]
        against_encode(folder, ours)
        for form, headers in (("JSON", {}), ("Arrow", ARROW)):
            for candles in CANDLES:
                for clients in (1, 8, 64):
                    best = None
                    for server in [ours, *filter(None, others)]:
                        if form == "Arrow" and server.name.startswith("DuckDB"):
                            continue
                        asked = {"candles": candles, "folder": folder}
                        loaded(
                            server, headers, clients=min(clients, 8), seconds=2, **asked
                        )  # nobody starts cold
                        time_of_many = seconds * (1 + clients // 32)
                        found = loaded(server, headers, clients=clients, seconds=time_of_many, **asked)
                        best = best or found["rate"]
                        ratio = best / found["rate"] if found["rate"] else float("inf")
                        print(
                            f"{candles:>7,} candles, {form:<5}, {clients:>2} clients: {server.name:<22}"
                            f"{found['rate']:>9.1f}/s  p50 {found['p50']:>7.1f} ms  p99 {found['p99']:>7.1f} ms"
                            f"  errors {found['errors']:.0f}  ratio {ratio:.2f}",
                            flush=True,
                        )


MIXED = """
-- Each request asks for another type, interval and window.
local types = {{"TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG"}}
local intervals = {{MINUTE = 60, FIVE_MINUTES = 300, FIFTEEN_MINUTES = 900, HOUR = 3600, FOUR_HOURS = 14400}}
local names = {{"MINUTE", "FIVE_MINUTES", "FIFTEEN_MINUTES", "HOUR", "FOUR_HOURS"}}
request = function()
  local kind, name = types[math.random(#types)], names[math.random(#names)]
  local points = string.find(kind, "SIDE") and math.random(10, 1000) or math.random(1, 12)
  local length = math.min(points * intervals[name], {days} * 86400)
  local start = {last} - length - 60 * math.random(0, math.floor(({days} * 86400 - length) / 60))
  local path = "/v1/points?type=" .. kind .. "&exchange={exchange}&rawSymbol={symbol}&interval=" .. name
  return wrk.format("GET", path .. "&from=" .. string.format("%d", start) .. "&period=" .. string.format("%d", length))
end
"""


def soak(seconds: int = 60) -> None:
    """Print how the memory of the service and its processes develops under 64 clients."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared(folder)
        script = folder / "mixed.lua"
        script.write_text(MIXED.format(last=LAST, days=DAYS - 2, exchange=EXCHANGE, symbol=SYMBOL))
        with tidytape(folder) as (server, pid):
            several = {"clients": 64, "seconds": max(1, seconds // 6), "folder": folder}
            for candles, form in ((1_000, {}), (100_000, {}), (100_000, ARROW), (None, {})):
                sizes, rates = [resident(pid)], []
                for _ in range(6):
                    if candles is None:
                        found = measured(server, {}, script, clients=64, seconds=max(1, seconds // 6))
                    else:
                        found = loaded(server, form, candles=candles, **several)
                    sizes.append(resident(pid))
                    rates.append(found["rate"])
                    if found["errors"]:
                        logged = (folder / "tidytape.log").read_text().splitlines()
                        bad = [line for line in logged if '"status":200' not in line]
                        print(found, *bad[-5:], sep="\n")
                what = (
                    "all kinds" if candles is None else f"{candles:,} candles {'Arrow' if form else 'JSON'}"
                )
                print(
                    f"{what}, 64 clients, {seconds} s: {median(rates):.0f}/s, MiB:",
                    *sizes,
                    flush=True,
                )


CPU_FORMS = {
    "JSON": {},
    "Arrow": ARROW,
    "Arrow, constants once": {"Accept": f"{ARROW_MIME};constants=once"},
}


def cpu(rounds: int = 5) -> None:
    """Print the processor time per answer of tidytape, in each form, and of ROAPI."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        prepared(folder)
        ours = stack.enter_context(tidytape(folder))
        rust = stack.enter_context(roapi(folder))
        asked = [(f"tidytape, {form}", *ours, headers) for form, headers in CPU_FORMS.items()]
        asked += [("ROAPI, Arrow", *rust, ARROW)] if rust else []
        for candles in CANDLES:
            times: dict[str, list[float]] = {form: [] for form, *_ in asked}
            for turn in range(rounds + 1):  # the first is not counted: nobody starts cold
                for form, server, pid, headers in asked:
                    before = processor_time(pid)
                    found = loaded(server, headers, candles=candles, clients=4, seconds=3, folder=folder)
                    spent = (processor_time(pid) - before) / found["answers"] * 1e3
                    times[form] += [spent] if turn else []
            for form, server, _, headers in asked:
                plain = server.headers | headers | {"Accept-Encoding": "identity"}
                size = len(httpx.get(at(server, candles), headers=plain).raise_for_status().content)
                print(
                    f"{candles:>7,} candles: {form:<32}{median(times[form]):>7.2f} ms of a processor "
                    f"({min(times[form]):.2f} to {max(times[form]):.2f}), {size:>10,} bytes",
                    flush=True,
                )


def processor_time(pid: int) -> float:
    """Return the processor time that a process and all below it took. [s]"""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])  # of the user and of the system
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(processor_time, children_of(pid)))


def resident(pid: int) -> int:
    """Return the memory of a process and all below it, shared pages counted each time. [MiB]"""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20 + sum(map(resident, children_of(pid)))


def children_of(pid: int) -> list[int]:
    # A thread's children are its own.
    return [
        int(one) for told in Path(f"/proc/{pid}/task").glob("*/children") for one in told.read_text().split()
    ]


if __name__ == "__main__":
    jobs = {"soak": soak, "cpu": cpu}
    job, numbers = (
        (jobs[sys.argv[1]], sys.argv[2:]) if sys.argv[1:2] and sys.argv[1] in jobs else (main, sys.argv[1:])
    )
    if not shutil.which("wrk"):
        raise SystemExit("this needs wrk")
    job(*map(int, numbers))
