"""JSON text of a column, as polars expressions: every value becomes the text that stands for it on the wire.

The expressions depend on what is in the column: a column without nulls, infinities or characters to escape needs no
branches, and most have none. So `text` looks at the values once, at memory speed, and leaves out what cannot occur.
"""

from __future__ import annotations

import polars as pl
from polars.datatypes import DataTypeClass

__all__ = ["join", "member", "text"]

# JSON allows no raw character below space, and the quote and the backslash end or bend a string.
_ESCAPES = {'"': '\\"', "\\": "\\\\"} | {chr(code): f"\\u{code:04x}" for code in range(0x20)}
_TO_ESCAPE = r'["\\\x00-\x1f]'


def join(*pieces: pl.Expr | str) -> pl.Expr:
    """Put texts one after the other; a null piece is left out.

    Examples
    --------
    >>> pl.DataFrame({"x": [1.5]}).select(join('{"x":', pl.col("x"), "}")).item()
    '{"x":1.5}'
    """
    expressions = [pl.lit(piece) if isinstance(piece, str) else piece for piece in pieces]
    return pl.concat_str(expressions, ignore_nulls=True)


def member(name: str, column: pl.Series) -> list[pl.Expr | str]:
    """Return the pieces of ``,"name":value``; a null leaves out all of it.

    Examples
    --------
    >>> frame = pl.DataFrame({"x": [0.5, None]})
    >>> frame.select(pl.concat_str(member("high", frame["x"]))).to_series().to_list()
    [',"high":0.5', None]
    """
    nulls = column.null_count()
    if len(column) and nulls == len(column):
        return []
    key = f",{_quoted(name)}:"
    if nulls:
        return [pl.concat_str([pl.lit(key), text(column)])]
    return [key, text(column)]


def text(column: pl.Series) -> pl.Expr:
    """Return the expression that writes the values of a column of the same name; a null stays null.

    Numbers are written in the shortest form that reads back as the same double; NaN and the infinities are the
    strings proto3 JSON has for them. Times become ``{"s":…,"ns":…}``, without ``ns`` where it is 0. Values JSON has no
    form for (dates, durations, decimals) become strings.

    Examples
    --------
    >>> frame = pl.DataFrame({"x": [0.1, float("nan")], "t": [0, 1_000_000_001]})
    >>> frame = frame.with_columns(pl.col("t").cast(pl.Datetime("ns", "UTC")))
    >>> frame.select(text(frame["x"]), text(frame["t"])).rows()
    [('0.1', '{"s":0}'), ('"NaN"', '{"s":1,"ns":1}')]
    """
    value = pl.col(column.name)
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        return _time(column, value)
    if dtype.is_float():
        return _double(value, finite=bool(column.is_finite().all()))
    if dtype.is_integer() or dtype == pl.Boolean:
        return value.cast(pl.String)
    if isinstance(dtype, pl.List) and not dtype.inner.is_nested():
        return _list(value, dtype.inner)
    if dtype.is_nested():
        return _nested(value)
    value = value.cast(pl.String)
    return _string(value, plain=not column.cast(pl.String).str.contains(_TO_ESCAPE).any())


def _double(value: pl.Expr, *, finite: bool) -> pl.Expr:
    number = value.cast(pl.Float64).cast(pl.String)
    if finite:
        return number
    return (
        pl.when(value.is_finite())
        .then(number)
        .when(value.is_nan())
        .then(pl.lit('"NaN"'))
        .when(value > 0)
        .then(pl.lit('"Infinity"'))
        .when(value < 0)
        .then(pl.lit('"-Infinity"'))
    )


def _time(column: pl.Series, value: pl.Expr) -> pl.Expr:
    nanoseconds = value.dt.epoch("ns")
    seconds = (nanoseconds // 1_000_000_000).cast(pl.String)
    fraction = nanoseconds % 1_000_000_000
    if not (column.dt.epoch("ns") % 1_000_000_000 != 0).any():
        return pl.concat_str([pl.lit('{"s":'), seconds, pl.lit("}")])
    rest = (
        pl.when(fraction == 0)
        .then(pl.lit("}"))
        .otherwise(pl.concat_str([pl.lit(',"ns":'), fraction.cast(pl.String), pl.lit("}")]))
    )
    return pl.concat_str([pl.lit('{"s":'), seconds, rest])


def _list(value: pl.Expr, inner: pl.DataType | DataTypeClass) -> pl.Expr:
    item = pl.element()
    if inner.is_float():
        one = _double(item, finite=False)
    elif inner.is_numeric() or inner == pl.Boolean:
        one = item.cast(pl.String)
    else:
        one = _string(item.cast(pl.String), plain=False)
    items = value.list.eval(one.fill_null("null")).list.join(",")
    return pl.concat_str([pl.lit("["), items, pl.lit("]")])


def _nested(value: pl.Expr) -> pl.Expr:
    # polars writes structs only, so the value travels in one of a single field, `{"":…}`, and is taken out again.
    wrapped = pl.struct(value.alias("")).struct.json_encode()
    return pl.when(value.is_not_null()).then(wrapped.str.slice(4).str.head(-1))


def _string(value: pl.Expr, *, plain: bool) -> pl.Expr:
    if not plain:
        value = value.str.replace_many(_ESCAPES)
    return pl.concat_str([pl.lit('"'), value, pl.lit('"')])


def _quoted(name: str) -> str:
    return '"' + "".join(_ESCAPES.get(character, character) for character in name) + '"'
