"""Finds the dead letters that a job can decode now, with the schemas that a redrive would pin. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.decoding.bad_records import MAX_EXAMPLES, BadRecords
from kseg.etl.decoding.errors import UnknownSchemas
from kseg.etl.decoding.payload import in_parts
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.dead_letters import ADDRESS, REDRIVE, Letter
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.schemas import SchemaText
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import RunPlan
from kseg.etl.planning.plan import Draft
from kseg.etl.planning.preflight import preflight, read_without_lease
from kseg.etl.planning.schemas import extended
from kseg.etl.run.context import JobContext
from kseg.etl.run.read_options import read_options
from kseg.etl.run.redrive_jobs import as_records
from kseg.etl.run.schemas import resolve, transform_of_run
from kseg.etl.transform.transform import BatchSteps

AddressOf = tuple[str, int, int]
Ranges = Callable[[Draft, Sequence[Letter]], Mapping[TopicPartition, OffsetSet]]


class Trial:
    """Decodes dead letters in batches. examples: errors of the first that still cannot be decoded, for messages.

    chain: the redrive's. ranges: the offsets that it would plan for given letters.
    """

    def __init__(self, context: JobContext, chain: str, ranges: Ranges) -> None:
        self._context, self._chain, self._ranges = context, chain, ranges
        self._draft: Draft | None = None
        self._steps: BatchSteps | None = None
        self._conflicts: dict[str, str] = {}
        self._examples: list[str] = []

    @property
    def examples(self) -> list[str]:
        unfit = tuple(f"does not know the schema {key}" for key in self._conflicts)
        others = [line for line in self._examples if not line.endswith(unfit)] if unfit else self._examples
        return [*self._conflicts.values(), *others]

    def still_dead(self, rows: pa.Table, letters: Sequence[Letter]) -> set[AddressOf]:
        """The addresses of those open dead letters that the job cannot decode. rows: the letters with their records."""
        if self._draft is None:
            self._draft = self._planned(letters)
        while True:
            draft = self._draft
            plan = draft.state.runs[self._chain].plan
            try:
                return self._tried(rows, plan, draft.state)
            except UnknownSchemas as unknown:
                for lineage, texts in resolve(self._context, draft.state, plan, unknown).items():
                    for key, text in texts.items():
                        self._learn(draft, lineage, key, text)
                self._steps = None

    def _planned(self, letters: Sequence[Letter]) -> Draft:
        context, chain = self._context, self._chain

        def planned(state: JobState) -> Draft:
            draft = Draft.unwritten(preflight(context.inputs, state, chain), state, chain)
            draft.check_and_pin(moves_offsets=False)
            draft.plan(chain, REDRIVE, self._ranges(draft, letters), commit_offsets=False)
            return draft

        return read_without_lease(context.clients.read_state, planned)

    def _learn(self, draft: Draft, lineage: str, key: str, text: SchemaText | None) -> None:
        """Add one schema to the trial's plan; if it does not fit the table, as an unknown schema."""
        job, state = draft.inputs.job, draft.state
        plan = state.runs[self._chain].plan
        try:
            draft.add(extended(job, plan, {lineage: {key: text}}, state))
        except Refused as refused:
            draft.add(extended(job, plan, {lineage: {key: None}}, state))
            self._conflicts[key] = refused.message

    def _tried(self, rows: pa.Table, plan: RunPlan, state: JobState) -> set[AddressOf]:
        job = self._context.job
        schema = read_options(job).schema
        if self._steps is None:  # once: they compile decoders
            self._steps = transform_of_run(job, plan, state).on_batches.decoding
        dead = _Addresses()
        bad_records = BadRecords(dead)
        for topic in pc.unique(rows["topic"]).to_pylist():
            of_topic = rows.filter(pc.equal(rows["topic"], topic))
            try:
                steps = self._steps.of_topic(topic)
            except ConfigurationError:
                dead.write(of_topic)
                self._keep([f"`decode:` no longer applies to topic {topic}"])
                continue
            records = as_records(of_topic, schema)
            expected = steps.output_schema(schema)
            trial = partial(steps.apply, expected=expected, address={"topic": topic}, bad_records=bad_records)
            for _ in in_parts(records, trial):
                pass
        self._keep(bad_records.dead_examples)
        return dead.found

    def _keep(self, examples: Sequence[str]) -> None:
        new = [line for line in examples if line not in self._examples]
        self._examples += new[: max(0, MAX_EXAMPLES - len(self._examples))]


class _Addresses:
    """A writer of dead letters that only keeps their addresses."""

    wants_reasons = False

    def __init__(self) -> None:
        self.found: set[AddressOf] = set()

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        self.found |= set(zip(*(batch.column(name).to_pylist() for name in ADDRESS[:3]), strict=True))
