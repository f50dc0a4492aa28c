"""Files in every container: what is packed in any way is read as the text that it was, or refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingested import ingest
from tidytape.errors import IngestError
from tidytape.lake import Lake
from tidytape.lake.ingest import _lines
from tidytape.lake.ingest._lines import BadLines, first_text, inner_name, members, numbered

TRADE = b"timestamp\tprice\tamount\tside\n2024-08-08T12:00:00Z\t60000.5\t0.25\tsell\n"
Member = tuple[str, bytes]


def zipped(*files: Member) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in files:
            made.writestr(name, text)
    return archive.getvalue()


def tarred(*files: Member) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as made:
        for name, text in files:
            header = tarfile.TarInfo(name.rstrip("/"))
            header.size, header.type = len(text), tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            made.addfile(header, io.BytesIO(text))
    return archive.getvalue()


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


STREAMS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}
)
ARCHIVES: Mapping[str, Callable[..., bytes]] = MappingProxyType(
    {
        "zip": zipped,
        "tar": tarred,
        **{
            f"tar.{name}": lambda *files, packed=packed: packed(tarred(*files))
            for name, packed in STREAMS.items()
        },
    }
)
CONTAINERS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {
        **STREAMS,
        **{
            name: lambda text, archived=archived: archived(("a.csv", text))
            for name, archived in ARCHIVES.items()
        },
    }
)
TEXTS = st.lists(st.text("aé€😀,1 \r", max_size=9), max_size=30)


def read(path: Path) -> tuple[list[str], str]:
    """Return the lines that are read, and why not all are; empty if the text is whole."""
    bad, lines = BadLines(), list[str]()
    try:
        for block in numbered(path, bad, lambda _: None):
            lines.extend(block["text"])
    except IngestError as error:
        return lines, str(error)
    return lines, bad.first[0][1] if bad.count else ""


def lines_of(text: str) -> list[str]:
    return [line for line in text.removeprefix("\ufeff").split("\n") if line.strip()]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("containers") / "file"


@pytest.mark.slow
@pytest.mark.parametrize("container", CONTAINERS)
@given(lines=TEXTS, data=st.data())
def test_a_text_that_is_cut_at_any_byte_gives_its_lines_or_an_error(
    path: Path, container: str, lines: list[str], data: st.DataObject
) -> None:
    text = "\n".join(["first,größer", *lines])
    packed = CONTAINERS[container](text.encode())
    # The first header of a plain tar archive tells that it is one.
    end = data.draw(st.integers(512 if container == "tar" else 1, len(packed)))
    path.write_bytes(packed[:end])
    found, reason = read(path)
    expected = lines_of(text)
    assert found == expected[: len(found)]
    assert reason or found == expected
    assert end < len(packed) or not reason


@pytest.mark.slow
@pytest.mark.parametrize("container", sorted(CONTAINERS.keys() - {"zst", "tar.zst", "tar"}))
def test_a_flipped_bit_never_loses_lines_in_silence(path: Path, container: str) -> None:
    """Streams of zstd and headers of tar need not have a checksum of the text."""
    text = "\n".join(f"{number},{number * number % 9973}" for number in range(300))
    whole = CONTAINERS[container](text.encode())
    for place in range(0, len(whole), 7):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        lines, reason = read(path)
        assert reason or lines == lines_of(text), place


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_bytes_decide_and_not_the_name(tmp_path: Path, container: str) -> None:
    for name in ("a.csv", f"a.csv.{container}", "a.csv.gz", "a.zip"):
        (tmp_path / name).write_bytes(CONTAINERS[container](TRADE))
        assert read(tmp_path / name) == (TRADE.decode().splitlines(), "")
        assert first_text(tmp_path / name).encode() == TRADE
        (tmp_path / name).write_bytes(TRADE)
        assert read(tmp_path / name) == (TRADE.decode().splitlines(), "")


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_name_inside_is_that_of_the_member_or_without_that_of_the_packing(
    tmp_path: Path, container: str
) -> None:
    path = tmp_path / f"b.csv.{container}"
    path.write_bytes(CONTAINERS[container](TRADE))
    assert inner_name(path) == ("b.csv" if container in STREAMS else "a.csv")


NO_DATA = (
    ("BTC/", b""),
    ("__MACOSX/BTC/._tab.csv", b"\0\5\x16"),
    ("BTC/._tab.csv", b"\0\5\x16"),
    ("BTC/.DS_Store", b"\0"),
    ("tab.csv.CHECKSUM", b"abc  tab.csv\n"),
    ("tab.csv.sha256", b"abc"),
    ("tab.md5", b"abc"),
    ("README.md", b"what this is"),
    ("LICENSE", b"what you may do"),
    ("licence-CC0.txt", b"what you may do"),
)


@pytest.mark.parametrize("archive", ARCHIVES)
def test_members_that_hold_no_data_do_not_count(path: Path, archive: str) -> None:
    for files in ([*NO_DATA, ("BTC/tab.csv", TRADE)], [("BTC/tab.csv", TRADE), *NO_DATA]):
        path.write_bytes(ARCHIVES[archive](*files))
        assert read(path) == (TRADE.decode().splitlines(), "")
        assert inner_name(path) == "tab.csv"
    path.write_bytes(ARCHIVES[archive](*NO_DATA))
    with pytest.raises(IngestError, match="archive of one file was expected, it holds no file"):
        first_text(path)


def test_the_report_about_a_csv_file_does_not_count_but_another_text_does(path: Path) -> None:
    """HistData's archives have the gaps of DAT_ASCII_EURUSD_M1_202408.csv in a .txt beside it."""
    path.write_bytes(zipped(("EURUSD.csv", b"1\n"), ("EURUSD.txt", b"gaps\n")))
    assert read(path) == (["1"], "")
    path.write_bytes(zipped(("EURUSD.csv", b"1\n"), ("GBPUSD.txt", b"2\n")))
    assert "it holds 2 files: EURUSD.csv, GBPUSD.txt" in read(path)[1]


