"""Empty answers say why, warn in four cases and in no other, and say the same from the cache and from a tape."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import polars as pl
import pytest

import tidytape
from client.driven import NS
from simulated.everything import ASKED, START, everything
from tidytape import Client, EmptyAnswerWarning
from tidytape.catalogue import NoteCode
from tidytape.cli import main
from tidytape.client._endpoints import Fetched
from tidytape.client._local import AppTransport
from tidytape.errors import QueryError
from tidytape.lake import TABLES, Lake
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.wire._notes import Note, write_notes

S0, HOUR, DAY = START // NS, 3_600, 86_400
OLD = {"exchange": "X", "raw_symbol": "OLDUSDT"}
PERP = {"exchange": "X", "raw_symbol": "BTC'PERP/x"}
RARE = {"exchange": "X", "raw_symbol": "RAREUSDT"}
FAR = 10**9


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The lake of every type, and trades of a market with a quiet day between two hours."""
    made = everything(tmp_path_factory.mktemp("reasons") / "lake")
    trades = {
        "exchange": "X", "raw_symbol": "RAREUSDT", "id": ["1", "2"], "timestamp": [START, START + 20 * HOUR * NS],
        "sequence": [1, 2], "side": "BUY", "price": 10.0, "amount": 1.0, "quote_amount": 10.0,
    }  # fmt: skip
    made.writer().append("trades", TABLES["trades"].conform(pl.DataFrame(trades)), source="rare")
    names = {
        "normalized_symbol": ["RARE-USDT"],
        "coin": ["RARE"],
        "quote_coin": ["USDT"],
        "category": ["SPOT"],
    }
    made.writer().register(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["RAREUSDT"], **names}))
    return made


@pytest.fixture
def client(lake: Lake) -> Iterator[Client[pl.DataFrame]]:
    with Client.local(lake.path) as local:
        yield local


def fetched(client: Client[Any], **asked: Any) -> tuple[Fetched[Any], list[str]]:
    """Return what is fetched, and what Python warned of."""
    query = PointsQuery(**{"interval": "1h", "start": S0, "end": S0 + DAY} | asked)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = client.fetch(query)
    assert {one.category for one in caught} <= {EmptyAnswerWarning}
    assert all(one.filename == __file__ for one in caught)  # the line that asked
    return answer, [str(one.message) for one in caught]


# --- the four cases -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["VOLUME_PROFILE_AGG", "TPO_AGG", "TRADE", "TRADE_AGG"])
def test_a_market_of_candles_alone_says_which_types_it_has(client: Client[pl.DataFrame], name: str) -> None:
    size = {"block_size": 0.5} if name in {"VOLUME_PROFILE_AGG", "TPO_AGG"} else {}
    answer, warned = fetched(client, type=name, **OLD, **size)
    (reason,) = answer.metadata.reason
    assert answer.frame.is_empty()
    assert (reason.code, reason.types) == (NoteCode.NO_DATA, ("TRADE_SIDE_AGNOSTIC_AGG",))
    calls = {"VOLUME_PROFILE_AGG": "candle_profile", "TPO_AGG": "candle_tpo"}
    call = f"; tidytape.aggregate.{calls[name]} makes one of its candles" if name in calls else ""
    assert warned == [f"X OLDUSDT has no {name}; it has TRADE_SIDE_AGNOSTIC_AGG{call}"] == [str(reason)]


@pytest.mark.parametrize(
    ("asked", "warning"),
    [
        (
            {"exchange": ["DEMO_PERP", "DEMO_SPOT"], "coin": "BTC"},
            "DEMO_SPOT BTCUSDT has no FUNDING_RATE_AGG; it has TRADE",
        ),
        (
            {"exchange": ["DEMO_PERP", "DEMO_LINEAR"], "raw_symbol": "BTC-PERP"},
            "DEMO_LINEAR BTC-PERP has no FUNDING",
        ),
        (
            {"exchange": ["DEMO_PERP", "DEMO_LINEAR"], "coin": "SOL"},
            "DEMO_LINEAR SOL has no FUNDING_RATE_AGG",
        ),
        ({"exchange": ["DEMO_PERP", "DEMO_SPOT"], "coin": "BTC", "category": "PERPETUAL"}, None),
        ({"exchange": ["DEMO_PERP", "DEMO_LINEAR"], "coin": ["BTC", "SOL"]}, None),
    ],
    ids=["no-perpetual", "no-symbol", "no-coin", "left-out-by-category", "all-there"],
)
def test_an_exchange_that_adds_nothing_is_said(asked: Any, warning: str | None) -> None:
    with Client.demo() as demo:
        answer, warned = fetched(demo, type="FUNDING_RATE_AGG", **asked, start="2024-08-08", end="2024-08-09")
    assert not answer.frame.is_empty()
    assert [one[: len(warning or "")] for one in warned] == ([] if warning is None else [warning])


