"""What an answer says of its series beside the points: descriptors, up to when they are known, and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from tidytape.catalogue import AmountUnit, DataType, Interval, NoteCode, Selection, Tenor
from tidytape.lake import LakeReader
from tidytape.query import PointsQuery
from tidytape.schema import data_type, schema_of
from tidytape.service.answer._candles import has_tiles, untold_lengths
from tidytape.service.answer._inventory import tenors
from tidytape.service.answer._plans import PLANS, TABLES_OF_MARKETS
from tidytape.service.answer._scan import Market, MarketScan, in_usd, quote_markets
from tidytape.times import DAY, SECOND
from tidytape.wire import Note
from tidytape.wire._tidy import DATA_UNTIL, with_finality, with_series

_CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"


def descriptions(name: str, scans: Iterable[MarketScan]) -> pl.DataFrame:
    """Return the descriptors of the series of each market.

    Parameters
    ----------
    name : str
        Name of the data type.
    scans : iterable of MarketScan
        The scan of each market.

    Returns
    -------
    polars.DataFrame, one row per market
        ``exchange``, ``raw_symbol``, ``coin``, the descriptors of the type without ``is_final``, and ``data_until``
        [UTC]: the newest event in every table that the points are made of. A market without an event in one of these
        tables has none, because its events may still be ingested; a market of a category that has no such data does
        not count.
    """
    dtypes = {
        **dict.fromkeys(["exchange", "raw_symbol", "coin", "amount_unit"], pl.String()),
        "block_size": pl.Float64(),
        DATA_UNTIL: pl.Datetime("ns", "UTC"),
    }
    left_out = _left_out(name)
    dtypes = {column: dtype for column, dtype in dtypes.items() if column not in left_out}
    return pl.DataFrame([description(name, scan) for scan in scans], schema=dtypes)


def description(name: str, scan: MarketScan) -> dict[str, Any]:
    """Return a row of `descriptions`, its times in ns since the epoch."""
    known = {
        "exchange": scan.market.exchange,
        "raw_symbol": scan.market.raw_symbol,
        "coin": scan.market.coin,
        "amount_unit": AmountUnit.USD if in_usd(scan.query) else AmountUnit.COIN,
        "block_size": None if scan.market.block_size is None else float(scan.market.block_size),
        DATA_UNTIL: _known_until(name, scan),
    }
    left_out = _left_out(name)
    return {column: value for column, value in known.items() if column not in left_out}


def _left_out(name: str) -> set[str]:
    return {"amount_unit", "block_size"}.difference(schema_of(name).names)


def with_descriptors(
    frame: pl.DataFrame, described: pl.DataFrame, data_type: str, *, by_coin: bool
) -> pl.DataFrame:
    """Return points with the descriptors of their series.

    Parameters
    ----------
    frame : polars.DataFrame
        In the schema of its data type.
    described : polars.DataFrame
        The descriptors of the markets, see `descriptions`.
    data_type : str
        Its name.
    by_coin : bool
        Whether the coin alone names a series, as for a group or a token. A group is known as far as its oldest
        member; its members have one unit and one block size.
    """
    keys = ["exchange", "raw_symbol", "coin"]
    values = [name for name in described.columns if name not in keys]
    dtypes = {**described.schema, **frame.schema}
    if described.height == 1:  # without a join, which takes longer than reading the points
        ones = (described[name].cast(dtypes[name]).new_from_index(0, frame.height) for name in values)
        return with_finality(with_series(frame, *ones), data_type)
    if by_coin:
        keys = ["coin"]
        described = described.group_by(keys).agg(pl.col(name).min() for name in values)
    described = described.with_columns(
        pl.col(keys).replace("", None)
    )  # subjects without an exchange or a symbol
    series = frame.select(pl.col(keys).cast(pl.String))
    descriptors = series.join(described, on=keys, how="left", nulls_equal=True, maintain_order="left")
    frame = frame.with_columns(descriptors[name].cast(dtypes[name]) for name in values)
    return with_finality(frame, data_type)


def _known_until(name: str, scan: MarketScan) -> int | None:
    """Return the oldest of the newest events in the tables that points are made of; None where none is needed. [ns]"""
    return min(_newest_events(name, scan), default=None)


def _newest_events(name: str, scan: MarketScan) -> Iterator[int]:
    """Yield the newest event of each table that points are made of; 0 for a table without events. [ns]"""
    lake, market = scan.lake, scan.market
    if name == "TOKEN_SUPPLY_AGG":
        yield from _newest_of_tokens(lake, market)
    else:
        newest = _newest_of_candles(scan) if name == _CANDLES else _newest_of_first(lake, name, market)
        categories = data_type(name).categories
        if not newest and categories and market.category is not None and market.category not in categories:
            return  # a spot market never has funding, so it does not keep a group from being final
        yield newest
        # A group's funding is weighted by open interest in US dollars.
        if name == "FUNDING_RATE_AGG" and in_usd(scan.query):
            yield _newest_of_first(lake, "OPEN_INTEREST_AGG", market)
        if name in {"FUNDING_RATE_AGG", "OPEN_INTEREST_AGG"} and in_usd(scan.query):
            yield _newest_of_candles(scan)
    if scan.needs_rates and market.quote_coin is not None:
        yield from _rate_times(lake, market.quote_coin)


def _newest_of_candles(scan: MarketScan) -> int:
    """Return the newest trade, or the newest recorded candle if those of the window make up its interval."""
    partition = scan.market.exchange, scan.market.raw_symbol
    trade, candle = (_newest(scan.lake, table, *partition) for table in ("trades", "candles"))
    return max(trade, candle) if not trade or (candle > trade and has_tiles(scan)) else trade


def _newest_of_first(lake: LakeReader, name: str, market: Market) -> int:
    """Return the newest event of the first table of a data type that has any of a market; 0 where none has.

    Of a coin across several markets it is the oldest of their newest events. Markets without events do not count: most
    markets of a coin never have liquidations.
    """
    newest_of_markets = (
        next(filter(None, (_newest(lake, table, *names) for table in PLANS[name].tables)), 0)
        for names in market.partitions
    )
    return min(filter(None, newest_of_markets), default=0)


def _newest(lake: LakeReader, table: str, *partition: str) -> int:
    """Return the newest event of a partition of a table; 0 without any."""
    _, last = lake.extent(table, *partition)
    return last or 0


def _newest_of_tokens(lake: LakeReader, market: Market) -> Iterator[int]:
    """Yield the newest report of each token whose market capitalisation counts in this token's dominance."""
    newest = lake.scan("token_supply").group_by("token_name").agg(pl.col("timestamp").max()).collect()
    own = newest.filter(pl.col("token_name") == market.raw_symbol)["timestamp"].max()
    if own is None:
        yield 0
        return
    yield from newest.filter(pl.col("timestamp") > own - DAY)["timestamp"]  # type: ignore[operator]  # an int


