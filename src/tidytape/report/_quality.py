"""The section about data quality: missing intervals, and values that cannot be right."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from tidytape.analytics import quality
from tidytape.report._answers import MARKET, Answers, Points
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import ReportTable, Section
from tidytape.report._table import Shown, table
from tidytape.times import interval_of

_CHECKED = ("TRADE_SIDE_AGNOSTIC_AGG", "OPEN_INTEREST_AGG", "FUNDING_RATE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG")

_MOST_MARKETS = 60
"""The largest number of markets that a picture shows."""


def qualities(answers: Answers, timezone: str) -> Section | None:
    """Return gaps and findings of the data types that have a row per interval."""
    points_by_type = {name: points for name in _CHECKED if (points := answers.points(name))}
    if not points_by_type:
        return None
    parts_by_type = [
        (name, *part) for name, points in points_by_type.items() for part in _equally_often(points)
    ]
    gaps = [
        quality.gaps(frame, interval=step).with_columns(type=pl.lit(name))
        for name, frame, step in parts_by_type
        if name != "BLOCK_BOOK_SNAPSHOT_AGG"
    ]
    columns = ["type", *MARKET]
    all_gaps = pl.concat([gap.select(*columns, "start", "end", "missing") for gap in gaps] or [_NO_GAPS])
    audits = [
        quality.audit(frame, interval=step).with_columns(type=pl.lit(name))
        for name, frame, step in parts_by_type
    ]
    findings = pl.concat(
        [
            audit.select(*columns, _side(audit), "finding", "severity", "count", "first", "last")
            for audit in audits
        ]
    )
    parts: list[Picture | ReportTable] = []
    entries = tuple(entry for points in points_by_type.values() for entry in points.entries)
    candles = points_by_type.get("TRADE_SIDE_AGNOSTIC_AGG")
    if candles is not None:
        first, last = candles.window
        every = max("1h", candles.interval, key=lambda alias: interval_of(alias).seconds)
        hours = quality.completeness(candles.frame, every=every, start=first, end=last + candles.length)
        overall = quality.completeness(candles.frame, start=first, end=last + candles.length)
        hours, row_count, note = _few(
            hours, overall.sort("completeness", *MARKET), "those with the fewest candles"
        )
        text = f"Which share of the candles of {candles.interval} each market has, per {every}{note}."
        parts.append(
            Picture.of(text, 1.6 + 0.2 * row_count, Plot.of("completeness", hours, timezone=timezone))
        )
    holdings = answers.holdings()
    if holdings is not None:
        entries += holdings[1]
        by_gap = holdings[0].sort(
            "longest_gap", *MARKET, descending=[True, False, False], nulls_last=[True, False, False]
        )
        few, _, note = _few(holdings[0], by_gap, "those with the longest gaps")
        row_count = few.select(*MARKET, "tables").n_unique()
        text = (
            f"What is held of each market, from when to when, with its gaps of an hour or longer{note}. The tables "
            "below list shorter ones too."
        )
        parts.append(Picture.of(text, 1.6 + 0.17 * row_count, Plot.of("coverage", few, timezone=timezone)))
    return Section(
        reading="A gap in open interest, funding or books means that the recording stopped. A gap in candles may also "
        "mean that nobody traded.",
        rule="A gap is a run of intervals without a row between the first and the last row of its series. Shorter "
        "gaps are not seen. Funding that comes less often, such as settled rates, is expected as often as most of its "
        "rows come. Findings are those of quality.audit with its usual thresholds.",
        parts=[
            *parts,
            table(
                all_gaps.sort("missing", *columns, descending=[True, False, False, False]),
                {
                    "type": Shown("Type"),
                    "exchange": Shown("Exchange"),
                    "raw_symbol": Shown("Symbol"),
                    "start": Shown("From", "time", "UTC"),
                    "end": Shown("To", "time", "UTC"),
                    "missing": Shown("Missing", "count", "intervals"),
                },
                "One row per gap, longest first." if all_gaps.height else "No series has a gap.",
            ),
            table(
                findings.sort("severity", *columns, "side", "finding"),
                {
                    "severity": Shown("Severity"),
                    "finding": Shown("Finding"),
                    "type": Shown("Type"),
                    "exchange": Shown("Exchange"),
                    "raw_symbol": Shown("Symbol"),
                    **({} if findings["side"].is_null().all() else {"side": Shown("Side")}),
                    "count": Shown("Rows", "count"),
                    "first": Shown("First", "time", "UTC"),
                    "last": Shown("Last", "time", "UTC"),
                },
                "One row per finding and series." if findings.height else "The audit found nothing.",
            ),
        ],
        entries=entries,
    )


def _equally_often(points: Points) -> list[tuple[pl.DataFrame, timedelta | None]]:
    """Return the points, and those of funding by how often their market has one, which may be seldom: settled rates."""
    if points.query.type[0] != "FUNDING_RATE_AGG":
        return [(points.frame, None)]
    seconds = pl.col("timestamp").diff().dt.total_seconds().quantile(0.5, "lower").over(MARKET)
    step = pl.max_horizontal(seconds.cast(pl.Int64), points.query.step).alias("step")
    parts = points.frame.with_columns(step).partition_by("step", as_dict=True, include_key=False)
    return [(frame, timedelta(seconds=seconds)) for (seconds,), frame in parts.items()]


def _side(findings: pl.DataFrame) -> pl.Expr:
    """Return the side of each finding, because bids and asks of a book are two series; null for other types."""
    return (pl.col("side") if "side" in findings.columns else pl.lit(None)).cast(pl.String).alias("side")


_NO_GAPS = pl.DataFrame(
    schema={
        "type": pl.String,
        "exchange": pl.String,
        "raw_symbol": pl.String,
        "start": pl.Datetime("ns", "UTC"),
        "end": pl.Datetime("ns", "UTC"),
        "missing": pl.Int64,
    }
)


def _few(frame: pl.DataFrame, worst_first: pl.DataFrame, which: str) -> tuple[pl.DataFrame, int, str]:
    """Return the rows of the worst markets, as many as a picture shows, their number, and a note if there are others.

    The note ends with ``which``, the reason why these markets were taken.
    """
    markets = worst_first.select(MARKET).unique(maintain_order=True)
    if markets.height <= _MOST_MARKETS:
        return frame, markets.height, ""
    few = frame.join(
        markets.head(_MOST_MARKETS), on=MARKET, how="semi", nulls_equal=True, maintain_order="left"
    )
    return few, _MOST_MARKETS, f"; {_MOST_MARKETS} of {markets.height:,} markets, {which}"
