"""What a check looks at: the rows of one instrument in one version of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl
from deltalake import DeltaTable

from tidytape.lake.hygiene.finding import Finding
from tidytape.lake.store import Lake
from tidytape.lake.table import Table

__all__ = ["Check", "Found", "Subject"]

Found = tuple[int, str]
"""How many, and the first of them."""


@dataclass(frozen=True)
class Subject:
    """The rows of one instrument in one version of a table.

    Attributes
    ----------
    lake : Lake
        Where it is; for a check that compares with other tables.
    table : Table
        Which table.
    delta : DeltaTable
        The version that is checked.
    partition : mapping of str to str
        The instrument: values of the table's partition columns, empty where it has none.
    files : polars.DataFrame, one row per file of the instrument
        What the log says of them, see `tidytape.lake.hygiene._log.files`.
    rows : polars.LazyFrame
        Its rows, in no order.
    now : int
        When the check began. [ns since the epoch]
    """

    lake: Lake
    table: Table
    delta: DeltaTable
    partition: Mapping[str, str | None]
    files: pl.DataFrame
    rows: pl.LazyFrame
    now: int

    @property
    def size(self) -> int:
        """Rows by the log."""
        return int(self.files["rows"].sum())


@dataclass(frozen=True, slots=True)
class Check:
    """A check: what must hold of each instrument in some tables.

    Attributes
    ----------
    name : str
        What it is called in a report.
    holds : str
        What must hold.
    concerns : callable
        Whether it is made on a table.
    find : callable
        What does not hold of a subject: pairs (how many, the first of them).
    severity : {"error", "advice"}
        Whether answers may be wrong, or only slow.
    """

    name: str
    holds: str
    concerns: Callable[[Table], bool]
    find: Callable[[Subject], Iterator[Found]]
    severity: Literal["error", "advice"] = "error"

    def findings(self, subject: Subject, instrument: str) -> Iterator[Finding]:
        """Make the check."""
        for count, example in self.find(subject):
            yield Finding(self.name, self.severity, subject.table.name, instrument, count, example)
