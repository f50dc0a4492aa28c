"""Recorded Binance WebSocket logs.

A line is the receive time in epoch nanoseconds, a space, and one message as JSON: ``trade``, ``depthUpdate`` or
``bookTicker`` of a combined stream, or the answer of the REST depth endpoint, recognised by its ``lastUpdateId``.
Trades and book events are kept; other messages are counted.

Most depth answers name no symbol: they belong to the only symbol of the file. Depth answers of the spot market have no
time of the exchange either; their rows have the receive time, by the recorder's clock.

A message of a COIN-M future has the field ``ps``, or a symbol such as BTCUSD_PERP or BTCUSD_240927. Its amounts count
contracts of a fixed number of USD, whatever name the caller gives to the exchange. So ``contract`` and
``contract_size`` are needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

import polars as pl

from tidytape.catalogue import BookSide, Side
from tidytape.errors import IngestError
from tidytape.lake._amount_units import is_coin_margined, is_in_dollars, of_binance
from tidytape.lake._batch import Spool
from tidytape.lake._symbols import unstorable
from tidytape.lake._tables import BOOK, TRADES
from tidytape.lake.ingest._decode import decoded
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._time import nanoseconds

_HEAD = pl.Struct(
    {
        "stream": pl.String(),
        "lastUpdateId": pl.Int64(),
        "E": pl.Int64(),
        "symbol": pl.String(),  # only in depth answers of futures with margin in coin
        "pair": pl.String(),
        "data": pl.Struct(
            {
                "e": pl.String(),  # kind
                "E": pl.Int64(),  # time of the event
                "T": pl.Int64(),  # time of the trade
                "s": pl.String(),  # symbol
                "ps": pl.String(),  # pair; only futures with margin in coin have it
                "t": pl.Int64(),  # trade id
                "p": pl.String(),  # price
                "q": pl.String(),  # quantity
                "m": pl.Boolean(),  # the buyer was the maker, so the seller was the aggressor
                "U": pl.Int64(),  # first update id
                "u": pl.Int64(),  # last update id
                "pu": pl.Int64(),  # last id of the previous update; only futures have it
            }
        ),
    }
)
_LEVELS = pl.List(pl.List(pl.String()))
_UPDATE = pl.Struct({"data": pl.Struct({"b": _LEVELS, "a": _LEVELS})})
_SNAPSHOT = pl.Struct({"bids": _LEVELS, "asks": _LEVELS})


class BinanceWs(Layout):
    """Recorded WebSocket logs: trades, depth updates and snapshots."""

    name = "binance-ws"
    needs_exchange = True
    follows = True
    market_options = tuple(name for name in Layout.market_options if name != "funding_interval")
    amounts: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (TRADES.name, BOOK.name), "`ps` in the messages, or the symbol"
    )

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file is such a log: its first line is a time in nanoseconds, a space and an object."""
        return re.match(r"\d{19} \{", head) is not None

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one log."""
        parsed = Parsed(spool, amount_unit=of_binance, piece=job.piece, kind="trades")
        memory = {} if job.piece is None else job.piece.memory
        snapshots: list[pl.DataFrame] = []
        symbols: set[str] = memory.setdefault("symbols", set())
        # Numbers of levels rise from piece to piece, because a piece has fewer levels than bytes.
        rows = 0 if job.piece is None else job.piece.offset
        for lines in numbered(job.path, parsed.bad, progress, job.piece):
            parsed.lines += lines.height
            messages = _messages(lines, parsed)
            symbols.update(messages["symbol"].drop_nulls().unique())
            parsed.inverse |= _coin_margined(messages, job.known_exchange)
            if job.raw_symbol is not None:
                messages = messages.filter(pl.col("symbol").fill_null(job.raw_symbol) == job.raw_symbol)
            parsed.batch(TRADES).add(_trades(messages, job.known_exchange, parsed))
            has_previous_update_id = (
                messages.filter(kind="depthUpdate")["data"].struct.field("pu").is_not_null()
            )
            if has_previous_update_id.len():
                memory["futures"] = memory.get("futures", False) or bool(has_previous_update_id.any())
            updates = _levels(_updates(messages), job.known_exchange, rows, parsed)
            rows += updates.height
            parsed.batch(BOOK).add(BOOK.conform(updates))
            answers = _levels(_answers(messages), job.known_exchange, rows, parsed)
            rows += answers.height
            snapshots.append(answers)
        parsed.futures = memory.get("futures", False)
        # Without a depth update the log does not show yet whether its market is a spot market.
        parsed.any_class = job.piece is not None and "futures" not in memory
        if job.piece is None and job.raw_symbol is not None and symbols and job.raw_symbol not in symbols:
            message = f"{job.path}: has no {job.raw_symbol!r}, only {', '.join(sorted(symbols))}"
            raise IngestError(message, path=str(job.path))
        if "placed" in memory and symbols - {memory["placed"]}:
            raise IngestError(
                f"{job.path}: a log of {', '.join(sorted(symbols))}, with depth snapshots that name no symbol: they "
                f"went in as those of {memory['placed']}, the only symbol by then",
                path=str(job.path),
            )
        _place(snapshots, symbols, job.raw_symbol, parsed)
        return parsed


def _messages(lines: pl.DataFrame, parsed: Parsed) -> pl.DataFrame:
    """Return one row per line with a trade, an update or a snapshot, with the fields of all kinds of messages."""
    halves = pl.col("text").str.splitn(" ", 2).struct
    split_lines = lines.with_columns(
        received=nanoseconds(halves.field("field_0"), "ns"), text=halves.field("field_1")
    ).with_columns(
        reason=pl.when(pl.any_horizontal(pl.col("received", "text").is_null())).then(
            pl.lit("no receive time in nanoseconds and JSON object after it")
        )
    )
    split_lines = parsed.bad.take(split_lines)
    with_head = split_lines.with_columns(head=decoded(split_lines["text"], _HEAD)).with_columns(
        reason=pl.when(pl.col("head").is_null()).then(
            pl.lit("the JSON is broken, or a field is of another type")
        )
    )
    heads = parsed.bad.take(with_head).unnest("head")
    data = pl.col("data").struct
    messages = heads.with_columns(
        kind=pl.when(data.field("e").is_in(["trade", "depthUpdate"])).then(data.field("e"))
        .when(pl.col("lastUpdateId").is_not_null() & pl.col("data").is_null()).then(pl.lit("depth snapshot"))
        .otherwise(None),
        symbol=pl.coalesce(data.field("s"), "symbol"),
        pair=pl.coalesce(data.field("ps"), "pair"),
    )  # fmt: skip
    other_kind = pl.coalesce(data.field("e"), pl.col("stream").str.extract(r"@(\w+)", 1), pl.lit("other"))
    for name, count in (
        messages.filter(pl.col("kind").is_null()).group_by(other_kind.alias("name")).len().iter_rows()
    ):
        parsed.ignore(name, count)
    events = messages.filter(pl.col("kind").is_not_null())
    is_unstorable = pl.col("symbol").is_in(unstorable(events["symbol"]).implode())
    reason = pl.when(is_unstorable).then(pl.lit("the symbol is not printable, or too long for a folder"))
    return parsed.bad.take(events.with_columns(reason=reason))


def _coin_margined(messages: pl.DataFrame, exchange: str) -> set[tuple[str, str]]:
    """Return the markets whose messages or symbols show that amounts are contracts of a number of USD."""
    symbols = messages.select("symbol", "pair").drop_nulls("symbol").unique()
    return {
        (exchange, symbol)
        for symbol, pair in symbols.iter_rows()
        if is_coin_margined(symbol) or (pair is not None and is_in_dollars(pair))
    }


def _trades(messages: pl.DataFrame, exchange: str, parsed: Parsed) -> pl.DataFrame:
    data = messages.filter(kind="trade").select("line", "received", "data").unnest("data")
    price, amount = _number("p"), _number("q")
    trades = data.with_columns(timestamp=_exchange_time("T"), price=price, amount=amount).with_columns(
        reason=pl.when(pl.any_horizontal(pl.col("s", "t", "p", "q", "T", "m").is_null()))
        .then(pl.lit("a trade without one of s, t, p, q, T, m"))
        .when(pl.col("timestamp").is_null()).then(pl.lit("the trade's time is no epoch time in ms or us"))
        .when(~(price.is_finite() & (price > 0)).fill_null(value=False))
        .then(pl.lit("the price is no finite number above 0"))
        .when(~(amount.is_finite() & (amount > 0)).fill_null(value=False))
        .then(pl.lit("the amount is no finite number above 0"))
        .when((price * amount).is_infinite()).then(pl.lit("price times amount is more than a number can hold"))
    )  # fmt: skip
    return TRADES.conform(
        parsed.bad.take(trades).select(
            pl.lit(exchange).alias("exchange"),
            pl.col("s").alias("raw_symbol"),
            pl.col("t").cast(pl.String).alias("id"),
            "timestamp",
            pl.col("t").alias("sequence"),
            pl.when("m").then(pl.lit(Side.SELL.value)).otherwise(pl.lit(Side.BUY.value)).alias("side"),
            "price",
            "amount",
            (pl.col("price") * pl.col("amount")).alias("quote_amount"),
            "received",
        )
    )


def _updates(messages: pl.DataFrame) -> pl.DataFrame:
    """Return one row per update, with both sides as lists of levels."""
    data = messages.filter(kind="depthUpdate")
    sides = decoded(data["text"], _UPDATE).struct.field("data").struct
    fields = data.select("line", "received", "data").unnest("data")
    return fields.select(
        "line",
        "received",
        pl.col("s").alias("raw_symbol"),
        _exchange_time("E").alias("timestamp"),
        pl.col("U").alias("first_id"),
        pl.col("u").alias("last_id"),
        sides.field("b").alias("bids"),
        sides.field("a").alias("asks"),
        pl.lit(value=False).alias("is_snapshot"),
        pl.when(pl.any_horizontal(pl.col("s", "E", "U", "u").is_null()))
        .then(pl.lit("an update without one of s, E, U, u"))
        .alias("reason"),
    )


def _answers(messages: pl.DataFrame) -> pl.DataFrame:
    """Return one row per depth snapshot, with the columns of updates."""
    data = messages.filter(kind="depth snapshot")
    sides = decoded(data["text"], _SNAPSHOT).struct
    return data.select(
        "line",
        "received",
        pl.col("symbol").alias("raw_symbol"),
        pl.coalesce(_exchange_time("E"), "received").alias("timestamp"),
        pl.lit(None, pl.Int64).alias("first_id"),
        pl.col("lastUpdateId").alias("last_id"),
        sides.field("bids").alias("bids"),
        sides.field("asks").alias("asks"),
        pl.lit(value=True).alias("is_snapshot"),
        pl.lit(None, pl.String).alias("reason"),
    )


def _levels(events: pl.DataFrame, exchange: str, rows: int, parsed: Parsed) -> pl.DataFrame:
    """Return one row per level of each event, numbered from ``rows`` + 1; an event with a bad level is a bad line."""
    levels = pl.concat(
        events.filter(pl.col(column).list.len() > 0)
        .select(
            "line",
            pl.lit(side.value).alias("side"),
            pl.col(column).alias("level"),
        )
        .explode("level")
        for side, column in ((BookSide.BID, "bids"), (BookSide.ASK, "asks"))
    ).with_columns(price=_number(_at(0)), size=_number(_at(1)))
    is_good = pl.all_horizontal(
        pl.col("level").list.len() == 2, pl.col("price", "size").is_finite(), pl.col("size") >= 0
    )
    bad_lines = levels.filter(~is_good.fill_null(value=False))["line"].unique()
    checked_events = events.with_columns(
        reason=pl.when(pl.col("reason").is_not_null())
        .then("reason")
        .when(pl.any_horizontal(pl.col("bids", "asks", "timestamp").is_null()))
        .then(pl.lit("a depth message without time, bids or asks"))
        .when(pl.col("line").is_in(bad_lines.implode()))
        .then(pl.lit("a level that is no price and size"))
    )
    good_events = parsed.bad.take(checked_events).drop("bids", "asks")
    return (
        levels.drop("level")
        .join(good_events, on="line", how="inner", maintain_order="left")
        .sort("line", maintain_order=True)
        .with_columns(
            exchange=pl.lit(exchange),
            sequence=pl.int_range(pl.len(), dtype=pl.Int64) + rows + 1,
        )
    )


def _place(snapshots: list[pl.DataFrame], symbols: set[str], raw_symbol: str | None, parsed: Parsed) -> None:
    """Add the snapshots; snapshots that name no symbol belong to the only symbol of the file."""
    answers = pl.concat(snapshots) if snapshots else pl.DataFrame()
    if answers.is_empty():
        return
    has_symbol = pl.col("raw_symbol").is_not_null()
    parsed.batch(BOOK).add(BOOK.conform(answers.filter(has_symbol)))
    answers = answers.filter(~has_symbol)
    if answers.is_empty():
        return
    if parsed.piece is not None:
        _place_in_piece(answers, symbols, raw_symbol, parsed)
        return
    known_symbols = symbols or ({raw_symbol} if raw_symbol is not None else set())
    if len(known_symbols) == 1:
        parsed.batch(BOOK).add(
            BOOK.conform(answers.with_columns(raw_symbol=pl.lit(next(iter(known_symbols)))))
        )
        return
    for line in answers["line"].unique().sort():
        parsed.bad.add(line, f"a depth snapshot names no symbol, and the file has {len(known_symbols)}")


def _place_in_piece(answers: pl.DataFrame, symbols: set[str], raw_symbol: str | None, parsed: Parsed) -> None:
    """Add the snapshots of a piece that name no symbol; wait for later lines if no symbol is known."""
    known_symbols = symbols | ({raw_symbol} if raw_symbol is not None else set())
    if not known_symbols:
        parsed.waits = True
    elif len(known_symbols) == 1:
        (symbol,) = known_symbols
        if parsed.piece is not None:
            parsed.piece.memory["placed"] = symbol
        parsed.batch(BOOK).add(BOOK.conform(answers.with_columns(raw_symbol=pl.lit(symbol))))
    else:
        for line in answers["line"].unique().sort():
            parsed.bad.add(line, f"a depth snapshot names no symbol, and the log has {len(known_symbols)}")


def _at(position: int) -> pl.Expr:
    return pl.col("level").list.get(position, null_on_oob=True)


def _number(text: pl.Expr | str) -> pl.Expr:
    return (pl.col(text) if isinstance(text, str) else text).cast(pl.Float64, strict=False)


def _exchange_time(name: str) -> pl.Expr:
    """Return a time in ms or in us as epoch nanoseconds; no time of this century could be in both units."""
    text = pl.col(name).cast(pl.String)
    return pl.coalesce(nanoseconds(text, "ms"), nanoseconds(text, "us"))
