"""Points in memory: the same bytes as without, never older than the lake, never more than their bound.

The law of each answer holds for JSON and for both forms of Arrow.
"""

from __future__ import annotations

import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakes import empty_lake
from tidytape.catalogue import Interval
from tidytape.errors import LakeError, QueryError
from tidytape.lake import Lake
from tidytape.lake._recent import Recent
from tidytape.lake.rollup import rollup
from tidytape.query import PointsQuery
from tidytape.service.answer import _hot as hot
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._scan import Limits
from tidytape.times import DAY, MINUTE, SECOND
from tidytape.wire import from_arrow, to_arrow
from tidytape.wire._arrow import ARROW_MIME, ONCE_MIME
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._encode import encode_all
from tidytape.wire._sessions import row_count

FIRST = 1_722_988_800  # 2024-08-07T00:00:00Z
DAYS = 3
MARKET = {"exchange": "X", "raw_symbol": "BTC"}
TYPES = ("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "OPEN_INTEREST_AGG", "FUNDING_RATE_AGG", "LIQUIDATION_AGG")
PROFILES = ("VOLUME_PROFILE_AGG", "TPO_AGG")


def trades(minutes: list[int], *, mark: str = "", price: float = 100.0) -> pl.DataFrame:
    """Return a trade in each of some minutes, counted from the first day's begin."""
    return pl.DataFrame(
        {
            "id": [f"{mark}{number}" for number in minutes],
            "timestamp": [FIRST * SECOND + number * MINUTE + 7 for number in minutes],
            "sequence": minutes,
            "side": ["SELL" if number % 3 else "BUY" for number in minutes],
            "price": [price + number % 7 for number in minutes],
            "amount": 0.5,
            "quote_amount": [(price + number % 7) / 2 for number in minutes],
        }
    ).with_columns(pl.lit(value).alias(name) for name, value in MARKET.items())


def filled(folder: Path) -> Lake:
    """Return a lake of some days of trades, open interest and funding, with holes, and all but the last rolled up."""
    lake = empty_lake(folder)
    named = {
        **MARKET,
        "normalized_symbol": "BTC-USDT",
        "coin": "BTC",
        "quote_coin": "USDT",
        "category": "PERPETUAL",
    }
    lake.writer().register(pl.DataFrame([{**named, "block_size": 1.0}]))
    draw = np.random.default_rng(3)
    for day in range(DAYS):
        traded = sorted(draw.choice(1_440, 700, replace=False) + day * 1_440)
        lake.writer().append("trades", trades([int(one) for one in traded]), source=f"trades {day}")
        minutes = np.sort(draw.choice(1_440, 300, replace=False)) + day * 1_440
        reports = pl.DataFrame({"timestamp": FIRST * SECOND + minutes * MINUTE}).with_columns(
            pl.lit(value).alias(name) for name, value in MARKET.items()
        )
        amount = pl.Series("amount", draw.random(300))
        lake.writer().append(
            "open_interest", reports.with_columns(amount, quote_amount=amount * 100), source=f"interest {day}"
        )
        rates = {
            "rate": draw.normal(0, 1e-4, 300),
            "predicted_rate": [None, 1e-4] * 150,
            "funding_interval": [8 * 3_600 * SECOND] * 300,
        }
        lake.writer().append(
            "funding", reports.with_columns(**{k: pl.Series(v) for k, v in rates.items()}), source=f"f {day}"
        )
        forced = trades([int(one) for one in minutes], mark="forced")
        lake.writer().append("liquidations", forced, source=f"liquidations {day}")
        if day < DAYS - 1:
            rollup(lake, progress=False)
    return lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return filled(tmp_path_factory.mktemp("hot") / "lake")


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test with nothing in memory."""
    monkeypatch.setattr(hot, "FRAMES", Recent[Any, Any](2**24))
    monkeypatch.setattr(hot, "TEXTS", Recent[Any, Any](2**24))


def engine(lake: Lake) -> Engine:
    return Engine(lake, clock=lambda: (FIRST + 30 * 86_400) * SECOND)


def query(name: str = TYPES[0], first: int = 0, last: int = 1_440, **more: Any) -> PointsQuery:
    """Return a query from one minute to another."""
    window = {"start": FIRST + 60 * first, "end": FIRST + 60 * last}
    return PointsQuery(**{"type": name, **MARKET, "interval": "1m", **window, **more})


def cold(lake: Lake, asked: PointsQuery) -> tuple[pl.DataFrame, bytes]:
    """Return the answer of an engine that keeps nothing in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hot, "_are_alone", lambda *_: False)
        own = engine(lake)
        markets = own.markets(asked)
        assert own.body(asked, markets) is None
        ((_, frame),) = frames = own.frames(asked, markets)
        return frame, encode_all(frames, own.notes(asked, markets, frames))


