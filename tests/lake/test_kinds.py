"""Files of the kinds that vendors write go in by one command, or are refused with the option that is missing."""

from __future__ import annotations

import dataclasses
import gzip
import random
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lake.kinds import DAY, FUNDING, HOUR, MIDNIGHT, MINUTE, NOON, SAMPLES, SECOND, TRADE, Row, Sample
from tidytape.cli import main
from tidytape.client import Client
from tidytape.lake import Lake

pytestmark = pytest.mark.slow

KNOWN_MISSING: frozenset[str] = frozenset()
"""What fails today, by the name of the test's case; a case that passes has to leave the list."""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line: takes its words, returns the exit code and all that is printed."""

    def call(*words: str | Path) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["tidytape", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), "".join(capsys.readouterr())

    return call


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose path does not have the name of the test, which names an exchange."""
    return tmp_path_factory.mktemp("files")


def listed(*cases: str) -> list[Any]:
    """Return the cases as parameters; those of `KNOWN_MISSING` are expected to fail."""
    missing = pytest.mark.xfail(reason="not built yet", strict=True)
    return [pytest.param(case, id=case, marks=[missing] if case in KNOWN_MISSING else []) for case in cases]


def written(folder: Path, sample: Sample) -> Path:
    path = folder / sample.name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(sample.content, pl.DataFrame):
        sample.content.write_ipc(path, compression="lz4")
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{path.stem}.csv", sample.content)
    else:
        content = sample.content.encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def words_of(options: Mapping[str, str]) -> list[str]:
    return [word for option in options.items() for word in option]


def require_rows(lake: Lake, table: str, columns: tuple[str, ...], rows: tuple[Row, ...]) -> None:
    stored = lake.scan(table).collect().select(columns)
    expected = pl.DataFrame(rows, schema=stored.schema, orient="row")
    assert_frame_equal(stored.sort(columns), expected.sort(columns), rel_tol=1e-12, abs_tol=0)


def require_market(lake: Lake, sample: Sample) -> None:
    key = ["exchange", "raw_symbol"]
    known = lake.scan("markets").select(*key, "normalized_symbol", "category").collect()
    stored = lake.scan(sample.table).select(key).unique().collect().join(known, on=key, how="left")
    for market in stored.rows(named=True):
        for name, fact in market.items():
            pattern = getattr(sample, name)
            assert not pattern or re.fullmatch(pattern, str(fact)), f"{name} is {fact}, not {pattern}"


PIECES = (
    '"',
    ",",
    ";",
    "{",
    "}",
    "[",
    "]",
    "\n",
    "\r",
    "\x00",
    "é",
    "#",
    "nan",
    "null",
    "-",
    "1e999",
    "9" * 30,
    "\ufeff",
)


def damaged(text: str, chance: random.Random) -> str:
    """Return a text with some parts cut, doubled, put in, or in another order."""
    for _ in range(chance.randint(1, 3)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.randint(1, 30))
        rows = text.split("\n")
        chance.shuffle(rows)
        text = chance.choice(
            [
                text[:start] + text[end:],
                text[:start] + text[start:end] * 2 + text[end:],
                text[:start] + chance.choice(PIECES) + text[start:],
                text[:start],
                "\n".join(rows),
            ]
        )
    return text


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_a_damaged_file_is_read_or_refused(run, folder, seed):
    chance = random.Random(seed)
    samples = [sample for sample in SAMPLES.values() if isinstance(sample.content, str)]
    for number in range(40):
        sample = chance.choice(samples)
        damage = dataclasses.replace(sample, content=damaged(str(sample.content), chance))
        path = written(folder / str(number), damage)
        options = words_of({**sample.needed, **sample.said})
        code, text = run("ingest", "auto", path, "--lake", folder / f"lake{number}", *options)
        assert code in {0, 1, 2}, text
        assert "error: unexpected" not in text, (damage.content, text)


