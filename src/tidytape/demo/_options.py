r"""The demo's option chains: calls and puts on two coins, quoted once an hour on a surface that moves.

The total variance of an expiry follows the surface of Gatheral and Jacquier (2014), which is free of butterfly
arbitrage:

.. math:: w(k) = \frac{\theta}{2} \left( 1 + \rho \varphi k + \sqrt{(\varphi k + \rho)^2 + 1 - \rho^2} \right)

with log moneyness k, at-the-money variance theta, skew rho (negative if puts are dearer than calls) and phi = eta /
sqrt(theta). The implied volatility of near expiries follows the volatility of the hidden market, that of far expiries
hardly moves, so the term structure rises in calm and falls in a panic. Puts become dearer when the price falls.

References
----------
.. [1] J. Gatheral and A. Jacquier, "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014, eq. 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl

from tidytape.demo._hidden import Hidden
from tidytape.demo._market import OPTIONS
from tidytape.demo._noise import Floats, Integers, Reverting, generator
from tidytape.times import DAY, SECOND, YEAR

_FRIDAY = 4
_EXPIRY_HOUR = timedelta(hours=8)  # time of the day at which options expire, UTC
# Time from listing to expiry, by the step between strikes in smallest steps. [d]
_LISTED_BEFORE = {1: 3.4, 2: 28.5, 4: 100.0, 10: 200.0}
_FAR = 2.6  # standard deviations from the forward to the lowest and the highest strike
_ETA = 0.95
_CARRY = 0.06  # growth of the forward over the spot price [1 per year]
_MEMORY = 8.0  # time over which options average the log volatility of the hidden market [h]
_REVERTS = 12.0  # rate at which variance is expected to return to that of far expiries [1 per year]


@dataclass(frozen=True, slots=True)
class ChainTerms:
    """The terms of the options on one coin.

    Attributes
    ----------
    coin : str
        Ticker of the coin.
    step : int
        Smallest step between strikes. Daily expiries have it; weekly ones have twice, monthly ones four times and
        quarterly ones ten times this step. [USD]
    far : float
        Usual at-the-money implied volatility of far expiries. [%]
    near : float
        Usual at-the-money implied volatility of near expiries. [%]
    typical : float
        Typical open interest of an option near the forward shortly before its expiry. [coin]
    """

    coin: str
    step: int
    far: float
    near: float
    typical: float


CHAINS = (ChainTerms("BTC", 500, 58.0, 46.0, 160.0), ChainTerms("ETH", 25, 68.0, 56.0, 1_500.0))
"""The terms of the BTC and the ETH chain."""


def expiries(today: date) -> dict[date, int]:
    """Return the expiries that are listed on a day: the next days, Fridays, last Fridays of months and of quarters.

    Parameters
    ----------
    today : date

    Returns
    -------
    dict of date to int
        By expiry, earliest first: the step between its strikes, as a multiple of the smallest step.

    Examples
    --------
    >>> [f"{day:%d %b}: {times}" for day, times in expiries(date(2024, 8, 7)).items()][:5]
    ['07 Aug: 1', '08 Aug: 1', '09 Aug: 1', '10 Aug: 1', '16 Aug: 2']
    """
    following = [today + timedelta(days=ahead) for ahead in range(220)]
    multiple_by_expiry: dict[date, int] = {}
    for multiple, count in ((1, 4), (2, 4), (4, 3), (10, 2)):
        for day in [day for day in following if multiple in _step_multiples(day)][:count]:
            multiple_by_expiry.setdefault(day, multiple)
    return dict(sorted(multiple_by_expiry.items()))


def _step_multiples(day: date) -> set[int]:
    """Return the multiples of the strike step that expiries on a day may have.

    1 for the daily expiry, 2 for the weekly, 4 for the monthly and 10 for the quarterly one.
    """
    is_friday = day.weekday() == _FRIDAY
    is_last = is_friday and (day + timedelta(days=7)).month != day.month
    return (
        {1}
        | ({2} if is_friday else set())
        | ({4} if is_last else set())
        | ({10} if is_last and day.month % 3 == 0 else set())
    )


class Chain:
    """The options on one coin, day by day.

    Parameters
    ----------
    terms : ChainTerms
    seed : int, >= 0
        Seed of the hidden market.
    """

    def __init__(self, terms: ChainTerms, seed: int) -> None:
        self._terms, self._seed = terms, seed
        # Hourly moves of three quantities: log volatility of near and of far expiries, and the skew rho.
        self._moves = Reverting(
            seed, f"surface {terms.coin}", memories=[30.0, 300.0, 40.0], deviations=[0.03, 0.04, 0.05]
        )
        self._mean_log_volatility = Reverting(seed, "", memories=[_MEMORY], deviations=[0.0])
        # By expiry, the popularity of each strike, at most 1.
        self._strikes: dict[date, dict[int, float]] = {}

    def day(self, hidden: Hidden) -> pl.DataFrame:
        """Return quotes of the next day, at the beginning of each hour.

        Parameters
        ----------
        hidden : Hidden
            The day.

        Returns
        -------
        polars.DataFrame, one row per option and hour before its expiry
            The lake's table ``option_quotes``.
        """
        terms = self._terms
        spot = hidden.hourly(terms.coin)
        hours = hidden.start + np.arange(spot.size) * 3600 * SECOND
        surface = self._surface(hidden)
        today = datetime.fromtimestamp(hidden.start // SECOND, UTC).date()
        self._strikes = {day: strikes for day, strikes in self._strikes.items() if day >= today}
        quoted = [
            self._expiry(day, multiple * terms.step, hours, spot, surface)
            for day, multiple in expiries(today).items()
        ]
        return (
            pl.concat(quoted)
            .filter(pl.col("timestamp") < pl.col("expiry"))
            .with_columns(exchange=pl.lit(OPTIONS), coin=pl.lit(terms.coin))
        )

    def _surface(self, hidden: Hidden) -> tuple[Floats, Floats, Floats]:
        """Return the implied volatility of near and of far expiries [1] and the skew rho in each hour."""
        terms = self._terms
        near_move, far_move, rho_move = self._moves.day(hidden.number, 24)[:-1].T
        hourly = hidden.log_volatility[terms.coin].clip(-1.0, 1.2)[:-1:60]
        mean = self._mean_log_volatility.driven((1.0 - np.exp(-1.0 / _MEMORY)) * hourly[:, None])[1:, 0]
        trend = hidden.trend[terms.coin][:-1:60]
        near = terms.near / 100.0 * np.exp(0.35 * mean + near_move)
        rho = np.clip(-0.16 + rho_move + 2.5 * trend, -0.6, 0.35)
        return near, terms.far / 100.0 * np.exp(far_move), rho

    def _expiry(
        self, day: date, step: int, hours: Integers, spot: Floats, surface: tuple[Floats, Floats, Floats]
    ) -> pl.DataFrame:
        """Return the hourly quotes of all options of one expiry."""
        from scipy.special import ndtr

        near, far, rho = (values[:, None] for values in surface)
        expiry = int((datetime(day.year, day.month, day.day, tzinfo=UTC) + _EXPIRY_HOUR).timestamp()) * SECOND
        years = np.maximum(expiry - hours, SECOND)[:, None] / YEAR
        forward = np.rint(spot[:, None] * (1.0 + _CARRY * years) * 100.0) / 100.0
        # The variance is expected to decay from near**2 to far**2; theta is its integral until the expiry.
        near_weight = -np.expm1(-_REVERTS * years) / (_REVERTS * years)
        theta = (far**2 + (near**2 - far**2) * near_weight) * years
        strikes, popularity = self._strikes_of(day, step, float(forward[0, 0]), float(np.sqrt(theta[0, 0])))
        k = np.log(strikes / forward)
        phi = _ETA / np.sqrt(theta)
        total_variance = theta / 2.0 * (1.0 + rho * phi * k + np.sqrt((phi * k + rho) ** 2 + 1.0 - rho**2))
        volatility = np.rint(100.0 * np.sqrt(total_variance / years) * 100.0) / 100.0  # [%]
        deviation = volatility / 100.0 * np.sqrt(years)
        d1 = -k / deviation + deviation / 2.0
        call_delta = ndtr(d1)
        # In coins, as exchanges quote these options.
        call = call_delta - strikes / forward * ndtr(d1 - deviation)
        frames = []
        for option_type, delta, mark in (
            ("CALL", call_delta, call),
            ("PUT", call_delta - 1.0, call - 1.0 + strikes / forward),
        ):
            open_interest = self._open_interest(day, option_type, strikes, popularity, hours)
            frames.append(
                pl.DataFrame(
                    {
                        "timestamp": np.repeat(hours, strikes.size),
                        "strike": np.tile(strikes, hours.size),
                        "implied_volatility": volatility.ravel(),
                        "delta": np.rint(delta * 1e5).ravel() / 1e5,
                        "forward": np.repeat(forward[:, 0], strikes.size),
                        "mark_price": np.maximum(np.rint(mark * 1e4), 0.0).ravel() / 1e4,
                        "open_interest": open_interest.ravel(),
                    }
                ).with_columns(
                    expiry=pl.lit(expiry),
                    option_type=pl.lit(option_type),
                    raw_symbol=pl.format(
                        f"{self._terms.coin}-{day.day}{day:%b%y}-{{}}-{option_type[0]}".upper(),
                        pl.col("strike").cast(pl.Int64),
                    ),
                )
            )
        return pl.concat(frames)

    def _strikes_of(self, day: date, step: int, forward: float, deviation: float) -> tuple[Floats, Floats]:
        """Return the strikes of an expiry, and the popularity of each strike in each hour. [0 to 1]

        Strikes near the forward are listed and popular. They stay so when the forward moves away, because traders keep
        their positions.
        """
        reach = max(_FAR * deviation, 6.5 * step / forward)
        first, last = (round(forward * np.exp(sign * reach) / step) for sign in (-1.0, 1.0))
        before = self._strikes.get(day, {})
        after = dict.fromkeys([*before, *range(first * step, (last + 1) * step, step)], 0.0)
        for strike in after:
            near = float(np.exp(-3.0 * (np.log(strike / forward) / reach) ** 2))
            after[strike] = max(before.get(strike, 0.0), near)
        self._strikes[day] = after
        strikes = sorted(after)
        start, end = (
            np.array([by_strike.get(strike, 0.0) for strike in strikes]) for by_strike in (before, after)
        )
        elapsed_share = np.arange(24)[:, None] / 24.0 if before else np.ones((24, 1))  # of the day
        return np.array(strikes, dtype=np.float64), start + (end - start) * elapsed_share

    def _open_interest(
        self, day: date, option_type: str, strikes: Floats, popularity: Floats, hours: Integers
    ) -> Floats:
        """Return open interest by hour and strike [coin]: largest at round strikes, growing until expiry."""
        terms = self._terms
        strike_number = np.rint(strikes / terms.step).astype(np.int64)
        size_draws = generator(self._seed, day.toordinal(), f"open interest {terms.coin} {option_type}")
        # Every day draws the same sizes, so each strike keeps its own until the expiry.
        size = np.exp(0.8 * size_draws.normal(size=1_024))[strike_number % 1_024]
        size *= (
            1.0 + (strike_number % 2 == 0) + 2.0 * (strike_number % 4 == 0) + 4.0 * (strike_number % 10 == 0)
        )
        listed_before = _LISTED_BEFORE[max(_step_multiples(day))]
        expiry = (datetime(day.year, day.month, day.day, tzinfo=UTC) + _EXPIRY_HOUR).timestamp() * SECOND
        growth = 1.0 - np.sqrt(np.clip((expiry - hours) / (listed_before * DAY), 0.0, 1.0))
        open_interest: Floats = np.rint(terms.typical * growth[:, None] * size * popularity * 10.0) / 10.0
        return open_interest
