"""Convert times that are text to epoch nanoseconds. A unit is recognised only if no other unit is possible.

For times that are written in any other way the caller gives a format, because tidytape never guesses which number is
the day. The directives of a format are those of Python's ``strftime``:

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
``%z``        the offset from UTC, as +0200, +02:00 or Z; times without one are in the zone of the caller, or UTC
``%%``        a percent sign
============= =====================================================================================================
"""

from __future__ import annotations

import calendar
import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import polars as pl

from tidytape.errors import QueryError
from tidytape.times import HOUR, SECOND

UNITS: Mapping[str, int] = MappingProxyType({"s": 9, "ms": 6, "us": 3, "ns": 0})
"""Number of decimal places from an epoch unit to nanoseconds."""

EPOCH = "epoch"
"""The unit of numbers whose unit changes from row to row: each is in the only unit in which it is a time."""

ISO = "iso"
"""The unit of a written date and time, the year first."""

DATE = "date"
"""The unit of a written date, which stands for its first instant in UTC. It is never recognised, because a file of
dates may have lost the time of day."""

# 2000-01-01 and 2100-01-01 in seconds. A number is a time between them in at most one of the four units.
_FIRST, _LAST = 946_684_800, 4_102_444_800

_MOSTLY_ENOUGH = 10
"""Number of times that are looked at before all others, because the first one mostly shows the unit."""

_NUMBER = r"^0*(\d{1,19})(?:\.(\d{1,18}))?$"
_OFFSET = r"\s?(?:(?:Z|z|UTC|GMT)|([+-])([01]\d|2[0-3]):?([0-5]\d)?)?$"
_WRITTEN = r"^(\d{4}-\d{2}-\d{2})[T ](\d{2}:[0-5]\d:[0-5]\d)(?:[.,](\d{1,9})\d*)?" + _OFFSET
_OTHERWISE_WRITTEN = (
    r"^(\d{4})[-./]?(\d{2})[-./]?(\d{2})[T D](?:(\d{1,2}):|(\d{2}))([0-5]\d)(?::?([0-5]\d)(?:[.,](\d{1,9})\d*)?)?"
    + _OFFSET
)
"""Every other way of writing a time whose year comes first: 2024.08.08 12:00, 20240808 120000."""


def written_as(
    time_unit: str | Mapping[str, str] | None, time_format: str | None
) -> str | Mapping[str, str] | None:
    """Return how times are written according to the caller: a unit, a unit per column, a format, or None.

    Raises
    ------
    QueryError
        If there is no such unit, if the format lacks a part of the time, or if both are given.

    Examples
    --------
    >>> written_as("ms", None), written_as(None, "%d-%m-%Y"), written_as({"expiry": "date"}, None)
    ('ms', '%d-%m-%Y', {'expiry': 'date'})
    """
    if time_format is not None:
        if time_unit is not None:
            raise QueryError(
                "time_format", got=time_format, expected="nothing, for ``time_unit`` says it already"
            )
        _check_format(time_format)
        return time_format
    if isinstance(time_unit, str | None):
        return None if time_unit is None else _unit_named(time_unit)
    return {column: _unit_named(unit) for column, unit in time_unit.items()}


def _unit_named(unit: str) -> str:
    if unit not in {ISO, DATE, EPOCH, *UNITS}:
        raise QueryError(
            "time_unit",
            got=unit,
            expected="one of iso, date, epoch, " + ", ".join(UNITS),
            hint="``time_format`` says any other way of writing times",
        )
    return unit


def described(unit: str) -> str:
    """Return what a message calls a time in a unit or a format."""
    if unit in UNITS:
        return f"an epoch time in {unit}"
    named = {ISO: "a written date and time", DATE: "a written date", EPOCH: "an epoch time"}
    return named.get(unit, f"a time written as {unit}")


def unit_of(text: pl.Series) -> str | None:
    """Return how the times of a column are written: ``"iso"``, or the only possible unit of its first number.

    Parameters
    ----------
    text : polars.Series of str or int
        Times.

    Returns
    -------
    str or None
        ``iso``, ``s``, ``ms``, ``us`` or ``ns``, by the first value that is a written time, or a number that lies
        between the years 2000 and 2100 in one of the units. None if there is no such value.

    Examples
    --------
    >>> unit_of(pl.Series(["nonsense", "1693929601281"])), unit_of(pl.Series(["2023-09-05T16:00:01Z"]))
    ('ms', 'iso')
    """
    for texts in (text.head(_MOSTLY_ENOUGH), text):
        units = pl.DataFrame({"text": texts.cast(pl.String)}).select(_unit(pl.col("text")).alias("unit"))
        if not (known_units := units["unit"].drop_nulls()).is_empty():
            return str(known_units[0])
    return None


