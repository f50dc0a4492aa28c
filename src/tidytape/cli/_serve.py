"""``tidytape serve``: answer the API over a lake."""

from __future__ import annotations

from pathlib import Path
from socket import socket
from types import FrameType
from typing import Annotated

import typer


def serve(
    lake: Annotated[str, typer.Option(help="The lake to answer from: a folder or an object-store address.")],
    keys: Annotated[Path, typer.Option(help="File of keys; see 'tidytape keys new'.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    grpc_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port for gRPC; needs tidytape[grpc]. By default there is no gRPC.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of threads for small answers, and of processes for others; by default one per processor, "
            "2 to 4.",
        ),
    ] = None,
    waiting: Annotated[
        int, typer.Option(min=0, help="Queries that may wait for a thread, and for a process; more get 503.")
    ] = 256,
    waiting_of_key: Annotated[
        int, typer.Option(min=0, help="Queries of one key that may wait; more get 503.")
    ] = 64,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.1, help="Longest time for one answer, once it has begun; longer ones get 504. [s]"
        ),
    ] = 30.0,
    memory: Annotated[int, typer.Option(min=512, help="Memory that one process may allocate. [MiB]")] = 4096,
    tiers: Annotated[
        Path | None, typer.Option(help="TOML file of tiers; by default the three built-in tiers.")
    ] = None,
    buckets: Annotated[
        str | None,
        typer.Option(
            envvar="TIDYTAPE_BUCKETS",
            show_envvar=True,
            help="Redis in which replicas share the budgets of keys: redis://host:6379/0. If it has a password, use "
            "the environment variable. By default budgets are in this process.",
        ),
    ] = None,
    buckets_prefix: Annotated[str, typer.Option(help="Prefix of the names in Redis.")] = "tidytape:",
    key_header: Annotated[str, typer.Option(help="Header that carries the key.")] = "X-Service-Key",
    token_secret: Annotated[
        Path | None,
        typer.Option(
            help="File of the secret that signs the resume tokens of streams; made if there is none. By default in the "
            "folder of the file of keys. Replicas need the same one."
        ),
    ] = None,
    supervise: Annotated[
        bool,
        typer.Option(help="Run the service in a process of its own, and start it again if a crash ends it."),
    ] = False,
) -> None:
    """Answer the API over HTTP, and with --grpc-port over gRPC, until interrupted.

    The service prints one line of JSON per request to standard output.
    """
    import faulthandler
    import logging
    import signal
    import sys
    import threading
    import time
    from contextlib import suppress

    import uvicorn

    from tidytape.cli._supervise import supervised
    from tidytape.errors import LakeError
    from tidytape.lake import Lake
    from tidytape.lake._object_store import impatient
    from tidytape.service import KeyFile, Processes, RedisBuckets, create_app, tiers_of
    from tidytape.service.answer._engine import Engine
    from tidytape.service.answer._inventory import out_of_history
    from tidytape.service.http._connection import LISTENING, require_free
    from tidytape.service.stream._tokens import token_secret as read_secret
    from tidytape.service.work._desks import SmallDesks, SmallFirst

    # Of options that stand twice, the last counts. A port that was 0 stays the same when the service starts again.
    options = ["--no-supervise", f"--port={require_free(host, port)}"]
    if grpc_port is not None:
        options.append(f"--grpc-port={require_free(host, grpc_port, parameter='grpc_port')}")
    if supervise:
        raise typer.Exit(supervised([sys.executable, "-P", "-m", "tidytape", *sys.argv[1:], *options]))
    allowed = tiers_of(tiers)
    known = KeyFile(keys, tiers=allowed)
    in_force = known.all()  # a service without a readable file of keys must not start
    # A caller is told within seconds that an object store does not answer.
    opened = Lake(lake, storage_options=impatient(None) if "://" in lake else None)
    faulthandler.enable()  # a crash of a library says where each thread was
    lines = logging.StreamHandler(sys.stdout)
    lines.setFormatter(logging.Formatter("%(message)s"))
    access = logging.getLogger("tidytape.access")
    access.addHandler(lines)
    access.setLevel(logging.INFO)
    shared = RedisBuckets(buckets, prefix=buckets_prefix) if buckets else None
    with suppress(LakeError):  # /readyz reports a lake that cannot be read
        for warning in out_of_history(opened, in_force, allowed, now=time.time()):
            typer.echo(f"warning: {warning}", err=True)
    queue = {"waiting": waiting, "waiting_of_key": waiting_of_key}
    processes = Processes(opened, workers=workers, seconds=seconds, memory=memory << 20, **queue)
    small = SmallDesks(
        Engine(opened, limits=processes.limits), desks=processes.workers, seconds=seconds, **queue
    )
    computing = SmallFirst(small, processes)
    app = create_app(
        opened,
        known,
        key_header=key_header,
        tiers=allowed,
        computing=computing,
        buckets=shared,
        token_secret=read_secret(token_secret or keys.with_name(f"{keys.name}.tokens")),
        grpc_address=None if grpc_port is None else _address(host, grpc_port),
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket] | None = None) -> None:
            """Say where gRPC is answered."""
            await super().startup(sockets)
            if grpc_port is not None and self.started:
                typer.echo(f"gRPC is answered on {_address(host, app.state.grpc_port)}", err=True)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Refuse the queries that wait, so that the service ends once it has answered those that it computes."""
            # In a thread of its own: the interrupted thread may hold the lock that draining needs.
            threading.Thread(target=computing.drain).start()
            app.state.streams.close()
            super().handle_exit(sig, frame)

    # uvicorn raises the signal again when it has finished; the process must still run the `finally` below.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        computing.get_ready()
        Server(uvicorn.Config(app, host=host, port=port, **LISTENING)).run()
    finally:
        computing.close()


def _address(host: str, port: int) -> str:
    """Return a host and a port as one word; an IPv6 address, which has colons itself, stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
