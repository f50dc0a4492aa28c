"""What a frame must have before it is aggregated, and how it goes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, cast

import narwhals.stable.v2 as nw
from narwhals.exceptions import DuplicateError
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames.door import OUTSIDE, Door, comes_in
from tidytape.frames.sources import missing

__all__ = [
    "BUCKET",
    "INSTRUMENT",
    "READABLE",
    "are_apart",
    "at_the_door",
    "closed",
    "in_sql",
    "listed",
    "opened",
    "require",
    "wrapped",
]

INSTRUMENT = ("exchange", "raw_symbol")
"""Columns that name one instrument."""

BUCKET = "__bucket"
"""Working name of the bucket start, while ``timestamp`` is still the event's own time."""

READABLE: Final = "numbers, texts, flags or times"
"""What a column must hold to be read."""

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]
P = ParamSpec("P")


def wrapped(
    native: Any,
    *,
    parameter: str = "frame",
    kinds: str = "a frame, eager or lazy, of an engine Narwhals knows",
) -> Frame:
    """Return the native frame as a Narwhals frame; QueryError unless it is one whose columns each have a name."""
    try:
        frame: Frame = nw.from_native(native)
    except TypeError:
        kind = f"{type(native).__module__}.{type(native).__qualname__}"
        raise QueryError(parameter, got=kind, expected=kinds) from None
    except DuplicateError:
        raise _name_error(parameter, "two columns of one name") from None
    engine = frame.implementation
    if isinstance(frame, nw.DataFrame) and not (engine.is_polars() or comes_in(native)):
        raise QueryError(parameter, got=f"a frame of {engine.value}", expected=kinds)
    # Of SQL its own: of DuckDB's columns with one name Narwhals tells the last.
    names = list(native.columns) if in_sql(frame) else frame.collect_schema().names()
    if strange := [name for name in names if not isinstance(name, str)]:
        raise _name_error(parameter, f"a column {strange[0]!r}")
    if twice := next((name for place, name in enumerate(names) if name in names[:place]), None):
        raise _name_error(parameter, f"two columns {twice!r}")
    if odd := next(filter(_is_odd, names), None):
        raise _name_error(parameter, f"a column {odd!r}")
    return frame


def in_sql(frame: Frame) -> bool:
    """Return whether a frame lives in an engine of SQL."""
    return frame.implementation.is_duckdb() or frame.implementation.is_spark_like()


def _is_odd(name: str) -> bool:
    """Return whether a name begins as those of working columns do, or is read as a pattern by polars."""
    is_working = name.startswith("__") and not name.endswith(
        "__"
    )  # as of an index that pandas wrote to a file
    return is_working or name == "*" or (name.startswith("^") and name.endswith("$"))


def _name_error(parameter: str, got: str) -> QueryError:
    """Return the error of columns that have no names of their own."""
    expected = "columns of which each has a text as its name, and none like '__name', '^name$' or '*'"
    hint = "rename or drop them; of columns of several levels keep one, or join the levels to one text"
    return QueryError(parameter, got=got, expected=expected, hint=hint)


def at_the_door(
    function: Callable[Concatenate[IntoFrameT, P], IntoFrameT],
) -> Callable[Concatenate[IntoFrameT, P], IntoFrameT]:
    """Return the function for frames of pandas and pyarrow, too: it is given polars, and answers with their kind."""

    @wraps(function)
    def at_door(frame: IntoFrameT, /, *args: Any, **kwargs: Any) -> IntoFrameT:
        door = _door_of(frame)
        others = {name: _inside(value) for name, value in kwargs.items()}
        result = function(_inside(frame, door), *map(_inside, args), **others)
        return result if door is None else door.back(cast("Any", result))

    return cast("Callable[Concatenate[IntoFrameT, P], IntoFrameT]", at_door)


def _door_of(value: Any) -> Door[Any] | None:
    """Return the door of a frame of pandas or pyarrow; None for anything else."""
    if not comes_in(value):
        return None
    wrapped(value)
    return Door.of(value)


def _inside(value: Any, door: Door[Any] | None = None) -> Any:
    """Return a frame of pandas or pyarrow as polars, and anything else as it is."""
    door = door or _door_of(value)
    return value if door is None else door.frame


def opened(native: Any, needed: Iterable[str]) -> Frame:
    """Return the native frame as a Narwhals frame; an error unless it has every needed column, and can read it."""
    frame, needed = wrapped(native), list(needed)
    schema = frame.collect_schema()
    require(needed, schema.names())
    if name := next((name for name in needed if schema[name] == OUTSIDE), None):
        raise QueryError("frame", got=f"a column {name!r} of mixed objects or the like", expected=READABLE)
    return frame


def require(names: Iterable[Any], available: Sequence[str], *, also: Iterable[str] = ()) -> None:
    """Raise MissingColumnError unless all of these are names of columns that there are.

    The error suggests what returns a frame with all of them, and with the columns ``also``, which are not checked.
    """
    names = list(names)
    # Of what is no text there is no column, and some of it cannot be looked for.
    if strange := [name for name in names if not isinstance(name, str)]:
        raise MissingColumnError(strange, available=available)
    if absent := [name for name in dict.fromkeys(names) if name not in available]:
        raise missing(absent, needed=[*names, *also], available=available)


def are_apart(names: Sequence[Any], taken: Iterable[Any]) -> bool:
    """Return whether each of these names is there once and none is taken; of texts alone, for there may be others."""
    texts = [name for name in names if isinstance(name, str)]
    return len(set(texts)) == len(texts) and not any(name in texts for name in taken if isinstance(name, str))


def listed(got: Any) -> list[Any]:
    """Return one name of a column, or several, as a list of what they are."""
    try:
        return [got] if isinstance(got, str | bytes) else list(got)
    except TypeError:
        return [got]


def closed(frame: Frame, *, like: IntoFrameT) -> IntoFrameT:
    """Return the native frame, collected if ``like`` is one in memory."""
    if isinstance(frame, nw.LazyFrame) and nw.dependencies.is_polars_dataframe(like):
        frame = frame.collect()
    return cast("IntoFrameT", frame.to_native())
