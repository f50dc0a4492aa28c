"""JSON text of columns, as polars expressions that turn every value into its text on the wire.

Most columns have no nulls, infinities or characters to escape, and their expressions need no branches. So `value` scans
the values once, at memory speed, and leaves out the branches that cannot occur.
"""

from __future__ import annotations

import polars as pl
from polars.datatypes import DataTypeClass

from tidytape.times import SECOND

Piece = pl.Expr | str
"""A text per row, or one text for all rows."""


# In a JSON string control characters, quotes and backslashes must be escaped.
_ESCAPES = {'"': '\\"', "\\": "\\\\"} | {chr(code): f"\\u{code:04x}" for code in range(0x20)}
_TO_ESCAPE = r'["\\\x00-\x1f]'


def join(*pieces: Piece, ignore_nulls: bool = True) -> pl.Expr:
    """Concatenate texts, without null pieces; unless they are ignored, a null piece makes the result null.

    Examples
    --------
    >>> pl.DataFrame({"x": [1.5]}).select(join('{"x":', pl.col("x"), "}")).item()
    '{"x":1.5}'
    """
    return pl.concat_str(
        [pl.lit(piece) if isinstance(piece, str) else piece for piece in pieces], ignore_nulls=ignore_nulls
    )


def member(name: str, column: pl.Series, *, null: bool = False) -> list[Piece]:
    """Return the pieces of ``,"name":value``. A null value gives no text; with ``null`` it is written as null.

    Examples
    --------
    >>> frame = pl.DataFrame({"x": [0.5, None]})
    >>> frame.select(pl.concat_str(member("high", frame["x"]))).to_series().to_list()
    [',"high":0.5', None]
    >>> frame.select(pl.concat_str(member("high", frame["x"], null=True))).to_series().to_list()
    [',"high":0.5', ',"high":null']
    """
    nulls, head = column.null_count(), f",{_quoted(name)}:"
    if len(column) and nulls == len(column):
        return [f"{head}null"] if null else []
    pieces = [head, *value(column)]
    if not nulls:
        return pieces
    text = join(*pieces, ignore_nulls=False)
    return [text.fill_null(f"{head}null") if null else text]


def value(column: pl.Series) -> list[Piece]:
    """Return the pieces that write the values of a column; for a null value, one of the pieces is null.

    The pieces refer to the column by its name.

    Numbers are written in the shortest form that reads back as the same double. NaN and the infinities are the strings
    that proto3 JSON has for them. Times become ``{"s":…,"ns":…}``, without ``ns`` if it is 0. Values for which JSON has
    no form (dates, durations, decimals) become strings.

    Examples
    --------
    >>> frame = pl.DataFrame({"x": [0.1, float("nan")], "t": [0, 1_000_000_001]})
    >>> frame = frame.with_columns(pl.col("t").cast(pl.Datetime("ns", "UTC")))
    >>> frame.select(join(*value(frame["x"]), " ", *value(frame["t"]))).to_series().to_list()
    ['0.1 {"s":0}', '"NaN" {"s":1,"ns":1}']
    """
    values = _exactly(column.name)
    column = column.alias("values")  # methods of a series read its name as a pattern too
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        return _time(column, values)
    if dtype.is_float():
        return [_double(values, finite=bool(column.is_finite().all()))]
    if dtype.is_integer() or dtype == pl.Boolean:
        return [values.cast(pl.String)]
    if isinstance(dtype, pl.List) and not dtype.inner.is_nested():
        return ["[", _items(values, dtype.inner), "]"]
    if dtype.is_nested():
        return [_nested(values)]
    texts = column.cast(pl.String)
    return ['"', _string(values.cast(pl.String), plain=not texts.str.contains(_TO_ESCAPE).any()), '"']


def _exactly(name: str) -> pl.Expr:
    """Return the column of this name, even if it is ``^x$`` or ``*``, which `polars.col` reads as patterns."""
    return pl.selectors.by_name(name).as_expr()


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


def _time(column: pl.Series, values: pl.Expr) -> list[Piece]:
    nanoseconds = values.dt.epoch("ns")
    seconds = (nanoseconds // SECOND).cast(pl.String)
    fraction = nanoseconds % SECOND
    is_whole = column.dt.epoch("ns") % SECOND == 0
    if is_whole.all():
        return ['{"s":', seconds, "}"]
    if not is_whole.any():
        return ['{"s":', seconds, ',"ns":', fraction.cast(pl.String), "}"]
    fraction_text = join(',"ns":', fraction.cast(pl.String), ignore_nulls=False)
    return ['{"s":', seconds, pl.when(fraction != 0).then(fraction_text).otherwise(pl.lit("")), "}"]


def _items(values: pl.Expr, inner: pl.DataType | DataTypeClass) -> pl.Expr:
    item = pl.element()
    if inner.is_float():
        text = _double(item, finite=False)
    elif inner.is_numeric() or inner == pl.Boolean:
        text = item.cast(pl.String)
    else:
        text = join('"', _string(item.cast(pl.String), plain=False), '"', ignore_nulls=False)
    return values.list.eval(text.fill_null("null")).list.join(",")


def _nested(value: pl.Expr) -> pl.Expr:
    # polars writes only structs as JSON: wrap the value in a struct, `{"":…}`, and cut it out of the text.
    wrapped = pl.struct(value.alias("")).struct.json_encode()
    return pl.when(value.is_not_null()).then(wrapped.str.slice(4).str.head(-1))


def _string(texts: pl.Expr, *, plain: bool) -> pl.Expr:
    return texts if plain else texts.str.replace_many(_ESCAPES)


def _quoted(name: str) -> str:
    return '"' + "".join(_ESCAPES.get(character, character) for character in name) + '"'
