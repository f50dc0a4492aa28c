"""Tidy frames of market data.

A query names a tidy frame; the client fetches it, the service computes it, the wire carries it, and the
analytics map it.

This module has the public names. It loads nothing heavy: it imports a name from its room when the name is first used.

>>> import tidytape
>>> "Client" in dir(tidytape)
True
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from tidytape import _forks as _forks  # its hook must be there before the process forks
from tidytape._version import __version__
from tidytape.errors import (
    AuthenticationError,
    BudgetError,
    CallError,
    CertificateError,
    DecodeError,
    EmptyAnswerWarning,
    FetchError,
    ForkError,
    GapWarning,
    IncompleteDataError,
    IngestError,
    LakeError,
    MissingColumnError,
    NoMatchWarning,
    ProxyError,
    QueryError,
    RateLimitError,
    RefusedQueryError,
    ServerError,
    ServiceError,
    SettlementWarning,
    StreamGapError,
    SurvivorWarning,
    TapeError,
    TidytapeError,
    TierError,
    TransportError,
    UnencryptedKeyWarning,
    UnknownNameError,
)

if TYPE_CHECKING:
    from tidytape import (
        aggregate,
        analytics,
        archives,
        budget,
        catalogue,
        client,
        demo,
        errors,
        lake,
        plot,
        query,
        report,
        schema,
        service,
        sessions,
        wire,
    )
    from tidytape.archives import pull
    from tidytape.client import AsyncClient, Client, Fetched, Metadata, Plan
    from tidytape.query import MarketsQuery, PointsQuery
    from tidytape.sessions import Session
    from tidytape.wire import flat
else:
    _ROOMS = frozenset(
        [
            "aggregate",
            "analytics",
            "archives",
            "budget",
            "catalogue",
            "client",
            "demo",
            "lake",
            "plot",
            "query",
            "report",
            "schema",
            "service",
            "sessions",
            "wire",
        ]
    )
    _HOMES = {
        "AsyncClient": "tidytape.client",
        "Client": "tidytape.client",
        "Fetched": "tidytape.client",
        "Metadata": "tidytape.client",
        "Plan": "tidytape.client",
        "MarketsQuery": "tidytape.query",
        "PointsQuery": "tidytape.query",
        "Session": "tidytape.sessions",
        "flat": "tidytape.wire",
        "pull": "tidytape.archives",
    }

    def __getattr__(name):
        # Hidden from type checkers, which would otherwise accept any name at all.
        if name in _ROOMS:
            return import_module(f"tidytape.{name}")
        if name in _HOMES:
            value = globals()[name] = getattr(import_module(_HOMES[name]), name)
            return value
        names = import_module("tidytape._other_clients")
        raise names.unknown_name(sys.modules[__name__], name, __all__)

    def __dir__():
        return sorted(__all__)


__all__ = [
    "AsyncClient",
    "AuthenticationError",
    "BudgetError",
    "CallError",
    "CertificateError",
    "Client",
    "DecodeError",
    "EmptyAnswerWarning",
    "FetchError",
    "Fetched",
    "ForkError",
    "GapWarning",
    "IncompleteDataError",
    "IngestError",
    "LakeError",
    "MarketsQuery",
    "Metadata",
    "MissingColumnError",
    "NoMatchWarning",
    "Plan",
    "PointsQuery",
    "ProxyError",
    "QueryError",
    "RateLimitError",
    "RefusedQueryError",
    "ServerError",
    "ServiceError",
    "Session",
    "SettlementWarning",
    "StreamGapError",
    "SurvivorWarning",
    "TapeError",
    "TidytapeError",
    "TierError",
    "TransportError",
    "UnencryptedKeyWarning",
    "UnknownNameError",
    "__version__",
    "aggregate",
    "analytics",
    "archives",
    "budget",
    "catalogue",
    "client",
    "demo",
    "errors",
    "flat",
    "lake",
    "plot",
    "pull",
    "query",
    "report",
    "schema",
    "service",
    "sessions",
    "wire",
]
