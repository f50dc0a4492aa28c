"""Trading sessions: when a market is open, as one value.

A session has hours in a time zone, weekdays, and days off, so that 09:30 in New York is 13:30 UTC in summer and 14:30
in winter. `Session.utc_day` is the day of the service, from midnight to midnight UTC.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import quote, unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidytape.errors import QueryError, TidytapeError, did_you_mean
from tidytape.times import DAY, SECOND

if TYPE_CHECKING:
    import polars as pl
    from narwhals.stable.v2.typing import IntoFrameT

__all__ = ["Session"]

_WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAYS = {
    name.lower(): place
    for place, day in enumerate(
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    )
    for name in (day, day[:3])
}
_FIRST_DATE, _LAST_DATE = date(1678, 1, 1), date(2262, 1, 1)
_SESSION = (
    "a session as str writes it, e.g. '09:30-16:00 America/New_York Mon-Fri calendar=XNYS', or a name: UTC, FX, CME, "
    "CME_REGULAR, XNYS, or that of another exchange's calendar"
)
"""What `Session.parsed` reads, in the words of an error."""
_HOUR = re.compile(r"\d\d:\d\d(:\d\d)?", re.ASCII)
_ONE_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, init=False, repr=False)
class Session:
    """The hours in which a market trades, and the days on which it does.

    A session whose close is not after its open ends on the day after. The date of a session is that of its last moment
    in its zone: so the session of a future that opens on Sunday at 17:00 is that of Monday, as exchanges count.

    Parameters
    ----------
    open, close : str
        The hours in the zone, ``"HH:MM"`` or ``"HH:MM:SS"``.
    zone : str
        The name of a time zone, e.g. ``"America/Chicago"``.
    calendar : str, optional
        The name of an exchange's calendar, e.g. ``"CME_Equity"`` or ``"XNYS"``: it gives days off, early closes and
        late opens; the hours are yours. It needs the extra ``calendars``.
    weekdays : str
        The weekdays that sessions have as their date, e.g. ``"Mon-Fri"``, ``"Sun-Thu"`` or ``"Mon,Wed"``.
    days_off : iterable of date or str
        Dates without a session.
    early_closes : mapping of date or str to str
        Dates whose session ends earlier, and when, in the zone. They count before those of the calendar.
    pause : (str, str), optional
        The beginning and the end of a break at noon, in the zone. It begins and ends within the session.

    Raises
    ------
    QueryError
        If an hour, a zone, a weekday or a date cannot be read, or the break or an early close lies outside the session.

    Notes
    -----
    A time that a change to summer time leaves out counts by the clock before the change, and of a time that comes twice
    the first one counts.

    Examples
    --------
    >>> stocks = Session("09:30", "16:00", zone="America/New_York", days_off=["2024-07-04"])
    >>> stocks
    Session('09:30', '16:00', zone='America/New_York', days_off=['2024-07-04'])
    >>> stocks.schedule("2024-07-03", "2024-07-06").select("session_date", "open").rows()
    [(datetime.date(2024, 7, 3), datetime.datetime(2024, 7, 3, 13, 30, tzinfo=zoneinfo.ZoneInfo(key='UTC'))), \
(datetime.date(2024, 7, 5), datetime.datetime(2024, 7, 5, 13, 30, tzinfo=zoneinfo.ZoneInfo(key='UTC')))]
    >>> Session.parsed(str(stocks)) == stocks
    True
    """

    open: str
    close: str
    zone: str
    calendar: str | None
    weekdays: str
    days_off: tuple[date, ...]
    early_closes: tuple[tuple[date, str], ...]
    pause: tuple[str, str] | None

    NAMED: ClassVar[Mapping[str, tuple[str, str, str, str | None]]] = MappingProxyType(
        {
            "FX": ("17:00", "17:00", "America/New_York", None),
            "CME": ("17:00", "16:00", "America/Chicago", "CME_Equity"),
            "CME_REGULAR": ("08:30", "15:00", "America/Chicago", "CME_Equity"),
            "XNYS": ("09:30", "16:00", "America/New_York", "XNYS"),
            "XNAS": ("09:30", "16:00", "America/New_York", "XNYS"),
        }
    )
    """Open, close, zone and calendar of the sessions that `of` knows without a calendar."""

    def __init__(
        self,
        open: str,
        close: str,
        *,
        zone: str,
        calendar: str | None = None,
        weekdays: str = "Mon-Fri",
        days_off: Iterable[date | str] = (),
        early_closes: Mapping[Any, str] = MappingProxyType({}),
        pause: tuple[str, str] | None = None,
    ) -> None:
        dates: object = days_off  # a caller may pass anything
        if isinstance(dates, str) or not isinstance(dates, Iterable):
            raise QueryError("days_off", got=days_off, expected="a list of dates")
        if not isinstance(early_closes, Mapping):
            raise QueryError("early_closes", got=early_closes, expected="a mapping of dates to hours")
        given: object = pause
        if pause is not None and (isinstance(given, str) or len(pause) != 2):
            raise QueryError("pause", got=pause, expected="two hours, e.g. ('11:30', '12:30')")
        values = {
            "open": _written(_hour(open, "open")),
            "close": _written(_hour(close, "close")),
            "zone": _zone(zone).key,
            "calendar": calendar,
            "weekdays": _written_days(_days(weekdays)),
            "days_off": tuple(sorted({_date(day, "days_off") for day in days_off})),
            "early_closes": tuple(
                sorted(
                    (_date(day, "early_closes"), _written(_hour(hour, "early_closes")))
                    for day, hour in early_closes.items()
                )
            ),
            "pause": None if pause is None else tuple(_written(_hour(hour, "pause")) for hour in pause),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.pause is not None and not self._are_inside(*self.pause):
            expected = f"two hours in their order between {self.open} and {self.close}"
            raise QueryError("pause", got=pause, expected=expected)
        for day, hour in self.early_closes:
            if not self._are_inside(hour):
                hint = "a date without a session belongs to days_off"
                expected = f"an hour between {self.open} and {self.close}"
                raise QueryError("early_closes", got=f"{day}: {hour}", expected=expected, hint=hint)

    # --- sessions by name and by text ---

    @classmethod
    def utc_day(cls) -> Session:
        """Return the day of the service: from midnight to midnight UTC, every day.

        Examples
        --------
        >>> str(Session.utc_day())
        '00:00-00:00 UTC Mon-Sun'
        """
        return cls("00:00", "00:00", zone="UTC", weekdays="Mon-Sun")

    @classmethod
    def of(cls, name: str) -> Session:
        """Return a session by its name.

        Parameters
        ----------
        name : str
            ``"UTC"``; ``"FX"``, from 17:00 to 17:00 in New York; ``"CME"`` and ``"CME_REGULAR"``, the whole and the
            regular hours of equity futures in Chicago; or the name of a calendar such as ``"XNYS"`` or ``"XLON"``,
            whose regular hours are those of the calendar.

        Raises
        ------
        QueryError
            If there is no such name.
        TidytapeError
            If it needs the extra ``calendars``, which is not installed.

        Examples
        --------
        >>> Session.of("FX")
        Session('17:00', '17:00', zone='America/New_York')
        """
        if name == "UTC":
            return cls.utc_day()
        if name in cls.NAMED:
            opens, closes, zone, calendar = cls.NAMED[name]
            return cls(opens, closes, zone=zone, calendar=calendar)
        try:
            book = _calendar(name)
        except QueryError as error:  # the caller wrote no calendar, but a session
            raise QueryError("session", got=name, expected=_SESSION, hint=error.hint) from None
        except TidytapeError as error:  # without the extra nobody knows whether a calendar has this name
            raise TidytapeError(f"session: got {name!r}, expected {_SESSION}; {error}") from None
        try:
            hours = [_written(hour) for hour in (book.open_time, book.close_time)]
        except NotImplementedError:
            expected = "a calendar with regular hours; Session(…, calendar=…) takes yours"
            raise QueryError("calendar", got=name, expected=expected) from None
        facts: dict[str, Any] = {
            "zone": str(book.tz),
            "calendar": name,
            "weekdays": _written_days({_WEEK.index(day) for day in book.weekmask.split()}),
        }
        whole = cls(*hours, **facts)
        breaks = [_written(hour) for hour in (book.break_start, book.break_end) if hour is not None]
        # Some calendars have a break of no length, or between two sessions.
        has_break = breaks and whole._are_inside(*breaks)
        return cls(*hours, **facts, pause=(breaks[0], breaks[1])) if has_break else whole

    @classmethod
    def parsed(cls, text: str) -> Session:
        """Return the session that ``str`` wrote, or that `of` knows by this name.

        Parameters
        ----------
        text : str
            Open and close, zone and weekdays, and then what differs: ``calendar=``, ``pause=``, ``off=``, ``early=``.

        Raises
        ------
        QueryError
            If the text is no session.

        Examples
        --------
        >>> Session.parsed("08:30-15:00 America/Chicago Mon-Fri off=2024-12-25")
        Session('08:30', '15:00', zone='America/Chicago', days_off=['2024-12-25'])
        """
        given: object = text  # a caller may pass anything
        words = text.split() if isinstance(given, str) else []
        if len(words) == 1:
            return cls.of(text)
        try:
            hours, zone, weekdays, *more = words
            opens, closes = hours.split("-")
            facts = dict(word.split("=", 1) for word in more)
            early = dict(word.split("T") for word in facts.pop("early", "").split(",") if word)
            off = [word for word in facts.pop("off", "").split(",") if word]
            pause = tuple(facts.pop("pause").split("-")) if "pause" in facts else None
            calendar = unquote(facts.pop("calendar")) if "calendar" in facts else None
            if facts:
                raise ValueError(min(facts))
        except ValueError:
            raise QueryError("session", got=text, expected=_SESSION) from None
        return cls(
            opens,
            closes,
            zone=zone,
            calendar=calendar,
            weekdays=weekdays,
            days_off=off,
            early_closes=early,
            pause=pause,  # type: ignore[arg-type]  # its length is checked there
        )

    def __str__(self) -> str:
        """Return the session as text, which `parsed` reads."""
        facts = {
            "calendar": None if self.calendar is None else quote(self.calendar),
            "pause": None if self.pause is None else "-".join(self.pause),
            "off": ",".join(day.isoformat() for day in self.days_off),
            "early": ",".join(f"{day.isoformat()}T{hour}" for day, hour in self.early_closes),
        }
        more = [f"{name}={fact}" for name, fact in facts.items() if fact]
        return " ".join([f"{self.open}-{self.close}", self.zone, self.weekdays, *more])

    def __repr__(self) -> str:
        """Return the call that makes the session."""
        facts: dict[str, object] = {"zone": self.zone}
        if self.calendar is not None:
            facts["calendar"] = self.calendar
        if self.weekdays != "Mon-Fri":
            facts["weekdays"] = self.weekdays
        if self.days_off:
            facts["days_off"] = [day.isoformat() for day in self.days_off]
        if self.early_closes:
            facts["early_closes"] = {day.isoformat(): hour for day, hour in self.early_closes}
        if self.pause is not None:
            facts["pause"] = self.pause
        hours = f"{self.open!r}, {self.close!r}"
        return f"Session({hours}, {', '.join(f'{name}={fact!r}' for name, fact in facts.items())})"

    # --- when it is open ---

    @property
    def is_utc_day(self) -> bool:
        """Whether this is the day of the service."""
        return self == Session.utc_day()

    def schedule(self, start: date | str, end: date | str) -> pl.DataFrame:
        """Return the sessions of some dates.

        Parameters
        ----------
        start, end : date or str
            The first date of a session, and the date before which the last one lies.

        Returns
        -------
        polars.DataFrame, one row per session, sorted by time
            ``session_date``; ``open`` and ``close`` [UTC], of which the close does not belong to the session;
            ``is_early``, whether the session closes before its hour; ``break_start`` and ``break_end`` [UTC], null
            without a break. No two sessions overlap.

        Raises
        ------
        QueryError
            If a date cannot be read, or the end is before the start.
        TidytapeError
            If the calendar needs the extra ``calendars``, which is not installed.

        Examples
        --------
        >>> futures = Session("17:00", "16:00", zone="America/Chicago")
        >>> week = futures.schedule("2024-11-01", "2024-11-06")
        >>> [f"{day:%a} {opens:%d %H:%M} to {closes:%d %H:%M}" for day, opens, closes, *_ in week.rows()]
        ['Fri 31 22:00 to 01 21:00', 'Mon 03 23:00 to 04 22:00', 'Tue 04 23:00 to 05 22:00']
        """
        import polars as pl

        first, until = _date(start, "start"), _date(end, "end")
        if until < first:
            raise QueryError("end", got=str(end), expected=f"a date not before ``start`` ({first})")
        dtypes = {"session_date": pl.Date(), "is_early": pl.Boolean()}
        schema = {name: dtypes.get(name, pl.Int64()) for name in SessionTimes._fields}
        frame = pl.DataFrame(self._between(first, until), schema=schema, orient="row")
        return frame.with_columns(
            pl.from_epoch(name, time_unit="ns").dt.replace_time_zone("UTC")
            for name in schema
            if name not in dtypes
        )

    def label(self, frame: IntoFrameT, /, *, regular: Session | None = None) -> IntoFrameT:
        """Add to each row the date of its session and the segment of trading that it lies in.

        Parameters
        ----------
        frame : frame, n rows, in any order
            Any schema with ``timestamp``, of polars, pandas, pyarrow, DuckDB or PySpark; a row belongs to the session
            in which its time lies.
        regular : Session, optional
            The regular hours, if this session has more; by default all of it is regular.

        Returns
        -------
        frame, n rows, in the same order, of the kind of ``frame``
            Its columns, and

            - ``session_date`` : date, of the session; null outside of all sessions. A break belongs to its session.
            - ``segment`` : str, ``regular``, ``overnight`` (in this session, outside of the regular hours) or
              ``closed``, outside of all sessions and in a break.

        Raises
        ------
        MissingColumnError
            If ``timestamp`` is absent.
        QueryError
            If its times have no zone, or ``regular`` reaches outside of this session on one of its dates.

        References
        ----------
        tidytape's own convention; see definitions.

        Examples
        --------
        >>> from datetime import UTC, datetime
        >>> import polars as pl
        >>> whole = Session("17:00", "16:00", zone="America/Chicago")
        >>> hours = Session("08:30", "15:00", zone="America/Chicago")
        >>> times = [datetime(2024, 8, day, hour, tzinfo=UTC) for day, hour in [(4, 22), (5, 14), (5, 21)]]
        >>> whole.label(pl.DataFrame({"timestamp": times}), regular=hours).select("session_date", "segment").rows()
        [(datetime.date(2024, 8, 5), 'overnight'), (datetime.date(2024, 8, 5), 'regular'), (None, 'closed')]
        """
        from tidytape.frames._trading import labelled

        return labelled(frame, self, None if regular is None else a_session(regular, "regular"))

    def _between(self, first: date, until: date) -> list[SessionTimes]:
        """Return the sessions whose dates lie in a span, half-open; raise QueryError beyond the reach of int64."""
        for parameter, day in (("start", first), ("end", until)):
            if not _FIRST_DATE <= day <= _LAST_DATE:
                expected = f"a date from {_FIRST_DATE} to {_LAST_DATE}, which int64 nanoseconds reach"
                raise QueryError(parameter, got=str(day), expected=expected)
        years = (row for year in range(first.year, until.year + 1) for row in _of_year(self, year))
        return [row for row in years if first <= row.session_date < until]

    def _are_inside(self, *hours: str) -> bool:
        """Return whether hours lie in the session in their order, none at its open or its close."""
        times = [timedelta(), *(self._after_open(_hour(hour, "pause")) for hour in hours), self._length]
        return all(before < after for before, after in pairwise(times))

    @property
    def _length(self) -> timedelta:
        """The length of a whole session by its hours, breaks included."""
        return self._after_open(_hour(self.close, "close")) or _ONE_DAY

    @property
    def _half(self) -> int:
        """Half the length of a whole session by its hours: its middle is so long after its open. [ns]"""
        return self._length // timedelta(microseconds=2) * 1_000

    @property
    def _trading(self) -> timedelta:
        """The length of a whole session by its hours, without its break."""
        begin, end = (self._after_open(_hour(hour, "pause")) for hour in self.pause or (self.open, self.open))
        return self._length - (end - begin)

    @property
    def _nights(self) -> float:
        """The share of sessions, by their weekdays, that open after the market was closed."""
        days = _days(self.weekdays)
        return sum(self._length < _ONE_DAY or (day - 1) % 7 not in days for day in days) / len(days)

    def _after_open(self, hour: time) -> timedelta:
        """Return how long after the open an hour is, by the clock of the zone, from 0 to less than a day."""
        opens = _hour(self.open, "open")
        return (datetime.combine(date.min, hour) - datetime.combine(date.min, opens)) % _ONE_DAY


class SessionTimes(NamedTuple):
    """A row of `Session.schedule`, with times in ns since the epoch."""

    session_date: date
    open: int
    close: int
    is_early: bool
    break_start: int | None
    break_end: int | None

    @property
    def date_start(self) -> int:
        """The start of its date in UTC. [ns since the epoch]"""
        return (self.session_date - _EPOCH.date()).days * DAY

    @property
    def parts(self) -> list[tuple[int, int]]:
        """When the market trades: two times if there is a break. [ns since the epoch]"""
        if self.break_start is None or self.break_end is None:
            return [(self.open, self.close)]
        return [(self.open, self.break_start), (self.break_end, self.close)]


def a_session(argument: object, parameter: str = "session") -> Session:
    """Return a Session; raise QueryError for anything else."""
    if not isinstance(argument, Session):
        hint = "Session.of(name), Session.parsed(text) and Session(open, close, zone=…) make one"
        raise QueryError(parameter, got=argument, expected="a Session", hint=hint)
    return argument


def unless_utc_day(argument: object) -> Session | None:
    """Return a Session; None for None, and for the UTC day, which needs none; raise QueryError for anything else."""
    session = None if argument is None else a_session(argument)
    return None if session is None or session.is_utc_day else session


@lru_cache(1_024)
def _of_year(session: Session, year: int) -> list[SessionTimes]:
    """Return the sessions whose dates are in a year."""
    zone, weekdays = ZoneInfo(session.zone), _days(session.weekdays)
    opens, early = _hour(session.open, "open"), dict(session.early_closes)
    # The last moment of a session is on the date of its open, or on the day after.
    overnight = (datetime.combine(date.min, opens) + session._length - timedelta.resolution).date() - date.min
    traded = None if session.calendar is None else _traded_days(session.calendar, year)
    rows: list[SessionTimes] = []
    day = date(year, 1, 1)
    while day.year == year:
        is_open = day.weekday() in weekdays and day not in session.days_off
        if is_open and (traded is None or day in traded):
            begin = datetime.combine(day - overnight, opens)
            open_, close = (_nanoseconds(local, zone) for local in (begin, begin + session._length))
            last = close
            if traded is not None:
                late, early_close = traded[day]
                open_, last = max(open_, late), min(close, early_close)
            if day in early:
                last = _nanoseconds(begin + session._after_open(_hour(early[day], "early_closes")), zone)
            pause: tuple[int | None, int | None] = None, None
            if session.pause is not None:
                begins, ends = (
                    _nanoseconds(begin + session._after_open(_hour(hour, "pause")), zone)
                    for hour in session.pause
                )
                # A change of the clock may take the break away.
                pause = (begins, min(ends, last)) if begins < min(ends, last) else pause
            if open_ < last:
                rows.append(SessionTimes(day, open_, last, last < close, *pause))
        day += _ONE_DAY
    return rows


def _nanoseconds(local: datetime, zone: tzinfo) -> int:
    """Return a time of the zone's clock in nanoseconds since the epoch."""
    since = local.replace(tzinfo=zone).astimezone(UTC) - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND


