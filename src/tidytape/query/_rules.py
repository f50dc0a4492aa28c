"""The rules between the values of a points query, one function each; every one can be known before sending."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tidytape.catalogue import DATA_TYPES, DataType, Selection
from tidytape.errors import QueryError
from tidytape.query import values
from tidytape.query._base import code_of

if TYPE_CHECKING:
    from tidytape.query.points import PointsQuery

_SELECTORS = ("raw_symbol", "normalized_symbol", "coin")


def check_interval(query: PointsQuery, kind: DataType) -> None:
    """Refuse an interval that is missing, or more points than one request may have."""
    if query.interval is None and not kind.interval_optional:
        raise QueryError(
            "interval",
            got=None,
            expected=f"an interval; {kind.name} needs one",
            hint="for example '1m' or '1h'",
            code="INVALID_INTERVAL",
        )
    # A query without an interval asks for trades, which the service counts.
    if query.points > kind.max_points and query.interval is not None:
        raise QueryError(
            "end",
            got=f"{query.points} points",
            expected=f"at most {kind.max_points} points of {kind.name} in one request",
            hint=f"{values.window_hint(kind.max_points * query.step)}, or a coarser interval",
            code="POINT_LIMIT_EXCEEDED",
        )


def check_selection(query: PointsQuery, kind: DataType) -> None:
    """Refuse a way of picking instruments that is not the type's."""
    _SELECTION[kind.selection](query, kind)


def _check_instrument(query: PointsQuery, kind: DataType) -> None:
    given = [name for name in _SELECTORS if getattr(query, name)]
    if not query.exchange:
        _refuse("exchange", None, f"a venue; {kind.name} needs {kind.selection}")
    if not given:
        _refuse("raw_symbol", None, f"{kind.selection}, for {kind.name}")
    if len(given) > 1:
        expected = f"{kind.selection}, for {kind.name}; {' and '.join(given)} are given"
        _refuse(given[1], getattr(query, given[1]), expected)


def _check_option_summary(query: PointsQuery, kind: DataType) -> None:
    if not query.exchange:
        _refuse("exchange", None, f"a venue; {kind.name} needs {kind.selection}")
    if not (query.coin or query.raw_symbol or query.normalized_symbol):
        _refuse("coin", None, f"{kind.selection}, for {kind.name}")


def _check_option_skew(query: PointsQuery, kind: DataType) -> None:
    for name in ("exchange", "coin", "raw_symbol", "tenor"):
        if not getattr(query, name):
            _refuse(name, None, f"a value; {kind.name} needs {kind.selection}")
    if len(query.exchange) > 1:
        _refuse(
            "exchange", query.exchange, f"a single venue; {kind.name} cannot be aggregated", "UNSUPPORTED"
        )


def _check_token(query: PointsQuery, kind: DataType) -> None:
    if not (query.token_name or query.coin):
        _refuse("token_name", None, f"{kind.selection}, for {kind.name}")


def _check_coin(query: PointsQuery, kind: DataType) -> None:
    given = [name for name in _SELECTORS if getattr(query, name)]
    if given != ["coin"]:
        given_are = ", ".join(given) or "none"
        _refuse("coin", query.coin or None, f"coin alone, for {kind.name}; given are {given_are}")


_SELECTION = {
    Selection.INSTRUMENT: _check_instrument,
    Selection.OPTION_SUMMARY: _check_option_summary,
    Selection.OPTION_SKEW: _check_option_skew,
    Selection.TOKEN: _check_token,
    Selection.COIN: _check_coin,
}


def check_options(query: PointsQuery, kind: DataType) -> None:
    """Refuse options that the type does not have."""
    if kind.categories and query.category and not set(kind.categories) & set(query.category):
        expected = " or ".join(kind.categories)
        _refuse(
            "category", [str(one) for one in query.category], f"{expected}, for {kind.name}", "UNSUPPORTED"
        )
    if query.gapfill and not kind.gapfill:
        able = ", ".join(name for name, other in DATA_TYPES.items() if other.gapfill)
        _refuse("gapfill", query.gapfill, f"false for {kind.name}; only {able} can be filled", "UNSUPPORTED")
    if query.quote and not kind.usd:
        _refuse(
            "quote", str(query.quote), f"no value; {kind.name} has no denomination to convert", "UNSUPPORTED"
        )
    if query.tenor and not kind.per_tenor:
        _refuse("tenor", str(query.tenor), f"no value; {kind.name} has no tenors", "UNSUPPORTED")
    if query.token_name and kind.selection is not Selection.TOKEN:
        _refuse(
            "token_name",
            query.token_name,
            f"no value; {kind.name} is of markets, not of tokens",
            "UNSUPPORTED",
        )


def check_group(query: PointsQuery, kind: DataType) -> None:
    """Refuse an aggregation that the type does not have."""
    if query.group_by is None:
        return
    if kind.group_by is None:
        _refuse("group_by", str(query.group_by), f"no value; {kind.name} cannot be aggregated", "UNSUPPORTED")
    if query.group_by is not kind.group_by:
        _refuse("group_by", str(query.group_by), f"{kind.group_by} for {kind.name}", "UNSUPPORTED")
    if query.raw_symbol and not kind.group_by_raw_symbol:
        _refuse("raw_symbol", query.raw_symbol, f"coin instead, to aggregate {kind.name} across exchanges")


def check_profile_options(query: PointsQuery) -> None:
    """Options of one family of types need at least one such type; types we do not know may take anything."""
    kinds = query.data_types
    if len(kinds) < len(query.type):
        return
    for name in ("tpo_block_minutes", "tpo_session"):
        if getattr(query, name) is not None and all(kind.name != "TPO_AGG" for kind in kinds):
            _refuse(name, getattr(query, name), "no value; only TPO_AGG takes it", "UNSUPPORTED")
    if query.block_size is not None and not any(kind.levels for kind in kinds):
        _refuse(
            "block_size", str(query.block_size), "no value; only profiles and heatmaps take it", "UNSUPPORTED"
        )


def _refuse(parameter: str, got: object, expected: str, code: str | None = None) -> NoReturn:
    raise QueryError(parameter, got=got, expected=expected, code=code or code_of(parameter))
