"""Events with the times of a client, for functions that count nanoseconds as the lake does."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.frames.door import at_the_door, wrapped
from tidytape.frames.table import Table

_TIME: Final = "timestamp"
_TIMES: Final = ("period_start", "period_end", "first_timestamp", "last_timestamp")

P = ParamSpec("P")


def takes_times(
    function: Callable[Concatenate[IntoFrameT, P], IntoFrameT],
) -> Callable[Concatenate[IntoFrameT, P], IntoFrameT]:
    """Return the function for frames of times with a zone, too: its times and words are then those of the frame."""
    counting = at_the_door(function)

    @wraps(function)
    def taking(events: IntoFrameT, /, *args: P.args, **kwargs: P.kwargs) -> IntoFrameT:
        if wrapped(events).collect_schema().get(_TIME, nw.Int64) == nw.Int64:
            return counting(events, *args, **kwargs)
        table = Table.opened(events, times=[_TIME])
        # In memory they stay so, for what is told of them at once.
        rows = table.rows.collect() if table.is_eager else table.rows
        native = cast("IntoFrameT", rows.to_native())
        answer: Any = function(native, *args, **kwargs)
        result: nw.LazyFrame[Any] = nw.from_native(answer).lazy()
        names = result.collect_schema().names()
        return table.closed(result, times={name: _TIME for name in _TIMES if name in names})

    return taking
