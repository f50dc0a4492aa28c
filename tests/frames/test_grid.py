"""The block grid, against exact decimals."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import narwhals.stable.v2 as nw
import polars as pl
import pytest

from tables import each_row
from tidytape.errors import QueryError
from tidytape.frames._grid import Grid, exact, largest_125, recommended_block_size


def rows(engine, prices, block_size):
    grid = Grid.of(block_size)
    frame = nw.from_native(engine.frame(pl.DataFrame({"price": prices}, schema={"price": pl.Float64})))
    placed = frame.with_columns(row=grid.row(nw.col("price"))).with_columns(
        edge=grid.price(nw.col("row")), own_edge=grid.edge(nw.col("price"))
    )
    found = engine.polars(placed.to_native())
    assert found["own_edge"].to_list() == found["edge"].to_list()
    return found.drop("own_edge")


@pytest.mark.parametrize(
    ("prices", "block_size", "expected"),
    [
        ([0.3, 0.7, 0.6, 0.2999999, 0.30000001], "0.1", [3, 7, 6, 2, 3]),  # floor(0.3 / 0.1) is 2
        ([1.1, 2.2, 3.3, 4.4, 1.09], 1.1, [1, 2, 3, 4, 0]),
        ([-0.1, -0.3, -0.05, 0.0, -0.0], "0.1", [-1, -3, -1, 0, 0]),
        ([61837.63, 61838.0, 61837.99], 2, [30918, 30919, 30918]),
        ([0.00001234, 0.00001235], "0.00000001", [1234, 1235]),
        ([250.0, 249.99, 12345.0], "1E+2", [2, 2, 123]),
    ],
)
def test_rows_of_literal_prices(engine, prices, block_size, expected):
    got = rows(engine, prices, block_size)
    assert got["row"].to_list() == expected
    assert got["row"].dtype == pl.Int64
    assert got["edge"].to_list() == [float(row * exact(block_size)) for row in expected]


@pytest.mark.parametrize("size", ["0.1", "0.2", "0.3", "0.7", "0.05", "0.125", "2.5", "0.0001", "3", "50"])
def test_every_price_of_the_grid_stays_on_its_row(engine, size):
    expected = range(-2000, 20_000)
    prices = [float(row * Decimal(size)) for row in expected]
    got = rows(engine, prices, size)
    assert got["row"].to_list() == list(expected)
    assert got["edge"].to_list() == prices


def test_edges_are_told_of_prices_that_have_a_row(engine):
    frame = pl.DataFrame({"price": [0.35, None, 1e300, -1e300, 1.7e308, -0.0, 9e14, 9.1e14]})
    edges = nw.from_native(engine.frame(frame)).with_columns(edge=Grid.of("0.1").edge(nw.col("price")))
    got = engine.polars(edges.to_native())["edge"].fill_nan(None)
    assert got.to_list() == [
        *(0.3, None, None, None, None, 0.0),
        *(9e14, None),  # on either side of 2**53 rows
    ]


def test_a_null_has_no_row():
    frame = nw.from_native(pl.DataFrame({"price": [None, 1.0]}))
    assert frame.select(row=Grid.of("0.1").row(nw.col("price"))).to_native()["row"].to_list() == [None, 10]


def test_a_grid_is_one_whatever_its_size_is_written_as():
    assert {Grid.of(size).numerator for size in (0.1, "0.1", Decimal("0.10"), Decimal("1E-1"))} == {1}
    assert Grid.of("1E+3") == Grid(Decimal("1E+3"), 1000, 0)
    assert Grid.of(5) == Grid(Decimal(5), 5, 0)


@pytest.mark.parametrize("size", ["1E-30", "1E+15", "0.1234567890123456"])
def test_a_size_beyond_floats_is_refused(size):
    with pytest.raises(QueryError, match="15 digits"):
        Grid.of(size)


@each_row(
    ("limit", "expected"),
    [
        ("1", "1"),
        ("1.999", "1"),
        ("2", "2"),
        ("4.99", "2"),
        ("5", "5"),
        ("9.99", "5"),
        ("10", "10"),
        ("0.0019", "0.001"),
    ],
)
def test_largest_125(limit, expected):
    assert largest_125(limit) == Decimal(expected)


def test_recommended_block_size_is_exact_at_every_step():
    for exponent in range(-6, 5):
        for digit in (1, 2, 5):
            size = Fraction(digit) * Fraction(10) ** exponent
            price = size * 17_500  # price * 0.2 / 3500 is exactly the size
            as_decimal = Decimal(price.numerator) / Decimal(price.denominator)
            assert recommended_block_size(as_decimal) == Decimal(digit).scaleb(exponent)
            below = as_decimal * (1 - Decimal("1E-12"))
            assert recommended_block_size(below) < Decimal(digit).scaleb(exponent)


def test_recommended_block_size_is_never_below_the_tick():
    assert recommended_block_size(100, tick_size="0.01") == Decimal("0.01")
    assert recommended_block_size(100, tick_size="0.001") == Decimal("0.005")
    with pytest.raises(QueryError, match="tick_size"):
        recommended_block_size(100, tick_size=0)
