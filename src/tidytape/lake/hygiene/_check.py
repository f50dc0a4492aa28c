"""Check that what a lake holds is sound."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

import polars as pl
from tqdm.auto import tqdm

from tidytape.errors import LakeError, counted
from tidytape.lake import _delta
from tidytape.lake._reader import LakeReader
from tidytape.lake._tables import Table
from tidytape.lake.hygiene._checks import CHECKS, FILES, Check
from tidytape.lake.hygiene._info import chosen, tables_of
from tidytape.lake.hygiene._scope import Scope
from tidytape.lake.rollup._recipes import RECIPES
from tidytape.lake.rollup._state import noted

_AT_ONCE = 5_000_000
"""Most rows of many markets that are checked together."""

_SCHEMA = {
    "check": pl.String,
    "severity": pl.String,
    "table": pl.String,
    "market": pl.String,
    "count": pl.Int64,
    "example": pl.String,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a lake.

    Attributes
    ----------
    check : str
        Name of the check.
    severity : {"error", "advice"}
        Whether an answer from the lake may be wrong, or only slower than necessary.
    table : str
        Name of the table.
    market : str
        The values of the table's partition columns, e.g. ``"BINANCE BTCUSDT"``; empty where there are none.
    count : int
        How many rows, files or instants are wrong.
    example : str
        A description of the first of them.
    """

    check: str
    severity: Literal["error", "advice"]
    table: str
    market: str
    count: int
    example: str

    def __str__(self) -> str:
        where = f"{self.table} {self.market}".rstrip()
        return f"{self.severity}: {self.check}: {where}: {self.count:,}, first: {self.example}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check.

    Attributes
    ----------
    checks : tuple of str
        Names of the checks that were made.
    rows : int
        Rows of the tables that were checked.
    findings : tuple of Finding
        The faults, by table, market and check.
    """

    checks: tuple[str, ...]
    rows: int
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether there is no error; advice does not count."""
        return all(finding.severity != "error" for finding in self.findings)

    def frame(self) -> pl.DataFrame:
        """Return the findings as a frame.

        Returns
        -------
        polars.DataFrame, one row per finding
            ``check``, ``severity``, ``table``, ``market``, ``count``, ``example``.
        """
        return pl.DataFrame(
            [{name: getattr(finding, name) for name in _SCHEMA} for finding in self.findings], schema=_SCHEMA
        )

    def __str__(self) -> str:
        error_count = sum(finding.severity == "error" for finding in self.findings)
        verdict = "sound" if self.sound else counted(error_count, "error")
        return "\n".join(
            (
                *map(str, self.findings),
                f"{counted(self.rows, 'row')}, {counted(len(self.checks), 'check')}: {verdict}",
            )
        )


def check(
    lake: LakeReader,
    *,
    tables: Iterable[str] | None = None,
    checks: Iterable[str] | None = None,
    progress: bool | None = None,
) -> CheckReport:
    """Check that the rows and files of a lake are sound.

    It reads every row, many small markets at a time, in memory that does not grow with the lake: it compares keys by
    shares of their hashes, and rebuilds books day by day. It reads each table in one version, the newest at that time,
    so other processes may write meanwhile.

    Parameters
    ----------
    lake : LakeReader
        The lake to check.
    tables : iterable of str, optional
        Names of the tables to check; all where left out.
    checks : iterable of str, optional
        Names of the checks to make, see `tidytape.lake.hygiene._checks.CHECKS`; all where left out. Files are
        always checked, and a market with a file that cannot be read is not checked further.
    progress : bool, optional
        Show a bar on the standard error; by default if that is a terminal.

    Returns
    -------
    CheckReport

    Raises
    ------
    QueryError
        If there is no such table or check.
    LakeError
        If a table cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake import Lake
    >>> report = check(Lake.create(tempfile.mkdtemp()))
    >>> report.sound, report.findings
    (True, ())
    """
    names_of_tables = None if tables is None else set(tables)
    chosen_tables = tables_of(lake, names_of_tables)
    check_names = chosen("check", checks, [check.name for check in CHECKS])
    chosen_checks = [check for check in CHECKS if check.name in check_names]
    now = time.time_ns()
    findings = [
        Finding("log", "error", name, "", 1, "the table is gone: restore its folder")
        for name in lake._lost()
        if names_of_tables is None or name in names_of_tables
    ]
    rows = 0
    with tqdm(unit="row", unit_scale=True, disable=None if progress is None else not progress) as bar:
        for table in chosen_tables:
            try:
                table_findings, scopes = _scopes(lake, table, now)
            except LakeError as error:  # a damaged log must not stop the check of the other tables
                table_findings, scopes = [Finding("log", "error", table.name, "", 1, str(error))], []
            findings += table_findings
            bar.total = (bar.total or 0) + sum(scope.size for scope in scopes)
            for batch in _batches(scopes):
                bar.set_description(" ".join((table.name, *batch[0].market)))
                findings += _of_batch(batch, chosen_checks)
                size = sum(scope.size for scope in batch)
                rows += size
                bar.update(size)
    return CheckReport(tuple(check_names), rows, tuple(findings))


