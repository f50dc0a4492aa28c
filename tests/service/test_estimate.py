"""What a request takes, told before it runs: light or heavy, or refused by name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from lakes import empty_lake
from tables import each_row
from tidytape import Client, wire
from tidytape.client._local import AppTransport
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.lake._delta import Facts
from tidytape.lake.rollup import rollup
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._estimate import Estimate, Statistics, estimated, rows_within
from tidytape.service.answer._pages import require_trades
from tidytape.service.answer._scan import Limits, Market

NS = 10**9
DAY = 86_400
T0 = 1_723_161_600  # 2024-08-09T00:00:00Z
ONE = Market("X", "BTCUSDT", None, "BTC", "SPOT", Decimal(10), "USDT", registered_block_size=Decimal(10))


@dataclass
class Told:
    """Statistics as a test gives them: files of tables of events, and rows of tables of minutes."""

    files: dict[str, list[Facts]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    times: list[int] = field(default_factory=list)
    counted: int = 0

    def events(self, table: str, *partition: str) -> list[Facts]:
        return self.files.get(table, [])

    def minutes(self, table: str, one: Market, start: int, end: int) -> int:
        return self.rows.get(table, 0)

    def rates(self, quote: str | None, start: int, end: int) -> int:
        return self.rows.get("quote_rates", 0)

    def most_events(self, table: str, one: Market, start: int, end: int) -> float:
        return sum(file.rows or math.inf for file in self.events(table) if file.may_hold(start, end))

    def most_minutes(self, table: str, one: Market, start: int, end: int) -> float:
        return self.most.get(table, math.inf)

    def count_trades(self, one: Market, start: int, end: int) -> int:
        self.counted += 1
        return sum(start <= time < end for time in self.times)

    def first_trades(self, one: Market, start: int, end: int, most: int | None) -> NDArray[np.int64]:
        return np.array([time for time in self.times if start <= time < end][:most])


def query(name: str = "TRADE_SIDE_AGNOSTIC_AGG", *, days: int = 1, **more: Any) -> PointsQuery:
    interval = {} if name == "TRADE" else {"interval": "1m"}
    asked = {
        "exchange": "X",
        "raw_symbol": "BTCUSDT",
        "start": T0,
        "end": T0 + days * DAY,
        **interval,
        **more,
    }
    return PointsQuery(type=name, **asked)


def of(asked: PointsQuery, told: Told, *, markets: int = 1) -> Estimate:
    return estimated(asked, {asked.type[0]: [ONE] * markets}, told)


def about(asked: PointsQuery, told: Told, *, markets: int = 1) -> tuple[int, int, int]:
    found = of(asked, told, markets=markets)
    return found.rows, found.made, found.least


@each_row(
    ("start", "end", "rows"),
    [
        (0, 100, 100),
        (0, 50, 50),
        (25, 75, 50),
        (100, 200, 0),
        (-9, 1, 1),
        (90, 1_500, 10 + 50),
        (2_000, 2_001, 7),
    ],
)
def test_rows_of_a_file_count_as_far_as_its_time_lies_in_the_window(start: int, end: int, rows: int) -> None:
    files = [Facts(100, 0, 99), Facts(100, 1_000, 1_999), Facts(7, 2_000, 2_000)]
    assert rows_within(files, start, end) == rows


def test_a_file_that_does_not_say_its_time_counts_whole() -> None:
    assert rows_within([Facts(100, None, None), Facts(None, 0, 9)], 0, 1) == 100


def test_candles_are_as_many_as_there_are_minutes_and_filled_ones_as_many_as_there_could_be() -> None:
    told = Told(rows={"candles_of_both_1m": 600, "candles_1m": 900})
    assert about(query(), told) == (600, 600, 0)
    assert about(query(interval="1h"), told) == (600, 24, 0)
    assert about(query(gapfill=True), told) == (600, 1_440, 1_440)
    assert about(query("TRADE_AGG", gapfill=True), told, markets=3) == (2_700, 3 * 2_880, 3 * 2_880)


def test_trades_without_a_side_are_a_third_series() -> None:
    for sideless, series in ((None, 2), (0, 2), (1, 3)):
        trades = Facts(900, T0 * NS, (T0 + DAY) * NS - 1, sideless=sideless)
        told = Told({"trades": [trades]}, rows={"candles_1m": 900})
        assert about(query("TRADE_AGG", gapfill=True), told) == (900, series * 1_440, series * 1_440)
        assert about(query("TRADE_AGG", gapfill=True, side="BUY"), told) == (900, 1_440, 1_440)
        later = query("TRADE_AGG", gapfill=True, start=T0 + DAY, end=T0 + 2 * DAY)
        assert about(later, told) == (900, 2 * 1_440, 2 * 1_440)


def test_look_back_weights_and_prices_add_up() -> None:
    """A group's funding is weighted by open interest, which counts for a day on and is priced at closes."""
    told = Told(rows={"funding_1m": 10, "open_interest_1m": 200, "candles_of_both_1m": 3_000})
    assert about(query("OPEN_INTEREST_AGG"), told) == (200, 200, 0)
    assert of(query("OPEN_INTEREST_AGG", quote="USD"), told).rows == 3_200
    assert of(query("FUNDING_RATE_AGG"), told).rows == 10
    group = query("FUNDING_RATE_AGG", group_by="open_interest_weighted_avg")
    assert of(group, told).rows == 3_210
    # Each day has 60 quotes: those of the day before the window count.
    quotes = Told({"option_quotes": [Facts(120, (T0 - DAY) * NS, (T0 + DAY) * NS - 1)]})
    chain = PointsQuery(
        type="OPTION_OPEN_INTEREST_AGG", exchange="X", coin="BTC", interval="1h", start=T0, end=T0 + DAY
    )
    assert of(chain, quotes).rows == 120
    assert of(chain, Told({"option_quotes": [Facts(9, (T0 - 60) * NS, (T0 - 60) * NS)]})).most == 9


