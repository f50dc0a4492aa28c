"""Single values of a query: every spelling that is taken, and every mistake that is named."""

from __future__ import annotations

import pickle
from copy import deepcopy
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pydantic import ValidationError

from tables import each_row
from tidytape.catalogue import Interval, Side, Tenor
from tidytape.errors import QueryError
from tidytape.query import PointsQuery

# --- enumerations ---


@each_row(
    ("alias", "name"),
    [
        ("1m", "MINUTE"),
        ("5m", "FIVE_MINUTES"),
        ("15m", "FIFTEEN_MINUTES"),
        ("30m", "THIRTY_MINUTES"),
        ("1h", "HOUR"),
        ("4h", "FOUR_HOURS"),
        ("1d", "DAY"),
        ("1w", "WEEK"),
    ],
)
def test_interval_by_name_and_alias(ask, alias: str, name: str) -> None:
    written = {
        ask(interval=spelling).interval
        for spelling in (alias, name, name.lower(), f" {alias} ", Interval(name))
    }
    assert written == {Interval(name)}


@each_row(
    "value",
    ["2m", "1min", "", "60", 60, True, b"1m", ["1m"], "ONE_D", Tenor.ONE_D, "\u0661m", "1m\n5m"],
)
def test_other_intervals(refuse, value: object) -> None:
    error = refuse(interval=value)
    assert (error.parameter, error.got, error.code) == ("interval", value, "INVALID_INTERVAL")
    assert error.expected == (
        "one of MINUTE (1m), FIVE_MINUTES (5m), FIFTEEN_MINUTES (15m), THIRTY_MINUTES (30m), "
        "HOUR (1h), FOUR_HOURS (4h), DAY (1d), WEEK (1w)"
    )


@pytest.mark.parametrize("value", ["1M", "5M"])
def test_a_capital_m_is_a_month_not_a_minute(refuse, value: str) -> None:
    # Venues and pandas write 1M for a month; minutes in its place would be silently wrong data.
    assert refuse(interval=value).code == "INVALID_INTERVAL"


def test_interval_hint_is_a_name_that_is_taken(ask, refuse) -> None:
    assert refuse(interval="FIVE_MINUTE").hint == "did you mean 'FIVE_MINUTES'?"
    assert refuse(interval="60m").hint == "did you mean '1h'?"
    assert refuse(interval="24h").hint == "did you mean '1d'?"
    assert ask(interval="FIVE_MINUTES").interval == "FIVE_MINUTES"


@each_row(
    ("alias", "name"),
    [
        ("1d", "ONE_D"),
        ("3d", "THREE_D"),
        ("1w", "ONE_W"),
        ("1m", "ONE_M"),
        ("2m", "TWO_M"),
        ("3m", "THREE_M"),
        ("6m", "SIX_M"),
        ("1y", "ONE_Y"),
    ],
)
def test_tenor_by_name_and_alias(ask, alias: str, name: str) -> None:
    written = {
        ask("SKEW_OPTION_SUMMARY_AGG", tenor=spelling).tenor for spelling in (alias, name, alias.upper())
    }
    assert written == {Tenor(name)}


@pytest.mark.parametrize("value", ["5m", "MINUTE", "", 7])
def test_other_tenors(refuse, value: object) -> None:
    error = refuse("SKEW_OPTION_SUMMARY_AGG", tenor=value)
    assert (error.parameter, error.got, error.code) == ("tenor", value, "INVALID_PARAMS")
    assert error.expected.startswith("one of ONE_D (1d), THREE_D (3d), ")


