"""A table on a terminal: a row is one line, and what has no room is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from tidytape.cli import _table as tables
from tidytape.cli._output import check_target, put
from tidytape.errors import QueryError
from tidytape.wire import flat

MARKETS = pl.DataFrame(
    {
        "exchange": ["A", "BB"],
        "raw_symbol": ["BTCUSDT", "7" * 77],
        "coin": ["BTC", "ETH"],
        "first": [1, 2],
        "second": [3.5, 4.5],
    }
)


@pytest.fixture
def printed(monkeypatch, capsys):
    def call(width, frame=MARKETS, **options):
        monkeypatch.setattr(tables, "_terminal_width", lambda: width)
        put(frame, None, **options)
        return capsys.readouterr().out.splitlines()

    return call


def test_what_goes_elsewhere_is_whole(printed, capsys):
    lines = printed(None)
    assert any("7" * 77 in line for line in lines)
    assert len(lines) == 6  # three of borders and names, two rows, one of borders
    put(MARKETS, None)  # to no terminal, as here
    assert "7" * 77 in capsys.readouterr().out


@pytest.mark.parametrize("width", [12, 20, 40, 60, 80, 100, 120, 200])
def test_a_row_is_one_line_of_the_terminal(printed, width):
    lines = printed(width)
    table = [line for line in lines if line[0] in "┌│╞└"]
    assert len(table) == 6
    assert max(map(len, table)) <= width


def test_long_texts_are_cut_before_columns_are_left_out(printed):
    wide = printed(80)
    assert wide[-1] == "cut: raw_symbol; --out FILE writes all"
    assert f"{'7' * 40}…" in wide[4]
    narrow = printed(50)
    assert narrow[-1] == "cut: raw_symbol; columns not shown: coin, first; --out FILE writes all"
    assert printed(200)[-1].startswith("└")


def test_how_to_get_the_rest_is_told_as_the_command_has_it(printed):
    assert printed(50, rest="--json prints all")[-1].endswith("; --json prints all")
    many = printed(200, pl.DataFrame({"n": range(25)}))
    assert many[-1] == "25 rows, 5 not shown; --out FILE writes all"


def test_only_what_is_shown_can_be_cut(printed):
    texts = pl.DataFrame({"name": ["a"] * 15 + ["x" * 90] + ["b"] * 15})
    assert printed(40, texts)[-1] == "31 rows, 11 not shown; --out FILE writes all"
    assert printed(40, texts.reverse())[-1].startswith("31 rows, 11 not shown; --out")
    assert printed(40, texts.tail(16))[-1] == "cut: name; --out FILE writes all"


def test_a_link_stays_one_and_a_folder_is_refused_at_once(tmp_path):
    whole, link = tmp_path / "whole.parquet", tmp_path / "link.parquet"
    whole.write_bytes(b"old")
    link.symlink_to(whole)
    put(MARKETS, link)
    assert link.is_symlink()
    assert pl.read_parquet(whole).equals(MARKETS)
    assert sorted(tmp_path.iterdir()) == [link, whole]
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(QueryError):
        check_target(tmp_path / "folder.csv")


def test_columns_without_a_value_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    put(pl.DataFrame({"close": [1.0, 2.0], "volume": pl.Series([None, None], dtype=pl.Float64)}), None)
    assert "null in every row: volume" in capsys.readouterr().out.splitlines()


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "BTC-USDT", "'=1", "", None, "a\u202eb\u2066"]


def test_a_spreadsheet_runs_no_text_of_a_csv(tmp_path):
    frame = pl.DataFrame(
        {
            "=name": FORMULAS,
            "enum": pl.Series(FORMULAS, dtype=pl.Categorical),
            "price": [-1.5] * len(FORMULAS),
        }
    ).with_columns(
        waits=pl.lit(timedelta(seconds=-1)),
        levels=pl.concat_list(pl.lit(-1.0)),
    )
    put(frame, tmp_path / "out.csv")
    written = pl.read_csv(tmp_path / "out.csv")
    harmless = [
        "'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\t=1", "'\r=1", "BTC-USDT", "'=1", "", None, "a\\u202eb\\u2066",
    ]  # fmt: skip
    assert written.columns == ["'=name", "enum", "price", "waits", "levels"]
    assert written["'=name"].to_list() == harmless
    assert written["enum"].to_list() == harmless
    assert written["price"].to_list() == [-1.5] * len(FORMULAS)  # numbers stay numbers
    assert set(written["waits"]) == {"-PT1S"}
    assert set(written["levels"]) == {"[-1.0]"}


def test_a_csv_has_the_form_of_a_flat_frame(tmp_path):
    frame = pl.DataFrame(
        {
            "timestamp": [datetime(2024, 8, 8, tzinfo=UTC), None],
            "prices": [[0.1 + 0.2], None],
            "outcomes": [["Yes, or no"], []],
            "waits": [timedelta(hours=1), None],
        }
    )
    put(frame, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == flat(frame).write_csv()


def test_other_files_have_the_texts_themselves(tmp_path):
    frame = pl.DataFrame({"text": FORMULAS})
    for name, read in (("out.parquet", pl.read_parquet), ("out.jsonl", pl.read_ndjson)):
        put(frame, tmp_path / name)
        assert read(tmp_path / name)["text"].to_list() == FORMULAS


def test_a_table_shows_controls_of_direction_escaped(printed):
    lines = printed(None, pl.DataFrame({"raw_symbol": ["a\u202eb", "c"]}))
    assert any(r"a\u202eb" in line for line in lines)
    assert not any("\u202e" in line for line in lines)
