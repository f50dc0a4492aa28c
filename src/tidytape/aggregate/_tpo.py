"""Trades to a market profile: which time blocks touched which price rows (TPO, time price opportunity).

A profile is a table of touches, one row per session, block and price row. It is computed from smaller tables: the
candle of a block gives the lowest and the highest row that the block touched, and a volume profile gives the volume of
each row. So only `candles` and `volume_profile` read the trades, and the rest works on a few rows per block.

Candles are made per *piece*: a block, or a whole session if it is shorter than a block. From then on sessions are
identified by a number, because joins and groups by three columns, two of them text, take twice as long.

Four steps lead to a result::

    _cut_trades, _cut_minutes -> sessions with their prices, rows that each block touched, rows on which they traded
    _touches                  -> one row per session, block and price row touched
    rows_of                   -> one row per session and price row touched, with the prices and the area of its session
    profile_levels, profile_sessions -> what of these rows is a level's, and what is a session's
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Literal, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.aggregate._counts import VOLUMES as _SUMMED
from tidytape.aggregate._counts import counted, touches, with_columns_of, with_volumes
from tidytape.aggregate._minutes import candles_of, needed_of_candles, needed_of_profile, profile_of
from tidytape.aggregate._trades import candles_without_volume, volume_profile
from tidytape.catalogue import DEFAULT_TPO_BLOCK_MINUTES, TPO_BLOCK_MINUTES, Interval, TPOSession
from tidytape.errors import QueryError, did_you_mean, warn
from tidytape.frames import _exact as exact
from tidytape.frames._dialects import in_sql
from tidytape.frames._door import BUCKET, MARKET
from tidytape.frames._grid import Grid
from tidytape.frames._rows import MOST_NUMBERS
from tidytape.frames._table import OpenTable, Rows
from tidytape.frames._times import bucket_start
from tidytape.frames._trading_clock import Period, TradingClock
from tidytape.schema import LISTS, TPO_SESSIONS, schema_of
from tidytape.sessions import Session, unless_utc_day
from tidytape.times import DAY, MINUTE, SECOND, AnyInterval, interval_of

_NEEDED = (*MARKET, "timestamp", "side", "price", "amount")
_TIMES: Final = ("timestamp", "first_timestamp", "last_timestamp")
NEW_TIMES: Final = dict.fromkeys(("period_start", "period_end"), "timestamp")
MAIN: Final = schema_of("TPO_AGG").names[-4:]
"""The columns of levels that come last."""
MAIN_OF_SESSIONS: Final = TPO_SESSIONS.names[-4:]
"""The columns of sessions that come last."""
PROFILE = (*MARKET, "timestamp")
SIDES = ("buy_volume", "sell_volume")
_NO_MARKET: Final = tuple(nw.lit("").alias(name) for name in MARKET)

_FROM_MARCH_0: Final = 719_468  # days from 0000-03-01 to the epoch
_BALANCE: Final = 60 * MINUTE
MOST_ROWS: Final = MOST_NUMBERS
"""How many rows the range of a block may have; with more, an eager frame is refused and a lazy query fails."""
_SESSIONS = {TPOSession.DAILY: Interval.DAY, TPOSession.WEEKLY: Interval.WEEK, TPOSession.MONTHLY: None}
_WORDS = {name: kind for kind in TPOSession for name in (kind.value, kind.alias)}


def tpo(
    trades: IntoFrameT,
    /,
    *,
    interval: str,
    block_size: Decimal | float | str,
    session: Session | str | None = None,
    period: str | None = None,
    block_minutes: int = DEFAULT_TPO_BLOCK_MINUTES,
    now: int | None = None,
) -> IntoFrameT:
    r"""Market profile per exchange and symbol: how many blocks of a session touched each price row.

    A session is cut into blocks of ``block_minutes``, numbered from 0 at its start. A block touches every row between
    its lowest and its highest trade, both included, traded on or not:

    .. math:: n_i = \left|\{b : \lfloor L_b / s \rfloor \le i \le \lfloor H_b / s \rfloor\}\right|,

    with :math:`L_b, H_b` the lowest and highest price of block :math:`b` and :math:`s` the block size. A row that no
    block touched does not appear, but the growth of the value area counts it as zero.

    Parameters
    ----------
    trades : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] as in a lake, or times with a
        zone as from `tidytape.Client.trades`, ``side`` (BUY or SELL), ``price`` [quote per coin], ``amount`` [coin];
        and ``sequence`` int64, the order of trades at one time. Trades of a client lack it; only the opening and the
        closing price need it.
    interval : str
        Name or alias of an interval, e.g. ``"DAY"`` or ``"1d"``: the length of a session, unless ``period`` is given.
    block_size : Decimal, int, float or str, > 0
        Height of a row. [quote per coin]
    session : Session, optional
        When the market trades: other trades are left out, blocks and the initial balance count trading time from the
        open, and a session of the profile is one of these, or all of a week or a month. By default the UTC day. A
        ``period`` still works here, with a DeprecationWarning.
    period : str, optional
        ``"daily"``, ``"weekly"`` (from Monday) or ``"monthly"`` (calendar months); without a session from 00:00 UTC.
    block_minutes : {30, 5, 60, 240}
        Length of a block. The last block of a session ends with it. [min]
    now : int, optional
        The time up to which the trades are known. The block that contains it is in progress; by default no block is.
        [ns since the epoch]

    Returns
    -------
    frame, one row per market, session and price row touched; of the same kind as ``trades``
        Sorted by (exchange, raw_symbol, timestamp, price) where the engine keeps order:

        - ``exchange``, ``raw_symbol``, ``timestamp`` as in ``trades``, start of the session,
        - ``price`` : low edge [quote per coin],
        - ``buy_volume``, ``sell_volume``, and their sum ``volume`` : 0 if the row has no trade [coin],
        - ``tpo_count``, ``first_touch_block``, ``last_touch_block`` : int64,
        - ``is_single_print`` : whether exactly one block touched it, and its run of neighbours with one block lies
          strictly inside the profile. A run that reaches the highest or lowest row is a tail instead,
        - ``is_poor_high``, ``is_poor_low`` : whether it is the highest or lowest row, and two or more blocks
          touched it,
        - ``is_in_progress`` : whether the block in progress touched it, so that the flags may still change.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not one of those listed; or if in an eager frame the range of a block has more than 1,048,576
        rows. A lazy frame is not read here; its query fails when it is computed.

    See Also
    --------
    tpo_sessions : The sessions, one row each.
    tpo_touches : The touches themselves.

    Notes
    -----
    polars computes eager frames; lazy frames are computed by their own engine.

    The blocks of a level follow from the touches. In polars::

        row = ["exchange", "raw_symbol", "timestamp", "price"]
        blocks = touches.group_by(row).agg(block_ids=pl.col("block_id").sort().cast(pl.Int32))
        levels.join(blocks, on=row)

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2 and appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> minute = 60 * 10**9
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start, start + 29 * minute, start + 30 * minute, start + 95 * minute],
    ...         "sequence": [1, 2, 3, 4],
    ...         "side": ["BUY", "SELL", "BUY", "BUY"],
    ...         "price": [10.0, 12.5, 12.0, 11.0],
    ...         "amount": [1.0, 2.0, 4.0, 8.0],
    ...     }
    ... )
    >>> levels = tpo(trades, interval="1d", block_size=1)
    >>> levels.select("price", "volume", "tpo_count", "first_touch_block", "last_touch_block").rows()
    [(10.0, 1.0, 1, 0, 0), (11.0, 8.0, 2, 0, 3), (12.0, 6.0, 2, 0, 1)]
    """
    cut = Cut.of(interval, block_size, session, period, block_minutes)
    cut, table = cut.running(OpenTable.of(trades, _NEEDED))
    levels = profile_levels(rows_of(_cut_trades(table, cut), cut), cut, now)
    return table.closed(cut.told(levels), main=MAIN)


def tpo_sessions(
    trades: IntoFrameT,
    /,
    *,
    interval: str,
    block_size: Decimal | float | str,
    session: Session | str | None = None,
    period: str | None = None,
    block_minutes: int = DEFAULT_TPO_BLOCK_MINUTES,
) -> IntoFrameT:
    """Sessions of the market profile of each exchange and symbol: point of control, value area, range and totals.

    Parameters
    ----------
    trades, interval, block_size, session, period, block_minutes
        As in `tpo`.

    Returns
    -------
    frame, one row per market and session; of the same kind as ``trades``
        Sorted by (exchange, raw_symbol, timestamp) where the engine keeps order:

        - ``exchange``, ``raw_symbol``, ``timestamp`` as in ``trades``, start of the session,
        - ``period_start``, equal to ``timestamp``, and ``period_end`` (exclusive), of the same type,
        - ``block_size_minutes`` : int64 [min],
        - ``profile_high``, ``profile_low`` : highest and lowest row [quote per coin],
        - ``opening_price``, ``closing_price`` : prices of the trades with the smallest and the largest (timestamp,
          sequence); without ``sequence``, null if the trades at that time have several prices [quote per coin],
        - ``ibr_high``, ``ibr_low`` : highest and lowest price traded in the initial balance, the blocks that start
          less than 60 minutes into the session; null if none of them traded [quote per coin],
        - ``total_tpo_count`` : int64 [TPO], ``value_area_percentage`` [%], ``total_volume`` [coin],
        - ``val_price``, ``poc_price``, ``vah_price`` : rows of the value area's lower end, of the point of control and
          of the value area's upper end, as `value_area` finds them by default (70%, two rows at a time)
          [quote per coin].

    Raises
    ------
    MissingColumnError, QueryError
        As in `tpo`.

    See Also
    --------
    tpo : The levels.

    Notes
    -----
    The lists of a session follow from the flags of its levels. In polars::

        levels.group_by("exchange", "raw_symbol", "timestamp").agg(
            single_prints=pl.col("price").filter("is_single_print").sort()
        )

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2 and appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> minute = 60 * 10**9
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start, start + 29 * minute, start + 30 * minute, start + 95 * minute],
    ...         "sequence": [1, 2, 3, 4],
    ...         "side": ["BUY", "SELL", "BUY", "BUY"],
    ...         "price": [10.0, 12.5, 12.0, 11.0],
    ...         "amount": [1.0, 2.0, 4.0, 8.0],
    ...     }
    ... )
    >>> sessions = tpo_sessions(trades, interval="1d", block_size=1)
    >>> sessions.select("poc_price", "opening_price", "closing_price", "ibr_high", "ibr_low").row(0)
    (11.0, 10.0, 11.0, 12.5, 10.0)
    """
    cut = Cut.of(interval, block_size, session, period, block_minutes)
    cut, table = cut.running(OpenTable.of(trades, _NEEDED))
    sessions = profile_sessions(rows_of(_cut_trades(table, cut), cut), cut)
    return table.closed(cut.told(sessions), times=NEW_TIMES, main=MAIN_OF_SESSIONS)


def tpo_of(
    candles: IntoFrameT,
    profile: IntoFrameT,
    /,
    *,
    interval: str,
    block_size: Decimal | float | str,
    session: Session | str | None = None,
    period: str | None = None,
    block_minutes: int = DEFAULT_TPO_BLOCK_MINUTES,
    now: int | None = None,
    amount: Literal["coin", "quote"] = "coin",
    united: bool = False,
) -> IntoFrameT:
    """Market profile per exchange and symbol, from one-minute candles and profiles.

    Parameters
    ----------
    candles : frame, n rows, in any order
        From `tidytape.aggregate.minute_candles`.
    profile : frame, m rows, in any order, of the same kind
        From `tidytape.aggregate.minute_profile` of the same trades, with a block size that divides this one.
    interval, block_size, session, period, block_minutes, now
        As in `tpo`.
    amount : {"coin", "quote"}
        What the volumes count.
    united : bool
        Whether to make one profile of all markets, which must have one coin: a block touched a row if it did so on any
        market, and volumes are summed. ``exchange`` and ``raw_symbol`` are then empty.

    Returns
    -------
    frame, one row per market, session and price row touched; of the same kind as ``candles``
        As from `tpo`. [coin or quote]

    Raises
    ------
    MissingColumnError, QueryError
        As in `tpo`.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2 and appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> from tidytape.aggregate import minute_candles, minute_profile
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE", "raw_symbol": "BTCUSDT", "timestamp": [start, start + 1, start + 2],
    ...         "sequence": [1, 2, 3],
    ...         "side": "BUY", "price": [10.0, 12.5, 12.0], "amount": 1.0, "quote_amount": [10.0, 12.5, 12.0],
    ...     }
    ... )
    >>> levels = tpo_of(minute_candles(trades), minute_profile(trades, block_size=1), interval="1d", block_size=1)
    >>> levels.select("price", "volume", "tpo_count").rows()
    [(10.0, 1.0, 1), (11.0, 0.0, 1), (12.0, 2.0, 1)]
    """
    cut = Cut.of(interval, block_size, session, period, block_minutes)
    cut, table, profile_parts = _opened(candles, profile, cut, amount, united=united)
    return table.closed(cut.told(profile_levels(rows_of(profile_parts, cut), cut, now)), main=MAIN)


def tpo_sessions_of(
    candles: IntoFrameT,
    profile: IntoFrameT,
    /,
    *,
    interval: str,
    block_size: Decimal | float | str,
    session: Session | str | None = None,
    period: str | None = None,
    block_minutes: int = DEFAULT_TPO_BLOCK_MINUTES,
    amount: Literal["coin", "quote"] = "coin",
    united: bool = False,
) -> IntoFrameT:
    """Sessions of the market profile of each exchange and symbol, from one-minute candles and profiles.

    Parameters
    ----------
    candles, profile, interval, block_size, session, period, block_minutes, amount, united
        As in `tpo_of`.

    Returns
    -------
    frame, one row per market and session; of the same kind as ``candles``
        As from `tpo_sessions`. [coin or quote]

    Raises
    ------
    MissingColumnError, QueryError
        As in `tpo`.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2 and appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> from tidytape.aggregate import minute_candles, minute_profile
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE", "raw_symbol": "BTCUSDT", "timestamp": [start, start + 1, start + 2],
    ...         "sequence": [1, 2, 3],
    ...         "side": "BUY", "price": [10.0, 12.5, 12.0], "amount": 1.0, "quote_amount": [10.0, 12.5, 12.0],
    ...     }
    ... )
    >>> minutes = minute_candles(trades), minute_profile(trades, block_size=1)
    >>> tpo_sessions_of(*minutes, interval="1d", block_size=1).select("poc_price", "total_volume").rows()
    [(11.0, 3.0)]
    """
    cut = Cut.of(interval, block_size, session, period, block_minutes)
    cut, table, profile_parts = _opened(candles, profile, cut, amount, united=united)
    sessions = cut.told(profile_sessions(rows_of(profile_parts, cut), cut))
    return table.closed(sessions, times=NEW_TIMES, main=MAIN_OF_SESSIONS)


def tpo_touches(
    trades: IntoFrameT,
    /,
    *,
    interval: str,
    block_size: Decimal | float | str,
    session: Session | str | None = None,
    period: str | None = None,
    block_minutes: int = DEFAULT_TPO_BLOCK_MINUTES,
) -> IntoFrameT:
    """Touches of each market: which block of a session touched which price row, and its volume there.

    Parameters
    ----------
    trades, interval, block_size, session, period, block_minutes
        As in `tpo`.

    Returns
    -------
    frame, one row per market, session, block and price row touched; of the same kind as ``trades``
        ``exchange``, ``raw_symbol``, ``timestamp`` as in ``trades``, start of the session, ``block_id`` int64, from 0
        at the session's start, ``price``, low edge of the row [quote per coin], ``buy_volume``, ``sell_volume`` and
        their sum ``volume``, 0 without a trade [coin]. Sorted by (exchange, raw_symbol, timestamp, block_id, price)
        where the engine keeps order.

    Raises
    ------
    MissingColumnError, QueryError
        As in `tpo`.

    See Also
    --------
    tpo : The profile, one row per session and price row.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2 and appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start, start + 1, start + 30 * 60 * 10**9],
    ...         "sequence": [1, 2, 3],
    ...         "side": ["BUY", "SELL", "BUY"],
    ...         "price": [10.0, 12.5, 12.0],
    ...         "amount": [1.0, 2.0, 4.0],
    ...     }
    ... )
    >>> tpo_touches(trades, interval="1d", block_size=1).select("block_id", "price", "volume").rows()
    [(0, 10.0, 1.0), (0, 11.0, 0.0), (0, 12.0, 2.0), (1, 12.0, 4.0)]
    """
    cut = Cut.of(interval, block_size, session, period, block_minutes)
    cut, table = cut.running(OpenTable.of(trades, _NEEDED))
    return table.closed(cut.told(_touches(_cut_trades(table, cut), cut)))


def tpo_touches_of(
    candles: IntoFrameT,
    profile: IntoFrameT,
    /,
    *,
    interval: str,
    block_size: Decimal | float | str,
    session: Session | str | None = None,
    period: str | None = None,
    block_minutes: int = DEFAULT_TPO_BLOCK_MINUTES,
    amount: Literal["coin", "quote"] = "coin",
    united: bool = False,
) -> IntoFrameT:
    """Touches of each market, from one-minute candles and profiles.

    Parameters
    ----------
    candles, profile, interval, block_size, session, period, block_minutes, amount, united
        As in `tpo_of`.

    Returns
    -------
    frame, one row per market, session, block and price row touched; of the same kind as ``candles``
        As from `tpo_touches`. [coin or quote]

    Raises
    ------
    MissingColumnError, QueryError
        As in `tpo`.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2 and appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> from tidytape.aggregate import minute_candles, minute_profile
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE", "raw_symbol": "BTCUSDT", "timestamp": [start, start + 1, start + 2],
    ...         "sequence": [1, 2, 3],
    ...         "side": "BUY", "price": [10.0, 12.5, 12.0], "amount": 1.0, "quote_amount": [10.0, 12.5, 12.0],
    ...     }
    ... )
    >>> minutes = minute_candles(trades), minute_profile(trades, block_size=1)
    >>> tpo_touches_of(*minutes, interval="1d", block_size=1).select("block_id", "price", "volume").rows()
    [(0, 10.0, 1.0), (0, 11.0, 0.0), (0, 12.0, 2.0)]
    """
    cut = Cut.of(interval, block_size, session, period, block_minutes)
    cut, table, profile_parts = _opened(candles, profile, cut, amount, united=united)
    return table.closed(cut.told(_touches(profile_parts, cut)))


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that market profiles are computed from.

    Attributes
    ----------
    sessions : one row per session
        ``session``, the number of the session; the columns of `PROFILE`, which name it; and its prices.
    ranges : one row per session, block and market
        ``session``, ``block_id``, and the ``lowest`` and ``highest`` price row that the block touched.
    traded : function
        Return the volume profile for an interval.
    """

    sessions: Rows
    ranges: Rows
    traded: Callable[[Interval], Rows]

    def numbered(self, rows: Rows) -> Rows:
        """Add the number of each row's session."""
        return rows.join(self.sessions.select(*PROFILE, "session"), on=[*PROFILE], how="inner")

    def touched(self, cut: Cut) -> Rows:
        """Return one row per session, block and price row touched, with the price of the row."""
        return (
            touches(self.ranges)
            .join(self.sessions.select(*PROFILE, "session"), on="session", how="inner")
            .select(*PROFILE, "block_id", cut.grid.price(nw.col("row")).alias("price"))
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """How time is divided into sessions and blocks, and price into rows."""

    period: AnyInterval | None  # None: a calendar month
    minutes: int
    grid: Grid
    session: Session | None = None
    clock: TradingClock | None = None
    """The clock of the session, on which all times are until `told`."""

    @classmethod
    def of(
        cls,
        interval: str,
        block_size: Decimal | float | str,
        session: Session | str | None,
        period: str | None,
        block_minutes: int,
    ) -> Cut:
        """Return the `Cut` that the arguments of `tpo` describe."""
        if block_minutes not in TPO_BLOCK_MINUTES:
            expected = "one of " + ", ".join(map(str, TPO_BLOCK_MINUTES))
            raise QueryError("block_minutes", got=block_minutes, expected=expected)
        length: Interval | None = interval_of(interval)
        periods = f"one of {', '.join(kind.alias for kind in TPOSession)}"
        if isinstance(session, str):
            if period is not None:
                raise QueryError("session", got=session, expected="a Session, or nothing beside ``period``")
            if session not in _WORDS:
                raise QueryError(
                    "session",
                    got=session,
                    expected=f"a Session, or ``period``, {periods}",
                    hint=did_you_mean(session, _WORDS)
                    or "Session.of(name) and Session.parsed(text) make a Session",
                )
            warn(DeprecationWarning(f"``session`` takes a Session; a length is ``period={session!r}``"))
            session, period = None, session
        if period is not None:
            if str(period) not in _WORDS:
                hint = did_you_mean(str(period), _WORDS)
                raise QueryError("period", got=period, expected=periods, hint=hint)
            length = _SESSIONS[_WORDS[str(period)]]
        if session is not None and length not in _SESSIONS.values():
            expected = "1d or 1w, with a session, or a ``period``"
            raise QueryError("interval", got=interval, expected=expected)
        return cls(length, int(block_minutes), Grid.of(block_size), unless_utc_day(session))

    def bound(self, rows: Rows) -> Cut:
        """Return the cut with the session's clock for some rows; without a session the cut as it is."""
        if self.session is None:
            return self
        word = next(kind for kind, length in _SESSIONS.items() if length is self.period).alias
        clock = TradingClock.of(self.session, cast("Period", word), rows)
        return replace(self, period=clock.length, clock=clock)

    def running(self, table: OpenTable[IntoFrameT]) -> tuple[Cut, OpenTable[IntoFrameT]]:
        """Return the cut with its clock, and a table with times of the clock; without a session both as they are."""
        cut = self.bound(table.rows)
        return cut, replace(table, rows=cut.moved(table.rows))

    def moved(self, rows: Rows) -> Rows:
        """Return the rows at whose time the market trades, with times of the session's clock."""
        return rows if self.clock is None else self.clock.open_rows(rows)

    def told(self, rows: Rows) -> Rows:
        """Return rows of a result with times of the world."""
        if self.clock is None:
            return rows
        names = rows.collect_schema().names()
        if "period_end" in names:
            rows = self.clock.with_closes(rows, "period_end")
        rows = self.clock.told(rows)
        if "period_start" in names:
            rows = rows.with_columns(period_start=nw.col("timestamp"))
        return rows.select(*names).sort(name for name in (*PROFILE, "block_id", "price") if name in names)

    @property
    def piece(self) -> Interval:
        """The interval of a piece: a block, or a whole session if it is shorter than a block.

        Both lengths are aligned to the epoch and one divides the other, so a piece lies in one block and one session.
        """
        seconds = min(self.minutes * 60, self.period.seconds if self.period else self.minutes * 60)
        return next(interval for interval in Interval if interval.seconds == seconds)

    @property
    def whole(self) -> Interval:
        """The interval of a session; a day where that is no interval of the service."""
        return self.period if isinstance(self.period, Interval) else Interval.DAY

    def placed(self, pieces: Rows) -> Rows:
        """Add the start of each piece's session as ``timestamp``, and the number of its block as ``block_id``."""
        time = nw.col(BUCKET)
        if self.period:
            pieces = pieces.with_columns(bucket_start(time, self.period).alias("timestamp"))
        else:
            pieces = _with_month_start(pieces, time, "timestamp")
        block = (time - nw.col("timestamp")) // (self.minutes * MINUTE)
        return pieces.with_columns(block.alias("block_id"))

    def with_end(self, sessions: Rows) -> Rows:
        """Add the end of the session that starts at ``timestamp``."""
        start = nw.col("timestamp")
        if self.period:
            return sessions.with_columns((start + self.period.seconds * SECOND).alias("period_end"))
        # 31 days after the first day of a month is one of the first four days of the next month.
        return _with_month_start(sessions, start + 31 * DAY, "period_end")


def _with_month_start(frame: Rows, time: nw.Expr, name: str) -> Rows:
    """Add the start of the UTC calendar month that a time, in whole seconds, lies in. [ns]

    Years are counted from March, so that a leap day is the last day of its year. Dividing the days by centuries, the
    remainder by years and that remainder by months leaves the day of the month: 4 centuries have 146,097 days, 4 years
    have 1,461, and 5 months from March on have 153. The rounding of the quotients fits the long and short months (C.
    Neri and L. Schneider, "Euclidean affine functions and their application to calendar algorithms", 2023).

    The steps use integers, because all engines agree on these. Each step is a column of its own: an engine that
    translates a remainder into two quotients would double a nested expression at every step. Times are whole seconds,
    because Spark divides as floats, which hold seconds exactly but not nanoseconds.
    """
    days = nw.col("days")  # since the start of the 4 centuries, then of the year, then of the month
    return (
        frame.with_columns((time // DAY).alias("day"))
        .with_columns((((nw.col("day") + _FROM_MARCH_0) * 4 + 3) % 146_097 // 4).alias("days"))
        .with_columns(((days * 4 + 3) % 1_461 // 4).alias("days"))
        .with_columns(((days * 5 + 461) % 153 // 5).alias("days"))
        .with_columns(((nw.col("day") - days) * DAY).alias(name))
        .drop("day", "days")
    )


def profile_levels(rows: Rows, cut: Cut, now: int | None) -> Rows:
    """Return the levels of each session with their flags."""
    return (
        _with_flags(rows, cut, now)
        .pipe(_in_sql_order)
        .select(
            *PROFILE,
            *("price", *SIDES, "tpo_count", "volume", "first_touch_block", "last_touch_block"),
            *("is_single_print", "is_poor_high", "is_poor_low", "is_in_progress"),
        )
    )


def profile_sessions(rows: Rows, cut: Cut) -> Rows:
    """Return the sessions with their prices, their value area and their totals."""
    row = nw.col("row")
    return (
        rows.with_columns(
            nw.col("tpo_count").sum().over("session").cast(nw.Int64).alias("total_tpo_count"),
            nw.col("volume").alias("total_volume"),
        )
        .pipe(exact.in_parts, "total_volume")
        .with_columns(exact.summed("total_volume").over("session"))
        .with_columns(exact.total("total_volume"))
        .filter(row == nw.col("lowest"))
        .pipe(_in_sql_order)
        .select(
            *PROFILE,
            nw.col("timestamp").alias("period_start"),
            "period_end",
            nw.lit(cut.minutes, nw.Int64).alias("block_size_minutes"),
            nw.col("poc").alias("poc_price"),
            nw.col("vah").alias("vah_price"),
            nw.col("val").alias("val_price"),
            cut.grid.price(nw.col("highest")).alias("profile_high"),
            cut.grid.price(nw.col("lowest")).alias("profile_low"),
            *("opening_price", "closing_price", "ibr_high", "ibr_low", "total_tpo_count"),
            (nw.col("value_area_share") * 100).alias("value_area_percentage"),
            "total_volume",
        )
    )


def rows_of(profile_parts: Parts, cut: Cut) -> Rows:
    """Return the price rows of each session, with what the session has: its prices, its end and its outermost rows."""
    rows = counted(
        profile_parts.ranges,
        _traded(profile_parts, cut, ["session", "row"], cut.whole),
        cut.grid,
    )
    row = nw.col("row")
    rows = cut.with_end(with_columns_of(rows, profile_parts.sessions, ["session"])).with_columns(
        row.min().over("session").alias("lowest"), row.max().over("session").alias("highest")
    )
    return _kept(rows)


def _kept(rows: Rows) -> Rows:
    """Return rows that several steps read, so that polars computes them once."""
    return rows if in_sql(rows) else nw.from_native(rows.to_native().cache())


def _in_sql_order(rows: Rows) -> Rows:
    return rows.sort("session", "row") if in_sql(rows) else rows


def _touches(profile_parts: Parts, cut: Cut) -> Rows:
    """Return one row per session, block and price row touched, with the volumes of the block in that row."""
    key = ["session", "block_id", "row"]
    return (
        with_volumes(touches(profile_parts.ranges), _traded(profile_parts, cut, key, cut.piece), key)
        .join(profile_parts.sessions.select(*PROFILE, "session"), on="session", how="inner")
        .sort("session", "block_id", "row")
        .select(*PROFILE, "block_id", cut.grid.price(nw.col("row")).alias("price"), *SIDES, "volume")
    )


def _traded(profile_parts: Parts, cut: Cut, key: list[str], interval: Interval) -> Rows:
    """Return the traded volumes of each key.

    ``interval`` is the longest interval that lies within one time block or session of the key; for months and on a
    clock it is a day.
    """
    profile = profile_parts.traded(interval).select(
        *MARKET,
        nw.col("timestamp").alias(BUCKET),
        cut.grid.row(nw.col("price")).alias("row"),
        *_SUMMED,
    )
    is_summed = not isinstance(cut.period, Interval) and interval is Interval.DAY
    # The profile's volume is the float sum of two volumes; summing it in parts rounds it to their decimal sum.
    sum_columns = _SUMMED if is_summed else ("volume",)
    volumes = exact.in_parts(profile_parts.numbered(cut.placed(profile)), *sum_columns)
    if is_summed:
        volumes = volumes.group_by(*key).agg(exact.summed(*sum_columns))
    return volumes.select(
        *key, *(exact.total(name) if name in sum_columns else nw.col(name) for name in _SUMMED)
    )


def _opened(
    candles: IntoFrameT,
    profile: IntoFrameT,
    cut: Cut,
    amount: Literal["coin", "quote"],
    *,
    united: bool,
) -> tuple[Cut, OpenTable[IntoFrameT], Parts]:
    """Open minute candles and profiles; return the cut, the table of the candles, and the parts of market profiles."""
    cut, table = cut.running(OpenTable.of(candles, needed_of_candles()))
    if cut.clock and not cut.clock.has_whole_minutes:
        expected = "a session that opens and closes on whole minutes, for candles of minutes"
        raise QueryError("session", got=str(cut.session), expected=expected)
    levels = cut.moved(OpenTable.of(profile, needed_of_profile(amount=amount), parameter="profile").rows)
    return cut, table, _cut_minutes(table.rows, levels, cut, amount, united=united, eager=table.is_eager)


def _cut_minutes(
    minutes: Rows,
    rows: Rows,
    cut: Cut,
    amount: Literal["coin", "quote"],
    *,
    united: bool,
    eager: bool = False,
) -> Parts:
    """Return the parts of market profiles, from one-minute candles and profiles."""
    member_candles = with_rows(candles_of.core(minutes, interval=cut.piece), cut, eager=eager)
    group_candles, ranges = member_candles, member_candles
    if united:
        # The candle of the group gives open and close. Its range would also contain rows between the ranges of two
        # members, which no trade crossed, so the touched rows are those of each member.
        ranges, rows = member_candles.with_columns(*_NO_MARKET), rows.with_columns(*_NO_MARKET)
        group_candles = with_rows(
            candles_of.core(minutes.with_columns(*_NO_MARKET), interval=cut.piece), cut, eager=False
        )
    return parts_of(
        group_candles,
        ranges,
        lambda interval: profile_of.core(rows, interval=interval, block_size=cut.grid.size, amount=amount),
        cut,
    )


def tpo_of_minutes(
    minutes: Rows,
    rows: Rows,
    cut: Cut,
    amount: Literal["coin", "quote"],
    *,
    united: bool,
) -> tuple[Rows, Rows]:
    """Return levels with their blocks, and sessions with their lists, from minute candles and profiles."""
    profile_parts = _cut_minutes(minutes, rows, cut, amount, united=united)
    rows_of_sessions = rows_of(profile_parts, cut)
    levels = _kept(profile_levels(rows_of_sessions, cut, None))
    sessions = profile_sessions(rows_of_sessions, cut)
    return with_blocks(levels, profile_parts.touched(cut)), with_lists(sessions, levels)


def with_blocks(levels: Rows, touched: Rows) -> Rows:
    """Add the blocks that touched each level, as ``client.tpo`` returns them."""
    polars, key = levels.implementation.to_native_namespace(), [*PROFILE, "price"]
    blocks = touched.to_native().group_by(key).agg(block_ids=polars.col("block_id").sort().cast(polars.Int32))
    with_blocks: Rows = nw.from_native(levels.to_native().join(blocks, on=key, how="left"))
    return with_blocks


def with_lists(sessions: Rows, levels: Rows) -> Rows:
    """Add the lists of the levels of each session that have a flag, as ``client.tpo_sessions`` returns them."""
    polars, key = levels.implementation.to_native_namespace(), [*PROFILE]
    lists = (
        levels.to_native()
        .group_by(key)
        .agg(polars.col("price").filter(flag).sort().alias(name) for flag, name in LISTS.items())
    )
    with_lists: Rows = nw.from_native(sessions.to_native().join(lists, on=key, how="left"))
    return with_lists


def _cut_trades(table: OpenTable[Any], cut: Cut) -> Parts:
    """Return the parts of market profiles, from trades."""
    order = ["sequence"] if "sequence" in table.names else []
    trades = table.rows.select(*_NEEDED, *order)
    make_candles = candles_without_volume if order else _candles_of_moments
    blocks = with_rows(make_candles(trades, interval=cut.piece), cut, eager=table.is_eager)
    return parts_of(
        blocks,
        blocks,
        lambda interval: volume_profile.core(trades, interval=interval, block_size=cut.grid.size),
        cut,
    )


def _candles_of_moments(trades: Rows, *, interval: Interval) -> Rows:
    """Return candles of trades without ``sequence``; open or close is null if it depends on the order of trades.

    It does if trades at the first or the last time of a candle have several prices.
    """
    moments = (
        trades.group_by(*MARKET, "timestamp")
        .agg(nw.col("price").min().alias("lowest"), nw.col("price").max().alias("highest"))
        .with_columns(sequence=nw.lit(0, nw.Int64))
    )
    low, high = (
        candles_without_volume(moments.rename({end: "price"}).drop(other), interval=interval)
        for end, other in (("lowest", "highest"), ("highest", "lowest"))
    )
    return (
        low.drop("high")
        .join(high.drop("low"), on=[*MARKET, "timestamp"], suffix="_high")
        .select(
            *MARKET,
            *("timestamp", "high", "low"),
            *(
                nw.when(nw.col(name) == nw.col(f"{name}_high")).then(nw.col(name)).alias(name)
                for name in ("open", "close")
            ),
        )
    )


def parts_of(blocks: Rows, ranges: Rows, traded: Callable[[Interval], Rows], cut: Cut) -> Parts:
    """Return the parts of market profiles, from candles of pieces and from the ranges of rows that they touched."""
    sessions = (
        _sessions(cut.placed(blocks))
        .with_row_index("session", order_by=PROFILE)
        .with_columns(nw.col("session").cast(nw.Int64))
    )
    profile_parts = Parts(sessions, ranges, traded)
    ranges = profile_parts.numbered(cut.placed(ranges)).select("session", "block_id", "lowest", "highest")
    return replace(profile_parts, ranges=ranges)


def with_rows(pieces: Rows, cut: Cut, *, eager: bool) -> Rows:
    """Add the lowest and the highest row of each piece; if ``eager``, raise QueryError if a piece has too many rows."""
    row = cut.grid.row
    blocks: Rows = pieces.rename({"timestamp": BUCKET}).with_columns(
        row(nw.col("low")).alias("lowest"), row(nw.col("high")).alias("highest")
    )
    if not eager:
        return _kept(blocks)
    collected = blocks.collect("polars")
    rows = int((collected["highest"] - collected["lowest"]).max() or 0) + 1
    if rows > MOST_ROWS:
        raise QueryError(
            "block_size",
            got=str(cut.grid.size),
            expected=f"a size that cuts the range of every block into at most {MOST_ROWS:,} rows",
            hint=f"one has {rows:,}",
        )
    return collected.lazy()


def _with_flags(levels: Rows, cut: Cut, now: int | None) -> Rows:
    """Add the flags of each level."""
    row, lowest, highest = nw.col("row"), nw.col("lowest"), nw.col("highest")
    is_single = nw.col("tpo_count") == 1
    levels = levels.with_columns(is_single.cast(nw.Int64).alias("single")).with_columns(
        nw.col("single").sum().over("session").alias("singles"),
        nw.col("single")
        .cum_sum()
        .over("session", order_by="row")
        .alias("singles_below"),  # includes this row
    )
    singles_above = (
        nw.col("singles") - nw.col("singles_below") + 1
    )  # this row included, if its TPO count is 1
    # A row is in a tail if it and all rows beyond it, up to the top or down to the bottom, have a TPO count of 1.
    is_in_tail = (nw.col("singles_below") == row - lowest + 1) | (singles_above == highest - row + 1)
    block_end = nw.min_horizontal(
        nw.col("timestamp") + (nw.col("last_touch_block") + 1) * (cut.minutes * MINUTE), "period_end"
    )
    return levels.with_columns(
        (is_single & ~is_in_tail).alias("is_single_print"),
        ((row == highest) & ~is_single).alias("is_poor_high"),
        ((row == lowest) & ~is_single).alias("is_poor_low"),
        (nw.lit(False) if now is None else block_end > (cut.clock.now(now) if cut.clock else now)).alias(
            "is_in_progress"
        ),
    )


def _sessions(blocks: Rows) -> Rows:
    """Return the opening and closing price and the initial balance of each session."""
    time = nw.col(BUCKET)
    time_in_session = time - nw.col("timestamp")
    return (
        blocks.with_columns(
            nw.when(time == time.min().over(*PROFILE)).then(nw.col("open")).alias("opening_price"),
            nw.when(time == time.max().over(*PROFILE)).then(nw.col("close")).alias("closing_price"),
            nw.when(time_in_session < _BALANCE).then(nw.col("high")).alias("ibr_high"),
            nw.when(time_in_session < _BALANCE).then(nw.col("low")).alias("ibr_low"),
        )
        .group_by(*PROFILE)
        .agg(nw.col("opening_price", "closing_price", "ibr_high").max(), nw.col("ibr_low").min())
    )
