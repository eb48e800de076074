"""Which schemas a run decodes with: read from the registry at the plan, merged into the table's lineage, and pinned.

    registry ──► all versions of each topic's subject ──► newest merged into the lineage's reader's schema ──► plan
                                                     └──► those that add nothing to it, by id and GUID     ──► plan

Ranges are pinned first, and producers register a schema before they write with it: so a record's schema is among the
versions, if it is of this subject. A schema with fields that the reader's lacks is left out of the plan: fields that
no record has become no columns. One that a record has after all is found by the task, and added then (`extended`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kseg.client.registry.errors import RegistryRejected, SchemaNotFound
from kseg.client.registry.registry import SchemaRegistry
from kseg.client.registry.schemas import Schema as RegisteredSchema
from kseg.etl.config.decoding import Payload, sections_of
from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.schemas import Lineage, LineageChange, SchemasAdded, SchemaText
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import PinnedSchemas

if TYPE_CHECKING:
    from kseg.segment_reader.payload.avro.schema import Schema

_TYPES = {"avro": "AVRO"}


@dataclass(frozen=True, slots=True)
class FoundSchemas:
    """What the registry has for one lineage.

    newest: the last version of each subject, with its name for messages. texts: by hash. writers: hashes by id or GUID.
    subjects: ids by subject and version.
    """

    registry: str
    newest: tuple[tuple[str, SchemaText], ...] = ()
    texts: dict[str, SchemaText] = field(default_factory=dict)
    writers: dict[str, str] = field(default_factory=dict)
    subjects: dict[str, dict[str, str]] = field(default_factory=dict)


def lineages_of(job: Job) -> Iterator[tuple[str, Payload]]:
    """Lineage and section of the keys and values whose schemas are in a registry."""
    for path, section in sections_of(job.decode).items() if job.decode is not None else ():
        for source in ("key", "value"):
            payload: Payload | None = getattr(section, source)
            if payload is not None and payload.by_registry:
                yield ".".join((*path[1:], source)), payload


def _subjects(job: Job, lineage: str, payload: Payload, topics: Iterable[str]) -> list[str]:
    """Those of the topics that a part of `decode:` is of."""
    named, _, source = lineage.rpartition(".")
    of_others = {topic for topic in job.decode if topic != "*"} if isinstance(job.decode, Mapping) else set()
    mine = [topic for topic in sorted(topics) if topic == named or (named in ("", "*") and topic not in of_others)]
    return list(dict.fromkeys(payload.subject_of(topic, source) for topic in mine))


def read_schemas(
    job: Job, registry: SchemaRegistry | None, topics: Iterable[str], state: JobState
) -> dict[str, FoundSchemas]:
    """All versions of the subjects of these topics; of versions that the ledger knows, the newest alone is asked for.

    Raises:
        ConfigurationError: no topic has a subject, a subject is of another type, or the registry rejects who asks.
        SchemaRegistryError: the registry cannot be asked.
    """
    found: dict[str, FoundSchemas] = {}
    for lineage, payload in lineages_of(job):
        assert registry is not None  # the job file is refused without one
        subjects = _subjects(job, lineage, payload, topics)
        known = state.lineages.get(lineage, Lineage(registry.url))
        reading = _Reading(registry, payload, f"decode.{lineage}", known if known.registry == registry.url else None)
        with accepted():
            for subject in subjects:
                reading.subject(subject)
        found[lineage] = reading.found
        if not reading.found.newest and not known.readers:
            listed = ", ".join(subjects)
            message = f"the registry {registry.url} has no subject {listed}"
            raise ConfigurationError.of(
                f"decode.{lineage}.subject", message, "write the subject of the topic's schemas"
            )
    return found


@contextmanager
def accepted() -> Iterator[None]:
    """Around questions to the registry: that it rejects who asks is an error of the job file (exit 2)."""
    try:
        yield
    except RegistryRejected as error:
        raise ConfigurationError.of("registry", error.message, "check basic.auth.* or bearer.auth.*") from error


@dataclass(slots=True)
class _Reading:
    registry: SchemaRegistry
    payload: Payload
    place: str
    known: Lineage | None
    found: FoundSchemas = field(init=False)

    def __post_init__(self) -> None:
        self.found = FoundSchemas(self.registry.url)

    def subject(self, subject: str) -> None:
        try:
            numbers = self.registry.versions(subject)
            newest = self.registry.latest(subject)
        except SchemaNotFound:
            return  # of a topic that nobody has written to
        known = self.known.subjects.get(subject, {}) if self.known is not None else {}
        for number in numbers:
            if str(number) not in known and number != newest.version:
                self._add(subject, number, self.registry.version(subject, number).schema)
        text = self._add(subject, newest.version, newest.schema)
        name = f"version {newest.version} of subject {subject}"
        self.found = FoundSchemas(
            self.found.registry,
            (*self.found.newest, (name, text)),
            self.found.texts,
            self.found.writers,
            self.found.subjects,
        )

    def _add(self, subject: str, version: int, schema: RegisteredSchema) -> SchemaText:
        text = text_of(self.registry, schema, self.payload, self.place, f"version {version} of subject {subject}")
        self.found.texts[text.hash] = text
        for key in (schema.id, schema.guid):
            if key is not None:
                self.found.writers[str(key)] = text.hash
                self.found.subjects.setdefault(subject, {}).setdefault(str(version), str(key))
        return text


def text_of(registry: SchemaRegistry, schema: RegisteredSchema, payload: Payload, place: str, name: str) -> SchemaText:
    """A schema with all that it uses. Raises ConfigurationError for one of another format."""
    if schema.type != _TYPES[payload.format]:
        message = f"{name} is of type {schema.type}, and the format is {payload.format}"
        raise ConfigurationError.of(
            f"{place}.format", message, f"write format: {schema.type.lower()}, or another subject"
        )
    return SchemaText(schema.text, tuple(used.text for _, used in registry.resolve(schema).references))


# --- the plan


def pinned_schemas(
    job: Job, found: Mapping[str, FoundSchemas], state: JobState
) -> tuple[SchemasAdded | None, dict[str, PinnedSchemas]]:
    """What a new run decodes with; the event that comes before its plan, None where the ledger has all of it.

    Raises:
        Refused: a column would change its type (`schema-conflict`), or there are too many (`too-many-columns`).
        ConfigurationError: a schema has no columns.
    """
    texts: dict[str, SchemaText] = {}
    changes: dict[str, LineageChange] = {}
    pinned: dict[str, PinnedSchemas] = {}
    for lineage, payload in lineages_of(job):
        seen = found[lineage]
        known = state.lineages.get(lineage, Lineage(seen.registry))
        growing = _Growing(payload, lineage, known.readers)
        for name, text in seen.newest:
            growing.add(name, text)
        current = known if known.registry == seen.registry else Lineage(seen.registry)
        writers = {**current.writers, **seen.writers}
        all_texts = {**state.schema_texts, **seen.texts}
        new_writers = {key: hash for key, hash in seen.writers.items() if current.writers.get(key) != hash}
        if growing.text is not None or new_writers or known.registry != seen.registry:
            changes[lineage] = LineageChange(
                seen.registry, growing.version, growing.text, new_writers, seen.subjects if new_writers else {}
            )
            texts |= {hash: text for hash, text in seen.texts.items() if hash not in state.schema_texts}
        covered = {key: hash for key, hash in writers.items() if growing.covers(all_texts[hash])}
        pinned[lineage] = PinnedSchemas(seen.registry, growing.version, covered)
    event = SchemasAdded(texts=texts, lineages=changes) if changes else None
    return event, pinned


def extended(
    job: Job, plan: ev.RunPlan, resolved: Mapping[str, Mapping[str, SchemaText | None]], state: JobState
) -> SchemasAdded:
    """The event that lets a run decode schemas that its plan did not pin.

    resolved: by lineage, the schemas by id or GUID; None: the registry does not know it. Raises as `pinned_schemas`.
    """
    texts: dict[str, SchemaText] = {}
    changes: dict[str, LineageChange] = {}
    pinned: dict[str, PinnedSchemas] = {}
    for lineage, payload in lineages_of(job):
        if lineage not in resolved:
            continue
        known, before = state.lineages[lineage], plan.schemas[lineage]
        growing = _Growing(payload, lineage, known.readers)
        hashes = {key: text.hash if text is not None else "" for key, text in resolved[lineage].items()}
        for key, text in resolved[lineage].items():
            if text is not None:
                growing.add(f"the schema {key}", text)
                texts[text.hash] = text
        of_registry = known.registry == before.registry
        writers = {key: hash for key, hash in hashes.items() if hash and of_registry}
        changes[lineage] = LineageChange(known.registry, growing.version, growing.text, writers)
        pinned[lineage] = PinnedSchemas(before.registry, growing.version, {**before.writers, **hashes})
    new = {hash: text for hash, text in texts.items() if hash not in state.schema_texts}
    return SchemasAdded(run_id=plan.run_id, texts=new, lineages=changes, pinned=pinned)


def grown(payload: Payload, lineage: str, readers: tuple[str, ...], texts: Iterable[tuple[str, SchemaText]]) -> str:
    """The reader's schema that follows these versions once rows of these schemas, by name, are landed.

    Raises as `pinned_schemas`.
    """
    growing = _Growing(payload, lineage, readers)
    for name, text in texts:
        growing.add(name, text)
    return growing.text or readers[-1]


class _Growing:
    """A lineage's newest version, and the next one in the making."""

    def __init__(self, payload: Payload, lineage: str, readers: tuple[str, ...]) -> None:
        self._payload, self._lineage = payload, lineage
        self._before = readers
        self._reader: Schema | None = self._parsed(SchemaText(readers[-1])) if readers else None

    def add(self, name: str, text: SchemaText) -> None:
        from kseg.segment_reader.payload.avro.evolution import columns_of, merged
        from kseg.segment_reader.payload.avro.types import arrow_type
        from kseg.segment_reader.payload.errors import IncompatibleSchemas, PayloadSchemaError

        writer = self._parsed(text)
        try:
            if self._reader is None:
                made = writer
            else:
                made = merged(self._reader, writer, add_fields=self._payload.unknown == "add")
            columns = columns_of(arrow_type(made))
        except IncompatibleSchemas as error:
            raise Refused(
                "schema-conflict",
                f"{name} does not fit the table's columns: {error.place}: {error.reason}",
                remedy="register a schema that keeps the column's type, or land in another table by another job",
            ) from None
        except PayloadSchemaError as error:
            raise self._unsound(str(error)) from None
        if columns > self._payload.max_columns and made is not self._reader:
            raise Refused(
                "too-many-columns",
                f"with {name} the table would have {columns} columns, and decode.{self._lineage}.max_columns is "
                f"{self._payload.max_columns}",
                remedy="set max_columns higher, or unknown_fields: ignore",
            )
        self._reader = made

    @property
    def text(self) -> str | None:
        """The next version; None where nothing was added."""
        from kseg.segment_reader.payload.avro.schema_json import schema_text

        assert self._reader is not None
        text = schema_text(self._reader)
        return None if self._before and text == self._before[-1] else text

    @property
    def version(self) -> int:
        return len(self._before) + (self.text is not None)

    def covers(self, text: SchemaText) -> bool:
        """Whether the reader's schema has all that the writer's has."""
        from kseg.segment_reader.payload.avro.evolution import merged
        from kseg.segment_reader.payload.errors import PayloadSchemaError

        assert self._reader is not None
        try:
            same = merged(self._reader, self._parsed(text), add_fields=self._payload.unknown == "add")
        except (PayloadSchemaError, ConfigurationError):
            return False  # it matters if a record has it
        return same is self._reader

    def _parsed(self, text: SchemaText) -> Schema:
        from kseg.segment_reader.payload.avro.schema import parse_schema
        from kseg.segment_reader.payload.errors import PayloadSchemaError

        try:
            return parse_schema(text.text, text.references)
        except PayloadSchemaError as error:
            raise self._unsound(str(error)) from None

    def _unsound(self, reason: str) -> ConfigurationError:
        return ConfigurationError.of(
            f"decode.{self._lineage}.schema", reason, "register a schema that columns can hold"
        )
