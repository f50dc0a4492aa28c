"""What the registry gets to know from an ingest: symbols given or guessed, block sizes, the first event."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

import polars as pl

from tidytape.catalogue import BookSide, Category
from tidytape.errors import QueryError, did_you_mean
from tidytape.frames.grid import Grid, exact, recommended_block_size
from tidytape.lake.amount_units import AmountUnit
from tidytape.lake.ingest._job import Parsed
from tidytape.lake.ingest.contracts import Contract, ContractKind
from tidytape.lake.symbols import Symbol, guessed, told_class
from tidytape.lake.tables import (
    BOOK,
    CME_OPEN_INTEREST,
    FUNDING,
    LIQUIDATIONS,
    MARKETS,
    OPEN_INTEREST,
    RECORDED_CANDLES,
    TRADES,
)
from tidytape.query import values

Instrument = tuple[str, str]
Number = Decimal | float | str


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller said about the market, None where nothing."""

    normalized_symbol: str | None = None
    coin: str | None = None
    category: str | None = None
    tick_size: Number | None = None
    block_size: Number | None = None
    contract: str | None = None
    contract_size: Number | None = None
    amount_unit: str | None = None

    def __post_init__(self) -> None:
        for name in ("normalized_symbol", "coin"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, values.text(value, parameter=name))
        if self.normalized_symbol and not all(map(str.strip, self.normalized_symbol.split("-"))):
            raise QueryError("normalized_symbol", got=self.normalized_symbol, expected="e.g. BTC-USDT")
        for name in ("tick_size", "block_size"):
            value = getattr(self, name)
            if value is not None:
                _on_grid(value, name)
        if self.category is not None:
            _category(self.category)
        self._check_contract()
        if self.amount_unit is not None:
            self._check_unit(self.amount_unit)

    def _check_unit(self, value: object) -> None:
        word = values.text(value, parameter="amount_unit").lower()
        if word not in set(AmountUnit):
            raise QueryError(
                "amount_unit",
                got=value,
                expected="one of " + ", ".join(AmountUnit),
                hint=did_you_mean(word, list(AmountUnit)),
            )
        unit = AmountUnit(word)
        if unit is AmountUnit.CONTRACTS and self.contract is None:
            raise QueryError("contract", got=None, expected="what one contract is, and its contract_size")
        if unit is not AmountUnit.CONTRACTS and self.contract is not None:
            raise QueryError("amount_unit", got=value, expected="contracts, or nothing, beside contract")
        object.__setattr__(self, "amount_unit", unit)

    def _check_contract(self) -> None:
        if self.contract is None:
            if self.contract_size is not None:
                raise QueryError(
                    "contract_size", got=self.contract_size, expected="contract beside it: what kind it is"
                )
            return
        kind = values.text(self.contract, parameter="contract").upper()
        if kind not in ContractKind.__members__:
            raise QueryError(
                "contract",
                got=self.contract,
                expected="one of " + ", ".join(ContractKind),
                hint=did_you_mean(kind, ContractKind.__members__),
            )
        object.__setattr__(self, "contract", kind)
        if self.contract_size is None and kind != ContractKind.VANILLA:
            raise QueryError("contract_size", got=None, expected=f"the size of one {kind} contract")
        size = exact(1 if self.contract_size is None else self.contract_size, "contract_size")
        if not -15 <= size.adjusted() <= 15 or len(size.as_tuple().digits) > 15:
            raise QueryError(
                "contract_size",
                got=self.contract_size,
                expected="a number from 1e-15 to 1e15 of at most 15 digits",
            )
        object.__setattr__(self, "contract_size", size)

    @property
    def as_contract(self) -> Contract | None:
        """What the caller said a contract is."""
        if self.contract is None or self.contract_size is None:
            return None
        return Contract(ContractKind(self.contract), exact(self.contract_size))

    @property
    def unit(self) -> AmountUnit | None:
        """What the caller said that amounts count."""
        if self.amount_unit is not None:
            return AmountUnit(self.amount_unit)
        return None if self.contract is None else AmountUnit.CONTRACTS

    @property
    def columns(self) -> list[str]:
        """Columns of the registry in which what was said wins."""
        named = ["normalized_symbol", "coin", "quote_coin"] if self.normalized_symbol or self.coin else []
        return named + [
            name for name in ("category", "tick_size", "block_size") if getattr(self, name) is not None
        ]


