"""Whether a lake can be read now, found out in milliseconds: for who runs a service over it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from tidytape.errors import LakeError
from tidytape.lake import _delta
from tidytape.lake.store import Lake

__all__ = ["require_readable"]


def require_readable(lake: Lake, tables: Iterable[str]) -> None:
    """Raise unless every table opens anew, and its local files are as long as the table's log says.

    A table that the lake has lost counts as one of them, see `Lake.lost`. What stands inside the files is not read;
    `tidytape.lake.hygiene.check` reads all of it.

    Parameters
    ----------
    lake : Lake
    tables : iterable of str
        Names of tables that the lake has.

    Raises
    ------
    LakeError
        If a table is gone, its log cannot be read, or a file is missing or has another length. It names the first.

    Examples
    --------
    >>> import tempfile
    >>> require_readable(Lake.create(tempfile.mkdtemp()), ["markets", "trades"])
    """
    for name in dict.fromkeys((*lake.lost(), *tables)):
        uri = lake.uri(name)
        table = _delta.opened(uri, lake.storage_options)
        if table.table_uri.startswith("file://"):
            _require_whole_files(table, uri)


def _require_whole_files(table: _delta.Opened, uri: str) -> None:
    root = Path(unquote(table.table_uri.removeprefix("file://")))
    files = table.get_add_actions(flatten=True)
    for name, length in zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True):
        path = root / unquote(name)  # the log writes names as URLs do
        try:
            found = path.stat().st_size
        except OSError as error:
            raise LakeError(f"{path}: {error.strerror}", path=uri) from None
        if found != length:
            raise LakeError(f"{path}: holds {found:,} bytes, the table's log says {length:,}", path=uri)
