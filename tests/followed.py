"""Logs of trades, and what two lakes must have in common that were filled in different ways."""

from __future__ import annotations

import threading
from collections.abc import Callable

from polars.testing import assert_frame_equal

from tidytape.lake import TABLES, Lake
from tidytape.lake.ingest import Market

HEAD = "timestamp,price,amount,side,id\n"
SAID = Market(exchange="X", raw_symbol="BTC-USD")


class Steps(threading.Event):
    """A stop that makes the next step whenever the follower has nothing to do, and is set after the last one."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__()
        self._steps = list(steps)

    def wait(self, timeout: float | None = None) -> bool:
        if self._steps:
            self._steps.pop(0)()
        else:
            self.set()
        return self.is_set()


def trades(*ids: int) -> str:
    return "".join(f"{1_693_929_600 + number},100,1,buy,{number}\n" for number in ids)


def ids(lake: Lake) -> list[int]:
    return sorted(int(name) for name in lake.scan("trades").collect()["id"])


def require_same(lake: Lake, whole: Lake) -> None:
    """The same rows in the same order; only the numbers of the order may differ."""
    for name, table in TABLES.items():
        rows, expected = (
            one.markets() if name == "markets" else one.scan(name).collect().sort(table.order)
            for one in (lake, whole)
        )
        columns = [column for column in rows.columns if column != "sequence"]
        by = [column for column in columns if column in table.order]
        if table.tells_states or name == "markets":
            rows, expected = (frame.sort(columns) for frame in (rows, expected))
        if "sequence" in rows.columns:
            numbers = [*by, "sequence"]
            assert rows.select(numbers).n_unique() == expected.select(numbers).n_unique(), name
        assert_frame_equal(rows.select(columns), expected.select(columns))
