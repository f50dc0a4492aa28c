"""Points of control and value areas as the books tell them: one loop, exact fractions.

Load with ``runpy.run_path``, for tests are no package.
"""

from __future__ import annotations

from fractions import Fraction


def value_area(levels, *, share=0.7, rule="two_row", tie="up", stop="reach", poc_tie="center", row_size=None):
    """Return (poc, val, vah, share enclosed) of (price, count) pairs, all None without a count."""
    rows = {}
    for price, count in levels:
        rows[exact(price)] = rows.get(exact(price), 0) + exact(count)
    if row_size is not None:
        step, price = exact(row_size), min(rows)
        while price < max(rows):
            rows.setdefault(price, 0)
            price += step
    prices = sorted(rows)
    counts = [rows[price] for price in prices]
    total, target = sum(counts), exact(share) * sum(counts)
    if not total:
        return None, None, None, None

    poc = low = high = _point_of_control(prices, counts, poc_tie)
    enclosed = counts[poc]
    width = {"one_row": 1, "two_row": 2}[rule]
    while enclosed < target or (stop == "exceed" and enclosed == target):
        above, below = counts[high + 1 : high + 1 + width], counts[max(low - width, 0) : low]
        if not above and not below:
            break
        if not below or (above and (sum(above), tie == "up") > (sum(below), tie == "down")):
            enclosed, high = enclosed + sum(above), high + len(above)
        else:
            enclosed, low = enclosed + sum(below), low - len(below)
    return float(prices[poc]), float(prices[low]), float(prices[high]), float(enclosed / total)


def _point_of_control(prices, counts, tie):
    largest = [row for row, count in enumerate(counts) if count == max(counts)]
    if tie == "lower":
        return largest[0]
    if tie == "upper":
        return largest[-1]
    middle = (prices[0] + prices[-1]) / 2
    return min(largest, key=lambda row: (abs(prices[row] - middle), prices[row]))


def exact(number):
    """Return the decimal that a number's shortest spelling says: 0.1 is a tenth."""
    return Fraction(str(number))
