"""The queries of markets and of the list endpoints."""

from __future__ import annotations

from typing import Any

import pytest

from tables import each_row
from tidytape.errors import QueryError
from tidytape.query import MarketsQuery, MetaQuery

MARKETS = [
    ("exchange", "X"),
    ("exchange", "Y"),
    ("coin", "BTC"),
    ("coin", "ETH"),
    ("category", "SPOT"),
    ("category", "PERPETUAL"),
    ("type", "TRADE_AGG"),
    ("type", "TPO_AGG"),
    ("symbolFilter", "usd"),
    ("pageSize", "50"),
    ("pageOffset", "100"),
    ("sortCriteria.field", "MARKET_SYMBOL_OI_CHANGE_24H"),
    ("sortCriteria.direction", "SORT_DIRECTION_DESC"),
    ("distinct", "true"),
]
META = [
    ("type", "TRADE_AGG"),
    ("exchange", "X"),
    ("category", "SPOT"),
    ("coin", "BTC"),
    ("rawSymbol", "S"),
    ("rawSymbol", "T"),
    ("normalizedSymbol", "B-Q"),
    ("from", "1723161600"),
    ("to", "1723165200"),
]


def test_every_parameter_of_markets() -> None:
    query = MarketsQuery.from_params(MARKETS)
    assert query == MarketsQuery(
        exchange=["X", "Y"],
        coin=["BTC", "ETH"],
        category=["spot", "perpetual"],
        type=["TRADE_AGG", "TPO_AGG"],
        symbol_filter="usd",
        page_size=50,
        page_offset=100,
        sort_field="oi_change_24h",
        sort_direction="desc",
        distinct=True,
    )
    assert query.to_params() == MARKETS


def test_every_parameter_of_the_lists() -> None:
    query = MetaQuery.from_params(META)
    assert query == MetaQuery(
        type="TRADE_AGG",
        exchange="X",
        category="SPOT",
        coin="BTC",
        raw_symbol=["S", "T"],
        normalized_symbol="B-Q",
        start="2024-08-09",
        end="2024-08-09T01:00Z",
    )
    assert query.to_params() == META


@pytest.mark.parametrize("kind", [MarketsQuery, MetaQuery])
def test_asking_for_everything(kind: type[MarketsQuery | MetaQuery]) -> None:
    assert kind().to_params() == []
    assert kind.from_params([]) == kind()
    assert hash(kind()) == hash(kind.from_params([]))


@each_row(
    ("alias", "value"),
    [
        ("volume_24h", "VOLUME_24H"),
        ("price_change_24h", "PRICE_CHANGE_24H"),
        ("pct_from_ath", "PCT_FROM_ATH"),
        ("oi_change_24h", "MARKET_SYMBOL_OI_CHANGE_24H"),
        ("atr_percent", "MARKET_SYMBOL_ATR_PERCENT"),
        ("marketcap", "MARKET_SYMBOL_MARKETCAP"),
        ("available_since", "AVAILABLE_SINCE"),
    ],
)
def test_sort_fields(alias: str, value: str) -> None:
    assert MarketsQuery(sort_field=alias).to_params() == [("sortCriteria.field", value)]
    assert MarketsQuery(sort_field=value) == MarketsQuery(sort_field=alias)


def test_a_direction_that_was_asked_for_is_sent() -> None:
    # The specification gives no default order of markets, so a service may take another one than ours.
    assert ("sortCriteria.direction", "SORT_DIRECTION_ASC") in MarketsQuery(
        sort_field="marketcap", sort_direction="asc"
    ).to_params()


@each_row(
    ("changes", "parameter"),
    [
        ({"page_size": 0}, "page_size"),
        ({"page_size": 2**31}, "page_size"),
        ({"page_size": 1.5}, "page_size"),
        ({"page_offset": -1}, "page_offset"),
        ({"sort_field": "volume"}, "sort_field"),
        ({"sort_direction": "up"}, "sort_direction"),
        ({"distinct": "maybe"}, "distinct"),
        ({"symbol_filter": ""}, "symbol_filter"),
        ({"category": "PERPS"}, "category"),
        ({"limit": 5}, "limit"),
    ],
)
def test_mistakes_in_a_markets_query(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(QueryError) as caught:
        MarketsQuery(**changes)
    assert caught.value.parameter == parameter


@each_row(
    ("pair", "parameter", "hint"),
    [
        (("pageSizes", "5"), "pageSizes", "did you mean 'pageSize'?"),
        (("sortCriteria.fields", "x"), "sortCriteria.fields", "did you mean 'sortCriteria.field'?"),
        (("sortCriteria.field", "VOLUME_24"), "sortCriteria.field", "did you mean 'VOLUME_24H'?"),
        (("pageSize", "many"), "pageSize", None),
        (("distinct", ""), "distinct", None),
        (("from", "0"), "from", None),
    ],
)
def test_mistakes_on_the_wire_of_markets(pair: tuple[str, str], parameter: str, hint: str | None) -> None:
    with pytest.raises(QueryError) as caught:
        MarketsQuery.from_params([pair])
    assert caught.value.parameter == parameter
    if hint:
        assert caught.value.hint == hint


@pytest.mark.parametrize("name", ["pageSize", "pageOffset", "symbolFilter", "sortCriteria.field", "distinct"])
def test_single_valued_parameters_of_markets(name: str) -> None:
    with pytest.raises(QueryError, match="to be given once") as caught:
        MarketsQuery.from_params([(name, "1"), (name, "1")])
    assert caught.value.parameter == name


@pytest.mark.parametrize(("end", "got"), [(3600, "1970-01-01T01:00:00Z"), (3599, "1970-01-01T00:59:59Z")])
def test_a_span_must_have_length(end: int, got: str) -> None:
    with pytest.raises(QueryError, match="end") as caught:
        MetaQuery(start=3600, end=end)
    assert (caught.value.parameter, caught.value.got) == ("end", got)


@pytest.mark.parametrize("only", [{"start": 5}, {"end": 5}])
def test_a_span_may_be_open(only: dict[str, int]) -> None:
    assert MetaQuery(**only).to_params() == [("from" if "start" in only else "to", "5")]


def test_a_span_of_no_length_is_told_in_wire_spelling() -> None:
    with pytest.raises(QueryError) as caught:
        MetaQuery.from_params([("from", "5"), ("to", "5")])
    assert caught.value.parameter == "to"
    assert "start" not in caught.value.expected


@pytest.mark.parametrize("pair", [("interval", "MINUTE"), ("period", "5"), ("raw_symbol", "S")])
def test_lists_know_their_own_parameters_only(pair: tuple[str, str]) -> None:
    with pytest.raises(QueryError, match="no such parameter") as caught:
        MetaQuery.from_params([pair])
    assert caught.value.parameter == pair[0]
