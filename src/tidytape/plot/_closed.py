"""Takes the time in which a market is closed out of the horizontal axis of a picture."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import tzinfo
from typing import Any, TypeVar

import numpy as np
from matplotlib.dates import num2date

from tidytape.frames._trading_clock import TradingClock
from tidytape.plot import _style as style
from tidytape.plot._model import Floats, Panel, Rule
from tidytape.plot._series import Bars, dates_of
from tidytape.sessions import Session, a_session
from tidytape.times import DAY, SECOND

B = TypeVar("B", bound=Bars)

_MOST_TICKS = 9
_FEW = 3  # up to this number of sessions the axis shows hours, beyond it dates


def zone_of(timezone: str | tzinfo | None, session: Session | None) -> str | tzinfo:
    """Return the zone of a time axis: that of the caller, else that of the session, else UTC."""
    if timezone is None:
        timezone = "UTC" if session is None else a_session(session).zone
    style.zone(timezone)
    return timezone


def inside(series: B, session: Session | None) -> tuple[B, tuple[Floats, Floats] | None]:
    """Return the values of sessions, and when the time in which the market trades begins and ends; note the others.

    Without a session, and without values, all time is open, and the second part is None.
    """
    if session is None or not series.start.size:
        return series, None
    start = np.rint(series.start * (DAY // SECOND)).astype(np.int64) * SECOND
    length = round(series.width * (DAY // SECOND)) * SECOND
    traded = TradingClock.of_intervals(a_session(session), length, int(start[0]), int(start[-1]) + length)
    run = np.searchsorted(traded.begins, start, side="right") - 1
    is_inside = (run >= 0) & (start < traded.ends[run])
    is_shown = (traded.ends > start[0]) & (traded.begins <= start[-1])
    arrays = {field.name: getattr(series, field.name) for field in fields(series)}
    arrays = {name: array[is_inside] for name, array in arrays.items() if isinstance(array, np.ndarray)}
    outside = int((~is_inside).sum())
    note = f"{outside:,} outside the sessions left out" if outside else ""
    runs = dates_of(traded.begins[is_shown]), dates_of(traded.ends[is_shown])
    return replace(series, note=note, **arrays), runs


def show_runs(panel: Panel, runs: tuple[Floats, Floats], timezone: str | tzinfo) -> None:
    """Let the axis show open time only, with a tick per session, or per some hours, and a line at each break."""
    begins, ends = runs
    zone, _ = style.zone(timezone)
    opened = float((ends - begins).sum())
    panel.x.runs = runs
    panel.x.limits = float(begins[0]) - 0.01 * opened, float(ends[-1]) + 0.01 * opened
    times = begins[:: -(-begins.size // _MOST_TICKS)]
    if begins.size <= _FEW:
        step = np.ceil(opened * 24 / _MOST_TICKS) / 24
        times = np.concatenate([np.arange(*run, step) for run in zip(begins, ends - step / 2, strict=True)])
    shown = [num2date(time, zone) for time in times]  # type: ignore[no-untyped-call]
    texts = [
        f"{when:%d %b}"
        if begins.size > _FEW
        else f"{when:%H:%M}\n{when:%d %b}"
        if time in begins
        else f"{when:%H:%M}"
        for time, when in zip(times, shown, strict=True)
    ]
    panel.x.fixed = dict(zip(times.tolist(), texts, strict=True))
    first, last = (num2date(time, zone) for time in (begins[0], ends[-1] - 1e-6))  # type: ignore[no-untyped-call]
    panel.x.note = " to ".join(dict.fromkeys([f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}"]))
    for begin in begins[1:][begins[1:] > ends[:-1]]:
        look: dict[str, Any] = {
            "colour": panel.ground.around.quiet,
            "width": 0.9,
            "dashes": (0, (3, 2)),
            "order": 2.05,
        }
        panel.add(Rule(float(begin), is_upright=True, **look))
