"""The command line as a user meets it: what it prints, where, and how it ends."""

from __future__ import annotations

import gzip
import json
import runpy
import shlex
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import tidytape
from lakes import demo_lake, empty_lake
from tidytape.cli import main
from tidytape.lake import Lake

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidytape", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out, said.err

    return command


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "lake"
    return demo_lake(path)


DAY = (
    "--exchange",
    "DEMO_SPOT",
    "--raw-symbol",
    "BTCUSDT",
    "--interval",
    "1h",
    "--start",
    "2024-08-08",
    "--end",
    "2024-08-09",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "read"), [("parquet", pl.read_parquet), ("csv", pl.read_csv), ("jsonl", pl.read_ndjson)]
)
def test_fetch_writes_a_file(
    run: Run, lake: Path, tmp_path: Path, suffix: str, read: Callable[..., pl.DataFrame]
) -> None:
    out = tmp_path / f"candles.{suffix}"
    code, said, told = run("fetch", "candles", "--lake", lake, *DAY, "--out", out)
    assert (code, said) == (0, "")
    assert told == f"24 rows -> {out}\n1 request, weight 1\n"
    assert read(out).height == 24


@pytest.mark.slow
def test_fetch_prints_what_is_the_same_once_and_the_rest_as_a_table(run: Run, lake: Path) -> None:
    code, said, _ = run("fetch", "candles", "--lake", lake, *DAY)
    heading, *table = said.splitlines()
    assert code == 0
    assert heading == (
        "exchange=DEMO_SPOT  raw_symbol=BTCUSDT  normalized_symbol=BTC-USDT  coin=BTC  category=SPOT  interval=1h  "
        "amount_unit=COIN"
    )
    assert "2024-08-08T00:00:00Z" in said
    assert table[-1] == "24 rows, 4 not shown; --out FILE writes all"


@pytest.mark.slow
@pytest.mark.filterwarnings("default::tidytape.errors.EmptyAnswerWarning")
def test_fetch_of_nothing_says_so(run: Run, lake: Path) -> None:
    code, said, told = run(
        "fetch", "volume-profile", "--lake", lake, *DAY[:-4], "--start", "2020-01-01", "--end", "2020-01-02"
    )
    assert code == 0
    assert said.startswith("no rows; columns: timestamp, exchange, raw_symbol")
    assert told.startswith(
        "warning: DEMO_SPOT BTCUSDT has VOLUME_PROFILE_AGG from 2024-08-07T00:00:15Z to 2024-08-08"
    )


@pytest.mark.slow
def test_a_wrong_request_is_one_line_and_exit_code_two(run: Run, lake: Path) -> None:
    code, said, told = run("fetch", "candles", "--lake", lake, *DAY, "--interval", "2m")
    assert (code, said) == (2, "")
    assert told.startswith("error: --interval: got '2m', expected one of MINUTE (1m), ")
    assert told.count("\n") == 1


@pytest.mark.slow
def test_a_target_that_cannot_be_is_refused_before_anything_is_fetched(
    run: Run, lake: Path, tmp_path: Path
) -> None:
    for out in ("candles.xls", tmp_path / "nowhere" / "candles.csv"):
        code, _, told = run("fetch", "candles", "--lake", tmp_path / "no lake either", *DAY, "--out", out)
        assert code == 2
        assert told.startswith("error: --out: got ")


@pytest.mark.slow
def test_no_lake_and_no_address_says_what_to_set(run: Run) -> None:
    code, _, told = run("fetch", "candles", *DAY)
    assert code == 2
    assert told.startswith("error: --lake: left out, expected a lake, or --base-url and a key")
    assert "TIDYTAPE_BASE_URL and TIDYTAPE_API_KEY in the environment" in told


@pytest.mark.slow
def test_markets(run: Run, lake: Path) -> None:
    code, said, _ = run("markets", "--lake", lake, "--category", "PERPETUAL")
    assert code == 0
    assert "BTC-PERP" in said
    assert "DEMO_SPOT" not in said


def test_a_new_key_is_alone_on_the_last_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    code, said, told = run("keys", "new", "--tier", "enterprise", "--keys", file)
    assert code == 0
    key = said.splitlines()[-1]
    assert len(key) >= 43
    assert key not in told
    assert key not in file.read_text()
    assert json.loads(file.read_text())[0]["tier"] == "enterprise"


