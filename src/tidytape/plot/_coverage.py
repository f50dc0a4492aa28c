"""The first and last time and the gaps of every market's data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.dependencies import get_pandas
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.errors import html_text
from tidytape.plot import _style as style
from tidytape.plot._frame import read_frame, with_datetimes
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Boxes, Facts, Key, Legend, Panel, Rows
from tidytape.plot._series import require_once
from tidytape.plot._tracks import dates

Floats = NDArray[np.float64]
TALLEST = 100.0  # largest height of a picture: matplotlib cannot write more than 65,536 pixels [in]
ROW = 0.24  # height of a row [in]
_HALF = 0.31  # half the height of a bar as a share of its row; the rest is a gap between bars


@dataclass(frozen=True, slots=True)
class _Row:
    market: str
    table: str
    first: float  # [matplotlib dates, d]
    last: float
    gaps: Floats  # one row per gap: start and end
    note: str


def coverage(
    frame: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    """Draw the times and gaps of the data: one row per market and table of events.

    Data types that are computed from the same events, such as candles and profiles of trades, share a row. A gap is
    drawn at least as wide as a line, so that you can see an hour in a year. The text beside each row says how many
    events and gaps there are. ``client.describe()`` decides what a gap is: by default an hour or more without an event.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, coin, type), any order
        As ``client.describe()`` returns it. Uses ``exchange``, ``raw_symbol``, ``coin``, ``type``, ``first_timestamp``
        and ``last_timestamp`` [UTC], and, if present, ``tables``, ``rows``, ``gaps``, ``longest_gap``, ``gap_starts``
        and ``gap_ends``.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise, as high as the rows need.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    Drawing
        The artists. If no row of the frame has times, the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``rows`` : list of (str, str). Market and table of each row, from above.
        - ``spans`` : PolyCollection or None. One rectangle per span that has data. None for an empty frame.
        - ``gaps`` : PolyCollection or None. One rectangle per gap. None without gaps.
        - ``notes`` : list of str. The text beside each row.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``frame`` is not a frame or has a row twice, or ``timezone`` is unknown.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tidytape import Client
    >>> with Client.demo() as client:
    ...     drawn = coverage(client.describe(coin="BTC", exchange="DEMO_PERP"), ax=Figure().add_subplot())
    >>> drawn.rows[:2]
    [('DEMO_PERP BTC-PERP', 'book'), ('DEMO_PERP BTC-PERP', 'funding')]
    """
    rows = read_coverage(frame)
    height = min(max(ROW * len(rows) + 1.1, 2.0), TALLEST)
    return draw(
        lambda panel: fill_coverage(panel, rows, timezone=timezone),
        ax,
        (9, height),
        title=title,
        timezone=timezone,
    )


def fill_coverage(panel: Panel, rows: list[_Row], *, timezone: str | tzinfo) -> Facts:
    """Show the times and gaps of data on a panel."""
    panel.over_time()
    panel.y.has_grid = panel.is_unified = False
    markets = list(dict.fromkeys(row.market for row in rows))
    panel.title = style.titled(
        "Coverage", markets[0] if len(markets) == 1 else f"{len(markets)} markets" if markets else ""
    )
    panel.is_empty = not rows
    if not rows:
        return {"rows": [], "spans": None, "gaps": None, "notes": []}
    palette = panel.colours
    texts = ["<br>".join([html_text(row.market), html_text(row.table), row.note]) for row in rows]
    data_spans = [(index, *span) for index, row in enumerate(rows) for span in _spans(row)]
    gap_spans = [(index, *gap) for index, row in enumerate(rows) for gap in row.gaps]
    # The edge shows a span that is thinner than a pixel as a line.
    entries = []
    for name, label, spans, colour, width, order in (
        ("spans", "held", data_spans, palette.buy, 0.4, 2.0),
        ("gaps", "gap", gap_spans, palette.down, 1.0, 2.1),
    ):
        if spans:
            row_index, start, end = map(np.array, zip(*spans, strict=True))
            panel.add(
                Boxes(
                    start,
                    end,
                    row_index - _HALF,
                    row_index + _HALF,
                    texts=[texts[index] for index in row_index],
                    name=name,
                    label=label,
                    colour=colour,
                    width=width,
                    order=order,
                )
            )
            entries.append(Key(colour=colour, label=label))
    first, last = float(min(row.first for row in rows)), float(max(row.last for row in rows))
    panel.show_times(first, last, 0.01 * (last - first) or 1 / 24)
    groups, names, notes = ([getattr(row, name) for row in rows] for name in ("market", "table", "note"))
    panel.add(Rows(groups, names, notes))
    panel.legend = Legend(entries, place="above")
    return {"rows": list(zip(groups, names, strict=True)), "gaps": None, "notes": notes}


def read_coverage(frame: IntoFrame) -> list[_Row]:
    description = read_frame(
        frame, "frame", ["exchange", "raw_symbol", "type", "first_timestamp", "last_timestamp"]
    )
    require_once(description, "frame", ("exchange", "raw_symbol", "coin", "type", "tables"))
    return _rows(description)


def _rows(frame: nw.DataFrame[Any]) -> list[_Row]:
    """Return a row per market and table that has times, in the order of their names."""
    frame = with_datetimes(with_datetimes(frame, "frame", "first_timestamp"), "frame", "last_timestamp")
    first, last = (dates(frame.get_column(name)) for name in ("first_timestamp", "last_timestamp"))

    def values(name: str) -> Sequence[Any]:
        return frame.get_column(name).to_list() if name in frame.columns else [None] * len(frame)

    names = ("exchange", "raw_symbol", "coin", "category")
    exchange, symbol, coin, category = (values(name) for name in names)
    tables = [names or data_type for names, data_type in zip(values("tables"), values("type"), strict=True)]
    event_counts, gap_counts, longest_gaps = (values(name) for name in ("rows", "gaps", "longest_gap"))
    gap_starts, gap_ends = (values(name) for name in ("gap_starts", "gap_ends"))
    by_market: dict[tuple[str, str], _Row] = {}
    for row in range(len(frame)):
        if not np.isfinite(first[row]) or not np.isfinite(last[row]):
            continue
        # All option summaries of a coin are computed from the same quotes, so they share the row of the coin.
        symbol_or_coin = (
            coin[row] if str(category[row]) == "OPTION" or not _is_known(symbol[row]) else symbol[row]
        )
        market = " ".join(str(name) for name in (exchange[row], symbol_or_coin) if _is_known(name))
        table = str(tables[row]).replace("_", " ")
        gaps = [_dates_of(times[row]) for times in (gap_starts, gap_ends)]
        note = _note(event_counts[row], gap_counts[row], longest_gaps[row])
        by_market.setdefault(
            (market, table), _Row(market, table, first[row], last[row], np.column_stack(gaps), note)
        )
    return [by_market[key] for key in sorted(by_market)]


def _is_known(value: object) -> bool:
    # Without pandas, which takes half a second to import, there is no value of it.
    pandas = get_pandas()
    is_missing = value is None or (pandas is not None and value is pandas.NA)
    return not is_missing and not (isinstance(value, float) and np.isnan(value))


def _dates_of(times: Sequence[datetime] | None) -> Floats:
    from matplotlib.dates import date2num

    if not isinstance(times, Iterable):  # null, NaN or NA
        return np.empty(0)
    return np.asarray(date2num(list(times)), dtype=np.float64).reshape(-1)  # type: ignore[no-untyped-call]


def _note(events: Any, gaps: Any, longest: Any) -> str:
    """Return the text beside a row, e.g. ``1.2M events, 2 gaps, longest 3 h``."""
    parts = []
    if _is_known(events):
        parts.append(f"{style.short(float(f'{events:.3g}'))} events")
    if _is_known(gaps):
        parts.append("1 gap" if gaps == 1 else f"{gaps:.0f} gaps" if gaps else "no gaps")
        if gaps and isinstance(longest, timedelta):
            parts.append(_duration_text(longest) if gaps == 1 else f"longest {_duration_text(longest)}")
    return ", ".join(parts)


def _duration_text(span: timedelta) -> str:
    hours = span / timedelta(hours=1)
    if hours >= 48:
        return f"{hours / 24:.3g} d"
    return f"{hours:.3g} h" if hours >= 1 else f"{hours * 60:.3g} min"


def _spans(row: _Row) -> list[tuple[float, float]]:
    """Return the spans with data of a row: from its first event to its last, without the gaps."""
    starts, ends = [row.first, *row.gaps[:, 1]], [*row.gaps[:, 0], row.last]
    # A row with a single event has one span of length 0, which is drawn as a line.
    return [(start, end) for start, end in zip(starts, ends, strict=True) if end > start or not len(row.gaps)]
