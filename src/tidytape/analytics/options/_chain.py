"""A caller's option chain: its times and keys, the quotes of a smile, and the forward price of each expiry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, get_args

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT
from numpy.typing import NDArray

from tidytape.analytics._arguments import column, one_of
from tidytape.analytics._series import EXPIRES
from tidytape.analytics._smile import CALL, PUT, above_zero, is_above_zero, measured
from tidytape.frames._kinds import Kind
from tidytape.frames._rows import with_all
from tidytape.frames._table import OpenTable, Rows
from tidytape.frames._times import midnights, with_counted
from tidytape.times import DAY, YEAR

Floats = NDArray[np.float64]

CHAIN_COLUMNS: Final = ("timestamp", "expiry", "strike", "option_type")
"""Columns that tell the quotes within a series of chains apart."""

QUOTED: Final = ("strike", "implied_volatility", "forward")
"""Numbers that a quote needs to be a point of a smile."""

_OF_OPTIONS = ("raw_symbol", "normalized_symbol", "side", *CHAIN_COLUMNS)

_UNDERLYING: Final = ("forward", "underlying_price")
"""Columns of the underlying's price. Quotes of one expiry share it, but it moves while a snapshot is taken."""

_FARTHEST: Final = 1.05
"""Largest ratio of two of these prices in one snapshot; recorded snapshots stay far below it, two coins are above."""

Premium = Literal["coin", "quote"]
"""What the premium of an option is paid in."""

_RESULT = ("days", "forward", "lowest", "highest", "quotes", "method")


@dataclass(frozen=True)
class Chain(Generic[IntoFrameT]):
    """A caller's option chain, opened for work.

    Attributes
    ----------
    table : OpenTable
        The caller's frame.
    rows : narwhals LazyFrame
        All columns, and ``__life``, float64, the time from the quote to its expiry. [ns]
    smile : list of str
        Columns that identify a smile: those of the series, ``timestamp`` and ``expiry``.
    """

    table: OpenTable[IntoFrameT]
    rows: Rows
    smile: list[str]

    @classmethod
    def opened(
        cls,
        native: IntoFrameT,
        by: str | Iterable[str] | None,
        *,
        numbers: Iterable[str] = QUOTED,
        kinds: Mapping[str, Kind] | None = None,
        results: Iterable[str] = (),
        keeps_expiry: bool = False,
    ) -> Chain[IntoFrameT]:
        """Open a chain; errors as in `OpenTable.of` and `OpenTable.series_columns`.

        Parameters
        ----------
        native : frame
            Eager or lazy, of any engine.
        by : str, iterable of str or None
            As in `OpenTable.series_columns`, but the identity columns of single options do not tell chains apart.
        numbers : iterable of str
            Columns of numbers that the frame must have.
        kinds : mapping of str to Kind, optional
            What columns are that their names do not tell, such as a volatility whose unit the caller says.
        results : iterable of str
            Columns that the result adds.
        keeps_expiry : bool
            Whether the result keeps ``expiry`` as the caller has it, even if it is too late for int64 nanoseconds.
        """
        numbers = (*numbers, "strike")
        table = OpenTable.of(native, CHAIN_COLUMNS, numbers=numbers, kinds={"expiry": None, **(kinds or {})})
        expiry_column = "__expiry" if keeps_expiry else "expiry"
        if table.schema["expiry"] == nw.Date:
            # In the result, an expiry that was a date is a time.
            clocks = {**table.clocks, "expiry": table.clocks["timestamp"]}
            table, expiry_column = (
                replace(table.with_text_columns({"expiry": "timestamp"}), clocks=clocks),
                "expiry",
            )
            rows = midnights(table.rows, expiry_column).with_columns(nw.col(expiry_column) + EXPIRES)
        elif keeps_expiry:
            rows = with_counted(table.rows, "expiry", expiry_column)
        else:
            table = OpenTable.of(table, ["expiry"])
            rows = table.rows
        life = (nw.col(expiry_column) - nw.col("timestamp")).cast(nw.Float64)
        keys = table.series_columns(by, without=(*_OF_OPTIONS, *numbers, *results))
        return cls(table, rows.with_columns(life.alias("__life")), [*keys, "timestamp", "expiry"])

    @property
    def quotes(self) -> Rows:
        """The rows whose time and expiry are known."""
        return self.rows.filter(~nw.col("timestamp").is_null(), ~nw.col("expiry").is_null())

    def measured(self) -> Rows:
        """Return the quotes, with ``__alive``, the time left [ns], and what `measured` adds.

        The numbers of a quote are null unless it is a call or put with positive strike, volatility and forward, and
        with time left. If `with_mixed` marks a smile as mixed, the numbers of all its quotes are null.
        """
        positive = [is_above_zero(nw.col(name)) for name in (*QUOTED, "__life")]
        is_usable = nw.all_horizontal(*positive, ~nw.col("option_type").is_null(), ignore_nulls=False)
        numbers = [*QUOTED, "__alive"]
        quotes = self.quotes.with_columns(__alive=nw.col("__life")).with_columns(
            nw.when(is_usable).then(nw.col(name)).alias(name) for name in numbers
        )
        quotes = self.with_mixed(quotes, "implied_volatility", "forward")
        is_single = nw.col("__mixed") == 0
        quotes = quotes.with_columns(nw.when(is_single).then(nw.col(name)).alias(name) for name in numbers)
        return measured(quotes, act_365(nw.col("__alive"), YEAR))

    def with_mixed(self, quotes: Rows, *names: str) -> Rows:
        """Add ``__mixed``: 1.0 in each row of a smile that has several underlyings or several snapshots, else 0.0.

        A smile is mixed if an option has several values in a column of ``names``, if the smile has several coins, or if
        the ratio of two of its underlying prices is above `_FARTHEST`.
        """
        schema, option = quotes.collect_schema(), [*self.smile, "strike", "option_type"]
        prices = [name for name in _UNDERLYING if name in schema and schema[name].is_numeric()]
        quotes = with_all(
            quotes, (above_zero(nw.col(name).cast(nw.Float64)).alias(f"__{name}") for name in prices)
        )
        ranges = [(name, option, 1.0) for name in names]
        ranges += [(f"__{name}", self.smile, _FARTHEST) for name in prices]
        is_apart = [
            nw.col(name).max().over(*keys) > nw.col(name).min().over(*keys) * largest_ratio
            for name, keys, largest_ratio in ranges
        ]
        if "coin" in schema and "coin" not in self.smile:
            coin = nw.col("coin")
            is_apart.append(coin.max().over(*self.smile) > coin.min().over(*self.smile))
        mixed = nw.when(nw.any_horizontal(*is_apart, ignore_nulls=True)).then(1.0).otherwise(0.0)
        return quotes.with_columns(__mixed=mixed).with_columns(nw.col("__mixed").max().over(*self.smile))

    def collected(self, rows: Rows, why: str) -> nw.DataFrame[Any]:
        """Return rows in memory; see `OpenTable.collected`."""
        return replace(self.table, rows=rows).collected(why)


