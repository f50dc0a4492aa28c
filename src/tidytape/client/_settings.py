"""How a client reaches the service: address, key, proxies and certificates, patience. The key is never shown."""

from __future__ import annotations

import logging
import math
import os
import re
import ssl
import urllib.request
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Literal, NoReturn, TypedDict, get_args

import httpx

from tidytape.client._budget import Quota, quota_of
from tidytape.client._cache import LIMIT, Cache
from tidytape.client._steps import Answer, Failure
from tidytape.errors import (
    AuthenticationError,
    CertificateError,
    ProxyError,
    QueryError,
    TransportError,
    UnencryptedKeyWarning,
)
from tidytape.wire._decode import Absent

_SHORTEST = 8
"""A shorter key is no secret, and may be part of any word."""

_LONGEST_NUMBER = 20
"""A key of fewer digits than this, and nothing else, may be any number."""

_ESCAPED = "\"'/\\"
"""What may have a backslash before it."""

_LONGEST_SPELLING = len(r"\\\\u0041")
"""Of a character of the key. [byte]"""

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
        """Return nothing of the key."""
        return "Secret('…')"

    def _may_be_in(self, text: str) -> bool:
        """Return whether a text may have the key or an escape of it; this is fast, for most texts have neither."""
        is_escaped = "%" in text or ("\\" in text and any(one in text for one in self._escapes))
        return bool(self._plain) and (is_escaped or any(one in text for one in self._plain))

    def hidden(self, text: str) -> str:
        """Return a text without the key, whether written as it is, or escaped as in URLs or JSON."""
        return self._in_text.sub("<key>", text) if self._may_be_in(text) else text

    def hidden_answer(self, answer: Answer) -> Answer:
        """Return an answer whose headers and body do not have the key; asterisks take its place in the body.

        The body keeps its length, so that an Arrow stream remains one.
        """
        headers, content = answer.headers, answer.content
        pairs = [(name, self.hidden(value)) for name, value in headers.multi_items()]
        if pairs != headers.multi_items():
            headers = httpx.Headers(pairs)
        return replace(answer, headers=headers, content=self._hidden_in(content))

    def _hidden_in(self, content: bytes) -> bytes:
        """Return bytes with asterisks for the key. Only what lies around a hint of it is searched: bodies are long."""
        hidden = None
        for start, end in self._around_hints(content) if self._plain else ():
            for found in self._in_bytes.finditer(content, start, end):
                hidden = hidden or bytearray(content)
                hidden[found.start() : found.end()] = b"*" * len(found[0])
        return content if hidden is None else bytes(hidden)

    def _around_hints(self, content: bytes) -> Iterator[tuple[int, int]]:
        """Yield the spans that may hold the key, apart from each other: a body may have a hint at every byte."""
        reach = _LONGEST_SPELLING * len(self.value)
        start = end = 0
        for hint in sorted(self._hints(content)):
            if hint - reach > end:
                yield start, end
                start = hint - reach
            end = hint + reach
        yield start, end

    def _hints(self, content: bytes) -> Iterator[int]:
        """Yield where the key stands as it is, and where an escape of one of its characters does."""
        for plain in self._plain:
            place = content.find(plain.encode())
            while place >= 0:
                yield place
                place = content.find(plain.encode(), place + 1)
        import numpy as np  # only where a body needs it: the client loads quickly

        octets = np.frombuffer(content, np.uint8)
        if b"%" in content:
            at = np.flatnonzero(octets[:-2] == ord("%"))
            pairs = octets[at + 1].astype(np.uint16) << 8 | octets[at + 2]
            yield from map(int, at[np.isin(pairs, self._codes)])
        if b"\\" in content:
            at = np.flatnonzero(octets[:-1] == ord("\\"))
            yield from map(int, at[np.isin(octets[at + 1], list(b"ux" + _ESCAPED.encode()))])

    @cached_property
    def _codes(self) -> list[int]:
        """The two digits of each character of the key in hexadecimal, as the number that the two bytes make."""
        digits = [f"{ord(character):02x}" for character in set(self.value)]
        pairs = {
            first + last
            for one in digits
            for first in (one[0], one[0].upper())
            for last in (one[1], one[1].upper())
        }
        return [int.from_bytes(pair.encode(), "big") for pair in pairs]


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
    """Hides the keys of all clients in log records of the HTTP libraries."""

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


# --- ---


_PROXY = "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names"


def is_loopback(address: str) -> bool:
    """Return whether a service is on this machine."""
    host = httpx.URL(address).host
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def warn_unencrypted(address: str) -> None:
    """Warn that the key travels where others can read it."""
    url = httpx.URL(address)
    if url.scheme == "http" and not is_loopback(address):
        warnings.warn(
            f"the key is sent to {url.host} over plain http, and everyone on the way can read it; use https",
            UnencryptedKeyWarning,
            stacklevel=4,  # of who makes the client
        )


