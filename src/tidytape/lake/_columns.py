"""What a stored table has beside the columns that this release knows, and what may be done with it.

An older release stored fewer columns: an absent column that may be null reads as null. A newer release stored more: a
column that this release does not know is kept, and null in the rows that this release writes. What cannot be kept so
is refused by name, before anything is written: an unknown column that may not be null, a known column of another dtype,
a format of the table that this release does not write.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from deltalake import DeltaTable, Field
from deltalake.schema import ArrayType, PrimitiveType

from tidytape.errors import LakeError
from tidytape.lake.table import Table
from tidytape.schema import Column, Dtype

_DELTA: Mapping[Dtype, PrimitiveType | ArrayType] = {
    "string": PrimitiveType("string"),
    "float64": PrimitiveType("double"),
    "int64": PrimitiveType("long"),
    "bool": PrimitiveType("boolean"),
    "list[string]": ArrayType(PrimitiveType("string")),
    "list[float64]": ArrayType(PrimitiveType("double")),
}

_WRITER = 2  # the version in which this release makes tables; from 7 on a table lists its features instead
_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz", "v2Checkpoint"})
"""Features that change nothing in the files that this release writes."""


def field_of(column: Column) -> Field:
    """Return a column as Delta Lake describes it."""
    return Field(
        column.name,
        _DELTA[column.dtype],
        nullable=column.nullable,
        metadata={"comment": column.doc, "unit": column.unit},
    )


def absent(delta: DeltaTable, table: Table) -> list[Column]:
    """Return the columns of a table that are not stored."""
    stored = {field.name for field in delta.schema().fields}
    return [column for column in table.columns if column.name not in stored]


def unknown(delta: DeltaTable, table: Table) -> list[Field]:
    """Return the stored columns that this release does not know."""
    return [field for field in delta.schema().fields if field.name not in table.names]


def arrow_types(delta: DeltaTable, table: Table) -> dict[str, pa.DataType]:
    """Return the Arrow type of each unknown column, by its name."""
    names = [field.name for field in unknown(delta, table)]
    if not names:
        return {}
    schema = pa.schema(delta.schema().to_arrow())
    return {name: schema.field(name).type for name in names}


def require_readable(delta: DeltaTable, table: Table) -> None:
    """Raise LakeError if a column has another dtype than this release expects, or one is absent that never is null."""
    for column in absent(delta, table):
        if not column.nullable:
            raise _refused(delta, table, f"has no column {column.name!r}: not a table of this library")
    stored = {field.name: field.type for field in delta.schema().fields}
    for column in table.columns:
        expected = _DELTA[column.dtype]
        if column.name in stored and not _is_alike(stored[column.name], expected):
            raise _refused(
                delta,
                table,
                f"column {column.name!r} is {_name(stored[column.name])}, this release expects {_name(expected)}; "
                "a newer release of tidytape may read it",
            )


def require_rewritable(delta: DeltaTable, table: Table) -> None:
    """Raise LakeError if this release cannot put the rows of a table into other files without loss.

    It cannot where `require_readable` refuses, and where the table has a format that this release does not write.
    """
    require_readable(delta, table)
    protocol = delta.protocol()
    features = sorted(set(protocol.writer_features or []) - _FEATURES)
    if features or (protocol.min_writer_version > _WRITER and protocol.writer_features is None):
        what = features[0] if features else f"writer version {protocol.min_writer_version}"
        raise _refused(delta, table, f"has the format {what!r}, which this release does not write")


def require_writable(delta: DeltaTable, table: Table) -> None:
    """Raise LakeError if this release cannot add rows to a table.

    It cannot where `require_rewritable` refuses, and where a column may not be null that this release does not know.
    """
    require_rewritable(delta, table)
    for field in unknown(delta, table):
        if not field.nullable:
            raise _refused(
                delta,
                table,
                f"column {field.name!r} may not be null, and this release does not know it; a newer release of "
                "tidytape can write to it",
            )


def _is_alike(stored: object, expected: PrimitiveType | ArrayType) -> bool:
    if isinstance(stored, ArrayType) and isinstance(expected, ArrayType):
        return bool(stored.element_type == expected.element_type)
    return bool(stored == expected)


def _name(dtype: object) -> str:
    return str(getattr(dtype, "type", dtype))


def _refused(delta: DeltaTable, table: Table, what: str) -> LakeError:
    return LakeError(f"table {table.name!r}: {what}", path=delta.table_uri)
