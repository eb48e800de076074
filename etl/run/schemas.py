"""A run's schemas: tasks get them as the ledger has them; new ones that records name are fetched from the registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kseg.client.registry.errors import SchemaNotFound, SchemaRegistryError
from kseg.client.registry.schemas import APICURIO_KINDS, ApicurioId, Schema, context_of
from kseg.etl.config.job import Job
from kseg.etl.decoding.errors import UndecodablePayload, UnknownSchemas
from kseg.etl.decoding.formats.registry import schema_format
from kseg.etl.decoding.framed import FramedSchemas, WriterTexts, schema_key
from kseg.etl.decoding.kinds import Kind
from kseg.etl.errors import Refused, listed
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.schemas import SchemaText
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.ledger.values import PinnedSchemas
from kseg.etl.planning.kinds import Kinds
from kseg.etl.planning.schemas import accepted, extended, lineages_of, registry_key, section_of, usable_text
from kseg.etl.run.context import JobContext
from kseg.etl.transform.transform import Transform, transform_of
from kseg.segment_reader.payload.schema_names import id_of, kind_of

if TYPE_CHECKING:
    from kseg.client.registry.opening import Registry

_INCOMPATIBLE: Final = "INCOMPATIBLE_SCHEMA"


def framed_schemas(job: Job, plan: ev.RunPlan, state: JobState) -> Mapping[str, FramedSchemas]:
    """The schemas that a run's tasks decode with, by lineage: as pinned, whatever the registry has by now."""
    made = {}
    for lineage, payload in lineages_of(job):
        if (pinned := plan.schemas.get(lineage)) is None:
            continue
        texts = {key: state.schema_texts[hash] if hash else None for key, hash in pinned.writers.items()}
        writers = tuple((schema_key(key), _writer(text)) for key, text in texts.items())
        reader = state.lineages[lineage].readers[pinned.reader - 1] if pinned.reader else ""
        kinds = () if pinned.reader else _kinds(Kinds.of_routes(lineage, plan.routes), pinned.kinds, state)
        form, apart = schema_format(payload, plan.rules), plan.rules.global_ids
        made[lineage] = FramedSchemas(reader, writers, form, kinds=kinds, global_ids=apart)
    return made


def transform_of_run(job: Job, plan: ev.RunPlan, state: JobState) -> Transform:
    """A run's steps, with the schemas and the rules of decoding that its plan has pinned."""
    return transform_of(job, framed_schemas(job, plan, state) if plan.schemas else {}, plan.rules)


def _kinds(kinds: Kinds, versions: Mapping[str, int], state: JobState) -> tuple[Kind, ...]:
    """versions: of each kind's lineage, as a run has pinned them."""
    made = []
    for number, records in enumerate(kinds.records):
        version = versions.get(name := kinds.lineage_of(number, versions))
        made.append(Kind(records, state.lineages[name].readers[version - 1] if version else None))
    return tuple(made)


def _writer(text: SchemaText | None) -> WriterTexts | str | None:
    """The schema in the form that tasks use; None: the registry does not have it."""
    if text is None:
        return None
    return text.unusable or (text.text, text.uses)


def learn_schemas(context: JobContext, lease: Lease, run: RunState, unknown: UnknownSchemas) -> RunState:
    """The run with the schemas that its records name: of another subject, or with fields that the table did not have.

    Raises:
        Refused: the job file has another registry than the run was planned with; or, with `on_error: fail`, the
            registry does not know a schema, it is not of the format or not sound (UndecodablePayload), or does not fit
            the table's columns.
        SchemaRegistryError: the registry cannot be asked.
    """
    state = context.clients.read_state()
    resolved = resolve(context, state, run.plan, unknown)
    others = {name: _of_their_subjects(context, name, keys, state) for name, keys in resolved.items()}
    names = listed(key for keys in unknown.found.values() for key in keys)
    context.progress.message(f"records name schemas that the plan does not have ({names}): reading again with them")
    job, plan = context.job, run.plan
    after = lease.transition(lambda state: [extended(job, plan, resolved, state, others)])
    context.observe("schemas:after")
    return after.runs[run.run_id]