@pytest.mark.parametrize("archive", ARCHIVES)
def test_several_members_are_named_unless_a_layout_reads_them_all(path: Path, archive: str) -> None:
    path.write_bytes(
        ARCHIVES[archive](("x/a.csv", b"1\n2\n\n"), ("README.md", b"0"), ("b.csv", b"3\n\xff\n"))
    )
    assert "archive of one file was expected, it holds 2 files: x/a.csv, b.csv" in read(path)[1]
    assert (first_text(path), inner_name(path)) == ("1\n2\n\n", "a.csv")
    bad = BadLines()
    found = [(name, *row) for name, lines in members(path, bad, lambda _: None) for row in lines.iter_rows()]
    assert [(name, text) for name, _, text in found if text] == [
        ("a.csv", "1"),
        ("a.csv", "2"),
        ("b.csv", "3"),
    ]
    numbers = [number for _, number, _ in found]
    assert numbers == sorted(set(numbers))
    bad.by_member()
    assert bad.first == [(2, "b.csv: not UTF-8")]


def test_a_file_is_its_own_only_member(path: Path) -> None:
    path.write_bytes(b"1\n\xff\n")
    bad = BadLines()
    ((name, lines),) = members(path, bad, lambda _: None)
    assert (name, lines.rows()) == ("file", [(1, "1")])
    bad.by_member()
    assert bad.first == [(2, "not UTF-8")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 2**20])
@pytest.mark.parametrize(
    "packed",
    [bytes, gzip.compress, zstd, lambda text: zipped(("a", text))],
    ids=["plain", "gz", "zst", "zip"],
)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_a_byte_order_mark_tells_the_encoding(
    path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, packed: Callable[[bytes], bytes], size: int
) -> None:
    monkeypatch.setattr(_lines, "BLOCK", size * 4)
    path.write_bytes(packed("\ufefftime,größer\r\n1,😀\r\n".encode(encoding)))
    lines, reason = read(path)
    assert ([line.rstrip("\r") for line in lines], reason) == (["time,größer", "1,😀"], "")
    monkeypatch.setattr(_lines, "BLOCK", 2**24)
    assert first_text(path).startswith("time")


def test_utf16_that_breaks_off_or_is_broken_is_a_bad_line(path: Path) -> None:
    text = "\ufeffone\ntwo\nthree\n".encode("utf-16-le")
    path.write_bytes(text[:-1])
    assert read(path) == (["one", "two"], "the UTF-16 text breaks off")
    path.write_bytes(text.replace("t".encode("utf-16-le") + b"w\0", b"\0\xd8w\0"))  # half a pair
    assert read(path) == (["one", "three"], "not UTF-8")


