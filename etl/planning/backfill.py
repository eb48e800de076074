"""Plans backfills and interval runs: a request is resolved to ranges once, and identifies its run.

    request              resolved to                                                  pinned in
    -------------------  -----------------------------------------------------------  ------------------------------
    offsets              the same offsets, end exclusive                              the run's plan
    two times            the first record at or after each                            the run's plan
    --interval           boundaries: a time always has the same offset, for the       the ledger, for the job
                         intervals before and after it

    mode                 reads
    missing (default)    offsets that have not landed, by the ledger
    replace              all; one commit removes the old rows of these addresses and adds the new ones
    append               all, again

The run id is a hash of ledger, job, mode, request and label, so the same request finds its existing run. This includes
runs of release 0.1, whose ids were hashes without the ledger. An unfinished replacement is taken up under any label,
since no other run can plan its offsets.

A run that reads files (`segments`) has the same id as one that reads the brokers; files replace the brokers, which are
not used. A request for all offsets of the files means those from each partition's base to the files' end, so files that
have grown make another run.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.sections import Segments
from kseg.etl.config.times import epoch_millis
from kseg.etl.dispositions.registry import disposition_in
from kseg.etl.errors import ConfigurationError, Refused, RetriableFailure
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.modes import BACKFILLS, MODES
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import request_run_id
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.backfill_request import BackfillRequest, Bound, PartitionOffset
from kseg.etl.planning.inputs import InputReader
from kseg.etl.planning.interval import BoundaryReader, now_millis
from kseg.etl.planning.plan import Draft, PlanInputs
from kseg.etl.planning.preflight import preflight
from kseg.etl.planning.snapshot import SourceSnapshot, visible_end
from kseg.etl.planning.unread_partitions import unread_fault
from kseg.etl.planning.watermark import Decision
from kseg.etl.source.logs import Logs
from kseg.etl.source.resolve import AtTime


def job_for(job: Job, request: BackfillRequest) -> Job:
    """The job for a backfill: it reads the request's files, if the request names files.

    Raises:
        ConfigurationError: the mode's disposition does not fit the job.
    """
    disposition_in(BACKFILLS[request.mode]).check_job(job)
    if request.segments:
        return job.of_files(Segments.named(request.segments), brokers=request.commit_offsets)
    return job


def all_in_files(inputs: InputReader, request: BackfillRequest, state: JobState) -> BackfillRequest | None:
    """All offsets of the files: from each base, or the files' start, to the files' end; None if there are none."""
    draft = Draft.unwritten(preflight(inputs, state, ev.INCREMENTAL), state)
    draft.check_and_pin(moves_offsets=False)
    snapshot = draft.inputs.snapshot
    bounds = {
        tp: (max(draft.state.bases[tp], snapshot.bounds[tp].start), min(end, readable_end(draft, tp)))
        for tp, end in snapshot.ends.items()
    }
    filled = {tp: ends for tp, ends in bounds.items() if ends[0] < ends[1]}
    if not filled:
        return None
    return replace(
        request,
        from_=tuple(PartitionOffset(*tp, start) for tp, (start, _) in sorted(filled.items())),
        to=tuple(PartitionOffset(*tp, end) for tp, (_, end) in sorted(filled.items())),
    )


def unfinished_from_files(state: JobState, files: Collection[str]) -> BackfillRequest | None:
    """The request of an unfinished backfill of all offsets of these files; no other run can plan these offsets."""
    for run in state.unfinished_runs():
        if run.mode == "backfill-missing" and files_of(run) == frozenset(files):
            return BackfillRequest.from_json(json.loads(run.plan.asked))
    return None


def files_of(run: RunState) -> frozenset[str]:
    """The folders of log files that a run was planned to read; none if it was to read the brokers."""
    segments = json.loads(run.plan.pinned_config).get("source", {}).get("segments") or {}
    return frozenset(segments.get("paths", ()))


def readable_end(draft: Draft, tp: TopicPartition) -> int:
    """The first offset that must not be read now.

    If a copy's last leader epoch is older than the epoch in the ledger, this is at most the broker's checkpointed high
    watermark, because later leaders may not have the records above it. If a copy is older than an accepted change of
    the source, only offsets below the change are read.
    """
    snapshot = draft.inputs.snapshot
    bounds = snapshot.bounds[tp]
    end = visible_end(bounds, draft.inputs.job.source.isolation_level)
    if snapshot.copy:
        state = draft.state
        end = min(end, state.current_below(tp, state.generation_in(tp, snapshot.leader_epoch(tp))))
    known = draft.state.topics.get(tp.topic)
    seen = known.partitions.get(tp.partition) if known else None
    if not snapshot.copy or seen is None or bounds.confirmed is None or bounds.confirmed < 0:
        return end
    return min(end, bounds.confirmed) if snapshot.leader_epoch(tp) < seen.leader_epoch else end


def run_id_of(request: BackfillRequest, state: JobState) -> str:
    """The id of this request's run in this ledger, or of the unfinished replacement that it takes up."""
    left = unfinished_replacement(request, state)
    return _own_id(request, state) if left is None else left.run_id


