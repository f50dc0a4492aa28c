"""Which layout a file is written in, told by its name and its first lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tidytape.errors import QueryError
from tidytape.lake.ingest import binance_vision, binance_ws, cryptofeed, deribit_chain, tardis, tardis_node
from tidytape.lake.ingest._lines import first_text

__all__ = ["RECOGNISERS", "recognised"]

RECOGNISERS: Mapping[str, Callable[[str, str], bool]] = MappingProxyType(
    {
        "binance-vision": binance_vision.recognises,
        "binance-ws": binance_ws.recognises,
        "cryptofeed": cryptofeed.recognises,
        "deribit-chain": deribit_chain.recognises,
        "tardis": tardis.recognises,
        "tardis-node": tardis_node.recognises,
    }
)
"""What tells each layout, by a file's name and the beginning of its text."""


def recognised(path: Path) -> str:
    """Return the name of the only layout that a file can be written in.

    Parameters
    ----------
    path : Path
        The file, plain or packed.

    Raises
    ------
    QueryError
        If no layout knows it, or several do.
    IngestError
        If the file cannot be read.
    """
    head = first_text(path)
    found = [name for name, recognises in RECOGNISERS.items() if recognises(path.name, head)]
    if len(found) == 1:
        return found[0]
    if found:
        expected = f"one of the layouts it could be: {', '.join(found)}"
    else:
        expected = (
            f"a layout for {path.name}: it is recognised as none of {', '.join(RECOGNISERS)}; "
            "files of your own are csv, jsonl or parquet, with a column map"
        )
    raise QueryError("layout", got=None, expected=expected)
