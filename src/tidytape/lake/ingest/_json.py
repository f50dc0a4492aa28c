"""JSON lines to columns, with the lines that are broken told apart."""

from __future__ import annotations

import polars as pl

__all__ = ["decoded"]


def decoded(text: pl.Series, dtype: pl.Struct) -> pl.Series:
    """Return each line as a struct of ``dtype``, null where the line is no object of that shape.

    One columnar pass decodes all lines; only where it fails are the lines halved until the broken ones stand alone.

    Parameters
    ----------
    text : polars.Series of str
        One JSON object each.
    dtype : polars.Struct
        The fields wanted; others are passed over, absent ones become null.

    Returns
    -------
    polars.Series of struct, same length and order

    Examples
    --------
    >>> decoded(pl.Series(['{"a": 1, "b": 2}', '{"a": "x"}', '{"a":']), pl.Struct({"a": pl.Int64})).to_list()
    [{'a': 1}, None, None]
    """
    if text.is_empty():
        return pl.Series(text.name, [], dtype=dtype)
    # The reader joins the lines to one array, so a line that is no single object could shift the ones after it.
    objects = text.str.contains(r"^\s*\{(?s:.*)\}\s*$")
    if not objects.any():
        return pl.Series(text.name, [None] * len(text), dtype=dtype)
    if not objects.all():
        found = decoded(text.filter(objects), dtype)
        # Row of each line among the objects; null takes a null.
        rows = pl.select(pl.when(objects).then(objects.cast(pl.Int64).cum_sum() - 1)).to_series()
        return found.gather(rows)
    try:
        found = text.str.json_decode(dtype)
        if len(found) == len(text):
            return found
    except pl.exceptions.PolarsError:
        pass
    if len(text) == 1:
        return pl.Series(text.name, [None], dtype=dtype)
    half = len(text) // 2
    return pl.concat([decoded(text[:half], dtype), decoded(text[half:], dtype)])
