"""The error tree. Every error carries its facts as attributes, and never a key.

::

    TidytapeError
    ├── QueryError (also a ValueError)   a request that cannot be right; raised before anything is sent or charged
    │   └── RefusedQueryError (also a FetchError)  the service refused a request that tidytape let through
    ├── FetchError                       a fetch that began and brought no data: every error below it
    │   ├── ServiceError                 the service was asked and did not give an answer
    │   │   ├── AuthenticationError      401: no key, an unknown key or an expired one
    │   │   ├── TierError                403: the key's tier does not include this
    │   │   ├── RateLimitError           429: the budget is used up; ``retry_after`` says for how long
    │   │   ├── ServerError              5xx, 408, 425: the service failed; ``retry_after`` says when to come back
    │   │   └── TransportError           no usable response came back at all
    │   │       ├── CertificateError     the service's certificate cannot be trusted
    │   │       └── ProxyError           the proxy on the way to the service
    │   ├── BudgetError                  the budget of the key admits it later than the caller waits, or never
    │   ├── DecodeError                  a body that is not what the contract says
    │   ├── IncompleteDataError          a result that does not cover what was asked
    │   ├── StreamGapError               a stream that cannot go on from where it was
    │   └── TapeError                    a tape that is damaged, or has no answer to what is asked
    ├── MissingColumnError (also a KeyError)  a frame without a column the function needs
    ├── IngestError                      a file that cannot go into the lake; nothing of it was stored
    └── LakeError                        a lake that cannot be opened, read or written

Warnings: `UnencryptedKeyWarning`, a key is sent where others can read it; `NoMatchWarning`, nothing of one frame meets
the other that it was joined with; `EmptyAnswerWarning`, a market that was asked for has no points, and not because
nothing happened; `SettlementWarning`, rates change between the settlements that were assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any

__all__ = [
    "AuthenticationError",
    "BudgetError",
    "CertificateError",
    "DecodeError",
    "EmptyAnswerWarning",
    "FetchError",
    "IncompleteDataError",
    "IngestError",
    "LakeError",
    "MissingColumnError",
    "NoMatchWarning",
    "ProxyError",
    "QueryError",
    "RateLimitError",
    "RefusedQueryError",
    "ServerError",
    "ServiceError",
    "SettlementWarning",
    "StreamGapError",
    "TapeError",
    "TidytapeError",
    "TierError",
    "TransportError",
    "UnencryptedKeyWarning",
    "counted",
    "did_you_mean",
    "nearest",
    "shown",
]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``word`` most likely meant, or None.

    Parameters
    ----------
    word : str
        What was written.
    known : iterable of str
        The names that exist.

    Returns
    -------
    str or None
        The closest name, compared without regard to case.

    Examples
    --------
    >>> nearest("intervall", ["interval", "side"])
    'interval'
    >>> nearest("volume", ["side"]) is None
    True
    """
    by_folded = {name.casefold(): name for name in known}
    close = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the hint of an error that names what ``word`` most likely meant, or None.

    Examples
    --------
    >>> did_you_mean("intervall", ["interval", "side"])
    "did you mean 'interval'?"
    """
    close = nearest(word, known)
    return f"did you mean {close!r}?" if close else None


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number and what there is so many of.

    Parameters
    ----------
    count : int
        How many.
    one, many : str
        What it is called alone, and together; with an s where ``many`` is left out.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(2, "entry", "entries")
    ('1 row', '2,000 rows', '2 entries')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


class TidytapeError(Exception):
    """The base of every error tidytape raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Facts are keyword-only, so the default (cls, args) would not rebuild the error in another process.
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(kind: type[TidytapeError], message: str, facts: dict[str, Any]) -> TidytapeError:
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(facts)
    return error


class QueryError(TidytapeError, ValueError):
    """A request or an argument that cannot be right.

    Attributes
    ----------
    parameter : str
        The name of the offending parameter, as the caller wrote it.
    got : object
        What it was given; None where it was left out.
    expected : str
        What it takes.
    hint : str or None
        What was probably meant.
    code : str
        The service's error code for the same mistake, e.g. ``INVALID_PARAMS``.
    status : int or None
        The HTTP status when the service said it, None when it was found before sending.

    Examples
    --------
    >>> str(QueryError("interval", got="2m", expected="one of 1m, 5m", hint="did you mean '1m'?"))
    "interval: got '2m', expected one of 1m, 5m; did you mean '1m'?"
    >>> str(QueryError("interval", got=None, expected="one of 1m, 5m"))
    'interval: left out, expected one of 1m, 5m'
    """

    def __init__(
        self,
        parameter: str,
        *,
        got: object,
        expected: str,
        hint: str | None = None,
        code: str = "INVALID_PARAMS",
        status: int | None = None,
        message: str | None = None,
    ) -> None:
        if message is None:
            given = "left out" if got is None else f"got {shown(got)}"
            message = f"{_cut(parameter)}: {given}, expected {expected}"
            if hint:
                message += f"; {hint}"
        super().__init__(message)
        self.parameter = parameter
        self.got = got
        self.expected = expected
        self.hint = hint
        self.code = code
        self.status = status


