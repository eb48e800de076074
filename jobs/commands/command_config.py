"""``--command-config FILE``: Java client properties, laid over the job file's `kafka:` section.

For whoever keeps a cluster's address and secrets elsewhere than in the job file and the environment (an orchestrator's
connection): the file is read once, when the job is loaded. Values whose names sound like secrets are treated as if the
job file referred to them: the job's repr, its ledger and all that this process says show no more than a reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from kseg.etl.errors import ConfigurationError
from kseg.jobs.commands.noted import Noted

command_config_option = Noted(
    "--command-config",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="A Java properties file, laid over the job file's `kafka:` section.",
)
"""For commands that load a job; `load` reads it."""


def given_properties() -> Mapping[str, str]:
    """What the current command's --command-config says; nothing where it was given none.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    from kseg.jobs.api.properties import read_properties

    name = command_config_option.given()
    if name is None:
        return {}
    try:
        return read_properties(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError.of("--command-config", f"{name} cannot be read: {told}") from None
