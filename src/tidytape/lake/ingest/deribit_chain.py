"""Snapshots of Deribit's option chains, as delimited files with a header.

One line per option. Columns are known by their names, others are passed over:

========================= =========================================================================================
ours                      the file's
========================= =========================================================================================
``timestamp``             ``timestamp``, ISO 8601, of the whole snapshot
``raw_symbol``            ``instrument_name``, e.g. BTC-27MAR26-60000-P
``coin``                  ``currency``
``option_type``           ``option_type``, call or put
``strike``                ``strike``, quote per coin
``expiry``                ``expiry_datetime``, ISO 8601, as given
``implied_volatility``    ``implied_volatility`` of the mark price, a decimal there and percent here
``delta``                 ``delta``
``forward``               ``futures_price``, quote per coin
``mark_price``            ``mark_price``, in coin
``open_interest``         ``open_interest``, in coin
========================= =========================================================================================

Of the last five an empty one is unknown; a quote without a volatility is kept, for its open interest counts.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tidytape.errors import IngestError
from tidytape.lake.amount_units import of_coins
from tidytape.lake.batch import Spool
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._time import ISO, nanoseconds
from tidytape.lake.tables import OPTION_QUOTES

__all__ = ["parse", "recognises"]

_COLUMNS = {
    "timestamp": "timestamp",
    "raw_symbol": "instrument_name",
    "coin": "currency",
    "option_type": "option_type",
    "strike": "strike",
    "expiry": "expiry_datetime",
    "implied_volatility": "implied_volatility",
    "delta": "delta",
    "forward": "futures_price",
    "mark_price": "mark_price",
    "open_interest": "open_interest",
}
_NAMES = ("raw_symbol", "coin")
_TIMES = ("timestamp", "expiry")
_NUMBERS = ("implied_volatility", "delta", "forward", "mark_price", "open_interest")


def parse(job: Job, spool: Spool, progress: Callable[[int], object]) -> Parsed:
    """Read one file.

    Parameters
    ----------
    job : Job
        The file; ``raw_symbol`` takes one option out of it.
    spool : Spool
        Takes the rows.
    progress : callable
        Called with the number of bytes read.

    Returns
    -------
    Parsed

    Raises
    ------
    IngestError
        If the file cannot be read, or its header lacks a column.
    """
    parsed = Parsed(spool, amount_unit=of_coins)
    header: list[str] | None = None
    for block in numbered(job.path, parsed.bad, progress):
        lines = block
        if header is None and lines.height:
            header = _header(job, lines["text"][0])
            lines = lines[1:]
        if header is None or lines.is_empty():
            continue
        parsed.lines += lines.height
        quotes = parsed.bad.take(_checked(parsed.bad.take(_fields(lines, header))))
        if job.raw_symbol is not None:
            others = quotes.filter(pl.col("raw_symbol") != job.raw_symbol).height
            if others:
                parsed.ignore("quote of another option", others)
            quotes = quotes.filter(pl.col("raw_symbol") == job.raw_symbol)
        parsed.batch(OPTION_QUOTES).add(
            OPTION_QUOTES.conform(quotes.with_columns(exchange=pl.lit(job.exchange or "DERIBIT")))
        )
    if header is None:
        raise IngestError(f"{job.path}: no header, the file has no lines", path=str(job.path))
    return parsed


def _header(job: Job, text: str) -> list[str]:
    header = [name.strip() for name in text.split(",")]
    missing = [name for name in _COLUMNS.values() if header.count(name) != 1]
    if missing:
        raise IngestError(
            f"{job.path}: no option chain, its header lacks {', '.join(missing)}", path=str(job.path), line=1
        )
    return header


def _fields(lines: pl.DataFrame, header: list[str]) -> pl.DataFrame:
    """Our columns as text, and a ``reason`` where a line has not the header's columns."""
    parts = pl.col("text").str.split(",")
    columns = (
        parts.list.get(header.index(theirs), null_on_oob=True).str.strip_chars().fill_null("").alias(ours)
        for ours, theirs in _COLUMNS.items()
    )
    count = len(header)
    found = parts.list.len()
    columns_of = pl.when(found == 1).then(pl.lit("column")).otherwise(pl.lit("columns"))
    reason = pl.when(found != count).then(
        pl.format("{} {}, and the header has {}", found, columns_of, pl.lit(count))
    )
    return lines.select("line", *columns, reason.alias("reason"))


def _checked(fields: pl.DataFrame) -> pl.DataFrame:
    """The columns as what they are, and a ``reason`` where one of them is not."""
    said = [pl.col(name) != "" for name in _NUMBERS]
    numbers = [pl.col(name).cast(pl.Float64, strict=False) for name in ("strike", *_NUMBERS)]
    kind = pl.col("option_type").str.to_uppercase()
    rows = fields.with_columns(
        *(nanoseconds(pl.col(name), ISO).alias(name) for name in _TIMES),
        *numbers,
        pl.when(kind.is_in(["CALL", "PUT"])).then(kind).alias("option_type"),
        *(known.alias(f"{name}_said") for name, known in zip(_NUMBERS, said, strict=True)),
    )
    strike = pl.col("strike")
    reasons = [
        *((pl.col(name) == "", f"no {_COLUMNS[name]}") for name in _NAMES),
        *(
            (
                pl.col(name).is_null(),
                f"the {_COLUMNS[name]} is not a written date and time between 2000 and 2100",
            )
            for name in _TIMES
        ),
        (pl.col("option_type").is_null(), "the option_type is neither call nor put"),
        (
            ~(strike.is_finite() & (strike > 0)).fill_null(value=False),
            "the strike is no finite number above 0",
        ),
        *(
            (
                pl.col(f"{name}_said") & ~pl.col(name).is_finite().fill_null(value=False),
                f"the {_COLUMNS[name]} is no finite number",
            )
            for name in _NUMBERS
        ),
    ]
    return rows.with_columns(
        pl.col("implied_volatility") * 100,
        reason=pl.coalesce(*(pl.when(wrong).then(pl.lit(reason)) for wrong, reason in reasons)),
    )


def recognises(name: str, head: str) -> bool:
    """Whether a file is such a snapshot: its header has all the columns."""
    header = [column.strip() for column in head.partition("\n")[0].split(",")]
    return all(header.count(column) == 1 for column in _COLUMNS.values())
