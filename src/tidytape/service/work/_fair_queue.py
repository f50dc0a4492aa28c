"""The bounded queue of tasks that wait for a worker: two lanes, in which keys take turns. No threads, no clock."""

from __future__ import annotations

from collections import Counter
from typing import Generic, TypeVar

T = TypeVar("T")
_Turn = tuple[bool, str]  # whether it is of the lane of heavy tasks, and the key


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
        self._waiting: list[tuple[_Turn, T]] = []  # in the order they were added
        self._turns: dict[_Turn, None] = {}  # in the order of the turns

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str, task: T, *, heavy: bool) -> None:
        """Add a task of a key to a lane."""
        self._waiting.append(((heavy, key), task))
        self._turns.setdefault((heavy, key))

    def next(self, *, heavy: bool) -> T | None:
        """Remove and return the next task of a lane; None if the lane is empty."""
        turn = next(((lane, key) for lane, key in self._turns if lane is heavy), None)
        if turn is None:
            return None
        oldest = next(place for place, (other, _) in enumerate(self._waiting) if other == turn)
        task = self._removed(oldest)
        if turn in self._turns:
            self._turns[turn] = self._turns.pop(turn)  # the key goes to the end of the round
        return task

    def drop(self, task: T) -> None:
        """Remove a task whose caller has hung up, if it still waits."""
        for place, (_, other) in enumerate(self._waiting):
            if other is task:
                self._removed(place)
                return

    def surplus(self) -> T | None:
        """Remove and return a task beyond the bounds: the newest of the key with the most tasks; None if all fit."""
        counts = Counter(key for (_, key), _ in self._waiting)
        newest = {key: place for place, ((_, key), _) in enumerate(self._waiting)}
        longest = max(counts, key=lambda key: (counts[key], newest[key]), default="")
        if counts[longest] <= self._most_of_key and counts.total() <= self.most:
            return None
        return self._removed(newest[longest])

    def _removed(self, place: int) -> T:
        """Remove and return a task; the other tasks of its key keep their turn."""
        turn, task = self._waiting.pop(place)
        if all(other != turn for other, _ in self._waiting):
            del self._turns[turn]
        return task
