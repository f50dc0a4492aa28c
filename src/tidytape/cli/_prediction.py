"""``tidytape ingest polymarket-gamma``: put reports of prediction markets into a lake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidytape.cli._output import Json, put_json


def polymarket_gamma(
    files: Annotated[list[Path], typer.Argument(help="Files, plain or gzipped.")],
    lake: Annotated[str, typer.Option("--lake", help="The lake; made if there is none.")],
    exchange: Annotated[str, typer.Option(help="Exchange of the files.")] = "POLYMARKET",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave broken objects out instead of failing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Prediction markets: what an exchange says of them, as JSON, and the markets of their outcomes."""
    from tidytape.lake import Lake
    from tidytape.lake.ingest._prediction import ingest_prediction_markets

    report = ingest_prediction_markets(files, Lake.create(lake), exchange=exchange, skip_bad=skip_bad)
    put_json(report) if as_json else typer.echo(str(report))
