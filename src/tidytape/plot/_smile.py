"""Volatility by strike."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Literal

import matplotlib as mpl
import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics import options
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._candles import padded_limits
from tidytape.plot._frame import read_frame, with_datetimes
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Facts, Key, Legend, Line, Mark, Panel, Segments

Floats = NDArray[np.float64]
_EXPIRY_TIME = time(8, tzinfo=UTC)  # time of the day at which options expire
COLOURS = "viridis"
_BRIGHTEST = 0.85  # on white the colours end at this share of the scale: yellow is hard to see
_DARKEST = 0.3  # on black the colours begin at this share of the scale: violet is hard to see
# A legend lists up to this many expiries; if there are more, every second, every third and so on.
_LISTED = 12
_AXES = {
    "moneyness": ("Log-moneyness ln(K/F)", "1"),
    "deviation": ("Log-moneyness ln(K/F) / (σ√T)", "standard deviations"),
    "strike": ("Strike", "quote per coin"),
}
_FIT = {"a", "b", "rho", "m", "sigma"}
_DEVIATIONS = 5.0  # the axis of standard deviations shows up to this number on either side
_STEPS = 200  # points of a fitted curve
_SPREAD = ("bid_iv", "ask_iv")


def smile(
    chain: IntoFrame,
    /,
    *,
    curves: IntoFrame | None = None,
    x: Literal["moneyness", "deviation", "strike"] = "moneyness",
    title: str | None = None,
    ax: Axes | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    """Draw the volatilities of a chain by strike, one colour per expiry: dark for the first, light for the last.

    Parameters
    ----------
    chain : frame, n rows, one per (expiry, strike, option_type), any order
        One chain, of one exchange, coin and time: the lake's ``option_quotes``, or a frame with ``timestamp``,
        ``expiry``, ``option_type`` (CALL or PUT), ``strike`` and ``forward`` [quote per coin] and
        ``implied_volatility`` [%]. The picture shows the out-of-the-money options: puts with a strike below the
        forward, and calls with a strike at or above it. If the chain has ``bid_iv`` and ``ask_iv`` [%], a line joins
        the two. Times are datetimes or int64 nanoseconds since the epoch; an ``expiry`` that is a date means 08:00 UTC
        of that day.
    curves : frame, n rows, one per (expiry, moneyness) or one per expiry, any order; optional
        Curves of the same chain, drawn beside the quotes: as `tidytape.analytics.options.smile` returns them, or fits
        as `tidytape.analytics.options.svi` returns them.
    x : {"moneyness", "deviation", "strike"}
        The horizontal axis. "moneyness": ln(K/F). "deviation": ln(K/F) in standard deviations, with σ of the quote
        nearest to the forward, so that smiles of a day and of a year are equally wide; the picture shows 5 on either
        side. "strike": K.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the times in title and legend.

    Returns
    -------
    Drawing
        The artists. For a frame with no quotes the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``quotes`` : dict of datetime to Line2D. By expiry in UTC, the out-of-the-money quotes as dots; a thin line
          joins the dots if the expiry has no curve.
        - ``curves`` : dict of datetime to Line2D. By expiry in UTC, the curve of the argument ``curves``.
        - ``spreads`` : dict of datetime to LineCollection. By expiry in UTC, a line from bid to ask at each quote that
          has both.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not a frame, holds several chains, or is not as listed.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> from matplotlib.figure import Figure
    >>> chain = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "expiry": datetime(2026, 4, 4, 8, tzinfo=UTC),
    ...         "option_type": ["PUT", "CALL", "CALL"], "strike": [90.0, 90.0, 110.0], "forward": 100.0,
    ...         "implied_volatility": [60.0, 61.0, 50.0],
    ...     }
    ... )
    >>> drawn = smile(chain, x="strike", ax=Figure().add_subplot())
    >>> [line.get_xydata().tolist() for line in drawn.quotes.values()]
    [[[90.0, 60.0], [110.0, 50.0]]]

    The demo's chain with its fit:

    >>> from tidytape import Client
    >>> from tidytape.analytics import options
    >>> with Client.demo() as client:
    ...     quotes = client.events("option_quotes", coin="BTC", start="2024-08-08", end="2024-08-08T00:01")
    >>> chain = quotes.filter(pl.col("timestamp") == pl.col("timestamp").max())
    >>> drawn = smile(chain, curves=options.svi(chain), ax=Figure().add_subplot())
    >>> drawn.ax.get_ylabel()
    'Implied volatility [%]'
    """
    return draw(
        lambda panel: fill_smile(panel, chain, curves, x=x, timezone=timezone),
        ax,
        (9, 5),
        title=title,
        timezone=timezone,
    )


def fill_smile(
    panel: Panel,
    chain: IntoFrame,
    curves: IntoFrame | None,
    *,
    x: Literal["moneyness", "deviation", "strike"],
    timezone: str | tzinfo,
) -> Facts:
    """Show volatilities by strike on a panel."""
    zone, zone_name = style.zone(timezone)
    if x not in _AXES:
        raise QueryError("x", got=x, expected="one of " + ", ".join(_AXES))
    quotes = _read_quotes(
        chain, "chain", ("timestamp", "expiry", "option_type", "strike", "forward", "implied_volatility")
    )
    title, now = _title(quotes, "chain", zone, zone_name)
    x_column = "strike" if x == "strike" else "moneyness"
    dots = _dots(quotes, x_column)
    lines: _Smiles = {}
    if curves is not None:
        curve_rows = _evaluated(curves, x_column)
        # The title names exchange, coin and time: curves with another title are of another chain.
        if (other := _title(curve_rows, "curves", zone, zone_name)[0]) not in {title, ""}:
            raise QueryError("curves", got=f"those of {other}", expected=f"those of {title}")
        lines = _by_expiry(
            curve_rows, [_floats(curve_rows, name) for name in (x_column, "implied_volatility")]
        )
    if x == "deviation":
        scales = _deviations(lines | dots, now)
        dots, lines = _scaled(dots, scales), _scaled(lines, scales)
    panel.x.name, panel.x.unit = _AXES[x]
    panel.x.kind = "price" if x == "strike" else "number"
    panel.y.name, panel.y.unit, panel.y.bins = "Implied volatility", "%", 8
    expiries = sorted({**dots, **lines})
    panel.title = style.titled(
        "Volatility smile", title, f"{len(expiries)} expiries" if len(expiries) > 1 else ""
    )
    panel.is_empty = not expiries
    texts = _texts(expiries, now, zone)
    entries: list[Mark] = []
    for expiry, colour in zip(expiries, shades(panel.ground, len(expiries)), strict=True):
        group, date_text = f"{expiry:%Y-%m-%d %H:%M}", f"{expiry.astimezone(zone):%Y-%m-%d}"
        look: dict[str, Any] = {"key": expiry, "colour": colour, "group": group}
        marks: list[Mark] = []
        if expiry in dots:
            x_values, volatility, bid, ask = dots[expiry]
            marks.append(
                Line(
                    x_values,
                    volatility,
                    marker="o",
                    size=3,
                    name="quotes",
                    width=0.7,
                    order=2.2,
                    **look,
                    dashes="none" if expiry in lines else "solid",
                    hover_name=date_text,
                )
            )
            has_spread = np.isfinite(bid) & np.isfinite(ask)
            if has_spread.any():
                at, low, high = (values[has_spread] for values in (x_values, bid, ask))
                panel.add(
                    Segments(
                        at,
                        at,
                        low,
                        high,
                        name="spreads",
                        width=1.6,
                        alpha=0.5,
                        order=2.0,
                        **look,
                        hover_name=f"{date_text}, bid to ask",
                    )
                )
        if expiry in lines:
            marks.append(
                Line(
                    *lines[expiry][:2],
                    name="curves",
                    width=1.2,
                    order=2.1,
                    **look,
                    hover_name=f"{date_text}, curve",
                )
            )
        for mark in marks:
            panel.add(mark)
        if expiry in texts:
            marks[0].label = marks[0].hover_name = texts[expiry]
            entries.append(marks[0])
    if expiries:
        if x == "deviation":
            _set_view(panel, [*dots.values(), *lines.values()])
        keys = _keys(panel)
        # The legend is beside the axes, because smiles leave no corner free.
        panel.legend = Legend([*entries, *keys], title=f"Expiry [{zone_name}]", place="beside")
    return {"quotes": {}, "curves": {}, "spreads": {}}


_Smiles = dict[datetime, Floats]
"""By expiry, an array with these rows: x values in order, volatilities and, for quotes, bids and asks."""


def _read_quotes(frame: object, parameter: str, needed: tuple[str, ...]) -> nw.DataFrame[Any]:
    frame = with_datetimes(read_frame(frame, parameter, needed), parameter)
    if "expiry" in needed and frame.schema["expiry"] != nw.Date:
        frame = with_datetimes(frame, parameter, "expiry")
    return frame


def _title(
    frame: nw.DataFrame[Any], parameter: str, zone: tzinfo, zone_name: str
) -> tuple[str, datetime | None]:
    """Return the title of a chain, which names exchange, coin and time, and the time; raise if there are several."""
    columns = [name for name in ("exchange", "coin", "timestamp") if name in frame.columns]
    chains = frame.select(*columns).drop_nulls("timestamp").unique()
    if len(chains) > 1:
        raise QueryError(
            parameter,
            got=f"{len(chains)} chains",
            expected="one, of one exchange, coin and timestamp",
            hint="filter the frame to one of them first",
        )
    if not len(chains):
        return "", None
    *identity, timestamp = chains.row(0)
    now = _utc(timestamp)
    text = now.astimezone(zone).strftime("%Y-%m-%d %H:%M")
    return ", ".join(
        filter(None, [" ".join(str(name) for name in identity if name), f"{text} {zone_name}"])
    ), now


def _evaluated(curves: object, x_column: str) -> nw.DataFrame[Any]:
    """Return the points of curves; fits are evaluated first."""
    frame = read_frame(curves, "curves")
    if _FIT.issubset(frame.columns) and "implied_volatility" not in frame.columns:
        curves = options.smile(frame.to_native(), steps=_STEPS)
    return _read_quotes(curves, "curves", ("timestamp", "expiry", x_column, "implied_volatility"))


def _floats(frame: nw.DataFrame[Any], name: str) -> Floats:
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    return frame[name].cast(nw.Float64).to_numpy().astype(np.float64)


def _dots(quotes: nw.DataFrame[Any], x_column: str) -> _Smiles:
    """Return the out-of-the-money quotes of each expiry."""
    names = ("strike", "forward", "implied_volatility", *_SPREAD)
    strike, forward, volatility, bid, ask = (_floats(quotes, name) for name in names)
    with np.errstate(divide="ignore", invalid="ignore"):
        moneyness = np.log(strike / forward)
    option_types = quotes["option_type"].cast(nw.String).to_list()
    is_out_of_the_money = np.array(
        [name == ("CALL" if k >= 0 else "PUT") for name, k in zip(option_types, moneyness, strict=True)], bool
    )
    is_shown = is_out_of_the_money & np.isfinite(moneyness) & (volatility > 0)
    x_values = moneyness if x_column == "moneyness" else strike
    return _by_expiry(quotes, [x_values, np.where(is_shown, volatility, np.nan), bid, ask], gaps=False)


def _by_expiry(frame: nw.DataFrame[Any], columns: list[Floats], *, gaps: bool = True) -> _Smiles:
    """Return the smile of each expiry that has a known volatility.

    With ``gaps`` unknown volatilities stay as NaN, otherwise they are left out.
    """
    x_values, volatility = columns[:2]
    rows_by_expiry: dict[datetime, list[int]] = {}
    for row, expiry in enumerate(frame["expiry"].to_list()):
        if expiry is not None and np.isfinite(x_values[row]) and (gaps or np.isfinite(volatility[row])):
            rows_by_expiry.setdefault(_utc(expiry), []).append(row)
    smiles = {}
    for expiry, rows in rows_by_expiry.items():
        smile = np.array(columns)[:, rows]
        if np.isfinite(smile[1]).any():
            smiles[expiry] = smile[:, np.argsort(smile[0], kind="stable")]
    return smiles


def _deviations(smiles: _Smiles, now: datetime | None) -> dict[datetime, float]:
    """Return for each expiry the standard deviation of ln(K/F), from the volatility nearest to the forward."""
    deviations = {}
    for expiry, (moneyness, volatility, *_) in smiles.items():
        years = 0.0 if now is None else (expiry - now) / timedelta(days=365)
        is_known = np.isfinite(volatility)
        nearest = volatility[is_known][np.argmin(np.abs(moneyness[is_known]))]
        if years > 0:
            deviations[expiry] = float(nearest / 100 * np.sqrt(years))
    return deviations


def _set_view(panel: Panel, smiles: list[Floats]) -> None:
    """Limit the axes to `_DEVIATIONS` standard deviations: strikes further out would squeeze the others."""
    deviations, volatility = np.hstack([smile[:2] for smile in smiles])
    is_in_view = (np.abs(deviations) <= _DEVIATIONS) & np.isfinite(volatility)
    if is_in_view.any():
        low, high = volatility[is_in_view].min(), volatility[is_in_view].max()
        ends = float(deviations.min() - 0.2), float(deviations.max() + 0.2)
        panel.x.limits = max(-_DEVIATIONS, ends[0]), min(_DEVIATIONS, ends[1])
        panel.y.limits = padded_limits(low, high)


def _scaled(smiles: _Smiles, scales: dict[datetime, float]) -> _Smiles:
    return {
        expiry: np.vstack([smile[:1] / scales[expiry], smile[1:]])
        for expiry, smile in smiles.items()
        if expiry in scales
    }


def _utc(date_or_time: date) -> datetime:
    """Return a datetime in UTC; a date becomes the time on that day at which options expire."""
    if not isinstance(date_or_time, datetime):
        return datetime.combine(date_or_time, _EXPIRY_TIME)
    return date_or_time.replace(tzinfo=UTC) if date_or_time.tzinfo is None else date_or_time.astimezone(UTC)


def shades(ground: style.Ground, number: int) -> list[Any]:
    """Return colours of several times to expiry, dark for the first and light for the last."""
    ends = (_DARKEST, 1.0) if ground.is_dark else (0.0, _BRIGHTEST)
    return [mpl.colormaps[COLOURS](share) for share in np.linspace(*ends, max(number, 1))][:number]


def _texts(expiries: list[datetime], now: datetime | None, zone: tzinfo) -> dict[datetime, str]:
    """Return the texts of the listed expiries: their dates and days to expiry."""
    entries = expiries[:: -(-len(expiries) // _LISTED) or 1]
    days = {expiry: None if now is None else (expiry - now) / timedelta(days=1) for expiry in entries}
    return {
        expiry: f"{expiry.astimezone(zone):%Y-%m-%d}" + ("" if days_left is None else f" ({days_left:.3g} d)")
        for expiry, days_left in days.items()
    }


def _keys(panel: Panel) -> list[Key]:
    """Return entries that explain dots, bars and lines, if there is more than one kind."""
    looks: dict[str, tuple[dict[str, Any], str]] = {
        "quotes": ({"marker": "o", "markersize": 3, "linestyle": "none"}, "mark"),
        "spreads": ({"marker": "|", "markersize": 9, "linestyle": "none", "alpha": 0.6}, "bid to ask"),
        "curves": ({"linewidth": 1.2}, "curve"),
    }
    names = {mark.name for mark in panel.marks}
    ink = panel.ground.around.ink
    keys = [Key(line=look, label=text, colour=ink) for name, (look, text) in looks.items() if name in names]
    return keys if len(keys) > 1 else []
