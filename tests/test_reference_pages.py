"""Pages of the reference that are made from the code: ``python tests/test_reference_pages.py`` rewrites them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import errors_page
import tidytape
from tidytape.catalogue import DATA_TYPES, ERROR_STATUS, StreamEnd
from tidytape.schema import (
    BLOCK_SIZES,
    HOLDINGS,
    MARKETS,
    PREDICTION_MARKETS,
    TPO_SESSIONS,
    Schema,
    schema_of,
)

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
COLUMNS = REFERENCE / "columns.md"
GLOSSARY = REFERENCE / "glossary.md"
DEFINITIONS = REFERENCE.parent / "concepts" / "definitions.md"


# --- the columns of every schema --------------------------------------------------------------------------------------


def columns_page() -> str:
    """Return the page: each schema with its key and its columns."""
    lists = (TPO_SESSIONS, MARKETS, PREDICTION_MARKETS, BLOCK_SIZES, HOLDINGS)
    constants = ", ".join(f"`tidytape.schema.{schema.name}`" for schema in lists)
    lines = [
        "# Columns, units and signs",
        "",
        "Every frame of the client has one of these schemas. `tidytape.schema.schema_of` returns that of a data type,",
        'as `schema_of("TRADE")`. The last five are no data types but objects of that module:',
        f"{constants}.",
        "`describe()` of any of them returns its columns as a frame.",
        "",
        "**Bold** columns are the key: together they name a row once. A value is below zero only where the sign is ±.",
        "Frames of groups have one column more, `coverage`: the share of what was added up that is known.",
    ]
    titles = {name: data_type.title for name, data_type in DATA_TYPES.items()}
    for schema in (*map(schema_of, DATA_TYPES), *lists):
        lines += [
            "",
            f"## `{schema.name}`",
            "",
            f"{_title(schema, titles)}{schema.rows}.",
            "",
            *_table(schema),
        ]
    return "\n".join(lines) + "\n"


def _title(schema: Schema, titles: dict[str, str]) -> str:
    return f"{titles[schema.name]}: " if schema.name in titles else "A frame with "


def _table(schema: Schema) -> Iterator[str]:
    yield "| column | type | unit | sign | null | meaning |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for column in schema.columns:
        is_number = column.dtype in {"float64", "int64", "list[float64]", "list[int32]"}
        cells = (
            f"**`{column.name}`**" if column.name in schema.key else f"`{column.name}`",
            column.dtype,
            column.unit,
            ("±" if column.signed else "≥ 0") if is_number else "",
            "yes" if column.nullable else "",
            column.doc,
        )
        yield "| " + " | ".join(cells) + " |"


def test_every_heading_of_the_page_of_columns_is_found_as_the_page_says() -> None:
    headings = re.findall(r"^## `(\w+)`$", COLUMNS.read_text("utf-8"), flags=re.MULTILINE)
    found = [schema_of(name) if name in DATA_TYPES else getattr(tidytape.schema, name) for name in headings]
    assert [schema.name for schema in found] == headings
    assert {name for name in headings if name not in DATA_TYPES} == {*headings[-5:]}
    assert all(schema.describe().height for schema in found)


def test_the_page_of_columns_is_what_the_schemas_say() -> None:
    assert COLUMNS.read_text("utf-8") == columns_page(), "python tests/test_reference_pages.py"


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_of_errors_has_every_code_and_every_error() -> None:
    kinds = {kind.__name__ for kind in errors_page.kinds()}
    assert errors_page.OF_A_CODE.keys() == ERROR_STATUS.keys()
    assert errors_page.OF_AN_END.keys() == set(StreamEnd)
    assert errors_page.OF_AN_ERROR.keys() == kinds
    assert errors_page.PAGE.read_text("utf-8") == errors_page.page(), "python tests/errors_page.py"


# --- definitions ------------------------------------------------------------------------------------------------------

OWN = "tidytape's own convention; see definitions"
ENTRY = re.compile(r"(?ms)^\{func\}`~tidytape\.([\w.]+)`\n: .*?^  \*Source\*: (.*?)\.\n(?=\n|\Z)")


def quantities() -> dict[str, Any]:
    """Return every public function of the analytics and of `aggregate`, by name."""
    rooms = [module.name for module in pkgutil.iter_modules(tidytape.analytics.__path__, "analytics.")]
    exported = {
        f"{room}.{name}": getattr(importlib.import_module(f"tidytape.{room}"), name)
        for room in (*rooms, "aggregate")
        if "._" not in room
        for name in importlib.import_module(f"tidytape.{room}").__all__
    }
    return {name: value for name, value in exported.items() if inspect.isfunction(value)}


def source(function: Any) -> str:
    """Return what the section ``References`` of a function's docstring says, on one line; "own" is our own formula."""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    if "References" not in lines:
        return ""
    section = "\n".join(lines[lines.index("References") + 2 :]).partition("\n\n")[0]
    cited = [" ".join(one.split()).rstrip(".") for one in re.split(r"(?m)^\.\. \[\d+\] ", section) if one]
    text = "; ".join(cited).replace("``", "`")
    return f"own{text.removeprefix(OWN)}" if text.startswith(OWN) else text.replace(OWN, "our own")


