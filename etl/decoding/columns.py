"""The columns of decoded rows: typed ones first, then Kafka's own under `_kseg_…`.

    key          its column, or its record's fields
    value        the same
    _kseg_NAME   what `keep` names, provenance, `_kseg_late`, and the address: topic, partition, offset

A payload's own field `offset` is thus never taken for the address. Names that Delta cannot tell apart, or not hold, are
refused before anything is read, with the `rename` that helps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pyarrow as pa

from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.rows.names import FORBIDDEN_IN_NAMES, RESERVED_PREFIX
from kseg.segment_reader.decode.schema import RAW_HEADERS
from kseg.segment_reader.payload.debezium import envelope_columns

_RECORD = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", RAW_HEADERS)


def kafka_columns(rows: pa.Schema, keep: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The columns of Kafka's own that decoded rows have: column as it is read -> name in the table."""
    for name in rows.names:
        if name.startswith(RESERVED_PREFIX):
            yield name, name
        elif name in keep:
            yield name, f"{RESERVED_PREFIX}{name}"
        elif name not in _RECORD:
            yield name, f"{RESERVED_PREFIX}{name}"  # provenance was asked for


def typed_columns(plan: PayloadPlan) -> list[pa.Field]:
    """The columns of a key or value; of several kinds of records those of all, by name and type (`kinds`)."""
    kind, kinds = plan.type, plan.kinds
    if not _has_columns(plan):
        return [pa.field(plan.column, kind)]
    names = dict(plan.rename)
    unknown = sorted(names.keys() - (kinds.names if kinds is not None else {child.name for child in kind}))
    if unknown:
        text = f"names the field {unknown[0]}, which the schema does not have"
        raise ConfigurationError.of(f"{plan.place}.rename", text, "write a field's name as the schema has it")
    if kinds is not None:
        return list(kind)
    return [pa.field(names.get(child.name, child.name), child.type) for child in kind]


def _has_columns(plan: PayloadPlan) -> bool:
    """Whether each field of the record is a column; else all of it is one column."""
    return pa.types.is_struct(plan.type) and plan.into_columns


def check_names(parts: Sequence[tuple[PayloadPlan, Sequence[pa.Field]]]) -> None:
    """Raises ConfigurationError with every name that a table cannot have, or not twice."""
    alike = [
        [(plan, fields)] if plan.kinds is None else [(plan, own) for own in plan.kinds.fields] for plan, fields in parts
    ]
    faults = dict.fromkeys(fault for of_table in product(*alike) for fault in _name_faults(of_table))
    if faults:
        raise ConfigurationError(list(faults))


def _name_faults(parts: Sequence[tuple[PayloadPlan, Sequence[pa.Field]]]) -> list[Diagnostic]:
    """Those of the columns of one table."""
    faults: list[Diagnostic] = []
    seen: dict[str, str] = {}
    for plan, fields in parts:
        for field in fields:
            place = f"{plan.place}.{'rename' if _has_columns(plan) else 'as'}"
            if (other := seen.get(field.name.lower())) is not None:
                words = f"columns {other} and {field.name} are one name to Delta"
                faults.append(Diagnostic(place, words, _another_name(plan, field.name, struct=True)))
            seen[field.name.lower()] = field.name
            ours = (f"{RESERVED_PREFIX}rescued", *_of_envelope(plan))
            if field.name.startswith(RESERVED_PREFIX) and field.name not in ours:
                words = f"column {field.name}: names that begin with {RESERVED_PREFIX} are Kafka's own columns"
                faults.append(Diagnostic(place, words, _another_name(plan, field.name, struct=True)))
            if not _is_parquet_name(field.name):
                faults.append(Diagnostic(place, _not_a_parquet_name(field.name), _another_name(plan, field.name)))
            faults += [
                Diagnostic(
                    f"{plan.place}.schema",
                    words,
                    f"leave the field out of the schema, or write format: bytes for the {plan.source}",
                )
                for words in _nested_faults(field.type, field.name)
            ]
            faults += [
                Diagnostic(
                    f"{plan.place}.schema", f"column {path} has {words}", f"write format: bytes for the {plan.source}"
                )
                for path, words in _without_values(field.type, field.name)
            ]
    return faults


def _of_envelope(plan: PayloadPlan) -> tuple[str, ...]:
    return envelope_columns(plan.unavailable_values) if plan.envelope == "debezium" else ()


def _is_parquet_name(name: str) -> bool:
    return bool(name) and not FORBIDDEN_IN_NAMES.intersection(name)


def _not_a_parquet_name(path: str) -> str:
    return f"column {path!r}: Parquet names hold none of space , ; {{}} () newline tab ="


def _nested_faults(kind: pa.DataType, path: str) -> Iterator[str]:
    """Names of fields inside a column that a table cannot have, or not twice; `rename` is of top-level fields alone."""
    while pa.types.is_list(kind) or pa.types.is_map(kind):
        kind = kind.item_type if pa.types.is_map(kind) else kind.value_type
    if pa.types.is_struct(kind):
        seen: dict[str, str] = {}
        for child in kind:
            if (other := seen.get(child.name.lower())) is not None:
                yield f"fields {other} and {child.name} of {path} are one name to Delta"
            seen[child.name.lower()] = child.name
            if not _is_parquet_name(child.name):
                yield _not_a_parquet_name(f"{path}.{child.name}")
            yield from _nested_faults(child.type, f"{path}.{child.name}")


def _without_values(kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    """Path and description of types that Avro has and Delta or Parquet lacks."""
    if pa.types.is_null(kind):
        yield path, "the type null, which Delta does not have"
    elif pa.types.is_map(kind):
        yield from _without_values(kind.item_type, f"{path}{{}}")
    elif pa.types.is_list(kind):
        yield from _without_values(kind.value_type, f"{path}[]")
    elif pa.types.is_struct(kind):
        if not kind.num_fields:
            yield path, "a record without fields, which Parquet cannot hold"
        for child in kind:
            yield from _without_values(child.type, f"{path}.{child.name}")


def _another_name(plan: PayloadPlan, column: str, *, struct: bool = False) -> str:
    """How a column gets another name. struct: whether the name may be that of a field in a struct."""
    if not _has_columns(plan):
        return f"write as: another_name for the {plan.source}"
    field = next((field for field, name in plan.rename if name == column), column)
    return f"write rename: {{{field!r}: another_name}}{', or choose into: struct' if struct else ''}"
