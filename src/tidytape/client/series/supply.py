"""Tokens: what there is of them and what it is worth."""

from __future__ import annotations

from typing import TypeVar

from tidytape.client.documented import documented
from tidytape.client.series.wanted import Asking, Wanted
from tidytape.query.values import Names, TimeLike
from tidytape.schema import schema_of

__all__ = ["Supply"]

ResultT = TypeVar("ResultT")


class Supply(Asking[ResultT]):
    """Supply and dominance of tokens."""

    @documented(
        schema_of("TOKEN_SUPPLY_AGG"),
        token_name="Token; this or ``coin``. Usually the ``coin_name`` of a market.",
        coin="Base asset, instead of ``token_name``.",
    )
    def token_supply(
        self,
        *,
        interval: str,
        start: TimeLike,
        end: TimeLike,
        token_name: str | None = None,
        coin: Names = None,
        sort_direction: str = "asc",
    ) -> ResultT:
        """Fetch market value, supply and dominance of a token.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.token_supply(coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09")
        >>> 0 < day["marketcap_dominance_percent"].item() < 100
        True
        """
        return self._points(Wanted.of("TOKEN_SUPPLY_AGG", locals()))