def warm(lake: Lake, asked: PointsQuery) -> tuple[pl.DataFrame, tuple[bytes, int] | None]:
    own = engine(lake)
    markets = own.markets(asked)
    return own.frames(asked, markets)[0][1], own.body(asked, markets)


def require_same(lake: Lake, asked: PointsQuery) -> None:
    """Require that an answer is the same with and without memory, filled or to be filled, as a frame and as JSON."""
    frame, body = cold(lake, asked)
    in_memory = frame.height and not (asked.quote and asked.type == ("OPEN_INTEREST_AGG",))
    for _ in range(2):
        hot_frame, hot_body = warm(lake, asked)
        assert hot_frame.equals(frame)
        assert hot_frame.schema == frame.schema
        assert hot_body == ((body, row_count(frame)) if in_memory else None)
        require_same_arrow(lake, asked, frame, in_memory=bool(in_memory))


def require_same_arrow(lake: Lake, asked: PointsQuery, frame: pl.DataFrame, *, in_memory: bool) -> None:
    """Require that an answer in Arrow is what the frame makes, columns and metadata, and is read as the same frame."""
    own = engine(lake)
    markets, (name,) = own.markets(asked), asked.type
    notes = own.notes(asked, markets, [(name, frame)])
    read = from_arrow(to_arrow(frame, name, notes), name)
    for form in (ARROW_MIME, ONCE_MIME):
        hot_body = own.body(asked, markets, form=form)
        if not in_memory:
            assert hot_body is None
            continue
        assert hot_body is not None
        assert hot_body[1] == row_count(frame)
        body = to_arrow(frame, name, notes, constants_once=form == ONCE_MIME)
        assert table(hot_body[0]).equals(table(body), check_metadata=True)
        assert from_arrow(hot_body[0], name).equals(read)
        assert from_arrow(hot_body[0], name).schema == read.schema


def table(body: bytes) -> Any:
    with pa.ipc.open_stream(body) as reader:
        return reader.read_all()


FIRSTS, LENGTHS = st.integers(-1_600, (DAYS + 1) * 1_440), st.integers(1, 3_000)


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.sampled_from(TYPES),
    FIRSTS,
    LENGTHS,
    st.sampled_from([str(one) for one in Interval]),
    st.sampled_from([None, "USD"]),
    st.sampled_from([None, None, "BUY", "SELL"]),
)
def test_any_answer_has_the_bytes_that_it_has_without_memory(
    lake: Lake, name: str, first: int, length: int, interval: str, quote: str | None, side: str | None
) -> None:
    quote = None if name == "FUNDING_RATE_AGG" else quote  # a rate has no unit
    require_same(lake, query(name, first, first + length, interval=interval, quote=quote, side=side))


@pytest.mark.slow
@settings(max_examples=6)
@given(
    st.sampled_from(PROFILES),
    FIRSTS,
    st.integers(1, 1_500),
    st.sampled_from(["5m", "1h", "1d"]),
    st.sampled_from([None, "USD"]),
    st.sampled_from([None, 2, 0.5]),
)
def test_any_profile_has_the_bytes_that_it_has_without_memory(
    lake: Lake, name: str, first: int, length: int, interval: str, quote: str | None, size: float | None
) -> None:
    require_same(lake, query(name, first, first + length, interval=interval, quote=quote, block_size=size))


@pytest.mark.slow
@given(
    st.sampled_from([*TYPES, *PROFILES]),
    FIRSTS,
    LENGTHS,
    st.sampled_from([str(one) for one in Interval]),
    st.sampled_from([None, "USD"]),
)
def test_many_answers_have_the_bytes_that_they_have_without_memory(
    lake: Lake, name: str, first: int, length: int, interval: str, quote: str | None
) -> None:
    quote = None if name == "FUNDING_RATE_AGG" else quote
    require_same(lake, query(name, first, first + length, interval=interval, quote=quote))


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [30, 60])
def test_market_profiles_of_each_block_are_their_own(lake: Lake, minutes: int) -> None:
    require_same(lake, query("TPO_AGG", interval="1d", tpo_block_minutes=minutes))


