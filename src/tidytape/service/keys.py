"""API keys: made once, shown once, stored as hashes, compared in constant time.

The file is JSON, one object per key: ``{"id", "sha256", "tier", "created", "expires"}``. It is written whole and
atomically, with access for its owner only, and read again when it changes, so keys rotate without a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tidytape.budget import TIERS, Tier, tier
from tidytape.errors import QueryError, TidytapeError, did_you_mean, shown
from tidytape.query.values import written_time

if sys.platform != "win32":
    import fcntl

__all__ = ["Key", "KeyFile", "Keys", "hashed"]

_KEY_BYTES = 32
_log = logging.getLogger("tidytape.service")


def hashed(key: str) -> str:
    """Return the SHA-256 of a key, the only form in which it is ever stored."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Key:
    """One account's key, without the key.

    Attributes
    ----------
    id : str
        Public name, safe to log.
    sha256 : str
        Hash of the key.
    tier : str
        Name of its tier.
    created : int
        Epoch second it was made at. [s]
    expires : int or None
        Epoch second it ends at; None is never. [s]
    """

    id: str
    sha256: str
    tier: str
    created: int
    expires: int | None = None


class Keys:
    """The keys a service knows, held in memory.

    Parameters
    ----------
    keys : sequence of Key

    Attributes
    ----------
    faults : int
        How often the place they come from could not be used; of keys in memory always 0.

    Examples
    --------
    >>> keys = Keys([Key("demo", hashed("secret"), "basic", created=0, expires=100)])
    >>> keys.find("secret", now=99).id, keys.find("secret", now=100), keys.find("guess", now=0)
    ('demo', None, None)
    """

    def __init__(self, keys: list[Key]) -> None:
        self._keys = keys
        self.faults = 0

    def find(self, key: str, *, now: float) -> Key | None:
        """Return the valid key that ``key`` is, or None if it is unknown or has expired."""
        digest = hashed(key)
        found = None
        # Every stored hash is compared, each in constant time: the time taken says nothing about any of them.
        for known in self.all():
            if hmac.compare_digest(known.sha256, digest):
                found = known
        if found is None or (found.expires is not None and now >= found.expires):
            return None
        return found

    def all(self) -> list[Key]:
        """Return every key, expired ones included."""
        return self._keys


class KeyFile(Keys):
    """The keys in a file, which may change while the service runs.

    Parameters
    ----------
    path : str or path
        The file; it need not exist until a key is asked for.
    tiers : mapping of str to Tier
        The tiers that keys may name.

    Attributes
    ----------
    faults : int
        How often the file was found deleted, unreadable or writable by every user since it was first read.
    """

    def __init__(self, path: str | os.PathLike[str], *, tiers: Mapping[str, Tier] = TIERS) -> None:
        super().__init__([])
        self._tiers = tiers
        self.path = Path(path)
        self._fault: str | None = None
        self._is_read = False
        self._seen: tuple[int, int, int] | None = None
        self._lock = threading.Lock()

    def all(self) -> list[Key]:
        """Return every key in the file as it is now; the keys read before, while the file cannot be trusted.

        Raises
        ------
        TidytapeError
            Only before the file was read once: if it is absent, is not a file of keys, can be written by every user
            of the machine, or has a key of a tier that there is not.
        """
        with self._lock:
            try:
                status = self._trusted()
                seen = (status.st_mtime_ns, status.st_size, status.st_ino)
                if seen != self._seen or not self._is_read:
                    self._seen = (
                        seen  # before it is read: what is no file of keys is not read at every request
                    )
                    self._keys = self._read()
                    self._is_read = True
                self._fault = None
            except TidytapeError as error:
                if not self._is_read:
                    raise
                self._report(error)
            return self._keys

    def _trusted(self) -> os.stat_result:
        try:
            status = self.path.stat()
        except OSError:
            raise _no_file(self.path) from None
        if sys.platform != "win32" and status.st_mode & stat.S_IWOTH:
            raise TidytapeError(
                f"every user of this machine can write to {self.path}, so whoever likes can add a key; "
                f"'chmod 600 {self.path}' mends it"
            )
        return status

    def _report(self, error: TidytapeError) -> None:
        """Log a fault of the file once, and count it: a service that runs goes on with the keys it knows."""
        if self._fault != error.message:
            self._fault = error.message
            self.faults += 1
            _log.error("%s; the keys read before stay in force", error.message)

    def new(self, tier_name: str, *, expires: int | None = None) -> tuple[Key, str]:
        """Make a key and store its hash.

        Parameters
        ----------
        tier_name : str
            Name of a tier, in any case.
        expires : int, optional
            Epoch second it ends at. [s]

        Returns
        -------
        (Key, str)
            What was stored, and the key itself, which exists nowhere else.

        Raises
        ------
        QueryError
            If there is no such tier, or the end lies in the past.
        """
        now = int(datetime.now(UTC).timestamp())
        if expires is not None and expires <= now:
            raise QueryError("expires", got=written_time(expires), expected="a time in the future")
        secret = secrets.token_urlsafe(_KEY_BYTES)
        key = Key(secrets.token_hex(4), hashed(secret), tier(tier_name, self._tiers).name, now, expires)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, _alone(self.path):
            self._write([*(self._read() if self.path.exists() else []), key])
        return key, secret

    def revoke(self, key_id: str) -> Key:
        """Remove a key, which is unknown from then on; a service that runs sees it at once.

        Parameters
        ----------
        key_id : str
            Public name of the key.

        Returns
        -------
        Key
            What was removed.

        Raises
        ------
        QueryError
            If the file has no such key.
        TidytapeError
            If the file is absent or is not a file of keys.
        """
        if not self.path.exists():
            raise _no_file(self.path)
        with self._lock, _alone(self.path):
            keys = self._read()
            gone = [key for key in keys if key.id == key_id]
            if not gone:
                hint = did_you_mean(key_id, (key.id for key in keys))
                raise QueryError("id", got=key_id, expected=f"the id of a key in {self.path}", hint=hint)
            self._write([key for key in keys if key.id != key_id])
        return gone[0]

    def _read(self) -> list[Key]:
        try:
            entries = json.loads(self.path.read_text("utf-8"))
            if not isinstance(entries, list):
                raise TypeError("expected a list of keys")
            keys = [_checked(Key(**entry)) for entry in entries]
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise TidytapeError(f"{self.path} is not a file of keys: {error}") from None
        strange = [key for key in keys if key.tier.casefold() not in map(str.casefold, self._tiers)]
        if strange:
            told = ", ".join(f"key {shown(key.id)} is of tier {shown(key.tier)}" for key in strange)
            raise TidytapeError(
                f"{self.path}: {told}, and the tiers are {', '.join(self._tiers)}; a file of tiers (--tiers) "
                "names others"
            )
        return keys

    def _write(self, keys: list[Key]) -> None:
        # mkstemp makes a file that only its owner can read; replacing is atomic.
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump([asdict(key) for key in keys], file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _no_file(path: Path) -> TidytapeError:
    return TidytapeError(f"there is no key file {path}; 'tidytape keys new' makes one")


def _checked(key: Key) -> Key:
    """Refuse a key whose facts are not of their kinds."""
    kinds = (isinstance(key.id, str), isinstance(key.sha256, str), isinstance(key.tier, str))
    times = (isinstance(key.created, int), key.expires is None or isinstance(key.expires, int))
    if not all(kinds + times) or not re.fullmatch(r"[0-9a-f]{64}", key.sha256):
        raise TypeError(f"a key's id, sha256, tier, created or expires is not what it should be: {key.id!r}")
    return key


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from changing the file at the same time, where the system has such locks."""
    if sys.platform == "win32":
        yield
        return
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
