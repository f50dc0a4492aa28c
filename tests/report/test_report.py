"""Reports: the same bytes from the same tape, nothing from outside, and the numbers of the analytics."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from math import inf, nextafter
from pathlib import Path

import matplotlib as mpl
import polars as pl
import pytest
from typer.testing import CliRunner

import tidytape
from page_reader import CHROMIUM, DRIVER, browser
from tidytape import report
from tidytape.analytics import profile
from tidytape.cli import app
from tidytape.errors import QueryError, TapeError
from tidytape.report._answers import MARKET, Answers
from tidytape.report._depth import depths
from tidytape.report._options import _chain
from tidytape.report._picture import Picture
from tidytape.report._profiles import profiles
from tidytape.report._quality import qualities
from tidytape.report._section import ReportTable
from tidytape.report._table import Shown, table

DAY = {"start": "2024-08-08", "end": "2024-08-09"}
SECTIONS = ["Markets", "Profiles", "Flow", "Funding", "Options", "Depth", "Data quality", "Manifest"]


class Page(HTMLParser):
    """What a page says: headings, cells of tables, and every address in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.cells: list[str] = []
        self.addresses: list[str] = []
        self.images: list[str] = []
        self._open: list[str] = []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.addresses += [value for name, value in attrs if name in {"src", "href"} and value]
        if tag == "img":
            self.images.append(given["alt"] or "")
        if tag not in {"meta", "img", "br", "link", "wbr"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "h2":
            self.headings.append(data)
        if self._open and self._open[-1] == "td":
            self.cells.append(data)


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    with tidytape.Client.demo() as client:
        return report.record(client, folder / "market.tape", coin="BTC", about={"seed": 7}, **DAY)


@pytest.fixture(scope="module")
def page(tape: Path) -> Page:
    return Page(report.write(tape, tape.parent / "report.html"))


@pytest.mark.slow
def test_every_section_stands_on_the_page_with_a_picture_or_a_table(page: Page) -> None:
    assert page.headings == SECTIONS
    assert len(page.images) >= len(SECTIONS) - 2
    assert all(text.endswith(".") for text in page.images)


@pytest.mark.slow
def test_the_page_needs_nothing_from_outside(page: Page) -> None:
    assert all(address.startswith(("data:", "#")) for address in page.addresses)
    assert not re.findall(r"url\(|@import|<script|<link", page.text)
    assert len(page.text) < 3_000_000


@pytest.mark.slow
def test_the_same_tape_gives_the_same_bytes_elsewhere_and_later(
    tape: Path, page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = shutil.copytree(tape, tmp_path / "elsewhere.tape")
    monkeypatch.chdir(tmp_path)
    with mpl.rc_context(
        {"axes.facecolor": "black", "figure.dpi": 30}
    ):  # the user's own style has no part in it
        again = report.write(moved, "report.html")
        assert mpl.rcParams["figure.dpi"] == 30
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(page.text.encode()).digest()


@pytest.mark.slow
def test_the_last_bit_of_a_number_does_not_decide_what_a_table_shows() -> None:
    for style in ("number", "amount", "percent", "points"):
        for tie in (42.825, 0.42825, 1_000.125, 0.0312345):
            shown = {
                table(pl.DataFrame({"size": [value]}), {"size": Shown("Size", style)}, "One row.").html
                for value in (nextafter(tie, 0), tie, nextafter(tie, inf))
            }
            assert len(shown) == 1


@pytest.mark.slow
def test_the_value_area_is_that_of_the_analytics(tape: Path, page: Page) -> None:
    with tidytape.Client.replay(tape) as client:
        exchanges = sorted(set(client.describe(coin="BTC").filter(type="VOLUME_PROFILE_AGG")["exchange"]))
        levels = client.volume_profile(exchange=exchanges, coin="BTC", interval="1d", **DAY)
    area = profile.value_area(levels).filter(exchange="DEMO_SPOT", raw_symbol="BTCUSDT").row(0, named=True)
    at = page.cells.index("2024-08-08 00:00")
    rows = [page.cells[index : index + 7] for index in range(at, len(page.cells))]
    (row,) = [one for one in rows if one[0] == "2024-08-08 00:00" and one[1:3] == ["DEMO_SPOT", "BTCUSDT"]][
        :1
    ]
    shown = [float(cell.replace(",", "")) for cell in row[3:6]]
    assert shown == pytest.approx([area["val"], area["poc"], area["vah"]], rel=1e-5)


@pytest.mark.slow
def test_shares_of_open_interest_are_of_the_coin(tape: Path, page: Page) -> None:
    answers = Answers(tape)
    rates, interest = answers.points("FUNDING_RATE_AGG"), answers.points("OPEN_INTEREST_AGG")
    assert rates is not None
    assert interest is not None
    last = interest.frame.group_by(MARKET, maintain_order=True).last()
    paying = last.join(rates.frame, on=MARKET, how="semi")
    assert paying["coin"].n_unique() == 1
    total = sum(paying["close"])
    for market in paying.iter_rows(named=True):
        at = page.text.index("of the open interest</span>")
        row = next(
            row
            for row in re.findall(r"<tr>.*?</tr>", page.text[at:], re.DOTALL)
            if f">{market['exchange']}<" in row and f">{market['raw_symbol']}<" in row
        )
        assert f">{market['close'] / total:.2%}</td>" in row


@pytest.mark.slow
def test_the_manifest_has_every_answer_and_what_is_known_of_the_study(tape: Path, page: Page) -> None:
    entries = tidytape.client._tape.entries(tape)
    assert all(entry.hash in page.text for entry in entries)
    assert "<dt>Seed</dt><dd>7</dd>" in page.text
    assert "Simulated data" in page.text


@pytest.mark.slow
def test_a_study_of_ones_own_gets_the_sections_that_it_has_answers_for(tmp_path: Path) -> None:
    asked = {"exchange": "DEMO_SPOT", "coin": "BTC", **DAY}
    with tidytape.Client.demo() as client, client.record(tmp_path / "study.tape"):
        client.candles(interval="4h", **asked)
        client.candles(interval="1h", **asked)
        client.markets()
    written = Page(report.write(tmp_path / "study.tape", tmp_path / "study.html", title="A <study>"))
    again = report.write(tmp_path / "study.tape", tmp_path / "again.html", title="A <study>")
    assert again.read_text(encoding="utf-8") == written.text
    assert written.headings == ["Markets", "Profiles", "Data quality", "Manifest"]
    assert "A &lt;study&gt;" in written.text
    assert "candles of 1h" in written.text  # those with the most rows
    assert written.text.count("(not drawn)") == 2
    assert (
        "lacks what it needs: Flow (trades with their sides, liquidations, or open interest); Funding ("
        in written.text
    )  # and says what it lacks


@pytest.mark.slow
def test_answers_that_overlap_are_drawn_once(tmp_path: Path) -> None:
    asked = {"exchange": "DEMO_SPOT", "coin": "BTC", "interval": "1h"}
    with tidytape.Client.demo() as client, client.record(tmp_path / "study.tape"):
        client.candles(start="2024-08-07", end="2024-08-08T12:00", **asked)
        client.candles(start="2024-08-08", end="2024-08-09", **asked)
    answers = report._answers.Answers(tmp_path / "study.tape")
    points = answers.points("TRADE_SIDE_AGNOSTIC_AGG")
    assert points is not None
    assert points.frame.height == 48
    assert points.frame["timestamp"].is_unique().all()
    assert points.entries == (1, 2)


@pytest.mark.slow
def test_pictures_of_a_thousand_markets_show_the_worst_of_them(tmp_path: Path) -> None:
    with tidytape.Client.demo() as client, client.record(tmp_path / "study.tape"):
        client.candles(exchange="DEMO_SPOT", coin="BTC", interval="4h", **DAY)
    answers = Answers(tmp_path / "study.tape")
    points = answers.points("TRADE_SIDE_AGNOSTIC_AGG")
    assert points is not None
    names = pl.DataFrame({"raw_symbol": [f"S{number:04}" for number in range(1_000)]})
    many = points.frame.drop("raw_symbol").join(names, how="cross").select(points.frame.columns)
    lost = many.filter(~((pl.col("raw_symbol") == "S0777") & (pl.col("timestamp").dt.hour() == 8)))
    answers._points["TRADE_SIDE_AGNOSTIC_AGG"] = replace(points, frame=lost.sort(*MARKET, "timestamp"))
    section = qualities(answers, "UTC")
    assert section is not None
    picture = section.parts[0]
    assert isinstance(picture, Picture)
    assert "60 of 1,000 markets" in picture.text
    assert picture.height < 15
    assert "S0777" in picture.plots[0].frames[0]["raw_symbol"].cast(pl.String)


@pytest.mark.slow
def test_summaries_of_a_service_make_the_section_about_options(tmp_path: Path) -> None:
    """A client of a service gets no chains, so its report has volatility and skew over time alone."""
    asked = {"exchange": "DEMO_OPTIONS", "coin": "BTC", "interval": "1h", **DAY}
    with tidytape.Client.demo() as client, client.record(tmp_path / "study.tape"):
        volatility = pl.concat(
            client.implied_volatility(raw_symbol="BTC_ATM", tenor=tenor, **asked) for tenor in ("1m", "1w")
        )
        client.skew(raw_symbol="BTC_25", tenor="1w", **asked)
    written = Page(report.write(tmp_path / "study.tape", tmp_path / "study.html"))
    assert written.headings == ["Options", "Manifest"]
    assert [text.rsplit(":", 1)[0] for text in written.images] == [
        "DEMO_OPTIONS BTC_ATM", "DEMO_OPTIONS BTC_ATM", "DEMO_OPTIONS BTC_25",
    ]  # fmt: skip
    at = written.cells.index("1w")
    week = volatility.filter(tenor="ONE_W")["implied_volatility"]
    change = f"{week[-1] - week[0]:.2f}".replace("-", "\N{MINUS SIGN}")
    assert written.cells[at : at + 6] == [
        "1w", "7", f"{week[-1]:.2f}", change, f"{week.min():.2f}", f"{week.max():.2f}",
    ]  # fmt: skip
    assert written.cells[at + 6] == "1m"  # by days, not by name
    assert "risk reversal is" not in written.text


@pytest.mark.slow
def test_the_chain_of_a_coin_is_the_newest_that_it_has() -> None:
    with tidytape.Client.demo() as client:
        hour = {"start": "2024-08-08T12:00Z", "end": "2024-08-08T14:00Z"}
        coins = {coin: client.events("option_quotes", coin=coin, **hour) for coin in ("BTC", "ETH")}
    first = coins["BTC"]["timestamp"].min()
    chains = pl.concat(
        [coins["BTC"].filter(timestamp=first), coins["ETH"].filter(pl.col("timestamp") > first).head(3)]
    )
    assert chains["coin"].mode().to_list() == ["BTC"]
    text = _chain(chains, "UTC")[0].text
    assert text.startswith("Volatility by strike of BTC at 2024-08-08 12:00 UTC")


@pytest.mark.slow
def test_quotes_that_come_one_by_one_make_a_chain_of_the_last_of_each_option() -> None:
    with tidytape.Client.demo() as client:
        hour = {"start": "2024-08-08T12:00Z", "end": "2024-08-08T13:00Z"}
        chain = client.events("option_quotes", coin="BTC", **hour)
    ticks = chain.with_columns(pl.col("timestamp") + pl.int_range(pl.len()) * pl.duration(milliseconds=100))
    other = ticks.head(5).with_columns(exchange=pl.lit("OTHER"))  # a smile is of one exchange
    (rows,) = [part for part in _chain(pl.concat([ticks, other]), "UTC") if isinstance(part, ReportTable)]
    (whole,) = [part for part in _chain(chain, "UTC") if isinstance(part, ReportTable)]
    values = [re.findall(r"<td[^>]*>([\d.]+)</td>", table.html) for table in (rows, whole)]
    assert len(values[0]) == len(values[1]) > 30


def _about_a_day(tape: Path, *asks: Callable[[tidytape.Client], object]) -> Path:
    with tidytape.Client.demo() as client, client.record(tape):
        for ask in asks:
            ask(client)
    return tape


PERP = {"exchange": "DEMO_PERP", "coin": "BTC", "interval": "1h", **DAY}


@pytest.mark.slow
def test_amounts_in_dollars_say_so_and_books_in_dollars_are_left_out(tmp_path: Path) -> None:
    study = _about_a_day(
        tmp_path / "study.tape",
        lambda client: client.candles(quote="USD", **PERP),
        lambda client: client.funding(**PERP),
        lambda client: client.open_interest(quote="USD", **PERP),
        lambda client: client.book_heatmap(quote="USD", **PERP),
    )
    written = Page(report.write(study, tmp_path / "report.html"))
    assert written.headings == ["Markets", "Profiles", "Flow", "Funding", "Data quality", "Manifest"]
    assert re.findall(r">(Volume|Open interest)<br><span class='unit'>(\w+)<", written.text) == [
        ("Volume", "USD"), ("Open interest", "USD"),
    ]  # fmt: skip
    assert "Depth (order books, with sizes in coins)" in written.text


@pytest.mark.slow
def test_a_study_of_market_profiles_alone_shows_them_and_not_those_of_candles(tmp_path: Path) -> None:
    study = _about_a_day(
        tmp_path / "study.tape",
        lambda client: client.candles(**PERP),
        lambda client: client.tpo(
            session="daily", exchange="DEMO_PERP", coin="BTC", start="2024-08-08", end="2024-08-08T15:00Z"
        ),
    )
    answers = Answers(study)
    points = answers.points("TPO_AGG")
    section = profiles(answers, "UTC")
    assert section is not None
    assert points is not None
    assert section.entries == points.entries == (2,)
    picture, areas = section.parts
    assert isinstance(picture, Picture)
    assert isinstance(areas, ReportTable)
    # The service returned the whole day, although the window ends within it.
    assert areas.text.endswith("Prices are in the quote of the market.")
    assert picture.plots[0].frames[0].equals(points.frame)
    (wanted,) = profile.value_area(points.frame, count="tpo_count").iter_rows(named=True)
    shown = [value.replace(",", "") for value in re.findall(r"<td[^>]*>([^<]*)</td>", areas.html)]
    assert [float(value) for value in shown[3:6]] == [wanted["val"], wanted["poc"], wanted["vah"]]
    assert shown[6] == f"{wanted['value_area_share']:.2%}"


@pytest.mark.slow
def test_one_side_is_not_shown_as_the_whole(tmp_path: Path) -> None:
    study = _about_a_day(
        tmp_path / "study.tape",
        lambda client: client.candles(side="BUY", **PERP),
        lambda client: client.liquidations(side="BUY", **PERP),
        lambda client: client.liquidations(**PERP | {"interval": "4h"}),
    )
    answers = Answers(study)
    assert answers.points("TRADE_AGG") is None
    points = answers.points("LIQUIDATION_AGG")
    assert points is not None
    assert points.entries == (3,)


@pytest.mark.slow
@pytest.mark.parametrize("size", [None, 0.0, float("nan"), 1e-7])
def test_books_without_sizes_have_no_section(tape: Path, size: float | None) -> None:
    answers = Answers(tape)
    books = answers.points("BLOCK_BOOK_SNAPSHOT_AGG")
    assert books is not None
    frame = books.frame.with_columns(size=pl.lit(size, pl.Float64))
    answers._points["BLOCK_BOOK_SNAPSHOT_AGG"] = replace(books, frame=frame)
    assert (depths(answers, "UTC") is None) == (size != 1e-7)


@pytest.mark.slow
def test_a_study_hides_no_fact_of_the_manifest_and_a_device_is_no_file(tmp_path: Path) -> None:
    study = tmp_path / "study.tape"
    about = {"recorded": "by somebody else", "title of BTC": 3}
    with tidytape.Client.demo() as client, client.record(study, about=about):
        client.candles(**PERP)
    text = report.write(study, tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.search(r"<dt>Recorded</dt><dd>20\d\d-", text)
    assert "<dt>Recorded (of the study)</dt><dd>by somebody else</dd>" in text
    assert "<dt>Title of BTC</dt><dd>3</dd>" in text
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(QueryError, match="a file in a folder that exists"):
        report.write(study, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.slow
def test_findings_of_books_name_the_side(tape: Path) -> None:
    answers = Answers(tape)
    books = answers.points("BLOCK_BOOK_SNAPSHOT_AGG")
    assert books is not None
    times = books.frame["timestamp"].unique().sort()
    holed = books.frame.filter(~((pl.col("timestamp") == times[3]) & (pl.col("side") == "BID")))
    answers._points["BLOCK_BOOK_SNAPSHOT_AGG"] = replace(books, frame=holed)
    section = qualities(answers, "UTC")
    assert section is not None
    findings = section.parts[-1]
    assert isinstance(findings, ReportTable)
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in findings.html.split("<tr>")]
    found = [row for row in rows if row[1:3] == ["missing_bucket", "BLOCK_BOOK_SNAPSHOT_AGG"]]
    assert found
    assert {row[5] for row in found} == {"BID"}


@pytest.mark.slow
def test_settled_rates_every_few_hours_have_gaps_only_where_one_is_missing(tape: Path) -> None:
    answers = Answers(tape)
    rates = answers.points("FUNDING_RATE_AGG")
    assert rates is not None
    hour = pl.col("timestamp").dt.hour()
    seldom = pl.col("exchange") == rates.frame["exchange"][0]
    settled = rates.frame.filter(~seldom | ((hour % 4 == 0) & (hour != 12)))
    answers._points["FUNDING_RATE_AGG"] = replace(rates, frame=settled)
    section = qualities(answers, "UTC")
    assert section is not None
    gaps, findings = section.parts[-2:]
    assert isinstance(gaps, ReportTable)
    assert isinstance(findings, ReportTable)
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in gaps.html.split("<tr>")]
    of_rates = [row[3:] for row in rows if row[:1] == ["FUNDING_RATE_AGG"]]
    assert of_rates == [["2024-08-08 12:00", "2024-08-08 16:00", "1"]]
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in findings.html.split("<tr>")]
    counts = [row[-3] for row in rows if row[1:3] == ["missing_bucket", "FUNDING_RATE_AGG"]]
    assert counts == ["1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda frame: frame.drop("open"), "it has no column 'open'"),
        (lambda frame: frame.with_columns(pl.col("timestamp").cast(pl.String)), "TRADE_SIDE_AGNOSTIC_AGG"),
        (lambda frame: frame.with_columns(pl.col("close").cast(pl.String) + "x"), "TRADE_SIDE_AGNOSTIC_AGG"),
        (lambda frame: frame.with_columns(timestamp=frame["timestamp"].shift(1)), "a point has no time"),
        (lambda frame: frame.clear().select(), "it has no column"),
    ],
    ids=["no column", "times are text", "prices are text", "no time", "empty"],
)
def test_a_tape_that_somebody_wrote_by_hand_names_the_entry_that_is_wrong(
    tmp_path: Path, damage: Callable[[pl.DataFrame], pl.DataFrame], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tidytape.Client.demo() as client, client.record(tmp_path / "study.tape"):
        client.candles(exchange="DEMO_SPOT", coin="BTC", interval="1h", **DAY)
    frame_of = report._answers.frame_of
    # Hashes of such a tape are right: it is as if it had been recorded so.
    monkeypatch.setattr(report._answers, "frame_of", lambda entry: damage(frame_of(entry)))
    with pytest.raises(TapeError, match=f"entry 1 is damaged: .*{said}") as raised:
        report.write(tmp_path / "study.tape", tmp_path / "report.html")
    assert raised.value.entries == (1,)


@pytest.mark.slow
@pytest.mark.parametrize("params", [[["type", 1]], [["type"]], [["type", "TRADE", "x"]], [5], None])
def test_a_query_that_nobody_could_ask_names_its_entry(tmp_path: Path, params: object) -> None:
    with tidytape.Client.demo() as client, client.record(tmp_path / "study.tape"):
        client.candles(exchange="DEMO_SPOT", coin="BTC", interval="1h", **DAY)
    answers = Answers(tmp_path / "study.tape")
    answers.contents.answers[0].ask["params"] = params
    with pytest.raises(TapeError, match="entry 1 is damaged: its query cannot be read"):
        answers.points("TRADE_SIDE_AGNOSTIC_AGG")


@pytest.mark.slow
def test_what_cannot_be_a_report_is_refused_and_writes_nothing(tape: Path, tmp_path: Path) -> None:
    with tidytape.Client.demo() as client, client.record(tmp_path / "empty.tape"):
        client.coins()
    out = tmp_path / "report.html"
    with pytest.raises(TapeError, match="has no answer that a report shows"):
        report.write(tmp_path / "empty.tape", out)
    with pytest.raises(TapeError, match="cannot be read"):
        report.write(tmp_path / "absent.tape", out)
    with pytest.raises(QueryError, match="a file in a folder that exists"):
        report.write(tape, tmp_path / "absent" / "report.html")
    with pytest.raises(QueryError, match="timezone"):
        report.write(tape, out, timezone="Mars/Olympus")
    with pytest.raises(QueryError, match="outside of the tape"):
        report.write(tape, tape / "manifest.jsonl")  # which would be lost
    damaged = shutil.copytree(tape, tmp_path / "damaged.tape")
    manifest = damaged / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes()[:-200])
    with pytest.raises(TapeError, match="a tape that is whole"):
        report.write(damaged, out)
    assert not out.exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "parameter"),
    [
        ({"start": "2024-08-09", "end": "2024-08-08"}, "end"),
        ({"exchange": "NOWHERE"}, "exchange"),
        ({"coin": "NOTHING"}, "coin"),
        ({"interval": "7m"}, "interval"),
        ({"start": "2020-01-01", "end": "2020-01-02"}, "start"),
    ],
)
def test_a_recording_that_cannot_be_right_is_refused(
    tmp_path: Path, asked: dict[str, str], parameter: str
) -> None:
    with tidytape.Client.demo() as client, pytest.raises(QueryError) as raised:
        report.record(client, tmp_path / "market.tape", **asked)
    assert raised.value.parameter == parameter


