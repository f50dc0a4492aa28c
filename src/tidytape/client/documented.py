"""The sections of a docstring that follow from facts: parameters from the signature, columns from the schema.

A method's own docstring says what is only true of it; the decorator adds the rest, so that no description stands
twice and none can differ from what it describes.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from itertools import takewhile
from typing import Any, TypeVar

from tidytape.catalogue import COVERAGE
from tidytape.client.parameters import PARAMETERS, Parameter
from tidytape.errors import TidytapeError, did_you_mean
from tidytape.schema import Schema

__all__ = ["as_question", "checked", "documented", "outward", "parameters_of", "prose_of"]

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

_WIDTH = 100
_SECTIONS = ("Parameters", "Returns", "Raises", "See Also", "Notes", "Examples")
_HEADING = re.compile(rf"^({'|'.join(_SECTIONS)})\n-+\n", re.MULTILINE)

_RAISES = {
    "QueryError": "If the request cannot be right; nothing was sent or charged.",
    "ServiceError": "If the service gives no answer in time.",
    "DecodeError": "If the answer is not what the contract says, is of something else, or is longer than ``max_body``.",
    "IncompleteDataError": "If a row came twice with different values.",
}

_described: dict[object, Mapping[str, Parameter]] = {}


def documented(
    returns: Schema | None = None, /, *, raises: Mapping[str, str] = _RAISES, **own: str
) -> Callable[[F], F]:
    """Return a decorator that completes the docstring of a client's method.

    Parameters
    ----------
    returns : Schema, optional
        Shape of the frame it returns; without one the method's docstring has the section itself.
    raises : mapping of str to str
        Errors, and when they are raised.
    **own : str
        What a parameter of this method does, where it is not what `PARAMETERS` says.

    Returns
    -------
    callable
        It returns the method with that docstring, `checked`.

    Raises
    ------
    KeyError
        If a parameter of the method is described nowhere.
    """

    def completed(method: F) -> F:
        parameters = {
            name: Parameter(_kind(name, one.annotation), own.get(name, PARAMETERS[name].text))
            for name, one in inspect.signature(method).parameters.items()
            if name != "self"
        }
        if method.__doc__ is not None:  # python -OO has none
            sections = _sections(method.__doc__)
            if parameters:
                sections["Parameters"] = "\n".join(_entries(method, parameters))
            if returns is not None:
                sections["Returns"] = "\n".join(_shape(returns, groups="group_by" in parameters))
            sections["Raises"] = "\n".join(f"{name}\n{_indented(text)}" for name, text in raises.items())
            method.__doc__ = _joined(sections)
        complete = checked()(method)
        _described[complete] = parameters
        return complete

    return completed


def outward(error: TidytapeError) -> TidytapeError:
    """Return an error as it leaves the library: it says all that there is to say, so it leads to nothing inside.

    Raise it outside of the ``except`` that caught it, so that what the caller handles at the time is its only context.
    """
    error.__cause__ = error.__context__ = None
    error.__suppress_context__ = False
    return error.with_traceback(None)


def checked(name: str | None = None, /) -> Callable[[F], F]:
    """Return a decorator: of wrong arguments a method says what its caller can know, its name and what was meant.

    Every `TidytapeError` that the method raises is shown without the frames inside the library, by `outward`.

    Parameters
    ----------
    name : str, optional
        What the method is called by; its own name if left out.

    Returns
    -------
    callable
        The method it gives has the same signature, and raises TypeError.
    """

    def check(method: F) -> F:
        signature = inspect.signature(method)

        @wraps(method)
        def calling(*args: Any, **arguments: Any) -> Any:
            try:
                signature.bind(*args, **arguments)
            except TypeError as error:
                raise TypeError(
                    f"{name or method.__name__}(): {_wrong(error, signature, arguments)}"
                ) from None
            try:
                return method(*args, **arguments)
            except TidytapeError as error:
                failure = error
            raise outward(failure)

        return calling  # type: ignore[return-value]

    return check


def _wrong(error: TypeError, signature: inspect.Signature, arguments: Mapping[str, Any]) -> str:
    """Say what is wrong with arguments: one that there is not, or what `inspect` says."""
    known = [name for name in signature.parameters if name != "self"]
    for name in arguments:
        if name not in known:
            return f"no argument {name!r}; " + (did_you_mean(name, known) or f"known: {', '.join(known)}")
    return "all arguments are given by name" if "positional" in str(error) else str(error)


def as_question(method: Callable[..., R], /) -> Callable[..., R]:
    """Return a documented method as one that fetches nothing: the same call, documented as the question that it is.

    Parameters
    ----------
    method : callable

    Returns
    -------
    callable
        Of the same name and signature.
    """

    @wraps(method)
    def asking(self: Any, *args: Any, **arguments: Any) -> R:
        return method(self, *args, **arguments)

    if method.__doc__ is not None:
        sections = _sections(method.__doc__)
        name = method.__name__
        sections[""] = (
            f"Say what ``{name}`` would fetch; nothing is sent.\n\n"
            + _filled(
                "What is returned is for ``plan``, which tells what it would cost, and for ``fetch``, ``to_parquet`` "
                f"and ``iter_frames``, which send it. This is the documentation of ``client.{name}``:"
            )
            + f"\n\n{sections['']}"
        )
        sections["Returns"] = "Wanted\n" + _indented(
            "The requests, and the shape of the frame that fetching gives."
        )
        sections["Raises"] = f"QueryError\n{_indented(_RAISES['QueryError'])}"
        del sections["Examples"]
        asking.__doc__ = _joined(sections)
    return asking


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def parameters_of(method: Callable[..., Any]) -> Mapping[str, Parameter]:
    """Return what the parameters of a documented method are, by name, in the order of its signature.

    Examples
    --------
    >>> from tidytape.client import Client
    >>> parameters_of(Client.skew)["tenor"].kind
    'str'
    """
    return _described[method]


def prose_of(method: Callable[..., Any]) -> str:
    """Return what the docstring of a method says before its first section; nothing where docstrings are left out.

    Examples
    --------
    >>> from tidytape.client import Client
    >>> prose_of(Client.coins)
    'List the base assets.'
    """
    return _sections(method.__doc__ or "")[""]


def _kind(name: str, annotation: str) -> str:
    """What a parameter takes; where most methods take several names, some take one."""
    return "str" if annotation.removesuffix(" | None") == "str" else PARAMETERS[name].kind


def _sections(text: str) -> dict[str, str]:
    """Split a docstring at its headings; what comes before the first is under an empty name."""
    before, *rest = _HEADING.split(inspect.cleandoc(text))
    return {"": before.rstrip()} | {
        name: body.rstrip() for name, body in zip(rest[::2], rest[1::2], strict=True)
    }


def _joined(sections: Mapping[str, str]) -> str:
    parts = [sections[""]]
    parts += [f"{name}\n{'-' * len(name)}\n{sections[name]}" for name in _SECTIONS if name in sections]
    return "\n\n".join(parts) + "\n"


def _entries(method: Callable[..., Any], parameters: Mapping[str, Parameter]) -> Iterator[str]:
    signature = inspect.signature(method).parameters
    for name, parameter in parameters.items():
        default = signature[name].default
        kind = parameter.kind
        if default is None:
            kind += ", optional"
        elif default is not inspect.Parameter.empty:
            kind += f", default {default!r}"
        yield f"{name} : {kind}\n{_indented(parameter.text)}"


def _shape(schema: Schema, *, groups: bool) -> Iterator[str]:
    """What a frame is: a row, the key, the order, and each column with its dtype and unit."""
    yield f"frame, {schema.rows}, key ({', '.join(schema.key)})"
    names = list(takewhile(lambda column: column.name in schema.identity, schema.columns))
    rest = schema.columns[len(names) :]
    order = (
        "Sorted by the key, in time as asked. " if "timestamp" in schema.key else "In the service's order. "
    )
    named = f" {', '.join(column.name for column in names)} [categorical], and" if names else ""
    yield _indented(f"{order}Schema {schema.name}:{named}") + "\n"
    for column in rest:
        unit = f" [{column.unit}]" if column.unit else ""
        yield _indented(f"- ``{column.name}`` : {column.dtype}, {column.doc}.{unit}", hanging=2)
    if groups:
        yield _indented(
            f"- ``{COVERAGE.column}`` : float64, with ``group_by``: {COVERAGE.doc}. [{COVERAGE.unit}]",
            hanging=2,
        )


def _indented(text: str, *, hanging: int = 0) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * (4 + hanging), break_on_hyphens=False
    )
