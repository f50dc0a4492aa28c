"""The facts about types, parameters and tiers that the page needs, from the catalogue and from the query model.

No rule stands twice. To find which options a type takes, and how its markets are selected, this module tries them on
the query model with which the service refuses queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from itertools import combinations
from typing import Any

from tidytape.budget import Tier
from tidytape.catalogue import (
    DATA_TYPES,
    DEFAULT_FUNDING_INTERVAL_MS,
    DEFAULT_TPO_BLOCK_MINUTES,
    IDENTITY_FIELDS,
    LISTS,
    POINTS_PER_WEIGHT,
    SURCHARGE_PARTS,
    TPO_BLOCK_MINUTES,
    WEIGHT_WINDOW_SECONDS,
    Category,
    DataType,
    Field,
    Interval,
    Quote,
    Selection,
    Side,
    SortDirection,
    Tenor,
    TierName,
    TPOSession,
)
from tidytape.errors import QueryError
from tidytape.query import PointsQuery, StreamQuery

_SELECTORS = ("raw_symbol", "coin", "normalized_symbol", "token_name")
_ALWAYS = ("type", "exchange", *_SELECTORS, "category", "interval", "start", "end", "sort_direction")


def facts(*, key_header: str, tiers: Mapping[str, Tier]) -> dict[str, Any]:
    """Return the facts as values for JSON; parameters and fields have their names in URLs and answers.

    Parameters
    ----------
    key_header : str
        Header that carries the key.
    tiers : mapping of str to Tier
        The tiers of the service by name.

    Returns
    -------
    dict
    """
    return {
        "keyHeader": key_header,
        "pointsPerWeight": POINTS_PER_WEIGHT,
        "surchargeParts": SURCHARGE_PARTS,
        "weightWindow": WEIGHT_WINDOW_SECONDS,
        "stepWithoutInterval": _step_without_interval(),
        "defaultFundingInterval": DEFAULT_FUNDING_INTERVAL_MS,
        "defaultTpoBlock": DEFAULT_TPO_BLOCK_MINUTES,
        "lists": dict(LISTS),
        "parameters": PointsQuery.WIRE,
        "streamParameters": StreamQuery.WIRE,
        "choices": {
            "interval": [
                {
                    "value": interval.value,
                    "label": interval.alias,
                    "seconds": interval.seconds,
                    "offset": interval.offset,
                }
                for interval in Interval
            ],
            "tenor": [{"value": tenor.value, "label": f"{tenor.days} d"} for tenor in Tenor],
            "category": _choices(Category),
            "side": _choices(Side),
            "sortDirection": [
                {"value": direction.value, "label": direction.alias} for direction in SortDirection
            ],
            "transform.normalize.quote": _choices(Quote),
            "tpoBlockSizeMinutes": [
                {"value": str(minutes), "label": f"{minutes} min"} for minutes in TPO_BLOCK_MINUTES
            ],
            "tpoSession": [{"value": session.value, "label": session.alias} for session in TPOSession],
        },
        "identity": [_field(field) for field in IDENTITY_FIELDS],
        "ranks": [rank.value for rank in TierName],
        "tiers": [_tier(tier) for tier in tiers.values()],
        "types": list(_types()),
    }


def _choices(kind: type[StrEnum]) -> list[dict[str, str]]:
    return [{"value": member.value, "label": member.value} for member in kind]


def _tier(tier: Tier) -> dict[str, Any]:
    return {
        "name": tier.name,
        "perMinute": tier.per_minute,
        "burst": tier.burst,
        "historyDays": tier.history_days,
        "aggregation": tier.aggregation,
        "rank": tier.rank.value,
    }


@cache
def _types() -> tuple[dict[str, Any], ...]:
    return tuple(_type(data_type) for data_type in DATA_TYPES.values())


def _type(data_type: DataType) -> dict[str, Any]:
    return {
        "name": data_type.name,
        "title": data_type.title,
        "multiplier": data_type.multiplier,
        "maxPoints": data_type.max_points,
        "includedDepth": data_type.included_depth,
        "tier": data_type.tier.value,
        "categories": [category.value for category in data_type.categories],
        "groupBy": None
        if data_type.group_by is None
        else {"value": data_type.group_by.value, "label": data_type.group_by.alias},
        "groupByRawSymbol": data_type.group_by_raw_symbol,
        "intervalOptional": data_type.interval_optional,
        "ways": [[PointsQuery.WIRE[name] for name in way] for way in _ways(data_type)],
        "takes": [PointsQuery.WIRE[name] for name in _used_fields(data_type)],
        "needsExchange": not _may_ask(data_type, exchange=()),
        "takesExchanges": _may_ask(data_type, exchange=("X", "Y")),
        "needsTenor": not _may_ask(data_type, tenor=None),
        "envelope": data_type.envelope,
        "fields": [_field(field) for field in data_type.fields],
        "levels": [
            {
                "name": levels.name,
                "flat": levels.flat,
                "bookSide": None if levels.book_side is None else levels.book_side.value,
                "fields": [_field(field) for field in levels.fields],
            }
            for levels in data_type.levels
        ],
    }  # fmt: skip


def _field(field: Field) -> dict[str, str]:
    return {
        "name": field.name,
        "column": field.column,
        "kind": field.kind,
        "unit": field.unit,
        "doc": field.doc,
    }


# --- asking the query model -----------------------------------------------------------------------------------------


def _is_valid(**fields: Any) -> bool:
    try:
        PointsQuery(start=0, end=60, interval=Interval.MINUTE, **fields)
    except QueryError:
        return False
    return True


def _step_without_interval() -> int:
    data_type = next(data_type for data_type in DATA_TYPES.values() if data_type.interval_optional)
    return PointsQuery(type=data_type.name, exchange="X", coin="A", start=0, end=60).step


def _may_ask(data_type: DataType, **changed: Any) -> bool:
    """Return whether a valid query of the type stays valid with some of its fields changed."""
    selectors = dict.fromkeys(_ways(data_type)[0], "A")
    return _is_valid(
        **{"type": data_type.name, "exchange": "X", "tenor": _tenor(data_type), **selectors, **changed}
    )


def _tenor(data_type: DataType) -> Tenor | None:
    return Tenor.ONE_W if data_type.per_tenor else None


@cache
def _ways(data_type: DataType) -> list[tuple[str, ...]]:
    """Return the smallest sets of selectors that make a valid query of the type."""
    ways: list[tuple[str, ...]] = []
    for size in (1, 2):
        for way in combinations(_SELECTORS, size):
            is_new = not any(set(smaller) <= set(way) for smaller in ways)
            fields = {
                "type": data_type.name,
                "exchange": "X",
                "tenor": _tenor(data_type),
                **dict.fromkeys(way, "A"),
            }
            if is_new and _is_valid(**fields):
                ways.append(way)
    return ways


def _used_fields(data_type: DataType) -> Iterator[str]:
    """Yield the fields that change something for the type, in the order of the model."""
    probes = {
        "tenor": _tenor(data_type) or Tenor.ONE_W,
        "gapfill": True,
        "quote": Quote.USD,
        "tpo_block_minutes": DEFAULT_TPO_BLOCK_MINUTES,
        "tpo_session": TPOSession.DAILY,
        "block_size": 1,
    }
    # The model accepts these fields even if they change nothing, so the catalogue decides.
    uses = {
        "side": data_type.per_side,
        "group_by": data_type.group_by is not None,
        "funding_interval": data_type.funding_interval,
        "max_depth": data_type.included_depth is not None,
        "event": data_type.selection is Selection.MARKET,
    }
    for name in PointsQuery.WIRE:
        if (
            name in _ALWAYS
            or uses.get(name)
            or (name in probes and _may_ask(data_type, **{name: probes[name]}))
        ):
            yield name
