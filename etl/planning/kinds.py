"""Kinds of records whose columns do not depend on one another: those of one table are a kind.

    sink.routes                    kind, by what schemas call its records    lineage in the ledger
    shop.Order: orders             shop.Order                                value:shop.Order
    shop.Payment: payments         shop.Payment, shop.Refund                 value:shop.Payment
    shop.Refund: payments
    "*": others                    all others, and those without a name      value:*

`value` itself has the schemas of all kinds by id, and no reader's schema. A kind's lineage is called by the first of
its routes that the ledger has a lineage of: a route that is added to a table goes on with the table's lineage.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from kseg.etl.config.decoding import Payload, sections_of
from kseg.etl.config.job import Job
from kseg.etl.config.routing import names_records
from kseg.etl.config.sections import CATCH_ALL
from kseg.etl.decoding.formats.registry import FORMATS, schema_format
from kseg.etl.decoding.kinds import kind_of
from kseg.etl.decoding.rules import FIRST, DecodingRules
from kseg.etl.ledger.schemas import Lineage, LineageChange, SchemaText
from kseg.etl.planning.growing import Growing

_SEPARATOR: Final = ":"
"""Between a lineage and a kind: no topic has it in its name."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """lineage: of the values of all kinds. records: of each kind, what schemas call its records, as routes do."""

    lineage: str
    records: tuple[tuple[str, ...], ...]

    @classmethod
    def of_routes(cls, lineage: str, routes: Mapping[str, str]) -> Kinds:
        """routes: the table of each."""
        tables: dict[str, list[str]] = {}
        for route, table in routes.items():
            tables.setdefault(table, []).append(route)
        return cls(lineage, tuple(map(tuple, tables.values())))

    def of(self, record: str | None) -> int | None:
        """The number of a record's kind by what its schema calls it; None where no table takes it."""
        return kind_of(record, self.records)

    def of_schema(self, payload: Payload, text: SchemaText) -> list[int]:
        """The kinds that payloads of a schema may be of: a schema of Protobuf has several messages. Raises
        PayloadSchemaError."""
        form = schema_format(payload, FIRST)  # records have the same names by all rules
        records = form.records(form.writer(text.text, text.uses)) or (None,)
        return list(dict.fromkeys(number for record in records if (number := self.of(record)) is not None))

    def payload(self, kind: int, payload: Payload) -> Payload:
        """What the job file says of payloads, as it is for those of one kind."""
        if not FORMATS[payload.format].indexed:
            return payload
        return payload.model_copy(update={"message": self.records[kind][0]})

    def lineage_of(self, kind: int, known: Container[str]) -> str:
        """What the lineage of a kind is called. known: the lineages that there are."""
        names = [f"{self.lineage}{_SEPARATOR}{record}" for record in self.records[kind]]
        return next((name for name in names if name in known), names[0])


def kinds_of(job: Job, lineage: str, known: Mapping[str, Lineage], unions: Container[str] = ()) -> Kinds | None:
    """The kinds that a lineage's records are told apart by; None where all have one reader's schema.

    known: all lineages of the job. One that has a reader's schema for all kinds keeps it: its tables were made by it.
    unions: lineages whose newest schema is a union of records.
    """
    values = _values(job)
    several = (
        payload.several or name in unions or any(one.startswith(f"{name}{_SEPARATOR}") for one in known)
        for name, payload in values.items()
    )
    if lineage not in values or not _routes_apart(job) or not all(map(_has_kinds, values.values())) or not all(several):
        return None
    if any(known[name].readers for name in values if name in known):
        return None
    kinds = Kinds.of_routes(lineage, {route: str(target) for route, target in job.sink.targets.items()})
    # Messages of Protobuf are a kind each: fields are columns by number, which says nothing of another message's.
    by_message = any(FORMATS[payload.format].indexed for payload in values.values())
    return kinds if len(kinds.records) > 1 or by_message else None


def _values(job: Job) -> dict[str, Payload]:
    """By lineage, the values that a job decodes."""
    sections = sections_of(job.decode) if job.decode is not None else {}
    return {".".join((*path[1:], "value")): its.value for path, its in sections.items() if its.value is not None}


def _routes_apart(job: Job) -> bool:
    """Whether each record's table is told by what its schema calls it, and its rows are landed as they are decoded."""
    by = job.sink.routing
    if by is None or by.kind != "schema" or job.transform:
        return False
    named = [route for route in job.sink.targets if route != CATCH_ALL]
    return bool(named) and all(map(names_records, named))


def _has_kinds(payload: Payload) -> bool:
    return payload.by_registry and payload.into == "columns" and payload.envelope == "none"


