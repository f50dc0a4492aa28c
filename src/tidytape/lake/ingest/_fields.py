"""What the columns of a file hold, as data: text is converted to values, and a wrong value or candle gets a reason.

Examples
--------
>>> rows = pl.DataFrame({"line": [1, 2, 3], "price": ["10.5", "", "ten"]})
>>> checked(rows, {"price": Field("px", NUMBER)}).select("price", "reason").rows()
[(10.5, None), (None, 'no px'), (None, "the px 'ten' is not a finite number")]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from tidytape.catalogue import Interval
from tidytape.errors import IngestError, QueryError, did_you_mean
from tidytape.lake._symbols import unstorable
from tidytape.lake.ingest._time import UNITS, Zone, described, from_epoch, nanoseconds
from tidytape.query import _values as values
from tidytape.times import DAY, MILLISECOND, MONDAY, SECOND, WEEK, FrameInterval

_QUOTED = 80
"""Most characters of a value that a message shows."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the texts of a column stand for, e.g. finite numbers.

    Attributes
    ----------
    value : callable
        Takes an expression of texts and returns one of values; null if a text does not stand for a value.
    expected : str
        What a text has to be, in the words of an error.
    hint : str
        What a user can do if a text is something else.
    number : callable, optional
        Takes an expression of numbers of ``dtype`` and returns one of the values that their texts stand for. So a
        column can be read as numbers at once.
    dtype : polars.DataType
        What a column can be read as at once.
    """

    value: Callable[[pl.Expr], pl.Expr]
    expected: str
    hint: str = ""
    number: Callable[[pl.Expr], pl.Expr] = lambda number: number
    dtype: type[pl.DataType] = pl.String


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a file.

    Attributes
    ----------
    name : str
        Its name in the file.
    kind : Kind
        What it holds.
    needed : bool
        Whether a line without a value is broken.
    """

    name: str
    kind: Kind
    needed: bool = True


def _numbers(
    expected: str, number: Callable[[pl.Expr], pl.Expr], dtype: type[pl.DataType] = pl.Float64
) -> Kind:
    """Return the kind of numbers of a dtype; ``number`` makes those that are no value null."""
    return Kind(lambda text: number(text.cast(dtype, strict=False)), expected, number=number, dtype=dtype)


def _finite(number: pl.Expr) -> pl.Expr:
    return pl.when(number.is_finite()).then(number)


def _storable(names: pl.Series) -> pl.Series:
    return names.set(names.is_in(unstorable(names).implode()).fill_null(value=False), None)


TEXT = Kind(lambda text: text, "text")
NAME = Kind(
    lambda text: text.map_batches(_storable, return_dtype=pl.String),
    "a printable name that is short enough for a folder",
)
NUMBER = _numbers("a finite number", _finite)
ABOVE_ZERO = _numbers(
    "a finite number above 0", lambda number: pl.when(number.is_finite() & (number > 0)).then(number)
)
NOT_NEGATIVE = _numbers(
    "a finite number, 0 or above", lambda number: pl.when(number.is_finite() & (number >= 0)).then(number)
)
INTEGER = _numbers("an integer of 64 bits", lambda number: number, pl.Int64)


def time(unit: str, zone: Zone = Zone(), *, hint: str = "") -> Kind:  # noqa: B008  # frozen
    """Return the kind of times in a unit or format, see `tidytape.lake.ingest._time`; values are epoch nanoseconds."""
    only_once = "" if zone == Zone() else f" that the clock of {zone.name} shows once"
    return Kind(
        lambda text: nanoseconds(text, unit, zone),
        f"{described(unit)} between 2000 and 2100{only_once}",
        hint,
        number=lambda number: from_epoch(number, unit),
        dtype=pl.Int64 if unit in UNITS else pl.String,
    )


def word(meaning: Mapping[str, str]) -> Kind:
    """Return the kind of some words, in lower or upper case; values are the meanings of the words."""
    return Kind(
        lambda text: text.str.to_lowercase().replace_strict(
            dict(meaning), default=None, return_dtype=pl.String
        ),
        "one of " + ", ".join(meaning),  # as in `NO_SUCH_WORD`
    )


def _flag(text: pl.Expr) -> pl.Expr:
    lower = text.str.to_lowercase()
    is_true = lower.is_in(["true", "t", "1"])
    return pl.when(is_true | lower.is_in(["false", "f", "0"])).then(is_true)


FLAG = Kind(_flag, "one of true, t, 1, false, f, 0")