def resolve(
    context: JobContext, state: JobState, plan: ev.RunPlan, unknown: UnknownSchemas
) -> dict[str, dict[str, SchemaText | None]]:
    """Schemas that records name and the plan does not have, by lineage: from the ledger, or of the registry. Raises as
    `learn_schemas`."""
    resolved: dict[str, dict[str, SchemaText | None]] = {}
    for lineage, keys in unknown.found.items():
        known, pinned = state.lineages[lineage], plan.schemas[lineage]
        writers = known.writers if known.registry == pinned.registry else {}
        for key in keys:
            if key in writers:
                text: SchemaText | None = state.schema_texts[writers[key]]
            else:
                _refuse_other_registry(context, plan, pinned, key)
                text = _asked(context, key, lineage, unknown)
            if text is not None and text.unusable and section_of(context.job, lineage).on_error == "fail":
                at: Mapping[str, Any] = unknown.address
                raise UndecodablePayload(unknown.source, _INCOMPATIBLE, "", f"schema {key} {text.unusable}", **at)
            resolved.setdefault(lineage, {})[key] = text
    return resolved


def _refuse_other_registry(context: JobContext, plan: ev.RunPlan, pinned: PinnedSchemas, key: str) -> None:
    """Another registry may have another schema by the same id: a run asks the one that it was planned with."""
    registry = context.clients.registry
    assert registry is not None
    if set(registry.url.split(",")).isdisjoint(pinned.registry.split(",")):
        values = {"schema": key, "planned": pinned.registry, "registry": registry.url, "property": registry.key}
        raise Refused.of("registry-changed", values, run=plan.run_id)


def _of_their_subjects(context: JobContext, lineage: str, keys: Iterable[str], state: JobState) -> list[SchemaText]:
    """All versions of the subjects of schemas that the ledger does not have yet: a column that is new with one of them
    has the widest type of all."""
    registry = context.clients.registry
    assert registry is not None  # a job file with schemas in a registry is refused without one
    new = [key for key in map(schema_key, keys) if str(key) not in state.lineages[lineage].writers]
    found: dict[tuple[str, int], SchemaText] = {}
    payload = next(payload for name, payload in lineages_of(context.job) if name == lineage)
    for key in new:
        try:
            names = registry.named(registry_key(key), payload.subject_templates("value")[0])
            for subject in dict.fromkeys(subject for subject, _ in names):
                for number in registry.versions(subject):
                    if (subject, number) not in found:
                        schema = registry.version(subject, number).schema
                        found[subject, number] = usable_text(registry, schema, payload)
        except SchemaRegistryError as error:
            if error.retriable:
                raise
            # A registry without this API, or credentials for other subjects: the record can be decoded without it.
    return list(found.values())


def _schema(registry: Registry, key: str, subjects: Iterable[str]) -> Schema:
    """The schema that records name, of the first context of these subjects that has it. Raises SchemaNotFound."""
    name, missing = registry_key(schema_key(key)), None
    for context in dict.fromkeys(map(context_of, subjects)):
        try:
            return registry.schema(name, context)
        except SchemaNotFound as error:
            missing = missing or error
    assert missing is not None
    raise missing


def _asked(context: JobContext, key: str, lineage: str, unknown: UnknownSchemas) -> SchemaText | None:
    """None: the registry does not know it, and the job says what becomes of such records."""
    registry = context.clients.registry
    assert registry is not None  # a job file with schemas in a registry is refused without one
    payload = next(payload for name, payload in lineages_of(context.job) if name == lineage)
    try:
        with accepted():
            return usable_text(registry, _schema(registry, key, payload.subject_templates(unknown.source)), payload)
    except SchemaNotFound as error:
        if section_of(context.job, lineage).on_error != "fail":
            return None
        place: Mapping[str, Any] = unknown.address
        if (kind := _other_kind(registry, key, payload.ids)) is not None:
            other = {"part": unknown.source, "schema": key, "registry": registry.url, "kind": kind, "section": lineage}
            raise Refused.of("schema-unknown", other, case="of the other ids", **place) from error
        values = {"part": unknown.source, "schema": key, "registry": registry.url, "property": registry.key}
        raise Refused.of("schema-unknown", values, case="unknown", **place) from error


def _other_kind(registry: Registry, key: str, ids: str | None) -> str | None:
    """The kind of Apicurio's ids by which the registry has a schema of this number; None if there is none.

    ids: what the job file says of ids before payloads. The name of a header says the kind of its own: None, too.
    """
    name = schema_key(key)
    if kind_of(name) != ids:
        return None
    number, own = id_of(name), registry_key(name)
    for kind in APICURIO_KINDS:
        if number is None or (other := ApicurioId(kind, number)) == own:
            continue
        try:
            registry.schema(other)
            return kind
        except SchemaRegistryError:
            pass  # of another vendor, or without this id as well
    return None
