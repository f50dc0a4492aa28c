"""How many fields of a body the catalogue does not know.

Some become columns. A body of little else would make a frame of more columns than rows can pay for: each costs time and
memory of its own in every layer below, so there is a bound, and it is looked at before a column is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import pyarrow as pa

from tidytape.wire._faults import Fault

MOST_UNKNOWN = 256
"""How many different fields a body may have beside the documented ones, those inside unknown fields included."""


def check_unknown(number: int) -> None:
    """Raise Fault if these are more unknown fields than a frame takes."""
    if number > MOST_UNKNOWN:
        raise Fault(f"there are more than {MOST_UNKNOWN} different unknown fields, and a frame takes no more")


def unknown_fields(values: Iterable[Any], known: Any = None) -> int:
    """Count the different fields, by path, that objects have and their type has not; stop beyond what a frame takes.

    Parameters
    ----------
    values : iterable of object
        As a JSON parser made them.
    known : pyarrow.DataType, optional
        The type they should have. Without one, nothing in them is known.

    Examples
    --------
    >>> unknown_fields([{"a": 1, "b": {"c": 2}}, {"b": {"c": 3, "d": [{"e": 4}]}}])
    5
    >>> unknown_fields([{"a": 1, "b": 2}], pa.struct({"a": pa.float64()}))
    1
    """
    number = 0
    # A queue, not recursion: a hostile body decides the depth.
    queue = [(list(values), known)]
    while queue and number <= MOST_UNKNOWN:
        values, known = queue.pop()
        arrays = [value for value in values if type(value) is list]
        if arrays:
            inner = known.value_type if known is not None and pa.types.is_list(known) else None
            queue.append((list(chain.from_iterable(arrays)), inner))
        objects = [value for value in values if type(value) is dict]
        fields = {field.name: field.type for field in known} if _is_struct(known) else {}
        queue += [
            ([one[name] for one in objects if name in one], type_)
            for name, type_ in fields.items()
            if _has_fields(type_)
        ]
        unknown = set().union(*objects) - fields.keys()
        number += len(unknown)
        if unknown:
            queue += [(found, None) for found in _values_of(unknown, objects)]
    return number


def _values_of(names: set[str], objects: list[dict[str, Any]]) -> Iterable[list[Any]]:
    """Return the values of each name."""
    found: dict[str, list[Any]] = {name: [] for name in names}
    for one in objects:
        # Of the two the smaller is gone through, so that rare names of many objects cost no more than themselves.
        for name in one.keys() & names:
            found[name].append(one[name])
    return found.values()


def _is_struct(known: Any) -> bool:
    return known is not None and bool(pa.types.is_struct(known))


def _has_fields(known: Any) -> bool:
    return _is_struct(known.value_type if pa.types.is_list(known) else known)
