"""The order of columns of every frame: what a row is comes first, its results last, where both libraries print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from inspect import isfunction
from typing import Any

import pandas as pd
import polars as pl
import pytest

import tidytape
from analytics.matrix import some_cases
from simulated.asked import LISTS, SERIES, predicted
from simulated.everything import everything
from simulated.rollup_events import START
from tables import each_row
from tidytape import aggregate
from tidytape.catalogue import IDENTITY_FIELDS
from tidytape.lake import Lake
from tidytape.schema import RULES

WANTED: dict[str, str] = {
    "cross.consolidated": "high low close volume",
    "cross.dispersion": "lowest_exchange highest_exchange median relative_range",
    "cross.dominance": "universe_total dominance",
    "cross.market_share": "volume total share",
    "cross.oi_weighted": "open_interest rate_close",
    "cross.premium": "reference premium",
    "cross.total": "volume",
    "cross.volume_weighted": "volume vwap",
    "depth.depth_within": "mid bid_depth ask_depth",
    "depth.imbalance": "bid_depth ask_depth imbalance",
    "depth.regrid": "side price size",
    "depth.slippage": "size unfilled average_price slippage",
    "depth.walls": "side price last_timestamp size_mean",
    "flow.cvd": "delta cvd",
    "flow.delta": "buy_volume sell_volume delta",
    "flow.imbalance": "buy_volume sell_volume imbalance",
    "flow.large_trade_share": "large_volume volume large_trade_share",
    "flow.liquidation_cascades": "side count largest liquidations",
    "flow.liquidation_imbalance": "long_liquidations short_liquidations liquidation_imbalance",
    "flow.oi_price_quadrant": "price_change open_interest_change quadrant",
    "flow.vwap": "volume vwap",
    "funding.accrued": "missed payment accrued",
    "funding.annualized": "rate_close apr apy",
    "funding.basis": "days basis basis_annualized",
    "funding.carry": "long_exchange short_exchange carry apr",
    "funding.cash_and_carry": "carry carry_annualized trade",
    "funding.normalized": "rate_close",
    "funding.predicted_error": "predicted settled error",
    "funding.spread": "other_exchange other_raw_symbol spread",
    "options.atm_volatility": "forward iv_atm",
    "options.black76_price": "black76_price",
    "options.butterfly": "iv_atm bf10",
    "options.constant_maturity": "iv_25p iv_25c iv_atm",
    "options.delta_points": "iv_25p iv_25c iv_atm",
    "options.forward": "lowest highest forward",
    "options.forward_volatility": "next_days calendar_arbitrage forward_volatility",
    "options.implied_volatility": "status implied_volatility",
    "options.percentile": "implied_volatility percentile",
    "options.rank": "implied_volatility rank",
    "options.realized_volatility": "realized_volatility",
    "options.risk_reversal": "iv_atm rr25_call_minus_put",
    "options.slope": "short long slope structure",
    "options.smile": "moneyness strike implied_volatility",
    "options.surface": "days moneyness implied_volatility",
    "options.svi": "quotes rmse status",
    "options.svi_arbitrage": "butterfly_arbitrage wing_arbitrage calendar_arbitrage",
    "options.tenor_slope": "short long slope structure",
    "options.tenor_structure": "tenor days implied_volatility",
    "options.term_structure": "days implied_volatility",
    "options.volatility_risk_premium": "implied_volatility realized_volatility volatility_risk_premium",
    "options.z_score": "implied_volatility z_score",
    "pit.asof_join": "rate_right",
    "pit.known_at": "close known_at",
    "pit.leaks": "with_future without_future minutes",
    "profile.composite": "price volume",
    "profile.day_type": "balance_share close_position range_ratio day_type",
    "profile.developing": "known_at val poc vah",
    "profile.initial_balance": "is_extended_down is_extended_up initial_balance_low initial_balance_high",
    "profile.levels": "prior_poc prior_vah known_at",
    "profile.naked_pocs": "poc touched_at is_naked",
    "profile.nodes": "kind low high poc_share",
    "profile.point_of_control": "poc_count poc",
    "profile.poor_extremes": "high is_poor_high low is_poor_low",
    "profile.shape": "valley_depth second_share shape",
    "profile.single_prints": "rows low high",
    "profile.summary": "val poc vah day_type",
    "profile.tails": "end low high is_excess",
    "profile.value_area": "value_area_share val poc vah",
    "profile.with_sessions": "price volume",
    "quality.audit": "finding severity first last",
    "quality.completeness": "expected present completeness",
    "quality.gaps": "start end missing",
    "aggregate.book_at": "side price size",
    "aggregate.book_heatmap": "price size",
    "aggregate.book_of": "price size",
    "aggregate.book_runs": "price since until size",
    "aggregate.candle_profile": "price volume",
    "aggregate.candle_tpo": "price tpo_count volume",
    "aggregate.candle_tpo_sessions": "total_volume val_price poc_price vah_price",
    "aggregate.candles": "high low close volume",
    "aggregate.candles_of": "high low close volume",
    "aggregate.cme_open_interest": "price_close value_close close",
    "aggregate.funding": "predicted_close rate_close",
    "aggregate.gapfill": "high low close volume",
    "aggregate.group": "high low close volume",
    "aggregate.implied_volatility": "implied_volatility",
    "aggregate.liquidation_heatmap": "price liquidations",
    "aggregate.liquidations": "liquidations",
    "aggregate.open_interest": "open high low close",
    "aggregate.option_open_interest": "underlying_price_close oi_close",
    "aggregate.profile_of": "price buy_volume sell_volume volume",
    "aggregate.raw_trades": "price amount quote_amount",
    "aggregate.resample": "high low close volume",
    "aggregate.skew": "skew",
    "aggregate.token_supply": "usd_price marketcap marketcap_dominance_percent",
    "aggregate.tpo": "price tpo_count volume",
    "aggregate.tpo_of": "price tpo_count volume",
    "aggregate.tpo_sessions": "total_volume val_price poc_price vah_price",
    "aggregate.tpo_sessions_of": "total_volume val_price poc_price vah_price",
    "aggregate.tpo_touches": "price volume",
    "aggregate.tpo_touches_of": "price volume",
    "aggregate.volume_profile": "price buy_volume sell_volume volume",
    "client.block_sizes": "block_size",
    "client.book_heatmap": "side price size",
    "client.candles": "high low close volume",
    "client.cme_open_interest": "price_close value_close close",
    "client.describe": "type first_timestamp last_timestamp rows",
    "client.funding": "predicted_close rate_close",
    "client.implied_volatility": "tenor implied_volatility",
    "client.liquidation_heatmap": "price liquidations",
    "client.liquidations": "side liquidations",
    "client.markets": "price_change_24h volume_24h last_price",
    "client.open_interest": "open high low close",
    "client.option_open_interest": "underlying_price_close oi_close",
    "client.prediction_markets": "slug outcome total_volume last_price",
    "client.skew": "tenor skew",
    "client.token_supply": "usd_price marketcap marketcap_dominance_percent",
    "client.tpo": "price tpo_count volume",
    "client.tpo_sessions": "val_price poc_price vah_price",
    "client.trades": "side price amount quote_amount",
    "client.volume_profile": "price buy_volume sell_volume volume",
}
"""The results that a user calls a function for, the most wanted last."""

SAME_ROWS = {"pit.as_of", "pit.under_newest_name", "pit.universe", "quality.examples", "aggregate.to_usd"}
"""Functions whose result has the columns of the caller's frame, in the caller's order."""

OTHER = {"aggregate.minute_candles", "aggregate.minute_profile"}
"""Parts of other points, which no user reads."""

WITHOUT_FRAME = {"recommended_block_size"}

FIRST = ("timestamp", "exchange", "raw_symbol")
KEYS = {
    *(
        "bps",
        "price",
        "expiry",
        "finding",
        "column",
        "start",
        "first_timestamp",
        "block",
        "other_exchange",
        "other_raw_symbol",
    ),
    *(
        "realized_exchange",
        "realized_raw_symbol",
        "days",
        "token_name",
        "type",
        "slug",
        "id",
        "since",
        "since_id",
    ),
    *("block_id", "day", "row"),
}
"""Columns that are part of a key without being a name of a series."""

IDENTITY = {*FIRST, *(field.column for field in IDENTITY_FIELDS)}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return predicted(everything(tmp_path_factory.mktemp("order") / "lake"))


@pytest.fixture(scope="module")
def client(lake: Lake) -> Iterator[tidytape.Client[pl.DataFrame]]:
    with tidytape.Client.local(lake.path) as local:
        yield local


def wide(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with more columns of identity, as a client's frames have."""
    more = {name: pl.lit("W") for name in ("normalized_symbol", "category") if name not in frame.columns}
    return frame.with_columns(**more)