def _unit(text: pl.Expr) -> pl.Expr:
    """Return the unit in which a text is a time; null if it is none."""
    integer = text.str.extract(_NUMBER, 1).cast(pl.Int64, strict=False)
    return pl.coalesce(
        pl.when(text.str.contains(_WRITTEN) | text.str.contains(_OTHERWISE_WRITTEN)).then(pl.lit(ISO)),
        *(
            pl.when(integer.is_between(_FIRST * scale, _LAST * scale, closed="left")).then(pl.lit(name))
            for name, scale in ((name, 10 ** (9 - places)) for name, places in UNITS.items())
        ),
    )


@dataclass(frozen=True, slots=True)
class Zone:
    """The zone of times that are written without an offset: a zone of the IANA database, and hours ahead of it.

    Brokers' clocks that show 00:00 when New York closes at 17:00 are in ``America/New_York+7h``.
    """

    name: str = "UTC"
    ahead: int = 0
    """How far the clock of the times is ahead of the zone. [ns]"""

    @classmethod
    def of(cls, text: str) -> Zone:
        """Return the zone that a text names.

        Raises
        ------
        QueryError
            If there is no such zone.

        Examples
        --------
        >>> Zone.of("America/New_York+7h"), Zone.of("UTC-05:30").ahead / 3600e9
        (Zone(name='America/New_York', ahead=25200000000000), -5.5)
        """
        match = re.fullmatch(r"(.*?)(?:([+-])(\d{1,2})(?::?([0-5]\d))?h?)?", text.strip())
        assert match is not None  # every text is some name and no hours
        name, sign, hours, minutes = match.groups()
        if _is_zone(text.strip()):
            return cls(text.strip())
        if not _is_zone(name or "UTC") or (name in {"", "UTC"} and sign is None):
            raise QueryError(
                "time_zone",
                got=text,
                expected="a zone such as America/New_York, UTC-5, or America/New_York+7h for a clock seven hours ahead "
                "of New York",
            )
        ahead = int(hours or 0) * HOUR + int(minutes or 0) * HOUR // 60
        return cls(name or "UTC", -ahead if sign == "-" else ahead)

    def from_local(self, seconds: pl.Expr) -> pl.Expr:
        """Return times of this zone as times of UTC; null where the clock shows a time twice or never. [s]"""
        if self == Zone():
            return seconds
        local = pl.from_epoch(seconds - self.ahead // SECOND, time_unit="s")
        return local.dt.replace_time_zone(self.name, ambiguous="null", non_existent="null").dt.epoch("s")


def _is_zone(name: str) -> bool:
    return name in zoneinfo.available_timezones()


def nanoseconds(text: pl.Expr, unit: str, zone: Zone = Zone()) -> pl.Expr:  # frozen
    """Return times that are text as epoch nanoseconds.

    Parameters
    ----------
    text : expression, str
        A date and time, the year first, with an offset, or without one in ``zone``; or a number in ``unit``, with or
        without decimals. Parts of a nanosecond are cut off.
    unit : {"iso", "date", "epoch", "s", "ms", "us", "ns"} or format
        How the times are written, as `written_as` returns it.
    zone : Zone
        The zone of written times without an offset.

    Returns
    -------
    expression, int64
        Null if the text is not such a time, or not between the years 2000 and 2100, and where the clock of the zone
        shows the time twice or never. [ns since the epoch]

    Examples
    --------
    >>> frame = pl.DataFrame({"t": ["2023-09-05T18:00:01.281719+02:00", "2023.09.05 16:00", "soon"]})
    >>> frame.select(nanoseconds(pl.col("t"), "iso"))["t"].to_list()
    [1693929601281719000, 1693929600000000000, None]
    >>> pl.DataFrame({"t": ["1693929601.5"]}).select(nanoseconds(pl.col("t"), "s"))["t"].to_list()
    [1693929601500000000]
    """
    if unit in UNITS:
        value = _from_number(text, UNITS[unit])
    elif unit == EPOCH:
        value = pl.coalesce(nanoseconds(text, one_unit) for one_unit in UNITS)
    elif unit == DATE:
        value = _from_date(text, zone)
    else:
        value = _from_iso(text if unit == ISO else _as_iso(text, unit), zone)
    return pl.when(value.is_between(_FIRST * SECOND, _LAST * SECOND, closed="left")).then(value)


def from_epoch(number: pl.Expr, unit: str) -> pl.Expr:
    """Return integers in one of `UNITS` as epoch nanoseconds; null if not between the years 2000 and 2100. [ns]"""
    scale: int = 10 ** (9 - UNITS[unit])
    is_time = number.is_between(_FIRST * scale, _LAST * scale, closed="left")
    return pl.when(is_time).then(number) * (SECOND // scale)


def _from_number(text: pl.Expr, places: int) -> pl.Expr:
    integer = text.str.extract(_NUMBER, 1).cast(pl.Int64, strict=False)
    # A larger number is a time after 2100, and would overflow.
    is_in_range = integer <= _LAST * 10 ** (9 - places)
    value: pl.Expr = pl.when(is_in_range).then(integer) * 10**places
    return value if places == 0 else value + _digits(text.str.extract(_NUMBER, 2), places)


def _digits(fraction: pl.Expr, places: int) -> pl.Expr:
    digits = fraction.fill_null("").str.pad_end(places, "0").str.slice(0, places)
    return digits.cast(pl.Int64, strict=False)


def _from_date(text: pl.Expr, zone: Zone) -> pl.Expr:
    # The pattern is needed, because the parser accepts a year of more than four digits.
    day = text.str.extract(r"^(\d{4}[-./]?\d{2}[-./]?\d{2})$", 1).str.replace_all(r"[-./]", "")
    midnight = day.str.to_date("%Y%m%d", strict=False).cast(pl.Datetime("ms")).dt.epoch("s")
    return _from_seconds(zone.from_local(midnight))


def _from_iso(text: pl.Expr, zone: Zone) -> pl.Expr:
    return text.map_batches(partial(_written_times, zone=zone), return_dtype=pl.Int64)


def _written_times(texts: pl.Series, *, zone: Zone) -> pl.Series:
    """Return written times; rewriting those that are written otherwise takes long, so it is done where it must be."""
    frame = pl.DataFrame({"text": texts})
    times = frame.select(_from_written(pl.col("text"), zone)).to_series()
    if times.null_count() == texts.null_count():
        return times
    others = frame.select(_from_written(_rewritten(pl.col("text")), zone)).to_series()
    return times.zip_with(times.is_not_null(), others)


def _from_written(text: pl.Expr, zone: Zone) -> pl.Expr:
    day, clock = text.str.extract(_WRITTEN, 1), text.str.extract(_WRITTEN, 2)
    date_time = (day + pl.lit(" ") + clock).str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False)
    seconds = date_time.dt.epoch("s")
    sign = pl.when(text.str.extract(_WRITTEN, 4) == "-").then(-1).otherwise(1)
    hours, minutes = (text.str.extract(_WRITTEN, group).cast(pl.Int64).fill_null(0) for group in (5, 6))
    offset = sign * (hours * 3600 + minutes * 60)
    in_utc = seconds - offset
    if zone != Zone():
        has_offset = text.str.contains(r"(?:[A-Za-z]|\s?[+-]\d{2}:?(?:\d{2})?)$")
        in_utc = pl.when(has_offset).then(in_utc).otherwise(zone.from_local(seconds))
    return _from_seconds(in_utc) + _digits(text.str.extract(_WRITTEN, 3), 9)


def _rewritten(text: pl.Expr) -> pl.Expr:
    year, month, day, hour, compact_hour, minute, second, fraction, sign, hours, minutes = (
        text.str.extract(_OTHERWISE_WRITTEN, group) for group in range(1, 12)
    )
    hour = pl.coalesce(hour, compact_hour).str.zfill(2)
    offset = (sign + hours + minutes.fill_null("00")).fill_null("")
    return pl.format(
        "{}-{}-{} {}:{}:{}.{}{}",
        year,
        month,
        day,
        hour,
        minute,
        second.fill_null("00"),
        fraction.fill_null("0"),
        offset,
    )


def _from_seconds(seconds: pl.Expr) -> pl.Expr:
    # Later times as nanoseconds may overflow 64 bits, and would become times of this century.
    return pl.when(seconds.is_between(_FIRST, _LAST)).then(seconds) * SECOND


_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "Y": r"\d{4}", "y": r"\d{2}", "m": r"\d{1,2}", "b": r"[A-Za-z]{3}", "B": r"[A-Za-z]{3,9}", "d": r"\d{1,2}",
        "H": r"\d{1,2}", "I": r"0?[1-9]|1[0-2]", "p": r"[AaPp][Mm]", "M": r"\d{2}", "S": r"\d{2}", "f": r"\d{1,9}",
        "z": r"Z|[+-]\d{2}:?\d{2}",
    }
)  # fmt: skip
DIRECTIVES = (*_PATTERNS, "%")
"""The letters that may follow a percent sign."""