def test_types_and_markets_add_up() -> None:
    told = Told(rows={"candles_of_both_1m": 600, "candles_1m": 900})
    both = PointsQuery(
        type=["TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG"],
        exchange="X",
        coin="BTC",
        interval="1d",
        start=T0,
        end=T0 + DAY,
    )
    assert estimated(both, {name: [ONE, ONE] for name in both.type}, told).rows == 2 * 600 + 2 * 900
    assert estimated(both, {}, told) == Estimate(0, 0, most=0)


def test_amounts_of_another_quote_are_converted_from_trades() -> None:
    trades = [Facts(86_400, T0 * NS, (T0 + DAY) * NS - 1)]
    told = Told({"trades": trades}, {"candles_of_both_1m": 600})
    of_euro = Market("X", "BTCEUR", None, "BTC", "SPOT", Decimal(10), "EUR")
    in_usd = query(quote="USD")
    assert estimated(in_usd, {in_usd.type[0]: [ONE]}, told).rows == 600
    assert estimated(in_usd, {in_usd.type[0]: [of_euro]}, told).rows == 86_400
    told.rows["quote_rates"] = 24  # what one euro was worth is read too
    assert estimated(in_usd, {in_usd.type[0]: [of_euro]}, told).rows == 86_424


def test_what_is_small_is_light_and_what_is_large_is_heavy() -> None:
    assert not Estimate(1_000_000, 250_000).is_heavy
    assert Estimate(1_000_001, 1).is_heavy
    assert Estimate(1, 250_001).is_heavy


def test_only_what_statistics_bound_from_above_is_small() -> None:
    told = Told(most={"candles_of_both_1m": 2_880, "candles_1m": 2_880, "profile_1m": 90_000})
    assert of(query(), told).most == 2_880
    assert of(query(), told).is_small
    assert of(query("VOLUME_PROFILE_AGG"), told, markets=2).most == 2 * 92_880 + 25_000
    assert of(query("VOLUME_PROFILE_AGG"), told, markets=2).is_small
    assert not of(query("VOLUME_PROFILE_AGG"), told, markets=3).is_small
    assert not of(query("VOLUME_PROFILE_AGG"), Told()).is_small  # nothing says how many there are
    # The last price before the window may lie anywhere.
    assert of(query(gapfill=True), told).most == math.inf
    in_usd, of_euro = query(quote="USD"), Market("X", "BTCEUR", None, "BTC", "SPOT", Decimal(10), "EUR")
    assert of(in_usd, told).is_small
    assert not estimated(in_usd, {in_usd.type[0]: [of_euro]}, told).is_small


