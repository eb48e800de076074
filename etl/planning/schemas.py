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
from typing import TYPE_CHECKING, Protocol

from kseg.client.registry.errors import RegistryRejected, SchemaNotFound, SchemaRegistryError
from kseg.client.registry.schemas import ApicurioId, Resolved, SchemaId
from kseg.client.registry.schemas import Schema as RegisteredSchema
from kseg.etl.config.decoding import Decode, Payload, sections_of
from kseg.etl.config.job import Job
from kseg.etl.decoding.formats.registry import FORMATS, in_registry, kept_text, of_registry_type, schema_format
from kseg.etl.decoding.rules import NEWEST, DecodingRules
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.schemas import Lineage, LineageChange, SchemasAdded, SchemaText
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.ledger.values import PinnedSchemas
from kseg.etl.planning.kinds import Kinds, Readers, in_union, kinds_of
from kseg.segment_reader.payload.schema_names import id_of, kind_of

if TYPE_CHECKING:
    from kseg.client.registry.opening import Registry


class HasDecode(Protocol):
    """A job, or a read in Spark, whose payloads are decoded."""

    @property
    def decode(self) -> Decode | Mapping[str, Decode] | None: ...


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


def lineages_of(job: HasDecode) -> Iterator[tuple[str, Payload]]:
    """Lineage and section of the keys and values whose schemas are in a registry."""
    for path, section in sections_of(job.decode).items() if job.decode is not None else ():
        for source in ("key", "value"):
            payload: Payload | None = getattr(section, source)
            if payload is not None and payload.by_registry:
                yield ".".join((*path[1:], source)), payload


def section_of(job: HasDecode, lineage: str) -> Decode:
    """The part of `decode:` that a lineage is of."""
    assert job.decode is not None
    named = lineage.rpartition(".")[0]
    return next(section for path, section in sections_of(job.decode).items() if ".".join(path[1:]) == named)


def _subjects(job: HasDecode, lineage: str, payload: Payload, topics: Iterable[str]) -> list[str]:
    """Those of the topics that a part of `decode:` is of."""
    named, _, source = lineage.rpartition(".")
    of_others = {topic for topic in job.decode if topic != "*"} if isinstance(job.decode, Mapping) else set()
    mine = [topic for topic in sorted(topics) if topic == named or (named in ("", "*") and topic not in of_others)]
    return list(dict.fromkeys(subject for topic in mine for subject in payload.subjects_of(topic, source)))


