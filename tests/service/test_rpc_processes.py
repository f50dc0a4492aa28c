"""gRPC between processes: a client of the definition alone, a notebook that forks, a service without the extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from lakes import demo_lake
from tidytape import service
from tidytape.service import KeyFile

pytestmark = pytest.mark.slow
DEFINITION = Path(service.__file__).parent / "proto" / "market_data.proto"

PLAIN = """
import sys
from grpc_tools import protoc

folder, definition, address, key = sys.argv[1:]
assert protoc.main(["", f"-I{definition.rpartition('/')[0]}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                    definition]) == 0
sys.path.insert(0, folder)
import grpc
import market_data_pb2 as pb
import market_data_pb2_grpc as rpc

options = [("grpc.max_receive_message_length", -1)]
with grpc.insecure_channel(address, options) as channel:
    service, metadata = rpc.MarketDataStub(channel), [("x-service-key", key)]
    request = pb.PointRequest(type=["TRADE_AGG"], exchange=["DEMO_SPOT"], rawSymbol=["BTCUSDT"], interval=pb.HOUR,
                              period=86400, **{"from": 1723075200})
    answer = service.GetPoints(request, metadata=metadata)
    assert {pb.Side.Name(series.id.side) for series in answer.series} == {"BUY", "SELL"}
    assert all(len(series.points) == 24 for series in answer.series)
    assert all(point.trade_agg.volume > 0 for series in answer.series for point in series.points)
    assert "BTC" in service.GetCoins(pb.PointMetaRequest(), metadata=metadata).coins
    assert service.GetUsage(pb.UsageRequest(), metadata=metadata).used == 1
    assert service.GetMarkets(pb.MarketRequest(pageSize=1), metadata=metadata).symbols[0].rawSymbol
    request.period = 3600
    *_, last = service.StreamPoints(request, metadata=metadata, timeout=60)
    assert last.end.code == "PERIOD_OVER" and last.token
    try:
        service.GetPoints(request, metadata=[("x-service-key", "guess")])
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert dict(error.trailing_metadata())["error-code"] == "INVALID_API_KEY"
assert not any(name.startswith("tidytape") for name in sys.modules)
print("done")
"""


@pytest.fixture
def key(tmp_path: Path) -> str:
    demo_lake(tmp_path / "lake")
    return KeyFile(tmp_path / "keys.json").new("enterprise")[1]


@pytest.fixture
def address(tmp_path: Path, key: str) -> Iterator[str]:
    """``tidytape serve`` with worker processes, over gRPC."""
    program = "from tidytape.cli import main; main()"
    words = [
        "serve",
        "--lake",
        "lake",
        "--keys",
        "keys.json",
        "--port",
        "0",
        "--grpc-port",
        "0",
        "--workers",
        "2",
    ]
    log = tmp_path / "log"
    with (
        log.open("wb") as written,
        subprocess.Popen(
            [sys.executable, "-c", program, *words], cwd=tmp_path, stdout=written, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            while not (found := re.search(r"gRPC is answered on (\S+)", log.read_text())):
                assert process.poll() is None, log.read_text()
                time.sleep(0.02)
            yield found[1]
        finally:
            process.terminate()
            assert process.wait(30) in {0, -15}
    text = log.read_text()
    # A worker that is still starting when the service ends may complain of its pipe.
    assert not re.search(r"request \w+ failed", text)
    assert key not in text
    assert '"method":"gRPC"' in text


def test_a_client_of_the_definition_alone(tmp_path: Path, address: str, key: str) -> None:
    (tmp_path / "made").mkdir()
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", PLAIN, str(tmp_path / "made"), str(DEFINITION), address, key]
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "done\n", done.stderr


CELLS = [
    """
import tidytape, grpc, sys
from tidytape.lake import Lake
from tidytape.service import KeyFile, Processes, create_app
lake = Lake("lake")
computing = Processes(lake, workers=1)
app = create_app(lake, KeyFile("keys.json"), computing=computing, grpc_address="127.0.0.1:0")
running = app.router.lifespan_context(app)
await running.__aenter__()
""",
    """
from tidytape.service.proto import market_data_pb2 as pb
channel = grpc.aio.insecure_channel(f"127.0.0.1:{app.state.grpc_port}")
method = "/tidytape.v1.MarketData/GetPoints"
ask = channel.unary_unary(method, pb.PointRequest.SerializeToString, pb.PointResponse.FromString)
def points(name):
    request = pb.PointRequest(type=[name], exchange=["DEMO_SPOT"], rawSymbol=["BTCUSDT"], interval="HOUR", period=86400,
                              **{"from": 1723075200})
    return ask(request, metadata=[("x-service-key", KEY)], timeout=60)
print(len((await points("TRADE_AGG")).series))
""",
    "!ls",
    """
import os, subprocess
print(len((await points("VOLUME_PROFILE_AGG")).series))
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
subprocess.run(["true"], check=True)
worker = computing._desks[0]._process
worker.kill()
worker.wait()  # the next worker is started while gRPC is in use
print(len((await points("TPO_AGG")).series))
""",
    """
await channel.close()
await running.__aexit__(None, None, None)
computing.close()
""",
]


@pytest.mark.long
def test_a_notebook_serves_forks_and_goes_on(tmp_path: Path, key: str) -> None:
    cells = [nbformat.v4.new_code_cell(f"KEY = {key!r}"), *map(nbformat.v4.new_code_cell, CELLS)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    said = ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]
    assert "2" in said[2]
    assert "keys.json" in said[3]
    assert said[4].splitlines()[0] == "1"
    assert said[4].splitlines()[-1] == "1"


@pytest.mark.long
def test_without_the_extra_the_error_names_it(tmp_path: Path, key: str) -> None:
    program = "import sys; sys.modules['grpc'] = None; from tidytape.cli import main; main()"
    words = ["serve", "--lake", "lake", "--keys", "keys.json", "--port", "0", "--grpc-port", "0"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "pip install 'tidytape[grpc]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_of_grpc_is_loaded_before_it_is_served() -> None:
    program = """
import sys
import tidytape
from tidytape.service import Processes, create_app
import tidytape.client, tidytape.cli, tidytape.service.work._worker, tidytape.service.http._app
assert not {"grpc", "google.protobuf"} & set(sys.modules), sorted(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
