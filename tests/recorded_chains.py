"""The recorded option chains of one day, three times two coins."""

from __future__ import annotations

from pathlib import Path

import polars as pl

__all__ = ["SNAPSHOTS", "recorded_chains"]

SNAPSHOTS = [f"deribit_options_snapshot_20260305T{time}Z.csv.gz" for time in ("042746", "093529", "155733")]


def recorded_chains(folder: Path) -> pl.DataFrame:
    """One row per option and snapshot, with the columns of the lake's ``option_quotes``; volatility in percent."""

    def time(column: str) -> pl.Expr:
        return pl.col(column).str.to_datetime(time_unit="us", time_zone="UTC")

    frames = [pl.read_csv(folder / name, infer_schema_length=None) for name in SNAPSHOTS]
    return pl.concat(frames).select(
        time("timestamp"),
        exchange=pl.lit("DERIBIT"),
        raw_symbol="instrument_name",
        coin="currency",
        option_type=pl.col("option_type").str.to_uppercase(),
        strike="strike",
        expiry=time("expiry_datetime"),
        implied_volatility=pl.col("implied_volatility") * 100,
        forward="futures_price",
        mark_price="mark_price",
    )
