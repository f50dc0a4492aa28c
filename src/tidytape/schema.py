"""The schema of the tidy frame of each data type: columns with dtype and unit, and the key.

A schema is the frame's documentation, its empty form and its validator at once. Both ends of the wire use the same
one, so a fetched frame and a computed frame cannot differ in shape.

Examples
--------
>>> candles = schema_of("TRADE_SIDE_AGNOSTIC_AGG")
>>> candles.names[-4:]
('high', 'low', 'close', 'volume')
>>> candles.key
('exchange', 'raw_symbol', 'timestamp')
>>> candles["volume"].unit
'coin or USD, see amount_unit'
>>> candles.descriptors
('amount_unit', 'is_final')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tidytape.catalogue import (
    AMOUNT,
    BLOCK_SIZE_FIELDS,
    COVERAGE,
    DATA_TYPES,
    DESCRIPTOR_FIELDS,
    IDENTITY_FIELDS,
    MARKET_FIELDS,
    PREDICTION_MARKET_FIELDS,
    DataType,
    Field,
    Selection,
)
from tidytape.errors import DecodeError, MissingColumnError, QueryError, nearest

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = [
    "BLOCK_SIZES",
    "HOLDINGS",
    "HOLDING_FIELDS",
    "LEVELS",
    "LISTS",
    "MARKETS",
    "PREDICTION_MARKETS",
    "PREDICTION_MARKET_ENTRY",
    "RULES",
    "TPO_SESSIONS",
    "Column",
    "Columns",
    "Dtype",
    "Schema",
    "column_name",
    "data_type",
    "ordered",
    "schema_of",
    "wire_schema",
]

Dtype = Literal[
    "category",
    "string",
    "float64",
    "int64",
    "bool",
    "timestamp",
    "duration",
    "list[int32]",
    "list[float64]",
    "list[string]",
    "list[timestamp]",
    "list[level]",
]

_NAME = attrgetter("name")

_FIRST = ("timestamp", "exchange", "raw_symbol")

_RULES = (
    "amount_unit block_size is_final first_timestamp last_timestamp period_start period_end block_size_minutes coverage"
    " markets sessions funding_interval chain contract_address coin_name quote_coin_name full_name icon_url"
    " available_since available_to quiet tables gaps_from"
    " share rule tie stop poc_tie within low_poc high_poc max_valley min_second initial_balance_minutes extension_from"
    " min_excess_rows lookback max_quiet min_normal max_trend extreme has_blocks"
    " anchor anchored_at change price_band oi_band threshold threshold_rule gap smallest is_lower_bound"
    " reference_rule universe_known universe_size time_rule spreading shares_block is_crossed bid_covered ask_covered"
    " is_standing is_start_known is_end_known known_at_rule estimator window overnight method atm delta short_days"
    " long_days short_tenor long_tenor flat_within z_score_since percentile_since rank_since"
)
RULES = frozenset(_RULES.split())
"""Columns that describe a row or say how it was computed, unless a function has one among its main results."""

_DTYPE: dict[str, Dtype] = {
    "double": "float64",
    "int64": "int64",
    "string": "string",
    "bool": "bool",
    "timestamp": "timestamp",
    "int32[]": "list[int32]",
    "double[]": "list[float64]",
    "string[]": "list[string]",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a tidy frame, or of a table of a lake.

    Attributes
    ----------
    name : str
        snake_case, never with the unit in it.
    dtype : str
        ``category``, ``string``, ``float64``, ``int64``, ``bool``, ``timestamp`` (nanoseconds, UTC),
        ``duration`` (nanoseconds) or a list, such as ``list[float64]``.
    unit : str
        Unit of the values; empty if they have none.
    doc : str
        Meaning in a few words.
    nullable : bool
        Whether a value may be null. In a tidy frame, key columns that are not identity are never null.
    signed : bool
        Whether a value can be below zero.
    inner : tuple of Column
        The columns of each level in a list of levels; else empty.
    """

    name: str
    dtype: Dtype
    unit: str
    doc: str
    nullable: bool = False
    signed: bool = False
    inner: tuple[Column, ...] = ()

    @classmethod
    def of(cls, field: Field, *, nullable: bool) -> Column:
        """Return the column that holds a documented field."""
        return cls(field.column, _DTYPE[field.kind], field.unit, field.doc, nullable, field.signed)


