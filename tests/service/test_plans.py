"""Two laws of plans: what a plan does not read changes no byte of an answer, and each thing that it reads changes some.

A lake has one event after another appended to it, each in a commit of its own: in every table, at times inside and
outside of a window. A moment before and a moment after a commit then differ by one event, and so do their answers or
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import polars as pl
import pytest

from tidytape.catalogue import DATA_TYPES
from tidytape.errors import QueryError
from tidytape.lake import TABLES, Lake
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._estimate import Statistics, estimated
from tidytape.service.answer._plans import PLANS, Reach, reads, tables_read
from tidytape.times import DAY, HOUR, MINUTE, SECOND
from tidytape.wire._encode import encode_all

pytestmark = pytest.mark.slow

START = 1_723_161_600 * SECOND  # 2024-08-09T00:00:00Z
END = START + HOUR
# When the commits happen, earliest first, and the part of the time that each lies in.
TIMES = {
    "long before": START - 3 * DAY,
    "a day before": START - 20 * HOUR,
    "before": START - MINUTE,
    "first interval": START + MINUTE,
    "third interval": START + 40 * MINUTE,
    "after": END + HOUR,
    "long after": END + 3 * DAY,
}
# Events that are there before all commits: far away, so that no commit moves the ends of history, and in the window.
FAR = (START - 9 * DAY, START - 2 * DAY, END + 9 * DAY)
MINUTES = {
    "trades": (48, 52), "open_interest": (33, 50), "funding": (5, 33, 50), "liquidations": (48, 52),
    "cme_open_interest": (52,), "token_supply": (), "quote_rates": (),
}  # fmt: skip
QUOTES = {"X": "USDT", "Y": "USD", "Z": "EUR", "W": "GBP"}
MARKETS = [(exchange, f"BTC{quote}", "BTC", quote) for exchange, quote in QUOTES.items()]
MORE_MARKETS = [
    ("X", "ETHUSDT", "ETH", "USDT"),
    ("V", "GBPUSD", "GBP", "USD"),
    ("CME", "BTCQ4", "BTC", "USD"),
]

Rows = list[dict[str, Any]]
Make = Callable[..., Rows]
Levels = tuple[tuple[str, float], ...]


def of_market(time: int, number: int, exchange: str, symbol: str, *_: str) -> dict[str, Any]:
    """Return an event of a market, with the columns of every table that has events of markets."""
    price, amount, seconds = 100.0 + number / 8, 1.0 + number, (time - START) // SECOND
    return {
        "exchange": exchange, "raw_symbol": symbol, "timestamp": time, "id": str(number), "sequence": number,
        "last_id": seconds + 10**6, "first_id": seconds + 10**6, "is_snapshot": False, "size": amount,
        "side": "BUY", "price": price, "amount": amount, "quote_amount": price * amount, "usd_amount": amount,
        "open": price, "high": price, "low": price, "close": price, "volume": amount, "quote_volume": price,
        "interval": MINUTE, "rate": number / 1e4, "predicted_rate": number / 1e5, "funding_interval": 8 * HOUR,
    }  # fmt: skip


def of_book(time: int, number: int, *, levels: Levels, is_snapshot: bool = False) -> Rows:
    return [
        of_market(time, number, *market) | {"side": side, "price": price, "is_snapshot": is_snapshot}
        for market, (side, price) in product(MARKETS, levels)
    ]


def of_chain(time: int, number: int, *, coin: str = "BTC", more: bool = False) -> Rows:
    """Return the quotes of a chain of two expiries, around a week away; ``more`` adds an option of its own."""
    strikes = [*range(70, 140, 5), *([150 + number] if more else [])]
    return [
        {
            "exchange": "DERIBIT", "raw_symbol": f"{coin}-{days}-{strike}-{kind[0]}", "timestamp": time, "coin": coin,
            "option_type": kind, "strike": float(strike), "expiry": START + days * DAY,
            "implied_volatility": 60.0 + abs(strike - 100) / 5 + number / 8, "forward": 100.0 + number / 8,
            "open_interest": 2.0 + number,
        }
        for days, strike, kind in product((6, 9), strikes, ("CALL", "PUT"))
    ]  # fmt: skip


def of_token(time: int, number: int, *, token: str = "ethereum") -> Rows:
    return [{"token_name": token, "coin": token[:3], "timestamp": time, "marketcap": 1e12 + number * 1e9}]


def of_quote(time: int, number: int) -> Rows:
    return [{"quote_coin": "EUR", "timestamp": time, "usd": 1.1 + number / 1e3}]


def of_markets(*markets: tuple[str, str, str, str]) -> Make:
    return lambda time, number: [of_market(time, number, *market) for market in markets]


OF_MARKETS = ("trades", "candles", "open_interest", "funding", "liquidations")
MADE: Mapping[str, Make] = {
    **dict.fromkeys(OF_MARKETS, of_markets(*MARKETS)),
    "book": partial(of_book, levels=(("BID", 91.0),)),
    "cme_open_interest": of_markets(MORE_MARKETS[2]),
    "option_quotes": partial(of_chain, more=True),
    "token_supply": of_token,
    "quote_rates": of_quote,
}
"""The events of a commit by table, at some time, of all markets that a query may select."""


@dataclass(frozen=True)
class Commit:
    """A commit to a table: the versions of the lake before and after it."""

    table: str
    time: str
    before: Mapping[str, int] = field(repr=False)
    after: Mapping[str, int] = field(repr=False)


@dataclass(frozen=True)
class Laboratory:
    """The lake, its versions before all commits, and the commits by table, first those of markets that are selected."""

    lake: Lake
    base: Mapping[str, int]
    commits: Mapping[str, list[Commit]]


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    lake = Lake.create(tmp_path_factory.mktemp("plans") / "lake")
    columns = ("exchange", "raw_symbol", "coin", "quote_coin")
    markets = pl.DataFrame([*MARKETS, *MORE_MARKETS], schema=columns, orient="row")
    symbol = pl.col("coin") + "-USD"
    lake.writer().register(
        markets.with_columns(normalized_symbol=symbol, category=pl.lit("PERPETUAL"), block_size=0.5)
    )
    numbers = iter(range(1, 10_000))

    def append(table: str, *times: int, make: Make) -> None:
        rows = [row for time in times for row in make(time, next(numbers))]
        lake.writer().append(table, TABLES[table].conform(pl.DataFrame(rows)), source=str(next(numbers)))

    for table, minutes in MINUTES.items():
        append(table, *FAR, *(START + minute * MINUTE for minute in minutes), make=MADE[table])
    append("book", *FAR, make=partial(of_book, levels=(("BID", 90.0), ("ASK", 110.0)), is_snapshot=True))
    # Shortly before the ends of intervals: a book that is five minutes old is no longer believed.
    append("book", START + 13 * MINUTE, START + 43 * MINUTE, make=partial(of_book, levels=(("BID", 92.0),)))
    append("option_quotes", *FAR, START + 5 * MINUTE, START + 35 * MINUTE, make=of_chain)
    append("token_supply", *FAR, START + 5 * MINUTE, make=partial(of_token, token="bitcoin"))
    # Y reports its open interest while the last report of X is too old.
    append("open_interest", *(START + minute * MINUTE for minute in (5, 20, 35)), make=of_markets(MARKETS[1]))
    append("trades", *FAR, START - 3 * HOUR, make=of_markets(*MORE_MARKETS[:2]))
    base = {name: version for name, version in lake.version().items() if "timestamp" in TABLES[name].names}

    commits: dict[str, list[Commit]] = {table: [] for table in MADE}

    def commit(table: str, time: str, make: Make, label: str | None = None) -> None:
        before = {**base, table: lake.version()[table]}
        append(table, TIMES[time], make=make)
        commits[table].append(Commit(table, label or time, before, {**base, table: lake.version()[table]}))

    for table, make in MADE.items():
        for time in TIMES:
            commit(table, time, make)
    for table in OF_MARKETS:
        commit(table, "third interval", of_markets(MORE_MARKETS[0]), "of others")
    commit("option_quotes", "third interval", partial(of_chain, coin="ETH"), "of others")
    commit("trades", "third interval", of_markets(MORE_MARKETS[1]), "of rates")
    return Laboratory(lake, base, commits)


def asked(name: str) -> dict[str, Any]:
    """Return what selects one market, or what stands for one, of a data type."""
    table = PLANS[name].tables[0]
    more = {"raw_symbol": "BTC_25", "tenor": "1w"} if name == "SKEW_OPTION_SUMMARY_AGG" else {}
    return {
        "cme_open_interest": {"exchange": "CME", "raw_symbol": "BTCQ4"},
        "token_supply": {"token_name": "bitcoin"},
        "option_quotes": {"exchange": "DERIBIT", "coin": "BTC", **more},
    }.get(table, {"exchange": "X", "coin": "BTC"})


def cases() -> dict[str, dict[str, Any]]:
    """Return queries: each data type as it is, in USD, of a group, and with what else changes what its points read."""
    queries: dict[str, dict[str, Any]] = {}
    for name, kind in DATA_TYPES.items():
        query = {"type": name, **asked(name)}
        queries[name] = query
        if kind.usd:
            queries[f"{name} in USD"] = query | {"quote": "USD"}
            queries[f"{name} in USD by reported rates"] = query | {"quote": "USD", "exchange": "Z"}
        if kind.group_by:
            group = {"exchange": ["X", "Y"], "coin": "BTC", "group_by": kind.group_by.alias}
            queries[f"{name} of a group"] = query | group
        if kind.gapfill:
            queries[f"{name} filled"] = query | {"gapfill": "true"}
    queries["TRADE_AGG in USD by traded rates"] = {
        "type": "TRADE_AGG",
        "exchange": "W",
        "coin": "BTC",
        "quote": "USD",
    }
    sessions = {"tpo_session": "daily", "interval": "1d"}
    queries["TPO_AGG of sessions"] = {"type": "TPO_AGG", **asked("TPO_AGG"), **sessions}
    return queries


CASES = cases()


def answer(lake: Lake, query: PointsQuery, versions: Mapping[str, int]) -> bytes:
    """Return the answer at one moment of the lake."""
    engine = Engine(lake.at(versions), clock=lambda: END + 30 * DAY, keeps=False)
    markets = engine.markets(query)
    frames = engine.frames(query, markets)
    return encode_all(frames, engine.notes(query, markets, frames))


def parts_of_time(reaches: Iterable[Reach], *, rates: bool) -> list[tuple[list[str], bool]]:
    """Return the times of commits, those of one part of the time together, with whether the events of any count."""
    before, after, lasts = (
        any(getattr(reach, name) for reach in reaches) for name in ("before", "after", "lasts")
    )
    parts = [
        (["long before"], lasts),
        (["a day before", "before"], before or lasts),
        (["first interval", "third interval"], True),
        (["after"], after),
        (["long after", "of others"], False),
        (["of rates"], rates),
    ]
    joined: list[tuple[list[str], bool]] = []
    for times, counts in parts:
        # Parts that do not count are one; and of the last events before, the newest hide the others.
        if joined and joined[-1][1] is counts and (not counts or "before" in times):
            joined[-1][0].extend(times)
        else:
            joined.append((times, counts))
    return joined


@pytest.mark.parametrize("case", CASES)
def test_events_change_an_answer_where_its_plan_reads_them_and_nowhere_else(
    laboratory: Laboratory, case: str
) -> None:
    query = PointsQuery(**({"interval": "15m", "start": START // SECOND, "end": END // SECOND} | CASES[case]))
    (name,), lake = query.type, laboratory.lake
    reaches: dict[str, list[Reach]] = {}
    for other, reach in reads(name, query).items():
        for table in PLANS[other].tables:
            reaches.setdefault(table, []).append(reach)
    if "reported rates" in case:
        reaches["quote_rates"] = [Reach(lasts=True)]
    assert set(reaches) <= set(tables_read(query))
    answers: dict[tuple[int, ...], bytes] = {}

    def at(versions: Mapping[str, int]) -> bytes:
        key = tuple(versions.values())
        if key not in answers:
            answers[key] = answer(lake, query, versions)
        return answers[key]

    def rows(versions: Mapping[str, int]) -> int:
        now = lake.at(versions)
        return estimated(query, Engine(now).markets(query, rates=False), Statistics(now)).rows

    base, has_traded_rates = laboratory.base, "traded rates" in case
    unread = {
        table: commits[-1].after[table]
        for table, commits in laboratory.commits.items()
        if table not in reaches
    }
    assert at(base) == at({**base, **unread})
    for table, of_table in reaches.items():
        for times, counts in parts_of_time(of_table, rates=has_traded_rates and table == "trades"):
            commits = [commit for commit in laboratory.commits[table] if commit.time in times]
            if not commits:
                continue
            assert (at(commits[0].before) != at(commits[-1].after)) is counts, (table, times)
            # How far back the last events lie, no estimate says; and it takes rates for reported if any are.
            if not counts or not {"long before", "of rates"}.intersection(times):
                assert (rows(commits[-1].after) > rows(commits[0].before)) is counts, (table, times)


def test_weights_whose_quote_has_no_known_price_are_refused_before_they_are_computed(
    laboratory: Laboratory,
) -> None:
    """A group's funding is in no currency, but the open interest that weighs it is in US dollars."""
    group = {"exchange": "Z", "coin": "BTC", "group_by": "open_interest_weighted_avg", "interval": "15m"}
    query = PointsQuery(type="FUNDING_RATE_AGG", start=START // SECOND, end=END // SECOND, **group)
    Engine(laboratory.lake).markets(query)
    before_all_reports = laboratory.lake.at({**laboratory.base, "quote_rates": 0})
    with pytest.raises(QueryError, match="quote: got 'EUR'"):
        Engine(before_all_reports).markets(query)
