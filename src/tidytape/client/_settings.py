"""How a client reaches the service: address, key, proxies, certificates and time limits."""

from __future__ import annotations

import math
import os
import re
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Literal, NoReturn, TypedDict, get_args

import httpx

from tidytape.client._budget import Quota, quota_of
from tidytape.client._cache import LIMIT, Cache
from tidytape.client._secret import Secret
from tidytape.client._steps import Failure
from tidytape.errors import (
    AuthenticationError,
    CertificateError,
    ProxyError,
    QueryError,
    TransportError,
    UnencryptedKeyWarning,
    warn,
)
from tidytape.wire._decode import Absent

Backend = Literal["polars", "pandas"]
OnLimit = Literal["wait", "raise"]
Partial = Literal["raise", "flag"]

LOCAL = "tidytape.local"
"""The end of the host name of a service in this process; the name of its lake stands before it."""

_BASE_URL = "TIDYTAPE_BASE_URL"
_API_KEY = "TIDYTAPE_API_KEY"

CACHE_LIMIT = LIMIT
"""The default limit of the cache. [byte]"""

MAX_BODY = 512 * 2**20
"""The default of ``max_body``, several times the longest answer. [byte]"""


MAX_WAIT = 900.0
"""The default of ``max_wait``, the longest wait for the budget. [s]"""


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
"""The longest time that a setting may have, 11 days; sockets allow little more. [s]"""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that all requests of a client share.

    Attributes
    ----------
    base_url : str
        Address of the service, without ``/v1``.
    secret : Secret
        The key.
    auth_header : str
        Header that carries the key.
    timeout : float
        Longest pause while a response arrives. [s]
    deadline : float
        Longest time of one request, with its retries and waits. [s]
    attempts : int
        Largest number of times that one request is sent.
    max_body : int
        Largest body of one response, decompressed. [byte]
    max_wait : float or None
        Longest wait for the budget; 0 to never wait, None to wait as long as it takes. [s]
    partial : {"raise", "flag"}
        What to do if a part of a window is not answered.
    absent : {"null", "zero"}
        What stands in the frame for a number that a point lacks although every point should have it.
    parallel : int
        Largest number of open requests.
    offline : bool
        Whether the client may send nothing.
    progress : bool or None
        Whether to show a progress bar; None to show it in terminals and notebooks.
    cache : Cache or None
        The cache.
    quota : Quota
        The budget of the key.
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
        """Whether the service says which markets have no points, so that the client need not check its answers."""
        return self.quota.has_notes or self.base_url.endswith(LOCAL)

    def __reduce__(self) -> NoReturn:
        """Raise TypeError, because a pickle or a copy would contain the key."""
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
        """Return the settings from the arguments of a client, or from the environment if the arguments are None.

        Raises
        ------
        QueryError
            If there is no address, it is not an HTTP address, ``auth_header`` is not the name of a header, or a number
            is not positive.
        AuthenticationError
            If there is no key, or it cannot be sent in a header. The key is not in the message.
        """
        address, key = (
            _address(base_url or os.environ.get(_BASE_URL)),
            _key(api_key or os.environ.get(_API_KEY)),
        )
        if cache is None:
            # By default cache only answers from the network. A custom transport may answer anything. A service on this
            # machine is mostly the user's own: its lake grows, tomorrow another lake may have its address, and its
            # requests cost nothing.
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
            _longest_wait(one_of("on_limit", on_limit, get_args(OnLimit)), max_wait),
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


def one_of(name: str, value: object, choices: tuple[Any, ...]) -> Any:
    """Return the value of an argument; raise QueryError if it is not one of the choices."""
    if value not in choices:
        raise QueryError(name, got=value, expected=" or ".join(map(repr, choices)))
    return value


def _longest_wait(on_limit: str, max_wait: object) -> float | None:
    """Return the longest wait for the budget; None for any wait. [s]"""
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


def _address(address: Any) -> str:
    expected = "the address of the service, e.g. 'http://127.0.0.1:8000'"
    if not address:
        raise QueryError("base_url", got=address, expected=expected, hint=f"or set {_BASE_URL}")
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, TypeError):
        # A value that is not a text may contain a key.
        shown_address = address if isinstance(address, str) else type(address).__name__
        raise QueryError("base_url", got=shown_address, expected=expected) from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise QueryError("base_url", got=address, expected=expected)
    if url.userinfo or url.query or url.fragment:
        # The message does not show the whole address, which may contain a password or a key.
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


# --- proxies, certificates, encryption ---

_PROXY = "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names"


def is_loopback(address: str) -> bool:
    """Return whether a service is on this machine."""
    host = httpx.URL(address).host
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def warn_unencrypted(address: str) -> None:
    """Warn if the client would send the key to another machine over plain http."""
    url = httpx.URL(address)
    if url.scheme == "http" and not is_loopback(address):
        text = (
            f"the key is sent to {url.host} over plain http, and everyone on the way can read it; use https"
        )
        warn(UnencryptedKeyWarning(text))


@contextmanager
def connection_options(address: str, transport: object) -> Iterator[dict[str, Any]]:
    """Yield the options of an httpx client.

    The client does not follow redirects, because it would send the key to the new address. For a service on this
    machine it uses no proxy, because the proxy could not reach it.

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
        # The message does not show the address of the proxy, which may contain a password.
        raise ProxyError(
            f"the proxy that {_PROXY} cannot be used; expected e.g. http://proxy.example.org:3128, and for socks5:// "
            "the package httpx[socks]; NO_PROXY names the hosts that are reached without"
        ) from None


def transport_error(failure: Failure, url: httpx.URL, why: str, weight: int) -> TransportError:
    """Return the error of a request without a usable response.

    Parameters
    ----------
    failure : Failure
    url : httpx.URL
        The address of the request.
    why : str
        What failed, without the key.
    weight : int
        Weight of the request. [weight]
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