def _rate_times(lake: LakeReader, quote: str) -> Iterator[int]:
    """Yield the time of the newest known price of a quote."""
    reported = lake.scan("quote_rates").filter(pl.col("quote_coin") == quote)
    last = reported.select(pl.col("timestamp").max()).collect().item()
    if last is not None:
        yield last
        return
    yield from filter(None, (_newest(lake, "trades", *market) for market in quote_markets(lake, quote)))


_QUIET = DAY
"""The longest time between two events of a market that the lake covers; a longer one is a hole in its data. [ns]"""

_TABLES = sorted({table for tables in TABLES_OF_MARKETS.values() for table in tables})


def notes_of(
    lake: LakeReader,
    query: PointsQuery,
    name: str,
    markets: Sequence[Market],
    frame: pl.DataFrame,
    *,
    now: int,
) -> list[Note]:
    """Return a note for each market of the query whose points do not fill the window.

    Nearly everything comes from the logs of the lake's tables, which are in memory. Rows are read only of markets with
    recorded candles, because no log has their lengths.

    Parameters
    ----------
    lake : LakeReader
    query : PointsQuery
    name : str
        The data type.
    markets : sequence of Market
        The markets that the query selects of that type.
    frame : polars.DataFrame
        The answer.
    now : int
        [ns since the epoch]

    Returns
    -------
    list of Note
        A market without points has a note that says why. A market with points has one if its type is dense and the
        points do not reach both ends of the window. A member of a group has one too if it adds nothing. So has an
        exchange of the query that no market of it is on.
    """
    kind = data_type(name)
    notes = absent(query, name, markets)
    if len(markets) == 1 and frame.height and not kind.dense:
        return notes
    columns = ["coin"] if query.group_by or kind.selection is Selection.TOKEN else _MARKET
    full = _full(frame, kind, query, columns, is_one=len(markets) == 1)
    of_class = {one.exchange for one in markets if not kind.categories or one.category in kind.categories}
    for one in markets:
        key, scan = tuple(getattr(one, column) or None for column in columns), MarketScan(lake, one, query)
        if key in full and not query.group_by:
            note = _part(kind, scan, is_full=full[key])
        elif frame.height and one.exchange in of_class and _is_of_no_such_class(kind, scan):
            note = None
        else:
            note = _lacking(kind, scan, is_empty=key not in full, is_full=full.get(key, False), now=now)
        notes += [] if note is None else [note]
    return notes