@dataclass(frozen=True, slots=True)
class Columns:
    """Named columns with a key: the common base of the schema of a tidy frame and of a table of a lake."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    rows: str

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise MissingColumnError([name], available=self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(map(_NAME, self.columns))

    def polars(self) -> dict[str, pl.DataType]:
        """Return the polars dtype of every column, in order.

        Examples
        --------
        >>> schema_of("LIQUIDATION_AGG").polars()["liquidations"]
        Float64
        """
        return {column.name: _polars_dtype(column.dtype, column.inner) for column in self.columns}

    def empty(self) -> pl.DataFrame:
        """Return a frame without rows, with all columns in their dtypes.

        Examples
        --------
        >>> schema_of("TRADE").empty().shape
        (0, 13)
        """
        import polars as pl

        return pl.DataFrame(schema=self.polars())


def ordered(names: Iterable[str], *, key: Iterable[str] = (), main: Sequence[str] = ()) -> list[str]:
    """Return the columns of a frame in the order of every frame: what a row is first, its results last.

    polars and pandas print the first and the last columns of a wide frame. So the order is ``timestamp``, ``exchange``,
    ``raw_symbol`` and the rest of the key; other identity; descriptors and rules; results; and at the very end the
    results that a user came for. Within a group, columns keep their order, so a caller's column that a function leaves
    as it is stands before the results that the function adds.

    Parameters
    ----------
    names : iterable of str
        Columns of the frame.
    key : iterable of str
        Columns that identify a row, beside the names of the market.
    main : sequence of str
        The results that a user came for, the most wanted last; wide frames show four. A column among them is no key.

    Examples
    --------
    >>> ordered(["coin", "price", "poc", "rule", "rows", "timestamp"], key=["price"], main=["poc"])
    ['timestamp', 'price', 'coin', 'rule', 'rows', 'poc']
    """
    key = (name for name in key if name not in RULES)
    first = dict.fromkeys((*_FIRST, *key, *(field.column for field in IDENTITY_FIELDS)))
    places = {name: place for place, name in enumerate(first)}

    def place(name: str) -> tuple[int, int]:
        if name in main:
            return 3, main.index(name)
        if name in places:
            return 0, places[name]
        return 1 if name in RULES else 2, 0

    return sorted(names, key=place)


@dataclass(frozen=True, slots=True)
class Schema(Columns):
    """The shape of one tidy frame.

    Attributes
    ----------
    name : str
        Name of the data type, or of the list.
    columns : tuple of Column
        In the order of the frame: time, key, other identity, descriptors, other times, values.
    key : tuple of str
        Columns that together identify a row.
    rows : str
        What one row is.
    identity : tuple of str
        Columns that say which series a row belongs to.
    descriptors : tuple of str
        Columns that say what the values of a row are: what amounts count, how high a level is, whether the interval can
        still change. They are neither identity nor values.
    """

    identity: tuple[str, ...] = ()
    descriptors: tuple[str, ...] = ()

    def key_of(self, *, grouped: bool) -> tuple[str, ...]:
        """Return the columns that identify a row. Rows of a group have no exchange and symbol, so the coin is added.

        Examples
        --------
        >>> schema_of("TRADE_SIDE_AGNOSTIC_AGG").key_of(grouped=True)
        ('coin', 'exchange', 'raw_symbol', 'timestamp')
        """
        return ("coin", *self.key) if grouped and "coin" not in self.key else self.key

    def with_coverage(self) -> Schema:
        """Return the schema of groups of exchanges: with one more column, ``coverage``, after ``is_final``.

        Examples
        --------
        >>> schema_of("OPEN_INTEREST_AGG").with_coverage().names[8:11]
        ('is_final', 'coverage', 'open')
        """
        place = self.names.index(_IS_FINAL.name) + 1
        coverage = Column.of(COVERAGE, nullable=True)
        return replace(self, columns=(*self.columns[:place], coverage, *self.columns[place:]))

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return ``frame`` with the schema's columns first, in their order and dtypes; other columns come last.

        A column of the schema that the frame lacks is null.

        Parameters
        ----------
        frame : polars.DataFrame, n rows
            Any frame whose columns can be cast.

        Returns
        -------
        polars.DataFrame, n rows, same order

        Raises
        ------
        DecodeError
            If a column cannot be cast to its dtype without loss of meaning.
        """
        import polars as pl

        dtypes = self.polars()
        actual = frame.schema
        if list(actual.items())[: len(dtypes)] == list(dtypes.items()):
            return frame
        present = set(actual)
        documented = [
            _cast(pl.col(name), actual[name], dtype).alias(name)
            if name in present
            else pl.lit(None, dtype=dtype).alias(name)
            for name, dtype in dtypes.items()
        ]
        if not present:
            return self.empty()
        try:
            # Select other columns as series: polars would read a name such as "^x$" as a pattern.
            return frame.select(*documented, *(frame[name] for name in frame.columns if name not in dtypes))
        except pl.exceptions.PolarsError as error:
            raise DecodeError(
                f"{self.name}: a column does not have its dtype: {error}", data_type=self.name
            ) from error

    def arranged(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a frame, which may lack columns, in the schema's order; other columns stand before the last four.

        Examples
        --------
        >>> import polars as pl
        >>> BLOCK_SIZES.arranged(pl.DataFrame({"note": ["new"], "block_size": [0.5], "exchange": ["X"]})).columns
        ['exchange', 'note', 'block_size']
        """
        after_first = [place + 1 for place, name in enumerate(self.names) if name in _FIRST]
        place = max([len(self.names) - 4, *after_first])
        others = (name for name in frame.columns if name not in self.names)
        order = [*self.names[:place], *others, *self.names[place:]]
        order = [name for name in order if name in frame.columns]
        return frame if order == frame.columns else frame[order]

    def require(self, names: Iterable[str]) -> None:
        """Raise MissingColumnError unless every column of the schema is among ``names``."""
        available = tuple(names)
        missing = [name for name in self.names if name not in available]
        if missing:
            raise MissingColumnError(missing, available=available)

    def to_pandas(self, frame: pl.DataFrame) -> pd.DataFrame:
        """Return a polars frame of this schema as pandas, with dtypes that do not depend on the values.

        Categories become ``category``, timestamps ``datetime64[ns, UTC]``, integers ``Int64``, booleans ``boolean``.

        Parameters
        ----------
        frame : polars.DataFrame, n rows
            A frame of this schema, more columns allowed.

        Returns
        -------
        pandas.DataFrame, n rows, same order, range index
        """
        import pandas as pd

        # Without this option, integers with a null become floats on the way, which round large integers.
        from_polars = frame.to_pandas(integer_object_nulls=True)
        dtypes = {
            column.name: _PANDAS[column.dtype]
            for column in self.columns
            if column.name in from_polars.columns and column.dtype in _PANDAS
        }
        return pd.DataFrame(from_polars.astype(dtypes))

    def describe(self) -> pl.DataFrame:
        """Return the schema itself as a frame: one row per column, in order.

        Examples
        --------
        >>> schema_of("SKEW_OPTION_SUMMARY_AGG").describe()["column"].to_list()[-2:]
        ['is_final', 'skew']
        """
        import polars as pl

        return pl.DataFrame(
            [
                (c.name, c.dtype, c.unit, c.signed, c.nullable, c.name in self.key, c.doc)
                for c in self.columns
            ],
            schema=["column", "dtype", "unit", "signed", "nullable", "key", "meaning"],
            orient="row",
        )


_PANDAS = {
    "category": "category",
    "float64": "float64",
    "int64": "Int64",
    "bool": "boolean",
    "timestamp": "datetime64[ns, UTC]",
    "duration": "timedelta64[ns]",
}


@cache
def _polars_dtype(dtype: Dtype, inner: tuple[Column, ...]) -> pl.DataType:
    import polars as pl

    if inner:
        return pl.List(
            pl.Struct({column.name: _polars_dtype(column.dtype, column.inner) for column in inner})
        )
    dtypes: dict[Dtype, pl.DataType] = {
        "category": pl.Categorical(),
        "string": pl.String(),
        "float64": pl.Float64(),
        "int64": pl.Int64(),
        "bool": pl.Boolean(),
        "timestamp": pl.Datetime("ns", "UTC"),
        "list[int32]": pl.List(pl.Int32),
        "list[float64]": pl.List(pl.Float64),
        "list[string]": pl.List(pl.String),
        "duration": pl.Duration("ns"),
        "list[timestamp]": pl.List(pl.Datetime("ns", "UTC")),
    }
    return dtypes[dtype]


def _cast(expression: pl.Expr, actual: pl.DataType, expected: pl.DataType) -> pl.Expr:
    import polars as pl

    if actual == expected:
        return expression
    if isinstance(expected, pl.List) and isinstance(expected.inner, pl.Struct):
        return _cast_levels(expression, actual, expected.inner)
    if isinstance(actual, pl.Enum):
        expression = expression.cast(pl.String)
    if isinstance(expected, pl.Datetime) and actual.is_integer():
        # A lake has times as integers: nanoseconds since the epoch.
        return expression.cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    if expected.is_integer() and actual.is_float():
        # A plain cast would cut a fraction off; a cast by way of text refuses fractions and NaN.
        return (
            expression.cast(pl.Decimal(38, 9)).cast(pl.String).str.strip_suffix(".000000000").cast(expected)
        )
    return expression.cast(expected)


def _cast_levels(expression: pl.Expr, actual: pl.DataType, expected: pl.Struct) -> pl.Expr:
    """Return lists of levels with the expected fields first; unknown fields come last, as columns of a frame do."""
    import polars as pl

    if not isinstance(actual, pl.List) or not isinstance(actual.inner, pl.Struct):
        return expression.cast(pl.List(expected))
    dtypes: dict[str, Any] = {field.name: field.dtype for field in actual.inner.fields}
    expected_dtypes: dict[str, Any] = {field.name: field.dtype for field in expected.fields}
    if list(dtypes.items())[: len(expected_dtypes)] == list(expected_dtypes.items()):
        return expression
    level = pl.element().struct
    fields = [
        _cast(level.field(name), dtypes.pop(name), dtype)
        if name in dtypes
        else pl.lit(None, dtype).alias(name)
        for name, dtype in expected_dtypes.items()
    ]
    return expression.list.eval(pl.struct(*fields, *map(level.field, dtypes)))


_MAIN: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "TRADE": ("id", "price", "amount", "quote_amount"),
        "FUNDING_RATE_AGG": ("predicted_close", "rate_close"),
        "TOKEN_SUPPLY_AGG": ("circulating_supply", "usd_price", "marketcap", "marketcap_dominance_percent"),
        "VOLUME_PROFILE_AGG": ("price", "buy_volume", "sell_volume", "volume"),
        "TPO_AGG": ("price", "block_ids", "tpo_count", "volume"),
        "VENUEX_LIQUIDATION_AGG": ("price", "liquidations"),
        "BLOCK_BOOK_SNAPSHOT_AGG": ("side", "price", "size"),
        "CME_OPEN_INTEREST_AGG": ("price_close", "value_close", "close"),
    }
)
"""The results of a data type that a user came for, the most wanted last, where they are not its last fields."""


def _arranged(
    columns: Iterable[Column], *, key: Iterable[str], main: Sequence[str] = ()
) -> tuple[Column, ...]:
    """Return columns in the order of every frame."""
    by_name = {column.name: column for column in columns}
    return tuple(by_name[name] for name in ordered(by_name, key=key, main=main))


_IS_FINAL = Column(
    "is_final",
    "bool",
    "",
    nullable=True,
    doc="Whether the interval can no longer change; null where not known",
)
_BOOK_SIDE = Column("side", "category", "", nullable=False, doc="BID or ASK")

LISTS: Mapping[str, str] = MappingProxyType(
    {"is_single_print": "single_prints", "is_poor_high": "poor_highs", "is_poor_low": "poor_lows"}
)
"""Flags of a level of a market profile, and the lists of its session that have the prices of such levels."""

_FLAGS = (
    Column(
        "is_single_print", "bool", "", nullable=True, doc="Whether it is one of the session's single prints"
    ),
    Column("is_poor_high", "bool", "", nullable=True, doc="Whether it is a poor high of the session"),
    Column("is_poor_low", "bool", "", nullable=True, doc="Whether it is a poor low of the session"),
    Column(
        "is_in_progress",
        "bool",
        "",
        nullable=True,
        doc="Whether the block in progress touched it, so that it can still change; null where not known",
    ),
)

LEVELS = "levels"
"""The column with the levels of a session, in a frame as it travels."""

_WITHOUT_MARKET = (Selection.TOKEN, Selection.COIN)
_NEVER_NULL = ("timestamp", "id")


def _identity(data_type: DataType) -> list[Column]:
    fields = [
        field
        for field in IDENTITY_FIELDS
        if (field.column != "side" or data_type.per_side) and (field.column != "tenor" or data_type.per_tenor)
    ]
    return [Column(field.column, "category", field.unit, nullable=True, doc=field.doc) for field in fields]


def _descriptors(data_type: DataType) -> list[Column]:
    has = {"amount_unit": data_type.has_amounts, "block_size": bool(data_type.levels)}
    dtypes: dict[str, Dtype] = {"amount_unit": "category", "block_size": "float64"}
    columns = [
        Column(field.column, dtypes[field.column], field.unit, nullable=True, doc=field.doc)
        for field in DESCRIPTOR_FIELDS
        if has.get(field.column)
    ]
    return columns if data_type.interval_optional else [*columns, _IS_FINAL]


@cache
def schema_of(name: str, *, grouped: bool = False) -> Schema:
    """Return the tidy-frame schema of a data type.

    Parameters
    ----------
    name : str
        Name of a data type, e.g. ``"VOLUME_PROFILE_AGG"``.
    grouped : bool
        Whether the points are of groups of exchanges. Those have the column ``coverage``, if the type can be grouped.

    Returns
    -------
    Schema
        Rows per what, key and columns with units.

    Raises
    ------
    QueryError
        If the catalogue has no such type.

    Examples
    --------
    >>> schema_of("VOLUME_PROFILE_AGG").names[:3], schema_of("VOLUME_PROFILE_AGG").names[-4:]
    (('timestamp', 'exchange', 'raw_symbol'), ('price', 'buy_volume', 'sell_volume', 'volume'))
    >>> schema_of("BLOCK_BOOK_SNAPSHOT_AGG").key
    ('exchange', 'raw_symbol', 'timestamp', 'side', 'price')
    >>> schema_of("LIQUIDATION_AGG", grouped=True).names[-2:]
    ('coverage', 'liquidations')
    """
    facts = data_type(name)
    identity, descriptors = _identity(facts), _descriptors(facts)
    columns = [*identity, *descriptors]
    key = ["exchange", "raw_symbol"]
    if facts.selection in _WITHOUT_MARKET:
        key.append("coin")
    key += [column for column, is_key in (("side", facts.per_side), ("tenor", facts.per_tenor)) if is_key]
    key.append("timestamp")
    series_columns = {column.name for column in columns}
    columns += [
        Column.of(field, nullable=field.column not in _NEVER_NULL)
        for field in (facts.fields[:1] if facts.has_sessions else facts.fields)
        if field.column not in series_columns
    ]
    rows = "one row per series and timestamp"
    first = [*key]
    if facts.interval_optional:
        key.append("id")
        rows = "one row per trade"
    if facts.levels:
        rows = "one row per series, timestamp and price"
        if any(levels.book_side for levels in facts.levels):
            columns.append(_BOOK_SIDE)
            identity.append(_BOOK_SIDE)
            key.append("side")
            rows = "one row per series, timestamp, side and price"
        level_fields = facts.levels[0].fields
        columns += [Column.of(field, nullable=field.column != "price") for field in level_fields]
        key.append("price")
        if facts.derives_volume:
            doc = "buy_volume + sell_volume, and trades without a side"
            columns.append(Column("volume", "float64", AMOUNT, nullable=True, doc=doc))
        columns += _FLAGS if facts.has_sessions else ()
    schema = Schema(
        facts.name,
        _arranged(columns, key=first, main=_MAIN.get(name, ())),
        tuple(key),
        rows,
        identity=tuple(column.name for column in identity),
        descriptors=tuple(column.name for column in descriptors),
    )
    return schema.with_coverage() if grouped and facts.group_by is not None else schema


_ALSO_CALLED: Mapping[str, str] = MappingProxyType(
    {
        "CANDLES": "TRADE_SIDE_AGNOSTIC_AGG",
        "OHLCV": "TRADE_SIDE_AGNOSTIC_AGG",
        "KLINES": "TRADE_SIDE_AGNOSTIC_AGG",
        "CANDLES_BY_SIDE": "TRADE_AGG",
        "TRADES": "TRADE",
        "OPEN_INTEREST": "OPEN_INTEREST_AGG",
        "OI": "OPEN_INTEREST_AGG",
        "FUNDING": "FUNDING_RATE_AGG",
        "FUNDING_RATE": "FUNDING_RATE_AGG",
        "LIQUIDATIONS": "LIQUIDATION_AGG",
        "VOLUME_PROFILE": "VOLUME_PROFILE_AGG",
        "TPO": "TPO_AGG",
        "MARKET_PROFILE": "TPO_AGG",
        "BOOK": "BLOCK_BOOK_SNAPSHOT_AGG",
        "BOOK_HEATMAP": "BLOCK_BOOK_SNAPSHOT_AGG",
        "ORDER_BOOK": "BLOCK_BOOK_SNAPSHOT_AGG",
        "LIQUIDATION_HEATMAP": "VENUEX_LIQUIDATION_AGG",
        "IMPLIED_VOLATILITY": "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG",
        "IV": "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG",
        "SKEW": "SKEW_OPTION_SUMMARY_AGG",
        "TOKEN_SUPPLY": "TOKEN_SUPPLY_AGG",
        "DOMINANCE": "TOKEN_SUPPLY_AGG",
        "CME_OPEN_INTEREST": "CME_OPEN_INTEREST_AGG",
        "OPTION_OPEN_INTEREST": "OPTION_OPEN_INTEREST_AGG",
    }
)
"""Other names of data types, which people and the methods of a client use."""


def data_type(name: str) -> DataType:
    """Return the catalogue's facts of a data type.

    Parameters
    ----------
    name : str
        Name of the data type.

    Returns
    -------
    DataType

    Raises
    ------
    QueryError
        If there is no such type; the hint has the type whose name, or other name, is nearest.

    Examples
    --------
    >>> data_type("TPO_AGG").multiplier
    5
    """
    try:
        return DATA_TYPES[name]
    except KeyError:
        hint = type_hint(name) or f"they are {', '.join(DATA_TYPES)}"
        expected = "a data type of the catalogue"
        raise QueryError("type", got=name, expected=expected, hint=hint, code="INVALID_TYPE") from None


def type_hint(name: object) -> str | None:
    """Return the hint with the data type that a name most likely means, or None.

    Examples
    --------
    >>> type_hint("candles")
    "did you mean 'TRADE_SIDE_AGNOSTIC_AGG'?"
    """
    type_by_name = {**{name: name for name in DATA_TYPES}, **_ALSO_CALLED}
    close = nearest(str(name).replace("-", "_").replace(" ", "_"), type_by_name)
    return f"did you mean {type_by_name[close]!r}?" if close else None


MARKETS = Schema(
    "MARKETS",
    _arranged(
        (
            Column.of(field, nullable=field.column not in {"exchange", "raw_symbol"})
            for field in MARKET_FIELDS
        ),
        key=(),
        main=("oi_change_24h", "price_change_24h", "volume_24h", "last_price"),
    ),
    ("exchange", "raw_symbol", "tenor"),
    "one row per market; of an option summary one per tenor",
)
"""Shape of ``Client.markets()``."""

PREDICTION_MARKET_ENTRY = Schema(
    "PREDICTION_MARKET_ENTRY",
    tuple(Column.of(field, nullable=field.column != "slug") for field in PREDICTION_MARKET_FIELDS),
    ("slug",),
    "one row per prediction market of one market",
)
"""Shape of the prediction markets inside a market entry."""

PREDICTION_MARKETS = Schema(
    "PREDICTION_MARKETS",
    _arranged(
        (MARKETS["exchange"], MARKETS["raw_symbol"], *PREDICTION_MARKET_ENTRY.columns),
        key=("slug",),
        main=("outcome", "one_day_price_change", "total_volume", "last_price"),
    ),
    ("exchange", "raw_symbol", "slug"),
    "one row per market and prediction market it is an outcome of",
)
"""Shape of ``Client.prediction_markets()``: the entries, each with its market."""

BLOCK_SIZES = Schema(
    "BLOCK_SIZES",
    # For one market a service may answer with a bare number, without exchange and symbol.
    tuple(Column.of(field, nullable=field.column != "block_size") for field in BLOCK_SIZE_FIELDS),
    ("exchange", "raw_symbol"),
    "one row per market with a book",
)
"""Shape of ``Client.block_sizes()``."""

HOLDING_FIELDS = (
    Column("exchange", "string", "", "Exchange; null for token supply", nullable=True),
    Column(
        "raw_symbol",
        "string",
        "",
        "Symbol of the market on its exchange; of token supply the token",
        nullable=True,
    ),
    Column("type", "string", "", "Data type"),
    Column("category", "string", "", "Market class", nullable=True),
    Column("coin", "string", "", "Base asset", nullable=True),
    Column("normalized_symbol", "string", "", "Cross-exchange symbol", nullable=True),
    Column("first_timestamp", "timestamp", "UTC", "First event that the type is made of", nullable=True),
    Column(
        "last_timestamp",
        "timestamp",
        "UTC",
        "Last event; of recorded candles the start of the last",
        nullable=True,
    ),
    Column("rows", "int64", "events", "Events that the type is made of", nullable=True),
    Column("gaps", "int64", "gaps", "Stretches without an event that last at least `quiet`", nullable=True),
    Column("longest_gap", "duration", "", "Longest of them; null without any", nullable=True),
    Column("quiet", "duration", "", "From what length on a stretch without an event is a gap", nullable=True),
    Column("bytes", "int64", "bytes", "Size of the files that hold the events", nullable=True),
    Column("tables", "string", "", "Tables of the lake that hold the events", nullable=True),
    Column("gaps_from", "string", "", "What the gaps are read from: events, minutes or files", nullable=True),
    Column(
        "available_since",
        "timestamp",
        "UTC",
        "When the market became available, as markets() has it",
        nullable=True,
    ),
    MARKETS["renamed_to"],
    MARKETS["renamed_at"],
    Column(
        "gap_starts",
        "list[timestamp]",
        "UTC",
        "Last event before each gap, in order of time",
        nullable=True,
    ),
    Column("gap_ends", "list[timestamp]", "UTC", "First event after each gap", nullable=True),
)
"""The columns of `HOLDINGS`, in the order of the fields on the wire."""

HOLDINGS = Schema(
    "HOLDINGS",
    _arranged(HOLDING_FIELDS, key=("type",), main=("gaps", "first_timestamp", "last_timestamp", "rows")),
    ("exchange", "raw_symbol", "coin", "type"),
    "one row per market and data type; of an option summary per symbol, of token supply per token",
)
"""Shape of ``Client.describe()`` and of ``tidytape lake info``. Data types from one table have the same numbers."""


def _sessions(name: str) -> Schema:
    """Return the schema of a data type's sessions."""
    facts, levels = data_type(name), schema_of(name)
    key = tuple(column for column in levels.key if column != "price")
    series_columns = (*levels.identity, *levels.descriptors)
    fields = [Column.of(field, nullable=field.column != "timestamp") for field in facts.fields]
    return Schema(
        "TPO_SESSIONS",
        _arranged(
            (*map(levels.__getitem__, series_columns), *fields),
            key=key,
            main=("total_volume", "val_price", "poc_price", "vah_price"),
        ),
        key,
        "one row per series and session",
        identity=levels.identity,
        descriptors=levels.descriptors,
    )


TPO_SESSIONS = _sessions("TPO_AGG")
"""Shape of ``Client.tpo_sessions()``."""


@cache
def wire_schema(name: str, *, grouped: bool = False) -> Schema:
    """Return the schema in which the points of a data type travel from the lake to the client.

    It is that of the tidy frame. Only a market profile has two tidy frames, levels and sessions: it travels as one row
    per session, with its levels in the column ``levels``; `tidytape.wire.levels_of` and `tidytape.wire.sessions_of`
    return the two frames.

    Parameters
    ----------
    name, grouped
        As of `schema_of`.

    Returns
    -------
    Schema

    Raises
    ------
    QueryError
        If the catalogue has no such type.

    Examples
    --------
    >>> wire_schema("TPO_AGG").names[-2:], wire_schema("TPO_AGG").key
    (('vah_price', 'levels'), ('exchange', 'raw_symbol', 'timestamp'))
    >>> wire_schema("TRADE_AGG") == schema_of("TRADE_AGG")
    True
    """
    facts = data_type(name)
    if not facts.has_sessions:
        return schema_of(name, grouped=grouped)
    fields = facts.levels[0].fields
    inner = tuple(Column.of(field, nullable=field.column != "price") for field in fields)
    levels = Column(LEVELS, "list[level]", "", "Levels, by price", inner=inner)
    schema = replace(TPO_SESSIONS, name=name, columns=(*TPO_SESSIONS.columns, levels))
    return schema.with_coverage() if grouped and facts.group_by else schema


_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])")


def column_name(wire_name: str) -> str:
    """Return the name of the column for a field that the catalogue does not know.

    Examples
    --------
    >>> column_name("takerBuyRatio"), column_name("OIChange")
    ('taker_buy_ratio', 'oi_change')
    """
    return _BOUNDARY.sub("_", wire_name).lower()
