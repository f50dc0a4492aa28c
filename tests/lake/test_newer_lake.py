"""A lake that a newer release of the library made: its tables have what this release does not know.

This release reads such a table, and refuses by name, before anything is written, to write to it. ``quality`` is the
name of such a column here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import deltalake
import polars as pl
import pytest
from deltalake.schema import ArrayType, Field, PrimitiveType, StructType
from polars.testing import assert_frame_equal

from ingested import ingest
from simulated.everything import everything
from simulated.rollup_events import START
from tidytape.client import Client
from tidytape.errors import LakeError, TidytapeError
from tidytape.lake import MARKETS, PREDICTION_MARKETS, TABLES, Lake, Table, _delta, hygiene
from tidytape.lake.rollup import ROLLUP_TABLES, rollup
from tidytape.schema import Column

# One of the markets that are asked for has no rows in the window.
pytestmark = pytest.mark.filterwarnings("ignore::tidytape.errors.EmptyAnswerWarning")

EVERY = {**TABLES, **ROLLUP_TABLES}
REGISTRIES = {MARKETS.name, PREDICTION_MARKETS.name}
HOUR = 3_600 * 10**9
RAIN = {"exchange": "P", "condition_id": "0x1", "slug": "rain", "outcomes": [["Yes"]], "raw_symbols": [["1"]]}


def rain(reported: int) -> pl.DataFrame:
    return pl.DataFrame(RAIN | {"reported": [reported], "question": ["Will it rain?"]})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with rows in every table, rolled up."""
    path = tmp_path_factory.mktemp("whole") / "lake"
    lake = everything(path)
    euro = {"quote_coin": ["EUR"], "timestamp": [1_723_161_600 * 10**9], "usd": [1.1]}
    lake.writer().append("quote_rates", pl.DataFrame(euro), source="euro")
    lake.writer().register_prediction_markets(rain(5))
    rollup(lake, progress=False)
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "lake"))


def stored(path: Path, table: str) -> pl.DataFrame:
    return pl.read_delta(f"{path}/{table}")


def versions(path: Path) -> dict[str, int]:
    return {name: deltalake.DeltaTable(f"{path}/{name}").version() for name in EVERY}


def add_column(path: Path, table: str, dtype: object = None, value: str = "'good'") -> None:
    """Give a table a column that may be null, with a value in each row."""
    delta = deltalake.DeltaTable(f"{path}/{table}")
    delta.alter.add_columns([Field("quality", dtype or PrimitiveType("string"))])  # type: ignore[arg-type]
    deltalake.DeltaTable(f"{path}/{table}").update({"quality": value})


def make_anew(
    path: Path, table: str, columns: Callable[[Column], Column], *more: Column, **values: pl.Expr
) -> None:
    """Make a table anew with other columns, and its rows."""
    known = EVERY[table]
    rows = stored(path, table)
    shutil.rmtree(path / table)
    changed = replace(known, columns=(*map(columns, known.columns), *more))
    _delta.create(f"{path}/{table}", changed, None)
    deltalake.write_deltalake(f"{path}/{table}", rows.with_columns(**values).to_arrow(), mode="append")


def later_rows(lake: Lake, table: Table) -> pl.DataFrame:
    """The last rows of an event table once more, an hour later."""
    rows = lake.scan(table.name).sort("timestamp").tail(3).collect()
    later = rows.with_columns(pl.col("timestamp") + 24 * HOUR)
    if "id" in table.names:
        later = later.with_columns(pl.col("id") + "-later")
    if "last_id" in table.names:
        later = later.with_columns(pl.col("last_id", "first_id") + 10**12)
    return later


def write_to(lake: Lake, name: str) -> None:
    """Write to a table in the way it is written to."""
    if name == MARKETS.name:
        new = {"exchange": ["X", "NEW"], "raw_symbol": ["OLDUSDT", "NEWUSDT"], "full_name": ["Old", "New"]}
        lake.writer().register(pl.DataFrame(new))
    elif name == PREDICTION_MARKETS.name:
        lake.writer().register_prediction_markets(rain(9))
    elif name in TABLES:
        assert lake.writer().append(name, later_rows(lake, TABLES[name]), source="later").rows_new
    else:
        raw = next(
            raw for raw in ("trades", "open_interest", "funding", "liquidations", "book") if raw in RAW[name]
        )
        for hours in (0, 24):  # minutes that are kept are followed by new ones
            rows = later_rows(lake, TABLES[raw]).with_columns(pl.col("timestamp") + hours * HOUR)
            if "id" in rows.columns:
                rows = rows.with_columns(pl.col("id") + f"-{hours}")
            if "last_id" in rows.columns:
                rows = rows.with_columns(pl.col("last_id", "first_id") + hours)
            lake.writer().append(raw, rows, source=f"later {hours}")
        rollup(lake, progress=False)


