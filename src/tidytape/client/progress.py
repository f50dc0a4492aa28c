"""A bar for what takes several requests, where someone is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Progress"]


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
    def of(self, total: int) -> Iterator[Callable[[], None]]:
        """Give a function that moves it on by one of so many."""
        shown = total > 1 and _is_seen() if self._wanted is None else self._wanted
        if not shown:
            yield lambda: None
            return
        from tqdm.auto import tqdm

        with tqdm(total=total, desc=self._what, unit="request", leave=False) as bar:

            def advance() -> None:
                bar.update()

            yield advance


def _is_seen() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
