"""The service over gRPC: the keys, tiers, weights, answers, streams and refusals of HTTP.

The server lives in the event loop of the app, which starts it and ends it. A call and a request share everything behind
the gate: `Points` of `_answering.py` and `Lists` of `http/_discovery.py`. The extra ``grpc`` installs what
this module imports, so nothing imports it before gRPC is to be served.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, TypeVar

import grpc
import grpc.aio
import orjson
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from tidytape.catalogue import ERROR_STATUS
from tidytape.service._accounts import Account, Accounts, rate_limit_headers
from tidytape.service._answering import Points
from tidytape.service._buckets import UnreachableError
from tidytape.service._refusals import PAUSE, RefusedError, refused
from tidytape.service.http._discovery import Lists
from tidytape.service.http._gate import LONGEST_TARGET
from tidytape.service.http._monitoring import Metrics
from tidytape.service.proto import market_data_pb2 as pb
from tidytape.service.stream._part import MESSAGES
from tidytape.service.stream._sending import deliveries, opened_reader
from tidytape.service.stream._streams import Streams
from tidytape.service.work._computing import PROTO_MIME

R = TypeVar("R")
_log = logging.getLogger("tidytape.service")
_access_log = logging.getLogger("tidytape.access")

_SERVICE = pb.DESCRIPTOR.services_by_name["MarketData"]
_LISTS = {
    "GetMarkets": "markets",
    "GetTypes": "types",
    "GetExchanges": "exchanges",
    "GetCategories": "categories",
    "GetCoins": "coins",
    "GetSymbols": "symbols",
    "GetNormalizedSymbols": "normalized-symbols",
    "GetTenors": "tenors",
    "GetBlockSizes": "block-sizes",
    "GetUsage": "usage",
}
"""The list that each method answers with."""

_BY_STATUS = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.UNIMPLEMENTED,
    405: grpc.StatusCode.UNIMPLEMENTED,
    410: grpc.StatusCode.FAILED_PRECONDITION,
    414: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    431: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
STATUS: Mapping[str, grpc.StatusCode] = MappingProxyType(
    {code: _BY_STATUS[status] for code, status in ERROR_STATUS.items()}
)
"""The status of gRPC for each error code."""

PATIENCE = 30.0
"""How long a caller may take to accept one batch before its stream ends. [s]"""

_LONGEST_DETAILS = 2_000  # characters of a message; all metadata together are bounded by the client
_GRACE = 30.0  # seconds that calls may take to their end when the service ends
_MOST_CALLS = 1_000  # at once, of all callers
_MOST_OF_KEY = 250  # the same of one key, without streams: its tier says how many of these it may hold
_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.so_reuseport", 0),  # two services on one port would share its calls
    ("grpc.max_receive_message_length", LONGEST_TARGET),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 15),
    ("grpc.absolute_max_metadata_size", 1 << 15),
    ("grpc.max_concurrent_streams", _MOST_CALLS),  # of one connection
    # A caller that has vanished without a word is found by pings, and may ping as often itself.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_connection_idle_ms", 300_000),
)


def params_of(message: Message, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield what a request says as the parameters of a URL, which `tidytape.query` reads.

    Examples
    --------
    >>> request = pb.PointRequest(coin=["BTC"], side="BUY", transform={"normalize": {"quote": "USD"}})
    >>> dict(params_of(request))
    {'coin': 'BTC', 'side': 'BUY', 'transform.normalize.quote': 'USD'}
    """
    for field, value in message.ListFields():
        name = prefix + field.name
        if field.message_type is not None:
            yield from params_of(value, f"{name}.")
        elif field.is_repeated:
            yield from ((name, _written(field, member)) for member in value)
        else:
            yield name, _written(field, value)


