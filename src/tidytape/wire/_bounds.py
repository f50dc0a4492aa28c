"""How much a body may become.

A few bytes can ask for much memory: ``{},`` is a series with all the columns of one. The bounds lie above what a
service of the contract sends, and are looked at before the memory is taken.
"""

from __future__ import annotations

from tidytape.wire._faults import Fault

MOST_SERIES = 2**17
"""How many series a body may have, those of other types and without points included."""

MOST_CELLS = 2**29
"""How many cells, rows times columns, a frame may have."""

_FREE_CELLS = 2**24
# A level in the fewest bytes, "55,1,0,", is of 15 cells.
_CELLS_PER_BYTE = 2.2
_FREE_CONTAINERS = 2**20
_BYTES_PER_CONTAINER = 8


def check_containers(body: bytes) -> None:
    """Raise Fault if a body is of little but brackets: a parser makes an object of each, of many times its length."""
    number = body.count(b"{") + body.count(b"[")
    if number > _FREE_CONTAINERS and number * _BYTES_PER_CONTAINER > len(body):
        raise Fault(f"there are {number} objects and arrays in {len(body)} bytes, so next to nothing in each")


def check_series(number: int) -> None:
    """Raise Fault if these are more series than a body may have."""
    if number > MOST_SERIES:
        raise Fault(f"there are {number} series, and a body may have {MOST_SERIES}")


def check_cells(rows: int, columns: int, size: int) -> None:
    """Raise Fault if a frame has more cells than a body of this size can mean. [byte]

    Examples
    --------
    >>> check_cells(1000, 20, 50_000)
    >>> check_cells(10**9, 20, 10**10)
    Traceback (most recent call last):
    ...
    tidytape.wire._faults.Fault: there would be 1000000000 rows of 20 columns, and a frame takes 536870912 cells
    """
    most = _most_cells(size)
    if rows * columns > most:
        raise Fault(f"there would be {rows} rows of {columns} columns, and a frame takes {most} cells")


def check_repeated(number: int) -> None:
    """Raise Fault if these are more values than lists may have that every level of their point repeats.

    A point with as many levels as values in its lists makes the square of that.
    """
    if number > MOST_CELLS:
        raise Fault(
            f"there would be {number} values in lists that each level repeats, and a frame takes {MOST_CELLS} cells"
        )


def check_sparse(body: bytes, unknown: int) -> None:
    """Raise Fault if unknown fields would make far more cells than the body has values.

    A field that only one object has takes a cell of every other too, and there are no more rows than objects.
    """
    objects, most = body.count(b"{"), _most_cells(len(body))
    if objects * unknown > most:
        raise Fault(
            f"there are {unknown} different unknown fields in {objects} objects; a frame takes {most} cells"
        )


def _most_cells(size: int) -> int:
    return min(MOST_CELLS, max(_FREE_CELLS, int(_CELLS_PER_BYTE * size)))
