"""Write a report of a study: one HTML file with pictures, tables and a manifest, from the answers on a tape.

- `record` : fetch the data that a report shows, and record the answers on a tape.
- `write` : write the report of a tape that `record` or your own study recorded.
- `fetched` : list what a tape has: series, rows, weight and time by data type.

The same tape gives the same report, byte for byte, in any folder and at any time, if the libraries have the same
versions. The manifest at the end of the report lists these versions. On a machine with another number of cores the last
digit of a number in an interactive report may differ.

>>> import tempfile, tidytape
>>> day = {"coin": "BTC", "interval": "1h", "start": "2024-08-08", "end": "2024-08-09"}
>>> with tempfile.TemporaryDirectory() as folder, tidytape.Client.demo() as client:
...     with client.record(f"{folder}/study.tape"):
...         candles = client.candles(exchange="DEMO_SPOT", **day)
...     written = write(f"{folder}/study.tape", f"{folder}/report.html")
...     written.name, written.stat().st_size < 3_000_000
('report.html', True)
"""

from __future__ import annotations

from tidytape import _other_clients
from tidytape.report._fetched import fetched
from tidytape.report._record import record
from tidytape.report._write import write

__all__ = ["fetched", "record", "write"]

_other_clients.explain(__name__, __all__)
