"""``tidytape openapi``: a description of the service, for programs."""

from __future__ import annotations

from typing import Annotated

import typer


def openapi(
    key_header: Annotated[str, typer.Option(help="Header that carries the key.")] = "X-Service-Key",
) -> None:
    """Print the OpenAPI document of the service, to generate clients from; no service need be running."""
    import orjson

    from tidytape.service.http._openapi import document

    typer.echo(orjson.dumps(document(key_header=key_header), option=orjson.OPT_INDENT_2))