@each_row(
    ("field", "spellings", "value"),
    [
        ("side", ["BUY", "buy", Side.BUY], "BUY"),
        ("side", ["SELL", "sell"], "SELL"),
        ("sort_direction", ["asc", "ASC", "SORT_DIRECTION_ASC", None], "SORT_DIRECTION_ASC"),
        ("sort_direction", ["desc", "DESC", "SORT_DIRECTION_DESC"], "SORT_DIRECTION_DESC"),
        ("quote", ["usd", "USD"], "USD"),
        ("group_by", ["sum", "SUM", "GROUP_BY_TYPE_SUM"], "GROUP_BY_TYPE_SUM"),
        ("tpo_session", ["daily", "DAILY", "TPO_SESSION_DAILY"], "TPO_SESSION_DAILY"),
        ("tpo_session", ["weekly", "WEEKLY", "TPO_SESSION_WEEKLY"], "TPO_SESSION_WEEKLY"),
        ("tpo_session", ["monthly", "MONTHLY", "TPO_SESSION_MONTHLY"], "TPO_SESSION_MONTHLY"),
    ],
)
def test_choice_in_every_spelling(ask, field: str, spellings: list[Any], value: str) -> None:
    assert [getattr(ask("TPO_AGG", **{field: spelling}), field) for spelling in spellings] == [value] * len(
        spellings
    )


@each_row(
    ("field", "value", "hint"),
    [
        ("side", "BOTH", None),
        ("side", "BUYS", "did you mean 'BUY'?"),
        ("side", 2, None),
        ("sort_direction", "up", None),
        ("quote", "EUR", None),
        ("group_by", "mean", None),
        ("tpo_session", "day", "did you mean 'daily'?"),
        ("category", "PERP", "did you mean 'PERPETUAL'?"),
        ("category", "SPOTS", "did you mean 'SPOT'?"),
    ],
)
def test_choice_that_does_not_exist(refuse, field: str, value: object, hint: str | None) -> None:
    error = refuse("TPO_AGG", **{field: value})
    assert (error.parameter, error.got, error.code) == (field, value, "INVALID_PARAMS")
    assert error.expected.startswith("one of ")
    assert error.hint == hint


def test_categories_in_any_case(ask) -> None:
    every = ["spot", "Perpetual", "FUTURE", "option", "combo"]
    assert ask("LIQUIDATION_AGG", category=every).category == (
        "SPOT",
        "PERPETUAL",
        "FUTURE",
        "OPTION",
        "COMBO",
    )


# --- names ---


@each_row(
    ("given", "expected"),
    [
        ("X", ("X",)),
        (["X", "Y"], ("X", "Y")),
        (("Y", "X"), ("Y", "X")),
        (iter(["X", "Y"]), ("X", "Y")),
        (["X", "Y", "X"], ("X", "Y")),
        ([" X ", "X"], ("X",)),
        ({"X": 1}.keys(), ("X",)),
        (np.array(["X", "Y"]), ("X", "Y")),
        (pd.Series(["X", "Y"]), ("X", "Y")),
        (pl.Series(["X", "Y"]), ("X", "Y")),
    ],
)
def test_one_name_or_several(ask, given: Any, expected: tuple[str, ...]) -> None:
    query = ask(exchange=given)
    assert query.exchange == expected
    assert {type(one) for one in query.exchange} == {str}


def test_a_set_of_names_has_one_order(ask) -> None:
    names = {f"V{i}" for i in range(20)}
    assert ask(exchange=names).exchange == tuple(sorted(names))


def test_names_of_venues_keep_their_case(ask) -> None:
    assert ask(exchange=["x", "X"]).exchange == ("x", "X")


@each_row("field", ["exchange", "coin", "raw_symbol", "normalized_symbol", "event", "token_name"])
@each_row(
    "value",
    ["", "   ", "a\x00b", "a\nb", "a\x7fb", "\x85a", "a\n", "\ud800", "x" * 257, 5, 1.5, True, object, b"X"],
)
def test_what_is_no_name(refuse, field: str, value: object) -> None:
    error = refuse("TOKEN_SUPPLY_AGG", **{field: value})
    assert error.parameter == field
    assert "string" in error.expected
    assert len(str(error)) < 400


@each_row("field", ["type", "exchange", "coin", "category", "event"])
@each_row(
    "value",
    [[["X"]], [{}], {"X": 1}, np.array("X"), [None], [1, 2]],
)
def test_what_is_no_list_of_names(refuse, field: str, value: object) -> None:
    assert refuse("LIQUIDATION_AGG", **{field: value}).parameter == field


