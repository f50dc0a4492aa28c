"""Kinds of files that many people have, as data: one `Description` each, which `tidytape.lake.ingest` recognises.

A new kind is an entry of `DESCRIPTIONS` and a row of the table in its test. What the vendor documents is in the entry;
what neither the file nor its name nor its folder shows is in `Description.asks`, and the caller states it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidytape.lake._amount_units import CountedUnit
from tidytape.lake.ingest._mapped import BY_ROWS, Mapped
from tidytape.lake.ingest._own_files import Csv, Feather, Json, Parquet

COIN = CountedUnit.COIN
_PRICES = ("open", "high", "low", "close")
_OHLC = ",".join(_PRICES)
_BILLIONTHS = dict.fromkeys((*_PRICES, "price"), 1e9)


def _trades(
    columns: Mapping[str, str], time_unit: str | None, time_format: str | None = None, **options: Any
) -> Csv:
    return Csv(columns=columns, time_unit=time_unit, time_format=time_format, **options)


def _candles(
    columns: Mapping[str, str], time_unit: str | None, time_format: str | None = None, **options: Any
) -> Csv:
    return Csv(table="candles", columns=columns, time_unit=time_unit, time_format=time_format, **options)


@dataclass(frozen=True, kw_only=True)
class Description:
    """One kind of file.

    Attributes
    ----------
    title : str
        What a report calls it.
    reads : tuple of Mapped
        How its rows are read; with several, each reads the whole file.
    header : tuple of str
        Names that its header has, in lower case and without brackets; other columns may follow. Empty if the files have
        no header.
    row : str
        Pattern that is found in the first row, or in the beginning of a JSON file.
    columns : str
        Pattern that is found in the names of the header, in lower case with commas between them.
    in_row : str
        Pattern of the first row whose groups are facts, as those of ``paths``.
    paths : tuple of str
        Patterns of the path of the file. Their groups name the facts that they find: exchange, raw_symbol, coin, quote,
        interval, kind or class.
    needs_path : bool
        Whether only a file with such a name is of this kind.
    is_any_name : bool
        Whether ``paths`` fit names that are no symbols, so that only a pair of coins is taken for one.
    raw_symbol : str
        How the symbol is made of the groups.
    market : mapping of str to str
        Attributes of `tidytape.lake.ingest.Market` that hold for all such files, unless the caller states others.
    classes : mapping of str to str
        Category by pattern of the symbol.
    asks : mapping of str to str
        Facts that the caller must state, by parameter, with what an error says of each.
    kind : str or None
        What the events are in their source, if a market must not have events of another kind.
    refusal : str
        Why such files cannot go into a lake.
    """

    title: str
    reads: tuple[Mapped, ...] = ()
    header: tuple[str, ...] = ()
    row: str = ""
    columns: str = ""
    in_row: str = ""
    paths: tuple[str, ...] = ()
    needs_path: bool = False
    is_any_name: bool = False
    raw_symbol: str = "{raw_symbol}"
    market: Mapping[str, str] = field(default_factory=dict, hash=False)
    classes: Mapping[str, str] = field(default_factory=dict, hash=False)
    asks: Mapping[str, str] = field(default_factory=dict, hash=False)
    kind: str | None = None
    refusal: str = ""

    def groups(self, path: str, row: str) -> dict[str, str]:
        """Return the facts that the name of a file and its first row show."""
        searched = [(self.in_row, row), *((pattern, path) for pattern in self.paths)]
        matches = [match for pattern, text in searched if pattern and (match := re.search(pattern, text))]
        return {name: text for match in matches for name, text in match.groupdict().items() if text}


_PERPETUAL, _SPOT = {"category": "PERPETUAL"}, {"category": "SPOT"}
_DATED = r"-?\d{1,2}[A-Z]{3}\d{2}$|[FGHJKMNQUVXZ]\d{2}$"
_LENGTH = (
    r"(?P<interval>\d+ ?(?:min(?:ute)?s?|hours?|days?|[smhdwSMHDW])|[MHDW]\d+|daily|weekly|minute|hour|day|d)"
)
_ANY_PAIR = r"/(?P<raw_symbol>[A-Za-z0-9]+(?:[-_][A-Za-z]{2,5})?)"
_PAIR_IN_NAME = r"/(?:[A-Za-z]+[-_])?(?P<raw_symbol>[A-Z0-9]{5,})(?:[-_ ][^/]*)?\.[a-z]+$"
_DAY_CELL = r"(?:^|[,;\t|])\d{4}[-./]\d\d[-./]\d\d(?:[,;\t|]|$)"
"""A date without a time."""
_EXCHANGE = {"exchange": "the exchange"}
_BROKER = {"time_zone": "the zone of the broker's clock, mostly America/New_York+7h"}
_OF_SHARES = {"quote": "the currency of the prices, e.g. USD"}

_QUOTE_FIRST = r",volume (?:[a-z]?usd[a-z]?|eur|gbp|jpy|try),volume "
_QUOTE_LAST = rf"^(?!.*{_QUOTE_FIRST})"

_OKX = {"timestamp": "created_time", "raw_symbol": "instrument_name", "id": "trade_id", "amount": "size"}
_OKX_CANDLES = {"timestamp": "open_time", "raw_symbol": "instrument_name", "quote_volume": "vol_quote"}
_OKX_BY_SYMBOL = (
    ("OKEX_SWAP", r"^[A-Z0-9]+-[A-Z0-9]+-SWAP,", "vol_ccy"),
    ("OKEX_FUTURES", r"^[A-Z0-9]+-[A-Z0-9]+-\d{6},", "vol_ccy"),
    ("OKEX", r"^[A-Z0-9]+-[A-Z0-9]+,", "vol"),
)
"""Exchange, pattern of the first row, and the column of coins in files of candles."""

_DATABENTO = ("ts_event", "rtype", "publisher_id", "instrument_id")
_DATABENTO_FORMS: tuple[tuple[str, str, Mapping[str, float]], ...] = (
    ("iso", r"^\d{4}-(?=.*,-?\d+\.\d)", {}),
    ("ns", r"^\d{19},(?=.*,-?\d+\.\d)", {}),
    ("iso", r"^\d{4}-(?!.*,-?\d+\.\d)", _BILLIONTHS),
    ("ns", r"^\d{19},(?!.*,-?\d+\.\d)", _BILLIONTHS),
)
"""Unit of times, pattern of the first row, and divisors of prices: times and prices are written or integers."""

_IN_KRAKEN = r"(?i)/(?:[^/]*[-_. ])?(?P<exchange>kraken)(?:[-_. ][^/]*)?(?:/[^/]+){0,3}$"
"""The file or one of the last folders is named after Kraken."""
_CHARTED = (
    "anxhk|bitbay|bitcurex|bitfinex|bitkonan|bitstamp|btcchina|btcde|btce|btcn|btctrade|campbx|cex|coinbase|coincheck|"
    "foxbit|gemini|hitbtc|itbit|korbit|kraken|lake|localbtc|mtgox|okcoin|quadrigacx|rock|virtex|wex|zaif"
)
"""Exchanges of bitcoincharts."""
_TRADED_BY_FREQTRADE = (
    "binance|binanceus|bingx|bitget|bitmart|bitmex|bitstamp|bitvavo|bybit|coinbase|cryptocom|gate|gateio|htx|huobi|"
    "hyperliquid|kraken|krakenfutures|kucoin|mexc|okx|poloniex|upbit"
)

_FREQTRADE = (
    rf"/(?:(?P<exchange>{_TRADED_BY_FREQTRADE})/)?(?:futures/)?"
    r"(?P<raw_symbol>[A-Z0-9]+_[A-Z0-9]+(?:_[A-Z0-9]+)?)-"
)
_MINUTES = {"interval": {"1": "1m", "5": "5m", "15": "15m", "30": "30m", "60": "1h", "240": "4h"}}

DESCRIPTIONS: tuple[Description, ...] = (
    Description(
        title="trades of derivatives of Bybit",
        header=("timestamp", "symbol", "side", "size", "price", "tickdirection", "trdmatchid"),
        row=r"^\d{10}",
        reads=(
            _trades(
                {"raw_symbol": "symbol", "amount": "size", "id": "trdMatchID"}, "s", documented_by="BYBIT"
            ),
        ),
        market={"exchange": "BYBIT"},
        classes={_DATED: "FUTURE", "": "PERPETUAL"},
    ),
    Description(
        title="trades of Bybit's spot market",
        header=("id", "timestamp", "price", "volume", "side"),
        paths=(
            # Others write such columns too.
            r"(?i:bybit)|/[A-Z0-9]+[-_]\d{4}-\d{2}[^/]*$",
            r"/(?P<raw_symbol>[A-Z0-9]+)[-_]\d{4}-\d{2}",
            r"/spot/(?P<raw_symbol>[A-Z0-9]+)/",
        ),
        needs_path=True,
        reads=(_trades({"amount": "volume", "id": ""}, "ms", counted=COIN),),  # ids count from 1 in each file
        market={"exchange": "BYBIT_SPOT"} | _SPOT,
    ),
    Description(
        title="candles of Bybit for MetaTrader",
        row=r"^\d{4}\.\d\d\.\d\d \d\d:\d\d,([\d.]+,){4}[\d.]+$",
        paths=(r"/(?P<raw_symbol>[A-Z0-9]+)_(?P<interval>\d+)_\d{4}-\d\d-\d\d_\d{4}-\d\d-\d\d\.csv",),
        needs_path=True,
        reads=(
            _candles({}, "iso", header=f"timestamp,{_OHLC},volume", time_zone="UTC+3", documented_by="BYBIT"),
        ),
        market={"exchange": "BYBIT"} | _PERPETUAL,
    ),
    *(
        Description(
            title="candles of CryptoDataDownload",
            header=("date", "symbol", *_PRICES, *first),
            row=row,
            columns=columns,
            paths=(
                r"/(?P<exchange>[A-Za-z]+)_[A-Z0-9]{5,}_(?:\d{4}_)?(?P<interval>\d*[a-z]+)\.",
                rf"(?i)[_-]{_LENGTH}[_.]",
            ),
            # The volumes are called after the pair's coin and its quote.
            reads=(
                _candles(
                    {"raw_symbol": "symbol", "timestamp": first[0] if first else "date"} | volumes, *time
                ),
            ),
            market=_SPOT,
            asks=_EXCHANGE,
        )
        for first, columns, volumes in (
            (("unix",), _QUOTE_LAST, {"volume": "#8", "quote_volume": "#9"}),
            (("unix",), _QUOTE_FIRST, {"volume": "#9", "quote_volume": "#8"}),
            ((), _QUOTE_LAST, {"volume": "#7", "quote_volume": "#8"}),
            ((), _QUOTE_FIRST, {"volume": "#8", "quote_volume": "#7"}),
        )
        for row, *time in (
            ((r"^[\d.e+]+,", "epoch"),)
            if first
            else (
                (r"^\d{4}-\d\d-\d\d \d\d-[AP]M,", None, "%Y-%m-%d %I-%p"),
                (r"^\d{4}-\d\d-\d\d,", "date"),
                (r"^\d{4}-\d\d-\d\d \d\d:", "iso"),
            )
        )
    ),
    *(
        Description(
            title="trades of OKX",
            header=("instrument_name", "trade_id", "side", "price", "size", "created_time"),
            row=row,
            paths=("(?i)(?P<kind>aggtrades)",),
            kind="trades",  # the columns of both are the same
            reads=(_trades(_OKX, "ms", documented_by=exchange),),
            market={"exchange": exchange},
        )
        for exchange, row, _ in _OKX_BY_SYMBOL
    ),
    *(
        Description(
            title="candles of OKX",
            header=("instrument_name", *_PRICES, "vol", "vol_quote", "open_time", "confirm"),
            row=row,
            reads=(
                _candles(
                    _OKX_CANDLES | {"volume": coins},
                    "ms",
                    where={"confirm": "^1$"},
                    interval="1m",
                    counted=COIN,
                ),
            ),
            market={"exchange": exchange},
        )
        for exchange, row, coins in _OKX_BY_SYMBOL
    ),
    Description(
        title="funding rates of OKX",
        header=("instrument_name", "funding_rate", "funding_time"),
        reads=(
            Csv(
                table="funding",
                columns={
                    "timestamp": "funding_time",
                    "raw_symbol": "instrument_name",
                    "rate": "funding_rate",
                },
                time_unit="ms",
                rate_unit="fraction",
                interval=BY_ROWS,
            ),
        ),
        market={"exchange": "OKEX_SWAP"},
    ),
    Description(
        title="candles of Kraken's downloads",
        row=r"^\d{10},([\d.]+,){5}\d+$",
        # Kraken calls bitcoin XBT.
        paths=(
            r"/(?![A-Z0-9.]*BTC)(?P<raw_symbol>[A-Z0-9.]{5,12})_(?P<interval>1|5|15|30|60|240|720|1440)\.csv",
        ),
        needs_path=True,
        reads=(_candles({}, "s", header=f"timestamp,{_OHLC},volume,-", counted=COIN),),
        market={"exchange": "KRAKEN"} | _SPOT,
    ),
    Description(
        title="candles of Kraken's downloads, renamed",
        row=r"^\d{10},([\d.]+,){5}\d+$",
        is_any_name=True,
        paths=(_IN_KRAKEN, r"/(?P<raw_symbol>[A-Z0-9.]{5,12})_\d{1,4}\.csv", r"_(?P<interval>\d{1,4})\.csv"),
        reads=(_candles({}, "s", header=f"timestamp,{_OHLC},volume,-", counted=COIN),),
        market=_SPOT,
        asks=_EXCHANGE | {"raw_symbol": "the market"},
    ),
    Description(
        title="trades of Kraken's or bitcoincharts' downloads",
        row=r"^\d{10}(\.\d+)?,[\d.]+,[\d.]+$",
        is_any_name=True,
        paths=(
            _IN_KRAKEN,
            r"/(?P<raw_symbol>[A-Z0-9.]{5,12})\.csv",
            rf"/\.?(?P<exchange>{_CHARTED})(?P<quote>[A-Z]{{3}})\.csv",
        ),
        raw_symbol="BTC{quote}",
        reads=(_trades({"side": "", "id": ""}, "s", header="timestamp,price,amount"),),
        market=_SPOT,
        asks=_EXCHANGE | {"raw_symbol": "the market"},
    ),
    Description(
        title="daily candles of Yahoo of a pair of coins",
        header=("date", *_PRICES, "adj close", "volume"),
        paths=(r"/(?P<raw_symbol>[A-Z0-9]+-(?:USD|EUR|GBP))(?: ?\(\d+\))?\.csv",),
        needs_path=True,
        reads=(
            _candles({"timestamp": "Date", "volume": "", "quote_volume": "Volume"}, "date", interval="1d"),
        ),
        asks=_EXCHANGE,
    ),
    Description(
        title="daily candles of yfinance",
        header=("date", *_PRICES, "volume", "dividends", "stock splits"),
        paths=(r"/(?P<raw_symbol>[A-Z0-9^.=-]{1,10})(?: ?\(\d+\))?\.csv",),
        # A day is labelled by its first instant at the exchange: 2024-08-08 00:00:00-04:00.
        reads=(_candles({"timestamp": "Date"}, "date", interval="1d", rewrites={"timestamp": (" .*", "")}),),
        asks=_EXCHANGE | _OF_SHARES | {"raw_symbol": "the ticker"},
    ),
    Description(
        title="daily candles of yfinance",
        header=("price", *_PRICES, "volume"),
        row="^Ticker,",
        in_row="^Ticker,(?P<raw_symbol>[^,]+)",
        # The second and the third line tell the ticker, and that the first column is the date.
        reads=(_candles({"timestamp": "Price"}, "date", interval="1d", where={"Price": r"^\d"}),),
        asks=_EXCHANGE | _OF_SHARES,
    ),
    Description(
        title="daily candles of Yahoo",
        header=("date", *_PRICES, "adj close", "volume"),
        paths=(r"/(?P<raw_symbol>[A-Z0-9^.=]{1,10}(?:-[A-Z]{1,2})?)(?: ?\(\d+\))?\.csv",),
        reads=(_candles({"timestamp": "Date"}, "date", interval="1d"),),
        asks=_EXCHANGE | _OF_SHARES | {"raw_symbol": "the ticker"},
    ),
    *(
        Description(
            title="candles of freqtrade",
            header=header,
            row=row,
            paths=(rf"{_FREQTRADE}(?P<interval>\d+[smhdw]){ending}",),
            needs_path=True,
            reads=(
                layout(table="candles", header=f"timestamp,{_OHLC},volume", time_unit="ms")
                if layout is Json
                else layout(table="candles", columns={"timestamp": "date"}),
            ),
            market=market,
            asks=_EXCHANGE,
        )
        for ending, market in ((r"\.", _SPOT), (r"-futures\.", _PERPETUAL))
        for layout, header, row in ((Json, (), r"^\s*\[\s*\["), (Feather, ("date", *_PRICES, "volume"), ""))
    ),
    *(
        Description(
            title="funding rates of freqtrade",
            header=header,
            row=row,
            paths=(rf"{_FREQTRADE}\d+[smhdw]-funding_rate\.",),
            needs_path=True,
            reads=(
                Json(
                    table="funding",
                    header="timestamp,rate,-,-,-,-",
                    time_unit="ms",
                    rate_unit="fraction",
                    interval=BY_ROWS,
                )
                if layout is Json
                else layout(
                    table="funding",
                    columns={"timestamp": "date", "rate": "open"},
                    rate_unit="fraction",
                    interval=BY_ROWS,
                ),
            ),
            market=_PERPETUAL,
            asks=_EXCHANGE,
        )
        for layout, header, row in ((Json, (), r"^\s*\[\s*\["), (Feather, ("date", *_PRICES, "volume"), ""))
    ),
    *(
        Description(
            title="prices of freqtrade that are no trades",
            header=header,
            row=row,
            paths=(rf"{_FREQTRADE}\d+[smhdw]-(?:mark|index|premiumIndex)\.",),
            needs_path=True,
            refusal="mark and index prices are not traded, and the lake has no table for them",
        )
        for header, row in (((), r"^\s*\[\s*\["), (("date", *_PRICES, "volume"), ""))
    ),
    Description(
        title="candles of ccxt",
        row=r"^\s*\[\s*\[\s*\d{13}\s*(,\s*[-+\d.eE]+\s*){5}\]",
        is_any_name=True,
        paths=(rf"[-_]{_LENGTH}\.", _PAIR_IN_NAME, rf"{_ANY_PAIR}[-_]{_LENGTH}\."),
        reads=(Json(table="candles", header=f"timestamp,{_OHLC},volume", time_unit="ms"),),
        asks=_EXCHANGE | {"raw_symbol": "the market"},
    ),
    Description(
        title="candles of MetaTrader 4",
        row=r"^\d{4}\.\d\d\.\d\d,\d\d:\d\d,([\d.]+,){4}\d+$",
        is_any_name=True,
        paths=(r"/(?P<raw_symbol>[A-Z][A-Za-z0-9.#]*?)_?(?P<interval>1|5|15|30|60|240|1440|10080)\.csv",),
        # The volume is a count of changes of the price.
        reads=(_candles({"timestamp": "d+t"}, "iso", header=f"d,t,{_OHLC},-"),),
        asks=_EXCHANGE | _BROKER | {"raw_symbol": "the market"},
    ),
    Description(
        title="candles of MetaTrader 4",
        row=r"^\d{4}\.\d\d\.\d\d,00:00,([\d.]+,){4}\d+$",
        paths=(r"/(?P<raw_symbol>[A-Z][A-Za-z0-9.#]*?)_?(?P<interval>1440)\.csv",),
        needs_path=True,
        # The day of the broker is stored as the same date.
        reads=(_candles({"timestamp": "d"}, "date", header=f"d,-,{_OHLC},-"),),
        asks=_EXCHANGE | {"raw_symbol": "the market"},
    ),
    *(
        Description(
            title="candles of MetaTrader 5",
            header=("date", *time_columns, *_PRICES, "tickvol"),
            row=row,
            paths=(r"/(?P<raw_symbol>[A-Za-z][A-Za-z0-9.#]*?)_(?P<interval>[MHDW]\d+|Daily|Weekly)_\d+",),
            reads=(_candles({"timestamp": place, "volume": ""}, unit),),
            asks=asks,
        )
        for time_columns, row, place, unit, asks in (
            (("time",), "", "#1+#2", "iso", _EXCHANGE | _BROKER | {"raw_symbol": "the market"}),
            ((), r"^\d{4}\.\d\d\.\d\d\t[\d.]+\t", "#1", "date", _EXCHANGE | {"raw_symbol": "the market"}),
        )
    ),
    Description(
        title="ticks of MetaTrader 5",
        header=("date", "time", "bid", "ask", "last"),
        refusal="quotes, the best bid and ask, are no trades, and the lake has no table for them",
    ),
    Description(
        title="candles of HistData",
        row=r"^\d{8} \d{6};([\d.]+;){4}\d+$",
        is_any_name=True,
        paths=(
            r"/DAT_(?:ASCII|NT)_(?P<raw_symbol>[A-Z]+)_(?P<interval>M1)_",
            r"/(?P<raw_symbol>[A-Z]{6})[^/]*$",
        ),
        # New York's time without summer time; the volume is always 0.
        reads=(_candles({}, "iso", header=f"timestamp,{_OHLC},-", time_zone="UTC-5", interval="1m"),),
        asks=_EXCHANGE | {"raw_symbol": "the market"},
    ),
    Description(
        title="candles of HistData",
        row=r"^\d{4}\.\d\d\.\d\d,\d\d:\d\d,([\d.]+,){4}\d+$",
        paths=(r"/DAT_MT_(?P<raw_symbol>[A-Z]+)_(?P<interval>M1)_",),
        needs_path=True,
        reads=(_candles({"timestamp": "d+t"}, "iso", header=f"d,t,{_OHLC},-", time_zone="UTC-5"),),
        asks=_EXCHANGE,
    ),
    Description(
        title="ticks of HistData",
        row=r"^\d{8} \d{9},[\d.]+,[\d.]+,\d+$",
        refusal="quotes, the best bid and ask, are no trades, and the lake has no table for them",
    ),
    *(
        Description(
            title="candles of Dukascopy",
            header=(clock, *_PRICES, "volume"),
            paths=(
                r"/(?P<raw_symbol>[A-Z]{3}/?[A-Z]{3})_",
                r"_(?P<interval>\d+_[A-Za-z]+)_(?:BID|ASK)",
                r"_(?P<interval>\d+ [A-Z][a-z]+)_(?:Bid|Ask)",
            ),
            # Nobody documents what the volume counts.
            reads=(_candles({"timestamp": "#1", "volume": ""}, *unit, time_zone=zone),),
            asks=_EXCHANGE | {"raw_symbol": "the market"},
        )
        for clock, zone, *unit in (
            ("gmt time", None, None, "%d.%m.%Y %H:%M:%S.%f"),
            ("local time", None, None, "%d.%m.%Y %H:%M:%S.%f GMT%z"),
            ("utc", None, None, "%d.%m.%Y %H:%M:%S.%f UTC"),
            ("etc/utc", None, "iso"),
            ("time (eet)", "Europe/Athens", "iso"),
            ("time (utc)", None, "iso"),
        )
    ),
    Description(
        title="trades of BitMEX",
        header=("timestamp", "symbol", "side", "size", "price", "trdmatchid", "homenotional"),
        row=r"^\d{4}-\d\d-\d\d[DT ]",
        reads=(
            # The notional in the home currency is the amount in coin; the size counts contracts.
            _trades(
                {"raw_symbol": "symbol", "amount": "homeNotional", "id": "trdMatchID"},
                "iso",
                counted=COIN,
                where={"symbol": r"^[^.]", "trdType": "^Regular$"},
            ),
        ),
        market={"exchange": "BITMEX"},
        classes={_DATED: "FUTURE", "": "PERPETUAL"},
    ),
    *(
        Description(
            title=f"{what} of Databento" + (", prices as integers" if divisors else ""),
            header=header,
            row=row,
            paths=(r"/(?P<exchange>[a-z]{4})-[a-z0-9]+-\d{8}",),
            in_row=r"^[^,]*,[^,]*,\d+,(?P<exchange>1),"
            if what == "trades"
            else r"^[^,]*,\d+,(?P<exchange>1),",
            reads=(
                reads(
                    {"timestamp": "ts_event"} | columns | symbol,
                    unit,
                    words=words,
                    where=where,
                    divisors={
                        name: divisor
                        for name, divisor in divisors.items()
                        if (name == "price") == (what == "trades")
                    },
                ),
            ),
            asks=_EXCHANGE | ({} if symbol else {"raw_symbol": "the market"}),
        )
        for unit, row, divisors in _DATABENTO_FORMS
        for what, own, reads, columns, words, where in (
            (
                "trades",
                ("action", "side", "price", "size"),
                _trades,
                {"amount": "size", "id": ""},
                {"side": {"A": "sell", "B": "buy", "N": "none"}},
                {"action": "^T$"},
            ),
            (
                "candles",
                _PRICES,
                _candles,
                {"interval": "rtype"},
                {"interval": {"32": "1s", "33": "1m", "34": "1h", "35": "1d"}},
                {},
            ),
        )
        for symbol in ({"raw_symbol": "symbol"}, {})
        for header in ((*_DATABENTO, *own, *symbol.values()),)
    ),
    Description(
        title="candles of Massive's files of shares",
        header=("ticker", *_PRICES, "volume", "window_start", "transactions"),
        row=r"^[^:]+$",
        paths=(r"/(?P<interval>minute|day)_aggs",),
        reads=(_candles({"timestamp": "window_start", "raw_symbol": "ticker"}, "ns", counted=COIN),),
        market={"quote": "USD"},
        asks=_EXCHANGE,
    ),
    Description(
        title="candles of Massive's files",
        header=("ticker", *_PRICES, "volume", "window_start", "transactions"),
        row=r"^[XC]:",
        paths=(r"/(?P<interval>minute|day)_aggs",),
        reads=(_candles({"timestamp": "window_start", "raw_symbol": "ticker"}, "ns", counted=COIN),),
        asks=_EXCHANGE,
    ),
    Description(
        title="trades of Massive's files of shares",
        header=("ticker", "conditions", "exchange", "id", "participant_timestamp", "price", "size", "tape"),
        reads=(
            _trades(
                {
                    "timestamp": "participant_timestamp",
                    "raw_symbol": "ticker",
                    "amount": "size",
                    "id": "",
                    "side": "",
                    "exchange": "",
                },
                "ns",
                counted=COIN,
                # Neither trades that were cancelled or corrected later, nor the records of cancels.
                where={"correction": "^(0|00|12|)$"},
            ),
        ),
        market={"quote": "USD"},
        asks=_EXCHANGE,
    ),
    Description(
        title="trades of Hyperliquid",
        row=r'"coin": ?"[A-Za-z0-9]+".*"(?:px|sz)":',
        reads=(
            Json(
                columns={
                    "timestamp": "time",
                    "raw_symbol": "coin",
                    "price": "px",
                    "amount": "sz",
                    "id": "tid",
                },
                words={"side": {"A": "sell", "B": "buy"}},
                counted=COIN,
            ),
        ),
        market={"exchange": "HYPERLIQUID", "quote": "USD"} | _PERPETUAL,
    ),
    Description(
        title="trades of Deribit's API",
        row=r'"trade_id":.*"instrument_name":|"instrument_name":.*"trade_id":',
        reads=(
            Json(
                at="result.trades",
                columns={"raw_symbol": "instrument_name", "side": "direction", "id": "trade_id"},
                time_unit="ms",
                documented_by="DERIBIT",
            ),
        ),
        market={"exchange": "DERIBIT"},
    ),
    *(
        Description(
            title="candles of Stooq",
            header=header,
            row=row,
            paths=(r"/(?P<raw_symbol>[A-Za-z0-9^._-]+?)(?:_[dhm5w])?\.(?:csv|txt)$", rf"[-_.]{_LENGTH}[-_.]"),
            reads=(_candles(columns, unit, words=_MINUTES),),
            asks=asks,
        )
        for header, row, columns, unit, asks in (
            (
                ("ticker", "per", "date", "time", *_PRICES, "vol"),
                r"^[^,]+,D,",
                {"timestamp": "<DATE>", "raw_symbol": "<TICKER>", "interval": "'1d'", "volume": "<VOL>"},
                "date",
                _EXCHANGE | _OF_SHARES,
            ),
            (
                ("ticker", "per", "date", "time", *_PRICES, "vol"),
                r"^[^,]+,\d+,",
                {
                    "timestamp": "<DATE>+<TIME>",
                    "raw_symbol": "<TICKER>",
                    "interval": "<PER>",
                    "volume": "<VOL>",
                },
                "iso",
                _EXCHANGE | _OF_SHARES | {"time_zone": "the zone of the times"},
            ),
            (
                ("date", "time", *_PRICES, "volume", "openint"),
                "",
                {"timestamp": "Date+Time"},
                "iso",
                _EXCHANGE | _OF_SHARES | {"time_zone": "the zone of the times", "raw_symbol": "the ticker"},
            ),
        )
    ),
    Description(
        title="daily candles of Stooq",
        header=("date", *_PRICES),
        paths=(r"/(?P<raw_symbol>[a-z0-9^.-]+(?:_[a-z]{2})?)_d\.csv$",),
        needs_path=True,
        reads=(_candles({"timestamp": "Date"}, "date", interval="1d"),),
        asks=_EXCHANGE | _OF_SHARES,
    ),
    Description(
        title="option chains of CBOE",
        header=(
            "underlying_symbol",
            "quote_date",
            "root",
            "expiration",
            "strike",
            "option_type",
            "implied_volatility_1545",
        ),
        reads=(
            Csv(
                table="option_quotes",
                columns={
                    "timestamp": "quote_date+'15:45'",
                    "coin": "underlying_symbol",
                    "raw_symbol": "root+expiration+strike+option_type",
                    "expiry": "expiration+'16:00'",
                    "implied_volatility": "implied_volatility_1545",
                    "delta": "delta_1545",
                    "open_interest": "",
                },
                rewrites={"coin": (r"^\^", "")},
                time_unit="iso",
                time_zone="America/New_York",
                volatility_unit="decimal",
            ),
        ),
        market={"exchange": "CBOE"},
    ),
    Description(
        title="option chains of OptionsDX",
        header=("quote_unixtime", "expire_date", "strike", "c_iv", "p_iv"),
        paths=(r"/(?P<coin>[a-z]+)_(?:eod|15x|30x|60x|\d)", r"/(?P<coin>[a-z]+)_\d{6}"),
        reads=tuple(
            Csv(
                table="option_quotes",
                columns={
                    "timestamp": "[QUOTE_UNIXTIME]",
                    "expiry": "[EXPIRE_DATE]+'16:00'",
                    "strike": "[STRIKE]",
                    "option_type": f"'{side}'",
                    "implied_volatility": f"[{side}_IV]",
                    "delta": f"[{side}_DELTA]",
                },
                time_unit={"timestamp": "s", "expiry": "iso"},
                time_zone="America/New_York",
                volatility_unit="decimal",
            )
            for side in ("C", "P")
        ),
        asks=_EXCHANGE | {"coin": "the underlying"},
    ),
    Description(
        title="option chains of Binance",
        header=("date", "hour", "symbol", "underlying", "type", "strike", "mark_price", "mark_iv"),
        reads=(
            Csv(
                table="option_quotes",
                columns={
                    "timestamp": "date+hour+':00'",
                    "raw_symbol": "symbol",
                    "coin": "symbol",
                    "option_type": "type",
                    "expiry": "symbol",
                    "implied_volatility": "mark_iv",
                },
                # The symbol, such as BTC-231020-28000-C, tells coin and day of expiry; options expire at 08:00 UTC.
                rewrites={
                    "timestamp": (" :", ":"),
                    "coin": ("-.*", ""),
                    "expiry": (r".*-(\d\d)(\d\d)(\d\d)-.*", "20$1-$2-$3 08:00"),
                },
                time_unit="iso",
                volatility_unit="decimal",
            ),
        ),
        market={"exchange": "BINANCE_OPTIONS"},
    ),
    Description(
        title="trades of Kaiko",
        header=("id", "exchange", "symbol", "date", "price", "amount", "sell"),
        paths=(r"/(?P<exchange>[A-Za-z]+)_[A-Za-z0-9]+_trades_",),
        reads=(
            _trades(
                {"timestamp": "date", "raw_symbol": "symbol", "buyer_is_maker": "sell"},
                "ms",
                words={"buyer_is_maker": {"": "none"}},
            ),
        ),
        asks=_EXCHANGE,
    ),
    *(
        Description(
            title="candles of Kaiko",
            header=header,
            row=row,
            paths=(
                r"/(?P<exchange>[A-Za-z]+)_(?P<raw_symbol>[A-Za-z0-9]+(?:_perp)?)_c?ohlcv(?:vwap)?_(?P<interval>\d+[smhd])_",
            ),
            needs_path=True,
            reads=(_candles({}, "ms", header=columns),),
            asks=_EXCHANGE,
        )
        for header, row, columns in (
            ((), r"^\d{13},([\d.]+,){4}[\d.]+$", f"timestamp,{_OHLC},volume"),
            (("timestamp", *_PRICES, "volume"), r"^\d{13},", None),
        )
    ),
    Description(
        title="trades of CoinAPI",
        header=("time_exchange", "time_coinapi", "guid", "price", "base_amount", "taker_side"),
        paths=(r"SC-(?P<exchange>[A-Z0-9]+)_(?P<class>SPOT|PERP|FTS)_", r"\+S-(?P<raw_symbol>[^/+]+?)\.csv"),
        reads=(
            _trades(
                {"timestamp": "time_exchange", "id": "guid", "amount": "base_amount", "side": "taker_side"},
                "iso",
                words={"side": {"BUY_ESTIMATED": "none", "SELL_ESTIMATED": "none", "UNKNOWN": "none"}},
            ),
        ),
        asks=_EXCHANGE | {"raw_symbol": "the market"},
    ),
    Description(
        title="trades of Polymarket's API",
        row=r'"proxyWallet":',
        reads=(
            Json(
                columns={"raw_symbol": "asset", "amount": "size", "id": ""},
                time_unit="s",
                counted=COIN,
            ),
        ),
        market={"exchange": "POLYMARKET", "quote": "USDC"} | _SPOT,
    ),
    Description(
        title="trades of KuCoin",
        header=("trade_id", "trade_time", "price", "size", "side"),
        paths=(r"/(?P<raw_symbol>[A-Z0-9]+)-trades-", r"(?i)(?P<exchange>kucoin)"),
        reads=(_trades({"timestamp": "trade_time", "id": "trade_id", "amount": "size"}, "ms"),),
        market=_SPOT,
        asks=_EXCHANGE | {"raw_symbol": "the market"},
    ),
    *(
        Description(
            title="trades of KuCoin",
            header=("trade_id", "trade_time", "price", "size", "side"),
            paths=(rf"/(?P<raw_symbol>{symbol})-trades-\d",),
            needs_path=True,
            reads=(_trades({"timestamp": "trade_time", "id": "trade_id", "amount": "size"}, "ms"),),
            market={"exchange": exchange} | market,
        )
        for symbol, exchange, market in (
            ("(?![A-Z0-9]+USD[TC]?M-)[A-Z0-9]+", "KUCOIN", _SPOT),
            ("[A-Z0-9]+USD[TC]?M", "KUCOIN_FUTURES", _PERPETUAL),
        )
    ),
    *(
        Description(
            title="trades of Bitget",
            header=("trade_id", "timestamp", "price", "side", "volume(quote)", "size(base)"),
            paths=(rf"{part}[/_](?P<raw_symbol>[A-Z0-9]+)[/_]", rf"/(?P<raw_symbol>[A-Z0-9]+)_{part}_"),
            needs_path=True,
            reads=(_trades({"id": "trade_id", "amount": "size(base)"}, "ms", counted=COIN),),
            market={"exchange": exchange, "category": category},
        )
        for part, exchange, category in (
            ("SPBL", "BITGET", "SPOT"),
            ("UMCBL", "BITGET_FUTURES", "PERPETUAL"),
            ("DMCBL", "BITGET_FUTURES", "PERPETUAL"),
        )
    ),
    Description(
        title="trades of futures of Gate.io",
        row=r"^\d{10}\.\d+,\d+,[\d.]+,-?\d+$",
        paths=(r"futures_\w+/trades/\d+/(?P<raw_symbol>[A-Z0-9]+_[A-Z0-9]+)-\d{6}",),
        needs_path=True,
        reads=(
            # The sign of the size is the side.
            _trades(
                {"amount": "size", "side": "size"},
                "s",
                header="timestamp,id,price,size",
                rewrites={"amount": ("^-", ""), "side": (r"^(-?).*$", "$1")},
                words={"side": {"-": "sell", "": "buy"}},
                documented_by="GATE_IO_FUTURES",
            ),
        ),
        market={"exchange": "GATE_IO_FUTURES"} | _PERPETUAL,
    ),
    *(
        Description(
            title="candles of Gate.io",
            row=r"^\d{10},([\d.]+,){4}[\d.]+$",
            paths=(
                rf"{part}\w*/candlesticks_(?P<interval>\w+)/\d+/(?P<raw_symbol>[A-Z0-9]+_[A-Z0-9]+)-\d{{6}}",
            ),
            needs_path=True,
            reads=(
                _candles(
                    {}, "s", header="timestamp,volume,close,high,low,open", documented_by=market["exchange"]
                ),
            ),
            market=market,
        )
        for part, market in (
            ("spot", {"exchange": "GATE_IO"} | _SPOT),
            ("futures", {"exchange": "GATE_IO_FUTURES"} | _PERPETUAL),
        )
    ),
    Description(
        title="candles of CoinMarketCap",
        header=("timeopen", "timeclose", *_PRICES, "volume", "marketcap"),
        # The volume is that of all markets of a coin, in USD.
        reads=(
            _candles({"timestamp": "timeOpen", "volume": "", "quote_volume": "volume"}, "iso", interval="1d"),
        ),
        asks=_EXCHANGE | {"raw_symbol": "the market"},
    ),
    Description(
        title="candles with names of columns",
        header=("date", "time", *_PRICES),
        is_any_name=True,
        paths=(rf"[-_]{_LENGTH}\.", _PAIR_IN_NAME, rf"{_ANY_PAIR}[-_]{_LENGTH}\."),
        reads=(_candles({"timestamp": "date+time"}, "iso"),),
        asks=_EXCHANGE | {"raw_symbol": "the market", "time_zone": "the zone of the times, e.g. UTC"},
    ),
    *(
        Description(
            title="candles with names of columns",
            header=(clock, *_PRICES, *symbol),
            is_any_name=True,
            row=row,
            paths=(rf"[-_]{_LENGTH}\.", _PAIR_IN_NAME, rf"{_ANY_PAIR}[-_]{_LENGTH}\."),
            reads=(
                layout(
                    table="candles",
                    columns={"timestamp": clock or "#1"} | dict(zip(["raw_symbol"], symbol, strict=False)),
                    time_unit=unit,
                ),
            ),
            asks=_EXCHANGE | ({} if symbol else {"raw_symbol": "the market"}),
        )
        for layout in (Csv, Parquet, Feather)
        for symbol in ((), ("symbol",), ("ticker",), ("pair",))
        for row, unit in (("", None), (_DAY_CELL, "date"))[: 2 if layout is Csv else 1]
        for clock in (
            "timestamp",
            "time",
            "date",
            "datetime",
            "open_time",
            "open time",
            "unix",
            "ts",
            "unnamed: 0",
            "",
        )
    ),
)
"""The kinds by what their files look like. Of several that fit a file, the one with the most columns counts."""
