"""The layouts by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tidytape.lake.ingest import (
    binance_vision,
    binance_ws,
    cryptofeed,
    csv,
    deribit_chain,
    jsonl,
    parquet,
    tardis,
    tardis_node,
)
from tidytape.lake.ingest._job import Layout

__all__ = ["LAYOUTS", "MAPPED", "NAMING", "WITHOUT_FUNDING"]

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "binance-vision": binance_vision.parse,
        "binance-ws": binance_ws.parse,
        "cryptofeed": cryptofeed.parse,
        "csv": csv.parse,
        "deribit-chain": deribit_chain.parse,
        "jsonl": jsonl.parse,
        "parquet": parquet.parse,
        "tardis": tardis.parse,
        "tardis-node": tardis_node.parse,
    }
)
"""What reads each layout."""

MAPPED = ("csv", "jsonl", "parquet")
"""Those whose columns are mapped, for any table."""

WITHOUT_FUNDING = ("binance-ws", "deribit-chain")
"""Those that hold no funding."""

NAMING = ("cryptofeed", "deribit-chain", "tardis", "tardis-node")
"""Those that name their venues, or are of one alone."""
