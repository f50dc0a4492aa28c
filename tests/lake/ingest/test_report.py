"""What an ingest says of itself."""

from __future__ import annotations

from tidytape.lake import TABLES
from tidytape.lake.ingest import FileReport, IngestReport, TableCount
from tidytape.lake.tables import FUNDING, OPEN_INTEREST, TRADES


def test_counts_of_any_table_are_told_in_words():
    file = FileReport(
        "x",
        counts=(
            TableCount("trades", 9757, 9700),
            TableCount("open_interest", 12, 10, 2),
            TableCount("funding", 1, 1),
        ),
    )
    assert str(file) == (
        "x: 9,757 trades, 9,700 of them new, 12 open interest reports, 10 of them new, 2 superseded, 1 funding report"
    )
    assert str(FileReport("x")) == "x: no events"
    assert str(FileReport("x", already_ingested=True)) == "x: already in the lake"


def test_the_old_names_are_views_of_the_counts():
    files = tuple(
        FileReport(
            name,
            counts=(TableCount("trades", 3, 2), TableCount("book", 5, 5), TableCount("option_quotes", 7, 1)),
        )
        for name in "ab"
    )
    whole = IngestReport(files, ())
    for report, times in ((files[0], 1), (whole, 2)):
        assert (report.trades_read, report.trades_new) == (3 * times, 2 * times)
        assert (report.book_rows_read, report.book_rows_new) == (5 * times, 5 * times)
        assert (report.quotes_read, report.quotes_new) == (7 * times, times)
        assert report.count(OPEN_INTEREST) == TableCount("open_interest")
        assert report.count(TRADES).new == 2 * times
    assert whole.superseded == 0
    assert whole.count(FUNDING).read == 0


def test_every_table_of_events_can_be_told():
    for name in TABLES:
        assert str(TableCount(name, 1, 1)).startswith("1 ")
