"""Options `schema.registry.…` of `format("kseg")`: the schemas of a read whose payloads have a registry's schema ids.

When a read is planned, all versions of each topic's subject are requested. Rows have the newest version's columns,
widened to the types of the others, then the fields that only others have (unless unknown fields are ignored).
A read has no ledger: its columns are those of the registry at that moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kseg.client.errors import ConfigError
from kseg.client.registry.opening import open_registry, registry_config
from kseg.etl.errors import ConfigurationError, Diagnostic, Refused

if TYPE_CHECKING:
    from kseg.etl.config.decoding import Decode, Payload
    from kseg.etl.decoding.framed import FramedSchemas
    from kseg.etl.planning.schemas import FoundSchemas

REGISTRY: Final = "schema.registry."


@dataclass(frozen=True, slots=True)
class _Read:
    decode: Decode


def registry_options(options: Mapping[str, str]) -> dict[str, str]:
    """The properties of the registry's client, from a read's options."""
    return {name.removeprefix(REGISTRY): str(text) for name, text in options.items() if name.startswith(REGISTRY)}


def registered_schemas(
    decode: Decode, properties: Mapping[str, str], topics: Sequence[str] | None
) -> dict[str, FramedSchemas]:
    """By `key` and `value`, the schemas that are in a registry. topics: None if the options do not name them.

    Raises:
        ConfigurationError: with the options' names: there is no subject, or its schemas have no columns.
        SchemaRegistryError: a request to the registry failed.
    """
    from kseg.etl.ledger.state import JobState
    from kseg.etl.planning.schemas import lineages_of, read_schemas

    read = _Read(decode)
    lineages = dict(lineages_of(read))
    if topics is None:
        unnamed = [
            name
            for name, payload in lineages.items()
            if any("{topic}" in one for one in payload.subject_templates(name))
        ]
        if unnamed:
            message = "the options name no topics, so there is no subject of theirs"
            raise ConfigurationError.of(f"{unnamed[0]}.subject", message, "give it, or subscribe to topics by name")
    try:
        client = open_registry(registry_config(properties))
    except ConfigError as error:
        raise ConfigurationError([Diagnostic(REGISTRY + f.key, f.message, f.remedy) for f in error.faults]) from None
    try:
        with client as registry:
            found = read_schemas(read, registry, topics or ("*",), JobState(job="", ledger_id=""))
        return {name: _framed(payload, name, found[name]) for name, payload in lineages.items()}
    except ConfigurationError as error:
        raise ConfigurationError([replace(fault, path=_option(fault.path)) for fault in error.faults]) from None


def _framed(payload: Payload, name: str, found: FoundSchemas) -> FramedSchemas:
    """Raises ConfigurationError: the newest versions of the subjects contradict each other."""
    from kseg.etl.decoding.formats.registry import schema_format
    from kseg.etl.decoding.framed import FramedSchemas, schema_key
    from kseg.etl.decoding.rules import NEWEST
    from kseg.etl.planning.growing import grown

    try:
        reader = grown(payload, name, (), found.newest, found.texts.values())
    except Refused as error:
        raise ConfigurationError.of(f"{name}.subject", error.message, error.remedy) from None
    unusable: dict[str, str] = {}
    for hash, text in found.texts.items():
        if text.unusable:
            unusable[hash] = text.unusable
            continue
        try:
            reader = grown(payload, name, (reader,), [("it", text)])
        except Refused as error:
            # Even if some of its records could be read: their fields that the rows lack would be lost.
            unusable[hash] = f"is not read: {error.message}"
    writers = ((key, hash, found.texts[hash]) for key, hash in found.writers.items())
    return FramedSchemas(
        reader,
        tuple((schema_key(key), unusable.get(hash) or (text.text, text.uses)) for key, hash, text in writers),
        schema_format(payload, NEWEST),
    )


def _option(path: str) -> str:
    """A path in a job file as the name of an option."""
    if path.startswith("registry"):
        return REGISTRY + (path.removeprefix("registry").lstrip(".") or "url")
    return path.removeprefix("decode.")
