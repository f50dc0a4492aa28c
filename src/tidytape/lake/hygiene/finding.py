"""What a check of a lake found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from tidytape.errors import counted

__all__ = ["CheckReport", "Finding"]

_SCHEMA = {
    "check": pl.String,
    "severity": pl.String,
    "table": pl.String,
    "instrument": pl.String,
    "count": pl.Int64,
    "example": pl.String,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes
    ----------
    check : str
        Name of the check.
    severity : {"error", "advice"}
        Whether an answer from the lake may be wrong, or only slower than need be.
    table : str
        Name of the table.
    instrument : str
        The values of the table's partition columns, e.g. ``"BINANCE BTCUSDT"``; empty where there are none.
    count : int
        How many rows, files or instants.
    example : str
        The first of them.
    """

    check: str
    severity: Literal["error", "advice"]
    table: str
    instrument: str
    count: int
    example: str

    def __str__(self) -> str:
        where = f"{self.table} {self.instrument}".rstrip()
        return f"{self.severity}: {self.check}: {where}: {self.count:,}, first: {self.example}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check of a lake looked at, and what it found.

    Attributes
    ----------
    checks : tuple of str
        Names of the checks that were made.
    rows : int
        Rows of the tables that were looked at.
    findings : tuple of Finding
        By table, instrument and check.
    """

    checks: tuple[str, ...]
    rows: int
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether there is no error; advice is none."""
        return all(finding.severity != "error" for finding in self.findings)

    def frame(self) -> pl.DataFrame:
        """Return the findings as a frame.

        Returns
        -------
        polars.DataFrame, one row per finding
            ``check``, ``severity``, ``table``, ``instrument``, ``count``, ``example``.
        """
        return pl.DataFrame(
            [{name: getattr(finding, name) for name in _SCHEMA} for finding in self.findings], schema=_SCHEMA
        )

    def __str__(self) -> str:
        errors = sum(finding.severity == "error" for finding in self.findings)
        verdict = "sound" if self.sound else counted(errors, "error")
        return "\n".join(
            (
                *map(str, self.findings),
                f"{counted(self.rows, 'row')}, {counted(len(self.checks), 'check')}: {verdict}",
            )
        )
