"""Parts of a key, such as a secret or a token, which may not be in a message, however it spells them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator

_LEAST = 8
"""Fewest characters of base64 that are taken for a part of a key, if other bytes surround it."""


def without_keys(message: str, keys: Iterable[str]) -> str:
    """Return a message with an ellipsis for each part of a key.

    It finds a part as it is, with any of its characters quoted as in a URL or escaped as in JSON, and in base64, also
    among other bytes, as in the header of a login.

    Examples
    --------
    >>> without_keys("GET /?key=a%2Bb%2Fc%3D%3D, Basic dXNlcjphK2IvYz09", ["a+b/c=="])
    'GET /?key=…, Basic dXNlcjp…'
    """
    spellings = {spelling for key in keys if key.strip() for spelling in _spellings(key)}
    patterns = (_quoted(spelling) for spelling in sorted(spellings, key=len, reverse=True))
    # An address of a wallet may have capitals or not.
    return re.sub("|".join(patterns), "…", message, flags=re.IGNORECASE) if spellings else message


def _spellings(key: str) -> Iterator[str]:
    """Yield a part of a key, without the mark of a hexadecimal number, and in base64 of both alphabets."""
    yield key
    if len(key) > _LEAST:
        yield key.removeprefix("0x")
    octets = key.encode(errors="surrogatepass")
    whole = b64encode(octets).decode().rstrip("=")
    # The bytes before shift the bits, so base64 has a part of a key in three forms.
    shifted = (
        b64encode(bytes(before) + octets).decode()[-(-before * 4 // 3) : (before + len(octets)) * 4 // 3]
        for before in range(3)
    )
    for text in (whole, *(form for form in shifted if len(form) >= _LEAST)):
        yield text
        yield text.translate(str.maketrans("+/", "-_"))


def _quoted(text: str) -> str:
    """Return a pattern of a text whose characters may be quoted or escaped."""
    return "".join(rf"(?:\\*{re.escape(letter)}|{_percent(letter)}|{_escape(letter)})" for letter in text)


def _percent(letter: str) -> str:
    octets = letter.encode(errors="surrogatepass")
    quoted = "".join(f"%(?:25)*{octet:02x}" for octet in octets)
    return rf"{quoted}|\+" if letter == " " else quoted


def _escape(letter: str) -> str:
    units = letter.encode("utf-16-be", errors="surrogatepass").hex(" ", 2).split()
    pair = "".join(rf"\\+u{unit}" for unit in units)
    named = {"\n": r"|\\+n", "\r": r"|\\+r", "\t": r"|\\+t"}.get(letter, "")
    return rf"{pair}|\\+x{ord(letter):02x}|\\+U{ord(letter):08x}{named}"
