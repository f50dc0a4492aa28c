"""``tidytape report``: one HTML file about markets, from a tape, a lake, a service or the demo."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidytape.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable


def report(
    out: Annotated[Path, typer.Option(help="The HTML file to write.")],
    tape: Annotated[
        Path | None, typer.Option(help="Write the report of this tape, without a service.")
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Record the answers on a new tape here, to write the same report again."),
    ] = None,
    lake: Annotated[str | None, typer.Option(help="Report on this lake.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Report on the service at this address.")] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="TIDYTAPE_API_KEY",
            show_envvar=True,
            help="Key of the service; safer in the environment.",
        ),
    ] = None,
    exchange: Annotated[list[str] | None, typer.Option(help="Only this exchange; may be repeated.")] = None,
    coin: Annotated[list[str] | None, typer.Option(help="Only this coin; may be repeated.")] = None,
    start: Annotated[
        str | None, typer.Option(help="Start of the window, inclusive; by default three days before its end.")
    ] = None,
    end: Annotated[
        str | None, typer.Option(help="End of the window, exclusive; by default the end of the data.")
    ] = None,
    interval: Annotated[
        str | None, typer.Option(help="Interval of the candles; by default one that suits the window.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the report; by default Market report, or A simulated market.")
    ] = None,
    timezone: Annotated[str, typer.Option(help="Time zone of the pictures.")] = "UTC",
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive",
            help="Pictures in which you can zoom and read values; needs tidytape[interactive].",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Write a report: pictures, tables and a manifest in one HTML file.

    Without --tape, --lake and --base-url the report is about the demo's simulated market. The same tape gives the same
    report, byte for byte.
    """
    from tidytape.report import write
    from tidytape.report._answers import held_days
    from tidytape.report._record import DAYS

    if tape is not None:
        other_options = {
            "record": record,
            "lake": lake,
            "base_url": base_url,
            "exchange": exchange,
            "coin": coin,
        }
        other_options |= {"start": start, "end": end, "interval": interval}
        for name, value in other_options.items():
            if value:
                raise QueryError(
                    name, got=value, expected="nothing beside a tape, which holds the answers already"
                )
        typer.echo(write(tape, out, title=title, timezone=timezone, interactive=interactive))
        return
    if record is not None and record.exists():
        raise QueryError("record", got=str(record), expected="a name that is free")
    window = {"start": start, "end": end, "interval": interval}
    with tempfile.TemporaryDirectory() as folder, _client(lake, base_url, api_key) as client:
        path = record or Path(folder) / "report.tape"
        with steps(quiet=quiet) as step:
            record_answers(client, path, step, exchange=exchange or None, coin=coin or None, **window)
            step("write the report")
            report_path = write(path, out, title=title, timezone=timezone, interactive=interactive)
        days = None if quiet or start is not None else held_days(path)
    typer.echo(report_path)
    if days is not None and days > DAYS:
        typer.echo(f"wrote {report_path}: {DAYS} of {days} days held; --start for more", err=True)


def record_answers(client: Any, path: Path, step: Callable[[str], None], **arguments: Any) -> Path:
    """Record the answers that a report needs; `report` cannot call `record`, because it has an option of that name."""
    from tidytape.report import record

    return record(client, path, step=step, **arguments)


def _client(lake: str | None, base_url: str | None, api_key: str | None) -> Any:
    from tidytape.client import Client

    if lake is not None and base_url is not None:
        raise QueryError("lake", got=lake, expected="a lake or a service, not both")
    if lake is not None:
        return Client.local(lake, progress=False)
    if base_url is not None or os.environ.get("TIDYTAPE_BASE_URL"):
        return Client(base_url, api_key, progress=False)
    return Client.demo(progress=False)


@contextmanager
def steps(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a callback that shows the name of each step on standard error; on a terminal also how long it takes."""
    from tqdm.auto import tqdm

    if quiet or not sys.stderr.isatty():
        yield lambda name: None if quiet else typer.echo(name, err=True)
        return
    # Use shutil's width: tqdm would show nothing on a terminal that reports a width of 0, and shutil returns 80 then.
    columns = shutil.get_terminal_size().columns
    with tqdm(bar_format="{desc} ({elapsed})", leave=False, ncols=columns) as bar:

        def show(name: str) -> None:
            bar.set_description_str(name)

        yield show
