"""Writes frames and names to a file, in the format of its suffix, or prints them."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidytape.errors import QueryError, counted, escaped

if TYPE_CHECKING:
    import polars as pl


JSON_OPTION: Any = typer.Option("--json", help="Print JSON and nothing else: times in ISO 8601, UTC.")
Json = Annotated[bool, JSON_OPTION]

TABLES = (".parquet", ".csv", ".jsonl")
"""The suffixes of files that can hold a frame."""

PICTURES = (".png", ".svg", ".pdf")
"""The suffixes of files that can hold a picture."""

_ROWS = 20


def check_target(out: Path | None, *, suffixes: tuple[str, ...] = TABLES) -> None:
    """Refuse a target that cannot be written, before anything is fetched."""
    if out is not None and out.suffix not in suffixes:
        raise QueryError("out", got=str(out), expected="a file ending in " + ", ".join(suffixes))
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise QueryError("out", got=str(out), expected="a file in a folder that exists")


def put(
    frame: pl.DataFrame, out: Path | None, *, rest: str = "--out FILE writes all", rows: int = _ROWS
) -> None:
    """Write a frame to a file, or print it as a table; texts that are the same in every row are printed once, above it.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows.
    out : Path, optional
        The file; if None, the terminal, where each row takes one line.
    rest : str
        Hint on how to get the rows and columns that the terminal has no room for.
    rows : int
        Largest number of rows that the terminal shows.
    """
    import polars as pl

    from tidytape.cli._table import as_text, harmless
    from tidytape.wire import flat
    from tidytape.wire._csv import with_text_times

    if out is None:
        typer.echo(escaped(as_text(frame, rest=rest, rows=rows), keep="\n"))
        return
    # Write to a file with a random name first, so that ``out`` is never half written. If ``out`` is a link, replace the
    # file that it leads to.
    target = out.resolve()
    part_file = target.with_name(f".{out.name}.{secrets.token_hex(4)}.part")
    try:
        if out.suffix == ".parquet":
            frame.write_parquet(part_file)
        elif out.suffix == ".csv":
            flat(harmless(frame)).write_csv(part_file)
        else:
            with_text_times(frame).write_ndjson(part_file)
        part_file.replace(target)
    except pl.exceptions.ComputeError as error:  # polars raises it if the disk is full
        raise OSError(f"{out} cannot be written: {error}") from None
    finally:
        part_file.unlink(missing_ok=True)
    typer.echo(f"{counted(frame.height, 'row')} -> {out}", err=True)


def put_names(names: list[str], column: str, out: Path | None) -> None:
    """Write names to a file as a column, or print them, one per line."""
    import polars as pl

    if out is None:
        for name in names:
            typer.echo(escaped(name))
    else:
        put(pl.DataFrame({column: names}, schema={column: pl.String}), out)


def put_json(value: Any) -> None:
    """Print a value as JSON: a frame as an array of objects, a data class as an object."""
    typer.echo(as_json(value))


def as_json(value: Any) -> str:
    """Return a value as JSON: a frame as an array of objects, one per row; times in ISO 8601, UTC.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> as_json(pl.DataFrame({"rows": [3]})), as_json({"ends": datetime(2024, 8, 8, tzinfo=UTC)})
    ('[{"rows":3}]', '{"ends":"2024-08-08T00:00:00Z"}')
    """
    import orjson
    import polars as pl

    from tidytape.wire._csv import with_text_times

    if isinstance(value, pl.DataFrame):
        return with_text_times(value).write_json()
    options = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(value, option=options, default=str).decode()
