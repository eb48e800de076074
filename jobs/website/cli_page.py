"""docs/reference/cli.md: every command of `kseg` with its help, read off the commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

_HEAD: Final = """\
# The command line

Every command with its options, as `kseg COMMAND --help` prints them. `make docs` makes this page from the commands.
Exit codes: [when something is wrong](../../README.md#when-something-is-wrong). The job file that most commands take:
[configuration](configuration.md).

"""
_WIDTH: Final = 110


def page() -> str:
    """The whole page."""
    from kseg.jobs.cli import cli

    commands = list(_commands(cli, "kseg"))
    index = "\n".join(f"- [`{name}`](#{_anchor(name)}): {_summary(command)}" for name, command in commands)
    return _HEAD + index + "\n" + "".join(_section(name, command) for name, command in commands)


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command and those below it, with their full names."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None and not found.hidden:
                yield from _commands(found, f"{name} {below}")


def _section(name: str, command: click.Command) -> str:
    context = click.Context(
        command, info_name=name, terminal_width=_WIDTH, max_content_width=_WIDTH, help_option_names=["-h", "--help"]
    )
    return f"\n## {name}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"


def _summary(command: click.Command) -> str:
    return command.get_short_help_str(_WIDTH)


def _anchor(name: str) -> str:
    return name.replace(" ", "-")
