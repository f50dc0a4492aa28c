"""The kind of frame a client returns; the columns and dtypes are the schema's in every kind."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import polars as pl

from tidytape.errors import QueryError
from tidytape.schema import Schema

__all__ = ["Present", "presenter"]

F_co = TypeVar("F_co", covariant=True)


class Present(Protocol[F_co]):
    """Gives a fetched frame its final kind."""

    def __call__(self, frame: pl.DataFrame, schema: Schema, /) -> F_co:
        """Return the frame in its final kind."""


def presenter(backend: str) -> Present[Any]:
    """Return the function that gives a fetched frame its final kind.

    Raises
    ------
    QueryError
        If the backend is unknown.
    """
    if backend == "polars":
        return lambda frame, schema: frame
    if backend != "pandas":
        raise QueryError("backend", got=backend, expected="'polars' or 'pandas'")
    return lambda frame, schema: schema.to_pandas(frame)
