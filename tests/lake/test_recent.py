"""Values in memory: those asked for longest ago go first, and all keep within the bound, whatever threads do."""

from __future__ import annotations

import threading

from tidytape.lake._recent import Recent


def test_the_value_that_was_asked_for_longest_ago_goes_first() -> None:
    kept = Recent[int, str](20_000)
    kept.put(1, "first", size=8_000)
    kept.put(2, "second", size=8_000)
    assert kept.get(1) == "first"
    kept.put(3, "third", size=8_000)
    assert kept.get(2) is None
    assert kept.get(1) == "first"
    assert kept.size == 2 * 9_024


def test_a_value_larger_than_the_bound_is_not_kept_and_pushes_nothing_out() -> None:
    kept = Recent[int, str](20_000)
    kept.put(1, "first", size=8_000)
    kept.put(2, "large", size=19_000)
    assert (kept.get(1), kept.get(2), kept.size) == ("first", None, 9_024)


def test_a_value_that_is_put_again_counts_once() -> None:
    kept = Recent[int, str](20_000)
    kept.put(1, "first", size=8_000)
    kept.put(1, "again", size=8_000)
    assert (kept.get(1), kept.size) == ("first", 9_024)


def test_threads_keep_within_the_bound() -> None:
    kept, seen = Recent[tuple[int, int], bytes](100_000), []

    def work(number: int) -> None:
        for one in range(200):
            value = bytes(80 * (1 + one % 150))
            kept.put((number % 3, one), value, size=len(value))
            found = kept.get((number % 3, one))
            assert found is None or len(found) == len(value)
            seen.append(kept.size)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 6 * 200
    assert max(seen) <= 100_000 + 80 * 150 + 1_024  # a value is counted before others go
    assert kept.size == sum(size for _, size in kept._values.values()) <= 100_000


def test_values_of_no_size_do_not_add_up_without_end() -> None:
    kept = Recent[int, None](10_000)
    for number in range(1_000):
        kept.put(number, None, size=0)
    assert len(kept._values) == 9
