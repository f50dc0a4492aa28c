"""What `python tests/notebooks.py` stores: the same bytes each time, and nothing that is a mistake."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

import notebooks

pytestmark = pytest.mark.long


def stored(folder: Path, *sources: str) -> Path:
    path = folder / "one.ipynb"
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_a_second_time_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel then draws into the notebook
    path = stored(tmp_path, "import matplotlib.pyplot as plt\nplt.plot([1, 2]);", "print('so')\n1 + 1")
    notebooks.main([path])
    first = path.read_bytes()
    notebooks.main([path])
    assert path.read_bytes() == first
    picture, printed = nbformat.read(path, as_version=4).cells
    assert "image/png" in picture.outputs[0].data
    assert [output.get("text") or output.data["text/plain"] for output in printed.outputs] == ["so\n", "2"]


@pytest.mark.parametrize(
    ("source", "why"),
    [("import warnings\nwarnings.warn('no')", "warns"), ("object()", "without a text of its own")],
)
def test_a_mistake_is_not_stored(tmp_path: Path, source: str, why: str) -> None:
    path = stored(tmp_path, source)
    before = path.read_bytes()
    with pytest.raises(SystemExit, match=why):
        notebooks.main([path])
    assert path.read_bytes() == before
