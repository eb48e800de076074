"""Records that contain themselves: which they are, and what a changed record's own uses of it become.

Such a record is a struct down to where it would begin again. There, its value is one column of JSON text: no column
type holds any number of levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kseg.segment_reader.payload.avro.schema import AvroArray, AvroField, AvroMap, AvroRecord, Schema, Union


def records_in(schema: Schema) -> dict[int, AvroRecord]:
    """The records of a schema, itself included, by identity."""
    found: dict[int, AvroRecord] = {}
    pending: list[Schema] = [schema]
    while pending:
        match pending.pop():
            case AvroRecord() as record if id(record) not in found:
                found[id(record)] = record
                pending += [field.schema for field in record.fields]
            case AvroArray(items=below) | AvroMap(values=below):
                pending.append(below)
            case Union(branches=branches):
                pending += branches
    return found


def contains_itself(record: AvroRecord) -> bool:
    return any(id(record) in records_in(field.schema) for field in record.fields)


def is_recursive(schema: Schema) -> bool:
    """Whether a record of the schema contains itself."""
    done: set[int] = set()
    open_: set[int] = set()
    pending: list[tuple[AvroRecord, Iterator[AvroRecord]]] = []

    def begin(record: AvroRecord) -> None:
        open_.add(id(record))
        pending.append((record, iter(_next_records([field.schema for field in record.fields]))))

    for root in _next_records([schema]):
        begin(root)
        while pending:
            record, below = pending[-1]
            following = next(below, None)
            if following is None:
                pending.pop()
                open_.discard(id(record))
                done.add(id(record))
            elif id(following) in open_:
                return True
            elif id(following) not in done:
                begin(following)
    return False


def _next_records(schemas: Sequence[Schema]) -> list[AvroRecord]:
    """The records that begin in these types, without those inside of them."""
    found: list[AvroRecord] = []
    pending = list(schemas)
    while pending:
        match pending.pop():
            case AvroRecord() as record:
                found.append(record)
            case AvroArray(items=below) | AvroMap(values=below):
                pending.append(below)
            case Union(branches=branches):
                pending += branches
    return found


def tied(
    fields: Sequence[AvroField], old: AvroRecord, new: AvroRecord, around: Sequence[AvroRecord] = ()
) -> list[AvroField]:
    """The fields of a record that takes the place of another one, which they may contain: they contain the new one.

    Records between the two are copies. around: records in which the two are, which are left as they are: if one of them
    changes by this, its own fields are tied then.
    """
    return _Tie(old, new, around).fields(fields)


class _Tie:
    def __init__(self, old: AvroRecord, new: AvroRecord, around: Sequence[AvroRecord]) -> None:
        self._old, self._new, self._around = old, new, around
        self._made: dict[int, AvroRecord] = {}

    def fields(self, fields: Sequence[AvroField]) -> list[AvroField]:
        made = []
        for field in fields:
            schema = self._of(field.schema)
            same = schema is field.schema
            made.append(field if same else AvroField(field.name, schema, field.default, field.aliases))
        return made

    def _of(self, schema: Schema) -> Schema:
        match schema:
            case AvroRecord():
                return self._record(schema)
            case AvroArray(items=below):
                items = self._of(below)
                return schema if items is below else AvroArray(items)
            case AvroMap(values=below):
                values = self._of(below)
                return schema if values is below else AvroMap(values)
            case Union(branches=branches):
                made = tuple(map(self._of, branches))
                return schema if all(a is b for a, b in zip(made, branches, strict=True)) else Union(made)
        return schema

    def _record(self, record: AvroRecord) -> AvroRecord:
        if record is self._old:
            return self._new
        if id(record) in self._made:
            return self._made[id(record)]
        if record is self._new or record in self._around or id(self._old) not in records_in(record):
            return record
        copy = self._made[id(record)] = AvroRecord(record.name, record.aliases)
        copy.fields += self.fields(record.fields)
        return copy