GOOD = {name: sample for name, sample in SAMPLES.items() if not sample.refused}


@pytest.mark.parametrize("name", listed(*GOOD))
def test_a_kind_goes_in_by_one_command(run, folder, name):
    sample = SAMPLES[name]
    options = words_of({**sample.needed, **sample.said})
    code, text = run("ingest", "auto", written(folder, sample), "--lake", folder / "lake", *options)
    assert code == 0, text
    lake = Lake(folder / "lake")
    require_rows(lake, sample.table, sample.columns, sample.rows)
    require_market(lake, sample)


@pytest.mark.parametrize(
    "name", listed(*(f"{name} without {option}" for name, sample in GOOD.items() for option in sample.needed))
)
def test_a_fact_that_the_file_does_not_show_is_asked_for_by_its_option(run, folder, name):
    name, _, option = name.partition(" without ")
    sample = SAMPLES[name]
    options = words_of({given: fact for given, fact in sample.needed.items() if given != option})
    code, text = run("ingest", "auto", written(folder, sample), "--lake", folder / "lake", *options)
    assert code in (1, 2), text
    assert "No such option" not in text
    assert re.search(rf"{option}\b(?!-)", text), text


@pytest.mark.parametrize(
    "name", listed(*(f"{name} as it shows" for name, sample in GOOD.items() if sample.said))
)
def test_a_fact_that_the_file_shows_need_not_be_said(run, folder, name):
    sample = SAMPLES[name.removesuffix(" as it shows")]
    options = words_of(sample.needed)
    code, text = run("ingest", "auto", written(folder, sample), "--lake", folder / "lake", *options)
    assert code == 0, text


@pytest.mark.parametrize("name", listed(*(name for name, sample in SAMPLES.items() if sample.refused)))
def test_a_kind_that_has_no_table_is_refused_for_what_it_is(run, folder, name):
    sample = SAMPLES[name]
    options = words_of(sample.said)
    code, text = run("ingest", "auto", written(folder, sample), "--lake", folder / "lake", *options)
    assert code in (1, 2), text
    assert "No such option" not in text
    assert re.search(sample.refused, text.replace(Path(sample.name).name, "")), text


