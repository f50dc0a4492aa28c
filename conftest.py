"""What every test shares: recorded data, hypothesis profiles, and a clean environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Before anything imports matplotlib: figures are drawn without a screen.
os.environ["MPLBACKEND"] = "Agg"

# Read once, at the start: the fixture `clean_environment` hides it from the code under test.
RECORDED = Path(os.environ.get("TIDYTAPE_RECORDED_DATA") or Path(__file__).parent.parent / "shared" / "data")

# Every run draws the same few examples of each law. Whoever works on a law draws more, and others each time.
settings.register_profile(
    "default", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=25
)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=500)
settings.load_profile("thorough" if os.environ.get("TIDYTAPE_TEST_THOROUGH") else "default")

_SLOW_MODULE = re.compile(r"^pytestmark = pytest\.mark\.(slow|long)$", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over a module of nothing but slow tests where none of them runs: some import what takes seconds."""
    if config.option.markexpr != "not slow" or not collection_path.match("test_*.py"):
        return None
    return True if _SLOW_MODULE.search(collection_path.read_text("utf-8")) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "recorded" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.recorded)
        if item.get_closest_marker("long") or _opens_the_demo(item):
            item.add_marker(pytest.mark.slow)


def _opens_the_demo(item: pytest.Item) -> bool:
    """Return whether an item is a docstring's example that copies or simulates the demo's market."""
    source = item.dtest.docstring if isinstance(item, pytest.DoctestItem) and item.dtest else None
    return source is not None and any(call in source for call in ("Client.demo(", "fill(folder"))


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The folder of recorded market data: ``recorded / "name.csv.gz"``."""
    if not RECORDED.is_dir():
        pytest.skip(f"no recorded data at {RECORDED}; TIDYTAPE_RECORDED_DATA can name another folder")
    return RECORDED


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    """No setting of the machine reaches a test; a test that needs one sets it through ``monkeypatch``."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TIDYTAPE_")]:
            patch.delenv(name)
        yield
