"""Commands that are made when one of them is first used, because importing what they need takes a while."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import cache
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

Maker = Callable[[], typer.Typer]
"""Imports the module of some commands, and returns the app that has them."""


@cache
def _commands(make: Maker) -> dict[str, Any]:
    return dict(typer.main.get_group(make()).commands)


def late_group(make: Maker) -> type[TyperGroup]:
    """Return the class of a group with the commands that ``make`` makes, and after them those registered in it."""

    class LateGroup(TyperGroup):
        @property
        def commands(self) -> MutableMapping[str, Any]:
            return {**_commands(make), **self._registered}

        @commands.setter
        def commands(self, registered: MutableMapping[str, Any]) -> None:
            self._registered = registered

    return LateGroup


def late_command(make: Maker) -> type[TyperCommand]:
    """Return the class of a command that ``make`` makes when the command is first used.

    Before that, the command has only its name, its short help and its epilog, which a list of commands shows.
    """

    def late(attribute: str) -> Any:
        return property(lambda self: getattr(_commands(make)[self.name], attribute), lambda self, value: None)

    class LateCommand(TyperCommand):
        params = late("params")
        callback = late("callback")
        help = late("help")

    return LateCommand
