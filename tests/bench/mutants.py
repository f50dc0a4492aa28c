"""What share of small faults the tests find: mutants of the source, drawn by a seed, each against its own tests.

Run ``python tests/bench/mutants.py [count] [seed]``; 100 mutants by seed 14 where left out. ``--files`` names the
files and folders to change, below ``src/tidytape``. The script first runs the tests of both jobs of CI once with
coverage, to learn which of them reach which line (``--map FILE`` keeps that between runs; ``--tests`` names the tests).
Then it changes one place of one line at a time, in a copy of the source, runs the tests that reach the line, the
quickest first, and stops at the first that fails. It prints each mutant with its fate, and the share that was killed.
``--drawn FILE`` keeps the mutants themselves: a later run, of changed source, draws those again whose lines are still
there.

``coverage`` is needed: ``pip install coverage pytest-cov``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tidytape"
ROOMS = ("frames", "wire", "aggregate", "analytics", "lake", "client", "service")
BOTH_JOBS = "not long"
"""The mark of the tests that CI runs, quick and slow."""
MOST_TESTS = 400
"""How many tests a mutant meets at most, the quickest of those that reach its line."""
SECONDS = 300
"""A mutant whose tests take longer is killed: it may never end."""

COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
COMPUTED: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.BitAnd: "|",
    ast.BitOr: "&",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A place of a file, from ``start`` to ``end`` in bytes, and what stands there instead."""

    file: Path
    line: int
    start: int
    end: int
    text: str
    was: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(SOURCE)}:{self.line} {self.was!r} -> {self.text!r}"

    @property
    def known_by(self) -> list[str]:
        """What tells it from others wherever its line has moved to."""
        return [self.file.read_text("utf-8").splitlines()[self.line - 1].strip(), self.was, self.text]

    def written(self) -> bytes:
        data = self.file.read_bytes()
        return data[: self.start] + self.text.encode() + data[self.end :]


def mutants(file: Path) -> Iterator[Mutant]:
    """Yield all that can be changed in a file: operators, comparisons, constants and conditions of functions."""
    data = file.read_bytes()
    lines = [0]
    for line in data.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def at(line: int | None, column: int | None) -> int:
        assert line is not None
        assert column is not None
        return lines[line - 1] + column

    def mutant(line: int, start: int, end: int, text: str) -> Mutant:
        return Mutant(file, line, start, end, text, data[start:end].decode())

    functions = [node for node in ast.walk(ast.parse(data)) if isinstance(node, ast.FunctionDef)]
    for node in {inner for function in functions for part in function.body for inner in ast.walk(part)}:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            start, end = (
                at(node.left.end_lineno, node.left.end_col_offset),
                at(node.comparators[0].lineno, node.comparators[0].col_offset),
            )
            between = data[start:end].decode()
            if "(" not in between and ")" not in between:
                yield mutant(node.lineno, start, end, f" {COMPARED[type(node.ops[0])]} ")
        elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not _is_text(node):
            start, end = (
                at(node.left.end_lineno, node.left.end_col_offset),
                at(node.right.lineno, node.right.col_offset),
            )
            between = data[start:end].decode()
            if "(" not in between and ")" not in between:
                yield mutant(node.lineno, start, end, f" {COMPUTED[type(node.op)]} ")
        elif isinstance(node, ast.Constant) and type(node.value) in {int, float, bool}:
            start, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
            value = (not node.value) if isinstance(node.value, bool) else node.value + 1
            yield mutant(node.lineno, start, end, repr(value))
        elif isinstance(node, ast.If | ast.IfExp):
            start, end = (
                at(node.test.lineno, node.test.col_offset),
                at(node.test.end_lineno, node.test.end_col_offset),
            )
            yield mutant(node.test.lineno, start, end, f"not ({data[start:end].decode()})")


def _is_text(node: ast.BinOp) -> bool:
    """Return whether an operator joins texts or types, where another one would be no fault of the logic."""
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def mapped(database: Path, sources: list[Path], tests: list[str]) -> Path:
    """Return the file of which test reaches which line of the sources; make it where it is not there."""
    if not database.exists():
        with tempfile.TemporaryDirectory() as folder:
            settings = Path(folder) / "coverage.toml"
            settings.write_text(
                f"[tool.coverage.run]\ninclude = {json.dumps([str(path) for path in sources])}\n"
                f'data_file = "{database}"\nparallel = false\n'
            )
            subprocess.run(
                [
                    sys.executable, "-m", "pytest", "-q", "-n", "auto", "-m", BOTH_JOBS, "--cov", "--cov-context=test",
                    f"--cov-config={settings}", "--cov-report=", "-p", "no:cacheprovider", *tests,
                ],
                cwd=ROOT,
                env=os.environ | {"COVERAGE_FILE": str(database)},
                check=False,
            )  # fmt: skip
    return database


