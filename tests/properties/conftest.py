"""Laws count nanoseconds from the epoch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _small_times() -> Iterator[None]:
    """Let frames have times near the epoch: hypothesis asks for no fixture of a function."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidytape.frames._kinds.FIRST_TIME", 0)
        yield
