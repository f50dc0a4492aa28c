"""Checking that what a lake holds is sound."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import polars as pl
from tqdm.auto import tqdm

from tidytape.errors import LakeError
from tidytape.lake import _delta
from tidytape.lake._columns import require_readable, unknown
from tidytape.lake.hygiene import _log
from tidytape.lake.hygiene._subject import Check, Subject
from tidytape.lake.hygiene._tables import chosen as chosen_of
from tidytape.lake.hygiene._tables import tables as kept
from tidytape.lake.hygiene.checks import CHECKS, FILES
from tidytape.lake.hygiene.finding import CheckReport, Finding
from tidytape.lake.rollup.recipes import RECIPES
from tidytape.lake.rollup.state import noted
from tidytape.lake.store import Lake
from tidytape.lake.table import Table

__all__ = ["check"]

_AT_ONCE = 5_000_000
"""Rows of many instruments that are looked at together."""


def check(
    lake: Lake,
    *,
    tables: Iterable[str] | None = None,
    checks: Iterable[str] | None = None,
    progress: bool | None = None,
) -> CheckReport:
    """Check that what a lake holds is sound.

    Reads every row, small instruments many at a time, in memory that does not grow with the lake: keys are compared by
    shares of their hashes, books are rebuilt day by day. Looks at the version of each table that is the newest when the
    check comes to it, so others may write meanwhile.

    Parameters
    ----------
    lake : Lake
        Which one.
    tables : iterable of str, optional
        Names of the tables to check; all where left out.
    checks : iterable of str, optional
        Names of the checks to make, see `tidytape.lake.hygiene.checks.CHECKS`; all where left out. That the files can
        be read is always checked, and an instrument that has a broken file is not checked further.
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
    >>> report = check(Lake.create(tempfile.mkdtemp()))
    >>> report.sound, report.findings
    (True, ())
    """
    asked = None if tables is None else set(tables)
    wanted = kept(lake, asked)
    names = chosen_of("check", checks, [one.name for one in CHECKS])
    chosen = [one for one in CHECKS if one.name in names]
    now = time.time_ns()
    findings = [
        Finding("log", "error", name, "", 1, "the table is gone: restore its folder")
        for name in lake.lost()
        if asked is None or name in asked
    ]
    rows = 0
    with tqdm(unit="row", unit_scale=True, disable=None if progress is None else not progress) as bar:
        for table in wanted:
            try:
                unlike, subjects = _subjects(lake, table, now)
            except LakeError as error:  # a damaged log does not keep the other tables from being checked
                unlike, subjects = [Finding("log", "error", table.name, "", 1, str(error))], []
            findings.extend(unlike)
            bar.total = (bar.total or 0) + sum(subject.size for subject in subjects)
            for batch in _batches(subjects):
                bar.set_description(f"{table.name} {_log.instrument_name(batch[0].partition)}".rstrip())
                findings.extend(_of_batch(batch, chosen))
                size = sum(subject.size for subject in batch)
                rows += size
                bar.update(size)
    return CheckReport(tuple(one.name for one in chosen), rows, tuple(findings))


def _subjects(lake: Lake, table: Table, now: int) -> tuple[list[Finding], list[Subject]]:
    """The instruments of a table, or why its rows cannot be looked at."""
    delta = _log.opened(lake, table)
    try:
        require_readable(delta, table)
    except LakeError as error:
        return [Finding("columns", "error", table.name, "", 1, error.message)], []
    others = [field.name for field in unknown(delta, table)]
    advice = f"{others[0]!r}, which this release does not know: kept, not checked" if others else ""
    unlike = [Finding("columns", "advice", table.name, "", len(others), advice)] if others else []
    files = _log.files(delta, table)
    scanned = _log.scanned(lake, delta, table)
    names = list(table.partitions)
    subjects = []
    by_partition = files.partition_by(names, as_dict=True) if names else {(): files}
    for values in files.select(names).unique().sort(names).iter_rows(named=True) if names else [{}]:
        mine = [pl.col(name).eq_missing(pl.lit(value, pl.String)) for name, value in values.items()]
        subjects.append(
            Subject(
                lake,
                table,
                delta,
                values,
                by_partition[tuple(values.values())],
                scanned.filter(*mine) if mine else scanned,
                now,
            )
        )
    return unlike, [subject for subject in subjects if subject.files.height] + _bare(lake, table, subjects)


def _bare(lake: Lake, table: Table, subjects: list[Subject]) -> list[Subject]:
    """Instruments whose minutes are said to be made, and none is there: nothing else would look at them."""
    recipe = RECIPES.get(table.name)
    if recipe is None or not lake.has_table(recipe.raw.name):
        return []
    delta = _log.opened(lake, table)
    there = {tuple(subject.partition.values()) for subject in subjects}
    instruments = lake.instruments(recipe.raw.name)
    delta.read_notes(len(instruments))
    bare = [
        names
        for exchange, symbol in instruments
        if (names := (exchange, symbol)) not in there and noted(delta, names) is not None
    ]
    files = _log.files(delta, table).clear()
    rows = table.empty().lazy()
    now = time.time_ns()
    return [
        Subject(lake, table, delta, dict(zip(table.partitions, names, strict=True)), files, rows, now)
        for names in bare
    ]


def _batches(subjects: list[Subject]) -> Iterator[list[Subject]]:
    """Yield subjects of one table, many of them together where they are small."""
    batch: list[Subject] = []
    rows = 0
    for subject in subjects:
        # Rows of no instrument cannot be named in a condition.
        size = _AT_ONCE if None in subject.partition.values() else subject.size
        if batch and rows + size > _AT_ONCE:
            yield batch
            batch, rows = [], 0
        batch.append(subject)
        rows += size
    if batch:
        yield batch


def _of_batch(batch: list[Subject], chosen: list[Check]) -> Iterator[Finding]:
    """Make the checks: of many instruments at once, and of each of them those that do not pass so."""
    left = [one for one in chosen if one is not FILES and one.concerns(batch[0].table)]
    files = True
    if len(batch) > 1:
        many = Subject.of_many(batch)
        if _passes(FILES, many):
            files = False
            left = [one for one in left if not (one.together and _passes(one, many))]
    for subject in batch:
        yield from _findings(subject, _log.instrument_name(subject.partition), left, files=files)


def _passes(check: Check, many: Subject) -> bool:
    """Whether a look at many instruments at once finds nothing."""
    try:
        with _delta.failing(f"check {check.name}", many.lake.path):
            return next(iter(check.find(many)), None) is None
    except LakeError:
        return False


def _findings(subject: Subject, instrument: str, chosen: list[Check], *, files: bool) -> Iterator[Finding]:
    broken = list(FILES.findings(subject, instrument)) if files else []
    if broken:
        yield from broken
        return
    for one in chosen:
        try:
            with _delta.failing(f"check {one.name}", subject.lake.path):
                yield from list(one.findings(subject, instrument))
        except LakeError as error:
            # One file that breaks in the middle does not keep the rest of the lake from being checked.
            yield Finding(
                one.name, "error", subject.table.name, instrument, 1, f"could not be checked: {error}"
            )
