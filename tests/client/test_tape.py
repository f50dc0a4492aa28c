"""A tape gives back what was recorded, and tells of every byte that is not."""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import resource
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from thorough import often
from tidytape.cli import app
from tidytape.client import Usage
from tidytape.client._endpoints import ParquetFile
from tidytape.client._metadata import fingerprint
from tidytape.client._tape import CONTENT, Recorder, Replayer, entries, framed, verify
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


@pytest.mark.slow
def test_what_was_recorded_comes_back(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    tape = Replayer(path)
    assert tape.base_url == "http://service"
    for ask, answered in reversed(ASKS):
        for _ in range(2):
            assert same(tape.answer_to(ask)[0], answered)
    assert verify(path) == []
    with pytest.raises(TapeError, match="has no answer to"):
        tape.answer_to({"ask": "points", "params": []})


@pytest.mark.slow
def test_questions_asked_again_are_answered_in_turn(tmp_path: Path) -> None:
    with Recorder(tmp_path / "t", base_url="http://service") as tape:
        for used in (1, 2):
            tape.add({"ask": "usage"}, Usage(100, 50, used, 0, 60))
    played = Replayer(tmp_path / "t")
    assert [played.answer_to({"ask": "usage"})[0].used for _ in range(3)] == [1, 2, 2]  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_tape_is_a_manifest_and_files_that_anything_reads(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    assert {one.name for one in path.iterdir()} == {
        "manifest.jsonl",
        "1.arrow",
        "2.json",
        "3.json",
        "4.arrow",
    }
    assert same(pl.read_ipc(path / "1.arrow"), FRAME)
    told = hashlib.sha256()
    lines = []
    for line in (path / "manifest.jsonl").read_bytes().splitlines():
        entry = json.loads(line)
        content = line[line.index(b'"entry":') + len(b'"entry":') : -1]
        told.update(content)
        assert told.hexdigest() == entry["sha256"]
        lines.append(entry["entry"])
    assert set(lines[0]["versions"]) == {"tidytape", "polars", "python"}
    assert lines[-1]["end"] == len(ASKS)
    assert lines[1]["sha256"] == hashlib.sha256((path / "1.arrow").read_bytes()).hexdigest()
    manifest = entries(path)
    assert [one.ask for one in manifest] == [ask for ask, _ in ASKS]
    assert [one.rows for one in manifest] == [3, None, None, 0]
    assert manifest[0].hash == fingerprint(FRAME)
    assert manifest[0].facts == {"weight": 1}


@pytest.mark.long
@settings(max_examples=often(60, thoroughly=300))
@given(
    file=st.sampled_from(["manifest.jsonl", "1.arrow", "2.json", "3.json", "4.arrow"]),
    where=st.floats(0, 1, exclude_max=True),
    change=st.integers(1, 255),
)
def test_one_byte_changed_is_told_and_never_returned(
    tmp_path_factory: pytest.TempPathFactory, file: str, where: float, change: int
) -> None:
    path = recorded(tmp_path_factory.mktemp("tape") / "study.tape")
    content = bytearray((path / file).read_bytes())
    content[int(where * len(content))] ^= change
    (path / file).write_bytes(content)
    try:
        assert verify(path), file
        tape = Replayer(path)
    except TapeError:
        assert file == "manifest.jsonl"  # the head of it
        return
    for ask, answered in ASKS:
        try:
            found, _ = tape.answer_to(ask)
        except TapeError:
            continue
        assert same(found, answered)


@pytest.mark.slow
def test_a_damaged_file_takes_no_other_answer_along(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    (path / "1.arrow").write_bytes(b"ARROW1")
    (path / "2.json").unlink()
    tape = Replayer(path)
    for ask, _ in ASKS[:2]:
        with pytest.raises(TapeError, match="is damaged"):
            tape.answer_to(ask)
    for ask, answered in ASKS[2:]:
        assert same(tape.answer_to(ask)[0], answered)
    assert [one.partition(": ")[2].partition(" is")[0] for one in verify(path)] == ["entry 1", "entry 2"]


@pytest.mark.slow
def test_lines_that_were_moved_added_or_left_out_are_told(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    manifest = path / "manifest.jsonl"
    lines = manifest.read_bytes().splitlines(keepends=True)
    for other in (
        [*lines[:2], *lines[3:]],
        [lines[0], lines[2], lines[1], *lines[3:]],
        [*lines[:2], lines[1], *lines[2:]],
        [*lines, lines[1]],
        lines[:-1],
    ):
        manifest.write_bytes(b"".join(other))
        assert verify(path)


@pytest.mark.slow
def test_a_study_that_was_killed_leaves_what_it_had(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    manifest = path / "manifest.jsonl"
    lines = manifest.read_bytes().splitlines(keepends=True)
    manifest.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    tape = Replayer(path)
    for ask, answered in ASKS[:2]:
        assert same(tape.answer_to(ask)[0], answered)
    with pytest.raises(TapeError, match="not as it was recorded from entry 3 on"):
        tape.answer_to(ASKS[2][0])
    manifest.write_bytes(b"".join(lines[:3]))
    assert verify(path) == [
        f"{path}: the tape was not finished: the study was ended before it was, or its end was cut off"
    ]


@pytest.mark.slow
def test_a_tape_is_not_replaced_unless_that_is_said(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    with pytest.raises(TapeError, match="overwrite=True"):
        Recorder(path, base_url="http://service")
    assert verify(path) == []
    Recorder(path, base_url="http://service", overwrite=True).close()
    assert entries(path) == []


@pytest.mark.slow
def test_a_tape_of_lies_is_told(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    manifest = path / "manifest.jsonl"
    contents = [line[CONTENT] for line in manifest.read_bytes().splitlines(keepends=True)]
    entry = json.loads(contents[1])
    for lie in (
        {"at": None}, {"rows": ...}, {"told": 1}, {"ask": None}, {"hash": 1}, {"number": 7}, {"file": "../x"},
        {"file": "2.json"}, {"file": ...}, {"sha256": ...}, {"sha256": "0" * 64}, {"rows": None}, {"hash": "0"},
    ):  # fmt: skip
        told = {key: value for key, value in (entry | lie).items() if value is not ...}
        digest, lines = hashlib.sha256(), []
        for content in (contents[0], json.dumps(told).encode(), *contents[2:]):
            digest.update(content)
            lines.append(framed(digest.hexdigest(), content))
        manifest.write_bytes(b"".join(lines))
        assert verify(path), lie
        with pytest.raises(TapeError):
            Replayer(path).answer_to(ASKS[0][0])


@pytest.mark.slow
def test_an_answer_that_comes_after_the_end_is_not_on_the_tape(tmp_path: Path) -> None:
    with Recorder(tmp_path / "t", base_url="http://service") as tape:
        tape.add({"ask": "coins"}, ["BTC"])
    tape.add({"ask": "coins"}, ["ETH"])
    assert verify(tmp_path / "t") == []
    assert len(entries(tmp_path / "t")) == 1
    with pytest.raises(TapeError, match="cannot be written"):
        Recorder(tmp_path / "nowhere" / "t", base_url="http://service")


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"sha256":"","entry":{}}\n'])
@pytest.mark.parametrize("name", ["not a tape", "not a tape/manifest.jsonl"])
def test_what_is_no_tape_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    path = tmp_path / "not a tape"
    for look in (Replayer, verify, entries):
        with pytest.raises(TapeError, match="is no tape"):
            look(path)
        with pytest.raises(TapeError, match="cannot be read"):
            look(tmp_path / "nowhere")
    if not content and path.is_dir():
        return  # which a recording leaves that ended before its first line
    with pytest.raises(TapeError, match="is no tape"):
        Recorder(path, base_url="http://service", overwrite=True)
    assert (tmp_path / name).read_bytes() == content


@pytest.mark.slow
def test_an_answer_that_could_not_be_written_takes_no_later_one_along(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with Recorder(path, base_url="http://service") as tape:
        tape.add({"ask": "coins"}, ["BTC"])
        (path / "2.json").mkdir()
        with pytest.raises(TapeError, match="cannot be written"):
            tape.add({"ask": "tenors"}, ["1d"])
        (path / "2.json").rmdir()
        with pytest.raises(TypeError):
            tape.add({"ask": 2**70}, ["1d"])
        tape.add({"ask": "types"}, ["TRADE"])
    assert verify(path) == [f"{path}: entry 2 is missing (tenors): it could not be written: Is a directory"]
    assert [(one.ask["ask"], one.missing) for one in entries(path)] == [
        ("coins", None),
        ("tenors", "Is a directory"),
        ("types", None),
    ]


class FullDisk:
    """A manifest on a disk that is full, or has only the room that the recording gives up."""

    def __init__(self, tape: Recorder, *, has_room: bool) -> None:
        self._tape, self._manifest, self._has_room = tape, tape._manifest, has_room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manifest, name)

    def write(self, lines: bytes) -> int | None:
        if self._has_room and self._tape._room.closed:
            return self._manifest.write(lines)
        raise FULL


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("lines", [4, 2], ids=["has the room", "is full until the end"])
def test_a_full_disk_leaves_a_tape_that_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    path = tmp_path / "t"
    tape = Recorder(path, base_url="http://service")
    tape.add({"ask": "tenors"}, ["1d"])
    with monkeypatch.context() as full:
        full.setattr(tape, "_manifest", FullDisk(tape, has_room=lines == 4))
        for name in ("coins", "tenors"):
            with pytest.raises(TapeError, match=r"cannot be written: No space left on device$"):
                tape.add({"ask": name}, ["BTC"])
            full.setattr(Path, "write_bytes", Mock(side_effect=FULL))
    assert len((path / "manifest.jsonl").read_text().splitlines()) == lines
    tape.add({"ask": "tenors"}, ["1w"])
    tape.close(failed="TapeError")
    assert sorted(file.name for file in path.iterdir()) == ["1.json", "4.json", "manifest.jsonl"]
    assert verify(path) == [
        f"{path}: entry 2 is missing (coins): it could not be written: No space left on device",
        f"{path}: entry 3 is missing (tenors): it could not be written: No space left on device",
        f"{path}: the tape is not complete: TapeError ended the study while it was recorded",
    ]
    replayed = Replayer(path)
    with pytest.raises(TapeError, match=r"entry 2 is missing \(coins\)"):
        replayed.answer_to({"ask": "coins"})
    assert replayed.answer_to({"ask": "tenors"})[0] == ["1d"]
    with pytest.raises(TapeError, match=r"entry 3 is missing \(tenors\)"):
        replayed.answer_to({"ask": "tenors"})
    assert replayed.answer_to({"ask": "tenors"})[0] == ["1w"]


@pytest.mark.slow
def test_half_a_line_of_the_manifest_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with Recorder(path, base_url="http://service") as tape:
        tape.add({"ask": "coins"}, ["BTC"])
        size = (path / "manifest.jsonl").stat().st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, before[1]))  # as on a disk that is full
        try:
            with pytest.raises(TapeError, match="cannot be written"):
                tape.add({"ask": "tenors"}, ["1d"])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        assert (path / "manifest.jsonl").stat().st_size == size
        gc.collect()
        tape.add({"ask": "types"}, ["TRADE"])
    assert verify(path) == [f"{path}: entry 2 is missing (tenors): it could not be written: File too large"]
    assert [one.ask["ask"] for one in entries(path)] == ["coins", "tenors", "types"]


@pytest.mark.parametrize("files", [[], ["manifest.jsonl"]])
def test_a_recording_that_ended_before_its_first_line_is_replaced(tmp_path: Path, files: list[str]) -> None:
    path = tmp_path / "study.tape"
    path.mkdir()
    for name in files:
        (path / name).touch()
    with pytest.raises(TapeError, match=r"no tape|no manifest"):
        entries(path)
    Recorder(path, base_url="http://service", overwrite=True).close()
    assert verify(path) == []


@pytest.mark.slow
def test_a_tape_is_replaced_and_nothing_beside_it(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    (path / "thesis.txt").write_text("mine")
    Recorder(path, base_url="http://service", overwrite=True).close()
    assert {one.name for one in path.iterdir()} == {"manifest.jsonl", "thesis.txt"}
    assert verify(path) == []


@pytest.mark.slow
def test_a_recording_that_is_replaced_writes_over_no_file_of_the_other(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = Recorder(path, base_url="http://service")
    first.add({"ask": "coins"}, ["BTC"])
    with Recorder(path, base_url="http://service", overwrite=True) as second:
        second.add({"ask": "coins"}, ["ETH"])
        second.add({"ask": "types"}, ["TRADE"])
        with pytest.raises(TapeError, match="was removed or replaced while it was recorded"):
            first.add({"ask": "types"}, ["OTHER"])
        with pytest.raises(TapeError, match="was removed or replaced while it was recorded"):
            first.close()
    assert verify(path) == []
    assert Replayer(path).answer_to({"ask": "types"})[0] == ["TRADE"]


@pytest.mark.slow
def test_ctrl_c_while_a_line_is_written_takes_no_later_answer_along(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with Recorder(path, base_url="http://service") as tape:
        manifest = tape._manifest

        class Interrupted:
            def __getattr__(self, name: str) -> Any:
                return getattr(manifest, name)

            def write(self, line: memoryview) -> int:
                manifest.write(line)
                raise KeyboardInterrupt  # as Python does after a system call

        tape._manifest = Interrupted()  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            tape.add({"ask": "coins"}, ["BTC"])
        tape._manifest = manifest
        tape.add({"ask": "types"}, ["TRADE"])
    assert verify(path) == []
    assert [one.ask["ask"] for one in entries(path)] == ["types"]


@pytest.mark.slow
def test_a_path_that_cannot_be_is_named() -> None:
    with pytest.raises(TapeError, match="cannot be written: embedded null byte"):
        Recorder("a\0b", base_url="http://service")


def rewrite(manifest: Path, place: int, change: dict[str, Any]) -> None:
    """Change the facts of one line of a tape, with hashes that are right."""
    told, lines = hashlib.sha256(), []
    for number, line in enumerate(manifest.read_bytes().splitlines(keepends=True)):
        content = json.dumps(json.loads(line[CONTENT]) | (change if number == place else {})).encode()
        told.update(content)
        lines.append(framed(told.hexdigest(), content))
    manifest.write_bytes(b"".join(lines))


@pytest.mark.slow
def test_a_tape_of_somebody_else_sends_a_terminal_nothing_but_text(tmp_path: Path) -> None:
    manifest = recorded(tmp_path / "t") / "manifest.jsonl"
    rewrite(manifest, 1, {"hash": "\x1b]0;mine\x07"})
    listed = CliRunner().invoke(app, ["tape", "ls", str(tmp_path / "t")])
    assert listed.exit_code == 0
    assert r"\x1b]0;mine\x07" in listed.output
    assert "\x1b" not in listed.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "change"),
    [
        (0, {"versions": 5}),
        (0, {"study": "x"}),
        (0, {"study": {"about": [1]}}),
        (1, {"at": "soon"}),
        (1, {"rows": "x"}),
        (1, {"ask": {"ask": 5}}),
        (1, {"ask": {"ask": "points", "params": 5}}),
        (1, {"ask": {"ask": "points", "params": [[["type"], "TRADE_AGG"]]}}),
        (1, {"told": {"missing": [[1]]}}),
        (1, {"told": {"weight": None}}),
        (1, {"told": {"seconds": "x"}}),
        (1, {"told": {"returned": {"hash": 5}}}),
    ],
    ids=str,
)
def test_facts_that_nobody_recorded_are_no_tape(tmp_path: Path, place: int, change: dict[str, Any]) -> None:
    manifest = recorded(tmp_path / "t") / "manifest.jsonl"
    rewrite(manifest, place, change)
    with pytest.raises(TapeError, match="is no tape that was recorded"):
        Replayer(tmp_path / "t")


@pytest.mark.parametrize(
    "entry", [[1], 5, "a", None, {"tape": [2]}, {"tape": 2, "service": "x"}], ids=json.dumps
)
@pytest.mark.parametrize(
    "later", [[1], 5, None, {"end": 0, "failed": 5}, {"number": 1, "told": {"returned": None}}]
)
def test_a_manifest_that_nobody_recorded_is_no_tape(tmp_path: Path, entry: Any, later: Any) -> None:
    told, lines = hashlib.sha256(), []
    for one in (entry, later):
        content = json.dumps(one).encode()
        told.update(content)
        lines.append(framed(told.hexdigest(), content))
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "manifest.jsonl").write_bytes(b"".join(lines))
    for look in (verify, entries, Replayer):
        try:
            look(tmp_path / "t")
        except TapeError:
            continue


@pytest.mark.slow
def test_a_tape_reads_no_file_outside_of_itself(tmp_path: Path) -> None:
    path = recorded(tmp_path / "study.tape")
    (path / "2.json").rename(tmp_path / "2.json")
    manifest = path / "manifest.jsonl"
    lines = (
        manifest.read_bytes()
        .replace(b'"2.json"', json.dumps(f"{tmp_path}/2.json").encode())
        .splitlines(keepends=True)
    )
    told, changed = hashlib.sha256(), []
    for line in lines:
        told.update(line[CONTENT])
        changed.append(framed(told.hexdigest(), line[CONTENT]))
    manifest.write_bytes(b"".join(changed))
    with pytest.raises(TapeError, match="entry 2 is damaged: its file is missing"):
        Replayer(path).answer_to(ASKS[1][0])


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


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["damaged", "left out", "swapped", "end cut"])
def test_answers_never_move_to_the_place_of_another(tmp_path: Path, trouble: str) -> None:
    path, ask = tmp_path / "t", {"ask": "usage"}
    with Recorder(path, base_url="http://service") as tape:
        for used in (1, 2, 3):
            tape.add(ask, Usage(100, 50, used, 0, 60))
    head, *lines, end = (path / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    changed = {
        "damaged": [lines[0], lines[1].replace(b'"told"', b'"Told"'), lines[2], end],
        "left out": [lines[0], lines[2], end],
        "swapped": [lines[0], lines[2], lines[1], end],
        "end cut": lines[:1],
    }[trouble]
    (path / "manifest.jsonl").write_bytes(b"".join([head, *changed]))
    played = Replayer(path)
    assert played.answer_to(ask)[0].used == 1  # type: ignore[union-attr]
    for _ in range(2):
        with pytest.raises(TapeError, match="has no more answers to usage, and may have had some: "):
            played.answer_to(ask)


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
