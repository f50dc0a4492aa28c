"""Renders the page of a report: one HTML file that needs no other file."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import jinja2
from markupsafe import Markup

from tidytape._version import __version__
from tidytape.client._settings import LOCAL
from tidytape.errors import counted, escaped, html_text
from tidytape.report._answers import Answers, numbers
from tidytape.report._figures import Figures
from tidytape.report._picture import Picture
from tidytape.report._section import Section

_DRAWN_WITH = ("polars", "numpy", "matplotlib", "great-tables")  # the libraries whose versions the page lists


def page(
    answers: Answers,
    sections: Mapping[str, Section],
    *,
    left_out: Sequence[str],
    title: str | None,
    timezone: str,
    figures: Figures | None = None,
) -> str:
    """Return the page.

    Parameters
    ----------
    answers : Answers
        The answers that the sections show.
    sections : mapping of str to Section
        The sections by their titles.
    left_out : sequence of str
        The sections for which the tape has no answers, each with the data that it needs.
    title : str, optional
        Title of the page; by default "Market report", or "A simulated market" if an answer is of the demo.
    timezone : str
        The time zone of the pictures.
    figures : Figures, optional
        The pictures that are interactive; by default all are images.

    Returns
    -------
    str
        HTML. The same answers give the same text.
    """
    is_simulated = any(exchange.startswith("DEMO_") for exchange in answers.exchanges)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tidytape.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: escaped(value, keep="\n") if type(value) is str else value,  # markup stays
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["picture"] = lambda part: isinstance(part, Picture)
    environment.filters["markup"] = Markup
    environment.filters["wrapped"] = _wrapped
    return environment.get_template("page.html").render(
        title=title or ("A simulated market" if is_simulated else "Market report"),
        about=_about(answers),
        sections=sections,
        numbers=numbers,
        is_simulated=is_simulated,
        left_out=left_out,
        manifest=_manifest(answers),
        facts=_facts(answers, timezone, _DRAWN_WITH if figures is None else (*_DRAWN_WITH, "plotly")),
        figures=figures,
    )


def _about(answers: Answers) -> str:
    """Return the window and the number of markets, e.g. ``2024-08-07 00:00 to 2024-08-10 00:00 UTC · 16 markets``."""
    if answers.window is None:
        return ""
    first, last = (f"{time:%Y-%m-%d %H:%M}" for time in answers.window)
    return f"{first} to {last} UTC · {counted(answers.markets, 'market')}"


def _wrapped(text: str) -> Markup:
    """Return HTML that may break after commas, but not within times.

    Examples
    --------
    >>> print(_wrapped("exchange=A,B, 2024-08-07T00:00:00Z"))
    exchange=A,<wbr>B,<wbr> <span class="time">2024-08-07T00:00:00Z</span>
    """
    times = re.sub(r"(\d{4}-\d\d-\d\dT[\d:.]+Z)", r'<span class="time">\1</span>', html_text(text))
    return Markup(times.replace(",", ",<wbr>"))


def _to_the_second(at: str) -> str:
    """Return the time of an answer in UTC, to the second; text that is not a time stays as it is.

    Examples
    --------
    >>> _to_the_second("2026-11-25T22:26:27.075+00:00"), _to_the_second("no time")
    ('2026-11-25 22:26:27', 'no time')
    """
    try:
        time = datetime.fromisoformat(at)
        return f"{time.astimezone(UTC) if time.tzinfo else time:%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return at


def _facts(answers: Answers, timezone: str, libraries: Sequence[str]) -> Mapping[str, str]:
    """Return what the manifest says of the tape and of this page, by label."""
    head, contents = answers.contents.head, answers.contents
    study = head.get("study") or {}
    about = study.get("about") or {}
    facts: dict[str, Any] = {
        "Recorded": head.get("created", "not known"),
        "Asked of": _service(contents.service),
        "Commit of the study": study.get("commit") or "not in a git repository",
        "Time zone": timezone,
        "Recorded with": _list(head.get("versions") or {}),
        "Drawn with": _list(
            {"tidytape": __version__, "python": platform.python_version()}
            | {name: version(name) for name in libraries}
        ),
        "SHA-256 of the tape": answers.sha256,
    }
    for (
        name,
        value,
    ) in about.items():  # a label that is already used gets a suffix, so that no fact is replaced
        label = str(name)[:1].upper() + str(name)[1:]
        facts[f"{label} (of the study)" if label in facts else label] = value
    return {name: str(value) for name, value in facts.items()}


def _service(address: str) -> str:
    """Return the address of the service, or "a lake": the address of a local lake means nothing to a reader.

    Examples
    --------
    >>> _service("http://lake.tidytape.local"), _service("https://data.example")
    ('a lake (Client.local)', 'https://data.example')
    """
    return "a lake (Client.local)" if address.endswith(f".{LOCAL}") else address


def _list(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _manifest(answers: Answers) -> list[dict[str, Any]]:
    """Return one row per entry of the tape."""
    return [
        {
            "number": entry.number,
            "asked": answers.described(entry),
            "rows": "" if entry.rows is None else f"{entry.rows:,}",
            "weight": entry.facts.get("weight", ""),
            "at": _to_the_second(entry.at),
            "hash": entry.hash,
            "is_used": entry.number in answers.used,
        }
        for entry in answers.contents.answers
    ]
