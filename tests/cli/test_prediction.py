"""``polymarket-gamma``, as a command of its own."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from tidytape.cli._prediction import polymarket_gamma
from tidytape.lake import Lake


def test_a_file_goes_in(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command("polymarket-gamma")(polymarket_gamma)
    market = {"conditionId": "0x1", "slug": "rain", "updatedAt": "2026-03-11T15:14:46Z",
              "outcomes": '["Yes", "No"]', "clobTokenIds": '["11", "22"]'}  # fmt: skip
    path = tmp_path / "rain.json"
    path.write_text(json.dumps([market, {}]))
    lake = str(tmp_path / "lake")
    run = CliRunner().invoke(app, [str(path), "--lake", lake])
    assert run.exit_code == 1
    assert f"{path}:2: no slug" in str(run.exception)
    run = CliRunner().invoke(app, [str(path), "--lake", lake, "--skip-bad"])
    assert run.output.splitlines() == [
        f"{path}: 1 report; 1 bad one skipped",
        "  2: no slug",
        "1 prediction market, 2 outcomes",
    ]
    assert Lake(lake).markets()["exchange"].to_list() == ["POLYMARKET"] * 2
