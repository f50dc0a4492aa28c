"""Layouts that a caller writes: what is wrong with one is said by an error that names it and the file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tidytape.errors import IngestError, QueryError
from tidytape.lake import TRADES, Lake
from tidytape.lake.ingest import Csv, Layout, Market, ingest
from tidytape.lake.ingest._answers import Answers

TRADE = {"ts": 1_723_161_255_000, "px": "10.5", "qty": "2", "side": "buy"}
AT = Market(exchange="X", raw_symbol="BTC-USD")


class Mine(Answers):
    name = "mine"
    time_units = {"trades": "ms"}  # noqa: RUF012

    def events(self, answer, parsed):
        values = {
            "timestamp": answer["ts"],
            "price": answer["px"],
            "amount": answer["qty"],
            "side": answer["side"],
        }
        yield "trades", values | ({"id": answer["id"]} if "id" in answer else {})


@pytest.fixture
def path(write):
    return write(json.dumps([TRADE]), name="answers.json")


def test_a_layout_of_ones_own_reads_answers(path, lake):
    assert ingest(path, lake, Mine(), market=AT).trades_new == 1


def test_what_only_some_events_have_is_kept_and_null_in_the_others(write, lake):
    class Supply(Mine):
        time_units = {"token_supply": "s"}  # noqa: RUF012

        def events(self, answer, parsed):
            yield "token_supply", answer

    first = {"token_name": "Bitcoin", "timestamp": 1_723_161_255, "marketcap": 7}
    second = {"token_name": "Bitcoin", "timestamp": 1_723_161_256, "usd_price": 9}
    ingest(write(json.dumps([first, second])), lake, Supply(), market=Market())
    rows = lake.scan("token_supply").sort("timestamp").collect()
    assert rows.select("marketcap", "usd_price").rows() == [(7.0, None), (None, 9.0)]


def test_a_class_is_no_layout_but_its_object_is(path, lake):
    wrong: Any
    for wrong, expected in [
        (Mine, r"an object: Mine\(\)"),
        (Csv, r"an object: Csv\(\)"),
        (3, "an object of a layout"),
    ]:
        with pytest.raises(QueryError, match=f"layout: got .* expected {expected}"):
            ingest(path, lake, wrong, market=AT)


def test_a_layout_without_a_name_is_refused(path, lake):
    class Nameless(Answers):
        time_units = {"trades": "ms"}  # noqa: RUF012
        events = Mine.events

    with pytest.raises(QueryError, match='a layout with a name: name = "…" in the class Nameless'):
        ingest(path, lake, Nameless(), market=AT)


@pytest.mark.parametrize("units", [{}, {"trade": "ms"}, "ms", None])
def test_times_whose_unit_the_layout_does_not_say_are_refused(path, lake, units):
    class Timeless(Mine):
        time_units = units

    with pytest.raises(
        QueryError, match=r"the layout mine writes the times of trades, which .*answers\.json"
    ) as told:
        ingest(path, lake, Timeless(), market=AT)
    assert told.value.parameter == "time_units"
    assert told.value.got == units


def test_an_answer_without_a_field_is_a_bad_line(write, lake):
    answers = [TRADE, {name: value for name, value in TRADE.items() if name != "px"}]
    path = write(json.dumps(answers), name="answers.json")
    with pytest.raises(IngestError, match=r"answers\.json:2: the answer has no 'px'; skip_bad"):
        ingest(path, lake, Mine(), market=AT)
    report = ingest(path, lake, Mine(), market=AT, skip_bad=True)
    assert (report.trades_new, report.bad_lines) == (1, 1)


def test_a_mistake_of_the_layout_names_it_and_the_file(write, lake):
    path = write(json.dumps([None]), name="answers.json")
    with pytest.raises(
        IngestError, match=r"answers\.json: the layout mine failed with TypeError: 'NoneType'"
    ) as told:
        ingest(path, lake, Mine(), market=AT, skip_bad=True)
    assert isinstance(told.value.__cause__, TypeError)
    assert told.value.path == str(path)


def test_read_has_to_return_what_it_parsed(path, lake):
    class Forgetful(Layout):
        name = "forgetful"

        def read(self, job, spool, progress):
            pass

    with pytest.raises(
        IngestError, match="the layout forgetful returned NoneType from read, expected Parsed"
    ):
        ingest(path, lake, Forgetful(), market=AT)


def test_a_mistake_in_one_file_leaves_the_others_in(write, lake):
    paths = [write(json.dumps([None]), name="bad.json"), write(json.dumps([TRADE]), name="good.json")]
    with pytest.raises(IngestError, match="1 of 2 files did not go into the lake, the others did") as told:
        ingest(paths, lake, Mine(), market=AT)
    assert told.value.report.trades_new == 1
    assert lake.scan(TRADES.name).collect().height == 1


GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "ingest_layouts.md").read_text("utf-8")


@pytest.mark.slow
def test_the_layouts_of_the_guide_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block in re.findall(
        r"^```\{code-cell\} python\n(?::[^\n]*\n)?(.*?)^```", GUIDE, flags=re.MULTILINE | re.DOTALL
    ):
        exec(block, {"__name__": "guide"})
    lake = Lake("lake")
    key = ["exchange", "raw_symbol", "timestamp", "price", "amount", "side"]
    assert lake.scan("trades").select(key).sort(key).collect().rows() == [
        ("MY_EXCHANGE", "BTC-USD", 1_723_161_255 * 10**9, 61837.63, 0.02, "BUY"),
        ("Y", "BTC-USD", 1_723_161_255 * 10**9, 61837.63, 0.02, "BUY"),
    ]
    assert lake.scan("candles").select("exchange", "raw_symbol", "volume").collect().rows() == [
        ("MY_EXCHANGE", "ETH-USD", 3.5)
    ]
    shown = capsys.readouterr().out
    assert "trades.json: 1 trade; times in ms; not kept: heartbeat (1)" in shown
    assert "trades.log: 1 trade; times in iso; 1 bad line skipped\n  line 2: not a trade" in shown
