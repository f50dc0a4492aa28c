"""Which markets existed when: laws over worlds in which markets begin, die and are renamed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tables import each_row
from thorough import often
from tidytape.analytics import pit
from tidytape.errors import MissingColumnError, QueryError, SurvivorWarning
from tidytape.schema import HOLDINGS

BEGIN = datetime(2024, 8, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
TIME = pl.Datetime("ns", "UTC")
TOLERANCE = 4
"""Longest gap between two events of a market. [h]"""


def at(*hours: float | None) -> pl.Series:
    return pl.Series("timestamp", [None if hour is None else BEGIN + hour * HOUR for hour in hours], TIME)


@dataclass(frozen=True)
class Life:
    """One market under its symbols: the hours of its events, and the symbol at each."""

    symbols: tuple[str, ...]
    events: tuple[tuple[int, ...], ...]
    """Of each symbol; every later symbol has at least one event."""
    renamings: tuple[int, ...]
    """Between the last event of a symbol and the first of the next, that included."""


@st.composite
def lives(draw: st.DrawFn) -> tuple[Life, ...]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        hour = draw(st.integers(0, 20))
        events, renamings = [], []
        for symbol in range(draw(st.integers(1, 3))):
            steps = draw(st.lists(st.integers(1, TOLERANCE), max_size=5))
            if symbol:
                gap = draw(st.integers(1, TOLERANCE))
                renamings.append(hour + draw(st.integers(1, gap)))
                hour += gap
            hours = [hour]
            for step in steps:
                hours.append(hours[-1] + step)
            hour = hours[-1]
            events.append(tuple(hours))
        names = tuple(f"M{number}{'abc'[place]}" for place in range(len(events)))
        found.append(Life(names, tuple(events), tuple(renamings)))
    return tuple(found)


@st.composite
def tangled_lives(draw: st.DrawFn) -> tuple[Life, ...]:
    """Symbols that exist before they are another's new name, or after they were renamed, and renamings at any hour."""
    world = []
    for number in range(draw(st.integers(1, 2))):
        symbols = tuple(f"M{number}{letter}" for letter in "abc"[: draw(st.integers(2, 3))])
        events = []
        for _ in symbols:
            steps = draw(st.lists(st.integers(1, TOLERANCE), max_size=8))
            events.append(tuple(accumulate(steps, initial=draw(st.integers(0, 30)))))
        renamings = tuple(draw(st.integers(0, 60)) for _ in symbols[1:])
        world.append(Life(symbols, tuple(events), renamings))
    return tuple(world)


WORLDS = st.one_of(lives(), tangled_lives())


def described(
    world: tuple[Life, ...], *, until: float = 10**6, renamings_until: float | None = None
) -> pl.DataFrame:
    """What `client.describe` says of the events up to an hour, and of the renamings up to that or another hour."""
    renamings_until = until if renamings_until is None else renamings_until
    rows = []
    for life in world:
        for place, (symbol, hours) in enumerate(zip(life.symbols, life.events, strict=True)):
            seen = [hour for hour in hours if hour <= until]
            if not seen:
                continue
            renamed = place < len(life.renamings) and life.renamings[place] <= renamings_until
            rows.append(
                {
                    "exchange": "X", "raw_symbol": symbol, "type": "TRADE", "coin": life.symbols[0],
                    "available_since": BEGIN + seen[0] * HOUR, "first_timestamp": BEGIN + seen[0] * HOUR,
                    "last_timestamp": BEGIN + seen[-1] * HOUR,
                    "renamed_to": life.symbols[place + 1] if renamed else None,
                    "renamed_at": BEGIN + life.renamings[place] * HOUR if renamed else None,
                }
            )  # fmt: skip
    return HOLDINGS.conform(pl.DataFrame(rows)) if rows else HOLDINGS.empty()


HOURS = pl.DataFrame({"timestamp": at(*range(80))})


