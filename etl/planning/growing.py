"""How a lineage's reader's schema grows with the schemas of its records: columns are added, and become wider where the
job says so (`sink.widen`) and a table can follow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from kseg.etl.config.decoding import Payload
from kseg.etl.decoding.formats.registry import schema_format
from kseg.etl.decoding.rules import NEWEST, DecodingRules
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.schemas import SchemaText
from kseg.etl.rows.types import UnlandableType, delta_type
from kseg.etl.rows.widening import fit
from kseg.etl.tables.parquet.align import side_by_side

_KEEP: Final = (
    "register a schema that keeps the column's type, and set decode.on_error: dead_letter, which sets aside the "
    "records that have this one already; or land in another table by another job"
)
_PINNED: Final = (
    "the planned records are of this schema, whatever is registered now: set decode.on_error: dead_letter, which sets "
    "them aside; or give the run up (`kseg repair JOB --abandon {run}`), and land in another table by another job"
)
_PINNED_FIRST: Final = (
    "the planned records are of this schema, whatever is registered now: set decode.on_error: dead_letter, which sets "
    "them aside; or correct the schema and give the run up (`kseg repair JOB --abandon {run}`): no row has landed, and "
    "the next run takes its columns from the newest version that is registered then"
)
_OF_KINDS: Final = (
    "fields of one name are one column for records of all subjects. Give each kind a table with columns of its own: "
    "`sink.route_by: schema`, routes that are named after records, and no transform; a job that has landed rows with "
    "columns for all kinds goes on with them, so this takes a new job, with new tables. Or give the field another name "
    "in one kind's schema"
)


def grown(
    payload: Payload,
    lineage: str,
    readers: tuple[str, ...],
    texts: Iterable[tuple[str, SchemaText]],
    older: Iterable[SchemaText] = (),
    *,
    rules: DecodingRules = NEWEST,
    widen: bool = False,
) -> str:
    """The reader's schema that follows these versions once rows of these schemas, by name, are landed.

    older: other versions, whose types new columns hold as well. widen: the types of a table that is there may become
    wider. Raises as `pinned_schemas`.
    """
    growing = Growing(payload, lineage, readers, rules, widen=widen)
    for name, text in texts:
        growing.add(name, text)
    growing.widen(older)
    return growing.text or readers[-1]


@dataclass(frozen=True, slots=True)
class _Wider:
    """A reader's schema with wider types. of_table: whether columns that the table has are among them."""

    reader: Any
    of_table: bool = False


