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


# -- what blocks say: a session is the blocks (a set) that touched each row (a whole number) ----------------------


def grid(session):
    """Return the rows from the lowest to the highest, with the number of blocks that touched each."""
    return [(row, len(session.get(row, ()))) for row in range(min(session), max(session) + 1)]


def single_runs(session):
    """Return (low, high, rows, first block, last block) of each run of rows of one block, from below."""
    runs, run = [], []
    for row, count in [*grid(session), (None, 0)]:
        if count == 1:
            run.append(row)
        elif run:
            blocks = [block for row in run for block in session[row]]
            runs.append((run[0], run[-1], len(run), min(blocks), max(blocks)))
            run = []
    return runs


def single_prints(session):
    """Return the runs inside the range."""
    return [run for run in single_runs(session) if min(session) < run[0] and run[1] < max(session)]


def tails(session):
    """Return (end, run) of the runs at the ends, the high one first."""
    runs = single_runs(session)
    high = [("high", *run) for run in runs if run[1] == max(session)]
    return high + [("low", *run) for run in runs if run[0] == min(session)]


def poor_extremes(session, *, min_excess_rows=2):
    """Return (high, low, blocks of both, tails of both, poor of both, excess of both)."""
    rows = grid(session)

    def tail(rows):
        length = 0
        for _, count in rows:
            if count != 1:
                break
            length += 1
        return length

    high, low = tail(rows[::-1]), tail(rows)
    return (
        *(rows[-1][0], rows[0][0], rows[-1][1], rows[0][1], high, low),
        *(rows[-1][1] >= 2, rows[0][1] >= 2, high >= min_excess_rows, low >= min_excess_rows),
    )


def initial_balance(session, *, minutes=60, block_minutes=30):
    """Return (high, low, extended up, extended down) of the blocks that start early, None without any."""
    early = [row for row, blocks in session.items() if any(b * block_minutes < minutes for b in blocks)]
    if not early:
        return None, None, None, None
    late = [row for row, blocks in session.items() if any(b * block_minutes >= minutes for b in blocks)]
    return max(early), min(early), any(r > max(early) for r in late), any(r < min(early) for r in late)


def developing(session, **rules):
    """Return (block, poc, val, vah, share) at the close of each block, each from a profile of its own."""
    blocks = {block for of_row in session.values() for block in of_row}
    found = []
    for closed in range(min(blocks), max(blocks) + 1):
        levels = [(row, sum(b <= closed for b in of_row)) for row, of_row in session.items()]
        *prices, share = value_area([level for level in levels if level[1]], row_size=1, **rules)
        found.append((closed, *prices, round(share, 12)))
    return found


def nodes(counts, *, within):
    """Return (kind, first, last row) of the plateaus that nothing within some rows exceeds, or falls below."""
    found, start = [], 0
    for end in range(len(counts)):
        if end + 1 < len(counts) and counts[end + 1] == counts[start]:
            continue
        below = counts[max(start - within, 0) : start]
        above = counts[end + 1 : end + 1 + within]
        if (below or above) and max(below + above) <= counts[start]:
            found.append(("hvn", start, end))
        if below and above and min(below + above) >= counts[start]:
            found.append(("lvn", start, end))
        start = end + 1
    return found


def touched_by(sessions):
    """Return, of (poc, low, high) in the order of time, the number of the first later session that touched each poc."""
    found = []
    for number, (poc, _, _) in enumerate(sessions):
        later = [n for n, (_, low, high) in enumerate(sessions) if n > number and low <= poc <= high]
        found.append(min(later, default=None))
    return found


def shape(counts, *, min_second):
    """Return (position of the poc, of the mean, valley depth, share behind it) of counts on a grid, as fractions."""
    counts, last = [exact(count) for count in counts], len(counts) - 1
    total, poc = sum(counts), _point_of_control(list(range(len(counts))), counts, "center")
    mean = sum(row * count for row, count in enumerate(counts)) / total
    cuts = []
    for row in range(len(counts)):
        if row == poc:
            continue
        outward, inner = (counts[row:], row - 1) if row > poc else (counts[: row + 1], row + 1)
        if max(outward) and sum(outward) >= exact(min_second) * total:
            cuts.append((counts[inner] / max(outward), -sum(outward) / total))
    depth, share = min(cuts, default=(None, None))
    positions = (Fraction(poc, last), mean / last) if last else (None, None)
    return *positions, depth, None if share is None else -share
