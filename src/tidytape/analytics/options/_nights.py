"""Realised volatility of a market that closes: what is a return, and how many of them make a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

import narwhals.stable.v2 as nw

from tidytape.frames._table import Rows
from tidytape.frames._trading import on_session_dates, span_of
from tidytape.frames._trading_clock import Clocks, TradingClock, with_trading_time
from tidytape.sessions import Session
from tidytape.times import DAY, SECOND, WEEK

_IS_LONG, _IS_START = nw.col("__is_long") == 1, nw.col("__is_start")
"""Whether a candle lasts a day or longer; and whether the market was closed before it."""

_GAP: Final = (nw.col("open") / nw.col("__before")).log()
"""The return from the close of the candle before to the open."""

SUMS: Final = ("__between", "__nights", "__returns", "__worth")
"""Columns of `Nights.terms` that `Nights.per_session` needs as sums over the window."""


@dataclass(frozen=True)
class Nights:
    """A session, and what becomes of the nights, the times between two sessions.

    Attributes
    ----------
    session : Session
    keeps : bool
        Whether the returns over nights count.
    has_open : bool
        Whether the candles have an open, so that a night can be told from the candle after it.
    """

    session: Session
    keeps: bool
    has_open: bool

    def placed(self, candles: Rows) -> Rows:
        """Add where each candle lies in the trading time.

        ``__from`` and ``__until``, the trading time before its start and before its end; a candle of a day or longer
        counts sessions, in place of time: those whose dates lie in it. ``__is_start``, whether the market was closed
        before it next trades, ``__of_year``, the sessions whose dates lie in the year of the session in which it does,
        and ``__is_closed``, 1 if it does not trade in the candle. Such a candle has no ``__length``.
        """
        first, last = span_of(candles)
        length, number = nw.col("__length"), nw.lit(1, nw.Int64())
        candles = candles.with_columns(
            __bucket=nw.col("timestamp"),
            __is_long=nw.when(length >= DAY).then(number).otherwise(nw.lit(0, nw.Int64())),
        )
        candles = on_session_dates(candles, self.session)
        clock = TradingClock(self.session, first - WEEK, last + 2 * WEEK)
        clocks: Clocks = {(0,): clock, (1,): replace(clock, has_dates=True)}
        for name, time in (("__until", nw.col("__bucket") + length), ("__from", nw.col("__bucket"))):
            candles = with_trading_time(candles, time, name, clocks, ["__is_long"])
        trades = nw.col("__until") > nw.col("__from")
        return candles.with_columns(
            __is_start=nw.col("__from") == nw.col("__opened"),
            __of_year=self._of_year(clock),
            __is_closed=nw.when(trades).then(nw.lit(0, nw.Int64())).otherwise(number),
            __length=nw.when(trades).then(length),
        )

    def _of_year(self, clock: TradingClock) -> nw.Expr:
        """Return how many sessions have their dates in the year of ``__date``."""
        of_year: nw.Expr = nw.lit(None, nw.Int64())
        for year in sorted({datetime.fromtimestamp(part.date // SECOND, UTC).year for part in clock.parts}):
            sessions = self.session._between(date(year, 1, 1), date(year + 1, 1, 1))
            number = nw.lit(len(sessions), nw.Int64())
            of_year = nw.when(nw.col("__date") >= sessions[0].date_start).then(number).otherwise(of_year)
        return of_year

    def terms(self, terms: Mapping[str, nw.Expr], *, is_range: bool) -> dict[str, nw.Expr]:
        """Return the terms of an estimator, of which those of a candle after a night begin at its open; and `SUMS`.

        A candle of a day or longer has its night in its return from close to close, unless nights are dropped.
        """
        terms, has_return, is_after_night = dict(terms), nw.lit(value=True), _IS_START & ~_IS_LONG
        if "__close_to_close" in terms:
            from_close, from_open = terms["__close_to_close"], (nw.col("close") / nw.col("open")).log()
            is_cut = is_after_night if self.keeps else _IS_START
            has_return = ~is_cut | nw.lit(value=self.has_open or self.keeps)
            cut = from_open if self.has_open else nw.when(has_return).then(from_close)
            terms["__close_to_close"] = nw.when(is_cut).then(cut).otherwise(from_close)
        is_night = is_after_night & nw.lit(value=self.keeps and self.has_open)
        is_square = _IS_START if self.keeps and is_range else is_night
        if "__overnight" in terms:  # the squares of what lies between short candles of one session count, too
            is_square = is_square | (~_IS_START & ~_IS_LONG)
            terms["__overnight"] = nw.when(_IS_LONG).then(_GAP).otherwise(0.0) * float(self.keeps)
        count = nw.when(has_return).then(1.0).otherwise(0.0)
        return terms | {
            "__between": nw.when(is_square).then(_GAP * _GAP if self.has_open else 0.0).otherwise(0.0),
            "__nights": nw.when(is_night).then(1.0).otherwise(0.0),
            "__returns": count,
            "__worth": count
            * (nw.col("__until") - nw.col("__from"))
            / nw.when(_IS_LONG).then(1).otherwise(nw.col("__length")),
        }

    def per_session(self, variance: nw.Expr) -> nw.Expr:
        """Return the variance of a session, from that of a candle over a window of which the rows have the `SUMS`."""
        between, nights, returns, worth = map(nw.col, SUMS)
        trading = float(self.session._trading // timedelta(microseconds=1) * 1_000)
        # A candle that trades for a part of its time counts as this part of a return.
        returns_a_session = trading / nw.col("__length") + (
            self.session._nights if self.keeps and self.has_open else 0
        )
        sessions = nw.when(_IS_LONG).then(worth).otherwise((worth + nights) / returns_a_session)
        return variance * (returns / sessions) + between / sessions
