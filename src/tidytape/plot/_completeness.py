"""How complete series are, as a calendar."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.errors import QueryError, html_text
from tidytape.plot import _style as style
from tidytape.plot._coverage import ROW, TALLEST
from tidytape.plot._frame import read_frame, with_datetimes
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Boxes, Facts, Key, Legend, Panel, Rows, Scale
from tidytape.plot._series import Identity, numbers
from tidytape.plot._tracks import IDENTITY_COLUMNS, Tracks, dates, labels

_COUNTS = ("start", "end", "expected", "present", "missing", "completeness")
_TINY = 1e-12  # a share below this counts as "none", and one within this of 1 counts as "all"
CLASSES = (
    (_TINY, "down", 1.0, "none"),
    (0.5, "down", 0.75, "under 50%"),
    (0.9, "down", 0.5, "under 90%"),
    (0.99, "down", 0.3, "under 99%"),
    (1 - _TINY, "buy", 0.25, "99% or more"),
    (1.0, "buy", 0.5, "all"),
)
"""Upper limit, colour, strength and name of each class. Gaps have stronger colours than complete intervals."""
_MOST_EDGED = 60  # with more columns than this, lines between them would take too much room


def completeness(
    frame: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    """Draw how complete series are as a calendar: a row per series, a column per day or hour, gaps in strong colour.

    The text beside each row says which share of its intervals is present.

    Parameters
    ----------
    frame : frame, n rows, key (series, start), any order
        As `tidytape.analytics.quality.completeness` returns it with ``every="1d"``, or ``"1h"`` for a short window.
        Uses ``start`` and ``end`` [UTC], ``completeness`` [1], and, if present, ``expected`` and ``present``; the other
        columns name the series.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise, as high as the rows need.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    Drawing
        The artists. For a frame without a known completeness the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``rows`` : list of str. The series of each row, from above.
        - ``spans`` : PolyCollection or None. One rectangle per row of the frame whose completeness is known; its array
          has the completeness. [1] None without data.
        - ``notes`` : list of str. The text beside each row; empty if the frame has no counts of intervals.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``frame`` is not a frame or has a row twice, a column holds something else, or ``timezone`` is unknown.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tidytape import Client
    >>> from tidytape.analytics import quality
    >>> window = {"coin": "BTC", "interval": "5m", "start": "2024-08-07", "end": "2024-08-08"}
    >>> with Client.demo() as client:
    ...     candles = client.candles(exchange=["DEMO_SPOT", "DEMO_PERP"], **window)
    >>> drawn = completeness(quality.completeness(candles, every="1h"), ax=Figure().add_subplot())
    >>> drawn.rows, drawn.spans.get_array().shape
    (['DEMO_PERP BTC-PERP', 'DEMO_SPOT BTCUSDT'], (48,))
    """
    calendar = read_completeness(frame)
    height = min(max(ROW * len({*calendar[1]}) + 1.1, 2.0), TALLEST)
    return draw(
        lambda panel: fill_completeness(panel, *calendar),
        ax,
        (9, height),
        title=title,
        timezone=timezone,
    )


def fill_completeness(panel: Panel, calendar: nw.DataFrame[Any], series: list[str], title: str) -> Facts:
    """Show completeness on a panel."""
    start, end = (dates(calendar.get_column(name)) for name in ("start", "end"))
    share = numbers(calendar, "frame", ("completeness",))["completeness"]
    names = sorted(set(series))
    rows = np.array([names.index(name) for name in series])
    panel.over_time()
    panel.x.has_grid = panel.y.has_grid = panel.is_unified = False
    panel.title = style.titled("Completeness", title)
    panel.is_empty = not names
    if not names:
        return {"rows": [], "spans": None, "notes": []}
    palette = panel.colours
    colours = ListedColormap(
        [panel.ground.mixed(getattr(palette, name), strength) for _, name, strength, _ in CLASSES]
    )
    limits = [0, *(limit for limit, *_ in CLASSES[:-1]), 1 + _TINY]
    scale = Scale(colours, BoundaryNorm(limits, colours.N))
    texts = [
        f"{name}<br>Complete: {value * 100:.4g} %"
        for name, value in zip(map(html_text, series), share, strict=True)
    ]
    panel.add(
        Boxes(
            start,
            end,
            rows - 0.43,
            rows + 0.43,
            share,
            scale,
            texts,
            [name for *_, name in CLASSES],
            name="spans",
            width=0.6,
            edge=panel.ground.face if len(np.unique(start)) <= _MOST_EDGED else "face",
        )
    )
    panel.x.limits = float(start.min()), float(end.max())
    notes = _notes(calendar, rows, len(names))
    panel.add(Rows([""] * len(names), names, notes))
    class_numbers = sorted(set(np.asarray(scale.norm(share)).tolist()))
    keys = [Key(colour=colours(number), label=CLASSES[number][-1]) for number in class_numbers]
    panel.legend = Legend(keys, place="above")
    return {"rows": names, "notes": notes}


def read_completeness(frame: IntoFrame) -> tuple[nw.DataFrame[Any], list[str], str]:
    """Return the rows that say a share, the name of each row's series, and the title."""
    calendar = read_frame(frame, "frame", ["start", "end", "completeness"])
    calendar = with_datetimes(with_datetimes(calendar, "frame", "start"), "frame", "end")
    calendar = calendar.filter(*(~nw.col(name).is_null() for name in ("start", "end", "completeness")))
    share = numbers(calendar, "frame", ("completeness",))["completeness"]
    if not ((share >= 0) & (share <= 1 + _TINY)).all():
        raise QueryError(
            "frame",
            got=f"completeness from {share.min():g} to {share.max():g}",
            expected="shares from 0 to 1",
        )
    series, title = _series(calendar)
    if len({*zip(series, calendar.get_column("start").to_list(), strict=True)}) < len(series):
        expected = "one row per series and start"
        raise QueryError("frame", got="several rows of one series and start", expected=expected)
    return calendar, series, title


def _series(frame: nw.DataFrame[Any]) -> tuple[list[str], str]:
    """Return the name of each row's series, and a title that says what all series share, and how many there are."""
    keys = [name for name in frame.columns if name not in _COUNTS]
    columns = [
        ["" if value is None else str(value) for value in frame.get_column(name).to_list()] for name in keys
    ]
    identities = list(zip(*columns, strict=True)) if keys else [()] * len(frame)
    distinct = sorted(set(identities))
    name_by_identity = dict(zip(distinct, labels(keys, distinct), strict=True))
    shared = {name: values[0] for name, values in zip(keys, columns, strict=True) if len(set(values)) == 1}
    market = Identity(**{name: value for name, value in shared.items() if name in IDENTITY_COLUMNS})
    number = f"{len(distinct)} series" if len(distinct) > 1 else ""
    title = ", ".join(filter(None, [market.name if number else "", number, Tracks(market, {}).interval]))
    return [name_by_identity[identity] or "all" for identity in identities], title


def _notes(frame: nw.DataFrame[Any], row_index: NDArray[np.int64], number: int) -> list[str]:
    """Return for each series, as text, which share of its intervals is present in all rows together."""
    if not {"expected", "present"} <= {*frame.columns}:
        return [""] * number
    counts = numbers(frame, "frame", ("expected", "present"))
    expected, present = (
        np.bincount(row_index, counts[name], minlength=number) for name in ("expected", "present")
    )
    # Round down, so that a series that lacks an interval never shows 100%.
    return [f"{np.floor(share * 1000) / 10:g}%" for share in present / expected]
