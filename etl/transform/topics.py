"""The rows that a transform's steps on batches give, topic by topic: topics of one table give one schema.

A `decode:` section may have entries by topic. Columns that topics of one table share have one type, and a column that
only some topics have is null in the rows of the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from kseg.etl.decoding.bad_records import BadRecords
from kseg.etl.decoding.kinds import is_of_kinds
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.transform.step import Address
from kseg.etl.transform.transform import BatchSteps
from kseg.segment_reader.payload.ddl import type_name

_OURS = "_kseg_"


@dataclass(frozen=True)
class TopicRows:
    """One topic's. steps: its own; given: the schema of what they give; schema: of its table's rows. Picklable."""

    steps: BatchSteps
    given: pa.Schema
    schema: pa.Schema

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        """The table's rows for a batch of records. Raises as `BatchSteps.apply`."""
        out = self.steps.apply(batch, self.given, address, bad_records)
        if self.given.names == self.schema.names:
            return out
        have = set(self.given.names)
        arrays = [
            out.column(field.name) if field.name in have else pa.nulls(out.num_rows, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def rows_by_topic(steps: BatchSteps, rows: pa.Schema, tables: Mapping[str, Hashable]) -> dict[str, TopicRows]:
    """The rows of each topic. rows: the schema of records as they are read. tables: each topic's table.

    Raises:
        ConfigurationError: a step does not work, or two topics of one table give a column other types.
    """
    made: dict[tuple[int, ...], pa.Schema] = {}
    own = {topic: steps.of_topic(topic) for topic in tables}
    alike = {topic: tuple(map(id, its.steps)) for topic, its in own.items()}
    for topic, which in alike.items():
        if which not in made:
            made[which] = own[topic].output_schema(rows)
    by_table: dict[Hashable, dict[str, pa.Schema]] = {}
    for topic, table in tables.items():
        by_table.setdefault(table, {})[topic] = made[alike[topic]]
    result: dict[str, TopicRows] = {}
    for given in by_table.values():
        schema = _of_one_table(given)
        for topic, its_own in given.items():
            result[topic] = TopicRows(own[topic], its_own, schema)
    return result


def table_schemas(
    steps: BatchSteps, rows: pa.Schema, tables: Mapping[str, str], *, merge: bool
) -> dict[str, pa.Schema]:
    """The schema of each table's rows. merge: `sink.merge_schema`: its topics may differ in which columns they have.

    Raises:
        ConfigurationError: as `rows_by_topic`, and where topics of one table have other columns without `merge`.
    """
    found = rows_by_topic(steps, rows, tables)
    for topic, its in found.items():
        lacking = sorted(set(its.schema.names) - set(its.given.names))
        if lacking and not merge:
            other = next(o for o in tables if tables[o] == tables[topic] and lacking[0] in found[o].given.names)
            raise ConfigurationError.of(
                "decode",
                f"topics {other} and {topic} land in one table, and {topic} has no column {lacking[0]}",
                "set sink.merge_schema: true for nulls there, or give the topics tables of their own (`sink.routes`)",
            )
    return {table: found[topic].schema for topic, table in tables.items()}


def _of_one_table(given: Mapping[str, pa.Schema]) -> pa.Schema:
    """Columns by name, in the order in which topics have them; Kafka's own behind all others."""
    schemas = list(given.values())
    if all(schema is schemas[0] for schema in schemas):
        return schemas[0]
    found: dict[str, tuple[str, pa.Field]] = {}
    faults: list[Diagnostic] = []
    for topic, schema in given.items():
        for field in schema:
            name = field.name if is_of_kinds(field.name) else field.name.lower()
            first, known = found.setdefault(name, (topic, field))
            if known.name != field.name or known.type != field.type:
                faults.append(
                    Diagnostic(
                        "decode",
                        f"topics {first} and {topic} land in one table, and their columns differ: "
                        f"{known.name} {type_name(known.type)}, {field.name} {type_name(field.type)}",
                        "rename one of them (`rename:`), or give the topics tables of their own (`sink.routes`)",
                    )
                )
    if faults:
        raise ConfigurationError(faults)
    fields = [field for _, field in found.values()]
    return pa.schema(sorted(fields, key=lambda field: field.name.startswith(_OURS)))
