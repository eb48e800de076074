"""Redrive: land dead letters after the job file or a schema was corrected. Each record lands once.

A redrive is a separate run, whose ranges are the addresses of open dead letters that can be decoded now; the others
stay open. The ledger records what it has landed (`etl.ledger.dead_letters`). So the same command continues a killed
redrive, and two concurrent redrives never plan the same address.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.decoding import sections_of
from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, Refused, listed
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import ADDRESS, EMPTY, REDRIVE, Letter, LetterStates, letters_of
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import request_run_id
from kseg.etl.operations.dead_letters import addresses_of
from kseg.etl.operations.find_run import find_run, matches
from kseg.etl.operations.redrive_trial import Trial
from kseg.etl.planning.plan import Draft
from kseg.etl.run.context import JobContext, Observer
from kseg.etl.run.pipeline import pursue
from kseg.etl.run.redrive_jobs import read_letters
from kseg.etl.run.report import RunReport
from kseg.etl.tables.errors import land_again
from kseg.etl.tables.protocol import TableAccess
from kseg.etl.telemetry.progress import Progress

MAX_RANGES = 10_000
"""The most ranges of one redrive: its plan in the ledger lists them."""

MAX_BYTES = 256 << 20
"""About how many bytes of records one redrive takes: the driver holds them in memory."""

MAX_LETTERS = 100_000
"""About how many dead letters one redrive takes."""


def run_redrive(
    job: Job,
    *,
    where: str | None = None,
    run_id: str | None = None,
    take_over: bool = False,
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> RunReport:
    """Land the open dead letters that can be decoded now; an unfinished redrive is finished first, and then nothing
    else is done.

    where: an SQL condition on the columns of the dead-letter table. run_id: only those of this run; may be a unique
    prefix. Neither is looked at where an unfinished redrive is finished, which has its own.

    Raises:
        ConfigurationError: the job file names no dead-letter table, and no redrive is unfinished; or `where` is not a
            valid condition.
        Refused, AnotherRunActive: as for any run.
    """
    with JobContext.open(job, progress, observe, ledger="required") as context:
        state = context.clients.read_state()
        left = next((run for run in state.unfinished_runs() if run.mode == REDRIVE), None)
        if left is None and job.dead_letters is None:
            raise _without_letters(job)
        access = context.targets.access(job.dead_letters) if job.dead_letters is not None else None
        if access is not None and job.dead_letters is not None:
            _refuse_without_runs(access, job.dead_letters)
        if left is not None:
            report = pursue(context, left.chain, _nothing, take_over=take_over)
            if report.status == "done":
                report.notes.append("an unfinished redrive was completed: repeat the command for other dead letters")
                return report
            if job.dead_letters is None:
                raise _without_letters(job)
        if where is not None and access is not None:
            next(access.scan(ADDRESS, where=where), None)  # raises before anything else if the condition is invalid
        only = _run_of(context, access, run_id) if run_id is not None else None
        chain = request_run_id(state.ledger_id, job.name, secrets.token_hex(10))
        found = _decodable(context, access, chain, where, only)
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


def _without_letters(job: Job) -> ConfigurationError:
    """The error of a job that has no dead-letter table."""
    sections = sections_of(job.decode).values() if job.decode is not None else ()
    if any(section.on_error == "set_null" for section in sections):
        path = job.sink.dead_letters_path or "…"
        return ConfigurationError.of(
            "sink.dead_letters",
            "is not given, and `on_error: set_null` makes no dead letters: the table of earlier ones is not known",
            f"name it to land them with nulls: `sink: {{dead_letters: {{path: {path}}}}}`",
        )
    return ConfigurationError.of(
        "decode.on_error",
        "is neither dead_letter nor set_null: there is nothing to redrive",
        "set it to what is to become of dead letters that still cannot be decoded",
    )


def _nothing(draft: Draft) -> None:
    """A planner that plans no run: the chain's unfinished run is continued or abandoned."""


@dataclass(slots=True)
class _Found:
    """The open dead letters that the job can decode now, up to the limits of one redrive; and notes for the report."""

    letters: list[Letter] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    bytes: int = 0

    @property
    def full(self) -> bool:
        return self.bytes >= MAX_BYTES or len(self.letters) >= MAX_LETTERS


