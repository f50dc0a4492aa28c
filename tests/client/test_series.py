"""The methods that fetch series: what they ask for, and what sessions are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
import polars as pl
import pytest

import tidytape
from simulated.asked import SERIES
from simulated.everything import everything
from tables import each_row
from tidytape.catalogue import DATA_TYPES, DataType, Selection, SortDirection
from tidytape.client._answers import joined
from tidytape.client._series import FetchQuery, SeriesMethods
from tidytape.client._streams import stream_query
from tidytape.errors import DecodeError, IncompleteDataError, QueryError
from tidytape.query import PointsQuery
from tidytape.schema import LISTS, TPO_SESSIONS, schema_of

RENAMED = {"block_minutes": "tpo_block_minutes", "session": "tpo_session"}

OPTIONS: dict[str, Any] = {
    "category": "PERPETUAL",
    "side": "sell",
    "sort_direction": "desc",
    "gapfill": True,
    "quote": "usd",
    "funding_interval": "1h",
    "block_minutes": 5,
    "session": "weekly",
    "block_size": "2.5",
    "max_depth": 7,
    "tenor": "1m",
    "event": ["rain", "snow"],
}


class Asked(SeriesMethods[FetchQuery]):
    """Returns what is query, as a plan does."""

    def _points(self, query: FetchQuery) -> FetchQuery:
        return query


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(everything(tmp_path_factory.mktemp("series") / "lake").path)


def parameters(name: str) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(getattr(SeriesMethods, name)).parameters)
    del found["self"]
    return found


def allowed(kind: DataType) -> set[str]:
    """The parameters that the catalogue gives a data type."""
    of_markets = {"exchange", "raw_symbol", "coin", "normalized_symbol", "category", "event"}
    selecting = {
        Selection.MARKET: of_markets,
        Selection.OPTION_SUMMARY: {"exchange", "coin", "raw_symbol"},
        Selection.OPTION_SKEW: {"exchange", "coin", "raw_symbol"},
        Selection.TOKEN: {"token_name", "coin"},
        Selection.COIN: {"coin", "exchange"},
    }
    options = {
        "interval": not kind.interval_optional,
        "side": kind.per_side,
        "tenor": kind.per_tenor,
        "quote": kind.usd,
        "group_by": kind.group_by is not None,
        "gapfill": kind.gapfill,
        "max_depth": kind.included_depth is not None,
        "block_size": bool(kind.levels),
        "block_minutes": kind.name == "TPO_AGG",
        "session": kind.name == "TPO_AGG",
        "funding_interval": kind.name == "FUNDING_RATE_AGG",
        "limit": kind.name != "TRADE",
    }
    # Options of a coin are no market of a class, and no outcome of an event.
    without = {"category", "event"} if kind.name == "OPTION_OPEN_INTEREST_AGG" else set()
    always = {"start", "end", "sort_direction"}
    return selecting[kind.selection] - without | always | {name for name, has in options.items() if has}


@each_row("name", SERIES)
def test_a_method_takes_exactly_what_its_data_type_allows(name: str) -> None:
    by_side = {"by_side", "side"} if name == "candles" else set()
    assert set(parameters(name)) == allowed(DATA_TYPES[SERIES[name][0]]) | by_side


def test_there_is_a_method_for_every_data_type() -> None:
    by_side = Asked().candles(**SERIES["candles"][1], by_side=True).queries[0].type
    assert {kind for kind, _ in SERIES.values()} | set(by_side) == set(DATA_TYPES)


def query_of(name: str, arguments: dict[str, Any]) -> PointsQuery:
    kind = "TRADE_AGG" if name == "candles" and "side" in arguments else SERIES[name][0]
    return PointsQuery(type=kind, **{RENAMED.get(key, key): value for key, value in arguments.items()})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*has no TPO_AGG that starts in:tidytape.errors.EmptyAnswerWarning")
@each_row(
    ("name", "option"),
    [(name, option) for name in SERIES for option in ("", *OPTIONS) if option in ("", *parameters(name))],
)
def test_a_request_holds_what_was_said(client: Any, script: Any, name: str, option: str) -> None:
    transport = script(httpx.Response(200, json={"series": []}))
    arguments = SERIES[name][1] | ({option: OPTIONS[option]} if option else {})
    with client(transport) as asking:
        assert getattr(asking, name)(**arguments).is_empty()
    (request,) = transport.requests
    assert request.url.path == "/v1/points"
    sent = PointsQuery.from_params(parse_qsl(request.url.query.decode()))
    # The order is the client's matter: what is kept, and what comes in parts, is oldest first.
    assert sent == query_of(name, arguments).model_copy(update={"sort_direction": SortDirection.ASC})


@each_row("name", [name for name in SERIES if "group_by" in parameters(name)])
def test_a_group_is_asked_for_by_the_one_way_the_type_has(name: str) -> None:
    kind, arguments = SERIES[name]
    way = DATA_TYPES[kind].group_by
    assert way is not None
    coin = {key: value for key, value in arguments.items() if key != "raw_symbol"} | {"coin": "BTC"}
    query = getattr(Asked(), name)(**coin | {"exchange": ["X", "Y"]}, group_by=way.alias)
    assert query.queries[0].group_by is way


def test_what_a_method_returns_is_not_its_own_matter() -> None:
    query = Asked().open_interest(**SERIES["open_interest"][1] | {"interval": "1m", "end": 2_000_000_000})
    assert query.schema == schema_of("OPEN_INTEREST_AGG")
    assert query.finish is None
    assert len(query.queries) > 1
    assert all(one.points <= 100_000 for one in query.queries)
    assert query.queries[-1].end == 2_000_000_000


def test_a_side_makes_candles_of_sides() -> None:
    asked = SERIES["candles"][1]
    kinds = [
        Asked().candles(**asked, **more).queries[0].type[0]
        for more in ({}, {"by_side": True}, {"side": "buy"})
    ]
    assert kinds == ["TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "TRADE_AGG"]


def test_a_funding_interval_is_a_duration_or_milliseconds() -> None:
    asked = SERIES["funding"][1]
    for given in ("8h", 28_800_000, timedelta(hours=8)):
        assert Asked().funding(**asked, funding_interval=given).queries[0].funding_interval == 28_800_000


@each_row(
    ("name", "changed", "message"),
    [
        ("tpo", {"block_minutes": 7}, "block_minutes: got 7, expected one of 5, 30, 60, 240"),
        ("tpo_sessions", {"session": "yearly"}, "session: got 'yearly', expected one of TPO_SESSION_DAILY"),
        ("tpo", {"raw_symbol": "BTCUSDT"}, "coin: got .* and coin are given"),
        ("candles", {"interval": "2m"}, "interval: got '2m'"),
        ("open_interest", {"end": 0}, "end: got '1970-01-01"),
        ("open_interest", {"category": "SPOT"}, "category: .* PERPETUAL"),
        ("funding", {"funding_interval": "soon"}, "funding_interval: got 'soon'"),
        ("funding", {"group_by": "sum"}, "group_by: .*OPEN_INTEREST_WEIGHTED_AVG"),
        ("liquidations", {"side": "long"}, "side: got 'long'"),
        ("book_heatmap", {"max_depth": 0}, "max_depth: got 0"),
        ("book_heatmap", {"block_size": -1}, "block_size: got -1"),
        ("skew", {"tenor": None}, "tenor: left out"),
        ("skew", {"exchange": ["DERIBIT", "X"]}, "exchange: .* a single exchange"),
        ("implied_volatility", {"coin": None}, "coin: left out"),
        ("token_supply", {"token_name": None}, "token_name: left out"),
        ("liquidation_heatmap", {"coin": None}, "coin: left out"),
        (
            "trades",
            {"exchange": None, "coin": None, "raw_symbol": "BTCUSDT"},
            "exchange: left out.* or coin instead",
        ),
        ("trades", {"exchange": []}, "exchange: left out"),
        ("skew", {"exchange": None}, "exchange: left out"),
    ],
)
def test_what_cannot_be_right_is_never_sent(
    client: Any, script: Any, name: str, changed: dict[str, Any], message: str
) -> None:
    transport = script(httpx.Response(200, json={"series": []}))
    with client(transport) as asking, pytest.raises(QueryError, match=message):
        getattr(asking, name)(**SERIES[name][1] | changed)
    assert transport.requests == []


@each_row(
    ("name", "parameter", "value"),
    [
        ("candles", "max_depth", 100),
        ("tpo", "max_depth", 100),
        ("funding", "max_depth", 100),
        ("book_heatmap", "funding_interval", "1h"),
        ("open_interest", "funding_interval", "1h"),
    ],
)
def test_a_parameter_that_the_type_ignores_is_never_sent(
    client: Any, script: Any, name: str, parameter: str, value: Any
) -> None:
    kind, asked = SERIES[name]
    query = PointsQuery(type=kind, **asked, **{parameter: value})
    transport = script(httpx.Response(200, json={"series": []}))
    with client(transport) as asking:
        fetches = [asking.fetch, asking.plan, lambda query: asking.fetch([query])]
        streams = lambda query: asking.stream(kind, **asked, **{parameter: value})  # noqa: E731
        for call in (*fetches, streams):
            with pytest.raises(
                QueryError, match=f"{parameter}: .* expected no value; {kind} would ignore it"
            ):
                call(query)
    assert transport.requests == []


def test_a_parameter_that_one_of_the_types_takes_or_an_unknown_type_may_take_is_sent() -> None:
    asked = {"exchange": "X", "coin": "BTC", "interval": "1h"}
    for kinds in (["BLOCK_BOOK_SNAPSHOT_AGG", "TRADE_AGG"], "NEW_TYPE_AGG"):
        assert stream_query({"data_type": kinds, **asked, "max_depth": 5}).max_depth == 5


# --- the answers of the real service ---


@pytest.mark.slow
def test_trades_are_those_of_the_candles(lake: Path) -> None:
    with tidytape.Client.local(lake) as client:
        trades = client.trades(**SERIES["trades"][1])
        candles = client.candles(**SERIES["candles"][1])
        buys = client.trades(**SERIES["trades"][1], side="buy")
    assert trades["amount"].sum() == pytest.approx(candles["volume"].sum(), rel=1e-12)
    assert buys.equals(trades.filter(pl.col("side") == "BUY"))


@pytest.mark.slow
def test_trades_of_both_sides_are_in_the_order_of_time(lake: Path) -> None:
    asked = SERIES["trades"][1]
    with tidytape.Client.local(lake) as client:
        trades, newest_first = client.trades(**asked), client.trades(**asked, sort_direction="desc")
    markets = trades.partition_by("exchange", "raw_symbol", maintain_order=True)
    assert sum(market["timestamp"].is_sorted() for market in markets) == len(markets)
    assert trades["side"].n_unique() == 2
    assert newest_first.equals(pl.concat(market.reverse() for market in markets))


def test_trades_of_one_time_are_in_the_order_of_their_ids() -> None:
    query = PointsQuery(type="TRADE", exchange="X", coin="C", start=0, end=60)
    rows = pl.DataFrame(
        {
            "timestamp": [2, 1, 1, 1, 1], "id": ["1", "9", "10", "8", "100"],
            "side": ["BUY", "BUY", "SELL", "SELL", "BUY"],
        }
    )  # fmt: skip
    frame = schema_of("TRADE").conform(
        rows.with_columns(
            pl.col("timestamp").cast(pl.Datetime("ns", "UTC")), exchange=pl.lit("X"), raw_symbol=pl.lit("C")
        )
    )
    for parts in ([frame], [frame[:2], frame[2:]], [frame.reverse()]):
        ids = joined(parts, query)["id"].to_list()
        assert ids == ["8", "9", "10", "100", "1"]
        assert (
            joined(parts, query.model_copy(update={"sort_direction": "SORT_DIRECTION_DESC"}))["id"].to_list()
            == ids[::-1]
        )


@pytest.mark.slow
def test_heatmaps_keep_what_was_asked_of_their_depth(lake: Path) -> None:
    with tidytape.Client.local(lake) as client:
        book = client.book_heatmap(**SERIES["book_heatmap"][1], max_depth=2)
        levels = client.liquidation_heatmap(**SERIES["liquidation_heatmap"][1], max_depth=1)
    assert book.group_by("raw_symbol", "timestamp", "side").len()["len"].max() == 2
    assert levels["timestamp"].is_unique().all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sort_direction": "desc"},
        {"session": "daily", "block_minutes": 60},
        {"group_by": "sum", "normalized_symbol": "BTC-USDT", "coin": None},
        {"quote": "USD", "block_size": 2},
    ],
    ids=str,
)
def test_levels_and_sessions_are_two_frames_of_one_profile(lake: Path, options: dict[str, Any]) -> None:
    asked = SERIES["tpo"][1] | options
    with tidytape.Client.local(lake) as client:
        levels, sessions = client.tpo(**asked), client.tpo_sessions(**asked)
    grouped = "group_by" in options
    schema = TPO_SESSIONS.with_coverage() if grouped else TPO_SESSIONS
    assert sessions.columns == list(schema.names)
    assert levels.columns == list(schema_of("TPO_AGG", grouped=grouped).names)
    key, shared = ["coin", *TPO_SESSIONS.key], [name for name in levels.columns if name in sessions.columns]
    of_levels = levels.select(shared).unique(maintain_order=True)
    assert of_levels.equals(sessions.select(shared))
    totals = levels.group_by(key, maintain_order=True).agg(
        pl.col("tpo_count").sum(),
        *(pl.col("price").filter(flag).alias(name) for flag, name in LISTS.items()),
        high=pl.col("price").max(),
        low=pl.col("price").min(),
    )
    assert sessions.select("total_tpo_count", *LISTS.values(), "profile_high", "profile_low").equals(
        totals.select(
            pl.col("tpo_count").alias("total_tpo_count"),
            *LISTS.values(),
            profile_high="high",
            profile_low="low",
        )
    )


@pytest.mark.slow
def test_levels_and_sessions_are_one_fetch(lake: Path, tmp_path: Path) -> None:
    asked = SERIES["tpo"][1]
    with tidytape.Client.local(lake, cache=str(tmp_path)) as client:
        first = client.fetch(client.query.tpo(**asked))
        second = client.fetch(client.query.tpo_sessions(**asked))
        assert first.metadata.weight > 0
        assert (
            client.plan(client.query.tpo(**asked)).weight
            == client.plan(client.query.tpo_sessions(**asked)).weight
        )
    assert (first.frame.height, second.frame.height) > (1, 0)
    assert second.metadata.requests <= first.metadata.requests


def tpo_body(*points: dict[str, Any]) -> dict[str, Any]:
    identity = {"type": "TPO_AGG", "exchange": "X", "coin": "BTC", "rawSymbol": "BTCUSDT"}
    return {
        "series": [{"id": identity, "points": [{"Point": {"TpoAggregation": point}} for point in points]}]
    }


@pytest.fixture
def session() -> Callable[..., dict[str, Any]]:
    start = SERIES["tpo"][1]["start"]

    def point(*prices: float, **told: Any) -> dict[str, Any]:
        return {"timestamp": {"s": start}, "levels": [{"price": price} for price in prices], **told}

    return point


def test_what_a_service_does_not_derive_is_null(client: Any, script: Any, session: Any) -> None:
    transport = script(httpx.Response(200, json=tpo_body(session(1.0, 2.0, newField=3))))
    with client(transport) as asking:
        found = asking.tpo_sessions(**SERIES["tpo"][1])
    expected = {**TPO_SESSIONS.polars(), "new_field": pl.Int64()}
    assert dict(found.schema) == {name: expected[name] for name in found.columns}
    assert {*found.columns} == {*expected}
    assert found.select("poc_price", "new_field").rows() == [(None, 3)]


@pytest.mark.parametrize("prices", [(1.0, 1.0), (2.0, 1.0, 2.0)])
def test_a_session_with_two_levels_at_one_price_is_refused(
    client: Any, script: Any, session: Any, prices: tuple[float, ...]
) -> None:
    for name in ("tpo", "tpo_sessions"):
        transport = script(httpx.Response(200, json=tpo_body(session(*prices))))
        with client(transport) as asking, pytest.raises(DecodeError, match="two levels at one price"):
            getattr(asking, name)(**SERIES["tpo"][1])
    transport = script(httpx.Response(200, json=tpo_body(session(2.0, 1.0))))
    with client(transport) as asking:  # in another order, each once
        assert asking.tpo(**SERIES["tpo"][1])["price"].to_list() == [1.0, 2.0]


def test_a_session_that_comes_twice_with_different_values_is_refused(
    client: Any, script: Any, session: Any
) -> None:
    once = session(1.0, 2.0, poc_price=1.0)
    start = SERIES["tpo"][1]["start"]
    for name in ("tpo", "tpo_sessions"):
        with client(script(httpx.Response(200, json=tpo_body(once, once)))) as asking:
            assert getattr(asking, name)(**SERIES["tpo"][1])["timestamp"].n_unique() == 1
        for other in (session(1.0, 2.0, poc_price=2.0), session(1.0, poc_price=1.0)):
            twice = script(httpx.Response(200, json=tpo_body(once, other)))
            with client(twice) as asking, pytest.raises(IncompleteDataError, match="came twice") as caught:
                getattr(asking, name)(**SERIES["tpo"][1])
            assert caught.value.missing == ((start, start + 1),)
