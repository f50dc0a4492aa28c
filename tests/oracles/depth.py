"""Depth in plain loops, over (timestamp, side, price, size) rows of one series."""

from __future__ import annotations

from fractions import Fraction
from math import floor, gcd, lcm, nan


def exact(number):
    """Return the decimal that a number's shortest spelling says."""
    return Fraction(str(number))


def matrix(rows, *, block_size=None, step=None):
    """Return (bids, asks, times, prices), each side a list of lines; cells NaN outside what was sent of a time."""
    if block_size is None:
        prices = sorted({exact(price) for _, _, price, _ in rows})
        below = lcm(*(price.denominator for price in prices))
        steps = [int((price - prices[0]) * below) for price in prices]
        block, origin = Fraction(gcd(*steps) or 1, below), prices[0]
    else:
        block, origin = exact(block_size), Fraction(0)
    placed = [(time, side, floor((exact(price) - origin) / block), size) for time, side, price, size in rows]
    low, high = min(row for _, _, row, _ in placed), max(row for _, _, row, _ in placed)
    seen = sorted({time for time, *_ in rows})
    times = seen if step is None else list(range(seen[0], seen[-1] + 1, step))
    sides = {"BID": [], "ASK": []}
    for time in times:
        sent = [row for at, _, row, _ in placed if at == time]
        for side, lines in sides.items():
            line = []
            for row in range(low, high + 1):
                inside = bool(sent) and min(sent) <= row <= max(sent)
                here = [size for at, of, at_row, size in placed if (at, of, at_row) == (time, side, row)]
                line.append(sum(here) if inside else nan)
            lines.append(line)
    return sides["BID"], sides["ASK"], times, [float(origin + block * row) for row in range(low, high + 1)]


def books(rows):
    """Return {time: {side: {price: size}}}, sizes of one price added."""
    found = {}
    for time, side, price, size in rows:
        levels = found.setdefault(time, {"BID": {}, "ASK": {}})[side]
        levels[exact(price)] = levels.get(exact(price), 0) + exact(size)
    return found


def mid_of(book):
    """Return the price between the best bid and the best ask, None without one of them."""
    bids = [price for price, size in book["BID"].items() if size > 0]
    asks = [price for price, size in book["ASK"].items() if size > 0]
    return (max(bids) + min(asks)) / 2 if bids and asks else None


def depth_within(rows, bps):
    """Return {time: (bid depth, ask depth, whether bids and asks reach so far, and cross)}, Nones without a mid."""
    answers = {}
    for time, book in books(rows).items():
        mid = mid_of(book)
        if mid is None:
            answers[time] = (None,) * 5
            continue
        low, high = mid * (1 - exact(bps) / 10_000), mid * (1 + exact(bps) / 10_000)
        answers[time] = (
            sum(size for price, size in book["BID"].items() if price >= low),
            sum(size for price, size in book["ASK"].items() if price <= high),
            any(price <= low for price in book["BID"]),
            any(price >= high for price in book["ASK"]),
            any(
                q and p > price for p, q in book["BID"].items() for price, size in book["ASK"].items() if size
            ),
        )
    return answers


def slippage(rows, wanted, *, amount="coin"):
    """Return {(time, BUY or SELL): (filled, average price, worst price, slippage)}, Nones beyond the book."""
    answers = {}
    for time, book in books(rows).items():
        mid = mid_of(book)
        for side, levels in (
            ("BUY", sorted(book["ASK"].items())),
            ("SELL", sorted(book["BID"].items())[::-1]),
        ):
            left, coins, cash, worst = exact(wanted), 0, 0, None
            for price, size in levels:
                take = min(left, size)
                if take > 0:
                    coins += take if amount == "coin" else take / price
                    cash += take * price if amount == "coin" else take
                    left, worst = left - take, price
            if left:
                answers[time, side] = (exact(wanted) - left, None, None, None)
            else:
                average = cash / coins
                # The whole size trades in the one block that both sides share: nobody knows how far from the mid.
                is_inside = mid is not None and worst == mid == min(p for p, q in book["ASK"].items() if q)
                is_unknown = mid is None or is_inside
                cost = None if is_unknown else (average / mid - 1) * 10_000 * (1 if side == "BUY" else -1)
                answers[time, side] = (exact(wanted), average, worst, cost)
    return answers


def walls(rows, threshold, snapshots, max_gap=None):
    """Return every wall, sorted.

    (first time, side, price, last time, snapshots, smallest, largest, whether its start is known, and its end).
    """
    found = books(rows)
    times = sorted(found)
    answers = []

    def is_far(time, other):
        return max_gap is not None and abs(time - other) > max_gap

    def shows(place, side, price, neighbour):
        if not 0 <= place < len(times) or is_far(times[place], neighbour):
            return False
        prices = [at for time, of, at, _ in rows if (time, of) == (times[place], side)]
        return any(at <= price if side == "BID" else at >= price for at in map(exact, prices))

    for side, price in sorted({(side, exact(price)) for _, side, price, _ in rows}):
        run = []
        for before, time in zip([None, *times], [*times, None], strict=True):
            size = None if time is None else found[time][side].get(price)
            is_cut = time is not None and before is not None and is_far(before, time)
            if run and (size is None or size < threshold or is_cut):
                if len(run) >= snapshots:
                    sizes = [size for _, size in run]
                    first, last = run[0][0], run[-1][0]
                    starts = shows(times.index(first) - 1, side, price, first)
                    ends = shows(times.index(last) + 1, side, price, last)
                    answers.append((first, side, price, last, len(run), min(sizes), max(sizes), starts, ends))
                run = []
            if size is not None and size >= threshold:
                run.append((time, size))
    return sorted(answers)
