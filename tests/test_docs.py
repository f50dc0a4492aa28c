"""Every code block of the README and of the pages in docs/ is run, or says why it is not.

A page's blocks are run from top to bottom, in one temporary folder:

- ``{code-cell}``: by Sphinx, which shows readers what the block returned. A page with other blocks too is run here as a
  whole, because those may use the names of its cells.
- ``python``: here, all blocks of a page in one namespace. They may ``await``.
- ``bash``: by bash, where ``tidytape`` is the command of this checkout.
- ``json`` and ``toml``: they can be parsed.
- ``text``, ``ini``, ``nginx``, ``caddy``: are not code of ours.

Comments above a block change this:

- ``<!-- not run: REASON -->``: the block is only compiled; of its commands every option must exist.
- ``<!-- files: trades.csv lake -->``: the block needs these files, which `page_files` makes.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from page_files import FILES
from tables import each_row
from tidytape.cli import app

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "_build" not in path.parts
}
DATA = {"json": json.loads, "toml": tomllib.loads}
OTHERS = {"text", "ini", "nginx", "caddy", "sql"}

_BLOCK = re.compile(
    r"^(?P<comments>(?:<!--(?:(?!-->).)*-->\s*)*)"  # directly above the block, or with empty lines between
    r"^(?P<fence>(?:`{3,}|:{3,}))(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ ]*$",
    flags=re.MULTILINE | re.DOTALL,
)
_INLINE = re.compile(r"(?<!`)`(tidytape [^`]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None
    files: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """Return the code blocks of a page, in order; directives such as ``{toctree}`` are none."""
    source = PAGES[page].read_text("utf-8")
    found = []
    for match in _BLOCK.finditer(source):
        language = match["language"].strip()
        if language.startswith("{") and not language.startswith("{code-cell}"):
            continue
        comments = dict(re.findall(r"<!-- ([\w ]+): (.*?) -->", match["comments"], flags=re.DOTALL))
        text = match["text"]
        if language.startswith("{code-cell}"):
            language, text = "cell", re.sub(r"\A(:[^\n]*\n)+", "", text)
        line = source.count("\n", 0, match.start("fence")) + 1
        files = tuple(comments.get("files", "").split())
        found.append(Block(page, line, language, text, comments.get("not run"), files))
    return found


ALL = {page: blocks(page) for page in PAGES}
RUN_HERE = [
    page
    for page, found in ALL.items()
    if any(block.language in {"python", "bash"} and block.not_run is None for block in found)
]


def test_a_block_is_found_with_what_stands_above_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n<!-- files: a.csv lake -->\n```bash\nls\n```\n\n<!-- other -->\n<!-- not run: it\nstays -->\n\n"
        "```python\nx\n```\n\n```{toctree}\npage\n```\n\n```{code-cell} python\n:tags: [a]\n\ny\n```\n"
    )
    monkeypatch.setitem(PAGES, "page.md", page)
    assert [
        (block.line, block.language, block.text, block.not_run, block.files) for block in blocks("page.md")
    ] == [
        (4, "bash", "ls\n", None, ("a.csv", "lake")),
        (12, "python", "x\n", "it\nstays", ()),
        (20, "cell", "\ny\n", None, ()),
    ]


@each_row("page", ALL)
def test_every_block_says_what_it_is(page: str) -> None:
    known = {"cell", "python", "bash", *DATA, *OTHERS}
    assert [str(block) for block in ALL[page] if block.language not in known] == []
    fences = re.findall(r"^[ ]*(?:`{3,}|~{3,}).*$", PAGES[page].read_text("utf-8"), flags=re.MULTILINE)
    directives = sum("{" in fence and "{code-cell}" not in fence for fence in fences)
    assert len(fences) == 2 * (len(ALL[page]) + directives), "a fence is indented, of tildes, or not closed"


@each_row("page", [page for page, found in ALL.items() if found])
def test_what_is_not_run_is_sound(page: str) -> None:
    for block in ALL[page]:
        if block.language in DATA:
            DATA[block.language](block.text)
        elif block.language in {"cell", "python"}:
            compiled(block)
        assert block.not_run is None or len(block.not_run.split()) > 2, f"{block}: say why"
        assert set(block.files) <= FILES.keys()


# --- commands ---------------------------------------------------------------------------------------------------------


def commands(text: str) -> list[list[str]]:
    """Return the words of each ``tidytape`` command in lines of a shell."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] | None = None
        for word in words:
            if set(word) <= set("();<>|&"):
                command = None
            elif command is not None:
                command.append(word)
            elif word == "tidytape":
                found.append(command := [])
    return found