def definitions_page() -> str:
    """Return the page of definitions with the sources that the docstrings name."""
    known = quantities()

    def fresh(entry: re.Match[str]) -> str:
        if " ".join(entry[2].split()) == source(known[entry[1]]):
            return entry[0]
        text = f"  *Source*: {source(known[entry[1]])}."
        head = entry[0][: entry.start(2) - entry.start() - len("  *Source*: ")]
        return head + textwrap.fill(text, 118, subsequent_indent="  ") + "\n"

    return ENTRY.sub(fresh, DEFINITIONS.read_text("utf-8"))


def test_every_public_quantity_names_a_source_or_says_that_it_is_our_own() -> None:
    without = [
        name
        for name, function in quantities().items()
        if OWN not in (function.__doc__ or "").replace("\n    ", " ")
        and ".. [1] " not in (function.__doc__ or "")
    ]
    assert without == []
    # In reStructuredText a line that begins with "J. " is the tenth item of a list: the surname comes first.
    lists = [
        name
        for name, function in quantities().items()
        if re.search(r"\.\. \[\d+\] \w\. ", function.__doc__ or "")
    ]
    assert lists == []


def test_the_page_of_definitions_has_every_quantity_once_with_its_source() -> None:
    names = [entry[1] for entry in ENTRY.finditer(DEFINITIONS.read_text("utf-8"))]
    assert sorted(names) == sorted(quantities())
    assert DEFINITIONS.read_text("utf-8") == definitions_page(), "python tests/test_reference_pages.py"


# --- the glossary -----------------------------------------------------------------------------------------------------


def glossary() -> dict[str, list[str]]:
    """Return each noun of the page with the words that are not used for it."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]*)\|$", GLOSSARY.read_text("utf-8"), flags=re.MULTILINE)
    return {
        noun.strip(): [word.strip() for word in others.split(",") if word.strip()]
        for noun, others in rows
        if noun.strip() not in {"noun", "---"}
    }


def public_names() -> Iterator[str]:
    """Yield each public function, class, method and parameter, under the module that exports it."""
    for module in pkgutil.walk_packages(tidytape.__path__, "tidytape."):
        if any(part.startswith("_") for part in module.name.split(".")):
            continue
        found = importlib.import_module(module.name)
        for name in getattr(found, "__all__", ()):
            where = f"{module.name.removeprefix('tidytape.')}.{name}"
            yield from _names_of(where, getattr(found, name))


def _names_of(where: str, value: Any) -> Iterator[str]:
    yield where
    if inspect.isclass(value):
        for name, member in vars(value).items():
            if not name.startswith("_"):
                yield from _names_of(f"{where}.{name}", member)
    elif inspect.isfunction(value := getattr(value, "__func__", value)):
        yield from (f"{where}({name})" for name in inspect.signature(value).parameters)


def words(name: str) -> set[str]:
    """Return the words of the last part of a name, in the singular."""
    last = re.split(r"[.(]", name.rstrip(")"))[-1]
    return {word.lower().removesuffix("s") for word in re.findall(r"[A-Z]?[a-z]+", last)}


def test_the_glossary_has_some_forty_nouns_each_once() -> None:
    nouns = glossary()
    rows = GLOSSARY.read_text("utf-8").count("\n| ") - 2 * GLOSSARY.read_text("utf-8").count("| noun |")
    assert len(nouns) == rows
    assert 35 <= len(nouns) <= 65
    assert not {noun for noun in nouns for others in nouns.values() if noun in others}


def test_public_names_say_the_nouns_of_the_glossary() -> None:
    others = {word for words_of_noun in glossary().values() for word in words_of_noun}
    assert {name for name in public_names() if words(name) & others} == set()


if __name__ == "__main__":
    COLUMNS.write_text(columns_page(), "utf-8")
    DEFINITIONS.write_text(definitions_page(), "utf-8")