ANALYTICS: dict[str, Callable[[], Any]] = {
    f"{namespace}.{case.function}": lambda case=case: case.call(*map(wide, case.frames))
    for namespace, case in some_cases()
    if not case.own_kind
}


@cache
def aggregated(path: str) -> dict[str, pl.DataFrame]:
    """Return the result of every function of the namespace, from the tables of a lake."""
    tables = Lake(path)

    def of(name: str) -> pl.DataFrame:
        return tables.scan(name).collect()

    trades, hour = of("trades"), {"interval": "1h"}
    steps = {**hour, "block_size": 1}
    minutes = aggregate.minute_candles(trades), aggregate.minute_profile(trades, block_size=1)
    candles = aggregate.candles(trades, interval="1m")
    events = of("book")
    runs = aggregate.book_runs(events)
    instants = runs.select("exchange", "raw_symbol", timestamp="since").unique()
    heatmap = {"data_type": "TRADE_SIDE_AGNOSTIC_AGG"}
    quotes = of("option_quotes")
    return {
        "book_at": aggregate.book_at(runs, instants),
        "book_heatmap": aggregate.book_heatmap(events, **steps),
        "book_of": aggregate.book_of(
            aggregate.book_heatmap(events, interval="1m", block_size=1), interval="1m", block_size=1
        ),
        "book_runs": runs,
        "candle_profile": aggregate.candle_profile(candles, **steps, spreading="uniform"),
        "candle_tpo": aggregate.candle_tpo(candles, **steps),
        "candle_tpo_sessions": aggregate.candle_tpo_sessions(candles, **steps),
        "candles": candles,
        "candles_of": aggregate.candles_of(minutes[0], **hour),
        "cme_open_interest": aggregate.cme_open_interest(of("cme_open_interest"), **hour),
        "funding": aggregate.funding(of("funding"), **hour, unstated="8h"),
        "gapfill": aggregate.gapfill(candles, interval="1m", start=START, end=START + 3_600 * 10**9),
        "group": aggregate.group(candles, **heatmap),
        "implied_volatility": aggregate.implied_volatility(quotes, **hour),
        "liquidation_heatmap": aggregate.liquidation_heatmap(
            of("liquidations").with_columns(coin=pl.lit("BTC")), **steps
        ),
        "liquidations": aggregate.liquidations(of("liquidations"), **hour),
        "open_interest": aggregate.open_interest(of("open_interest"), **hour),
        "option_open_interest": aggregate.option_open_interest(quotes, **hour),
        "profile_of": aggregate.profile_of(minutes[1], **steps),
        "raw_trades": aggregate.raw_trades(trades),
        "resample": aggregate.resample(candles, **heatmap, interval="1h"),
        "skew": aggregate.skew(quotes, **hour),
        "token_supply": aggregate.token_supply(of("token_supply"), interval="1d"),
        "tpo": aggregate.tpo(trades, **steps),
        "tpo_of": aggregate.tpo_of(*minutes, **steps),
        "tpo_sessions": aggregate.tpo_sessions(trades, **steps),
        "tpo_sessions_of": aggregate.tpo_sessions_of(*minutes, **steps),
        "tpo_touches": aggregate.tpo_touches(trades, **steps),
        "tpo_touches_of": aggregate.tpo_touches_of(*minutes, **steps),
        "volume_profile": aggregate.volume_profile(trades, **steps),
    }


