"""What users of pandas do with frames of a client: none of it needs a special step."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest

import tidytape
from tidytape import aggregate, plot
from tidytape.analytics import pit, quality
from tidytape.analytics.profile import value_area
from tidytape.errors import MissingColumnError

DAY: dict[str, Any] = {"start": "2024-08-08", "end": "2024-08-09"}
SPOT: dict[str, Any] = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT", **DAY}
PERP: dict[str, Any] = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP", **DAY}
NAMES = ["exchange", "raw_symbol", "normalized_symbol", "coin", "category", "interval", "amount_unit"]


@pytest.fixture(scope="module")
def client() -> Iterator[tidytape.Client[pd.DataFrame]]:
    with tidytape.Client.demo(backend="pandas") as one:
        yield one


@pytest.fixture(scope="module")
def candles(client: tidytape.Client[pd.DataFrame]) -> pd.DataFrame:
    return client.candles(interval="1h", **SPOT)


@pytest.fixture(scope="module")
def both(client: tidytape.Client[pd.DataFrame]) -> pd.DataFrame:
    asked = {"exchange": ["DEMO_SPOT", "DEMO_PERP"], "normalized_symbol": "BTC-USDT", **DAY}
    return client.candles(interval="1h", **asked)


def test_a_frame_is_a_plain_frame(candles: pd.DataFrame) -> None:
    assert type(candles) is pd.DataFrame
    assert candles.attrs == {}
    assert candles.index.equals(pd.RangeIndex(24))
    assert all(isinstance(candles[name].dtype, pd.CategoricalDtype) for name in NAMES)
    assert str(candles["timestamp"].dtype) == "datetime64[ns, UTC]"


def test_time_is_an_index(candles: pd.DataFrame) -> None:
    by_time = candles.set_index("timestamp")
    assert by_time.loc["2024-08-08 03:00":"2024-08-08 05:00"].shape[0] == 3  # type: ignore[misc]  # dates slice
    assert by_time.index.tz_convert("America/New_York")[0].hour == 20
    hours = by_time.resample("4h").agg(
        {"open": "first", "high": "max", "low": "min", "close": "last", "volume": "sum"}
    )
    expected = aggregate.resample(candles, data_type="TRADE_SIDE_AGNOSTIC_AGG", interval="4h")
    for name in ("open", "high", "low", "close"):
        assert hours[name].tolist() == expected[name].tolist()
    assert hours["volume"].tolist() == pytest.approx(expected["volume"].tolist())
    assert by_time["close"].rolling("3h").mean().notna().all()
    assert by_time["close"].pct_change().iloc[1:].notna().all()


def test_it_is_plotted(candles: pd.DataFrame, both: pd.DataFrame) -> None:
    mpl.use("Agg")
    by_time = candles.set_index("timestamp")
    for ax in (
        by_time["close"].plot(),
        by_time.plot(y=["open", "close"]),
        by_time.plot(),
        both.pivot_table(index="timestamp", columns="exchange", values="close", observed=True).plot(),
    ):
        assert len(ax.lines)
        mpl.pyplot.close(ax.figure)  # type: ignore[attr-defined]  # pandas has loaded it


def test_categories_group_what_there_is(both: pd.DataFrame) -> None:
    volumes = both.groupby(["exchange", "raw_symbol"], observed=True)["volume"].sum()
    assert sorted(volumes.index) == [("DEMO_PERP", "BTC-PERP"), ("DEMO_SPOT", "BTCUSDT")]
    assert both["exchange"].value_counts().to_dict() == {"DEMO_PERP": 24, "DEMO_SPOT": 24}
    assert both[both["exchange"] == "DEMO_SPOT"].shape[0] == 24
    wide = both.set_index(["timestamp", "exchange"])["close"].unstack()
    assert wide.shape == (24, 2)
    assert wide.notna().all(axis=None)


@pytest.mark.slow
def test_frames_are_merged(client: tidytape.Client[pd.DataFrame], candles: pd.DataFrame) -> None:
    other = client.candles(interval="1h", **PERP)
    merged = candles.merge(other, on="timestamp", suffixes=("_spot", "_perp"))
    assert merged.shape[0] == 24
    funding = client.funding(interval="1h", **PERP)[["timestamp", "rate_close"]]
    assert pd.merge_asof(candles, funding, on="timestamp")["rate_close"].notna().all()
    with_mine = candles.merge(pd.DataFrame({"exchange": ["DEMO_SPOT"], "fee": [0.001]}), on="exchange")
    assert with_mine["fee"].eq(0.001).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["candles", "tpo", "describe"])
@pytest.mark.parametrize("way", ["parquet", "feather", "pickle"])
def test_a_frame_comes_back_from_a_file_as_it_was(
    client: tidytape.Client[pd.DataFrame], candles: pd.DataFrame, tmp_path: Path, kind: str, way: str
) -> None:
    made: dict[str, Callable[[], pd.DataFrame]] = {
        "candles": lambda: candles,
        "tpo": lambda: client.tpo(interval="1d", session="daily", block_size=200, **SPOT),
        "describe": client.describe,
    }
    frame, path = made[kind](), tmp_path / "frame"
    if way == "pickle":
        again = pickle.loads(pickle.dumps(frame))
    elif way == "parquet":
        frame.to_parquet(path)
        again = pd.read_parquet(path)
    else:
        frame.to_feather(path)
        again = pd.read_feather(path)
    assert again.dtypes.equals(frame.dtypes)
    lists = [name for name in frame if frame[name].dtype == object]
    pd.testing.assert_frame_equal(again.drop(columns=lists), frame.drop(columns=lists))
    for name in lists:
        for one, other in zip(again[name], frame[name], strict=True):
            assert (one is None and other is None) or list(one) == list(other)


@pytest.mark.slow
def test_lists_explode(client: tidytape.Client[pd.DataFrame]) -> None:
    levels = client.tpo(interval="1d", session="daily", block_size=200, **SPOT)
    exploded = levels.explode("block_ids")
    assert exploded.groupby("block_ids").size().sum() == levels["tpo_count"].sum()


def test_frames_of_two_fetches_are_put_together(
    client: tidytape.Client[pd.DataFrame], candles: pd.DataFrame, both: pd.DataFrame
) -> None:
    """pandas keeps categories where both frames have the same; of two exchanges it makes text, which is as good."""
    other = client.candles(interval="1h", **PERP)
    together = pd.concat([candles, other], ignore_index=True)
    assert isinstance(together["interval"].dtype, pd.CategoricalDtype)
    assert set(together["exchange"]) == {"DEMO_SPOT", "DEMO_PERP"}
    assert together.groupby("exchange")["volume"].sum().to_dict() == pytest.approx(
        both.groupby("exchange", observed=True)["volume"].sum().to_dict()
    )
    key = ["exchange", "timestamp"]
    one, two = (pit.known_at(frame).sort_values(key) for frame in (together, both))
    assert one["known_at"].tolist() == two["known_at"].tolist()
    names = [pd.api.types.union_categoricals([candles[name], other[name]]) for name in NAMES]
    kept = together.assign(**dict(zip(NAMES, names, strict=True)))
    assert all(isinstance(kept[name].dtype, pd.CategoricalDtype) for name in NAMES)


@pytest.mark.parametrize(
    "function",
    [
        quality.gaps,
        pit.to_backtesting,
        pit.to_nautilus,
        plot.candles,
        lambda frame: value_area(frame, price="close"),
    ],
)
def test_a_time_in_the_index_is_named(candles: pd.DataFrame, function: Any) -> None:
    by_time = candles.set_index("timestamp")
    with pytest.raises(MissingColumnError) as caught:
        function(by_time)
    assert str(caught.value).endswith("; 'timestamp' is in the index: frame.reset_index() makes it a column")
    assert "did you mean" not in str(caught.value)


# --- other libraries ---


@pytest.mark.slow
@pytest.mark.parametrize("convert", [pit.to_backtesting, pit.to_vectorbt, pit.to_nautilus])
def test_backtests_take_a_frame_of_either_backend(convert: Any) -> None:
    with tidytape.Client.demo() as polars, tidytape.Client.demo(backend="pandas") as pandas:
        frames = [one.candles(interval="1h", **SPOT) for one in (polars, pandas)]
    assert isinstance(frames[0], pl.DataFrame)
    indexed = frames[1].set_index("timestamp").reset_index()
    first, *others = (convert(frame) for frame in (*frames, indexed, frames[0].to_pandas()))
    for other in others:
        pd.testing.assert_frame_equal(first, other)
    assert isinstance(first.index, pd.DatetimeIndex)
    assert np.isfinite(first.to_numpy()).all()