PROGRAM = typer.main.get_command(app)
"""Made once, for it takes a tenth of a second."""


def unknown_words(words: list[str]) -> list[str]:
    """Return the subcommand or the options that there are not, of one command."""
    command: Any = PROGRAM
    rest, known = list(words), {"--help"}
    while inner := getattr(command, "commands", {}):
        known |= options(command)
        if not rest or not re.match("[a-z]", rest[0]):
            break
        if rest[0] not in inner:
            return [rest[0]]
        command = inner[rest.pop(0)]
    known |= options(command)
    if inner and rest and (rest[0].isupper() or rest[0] == "…"):  # LAYOUT stands for any of them
        known |= set[str]().union(*map(options, inner.values()))
    return [word for word in rest if re.match("-[a-z-]", word) and word.partition("=")[0] not in known]


def options(command: Any) -> set[str]:
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)}


def test_commands_and_their_unknown_words_are_found() -> None:
    text = "tidytape keys new --keys k.json > key.txt && tidytape serve \\\n  --lake lake --prot 1  # --no\ncurl x"
    assert commands(text) == [
        ["keys", "new", "--keys", "k.json"],
        ["serve", "--lake", "lake", "--prot", "1"],
    ]
    assert [unknown_words(words) for words in commands(text)] == [[], ["--prot"]]
    assert unknown_words(["lake", "infos"]) == ["infos"]
    assert unknown_words(["ingest", "csv", "-v", "--amap", "x=y"]) == ["--amap"]


@each_row("page", ALL)
def test_every_command_and_option_exists(page: str) -> None:
    inline = _INLINE.findall(PAGES[page].read_text("utf-8")) if page != "docs/changelog.md" else []
    texts = [*(block.text for block in ALL[page] if block.language == "bash"), *inline]
    unknown = {text: unknown_words(words) for text in texts for words in commands(text)}
    assert {text: words for text, words in unknown.items() if words} == {}


_PATH = re.compile(r"(?:notebooks|tests|docs|src)/(?!_build)[\w./-]*[\w-]")


@each_row("page", [page for page in ALL if "changelog" not in page and "/adr/" not in page])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    source = PAGES[page].read_text("utf-8")
    named = {name for quoted in re.findall(r"`([^`\n]+)`", source) for name in _PATH.findall(quoted)}
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_every_module_that_a_step_of_contributing_names_exists() -> None:
    text = (ROOT / "docs" / "contributing.md").read_text("utf-8")
    steps = text[text.index("## Add a data type") :]
    named = set(re.findall(r"`((?:[a-z]\w*/)*_?\w*(?:/|\.py|\.proto))`", steps))
    assert len(named) > 30
    assert {
        name
        for name in named
        if not any((base / name).exists() for base in (ROOT, ROOT / "src" / "tidytape"))
    } == set()


# --- running ----------------------------------------------------------------------------------------------------------


def compiled(block: Block) -> Any:
    lines = "\n" * block.line + block.text  # so that a traceback has the line of the page
    return compile(lines, str(PAGES[block.page]), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def run_python(block: Block, names: dict[str, Any]) -> None:
    awaitable = eval(compiled(block), names)
    if inspect.iscoroutine(awaitable):
        asyncio.run(awaitable)


def run_bash(block: Block, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout}"
    assert "Traceback" not in done.stdout, done.stdout


def environment_of(folder: Path) -> dict[str, str]:
    """Return an environment in which ``tidytape`` is this checkout's, and whatever asks a proxy reaches nobody."""
    (folder / "bin").mkdir()
    command = folder / "bin" / "tidytape"
    command.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c "from tidytape.cli import main; main()" "$@"\n'
    )
    command.chmod(0o755)
    nobody = "http://127.0.0.1:9"
    return {
        **os.environ,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / ".cache"),
        "HTTP_PROXY": nobody,
        "HTTPS_PROXY": nobody,
        "ALL_PROXY": nobody,
    }


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN_HERE)
def test_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib.pyplot as plt

    environment = environment_of(tmp_path)
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in ALL[page]:
        if block.not_run is not None:
            continue
        for name in block.files:
            FILES[name](folder / name)
        if block.language in {"cell", "python"}:
            run_python(block, names)
        elif block.language == "bash":
            run_bash(block, environment)
    plt.close("all")
