"""Logs that grow: however they are cut into pieces, the lake has what an ingest of the whole log puts there."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from followed import HEAD, SAID, Steps, ids, require_same, trades
from lakes import empty_lake
from thorough import often
from tidytape.errors import IngestError, QueryError
from tidytape.lake import Lake
from tidytape.lake.ingest import (
    LAYOUTS,
    BinanceWs,
    Cryptofeed,
    Csv,
    DeribitChain,
    Jsonl,
    Layout,
    Market,
    Tardis,
    TardisNode,
    ingest,
)
from tidytape.lake.record import follow


def followed(
    files: Any, lake: Lake, layout: Layout | None, market: Market, *steps: Callable[[], object], **more: Any
) -> Any:
    return follow(files, lake, layout, market=market, every=1e-9, stop=Steps(*steps), **more)


TRADES_CSV = "".join(
    # The third and the fourth trade are alike, and so are two of them 20 lines later.
    f"{1_693_929_600 + number // 6},{100 + number % 3 // 2},{1 + number % 2},{'buy' if number % 4 else 'sell'}\n"
    for number in range(60)
)
FUNDING = [
    {
        "timestamp": 1_693_929_600 + number // 3 * 60,
        "symbol": symbol,
        "rate": number / 10_000,
        "received": 1_693_929_600 + number * 20,
    }
    for number in range(12)
    for symbol in ("A-USD", "B-USD")
]
CASES: dict[str, tuple[Layout, Market, str]] = {
    "csv of trades without ids": (
        Csv(columns={"timestamp": "t", "price": "p", "amount": "q", "side": "s"}),
        Market(exchange="X", raw_symbol="BTC-USD"),
        "t,p,q,s\n" + TRADES_CSV,
    ),
    "csv of trades with ids": (
        Csv(),
        Market(exchange="X", raw_symbol="BTC-USD"),
        "timestamp,price,amount,side,id\n"
        + "".join(f"{line},{number}\n" for number, line in enumerate(TRADES_CSV.splitlines(), 97)),
    ),
    "csv of contracts": (
        Csv(),
        Market(exchange="X", raw_symbol="BTC-USD", contract="INVERSE", contract_size=10, category="PERPETUAL"),
        "timestamp,price,amount,side\n" + TRADES_CSV,
    ),
    "csv without a header": (
        Csv(header="timestamp,price,amount,side"),
        Market(exchange="X", raw_symbol="BTC-USD"),
        TRADES_CSV,
    ),
    "csv with lines before the header": (
        Csv(skip_lines=2), Market(exchange="X", raw_symbol="BTC-USD"),
        "exported,by hand\n\ntimestamp,price,amount,side\n" + TRADES_CSV,
    ),
    "csv with lines before rows without a header": (
        Csv(header="timestamp,price,amount,side", skip_lines=1), Market(exchange="X", raw_symbol="BTC-USD"),
        "a,b\n" + TRADES_CSV,
    ),
    "csv with comments": (
        Csv(), Market(exchange="X", raw_symbol="BTC-USD"),
        "# a\ntimestamp,price,amount,side\n# b\n" + TRADES_CSV.replace("sell\n", "sell\n# c\n"),
    ),
    "csv of words": (
        Csv(words={"side": {"sell": "none"}}), Market(exchange="X", raw_symbol="BTC-USD"),
        "timestamp,price,amount,side\n" + TRADES_CSV,
    ),
    "csv of a zone": (
        Csv(time_zone="America/New_York", time_format="%Y-%m-%d %H:%M"), Market(exchange="X", raw_symbol="BTC-USD"),
        "timestamp,price,amount,side\n" + "".join(f"2024-08-08 09:{i // 2:02},{i + 1},1,buy\n" for i in range(40)),
    ),
    "csv of candles": (
        Csv(table="candles", interval="1m", stamped="end", columns={"volume": ""}),
        Market(exchange="X", raw_symbol="BTC-USD"),
        "timestamp,open,high,low,close,vol\n"
        + "".join(f"2024-08-08 09:{i:02}:59,1,{i + 1},1,1,9\n" for i in range(40)),
    ),
    "jsonl of states that come again": (
        Jsonl(table="funding", columns={"raw_symbol": "symbol"}),
        Market(exchange="X", funding_interval="8h"),
        "".join(json.dumps(report) + "\n" for report in FUNDING),
    ),
}  # fmt: skip


def cut_at(text: bytes, places: Iterable[int]) -> list[bytes]:
    bounds = [0, *sorted({place % len(text) for place in places}), len(text)]
    return [text[first:last] for first, last in itertools.pairwise(bounds)]


def appending(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as file:
            file.write(data)

    return step


def law(
    text: bytes, name: str, layout: Layout | None, market: Market, places: list[int], tmp: Path, *,
    restarts: bool, **more: Any,
) -> None:  # fmt: skip
    """A log that is cut anywhere is the whole log, whether one follower sees the pieces or each sees one."""
    shutil.rmtree(tmp, ignore_errors=True)
    tmp.mkdir()
    whole, lake = (empty_lake(tmp / name) for name in ("whole", "lake"))
    (tmp / "recorded").mkdir()
    recorded, path = tmp / "recorded" / name, tmp / name
    recorded.write_bytes(text)
    ingest(recorded, whole, layout, market=market, **more)
    steps = [appending(path, piece) for piece in cut_at(text, places)]
    if restarts:
        for step in steps:
            step()
            followed(path, lake, layout, market, **more)
    else:
        followed(path, lake, layout, market, *steps, **more)
    require_same(lake, whole)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("restarts", [False, True])
@given(places=st.lists(st.integers(0, 10_000), min_size=1, max_size=4))
@settings(max_examples=often(3, thoroughly=100), suppress_health_check=list(HealthCheck), deadline=None)
def test_cut_anywhere_it_is_the_whole_log(
    *, case: str, restarts: bool, tmp_path: Path, places: list[int]
) -> None:
    layout, market, text = CASES[case]
    law(text.encode(), "log_trades", layout, market, places, tmp_path / "law", restarts=restarts)


RECORDED: dict[str, tuple[Layout, Market]] = {
    "tardis_bitmex_trades_XBTUSD.csv": (Tardis(), Market(contract="INVERSE", contract_size=1)),
    "tardis_deribit_incremental_book_L2_BTC-PERPETUAL.csv": (
        Tardis(), Market(contract="INVERSE", contract_size=10)
    ),
    "tardis-node_normalized_liquidation.jsonl": (TardisNode(), Market(amount_unit="coin")),
    "tardis-node_normalized_derivative_ticker.jsonl.gz": (TardisNode(), Market(amount_unit="coin")),
    "tardis-node_normalized_trade.jsonl.gz": (TardisNode(), Market(amount_unit="coin")),
    "coinbase_btc-usd_trades_20230905.csv.gz": (
        Csv(columns={"raw_symbol": "symbol"}), Market(exchange="COINBASE")
    ),
    "deribit_options_snapshot_20260305T042746Z.csv.gz": (DeribitChain(), Market()),
    "cryptofeed_BITMEX.0_instruments.gz": (Cryptofeed(), Market()),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", RECORDED)
@given(places=st.lists(st.integers(0, 10**9), min_size=2, max_size=5))
@settings(max_examples=often(2, thoroughly=20), suppress_health_check=list(HealthCheck), deadline=None)
def test_recorded_files_cut_anywhere(name: str, recorded: Path, tmp_path: Path, places: list[int]) -> None:
    layout, market = RECORDED[name]
    data = (recorded / name).read_bytes()
    text = gzip.decompress(data) if name.endswith(".gz") else data
    name = name.removesuffix(".gz")
    law(text, name, layout, market, places, tmp_path / "law", restarts=True, skip_bad=True)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["binance-usdm_ws_btcusdt_20240808.gz", "binance-spot_ws_ethusdt_20240808.gz"]
)
@pytest.mark.parametrize("restarts", [False, True])
def test_recorded_messages_cut_anywhere(*, name: str, restarts: bool, recorded: Path, tmp_path: Path) -> None:
    text = gzip.decompress((recorded / name).read_bytes())
    places = [1, 700, 5_000, 60_000, 61_000, 1_000_000, len(text) // 2, len(text) - 1]
    market = Market(exchange="BINANCE")
    law(text, "log", BinanceWs(), market, places, tmp_path / "law", restarts=restarts)


def test_layouts_that_are_read_as_a_whole_are_refused_by_name(lake: Lake, tmp_path: Path) -> None:
    whole = {name: layout() for name, layout in LAYOUTS.items() if not layout.follows}
    assert whole.keys() == {"binance-vision", "coinbase", "feather", "json", "kraken", "lean", "parquet"}
    for name, layout in whole.items():
        with pytest.raises(QueryError, match=name):
            follow(tmp_path / "log", lake, layout, market=Market(exchange="X"), stop=Steps())


def test_a_packed_file_is_refused(lake: Lake, write: Callable[..., Path]) -> None:
    with pytest.raises(IngestError, match="packed"):
        follow(write("a", packed=True), lake, Csv(), market=Market(exchange="X"), stop=Steps())


@pytest.mark.slow
def test_a_file_that_is_not_there_yet_and_a_half_written_line(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "log"
    seen: list[list[int]] = []
    report = followed(
        path, lake, Csv(), SAID,
        appending(path, HEAD.encode()),
        appending(path, trades(1, 2)[:-3].encode()),
        lambda: seen.append(ids(lake)),
        appending(path, trades(1, 2)[-3:].encode()),
        lambda: seen.append(ids(lake)),
        appending(path, b"169392"),
    )  # fmt: skip
    assert seen == [[1], [1, 2]]
    assert ids(lake) == [1, 2]
    assert report.trades_new == 2


@pytest.mark.slow
@pytest.mark.parametrize("is_slow", [True, False])
@pytest.mark.parametrize("first", ['{"type":"subscribed"}\n', "null\n", "[]\n5\n"])
def test_a_jsonl_log_may_begin_without_a_mapped_field(
    *, first: str, is_slow: bool, lake: Lake, tmp_path: Path
) -> None:
    event = json.dumps({"timestamp": 1_693_929_600, "price": 1, "amount": 1, "side": "buy", "id": 7})
    pieces = [first.encode(), f"{event}\n".encode()]
    steps = [appending(tmp_path / "log", piece) for piece in (pieces if is_slow else [b"".join(pieces)])]
    report = followed(tmp_path / "log", lake, Jsonl(), SAID, *steps)
    assert ids(lake) == [7]
    assert report.bad_lines == first.count("\n")


@pytest.mark.slow
def test_a_jsonl_log_whose_map_is_wrong_ends_the_follower(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"time": 1}\n' * 5)
    with pytest.raises(IngestError, match=r"log:1: .*timestamp.*; over 3 broken lines"):
        followed(tmp_path / "log", lake, Jsonl(), SAID, most_bad=3)


@pytest.mark.skipif(sys.platform != "linux", reason="needs names of bytes")
def test_a_log_whose_name_is_no_utf_8_is_refused_by_name(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(IngestError, match=r"x\\xff.log': a path that is not UTF-8"):
        followed(tmp_path / os.fsdecode(b"x\xff.log"), lake, Csv(), SAID)


@pytest.mark.slow
def test_the_slower_of_two_followers_names_the_log(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(HEAD + trades(1))
    overtaken = [appending(path, trades(number).encode()) for number in (2, 3)]

    def other() -> None:
        overtaken[0]()
        followed(path, Lake(lake.path), Csv(), SAID)
        overtaken[1]()

    with pytest.raises(IngestError, match=rf"{path}: another process follows this log"):
        followed(path, lake, Csv(), SAID, other)


@pytest.mark.slow
def test_a_log_that_was_renamed_is_read_to_its_end_before_the_new_one(lake: Lake, tmp_path: Path) -> None:
    path, old = tmp_path / "log", tmp_path / "log.1"
    path.write_text(HEAD + trades(1))
    seen: list[list[int]] = []

    def both() -> None:
        appending(old, trades(4).encode())()
        path.write_text(HEAD + trades(5))

    report = followed(
        path, lake, Csv(), SAID,
        lambda: path.rename(old),
        appending(old, trades(2).encode()),  # its writer has it open still
        path.touch,
        appending(old, trades(3).encode()),
        lambda: seen.append(ids(lake)),
        both,
    )  # fmt: skip
    assert seen == [[1, 2, 3]]
    assert ids(lake) == [1, 2, 3, 4, 5]
    assert len(report.files) == 2


@pytest.mark.slow
def test_a_log_that_was_copied_and_cut_is_read_to_its_end_from_the_copy(lake: Lake, tmp_path: Path) -> None:
    path, old = tmp_path / "log", tmp_path / "log.1"
    path.write_text(HEAD + trades(1))

    def rotate() -> None:
        with path.open("a") as file:
            file.write(trades(2, 3))
        shutil.copy(path, old)
        path.write_text("")  # the same file, cut to nothing

    followed(path, lake, Csv(), SAID, rotate, appending(path, (HEAD + trades(4)).encode()))
    assert ids(lake) == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_log_that_was_renamed_while_nobody_followed(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "log"
    (tmp_path / "log.0").write_text(HEAD + trades(90))  # nobody ever followed this one
    path.write_text(HEAD + trades(1))
    followed(path, lake, Csv(), SAID)
    with path.open("a") as file:
        file.write(trades(2))
    path.rename(tmp_path / "log.1")
    path.write_text(HEAD + trades(3))
    path.rename(tmp_path / "log.2")
    path.write_text(HEAD + trades(4))
    followed(path, lake, Csv(), SAID)
    assert ids(lake) == [1, 2, 3, 4]
    followed(path, lake, Csv(), SAID)
    assert ids(lake) == [1, 2, 3, 4]


@pytest.mark.slow
def test_several_files_at_once(lake: Lake, tmp_path: Path) -> None:
    paths = [tmp_path / f"log{number}" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_text(HEAD + trades(number))
    followed(
        paths, lake, Csv(), SAID, *(appending(path, trades(10 + n).encode()) for n, path in enumerate(paths))
    )
    assert ids(lake) == [0, 1, 2, 10, 11, 12]


def test_two_files_that_begin_alike_are_refused(lake: Lake, tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text(HEAD + trades(1))
    with pytest.raises(IngestError, match="begins with the same lines"):
        followed(paths, lake, Csv(), SAID)


@pytest.mark.slow
def test_a_bad_line_is_named_and_the_lines_before_it_are_in_the_lake(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(HEAD + trades(1, 2) + "soon,1,1,buy,3\n" + trades(4))
    for _ in range(2):
        with pytest.raises(IngestError, match=r"log:4: .*skip_bad"):
            followed(path, lake, Csv(), SAID, most_bad=0)
        assert ids(lake) == [1, 2]
    report = followed(path, lake, Csv(), SAID, skip_bad=True)
    assert ids(lake) == [1, 2, 4]
    assert report.bad_lines == 1


@pytest.mark.slow
def test_a_log_leaves_one_note_per_table_however_long_it_is_followed(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(HEAD)
    followed(path, lake, Csv(), SAID, *(appending(path, trades(number).encode()) for number in range(20)))
    log = Path(lake.path) / "trades" / "_delta_log"
    names = {
        action["txn"]["appId"]
        for commit in log.glob("*.json")
        for action in map(json.loads, commit.read_text().splitlines())
        if "txn" in action
    }
    assert len(names) == 3  # the end of the log, the mark of its text, and the market
    assert lake.delta("trades").version() == 20


@pytest.mark.slow
def test_a_log_that_was_cut_by_hand_is_named_and_followed_on(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(HEAD + trades(1, 2, 3))
    followed(path, lake, Csv(), SAID)
    path.write_text(HEAD + trades(1))
    with pytest.raises(IngestError, match="it was cut") as caught:
        followed(path, lake, Csv(), SAID, appending(path, trades(4).encode()))
    assert caught.value.report.trades_new == 1
    assert ids(lake) == [1, 2, 3, 4]
    followed(path, lake, Csv(), SAID)  # it is known from now on


@pytest.mark.slow
def test_a_log_of_two_symbols_with_snapshots_that_name_none_is_refused(
    lake: Lake, tmp_path: Path, log: Any
) -> None:
    path = tmp_path / "log"
    first = [log.trade(1), log.snapshot(1, bids=[["1", "1"]], asks=[["2", "1"]])]
    path.write_text("\n".join(first) + "\n")
    with pytest.raises(IngestError, match="went in as those of BTCUSDT"):
        followed(
            path, lake, BinanceWs(), Market(exchange="BINANCE"),
            appending(path, (log.trade(2, s="ETHUSDT") + "\n").encode()),
        )  # fmt: skip


@pytest.mark.slow
def test_a_snapshot_waits_for_its_symbol(lake: Lake, tmp_path: Path, log: Any) -> None:
    path = tmp_path / "log"
    path.write_text(log.snapshot(1, bids=[["1", "1"]], asks=[["2", "1"]]) + "\n")
    report = followed(
        path, lake, BinanceWs(), Market(exchange="BINANCE"), appending(path, (log.trade(2) + "\n").encode())
    )
    assert report.book_rows_new == 2
    assert report.trades_new == 1