def _scopes(lake: LakeReader, table: Table, now: int) -> tuple[list[Finding], list[Scope]]:
    """Return the findings about the columns of a table, and its markets; none if its rows cannot be read."""
    delta = lake.delta(table.name)
    try:
        _delta.require_readable(delta, table)
    except LakeError as error:
        return [Finding("columns", "error", table.name, "", 1, error.message)], []
    unknown_columns = _delta.unknown(delta, table)
    example = (
        f"{unknown_columns[0]!r}, which this release does not know: not checked" if unknown_columns else ""
    )
    findings = (
        [Finding("columns", "advice", table.name, "", len(unknown_columns), example)]
        if unknown_columns
        else []
    )
    files = _delta.file_log(delta)
    rows = _delta.scanned(delta, table, lake.storage_options)
    partition_columns = list(table.partitions)
    # A table without partitions is one market.
    files_by_market = (
        files.sort(partition_columns, maintain_order=True).partition_by(partition_columns, as_dict=True)
        if partition_columns
        else {(): files}
    )
    scopes = []
    for values, market_files in files_by_market.items():
        partition = dict(zip(partition_columns, values, strict=True))
        conditions = [pl.col(name).eq_missing(pl.lit(value, pl.String)) for name, value in partition.items()]
        scopes.append(
            Scope(lake, table, delta, partition, market_files, rows.filter(pl.lit(True), *conditions), now)
        )
    return findings, [scope for scope in scopes if scope.files.height] + _without_files(
        lake, table, scopes, now
    )


def _without_files(lake: LakeReader, table: Table, scopes: list[Scope], now: int) -> list[Scope]:
    """Return the markets without a file whose minutes are noted as stored: the other scopes lack them."""
    recipe = RECIPES.get(table.name)
    if recipe is None or not lake.has_table(recipe.raw.name):
        return []
    delta = lake.delta(table.name)
    with_files = {tuple(scope.partition.values()) for scope in scopes}
    markets = [(exchange, symbol) for exchange, symbol in lake.markets_in(recipe.raw.name)]
    delta.read_notes(len(markets))
    files, rows = _delta.file_log(delta).clear(), table.empty().lazy()
    return [
        Scope(lake, table, delta, dict(zip(table.partitions, market, strict=True)), files, rows, now)
        for market in markets
        if market not in with_files and noted(delta, market) is not None
    ]


def _batches(scopes: list[Scope]) -> Iterator[list[Scope]]:
    """Yield the markets of one table, small markets together."""
    batch: list[Scope] = []
    rows = 0
    for scope in scopes:
        # `Scope.of_many` cannot select rows by a null, so a market with a null in its name is a batch by itself.
        size = _AT_ONCE if None in scope.partition.values() else scope.size
        if batch and rows + size > _AT_ONCE:
            yield batch
            batch, rows = [], 0
        batch.append(scope)
        rows += size
    if batch:
        yield batch


def _of_batch(batch: list[Scope], checks: list[Check]) -> Iterator[Finding]:
    """Make the checks of many markets at once, then of each market those that found something."""
    row_checks = [check for check in checks if check is not FILES and check.concerns(batch[0].table)]
    files_may_be_broken = True
    if len(batch) > 1:
        joint_scope = Scope.of_many(batch)
        if _passes(FILES, joint_scope):
            files_may_be_broken = False
            row_checks = [
                check for check in row_checks if not (check.of_many and _passes(check, joint_scope))
            ]
    for scope in batch:
        file_faults = list(_findings(FILES, scope)) if files_may_be_broken else []
        yield from file_faults
        for check in [] if file_faults else row_checks:
            try:
                with _delta.failing(f"check {check.name}", scope.lake.path):
                    yield from list(_findings(check, scope))
            except LakeError as error:
                # A file that breaks in the middle must not stop the check of the rest of the lake.
                reason = f"could not be checked: {error}"
                yield Finding(check.name, "error", scope.table.name, " ".join(scope.market), 1, reason)


def _passes(check: Check, joint_scope: Scope) -> bool:
    """Return whether a check of many markets at once finds nothing."""
    try:
        with _delta.failing(f"check {check.name}", joint_scope.lake.path):
            return next(iter(check.find(joint_scope)), None) is None
    except LakeError:
        return False


def _findings(check: Check, scope: Scope) -> Iterator[Finding]:
    market = " ".join(scope.market)
    for count, example in check.find(scope):
        yield Finding(check.name, check.severity, scope.table.name, market, count, example)


def require_readable(lake: LakeReader, tables: Iterable[str]) -> None:
    """Raise LakeError unless every table can be opened, and its local files have the length that the log says.

    This takes milliseconds, because it reads no file, unlike `check`. It also tries the tables that the lake has lost.

    Parameters
    ----------
    lake : LakeReader
    tables : iterable of str
        Names of tables that the lake has.

    Raises
    ------
    LakeError
        If a table is gone, its log cannot be read, or a file is missing or has another length. It names the first
        fault.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake import Lake
    >>> require_readable(Lake.create(tempfile.mkdtemp()), ["markets", "trades"])
    """
    for name in dict.fromkeys((*lake._lost(), *tables)):
        uri = lake.uri(name)
        table = _delta.opened(uri, lake.storage_options)
        if table.table_uri.startswith("file://"):
            root = Path(unquote(table.table_uri.removeprefix("file://")))
            for path, length in _delta.file_log(table).select("path", "bytes").iter_rows():
                _require_length(root / path, length, uri)


def _require_length(path: Path, length: int, uri: str) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise LakeError(f"{path}: {error.strerror}", path=uri) from None
    if size != length:
        raise LakeError(f"{path}: holds {size:,} bytes, the table's log says {length:,}", path=uri)
