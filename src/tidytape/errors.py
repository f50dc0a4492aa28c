"""The error tree. Every error has its facts as attributes. No error contains a key.

::

    TidytapeError
    ├── QueryError (also a ValueError)   an argument is wrong; the client raises it before it sends the request
    │   ├── CallError (also a TypeError)  a call has an argument that the method does not have, or lacks one
    │   └── RefusedQueryError (also a FetchError)  the service refused a request that tidytape had accepted
    ├── FetchError                       a fetch failed after it began; base of RefusedQueryError and of these errors:
    │   ├── ServiceError                 the service did not answer the request
    │   │   ├── AuthenticationError      401: no key, an unknown key or an expired key
    │   │   ├── TierError                403: the tier of the key does not include the request
    │   │   ├── RateLimitError           429: the key has no weight left; ``retry_after`` is the time to wait
    │   │   ├── ServerError              5xx, 408, 425: the service failed; ``retry_after`` is the time to wait
    │   │   └── TransportError           no usable response arrived
    │   │       ├── CertificateError     the client cannot verify the certificate of the service
    │   │       └── ProxyError           the proxy between client and service failed
    │   ├── BudgetError                  the fetch would wait longer for the budget than ``max_wait``, or can never run
    │   ├── DecodeError                  the answer of the service does not have the format of the API
    │   ├── IncompleteDataError          the answer does not have all data of the window
    │   ├── StreamGapError               the stream cannot continue from its token
    │   └── TapeError                    the tape is damaged, or has no answer to the query
    ├── UnknownNameError (also an AttributeError)  an object does not have a method or attribute of this name
    ├── ForkError (also a RuntimeError)  the process was forked from one in which polars or the lake had run
    ├── MissingColumnError (also a KeyError)  a frame does not have a column that the function needs
    ├── IngestError                      a file cannot go into the lake; nothing of it was stored
    └── LakeError                        the lake cannot be opened, read or written

Warnings: `UnencryptedKeyWarning`, the client sends a key over plain http; `NoMatchWarning`, two frames of a join have
no equal keys; `EmptyAnswerWarning`, a market of the query has no points, and this is not because nothing happened;
`SettlementWarning`, a funding rate changes between two settlements; `SurvivorWarning`, it is not known until when some
markets existed; `GapWarning`, every result is null, because the frame has gaps everywhere.
"""

from __future__ import annotations

import html
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

