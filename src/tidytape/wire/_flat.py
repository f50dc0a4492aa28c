"""Flat arrays of numbers, such as the levels of a profile, read apart from the body that they lie in.

pyarrow reads JSON value by value, and most of a body of profiles are numbers in flat arrays. So `cut` takes their text
out of the body, which leaves empty arrays, and `numbers` splits and casts it, on all cores and in half the time. polars
casts some texts that are no JSON numbers, such as ``+1`` and ``01``, so a regular expression looks at all of them.

A body is valid with the numbers if it is without them. Where an array only seems to be one, as inside a text or in
another object, what is left is a body that pyarrow refuses, as it would refuse the whole.
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
    """Take what is in the arrays of these names out of a body.

    Parameters
    ----------
    body : bytes
        JSON in valid UTF-8.
    names : sequence of str
        Fields that are arrays of numbers.

    Returns
    -------
    bytes
        The body with empty arrays instead.
    dict of str to polars.Series of str, one text per array
        For each name that the body has: what was between the brackets, in the order of the body. None at all if the
        first array is not of numbers.

    Examples
    --------
    >>> rest, texts = cut(b'[{"x":[1,2.5]},{"x":[]}]', ["x", "y"])
    >>> rest, texts["x"].to_list(), len(texts)
    (b'[{"x":[]},{"x":[]}]', ['1,2.5', ''], 1)
    """
    rest, texts = body, dict[str, pl.Series]()
    if b"\\" in body:  # behind one, a quote does not end a text
        return body, {}
    for name, colon in product(names, (":", ": ")):
        bounds = [] if name in texts else _bounds(rest, f'"{name}"{colon}['.encode())
        if len(bounds) > 2:
            buffers = pa.py_buffer(bounds), pa.py_buffer(rest)
            pieces = pl.Series(pa.LargeStringArray.from_buffers(len(bounds) - 1, *buffers))
            texts[name] = pieces.gather_every(2, 1)
            # Where the first array has something else, there is no use in cutting out the others.
            if numbers(texts[name].head(1)) is None:
                return body, {}
            rest = pieces.gather_every(2).str.join().item().encode()
    return rest, texts


def _bounds(body: bytes, key: bytes) -> Any:
    """Return where what follows a key begins and ends, each time; 0 comes first, and the length of the body last."""
    text = np.frombuffer(body, np.uint8)
    opens, closes = np.flatnonzero(text == ord("[")), np.flatnonzero(text == ord("]"))
    starts = opens[opens >= len(key) - 1] - len(key) + 1
    if not len(starts):
        return np.array([0, len(body)])
    windows = np.lib.stride_tricks.sliding_window_view(text, len(key))
    begins = starts[(windows[starts] == np.frombuffer(key, np.uint8)).all(axis=1)] + len(key)
    ends = np.append(closes, len(body))[closes.searchsorted(begins)]
    # An array that begins before another ends has no numbers alone.
    ends[:-1] = np.minimum(ends[:-1], begins[1:])
    return np.concatenate([[0], np.column_stack([begins, ends]).ravel(), [len(body)]])


def numbers(texts: pl.Series) -> Any:
    """Return texts of numbers and commas as an Arrow array of lists, null where a text is empty.

    A space may follow the commas, all or none. The result is None if a text holds anything else.

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
        # The streaming engine takes all cores.
        read = table.select(values, valid=text.str.contains(pattern)).collect(engine="streaming")
    except pl.exceptions.PolarsError:
        return None
    return read["text"].to_arrow() if read["valid"].all() else None
