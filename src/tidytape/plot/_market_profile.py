"""Market profiles: the prices that each time block of a session touched, sessions side by side."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from itertools import pairwise
from string import ascii_letters, ascii_uppercase
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.dates import date2num
from narwhals.stable.v2.typing import IntoFrame

from tidytape.analytics import profile as profiles
from tidytape.analytics.profile._levels import BLOCK_MINUTES, checked_minutes, no_block_length
from tidytape.catalogue import DEFAULT_TPO_BLOCK_MINUTES
from tidytape.errors import QueryError
from tidytape.frames._trading_clock import TradingClock
from tidytape.plot import _style as looks
from tidytape.plot._candles import padded_limits
from tidytape.plot._frame import missing, read_frame, with_datetimes
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Bar, Boxes, Facts, Legend, Mark, Panel, Regions, Scale, Segments, Texts
from tidytape.plot._profile import Rules
from tidytape.plot._series import (
    FROM_CANDLES,
    Identity,
    block_of,
    is_from_candles,
    levels_per_row,
    market_frame,
    numbers,
    row_of,
    smallest_step,
)
from tidytape.sessions import Session
from tidytape.times import DAY, MINUTE

_MOST_ROWS = {"blocks": 120, "letters": 36}  # price rows that a screen can show, by style
LEFT = 0.045  # where the rows of a session begin, as a share of its time
_WIDEST = 0.88  # length of the longest row as a share of the time of its session
_LETTERS = ascii_uppercase + ascii_letters[:26]
_SMALLEST = 4.0  # smallest font size of letters [pt]
_LETTER_WIDTH = 0.61  # width of a letter of the monospaced font as a share of its size


@dataclass(frozen=True, slots=True)
class Profile:
    """One session: its start and end, and the time blocks that touched each price row, rows and blocks in order."""

    start: float  # [matplotlib dates, d]
    end: float
    touches: dict[int, list[int]]  # by number of the row, the ids of time blocks

    @property
    def rows_start(self) -> float:
        """Where the rows begin. [d]"""
        return self.start + LEFT * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions that can be drawn, in order of time, with their value areas, initial balances and single prints."""

    identity: Identity
    minutes: float  # length of a time block
    height: float  # of a row [quote per coin]
    sessions: list[Profile]
    clock: TradingClock  # runs while the market trades
    prices: Any  # polars frame, one row per session
    prints: Any  # polars frame, one row per run of single prints
    from_candles: bool

    @property
    def most_blocks(self) -> int:
        """The number of time blocks of the longest row."""
        return max(len(blocks) for session in self.sessions for blocks in session.touches.values())


