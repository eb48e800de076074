"""The first step of a job that decodes: keys and values become typed columns, in the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kseg.etl.decoding.columns import check_names, kafka_columns, typed_columns
from kseg.etl.decoding.errors import UndecodablePayload, address_of
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.transform.step import Address, BatchStep
from kseg.segment_reader.payload.decoder import Status

if TYPE_CHECKING:
    from kseg.etl.config.decoding import Decode, Payload

NO_SCHEMAS: Final[Mapping[str, FramedSchemas]] = MappingProxyType({})


@dataclass(frozen=True)
class DecodeStep(BatchStep):
    """payloads: of key and value, those that are decoded. keep: Kafka's own columns that rows have beside them."""

    payloads: tuple[PayloadPlan, ...]
    keep: tuple[str, ...] = ()
    place: str = "decode"

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        parts = [(plan, typed_columns(plan)) for plan in self.payloads]
        check_names(parts)
        own = [pa.field(name, rows.field(source).type) for source, name in kafka_columns(rows, self.keep)]
        return pa.schema([*(field for _, fields in parts for field in fields), *own])

    def apply(self, batch: pa.RecordBatch, address: Address) -> pa.RecordBatch:
        """Raises UndecodablePayload at the first payload that has no row."""
        # Without `output_schema`, whose checks are for the driver: the caller compares the types with what it gave.
        names: list[str] = []
        columns: list[pa.Array] = []
        dropped = np.zeros(batch.num_rows, np.bool_)
        for plan in self.payloads:
            decoded = plan.decode(batch)
            bad = np.flatnonzero(decoded.status > Status.NULL)
            if len(bad):
                raise _undecodable(plan, batch, int(bad[0]))
            if plan.drop_nulls:
                dropped |= decoded.status == Status.NULL
            struct = pa.types.is_struct(decoded.rows.type) and plan.into_columns
            columns += decoded.rows.flatten() if struct else [decoded.rows]
            names += [field.name for field in typed_columns(plan)]
        for source, name in kafka_columns(batch.schema, self.keep):
            columns.append(batch.column(source))
            names.append(name)
        out = pa.RecordBatch.from_arrays(columns, names=names)
        return out.filter(pa.array(~dropped)) if dropped.any() else out


def decode_step(decode: Decode, place: str = "decode", schemas: Mapping[str, FramedSchemas] = NO_SCHEMAS) -> DecodeStep:
    """The step of a job's `decode:` section, or of what it says of one topic at this place.

    schemas: of a registry, by lineage.
    """
    payloads = [
        _plan(payload, source, place, schemas)
        for source in ("key", "value")
        if (payload := getattr(decode, source)) is not None
    ]
    return DecodeStep(tuple(payloads), decode.keep, place)


def _plan(payload: Payload, source: str, place: str, schemas: Mapping[str, FramedSchemas]) -> PayloadPlan:
    names = ("timestamp_format", "date_format", "formats", "time_zone")
    options = {name: given for name in names if (given := getattr(payload, name)) is not None}
    options["unknown_fields"] = payload.unknown
    return PayloadPlan(
        source=source,  # type: ignore[arg-type]
        format=payload.format,
        column=payload.as_ or source,
        columns=tuple((payload.declared.columns or {}).items()),
        schema_text=payload.declared.text,
        json=tuple(options.items()) if payload.is_json else (),
        into_columns=payload.into == "columns",
        rename=tuple(payload.rename.items()),
        drop_nulls=payload.tombstones == "drop",
        section=place,
        message=payload.message,
        nanoseconds=payload.nanoseconds,
        envelope=payload.envelope,
        framed=schemas.get(f"{place}.{source}".removeprefix("decode.")),
    )


def _undecodable(plan: PayloadPlan, batch: pa.RecordBatch, row: int) -> UndecodablePayload:
    error = plan.explain(batch, row)
    return UndecodablePayload(plan.source, error.status.name, error.path, error.message, **address_of(batch, row))
