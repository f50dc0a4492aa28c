"""The queue: turns over keys, two lanes, bounds."""

from __future__ import annotations

import random
from collections import Counter

from tables import each_row
from tidytape.service.work._fair_queue import FairQueue


def filled(tasks: str, *, most: int = 100, most_of_key: int = 100) -> FairQueue[str]:
    """A queue of tasks like ``a1 b1``: capitals of keys are heavy."""
    turns: FairQueue[str] = FairQueue(most=most, most_of_key=most_of_key)
    for task in tasks.split():
        turns.add(task[0].lower(), task, heavy=task[0].isupper())
    return turns


def emptied(turns: FairQueue[str], *, heavy: bool = False) -> str:
    order = []
    while (task := turns.next(heavy=heavy)) is not None:
        order.append(task)
    return " ".join(order)


def test_keys_take_turns_and_each_keeps_its_order() -> None:
    assert emptied(filled("a1 a2 a3 a4 b1 b2 c1")) == "a1 b1 c1 a2 b2 a3 a4"


def test_a_key_that_comes_back_goes_to_the_end_of_the_round() -> None:
    turns = filled("a1 a2 b1 b2")
    assert turns.next(heavy=False) == "a1"
    turns.add("a", "a3", heavy=False)
    turns.add("c", "c1", heavy=False)
    assert emptied(turns) == "b1 a2 c1 b2 a3"


def test_light_and_heavy_tasks_wait_in_lanes_of_their_own() -> None:
    turns = filled("A1 a2 A3 B1 b2")
    assert len(turns) == 5
    assert emptied(turns, heavy=True) == "A1 B1 A3"
    assert emptied(turns) == "a2 b2"
    assert len(turns) == 0


@each_row(
    ("tasks", "most", "most_of_key", "leaves"),
    [
        ("a1 a2 b1", 3, 3, None),
        ("a1 a2 a3 b1", 3, 3, "a3"),  # the newest of the longest key, though another came later
        ("a1 b1 b2 a2", 3, 3, "a2"),  # of two as long, the one that came last
        ("a1 A2 a3 B1", 3, 3, "a3"),  # tasks of both lanes count
        ("a1 a2 A3 B1", 3, 3, "A3"),
        ("a1 a2 a3", 10, 2, "a3"),
        ("a1", 0, 10, "a1"),
        ("", 0, 0, None),
    ],
)
def test_the_newest_task_of_the_longest_key_is_one_too_many(
    tasks: str, most: int, most_of_key: int, leaves: str | None
) -> None:
    turns = filled(tasks, most=most, most_of_key=most_of_key)
    before = len(turns)
    assert turns.surplus() == leaves
    assert len(turns) == before - (leaves is not None)
    assert turns.surplus() is None


def test_a_task_that_is_dropped_is_not_given_out_and_its_key_keeps_its_turn() -> None:
    turns = filled("a1 b1 A2 a3")
    turns.drop(turns_task(turns, "a1"))
    assert emptied(turns) == "a3 b1"
    heavy = turns_task(turns, "A2")
    turns.drop(heavy)
    assert len(turns) == 0
    turns.drop(heavy)  # it is gone, and nothing happens


def turns_task(turns: FairQueue[str], name: str) -> str:
    """The very object that waits: tasks are told apart by identity."""
    return next(task for _, task in turns._waiting if task == name)


def test_no_task_is_lost_or_given_twice_and_no_key_waits_longer_than_a_round() -> None:
    rng = random.Random(3)
    turns: FairQueue[object] = FairQueue(most=20, most_of_key=8)
    inside: dict[int, tuple[str, object]] = {}
    waited: Counter[str] = Counter()
    for step in range(5_000):
        if rng.random() < 0.6:
            key, task = rng.choice("aaaabcd"), object()
            turns.add(key, task, heavy=False)
            inside[id(task)] = key, task
            if (surplus := turns.surplus()) is not None:
                del inside[id(surplus)]
        elif (given := turns.next(heavy=False)) is not None:
            key, _ = inside.pop(id(given))
            waited[key] = 0
            for other in {key for key, _ in inside.values()} - {key}:
                waited[other] += 1
                assert waited[other] <= 3, step  # there are four keys
        for key in "abcd":
            if key not in {other for other, _ in inside.values()}:
                waited[key] = 0
        assert len(turns) == len(inside) <= 20
