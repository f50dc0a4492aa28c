"""The block grid: prices to integer multiples of the block size, decided on exact decimals.

A row of the grid is one price step: row k holds prices from k block sizes up to the next row. A price on the grid stays
on its row: with a block size of 0.1, 0.3 is row 3, although ``floor(0.3 / 0.1)`` is 2.

The block size is written as ``numerator / 10**places``, both exact. The row of a price is first estimated by
``round(price * 10**places / numerator)``, which is the right row or the one above it. The grid price of that estimate,
``row * numerator / 10**places``, is one correctly rounded division of exact numbers, so it is exactly the float that
the grid's decimal is read as. Two decimals of up to 15 digits never share a float, and rounding keeps order: comparing
the two floats compares the two decimals.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from numbers import Real

import narwhals.stable.v2 as nw

from tidytape.errors import QueryError


def exact(value: Decimal | float | str, parameter: str = "block_size") -> Decimal:
    """Return a positive finite number as a Decimal, exactly as it is written.

    Parameters
    ----------
    value : Decimal, int, float or str
        A float means the shortest decimal that is read as this float: 0.1 is one tenth.
    parameter : str
        Name of the argument, for the message of an error.

    Returns
    -------
    Decimal

    Raises
    ------
    QueryError
        If ``value`` is not a positive finite number.

    Examples
    --------
    >>> exact(0.1), exact("2.50")
    (Decimal('0.1'), Decimal('2.50'))
    """
    try:
        # `str` gives the shortest decimal, for numbers of numpy too. A boolean becomes a word, which Decimal refuses.
        number = Decimal(str(value)) if isinstance(value, Real | Decimal | str) else Decimal("NaN")
    except (InvalidOperation, ValueError):
        number = Decimal("NaN")
    if not (number.is_finite() and number > 0):
        raise QueryError(parameter, got=value, expected="a positive finite number")
    return number


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of one block size.

    Attributes
    ----------
    size : Decimal
        Height of a row. [quote per coin]
    numerator, places : int
        The same, as ``numerator / 10**places``.

    Examples
    --------
    >>> import polars as pl
    >>> grid = Grid.of("0.1")
    >>> frame = nw.from_native(pl.DataFrame({"price": [0.3, 0.39, -0.05]}))
    >>> frame.select(row=grid.row(nw.col("price"))).to_native()["row"].to_list()
    [3, 3, -1]
    """

    size: Decimal
    numerator: int
    places: int

    @classmethod
    def of(cls, block_size: Decimal | float | str) -> Grid:
        """Return the grid of a block size.

        Parameters
        ----------
        block_size : Decimal, int, float or str, > 0
            Height of a row, read as the decimal it prints as. [quote per coin]

        Returns
        -------
        Grid

        Raises
        ------
        QueryError
            If the block size is not a positive finite number, or has more than 15 significant digits or 22 decimal
            places, beyond which floats no longer tell decimals apart.

        Examples
        --------
        >>> Grid.of(2.5)
        Grid(size=Decimal('2.5'), numerator=25, places=1)
        """
        size = exact(block_size)
        if -22 <= size.adjusted() < 15:  # int would write out all zeros of 1e999999
            # Functions such as `normalize` and `scaleb` would round to the precision of the decimal context.
            places = max(0, -int(size.as_tuple().exponent))
            numerator = int(size * 10**places)
            while places and numerator % 10 == 0:
                numerator, places = numerator // 10, places - 1
            if numerator < 10**15 and places <= 22:
                return cls(size, numerator, places)
        raise QueryError("block_size", got=block_size, expected="at most 15 digits and 22 decimal places")

    @property
    def furthest(self) -> float:
        """The price 2**53 rows above zero, beyond which floats cannot tell one row from the next. [quote per coin]"""
        return float(2**53 * self.numerator / 10**self.places)

    def row(self, price: nw.Expr) -> nw.Expr:
        """Return the row that a price lies in: the largest integer whose grid price is not above the price.

        Parameters
        ----------
        price : expression, float64, finite and of a magnitude of at most `furthest`
            The row is exact if the price and the edges of its row have at most 15 significant digits. [quote per coin]

        Returns
        -------
        expression, int64
        """
        estimate = self._estimate(price)
        return estimate.cast(nw.Int64()) - (self.price(estimate) > price).cast(nw.Int64())

    def edge(self, price: nw.Expr) -> nw.Expr:
        """Return the low edge of the row that a price lies in, null if the price has no row.

        A price has no row if it is null, not finite, or further from zero than `furthest`.

        Parameters
        ----------
        price : expression, float64
            The edge is exact under the same condition as in `row`. [quote per coin]

        Returns
        -------
        expression, float64
            [quote per coin]
        """
        estimate = self._estimate(price)
        is_above = self.price(estimate) > price
        edge = nw.when(is_above).then(self.price(estimate - 1.0)).otherwise(self.price(estimate))
        return nw.when(price.abs() <= self.furthest).then(edge)

    def _estimate(self, price: nw.Expr) -> nw.Expr:
        """Return the row that a price lies in, or the row above, as a float."""
        # Engines disagree on how to round halves; the estimate may be either row.
        return (price * float(10**self.places) / float(self.numerator)).round(0)

    def price(self, row: nw.Expr) -> nw.Expr:
        """Return the low edge of a row.

        Parameters
        ----------
        row : expression, int64, or a whole number as float64
            The row.

        Returns
        -------
        expression, float64
            [quote per coin]
        """
        return quotient(row.cast(nw.Float64()) * float(self.numerator), 10**self.places)