def _written(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else str(known.name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(Decimal(repr(value)), "f") if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Calls:
    """What answers a call.

    Attributes
    ----------
    points : Points
    lists : Lists
    streams : Streams
    accounts : Accounts
    metrics : Metrics
    key_header : str
        Name of the metadata that carry the key, in any case.
    open : Counter
        How many calls that are no streams each key has open.
    """

    points: Points
    lists: Lists
    streams: Streams
    accounts: Accounts
    metrics: Metrics
    key_header: str
    open: Counter[str] = dataclasses.field(default_factory=Counter)

    def count(self, key: str, context: Any) -> None:
        """Count a call until it ends.

        Raises
        ------
        RefusedError
            If its key has so many that few would be left to others: beyond the bound of all, gRPC refuses any caller.
        """
        if self.open[key] >= _MOST_OF_KEY:
            message = f"the key has {_MOST_OF_KEY} open calls; try again once some of them are answered"
            raise RefusedError("UNAVAILABLE", message, retry_after=PAUSE)
        self.open[key] += 1
        context.add_done_callback(lambda _: self.open.subtract([key]))

    async def get_points(
        self, method: Any, request: Message, account: Account, facts: dict[str, object], context: Any
    ) -> bytes:
        """Return the message PointResponse."""
        prepared = await self.points.prepare(params_of(request), account, facts, lambda query: PROTO_MIME)
        answer = await self.points.answer(prepared, facts, coding="identity", wait=_until_cancelled)
        assert answer is not None  # whoever hangs up cancels the call
        context.add_done_callback(lambda _: self.points.sent(prepared))
        return b"".join(answer.parts())

    async def stream_points(
        self, method: Any, request: Message, account: Account, facts: dict[str, object], context: Any
    ) -> None:
        """Send messages PointBatch until the service ends the stream or the caller hangs up."""
        params = params_of(request)
        reader = await opened_reader(self.streams, params, account, facts, lambda query: MESSAGES)
        try:
            # At once, for the first batch may come much later.
            await context.send_initial_metadata(await _metadata(account, facts))
            facts["status"] = 200
            async for delivery in deliveries(reader, facts):
                message = b"".join(await reader.texts(delivery))
                async with asyncio.timeout(PATIENCE):
                    await context.write(message)
        except TimeoutError:
            self.streams.counts["cut"] += 1
            self.streams.drop(reader)
            # The status waits behind what the caller does not accept. So long the stream counts as one of the key's,
            # which bounds what gRPC keeps for callers who accept nothing.
            details = "a batch was not accepted; resume with the last token"
            await context.abort(STATUS["TIMEOUT"], details, (("error-code", "TIMEOUT"),))
        finally:
            self.streams.leave(reader, account)

    async def get_list(
        self, method: Any, request: Message, account: Account, facts: dict[str, object], context: Any
    ) -> bytes:
        """Return the message of a list."""
        body = await self.lists.body(_LISTS[method.name], params_of(request), account, facts)
        # The names of the message are those of the JSON.
        return bytes(json_format.Parse(body, _class_of(method.output_type)()).SerializeToString())

    def account(self, context: Any, facts: dict[str, object]) -> Account:
        """Return the caller's account.

        Raises
        ------
        RefusedError
            If the call has no valid key.
        """
        secret = dict(context.invocation_metadata() or ()).get(self.key_header.lower())
        account = self.accounts.of(secret) if isinstance(secret, str) and secret else None
        if account is None:
            fault = "an unknown or expired key" if secret else "no key"
            raise RefusedError("INVALID_API_KEY", f"{self.key_header}: got {fault}, expected a valid API key")
        facts.update(key=account.key.id, tier=account.tier.name)
        return account


async def _metadata(account: Account, facts: dict[str, object]) -> tuple[tuple[str, str], ...]:
    """Return what HTTP has in its headers: the id of the request, and the caller's budget."""
    state = account.state or await account.look()
    budget = ((name.lower(), value) for name, value in rate_limit_headers(state).items())
    return ("x-request-id", str(facts["id"])), *budget


async def _until_cancelled(work: Coroutine[Any, Any, R], /) -> R | None:
    """Wait for work: gRPC cancels a call whose caller has hung up or whose deadline is over."""
    return await work


def _class_of(descriptor: Any) -> Any:
    return getattr(pb, descriptor.name)


@dataclass(frozen=True, slots=True)
class _Call:
    """One method: what surrounds each of its calls."""

    calls: Calls
    method: Any
    respond: Callable[[Any, Message, Account, dict[str, object], Any], Awaitable[bytes | None]]

    async def answer(self, body: bytes, context: Any) -> bytes | None:
        """Answer a call, log and count it."""
        began = time.perf_counter()
        facts: dict[str, object] = {"id": secrets.token_hex(8), "method": "gRPC", "status": 0}
        account: Account | None = None
        refusal: RefusedError | None = None
        answer = None
        self.calls.metrics.begun()
        try:
            try:
                account = self.calls.account(context, facts)
                if not self.method.server_streaming:
                    self.calls.count(account.key.id, context)
                answer = await self.respond(self.method, _read(self.method, body), account, facts, context)
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # noqa: BLE001 - every failure gets a status
                refusal = refused(error)
                if refusal is None:
                    _log.exception("request %s failed", facts["id"])
                    message = f"the service failed; request {facts['id']}"
                    refusal = RefusedError("INTERNAL_ERROR", message)
            trailing: tuple[tuple[str, str], ...] = (("x-request-id", str(facts["id"])),)
            if account is not None:
                try:
                    trailing = await _metadata(account, facts)
                except UnreachableError as error:
                    refusal = refused(error)
            if refusal is None:
                facts["status"] = 200
                context.set_trailing_metadata(trailing)
                return answer
            facts["status"] = ERROR_STATUS[refusal.code]
        finally:
            seconds = time.perf_counter() - began
            self.calls.metrics.ended(facts, seconds)
            # Status 0: the caller hung up before the answer.
            _access_log.info(orjson.dumps({**facts, "ms": round(seconds * 1000, 1)}).decode())
        trailing += (("error-code", refusal.code),)
        if refusal.retry_after is not None:
            trailing += (("retry-after", str(refusal.retry_after)),)
        details = refusal.message.encode("utf-8", "replace").decode()[:_LONGEST_DETAILS]
        await context.abort(STATUS[refusal.code], details, trailing)
        raise AssertionError("abort raises")


def _read(method: Any, body: bytes) -> Message:
    try:
        message: Message = _class_of(method.input_type).FromString(body)
    except DecodeError:
        raise RefusedError(
            "INVALID_REQUEST", f"request: got bytes that are no {method.input_type.name}"
        ) from None
    return message


def _handler(calls: Calls) -> Any:
    """Return the handlers of all methods; requests and responses are bytes to gRPC."""
    responders = {"GetPoints": calls.get_points, "StreamPoints": calls.stream_points}

    def of(method: Any) -> Any:
        call = _Call(calls, method, responders.get(method.name, calls.get_list))
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(call.answer)
        return grpc.unary_unary_rpc_method_handler(call.answer)

    methods = {method.name: of(method) for method in _SERVICE.methods}
    return grpc.method_handlers_generic_handler(_SERVICE.full_name, methods)


@asynccontextmanager
async def serving(calls: Calls, address: str) -> AsyncIterator[int]:
    """Serve on an address while the context lasts; yields the port.

    Parameters
    ----------
    calls : Calls
    address : str
        Host and port, ``127.0.0.1:8001``; port 0 takes one that is free.
    """
    server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_MOST_CALLS)
    server.add_generic_rpc_handlers((_handler(calls),))
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(_GRACE)
