"""Execute notebooks and store them with what they print: ``python tests/notebooks.py [NOTEBOOK ...]``; all by default.

What is stored depends on nothing but the code: no times of execution, ids by position, one kernel name. Progress bars
are left out, and so is what Spark writes to standard error. A cell that fails or warns ends it, and an object of which
only the address in memory is shown; the notebook then stays as it was.
"""

from __future__ import annotations

import base64
import io
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

FOLDER = Path(__file__).parent.parent / "notebooks"
SECONDS = 300
"""The most that one cell may take. [s]"""

_WARNS = re.compile(r"^(?!.*/pyspark/).*\w+Warning:|Traceback", re.MULTILINE)
"""PySpark warns of the pandas that is installed, whatever one does."""

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path: Path) -> NotebookNode:
    """Return a notebook with new outputs, in normal form."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", NotebookNode()
        if cell.cell_type == "code":
            cell.outputs = [_normal(output) for output in cell.outputs if _is_stored(output)]
    return notebook


def _is_stored(output: NotebookNode) -> bool:
    """Return whether an output is for readers; raise SystemExit if it is a warning or an address in memory."""
    if output.output_type == "stream":
        if output.name == "stderr" and _WARNS.search(output.text):
            raise SystemExit(f"a cell warns:\n{output.text}")
        return output.name == "stdout"
    if re.search(r" at 0x[0-9a-f]+>", output.data.get("text/plain", "")):
        raise SystemExit(f"a cell shows an object without a text of its own: {output.data['text/plain']}")
    return not any("widget-view" in kind for kind in output.data)


def _normal(output: NotebookNode) -> NotebookNode:
    if "metadata" in output:
        output.metadata = NotebookNode()
    if picture := output.get("data", {}).get("image/png"):
        output.data["image/png"] = _small(picture)
    return output


def _small(picture: str) -> str:
    """Return a PNG with a palette of 256 colours: a third of the bytes, and no difference that one sees."""
    written = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        palette = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        palette.save(written, "png", optimize=True)
    return base64.b64encode(written.getvalue()).decode("ascii")


def main(paths: list[Path]) -> None:
    """Execute and store notebooks."""
    for path in paths or sorted(FOLDER.glob("*.ipynb")):
        notebook = executed(path)
        nbformat.validate(notebook)
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
