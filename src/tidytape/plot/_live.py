"""A picture that is redrawn as a live frame grows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from tidytape.catalogue import DEFAULT_TPO_BLOCK_MINUTES
from tidytape.errors import QueryError
from tidytape.plot._candles import candles
from tidytape.plot._heatmap import book_heatmap
from tidytape.plot._liquidations import liquidation_heatmap, liquidations
from tidytape.plot._market_profile import market_profile
from tidytape.plot._profile import volume_profile
from tidytape.plot._style import inside, one_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tidytape.client import Live


_DRAWINGS: dict[str, Callable[..., object]] = {
    "TRADE_SIDE_AGNOSTIC_AGG": candles,
    "VOLUME_PROFILE_AGG": volume_profile,
    "TPO_AGG": market_profile,
    "LIQUIDATION_AGG": liquidations,
    "VENUEX_LIQUIDATION_AGG": liquidation_heatmap,
    "BLOCK_BOOK_SNAPSHOT_AGG": book_heatmap,
}


def live(
    source: Live[Any],
    draw: Callable[..., object] | None = None,
    *,
    every: float = 1.0,
    until: Callable[[], bool] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a live frame as it grows, until its stream ends, ``until`` returns true, or Ctrl-C.

    A notebook replaces the picture below the cell, without a widget; a window replaces its contents. Ctrl-C, or the
    stop button of the notebook, ends the drawing but not the stream.

    Parameters
    ----------
    source : Live
        What ``client.live`` returns, of one data type.
    draw : callable, optional
        Called with the frame and ``ax=``, like the functions of this module. By default the function for the data type:
        `candles`, `volume_profile`, `market_profile`, `liquidations`, `liquidation_heatmap` or `book_heatmap`.
    every : float
        Time between two pictures; without a new batch there is no new picture. [s]
    until : callable, optional
        Called before each picture; if it returns true, that picture is the last one.
    ax : matplotlib Axes, optional
        Where to draw; their contents are removed. By default the axes of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes, with the last picture.

    Raises
    ------
    QueryError
        If ``draw`` is left out and no function of this module draws the data type.
    TidytapeError
        The error that ended the stream, if an error ended it.

    Examples
    --------
    >>> import tidytape
    >>> with tidytape.Client.demo() as client, client.live(
    ...     "TRADE_SIDE_AGNOSTIC_AGG", exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="5m",
    ...     start="2024-08-08T00:00Z", end="2024-08-08T04:00Z",
    ... ) as market:
    ...     ax = live(market, every=0.1)
    >>> ax.get_ylabel()
    'Price [USDT per BTC]'
    """
    draw = draw or _drawing(source)
    if not every > 0:
        raise QueryError("every", got=every, expected="a number of seconds above 0")
    ax = one_axes(ax, 10, 5)
    screen, drawn_batches = _Screen(ax), -1
    try:
        while True:
            # Check for the end before reading the frame, which may still grow in between: the last picture has all
            # rows.
            is_last = not source.is_running or (until is not None and until())
            if source.batches != drawn_batches:
                drawn_batches = source.batches
                screen.draw(source.frame, draw)
            if source.error is not None:
                raise source.error
            if is_last:
                return ax
            ax.figure.canvas.start_event_loop(every)
    except KeyboardInterrupt:
        return ax
    finally:
        screen.close()


def _drawing(source: Live[Any]) -> Callable[..., object]:
    names = source.query.type
    if names == ("TPO_AGG",):
        block_minutes = source.query.tpo_block_minutes or DEFAULT_TPO_BLOCK_MINUTES
        return partial(market_profile, block_minutes=block_minutes)
    if len(names) == 1 and names[0] in _DRAWINGS:
        return _DRAWINGS[names[0]]
    expected = "a function of the frame and ax=; only of " + ", ".join(_DRAWINGS) + " it may be left out"
    raise QueryError("draw", got=None, expected=expected)


class _Screen:
    """The place that shows a figure: below the cell of a notebook, in a window, or nowhere."""

    def __init__(self, ax: Axes) -> None:
        self._ax, self._figure = ax, ax.figure
        self._first_axes = list(self._figure.axes)
        self._is_inline = "inline" in mpl.get_backend().lower()
        # To the picture of a notebook, or to the manager of a window, once it is shown.
        self._handle: Any = None

    def draw(self, frame: Any, draw: Callable[..., object]) -> None:
        for axes in self._figure.axes:
            if axes not in self._first_axes:  # e.g. a second price axis of the last picture
                axes.remove()
        self._ax.clear()
        if len(frame):
            draw(frame, ax=self._ax)
        else:
            # Not `style.no_data`: it would hide the ticks for good, and later pictures need them.
            self._ax.set_axis_off()
            colour = inside(self._ax).ink
            self._ax.text(0.5, 0.5, "no data yet", transform=self._ax.transAxes, ha="center", color=colour)
        self._show()

    def _show(self) -> None:
        canvas = self._figure.canvas
        if self._is_inline:
            from IPython.display import display

            if self._handle is None:
                self._handle = display(self._figure, display_id=True)  # type: ignore[no-untyped-call]
            else:
                self._handle.update(self._figure)
            return
        canvas.draw_idle()
        if self._handle is None and getattr(type(canvas), "required_interactive_framework", None):
            self._handle = canvas.manager
            if self._handle is not None:
                self._handle.show()

    def close(self) -> None:
        """Close the figure, so that the notebook does not show the last picture a second time."""
        if self._is_inline:
            import matplotlib.pyplot as plt

            plt.close(self._figure)  # type: ignore[arg-type]  # never a sub-figure: it would not be closed
