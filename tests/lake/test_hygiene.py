"""What is in a lake, and whether it is sound."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import deltalake
import polars as pl
import pytest

from ingested import ingest
from lakes import as_stored
from tidytape.aggregate import book_at, book_runs
from tidytape.errors import QueryError
from tidytape.lake import BOOK, TABLES, TRADES, Lake, hygiene
from tidytape.lake.hygiene import _checks as checks
from tidytape.lake.hygiene import _rebuilt
from tidytape.lake.hygiene._checks import CHECKS
from tidytape.lake.rollup import ROLLUP_TABLES

EVERY_TABLE = [*TABLES.values(), *ROLLUP_TABLES.values()]
SECOND = 10**9
EPOCH = 1_700_000_000 * SECOND
DAY = 86_400 * SECOND


def found(lake: Lake, **more: object) -> list[tuple[str, str, int]]:
    report = hygiene.check(lake, progress=False, **more)
    return [(finding.check, finding.market, finding.count) for finding in report.findings]


def put_raw(lake: Lake, table: str, frame: pl.DataFrame, **more: object) -> None:
    """Append rows as another tool would, past every guard of ours."""
    deltalake.write_deltalake(f"{lake.path}/{table}", as_stored(frame, table), mode="append", **more)


def levels(*rows: tuple[int, int, bool, str, float, float], symbol: str = "BTCUSDT") -> pl.DataFrame:
    """Book events: (timestamp, last_id, is_snapshot, side, price, size)."""
    names = ["timestamp", "last_id", "is_snapshot", "side", "price", "size"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return BOOK.conform(
        frame.with_columns(
            exchange=pl.lit("BINANCE"), raw_symbol=pl.lit(symbol), sequence=pl.int_range(pl.len())
        )
    )


# -- info ------------------------------------------------------------------------------------------------------------


def test_info_says_what_each_table_holds(lake, tape):
    lake.writer().append("trades", tape(0, 10), source="a")
    lake.writer().append("trades", tape(20, 30, raw_symbol="ETHUSDT"), source="b")
    table = hygiene.info(lake)
    assert table["table"].to_list() == list(TABLES)
    trades = table.row(0, named=True)
    assert trades["bytes"] > 0
    assert {name: trades[name] for name in ("rows", "files", "markets", "first", "last", "version")} == {
        "rows": 20,
        "files": 2,
        "markets": 2,
        "first": datetime.fromtimestamp(1_700_000_000, UTC),
        "last": datetime.fromtimestamp(1_700_000_029, UTC),
        "version": 2,
    }
    assert table.row(1, named=True)["first"] is None


def test_info_of_each_market(lake, tape):
    lake.writer().append("trades", tape(0, 10), source="a")
    lake.writer().append("trades", tape(20, 35, raw_symbol="A/B=%"), source="b")
    table = hygiene.markets(lake)
    assert table.select("table", "exchange", "raw_symbol", "coin", "rows", "files").rows() == [
        ("trades", "BINANCE", "A/B=%", None, 15, 1),
        ("trades", "BINANCE", "BTCUSDT", None, 10, 1),
    ]


def test_info_opens_no_file(lake, tape):
    lake.writer().append("trades", tape(0, 10), source="a")
    for file in Path(lake.path).rglob("part-*.parquet"):
        file.unlink()
    assert hygiene.info(lake)["rows"][0] == 10


@pytest.mark.slow
def test_info_counts_what_another_tool_noted_no_statistics_of(lake, tape):
    lake.writer().append("trades", tape(0, 10), source="a")
    deltalake.DeltaTable(f"{lake.path}/trades").alter.set_table_properties(
        {"delta.dataSkippingStatsColumns": "id"}
    )
    put_raw(lake, "trades", tape(10, 14))
    put_raw(lake, "trades", tape(14, 20, raw_symbol="ETHUSDT"))
    table = hygiene.markets(lake)
    assert table.select("raw_symbol", "rows", "files").rows() == [("BTCUSDT", 14, 2), ("ETHUSDT", 6, 1)]
    assert table["last"].dt.epoch("s").to_list() == [1_700_000_013, 1_700_000_019]
    assert hygiene.info(lake)["rows"][0] == 20


# -- check -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sound_lake(lake, tape):
    lake.writer().append("trades", tape(0, 100), source="a")
    lake.writer().append("trades", tape(50, 150), source="b")
    report = hygiene.check(lake, progress=False)
    assert report.sound
    assert report.findings == ()
    assert report.rows == 150
    assert report.checks == tuple(check.name for check in CHECKS)
    assert str(report) == f"150 rows, {len(CHECKS)} checks: sound"
    assert report.frame().height == 0


@pytest.mark.recorded
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["binance-spot_ws_btcusdt_20240808.gz", "binance-usdm_ws_btcusdt_20240808.gz"]
)
def test_recorded_tapes_are_sound(lake, recorded, name):
    ingest(recorded / name, lake, layout="binance-ws", exchange="BINANCE", skip_bad=True, progress=False)
    report = hygiene.check(lake, progress=False)
    assert report.sound, str(report)
    assert report.rows > 100_000


def test_rows_that_came_twice(lake, tape):
    lake.writer().append("trades", tape(0, 100), source="a")
    put_raw(lake, "trades", tape(40, 45))
    report = hygiene.check(lake, progress=False)
    assert not report.sound
    assert [(f.check, f.count) for f in report.findings] == [("keys", 5), ("sequence", 5)]
    assert report.findings[0].example == "id '40' has 2 rows"
    assert report.frame().row(0) == ("keys", "error", "trades", "BINANCE BTCUSDT", 5, "id '40' has 2 rows")


@pytest.mark.slow
def test_keys_are_compared_in_shares(lake, tape, monkeypatch):
    monkeypatch.setattr(checks, "_AT_ONCE", 7)
    lake.writer().append("trades", tape(0, 100), source="a")
    put_raw(lake, "trades", tape(40, 75))
    assert found(lake, checks=["keys"]) == [("keys", "BINANCE BTCUSDT", 35)]


def test_a_key_with_a_null_is_nobodys_duplicate(lake):
    row = (EPOCH, None, True, "BID", 10.0, 1.0)
    put_raw(lake, "book", levels(row, row).with_columns(pl.col("last_id").cast(pl.Int64)))
    assert found(lake, checks=["keys"]) == []


@pytest.mark.slow
def test_a_file_that_is_gone_or_spoilt(lake, tape):
    for symbol in ("A", "B", "C"):
        lake.writer().append("trades", tape(0, 10, raw_symbol=symbol), source=symbol)
    gone = next(Path(lake.path).rglob("raw_symbol=A/*.parquet"))
    gone.unlink()
    next(Path(lake.path).rglob("raw_symbol=B/*.parquet")).write_bytes(b"PAR1 nothing PAR1")
    put_raw(lake, "trades", tape(3, 5, raw_symbol="C"))
    report = hygiene.check(lake, progress=False)
    assert [(f.check, f.market, f.count) for f in report.findings] == [
        ("files", "BINANCE A", 1),
        ("files", "BINANCE B", 1),
        ("keys", "BINANCE C", 2),
        ("sequence", "BINANCE C", 2),
    ]
    assert gone.name in report.findings[0].example
    assert "is missing" in report.findings[0].example


def test_a_file_of_other_rows_than_the_log_says(lake, tape):
    lake.writer().append("trades", tape(0, 10), source="a")
    file = next(Path(lake.path).rglob("part-*.parquet"))
    pl.read_parquet(file, hive_partitioning=False).head(4).write_parquet(file)
    (finding,) = hygiene.check(lake, progress=False, checks=["files"]).findings
    assert "holds 4 rows, the log says 10" in finding.example


@pytest.mark.slow
def test_nulls_where_none_may_be(lake, tape):
    lake.writer().append("trades", tape(0, 10), source="a")
    # As another engine leaves it that lets the column be null.
    frame = lake.scan("trades").collect().sort("timestamp")
    holes = frame.with_columns(
        timestamp=pl.when(pl.col("sequence") < 2).then(None).otherwise("timestamp"),
        price=pl.when(pl.col("sequence") == 5).then(None).otherwise("price"),
    )
    deltalake.write_deltalake(
        f"{lake.path}/trades",
        holes,
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=TRADES.partitions,
    )
    assert found(lake) == [("nulls", "BINANCE BTCUSDT", 2), ("nulls", "BINANCE BTCUSDT", 1)]


def test_a_column_that_is_gone(lake, tape):
    frame = tape(0, 3).drop("price")
    deltalake.write_deltalake(
        f"{lake.path}/trades",
        frame,
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=TRADES.partitions,
    )
    (finding,) = hygiene.check(lake, progress=False).findings
    assert finding.check == "columns"
    assert "no column 'price'" in finding.example


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"timestamp": 1_700_000_000}, "times"),  # seconds where nanoseconds belong
        ({"timestamp": 4_000_000_000 * SECOND}, "times"),
        ({"amount": 0.0}, "amounts"),
        ({"amount": -1.0}, "amounts"),
        ({"amount": float("nan")}, "amounts"),
        ({"amount": float("inf")}, "amounts"),
        ({"price": float("nan")}, "amounts"),
    ],
)
def test_values_that_cannot_be(lake, tape, changes, name):
    lake.writer().append("trades", tape(0, 10), source="a")
    put_raw(
        lake, "trades", tape(10, 11).with_columns(**{key: pl.lit(value) for key, value in changes.items()})
    )
    (finding,) = hygiene.check(lake, progress=False).findings
    assert (finding.check, finding.count) == (name, 1)
    assert "id '10'" in finding.example


def test_trades_of_one_time_and_place(lake, tape):
    put_raw(lake, "trades", tape(0, 4).with_columns(timestamp=pl.lit(EPOCH), sequence=pl.lit(1, pl.Int64)))
    assert found(lake) == [("sequence", "BINANCE BTCUSDT", 1)]


@pytest.mark.slow
def test_rows_out_of_the_order_of_time_are_advice(lake, tape):
    put_raw(lake, "trades", tape(0, 10).reverse())
    report = hygiene.check(lake, progress=False)
    assert report.sound
    assert [(f.check, f.severity) for f in report.findings] == [("order", "advice")]
    assert len(hygiene.compact(lake, everything=True, progress=False)) == 1
    assert found(lake) == []


# -- books -----------------------------------------------------------------------------------------------------------

GOOD = [(EPOCH, 5, True, "BID", 10.0, 1.0), (EPOCH, 5, True, "ASK", 11.0, 1.0)]


def test_a_snapshot_that_is_crossed(lake):
    lake.writer().append(
        "book", levels((EPOCH, 5, True, "BID", 11.0, 1.0), (EPOCH, 5, True, "ASK", 11.0, 1.0)), source="a"
    )
    report = hygiene.check(lake, progress=False, checks=["snapshots"])
    (finding,) = report.findings
    assert finding.count == 1
    assert finding.example == "2023-11-14T22:13:20+00:00: bid 11.0 is not below ask 11.0"


@pytest.mark.slow
def test_a_rebuilt_rebuilt_that_is_crossed(lake):
    minute = 60 * SECOND
    events = levels(
        *GOOD,
        (EPOCH + minute, 6, False, "BID", 12.0, 1.0),
        (EPOCH + 2 * minute, 7, False, "BID", 10.5, 1.0),
        (EPOCH + 3 * minute, 8, False, "BID", 12.0, 0.0),
    )
    lake.writer().append("book", events, source="a")
    (finding,) = hygiene.check(lake, progress=False).findings
    assert (finding.check, finding.count) == ("books", 2)
    assert finding.example == "2023-11-14T22:14:59+00:00: bid 12.0 is not below ask 11.0"


@pytest.mark.slow
@pytest.mark.parametrize("with_ids", [True, False])
def test_a_rebuilt_lives_on_from_day_to_day(lake, with_ids):
    """One snapshot, then days of changes: a level of the first day crosses one of the third."""
    rows = [
        *GOOD,
        (EPOCH + DAY, 6, False, "BID", 9.0, 1.0),
        (EPOCH + 2 * DAY, 7, False, "ASK", 10.0, 1.0),
        (EPOCH + 5 * DAY, 8, False, "ASK", 10.0, 0.0),
    ]
    events = levels(*rows)
    if not with_ids:
        events = events.with_columns(last_id=pl.lit(None, pl.Int64))
    lake.writer().append("book", events, source="a")
    report = hygiene.check(lake, progress=False, checks=["books"])
    assert [(f.count, f.example[:10]) for f in report.findings] == [(1, "2023-11-16")]


@pytest.mark.slow
def test_a_rebuilt_that_was_repaired_on_an_earlier_day_is_not_crossed(lake):
    rows = [
        *GOOD,
        (EPOCH + DAY, 6, False, "BID", 10.0, 0.0),
        (EPOCH + 2 * DAY, 7, False, "ASK", 10.0, 1.0),
        (EPOCH + 3 * DAY, 9, True, "BID", 20.0, 1.0),
        (EPOCH + 3 * DAY, 9, True, "ASK", 21.0, 1.0),
        (EPOCH + 4 * DAY, 10, False, "BID", 20.5, 1.0),
    ]
    lake.writer().append("book", levels(*rows), source="a")
    assert found(lake) == []


@pytest.mark.slow
def test_a_snapshot_without_an_id_after_a_day_with_ids_counts(lake):
    rows = [*GOOD, (EPOCH + DAY, None, True, "BID", 30.0, 1.0), (EPOCH + DAY, None, True, "ASK", 29.0, 1.0)]
    lake.writer().append("book", levels(*rows), source="a")
    assert [check for check, _, _ in found(lake)] == ["snapshots", "books"]


@pytest.mark.recorded
@pytest.mark.slow
def test_rebuilts_rebuilt_in_pieces_are_the_rebuilts_rebuilt_at_once(lake, recorded, monkeypatch):
    """Days of 50 seconds cut a recorded book in seven; at each cut the book carried on is the whole tape's."""
    log = recorded / "binance-spot_ws_btcusdt_20240808.gz"
    ingest(log, lake, layout="binance-ws", exchange="BINANCE", skip_bad=True, progress=False)
    events = lake.scan("book").collect()
    whole = book_runs(events)
    monkeypatch.setattr(_rebuilt, "DAY", 50 * SECOND)
    monkeypatch.setattr(_rebuilt, "MINUTE", 5 * SECOND)
    seen = []
    crossed = _rebuilt._crossed

    def spied(subject, runs, mine):
        ends = mine.select(
            "exchange", "raw_symbol", timestamp=(pl.col("timestamp") // (5 * SECOND) + 1) * 5 * SECOND - 1
        ).unique()
        key = ["timestamp", "side", "price", "size"]
        # The last instant may lie beyond what the piece has read.
        ends = ends.filter(pl.col("timestamp") <= mine["timestamp"].max())
        here, there = (book_at(frame, ends).select(key).sort(key) for frame in (runs, whole))
        seen.append((ends.height, here.height, here.equals(there)))
        return crossed(subject, runs, mine)

    monkeypatch.setattr(_rebuilt, "_crossed", spied)
    assert found(lake, checks=["books"]) == []
    assert len(seen) >= 7
    assert all(same for _, _, same in seen), seen
    assert sum(height for _, height, _ in seen) > 10_000


# -- choosing --------------------------------------------------------------------------------------------------------


def test_only_some_tables_and_checks(lake, tape):
    lake.writer().append("trades", tape(0, 10), source="a")
    put_raw(lake, "trades", tape(0, 1))
    assert found(lake, tables=["book"]) == []
    assert found(lake, checks=["sequence"]) == [("sequence", "BINANCE BTCUSDT", 1)]


@pytest.mark.parametrize("wrong", [{"tables": ["trade"]}, {"checks": ["key"]}])
def test_names_that_are_none(lake, wrong):
    with pytest.raises(QueryError, match="did you mean"):
        hygiene.check(lake, **wrong)


def test_what_cannot_be_checked_is_said(lake, tape, monkeypatch):
    lake.writer().append("trades", tape(0, 10), source="a")

    def gone_meanwhile(subject):
        raise FileNotFoundError("another process deleted it")

    monkeypatch.setattr(checks, "_repeated", lambda subject, key: gone_meanwhile(subject))
    report = hygiene.check(lake, progress=False)
    assert not report.sound
    assert all("could not be checked" in finding.example for finding in report.findings)


def test_every_check_says_what_must_hold():
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.holds and any(map(check.concerns, EVERY_TABLE)) for check in CHECKS)


@pytest.mark.slow
def test_what_amounts_counted_in_their_files_is_shown(lake, tape):
    lake.writer().append("trades", tape(0, 2), source="a")
    lake.writer().append("trades", tape(0, 2, raw_symbol="BTCUSD_PERP"), source="b")
    lake.writer().append("trades", tape(0, 2, raw_symbol="BTC-PERP"), source="c")
    market = {"exchange": "BINANCE"}
    lake.writer().register(
        pl.DataFrame(
            [
                market | {"raw_symbol": "BTCUSDT"},
                market | {"raw_symbol": "BTCUSD_PERP", "contract": "INVERSE", "contract_size": 100.0},
                market | {"raw_symbol": "BTC-PERP", "amount_units": "candles=quote,trades=coin"},
            ]
        )
    )
    shown = hygiene.markets(lake).select("raw_symbol", "recorded_in")
    assert shown.sort("raw_symbol").rows() == [
        ("BTC-PERP", "coin"),
        ("BTCUSDT", None),
        ("BTCUSD_PERP", "INVERSE 100"),
    ]