@pytest.mark.parametrize("name", sorted(ASKED))
@pytest.mark.parametrize("days", [(-100, -90), (100, 101)], ids=["before", "after"])
def test_a_window_outside_of_what_is_held_says_from_when_to_when(
    client: Client[pl.DataFrame], name: str, days: tuple[int, int]
) -> None:
    start, end = (S0 + day * DAY for day in days)
    answer, warned = fetched(client, type=name, interval="1d", start=start, end=end, **ASKED[name])
    assert answer.frame.is_empty()
    assert {one.code for one in answer.metadata.reason} == {NoteCode.OUTSIDE}
    assert len(warned) == 1
    for reason in answer.metadata.reason:
        assert reason.first is not None and reason.last is not None  # noqa: PT018 - for the type checker
        assert S0 <= reason.first.timestamp() <= reason.last.timestamp() < S0 + DAY
        assert str(reason) in warned[0]
        assert reason.first.strftime("%Y-%m-%dT%H:%M:%SZ") in warned[0]


@pytest.mark.parametrize("name", ["TRADE_AGG", "LIQUIDATION_AGG", "TPO_AGG"])
def test_an_interval_that_has_not_begun_is_said(client: Client[pl.DataFrame], name: str) -> None:
    later, warned = fetched(client, type=name, start=S0 + FAR, end=S0 + FAR + DAY, **PERP)
    assert [one.code for one in later.metadata.reason] == [NoteCode.NOT_BEGUN]
    assert len(warned) == 1
    within, warned = fetched(client, type=name, start=S0 + 600, end=S0 + 1_200, **PERP)
    assert within.frame.is_empty()
    assert [one.code for one in within.metadata.reason] == [NoteCode.NOT_BEGUN]
    assert "that starts in" in warned[0]
    assert "yet" not in warned[0]  # it never will


@pytest.mark.parametrize(
    ("asked", "around"),
    [
        ({"type": "TPO_AGG", "interval": "1d", "tpo_session": "weekly", "block_size": 0.5}, "2024-08-05"),
        ({"type": "TPO_AGG", "interval": "1d", "tpo_session": "monthly", "block_size": 0.5}, "2024-08-01"),
        ({"type": "TRADE_AGG", "interval": "1w"}, "2024-08-05"),
    ],
    ids=["weekly", "monthly", "week"],
)
def test_a_window_in_which_nothing_starts_names_what_is_around_it(asked: Any, around: str) -> None:
    with Client.demo() as demo:
        market = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT"}
        answer, warned = fetched(demo, **market, **asked, start="2024-08-08", end="2024-08-09")
    (reason,) = answer.metadata.reason
    assert answer.frame.is_empty()
    assert reason.code is NoteCode.NOT_BEGUN
    name = asked["type"]
    (text,) = warned
    assert text == (
        f"DEMO_SPOT BTCUSDT has no {name} that starts in 2024-08-08T00:00:00Z to 2024-08-09T00:00:00Z; "
        f"the one around it starts {around}T00:00:00Z"
    )


def test_a_tenor_that_option_quotes_do_not_have_is_said() -> None:
    asked = {
        "exchange": "DEMO_OPTIONS",
        "coin": "BTC",
        "raw_symbol": "BTC_25",
        "start": "2024-08-08",
        "end": "2024-08-09",
    }
    with Client.demo() as demo:
        six, warned = fetched(demo, type="SKEW_OPTION_SUMMARY_AGG", tenor="6m", **asked)
        week, none = fetched(demo, type="SKEW_OPTION_SUMMARY_AGG", tenor="1w", **asked)
    (reason,) = six.metadata.reason
    assert (reason.code, reason.tenors) == (
        NoteCode.NO_DATA,
        ("ONE_D", "THREE_D", "ONE_W", "ONE_M", "TWO_M", "THREE_M"),
    )
    assert warned == [str(reason)]
    assert warned[0] == (
        "DEMO_OPTIONS BTC_25 has no SKEW_OPTION_SUMMARY_AGG of this tenor; "
        "its newest quotes have tenors ONE_D, THREE_D, ONE_W, ONE_M, TWO_M, THREE_M"
    )
    assert (week.frame.is_empty(), none) == (False, [])


