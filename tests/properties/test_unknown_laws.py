"""No sum of a set with an unknown member is a number: over lakes in which amounts are unknown here and there."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thorough import often
from tidytape import aggregate
from tidytape.analytics import cross
from tidytape.catalogue import DATA_TYPES
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.lake._tables import TABLES
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine
from tidytape.wire import decode, encode

MINUTE = 60 * 10**9
HOUR = 60 * MINUTE
T0 = 1_723_161_600 * 10**9  # 2024-08-09T00:00:00Z
HOURS = 3
MARKETS = "ABC"
CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"

few = settings(max_examples=often(3, thoroughly=30), deadline=None)
hours = st.integers(0, HOURS - 1)
known = st.booleans()
cells = st.dictionaries(st.tuples(st.sampled_from(MARKETS), hours), known, min_size=2)
"""Which market has a row in which hour, and whether the row says its amount."""


def filled(folder: str, candles: dict[tuple[str, int], bool]) -> Lake:
    """A lake of recorded candles, some without quote volume, with open interest and funding of the same markets.

    Market D has trades; nothing of it is unknown.
    """
    lake = Lake.create(Path(folder) / "lake")
    names = [{"exchange": name, "raw_symbol": "BTC", "coin": "BTC", "quote_coin": "USDT"} for name in "ABCD"]
    lake.writer().register(pl.DataFrame(names).with_columns(category=pl.lit("PERPETUAL"), block_size=1.0))
    rows = [
        {
            "exchange": name, "raw_symbol": "BTC", "timestamp": T0 + hour * HOUR, "interval": HOUR,
            "open": 100.0, "high": 101.0, "low": 99.0, "close": 100.0,
            "volume": 2.0, "quote_volume": 200.0 if is_known else None,
        }
        for (name, hour), is_known in candles.items()
    ]  # fmt: skip
    lake.writer().append(
        "candles", TABLES["candles"].conform(pl.DataFrame(rows, infer_schema_length=None)), source="c"
    )
    events: dict[str, list[dict[str, object]]] = {
        "trades": [],
        "liquidations": [],
        "open_interest": [],
        "funding": [],
    }
    for hour in range(HOURS):
        time = T0 + hour * HOUR + MINUTE
        one = {"exchange": "D", "raw_symbol": "BTC", "timestamp": time, "sequence": hour, "id": str(hour)}
        trade = one | {"side": "BUY", "price": 100.0, "amount": 1.0, "quote_amount": 100.0}
        events["trades"].append(trade)
        events["liquidations"].append(trade)
    for name, hour in [*candles, *(("D", hour) for hour in range(HOURS))]:
        one = {"exchange": name, "raw_symbol": "BTC", "timestamp": T0 + hour * HOUR + MINUTE}
        events["open_interest"].append(one | {"amount": 5.0})
        events["funding"].append(one | {"rate": 0.01})
    for table, found in events.items():
        lake.writer().append(table, TABLES[table].conform(pl.DataFrame(found)), source=table)
    return lake


def answered(lake: Lake, name: str, members: str, interval: str, **more: object) -> pl.DataFrame | None:
    """Return what the service answers, None where it refuses the question by name."""
    start = T0 // 10**9
    engine = Engine(lake, clock=lambda: T0 + 1_000 * HOUR)
    asked = {"exchange": list(members), "coin": "BTC", "interval": interval} | more
    try:
        query = PointsQuery(type=name, start=start, end=start + HOURS * 3600, **asked)
        ((_, frame),) = engine.frames(query, engine.markets(query))
    except QueryError:
        return None
    return frame


@pytest.mark.long
@few
@given(cells, st.sampled_from(["1h", "4h"]))
def test_no_answer_of_the_service_presents_a_part_as_the_whole(candles, interval):
    length = int(interval[0])
    buckets: dict[tuple[str, int], list[bool]] = {}
    for (name, hour), is_known in candles.items():
        buckets.setdefault((name, hour // length), []).append(is_known)
    members = "".join(sorted({name for name, _ in candles})) + "D"
    seen = set()
    with TemporaryDirectory() as folder:
        lake = filled(folder, candles)
        for name, kind in DATA_TYPES.items():
            options = [{}, {"quote": "USD"}] if kind.usd else [{}]
            options += [{"group_by": str(kind.group_by)}] if kind.group_by else []
            options += [one | {"gapfill": True} for one in options] if kind.gapfill else []
            for one in options:
                frame = answered(lake, name, members, interval, **one)
                if frame is None:
                    continue
                seen.add(name)
                assert ("coverage" in frame.columns) == ("group_by" in one)
                body = decode(encode(frame, name), name)
                if "coverage" in frame.columns and frame.height:
                    assert body["coverage"].to_list() == frame["coverage"].to_list()
                    assert frame["coverage"].drop_nulls().is_between(0, 1).all()
                if name != CANDLES:
                    continue
                hour = (pl.col("timestamp").dt.epoch("ns") - T0) // (length * HOUR)
                for row in frame.with_columns(bucket=hour).to_dicts():
                    here = [row["exchange"]] if "group_by" not in one else list(MARKETS)
                    says = [buckets.get((member, row["bucket"])) for member in here]
                    parts = [all(part) for part in says if part is not None]
                    in_usd = "quote" in one or "group_by" in one
                    unknown = in_usd and not all(parts)
                    assert (row["volume"] is None) == unknown, (one, row, candles)
                    if "group_by" in one:
                        own = [*parts, True]  # D's trades
                        assert row["coverage"] == pytest.approx(sum(own) / len(own))
                    assert (row["high"], row["low"]) in ((101.0, 99.0), (100.0, 100.0))  # known all the same
                    # A recorded candle does not say when its last trade was: nobody knows who closed the group.
                    told = "group_by" not in one or not parts
                    assert row["close"] == (100.0 if told else None)
    assert {CANDLES, "TRADE_AGG", "OPEN_INTEREST_AGG", "FUNDING_RATE_AGG", "LIQUIDATION_AGG"} <= seen
    assert {"VOLUME_PROFILE_AGG", "TPO_AGG"} <= seen


members = st.dictionaries(
    st.tuples(st.sampled_from(MARKETS), hours),
    st.none() | st.floats(0, 1e6) | st.sampled_from([float("nan"), float("inf")]),
    min_size=1,
)


def frames(values: dict[tuple[str, int], float | None]) -> list[object]:
    """The rows of markets in polars, pandas and DuckDB."""
    frame = pl.DataFrame(
        {
            "exchange": [name for name, _ in values],
            "raw_symbol": "X",
            "timestamp": [hour * HOUR for _, hour in values],
            **{name: [100.0] * len(values) for name in ("open", "high", "low", "close")},
            **{f"{end}_timestamp": [hour * HOUR for _, hour in values] for end in ("first", "last")},
            "volume": pl.Series(list(values.values()), dtype=pl.Float64, strict=False),
        }
    )
    return [frame, frame.to_pandas(), duckdb.connect().from_arrow(frame.to_arrow())]


def said(value: float | None) -> bool:
    """Return whether a value is a number."""
    return value is not None and isfinite(value)


def polars(native: object) -> pl.DataFrame:
    if isinstance(native, pl.DataFrame):
        return native
    return pl.from_pandas(native) if hasattr(native, "iloc") else native.pl()


@pytest.mark.slow
@few
@given(members)
def test_no_function_presents_a_part_as_the_whole_on_any_engine(values):
    groups: dict[int, list[bool]] = {}
    for (_, hour), value in values.items():
        groups.setdefault(hour, []).append(said(value))
    wanted = {hour * HOUR: (all(each), sum(each) / len(each)) for hour, each in groups.items()}
    for frame in frames(values):
        for call, column in (
            (lambda one: cross.total(one, amount="volume"), "volume"),
            (cross.consolidated, "volume"),
            (lambda one: aggregate.group(one, data_type=CANDLES), "volume"),
        ):
            got = polars(call(frame)).with_columns(pl.col(column, "coverage").fill_nan(None))
            for row in got.to_dicts():
                is_known, share = wanted[row["timestamp"]]
                assert (row[column] is not None) == is_known
                assert row["coverage"] == pytest.approx(share)
        coarse = polars(aggregate.resample(frame, data_type=CANDLES, interval="1w")).fill_nan(None)
        by_market = {name: [v for (own, _), v in values.items() if own == name] for name in MARKETS}
        for row in coarse.to_dicts():
            known_rows = [said(value) for value in by_market[row["exchange"]]]
            assert (row["volume"] is not None) == all(known_rows)
            assert row["coverage"] == pytest.approx(sum(known_rows) / len(known_rows))
        shares = polars(cross.market_share(frame, amount="volume")).with_columns(
            pl.col("share").fill_nan(None)
        )
        for row in shares.to_dicts():
            assert row["share"] is None or wanted[row["timestamp"]][0]