@pytest.mark.parametrize("packed", [bz2.compress, lzma.compress, zstd], ids=["bz2", "xz", "zst"])
def test_streams_that_follow_each_other_are_one_text_and_other_bytes_are_not(
    path: Path, packed: Callable[[bytes], bytes]
) -> None:
    path.write_bytes(packed(b"one\ntw") + packed(b"o\nthree"))
    assert read(path) == (["one", "two", "three"], "")
    path.write_bytes(packed(b"one\n") + b"more and more")
    assert "stream is broken" in read(path)[1]


def test_the_zeros_after_a_stream_of_xz_are_no_text(path: Path) -> None:
    path.write_bytes(lzma.compress(b"one\n") + b"\0" * 8 + lzma.compress(b"two\n") + b"\0" * 4)
    assert read(path) == (["one", "two"], "")


def test_a_tar_archive_after_a_tar_archive_is_refused(path: Path) -> None:
    path.write_bytes(tarred(("a.csv", b"1\n")) + tarred(("b.csv", b"2\n")))
    assert "the tar archive is broken: more follows its end" in read(path)[1]


@pytest.mark.slow
@pytest.mark.parametrize("container", sorted(CONTAINERS.keys() - {"tar", "zip", "gz"}))
def test_what_unpacks_to_far_more_than_its_size_is_refused(path: Path, container: str) -> None:
    path.write_bytes(CONTAINERS[container]((b"1" * 2**16 + b"\n") * 2**11))
    lines, reason = read(path)
    assert "500 times its size" in reason
    assert len(lines) < 2**11


@pytest.mark.slow
def test_a_member_that_is_left_out_may_be_no_bomb_either(path: Path) -> None:
    path.write_bytes(bz2.compress(tarred(("README.md", b"\0" * 2**26), ("a.csv", b"1\n"))))
    assert "README.md would unpack to more than 500 times its size" in read(path)[1]


def test_an_encrypted_member_is_refused_only_if_it_holds_data(path: Path) -> None:
    for name, files in (("a.csv", []), ("README.md", [("a.csv", b"1\n")])):
        data = bytearray(zipped((name, b"1\n"), *files))
        for header, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            data[data.index(header) + place] |= 1
        path.write_bytes(data)
        assert read(path) == ((["1"], "") if files else ([], f"{path}: the zip archive is encrypted"))


@pytest.mark.slow
def test_memory_does_not_grow_with_a_packed_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lines, "BLOCK", 4096)
    text = os.urandom(50_000).hex(" ").replace(" ", "\n").encode()
    for packed in CONTAINERS.values():
        path.write_bytes(packed(text))
        blocks = [block.height for block in numbered(path, BadLines(), lambda _: None)]
        assert sum(blocks) == 50_000
        assert max(blocks) <= 4096


@pytest.mark.slow
@pytest.mark.parametrize("container", CONTAINERS)
def test_one_trade_in_any_container(lake: Lake, tmp_path: Path, container: str) -> None:
    path = tmp_path / f"tab.csv.{container}"
    path.write_bytes(CONTAINERS[container](TRADE))
    ingest(path, lake, layout="csv", exchange="X", raw_symbol="BTC-USD")
    (trade,) = lake.scan("trades").collect().to_dicts()
    assert (trade["timestamp"], trade["price"], trade["amount"], trade["side"]) == (
        1_723_118_400 * 10**9, 60_000.5, 0.25, "SELL",
    )  # fmt: skip


@pytest.mark.slow
def test_an_export_in_utf16(lake: Lake, path: Path) -> None:
    rows = (
        "timestamp,price,amount,side",
        "2024-08-08T12:00:00Z,60000.5,0.25,sell",
        "2024-08-08T12:00:01Z,60001,1,buy",
    )
    path.write_bytes(b"\xff\xfe" + "".join(f"{row}\r\n" for row in rows).encode("utf-16-le"))
    assert ingest(path, lake, layout="csv", exchange="X", raw_symbol="BTC-USD").trades_new == 2
