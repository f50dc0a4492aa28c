"""The pages of a long window of raw trades, in the headers of a request and of its answer.

A request with the header ``Prefer: pages`` takes the first page of a window that has more trades than one answer may
have. The answer then has ``Preference-Applied: pages``, and in ``X-Page-Ends`` the ends of all pages of the window.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tidytape.errors import DecodeError, shown

PAGES = "pages"
"""The preference of a caller who takes the first page of a long window."""

PAGE_ENDS = "X-Page-Ends"
"""The header with the ends of all pages of a window, the first of which is the answer's."""


def write_page_ends(ends: Iterable[int]) -> str:
    """Return the text of the header. [s since the epoch]

    Examples
    --------
    >>> write_page_ends((60, 120))
    '60,120'
    """
    return ",".join(map(str, ends))


def asks_for_pages(preferences: Iterable[str]) -> bool:
    """Return whether headers ``Prefer`` or ``Preference-Applied`` name pages.

    Examples
    --------
    >>> asks_for_pages(["return=minimal, Pages; x=1"]), asks_for_pages(["no-pages"])
    (True, False)
    """
    names = (part.partition(";")[0].strip().lower() for text in preferences for part in text.split(","))
    return PAGES in names


def read_page_ends(text: str | None, *, start: int, end: int, are_applied: bool) -> list[int]:
    """Return the ends of the pages of a window, the end of the window for no header. [s since the epoch]

    ``are_applied`` says whether the answer has ``Preference-Applied: pages``, and so is a page.

    Raises
    ------
    DecodeError
        If the ends do not cut the window into pages, or the answer is a page and has no ends.

    Examples
    --------
    >>> pages = read_page_ends("60, 120", start=0, end=120, are_applied=True)
    >>> pages, read_page_ends(None, start=0, end=120, are_applied=False)
    ([60, 120], [120])
    """
    if text is None and not are_applied:
        return [end]
    parts = [part.strip() for part in (text or "").split(",")]
    ends = [int(part) if part.isascii() and part.isdigit() and len(part) < 20 else -1 for part in parts]
    if ends[-1] != end or any(first >= second for first, second in pairwise((start, *ends))):
        raise DecodeError(f"{PAGE_ENDS}: got {shown(text)}, expected the ends of pages from {start} to {end}")
    return ends
