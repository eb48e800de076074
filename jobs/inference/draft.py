"""From a sample to a job file that is valid and decodes the sample."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kseg.client.registry.config import RegistryConfig
from kseg.client.registry.registry import SchemaRegistry
from kseg.jobs.api.properties import may_be_secret
from kseg.jobs.inference.job_text import Draft, Payload, job_text, shown
from kseg.jobs.inference.json_seen import parsed, seen_in
from kseg.jobs.inference.json_types import columns_of
from kseg.jobs.inference.payloads import Recognised, kind_of, recognise
from kseg.jobs.inference.sampling import Sample
from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json.decoder import json_decoder

MOST_COLUMNS = 500


@dataclass(frozen=True)
class Drafted:
    """The file's text, and what a person should know before a run."""

    text: str
    draft: Draft
    notes: tuple[str, ...]


def draft_of(
    topic: str,
    sampled: Sample,
    kafka: Mapping[str, str],
    *,
    table: str,
    registry: Mapping[str, str] | None = None,
    most_columns: int = MOST_COLUMNS,
) -> Drafted:
    """registry: its properties; only its URL is written into the file. Raises SchemaRegistryError."""
    key = _payload(sampled.keys, registry, most_columns, records=False)
    value = _payload(sampled.values, registry, most_columns, records=True)
    url = None if registry is None else registry["url"]
    draft = Draft(topic, kafka, table, url, key, value, sampled.records, sampled.offsets, sampled.partitions)
    return Drafted(job_text(draft), draft, tuple(_notes(draft, sampled)))


def kafka_section(properties: Mapping[str, str], given: Sequence[str]) -> dict[str, str]:
    """The client properties of a job file: the brokers, and what was given as KEY=VALUE on the command line.

    Values that may be secrets are references to environment variables, as `${KSEG_SASL_JAAS_CONFIG}`.
    """
    names = ["bootstrap.servers", *(pair.partition("=")[0].strip() for pair in given)]
    return {
        name: f"${{KSEG_{re.sub('[^A-Za-z0-9]', '_', name).upper()}}}" if may_be_secret(name) else properties[name]
        for name in dict.fromkeys(names)
        if name in properties
    }


def _payload(payloads: list[bytes | None], registry: Mapping[str, str] | None, most: int, *, records: bool) -> Payload:
    found = recognise(payloads, set_aside=records)
    if found.format == "json" and records:
        documents = (parsed(payload) for payload in payloads if payload is not None and kind_of(payload) == "json")
        return Payload(found, columns_of(seen_in(documents), most))
    if found.format == "framed" and registry is not None:
        return Payload(found, schema_type=_schema_type(found, registry))
    return Payload(found)


def _schema_type(found: Recognised, registry: Mapping[str, str]) -> str | None:
    """The type that all schemas have; None where they differ."""
    with SchemaRegistry(RegistryConfig.from_properties(registry)) as client:
        types = {
            (client.schema(schema) if isinstance(schema, int) else client.schema_by_guid(schema)).type
            for schema in found.schemas
        }
    return types.pop() if len(types) == 1 else None


def _notes(draft: Draft, sampled: Sample) -> Iterable[str]:
    for source, payload in (("keys", draft.key), ("values", draft.value)):
        found = payload.recognised
        if found.mixed:
            counts = ", ".join(f"{count:,} {word}" for word, count in found.mixed)
            become = "the others become dead letters" if payload.others else f"they land as {found.format}"
            yield f"{source} are of several formats ({counts}): {become}"
        if found.format == "framed" and payload.schema_type is None:
            yield f"{source} are framed by a schema registry: they land as bytes; --registry URL decodes them"
    secrets = [value[2:-1] for value in draft.kafka.values() if value.startswith("${")]
    if secrets:
        yield f"before a run, set {', '.join(secrets)} in the environment"
    left = [column.name for column in draft.value.columns if column.type is None]
    if left:
        names = ", ".join(map(shown, left[:5])) + (", …" if len(left) > 5 else "")
        yield f"{len(left)} field(s) are not declared and land in _kseg_rescued: {names}"
    columns = {column.name: column.type for column in draft.value.columns if column.type is not None}
    if columns:
        yield from _undecodable(sampled, columns, draft.value.others)


def _undecodable(sampled: Sample, columns: Mapping[str, str], set_aside: int) -> Iterable[str]:
    """Sampled values that the job cannot decode, beside those that are set aside: a run would end at the first."""
    payloads = pa.array(sampled.values, pa.binary())
    decoder = json_decoder(parse_columns(columns))
    status = decoder.decode(payloads).status
    bad = np.flatnonzero(status > Status.NULL)
    if len(bad) > set_aside:
        first = decoder.explain(payloads[int(bad[0])].as_py())
        counts = Counter(Status(int(status[row])).name for row in bad)
        said = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        yield f"{len(bad):,} sampled value(s) cannot be decoded ({said}), the first: {first}"
