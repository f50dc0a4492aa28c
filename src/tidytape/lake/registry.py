"""Merging what is said about markets into what is registered."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from tidytape.lake.tables import MARKETS

__all__ = ["merged"]


def merged(registered: pl.DataFrame, said: pl.DataFrame, *, replace: Collection[str] = ()) -> pl.DataFrame:
    """Return the registry with what is said put into it.

    A value that is registered stays, so that a block size never drifts; a null is filled; ``replace`` names the
    columns in which what is said wins where it says something. ``available_since`` becomes the earlier of the two.

    Parameters
    ----------
    registered : polars.DataFrame, n rows, key (exchange, raw_symbol, tenor)
        The table MARKETS, and columns that a newer release stored, which stay as they are.
    said : polars.DataFrame, m rows, key (exchange, raw_symbol, tenor)
        The same columns.
    replace : collection of str
        Names of columns.

    Returns
    -------
    polars.DataFrame, one row per market in either, sorted by (exchange, raw_symbol, tenor)
        The columns of ``registered``.

    Examples
    --------
    >>> known = MARKETS.conform(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["A"], "block_size": [1.0]}))
    >>> new = known.with_columns(block_size=pl.lit(2.0), coin=pl.lit("AAA"))
    >>> merged(known, new).select("coin", "block_size").rows()
    [('AAA', 1.0)]
    >>> merged(known, new, replace=["block_size"]).select("coin", "block_size").rows()
    [('AAA', 2.0)]
    """
    key = list(MARKETS.key)
    both = registered.join(said, on=key, how="full", coalesce=True, suffix="_said", nulls_equal=True)
    columns = []
    for name in MARKETS.names:
        if name in key:
            columns.append(pl.col(name))
        elif name == "available_since":
            columns.append(pl.min_horizontal(name, f"{name}_said").alias(name))
        elif name in replace:
            columns.append(pl.coalesce(f"{name}_said", name).alias(name))
        else:
            columns.append(pl.coalesce(name, f"{name}_said"))
    others = [name for name in registered.columns if name not in MARKETS.names]
    return both.select(*columns, *others).sort(key)
