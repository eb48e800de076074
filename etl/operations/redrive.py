"""Redrive: land dead letters after the job file or a schema was corrected. Each record lands once.

A redrive is a run of its own, whose ranges are the addresses of open dead letters that can be decoded now; those that
cannot stay open. What it has landed follows from the ledger (`etl.ledger.dead_letters`), so one that was killed is
continued by the same command, and two at once plan no address twice.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.decoding.bad_records import DEAD_LETTERS, BadRecords
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import ADDRESS, EMPTY, REDRIVE, Letter, LetterStates
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import request_run_id
from kseg.etl.operations.find_run import find_run
from kseg.etl.planning.plan import Draft
from kseg.etl.planning.schemas import lineages_of
from kseg.etl.run.context import JobContext, Observer
from kseg.etl.run.pipeline import pursue
from kseg.etl.run.read_options import read_options
from kseg.etl.run.redrive_jobs import as_records, read_letters
from kseg.etl.run.report import RunReport
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
    if any(lineages_of(job)):
        message = "schemas of a registry cannot be used in a redrive yet"
        remedy = "write `schema: {file: …}`, or read the records again: `kseg backfill --mode replace`"
        raise ConfigurationError.of("decode", message, remedy)
    with JobContext.open(job, progress, observe, ledger="required") as context:
        state = context.clients.read_state()
        left = next((run for run in state.unfinished_runs() if run.mode == REDRIVE), None)
        if left is not None:
            report = pursue(context, left.chain, _nothing, take_over=take_over)
            if report.status == "done":
                report.notes.append("an unfinished redrive was completed: repeat the command for other dead letters")
                return report
        only = find_run(state, run_id).run_id if run_id is not None else None
        found = _decodable(context, where, only)
        chain = request_run_id(state.ledger_id, job.name, secrets.token_hex(10))
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


def _decodable(context: JobContext, where: str | None, run_id: str | None) -> _Found:
    """The open dead letters that the job decodes now."""
    job = context.job
    assert job.dead_letters is not None
    access = context.targets.access(job.dead_letters)
    equal = {ADDRESS[-1]: run_id} if run_id is not None else {}
    rows = read_letters(access, equal, where) if access is not None else None
    if rows is None or not rows.num_rows:
        return _Found((), ("there are no such dead letters",))
    letters = [Letter(*address) for address in zip(*(rows[name].to_pylist() for name in ADDRESS), strict=True)]
    states = LetterStates(context.clients.read_state())
    is_open = [states.of(letter) == "open" for letter in letters]
    if not any(is_open):
        counted = ", ".join(f"{number} {name}" for name, number in sorted(states.count(letters).items()))
        return _Found((), (f"none of these dead letters is open: {counted or 'they are of other jobs'}",))
    rows = rows.filter(pa.array(is_open))
    letters = [letter for letter, wanted in zip(letters, is_open, strict=True) if wanted]
    schema = read_options(job).schema
    again = _Dead()
    bad_records = BadRecords(again)
    notes = []
    for topic in dict.fromkeys(letter.topic for letter in letters):
        try:
            steps = transform_of(job).on_batches.decoding.of_topic(topic)
        except ConfigurationError:
            notes.append(f"`decode:` says nothing of topic {topic} any more: its dead letters stay open")
            letters = [letter for letter in letters if letter.topic != topic]
            continue
        records = as_records(rows.filter(pc.equal(rows["topic"], topic)), schema)
        steps.apply(records, steps.output_schema(schema), {"topic": topic}, bad_records)
    if again.addresses:
        first = "".join(f"\n  {line}" for line in bad_records.examples)
        notes.append(f"{len(again.addresses)} dead letters still cannot be decoded, and stay open. The first:{first}")
    return _Found(tuple(letter for letter in letters if letter[:3] not in again.addresses), tuple(notes))


class _Dead:
    """Takes the addresses of what still cannot be decoded."""

    def __init__(self) -> None:
        self.addresses: set[tuple[str, int, int]] = set()

    def write(self, batch: pa.RecordBatch) -> None:
        assert batch.schema == DEAD_LETTERS
        self.addresses |= set(zip(*(batch.column(name).to_pylist() for name in ADDRESS[:3]), strict=True))


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