def universe(markets: pl.DataFrame, times: pl.DataFrame = HOURS) -> list[tuple[int, str]]:
    rows = pit.universe(markets, times, tolerance=timedelta(hours=TOLERANCE)).select(
        "timestamp", "raw_symbol"
    )
    return [(round((time - BEGIN) / HOUR), symbol) for time, symbol in rows.rows()]


@pytest.mark.slow
@given(WORLDS, st.integers(0, 60), st.integers(0, 60))
@settings(max_examples=often(40, thoroughly=2000), deadline=None)
def test_cutting_the_future_off_does_not_change_the_past(
    world: tuple[Life, ...], until: int, announced: int
) -> None:
    """Neither later events nor renamings whose date lies after the time, some of which may be announced."""
    past = [row for row in universe(described(world)) if row[0] <= until]
    cut = universe(described(world, until=until, renamings_until=until + announced))
    assert past == [row for row in cut if row[0] <= until]


@pytest.mark.slow
@given(tangled_lives())
@settings(max_examples=often(25, thoroughly=2000), deadline=None)
def test_a_market_with_an_event_exists_then_unless_it_was_renamed_just_before(
    world: tuple[Life, ...],
) -> None:
    existing = set(universe(described(world)))
    for life in world:
        first_of_new = [hours[0] for hours in life.events[1:]] + [10**6]
        for symbol, hours, renamed, new in zip(
            life.symbols, life.events, (*life.renamings, 10**6), first_of_new, strict=True
        ):
            ended = max(renamed, new)
            seen = {hour for hour in hours if not ended <= hour <= ended + TOLERANCE and hour < 80}
            assert {(hour, symbol) for hour in seen} <= existing


@pytest.mark.slow
@given(lives())
@settings(max_examples=often(25, thoroughly=2000), deadline=None)
def test_a_market_has_one_symbol_from_its_first_event_until_a_tolerance_after_its_last(
    world: tuple[Life, ...],
) -> None:
    want = []
    for life in world:
        first, last = life.events[0][0], life.events[-1][-1]
        for hour in range(first, min(last + TOLERANCE, 79) + 1):
            begun = [place for place, hours in enumerate(life.events) if hours[0] <= hour]
            want.append((hour, life.symbols[begun[-1]]))
    assert universe(described(world)) == sorted(want)


@pytest.mark.slow
@given(WORLDS, st.randoms(use_true_random=False))
@settings(max_examples=often(20, thoroughly=500), deadline=None)
def test_neither_the_order_of_rows_nor_repeated_rows_matter(world: tuple[Life, ...], random: object) -> None:
    markets = described(world)
    other = markets.with_columns(type=pl.lit("TRADE_AGG"), last_timestamp=pl.col("available_since"))
    both = pl.concat([markets, other]).sample(fraction=1, shuffle=True, seed=random.randint(0, 99))  # type: ignore[attr-defined]
    times = pl.concat([HOURS, HOURS]).sample(fraction=1, shuffle=True, seed=1)
    assert universe(both, times) == universe(markets)


def points(world: tuple[Life, ...]) -> pl.DataFrame:
    rows = [
        {
            "exchange": "X",
            "raw_symbol": symbol,
            "coin": symbol,
            "timestamp": BEGIN + hour * HOUR,
            "hour": hour,
        }
        for life in world
        for symbol, hours in zip(life.symbols, life.events, strict=True)
        for hour in hours
    ]
    return pl.DataFrame(rows, schema_overrides={"timestamp": TIME})


@pytest.mark.slow
@given(lives())
@settings(max_examples=often(25, thoroughly=2000), deadline=None)
def test_every_market_is_one_series_under_its_newest_name(world: tuple[Life, ...]) -> None:
    frame = points(world)
    markets = described(world).with_columns(coin="raw_symbol")
    one = pit.under_newest_name(frame, markets)
    want = [
        ("X", life.symbols[-1], life.symbols[-1], hour)
        for life in world
        for hours in life.events
        for hour in hours
    ]
    assert one.select("exchange", "raw_symbol", "coin", "hour").rows() == want
    assert one.columns == frame.columns
    assert not one.select("exchange", "raw_symbol", "timestamp").is_duplicated().any()
    assert pit.under_newest_name(one, markets).filter(pl.col("hour") < 0).is_empty()


