"""The report of a lake that holds candles alone: profiles made of them, and what is left out and why."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tidytape
from lakes import empty_lake
from tidytape import aggregate, report
from tidytape.analytics import profile
from tidytape.cli import app
from tidytape.errors import QueryError
from tidytape.lake.ingest import Csv, Market, ingest
from tidytape.report._answers import Answers
from tidytape.report._overview import overview
from tidytape.report._picture import Picture
from tidytape.report._profiles import profiles
from tidytape.report._section import ReportTable, Section

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
    made = empty_lake(folder / "lake")
    ingest(
        folder / "bars.csv",
        made,
        Csv(table="candles", interval="15m"),
        market=Market(exchange="X", raw_symbol="BTC-USD"),
    )
    return folder / "lake"


@pytest.mark.slow
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
    assert (
        f'aggregate.candle_tpo(candles, period="daily", block_size={size:g}, block_minutes=30)'
        in section.rule
    )
    assert "made of candles of 15m" in section.rule
    wanted = aggregate.candle_tpo(candles, period="daily", block_size=size)
    assert levels.select("timestamp", "price", "tpo_count").equals(
        wanted.select("timestamp", "price", "tpo_count")
    )
    assert profile.value_area(levels, count="tpo_count").height == 3
    text = report.write(tmp_path / "a.tape", tmp_path / "a.html").read_text(encoding="utf-8")
    assert (
        "Left out, because the data lacks what it needs: Flow (trades with their sides, liquidations, or open interest)"
        in text
    )
    assert "1 market<" in text or "1 market\n" in text
    assert "1 markets" not in text


@pytest.mark.slow
def test_a_session_that_the_window_cuts_is_not_shown_as_a_whole_one(lake: Path, tmp_path: Path) -> None:
    with tidytape.Client.local(lake) as client:
        report.record(client, tmp_path / "a.tape", start="2024-08-02T16:00Z", end="2024-08-05T15:00Z")
        report.record(client, tmp_path / "b.tape", start="2024-08-02T16:00Z", end="2024-08-02T20:00Z")
    section = profiles(Answers(tmp_path / "a.tape"), "UTC")
    assert section is not None
    assert [row["Session UTC"] for row in _rows(section)] == [f"2024-08-0{day} 00:00" for day in (3, 4, 5)]
    areas = section.parts[1]
    assert isinstance(areas, ReportTable)
    assert areas.text.endswith(" The last session is not over: the window ends at 2024-08-05 15:00 UTC.")
    part = profiles(Answers(tmp_path / "b.tape"), "UTC")
    assert part is not None
    assert isinstance(part.parts[1], ReportTable)
    assert " The window begins within the first session, at 2024-08-02 16:00 UTC." in part.parts[1].text


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "minutes"), [("1h", 60), ("4h", 240)])
def test_longer_candles_take_longer_time_blocks(
    lake: Path, tmp_path: Path, interval: str, minutes: int
) -> None:
    with tidytape.Client.local(lake) as client:
        report.record(client, tmp_path / "a.tape", interval=interval)
    section = profiles(Answers(tmp_path / "a.tape"), "UTC")
    assert section is not None
    assert f"block_minutes={minutes})" in section.rule


@pytest.mark.slow
def test_candles_longer_than_every_time_block_make_no_profile(lake: Path, tmp_path: Path) -> None:
    with tidytape.Client.local(lake) as client:
        report.record(client, tmp_path / "a.tape", interval="1d")
    assert profiles(Answers(tmp_path / "a.tape"), "UTC") is None
    text = report.write(tmp_path / "a.tape", tmp_path / "a.html").read_text(encoding="utf-8")
    assert "Profiles (trades, or candles of 4 hours or shorter)" in text


@pytest.mark.slow
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


@pytest.fixture(scope="module")
def hourly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with hourly candles of two years whose moves are all of one size: 1%, up and down."""
    folder = tmp_path_factory.mktemp("hourly")
    hour = pl.int_range(730 * 24, eager=True)
    close = 100 * 1.01 ** (hour % 2)
    bars = pl.DataFrame({"timestamp": hour * 3_600 + int(START.timestamp()), "close": close})
    opened = pl.col("close").shift(1, fill_value=101.0)
    bars = bars.with_columns(open=opened, volume=pl.lit(2.0)).with_columns(
        high=pl.max_horizontal("open", "close"), low=pl.min_horizontal("open", "close")
    )
    bars.write_csv(folder / "bars.csv")
    ingest(
        folder / "bars.csv",
        empty_lake(folder / "lake"),
        Csv(table="candles", interval="1h"),
        market=Market(exchange="X", raw_symbol="BTC-USD"),
    )
    return folder / "lake"