@pytest.mark.slow
def test_a_new_key_tells_what_its_tier_has_and_which_others_there_are(run: Run, tmp_path: Path) -> None:
    file = ("--keys", tmp_path / "keys.json")
    _, _, told = run("keys", "new", *file)
    first, second, *_ = told.splitlines()
    assert first == (
        "tier basic has the last 90 days and nothing before, the data types of basic, 100 weight a minute and 200 at "
        "once, and may not join exchanges"
    )
    assert second == "for another tier: --tier advanced, --tier enterprise"
    assert run("keys", "new", *file, "--tier", "Enterprise")[2].startswith(
        "tier enterprise has all of the history, the data types of enterprise, 750 weight a minute and 1,500 at once, "
        "and may join exchanges\n"
    )
    tiers = tmp_path / "tiers.toml"
    tiers.write_text("[student]\nper_minute = 5\nhistory_days = 1\n")
    told = run("keys", "new", "--keys", tmp_path / "a.json", "--tier", "student", "--tiers", tiers)[2]
    assert told.startswith("tier student has the last 1 day and nothing before")
    assert "another tier" not in told


@pytest.mark.slow
def test_a_key_of_an_unknown_tier_is_told_by_its_id(run: Run, lake: Path, tmp_path: Path) -> None:
    file, tiers = tmp_path / "keys.json", tmp_path / "tiers.toml"
    tiers.write_text("[student]\nper_minute = 5\n")
    secret = run("keys", "new", "--keys", file)[1].strip()
    name = json.loads(file.read_text())[0]["id"]
    code, _, told = run("serve", "--lake", lake, "--keys", file, "--tiers", tiers)
    assert code == 1
    assert told.startswith(f"error: {file}: key '{name}' is of tier 'basic', and the tiers are student;")
    assert secret not in told


