"""Several results of the same profiles beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw


def merged(
    parts: Sequence[nw.LazyFrame[Any]], keys: list[str], *, absent: Sequence[str] = ()
) -> nw.LazyFrame[Any]:
    """Return one row per profile with the columns of all parts, which are float64, null where a part has no row.

    Columns that are ``absent`` from all of them are null.

    Below each other and grouped, because joins do not find null, which is a key too.
    """
    names = [[name for name in part.collect_schema().names() if name not in keys] for part in parts]
    columns = [name for part in [*names, absent] for name in part]
    below = [
        part.select(
            *keys,
            *(
                nw.col(name).cast(nw.Float64) if name in own else nw.lit(None, nw.Float64).alias(name)
                for name in columns
            ),
        )
        for part, own in zip(parts, names, strict=True)
    ]
    return nw.concat(below).group_by(*keys).agg(nw.col(*columns).max())
