"""spec.md, "Capabilities": every cell of the table, and what the cells name."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import AVERAGE, FUNDING_GROUP, GROUP, SKEW, SUM, TPO, USD, of
from conformance.lake import HOUR
from tables import each_row

# type, USD, the way of multi-exchange aggregation, gapfill
TABLE: list[tuple[str, bool, str | None, bool]] = [
    ("TRADE_SIDE_AGNOSTIC_AGG", True, SUM, True),
    ("TRADE_AGG", True, SUM, True),
    ("OPEN_INTEREST_AGG", True, SUM, False),
    ("FUNDING_RATE_AGG", False, AVERAGE, False),
    ("LIQUIDATION_AGG", True, SUM, False),
    ("VOLUME_PROFILE_AGG", True, SUM, False),
    ("TPO_AGG", True, SUM, False),
    ("BLOCK_BOOK_SNAPSHOT_AGG", True, SUM, False),
    ("SKEW_OPTION_SUMMARY_AGG", False, None, False),
]
NAMES = [row[0] for row in TABLE]


def group_of(name: str, way: str | None) -> dict[str, Any]:
    coin = "TPO" if name == "TPO_AGG" else "BTC"
    return {**GROUP, "type": name, "coin": coin, "interval": "HOUR", "transform_groupBy_type": way}


@pytest.mark.parametrize(("name", "able"), [(row[0], row[1]) for row in TABLE], ids=NAMES)
def test_usd(service: Any, name: str, able: bool) -> None:  # noqa: FBT001 - a cell of the table
    if (
        able or name == "FUNDING_RATE_AGG"
    ):  # "No (rates already normalized)": it is accepted and changes nothing
        assert service.points(**of(name, **USD)).status_code == 200
    else:
        assert service.refused(**of(name, **USD)) == (400, "UNSUPPORTED")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), [(row[0], row[2]) for row in TABLE], ids=NAMES)
def test_multi_exchange_aggregation(service: Any, name: str, way: str | None) -> None:
    if way is None:
        asked = {**SKEW, "exchange": ["OPTIONS", "ALPHA"], "transform_groupBy_type": SUM}
        assert service.refused(**asked) == (400, "UNSUPPORTED")
        return
    series = service.series(**group_of(name, way))
    assert len(series) == (2 if name in {"TRADE_AGG", "LIQUIDATION_AGG"} else 1)
    assert all("exchange" not in one["id"] for one in series)


@each_row(("name", "way"), [(row[0], row[2]) for row in TABLE])
def test_multi_exchange_aggregation_of_the_other_type_is_unsupported(
    service: Any, name: str, way: str | None
) -> None:
    other = SUM if way == AVERAGE else AVERAGE
    asked = {**SKEW, "transform_groupBy_type": SUM} if way is None else group_of(name, other)
    assert service.refused(**asked) == (400, "UNSUPPORTED")


@pytest.mark.parametrize(("name", "able"), [(row[0], row[3]) for row in TABLE], ids=NAMES)
def test_gapfill(service: Any, name: str, able: bool) -> None:  # noqa: FBT001 - a cell of the table
    if able:
        assert service.points(**of(name, gapfill="true")).status_code == 200
    else:
        assert service.refused(**of(name, gapfill="true")) == (400, "UNSUPPORTED")


@pytest.mark.parametrize("name", ["TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "TPO_AGG"])
def test_with_coin_not_with_a_raw_symbol(service: Any, name: str) -> None:
    """Their cell, or their text, says "with `coin`"."""
    asked = {**group_of(name, SUM), "coin": None, "rawSymbol": ["BTCUSDT", "BTC-PERP"]}
    assert service.refused(**asked) == (400, "INVALID_SYMBOL")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["OPEN_INTEREST_AGG", "LIQUIDATION_AGG", "VOLUME_PROFILE_AGG"])
def test_with_a_raw_symbol_where_the_cell_does_not_say_with_coin(service: Any, name: str) -> None:
    asked = {**group_of(name, SUM), "coin": None, "rawSymbol": ["BTCUSDT_PERP", "BTC-PERP"]}
    assert service.series(**asked)


@pytest.mark.slow
def test_volume_profile_sums_volume_per_price_level(service: Any) -> None:
    # In rows of 1, the coarser of the two grids. In USD: 96 is 2 bought, 98 is 1 sold, 99 is 4 bought, 102 is 1 sold;
    # 100 is 1 of 100, a quarter of 100.5 and 3 of 100 bought, half of 100.5 sold; 101 is 2 of 101.5 sold.
    (point,) = service.payloads(**{**GROUP, "type": "VOLUME_PROFILE_AGG", "interval": "HOUR", "period": HOUR})
    assert point["profile"] == [
        96.0, 192.0, 0.0, 98.0, 0.0, 98.0, 99.0, 396.0, 0.0, 100.0, 425.125, 50.25, 101.0, 0.0, 203.0,
        102.0, 0.0, 102.0,
    ]  # fmt: skip


@pytest.mark.slow
def test_book_combines_depth(service: Any) -> None:
    # ALPHA has 1 at 100, 2 at 99.75, 4 at 99 and 3 at 100.5, 5 at 101.25; BETA 10 at 99, 20 at 98 and 10 at 101.
    first = service.payloads(**{**GROUP, "type": "BLOCK_BOOK_SNAPSHOT_AGG"})[0]
    assert first["bids"] == [100.0, 100.0, 99.0, 2 * 99.75 + 4 * 99.0 + 10 * 99.0, 98.0, 20 * 98.0]
    assert first["asks"] == [100.0, 3 * 100.5, 101.0, 5 * 101.25 + 10 * 101.0]


@pytest.mark.slow
def test_tpo_unites_blocks(service: Any) -> None:
    asked = {
        **TPO,
        "exchange": ["ALPHA", "BETA"],
        "rawSymbol": None,
        "coin": "TPO",
        "transform_groupBy_type": SUM,
    }
    (profile,) = service.payloads(**asked)
    # BETA bought 2 at 13 in the first half hour.
    assert [level["tpo_count"] for level in profile["levels"]] == [1, 4, 10, 5, 1]
    assert profile["levels"][3]["buy_volume"] == 2 * 13.0
    assert profile["total_volume"] == 240.0 + 26.0


def test_funding_is_weighted(service: Any) -> None:
    first, second = service.payloads(**FUNDING_GROUP)
    # Open interest at the close of the minute: 6 coins at 96 on ALPHA, 10 at 100 on BETA. BETA's 0.0001 is of an hour.
    assert first["rateClose"] == pytest.approx((0.0003 * 576 + 0.0008 * 1_000) / 1_576, rel=1e-12)
    assert second["rateClose"] == pytest.approx(0.0016, rel=1e-12)  # ALPHA reported no rate
