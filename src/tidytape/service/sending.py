"""The response whose body is a parcel; apart from `tidytape.service.parcels`, so that workers load no web framework."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tidytape.service.parcels import Parcel

__all__ = ["ParcelResponse"]


class ParcelResponse(Response):
    """A response whose body is a parcel. It is read as fast as the caller takes it, and never held whole."""

    def __init__(self, parcel: Parcel, *, headers: dict[str, str], media_type: str) -> None:
        super().__init__(headers={**headers, "Content-Length": str(parcel.size)}, media_type=media_type)
        self._parcel = parcel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for part in self._parcel.parts():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