# --- calendars ---


def _calendar(name: str) -> Any:
    """Return a calendar of pandas_market_calendars."""
    try:
        import pandas_market_calendars as calendars
    except ImportError:
        text = f"the calendar {name} needs an extra: ``pip install 'tidytape[calendars]'``"
        raise TidytapeError(text) from None
    names = calendars.get_calendar_names()
    if name not in names:
        hint = did_you_mean(name, [*Session.NAMED, *names])
        raise QueryError("calendar", got=name, expected="the name of an exchange's calendar", hint=hint)
    with warnings.catch_warnings(
        action="ignore"
    ):  # of calendars about what they call, which no caller can mend
        return calendars.get_calendar(name)


@lru_cache(256)
def _traded_days(name: str, year: int) -> Mapping[date, tuple[int, int]]:
    """Return the days of a year on which a calendar has a session, with its late open and its early close. [ns]

    Where the calendar has the usual hours, the open is the earliest and the close the latest time that there is.
    """
    book = _calendar(name)
    with warnings.catch_warnings(action="ignore"):
        schedule = book.schedule(f"{year}-01-01", f"{year}-12-31")
        early, late = book.early_closes(schedule).index, book.late_opens(schedule).index
    return {
        day.date(): (
            row.market_open.value if day in late else -(2**63),
            row.market_close.value if day in early else 2**63 - 1,
        )
        for day, row in schedule.iterrows()
    }


