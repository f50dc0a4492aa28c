"""JSON lines to columns, with the lines that are broken told apart."""

from __future__ import annotations

import orjson
import polars as pl


def decoded(text: pl.Series, dtype: pl.Struct) -> pl.Series:
    """Return each line as a struct of ``dtype``, null where the line is no object of that shape.

    One columnar pass decodes all lines. Only where it fails are they looked at one by one, and where that does not help
    halved until the broken ones stand alone.

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
    # The reader joins the lines to one array, so a line that is no single object could shift the ones after it.
    bare = text.str.strip_chars()
    good = bare.str.starts_with("{") & bare.str.ends_with("}")
    found = _all(text.filter(good), dtype)
    if found is None:
        good &= text.map_elements(_is_json, return_dtype=pl.Boolean)
        # What may be left is a field of another type, which only the reader itself can tell.
        found = _halved(text.filter(good), dtype)
    if good.all():
        return found
    if found.is_empty():
        return pl.Series(text.name, [None] * len(text), dtype=dtype)
    # Row of each line among the good ones; no row takes a null.
    return found.gather(pl.select(pl.when(good).then(good.cast(pl.Int64).cum_sum() - 1)).to_series())


def _all(text: pl.Series, dtype: pl.Struct) -> pl.Series | None:
    """All lines decoded in one pass; None if any of them is broken."""
    if text.is_empty():
        return pl.Series(text.name, [], dtype=dtype)
    try:
        found = text.str.json_decode(dtype)
    except pl.exceptions.PolarsError:
        return None
    return found if len(found) == len(text) else None


def _halved(text: pl.Series, dtype: pl.Struct) -> pl.Series:
    found = _all(text, dtype)
    if found is not None:
        return found
    if len(text) == 1:
        return pl.Series(text.name, [None], dtype=dtype)
    half = len(text) // 2
    return pl.concat([_halved(text[:half], dtype), _halved(text[half:], dtype)])


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return text.lstrip().startswith("{")
