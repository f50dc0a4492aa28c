"""``tidytape ingest``: put recorded files into a lake, one command per layout.

The options of a command are the attributes of `tidytape.lake.ingest.Market` that the layout uses, the attributes of the
layout itself, and the arguments of `tidytape.lake.ingest.ingest`.
"""

from __future__ import annotations

import inspect
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidytape.cli._examples import INGEST, example
from tidytape.cli._late import late_group
from tidytape.cli._output import JSON_OPTION
from tidytape.cli._output import as_json as to_json
from tidytape.errors import IngestError, QueryError, counted, escaped

if TYPE_CHECKING:
    from tidytape.lake import Lake
    from tidytape.lake.ingest import IngestReport, Layout


_EXCHANGE = "Exchange of the files."
FILES_HELP = "Files, plain, packed (gz, bz2, xz, zst) or in an archive (zip, tar)."
_RUN = {
    "workers": (int | None, None, typer.Option(min=1, help="Number of files to read at the same time.")),
    "skip_bad": (bool, False, typer.Option("--skip-bad", help="Leave broken lines out instead of failing.")),
    "replace": (
        bool,
        False,
        typer.Option("--replace", help="Let candles and other states of the files replace differing ones."),
    ),
    "tidy": (
        bool,
        True,
        typer.Option("--tidy/--no-tidy", help="Merge small files of the lake after every few commits."),
    ),
    "verbose": (
        bool,
        False,
        typer.Option(
            "--verbose", "-v", help="Report every file and market; by default many of them are summed up."
        ),
    ),
    "as_json": (bool, False, JSON_OPTION),
}

_FOLLOW = {
    "follow": (
        bool,
        False,
        typer.Option(
            "--follow", help="Keep reading the lines that are appended to the files, until interrupted."
        ),
    ),
    "every": (
        float,
        1.0,
        typer.Option(help="With --follow: seconds between two commits of one file."),
    ),
    "most_bad": (
        int,
        100,
        typer.Option(min=0, help="With --follow: broken lines of one file to leave out before it ends."),
    ),
    "keep": (
        float,
        900.0,
        typer.Option(help="With --follow: seconds for which older versions of the lake stay, for streams."),
    ),
}


def _layouts() -> typer.Typer:
    """Return the commands of the layouts; importing the layouts takes a while."""
    from tidytape.lake.ingest import LAYOUTS

    group = typer.Typer(rich_markup_mode=None)
    for name, layout in {"auto": None, **LAYOUTS}.items():
        epilog = example(f"ingest {name}", INGEST[name])
        group.command(name, epilog=epilog)(_command(layout))
    return group


app = typer.Typer(help="Put recorded files into a lake.", no_args_is_help=True, cls=late_group(_layouts))


@app.callback()
def _ingest_group() -> None:
    pass


def _command(layout: type[Layout] | None) -> Callable[..., None]:
    """Return the command of a layout; for None the command that recognises the layout of each file."""
    name = None if layout is None else layout.name

    def command(**arguments: Any) -> None:
        _run(name, arguments)

    command.__doc__ = "Files whose layout can be recognised by their names and first lines."
    if layout is not None:
        command.__doc__ = (inspect.getdoc(layout) or "").partition("\n")[0]
    parameters = {
        "files": (list[Path], inspect.Parameter.empty, typer.Argument(help=FILES_HELP)),
        "lake": (
            str, inspect.Parameter.empty, typer.Option("--lake", help="The lake; made if there is none.")
        ),
        **_options(layout),
        **_RUN,
        **(_FOLLOW if layout is None or layout.follows else {}),
    }  # fmt: skip
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                parameter,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[type_, option],
            )
            for parameter, (type_, default, option) in parameters.items()
        ]
    )
    return command


def _options(layout: type[Layout] | None) -> dict[str, tuple[Any, Any, Any]]:
    """Return the type, the default and the option of each attribute of a layout and of its market."""
    from tidytape.lake.ingest._described import Auto
    from tidytape.lake.ingest._layouts import options_of
    from tidytape.lake.ingest._market import Market

    layout = layout or Auto
    of_market = {name: option for name, option in options_of(Market).items() if name in layout.market_options}
    options = {name: _option(option) for name, option in {**of_market, **options_of(layout)}.items()}
    if layout.needs_exchange:
        options["exchange"] = (str, inspect.Parameter.empty, typer.Option(help=_EXCHANGE))
    elif layout.default_exchange is not None:
        options["exchange"] = (str, layout.default_exchange, typer.Option(help=_EXCHANGE))
    return options