def market_profile(
    levels: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    style: Literal["blocks", "letters"] = "blocks",
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    row_size: float | Decimal | None = None,
    block_minutes: float | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
    """Draw market profiles (TPO), sessions side by side: the time blocks that touched each price.

    Each session is drawn over its time. Its rows grow from the left, one block or letter per time block that touched
    the price; the rows of all sessions have one scale. The picture marks the value area, the point of control (POC),
    the initial balance of the first hour as a bar at the left, and single prints. The line of a POC goes on to the
    right until the price comes back to it; a naked POC, to which the price never came back, goes on to the end and is
    labelled with its price.

    Parameters
    ----------
    levels : frame, n rows, one per (timestamp, price), or per (timestamp, block_id, price), any order
        Schema TPO_AGG of one market, or touches of `tidytape.aggregate.tpo_touches`. Uses ``timestamp`` [UTC], the
        start of the session, ``price`` [quote per coin], ``block_ids`` or ``block_id``, which count from 0 at the
        session's start; and, if present, ``block_size``, and ``period_end`` and ``block_size_minutes``, which
        `tidytape.analytics.profile.with_sessions` adds. Without ``period_end`` a session is as long as the time blocks
        of the longest one, or as the time to the next one.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    style : {"blocks", "letters"}
        Blocks are coloured by the time since the start of the session. Letters name the time blocks, A to Z, then a to
        z; if they would be smaller than 4 points, blocks are drawn instead.
    share, rule, tie, stop
        As in `tidytape.analytics.profile.value_area`, applied to the number of time blocks.
    row_size : float or Decimal, > 0, optional
        Height of a row, a multiple of ``block_size``. By default a row is one level, or several levels if there are too
        many to see. The title says the height. All marks are computed from these rows. [quote per coin]
    block_minutes : float, > 0, optional
        Length of a time block; by default the column ``block_size_minutes``. [min]
    session : Session, optional
        When the market trades, if the levels were made with a session: their time blocks count trading time, so a break
        has none, and a session ends with its close. The axis then leaves out the time between sessions, with a line at
        each open. By default blocks count time of the clock.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.

    Returns
    -------
    Drawing
        The artists and the prices. For a frame without touches the picture says "no data". A collection has one line or
        rectangle per session, in order of time, unless its entry says otherwise.

        - ``ax`` : Axes. The axes drawn on.
        - ``blocks`` : PolyCollection or None. One rectangle per touch; its value is the time from the start of the
          session to the time block [h]. None if letters were drawn.
        - ``letters`` : tuple of Text. One text per row that was touched; empty if blocks were drawn.
        - ``value_areas`` : PolyCollection. From VAL to the upper edge of VAH.
        - ``pocs`` : LineCollection. Points of control, across their sessions.
        - ``later_pocs`` : LineCollection. Points of control from the end of their session until the price came back to
          them; the lines of naked ones end at the right edge of the axes.
        - ``initial_balances`` : LineCollection. Range of the first hour, left of the rows.
        - ``single_prints`` : PolyCollection. One rectangle per run of rows that a single time block touched, inside the
          session's range.
        - ``naked`` : tuple of float. Prices of the naked points of control. [quote per coin]
        - ``row_height`` : float or None. Height of a row; None for an empty frame. [quote per coin]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds several markets or does not say how long a time block is, if one of its sessions does not
        start when ``session`` opens, or an argument is not one of those listed.

    Examples
    --------
    >>> import tidytape
    >>> from matplotlib.figure import Figure
    >>> with tidytape.Client.demo() as client:
    ...     levels = client.tpo(
    ...         exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="1d", session="daily", start="2024-08-07",
    ...         end="2024-08-09",
    ...     )
    >>> drawn = market_profile(levels, block_minutes=30, ax=Figure().add_subplot())
    >>> len(drawn.pocs.get_segments()), drawn.ax.get_ylabel()
    (2, 'Price [USDT per BTC]')
    """
    return draw(
        lambda panel: fill_market_profile(
            panel,
            levels,
            style=style,
            rules=Rules(share, rule, tie, stop, row_size),
            block_minutes=block_minutes,
        ),
        ax,
        (12, 6.5),
        title=title,
        timezone=timezone,
        session=session,
    )


def fill_market_profile(
    panel: Panel,
    levels: IntoFrame,
    *,
    style: str,
    rules: Rules,
    block_minutes: float | None,
) -> Facts:
    """Show market profiles on a panel."""
    tpo = sessions_of(levels, rules, style, block_minutes, panel.hours.session)
    panel.over_time()
    y = panel.y
    y.kind, y.name, y.unit = "price", "Price", tpo.identity.price_unit
    panel.x.has_grid, panel.is_unified, panel.is_empty = False, False, not tpo.sessions
    panel.title = looks.titled("Market profile", _title(tpo))
    naked = tuple(row["poc"] for row in tpo.prices.iter_rows(named=True) if row["is_naked"])
    facts: Facts = {"blocks": None, "letters": (), "naked": naked, "row_height": None}
    if tpo.sessions:
        first, last = tpo.sessions[0].start, tpo.sessions[-1].end
        panel.show_times(first, last, right=0.012 * (last - first))
        if panel.hours.session is not None:
            panel.hours.show_runs(
                [panel], *np.array([(profile.start, profile.end) for profile in tpo.sessions]).T
            )
        rows = [row for session in tpo.sessions for row in session.touches]
        y.limits = padded_limits(min(rows) * tpo.height, (max(rows) + 1) * tpo.height)
    marks = _add_marks(panel, tpo)
    if not tpo.sessions:
        return facts
    size = _letter_size(panel, tpo) if style == "letters" else 0.0
    if size:
        _add_letters(panel, tpo, size)
    else:
        _add_blocks(panel, tpo)
    _add_prices(panel, naked, tpo.height)
    _add_regions(panel, tpo)
    scale = "letters of" if size else f"longest row: {tpo.most_blocks} ×"
    panel.x.note = ", ".join(filter(None, (panel.x.note, f"{scale} {tpo.minutes:g} min")))
    panel.legend = Legend(marks, place="above")
    return {**facts, "row_height": tpo.height}


def _add_marks(panel: Panel, tpo: Sessions) -> list[Mark]:
    """Add value areas, points of control, initial balances and single prints; return those that there are."""
    colours, height, half_row = panel.colours, tpo.height, tpo.height / 2
    session_by_start = {session.start: session for session in tpo.sessions}
    session_rows = [
        (session_by_start[_date(row["timestamp"])], row) for row in tpo.prices.iter_rows(named=True)
    ]
    prints = [(session_by_start[_date(row["timestamp"])], row) for row in tpo.prints.iter_rows(named=True)]
    right = panel.x.limits[1] if panel.x.limits else 0.0
    area = f"Value area, {tpo.prices['share'][0]:.0%}" if len(tpo.prices) else "Value area"

    def columns(*rows: tuple[float, ...]) -> list[Any]:
        return [*np.array(rows, dtype=float).reshape(-1, 4).T]

    areas = Boxes(
        *columns(*((s.start, s.end, row["val"], row["vah"] + height) for s, row in session_rows)),
        name="value_areas",
        label=area,
        colour=colours.value_area,
        edge="none",
        order=0.4,
        in_image=True,
    )
    pocs = Segments(
        *columns(
            *((s.start, s.end, row["poc"] + half_row, row["poc"] + half_row) for s, row in session_rows)
        ),
        name="pocs",
        label="POC",
        colour=colours.poc,
        width=1.4,
        order=2.4,
    )
    ends = [right if row["is_naked"] else _time_of_return(tpo, row) for _, row in session_rows]
    later = ((s.end, row["poc"] + half_row, end) for (s, row), end in zip(session_rows, ends, strict=True))
    later_pocs = Segments(
        *columns(*((start, end, price, price) for start, price, end in later)),
        name="later_pocs",
        label="POC until touched",
        colour=colours.poc,
        dashes=(0, (4, 3)),
        order=2.3,
    )
    balances = Segments(
        *columns(
            *(
                (x := s.start + LEFT / 2 * (s.end - s.start), x, row["initial_balance_low"],
                 row["initial_balance_high"] + height)
                for s, row in session_rows
                if row["initial_balance_low"] is not None
            )
        ),
        name="initial_balances",
        label="Initial balance",
        colour=looks.CYCLE[1],
        width=3,
        order=2.2,
    )  # fmt: skip
    singles = Boxes(
        *columns(*((s.start, s.end, row["low"], row["high"] + height) for s, row in prints)),
        name="single_prints",
        label="Single prints",
        colour=(*to_rgb(looks.CYCLE[5]), 0.22),
        edge=looks.CYCLE[5],
        width=0.8,
        order=0.5,
        in_image=True,
    )
    marks = [panel.add(mark) for mark in (areas, pocs, later_pocs, balances, singles)]
    return [mark for mark in marks if len(mark.x0)]


def _add_blocks(panel: Panel, tpo: Sessions) -> None:
    """Add a rectangle per touch, coloured by the time since the start of the session."""
    unit, height = unit_of(tpo), tpo.height
    boxes = [
        (session.rows_start + index * unit, session.rows_start + (index + 1) * unit, row * height, block)
        for session in tpo.sessions
        for row, block_ids in session.touches.items()
        for index, block in enumerate(block_ids)
    ]
    start, end, low, blocks = np.array(boxes).T
    hours = blocks * tpo.minutes / 60
    # Leave gaps between blocks if there is room for them.
    has_room = min(_room_of_block(panel, tpo)) > 3
    scale = Scale.of(panel.ground.ordered(), 0, max(float(hours.max()), tpo.minutes / 60))
    mark = Boxes(
        start,
        end,
        low,
        low + height,
        hours,
        scale,
        name="blocks",
        in_image=True,
        edge=panel.ground.face if has_room else "face",
        width=0.5 if has_room else 0.1,
    )
    panel.bars.append(Bar(panel.add(mark), scale, "Time into the session", "h"))


def _room_of_block(panel: Panel, tpo: Sessions) -> tuple[float, float]:
    """Return the width and the height of a time block. [pt]"""
    (low, high), ground = panel.y.limits or (0.0, 1.0), panel.ground
    return unit_of(tpo) / panel.x.shown * ground.width, tpo.height / (high - low) * ground.height


def _letter_size(panel: Panel, tpo: Sessions) -> float:
    """Return the font size of letters; 0 if there is no room for them."""
    width, height = _room_of_block(panel, tpo)
    size = min(0.95 * height, width / _LETTER_WIDTH, 10.0)
    return size if size >= _SMALLEST else 0.0


def _add_letters(panel: Panel, tpo: Sessions, size: float) -> None:
    """Add the letters of each row as one text."""
    colours = panel.colours
    xs, ys, texts, styles = [], [], [], []
    for session, prices in zip(tpo.sessions, tpo.prices.iter_rows(named=True), strict=True):
        for row, block_ids in session.touches.items():
            price = row * tpo.height
            is_in_area = prices["val"] - tpo.height / 2 < price < prices["vah"] + tpo.height / 2
            is_poc = abs(price - prices["poc"]) < tpo.height / 2
            # The line of the POC runs behind the letters.
            of_poc = {"color": colours.poc, "weight": "bold", "path_effects": panel.ground.halo()}
            xs.append(session.rows_start)
            ys.append(price + tpo.height / 2)
            texts.append("".join(letter_of(block) for block in block_ids))
            styles.append(of_poc if is_poc else {"color": colours.ink if is_in_area else colours.flat})
    look = {"family": "monospace", "size": size, "va": "center_baseline"}
    panel.add(Texts(xs, ys, texts, look, styles, name="letters", order=2.5, in_image=True))


def _add_prices(panel: Panel, prices: tuple[float, ...], height: float) -> None:
    """Write the prices of naked points of control at the right edge."""
    look = {"size": "small", "path_effects": panel.ground.halo()}
    texts = [looks.price_text(price, height) for price in prices]
    rows = [price + height / 2 for price in prices]
    panel.add(
        Texts(
            [1.0] * len(prices),
            rows,
            texts,
            look,
            is_at_edge=True,
            in_image=True,
            colour=panel.colours.ink,
            order=3,
        )
    )


def _add_regions(panel: Panel, tpo: Sessions) -> None:
    """Let hovering over a row show the time blocks that touched it."""
    touches = [(s.rows_start, row, blocks) for s in tpo.sessions for row, blocks in s.touches.items()]
    starts, rows, block_ids = zip(*touches, strict=True)
    number, low = np.array([len(blocks) for blocks in block_ids]), np.array(rows) * tpo.height
    panel.add(
        Regions(
            np.array(starts),
            number * unit_of(tpo),
            low + tpo.height / 2,
            tpo.height,
            ["".join(map(letter_of, blocks)) for blocks in block_ids],
            label="Time blocks",
            data=np.stack([number, low], axis=1),
            hover=f"<br>%{{customdata[0]}} time blocks of {tpo.minutes:g} min<br>%{{text}}",
        )
    )


def letter_of(block: int) -> str:
    """Return the letter of a time block: A to Z, a to z, and from A again."""
    return _LETTERS[block % len(_LETTERS)]


def unit_of(tpo: Sessions) -> float:
    """Return the drawn width of one time block. [d]"""
    return float(_WIDEST * min(session.end - session.start for session in tpo.sessions) / tpo.most_blocks)


def _time_of_return(tpo: Sessions, row: dict[str, Any]) -> float:
    """Return when the price came back to a point of control: the start of the first time block that touched it."""
    start = _date(row["touched_at"])
    session = next(session for session in tpo.sessions if np.isclose(session.start, start, rtol=0, atol=1e-9))
    block_ids = session.touches.get(round(row["poc"] / tpo.height), [0])
    return _date(tpo.clock.later(row["touched_at"], round(block_ids[0] * tpo.minutes * MINUTE)))


def _date(time: int) -> float:
    """Return a time in nanoseconds as a matplotlib date. [d]"""
    return float(date2num(np.datetime64(time, "ns")))  # type: ignore[no-untyped-call]


def _title(tpo: Sessions) -> str:
    name = tpo.identity.name
    if not tpo.sessions:
        return name
    lengths = {round((session.end - session.start) * 24, 6) for session in tpo.sessions}
    hours = lengths.pop() if len(lengths) == 1 else None
    length = "" if hours is None else f" of {hours / 24:g} d" if hours >= 24 else f" of {hours:g} h"
    number = len(tpo.sessions)
    text = f"{number} session{'s' * (number > 1)}{length}"
    rows = f"rows of {looks.price_text(tpo.height, tpo.height)} {tpo.identity.quote}"
    return ", ".join(filter(None, (name, text, rows, FROM_CANDLES * tpo.from_candles)))


def sessions_of(
    frame: object, rules: Rules, style: str, block_minutes: float | None, session: Session | None = None
) -> Sessions:
    """Read touches; compute value areas, initial balances and single prints, in rows that a screen can show."""
    import polars as pl

    if style not in _MOST_ROWS:
        raise QueryError("style", got=style, expected="'blocks' or 'letters'")
    rows = read_frame(frame, "levels", ("timestamp", "price"))
    columns = rows.columns
    if not {"block_ids", "block_id"} & {*columns}:
        raise missing(["block_ids"], columns)
    has_lists = "block_ids" in columns  # then a row is a level, otherwise a touch
    key = ("timestamp", "price", *(() if has_lists else ("block_id",)))
    rows, identity = market_frame(rows, "levels", ("timestamp", "price"), key=key)
    rows = with_datetimes(rows, "levels").filter(~nw.col("timestamp").is_null())
    block_ids = rows.get_column("block_ids" if has_lists else "block_id").to_list()
    touches = pl.DataFrame(
        {
            "timestamp": rows.get_column("timestamp").dt.timestamp("ns").to_list(),
            "price": numbers(rows, "levels", ("price",))["price"],
            "block_ids": [
                [int(block) for block in np.atleast_1d([] if blocks is None else blocks)]
                for blocks in block_ids
            ],
        },
        schema={"timestamp": pl.Int64, "price": pl.Float64, "block_ids": pl.List(pl.Int32)},
    )
    # Join the touches of one price to one level.
    touches = (
        touches.filter(pl.col("price").is_finite(), pl.col("block_ids").list.len() > 0)
        .explode("block_ids")
        .group_by("timestamp", "price")
        .agg(pl.col("block_ids").unique().sort())
        .sort("timestamp", "price")
    )
    block = block_of(rows)
    step = block or smallest_step(touches["price"].unique().sort().to_numpy())
    if rules.row_size is None:
        span = np.ptp(touches["price"].to_numpy()) if len(touches) else 0.0
        row_size: float | Decimal = step * levels_per_row(float(span) / step + 1, _MOST_ROWS[style])
    else:
        row_size = rules.row_size
    minutes = checked_minutes(block_minutes) or _only(rows, BLOCK_MINUTES)
    if minutes is None and len(touches):
        raise no_block_length()
    minutes = minutes or DEFAULT_TPO_BLOCK_MINUTES  # of a picture without blocks
    levels = touches.with_columns(
        tpo_count=pl.col("block_ids").list.len().cast(pl.Float64), block_size=pl.lit(block, pl.Float64)
    )
    areas = profiles.value_area(
        levels,
        count="tpo_count",
        share=rules.share,
        rule=rules.rule,
        tie=rules.tie,
        stop=rules.stop,
        row_size=row_size,
    )
    balances = profiles.initial_balance(levels, block_minutes=minutes, row_size=row_size)
    naked_pocs = profiles.naked_pocs(levels, count="tpo_count", row_size=row_size)
    prices = areas.join(balances, on="timestamp").join(naked_pocs.drop("poc", "poc_tie"), on="timestamp")
    prints = profiles.single_prints(levels, row_size=row_size)
    height = float(row_size)
    starts = touches["timestamp"].unique().sort().to_list()
    # Without a session the market always trades. The last period is no longer than a month.
    span = (starts[0], starts[-1] + 31 * DAY) if starts else (0, 0)
    clock = TradingClock(session or Session.utc_day(), *span)
    if session is not None and (others := {*starts} - {*clock.begins.tolist()}):
        raise QueryError(
            "session",
            got=f"{session} for a session from {np.datetime64(min(others), 'ns').astype('datetime64[s]')} UTC",
            expected="the Session of the levels, which opens when they do",
        )
    ends = _ends(rows, starts, touches, minutes, clock, is_clock=session is None)
    sessions = [
        Profile(_date(time), _date(ends[time]), _rows(part, height))
        for (time,), part in touches.group_by("timestamp", maintain_order=True)
    ]
    return Sessions(
        identity,
        minutes,
        height,
        sessions,
        clock,
        prices.sort("timestamp"),
        prints,
        from_candles=is_from_candles(rows),
    )


def _only(frame: nw.DataFrame[Any], name: str) -> Any:
    """Return the value of a column; None if it has several values or no value."""
    values = frame.get_column(name).drop_nulls().unique().to_list() if name in frame.columns else []
    return values[0] if len(values) == 1 else None


def _rows(part: Any, height: float) -> dict[int, list[int]]:
    """Return by row the ids of the time blocks that touched it, from the levels of a session."""
    touches: dict[int, set[int]] = {}
    for row, block_ids in zip(row_of(part["price"].to_numpy(), height), part["block_ids"], strict=True):
        touches.setdefault(int(row), set()).update(block_ids)
    return {row: sorted(block_ids) for row, block_ids in touches.items()}


def _ends(
    frame: nw.DataFrame[Any],
    starts: list[int],
    touches: Any,
    minutes: float,
    clock: TradingClock,
    *,
    is_clock: bool,
) -> dict[int, int]:
    """Return the end of each session by its start [ns]: from ``period_end``, else from the time blocks.

    A market that closes does so when it next stops to trade after the beginning of the last time block.
    """
    blocks = int(touches["block_ids"].list.max().max() or 0) + 1
    shortest = min((following - start for start, following in pairwise(starts)), default=0)
    length = max(round(blocks * minutes * MINUTE), shortest)
    ends = {start: start + length for start in starts}
    if not is_clock:
        last = {
            row["timestamp"]: clock.later(row["timestamp"], round(row["block_ids"] * minutes * MINUTE))
            for row in touches.explode("block_ids").group_by("timestamp").max().iter_rows(named=True)
        }
        clock_ends, clock_begins = clock.ends, clock.begins
        ends = {
            start: int(clock_ends[np.searchsorted(clock_begins, begin, side="right") - 1])
            for start, begin in last.items()
        }
    if "period_end" in frame.columns:
        rows = with_datetimes(frame, "levels", "period_end")
        known = zip(
            rows.get_column("timestamp").dt.timestamp("ns").to_list(),
            rows.get_column("period_end").dt.timestamp("ns").to_list(),
            strict=True,
        )
        ends |= {start: end for start, end in known if end is not None}
    return ends
