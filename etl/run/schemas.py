"""A run's schemas: handed to its tasks as the ledger has them, and asked for where its records name one that is new."""

from __future__ import annotations

from collections.abc import Mapping

from kseg.client.registry.errors import SchemaNotFound
from kseg.etl.config.job import Job
from kseg.etl.decoding.errors import UnknownSchemas
from kseg.etl.decoding.framed import FramedSchemas, schema_key
from kseg.etl.decoding.schema_formats import schema_format
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.schemas import SchemaText
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.schemas import accepted, extended, lineages_of, section_of, text_of
from kseg.etl.run.context import JobContext


def framed_schemas(job: Job, plan: ev.RunPlan, state: JobState) -> Mapping[str, FramedSchemas]:
    """What a run's tasks decode with, by lineage: as pinned, whatever the registry says by now."""
    made = {}
    for lineage, payload in lineages_of(job):
        if (pinned := plan.schemas.get(lineage)) is None:
            continue
        texts = {key: state.schema_texts[hash] if hash else None for key, hash in pinned.writers.items()}
        made[lineage] = FramedSchemas(
            state.lineages[lineage].readers[pinned.reader - 1],
            tuple(
                (schema_key(key), (text.text, text.uses) if text is not None else None) for key, text in texts.items()
            ),
            schema_format(payload),
        )
    return made


def learn_schemas(context: JobContext, lease: Lease, run: RunState, unknown: UnknownSchemas) -> RunState:
    """The run with the schemas that its records name: of another subject, or with fields that the table did not have.

    Raises:
        Refused: the registry does not know one, or it does not fit the table's columns (`on_error: fail`).
        ConfigurationError: it is of another format.
        SchemaRegistryError: the registry cannot be asked.
    """
    resolved = resolve(context, context.clients.read_state(), run.plan, unknown)
    names = ", ".join(key for keys in unknown.found.values() for key in keys[:10])
    context.progress.message(f"records name schemas that the plan does not have ({names}): reading again with them")
    job, plan = context.job, run.plan
    after = lease.transition(lambda state: [extended(job, plan, resolved, state)])
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
            text = state.schema_texts[writers[key]] if key in writers else _asked(context, key, lineage, unknown)
            resolved.setdefault(lineage, {})[key] = text
    return resolved


def _asked(context: JobContext, key: str, lineage: str, unknown: UnknownSchemas) -> SchemaText | None:
    """None: the registry does not know it, and the job says what becomes of such records."""
    registry = context.clients.registry
    assert registry is not None  # a job file with schemas in a registry is refused without one
    payload = next(payload for name, payload in lineages_of(context.job) if name == lineage)
    try:
        with accepted():
            name = schema_key(key)
            schema = registry.schema(name) if isinstance(name, int) else registry.schema_by_guid(name)
            return text_of(registry, schema, payload, f"decode.{lineage}", f"the schema {key}")
    except SchemaNotFound as error:
        if section_of(context.job, lineage).on_error != "fail":
            return None
        raise Refused(
            "schema-unknown",
            f"the {unknown.source} names the schema {key}, which the registry {registry.url} does not know",
            remedy="check registry.url; a schema that was deleted there has to be registered again",
            **unknown.address,
        ) from error
