"""``tidytape fetch``, ``plan``, ``markets`` and ``usage``, the methods of the client, until one of them is used."""

from __future__ import annotations

import inspect
from importlib import import_module

import typer

from tidytape.cli._late import late_command, late_group
from tidytape.client._lists import ListMethods

fetch = typer.Typer(
    help="Fetch series as tidy frames, and lists such as that of all exchanges.",
    no_args_is_help=True,
    cls=late_group(lambda: import_module("tidytape.cli._fetch").app),
)
plan = typer.Typer(
    help="Print the requests and the weight of a fetch, without fetching.",
    no_args_is_help=True,
    cls=late_group(lambda: import_module("tidytape.cli._fetch").plans),
)


def add_list(app: typer.Typer, name: str) -> None:
    """Add the command of a method that lists what a service has; its short help begins the method's docstring."""
    first_sentence = "".join((inspect.getdoc(getattr(ListMethods, name)) or "").partition(".")[:2])
    cls = late_command(lambda: import_module("tidytape.cli._fetch").lists)
    app.command(name, cls=cls, short_help=first_sentence)(lambda: None)
