"""What a method that fetches a series asks for, said before anything is sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidytape.budget import weight
from tidytape.client.display import counted, facts_table, of_query
from tidytape.query import PointsQuery
from tidytape.schema import Schema, schema_of

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Asking", "Wanted", "given"]

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, repr=False)
class Wanted:
    """The requests that cover a window, and what their answers become.

    Attributes
    ----------
    queries : tuple of PointsQuery
        Of one data type, oldest first.
    schema : Schema
        Shape of the frame in the end.
    finish : callable, optional
        Makes that frame of the one that the answers make, which has the schema of the data type.
    """

    queries: tuple[PointsQuery, ...]
    schema: Schema
    finish: Callable[[pl.DataFrame], pl.DataFrame] | None = None

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Any]) -> Wanted:
        """Return what the arguments of a method ask for of a data type, as its answers come.

        Raises
        ------
        QueryError
            If the request cannot be right.
        """
        queries = tuple(PointsQuery.split(type=name, **given(arguments)))
        return cls(queries, schema_of(name, grouped=queries[0].group_by is not None))

    def __repr__(self) -> str:
        """Return it on one line."""
        return f"<Wanted {self._asked}: {self._cost}>"

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it."""
        columns = ", ".join(self.schema.names)
        return facts_table("Wanted", {"asked": self._asked, "at most": self._cost, "columns": columns})

    @property
    def _asked(self) -> str:
        return of_query(self.queries[0], self.queries[0].start, self.queries[-1].end)

    @property
    def _cost(self) -> str:
        return f"{counted(len(self.queries), 'request')}, weight {sum(map(weight, self.queries)):,}"


class Asking(ABC, Generic[ResultT]):
    """A class whose methods say what is wanted; what they return, whoever inherits them decides."""

    @abstractmethod
    def _points(self, wanted: Wanted) -> ResultT: ...


_REQUIRED = ("start", "end", "interval")


def given(arguments: Mapping[str, Any], *, leave: frozenset[str] | set[str] = frozenset()) -> dict[str, Any]:
    """Keep the arguments of a method that its caller gave a value, or that a query for points always has.

    Examples
    --------
    >>> given({"self": 0, "coin": "BTC", "side": None, "start": None})
    {'coin': 'BTC', 'start': None}
    """
    return {
        name: value
        for name, value in arguments.items()
        if name != "self" and name not in leave and (value is not None or name in _REQUIRED)
    }
