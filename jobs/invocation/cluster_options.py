"""The options by which a command without a job file reaches a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

# Clients' property is bootstrap.servers; the option of Kafka's own tools is --bootstrap-server.
_BOOTSTRAP = click.option(
    *("--bootstrap-servers", "--bootstrap-server", "--bootstrap", "bootstrap_servers"),
    metavar="HOST:PORT,…",
    help="Addresses of brokers.",
)
_CONTROLLERS = click.option(
    *("--bootstrap-controllers", "--bootstrap-controller", "bootstrap_controllers"),
    metavar="HOST:PORT,…",
    help="KRaft controllers instead of brokers.",
)
_FILE = click.option(
    "--command-config", metavar="FILE", type=click.Path(dir_okay=False), help="A file of client properties."
)
_PROPERTY = click.option("-X", "properties", multiple=True, metavar="KEY=VALUE", help="A client property; repeatable.")

JOB_FILE_ENDINGS: Final = (".yaml", ".yml")


def cluster_options(command: F) -> F:
    """--bootstrap-servers, --command-config and -X."""
    return _BOOTSTRAP(_FILE(_PROPERTY(command)))


def cluster_or_controller_options(command: F) -> F:
    """The same with --bootstrap-controllers."""
    return _BOOTSTRAP(_CONTROLLERS(_FILE(_PROPERTY(command))))


def is_job_file(name: str) -> bool:
    """Whether an argument names a job file rather than a topic."""
    return name.endswith(JOB_FILE_ENDINGS)
