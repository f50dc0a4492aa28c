"""One answer, from the task to the bytes of its body: what threads and worker processes do alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidytape import wire
from tidytape.query import PointsQuery
from tidytape.service.engine import Engine, Subjects
from tidytape.service.packing import packed

__all__ = ["Made", "Task", "computed"]


@dataclass(slots=True)
class Task:
    """One answer that is to be computed.

    Attributes
    ----------
    query : PointsQuery
        The query.
    subjects : dict of str to list of Instrument
        The markets it selects, by data type.
    form : str
        Media type of the answer.
    coding : str
        The ``Accept-Encoding`` header of the caller.
    key : str
        Id of the caller's key; the queue serves keys in turn.
    heavy : bool
        Whether it never takes the last worker, see `tidytape.service.estimate`.
    begun : bool
        Whether computing it has begun. A task that was dropped before costs the caller nothing.
    """

    query: PointsQuery
    subjects: Subjects
    form: str
    coding: str
    key: str = ""
    heavy: bool = False
    begun: bool = False


Made = tuple[bytes, Mapping[str, str], int]
"""Body of an answer, the headers that say how it is packed, and the number of its rows."""


def computed(engine: Engine, task: Task) -> Made:
    """Compute an answer.

    Raises
    ------
    QueryError
        If only the rows tell that the query cannot be answered.
    """
    is_arrow = task.form == wire.ARROW_MIME
    frames = engine.frames(task.query, task.subjects, lists_once=not is_arrow)
    # Where recorded candles are longer than the interval, it would look as if nothing had been traded.
    if task.query.group_by is not None or task.query.gapfill or all(frame.is_empty() for _, frame in frames):
        engine.refuse_finer(task.query, task.subjects)
    name, first = frames[0]
    notes = engine.notes(task.query, task.subjects, frames)
    body = wire.to_arrow(first, name, notes) if is_arrow else wire.encode_all(frames, notes)
    body, headers = packed(body, task.coding)
    return body, headers, sum(frame.height for _, frame in frames)
