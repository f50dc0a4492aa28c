"""ETags: which answer a caller may still have, known without making it again."""

from __future__ import annotations

import hashlib
import json

from tidytape._version import __version__
from tidytape.lake import Lake
from tidytape.query import PointsQuery

__all__ = ["etag", "is_known"]


def etag(lake: Lake, query: PointsQuery, *, form: str, now: int) -> str | None:
    """Return what names the answer to a query, None where the window is not over, or the lake is far.

    Answers depend on the query, the lake, the form they are written in and the version of this library. A lake whose
    window is over may still take events that come late: it then has another version, and so has the answer. To know the
    versions of a lake in an object store takes a round trip per table, which is more than an ETag saves.

    Parameters
    ----------
    lake : Lake
    query : PointsQuery
    form : str
        Media type of the answer.
    now : int
        Epoch second. [s]
    """
    if query.span[1] > now or "://" in lake.path:
        return None
    facts = [__version__, form, sorted(query.to_params()), sorted(lake.version().items())]
    # Weak: the same answer may be packed in several ways.
    return f'W/"{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]}"'


def is_known(tag: str | None, if_none_match: str | None) -> bool:
    """Whether a caller says that it has an answer already."""
    if tag is None or if_none_match is None:
        return False
    bare = tag.removeprefix("W/")
    told = [one.strip().removeprefix("W/") for one in if_none_match.split(",")]
    return "*" in told or bare in told