@pytest.mark.slow
def test_what_was_fetched_is_counted(tape: Path) -> None:
    fetched = report.fetched(tape)
    candles = fetched.filter(type="TRADE_SIDE_AGNOSTIC_AGG").row(0, named=True)
    with tidytape.Client.replay(tape) as client:
        held = client.describe(coin="BTC").filter(type="TRADE_SIDE_AGNOSTIC_AGG")
    assert candles["series"] == held.height
    assert candles["rows"] > 90 * held.height * 0.5
    assert fetched["weight"].sum() > 10
    assert fetched.schema["seconds"] == pl.Float64


# --- the command ---


@pytest.mark.long
def test_the_command_writes_the_same_report_again_from_its_tape(
    tape: Path, page: Page, tmp_path: Path
) -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["report", "--tape", str(tape), "--out", str(tmp_path / "again.html")])
    assert done.exit_code == 0
    assert done.stdout.strip() == str(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page.text


@pytest.mark.slow
def test_the_command_refuses_a_question_beside_a_tape(tape: Path, tmp_path: Path) -> None:
    words = ["report", "--tape", str(tape), "--out", str(tmp_path / "again.html"), "--coin", "BTC"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, QueryError)
    assert done.exception.parameter == "coin"


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")
@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_fits_a_telephone_and_a_desk(page: Page, tape: Path, tmp_path: Path, width: int) -> None:
    with browser(tmp_path) as driver:
        # A window is never as narrow as a telephone, so the size is that of a device.
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(f"file://{tape.parent / 'report.html'}")
        wide, shown, broken = driver.execute_script(
            "const root = document.documentElement;"
            "const broken = [...document.images].filter(one => !one.complete || !one.naturalWidth);"
            "return [root.scrollWidth, root.clientWidth, broken.length]"
        )
        assert width - 20 <= shown <= width  # a scroll bar
        assert wide <= shown
        assert broken == 0
        assert [line for line in driver.get_log("browser") if line["level"] == "SEVERE"] == []
