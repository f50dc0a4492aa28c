"""Columns of a file that are probably ours under another name. Only hints of errors use them; no column is read so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_ALIKE = {
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
    "rate": ("fundingrate",),
    "usd": ("rate", "price", "close"),
}
"""Our columns and their names in files, the likeliest first, in lower case, with letters and digits only."""


def suggested_map(columns: Iterable[str], header: Sequence[str]) -> dict[str, str]:
    """Return a map of our columns to columns of a file with similar names, each of which is used at most once.

    Parameters
    ----------
    columns : iterable of str
        Our columns that have no column of the file yet.
    header : sequence of str
        The file's columns that are not mapped yet.

    Returns
    -------
    dict of str to str
        Our columns to those of the file, without our columns for which there is no similar name.

    Examples
    --------
    >>> suggested_map(["timestamp", "open", "volume"], ["Open Time", "Open", "note"])
    {'timestamp': 'Open Time', 'open': 'Open'}
    """
    pairs: dict[str, str] = {}
    for column in columns:
        unused = {_folded(name): name for name in header if name not in pairs.values()}
        names = (_folded(column), *_ALIKE.get(column, ()))
        match = next((unused[name] for name in names if name in unused), None)
        if match is not None:
            pairs[column] = match
    return pairs


def _folded(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
