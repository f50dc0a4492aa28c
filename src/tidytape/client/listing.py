"""The flows of the lists, which weigh nothing: markets, names, sizes and the quota."""

from __future__ import annotations

import time

import orjson
import polars as pl

from tidytape import wire
from tidytape.client.asking import ask
from tidytape.client.quota import Usage
from tidytape.client.settings import Settings
from tidytape.client.steps import Flow
from tidytape.errors import AuthenticationError, DecodeError, IncompleteDataError, TidytapeError
from tidytape.query import MarketsQuery, MetaQuery
from tidytape.schema import MARKETS, PREDICTION_MARKETS

__all__ = ["block_sizes", "informed", "markets", "names", "prediction_markets", "usage"]

_NESTED = "prediction_markets"


def markets(settings: Settings, query: MarketsQuery) -> Flow[pl.DataFrame]:
    """Fetch every page of a search for markets, all of them within one deadline.

    Returns
    -------
    polars.DataFrame
        One row per market, in the service's order. A list that is sorted by what changes moves between two pages, and
        then a market comes twice: the last answer for it counts.

    Raises
    ------
    IncompleteDataError
        If the pages have no end.
    """
    until = time.monotonic() + settings.deadline
    pages: list[pl.DataFrame] = []
    seen: set[tuple[str | None, ...]] = set()
    repeated = 0
    offset = query.page_offset
    while len(pages) < _MOST_PAGES:
        params = query.model_copy(update={"page_offset": offset}).to_params()
        answer = yield from ask(settings, "/v1/markets", params, accept=wire.JSON_MIME, cost=0, until=until)
        frame, following = wire.decode_markets(answer.content)
        keys = set(frame.select(MARKETS.key).iter_rows())
        repeated = repeated + 1 if keys and keys <= seen else 0
        if repeated == _MOST_REPEATED:
            raise IncompleteDataError(
                f"/v1/markets: the page at {offset} and {_MOST_REPEATED - 1} before it bring nothing new; the service "
                "does not heed pageOffset"
            )
        seen |= keys
        pages.append(frame)
        # The end cannot be told from a full page: ask until one is empty or the offset stands still.
        if frame.is_empty() or following is None or following <= offset:
            listed = MARKETS.conform(wire.concatenated(pages))
            return listed.unique(MARKETS.key, keep="last", maintain_order=True)
        offset = following
    raise IncompleteDataError(
        f"/v1/markets: {_MOST_PAGES} pages and no end; a larger page_size takes fewer, if the service heeds it"
    )


_MOST_PAGES = 10_000
_MOST_REPEATED = 3
"""So many small pages in a row bring nothing new only where the list does not move, but stands still."""


def usage(settings: Settings) -> Flow[Usage]:
    """Fetch the quota of the key."""
    told, _ = yield from _usage(settings)
    return told


def _usage(settings: Settings) -> Flow[tuple[Usage, float]]:
    """Fetch the quota of the key, and when the service says that it is of. [s since the epoch]"""
    answer = yield from ask(settings, "/v1/usage", [], accept=wire.JSON_MIME, cost=0)
    try:
        body = orjson.loads(answer.content)
        return Usage(**{name: _whole(body[name]) for name in Usage.__slots__}), answer.sent_at
    except (ValueError, TypeError, KeyError) as error:
        raise DecodeError(f"/v1/usage: expected the quota as an object of integers, got {error!r}") from None


_MOST = 10**15


def _whole(said: object) -> int:
    """Read a whole number as proto3 JSON has it, which may be a text."""
    if isinstance(said, str) and said.removeprefix("-").isdecimal() and said.isascii():
        said = int(said[:20])
    if not isinstance(said, int | float) or isinstance(said, bool) or not abs(said) <= _MOST:
        raise ValueError(said)
    return int(said)


def names(settings: Settings, name: str, query: MetaQuery) -> Flow[list[str]]:
    """Fetch a list of names, in the service's order."""
    answer = yield from ask(settings, f"/v1/{name}", query.to_params(), accept=wire.JSON_MIME, cost=0)
    return wire.decode_names(answer.content, name)


def block_sizes(settings: Settings, query: MetaQuery) -> Flow[pl.DataFrame]:
    """Fetch the recommended block sizes, in the service's order."""
    answer = yield from ask(settings, "/v1/block-sizes", query.to_params(), accept=wire.JSON_MIME, cost=0)
    return wire.decode_block_sizes(answer.content)


def prediction_markets(settings: Settings, query: MarketsQuery) -> Flow[pl.DataFrame]:
    """Fetch every page of a search for markets, and return the prediction markets in them.

    Returns
    -------
    polars.DataFrame
        One row per market and prediction market, in the service's order.

    Raises
    ------
    IncompleteDataError
        As for `markets`, or if a market has two prediction markets of one name.
    """
    found = yield from markets(settings, query)
    owner = ["exchange", "raw_symbol"]
    if _NESTED not in found.columns:
        return PREDICTION_MARKETS.empty()
    entries = found.select(*owner, _NESTED).explode(_NESTED).drop_nulls(_NESTED)
    # An entry may have fields of these names that the contract does not know; its market's are meant.
    told = entries[_NESTED].struct.unnest().drop(owner, strict=False)
    rows = PREDICTION_MARKETS.conform(entries.select(owner).hstack(told)).unique(maintain_order=True)
    if rows.select(PREDICTION_MARKETS.key).is_duplicated().any():
        raise IncompleteDataError("/v1/markets: a prediction market came twice with different values")
    return rows


def informed(settings: Settings) -> Flow[None]:
    """Ask the service for the budget, if nothing is known of it yet."""
    quota = settings.quota
    if quota.is_known or quota.is_silent or settings.offline:
        return
    line = quota.line
    try:
        told, sent_at = yield from _usage(settings)
    except TidytapeError as error:
        if isinstance(error, AuthenticationError):
            raise
        quota.is_silent = True  # it may still tell with every answer
        return
    quota.heard(limit=told.limit, remaining=told.remaining, reset=told.reset - sent_at, taken=0, sent=line)
