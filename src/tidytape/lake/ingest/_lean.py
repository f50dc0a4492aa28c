"""Candles of trades, and open interest of futures, in the files of LEAN, QuantConnect's engine.

LEAN keeps a zip archive per market and day for candles of seconds and minutes, and one per market, or per year of an
option, for candles of hours and days [1]_. A file has no header. What it is stands in its folders and in the names of
the archive and of its members: ``data/equity/usa/minute/spy/20131007_trade.zip`` with
``20131007_spy_minute_trade.csv`` inside. An archive of futures or options has a member per contract::

    20131007_es_minute_trade_201312.csv                          a future of December 2013
    20221213_btcusdt_minute_trade_perp.csv                       a perpetual
    20140606_aapl_minute_trade_american_call_6450000_20140613.csv   an option, its strike times 10,000

A line has a time, open, high, low, close and volume; of open interest, a time and a number of contracts. The time is in
milliseconds since midnight, or for hours and days written as ``20131007 09:00``. The rest differs by the security
[1]_ [2]_:

================ ============== ================================== ============================
security         prices         time zone of the files             volume
================ ============== ================================== ============================
``equity``       times 10,000   New York; India: Kolkata           shares
``option``       times 10,000   New York; India: Kolkata           contracts
``indexoption``  times 10,000   New York                           contracts
``future``       as they are    UTC; that of the exchange outside  contracts
                                of America; ICE's DX: New York
``futureoption`` as they are    that of the future                 contracts
``index``        as they are    SPX, NDX and VIX: Chicago; others  none: what stands there is a
                                must be said, unless their folder  number of ticks, or 0
                                names a market outside of the USA
``crypto``       as they are    UTC                                coins
``cryptofuture`` as they are    UTC                                as the exchange counts
================ ============== ================================== ============================

A time is the wall clock of that zone, also on days on which clocks are set: milliseconds since midnight are those of
the clock. A time that the clocks show twice, or never, is a bad line. A candle of a day holds the regular hours of that
date [3]_, which lie within the day of the same date in UTC; there the lake has it. Rows before 2000 are counted and
left out, because a lake takes no times before 2000.

The lake has symbols in upper case, unless ``raw_symbol`` gives the symbol of the only market as the exchange writes it.
A future is ``ES-201312``, an option ``AAPL-20140613-645-C``.

Refused are quotes, because candles of the best bid and ask are no candles of trades, and so all files of ``forex`` and
``cfd``; ticks, whose lines do not say who the aggressor was; and open interest of options, because the lake keeps it in
the quotes of a chain, which these files do not have.

References
----------
.. [1] QuantConnect, "LEAN Data Formats": the pages of Equity, Options, Futures and Crypto in LEAN's folder ``Data``.
   Names and lines are those of ``GenerateZipEntryName`` and ``GenerateLine`` in its ``LeanData``.
.. [2] QuantConnect, LEAN's market-hours database, ``dataTimeZone``; its symbol-properties database, quote currency.
.. [3] LEAN's own sample of SPY of 2013-10-07: the volume of the day is that of its minutes from 9:30 to 16:00.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any, ClassVar

import polars as pl

from tidytape.catalogue import Category
from tidytape.errors import IngestError, QueryError
from tidytape.lake._amount_units import CountedUnit, documented
from tidytape.lake._batch import Spool
from tidytape.lake._symbols import guessed
from tidytape.lake._tables import OPEN_INTEREST, RECORDED_CANDLES
from tidytape.lake.ingest._decode import Header, split
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress, nothing_to_choose
from tidytape.lake.ingest._lines import BadLines, first_text, inner_name, members
from tidytape.lake.ingest._mapped_rows import put_texts
from tidytape.lake.ingest._market import Market, option
from tidytape.lake.ingest._own_files import Csv
from tidytape.lake.ingest._report import Note
from tidytape.times import DAY, MILLISECOND

_OPTIONS = ("option", "indexoption", "futureoption")
_SECURITIES = ("equity", *_OPTIONS, "future", "index", "crypto", "cryptofuture")
_SCALED = ("equity", "option", "indexoption")
"""Securities whose prices are written times 10,000."""
_IN_CONTRACTS = (*_OPTIONS, "future")

_NAME = re.compile(
    r"(?:(?P<date>\d{8})_)?(?P<ticker>.+?)(?:_(?P<resolution>minute|second|tick))?"
    r"(?:_(?P<kind>trade|quote|openinterest))?(?:_(?P<month>perp|\d{6}))?"
    r"(?:_(?:american|european)_(?P<right>call|put)_(?P<strike>\d+)_(?P<expiry>\d{8}))?\.csv"
)
_FOLDERS = re.compile(
    rf".*/({'|'.join(_SECURITIES)})/([^/]+)/(tick|second|minute|hour|daily)/", re.IGNORECASE
)
_DATED_LINE = re.compile(r"\d{8} \d\d:\d\d((?:,[-+.\deE]*){1,10})\r?(?:\n|$)")
"""A line of a file of hours or days."""

_LENGTHS = MappingProxyType({"second": "1s", "minute": "1m", "hour": "1h", "daily": "1d"})
_OF_ALL_DAYS = ("1h", "1d")
_COLUMNS = MappingProxyType(
    {
        RECORDED_CANDLES.name: ["timestamp", "open", "high", "low", "close", "volume"],
        OPEN_INTEREST.name: ["timestamp", "amount"],
    }
)
_FIRST_YEAR = 2000
"""A lake takes no earlier times."""
_ROWS = 100_000
"""Most lines of small members that are read at once."""

_NEW_YORK, _CHICAGO = "America/New_York", "America/Chicago"
_ZONES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("equity/usa", "option/usa", "indexoption/usa", "future/ice/dx"), _NEW_YORK),
        **dict.fromkeys(("index/usa/spx", "index/usa/ndx", "index/usa/vix"), _CHICAGO),
        **dict.fromkeys(("equity/india", "option/india", "future/india", "index/india"), "Asia/Kolkata"),
        **dict.fromkeys(("future/eurex", "index/eurex"), "Europe/Berlin"),
        **dict.fromkeys(("future/hkfe", "index/hkfe"), "Asia/Hong_Kong"),
        **dict.fromkeys(("future/krx", "index/krx"), "Asia/Seoul"),
        "index/ose": "Asia/Tokyo",
        **{
            f"future/{market}": "UTC"
            for market in ("cbot", "cfe", "cme", "comex", "ice", "nymex", "nyseliffe", "sgx")
        },
        "crypto": "UTC",
        "cryptofuture": "UTC",
    }
)
"""Time zones of files, by security, market and ticker, as far as they decide."""

_CURRENCIES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("usa", "cbot", "cfe", "cme", "comex", "ice", "nymex", "nyseliffe", "sgx"), "USD"
        ),
        "india": "INR", "eurex": "EUR", "hkfe": "HKD", "krx": "KRW", "ose": "JPY", "usa/aex": "EUR",
        "cme/acd": "CAD", "cme/ajy": "JPY", "cme/ane": "NZD", "cme/cjy": "JPY", "cme/cnh": "CNH", "cme/e3g": "GBP",
        "cme/ead": "AUD", "cme/ecd": "CAD", "cme/eny": "JPY", "cme/esk": "SEK", "cme/ft1": "GBP", "cme/m6c": "CAD",
        "cme/m6j": "JPY", "cme/m6s": "CHF", "cme/niy": "JPY", "cme/tpy": "JPY", "nymex/az1": "EUR", "sgx/nk": "JPY",
    }
)  # fmt: skip
"""Currencies of prices, by market, and by ticker where it is another."""

_CRYPTO = frozenset(
    {"binance", "binanceus", "bitfinex", "bybit", "coinbase", "ftx", "ftxus", "gdax", "kraken"}
)
"""Markets of crypto."""


@dataclass(frozen=True, kw_only=True)
class Lean(Layout):
    """Zips of LEAN: candles of shares, options, futures, indices and crypto, and open interest of futures.

    Parameters
    ----------
    security : str, optional
        What the files are of: equity (shares of the USA), option, indexoption, future, futureoption, index, crypto or
        cryptofuture. By default LEAN's folders or the names inside the archive show it.
    time_zone : str, optional
        Time zone of the times, e.g. ``"America/New_York"``. By default that of the security and the market in LEAN.
    interval : {"1h", "1d"}, optional
        Length of the candles of hours or days; by default LEAN's folders or the times show it.

    Raises
    ------
    QueryError
        If there is no such security, time zone or interval.

    Examples
    --------
    >>> Lean(security="equity").security
    'equity'
    """

    name = "lean"
    market_options = tuple(name for name in Layout.market_options if name != "funding_interval")
    amounts: ClassVar[Mapping[str, str]] = {
        RECORDED_CANDLES.name: "the security: shares, contracts, or coins, unless the symbol or the exchange is known "
        "to count something else",
        OPEN_INTEREST.name: "the layout: contracts",
    }

    security: str | None = option(
        "What the files are of, if neither folder nor name shows it: " + ", ".join(_SECURITIES) + "."
    )
    time_zone: str | None = option(
        "Time zone of the times, e.g. America/New_York; by default LEAN's for the security and the market."
    )
    interval: str | None = option("Length of candles of hours or days, if nothing shows it: 1h or 1d.")

    def __post_init__(self) -> None:
        for name, words in (("security", _SECURITIES), ("interval", _OF_ALL_DAYS)):
            if getattr(self, name) not in {None, *words}:
                raise QueryError(name, got=getattr(self, name), expected="one of " + ", ".join(words))
        try:
            pl.Series([date(2000, 1, 1)]).cast(pl.Datetime).dt.replace_time_zone(self.time_zone)
        except (pl.exceptions.PolarsError, TypeError) as error:
            expected = "the name of a time zone, e.g. America/New_York"
            raise QueryError("time_zone", got=self.time_zone, expected=expected) from error

    def identity(self, market: Market) -> dict[str, Any]:
        """Return the options that change which rows are read."""
        return {"security": self.security, "time_zone": self.time_zone, "interval": self.interval}

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file is one of LEAN's, by the name that it has inside the archive or by its first line."""
        match = _NAME.fullmatch(name.lower())
        is_of_day = match is not None and match["date"] and match["resolution"] and match["kind"]
        return bool(is_of_day) or _DATED_LINE.match(head) is not None

    def told_by_name(self, job: Job) -> str:
        """Return the folders and the name of a file, which tell its market."""
        return "/".join(job.path.absolute().parts[-5:])

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool)
        file = self._described(job)
        table = OPEN_INTEREST if file.is_interest else RECORDED_CANDLES
        rows_are = Csv(table=table.name, time_unit="ms", interval=None if file.is_interest else file.interval)
        put_texts(file.rows(parsed, progress), rows_are, job.of(exchange=file.exchange), parsed)
        parsed.bad.by_member()
        parsed.any_class = file.security == "index"
        parsed.futures = file.security in {*_IN_CONTRACTS, "cryptofuture"}
        if file.security in _IN_CONTRACTS:
            parsed.amount_unit = _contracts
        elif file.security == "cryptofuture":
            parsed.amount_unit = _of_cryptofuture
        elif file.security != "crypto":
            parsed.coins.add(table.name)
        if file.security in _SCALED:
            parsed.batch(RECORDED_CANDLES).change(_unscaled)
        if file.security == "index":
            parsed.batch(RECORDED_CANDLES).change(lambda candles: candles.with_columns(volume=None))
        if file.time_zone != "UTC":
            days = ": each day is stored as the same date in UTC" if file.interval == "1d" else ""
            sentence = f"whose times were read in {file.time_zone}{days}"
            row = "open interest report" if file.is_interest else "candle"
            parsed.notes.append(Note(row, sentence, parsed.batch(table).rows))
        return parsed

    def _described(self, job: Job) -> _File:
        """Return what a file is; raise QueryError if the caller must say more, IngestError if it cannot be read."""
        path = job.path
        match = _NAME.fullmatch(inner_name(path).lower())
        dated_line = _DATED_LINE.match(first_text(path))
        is_quoted = match is not None and (
            match["kind"] == "quote" or (dated_line is not None and dated_line[1].count(",") > len("ohlcv"))
        )
        if is_quoted:
            reason = "quotes, which are no candles of trades"
        elif match is None or not (match["resolution"] or dated_line):
            reason = "no candles of LEAN by its name"
        elif match["resolution"] == "tick":
            reason = "ticks, whose lines do not say who the aggressor was"
        elif match["right"] and match["kind"] == "openinterest":
            reason = "open interest of options, which the lake keeps in the quotes of a chain"
        else:
            return self._in_folders(job, match)
        message = f"{path}: {reason}; a name is e.g. 20221213_btcusdt_minute_trade.csv"
        raise IngestError(message, path=str(path))

    def _in_folders(self, job: Job, match: re.Match[str]) -> _File:
        folders = _FOLDERS.match(job.path.absolute().as_posix())
        folder_security, market, resolution = map(str.lower, folders.groups() if folders else ("", "", ""))
        exchange = (
            job.exchange or ("" if market in {"", "usa", "india"} else market.upper()) or job.known_exchange
        )
        security = self.security or folder_security or _named_security(match, exchange)
        if not security:
            choices = _OPTIONS if match["right"] else ("equity", "index", "crypto")
            raise QueryError(
                "security",
                got=None,
                expected=f"{' or '.join(choices)}: neither folder nor name says what {job.path.name} is of",
                hint=f"``security={choices[0]!r}`` says it",
            )
        is_american = security in {"equity", "option", "indexoption", "index"}
        market = market or ("usa" if is_american else _market_named(exchange))
        key = security.replace("futureoption", "future")
        places = (f"{key}/{market}/{match['ticker']}", f"{key}/{market}", key)
        lean_zone = next((_ZONES[place] for place in places if place in _ZONES), None)
        if self.time_zone is None and lean_zone is None:
            raise QueryError(
                "time_zone",
                got=None,
                expected=f"the time zone of the times of {job.path.name}: LEAN has several for such files",
                hint="``time_zone='UTC'`` says e.g. that they are in UTC",
            )
        length = _LENGTHS.get(match["resolution"] or resolution) or self.interval
        if self.interval not in {None, length}:
            raise nothing_to_choose("interval", self.interval, f"files of {length}")
        return _File(
            job=job,
            security=security,
            # Shares in another zone than that of the market are those of another market.
            market=market if self.time_zone in {None, lean_zone} or folders else "",
            exchange=exchange,
            time_zone=self.time_zone or lean_zone or "",
            interval=length or _shown_length(job),
            first_name=match,
        )


