"""Where a fetched frame goes: a file by its suffix, or the terminal."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import typer

from tidytape.errors import QueryError

__all__ = ["check_target", "put"]

_SUFFIXES = (".parquet", ".csv", ".jsonl")


def check_target(out: Path | None) -> None:
    """Refuse a target that cannot be written, before anything is fetched."""
    if out is not None and out.suffix not in _SUFFIXES:
        raise QueryError("out", got=str(out), expected="a file ending in " + ", ".join(_SUFFIXES))
    if out is not None and not out.parent.is_dir():
        raise QueryError("out", got=str(out), expected="a file in a folder that exists")


def put(frame: pl.DataFrame, out: Path | None) -> None:
    """Write a frame, or print its first rows."""
    if out is None:
        with pl.Config(tbl_rows=20, tbl_cols=12, tbl_hide_dataframe_shape=False):
            typer.echo(str(frame))
        return
    if out.suffix == ".parquet":
        frame.write_parquet(out)
    elif out.suffix == ".csv":
        frame.write_csv(out)
    else:
        frame.write_ndjson(out)
    typer.echo(f"{frame.height} rows -> {out}", err=True)
