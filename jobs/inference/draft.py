"""Makes a valid job file from a sample, which decodes the sample."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from kseg.client.registry.config import SECRETS, RegistryConfig
from kseg.client.registry.errors import SchemaNotFound
from kseg.client.registry.registry import SchemaRegistry
from kseg.client.registry.schemas import Schema
from kseg.etl.decoding.formats.registry import FORMATS
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.errors import listed
from kseg.jobs.api.properties import may_be_secret
from kseg.jobs.inference.job_text import DraftedPayload, JobDraft, job_text, rescues, shown, uses_registry
from kseg.jobs.inference.json_seen import seen_in
from kseg.jobs.inference.json_types import columns_of
from kseg.jobs.inference.payloads import FRAMED, Recognised, recognise
from kseg.jobs.inference.sampling import Sample
from kseg.jobs.records.registry_options import PREFIX
from kseg.segment_reader.decode.jit import is_cached
from kseg.segment_reader.payload.decoder import PayloadDecoder, Status
from kseg.segment_reader.payload.errors import PayloadSchemaError
from kseg.segment_reader.payload.framing import SchemaKey, frames_of
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.kernel import decode
from kseg.segment_reader.payload.json.shape import JsonOptions
from kseg.segment_reader.payload.json_schema import JsonSchemaType, read_json_schema

MOST_COLUMNS = 500


@dataclass(frozen=True)
class Drafted:
    """The file's text, and notes that a user should read before a run."""

    text: str
    draft: JobDraft
    notes: tuple[str, ...]


def draft_of(
    topic: str,
    sampled: Sample,
    kafka: Mapping[str, str],
    *,
    table: str,
    registry: Mapping[str, str] | None = None,
    most_columns: int = MOST_COLUMNS,
    format: str | None = None,
    partition_by: Sequence[str] = (),
) -> Drafted:
    """Draft a job file. registry: properties of the registry's client; secrets become references. format: of values, if
    it is known. partition_by: columns of the table.

    Raises SchemaRegistryError.
    """
    key = _payload(sampled.keys, registry, most_columns, records=False)
    value = _payload(sampled.values, registry, most_columns, records=True, format=format)
    draft = JobDraft(
        topic,
        kafka,
        table,
        None if registry is None else registry_section(registry),
        key,
        value,
        sampled.records,
        sampled.offsets,
        sampled.partitions,
        tuple(partition_by),
    )
    return Drafted(job_text(draft), draft, tuple(_notes(draft, sampled)))


def kafka_section(properties: Mapping[str, str], given: Sequence[str]) -> dict[str, str]:
    """The client properties of a job file: the brokers, and the KEY=VALUE options of the command line.

    Values that may be secrets are references to environment variables, such as `${KSEG_SASL_JAAS_CONFIG}`.
    """
    names = ["bootstrap.servers", *(pair.partition("=")[0].strip() for pair in given)]
    return {
        name: _reference(name) if may_be_secret(name) else properties[name]
        for name in dict.fromkeys(names)
        if name in properties
    }


def registry_section(properties: Mapping[str, str]) -> dict[str, str]:
    """A job file's `registry:`, with secrets as references."""
    secrets = SECRETS & properties.keys()
    return {name: _reference(PREFIX + name) if name in secrets else value for name, value in properties.items()}


def _reference(name: str) -> str:
    return f"${{KSEG_{re.sub('[^A-Za-z0-9]', '_', name).upper()}}}"


def _payload(
    payloads: list[bytes | None],
    registry: Mapping[str, str] | None,
    most: int,
    *,
    records: bool,
    format: str | None = None,
) -> DraftedPayload:
    found = recognise(payloads, set_aside=records, given=format)
    if found.documents and records:
        return DraftedPayload(found, columns_of(seen_in(found.documents), most))
    if found.format == FRAMED and registry is not None:
        return _framed(found, payloads, registry)
    return DraftedPayload(found)


def _framed(found: Recognised, payloads: list[bytes | None], registry: Mapping[str, str]) -> DraftedPayload:
    """The type is that of all schemas; None if they have several types."""
    with SchemaRegistry(RegistryConfig.from_properties(registry)) as client:
        schemas = {key: client.schema(key) for key in found.schemas}
        types = {schema.type for schema in schemas.values()}
        if types != {"JSON"}:
            return DraftedPayload(found, schema_type=types.pop() if len(types) == 1 else None)
        return DraftedPayload(found, schema_type="JSON", finer=_documents_with_finer_times(payloads, schemas, client))


