"""Any delimited file of trades, with a header and a column map.

The map says which column of the file is which of ours: ``{"price": "px", "amount": "qty", …}``. A column of the file
that bears our name is taken without being named.

========================= =========================================================================================
ours                      the file's
========================= =========================================================================================
``timestamp``             ISO 8601, naive means UTC, or an epoch number; its unit is found out, see ``time_unit``
``price``, ``amount``     numbers, quote per coin and coin
``side``                  of the aggressor: buy, sell, b or s in any case
``buyer_is_maker``        instead of ``side``: true or false, t or f, 1 or 0; true means that the aggressor sold
``id``                    may be left out
``raw_symbol``            may be left out when the caller names the instrument
========================= =========================================================================================

Without ids one is made from the trade itself: timestamp, price, amount, side and its number among identical trades.
The same trades exported again get the same ids. The order of trades of one timestamp is the id where every id of the
file is an integer of 64 bits, else the line; in a file that starts with its newest trade, the line from the end. How
lines of several files are ordered is told in `tidytape.lake.order`.

A trade without a side is a bad line, because nobody can tell whose volume it was.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable

import polars as pl

from tidytape.catalogue import Side
from tidytape.errors import IngestError, QueryError, nearest
from tidytape.lake.batch import Batch, Spool
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._time import ISO, nanoseconds, unit_of
from tidytape.lake.names import unstorable
from tidytape.lake.tables import TRADES

__all__ = ["COLUMNS", "parse"]

COLUMNS = ("timestamp", "price", "amount", "side", "buyer_is_maker", "id", "raw_symbol")
"""What a column map may name."""

_NEEDED = ("timestamp", "price", "amount")
_DELIMITERS = (",", ";", "\t", "|")
_WRITTEN_TAB = "\\t"  # as a shell passes it on

_SIDES = {"buy": Side.BUY, "b": Side.BUY, "sell": Side.SELL, "s": Side.SELL}
_MAKER = {
    "true": Side.SELL, "t": Side.SELL, "1": Side.SELL, "false": Side.BUY, "f": Side.BUY, "0": Side.BUY
}  # fmt: skip
_CONTENT = ("raw_symbol", "timestamp", "price", "amount", "side")


def parse(job: Job, spool: Spool, progress: Callable[[int], object]) -> Parsed:
    """Read one file.

    Parameters
    ----------
    job : Job
        The file, its ``columns``, ``delimiter`` and ``time_unit``.
    spool : Spool
        Takes the rows.
    progress : callable
        Called with the number of bytes read.

    Returns
    -------
    Parsed

    Raises
    ------
    QueryError
        If the map names a column that is not there, a needed column is not mapped, no instrument is named, or the
        delimiter is none.
    IngestError
        If the file cannot be read or has no header.
    """
    parsed = Parsed(spool)
    parsed.time_unit = job.time_unit
    reader: _Reader | None = None
    delimiter = None if job.delimiter is None else _given_delimiter(job.delimiter)
    for block in numbered(job.path, parsed.bad, progress):
        lines = block
        if reader is None and lines.height:
            line, text = lines.row(0)
            if parsed.bad.first and parsed.bad.first[0][0] < line:
                raise _header_error(job, *parsed.bad.first[0])
            try:
                reader = _Reader(job, text, delimiter or _delimiter(text), parsed)
            except csv.Error as error:
                reason = "it holds a bare carriage return" if "\r" in text.rstrip("\r") else str(error)
                raise _header_error(job, line, reason) from error
            lines = lines[1:]
        if reader is not None:
            reader.take(lines)
    if reader is None:
        if parsed.bad.first:
            raise _header_error(job, *parsed.bad.first[0])
        raise IngestError(f"{job.path}: no header, the file has no lines", path=str(job.path))
    if reader.by_id:
        parsed.batch(TRADES).order_by_id()
    else:
        parsed.batch(TRADES).counted = True
    return parsed


class _Reader:
    """Reads the lines below one header."""

    def __init__(self, job: Job, header: str, delimiter: str, parsed: Parsed) -> None:
        self.job = job
        self.parsed = parsed
        self.delimiter = delimiter
        self.header = [name.strip() for name in next(csv.reader([header], delimiter=self.delimiter))]
        self.mapped = _mapped(job, self.header)
        self.newest_first: bool | None = None
        self.by_id = "id" in self.mapped

    def take(self, lines: pl.DataFrame) -> None:
        """Read some lines, and put their trades into the batch."""
        parsed = self.parsed
        parsed.lines += lines.height
        fields = self._fields(lines)
        if parsed.time_unit is None:
            parsed.time_unit = unit_of(fields["timestamp"])
        trades = parsed.bad.take(_checked(fields, parsed.time_unit or ISO))
        if self.job.raw_symbol is not None and "raw_symbol" in self.mapped:
            others = trades.filter(pl.col("raw_symbol") != self.job.raw_symbol)
            if others.height:
                parsed.ignore("trade of another instrument", others.height)
            trades = trades.filter(pl.col("raw_symbol") == self.job.raw_symbol)
        if trades.is_empty():
            return
        if self.newest_first is None:
            self.newest_first = trades["timestamp"][0] > trades["timestamp"][-1]
        parsed.batch(TRADES).add(self._rows(trades))

    def _fields(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The mapped columns as text, beside ``line``; lines that do not have the header's columns go."""
        unquoted = pl.col("text").str.replace_all(r'"[^"]*"', "")
        reason = pl.coalesce(
            pl.when(unquoted.str.contains('"', literal=True)).then(pl.lit("a quote that does not end")),
            pl.when(unquoted.str.count_matches(self.delimiter, literal=True) >= len(self.header)).then(
                pl.lit("more columns than the header")
            ),
        )
        whole = self.parsed.bad.take(lines.with_columns(reason=reason))
        good, table = _split(whole, self.header, self.delimiter)
        for line in whole.filter(~good)["line"]:
            self.parsed.bad.add(line, "a misplaced quote")
        columns = {ours: table.to_series(self.header.index(name)) for ours, name in self.mapped.items()}
        if "raw_symbol" not in columns:
            columns["raw_symbol"] = pl.repeat(self.job.raw_symbol, table.height, dtype=pl.String, eager=True)
        return pl.DataFrame(
            {
                "line": whole.filter(good)["line"],
                **{name: text.str.strip_chars() for name, text in columns.items()},
            }
        )

    def _rows(self, trades: pl.DataFrame) -> pl.DataFrame:
        if self.by_id:
            # As it is written in one way only, so that two ids are never one number.
            number = pl.col("id").str.extract(r"^(0|[1-9]\d{0,18})$").cast(pl.Int64, strict=False)
            self.by_id = not trades.select(number.is_null().any()).item()
        return TRADES.conform(
            (trades if "id" in self.mapped else _with_ids(trades, self.parsed.batch(TRADES))).with_columns(
                exchange=pl.lit(self.job.exchange),
                sequence=-pl.col("line") if self.newest_first else pl.col("line"),
                quote_amount=pl.col("price") * pl.col("amount"),
            )
        )


