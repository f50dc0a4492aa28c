"""The guide to recorded files says what the code takes."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest

from tables import each_row
from tidytape.errors import QueryError
from tidytape.lake import TABLES
from tidytape.lake._batch import Spool
from tidytape.lake.ingest import LAYOUTS
from tidytape.lake.ingest._columns import CONSTANT_COLUMNS, EVENTS, known_columns, needed_columns
from tidytape.lake.ingest._layout import Job, Parsed
from tidytape.lake.ingest._mapped_rows import MappedRows
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._own_files import Csv
from tidytape.lake.ingest._time import DATE, DIRECTIVES, EPOCH, ISO, UNITS

DOCS = Path(__file__).parents[3] / "docs"
GUIDE = (DOCS / "guides" / "recorded_files.md").read_text("utf-8")

TABLES_OF_LAYOUTS = re.compile(r"^\| layout \|.*?(?=\n\n)", flags=re.MULTILINE | re.DOTALL)
"""Two tables of the guide that are made from the layouts; ``python tests/lake/ingest/test_guide.py`` rewrites them."""


def layouts_table() -> str:
    """A table of the layouts and what files they are for."""
    rows = [
        f"| `{name}` | {inspect.cleandoc(layout.__doc__ or '').splitlines()[0]} |"
        for name, layout in LAYOUTS.items()
    ]
    return "\n".join(["| layout | files |", "| --- | --- |", *rows])


def amounts_table() -> str:
    """A table of what decides the unit of the amounts; layouts that say the same of the same tables share a row."""
    layouts: dict[tuple[str, str], list[str]] = {}
    for name, layout in LAYOUTS.items():
        tables: dict[str, list[str]] = {}
        for table, decides in layout.amounts.items():
            tables.setdefault(decides, []).append(f"`{table}`")
        for decides, names in tables.items():
            layouts.setdefault((", ".join(names), decides), []).append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {tables} | {decides} |" for (tables, decides), names in layouts.items()]
    return "\n".join(["| layout | tables | what decides |", "| --- | --- | --- |", *rows])


def words(names):
    return ", ".join(f"`{name}`" for name in names)


def rows_of(heading):
    """The rows of the table in the guide whose first column has this heading."""
    lines = GUIDE.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    table = lines[first + 2 :]
    end = next(number for number, line in enumerate(table) if not line.startswith("|"))
    return table[:end]


def test_the_columns_of_each_table_are_those_of_the_guide():
    expected = []
    for name in EVENTS:
        known, needed = known_columns(TABLES[name]), needed_columns(TABLES[name])
        expected.append(
            f"| `{name}` | {words(needed)} | {words(one for one in known if one not in needed) or '–'} |"
        )
    assert rows_of("table") == expected, "\n".join(expected)


def test_the_ways_of_writing_times_are_those_of_the_guide():
    assert [row.split("|")[1].strip() for row in rows_of("`--time-unit`")] == [
        f"`{unit}`" for unit in (ISO, DATE, EPOCH, *UNITS)
    ]
    assert f"`%{'`, `%'.join(DIRECTIVES)}`" in " ".join(GUIDE.split())


def read(table, columns, **said):
    layout = Csv(table=table, interval=said.pop("interval", None))
    job = Job(Path("a.csv"), Market(**{"exchange": "X"} | said), layout)
    with Spool() as spool:
        return MappedRows(layout, job, columns, Parsed(spool))


@each_row("table", EVENTS)
def test_what_the_guide_calls_needed_is_what_is_missed(table):
    needed = needed_columns(TABLES[table])
    read(table, needed)
    for name in needed:
        others = [one for one in needed if one != name]
        if name == "exchange":
            with pytest.raises(QueryError, match="exchange: left out"):
                read(table, others, exchange=None)
            continue
        with pytest.raises(QueryError, match=name):
            read(table, others)
        if name in CONSTANT_COLUMNS:
            read(table, others, **{name: "1m" if name == "interval" else "BTC"})


@pytest.mark.parametrize(("table", "instead"), [("trades", "buyer_is_maker"), ("liquidations", "order_side")])
def test_side_may_be_told_by_another_column(table, instead):
    needed = needed_columns(TABLES[table])
    read(table, [instead if name == "side" else name for name in needed])
    assert f"`{instead}`" in GUIDE


def test_the_layouts_of_the_guide_are_those_there_are():
    expected = [layouts_table(), amounts_table()]
    assert TABLES_OF_LAYOUTS.findall(GUIDE) == expected, "python tests/lake/ingest/test_guide.py"


@pytest.mark.slow
def test_the_help_of_layouts_is_filled_in_when_the_pages_are_built():
    conf = runpy.run_path(str(DOCS / "conf.py"))
    page = ["<!-- ingest commands -->"]
    conf["fill"](None, "reference/cli", page)
    assert all(f"## tidytape ingest {name}\n" in page[0] for name in LAYOUTS)
    assert "--funding-interval" in page[0]


if __name__ == "__main__":
    tables = iter((layouts_table(), amounts_table()))
    (DOCS / "guides" / "recorded_files.md").write_text(
        TABLES_OF_LAYOUTS.sub(lambda _: next(tables), GUIDE), "utf-8"
    )