def quotient(numerator: nw.Expr, denominator: int) -> nw.Expr:
    """Return the float closest to a quotient of whole numbers, e.g. 0.3 for 3 and 10."""
    if denominator == 1:
        return numerator
    # Divide by a column: for a constant polars multiplies by the rounded reciprocal, and 3 * 0.1 is not 3 / 10.
    return numerator / (numerator * 0.0 + float(denominator))


def largest_125(limit: Decimal | float | str) -> Decimal:
    """Return the largest number of the series …, 0.1, 0.2, 0.5, 1, 2, 5, 10, … that is not above a limit.

    Parameters
    ----------
    limit : Decimal, int, float or str, > 0
        The limit, read as the decimal it prints as.

    Returns
    -------
    Decimal

    Raises
    ------
    QueryError
        If the limit is not a positive finite number.

    Examples
    --------
    >>> largest_125("3.5"), largest_125(0.2), largest_125(99)
    (Decimal('2'), Decimal('0.2'), Decimal('50'))
    """
    bound = exact(limit, "limit")
    exponent = bound.adjusted()
    digit = next(digit for digit in (5, 2, 1) if Decimal(digit).scaleb(exponent) <= bound)
    # `scaleb` keeps one digit here, so nothing is rounded. Above 1 the product gives 50, where `scaleb` would give
    # 5E+1.
    return Decimal(digit).scaleb(exponent) if exponent < 0 else Decimal(digit * 10**exponent)


def recommended_block_size(
    price: Decimal | float | str, *, tick_size: Decimal | float | str | None = None
) -> Decimal:
    """Return the block size recommended at a price: the largest 1-2-5 number not above ``price * 0.2 / 3500``.

    Parameters
    ----------
    price : Decimal, int, float or str, > 0
        Price of the market. [quote per coin]
    tick_size : Decimal, int, float or str, > 0, optional
        Smallest price step: the block size is never below it. [quote per coin]

    Returns
    -------
    Decimal
        [quote per coin]

    Raises
    ------
    QueryError
        If a number is not positive and finite.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> recommended_block_size("61837.63")
    Decimal('2')
    >>> recommended_block_size(17500)
    Decimal('1')
    >>> recommended_block_size("0.5", tick_size="0.0001")
    Decimal('0.0001')
    """
    # 0.2 / 3500 has no finite decimal, so compare b * 35000 <= p * 2 instead of b <= p * 0.2 / 3500.
    bound = exact(price, "price") * 2
    size = largest_125(bound / 35_000)
    if size * 35_000 > bound:
        size = largest_125(size * Decimal("0.999"))
    return size if tick_size is None else max(size, exact(tick_size, "tick_size"))
