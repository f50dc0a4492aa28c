"""The section about data quality: missing intervals, and values that cannot be right."""

from __future__ import annotations

import polars as pl

from tidytape.analytics import quality
from tidytape.report._answers import MARKET, Answers
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
    gaps = [
        quality.gaps(points.frame).with_columns(type=pl.lit(name))
        for name, points in points_by_type.items()
        if name != "BLOCK_BOOK_SNAPSHOT_AGG"
    ]
    columns = ["type", *MARKET]
    all_gaps = pl.concat([gap.select(*columns, "start", "end", "missing") for gap in gaps] or [_NO_GAPS])
    audits = [
        quality.audit(points.frame).with_columns(type=pl.lit(name)) for name, points in points_by_type.items()
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
        "gaps are not seen. Findings are those of quality.audit with its usual thresholds.",
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
