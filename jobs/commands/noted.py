"""Options that are no parameters of a command's function: what they were given is asked for where it is used, which is
the same place for all commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Noted:
    """One option with a text, as in `--remote URL`. attributes: as click.option takes them."""

    def __init__(self, option: str, **attributes: Any) -> None:
        self._key = f"kseg{option}"
        self._decorate = click.option(option, expose_value=False, callback=self._note, **attributes)

    def __call__(self, command: F) -> F:
        """The command with this option."""
        return self._decorate(command)

    def given(self) -> str | None:
        """What the current command was given; None where it was given none, or nothing runs a command."""
        context = click.get_current_context(silent=True)
        value: str | None = context.meta.get(self._key) if context is not None else None
        return value

    def _note(self, context: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            context.meta[self._key] = value