@each_row("name", ["1000PEPE", "BTC-USDT", "币安人生USDT", "ÑANDÚ", "a b", "x" * 256, "🚀"])
def test_names_in_any_script(ask, name: str) -> None:
    assert ask(coin=name).coin == (name,)


# --- time ---

FRIDAY = 1_723_161_600  # 2024-08-09T00:00:00Z


@each_row(
    "value",
    [
        1_723_161_600,
        1_723_161_600.0,
        "1723161600",
        "2024-08-09",
        "2024-08-09T00:00Z",
        "2024-08-09T00:00:00Z",
        "2024-08-09 00:00:00",
        "2024-08-09T00:00:00.000Z",
        "2024-08-09T05:30:00+05:30",
        "2024-08-08T20:00:00-04:00",
        " 2024-08-09 ",
        date(2024, 8, 9),
        datetime(2024, 8, 9),  # noqa: DTZ001  what has no zone is UTC
        datetime(2024, 8, 9, tzinfo=UTC),
        datetime(2024, 8, 9, 2, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2024, 8, 9, 5, 45, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        pd.Timestamp("2024-08-09"),
        pd.Timestamp("2024-08-09T09:00", tz="Asia/Tokyo"),
        np.datetime64("2024-08-09"),
        np.datetime64("2024-08-09T00:00", "ns"),
        np.datetime64("2024-08-09T00:00", "ms"),
        np.int64(1_723_161_600),
        np.uint32(1_723_161_600),
        np.float64(1_723_161_600),
        pl.Series([datetime(2024, 8, 9, tzinfo=UTC)])[0],
    ],
)
def test_every_usual_time(ask, value: Any) -> None:
    query = ask(start=value, end=FRIDAY + 60)
    assert query.start == FRIDAY
    assert type(query.start) is int


@pytest.mark.parametrize(
    ("fold", "expected"),
    [(0, 1_729_989_000), (1, 1_729_992_600)],
)
def test_the_hour_that_happens_twice(ask, fold: int, expected: int) -> None:
    # 02:30 of 27 October 2024 in Berlin is 00:30 UTC, and an hour later it is 02:30 again.
    value = datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=ZoneInfo("Europe/Berlin"))
    assert ask(start=value, end=expected + 60).start == expected


@each_row(
    "value",
    [
        0.5,
        "2024-08-09T00:00:00.5Z",
        "2024-08-09T00:00:00.0000005Z",
        "2024-08-09T00:00:00.000000001Z",
        datetime(2024, 8, 9, microsecond=1, tzinfo=UTC),
        pd.Timestamp("2024-08-09") + pd.Timedelta(1, "ns"),
        np.datetime64("2024-08-09T00:00:00.000000001"),
    ],
)
def test_less_than_a_second_is_refused(refuse, value: Any) -> None:
    error = refuse(start=value, end=FRIDAY + 60)
    assert (error.parameter, error.expected, error.hint) == (
        "start",
        "a whole second",
        "the service counts in seconds",
    )


@each_row(
    "value",
    [
        *(True, False, np.True_, float("nan"), float("inf"), -float("inf")),
        *("", "yesterday", "09/08/2024", "2024-13-01", "2024-08-09T25:00", "٢٠٢٤", "1e9", "9" * 400),
        *(time(1), timedelta(1), b"5", [5], (5,), {}, Decimal(5), 1j),
        *(pd.NaT, np.datetime64("NaT"), np.array(["2024-08-09"] * 2, dtype="M8[s]"), np.array([5, 6])),
    ],
)
def test_what_is_no_time(refuse, value: Any) -> None:
    for field in ("start", "end"):
        error = refuse(**{field: value})
        assert error.parameter == field
        assert "a datetime, a date or an ISO 8601 string" in error.expected


@pytest.mark.parametrize("field", ["start", "end"])
def test_a_time_must_be_given(refuse, field: str) -> None:
    error = refuse(**{field: None})
    assert (error.parameter, error.got, error.expected) == (field, None, "a value; it is required")


def test_none_is_not_given(ask) -> None:
    assert ask(gapfill=None, sort_direction=None, max_depth=None, category=None) == ask()


