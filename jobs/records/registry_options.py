"""A schema registry as a command line names it: `--registry URL`, and its client's properties among the cluster's.

They have `schema.registry.` in front there, as with Confluent's tools: `-X schema.registry.basic.auth.user.info=…`, or
a line of the file of --command-config.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kseg.client.registry.config import SECRETS
from kseg.jobs.api.properties import client_properties
from kseg.jobs.output.redaction import REDACTOR

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

PREFIX: Final = "schema.registry."


def of_cluster(pairs: Sequence[str]) -> tuple[str, ...]:
    """The properties of the cluster among KEY=VALUE."""
    return tuple(pair for pair in pairs if not pair.strip().startswith(PREFIX))


def without_registry(properties: Mapping[str, str]) -> dict[str, str]:
    """The cluster's of these properties."""
    return {name: value for name, value in properties.items() if not name.startswith(PREFIX)}


def registry_properties(
    url: str | None, command_config: str | None, pairs: Sequence[str], job: Job | None = None
) -> dict[str, str] | None:
    """The properties of a registry's client, without the prefix; None where no registry is named.

    url, then pairs, then the file, then the job: the first that has a property.

    Raises ConfigurationError: properties of a registry without its URL.
    """
    given = client_properties(None, command_config, pairs)
    own = {name.removeprefix(PREFIX): value for name, value in given.items() if name.startswith(PREFIX)}
    if url is not None:
        own["url"] = url
    elif job is not None and job.registry is not None:
        own = {**job.registry_properties(), **own}
    REDACTOR.learn(own[name] for name in SECRETS & own.keys())
    if own and own.keys().isdisjoint({"url", "type"}):
        from kseg.etl.errors import ConfigurationError

        raise ConfigurationError.of("--registry", "is missing beside properties of a registry", "the registry's URL")
    return own or None
