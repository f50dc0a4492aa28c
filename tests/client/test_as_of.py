"""`markets(as_of=…)`: what existed then, of our service, of one that only lists its markets, and of a tape."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

import tidytape
from lakes import empty_lake
from tables import each_row
from tidytape.errors import QueryError, SurvivorWarning
from tidytape.lake import Lake
from tidytape.schema import MARKETS

DAY = timedelta(days=1)
BEGIN = datetime(2024, 8, 1, tzinfo=UTC)
LIVES = {"BTCUSDT": (0, 9), "LUNAUSDT": (0, 4), "MATICUSDT": (0, 5), "POLUSDT": (6, 9), "NEWUSDT": (8, 9)}
"""First and last day of each market; MATIC becomes POL after five days and a half."""
RENAMED = BEGIN + 5.5 * DAY
OF_TODAY = ["last_price", "volume_24h", "volume_change_24h", "price_change_24h", "oi_change_24h", "marketcap"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = empty_lake(tmp_path_factory.mktemp("as_of") / "lake")
    for symbol, (first, last) in LIVES.items():
        days = range(first, last + 1)
        trades = pl.DataFrame(
            {
                "timestamp": [round((BEGIN + day * DAY).timestamp()) * 10**9 for day in days],
                "id": [f"{day}" for day in days],
                "sequence": list(days),
            }
        ).with_columns(
            exchange=pl.lit("X"), raw_symbol=pl.lit(symbol), side=pl.lit("BUY"), price=2.0, amount=1.0,
            quote_amount=2.0,
        )  # fmt: skip
        lake.writer().append("trades", trades, source=symbol)
        coin = symbol.removesuffix("USDT")
        market = {
            "exchange": "X",
            "raw_symbol": symbol,
            "coin": coin,
            "quote_coin": "USDT",
            "category": "SPOT",
        }
        since = {"available_since": trades["timestamp"].min()}
        lake.writer().register(pl.DataFrame([market | since | {"normalized_symbol": f"{coin}-USDT"}]))
    lake.writer().rename("X", "MATICUSDT", "POLUSDT", at=RENAMED)
    return lake


@pytest.fixture
def local(lake: Lake) -> Iterator[tidytape.Client[pl.DataFrame]]:
    with tidytape.Client.local(lake.path) as client:
        yield client


def symbols(lake: Lake, as_of: Any, **more: Any) -> list[str]:
    with tidytape.Client.local(lake.path) as client:
        return list(client.markets(as_of=as_of, **more)["raw_symbol"])


@pytest.mark.slow
@each_row(
    ("days", "want"),
    [
        (-0.1, []),
        (0, ["BTCUSDT", "LUNAUSDT", "MATICUSDT"]),
        (5, ["BTCUSDT", "LUNAUSDT", "MATICUSDT"]),  # a day after the last event of LUNA
        (5.1, ["BTCUSDT", "MATICUSDT"]),
        (5.9, ["BTCUSDT", "MATICUSDT"]),  # renamed, and no event yet under the new symbol
        (6, ["BTCUSDT", "POLUSDT"]),
        (9, ["BTCUSDT", "NEWUSDT", "POLUSDT"]),
        (10, ["BTCUSDT", "NEWUSDT", "POLUSDT"]),
        (10.1, []),
    ],
)
def test_what_existed_then(days: float, want: list[str], local: tidytape.Client[pl.DataFrame]) -> None:
    assert list(local.markets(as_of=BEGIN + days * DAY)["raw_symbol"]) == want


@pytest.mark.slow
@each_row(
    ("days", "want"),
    [
        (4, ["ABC", "XYZ"]),  # two markets, of which nobody knows yet that one gets the other's symbol
        (5, ["XYZ"]),
        (12, ["ABC", "XYZ"]),  # the old symbol trades again
        (24, ["XYZ"]),
        (26, []),
    ],
)
def test_symbols_before_and_after_a_renaming(days: float, want: list[str], tmp_path: Path) -> None:
    lake = empty_lake(tmp_path / str(days))
    for symbol, of_symbol in {"ABC": [*range(5), *range(12, 23)], "XYZ": range(2, 25)}.items():
        trades = pl.DataFrame(
            {"timestamp": [round((BEGIN + day * DAY).timestamp()) * 10**9 for day in of_symbol]}
        )
        trades = trades.with_columns(id=pl.col("timestamp").cast(pl.String), sequence="timestamp")
        market = {"exchange": "X", "raw_symbol": symbol}
        trades = trades.with_columns(
            **{name: pl.lit(text) for name, text in {**market, "side": "BUY"}.items()}
        )
        trades = trades.with_columns(price=2.0, amount=1.0, quote_amount=2.0)
        lake.writer().append("trades", trades, source=symbol)
        lake.writer().register(pl.DataFrame([market | {"available_since": trades["timestamp"].min()}]))
    lake.writer().rename("X", "ABC", "XYZ", at=BEGIN + 5 * DAY)
    assert symbols(lake, BEGIN + days * DAY) == want


@pytest.mark.slow
@each_row("as_of", [date(2024, 8, 7), "2024-08-07", "2024-08-07T02:00:00+02:00", 1_722_988_800])
def test_times_are_written_as_everywhere(as_of: Any, lake: Lake) -> None:
    assert symbols(lake, as_of) == ["BTCUSDT", "POLUSDT"]


@pytest.mark.slow
def test_nothing_of_later_is_in_the_frame(lake: Lake) -> None:
    with tidytape.Client.local(lake.path) as client:
        now, then = client.markets(), client.markets(as_of=BEGIN + DAY)
        later = client.markets(as_of=RENAMED)
    assert now["last_price"].null_count() == 0
    assert now.columns == list(MARKETS.names)
    assert then.columns == [*now.columns[:-4], "last_timestamp", *now.columns[-4:]]
    assert then.select(now.columns).schema == now.schema
    assert all(then[name].null_count() == then.height for name in OF_TODAY)
    renamings = [frame.filter(raw_symbol="MATICUSDT")["renamed_to"].item() for frame in (now, then, later)]
    assert renamings == ["POLUSDT", None, "POLUSDT"]
    assert then["last_timestamp"].to_list() == [BEGIN + day * DAY for day in (9, 4, 5)]


@pytest.mark.slow
def test_filters_hold(lake: Lake) -> None:
    then = BEGIN + DAY
    assert symbols(lake, then, coin="LUNA", exchange="X", category="spot", type="trades") == ["LUNAUSDT"]
    assert symbols(lake, then, symbol_filter="mat") == ["MATICUSDT"]
    assert symbols(lake, then, type="funding") == []
    # What the market became is not among the results, and counts.
    for days, want in ((5.9, ["MATICUSDT"]), (6, [])):
        assert symbols(lake, BEGIN + days * DAY, symbol_filter="mat") == want
        assert symbols(lake, BEGIN + days * DAY, coin="MATIC") == want
    assert symbols(lake, then, sort_field="available_since", page_size=1) == [
        "BTCUSDT",
        "LUNAUSDT",
        "MATICUSDT",
    ]


def test_ranks_of_today_are_refused(lake: Lake) -> None:
    with tidytape.Client.local(lake.path) as client:
        with pytest.raises(
            QueryError, match="sort_field: got 'VOLUME_24H', expected available_since, or nothing"
        ):
            client.markets(as_of="2024-08-02", sort_field="volume_24h")
        with pytest.raises(QueryError, match="distinct: got True, expected nothing beside as_of"):
            client.markets(as_of="2024-08-02", distinct=True)
        with pytest.raises(QueryError, match="as_of: got 'then'"):
            client.markets(as_of="then")


@pytest.mark.slow
def test_other_kinds_of_clients(lake: Lake) -> None:
    async def fetched() -> pl.DataFrame:
        async with tidytape.AsyncClient.local(lake.path) as client:
            return await client.markets(as_of="2024-08-07")

    with tidytape.Client.local(lake.path) as client:
        frame = client.markets(as_of="2024-08-07")
    assert asyncio.run(fetched()).equals(frame)
    with tidytape.Client.local(lake.path, backend="pandas") as client:
        in_pandas = client.markets(as_of="2024-08-07")
    assert list(in_pandas["raw_symbol"]) == frame["raw_symbol"].to_list()
    assert str(in_pandas["last_timestamp"].dtype) == "datetime64[ns, UTC]"


@pytest.mark.slow
def test_a_tape_keeps_it_apart_from_the_list_of_today(lake: Lake, tmp_path: Path) -> None:
    with tidytape.Client.local(lake.path) as client, client.record(tmp_path / "study.tape"):
        now, then, other = (
            client.markets(),
            client.markets(as_of="2024-08-07"),
            client.markets(as_of="2024-08-02"),
        )
    with tidytape.Client.replay(tmp_path / "study.tape") as replayed:
        assert replayed.markets(as_of=datetime(2024, 8, 7, tzinfo=UTC)).equals(then)
        assert replayed.markets(as_of="2024-08-02").equals(other)
        assert replayed.markets().equals(now)


class Plain(httpx.BaseTransport):
    """A service of the contract alone, or one of an older release, which knows nothing of factors and renamings."""

    def __init__(self, held: httpx.Response) -> None:
        self.held = held

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        if request.url.path != "/v1/markets":
            return self.held
        assert "asOf" not in request.url.params
        entries = [
            {"exchange": "X", "rawSymbol": "A", "coin": "A", "availableSince": {"s": 60}, "lastPrice": 5},
            {"exchange": "X", "rawSymbol": "B", "coin": "B", "availableSince": {"s": 600}},
            {"exchange": "X", "rawSymbol": "C", "coin": "C"},
        ]
        symbols = [] if "pageOffset" in request.url.params else entries
        return httpx.Response(200, json={"symbols": symbols, "nextOffset": 3})


@each_row(
    "held",
    [
        httpx.Response(404),
        httpx.Response(401, json={"error": "X", "message": "no"}),
        httpx.Response(200, json={"a": 1}),
    ],
)
def test_a_service_that_does_not_know_the_end_of_its_markets(
    held: httpx.Response, client: Callable[..., tidytape.Client[Any]]
) -> None:
    with pytest.warns(SurvivorWarning, match=r"last_timestamp of 3 markets of 3 is not known"):
        got = client(Plain(held)).markets(as_of=300)
    assert got.select("raw_symbol", "last_price", "last_timestamp").rows() == [("A", None, None)]


def test_an_older_release_of_ours(client: Callable[..., tidytape.Client[Any]]) -> None:
    held = [
        {
            "type": "TRADE",
            "exchange": "X",
            "rawSymbol": symbol,
            "coin": symbol,
            "firstTimestamp": {"s": first},
            "lastTimestamp": {"s": last},
        }
        for symbol, first, last in (("A", 60, 100), ("B", 600, 10**6), ("C", 90, 10**6))
    ]
    asked = client(Plain(httpx.Response(200, json={"holdings": held})))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asked.markets(as_of=300)["raw_symbol"].to_list() == ["A", "C"]
        assert asked.markets(as_of=100 + 86_401)["raw_symbol"].to_list() == ["B", "C"]
    row = asked.markets().row(0, named=True)
    assert (row["factor"], row["renamed_to"], row["renamed_at"]) == (None, None, None)