def test_many_markets_are_not_small_however_few_their_rows() -> None:
    """Planning for 300 markets of ten trades each took ten seconds, and for their market profiles never ended."""
    told = Told(most={"candles_of_both_1m": 10, "profile_1m": 10})
    assert of(query(), told, markets=10).is_small
    assert not of(query(), told, markets=12).is_small
    types = ["TRADE_SIDE_AGNOSTIC_AGG", "VOLUME_PROFILE_AGG"]
    both = PointsQuery(type=types, exchange="X", coin="BTC", interval="1d", start=T0, end=T0 + DAY)
    assert not estimated(both, {name: [ONE] * 6 for name in types}, told).is_small


def test_a_market_profile_counts_its_touches_and_no_lists() -> None:
    told = Told({"trades": [Facts(4, T0 * NS, (T0 + 4 * 3_600) * NS - 1, 100.0, 106.0)]})
    told.most = {"candles_of_both_1m": 240, "profile_1m": 4}
    asked = query("TPO_AGG", interval="4h", end=T0 + 4 * 3_600, tpo_block_minutes=60)
    for size, is_small in (("0.01", True), ("0.0006", True), ("0.0005", False)):
        market = Market("X", "BTCUSDT", None, "BTC", "SPOT", Decimal(size), "USDT")
        assert estimated(asked, {"TPO_AGG": [market]}, told).is_small is is_small


def test_a_file_counts_whole_where_its_rows_must_be_bounded() -> None:
    trades = [Facts(40_000, T0 * NS - 1, T0 * NS + 5), Facts(9, (T0 + DAY) * NS, (T0 + 2 * DAY) * NS)]
    assert of(query("TRADE"), Told({"trades": trades})).most == 40_000
    assert of(query("TRADE"), Told({"trades": [Facts(None, T0 * NS, T0 * NS)]})).most == math.inf


def test_a_market_profile_is_bounded_by_the_range_of_its_files() -> None:
    trades = [Facts(90_000, T0 * NS, (T0 + DAY) * NS - 1, 60_000.0, 61_200.0)]
    told = Told({"trades": trades}, most={"candles_of_both_1m": 2_880, "profile_1m": 5_000})
    levels, blocks = 1_200 / 10 + 2, 48 + 2
    most = 2_880 + 5_000 + 4 * levels * blocks
    assert of(query("TPO_AGG", interval="1d"), told).most == most
    unbounded = Told({"trades": [Facts(90_000, T0 * NS, T0 * NS)]}, most=told.most)
    assert of(query("TPO_AGG", interval="1d"), unbounded).most == math.inf


def test_what_exceeds_a_limit_is_refused_by_name_with_a_window_that_fits() -> None:
    limits = Limits.of(seconds=30, memory=4 << 30)
    Estimate(limits.rows or 0, 10**9, limits.made).require(query(), limits)
    with pytest.raises(
        QueryError, match=r"about 120,000,000 rows to read.*a window of 43200 seconds"
    ) as said:
        Estimate(120_000_000, 1).require(query(), limits)
    assert (said.value.code, said.value.parameter) == ("POINT_LIMIT_EXCEEDED", "end")
    with pytest.raises(QueryError, match="rows to make"):
        Estimate(1, 10**9, limits.made + 1).require(query(), limits)
    Estimate(10**12, 1).require(query(), Limits.of(seconds=None, memory=None))  # nothing ends it there


def test_levels_of_a_market_profile_grow_as_its_block_size_shrinks() -> None:
    # A day between 60,000 and 61,200: each of its 48 time blocks has a range of about 1,200 / sqrt(48) = 173.
    told = Told(
        {"trades": [Facts(90_000, T0 * NS, (T0 + DAY) * NS - 1, 60_000.0, 61_200.0)]},
        {"candles_of_both_1m": 1_440, "profile_1m": 5_000},
    )
    fine = Market("X", "BTCUSDT", None, "BTC", "SPOT", Decimal("0.0001"), "USDT")
    asked = query("TPO_AGG", interval="1d", block_size="0.0001")
    estimate = estimated(asked, {"TPO_AGG": [fine]}, told)
    assert estimate.made == pytest.approx(4 * 48 * 173 / 0.0001, rel=0.01)
    assert estimate.least == pytest.approx(4 * 1_200 / 0.0001, rel=0.01)
    with pytest.raises(QueryError, match=r"block_size: got .*at this size there are 48,000,000 or more"):
        estimate.require(asked, Limits.of(seconds=30, memory=4 << 30))
    assert not of(query("TPO_AGG", interval="1d"), told).is_heavy