RAW = {
    "candles_1m": "trades",
    "candles_of_both_1m": "trades",
    "profile_1m": "trades",
    "open_interest_1m": "open_interest",
    "funding_1m": "funding",
    "liquidations_1m": "liquidations",
    "book_1m": "book",
}


def answers(path: Path) -> dict[str, pl.DataFrame]:
    ask = {"exchange": "X", "coin": "BTC", "start": 1_700_000_000, "end": 1_700_010_000}
    with Client.local(path) as client:
        return {
            "candles": client.candles(interval="1m", **ask),
            "markets": client.markets(),
        }


def volume(path: Path) -> float:
    """What all markets of the lake traded."""
    with Client.local(path) as client:
        ask = {"exchange": "X", "coin": "BTC", "start": START // 10**9, "end": START // 10**9 + 86_400}
        return float(client.candles(interval="1m", **ask)["volume"].sum())


def test_every_table_is_tried() -> None:
    assert RAW.keys() == ROLLUP_TABLES.keys()


@pytest.mark.long
@pytest.mark.parametrize("tables", [[*TABLES], *([name] for name in ROLLUP_TABLES)], ids=lambda one: one[-1])
def test_a_table_with_an_unknown_column_is_read_and_not_written_to(path: Path, tables: list[str]) -> None:
    asked = answers(path)
    for table in tables:
        add_column(path, table)
    before = {table: stored(path, table) for table in tables}
    lake = Lake(path)
    for name, answer in answers(path).items():
        assert_frame_equal(answer, asked[name])
    for table in tables:
        refused(path, table, f"table '{table}': column 'quality' is not known to this release")
        kept = versions(path)
        for change in (hygiene.compact, hygiene.vacuum):
            if table in REGISTRIES and change is hygiene.compact:  # which are never compacted
                continue
            with pytest.raises(LakeError, match=f"table '{table}': column 'quality' is not known"):
                change(lake, tables=[table])
        assert versions(path) == kept
    found = {one.check for one in hygiene.check(lake, tables=tables, progress=False).findings}
    assert found <= {"columns", "order"}  # another tool wrote the column, in no order
    for table, rows in before.items():
        assert_frame_equal(stored(path, table), rows, check_row_order=False)


def late_event(lake: Lake, table: str) -> None:
    """Add an event to a minute that a rollup has made: one of the minute once more, with another key."""
    exchange, symbol, minute = (
        stored(Path(lake.path), table).sort("timestamp").select("exchange", "raw_symbol", "timestamp").row(0)
    )
    events = lake.scan(RAW[table], exchange=exchange, raw_symbol=symbol, start=minute).sort("timestamp")
    late = events.head(1).collect().with_columns(pl.col("timestamp") + 1)
    if "id" in late.columns:
        late = late.with_columns(id=pl.lit("late"))
    if "last_id" in late.columns:
        late = late.with_columns(pl.col("price") + 0.01)
    assert lake.writer().append(RAW[table], late, source="late").rows_new == 1


@pytest.mark.long
@pytest.mark.parametrize("table", ROLLUP_TABLES)
def test_a_rollup_leaves_minutes_with_an_unknown_column_alone(path: Path, table: str) -> None:
    add_column(path, table)
    lake = Lake(path)
    late_event(lake, table)
    before, rows = versions(path), stored(path, table)
    with pytest.raises(LakeError, match=f"table '{table}': column 'quality' is not known"):
        rollup(lake, progress=False)
    assert versions(path) == before
    assert_frame_equal(stored(path, table), rows, check_row_order=False)
    report = hygiene.check(lake, tables=[table], checks=["conserved"], progress=False)
    assert report.sound  # minutes that late events changed are not read


@pytest.mark.slow
def test_answers_have_the_late_event_that_a_rollup_refuses(path: Path) -> None:
    before = volume(path)
    for table in ROLLUP_TABLES:
        add_column(path, table)
    lake = Lake(path)
    late_event(lake, "candles_1m")
    with pytest.raises(LakeError, match="column 'quality' is not known"):
        rollup(lake, progress=False)
    first = lake.scan("trades").filter(id="late").collect()["amount"].item()
    assert volume(path) == pytest.approx(before + first)


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (PrimitiveType("integer"), "7"),
        (PrimitiveType("decimal(10,2)"), "1.25"),
        (PrimitiveType("timestamp"), "'2024-05-01T00:00:00Z'"),
        (PrimitiveType("date"), "'2024-05-01'"),
        (PrimitiveType("boolean"), "true"),
        (ArrayType(PrimitiveType("string")), "make_array('a', 'b')"),
        (StructType([Field("a", PrimitiveType("long"))]), "named_struct('a', 7)"),
    ],
    ids=str,
)
@pytest.mark.parametrize("table", ["trades", "candles_1m"])
def test_an_unknown_column_of_any_dtype_is_passed_over(
    path: Path, table: str, dtype: object, value: str
) -> None:
    rows = Lake(path).scan(table).collect() if table in TABLES else stored(path, table)
    add_column(path, table, dtype, value)
    if table in TABLES:
        assert_frame_equal(Lake(path).scan(table).collect(), rows, check_row_order=False)
    refused(path, table, f"table '{table}': column 'quality' is not known")
    types = {field.name: field.type for field in deltalake.DeltaTable(f"{path}/{table}").schema().fields}
    assert types["quality"] == dtype


