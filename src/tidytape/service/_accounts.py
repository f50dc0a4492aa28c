"""Accounts: API keys, the tiers that a file defines, and what a key may spend."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import secrets
import stat
import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from tidytape.budget import MOST_BURST, TIERS, Admission, Tier, tier
from tidytape.catalogue import RATE_LIMIT_HEADERS, USAGE_FIELDS, WEIGHT_WINDOW_SECONDS, TierName
from tidytape.errors import QueryError, TidytapeError, did_you_mean, shown
from tidytape.query._values import choice, flag, whole_number, written_time
from tidytape.service._buckets import Buckets

_log = logging.getLogger("tidytape.service")
_KEY_BYTES = 32


def hashed(key: str) -> str:
    """Return the SHA-256 of a key: the only form in which the service stores it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Key:
    """What the service stores of a key.

    Attributes
    ----------
    id : str
        Public name, safe to log.
    sha256 : str
        Hash of the key.
    tier : str
        Name of its tier.
    created : int
        Epoch second at which it was made. [s]
    expires : int or None
        Epoch second at which it ends; None if never. [s]
    """

    id: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    tier: str
    created: int
    expires: int | None = None

    def is_over(self, now: float) -> bool:
        """Return whether it has expired at an epoch second."""
        return self.expires is not None and now >= self.expires


_KEYS = TypeAdapter(list[Key], config=ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True))


class Keys:
    """The keys that a service accepts, in memory.

    Parameters
    ----------
    keys : sequence of Key

    Attributes
    ----------
    faults : int
        How often their file could not be used; always 0 for keys in memory.

    Examples
    --------
    >>> keys = Keys([Key("demo", hashed("secret"), "basic", created=0, expires=100)])
    >>> keys.find("secret", now=99).id, keys.find("secret", now=100), keys.find("guess", now=0)
    ('demo', None, None)
    >>> keys.has("demo", now=99), keys.has("demo", now=100)
    (True, False)
    """

    def __init__(self, keys: list[Key]) -> None:
        self._set(keys)
        self.faults = 0

    def _set(self, keys: list[Key]) -> None:
        """Accept these keys and no others, and index them: a look-up takes as long for many keys as for one."""
        self._keys = keys
        self._by_sha256 = {key.sha256: key for key in keys}
        # A file written by hand may have an id twice; then the key that ends last counts.
        self._by_id = {
            key.id: key
            for key in sorted(keys, key=lambda key: math.inf if key.expires is None else key.expires)
        }

    def find(self, key: str, *, now: float) -> Key | None:
        """Return the entry of a key, or None if it is unknown or has expired."""
        self.all()
        # The duration of this look-up depends on the hash of the key alone, and nobody can choose that.
        match = self._by_sha256.get(hashed(key))
        return None if match is None or match.is_over(now) else match

    def has(self, key_id: str, *, now: float) -> bool:
        """Return whether there is a key with this public name that has not expired."""
        self.all()
        return key_id in self._by_id and not self._by_id[key_id].is_over(now)

    def all(self) -> list[Key]:
        """Return every key, expired ones included."""
        return self._keys


