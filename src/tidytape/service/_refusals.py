"""Refusals: what a caller is told of a request that is not answered, and which errors become one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from tidytape.errors import BudgetError, LakeError, QueryError, shown
from tidytape.service._buckets import UnreachableError

_log = logging.getLogger("tidytape.service")

PAUSE = 2
"""How long to wait before asking a busy service again. [s]"""


class RefusedError(Exception):
    """The service refuses a request.

    Attributes
    ----------
    code : str
        A code of `tidytape.catalogue.ERROR_STATUS`.
    message : str
    retry_after : int or None
        How long to wait before the next try. [s]
    over : mapping of str to int
        Of a stream that cannot go on: by data type the start of the last interval that was over. [ns since the epoch]
    facts : mapping of str to str or None
        Of a wrong query: the parameter, its value as the message quotes it, what was expected, and the hint. Double
        backticks stand around parameters in the texts.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after: int | None = None,
        over: Mapping[str, int] = MappingProxyType({}),
        facts: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.retry_after, self.over = code, message, retry_after, over
        self.facts = facts


_LONGEST_NAME = 120
"""Most letters of a parameter that a refusal names; those that the service knows are shorter."""


def refused(error: Exception) -> RefusedError | None:
    """Return the refusal that a caller is sent for an error; None if the service failed, which only its log explains.

    Examples
    --------
    >>> refused(QueryError("side", got="UP", expected="BUY or SELL")).code
    'INVALID_PARAMS'
    >>> refused(ValueError("a secret")) is None
    True
    """
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, QueryError):
        expected, hint = error.marked_facts
        value = None if error.got is None else shown(error.got)
        facts = {
            "parameter": error.parameter[:_LONGEST_NAME],
            "got": value,
            "expected": expected,
            "hint": hint,
        }
        return RefusedError(error.code, error.message, facts=facts)
    if isinstance(error, BudgetError):
        return RefusedError("INVALID_PARAMS", error.message)
    if isinstance(error, UnreachableError):
        return RefusedError("UNAVAILABLE", f"{error}; try again", retry_after=PAUSE)
    # The lake lies in an object store that does not answer; only the log names it.
    if isinstance(error, LakeError) and "://" in (error.path or ""):
        _log.error("the lake cannot be read: %s", error.message)
        return RefusedError("UNAVAILABLE", "the lake cannot be read; try again", retry_after=PAUSE)
    return None
