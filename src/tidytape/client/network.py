"""What lies between a client and its service: proxies, certificates, and whether anybody can read along."""

from __future__ import annotations

import ssl
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

import httpx

from tidytape.client.steps import Failure
from tidytape.errors import CertificateError, ProxyError, TransportError, UnencryptedKeyWarning

__all__ = ["connection_options", "is_loopback", "transport_error", "warn_unencrypted"]

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
    """Give the options of an httpx client.

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


def transport_error(failure: Failure, url: httpx.URL, said: str, weight: int) -> TransportError:
    """Return what the library says when no usable response came back.

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
            f"{where}: {said}; the proxy that {_PROXY} refused; NO_PROXY={url.host} goes without it", **facts
        )
    if _is_of_certificates(failure):
        return CertificateError(
            f"{where}: {said}; if an authority of your own signed the certificate, SSL_CERT_FILE names its file",
            **facts,
        )
    if isinstance(failure, httpx.ConnectError):
        is_proxied = _has_proxy(url)
        said += f"; is the proxy running that {_PROXY}?" if is_proxied else "; is a service running there?"
    return TransportError(f"{where}: {said}", **facts)


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
