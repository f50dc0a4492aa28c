"""Bodies of JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from client.hostile.case import (
    GOOD,
    ID,
    KEY,
    OK,
    RIGHT,
    TIMES,
    VALUES,
    Answer,
    Case,
    body,
    column,
    empty,
    in_json,
    point,
    right_and,
    series,
)
from tidytape.errors import DecodeError, IncompleteDataError, TransportError

SIDED, PROFILE = "TRADE_AGG", "VOLUME_PROFILE_AGG"


def bodies() -> Iterator[Case]:
    broken = {
        "blank": b" \r\n\t",
        "null": b"null",
        "an array": b"[]",
        "a text": b'"series"',
        "a number": b"7",
        "true": b"true",
        "half": GOOD[: len(GOOD) // 2],
        "without its last byte": GOOD[:-1],
        "twice": GOOD + GOOD,
        "a tail": GOOD + b"x",
        "a mark of order": b"\xef\xbb\xbf" + GOOD,
        "UTF-16": GOOD.decode().encode("utf-16"),
        "not UTF-8": GOOD.replace(b"BTC", b"\xff\xfe"),
        "half a surrogate": GOOD.replace(b"BTC", b"\\ud800"),
        "a page": b"<!doctype html><p>" + KEY.encode(),
        "XML": b"<?xml version='1.0'?><series/>",
        "single quotes": GOOD.replace(b'"', b"'"),
        "a comment": b"/* ok */" + GOOD,
        "brackets": b"[" * 10**6,
        "objects": b'{"a":' * 10**5,
        "open brackets only": b'{"series":[' + b"{" * 10**6,
        "an error": b'{"error":"NO","message":"%s"}' % KEY.encode(),
        "an error with an empty id": b'{"error":"NO","id":null}',
        "other fields": b'{"data":{"series":[]}}',
        "series is an object": b'{"series":{}}',
        "a series is a text": b'{"series":["x"]}',
        "a number beyond a double": GOOD.replace(b"1.25", b"1e999"),
        "words in capitals": GOOD.replace(b"1.25", b"NAN"),
        "a zero before a number": GOOD.replace(b"1.25", b"01.25"),
        "the key as it is": KEY.encode(),
    }
    for name, content in broken.items():
        yield Case(f"body, {name}", (Answer(200, content),), DecodeError)
    yield Case("body, none, then right", (Answer(200), OK), RIGHT)
    yield Case("body, none", (Answer(200),), TransportError)
    for name, content in {
        "no fields": b"{}",
        "null series": b'{"series":null}',
        "blank": b' \n{"series":[]} ',
    }.items():
        yield Case(f"nothing, {name}", (Answer(200, content),), empty)


def wrong_series() -> Iterator[Case]:
    wrong: dict[str, Any] = {
        "an unknown type": series(type="CANDLES"),
        "another type": series(type="OPEN_INTEREST_AGG"),
        "the type as a number": series(type=107),
        "an empty type": series(type=""),
        "a type that is the key": series(type=KEY),
        "another exchange": series(exchange="Y"),
        "an exchange in small letters": series(exchange="x"),
        "another symbol": series(rawSymbol="ETH"),
        "the key as symbol": series(rawSymbol=KEY),
        "another interval": series(interval="HOUR"),
        "an exchange of a number": series(exchange=7),
        "the id is an array": {"id": [], "points": []},
        "points is an object": {"id": ID, "points": {}},
        "a point is null": series(None),
        "a point without payload": series({"timestamp": {"s": 0}}),
        "a payload is an array": series({"Point": []}),
        "a null series": None,
        "no time": series({"Point": VALUES}),
        "a null time": series(point(timestamp=None)),
        "a time as a text": series(point(timestamp="1970-01-01T00:00:00Z")),
        "a time as a number": series(point(timestamp=0)),
        "milliseconds": series(point(60_000_000)),
        "another day": series(point(86_400 * 9)),
        "before the window": series(point(-86_400)),
        "beside the grid": series(point(30)),
        "nanoseconds beyond a second": series(point(timestamp={"s": 0, "ns": 10**9})),
        "a time beyond 64 bits": series(point(10**40)),
        "a time of a half": series(point(0.5)),
        "a price as a word": series(point(close="dear")),
        "a price that is true": series(point(close=True)),
        "a price as an object": series(point(close={})),
        "a price as an array": series(point(close=[1.0])),
        "a price with a comma": series(point(close="1,25")),
        "a price in hexadecimal": series(point(close="0x1")),
        "a price of 500 digits": series(point(close=10**500)),
        "a price that is the key": series(point(close=KEY)),
        "300 unknown fields": series(point(**{f"x{number}": 1 for number in range(300)})),
    }
    for name, one in wrong.items():
        yield Case(f"series, {name}", (Answer(200, body(one)),), DecodeError)
    escaped = GOOD.replace(b'"BTC"', f'"{in_json(KEY)}"'.encode())
    yield Case("series, the key escaped as symbol", (Answer(200, escaped),), DecodeError)
    escaped = GOOD.replace(b"1.25", f'"{in_json(KEY)}"'.encode())
    yield Case("series, the key escaped as price", (Answer(200, escaped),), DecodeError)
    deep = GOOD.replace(b'"close"', b'"x": ' + b"[" * 2_000 + b"]" * 2_000 + b', "close"')
    yield Case("series, a field nested deep", (Answer(200, deep),), DecodeError)
    other = series(*[point(second, close=9.0) for second in TIMES])
    yield Case("series, twice and different", (Answer(200, body(series(), other)),), IncompleteDataError)


def odd_series() -> Iterator[Case]:
    """What is odd and right."""
    texts = [point(str(second), **{name: str(value) for name, value in VALUES.items()}) for second in TIMES]
    unordered = [point(second) for second in (120, 0, 60)]
    null_id = {"id": {"type": None}, "points": series()["points"]}
    odd: dict[str, tuple[Any, Callable[[Any], None]]] = {
        "numbers as texts": (series(*texts), RIGHT),
        "points out of order": (series(*unordered), RIGHT),
        "every point twice": (series(*unordered, *unordered), RIGHT),
        "points beside the window": (series(point(-60), *unordered, point(180)), RIGHT),
        "an id of nothing": (null_id, column("close", 1.25, 1.25, 1.25)),
        "a null price": (series(*unordered[1:], point(120, close=None)), column("close", 1.25, 1.25, None)),
        "NaN": (
            series(point(0, close="NaN"), point(60), point(120)),
            column("close", float("nan"), 1.25, 1.25),
        ),
        "NaN as a word": (
            series(point(0, close=float("nan")), point(60), point(120)),
            column("close", float("nan"), 1.25, 1.25),
        ),
        "the key in an unknown field": (
            series(*[point(second, echo=KEY) for second in TIMES]),
            right_and(column("echo", *["*" * len(KEY)] * 3)),
        ),
        "the key as an unknown field": (series(*[point(second, **{KEY: 1}) for second in TIMES]), RIGHT),
        "a null field": (series(*[point(second, **{KEY: None}) for second in TIMES]), RIGHT),
        "a side, a coin and a category in the payload": (
            series(*[point(one, side="BUY", coin="ETH", category="SPOT") for one in TIMES], coin="BTC"),
            right_and(column("coin", *["BTC"] * 3), column("point_coin", *["ETH"] * 3)),
        ),
    }
    for name, (one, outcome) in odd.items():
        yield Case(f"odd, {name}", (Answer(200, body(one)),), outcome)
    # The client asks for the end again, to know that no series is missing.
    both, end = (
        [
            series(*[point(one, side="SELL") for one in times], type=SIDED, side=side)
            for side in ("BUY", "SELL")
        ]
        for times in (TIMES, TIMES[-1:])
    )
    sides = column("side", *["BUY"] * 3, *["SELL"] * 3)
    answers = Answer(200, body(*both)), Answer(200, body(*end))
    yield Case("odd, a side in the payload", answers, sides, ask="by_side")
    twice = GOOD.replace(b'"close": 1.25', b'"close": 9, "close": 1.25')
    yield Case("odd, a key given twice", (Answer(200, twice),), RIGHT)
    escaped = GOOD.replace(b'"close"', f'"echo": "{in_json(KEY)}", "close"'.encode())
    yield Case("odd, the key escaped in an unknown field", (Answer(200, escaped),), RIGHT)
    request = GOOD.replace(b'{"series"', f'{{"request": {{"key": "{KEY}"}}, "series"'.encode())
    yield Case("odd, the request beside the series", (Answer(200, request),), RIGHT)


def levels() -> Iterator[Case]:
    def profile(flat: Any) -> tuple[Answer]:
        payload = {"timestamp": {"s": 0}, "profile": flat}
        return (Answer(200, body({"id": ID | {"type": PROFILE}, "points": [{"Point": payload}]})),)

    wrong = {
        "a length of no triplets": [1.0, 2.0],
        "a null price": [None, 1.0, 1.0],
        "a text": [1.0, "much", 1.0],
        "an object": {},
        "a nested array": [[1.0, 1.0, 1.0]],
        "true": [1.0, True, 1.0],
    }
    for name, flat in wrong.items():
        yield Case(f"levels, {name}", profile(flat), DecodeError, ask="profile")
    yield Case("levels, a null amount", profile([1.0, None, 2.0]), column("volume", None), ask="profile")
    yield Case("levels, none", profile(None), column("price"), ask="profile")