def absent(query: PointsQuery, name: str, markets: Sequence[Market]) -> list[Note]:
    """Return a note for each exchange of a query that has none of its symbols or coins, although another has.

    An exchange that ``category`` or ``event`` leaves out has no note: the query asked for that.

    Examples
    --------
    >>> query = PointsQuery(type="TRADE_AGG", exchange=["X", "Y"], coin="SOL", interval="1d", start=0, end=86_400)
    >>> [note] = absent(query, "TRADE_AGG", [Market("X", "SOL-USD", "SOL-USD", "SOL", "SPOT", None)])
    >>> note.code, note.exchange, note.coin
    (<NoteCode.NO_DATA: 'NO_DATA'>, 'Y', 'SOL')
    """
    if data_type(name).selection is not Selection.MARKET or query.category or query.event:
        return []
    symbol = ", ".join(query.raw_symbol or query.normalized_symbol) or None
    coin = ", ".join(query.coin) or None
    having = {one.exchange for one in markets}
    return [Note(NoteCode.NO_DATA, name, one, symbol, coin) for one in query.exchange if one not in having]


def note_of_reach(query: PointsQuery, name: str, scan: MarketScan, first: int, last: int) -> list[Note]:
    """Return what `notes_of` does of one market that has points.

    ``first`` and ``last`` are the times between which each of its series has points. [ns since the epoch]
    """
    kind = data_type(name)
    note = _part(kind, scan, is_full=_reaches(query, first // SECOND, last // SECOND)) if kind.dense else None
    return [] if note is None else [note]


def _reaches(query: PointsQuery, first: Any, last: Any) -> Any:
    """Return whether points from a first to a last time reach both ends of the window; of expressions, one. [s]"""
    start, end = query.span
    return (first <= start) & (last >= end - query.step)


_MARKET = ["exchange", "raw_symbol", "coin"]


def _full(
    frame: pl.DataFrame, kind: DataType, query: PointsQuery, columns: list[str], *, is_one: bool
) -> dict[tuple[str | None, ...], bool]:
    """Return the markets that have points, and whether points of a dense type reach both ends of the window.

    ``is_one`` says that all points belong to one market.
    """
    sides = ["side"] if kind.per_side else []
    if is_one and not sides and frame.height:  # without an engine, which takes longer to start
        times = frame["timestamp"].to_physical().to_numpy()
        reaches = not kind.dense or _reaches(query, times.min() // SECOND, times.max() // SECOND)
        return {tuple(frame[column][0] for column in columns): bool(reaches)}
    first, last = pl.col("timestamp").min().dt.epoch("s"), pl.col("timestamp").max().dt.epoch("s")
    reaches = _reaches(query, first, last) if kind.dense else pl.lit(value=True)
    series = frame.group_by(*columns, *sides).agg(reaches=reaches)
    full: dict[tuple[str | None, ...], bool] = {}
    for *names, is_full in series.iter_rows():
        market = tuple(names[: len(columns)])
        full[market] = bool(is_full) and full.get(market, True)
    return full


def able_intervals(scan: MarketScan) -> list[Interval] | None:
    """Return the intervals that the recorded candles of a market make up, if the points leave some candles out.

    None if trades or points of the query's interval include every candle of the window.
    """
    lengths = untold_lengths(scan)
    if not lengths:
        return None
    return [able for able in Interval if any(able.seconds % length == 0 for length in lengths)]


def _is_of_no_such_class(kind: DataType, scan: MarketScan) -> bool:
    """Return whether a coin or a common symbol selected a market whose category does not have the type."""
    return not scan.query.raw_symbol and bool(kind.categories) and scan.market.category not in kind.categories


def _lacking(kind: DataType, scan: MarketScan, *, is_empty: bool, is_full: bool, now: int) -> Note | None:
    """Return why a market has no points, or adds none to its group; None if the points are complete."""
    held = _held(kind, scan)
    if held is None:
        types = tuple(name for name, tables in TABLES_OF_MARKETS.items() if scan.extent(*tables))
        return _note(NoteCode.NO_DATA, kind, scan, types=types)
    if scan.start > now or scan.query.around is not None:
        return _note(NoteCode.NOT_BEGUN, kind, scan)
    all_events = scan.extent(*_TABLES) if kind.name in TABLES_OF_MARKETS else None
    first, last = all_events or held
    is_before = scan.end <= max(first, held[0] - _QUIET)
    is_after = scan.start > min(last, held[1] + _QUIET)
    types = _of_candles(kind, scan)
    if is_before or is_after or (types and (scan.end <= held[0] or scan.start > held[1])):
        return _note(NoteCode.OUTSIDE, kind, scan, types=types)
    if not is_empty:
        return _part(kind, scan, is_full=is_full)
    if intervals := _intervals(kind, scan):
        return _note(NoteCode.NO_DATA, kind, scan, intervals=intervals)
    if scan.query.tenor is not None:
        able = _tenors(kind, scan, last=held[1])
        if able and scan.query.tenor not in able:
            return _note(NoteCode.NO_DATA, kind, scan, tenors=tuple(map(str, able)))
    return _note(NoteCode.QUIET, kind, scan)


def _part(kind: DataType, scan: MarketScan, *, is_full: bool) -> Note | None:
    """Return the note of a market whose points lack something; None if they reach both ends and leave no candle out."""
    intervals = _intervals(kind, scan)
    if is_full and not intervals:
        return None
    return _note(NoteCode.PART, kind, scan, types=_of_candles(kind, scan), intervals=intervals)


def _note(code: NoteCode, kind: DataType, scan: MarketScan, **lists: tuple[str, ...]) -> Note:
    """Return a note about a market, with its first and last event."""
    one, is_token = scan.market, kind.selection is Selection.TOKEN
    symbol = None if is_token else one.raw_symbol or None
    coin = one.coin or (one.raw_symbol if is_token else None)
    first, last = _held(kind, scan) or (None, None)
    return Note(code, kind.name, one.exchange or None, symbol, coin, first, last, **lists)


def _held(kind: DataType, scan: MarketScan) -> tuple[int, int] | None:
    """Return the first and the last event that the type is made of; None if the market has none. [ns]"""
    if kind.selection is not Selection.TOKEN:
        return scan.extent(*PLANS[kind.name].tables)
    reports = scan.lake.scan("token_supply").filter(pl.col("token_name") == scan.market.raw_symbol)
    first, last = (
        reports.select(first=pl.col("timestamp").min(), last=pl.col("timestamp").max()).collect().row(0)
    )
    return None if first is None else (first, last)


def _intervals(kind: DataType, scan: MarketScan) -> tuple[str, ...]:
    """Return `able_intervals` of candles; nothing for another type."""
    return tuple(map(str, able_intervals(scan) or ())) if kind.name == _CANDLES else ()


def _of_candles(kind: DataType, scan: MarketScan) -> tuple[str, ...]:
    """Return the candle type if only recorded candles cover the window: these have no sides and no levels."""
    if TABLES_OF_MARKETS.get(kind.name) != ("trades",) or not scan.holds("candles"):
        return ()
    candles, trades = scan.extent("candles"), scan.extent("trades")
    if candles is None or trades is None:
        return ()
    is_beyond = min(scan.end - 1, candles[1]) > trades[1] or max(scan.start, candles[0]) < trades[0]
    return (_CANDLES,) if is_beyond else ()


def _tenors(kind: DataType, scan: MarketScan, *, last: int) -> list[Tenor]:
    """Return the tenors that an option summary has on the last day with quotes, shortest first."""
    one = scan.market
    row = {
        "type": kind.name,
        "exchange": one.exchange,
        "raw_symbol": one.raw_symbol,
        "coin": one.coin,
        "last": last,
    }
    present = set(tenors(scan.lake, pl.DataFrame([row]))["tenor"])
    return [tenor for tenor in Tenor if tenor in present]
