"""Redrive: land dead letters after the job file or a schema was corrected. Each record lands once.

A redrive is a run of its own, whose ranges are the addresses of open dead letters that can be decoded now; those that
cannot stay open. What it has landed follows from the ledger (`etl.ledger.dead_letters`), so one that was killed is
continued by the same command, and two at once plan no address twice.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.decoding.bad_records import DEAD_LETTERS, BadRecords
from kseg.etl.decoding.errors import UnknownSchemas
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import ADDRESS, EMPTY, REDRIVE, Letter, LetterStates
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import request_run_id
from kseg.etl.ledger.schemas import SchemaText
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.find_run import find_run
from kseg.etl.planning.plan import Draft
from kseg.etl.planning.preflight import preflight, read_without_lease
from kseg.etl.planning.schemas import extended, lineages_of
from kseg.etl.run.context import JobContext, Observer
from kseg.etl.run.pipeline import pursue
from kseg.etl.run.read_options import read_options
from kseg.etl.run.redrive_jobs import as_records, read_letters
from kseg.etl.run.report import RunReport
from kseg.etl.run.schemas import framed_schemas, resolve
from kseg.etl.telemetry.progress import Progress
from kseg.etl.transform.transform import transform_of

MAX_RANGES = 10_000
"""Ranges of one redrive, which its plan in the ledger lists."""


def run_redrive(
    job: Job,
    *,
    where: str | None = None,
    run_id: str | None = None,
    take_over: bool = False,
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> RunReport:
    """Land the open dead letters that can be decoded now; first the redrive that was not finished, if there is one.

    where: SQL over the columns of the dead-letter table. run_id: only those of this run (or a part of its id).

    Raises:
        ConfigurationError: the job has no dead-letter table, or `where` is no condition.
        Refused, AnotherRunActive: as for any run.
    """
    if job.dead_letters is None:
        raise ConfigurationError.of("decode.on_error", "is not dead_letter: there is nothing to redrive")
    with JobContext.open(job, progress, observe, ledger="required") as context:
        state = context.clients.read_state()
        left = next((run for run in state.unfinished_runs() if run.mode == REDRIVE), None)
        if left is not None:
            report = pursue(context, left.chain, _nothing, take_over=take_over)
            if report.status == "done":
                report.notes.append("an unfinished redrive was completed: repeat the command for other dead letters")
                return report
        only = find_run(state, run_id).run_id if run_id is not None else None
        chain = request_run_id(state.ledger_id, job.name, secrets.token_hex(10))
        found = _decodable(context, chain, where, only)
        notes = list(found.notes)

        def decide(draft: Draft) -> ev.RunPlan | None:
            draft.check_and_pin(moves_offsets=False)
            wanted, more = _ranges(draft, found.letters)
            if more:
                notes.append(f"{more} more ranges of offsets are left: repeat the command")
            if not wanted:
                return None
            asked = json.dumps({"where": where, "run": only}, sort_keys=True)
            return draft.plan(chain, REDRIVE, wanted, commit_offsets=False, asked=asked)

        report = pursue(context, chain, decide, take_over=take_over)
        report.mode = REDRIVE
        report.notes += dict.fromkeys(notes)
        return report


def _nothing(draft: Draft) -> None:
    """The planner of a chain whose run is continued or given up."""


@dataclass(frozen=True, slots=True)
class _Found:
    letters: tuple[Letter, ...]
    notes: tuple[str, ...]


def _decodable(context: JobContext, chain: str, where: str | None, run_id: str | None) -> _Found:
    """The open dead letters that the job decodes now."""
    job = context.job
    assert job.dead_letters is not None
    access = context.targets.access(job.dead_letters)
    equal = {ADDRESS[-1]: run_id} if run_id is not None else {}
    rows = read_letters(access, equal, where) if access is not None else None
    columns = [rows[name].to_pylist() if rows is not None else [] for name in ADDRESS]
    letters = [Letter(*address) for address in zip(*columns, strict=True)]
    states = LetterStates(context.clients.read_state())
    is_open = [states.of(letter) == "open" for letter in letters]
    if rows is None or not any(is_open):
        counted = ", ".join(f"{number} {name}" for name, number in sorted(states.count(letters).items()))
        if letters:
            counted = counted or "they are of other jobs"
        return _Found((), (f"none of these dead letters is open: {counted or 'there are none'}",))
    rows = rows.filter(pa.array(is_open))
    letters = [letter for letter, wanted in zip(letters, is_open, strict=True) if wanted]
    partitions = set(context.inputs.partitions())
    is_read = [letter.tp in partitions for letter in letters]
    notes = []
    if not all(is_read):
        count = is_read.count(False)
        notes.append(f"dead letters of partitions that the job does not read, and that stay open: {count}")
        rows = rows.filter(pa.array(is_read))
        letters = [letter for letter in letters if letter.tp in partitions]
    again = _still_dead(context, chain, rows, letters)
    if again.addresses:
        first = "".join(f"\n  {line}" for line in again.examples)
        count = len(again.addresses)
        notes.append(f"dead letters that still cannot be decoded, and stay open: {count}. The first:{first}")
    return _Found(tuple(letter for letter in letters if letter[:3] not in again.addresses), tuple(notes))


def _still_dead(context: JobContext, chain: str, rows: pa.Table, letters: Sequence[Letter]) -> _Dead:
    """What of these dead letters the job does not decode: in a trial, with the schemas that a redrive would have."""
    job = context.job
    if not any(lineages_of(job)) or not letters:
        return _tried(job, rows, {})

    def planned(state: JobState) -> Draft:
        draft = Draft.unwritten(preflight(context.inputs, state, chain), state, chain)
        draft.check_and_pin(moves_offsets=False)
        draft.plan(chain, REDRIVE, _ranges(draft, letters)[0], commit_offsets=False)
        return draft

    draft = read_without_lease(context.clients.read_state, planned)
    conflicts: dict[str, str] = {}
    while True:
        plan = draft.state.runs[chain].plan
        try:
            again = _tried(job, rows, framed_schemas(job, plan, draft.state))
            break
        except UnknownSchemas as unknown:
            for lineage, texts in resolve(context, draft.state, plan, unknown).items():
                for key, text in texts.items():
                    if reason := _learned(draft, chain, lineage, key, text):
                        conflicts[key] = reason
    unfit = tuple(f"does not know the schema {key}" for key in conflicts)
    again.examples = [*conflicts.values(), *(line for line in again.examples if not line.endswith(unfit))]
    return again


def _learned(draft: Draft, chain: str, lineage: str, key: str, text: SchemaText | None) -> str:
    """Add one schema to the trial's plan; where it does not fit the table, as one that nobody knows, and why."""
    job, state = draft.inputs.job, draft.state
    plan = state.runs[chain].plan
    try:
        draft.add(extended(job, plan, {lineage: {key: text}}, state))
    except Refused as refused:
        draft.add(extended(job, plan, {lineage: {key: None}}, state))
        return refused.message
    return ""


