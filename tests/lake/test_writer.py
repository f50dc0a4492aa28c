"""Reading and writing are two types; mypy says the same of ``tests/typed/readers.py``."""

from __future__ import annotations

import pytest

from tidytape.lake import Lake, LakeReader, LakeWriter, hygiene
from tidytape.lake.ingest import Market, ingest_frame
from tidytape.lake.rollup import rollup

WRITERS = {name for name in vars(LakeWriter) if not name.startswith("__")}


def moments(lake: Lake) -> list[LakeReader]:
    past = lake.at({"trades": 0})
    return [lake.now(), past, past.now(), lake.now().at({"trades": 0})]


def test_what_reads_a_lake_has_no_method_that_writes(lake: Lake) -> None:
    for reader in (lake, *moments(lake)):
        assert [name for name in WRITERS if hasattr(reader, name)] == []


def test_a_moment_has_no_way_to_a_writer(lake: Lake) -> None:
    for moment in moments(lake):
        assert not isinstance(moment, Lake)
        assert not hasattr(moment, "writer")
        assert not hasattr(moment, "create")


@pytest.mark.parametrize(
    "write",
    [
        lambda lake, rows: hygiene.compact(lake, everything=True),
        lambda lake, rows: hygiene.vacuum(lake, dry_run=False),
        lambda lake, rows: rollup(lake, progress=False),
        lambda lake, rows: ingest_frame(
            rows, lake, market=Market(exchange="X", raw_symbol="Y"), time_unit="ns"
        ),
    ],
    ids=["compact", "vacuum", "rollup", "ingest_frame"],
)
def test_what_writes_takes_no_moment(lake: Lake, tape, write) -> None:
    rows = tape(0, 3)
    lake.writer().append("trades", rows, source="by hand")
    before = lake.version()
    for moment in moments(lake):
        with pytest.raises(AttributeError, match="writer"):
            write(moment, rows.drop("exchange", "raw_symbol", "quote_amount"))
    assert lake.version() == before


def test_writers_and_moments_say_of_which_lake_they_are(lake: Lake) -> None:
    assert repr(lake.writer()) == f"Lake({lake.path!r}).writer()"
    assert repr(lake.now()) == f"Lake({lake.path!r}).now()"
    assert repr(lake.at({"trades": 0})) == f"Lake({lake.path!r}).at({{'trades': 0}})"
