"""The public archives that tidytape knows. One more is one more `Archive`."""

from __future__ import annotations

from tidytape.archives._archive import Archive, Kind, Period, Segment

_INTERVALS = ("1m", "3m", "5m", "15m", "30m", "1h", "2h", "4h", "6h", "8h", "12h", "1d")

_BINANCE = Archive(
    name="binance",
    host="https://data.binance.vision",
    segments={
        "spot": Segment(folder="spot", exchange="BINANCE", category="SPOT"),
        "um": Segment(folder="futures/um", exchange="BINANCE_FUTURES", category="PERPETUAL"),
        "cm": Segment(folder="futures/cm", exchange="BINANCE_DELIVERY", category="PERPETUAL"),
    },
    kinds=(
        Kind(data="trades", path="data/{folder}/daily/trades/{symbol}/{symbol}-trades-{day}.zip"),
        Kind(data="agg_trades", path="data/{folder}/daily/aggTrades/{symbol}/{symbol}-aggTrades-{day}.zip"),
        Kind(
            data="candles",
            path="data/{folder}/daily/klines/{symbol}/{interval}/{symbol}-{interval}-{day}.zip",
            intervals=_INTERVALS,
        ),
        Kind(
            data="funding",
            path="data/{folder}/monthly/fundingRate/{symbol}/{symbol}-fundingRate-{day:%Y-%m}.zip",
            period=Period.MONTH,
            segments=("um", "cm"),
        ),
        Kind(
            data="open_interest",
            path="data/{folder}/daily/metrics/{symbol}/{symbol}-metrics-{day}.zip",
            segments=("um", "cm"),
        ),
    ),
    checksum=".CHECKSUM",
    oddities=(
        "A day comes out on the next day or some days later, a month in the first half of the next one.",
        "Some published checksums are wrong, and stay wrong.",
        "Spot files have times in microseconds since 2025-01-01, and in milliseconds before.",
        "Files of futures have a header since 2022; older ones and those of spot have none.",
        "Open interest: some rows are blank or zero. A file may begin at 00:05 and end with 00:00 of the next day.",
        "The rates of the running month are not there yet.",
        "Candles of a market that is no longer traded go on without volume.",
    ),
)

_BYBIT = Archive(
    name="bybit",
    host="https://public.bybit.com",
    segments={
        "derivatives": Segment(folder="trading", exchange="BYBIT"),
        "spot": Segment(folder="spot", exchange="BYBIT_SPOT", category="SPOT"),
    },
    kinds=(
        Kind(data="trades", path="{folder}/{symbol}/{symbol}{day}.csv.gz", segments=("derivatives",)),
        Kind(data="trades", path="{folder}/{symbol}/{symbol}_{day}.csv.gz", segments=("spot",)),
    ),
    oddities=(
        "There are no checksums.",
        "Days of spot markets begin with 2022-11-10; their trades have no ids that hold beyond a day.",
        "Some files of 2022 hold nothing.",
        "Whoever sends more than some 40 requests a second is refused with 403 for minutes.",
    ),
)

_OKX = Archive(
    name="okx",
    host="https://static.okx.com",
    segments={
        "spot": Segment(folder="cdn/okex/traderecords", exchange="OKEX", category="SPOT"),
        "swap": Segment(folder="cdn/okex/traderecords", exchange="OKEX_SWAP", category="PERPETUAL"),
    },
    kinds=(
        Kind(data="trades", path="{folder}/trades/daily/{day:%Y%m%d}/{symbol}-trades-{day}.zip"),
        Kind(
            data="candles",
            path="{folder}/candlesticks/daily/{day:%Y%m%d}/{symbol}-candlesticks-{day}.zip",
            may_count_contracts=False,
        ),
        Kind(
            data="funding",
            path="{folder}/swaprates/monthly/{day:%Y%m}/{symbol}-fundingrates-{day:%Y-%m}.zip",
            period=Period.MONTH,
            segments=("swap",),
            may_count_contracts=False,
        ),
    ),
    hours_ahead=8,
    oddities=(
        "There are no checksums.",
        "A day, and a month, is that of UTC+8: the file of 2025-09-30 begins on 2025-09-29 at 16:00 UTC.",
        "A day comes out two days later.",
        "Swaps count contracts, so the lake must know the size of one, e.g. 0.01 for BTC-USDT-SWAP.",
        "The oldest files have other columns, or every trade twice.",
    ),
)

_TARDIS_DERIVATIVES = (
    "binance-futures", "binance-delivery", "bitmex", "bybit", "deribit", "okex-futures", "okex-swap",
)  # fmt: skip

_TARDIS = Archive(
    name="tardis",
    host="https://datasets.tardis.dev",
    segments={
        name: Segment(folder=name, exchange=name.upper().replace("-", "_"))
        for name in ("binance", "bybit-spot", "okex", *_TARDIS_DERIVATIVES)
    },
    kinds=tuple(
        Kind(
            data=data,
            path=f"v1/{{folder}}/{kind}/{{day:%Y/%m/%d}}/{{symbol}}.csv.gz",
            name=f"{{folder}}_{kind}_{{day}}_{{symbol}}.csv.gz",
            period=Period.FIRST_DAY,
            segments=segments,
        )
        for data, kind, segments in (
            ("trades", "trades", ()),
            ("book", "incremental_book_L2", ()),
            ("funding", "derivative_ticker", _TARDIS_DERIVATIVES),
            ("liquidations", "liquidations", _TARDIS_DERIVATIVES),
            ("options", "options_chain", ("deribit",)),
        )
    ),
    names_exchange=True,
    sends_parts=False,
    oddities=(
        "Only the first day of each month is free.",
        "A day has the messages that arrived on it.",
        "The size of a file is not told before it is fetched, and a file that broke off begins anew.",
        "Funding comes with open interest, from the ticker of derivatives.",
        "OPTIONS as the symbol is every option of an exchange.",
    ),
)

ARCHIVES = {archive.name: archive for archive in (_BINANCE, _BYBIT, _OKX, _TARDIS)}
"""The archives by name."""
