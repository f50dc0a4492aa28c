"""One file comes whole, whatever the server does, or not at all."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from contextlib import suppress
from email.utils import formatdate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror import Mirror, Request, answers, breaks_off, moved, slow
from tidytape.archives import _fetching
from tidytape.archives._fetching import Fetcher, FileFailedError, StoppedError
from tidytape.errors import TransportError

CONTENT = random.Random(7).randbytes(3_000)
NAME = "data/a.zip"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(_fetching, "_PACE", 0.0)
    monkeypatch.setattr(_fetching, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def mirror():
    with Mirror(files={NAME: CONTENT}).served() as serving:
        yield serving


def fetch(mirror, folder, *, is_verified=True, sends_parts=True, stop=None, name=NAME):
    with Fetcher(2, stop or threading.Event(), sends_parts=sends_parts) as fetcher:
        file = fetcher.file(f"{mirror.address}/{name}", folder / "a.zip", is_verified=is_verified)
    assert file is None or file.path.read_bytes() == CONTENT
    return file


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_whole(mirror, tmp_path):
    file = fetch(mirror, tmp_path)
    assert (file.bytes, file.sha256) == (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    assert left(tmp_path) == ["a.zip"]
    assert fetch(mirror, tmp_path) == file
    assert mirror.asked[NAME] == 1


@pytest.mark.parametrize("every", [1, 700, 2_999])
def test_it_goes_on_where_the_server_broke_off(mirror, tmp_path, every):
    mirror.files[NAME] = CONTENT[:60] if every == 1 else CONTENT
    mirror.faults[NAME] = breaks_off(every)
    with Fetcher(2, threading.Event()) as fetcher:
        file = fetcher.file(f"{mirror.address}/{NAME}", tmp_path / "a.zip", is_verified=False)
    assert file.path.read_bytes() == mirror.files[NAME]
    sent = -(-len(mirror.files[NAME]) // every)
    assert mirror.asked[NAME] == sent


def test_a_server_without_ranges_that_breaks_off_fails(mirror, tmp_path):
    mirror.faults[NAME] = breaks_off(1_000, ranges=False)
    with pytest.raises(FileFailedError, match=r"peer closed connection .* 6 times"):
        fetch(mirror, tmp_path)
    del mirror.faults[NAME]
    assert fetch(mirror, tmp_path)


@pytest.mark.slow
def test_without_a_mark_nothing_goes_on_unless_it_is_verified(mirror, tmp_path):
    mirror.faults[NAME] = breaks_off(1_000, mark=False)
    with pytest.raises(FileFailedError):
        fetch(mirror, tmp_path, is_verified=False)
    assert fetch(mirror, tmp_path)


def test_a_file_that_changes_between_two_requests_begins_anew(mirror, tmp_path):
    other = random.Random(8).randbytes(3_000)

    def changes(request: Request) -> bool:
        if request.number == 0:
            request.content = other
            request.file(sent=1_000)
        return request.number == 0

    mirror.faults[NAME] = changes
    assert fetch(mirror, tmp_path, is_verified=False)


def test_an_archive_that_sends_no_parts_is_never_asked_for_one(mirror, tmp_path):
    mirror.faults[NAME] = lambda request: request.number < 2 and not request.file(sent=1_000)
    assert fetch(mirror, tmp_path, sends_parts=False)
    assert not any("Range" in head for head in mirror.sent_heads)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(["cut", "status", "whole", "part"]), st.integers(0, 3_000)), max_size=8
    )
)
@settings(max_examples=25)
def test_whatever_a_server_does_a_file_is_whole_or_none(tmp_path_factory, turns):
    folder = tmp_path_factory.mktemp("files")

    def fault(request: Request) -> bool:
        if request.number >= len(turns):
            return False
        what, number = turns[request.number]
        if what == "status":
            request.answer([500, 503, 429, 408][number % 4])
        elif what == "part":  # another part of the file than was asked for
            request.answer(206, CONTENT[number:], Content_Range=f"bytes {number}-2999/3000")
        elif what == "cut":
            request.file(sent=number)
        else:
            request.file(ranges=False)
        return True

    with Mirror({NAME: CONTENT}, {NAME: fault}).served() as mirror:
        try:
            fetch(mirror, folder)
        except FileFailedError:
            assert "a.zip" not in left(folder)
        mirror.faults.clear()
        assert fetch(mirror, folder)


@pytest.mark.parametrize("status", [404, 410])
def test_a_file_that_is_not_there(mirror, tmp_path, status):
    mirror.faults[NAME] = answers(status)
    assert fetch(mirror, tmp_path) is None
    assert left(tmp_path) == []
    assert mirror.asked[NAME] == 1


@pytest.mark.parametrize("status", [400, 401, 403, 451])
def test_a_refusal_is_not_asked_again(mirror, tmp_path, status):
    mirror.faults[NAME] = answers(status)
    with pytest.raises(FileFailedError, match=f"refuses it with {status}"):
        fetch(mirror, tmp_path)
    assert mirror.asked[NAME] == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_server_that_fails_for_a_while(mirror, tmp_path, status):
    mirror.faults[NAME] = answers(status, 3)
    assert fetch(mirror, tmp_path)
    assert mirror.asked[NAME] == 4


def test_a_server_that_goes_on_failing(mirror, tmp_path):
    mirror.faults[NAME] = answers(503)
    with pytest.raises(FileFailedError, match="the server answers 503, 6 times"):
        fetch(mirror, tmp_path)


@pytest.mark.parametrize("asked", ["1", "date"])
def test_the_pause_is_that_which_the_server_asks_for(mirror, tmp_path, asked, monkeypatch):
    pauses = []
    monkeypatch.setattr(Fetcher, "_sleep", lambda _, seconds: pauses.append(seconds))
    text = formatdate(time.time() + 40, usegmt=True) if asked == "date" else "40"
    mirror.faults[NAME] = answers(429, 1, Retry_After=text)
    assert fetch(mirror, tmp_path)
    assert pauses == [pytest.approx(40, abs=3)]


def test_a_pause_is_bounded(mirror, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(Fetcher, "_sleep", lambda _, seconds: pauses.append(seconds))
    mirror.faults[NAME] = answers(429, 1, Retry_After="1000000")
    assert fetch(mirror, tmp_path)
    assert pauses == [120]


def test_a_redirect_is_followed(mirror, tmp_path):
    mirror.faults[NAME] = moved("/data/b.zip")
    mirror.files["data/b.zip"] = CONTENT
    assert fetch(mirror, tmp_path)


def test_a_redirect_without_end_fails(mirror, tmp_path):
    mirror.faults[NAME] = moved(f"/{NAME}")
    with pytest.raises(FileFailedError, match="TooManyRedirects"):
        fetch(mirror, tmp_path)


def test_more_than_was_announced_or_allowed_fails(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(_fetching, "_MOST_WITHOUT_LENGTH", 1_000)

    def endless(request: Request) -> bool:
        request.handler.send_response(200)
        request.handler.end_headers()
        request.handler.wfile.write(CONTENT)
        request.handler.close_connection = True
        return True

    mirror.faults[NAME] = endless
    with pytest.raises(FileFailedError, match=r"sends more than"):
        fetch(mirror, tmp_path)


def test_a_file_that_does_not_fit_on_the_disk(mirror, tmp_path):
    def huge(request: Request) -> bool:
        request.answer(200, CONTENT, Content_Length=str(10**18))
        return True

    mirror.faults[NAME] = huge
    with pytest.raises(FileFailedError, match=r"1,000,000,000,000,000,000 bytes do not fit on the disk"):
        fetch(mirror, tmp_path)


def test_nobody_there(tmp_path):
    with Mirror().served() as mirror:
        pass
    with pytest.raises(TransportError, match="no connection to http://127") as caught:
        fetch(mirror, tmp_path)
    assert caught.value.url.endswith(NAME)


def test_a_redirect_to_a_host_that_is_not_there_fails_one_file(mirror, tmp_path):
    mirror.faults["data/b.zip"] = moved("http://127.0.0.1:1/x")
    with Fetcher(1, threading.Event()) as fetcher:
        assert fetcher.file(f"{mirror.address}/{NAME}", tmp_path / "a.zip", is_verified=True)
        with pytest.raises(FileFailedError, match="ConnectError"):
            fetcher.file(f"{mirror.address}/data/b.zip", tmp_path / "b.zip", is_verified=True)


@pytest.mark.parametrize(
    "address", ["http://" + "a" * 300, "http://...:80/", "http://[::1", "file:///etc/passwd"]
)
def test_a_redirect_that_is_no_address_fails(mirror, tmp_path, address):
    mirror.faults[NAME] = moved(address)
    with pytest.raises(FileFailedError):
        fetch(mirror, tmp_path)


def test_a_mark_that_no_header_can_hold_is_none(mirror, tmp_path):
    def odd(request: Request) -> bool:
        request.answer(200, CONTENT, sent=1_000 if request.number == 0 else None, ETag='"\u00e9"')
        return True

    mirror.faults[NAME] = odd
    assert fetch(mirror, tmp_path, is_verified=False)


def test_a_file_of_another_length_that_an_earlier_run_left_is_fetched_anew(mirror, tmp_path):
    (tmp_path / "a.zip").write_bytes(CONTENT[:100])
    assert fetch(mirror, tmp_path, is_verified=False)


def test_stopping_ends_a_pause_and_a_body(mirror, tmp_path):
    stop = threading.Event()
    mirror.faults[NAME] = answers(429, Retry_After="100")
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(StoppedError):
        fetch(mirror, tmp_path, stop=stop)


@pytest.mark.slow
def test_a_slow_server_is_waited_for(mirror, tmp_path):
    mirror.faults[NAME] = slow(0.3)
    assert fetch(mirror, tmp_path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{'Ab' * 32}  a.zip\n", "ab" * 32),
        (f"{'ab' * 32}", "ab" * 32),
        (f"{'cd' * 32}  b.zip\n{'ab' * 32} *a.zip\n", "ab" * 32),
        (f"{'ab' * 32}  b.zip\n", ""),
        ("", ""),
        ("<html>not found</html>", ""),
        ("ab" * 31, ""),
        ("ab" * 64, ""),
    ],
)
def test_checksums(mirror, text, found):
    mirror.files["a.CHECKSUM"] = text.encode()
    with Fetcher(1, threading.Event()) as fetcher:
        assert fetcher.checksum(f"{mirror.address}/a.CHECKSUM", "a.zip") == found
        assert fetcher.checksum(f"{mirror.address}/b.CHECKSUM", "a.zip") is None


def test_of_a_checksum_without_end_only_the_beginning_is_read(mirror):
    def endless(request: Request) -> bool:
        request.handler.send_response(200)
        request.handler.end_headers()
        with suppress(OSError):
            while True:
                request.handler.wfile.write(b"ab" * 32 + b"\n" * 2**16)
        request.handler.close_connection = True
        return True

    mirror.faults["a.CHECKSUM"] = endless
    with Fetcher(1, threading.Event()) as fetcher:
        assert fetcher.checksum(f"{mirror.address}/a.CHECKSUM", "a.zip") == "ab" * 32


def test_lengths(mirror):
    with Fetcher(1, threading.Event()) as fetcher:
        assert fetcher.length(f"{mirror.address}/{NAME}") == len(CONTENT)
        assert fetcher.length(f"{mirror.address}/b.zip") == 0
    with Fetcher(1, threading.Event(), sends_parts=False) as fetcher:
        assert fetcher.length(f"{mirror.address}/{NAME}") is None


def test_requests_begin_some_time_apart(mirror, monkeypatch):
    monkeypatch.setattr(_fetching, "_PACE", 0.02)
    with Fetcher(4, threading.Event()) as fetcher:
        began = time.monotonic()
        threads = [
            threading.Thread(target=fetcher.length, args=(f"{mirror.address}/{NAME}",)) for _ in range(10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert time.monotonic() - began >= 9 * 0.02
