"""Rows with their route: what of a record decides into which table of `sink.routes` its row lands.

    header.NAME   the last header of that name, as UTF-8 text      of the record as it was read
    schema        id or GUID of the value's writer schema, or      the same
                  what that calls its records
    value.FIELD   a field of the decoded value, as text            of the row as `decode:` gives it
    key.FIELD     the same of the key

It is decided here, right behind decoding and before the user's steps: the route is a function of the record alone, so
every attempt finds the same one, and a record without one still has its bytes for the dead letters. Steps carry it in
the column `_kseg_route`, by which the writer finds the table; it is not landed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.etl.decoding.bad_records import BadRecord, BadRecords
from kseg.etl.decoding.columns import typed_columns
from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.decoding.errors import NoRouteForRecord, address_of
from kseg.etl.decoding.framed import record_columns, record_names
from kseg.etl.decoding.kinds import RecordColumns
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.record_ids import RecordIds
from kseg.etl.errors import ConfigurationError, listed
from kseg.etl.rows.names import ROUTE_COLUMN
from kseg.etl.transform.decode import DecodeStep
from kseg.etl.transform.decode_by_topic import as_landed as decode_as_landed
from kseg.etl.transform.step import Address, BatchStep
from kseg.segment_reader.payload.framing import frames_of_records

PLACE: Final = "sink.route_by"
ROUTE: Final = "ROUTE"
"""The error class of a dead letter for which there is no route."""

OTHERS: Final = "*"
_SHOWN: Final = 100


@dataclass(frozen=True)
class RouteStep(BatchStep):
    """The step of `decode:`, where there is one, and the route behind it. Picklable.

    kind, name: of `sink.route_by` (`etl.config.routing`). routes: the keys of `sink.routes`. forgiving: records without
    a route keep their row, and have null there.
    """

    kind: Literal["schema", "header", "key", "value"]
    name: str
    routes: tuple[str, ...]
    decode: BatchStep | None = None
    forgiving: bool = False
    place: str = PLACE

    @property
    def topics(self) -> tuple[str, ...]:
        return self.decode.topics if self.decode is not None else ()

    def of_topic(self, topic: str) -> RouteStep:
        if self.decode is None or not self.decode.topics:
            return self
        return replace(self, decode=self.decode.of_topic(topic))

    @property
    def sets_aside(self) -> bool:
        return True  # what has no route; and rows are counted by route

    @property
    def decodes(self) -> bool:
        return True

    @property
    def has_dead_letters(self) -> bool:
        return self.decode is not None and self.decode.has_dead_letters

    @property
    def route_by(self) -> str:
        """The value of `route_by` in the job file."""
        return f"{self.kind}.{self.name}" if self.name else self.kind

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        given = rows if self.decode is None else self.decode.output_schema(rows)
        if self.kind in ("key", "value"):
            _as_text(_nested(given, self._path), self.route_by)
        return given.append(pa.field(ROUTE_COLUMN, pa.string()))

    def columns_of_records(self) -> RecordColumns | None:
        """The columns that rows of records may have values in, besides Kafka's own; None where something else decides
        on routes, or rows are no records of a registry's schemas."""
        if self.kind != "schema" or not isinstance(self.decode, DecodeStep):
            return None
        plan = self._values
        if plan is None or plan.framed is None or plan.envelope != "none" or not plan.into_columns:
            return None
        if plan.kinds is not None:
            kinds = enumerate(plan.framed.kinds)
            return RecordColumns(
                {record: plan.kinds.landed(number) for number, kind in kinds for record in kind.records}, of_kinds=True
            )
        names, renamed = record_names(plan.framed), dict(plan.rename)
        if not names:
            return None
        beside = {field.name for other in self.decode.payloads if other is not plan for field in typed_columns(other)}
        found: dict[str, set[str]] = {}
        for key, columns in record_columns(plan.framed).items():
            if key in names:
                mine = beside.union(renamed.get(column, column) for column in columns)
                found.setdefault(names[key], set()).update(mine)
        return RecordColumns({record: {name: name for name in sorted(its)} for record, its in found.items()})

    @cached_property
    def _records(self) -> dict[str, str]:
        """What the records of each schema are called, where it comes from a registry that values are decoded by."""
        framed = self._values.framed if self._values is not None else None
        return record_names(framed) if framed is not None else {}

    @property
    def _values(self) -> PayloadPlan | None:
        plans = self.decode.payloads if isinstance(self.decode, DecodeStep) else ()
        return next((plan for plan in plans if plan.source == "value"), None)

    @cached_property
    def _path(self) -> tuple[str, ...]:
        """The field's place in decoded rows: a column, and names within it."""
        assert isinstance(self.decode, DecodeStep)
        plan = next((plan for plan in self.decode.payloads if plan.source == self.kind), None)
        if plan is None:
            raise ConfigurationError.of(PLACE, f"is a field of the {self.kind}, which is not decoded")
        columns = [field.name for field in typed_columns(plan)]
        whole = pa.types.is_struct(plan.type) and not plan.into_columns
        fields = [child.name for child in plan.type] if whole else columns
        renamed = dict(plan.rename)
        first, *below = self.name.split(".")
        for named, *within in ((self.name,), (first, *below)):  # a name may have dots itself
            if (field := renamed.get(named, named)) in fields:
                return (plan.column, field, *within) if whole else (field, *within)
        known = f"one of {listed(fields, most=20)}"
        raise ConfigurationError.of(PLACE, f"names the field {self.name}, which no {self.kind} has", known)

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        """Raises NoRouteForRecord at the first record without a route, unless it is a dead letter."""
        bad_records = bad_records or BadRecords()
        if self.decode is None:
            rows = batch
            bad_records.count(DecodingCounts(decoded=batch.num_rows))
        else:
            rows = self.decode.apply(batch, address, bad_records)
        found = self._found(batch, rows)
        named = pc.is_in(found, value_set=pa.array(self.routes, pa.string()))
        others = pa.scalar(OTHERS if OTHERS in self.routes else None, pa.string())
        route = pc.if_else(named, found, others)
        if route.null_count and not self.forgiving:
            rows, route = self._without_unrouted(batch, rows, found, route, bad_records)
        bad_records.route(route)
        return pa.RecordBatch.from_arrays([*rows.columns, route], names=[*rows.schema.names, ROUTE_COLUMN])

    def _without_unrouted(
        self, records: pa.RecordBatch, rows: pa.RecordBatch, found: pa.Array, route: pa.Array, bad_records: BadRecords
    ) -> tuple[pa.RecordBatch, pa.Array]:
        lost = np.flatnonzero(np.asarray(route.is_null()))
        at = _records_of(records, rows)[lost]
        if not self.has_dead_letters:
            first = int(lost[0])
            message = self._message(found[first].as_py())
            raise NoRouteForRecord(self.route_by, message, **address_of(records, int(at[0])))
        values = dict(zip(at.tolist(), found.take(pa.array(lost)).to_pylist(), strict=True))

        def explain(record: int) -> BadRecord:
            return BadRecord(record, "row", ROUTE, self.route_by, self._message(values[record]))

        bad_records.count(DecodingCounts(decoded=-len(lost)))
        bad_records.dead(records, at.tolist(), explain)
        there = route.is_valid()
        return rows.filter(there), route.filter(there)

    def _message(self, value: str | None) -> str:
        what = "it has none" if value is None else f"it is {value[:_SHOWN]!r}"
        return f'{what}, and sink.routes has neither that nor "*"'

    def _found(self, records: pa.RecordBatch, rows: pa.RecordBatch) -> pa.Array:
        """The deciding value of each row, as text."""
        if self.kind in ("key", "value"):
            return _as_text(_nested(rows, self._path), self.route_by)
        of_records = self._headers(records) if self.kind == "header" else self._schemas(records)
        if rows.num_rows == records.num_rows:
            return of_records
        return of_records.take(pa.array(_records_of(records, rows)))

    def _headers(self, records: pa.RecordBatch) -> pa.Array:
        """The last header of the name, of each record; null where it has none, or one that is no text."""
        headers = records.column("headers")
        entries = headers.flatten()
        named = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(entries.field(0), self.name), False)))
        place = np.full(records.num_rows, -1, np.int64)
        # Entries are in their records' order, so the last one of a record is what stays.
        place[np.asarray(pc.list_parent_indices(headers))[named]] = named
        values = entries.field(1).take(pa.array(place, mask=place < 0))
        return _utf8(values)

    def _schemas(self, records: pa.RecordBatch) -> pa.Array:
        plan = self._values
        if plan is not None and plan.names_several_records:
            return plan.records_of(records)
        values, headers = records.column("value"), records.column("headers")
        if plan is None or plan.framed is None:
            frames = frames_of_records(values, headers, "value")
        else:
            frames = plan.framed.frames(plan.framed.plain(values), headers, "value")
        # A route of the schema itself comes before one of all schemas of the record.
        keys = [str(schema) for schema in frames.schemas]
        names = pa.array(
            [key if key in self.routes else self._records.get(key, key) for key in keys],
            pa.string(),
        )
        return names.take(pa.array(frames.which, mask=frames.which < 0))


