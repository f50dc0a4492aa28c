"""What other libraries call a function or a parameter, and what to write instead, for errors and for the documentation.

The guide "From other clients" shows these tables. An error about a name that a client or a module does not have, or
about an argument that a function does not take, quotes the row of that name.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, wraps
from importlib import import_module
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar

from tidytape.errors import CallError, TidytapeError, UnknownNameError, did_you_mean, nearest

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
    (
        "`ohlcv(…)`, `ohlc(…)`, `klines(…)`, `get_klines(…)`",
        '`client.candles(interval="1h", start=…, end=…)`; of your trades, `aggregate.candles(trades, interval="1h")`',
    ),
    ("`fetch_trades(symbol, since, limit)`", "`client.trades(start=…, end=…)`"),
    (
        "`fetch_order_book(symbol)`, `fetch_l2_order_book(symbol)`, `order_book(…)`",
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
        "`fetch_ticker(symbol)`, `fetch_tickers()`, `ticker(…)`",
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
        '`download("BTC-USD", start=…, end=…, interval="1h")`, `Ticker("BTC-USD")`, `history(…)`',
        '`client.candles(exchange=…, coin="BTC", interval="1h", start=…, end=…)`',
    ),
    ('`period="1mo"`', '`start="-30d"`'),
    ("columns `Open` … `Volume`, per ticker", "columns `open` … `volume`; each market has its own rows"),
    ("the index is the time", 'the time is a column; `frame.set_index("timestamp")`'),
    ("`auto_adjust=True`", "nothing: prices are as they traded"),
    ("`to_csv(path)`", "`client.to_parquet(query, path)`, or `tidytape.flat(frame).write_csv(path)`"),
)
"""Calls and parameters of downloaders of data frames, such as yfinance, and what to write instead."""

FUNCTIONS: tuple[Row, ...] = (
    ("`poc(…)`, `vpoc(…)`", "`profile.point_of_control(levels)`"),
    ("`ofi(…)`", "`flow.imbalance(frame)`: traded volume; or `depth.imbalance(frame)`: resting size"),
    ("`merge_asof(left, right)`, `join_asof(right)`", "`pit.asof_join(decisions, facts)`"),
    (
        "`sma(…)`, `ema(…)`, `rsi(…)`, `macd(…)`, `atr(…)`, `rolling(…)`",
        "a method of the frame, such as `rolling_mean` of polars: tidytape has no indicators of prices alone",
    ),
    (
        "`scan(…)`, `scan_parquet(…)`, `read_parquet(…)`, `read_csv(…)`",
        '`polars.scan_parquet(path)`, or put the files into a lake: `tidytape.Client.local("lake")`',
    ),
    ("`collect()`, `to_pandas()`, `to_polars()` of a query", "`client.fetch(query).frame`"),
    ("`candlestick(…)`, `plot(…)`, `ohlc(…)`", "`plot.candles(frame)`"),
    ("`heatmap(…)`", "`plot.book_heatmap(frame)`"),
)
"""Functions of libraries for frames, indicators and pictures, and what to write instead."""

ARGUMENTS: tuple[Row, ...] = (
    (
        "`period`, `periods`, `length`, `n`, `lookback`, `timeperiod`, `window_size`",
        "`window=20`, a number of rows",
    ),
    ("`group_by`, `groupby`, `over`, `partition_by`, `symbol`, `ticker`", '`by="raw_symbol"`'),
    ("`percent`, `pct`, `percentage`, `va_pct`", "`share=0.7`, where 1 is all"),
    ("`percent`, `pct`, `percentage`, `levels`", "`bps=10`, in hundredths of a percent"),
    (
        "`bins`, `bin_size`, `tick_size`, `tick`, `step`",
        "`block_size=10`, the height of a level as a price",
    ),
    ("`bins`, `bin_size`, `tick_size`, `tick`, `step`", "`row_size=10`, the height of a row as a price"),
    ("`volume`, `vol`, `weights`", '`count="volume"`, the name of a column'),
    ("`column`, `col`, `field`, `source`", '`value="close"`, the name of a column'),
    ("`column`, `col`, `value`, `values`", '`amount="volume"`, the name of a column'),
    ("`trading_days`, `periods_per_year`, `annualization`", "`days_per_year=365`"),
    ("`periods`, `periods_per_day`", '`funding_interval="8h"`'),
    ("`reset`", '`anchor="session"` and `period="1d"`'),
    ("`when`, `date`, `time`, `asof`", '`at="2024-08-08T12:00:00Z"`'),
    ("`left_on`, `right_on`", '`on="timestamp"`, which both frames have'),
    ("`direction`", "nothing: only rows that were known at the time count"),
    ("`lag`, `latency`, `shift`", '`delay="1m"`'),
    ("`sizes`, `qty`, `quantity`, `notional`", "`size=[1, 10]`"),
    ("`type`, `kind`", '`data_type="TRADE_SIDE_AGNOSTIC_AGG"`'),
    ("`tz`, `tzinfo`", '`timezone="Europe/Berlin"`'),
    (
        "`figsize`, `title`, `style`, `axis`, `axes`",
        "`ax=…`, axes of your own: `plt.subplots(figsize=(8, 4))[1]`",
    ),
    ("`output`, `path`, `file`, `filename`", '`out="report.html"`'),
)
"""Arguments of libraries for frames, indicators and pictures, and what to write where a function takes it."""

PARAMETERS: tuple[Row, ...] = (
    (
        "`symbol`, `symbols`, `ticker`, `tickers`, `pair`, `instrument`, `market`",
        '`exchange="…"` and `raw_symbol="…"`, or `coin="BTC"`',
    ),
    ("`base`, `asset`, `currency`", '`coin="BTC"`'),
    ("`venue`, `exchange_id`, `source`", "`exchange`"),
    (
        "`timeframe`, `granularity`, `resolution`, `freq`, `frequency`, `every`, `rule`, `bar`",
        '`interval="1h"`',
    ),
    ("`since`, `from_`, `start_date`, `start_time`, `startTime`", "`start`"),
    ("`until`, `to`, `end_date`, `end_time`, `endTime`", "`end`"),
    (
        "`n`, `count`, `size`, `max_results`",
        "`limit`, the number of intervals before `end`, where a method has it",
    ),
    ("`depth`, `levels`", "`max_depth`, where a method has it"),
    ("`tz`, `timezone`", "nothing: times are UTC; convert the column `timestamp` of the frame"),
    ("`columns`, `fields`", "nothing: select columns of the frame"),
    ("`sort`, `order`, `ascending`", '`sort_direction="desc"`'),
    ("`params`", "nothing: every parameter has a name of its own"),
    ("`url`, `host`, `endpoint`", "`base_url`"),
    ("`key`, `apiKey`, `apikey`", "`api_key`"),
    ("`retries`, `max_retries`", "`attempts`"),
    ("`engine`, `as_pandas`", '`backend="pandas"`'),
)
"""Parameters of other clients, and what to write instead."""

_CALL = re.compile(r"(\w+)\(")
_WORD = re.compile(r"`(\w+)[`=]")
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_ROOMS = (
    "aggregate",
    *(
        f"analytics.{name}"
        for name in ["cross", "depth", "flow", "funding", "options", "pit", "profile", "quality"]
    ),
)


def _by_name(pattern: re.Pattern[str], *tables: Iterable[Row]) -> Mapping[str, tuple[str, ...]]:
    """Return what to write instead of each name that the pattern finds in the first cells: the second cells."""
    cells: dict[str, tuple[str, ...]] = {}
    for other_cell, own_cell in (row for table in tables for row in table):
        cells |= {name: (*cells.get(name, ()), own_cell) for name in pattern.findall(other_cell)}
    return MappingProxyType(cells)


def _plain(cell: str) -> str:
    """Return a cell without its links and backticks."""
    return re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell).replace("`", "")


_METHODS = _by_name(_CALL, WRAPPERS, DOWNLOADERS, FUNCTIONS)
_PARAMETERS = _by_name(_WORD, WRAPPERS, DOWNLOADERS, ARGUMENTS, PARAMETERS)


@cache
def _homes() -> Mapping[str, str]:
    """Return the path of each function of aggregate and analytics, by its name; of one name, each path."""
    homes: dict[str, str] = {}
    for room in (f"tidytape.{name}" for name in _ROOMS):
        for name, value in vars(import_module(room)).items():
            if isinstance(value, FunctionType) and value.__module__ == room and not name.startswith("_"):
                homes[name] = f"{homes[name]} or {room}.{name}" if name in homes else f"{room}.{name}"
    return homes


def unknown_name(
    owner: object, name: str, names: Iterable[str], *, instead: str | None = None
) -> UnknownNameError:
    """Return the error for a name that an object or a module does not have; it says what to write instead.

    Parameters
    ----------
    owner : object
        A client, a module or another object.
    name : str
        The name.
    names : iterable of str
        The public names of the owner.
    instead : str, optional
        What to write, if no table has the name.
    """
    kind = f"module {owner.__name__!r}" if inspect.ismodule(owner) else f"{type(owner).__name__!r} object"
    room = kind.strip("'").rpartition(".")[2]
    # Python and notebooks ask every object for names with an underscore.
    hint = "" if name.startswith("_") else f"; {_hint(name, room, names, instead)}"
    error = UnknownNameError(f"{kind} has no attribute {name!r}{hint}")
    error.name, error.obj = name, owner
    return error


def _hint(name: str, room: str, names: Iterable[str], instead: str | None) -> str:
    """Return what to write instead of a name; of several rows, the one that names the room."""
    cells, homes = _METHODS.get(name, ()), _homes()
    cell = next((cell for cell in cells if f"`{room}." in cell), next(iter(cells), None))
    instead = _plain(cell) if cell else instead or homes.get(name)
    if instead:
        return f"write {instead}"
    public = sorted(other for other in names if not other.startswith("_"))
    home = homes.get(nearest(name, homes) or "")
    return did_you_mean(name, public) or (f"did you mean {home}?" if home else f"it has {', '.join(public)}")


def explained(kind: KindT) -> KindT:
    """Make the methods of a class raise a CallError, which says what to write, if a call does not fit the signature."""
    for name, method in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(method, FunctionType):
            setattr(kind, name, _explained(method, kind.__name__ if name == "__init__" else name))
        elif isinstance(method, staticmethod):
            setattr(kind, name, staticmethod(_explained(method.__func__, name)))
    return kind


def explain(module: str, names: Collection[str]) -> None:
    """Make a module answer a call that does not fit with a CallError, and an unknown name with an UnknownNameError.

    Parameters
    ----------
    module : str
        The name of a module. Its functions then belong to it, also in a pickle.
    names : collection of str
        Its public names.
    """

    def unknown(name: str) -> Any:
        raise unknown_name(room, name, names)

    room = sys.modules[module]
    for name in names:
        if isinstance(function := getattr(room, name), FunctionType):
            call = _explained(function, name)
            call.__module__ = module
            setattr(room, name, call)
    # Set here: if a type checker saw the function, it would accept any name at all.
    vars(room)["__getattr__"] = unknown


def _explained(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TidytapeError as error:
            raise error.with_traceback(None)  # noqa: B904 - the same error, without this frame twice
        except TypeError:
            failure = _call_error(function, name, arguments, named)
            if failure is None:
                raise
        raise failure

    return call


def _call_error(
    function: Callable[..., Any], name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> CallError | None:
    """Return the error for a call that does not fit the signature; None if it fits.

    The values are not in the error, because one of them may be a key.
    """
    signature = inspect.signature(function)
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        wrong = str(error)
    else:
        return None
    some = [known for known in signature.parameters.values() if known.kind not in _ANY_NUMBER]
    takes = [known.name for known in some if known.name != "self"]
    takes_any = any(known.kind is known.VAR_KEYWORD for known in signature.parameters.values())
    unknown = next((argument for argument in named if argument not in takes and not takes_any), None)
    if unknown is not None:
        hint = _instead(unknown, takes) or did_you_mean(unknown, takes) or f"it takes {', '.join(takes)}"
        message = f"{name}() got an unexpected keyword argument {unknown!r}; {hint}"
        return CallError(unknown, got="a value", expected="no such argument", hint=hint, message=message)
    if "argument: 'self'" in wrong:
        wrong, expected = "called on the class", f"client.{name}(…) after client = tidytape.Client(…)"
    else:
        words = [known.name if known.kind is known.POSITIONAL_ONLY else f"{known.name}=…" for known in some]
        words = [word for word in words if word != "self=…"]
        expected = f"{name}({', '.join(words[:6])}{', …' if words[6:] else ''})"
    absent = next((known for known in takes if f"argument: {known!r}" in wrong), name)
    return CallError(absent, got=None, expected=expected, message=f"{name}(): {wrong}; write {expected}")


def _instead(unknown: str, takes: Collection[str]) -> str | None:
    """Return what to write in place of an unknown argument, if a row names an argument that the function takes."""
    for cell in _PARAMETERS.get(unknown, ()):
        if cell.startswith("nothing"):
            return f"leave it out{_plain(cell).removeprefix('nothing')}"
        if not {*_WORD.findall(cell)}.isdisjoint(takes):
            return f"write {_plain(cell)}"
    return None