def _option(attribute: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    flags = [attribute["flag"]] if attribute["flag"] else []
    return (
        str if attribute["default"] is not None else str | None,
        attribute["default"],
        typer.Option(*flags, help=attribute["help"]),
    )


def _run(layout: str | None, arguments: dict[str, Any]) -> None:
    """Ingest with the arguments of a command, without those that are None: these keep their defaults."""
    not_options = {"files", "lake", "verbose", "as_json"}
    options = with_pairs({name: value for name, value in arguments.items() if name not in not_options})
    format_report = _format_of(verbose=arguments["verbose"], as_json=arguments["as_json"])
    _ingest(arguments["files"], arguments["lake"], format_report=format_report, layout=layout, **options)


def _format_of(*, verbose: bool, as_json: bool) -> Callable[[IngestReport], str]:
    """Return the function that formats a report as text."""
    from tidytape.lake.ingest import summary

    return to_json if as_json else str if verbose else summary


def with_pairs(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are not None; a text of ``name=value`` pairs becomes a mapping."""
    options = {name: value for name, value in arguments.items() if value is not None}
    columns, words = options.pop("columns", ""), options.pop("words", "")
    pairs = [part for part in columns.split(",") if part]
    # In --map side=side,side=A:sell the first pair names a column, and the second says what the word A means.
    of_words = [part for part in pairs if ":" in part.partition("=")[2]]
    if names := [part for part in pairs if part not in of_words]:
        options["columns"] = _pairs("columns", ",".join(names), "column", may_be_empty=True)
    if of_words or words:
        options["words"] = _words([*of_words, *(part for part in words.split(",") if part)])
    if "=" in options.get("time_unit", ""):
        options["time_unit"] = _pairs("time_unit", options["time_unit"], "unit")
    return options


def _words(texts: list[str]) -> dict[str, dict[str, str]]:
    """Return the meanings of words by column, from texts such as ``side=A:sell``."""
    words: dict[str, dict[str, str]] = {}
    for text in texts:
        column, _, pair = text.partition("=")
        word, colon, meaning = pair.rpartition(":")
        if not (column.strip() and colon and meaning.strip()):
            raise QueryError("words", got=text, expected="a column, a word and its meaning, e.g. side=A:sell")
        words.setdefault(column.strip(), {})[word.strip()] = meaning.strip()
    return words


def _pairs(parameter: str, text: str, what: str, *, may_be_empty: bool = False) -> dict[str, str]:
    """Return the pairs of a text such as ``name=value,name=value``; errors call the values ``what``."""
    pairs = [part.partition("=") for part in text.split(",")]
    if any(
        not (name.strip() and equals and (value.strip() or may_be_empty)) for name, equals, value in pairs
    ):
        raise QueryError(parameter, got=text, expected=f"name={what} pairs with commas between them")
    if len({name.strip() for name, _, _ in pairs}) < len(pairs):
        raise QueryError(parameter, got=text, expected="each name once")
    return _NamedValues((name.strip(), value.strip()) for name, _, value in pairs)


class _NamedValues(dict[str, str]):
    """Names and values that an error shows as they are written on the command line."""

    def __repr__(self) -> str:
        return repr(",".join(f"{name}={value}" for name, value in self.items()))


def _ingest(
    files: list[Path],
    lake: str,
    *,
    layout: str | None,
    format_report: Callable[[IngestReport], str],
    skip_bad: bool,
    replace: bool = False,
    follow: bool = False,
    every: float = 1.0,
    most_bad: int = 100,
    keep: float = 900.0,
    workers: int | None = None,
    tidy: bool = True,
    **options: Any,
) -> None:
    from tidytape.lake import Lake
    from tidytape.lake.ingest import ingest
    from tidytape.lake.ingest._layouts import by_name

    layout_object, market = by_name(layout, options)
    if follow and replace:
        raise QueryError("replace", got=replace, expected="nothing beside ``follow``")
    reading: dict[str, Any] = {"market": market, "skip_bad": skip_bad}
    try:
        report = (
            _follow(
                files,
                Lake.create(lake),
                layout_object,
                **reading,
                every=every,
                most_bad=most_bad,
                keep=keep,
                **({} if tidy else {"tidy": None}),
            )
            if follow
            else ingest(
                files,
                Lake.create(lake),
                layout_object,
                **reading,
                replace=replace,
                workers=workers,
                tidy=tidy,
            )
        )
    except IngestError as error:
        if error.report is not None:  # the rest went in
            typer.echo(escaped(format_report(error.report), keep="\n"))
        raise
    typer.echo(escaped(format_report(report), keep="\n"))


def _follow(files: list[Path], lake: Lake, layout: Layout | None, **options: Any) -> IngestReport:
    """Follow files until an interrupt or a request to terminate, and return the report."""
    from tidytape.lake.record import follow

    with stopped_by_signals() as stop, shown_rows() as progress:
        return follow(files, lake, layout, stop=stop, progress=progress, **options)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event; an interrupt or a request to terminate sets the event instead of ending the process."""
    stop = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous_handlers = {number: signal.signal(number, lambda *_: stop.set()) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


@contextmanager
def shown_rows(pause: float = 10.0) -> Iterator[Callable[[IngestReport], object]]:
    """Yield a callback that shows the number of new rows on standard error.

    On a terminal it updates a bar; otherwise it writes a line, at most one per ``pause`` [s].
    """
    from tqdm.auto import tqdm

    if not sys.stderr.isatty():
        yield _Lines(pause)
        return
    with tqdm(unit=" rows", unit_scale=True) as bar:

        def progress(report: IngestReport) -> None:
            bar.update(_new_rows(report) - bar.n)

        yield progress


class _Lines:
    """Prints the number of new rows of a report, at most once per ``pause`` [s]."""

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._last = time.monotonic()

    def __call__(self, report: IngestReport) -> None:
        if time.monotonic() - self._last >= self._pause:
            self._last = time.monotonic()
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            typer.echo(f"{now}  {counted(_new_rows(report), 'new row')}", err=True)


def _new_rows(report: IngestReport) -> int:
    return sum(count.new for file in report.files for count in file.counts)
