"""``tidytape serve`` in a process of its own, as an operator runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(log: Path, *words: object, **environment: str) -> Iterator[str]:
    """Serve on a free port; yields the address."""
    command = [sys.executable, "-c", "from tidytape.cli import main; main()", "serve", "--port", "0"]
    with (
        log.open("wb") as written,
        subprocess.Popen(
            [*command, *map(str, words)],
            stdout=written,
            stderr=subprocess.STDOUT,
            env=os.environ | environment,
        ) as process,
    ):
        try:
            while not (found := re.search(r"running on (http://[\d.:]+)", log.read_text())):
                assert process.poll() is None, log.read_text()
                time.sleep(0.02)
            yield found[1]
        finally:
            process.terminate()
    assert "Traceback" not in log.read_text()
