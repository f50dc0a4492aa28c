"""How a client reaches the service: address, key, patience. Validated once, and the key is never shown."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

import httpx

from tidytape.errors import AuthenticationError, QueryError

__all__ = ["Backend", "Settings"]

Backend = Literal["polars", "pandas"]

_BASE_URL = "TIDYTAPE_BASE_URL"
_API_KEY = "TIDYTAPE_API_KEY"


@dataclass(frozen=True, slots=True)
class Settings:
    """What every request of a client shares.

    Attributes
    ----------
    base_url : str
        Address of the service, without ``/v1``.
    api_key : str
        The key; left out of the repr.
    auth_header : str
        Header that carries the key.
    timeout : float
        Longest wait for one response to go on. [s]
    deadline : float
        Longest time one request may take, its retries and waits included. [s]
    attempts : int
        Most times one request is sent.
    """

    base_url: str
    api_key: str = field(repr=False)
    auth_header: str
    timeout: float
    deadline: float
    attempts: int

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
    ) -> Settings:
        """Take the arguments of a client, or the environment where they are absent.

        Raises
        ------
        QueryError
            If the address is absent or is not an HTTP address, or a number is not positive.
        AuthenticationError
            If there is no key, or it cannot be sent in a header. The key is not in the message.
        """
        for name, value in (("timeout", timeout), ("deadline", deadline), ("attempts", attempts)):
            if not value > 0:
                raise QueryError(name, got=value, expected="a number above 0")
        return cls(
            _address(base_url or os.environ.get(_BASE_URL)),
            _key(api_key or os.environ.get(_API_KEY)),
            auth_header,
            timeout,
            deadline,
            attempts,
        )


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


def _key(given: str | None) -> str:
    if not given:
        raise AuthenticationError(f"api_key: got nothing, expected the key of the service; or set {_API_KEY}")
    if not (given.isascii() and given.isprintable() and given.strip() == given):
        raise AuthenticationError(
            f"api_key: got {len(given)} characters that no header can carry, expected printable ASCII without "
            "spaces around it"
        )
    return given
