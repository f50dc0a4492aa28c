"""What a picture needs of a tidy frame: arrays, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.dates import date2num
from numpy.typing import NDArray

from tidytape.catalogue import AmountUnit, BookSide, Interval, Side
from tidytape.errors import QueryError, counted
from tidytape.plot._frame import opened, timed
from tidytape.schema import schema_of
from tidytape.times import DAY, MINUTE, SECOND

# The per-side schema has all of them: two sides in one frame are two series too.
_IDENTITY = schema_of("TRADE_AGG").identity
_CANDLE = schema_of("TRADE_AGG")
_TRADED = {"volume", "first_timestamp", "last_timestamp"}
_SIDES = ("buy_volume", "sell_volume")
FROM_CANDLES = "made of candles"  # what a title says of such a profile


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose data a frame holds; empty where it does not say."""

    exchange: str = ""
    raw_symbol: str = ""
    normalized_symbol: str = ""
    coin: str = ""
    category: str = ""
    interval: str = ""
    side: str = ""
    amount_unit: str = ""

    @property
    def name(self) -> str:
        """Exchange and symbol; a series of several exchanges has neither, so what they share."""
        return " ".join(filter(None, (self.exchange, self.raw_symbol or self.normalized_symbol or self.coin)))

    @property
    def title(self) -> str:
        """Name, interval and side, e.g. ``X BTCUSDT, 1h``."""
        interval = interval_named(self.interval)
        side = f"{self.side} side" if self.side else ""
        return ", ".join(filter(None, (self.name, interval.alias if interval else self.interval, side)))

    @property
    def base(self) -> str:
        """What is traded, e.g. ``BTC``."""
        return self.coin or self.normalized_symbol.partition("-")[0] or "coin"

    @property
    def quote(self) -> str:
        """What it is paid with, e.g. ``USDT``."""
        return self.normalized_symbol.partition("-")[2] or "quote"

    @property
    def price_unit(self) -> str:
        """Unit of its prices, e.g. ``USDT per BTC``."""
        unit = _CANDLE["open"].unit  # quote per coin
        return " ".join({"quote": self.quote, "coin": self.base}.get(word, word) for word in unit.split())

    def amounts(self, quote: str | None, per: str = "") -> str:
        """Return the unit of its amounts, e.g. ``BTC``, ``USD`` or ``BTC per 10 USDT``; empty where it is not known.

        Parameters
        ----------
        quote : str or None
            The unit of amounts whose frame does not say it.
        per : str
            Height of the levels that the amounts are of, if they are of levels.
        """
        unit = self.base if self.amount_unit == AmountUnit.COIN else self.amount_unit or quote or ""
        return f"{unit} per {per} {self.quote}" if unit and per else unit


@dataclass(frozen=True, slots=True)
class CandleSeries:
    """Candles that can be drawn, in order of time."""

    whose: Whose
    is_open_interest: bool
    start: NDArray[np.float64]  # [matplotlib dates, d]
    width: float  # length of the interval [d]
    open: NDArray[np.float64]
    high: NDArray[np.float64]
    low: NDArray[np.float64]
    close: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VolumeSeries:
    """Volumes that can be drawn, in order of time."""

    whose: Whose
    start: NDArray[np.float64]  # [matplotlib dates, d]
    width: float  # length of the interval [d]
    volume: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Levels:
    """Volume by price, one per price, ascending.

    ``volumes`` are by their columns: ``buy_volume`` and ``sell_volume``, or ``volume`` where sides are not told apart.
    """

    whose: Whose
    price: NDArray[np.float64]
    volumes: dict[str, NDArray[np.float64]]
    timestamps: int = 1  # how many were added up
    block_size: float | None = None  # None where it is not known, or not the same of all
    from_candles: bool = False

    @property
    def total(self) -> NDArray[np.float64]:
        """Volume of both sides."""
        total: NDArray[np.float64] = np.sum(list(self.volumes.values()), axis=0)
        return total

    @property
    def merged(self) -> str:
        """How many intervals were added up, e.g. ``24 × 1h``; empty if there was one."""
        if self.timestamps < 2:
            return ""
        interval = interval_named(self.whose.interval)
        return f"{self.timestamps} × {interval.alias}" if interval else f"{self.timestamps} timestamps"

    @property
    def title(self) -> str:
        """Whose they are, and of how many timestamps, e.g. ``X BTCUSDT, 24 × 1h``."""
        whose = self.whose
        title = replace(whose, interval=self.merged).title if self.merged else whose.title
        return ", ".join(filter(None, (title, FROM_CANDLES * self.from_candles)))


def candle_series(frame: object, parameter: str) -> CandleSeries:
    """Read candles; a row that lacks a price is a gap."""
    names = ("open", "high", "low", "close")
    given, whose = market_frame(frame, parameter, ("timestamp", *names))
    start, width, values = over_time(given, parameter, names, whose)
    # Amounts need a unit, prices do not; candles have a volume that it is of.
    is_open_interest = "amount_unit" in given.columns and not _TRADED & {*given.columns}
    prices = (values[name] for name in names)
    return CandleSeries(whose, is_open_interest, start, width, *prices)


