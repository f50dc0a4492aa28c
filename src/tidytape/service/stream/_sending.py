"""The part of a stream that HTTP and gRPC share: opening it, sending batches, and writing each batch once."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable

from tidytape.catalogue import StreamEnd
from tidytape.query import StreamQuery
from tidytape.service._accounts import Account
from tidytape.service.stream._reader import Delivery, Reader
from tidytape.service.stream._streams import Streams
from tidytape.wire._stream import Batch

_log = logging.getLogger("tidytape.service")

PATIENCE = 30.0
"""How long a caller may take to accept one batch before its connection is closed. [s]"""


async def opened_reader(
    streams: Streams, params: Iterable[tuple[str, str]], account: Account, facts: dict[str, object]
) -> tuple[Reader, StreamQuery]:
    """Open a stream. The caller of this function calls `Streams.leave` when the stream is over.

    Parameters
    ----------
    streams : Streams
    params : iterable of (str, str)
        The parameters of ``/v1/stream``.
    account : Account
        The caller.
    facts : dict of str to object
        What the log says of the request; the query and its weight are added.

    Raises
    ------
    QueryError, RefusedError, LakeError
        As of `Streams.open`.
    """
    query = StreamQuery.from_params(params)
    facts.update(route="stream", type=",".join(query.type))
    with StreamQuery.named_as_on_wire():
        reader = await streams.open(query, account)
    if reader.weight:
        facts.update(weight=reader.weight)
    return reader, query


async def deliveries(reader: Reader, facts: dict[str, object]) -> AsyncIterator[Delivery]:
    """Yield what a reader sends; a failure ends the stream with a code instead of a broken connection."""
    rows = 0
    try:
        async for delivery in reader.deliveries():
            rows += delivery.batch.rows
            facts["rows"] = rows
            yield delivery
    except Exception:  # noqa: BLE001 - every failure gets a code
        # The log has the reason; the caller gets an id and nothing else.
        number = facts["id"]
        _log.exception("request %s failed", number)
        yield reader.last(StreamEnd.INTERNAL_ERROR, f"the service failed; request {number}")


def written(delivery: Delivery, form: str, write: Callable[[Batch], bytes]) -> bytes:
    """Return the text of a batch without its token, written once for all readers of a feed."""
    sent = delivery.sent
    if sent is None:
        return write(delivery.batch)
    if form not in sent.texts:
        sent.texts[form] = write(delivery.batch)
    return sent.texts[form]  # type: ignore[no-any-return]  # of this form