def _header_error(job: Job, line: int, reason: str) -> IngestError:
    message = f"{job.path}:{line}: the header cannot be read: {reason}"
    return IngestError(message, path=str(job.path), line=line, bad_lines=1)


def _given_delimiter(text: str) -> str:
    delimiter = "\t" if text == _WRITTEN_TAB else text
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise QueryError("delimiter", got=text, expected="one ASCII character, e.g. ; or a tab, and no quote")
    return delimiter


def _delimiter(header: str) -> str:
    count = {delimiter: header.count(delimiter) for delimiter in _DELIMITERS}
    return max(_DELIMITERS, key=lambda delimiter: count[delimiter])


def _mapped(job: Job, header: list[str]) -> dict[str, str]:
    """Our columns to those of the file, the ones that were named and the ones that bear our name."""
    named = dict(job.columns or {})
    for ours, theirs in named.items():
        if ours not in COLUMNS:
            raise _map_error(ours, COLUMNS, "one of " + ", ".join(COLUMNS) + " to be mapped")
        if header.count(theirs) != 1:
            raise _map_error(theirs, header, f"for {ours} {_columns(job, header)}")
    mapped = named | {
        name: name
        for name in COLUMNS
        if name not in named and header.count(name) == 1 and name not in named.values()
    }
    if job.raw_symbol is not None and "raw_symbol" not in named:
        mapped.pop("raw_symbol", None)
    for name in _NEEDED:
        if name not in mapped:
            raise _map_error(None, header, f"{name} mapped to {_columns(job, header)}")
    if "side" in mapped and "buyer_is_maker" in mapped:
        if {"side", "buyer_is_maker"} <= set(named):
            raise _map_error(named["side"], (), "either side or buyer_is_maker to be mapped, not both")
        mapped.pop("side" if "buyer_is_maker" in named else "buyer_is_maker")
    if "side" not in mapped and "buyer_is_maker" not in mapped:
        raise _map_error(None, header, f"side or buyer_is_maker mapped to {_columns(job, header)}")
    if "raw_symbol" not in mapped and job.raw_symbol is None:
        raise QueryError(
            "raw_symbol", got=None, expected="the instrument of the file, or a column that names it"
        )
    return mapped


def _columns(job: Job, header: list[str], limit: int = 200) -> str:
    """Name a file's columns, or the first of them: the first line of another kind of file may be anything."""
    text = ", ".join(header)
    return f"one of the columns of {job.path.name}: {text if len(text) <= limit else text[:limit] + '…'}"