_SHORT = {name.lower(): f"{number:02}" for number, name in enumerate(calendar.month_abbr) if number}
_FULL = {name.lower(): f"{number:02}" for number, name in enumerate(calendar.month_name) if number}


def _check_format(text: str) -> None:
    """Raise QueryError if a format does not tell exactly one day and time.

    Examples
    --------
    >>> _check_format("%d/%m/%Y %H:%M")
    >>> _check_format("%d/%m %H:%M")
    Traceback (most recent call last):
        ...
    tidytape.errors.QueryError: time_format: got '%d/%m %H:%M', expected one of %Y, %y, to tell the year
    """
    _, groups = _format(text)
    directives = groups.keys()

    def need(*one_of: str, what: str) -> None:
        if sum(name in directives for name in one_of) != 1:
            raise _format_error(text, f"one of {', '.join(f'%{name}' for name in one_of)}, to tell {what}")

    need("Y", "y", what="the year")
    need("m", "b", "B", what="the month")
    need("d", what="the day")
    if directives & set("HIpMSfz"):
        need("H", "I", what="the hour")
    if ("I" in directives) != ("p" in directives):
        raise _format_error(text, "%I and %p together, to tell the hour")
    for finer, coarser in (("S", "M"), ("f", "S")):
        if finer in directives and coarser not in directives:
            raise _format_error(text, f"%{coarser} where there is %{finer}")


