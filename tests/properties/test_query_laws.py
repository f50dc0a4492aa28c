"""Laws of the queries: what is written is read back, every mistake is a QueryError, a split loses nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidytape.budget import weight
from tidytape.catalogue import DATA_TYPES
from tidytape.errors import QueryError, escaped
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery

SECONDS = {
    "MINUTE": 60,
    "FIVE_MINUTES": 300,
    "FIFTEEN_MINUTES": 900,
    "THIRTY_MINUTES": 1_800,
    "HOUR": 3_600,
    "FOUR_HOURS": 14_400,
    "DAY": 86_400,
    "WEEK": 604_800,
}
TENORS = ("ONE_D", "THREE_D", "ONE_W", "ONE_M", "TWO_M", "THREE_M", "SIX_M", "ONE_Y")
CATEGORIES = ("SPOT", "PERPETUAL", "FUTURE", "OPTION", "COMBO")
CANDLES = ("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG")
PROFILES = ("VOLUME_PROFILE_AGG", "TPO_AGG", "VENUEX_LIQUIDATION_AGG", "BLOCK_BOOK_SNAPSHOT_AGG")
LAST = 2**32

# Names in any script, with what a URL must escape, but printable and with no blanks around them.
text = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp", "Cf"]), min_size=1, max_size=12
)
names = text | st.lists(text, min_size=1, max_size=4)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def selections(draw: st.DrawFn, name: str) -> dict[str, Any]:
    if name == "VENUEX_LIQUIDATION_AGG":
        return {"coin": draw(names)}
    if name == "TOKEN_SUPPLY_AGG":
        return draw(st.sampled_from([{"token_name": "t"}, {"coin": "c"}])) | {
            "exchange": draw(st.just(()) | names)
        }
    if name == "SKEW_OPTION_SUMMARY_AGG":
        tenor = draw(st.sampled_from(TENORS))
        return {"exchange": draw(text), "coin": draw(names), "raw_symbol": draw(names), "tenor": tenor}
    if name == "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG":
        tenor = draw(maybe(st.sampled_from(TENORS)))
        return {
            "exchange": draw(names),
            "coin": draw(names),
            "raw_symbol": draw(st.just(()) | names),
            "tenor": tenor,
        }
    way = draw(st.sampled_from(["raw_symbol", "normalized_symbol", "coin"]))
    return {"exchange": draw(names), way: draw(names)}


@st.composite
def options(draw: st.DrawFn, name: str) -> dict[str, Any]:
    kind = DATA_TYPES[name]
    fields: dict[str, Any] = {
        "side": draw(maybe(st.sampled_from(["BUY", "SELL"]))),
        "sort_direction": draw(st.sampled_from(["asc", "desc"])),
        "funding_interval": draw(maybe(st.integers(1_000, 2**63 - 1))),
        "max_depth": draw(maybe(st.integers(1, 2**63 - 1))),
        "event": draw(st.just(()) | names),
    }
    classes = [str(category) for category in kind.categories] or CATEGORIES
    fields["category"] = draw(st.just(()) | st.lists(st.sampled_from(classes), min_size=1))
    if name in CANDLES:
        fields["gapfill"] = draw(st.booleans())
    if kind.usd:
        fields["quote"] = draw(maybe(st.just("USD")))
    if kind.group_by:
        fields["group_by"] = draw(maybe(st.just(kind.group_by)))
    if name == "TPO_AGG":
        fields["tpo_block_minutes"] = draw(maybe(st.sampled_from([5, 30, 60, 240])))
        fields["tpo_session"] = draw(maybe(st.sampled_from(["daily", "weekly", "monthly"])))
    if name in PROFILES:
        digits = st.integers(1, 10**15 - 1)
        fields["block_size"] = draw(
            maybe(st.builds(lambda n, e: Decimal(n).scaleb(e), digits, st.integers(-12, -3)))
        )
    return fields


@st.composite
def windows(draw: st.DrawFn, name: str) -> dict[str, Any]:
    interval = draw(st.sampled_from(sorted(SECONDS)))
    if name == "TRADE":
        interval = draw(maybe(st.just(interval)))
    longest = DATA_TYPES[name].max_points * SECONDS[interval or "MINUTE"]
    start = draw(st.integers(0, LAST - 1))
    end = draw(st.integers(start + 1, min(LAST, start + longest)))
    return {"interval": interval, "start": start, "end": end}


@st.composite
def fields_of_points(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(sorted(DATA_TYPES)))
    fields = {"type": name} | draw(selections(name)) | draw(options(name)) | draw(windows(name))
    if fields.get("group_by") and fields.get("raw_symbol") and not DATA_TYPES[name].group_by_raw_symbol:
        fields["group_by"] = None
    return fields


@pytest.mark.slow
@given(fields=fields_of_points())
def test_a_query_is_what_its_parameters_say(fields: dict[str, Any]) -> None:
    query = PointsQuery(**fields)
    params = query.to_params()
    again = PointsQuery.from_params(params)
    assert again == query
    assert hash(again) == hash(query)
    assert again.to_params() == params
    assert pickle.loads(pickle.dumps(query)) == query
    assert PointsQuery.from_params(parse_qsl(urlencode(params), keep_blank_values=True)) == query
    assert {name for name, _ in params} <= set(PointsQuery.WIRE.values())


@pytest.mark.slow
@given(fields=fields_of_points(), data=st.data())
def test_order_of_the_parameters_does_not_matter(fields: dict[str, Any], data: st.DataObject) -> None:
    query = PointsQuery(**fields)
    by_name: dict[str, list[tuple[str, str]]] = {}
    for name, value in query.to_params():
        by_name.setdefault(name, []).append((name, value))
    shuffled = data.draw(st.permutations(sorted(by_name)))
    assert PointsQuery.from_params([pair for name in shuffled for pair in by_name[name]]) == query


@pytest.mark.slow
@given(fields=fields_of_points())
def test_valid_points_and_weight_are_within_their_limits(fields: dict[str, Any]) -> None:
    query = PointsQuery(**fields)
    kind = DATA_TYPES[fields["type"]]
    assert 1 <= query.points <= kind.max_points
    assert (query.points - 1) * query.step < query.period <= query.points * query.step
    assert weight(query) >= kind.multiplier


markets = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(["exchange", "coin", "type"], names),
        "category": st.lists(st.sampled_from(CATEGORIES[:2])),
        "symbol_filter": text,
        "page_size": st.integers(1, 2**31 - 1),
        "page_offset": st.integers(0, 2**31 - 1),
        "sort_field": st.sampled_from(["VOLUME_24H", "PCT_FROM_ATH", "MARKET_SYMBOL_ATR_PERCENT"]),
        "sort_direction": st.sampled_from(["asc", "desc"]),
        "distinct": st.booleans(),
    },
)
metas = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(["type", "exchange", "coin", "raw_symbol", "normalized_symbol"], names),
        "category": st.lists(st.sampled_from(CATEGORIES)),
        "start": st.integers(0, 2**31),
        "end": st.integers(2**31 + 1, LAST),
    },
)


@pytest.mark.slow
@given(fields=markets)
def test_a_markets_query_is_what_its_parameters_say(fields: dict[str, Any]) -> None:
    query = MarketsQuery(**fields)
    assert MarketsQuery.from_params(parse_qsl(urlencode(query.to_params()))) == query


@pytest.mark.slow
@given(fields=metas)
def test_a_meta_query_is_what_its_parameters_say(fields: dict[str, Any]) -> None:
    query = MetaQuery(**fields)
    assert MetaQuery.from_params(parse_qsl(urlencode(query.to_params()))) == query


# --- whatever comes in, only one kind of error comes out ---


def tried(make: Callable[[], Any]) -> tuple[Any, QueryError | None]:
    try:
        return make(), None
    except QueryError as error:
        return None, error


BASE = {"type": "TPO_AGG", "exchange": "X", "coin": "BTC", "interval": "1h", "start": 0, "end": 3_600}
nasty = (
    st.sampled_from(
        ["", " ", "0", "-1", "NaN", "1e999", "9" * 50, "\x00", "true", "1h", "\uff12", "2024-08-09", "BUY"]
    )
    | st.text(max_size=20)
    | st.integers().map(str)
    | st.sampled_from([*SECONDS, *TENORS, *CATEGORIES, *DATA_TYPES])
)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.decimals()
    | st.fractions()
    | st.text(max_size=20)
    | st.binary(max_size=5)
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.dates()
    | st.times()
    | st.timedeltas(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.frozensets(st.integers() | st.text(max_size=5), max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=5,
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PointsQuery, MarketsQuery, MetaQuery])
@given(data=st.data())
def test_any_parameters_give_a_query_or_a_query_error(kind: Any, data: st.DataObject) -> None:
    wire_names = st.sampled_from(sorted(kind.WIRE.values()))
    base = [
        (kind.WIRE[name], "3600" if name in {"start", "end"} else str(BASE[name]))
        for name in BASE
        if name in kind.WIRE
    ]
    kept = data.draw(st.lists(st.sampled_from(base), unique=True))
    params = [*kept, *data.draw(st.lists(st.tuples(wire_names | st.text(max_size=10), nasty), max_size=5))]
    query, error = tried(lambda: kind.from_params(params))
    if error is None:
        assert kind.from_params(query.to_params()) == query
    else:
        assert error.parameter in {*kind.WIRE.values(), *(name for name, _ in params)}
        parameter = escaped(str(error.parameter))
        assert str(error).startswith((f"{parameter}: got ", f"{parameter}: left out"))


@pytest.mark.slow
@pytest.mark.parametrize("field", sorted(PointsQuery.WIRE))
@given(value=anything)
def test_any_value_of_a_field_gives_a_query_or_a_query_error(field: str, value: Any) -> None:
    query, error = tried(lambda: PointsQuery(**{**BASE, field: value}))
    if error is None:
        assert PointsQuery.from_params(query.to_params()) == query
    else:
        assert error.parameter in PointsQuery.WIRE
        assert len(str(error)) < 1_000
        assert "Input should be" not in str(error)  # pydantic's words, not ours


# --- split ---


@st.composite
def long_windows(draw: st.DrawFn, weigh: Callable[[str], bool]) -> dict[str, Any]:
    name = draw(st.sampled_from([name for name in sorted(DATA_TYPES) if weigh(name)]))
    fields = {"type": name} | draw(selections(name)) | draw(options(name))
    if fields.get("raw_symbol"):
        fields["group_by"] = None
    fields["interval"] = draw(st.sampled_from(sorted(SECONDS)))
    longest = 7 * DATA_TYPES[name].max_points * SECONDS[fields["interval"]]
    start = draw(st.integers(0, LAST - 1))
    return fields | {"start": start, "end": draw(st.integers(start + 1, min(LAST, start + longest)))}


@pytest.mark.slow
@given(fields=long_windows(lambda name: True))
def test_split_covers_the_window_exactly(fields: dict[str, Any]) -> None:
    parts = list(PointsQuery.split(**fields))
    most = DATA_TYPES[fields["type"]].max_points
    assert (parts[0].start, parts[-1].end) == (fields["start"], fields["end"])
    assert all(early.end == late.start for early, late in pairwise(parts))
    assert all(part.points <= most for part in parts)
    assert all(PointsQuery.from_params(part.to_params()) == part for part in parts)
    # No fewer requests could do: every part but the last is full.
    assert all(part.points == most for part in parts[:-1])


@pytest.mark.slow
@given(fields=long_windows(lambda name: DATA_TYPES[name].multiplier == 1))
def test_split_of_a_1x_type_on_one_exchange_weighs_what_the_whole_formula_says(
    fields: dict[str, Any],
) -> None:
    parts = list(PointsQuery.split(**fields | {"group_by": None}))
    thousands = -(-(fields["end"] - fields["start"]) // (1_000 * SECONDS[fields["interval"]]))
    assert sum(map(weight, parts)) == thousands


@pytest.mark.slow
@given(fields=long_windows(lambda name: True), data=st.data())
def test_split_on_one_exchange_is_never_dearer_than_other_cuts(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    fields |= {"group_by": None, "max_depth": None}
    most = DATA_TYPES[fields["type"]].max_points * SECONDS[fields["interval"]]
    start, end = fields.pop("start"), fields.pop("end")
    cuts, at = [start], start
    while at < end and len(cuts) < 50:
        at = min(end, at + data.draw(st.integers(max(1, most // 3), most)))
        cuts.append(at)
    other = sum(weight(PointsQuery(**fields, start=early, end=late)) for early, late in pairwise(cuts))
    assert sum(map(weight, PointsQuery.split(**fields, start=start, end=end))) <= other
