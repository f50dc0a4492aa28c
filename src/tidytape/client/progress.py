"""A bar for what takes several requests, where someone is looking; and a word where the budget makes it wait long."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidytape.client.display import lasting
from tidytape.query.values import written_time

__all__ = ["Bar", "Progress"]

_LOG = logging.getLogger("tidytape")

_PATIENCE = 10.0
"""A shorter wait is not worth a word. [s]"""


class Bar:
    """How far a fetch is, and until when the budget makes it wait: on a bar, or where none is shown in the log.

    Parameters
    ----------
    what : str
        What is fetched.
    bar : tqdm, optional
    """

    def __init__(self, what: str, bar: Any = None) -> None:
        self._what = what
        self._bar = bar
        self._until = 0.0

    def advance(self) -> None:
        """Note that one more request is done."""
        if self._bar is not None:
            self._bar.update()

    def looks_ahead(self, weight: int) -> None:
        """Note what of the weight is for a time more than a day ahead of now. [weight]"""
        if weight:
            _LOG.warning(
                "%s: weight %s of this fetch is for a time more than a day ahead of now; an earlier end saves it",
                self._what,
                f"{weight:,}",
            )

    def waits(self, seconds: float) -> None:
        """Note that the budget makes it wait so long; it is told where that is long, and longer than was told. [s]"""
        until = time.time() + seconds
        if seconds < _PATIENCE or until < self._until + _PATIENCE:
            return
        self._until = until
        when = written_time(round(until))
        if self._bar is not None:
            self._bar.set_postfix_str(f"waits for the budget until {when}")
        else:
            # Not `warnings`: each wait is news, and a filter that makes errors of them must not end a fetch halfway.
            _LOG.warning(
                "%s: the budget of the key makes this fetch wait %s, until %s; max_wait bounds that, and a plan "
                "tells it beforehand",
                self._what,
                lasting(seconds),
                when,
            )


class Progress:
    """Whether and how to show how far a fetch is.

    Parameters
    ----------
    what : str
        What is fetched.
    wanted : bool, optional
        None shows it when there is more than one request and someone is looking: at a terminal, or in a notebook.
    """

    def __init__(self, what: str, *, wanted: bool | None) -> None:
        self._wanted = wanted
        self._what = what

    @contextmanager
    def of(self, total: int) -> Iterator[Bar]:
        """Give what moves on by one of so many."""
        shown = total > 1 and _is_seen() if self._wanted is None else self._wanted
        if not shown:
            yield Bar(self._what)
            return
        from tqdm.auto import tqdm

        with tqdm(total=total, desc=self._what, unit="request", leave=False) as bar:
            yield Bar(self._what, bar)


def _is_seen() -> bool:
    # A notebook has a shell with a kernel; some library that was only imported has none.
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return sys.stderr.isatty() or hasattr(shell, "kernel")
