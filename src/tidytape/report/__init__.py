"""A report of a study: one HTML file with pictures, tables and a manifest, made of a tape and of nothing else.

- `record` : ask a client for what a report of its markets shows, and keep the answers on a tape.
- `write` : write the report of a tape, that of `record` or of a study of your own.
- `fetched` : what a tape holds: series, rows, weight and time by data type.

A report is a function of a tape: the same tape gives the same bytes, in another folder and next year, with the same
versions of the libraries that the manifest at its end lists.

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

from tidytape.report._fetched import fetched
from tidytape.report._record import record
from tidytape.report._write import write

__all__ = ["fetched", "record", "write"]
