"""`describe`: what there is per market and data type, of our service and of one that only lists its markets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

import tidytape
from simulated.everything import everything
from tidytape.errors import DecodeError, QueryError, RefusedQueryError, ServerError
from tidytape.lake import Lake
from tidytape.lake._tables import TRADES
from tidytape.schema import HOLDINGS
from tidytape.service.answer._holdings import described
from tidytape.service.answer._inventory import holdings
from tidytape.wire._holdings import decode_holdings, encode_holdings

BEGIN = datetime(2024, 8, 7, tzinfo=UTC)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(everything(tmp_path_factory.mktemp("held") / "lake").path)


def test_a_lake_is_described_market_by_market_and_type_by_type(lake: Path) -> None:
    with tidytape.Client.local(lake) as client:
        frame = client.describe()
    assert dict(frame.schema) == HOLDINGS.polars()
    assert frame.equals(described(Lake(lake)))
    assert not frame.select(HOLDINGS.key).is_duplicated().any()
    known = holdings(Lake(lake))
    names = ["type", "exchange", "coin"]
    assert frame.select(names).sort(names).equals(known.select(names).sort(names))
    times = frame.select(*names, "first_timestamp", "last_timestamp").sort(pl.all())
    ns = pl.Datetime("ns", "UTC")
    assert times.rows() == known.select(*names, pl.col("first", "last").cast(ns)).sort(pl.all()).rows()


def test_filters_leave_rows_out(lake: Path) -> None:
    with tidytape.Client.local(lake) as client:
        whole = client.describe()
        only = client.describe(type=["TRADE", "TPO_AGG"], exchange="X", raw_symbol="BTCUSDT")
        with pytest.raises(RefusedQueryError, match="type: got 'TRADES'"):
            client.describe(type="TRADES")
    market = (pl.col("exchange") == "X") & (pl.col("raw_symbol") == "BTCUSDT")
    assert only.equals(whole.filter(market, pl.col("type").is_in(["TRADE", "TPO_AGG"])))
    assert only.height == 2


def test_it_comes_as_pandas(lake: Path) -> None:
    with tidytape.Client.local(lake, backend="pandas") as client:
        frame = client.describe()
    assert str(frame["longest_gap"].dtype) == "timedelta64[ns]"
    assert str(frame["first_timestamp"].dtype) == "datetime64[ns, UTC]"
    assert set(frame.columns) == set(HOLDINGS.names)


def test_it_comes_in_asyncio(lake: Path) -> None:
    async def fetched() -> pl.DataFrame:
        async with tidytape.AsyncClient.local(lake) as client:
            return await client.describe()

    assert asyncio.run(fetched()).equals(described(Lake(lake)))


def test_it_replays_from_a_tape(lake: Path, tmp_path: Path) -> None:
    with tidytape.Client.local(lake) as client, client.record(tmp_path / "study.tape"):
        frame = client.describe(coin="BTC")
    with tidytape.Client.replay(tmp_path / "study.tape") as replayed:
        assert replayed.describe(coin="BTC").equals(frame)


def test_a_lake_that_grows_is_described_anew(tmp_path: Path) -> None:
    def trades(*hours: int) -> pl.DataFrame:
        start = int(BEGIN.timestamp()) * 10**9
        times = [start + hour * 3_600 * 10**9 for hour in hours]
        return TRADES.conform(
            pl.DataFrame({"timestamp": times, "sequence": times, "id": list(map(str, hours))}).with_columns(
                exchange=pl.lit("X"), raw_symbol=pl.lit("BTCUSDT"), side=pl.lit("BUY"), price=1.0, amount=1.0,
                quote_amount=1.0,
            )
        )  # fmt: skip

    lake = Lake.create(tmp_path / "lake")
    lake.writer().append("trades", trades(*range(30)), source="a")
    with tidytape.Client.local(lake.path) as client:
        assert client.describe(type="TRADE")["gaps"].to_list() == [0]
        lake.writer().append("trades", trades(100), source="b")
        row = client.describe(type="TRADE").row(0, named=True)
    assert (row["rows"], row["gaps"], row["longest_gap"]) == (31, 1, timedelta(hours=71))
    assert row["gap_starts"] == [BEGIN + timedelta(hours=29)]
    assert row["gap_ends"] == [row["last_timestamp"]] == [BEGIN + timedelta(hours=100)]


# --- a service that has no such route ---


class Plain(httpx.BaseTransport):
    """A service of the contract alone."""

    def __init__(self, refusal: httpx.Response) -> None:
        self.refusal = refusal
        self.paths: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        self.paths.append(request.url.path)
        asked = request.url.params
        if request.url.path == "/v1/types":
            return httpx.Response(200, json={"types": ["TRADE", "TOKEN_SUPPLY_AGG"]})
        if request.url.path == "/v1/coins":
            return httpx.Response(200, json={"coins": ["BTC"]})
        if request.url.path == "/v1/markets":
            market = {"exchange": "X", "rawSymbol": "BTCUSDT", "category": "SPOT", "coin": "BTC",
                      "availableSince": {"s": 60}}  # fmt: skip
            symbols = [market] if asked["type"] == "TRADE" and "pageOffset" not in asked else []
            return httpx.Response(200, json={"symbols": symbols, "nextOffset": len(symbols)})
        return self.refusal


@pytest.mark.parametrize(
    "refusal",
    [httpx.Response(404), httpx.Response(401, json={"error": "X", "message": "no"}), httpx.Response(405),
     httpx.Response(200, text="<html>hello</html>"), httpx.Response(200, json={"a": 1})],
    ids=["404", "401", "405", "page", "other"],
)  # fmt: skip
def test_another_service_lists_its_markets_and_knows_no_times(client: Any, refusal: httpx.Response) -> None:
    with client(Plain(refusal)) as asking:
        frame = asking.describe()
        assert asking.describe(raw_symbol="ETHUSDT", type="TRADE").is_empty()
    assert dict(frame.schema) == HOLDINGS.polars()
    assert frame.select("exchange", "raw_symbol", "type", "coin").rows() == [
        ("X", "BTCUSDT", "TRADE", "BTC"),
        (None, None, "TOKEN_SUPPLY_AGG", "BTC"),
    ]
    assert frame["available_since"].to_list() == [datetime(1970, 1, 1, 0, 1, tzinfo=UTC), None]
    unknown = frame.select(
        "first_timestamp", "last_timestamp", "rows", "gaps", "bytes", "gap_starts", "gaps_from"
    )
    assert unknown.null_count().row(0) == (2,) * 7


def test_a_service_that_fails_is_not_another_service(client: Any) -> None:
    with client(
        Plain(httpx.Response(503, json={"error": "UNAVAILABLE", "message": "no"})), attempts=1
    ) as asking:
        with pytest.raises(ServerError):
            asking.describe()
        with pytest.raises(QueryError, match="exchange"):
            asking.describe(exchange="a\nb")


# --- the body ---


def test_a_body_gives_the_frame_again(lake: Path) -> None:
    frame = described(Lake(lake))
    assert decode_holdings(encode_holdings(frame)).equals(frame)
    assert decode_holdings(encode_holdings(HOLDINGS.empty())).equals(HOLDINGS.empty())


@pytest.mark.parametrize(
    "entry",
    [b"1", b"{}", b'{"type": 1}', b'{"type": "T", "rows": "x"}', b'{"type": "T", "firstTimestamp": 5}',
     b'{"type": "T", "gapStarts": {"s": 1}}', b'{"type": "T", "gapEnds": [1]}', b'{"type": "T", "quiet": 1.5}'],
)  # fmt: skip
def test_a_body_that_is_none_is_refused(entry: bytes) -> None:
    with pytest.raises(DecodeError, match="HOLDINGS: entry 0"):
        decode_holdings(b'{"holdings": [' + entry + b"]}")
