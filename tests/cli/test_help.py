"""The page of the command line shows what the commands say: ``python tests/cli/test_help.py`` rewrites it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import typer
from typer.testing import CliRunner

from tidytape.cli import app
from tidytape.cli._main import EXIT_CODES
from tidytape.lake.ingest import LAYOUTS

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "cli.md"


INTRODUCTION = """\
# The command line

`tidytape COMMAND --help` prints what stands here. Every command has an example there.

**Exit codes** are the same for every command:

| code | meaning |
| --- | --- |
{codes}

**Errors** are one line on the standard error. `--debug`, anywhere in the command line, prints the traceback above it.

**JSON**: with `--json` a command prints one array or one object on the standard output and nothing else there. Times
are in ISO 8601 and UTC, durations in ISO 8601, unknown values null. Progress goes to the standard error in any case.

**Completion** of commands and options: `tidytape --install-completion` sets it up for the shell that you are in: bash,
zsh, fish or PowerShell. Open a new shell, type `tidytape lake ` and press the tab key. `tidytape --show-completion`
prints the script instead, to put it where you like.
"""


def commands(command: click.Command, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inside = getattr(command, "commands", {})
    return [words, *(found for name in inside for found in commands(inside[name], (*words, name)))]


def page() -> str:
    """Return the page: the help of each command."""
    runner = CliRunner(env={"COLUMNS": "100"})
    all_commands = commands(typer.main.get_command(app))
    assert len(all_commands) > 8
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    parts = [INTRODUCTION.format(codes=codes)]
    derived = [("ingest",), ("ingest", "auto"), *(("ingest", name) for name in LAYOUTS)]
    assert [words for words in all_commands if words in derived] == derived
    for words in all_commands:
        if words in derived:  # docs/conf.py fills these in when the pages are built
            parts += ["<!-- ingest commands -->\n"] if words == ("ingest",) else []
            continue
        said = runner.invoke(app, [*words, "--help"], prog_name="tidytape")
        assert said.exit_code == 0
        text = "\n".join(line.rstrip() for line in said.output.strip().splitlines())
        parts.append(f"## {' '.join(('tidytape', *words))}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


@pytest.mark.slow
def test_the_page_shows_the_help_of_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert PAGE.read_text("utf-8") == page(), "python tests/cli/test_help.py"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
