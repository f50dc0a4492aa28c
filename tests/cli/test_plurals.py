"""What there is one of is told of as one."""

from __future__ import annotations

import polars as pl
import pytest

from tidytape.cli._output import put
from tidytape.lake.hygiene import CheckReport, Compacted, Finding, Vacuumed
from tidytape.lake.ingest._prediction import PredictionFile, PredictionReport
from tidytape.lake.rollup._build import RolledUp


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (
            1,
            [
                "trades: 3 -> 1 file, 9 -> 1 byte",
                "1 row, 1 check: 1 error",
                "trades: deleted 1 file, 1 byte",
                "1 prediction market, 1 outcome",
                "trades: 1 row written, 1 market",
            ],
        ),
        (
            2000,
            [
                "trades: 3 -> 2,000 files, 9 -> 2,000 bytes",
                "2,000 rows, 1 check: 1 error",
                "trades: deleted 2,000 files, 2,000 bytes",
                "2,000 prediction markets, 2,000 outcomes",
                "trades: 2,000 rows written, 2,000 markets",
            ],
        ),
    ],
)
def test_reports(count: int, told: list[str]) -> None:
    finding = Finding("order", "error", "trades", "X A", 1, "line 1")
    reports = [
        Compacted("trades", "", 3, count, 9, count),
        CheckReport(("order",), count, (finding,)),
        Vacuumed("trades", count, count, dry_run=False),
        PredictionReport((), count, count, changed=True),
        RolledUp("trades", count, count),
    ]
    assert [str(report).splitlines()[-1] for report in reports] == told
    assert str(PredictionFile("a", count, bad=1)).startswith(
        f"a: {count:,} report{'s' * (count > 1)}; 1 bad one "
    )


@pytest.mark.parametrize(("rows", "told"), [(1, "1 row -> "), (2, "2 rows -> ")])
def test_what_is_written(tmp_path, capsys, rows, told):
    put(pl.DataFrame({"a": range(rows)}), tmp_path / "a.csv")
    assert capsys.readouterr().err.startswith(told)
