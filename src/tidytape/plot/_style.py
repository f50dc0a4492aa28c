"""How every picture looks: colours, labels, numbers on the axes."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, DateLocator
from matplotlib.ticker import FuncFormatter, MaxNLocator, ScalarFormatter

from tidytape.errors import QueryError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# Of Okabe and Ito's palette, which colour-blind eyes tell apart; blue and vermillion differ in lightness as well.
UP = "#0072b2"
DOWN = "#d55e00"
FLAT = "#5b6167"
BUY = "#56a5d2"
SELL = "#eb9a5f"
VOLUME = "#8c949c"
POC = "#111111"
VALUE_AREA_EDGE = "#6a3d8f"
VALUE_AREA = "#e9e1f2"
GRID = "#e7e9ec"
INK = "#33383d"


def label(name: str, unit: str) -> str:
    """Return an axis label, e.g. ``Price [USDT per BTC]``."""
    return f"{name} [{unit}]" if unit else name


def zone(timezone: str | tzinfo) -> tuple[tzinfo, str]:
    """Return a time zone and the name to print."""
    if isinstance(timezone, tzinfo):
        return timezone, str(timezone)
    if timezone == "UTC":
        return UTC, "UTC"  # which needs no database, and some machines have none
    try:
        return ZoneInfo(timezone), timezone
    except (OSError, TypeError, ValueError, LookupError):
        expected = "the name of a time zone, e.g. 'UTC' or 'Europe/Berlin'"
        raise QueryError("timezone", got=timezone, expected=expected) from None


def new_axes(width: float, height: float) -> Axes:
    """Return the only axes of a new figure that pyplot shows with the others. [in]"""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained").add_subplot()


def frame_axes(ax: Axes) -> None:
    """Give axes a quiet frame and a grid that stays behind the data."""
    ax.set_axisbelow(True)
    ax.grid(visible=True, color=GRID, linewidth=0.8)
    for side, spine in ax.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color("#a3a9af")
    ax.tick_params(colors=INK, labelsize="small", color="#a3a9af")


def time_axis(axis: Axis, timezone: str | tzinfo) -> None:
    """Make an axis of matplotlib dates one of times in a zone, which its label names."""
    where, name = zone(timezone)
    locator = _Roomy(tz=where)  # type: ignore[no-untyped-call]
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator, tz=where))  # type: ignore[no-untyped-call]
    _name(axis, label("Time", name))


def price_axis(axis: Axis, unit: str) -> None:
    """Make an axis one of prices: never an offset or a power of ten to add in one's head."""
    axis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(_Grouped())
    _name(axis, label("Price", unit))


def amount_axis(axis: Axis, unit: str, *, bins: int, name: str = "Volume") -> None:
    """Make an axis one of amounts."""
    axis.set_major_locator(MaxNLocator(nbins=bins, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    _name(axis, label(name, unit))


def _name(axis: Axis, text: str) -> None:
    axis.set_label_text(text, color=INK)
    axis.offsetText.set(color=INK, fontsize="small")


def no_data(ax: Axes) -> None:
    """Say that there is nothing to show. Ticks of an empty axis would be made up."""
    ax.text(
        0.5, 0.5, "no data", transform=ax.transAxes, ha="center", va="center", color=INK, fontsize="large"
    )
    # Of these axes alone: a locator may be shared with axes that have data.
    ax.tick_params(left=False, bottom=False, top=False, labelleft=False, labelbottom=False, labeltop=False)
    ax.grid(visible=False)


def price_text(price: float, step: float | None) -> str:
    """Return a price with the decimals that its grid has.

    Examples
    --------
    >>> price_text(60123.4, 0.1), price_text(60120.0, 10.0), price_text(0.00001234, 1e-8)
    ('60,123.4', '60,120', '0.00001234')
    """
    if step is None or step <= 0:
        return f"{price:,.10g}"
    decimals = next((n for n in range(12) if abs(round(step, n) - step) <= 1e-6 * step), 12)
    return f"{price:,.{decimals}f}"


def short(value: float) -> str:
    """Return a volume in few characters.

    Examples
    --------
    >>> [short(value) for value in (0, 0.025, 150, 2_500, 1_000_000, 3.2e9)]
    ['0', '0.025', '150', '2.5k', '1M', '3.2bn']
    """
    for size, letter in ((1e12, "tn"), (1e9, "bn"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


class _Roomy(AutoDateLocator):
    """As many times as have room side by side, however wide the window is drawn."""

    def get_locator(self, dmin: datetime, dmax: datetime) -> DateLocator:
        # The axis counts labels of three characters, and the most are not always reached.
        room = self.axis.get_tick_space() - 2 if self.axis else 9
        most = min(max(room, 5), 12)
        self.maxticks = dict.fromkeys(self.maxticks, most)
        # Hours have to suffice for as long as there are fewer days than this.
        self.minticks = min((most - 1) // 2, 4)
        return super().get_locator(dmin, dmax)  # type: ignore[no-any-return, no-untyped-call]


class _Grouped(ScalarFormatter):
    """Plain decimals, thousands apart."""

    def __init__(self) -> None:
        super().__init__(useOffset=False, useMathText=False)
        self.set_scientific(False)

    def __call__(self, x: float, pos: int | None = None) -> str:
        whole, point, decimals = super().__call__(x, pos).partition(".")
        digits = whole.lstrip("-\N{MINUS SIGN}")
        if not digits.isdecimal():
            return whole + point + decimals
        return whole[: len(whole) - len(digits)] + f"{int(digits):,}" + point + decimals
