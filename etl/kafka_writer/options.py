"""The options of `df.write.format("kseg")`: those of Spark's own Kafka sink.

`topic` overrides the column of that name; `kafka.` is the prefix of properties of the Java producer. Names are
case-insensitive. Batches are larger than Java's defaults, because rows come in by the thousand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kseg.client.errors import ConfigError
from kseg.client.producer import ProducerConfig
from kseg.etl.errors import ConfigurationError, Diagnostic

PREFIX = "kafka."
CLIENT_ID = "kseg-writer"

#: For rows that come by the thousand. If a topic allows only smaller batches, the producer splits them.
DEFAULTS = {"batch.size": "262144", "max.request.size": "4194304"}

_NOT_SUPPORTED = {
    "key.serializer": "keys are bytes; make them with DataFrame operations",
    "value.serializer": "values are bytes; make them with DataFrame operations",
    "interceptor.classes": "interceptors could change records",
    "transactional.id": "the format writes at least once; for exactly once call kseg.write_kafka(df, …)",
}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parsed options of one `save()`. Picklable."""

    config: ProducerConfig
    topic: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Options as a user gave them. Raises ConfigurationError with every fault at once."""
        given = {key.lower(): value for key, value in options.items()}
        properties = {key[len(PREFIX) :]: value for key, value in given.items() if key.startswith(PREFIX)}
        faults = [
            Diagnostic(PREFIX + key, "is not supported", remedy)
            for key, remedy in _NOT_SUPPORTED.items()
            if key in properties
        ]
        for key in _NOT_SUPPORTED:
            properties.pop(key, None)
        topic = given.get("topic")
        if topic is not None and not topic.strip():
            faults.append(Diagnostic("topic", "is empty"))
        try:
            config = producer_config(properties)
        except ConfigurationError as error:
            raise ConfigurationError([*faults, *error.faults]) from error
        if faults:
            raise ConfigurationError(faults)
        return cls(config, topic.strip() if topic else None)


def producer_config(properties: Mapping[str, str]) -> ProducerConfig:
    """A writer's producer configuration. Raises ConfigurationError with every fault at once."""
    try:
        return ProducerConfig.from_properties(DEFAULTS | dict(properties), client_id=CLIENT_ID)
    except ConfigError as error:
        raise ConfigurationError(
            [Diagnostic(PREFIX + fault.key, fault.message, fault.remedy) for fault in error.faults]
        ) from error
