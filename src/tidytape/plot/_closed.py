"""Takes the time in which a market is closed out of the horizontal axis of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.dates import num2date
from numpy.typing import NDArray

from tidytape.frames._times import bucket_by
from tidytape.frames._trading import TradedIntervals, on_session_dates
from tidytape.plot import _style as style
from tidytape.plot._frame import read_frame
from tidytape.plot._matplotlib import open_time
from tidytape.plot._model import Floats, Line, Panel, Rule
from tidytape.plot._series import Identity, _values, dates_of, width_of
from tidytape.sessions import Session, unless_utc_day
from tidytape.times import DAY

Times = NDArray[np.int64]

_MOST_TICKS = 9
_FEW = 3  # up to this number of sessions the axis shows hours, beyond it dates
_NEVER = np.iinfo(np.int64).min
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
    """

    zone: str | tzinfo
    session: Session | None
    _left_out: dict[str, int] = field(default_factory=dict)
    _runs: list[Times] = field(default_factory=list)
    _lengths: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, timezone: str | tzinfo | None, session: object) -> Hours:
        """Return the hours of a session, in the zone of the caller, else in that of the session, else in UTC."""
        traded = unless_utc_day(session)
        zone = timezone if timezone is not None else "UTC" if traded is None else traded.zone
        style.zone(zone)  # refuse an unknown zone before a figure is made
        return cls(zone, traded)

    def inside(self, frame: Any, parameter: str = "frame") -> Any:
        """Return the rows of a frame while the market trades, and note the others; all rows without a session.

        Rows of a day or longer get the date of their session as ``timestamp``, as in `quality.completeness`.
        """
        if self.session is None or frame is None:
            return frame
        rows = read_frame(frame, parameter, ["timestamp"]).filter(~nw.col("timestamp").is_null())
        name = " ".join(_values(rows, "interval")) if "interval" in rows.columns else ""
        length = width_of(Identity(interval=name), rows.get_column("timestamp").to_numpy())
        if length >= DAY:
            long = rows.lazy().with_columns(__length=nw.lit(length, nw.Int64))
            long = long.with_columns(__bucket=bucket_by(nw.col("timestamp"), nw.col("__length")))
            dated = on_session_dates(long, self.session).with_columns(timestamp=nw.col("__bucket"))
            rows = dated.select(*rows.columns).collect("polars")
        time = rows.get_column("timestamp").to_numpy()
        if time.size:
            traded = TradedIntervals.of(self.session, length, int(time.min()), int(time.max()) + length)
            run = np.searchsorted(traded.begins, time, side="right") - 1
            is_inside = time < np.append(traded.ends, _NEVER)[run]  # no run begins before the time at -1
            self._left_out[parameter] = int((~is_inside).sum())
            self._lengths.append(length)
            first, last = run[is_inside].min(initial=traded.begins.size), run[is_inside].max(initial=-1)
            self._runs.append(np.stack([traded.begins, traded.ends], axis=1)[first : last + 1])
            rows = rows.filter(is_inside.tolist())
        return rows.to_native()

    def show(self, panels: Sequence[Panel]) -> None:
        """Let the time axes of panels show these hours, and the title say how many rows are at other times."""
        several = [f"{n:,}" + f" of {name}" * (name != "frame") for name, n in self._left_out.items() if n]
        if several:
            title = panels[0].title
            note = f"{' and '.join(several)} outside the sessions left out"
            panels[0].title = title + (", " if style.OF in title else style.OF) + note
        runs = np.unique(np.concatenate([np.empty((0, 2), np.int64), *self._runs]), axis=0)
        if not runs.size:
            return
        # Frames of several intervals may have runs that overlap: each begins where the one before it ends, then.
        ends = np.maximum.accumulate(runs[:, 1])
        begins = np.maximum(runs[:, 0], np.append(_NEVER, ends[:-1]))
        is_run = begins < ends
        self.show_runs(panels, dates_of(begins[is_run]), dates_of(ends[is_run]))

    def show_runs(self, panels: Sequence[Panel], begins: Floats, ends: Floats) -> None:
        """Let the time axes of panels leave out what is between these times. [d]"""
        has_dates = min(self._lengths, default=0) >= DAY
        if has_dates:  # midnight of a session's date in UTC is no time of any zone
            self.zone = "UTC"
        for panel in panels:
            if panel.x.kind == "time":
                _show_runs(panel, (begins, ends), self.zone, has_dates=has_dates)


def _show_runs(panel: Panel, runs: tuple[Floats, Floats], timezone: str | tzinfo, *, has_dates: bool) -> None:
    """Let the axis show open time only, with a tick per session, or per some hours, and a line at each break."""
    begins, ends = runs
    zone, _ = style.zone(timezone)
    opened = float((ends - begins).sum())
    panel.x.zone, panel.x.runs = timezone, runs
    if has_dates:
        panel.x.name, panel.x.unit = "Date of the session", ""
    panel.x.limits = float(begins[0]) - 0.01 * opened, float(ends[-1]) + 0.01 * opened
    if begins.size > _FEW or has_dates:
        # A session with a break begins twice on its date.
        first_by_date = {num2date(time, zone).date(): float(time) for time in begins[::-1]}  # type: ignore[no-untyped-call]
        dates = sorted(first_by_date)
        dates = dates[:: -(-len(dates) // _MOST_TICKS)]
        panel.x.fixed = {first_by_date[date]: f"{date:%d %b}" for date in dates}
    else:
        step = np.ceil(opened * 24 / _MOST_TICKS) / 24
        times = np.concatenate([np.arange(*run, step) for run in zip(begins, ends - step / 2, strict=True)])
        shown = [(float(time), num2date(time, zone)) for time in times]  # type: ignore[no-untyped-call]
        panel.x.fixed = {
            time: f"{when:%H:%M}\n{when:%d %b}" if time in begins else f"{when:%H:%M}" for time, when in shown
        }
    first, last = (num2date(time, zone) for time in (begins[0], ends[-1] - 1e-6))  # type: ignore[no-untyped-call]
    panel.x.note = " to ".join(dict.fromkeys([f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}"]))
    for mark in panel.marks:
        if isinstance(mark, Line):
            _close_gaps(mark, open_time(*runs)[0])
    for begin in begins[1:][begins[1:] > ends[:-1]]:
        look: dict[str, Any] = {
            "colour": panel.ground.around.quiet,
            "width": 0.9,
            "dashes": (0, (3, 2)),
            "order": 2.05,
        }
        panel.add(Rule(float(begin), is_upright=True, **look))


def _close_gaps(line: Line, position: Any) -> None:
    """Join the values before and after closed time: without open time between them there is no gap."""
    x, y = np.asarray(line.x, float), np.asarray(line.y, float)
    opened = np.diff(position(x), append=np.inf)
    is_closed = np.isnan(y) & (opened < _INSTANT)
    line.x, line.y = x[~is_closed], y[~is_closed]
    if line.marked is not None:
        line.marked = [place - int(is_closed[:place].sum()) for place in line.marked]
