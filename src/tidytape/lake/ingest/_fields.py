"""What the columns of a file hold, as data: text to values, and the reason where a value is none.

Examples
--------
>>> rows = pl.DataFrame({"line": [1, 2, 3], "price": ["10.5", "", "ten"]})
>>> checked(rows, {"price": Field("px", NUMBER)}).select("price", "reason").rows()
[(10.5, None), (None, 'no px'), (None, 'the px is not a finite number')]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from tidytape.lake.ingest._time import DATE, ISO, nanoseconds
from tidytape.lake.names import unstorable

__all__ = [
    "ABOVE_ZERO",
    "FLAG",
    "INTEGER",
    "NAME",
    "NOT_NEGATIVE",
    "NUMBER",
    "TEXT",
    "Field",
    "Kind",
    "checked",
    "time",
    "word",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a text may stand for.

    Attributes
    ----------
    value : callable
        Expression of text to expression of values, null where the text stands for none.
    expected : str
        What it stands for, as an error says it.
    """

    value: Callable[[pl.Expr], pl.Expr]
    expected: str


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a file.

    Attributes
    ----------
    name : str
        What the file calls it.
    kind : Kind
        What it holds.
    needed : bool
        Whether a line without it is broken.
    """

    name: str
    kind: Kind
    needed: bool = True


def _finite(text: pl.Expr) -> pl.Expr:
    number = text.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def _above_zero(text: pl.Expr) -> pl.Expr:
    number = _finite(text)
    return pl.when(number > 0).then(number)


def _not_negative(text: pl.Expr) -> pl.Expr:
    number = _finite(text)
    return pl.when(number >= 0).then(number)


def _storable(names: pl.Series) -> pl.Series:
    return names.set(names.is_in(unstorable(names).implode()).fill_null(value=False), None)


TEXT = Kind(lambda text: text, "text")
NAME = Kind(
    lambda text: text.map_batches(_storable, return_dtype=pl.String),
    "a printable name that is short enough for a folder",
)
NUMBER = Kind(_finite, "a finite number")
ABOVE_ZERO = Kind(_above_zero, "a finite number above 0")
NOT_NEGATIVE = Kind(_not_negative, "a finite number, 0 or above")
INTEGER = Kind(lambda text: text.cast(pl.Int64, strict=False), "an integer of 64 bits")


def time(unit: str) -> Kind:
    """Times written in one way, see `tidytape.lake.ingest._time`; values are epoch nanoseconds."""
    written = {ISO: "a written date and time", DATE: "a written date"}
    what = written.get(unit, f"an epoch time in {unit}")
    return Kind(lambda text: nanoseconds(text, unit), f"{what} between 2000 and 2100")


def word(meaning: Mapping[str, str]) -> Kind:
    """One of some words, in any case; values are what they mean."""
    return Kind(
        lambda text: text.str.to_lowercase().replace_strict(
            dict(meaning), default=None, return_dtype=pl.String
        ),
        "one of " + ", ".join(meaning),
    )


def _flag(text: pl.Expr) -> pl.Expr:
    lower = text.str.to_lowercase()
    told = lower.is_in(["true", "t", "1"])
    return pl.when(told | lower.is_in(["false", "f", "0"])).then(told)


FLAG = Kind(_flag, "one of true, t, 1, false, f, 0")


def checked(rows: pl.DataFrame, fields: Mapping[str, Field]) -> pl.DataFrame:
    """Return the values of some columns, and a ``reason`` where one of them is none.

    Parameters
    ----------
    rows : polars.DataFrame, one row per line
        ``line`` and one column of text per field. What is empty is absent.
    fields : mapping of str to Field
        By the name of the column in ``rows``.

    Returns
    -------
    polars.DataFrame, same rows
        ``line``, the values and ``reason``, null where the line is good.
    """
    said = {name: pl.col(name).fill_null("") != "" for name in fields}
    values = rows.select(
        "line",
        *(
            field.kind.value(pl.when(said[name]).then(pl.col(name))).alias(name)
            for name, field in fields.items()
        ),
        *(there.alias(f"{name}:said") for name, there in said.items()),
    )
    reasons = []
    for name, field in fields.items():
        there = pl.col(f"{name}:said")
        if field.needed:
            reasons.append(pl.when(~there).then(pl.lit(f"no {field.name}")))
        wrong = there & pl.col(name).is_null()
        reasons.append(pl.when(wrong).then(pl.lit(f"the {field.name} is not {field.kind.expected}")))
    return values.select("line", *fields, pl.coalesce(*reasons).alias("reason"))