def volume_series(frame: object, parameter: str) -> VolumeSeries:
    """Read the volumes of candles; a row that lacks one is a gap."""
    given, whose = market_frame(frame, parameter, ("timestamp", "volume"))
    start, width, values = over_time(given, parameter, ("volume",), whose)
    return VolumeSeries(whose, start, width, values["volume"])


def levels(frame: object, parameter: str) -> Levels:
    """Read a volume profile; levels of one price and several timestamps are added up."""
    columns = opened(frame, parameter, ["price"]).columns
    is_plain = "volume" in columns and not set(_SIDES) & set(columns)
    names = ("price", *(("volume",) if is_plain else _SIDES))
    given, whose = market_frame(frame, parameter, names, key=("timestamp", "price"))
    values = numbers(given, parameter, names)
    known = np.isfinite(np.stack(list(values.values()))).all(axis=0)
    price, place = np.unique(values["price"][known], return_inverse=True)
    volumes = {name: added(place, values[name][known], price.size) for name in names[1:]}
    times = given.get_column("timestamp").drop_nulls().n_unique() if "timestamp" in columns else 1
    if "timestamp" not in columns:
        whose = replace(whose, interval="")  # of how many intervals its levels are, nobody knows
    return Levels(whose, price, volumes, times, block_of(given), from_candles=is_from_candles(given))


def is_from_candles(given: nw.DataFrame[Any]) -> bool:
    """Return whether a profile says that it was made of candles, and not of trades."""
    return "spreading" in given.columns


def is_side(given: nw.DataFrame[Any], parameter: str, side: Side | BookSide) -> NDArray[np.bool_]:
    """Return which rows are of a side; raise QueryError for a row of neither, which a picture would show as another."""
    values, known = given.get_column("side").cast(nw.String), [one.value for one in type(side)]
    strange = values.filter(~values.is_in(known) | values.is_null())
    if len(strange):
        raise QueryError(
            parameter, got=f"a row of side {strange[0]}", expected=f"rows of {' and '.join(known)}"
        )
    return np.asarray((values == side.value).to_numpy(), dtype=bool)


def block_of(given: nw.DataFrame[Any]) -> float | None:
    """Return the height of the levels; None where it is not known, or not the same of all."""
    is_numeric = "block_size" in given.columns and given.schema["block_size"].is_numeric()
    sizes = given.get_column("block_size").unique().to_list() if is_numeric else []
    is_known = len(sizes) == 1 and sizes[0] is not None and np.isfinite(float(sizes[0]))
    return float(sizes[0]) if is_known else None


def together(levels: float, most: int) -> int:
    """Return how many levels are drawn as one row, 1, 2, 5, 10, ..., so that there are at most ``most`` rows."""
    ladder = (int(n * 10**power) for power in count() for n in (1, 2, 5))
    return next(number for number in ladder if levels / number <= most)


def smallest_step(price: NDArray[np.float64]) -> float:
    """Return the grid that ascending prices are on, as far as they show it."""
    steps = np.diff(price)
    # Nearer than this are two spellings of one decimal.
    steps = steps[steps > 1e-10 * np.abs(price[1:])]
    if steps.size:
        return float(f"{steps.min():.6g}")
    # A single price shows none; any height will do that can be seen.
    return float(10.0 ** np.floor(np.log10(abs(price[0]) or 1.0)) / 1000) if price.size else 1.0


def row_of(price: NDArray[np.float64], height: float) -> NDArray[np.int64]:
    """Return which row a price is in. Prices are decimals, so one a hair below an edge is on it."""
    return np.floor(price / height + 1e-6).astype(np.int64)


