from __future__ import annotations

from datetime import UTC, datetime, timedelta

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from matplotlib.dates import date2num
from numpy.testing import assert_allclose

import tidytape
from tidytape import plot
from tidytape.analytics import quality
from tidytape.errors import MissingColumnError, QueryError

START = datetime(2024, 8, 8, tzinfo=UTC)


def hours(*numbers):
    return [START + timedelta(hours=number) for number in numbers]


def holdings(*rows):
    """Rows of (exchange, symbol, type, tables, first, last, gaps), in hours."""
    columns = ("exchange", "raw_symbol", "type", "tables", "first", "last", "gaps")
    values = dict(zip(columns, zip(*rows, strict=True), strict=True))
    gaps = values.pop("gaps")
    return pl.DataFrame(
        {
            **{name: values[name] for name in columns[:4]},
            "category": "SPOT",
            "coin": "BTC",
            "first_timestamp": hours(*values["first"]),
            "last_timestamp": hours(*values["last"]),
            "rows": 1234,
            "gaps": [len(own) for own in gaps],
            "longest_gap": [
                max((timedelta(hours=end - start) for start, end in own), default=None) for own in gaps
            ],
            "gap_starts": [hours(*(start for start, _ in own)) for own in gaps],
            "gap_ends": [hours(*(end for _, end in own)) for own in gaps],
        },
        schema_overrides={
            "longest_gap": pl.Duration("ns"),
            **dict.fromkeys(("gap_starts", "gap_ends"), pl.List(pl.Datetime("ns", "UTC"))),
        },
    )


THREE = holdings(
    ("B", "X", "TRADE", "trades", 0, 10, [(2, 3), (5, 9)]),
    ("A", "X", "FUNDING_RATE_AGG", "funding", 1, 4, []),
    ("B", "X", "TRADE_AGG", "trades", 0, 10, [(2, 3), (5, 9)]),
)


def spans(bars):
    """Rows of (place, start, end) of rectangles, in hours."""
    return [
        (
            round(float(path.vertices[:4, 1].mean())),
            round(float(path.vertices[:4, 0].min() - date2num(START)) * 24, 6),
            round(float(path.vertices[:4, 0].max() - date2num(START)) * 24, 6),
        )
        for path in bars.get_paths()
    ]


# -- coverage


def test_a_row_has_what_is_held_and_its_gaps(ax, native):
    drawn = plot.coverage(native(THREE), ax=ax)
    assert drawn.rows == [("A X", "funding"), ("B X", "trades")]  # candles are made of the trades
    assert spans(drawn.spans) == [(0, 1, 4), (1, 0, 2), (1, 3, 5), (1, 9, 10)]
    assert spans(drawn.gaps) == [(1, 2, 3), (1, 5, 9)]
    texts = [text.get_text() for text in ax.texts]
    assert "1.23k events, 2 gaps, longest 4 h" in texts
    assert "1.23k events, no gaps" in texts
    assert ax.get_title(loc="left") == "Coverage · 2 markets"
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["funding", "trades"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row is above
    ax.figure.canvas.draw()


def test_of_many_rows_only_markets_are_named(ax):
    many = holdings(
        *((f"E{number:02}", "X", "TRADE", kind, 0, 1, []) for number in range(30) for kind in "ab")
    )
    drawn = plot.coverage(many, ax=ax)
    assert len(drawn.rows) == 60
    assert len(ax.get_yticks()) == 30
    assert drawn.gaps is None


def test_what_has_no_times_has_no_row(ax, native):
    unknown = THREE.with_columns(pl.lit(None, pl.Datetime("ns", "UTC")).alias("first_timestamp"))
    assert plot.coverage(native(unknown), ax=ax).rows == []
    assert [text.get_text() for text in ax.texts] == ["no data"]
    plain = THREE.select("exchange", "raw_symbol", "type", "first_timestamp", "last_timestamp")
    assert plot.coverage(native(plain), ax=ax).rows == [
        ("A X", "FUNDING RATE AGG"),
        ("B X", "TRADE"),
        ("B X", "TRADE AGG"),
    ]
    with pytest.raises(MissingColumnError, match="'type'"):
        plot.coverage(plain.drop("type"), ax=ax)
    with pytest.raises(QueryError, match="time zone"):
        plot.coverage(plain, timezone="Mars")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["polars", "pandas"])