# --- what a caller writes ---


def _hour(text: object, parameter: str) -> time:
    try:
        if isinstance(text, str) and _HOUR.fullmatch(text):
            return time.fromisoformat(text)
    except ValueError:
        pass
    raise QueryError(parameter, got=text, expected="an hour of the zone's clock, e.g. '09:30'")


def _written(hour: time) -> str:
    return hour.replace(tzinfo=None).isoformat("minutes" if not hour.second else "seconds")


def _zone(name: object) -> ZoneInfo:
    try:
        if isinstance(name, str):
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise QueryError("zone", got=name, expected="the name of a time zone, e.g. 'America/New_York'")


def _date(value: object, parameter: str) -> date:
    try:
        if isinstance(value, str):
            return date.fromisoformat(value)
    except ValueError:
        pass
    if isinstance(value, datetime) or not isinstance(value, date):
        raise QueryError(parameter, got=value, expected="a date, e.g. '2024-08-08'")
    return value


def _days(text: object) -> frozenset[int]:
    """Return the weekdays that a text names, Monday as 0."""
    days: set[int] = set()
    try:
        for part in str(text).split(","):
            begin, *end = (_DAYS[word.strip().lower()] for word in part.split("-", 1))
            days |= {(begin + step) % 7 for step in range((end[0] - begin) % 7 + 1 if end else 1)}
    except KeyError:
        raise QueryError("weekdays", got=text, expected="weekdays, e.g. 'Mon-Fri' or 'Sun,Mon'") from None
    return frozenset(days)


def _written_days(days: Iterable[int]) -> str:
    """Return weekdays as text: each run of them as its first and its last."""
    ordered, runs = sorted(days), list[list[int]]()
    for day in ordered:
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(_WEEK[run[0]] + (f"-{_WEEK[run[-1]]}" if len(run) > 1 else "") for run in runs)
