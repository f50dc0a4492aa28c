"""The part of a stream that HTTP and gRPC share: opening it, and a code for every failure."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable

from tidytape.catalogue import StreamEnd
from tidytape.query import StreamQuery
from tidytape.service._accounts import Account
from tidytape.service.stream._reader import Delivery, Reader
from tidytape.service.stream._streams import Streams

_log = logging.getLogger("tidytape.service")


async def opened_reader(
    streams: Streams,
    params: Iterable[tuple[str, str]],
    account: Account,
    facts: dict[str, object],
    form_of: Callable[[StreamQuery], str],
) -> Reader:
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
    form_of : callable
        Returns the form of the batches of a query, see `tidytape.service.stream._part`.

    Raises
    ------
    QueryError, RefusedError, LakeError
        As of `Streams.open`.
    """
    query = await streams.looks.run(account.key.id, StreamQuery.from_params, params)
    facts.update(route="stream", type=",".join(query.type))
    with StreamQuery.named_as_on_wire():
        return await streams.open(query, account, facts, form=form_of(query))


async def deliveries(reader: Reader, facts: dict[str, object]) -> AsyncIterator[Delivery]:
    """Yield what a reader sends; a failure ends the stream with a code instead of a broken connection."""
    rows = 0
    try:
        async for delivery in reader.deliveries():
            rows += delivery.rows
            facts["rows"] = rows
            yield delivery
    except Exception:  # noqa: BLE001 - every failure gets a code
        # The log has the reason; the caller gets an id and nothing else.
        number = facts["id"]
        _log.exception("request %s failed", number)
        yield reader.last(StreamEnd.INTERNAL_ERROR, f"the service failed; request {number}")
