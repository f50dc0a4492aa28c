"""A valid query of every data type, and the error of a changed one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidytape.errors import QueryError
from tidytape.query import PointsQuery

OF_A_COIN = {"exchange": "X", "coin": "BTC"}
SELECTION: dict[str, dict[str, Any]] = {
    "TOKEN_SUPPLY_AGG": {"token_name": "Bitcoin"},
    "VENUEX_LIQUIDATION_AGG": {"coin": "BTC"},
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": {
        "exchange": "X",
        "coin": "BTC",
        "raw_symbol": "BTC_ATM",
        "tenor": "ONE_W",
    },
    "SKEW_OPTION_SUMMARY_AGG": {"exchange": "X", "coin": "BTC", "raw_symbol": "BTC_25", "tenor": "ONE_W"},
}

Ask = Callable[..., Any]


def fields_of(name: str, **changes: Any) -> dict[str, Any]:
    fields = {
        "type": name,
        "interval": "1m",
        "start": 0,
        "end": 3600,
        **SELECTION.get(name, OF_A_COIN),
        **changes,
    }
    return {field: value for field, value in fields.items() if value is not ...}


@pytest.fixture
def ask() -> Ask:
    """``ask(type, **changes)``: the query of a type, one hour of minutes; ``...`` leaves a field out."""
    return lambda name="TRADE_AGG", /, **changes: PointsQuery(**fields_of(name, **changes))


@pytest.fixture
def refuse() -> Ask:
    """``refuse(type, **changes)``: the error that the changed query raises."""

    def refused(name: str = "TRADE_AGG", /, **changes: Any) -> QueryError:
        with pytest.raises(QueryError) as caught:
            PointsQuery(**fields_of(name, **changes))
        return caught.value

    return refused


@pytest.fixture
def refuse_params() -> Ask:
    """``refuse_params(*changes)``: the error of URL parameters; a bare name drops it, a pair is added."""

    def refused(*changes: str | tuple[str, str]) -> QueryError:
        params = [
            *(("type", "TRADE_AGG"), ("exchange", "X"), ("coin", "BTC")),
            *(("interval", "MINUTE"), ("from", "0"), ("period", "3600")),
        ]
        dropped = {change for change in changes if isinstance(change, str)}
        kept = [pair for pair in params if pair[0] not in dropped]
        with pytest.raises(QueryError) as caught:
            PointsQuery.from_params([*kept, *(change for change in changes if isinstance(change, tuple))])
        return caught.value

    return refused
