"""Renamed markets: what the registry notes, and what a fetch before or after the date says."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tidytape
from lakes import empty_lake
from tables import each_row
from tidytape.errors import QueryError
from tidytape.lake import MARKETS, Lake
from tidytape.query import MarketsQuery
from tidytape.service.answer._inventory import Inventory
from tidytape.service.answer._markets import MarketStatistics, markets_page
from tidytape.wire import decode_markets
from tidytape.wire._notes import read_notes, write_notes

HOUR = 3_600
BEGIN = 1_725_148_800
BEGIN_TEXT = "2024-09-01T00:00:00Z"
RENAMED = BEGIN + 5 * HOUR
AT = datetime.fromtimestamp(RENAMED, UTC)
NAMES = {"MATICUSDT": "MATIC", "POLUSDT": "POL", "BTCUSDT": "BTC"}


def trades(symbol: str, *hours: float) -> pl.DataFrame:
    rows = [
        {
            "exchange": "X", "raw_symbol": symbol, "id": f"{hour}", "timestamp": int((BEGIN + hour * HOUR) * 10**9),
            "sequence": n, "side": "BUY", "price": 0.5, "amount": 2.0, "quote_amount": 1.0,
        }
        for n, hour in enumerate(hours)
    ]  # fmt: skip
    return pl.DataFrame(rows)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """MATIC until five o'clock, and POL from then on; a third market in all hours."""
    lake = empty_lake(tmp_path / "lake")
    writer = lake.writer()
    hours = {"MATICUSDT": range(5), "POLUSDT": range(5, 10), "BTCUSDT": range(10)}
    for symbol, coin in NAMES.items():
        writer.append("trades", trades(symbol, *hours[symbol]), source=symbol)
        market = {"exchange": "X", "raw_symbol": symbol, "coin": coin, "quote_coin": "USDT"}
        since = trades(symbol, *hours[symbol])["timestamp"].min()
        names = {"normalized_symbol": f"{coin}-USDT", "category": "SPOT", "available_since": since}
        writer.register(pl.DataFrame([market | names]))
    return lake


@pytest.mark.slow
@each_row("at", [RENAMED, AT, "2024-09-01T05:00:00Z", "2024-09-01T07:00:00+02:00"])
def test_the_registry_notes_it(at: Any, tmp_path: Path) -> None:
    lake = empty_lake(tmp_path / str(at).replace(":", ""))
    lake.writer().register(
        pl.DataFrame({"exchange": ["X"], "raw_symbol": ["MATICUSDT"], "block_size": [2.0]})
    )
    lake.writer().rename("X", "MATICUSDT", "POLUSDT", at=at)
    row = lake.markets().row(0, named=True)
    assert (row["renamed_to"], row["renamed_at"], row["block_size"]) == ("POLUSDT", RENAMED * 10**9, 2.0)
    version = lake.version()
    lake.writer().rename("X", "MATICUSDT", "POLUSDT", at=at)
    assert lake.version() == version


def test_only_a_call_that_says_so_replaces_an_earlier_one(lake: Lake) -> None:
    def noted() -> tuple[Any, ...]:
        return lake.markets().filter(raw_symbol="MATICUSDT").select("renamed_to", "renamed_at").row(0)

    lake.writer().rename("X", "MATICUSDT", "PLOUSDT", at=BEGIN, replace=True)
    earlier = f"PLOUSDT, to which MATICUSDT was renamed at {BEGIN_TEXT}, or replace"
    for new, at in (("POLUSDT", BEGIN), ("PLOUSDT", RENAMED), ("POLUSDT", RENAMED)):
        with pytest.raises(QueryError, match=f"new: got '{new}', expected {earlier}"):
            lake.writer().rename("X", "MATICUSDT", new, at=at)
        assert noted() == ("PLOUSDT", BEGIN * 10**9)
    lake.writer().rename("X", "MATICUSDT", "PLOUSDT", at=BEGIN)
    lake.writer().rename("X", "MATICUSDT", "POLUSDT", at=date(2024, 9, 2), replace=True)
    assert noted() == ("POLUSDT", (BEGIN + 24 * HOUR) * 10**9)


def test_what_cannot_be_a_renaming_is_refused(lake: Lake) -> None:
    writer = lake.writer()
    with pytest.raises(
        QueryError, match=r"old: got 'MATICUSD', expected a registered market of X.*'MATICUSDT'"
    ):
        writer.rename("X", "MATICUSD", "POLUSDT", at=RENAMED)
    with pytest.raises(QueryError, match="old: got 'MATICUSDT', expected a registered market of Y"):
        writer.rename("Y", "MATICUSDT", "POLUSDT", at=RENAMED)
    with pytest.raises(QueryError, match="new: got 'MATICUSDT', expected a symbol that does not lead back"):
        writer.rename("X", "MATICUSDT", "MATICUSDT", at=RENAMED)
    for name in ("", "../x", "a/../x", "..", "./x", "a\\.."):
        with pytest.raises(QueryError, match="new"):
            writer.rename("X", "MATICUSDT", name, at=RENAMED)
    with pytest.raises(QueryError, match="at: got 'soon'"):
        writer.rename("X", "MATICUSDT", "POLUSDT", at="soon")
    writer.rename("X", "MATICUSDT", "POLUSDT", at=RENAMED)
    writer.rename("X", "POLUSDT", "NEXTUSDT", at=RENAMED + HOUR)
    writer.register(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["NEXTUSDT"]}))
    with pytest.raises(
        QueryError, match="new: got 'MATICUSDT', expected a symbol that does not lead back to NEXTUSDT"
    ):
        writer.rename("X", "NEXTUSDT", "MATICUSDT", at=RENAMED + 2 * HOUR)


@pytest.mark.slow
def test_the_lists_have_both_facts_and_those_of_other_markets_do_not_change(lake: Lake) -> None:
    def body() -> bytes:
        now = lake.now()
        statistics = MarketStatistics(now, clock=lambda: (BEGIN + 10 * HOUR) * 10**9)
        return markets_page(Inventory(now), MarketsQuery(), statistics)

    before = body()
    lake.writer().rename("X", "MATICUSDT", "POLUSDT", at=RENAMED)
    after = body()
    said = f',"renamedTo":"POLUSDT","renamedAt":{{"s":{RENAMED}}}'.encode()
    assert after.replace(said, b"") == before
    assert b"factor" not in after
    frame, _ = decode_markets(after)
    assert frame.filter(raw_symbol="MATICUSDT").select("renamed_to", "renamed_at").row(0) == ("POLUSDT", AT)
    with tidytape.Client.local(lake.path) as client:
        described = client.describe(type="TRADE").select("raw_symbol", "renamed_to", "renamed_at").rows()
    assert described == [("BTCUSDT", None, None), ("MATICUSDT", "POLUSDT", AT), ("POLUSDT", None, None)]


def reason(lake: Lake, symbol: str, start: float, end: float, **more: Any) -> Any:
    window = {"start": int(BEGIN + start * HOUR), "end": int(BEGIN + end * HOUR)}
    with tidytape.Client.local(lake.path) as client:
        query = client.query.candles(exchange="X", raw_symbol=symbol, interval="1h", **window, **more)
        answer = client.fetch(query)
    return next(iter(answer.metadata.reason), None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tidytape.errors.EmptyAnswerWarning")
def test_reasons_name_the_other_symbol(lake: Lake) -> None:
    lake.writer().rename("X", "MATICUSDT", "POLUSDT", at=RENAMED)
    early = reason(lake, "POLUSDT", 1, 3)
    assert (early.renamed_from, early.renamed_to, early.renamed_at) == ("MATICUSDT", None, AT)
    assert str(early).endswith("; until 2024-09-01T05:00:00Z its symbol was MATICUSDT")
    assert str(reason(lake, "POLUSDT", 3, 7)).endswith(
        "; until 2024-09-01T05:00:00Z its symbol was MATICUSDT"
    )
    assert str(reason(lake, "MATICUSDT", 3, 7)).endswith("; since 2024-09-01T05:00:00Z its symbol is POLUSDT")
    late = reason(lake, "MATICUSDT", 6, 8)
    assert (late.renamed_from, late.renamed_to, late.renamed_at) == (None, "POLUSDT", AT)
    # Windows on the right side of the date, and other markets, have nothing to say.
    assert reason(lake, "POLUSDT", 5, 10) is None
    assert reason(lake, "MATICUSDT", 0, 5) is None
    assert "symbol" not in str(reason(lake, "POLUSDT", 8, 12))
    assert "symbol" not in str(reason(lake, "BTCUSDT", -3, -1))
    # What a cache and a tape keep is the note.
    assert read_notes(write_notes([early.note])) == (early.note,)
    assert read_notes(b'[{"code":"QUIET"}]')[0].renamed_at is None  # type: ignore[index]


@pytest.mark.slow
def test_the_events_stay_and_a_group_of_a_coin_adds_both_up(lake: Lake) -> None:
    lake.writer().register(
        pl.DataFrame(
            {
                "exchange": ["X"],
                "raw_symbol": ["MATICUSDT"],
                "coin": ["POL"],
                "normalized_symbol": ["POL-USDT"],
            }
        ),
        replace=["coin", "normalized_symbol"],
    )
    window = {"coin": "POL", "exchange": "X", "interval": "1h", "start": BEGIN, "end": BEGIN + 10 * HOUR}

    def both() -> pl.DataFrame:
        with tidytape.Client.local(lake.path) as client:
            return client.candles(group_by="sum", **window)

    before = both()
    assert before["volume"].to_list() == [1.0] * 10  # in USD
    lake.writer().rename("X", "MATICUSDT", "POLUSDT", at=RENAMED)
    assert_frame_equal(both(), before)


def test_an_option_summary_of_the_registry_stays(lake: Lake) -> None:
    """A renaming is noted in the row without a tenor."""
    rows = {"exchange": "X", "raw_symbol": "MATICUSDT", "tenor": ["ONE_W"]}
    lake.writer().register(pl.DataFrame(rows))
    lake.writer().rename("X", "MATICUSDT", "POLUSDT", at=RENAMED)
    noted = lake.markets().filter(raw_symbol="MATICUSDT").select("tenor", "renamed_to").rows()
    assert sorted(noted, key=str) == [("ONE_W", None), (None, "POLUSDT")] or noted == [
        (None, "POLUSDT"),
        ("ONE_W", None),
    ]
    assert list(lake.markets().columns) == list(MARKETS.names)
