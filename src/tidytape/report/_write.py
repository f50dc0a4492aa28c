"""Writes the report of a tape."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib as mpl
import polars as pl

from tidytape.catalogue import TPO_BLOCK_MINUTES
from tidytape.client._steps import printable
from tidytape.errors import QueryError, TapeError
from tidytape.report._answers import Answers
from tidytape.report._depth import depths
from tidytape.report._figures import fitting_page, plotly_script
from tidytape.report._flow import flows
from tidytape.report._funding import fundings
from tidytape.report._options import chains
from tidytape.report._overview import overview
from tidytape.report._page import page
from tidytape.report._picture import Picture
from tidytape.report._profiles import profiles
from tidytape.report._quality import qualities
from tidytape.report._section import Section

_SECTIONS: dict[str, Callable[[Answers, str], Section | None]] = {
    "Markets": overview,
    "Profiles": profiles,
    "Flow": flows,
    "Funding": fundings,
    "Options": chains,
    "Depth": depths,
    "Data quality": qualities,
}

_NEEDS = {
    "Markets": "candles",
    "Profiles": f"trades, or candles of {max(TPO_BLOCK_MINUTES) // 60} hours or shorter",
    "Flow": "trades with their sides, liquidations, or open interest",
    "Funding": "funding rates",
    "Options": "option quotes, or volatility or skew of options",
    "Depth": "order books, with sizes in coins",
    "Data quality": "candles",
}
"""The data that each section needs, in words that the page shows for a section that is left out."""


def write(
    tape: str | os.PathLike[str],
    out: str | os.PathLike[str],
    /,
    *,
    title: str | None = None,
    timezone: str = "UTC",
    interactive: bool = False,
) -> Path:
    """Write the report of a tape: one HTML file that needs no network and no other file.

    Parameters
    ----------
    tape : path
        A complete tape, which `record` or a study recorded.
    out : path
        The file. An existing file is replaced.
    title : str, optional
        Title of the report; by default "Market report", or "A simulated market" if the tape has answers of the demo.
    timezone : str
        Time zone of the pictures. Tables are in UTC.
    interactive : bool
        Whether pictures are Plotly figures, as `tidytape.plot.interactive` makes them. The page includes Plotly's code
        and has at most 8 MB: if it would be larger, the largest pictures are images instead. If there is room, it also
        has images of the figures, for browsers without scripts. A page that is not interactive has no script.

    Returns
    -------
    pathlib.Path
        The file. The same tape, title and zone give the same bytes with the same versions of the libraries.

    Raises
    ------
    TapeError
        If the tape cannot be read, is incomplete, or has no answer that a report shows.
    QueryError
        If the folder of ``out`` does not exist or is within the tape, or the time zone is unknown.
    ModuleNotFoundError
        If ``interactive`` is true and Plotly is not installed.

    Notes
    -----
    The report has a section for each subject that the tape has data types of. Answers to queries that differ only in
    their markets and windows are drawn together. If a study fetched a type in several forms, such as two intervals, the
    form with the most rows is drawn, and the manifest says which answers were not. Answers of groups of exchanges, or
    of a single side, are not drawn.
    """
    path = Path(out)
    is_taken = path.exists() and not path.is_file()  # a folder, or a device such as /dev/null
    if is_taken or not path.parent.is_dir():
        raise QueryError("out", got=str(path), expected="a file in a folder that exists")
    if path.resolve().is_relative_to(Path(tape).resolve()):
        raise QueryError("out", got=str(path), expected="a file outside of the tape")
    script = plotly_script() if interactive else ""
    answers = Answers(Path(tape))
    # Do not use the user's own style: the same tape must give the same pictures.
    with mpl.rc_context(mpl.rcParamsDefault):
        section_by_name = {name: _section(name, answers, timezone) for name in _SECTIONS}
        sections = {name: section for name, section in section_by_name.items() if section is not None}
        if not sections:
            raise TapeError(f"{tape} has no answer that a report shows", path=str(tape))
        left_out = [f"{name} ({_NEEDS[name]})" for name in section_by_name if name not in sections]
        render = partial(page, answers, sections, left_out=left_out, title=title, timezone=timezone)
        parts = (part for section in sections.values() for part in section.parts)
        pictures = [part for part in parts if isinstance(part, Picture)]
        text = (
            fitting_page(pictures, script, lambda figures: render(figures=figures))
            if interactive
            else render()
        )
    content = text.encode(errors="replace")  # UTF-8 cannot encode half of a surrogate pair in a title
    # Write to a file with another name first, so that the report is never half written. If ``out`` is a link, replace
    # the file that it leads to.
    target = path.resolve()
    part_file = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        part_file.write_bytes(content)
        part_file.replace(target)
    finally:
        part_file.unlink(missing_ok=True)
    return path


def _section(name: str, answers: Answers, timezone: str) -> Section | None:
    """Return a section; None if the tape has no data for it."""
    # A tape that was written by hand may lack a column, or have a column of another type.
    try:
        return _SECTIONS[name](answers, timezone)
    except pl.exceptions.PolarsError as error:
        reason = printable(str(error).partition("\n")[0])
        path = str(answers.path)
        raise TapeError(f"{path}: its answers make no section {name!r}: {reason}", path=path) from error