def test_what_the_tier_does_not_see_is_said() -> None:
    note = Note(NoteCode.TIER, "TRADE_AGG", "X", "BTC")
    answer, warned = fetched(served([note]), type="TRADE_AGG", exchange="X", raw_symbol="BTC")
    assert [one.code for one in answer.metadata.reason] == [NoteCode.TIER]
    assert "that the tier of this key sees" in warned[0]


def test_candles_finer_than_those_of_one_of_several_markets_are_said(lake: Lake, tmp_path: Path) -> None:
    made = Lake.create(tmp_path / "lake")
    candle = {
        "exchange": "X",
        "timestamp": [START],
        "open": 1.0,
        "high": 1.0,
        "low": 1.0,
        "close": 1.0,
        "volume": 1.0,
    }
    for symbol, minutes in (("A", 1), ("B", 60)):
        rows = pl.DataFrame({**candle, "raw_symbol": symbol, "interval": [minutes * 60 * NS]})
        made.writer().append("candles", rows, source=symbol)
    made.writer().register(pl.DataFrame({"exchange": ["X", "X"], "raw_symbol": ["A", "B"]}))
    with Client.local(made.path) as client:
        answer, warned = fetched(
            client, type="TRADE_SIDE_AGNOSTIC_AGG", exchange="X", raw_symbol=["A", "B"], interval="1m"
        )
    assert answer.frame.height == 1
    assert warned == [
        "X B has no TRADE_SIDE_AGNOSTIC_AGG of this interval; its candles make up HOUR, FOUR_HOURS, DAY, WEEK"
    ]


# --- and no other ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["TRADE", "TRADE_AGG", "TRADE_SIDE_AGNOSTIC_AGG", "VOLUME_PROFILE_AGG"])
def test_a_quiet_hour_of_a_covered_market_warns_of_nothing(client: Client[pl.DataFrame], name: str) -> None:
    size = {"block_size": 0.5} if name == "VOLUME_PROFILE_AGG" else {}
    answer, warned = fetched(client, type=name, start=S0 + 5 * HOUR, end=S0 + 6 * HOUR, **RARE, **size)
    assert answer.frame.is_empty()
    assert [one.code for one in answer.metadata.reason] == [NoteCode.QUIET]
    assert "nothing happened in 2024-08-09T05:00:00Z to 2024-08-09T06:00:00Z" in str(
        answer.metadata.reason[0]
    )
    assert warned == []


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ASKED))
def test_an_answer_with_points_of_every_market_warns_of_nothing(lake: Lake, name: str) -> None:
    interval = "1d" if name in {"TOKEN_SUPPLY_AGG", "TPO_AGG"} else "1h"
    with Client.local(lake.path) as client:
        answer, warned = fetched(client, type=name, interval=interval, **ASKED[name])
    assert answer.frame.height
    assert warned == []
    assert {one.code for one in answer.metadata.reason} <= {NoteCode.PART, NoteCode.QUIET}


def test_a_market_without_points_is_said_though_others_have_some(client: Client[pl.DataFrame]) -> None:
    answer, warned = fetched(client, type="TRADE_AGG", exchange="X", raw_symbol=["BTC'PERP/x", "OLDUSDT"])
    assert answer.frame["raw_symbol"].unique().to_list() == ["BTC'PERP/x"]
    assert warned == ["X OLDUSDT has no TRADE_AGG; it has TRADE_SIDE_AGNOSTIC_AGG"]
    assert [(one.raw_symbol, one.code) for one in answer.metadata.reason] == [
        ("BTC'PERP/x", NoteCode.PART),
        ("OLDUSDT", NoteCode.NO_DATA),
    ]


def test_the_front_of_a_window_that_no_interval_covers_is_said(client: Client[pl.DataFrame]) -> None:
    answer, warned = fetched(client, type="TRADE_AGG", start=S0 + 720, end=S0 + 2 * HOUR, **PERP)
    assert answer.metadata.left_out == (S0 + 720, S0 + HOUR)
    assert "front left out" in answer.metadata._repr_html_()
    assert warned == []
    assert fetched(client, type="TRADE_AGG", **PERP)[0].metadata.left_out is None