def refused(path: Path, table: str, match: str) -> None:
    """Whatever would write to a table is refused by name, and nothing at all is written."""
    before = versions(path)
    lake = Lake(path)
    with pytest.raises(TidytapeError, match=match):
        write_to(lake, table)
    if table in TABLES:
        assert versions(path) == before
    else:
        assert {name: version for name, version in versions(path).items() if name in ROLLUP_TABLES} == {
            name: version for name, version in before.items() if name in ROLLUP_TABLES
        }


@pytest.mark.long
@pytest.mark.parametrize("table", EVERY)
def test_an_unknown_column_that_may_not_be_null_is_refused_by_name(path: Path, table: str) -> None:
    more = Column("quality", "string", "", "")
    make_anew(path, table, lambda column: column, more, quality=pl.lit("good"))
    rows = stored(path, table)
    refused(path, table, f"table '{table}': column 'quality' is not known")
    assert_frame_equal(stored(path, table), rows, check_row_order=False)


@pytest.mark.long
@pytest.mark.parametrize("table", EVERY)
def test_a_column_of_another_dtype_is_refused_by_name(path: Path, table: str) -> None:
    name = next(column.name for column in EVERY[table].columns if column.dtype in {"float64", "list[string]"})
    changed = pl.col(name).cast(pl.String) if EVERY[table][name].dtype == "float64" else pl.lit("changed")

    def as_text(column: Column) -> Column:
        return replace(column, dtype="string") if column.name == name else column

    make_anew(path, table, as_text, **{name: changed})
    match = f"table '{table}': column '{name}' is string"
    refused(path, table, match)
    before = versions(path)
    lake = Lake(path)
    with pytest.raises(LakeError, match=match):
        hygiene.vacuum(lake, retention_hours=0, dry_run=False)
    with pytest.raises(LakeError, match=match):
        _ = lake.scan(table) if table in TABLES else rollup(lake, progress=False)
    if table not in REGISTRIES:  # which are never compacted
        with pytest.raises(LakeError, match=match):
            hygiene.compact(lake, everything=True, progress=False)
    report = hygiene.check(lake, tables=[table], progress=False)
    assert not report.sound
    assert match in report.findings[0].example
    assert versions(path) == before


@pytest.mark.slow
@pytest.mark.parametrize("table", ["trades", "markets", "candles_1m"])
def test_a_format_that_this_release_does_not_write_is_refused_by_name(path: Path, table: str) -> None:
    delta = deltalake.DeltaTable(f"{path}/{table}")
    delta.alter.add_feature(deltalake.TableFeatures.CheckConstraints, allow_protocol_versions_increase=True)
    match = f"table '{table}': has the format 'checkConstraints'"
    refused(path, table, match)
    before = versions(path)
    with pytest.raises(LakeError, match=match):
        hygiene.vacuum(Lake(path), dry_run=False)
    if table not in REGISTRIES:
        with pytest.raises(LakeError, match=match):
            hygiene.compact(Lake(path), progress=False)
    assert versions(path) == before


TRADES_CSV = "time,px,qty,side\n1693929601,100.5,2,buy\n"


@pytest.mark.slow
@pytest.mark.parametrize("table", ["trades", "markets"])
def test_an_ingest_into_a_newer_lake_is_refused_as_a_whole(path: Path, tmp_path: Path, table: str) -> None:
    make_anew(path, table, lambda column: column, Column("quality", "string", "", ""), quality=pl.lit("good"))
    before = versions(path)
    file = tmp_path / "trades.csv"
    file.write_text(TRADES_CSV)
    columns = {"timestamp": "time", "price": "px", "amount": "qty"}
    with pytest.raises(LakeError, match=f"table '{table}': column 'quality'"):
        ingest(file, Lake(path), layout="csv", exchange="COINBASE", raw_symbol="BTC-USD", columns=columns)
    assert versions(path) == before


@pytest.mark.slow
def test_the_check_tells_of_columns_that_it_does_not_look_at(path: Path) -> None:
    add_column(path, "trades")
    report = hygiene.check(Lake(path), tables=["trades"], checks=["keys"], progress=False)
    assert report.sound
    assert [(one.check, one.severity, one.example) for one in report.findings] == [
        ("columns", "advice", "'quality', which this release does not know: not checked")
    ]
