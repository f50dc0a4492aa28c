r"""The demo's option chains: calls and puts on two coins, quoted once an hour on a surface that moves.

The total variance of an expiry follows the surface of Gatheral and Jacquier (2014), which is free of butterfly
arbitrage:

.. math:: w(k) = \frac{\theta}{2} \left( 1 + \rho \varphi k + \sqrt{(\varphi k + \rho)^2 + 1 - \rho^2} \right)

with log moneyness k, at-the-money variance theta and phi = eta / sqrt(theta). Near volatility follows the nerves of the
hidden market and far volatility hardly does, so the term structure rises in calm and falls in a panic. Falls make puts
dear.

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
_HOUR = timedelta(hours=8)  # time of the day at which options expire
_KINDS = ("CALL", "PUT")
_LISTED_BEFORE = {
    1: 3.4,
    2: 28.5,
    4: 100.0,
    10: 200.0,
}  # time from listing to expiry, by the steps between strikes [d]
_FAR = 2.6  # standard deviations from the forward to the last strikes
_ETA = 0.95
_CARRY = 0.06  # growth of the forward over the spot price [1 per year]
_MEMORY = 8.0  # time over which options average the nerves [h]
_REVERTS = 12.0  # rate at which volatility is expected to return to the usual [1 per year]


@dataclass(frozen=True, slots=True)
class ChainTerms:
    """The terms of the options on one coin.

    Attributes
    ----------
    coin : str
        Ticker of the coin.
    step : int
        Step between strikes of the next days; of weeks it is twice, of months four times, of quarters ten times. [USD]
    far : float
        At-the-money volatility of far expiries. [%]
    near : float
        The same of near expiries, at usual nerves. [%]
    typical : float
        Open interest of a usual option near the forward before its expiry. [coin]
    """

    coin: str
    step: int
    far: float
    near: float
    typical: float


CHAINS = (ChainTerms("BTC", 500, 58.0, 46.0, 160.0), ChainTerms("ETH", 25, 68.0, 56.0, 1_500.0))
"""The terms of both chains."""


def expiries(today: date) -> dict[date, int]:
    """Return the listed expiries of a day: the next days, Fridays, last Fridays of months and of quarters.

    Parameters
    ----------
    today : date

    Returns
    -------
    dict of date to int
        By expiry, earliest first: the step between its strikes, in smallest steps.

    Examples
    --------
    >>> [f"{day:%d %b}: {times}" for day, times in expiries(date(2024, 8, 7)).items()][:5]
    ['07 Aug: 1', '08 Aug: 1', '09 Aug: 1', '10 Aug: 1', '16 Aug: 2']
    """
    following = [today + timedelta(days=ahead) for ahead in range(220)]
    times: dict[date, int] = {}
    for steps, count in ((1, 4), (2, 4), (4, 3), (10, 2)):
        for day in [day for day in following if steps in _kinds(day)][:count]:
            times.setdefault(day, steps)
    return dict(sorted(times.items()))


def _kinds(day: date) -> set[int]:
    """Return the steps of the kinds of expiry that a day is: 1 of a day, 2 a week, 4 a month, 10 a quarter."""
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
        That of the hidden market.
    """

    def __init__(self, terms: ChainTerms, seed: int) -> None:
        self._terms, self._seed = terms, seed
        # Moves of the level [log], of far volatility [log] and of the lean to the puts.
        self._moves = Reverting(seed, f"surface {terms.coin}", [30.0, 300.0, 40.0], [0.03, 0.04, 0.05])
        self._nerves = Reverting(seed, "", [_MEMORY], [0.0])  # the nerves, averaged over hours
        self._strikes: dict[
            date, dict[int, float]
        ] = {}  # by expiry, the popularity of each strike, at most 1

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
            self._expiry(day, times * terms.step, hours, spot, surface)
            for day, times in expiries(today).items()
        ]
        return (
            pl.concat(quoted)
            .filter(pl.col("timestamp") < pl.col("expiry"))
            .with_columns(exchange=pl.lit(OPTIONS), coin=pl.lit(terms.coin))
        )

    def _surface(self, hidden: Hidden) -> tuple[Floats, Floats, Floats]:
        """Return near and far volatility [1] and the lean to the puts in each hour."""
        terms = self._terms
        level, far, lean = self._moves.day(hidden.number, 24)[:-1].T
        felt = hidden.nerves[terms.coin].clip(-1.0, 1.2)[:-1:60]
        slowly = self._nerves.driven((1.0 - np.exp(-1.0 / _MEMORY)) * felt[:, None])[1:, 0]
        trend = hidden.trend[terms.coin][:-1:60]
        near = terms.near / 100.0 * np.exp(0.35 * slowly + level)
        rho = np.clip(-0.16 + lean + 2.5 * trend, -0.6, 0.35)
        return near, terms.far / 100.0 * np.exp(far), rho

    def _expiry(
        self, day: date, step: int, hours: Integers, spot: Floats, surface: tuple[Floats, Floats, Floats]
    ) -> pl.DataFrame:
        from scipy.special import ndtr

        near, far, rho = (values[:, None] for values in surface)
        expiry = int((datetime(day.year, day.month, day.day, tzinfo=UTC) + _HOUR).timestamp()) * SECOND
        years = np.maximum(expiry - hours, SECOND)[:, None] / YEAR
        forward = np.rint(spot[:, None] * (1.0 + _CARRY * years) * 100.0) / 100.0
        # The mean variance until the expiry, while it returns to the usual one.
        weight = -np.expm1(-_REVERTS * years) / (_REVERTS * years)
        theta = (far**2 + (near**2 - far**2) * weight) * years
        strikes, popular = self._strikes_of(day, step, float(forward[0, 0]), float(np.sqrt(theta[0, 0])))
        k = np.log(strikes / forward)
        phi = _ETA / np.sqrt(theta)
        variance = theta / 2.0 * (1.0 + rho * phi * k + np.sqrt((phi * k + rho) ** 2 + 1.0 - rho**2))
        percent = np.rint(100.0 * np.sqrt(variance / years) * 100.0) / 100.0
        deviation = percent / 100.0 * np.sqrt(years)
        d1 = -k / deviation + deviation / 2.0
        call_delta = ndtr(d1)
        call = call_delta - strikes / forward * ndtr(
            d1 - deviation
        )  # in coins, as exchanges quote these options
        frames = []
        for kind, delta, mark in (
            ("CALL", call_delta, call),
            ("PUT", call_delta - 1.0, call - 1.0 + strikes / forward),
        ):
            open_interest = self._open_interest(day, kind, strikes, popular, hours)
            frames.append(
                pl.DataFrame(
                    {
                        "timestamp": np.repeat(hours, strikes.size),
                        "strike": np.tile(strikes, hours.size),
                        "implied_volatility": percent.ravel(),
                        "delta": np.rint(delta * 1e5).ravel() / 1e5,
                        "forward": np.repeat(forward[:, 0], strikes.size),
                        "mark_price": np.maximum(np.rint(mark * 1e4), 0.0).ravel() / 1e4,
                        "open_interest": open_interest.ravel(),
                    }
                ).with_columns(
                    expiry=pl.lit(expiry),
                    option_type=pl.lit(kind),
                    raw_symbol=pl.format(
                        f"{self._terms.coin}-{day.day}{day:%b%y}-{{}}-{kind[0]}".upper(),
                        pl.col("strike").cast(pl.Int64),
                    ),
                )
            )
        return pl.concat(frames)

    def _strikes_of(self, day: date, step: int, forward: float, deviation: float) -> tuple[Floats, Floats]:
        """Return the strikes of an expiry that the price has come near to, and the popularity of each by the hour.

        Positions are opened near the forward, and stay when it moves away.
        """
        reach = max(_FAR * deviation, 6.5 * step / forward)
        first, last = (round(forward * np.exp(way * reach) / step) for way in (-1.0, 1.0))
        before = self._strikes.get(day, {})
        after = dict.fromkeys([*before, *range(first * step, (last + 1) * step, step)], 0.0)
        for strike in after:
            near = float(np.exp(-3.0 * (np.log(strike / forward) / reach) ** 2))
            after[strike] = max(before.get(strike, 0.0), near)
        self._strikes[day] = after
        strikes = sorted(after)
        was, becomes = (np.array([known.get(strike, 0.0) for strike in strikes]) for known in (before, after))
        through = np.arange(24)[:, None] / 24.0 if before else np.ones((24, 1))
        return np.array(strikes, dtype=np.float64), was + (becomes - was) * through

    def _open_interest(
        self, day: date, kind: str, strikes: Floats, popular: Floats, hours: Integers
    ) -> Floats:
        """Return open interest by hour and strike: most at round strikes, and growing until the expiry."""
        terms = self._terms
        number = np.rint(strikes / terms.step).astype(np.int64)
        draws = generator(self._seed, day.toordinal(), f"open interest {terms.coin} {kind}")
        size = np.exp(0.8 * draws.normal(size=1_024))[number % 1_024]
        size *= 1.0 + (number % 2 == 0) + 2.0 * (number % 4 == 0) + 4.0 * (number % 10 == 0)
        listed_before = _LISTED_BEFORE[max(_kinds(day))]
        ends = (datetime(day.year, day.month, day.day, tzinfo=UTC) + _HOUR).timestamp() * SECOND
        grown = 1.0 - np.sqrt(np.clip((ends - hours) / (listed_before * DAY), 0.0, 1.0))
        open_interest: Floats = np.rint(terms.typical * grown[:, None] * size * popular * 10.0) / 10.0
        return open_interest
