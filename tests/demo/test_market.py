"""The hidden market and its trades: what they look like, and that a longer market begins with a shorter one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice, pairwise

import numpy as np
import polars as pl
import pytest

from tables import each_row
from tidytape import Session
from tidytape.demo._hidden import TAIL, Hidden, hidden_days
from tidytape.demo._hours import MINUTES, SECONDS, activity, silent
from tidytape.demo._lake import tables
from tidytape.demo._market import COINS, MARKETS, OUTAGES, SESSIONS, START_NS, DemoMarket, markets
from tidytape.demo._noise import Reverting, generator
from tidytape.demo._quotes import Quotes
from tidytape.errors import QueryError
from tidytape.times import DAY, MINUTE

DAYS = 2
NAMES = [market.name for market in MARKETS]


@pytest.fixture(scope="module")
def tape() -> pl.DataFrame:
    """Two days of trades of every market."""
    return pl.concat(rows for _, table, rows in tables(days=DAYS) if table == "trades")


@pytest.fixture(scope="module", params=[7, 1, 2])
def days(request: pytest.FixtureRequest) -> list[Hidden]:
    """Four hidden days of a seed."""
    return list(islice(hidden_days(request.param), 4))


def of(tape: pl.DataFrame, market: DemoMarket) -> pl.DataFrame:
    return tape.filter(exchange=market.exchange, raw_symbol=market.raw_symbol)


def returns(days: list[Hidden], coin: str, seconds: int = 60) -> np.ndarray:
    """Logarithmic returns of the hidden price."""
    price = np.concatenate([day.price[coin][TAIL:-1] for day in days])
    return np.diff(np.log(price[::seconds]))


def autocorrelation(values: np.ndarray, lag: int) -> float:
    return float(np.corrcoef(values[lag:], values[:-lag])[0, 1])


def kurtosis(values: np.ndarray) -> float:
    return float(((values - values.mean()) ** 4).mean() / values.var() ** 2)


# --- what a price looks like -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_day_begins_where_another_ends(days: list[Hidden]) -> None:
    for before, day in pairwise(days):
        for coin in COINS:
            np.testing.assert_array_equal(before.price[coin][-TAIL - 1 :], day.price[coin][: TAIL + 1])
            assert before.log_volatility[coin][-1] == pytest.approx(
                day.log_volatility[coin][0], abs=1.3
            )  # or a shock comes
            assert before.trend[coin][-1] == pytest.approx(day.trend[coin][0])


@pytest.mark.slow
def test_prices_begin_where_the_table_says(days: list[Hidden]) -> None:
    for name, coin in COINS.items():
        assert days[0].price[name][TAIL] == pytest.approx(coin.price, rel=1e-12)


def test_returns_have_fat_tails(days: list[Hidden]) -> None:
    assert all(kurtosis(returns(days, coin)) > 5 for coin in ("BTC", "ETH", "SOL"))


def test_volatility_comes_in_clusters_and_returns_do_not(days: list[Hidden]) -> None:
    for coin in ("BTC", "ETH", "SOL"):
        moves = returns(days, coin)
        assert autocorrelation(np.abs(moves), 1) > 0.12
        assert autocorrelation(np.abs(moves), 30) > 0.03
        assert abs(autocorrelation(moves, 1)) < 0.15


def test_coins_move_together_and_stocks_metals_and_currencies_less(days: list[Hidden]) -> None:
    moves = {coin: returns(days, coin, 300) for coin in COINS}
    for one, other in (("BTC", "ETH"), ("BTC", "SOL"), ("ETH", "SOL")):
        assert 0.6 < np.corrcoef(moves[one], moves[other])[0, 1] < 0.93
    assert all(abs(np.corrcoef(moves["BTC"], moves[coin])[0, 1]) < 0.55 for coin in ("ACME", "XAU", "EUR"))


def test_volatility_is_that_of_such_things(days: list[Hidden]) -> None:
    annual = {coin: returns(days, coin).std() * np.sqrt(365.25 * MINUTES) for coin in COINS}
    assert 0.35 < annual["BTC"] < 0.85
    assert annual["BTC"] < annual["ETH"] < annual["SOL"] < 1.5
    assert 0.15 < annual["ACME"] < 0.7
    assert 0.03 < annual["EUR"] < annual["XAU"] < 0.25


@pytest.mark.slow
def test_the_default_market_moves_as_bitcoin_does() -> None:
    moves = returns(list(islice(hidden_days(7), 3)), "BTC")
    assert 0.45 < moves.std() * np.sqrt(365.25 * MINUTES) < 0.70


@pytest.mark.slow
def test_premiums_of_perpetuals_return(days: list[Hidden]) -> None:
    for market in MARKETS:
        quotes = Quotes(market, days[0].seed)
        premiums = np.concatenate([quotes.day(day).premiums for day in days])
        assert abs(premiums).max() < 0.01
        if market.swing:
            assert -0.0008 < premiums.mean() < 0.0015
            half = premiums.size // 2
            assert abs(premiums[:half].mean() - premiums[half:].mean()) < 0.0015


# --- a process that returns ------------------------------------------------------------------------------------------


def test_a_returning_process_is_that_of_its_formula() -> None:
    process = Reverting(3, "x", [50.0], [2.0])
    values = np.concatenate([process.day(day, MINUTES)[:-1, 0] for day in range(40)])
    assert values.mean() == pytest.approx(0, abs=0.4)
    assert values.std() == pytest.approx(2, rel=0.1)
    assert autocorrelation(values, 50) == pytest.approx(np.exp(-1), abs=0.08)


def test_purposes_and_days_do_not_move_each_other() -> None:
    first = generator(1, 0, "a").normal(size=1_000)
    for other in (generator(2, 0, "a"), generator(1, 1, "a"), generator(1, 0, "b")):
        assert abs(np.corrcoef(first, other.normal(size=1_000))[0, 1]) < 0.15
    np.testing.assert_array_equal(first, generator(1, 0, "a").normal(size=1_000))


# --- hours and outages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", SESSIONS)
def test_a_market_trades_in_the_seconds_of_its_session_alone(hours: str) -> None:
    session = Session.parsed(SESSIONS[hours])
    assert str(session) == SESSIONS[hours]
    # Two weeks of summer, and the two in which the clock of New York changes.
    for day in (*range(14), *range(81, 95)):
        start = START_NS // 10**9 + day * SECONDS
        date = datetime.fromtimestamp(start, UTC).date()
        is_open = np.zeros(SECONDS, dtype=bool)
        for row in session.schedule(date, date + timedelta(days=3)).iter_rows(named=True):
            opens, closes = (int(row[name].timestamp()) - start for name in ("open", "close"))
            is_open[max(opens, 0) : max(closes, 0)] = True
        np.testing.assert_array_equal(activity(hours, day) > 0, is_open)


def test_markets_that_do_not_always_trade_state_their_sessions() -> None:
    assert {coin.hours for coin in COINS.values()} == {"always", *SESSIONS}
    stated = markets().drop_nulls("session").select("exchange", "session").rows()
    assert stated == [
        ("DEMO_STOCKS", SESSIONS["stocks"]),
        ("DEMO_METALS", SESSIONS["metals"]),
        ("DEMO_FX", SESSIONS["fx"]),
    ]


def open_hours(hours: str, date: str) -> list[tuple[str, str]]:
    """First and last open minute of every stretch of a day."""
    day = (datetime.fromisoformat(date).replace(tzinfo=UTC) - datetime(2024, 8, 7, tzinfo=UTC)).days
    is_open = activity(hours, day).reshape(MINUTES, 60).all(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_open, [0]])))
    return [(f"{a // 60:02}:{a % 60:02}", f"{b // 60:02}:{b % 60:02}") for a, b in edges.reshape(-1, 2)]


@each_row(
    ("hours", "date", "expected"),
    [
        ("always", "2024-08-10", [("00:00", "24:00")]),
        ("stocks", "2024-08-07", [("13:30", "20:00")]),
        ("stocks", "2024-08-10", []),  # a Saturday
        ("stocks", "2024-11-04", [("14:30", "21:00")]),  # New York is on winter time
        ("fx", "2024-08-08", [("00:00", "24:00")]),
        ("fx", "2024-08-09", [("00:00", "21:00")]),  # a Friday
        ("fx", "2024-08-10", []),
        ("fx", "2024-08-11", [("21:00", "24:00")]),
        ("metals", "2024-08-08", [("00:00", "21:00"), ("22:00", "24:00")]),
        ("metals", "2024-08-09", [("00:00", "21:00")]),
        ("metals", "2024-08-11", [("22:00", "24:00")]),
    ],
)
def test_hours(hours: str, date: str, expected: list[tuple[str, str]]) -> None:
    assert open_hours(hours, date) == expected


def test_coins_are_quiet_at_night_and_at_weekends() -> None:
    weekday, saturday = activity("always", 0), activity("always", 3)
    assert 2 * weekday[6 * 3600] < weekday[16 * 3600]
    assert saturday.sum() < 0.7 * weekday.sum()


@pytest.mark.slow
def test_nothing_trades_where_a_market_is_closed_or_silent(tape: pl.DataFrame) -> None:
    for market in MARKETS:
        times = of(tape, market)["timestamp"].to_numpy() - START_NS
        for day in range(DAYS):
            minute = (times[(times // DAY) == day] - day * DAY) // MINUTE
            seen = np.bincount(minute, minlength=MINUTES) > 0
            is_open = activity(COINS[market.coin].hours, day).reshape(MINUTES, 60).any(axis=1)
            assert not seen[silent(market.exchange, day, 7) | ~is_open].any()


@pytest.mark.slow
def test_outages_leave_gaps_in_all_that_an_exchange_reports() -> None:
    for outage in OUTAGES:
        first = START_NS + outage.day * DAY + outage.minute * MINUTE
        for day, table, rows in tables(days=outage.day + 1):
            if day != outage.day or "exchange" not in rows.columns:
                continue
            times = rows.filter(exchange=outage.exchange)["timestamp"]
            assert not times.is_between(first, first + outage.minutes * MINUTE, closed="left").any()
            if table in {"trades", "funding", "open_interest"} and times.len():
                around = times.is_between(first - 3 * MINUTE, first + (outage.minutes + 3) * MINUTE)
                assert around.any()


def test_later_outages_are_rare_and_short() -> None:
    silences = [silent("DEMO_SPOT", day, 7) for day in range(2, 202)]
    lengths = [int(silence.sum()) for silence in silences if silence.any()]
    assert 2 <= len(lengths) <= 40
    assert all(2 <= length <= 60 for length in lengths)


# --- trades ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_layout_is_that_of_the_lakes_trades(tape: pl.DataFrame) -> None:
    assert dict(tape.drop("received").schema) == {
        "exchange": pl.String,
        "raw_symbol": pl.String,
        "id": pl.String,
        "timestamp": pl.Int64,
        "sequence": pl.Int64,
        "side": pl.String,
        "price": pl.Float64,
        "amount": pl.Float64,
        "quote_amount": pl.Float64,
    }
    assert sum(tape.drop("received").null_count().row(0)) == 0


@each_row("market", MARKETS)
def test_trades_are_in_order_with_ids_that_count_up(tape: pl.DataFrame, market: DemoMarket) -> None:
    rows = of(tape, market)
    assert rows.equals(rows.sort("timestamp", "sequence"))
    assert (rows["timestamp"] % 1_000_000 == 0).all()
    assert rows["timestamp"].is_between(START_NS, START_NS + DAYS * DAY, closed="left").all()
    assert rows["sequence"].to_list() == list(range(1, len(rows) + 1))
    assert (rows["id"].cast(pl.Int64).diff().drop_nulls() == 1).all()
    assert rows["id"].str.len_chars().n_unique() == 1  # so that they sort as text, too
    assert (rows["received"] > rows["timestamp"]).all()


@pytest.mark.slow
@each_row("market", MARKETS)
def test_prices_and_amounts_are_decimals_on_their_grids(tape: pl.DataFrame, market: DemoMarket) -> None:
    rows = of(tape, market)
    tick = Decimal(market.tick).scaleb(-market.decimals)
    assert all(Decimal(repr(price)) % tick == 0 for price in rows["price"].unique())
    assert Decimal(repr(market.block_size)) % tick == 0
    assert (rows["amount"] > 0).all()
    for row in rows.sample(500, seed=1).iter_rows(named=True):
        if market.contract:
            assert row["quote_amount"] % market.contract == 0
            assert row["amount"] == row["quote_amount"] / row["price"]
        else:
            exact = Decimal(repr(row["price"])) * Decimal(repr(row["amount"]))
            assert row["quote_amount"] == float(exact)


@each_row("market", MARKETS)
def test_a_busy_market_is_never_silent_for_long(tape: pl.DataFrame, market: DemoMarket) -> None:
    if COINS[market.coin].hours == "always":
        assert of(tape, market)["timestamp"].diff().max() <= 26 * MINUTE  # type: ignore[operator]
        minutes = of(tape, market)["timestamp"].unique() // MINUTE
        assert minutes.n_unique() > 0.98 * DAYS * MINUTES


@each_row("market", MARKETS)
def test_both_sides_trade_about_as_much_and_sizes_have_a_long_tail(
    tape: pl.DataFrame, market: DemoMarket
) -> None:
    rows = of(tape, market)
    assert 0.4 < (rows["side"] == "BUY").mean() < 0.6
    assert rows["amount"].mean() > 1.5 * rows["amount"].median()  # type: ignore[operator]


def by_minute(tape: pl.DataFrame, market: DemoMarket) -> pl.DataFrame:
    return (
        of(tape, market)
        .group_by(minute=pl.col("timestamp") // MINUTE, maintain_order=True)
        .agg(
            trades=pl.len(),
            price=pl.col("price").last(),
            move=(pl.col("price").last() / pl.col("price").first()).log(),
            lean=pl.when(side="BUY").then(1.0).otherwise(-1.0).mean(),
        )
    )


COIN_MARKETS = [market for market in MARKETS if COINS[market.coin].hours == "always"]


@each_row("market", COIN_MARKETS)
def test_aggressors_follow_the_price_and_each_other(tape: pl.DataFrame, market: DemoMarket) -> None:
    minutes = by_minute(tape, market)
    assert minutes.select(pl.corr("move", "lean")).item() > 0.25
    signs = of(tape, market).select(pl.when(side="BUY").then(1.0).otherwise(-1.0)).to_series().to_numpy()
    assert autocorrelation(signs, 1) > 0.3
    assert autocorrelation(signs, 5) > 0.02


@each_row("market", COIN_MARKETS)
def test_trades_come_in_bursts_and_with_volatility(tape: pl.DataFrame, market: DemoMarket) -> None:
    minutes = by_minute(tape, market)
    size = pl.col("move").abs()
    busy, again = minutes.select(pl.corr(size, "trades"), pl.corr("trades", pl.col("trades").shift(1))).row(0)
    assert minutes["trades"].var() > 2 * minutes["trades"].mean()  # type: ignore[operator]  # a steady stream: equal
    assert busy > 0.15
    assert again > 0.1


def test_markets_of_a_coin_share_a_price_up_to_a_small_premium(tape: pl.DataFrame) -> None:
    spot = by_minute(tape, MARKETS[0]).select("minute", spot="price")
    for market in MARKETS[1:]:
        if market.coin == "BTC":
            both = by_minute(tape, market).join(spot, on="minute")
            premium = both["price"] / both["spot"] - 1
            assert -0.0005 < premium.median() < 0.0015  # type: ignore[operator]
            assert premium.abs().quantile(0.99) < 0.004  # type: ignore[operator]


# --- markets as a frame, and arguments -------------------------------------------------------------------------------


def test_markets_are_named_apart() -> None:
    frame = markets()
    assert frame.height == len(MARKETS) == frame.select("exchange", "raw_symbol").n_unique()
    assert set(frame["category"]) == {"SPOT", "PERPETUAL"}
    assert frame.filter(raw_symbol="BTCUSD")["contract_size"].to_list() == [100.0]
    assert frame.filter(exchange="DEMO_PERP", coin="BTC")["normalized_symbol"].to_list() == ["BTC-USDT"]


@each_row("parameter", ["days", "seed"])
@each_row("value", [-1, True, 1.5])
def test_wrong_arguments_are_refused(parameter: str, value: object) -> None:
    with pytest.raises(QueryError) as caught:
        next(tables(**{parameter: value}))  # type: ignore[arg-type]
    assert caught.value.parameter == parameter


def test_no_day_at_all_is_refused() -> None:
    with pytest.raises(QueryError, match="at least 1"):
        next(tables(days=0))


def test_a_day_has_its_seconds(days: list[Hidden]) -> None:
    for coin in COINS:
        assert days[0].price[coin].size == TAIL + SECONDS + 1
        assert days[0].busy[coin].size == days[0].pull[coin].size == SECONDS
        assert days[0].log_volatility[coin].size == MINUTES + 1
