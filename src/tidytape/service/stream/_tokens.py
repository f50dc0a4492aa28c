"""Resume tokens: where a stream stands, signed, so that it goes on where it stopped, on this server or another one."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from tidytape.errors import QueryError, TidytapeError

_LENGTH = 32  # bytes of the secret
_SIGNED = 16  # bytes of the signature that a token carries
_FORMAT = 1
_LONGEST = 4_096  # characters


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a stream: next it sends the difference between two moments, from some time on.

    Attributes
    ----------
    at : mapping of str to int
        The later moment: the version of each table that the query depends on.
    since : mapping of str to int or None
        The earlier moment; None while history is sent.
    until : int or None
        Up to when in time the difference was sent; None once all of it was. [s since the epoch]
    start : int
        Start of the window of the stream. [s since the epoch]
    over : mapping of str to int
        By data type the start of the last interval that was said to be over. [ns since the epoch]
    """

    at: Mapping[str, int]
    since: Mapping[str, int] | None
    until: int | None
    start: int
    over: Mapping[str, int] = field(default_factory=dict)

    @property
    def place(self) -> tuple[object, ...]:
        """A key that is the same for all streams of a query at this position, whatever their windows."""
        since = None if self.since is None else tuple(sorted(self.since.items()))
        return tuple(sorted(self.at.items())), since, self.until

    @property
    def is_whole(self) -> bool:
        """Whether everything up to the later moment was sent."""
        return self.until is None

    def narrowed(self, tables: Iterable[str]) -> Position:
        """Return the position by the versions of some tables alone."""
        since = None if self.since is None else {name: self.since.get(name, -1) for name in tables}
        return replace(self, at={name: self.at.get(name, -1) for name in tables}, since=since)

    def towards(self, at: Mapping[str, int]) -> Position:
        """Return the position at which the difference to a later moment begins."""
        return replace(self, at=at, since=self.at, until=self.start)

    def moved(self, over: Mapping[str, int]) -> dict[str, int]:
        """Return those starts of last intervals that are later than what was said before."""
        return {name: start for name, start in over.items() if start > self.over.get(name, -1)}

    def after(self, until: int, over: Mapping[str, int], *, is_last: bool) -> Position:
        """Return the position after a part of the difference was sent.

        Of each data type the later start counts: that of the part, or that of this position.
        """
        merged_over = {
            **self.over,
            **{name: max(start, self.over.get(name, start)) for name, start in over.items()},
        }
        if is_last:
            return replace(self, since=None, until=None, over=merged_over)
        return replace(self, until=until, over=merged_over)


def token_secret(path: str | os.PathLike[str]) -> bytes:
    """Return the secret that signs tokens, from a file that is made if it is not there.

    Replicas that share the file honour each other's tokens.

    Parameters
    ----------
    path : str or path
        A file of 64 hexadecimal digits, which only its owner can read.

    Raises
    ------
    TidytapeError
        If the file cannot be read or made, or holds something else.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "tokens"
    >>> token_secret(path) == token_secret(path)
    True
    """
    file = Path(path)
    try:
        try:
            # Linked into place, so that another process never reads half a secret.
            draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
            if not file.exists():
                with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
                    opened.write(secrets.token_hex(_LENGTH) + "\n")
                try:
                    os.link(draft, file)
                except FileExistsError:
                    pass  # another process was faster
                finally:
                    draft.unlink()
            text = file.read_text(encoding="ascii").strip()
        except UnicodeDecodeError:
            text = ""
    except OSError as error:
        raise TidytapeError(
            f"the secret of resume tokens at {file}: {error.strerror}; the first start makes it, so let the service "
            "write there, or name a file that it can read with --token-secret"
        ) from None
    if len(text) != 2 * _LENGTH or not set(text) <= set("0123456789abcdef"):
        raise TidytapeError(
            f"{file} is no secret of resume tokens: expected {2 * _LENGTH} hexadecimal digits"
        )
    return bytes.fromhex(text)


class Tokens:
    """Writes and reads resume tokens.

    Parameters
    ----------
    secret : bytes, optional
        What they are signed with; made for this object if left out.

    Examples
    --------
    >>> tokens, position = Tokens(), Position({"trades": 5}, None, 60, 0)
    >>> token = tokens.write(position, lake="id", query="digest")
    >>> tokens.read(token, lake="id", query="digest") == position
    True
    >>> Tokens().read(token, lake="id", query="digest")
    Traceback (most recent call last):
    ...
    tidytape.errors.QueryError: token: got 'WzEs...', expected a token that this service gave for this query
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secrets.token_bytes(_LENGTH) if secret is None else secret

    def write(self, position: Position, *, lake: str, query: str) -> str:
        """Return the token of a position; ``lake`` and ``query`` are the id of the lake and the digest of the query."""
        at, over = sorted(position.at.items()), sorted(position.over.items())
        since = None if position.since is None else sorted(position.since.items())
        text = orjson.dumps([_FORMAT, at, since, position.until, position.start, over])
        return _encoded(text) + "." + _encoded(self._signature(text, lake, query))

    def read(self, token: str, *, lake: str, query: str) -> Position:
        """Return the position of a token.

        Raises
        ------
        QueryError
            If it was not written by this service, for this lake and query.
        """
        try:
            text, signature = (
                base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
                for part in token[: _LONGEST + 1].split(".")
            )
            is_ours = len(token) <= _LONGEST and hmac.compare_digest(
                self._signature(text, lake, query), signature
            )
            fields: Any = orjson.loads(text) if is_ours else [0]
        except (ValueError, binascii.Error):
            fields = [0]
        if fields[0] != _FORMAT:
            raise QueryError("token", got=token, expected="a token that this service gave for this query")
        _, at, since, until, start, over = fields
        return Position(dict(at), None if since is None else dict(since), until, start, dict(over))

    def _signature(self, text: bytes, lake: str, query: str) -> bytes:
        named = hashlib.sha256(f"{lake}\n{query}".encode()).digest()
        return hmac.digest(self._secret, named + text, "sha256")[:_SIGNED]


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()
