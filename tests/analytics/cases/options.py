"""A day and a half of three chains: ties, nulls, bad quotes, an expiry that is past, two coins."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import product

import polars as pl

from analytics.cases import options_summaries
from analytics.matrix import Case
from tidytape.analytics import options

NOW = datetime(2026, 3, 5, 8, tzinfo=UTC)
_SIDES = {"CALL": -0.1, "PUT": 0.1}


def _quotes() -> pl.DataFrame:
    rows = []
    for coin, hour, days in product(["BTC", "ETH"], [0, 12], [-1, 7, 28, 56, 140]):
        if coin == "ETH" and days == 7:
            continue
        forward = {"BTC": 70_000.0, "ETH": 2_000.0}[coin] * (1 + days / 2_000 + hour / 1_000)
        time, expiry = NOW + timedelta(hours=hour), NOW + timedelta(days=days)
        for strike, kind in product(range(50, 160, 10), _SIDES):
            moneyness = strike / 100 - 1
            volatility = 60 - 0.01 * days + 40 * moneyness**2 - 12 * moneyness + _SIDES[kind]
            price = (
                max((1 if kind == "CALL" else -1) * (forward - strike / 100 * forward), 0) / forward + 0.05
            )
            rows.append(
                ("DERIBIT", coin, time, expiry, kind, strike * forward / 100, volatility, forward, price)
            )
    names = ["exchange", "coin", "timestamp", "expiry", "option_type", "strike"]
    return pl.DataFrame(
        rows, schema=[*names, "implied_volatility", "forward", "mark_price"], orient="row"
    ).cast({"timestamp": pl.Datetime("us", "UTC"), "expiry": pl.Datetime("us", "UTC")})


_row = pl.int_range(pl.len())
CHAIN = (
    _quotes()
    .with_columns(
        implied_volatility=pl.when(_row % 13 != 0).then(pl.col("implied_volatility")),
        forward=pl.when(_row % 31 == 0).then(0.0).otherwise(pl.col("forward")),
        mark_price=pl.when(_row % 17 != 0).then(pl.col("mark_price")),
        coin=pl.when(pl.col("coin") != "ETH").then(pl.col("coin")),
    )
    .sample(fraction=1, shuffle=True, seed=1)
)
SMILE = ["exchange", "coin", "timestamp", "expiry"]
LEVEL = ["exchange", "coin", "timestamp", "days"]

NUMBERED = CHAIN.with_row_index("row").with_columns(
    mark_price=pl.when(pl.col("row") % 7 == 0)
    .then(0.9)
    .when(pl.col("row") % 7 == 1)
    .then(0.0)
    .otherwise("mark_price")
)
LOOP = "A search or a fit is a loop, which SQL cannot say; rows are not taken out of the engine unasked."
LOOPS = {"duckdb": LOOP, "spark": LOOP}

POINTS = options.delta_points(CHAIN, deltas=(25, 10))
CONSTANT = options.constant_maturity(POINTS, days=[14, 30, 60, 365])
STRUCTURE = options.term_structure(CONSTANT)

CASES = [
    Case("black76_price", options.black76_price, [NUMBERED], ["row"]),
    Case(
        "black76_price",
        lambda chain: options.black76_price(chain, premium="quote"),
        [NUMBERED],
        ["row"],
        label="in quote",
    ),
    Case("implied_volatility", options.implied_volatility, [NUMBERED], ["row"], gaps=LOOPS),
    Case("forward", options.forward, [CHAIN], SMILE),
    Case("forward", lambda chain: options.forward(chain, method="parity"), [CHAIN], SMILE, label="parity"),
    Case(
        "forward",
        lambda chain: options.forward(chain, method="parity", premium="quote"),
        [CHAIN],
        SMILE,
        label="parity in quote",
    ),
    Case("atm_volatility", options.atm_volatility, [CHAIN], SMILE),
    Case(
        "atm_volatility",
        lambda chain: options.atm_volatility(chain, atm="delta_neutral", by="coin"),
        [CHAIN],
        SMILE[1:],
        label="delta neutral",
    ),
    Case("delta_points", lambda chain: options.delta_points(chain, deltas=(25, 10)), [CHAIN], SMILE),
    Case(
        "delta_points",
        lambda chain: options.delta_points(chain, delta="premium_adjusted", atm="delta_neutral"),
        [CHAIN],
        SMILE,
        label="premium adjusted",
    ),
    Case("risk_reversal", options.risk_reversal, [POINTS], SMILE),
    Case("butterfly", lambda points: options.butterfly(points, delta=10), [POINTS], SMILE),
    Case(
        "constant_maturity",
        lambda points: options.constant_maturity(points, days=[14, 28.0, 30, 365]),
        [POINTS],
        LEVEL,
    ),
    Case("term_structure", options.term_structure, [POINTS], LEVEL),
    Case(
        "term_structure",
        lambda points: options.term_structure(
            points, value="skew", at=date(2026, 3, 5) + timedelta(days=1), by=("exchange", "coin")
        ),
        [POINTS],
        LEVEL,
        label="of skew at a time",
    ),
    Case("slope", lambda structure: options.slope(structure, short=14, long="2m"), [STRUCTURE], LEVEL[:-1]),
    Case("forward_volatility", options.forward_volatility, [STRUCTURE], LEVEL),
]

FITS = options.svi(CHAIN)
GRID = [*LEVEL, "moneyness"]
CASES += [
    Case("svi", options.svi, [CHAIN], SMILE, gaps=LOOPS),
    Case(
        "svi",
        lambda chain: options.svi(chain, weights="equal"),
        [CHAIN],
        SMILE,
        gaps=LOOPS,
        label="all alike",
    ),
    Case("svi_arbitrage", options.svi_arbitrage, [FITS], LEVEL, gaps=LOOPS),
    Case(
        "svi_arbitrage",
        lambda fits: options.svi_arbitrage(fits, wings=False, by="coin"),
        [FITS.filter(exchange="DERIBIT")],
        LEVEL,
        gaps=LOOPS,
        label="where quoted",
    ),
    Case("smile", lambda fits: options.smile(fits, steps=4), [FITS], [*SMILE, "moneyness"]),
    Case(
        "smile",
        lambda fits: options.smile(fits, moneyness=[-0.9, 0, 0.1, 0.9], wings=True),
        [FITS],
        [*SMILE, "moneyness"],
        label="at given places",
    ),
    Case(
        "surface",
        lambda fits: options.surface(fits, days=[7, 14, 30, 365], moneyness=[-0.9, 0, 0.1]),
        [FITS],
        GRID,
    ),
]
CASES += options_summaries.CASES