def act_365(life: nw.Expr, unit: int) -> nw.Expr:
    """Convert a duration [ns] to days or years of ACT/365; ``unit`` is DAY or YEAR. [d or y]"""
    # Divide by a column: for a literal polars multiplies by the rounded reciprocal, so 30 days would not be exactly 30.
    return life / (life * 0.0 + float(unit))


def floats(rows: nw.DataFrame[Any], *names: str) -> Floats:
    """Return columns of numbers as an array with one row per column, NaN for null."""
    return np.array([rows[name].cast(nw.Float64).to_numpy() for name in names])


def number_column(name: str, values: Floats) -> nw.Series[Any]:
    """Return numbers as a column of float64, null where they are NaN."""
    column: nw.Series[Any] = nw.new_series(name, values, nw.Float64, backend="polars").fill_nan(None)
    return column


def forward(
    chain: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    method: Literal["quoted", "parity"] = "quoted",
    price: str = "mark_price",
    premium: Premium = "coin",
) -> IntoFrameT:
    r"""Forward price of each expiry, as quoted or by put-call parity.

    ``"quoted"`` is the median of the forwards in the quotes, which differ if a snapshot takes some time. ``"parity"``
    takes the strike K with the smallest difference between call and put, the lowest such strike, and computes

    .. math:: F = \frac{K}{1 - (c - p)} \quad \text{or} \quad F = K + (C - P)

    with premiums c, p in coin or C, P in the quote, without discounting.

    Parameters
    ----------
    chain : frame, n rows, one per (by, timestamp, expiry, strike, option_type), any order
        The lake's ``option_quotes``, or a frame with ``timestamp``, ``expiry``, ``option_type`` (CALL or PUT) and
        ``strike`` [quote per coin]; and with ``forward`` [quote per coin] or prices. An ``expiry`` that is a date means
        08:00 UTC of that day. An ``expiry`` that is null, or after 2262-04-11, the limit of nanoseconds, has no row in
        the result.
    by : str or iterable of str, optional
        Columns that tell one series of chains from another; by default the identity columns of the frame, such as
        ``exchange`` and ``coin``, except those of single options.
    method : {"quoted", "parity"}
        The rule.
    price : str
        Column of prices, for parity. [coin or quote, as ``premium`` says]
    premium : {"coin", "quote"}
        The unit of prices.

    Returns
    -------
    frame, one row per (by, timestamp, expiry), sorted by these, of the kind of ``chain``
        - ``days`` : float64, to the expiry, ACT/365. [d]
        - ``forward`` : float64, null without a quote or, for parity, without a strike that has both prices. Also null
          if the chain mixes several underlyings: an option has several values, or two values of ``forward`` or
          ``underlying_price`` differ by more than 5 %. If the chain lacks these columns, compare ``lowest`` and
          ``highest``. [quote per coin]
        - ``lowest``, ``highest`` : float64, the range of the forwards of all quotes, or of all strikes. [quote per
          coin]
        - ``quotes`` : int64, how many quotes, or strikes, have a forward.
        - ``method`` : str, the rule.

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column has values of another type, or ``chain`` is not a frame.

    References
    ----------
    .. [1] Cboe, "Volatility Index Methodology: Cboe Volatility Index", 2023, section on the forward level: the strike
       at which call and put differ least.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> chain = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "expiry": datetime(2026, 4, 4, 8, tzinfo=UTC),
    ...         "option_type": ["CALL", "PUT"], "strike": 80_000.0, "mark_price": [0.05, 0.25],
    ...     }
    ... )
    >>> round(forward(chain, method="parity")["forward"].item(), 4)
    66666.6667
    """
    one_of("method", method, ("quoted", "parity"))
    one_of("premium", premium, get_args(Premium))
    price = column("price", price)
    opened = Chain.opened(chain, by, numbers=["forward" if method == "quoted" else price], results=_RESULT)
    smile, row_forward = opened.smile, nw.col("__row_forward")
    if method == "quoted":
        quotes = opened.quotes.with_columns(__row_forward=above_zero(nw.col("forward")))
        forwards = opened.with_mixed(quotes, "__row_forward").with_columns(
            __chosen=nw.when(nw.col("__mixed") == 0).then(row_forward)
        )
        chosen_forward = nw.col("__chosen").median()
    else:
        forwards = _parity(opened, price=price, premium=premium)
        chosen_forward = nw.col("__chosen").max()
    result = forwards.group_by(*smile).agg(
        nw.col("__life").min(),
        forward=chosen_forward,
        lowest=row_forward.min(),
        highest=row_forward.max(),
        quotes=row_forward.count(),
    )
    days = act_365(nw.col("__life"), DAY)
    result = result.with_columns(nw.col("quotes").cast(nw.Int64), days=days, method=nw.lit(method))
    return opened.table.closed(
        result.select(*smile, *_RESULT), sort=smile, main=["lowest", "highest", "forward"]
    )


