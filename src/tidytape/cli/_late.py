"""Commands that are made at their first use, because importing what describes them takes a while."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import cache
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

Maker = Callable[[], typer.Typer]
"""Imports what describes some commands, and returns the commands."""


@cache
def _commands(make: Maker) -> dict[str, Any]:
    return dict(typer.main.get_group(make()).commands)


def late_group(make: Maker) -> type[TyperGroup]:
    """Return the class of a group that has the commands of ``make``, and after them those that are registered in it."""

    class LateGroup(TyperGroup):
        @property
        def commands(self) -> MutableMapping[str, Any]:
            return {**_commands(make), **self._registered}

        @commands.setter
        def commands(self, registered: MutableMapping[str, Any]) -> None:
            self._registered = registered

    return LateGroup


def late_command(make: Maker) -> type[TyperCommand]:
    """Return the class of a command of ``make``; until it is used, it has a name, a short help and an epilog."""

    def late(attribute: str) -> Any:
        return property(lambda self: getattr(_commands(make)[self.name], attribute), lambda self, value: None)

    class LateCommand(TyperCommand):
        params = late("params")
        callback = late("callback")
        help = late("help")

    return LateCommand
