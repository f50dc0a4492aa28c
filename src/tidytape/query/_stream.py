"""The request for a stream of points."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar, Self

from pydantic import model_validator

from tidytape.errors import QueryError
from tidytape.query import _values as values
from tidytape.query._points import PointFields, PointsQuery
from tidytape.query._values import Names, TimeLike

_FETCH_ONLY = frozenset({"sort_direction", "gapfill"})
"""The fields of a fetch that a stream does not have."""


class StreamQuery(PointFields):
    """One request for a stream of points: data types, markets, times and options.

    Parameters
    ----------
    type, exchange, raw_symbol, coin, normalized_symbol, category, token_name, interval, tenor, side, quote, group_by, \
funding_interval, tpo_block_minutes, tpo_session, max_depth, block_size, event
        As in `PointsQuery`.
    start : time, optional
        Start of the stream, inclusive; by default the start of the interval in progress. [s]
    end : time, optional
        End of the stream, exclusive; by default it has no end. Needs ``start``. [s]
    token : str, optional
        Resume token of the last batch that was applied.

    Raises
    ------
    QueryError
        As for `PointsQuery`, except for the limit of points.

    Examples
    --------
    >>> query = StreamQuery(type="TRADE_AGG", exchange="X", coin="BTC", interval="1m", start=0)
    >>> query.to_params()[-1], [one.points for one in query.window(60, 180)]
    (('from', '0'), [2])
    """

    start: int | None = None
    end: int | None = None
    token: str | None = None

    WIRE: ClassVar[dict[str, str]] = {
        **{field: wire for field, wire in PointsQuery.WIRE.items() if field not in _FETCH_ONLY},
        "token": "token",
    }

    def __init__(
        self,
        *,
        type: Names,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        token: str | None = None,
        exchange: Names = (),
        raw_symbol: Names = (),
        coin: Names = (),
        normalized_symbol: Names = (),
        category: Names = (),
        token_name: str | None = None,
        interval: str | None = None,
        tenor: str | None = None,
        side: str | None = None,
        quote: str | None = None,
        group_by: str | None = None,
        funding_interval: int | str | timedelta | None = None,
        tpo_block_minutes: int | str | None = None,
        tpo_session: str | None = None,
        max_depth: int | str | None = None,
        block_size: float | str | Decimal | None = None,
        event: Names = (),
        **unknown: Any,
    ) -> None:
        fields = {name: value for name, value in locals().items() if name in StreamQuery.WIRE}
        super().__init__(**fields, **unknown)

    @model_validator(mode="after")
    def _rules(self) -> Self:
        if self.end is not None:
            if self.start is None:
                raise QueryError("start", got=None, expected="a value; a stream that ends needs one")
            self._require_window(self.start, self.end)
        self.window(0, 1)  # checks every rule; one second cannot exceed the limit of points
        return self

    def window(self, start: int, end: int) -> list[PointsQuery]:
        """Return the requests that fetch the stream's points of a window, oldest first.

        Parameters
        ----------
        start, end : int
            The window, start inclusive, end exclusive. [s since the epoch]

        Returns
        -------
        list of PointsQuery
            As `PointsQuery.split` returns them.
        """
        fields = {name: getattr(self, name) for name in PointFields.model_fields}
        return PointsQuery.split(start=start, end=end, **fields)

    @property
    def period(self) -> int | None:
        """Length of the stream in time; None if it has no end. [s]"""
        return None if self.start is None or self.end is None else self.end - self.start

    # --- the wire ---

    @classmethod
    def _from_wire(cls, fields: dict[str, Any]) -> dict[str, Any]:
        start, period = fields.get("start"), fields.pop("end", None)
        if period is None:
            return {"type": (), **fields}
        if start is None:
            raise QueryError("start", got=None, expected="a value; a stream with an end needs one")
        values.whole_number(period, parameter="end", low=1, high=values.LAST_SECOND - start)
        return {"type": (), **fields, "end": start + period}

    def to_params(self) -> list[tuple[str, str]]:
        """Return the URL parameters of this query in a fixed order, without fields that have their default.

        Returns
        -------
        list of (str, str)
        """
        return [
            (wire, str(self.period) if wire == "period" else value) for wire, value in super().to_params()
        ]
