"""Quality: every defect put into clean frames is found, and nothing else; what is truly in recorded data."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import tidytape
from engines import Engine
from tidytape.analytics import quality
from tidytape.errors import MissingColumnError, QueryError

PERP = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP"}
DAY = {"start": "2024-08-08", "end": "2024-08-09"}
START = datetime(2024, 8, 8, tzinfo=UTC)
FIVE = timedelta(minutes=5)


@pytest.fixture(scope="module")
def client() -> tidytape.Client:
    return tidytape.Client.demo()


@pytest.fixture(scope="module")
def candles(client: tidytape.Client) -> pl.DataFrame:
    """A day of five minutes, of two venues: 576 rows, nothing wrong."""
    return client.candles(exchange=["DEMO_PERP", "DEMO_SPOT"], coin="BTC", interval="5m", **DAY)


def with_value(frame: pl.DataFrame, rows: int | list[int], **values: Any) -> pl.DataFrame:
    """The frame with other values in some rows."""
    chosen = pl.int_range(pl.len()).is_in([rows] if isinstance(rows, int) else rows)
    return frame.with_columns(
        pl.when(chosen)
        .then(value if isinstance(value, pl.Expr) else pl.lit(value))
        .otherwise(name)
        .alias(name)
        for name, value in values.items()
    )


def found(frame: Any, **arguments: Any) -> list[tuple]:
    """The findings: venue, what, how many, and from which five minutes of the day to which."""
    findings = quality.audit(frame, **arguments)
    place = ((pl.col("first", "last") - START) / FIVE).cast(pl.Float64)
    return findings.select(pl.col("exchange").cast(pl.String), "finding", "count", place).rows()


# --- clean frames ---------------------------------------------------------------------------------------------------


HOURLY = {"interval": "1h", **DAY}
CALM = {"start": "2024-08-08", "end": "2024-08-08T10:00"}  # before the price falls
BETWEEN_EXPIRIES = {"start": "2024-08-07T08:00", "end": "2024-08-08T08:00"}
OPTIONS = {"exchange": "DEMO_OPTIONS", "coin": "BTC"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ("candles", {**PERP, **DAY, "interval": "5m"}),
        ("candles", {**PERP, **CALM, "interval": "1m", "gapfill": True}),
        ("candles", {**PERP, **DAY, "interval": "5m", "by_side": True}),
        ("trades", {**PERP, "start": "2024-08-08", "end": "2024-08-08T03:00"}),
        ("open_interest", {**PERP, **CALM, "interval": "1m"}),
        ("funding", {**PERP, **DAY, "interval": "1m"}),
        ("liquidations", {**PERP, **DAY, "interval": "1m"}),
        ("volume_profile", {**PERP, **HOURLY, "block_size": 100}),
        ("tpo", {**PERP, **HOURLY, "session": "daily", "block_minutes": 30, "block_size": 100}),
        ("book_heatmap", {**PERP, **HOURLY, "block_size": 100}),
        ("liquidation_heatmap", {"exchange": "DEMO_PERP", "coin": "BTC", **HOURLY}),
        ("implied_volatility", {**OPTIONS, **HOURLY}),
        ("option_open_interest", {**OPTIONS, "interval": "1h", **BETWEEN_EXPIRIES}),
        ("cme_open_interest", {"exchange": "DEMO_CME", "coin": "BTC", **HOURLY}),
        ("token_supply", {"token_name": "Bitcoin", **HOURLY}),
    ],
)
def test_clean_frames_have_no_findings(client: tidytape.Client, method: str, asked: dict[str, Any]) -> None:
    frame = getattr(client, method)(**asked)
    assert len(frame) > 20
    assert quality.audit(frame).rows() == []


@pytest.mark.slow
def test_no_findings_have_the_columns_of_findings(candles: pl.DataFrame) -> None:
    empty = quality.audit(candles)
    full = quality.audit(with_value(candles, 5, volume=-1.0))
    assert empty.schema == full.schema
    assert "finding" in empty.columns
    assert empty.columns[-4:] == ["severity", "count", "first", "last"]


# --- one defect at a time -------------------------------------------------------------------------------------------

AT = 40  # a row of the perpetual; those of the spot market begin at 288


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda f: with_value(f, AT, timestamp=None), [("missing_bucket", 1, 40, 40), ("missing_time", 1, None, None)]),
        (lambda f: with_value(f, AT, volume=float("inf")), [("infinite_value", 1, 40, 40)]),
        (lambda f: with_value(f, AT, low=float("-inf")), [("infinite_value", 1, 40, 40)]),
        (lambda f: with_value(f, AT, volume=float("nan")), [("unknown_value", 1, 40, 40)]),
        (lambda f: with_value(f, [AT, 50], close=None), [("unknown_value", 2, 40, 50)]),
        (lambda f: with_value(f, AT, volume=-1e-9), [("negative_amount", 1, 40, 40)]),
        (lambda f: with_value(f, AT, high=pl.col("low"), low=pl.col("high")), [("inconsistent_ohlc", 1, 40, 40)]),
        (lambda f: with_value(f, [AT, 41], high=pl.col("open") * 0.999), [("inconsistent_ohlc", 2, 40, 41)]),
        (lambda f: with_value(f, AT, low=pl.col("close") * 1.001), [("inconsistent_ohlc", 1, 40, 40)]),
        (lambda f: f.filter(~pl.int_range(pl.len()).is_between(40, 46)), [("missing_bucket", 7, 40, 46)]),
        (lambda f: f.filter(~pl.int_range(pl.len()).is_in([40, 44])), [("missing_bucket", 2, 40, 44)]),
        (lambda f: with_value(f, AT, timestamp=pl.col("timestamp") + FIVE / 5), [("misaligned", 1, 40.2, 40.2)]),
        (lambda f: pl.concat([f.head(41), f[AT], f.tail(-41)]), [("duplicate", 2, 40, 40)]),
        (lambda f: pl.concat([f[40:41], f[:40], f[41:]]), [("unordered", 40, 0, 39)]),
        (lambda f: pl.concat([f[:40], f[41:42], f[40:41], f[42:]]), [("unordered", 1, 40, 40)]),
        (lambda f: f.filter(~pl.int_range(pl.len()).is_between(260, 287)), [("stale", 28, 260, 287)]),
        (lambda f: with_value(f, AT, close=pl.col("close") * 2, high=pl.col("high") * 2), [("outlier", 1, 40, 40)]),
        (lambda f: with_value(f, AT, close=pl.col("close") / 2, low=pl.col("low") / 2), [("outlier", 1, 40, 40)]),
        (lambda f: with_value(f, AT, close=0.0, low=0.0), [("outlier", 1, 40, 40)]),
        (
            lambda f: with_value(
                f, list(range(40, 288)), **{name: pl.col(name) * 100 for name in ("open", "high", "low", "close")}
            ),
            [("unit_jump", 1, 40, 40)],
        ),
        (lambda f: with_value(f, list(range(40, 60)), volume=pl.col("volume") * 59_000), [("unit_jump", 2, 40, 60)]),
        (lambda f: with_value(f, list(range(40, 60)), volume=pl.col("volume") / 59_000), [("unit_jump", 2, 40, 60)]),
        (
            lambda f: with_value(
                f, list(range(40, 60)), **dict.fromkeys(("open", "high", "low", "close"), f["close"][39])
            ),
            [("frozen_price", 20, 40, 59)],
        ),
    ],
)  # fmt: skip
def test_a_defect_is_found_and_nothing_else(
    candles: pl.DataFrame, change: Any, expected: list[tuple]
) -> None:
    assert found(change(candles)) == [
        ("DEMO_PERP", name, count, first, last) for name, count, first, last in expected
    ]


@pytest.mark.slow
def test_a_short_standstill_and_a_short_lag_are_nothing(candles: pl.DataFrame) -> None:
    still = with_value(
        candles, list(range(40, 51)), **dict.fromkeys(("open", "high", "low", "close"), candles["close"][39])
    )
    assert found(still) == []
    assert found(still, frozen=11) == [("DEMO_PERP", "frozen_price", 11, 40, 50)]
    late = candles.filter(~pl.int_range(pl.len()).is_between(285, 287))
    assert found(late) == []
    assert found(late, stale=2) == [("DEMO_PERP", "stale", 3, 285, 287)]


@pytest.mark.slow
def test_thresholds_decide(candles: pl.DataFrame) -> None:
    calm = candles.filter(pl.col("timestamp") < START + timedelta(hours=10))  # before the price falls
    jump = with_value(calm, 100, close=pl.col("close") * 1.01, high=pl.col("high") * 1.01)
    assert found(jump) == []
    assert found(jump, outlier=12) == [("DEMO_PERP", "outlier", 1, 100, 100)]
    tripled = with_value(candles, list(range(80, 288)), volume=pl.col("volume") * 8)
    assert found(tripled) == []
    assert ("DEMO_PERP", "unit_jump", 1, 80, 80) in found(tripled, unit_jump=2.5)


@pytest.mark.slow
def test_an_interval_that_is_none_is_found_and_an_alias_is_one(candles: pl.DataFrame) -> None:
    aliased = candles.with_columns(interval=pl.lit("5m"))
    assert found(aliased) == []
    odd = with_value(aliased, [40, 41], interval=pl.lit("fortnight"))
    assert found(odd, by=["exchange"]) == [("DEMO_PERP", "unknown_interval", 2, 40, 41)]
    holed = aliased.filter(pl.int_range(pl.len()) != 40)
    assert found(holed) == [("DEMO_PERP", "missing_bucket", 1, 40, 40)]


@pytest.mark.slow
def test_an_unknown_side_is_found(client: tidytape.Client) -> None:
    sides = client.candles(**PERP, interval="5m", by_side=True, **DAY)
    bad = sides.with_columns(pl.col("side").cast(pl.String))
    bad = pl.concat([bad, bad.head(20).with_columns(side=pl.lit("buy")), bad.head(9).with_columns(side=None)])
    findings = quality.audit(bad, checks="unknown_side")  # null is no fault: the source does not tell
    assert findings.select("side", "count", "severity").rows() == [("buy", 20, "error")]


def test_trades_are_named_by_their_ids(client: tidytape.Client) -> None:
    trades = client.trades(**PERP, start="2024-08-08", end="2024-08-08T01:00")
    assert quality.audit(pl.concat([trades, trades.slice(7, 1)]), checks="duplicate")["count"].to_list() == [
        2
    ]
    other = trades.slice(7, 1).with_columns(id=pl.lit("another"))
    assert quality.audit(pl.concat([trades, other]), checks="duplicate").is_empty()
    nameless = trades.slice(7, 1).with_columns(id=pl.lit(None, pl.String))
    assert quality.audit(pl.concat([trades, nameless, nameless]), checks="duplicate").is_empty()
    bad = with_value(with_value(trades, 5, price=float("nan")), 6, amount=-1.0)
    assert set(quality.audit(bad)["finding"]) == {"unknown_value", "negative_amount"}
    with pytest.raises(QueryError, match="frame of intervals"):
        quality.audit(trades, checks="missing_bucket")


@pytest.mark.slow
def test_levels_are_named_by_their_prices(client: tidytape.Client) -> None:
    profile = client.volume_profile(**PERP, interval="1h", block_size=100, **DAY)
    assert quality.audit(pl.concat([profile, profile.tail(1)])).select("finding", "count").rows() == [
        ("duplicate", 2)
    ]
    hole = profile.filter(pl.col("timestamp").dt.hour() != 5)
    assert quality.audit(hole).select("finding", "count").rows() == [("missing_bucket", 1)]


@pytest.mark.slow
def test_open_interest_cannot_be_below_zero_and_rates_can(client: tidytape.Client) -> None:
    interest = client.open_interest(**PERP, interval="5m", **CALM)
    bad = with_value(interest, 9, low=-1.0)
    assert quality.audit(bad).select("finding", "count").rows() == [("negative_amount", 1)]
    rates = client.funding(**PERP, interval="5m", **CALM)
    below = rates.with_columns(-pl.col("rate_open", "rate_close"), rate_low=-pl.col("rate_high"))
    assert quality.audit(below.with_columns(rate_high=-pl.col("rate_low").abs() * 0)).is_empty()
    bad = with_value(rates, 9, predicted_high=pl.col("predicted_low") - 1)
    assert quality.audit(bad).select("finding", "count").rows() == [("inconsistent_ohlc", 1)]


@pytest.mark.slow
def test_liquidations_are_sparse_and_their_gaps_only_asked_for(client: tidytape.Client) -> None:
    liquidations = client.liquidations(**PERP, interval="5m", **DAY)
    asked = quality.audit(liquidations, checks=["missing_bucket"])
    assert (
        asked["count"].to_list()
        == quality.gaps(liquidations)
        .group_by("side")
        .agg(pl.col("missing").sum())
        .sort(pl.col("side").cast(pl.String))["missing"]
        .to_list()
    )


@pytest.mark.slow
def test_a_rate_far_from_the_usual_is_an_outlier(client: tidytape.Client) -> None:
    funding = client.funding(**PERP, interval="1h", **DAY)
    rates = ("rate_open", "rate_high", "rate_low", "rate_close")
    for bad in (0.5, -0.5):
        assert found(with_value(funding, 7, **dict.fromkeys(rates, bad))) == [
            ("DEMO_PERP", "outlier", 1, 84, 84)
        ]
    predicted = dict.fromkeys((name.replace("rate", "predicted") for name in rates), 0.04)
    assert found(with_value(funding, [7, 8], **predicted)) == [("DEMO_PERP", "outlier", 2, 84, 96)]
    assert quality.audit(with_value(funding, 7, **dict.fromkeys(rates, 0.5)).head(19)).is_empty()


def test_recorded_rates_are_outliers_where_the_market_ran_hot(recorded: Path) -> None:
    with gzip.open(recorded / "lukmol_btc_funding_daily.csv.gz") as file:
        days = pl.read_csv(file).select(
            pl.col("date").str.to_datetime(time_zone="UTC").alias("timestamp"), rate_close="funding_mean"
        )
    extremes = quality.examples(days, finding="outlier", rows=100)
    # The bull market of early 2021, days of 2020 before it, and the crash of March 2020.
    assert extremes["timestamp"].dt.year().value_counts(sort=True).rows() == [(2021, 16), (2020, 3)]
    assert quality.examples(days, finding="outlier", rows=100, outlier=31).is_empty()


@pytest.mark.slow
def test_a_trade_far_from_its_hour_is_an_outlier(client: tidytape.Client) -> None:
    trades = client.trades(**PERP, **CALM)
    spoiled = with_value(trades, [100, 101, 102], price=pl.col("price") * 10)
    rows = quality.examples(spoiled, finding="outlier", rows=9)
    assert rows["id"].to_list() == trades["id"][100:103].to_list()
    assert set(quality.audit(spoiled)["finding"]) == {"outlier"}  # of the series of each side
    nothing = quality.examples(with_value(trades, 100, price=0.0), finding="outlier")
    assert nothing["id"].to_list() == [trades["id"][100]]


@pytest.mark.slow
def test_a_crossed_book_is_found(client: tidytape.Client) -> None:
    book = client.book_heatmap(**PERP, interval="1h", block_size=100, **DAY)
    best = {side: rows["price"] for (side,), rows in book.filter(timestamp=START).group_by("side")}
    # One block has the last of the bids and the first of the asks.
    assert best["BID"].max() == best["ASK"].min()
    assert found(book) == []
    is_moved = (pl.col("side") == "BID") & (pl.col("timestamp") < START + 2 * 12 * FIVE)
    raised = book.with_columns(price=pl.col("price") + pl.when(is_moved).then(200.0).otherwise(0.0))
    findings = quality.audit(raised)
    assert findings.select(pl.col("side").cast(pl.String), "finding", "severity", "count", "first", "last").rows() == [
        ("ASK", "crossed_book", "warning", 4, START, START + 12 * FIVE),
        ("BID", "crossed_book", "warning", 4, START, START + 12 * FIVE),
    ]  # fmt: skip
    beyond = quality.examples(raised, finding="crossed_book", rows=2, by=["exchange"])
    assert beyond["timestamp"].to_list() == [START, START]
    # What rests nowhere crosses nothing.
    gone = raised.with_columns(size=pl.when(is_moved).then(0.0).otherwise("size"))
    assert found(gone) == []


@pytest.mark.slow
def test_prices_below_zero_are_possible(candles: pl.DataFrame) -> None:
    mirrored = candles.with_columns(
        open=-pl.col("open"), close=-pl.col("close"), high=-pl.col("low"), low=-pl.col("high")
    )
    assert found(mirrored) == []


# --- nothing makes it fail ------------------------------------------------------------------------------------------


BAD = [None, float("nan"), float("inf"), float("-inf"), 0.0, -1.0, 1e308, 5e-324]
NAMES = ["open", "high", "low", "close", "volume"]


def plain(candles: pl.DataFrame) -> pl.DataFrame:
    """Six hours of two venues, without what an engine may not know."""
    few = candles.filter(pl.col("timestamp") < START + 72 * FIVE)
    return few.select("exchange", "interval", "timestamp", *NAMES).cast(
        {"exchange": pl.String, "interval": pl.String}
    )


@pytest.mark.slow
def test_no_value_makes_an_audit_fail(engine: Engine, candles: pl.DataFrame) -> None:
    frame = plain(candles)
    for start, value in enumerate(BAD):
        frame = with_value(
            frame,
            list(range(5 + 7 * start, 8 + 7 * start)),
            **dict.fromkeys(NAMES, pl.lit(value, pl.Float64)),
        )
    timeless = with_value(frame, list(range(70, 90)), timestamp=None)
    findings = engine.polars(quality.audit(engine.frame(timeless)))
    assert {"unknown_value", "infinite_value", "negative_amount", "missing_time"} <= set(findings["finding"])
    engine.polars(quality.gaps(engine.frame(timeless)))
    engine.polars(quality.completeness(engine.frame(timeless)))


@pytest.mark.slow
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_frames_of_nothing_but_one_value_are_audited(
    kind: str, candles: pl.DataFrame, bad: float | None
) -> None:
    engine, frame = Engine(kind), plain(candles)
    everywhere = frame.with_columns(pl.lit(bad, pl.Float64).alias(name) for name in NAMES)
    assert "unordered" not in engine.polars(quality.audit(engine.frame(everywhere)))["finding"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["polars", "pandas", "duckdb"])
def test_frames_of_no_time_or_no_row_are_audited(kind: str, candles: pl.DataFrame) -> None:
    engine, frame = Engine(kind), plain(candles)
    timeless = frame.with_columns(timestamp=pl.lit(None, pl.Datetime("ns", "UTC")))
    findings = engine.polars(quality.audit(engine.frame(timeless)))
    assert findings.select("finding", "count").rows() == [("missing_time", 72)] * 2
    for function in (quality.gaps, quality.completeness):
        assert engine.polars(function(engine.frame(timeless))).is_empty()
    for function in (quality.audit, quality.gaps, quality.completeness):
        assert engine.polars(function(engine.frame(frame.clear()))).is_empty()


@pytest.mark.parametrize("kind", ["polars", "pandas", "duckdb"])
def test_numbers_that_are_text_are_not_passed_over(kind: str, candles: pl.DataFrame) -> None:
    engine = Engine(kind)
    frame = plain(candles).with_columns(pl.col("close").cast(pl.String))
    for function in (quality.audit, quality.examples):
        arguments = {"finding": "outlier"} if function is quality.examples else {}
        with pytest.raises(QueryError, match="expected numbers in column close"):
            function(engine.frame(frame), **arguments)


@pytest.mark.slow
def test_frames_of_nothing_but_times_and_odd_columns_are_audited() -> None:
    times = pl.DataFrame({"timestamp": [START, START + timedelta(hours=2), START]})
    assert quality.audit(times).select("finding", "count").rows() == [("duplicate", 2), ("unordered", 1)]
    assert quality.audit(times, interval="1h").select("finding", "count").rows() == [
        ("duplicate", 2),
        ("missing_bucket", 1),
        ("unordered", 1),
    ]
    odd = times.with_columns(
        note=pl.lit("12"), volume=pl.lit(None), flag=True, levels=[[1.0]] * 3, interval=None
    )
    assert quality.audit(odd).select("finding", "count").rows() == [
        ("duplicate", 2),
        ("unknown_interval", 3),
        ("unordered", 1),
    ]
    assert quality.audit(odd, interval="1h")["finding"].to_list() == [
        "duplicate",
        "missing_bucket",
        "unordered",
    ]
    numbers = times.with_columns(
        close=pl.Series([1, 2, 3]).cast(pl.Decimal(10, 2)), volume=pl.Series([1, None, -3])
    )
    assert quality.audit(numbers)["finding"].to_list() == [
        "duplicate",
        "negative_amount",
        "unknown_value",
        "unordered",
    ]


def test_pandas_keeps_its_nanoseconds() -> None:
    times = pd.to_datetime([1_723_161_600_000_000_001, 1_723_161_600_000_000_003], utc=True)
    frame = pd.DataFrame({"timestamp": times, "volume": [-1.0, -2.0]})
    unknown = pd.DataFrame({"timestamp": pd.to_datetime([None], utc=True), "volume": 1.0})
    for given in (frame, pd.concat([frame, unknown])):
        findings = quality.audit(given).set_index("finding")
        assert findings.loc["negative_amount", "first"] == times[0]
        assert findings.loc["negative_amount", "last"] == times[1]


@pytest.mark.slow
def test_orders_of_frames_without_one_are_not_looked_at(engine: Engine, candles: pl.DataFrame) -> None:
    small = candles.select("exchange", "interval", "timestamp", "close").cast(
        {"exchange": pl.String, "interval": pl.String}
    )
    findings = engine.polars(quality.audit(engine.frame(small.reverse()))).select("finding", "count").rows()
    has_order = engine.name in {"polars", "pandas", "pyarrow"}
    assert findings == ([("unordered", 287)] * 2 if has_order else [])


def test_what_cannot_be_is_refused(candles: pl.DataFrame) -> None:
    with pytest.raises(QueryError, match="did you mean 'outlier'"):
        quality.audit(candles, checks=["outliers"])
    with pytest.raises(QueryError, match="columns it looks at"):
        quality.audit(candles, checks="unknown_side")
    with pytest.raises(QueryError, match="interval="):
        quality.audit(candles.drop("interval"), checks="stale")
    with pytest.raises(QueryError, match="collect it first"):
        quality.audit(candles.lazy(), checks="unordered")
    with pytest.raises(QueryError, match="one check or more"):
        quality.audit(candles, checks=[])
    with pytest.raises(QueryError, match="zone"):
        quality.audit(candles.with_columns(pl.col("timestamp").dt.replace_time_zone(None)))
    with pytest.raises(MissingColumnError, match="timestamp"):
        quality.audit(candles.drop("timestamp"))
    with pytest.raises(MissingColumnError, match="market"):
        quality.audit(candles, by="market")
    with pytest.raises(QueryError, match="frame"):
        quality.audit([1, 2, 3])
    for limit in ({"outlier": 0}, {"frozen": 0}, {"stale": 1.5}, {"unit_jump": 1}, {"interval": "5 minutes"}):
        with pytest.raises(QueryError, match=next(iter(limit))):
            quality.audit(candles, **limit)


# --- examples -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_examples_are_the_first_rows_of_each_series(candles: pl.DataFrame) -> None:
    bad = with_value(candles, [50, 41, 45, 300], volume=-1.0)
    rows = quality.examples(bad, finding="negative_amount", rows=2)
    assert rows.equals(bad[[41, 45, 300]])
    assert quality.examples(bad, finding="negative_amount", rows=9).height == 4
    assert quality.examples(bad, finding="outlier").equals(bad.clear())


def test_examples_of_what_is_not_there_are_the_rows_before(candles: pl.DataFrame) -> None:
    holed = candles.filter(~pl.int_range(pl.len()).is_in([40, 44, 286, 287]))
    assert quality.examples(holed, finding="missing_bucket")["timestamp"].to_list() == [
        START + 39 * FIVE,
        START + 43 * FIVE,
    ]
    stale = quality.examples(holed, finding="stale", stale=1)
    assert stale.select("exchange", "timestamp").rows() == [("DEMO_PERP", START + 285 * FIVE)]


@pytest.mark.slow
def test_examples_agree_with_counts(candles: pl.DataFrame) -> None:
    bad = pl.concat([with_value(candles, [5, 9, 400], close=None), candles.slice(77, 2)])
    for name, count in quality.audit(bad).group_by("finding").agg(pl.col("count").sum()).rows():
        assert quality.examples(bad, finding=name, rows=1_000).height == count


# --- gaps and completeness ------------------------------------------------------------------------------------------


def shown(gaps: pl.DataFrame) -> list[tuple]:
    place = ((pl.col("start", "end") - START) / FIVE).cast(pl.Float64)
    return gaps.select(pl.col("exchange").cast(pl.String), place, "missing").rows()


@pytest.mark.slow
def test_gaps_are_listed_one_by_one(candles: pl.DataFrame) -> None:
    holed = candles.filter(~pl.int_range(pl.len()).is_in([0, 40, 41, 44, 286, 287, 300]))
    assert shown(quality.gaps(candles)) == []
    inside = [("DEMO_PERP", 40, 42, 2), ("DEMO_PERP", 44, 45, 1), ("DEMO_SPOT", 12, 13, 1)]
    assert shown(quality.gaps(holed)) == inside
    edges = quality.gaps(holed, start="2024-08-08", end="2024-08-09")
    assert shown(edges) == [("DEMO_PERP", 0, 1, 1), *inside[:2], ("DEMO_PERP", 286, 288, 2), inside[2]]
    # A window in the middle of an interval expects those that start in it.
    window = quality.gaps(holed, start="2024-08-08T03:21Z", end="2024-08-08T03:41Z")
    assert shown(window) == [("DEMO_PERP", 41, 42, 1), ("DEMO_PERP", 44, 45, 1)]


def test_a_window_in_which_a_series_has_nothing_is_one_gap(candles: pl.DataFrame) -> None:
    window = {"start": "2024-08-09", "end": "2024-08-09T01:00Z"}
    assert shown(quality.gaps(candles, **window)) == [
        ("DEMO_PERP", 288, 300, 12),
        ("DEMO_SPOT", 288, 300, 12),
    ]
    assert quality.completeness(candles, **window)["completeness"].to_list() == [0.0, 0.0]


@pytest.mark.slow
def test_completeness_counts_what_is_there(candles: pl.DataFrame) -> None:
    holed = candles.filter(~pl.int_range(pl.len()).is_in([0, 40, 41, 300]))
    share = quality.completeness(pl.concat([holed, holed.head(9)]))
    assert share.select("expected", "present", "missing", "completeness").rows() == [
        (288, 285, 3, 285 / 288),
        (288, 287, 1, 287 / 288),
    ]
    assert share.select("start", "end").unique().rows() == [(START, START + timedelta(days=1))]
    wider = quality.completeness(holed, start="2024-08-07", end="2024-08-09")
    assert wider["completeness"].to_list() == [285 / 576, 287 / 576]
    assert quality.completeness(holed, interval="1h")["completeness"].to_list() == [1.0, 1.0]


def test_completeness_of_each_span() -> None:
    times = [START + timedelta(hours=hour) for hour in (20, 21, 23, 24, 50)]
    frame = pl.DataFrame({"exchange": ["A"] * 3 + ["B"] * 2, "timestamp": times})
    days = quality.completeness(frame, interval="1h", every="1d")
    midnight = [START + timedelta(days=day) for day in range(4)]
    evening, end = times[0], times[-1] + timedelta(hours=1)
    assert days.rows() == [
        ("A", evening, midnight[1], 4, 3, 1, 0.75),
        ("A", midnight[1], midnight[2], 24, 0, 24, 0.0),  # a day without a row is one without an interval
        ("A", midnight[2], end, 3, 0, 3, 0.0),
        ("B", evening, midnight[1], 4, 0, 4, 0.0),
        ("B", midnight[1], midnight[2], 24, 1, 23, 1 / 24),
        ("B", midnight[2], end, 3, 1, 2, 1 / 3),
    ]
    assert quality.completeness(frame.clear(), interval="1h", every="1d").is_empty()
    with pytest.raises(QueryError, match="every"):
        quality.completeness(frame, interval="1h", every="soon")


def test_spans_shorter_than_intervals_have_those_that_start_in_them() -> None:
    days = pl.DataFrame({"timestamp": [START, START + timedelta(days=2)], "interval": "DAY"})
    hours = quality.completeness(days, every="1h")
    assert hours.select("start", "expected", "present").rows() == [
        (START, 1, 1),
        (START + timedelta(days=1), 1, 0),
        (START + timedelta(days=2), 1, 1),
    ]


@pytest.mark.slow
def test_weeks_start_on_mondays() -> None:
    mondays = [datetime(2024, 8, 5, tzinfo=UTC) + timedelta(weeks=n) for n in (0, 1, 3)]
    weeks = pl.DataFrame({"timestamp": mondays, "interval": "WEEK"})
    assert quality.gaps(weeks).rows() == [("1w", mondays[1] + timedelta(weeks=1), mondays[2], 1)]
    assert quality.audit(weeks).select("finding", "count").rows() == [("missing_bucket", 1)]
    assert quality.completeness(weeks)["completeness"].item() == 0.75


def test_a_length_that_is_not_known_and_a_window_that_is_none_are_refused(candles: pl.DataFrame) -> None:
    for function in (quality.gaps, quality.completeness):
        with pytest.raises(QueryError, match="interval"):
            function(candles.drop("interval"))
        with pytest.raises(QueryError, match="after start"):
            function(candles, start="2024-08-09", end="2024-08-09")


# --- what is truly in recorded data ---------------------------------------------------------------------------------


def test_two_recorded_years_of_hours_have_no_findings(recorded: Path) -> None:
    with gzip.open(recorded / "binance-vision_BTCUSDT_1h_Cleaned.csv.gz") as file:
        hours = pl.read_csv(file).rename(str.lower)
    hours = hours.with_columns(timestamp=pl.col("date").str.to_datetime("%d-%m-%Y %H:%M", time_zone="UTC"))
    findings = quality.audit(hours, interval="1h")
    assert findings.rows() == []
    share = quality.completeness(hours, interval="1h")
    assert share.select("expected", "present").row(0) == (17_544, 17_544)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lean_binance_btcbusd_1m_20221213_trade.zip", ["09:58", "09:59", "13:19", "13:30"]),
        ("lean_bybit_btcusdt_1m_20221213_trade.zip", ["09:59", "13:19", "13:30"]),
    ],
)
def test_a_recorded_day_of_news_has_its_minutes_and_no_other_finding(
    recorded: Path, name: str, expected: list[str]
) -> None:
    with zipfile.ZipFile(recorded / name) as archive:
        minutes = pl.read_csv(
            archive.read(archive.namelist()[0]),
            has_header=False,
            new_columns=["ms", "open", "high", "low", "close", "volume"],
        )
    day = datetime(2022, 12, 13, tzinfo=UTC)
    minutes = minutes.with_columns(
        timestamp=pl.lit(day) + pl.duration(milliseconds="ms"), interval=pl.lit("MINUTE")
    )
    findings = quality.audit(minutes.drop("ms"))
    assert findings.select("finding", "count").rows() == [("outlier", len(expected))]
    # US consumer prices of November 2022 came out at 13:30 UTC; two venues moved in the same minutes.
    rows = quality.examples(minutes, finding="outlier", rows=9)
    assert rows["timestamp"].dt.strftime("%H:%M").to_list() == expected
    assert quality.audit(minutes.drop("ms"), outlier=60).is_empty()


@pytest.mark.slow
def test_recorded_trades_without_ids_are_told_apart_by_what_they_say(recorded: Path) -> None:
    with gzip.open(recorded / "coinbase_btc-usd_trades_20230905.csv.gz") as file:
        trades = pl.read_csv(file).with_columns(
            pl.col("timestamp").str.to_datetime(time_unit="us", time_zone="UTC"),
            pl.col("side").str.to_uppercase(),
        )
    assert quality.audit(trades, by="symbol").is_empty()
    another = pl.concat([trades.head(1).with_columns(pl.col("amount") * 2), trades])
    assert quality.audit(another, by="symbol").is_empty()
    twice = pl.concat([trades, trades.head(1)])
    assert quality.audit(twice, by="symbol").select("finding", "count").rows() == [
        ("duplicate", 2),
        ("unordered", 1),
    ]


def test_recorded_liquidations_that_come_doubled_are_found(recorded: Path) -> None:
    text = (recorded / "binance-vision_quoted_rows_BTCUSD_PERP_liquidationSnapshot.csv").read_text()
    rows = pl.read_csv(io.StringIO(text)).select(
        timestamp=pl.from_epoch("time", "ms").dt.replace_time_zone("UTC"),
        amount="original_quantity",
        side="side",
    )
    findings = quality.audit(rows, by="side", checks="duplicate")
    doubled = rows.group_by("timestamp", "side").len().filter(pl.col("len") > 1)["len"].sum()
    assert doubled > 0
    assert findings["count"].sum() == doubled


def test_recorded_tickers_lack_what_a_venue_does_not_say(recorded: Path) -> None:
    with gzip.open(recorded / "tardis-node_normalized_derivative_ticker.jsonl.gz", "rt") as file:
        messages = [json.loads(line) for line in file]
    rows = pl.DataFrame(
        [
            {
                "exchange": message["exchange"],
                "raw_symbol": message["symbol"],
                "timestamp": message["timestamp"],
                "funding_rate": message["fundingRate"],
                "predicted": message["predictedFundingRate"],
            }
            for message in messages
        ],
        infer_schema_length=None,
    ).with_columns(pl.col("timestamp").str.to_datetime(time_zone="UTC", strict=False))
    findings = quality.audit(rows, by="exchange", checks=["unknown_value", "infinite_value", "missing_time"])
    for exchange, name, count in findings.select("exchange", "finding", "count").rows():
        own = rows.filter(exchange=exchange)
        has = [column for column in ("funding_rate", "predicted") if own[column].count()]
        if name == "unknown_value":
            assert count == own.filter(pl.any_horizontal(pl.col(has).is_null())).height
        else:
            assert (name, count) == ("missing_time", own["timestamp"].null_count())
    assert findings.height


def test_an_error_lists_no_column_that_is_not_the_callers() -> None:
    with pytest.raises(MissingColumnError) as caught:
        quality.audit(pl.DataFrame({"close": [1.0]}))
    assert caught.value.available == ("close",)


# --- amounts in coin and in the quote -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "count"), [(1.0, 0), (1.005, 0), (0.996, 0), (617.0, 6), (0.01, 6)], ids=str
)
@pytest.mark.parametrize("kind", ["trades", "candles"])
def test_a_quote_amount_that_no_price_explains_is_an_error(kind: str, factor: float, count: int) -> None:
    """Amounts that count contracts show themselves by the amount in the quote, whatever the series is called."""
    amounts = [1.0, 2.0, 0.5, 4.0, 3.0, 1.5]
    at = [START + n * FIVE for n in range(6)]
    if kind == "trades":
        columns = {"price": 100.0, "amount": amounts, "quote_amount": [100 * one * factor for one in amounts]}
    else:
        quote = [100 * one * factor for one in amounts]
        columns = {"low": 100.0, "high": 100.0, "volume": amounts, "quote_volume": quote}
    frame = pl.DataFrame({"exchange": "X", "raw_symbol": "A", "timestamp": at} | columns)
    twin = frame.with_columns(raw_symbol=pl.lit("B")).with_columns(
        pl.col("quote_amount" if kind == "trades" else "quote_volume") / factor
    )
    got = quality.audit(pl.concat([frame, twin]), checks="quote_mismatch")
    assert got.select("raw_symbol", "severity", "count").rows() == ([("A", "error", count)] if count else [])


def test_one_amount_that_was_rounded_is_none() -> None:
    frame = pl.DataFrame(
        {
            "timestamp": [START, START + FIVE],
            "price": 100.0,
            "amount": [0.001, 50.0],
            "quote_amount": [0.14, 5000.0],  # 0.0014 before it was rounded
        }
    )
    assert quality.audit(frame, checks="quote_mismatch").is_empty()
    unknown = frame.with_columns(quote_amount=pl.lit(None, pl.Float64))
    assert quality.audit(unknown, checks="quote_mismatch").is_empty()


@pytest.mark.slow
def test_open_interest_and_rates_that_do_not_move_are_found(small_times) -> None:
    hour, rows = 3_600_000_000_000, 40
    times = [row * hour for row in range(rows)]
    still = [1.0 + 0.1 * min(row, 10) for row in range(rows)]
    moving = [1.0 + 0.1 * (row % 7) for row in range(rows)]
    market = {"exchange": "X", "raw_symbol": "Y", "interval": "1h", "timestamp": times}
    interest = pl.DataFrame({**market, **dict.fromkeys(("open", "high", "low", "close"), still)})
    checks = {"checks": ["frozen_interest"]}
    assert quality.audit(interest, **checks).select("finding", "count", "first").rows() == [
        ("frozen_interest", 29, 11 * hour)
    ]
    assert len(quality.audit(interest, frozen=30, **checks)) == 0
    rates = pl.DataFrame({**market, "rate_close": still, "predicted_close": [None] * rows})
    rates = rates.cast({"predicted_close": pl.Float64})
    for frame in (
        rates,
        rates.drop("predicted_close"),
        rates.with_columns(predicted_close=pl.col("rate_close")),
    ):
        [(count, first)] = quality.audit(frame, checks="frozen_rate").select("count", "first").rows()
        assert (count, first) == (29, 11 * hour)
    # A rate stays the same until it settles, and a prediction that moves shows that the feed is alive.
    assert len(quality.audit(rates.head(34), checks="frozen_rate")) == 0
    alive = rates.with_columns(predicted_close=pl.Series(moving))
    assert len(quality.audit(alive, checks="frozen_rate")) == 0


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 7, 8, 40])
def test_lengths_of_intervals_are_read_alike_from_few_words_and_from_every_row(count: int) -> None:
    """A frame in memory reads each word once if there are few; a lazy frame reads each row."""
    words = ["1m", "1 Minute ", "FOUR_HOURS", "nonsense", None, "1M", "9d", *(f"{n}m" for n in range(2, 60))]
    start = datetime(2024, 8, 8, tzinfo=UTC)
    frame = pl.DataFrame(
        {
            "exchange": "X",
            "raw_symbol": [f"S{n % 3}" for n in range(200)],
            "timestamp": [start + timedelta(minutes=7 * n) for n in range(200)],
            "interval": [words[n % count] if count else None for n in range(200)],
            "close": 1.0,
        },
        schema_overrides={"interval": pl.String},
    )
    key = ["exchange", "raw_symbol", "finding"]
    lazily = quality.audit(frame.lazy()).collect().sort(key)
    assert quality.audit(frame).sort(key).equals(lazily)
    assert quality.audit(frame.with_columns(pl.col("interval").cast(pl.Categorical))).sort(key).equals(lazily)
