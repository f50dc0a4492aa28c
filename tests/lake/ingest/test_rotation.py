"""Logs that are rotated in every way, between two looks and while nobody looks: every row once, or a name."""

from __future__ import annotations

import gzip
import itertools
import os
import random
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from followed import HEAD, SAID, Steps, ids, trades
from thorough import often
from tidytape.errors import IngestError
from tidytape.lake import Lake, _commit
from tidytape.lake.ingest import Csv
from tidytape.lake.record import _rotation, _tail, follow, replay

pytestmark = pytest.mark.slow


def run(path: Path, lake: Lake, *steps: Callable[[], object], **more: Any) -> Any:
    return follow(path, lake, Csv(), market=SAID, every=1e-9, tidy=None, stop=Steps(*steps), **more)


def append(path: Path, *numbers: int) -> None:
    with path.open("a") as file:
        file.write(trades(*numbers))


def begin(path: Path, *numbers: int) -> None:
    path.write_text(HEAD + trades(*numbers))


def rename(path: Path, *numbers: int) -> None:
    """Rename the rotated logs and the log, and begin a new one."""
    shift(path)
    path.rename(path.with_suffix(".1"))
    begin(path, *numbers)


def shift(path: Path) -> None:
    """Rename each rotated log to the next number."""
    old = {int(log.name.split(".")[1]): log for log in path.parent.glob(f"{path.name}.*")}
    for number in sorted(old, reverse=True):
        packed = ".gz" if old[number].suffix == ".gz" else ""
        old[number].rename(path.with_name(f"{path.name}.{number + 1}{packed}"))


def pack(path: Path) -> None:
    with gzip.open(f"{path}.gz", "wb") as file:
        file.write(path.read_bytes())
    path.unlink()


def cut(path: Path, *numbers: int) -> None:
    """Copy the log and cut it, as logrotate does with copytruncate."""
    shift(path)
    shutil.copy(path, path.with_suffix(".1"))
    with path.open("r+") as file:
        file.truncate(0)
    if numbers:
        begin(path, *numbers)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    log = tmp_path / "log"
    begin(log, *range(10))
    return log


def test_rotated_twice_between_two_looks(lake: Lake, path: Path) -> None:
    def rotate() -> None:
        append(path, *range(10, 20))
        rename(path, *range(20, 30))
        rename(path, *range(30, 40))
        rename(path, *range(40, 50))

    run(path, lake, rotate)
    assert ids(lake) == [*range(50)]


def test_rotated_twice_and_packed_at_once_between_two_looks(lake: Lake, path: Path) -> None:
    def rotate() -> None:
        append(path, *range(10, 20))
        rename(path, *range(20, 30))
        rename(path, *range(30, 40))
        pack(path.with_suffix(".1"))  # the younger first
        pack(path.with_suffix(".2"))

    run(path, lake, rotate)
    assert ids(lake) == [*range(40)]


def test_rotated_and_packed_while_nobody_follows(lake: Lake, path: Path) -> None:
    begin(path.with_suffix(".9"), *range(2, 9))  # nobody ever followed this one
    os.utime(path.with_suffix(".9"), (1, 1))
    run(path, lake)
    append(path, *range(10, 20))
    rename(path, *range(20, 30))
    path.with_suffix(".10").unlink()
    rename(path, *range(30, 40))
    pack(path.with_suffix(".1"))  # the younger first
    pack(path.with_suffix(".2"))
    run(path, lake)
    assert ids(lake) == [*range(40)]
    assert run(path, lake).trades_new == 0


@pytest.mark.parametrize("rotate", [rename, cut])
@pytest.mark.parametrize("is_followed", [True, False])
def test_a_new_log_with_the_first_lines_of_the_old(
    *, rotate: Callable[..., None], is_followed: bool, lake: Lake, path: Path
) -> None:
    def step() -> None:
        append(path, *range(10, 20))
        rotate(path, 0, *range(20, 30))

    run(path, lake, *([step] if is_followed else []))
    if not is_followed:
        step()
    run(path, lake)
    assert ids(lake) == [*range(30)]
    append(path, 30)
    assert run(path, lake).trades_new == 1


def test_a_new_log_that_begins_as_the_old_and_is_longer_than_what_was_read(lake: Lake, path: Path) -> None:
    begin(path, 0)
    run(path, lake)
    append(path, *range(1, 9))
    rename(path, 0, *range(10, 30))
    run(path, lake)
    assert ids(lake) == [*range(9), *range(10, 30)]


