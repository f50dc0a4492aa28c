"""What a frame must have before it is aggregated, and how it goes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.errors import MissingColumnError, QueryError

__all__ = ["BUCKET", "INSTRUMENT", "closed", "opened"]

INSTRUMENT = ("exchange", "raw_symbol")
"""Columns that name one instrument."""

BUCKET = "__bucket"
"""Working name of the bucket start, while ``timestamp`` is still the event's own time."""

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]


def opened(native: Any, needed: Iterable[str]) -> Frame:
    """Return the native frame as a Narwhals frame; MissingColumnError unless it has every needed column."""
    try:
        frame: Frame = nw.from_native(native)
    except TypeError:
        kind = f"{type(native).__module__}.{type(native).__qualname__}"
        raise QueryError(
            "frame", got=kind, expected="a frame, eager or lazy, of an engine Narwhals knows"
        ) from None
    available = frame.collect_schema().names()
    missing = [name for name in needed if name not in available]
    if missing:
        raise MissingColumnError(missing, available=available)
    return frame


def closed(frame: Frame, *, like: IntoFrameT) -> IntoFrameT:
    """Return the native frame of the kind of ``like``; of pandas, with a fresh index."""
    native = nw.maybe_reset_index(frame).to_native() if isinstance(frame, nw.DataFrame) else frame.to_native()
    return cast("IntoFrameT", native)
