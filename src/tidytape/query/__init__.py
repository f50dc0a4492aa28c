"""The query model: what may be asked of the service, validated before anything is sent.

One model serves both ends. The client builds it from Python arguments and writes URL parameters; the service reads
URL parameters into the same model. So both refuse a wrong request by the same rule and with the same message, before it
costs weight.

Examples
--------
>>> query = PointsQuery(
...     type="TRADE_SIDE_AGNOSTIC_AGG", exchange="X", raw_symbol="BTCUSDT", interval="1m",
...     start="2024-08-09T00:00Z", end="2024-08-09T01:00Z",
... )
>>> query.points
60
>>> PointsQuery.from_params(query.to_params()) == query
True
"""

from __future__ import annotations

from tidytape.query._lists import MarketsQuery, MetaQuery
from tidytape.query._points import PointsQuery
from tidytape.query._stream import StreamQuery
from tidytape.query._values import hinted_window, window_hint

__all__ = [
    "MarketsQuery",
    "MetaQuery",
    "PointsQuery",
    "StreamQuery",
    "hinted_window",
    "window_hint",
]
