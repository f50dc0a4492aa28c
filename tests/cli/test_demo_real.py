"""``tidytape demo --real``: the journey on a copy of an archive, and what stops it."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror import Mirror, answers, put_binance
from tidytape.archives import _fetching
from tidytape.cli import main
from tidytape.cli._demo_folder import claimed
from tidytape.cli._demo_real import newest_window

CANDLES = "/klines/"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(_fetching, "_PACE", 0.0)
    monkeypatch.setattr(_fetching, "_FIRST_PAUSE", 0.001)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def command(*words):
        monkeypatch.setattr("sys.argv", ["tidytape", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out, said.err

    return command


@pytest.fixture
def mirror():
    with Mirror().served() as serving:
        yield serving


def put_window(mirror, days=3):
    """Add the files that a demo of today asks for."""
    start, _ = newest_window(days, datetime.now(UTC))
    put_binance(mirror, start, days, trades=2_000)


@given(hours=st.integers(0, 30 * 365 * 24), days=st.integers(1, 366))
def test_the_window_lies_in_months_that_are_published(hours, days):
    now = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
    start, end = newest_window(days, now)
    assert (end - start).days == days
    assert end.day == 1  # so that rates of all days are in files of months that are over
    assert timedelta(days=15) <= now - datetime(end.year, end.month, 1, tzinfo=UTC) < timedelta(days=47)


@pytest.mark.slow
def test_the_journey_on_a_real_market_and_the_commands_that_it_ends_with(run, mirror, tmp_path):
    put_window(mirror)
    words = ["--real", "btc", "--mirror", mirror.address]
    code, said, told = run("demo", "--out", "a demo", *words)
    assert code == 0, told
    start, end = newest_window(3, datetime.now(UTC))
    window = f"{start} to {end - timedelta(days=1)}"
    assert f"Real: BTCUSDT, the perpetual of Binance, {window}, from {mirror.address}\n" in said
    assert "7 files: 7 ok; " in said
    assert "simulated" not in said + told
    assert "3 real days in" in told
    page = (tmp_path / "a demo" / "report.html").read_text("utf-8")
    assert f"<title>BTCUSDT on Binance, {window}</title>" in page
    assert f"<dd>{mirror.address}</dd>" in page.replace("\n", "")
    assert "simulated" not in page
    tries = [shlex.split(line)[1:] for line in said.splitlines() if line.startswith("tidytape ")]
    assert [each[0] for each in tries] == ["lake", "fetch", "report", "download"]
    assert [run(*each)[0] for each in tries[:2]] == [0, 0]
    assert run(*tries[3], "--mirror", mirror.address)[0] == 1  # a month, of which the mirror has three days
    # The next demo takes its place, here one of trades too.
    code, said, told = run("demo", "--out", "a demo", *words, "--trades", "--days", "1", "--quiet")
    assert code == 0
    assert told.startswith("1 real day in ")
    assert "4 files: 4 ok; " in said
    assert "VOLUME_PROFILE_AGG" in said


@pytest.mark.slow
def test_files_that_are_missing_or_wrong_are_named_and_the_report_is_made_without(run, mirror):
    put_window(mirror)
    metrics = sorted(path for path in mirror.files if path.endswith(".zip") and "/metrics/" in path)
    mirror.files.pop(metrics[0])
    mirror.put(metrics[1], mirror.files[metrics[1]], checksum="0" * 64)
    code, said, _ = run("demo", "--out", "demo", "--real", "BTC", "--mirror", mirror.address)
    assert code == 0
    assert "BTCUSDT open_interest: absent, the archive does not have it: " in said
    assert "BTCUSDT open_interest: bad_checksum, its SHA-256 is " in said
    assert "7 files: 5 ok, 1 absent, 1 bad_checksum" in said


@pytest.mark.slow
def test_without_a_network_one_line_offers_the_plain_demo_and_nothing_is_touched(run, tmp_path):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "report.html").write_text("of an earlier demo")
    for out in ("demo", "new"):
        code, said, told = run(
            "demo", "--out", out, "--real", "BTC", "--mirror", "http://127.0.0.1:9", "--quiet"
        )
        assert (code, said) == (1, "")
        assert told.startswith("error: no connection to http://127.0.0.1:9/")
        assert told.endswith(f"; without the archive: tidytape demo --out {out}\n")
        assert told.count("\n") == 1
    assert not (tmp_path / "new").exists()
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["report.html"]


@pytest.mark.slow
def test_an_archive_that_refuses_is_one_line(run, mirror, tmp_path):
    put_window(mirror, days=1)
    mirror.faults = dict.fromkeys(mirror.files, answers(403))
    words = ["--real", "BTC", "--days", "1", "--mirror", mirror.address, "--quiet"]
    code, _, told = run("demo", "--out", "demo", *words)
    assert (code, told.count("\n")) == (1, 1)
    assert "the server refuses it with 403; without the archive: tidytape demo --out demo" in told
    assert not (tmp_path / "demo").exists()


@pytest.mark.slow
def test_without_candles_there_is_no_report_and_the_folder_is_free_for_the_next_demo(run, mirror, tmp_path):
    put_window(mirror, days=1)
    for path, content in list(mirror.files.items()):
        if CANDLES in path and path.endswith(".zip"):
            mirror.put(path, content, checksum="0" * 64)
    words = ["--real", "BTC", "--days", "1", "--mirror", mirror.address, "--quiet"]
    code, _, told = run("demo", "--out", "demo", *words)
    assert code == 1
    assert told.startswith("error: no candles of BTCUSDT: BTCUSDT candles: bad_checksum, its SHA-256 is ")
    with claimed(tmp_path / "demo"):
        assert not (tmp_path / "demo" / "lake").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trades"], "--trades: got True, expected a real market with it, e.g. --real BTC"),
        (["--mirror", "http://127.0.0.1:9"], "--mirror: got "),
        (["--real", "../BTC"], "expected symbols as the exchange writes them"),
    ],
)
def test_what_cannot_be_right_is_refused(run, tmp_path, words, message):
    code, _, told = run("demo", "--out", "demo", *words)
    assert (code, message in told) == (2, True), told
    assert not (tmp_path / "demo").exists()


@pytest.mark.slow
def test_a_coin_that_the_archive_does_not_have(run, mirror, tmp_path):
    code, _, told = run("demo", "--out", "demo", "--real", "NOSUCH", "--mirror", mirror.address, "--quiet")
    assert code == 2
    assert told.startswith(
        "error: --real: got 'NOSUCH', expected a coin whose symbol with USDT is in the archive"
    )
    assert not (tmp_path / "demo").exists()
