"""How a client reaches the service: address, key, patience. Validated once, and the key is never shown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypedDict, get_args

import httpx

from tidytape.client.cache import LIMIT, Cache
from tidytape.client.network import is_loopback, warn_unencrypted
from tidytape.client.quota import Quota, quota_of
from tidytape.client.secret import Secret
from tidytape.errors import AuthenticationError, QueryError

__all__ = [
    "CACHE_LIMIT",
    "LOCAL",
    "MAX_BODY",
    "Absent",
    "Backend",
    "OnLimit",
    "Options",
    "Partial",
    "Settings",
]

Backend = Literal["polars", "pandas"]
OnLimit = Literal["wait", "raise"]
Partial = Literal["raise", "flag"]
Absent = Literal["null", "zero"]

LOCAL = "http://tidytape.local"
"""The address of the service in this process."""

_BASE_URL = "TIDYTAPE_BASE_URL"
_API_KEY = "TIDYTAPE_API_KEY"

CACHE_LIMIT = LIMIT
"""How much a cache holds unless a client is told otherwise. [byte]"""

MAX_BODY = 512 * 2**20
"""Longest body a client reads unless it is told otherwise: several times the longest answer. [byte]"""


class Options(TypedDict, total=False):
    """The settings that a client may be given by name; `Client` says what each is."""

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
    """What every request of a client shares.

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
        """Whether the service is known to say where it has no points, so that no answer of it has to be doubted."""
        return self.quota.has_notes or self.base_url == LOCAL

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
                expected="a cache to answer from; with cache=False nothing is kept",
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
            _patience(_one_of("on_limit", on_limit, get_args(OnLimit)), max_wait),
            _one_of("partial", partial, get_args(Partial)),
            _one_of("absent", absent, get_args(Absent)),
            _count("parallel", parallel),
            bool(offline),
            progress,
            None if cache is False else Cache(None if cache is True else cache, limit=limit),
            quota_of(address, key),
        )
        if is_network and not offline:
            warn_unencrypted(address)
        return settings


def _one_of(name: str, given: object, known: tuple[Any, ...]) -> Any:
    if given not in known:
        raise QueryError(name, got=given, expected=" or ".join(map(repr, known)))
    return given


def _patience(on_limit: str, max_wait: object) -> float | None:
    """Return the longest wait for the budget; None where it has no bound."""
    if on_limit == "raise":
        if max_wait is not None:
            raise QueryError(
                "max_wait", got=max_wait, expected="nothing where on_limit is 'raise': it waits not at all"
            )
        return 0.0
    if max_wait is not None and not isinstance(max_wait, bool) and max_wait == 0:
        raise QueryError(
            "max_wait",
            got=max_wait,
            expected="a number of seconds above 0",
            hint="on_limit='raise' waits not at all",
        )
    return None if max_wait is None else _seconds("max_wait", max_wait)


def _header(given: object) -> str:
    if not isinstance(given, str) or not _TOKEN.fullmatch(given):
        raise QueryError("auth_header", got=given, expected="the name of an HTTP header")
    return given


def _seconds(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _LONGEST:
        raise QueryError(name, got=value, expected=f"a number of seconds above 0, at most {_LONGEST}")
    return float(value)


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise QueryError(name, got=value, expected="a whole number above 0")
    return value


def _address(given: str | None) -> str:
    expected = "the address of the service, e.g. 'http://127.0.0.1:8000'"
    if not given:
        raise QueryError("base_url", got=given, expected=expected, hint=f"or set {_BASE_URL}")
    try:
        url = httpx.URL(given)
    except (httpx.InvalidURL, TypeError):
        raise QueryError("base_url", got=given, expected=expected) from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise QueryError("base_url", got=given, expected=expected)
    if url.userinfo or url.query or url.fragment:
        # Not shown: a password or a key may be in it.
        raise QueryError(
            "base_url",
            got=f"{url.scheme}://{url.host}/…",
            expected="an address without user, query or fragment",
        )
    return str(url).rstrip("/").removesuffix("/v1")


def _key(given: object) -> str:
    if not given:
        raise AuthenticationError(f"api_key: got nothing, expected the key of the service; or set {_API_KEY}")
    if not isinstance(given, str):
        raise AuthenticationError(f"api_key: got a value of type {type(given).__name__}, expected a str")
    if not (given.isascii() and given.isprintable() and given.strip() == given):
        raise AuthenticationError(
            f"api_key: got {len(given)} characters that no header can carry, expected printable ASCII without "
            "spaces around it"
        )
    return given