def shown(value: object, limit: int = 120) -> str:
    r"""Return what was given as a message quotes it: on one line, and not without end.

    Examples
    --------
    >>> print(shown("a\nb"))
    'a\nb'
    """
    return _cut(repr(value), limit)


def _cut(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


class FetchError(TidytapeError):
    """A fetch that began and brought no data: the base of every way in which that happens.

    An argument that cannot be right is a `QueryError`, raised before a fetch begins.

    Examples
    --------
    >>> all(issubclass(kind, FetchError) for kind in (TransportError, BudgetError, DecodeError, RefusedQueryError))
    True
    """


class RefusedQueryError(QueryError, FetchError):
    """A request that tidytape let through and the service refused (HTTP 400)."""


class ServiceError(FetchError):
    """The service was asked and did not give an answer.

    Attributes
    ----------
    status : int or None
        HTTP status, None where no response arrived.
    code : str or None
        The service's error code.
    url : str or None
        The address that was asked. It holds no key: keys travel in a header only.
    weight : int or None
        Weight of the request. [weight]
    request_id : str or None
        The service's id of the request, for its operator.
    retry_after : float or None
        Seconds until the same request may be answered, where the service says so. [s]
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        url: str | None = None,
        weight: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.url = url
        self.weight = weight
        self.request_id = request_id
        self.retry_after = retry_after


class AuthenticationError(ServiceError):
    """No key, an unknown key, or an expired one (HTTP 401)."""


class TierError(ServiceError):
    """The key's tier does not include what was asked (HTTP 403)."""


class RateLimitError(ServiceError):
    """The weight budget is used up (HTTP 429)."""


class ServerError(ServiceError):
    """The service failed, or was not ready (HTTP 5xx, 408, 425)."""


class TransportError(ServiceError):
    """No usable response came back: refused, reset, timed out, ended early, or not HTTP."""


class CertificateError(TransportError):
    """The certificate of the service cannot be trusted, or there is nothing to hold it against."""


class ProxyError(TransportError):
    """The proxy on the way to the service refused, or its address cannot be used."""


class UnencryptedKeyWarning(UserWarning):
    """A key is sent to another machine over plain http, where everyone on the way can read it."""


class BudgetError(FetchError):
    """The budget of the key admits a fetch later than the caller waits, or never.

    Later: the fetch would have to wait longer than ``max_wait`` of the client, or at all with ``on_limit="raise"``.
    Never: one request for the fewest points that can be asked for weighs more than the bucket of the tier can hold.

    Attributes
    ----------
    weight : int
        The weight that was needed. [weight]
    available : int
        The weight that could be had. [weight]
    seconds : float or None
        How long it would have taken until it could be had; None where it never could. [s]
    """

    def __init__(self, message: str, *, weight: int, available: int, seconds: float | None = None) -> None:
        super().__init__(message)
        self.weight = weight
        self.available = available
        self.seconds = seconds


class DecodeError(FetchError):
    """A body that is not what the contract says.

    Attributes
    ----------
    data_type : str or None
        The data type that was being decoded.
    series : str or None
        The series at fault, written as its identity.
    point : int or None
        The position of the point in that series, from 0.
    length : int or None
        The length of the array at fault.
    """

    def __init__(
        self,
        message: str,
        *,
        data_type: str | None = None,
        series: str | None = None,
        point: int | None = None,
        length: int | None = None,
    ) -> None:
        super().__init__(message)
        self.data_type = data_type
        self.series = series
        self.point = point
        self.length = length


class IncompleteDataError(FetchError):
    """A result that does not cover what was asked.

    Attributes
    ----------
    missing : tuple of (int, int)
        Half-open spans without points, or with points that contradict each other, as epoch seconds in UTC. [s]
    """

    def __init__(self, message: str, *, missing: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing


class TapeError(FetchError):
    """A tape that cannot be read, is not what was recorded, or has no answer to what is asked.

    Attributes
    ----------
    path : str or None
        The tape.
    entries : tuple of int
        The entries at fault, counted from 1.
    """

    def __init__(self, message: str, *, path: str | None = None, entries: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path
        self.entries = entries


class StreamGapError(FetchError):
    """A stream that cannot go on from where it was: the service no longer has what happened since.

    Attributes
    ----------
    data_types : tuple of str
        What was streamed.
    over : mapping of str to datetime
        By data type the start of the last interval that was over: everything up to it had been delivered. [UTC]
        A type of which no interval was over is absent.
    token : str or None
        The token that cannot be honoured.
    """

    def __init__(
        self,
        message: str,
        *,
        data_types: tuple[str, ...],
        over: Mapping[str, datetime],
        token: str | None = None,
    ) -> None:
        super().__init__(message)
        self.data_types = data_types
        self.over = over
        self.token = token


class MissingColumnError(TidytapeError, KeyError):
    """A frame without a column the function needs.

    Attributes
    ----------
    missing : tuple of str
        The columns that are absent.
    available : tuple of str
        The columns the frame has.
    hint : str or None
        Which call returns a frame that has them.

    Examples
    --------
    >>> str(MissingColumnError(["volume"], available=["price", "volumes"]))
    "missing column 'volume'; the frame has 'price', 'volumes'; did you mean 'volumes'?"
    """

    def __init__(
        self,
        missing: Iterable[str],
        *,
        available: Iterable[str],
        hint: str | None = None,
        has_nearest: bool = True,  # whether the message suggests the column with the nearest name
    ) -> None:
        self.missing = tuple(missing)
        self.available = tuple(available)
        self.hint = hint
        names = ", ".join(map(repr, self.missing))
        plural = "s" if len(self.missing) > 1 else ""
        message = (
            f"missing column{plural} {names}; the frame has {', '.join(map(repr, self.available)) or 'none'}"
        )
        first = next(iter(self.missing), None)
        close = did_you_mean(first, self.available) if has_nearest and isinstance(first, str) else None
        super().__init__("; ".join(filter(None, [message, close, hint])))


class NoMatchWarning(UserWarning):
    """Nothing of one frame meets the other that it was joined with, so that every value of that one is null.

    Attributes
    ----------
    keys : tuple of str
        The columns that must be equal.
    """

    def __init__(self, message: str, *, keys: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.keys = tuple(keys)


class SettlementWarning(UserWarning):
    """A funding rate changes between the settlements that were assumed, so the sum may be of other payments.

    Either the market settles more often or at other times, or the rate is one that is still to settle.

    Attributes
    ----------
    parameter : str
        The argument that says when the market settles.
    got : object
        What it was given.
    expected : str
        What it takes.
    hint : str
        How often the rate changes, and what to pass.

    Examples
    --------
    >>> print(SettlementWarning("settled_every", got="8h", expected="the market's own", hint="pass '1h'"))
    settled_every: got '8h', expected the market's own; pass '1h'
    """

    def __init__(self, parameter: str, *, got: object, expected: str, hint: str) -> None:
        super().__init__(f"{parameter}: got {shown(got)}, expected {expected}; {hint}")
        self.parameter = parameter
        self.got = got
        self.expected = expected
        self.hint = hint


class IngestError(TidytapeError):
    """A file that cannot go into the lake; nothing of it was stored.

    Attributes
    ----------
    path : str or None
        The file, where there is one.
    line : int or None
        The line at fault, from 1.
    bad_lines : int
        How many lines were broken.
    failures : tuple of (str, TidytapeError)
        Of several files: the path of each that could not go in, and why.
    report : IngestReport or None
        Of several files: what became of the others, which went in.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        bad_lines: int = 0,
        failures: tuple[tuple[str, TidytapeError], ...] = (),
        report: Any = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.line = line
        self.bad_lines = bad_lines
        self.failures = failures
        self.report = report


class LakeError(TidytapeError):
    """A lake that cannot be opened, read or written.

    Attributes
    ----------
    path : str or None
        Where the lake is.
    """

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class EmptyAnswerWarning(UserWarning):
    """A market that was asked for has no points, and not because nothing happened.

    It has no such data, the window lies outside of what is held, no interval of the window has begun, or the tier of
    the key does not see it.

    Attributes
    ----------
    reasons : tuple of Reason
        One per market; ``metadata.reason`` of ``client.fetch`` has those of the other markets too.
    """

    def __init__(self, message: str, *, reasons: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons
