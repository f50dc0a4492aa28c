"""The demo's lake: every type has rows, what follows from what, and that a longer market begins with a shorter one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tidytape
from simulated.fingerprint import fingerprint
from tables import each_row
from tidytape import Session
from tidytape.catalogue import DATA_TYPES
from tidytape.client._series import FetchQuery, SeriesMethods
from tidytape.demo import fill
from tidytape.demo._lake import tables
from tidytape.demo._market import COINS, MARKETS, START_NS, DemoMarket
from tidytape.demo._options import expiries
from tidytape.lake import TABLES, Lake
from tidytape.lake.hygiene import check
from tidytape.lake.rollup import rollup
from tidytape.times import DAY as DAY_NS
from tidytape.times import MINUTE

DAYS = 2
END_NS = START_NS + DAYS * DAY_NS
DAY: dict[str, Any] = {"interval": "1d", "start": "2024-08-08", "end": "2024-08-09"}
PERPETUAL: dict[str, Any] = {"exchange": "DEMO_PERP", "coin": "BTC"} | DAY
SPOT: dict[str, Any] = {"exchange": "DEMO_SPOT", "coin": "BTC"} | DAY
OPTIONS: dict[str, Any] = {"exchange": "DEMO_OPTIONS", "coin": "BTC"} | DAY

ASKED: dict[str, dict[str, Any]] = {
    "candles": SPOT,
    "trades": {"exchange": "DEMO_SPOT", "coin": "BTC", "start": "2024-08-08", "end": "2024-08-08T00:10"},
    "open_interest": PERPETUAL,
    "funding": PERPETUAL,
    "liquidations": PERPETUAL,
    "cme_open_interest": {"exchange": "DEMO_CME", "coin": "BTC"} | DAY,
    "volume_profile": SPOT,
    "tpo": SPOT,
    "tpo_sessions": SPOT,
    "book_heatmap": SPOT,
    "liquidation_heatmap": PERPETUAL,
    "implied_volatility": OPTIONS,
    "skew": OPTIONS | {"raw_symbol": "BTC_25", "tenor": "1w"},
    "option_open_interest": OPTIONS,
    "token_supply": {"coin": "BTC"} | DAY,
}

PERPETUALS = [market for market in MARKETS if market.funding]
BOOKS = [market for market in MARKETS if market.book]


def names(market: DemoMarket) -> str:
    return market.name


@pytest.fixture(scope="module")
def made() -> dict[str, pl.DataFrame]:
    """Two days of every table."""
    return joined(DAYS)


def joined(days: int, seed: int = 7) -> dict[str, pl.DataFrame]:
    parts: dict[str, list[pl.DataFrame]] = {}
    for _, table, rows in tables(days=days, seed=seed):
        parts.setdefault(table, []).append(rows)
    return {table: pl.concat(rows) for table, rows in parts.items()}


def of(rows: pl.DataFrame, market: DemoMarket) -> pl.DataFrame:
    return rows.filter(exchange=market.exchange, raw_symbol=market.raw_symbol)


@pytest.fixture(scope="module")
def client() -> Iterator[tidytape.Client[pl.DataFrame]]:
    with tidytape.Client.demo() as demo:
        yield demo


class Asked(SeriesMethods[FetchQuery]):
    def _points(self, wanted: FetchQuery) -> FetchQuery:
        return wanted


@pytest.mark.slow
def test_every_method_and_data_type_has_rows(client: Any) -> None:
    assert set(ASKED) == {name for name in dir(SeriesMethods) if not name.startswith("_")}
    asked = [ASKED["candles"] | {"by_side": True}]
    kinds = {"TRADE_AGG"} if client.candles(**asked[0]).height else set()
    for name, arguments in ASKED.items():
        assert getattr(client, name)(**arguments).height, name
        kinds |= set(getattr(Asked(), name)(**arguments).queries[0].type)
    assert kinds == set(DATA_TYPES)


@pytest.mark.slow
def test_every_list_has_something(client: Any) -> None:
    assert set(client.types()) == set(DATA_TYPES)
    assert client.block_sizes(coin="BTC")["raw_symbol"].to_list() == ["BTC-PERP", "BTCUSDT"]
    assert client.prediction_markets()["raw_symbol"].to_list() == ["1001", "1002"]
    assert client.tenors() == ["ONE_D", "THREE_D", "ONE_W", "ONE_M", "TWO_M", "THREE_M"]
    assert (
        client.candles(exchange="DEMO_EVENTS", coin="above-60000:Yes", event="above-60000", **DAY).height == 1
    )
    for market in MARKETS:
        assert client.candles(exchange=market.exchange, raw_symbol=market.raw_symbol, **DAY).height == 1


@pytest.mark.slow
def test_rows_are_those_of_the_lakes_tables(made: dict[str, pl.DataFrame]) -> None:
    assert set(made) == set(TABLES) - {"candles", "quote_rates", "markets", "prediction_markets"}
    for name, rows in made.items():
        table = TABLES[name]
        conformed = table.conform(rows)
        assert set(rows.columns) <= set(table.names), name
        assert conformed.select(table.key).is_unique().all(), name
        assert conformed["timestamp"].is_between(START_NS, END_NS, closed="left").all(), name
        for column in rows.select(pl.selectors.float()):
            assert column.is_finite().all() or column.null_count(), (name, column.name)


@pytest.mark.slow
def test_markets_with_a_session_trade_in_it_alone(made: dict[str, pl.DataFrame], client: Any) -> None:
    stated = client.markets().drop_nulls("session").select("exchange", "raw_symbol", "session").rows()
    assert [exchange for exchange, *_ in stated] == ["DEMO_FX", "DEMO_METALS", "DEMO_STOCKS"]
    for exchange, symbol, text in stated:
        trades = made["trades"].filter(exchange=exchange, raw_symbol=symbol)
        times = trades.with_columns(pl.from_epoch("timestamp", "ns").dt.replace_time_zone("UTC"))
        segments = Session.parsed(text).label(times)["segment"].unique().to_list()
        assert segments == ["regular"]
        told = client.fetch(client.query.candles(exchange=exchange, raw_symbol=symbol, **DAY)).metadata
        assert told.sessions == {(exchange, symbol): text}


# --- the same market, always ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_longer_market_begins_with_a_shorter_one(made: dict[str, pl.DataFrame]) -> None:
    for name, rows in joined(1).items():
        first = made[name].filter(pl.col("timestamp") < START_NS + DAY_NS)
        assert first.equals(rows), name


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits(made: dict[str, pl.DataFrame]) -> None:
    again = joined(DAYS)
    for name, rows in made.items():
        known = [column.name for column in rows if not column.null_count() and column.dtype != pl.Boolean]
        assert fingerprint(again[name].select(known)) == fingerprint(rows.select(known)), name


@pytest.mark.slow
def test_another_seed_gives_other_data(made: dict[str, pl.DataFrame]) -> None:
    for name, rows in joined(1, seed=8).items():
        assert not rows.equals(made[name].filter(pl.col("timestamp") < START_NS + DAY_NS)), name


@pytest.mark.slow
def test_another_machine_gives_nearly_the_same_values(made: dict[str, pl.DataFrame]) -> None:
    """A few values, written down once; ``exp`` and sums may differ between machines in the last digits."""
    market = next(market for market in MARKETS if market.name == "DEMO_PERP BTC-PERP")
    trades, book, interest = (of(made[name], market) for name in ("trades", "book", "open_interest"))
    assert trades.height == 63_248
    assert trades["price"].sum() == pytest.approx(3_848_662_712.5, rel=1e-12)
    assert trades["quote_amount"].sum() == pytest.approx(315_331_597.65050006, rel=1e-12)
    assert book["size"].sum() == pytest.approx(2_978_923.51, rel=1e-12)
    assert interest["amount"].sum() == pytest.approx(26_277_035.077, rel=1e-12)
    assert made["option_quotes"]["implied_volatility"].sum() == pytest.approx(3_622_958.62, rel=1e-12)


@pytest.mark.long
def test_a_lake_is_filled_further_and_filling_again_changes_nothing(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    fill(tmp_path / "lake", days=1)
    fill(tmp_path / "lake", days=2, progress=lambda *step: seen.append(step))
    assert seen == [(1, 2), (2, 2)]
    fill(tmp_path / "at once", days=2)
    further, at_once = Lake(tmp_path / "lake"), Lake(tmp_path / "at once")
    for name in set(TABLES) - {"candles", "quote_rates"}:
        order = [*TABLES[name].key]
        assert further.scan(name).sort(order).collect().equals(at_once.scan(name).sort(order).collect()), name
    before = at_once.version()
    fill(at_once.path, days=2)
    assert at_once.version() == before
    rollup(at_once, progress=False)
    report = check(at_once)
    assert report.sound, str(report)


# --- what follows from what -----------------------------------------------------------------------------------------


def last_prices(made: dict[str, pl.DataFrame], market: DemoMarket) -> np.ndarray:
    """The last trade's price up to the end of each minute."""
    minutes = pl.DataFrame({"minute": np.arange(START_NS // MINUTE, END_NS // MINUTE)})
    last = (
        of(made["trades"], market).group_by(minute=pl.col("timestamp") // MINUTE).agg(pl.col("price").last())
    )
    known = minutes.join(last, on="minute", how="left", maintain_order="left")["price"]
    return known.fill_null(strategy="forward").fill_null(strategy="backward").to_numpy()


@pytest.mark.parametrize("market", BOOKS, ids=names)
def test_books_do_not_cross_and_hold_the_price(made: dict[str, pl.DataFrame], market: DemoMarket) -> None:
    best = (
        of(made["book"], market)
        .group_by("timestamp", maintain_order=True)
        .agg(
            bid=pl.col("price").filter(pl.col("side") == "BID").max(),
            ask=pl.col("price").filter(pl.col("side") == "ASK").min(),
            smallest=pl.col("size").min(),
            levels=pl.len(),
        )
    )
    assert best.height == DAYS * 24 * 60
    assert np.allclose(best["ask"] - best["bid"], market.block_size)
    assert (best["smallest"] > 0).all()
    assert set(best["levels"]) == {2 * market.book_levels}
    middle = (best["bid"] + best["ask"]).to_numpy() / 2
    assert np.quantile(np.abs(middle / last_prices(made, market) - 1), 0.95) < 0.001


@pytest.mark.slow
@pytest.mark.parametrize("market", BOOKS, ids=names)
def test_books_have_walls_that_last_and_levels_that_keep_their_size(
    made: dict[str, pl.DataFrame], market: DemoMarket
) -> None:
    book = of(made["book"], market).with_columns(usual=pl.col("size").median().over("timestamp"))
    walls = book.filter(pl.col("size") > 6 * pl.col("usual"))
    assert 0.0005 < walls.height / book.height < 0.05
    lasting = walls.group_by("side", "price").agg(minutes=pl.len())
    assert lasting["minutes"].median() >= 3  # type: ignore[operator]
    assert lasting["minutes"].max() >= 60  # type: ignore[operator]
    after = book.select(pl.col("timestamp") + MINUTE, "side", "price", before="size")
    both = book.join(after, on=["timestamp", "side", "price"])
    assert both.select(pl.corr(pl.col("size").log(), pl.col("before").log())).item() > 0.7


@pytest.mark.parametrize("market", PERPETUALS, ids=names)
def test_funding_is_the_clamped_mean_premium_of_its_interval(
    made: dict[str, pl.DataFrame], market: DemoMarket
) -> None:
    rows, terms = of(made["funding"], market), market.funding
    assert terms is not None
    length = terms.hours * 60
    assert (rows["funding_interval"] == length * MINUTE).all()
    assert (rows["next_funding"] > rows["timestamp"]).all()
    assert (rows["next_funding"] - rows["timestamp"] <= length * MINUTE).all()
    assert (rows["next_funding"] % (length * MINUTE) == 0).all()
    # The prediction becomes the rate.
    last = rows.group_by("next_funding", maintain_order=True).agg(
        pl.col("predicted_rate").last(), pl.col("rate").first()
    )
    assert rows.select(pl.col("rate").n_unique().over("next_funding")).to_series().max() == 1
    assert last["rate"][1:].to_list() == last["predicted_rate"][:-1].to_list()
    # The premium of trades over spot trades says about the same.
    spot = next(other for other in MARKETS if other.coin == market.coin)
    premium = last_prices(made, market) / last_prices(made, spot) - 1
    mean = premium.reshape(-1, length).mean(axis=1)
    rates = last["predicted_rate"].to_numpy() * 8 / terms.hours
    expected = mean + np.clip(terms.interest - mean, -terms.clamp, terms.clamp)
    assert np.median(np.abs(rates - expected)) < 0.0001
    assert np.abs(rates).max() < 0.005


@pytest.mark.parametrize("market", PERPETUALS, ids=names)
def test_liquidations_are_trades_against_those_who_held(
    made: dict[str, pl.DataFrame], market: DemoMarket
) -> None:
    rows = of(made["liquidations"], market).with_columns(id=pl.col("id").str.slice(1))
    both = rows.join(made["trades"], on=["exchange", "raw_symbol", "id", "timestamp", "price", "amount"])
    assert both.height == rows.height > 100
    assert (both["side"] != both["side_right"]).all()
    assert set(rows["side"]) == {"BUY", "SELL"}


@each_row("market", PERPETUALS)
def test_liquidations_come_in_cascades_that_close_positions(
    made: dict[str, pl.DataFrame], market: DemoMarket
) -> None:
    bins = 10 * MINUTE
    times = (of(made["liquidations"], market)["timestamp"].to_numpy() - START_NS) // bins
    counts = np.sort(np.bincount(times, minlength=DAYS * 144))[::-1]
    assert counts[:15].sum() > 0.5 * counts.sum()  # of 288
    interest = of(made["open_interest"], market)
    assert interest["amount"].is_between(0.8 * market.open_interest, 1.2 * market.open_interest).all()
    worst = int(np.argmax(np.bincount(times, minlength=DAYS * 144)))
    when = interest["timestamp"]
    before = interest.filter(when < START_NS + worst * bins)
    after = interest.filter(when > START_NS + (worst + 1) * bins)
    # Contracts of an inverse market are worth what they are, so they are compared in the quote over the first price.
    column = "quote_amount" if market.contract else "amount"
    assert after[column][0] < before[column][-1]


@each_row("market", PERPETUALS)
def test_open_interest_in_the_quote_is_at_the_price(
    made: dict[str, pl.DataFrame], market: DemoMarket
) -> None:
    rows = of(made["open_interest"], market)
    price = (rows["quote_amount"] / rows["amount"]).to_numpy()
    minute = (rows["timestamp"].to_numpy() - START_NS) // MINUTE
    assert np.quantile(np.abs(price / last_prices(made, market)[minute] - 1), 0.95) < 0.001
    if market.contract:
        contracts = (rows["quote_amount"] / market.contract).to_numpy()
        assert np.allclose(contracts, np.rint(contracts))


# --- options --------------------------------------------------------------------------------------------------------


def test_expiries_always_span_three_months() -> None:
    for day in range(120):
        today = date.fromordinal(date(2024, 8, 7).toordinal() + day)
        listed = expiries(today)
        assert list(listed) == sorted(listed)
        assert (max(listed) - today).days >= 91
        assert sum((expiry - today).days <= 3 for expiry in listed) == 4


@pytest.mark.parametrize("coin", ["BTC", "ETH"])
def test_quotes_are_those_of_a_surface_without_butterflies(made: dict[str, pl.DataFrame], coin: str) -> None:
    quotes = made["option_quotes"].filter(coin=coin)
    assert (quotes["timestamp"] < quotes["expiry"]).all()
    assert quotes["implied_volatility"].is_between(20, 200).all()
    assert quotes["raw_symbol"].str.contains(rf"^{coin}-\d+[A-Z]{{3}}24-\d+-[CP]$").all()
    assert (quotes["open_interest"] >= 0).all()
    calls = quotes.filter(option_type="CALL").sort("timestamp", "expiry", "strike")
    at = ["timestamp", "expiry"]
    # In the quote, undiscounted: falling and convex in the strike, up to the four decimals of a mark.
    value = pl.col("mark_price") * pl.col("forward")
    slope = value.diff().over(at) / pl.col("strike").diff().over(at)
    slack = 2e-4 * pl.col("forward") / pl.col("strike").diff().over(at)
    steps = calls.with_columns(slope=slope, slack=slack)
    bent = steps.with_columns(turn=pl.col("slope").diff().over(at)).drop_nulls()
    assert (bent["slope"] <= bent["slack"]).all()
    assert (bent["turn"] >= -2 * bent["slack"]).all()
    assert calls["delta"].is_between(0, 1).all()


def test_parity_holds(made: dict[str, pl.DataFrame]) -> None:
    quotes = made["option_quotes"]
    key = ["coin", "timestamp", "expiry", "strike"]
    puts = quotes.filter(option_type="PUT").select(*key, put="mark_price", put_delta="delta")
    both = quotes.filter(option_type="CALL").join(puts, on=key)
    forward = 1 - both["strike"] / both["forward"]
    assert np.allclose(both["mark_price"] - both["put"], forward, atol=1.01e-4)
    assert np.allclose(both["delta"] - both["put_delta"], 1, atol=2e-5)


def at_the_money(made: dict[str, pl.DataFrame], coin: str) -> pl.DataFrame:
    """Volatility of the strike nearest to the forward, by time and expiry."""
    quotes = made["option_quotes"].filter(coin=coin, option_type="CALL")
    away = (pl.col("strike") / pl.col("forward") - 1).abs()
    return (
        quotes.sort("timestamp", "expiry", away).group_by("timestamp", "expiry", maintain_order=True).first()
    )


@pytest.mark.parametrize("coin", ["BTC", "ETH"])
def test_the_surface_moves_most_in_front(made: dict[str, pl.DataFrame], coin: str) -> None:
    by_life = (
        at_the_money(made, coin)
        .with_columns(days=(pl.col("expiry") - pl.col("timestamp")) / DAY_NS)
        .with_columns(front=pl.col("days") < 10, back=pl.col("days") > 60)
    )
    front, back = (by_life.filter(pl.col(side))["implied_volatility"] for side in ("front", "back"))
    assert front.std() > back.std() > 0  # type: ignore[operator]
    assert 25 < front.mean() < 90  # type: ignore[operator]
    jumps = by_life.sort("timestamp").select(pl.col("implied_volatility").diff().over("expiry").abs())
    assert jumps.to_series().max() < 12  # type: ignore[operator]


@pytest.mark.slow
def test_puts_are_dearer_than_calls_on_the_whole(client: Any) -> None:
    for coin in ("BTC", "ETH"):
        for tenor in ("1d", "1w", "1m"):
            asked = DAY | {"interval": "1h", "start": "2024-08-07", "tenor": tenor, "coin": coin}
            skew = client.skew(exchange="DEMO_OPTIONS", raw_symbol=f"{coin}_25", **asked)["skew"]
            assert skew.len() == 48
            assert -1 < skew.min() < skew.mean() < 8
            assert skew.mean() > 0.5
            assert skew.std() > 0.1


def test_open_interest_of_options_grows_and_expires(made: dict[str, pl.DataFrame]) -> None:
    total = (
        made["option_quotes"]
        .filter(coin="BTC")
        .group_by("timestamp")
        .agg(pl.col("open_interest").sum())
        .sort("timestamp")
    )
    change = total["open_interest"].diff()[1:]
    expiring = (total["timestamp"][1:] - START_NS) % DAY_NS == 8 * 60 * MINUTE
    assert (change.filter(expiring) < 0).all()
    assert (change.filter(~expiring) > 0).all()


# --- outcomes, futures, tokens --------------------------------------------------------------------------------------


def test_outcomes_of_a_question_are_probabilities_that_follow_the_price(
    made: dict[str, pl.DataFrame],
) -> None:
    trades = made["trades"].filter(exchange="DEMO_EVENTS")
    assert set(trades["raw_symbol"]) == {"1001", "1002"}
    assert trades["price"].is_between(0.01, 0.99).all()
    yes = pl.when(raw_symbol="1001").then("price").otherwise(1 - pl.col("price"))
    spot = pl.Series(last_prices(made, MARKETS[0]))
    minute = (trades["timestamp"] - START_NS) // MINUTE
    both = trades.select(yes=yes).with_columns(spot=spot.gather(minute))
    assert both.select(pl.corr("yes", "spot")).item() > 0.8


def test_futures_are_dearer_than_the_coin_and_worth_their_amount(made: dict[str, pl.DataFrame]) -> None:
    rows = made["cme_open_interest"]
    assert set(rows["raw_symbol"]) == {"BTCQ4"}
    assert rows.height == DAYS * 24
    assert np.allclose(rows["usd_amount"], rows["amount"] * rows["price"])
    dearer = rows["price"].to_numpy() / last_prices(made, MARKETS[0])[::60] - 1
    assert 0.002 < dearer.mean() < 0.01


def test_supply_grows_and_is_worth_its_price(made: dict[str, pl.DataFrame]) -> None:
    rows = made["token_supply"]
    assert set(rows["coin"]) == {"BTC", "ETH", "SOL", "USDT"}
    assert np.allclose(rows["marketcap"], rows["usd_price"] * rows["circulating_supply"])
    for coin in ("BTC", "ETH", "SOL", "USDT"):
        token = rows.filter(coin=coin).sort("timestamp")
        assert (token["circulating_supply"].diff().drop_nulls() > 0).all()
        assert token["usd_price"][0] == (COINS[coin].price if coin in COINS else 1)


# --- the whole, in the long run -------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_month_keeps_its_bounds() -> None:
    """Every day of a month is a market, and what is carried from day to day does not run away."""
    rows: dict[tuple[int, str], int] = {}
    for day, table, frame in tables(days=32):
        rows[day, table] = frame.height
        if table == "trades":
            prices = of(frame, MARKETS[0])["price"]
            assert prices.is_between(20_000, 180_000).all()
        if table == "open_interest":
            for market in PERPETUALS:
                assert (
                    of(frame, market)["amount"]
                    .is_between(0.3 * market.open_interest, 3 * market.open_interest)
                    .all()
                )
        if table == "funding":
            assert (frame["rate"].abs() < 0.01).all()
        if table == "option_quotes":
            assert 10_000 < frame.height < 120_000
            assert frame["implied_volatility"].is_between(15, 500).all()
        if table == "cme_open_interest":
            assert set(frame["raw_symbol"]) == {"BTCQ4" if day <= 16 else "BTCU4"}
    assert all(100_000 < rows[day, "trades"] < 800_000 for day in range(32))
    assert set(range(32)) == {day for day, _ in rows}
