"""An exchange that answers through ccxt: its markets and pages, asked again after a failure, with our errors."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from tidytape.archives._pull_keys import without_keys
from tidytape.archives._pull_rows import milliseconds
from tidytape.errors import (
    AuthenticationError,
    DecodeError,
    FetchError,
    QueryError,
    RateLimitError,
    RefusedQueryError,
    ServerError,
    ServiceError,
    TidytapeError,
    TransportError,
    did_you_mean,
    escaped,
)
from tidytape.times import MILLISECOND

_WAITS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
"""Pauses before a request is sent again after a failure that may pass. [ms]"""
_FEW_WAITS = _WAITS[:2]
"""Those before the first answer, because there may be no network. [ms]"""

_KEYS = {"apiKey": "KEY", "secret": "SECRET", "password": "PASSWORD"}
"""Parts of a key in ccxt, and the end of the variable of the environment that holds it."""

_REFUSALS = ("BadRequest", "ArgumentsRequired", "NotSupported", "OperationRejected")
_FAILURES: tuple[tuple[str, type[ServiceError]], ...] = (
    ("AuthenticationError", AuthenticationError),
    ("DDoSProtection", RateLimitError),
    ("RateLimitExceeded", RateLimitError),
    ("ExchangeNotAvailable", ServerError),
    ("BadResponse", ServerError),
    ("OperationFailed", TransportError),
    ("BaseError", ServiceError),
)
"""Errors of ccxt, and ours. The first class that an error has counts."""

_LONGEST = 300
"""Most characters of an exchange's own words in an error."""


def _ccxt() -> Any:
    try:
        import ccxt
    except ModuleNotFoundError:
        raise TidytapeError("pull needs an extra: pip install 'tidytape[ccxt]'") from None
    return ccxt


class Source:
    """An exchange that is asked through ccxt.

    Parameters
    ----------
    exchange : str or ccxt.Exchange
        The name of its class in ccxt, or an object of the caller's.

    Raises
    ------
    QueryError
        If ccxt has no such exchange, or the object is asynchronous or of another library.
    TidytapeError
        If ccxt is not installed.
    """

    def __init__(self, exchange: object) -> None:
        self._ccxt = _ccxt()
        self.exchange: Any = self._by_name(exchange) if isinstance(exchange, str) else exchange
        if not isinstance(self.exchange, self._ccxt.Exchange) or inspect.iscoroutinefunction(
            self.exchange.load_markets
        ):
            kind = type(exchange).__name__
            raise QueryError(
                "exchange", got=kind, expected="a name such as 'bybit', or an object of ccxt.bybit"
            )
        self.name: str = self.exchange.id
        self._has_answered = False

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    def _by_name(self, name: str) -> object:
        if name not in self._ccxt.exchanges:
            hint = did_you_mean(name, self._ccxt.exchanges)
            raise QueryError("exchange", got=name, expected="the name of an exchange in ccxt", hint=hint)
        prefix = f"TIDYTAPE_{name.upper()}_API_"
        keys = {part: os.environ[prefix + end] for part, end in _KEYS.items() if prefix + end in os.environ}
        return getattr(self._ccxt, name)(keys)

    def has(self, feature: str) -> bool:
        """Return whether ccxt asks the exchange itself for something, e.g. ``fetchOHLCV``."""
        return bool(self.exchange.has.get(feature) is True)

    def market(self, symbol: str) -> dict[str, Any]:
        """Return what ccxt says about a market; QueryError if the exchange does not have it."""
        markets = self.ask("load_markets")
        if symbol not in markets:
            raise QueryError(
                "symbols",
                got=symbol,
                expected=f"a symbol of {self.name} in ccxt, e.g. BTC/USDT, or BTC/USDT:USDT for a perpetual",
                hint=did_you_mean(str(symbol), markets),
            )
        listing = markets[symbol]
        # Of a market that a caller made by hand, ccxt may know the class by its flags only.
        kind = next((kind for kind in ("spot", "swap", "future", "option") if listing.get(kind)), None)
        return {**listing, "type": listing.get("type") or kind}

    def page_length(self, symbol: str) -> int | None:
        """Return the most candles that an answer has; None if ccxt does not say it."""
        limit = self.exchange.feature_value(symbol, "fetchOHLCV", "limit")
        return limit if isinstance(limit, int) else None

    def now(self) -> int:
        """Return the time by the exchange's clock, by this machine's if the exchange does not tell it. [ns]"""
        time = self.ask("fetch_time", read=_clock) if self.has("fetchTime") else None
        return (time or int(self.exchange.milliseconds())) * MILLISECOND

    def ask(self, method: str, *arguments: object, read: Callable[[Any], Any] = lambda answer: answer) -> Any:
        """Return what is read of the answer to a method of ccxt.

        tidytape calls the method again, after longer and longer pauses, while it fails for a reason that may pass, such
        as a lost connection.

        Raises
        ------
        DecodeError
            If ccxt or ``read`` cannot read the answer.
        RefusedQueryError
            If the exchange refuses the request.
        ServiceError
            If it does not answer it: `AuthenticationError`, `RateLimitError`, `ServerError` or `TransportError`.
        """
        for pause in (*(_WAITS if self._has_answered else _FEW_WAITS), None):
            try:
                answer = read(getattr(self.exchange, method)(*arguments))
                self._has_answered = True
                return answer
            except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
                reason = f"{self.name} answered {method} in another form than ccxt's: {error!r}"
                raise DecodeError(self._without_key(reason)) from None
            except self._ccxt.BaseError as error:
                if pause is None or not isinstance(error, self._ccxt.OperationFailed):
                    raise self._ours(error, method, arguments) from None
            self.exchange.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _ours(self, error: Exception, method: str, arguments: tuple[object, ...]) -> FetchError:
        """Return our error for one of ccxt."""
        request = " ".join([method, *(str(argument) for argument in arguments[:1])])
        message = self._without_key(f"{self.name} did not answer {request}: {_words(error)}")
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if kinds & {*_REFUSALS}:
            parameter = "symbols" if "BadSymbol" in kinds else "data"
            return RefusedQueryError(
                parameter,
                got=request,
                expected=f"what {self.name} answers",
                message=message,
            )
        return next(ours for name, ours in _FAILURES if name in kinds)(message)

    def _without_key(self, message: str) -> str:
        """Return a message of others without the parts of a key that it may have, on one line, and not too long."""
        parts = {*_KEYS, *(self.exchange.requiredCredentials or ())}
        keys = (str(getattr(self.exchange, part, None) or "") for part in parts)
        return escaped(without_keys(message, keys).replace("``", "`"))[:_LONGEST]


def _clock(time: Any) -> int | None:
    return milliseconds(time) if time else None


def _words(error: Exception) -> str:
    """Return the words of an error of ccxt with those of its cause; the reason comes first if nothing connected."""
    step: BaseException | None = error
    while step is not None:
        # An error with a file is of a caller that handles it.
        if isinstance(step, OSError) and step.strerror and step.filename is None:
            return f"no connection ({step.strerror}); {error}"
        step = step.__cause__ or step.__context__
    return f"{error}" if error.__cause__ is None else f"{error} ({error.__cause__})"
