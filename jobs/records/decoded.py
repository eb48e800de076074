"""Keys and values of single records, decoded: as a job's `decode:` does it, or by the schemas that frames name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from kseg.client.registry.errors import SchemaNotFound
from kseg.client.registry.glue import GlueRegistry
from kseg.client.registry.opening import Registry, open_registry, registry_config
from kseg.client.registry.schemas import Resolved, context_of
from kseg.etl.config.decoding import Payload
from kseg.etl.config.job import Job
from kseg.etl.decoding.columns import typed_columns
from kseg.etl.decoding.errors import UnknownSchemas
from kseg.etl.decoding.formats.registry import of_registry_type, registry_type, schema_format
from kseg.etl.decoding.framed import FramedSchemas, WriterTexts, schema_key
from kseg.etl.decoding.kinds import Kind
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.registered import FIRST_MESSAGE, registered_decoder
from kseg.etl.decoding.rules import DecodingRules
from kseg.etl.errors import ConfigurationError, KsegError
from kseg.etl.ledger.schemas import Lineage
from kseg.etl.planning.kinds import kinds_of
from kseg.etl.planning.schemas import accepted, kept_schema, lineages_of, registry_key
from kseg.etl.planning.table_rules import next_rules
from kseg.etl.tables.targets import description_at
from kseg.etl.tables.values import TableDescription
from kseg.etl.transform.decode import DecodeStep
from kseg.etl.transform.decode_by_topic import decode_step_of
from kseg.jobs.records.subjects import state_of
from kseg.jobs.records.typed import Decoded, Typed, plain
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status
from kseg.segment_reader.payload.errors import PayloadSchemaError
from kseg.segment_reader.payload.framing import (
    KEY_HEADER,
    VALUE_HEADER,
    Frames,
    SchemaKey,
    frames_in_headers,
    frames_of,
)
from kseg.segment_reader.payload.glue import unpacked
from kseg.segment_reader.payload.protobuf.framing import message_indexes
from kseg.segment_reader.payload.rescue import RESCUED

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_NAMES: Final = {"key": KEY_HEADER, "value": VALUE_HEADER}
_LONG: Final = 8
Row = Mapping[str, Any]


class RecordDecoder(Protocol):
    """Decodes records one by one. Raises SchemaRegistryError, ConfigurationError."""

    def decode(self, row: Row) -> Decoded:
        """A record's key and value, those that it has a decoder for. row: of the columns of Kafka's records."""


@contextmanager
def decoder_of(job: Job | None, registry: Mapping[str, str] | None) -> Iterator[RecordDecoder | None]:
    """The decoder of a job, or by a registry; None where there is neither. registry: properties of its client.

    Raises ConfigError, ConfigurationError.
    """
    with nullcontext() if registry is None else open_registry(registry_config(registry)) as client:
        by_registry = ByRegistry(client) if client is not None else None
        yield ByJob(job, by_registry) if job is not None and job.decode is not None else by_registry


@dataclass
class ByRegistry:
    """Payloads whose frame, or a header, names the schema that they were written with."""

    registry: Registry
    _schemas: dict[tuple[SchemaKey, str], Resolved | None] = field(default_factory=dict)
    _decoders: dict[tuple[SchemaKey, tuple[int, ...]], PayloadDecoder | str] = field(default_factory=dict)

    def decode(self, row: Row) -> Decoded:
        found = {name: self._typed(row, name) for name in ("key", "value")}
        return {name: typed for name, typed in found.items() if typed is not None}

    def _typed(self, row: Row, name: str) -> Typed | None:
        payload: bytes | None = row[name]
        payloads = pa.array([payload], pa.binary())
        if isinstance(self.registry, GlueRegistry):
            payloads = unpacked(payloads)
            payload, frames = payloads[0].as_py(), frames_of(payloads, "glue")
        else:
            frames = _frames(row, name, payloads)
        if payload is None or frames.status[0] != Status.DECODED:
            return None
        key, skip = frames.schemas[int(frames.which[0])], int(frames.skip[0])
        schema = self.schema(key)
        if schema is None:
            if len(payload) == _LONG:
                return None  # more likely a number, as Kafka's serializer of longs writes it
            return _failed(Status.UNKNOWN_SCHEMA, f"the registry does not know the schema {key}")
        message: tuple[int, ...] = FIRST_MESSAGE
        if of_registry_type(schema.schema.type)[0].indexed:
            indexes = message_indexes(payloads, np.array([skip], np.int32))
            if indexes.status[0] != Status.DECODED:
                return _failed(Status.BAD_FRAME, "no message index follows the schema's id")
            message, skip = indexes.messages[int(indexes.which[0])], int(indexes.skip[0])
        decoder = self._decoder(key, schema, message)
        if isinstance(decoder, str):
            return _failed(Status.INCOMPATIBLE_SCHEMA, decoder)
        typed = _typed(decoder.decode(payloads, skip=skip), lambda: decoder.explain(payload, skip=skip))
        if isinstance(typed.value, dict) and typed.value.get(RESCUED, "") is None:
            del typed.value[RESCUED]
        return typed

    def schema(self, key: SchemaKey, subject: str = "") -> Resolved | None:
        """subject: any of the schema's context. None: the registry does not know it."""
        of_context = key, context_of(subject)
        if of_context not in self._schemas:
            self._schemas[of_context] = self._asked(key, subject)
        return self._schemas[of_context]

    def _asked(self, key: SchemaKey, subject: str) -> Resolved | None:
        registry = self.registry
        with accepted():
            try:
                found = registry.schema(registry_key(key), subject)
            except SchemaNotFound:
                return None
            return registry.resolve(found)

    def _decoder(self, key: SchemaKey, schema: Resolved, message: tuple[int, ...]) -> PayloadDecoder | str:
        if (key, message) not in self._decoders:
            try:
                self._decoders[key, message] = registered_decoder(schema, message)
            except PayloadSchemaError as error:
                self._decoders[key, message] = f"schema {key}: {error}"
        return self._decoders[key, message]