def added(place: NDArray[np.int64], values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the sum of the values at each place from 0 to ``size`` - 1."""
    return np.bincount(place, values, minlength=size).astype(np.float64)


def market_frame(
    frame: object,
    parameter: str,
    columns: tuple[str, ...],
    *,
    key: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
) -> tuple[nw.DataFrame[Any], Whose]:
    """Return the frame of one market, and whose it is.

    Identity columns in ``key`` and ``without`` may have several values. Two rows of one key are an error: a picture
    would add up what came twice. A frame that lacks a column of the key has no such rows.
    """
    given = opened(frame, parameter, columns)
    without += key
    named = (*_IDENTITY, "amount_unit", "block_size")  # levels of two heights would overlap
    named = tuple(name for name in named if name in given.columns and name not in without)
    found = {name: _values(given, name) for name in named}
    if "amount_unit" in found and given.get_column("amount_unit").null_count():
        del found["amount_unit"]  # of some rows it is not known, so not of their sums
    for name, values in found.items():
        if len(values) > 1:
            raise QueryError(
                parameter,
                got=f"{len(values)} values of {name}: {_listed(values)}",
                expected="one market, with one interval, side, unit of amounts and height of levels",
                hint=f"filter the frame to one {name} first",
            )
    require_once(given, parameter, key)
    found.pop("block_size", None)
    return given, Whose(**{name: values[0] for name, values in found.items() if values})


def require_once(given: nw.DataFrame[Any], parameter: str, key: tuple[str, ...]) -> None:
    """Raise QueryError if two rows have the same values in the columns of the key; a frame that lacks one has none."""
    if not key or not {*key} <= {*given.columns}:
        return
    rows = given.select(key).drop_nulls()
    floats = [nw.col(name).is_finite() for name in key if rows.schema[name].is_float()]
    rows = rows.filter(*floats) if floats else rows
    again = len(rows) - len(rows.unique())
    if again:
        of_one = " and ".join(filter(None, (", ".join(key[:-1]), key[-1])))
        raise QueryError(
            parameter,
            got=f"{counted(again, 'row')} with the {of_one} of another row",
            expected=f"one row per {of_one}",
            hint="drop the rows that came twice: frame.unique() in polars, frame.drop_duplicates() in pandas",
        )


def require_one_market(parameter: str, one: Whose, other: Whose, of: str) -> None:
    """Raise QueryError if two frames say that they are of different coins or quotes."""
    symbols = (one.normalized_symbol, other.normalized_symbol)
    if all(symbols) and symbols[0] != symbols[1]:
        raise QueryError(
            parameter, got=f"{parameter} of {symbols[0]}", expected=f"those of {symbols[1]}, like {of}"
        )


def of_another(what: str, one: Whose, rest: Whose) -> str:
    """Return e.g. ``trades of Y BTC-PERP`` where they are of another market than the rest of a picture."""
    return f"{what} of {one.name}" if one.name and rest.name and one.name != rest.name else ""


def require_one_coin(parameter: str, one: Whose, other: Whose, of: str) -> None:
    """Raise QueryError if two frames say that they are of different coins."""
    if one.coin and other.coin and one.coin != other.coin:
        raise QueryError(
            parameter, got=f"{parameter} of {one.coin}", expected=f"those of {other.coin}, like {of}"
        )


def _values(frame: nw.DataFrame[Any], name: str) -> list[str]:
    return sorted(str(value) for value in frame.get_column(name).drop_nulls().unique().to_list())


def _listed(values: Iterable[str], most: int = 4) -> str:
    first, *rest = [", ".join(part) for part in _split(list(values), most)]
    return f"{first}, ..." if rest else first


def _split(values: list[str], most: int) -> list[list[str]]:
    return [values[:most], values[most:]] if len(values) > most else [values]


def numbers(
    frame: nw.DataFrame[Any], parameter: str, names: tuple[str, ...]
) -> dict[str, NDArray[np.float64]]:
    """Return columns as arrays, with NaN for null; raise QueryError for one that is not numeric."""
    for name in names:
        # A column of nothing but nulls has no numbers to be wrong about.
        if not frame.schema[name].is_numeric() and frame.get_column(name).null_count() < len(frame):
            raise QueryError(parameter, got=f"{name}: {frame.schema[name]}", expected="a numeric column")
    values = frame.select(nw.col(name).cast(nw.Float64) for name in names)
    return {name: values.get_column(name).to_numpy().astype(np.float64) for name in names}


def over_time(
    frame: nw.DataFrame[Any], parameter: str, names: tuple[str, ...], whose: Whose
) -> tuple[NDArray[np.float64], float, dict[str, NDArray[np.float64]]]:
    """Return starts, length of the interval and values of the rows that have all values, in order of time."""
    frame = timed(frame, parameter).filter(~nw.col("timestamp").is_null()).sort("timestamp")
    time = frame.get_column("timestamp").dt.timestamp("ns").to_numpy().astype(np.int64)
    steps = np.diff(time)
    if (steps == 0).any():
        raise QueryError(
            parameter,
            got="several rows of one timestamp",
            expected="one market, one row per timestamp",
            hint="drop the rows that came twice, or filter the frame to one market",
        )
    interval = interval_named(whose.interval)
    usual = int(steps.min()) if steps.size else MINUTE
    width = interval.seconds * SECOND if interval else usual
    values = numbers(frame, parameter, names)
    known = np.isfinite(np.stack(list(values.values()))).all(axis=0)
    return dates_of(time[known]), width / DAY, {name: value[known] for name, value in values.items()}


def dates_of(time: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return times in nanoseconds as dates of matplotlib. [d]"""
    dates = date2num(time.astype("datetime64[ns]"))  # type: ignore[no-untyped-call]
    return np.asarray(dates, dtype=np.float64)


def interval_named(name: str) -> Interval | None:
    """Return an interval by its name or alias; None for anything else."""
    return next((interval for interval in Interval if name in {interval.value, interval.alias}), None)
