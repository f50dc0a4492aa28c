"""What is wrong with a body, and where.

A value knows what is wrong with it, its surroundings know where it lies: a ``Fault`` rises without a place,
and the lane turns it into a `DecodeError` with the facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidytape.errors import DecodeError

_LONGEST = 200


class Fault(Exception):  # noqa: N818 - it never leaves this package
    """Something that is not the contract, not yet placed. ``length`` is that of an array at fault."""

    def __init__(self, message: str, *, length: int | None = None) -> None:
        super().__init__(message)
        self.length = length


@contextmanager
def placed(data_type: str, series: str | None = None, point: int | None = None) -> Iterator[None]:
    """Turn a Fault from inside into a DecodeError that says where."""
    try:
        yield
    except Fault as fault:
        where = [data_type]
        if series is not None:
            where.append(f"series {series}")
        if point is not None:
            where.append(f"point {point}")
        raise DecodeError(
            f"{', '.join(where)}: {fault}",
            data_type=data_type,
            series=series,
            point=point,
            length=fault.length,
        ) from None


def series_name(identity: Any, position: int) -> str:
    """Write a series as its identity, or as its position where it has none.

    Examples
    --------
    >>> series_name({"type": "TRADE", "exchange": "X", "rawSymbol": "BTCUSDT", "side": None}, 0)
    'exchange=X, rawSymbol=BTCUSDT'
    """
    if not isinstance(identity, dict):
        return str(position)
    text = ", ".join(
        f"{name}={value}" for name, value in identity.items() if name != "type" and isinstance(value, str)
    )
    return (text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…") or str(position)