@pytest.mark.parametrize("is_followed", [True, False])
def test_copied_and_cut(*, is_followed: bool, lake: Lake, path: Path) -> None:
    def step() -> None:
        append(path, *range(10, 20))
        cut(path, *range(20, 60))  # longer than before

    run(path, lake, *([step] if is_followed else []))
    if not is_followed:
        step()
        run(path, lake)
    assert ids(lake) == [*range(60)]


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_copy_that_is_being_made_is_no_log(*, is_followed: bool, lake: Lake, path: Path) -> None:
    def step() -> None:
        text = path.read_bytes()
        path.with_suffix(".1").write_bytes(text[: len(text) // 2])  # by now

    run(path, lake, *([step] if is_followed else []))
    step()
    append(path, 10)
    assert run(path, lake).trades_new == 1
    assert ids(lake) == [*range(11)]


def test_a_log_that_is_being_packed_is_read_once(lake: Lake, path: Path) -> None:
    run(path, lake)
    append(path, *range(10, 20))
    rename(path, *range(20, 30))
    packed = gzip.compress(path.with_suffix(".1").read_bytes())
    path.with_suffix(".1.gz").write_bytes(packed[:-20])
    assert run(path, lake).bad_lines == 0
    assert ids(lake) == [*range(30)]


def test_a_log_that_was_cut_without_a_copy_is_named(lake: Lake, path: Path) -> None:
    with pytest.raises(IngestError, match=r"log: it was cut, and no copy") as caught:
        run(path, lake, lambda: begin(path, 20, 21))
    assert ids(lake) == [*range(10), 20, 21]
    assert caught.value.report is not None
    assert caught.value.report.trades_new == 12


def test_a_log_that_is_gone_is_named_and_the_later_ones_are_read(lake: Lake, path: Path) -> None:
    run(path, lake)
    append(path, *range(10, 20))
    rename(path, *range(20, 30))
    rename(path, *range(30, 40))
    path.with_suffix(".2").unlink()
    with pytest.raises(IngestError, match=r"log: the log that was followed last is not there"):
        run(path, lake)
    assert ids(lake) == [*range(10), *range(20, 40)]
    run(path, lake)


def test_a_log_that_follow_cannot_unpack_is_named(lake: Lake, path: Path) -> None:
    run(path, lake)
    rename(path, *range(20, 30))
    rename(path, *range(30, 40))
    path.with_suffix(".1").write_bytes(b"\xfd7zXZ\0 and more")
    with pytest.raises(IngestError, match=r"log.1: packed by xz, which follow does not read"):
        run(path, lake)
    assert ids(lake) == [*range(10), *range(30, 40)]


def test_a_log_that_was_deleted_while_it_was_followed_is_read_to_its_end(lake: Lake, path: Path) -> None:
    def step() -> None:
        append(path, 10)
        path.unlink()

    run(path, lake, step, lambda: begin(path, 11))
    assert ids(lake) == [*range(12)]


@pytest.mark.parametrize("call", [follow, replay])
def test_a_pipe_is_refused_and_does_not_hang(call: Any, lake: Lake, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(IngestError, match="not a regular file"):
        call(pipe, lake, Csv(), market=SAID, stop=threading.Event())


def test_cut_and_then_renamed_between_two_looks(lake: Lake, path: Path) -> None:
    def rotate() -> None:
        append(path, *range(10, 20))
        cut(path, *range(20, 30))
        rename(path, *range(30, 40))

    run(path, lake, rotate)
    assert ids(lake) == [*range(40)]


def test_a_log_whose_first_event_is_late_is_read(lake: Lake, path: Path) -> None:
    run(path, lake)
    rename(path, 1, *range(20, 30))  # a state that the exchange sends again when the recorder connects again
    rename(path, *range(30, 40))
    run(path, lake)
    assert ids(lake) == [*range(10), *range(20, 40)]
    assert run(path, lake).trades_new == 0


def test_a_late_log_is_read_that_was_rotated_between_two_looks(lake: Lake, path: Path) -> None:
    def rotate() -> None:
        rename(path, 1, *range(20, 30))
        rename(path, *range(30, 40))

    run(path, lake, rotate)
    assert ids(lake) == [*range(10), *range(20, 40)]


def test_restored_logs_with_new_times_of_files_are_read(lake: Lake, path: Path) -> None:
    run(path, lake)
    append(path, 10)
    rename(path, *range(20, 30))
    rename(path, *range(30, 40))
    for second, name in enumerate(["log.1", "log.2", "log"]):  # in a wrong order, and all older than the lake
        os.utime(path.with_name(name), (second, second))
    run(path, lake)
    assert ids(lake) == [*range(11), *range(20, 40)]


@pytest.mark.parametrize("is_packed", [True, False])
def test_logs_that_begin_with_long_text_without_events(*, is_packed: bool, lake: Lake, path: Path) -> None:
    def began(first: int) -> None:
        path.write_text(HEAD + f"{'x' * 200},1,1,buy,0\n" * 400 + trades(first, first + 1))

    began(90)
    path.rename(path.with_suffix(".1"))  # nobody ever followed this one
    began(0)
    run(path, lake, skip_bad=True)
    append(path, 2)
    for first in (20, 30):
        shift(path)
        path.rename(path.with_suffix(".1"))
        if is_packed:
            pack(path.with_suffix(".1"))
        began(first)
    run(path, lake, skip_bad=True)
    assert ids(lake) == [0, 1, 2, 20, 21, 30, 31]


def test_logs_of_before_the_first_start_stay_out_also_packed(lake: Lake, path: Path) -> None:
    begin(path.with_suffix(".1"), *range(50, 60))
    begin(path.with_suffix(".2"), *range(60, 70))
    pack(path.with_suffix(".2"))
    shutil.copy(path, path.with_suffix(".3"))  # but a copy of the log is not one of them
    run(path, lake)
    path.with_suffix(".3").unlink()
    pack(path.with_suffix(".1"))
    append(path, 10)
    rename(path, *range(20, 30))
    run(path, lake)
    assert ids(lake) == [*range(11), *range(20, 30)]


def test_a_packed_log_that_was_read_is_unpacked_once(
    lake: Lake, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(path, lake)
    rename(path, *range(20, 30))
    pack(path.with_suffix(".1"))
    run(path, lake)
    sizes = []
    blocks = _tail.unpacked_blocks
    monkeypatch.setattr(_tail, "unpacked_blocks", lambda *of: sizes.append(of[2:]) or blocks(*of))
    assert run(path, lake).trades_new == 0
    assert sizes == [(_tail._HEAD,)]  # only its beginning


def test_lines_that_its_writer_appends_to_a_renamed_log_are_read(lake: Lake, path: Path) -> None:
    def late(*numbers: int) -> Callable[[], None]:
        return lambda: append(path.with_suffix(".1"), *numbers)

    seen: list[list[int]] = []
    run(
        path, lake, lambda: rename(path, 20), lambda: None, late(10), lambda: seen.append(ids(lake)), late(11)
    )
    assert seen == [[*range(11), 20]]
    assert ids(lake) == [*range(12), 20]
    append(path.with_suffix(".1"), 12)  # while nobody follows
    assert run(path, lake).trades_new == 1


def test_a_renamed_log_is_closed_after_a_while_and_late_lines_wait_for_a_restart(
    lake: Lake, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rotation, "_GRACE", 0)
    run(path, lake, lambda: rename(path, 20), lambda: None, lambda: append(path.with_suffix(".1"), 10))
    assert ids(lake) == [*range(10), 20]
    run(path, lake)
    assert ids(lake) == [*range(11), 20]


class Died(BaseException):
    """What ends a process at once."""


@pytest.mark.parametrize("seed", range(often(3, thoroughly=100)))
@pytest.mark.parametrize("is_alike", [True, False])
def test_any_rotations_and_deaths_lose_no_row(
    *, seed: int, is_alike: bool, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs begin alike, or not; the follower lives, dies at a commit or is away while they are rotated."""
    random_, path, numbers = random.Random(seed), tmp_path / "log", itertools.count(1)
    written = [0] if is_alike else []

    def some(least: int) -> list[int]:
        rows = [*itertools.islice(numbers, random_.randint(least, 5))]
        written.extend(rows)
        return rows

    def packed() -> None:
        plain = [log for log in tmp_path.glob("log.*") if log.suffix != ".gz"]
        if plain:
            pack(random_.choice(plain))

    def rotated() -> None:
        for _ in range(random_.randint(1, 4)):
            first = [0] if is_alike else []
            change = random_.choice(["append", "append", "append", "rename", "cut", "pack"])
            if change == "append":
                append(path, *some(1))
            elif change == "pack":
                packed()
            else:
                {"rename": rename, "cut": cut}[change](path, *first, *some(1))

    begin(path, *written, *some(1))
    for _ in range(5):
        with monkeypatch.context() as patch, suppress(Died):
            if random_.random() < 0.4:
                dying(patch, random_.randint(1, 3), is_after=random_.random() < 0.5)
            run(path, lake, *[rotated] * random_.randint(0, 3))
        rotated()
    run(path, Lake(lake.path))
    assert ids(Lake(lake.path)) == sorted(written)


def dying(patch: pytest.MonkeyPatch, at: int, *, is_after: bool) -> None:
    """Let the process die at a commit of rows, before or after it is in the log."""
    commits, commit = itertools.count(1), _commit.commit

    def deadly(*arguments: Any, **more: Any) -> None:
        is_it = next(commits) == at
        if not is_it or is_after:
            commit(*arguments, **more)
        if is_it:
            raise Died

    patch.setattr(_commit, "commit", deadly)