def unfinished_replacement(request: BackfillRequest, state: JobState) -> RunState | None:
    """The unfinished replacement that differs from this request in its label alone, and has to be completed first."""
    if not BACKFILLS[request.mode].taken_up:
        return None
    own = state.runs.get(_own_id(request, state))
    if own is not None and not own.abandoned:
        return None
    wanted = request.identity() | {"label": None}
    return next(
        (
            run
            for run in state.unfinished_runs()
            if run.plan.asked and json.loads(run.plan.asked) | {"label": None} == wanted
        ),
        None,
    )


def _own_id(request: BackfillRequest, state: JobState) -> str:
    digest = request.digest(state.job)
    before = state.runs.get(digest)
    if before is not None and not before.abandoned and _still_answers(before, state):
        return digest  # planned by release 0.1
    changes = 0 if BACKFILLS[request.mode].labelled else sum(map(len, state.reopened.values()))
    for number in range(changes + 1):
        run_id = request_run_id(state.ledger_id, state.job, _after(digest, number))
        run = state.runs.get(run_id)
        if number == changes or (run is not None and not run.abandoned and _still_answers(run, state)):
            return run_id
    raise AssertionError("the last number gives an id")


def _after(digest: str, changes: int) -> str:
    """The digest of a request after its offsets were reopened, because it now reads other records."""
    return sha256(f"{digest}/{changes}".encode()).hexdigest() if changes else digest


def _still_answers(run: RunState, state: JobState) -> bool:
    """Whether a run is still its request's run: it has not ended, or none of its offsets was reopened since."""
    if not run.ended or MODES[run.mode].labelled:
        return True
    if run.archived:
        return not state.reopened
    planned = run.plan.offsets()
    return all(state.current(run, tp, offsets) == offsets for tp, offsets in planned.items())


