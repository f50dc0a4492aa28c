"""Members of one series, markets of one coin, say, joined to it: candles and stocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.frames.doors import Frame
from tidytape.frames.joined import EARLIEST, LATEST, carried, reduced, traded

__all__ = ["as_text", "consolidated", "matched", "standing"]

_ASKED: Final = "__asked"


def as_text(name: str) -> nw.Expr:
    """Return a column as text that is never null; with a sign before it, so that null and the empty text stay two."""
    return nw.concat_str(nw.lit("="), nw.col(name).cast(nw.String())).fill_null("")


def matched(frame: Any, columns: Iterable[str]) -> tuple[Any, list[str]]:
    """Return the frame with a text beside each column, never null, and the names of those.

    Nulls do not meet in a join; these do. There is one of no column too, so that there is always one to join on.
    """
    texts = [as_text(name).alias(f"__of_{name}") for name in columns]
    return frame.with_columns(nw.lit("").alias("__of"), *texts), [
        "__of",
        *(f"__of_{name}" for name in columns),
    ]


def consolidated(
    frame: Frame, keys: Sequence[str], columns: Iterable[str], *, members: Sequence[str]
) -> Frame:
    """Return one candle per keys: volumes added, extremes, the open of who traded first, the close of who did last.

    Of members that traded at one time the first by name opens, the last closes. A candle that only fills a gap counts
    where no member traded.
    """
    frame = traded(frame, keys).with_columns(
        nw.col("first_timestamp").cast(nw.Int64()).fill_null(LATEST).alias("__first"),
        nw.col("last_timestamp").cast(nw.Int64()).fill_null(EARLIEST).alias("__last"),
    )
    for place in ("__first", "__last"):
        frame = frame.with_row_index(f"{place}_place", order_by=[place, *members])
    frame = frame.with_columns(nw.col("__first_place", "__last_place").cast(nw.Int64()))
    return reduced(frame, keys, columns, first="__first_place", last="__last_place")


def standing(
    reports: Any,
    moments: Any,
    *,
    members: Sequence[str],
    series: Sequence[str],
    columns: Sequence[str],
    carry: int,
) -> Any:
    """Return what each member last reported at the moments of its series.

    Parameters
    ----------
    reports : frame, n rows, key (members, series, timestamp), in any order
        Reports of a stock. The last of the columns is what stands when its interval ends, its close: it holds until the
        next report, and counts for the others where they are null or not reported. Without it there is no report.
    moments : frame, m rows
        ``series`` and ``timestamp`` int64 [ns], each once or more often.
    members, series : sequence of str
        Columns that name a member, and the series it is a member of.
    columns : sequence of str
        What is reported, float64.
    carry : int
        The age up to which a report holds. [ns]

    Returns
    -------
    frame, one row per member and moment at which something holds
        ``members``, ``series``, ``timestamp`` and the columns.
    """
    close, is_report = columns[-1], nw.col(_ASKED) == 0
    reports, texts = matched(reports.filter(~nw.col(close).is_null()), [*members, *series])
    of_series = [text for text in texts if text not in {f"__of_{name}" for name in members}]
    asked = matched(moments, series)[0].select(*of_series, "timestamp").unique()
    nothing = [nw.lit(0.0).alias(name) for name in columns]
    gaps = reports.select(*members, *series, *texts).unique().join(asked, on=of_series)
    kept = [*members, *series, *texts, "timestamp", *columns, _ASKED]
    rows = nw.concat(
        [
            reports.with_columns(nw.lit(0).alias(_ASKED)).select(*kept),
            gaps.with_columns(*nothing, nw.lit(1).alias(_ASKED)).select(*kept),
        ]
    )
    # Of a report at a moment that is asked for, the report stays.
    place = [*texts, "timestamp"]
    rows = rows.with_columns(
        nw.col(_ASKED).min().over(*place).alias("__first"),
        nw.col(_ASKED).max().over(*place).alias("__wanted"),
    ).filter(nw.col(_ASKED) == nw.col("__first"))
    reported = nw.when(is_report).then(nw.col("timestamp")).otherwise(nw.lit(EARLIEST)).alias("__reported")
    rows = carried(rows, close, known=is_report, by=texts, order=["timestamp"]).with_columns(reported)
    rows = rows.with_columns(nw.col("__reported").cum_max().over(*texts, order_by="timestamp"))
    holds = (nw.col("__wanted") == 1) & (nw.col("timestamp") <= nw.col("__reported") + carry)
    stands = nw.col(f"__{close}")
    return rows.filter(holds).select(
        *members,
        *series,
        "timestamp",
        *(nw.coalesce(nw.when(is_report).then(nw.col(name)), stands).alias(name) for name in columns),
    )