def _map_error(got: str | None, known: Iterable[str], expected: str) -> QueryError:
    close = nearest(got, known) if got is not None else None
    return QueryError(
        "columns", got=got, expected=expected, hint=f"did you mean {close!r}?" if close else None
    )


def _split(lines: pl.DataFrame, header: list[str], delimiter: str) -> tuple[pl.Series, pl.DataFrame]:
    """Which lines can be split into the header's columns, and those lines split; short ones get nulls."""
    table = _read(lines["text"], len(header), delimiter)
    if table is not None:
        return pl.repeat(value=True, n=lines.height, dtype=pl.Boolean, eager=True), table
    if lines.height == 1:
        nothing = pl.DataFrame(schema=dict.fromkeys(_names(len(header)), pl.String))
        return pl.Series([False]), nothing
    half = lines.height // 2
    (good, left), (also_good, right) = (
        _split(part, header, delimiter) for part in (lines[:half], lines[half:])
    )
    return good.append(also_good), left.vstack(right)


def _read(text: pl.Series, width: int, delimiter: str) -> pl.DataFrame | None:
    """All lines split in one pass; None if any has too many columns or is misquoted."""
    names = _names(width)
    body = "\n".join([delimiter.join(names), *text, ""])
    quoted = text.str.contains('"', literal=True).any()
    try:
        table = pl.read_csv(
            io.BytesIO(body.encode()),
            separator=delimiter,
            infer_schema=False,
            quote_char='"' if quoted else None,
        )
    except pl.exceptions.PolarsError:
        return None
    return table if table.height == len(text) and table.columns == names else None


def _names(width: int) -> list[str]:
    return [f"c{position}" for position in range(width)]


def _checked(fields: pl.DataFrame, time_unit: str) -> pl.DataFrame:
    """The columns as what they are, and a ``reason`` where one of them is not."""
    words, meaning = ("side", _SIDES) if "side" in fields.columns else ("buyer_is_maker", _MAKER)
    side = pl.col(words).str.to_lowercase().replace_strict(
        {word: side.value for word, side in meaning.items()}, default=None, return_dtype=pl.String
    )  # fmt: skip
    price, amount = (pl.col(name).cast(pl.Float64, strict=False) for name in ("price", "amount"))
    kind = "a written date and time" if time_unit == ISO else f"an epoch time in {time_unit}"
    rows = fields.with_columns(
        nanoseconds(pl.col("timestamp"), time_unit).alias("timestamp"),
        price.alias("price"),
        amount.alias("amount"),
        side.alias("side"),
    )
    price, amount = pl.col("price"), pl.col("amount")
    reasons = [
        (pl.col("timestamp").is_null(), f"the timestamp is not {kind} between 2000 and 2100"),
        (~price.is_finite().fill_null(value=False), "the price is no finite number"),
        (
            ~(amount.is_finite() & (amount > 0)).fill_null(value=False),
            "the amount is no finite number above 0",
        ),
        (pl.col("side").is_null(), f"the {words} is none of {', '.join(meaning)}"),
        (pl.col("raw_symbol").fill_null("") == "", "no symbol"),
        (
            pl.col("raw_symbol").is_in(unstorable(fields["raw_symbol"]).implode()),
            "the symbol is not printable, or too long for a folder",
        ),
    ]
    if "id" in fields.columns:
        reasons.append((pl.col("id").fill_null("") == "", "no id"))
    return rows.with_columns(
        reason=pl.coalesce(*(pl.when(wrong).then(pl.lit(reason)) for wrong, reason in reasons))
    )


def _with_ids(trades: pl.DataFrame, before: Batch) -> pl.DataFrame:
    """Add ids made from content; identical trades are numbered, on from those read before."""
    first, last = trades["timestamp"].min(), trades["timestamp"].max()
    ids = pl.concat_str(
        pl.col("timestamp"),
        pl.col("price"),
        pl.col("amount"),
        pl.col("side"),
        pl.col("__number"),
        separator="/",
    )
    earlier = [
        part.frame().select(_CONTENT)
        for part in before
        if part.first <= last and first <= part.last  # type: ignore[operator]  # polars types any value
    ]
    numbered = trades.with_columns(pl.int_range(pl.len()).over(_CONTENT).alias("__number"))
    if earlier:
        seen = pl.concat(earlier).group_by(_CONTENT).agg(pl.len().cast(pl.Int64).alias("__seen"))
        numbered = numbered.join(seen, on=_CONTENT, how="left", maintain_order="left").with_columns(
            pl.col("__number") + pl.col("__seen").fill_null(0)
        )
    return numbered.with_columns(ids.alias("id"))
