"""Flat arrays of numbers, such as the levels of a profile, read apart from the rest of their body.

pyarrow reads JSON value by value, and a body of profiles is mostly numbers in flat arrays. So `cut` takes the text of
these arrays out of the body, which leaves empty arrays, and `numbers` splits and casts the text, on all cores and in
half the time. polars also casts some texts that are not JSON numbers, such as ``+1`` and ``01``, so a regular
expression checks all texts.

A body is valid JSON with the numbers if it is valid without them. If `cut` mistakes a part of a string, or a field of
another object, for an array, pyarrow refuses the remaining body, as it would refuse the whole body.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"


def cut(body: bytes, names: Sequence[str]) -> tuple[bytes, dict[str, pl.Series]]:
    """Take the text of arrays out of a body.

    Parameters
    ----------
    body : bytes
        JSON in valid UTF-8.
    names : sequence of str
        Names of the fields that are arrays of numbers.

    Returns
    -------
    bytes
        The body, in which these arrays are empty.
    dict of str to polars.Series of str, one text per array
        By name the texts between the brackets, in the order of the body; a name that the body lacks is absent. The dict
        is empty if the first array of a name holds anything but numbers.

    Examples
    --------
    >>> rest, texts = cut(b'[{"x":[1,2.5]},{"x":[]}]', ["x", "y"])
    >>> rest, texts["x"].to_list(), len(texts)
    (b'[{"x":[]},{"x":[]}]', ['1,2.5', ''], 1)
    """
    rest, texts = body, dict[str, pl.Series]()
    if b"\\" in body:  # a quote after a backslash does not end a string
        return body, {}
    for name, colon in product(names, (":", ": ")):
        bounds = [] if name in texts else _bounds(rest, f'"{name}"{colon}['.encode())
        if len(bounds) > 2:
            buffers = pa.py_buffer(bounds), pa.py_buffer(rest)
            pieces = pl.Series(pa.LargeStringArray.from_buffers(len(bounds) - 1, *buffers))
            texts[name] = pieces.gather_every(2, 1)
            # If the first array holds something else, the others will too.
            if numbers(texts[name].head(1)) is None:
                return body, {}
            rest = pieces.gather_every(2).str.join().item().encode()
    return rest, texts


def _bounds(body: bytes, key: bytes) -> Any:
    """Return where the text after each key begins and ends, between 0 and the length of the body."""
    text = np.frombuffer(body, np.uint8)
    opens, closes = np.flatnonzero(text == ord("[")), np.flatnonzero(text == ord("]"))
    starts = opens[opens >= len(key) - 1] - len(key) + 1
    if not len(starts):
        return np.array([0, len(body)])
    windows = np.lib.stride_tricks.sliding_window_view(text, len(key))
    begins = starts[(windows[starts] == np.frombuffer(key, np.uint8)).all(axis=1)] + len(key)
    ends = np.append(closes, len(body))[closes.searchsorted(begins)]
    # Let an array end where the next one begins, at the latest: an array around another one is no array of numbers.
    ends[:-1] = np.minimum(ends[:-1], begins[1:])
    return np.concatenate([[0], np.column_stack([begins, ends]).ravel(), [len(body)]])


def numbers(texts: pl.Series) -> Any:
    """Return texts of numbers and commas as an Arrow array of lists, null where a text is empty.

    Either all commas are followed by a space, or none. The result is None if a text holds anything else.

    Examples
    --------
    >>> numbers(pl.Series(["1,2.5", ""])).to_pylist(), numbers(pl.Series(["1,", "01"]))
    ([[1.0, 2.5], None], None)
    """
    text = pl.col("text")
    comma = ", " if texts.head(1).str.contains(", ", literal=True).any() else ","
    values = pl.when(text != "").then(text).str.split(comma).cast(pl.List(pl.Float64))
    pattern = f"^(?:{_NUMBER}(?:{comma}{_NUMBER})*)?$"
    table = texts.alias("text").to_frame().lazy()
    try:
        # The streaming engine uses all cores.
        lists = table.select(values, is_valid=text.str.contains(pattern)).collect(engine="streaming")
    except pl.exceptions.PolarsError:
        return None
    return lists["text"].to_arrow() if lists["is_valid"].all() else None