def _tried(job: Job, rows: pa.Table, schemas: Mapping[str, FramedSchemas]) -> _Dead:
    schema = read_options(job).schema
    decoding = transform_of(job, schemas).on_batches.decoding
    again = _Dead()
    bad_records = BadRecords(again)
    for topic in pc.unique(rows["topic"]).to_pylist():
        of_topic = rows.filter(pc.equal(rows["topic"], topic))
        try:
            steps = decoding.of_topic(topic)
        except ConfigurationError:
            again.add(of_topic)
            again.examples.append(f"`decode:` says nothing of topic {topic} any more")
            continue
        records = as_records(of_topic, schema)
        steps.apply(records, steps.output_schema(schema), {"topic": topic}, bad_records)
    again.examples += bad_records.examples
    return again


class _Dead:
    """Takes the addresses of what still cannot be decoded. examples: the first, for messages."""

    def __init__(self) -> None:
        self.addresses: set[tuple[str, int, int]] = set()
        self.examples: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        assert batch.schema == DEAD_LETTERS
        self.add(batch)

    def add(self, letters: pa.RecordBatch | pa.Table) -> None:
        self.addresses |= set(zip(*(letters.column(name).to_pylist() for name in ADDRESS[:3]), strict=True))


def _ranges(draft: Draft, letters: Sequence[Letter]) -> tuple[dict[TopicPartition, OffsetSet], int]:
    """What of these letters is open and not in another run's plan, by the draft's state; and how many ranges more."""
    states, reserved = LetterStates(draft.state), draft.state.reservations()
    by_partition: dict[TopicPartition, list[tuple[int, int]]] = {}
    for letter in letters:
        taken = reserved.get(letter.tp, EMPTY)
        if letter.tp in draft.inputs.snapshot.bounds and letter.offset not in taken and states.of(letter) == "open":
            by_partition.setdefault(letter.tp, []).append((letter.offset, letter.offset + 1))
    wanted: dict[TopicPartition, OffsetSet] = {}
    room, more = MAX_RANGES, 0
    for tp, offsets in by_partition.items():
        intervals = list(OffsetSet.of(offsets))
        more += max(0, len(intervals) - room)
        if chosen := intervals[:room]:
            wanted[tp] = OffsetSet.of(chosen)
        room -= len(chosen)
    return wanted, more
