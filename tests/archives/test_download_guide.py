"""The guide to downloads shows what the archives have and what tidytape prints.

``python tests/archives/test_download_guide.py`` rewrites the parts that are made from the code.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from mirror import (
    Mirror,
    Request,
    answers,
    binance_metrics,
    binance_trades,
    breaks_off,
    milliseconds,
    moved,
    put_binance,
    zipped,
)
from tidytape.archives import _fetching, kinds
from tidytape.archives._archives import ARCHIVES
from tidytape.cli import main

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "download.md"
KINDS = re.compile(r"^\| archive \| market \|.*?(?=\n\n)", flags=re.MULTILINE | re.DOTALL)
ODDITIES = re.compile(r"^\*\*binance\*\*, .*?(?=\n\n## )", flags=re.MULTILINE | re.DOTALL)
DEFECTS = re.compile(r"^\| what happens \|.*?(?=\n\n)", flags=re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"```bash\n(tidytape download [^`]*)```(?:\n+```text\n(.*?)```)?", flags=re.DOTALL)
STUDY = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)

DAY = date(2024, 8, 1)
TRADES = "data/futures/um/daily/trades/BTCUSDT/BTCUSDT-trades-{}.zip"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fetching, "_PACE", 0.0)
    monkeypatch.setattr(_fetching, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(_fetching, "_LONGEST_PAUSE", 0.001)


# --- what the archives have -------------------------------------------------------------------------------------------


def kinds_table() -> str:
    """A table with a row per market of an archive."""
    lines = [
        "| archive | market | in the lake | data |",
        "| --- | --- | --- | --- |",
    ]
    for (archive, market, exchange), of_market in kinds().group_by(
        "archive", "market", "exchange", maintain_order=True
    ):
        data = ", ".join(
            f"`{name}`" + (" (months)" if period == "month" else "")
            for name, period in of_market.select("data", "period").iter_rows()
        )
        lines.append(f"| `{archive}` | `{market}` | `{exchange}` | {data} |")
    return "\n".join(lines)


def oddities() -> str:
    """What is known to be odd, archive by archive."""
    parts = []
    for archive in ARCHIVES.values():
        parts += [f"**{archive.name}**, {archive.host}:", "", *(f"- {odd}" for odd in archive.oddities), ""]
    return "\n".join(parts[:-1])


def test_the_guide_has_every_archive_with_what_is_odd() -> None:
    text = GUIDE.read_text("utf-8")
    assert KINDS.findall(text) == [kinds_table()], "python tests/archives/test_download_guide.py"
    assert ODDITIES.findall(text) == [oddities()], "python tests/archives/test_download_guide.py"


# --- what tidytape prints ---------------------------------------------------------------------------------------------


def printed(command: str, mirror: str) -> str:
    """Return what a command prints, on either stream, with the address of the archive for that of the mirror."""
    said = io.StringIO()
    words = [*shlex.split(command.replace("\\\n", " ")), "--mirror", mirror]
    with (
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        contextlib.suppress(SystemExit),
    ):
        main()
    text = said.getvalue().replace(mirror, "https://data.binance.vision")
    # Libraries that pack files, and systems that connect, differ.
    text = re.sub(r"[0-9a-f]{12}…", "…", text)
    text = re.sub(r"\(received \d+ bytes, expected \d+\)", "(…)", text)
    return re.sub(r"(ConnectError: ).*", r"\1…", text)


def trades_of(day: date = DAY, **how: bool) -> bytes:
    return zipped(f"BTCUSDT-trades-{day}.csv", binance_trades(day, **how))


def put(mirror: Mirror, content: bytes, *, checksum: bool | str = True) -> None:
    mirror.put(TRADES.format(DAY), content, checksum=checksum)


def with_fault(fault: Callable[[Request], bool]) -> Callable[[Mirror], None]:
    def prepare(mirror: Mirror) -> None:
        put(mirror, trades_of())
        mirror.faults[TRADES.format(DAY)] = fault

    return prepare


def without_ranges(mirror: Mirror) -> None:
    with_fault(breaks_off(700, ranges=False))(mirror)


def changes(mirror: Mirror) -> None:
    """The first answer breaks off, and the rest would be of another file."""

    def fault(request: Request) -> bool:
        if request.number == 0:
            request.content = zipped(f"BTCUSDT-trades-{DAY}.csv", binance_trades(DAY, 49))
            request.file(sent=700)
        return request.number == 0

    with_fault(fault)(mirror)


def is_moved(mirror: Mirror) -> None:
    mirror.files["moved.zip"] = trades_of()
    with_fault(moved("/moved.zip"))(mirror)


def a_missing_day(mirror: Mirror) -> None:
    put(mirror, trades_of())
    day = DAY + timedelta(days=2)
    mirror.put(TRADES.format(day), trades_of(day))


def microseconds(mirror: Mirror) -> None:
    for day in (date(2024, 12, 31), date(2025, 1, 1)):
        content = trades_of(day, header=False, microseconds=day.year == 2025)
        mirror.put(f"data/spot/daily/trades/BTCUSDT/BTCUSDT-trades-{day}.zip", content)


def headers(mirror: Mirror) -> None:
    for number, header in enumerate((False, True)):
        day = DAY + timedelta(days=number)
        mirror.put(TRADES.format(day), trades_of(day, header=header))


def metrics(blank: dict[int, str]) -> Callable[[Mirror], None]:
    def prepare(mirror: Mirror) -> None:
        name = f"BTCUSDT-metrics-{DAY}"
        text = binance_metrics(DAY, blank=blank)
        path = f"data/futures/um/daily/metrics/BTCUSDT/{name}.zip"
        mirror.put(path, zipped(f"{name}.csv", text))

    return prepare


def both_kinds(mirror: Mirror) -> None:
    put(mirror, trades_of())
    time = milliseconds(DAY)
    names = "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker"
    content = zipped(f"BTCUSDT-aggTrades-{DAY}.csv", f"{names}\n1,60000,0.5,1,2,{time},true\n")
    mirror.put(f"data/futures/um/daily/aggTrades/BTCUSDT/BTCUSDT-aggTrades-{DAY}.zip", content)


@dataclass(frozen=True)
class Defect:
    """Something that is wrong with files of an archive, or looks so."""

    happens: str
    prepare: Callable[[Mirror], None]
    days: str = "--start 2024-08-01 --end 2024-08-02"
    data: str = "trades"
    market: str = "um"

    def printed(self) -> str:
        with Mirror().served() as mirror:
            self.prepare(mirror)
            command = (
                f"tidytape download binance BTCUSDT --market {self.market} --data {self.data} {self.days}"
            )
            return printed(f"{command} --lake lake --folder files", mirror.address)


ALL = [
    Defect("The published checksum is wrong.", lambda mirror: put(mirror, trades_of(), checksum="0" * 64)),
    Defect("The checksum is missing.", lambda mirror: put(mirror, trades_of(), checksum=False)),
    Defect("A zip archive is cut off, and so is the file from which its checksum was computed.",
           lambda mirror: put(mirror, trades_of()[:300])),
    Defect("A file is empty.", lambda mirror: put(mirror, b"")),
    Defect("A file has a header and no rows.",
           lambda mirror: put(mirror, zipped(f"BTCUSDT-trades-{DAY}.csv", binance_trades(DAY, 0)))),
    Defect("A row cannot be read.",
           lambda mirror: put(mirror, zipped(f"BTCUSDT-trades-{DAY}.csv", "1,x,1,1,1722470400000,true\n"))),
    Defect("A day is missing (404).", a_missing_day, days="--start 2024-08-01 --end 2024-08-04"),
    Defect("A day or month is not over, so that its file is not published yet. Nothing is asked.",
           lambda _: None, days="--start 2099-01-01 --end 2099-02-01", data="funding"),
    Defect("The server breaks off; tidytape asks for the rest.", with_fault(breaks_off(700))),
    Defect("The server breaks off each time at the same byte, and always begins anew.", without_ranges),
    Defect("The file changes while it is fetched; tidytape begins anew.", changes),
    Defect("There are too many requests (429); tidytape waits as long as the server says.",
           with_fault(answers(429, 2, Retry_After="7"))),
    Defect("The server is not available for a while (503); tidytape waits longer each time.",
           with_fault(answers(503, 3))),
    Defect("The server stays unavailable.", with_fault(answers(503))),
    Defect("The server refuses the file (401, 403).", with_fault(answers(403))),
    Defect("The file was moved (302).", is_moved),
    Defect("Times are microseconds from one day on.", microseconds,
           days="--start 2024-12-31 --end 2025-01-02", market="spot"),
    Defect("Files have a header from one day on.", headers, days="--start 2024-08-01 --end 2024-08-03"),
    Defect("Some metrics are blank or zero.", metrics({3: ",", 4: '"",""', 5: "0,0"}), data="open_interest"),
    Defect("All metrics of a day are blank.", metrics(dict.fromkeys(range(288), ",")), data="open_interest"),
    Defect("You ask for `trades` and `agg_trades`, which are the same trades twice.", both_kinds,
           data="trades,agg_trades"),
]  # fmt: skip


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def defects_table() -> str:
    """A table of what happens and what tidytape prints."""
    lines = ["| what happens | what tidytape prints |", "| --- | --- |"]
    for defect in ALL:
        with tempfile.TemporaryDirectory() as folder, working_in(Path(folder)):
            said = "<br>".join(defect.printed().splitlines())
        lines.append(f"| {defect.happens} | {said} |")
    with tempfile.TemporaryDirectory() as folder, working_in(Path(folder)):
        nobody = Defect("There is no network.", lambda _: None)
        command = f"tidytape download binance BTCUSDT --market um --data trades {nobody.days} --lake lake"
        lines.append(f"| {nobody.happens} | {printed(command, 'http://127.0.0.1:9').strip()} |")
    return "\n".join(lines)


@pytest.mark.slow
def test_the_guide_shows_what_tidytape_prints_of_each_defect() -> None:
    expected = defects_table()
    assert "Traceback" not in expected
    assert DEFECTS.findall(GUIDE.read_text("utf-8")) == [expected], (
        "python tests/archives/test_download_guide.py"
    )


@pytest.mark.slow
def test_the_study_of_the_guide_runs_on_a_copy_of_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = GUIDE.read_text("utf-8")
    journey = text[: text.index("## What the archives have")]
    commands = COMMAND.findall(journey)
    assert len(commands) == 3
    names: dict[str, Any] = {}
    with Mirror().served() as mirror:
        put_binance(mirror, DAY, 14)
        for command, shown in commands:
            said = printed(command, mirror.address)
            assert said.endswith(shown), command
        study, in_python = STUDY.findall(journey)
        exec(compile(study, str(GUIDE), "exec"), names)
        of_mirror = in_python.replace("lake=", f'mirror="{mirror.address}", lake=')
        exec(compile(of_mirror, str(GUIDE), "exec"), names)
    assert capsys.readouterr().out.startswith("paid 0.4")
    assert names["plan"].known == 15


if __name__ == "__main__":
    with mock.patch.multiple(_fetching, _PACE=0.0, _FIRST_PAUSE=0.001, _LONGEST_PAUSE=0.001):
        parts = (KINDS, kinds_table()), (ODDITIES, oddities()), (DEFECTS, defects_table())
    page = GUIDE.read_text("utf-8")
    for pattern, made in parts:
        page = pattern.sub(lambda _, made=made: made, page)
    GUIDE.write_text(page, "utf-8")