def test_rows_on_the_wrong_side_of_a_renaming() -> None:
    markets = pl.DataFrame(
        {
            "exchange": "X",
            "raw_symbol": ["OLD", "NEW"],
            "renamed_to": ["NEW", None],
            "renamed_at": at(5, None),
        }
    )
    frame = pl.DataFrame(
        {
            "exchange": ["X", "X", "X", "X", "Y", None],
            "raw_symbol": ["OLD", "NEW", "OLD", "NEW", "OLD", "OLD"],
            "normalized_symbol": "OLD-USDT",
            "timestamp": at(4, 4, 5, 5, 4, 4),
        }
    )
    got = pit.under_newest_name(frame, markets)
    # The old symbol may be another market's by now; the new one was not yet this market's.
    assert got["raw_symbol"].to_list() == ["NEW", "OLD", "NEW", "OLD", "OLD"]
    assert got["exchange"].to_list() == ["X", "X", "X", "Y", None]
    assert got["normalized_symbol"].unique().to_list() == ["OLD-USDT"]  # the list of markets does not have it


@each_row(
    ("renamed_to", "circle"),
    [(["B", "A"], "A to B to A"), (["A", None], "A to A"), (["B", "B"], "B to B")],
)
def test_renamings_that_lead_in_a_circle_are_refused(renamed_to: list[str], circle: str) -> None:
    markets = two_symbols(renamed_to=renamed_to, renamed_at=at(3, 5))
    frame = pl.DataFrame({"exchange": "X", "raw_symbol": ["A", "B", "A"], "timestamp": at(1, 4, 6)})
    for function, rows in ((pit.under_newest_name, (frame, markets)), (pit.universe, (markets, HOURS))):
        with pytest.raises(
            QueryError, match=f"markets: got '.*{circle}', expected renamings that do not lead"
        ):
            function(*rows)


def two_symbols(**columns: object) -> pl.DataFrame:
    """A has events from 0 to 5, and B from 2 to 30, unless the columns say otherwise."""
    events = {"available_since": at(0, 2), "last_timestamp": at(5, 30)}
    return pl.DataFrame({"exchange": "X", "raw_symbol": ["A", "B"], **events, **columns})


@each_row(
    ("columns", "times", "want"),
    [
        # B is a market of its own until the renaming, which nobody knows before its date.
        ({"renamed_at": at(20, None)}, (1, 3, 9, 21), [(1, "A"), (3, "A"), (3, "B"), (9, "A"), (9, "B"), (21, "B")]),
        ({"renamed_at": at(4, None)}, (3, 4, 5), [(3, "A"), (3, "B"), (4, "B"), (5, "B")]),
        # A has events after the renaming: it is another market.
        ({"renamed_at": at(4, None), "last_timestamp": at(12, 30)}, (3, 6, 9, 12, 16, 17),
         [(3, "A"), (3, "B"), (6, "B"), (9, "A"), (9, "B"), (12, "A"), (12, "B"), (16, "A"), (16, "B"), (17, "B")]),
        # B has no events.
        ({"renamed_at": at(4, None), "available_since": at(0, None)}, (3, 5), [(3, "A"), (5, "A")]),
    ],
)  # fmt: skip
def test_symbols_before_and_after_a_renaming(
    columns: dict[str, pl.Series], times: tuple[int, ...], want: list[tuple[int, str]]
) -> None:
    markets = two_symbols(renamed_to=["B", None], **columns)
    assert universe(markets, pl.DataFrame({"timestamp": at(*times)})) == want


