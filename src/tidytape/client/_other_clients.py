"""What other clients call a method or a parameter, and what to write instead, for errors and for the documentation.

The guide "From other clients" shows these tables. An error about a name that a client does not have quotes the row of
that name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar

from tidytape.errors import CallError, TidytapeError, UnknownNameError, did_you_mean

KindT = TypeVar("KindT", bound=type)
Row = tuple[str, str]

WRAPPERS: tuple[Row, ...] = (
    (
        "`exchange = ccxt.binance()`",
        '`client = tidytape.Client(url, key)`, or `tidytape.Client.local("lake")`; pass `exchange` to each call',
    ),
    ("`exchange.load_markets()`, `fetch_markets()`", '`client.markets(exchange="BINANCE")`'),
    (
        '`fetch_ohlcv(symbol, "1h", since, limit)`',
        '`client.candles(interval="1h", start=…, end=…)`; or, instead of `start`, `limit=100` intervals before `end`',
    ),
    ("`fetch_trades(symbol, since, limit)`", "`client.trades(start=…, end=…)`"),
    (
        "`fetch_order_book(symbol)`, `fetch_l2_order_book(symbol)`",
        "`client.book_heatmap(interval=…)`: resting sizes at the end of each interval; there is no book of this moment",
    ),
    (
        "`fetch_funding_rate(symbol)`, `fetch_funding_rate_history(symbol)`",
        '`client.funding(interval=…)`: rates converted to 8 hours, or to `funding_interval="1h"`, not as published',
    ),
    (
        "`fetch_open_interest(symbol)`, `fetch_open_interest_history(symbol)`",
        "`client.open_interest(interval=…)`",
    ),
    (
        "`fetch_ticker(symbol)`, `fetch_tickers()`",
        "`client.markets()`: last price, volume of 24 hours and its change, price change of 24 hours",
    ),
    ("`fetch_currencies()`", "`client.coins()`"),
    (
        "`watch_ohlcv(symbol)`, `watch_trades(symbol)` in a loop",
        '`client.stream("TRADE_SIDE_AGNOSTIC_AGG", …)`: [streaming](streaming.md)',
    ),
    ("`enableRateLimit`", "nothing: the client waits until its budget allows the next request"),
    (
        "`except ccxt.NetworkError`",
        "`except tidytape.TransportError`; the client has already tried again: [errors](../reference/errors.md)",
    ),
)
"""Calls of wrappers that unify the APIs of exchanges, such as ccxt, and what to write instead."""

DOWNLOADERS: tuple[Row, ...] = (
    (
        '`download("BTC-USD", start=…, end=…, interval="1h")`, `history(…)`',
        '`client.candles(exchange=…, coin="BTC", interval="1h", start=…, end=…)`',
    ),
    ('`period="1mo"`', '`start="-30d"`'),
    ("columns `Open` … `Volume`, per ticker", "columns `open` … `volume`; each market has its own rows"),
    ("the index is the time", 'the time is a column; `frame.set_index("timestamp")`'),
    ("`auto_adjust=True`", "nothing: prices are as they traded"),
    ("`to_csv(path)`", "`client.to_parquet(query, path)`, or a method of the frame"),
)
"""Calls and parameters of downloaders of data frames, such as yfinance, and what to write instead."""

PARAMETERS: tuple[Row, ...] = (
    (
        "`symbol`, `symbols`, `ticker`, `tickers`, `pair`, `instrument`, `market`",
        '`exchange="…"` and `raw_symbol="…"`, or `coin="BTC"`',
    ),
    ("`base`, `asset`, `currency`", '`coin="BTC"`'),
    ("`venue`, `exchange_id`, `source`", "`exchange`"),
    ("`timeframe`, `granularity`, `resolution`, `freq`, `frequency`, `every`, `bar`", '`interval="1h"`'),
    ("`since`, `from_`, `start_date`, `start_time`, `startTime`", "`start`"),
    ("`until`, `to`, `end_date`, `end_time`, `endTime`", "`end`"),
    (
        "`n`, `count`, `size`, `max_results`",
        "`limit`, the number of intervals before `end`, where a method has it",
    ),
    ("`depth`, `levels`", "`max_depth`, where a method has it"),
    ("`tz`, `timezone`", "nothing: times are UTC; convert the column `timestamp` of the frame"),
    ("`columns`, `fields`", "nothing: select columns of the frame"),
    ("`params`", "nothing: every parameter has a name of its own"),
    ("`url`, `host`, `endpoint`", "`base_url`"),
    ("`key`, `apiKey`, `apikey`", "`api_key`"),
    ("`retries`, `max_retries`", "`attempts`"),
    ("`engine`, `as_pandas`", '`backend="pandas"`'),
)
"""Parameters of other clients, and what to write instead."""

_CALL = re.compile(r"(\w+)\(")
_WORD = re.compile(r"`(\w+)[`=]")


def _by_name(pattern: re.Pattern[str], *tables: Iterable[Row]) -> Mapping[str, str]:
    """Return what to write instead of each name that the pattern finds in the first cells."""
    texts: dict[str, str] = {}
    for row in (row for table in tables for row in table):
        text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row[1]).replace("`", "")
        texts |= dict.fromkeys(pattern.findall(row[0]), text)
    return MappingProxyType(texts)


_METHODS = _by_name(_CALL, WRAPPERS, DOWNLOADERS)
_PARAMETERS = _by_name(_WORD, WRAPPERS, DOWNLOADERS, PARAMETERS)


def unknown_name(owner: object, name: str, names: Iterable[str]) -> UnknownNameError:
    """Return the error for a name that a client or a module does not have; it names the method that does the same.

    Parameters
    ----------
    owner : object
        A client or a module.
    name : str
        The name.
    names : iterable of str
        The public names of the owner.
    """
    kind = f"module {owner.__name__!r}" if inspect.ismodule(owner) else f"{type(owner).__name__!r} object"
    instead = f"write {_METHODS[name]}" if name in _METHODS else did_you_mean(name, names)
    error = UnknownNameError(f"{kind} has no attribute {name!r}" + (f"; {instead}" if instead else ""))
    error.name, error.obj = name, owner
    return error


def explained(kind: KindT) -> KindT:
    """Make the methods of a class raise a CallError, which says what to write, if a call does not fit the signature."""
    for name, method in vars(kind).items():
        if isinstance(method, FunctionType) and (not name.startswith("_") or name == "__init__"):
            setattr(kind, name, _explained(method, kind.__name__ if name == "__init__" else name))
    return kind


def _explained(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            signature.bind(*arguments, **named)
        except TypeError as error:
            failure = _call_error(name, signature, named, str(error))
        else:
            try:
                return method(*arguments, **named)
            except TidytapeError as error:
                raise error.with_traceback(None)  # noqa: B904 - the same error, without this frame twice
        raise failure

    return call


def _call_error(method: str, signature: inspect.Signature, named: Mapping[str, Any], wrong: str) -> CallError:
    """Return the error for a call that does not fit the signature; ``wrong`` is what Python says of it.

    The values are not in the error, because one of them may be a key.
    """
    parameters = [parameter for parameter in signature.parameters if parameter != "self"]
    unknown = next((name for name in named if name not in parameters), None)
    if unknown is not None:
        instead = _PARAMETERS.get(unknown)
        known = f"it takes {', '.join(parameters)}"
        instead = instead and f"write {instead}".replace("write nothing", "leave it out")
        hint = instead or did_you_mean(unknown, parameters) or known
        message = f"{method}() got an unexpected keyword argument {unknown!r}; {hint}"
        return CallError(unknown, got="a value", expected="no such argument", hint=hint, message=message)
    expected = ", ".join(f"{name}=…" for name in parameters[:6]) or "no argument"
    absent = next((name for name in parameters if f"argument: {name!r}" in wrong), method)
    return CallError(absent, got=None, expected=expected, message=f"{method}(): {wrong}; write {expected}")