@pytest.mark.parametrize("value", ["20240809", "2024", "202408"])
def test_digits_that_look_like_a_date_are_not_seconds_of_1970(value: str) -> None:
    # ISO 8601 allows the basic form; reading it as 20,240,809 s is August 1970, and silently wrong.
    with pytest.raises(QueryError, match="start"):
        PointsQuery(type="TRADE_AGG", exchange="X", coin="B", interval="1w", start=value, end="2024-08-10")


@pytest.mark.parametrize(
    "value", [1_723_161_600_000, "1723161600000", 1.7231616e12, 1_723_161_600_000_000_000], ids=repr
)
def test_milliseconds_by_mistake_are_named(refuse, value: Any) -> None:
    error = refuse(start=value)
    assert (error.parameter, error.got) == ("start", value)
    assert error.hint == "epoch times are in seconds; this looks like milliseconds or finer"


@each_row(
    "value",
    [
        -1,
        "1969-12-31",
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, tzinfo=UTC),
        "2106-02-08",
        10**30,
    ],
)
def test_times_the_service_cannot_hold(refuse, value: Any) -> None:
    error = refuse(start=value)
    assert (error.parameter, error.expected) == ("start", "a time from 1970-01-01 to 2106-02-07 UTC")


def test_the_last_second_the_service_can_hold(ask, refuse) -> None:
    assert ask(start=2**32 - 1, end=2**32).period == 1
    assert refuse(start=2**32 - 1, end=2**32 + 1).parameter == "end"


# --- numbers, durations, flags ---


@each_row(
    ("value", "expected"),
    [(1, 1), ("3500", 3500), (3501.0, 3501), (np.int32(7), 7), (2**63 - 1, 2**63 - 1), (" 5 ", 5)],
)
def test_max_depth(ask, value: Any, expected: int) -> None:
    query = ask("BLOCK_BOOK_SNAPSHOT_AGG", max_depth=value)
    assert query.max_depth == expected
    assert type(query.max_depth) is int


@each_row(
    "value",
    [
        0,
        -1,
        2**63,
        1.5,
        "1.5",
        "",
        "x",
        "\uff11\uff12",
        "1_000",
        "0x10",
        True,
        float("inf"),
        [1],
        np.array([1, 2]),
        "9" * 5000,
    ],
)
def test_what_is_no_depth(refuse, value: Any) -> None:
    error = refuse("BLOCK_BOOK_SNAPSHOT_AGG", max_depth=value)
    assert (error.parameter, error.expected) == ("max_depth", "a whole number from 1 to 9223372036854775807")
    assert len(str(error)) < 250


@each_row(
    ("value", "expected"),
    [
        (28_800_000, 28_800_000),
        ("28800000", 28_800_000),
        ("8", 8),  # digits are milliseconds, as on the wire
        ("8h", 28_800_000),
        ("1d", 86_400_000),
        ("90m", 5_400_000),
        ("1s", 1_000),
        ("250ms", 250),
        (timedelta(hours=8), 28_800_000),
        (pd.Timedelta("1h"), 3_600_000),
    ],
)
def test_funding_interval_in_milliseconds(ask, value: Any, expected: int) -> None:
    assert ask("FUNDING_RATE_AGG", funding_interval=value).funding_interval == expected


@each_row("value", [0, -1, "8 h", "h", "1w", "-1h", 0.5, True, timedelta(0), timedelta(microseconds=1)])
def test_what_is_no_funding_interval(refuse, value: Any) -> None:
    error = refuse("FUNDING_RATE_AGG", funding_interval=value)
    assert error.parameter == "funding_interval"
    assert error.got == value


@each_row(
    ("value", "expected"),
    [
        (0.1, "0.1"),
        (5, "5"),
        ("0.00000001", "1E-8"),
        (Decimal("2.50"), "2.5"),
        (100.0, "1E+2"),
        (1e-12, "1E-12"),
        (10**12, "1E+12"),
        (np.float64(0.1), "0.1"),
        ("1.00000000000000000000", "1"),
        (np.int64(5), "5"),
    ],
)
def test_block_size_is_the_decimal_it_is_written_as(ask, value: Any, expected: str) -> None:
    assert str(ask("VOLUME_PROFILE_AGG", block_size=value).block_size) == expected


@each_row(
    "value",
    [
        *(0, -1, "", "x", "NaN", "Infinity", "-0.1", float("nan"), float("inf"), True, [1], "1e13", 9e-13),
        *(
            "1.2345678901234567",
            0.1 + 0.2,
            "1e99999999999999999999",
            "1e-99999999999999999999",
            "sNaN",
            "1" * 5000,
        ),
    ],
)
def test_what_is_no_block_size(refuse, value: Any) -> None:
    error = refuse("VOLUME_PROFILE_AGG", block_size=value)
    assert error.parameter == "block_size"
    assert error.expected in {"a number from 1e-12 to 1e12", "a number of at most 15 significant digits"}


@each_row(
    ("value", "expected"),
    [(True, True), (False, False), ("true", True), ("False", False), ("1", True), ("0", False)],
)
def test_gapfill_values(ask, value: Any, expected: bool) -> None:  # noqa: FBT001
    assert ask(gapfill=value).gapfill is expected


@each_row("value", ["yes", "", 1, 0, 2, [True]])
def test_what_is_no_flag(refuse, value: Any) -> None:
    error = refuse(gapfill=value)
    assert (error.parameter, error.got, error.expected) == ("gapfill", value, "true or false")


# --- the query as a value ---


def test_unknown_field_names_the_nearest(refuse) -> None:
    for wrong, right in {
        "raw_simbol": "raw_symbol",
        "intervall": "interval",
        "rawSymbol": "raw_symbol",
    }.items():
        error = refuse(**{wrong: "S"})
        assert (error.parameter, error.got, error.code) == (wrong, "S", "INVALID_PARAMS")
        assert error.hint == f"did you mean {right!r}?"


def test_unknown_field_without_a_near_one_lists_them(refuse) -> None:
    error = refuse(zzz=1)
    assert error.hint == (
        "known: type, exchange, raw_symbol, coin, normalized_symbol, category, token_name, interval, tenor, "
        "start, end, side, sort_direction, gapfill, quote, group_by, funding_interval, tpo_block_minutes, "
        "tpo_session, max_depth, block_size, event"
    )


def test_error_reads_as_what_got_expected(refuse) -> None:
    assert str(refuse(side="BUYS")) == (
        "side: got 'BUYS', expected one of SELL (sell), BUY (buy); did you mean 'BUY'?"
    )


def test_a_query_cannot_be_changed(ask) -> None:
    query = ask()
    with pytest.raises(ValidationError, match="frozen"):
        query.start = 5
    with pytest.raises(TypeError):
        query.exchange[0] = "Y"
    assert (query.start, query.exchange) == (0, ("X",))


@pytest.mark.parametrize(
    "changes",
    [{"exchange": ["X"]}, {"interval": "MINUTE"}, {"end": "1970-01-01T01:00Z"}, {"sort_direction": None}],
)
def test_equal_however_it_is_written(ask, changes: dict[str, Any]) -> None:
    assert ask(**changes) == ask()
    assert hash(ask(**changes)) == hash(ask())
    assert {ask(**changes), ask()} == {ask()}


@pytest.mark.parametrize("changes", [{"exchange": "Y"}, {"end": 3601}, {"gapfill": True}, {"side": "BUY"}])
def test_different_when_it_asks_for_something_else(ask, changes: dict[str, Any]) -> None:
    assert ask(**changes) != ask()


def test_equal_after_pickle_and_copy(ask) -> None:
    query = ask(
        "VOLUME_PROFILE_AGG", exchange=["X", "Y"], group_by="sum", block_size="0.1", category="SPOT", end=61
    )
    for again in (pickle.loads(pickle.dumps(query)), deepcopy(query)):
        assert again == query
        assert hash(again) == hash(query)
        assert again.to_params() == query.to_params()


def test_properties_of_a_query(ask) -> None:
    query = ask(type=["TRADE_AGG", "NEW_AGG"], interval="5m", start=300, end=1_201)
    assert (query.period, query.step, query.points) == (901, 300, 4)
    assert [kind.name for kind in query.data_types] == ["TRADE_AGG"]