def _decodable(
    context: JobContext, access: TableAccess | None, chain: str, where: str | None, run_id: str | None
) -> _Found:
    """Read the dead-letter table in batches: it may not fit into memory."""
    states = LetterStates(context.clients.read_state())
    partitions = set(context.inputs.partitions())
    trial, found = Trial(context, chain, lambda draft, letters: _ranges(draft, letters)[0]), _Found()
    counted: Counter[str] = Counter()
    of_lost: list[Letter] = []
    unread = still_dead = 0
    equal = {ADDRESS[-1]: run_id} if run_id is not None else {}
    for rows in read_letters(access, equal, where) if access is not None else ():
        if found.full:
            found.notes.append("there may be more dead letters: repeat the command")
            break
        letters = letters_of(rows[name].to_pylist() for name in ADDRESS)
        refuse_unknown_runs(states, (letter for letter in letters if letter.tp in partitions), context.job.dead_letters)
        known = [states.of(letter) for letter in letters]
        counted.update(known)
        of_lost += [letter for letter, now in zip(letters, known, strict=True) if now == "unknown"]
        wanted = [now == "open" and letter.tp in partitions for letter, now in zip(letters, known, strict=True)]
        unread += known.count("open") - sum(wanted)
        if not any(wanted):
            continue
        rows = rows.filter(pa.array(wanted))
        letters = [letter for letter, is_wanted in zip(letters, wanted, strict=True) if is_wanted]
        dead = trial.still_dead(rows, letters)
        still_dead += sum(letter[:3] in dead for letter in letters)
        alive = [letter[:3] not in dead for letter in letters]
        found.letters += [letter for letter, is_alive in zip(letters, alive, strict=True) if is_alive]
        found.bytes += rows.filter(pa.array(alive)).nbytes
    if not counted["open"]:
        mine = ", ".join(f"{number} {name}" for name, number in sorted(counted.items()) if name != "other")
        what = mine or ("they are of other jobs" if counted else "there are none")
        found.notes.append(f"none of these dead letters is open: {what}")
    if of_lost:
        found.notes.append(_of_lost(of_lost, routed=context.job.sink.routed))
    if expired := sum(states.of(letter) == "expired" for letter in states.expired()):
        found.notes.append(
            f"{expired} dead letters have expired (sink.dead_letters.retention) and cannot be redriven. This "
            f"reads their records again, as long as Kafka has them: {land_again(routed=context.job.sink.routed)}"
        )
    if unread:
        found.notes.append(f"dead letters of partitions that the job does not read, and that stay open: {unread}")
    if still_dead:
        first = "".join(f"\n  {line}" for line in trial.examples)
        found.notes.append(f"dead letters that still cannot be decoded, and stay open: {still_dead}. The first:{first}")
    return found


def _of_lost(letters: Sequence[Letter], *, routed: bool) -> str:
    """The note on dead letters of a lost ledger. routed: as of `Sink.routed`."""
    first, *more = (
        f"--from {tp}:{start} --to {tp}:{end}"
        for tp, offsets in sorted((f"{tp.topic}:{tp.partition}", o) for tp, o in addresses_of(letters).items())
        for start, end in offsets
    )
    mode, row = "replace", "A row that is there already is replaced"
    if routed:
        mode = "append --label LABEL"
        row = "Leave out addresses of which a table of the job has a row: append would add a second one"
    return (
        f"{len(letters)} dead letters were written with a lost ledger (unknown): whether they were redriven since is "
        f"not known. `kseg backfill JOB --mode {mode} {first}` reads the records again, as long as Kafka has them"
        f"{f'; and so on: {listed(more, most=5)}' if more else ''}. {row}"
    )


def _refuse_without_runs(access: TableAccess, table: str) -> None:
    """Raises Refused where an existing table lacks a part of its letters' identity, such as the run."""
    there = access.column_names()
    lacking = [name for name in ADDRESS if there and name not in there]
    if lacking:
        raise Refused.of("rows-of-unknown-run", {"column": lacking[0]}, case="dead letters without runs", table=table)


def refuse_unknown_runs(states: LetterStates, letters: Iterable[Letter], table: str | None) -> None:
    """Raises Refused at the first letter whose run is unknown: neither is its record's generation, nor its job."""
    for letter in letters:
        if not states.has_run(letter):
            values = {"owner": f"run {letter.run_id}" if letter.run_id else "no run", "next": letter.offset + 1}
            raise Refused.of(
                "rows-of-unknown-run",
                values,
                case="dead letter",
                table=table,
                topic=letter.topic,
                partition=letter.partition,
                offset=letter.offset,
            )


def _run_of(context: JobContext, access: TableAccess | None, given: str) -> str:
    """The full id of a run, also of a run that the ledger has dropped: dead letters contain it. Raises Refused."""
    state = context.clients.read_state()
    try:
        return find_run(state, given).run_id
    except Refused as refused:
        if refused.code != "no-such-run" or access is None or not given:
            raise
        named: set[str] = set()
        for batch in access.scan(ADDRESS[-1:]):
            named |= set(pc.unique(batch.column(0)).to_pylist()) - {None}
        states = LetterStates(state)
        found = sorted(run_id for run_id in named if matches(run_id, given) and states.is_own(run_id))
        if not found:
            raise
        if len(found) > 1:
            raise Refused.of(
                "ambiguous-run", {"count": len(found), "found": listed(found, most=5)}, case="dead letters", run=given
            ) from None
        return found[0]


def _ranges(draft: Draft, letters: Sequence[Letter]) -> tuple[dict[TopicPartition, OffsetSet], int]:
    """The offsets of letters that are open and in no other run's plan by the draft's state, up to `MAX_RANGES` ranges;
    and the number of further ranges."""
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
