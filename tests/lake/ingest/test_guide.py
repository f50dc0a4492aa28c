"""The guide to recorded files says what the code takes."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tidytape.errors import QueryError
from tidytape.lake import TABLES
from tidytape.lake.batch import Spool
from tidytape.lake.ingest import LAYOUTS
from tidytape.lake.ingest._time import DATE, DIRECTIVES, ISO, UNITS
from tidytape.lake.ingest.layout import Job, Parsed
from tidytape.lake.ingest.mapped import EVENTS, SAID, Csv, Rows, known_columns, needed_columns
from tidytape.lake.ingest.market import Market

DOCS = Path(__file__).parents[3] / "docs"
GUIDE = (DOCS / "guides" / "recorded_files.md").read_text("utf-8")


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
    assert rows_of("rows") == expected, "\n".join(expected)


def test_the_ways_of_writing_times_are_those_of_the_guide():
    assert [row.split("|")[1].strip() for row in rows_of("`--time-unit`")] == [
        f"`{unit}`" for unit in (ISO, DATE, *UNITS)
    ]
    assert f"`%{'`, `%'.join(DIRECTIVES)}`" in " ".join(GUIDE.split())


def read(table, columns, **said):
    layout = Csv(table=table, interval=said.pop("interval", None))
    job = Job(Path("a.csv"), Market(**{"exchange": "X"} | said), layout)
    with Spool() as spool:
        return Rows(layout, job, columns, Parsed(spool))


@pytest.mark.parametrize("table", EVENTS)
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
        if name in SAID:
            read(table, others, **{name: "1m" if name == "interval" else "BTC"})


@pytest.mark.parametrize(("table", "instead"), [("trades", "buyer_is_maker"), ("liquidations", "order_side")])
def test_side_may_be_told_by_another_column(table, instead):
    needed = needed_columns(TABLES[table])
    read(table, [instead if name == "side" else name for name in needed])
    assert f"`{instead}`" in GUIDE


def test_the_tables_of_layouts_are_filled_in_when_the_pages_are_built():
    conf = runpy.run_path(str(DOCS / "conf.py"))
    source = [GUIDE]
    conf["fill"](None, "guides/recorded_files", source)
    for name, layout in LAYOUTS.items():
        assert f"| `{name}` | {layout.__doc__.splitlines()[0]} |" in source[0]
        for decides in layout.amounts.values():
            assert f"| {decides} |" in source[0]
    page = ["<!-- ingest commands -->"]
    conf["fill"](None, "reference/cli", page)
    assert all(f"## tidytape ingest {name}\n" in page[0] for name in LAYOUTS)
    assert "--funding-interval" in page[0]