@dataclass(slots=True)
class BackfillPlanner:
    """Plans one backfill or interval run in a draft. run_id: the result of `run_id_of`."""

    job: Job
    logs: Logs
    request: BackfillRequest
    run_id: str
    boundaries: BoundaryReader = field(init=False)

    def __post_init__(self) -> None:
        self.boundaries = BoundaryReader(self.logs, self.job)

    @property
    def mode(self) -> ev.Mode:
        once = self.request.interval is not None and self.request.mode == "missing"
        return "interval" if once else BACKFILLS[self.request.mode].name

    def decide(self, draft: Draft) -> ev.RunPlan | None:
        """Plan the run in a draft; None if there is nothing to land."""
        draft.check_and_pin(moves_offsets=self.request.commit_offsets)
        asked = self._asked(draft)
        if BACKFILLS[self.request.mode].lands_once:
            wanted = {tp: offsets.subtract(draft.state.landed(tp)) for tp, offsets in asked.items()}
        else:
            wanted = dict(asked)
        self._refuse_reserved(draft.state, wanted)
        wanted = {tp: offsets for tp, offsets in draft.drop_lost(wanted).items() if offsets}
        if not wanted:
            return None
        return draft.plan(
            self.run_id,
            self.mode,
            wanted,
            commit_offsets=self.request.commit_offsets,
            asked=json.dumps(self.request.identity(), sort_keys=True),
            late_before_ms=epoch_millis(self.request.interval.start) if self.request.interval is not None else None,
        )

    def _refuse_reserved(self, state: JobState, wanted: Mapping[TopicPartition, OffsetSet]) -> None:
        """Refuse offsets of another run's plan. They cannot be left out, because that run may still be abandoned."""
        reserved = state.reservations(except_chain=self.run_id)
        for tp, offsets in wanted.items():
            if tp in reserved and (taken := offsets.intersect(reserved[tp])):
                owner = next(
                    run for run in state.unfinished_runs() if taken.intersect(run.plan.offsets().get(tp, OffsetSet()))
                )
                raise Refused.of(
                    "offsets-reserved",
                    {"taken": taken, "phase": owner.phase},
                    topic=tp.topic,
                    partition=tp.partition,
                    run=owner.run_id,
                )

    def _asked(self, draft: Draft) -> dict[TopicPartition, OffsetSet]:
        snapshot = draft.inputs.snapshot
        chosen = self._partitions(snapshot)
        runs = draft.state.runs
        again = runs.get(self.run_id) or runs.get(self.request.digest(self.job.name))
        asked_before = again is not None and again.abandoned and _still_answers(again, draft.state)
        by_time = isinstance(self.request.from_, datetime) or isinstance(self.request.to, datetime)
        if again is not None and asked_before and not again.archived and by_time:
            # Abandoned, and asked again: times must not mean other offsets than the first time.
            return {tp: offsets for tp, offsets in again.plan.offsets().items() if tp in chosen}
        if self.request.interval is not None:
            first, last = self.request.interval
            starts = self._boundary(draft, first)
            ends = self._boundary(draft, last, ends=True)
        else:
            assert self.request.from_ is not None and self.request.to is not None  # noqa: PT018
            starts = self._bound(self.request.from_, chosen)
            if isinstance(self.request.from_, datetime):
                draft.note_cut_logs(self.request.from_, starts)
            ends = self._bound(self.request.to, chosen, ends=True)
        readable = {tp: min(ends[tp], readable_end(draft, tp)) for tp in chosen}
        if isinstance(self.request.to, tuple):
            self._refuse_unreadable(ends, readable, snapshot)
        if snapshot.copy and isinstance(self.request.from_, tuple):
            self._refuse_what_files_lack(starts, snapshot)
        return {tp: OffsetSet.single(starts[tp], readable[tp]) for tp in chosen}

    def _partitions(self, snapshot: SourceSnapshot) -> Sequence[TopicPartition]:
        named = self.request.partitions
        if named is None:
            return snapshot.partitions
        faults = (
            unread_fault("--from", *tp, snapshot.partitions) for tp in sorted(TopicPartition(*tp) for tp in named)
        )
        if unread := [fault for fault in faults if fault is not None]:
            raise ConfigurationError(unread)
        return sorted(TopicPartition(*tp) for tp in named)

    def _refuse_what_files_lack(self, starts: Mapping[TopicPartition, int], snapshot: SourceSnapshot) -> None:
        """Refuse offsets that the files lack. This is not a data loss: the brokers or another copy may have them."""
        for tp, start in starts.items():
            first = snapshot.bounds[tp].start
            if start < first:
                raise _not_in_files(tp, f"the backfill starts at offset {start}, and the files start at {first}", first)

    def _refuse_unreadable(
        self, ends: Mapping[TopicPartition, int], readable: Mapping[TopicPartition, int], snapshot: SourceSnapshot
    ) -> None:
        for tp, end in ends.items():
            if end > readable[tp] and snapshot.copy:
                message = (
                    f"the backfill ends at offset {end}, and the files have complete records only below {readable[tp]}"
                )
                raise _not_in_files(tp, message, readable[tp])
            if end > readable[tp]:
                raise RetriableFailure(
                    f"the backfill ends at offset {end}, and only offsets below {readable[tp]} can be read now",
                    remedy="end earlier, or wait until the records are written and their transactions have ended",
                    topic=tp.topic,
                    partition=tp.partition,
                )

    def _bound(
        self, bound: Bound, chosen: Sequence[TopicPartition], *, ends: bool = False
    ) -> dict[TopicPartition, int]:
        if not isinstance(bound, datetime):
            return {TopicPartition(o.topic, o.partition): o.offset for o in bound}
        return self.logs.offsets(
            AtTime(epoch_millis(bound), ends=ends),
            chosen,
            isolation_level=self.job.source.isolation_level,
        )

    def _boundary(self, draft: Draft, instant: datetime, *, ends: bool = False) -> dict[TopicPartition, int]:
        """The offsets of a time: pinned earlier, or pinned now. Unproved boundaries are recorded but not pinned."""
        millis, state = epoch_millis(instant), draft.state
        decisions = self._closed(draft, millis, ends=ends)
        offsets = {tp: decision.offset for tp, decision in decisions.items() if decision.offset is not None}
        unproved = {tp for tp, decision in decisions.items() if decision.possible_loss}
        pinned = {tp: o for tp, o in offsets.items() if tp not in unproved and state.boundary(tp, millis) is None}
        noted = {tp: draft.inputs.snapshot.bounds[tp].start for tp in unproved if (tp, millis) not in state.unproved}
        if pinned:
            draft.add(ev.BoundaryPinned(time_ms=millis, offsets=pinned))
        if noted:
            draft.add(ev.BoundaryNotPinned(time_ms=millis, log_starts=noted))
        return offsets

    def _closed(self, draft: Draft, millis: int, *, ends: bool) -> dict[TopicPartition, Decision]:
        return self.boundaries.offsets(draft.state, draft.inputs.snapshot.bounds, millis, ends=ends)

    def read_boundaries(self, inputs: PlanInputs, state: JobState) -> None:
        """Read an interval's boundaries from the logs before the decision, because this takes time."""
        if self.request.interval is not None:
            for instant, ends in zip(self.request.interval, (False, True), strict=True):
                millis = epoch_millis(instant)
                self.boundaries.decisions(state, inputs.snapshot.bounds, millis, now_millis(), ends=ends)


def _not_in_files(tp: TopicPartition, message: str, offset: int) -> Refused:
    return Refused.of("offsets-not-in-files", {"what": message}, topic=tp.topic, partition=tp.partition, offset=offset)