class Growing:
    """A lineage's newest version, and the next one in the making.

    Columns that the table does not have yet get the widest type of all versions, in whatever order they come.

    widen: columns of a table that is there may become wider, as far as Delta allows it. Avro promotes more than that.
    takes: all records are of one kind, though their topics have several: whether a record's name is of it. run: the run
    whose records have the schemas. first: neither it nor a run before it has landed rows, so that no column's type is
    decided yet. anew: no run has; columns of earlier versions are forgotten.
    """

    def __init__(
        self,
        payload: Payload,
        lineage: str,
        readers: tuple[str, ...],
        rules: DecodingRules,
        *,
        widen: bool = False,
        takes: Callable[[str | None], bool] | None = None,
        run: str | None = None,
        first: bool = False,
        anew: bool = False,
    ) -> None:
        self._takes, self._run = takes, run
        self._pinned = _PINNED_FIRST if first else _PINNED
        self._payload, self._lineage = payload, lineage
        self._before, self._widen = readers, widen
        self._rules = rules
        self._format = schema_format(payload, rules)
        kept = () if anew else readers
        # A table that is not there yet has the columns of each subject's newest version, whatever comes later.
        self._add_fields = payload.unknown == "add" or not kept
        from kseg.segment_reader.payload.errors import PayloadSchemaError

        try:
            self._reader: Any = self._format.reader(kept[-1]) if kept else None
        except PayloadSchemaError:
            message = "the columns of this job's table come from schemas of another format"
            remedy = "write the format that it had, or land in another table by another job"
            raise ConfigurationError.of(f"decode.{lineage}.format", message, remedy) from None
        self._table: Any = None if first else self._reader

    def add(self, name: str, text: SchemaText) -> None:
        with self._sound():
            for writer in self._writers(text):
                self._add(name, writer)

    def _writers(self, text: SchemaText) -> list[Any]:
        """What a schema is of these records: of a union the records that are taken. Raises PayloadSchemaError."""
        writer = self._format.writer(text.text, text.uses)
        return [writer] if self._takes is None else list(self._format.parts(writer, self._takes))

    def _add(self, name: str, writer: Any) -> None:
        """Raises PayloadSchemaError, Refused."""
        made = self._with(name, writer)
        columns = 0 if made is self._reader else self._columns(made)
        if columns > self._payload.max_columns:
            raise Refused.of(
                "too-many-columns",
                {"name": name, "columns": columns, "section": self._lineage, "limit": self._payload.max_columns},
            )
        self._reader = made

    def _with(self, name: str, writer: Any) -> Any:
        """The reader's schema with a writer's. Raises Refused, PayloadSchemaError."""
        from kseg.segment_reader.payload.errors import IncompatibleSchemas

        if self._reader is None:
            return self._format.first(writer)
        try:
            made = self._format.merged(self._reader, writer, add_fields=self._add_fields)
            if self._payload.unknown == "rescue":
                self._format.decoder(writer, made)  # or a field that the table lacks has no text
            return made
        except IncompatibleSchemas as error:
            conflict = error
        wider = self._widened(writer, add_fields=self._add_fields)
        if wider is not None and (self._widen or not wider.of_table):
            return wider.reader
        remedy = _KEEP if self._run is None else self._pinned.format(run=self._run)
        if self._payload.several and self._takes is None:
            remedy = _OF_KINDS if self._run is None else f"{_OF_KINDS}. Otherwise, {remedy}"
        if (subjects := self._renamed(writer)) is not None:
            remedy = f"write `subject: {subjects}`, a list: then records match whatever they are called; or {remedy}"
        if wider is not None:
            remedy = f"set sink.widen: true, which widens the table's columns for good; or {remedy}"
        rows, table = (_columns_of(self._format.type(one)) for one in (self._format.first(writer), self._reader))
        raise Refused.of(
            "schema-conflict",
            {
                "name": name,
                "place": conflict.place,
                "reason": conflict.reason,
                "changes": remedy,
                "columns": side_by_side(rows, table),
            },
        ) from None

    def _renamed(self, writer: Any) -> str | None:
        """The job's subject as a list, if the schemas differ in nothing but the names of their records."""
        from kseg.segment_reader.payload.errors import PayloadSchemaError

        payload = self._payload
        if payload.several or payload.defaults == "fill":
            return None
        subjects = payload.subject_templates(self._lineage.rpartition(".")[2])
        by_list = schema_format(payload.model_copy(update={"subject": subjects}), self._rules)
        if by_list == self._format:
            return None  # a format that does not compare names
        try:
            by_list.merged(self._reader, writer, add_fields=self._add_fields, widen=self._table is None)
        except PayloadSchemaError:
            return None
        return f"[{', '.join(map(json.dumps, subjects))}]"

    def _widened(self, writer: Any, *, add_fields: bool) -> _Wider | None:
        """The reader's schema with types that hold the writer's; None where a table's columns cannot become such."""
        from kseg.segment_reader.payload.errors import PayloadSchemaError

        try:
            made = self._format.merged(self._reader, writer, add_fields=add_fields, widen=True)
            if self._table is None:
                return _Wider(made)
            before, after = (delta_type(self._format.type(one)) for one in (self._table, made))
        except (PayloadSchemaError, UnlandableType):
            return None
        found = fit(after, before)
        return _Wider(made, bool(found.widened)) if found is not None else None

    def _columns(self, reader: Any) -> int:
        """How many there are. Raises PayloadSchemaError where there can be none."""
        from kseg.segment_reader.payload.avro.evolution import columns_of
        from kseg.segment_reader.payload.debezium import Envelope
        from kseg.segment_reader.payload.unavailable import Unavailable

        kind = self._format.type(reader)
        if self._payload.envelope == "debezium":
            how = self._payload.unavailable_by(self._rules)
            kind = Envelope(kind, unavailable=Unavailable(how)).type
        return columns_of(kind)

    def widen(self, texts: Iterable[SchemaText]) -> None:
        """Give the columns that the table does not have yet the widest types of all these versions."""
        from kseg.segment_reader.payload.errors import PayloadSchemaError

        for text in texts if self._reader is not self._table else ():
            if text.unusable:
                continue
            try:
                writers = self._writers(text)
            except PayloadSchemaError:
                continue  # it matters if a record has it
            for writer in writers:
                wider = self._widened(writer, add_fields=False)
                if wider is not None and not wider.of_table:
                    self._reader = wider.reader

    @property
    def begun(self) -> bool:
        """Whether there is a reader's schema."""
        return self._reader is not None

    @property
    def text(self) -> str | None:
        """The next version; None where nothing was added."""
        assert self._reader is not None
        text = self._format.text(self._reader)
        return None if self._before and text == self._before[-1] else text

    @property
    def version(self) -> int:
        return len(self._before) + (self.text is not None)

    def covers(self, text: SchemaText) -> bool:
        """Whether the reader's schema has all that the writer's has."""
        from kseg.segment_reader.payload.errors import PayloadSchemaError

        assert self._reader is not None
        if text.unusable:
            return False
        add = self._payload.unknown == "add"
        try:
            made = [self._format.merged(self._reader, one, add_fields=add) for one in self._writers(text)]
        except PayloadSchemaError:
            return False  # it matters if a record has it
        return all(one is self._reader for one in made)

    def rejects(self, text: SchemaText) -> bool:
        """Whether no payload of the writer's schema can be read with the reader's."""
        from kseg.segment_reader.payload.errors import IncompatibleSchemas

        assert self._reader is not None
        for writer in self._writers(text):
            try:
                self._format.decoder(writer, self._reader)
            except IncompatibleSchemas:
                continue
            return False
        return True

    @contextmanager
    def _sound(self) -> Iterator[None]:
        from kseg.segment_reader.payload.errors import PayloadSchemaError

        try:
            yield
        except PayloadSchemaError as error:
            place = f"decode.{self._lineage}.schema"
            remedy = "register a schema that columns can hold"
            if self._payload.unknown == "rescue" and self._reader is not None:
                remedy += ", or set unknown_fields: ignore, which leaves fields out that the table lacks"
            raise ConfigurationError.of(place, str(error), remedy) from None


def _columns_of(kind: pa.DataType) -> pa.Schema:
    return pa.schema(list(kind) if pa.types.is_struct(kind) else [pa.field("value", kind)])