def _utf8(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text_or_none(value) for value in values.to_pylist()], pa.string())


def _text_or_none(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _records_of(records: pa.RecordBatch, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The number of each row's record."""
    if rows.num_rows == records.num_rows:
        return np.arange(rows.num_rows)
    return RecordIds.of(rows).places_in(RecordIds.of(records))


def _nested(rows: pa.RecordBatch | pa.Schema, path: tuple[str, ...]) -> pa.Array:
    """The column, or what is within it; null where any struct around it is. Of a schema: an empty array."""
    if isinstance(rows, pa.Schema):
        rows = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in rows], schema=rows)
    column = rows.column(path[0])
    for name in path[1:]:
        kind = column.type
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            known = ", ".join(child.name for child in kind) if pa.types.is_struct(kind) else ""
            remedy = f"one of {known}" if known else None
            raise ConfigurationError.of(
                PLACE, f"names a field {name}, which {'.'.join(path[:-1])} does not have", remedy
            )
        column = pc.struct_field(column, [name])
    return column


def _as_text(column: pa.Array, route_by: str) -> pa.Array:
    """Text as it is, whole numbers in digits, booleans as true and false. Raises ConfigurationError for other types."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_string(kind):
        return column
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_large_string(kind):
        return column.cast(pa.string())
    raise ConfigurationError.of(
        PLACE, f"{route_by} is {kind}", "route by text, a whole number or a boolean, which are the names of routes"
    )


def as_landed(step: BatchStep, engine: Literal["fast", "reference"] = "fast") -> BatchStep:
    """A step of decoding or routing for records that were landed before: one that has no row now is a row of nulls."""
    if isinstance(step, RouteStep):
        decode = None if step.decode is None else decode_as_landed(step.decode, engine)
        return replace(step, decode=decode, forgiving=True)
    return decode_as_landed(step, engine)
