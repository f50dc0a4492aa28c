"""``GET /v1/stream``: a stream as chunks of one HTTP answer, lines of JSON or one Arrow stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tidytape.service._accounts import Account
from tidytape.service._responses import get
from tidytape.service.stream._reader import Reader
from tidytape.service.stream._sending import PATIENCE, deliveries, opened_reader, written
from tidytape.service.stream._streams import Streams
from tidytape.service.work._computing import qualities
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._stream import LINES_MIME, opened, with_token
from tidytape.wire._stream_arrow import ArrowStream

_GRACE = 2.0
"""How long a caller has to accept the end of a stream when the service ends. [s]"""


def stream(streams: Streams) -> Route:
    """Return the route."""

    async def answer_stream(request: Request) -> Response:
        account: Account = request.state.account
        facts = request.state.facts
        reader, query = await opened_reader(streams, request.query_params.multi_items(), account, facts)
        is_arrow = len(query.type) == 1 and qualities(request.headers.get("accept", "")).get(ARROW_MIME)
        chunks = _arrow(reader, query.type[0], facts) if is_arrow else _lines(reader, facts)
        return _Chunked(chunks, streams, reader, account, ARROW_MIME if is_arrow else LINES_MIME)

    return get("/v1/stream", answer_stream)


async def _lines(reader: Reader, facts: dict[str, object]) -> AsyncIterator[bytes]:
    async for delivery in deliveries(reader, facts):
        yield with_token(written(delivery, "lines", opened), delivery.batch)


async def _arrow(reader: Reader, data_type: str, facts: dict[str, object]) -> AsyncIterator[bytes]:
    written = ArrowStream(data_type)
    yield written.head
    async for delivery in deliveries(reader, facts):
        yield written.batch(delivery.batch)
    yield written.tail


class _Chunked(Response):
    """A response that sends each chunk as soon as it is there, and ends if the caller accepts one too slowly."""

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        streams: Streams,
        reader: Reader,
        account: Account,
        media_type: str,
    ) -> None:
        self._chunks, self._streams, self._reader, self._account = chunks, streams, reader, account
        self.status_code, self.media_type, self.background = 200, media_type, None
        # Proxies that collect an answer before they pass it on would hold back what is live.
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Vary": "Accept"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer until it ends, the caller hangs up, or the caller accepts no more."""
        gone, sending = asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(self._send(send))
        try:
            tasks = {gone, sending}
            while not (gone.done() or sending.done()):
                last = self._streams.is_closing  # a caller who still does not read then is cut off
                await asyncio.wait(tasks, timeout=_GRACE, return_when=asyncio.FIRST_COMPLETED)
                if last:
                    break
            if sending.done():
                sending.result()
        finally:
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)
            self._streams.leave(self._reader, self._account)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for chunk in self._chunks:
                async with asyncio.timeout(PATIENCE):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            self._streams.counts["cut"] += 1
            raise


async def _gone(receive: Receive) -> None:
    """Wait until the caller has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass
