"""Files as lines: packed, broken off, not text, not there."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import pytest

from ingested import ingest
from tidytape.errors import IngestError
from tidytape.lake.ingest import _lines
from tidytape.lake.ingest._lines import BadLines, numbered


def read(path):
    bad = BadLines()
    taken = []
    found = [row for frame in numbered(path, bad, taken.append) for row in frame.iter_rows()]
    return found, bad, sum(taken)


@pytest.fixture(params=[1, 7, 2**24], ids=lambda size: f"blocks of {size}")
def block(request, monkeypatch):
    monkeypatch.setattr(_lines, "BLOCK", request.param * 4)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_are_numbered_from_one_and_blank_ones_left_out(write, packed, end):
    path = write("one", "", "  ", "four, größer", packed=packed, end=end)
    found, bad, taken = read(path)
    assert [(line, text.rstrip("\r")) for line, text in found] == [(1, "one"), (4, "four, größer")]
    assert bad.count == 0
    assert taken == path.stat().st_size


@pytest.mark.usefixtures("block")
def test_the_last_line_needs_no_end(tmp_path):
    (tmp_path / "x").write_bytes(b"one\ntwo")
    assert read(tmp_path / "x")[0] == [(1, "one"), (2, "two")]


@pytest.mark.usefixtures("block")
def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "x").write_bytes("\ufeffone\ntwo\n".encode())
    assert read(tmp_path / "x")[0] == [(1, "one"), (2, "two")]


@pytest.mark.usefixtures("block")
def test_a_line_that_is_no_utf8_is_bad_and_the_others_are_not(tmp_path):
    (tmp_path / "x").write_bytes(b"one\n\xff\xfe\nthree\n")
    found, bad, _ = read(tmp_path / "x")
    assert found == [(1, "one"), (3, "three")]
    assert bad.first == [(2, "not UTF-8")]


@pytest.mark.usefixtures("block")
def test_several_gzip_streams_are_one_text(tmp_path):
    (tmp_path / "x").write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"o\nthree") + b"\0" * 9)
    assert read(tmp_path / "x")[0] == [(1, "one"), (2, "two"), (3, "three")]


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9, -1])
def test_a_gzip_stream_that_breaks_off_keeps_its_whole_lines(tmp_path, kept):
    lines = [os.urandom(20).hex() for _ in range(200)]
    data = gzip.compress("\n".join(lines).encode())
    (tmp_path / "x").write_bytes(data[: int(len(data) * kept) if kept > 0 else -9])
    found, bad, _ = read(tmp_path / "x")
    assert [text for _, text in found] == lines[: len(found)]
    assert bad.first == [(len(found) + 1, "the gzip stream breaks off")]


@pytest.mark.usefixtures("block")
def test_a_damaged_gzip_stream_is_bad(tmp_path):
    data = bytearray(gzip.compress(b"one\ntwo\nthree\n"))
    data[-6] ^= 1  # the checksum
    (tmp_path / "x").write_bytes(data)
    _, bad, _ = read(tmp_path / "x")
    assert bad.count == 1
    assert "broken" in bad.first[0][1]


def test_no_line_of_a_damaged_gzip_stream_is_taken(tmp_path):
    """A flipped bit changes the digits of many lines before it shows, so none of its block is known to be right."""
    whole = gzip.compress("\n".join(f"{n},{n * n % 9973}" for n in range(3000)).encode())
    refused = 0
    for place in range(20, len(whole) - 8, 101):
        data = bytearray(whole)
        data[place] ^= 4
        (tmp_path / "x").write_bytes(data)
        found, bad, _ = read(tmp_path / "x")
        if "breaks off" in bad.first[0][1]:  # as of a download that was cut, whose lines are right
            continue
        assert (found, bad.first[0][0]) == ([], 1)
        refused += 1
    assert refused > 50


@pytest.mark.usefixtures("block")
def test_bytes_after_a_gzip_stream_spoil_none_of_its_lines(tmp_path):
    (tmp_path / "x").write_bytes(gzip.compress(b"one\ntwo\n") + b"more")
    found, bad, _ = read(tmp_path / "x")
    assert found == [(1, "one"), (2, "two")]
    assert (bad.count, bad.first[0][0]) == (1, 3)


@pytest.mark.slow
def test_a_gzip_bomb_stops_at_the_first_endless_line(tmp_path):
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(packer.compress(b"\0" * 2**24) for _ in range(32)) + packer.flush()  # half a gigabyte
    (tmp_path / "x").write_bytes(bomb)
    with pytest.raises(IngestError, match="x:1: a line longer than"):
        read(tmp_path / "x")


def test_an_error_without_words_says_what_it_is(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError("the disk is gone")

    (tmp_path / "x").write_text("x")
    monkeypatch.setattr(Path, "open", broken)
    for reading in (_lines.digest, read):
        with pytest.raises(IngestError, match="x: the disk is gone"):
            reading(tmp_path / "x")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "No such file"),
        ("folder", "a folder, not a file"),
        ("empty", "the file is empty"),
        ("pipe", "not a regular file"),
        ("device", "not a regular file"),
        ("null", "null byte"),
        ("blank", "no header, the file has no lines"),
    ],
)
def test_what_is_no_file_of_trades(tmp_path, lake, kind, message):
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path(os.devnull)
    elif kind == "null":
        path = tmp_path / "x\0"
    elif kind != "missing":
        path.write_text("\n\n" if kind == "blank" else "")
    with pytest.raises(IngestError, match=message) as caught:
        ingest(path, lake, layout="csv", exchange="X", raw_symbol="BTC-USD")
    assert caught.value.path == str(path)


@pytest.mark.slow
def test_a_gzip_stream_of_one_line_repeated_is_refused(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"1\n" * 2**26))
    bad = BadLines()
    lines = sum(frame.height for frame in numbered(path, bad, lambda _: None))
    assert "unpacks to over 500 times its size" in bad.first[0][1]
    assert lines < 2**26
