"""Every row with every one of some numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw

__all__ = ["crossed"]


def crossed(frame: nw.LazyFrame[Any], name: str, values: Iterable[float]) -> nw.LazyFrame[Any]:
    """Return each row of the frame once with each of the values, as a column of float64.

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.LazyFrame({"coin": ["BTC", "ETH"]}))
    >>> crossed(frame, "days", [7, 30]).sort("coin", "days").collect().rows()
    [('BTC', 7.0), ('BTC', 30.0), ('ETH', 7.0), ('ETH', 30.0)]
    """
    values = [float(value) for value in values]
    if frame.implementation.is_duckdb():
        numbers = ", ".join(f"{_number(value)}::DOUBLE" for value in values)
        return _opened(frame.to_native().project(f"*, unnest([{numbers}]) AS {name}"))
    if frame.implementation.is_spark_like():
        numbers = ", ".join(f"{_number(value)}D" for value in values)
        return _opened(frame.to_native().selectExpr("*", f"explode(array({numbers})) AS {name}"))
    wide = frame.select(nw.len().alias("rows")).select(
        nw.lit(value).alias(f"value_{place}") for place, value in enumerate(values)
    )
    return frame.join(wide.unpivot(variable_name="place", value_name=name).select(name), how="cross")


def _opened(native: Any) -> nw.LazyFrame[Any]:
    frame: nw.LazyFrame[Any] = nw.from_native(native)
    return frame


def _number(value: float) -> str:
    """Return a float as SQL reads it to the last bit: with an exponent, or it would be a decimal first."""
    text = repr(value)
    return text if "e" in text else f"{text}e0"