# --- every way to ask -----------------------------------------------------------------------------------------------


def test_methods_that_return_a_frame_warn_too(client: Client[pl.DataFrame], tmp_path: Path) -> None:
    window = {"start": S0, "end": S0 + DAY, "interval": "1h"}
    with pytest.warns(EmptyAnswerWarning, match="it has TRADE_SIDE_AGNOSTIC_AGG") as caught:
        client.candles(by_side=True, **OLD, **window)
    assert caught[0].filename == __file__
    message = caught[0].message
    assert isinstance(message, tidytape.EmptyAnswerWarning)
    assert message.reasons[0].types == ("TRADE_SIDE_AGNOSTIC_AGG",)
    with pytest.warns(EmptyAnswerWarning, match="it has TRADE_SIDE_AGNOSTIC_AGG"):
        client.to_parquet(client.query.candles(by_side=True, **OLD, **window), tmp_path / "none.parquet")


def test_a_file_of_several_parts_of_which_one_has_points_warns_of_nothing(
    client: Client[pl.DataFrame], tmp_path: Path
) -> None:
    asked = client.query.candles(interval="1m", start=S0 - 150_000 * 60, end=S0 + DAY, **PERP)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert client.to_parquet(asked, tmp_path / "some.parquet").requests == 2
        assert [frame.is_empty() for frame in client.iter_frames(asked)] == [True, False]
    nothing = client.query.candles(interval="1m", start=S0 - 300_000 * 60, end=S0 - 150_000 * 60, **PERP)
    with pytest.warns(EmptyAnswerWarning, match="and none in") as caught:
        assert [frame.is_empty() for frame in client.iter_frames(nothing)] == [True, True]
    assert len(caught) == 1


def test_the_command_line_says_it_on_one_line_and_succeeds(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--exchange X --raw-symbol OLDUSDT --interval 1h --start 2024-08-09 --end 2024-08-10 --by-side"
    monkeypatch.setattr(
        "sys.argv", ["tidytape", "fetch", "candles", "--lake", str(lake.path), *words.split()]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as stopped:
            main()
    assert not stopped.value.code
    assert capsys.readouterr().err.splitlines() == [
        "warning: X OLDUSDT has no TRADE_AGG; it has TRADE_SIDE_AGNOSTIC_AGG",
        "1 request, weight 1",
    ]


def served(
    notes: list[Note] | None, asked: list[httpx.Request] | None = None, **options: Any
) -> Client[pl.DataFrame]:
    """Return a client of a service that has no points, and says this of it."""

    def answer(request: httpx.Request) -> httpx.Response:
        if asked is not None:
            asked.append(request)
        said = {} if notes is None else {"notes": orjson.loads(write_notes(notes))}
        return httpx.Response(200, json={"series": [], **said})

    return Client("http://service", "key", transport=httpx.MockTransport(answer), **options)


def test_of_another_service_nothing_is_made_up() -> None:
    asked = {"type": "TRADE_AGG", "exchange": "X", "raw_symbol": "BTC"}
    answer, warned = fetched(served(None), **asked)
    assert (answer.metadata.reason, warned) == ((), [])
    later, warned = fetched(served(None), start=S0 + FAR, end=S0 + FAR + HOUR, **asked)
    assert [one.code for one in later.metadata.reason] == [NoteCode.NOT_BEGUN]
    assert len(warned) == 1


@pytest.mark.parametrize(
    "notes",
    [
        "text",
        [5],
        [{"code": "NEW"}],
        [{"code": "QUIET", "exchange": 5}],
        [{"code": "QUIET", "first": 5}],
        {"a": 1},
    ],
    ids=str,
)
def test_notes_that_cannot_be_understood_are_left_out(notes: object) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json={"series": [], "notes": notes}))
    client: Client[pl.DataFrame] = Client("http://service", "key", transport=transport)
    answer, warned = fetched(client, type="TRADE_AGG", exchange="X", raw_symbol="BTC")
    assert (answer.metadata.reason, warned) == ((), [])


def test_control_characters_of_a_service_do_not_reach_the_terminal() -> None:
    note = Note(NoteCode.NO_DATA, "TRADE_AGG", "X\x1b[2J", "BTC", types=("\x1b[0m",))
    _, (warned,) = fetched(served([note]), type="TRADE_AGG", exchange="X", raw_symbol="BTC")
    assert warned.isprintable()


