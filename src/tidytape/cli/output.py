"""Where a fetched frame goes: a file by its suffix, or the terminal."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import typer

from tidytape.errors import QueryError, counted

__all__ = ["as_json_lines", "check_target", "put", "put_names"]

_SUFFIXES = (".parquet", ".csv", ".jsonl")
_ROWS = 20
_NAMES = (pl.Categorical, pl.String)


def check_target(out: Path | None) -> None:
    """Refuse a target that cannot be written, before anything is fetched."""
    if out is not None and out.suffix not in _SUFFIXES:
        raise QueryError("out", got=str(out), expected="a file ending in " + ", ".join(_SUFFIXES))
    if out is not None and not out.parent.is_dir():
        raise QueryError("out", got=str(out), expected="a file in a folder that exists")


def put(frame: pl.DataFrame, out: Path | None) -> None:
    """Write a frame, or print it: what is the same in every row once above, the other columns as a table."""
    if out is None:
        typer.echo(_printable(_as_text(frame), keep="\n"))
        return
    # Under another name first: what bears the name asked for is whole.
    part = out.with_name(f".{out.name}.part")
    try:
        if out.suffix == ".parquet":
            frame.write_parquet(part)
        elif out.suffix == ".csv":
            _lists_written(_times_written(frame)).write_csv(part)
        else:
            _times_written(frame).write_ndjson(part)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    typer.echo(f"{counted(frame.height, 'row')} -> {out}", err=True)


def put_names(names: list[str], column: str, out: Path | None) -> None:
    """Write names as a column, or print them, one a line."""
    if out is None:
        for name in names:
            typer.echo(_printable(name))
    else:
        put(pl.DataFrame({column: names}, schema={column: pl.String}), out)


def as_json_lines(frame: pl.DataFrame) -> str:
    """Return a frame as one JSON object per line."""
    return _times_written(frame).write_ndjson()


def _as_text(frame: pl.DataFrame) -> str:
    if frame.is_empty():
        return f"no rows; columns: {', '.join(frame.columns)}"
    present = frame[[column.name for column in frame if column.null_count() < frame.height]]
    same = [column.name for column in present if column.dtype in _NAMES and column.n_unique() == 1]
    heading = "  ".join(f"{name}={present[name][0]}" for name in same)
    shown = present.drop(same) if len(same) < present.width else present
    shown = _times_written(shown)
    with pl.Config(
        tbl_rows=_ROWS,
        tbl_cols=-1,
        tbl_width_chars=1000,  # a terminal wraps or scrolls; a column that is not there cannot be read at all
        fmt_str_lengths=100,
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_formatting="UTF8_BORDERS_ONLY",
    ):
        table = str(shown)
    rest = frame.height - _ROWS
    more = f"{frame.height} rows, {rest} not shown" if rest > 0 else ""
    return "\n".join(filter(None, (heading, table, more)))


def _times_written(frame: pl.DataFrame) -> pl.DataFrame:
    """Write times as ISO 8601 in UTC, to the nanosecond where there are any."""
    times = [column.name for column in frame if isinstance(column.dtype, pl.Datetime)]
    return frame.with_columns(pl.col(times).dt.to_string("%Y-%m-%dT%H:%M:%S%.fZ"))


def _lists_written(frame: pl.DataFrame) -> pl.DataFrame:
    """Write lists as JSON, for files that hold none."""
    nested = [column.name for column in frame if column.dtype.is_nested()]
    inside = '{"":'
    return frame.with_columns(
        pl.when(pl.col(name).is_not_null())
        .then(pl.struct(pl.col(name).alias("")).struct.json_encode().str.slice(len(inside)).str.head(-1))
        .alias(name)
        for name in nested
    )


def _printable(text: str, *, keep: str = "") -> str:
    """Write control characters out: names come from outside, and a terminal would act on them."""
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode("ascii")
        for one in text
    )
