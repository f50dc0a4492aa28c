"""Requests that nobody means well with, as bytes: any number of them, the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from urllib.parse import quote_from_bytes

from tidytape.catalogue import DATA_TYPES, LISTS
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery

T0 = 1_723_161_600

MODELS = {"/v1/points": PointsQuery, "/v1/markets": MarketsQuery, "/v1/usage": None} | {
    f"/v1/{name}": MetaQuery for name in LISTS
}
PLAIN = ("/healthz", "/readyz", "/metrics", "/openapi.json")

# Requests that are right, or that are the tier's to refuse, to be made wrong.
CANDLES = {
    "type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "ALPHA", "rawSymbol": "BTCUSDT", "interval": "MINUTE",
    "from": str(T0), "period": "240",
}  # fmt: skip
GROUP = {"rawSymbol": None, "coin": "BTC", "transform.groupBy.type": "GROUP_BY_TYPE_SUM"}
RIGHT: dict[str, list[dict[str, str | None]]] = {
    "/v1/points": [
        {**CANDLES},
        {**CANDLES, "type": "TRADE_AGG", "gapfill": "true", "sortDirection": "SORT_DIRECTION_DESC"},
        {**CANDLES, "type": "VOLUME_PROFILE_AGG", "blockSize": "0.5", "transform.normalize.quote": "USD"},
        {**CANDLES, "type": "TPO_AGG", "interval": "DAY", "period": "86400", "tpoBlockSizeMinutes": "30"},
        {**CANDLES, "type": "TRADE", "interval": None},
        {**CANDLES, "type": "BLOCK_BOOK_SNAPSHOT_AGG", "maxDepth": "100"},
        {**CANDLES, "type": "TOKEN_SUPPLY_AGG", "exchange": None, "rawSymbol": None, "coin": "BTC"},
        {**CANDLES, **GROUP, "exchange": "BETA"},
        {**CANDLES, "from": str(T0 - 100 * 86_400)},
        {**CANDLES, "period": "6000060"},
    ],
    "/v1/markets": [
        {"coin": "BTC", "pageSize": "10"},
        {"sortCriteria.field": "VOLUME_24H", "distinct": "true"},
    ],
    "/v1/symbols": [{"type": "TRADE_AGG"}],
    "/v1/normalized-symbols": [{"type": "TRADE_AGG"}],
}

NUMBERS = [
    "0", "-1", "-0", "+1", "1.0", "1.5", "1e3", "1e309", "-1e309", "NaN", "nan", "Infinity", "-inf", "0x10", "1_000",
    "1,000", "٣", "१२", "2**63", str(2**31), str(2**32), str(2**53 + 1), str(2**63 - 1), str(2**63), str(-(2**63)),
    str(2**64), str(10**400), "9" * 5000, "0" * 5000 + "1", "1e-400", "0.1", ".", "-", "+", "e", "1e", "1e999999999",
    "4294967295", "4294967296", "1e12", "1e13", "1e-12", "0.000000000001", "3.141592653589793", " 1 ", "1\n", "8h",
    "0ms", "999999999d", "99999999999d",
]  # fmt: skip
WORDS = [
    "", " ", "\t", "\n", "null", "None", "undefined", "true", "True", "TRUE", "1", "yes", "[]", "{}", "[1]",
    "{'a':1}", "'", '"', "`", "\\", "/", "//", "..", "../../etc/passwd", "%2e%2e%2f", "C:\\x", "a\x00b", "\x00",
    "\x1b[31m", "\x7f", "\r\nSet-Cookie: a=b", "a\r\n\r\n<script>", "<script>alert(1)</script>", "' OR 1=1 --",
    "; drop table x", "${jndi:x}", "{{7*7}}", "%s%n%x", "$(id)", "`id`", "x" * 257, "x" * 20_000, "\u202eabc",
    "ab\u200bc", "e\u0301", "\u1e9e", "İ", "ﬃ", "\U0001f600", "\ufeffBTC", "\u2028", "\ud7ff", "\U0010ffff",
    "\u0130" * 300, "BTC\u0000USDT", "\uff22\uff34\uff23", "\u041cINUTE", "*", "^x$", ".*", "(a+)+$", "a" * 200 + "!",
    "minute", "HOUR ", "1M", "1m", "ONE_D", "USD", "SPOT", "BUY", "alpha", "ALPHA", "BETA", "BTC", "ETH", "BTCUSDT",
    "BTC-PERP", "HUGE", "TRADE", "UNKNOWN_TYPE", "TRADE_AGG,TRADE",
]  # fmt: skip
BYTES = [
    b"%", b"%%", b"%f", b"%zz", b"%ff", b"%c0%af", b"%ed%a0%80", b"%f4%90%80%80", b"%00", b"%0d%0a", b"\xff\xfe",
    b"\xc3", b"%u0041", b"+", b"%2B", b"a%26b", b"%3D", b"%C3%28", b"%E2%80%AE",
]  # fmt: skip
NAMES = [
    "", " ", "Type", "TYPE", "type ", "type[]", "type[0]", "types", "__proto__", "constructor", "limit", "a.b.c",
    "from_", "transform", "transform.normalize", "transform[normalize][quote]", "x" * 5000, "\x00", "\u202etype",
    "callback", "é",
]  # fmt: skip
PATHS = [
    b"", b"/", b"*", b"/v1", b"/v1/", b"//v1/points", b"///v1//points", b"/v1//points", b"/v1/points/", b"/V1/points",
    b"/v1/POINTS", b"/v1/./points", b"/v1/x/../points", b"/v1/../v1/points", b"/../etc/passwd", b"/v1/%2e%2e/points",
    b"/v1%2fpoints", b"/v1/points%00", b"/v1/points%20", b"/v1/point%73", b"/v1/%ff%fe", b"/v1/points;x=1",
    b"/v2/points", b"/v1/points.json", b"/v1/nothing", b"http://elsewhere.example/v1/points", b"/v1/" + b"a" * 5000,
    b"/v1/" + b"../" * 500, b"/v1/%0d%0aSet-Cookie:%20a=b", b"/docs", b"/redoc", b"/openapi.yaml", b"/metrics/",
    b"/v1/\xff", b"/v1/[", b"/v1/points#x",
]  # fmt: skip
METHODS = [
    "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "QUERY", "PROPFIND", "get", "Get",
    "GETS", "A" * 300, "M-SEARCH", "!",
]  # fmt: skip
HEADERS: list[tuple[bytes, bytes]] = [
    *[(b"accept", value) for value in (
        b"", b"*", b"*/*", b"text/html", b"application/xml;q=0.9", b"application/vnd.apache.arrow.stream",
        b"application/vnd.apache.arrow.stream;q=0", b"application/vnd.apache.arrow.stream;q=nan", b",,,;;;",
        b"\xff\xfe", b"application/vnd.apache.arrow.stream;q=" + b"9" * 5000, b"a/b," * 5000,
    )],
    *[(b"accept-encoding", value) for value in (
        b"", b"*", b"gzip", b"zstd", b"gzip;q=inf", b"gzip;q=-1", b"gzip;q=1_0", b"zstd;q=nan,gzip", b"identity;q=0",
        b"br", b";q=1", b"gzip," * 5000, b"\xff", b"gzip;q=" + b"1" * 5000,
    )],
    *[(b"if-none-match", value) for value in (
        b"", b"*", b'"', b"W/", b'W/"x"', b'"a",' * 5000, b"\xff", b"W/" * 5000,
    )],
    *[(b"host", value) for value in (
        b"", b"[", b"[::1", b"a:b", b"a:99999999", b"\xff", b"a@b", b"a/b?c#d", b"x" * 5000, b"..",
        b"service, elsewhere",
    )],
    (b"content-length", b"0"), (b"content-type", b"application/json"), (b"transfer-encoding", b"chunked"),
    (b"x-forwarded-for", b"127.0.0.1"), (b"x-forwarded-host", b"elsewhere"), (b"forwarded", b"for=[::1"),
    (b"x-http-method-override", b"DELETE"), (b"range", b"bytes=0-1"), (b"cookie", b"a=" + b"b" * 5000),
    (b"origin", b"null"), (b"authorization", b"Bearer x"), (b"x-request-id", b"mine\x00"),
    (b"expect", b"100-continue"), (b"x-ratelimit-limit", b"1"), (b"upgrade", b"websocket"),
    (b"connection", b"upgrade"), (b"\xff", b"\xff"), (b"", b""),
]  # fmt: skip
KEYS = [
    b"", b" ", b"guess", b"\xff\xfe", b"\x00", b"a" * 5000, "ключ".encode(), b"enterprise-key ", b"Enterprise-Key",
    b"enterprise-key,enterprise-key", b"enterprise-key\x00", b"expired-key",
]  # fmt: skip


@dataclass
class Asked:
    """A request before it is one; it is good but for what is done to it."""

    method: str = "GET"
    path: bytes = b"/v1/points"
    query: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    key: bytes | None = b"enterprise-key"
    body: bytes = b""


def hostile(seed: int, count: int) -> Iterator[Asked]:
    """Yield requests, each wrong in one way or in several."""
    rng = Random(seed)
    for number in range(count):
        yield _long(rng) if number % 250 == 0 else _asked(rng)


def _asked(rng: Random) -> Asked:
    route = rng.choice([*MODELS, "/v1/points", "/v1/points"])
    asked = Asked(path=route.encode(), query=_query(rng, route), key=_key(rng))
    chance = rng.random
    if chance() < 0.08:
        asked.path = rng.choice([*PATHS, *(path.encode() for path in PLAIN)])
    if chance() < 0.06:
        asked.method = rng.choice(METHODS)
    if chance() < 0.3:
        asked.headers = [rng.choice(HEADERS) for _ in range(rng.randint(1, 4))]
    if chance() < 0.05:
        asked.body = rng.choice([b"{}", b"\xff" * 1000, b"type=TRADE", b"x" * 100_000])
    return asked


def _key(rng: Random) -> bytes | None:
    chance = rng.random()
    if chance < 0.8:
        return rng.choice([b"enterprise-key", b"enterprise-key", b"basic-key", b"advanced-key"])
    return None if chance < 0.85 else rng.choice(KEYS)


def _query(rng: Random, route: str) -> bytes:
    model = MODELS[route]
    known = list(model.WIRE.values()) if model else ["type"]
    right = rng.choice(RIGHT.get(route, [{}]))
    pairs = [(_quoted(name), _quoted(value)) for name, value in right.items() if value is not None]
    if rng.random() < 0.05:
        pairs = []
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2, 2, 3, 8])):
        name = _quoted(rng.choice(known) if rng.random() < 0.9 else rng.choice(NAMES))
        pair = (name, _value(rng))
        # In its place it is wrong by itself; beside what is right it contradicts it.
        place = [at for at, (other, _) in enumerate(pairs) if other == name]
        if place and rng.random() < 0.7:
            pairs[place[0]] = pair
        else:
            pairs.append(pair)
    rng.shuffle(pairs)
    if pairs and rng.random() < 0.05:
        pairs *= rng.choice([2, 50])
    joined = [name + b"=" + value if rng.random() < 0.99 else name for name, value in pairs]
    return rng.choice([b"&"] * 20 + [b";", b"&&"]).join(joined)


def _value(rng: Random) -> bytes:
    kind = rng.random()
    if kind < 0.4:
        return _quoted(rng.choice(NUMBERS))
    if kind < 0.8:
        return _quoted(rng.choice(WORDS))
    if kind < 0.9:
        return rng.choice(BYTES)
    if kind < 0.95:
        return _quoted(rng.choice(list(DATA_TYPES)))
    return _quoted("".join(chr(rng.choice([rng.randrange(256), rng.randrange(0xD7FF)])) for _ in range(12)))


def _long(rng: Random) -> Asked:
    """A request that is too long, or has far too much in it."""
    pairs = b"&".join(_quoted(name) + b"=" + _quoted(value) for name, value in CANDLES.items())
    return Asked(
        path=rng.choice(
            [b"/v1/points", b"/v1/markets", b"/v1/coins", b"/v1/usage", b"/v1/nothing", b"/healthz"]
        ),
        query=rng.choice(
            [
                b"a" * (1 << 20),
                pairs + b"&exchange=A" * 100_000,
                pairs + b"&exchange=A" * 5_000,
                b"&".join(b"exchange=E%d" % number for number in range(5_000)),
                b"&" * (1 << 16),
                b"&" * ((1 << 16) - 100),
                b"=&" * 30_000,
                pairs + b"&" + b"x" * 60_000 + b"=1",
                pairs + b"&coin=" + b"%ff" * 20_000,
                pairs + b"&interval=" + b"M" * 60_000,
                b"type=TRADE_AGG&" * 4_000,
            ]
        ),
    )


def _quoted(text: str) -> bytes:
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="").encode()
