"""Write what users keep on disk, as the release that runs this script writes it: a lake, a cache and a tape.

Run it once for a release, from its checkout, and commit the folder. `test_frozen.py` opens every such folder with the
code of today::

    python tests/frozen/freeze.py tests/frozen/RELEASE

The market is the demo's, which is simulated, for two hours. Beside the three stand the frames that the release itself
returned (``answers/``), the bodies that its service sent (``bodies/``), and the hashes of the frames that went onto the
tape (``hashes.json``).
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import polars as pl

HOURS = 2
START = 1_722_988_800  # 2024-08-07T00:00:00Z, where the demo begins
END = START + HOURS * 3_600
ADDRESS = "http://service.example"

_WINDOW: dict[str, Any] = {"start": START, "end": END}
_SPOT = _WINDOW | {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT"}
_PERPETUAL = _WINDOW | {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP"}
_OPTIONS = _WINDOW | {"exchange": "DEMO_OPTIONS", "coin": "BTC", "interval": "1h"}

STUDY: dict[str, tuple[str, dict[str, Any]]] = {
    "candles": ("candles", _SPOT | {"interval": "1m"}),
    "candles_usd": ("candles", _SPOT | {"interval": "5m", "quote": "USD"}),
    "candles_filled": ("candles", _SPOT | {"interval": "1m", "gapfill": True}),
    "candles_by_side": ("candles", _SPOT | {"interval": "15m", "by_side": True}),
    "trades": ("trades", _SPOT | {"end": START + 120}),
    "volume_profile": ("volume_profile", _SPOT | {"interval": "1h"}),
    "tpo": ("tpo", _SPOT | {"interval": "1h"}),
    "tpo_sessions": ("tpo_sessions", _SPOT | {"interval": "1h"}),
    "open_interest": ("open_interest", _PERPETUAL | {"interval": "5m"}),
    "funding": ("funding", _PERPETUAL | {"interval": "5m"}),
    "liquidations": ("liquidations", _PERPETUAL | {"interval": "15m"}),
    "book_heatmap": ("book_heatmap", _PERPETUAL | {"interval": "30m"}),
    "liquidation_heatmap": ("liquidation_heatmap", _WINDOW | {"coin": "BTC", "interval": "1h"}),
    "implied_volatility": ("implied_volatility", _OPTIONS),
    "skew": ("skew", _OPTIONS | {"raw_symbol": "BTC_25", "tenor": "1w"}),
    "option_open_interest": ("option_open_interest", _OPTIONS),
    "cme_open_interest": (
        "cme_open_interest",
        _WINDOW | {"exchange": "DEMO_CME", "raw_symbol": "BTCQ4", "interval": "1h"},
    ),
    "token_supply": ("token_supply", _WINDOW | {"token_name": "Bitcoin", "interval": "1h"}),
    "candles_grouped": (
        "candles",
        _WINDOW
        | {"exchange": ["DEMO_SPOT", "DEMO_PERP"], "coin": "BTC", "interval": "1h", "group_by": "sum"},
    ),
    "markets": ("markets", {}),
}
"""Of each answer: the method of the client, and its arguments."""


def main(folder: Path) -> None:
    """Write the folder of a release anew."""
    import tidytape
    from tidytape.client._local import connection

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lake = folder / "lake"
    _fill(lake)
    answers = folder / "answers"
    answers.mkdir()
    with tidytape.Client.local(lake) as client:
        for name, (method, arguments) in STUDY.items():
            frame: pl.DataFrame = getattr(client, method)(**arguments)
            assert frame.height, name
            frame.write_parquet(answers / f"{name}.parquet", compression="zstd")

    write_bodies(lake, folder / "bodies")

    # The cache and the tape are of a service with an address, which a lake in this process does not have.
    arguments = connection(lake) | {"base_url": ADDRESS, "cache": folder / "cache", "progress": False}
    hashes = {}
    with tidytape.Client(**arguments) as client, client.record(folder / "study.tape"):
        for method, asked in STUDY.values():
            getattr(client, method)(**asked)
    from tidytape.client._tape import entries

    for name, entry in zip(STUDY, entries(folder / "study.tape"), strict=True):
        hashes[name] = entry.hash
    (folder / "hashes.json").write_text(json.dumps(hashes, indent=2) + "\n")
    for lock in folder.rglob("*.lock"):
        lock.unlink()
    # The first commit of a table names the folder that it was made in, which differs between machines.
    for log in lake.rglob("_delta_log/*.json"):
        log.write_text(log.read_text().replace(lake.absolute().as_uri(), "file:///lake"))


def write_bodies(lake: Path, folder: Path) -> None:
    """Write what the service of this release sends of a lake, as JSON and as Arrow."""
    import httpx

    import tidytape
    from tidytape.client._local import connection

    folder.mkdir()
    with tidytape.Client.local(lake) as client:
        queries = {
            name: getattr(client.query, method)(**arguments).queries[0].to_params()
            for name, (method, arguments) in STUDY.items()
            if name not in {"markets", "tpo_sessions"}  # the second is the query of the first
        }
    local = connection(lake)
    headers = {"X-Service-Key": local["api_key"], "Accept-Encoding": "identity"}
    with httpx.Client(base_url=ADDRESS, transport=local["transport"], headers=headers) as http:
        for name, params in queries.items():
            for form, media_type in FORMS.items():
                answer = http.get(
                    "/v1/points", params=params, headers={"Accept": media_type}
                ).raise_for_status()
                (folder / f"{name}.{form}").write_bytes(answer.content)


FORMS = {"json": "application/json", "arrow": "application/vnd.apache.arrow.stream"}


def _fill(path: Path) -> None:
    """Fill a lake with the first hours of the demo, minutes of the first half in its rollup."""
    from tidytape.demo._lake import tables
    from tidytape.demo._market import markets
    from tidytape.demo._outcomes import prediction_market
    from tidytape.lake import Lake
    from tidytape.lake._predictions import outcome_markets
    from tidytape.lake.rollup import rollup

    lake = Lake.create(path)
    lake.writer().register_prediction_markets(prediction_market())
    of_outcomes = outcome_markets(lake.prediction_markets(), quote_coin="USDC", quote_coin_name="USD Coin")
    future = pl.DataFrame(
        [
            {
                "exchange": "DEMO_CME",
                "raw_symbol": "BTCQ4",
                "coin": "BTC",
                "quote_coin": "USD",
                "category": "FUTURE",
            }
        ]
    )
    lake.writer().register(pl.concat([markets(), future, of_outcomes], how="diagonal_relaxed"))
    half = (START + END) // 2 * 10**9
    events = [(table, rows.filter(pl.col("timestamp") < END * 10**9)) for _, table, rows in tables(days=1)]
    # The study names no exchange of liquidations, so there is one.
    events = [
        (table, rows.filter(exchange="DEMO_PERP") if table == "liquidations" else rows)
        for table, rows in events
    ]
    for table, rows in events:
        lake.writer().append(table, rows.filter(pl.col("timestamp") < half), source="first half")
    rollup(lake)
    for table, rows in events:
        lake.writer().append(table, rows.filter(pl.col("timestamp") >= half), source="second half")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
