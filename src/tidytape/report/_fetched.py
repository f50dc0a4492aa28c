"""The contents of a tape, as a frame."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl

from tidytape.report._answers import MARKET, Answers, frame_of
from tidytape.schema import schema_of


def fetched(tape: str | os.PathLike[str], /) -> pl.DataFrame:
    """Return the series, rows, weight and time of each data type on a tape.

    Parameters
    ----------
    tape : path

    Returns
    -------
    polars.DataFrame, one row per data type or table of events, in the order of their first answers
        ``type`` : str; ``series`` and ``rows`` : int64, numbers in all answers together; ``weight`` : int64, weight of
        the requests when they were recorded; ``seconds`` : float64, time that they took. [s]

    Raises
    ------
    TapeError
        If the tape cannot be read, or is incomplete.

    Examples
    --------
    >>> import tempfile, tidytape
    >>> day = {"coin": "BTC", "interval": "1h", "start": "2024-08-08", "end": "2024-08-09"}
    >>> with tidytape.Client.demo() as client, tempfile.TemporaryDirectory() as folder:
    ...     with client.record(f"{folder}/study.tape"):
    ...         candles = client.candles(exchange="DEMO_SPOT", **day)
    ...     fetched(f"{folder}/study.tape").drop("seconds").row(0)
    ('TRADE_SIDE_AGNOSTIC_AGG', 1, 24, 1)
    """
    types: dict[str, dict[str, Any]] = {}
    for entry in Answers(Path(tape)).contents.answers:
        if entry.ask.get("ask") not in ("points", "events"):
            continue
        params = {pair[0]: pair[1] for pair in entry.ask.get("params") or () if len(pair) == 2}
        name = params.get("type") or f"events of {params.get('table')}"
        frame = frame_of(entry)
        identity = schema_of(name).identity if "type" in params else MARKET
        names = [column for column in identity if column in frame.columns]
        row = types.setdefault(name, {"series": set(), "rows": 0, "weight": 0, "seconds": 0.0})
        row["series"] |= set(frame.select(names).unique().iter_rows())
        row["rows"] += frame.height
        row["weight"] += entry.facts.get("weight", 0)
        row["seconds"] += entry.facts.get("seconds", 0.0)
    rows = [{"type": name, **row, "series": len(row["series"])} for name, row in types.items()]
    schema = {
        "type": pl.String,
        "series": pl.Int64,
        "rows": pl.Int64,
        "weight": pl.Int64,
        "seconds": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema)
