"""What a column is, and how the door reads each kind: exactly, or not at all.

The name of a column says what it is; `KINDS` has the names of the catalogue and of the lake's tables. A function says
only what differs: the columns that its arguments name, and whether ``side`` is the side of a trade or of a book.

A column that cannot be read as its kind is refused, where its type shows it or where its rows are in memory. On a lazy
plan a value that cannot be read is null.

Examples
--------
>>> import polars as pl
>>> KINDS["price"], KINDS["first_timestamp"], KINDS.get("raw_symbol")
(<Kind.NUMBER: 'number'>, <Kind.TIME: 'time'>, None)
>>> frame = nw.from_native(pl.DataFrame({"side": ["buy", "S", "n", "maker"], "price": ["9999.5"] * 4}).lazy())
>>> frame.select(Column("side", Kind.SIDE, nw.String()).read()).collect()["side"].to_list()
['BUY', 'SELL', None, None]
>>> Column("price", Kind.NUMBER, nw.String()).read()
Traceback (most recent call last):
tidytape.errors.QueryError: frame: got 'price: String', expected numbers in column price; text becomes numbers with
frame.with_columns(pl.col('price').cast(pl.Float64))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw

from tidytape.catalogue import DATA_TYPES, AmountUnit, BookSide, Interval, Side
from tidytape.errors import QueryError
from tidytape.frames._times import EXPECTED_TIMES, FIRST_TIME, interval_words, unit_hint
from tidytape.schema import TPO_SESSIONS, schema_of
from tidytape.times import SECOND, frame_interval

if TYPE_CHECKING:
    import polars as pl


class Kind(StrEnum):
    """What a column is. An ``AMOUNT`` is a number of 0 or more; a ``COUNT`` keeps its own type of number.

    A ``VOLATILITY`` whose unit nobody said is refused where all values in memory look like decimals; a
    ``DECIMAL_VOLATILITY`` becomes percent.
    """

    NUMBER = "number"
    AMOUNT = "amount"
    COUNT = "count"
    TIME = "time"
    LENGTH = "length of time"
    SIDE = "side of a trade"
    BOOK_SIDE = "side of a book"
    OPTION_TYPE = "option type"
    INTERVAL = "interval"
    UNIT = "amount unit"
    VOLATILITY = "volatility in percent"
    DECIMAL_VOLATILITY = "volatility as decimal"


_OF_DTYPES: Final = {
    "float64": Kind.NUMBER,
    "int64": Kind.COUNT,
    "timestamp": Kind.TIME,
    "duration": Kind.LENGTH,
}
_EVENTS: Final = {
    Kind.NUMBER: "size quote_size quote_volume buy_quote_volume sell_quote_volume rate predicted_rate strike forward"
    " open_interest usd block_size mark_price underlying_price",
    Kind.AMOUNT: "amount quote_amount usd_amount",
    Kind.COUNT: "sequence first_sequence last_sequence last_id since_id until_id",
    Kind.TIME: "expiry since until known_at",
    Kind.LENGTH: "funding_interval",
    Kind.SIDE: "side",
    Kind.OPTION_TYPE: "option_type",
    Kind.INTERVAL: "interval",
    Kind.UNIT: "amount_unit",
}
KINDS: Final[Mapping[str, Kind]] = {
    column.name: _OF_DTYPES[column.dtype]
    for schema in (*map(schema_of, DATA_TYPES), TPO_SESSIONS)
    for column in schema.columns
    if column.dtype in _OF_DTYPES
} | {name: kind for kind, names in _EVENTS.items() for name in names.split()}
"""What a column of each name is; a column of another name is text, a flag or a list, which the door leaves as it is."""

OF_BOOKS: Final = {"side": Kind.BOOK_SIDE}
"""What ``side`` is in a frame of books."""

_LOWEST_VOLATILITY: Final = 5.0
"""Volatilities that all lie below are asked about: few markets are as calm, and many files have decimals. [%]"""

EVERYWHERE: Final = ("interval", "amount_unit", "block_size")
"""Columns that functions read wherever a frame has them."""

_SPELLINGS: Final[Mapping[Kind, Mapping[str, str | None]]] = MappingProxyType(
    {
        Kind.SIDE: dict.fromkeys(("BUY", "B"), Side.BUY.value)
        | dict.fromkeys(("SELL", "S"), Side.SELL.value)
        | dict.fromkeys(("", "N", "NONE", "UNKNOWN")),
        Kind.BOOK_SIDE: {"BID": BookSide.BID, "B": BookSide.BID, "ASK": BookSide.ASK, "A": BookSide.ASK},
        Kind.OPTION_TYPE: dict.fromkeys(("CALL", "C", "CE"), "CALL")
        | dict.fromkeys(("PUT", "P", "PE"), "PUT"),
        Kind.UNIT: {unit: unit for unit in (AmountUnit.COIN.value, AmountUnit.USD.value)},
    }
)
"""The spellings of each kind in upper case, with the word that each becomes; null for a side that is not known."""

_INTERVALS: Final = {interval.value: interval.alias for interval in Interval}
_EXPECTED: Final = {
    Kind.SIDE: "buy or sell, b or s in any case, or null where the side is not known",
    Kind.BOOK_SIDE: "bid or ask, b or a in any case",
    Kind.OPTION_TYPE: "call or put, c or p, ce or pe in any case",
    Kind.UNIT: "COIN, USD, or null where it is not known",
    Kind.INTERVAL: "intervals such as '1m', '2h' and '3d', a week at most",
}
_HINTS: Final = {
    Kind.SIDE: "a trade at the bid or the ask means the opposite at two vendors: write the side of the aggressor",
    Kind.UNIT: "multiply by what a contract counts, and write COIN or USD",
}

WORDS: Final = frozenset(_EXPECTED)
"""Kinds that are words."""

_TEXTS: Final = (nw.String, nw.Categorical, nw.Enum)

_CASTS: Final = {
    "pandas": "frame[{0!r}].astype(float)",
    "pyarrow": "frame[{0!r}].cast('float64')",
    "duckdb": "relation.project('* REPLACE (CAST({0} AS DOUBLE) AS {0})')",
    "pyspark": "frame.withColumn({0!r}, frame[{0!r}].cast('double'))",
}


@dataclass(frozen=True)
class Column:
    """A column of a caller's frame, and the kind as which the door reads it.

    Attributes
    ----------
    name : str
        Its name.
    kind : Kind
        What it is.
    dtype : narwhals type
        Its type.
    values : polars Series, optional
        Its values, if they are in memory.
    engine : str
        The library of the caller's frame, in which a hint is written.
    parameter : str
        The caller's name of the frame.
    """

    name: str
    kind: Kind
    dtype: Any
    values: pl.Series | None = None
    engine: str = "polars"
    parameter: str = "frame"

    def read(self) -> nw.Expr | None:
        """Return the expression that reads the column; None if the column needs no reading.

        Times with a zone are read by `tidytape.frames._times`.

        Raises
        ------
        QueryError
            If the column, or a value of it in memory, cannot be read as its kind.
        """
        if self.kind in WORDS:
            return self._words()
        if self.kind is Kind.TIME:
            return self._time()
        return self._length() if self.kind is Kind.LENGTH else self._number()

    def refused(self, value: object, expected: str, hint: str | None = None) -> QueryError:
        """Return the error for a column that cannot be read."""
        expected = f"{expected} in column {self.name}"
        return QueryError(self.parameter, got=f"{self.name}: {value}", expected=expected, hint=hint)

    @property
    def _is_empty(self) -> bool:
        """Whether the column has no type, because all its values are null."""
        return self.engine in {"polars", "pandas"} and str(self.dtype) == "Unknown"

    def _number(self) -> nw.Expr | None:
        number: nw.Expr = nw.col(self.name)
        if not self.dtype.is_numeric() and not self._is_empty:
            cast = _CASTS.get(self.engine, "frame.with_columns(pl.col({0!r}).cast(pl.Float64))")
            is_text = isinstance(self.dtype, _TEXTS)
            hint = f"text becomes numbers with {cast.format(self.name)}" if is_text else None
            raise self.refused(self.dtype, "numbers", hint)
        if self.kind is Kind.COUNT:
            return None
        if self.kind is Kind.VOLATILITY and self.values is not None:
            largest: Any = self.values.max()
            if largest is not None and 0 < largest < _LOWEST_VOLATILITY:
                hint = "they look like decimals: say ``volatility_unit='decimal'``, or ``'percent'`` if they are so low"
                raise self.refused(f"at most {largest}", "volatilities in percent", hint)
        if isinstance(self.dtype, nw.Float32 | nw.Decimal):  # the shortest decimal that reads as the number
            number = number.cast(nw.String)
        if self.dtype != nw.Float64:
            number = number.cast(nw.Float64)
        if self.kind is Kind.DECIMAL_VOLATILITY:
            number = number * 100.0
        is_valid = [~number.is_nan()] if self.dtype.is_float() and self._may_have_nan() else []
        if self.kind is Kind.AMOUNT:
            lowest: Any = 0 if self.values is None else self.values.min()
            if lowest is not None and lowest < 0:
                raise self.refused(lowest, "amounts of 0 or more")
            is_valid += [number >= 0] if self.values is None else []
        if is_valid:
            return nw.when(*is_valid).then(number).alias(self.name)
        is_read = self.dtype == nw.Float64 and self.kind is not Kind.DECIMAL_VOLATILITY
        return None if is_read else number

    def _may_have_nan(self) -> bool:
        """Return whether a value may be NaN; the sum of values in memory, which is quick, is NaN then."""
        total: Any = None if self.values is None else self.values.sum()
        return self.values is None or total != total  # noqa: PLR0124

    def _time(self) -> nw.Expr | None:
        time: nw.Expr = nw.col(self.name)
        if self.values is None:
            count = time.cast(nw.Int64)
            # 0 is the epoch, whatever the unit.
            return nw.when((count.abs() >= FIRST_TIME) | (count == 0)).then(count).alias(self.name)
        lowest: Any = self.values.min()
        if lowest is not None and lowest < FIRST_TIME:
            distances = nw.from_native(self.values, series_only=True).cast(nw.Int64).abs()
            early: Any = distances.filter((distances < FIRST_TIME) & (distances > 0)).max()
            if early:
                raise self.refused(early, EXPECTED_TIMES, unit_hint(self.name, early, self.engine))
        return None if self.dtype == nw.Int64 else time.cast(nw.Int64)

    def _length(self) -> nw.Expr | None:
        length: nw.Expr = nw.col(self.name)
        if isinstance(self.dtype, nw.Duration):
            if self.dtype.time_unit == "ns":
                return length.dt.total_nanoseconds()
            return length.dt.total_microseconds() * 1_000
        if not self.dtype.is_numeric() and not self._is_empty:
            raise self.refused(self.dtype, "lengths as Duration, or as int64 nanoseconds")

        if self.values is None:
            return nw.when((length <= 0) | (length >= SECOND)).then(length).alias(self.name)
        short: Any = self.values.filter((self.values > 0) & (self.values < SECOND)).min()
        if short is not None:
            hint = f"it is read as {short} ns; write hours as timedelta(hours=8), or as 8 * 3_600_000_000_000"
            raise self.refused(short, "lengths of a second or more", hint)
        return None

    def _words(self) -> nw.Expr | None:
        if not isinstance(self.dtype, _TEXTS) and not self._is_empty:
            raise self.refused(self.dtype, _EXPECTED[self.kind])
        column = nw.col(self.name).cast(nw.String)
        if self.values is None:
            is_clean = isinstance(self.dtype, nw.Enum) and {*self.dtype.categories} <= {
                *self._spellings.values()
            }
            return None if is_clean else self._words_of_plan(column)
        words = words_of(self.values)
        spellings = {word: canonical for word in words if (canonical := self._canonical(word)) != word}
        return _replaced(column, spellings, column).alias(self.name) if spellings else None

    @property
    def _spellings(self) -> Mapping[str, str | None]:
        return _SPELLINGS.get(self.kind, _INTERVALS)

    def _canonical(self, word: str) -> str | None:
        """Return what a word becomes; raise QueryError for a word that is none."""
        try:
            if self.kind is Kind.INTERVAL:
                return frame_interval(word).alias
            return self._spellings[word.strip().upper()]
        except (QueryError, KeyError):
            raise self.refused(repr(word), _EXPECTED[self.kind], _HINTS.get(self.kind)) from None

    def _words_of_plan(self, column: nw.Expr) -> nw.Expr:
        """Return the words of a lazy column, null for a word that is none.

        An amount unit that is none stays, because no sum of such amounts is known.
        """
        if self.kind is Kind.INTERVAL:
            return interval_words(column).alias(self.name)
        word = column.str.strip_chars().str.to_uppercase()
        otherwise = column if self.kind is Kind.UNIT else nw.lit(None, nw.String)
        return _replaced(word, self._spellings, otherwise).alias(self.name)


def words_of(column: pl.Series) -> list[str]:
    """Return the distinct words of a column in memory, without null."""
    # Most frames have one interval and one unit, and to compare is quicker than to collect what is unique.
    is_constant = len(column) > 0 and column.eq_missing(column[0]).all()
    return (column[:1] if is_constant else column.unique()).drop_nulls().to_list()


def _replaced(column: nw.Expr, words: Mapping[Any, str | None], otherwise: nw.Expr) -> nw.Expr:
    """Return a column with some of its values replaced by words."""
    for spelling, word in words.items():
        otherwise = nw.when(column == spelling).then(nw.lit(word, nw.String)).otherwise(otherwise)
    return otherwise
