"""The options of commands that read log files: the layout in which they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kseg.segment_reader.log.files.storage import LAYOUT_OPTION, PLAIN
from kseg.segment_reader.log.layouts import layout_names


def layout_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--layout` and `--layout-option`: the arguments `layout` and `layout_option`, a dict of storage options."""
    layout = click.option(
        "--layout",
        type=click.Choice(layout_names()),
        default=PLAIN,
        show_default=True,
        help="The layout of the files: a broker's log directories, or objects that tiered storage wrote.",
    )
    options = click.option(
        "--layout-option",
        multiple=True,
        callback=_as_options,
        metavar="NAME=VALUE",
        help="An option of the layout: local=DIR, the broker's own folder, which continues where the remote "
        "segments end; key.ID=FILE, a private key for aiven's encrypted ones. Repeatable.",
    )
    return layout(options(command))


def _as_options(_: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param=parameter)
        options[LAYOUT_OPTION + name] = value
    return options
