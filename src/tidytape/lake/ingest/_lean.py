"""Candles of LEAN, QuantConnect's engine: a zip archive per day, ``20221213_btcusdt_minute_trade.csv`` inside.

A line is milliseconds since midnight UTC, open, high, low, close and volume, without a header. The name of the file in
the archive names the day, the market and the length of the candles, but not the exchange.

LEAN writes symbols in lower case. The lake has them in upper case, unless ``raw_symbol`` gives the symbol as the
exchange writes it. Files of quotes are refused, because candles of the best bid and ask are not candles of trades.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import ClassVar

import polars as pl

from tidytape.errors import IngestError
from tidytape.lake._batch import Spool
from tidytape.lake._tables import RECORDED_CANDLES
from tidytape.lake.ingest._decode import Header, delimited
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest._lines import inner_name
from tidytape.lake.ingest._mapped_rows import MappedRows
from tidytape.lake.ingest._own_files import Csv
from tidytape.times import DAY, MILLISECOND

_NAME = re.compile(r"(\d{8})_(.+)_(minute|second)_(trade|quote)\.csv")
_INTERVALS = {"minute": "1m", "second": "1s"}
_COLUMNS = ["timestamp", "open", "high", "low", "close", "volume"]


class Lean(Layout):
    """Zips of LEAN: candles of a minute or a second, one day each."""

    name = "lean"
    needs_exchange = True
    market_options = tuple(name for name in Layout.market_options if name != "funding_interval")
    amounts: ClassVar[Mapping[str, str]] = {
        RECORDED_CANDLES.name: "coins, unless the symbol or the exchange is known to count something else"
    }

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file has such candles, by the name that LEAN gives it."""
        return _NAME.fullmatch(name) is not None

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        match = _NAME.fullmatch(inner_name(job.path)) or _NAME.fullmatch(job.path.name)
        if match is None or match[4] == "quote":
            reason = "quotes, which are no candles of trades" if match else "no candles of LEAN by its name"
            raise IngestError(
                f"{job.path}: {reason}; a name is e.g. 20221213_btcusdt_minute_trade.csv", path=str(job.path)
            )
        date, symbol, resolution, _ = match.groups()
        try:
            midnight = int(datetime.strptime(date, "%Y%m%d").replace(tzinfo=UTC).timestamp()) * 1000
        except ValueError as error:
            raise IngestError(f"{job.path}: {date} is no day", path=str(job.path)) from error
        parsed = Parsed(spool)
        candles = Csv(table=RECORDED_CANDLES.name, time_unit="ms", interval=_INTERVALS[resolution])
        job = job.of(raw_symbol=job.raw_symbol or symbol.upper())
        rows = MappedRows(candles, job, _COLUMNS, parsed)
        since_midnight = pl.col("c0").cast(pl.Int64, strict=False)
        is_in_day = since_midnight.is_between(0, DAY // MILLISECOND, closed="left")
        for _, texts in delimited(job, parsed, progress, lambda *_: Header(_COLUMNS, is_line=False)):
            reasons = pl.when(~is_in_day.fill_null(value=False)).then(
                pl.format("'{}' is no number of milliseconds since midnight", pl.col("c0").fill_null(""))
            )
            good_texts = parsed.bad.take(texts.with_columns(reason=reasons))
            rows.take(good_texts.with_columns((since_midnight + midnight).cast(pl.String).alias("c0")))
        return parsed
