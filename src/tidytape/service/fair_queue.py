"""The bounded queue of tasks that wait for a worker: two lanes, in which keys take turns. No threads, no clock."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Waiting tasks of many keys.

    Light and heavy tasks wait in separate lanes. In each lane the keys take turns, one task at a time, the oldest
    task of the key first. So a key with many tasks delays another key by one task, not by all of them.

    Parameters
    ----------
    most : int
        How many tasks may wait.
    most_of_key : int
        How many tasks of one key may wait.

    Attributes
    ----------
    most : int
        How many tasks may wait; `surplus` follows a change of it.

    Examples
    --------
    >>> turns = FairQueue(most=10, most_of_key=10)
    >>> for key, task in [("a", "a1"), ("a", "a2"), ("b", "b1")]:
    ...     turns.add(key, task, heavy=False)
    >>> [turns.next(heavy=False) for _ in range(4)]
    ['a1', 'b1', 'a2', None]
    """

    def __init__(self, *, most: int, most_of_key: int) -> None:
        self.most = most
        self._most_of_key = most_of_key
        self._added = 0
        # By lane: the keys in the order of their turns, each with its tasks, numbered in the order they were added.
        self._lanes: dict[bool, dict[str, deque[tuple[int, T]]]] = {False: {}, True: {}}

    def __len__(self) -> int:
        return sum(len(tasks) for _, tasks in self._all())

    def add(self, key: str, task: T, *, heavy: bool) -> None:
        """Add a task of a key to a lane."""
        self._added += 1
        self._lanes[heavy].setdefault(key, deque()).append((self._added, task))

    def next(self, *, heavy: bool) -> T | None:
        """Remove and return the next task of a lane; None if the lane is empty."""
        lane = self._lanes[heavy]
        if not lane:
            return None
        key = next(iter(lane))
        tasks = lane.pop(key)
        _, task = tasks.popleft()
        if tasks:
            lane[key] = tasks  # the key goes to the end of the round
        return task

    def drop(self, task: T) -> None:
        """Remove a task whose caller has hung up, if it still waits."""
        for lane in self._lanes.values():
            for key, tasks in lane.items():
                kept = deque(one for one in tasks if one[1] is not task)
                if len(kept) < len(tasks):
                    self._put(lane, key, kept)
                    return

    def surplus(self) -> T | None:
        """Remove and return a task beyond the bounds: the newest of the key with the most tasks; None if all fit."""
        counts: Counter[str] = Counter()
        newest: dict[str, int] = {}
        for key, tasks in self._all():
            counts[key] += len(tasks)
            newest[key] = max(newest.get(key, 0), tasks[-1][0])
        if not counts:
            return None
        longest = max(counts, key=lambda key: (counts[key], newest[key]))
        if counts[longest] <= self._most_of_key and counts.total() <= self.most:
            return None
        for lane in self._lanes.values():
            tasks = lane.get(longest, deque())
            if tasks and tasks[-1][0] == newest[longest]:
                _, task = tasks.pop()
                self._put(lane, longest, tasks)
                return task
        raise AssertionError("the newest task of a key is in one of the lanes")  # pragma: no cover

    def _all(self) -> Iterator[tuple[str, deque[tuple[int, T]]]]:
        for lane in self._lanes.values():
            yield from lane.items()

    @staticmethod
    def _put(lane: dict[str, deque[tuple[int, T]]], key: str, tasks: deque[tuple[int, T]]) -> None:
        """Replace the tasks of a key, which keeps its turn."""
        if tasks:
            lane[key] = tasks
        else:
            lane.pop(key)
