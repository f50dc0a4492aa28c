"""What Tardis's normalised data means, whichever way it is written.

Amounts are those of the exchange: coins, the quote or contracts. Tardis's own name of the exchange and the symbol say
which, see `tidytape.lake.amount_units`, whatever the caller calls the exchange.

Liquidations bear the side of the order that closed the position [1]_: a sell closed a long. Ours is that of the
position, so their sell is our BUY, a long that was liquidated.

A venue's implied volatilities are percent or decimals, as the venue publishes them. Which, is known here for the venues
of `VOLATILITY`; a quote of another venue is a bad line, because 0.8 and 80 cannot be told apart by looking.

Of several reports of one instrument with one timestamp one is kept: the lake holds one state per time, see
`tidytape.lake.dedupe`. No message states the time between settlements of funding, see ``funding_interval`` of
`tidytape.lake.ingest.ingest`.

References
----------
.. [1] Tardis, "Data Types", liquidations. Its mappers turn Bybit's "Buy", the side of the position, into "sell".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import polars as pl

from tidytape.catalogue import Side
from tidytape.errors import IngestError
from tidytape.lake.amount_units import AmountUnit, documented
from tidytape.lake.ingest._fields import ABOVE_ZERO, NAME, NOT_NEGATIVE, NUMBER, TEXT, Field, Kind, time, word
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._repeats import one_id_each, with_ids
from tidytape.lake.tables import FUNDING, LIQUIDATIONS, OPEN_INTEREST, OPTION_QUOTES, TRADES

_BUY, _SELL = Side.BUY.value, Side.SELL.value
_UNKNOWN = "UNKNOWN"

VOLATILITY: Mapping[str, float] = MappingProxyType(
    {
        "binance-european-options": 100.0,
        "bullish": 100.0,
        "bybit-options": 100.0,
        "deribit": 1.0,
        "huobi-dm-options": 100.0,
        "okex-options": 100.0,
    }
)
"""What brings a venue's implied volatility to percent."""

_TIME = time("iso")  # a stand-in: the layout says how its times are written

# Ours: what Tardis calls it in a CSV file and in a message, what it is, and whether it is always there.
Name = tuple[str, str, Kind, bool]

_ALL: Mapping[str, Name] = {
    "exchange": ("exchange", "exchange", NAME, True),
    "raw_symbol": ("symbol", "symbol", NAME, True),
    "timestamp": ("timestamp", "timestamp", _TIME, True),
    "received": ("local_timestamp", "localTimestamp", _TIME, False),
}
_TRADE: Mapping[str, Name] = {
    "id": ("id", "id", TEXT, False),
    "price": ("price", "price", NUMBER, True),
    "amount": ("amount", "amount", ABOVE_ZERO, True),
}
KINDS: Mapping[str, Mapping[str, Name]] = MappingProxyType(
    {
        "trade": {
            **_TRADE,
            "side": ("side", "side", word({"buy": _BUY, "sell": _SELL, "unknown": _UNKNOWN}), True),
        },
        "liquidation": {**_TRADE, "side": ("side", "side", word({"buy": _SELL, "sell": _BUY}), True)},
        "derivative_ticker": {
            "rate": ("funding_rate", "fundingRate", NUMBER, False),
            "predicted_rate": ("predicted_funding_rate", "predictedFundingRate", NUMBER, False),
            "next_funding": ("funding_timestamp", "fundingTimestamp", _TIME, False),
            "amount": ("open_interest", "openInterest", NOT_NEGATIVE, False),
            "price": ("mark_price", "markPrice", NUMBER, False),
        },
        "option_summary": {
            "option_type": ("type", "optionType", word({"call": "CALL", "put": "PUT"}), True),
            "strike": ("strike_price", "strikePrice", ABOVE_ZERO, True),
            "expiry": ("expiration", "expirationDate", _TIME, True),
            "implied_volatility": ("mark_iv", "markIV", NOT_NEGATIVE, False),
            "delta": ("delta", "delta", NUMBER, False),
            "forward": ("underlying_price", "underlyingPrice", NUMBER, False),
            "mark_price": ("mark_price", "markPrice", NUMBER, False),
            "open_interest": ("open_interest", "openInterest", NOT_NEGATIVE, False),
        },
    }
)
"""The kinds of messages that are kept."""


def fields(own: Mapping[str, Name], *, message: bool, time_unit: str) -> dict[str, Field]:
    """Return the columns of one kind, by our names.

    Parameters
    ----------
    own : mapping
        The columns that this kind alone has, one of `KINDS`.
    message : bool
        As a message names them, instead of a CSV file.
    time_unit : str
        How times are written.
    """
    times = time(time_unit)
    return {
        ours: Field(in_message if message else in_csv, times if kind is _TIME else kind, needed)
        for ours, (in_csv, in_message, kind, needed) in {**_ALL, **own}.items()
    }


