"""A tape gives back what was recorded, and tells of every byte that is not."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidytape.client import Usage
from tidytape.client.fingerprint import fingerprint
from tidytape.client.tape import Recorder, Replayer, entries, verify
from tidytape.client.writing import ParquetFile
from tidytape.errors import TapeError

DAYS = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
FRAME = pl.DataFrame(
    {
        "exchange": pl.Series(["X", "Y", None], dtype=pl.Categorical),
        "timestamp": pl.Series(DAYS, dtype=pl.Datetime("ns", "UTC")),
        "close": [1.5, None, float("inf")],
        "rank": pl.Series([1, None, 2**62], dtype=pl.Int64),
        "blocks": pl.Series([[1, 2], [], None], dtype=pl.List(pl.Int32)),
        "named": [["é"], [], ["a", "b"]],
    }
)
USAGE = Usage(100, 50, 50, 1_700_000_000, 60)
ASKS: list[tuple[dict[str, Any], Any]] = [
    ({"ask": "points", "params": [["type", "TRADE_AGG"]]}, FRAME),
    ({"ask": "coins", "params": []}, ["BTC", "ETH"]),
    ({"ask": "usage"}, USAGE),
    ({"ask": "points", "params": [["type", "OTHER"]]}, FRAME.clear()),
]


def recorded(path: Path) -> Path:
    with Recorder(path, base_url="http://service") as tape:
        for ask, answered in ASKS:
            tape.add(ask, answered, {"weight": 1})
    return path


def same(one: Any, other: Any) -> bool:
    if isinstance(one, pl.DataFrame):
        return one.schema == other.schema and one.equals(other)
    return bool(one == other)


def test_what_was_recorded_comes_back(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    tape = Replayer(path)
    assert tape.base_url == "http://service"
    for ask, answered in reversed(ASKS):
        for _ in range(2):
            assert same(tape.found(ask)[0], answered)
    assert verify(path) == []
    with pytest.raises(TapeError, match="has no answer to"):
        tape.found({"ask": "points", "params": []})


def test_questions_asked_again_are_answered_in_turn(tmp_path: Path) -> None:
    with Recorder(tmp_path / "t", base_url="http://service") as tape:
        for used in (1, 2):
            tape.add({"ask": "usage"}, Usage(100, 50, used, 0, 60))
    played = Replayer(tmp_path / "t")
    assert [played.found({"ask": "usage"})[0].used for _ in range(3)] == [1, 2, 2]  # type: ignore[union-attr]


def test_a_tape_is_lines_of_json_and_has_a_manifest(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert set(lines[0]["entry"]["versions"]) == {"tidytape", "polars", "python"}
    assert lines[-1]["entry"]["end"] == len(ASKS)
    manifest = entries(path)
    assert [one.ask for one in manifest] == [ask for ask, _ in ASKS]
    assert [one.rows for one in manifest] == [3, None, None, 0]
    assert manifest[0].hash == fingerprint(FRAME)
    assert manifest[0].told == {"weight": 1}


@pytest.mark.slow
@settings(max_examples=300)
@given(where=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_one_byte_changed_is_told_and_never_returned(
    tmp_path_factory: pytest.TempPathFactory, where: float, change: int
) -> None:
    path = recorded(tmp_path_factory.mktemp("tape") / "study.tape")
    content = bytearray(path.read_bytes())
    at = int(where * len(content))
    number = content[:at].count(b"\n")
    content[at] ^= change
    path.write_bytes(content)
    wrong = verify(path)
    name = f"entry {number}" if number else "the head"
    assert any(one.startswith(name) for one in wrong), (number, wrong)
    try:
        tape = Replayer(path)
    except TapeError:
        assert number == 0
        return
    for ask, answered in ASKS:
        try:
            found, _ = tape.found(ask)
        except TapeError:
            continue
        assert same(found, answered)


def test_lines_that_were_moved_added_or_left_out_are_told(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    lines = path.read_bytes().splitlines(keepends=True)
    for other in (
        [*lines[:2], *lines[3:]],
        [lines[0], lines[2], lines[1], *lines[3:]],
        [*lines[:2], lines[1], *lines[2:]],
        [*lines, lines[1]],
        lines[1:],
        [],
    ):
        path.write_bytes(b"".join(other))
        assert verify(path)


def test_a_study_that_was_killed_leaves_what_it_had(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    tape = Replayer(path)
    assert same(tape.found(ASKS[0][0])[0], FRAME)
    with pytest.raises(TapeError):
        tape.found(ASKS[2][0])
    wrong = verify(path)
    assert wrong[0].startswith("entry 3 is damaged")
    assert "was not finished" in wrong[-1]


def test_a_tape_is_not_replaced_unless_that_is_said(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    with pytest.raises(TapeError, match="overwrite=True"):
        Recorder(path, base_url="http://service")
    assert verify(path) == []
    Recorder(path, base_url="http://service", overwrite=True).close()
    assert entries(path) == []


def test_a_tape_of_lies_is_told(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    lines = path.read_bytes().splitlines(keepends=True)
    for lie in (
        {"size": 10**12}, {"size": -1}, {"size": None}, {"at": "then"}, {"at": None}, {"rows": ...}, {"told": 1},
        {"body": "!"}, {"form": "arrow2"},
    ):  # fmt: skip
        entry = json.loads(lines[1])["entry"] | lie
        content = json.dumps({key: value for key, value in entry.items() if value is not ...}).encode()
        line = (
            b'{"sha256":"' + hashlib.sha256(content).hexdigest().encode() + b'","entry":' + content + b"}\n"
        )
        path.write_bytes(lines[0] + line + b"".join(lines[2:]))
        assert any(one.startswith("entry 1 is damaged") for one in verify(path)), lie
        with pytest.raises(TapeError):
            Replayer(path).found(ASKS[0][0])
        entries(path)


def test_an_answer_that_comes_after_the_end_is_not_on_the_tape(tmp_path: Path) -> None:
    with Recorder(tmp_path / "t", base_url="http://service") as tape:
        tape.add({"ask": "coins"}, ["BTC"])
    tape.add({"ask": "coins"}, ["ETH"])
    assert verify(tmp_path / "t") == []
    assert len(entries(tmp_path / "t")) == 1
    with pytest.raises(TapeError, match="cannot be written"):
        Recorder(tmp_path / "nowhere" / "t", base_url="http://service")


@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"sha256":"","entry":{}}\n'])
def test_what_is_no_tape_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "not a tape"
    path.write_bytes(content)
    with pytest.raises(TapeError, match="is no tape"):
        Replayer(path)
    assert verify(path)
    with pytest.raises(TapeError, match="cannot be read"):
        Replayer(tmp_path / "nowhere")


def test_a_fingerprint_is_of_what_a_frame_says(tmp_path: Path) -> None:
    told = fingerprint(FRAME)
    FRAME.write_parquet(tmp_path / "frame.parquet")
    assert fingerprint(pl.read_parquet(tmp_path / "frame.parquet")) == told
    assert fingerprint(pl.concat([FRAME[:1], FRAME[1:]])) == told
    assert (
        fingerprint(FRAME.with_columns(pl.col("exchange").cast(pl.String))) == told
    )  # how text is held is no matter
    others = [
        FRAME[::-1],
        FRAME.rename({"close": "open"}),
        FRAME.with_columns(pl.col("rank").cast(pl.Float64)),
        FRAME.with_columns(pl.col("close").fill_null(0.0)),
        FRAME.with_columns(pl.col("timestamp").dt.replace_time_zone(None)),
        FRAME.with_columns(blocks=pl.Series([[1], [2], None], dtype=pl.List(pl.Int32))),
        FRAME.with_columns(named=pl.Series([["é"], ["a"], ["b"]])),
        FRAME.clear(),
        FRAME.select(FRAME.columns[::-1]),
    ]
    assert len({told, *map(fingerprint, others)}) == len(others) + 1


@pytest.mark.parametrize("trouble", ["damaged", "left out", "swapped", "end cut"])
def test_answers_never_move_to_the_place_of_another(tmp_path: Path, trouble: str) -> None:
    path, ask = tmp_path / "t", {"ask": "usage"}
    with Recorder(path, base_url="http://service") as tape:
        for used in (1, 2, 3):
            tape.add(ask, Usage(100, 50, used, 0, 60))
    head, *lines, end = path.read_bytes().splitlines(keepends=True)
    changed = {
        "damaged": [lines[0], lines[1].replace(b'"told"', b'"Told"'), lines[2], end],
        "left out": [lines[0], lines[2], end],
        "swapped": [lines[0], lines[2], lines[1], end],
        "end cut": lines[:1],
    }[trouble]
    path.write_bytes(b"".join([head, *changed]))
    played = Replayer(path)
    assert played.found(ask)[0].used == 1  # type: ignore[union-attr]
    for _ in range(2):
        with pytest.raises(TapeError, match="not as it was recorded from entry 2 on"):
            played.found(ask)


def test_a_column_named_like_a_pattern_is_a_column(tmp_path: Path) -> None:
    frame = pl.DataFrame({"^x$": [1.0, None], "^.*$": ["a", None], "*": [[1], None]})
    assert fingerprint(frame) != fingerprint(frame.reverse())
    with ParquetFile(tmp_path / "x.parquet") as file:
        file.write(frame)
        file.write(pl.DataFrame([frame["*"]]))
    back = pl.read_parquet(tmp_path / "x.parquet")
    assert back.columns == frame.columns
    assert back["^x$"].to_list() == [1.0, None, None, None]
    assert back["*"].to_list() == [[1], None] * 2
