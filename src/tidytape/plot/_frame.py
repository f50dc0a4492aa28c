"""Reads the frame of a caller into memory, each column as what it is, as `tidytape.frames` reads it for analytics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import narwhals.stable.v2 as nw

from tidytape.errors import MissingColumnError
from tidytape.frames._kinds import Kind
from tidytape.frames._table import OpenTable

_CALLS = {
    "share": 'cross.market_share(frame, amount="volume")',
    "premium": "cross.premium(frame)",
    "completeness": 'quality.completeness(frame, every="1d")',
    "moneyness": "options.surface(fits), or options.svi(chain),",
    "expiry": 'client.events("option_quotes", ...)',
    "implied_volatility": "client.implied_volatility(...)",
    "realized_volatility": "options.realized_volatility(frame)",
    "skew": "client.skew(...)",
    "block_ids": "client.tpo(...)",
    "type": "client.describe()",
    "price": "client.volume_profile(...) or client.tpo(...)",
}
"""A call that returns a frame with a column, for columns that no call of `tidytape.frames` is suggested for."""

_LATER: dict[str, Kind | None] = {"side": None, "expiry": None}
"""Columns that a picture reads itself: ``side`` may be that of a trade or of a book, and ``expiry`` a date."""


def missing(names: Iterable[str], available: Iterable[str]) -> MissingColumnError:
    """Return the error for missing columns; its hint is the call that returns a frame with them, if there is one."""
    names = tuple(names)
    call = next(filter(None, map(_CALLS.get, names)), None)
    return MissingColumnError(names, available=available, hint=f"{call} returns it" if call else None)


def read_frame(frame: object, parameter: str, needed: Iterable[str] = ()) -> nw.DataFrame[Any]:
    """Return a frame in memory; raise if it is not a frame, lacks a column, or has one that cannot be read.

    Times that are needed are int64 nanoseconds then. `_LATER` has those that stay as they are.
    """
    try:
        table = OpenTable.of(
            nw.to_native(cast("Any", frame), pass_through=True), needed, kinds=_LATER, parameter=parameter
        )
    except MissingColumnError as error:
        if error.hint:
            raise
        raise missing(error.missing, error.available) from None
    return table.rows.collect("polars")


def with_datetimes(frame: nw.DataFrame[Any], parameter: str, name: str = "timestamp") -> nw.DataFrame[Any]:
    """Return the frame with a column as datetimes; raise if it cannot be read as times."""
    rows = OpenTable.of(frame.to_native(), [name], kinds=_LATER | {name: Kind.TIME}, parameter=parameter).rows
    return rows.with_columns(nw.col(name).cast(nw.Datetime("ns", "UTC"))).collect("polars")