def _look(table: str) -> TableDescription | None:
    """A table as it is; None for one of a catalog, or one that cannot be read, which hides no record."""
    try:
        return description_at(table)
    except KsegError:
        return None


class ByJob:
    """Decodes as a job's runs do: typed columns under the table's names.

    Of schemas in a registry the rows have the reader's schema that the job's ledger has; before a job's first run each
    payload has its own.
    """

    def __init__(self, job: Job, by_registry: ByRegistry | None) -> None:
        assert job.decode is not None
        self._by_registry = by_registry
        of_registry = dict(lineages_of(job))
        self._subjects = {
            name: payload.subject_templates(name.rpartition(".")[2])[0] for name, payload in of_registry.items()
        }
        state = state_of(job)
        rules = next_rules(job, state, _look)
        self._step = decode_step_of(
            job.decode,
            {
                name: schemas
                for name, payload in of_registry.items()
                if (schemas := _newest(job, name, payload, state.lineages, rules)) is not None
            },
            rules,
        )
        self._plans: dict[str, list[PayloadPlan]] = {}

    def decode(self, row: Row) -> Decoded:
        found: dict[str, Typed] = {}
        if self._by_registry is not None:
            found |= self._by_registry.decode(row)
        plans = self._of_topic(row["topic"])
        for number, plan in enumerate(plans):
            if registry_type(plan.format) is not None and plan.framed is None and plan.schema_text is None:
                continue  # no run has pinned a reader's schema yet
            batch = _batch(row)
            plan = plans[number] = self._knowing(plan, batch)
            kinds, kind = plan.kinds, -1
            if kinds is not None and (kind := int(plan.kinds_of(batch)[0])) >= 0 and kinds.types[kind] is None:
                continue  # its table has no columns yet
            typed = _typed(plan.decode(batch), partial(plan.explain, batch, 0))
            if typed.error is None and row[plan.source] is not None:
                if kinds is not None:
                    landed = kinds.landed(kind) if kind >= 0 else {}
                    columns, values = list(landed), [typed.value[column] for column in landed.values()]
                else:
                    columns = [each.name for each in typed_columns(plan)]
                    values = list(typed.value.values()) if _is_columns(plan) else [typed.value]
                typed = Typed(dict(zip(columns, values, strict=True)))
            found[plan.source] = typed
        return found

    def _of_topic(self, topic: str) -> list[PayloadPlan]:
        if topic not in self._plans:
            try:
                step = self._step.of_topic(topic)
            except ConfigurationError:  # a topic that was named beside the job's own
                return []
            assert isinstance(step, DecodeStep)
            self._plans[topic] = list(step.payloads)
        return self._plans[topic]

    def _knowing(self, plan: PayloadPlan, batch: pa.RecordBatch) -> PayloadPlan:
        """The plan with the schema that this record names."""
        try:
            plan.decode(batch)
        except UnknownSchemas as unknown:
            assert plan.framed is not None
            new = tuple((schema_key(key), self._texts(key, plan)) for key in unknown.found[plan.lineage])
            return replace(plan, framed=replace(plan.framed, writers=(*plan.framed.writers, *new)))
        return plan

    def _texts(self, key: str, plan: PayloadPlan) -> WriterTexts | None:
        if self._by_registry is None:
            return None
        schema = self._by_registry.schema(schema_key(key), self._subjects.get(plan.lineage, ""))
        if schema is None or schema.schema.type != registry_type(plan.format):
            return None
        try:
            kept = kept_schema(plan.format, schema)
        except PayloadSchemaError:
            return schema.schema.text, ()  # whose decoder says what is wrong with it
        return kept.text, kept.uses