def read_schemas(
    job: HasDecode, registry: Registry | None, topics: Iterable[str], state: JobState
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
        if not reading.found.newest and not known.readers and not known.writers:
            listed = ", ".join(subjects)
            message = f"the registry {registry.url} has no subject {listed}"
            raise ConfigurationError.of(
                f"decode.{lineage}.subject", message, "write the subject of the topic's schemas"
            )
    return found


@contextmanager
def accepted() -> Iterator[None]:
    """Around questions to the registry: that it rejects who asks, or is none, is an error of the job file (exit 2)."""
    try:
        yield
    except RegistryRejected as error:
        raise ConfigurationError.of("registry", error.message, error.to_check) from error
    except SchemaNotFound:
        raise
    except SchemaRegistryError as error:
        if error.status != 404:
            raise
        raise ConfigurationError.of("registry.url", error.message, "give the base of its REST API") from error


@dataclass(slots=True)
class _Reading:
    registry: Registry
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
                schema = self.registry.version(subject, number).schema
                self._keep(subject, number, schema, usable_text(self.registry, schema, self.payload))
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
        self._keep(subject, version, schema, text)
        return text

    def _keep(self, subject: str, version: int, schema: RegisteredSchema, text: SchemaText) -> None:
        self.found.texts[text.hash] = text
        for key in (schema.id, schema.guid):
            if key is not None:
                self.found.writers[str(key)] = text.hash
                self.found.subjects.setdefault(subject, {}).setdefault(str(version), str(key))


def usable_text(registry: Registry, schema: RegisteredSchema, payload: Payload) -> SchemaText:
    """A schema that records name, with all that it uses; one that the job's format cannot read says why."""
    from kseg.segment_reader.payload.errors import PayloadSchemaError

    if schema.type != in_registry(payload.format).type:
        why = f"is of type {schema.type}, and the format is {payload.format}"
        return SchemaText(schema.text, unusable=why)
    try:
        text = kept_schema(payload.format, registry.resolve(schema))
        form = schema_format(payload, NEWEST)  # sound by all rules, if it is by these
        writer = form.writer(text.text, text.uses)
        if not (payload.several and form.indexed):  # which of its messages is meant, records say
            form.type(form.first(writer))
    except PayloadSchemaError as error:
        return SchemaText(schema.text, unusable=f"is not sound: {error}")
    except SchemaNotFound:
        listed = ", ".join(f"version {one.version} of subject {one.subject}" for one in schema.references)
        why = f"references {listed}, which the registry does not have, or not with all that they reference"
        return SchemaText(schema.text, unusable=why)
    return text


def registry_key(name: int | str) -> SchemaId:
    """What a registry is asked for by a schema's name in plans and frames."""
    kind, number = kind_of(name), id_of(name)
    return name if kind is None or number is None else ApicurioId(kind, number)


def text_of(registry: Registry, schema: RegisteredSchema, payload: Payload, place: str, name: str) -> SchemaText:
    """A schema with all that it uses. Raises ConfigurationError for one of another format, or one that is not sound."""
    from kseg.segment_reader.payload.errors import PayloadSchemaError

    if schema.type != in_registry(payload.format).type:
        message = f"{name} is of type {schema.type}, and the format is {payload.format}"
        other = of_registry_type(schema.type)[0].name
        raise ConfigurationError.of(f"{place}.format", message, f"write format: {other}, or another subject")
    try:
        return kept_schema(payload.format, registry.resolve(schema))
    except PayloadSchemaError as error:
        raise ConfigurationError.of(f"{place}.schema", f"{name}: {error}", None) from None


def kept_schema(format: str, schema: Resolved) -> SchemaText:
    """A schema as the ledger keeps it. Raises PayloadSchemaError."""
    text, uses = kept_text(format, schema.schema.text, {name: used.text for name, used in schema.references})
    return SchemaText(text, named=dict(uses)) if isinstance(uses, Mapping) else SchemaText(text, tuple(uses))


# --- the plan


def without_rows(state: JobState, *, but: str | None = None) -> bool:
    """Whether the job has runs and no row of them can be in a table, so that a corrected schema gives the tables other
    columns: every run has ended, and has landed no row. but: a run that does not count."""
    if not state.runs or state.lost_ledgers or state.archive.runs:
        return False
    return all(_without_rows(run) for run in state.runs.values() if run.run_id != but)


def _without_rows(run: RunState) -> bool:
    if run.abandoned:  # a table that had rows keeps its columns, although they were removed
        return not run.landed and run.landed_in == () and not run.archived
    return run.ended and run.accounted is not None and run.accounted.rows_out == 0 and not run.archived


def _is_first(state: JobState, run_id: str) -> bool:
    """Whether neither this run nor one before it has landed a row."""
    run = state.runs.get(run_id)
    return run is not None and not run.landed and without_rows(state, but=run_id)


def pinned_schemas(
    job: Job, found: Mapping[str, FoundSchemas], state: JobState, rules: DecodingRules = NEWEST, *, anew: bool = False
) -> tuple[SchemasAdded | None, dict[str, PinnedSchemas]]:
    """What a new run decodes with; the event that comes before its plan, None where the ledger has all of it.

    rules: the run's rules of decoding. anew: the job's tables have no rows yet (`without_rows`), so that columns of
    earlier versions need not be kept.

    Raises:
        Refused: a column would change its type (`schema-conflict`), or there are too many (`too-many-columns`).
        ConfigurationError: a schema has no columns.
    """
    texts: dict[str, SchemaText] = {}
    changes: dict[str, LineageChange] = {}
    pinned: dict[str, PinnedSchemas] = {}
    unions = {
        name
        for name, payload in lineages_of(job)
        if in_registry(payload.format).unions and any(in_union(payload, text) for _, text in found[name].newest)
    }
    for lineage, payload in lineages_of(job):
        seen = found[lineage]
        known = state.lineages.get(lineage, Lineage(seen.registry))
        kinds = kinds_of(job, lineage, state.lineages, unions)
        if kinds is None and payload.several and FORMATS[payload.format].indexed:
            message = "has several subjects, and the job's tables were made with one for all messages"
            remedy = "write the one that it had, or land in other tables by another job"
            raise ConfigurationError.of(f"decode.{lineage}.subject", message, remedy)
        readers = Readers(payload, lineage, state.lineages, kinds, rules, widen=job.widens, anew=anew)
        for name, text in seen.newest:
            readers.add(name, text)
        current = known if known.registry == seen.registry else Lineage(seen.registry)
        writers = {**current.writers, **seen.writers}
        all_texts = {**state.schema_texts, **seen.texts}
        readers.begin(all_texts[hash] for hash in dict.fromkeys(writers.values()))
        new_writers = {key: hash for key, hash in seen.writers.items() if current.writers.get(key) != hash}
        of_kinds = readers.changes(seen.registry)
        if readers.text is not None or of_kinds or new_writers or known.registry != seen.registry:
            changes[lineage] = LineageChange(
                seen.registry, readers.version, readers.text, new_writers, seen.subjects if new_writers else {}
            )
            changes |= of_kinds
            texts |= {hash: text for hash, text in seen.texts.items() if hash not in state.schema_texts}
        sets_aside = section_of(job, lineage).on_error != "fail"
        covered = {
            key: hash
            for key, hash in writers.items()
            if (text := all_texts[hash]) and (readers.covers(text) or (sets_aside and text.unusable))
        }
        pinned[lineage] = PinnedSchemas(seen.registry, readers.version, covered, readers.of_kinds)
    event = SchemasAdded(texts=texts, lineages=changes) if changes else None
    return event, pinned


def extended(
    job: Job,
    plan: ev.RunPlan,
    resolved: Mapping[str, Mapping[str, SchemaText | None]],
    state: JobState,
    others: Mapping[str, Iterable[SchemaText]] | None = None,
) -> SchemasAdded:
    """The event that lets a run decode schemas that its plan did not pin.

    resolved: by lineage, the schemas by id or GUID; None: the registry does not know it. others: by lineage, versions
    that the ledger does not have, whose types new columns hold as well. One that does not fit is
    pinned as well where the job says what becomes of records that cannot be decoded. Else raises as `pinned_schemas`.
    """
    texts: dict[str, SchemaText] = {}
    changes: dict[str, LineageChange] = {}
    pinned: dict[str, PinnedSchemas] = {}
    for lineage, payload in lineages_of(job):
        if lineage not in resolved:
            continue
        known, before = state.lineages[lineage], plan.schemas[lineage]
        kinds = Kinds.of_routes(lineage, plan.routes) if not before.reader else None
        run, rules = plan.run_id, plan.rules
        first = _is_first(state, run)
        readers = Readers(payload, lineage, state.lineages, kinds, rules, widen=job.widens, run=run, first=first)
        hashes = {key: text.hash if text is not None else "" for key, text in resolved[lineage].items()}
        unfit: list[tuple[SchemaText, Refused]] = []
        for key, text in resolved[lineage].items():
            if text is None:
                continue
            texts[text.hash] = text
            if text.unusable:
                continue
            try:
                readers.add(f"the schema {key}", text)
            except Refused as refused:
                unfit.append((text, refused))
        for text, why in unfit:
            # Only where decoding rejects all of its records: else they would land without what does not fit.
            if section_of(job, lineage).on_error == "fail" or not readers.rejects(text):
                raise why
        # A field that the newest version lacks may have another type in each of those before it.
        readers.widen(state.schema_texts[hash] for hash in dict.fromkeys(known.writers.values()))
        readers.widen((others or {}).get(lineage, ()))
        of_registry = known.registry == before.registry
        writers = {key: hash for key, hash in hashes.items() if hash and of_registry}
        changes[lineage] = LineageChange(known.registry, readers.version, readers.text, writers)
        changes |= readers.changes(known.registry)
        pinned[lineage] = PinnedSchemas(
            before.registry, readers.version, {**before.writers, **hashes}, {**before.kinds, **readers.of_kinds}
        )
    new = {hash: text for hash, text in texts.items() if hash not in state.schema_texts}
    return SchemasAdded(run_id=plan.run_id, texts=new, lineages=changes, pinned=pinned)
