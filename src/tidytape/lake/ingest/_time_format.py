"""Times written in a way of their own, as a format says: which number is the day is told, never found out.

The directives are those of Python's ``strftime``:

============= =====================================================================================================
``%Y``        the year, four digits
``%y``        the year of this century, two digits
``%m``        the month as a number
``%b``, ``%B`` the month in English, short or in full
``%d``        the day of the month
``%H``        the hour, 0 to 23
``%I``, ``%p`` the hour, 1 to 12, and AM or PM
``%M``, ``%S`` minutes and seconds
``%f``        digits of the second's fraction, up to nine
``%z``        the offset from UTC, as +0200, +02:00 or Z; times without one are in UTC
``%%``        a percent sign
============= =====================================================================================================
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from tidytape.errors import QueryError

_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "Y": r"\d{4}", "y": r"\d{2}", "m": r"\d{1,2}", "b": r"[A-Za-z]{3}", "B": r"[A-Za-z]{3,9}", "d": r"\d{1,2}",
        "H": r"\d{1,2}", "I": r"0?[1-9]|1[0-2]", "p": r"[AaPp][Mm]", "M": r"\d{2}", "S": r"\d{2}", "f": r"\d{1,9}",
        "z": r"Z|[+-]\d{2}:?\d{2}",
    }
)  # fmt: skip
DIRECTIVES = (*_PATTERNS, "%")
"""What may follow a percent sign."""

_SHORT = {name.lower(): f"{number:02}" for number, name in enumerate(calendar.month_abbr) if number}
_FULL = {name.lower(): f"{number:02}" for number, name in enumerate(calendar.month_name) if number}


@dataclass(frozen=True, slots=True)
class _Format:
    """A format as a pattern, and the group of each directive."""

    pattern: str
    groups: Mapping[str, int]


def check(text: str) -> None:
    """Raise QueryError where a format does not tell one day, or not the time of it.

    Examples
    --------
    >>> check("%d/%m/%Y %H:%M")
    >>> check("%d/%m %H:%M")
    Traceback (most recent call last):
        ...
    tidytape.errors.QueryError: time_format: got '%d/%m %H:%M', expected one of %Y, %y, to tell the year
    """
    said = _read(text).groups.keys()

    def need(*one_of: str, what: str) -> None:
        if sum(name in said for name in one_of) != 1:
            raise _error(text, f"one of {', '.join(f'%{name}' for name in one_of)}, to tell {what}")

    need("Y", "y", what="the year")
    need("m", "b", "B", what="the month")
    need("d", what="the day")
    if said & set("HIpMSfz"):
        need("H", "I", what="the hour")
    if ("I" in said) != ("p" in said):
        raise _error(text, "%I and %p together, to tell the hour")
    for finer, coarser in (("S", "M"), ("f", "S")):
        if finer in said and coarser not in said:
            raise _error(text, f"%{coarser} where there is %{finer}")


def as_iso(text: pl.Expr, written: str) -> pl.Expr:
    """Times in a format as ISO 8601, null where a text is not in it.

    Parameters
    ----------
    text : expression, str
        Times.
    written : str
        A format that `check` lets pass.

    Examples
    --------
    >>> frame = pl.DataFrame({"t": ["31/12/2023 1:30 PM", "12/31/2023 1:30 PM", "today"]})
    >>> frame.select(as_iso(pl.col("t"), "%d/%m/%Y %I:%M %p"))["t"].to_list()
    ['2023-12-31 13:30:00.0', '2023-31-12 13:30:00.0', None]
    """
    form = _read(written)

    def part(name: str, default: str) -> pl.Expr:
        if name not in form.groups:
            return pl.lit(default)
        return text.str.extract(form.pattern, form.groups[name])

    year = pl.lit("20") + part("y", "") if "y" in form.groups else part("Y", "")
    if "m" in form.groups:
        month = part("m", "").str.zfill(2)
    else:
        name, known = ("b", _SHORT) if "b" in form.groups else ("B", _FULL)
        month = part(name, "").str.to_lowercase().replace_strict(known, default=None, return_dtype=pl.String)
    hour = part("H", "00").str.zfill(2)
    if "I" in form.groups:
        afternoon = part("p", "").str.to_lowercase() == "pm"
        number = part("I", "").cast(pl.Int64, strict=False) % 12 + pl.when(afternoon).then(12).otherwise(0)
        hour = number.cast(pl.String).str.zfill(2)
    day, offset = part("d", "").str.zfill(2), part("z", "")
    clock = pl.concat_str(hour, part("M", "00"), part("S", "00"), separator=":")
    # The order of the sum is that of the result's name: the first column's.
    iso = pl.concat_str(pl.concat_str(year, month, day, separator="-"), clock, separator=" ")
    return (iso + pl.lit(".") + part("f", "0") + offset).alias(text.meta.output_name())


def _read(text: str) -> _Format:
    """The pattern of a format; QueryError where a directive is none, or there twice."""
    pattern, groups = "", dict[str, int]()
    for piece in re.findall(r"%.?|[^%]+", text, flags=re.DOTALL):
        name = piece[1:]
        if not piece.startswith("%") or name == "%":
            pattern += re.escape(name if name == "%" else piece)
        elif name not in _PATTERNS:
            known = ", ".join(f"%{one}" for one in DIRECTIVES)
            raise _error(text, f"no directives but {known}")
        elif name in groups:
            raise _error(text, f"%{name} once")
        else:
            groups[name] = len(groups) + 1
            pattern += f"({_PATTERNS[name]})"
    return _Format(f"^{pattern}$", groups)


def _error(text: str, expected: str) -> QueryError:
    return QueryError("time_format", got=text, expected=expected)
