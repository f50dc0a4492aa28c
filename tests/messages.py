"""Messages of the definition as the JSON that HTTP sends, so that both can be compared."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Any

import orjson
from google.protobuf import json_format

from tidytape.catalogue import DATA_TYPES
from tidytape.service.proto import market_data_pb2 as pb
from tidytape.wire._stream import Batch, decode_batch


def json_of(body: bytes) -> bytes:
    """Return a PointResponse as the body of ``/v1/points``."""
    document = json_format.MessageToDict(pb.PointResponse.FromString(body))
    return orjson.dumps({"series": _series(document, "series"), "notes": document.get("notes", [])})


def batch_of(message: bytes, data_types: Collection[str]) -> Batch:
    """Return a PointBatch as what a client reads from a line of ``/v1/stream``."""
    document = json_format.MessageToDict(pb.PointBatch.FromString(message))
    line = document | {change: _series(document, change) for change in ("revision", "final", "update")}
    return decode_batch(orjson.dumps(line), data_types)


def _series(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [
        {"id": one["id"], "points": [{"Point": _payload(point)} for point in one.get("points", ())]}
        for one in document.get(name, ())
    ]


def _payload(point: dict[str, Any]) -> dict[str, Any]:
    (name, payload), *others = point.items()
    assert not others
    for kind in DATA_TYPES.values():
        if kind.envelope == name:
            return {name: _filled(payload)}
    return _filled(payload)


def _filled(payload: dict[str, Any]) -> dict[str, Any]:
    """NaN in a flat array is null in JSON."""
    return {
        name: [None if value == "NaN" else value for value in values] if isinstance(values, list) else values
        for name, values in payload.items()
    }


def comparable(value: Any) -> Any:
    """Return a JSON body without what says the same in both forms: nulls, empty arrays, 1 and 1.0, int64 as text."""
    if isinstance(value, dict):
        kept = {name: comparable(one) for name, one in value.items()}
        # A message does not write the second 0.
        return {
            name: one
            for name, one in kept.items()
            if one is not None and one != [] and (name, one) != ("s", 0)
        }
    if isinstance(value, list):
        return [comparable(one) for one in value]
    if isinstance(value, str) and re.fullmatch("-?[0-9]+", value):
        return int(value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    return value