@pytest.mark.slow
def test_keys_are_listed_by_id_and_revoked(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    _, secret, _ = run("keys", "new", "--tier", "advanced", "--keys", file, "--expires", "2100-01-01")
    code, listed, _ = run("keys", "list", "--keys", file)
    assert code == 0
    name, tier, *_ = listed.split()
    assert tier == "advanced"
    assert "ends 2100-01-01" in listed
    assert secret.strip() not in listed
    assert run("keys", "revoke", name, "--keys", file)[0] == 0
    assert run("keys", "list", "--keys", file)[:2] == (0, "")
    code, _, told = run("keys", "revoke", name, "--keys", file)
    assert code == 2
    assert name in told


def test_a_service_without_keys_does_not_start(run: Run, lake: Path, tmp_path: Path) -> None:
    code, _, told = run("serve", "--lake", lake, "--keys", tmp_path / "none.json")
    assert code == 1
    assert told.startswith("error: there is no key file")


@pytest.mark.slow
def test_ingest_csv_with_a_column_map(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "trades.csv.gz"
    with gzip.open(file, "wt") as out:
        out.write(
            "tid,px,qty,side,time\n1,10.5,2,buy,2024-01-01T00:00:00Z\n2,10.6,1,sell,2024-01-01T00:00:30Z\n"
        )
    words = ("ingest", "csv", file, "--lake", tmp_path / "lake", "--exchange", "X", "--raw-symbol", "BTC-USD")
    mapping = ("--map", "id=tid,price=px,amount=qty,side=side,timestamp=time")
    code, said, _ = run(*words, *mapping)
    assert code == 0
    assert "2 trades" in said
    code, said, told = run(*words, "--map", "id")
    assert code == 2
    assert told.startswith("error: --map: got 'id', expected name=column pairs")


@pytest.mark.slow
def test_ingest_of_a_broken_line_names_it_and_leaves_the_lake_as_it_was(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "trades.csv"
    file.write_text(
        "id,price,amount,side,time\n1,10.5,2,buy,2024-01-01T00:00:00Z\n2,ten,1,sell,2024-01-01T00:00:30Z\n"
    )
    words = ("ingest", "csv", file, "--lake", tmp_path / "lake", "--exchange", "X", "--raw-symbol", "BTC-USD")
    mapping = ("--map", "id=id,price=price,amount=amount,side=side,timestamp=time")
    code, _, told = run(*words, *mapping)
    assert code == 1
    assert "trades.csv:3: " in told
    code, said, _ = run(*words, *mapping, "--skip-bad")
    assert code == 0
    assert "1 trade" in said


@pytest.mark.slow
def test_ingest_of_several_files_prints_the_report_and_names_the_bad_ones(run: Run, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("good.csv", "bad.csv", "more.csv")]
    for number, (file, price) in enumerate(zip(files, ("10.5", "ten", "10.7"), strict=True)):
        file.write_text(f"id,price,amount,side,timestamp\n{number},{price},2,buy,2024-01-01T00:00:00Z\n")
    lake = ("--lake", tmp_path / "lake", "--exchange", "X", "--raw-symbol", "BTC-USD", "--map", "id=id")
    code, said, told = run("ingest", "csv", *files, *lake)
    assert code == 1
    assert [line.partition(":")[0] for line in said.splitlines()] == [
        str(files[0]),
        str(files[2]),
        "X BTC-USD",
    ]
    assert "error: 1 of 3 files did not go into the lake, the others did:" in told
    assert f"{files[1]}:2: the price 'ten' is not a finite number" in told


@pytest.mark.long
def test_the_demo_runs_the_whole_journey(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said, told = run("demo", "--out", tmp_path / "demo", "--days", "1")
    assert code == 0
    for name in ("report.html", "market.tape", "lake"):
        assert str(tmp_path / "demo" / name) in said
        assert (tmp_path / "demo" / name).exists()
    assert "TRADE_SIDE_AGNOSTIC_AGG" in said
    assert "1 simulated day in" in told
    page = (tmp_path / "demo" / "report.html").read_bytes()
    # The commands that it ends with do what they say.
    tries = [shlex.split(line)[1:] for line in said.splitlines() if line.startswith("tidytape ")]
    assert len(tries) == 3
    monkeypatch.chdir(tmp_path)
    assert [run(*words)[0] for words in tries] == [0, 0, 0]
    assert (tmp_path / "again.html").stat().st_size > 1_000_000
    # It goes into the same folder again, and the market is the same.
    code, said, _ = run("demo", "--out", tmp_path / "demo", "--days", "1", "--json")
    assert code == 0
    assert {row["type"] for row in json.loads(said)["fetched"]} >= {"TPO_AGG", "FUNDING_RATE_AGG"}
    assert len((tmp_path / "demo" / "report.html").read_bytes()) == pytest.approx(len(page), rel=1e-3)


@pytest.mark.slow
def test_the_demo_leaves_a_lake_of_others_alone(run: Run, tmp_path: Path) -> None:
    lake = empty_lake(tmp_path / "demo" / "lake")
    lake.writer().register(
        pl.DataFrame([{"exchange": "X", "raw_symbol": "BTC-USD", "coin": "BTC", "quote_coin": "USD"}])
    )
    code, _, told = run("demo", "--out", tmp_path / "demo", "--days", "1")
    assert code == 2
    assert "what an earlier demo wrote and nobody changed since" in told
    assert Lake(lake.path).markets().height == 1


@pytest.mark.slow
def test_help_and_version(run: Run) -> None:
    for words in (
        ("--help",),
        ("fetch", "candles", "--help"),
        ("ingest", "csv", "--help"),
        ("keys", "new", "--help"),
    ):
        code, said, _ = run(*words)
        assert code == 0
        assert "Usage: tidytape" in said
    assert run("--version")[1].startswith("tidytape ")


def test_python_runs_the_command_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tidytape", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("tidytape", run_name="__main__")
    assert ended.value.code in (0, None)
    assert capsys.readouterr().out == f"tidytape {tidytape.__version__}\n"


@pytest.mark.slow
def test_a_tape_is_listed_as_people_write_what_they_asked(run: Run, lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "study.tape"
    day = {
        "exchange": "DEMO_SPOT",
        "coin": "BTC",
        "interval": "1h",
        "start": "2024-08-08",
        "end": "2024-08-09",
    }
    with tidytape.Client.local(lake) as client, client.record(path):
        client.candles(**day)  # type: ignore[arg-type]
        client.coins(start="2024-08-08")
        sessions = client.fetch(client.query.tpo_sessions(**day | {"interval": "1d"}))
    code, listed, _ = run("tape", "ls", path)
    first, second, third = listed.splitlines()
    assert f"  1 row  {sessions.metadata.hash[:16]}  tpo_sessions exchange=DEMO_SPOT coin=BTC " in third
    assert code == 0
    assert first.startswith("1  20")
    assert "  24 rows  " in first
    asked = "TRADE_SIDE_AGNOSTIC_AGG exchange=DEMO_SPOT coin=BTC interval=1h, "
    assert first.endswith(f"  {asked}2024-08-08T00:00:00Z to 2024-08-09T00:00:00Z")
    assert second.endswith("  coins from 2024-08-08T00:00:00Z")
    manifest = path / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes().replace(b"coins", b"Coins", 1))
    _, listed, told = run("tape", "ls", path)
    assert listed.splitlines() == [first]
    assert told == f"error: {path}: it is not as it was recorded from entry 2 on\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("always")
def test_a_key_over_plain_http_is_warned_of_in_a_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "HTTP_PROXY", "http://127.0.0.1:1"
    )  # where nothing listens: nothing leaves this machine
    monkeypatch.setattr("tidytape.client._request._not_there", lambda attempt: 0.0)
    code, said, told = run("usage", "--base-url", "http://data.example.org", "--api-key", "the-secret-key")
    warning, error = told.splitlines()
    assert warning.startswith("warning: the key is sent to data.example.org over plain http")
    assert "is the proxy running that HTTP_PROXY" in error
    assert (code, said) == (1, "")
