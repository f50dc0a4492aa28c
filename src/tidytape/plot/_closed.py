"""Takes the time in which a market is closed out of the horizontal axis of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.dates import num2date

from tidytape.frames._times import bucket_by
from tidytape.frames._trading import on_session_dates, span_of
from tidytape.frames._trading_clock import TradingClock
from tidytape.plot import _style as style
from tidytape.plot._frame import read_frame
from tidytape.plot._model import Floats, Line, Panel, Rule
from tidytape.plot._series import Identity, dates_of, values_of, width_of
from tidytape.sessions import Session, unless_utc_day
from tidytape.times import DAY

_MOST_TICKS = 9
_FEW = 3  # up to this number of sessions the axis shows hours, beyond it dates
_INSTANT = 1e-7  # open time that is none, because matplotlib dates are rounded [d]


@dataclass(eq=False)
class Hours:
    """The time that the axis of a picture shows: all of it, or that in which a market trades.

    Attributes
    ----------
    zone : str or tzinfo
        Zone of the time axis.
    session : Session or None
        When the market trades; None if all time is shown.
    outside : dict of str to int
        How many rows of each frame are at other times, by the name of its parameter.
    spans : list of (int, int, int)
        Of each frame with rows inside: the length of its intervals, its first and its last time. [ns]
    """

    zone: str | tzinfo
    session: Session | None
    outside: dict[str, int] = field(default_factory=dict)
    spans: list[tuple[int, int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, timezone: str | tzinfo | None, session: object) -> Hours:
        """Return the hours of a session, in the zone of the caller, else in that of the session, else in UTC."""
        trading = unless_utc_day(session)
        return cls(timezone if timezone is not None else trading.zone if trading else "UTC", trading)

    def inside(self, frame: Any, parameter: str = "frame") -> Any:
        """Return the rows of a frame while the market trades, and count the others; all rows without a session.

        Rows of a day or longer get the date of their session as ``timestamp``, as `quality.completeness` counts them.
        """
        if self.session is None or frame is None:
            return frame
        frame = read_frame(frame, parameter, ["timestamp"]).filter(~nw.col("timestamp").is_null())
        name = " ".join(values_of(frame, "interval")) if "interval" in frame.columns else ""
        length = width_of(Identity(interval=name), frame.get_column("timestamp").to_numpy())
        clock = TradingClock.of_intervals(self.session, length, *span_of(frame.lazy()))
        rows = frame.lazy().with_columns(
            __length=nw.lit(length, nw.Int64), __bucket=bucket_by(nw.col("timestamp"), length)
        )
        rows = clock.running(on_session_dates(rows, self.session), nw.col("__bucket"), "__shown")
        inside = rows.filter(nw.col("__is_open").fill_null(value=False)).with_columns(
            timestamp=nw.col("__bucket" if length >= DAY else "timestamp")
        )
        shown = inside.select(*frame.columns).collect("polars")
        self.outside[parameter] = len(frame) - len(shown)
        if len(shown):
            self.spans.append((length, *span_of(shown.lazy())))
        return shown.to_native()

    def show(self, panels: Sequence[Panel]) -> None:
        """Let the time axes of panels show these hours, and the title say how many rows are at other times."""
        # A picture of one frame need not name it.
        outside = [
            f"{n:,}" + f" of {name}" * (len(self.outside) > 1) for name, n in self.outside.items() if n
        ]
        if outside:
            before = ", " if style.OF in panels[0].title else style.OF
            panels[0].title += f"{before}{' and '.join(outside)} outside the sessions left out"
        if self.session is None or not self.spans:
            return
        lengths, first, last = (np.array(values) for values in zip(*self.spans, strict=True))
        # Beside hours the value of a day is drawn where the hours of its session begin.
        length = int(lengths[lengths < DAY].max(initial=0)) or int(lengths.max())
        clock = TradingClock.of_intervals(self.session, length, int(first.min()), int(last.max()))
        begins, ends = clock.begins, clock.ends
        is_shown = (ends > first.min()) & (begins <= last.max())
        self.show_runs(
            panels,
            dates_of(begins[is_shown]),
            dates_of(ends[is_shown]),
            has_dates=length >= DAY,
        )

    def show_runs(
        self, panels: Sequence[Panel], begins: Floats, ends: Floats, *, has_dates: bool = False
    ) -> None:
        """Let time axes leave out what is between runs of open time, and mark each break with a line. [d]

        There is a tick per session, or per some hours. With ``has_dates`` the runs are the dates of sessions.
        """
        # The date of a session begins at midnight in UTC, whatever the zone of the session is.
        self.zone = "UTC" if has_dates else self.zone
        zone, _ = style.zone(self.zone)
        opened = float((ends - begins).sum())
        if begins.size > _FEW or has_dates:
            # A session with a break begins twice on its date.
            first = {_at(begin, zone).date(): float(begin) for begin in begins[::-1]}
            dates = sorted(first)[:: -(-len(first) // _MOST_TICKS)]
            ticks = {first[date]: f"{date:%d %b}" for date in dates}
        else:
            step = np.ceil(opened * 24 / _MOST_TICKS) / 24
            times = [
                time for run in zip(begins, ends - step / 2, strict=True) for time in np.arange(*run, step)
            ]
            ticks = {float(time): f"{_at(time, zone):%H:%M}" for time in times}
            ticks |= {float(begin): f"{_at(begin, zone):%H:%M\n%d %b}" for begin in begins}
        days = [f"{_at(time, zone):%Y-%m-%d}" for time in (begins[0], ends[-1] - 1e-6)]
        for panel in (panel for panel in panels if panel.x.kind == "time"):
            x, colour = panel.x, panel.ground.around.quiet
            x.zone, x.runs, x.fixed, x.note = (
                self.zone,
                (begins, ends),
                ticks,
                " to ".join(dict.fromkeys(days)),
            )
            x.limits = float(begins[0]) - 0.01 * opened, float(ends[-1]) + 0.01 * opened
            x.name, x.unit = ("Date of the session", "") if has_dates else (x.name, x.unit)
            for line in (mark for mark in panel.marks if isinstance(mark, Line)):
                _close_gaps(line, x.open_time()[0](line.x))
            panel.marks += [
                Rule(float(begin), is_upright=True, colour=colour, width=0.9, dashes=(0, (3, 2)), order=2.05)
                for begin in begins[1:][begins[1:] > ends[:-1]]
            ]


def _at(time: float, zone: tzinfo) -> datetime:
    """Return a matplotlib date as a time in a zone."""
    return num2date(time, zone)  # type: ignore[no-any-return, no-untyped-call]


def _close_gaps(line: Line, position: Floats) -> None:
    """Join the values before and after closed time: without open time between them there is no gap."""
    is_closed = np.isnan(line.y) & (np.diff(position, append=np.inf) < _INSTANT)
    line.x, line.y = line.x[~is_closed], line.y[~is_closed]
    line.marked = line.marked and [place - int(is_closed[:place].sum()) for place in line.marked]