def tests_of(database: Path, mutant: Mutant) -> list[str]:
    """Return the tests that reach the line of a mutant, those that reach least of the source first."""
    from coverage.numbits import numbits_to_nums

    with sqlite3.connect(database) as connection:
        sizes: dict[str, int] = {}
        found: list[str] = []
        rows = connection.execute(
            "SELECT context.context, line_bits.numbits FROM line_bits"
            " JOIN context ON context.id = line_bits.context_id JOIN file ON file.id = line_bits.file_id"
            " WHERE file.path = ?",
            (str(mutant.file),),
        )
        for context, bits in rows:
            numbers = numbits_to_nums(bits)
            test = context.rpartition("|")[0] or context
            # Examples in the source itself would import the source that is not changed.
            if test.startswith("tests/") and mutant.line in numbers:
                found.append(test)
                sizes[test] = len(numbers)
    return sorted(dict.fromkeys(found), key=lambda test: sizes[test])[:MOST_TESTS]


def is_killed(mutant: Mutant, tests: list[str]) -> bool:
    """Return whether a test fails on a copy of the source with the mutant in it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)
        (copy / mutant.file.relative_to(ROOT / "src")).write_bytes(mutant.written())
        # Names of tests may be long: they go through a file.
        listed = Path(folder) / "tests"
        listed.write_text("\n".join(tests))
        try:
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-x",
                    "-q",
                    "-n0",
                    "-p",
                    "no:cacheprovider",
                    "-m",
                    "",
                    f"@{listed}",
                ],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(copy)},
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
    if done.returncode not in {0, 1, 2}:
        raise RuntimeError(done.stdout.decode()[-2_000:] + done.stderr.decode()[-2_000:])
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("seed", nargs="?", type=int, default=14)
    parser.add_argument("--map", type=Path, default=Path(tempfile.gettempdir()) / "tidytape-coverage")
    parser.add_argument("--drawn", type=Path)
    parser.add_argument("--files", nargs="+", default=ROOMS)
    parser.add_argument("--tests", nargs="+", default=["tests"])
    options = parser.parse_args()
    paths = [SOURCE / name for name in options.files]
    files = sorted(file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))
    database = mapped(options.map, files, options.tests)
    all_mutants = [mutant for file in files for mutant in sorted(mutants(file), key=str)]
    chosen = chosen_of(all_mutants, options.count, options.seed, options.drawn)
    drawn = [(mutant, tests_of(database, mutant)) for mutant in chosen]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        fates = pool.map(lambda pair: bool(pair[1]) and is_killed(*pair), drawn)
        killed = 0
        for (mutant, tests), is_dead in zip(drawn, fates, strict=True):
            killed += is_dead
            fate = "killed" if is_dead else "SURVIVED" if tests else "NOT REACHED"
            print(f"{fate:12} {mutant}  ({len(tests)} tests)", flush=True)
    print(f"{killed} of {len(drawn)} killed")


def chosen_of(all_mutants: list[Mutant], count: int, seed: int, drawn: Path | None) -> list[Mutant]:
    """Return the mutants that were drawn before and still exist, and as many new ones as then lack."""
    shuffled = random.Random(seed).sample(all_mutants, len(all_mutants))
    before = json.loads(drawn.read_text("utf-8")) if drawn is not None and drawn.exists() else []
    by_text: dict[tuple[str, ...], Mutant] = {}
    if before:
        for mutant in shuffled:
            by_text.setdefault(tuple(mutant.known_by), mutant)
    again = [by_text[tuple(one)] for one in before if tuple(one) in by_text]
    if before:
        print(f"{len(again)} of {len(before)} mutants are still there")
    chosen = [*again, *(mutant for mutant in shuffled if mutant not in again)][:count]
    if drawn is not None:
        drawn.write_text(json.dumps([mutant.known_by for mutant in chosen], indent=0), "utf-8")
    return chosen


if __name__ == "__main__":
    main()