@contextmanager
def connection_options(address: str, transport: object) -> Iterator[dict[str, Any]]:
    """Yield the options of an httpx client.

    A redirect is not followed: it would carry the key to wherever it points. A service on this machine is asked without
    the proxy that the environment names, which could not reach it.

    Raises
    ------
    TransportError
        If the proxy or the certificates that the environment names are not usable.
    """
    options: dict[str, Any] = {"follow_redirects": False, "transport": transport}
    try:
        if transport is None and is_loopback(address):
            options |= {"trust_env": False, "verify": httpx.create_ssl_context()}
        yield options
    except OSError as error:
        raise CertificateError(
            f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: {error.strerror or error}"
        ) from None
    except (ValueError, ImportError, httpx.InvalidURL):
        # The address of a proxy may have a password in it.
        raise ProxyError(
            f"the proxy that {_PROXY} cannot be used; expected e.g. http://proxy.example.org:3128, and for socks5:// "
            "the package httpx[socks]; NO_PROXY names the hosts that are reached without"
        ) from None


def transport_error(failure: Failure, url: httpx.URL, why: str, weight: int) -> TransportError:
    """Return the error of a request that brought no usable response.

    Parameters
    ----------
    failure : Failure
    url : httpx.URL
        What was asked.
    said : str
        What the failure says, fit to be shown.
    weight : int
        Of the request. [weight]
    """
    where = f"{url.scheme}://{url.netloc.decode('ascii')}"
    facts: dict[str, Any] = {"url": str(url), "weight": weight}
    if isinstance(failure, httpx.ProxyError):
        return ProxyError(
            f"{where}: {why}; the proxy that {_PROXY} refused; NO_PROXY={url.host} goes without it", **facts
        )
    if _is_of_certificates(failure):
        return CertificateError(
            f"{where}: {why}; if an authority of your own signed the certificate, SSL_CERT_FILE names its file",
            **facts,
        )
    if isinstance(failure, httpx.ConnectError):
        is_proxied = _has_proxy(url)
        why += f"; is the proxy running that {_PROXY}?" if is_proxied else "; is a service running there?"
    return TransportError(f"{where}: {why}", **facts)


def _is_of_certificates(failure: BaseException | None) -> bool:
    while failure is not None:
        if isinstance(failure, ssl.SSLCertVerificationError):
            return True
        failure = failure.__cause__ or failure.__context__
    return False


def _has_proxy(url: httpx.URL) -> bool:
    proxies = urllib.request.getproxies()
    if not {url.scheme, "all"} & proxies.keys() or is_loopback(str(url)):
        return False
    return not urllib.request.proxy_bypass(url.host)


# --- ---


Backend = Literal["polars", "pandas"]
OnLimit = Literal["wait", "raise"]
Partial = Literal["raise", "flag"]

LOCAL = "tidytape.local"
"""What ends the address of a service in this process; before it stands the name of its lake."""

_BASE_URL = "TIDYTAPE_BASE_URL"
_API_KEY = "TIDYTAPE_API_KEY"

CACHE_LIMIT = LIMIT
"""How much a cache holds unless a client is told otherwise. [byte]"""

MAX_BODY = 512 * 2**20
"""Longest body a client reads unless it is told otherwise: several times the longest answer. [byte]"""


MAX_WAIT = 900.0
"""Longest time that the budget may make a fetch wait unless a client is told otherwise. [s]"""


class Options(TypedDict, total=False):
    """The keyword options of a client; `Client` describes each."""

    auth_header: str
    timeout: float
    deadline: float
    attempts: int
    max_body: int
    on_limit: OnLimit
    max_wait: float | None
    partial: Partial
    absent: Absent
    parallel: int
    cache: bool | str | os.PathLike[str] | None
    cache_limit: int
    offline: bool
    progress: bool | None


