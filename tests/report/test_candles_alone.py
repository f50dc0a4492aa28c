"""The report of a lake that holds candles alone: profiles made of them, and what is left out and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import tidytape
from tidytape import aggregate, report
from tidytape.analytics import profile
from tidytape.cli import app
from tidytape.lake import Lake
from tidytape.lake.ingest import Csv, Market, ingest
from tidytape.report._answers import Answers
from tidytape.report._picture import Picture
from tidytape.report._profiles import profiles

START = datetime(2024, 8, 1, tzinfo=UTC)
DAYS = 5


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("candles")
    minute = pl.int_range(DAYS * 24 * 4, eager=True)
    price = 100 + 10 * (minute / 40).sin() + (minute % 7) / 10
    bars = pl.DataFrame(
        {"timestamp": minute * 900 + int(START.timestamp()), "open": price, "close": price + 0.1}
    )
    bars = bars.with_columns(high=price + 0.3, low=price - 0.2, volume=pl.lit(2.0))
    bars.write_csv(folder / "bars.csv")
    made = Lake.create(folder / "lake")
    ingest(
        folder / "bars.csv",
        made,
        Csv(table="candles", interval="15m"),
        market=Market(exchange="X", raw_symbol="BTC-USD"),
    )
    return folder / "lake"


def test_profiles_are_those_of_the_candles_on_the_tape(lake: Path, tmp_path: Path) -> None:
    with tidytape.Client.local(lake) as client:
        report.record(client, tmp_path / "a.tape")
        candles = client.candles(exchange="X", coin="BTC", interval="15m", start=START + timedelta(days=2))
    section = profiles(Answers(tmp_path / "a.tape"), "UTC")
    assert section is not None
    picture = section.parts[0]
    assert isinstance(picture, Picture)
    levels = picture.plots[0].frames[0]
    size = levels["block_size"][0]
    assert f'aggregate.candle_tpo(candles, session="daily", block_size={size:g})' in section.rule
    assert "made of candles of 15m" in section.rule
    wanted = aggregate.candle_tpo(candles, session="daily", block_size=size)
    assert levels.select("timestamp", "price", "tpo_count").equals(
        wanted.select("timestamp", "price", "tpo_count")
    )
    assert profile.value_area(levels, count="tpo_count").height == 3
    text = report.write(tmp_path / "a.tape", tmp_path / "a.html").read_text(encoding="utf-8")
    assert (
        "Left out, because the data lacks what it needs: Flow (trades with their sides, or liquidations)"
        in text
    )
    assert "1 market<" in text or "1 market\n" in text
    assert "1 markets" not in text


def test_candles_longer_than_a_time_block_make_no_profile(lake: Path, tmp_path: Path) -> None:
    with tidytape.Client.local(lake) as client:
        report.record(client, tmp_path / "a.tape", interval="1h")
    assert profiles(Answers(tmp_path / "a.tape"), "UTC") is None
    text = report.write(tmp_path / "a.tape", tmp_path / "a.html").read_text(encoding="utf-8")
    assert "Profiles (trades, or candles of 30 minutes or shorter)" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "3 of 5 days held; --start for more"),
        (["--quiet"], None),
        (["--start", "2024-08-01"], None),
    ],
)
def test_the_command_says_how_much_of_the_lake_it_shows(
    lake: Path, tmp_path: Path, words: list[str], said: str | None
) -> None:
    out = tmp_path / "mine.html"
    done = CliRunner().invoke(app, ["report", "--lake", str(lake), "--out", str(out), *words])
    assert done.exit_code == 0
    assert done.stdout.strip() == str(out)
    assert "days held" not in done.stderr if said is None else f"wrote {out}: {said}" in done.stderr
