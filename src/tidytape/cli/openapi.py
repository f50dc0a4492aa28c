"""``tidytape openapi``: what the service is, for machines and for people."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["openapi"]


def openapi(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the reference page instead of the document.")
    ] = False,
    key_header: Annotated[str, typer.Option(help="Header that carries the key.")] = "X-Service-Key",
) -> None:
    """Print the OpenAPI document of the service, to generate clients from; no service need be running."""
    import orjson

    from tidytape.service.openapi import document
    from tidytape.service.openapi_page import reference_page

    described = document(key_header=key_header)
    if markdown:
        typer.echo(reference_page(described), nl=False)
    else:
        typer.echo(orjson.dumps(described, option=orjson.OPT_INDENT_2))
