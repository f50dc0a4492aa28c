"""The methods of both clients: one definition, documented in full, each answered by the real service."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tidytape
from simulated.asked import LISTS, SERIES, predicted
from simulated.everything import everything
from tables import each_row
from tidytape.client import _series
from tidytape.client._endpoints import Endpoints, Queries
from tidytape.client._series import FetchQuery, SeriesMethods
from tidytape.client._settings import Options
from tidytape.errors import QueryError
from tidytape.schema import (
    BLOCK_SIZES,
    HOLDINGS,
    MARKETS,
    PREDICTION_MARKETS,
    TPO_SESSIONS,
    Schema,
    schema_of,
)

ASKED: dict[str, dict[str, Any]] = {name: asked for name, (_, asked) in SERIES.items()} | LISTS
FRAMES: dict[str, Schema] = {name: schema_of(kind) for name, (kind, _) in SERIES.items()} | {
    "tpo_sessions": TPO_SESSIONS,
    "markets": MARKETS,
    "prediction_markets": PREDICTION_MARKETS,
    "block_sizes": BLOCK_SIZES,
    "describe": HOLDINGS,
}
NESTED = "prediction_markets"
# what is done with anything that is asked, and what has tests of its own
WHOLE = {"plan", "fetch", "to_parquet", "record", "stream", "live", "events"}
METHODS = [
    name
    for name, _ in inspect.getmembers(Endpoints, inspect.isfunction)
    if not name.startswith("_") and name not in WHOLE
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(predicted(everything(tmp_path_factory.mktemp("methods") / "lake")).path)


@pytest.fixture(scope="module")
def client(lake: Path) -> Iterator[tidytape.Client[pl.DataFrame]]:
    with tidytape.Client.local(lake) as local:
        yield local


def test_these_are_the_methods() -> None:
    assert set(METHODS) == {*ASKED}


def test_both_clients_have_the_same_methods_from_one_definition() -> None:
    def public(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}

    assert public(tidytape.Client) >= {*METHODS, *WHOLE, "iter_frames", "local", "demo", "replay"}
    assert public(tidytape.Client) - {"close"} == public(tidytape.AsyncClient) - {"aclose"}
    for name in (*METHODS, *WHOLE):
        both = getattr(tidytape.Client, name), getattr(tidytape.AsyncClient, name)
        assert both[0] is both[1]
        assert inspect.signature(both[0]) == inspect.signature(both[1])


@pytest.mark.slow
def test_both_clients_answer_alike(lake: Path, client: Any) -> None:
    async def fetched() -> dict[str, Any]:
        async with tidytape.AsyncClient.local(lake) as other:
            found = await asyncio.gather(*(getattr(other, name)(**asked) for name, asked in ASKED.items()))
        return dict(zip(ASKED, found, strict=True))

    answered = asyncio.run(fetched())
    for name, asked in ASKED.items():
        expected, got = getattr(client, name)(**asked), answered[name]
        if isinstance(expected, pl.DataFrame):
            assert expected.height, name
            assert got.equals(expected), name
        elif name == "usage":
            assert (got.limit, got.window_seconds) == (expected.limit, expected.window_seconds)
        else:
            assert expected, name
            assert got == expected, name


@each_row("name", METHODS)
def test_arguments_are_keyword_only(name: str) -> None:
    parameters = [*inspect.signature(getattr(Endpoints, name)).parameters.values()][1:]
    assert all(one.kind is one.KEYWORD_ONLY for one in parameters)


@each_row("name", METHODS)
def test_every_parameter_is_described_with_its_default(name: str) -> None:
    method = getattr(Endpoints, name)
    sections = re.split(r"\n\n(\w[\w ]*)\n-+\n", inspect.getdoc(method) or "")
    described = dict(zip(sections[1::2], sections[2::2], strict=True))
    parameters = {key: one for key, one in inspect.signature(method).parameters.items() if key != "self"}
    entries = re.findall(r"^(\w+) : (.+)\n    \S", described.get("Parameters", ""), re.MULTILINE)
    assert [entry for entry, _ in entries] == list(parameters)
    for entry, kind in entries:
        default = parameters[entry].default
        assert kind.endswith(", optional") == (default is None)
        assert kind.endswith(f", default {default!r}") == (default not in (None, inspect.Parameter.empty))
    assert {"Returns", "Raises", "Examples"} <= set(described)
    assert "tidytape.Client.demo()" in described["Examples"]


def test_what_all_methods_share_stands_once_in_the_source() -> None:
    """Help and completion show it at every method, though the docstrings in the source have only their own."""
    source = inspect.getsource(_series)
    shared = (inspect.getdoc(SeriesMethods) or "").partition("\nParameters\n")[2]
    lines = [line.strip() for line in shared.splitlines() if line.startswith("    ") and len(line) > 30]
    assert len(lines) > 15
    assert {line: source.count(line) for line in lines} == dict.fromkeys(lines, 1)
    for name in METHODS:
        if not hasattr(SeriesMethods, name):
            continue
        told = inspect.getdoc(getattr(tidytape.Client, name)) or ""
        assert "Start of the window, inclusive" in told
        assert "a `RefusedQueryError`. Neither costs weight." in told
        assert "``client.query`` has the same method." in told


@each_row("name", FRAMES)
def test_every_column_is_described_with_its_unit(name: str) -> None:
    text = " ".join((inspect.getdoc(getattr(Endpoints, name)) or "").split())
    schema = FRAMES[name]
    assert f"{schema.rows}, key ({', '.join(schema.key)})" in text
    for column in schema.columns:
        if f"``{column.name}`` :" in text:
            said = f"``{column.name}`` : {column.dtype}, {column.doc}."
            assert said + (f" [{column.unit}]" if column.unit else "") in text
        else:  # names of the series
            assert column.dtype == "category"
            assert f"{column.name}" in text.partition("[categorical]")[0]


@each_row("name", FRAMES)
def test_columns_are_described_in_the_order_of_the_frame(name: str) -> None:
    _, _, returns = (inspect.getdoc(getattr(Endpoints, name)) or "").partition("\nReturns\n")
    listed = re.findall(r"^ +- (.+?)(?: : | \[categorical\]$)", returns, re.MULTILINE)
    described = [column.strip("`") for line in listed for column in line.split(", ")]
    assert [column for column in described if column != "coverage"] == list(FRAMES[name].names)


@each_row("kind", [tidytape.Client, tidytape.AsyncClient])
@each_row("name", ["local", "demo", "replay"])
def test_the_other_ways_to_make_a_client_name_its_options(kind: type, name: str) -> None:
    described = inspect.getdoc(getattr(kind, name)) or ""
    assert f"The options of `{kind.__name__}`:" in described
    assert {option for option in Options.__annotations__ if f"``{option}``" not in described} == set()


@pytest.mark.slow
def test_without_docstrings_the_methods_are_the_same() -> None:
    program = (
        "import sys\nfrom tidytape.client import Client\nfrom tidytape.cli import app\n"
        "sys.exit(Client.candles.__doc__ is not None or not app.registered_groups)"
    )
    assert subprocess.run([sys.executable, "-OO", "-c", program], check=False).returncode == 0


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::tidytape.errors.EmptyAnswerWarning")
@pytest.mark.parametrize("name", FRAMES)
def test_frames_have_the_same_columns_and_dtypes_whatever_the_answer(
    lake: Path, client: Any, name: str
) -> None:
    schema, asked = FRAMES[name], ASKED[name]
    nothing = {"start": 0, "end": 86_400} if "start" in asked else {"exchange": "NOWHERE"}
    with tidytape.Client.local(lake, backend="pandas") as other:
        full, empty = getattr(client, name)(**asked), getattr(client, name)(**asked | nothing)
        pandas_full, pandas_empty = getattr(other, name)(**asked), getattr(other, name)(**asked | nothing)
    if name == "markets":  # the one column that is there only where something is in it
        full, pandas_full = full.drop(NESTED), pandas_full.drop(columns=NESTED)
    assert full.height == len(pandas_full) > 0
    assert empty.height == len(pandas_empty) == 0
    assert full.schema == empty.schema == schema.empty().schema
    assert list(pandas_full.columns) == list(pandas_empty.columns) == list(schema.names)
    expected = schema.to_pandas(schema.empty()).dtypes.astype(str).to_dict()
    for frame in (pandas_full, pandas_empty):
        assert frame.dtypes.astype(str).to_dict() == expected
    for column in schema.identity:
        assert full.schema[column] == pl.Categorical
        assert str(pandas_full.dtypes[column]) == "category"
        assert list(pandas_full[column].dropna()) == full[column].drop_nulls().to_list()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, asked in ASKED.items() if asked.get("exchange") == "X"])
def test_one_market_has_the_frame_of_many(client: Any, name: str) -> None:
    asked = {key: value for key, value in ASKED[name].items() if key != "coin"}
    frames = [
        getattr(client, name)(**asked, raw_symbol=symbols)
        for symbols in ("BTCUSDT", ["BTCUSDT", "BTC'PERP/x"])
    ]
    assert frames[0]["raw_symbol"].unique().to_list() == ["BTCUSDT"]
    assert frames[0].schema == frames[1].schema == FRAMES[name].empty().schema
    assert frames[0].equals(frames[1].filter(pl.col("raw_symbol") == "BTCUSDT"))


@each_row("name", [name for name in METHODS if hasattr(SeriesMethods, name)])
def test_a_query_is_the_same_call_and_says_what_would_be_fetched(name: str) -> None:
    asking, fetching = getattr(Queries, name), getattr(Endpoints, name)
    assert inspect.signature(asking) == inspect.signature(fetching)
    assert isinstance(asking(Queries(), **ASKED[name]), FetchQuery)
    with pytest.raises(TypeError, match="unexpected keyword argument 'coins'"):
        asking(Queries(), coins="BTC", **ASKED[name])


def test_wrong_options_of_a_client_are_refused_by_name() -> None:
    for kind in (tidytape.Client, tidytape.AsyncClient):
        wrong: Any = kind
        with pytest.raises(TypeError, match="unexpected keyword argument 'max_wiat'"):
            wrong("http://service", "k", max_wiat=3)
        for name, value in (("cache_limit", "10GiB"), ("cache_limit", 0), ("max_wait", 0)):
            with pytest.raises(QueryError, match=f"{name}: got "):
                wrong("http://service", "k", **{name: value})
    with pytest.raises(QueryError, match="on_limit='raise' waits not at all"):
        tidytape.Client("http://service", "k", max_wait=0)
