"""A process that was forked after polars or a lake had run: every client and lake says so at once, and none hangs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.slow,
]

CHILD = """
def says_spawn(work):
    try:
        work()
    except tidytape.ForkError as error:
        return "spawn" in str(error) and isinstance(error, RuntimeError)
    return False

def in_a_fork(*works):
    child = os.fork()
    if not child:
        wrong = [number for number, work in enumerate(works) if not says_spawn(work)]
        if wrong:
            print(wrong, file=sys.stderr)
        os._exit(len(wrong))
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, 9)
    raise SystemExit("hangs")

def new():
    return tidytape.Client("http://127.0.0.1:1", "k", attempts=1)

def asynchronous():
    return tidytape.AsyncClient("http://127.0.0.1:1", "k", attempts=1)
"""

AFTER_A_FETCH = (
    "import asyncio, os, sys, tempfile, time, tidytape\nfrom tidytape.lake import Lake\n"
    + CHILD
    + """
day = dict(exchange="DEMO_SPOT", coin="BTC", interval="1h", start="2024-08-07", end="2024-08-08")
folder = tempfile.mkdtemp()
before, before_async, demo = new(), asynchronous(), tidytape.Client.demo()
with demo.record(f"{folder}/a.tape"):
    assert demo.candles(**day).height == 24
lake = demo._transport.lake
replay = tidytape.Client.replay(f"{folder}/a.tape")

def forks_again():
    assert in_a_fork(new, before.coins) == 0
    raise tidytape.ForkError

assert in_a_fork(
    lambda: before.coins(), lambda: asyncio.run(before_async.coins()), lambda: demo.candles(**day),
    lambda: demo.events("trades", exchange="DEMO_SPOT"), lambda: replay.candles(**day),
    lambda: next(iter(before.stream("TRADE", exchange="X", coin="BTC"))),
    new, asynchronous, tidytape.Client.demo, tidytape.AsyncClient.demo, lambda: tidytape.Client.local(lake.path),
    lambda: tidytape.Client.replay(f"{folder}/a.tape"), lambda: Lake(lake.path), lambda: lake.scan("trades"),
    lambda: lake.markets(), lambda: lake.now(), lambda: Lake.create(f"{folder}/new"), forks_again,
) == 0
assert demo.candles(**day).height == 24  # the parent goes on
"""
)

AFTER_POLARS_ALONE = (
    "import os, sys, time, tidytape\n"
    + CHILD
    + """
import polars as pl
pl.DataFrame({"a": [2, 1]}).lazy().sort("a").collect()
assert in_a_fork(new, asynchronous) == 0
"""
)

WITHOUT_A_RUN = """
import os, tidytape, polars
before = tidytape.Client("http://127.0.0.1:1", "k", attempts=1)
child = os.fork()
if not child:
    tidytape.Client("http://127.0.0.1:1", "k", attempts=1)
    try:
        before.coins()
    except tidytape.TransportError:
        with tidytape.Client.demo() as client:
            os._exit(client.candles(exchange="DEMO_SPOT", coin="BTC", interval="1d", limit=1, end="2024-08-08").height)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
"""


@pytest.mark.parametrize("program", [AFTER_A_FETCH, AFTER_POLARS_ALONE])
def test_a_forked_process_says_spawn_at_once(program: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not list their threads")
def test_a_child_of_a_parent_that_ran_nothing_of_polars_works() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT_A_RUN], check=True, timeout=60)
