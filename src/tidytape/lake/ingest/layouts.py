"""The layouts by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tidytape.lake.ingest import binance_ws, csv, deribit_chain
from tidytape.lake.ingest._job import Layout

__all__ = ["LAYOUTS"]

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {"binance-ws": binance_ws.parse, "csv": csv.parse, "deribit-chain": deribit_chain.parse}
)
"""What reads each layout."""