_LONGEST = 10**6
"""Longest time that can be asked for, 11 days: sockets take not much more. [s]"""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that all requests of a client share.

    Attributes
    ----------
    base_url : str
        Address of the service, without ``/v1``.
    secret : Secret
        The key, which does not show itself.
    auth_header : str
        Header that carries the key.
    timeout : float
        Longest wait for one response to go on. [s]
    deadline : float
        Longest time one request may take, its retries and waits included. [s]
    attempts : int
        Most times one request is sent.
    max_body : int
        Longest body of one response, decompressed. [byte]
    max_wait : float or None
        Longest time the budget may make a fetch wait; 0 where it must not, None without a bound. [s]
    partial : {"raise", "flag"}
        What to do where a part of a window is not answered.
    absent : {"null", "zero"}
        What a number is that a point of the service leaves out although every point has it.
    parallel : int
        Most requests that are on their way at once.
    offline : bool
        Whether nothing may be sent.
    progress : bool or None
        Whether to show how far a fetch is; None where someone is looking.
    cache : Cache or None
        What was fetched before.
    quota : Quota
        What is left of the key's budget.
    """

    base_url: str
    secret: Secret
    auth_header: str
    timeout: float
    deadline: float
    attempts: int
    max_body: int
    max_wait: float | None
    partial: Partial
    absent: Absent
    parallel: int
    offline: bool
    progress: bool | None
    cache: Cache | None
    quota: Quota = field(repr=False)

    @property
    def is_certain(self) -> bool:
        """Whether the service says which markets have no points, so that the client need not probe its answers."""
        return self.quota.has_notes or self.base_url.endswith(LOCAL)

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: the key would travel along."""
        raise TypeError("settings hold a key and are not pickled; make the client where it is used")

    @classmethod
    def read(
        cls,
        base_url: str | None,
        api_key: str | None,
        *,
        auth_header: str,
        timeout: float,
        deadline: float,
        attempts: int,
        max_body: int,
        on_limit: str,
        max_wait: float | None,
        partial: str,
        absent: str,
        parallel: int,
        offline: bool,
        progress: bool | None,
        cache: bool | str | os.PathLike[str] | None,
        cache_limit: int,
        is_network: bool,
    ) -> Settings:
        """Take the arguments of a client, or the environment where they are absent.

        Raises
        ------
        QueryError
            If the address is absent or is not an HTTP address, the header is no name of one, or a number is none or
            not positive.
        AuthenticationError
            If there is no key, or it cannot be sent in a header. The key is not in the message.
        """
        address, key = (
            _address(base_url or os.environ.get(_BASE_URL)),
            _key(api_key or os.environ.get(_API_KEY)),
        )
        if cache is None:
            # What carries requests in the place of the network may answer anything, and a service on this machine is
            # mostly one's own: its lake grows, its address is that of another lake tomorrow, and it costs nothing.
            cache = offline or (is_network and not is_loopback(address))
        if offline and cache is False:
            raise QueryError(
                "offline",
                got=offline,
                expected="a cache to answer from; with ``cache=False`` nothing is kept",
            )
        limit = _count("cache_limit", cache_limit)
        settings = cls(
            address,
            Secret(key),
            _header(auth_header),
            _seconds("timeout", timeout),
            _seconds("deadline", deadline),
            _count("attempts", attempts),
            _count("max_body", max_body),
            _patience(one_of("on_limit", on_limit, get_args(OnLimit)), max_wait),
            one_of("partial", partial, get_args(Partial)),
            one_of("absent", absent, get_args(Absent)),
            _count("parallel", parallel),
            bool(offline),
            progress,
            None if cache is False else Cache(None if cache is True else cache, limit=limit),
            quota_of(address, key),
        )
        if is_network and not offline:
            warn_unencrypted(address)
        return settings


def one_of(name: str, value: object, known: tuple[Any, ...]) -> Any:
    """Return a value that is one of the known ones; raise QueryError where it is not."""
    if value not in known:
        raise QueryError(name, got=value, expected=" or ".join(map(repr, known)))
    return value


def _patience(on_limit: str, max_wait: object) -> float | None:
    """Return the longest wait for the budget; None where it has no bound."""
    if on_limit == "raise":
        if max_wait not in (None, MAX_WAIT):
            raise QueryError(
                "max_wait",
                got=max_wait,
                expected="nothing where ``on_limit`` is 'raise': it waits not at all",
            )
        return 0.0
    if max_wait is None or max_wait == math.inf:
        return None
    if not isinstance(max_wait, bool) and max_wait == 0:
        raise QueryError(
            "max_wait",
            got=max_wait,
            expected="a number of seconds above 0",
            hint="``on_limit='raise'`` waits not at all",
        )
    return _seconds("max_wait", max_wait)


def _header(name: object) -> str:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise QueryError("auth_header", got=name, expected="the name of an HTTP header")
    return name


def _seconds(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _LONGEST:
        raise QueryError(name, got=value, expected=f"a number of seconds above 0, at most {_LONGEST}")
    return float(value)


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise QueryError(name, got=value, expected="a whole number above 0")
    return value


def _address(address: str | None) -> str:
    expected = "the address of the service, e.g. 'http://127.0.0.1:8000'"
    if not address:
        raise QueryError("base_url", got=address, expected=expected, hint=f"or set {_BASE_URL}")
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, TypeError):
        raise QueryError("base_url", got=address, expected=expected) from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise QueryError("base_url", got=address, expected=expected)
    if url.userinfo or url.query or url.fragment:
        # Not shown: a password or a key may be in it.
        raise QueryError(
            "base_url",
            got=f"{url.scheme}://{url.host}/…",
            expected="an address without user, query or fragment",
        )
    return str(url).rstrip("/").removesuffix("/v1")


def _key(key: object) -> str:
    if not key:
        raise AuthenticationError(
            f"``api_key``: got nothing, expected the key of the service; or set {_API_KEY}"
        )
    if not isinstance(key, str):
        raise AuthenticationError(f"``api_key``: got a value of type {type(key).__name__}, expected a str")
    if not (key.isascii() and key.isprintable() and key.strip() == key):
        raise AuthenticationError(
            f"``api_key``: got {len(key)} characters that no header can carry, expected printable ASCII without "
            "spaces around it"
        )
    return key