def checked(rows: pl.DataFrame, fields: Mapping[str, Field]) -> pl.DataFrame:
    """Return the values of some columns, and a ``reason`` for each line with a wrong or missing value.

    Parameters
    ----------
    rows : polars.DataFrame, one row per line
        ``line`` and one column of text per field. An empty text is a missing value.
    fields : mapping of str to Field
        The fields by the name of the column in ``rows``.

    Returns
    -------
    polars.DataFrame, same rows
        ``line``, the values and ``reason``, null if the line is good.
    """
    has_text = {name: pl.col(name).fill_null("") != "" for name in fields}
    values = rows.select(
        "line",
        *(
            field.kind.value(pl.when(has_text[name]).then(pl.col(name))).alias(name)
            for name, field in fields.items()
        ),
        *(expression.alias(f"{name}:has_text") for name, expression in has_text.items()),
        *(pl.col(name).alias(f"{name}:text") for name in fields),
    )
    wrong_columns = {
        name: pl.col(name).is_null() if field.needed else pl.col(name).is_null() & pl.col(f"{name}:has_text")
        for name, field in fields.items()
    }
    reason = pl.lit(None, pl.String)
    # Quote texts only if a value is wrong, because quoting takes longer than checking.
    if values.select(pl.any_horizontal(*wrong_columns.values()).any()).item():
        reason = pl.coalesce(
            *(pl.when(wrong_columns[name]).then(_reason(name, field)) for name, field in fields.items())
        )
    if {"price", "amount"} <= fields.keys():
        reason = pl.coalesce(
            reason,
            pl.when((pl.col("price") * pl.col("amount")).is_infinite()).then(
                pl.lit("price times amount is more than a number can hold")
            ),
        )
    return values.select("line", *fields, reason.alias("reason"))


def all_good(rows: pl.DataFrame, fields: Mapping[str, Field]) -> pl.DataFrame | None:
    """Return the values of some columns as `checked` does, without ``reason``; None if it might give one.

    Parameters
    ----------
    rows : polars.DataFrame, one row per line
        ``line`` and one column per field: text, or numbers of the dtype of its kind, null where the text is empty.
    fields : mapping of str to Field
        The fields by the name of the column in ``rows``.
    """
    dtypes = rows.schema
    if any(dtypes[name] != pl.String and field.kind.dtype is pl.String for name, field in fields.items()):
        return None  # such as numbers in a column of which no value is a time
    values = rows.select("line", *(_value(name, field, dtypes[name]) for name, field in fields.items()))
    for name, field in fields.items():
        empty_count = 0 if field.needed else rows[name].null_count()
        if not field.needed and dtypes[name] == pl.String:
            empty_count += int((rows[name] == "").sum())
        if values[name].null_count() > empty_count:
            return None
    if {"price", "amount"} <= fields.keys():
        largest_values = values.select(pl.col("price", "amount").abs().max()).row(0)
        if math.isinf(math.prod(value or 0.0 for value in largest_values)):
            return None
    return values


