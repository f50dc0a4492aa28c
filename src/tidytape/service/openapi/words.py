"""Text of docstrings and of the catalogue as a user of the API reads it: Markdown, parameters named as in a URL."""

from __future__ import annotations

import re

from tidytape.query import MarketsQuery, MetaQuery, PointsQuery

__all__ = ["Model", "in_words"]

Model = type[PointsQuery] | type[MarketsQuery] | type[MetaQuery]

_NAME = re.compile(r"`(\w+)`|\b([a-z]+_\w+)\b")
_WORD = re.compile(r"`(\w+)`|\b(\w+)\b")


def in_words(text: str, model: Model, *, bare: bool = False) -> str:
    """Return a text as a user of the API reads it.

    Parameters
    ----------
    text : str
        Names of fields in double backticks, or with an underscore in them, are those of the model.
    model : type
        The query model.
    bare : bool
        Every word that is the name of a field is meant as one.

    Examples
    --------
    >>> in_words("Only ``start``, or a raw_symbol.", PointsQuery)
    'Only `from`, or a `rawSymbol`.'
    """

    def spelled(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        known = model.WIRE.get(name)
        return f"`{known}`" if known else match[0]

    return (_WORD if bare else _NAME).sub(spelled, " ".join(text.split()).replace("``", "`"))
