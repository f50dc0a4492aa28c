"""What is usual, told from numbers among which some are not."""

from __future__ import annotations

from typing import Any, Final

import narwhals.stable.v2 as nw

_NORMAL: Final = 1.4826
"""Standard deviations of a normal distribution per median absolute deviation. [1]"""

_NORMAL_MEAN: Final = 1.2533
"""The same per mean absolute deviation, for series that mostly do not move. [1]"""

ENOUGH: Final = 20
"""Numbers that tell what is usual."""


def with_most(rows: nw.LazyFrame[Any], *, over: list[str], limit: float) -> nw.LazyFrame[Any]:
    """Return the rows with ``__most``, ``limit`` robust deviations of what lies ``__off`` from the usual."""
    off = nw.col("__off")
    rows = rows.with_columns(__mad=off.median().over(over), __mean=off.mean().over(over))
    mad = nw.col("__mad")
    deviation = nw.when(mad > 0).then(mad * _NORMAL).otherwise(nw.col("__mean") * _NORMAL_MEAN)
    return rows.with_columns(__most=deviation * limit)
