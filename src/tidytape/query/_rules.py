"""The rules between the values of a points query, one function each; every one can be known before sending."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tidytape.catalogue import DATA_TYPES, DataType, Selection
from tidytape.errors import QueryError
from tidytape.query._base import CODES

if TYPE_CHECKING:
    from tidytape.query.points import PointsQuery

_SELECTORS = ("raw_symbol", "normalized_symbol", "coin")


def check_interval(query: PointsQuery, kind: DataType) -> None:
    if query.interval is None and not kind.interval_optional:
        raise QueryError(
            "interval",
            got=None,
            expected=f"an interval; {kind.name} needs one",
            hint="for example '1m' or '1h'",
            code="INVALID_INTERVAL",
        )
    if query.points > kind.max_points:
        raise QueryError(
            "end",
            got=f"{query.points} points",
            expected=f"at most {kind.max_points} points of {kind.name} in one request",
            hint=f"a window of {kind.max_points * query.step} seconds at most, or a coarser interval",
            code="POINT_LIMIT_EXCEEDED",
        )


def check_selection(query: PointsQuery, kind: DataType) -> None:
    given = [name for name in _SELECTORS if getattr(query, name)]
    wanted = kind.selection
    if wanted is Selection.INSTRUMENT:
        if not query.exchange:
            _refuse("exchange", None, f"a venue; {kind.name} needs {wanted}")
        if len(given) != 1:
            _refuse(given[1] if given else "raw_symbol", given or None, f"{wanted}, for {kind.name}")
    elif wanted is Selection.OPTION_SKEW:
        for name in ("exchange", "coin", "raw_symbol", "tenor"):
            if not getattr(query, name):
                _refuse(name, None, f"a value; {kind.name} needs {wanted}")
        if len(query.exchange) > 1:
            _refuse("exchange", query.exchange, f"a single venue; {kind.name} cannot be aggregated", "UNSUPPORTED")
    elif wanted is Selection.OPTION_SUMMARY:
        if not query.exchange:
            _refuse("exchange", None, f"a venue; {kind.name} needs {wanted}")
        if not (query.coin or query.raw_symbol or query.normalized_symbol):
            _refuse("coin", None, f"{wanted}, for {kind.name}")
    elif wanted is Selection.TOKEN and not (query.token_name or query.coin):
        _refuse("token_name", None, f"{wanted}, for {kind.name}")
    elif wanted is Selection.COIN and given != ["coin"]:
        _refuse("coin", given or None, f"{kind.name} is picked by coin alone")


def check_options(query: PointsQuery, kind: DataType) -> None:
    if query.gapfill and not kind.gapfill:
        able = ", ".join(name for name, other in DATA_TYPES.items() if other.gapfill)
        _refuse("gapfill", True, f"false for {kind.name}; only {able} can be filled", "UNSUPPORTED")
    if query.quote and not kind.usd:
        _refuse("quote", str(query.quote), f"no value; {kind.name} has no denomination to convert", "UNSUPPORTED")
    if query.tenor and not kind.per_tenor:
        _refuse("tenor", str(query.tenor), f"no value; {kind.name} has no tenors", "UNSUPPORTED")
    if query.token_name and kind.selection is not Selection.TOKEN:
        _refuse("token_name", query.token_name, f"no value; {kind.name} is of markets, not of tokens", "UNSUPPORTED")


def check_group(query: PointsQuery, kind: DataType) -> None:
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
        _refuse("block_size", str(query.block_size), "no value; only profiles and heatmaps take it", "UNSUPPORTED")


def _refuse(parameter: str, got: object, expected: str, code: str | None = None) -> NoReturn:
    raise QueryError(parameter, got=got, expected=expected, code=code or CODES.get(parameter, "INVALID_PARAMS"))
