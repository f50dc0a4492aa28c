"""The last fact known, found by looking at every fact for every decision."""

from __future__ import annotations


def asof_join(decisions, facts, tolerance=None):
    """Return for each (key, at) the number of its fact among (key, timestamp, known at), None without one."""
    answers = []
    for key, at in decisions:
        best = None
        for number, (of, timestamp, known_at) in enumerate(facts):
            if of != key or at is None or known_at is None or known_at > at:
                continue
            if best is None or (known_at, timestamp) > (facts[best][2], facts[best][1]):
                best = number
        if best is not None and tolerance is not None and at - facts[best][2] > tolerance:
            best = None
        answers.append(best)
    return answers
