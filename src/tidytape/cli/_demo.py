"""``tidytape demo``: all steps from events to a report, on a simulated market or a real one."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidytape.cli._demo_folder import LAKE, PAGE, TAPE, claimed, seal
from tidytape.cli._output import Json, put_json
from tidytape.cli._report import steps
from tidytape.errors import QueryError, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl


_DAYS_PER_ROLLUP = 10  # the memory that a rollup takes grows with the number of its days


@dataclass(frozen=True)
class Journey:
    """What the demo wrote, and what it fetched.

    Attributes
    ----------
    lake, tape, report : Path
        Paths of the lake, the tape and the report.
    fetched : polars.DataFrame
        One row per data type: the number of series and rows that the report's queries fetched, the weight of these
        queries, and the time that they took. [s]
    source : str
        Which market it is, simulated or real, and which archive its files came from.
    window : str
        Options of ``tidytape fetch`` for a part of the market.
    more : str
        A command that fetches more of the market; empty if there is none.
    """

    lake: Path
    tape: Path
    report: Path
    fetched: pl.DataFrame
    source: str = "All prices and trades are simulated."
    window: str = "--exchange DEMO_SPOT --coin BTC --interval 1h --start 2024-08-07 --end 2024-08-08"
    more: str = ""

    def __str__(self) -> str:
        """Return a table of what was fetched, the source, the paths of the results, and commands to try next."""
        import polars as pl

        with pl.Config(
            tbl_hide_dataframe_shape=True,
            tbl_hide_column_data_types=True,
            tbl_rows=-1,
            tbl_formatting="NOTHING",
            tbl_cell_numeric_alignment="RIGHT",
            thousands_separator=True,
            float_precision=2,
            tbl_width_chars=100,
            fmt_str_lengths=60,
        ):
            table = str(self.fetched)
        paths = [f"{name:<7} {getattr(self, name)}" for name in ("report", "tape", "lake")]
        lake, tape = (shlex.quote(str(path)) for path in (self.lake, self.tape))
        commands = [
            f"tidytape lake info --lake {lake}",
            f"tidytape fetch candles --lake {lake} {self.window}",
            f"tidytape report --tape {tape} --out again.html",
            *([self.more] if self.more else []),
        ]
        head = [table, "", self.source, "", *paths, ""]
        return "\n".join([*head, "Open the report in a browser. Then try:", *commands])


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the report, the tape and the lake; made if there is none.")
    ],
    days: Annotated[int, typer.Option(min=1, max=366, help="Length of the market. [d]")] = 3,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the simulation; each seed makes another market.")
    ] = 7,
    real: Annotated[
        str | None,
        typer.Option(
            metavar="COIN",
            help="Instead of simulated exchanges, the market of this coin in a public archive, e.g. BTC: candles, open "
            "interest and funding of the perpetual in USDT on Binance. It needs a network, and no key.",
        ),
    ] = None,
    trades: Annotated[
        bool, typer.Option("--trades", help="With --real, fetch trades too: for BTC some 100 MB per day.")
    ] = False,
    mirror: Annotated[str | None, typer.Option(help="With --real, address of a copy of the archive.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate exchanges, store their events in a lake, serve, fetch and analyse them, and write a report.

    With --real the market is a real one: the last days of the newest month that the archive is sure to have.
    """
    from tidytape.cli._demo_real import real_journey

    started = time.monotonic()
    for name, value in {"trades": trades, "mirror": mirror}.items():
        if value and real is None:
            raise QueryError(name, got=value, expected="a real market with it, e.g. ``real='BTC'``")
    with steps(quiet=quiet) as step:
        if real is None:
            results = journey(out, days=days, seed=seed, step=step)
        else:
            progress = False if quiet else None
            results = real_journey(
                out, real, days=days, has_trades=trades, mirror=mirror, progress=progress, step=step
            )
    if as_json:
        put_json(
            {
                "lake": results.lake,
                "tape": results.tape,
                "report": results.report,
                "source": results.source,
                "fetched": results.fetched.to_dicts(),
            }
        )
    else:
        typer.echo(results)
    kind = "simulated day" if real is None else "real day"
    typer.echo(f"{counted(days, kind)} in {time.monotonic() - started:.0f} s", err=True)


def journey(
    out: str | Path,
    *,
    days: int = 3,
    seed: int = 7,
    step: Callable[[str], object] = lambda name: None,
) -> Journey:
    """Simulate a market, store it in a lake, and write a report about it.

    Parameters
    ----------
    out : path
        Folder for the results; created if it does not exist. The results of an earlier demo are replaced, unless they
        were changed.
    days : int
        Length of the simulated market. [d]
    seed : int
        Seed of the simulation; each seed makes another market.
    step : callable
        Called with the name of each step before it begins.

    Returns
    -------
    Journey
        Paths, and what was fetched. Its text is what the command prints.

    Raises
    ------
    QueryError
        If the folder cannot be written, another demo is writing to it, or it has a lake, a tape or a report that no
        demo wrote, or that was changed.
    """
    folder = Path(out)
    if seed >= 2**64:  # the encoder of the tape's JSON takes no larger integers
        raise QueryError("seed", got=seed, expected="a whole number below 2**64")
    with claimed(folder):
        results = _journey(folder, days=days, seed=seed, step=step)
        seal(folder)
    return results


def _journey(folder: Path, *, days: int, seed: int, step: Callable[[str], object]) -> Journey:
    from tidytape.demo import fill
    from tidytape.lake import Lake
    from tidytape.lake.rollup import rollup

    lake = folder / LAKE

    def after_day(day: int, _: int) -> None:
        step(f"simulate exchanges, day {day} of {days}")
        if day % _DAYS_PER_ROLLUP == 0 or day == days:
            step("precompute minutes")
            rollup(Lake(lake), progress=False, is_complete=day == days)

    step("simulate exchanges and store their events")
    fill(lake, days=days, seed=seed, progress=after_day)
    return reported(folder, about={"seed": seed, "days": days}, step=step)


def reported(
    folder: Path,
    *,
    about: Mapping[str, object],
    step: Callable[[str], object],
    title: str | None = None,
    window: tuple[str | None, str | None] = (None, None),
) -> Journey:
    """Write the tape and the report of the lake of a demo.

    Parameters
    ----------
    folder : path
        The folder of the demo.
    about : mapping
        Facts for the manifest of the report.
    step : callable
        Called with the name of each step before it begins.
    title : str, optional
        Title of the report; by default that of `tidytape.report.write`.
    window : tuple of str, optional
        Start and end of the report; by default the last days of the lake.

    Returns
    -------
    Journey
    """
    from tidytape import report
    from tidytape.client import Client

    lake, tape = folder / LAKE, folder / TAPE
    with Client.local(lake, progress=False) as client:
        report.record(client, tape, start=window[0], end=window[1], about=about, step=step)
    step("write the report")
    page = report.write(tape, folder / PAGE, title=title)
    return Journey(lake, tape, page, report.fetched(tape))
