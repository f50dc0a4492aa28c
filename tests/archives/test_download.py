"""A plan names the files of a window, and brings each of them into a lake whole and verified, or not at all."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, permutations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mirror as mirrored
from mirror import (
    Mirror,
    answers,
    binance_funding,
    binance_metrics,
    binance_trades,
    gzipped,
    milliseconds,
    zipped,
)
from tidytape import archives
from tidytape.archives import IN_LAKE, _download, _fetching
from tidytape.archives._archives import ARCHIVES
from tidytape.errors import QueryError, TransportError
from tidytape.lake import Lake, LakeWriter

DAY = date(2024, 8, 1)
TRADES = "data/futures/um/daily/trades/BTCUSDT/BTCUSDT-trades-{}.zip"
METRICS = "data/futures/um/daily/metrics/BTCUSDT/BTCUSDT-metrics-{}.zip"
TABLES = ("trades", "candles", "funding", "open_interest", "liquidations", "book")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(_fetching, "_PACE", 0.0)
    monkeypatch.setattr(_fetching, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def mirror():
    with Mirror().served() as serving:
        yield serving


def plan(mirror, *data, archive="binance", symbols="BTCUSDT", market="um", days=1, **options):
    end = datetime(2024, 8, 1, tzinfo=UTC) + timedelta(days=days)
    return archives.plan(
        archive, symbols, market=market, data=data, start=DAY, end=end, mirror=mirror.address, **options
    )


def run(planned, folder, **options):
    return planned.run(folder / "lake", folder=folder / "files", progress=False, **options)


def content(folder):
    """The rows of a lake, by table."""
    lake = Lake(folder / "lake")
    return {
        table: lake.scan(table).collect().drop("sequence", strict=False)
        for table in TABLES
        if lake.has_table(table)
    }


def same(one, other):
    return all(one[table].sort(pl.all()).equals(other[table].sort(pl.all())) for table in {*one, *other})


def put_days(mirror, count, *, trades=3, **how):
    for number in range(count):
        day = DAY + timedelta(days=number)
        name = f"BTCUSDT-trades-{day}"
        mirror.put(TRADES.format(day), zipped(f"{name}.csv", binance_trades(day, trades)), **how)


# --- the plan ---


@given(
    st.sampled_from(archives.kinds().select("archive", "market", "data").rows()),
    st.integers(1_577_836_800, 1_704_067_200),
    st.timedeltas(timedelta(seconds=1), timedelta(days=70)),
)
def test_the_files_of_a_plan_cover_the_window_once(kind, start, length):
    archive, market, data = kind
    start = datetime.fromtimestamp(start, UTC)
    end = start + timedelta(seconds=max(1, int(length.total_seconds())))
    files = archives.plan(archive, "X", market=market, data=data, start=start, end=end).files
    spans = files.select("start", "end").rows()
    assert all(span[0] < end and start < span[1] for span in spans)
    assert files["address"].is_unique().all()
    if files.height and "first" not in archives.kinds().filter(archive=archive, data=data)["period"][0]:
        assert spans[0][0] <= start
        assert spans[-1][1] >= end
        assert all(one[1] == other[0] for one, other in pairwise(spans))


def test_a_day_of_okx_begins_at_16():
    files = archives.plan(
        "okx", "BTC-USDT", market="spot", data="trades", start="2025-09-30", end="2025-10-01"
    ).files
    assert files["start"].to_list() == [datetime(2025, 9, day, 16, tzinfo=UTC) for day in (29, 30)]
    assert files["address"][0].endswith("trades/daily/20250930/BTC-USDT-trades-2025-09-30.zip")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"archive": "binanse"}, "archive: got 'binanse', expected one of binance, .*did you mean 'binance'"),
        ({"market": "swap"}, "market: got 'swap', expected one of spot, um, cm"),
        ({"market": None}, "market: left out, expected one of spot, um, cm"),
        (
            {"data": "funding", "market": "spot"},
            "data: got 'funding', expected one of trades, agg_trades, candles",
        ),
        ({"data": []}, "data: got .*, expected at least one"),
        ({"data": "candles", "interval": "7m"}, "interval: got '7m', expected one of 1m"),
        ({"symbols": "../BTC"}, "symbols: got '../BTC'"),
        ({"symbols": []}, "symbols: got .*, expected at least one"),
        ({"start": "2024-08-02"}, "end: got '2024-08-02T00:00:00Z', expected a time after the start"),
        (
            {"start": "1970-01-01", "end": "2106-01-01", "data": ["trades", "candles", "agg_trades"]},
            "at most 100,000",
        ),
        ({"contract": "inverse"}, "contract_size"),
        *(
            ({"mirror": address}, "mirror: got")
            for address in ("nonsense", "ftp://x", "http://[::1", "http://", 3)
        ),
        ({"funding_interval": "soon"}, "funding_interval: got 'soon'"),
    ],
)
def test_what_an_archive_does_not_have(wrong, message):
    asked = {"archive": "binance", "symbols": "X", "market": "um", "data": "trades"}
    asked |= {"start": "2024-08-01", "end": "2024-08-02"} | wrong
    with pytest.raises(QueryError, match=message):
        archives.plan(asked.pop("archive"), asked.pop("symbols"), **asked)


def test_descriptions_of_archives_are_whole():
    assert [archive.name for archive in ARCHIVES.values()] == list(ARCHIVES)
    for archive in ARCHIVES.values():
        assert archive.host.startswith("https://")
        for market in archive.segments:
            names = [kind.data for kind in archive.kinds if kind.is_of(market)]
            assert names
            assert len({*names}) == len(names)
        assert all(set(kind.segments) <= set(archive.segments) for kind in archive.kinds)


# --- the way into the lake ---


@pytest.mark.slow
def test_a_run_brings_each_file_once(mirror, tmp_path):
    put_days(mirror, 3)
    planned = plan(mirror, "trades", days=3)
    assert planned.bytes == sum(len(mirror.files[TRADES.format(DAY + timedelta(days=n))]) for n in range(3))
    files = run(planned, tmp_path)
    assert files["state"].to_list() == ["ok"] * 3
    assert files["rows"].to_list() == [3] * 3
    assert content(tmp_path)["trades"].height == 9
    assert not [path for path in (tmp_path / "files").rglob("*") if path.is_file() and path.name != ".lock"]
    mirror.asked.clear()
    again = run(planned, tmp_path)
    assert (again.height, again.schema) == (0, files.schema)
    later = plan(mirror, "trades", days=4, lake=tmp_path / "lake")
    assert (later.known, later.files["start"].to_list()) == (3, [datetime(2024, 8, 4, tzinfo=UTC)])
    assert not mirror.asked


@pytest.mark.slow
def test_files_are_kept_on_request(mirror, tmp_path):
    put_days(mirror, 1)
    run(plan(mirror, "trades"), tmp_path, keep=True)
    assert [path.name for path in (tmp_path / "files").rglob("*.zip")] == ["BTCUSDT-trades-2024-08-01.zip"]
    mirror.asked.clear()
    plan(mirror, "trades").run(tmp_path / "other", folder=tmp_path / "files", progress=False)
    assert list(mirror.asked) == [TRADES.format(DAY) + ".CHECKSUM"]


def zipped_trades(count=3, **how):
    return zipped("BTCUSDT-trades-2024-08-01.csv", binance_trades(DAY, count, **how))


def replaced(request):
    """The file is another one from the second request on, as if it was published anew meanwhile."""
    if request.number == 0:
        request.content = zipped_trades(2)
        request.file()
    return request.number == 0


DEFECTS = {
    "wrong checksum": (
        zipped_trades(),
        "0" * 64,
        None,
        "bad_checksum",
        "its SHA-256 is .*, published is 000000000000",
    ),
    "no checksum": (zipped_trades(), False, None, "no_checksum", "the archive has no checksum of it"),
    "checksum of another kind": (zipped_trades(), "md5", None, "bad_checksum", "is no SHA-256 of it"),
    "another day": (
        zipped("BTCUSDT-trades-2024-08-01.csv", binance_trades(DAY + timedelta(days=9), 3)),
        True,
        None,
        "defect",
        "its rows are of another time: 2024-08-10T00:00:00Z to",
    ),
    "truncated": (zipped_trades()[:150], True, None, "defect", "no whole zip archive"),
    "empty": (b"", True, None, "defect", "the file is empty"),
    "a page instead": (b"<html>hello</html>", True, None, "defect", "not a zip|kind|header"),
    "no rows": (zipped_trades(0), True, None, "ok", "it has no rows"),
    "no header": (zipped_trades(header=False), True, None, "ok", None),
    "broken row": (
        zipped("BTCUSDT-trades-2024-08-01.csv", "1,x,1,1,1722470400000,true\n"),
        True,
        None,
        "defect",
        "price",
    ),
    "absent": (None, True, None, "absent", "the archive does not have it"),
    "refused": (zipped_trades(), True, answers(403), "failed", "the server refuses it with 403"),
    "failing": (zipped_trades(), True, answers(503), "failed", "the server answers 503, 6 times"),
    "too many requests": (zipped_trades(), True, answers(429, 2), "ok", None),
    "replaced meanwhile": (zipped_trades(), True, replaced, "ok", None),
}


@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS)
def test_every_defect_is_named_and_leaves_nothing_in_the_lake(mirror, tmp_path, defect):
    packed, checksum, fault, state, reason = DEFECTS[defect]
    put_days(mirror, 3)
    day = DAY + timedelta(days=1)
    path = TRADES.format(DAY)
    del mirror.files[path], mirror.files[f"{path}.CHECKSUM"]
    if packed is not None:
        mirror.put(path, packed, checksum=checksum)
    if fault is not None:
        mirror.faults[path] = fault
    files = run(plan(mirror, "trades", days=3), tmp_path)
    first, *others = files.select("state", "rows").rows()
    assert others == [("ok", 3)] * 2
    assert first[0] == state
    if reason is None:
        assert files["reason"][0] is None
    else:
        assert pl.Series([files["reason"][0]]).str.contains(reason).item(), files["reason"][0]
    stored = content(tmp_path)["trades"].filter(pl.col("timestamp") < milliseconds(day) * 10**6)
    assert stored.height == first[1]
    assert (first[1] == 3) == (state in IN_LAKE and defect != "no rows")
    # As soon as the archive is right, a second run brings what is missing, and nothing else.
    mirror.faults.clear()
    mirror.put(path, zipped_trades())
    mirror.asked.clear()
    run(plan(mirror, "trades", days=3), tmp_path)
    assert set(mirror.asked) <= {path, f"{path}.CHECKSUM"}
    if defect != "no rows":
        assert content(tmp_path)["trades"].height == 9


@pytest.mark.slow
def test_blank_open_interest_is_left_out_and_named(mirror, tmp_path):
    blanks = [{3: ",", 4: '"",""', 5: "0,0"}, dict.fromkeys(range(288), ",")]
    for number, blank in enumerate(blanks):
        day = DAY + timedelta(days=number)
        name = f"BTCUSDT-metrics-{day}"
        mirror.put(METRICS.format(day), zipped(f"{name}.csv", binance_metrics(day, blank=blank)))
    files = run(plan(mirror, "open_interest", days=2), tmp_path)
    assert files.select("state", "rows").rows() == [("ok", 286), ("defect", 0)]
    assert "metrics without open interest (2); 1 open interest, of 0, which may" in files["reason"][0]
    assert "metrics without open interest (288)" in files["reason"][1]
    assert content(tmp_path)["open_interest"].height == 286


@pytest.mark.slow
def test_a_file_of_another_market_is_a_defect_also_when_it_comes_again(mirror, tmp_path):
    name = f"BTCUSDT-metrics-{DAY}"
    for text in (
        binance_metrics(DAY).replace("BTCUSDT", "ETHUSDT"),
        binance_metrics(DAY, blank=dict.fromkeys(range(288), ",")),
    ):
        mirror.put(METRICS.format(DAY), zipped(f"{name}.csv", text))
        first = run(plan(mirror, "open_interest"), tmp_path)
        again = run(plan(mirror, "open_interest"), tmp_path)
        assert first["state"].to_list() == ["defect"]
        assert again.equals(first)
    assert not content(tmp_path).get("open_interest", pl.DataFrame()).height


@pytest.mark.slow
def test_a_midnight_in_two_files_with_two_values_is_named(mirror, tmp_path):
    for number in (0, 1):
        day = DAY + timedelta(days=number)
        name = f"BTCUSDT-metrics-{day}"
        times = (f"{day} 12:00:00", f"{DAY + timedelta(days=1)} 00:00:00")
        rows = "".join(f"{time},BTCUSDT,{10 + number},600000.0\n" for time in sorted(times))
        text = f"create_time,symbol,sum_open_interest,sum_open_interest_value\n{rows}"
        mirror.put(METRICS.format(day), zipped(f"{name}.csv", text))
    files = run(plan(mirror, "open_interest", days=2), tmp_path)
    assert files["reason"].to_list() == [None, "1 of them left out, for another row of their time counts"]


@pytest.mark.slow
def test_times_in_microseconds_from_one_day_on(mirror, tmp_path):
    days = [date(2024, 12, 31), date(2025, 1, 1)]
    for day in days:
        name = f"BTCUSDT-trades-{day}"
        rows = binance_trades(day, 3, header=False, microseconds=day.year == 2025)
        mirror.put(f"data/spot/daily/trades/BTCUSDT/{name}.zip", zipped(f"{name}.csv", rows))
    planned = archives.plan(
        "binance",
        "btcusdt",
        market="spot",
        data="trades",
        start=days[0],
        end="2025-01-02",
        mirror=mirror.address,
    )
    assert run(planned, tmp_path)["state"].to_list() == ["ok", "ok"]
    stored = content(tmp_path)["trades"]
    assert set(stored["exchange"]) == {"BINANCE"}
    assert sorted({datetime.fromtimestamp(time // 10**9, UTC).date() for time in stored["timestamp"]}) == days


@pytest.mark.slow
def test_a_month_that_is_not_over_is_not_asked_for(mirror, tmp_path):
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    planned = archives.plan(
        "binance", "BTCUSDT", market="um", data="funding", start=today - timedelta(days=1), end=today,
        mirror=mirror.address,
    )  # fmt: skip
    files = run(planned, tmp_path)
    assert files["state"][-1] == "absent"
    assert "which is not over" in files["reason"][-1]
    assert sum(mirror.asked.values()) == files.height - 1


def put_okx(mirror):
    base, time = "cdn/okex/traderecords", milliseconds(DAY)
    name = "BTC-USDT-SWAP"
    for number in (1, 2):
        day = f"2024-08-0{number}"
        begins = time + (number - 1) * 86_400_000 - 8 * 3_600_000
        trades = (
            f"instrument_name,trade_id,side,price,size,created_time\n{name},{number},buy,60000,10,{begins}\n"
        )
        candles = (
            "instrument_name,open,high,low,close,vol,vol_ccy,vol_quote,open_time,confirm\n"
            f"{name},60000,60000,60000,60000,10,0.1,6000,{begins},1\n"
        )
        for kind, text in (("trades", trades), ("candlesticks", candles)):
            file = f"{name}-{kind}-{day}"
            path = f"{base}/{kind}/daily/{day.replace('-', '')}/{file}.zip"
            mirror.put(path, zipped(f"{file}.csv", text), checksum=False)
    rates = "\r\n".join(f"{name},0.0001,{time + n * 28_800_000}" for n in range(6))
    file = f"{name}-fundingrates-2024-08"
    text = f"instrument_name,funding_rate,funding_time\r\n{rates}\r\n"
    mirror.put(f"{base}/swaprates/monthly/202408/{file}.zip", zipped(f"{file}.csv", text), checksum=False)


def put_coin_margined(mirror):
    time, folder, name = milliseconds(DAY), "data/futures/cm", "BTCUSD_PERP"
    names = mirrored.binance_candles(DAY).partition("\n")[0]
    for path, text in (
        (f"daily/trades/{name}/{name}-trades-{DAY}", f"1,60000.0,60,0.1,{time},true\n"),
        (
            f"daily/klines/{name}/1m/{name}-1m-{DAY}",
            f"{names}\n{time},60000,60000,60000,60000,60,{time + 59_999},0.1,1,30,0.05,0\n",
        ),
        (
            f"daily/metrics/{name}/{name}-metrics-{DAY}",
            f"create_time,symbol,sum_open_interest,sum_open_interest_value\n{DAY} 00:05:00,{name},60000,100.0\n",
        ),
        (f"monthly/fundingRate/{name}/{name}-fundingRate-2024-08", binance_funding(DAY)),
    ):
        mirror.put(f"{folder}/{path}.zip", zipped(f"{path.rpartition('/')[2]}.csv", text))


@pytest.mark.slow
def test_amounts_are_coins_in_whatever_order_files_come(mirror, tmp_path):
    """A contract that one kind of file counts converts no other kind."""
    put_okx(mirror)
    put_coin_margined(mirror)
    for number, order in enumerate(permutations(["trades", "candles", "funding"])):
        folder = tmp_path / str(number)
        of_okx = plan(
            mirror,
            *order,
            archive="okx",
            market="swap",
            symbols="BTC-USDT-SWAP",
            contract="linear",
            contract_size=0.01,
        )
        assert set(run(of_okx, folder)["state"]) == {"no_checksum"}
        of_coin = plan(
            mirror,
            *order,
            "open_interest",
            market="cm",
            symbols="BTCUSD_PERP",
            contract="inverse",
            contract_size=100,
        )
        assert set(run(of_coin, folder)["state"]) == {"ok"}
        stored = content(folder)
        assert stored["trades"]["amount"].to_list() == [0.1] * 3
        assert stored["candles"].select("volume", "quote_volume").rows() == [(0.1, 6000.0)] * 3
        assert stored["open_interest"]["amount"].to_list() == [100.0]
        assert stored["funding"].filter(exchange="OKEX_SWAP")["funding_interval"].unique().to_list() == [
            8 * 3_600 * 10**9
        ]


@pytest.mark.slow
def test_a_fact_that_is_missing_is_asked_for_before_anything_is_in_the_lake(mirror, tmp_path):
    put_okx(mirror)
    asked = {"archive": "okx", "market": "swap", "symbols": "BTC-USDT-SWAP"}
    with pytest.raises(QueryError, match=r"contract: left out, .*contract_size"):
        run(plan(mirror, "trades", **asked), tmp_path)
    assert not content(tmp_path)["trades"].height
    mirror.asked.clear()
    files = run(plan(mirror, "trades", **asked, contract="linear", contract_size="0.01"), tmp_path)
    assert files["rows"].to_list() == [1, 1]
    assert not [
        path for path, count in mirror.asked.items() if count and "2024-08-01" in path
    ]  # the file that was read is kept


@pytest.mark.slow
def test_bybit_and_tardis(mirror, tmp_path):
    time = milliseconds(DAY)
    names = (
        "timestamp,symbol,side,size,price,tickDirection,trdMatchID,grossValue,homeNotional,foreignNotional\n"
    )
    for symbol, size in (("BTCUSDT", "0.5"), ("BTCUSD", "6000")):
        row = f"{time / 1000:.4f},{symbol},Buy,{size},60000.0,PlusTick,a-1,1,1,1\n"
        mirror.put(f"trading/{symbol}/{symbol}{DAY}.csv.gz", gzipped(names + row), checksum=False)
    for number, side in ((0, "buy"), (1, "sell")):
        row = f"id,timestamp,price,volume,side,rpi\n1,{time + number * 86_400_000},60000,0.25,{side},0\n"
        path = f"spot/BTCUSDT/BTCUSDT_{DAY + timedelta(days=number)}.csv.gz"
        mirror.put(path, gzipped(row), checksum=False)
    mirror.put("spot/BTCUSDT/BTCUSDT_2024-08-03.csv.gz", gzipped(""), checksum=False)
    of_tardis = f"binance-futures,BTCUSDT,{time}000,{time}005"
    for kind, text in (
        (
            "trades",
            f"exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n{of_tardis},1,buy,60000,0.5\n",
        ),
        (
            "liquidations",
            f"exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n{of_tardis},,sell,60000,1\n",
        ),
        (
            "derivative_ticker",
            f"exchange,symbol,timestamp,local_timestamp,funding_timestamp,funding_rate,predicted_funding_rate,"  # noqa: ISC004
            f"open_interest,last_price,index_price,mark_price\n{of_tardis},,0.0001,,1000,60000,60000,60000\n",
        ),
    ):
        mirror.put(f"v1/binance-futures/{kind}/2024/08/01/BTCUSDT.csv.gz", gzipped(text), checksum=False)
    run(
        plan(mirror, "trades", archive="bybit", market="derivatives", symbols=["BTCUSDT", "BTCUSD"]), tmp_path
    )
    spot = run(plan(mirror, "trades", archive="bybit", market="spot", days=3), tmp_path)
    assert spot["state"].to_list() == ["no_checksum", "no_checksum", "defect"]
    assert spot["reason"][2] == "it is empty, or of a kind that tidytape does not know"
    of_tardis = plan(
        mirror, "trades", "liquidations", "funding", archive="tardis", market="binance-futures", days=20,
        funding_interval="8h",
    )  # fmt: skip
    assert of_tardis.bytes is None
    assert run(of_tardis, tmp_path)["rows"].to_list() == [1, 1, 2]
    stored = content(tmp_path)
    amounts = stored["trades"].group_by("exchange", "raw_symbol").agg(pl.col("amount").sum()).sort(pl.all())
    assert amounts.rows() == [
        ("BINANCE_FUTURES", "BTCUSDT", 0.5),
        ("BYBIT", "BTCUSD", 0.1),
        ("BYBIT", "BTCUSDT", 0.5),
        ("BYBIT_SPOT", "BTCUSDT", 0.5),
    ]
    assert stored["liquidations"]["side"].to_list() == ["BUY"]
    assert stored["funding"]["funding_interval"].to_list() == [8 * 3_600 * 10**9]
    assert stored["open_interest"]["amount"].to_list() == [1000.0]


@pytest.mark.slow
def test_two_downloads_into_one_folder(mirror, tmp_path):
    put_days(mirror, 1)
    begun, may_end = threading.Event(), threading.Event()

    def waits(_):
        begun.set()
        may_end.wait(10)
        return False

    mirror.faults[TRADES.format(DAY)] = waits
    first = threading.Thread(target=run, args=(plan(mirror, "trades"), tmp_path))
    first.start()
    try:
        assert begun.wait(10)
        with pytest.raises(
            QueryError, match=r"folder: got .*, expected a folder into which no other download writes"
        ):
            run(plan(mirror, "trades"), tmp_path)
    finally:
        may_end.set()
        first.join()


def test_without_a_network(tmp_path):
    with Mirror().served() as mirror:
        pass
    with pytest.raises(TransportError, match="no connection to"):
        run(plan(mirror, "trades"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_interrupted_anywhere_a_second_run_gives_the_same_lake(mirror, tmp_path, monkeypatch, seed):
    """An interrupt at any request or commit; the second run ends with the lake of one run."""
    mirrored.put_binance(mirror, DAY, 3, trades=20)
    data = ("trades", "funding", "open_interest")
    assert set(run(plan(mirror, *data, days=3), tmp_path / "once")["state"]) == {"ok"}
    where = random.Random(seed)
    for _ in range(4):
        countdown = where.randrange(1, 40)

        def interrupt(original, countdown=[countdown]):  # noqa: B006 - one list for each attempt
            def counted(*arguments, **options):
                countdown[0] -= 1
                if countdown[0] == 0:
                    raise KeyboardInterrupt
                return original(*arguments, **options)

            return counted

        with monkeypatch.context() as patch:
            patch.setattr(LakeWriter, "append", interrupt(LakeWriter.append))
            patch.setattr(LakeWriter, "register", interrupt(LakeWriter.register))
            patch.setattr(_download, "ingested", interrupt(_download.ingested))
            with suppress(KeyboardInterrupt):
                run(plan(mirror, *data, days=3), tmp_path / "twice")
    run(plan(mirror, *data, days=3), tmp_path / "twice")
    assert same(content(tmp_path / "once"), content(tmp_path / "twice"))