@pytest.fixture
def cases(recorded: Path) -> Path:
    """The folder of files that were made to go wrong."""
    path = recorded.parent / "cases" / "files"
    if not path.is_dir():
        pytest.skip(f"no files at {path}")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Files that are ingested one after the other, and what is right.

    Attributes
    ----------
    files, words : tuple of str
        Names of files, and the words of the command around each of them.
    table, columns, rows
        What the lake must hold afterwards; no rows are not compared.
    refused : str
        A pattern of the error of the last file, if it must be refused.
    or_refused : str
        A pattern of the error, if refusing is right too.
    """

    files: tuple[str, ...]
    words: tuple[str, ...]
    table: str = "trades"
    columns: tuple[str, ...] = TRADE
    rows: tuple[Row, ...] = ()
    refused: str = ""
    or_refused: str = ""


AUTO = ("auto", "--exchange", "X")
MINE = ("--exchange", "X", "--raw-symbol", "BTC-USD")
TRADES = ("csv", *MINE)
CANDLES = ("csv", "--table", "candles", *MINE)
PRICED = ("price", "amount", "side")
ONE = ((NOON, "SELL", 60000.5, 0.25),)
TWO = (*ONE, (NOON + SECOND, "BUY", 60001.5, 0.5))
OHLCV = ("timestamp", "open", "high", "low", "close", "volume")
MINUTES = (
    (NOON, 60000.5, 60001.0, 59999.0, 60001.0, 0.75),
    (NOON + MINUTE, 60001.0, 60002.0, 60001.0, 60002.0, 0.1),
)
LEAN = ((100.0, 101.0, 99.0, 100.5, 500.0), (100.5, 100.6, 100.0, 100.1, 300.0))
LOTS = ("--contract", "VANILLA", "--quote", "USD", "--exchange", "CME")
NOVEMBER = 1_730_611_800 * SECOND  # 2024-11-03T05:30:00Z
MARCH = 1_711_845_000 * SECOND  # 2024-03-31T00:30:00Z
DAYS = (
    (MIDNIGHT - 2 * DAY, 100.0, 110.0, 90.0, 105.0, 10.0),
    (MIDNIGHT - DAY, 105.0, 115.0, 95.0, 110.0, 20.0),
    (MIDNIGHT, 110.0, 130.0, 100.0, 125.0, 33.0),
    (MIDNIGHT + DAY, 125.0, 126.0, 124.0, 125.0, 2.0),
)
TWO_FROM_MIDNIGHT = (
    (MIDNIGHT, 100.0, 110.0, 90.0, 105.0, 10.0),
    (MIDNIGHT + MINUTE, 105.0, 115.0, 95.0, 110.0, 20.0),
)
VOLATILITIES = tuple((iv,) for iv in (16.0, 17.0, 18.32, 19.0, 22.0) for _ in range(4))
OPTION_MAP = "raw_symbol=instrument,implied_volatility=iv"
INVERSE = {
    "files": ("bybit_inverse_BTCUSD2024-08-08.csv",),
    "rows": ((NOON + 100_000_000, "BUY", 60000.0, 0.1), (NOON + 1_200_000_000, "SELL", 60000.0, 0.05)),
}
TWICE = ("BTCUSDT-trades-2025-03-01.csv", "BTCUSDT-aggTrades-2025-03-01.csv")
HYPERLIQUID = ((NOON, "SELL", 60000.0, 0.5), (NOON + SECOND, "BUY", 60001.0, 0.25))


def own(file: str, rows: tuple[Row, ...] = (), *words: str, **facts: Any) -> Case:
    return Case(files=(file,), words=(*TRADES, *words), rows=rows, **facts)


def bars(file: str, rows: tuple[Row, ...] = (), *words: str, **facts: Any) -> Case:
    return Case(files=(file,), words=(*CANDLES, *words), table="candles", columns=OHLCV, rows=rows, **facts)


def auto(file: str, rows: tuple[Row, ...], *words: str, **facts: Any) -> Case:
    return Case(files=(file,), words=("auto", *words), rows=rows, **facts)


CANDLES_OF = {"table": "candles", "columns": OHLCV}

CASES: Mapping[str, Case] = {
    "lean_equity": auto(
        "lean_equity_20240808_trade.zip",
        ((NOON + 90 * MINUTE, *LEAN[0]), (NOON + 91 * MINUTE, *LEAN[1])),
        *("--exchange", "X"),
        or_refused="--(security|category|time-zone)",
        **CANDLES_OF,
    ),
    "lean_hour": auto(
        "lean_hour_abcd.zip",
        ((NOON + HOUR, *LEAN[0]), (NOON + 2 * HOUR, *LEAN[1])),
        *("--exchange", "X"),
        or_refused="--(security|category|time-zone)",
        **CANDLES_OF,
    ),
    "lean_perp": auto(
        "lean_perp_20240808_trade.zip",
        (
            (MIDNIGHT, 60000.0, 60010.0, 59990.0, 60005.0, 1.5),
            (MIDNIGHT + MINUTE, 60005.0, 60020.0, 60000.0, 60010.0, 2.5),
        ),
        *("--exchange", "BINANCE_FUTURES"),
        **CANDLES_OF,
    ),
    "lean_future": auto(
        "lean_future_20240808_trade.zip",
        ((NOON, 5300.0, 5301.0, 5299.0, 5300.5, 10.0), (NOON, 5350.0, 5351.0, 5349.0, 5350.5, 2.0)),
        *LOTS,
        or_refused="--(security|category|time-zone)",
        **CANDLES_OF,
    ),
    "options_decimal_iv": Case(
        files=("options_decimal_iv.csv",),
        words=(
            "csv",
            "--table",
            "option_quotes",
            "--exchange",
            "X",
            "--map",
            OPTION_MAP,
            "--volatility-unit",
            "decimal",
        ),
        table="option_quotes",
        columns=("implied_volatility",),
        rows=VOLATILITIES,
    ),
    "options_decimal_iv without its unit": Case(
        files=("options_decimal_iv.csv",),
        words=("csv", "--table", "option_quotes", "--exchange", "X", "--map", OPTION_MAP),
        refused="--volatility-unit",
    ),
    "iv": Case(
        files=("iv.csv",),
        words=(
            "csv",
            "--table",
            "option_quotes",
            "--exchange",
            "X",
            "--map",
            OPTION_MAP,
            "--volatility-unit",
            "decimal",
        ),
        table="option_quotes",
        columns=("implied_volatility",),
        rows=((18.32,),),
    ),
    "stooq_hourly": auto(
        "stooq_hourly.csv",
        (
            (NOON + 2 * HOUR, 100.0, 102.0, 99.0, 101.0, 1000.0),
            (NOON + 3 * HOUR, 101.0, 103.0, 100.0, 102.0, 2000.0),
            (NOON + 4 * HOUR, 102.0, 104.0, 101.0, 103.0, 3000.0),
        ),
        *(
            "--exchange",
            "X",
            "--raw-symbol",
            "AAPL",
            "--quote",
            "USD",
            "--time-zone",
            "Europe/Warsaw",
            "--interval",
            "1h",
        ),
        **CANDLES_OF,
    ),
    "mt5_export": auto(
        "mt5_export.csv",
        (
            (NOON - 3 * HOUR, 1.0912, 1.0915, 1.0911, 1.0914, None),
            (NOON - 3 * HOUR + MINUTE, 1.0914, 1.0916, 1.0913, 1.0915, None),
        ),
        *(
            "--exchange",
            "X",
            "--raw-symbol",
            "EURUSD",
            "--time-zone",
            "America/New_York+7h",
            "--interval",
            "1m",
        ),
        **CANDLES_OF,
    ),
    "daily_download": Case(
        files=("daily_download_1.csv", "daily_download_2.csv"),
        words=(*CANDLES, "--interval", "1d"),
        rows=DAYS,
        **CANDLES_OF,
    ),
    "daily_download of two days": Case(
        files=("daily_download_1.csv", "daily_download_2b.csv"),
        words=(*CANDLES, "--interval", "1d"),
        rows=DAYS,
        **CANDLES_OF,
    ),
    "bybit_inverse": Case(words=("auto",), **INVERSE),
    "bybit_inverse called BYBIT_INVERSE": Case(words=("auto", "--exchange", "BYBIT_INVERSE"), **INVERSE),
    "bybit_inverse called X": Case(words=("auto", "--exchange", "X", "--category", "PERPETUAL"), **INVERSE),
    "bybit_spot": Case(
        files=("bybit_spot_day1.csv", "bybit_spot_day2.csv"),
        words=("auto", "--raw-symbol", "BTCUSDT"),
        columns=PRICED,
        rows=((60000.0, 0.5, "BUY"), (60010.0, 0.25, "SELL"), (61000.0, 0.1, "SELL"), (61010.0, 0.2, "BUY")),
    ),
    "bitmex": auto(
        "bitmex_20240808.csv", ((NOON + 123_456_000, "BUY", 60000.0, 0.1),), "--raw-symbol", "XBTUSD"
    ),
    "okx": auto(
        "okx_BTC-USDT-SWAP-trades-2024-08-08.csv",
        ((NOON, "BUY", 60000.1, 0.1), (NOON + SECOND, "SELL", 60000.0, 0.05)),
        *("--contract", "LINEAR", "--contract-size", "0.01"),
    ),
    "okx without its contract": auto("okx_BTC-USDT-SWAP-trades-2024-08-08.csv", (), refused="--contract"),
    "okx_fundingrates": auto(
        "okx_fundingrates.csv",
        ((MIDNIGHT, 0.0001, 8 * HOUR), (MIDNIGHT + 8 * HOUR, -0.00002, 8 * HOUR)),
        *("--funding-interval", "8h"),
        table="funding",
        columns=FUNDING,
    ),
    "gateio_futures without its contract": Case(
        files=("gateio_futures_BTC_USDT.csv",),
        words=("csv", "--exchange", "GATEIO_FUTURES", "--raw-symbol", "BTC_USDT"),
        refused="--contract",
    ),
    "gateio_futures": Case(
        files=("gateio_futures_BTC_USDT.csv",),
        words=(
            "csv",
            "--exchange",
            "GATEIO_FUTURES",
            "--raw-symbol",
            "BTC_USDT",
            "--contract",
            "LINEAR",
            "--contract-size",
            "0.0001",
        ),
        rows=((NOON, "SELL", 60000.0, 0.1),),
    ),
    "kraken_trades": auto(
        "kraken_trades_headerless_no_side.csv",
        (
            (NOON, None, 60000.5, 0.25),
            (NOON + 1_123_400_000, None, 60001.0, 0.5),
            (NOON + MINUTE, None, 60002.0, 0.1),
        ),
        *("--exchange", "KRAKEN", "--raw-symbol", "XBTUSD"),
    ),
    "kraken_ohlcvt": auto(
        "kraken_ohlcvt_headerless_1.csv",
        MINUTES,
        "--exchange",
        "KRAKEN",
        "--raw-symbol",
        "XBTUSD",
        **CANDLES_OF,
    ),
    "ccxt_ohlcv": auto(
        "ccxt_ohlcv_array_1m.json",
        MINUTES,
        "--exchange",
        "KRAKEN",
        "--raw-symbol",
        "BTC/USD",
        "--interval",
        "1m",
        **CANDLES_OF,
    ),
    "headerless_trades": own(
        "headerless_trades.csv",
        ((122.0, 0.1, "BUY"), (123.61, 0.2, "SELL"), (123.91, 1.0, "BUY")),
        *("--header", "timestamp,price,amount,side"),
        columns=PRICED,
    ),
    "headerless_trades by the first row": own(
        "headerless_trades.csv",
        ((122.0, 0.1, "BUY"), (123.61, 0.2, "SELL"), (123.91, 1.0, "BUY")),
        *("--map", "timestamp=1381095255,price=122.00000,amount=0.10000000,side=buy"),
        columns=PRICED,
        or_refused="--header",
    ),
    "hyperliquid_lines": auto("hyperliquid_trades.jsonl", HYPERLIQUID),
    "hyperliquid_array": auto("hyperliquid_trades_array.json", HYPERLIQUID),
    "deribit": auto("deribit_last_trades.json", ((NOON, "BUY", 60000.0, 0.1),)),
    "databento": auto(
        "databento_trades.csv",
        (
            (NOON, "BUY", 5300.25, 2.0),
            (NOON + SECOND, "SELL", 5300.0, 3.0),
            (NOON + SECOND, None, 5300.0, 1.0),
        ),
        *LOTS,
    ),
    "databento_raw": auto(
        "databento_trades_raw.csv",
        ((NOON, "BUY", 5300.25, 2.0), (NOON + SECOND, "SELL", 5300.0, 3.0)),
        *LOTS,
        "--raw-symbol",
        "ESU4",
    ),
    "databento_bars": auto(
        "databento_raw_ohlcv.csv",
        ((NOON, 5300.0, 5301.0, 5299.0, 5300.25, 20.0),),
        *LOTS,
        "--raw-symbol",
        "ESU4",
        **CANDLES_OF,
    ),
    "cryptodatadownload_days": auto(
        "cryptodatadownload_d.csv",
        (
            (MIDNIGHT, 60000.0, 61500.0, 59500.0, 61000.0, 200.0),
            (MIDNIGHT + DAY, 61000.0, 62000.0, 60000.0, 61500.0, 100.0),
        ),
        *("--exchange", "X", "--interval", "1d"),
        **CANDLES_OF,
    ),
    "cryptodatadownload_am_pm": auto(
        "cryptodatadownload_1h_ampm.csv",
        (
            (NOON, 59900.0, 60000.0, 59800.0, 60000.0, 5.0),
            (NOON + HOUR, 60000.0, 60100.0, 59900.0, 60050.0, 10.0),
        ),
        *("--exchange", "X", "--interval", "1h"),
        **CANDLES_OF,
    ),
    "histdata": auto(
        "DAT_ASCII_EURUSD_M1_202408.csv",
        (
            (NOON + 5 * HOUR, 1.0912, 1.0915, 1.0911, 1.0914, None),
            (NOON + 5 * HOUR + MINUTE, 1.0914, 1.0916, 1.0913, 1.0915, None),
        ),
        *("--exchange", "X"),
        **CANDLES_OF,
    ),
    "pandas": auto(
        "pandas_unnamed_index.csv",
        ((NOON, 1.0, 2.0, 1.0, 2.0, 10.0), (NOON + MINUTE, 2.0, 3.0, 2.0, 3.0, 20.0)),
        *MINE,
        "--interval",
        "1m",
        **CANDLES_OF,
    ),
    "trades, then aggTrades": Case(
        files=TWICE,
        words=("auto", "--exchange", "BINANCE"),
        columns=("amount",),
        rows=((0.1,), (0.2,), (0.3,)),
        refused="aggTrades",
    ),
    "aggTrades, then trades": Case(
        files=TWICE[::-1],
        words=("auto", "--exchange", "BINANCE"),
        columns=("amount",),
        rows=((0.1,), (0.5,)),
        refused="aggTrades",
    ),
    "options of Binance": auto(
        "BTCUSDT-EOHSummary-2023-10-20.csv",
        (("BTC-231020-28000-C", 28000.0, "CALL", 40.0),),
        *("--exchange", "BINANCE_OPTIONS"),
        table="option_quotes",
        columns=("raw_symbol", "strike", "option_type", "implied_volatility"),
    ),
    "yahoo_null": auto(
        "yahoo_null.csv",
        ((MIDNIGHT - DAY, 200.0, 210.0, 199.0, 205.0, 1_000_000.0),),
        *("--exchange", "X", "--raw-symbol", "AAPL", "--quote", "USD", "--interval", "1d"),
        **CANDLES_OF,
    ),
    "nan_minutes": bars(
        "nan_minutes.csv",
        ((NOON, 1.0, 1.0, 1.0, 1.0, 0.5), (NOON + 2 * MINUTE, 2.0, 2.0, 2.0, 2.0, 1.0)),
        "--interval",
        "1m",
    ),
    "macosx": own("macosx.zip", ONE),
    "with_checksum": own("with_checksum.zip", ONE),
    "with_dir": own("with_dir.zip", ONE),
    "utf16": own("utf16.csv", TWO),
    "tab.csv.zst": own("tab.csv.zst", ONE, or_refused="(?i)zst"),
    "tab.csv.bz2": own("tab.csv.bz2", ONE, or_refused="(?i)bz"),
    "tab.csv.xz": own("tab.csv.xz", ONE, or_refused="(?i)xz"),
    "tab.tar.gz": own("tab.tar.gz", ONE, or_refused="(?i)tar"),
    "comment_line": own("comment_line.csv", ONE, "--skip-lines", "1"),
    "footer": own("footer.csv", (ONE[0], (NOON + SECOND, "SELL", 60000.5, 0.25))),
    "capital_names": own("capital_names.csv", ONE),
    "funding_in_percent_points": Case(
        files=("funding_in_percent_points.csv",),
        words=("csv", "--table", "funding", *MINE, "--funding-interval", "8h"),
        refused="percent|unit",
    ),
    "funding_percent": Case(
        files=("funding_percent.csv",),
        words=("csv", "--table", "funding", *MINE, "--funding-interval", "8h"),
        table="funding",
        columns=("timestamp", "rate"),
        rows=((MIDNIGHT, 0.0001),),
        or_refused="%",
    ),
    "cme_oi": Case(
        files=("cme_oi.csv",),
        words=(
            "csv",
            "--table",
            "cme_open_interest",
            "--exchange",
            "CME",
            "--map",
            "timestamp=Trade Date,raw_symbol=Product,amount=Open Interest",
            "--time-format",
            "%m/%d/%Y",
        ),
        table="cme_open_interest",
        columns=("timestamp",),
        rows=((MIDNIGHT,), (MIDNIGHT + DAY,)),
        or_refused="--contract",
    ),
    "bom_crlf": own("bom_crlf.csv", TWO),
    "duplicated_rows_no_id": own("duplicated_rows_no_id.csv", (*TWO, *TWO)),
    "float_ms": own("float_ms.csv", TWO),
    "newest_first": own(
        "newest_first.csv",
        ((1.0, "a"), (2.0, "b"), (3.0, "c"), (9.0, "z")),
        *("--map", "id=tid"),
        columns=("price", "id"),
    ),
    "offset_dst_fall": own(
        "offset_dst_fall.csv", ((NOVEMBER, "SELL", 60000.5, 0.25), (NOVEMBER + HOUR, "BUY", 60001.5, 0.5))
    ),
    "out_of_order": own(
        "out_of_order.csv",
        (ONE[0], (NOON + 2 * SECOND, "BUY", 60002.5, 0.1), (NOON + 3 * SECOND, "BUY", 60001.5, 0.5)),
    ),
    "pipe": own("pipe.csv", ONE),
    "scientific": own("scientific.csv", TWO),
    "tab": own("tab.csv", ONE),
    "empty_cells": own("empty_cells.csv", refused="line|side"),
    "excel_serial": own("excel_serial.csv", ONE, or_refused="45512.5"),
    "latin1": own("latin1.csv", ONE, or_refused="UTF-8"),
    "ms_then_s": own("ms_then_s.csv", TWO, or_refused="1723118401"),
    "scientific_time": own("scientific_time.csv", TWO, or_refused="1.7231184"),
    "semicolon_decimal_comma": own("semicolon_decimal_comma.csv", TWO, or_refused="60000,5"),
    "thousands_comma_quoted": own("thousands_comma_quoted.csv", ONE, or_refused="60,000.5"),
    "thousands_decimal_comma": own("thousands_decimal_comma.csv", ONE, or_refused="60.000,5"),
    "tz_abbreviation": own("tz_abbreviation.csv", ((NOVEMBER, "SELL", 60000.5, 0.25),), or_refused="EDT"),
    "local_time_dst_spring": own(
        "local_time_dst_spring.csv",
        ((MARCH, "SELL", 60000.5, 0.25), (MARCH + HOUR, "BUY", 60001.5, 0.5)),
        *("--time-zone", "Europe/Berlin"),
    ),
    "close_stamped": bars("close_stamped.csv", TWO_FROM_MIDNIGHT, "--interval", "1m", or_refused="candle"),
    "end_stamped": bars("end_stamped.csv", TWO_FROM_MIDNIGHT, "--interval", "1m", "--stamped", "end"),
    "us_dates": Case(
        files=("us_dates.csv",),
        words=(
            "csv",
            "--table",
            "candles",
            "--exchange",
            "X",
            "--raw-symbol",
            "AAPL",
            "--quote",
            "USD",
            "--interval",
            "1m",
            "--map",
            "timestamp=datetime",
            "--time-format",
            "%m/%d/%Y %H:%M",
            "--time-zone",
            "America/New_York",
        ),
        rows=(
            (NOON + 90 * MINUTE, 200.0, 201.0, 199.0, 200.5, 1000.0),
            (NOON + 91 * MINUTE, 200.5, 202.0, 200.0, 201.5, 1100.0),
        ),
        **CANDLES_OF,
    ),
}


@pytest.mark.parametrize("name", listed(*(f"case {name}" for name in CASES)))
def test_a_file_that_went_wrong_is_right_or_refused(run, folder, cases, name):
    case = CASES[name.removeprefix("case ")]
    layout, *options = case.words
    code, text = 0, ""
    for file in case.files:
        assert code == 0, text
        code, text = run("ingest", layout, cases / file, "--lake", folder / "lake", *options)
    assert "No such option" not in text
    if code and (case.refused or case.or_refused):
        assert re.search(case.refused or case.or_refused, text.replace(str(cases), "")), text
    else:
        assert code == 0, text
        assert not case.refused, text
    if case.rows and not (code and case.or_refused):
        require_rows(Lake(folder / "lake"), case.table, case.columns, case.rows)


@pytest.mark.parametrize("name", listed("case cboe_eod"))
def test_a_chain_keeps_all_of_its_options(run, folder, cases, name):
    code, text = run("ingest", "auto", cases / "cboe_eod.csv", "--lake", folder / "lake")
    assert code == 0, text
    options = Lake(folder / "lake").scan("option_quotes").collect()
    assert options["raw_symbol"].n_unique() == options.height == 200
    assert options.group_by("expiry", "option_type").len()["len"].to_list() == [50] * 4
    assert options["implied_volatility"].is_between(1, 100).all()


@pytest.mark.parametrize("name", listed("case equity_tickers"))
def test_tickers_are_shares_in_dollars(run, folder, cases, name):
    columns = "raw_symbol=ticker,timestamp=window_start"
    words = (
        "csv",
        "--table",
        "candles",
        "--map",
        columns,
        "--interval",
        "1m",
        "--exchange",
        "X",
        "--quote",
        "USD",
    )
    code, text = run("ingest", words[0], cases / "equity_tickers.csv", "--lake", folder / "lake", *words[1:])
    assert code == 0, text
    markets = Lake(folder / "lake").scan("markets").collect()
    assert set(markets["raw_symbol"]) == {"AAPL", "GBTC", "FETH", "BRK.B"}
    assert not set(markets["coin"]) & {"G", "F", "BRK"}
    assert set(markets["quote_coin"]) == {"USD"}


@pytest.mark.parametrize("name", listed("case zero_volume_moves"))
def test_candles_without_volume_move_the_price_of_longer_ones(run, folder, cases, name):
    words = ("--table", "candles", "--interval", "1h", *MINE)
    code, text = run("ingest", "csv", cases / "zero_volume_moves.csv", "--lake", folder / "lake", *words)
    assert code == 0, text
    client = Client.local(folder / "lake")
    four_hours = client.candles(
        exchange="X", raw_symbol="BTC-USD", interval="4h", start="2024-08-08T00:00Z", end="2024-08-08T04:00Z"
    )
    assert four_hours.select("open", "high", "low", "close", "volume").rows() == [
        (100.0, 110.0, 70.0, 71.0, 15.0)
    ]


@pytest.mark.parametrize("name", listed("case newest_first, in order"))
def test_a_file_that_begins_with_the_newest_trade_is_turned_around(run, folder, cases, name):
    words = (*MINE, "--map", "id=tid")
    code, text = run("ingest", "csv", cases / "newest_first.csv", "--lake", folder / "lake", *words)
    assert code == 0, text
    trades = Lake(folder / "lake").scan("trades").collect().sort("timestamp", "sequence")
    assert trades["price"].to_list() == [9.0, 1.0, 2.0, 3.0]
