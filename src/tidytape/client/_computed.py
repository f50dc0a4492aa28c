"""The fetch of a window from the lake of this process: the engine computes the frame, and nothing is sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain

import polars as pl

from tidytape.budget import weight
from tidytape.client._answers import described, ordered, within, without_sessions
from tidytape.client._display import progress
from tidytape.client._metadata import Metadata
from tidytape.client._steps import Call, Flow
from tidytape.client._window import Window, covering
from tidytape.query import PointsQuery
from tidytape.wire._notes import Note
from tidytape.wire._tidy import DATA_UNTIL


@dataclass(frozen=True, slots=True)
class Computed:
    """The answer to a query, and what it would have taken over HTTP.

    Attributes
    ----------
    frame : polars.DataFrame
        The points, in any order.
    notes : list of Note
    requests : list of PointsQuery
        The requests that bring this answer over HTTP: one, but for raw trades one per page.
    """

    frame: pl.DataFrame
    notes: list[Note]
    requests: list[PointsQuery]


def computed(
    compute: Callable[[PointsQuery], Computed], window: Window, *, shows: bool | None
) -> Flow[tuple[pl.DataFrame, Metadata]]:
    """Compute a window; the frame and the metadata are those of `fetched` over HTTP.

    Parameters
    ----------
    compute : callable
        Computes the answer to a query; raises RefusedQueryError if the service would refuse it.
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
            answers.append((yield Call(partial(compute, query))))
            bar.advance()
    parts = [
        described(answer.frame, query, answered_at=began)
        for query, answer in zip(requests, answers, strict=True)
    ]
    frame = within(ordered([part.drop(DATA_UNTIL) for part in parts], window.query), *window.unaligned)
    frame, sessions = without_sessions(frame)
    sent = [request for answer in answers for request in answer.requests]
    notes = chain.from_iterable(answer.notes for answer in answers)
    metadata = Metadata.of_fetch(
        window, frame, notes, requests=len(sent), weight=sum(map(weight, sent)), sessions=sessions
    )
    return frame, metadata
