"""The fetch of a window from the lake of this process: the engine computes the frame, and nothing is sent."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from itertools import chain

import polars as pl

from tidytape.budget import weight
from tidytape.catalogue import ERROR_STATUS
from tidytape.client._answers import described, is_dense, ordered, within
from tidytape.client._display import progress
from tidytape.client._metadata import Metadata
from tidytape.client._reasons import reasons_of
from tidytape.client._request import refused_query
from tidytape.client._steps import Call, Flow, printable
from tidytape.client._window import Window, covering
from tidytape.errors import QueryError
from tidytape.query import PointsQuery
from tidytape.service._answering import refused
from tidytape.service._in_process import Computed, PointsInProcess
from tidytape.wire._tidy import DATA_UNTIL


def computed(
    points: PointsInProcess, window: Window, *, shows: bool | None
) -> Flow[tuple[pl.DataFrame, Metadata]]:
    """Compute a window; the frame and the metadata are those of `fetched` over HTTP.

    Parameters
    ----------
    points : PointsInProcess
    window : Window
    shows : bool or None
        Whether to show the progress, see `progress`.

    Raises
    ------
    RefusedQueryError
        If the service would refuse the query.
    LakeError
        If the lake cannot be read.
    """
    requests = covering(window, [window.unaligned])
    answers: list[Computed] = []
    began = time.time()
    with progress(window.data_type, len(requests), shows=shows) as bar:
        for query in requests:
            answers.append((yield Call(partial(_answered, points, query))))
            bar.advance()
    parts = [
        described(answer.frame, query, answered_at=began)
        for query, answer in zip(requests, answers, strict=True)
    ]
    frame = within(ordered([part.drop(DATA_UNTIL) for part in parts], window.query), *window.unaligned)
    sent = [request for answer in answers for request in answer.requests]
    notes = dict.fromkeys(chain.from_iterable(answer.notes for answer in answers))
    reasons = reasons_of(window, notes, frame, now=time.time()) if notes or frame.is_empty() else ()
    return frame, Metadata(
        window.query,
        window.start,
        window.end,
        len(sent),
        sum(map(weight, sent)),
        (),
        (),
        (),
        datetime.now(UTC),
        frame,
        reasons,
        True if is_dense(window.query) else None,
    )


def _answered(points: PointsInProcess, query: PointsQuery) -> Computed:
    try:
        return points.answer(query)
    except QueryError as error:
        refusal = refused(error)
    assert refusal is not None  # every QueryError is one
    facts = {name: printable(fact) for name, fact in refusal.facts.items() if fact is not None}
    raise refused_query(printable(refusal.message), facts, refusal.code, ERROR_STATUS[refusal.code])