def _newest(
    job: Job, lineage: str, payload: Payload, known: Mapping[str, Lineage], rules: DecodingRules
) -> FramedSchemas | None:
    """The newest reader's schema of the job's ledger, or those of each kind of records; None where it has none."""
    kinds, form = kinds_of(job, lineage, known), schema_format(payload, rules)
    if kinds is None:
        readers = known[lineage].readers if lineage in known else ()
        return FramedSchemas(readers[-1], format=form, global_ids=rules.global_ids) if readers else None
    of_kinds = tuple(
        Kind(records, known[name].readers[-1] if (name := kinds.lineage_of(number, known)) in known else None)
        for number, records in enumerate(kinds.records)
    )
    return FramedSchemas("", format=form, kinds=of_kinds, global_ids=rules.global_ids) if lineage in known else None


def _is_columns(plan: PayloadPlan) -> bool:
    return pa.types.is_struct(plan.type) and plan.into_columns


def _frames(row: Row, name: str, payloads: pa.BinaryArray) -> Frames:
    if not row.get("headers"):
        return frames_of(payloads)
    return frames_in_headers(pa.array([row["headers"]], _HEADERS), payloads, _NAMES[name])


def _batch(row: Row) -> pa.RecordBatch:
    """One record, with what decoding reads of it."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row["topic"]]),
            pa.array([row["partition"]], pa.int32()),
            pa.array([row["offset"]], pa.int64()),
            pa.array([row["key"]], pa.binary()),
            pa.array([row["value"]], pa.binary()),
            pa.array([row.get("headers") or []], _HEADERS),
        ],
        names=["topic", "partition", "offset", "key", "value", "headers"],
    )


def _typed(decoded: DecodedPayloads, error_of: Callable[[], PayloadError]) -> Typed:
    if decoded.status[0] > Status.NULL:
        return Typed(error=error_of())
    return Typed(plain(decoded.rows[0]))


def _failed(status: Status, message: str) -> Typed:
    return Typed(error=PayloadError(status, "", message))
