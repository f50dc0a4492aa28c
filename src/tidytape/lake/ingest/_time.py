"""Times as text to epoch nanoseconds, without guessing a unit that could be another."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

from tidytape.errors import QueryError

__all__ = ["DATE", "ISO", "UNITS", "nanoseconds", "unit_of"]

UNITS: Mapping[str, int] = MappingProxyType({"s": 9, "ms": 6, "us": 3, "ns": 0})
"""Decimal places of an integer epoch unit below which nanoseconds lie."""

ISO = "iso"
"""Name of a written date and time."""

DATE = "date"
"""Name of a written date alone, which stands for its first instant in UTC. It has to be said: never found out, because
a time of day may have been lost."""

# 2000-01-01 and 2100-01-01. In this century the ranges of the four units are far apart.
_FIRST, _LAST = 946_684_800, 4_102_444_800

_NUMBER = r"^(\d{1,19})(?:\.(\d{1,18}))?$"
_WRITTEN = (
    r"^(\d{4}-\d{2}-\d{2})[T ](\d{2}:[0-5]\d:[0-5]\d)(?:[.,](\d{1,9})\d*)?"
    r"\s?(?:(?:Z|z|UTC)|([+-])([01]\d|2[0-3]):?([0-5]\d))?$"
)


def unit_of(text: pl.Series) -> str | None:
    """Return how the times of a column are written: ``"iso"``, or the only unit its first number can have.

    Parameters
    ----------
    text : polars.Series of str
        Times.

    Returns
    -------
    str or None
        ``iso``, ``s``, ``ms``, ``us`` or ``ns``: that of the first value which is a written time, or a number that
        lies between the years 2000 and 2100 in one of the units. None where there is no such value.

    Examples
    --------
    >>> unit_of(pl.Series(["nonsense", "1693929601281"])), unit_of(pl.Series(["2023-09-05T16:00:01Z"]))
    ('ms', 'iso')
    """
    told = pl.DataFrame({"text": text}).select(_told(pl.col("text")).alias("unit")).drop_nulls()
    return told["unit"][0] if told.height else None


def _told(text: pl.Expr) -> pl.Expr:
    whole = text.str.extract(_NUMBER, 1).cast(pl.Int64, strict=False)
    return pl.coalesce(
        pl.when(text.str.contains(_WRITTEN)).then(pl.lit(ISO)),
        *(
            pl.when(whole.is_between(_FIRST * scale, _LAST * scale, closed="left")).then(pl.lit(name))
            for name, scale in ((name, 10 ** (9 - places)) for name, places in UNITS.items())
        ),
    )


def nanoseconds(text: pl.Expr, unit: str) -> pl.Expr:
    """Epoch nanoseconds of times written as text.

    Parameters
    ----------
    text : expression, str
        ISO 8601 with an offset, or without one for UTC; or a number in ``unit``, decimals allowed. What lies below a
        nanosecond is cut off.
    unit : {"iso", "date", "s", "ms", "us", "ns"}
        How they are written.

    Returns
    -------
    expression, int64
        Null where the text is not of that kind or not between the years 2000 and 2100. [ns since the epoch]

    Raises
    ------
    QueryError
        If there is no such unit.

    Examples
    --------
    >>> frame = pl.DataFrame({"t": ["2023-09-05T18:00:01.281719+02:00", "2023-09-05 16:00:01", "soon"]})
    >>> frame.select(nanoseconds(pl.col("t"), "iso"))["t"].to_list()
    [1693929601281719000, 1693929601000000000, None]
    >>> pl.DataFrame({"t": ["1693929601.5"]}).select(nanoseconds(pl.col("t"), "s"))["t"].to_list()
    [1693929601500000000]
    """
    if unit not in {ISO, DATE, *UNITS}:
        raise QueryError("time_unit", got=unit, expected="one of iso, date, " + ", ".join(UNITS))
    value = _written(text) if unit == ISO else _dated(text) if unit == DATE else _number(text, UNITS[unit])
    return pl.when(value.is_between(_FIRST * 10**9, _LAST * 10**9, closed="left")).then(value)


def _number(text: pl.Expr, places: int) -> pl.Expr:
    whole = text.str.extract(_NUMBER, 1).cast(pl.Int64, strict=False)
    # Beyond this the product would overflow, and the year is past 2100 anyway.
    fits = whole <= _LAST * 10 ** (9 - places)
    value: pl.Expr = pl.when(fits).then(whole) * 10**places
    return value if places == 0 else value + _digits(text.str.extract(_NUMBER, 2), places)


def _digits(fraction: pl.Expr, places: int) -> pl.Expr:
    padded = fraction.fill_null("").str.pad_end(places, "0").str.slice(0, places)
    return padded.cast(pl.Int64, strict=False)


def _dated(text: pl.Expr) -> pl.Expr:
    # The pattern first: the parser would take more than four digits of a year.
    day = text.str.extract(r"^(\d{4}-\d{2}-\d{2})$", 1)
    return day.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("ms")).dt.epoch("s") * 10**9


def _written(text: pl.Expr) -> pl.Expr:
    day, clock = text.str.extract(_WRITTEN, 1), text.str.extract(_WRITTEN, 2)
    moment = (day + pl.lit(" ") + clock).str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False)
    seconds = moment.dt.epoch("s")
    sign = pl.when(text.str.extract(_WRITTEN, 4) == "-").then(-1).otherwise(1)
    hours, minutes = (text.str.extract(_WRITTEN, group).cast(pl.Int64).fill_null(0) for group in (5, 6))
    offset = sign * (hours * 3600 + minutes * 60)
    return (seconds - offset) * 10**9 + _digits(text.str.extract(_WRITTEN, 3), 9)