def _as_iso(text: pl.Expr, written: str) -> pl.Expr:
    """Return times in a format as ISO 8601; null if a text does not have the format.

    Parameters
    ----------
    text : expression, str
        Times.
    written : str
        A format that `_check_format` lets pass.

    Examples
    --------
    >>> frame = pl.DataFrame({"t": ["31/12/2023 1:30 PM", "12/31/2023 1:30 PM", "today"]})
    >>> frame.select(_as_iso(pl.col("t"), "%d/%m/%Y %I:%M %p"))["t"].to_list()
    ['2023-12-31 13:30:00.0', '2023-31-12 13:30:00.0', None]
    """
    pattern, groups = _format(written)

    def part(name: str, default: str) -> pl.Expr:
        if name not in groups:
            return pl.lit(default)
        return text.str.extract(pattern, groups[name])

    year = pl.lit("20") + part("y", "") if "y" in groups else part("Y", "")
    if "m" in groups:
        month = part("m", "").str.zfill(2)
    else:
        name, numbers_by_name = ("b", _SHORT) if "b" in groups else ("B", _FULL)
        month = (
            part(name, "")
            .str.to_lowercase()
            .replace_strict(numbers_by_name, default=None, return_dtype=pl.String)
        )
    hour = part("H", "00").str.zfill(2)
    if "I" in groups:
        is_afternoon = part("p", "").str.to_lowercase() == "pm"
        hour_of_day = part("I", "").cast(pl.Int64, strict=False) % 12 + pl.when(is_afternoon).then(
            12
        ).otherwise(0)
        hour = hour_of_day.cast(pl.String).str.zfill(2)
    day, offset = part("d", "").str.zfill(2), part("z", "")
    clock = pl.concat_str(hour, part("M", "00"), part("S", "00"), separator=":")
    iso = pl.concat_str(pl.concat_str(year, month, day, separator="-"), clock, separator=" ")
    return (iso + pl.lit(".") + part("f", "0") + offset).alias(text.meta.output_name())


def _format(text: str) -> tuple[str, dict[str, int]]:
    """Return the pattern of a format, and the group of each directive; QueryError if one is unknown or comes twice."""
    pattern, groups = "", dict[str, int]()
    for token in re.findall(r"%.?|[^%]+", text, flags=re.DOTALL):
        name = token[1:]
        if not token.startswith("%") or name == "%":
            pattern += re.escape(name if name == "%" else token)
        elif name not in _PATTERNS:
            known_directives = ", ".join(f"%{directive}" for directive in DIRECTIVES)
            raise _format_error(text, f"no directives but {known_directives}")
        elif name in groups:
            raise _format_error(text, f"%{name} once")
        else:
            groups[name] = len(groups) + 1
            pattern += f"({_PATTERNS[name]})"
    return f"^{pattern}$", groups


def _format_error(text: str, expected: str) -> QueryError:
    return QueryError("time_format", got=text, expected=expected)
