"""Reads the frame of a caller into memory, with its times as datetimes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrame

from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames._door import frame_of, require

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


def missing(names: Iterable[str], available: Iterable[str]) -> MissingColumnError:
    """Return the error for missing columns; its hint is the call that returns a frame with them, if there is one."""
    names = tuple(names)
    call = next(filter(None, map(_CALLS.get, names)), None)
    return MissingColumnError(names, available=available, hint=f"{call} returns it" if call else None)


def read_frame(frame: object, parameter: str, needed: Iterable[str] = ()) -> nw.DataFrame[Any]:
    """Return a frame in memory; raise if it is not a frame or lacks a column."""
    try:
        any_frame: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(cast("IntoFrame", frame))
    except TypeError:
        expected = "a frame of polars or pandas"
        got = type(frame).__name__
        raise QueryError(parameter, got=got, expected=expected, hint=frame_of(frame)) from None
    eager = any_frame.collect() if isinstance(any_frame, nw.LazyFrame) else any_frame
    try:
        require(needed, eager.columns, native=frame)
    except MissingColumnError as error:
        if error.hint:
            raise
        raise missing(error.missing, error.available) from None
    return eager


def with_datetimes(frame: nw.DataFrame[Any], parameter: str, name: str = "timestamp") -> nw.DataFrame[Any]:
    """Return the frame with a column as datetimes; raise unless it has datetimes or int64 nanoseconds."""
    dtype = frame.schema[name]
    if dtype == nw.Int64:
        return frame.with_columns(nw.col(name).cast(nw.Datetime("ns", "UTC")))
    if not isinstance(dtype, nw.Datetime):
        raise QueryError(
            parameter, got=f"{name}: {dtype}", expected="a column of datetimes, or of int64 nanoseconds"
        )
    return frame