@pytest.mark.slow
@pytest.mark.parametrize(("start", "interval"), [(None, "1h"), ("2026-07-10", "1h"), ("2024-08-01", "1w")])
def test_the_interval_is_the_shortest_that_the_lake_has(
    hourly: Path, tmp_path: Path, start: str | None, interval: str
) -> None:
    with tidytape.Client.local(hourly) as client:
        report.record(client, tmp_path / "a.tape", start=start)
    points = Answers(tmp_path / "a.tape").points("TRADE_SIDE_AGNOSTIC_AGG")
    assert points is not None
    assert points.interval == interval
    with tidytape.Client.local(hourly) as client, pytest.raises(QueryError, match="interval"):
        report.record(client, tmp_path / "b.tape", start=start, interval="15m")


@pytest.mark.slow
def test_volatility_is_that_of_the_window_and_of_enough_candles(hourly: Path, tmp_path: Path) -> None:
    with tidytape.Client.local(hourly) as client:
        report.record(client, tmp_path / "a.tape", interval="1h", start="2026-07-10")
        report.record(client, tmp_path / "b.tape", interval="1d", start="2026-07-20")
    section = overview(Answers(tmp_path / "a.tape"), "UTC")
    assert section is not None
    (row,) = _rows(section)
    days = (datetime(2026, 8, 1, tzinfo=UTC) - datetime(2026, 7, 10, tzinfo=UTC)).days
    returns = 24 * days - 1
    deviation = np.std([(-1) ** hour * math.log(1.01) for hour in range(returns)], ddof=1)
    wanted = 100 * deviation * math.sqrt(365 * 24)
    assert float(row["Volatility % per year"]) == pytest.approx(wanted, abs=0.01)
    moves = math.log(float(row["Last"]) / float(row["First"])) / (deviation * math.sqrt(returns))
    assert float(row["Change σ"].replace("\N{MINUS SIGN}", "-")) == pytest.approx(moves, abs=0.01)
    few = overview(Answers(tmp_path / "b.tape"), "UTC")
    assert few is not None
    assert _rows(few)[0]["Volatility % per year"] == "–"  # of 12 days nobody knows


def _rows(section: Section) -> list[dict[str, str]]:
    """Return the rows of the first table, by their labels."""
    table = next(part for part in section.parts if isinstance(part, ReportTable))
    heads = [
        re.sub(r"<br>|<[^>]*>|&nbsp;", " ", head).strip()
        for head in re.findall(r"<th[^>]*>(.*?)</th>", table.html, re.DOTALL)
    ]
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in table.html.split("<tr>")]
    return [dict(zip([" ".join(head.split()) for head in heads], row, strict=True)) for row in rows if row]


def _hours_of(folder: Path, markets: dict[str, pl.DataFrame]) -> dict[str, dict[str, str]]:
    """Return the row of each market in the report of a lake of hourly candles, which have ``hour``, open and close."""
    start = int(datetime(2026, 7, 10, tzinfo=UTC).timestamp())
    lake = empty_lake(folder / "lake")
    for symbol, hours in markets.items():
        hours.select(
            "open",
            "close",
            timestamp=start + 3_600 * pl.col("hour"),
            high=pl.max_horizontal("open", "close"),
            low=pl.min_horizontal("open", "close"),
            volume=pl.lit(1.0),
        ).write_csv(folder / f"{symbol}.csv")
        market = Market(exchange="X", raw_symbol=symbol)
        ingest(folder / f"{symbol}.csv", lake, Csv(table="candles", interval="1h"), market=market)
    with tidytape.Client.local(folder / "lake") as client:
        report.record(client, folder / "a.tape", interval="1h", start="2026-07-10")
    section = overview(Answers(folder / "a.tape"), "UTC")
    assert section is not None
    return {row["Symbol"]: row for row in _rows(section)}