def _value(name: str, field: Field, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if dtype != pl.String:
        return field.kind.number(column)
    return field.kind.value(pl.when(column != "").then(column)).alias(name)


def _reason(name: str, field: Field) -> pl.Expr:
    """Return what is wrong with the values of a column, with each value quoted on one line."""
    text = pl.col(f"{name}:text")
    shown_text = (
        pl.when(text.str.len_chars() > _QUOTED).then(text.str.head(_QUOTED - 1) + pl.lit("…")).otherwise(text)
    )
    quoted = pl.concat_str(pl.lit("'"), shown_text.str.replace_all(r"\p{C}", "�"), pl.lit("'"))
    kind = field.kind
    message = pl.concat_str(
        pl.lit(f"the {field.name} "),
        quoted,
        pl.lit(f" is not {kind.expected}" + (f"; {kind.hint}" if kind.hint else "")),
    )
    return pl.when(pl.col(f"{name}:has_text")).then(message).otherwise(pl.lit(f"no {field.name}"))


LENGTHS: Mapping[str, int] = MappingProxyType(
    {
        # Lengths of candles in files that are not intervals of the service.
        **{word: values.milliseconds(word, parameter="interval") * MILLISECOND
           for word in ("1s", "3m", "2h", "6h", "8h", "12h", "3d")},
        **{word: interval.seconds * SECOND for interval in Interval for word in (interval.alias, interval.value)},
    }
)  # fmt: skip
"""Lengths of candles by word, e.g. 1m; without 1M, because months differ in length. [ns]"""


def length(word: object) -> int:
    """Return the length that a word stands for. [ns]

    Raises
    ------
    QueryError
        If there is no such word.
    """
    if not isinstance(word, str) or word.strip() not in LENGTHS:
        raise QueryError(
            "interval",
            got=word,
            expected="one of " + ", ".join(sorted(LENGTHS, key=LENGTHS.__getitem__)),
            hint=did_you_mean(str(word), LENGTHS),
            code="INVALID_INTERVAL",
        )
    return LENGTHS[word.strip()]


def _length(text: pl.Expr) -> pl.Expr:
    number = text.cast(pl.Int64, strict=False)
    # A number is in nanoseconds. A number below a second was probably meant in another unit.
    as_nanoseconds = pl.when(number >= SECOND).then(number)
    return pl.coalesce(
        text.replace_strict(dict(LENGTHS), default=None, return_dtype=pl.Int64), as_nanoseconds
    )


INTERVAL = Kind(_length, "an interval such as 1m, or a number of ns from 1e9")


_SHORTEST_MONTH = 28 * DAY


def in_steps(candles: pl.DataFrame) -> pl.DataFrame:
    """Return the candles, if they can have their length.

    Candles may be missing, so they cannot if more than half of the neighbours are the same several lengths apart, or
    if those of a day or a week are months apart.

    Raises
    ------
    IngestError
        If the candles of a market cannot, such as candles of days whose length is said to be an hour.
    """
    step = pl.col("timestamp").diff()
    is_month = (pl.col("least") >= _SHORTEST_MONTH) & (pl.col("interval") <= WEEK)
    far_apart = (
        candles.sort("timestamp")
        .group_by("exchange", "raw_symbol", "interval")
        .agg(least=step.min(), share=(step == step.min()).mean(), rows=pl.len())
        .filter(pl.col("rows") > 2, pl.col("least") > pl.col("interval"), (pl.col("share") > 0.5) | is_month)
        .sort("exchange", "raw_symbol")
    )
    for row in far_apart.head(1).iter_rows(named=True):
        stated, step_word = (FrameInterval(row[name] // SECOND).alias for name in ("interval", "least"))
        if row["least"] >= _SHORTEST_MONTH:
            raise IngestError(
                f"candles: those of {row['exchange']} {row['raw_symbol']} start a month or more apart, and their "
                f"length is said to be {stated}; the lake has no candles of months"
            )
        raise IngestError(
            f"candles: those of {row['exchange']} {row['raw_symbol']} start {step_word} apart, and their length is "
            f"said to be {stated}: is ``interval`` {step_word}?"
        )
    return candles


def impossible(candles: pl.DataFrame) -> pl.DataFrame:
    """Return the candles, with a ``reason`` for each that is impossible.

    A candle starts at a multiple of its length since the Unix epoch in UTC, and a week on Monday. No rule says on which
    day other candles longer than a day start, so they may start at any midnight.

    Parameters
    ----------
    candles : polars.DataFrame, one row per candle
        ``timestamp`` and ``interval`` [ns], ``open``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` and, if
        they are known, ``buy_volume`` [coin], ``quote_volume`` and ``buy_quote_volume`` [quote].

    Returns
    -------
    polars.DataFrame, same rows
        Adds ``reason``, null if the candle is possible.

    Examples
    --------
    >>> candle = {"timestamp": 10**9, "interval": 60 * 10**9, "open": 1.0, "high": 2.0, "low": 1.0, "close": 2.0}
    >>> impossible(pl.DataFrame(candle | {"volume": 1.0}))["reason"].item()[:53]
    'no candle of its length starts at 1970-01-01T00:00:01'
    """
    time, interval = pl.col("timestamp"), pl.col("interval")
    is_week = interval == WEEK
    step = pl.when((interval > DAY) & ~is_week).then(DAY).otherwise(interval)
    first_start = pl.when(is_week).then(MONDAY).otherwise(0)
    low, high = pl.col("low"), pl.col("high")
    checks = [
        ((time - first_start) % step != 0, None),
        (pl.min_horizontal("open", "high", "low", "close") <= 0, "a price is not above 0"),
        (
            (low > pl.min_horizontal("open", "close")) | (high < pl.max_horizontal("open", "close")),
            "the open or the close is not between low and high",
        ),
        *(
            (pl.col(f"buy_{total}") > pl.col(total), f"the buy_{total} is more than the {total}")
            for total in ("volume", "quote_volume")
            if {total, f"buy_{total}"} <= set(candles.columns)
        ),
    ]
    return candles.with_columns(
        reason=pl.coalesce(
            *(
                pl.when(is_wrong).then(_NO_START if reason is None else pl.lit(reason))
                for is_wrong, reason in checks
            )
        )
    )


_NO_START = pl.format(
    "no candle of its length starts at {}: they start at multiples of its length, from 00:00 UTC; ``stamped='end'`` "
    "says that times are those of ends{}",
    pl.from_epoch("timestamp", time_unit="ns").dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ"),
    pl.when(interval=DAY)
    .then(pl.lit(", and ``session`` when the market trades, if days start at its open or at its midnight"))
    .otherwise(pl.lit("")),
)