def test_a_market_has_one_row_whatever_its_names() -> None:
    markets = two_symbols(normalized_symbol=["A-USD", None], coin=["A", "B"], category=["SPOT", None])
    other = two_symbols(normalized_symbol=[None, None], coin=["A", None], category=["SPOT", "FUTURE"])
    other = other.cast({"normalized_symbol": pl.String})
    got = pit.universe(pl.concat([markets, other]), HOURS[3:4])
    assert got.drop("timestamp", "exchange").rows() == [
        ("A", "A-USD", "A", "SPOT"),
        ("B", None, "B", "FUTURE"),
    ]
    chains = two_symbols(coin=["BTC", "ETH"]).with_columns(raw_symbol=pl.lit(None, pl.String))
    for chain in (chains, chains.with_columns(raw_symbol=pl.lit(""))):
        assert pit.universe(chain, HOURS[3:4])["coin"].to_list() == ["BTC", "ETH"]


def test_what_is_not_known_is_said() -> None:
    markets = pl.DataFrame(
        {
            "exchange": "X",
            "raw_symbol": ["A", "B", "C"],
            "available_since": at(0, 0, None).alias("available_since"),
            "last_timestamp": at(1, None, 9).alias("last_timestamp"),
        }
    )
    message = "universe: last_timestamp of 1 market of 3 is not known; they count as markets that still exist"
    with pytest.warns(SurvivorWarning, match=message):
        assert universe(markets, HOURS[6:7]) == [(6, "B")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pit.universe(markets.lazy(), HOURS.lazy()).collect()  # not read before it is collected
        assert universe(markets.filter(raw_symbol="A"), HOURS[6:7]) == []


@each_row("tolerance", ["1d", timedelta(days=1)])
def test_by_default_a_day_passes_until_a_market_is_gone(tolerance: str | timedelta) -> None:
    market = {"exchange": "X", "raw_symbol": "A", "available_since": at(0), "last_timestamp": at(3)}
    times = pl.DataFrame({"timestamp": at(-1, 0, 3, 27, 27.1)})
    got = pit.universe(pl.DataFrame(market), times)
    assert got["timestamp"].to_list() == at(0, 3, 27).to_list()
    assert got.equals(pit.universe(pl.DataFrame(market), times, tolerance=tolerance))
    assert got.columns == ["timestamp", "exchange", "raw_symbol"]


def test_it_joins_candles_of_any_unit_of_time() -> None:
    """The times are those of the second frame, so that a join of the two finds them."""
    market = {"exchange": "X", "raw_symbol": "A", "available_since": at(0), "last_timestamp": at(3)}
    candles = pl.DataFrame({"timestamp": at(0, 1).cast(pl.Datetime("us", "UTC")), "close": [1.0, 2.0]})
    candles = candles.with_columns(raw_symbol=pl.lit("A", pl.Categorical()))
    got = pit.universe(pl.DataFrame(market), candles)
    key = ["timestamp", "raw_symbol"]
    assert got.select(key).schema == candles.select(key).schema
    assert candles.join(got, on=key)["close"].to_list() == [1.0, 2.0]
    pandas = pit.universe(pl.DataFrame(market).to_pandas(), candles.to_pandas())
    assert list(candles.to_pandas().merge(pandas, on=key)["close"]) == [1.0, 2.0]


def test_arguments_that_cannot_be() -> None:
    markets = described((Life(("A",), ((0, 1),), ()),))
    with pytest.raises(MissingColumnError, match="last_timestamp"):
        pit.universe(markets.drop("last_timestamp"), HOURS)
    with pytest.raises(MissingColumnError, match="known_at"):
        pit.universe(markets, HOURS, on="known_at")
    with pytest.raises(QueryError, match="tolerance"):
        pit.universe(markets, HOURS, tolerance="-1h")
    with pytest.raises(
        QueryError, match="times: got 'a frame of polars', expected a frame of pandas, like the first"
    ):
        pit.universe(markets.to_pandas(), HOURS)
    with pytest.raises(MissingColumnError, match="renamed_to"):
        pit.under_newest_name(points((Life(("A",), ((0,),), ()),)), markets.drop("renamed_to"))
