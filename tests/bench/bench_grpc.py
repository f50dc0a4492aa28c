"""100,000 candles over gRPC, as JSON and as Arrow over HTTP: through worker processes and a socket, medians of nine.

``python tests/bench/bench_grpc.py`` prints what each takes as a ratio of what JSON takes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))
from rpc_server import Served, running
from tidytape import wire
from tidytape.budget import TIERS
from tidytape.lake import Lake
from tidytape.lake.rollup import rollup
from tidytape.service import Key, Keys, Processes, create_app, hashed
from tidytape.service.proto import market_data_pb2 as pb
from tidytape.wire._arrow import ARROW_MIME

ROWS, T0, NAME = 100_000, 1_723_161_600, "TRADE_SIDE_AGNOSTIC_AGG"
ASKED = {
    "type": NAME,
    "exchange": "X",
    "rawSymbol": "B",
    "interval": "MINUTE",
    "from": T0,
    "period": 60 * ROWS,
}
PLAIN = {"accept-encoding": "identity"}


def lake() -> Lake:
    made = Lake.create(Path(tempfile.mkdtemp()) / "lake")
    market = {
        "exchange": ["X"],
        "raw_symbol": ["B"],
        "coin": ["B"],
        "quote_coin": ["USDT"],
        "category": ["SPOT"],
    }
    made.writer().register(pl.DataFrame(market))
    number = pl.int_range(ROWS, eager=True)
    trades = pl.select(
        exchange=pl.repeat("X", ROWS),
        raw_symbol=pl.repeat("B", ROWS),
        id=number.cast(pl.String),
        timestamp=T0 * 10**9 + number * 60 * 10**9 + (number * 7_919 % 60_000) * 10**6,
        sequence=number,
        side=pl.repeat("BUY", ROWS),
        price=100 + (number * 31 % 9_973) / 97,
        amount=(number % 17 + 1) / 7,
        quote_amount=100.0 + number * 0,
    )
    made.writer().append("trades", trades, source="bench")
    rollup(made)
    return made


def main() -> None:
    opened = lake()
    tiers = {"enterprise": replace(TIERS["enterprise"], burst=10**6)}
    keys = Keys([Key("e", hashed("enterprise-key"), "enterprise", created=0)])
    computing = Processes(opened, workers=2)
    app = create_app(opened, keys, tiers=tiers, computing=computing, grpc_address="127.0.0.1:0")
    several = {name: [ASKED[name]] for name in ("type", "exchange", "rawSymbol")}
    request = pb.PointRequest(**ASKED | several).SerializeToString()
    ways: dict[str, tuple[Callable[[Served], bytes], Callable[[bytes], Any]]] = {
        "JSON": (lambda served: served.get("/v1/points", ASKED, **PLAIN).content, orjson.loads),
        "Arrow": (
            lambda served: served.get("/v1/points", ASKED, accept=ARROW_MIME, **PLAIN).content,
            lambda body: wire.from_arrow(body, NAME),
        ),
        "gRPC": (lambda served: served.call("GetPoints", request), pb.PointResponse.FromString),
    }
    took: dict[str, tuple[float, float, int]] = {}
    with running(app) as served:
        for way, (ask, read) in ways.items():
            answers, reads, size = [], [], 0
            for _ in range(9):
                began = time.perf_counter()
                body = ask(served)
                answered = time.perf_counter()
                read(body)
                answers.append(answered - began)
                reads.append(time.perf_counter() - answered)
                size = len(body)
            took[way] = median(answers), median(reads), size
    computing.close()
    print(f"{'':6}{'answer':>10}{'parsing':>10}{'bytes':>10}   as a ratio of JSON")
    for way, values in took.items():
        print(
            f"{way:6}"
            + "".join(f"{one / base:10.3f}" for one, base in zip(values, took["JSON"], strict=True))
        )


if __name__ == "__main__":
    main()
