"""A stream as one Arrow IPC stream: each batch is a record batch, with its token in the metadata.

The columns are those of the data type, ``data_until`` [UTC] and ``change``. Categories are text, because a dictionary
would grow. The custom metadata of a record batch has the token, the intervals that are over and the end of the stream,
under ``token``, ``over`` and ``end``; ``over`` and ``end`` are JSON as in a line of a stream.
"""

from __future__ import annotations

from typing import Any

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.ipc

from tidytape.catalogue import Change
from tidytape.schema import wire_schema
from tidytape.wire._arrow import ARROW_END, VERSION, VERSION_KEY
from tidytape.wire._stream import Batch
from tidytape.wire._tidy import DATA_UNTIL
from tidytape.wire._values import written_time

CHANGE = "change"
"""The column with the change of each row."""


class ArrowStream:
    """Writes the batches of one data type.

    Parameters
    ----------
    data_type : str

    Attributes
    ----------
    head, tail : bytes
        Bytes before the first batch, and after the last.

    Examples
    --------
    >>> stream = ArrowStream("TRADE")
    >>> body = stream.head + stream.batch(Batch(token="a")) + stream.tail
    >>> with pa.ipc.open_stream(body) as reader:
    ...     rows, metadata = reader.read_next_batch_with_custom_metadata()
    >>> rows.num_rows, metadata[b"token"]
    (0, b'a')
    """

    def __init__(self, data_type: str) -> None:
        self._data_type = data_type
        dtypes = wire_schema(data_type).polars() | {DATA_UNTIL: pl.Datetime("ns", "UTC"), CHANGE: pl.String()}
        self._dtypes = {
            name: pl.String() if dtype == pl.Categorical else dtype for name, dtype in dtypes.items()
        }
        self._schema = pl.DataFrame(schema=self._dtypes).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
        self._schema = self._schema.with_metadata(
            {b"tidytape.type": data_type.encode(), VERSION_KEY: VERSION}
        )
        self.head, self.tail = self._written(None), ARROW_END

    def batch(self, batch: Batch) -> bytes:
        """Return the message of a batch. [byte]"""
        parts = [
            frame.select(
                (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype).alias(name)
                for name, dtype in self._dtypes.items()
                if name != CHANGE
            ).with_columns(pl.lit(change.value).alias(CHANGE))
            for change in Change
            if (frame := batch.frames.get((self._data_type, change))) is not None
        ]
        rows = pl.concat(parts) if parts else pl.DataFrame(schema=self._dtypes)
        table = rows.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()).cast(self._schema)
        (record,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], self._schema)]
        metadata = {"token": batch.token}
        if batch.over:
            over = {name: written_time(start) for name, start in batch.over.items()}
            metadata["over"] = orjson.dumps(over).decode()
        if batch.end is not None:
            metadata["end"] = orjson.dumps({"code": batch.end[0], "message": batch.end[1]}).decode()
        return self._written(record, metadata)[len(self.head) :]

    def _written(self, record: Any, metadata: dict[str, str] | None = None) -> bytes:
        """Return the bytes of the schema and, if there is one, of a record batch after it."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema) as writer:
            if record is not None:
                writer.write_batch(record, custom_metadata=metadata)
        return sink.getvalue().to_pybytes().removesuffix(ARROW_END)  # type: ignore[no-any-return]  # bytes
