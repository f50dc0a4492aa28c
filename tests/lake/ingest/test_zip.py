"""Zip archives of one file."""

from __future__ import annotations

import io
import zipfile

import pytest

from tidytape.errors import IngestError
from tidytape.lake.ingest import _lines
from tidytape.lake.ingest._lines import BadLines, first_text, numbered


def archive(path, *members, packing=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", packing) as made:
        for name, text in members:
            made.writestr(name, text)
    return path


def lines(path, bad=None, progress=lambda _: None):
    return [
        row
        for block in numbered(path, bad if bad is not None else BadLines(), progress)
        for row in block.iter_rows()
    ]


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_only_member_is_read(tmp_path, packing):
    path = archive(tmp_path / "a.zip", ("a.csv", "x,y\n1,2\n\n3,4"), packing=packing)
    assert lines(path) == [(1, "x,y"), (2, "1,2"), (4, "3,4")]
    assert first_text(path, size=5) == "x,y\n1"


@pytest.mark.slow
def test_it_is_read_in_blocks_and_the_progress_adds_up(tmp_path, monkeypatch):
    monkeypatch.setattr(_lines, "BLOCK", 4096)
    text = "".join(f"{number},{number * number}\n" for number in range(20_000))
    path = archive(tmp_path / "a.zip", ("a.csv", text))
    steps = []
    assert len(lines(path, progress=steps.append)) == 20_000
    assert len(steps) > 100
    with zipfile.ZipFile(path) as made:
        assert sum(steps) == made.infolist()[0].compress_size


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([], "it holds no file"),
        ([("folder/", "")], "it holds no file"),
        ([("a.csv", "1"), ("b.csv", "2")], r"it holds 2 files: a\.csv, b\.csv"),
        ([("a.csv", "1,2,3\n" * 2_000_000)], "would unpack to 12,000,000 bytes"),
    ],
)
def test_what_is_not_one_file_is_refused(tmp_path, members, said):
    with pytest.raises(IngestError, match=said):
        lines(archive(tmp_path / "a.zip", *members))


def test_an_archive_that_was_cut_off_is_refused(tmp_path):
    path = archive(tmp_path / "a.zip", ("a.csv", "1,2\n" * 1000))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(IngestError, match="no whole zip archive, or one that was cut off"):
        lines(path)


def test_a_broken_member_is_a_bad_line(tmp_path):
    path = archive(tmp_path / "a.zip", ("a.csv", "1,2\n3,4\n"), packing=zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"3,4", b"3,5", 1))
    bad = BadLines()
    assert lines(path, bad) == []
    assert bad.count == 1
    assert "the zip archive is broken: Bad CRC-32" in bad.first[0][1]


def test_an_encrypted_archive_is_refused(tmp_path):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as made:
        made.writestr("a.csv", "1,2\n")
    data = bytearray(whole.getvalue())
    for header, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(header) + place] |= 1
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    with pytest.raises(IngestError, match="encrypted"):
        lines(path)


def test_the_head_of_a_gzip_stream_that_breaks_at_once_is_empty(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(b"\x1f\x8bnonsense")
    assert first_text(path) == ""
    with pytest.raises(IngestError):
        first_text(tmp_path / "missing")