def test_the_demo_is_covered(ax, backend):
    with tidytape.Client.demo(backend=backend) as client:
        drawn = plot.coverage(client.describe(exchange="DEMO_OPTIONS"), ax=ax)
    assert (
        "DEMO_OPTIONS BTC",
        "option quotes",
    ) in drawn.rows  # once, although three summaries are made of them
    assert len(drawn.rows) == len(set(drawn.rows))


# -- completeness


def counted(*rows):
    """Rows of (exchange, day, expected, present)."""
    exchange, day, expected, present = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "exchange": exchange,
            "coin": "BTC",
            "start": [START + timedelta(days=number) for number in day],
            "end": [START + timedelta(days=number + 1) for number in day],
            "expected": expected,
            "present": present,
        }
    ).with_columns(
        missing=pl.col("expected") - pl.col("present"),
        completeness=pl.when(pl.col("expected") > 0).then(pl.col("present") / pl.col("expected")),
    )


FOUR = counted(("B", 0, 10, 10), ("A", 0, 10, 9), ("A", 1, 10, 0), ("B", 1, 0, 0))


def test_a_cell_per_series_and_day(ax, native):
    drawn = plot.completeness(native(FOUR), ax=ax)
    assert drawn.rows == ["A", "B"]
    cells = dict(zip(spans(drawn.spans), drawn.spans.get_array().tolist(), strict=True))
    assert cells == {(1, 0, 24): 1.0, (0, 0, 24): 0.9, (0, 24, 48): 0.0}  # nothing is expected of B on day 1
    assert [text.get_text() for text in ax.texts] == ["45%", "100%"]
    assert ax.get_title(loc="left") == "Completeness · BTC, 2 series"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["none", "under 99%", "all"]
    ax.figure.canvas.draw()


def test_what_lacks_one_interval_is_not_complete(ax):
    drawn = plot.completeness(counted(("A", 0, 100_000, 99_999), ("B", 0, 100_000, 100_000)), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["99.9%", "100%"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["99% or more", "all"]
    colours = drawn.spans.to_rgba(drawn.spans.get_array())
    assert not np.allclose(colours[0], colours[1])


def test_hours_of_a_frame(ax, native):
    times = hours(*(step / 12 for step in range(36) if step // 12 != 1))
    frame = pl.DataFrame({"exchange": "A", "timestamp": times})
    by_hour = quality.completeness(native(frame), interval="5m", every="1h")
    assert_allclose(plot.completeness(by_hour, ax=ax).spans.get_array(), [1, 0, 1])


def test_nothing_expected_says_no_data(ax, native):
    drawn = plot.completeness(native(FOUR.clear()), ax=ax)
    assert (drawn.rows, drawn.spans) == ([], None)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    with pytest.raises(MissingColumnError, match="'completeness'"):
        plot.completeness(FOUR.drop("completeness"), ax=ax)


def test_shares_beyond_all_are_refused(ax):
    with pytest.raises(QueryError, match="shares from 0 to 1"):
        plot.completeness(FOUR.with_columns(completeness=pl.lit(99.5)), ax=ax)


def test_holdings_in_arrow_types_of_pandas_are_drawn(ax):
    unknown = pl.lit(None, pl.List(pl.Datetime("us", "UTC")))
    frame = holdings(("X", "A", "book", "book", 0, 9, [(2, 4)])).with_columns(
        gap_starts=unknown, gap_ends=unknown, gaps=pl.lit(None, pl.Int64)
    )
    assert plot.coverage(frame.to_pandas(use_pyarrow_extension_array=True), ax=ax).gaps is None


@pytest.mark.slow
def test_a_picture_of_very_many_markets_has_a_height_that_a_file_can_have():
    frame = counted(*((f"M{number}", 0, 10, 9) for number in range(5_000)))
    assert plot.completeness(frame).ax.figure.get_figheight() <= 100
    plt.close("all")