@pytest.mark.slow
def test_funding_of_each_interval_is_its_own(lake: Lake) -> None:
    hourly = query("FUNDING_RATE_AGG", funding_interval="1h")
    for asked in (query("FUNDING_RATE_AGG"), hourly, query("FUNDING_RATE_AGG")):
        assert warm(lake, asked)[1] == (cold(lake, asked)[1], 300)


@pytest.mark.parametrize(
    "more",
    [
        {"sort_direction": "desc"},
        {"gapfill": True},
        {"group_by": "sum", "coin": "BTC", "raw_symbol": ()},
        {"type": "TPO_AGG", "interval": "1h", "tpo_session": "daily"},
        {"type": ["TRADE_SIDE_AGNOSTIC_AGG", "OPEN_INTEREST_AGG"]},
    ],
)
def test_what_depends_on_more_than_its_own_interval_is_computed(lake: Lake, more: dict[str, Any]) -> None:
    asked = query(**more)
    own = engine(lake)
    own.frames(asked, own.markets(asked))
    for form in (JSON_MIME, ARROW_MIME, ONCE_MIME):
        assert own.body(asked, own.markets(asked), form=form) is None or "type" in more
    assert hot.TEXTS.size == 0


@pytest.mark.slow
def test_what_is_in_memory_is_not_read_again(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    expected = cold(lake, query(last=2 * 1_440))[1], 1_400
    markets = engine(lake).markets(query())
    assert warm(lake, query(last=2 * 1_440))[1] == expected
    for file in (tmp_path / "lake").rglob("*.parquet"):
        if "_delta_log" not in str(file):
            file.unlink()
    asked = query(last=2 * 1_440)
    assert engine(lake).body(asked, markets) == expected


@pytest.mark.slow
def test_an_answer_is_never_older_than_the_lake(tmp_path: Path) -> None:
    """Late trades, a rollup of them, new days, and a compaction: the next answer has each of them."""
    from tidytape.lake.hygiene import compact

    lake = filled(tmp_path / "lake")
    asked = query(last=(DAYS + 1) * 1_440)

    def require_same() -> int:
        frame, body = cold(lake, asked)
        assert warm(lake, asked)[1] == (body, frame.height)
        assert warm(lake, asked)[0].equals(frame)
        require_same_arrow(lake, asked, frame, in_memory=True)
        return frame.height

    before = require_same()
    missing = sorted(
        set(range(1_440)) - set(warm(lake, query())[0]["timestamp"].dt.epoch("s") // 60 - FIRST // 60)
    )
    lake.writer().append("trades", trades(missing[:3], mark="late"), source="late")
    assert require_same() == before + 3
    rollup(lake, progress=False)
    assert require_same() == before + 3
    lake.writer().append("trades", trades([DAYS * 1_440 + 5], mark="next"), source="next")
    assert require_same() == before + 4
    compact(lake, progress=False)
    assert require_same() == before + 4


@pytest.mark.slow
def test_today_leaves_yesterday_in_memory(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    warm(lake, query(last=(DAYS + 1) * 1_440))
    kept = set(hot.TEXTS._values)
    lake.writer().append("trades", trades([DAYS * 1_440 + 5], mark="next"), source="next")
    warm(lake, query(last=(DAYS + 1) * 1_440))
    new = set(hot.TEXTS._values) - kept
    assert {key.start for key in new} == {FIRST * SECOND + DAYS * DAY}


@pytest.mark.slow
def test_a_lake_of_another_place_is_another(tmp_path: Path) -> None:
    one, other = empty_lake(tmp_path / "one"), empty_lake(tmp_path / "other")
    for lake, price in ((one, 100.0), (other, 300.0)):
        lake.writer().register(pl.DataFrame([{**MARKET, "coin": "BTC", "quote_coin": "USDT"}]))
        lake.writer().append("trades", trades([1, 2], price=price), source="a")
    assert [warm(lake, query())[0]["open"][0] for lake in (one, other, one)] == [101.0, 301.0, 101.0]


def test_a_long_window_and_many_rows_are_computed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "_MOST_POINTS", 100)
    assert warm(lake, query())[1] is None
    monkeypatch.setattr(hot, "_MOST_POINTS", 10_000)
    monkeypatch.setattr("tidytape.service.answer._estimate._SMALL", 100)
    assert warm(lake, query())[1] is None
    assert hot.FRAMES.size == 0
    monkeypatch.setattr("tidytape.service.answer._estimate._SMALL", 250_000)
    assert warm(lake, query("VOLUME_PROFILE_AGG", last=180, interval="1h"))[1] is not None
    for most in ("_MOST_SPANS", "_MOST_FILES"):
        with monkeypatch.context() as patch:
            patch.setattr(hot, most, 2)
            patch.setattr(hot, "FRAMES", Recent[Any, Any](2**24))
            assert warm(lake, query("VOLUME_PROFILE_AGG", last=180, interval="1h"))[1] is None
            assert hot.FRAMES.size == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TRADE_SIDE_AGNOSTIC_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG"])
def test_points_are_kept_also_where_no_statistics_bound_their_rows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A rollup puts all levels of a market into one file, whose rows bound those of a window badly."""
    monkeypatch.setattr("tidytape.service.answer._estimate._most", lambda *_: math.inf)
    require_same(lake, query(name, interval="1d"))


def test_what_is_refused_is_refused_with_memory_too(lake: Lake) -> None:
    asked = query("TPO_AGG", interval="1d")
    own = Engine(lake, limits=Limits(rows=None, made=40))
    with pytest.raises(QueryError, match="block_size"):
        own.frames(asked, own.markets(asked))
    assert own.body(asked, own.markets(asked)) is None


@pytest.mark.slow
def test_answers_are_right_where_the_memory_holds_almost_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot, "FRAMES", Recent[Any, Any](60_000))
    monkeypatch.setattr(hot, "TEXTS", Recent[Any, Any](120_000))
    windows = [query(first=first, last=first + 1_500) for first in range(0, 3_000, 250)]
    expected = [cold(lake, asked)[1] for asked in windows]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda asked: warm(lake, asked)[1], windows * 3))
    assert [body for body, _ in found if body] == expected * 3  # type: ignore[misc]
    assert hot.TEXTS.size <= 120_000
    assert hot.FRAMES.size <= 60_000


def test_a_part_of_many_points_holds_no_more_memory_than_its_own(lake: Lake) -> None:
    warm(lake, query(last=DAYS * 1_440))
    for key, (one, size) in hot.TEXTS._values.items():
        assert len(one.points.text) <= size, key
        assert one.points.bounds[-1] == len(one.points.text)
    for frame, size in hot.FRAMES._values.values():
        assert frame.points.rechunk().estimated_size() <= size


@pytest.mark.slow
def test_a_lake_that_was_removed_or_made_anew_is_seen_at_once(tmp_path: Path) -> None:
    def made(commits: int, price: float) -> None:
        lake = empty_lake(tmp_path / "lake")
        lake.writer().register(pl.DataFrame([{**MARKET, "coin": "BTC", "quote_coin": "USDT"}]))
        for number in range(commits):
            lake.writer().append(
                "trades", trades([number], mark=str(number), price=price), source=str(number)
            )

    made(3, 100.0)
    reader = Lake(tmp_path / "lake")
    assert warm(reader, query())[0]["open"].to_list() == [100.0, 101.0, 102.0]
    shutil.rmtree(tmp_path / "lake")
    with pytest.raises(LakeError):
        warm(reader, query())
    for commits in (2, 3):
        shutil.rmtree(tmp_path / "lake", ignore_errors=True)
        made(commits, 100.0 * commits)
        found = warm(reader, query())[0]["open"].to_list()
        assert found == [100.0 * commits + number for number in range(commits)]


@pytest.mark.slow
def test_names_of_files_and_frames_without_rows_count_as_memory(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    for number in range(40):
        lake.writer().append("trades", trades([DAYS * 1_440 + number], mark="live"), source=f"live {number}")
    warm(lake, query(first=DAYS * 1_440, last=(DAYS + 1) * 1_440))
    for kept in (hot.TEXTS, hot.FRAMES):
        ((key, (_, size)),) = kept._values.items()
        assert len(key.files) == 40
        assert size > sum(map(len, key.files)) + 1_024
    kept_spans = [*hot.FRAMES._values]
    warm(lake, query(first=-5_000, last=-4_999))  # a span without files has no points, and takes no memory
    assert [*hot.FRAMES._values] == kept_spans


def test_spans_without_events_are_not_computed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "FRAMES", Recent(2**20))
    monkeypatch.setattr(hot, "_computed", lambda *_: pytest.fail("a span without events was computed"))
    asked, engine = query(first=-50_000, last=-2_000), Engine(lake)
    ((_, frame),) = engine.frames(asked, engine.markets(asked))
    assert frame.is_empty()
    assert frame.width > 10
