"""What every test shares: recorded data, hypothesis profiles, and a clean environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Before anything imports matplotlib: figures are drawn without a screen.
os.environ["MPLBACKEND"] = "Agg"

# Read once, at the start: the fixture `clean_environment` hides it from the code under test.
RECORDED = Path(os.environ.get("TIDYTAPE_RECORDED_DATA") or Path(__file__).parent.parent / "shared" / "data")

settings.register_profile("default", deadline=None)
# The same examples on every run, and fewer: time is short there. Whoever works on a law draws more of them at home.
settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=25
)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "recorded" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.recorded)


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
