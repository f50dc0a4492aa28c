"""The key of a client: sent in one header, and shown nowhere.

A service may repeat the key in a body, a header or its reason phrase, escaped or not. `Secret` finds all of these and
hides them in two places: `Secret.hidden_answer` in whatever arrives, before anything reads it, and a filter in what the
HTTP libraries log.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import httpx

from tidytape.client.steps import Answer

__all__ = ["Secret"]

_SHORTEST = 8
"""A shorter key is no secret, and may be part of any word."""

_LONGEST_NUMBER = 20
"""A key of fewer digits than this, and nothing else, may be any number."""

_ESCAPED = "\"'/\\"
"""What may have a backslash before it."""

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
        escaped = (f"\\{one}" for one in set(value) & set(_ESCAPED))
        self._plain = {value, value.replace(" ", "+"), "%"} if is_secret else set()
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
        """Return nothing of the key."""
        return "Secret('…')"

    def _may_be_in(self, has: Callable[[str], bool]) -> bool:
        """Return whether a text has the key or an escape of it; most have none, which takes next to no time."""
        return any(map(has, self._plain)) or (has("\\") and any(map(has, self._escapes)))

    def hidden(self, text: str) -> str:
        """Return a text without the key, whether written as it is, or escaped as in URLs or JSON."""
        return self._in_text.sub("<key>", text) if self._may_be_in(text.__contains__) else text

    def hidden_answer(self, answer: Answer) -> Answer:
        """Return an answer whose headers and body do not have the key; asterisks take its place in the body.

        The body keeps its length, so that an Arrow stream remains one.
        """
        headers, content = answer.headers, answer.content
        pairs = [(name, self.hidden(value)) for name, value in headers.multi_items()]
        if pairs != headers.multi_items():
            headers = httpx.Headers(pairs)
        if self._may_be_in(lambda hint: hint.encode() in content):
            content = self._in_bytes.sub(lambda found: b"*" * len(found[0]), content)
        return replace(answer, headers=headers, content=content)


def _spellings(character: str) -> str:
    """Return a pattern that matches a character itself and its escapes in URLs, JSON and Python literals.

    Each alternative begins with a literal, so that the search skips what begins with none of them, and repeats are
    bounded, so that its time is in proportion to the text.
    """
    code = f"{ord(character):02x}"
    any_case = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in code)
    plain = re.escape(character)
    several = r"\\\\{0,3}"
    spellings = [plain, f"%{any_case}", f"{several}u00{any_case}", f"{several}x{any_case}"]
    if character in _ESCAPED:
        spellings.append(several + plain)
    if character == " ":
        spellings.append(r"\+")
    return f"(?:{'|'.join(spellings)})"


class _Filter(logging.Filter):
    """Hides the keys of all clients in what the HTTP libraries log: addresses, headers and reason phrases."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record."""
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
    global _secrets  # noqa: PLW0603 - replaced as a whole, for other threads may be reading it
    _secrets = (*(one for one in _secrets if one() is not None), weakref.ref(secret))
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)  # once, however often it is added
