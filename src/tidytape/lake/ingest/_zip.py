"""The one member of a zip archive, unpacked block by block."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from tidytape.errors import IngestError

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
"""How an archive begins: with a member, or without any."""

_LARGEST_RATIO = 500
"""Market data packs 5 to 50 times. Beyond this it is the same line over and over, and unpacking it fills the disk."""

_ENCRYPTED = 0x1


def member_blocks(
    file: BinaryIO, path: str, size: int, progress: Callable[[int], object]
) -> Iterator[bytes | str]:
    """Yield the text of the archive's only file in blocks; last, if it is broken, what is wrong with it.

    Parameters
    ----------
    file : binary file
        The archive, which can be sought in.
    path : str
        What errors call it.
    size : int
        Of a block, at most. [bytes]
    progress : callable
        Called with the number of bytes taken from the disk.

    Raises
    ------
    IngestError
        If it is no whole archive, holds no file or several, or one that cannot be unpacked or is suspiciously large.
    """
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        # The table of contents is the archive's end.
        raise IngestError(
            f"{path}: no whole zip archive, or one that was cut off: {error}", path=path
        ) from error
    with archive:
        member = _only_member(archive, path)
        try:
            with archive.open(member) as unpacked:
                before = 0
                while text := unpacked.read(size):
                    # The archive shares its file with the member; what was packed is told by the share that came out.
                    now = member.compress_size * unpacked.tell() // max(member.file_size, 1)
                    progress(now - before)
                    before = now
                    yield text
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            yield f"the zip archive is broken: {str(error) or 'it breaks off'}"
        except NotImplementedError as error:
            raise IngestError(
                f"{path}: a zip archive packed in a way not supported: {error}", path=path
            ) from error


def _only_member(archive: zipfile.ZipFile, path: str) -> zipfile.ZipInfo:
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) != 1:
        names = ", ".join(member.filename for member in members[:5])
        held = f"{len(members)} files: {names}{', …' if len(members) > 5 else ''}" if members else "no file"
        raise IngestError(f"{path}: a zip archive of one file was expected, it holds {held}", path=path)
    (member,) = members
    if member.flag_bits & _ENCRYPTED:
        raise IngestError(f"{path}: the zip archive is encrypted", path=path)
    if member.file_size > _LARGEST_RATIO * max(member.compress_size, 1):
        raise IngestError(
            f"{path}: {member.filename} would unpack to {member.file_size:,} bytes from {member.compress_size:,}, "
            f"more than {_LARGEST_RATIO} times as much; unpack it by hand if it is no zip bomb",
            path=path,
        )
    return member