def _notes(draft: JobDraft, sampled: Sample) -> Iterable[str]:
    for source, payload in (("keys", draft.key), ("values", draft.value)):
        found = payload.recognised
        if found.mixed:
            counts = ", ".join(f"{count:,} {word}" for word, count in found.mixed)
            become = "the others become dead letters" if payload.others else f"they land as {found.format}"
            yield f"{source} are of several formats ({counts}): {become}"
        if found.format == FRAMED and payload.schema_type is None:
            yield f"{source} are framed by a schema registry: they land as bytes; --registry URL decodes them"
    given = [*draft.kafka.values(), *((draft.registry or {}).values() if uses_registry(draft) else ())]
    secrets = [value[2:-1] for value in given if value.startswith("${")]
    if secrets:
        yield f"before a run, set {', '.join(secrets)} in the environment"
    left = [column.name for column in draft.value.columns if column.type is None]
    if left:
        names = listed(map(shown, left), most=5)
        where = "land in _kseg_rescued" if rescues(draft.value.recognised.format) else "do not land"
        yield f"{len(left)} field(s) are not declared and {where}: {names}"
    columns = {column.name: column.type for column in draft.value.columns if column.type is not None}
    if columns:
        yield from _undecodable(sampled, columns, draft.value)


def _undecodable(sampled: Sample, columns: Mapping[str, str], value: DraftedPayload) -> Iterable[str]:
    """A note on sampled values that the job cannot decode, if there are more than become dead letters."""
    payloads = pa.array(sampled.values, pa.binary())
    decoder = _decoder(value, columns)
    status = decoder.decode(payloads).status
    bad = np.flatnonzero(status > Status.NULL)
    if len(bad) > value.others:
        first = decoder.explain(payloads[int(bad[0])].as_py())
        counts = Counter(Status(int(status[row])).name for row in bad)
        said = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        yield f"{len(bad):,} sampled value(s) cannot be decoded ({said}), the first: {first}"


def _decoder(value: DraftedPayload, columns: Mapping[str, str]) -> PayloadDecoder:
    """The decoder of the job's values, but that unknown fields are ignored."""
    form = FORMATS[value.recognised.format]
    times: Literal["fail", "truncate"] = "truncate" if value.finer_times else "fail"
    plan = PayloadPlan(
        "value",
        form.name,
        "value",
        tuple(columns.items()),
        json=(("nanoseconds", times),) if form.unknown_fields else (),
        nanoseconds=times,
        engine="fast" if is_cached(decode) else "reference",
    )
    return plan.decoder


def _documents_with_finer_times(
    payloads: Sequence[bytes | None], schemas: Mapping[SchemaKey, Schema], registry: SchemaRegistry
) -> int:
    """The number of these framed documents that can be decoded only if digits below a microsecond are cut off.

    schemas: of the frames. Raises SchemaRegistryError.
    """
    some = pa.array([payload for payload in payloads if payload is not None], pa.binary())
    frames, count = frames_of(some), 0
    for number, key in enumerate(frames.schemas):
        rows = np.flatnonzero(frames.which == number)
        if key in schemas and (read := _usable(schemas[key], registry)) is not None:
            count += _finer(read, some.take(pa.array(rows)), int(frames.skip[rows[0]]))
    return count


def _usable(schema: Schema, registry: SchemaRegistry) -> JsonSchemaType | None:
    """None: a run says what is wrong with it."""
    try:
        resolved = registry.resolve(schema)
        return read_json_schema(schema.text, {name: used.text for name, used in resolved.references})
    except (SchemaNotFound, PayloadSchemaError):
        return None


def _finer(read: JsonSchemaType, documents: pa.BinaryArray, skip: int) -> int:
    exact, cut = (
        json_decoder(read.type, JsonOptions(formats=read.formats, nanoseconds=how), engine="reference")
        .decode(documents, skip=skip)
        .status
        for how in ("fail", "truncate")
    )
    return int(np.count_nonzero((exact == Status.INEXACT) & (cut == Status.DECODED)))
