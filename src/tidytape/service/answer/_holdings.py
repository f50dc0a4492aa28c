"""The holdings of a lake: for each market and data type the first and last event, the amount of data, and the gaps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import polars as pl

from tidytape.lake import LakeReader, hygiene
from tidytape.lake.hygiene._gaps import GAPS_FROM, MOST_ROWS
from tidytape.query import MetaQuery
from tidytape.schema import HOLDINGS
from tidytape.service.answer._inventory import LakeCache, filtered, holdings, types_of
from tidytape.service.answer._plans import PLANS, TABLES_OF_MARKETS
from tidytape.times import SECOND, Span, intersected, union

_MARKET = ("exchange", "raw_symbol")
_CHAIN = ("exchange", "coin")
_REGISTERED = ("available_since", "renamed_to", "renamed_at")
_FOREVER = (-(2**62), 2**62)

Row = dict[str, Any]
"""A row of `tidytape.lake.hygiene.gaps`."""


def described(
    lake: LakeReader, *, quiet: timedelta | None = None, most_rows: int | None = MOST_ROWS
) -> pl.DataFrame:
    """Return the holdings of a lake: every market with every data type that it has.

    Parameters
    ----------
    lake : LakeReader
        The lake to describe.
    quiet : timedelta, optional
        The shortest gap; longer for a market whose events are rare, see `tidytape.lake.hygiene.gaps`.
    most_rows : int, optional
        Most rows of a table to read for its gaps; None reads the events, however many there are. [rows]

    Returns
    -------
    polars.DataFrame, one row per market and data type, in the order of markets and then of the catalogue
        Schema `tidytape.schema.HOLDINGS`. A type that is made of two tables, such as candles of trades and of recorded
        candles, counts the rows of both, and has a gap only if both tables have one at that time.

    Raises
    ------
    QueryError
        If ``quiet`` is not positive.
    LakeError
        If the lake cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake import Lake
    >>> described(Lake.create(tempfile.mkdtemp())).height
    0
    """
    rows_by_table = {table: _rows_of(lake, table, quiet, most_rows) for table in _TABLES}
    registered = lake.markets().filter(pl.col("tenor").is_null())
    facts_by_market = {
        (row["exchange"], row["raw_symbol"]): {name: row[name] for name in _REGISTERED}
        for row in registered.select(*_MARKET, *_REGISTERED).iter_rows(named=True)
    }
    rows = _tokens(lake, rows_by_table["token_supply"])
    for market in (
        holdings(lake).filter(~pl.col("type").is_in(types_of("token_supply"))).iter_rows(named=True)
    ):
        key = tuple(market[name] for name in _keys_of(market["type"]))
        tables = {
            table: row
            for table in PLANS[market["type"]].tables
            if (row := rows_by_table[table].get(key)) is not None
        }
        facts = facts_by_market.get((market["exchange"], market["raw_symbol"]), {})
        rows.append(_row(market | facts, tables, first=market["first"], last=market["last"]))
    position_by_type = {name: position for position, name in enumerate(PLANS)}
    frame = pl.DataFrame(rows, schema=_PLAIN).with_columns(
        pl.col(name).cast(dtype) for name, dtype in HOLDINGS.polars().items()
    )
    position = pl.col("type").replace_strict(position_by_type, return_dtype=pl.Int64)
    return frame.sort("exchange", "raw_symbol", "coin", position, nulls_last=True)


class DescribedLake:
    """The result of `described` for a lake, kept until the lake changes.

    Parameters
    ----------
    lake : LakeReader
    """

    def __init__(self, lake: LakeReader) -> None:
        self._lake = lake
        self._known: LakeCache[pl.DataFrame] = LakeCache(lake)

    def rows(self, query: MetaQuery) -> pl.DataFrame:
        """Return the rows of `described` that pass the filters of a query.

        Raises
        ------
        QueryError
            If a type does not exist.
        LakeError
            If the lake cannot be read.
        """
        rows = filtered(self._known.get("described", lambda: described(self._lake.now())), query)
        if query.start is not None:
            rows = rows.filter(pl.col("last_timestamp").dt.timestamp("ns") >= query.start * SECOND)
        if query.end is not None:
            rows = rows.filter(pl.col("first_timestamp").dt.timestamp("ns") < query.end * SECOND)
        return rows


_TABLES = sorted({table for plan in PLANS.values() for table in plan.tables})
_PLAIN: Mapping[str, Any] = {
    column.name: pl.List(pl.Int64)
    if column.dtype == "list[timestamp]"
    else pl.String
    if column.dtype == "string"
    else pl.Int64
    for column in HOLDINGS.columns
}


def _rows_of(
    lake: LakeReader, table: str, quiet: timedelta | None, most_rows: int | None
) -> dict[tuple[str, ...], Row]:
    frame = hygiene.gaps(lake, table, quiet=quiet, most_rows=most_rows)
    names = [name for name in frame.columns if frame[name].dtype == pl.String and name != "gaps_from"]
    return {tuple(row[name] for name in names): row for row in frame.iter_rows(named=True)}


def _keys_of(name: str) -> tuple[str, ...]:
    return _MARKET if name in TABLES_OF_MARKETS else _CHAIN


def _tokens(lake: LakeReader, rows_by_token: Mapping[tuple[str, ...], Row]) -> list[Row]:
    coins = dict(
        lake.scan("token_supply").select("token_name", "coin").unique().sort("coin").collect().iter_rows()
    )
    return [
        _row(
            {"type": name, "raw_symbol": token, "coin": coins.get(token)},
            {"token_supply": row},
            first=row["first"],
            last=row["last"],
        )
        for name in types_of("token_supply")
        for (token,), row in rows_by_token.items()
    ]


def _row(market: Row, tables: Mapping[str, Row], *, first: int, last: int) -> Row:
    names = ("exchange", "raw_symbol", "type", "category", "coin", "normalized_symbol", *_REGISTERED)
    rows = list(tables.values())
    return {name: market.get(name) for name in names} | {
        "first_timestamp": first,
        "last_timestamp": last,
        "rows": sum(row["rows"] for row in rows),
        "bytes": None if any(row["bytes"] is None for row in rows) else sum(row["bytes"] for row in rows),
        "tables": ", ".join(tables),
        **_gaps_of(rows),
    }


def _gaps_of(rows: list[Row]) -> Row:
    """Return the gaps of one table, or the gaps that several tables have in common."""
    names = ("gaps", "longest_gap", "quiet", "gaps_from", "gap_starts", "gap_ends")
    if len(rows) == 1:
        return {name: rows[0][name] for name in names}
    shortest = min(row["quiet"] for row in rows)
    common_gaps: list[Span] = [_FOREVER]
    for row in rows:
        gaps = zip(row["gap_starts"], row["gap_ends"], strict=True)
        outside_history = [(_FOREVER[0], row["first"]), (row["last"], _FOREVER[1])]
        common_gaps = [
            part for gap in common_gaps for part in intersected(gap, union([*gaps, *outside_history]))
        ]
    history = min(row["first"] for row in rows), max(row["last"] for row in rows)
    gaps_in_history = [
        span for gap in common_gaps for span in intersected(history, [gap]) if span[1] - span[0] >= shortest
    ]
    return {
        "gaps": len(gaps_in_history),
        "longest_gap": max((end - start for start, end in gaps_in_history), default=None),
        "quiet": shortest,
        "gaps_from": max((row["gaps_from"] for row in rows), key=GAPS_FROM.index),
        "gap_starts": [start for start, _ in gaps_in_history],
        "gap_ends": [end for _, end in gaps_in_history],
    }
