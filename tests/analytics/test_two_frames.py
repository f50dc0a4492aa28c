"""Functions of two frames: frames that cannot meet, and words that two frames keep as unlike categories."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import polars as pl
import polars.selectors as cs
import pytest
from polars.testing import assert_frame_equal

from analytics.matrix import Case, cases
from analytics.test_matrix import plain
from tidytape.analytics import flow
from tidytape.errors import QueryError

TWO = [pytest.param(case, id=f"{namespace}.{case}") for namespace, case in cases() if len(case.frames) == 2]


def test_there_are_functions_of_two_frames() -> None:
    assert len({str(case.id).split()[0] for case in TWO}) >= 4


@pytest.mark.parametrize("case", TWO)
def test_frames_of_two_connections_are_refused(case: Case) -> None:
    first, second = (duckdb.connect().from_arrow(frame.to_arrow()) for frame in case.frames)
    with pytest.raises(QueryError, match="another connection of DuckDB") as caught:
        case.call(first, second)
    assert caught.value.hint


def unlike(frame: pl.DataFrame, *, backwards: bool) -> pd.DataFrame:
    """A frame of pandas whose words are in an order of its own, among others that the other frame does not know."""
    words: dict[str, Any] = {
        name: frame[name].cast(pl.String).drop_nulls().unique().sort(descending=backwards).to_list()
        for name, dtype in frame.schema.items()
        if dtype in (pl.String, pl.Categorical)
    }
    types = {
        name: pd.CategoricalDtype([*own, f"only here {backwards}"], ordered=True)
        for name, own in words.items()
    }
    return frame.with_columns(cs.categorical().cast(pl.String)).to_pandas().astype(types)


@pytest.mark.parametrize("case", TWO)
def test_ordered_categories_of_two_frames_meet_as_words(case: Case) -> None:
    given = [unlike(frame, backwards=place > 0) for place, frame in enumerate(case.frames)]
    got = plain(pl.from_pandas(case.call(*given)))
    wanted = plain(
        case.call(*(frame.with_columns(cs.categorical().cast(pl.String)) for frame in case.frames))
    )
    assert_frame_equal(
        got.sort(case.key, nulls_last=True),
        wanted.sort(case.key, nulls_last=True),
        check_dtypes=False,
        rel_tol=1e-12,
        abs_tol=1e-13,
    )


def test_a_venue_that_only_one_of_two_frames_knows_joins_with_nothing() -> None:
    venues = {"interest": ["B", "A"], "candles": ["C", "B", "A"]}
    frames = {
        name: pd.DataFrame(
            {
                "exchange": pd.Categorical(known, known, ordered=True),
                "timestamp": 0,
                "close": float(len(known)),
            }
        )
        for name, known in venues.items()
    }
    found = flow.oi_price_quadrant(frames["interest"], frames["candles"])
    assert found["exchange"].tolist() == ["A", "B"]
    assert found["exchange"].dtype == frames["interest"]["exchange"].dtype
    assert found["price"].tolist() == [3.0, 3.0]