def registry_rows(
    parsed: Parsed, given: Given, registered: pl.DataFrame, *, earlier: Collection[Instrument] = ()
) -> tuple[pl.DataFrame, set[Instrument]]:
    """Return what to register of the instruments in a file, and which of them were guessed.

    Parameters
    ----------
    parsed : Parsed
        What was read.
    given : Given
        What the caller said; a name holds for the files' only instrument.
    registered : polars.DataFrame
        The registry.
    earlier : collection of (str, str)
        Instruments of the files before, of which the caller said the same.

    Returns
    -------
    polars.DataFrame, one row per instrument, sorted
        The table MARKETS.
    set of (str, str)
        Their (exchange, raw_symbol), of those whose coin and quote come from the raw symbol.

    Raises
    ------
    QueryError
        If the symbol of a file's only instrument cannot be guessed and is neither given nor registered, or one name
        is given to several. Of several instruments, those that cannot be guessed get no names.
    """
    _require_class(parsed, given, registered)
    seen = _seen(parsed)
    every = sorted({*seen, *earlier})
    if len(every) > 1 and seen and (given.normalized_symbol or given.coin):
        raise QueryError(
            "normalized_symbol" if given.normalized_symbol else "coin",
            got=given.normalized_symbol or given.coin,
            expected="files of one instrument; these hold " + ", ".join(symbol for _, symbol in every),
        )
    named = registered.filter(pl.col("coin").is_not_null()).select("exchange", "raw_symbol")
    known: set[Instrument] = set(named.iter_rows())
    guesses: set[Instrument] = set()
    rows = []
    dated = registered.filter(pl.col("available_since").is_not_null()).select("exchange", "raw_symbol")
    since_known: set[Instrument] = set(dated.iter_rows())
    for instrument, facts in seen.items():
        said = given.normalized_symbol or given.coin
        names: dict[str, str | None] = {}
        if said or instrument not in known:
            names = _names(instrument[1], given, needed=facts.traded and len(seen) == 1)
        if names and given.normalized_symbol is None:
            guesses.add(instrument)
        unknown_time = facts.since is None and instrument not in since_known
        rows.append(
            {
                "exchange": instrument[0],
                "raw_symbol": instrument[1],
                **names,
                "category": _class_of(instrument, given, facts, parsed),
                "tick_size": None if given.tick_size is None else float(exact(given.tick_size)),
                "block_size": _block_size(given, facts.price),
                # Another clock says nothing about what the exchange's clock has said.
                "available_since": facts.received if unknown_time else facts.since,
            }
        )
    return MARKETS.conform(
        pl.DataFrame(rows, schema_overrides=MARKETS.polars())
    ) if rows else MARKETS.empty(), guesses


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a file shows of an instrument.

    Attributes
    ----------
    since : int or None
        Its first event by the exchange's clock. [ns]
    received : int
        Its first event by any clock. [ns]
    price : float or None
        That of its first trade, else the middle of its first snapshot, else the open of its first candle.
        [quote per coin]
    traded : bool
        It has trades, a book or candles.
    funded : bool
        It has funding rates.
    """

    since: int | None
    received: int
    price: float | None
    traded: bool
    funded: bool


def _class_of(instrument: Instrument, given: Given, facts: _Seen, parsed: Parsed) -> str | None:
    """The class said; else what the symbol tells, PERPETUAL of what is funded, and SPOT of what is traded.

    Not SPOT where venues of every class are told of, or the file can only be of futures. Open interest alone may be of
    a perpetual or of a future.
    """
    if given.category:
        return _category(given.category)
    told = told_class(instrument[1])
    if told is not None or facts.funded:
        return told or Category.PERPETUAL.value
    return Category.SPOT.value if facts.traded and not (parsed.any_class or parsed.futures) else None


def _require_class(parsed: Parsed, given: Given, registered: pl.DataFrame) -> None:
    """Raise QueryError if a file of futures would be mixed with a spot market of the same name."""
    if not parsed.futures:
        return
    spot = registered.filter(pl.col("category") == Category.SPOT.value).select("exchange", "raw_symbol")
    mixed = sorted(set(spot.iter_rows()) & set(_seen(parsed)))
    if mixed or (given.category and _category(given.category) == Category.SPOT.value):
        what = " ".join(mixed[0]) if mixed else "these markets"
        raise QueryError(
            "exchange",
            got=mixed[0][0] if mixed else None,
            expected=f"another name of the venue: the file is of futures, and {what} is a spot market",
        )


_OF_TRADES = (TRADES, BOOK, RECORDED_CANDLES)


def _seen(parsed: Parsed) -> dict[Instrument, _Seen]:
    # Trades first: where there are any, theirs is the price. Of options no market is made.
    ranked = (
        (TRADES, _first_trades),
        (BOOK, _first_books),
        (RECORDED_CANDLES, _first_candles),
        (FUNDING, _first_states),
        (OPEN_INTEREST, _first_states),
        (LIQUIDATIONS, _first_states),
        (CME_OPEN_INTEREST, _first_states),
    )
    found = [
        first(part.frame()).with_columns(
            rank=pl.lit(rank), traded=pl.lit(table in _OF_TRADES), funded=pl.lit(table is FUNDING)
        )
        for rank, (table, first) in enumerate(ranked)
        for part in parsed.batch(table)
    ]
    if not found:
        return {}
    price = pl.col("price").sort_by("rank", "timestamp").drop_nulls().first()
    summary = (
        pl.concat(found)
        .group_by("exchange", "raw_symbol")
        .agg(pl.col("since", "timestamp").min(), price, pl.col("traded", "funded").any())
        .sort("exchange", "raw_symbol")
    )
    return {(exchange, symbol): _Seen(*facts) for exchange, symbol, *facts in summary.iter_rows()}


def _first_states(states: pl.DataFrame) -> pl.DataFrame:
    time, nothing = pl.col("timestamp").min(), pl.lit(None, pl.Float64)
    return states.group_by("exchange", "raw_symbol").agg(time.alias("since"), time, nothing.alias("price"))


def _first_trades(trades: pl.DataFrame) -> pl.DataFrame:
    first = pl.col("price").sort_by("timestamp", "sequence").first()
    time = pl.col("timestamp").min()
    return trades.group_by("exchange", "raw_symbol").agg(time.alias("since"), time, first)


def _first_candles(candles: pl.DataFrame) -> pl.DataFrame:
    time, price = pl.col("timestamp").min(), pl.col("open").sort_by("timestamp").first().alias("price")
    return candles.group_by("exchange", "raw_symbol").agg(time.alias("since"), time, price)


def _first_books(book: pl.DataFrame) -> pl.DataFrame:
    snapshot = pl.col("is_snapshot") & (pl.col("last_id") == pl.col("last_id").filter("is_snapshot").min())
    best_bid = pl.col("price").filter(snapshot & (pl.col("side") == BookSide.BID.value)).max()
    best_ask = pl.col("price").filter(snapshot & (pl.col("side") == BookSide.ASK.value)).min()
    # A snapshot without a time of the exchange has the recorder's, whose clock is another.
    time = pl.col("timestamp")
    since = time.filter(~pl.col("is_snapshot") | time.ne_missing(pl.col("received"))).min().alias("since")
    return book.group_by("exchange", "raw_symbol").agg(
        since, time.min(), ((best_bid + best_ask) / 2).alias("price")
    )


def _names(raw_symbol: str, given: Given, *, needed: bool) -> dict[str, str | None]:
    if given.normalized_symbol is not None:
        coin, _, quote = given.normalized_symbol.partition("-")
        return {
            "normalized_symbol": given.normalized_symbol,
            "coin": given.coin or coin,
            "quote_coin": quote or None,
        }
    symbol = guessed(raw_symbol)
    if symbol is None and not needed:
        return {}
    if symbol is None:
        raise QueryError(
            "normalized_symbol",
            got=raw_symbol,
            expected="a symbol that coin and quote can be read from; for this one give normalized_symbol "
            "(--normalized-symbol), e.g. BTC-USDT, and coin (--coin)",
        )
    if given.coin is not None:
        symbol = Symbol(given.coin, symbol.quote_coin)
    return {"normalized_symbol": symbol.normalized, "coin": symbol.coin, "quote_coin": symbol.quote_coin}


def _block_size(given: Given, price: float | None) -> float | None:
    if given.block_size is not None:
        return float(exact(given.block_size))
    if price is None or price <= 0:
        return None
    size = float(recommended_block_size(price, tick_size=given.tick_size))
    try:
        Grid.of(size)
    except QueryError:  # a price beyond what profiles can be made of: none, unless one is given
        return None
    return size


def _on_grid(value: Number, name: str) -> None:
    """Raise QueryError unless the number can be the height of a row."""
    number = exact(value, name)
    # The exponent first: the grid writes all its digits out.
    if not -23 <= number.adjusted() <= 15:
        raise QueryError(name, got=value, expected="a number from 1e-22 to 1e15")
    try:
        Grid.of(number)
    except QueryError as error:
        raise QueryError(name, got=value, expected=error.expected) from error


def _category(value: str) -> str:
    by_name = {name: category for category in Category for name in (category.value, category.alias)}
    if value not in by_name:
        raise QueryError(
            "category",
            got=value,
            expected="one of " + ", ".join(Category),
            hint=did_you_mean(value, by_name),
        )
    return by_name[value].value