__all__ = [
    "AuthenticationError",
    "BudgetError",
    "CallError",
    "CertificateError",
    "DecodeError",
    "EmptyAnswerWarning",
    "FetchError",
    "ForkError",
    "GapWarning",
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
    "SurvivorWarning",
    "TapeError",
    "TidytapeError",
    "TierError",
    "TransportError",
    "UnencryptedKeyWarning",
    "UnknownNameError",
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
        The word that a user wrote.
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
    by_folded = {str(name).casefold(): name for name in known}  # the name of a pandas column may be no string
    word = word[:_LONGEST_WORD].casefold()
    close = get_close_matches(word, by_folded, n=1, cutoff=0.6)
    close += [part for part in re.split(r"\W+", word) if part in by_folded]  # the coin of BTC/USDT
    return by_folded[close[0]] if close else None


def warn(warning: Warning) -> None:
    """Warn at the caller's line: the nearest one outside of tidytape."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tidytape."):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return an error's hint with the name that ``word`` most likely meant, or None.

    Examples
    --------
    >>> did_you_mean("intervall", ["interval", "side"])
    "did you mean 'interval'?"
    """
    close = nearest(word, known)
    return f"did you mean {close!r}?" if close else None


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun.

    Parameters
    ----------
    count : int
        The number.
    one, many : str
        The noun in the singular and in the plural; without ``many`` the plural adds an s.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(2, "entry", "entries")
    ('1 row', '2,000 rows', '2 entries')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def worded(text: str, spell: Callable[[str], str] = str) -> str:
    """Return a text in which parameters and calls have the names that its reader knows.

    Parameters
    ----------
    text : str
        The text. Double backticks stand around each parameter and each call, which are written as in Python.
    spell : callable
        Returns the reader's name for a parameter or a call; by default the name in Python.

    Examples
    --------
    >>> text = "a time after ``start``; or ``limit=9``"
    >>> worded(text), worded(text, lambda code: f"--{code.replace('=', ' ')}")
    ('a time after start; or limit=9', 'a time after --start; or --limit 9')
    """
    return _MARKED.sub(lambda mark: spell(mark[1]), text)


_LONGEST_WORD = 200  # letters; names are shorter, and it takes time to compare longer words
_MARKED = re.compile(r"``(.*?)``", re.DOTALL)  # a caller may pass any name, even an empty one


class Argument(str):
    """The name of an argument in a log line; the command line replaces it with the name of its option."""

    __slots__ = ()


class TidytapeError(Exception):
    """The base class of all errors of tidytape."""

    def __init__(self, message: str) -> None:
        self.marked = message  # with marked parameters, so that `worded` can name them for any reader
        self.message = worded(message)
        super().__init__(self.message)

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
    """An argument or a query is wrong.

    Attributes
    ----------
    parameter : str
        The name of the wrong parameter, as you wrote it.
    got : object
        The value that you passed; None if you did not pass the parameter.
    expected : str
        The allowed values.
    hint : str or None
        The value that you probably meant.
    code : str
        The code that the service uses for the same mistake, e.g. ``INVALID_PARAMS``.
    status : int or None
        The HTTP status, if the service refused the query; None, if the client found the mistake before sending.

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
            value_text = "left out" if got is None else f"got {shown(got)}"
            message = f"``{_cut(escaped(parameter))}``: {value_text}, expected {expected}"
            if hint:
                message += f"; {hint}"
        super().__init__(message)
        self.parameter = parameter
        self.got = got
        self.expected = worded(expected)
        self.hint = None if hint is None else worded(hint)
        self.code = code
        self.status = status
        self.marked_facts = expected, hint

    def renamed(self, names: Mapping[str, str]) -> QueryError:
        """Return the same error with its parameters under other names.

        Parameters
        ----------
        names : mapping of str to str
            The new name of each parameter that has another name.

        Examples
        --------
        >>> error = QueryError("end", got=0, expected="a time after ``start``")
        >>> str(error.renamed({"start": "from", "end": "to"}))
        'to: got 0, expected a time after from'
        """
        expected, hint = self.marked_facts

        def rename(name: str) -> str:
            return f"``{names.get(name, name)}``"

        return QueryError(
            names.get(self.parameter, self.parameter),
            got=self.got,
            expected=worded(expected, rename),
            hint=None if hint is None else worded(hint, rename),
            code=self.code,
            status=self.status,
        )


def shown(value: object, limit: int = 120) -> str:
    r"""Return a value as a message quotes it: on one line, with control characters written out, and cut if it is long.

    Examples
    --------
    >>> print(shown("a\nb"))
    'a\nb'
    """
    return _cut(escaped(repr(value)[: limit + 1]), limit)


def escaped(text: str, *, keep: str = "") -> str:
    r"""Return a text with escaped control characters, because a terminal acts on control characters of foreign texts.

    Examples
    --------
    >>> print(escaped("a\x1b\nb", keep="\n"))
    a\x1b
    b
    """
    if text.isprintable():  # as nearly all texts are, also long ones
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def html_text(text: str) -> str:
    r"""Return a text for an element of HTML, with its control characters written out, those of direction among them.

    Examples
    --------
    >>> print(html_text("<a>\u202eb"))
    &lt;a&gt;\u202eb
    """
    return html.escape(escaped(text, keep="\n"), quote=False)


def _cut(text: str, limit: int = 120) -> str:
    # Double backticks mark parameters in a message, so escape those in foreign text.
    text = text.replace("``", r"`\x60")
    return text if len(text) <= limit else text[: limit - 1] + "…"


class FetchError(TidytapeError):
    """A fetch failed after it began: the base class of all such errors.

    A wrong argument raises a `QueryError` before the fetch begins.

    Examples
    --------
    >>> all(issubclass(kind, FetchError) for kind in (TransportError, BudgetError, DecodeError, RefusedQueryError))
    True
    """


class RefusedQueryError(QueryError, FetchError):
    """The service refused a request that tidytape had accepted (HTTP 400, 403, 414 or 431)."""


class CallError(QueryError, TypeError):
    """A call has an argument that the method does not have, or lacks one that it needs.

    It is also a TypeError, which Python raises for such a call of any other function.
    """


class UnknownNameError(TidytapeError, AttributeError):
    """An object does not have a method or attribute of this name. The message names the method that does the same.

    It is also an AttributeError, so ``hasattr`` returns False.
    """


class ForkError(TidytapeError, RuntimeError):
    """The process was forked from a process in which polars or the lake had run; neither works in such a process.

    Examples
    --------
    >>> print(ForkError())
    polars or a lake ran before this process was forked, so neither works here; start processes with \
multiprocessing.get_context("spawn"), and pass that to ProcessPoolExecutor as mp_context
    """

    def __init__(self) -> None:
        super().__init__(
            "polars or a lake ran before this process was forked, so neither works here; start processes with "
            'multiprocessing.get_context("spawn"), and pass that to ProcessPoolExecutor as mp_context'
        )


class ServiceError(FetchError):
    """The service did not answer the request.

    Attributes
    ----------
    status : int or None
        The HTTP status; None if no response arrived.
    code : str or None
        The error code of the service.
    url : str or None
        The address of the request. It does not contain the key, which is in a header.
    weight : int or None
        Weight of the request. [weight]
    request_id : str or None
        The id that the service gave the request. The operator finds it in the log of the service.
    retry_after : float or None
        The time after which you may send the request again; None if the service does not state it. [s]
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
    """The request has no key, an unknown key or an expired key (HTTP 401)."""


class TierError(ServiceError):
    """The tier of the key does not include the request (HTTP 403)."""


class RateLimitError(ServiceError):
    """The key does not have enough weight left for the request (HTTP 429)."""


class ServerError(ServiceError):
    """The service failed, or it was not ready (HTTP 5xx, 408, 425)."""


class TransportError(ServiceError):
    """No usable response arrived: the connection was refused, reset, too slow or cut, or the response was not HTTP."""


class CertificateError(TransportError):
    """The client cannot verify the certificate of the service, or it has no certificates to compare it with."""


class ProxyError(TransportError):
    """The proxy between client and service refused the connection, or the address of the proxy is wrong."""


class UnencryptedKeyWarning(UserWarning):
    """The client sends a key to another machine over plain http, so others can read the key."""


class BudgetError(FetchError):
    """The fetch would wait too long for the budget of the key, or it can never run.

    Too long is longer than ``max_wait`` of the client; with ``on_limit="raise"`` any wait is too long. A fetch can
    never run if its smallest possible request weighs more than the burst of the tier.

    Attributes
    ----------
    weight : int
        The weight that the fetch needs. [weight]
    available : int
        The weight that the key has, or can have at most. [weight]
    seconds : float or None
        The time until the key has enough weight; None if it never has enough. [s]
    """

    def __init__(self, message: str, *, weight: int, available: int, seconds: float | None = None) -> None:
        super().__init__(message)
        self.weight = weight
        self.available = available
        self.seconds = seconds


class DecodeError(FetchError):
    """The answer of the service does not have the format of the API.

    Attributes
    ----------
    data_type : str or None
        The data type of the answer.
    series : str or None
        The wrong series, written as its identity.
    point : int or None
        The position of the wrong point in that series, from 0.
    length : int or None
        The length of the wrong array.
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
    """The answer does not have all data of the window.

    Attributes
    ----------
    missing : tuple of (int, int)
        Half-open spans without points, or with points that contradict each other, as epoch seconds in UTC. [s]
    """

    def __init__(self, message: str, *, missing: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing


class TapeError(FetchError):
    """The tape cannot be read, was changed after the recording, or has no answer to the query.

    Attributes
    ----------
    path : str or None
        The path of the tape.
    entries : tuple of int
        The numbers of the damaged entries, from 1.
    """

    def __init__(self, message: str, *, path: str | None = None, entries: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path
        self.entries = entries


class StreamGapError(FetchError):
    """The stream cannot continue from its token: the lake of the service no longer has the events since then.

    Attributes
    ----------
    data_types : tuple of str
        The data types of the stream.
    over : mapping of str to datetime
        By data type, the start of the last interval that was over. The stream had sent everything up to it. A data type
        without such an interval is absent. [UTC]
    token : str or None
        The token that the service refused.
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
    """A frame does not have a column that the function needs.

    Attributes
    ----------
    missing : tuple of str
        The columns that are absent.
    available : tuple of str
        The columns of the frame.
    hint : str or None
        A call that returns a frame with these columns.

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
        close = _renaming(self.missing, self.available)
        if not close and has_nearest and isinstance(first, str):
            close = did_you_mean(first, self.available)
        super().__init__("; ".join(filter(None, [message, close, hint])))


_OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("date", "datetime", "time", "open_time", "opentime", "ts"), "timestamp")
    | dict.fromkeys(("vol", "base_volume"), "volume")
    | dict.fromkeys(("qty", "quantity", "size"), "amount")
    | dict.fromkeys(("symbol", "ticker", "instrument"), "raw_symbol")
    | {"o": "open", "h": "high", "l": "low", "c": "close", "v": "volume", "px": "price", "venue": "exchange"}
)
"""Names of columns in frames of other libraries, in lower case, with the names that they have here."""


def _renaming(missing: Iterable[object], available: Iterable[str]) -> str | None:
    """Return the hint to rename columns that a frame has under names of other libraries, or None."""
    missing = [name for name in missing if isinstance(name, str)]  # an argument may have named anything
    lowered = {str(name): str(name).lower() for name in available}
    names = {name: _OTHER_NAMES.get(lower, lower) for name, lower in lowered.items()}
    renaming = {name: own_name for name, own_name in names.items() if own_name in missing}
    return f"rename its columns: {renaming}" if renaming else None


class NoMatchWarning(UserWarning):
    """Two frames do not match: no row of one has the keys of a row of the other, or only one of them has a name.

    Attributes
    ----------
    keys : tuple of str
        The columns that must be equal.
    """

    def __init__(self, message: str, *, keys: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.keys = tuple(keys)


class GapWarning(UserWarning):
    """Every result is null, because the frame has gaps everywhere, e.g. the nights of a market that closes."""


class SurvivorWarning(UserWarning):
    """The service does not tell the last event of some markets, so they count as markets that still exist.

    A study of the past that uses them may have a survivors' bias.
    """


class SettlementWarning(UserWarning):
    """A funding rate changes between two settlements, so the sum of the payments may be wrong.

    Either the market settles more often or at other times than the argument says, or the rate has not settled yet.

    Attributes
    ----------
    parameter : str
        The argument that says when the market settles.
    got : object
        The value that you passed.
    expected : str
        The allowed values.
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
    """A file cannot go into the lake; nothing of it was stored.

    Attributes
    ----------
    path : str or None
        The path of the file, if there is one.
    line : int or None
        The number of the broken line, from 1.
    bad_lines : int
        The number of broken lines.
    failures : tuple of (str, TidytapeError)
        If you ingested several files: the path and the error of each file that failed.
    report : IngestReport or None
        If you ingested several files, or followed logs: the report of what is in the lake.
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
    """The lake cannot be opened, read or written.

    Attributes
    ----------
    path : str or None
        The path of the lake.
    """

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class EmptyAnswerWarning(UserWarning):
    """A market of the query has no points, and this is not because nothing happened.

    Either the market has no data of this type, or the service has no data for the window, or no interval of the window
    has begun, or the tier of the key does not include the market or the window.

    Attributes
    ----------
    reasons : tuple of Reason
        One reason per market; ``metadata.reason`` of ``client.fetch`` also has the reasons of the other markets.
    """

    def __init__(self, message: str, *, reasons: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons
