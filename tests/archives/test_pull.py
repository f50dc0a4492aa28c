"""`pull` through ccxt's own classes, against the REST APIs of Bybit and OKX on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import exchange_apis as apis
import tidytape
from tidytape.errors import QueryError
from tidytape.lake import Lake, LakeWriter
from tidytape.lake.ingest import Market, ingest

SYMBOLS = ["BTC/USDT", "BTC/USDT:USDT", "BTC/USD:BTC"]
MARKETS = {
    "bybit": [("BYBIT_SPOT", "BTCUSDT"), ("BYBIT", "BTCUSDT"), ("BYBIT", "BTCUSD")],
    "okx": [("OKEX", "BTC-USDT"), ("OKEX_SWAP", "BTC-USDT-SWAP"), ("OKEX_SWAP", "BTC-USD-SWAP")],
}
ALL = {"since": "2d", "progress": False}
START = apis.NOW - 2 * 24 * apis.HOUR


@pytest.fixture(params=sorted(MARKETS))
def exchange(request: pytest.FixtureRequest) -> Iterator[Any]:
    with apis.opened(request.param) as opened:
        yield opened


def rows_of(lake: Path, table: str, market: tuple[str, str]) -> pl.DataFrame:
    exchange, raw_symbol = market
    rows = Lake(lake).scan(table, exchange=exchange, raw_symbol=raw_symbol)
    return rows.sort("timestamp", maintain_order=True).collect()


@pytest.mark.slow
@pytest.mark.parametrize("place", range(3), ids=["spot", "linear", "inverse"])
def test_candles_equal_the_served_ones_and_count_coins(exchange: Any, tmp_path: Path, place: int) -> None:
    result = tidytape.pull(exchange, SYMBOLS[place], lake=tmp_path, **ALL)
    closed = [row for row in apis.candles() if row[0] >= START and row[0] + apis.MINUTE <= apis.NOW]
    rows = rows_of(tmp_path, "candles", MARKETS[exchange.id][place])
    assert rows["timestamp"].to_list() == [row[0] * 1_000_000 for row in closed]
    stored = rows.select("open", "high", "low", "close", "volume").rows()
    assert stored == [pytest.approx(row[1:]) for row in closed]
    assert result.select("data", "rows", pl.col("gap_from", "gap_to").dt.epoch("ms")).rows() == [
        ("candles", len(closed), None, None),
        ("candles", 0, apis.HOLE.start, apis.HOLE.stop),
    ]


@pytest.mark.slow
def test_trades_count_coins(exchange: Any, tmp_path: Path) -> None:
    tidytape.pull(exchange, SYMBOLS, data="trades", lake=tmp_path, **ALL)
    served = {trade["id"]: trade for trade in apis.trades()}
    contract = {"bybit": 1.0, "okx": 0.01}[exchange.id], {"bybit": 1.0, "okx": 100.0}[exchange.id]
    for market, of_coins in zip(MARKETS[exchange.id], (1.0, contract[0], None), strict=True):
        rows = rows_of(tmp_path, "trades", market)
        assert rows.height >= 60
        for row in rows.iter_rows(named=True):
            trade = served[row["id"]]
            coins = trade["size"] * (of_coins or contract[1] / trade["price"])
            assert row["amount"] == pytest.approx(coins)
            assert row["quote_amount"] == pytest.approx(coins * trade["price"])
            assert row["side"] == trade["side"].upper()


@pytest.mark.slow
def test_trades_before_the_newest_ones_are_a_hole(exchange: Any, tmp_path: Path) -> None:
    result = tidytape.pull(exchange, SYMBOLS[1], data="trades", lake=tmp_path, **ALL)
    first = rows_of(tmp_path, "trades", MARKETS[exchange.id][1])["timestamp"][0] // 1_000_000
    summary, hole = result.with_columns(pl.col("gap_from", "gap_to").dt.epoch("ms")).rows(named=True)
    assert (hole["gap_from"], hole["gap_to"]) == (START, first + 1)
    assert "tidytape download" in hole["reason"]
    assert summary["rows"] > 0


@pytest.mark.slow
def test_settled_rates_and_their_intervals(exchange: Any, tmp_path: Path) -> None:
    result = tidytape.pull(exchange, SYMBOLS[1:], data="funding", lake=tmp_path, **ALL)
    served = [(time * 1_000_000, rate) for time, rate in apis.settlements() if time >= START]
    for market in MARKETS[exchange.id][1:]:
        rows = rows_of(tmp_path, "funding", market)
        assert rows.select("timestamp", "rate").rows() == served
        assert set(rows["funding_interval"]) == {8 * apis.HOUR * 1_000_000}
    assert result["gap_from"].null_count() == 2


@pytest.mark.slow
def test_open_interest_and_why_there_is_none(tmp_path: Path) -> None:
    with apis.opened("bybit") as exchange:
        result = tidytape.pull(exchange, SYMBOLS, data="open_interest", lake=tmp_path, **ALL)
    rows = rows_of(tmp_path, "open_interest", ("BYBIT", "BTCUSDT"))
    times = range(START // 300_000 * 300_000 + 300_000, apis.NOW, 300_000)
    assert rows.select("timestamp", "amount").rows() == [
        (time * 1_000_000, apis.coins_at(time)) for time in times
    ]
    reasons = dict(result.filter(pl.col("reason").is_not_null()).select("market", "reason").rows())
    assert reasons == {
        "BYBIT_SPOT BTCUSDT": "a spot market has no open interest",
        "BYBIT BTCUSD": "its open interest counts the quote, and ccxt gives no price to convert it to coin",
    }


@pytest.mark.slow
def test_a_second_pull_asks_only_for_what_is_new(exchange: Any, tmp_path: Path) -> None:
    data = ["candles", "funding"]
    result = tidytape.pull(exchange, SYMBOLS[1:], data=data, lake=tmp_path, **ALL)
    exchange.asked.clear()
    again = tidytape.pull(exchange, SYMBOLS[1:], data=data, lake=tmp_path, **ALL)
    assert again.equals(result)
    # The next settlement is not there yet; every candle is.
    paths = [path for path, _ in exchange.asked if "time" not in path]
    assert len(paths) == 2
    assert all("funding" in path for path in paths)


@pytest.mark.slow
@pytest.mark.parametrize("data", [["funding", "candles"], ["trades", "open_interest"]])
@pytest.mark.parametrize("place", range(1, 3), ids=["linear", "inverse"])
@pytest.mark.parametrize("since", ["2d", "2024-08-08T08:00:00Z"], ids=["", "from a settlement on"])
def test_killed_at_any_commit_a_second_pull_gives_the_lake_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: list[str], place: int, since: str
) -> None:
    """A kill before each commit in turn: also between the rows of a market and the market."""

    def pulled(lake: Path) -> dict[str, pl.DataFrame]:
        with apis.opened("bybit") as exchange:
            tidytape.pull(exchange, SYMBOLS[place], data=data, lake=lake, **(ALL | {"since": since}))
        tables = {name: rows_of(lake, name, MARKETS["bybit"][place]) for name in data}
        return tables | {"markets": Lake(lake).markets()}

    whole = pulled(tmp_path / "once")
    for kill in count():
        commits = count()

        def killed(original: Any, commits: Iterator[int] = commits, kill: int = kill) -> Any:
            def until_killed(*arguments: Any, **options: Any) -> Any:
                if next(commits) >= kill:
                    raise KeyboardInterrupt
                return original(*arguments, **options)

            return until_killed

        lake = tmp_path / str(kill)
        with monkeypatch.context() as patch:
            for name in ("append", "register", "_note"):
                patch.setattr(LakeWriter, name, killed(getattr(LakeWriter, name)))
            with suppress(KeyboardInterrupt):
                pulled(lake)
                break
        ended = pulled(lake)
        assert all(ended[name].equals(frame) for name, frame in whole.items()), kill
    assert kill > 3


@pytest.mark.slow
def test_an_earlier_start_asks_only_for_what_is_before(exchange: Any, tmp_path: Path) -> None:
    later = {"lake": tmp_path, "progress": False}
    tidytape.pull(exchange, SYMBOLS[1], since="1d", **later)
    exchange.asked.clear()
    tidytape.pull(exchange, SYMBOLS[1], since="2d", **later)
    earliest = apis.NOW - 24 * apis.HOUR
    starts = [
        int(query.get("start") or query["before"]) for path, query in exchange.asked if "time" not in path
    ]
    assert starts
    assert all(start < earliest for start in starts)
    with apis.opened(exchange.id) as other:
        tidytape.pull(other, SYMBOLS[1], lake=tmp_path / "whole", **ALL)
    market = MARKETS[exchange.id][1]
    assert rows_of(tmp_path, "candles", market).equals(rows_of(tmp_path / "whole", "candles", market))


@pytest.mark.slow
def test_markets_are_registered_as_ccxt_names_them(exchange: Any, tmp_path: Path) -> None:
    tidytape.pull(exchange, SYMBOLS, lake=tmp_path, **ALL)
    registered = Lake(tmp_path).markets().sort("exchange", "raw_symbol")
    named = registered.select("exchange", "raw_symbol", "coin", "quote_coin", "category").rows()
    quotes = zip(
        MARKETS[exchange.id], ("USDT", "USDT", "USD"), ("SPOT", "PERPETUAL", "PERPETUAL"), strict=True
    )
    assert named == sorted((*market, "BTC", quote, category) for market, quote, category in quotes)


@pytest.mark.slow
def test_pulled_and_downloaded_trades_of_a_market_lie_together(tmp_path: Path) -> None:
    trade = apis.trades()[-1]
    header = (
        "timestamp,symbol,side,size,price,tickDirection,trdMatchID,grossValue,homeNotional,foreignNotional\n"
    )
    earlier = apis.NOW - 3 * apis.HOUR
    row = f"BTCUSD,{trade['side']},{trade['size']},{trade['price']},PlusTick,{trade['id']},1,1,1"
    lines = [
        f"{earlier / 1000},BTCUSD,Buy,5,60000,PlusTick,earlier,1,1,1\n",
        f"{trade['time'] / 1000},{row}\n",
    ]
    (tmp_path / "BTCUSD2024-08-08.csv").write_text(header + "".join(lines))
    lake = Lake.create(tmp_path / "lake")
    with apis.opened("bybit") as exchange:
        for pull_first in (False, True):
            if not pull_first:
                ingest(tmp_path / "BTCUSD2024-08-08.csv", lake)
            tidytape.pull(exchange, "BTC/USD:BTC", data="trades", lake=lake, **ALL)
    rows = rows_of(tmp_path / "lake", "trades", ("BYBIT", "BTCUSD"))
    assert rows.height == 1 + len(apis.trades())
    assert rows.filter(pl.col("id").is_in([trade["id"]])).height == 1
    assert (rows["amount"] * rows["price"] - rows["quote_amount"]).abs().max() < 1e-6


@pytest.mark.slow
def test_candles_in_coin_and_trades_in_contracts_of_one_market(tmp_path: Path) -> None:
    with apis.opened("okx") as exchange:
        for data in (["candles"], ["trades"], ["candles", "trades"]):
            tidytape.pull(exchange, SYMBOLS[1:], data=data, lake=tmp_path, **ALL)
    units = dict(Lake(tmp_path).markets().select("raw_symbol", "amount_units").rows())
    assert units == dict.fromkeys(
        ["BTC-USD-SWAP", "BTC-USDT-SWAP"], "trades=contracts/told,candles=coin/told"
    )


@pytest.mark.slow
def test_the_lake_answers_queries(tmp_path: Path) -> None:
    with apis.opened("bybit") as exchange:
        tidytape.pull(exchange, SYMBOLS, data=["candles", "funding"], lake=tmp_path, **ALL)
    with tidytape.Client.local(tmp_path) as client:
        window = {"start": "2024-08-07", "end": "2024-08-08", "interval": "1h", "coin": "BTC"}
        assert client.candles(exchange="BYBIT", **window).height == 48
        assert client.funding(exchange="BYBIT", **window).height == 6


@pytest.mark.slow
def test_a_window_with_an_end(exchange: Any, tmp_path: Path) -> None:
    window = {"since": "2024-08-07", "until": "2024-08-07T06:00:00+02:00"}
    result = tidytape.pull(exchange, SYMBOLS[1], lake=tmp_path, progress=False, **window)
    assert result.select("rows", pl.col("first", "last").dt.to_string("%H:%M")).rows() == [
        (240, "00:00", "03:59")
    ]


def test_an_exchange_without_the_data_is_refused(tmp_path: Path) -> None:
    with apis.opened("okx") as exchange:
        exchange.has["fetchOpenInterestHistory"] = None
        with pytest.raises(
            QueryError, match=r"data: got 'open_interest', expected what ccxt has of okx: candles"
        ):
            tidytape.pull(exchange, SYMBOLS, data="open_interest", lake=tmp_path, **ALL)
        with pytest.raises(QueryError, match=r"symbols: got 'BTC/USTD', expected a symbol of okx"):
            tidytape.pull(exchange, "BTC/USTD", lake=tmp_path, **ALL)
        with pytest.raises(QueryError, match=r"interval: got '7m', expected one of 1m"):
            tidytape.pull(exchange, SYMBOLS, interval="7m", lake=tmp_path, **ALL)
    assert not (tmp_path / "candles").exists()


@pytest.mark.slow
def test_files_of_a_described_unit_follow_each_other(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    header = "instrument_name,open,high,low,close,vol,vol_ccy,vol_quote,open_time,confirm\n"
    for day in (1, 2):
        trades = f"BTC-USDT-SWAP,{day},buy,60000,5,{1_722_470_400_000 + day * 86_400_000}\n"
        candle = f"BTC-USDT-SWAP,1,2,1,2,500,5,7.5,{1_722_470_400_000 + day * 86_400_000},1\n"
        (tmp_path / f"BTC-USDT-SWAP-trades-2024-08-0{day}.csv").write_text(
            "instrument_name,trade_id,side,price,size,created_time\n" + trades
        )
        (tmp_path / f"BTC-USDT-SWAP-candlesticks-2024-08-0{day}.csv").write_text(header + candle)
        ingest(tmp_path / f"BTC-USDT-SWAP-candlesticks-2024-08-0{day}.csv", lake)
        linear = Market(contract="linear", contract_size=0.01)
        ingest(tmp_path / f"BTC-USDT-SWAP-trades-2024-08-0{day}.csv", lake, market=linear)
    market = ("OKEX_SWAP", "BTC-USDT-SWAP")
    assert rows_of(tmp_path / "lake", "candles", market)["volume"].to_list() == [5.0, 5.0]
    assert rows_of(tmp_path / "lake", "trades", market)["amount"].to_list() == [0.05, 0.05]


@pytest.mark.slow
def test_files_that_count_the_quote_follow_each_other(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    header = (
        "timestamp,symbol,side,size,price,tickDirection,trdMatchID,grossValue,homeNotional,foreignNotional\n"
    )
    for day in (1, 2):
        file = tmp_path / f"BTCUSD2024-08-0{day}.csv"
        file.write_text(
            f"{header}{1_722_470_400 + day * 86_400}.5,BTCUSD,Buy,6,60000,PlusTick,id{day},1,1,1\n"
        )
        ingest(file, lake)
    assert rows_of(tmp_path / "lake", "trades", ("BYBIT", "BTCUSD"))["amount"].to_list() == [0.0001, 0.0001]


@pytest.mark.slow
def test_what_a_kind_counts_holds_beside_pulled_rows(tmp_path: Path) -> None:
    """A file that counts the quote is not taken for coins because pulled candles count coins, and the other way."""
    name = "BTCUSD_1_2024-08-01_2024-08-31.csv"
    file = tmp_path / name
    file.write_text("2024.08.01 00:00,60000,60000,60000,60000,6000\n")  # in UTC+3
    for number, first in enumerate(("file", "pull")):
        lake = tmp_path / str(number)
        with apis.opened("bybit") as exchange:
            if first == "pull":
                tidytape.pull(exchange, "BTC/USD:BTC", lake=lake, **ALL)
            ingest(file, Lake.create(lake), market=Market(exchange="BYBIT"), progress=False)
            if first == "file":
                tidytape.pull(exchange, "BTC/USD:BTC", lake=lake, **ALL)
        rows = rows_of(lake, "candles", ("BYBIT", "BTCUSD"))
        assert rows.select("volume", "quote_volume").row(0) == (None, 6000.0)
        closed = [row for row in apis.candles() if row[0] >= START and row[0] + apis.MINUTE <= apis.NOW]
        assert rows["volume"].to_list()[1:] == pytest.approx([row[5] for row in closed])
