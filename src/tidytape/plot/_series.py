"""Reads tidy frames for pictures: their columns as arrays, and the identity of their market."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.dates import date2num
from numpy.typing import NDArray

from tidytape.catalogue import AmountUnit, BookSide, Interval, Side
from tidytape.errors import QueryError, counted
from tidytape.frames._kinds import Kind
from tidytape.frames._table import OpenTable
from tidytape.plot._frame import read_frame, with_datetimes
from tidytape.schema import schema_of
from tidytape.times import DAY, SECOND

# The identity of TRADE_AGG includes the side, because two sides in one frame are two series.
_IDENTITY_COLUMNS = schema_of("TRADE_AGG").identity
_CANDLE = schema_of("TRADE_AGG")
_TRADED = {"volume", "first_timestamp", "last_timestamp"}
_SIDES = ("buy_volume", "sell_volume")
_SECONDS = 86_400  # in a day
MOST_CANDLES = 5_000  # a picture of more candles than this would show several in each column of pixels
FROM_CANDLES = "made of candles"  # note in the title of a profile that was computed from candles


@dataclass(frozen=True, slots=True)
class Identity:
    """The market and interval of a frame; empty strings for columns that the frame lacks."""

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
        """Exchange and symbol; for a series of several exchanges the symbol or coin that they share."""
        return " ".join(filter(None, (self.exchange, self.raw_symbol or self.normalized_symbol or self.coin)))

    @property
    def title(self) -> str:
        """Name, interval and side, e.g. ``X BTCUSDT, 1h``."""
        interval = interval_named(self.interval)
        side = f"{self.side} side" if self.side else ""
        return ", ".join(filter(None, (self.name, interval.alias if interval else self.interval, side)))

    @property
    def base(self) -> str:
        """The traded coin, e.g. ``BTC``; ``coin`` if it is unknown."""
        return self.coin or self.normalized_symbol.partition("-")[0] or "coin"

    @property
    def quote(self) -> str:
        """The asset that prices are in, e.g. ``USDT``; ``quote`` if it is unknown."""
        return self.normalized_symbol.partition("-")[2] or "quote"

    @property
    def price_unit(self) -> str:
        """The unit of prices, e.g. ``USDT per BTC``."""
        unit = _CANDLE["open"].unit  # quote per coin
        return " ".join({"quote": self.quote, "coin": self.base}.get(word, word) for word in unit.split())

    def amounts(self, quote: str | None, per: str = "") -> str:
        """Return the unit of amounts, e.g. ``BTC``, ``USD`` or ``BTC per 10 USDT``; empty if it is unknown.

        Parameters
        ----------
        quote : str or None
            The unit of amounts if the frame does not name it.
        per : str
            Height of the levels, for amounts per level.
        """
        unit = self.base if self.amount_unit == AmountUnit.COIN else self.amount_unit or quote or ""
        return f"{unit} per {per} {self.quote}" if unit and per else unit


@dataclass(frozen=True, slots=True)
class Bars:
    """Values of equal intervals, in order of time; ``note`` says how many rows were joined to these."""

    identity: Identity
    start: NDArray[np.float64]  # [matplotlib dates, d]
    width: float  # length of the interval [d]
    note: str = field(default="", kw_only=True)

    @property
    def title(self) -> str:
        """The title of the market, and the note."""
        return ", ".join(filter(None, (self.identity.title, self.note)))


@dataclass(frozen=True, slots=True)
class CandleSeries(Bars):
    """Candles that can be drawn."""

    open: NDArray[np.float64]
    high: NDArray[np.float64]
    low: NDArray[np.float64]
    close: NDArray[np.float64]
    is_open_interest: bool = field(kw_only=True)

    def joined(self) -> CandleSeries:
        """Return candles of the finest interval at which a picture can show all of them."""
        first, shared = _joined(self)
        if not shared:
            return self
        high, low = np.maximum.reduceat(self.high, first), np.minimum.reduceat(self.low, first)
        close = self.close[np.append(first[1:], self.start.size) - 1]
        return replace(self, open=self.open[first], high=high, low=low, close=close, **shared)


@dataclass(frozen=True, slots=True)
class VolumeSeries(Bars):
    """Volumes that can be drawn."""

    volume: NDArray[np.float64]

    def joined(self) -> VolumeSeries:
        """Return volumes of the finest interval at which a picture can show all of them."""
        first, shared = _joined(self)
        return replace(self, volume=np.add.reduceat(self.volume, first), **shared) if shared else self


def _joined(series: Bars) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Return the index of the first row of each coarser interval, and what the joined series has instead.

    It has nothing instead if it is short enough. Days begin at midnight in UTC and weeks on Monday. If no interval that
    has a name is a multiple of that of the series, the coarser one is the smallest multiple that fits.
    """
    rows, seconds = series.start.size, max(round(series.width * _SECONDS), 1)
    if rows <= MOST_CANDLES:
        return np.arange(rows), {}
    coarser = [
        interval for interval in Interval if interval.seconds > seconds and interval.seconds % seconds == 0
    ]
    lengths = [(interval.seconds / _SECONDS, interval.alias) for interval in coarser]
    lengths += [(2**power * series.width, "") for power in range(1, 40)]
    length, alias = next(
        pair for pair in lengths if np.unique(starts_of(series.start, pair[0])).size <= MOST_CANDLES
    )
    start, first = np.unique(starts_of(series.start, length), return_index=True)
    identity = replace(series.identity, interval=alias or series.identity.interval)
    note = ", ".join(filter(None, (series.note, f"joined from {rows:,} rows")))
    return first, {
        "identity": identity,
        "start": start,
        "width": length,
        "note": note,
    }