def in_union(payload: Payload, text: SchemaText) -> bool:
    """Whether a schema is a union of records."""
    from kseg.segment_reader.payload.errors import PayloadSchemaError

    form = schema_format(payload, FIRST)  # by all rules
    try:
        return not text.unusable and form.in_union(form.writer(text.text, text.uses))
    except PayloadSchemaError:
        return False  # planning says so


class Readers:
    """What records of one lineage are decoded with, in the making: one reader's schema, or one for each kind."""

    def __init__(
        self,
        payload: Payload,
        lineage: str,
        known: Mapping[str, Lineage],
        kinds: Kinds | None,
        rules: DecodingRules,
        *,
        widen: bool = False,
        run: str | None = None,
        first: bool = False,
        anew: bool = False,
    ) -> None:
        """known: all lineages of the job. kinds: None where all records have one reader's schema. rules, widen, run,
        first, anew: as of `Growing`."""
        self._payload, self._lineage, self._known, self._kinds = payload, lineage, known, kinds
        self._grow = partial(Growing, rules=rules, widen=widen, run=run, first=first, anew=anew)
        self._growing: dict[str, Growing] = {}
        self._of_schemas: dict[str, list[int]] = {}  # by hash: parsing costs more than all else here
        if kinds is None:
            self._at(lineage)
            return
        for number in range(len(kinds.records)):
            if (name := kinds.lineage_of(number, known)) in known:
                self._at(name, number)

    def add(self, name: str, text: SchemaText) -> None:
        """Calls `Growing.add` of the kinds in the schema. A schema whose records no table takes adds nothing."""
        for growing in self._of(text):
            growing.add(name, text)

    def begin(self, texts: Iterable[SchemaText]) -> None:
        """Give columns that tables do not have yet the widest types of all these versions. A kind that begins without
        the newest version of a subject begins with the last of its own."""
        usable = [text for text in texts if not text.unusable]
        for text in reversed(usable):
            for growing in self._of(text):
                if not growing.begun:
                    growing.add("the newest schema of such records", text)
        self.widen(usable)

    def widen(self, texts: Iterable[SchemaText]) -> None:
        """Calls `Growing.widen` of the kinds that have begun."""
        for text in texts:
            for growing in self._of(text) if not text.unusable else ():
                growing.widen([text])

    def covers(self, text: SchemaText) -> bool:
        """Whether nothing of this schema would be added."""
        return not text.unusable and all(growing.begun and growing.covers(text) for growing in self._of(text))

    def rejects(self, text: SchemaText) -> bool:
        """Whether all kinds in the schema have begun and reject it (`Growing.rejects`)."""
        found = self._of(text)
        return bool(found) and all(growing.begun and growing.rejects(text) for growing in found)

    @property
    def version(self) -> int:
        """The version of the reader's schema for all records; 0 if each kind has its own."""
        return self._growing[self._lineage].version if self._kinds is None else 0

    @property
    def text(self) -> str | None:
        """The next version of the one for all records; None where nothing was added to it."""
        return self._growing[self._lineage].text if self._kinds is None else None

    @property
    def of_kinds(self) -> dict[str, int]:
        """The version of each kind, by its lineage."""
        return {name: growing.version for name, growing in self._begun()}

    def changes(self, registry: str) -> dict[str, LineageChange]:
        """What is new in the lineages of kinds."""
        return {
            name: LineageChange(registry, growing.version, text)
            for name, growing in self._begun()
            if (text := growing.text) is not None
        }

    def _begun(self) -> Iterator[tuple[str, Growing]]:
        kinds = self._growing.items() if self._kinds is not None else ()
        return ((name, growing) for name, growing in kinds if growing.begun)

    def _of(self, text: SchemaText) -> list[Growing]:
        """The one for all records, or those of the kinds that a schema's records may be of."""
        if self._kinds is None:
            return [self._at(self._lineage)]
        if text.unusable:
            return []
        if (numbers := self._of_schemas.get(text.hash)) is None:
            numbers = self._of_schemas[text.hash] = self._kinds.of_schema(self._payload, text)
        return [self._at(self._kinds.lineage_of(number, self._known), number) for number in numbers]

    def _at(self, name: str, kind: int | None = None) -> Growing:
        if name not in self._growing:
            readers = self._known[name].readers if name in self._known else ()
            payload = self._payload if kind is None or self._kinds is None else self._kinds.payload(kind, self._payload)
            takes = partial(self._is_of, kind) if kind is not None else None
            self._growing[name] = self._grow(payload, self._lineage, readers, takes=takes)
        return self._growing[name]

    def _is_of(self, kind: int, record: str | None) -> bool:
        return self._kinds is not None and self._kinds.of(record) == kind