def _market_named(exchange: str) -> str:
    """Return what LEAN's folders would call an exchange: BINANCE_US is binanceus."""
    return re.sub(r"[^a-z]", "", exchange.lower())


def _named_security(match: re.Match[str], exchange: str) -> str:
    """Return the security that the name of a member shows, or exchange and symbol; empty if they do not show it."""
    if match["month"]:
        return "cryptofuture" if match["month"] == "perp" else "future"
    is_crypto = _market_named(exchange) in _CRYPTO and guessed(match["ticker"]) is not None
    return "crypto" if is_crypto and not match["right"] else ""


def _shown_length(job: Job) -> str:
    """Return the length of candles that their times show: if all are at midnight, they are of days."""
    times: set[str] = set()
    for _, lines in members(job.path, BadLines(), lambda _: None):
        times.update(lines["text"].str.extract(r"^(\d{8} \d\d:\d\d),").drop_nulls())
        if not all(time.endswith(" 00:00") for time in times):
            return "1h"
    if len(times) > 1:
        return "1d"
    raise QueryError(
        "interval",
        got=None,
        expected=f"1h or 1d: {job.path.name} has one time, which shows no length",
        hint="``interval='1d'`` says it",
    )


@dataclass(frozen=True, kw_only=True)
class _File:
    """What a file of LEAN is.

    Attributes
    ----------
    job : Job
        The file, and what the caller says about it.
    security, market : str
        As in LEAN's folders; the market is empty if it is not known.
    exchange : str
        The exchange in the lake.
    time_zone : str
        Of its times.
    interval : str
        Length of its candles.
    first_name : re.Match
        The name of its first member.
    """

    job: Job
    security: str
    market: str
    exchange: str
    time_zone: str
    interval: str
    first_name: re.Match[str]

    @property
    def is_interest(self) -> bool:
        """Whether it holds open interest."""
        return _kind(self.first_name) == ("openinterest", self.first_name["resolution"])

    def rows(self, parsed: Parsed, progress: Progress) -> Iterator[pl.DataFrame]:
        """Yield the rows as columns of text, with times in UTC; the markets are added to those of ``parsed``."""
        table = OPEN_INTEREST if self.is_interest else RECORDED_CANDLES
        header = Header([*_COLUMNS[table.name]], is_line=False)
        waiting: list[pl.DataFrame] = []
        for name, lines in members(self.job.path, parsed.bad, progress):
            symbol, day = self._market_of(name, parsed)
            waiting.append(lines.with_columns(raw_symbol=pl.lit(symbol), day=pl.lit(day)))
            if sum(part.height for part in waiting) > _ROWS:
                yield self._rows(pl.concat(waiting), header, parsed)
                waiting.clear()
        if waiting:
            yield self._rows(pl.concat(waiting), header, parsed)

    def _rows(self, lines: pl.DataFrame, header: Header, parsed: Parsed) -> pl.DataFrame:
        parsed.lines += lines.height
        of_lines = lines.select("line", "raw_symbol", "day")
        texts = split(lines.select("line", "text"), header, parsed.bad).join(
            of_lines, on="line", how="left", maintain_order="left"
        )
        time = pl.col("c0")
        if self.first_name["resolution"]:
            since_midnight = time.cast(pl.Int64, strict=False)
            is_in_day = since_midnight.is_between(0, DAY // MILLISECOND, closed="left")
            clock: pl.Expr = pl.when(is_in_day).then(
                pl.col("day").cast(pl.Datetime("ms")) + pl.duration(milliseconds=since_midnight)
            )
            expected = "number of milliseconds since midnight"
        else:
            clock = time.str.to_datetime("%Y%m%d %H:%M", time_unit="ms", strict=False)
            expected = "day and time such as 20131007 09:00"
        zone = "UTC" if self.interval == "1d" else self.time_zone
        utc = clock.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
        shown = time.fill_null("")
        reason = (
            pl.when(clock.is_null())
            .then(pl.format(f"'{{}}' is no {expected}", shown))
            .when(utc.is_null())
            .then(
                pl.format(
                    f"'{{}}' is a time that the clocks of {zone} show twice, or never, on that day", shown
                )
            )
        )
        good_texts = parsed.bad.take(texts.with_columns(reason=reason, c0=utc)).drop("day")
        is_early = pl.col("c0").dt.year() < _FIRST_YEAR
        late_texts = good_texts.filter(~is_early)
        parsed.ignore(f"row before {_FIRST_YEAR}", good_texts.height - late_texts.height)
        names = {f"c{place}": name for place, name in enumerate(header.names)}
        return late_texts.with_columns(pl.col("c0").dt.epoch("ms").cast(pl.String)).rename(names)

    def _market_of(self, name: str, parsed: Parsed) -> tuple[str, date | None]:
        """Return the symbol and the day of a member; add its market to those of ``parsed``."""
        path = str(self.job.path)
        match = _NAME.fullmatch(name.lower())
        if match is None or _kind(match) != _kind(self.first_name):
            raise IngestError(f"{path}: {name} is of another kind than {self.first_name[0]}", path=path)
        ticker = match["ticker"].upper()
        symbol = self.job.raw_symbol or ticker
        category = None
        if match["right"]:
            strike = f"{int(match['strike']) / 10_000:.4f}".rstrip("0").rstrip(".")
            symbol = f"{ticker}-{match['expiry']}-{strike}-{match['right'][0].upper()}"
            category = Category.OPTION
        elif match["month"] and match["month"] != "perp":
            symbol, category = f"{ticker}-{match['month']}", Category.FUTURE
        elif self.security == "cryptofuture":
            category = Category.PERPETUAL
        market = Market(category=category, normalized_symbol=self._normalized(ticker))
        parsed.markets[self.exchange, symbol] = market
        written = match["date"]
        try:
            return symbol, date(*map(int, (written[:4], written[4:6], written[6:]))) if written else None
        except ValueError as error:
            raise IngestError(f"{path}: {written} is no day", path=path) from error

    def _normalized(self, ticker: str) -> str | None:
        """Return the name of a ticker across exchanges; None if the caller says it, or the symbol shows it."""
        if (
            self.security in {"crypto", "cryptofuture"}
            or self.job.market.normalized_symbol
            or self.job.market.quote
        ):
            return None
        places = (f"{self.market}/{ticker.lower()}", self.market)
        currency = next((_CURRENCIES[place] for place in places if place in _CURRENCIES), None)
        if currency is None and self.security not in {"future", "futureoption"}:
            raise QueryError(
                "quote",
                got=None,
                expected=f"the currency of {ticker}, e.g. USD: that of {self.job.path.name} is not known",
            )
        return None if currency is None else f"{ticker}-{currency}"


def _kind(match: re.Match[str]) -> tuple[str, str | None]:
    """Return the kind of rows that the name of a member shows, and the resolution."""
    return match["kind"] or "trade", match["resolution"]


def _unscaled(candles: pl.DataFrame) -> pl.DataFrame:
    # polars divides by multiplying with 0.0001, which is no exact number.
    return candles.with_columns((pl.col("open", "high", "low", "close") / 10_000).round_sig_figs(15))


def _contracts(table: str, exchange: str, raw_symbol: str) -> CountedUnit:
    return CountedUnit.CONTRACTS


def _of_cryptofuture(table: str, exchange: str, raw_symbol: str) -> CountedUnit | None:
    """Return the unit that the exchange documents; LEAN writes Binance's BTCUSD_PERP, in contracts, as BTCUSD."""
    pair = re.split("[-_]", raw_symbol)[0]
    symbol = f"{pair}_PERP" if exchange.upper().startswith("BINANCE") else raw_symbol
    return documented(exchange, symbol, table, otherwise=None)
