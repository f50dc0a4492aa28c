"""Points for the client in the same process: the frames of the engine, with the requests and the refusals of HTTP."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._estimate import Statistics, estimated
from tidytape.service.answer._pages import found_ends, most_trades, page_ends, pages, require_trades
from tidytape.wire._notes import Note
from tidytape.wire._tidy import epoch_nanoseconds


def answered(engine: Engine, query: PointsQuery) -> tuple[pl.DataFrame, list[Note], list[PointsQuery]]:
    """Compute the answer to a query of one data type. A window of raw trades may have any number of them.

    Returns
    -------
    polars.DataFrame
        As `Engine.frames` returns it, but its rows may be in any order.
    list of Note
    list of PointsQuery
        The requests that bring this answer over HTTP: one, but for raw trades one per page.

    Raises
    ------
    QueryError
        As the service refuses the query, with the same words.
    LakeError
        If the lake cannot be read.
    """
    engine = engine.at(engine.lake.now())
    with engine.lake._reading(), PointsQuery.named_as_on_wire():
        markets, statistics = engine.markets(query), Statistics(engine.lake)
        estimated(query, markets, statistics).require(query, engine.limits)
        ((_, frame),), notes = engine.answer(query, markets, ordered=False)
        requests = [query]
        if most_trades(query):
            if query.side:  # the trades of the other side count too
                ends = found_ends(query, markets, statistics, most=None)
            else:
                ends = page_ends(np.sort(epoch_nanoseconds(frame["timestamp"])), query)
            requests = pages(query, ends)
            for page in requests:
                if page.period == 1:  # one second may have more trades than a page
                    require_trades(page, markets, statistics)
    return frame, notes, requests