# --- trades ---------------------------------------------------------------------------------------------------------


def test_trades_are_counted_only_where_files_hold_too_many() -> None:
    few = Told({"trades": [Facts(100_000, T0 * NS, T0 * NS + 5)]})
    require_trades(query("TRADE"), {"TRADE": [ONE]}, few)
    assert few.counted == 0
    elsewhere = Told({"trades": [Facts(10**9, 0, 5)]})
    require_trades(query("TRADE"), {"TRADE": [ONE]}, elsewhere)
    assert elsewhere.counted == 0
    edge = Told({"trades": [Facts(10_000_000, 0, T0 * NS + 5)]}, times=[T0 * NS])
    require_trades(query("TRADE"), {"TRADE": [ONE]}, edge)
    assert edge.counted == 1


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with 250,000 trades in a day, and none of them in its last hour."""
    lake = empty_lake(tmp_path_factory.mktemp("busy") / "lake")
    rng = np.random.default_rng(5)
    lake.writer().register(
        pl.DataFrame(
            {
                "exchange": ["X"], "raw_symbol": ["BTCUSDT"], "coin": ["BTC"], "quote_coin": ["USDT"],
                "category": ["SPOT"], "block_size": [10.0],
            }
        )
    )  # fmt: skip
    for part in range(5):
        times = T0 * NS + np.sort(rng.integers(part * 16_560 * NS, (part + 1) * 16_560 * NS, 50_000))
        price = np.round(60_000 + rng.normal(0, 1, 50_000).cumsum(), 2)
        rows = pl.DataFrame(
            {
                "exchange": "X",
                "raw_symbol": "BTCUSDT",
                "timestamp": times,
                "side": "BUY",
                "price": price,
                "amount": 1.0,
                "quote_amount": price,
            }
        ).with_columns(
            sequence=pl.int_range(pl.len()), id=pl.format("{}-{}", pl.lit(part), pl.int_range(pl.len()))
        )
        lake.writer().append("trades", rows, source=f"part:{part}")
    return Path(lake.path)


def times_of(path: Path) -> np.ndarray:
    return Lake(path).scan("trades").select(pl.col("timestamp").sort()).collect()["timestamp"].to_numpy()


@pytest.fixture
def ask(busy: Path) -> Iterator[Any]:
    import httpx

    app = create_app(Lake(busy), Keys([Key("e", hashed("the-key"), "enterprise", created=0)]))
    transport = AppTransport(app)

    def get(path: str = "/v1/points", **params: Any) -> httpx.Response:
        asked = {"exchange": "X", "rawSymbol": "BTCUSDT", "from": T0, "period": DAY, **params}
        client = httpx.Client(
            transport=transport, base_url="http://service", headers={"X-Service-Key": "the-key"}
        )
        return client.get(path, params=asked if path == "/v1/points" else None)

    yield get
    transport.close()


@pytest.mark.slow
def test_too_many_trades_are_refused_with_their_number_and_a_window_that_fits(ask: Any, busy: Path) -> None:
    refused = ask(type="TRADE")
    assert (refused.status_code, refused.json()["error"]) == (403, "POINT_LIMIT_EXCEEDED")
    times = times_of(busy)
    fits = int(times[100_000] - T0 * NS) // NS
    assert refused.json()["message"] == (
        "period: got '250,000 trades', expected at most 100,000 trades in one request; "
        f"a window of {fits} seconds at most"
    )
    assert ask("/v1/usage").json()["used"] == 0
    assert ask(type="TRADE", period=fits + 1).status_code == 403
    answer = ask(type="TRADE", period=fits)
    assert answer.status_code == 200
    points = [point for series in answer.json()["series"] for point in series["points"]]
    assert len(points) == int((times < (T0 + fits) * NS).sum())


@pytest.mark.slow
def test_a_quiet_window_of_any_length_may_be_asked_for(ask: Any) -> None:
    assert ask(type="TRADE", **{"from": T0 + 23 * 3_600, "period": 200_000 * 60}).status_code == 200


@pytest.mark.slow
def test_our_client_asks_for_less_at_a_time_and_gets_every_trade(busy: Path) -> None:
    with Client.local(busy) as client:
        result = client.fetch(query("TRADE"))
        assert result.frame.height == 250_000
        assert (result.frame["timestamp"].dt.epoch("ns").sort().to_numpy() == times_of(busy)).all()
        assert result.metadata.weight < 10


@pytest.mark.slow
def test_a_block_size_that_makes_too_many_levels_is_refused_before_and_after_a_rollup(
    ask: Any, busy: Path
) -> None:
    for _ in range(2):
        refused = ask(type="TPO_AGG", interval="DAY", blockSize="0.0001")
        assert (refused.status_code, refused.json()["error"]) == (400, "INVALID_PARAMS")
        assert refused.json()["message"].startswith("blockSize: got '0.0001', expected a size at which")
        assert ask("/v1/usage").json()["used"] == 0
        rollup(Lake(busy), progress=False)


@pytest.mark.slow
def test_the_exact_number_of_levels_is_known_from_minutes(busy: Path) -> None:
    lake, asked = Lake(busy), query("TPO_AGG", interval="1d", block_size="0.01")
    engine = Engine(lake, limits=Limits(None, 4_000))
    subjects = engine.markets(asked)
    with pytest.raises(
        QueryError, match=r"at most 1,000 levels together; at this size they touch ([0-9,]+);"
    ) as said:
        engine.frames(asked, subjects)
    exact = int(str(said.value).partition("they touch ")[2].partition(";")[0].replace(",", ""))
    trades = lake.scan("trades").collect()
    ranges = trades.group_by(pl.col("timestamp") // (1_800 * NS)).agg(
        pl.col("price").max() - pl.col("price").min()
    )
    assert exact == pytest.approx((ranges["price"] / 0.01 + 1).sum(), rel=1e-6)
    assert estimated(asked, subjects, Statistics(lake)).made / 4 == pytest.approx(exact, rel=1)


@pytest.mark.slow
def test_the_estimate_reads_what_is_kept_where_there_is_a_rollup(busy: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(busy, tmp_path / "lake")
    lake = Lake(tmp_path / "lake")
    asked = query(days=1)
    rollup(lake, progress=False)
    subjects = Engine(lake).markets(asked)
    # Of 24 hours the last has no trade. The last of the 1,380 minutes is still made of its trades, 181 on average.
    assert 1_379 + 100 < estimated(asked, subjects, Statistics(lake)).rows < 1_379 + 300


@pytest.mark.slow
@pytest.mark.parametrize("session", [None, "daily", "weekly", "monthly"])
def test_a_session_of_many_single_prints_is_served(tmp_path: Path, session: str | None) -> None:
    """40,000 levels, of which nearly each may be a single print: with the list on each, they took gigabytes."""
    lake = empty_lake(tmp_path / "lake")
    lake.writer().register(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["A"], "block_size": [1.0]}))
    first = 1_719_792_000  # 2024-07-01T00:00:00Z, a Monday
    times = [first * NS, first * NS + NS]
    trade = {"exchange": "X", "raw_symbol": "A", "side": "BUY", "amount": 1.0}
    rows = [
        trade | {"id": str(n), "timestamp": at, "sequence": n, "price": price, "quote_amount": price}
        for n, (at, price) in enumerate(zip(times, (10_000.0, 30_000.0), strict=True))
    ]
    lake.writer().append("trades", pl.DataFrame(rows), source="two")
    engine = Engine(lake)
    asked = {"type": "TPO_AGG", "exchange": "X", "raw_symbol": "A", "interval": "1d", "tpo_session": session}
    window = {"start": first, "end": first + DAY}
    fine = PointsQuery(**asked, **window, block_size="0.5")  # type: ignore[arg-type]
    ((_, frame),) = engine.frames(fine, engine.markets(fine))
    assert (frame.height, frame["levels"].list.len().to_list()) == (1, [40_001])
    for body, read in (
        (wire.encode(frame, "TPO_AGG"), wire.decode),
        (wire.to_arrow(frame, "TPO_AGG"), wire.from_arrow),
    ):
        assert len(body) < 10 * 2**20
        assert wire.levels_of(read(body, "TPO_AGG")).equals(wire.levels_of(frame))
