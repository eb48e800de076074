"""What a command line names: a cluster by its options, or a job file's cluster and topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kseg.jobs.invocation.cluster_options import is_job_file

if TYPE_CHECKING:
    from kseg.client.config import ClientConfig
    from kseg.etl.config.job import Job
    from kseg.jobs.invocation.invocation import Invocation


@dataclass(frozen=True)
class Place:
    """A cluster and what was named of it. job: where a job file was given. names: topics, as written."""

    config: ClientConfig
    names: tuple[str, ...]
    job: Job | None = None


def place_of(
    invocation: Invocation, names: Sequence[str], bootstrap_servers: str | None, properties: Sequence[str]
) -> Place:
    """A first argument that ends with .yaml or .yml is a job file, which names the cluster.

    Raises:
        ConfigurationError: the job file or an option is wrong, or the job file is given beside --bootstrap-servers.
        ConfigError: the client rejects a property.
    """
    from kseg.etl.errors import ConfigurationError
    from kseg.jobs.api.properties import client_config
    from kseg.jobs.invocation.job import load_job

    if not names or not is_job_file(names[0]):
        return Place(client_config(bootstrap_servers, invocation.command_config, properties), tuple(names))
    if bootstrap_servers is not None or properties:
        given = "--bootstrap-servers" if bootstrap_servers is not None else "-X"
        raise ConfigurationError.of(given, "the job file names the cluster", "leave one of the two out")
    job = load_job(invocation, names[0])
    if job.kafka is None:
        raise ConfigurationError.of("kafka", "the job has no brokers", "give --bootstrap-servers and a topic instead")
    return Place(job.client_config(), tuple(names[1:]), job)
