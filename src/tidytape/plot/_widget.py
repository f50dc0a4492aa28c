"""A live frame as a widget of Plotly, which a thread updates while the notebook runs other cells."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import narwhals as nw

from tidytape.errors import QueryError

if TYPE_CHECKING:
    from tidytape.client import Live


Update = Callable[[Any, Any], object]


def live_widget(source: Live[Any], update: Update | None = None, *, every: float = 1.0) -> Any:
    """Return a widget that shows a live frame as it grows, while the notebook runs other cells.

    It needs the packages plotly and anywidget, which tidytape does not install by itself:
    ``pip install 'tidytape[interactive]'``. `live` does not need them.

    Parameters
    ----------
    source : Live
        What ``client.live`` returns, of one data type.
    update : callable, optional
        Called with the figure and the frame after each change, in a thread of its own. By default it draws candles.
    every : float
        Shortest time between two updates. [s]

    Returns
    -------
    plotly.graph_objects.FigureWidget
        The figure. When the stream has ended, its title says so, and why.

    Raises
    ------
    ImportError
        If plotly or anywidget is not installed.
    QueryError
        If ``update`` is left out and the data type is not TRADE_SIDE_AGNOSTIC_AGG.
    """
    if update is None and source.query.type != ("TRADE_SIDE_AGNOSTIC_AGG",):
        expected = (
            "a function of the figure and the frame; only of TRADE_SIDE_AGNOSTIC_AGG it may be left out"
        )
        raise QueryError("update", got=None, expected=expected)
    if not every > 0:
        raise QueryError("every", got=every, expected="a number of seconds above 0")
    try:
        import plotly.graph_objects as go
    except ModuleNotFoundError as error:
        message = "live_widget takes plotly and anywidget: pip install 'tidytape[interactive]'"
        raise ModuleNotFoundError(message, name=error.name) from None

    figure = go.FigureWidget(layout={"xaxis": {"rangeslider": {"visible": False}}})
    refresh = update or _candles
    refresh(figure, source.frame)
    # The thread has only a weak reference to the figure, so that it ends when the notebook drops the figure.
    thread = threading.Thread(
        target=_follow,
        args=(weakref.ref(figure), source, refresh, every),
        daemon=True,
        name="tidytape-widget",
    )
    thread.start()
    return figure


def _follow(reference: weakref.ref[Any], source: Live[Any], refresh: Update, every: float) -> None:
    """Update the figure until the stream ends or the figure is gone."""
    failure: BaseException | None = None
    drawn_batches, is_last = -1, False
    while not is_last:
        is_last = not source.is_running
        figure = reference()
        if figure is None:
            return
        if source.batches != drawn_batches:
            drawn_batches = source.batches
            try:
                with figure.batch_update():
                    refresh(figure, source.frame)
            except Exception as error:  # noqa: BLE001 - nobody would see an error of this thread; the title shows it
                is_last, failure = True, error
        if is_last:
            failure = failure or source.error
            figure.layout.title = "The stream ended" if failure is None else f"Ended by an error: {failure}"
        del figure  # do not keep it alive during the sleep
        if not is_last:
            time.sleep(every)


def _candles(figure: Any, frame: Any) -> None:
    if not figure.data:
        figure.add_candlestick()
    columns = nw.from_native(frame, eager_only=True).sort("timestamp")
    trace = figure.data[0]
    trace.x = columns["timestamp"].to_list()
    for name in ("open", "high", "low", "close"):
        setattr(trace, name, columns[name].to_list())
