"""Paths of lakes under a Python that takes them for ASCII."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
_INFO = "from tidytape.cli import main; main()"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Märkte", "lake"])
def test_a_python_of_ascii_says_what_is_wrong_with_a_path(tmp_path: Path, name: str) -> None:
    from tidytape.lake import Lake

    Lake.create(tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", _INFO, "lake", "info", "--lake", str(tmp_path / name)],
        env=os.environ | _ASCII,
        capture_output=True,
        check=False,
        timeout=60,
    )
    said = done.stderr.decode("ascii")
    if name.isascii():
        assert done.returncode == 0, said
    else:
        assert done.returncode != 0
        assert "this Python reads paths as ascii; start it with PYTHONUTF8=1" in said
        assert "Traceback" not in said
