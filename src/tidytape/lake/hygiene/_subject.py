"""What a check looks at: the rows of one instrument, or of many at once, in one version of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import polars as pl

from tidytape.lake._delta import Opened
from tidytape.lake.hygiene import _log
from tidytape.lake.hygiene.finding import Finding
from tidytape.lake.store import Lake
from tidytape.lake.table import Table

T = TypeVar("T")

Found = tuple[int, str]
"""How many, and the first of them."""


@dataclass(frozen=True)
class Subject:
    """The rows of one instrument, or of many at once, in one version of a table.

    Attributes
    ----------
    lake : Lake
        Where it is; for a check that compares with other tables.
    table : Table
        Which table.
    delta : Opened
        The version that is checked.
    partition : mapping of str to str
        The instrument: values of the table's partition columns, empty where it has none, or of many at once.
    files : polars.DataFrame, one row per file of the instrument
        What the log says of them, see `tidytape.lake.hygiene._log.files`.
    rows : polars.LazyFrame
        Its rows, in no order.
    now : int
        When the check began. [ns since the epoch]
    members : tuple of Subject
        Of many instruments at once: each of them.
    """

    lake: Lake
    table: Table
    delta: Opened
    partition: Mapping[str, str | None]
    files: pl.DataFrame
    rows: pl.LazyFrame
    now: int
    members: tuple[Subject, ...] = ()
    _known: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, what: str, read: Callable[[], T]) -> T:
        """Return what ``read`` returned when it was first asked for: several checks look at the same files."""
        if what not in self._known:
            self._known[what] = read()
        return self._known[what]  # type: ignore[no-any-return]

    @classmethod
    def of_many(cls, members: Sequence[Subject]) -> Subject:
        """Return instruments of one version of a table as one subject."""
        one = members[0]
        rows = _log.scanned(one.lake, one.delta, one.table)
        names = list(one.partition)
        partitions = pl.LazyFrame(
            [tuple(member.partition.values()) for member in members],
            schema=dict.fromkeys(names, pl.String),
            orient="row",
        )
        near = [
            pl.col(name).is_in(sorted({str(member.partition[name]) for member in members})) for name in names
        ]
        return cls(
            one.lake,
            one.table,
            one.delta,
            {},
            pl.concat(member.files for member in members),
            rows.filter(*near).join(partitions, on=names, how="semi"),
            one.now,
            tuple(members),
        )

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
    together : bool
        Made of many instruments at once, it finds something if and only if it does of one of them. They are looked at
        one by one only then.
    """

    name: str
    holds: str
    concerns: Callable[[Table], bool]
    find: Callable[[Subject], Iterator[Found]]
    severity: Literal["error", "advice"] = "error"
    together: bool = False

    def findings(self, subject: Subject, instrument: str) -> Iterator[Finding]:
        """Make the check."""
        for count, example in self.find(subject):
            yield Finding(self.name, self.severity, subject.table.name, instrument, count, example)
