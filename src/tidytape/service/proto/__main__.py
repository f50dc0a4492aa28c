"""Generate ``market_data_pb2`` from ``market_data.proto``: ``python -m tidytape.service.proto``.

With ``--check`` the command writes nothing; it fails if the files differ from those that it would write.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

COMPILER = "1.76.0"
"""The release of grpcio-tools whose protoc is used.

It generates classes for protobuf 6.31. They run on that and later releases, up to those of the next major version, 7.
"""

_HERE = Path(__file__).parent
_SOURCE = "tidytape/service/proto/market_data.proto"


def generated() -> dict[Path, bytes]:
    """Return the content that each file should have.

    Raises
    ------
    SystemExit
        If this release of grpcio-tools is not installed, or the definition is not valid.
    """
    try:
        installed_version = version("grpcio-tools")
    except PackageNotFoundError:
        installed_version = "none"
    if installed_version != COMPILER:
        raise SystemExit(
            f"grpcio-tools: got {installed_version}, expected {COMPILER}; pip install grpcio-tools=={COMPILER}"
        )
    from grpc_tools import protoc

    root = _HERE.parents[2]
    with TemporaryDirectory() as folder:
        status = protoc.main(
            ["protoc", f"--proto_path={root}", f"--python_out={folder}", f"--pyi_out={folder}", _SOURCE]
        )
        if status:
            raise SystemExit(status)
        return {_HERE / path.name: path.read_bytes() for path in Path(folder).rglob("*_pb2.py*")}


def main() -> None:
    """Write the files, or check them."""
    for path, content in generated().items():
        if "--check" not in sys.argv[1:]:
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            raise SystemExit(f"{path.name} is stale; 'python -m tidytape.service.proto' writes it")


if __name__ == "__main__":
    main()
