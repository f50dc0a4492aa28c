"""The API key, which is removed from texts, log records and answers, however they escape it."""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, cached_property

import httpx

from tidytape.client._steps import Answer

_SHORTEST = 8
"""A key of fewer characters is not hidden: it may be a part of any word."""

_LONGEST_NUMBER = 20
"""A key of fewer digits is not hidden: it may be any number."""

_ESCAPED = "\"'/\\"
"""Characters that may have a backslash before them."""

_LONGEST_SPELLING = len(r"\\\\u0041")
"""The longest spelling of one character of the key. [byte]"""

_LOGGERS = ("httpx", *(f"httpcore.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")))


class Secret:
    r"""An API key.

    Parameters
    ----------
    value : str
        The key, of printable ASCII.

    Examples
    --------
    >>> secret = Secret("the-secret/key")
    >>> secret
    Secret('…')
    >>> secret.hidden(r"got the-secret/key, the-secret%2Fkey and \u0074he-secret\/key")
    'got <key>, <key> and <key>'
    """

    def __init__(self, value: str) -> None:
        self.value = value
        is_number = value.isdecimal() and len(value) < _LONGEST_NUMBER
        is_secret = len(value) >= _SHORTEST and not is_number
        escaped = (f"\\{character}" for character in set(value) & set(_ESCAPED))
        self._plain = {value, value.replace(" ", "+")} if is_secret else set()
        self._escapes = {r"\u00", r"\x", *escaped} if is_secret else set()
        _watch(self)

    @cached_property
    def _pattern(self) -> str:
        return "".join(map(_spellings, self.value))

    @cached_property
    def _in_text(self) -> re.Pattern[str]:
        return re.compile(self._pattern)

    @cached_property
    def _in_bytes(self) -> re.Pattern[bytes]:
        return re.compile(self._pattern.encode())

    def __repr__(self) -> str:
        """Return a text without the key."""
        return "Secret('…')"

    def _may_be_in(self, text: str) -> bool:
        """Return whether a text may have the key, plain or escaped. The test is fast and false for most texts."""
        is_escaped = "%" in text or ("\\" in text and any(map(text.__contains__, self._escapes)))
        return bool(self._plain) and (is_escaped or any(map(text.__contains__, self._plain)))

    def hidden(self, text: str) -> str:
        """Return a text without the key, whether it is plain, or escaped as in URLs or JSON."""
        return self._in_text.sub("<key>", text) if self._may_be_in(text) else text

    def hidden_answer(self, answer: Answer) -> Answer:
        """Return an answer without the key in its headers and its body.

        In the body asterisks replace the key. So the body keeps its length, and an Arrow stream can still be read.
        """
        headers, content = answer.headers, answer.content
        pairs = [(name, self.hidden(value)) for name, value in headers.multi_items()]
        if pairs != headers.multi_items():
            headers = httpx.Headers(pairs)
        return replace(answer, headers=headers, content=self._hidden_in(content))

    def _hidden_in(self, content: bytes) -> bytes:
        """Return bytes with asterisks for the key. Bodies are long, so it searches only around hints, see `_hints`."""
        hidden = None
        for start, end in self._around_hints(content) if self._plain else ():
            for key in self._in_bytes.finditer(content, start, end):
                hidden = hidden or bytearray(content)
                hidden[key.start() : key.end()] = b"*" * len(key[0])
        return content if hidden is None else bytes(hidden)

    def _around_hints(self, content: bytes) -> Iterator[tuple[int, int]]:
        """Yield the spans that may have the key. It joins spans that overlap, because every byte may be a hint."""
        reach = _LONGEST_SPELLING * len(self.value)
        start = end = 0
        for hint in sorted(self._hints(content)):
            if hint - reach > end:
                yield start, end
                start = hint - reach
            end = hint + reach
        yield start, end

    def _hints(self, content: bytes) -> Iterator[int]:
        """Yield the hints: the positions of the plain key, and of escapes that may stand for its characters."""
        for plain in self._plain:
            position = content.find(plain.encode())
            while position >= 0:
                yield position
                position = content.find(plain.encode(), position + 1)
        import numpy as np  # imported only here, so that the client loads quickly

        octets = np.frombuffer(content, np.uint8)
        if b"%" in content:
            positions = np.flatnonzero(octets[:-2] == ord("%"))
            digits = octets[positions + 1].astype(np.uint16) << 8 | octets[positions + 2]
            yield from map(int, positions[np.isin(digits, self._codes)])
        if b"\\" in content:
            positions = np.flatnonzero(octets[:-1] == ord("\\"))
            yield from map(int, positions[np.isin(octets[positions + 1], list(b"ux" + _ESCAPED.encode()))])

    @cached_property
    def _codes(self) -> list[int]:
        """The hexadecimal codes of the key's characters: the two digits as a number of two bytes, in either case."""
        digits = [f"{ord(character):02x}" for character in set(self.value)]
        pairs = {
            first + second
            for code in digits
            for first in (code[0], code[0].upper())
            for second in (code[1], code[1].upper())
        }
        return [int.from_bytes(pair.encode(), "big") for pair in pairs]


@cache
def _spellings(character: str) -> str:
    """Return a pattern that matches a character itself and its escapes in URLs, JSON and Python literals.

    Each alternative begins with a literal, so that the search is fast. Repeats are bounded, so that its time is
    proportional to the length of the text.
    """
    code = f"{ord(character):02x}"
    plain = re.escape(character)
    backslashes = r"\\\\{0,3}"  # one to four
    spellings = [plain, f"%(?i:{code})", f"{backslashes}u00(?i:{code})", f"{backslashes}x(?i:{code})"]
    if character in _ESCAPED:
        spellings.append(backslashes + plain)
    if character == " ":
        spellings.append(r"\+")
    return f"(?:{'|'.join(spellings)})"


class _Filter(logging.Filter):
    """Hides the keys of all clients in log records of the HTTP libraries."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Hide the keys in a record; return True, because every record is kept."""
        message = hidden = record.getMessage()
        for reference in _secrets:
            secret = reference()
            hidden = hidden if secret is None else secret.hidden(hidden)
        if hidden != message:
            record.msg, record.args = hidden, ()
        return True


_secrets: tuple[weakref.ref[Secret], ...] = ()
_filter = _Filter()


def _watch(secret: Secret) -> None:
    global _secrets  # noqa: PLW0603 - replaced, never changed in place, because other threads may be reading it
    _secrets = (*(reference for reference in _secrets if reference() is not None), weakref.ref(secret))
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)  # adding it again changes nothing
