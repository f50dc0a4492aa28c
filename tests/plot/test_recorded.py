"""Pictures of recorded data, from the file to the artist."""

from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from ingested import ingest
from lakes import empty_lake
from oracles import options as oracle
from tidytape import aggregate, plot
from tidytape.catalogue import Tenor
from tidytape.schema import schema_of

CHAINS = [f"deribit_options_snapshot_20260305T{time}Z.csv.gz" for time in ("042746", "093529", "155733")]
LOG = "binance-spot_ws_btcusdt_20240808.gz"


def drawable(points: pl.DataFrame, data_type: str, interval: str) -> pl.DataFrame:
    """The points as a client returns them."""
    time = pl.from_epoch("timestamp", time_unit="ns").dt.replace_time_zone("UTC")
    return schema_of(data_type).conform(points.with_columns(time, interval=pl.lit(interval)))


def quotes(path: Path) -> list[dict[str, Any]]:
    """The rows of a chain, read with the standard library."""

    def time(text: str) -> int:
        moment = datetime.fromisoformat(text)
        return int(moment.replace(microsecond=0).timestamp()) * 10**9 + moment.microsecond * 1000

    with gzip.open(path, "rt") as file:
        return [
            {
                "exchange": "DERIBIT",
                "raw_symbol": row["instrument_name"],
                "timestamp": time(row["timestamp"]),
                "coin": row["currency"],
                "option_type": row["option_type"].upper(),
                "strike": float(row["strike"]),
                "expiry": time(row["expiry_datetime"]),
                "implied_volatility": float(row["implied_volatility"]) * 100,
                "forward": float(row["futures_price"]),
            }
            for row in csv.DictReader(file)
        ]


@pytest.fixture
def chains(recorded: Path, tmp_path: Path) -> pl.LazyFrame:
    lake = empty_lake(tmp_path / "lake")
    for name in CHAINS:
        ingest(recorded / name, lake, layout="deribit-chain", exchange="DERIBIT")
    return lake.scan("option_quotes")


@pytest.mark.slow
def test_both_term_structures_of_three_chains(recorded: Path, chains: pl.LazyFrame) -> None:
    """Volatility at the money and 25-delta skew, as drawn, are those of plain Python."""
    volatility = aggregate.implied_volatility(chains, interval="1h").collect()
    skew = aggregate.skew(chains, interval="1h").collect().filter(pl.col("raw_symbol").str.ends_with("_25"))
    above, below = Figure(figsize=(9, 9)).subplots(2, 1)
    lines = {
        **plot.term_structure(
            drawable(volatility, "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", "HOUR"), ax=above
        ).lines,
        **plot.term_structure(drawable(skew, "SKEW_OPTION_SUMMARY_AGG", "HOUR"), ax=below).lines,
    }
    rows = [row for name in CHAINS for row in quotes(recorded / name)]
    wanted: dict[tuple[str, datetime], dict[int, float]] = defaultdict(dict)
    for found in (oracle.implied_volatility(rows, 3600, "forward"), oracle.skew(rows, 3600, "forward")):
        for (_, symbol, tenor, bucket), value in found.items():
            wanted[symbol, datetime.fromtimestamp(bucket // 10**9, UTC)][Tenor(tenor).days] = value
    assert len(lines) == 2 * 2 * 3  # measures, coins, chains
    for (symbol, time), line in lines.items():
        drawn = {int(days): value for days, value in line.get_xydata() if not math.isnan(value)}
        assert drawn == pytest.approx(wanted[symbol.removeprefix("DERIBIT "), time], abs=1e-9, rel=0)
        assert len(drawn) == 7  # every tenor but a year, beyond the last expiry
    above.figure.canvas.draw()


@pytest.mark.slow
def test_a_recorded_book_is_drawn_as_it_stood(recorded: Path, tmp_path: Path) -> None:
    lake = empty_lake(tmp_path / "lake")
    ingest(recorded / LOG, lake, layout="binance-ws", exchange="BINANCE")
    events = lake.scan("book")
    points = aggregate.book_heatmap(events, interval="1m", block_size=10).collect(engine="streaming")
    prices = (61_000.0, 62_500.0)
    drawn = plot.book_heatmap(
        drawable(points, "BLOCK_BOOK_SNAPSHOT_AGG", "MINUTE"), ax=Figure().subplots(), prices=prices
    )
    assert drawn.block_size == 10
    inside = points.filter(pl.col("price").is_between(*prices))
    for side, image in (("BID", drawn.bids), ("ASK", drawn.asks)):
        assert image is not None
        matrix = np.ma.filled(image.get_array().astype(float), 0.0)
        assert matrix.shape[1] == 7  # minutes from 23:54 to 00:00
        per_minute = (
            inside.filter(side=side).group_by("timestamp").agg(pl.col("size").sum()).sort("timestamp")
        )
        assert_allclose(matrix.sum(axis=0), per_minute["size"], rtol=1e-5)  # it is float32
    drawn.ax.figure.canvas.draw()