def _parity(chain: Chain[Any], *, price: str, premium: str) -> Rows:
    """Return one row per smile and strike: ``__row_forward``, and ``__chosen``, the same at the parity strike."""
    smile, strike, paid, difference = chain.smile, nw.col("strike"), nw.col(price), nw.col("__difference")
    quotes = chain.quotes.with_columns(
        strike=above_zero(strike), __paid=nw.when(paid.is_finite() & (paid >= 0)).then(paid)
    )
    call, put = (nw.when(nw.col("option_type") == kind).then(nw.col("__paid")) for kind in (CALL, PUT))
    if premium == "coin":
        row_forward = nw.when(difference < 1).then(strike / (1.0 - difference))
    else:
        row_forward = nw.when(strike + difference > 0).then(strike + difference)
    forwards = (
        chain.with_mixed(quotes, "__paid")
        .with_columns(__call=call, __put=put)
        .group_by(*smile, "strike")
        .agg(nw.col("__life").min(), nw.col("__call", "__put", "__mixed").max())
        .with_columns(__difference=nw.col("__call") - nw.col("__put"))
        .with_columns(__row_forward=row_forward)
        .with_columns(__difference=nw.when(~nw.col("__row_forward").is_null()).then(difference.abs()))
        .with_columns(__nearest=nw.when(difference == difference.min().over(*smile)).then(strike))
    )
    is_chosen = (strike == nw.col("__nearest").min().over(*smile)) & (nw.col("__mixed") == 0)
    return forwards.with_columns(__chosen=nw.when(is_chosen).then(nw.col("__row_forward")))
