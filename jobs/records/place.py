"""The place that a command line names: a cluster by its options, or a job file's cluster and topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kseg.jobs.invocation.options import is_job_file

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
    from kseg.client.config import ClientConfig
    from kseg.etl.errors import ConfigurationError
    from kseg.jobs.api.properties import CLIENT_ID, client_properties
    from kseg.jobs.invocation.job import load_job
    from kseg.jobs.records.registry_options import without_registry

    if not names or not is_job_file(names[0]):
        given = without_registry(client_properties(bootstrap_servers, invocation.command_config, properties))
        check_cluster(given, "--bootstrap HOST:PORT, or a job file in front of the topics")
        return Place(ClientConfig.from_properties(given, client_id=CLIENT_ID), tuple(names))
    if bootstrap_servers is not None or properties:
        option = "--bootstrap-servers" if bootstrap_servers is not None else "-X"
        raise ConfigurationError.of(option, "the job file names the cluster", "leave one of the two out")
    job = load_job(invocation, names[0])
    if job.kafka is None:
        raise ConfigurationError.of("kafka", "the job has no brokers", "give --bootstrap-servers and a topic instead")
    return Place(job.client_config(), tuple(names[1:]), job)


def check_cluster(properties: Mapping[str, str], forms: str = "--bootstrap HOST:PORT") -> None:
    """Raises ConfigurationError if the client properties of a command line name no cluster."""
    from kseg.etl.errors import ConfigurationError

    if not {"bootstrap.servers", "bootstrap.controllers"} & properties.keys():
        raise ConfigurationError.of("--bootstrap", "no cluster is named", f"give {forms}")


@contextmanager
def topics_exist(option: str = "TOPIC", partition: str = "--partition") -> Iterator[None]:
    """Topics and partitions that the cluster does not have are errors of the arguments that named them.

    Raises ConfigurationError.
    """
    from kseg.client.errors import UnknownTopic
    from kseg.etl.errors import ConfigurationError

    try:
        yield
    except UnknownTopic as error:
        # Of a topic without partitions, for which a producer waits.
        being_made = error.retriable and error.code is None and error.partition is None
        if being_made or error.topic is None:
            raise
        if error.partition is None:
            what, remedy = f"the cluster has no topic {error.topic}", "`kseg topics` lists those that it has"
            raise ConfigurationError.of(option, what, f"correct the name; {remedy}") from None
        what = f"the topic {error.topic} has no partition {error.partition}"
        raise ConfigurationError.of(partition, what, f"`kseg topics {error.topic}` lists those that it has") from None