def test_an_exchange_that_is_held_without_options_is_refused_by_that_name() -> None:
    asked = {"exchange": "DEMO_PERP", "coin": "BTC", "raw_symbol": "BTC_25", "tenor": "1w"}
    with (
        Client.demo() as demo,
        pytest.raises(QueryError, match="one of which the lake holds options") as caught,
    ):
        fetched(demo, type="SKEW_OPTION_SUMMARY_AGG", **asked)
    assert "client.markets()" in str(caught.value)


# --- from the cache and from a tape ---------------------------------------------------------------------------------


@pytest.fixture
def remote(lake: Lake, tmp_path: Path) -> Iterator[Callable[..., Client[pl.DataFrame]]]:
    transport = AppTransport(create_app(lake, Keys([Key("k", hashed("key"), "enterprise", created=0)])))
    yield lambda **options: Client("http://service", "key", transport=transport, cache=tmp_path, **options)
    transport.close()


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"type": "TRADE_AGG", **PERP, "start": S0 - 100 * DAY, "end": S0 - 99 * DAY}, NoteCode.OUTSIDE),
        ({"type": "TRADE", **RARE, "start": S0 + HOUR, "end": S0 + 2 * HOUR}, NoteCode.QUIET),
    ],
    ids=["outside", "quiet"],
)
def test_an_empty_span_of_the_cache_says_why(remote: Any, asked: dict[str, Any], code: NoteCode) -> None:
    first, warned = fetched(remote(), **asked)
    again, warned_again = fetched(remote(), **asked)
    offline, warned_offline = fetched(remote(offline=True), **asked)
    assert again.metadata.requests == offline.metadata.requests == 0
    assert [one.code for one in first.metadata.reason] == [code]
    assert first.metadata.reason == again.metadata.reason == offline.metadata.reason
    assert warned == warned_again == warned_offline
    assert len(warned) == code.warns


def test_that_a_service_has_no_such_data_is_not_kept(remote: Any) -> None:
    for _ in range(2):
        answer, warned = fetched(remote(), type="TRADE_AGG", **OLD)
        assert (answer.metadata.requests, len(warned)) == (1, 1)


def test_spans_that_were_joined_in_the_cache_keep_what_they_say(remote: Any) -> None:
    for start in (S0 - 2 * DAY, S0 - DAY, S0):
        fetched(remote(), type="TRADE_AGG", **PERP, start=start, end=start + DAY)
    whole, warned = fetched(remote(), type="TRADE_AGG", **PERP, start=S0 - 2 * DAY, end=S0 + DAY)
    assert whole.metadata.requests == 1  # for the last interval with trades, which is not final
    assert (whole.frame.is_empty(), warned) == (False, [])
    before, warned = fetched(remote(), type="TRADE_AGG", **PERP, start=S0 - 2 * DAY, end=S0 - DAY)
    assert [one.code for one in before.metadata.reason] == [NoteCode.OUTSIDE]
    assert len(warned) == 1
    # Later than its trades on the same day, in a file that a note of other days is in.
    after, warned = fetched(remote(), type="TRADE_AGG", **PERP, start=S0 + 20 * HOUR, end=S0 + 21 * HOUR)
    assert after.frame.is_empty()
    assert after.metadata.requests == 0


def test_a_tape_says_it_again(client: Client[pl.DataFrame], tmp_path: Path) -> None:
    with client.record(tmp_path / "study.tape"):
        recorded, warned = fetched(client, type="TRADE_AGG", **OLD)
    with Client.replay(tmp_path / "study.tape") as replayed:
        again, warned_again = fetched(replayed, type="TRADE_AGG", **OLD)
    assert again.metadata.reason == recorded.metadata.reason
    assert again.metadata.is_whole is recorded.metadata.is_whole is True
    assert warned_again == warned


# --- groups ---------------------------------------------------------------------------------------------------------


def test_a_member_that_adds_nothing_to_its_group_is_said(client: Client[pl.DataFrame]) -> None:
    asked = {
        "type": "TRADE_AGG",
        "exchange": "X",
        "normalized_symbol": ["BTC-USDT", "OLD-USDT"],
        "group_by": "sum",
    }
    answer, warned = fetched(client, **asked)
    assert answer.frame["coin"].unique().to_list() == ["BTC"]
    assert warned == ["X OLDUSDT has no TRADE_AGG; it has TRADE_SIDE_AGNOSTIC_AGG"]