def own(rows: pl.DataFrame, job: Job, parsed: Parsed, *, what: str, venues: set[str]) -> pl.DataFrame:
    """Return the rows that are asked for, of the venue as we call it; Tardis's name of it is left in ``venue``.

    ``binance-futures`` becomes BINANCE_FUTURES, unless the caller names the venue.

    Parameters
    ----------
    rows : polars.DataFrame
        From `tidytape.lake.ingest._fields.checked`.
    job : Job
        With ``exchange`` and ``raw_symbol``.
    parsed : Parsed
        Counts the rows of other instruments.
    what : str
        What a row is.
    venues : set of str
        Tardis's names of the venues that the file had so far; those of these rows are added.

    Raises
    ------
    IngestError
        If the caller names the venue of rows of several.
    """
    if job.exchange is None:
        name = pl.col("exchange").str.to_uppercase().str.replace_all("-", "_", literal=True)
    else:
        venues.update(rows["exchange"].unique())
        if len(venues) > 1:
            message = f"{job.path}: holds {', '.join(sorted(venues)[:3])} and not {job.exchange} alone"
            raise IngestError(message, path=str(job.path))
        name = pl.lit(job.exchange)
    placed = rows.with_columns(name.alias("exchange"), pl.col("exchange").alias("venue"))
    parsed.exchanges.update(placed.select("exchange", "venue").unique().iter_rows())
    if job.raw_symbol is None:
        return placed
    kept = placed.filter(pl.col("raw_symbol") == job.raw_symbol)
    if kept.height < placed.height:
        parsed.ignore(f"{what} of another instrument", placed.height - kept.height)
    return kept


def put(kind: str, rows: pl.DataFrame, parsed: Parsed) -> None:
    """Put checked rows of one of `KINDS` into the tables they belong to."""
    {
        "trade": _trades,
        "liquidation": _liquidations,
        "derivative_ticker": _tickers,
        "option_summary": _options,
    }[kind](rows, parsed)


def finish(parsed: Parsed) -> None:
    """Do what takes all of a file's rows."""
    parsed.any_class = True
    parsed.amount_unit = partial(_amount_unit, parsed.exchanges)
    for table in (TRADES, LIQUIDATIONS):
        parsed.batch(table).counted = True


def _amount_unit(
    exchanges: Mapping[str, str], table: str, exchange: str, raw_symbol: str
) -> AmountUnit | None:
    """Return the unit by Tardis's own name of the exchange; of an exchange that is not known, none."""
    return documented(exchanges.get(exchange, exchange), raw_symbol, table, otherwise=None)


def _trades(rows: pl.DataFrame, parsed: Parsed) -> None:
    told = rows.filter(pl.col("side") != _UNKNOWN)
    if told.height < rows.height:
        parsed.ignore("trade whose aggressor the venue does not tell", rows.height - told.height)
    batch = parsed.batch(TRADES)
    batch.add(TRADES.conform(_identified(told, parsed, batch_of="trade")))


def _liquidations(rows: pl.DataFrame, parsed: Parsed) -> None:
    parsed.batch(LIQUIDATIONS).add(LIQUIDATIONS.conform(_identified(rows, parsed, batch_of="liquidation")))


def _identified(rows: pl.DataFrame, parsed: Parsed, *, batch_of: str) -> pl.DataFrame:
    """Events with an id each, the venue's or one made from the content, in the order of their lines."""
    table = TRADES if batch_of == "trade" else LIQUIDATIONS
    good = parsed.bad.take(one_id_each(rows, table.same))
    named = pl.col("id").is_not_null()
    made = with_ids(good.filter(~named).drop("id"), parsed.batch(table)).select(good.columns)
    return (
        pl.concat([good.filter(named), made])
        .sort("line")
        .with_columns(sequence=pl.col("line"), quote_amount=pl.col("price") * pl.col("amount"))
    )


def _tickers(rows: pl.DataFrame, parsed: Parsed) -> None:
    has_funding = pl.any_horizontal(pl.col("rate", "predicted_rate").is_not_null())
    has_interest = pl.col("amount").is_not_null()
    parsed.batch(FUNDING).add(FUNDING.conform(rows.filter(has_funding)))
    interest = rows.filter(has_interest)
    # The mark price goes along, for amounts that turn out to be contracts of an inverse future.
    parsed.batch(OPEN_INTEREST).add(OPEN_INTEREST.conform(interest).with_columns(interest["price"]))
    neither = rows.filter(~has_funding & ~has_interest).height
    if neither:
        parsed.ignore("ticker without funding rate and open interest", neither)


def _options(rows: pl.DataFrame, parsed: Parsed) -> None:
    scale = pl.col("venue").replace_strict(dict(VOLATILITY), default=None, return_dtype=pl.Float64)
    unknown = pl.col("implied_volatility").is_not_null() & scale.is_null()
    coin = pl.col("raw_symbol").str.extract(r"^([A-Z0-9$]+)[-_]", 1)
    told = parsed.bad.take(
        rows.with_columns(
            coin=coin,
            reason=pl.coalesce(
                pl.when(unknown).then(
                    pl.format("whether {} quotes volatility in percent or as a decimal is not known", "venue")
                ),
                pl.when(coin.is_null()).then(pl.lit("the symbol does not begin with a coin and a - or _")),
            ),
        )
    )
    parsed.batch(OPTION_QUOTES).add(
        OPTION_QUOTES.conform(told.with_columns(implied_volatility=pl.col("implied_volatility") * scale))
    )
