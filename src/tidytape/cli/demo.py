"""``tidytape demo``: the main job from end to end, on a simulated market."""

from __future__ import annotations

import shlex
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidytape.cli.output import Json, put_json
from tidytape.cli.report import steps
from tidytape.errors import QueryError, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from tidytape.lake import Lake

__all__ = ["Journey", "demo", "journey"]


_ROLLUP = 10  # as many days at a time


@dataclass(frozen=True)
class Journey:
    """What the demo wrote, and what it fetched.

    Attributes
    ----------
    lake, tape, report : Path
        Where each lies.
    fetched : polars.DataFrame
        One row per data type: how many series and rows the report's queries fetched, their weight, and the time that
        took. [s]
    """

    lake: Path
    tape: Path
    report: Path
    fetched: pl.DataFrame

    def __str__(self) -> str:
        """Return what was fetched as a table, where things lie, and what to try next."""
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
        places = [f"{name:<7} {getattr(self, name)}" for name in ("report", "tape", "lake")]
        lake, tape = (shlex.quote(str(path)) for path in (self.lake, self.tape))
        window = "--exchange DEMO_SPOT --coin BTC --interval 1h --start 2024-08-07 --end 2024-08-08"
        tries = [
            f"tidytape lake info --lake {lake}",
            f"tidytape fetch candles --lake {lake} {window}",
            f"tidytape report --tape {tape} --out again.html",
        ]
        return "\n".join([table, "", *places, "", "Open the report in a browser. Then try:", *tries])


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the report, the tape and the lake; made if there is none.")
    ],
    days: Annotated[int, typer.Option(min=1, max=366, help="Length of the simulated market. [d]")] = 3,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the simulation; each seed makes another market.")
    ] = 7,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate exchanges, store their events in a lake, serve, fetch and analyse them, and write a report."""
    began = time.monotonic()
    with steps(quiet=quiet) as step:
        done = journey(out, days=days, seed=seed, step=step)
    if as_json:
        put_json(
            {"lake": done.lake, "tape": done.tape, "report": done.report, "fetched": done.fetched.to_dicts()}
        )
    else:
        typer.echo(done)
    typer.echo(f"{counted(days, 'simulated day')} in {time.monotonic() - began:.0f} s", err=True)


def journey(
    out: str | Path,
    *,
    days: int = 3,
    seed: int = 7,
    step: Callable[[str], object] = lambda name: None,
) -> Journey:
    """Run the main job on the demo's market.

    Parameters
    ----------
    out : path
        Folder for the results; made if it is not there. The results of an earlier run are replaced.
    days : int
        Length of the simulated market. [d]
    seed : int
        Seed of the simulation; each seed makes another market.
    step : callable
        Is called with the name of each step before it begins.

    Returns
    -------
    Journey
        Paths, and what was fetched; printed, it is the demo's output.

    Raises
    ------
    QueryError
        If the folder is a file, has a lake of other exchanges, or another demo is writing to it.
    TidytapeError
        If something else than the results of an earlier run is in their place.
    """
    import filelock

    folder = Path(out)
    if seed >= 2**64:  # which the tape's JSON has no room for
        raise QueryError("seed", got=seed, expected="a whole number below 2**64")
    if folder.exists() and not folder.is_dir():
        raise QueryError("out", got=str(folder), expected="a folder, or a name that is free")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder / ".lock", timeout=0):
            return _journey(folder, days=days, seed=seed, step=step)
    except filelock.Timeout:
        expected = "a folder that no other demo is writing to right now"
        raise QueryError("out", got=str(folder), expected=expected) from None


def _journey(folder: Path, *, days: int, seed: int, step: Callable[[str], object]) -> Journey:
    from tidytape import report
    from tidytape.client import Client
    from tidytape.demo import fill
    from tidytape.lake import Lake
    from tidytape.lake.rollup import rollup

    lake, tape = folder / "lake", folder / "market.tape"
    _make_room(lake)

    def after(day: int, _: int) -> None:
        step(f"simulate exchanges, day {day} of {days}")
        if day % _ROLLUP == 0 or day == days:  # memory grows with the days of one rollup
            step("precompute minutes")
            rollup(Lake(lake), progress=False)

    step("simulate exchanges and store their events")
    fill(lake, days=days, seed=seed, progress=after)
    with Client.local(lake, progress=False) as client:
        report.record(client, tape, overwrite=True, about={"seed": seed, "days": days}, step=step)
    step("write the report")
    page = report.write(tape, folder / "report.html")
    return Journey(lake, tape, page, report.fetched(tape))


def _make_room(lake: Path) -> None:
    """Remove the lake of an earlier demo, whole or interrupted, and nothing else."""
    from tidytape.lake import TABLES, Lake

    # A lake is renamed before it is removed: an interrupted removal leaves no part of a lake that looks like another's.
    removed = lake.with_name(".lake.removed")
    shutil.rmtree(removed, ignore_errors=True)
    if lake.is_symlink():
        raise QueryError("out", got=f"{lake}, a link", expected="a folder whose lake is no link")
    if not lake.exists():
        return
    exchanges = Lake.create(lake).markets()[
        "exchange"
    ]  # a demo that was interrupted early left some tables only
    events = set(TABLES) - {"markets", "prediction_markets"}  # a demo registers its markets before any event
    has_events = any(path.name != "_delta_log" for table in events for path in (lake / table).glob("*"))
    is_of_demo = exchanges.str.starts_with("DEMO_").all() and not (exchanges.is_empty() and has_events)
    if not is_of_demo or _holds_others(Lake(lake)):
        expected = "a folder without a lake of other exchanges, coins or rates than the demo's"
        raise QueryError("out", got=str(lake.parent), expected=expected)
    lake.rename(removed)
    shutil.rmtree(removed)


def _holds_others(lake: Lake) -> bool:
    """Return whether a lake has events that no demo writes: somebody may have ingested into the demo's lake."""
    from tidytape.demo.tokens import TOKENS
    from tidytape.lake import TABLES

    named = {name[0] for table in TABLES for name in lake.markets_in(table) if name}
    tokens = lake.scan("token_supply").select("token_name").unique().collect()["token_name"]
    return (
        not all(exchange.startswith("DEMO_") for exchange in named)
        or not {*tokens} <= {token.name for token in TOKENS}
        or lake.scan("quote_rates").head(1).collect().height > 0
    )
