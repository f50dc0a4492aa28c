"""Find which column of a file is which column of a table, by the caller's map and by our names of columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidytape.errors import QueryError, did_you_mean
from tidytape.lake._tables import RECORDED_CANDLES, TRADES, Table
from tidytape.lake.ingest._columns import INSTEAD_OF_SIDE, known_columns, needed_columns
from tidytape.lake.ingest._layout import Job
from tidytape.lake.ingest._mapped import Mapped


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Finds the columns of a file that are columns of a table.

    Attributes
    ----------
    layout : Mapped
        The table, and the caller's map.
    job : Job
        The file, and what the caller says about it.
    header : sequence of str
        Names of the file's columns, in order.
    constants : collection of str
        Our columns for which the caller gives one value for the whole file.
    """

    layout: Mapped
    job: Job
    header: Sequence[str]
    constants: Collection[str]

    @property
    def _table(self) -> Table:
        return self.layout.of

    @property
    def _other_side(self) -> str | None:
        """The column that may give the side instead of ``side``; None if the table has no such column."""
        return INSTEAD_OF_SIDE.get(self._table.name)

    def columns(self) -> dict[str, tuple[str, ...]]:
        """Return the file's columns of each of our columns; several are joined.

        Raises
        ------
        QueryError
            If the map names a column that does not exist, or a needed column is not mapped.
        """
        if self._table is TRADES:
            self.job.known_exchange  # noqa: B018  # raises if the exchange is missing
        mapped = self._named()
        mapped |= self._of_same_name(mapped)
        index = next((name for name in self.header if name in _UNNAMED_INDEX), None)
        if "timestamp" not in mapped and index and not suggested_map(["timestamp"], self.header):
            mapped["timestamp"] = (index,)
        other_side = self._other_side
        if other_side in mapped and "side" in mapped:
            mapped.pop("side" if other_side in (self.layout.columns or {}) else other_side)
        self._require_all({*mapped, *self.constants, *(["side"] if other_side in mapped else [])})
        return {column: parts for column, parts in mapped.items() if parts}

    def _named(self) -> dict[str, tuple[str, ...]]:
        """Return the caller's map; QueryError if it names a column that does not exist, or two columns for the side."""
        table_columns, column_map = known_columns(self._table), dict(self.layout.columns or {})
        for column in column_map:
            if column not in {*table_columns, "exchange"}:
                raise _map_error(column, table_columns, f"one of {', '.join(table_columns)} to be mapped")
        if "side" in column_map and self._other_side in column_map:
            raise _map_error(
                column_map["side"], (), f"either side or {self._other_side} to be mapped, not both"
            )
        return {column: self._parts(column, name) for column, name in column_map.items()}

    def _parts(self, column: str, name: str) -> tuple[str, ...]:
        """Return the columns of the file that one of our columns is made of; none if the file has no such column."""
        if not name:
            return ()
        parts = [name] if self._at_place(name) in self.header else name.split("+")
        parts = [self._at_place(part) for part in parts]
        for part in parts:
            if self.header.count(part) != 1 and not part.startswith("'"):
                raise _map_error(part, self.header, f"for {column} {self._names()}")
        return tuple(parts)

    def _at_place(self, part: str) -> str:
        """Return the column at a place, #3 for the third, or of a name, in any case if only one has it."""
        place = int(part[1:]) if part[:1] == "#" and part[1:].isdecimal() else 0
        if 1 <= place <= len(self.header):
            return self.header[place - 1]
        similar_names = [name for name in self.header if plain(name) == plain(part)]
        return similar_names[0] if len(similar_names) == 1 and part not in self.header else part

    def _of_same_name(self, column_map: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return the columns of the file that bear our names, without those that the caller maps or overrides."""
        # A column of symbols is read even if the caller names a symbol, because it selects the rows of that market.
        constants = set(self.constants) - {"raw_symbol"}
        used_names = {parts[0] for parts in column_map.values() if len(parts) == 1}
        of_same_name: dict[str, tuple[str, ...]] = {}
        for column in known_columns(self._table):
            exact = [name for name in self.header if name == column]
            names = exact or [name for name in self.header if plain(name) == column]
            if not names or column in column_map or column in constants or used_names & {*names}:
                continue
            if len(names) > 1:
                raise QueryError(
                    "columns", got=f"columns {' and '.join(names)}", expected=f"one for {column}"
                )
            of_same_name[column] = (names[0],)
        return of_same_name

    def _require_all(self, available: Collection[str]) -> None:
        """Raise QueryError if a needed column is neither mapped nor a constant."""
        missing_columns = [name for name in needed_columns(self._table) if name not in available]
        is_candles = self._table is RECORDED_CANDLES
        if is_candles and "volume" not in available and any(map(_may_be_volume, self.header)):
            missing_columns.append("volume")  # only candles of a file without such a column have none
        if "exchange" in missing_columns:
            self.job.known_exchange  # noqa: B018  # raises, because the exchange is missing
        unmapped_columns = [name for name in missing_columns if name != "raw_symbol"]
        if self._table is TRADES:
            unmapped_columns = [
                "side or buyer_is_maker" if name == "side" else name for name in unmapped_columns
            ]
        if "raw_symbol" in missing_columns and not (unmapped_columns and self._table is TRADES):
            raise QueryError(
                "raw_symbol",
                got=None,
                expected="the market of the file, or a column that names it",
                hint='``market=Market(raw_symbol="BTC-USD")`` says it',
            )
        if unmapped_columns == ["interval"]:
            raise QueryError(
                "interval",
                got=None,
                expected="how long the candles are, or a column that tells it",
                hint='``interval="1d"`` says it for all of them',
            )
        if unmapped_columns:
            expected = f"{', '.join(unmapped_columns)} mapped to {self._names()}"
            raise _map_error(self.layout.columns or None, (), expected, hint=self._hint(available))

    def _hint(self, available: Collection[str]) -> str | None:
        """Return what a user may try if a column is missing."""
        header = {name.casefold() for name in self.header}
        if self._table is TRADES and {"open", "high", "low", "close"} <= header:
            return 'candles go into a table of their own: ``table="candles"``'
        return self._suggestion(available)

    def _suggestion(self, available: Collection[str]) -> str | None:
        """Return a map that the names of the file's columns suggest; None if they suggest nothing."""
        column_map = dict(self.layout.columns or {})
        used_names = {*column_map.values(), *(set(available) & set(self.header))}
        missing_columns = [name for name in known_columns(self._table) if name not in available]
        pairs = suggested_map(missing_columns, [name for name in self.header if name not in used_names])
        if self._other_side is not None and ("side" in available or "side" in pairs):
            pairs.pop(self._other_side, None)
        if not pairs:
            return None
        columns = column_map | pairs
        return f"try ``columns={columns}``"

    def _names(self, limit: int = 200) -> str:
        """Name the file's columns, shortened: the first line of another kind of file may be very long."""
        text = ", ".join(self.header)
        return f"one of the columns of {self.job.path.name}: {text if len(text) <= limit else text[:limit] + '…'}"


def _map_error(
    argument: object, known: Iterable[str], expected: str, *, hint: str | None = None
) -> QueryError:
    """Return the error of a column map, with a hint if the caller's name is similar to a known one."""
    if isinstance(argument, str):
        hint = did_you_mean(argument, known)
    return QueryError("columns", got=argument, expected=expected, hint=hint)


_UNNAMED_INDEX = ("#1", "__index_level_0__")
"""What the index of a frame of pandas without a name is called in CSV and in Parquet."""

_SIMILAR = {
    "timestamp": ("time", "ts", "datetime", "unix", "opentime", "date", "transacttime", "eventtime", "t"),
    "raw_symbol": ("symbol", "instrument", "ticker", "market", "pair"),
    "price": ("px", "tradeprice", "p"),
    "amount": ("qty", "quantity", "size", "volume", "vol", "baseqty", "openinterest", "oi", "q"),
    "size": ("qty", "quantity", "amount", "volume"),
    "side": ("takerside", "aggressorside", "direction"),
    "buyer_is_maker": ("isbuyermaker",),
    "id": ("tid", "tradeid", "aggtradeid"),
    "open": ("openprice", "o"),
    "high": ("highprice", "h"),
    "low": ("lowprice", "l"),
    "close": ("closeprice", "c"),
    "volume": ("vol", "basevolume", "qty", "v"),
    "implied_volatility": ("iv", "markiv", "impliedvol"),
    "expiry": ("expiration", "expirationdate", "expirydate"),
    "option_type": ("type", "right", "callput", "cp"),
    "coin": ("underlying", "base"),
    "rate": ("fundingrate",),
    "usd": ("rate", "price", "close"),
}
"""Names in files of our columns, the likeliest first, in lower case, with letters and digits only."""


def suggested_map(columns: Collection[str], header: Sequence[str]) -> dict[str, str]:
    """Return a map of our columns to columns of a file with similar names, each of which is used at most once.

    Parameters
    ----------
    columns : collection of str
        Our columns that have no column of the file yet.
    header : sequence of str
        The file's columns that are not mapped yet.

    Returns
    -------
    dict of str to str
        The file's name of each of our columns that has a similar name in the file.

    Examples
    --------
    >>> suggested_map(["timestamp", "open", "volume"], ["Open Time", "Open", "note"])
    {'timestamp': 'Open Time', 'open': 'Open'}
    """
    pairs: dict[str, str] = {}
    names_by_letters = {folded(name): name for name in header}
    if "timestamp" in columns and {"date", "time"} <= names_by_letters.keys():
        pairs["timestamp"] = f"{names_by_letters['date']}+{names_by_letters['time']}"
    for column in (column for column in columns if column not in pairs):
        unused = {folded(name): name for name in header if name not in pairs.values()}
        names = (folded(column), *_SIMILAR.get(column, ()))
        match = next((unused[name] for name in names if name in unused), None)
        if match is not None:
            pairs[column] = match
    return pairs


_NO_VOLUME = re.compile(
    "tick|real|trade|count|avg|average|weight|spread|buy|sell|taker|^(?:quote|quote_?asset)_?volume$"
)


def _may_be_volume(name: str) -> bool:
    """Return whether the name of a column says that it is a volume of candles, in coins or in the quote.

    Examples
    --------
    >>> [_may_be_volume(name) for name in ("Volume USDT", "vol.", "qty", "tick_volume", "quote_volume")]
    [True, True, True, False, False]
    """
    is_alike = (
        bool(suggested_map(["volume"], [name])) or folded(name).startswith("vol") or "volume" in folded(name)
    )
    return is_alike and not _NO_VOLUME.search(name.casefold())


NAMES_OF_MARKETS = frozenset(
    {"symbol", "rawsymbol", "instrument", "instrumentname", "ticker", "tic", "market", "pair"}
)
"""What columns that tell the market of a row are called, in lower case, with letters and digits only."""


def plain(name: str) -> str:
    """Return a name in lower case, without the brackets that some programs write."""
    return name.strip("<>[] ").lower()


def folded(name: str) -> str:
    """Return the letters and digits of a name in lower case."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
