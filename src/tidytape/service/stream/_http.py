"""``GET /v1/stream``: a stream as chunks of one HTTP answer, lines of JSON or one Arrow stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tidytape.query import StreamQuery
from tidytape.service._accounts import Account
from tidytape.service._responses import (
    GONE,
    HALF_CLOSED,
    get,
    gone_caller,
    params_of,
    while_connected,
)
from tidytape.service.stream._part import ARROW, LINES
from tidytape.service.stream._reader import Reader
from tidytape.service.stream._sending import deliveries, opened_reader
from tidytape.service.stream._streams import Streams
from tidytape.service.work._computing import qualities
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._stream import LINES_MIME
from tidytape.wire._stream_arrow import ArrowStream

_GRACE = 2.0
"""How long a caller has to accept the end of a stream when the service ends. [s]"""


def stream(streams: Streams) -> Route:
    """Return the route."""

    async def answer_stream(request: Request) -> Response:
        account: Account = request.state.account
        facts, accepted = request.state.facts, qualities(request.headers.get("accept", ""))

        def form_of(query: StreamQuery) -> str:
            return ARROW if len(query.type) == 1 and accepted.get(ARROW_MIME) else LINES

        opening = opened_reader(streams, params_of(request), account, facts, form_of)
        reader = await while_connected(request, opening)
        if reader is None:
            return Response(status_code=GONE)
        media_type = ARROW_MIME if reader.form == ARROW else LINES_MIME
        return _Chunked(_chunks(reader, facts), streams, reader, account, media_type)

    return get("/v1/stream", answer_stream)


async def _chunks(reader: Reader, facts: dict[str, object]) -> AsyncIterator[bytes]:
    written = ArrowStream(reader.feed.query.type[0]) if reader.form == ARROW else None
    if written is not None:
        yield written.head
    async for delivery in deliveries(reader, facts):
        for part in await reader.texts(delivery):
            yield part
    if written is not None:
        yield written.tail


class _Chunked(Response):
    """A response that sends each chunk as soon as it is there."""

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
        gone, sending = asyncio.ensure_future(gone_caller(receive)), asyncio.ensure_future(self._send(send))
        try:
            tasks = {gone, sending}
            while not (gone.done() or sending.done()):
                if scope.get("state", {}).get(HALF_CLOSED):
                    self._reader.beat_every(_GRACE / 2)  # only a caller who is still there accepts it
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
        async for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