class KeyFile(Keys):
    """The keys in a file, which may change while the service runs.

    Parameters
    ----------
    path : str or path
        The file; it need not exist before its first use.
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
        self._stamp: tuple[int, int, int] | None = None
        self._lock = threading.Lock()

    def all(self) -> list[Key]:
        """Return the keys in the file; while the file cannot be trusted, the keys that were read before.

        Raises
        ------
        TidytapeError
            Only before the file was read once: if it is absent, is not a file of keys, can be written by every user
            of the machine, or has a key of a tier that there is not.
        """
        with self._lock:
            try:
                status = self._trusted()
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                if stamp != self._stamp or not self._is_read:
                    self._stamp = (
                        stamp  # set before reading, so that a broken file is read once and not per request
                    )
                    self._set(self._read())
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
        """Log and count each new fault of the file; a running service keeps the keys that it read before."""
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
            Epoch second at which it ends. [s]

        Returns
        -------
        (Key, str)
            What is stored, and the key itself, which is stored nowhere.

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
        """Remove a key; a running service refuses it at once.

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
            keys = _KEYS.validate_json(self.path.read_bytes())
        except OSError as error:
            raise TidytapeError(f"{self.path} is not a file of keys: {error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            place = "".join(f"{part}: " for part in first["loc"])
            raise TidytapeError(f"{self.path} is not a file of keys: {place}{first['msg']}") from None
        strange = [key for key in keys if key.tier.casefold() not in map(str.casefold, self._tiers)]
        if strange:
            faults = ", ".join(f"key {shown(key.id)} is of tier {shown(key.tier)}" for key in strange)
            raise TidytapeError(
                f"{self.path}: {faults}, and the tiers are {', '.join(self._tiers)}; a file of tiers (--tiers) "
                "names others"
            )
        return keys

    def _write(self, keys: list[Key]) -> None:
        # A symbolic link stays one: the service may read the file that it leads to.
        path = self.path.resolve()
        # mkstemp makes a file that only its owner can read; replacing is atomic.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_KEYS.dump_json(keys, indent=1))
                file.flush()
                _let_same_users_read(file.fileno(), path)
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _no_file(path: Path) -> TidytapeError:
    return TidytapeError(f"there is no key file {path}; 'tidytape keys new' makes one")


def _alone(path: Path) -> FileLock:
    """Return a lock of the file, under which no other process changes it, by whatever path it reaches it."""
    path = path.resolve()
    return FileLock(path.with_name(f".{path.name}.lock"))


def _let_same_users_read(new: int, path: Path) -> None:
    """Give a new file, by its handle, the owner and the mode of the file that it replaces.

    Who changes keys may be another user than the service, which would go on with the keys that it read before.
    """
    if sys.platform == "win32" or not path.exists():
        return
    before = path.stat()
    with suppress(PermissionError):  # only root may give a file away
        os.fchown(new, before.st_uid, before.st_gid)
    os.fchmod(new, stat.S_IMODE(before.st_mode) & ~stat.S_IWOTH)


_TIER_FIELDS = ("per_minute", "burst", "history_days", "aggregation", "types", "streams")


def tiers_of(path: str | os.PathLike[str] | None) -> Mapping[str, Tier]:
    """Return the tiers of a TOML file; the contract's tiers without a file.

    A table per tier::

        [student]
        per_minute = 20          # sustained budget [weight per min], needed
        burst = 40               # most weight at once [weight]; twice the budget where left out
        history_days = 30        # how far back [d]; without limit where left out
        aggregation = false      # may join exchanges into one series; false where left out
        types = "basic"          # the data types of this tier of the contract; basic where left out
        streams = 10             # how many streams a key may hold at once; 10 where left out

    Parameters
    ----------
    path : str or path, optional
        The file.

    Returns
    -------
    mapping of str to Tier

    Raises
    ------
    QueryError
        If the file cannot be read, or an entry of it is not a tier.
    """
    if path is None:
        return TIERS
    try:
        tables = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise QueryError("tiers", got=str(path), expected=f"a TOML file of tiers: {error}") from None
    except RecursionError:
        raise QueryError(
            "tiers",
            got=str(path),
            expected=f"a TOML file of tiers: line {_too_deep(Path(path).read_text('utf-8'))} has brackets within too "
            "many others",
        ) from None
    if not tables:
        raise QueryError("tiers", got=str(path), expected="at least one tier")
    tiers = {name.lower(): _tier(name.lower(), table) for name, table in tables.items()}
    if len(tiers) < len(tables):
        expected = "names that differ in more than capitals"
        raise QueryError("tiers", got=", ".join(tables), expected=expected)
    return tiers


def _too_deep(text: str) -> int:
    """Return the number of the first line with brackets that are too deep to be read."""
    with suppress(RecursionError):
        for number in range(1, text.count("\n") + 2):
            with suppress(ValueError):  # the lines up to here end within brackets
                tomllib.loads("\n".join(text.split("\n")[:number]))
    return number


def _tier(name: str, table: Any) -> Tier:
    if not isinstance(table, dict):
        raise QueryError("tiers", got=name, expected="a table of what the tier may ask for")
    for field in table:
        if field not in _TIER_FIELDS:
            expected, hint = "one of " + ", ".join(_TIER_FIELDS), did_you_mean(field, _TIER_FIELDS)
            raise QueryError("tiers", got=f"{name}.{field}", expected=expected, hint=hint)
    # Without a burst in the file, twice the budget must fit, and the error must name what the file has.
    most = MOST_BURST if "burst" in table else MOST_BURST // 2
    per_minute = whole_number(table.get("per_minute"), f"{name}.per_minute", low=1, high=most)
    days = table.get("history_days")
    return Tier(
        name,
        per_minute,
        whole_number(table.get("burst", 2 * per_minute), f"{name}.burst", low=1, high=MOST_BURST),
        None if days is None else whole_number(days, f"{name}.history_days", low=1),
        aggregation=flag(table.get("aggregation", False), f"{name}.aggregation"),
        rank=choice(table.get("types", "basic"), TierName, f"{name}.types"),
        streams=whole_number(table.get("streams", 10), f"{name}.streams", low=0),
    )


@dataclass(slots=True)
class Account:
    """A known key with its tier and its bucket, for one request.

    Attributes
    ----------
    key : Key
    tier : Tier
    buckets : Buckets
        The buckets, one of which is its own.
    state : Admission or None
        The last state of its bucket in this request, which the headers show; None before the first.
    """

    key: Key
    tier: Tier
    buckets: Buckets
    state: Admission | None = None

    async def take(self, weight: int) -> Admission:
        """Take a weight from the bucket if it holds it."""
        self.state = await self.buckets.take(self.key.id, self.tier, weight)
        return self.state

    async def give_back(self, weight: int) -> Admission:
        """Put weight back into the bucket, because the service did not answer the request that took it."""
        self.state = await self.buckets.give_back(self.key.id, self.tier, weight)
        return self.state

    async def look(self) -> Admission:
        """Return the state without taking anything."""
        self.state = await self.buckets.look(self.key.id, self.tier)
        return self.state


class Accounts:
    """Find the account of a key.

    Parameters
    ----------
    keys : Keys
        The keys that the service accepts.
    buckets : Buckets
        The buckets that count their weight.
    clock : callable
        Returns epoch nanoseconds. [ns]
    tiers : mapping of str to Tier
        The tiers that keys name.
    """

    def __init__(
        self, keys: Keys, *, buckets: Buckets, clock: Callable[[], int], tiers: Mapping[str, Tier] = TIERS
    ) -> None:
        self._keys = keys
        self._buckets = buckets
        self._clock = clock
        self._tiers = tiers

    def of(self, secret: str) -> Account | None:
        """Return the account of a key, or None if the key is unknown or has expired."""
        key = self._keys.find(secret, now=self._clock() / 1e9)
        return None if key is None else Account(key, tier(key.tier, self._tiers), self._buckets)


def rate_limit_headers(state: Admission) -> dict[str, str]:
    """Return the headers that go on every response to a known key."""
    return {name: str(getattr(state, field)) for name, field in RATE_LIMIT_HEADERS.items()}


def usage(state: Admission) -> dict[str, int]:
    """Return the body of ``GET /v1/usage``."""
    known = {**asdict(state), "window_seconds": WEIGHT_WINDOW_SECONDS}
    return {field.name: known[field.name] for field in USAGE_FIELDS}