def starts_of(start: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    """Return when the interval of this length begins that each time is in. [d]"""
    shift = 3 if length == 7 else 0  # 1970 began on a Thursday
    return np.floor((start + shift) / length + 1e-6) * length - shift


@dataclass(frozen=True, slots=True)
class Levels:
    """Volumes by price, in ascending order of prices.

    ``volumes`` has the keys ``buy_volume`` and ``sell_volume``, or ``volume`` if the frame or one of its levels has no
    sides.
    """

    identity: Identity
    price: NDArray[np.float64]
    volumes: dict[str, NDArray[np.float64]]
    timestamps: int = 1  # number of timestamps whose volumes were added up
    block_size: float | None = None  # None if it is unknown or differs between levels
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
        interval = interval_named(self.identity.interval)
        return f"{self.timestamps} × {interval.alias}" if interval else f"{self.timestamps} timestamps"

    @property
    def title(self) -> str:
        """The market, and how many intervals were added up, e.g. ``X BTCUSDT, 24 × 1h``."""
        identity = self.identity
        title = replace(identity, interval=self.merged).title if self.merged else identity.title
        return ", ".join(filter(None, (title, FROM_CANDLES * self.from_candles)))


def candle_series(frame: object, parameter: str) -> CandleSeries:
    """Read candles; a row that lacks a price is a gap."""
    names = ("open", "high", "low", "close")
    rows, identity = market_frame(frame, parameter, ("timestamp", *names))
    start, width, values = over_time(rows, parameter, names, identity)
    # A frame with a unit of amounts, but without a column of trades, is open interest: prices have no such unit.
    is_open_interest = "amount_unit" in rows.columns and not _TRADED & {*rows.columns}
    return CandleSeries(
        identity, start, width, *(values[name] for name in names), is_open_interest=is_open_interest
    )


def volume_series(frame: object, parameter: str) -> VolumeSeries:
    """Read the volumes of candles; a row that lacks its volume is a gap."""
    rows, identity = market_frame(frame, parameter, ("timestamp", "volume"))
    start, width, values = over_time(rows, parameter, ("volume",), identity)
    return VolumeSeries(identity, start, width, values["volume"])


def levels(frame: object, parameter: str) -> Levels:
    """Read a volume profile; levels of one price are added up over all timestamps.

    If the sides of a level are null and its volume is not, all levels have their volume alone.
    """
    read_rows = read_frame(frame, parameter, ["price"])
    columns = read_rows.columns
    has_no_sides = "volume" in columns and not set(_SIDES) & set(columns)
    if {"volume", *_SIDES} <= set(columns):
        has_volume = ~read_rows.get_column("volume").is_null()
        has_no_sides = any((has_volume & read_rows.get_column(name).is_null()).any() for name in _SIDES)
    names = ("price", *(("volume",) if has_no_sides else _SIDES))
    rows, identity = market_frame(frame, parameter, names, key=("timestamp", "price"))
    values = numbers(rows, parameter, names)
    is_known = np.isfinite(np.stack(list(values.values()))).all(axis=0)
    price, price_index = np.unique(values["price"][is_known], return_inverse=True)
    volumes = {name: sums_by_index(price_index, values[name][is_known], price.size) for name in names[1:]}
    times = rows.get_column("timestamp").drop_nulls().n_unique() if "timestamp" in columns else 1
    if "timestamp" not in columns:
        identity = replace(identity, interval="")  # such a frame does not say how many intervals it sums
    return Levels(identity, price, volumes, times, block_of(rows), from_candles=is_from_candles(rows))


def is_from_candles(frame: nw.DataFrame[Any]) -> bool:
    """Return whether a profile was computed from candles instead of trades: only then it has ``spreading``."""
    return "spreading" in frame.columns


def is_side(frame: nw.DataFrame[Any], parameter: str, side: Side | BookSide) -> NDArray[np.bool_]:
    """Return whether each row has this side; raise QueryError for a row without a known side."""
    kind = Kind.SIDE if isinstance(side, Side) else Kind.BOOK_SIDE
    table = OpenTable.of(frame.to_native(), ["side"], kinds={"side": kind}, parameter=parameter)
    sides = table.rows.select("side").collect("polars").get_column("side")
    if sides.null_count():
        expected = f"rows of {' and '.join(member.value for member in type(side))}"
        raise QueryError(parameter, got="a row whose side is not known", expected=expected)
    return np.asarray((sides == side.value).to_numpy(), dtype=bool)


def block_of(frame: nw.DataFrame[Any]) -> float | None:
    """Return the height of the levels; None if it is unknown or differs between levels."""
    is_numeric = "block_size" in frame.columns and frame.schema["block_size"].is_numeric()
    sizes = frame.get_column("block_size").unique().to_list() if is_numeric else []
    is_known = len(sizes) == 1 and sizes[0] is not None and np.isfinite(float(sizes[0]))
    return float(sizes[0]) if is_known else None


def levels_per_row(levels: float, most: int) -> int:
    """Return how many levels to draw as one row, so that there are at most ``most`` rows: 1, 2, 5, 10, ..."""
    ladder = (int(n * 10**power) for power in count() for n in (1, 2, 5))
    return next(number for number in ladder if levels / number <= most)


def smallest_step(price: NDArray[np.float64]) -> float:
    """Return the smallest step between ascending prices."""
    steps = np.diff(price)
    # Floats that are closer than this stand for the same decimal price.
    steps = steps[steps > 1e-10 * np.abs(price[1:])]
    if steps.size:
        return float(f"{steps.min():.6g}")
    # A single price has no step: return any height that is visible.
    return float(10.0 ** np.floor(np.log10(abs(price[0]) or 1.0)) / 1000) if price.size else 1.0


def row_of(price: NDArray[np.float64], height: float) -> NDArray[np.int64]:
    """Return the number of each price's row. A float just below the edge of two rows counts as on the edge."""
    return np.floor(price / height + 1e-6).astype(np.int64)


def sums_by_index(index: NDArray[np.int64], values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return for each index from 0 to ``size`` - 1 the sum of the values that have it."""
    return np.bincount(index, values, minlength=size).astype(np.float64)


def market_frame(
    frame: object,
    parameter: str,
    columns: tuple[str, ...],
    *,
    key: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
) -> tuple[nw.DataFrame[Any], Identity]:
    """Read a frame of one market; return its rows, and the identity of the market.

    Identity columns in ``key`` and ``without`` may have several values. Two rows with the same key are an error,
    because a picture would add them up. The check is skipped if the frame lacks a column of the key.
    """
    rows = read_frame(frame, parameter, columns)
    without += key
    # Levels of two heights would overlap, so the block size must be constant, too.
    constant_columns = (*_IDENTITY_COLUMNS, "amount_unit", "block_size")
    constant_columns = tuple(
        name for name in constant_columns if name in rows.columns and name not in without
    )
    values_by_column = {name: values_of(rows, name) for name in constant_columns}
    if "amount_unit" in values_by_column and rows.get_column("amount_unit").null_count():
        # If the unit of a row is unknown, the unit of a sum is unknown, too.
        del values_by_column["amount_unit"]
    for name, values in values_by_column.items():
        if len(values) > 1:
            first = ", ".join([*values[:4], "..."] if len(values) > 4 else values)
            raise QueryError(
                parameter,
                got=f"{len(values)} values of {name}: {first}",
                expected="one market, with one interval, side, unit of amounts and height of levels",
                hint=f"filter the frame to one {name} first",
            )
    require_once(rows, parameter, key)
    values_by_column.pop("block_size", None)
    return rows, Identity(**{name: values[0] for name, values in values_by_column.items() if values})


def require_once(frame: nw.DataFrame[Any], parameter: str, key: tuple[str, ...]) -> None:
    """Raise QueryError if two rows have the same key; do nothing if the frame lacks a column of the key."""
    if not key or not {*key} <= {*frame.columns}:
        return
    rows = frame.select(key).drop_nulls()
    floats = [nw.col(name).is_finite() for name in key if rows.schema[name].is_float()]
    rows = rows.filter(*floats) if floats else rows
    repeats = len(rows) - len(rows.unique())
    if repeats:
        key_text = " and ".join(filter(None, (", ".join(key[:-1]), key[-1])))
        raise QueryError(
            parameter,
            got=f"{counted(repeats, 'row')} with the {key_text} of another row",
            expected=f"one row per {key_text}",
            hint="drop the rows that came twice: frame.unique() in polars, frame.drop_duplicates() in pandas",
        )


def require_same(
    column: Literal["normalized_symbol", "coin"], parameter: str, identity: Identity, main: Identity, of: str
) -> None:
    """Raise QueryError if two frames name different coins, or different pairs of coin and quote."""
    symbol, main_symbol = getattr(identity, column), getattr(main, column)
    if symbol and main_symbol and symbol != main_symbol:
        raise QueryError(
            parameter, got=f"{parameter} of {symbol}", expected=f"those of {main_symbol}, like {of}"
        )


def other_market_note(noun: str, identity: Identity, main: Identity) -> str:
    """Return e.g. ``trades of Y BTC-PERP`` if a frame is not of the main market; otherwise an empty text."""
    return f"{noun} of {identity.name}" if identity.name and main.name and identity.name != main.name else ""


def values_of(frame: nw.DataFrame[Any], name: str) -> list[str]:
    return sorted(str(value) for value in frame.get_column(name).drop_nulls().unique().to_list())


def numbers(
    frame: nw.DataFrame[Any], parameter: str, names: tuple[str, ...]
) -> dict[str, NDArray[np.float64]]:
    """Return columns as arrays, with NaN for null; raise QueryError for a column that is not numeric."""
    for name in names:
        # A column of nulls may have any dtype.
        if not frame.schema[name].is_numeric() and frame.get_column(name).null_count() < len(frame):
            raise QueryError(parameter, got=f"{name}: {frame.schema[name]}", expected="a numeric column")
    values = frame.select(nw.col(name).cast(nw.Float64) for name in names)
    return {name: values.get_column(name).to_numpy().astype(np.float64) for name in names}


def over_time(
    frame: nw.DataFrame[Any], parameter: str, names: tuple[str, ...], identity: Identity
) -> tuple[NDArray[np.float64], float, dict[str, NDArray[np.float64]]]:
    """Return the starts [matplotlib dates], the length of the interval [d] and the values, in order of time.

    Rows that lack one of the values are left out.
    """
    frame = with_datetimes(frame, parameter).filter(~nw.col("timestamp").is_null()).sort("timestamp")
    time = frame.get_column("timestamp").dt.timestamp("ns").to_numpy().astype(np.int64)
    steps = np.diff(time)
    if (steps == 0).any():
        raise QueryError(
            parameter,
            got="several rows of one timestamp",
            expected="one market, one row per timestamp",
            hint="drop the rows that came twice, or filter the frame to one market",
        )
    width = width_of(identity, time)
    values = numbers(frame, parameter, names)
    is_known = np.isfinite(np.stack(list(values.values()))).all(axis=0)
    return dates_of(time[is_known]), width / DAY, {name: value[is_known] for name, value in values.items()}


def nanoseconds(frame: nw.DataFrame[Any], parameter: str) -> tuple[nw.DataFrame[Any], NDArray[np.int64]]:
    """Return the rows that have a time, and their times [ns since the epoch]."""
    frame = with_datetimes(frame, parameter).filter(~nw.col("timestamp").is_null())
    return frame, frame.get_column("timestamp").dt.timestamp("ns").to_numpy().astype(np.int64)


def dates_of(time: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return times in nanoseconds as matplotlib dates. [d]"""
    dates = date2num(time.astype("datetime64[ns]"))  # type: ignore[no-untyped-call]
    return np.asarray(dates, dtype=np.float64)


def interval_named(name: str) -> Interval | None:
    """Return an interval by its name or alias; None for anything else."""
    return next((interval for interval in Interval if name in {interval.value, interval.alias}), None)


def width_of(identity: Identity, time: NDArray[np.int64]) -> int:
    """Return the length of the interval, as the frame says it, or else the smallest step between its times. [ns]"""
    interval, steps = interval_named(identity.interval), np.diff(np.unique(time))
    return (
        int(steps.min())
        if interval is None and steps.size
        else (interval or Interval.MINUTE).seconds * SECOND
    )