def polars_header(frame: pl.DataFrame) -> list[str]:
    """Return the names of the columns that polars prints; a name may be broken over several lines."""
    with pl.Config(tbl_width_chars=100):
        lines = str(frame.head(3)).splitlines()
    [*head] = (line.strip("│") for line in lines[2:] if line.startswith("│"))
    cells = [[cell.strip() for cell in line.split("┆")] for line in head]
    names = []
    for column in zip(*cells, strict=True):
        lines_of_name = column[: column.index("---")] if "---" in column else column[:1]
        names.append("".join(lines_of_name))
    return names


def pandas_header(frame: pl.DataFrame) -> list[str]:
    """Return the names of the columns that pandas prints."""
    options = ("display.width", 100, "display.max_columns", 0, "display.max_rows", 6)
    with pd.option_context(*options):
        return str(frame.head(3).to_pandas()).splitlines()[0].split()


def assert_in_order(name: str, frame: pl.DataFrame) -> None:
    """Assert that the groups of a frame are in order, and that polars and pandas print what a user came for."""
    wanted, columns = WANTED[name].split(), frame.columns
    main, rest = columns[-4:], columns[:-4]
    first = [column for column in columns if column in FIRST]
    assert first == [column for column in FIRST if column in columns] == columns[: len(first)], columns
    told = [column for column in rest if column not in KEYS]
    groups = [0 if column in IDENTITY else 1 if column in RULES else 2 for column in told]
    assert groups == sorted(groups), (name, columns)
    if len(columns) > 8:
        assert polars_header(frame) == [*columns[:4], "…", *main], name
    assert {*wanted} <= {*polars_header(frame)}, (name, columns)
    assert wanted[-1] in pandas_header(frame), (name, columns)


@pytest.mark.slow
@each_row("name", ANALYTICS)
def test_every_function_of_the_analytics_has_its_results_last(name: str) -> None:
    frame = ANALYTICS[name]()
    if name not in SAME_ROWS:
        assert_in_order(name, frame)


@pytest.mark.slow
def test_every_function_of_aggregate_has_its_results_last(lake: Lake) -> None:
    frames = aggregated(str(lake.path))
    assert {*frames} | {name.partition(".")[2] for name in SAME_ROWS | OTHER} >= {
        name
        for name in aggregate.__all__
        if isfunction(getattr(aggregate, name)) and name not in WITHOUT_FRAME
    }
    for name, frame in frames.items():
        assert_in_order(f"aggregate.{name}", frame)


@pytest.mark.slow
@each_row("name", [name for name in SERIES | LISTS if f"client.{name}" in WANTED])
def test_every_frame_of_a_client_has_its_results_last(client: Any, name: str) -> None:
    asked = SERIES[name][1] if name in SERIES else LISTS[name]
    assert_in_order(f"client.{name}", getattr(client, name)(**asked))


def test_every_function_is_in_the_table() -> None:
    assert {*ANALYTICS} - SAME_ROWS == {
        name for name in WANTED if not name.startswith(("client.", "aggregate."))
    }
