"""All layouts by name, and the recognition of a file's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tidytape.errors import QueryError, did_you_mean
from tidytape.lake.ingest._binance_vision import BinanceVision
from tidytape.lake.ingest._binance_ws import BinanceWs
from tidytape.lake.ingest._coinbase import Coinbase
from tidytape.lake.ingest._cryptofeed import Cryptofeed
from tidytape.lake.ingest._deribit_chain import DeribitChain
from tidytape.lake.ingest._described import Auto, described, looks_like
from tidytape.lake.ingest._kraken import Kraken
from tidytape.lake.ingest._layout import Layout, nothing_to_choose
from tidytape.lake.ingest._lean import Lean
from tidytape.lake.ingest._lines import first_text, inner_name
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._own_files import Csv, Feather, Json, Jsonl, Parquet
from tidytape.lake.ingest._tardis import Tardis, TardisNode

LAYOUTS: Mapping[str, type[Layout]] = MappingProxyType(
    {
        layout.name: layout
        for layout in (
            BinanceVision,
            BinanceWs,
            Coinbase,
            Cryptofeed,
            Csv,
            DeribitChain,
            Feather,
            Json,
            Jsonl,
            Kraken,
            Lean,
            Parquet,
            Tardis,
            TardisNode,
        )
    }
)
"""The layouts by name, in alphabetical order."""


def recognised(path: Path) -> Layout:
    """Return the only layout that recognises a file.

    Parameters
    ----------
    path : Path
        The file, plain or packed.

    Raises
    ------
    QueryError
        If no layout recognises the file, or several do.
    IngestError
        If the file cannot be read.
    """
    head = first_text(path)
    return recognised_by([path.name, inner_name(path)] if head else [path.name], head, path)


def recognised_by(names: Sequence[str], head: str, path: Path) -> Layout:
    """Return the only layout that recognises a file by names and first text; QueryError if none or several do."""
    candidates = [
        layout for layout in LAYOUTS.values() if any(layout.recognises(name, head) for name in names)
    ]
    if len(candidates) == 1:
        return candidates[0]()
    kind = None if candidates else described(path, names[-1], head)
    if kind is not None:
        return kind
    if candidates:
        could_be = ", ".join(layout.name for layout in candidates)
        expected = f"one of the layouts it could be: {could_be}"
        raise QueryError("layout", got=None, expected=expected, hint="the command, or ``layout``, names it")
    what, command = looks_like(path, head)
    raise QueryError(
        "layout",
        got=None,
        expected=f"a kind of file that tidytape knows: {path.name} is {what}",
        hint=f"as a file of your own: ``ingest(file, lake, {command})``",
    )


def options_of(kind: type[Any]) -> dict[str, Mapping[str, Any]]:
    """Return the options of the command line, by name, that the fields of a layout or of `Market` define."""
    if not is_dataclass(kind):
        return {}
    return {
        field.name: {"default": field.default, **field.metadata} for field in fields(kind) if field.metadata
    }


def by_name(layout: str | None, options: Mapping[str, Any]) -> tuple[Layout, Market]:
    """Return the layout and the market that the options of the command line describe.

    Parameters
    ----------
    layout : str or None
        Name of the layout; None to recognise the files.
    options : mapping
        Attributes of the layout and of `Market`; those that are None are ignored.

    Raises
    ------
    QueryError
        If there is no such layout, it has no such option, or a value cannot be right.
    """
    if layout is not None and layout not in LAYOUTS:
        raise QueryError(
            "layout",
            got=layout,
            expected="one of " + ", ".join(LAYOUTS),
            hint=did_you_mean(layout, LAYOUTS),
        )
    attributes = {name: value for name, value in options.items() if value is not None}
    market = Market(**{name: attributes.pop(name) for name in options_of(Market) if name in attributes})
    kind = Auto if layout is None else LAYOUTS[layout]
    for name, value in attributes.items():
        if name not in options_of(kind):
            raise nothing_to_choose(name, value, f"{layout or 'recognised'} files")
    return kind(**attributes), market
