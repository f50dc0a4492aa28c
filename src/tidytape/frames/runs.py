"""Rows that follow each other with the same keys, of frames in memory."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

__all__ = ["starts_run"]


def starts_run(rows: nw.DataFrame[Any], keys: list[str]) -> NDArray[np.bool_]:
    """Return whether each row is the first, or has other keys than the one before it, null being a key."""
    is_first = np.zeros(len(rows), np.bool_)
    is_first[:1] = True
    for column in map(rows.get_column, keys):
        before, here = column.head(-1), column.tail(-1)
        differs = here != before
        if column.null_count():
            was_null, is_null = before.is_null(), here.is_null()
            differs = (differs.fill_null(value=True) & ~(was_null & is_null)) | (was_null != is_null)
        is_first[differs.arg_true().to_numpy() + 1] = True
    return is_first
