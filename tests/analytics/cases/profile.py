"""Profiles of three days: ties, a row without a count, one day without any; and of five sessions in blocks."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from analytics.matrix import Case
from analytics.touching import DAY, levels_of, lists_of, touches_of
from tidytape import Session
from tidytape.analytics import profile

_COUNTS = {"a": [1, 4, 10, 4, 1], "b": [0, 6, 0, 0, 10, 2, 1], "c": [2, 2]}
LEVELS = pl.DataFrame(
    [(day, float(row), float(count)) for day, counts in _COUNTS.items() for row, count in enumerate(counts)],
    schema=["day", "price", "volume"],
    orient="row",
).sample(fraction=1, shuffle=True, seed=1)

_NEXT = DAY + timedelta(days=1)
BLOCKS = {
    ("BTCUSDT", DAY): {
        10.0: [0],
        10.5: [0, 1],
        11.0: [1, 2, 3],
        11.5: [2],
        12.0: [2, 3],
        12.5: [3],
        13.0: [3],
    },
    ("BTCUSDT", _NEXT): {10.5: [0, 1], 11.0: [1, 0], 11.5: [0, 2], 13.0: [2], 13.5: [2, 3, 4], 14.0: [4]},
    ("BTCUSDT", DAY + timedelta(days=2)): {20.0: [0, 5], 20.5: [5]},
    (None, DAY): {100.0: [1], 100.5: [1], 102.0: [4], 103.0: []},
    (None, _NEXT): {100.0: [0, 1], 100.5: [0, 1], None: [1]},
}  # ties, a row that nothing touched, rows that are missing, a null of each kind
TOUCHES, LISTS, COUNTED = (
    make(BLOCKS).sample(fraction=1, shuffle=True, seed=2) for make in (touches_of, lists_of, levels_of)
)
_SERIES = ["exchange", "raw_symbol", "timestamp"]
_ENDED = LISTS.with_columns(
    interval=pl.lit("HOUR"),
    period_end=pl.when(pl.col("price") < 100).then(pl.col("timestamp") + timedelta(days=1)),
)  # sessions with an end, and without one
_SESSIONS = (
    _ENDED.filter(pl.col("timestamp") != _NEXT)
    .select(*_SERIES, "period_end", "block_size_minutes")
    .unique(_SERIES, keep="first", maintain_order=True)
)  # not of all levels

_OPEN = DAY + timedelta(hours=13, minutes=30)
CANDLES = pl.DataFrame(
    [
        (symbol, _OPEN + timedelta(days=day, minutes=30 * half_hour), low * size, (low + 2) * size, volume)
        for symbol, size in [("BTCUSDT", 1.0), (None, 10.0)]
        for day, half_hour, low, volume in [
            (0, -3, 98, 2.0),
            (0, 0, 100, 4.0),
            (0, 1, 101, 9.0),
            (0, 12, 103, 1.0),
            (0, 20, 99, 3.0),
            (1, 0, 104, 5.0),
            (1, 3, 107, 8.0),
            (2, -1, 90, 1.0),
            (5, 4, 100, 2.0 if symbol else None),
            (6, 0, 103, 1.0),
        ]
    ],
    schema=["raw_symbol", "timestamp", "low", "high", "volume"],
    orient="row",
).select(
    pl.all(), pl.lit("30m").alias("interval"), pl.lit("COIN").alias("amount_unit"), close=pl.col("low") + 1.0
)  # nights, a day that did not trade, a weekend, a volume that is not known
_COLLECT = dict.fromkeys(("duckdb", "spark"), "the levels of a session are those of the one before")
_STOCKS = Session("09:30", "16:00", zone="America/New_York")

CASES = [
    Case("point_of_control", lambda levels: profile.point_of_control(levels, by="day"), [LEVELS], ["day"]),
    Case("value_area", lambda levels: profile.value_area(levels, by="day"), [LEVELS], ["day"]),
    Case(
        "value_area",
        lambda levels: profile.value_area(
            levels, by="day", rule="one_row", tie="down", stop="exceed", row_size=1
        ),
        [LEVELS],
        ["day"],
        label="one row, down, exceed",
    ),
    Case(
        "value_area",
        lambda levels: profile.value_area(levels, row_size=0.5),
        [LISTS],
        _SERIES,
        label="of names",
    ),
    *(
        Case(
            "initial_balance",
            lambda levels: profile.initial_balance(levels, block_minutes=30),
            [frame],
            _SERIES,
            label=label,
        )
        for label, frame in [("of touches", TOUCHES), ("of lists", LISTS), ("of numbers", COUNTED)]
    ),
    *(
        Case(
            "single_prints",
            lambda levels: profile.single_prints(
                levels, row_size=0.5, now="2024-08-09T02:15:00Z", block_minutes=30
            ),
            [frame],
            [*_SERIES, "low"],
            label=label,
        )
        for label, frame in [("of touches", TOUCHES), ("of lists", LISTS), ("of numbers", COUNTED)]
    ),
    Case("tails", profile.tails, [LISTS], [*_SERIES, "end"]),
    Case("poor_extremes", lambda levels: profile.poor_extremes(levels, min_excess_rows=1), [LISTS], _SERIES),
    Case(
        "poor_extremes",
        lambda levels: profile.poor_extremes(levels, row_size=0.5, now="2024-08-09T02:15:00Z"),
        [COUNTED],
        _SERIES,
        label="in progress",
    ),
    *(
        Case(
            "developing",
            lambda levels: profile.developing(levels, row_size=0.5, block_minutes=30),
            [frame],
            [*_SERIES, "block"],
            label=label,
        )
        for label, frame in [("of touches", TOUCHES), ("of lists", LISTS)]
    ),
    Case(
        "developing",
        lambda levels: profile.developing(
            levels, count="volume", now="2024-08-09T01:00:00Z", block_minutes=30, rule="one_row"
        ),
        [TOUCHES],
        [*_SERIES, "block"],
        label="of volumes",
    ),
    Case("naked_pocs", profile.naked_pocs, [LISTS], _SERIES),
    Case(
        "levels",
        lambda candles: profile.levels(candles, session=_STOCKS, block_size=0.5, spreading="uniform"),
        [CANDLES.sample(fraction=1, shuffle=True, seed=3)],
        ["raw_symbol", "timestamp"],
        gaps=_COLLECT,
    ),
    Case(
        "levels",
        lambda candles: profile.levels(
            candles,
            session=Session("18:00", "17:00", zone="America/New_York"),
            regular=_STOCKS,
            at="open",
            block_size=1,
            spreading="close",
        ),
        [CANDLES],
        ["raw_symbol", "timestamp"],
        gaps=_COLLECT,
        label="of regular hours",
    ),
    Case(
        "naked_pocs",
        lambda levels: profile.naked_pocs(levels, by="exchange", row_size=1, count="tpo_count"),
        [COUNTED],
        ["exchange", "timestamp"],
        label="on a grid",
    ),
    *(
        Case(
            "value_area",
            lambda levels: profile.value_area(levels, count="tpo_count", row_size=1),
            [levels],
            _SERIES,
            label=label,
        )
        for levels, label in (
            (LISTS.with_columns(tpo_count=pl.col("block_ids").list.len().cast(pl.Int64)), "of listed blocks"),
            (COUNTED, "of blocks that are not listed"),
        )
    ),
    Case(
        "value_area",
        lambda levels: profile.value_area(levels, count="tpo_count", row_size=1),
        [TOUCHES],
        _SERIES,
        label="of counted touches",
    ),
    Case(
        "point_of_control",
        lambda levels: profile.point_of_control(levels, count="tpo_count"),
        [TOUCHES],
        _SERIES,
        label="of counted touches",
    ),
    Case("nodes", profile.nodes, [LISTS], [*_SERIES, "low"]),
    Case(
        "nodes",
        lambda levels: profile.nodes(levels, count="tpo_count", within=1, row_size=0.5),
        [COUNTED],
        [*_SERIES, "low"],
        label="on a grid",
    ),
    Case(
        "composite",
        lambda levels: profile.composite(levels, row_size=1),
        [LISTS],
        ["exchange", "raw_symbol", "price"],
    ),
    Case(
        "composite",
        lambda levels: profile.composite(levels, by="exchange", row_size=0.5, count=["tpo_count", "volume"]),
        [COUNTED],
        ["exchange", "price"],
        label="of two counts",
    ),
    Case(
        "composite",
        lambda levels: profile.composite(levels, row_size=1),
        [_ENDED.drop("block_ids", "block_size_minutes")],
        ["exchange", "raw_symbol", "price"],
        label="with an end",
    ),
    Case(
        "composite",
        lambda levels: profile.composite(levels, row_size=1),
        [_ENDED.drop("block_ids", "block_size_minutes", "period_end")],
        ["exchange", "raw_symbol", "price"],
        label="with an interval",
    ),
    Case("shape", lambda levels: profile.shape(levels, by="day"), [LEVELS], ["day"]),
    Case(
        "shape",
        lambda levels: profile.shape(levels, count="tpo_count", row_size=0.5, min_second=0.1),
        [COUNTED],
        _SERIES,
        label="on a grid",
    ),
    *(
        Case(
            "day_type",
            lambda levels: profile.day_type(levels, lookback=1, row_size=0.5, block_minutes=30),
            [frame],
            _SERIES,
            label=label,
        )
        for label, frame in [("of touches", TOUCHES), ("of lists", LISTS), ("of numbers", COUNTED)]
    ),
    *(
        Case(
            "summary",
            lambda levels: profile.summary(
                levels, lookback=1, row_size=0.5, block_minutes=30, thresholds={"min_second": 0.1}
            ),
            [frame],
            _SERIES,
            label=label,
        )
        for label, frame in [("of touches", TOUCHES), ("of lists", LISTS), ("of numbers", COUNTED)]
    ),
    *(
        Case(function.__name__, function, [_ENDED], [*_SERIES, "period_end", *more], label="with an end")
        for function, *more in [
            (profile.value_area,),
            (profile.naked_pocs,),
            (profile.tails, "end"),
            (profile.developing, "block"),
            (profile.day_type,),
            (profile.summary,),
        ]
    ),
    Case("summary", profile.summary, [LISTS.drop("block_ids")], _SERIES, label="of volumes"),
    Case(
        "with_sessions",
        profile.with_sessions,
        [TOUCHES, _SESSIONS],
        [*_SERIES, "price", "block_id"],
        sorts=False,
    ),
]