@pytest.mark.slow
def test_a_gap_is_no_return_and_a_market_that_closes_has_a_volatility(tmp_path: Path) -> None:
    hours = np.arange(4 * 24)
    is_open = (hours % 24 >= 8) & (hours % 24 < 17)
    # It doubles and more while the market is closed.
    close = np.where(hours % 2, 101.0, 100.0) * (1 + hours // 24)
    bars = pl.DataFrame({"hour": hours, "open": close, "close": close})
    row = _hours_of(tmp_path, {"OPEN-USD": bars, "SHUT-USD": bars.filter(is_open)})["SHUT-USD"]
    returns = np.log(close[1:] / close[:-1])[is_open[1:] & is_open[:-1]]
    assert returns.size == 4 * 8
    wanted = returns.std(ddof=1) * math.sqrt(returns.size / 4 * 365) * 100  # of a window of four days
    assert float(row["Volatility % per year"]) == pytest.approx(wanted, abs=0.01)
    usual_move = returns.std(ddof=1) * math.sqrt(returns.size)
    change = math.log(close[is_open][-1] / close[is_open][0])
    assert float(row["Change σ"]) == pytest.approx(change / usual_move, abs=0.01)


@pytest.mark.slow
def test_prices_that_stand_still_have_no_change_in_sigma(tmp_path: Path) -> None:
    hours = np.arange(48)
    moving = np.where(hours % 2, 101.0, 100.0)
    still = np.where(hours == 0, 0.98, 1.0)  # but for the first open
    markets = {
        "STILL-USD": pl.DataFrame({"hour": hours, "open": still, "close": np.ones(48)}),
        "MOVE-USD": pl.DataFrame({"hour": hours, "open": moving, "close": moving}),
    }
    rows = _hours_of(tmp_path, markets)
    assert (rows["STILL-USD"]["Change"], rows["STILL-USD"]["Change σ"]) == ("2.04%", "–")
    assert rows["MOVE-USD"]["Change"] == "1.00%"


@pytest.mark.slow
def test_a_short_recording_gives_a_report_of_its_span_and_shares_as_wide_as_the_hour(tmp_path: Path) -> None:
    start = int(datetime(2026, 7, 10, 9, tzinfo=UTC).timestamp())
    minute = pl.int_range(40, eager=True)
    price = 100.0 + minute % 3
    bars = pl.DataFrame(
        {"timestamp": start + 60 * minute, "open": price, "high": price, "low": price, "close": price}
    )
    lake = empty_lake(tmp_path / "lake")
    for symbol in ("BTC-USD", "BTC-USDT"):
        bars.with_columns(volume=pl.lit(2.0)).write_csv(tmp_path / f"{symbol}.csv")
        market = Market(exchange="X", raw_symbol=symbol)
        ingest(tmp_path / f"{symbol}.csv", lake, Csv(table="candles", interval="1m"), market=market)
    with tidytape.Client.local(tmp_path / "lake") as client:
        report.record(client, tmp_path / "a.tape")
    answers = Answers(tmp_path / "a.tape")
    candles = answers.points("TRADE_SIDE_AGNOSTIC_AGG")
    assert candles is not None
    assert candles.interval == "1m"  # of three days it would be longer
    assert candles.query_window[0] == datetime(2026, 7, 10, 9, tzinfo=UTC)
    section = overview(answers, "UTC")
    assert section is not None
    shares = next(
        plot
        for part in section.parts
        if isinstance(part, Picture)
        for plot in part.plots
        if plot.name == "market_share"
    )
    assert shares.frames[0]["interval"].unique().to_list() == ["1h"]
