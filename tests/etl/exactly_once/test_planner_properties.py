"""The planner against any history: whatever runs, dies, is abandoned, is lost or is set by hand, no offset is planned
by two runs that land it, and in the end every offset from the base on has landed once or is on record as given up.

Planner and ledger rules alone, without Kafka and tables: what was seen goes in, events come out.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.interval import IntervalRules
from kseg.etl.config.load import job_from_document
from kseg.etl.config.times import epoch_millis
from kseg.etl.errors import Refused, RetriableFailure
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.backfill import BackfillPlanner, run_id_of
from kseg.etl.planning.backfill_request import BackfillRequest, Interval, PartitionOffset
from kseg.etl.planning.group_reconciliation import GroupView
from kseg.etl.planning.interval import BoundaryReader, from_ledger
from kseg.etl.planning.plan import Draft, PlanInputs, plan_incremental
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.planning.source_acceptance import NamedSource, accept
from kseg.etl.planning.watermark import Decision, evaluate
from kseg.etl.run.group_commit import frontier_offsets
from kseg.etl.source.resolve import LogBounds

TOPIC, GROUP = "orders", "etl"
TOPIC_ID = uuid.UUID(int=7)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
A_TICK = 4
"""Offsets an hour of the made-up clock: the record at offset o has the time o // A_TICK."""


def make_job(on_data_loss: str, starting_offsets: str) -> Any:
    return job_from_document(
        {
            "version": 1,
            "name": "job",
            "kafka": {"bootstrap.servers": "localhost:1"},
            "source": {"topics": [TOPIC], "on_data_loss": on_data_loss, "starting_offsets": starting_offsets},
            "sink": {"path": "/lake/orders"},
            "group": GROUP,
            "ledger": "/lake/ledger",
        }
    )


class Life(RuleBasedStateMachine):
    """A job's life. `logs`: start, last stable offset and high watermark of each partition."""

    def __init__(self) -> None:
        super().__init__()
        self.state = JobState(job="job", ledger_id="ledger")
        self.logs: dict[TopicPartition, list[int]] = {TopicPartition(TOPIC, 0): [0, 0, 0]}
        self.group: dict[TopicPartition, CommittedOffset] = {}
        self.may_be_passed: dict[TopicPartition, set[int]] = {}
        self.rows: dict[TopicPartition, dict[int, list[ev.RunPlan]]] = {}
        self.now_ms = epoch_millis(EPOCH)
        self.truncated: set[TopicPartition] = set()

    @initialize(
        on_data_loss=st.sampled_from(["record", "fail"]),
        starting=st.sampled_from(["earliest", "latest"]),
        grown=st.data(),
    )
    def begin(self, on_data_loss: str, starting: str, grown: Any) -> None:
        self.job = make_job(on_data_loss, starting)
        self.grow(0, grown.draw(st.integers(0, 20)), 0)

    # --- the world

    def log(self, number: int) -> TopicPartition:
        return TopicPartition(TOPIC, number % len(self.logs))

    @rule(number=st.integers(0, 2), count=st.integers(1, 12), undecided=st.integers(0, 3))
    def grow(self, number: int, count: int, undecided: int) -> None:
        """Records are written; the last of them may belong to an open transaction."""
        log = self.logs[self.log(number)]
        log[2] += count
        log[1] = max(log[1], log[2] - undecided)

    @rule(number=st.integers(0, 2), upto=st.integers(1, 10))
    def retention(self, number: int, upto: int) -> None:
        tp = self.log(number)
        log = self.logs[tp]
        log[0] = min(log[0] + upto, log[1])
        self.may_be_passed.setdefault(tp, set()).update(range(log[0]))

    @precondition(lambda self: len(self.logs) < 3)
    @rule(start=st.integers(0, 3), count=st.integers(0, 10))
    def new_partition(self, start: int, count: int) -> None:
        tp = TopicPartition(TOPIC, len(self.logs))
        self.logs[tp] = [start, start + count, start + count]
        self.may_be_passed[tp] = set(range(start))

    @rule(number=st.integers(0, 2), cut=st.integers(0, 10))
    def truncation(self, number: int, cut: int) -> None:
        """An unclean election cuts the log off, and a person accepts it; unless a run has yet to land what is gone."""
        tp = self.log(number)
        log, before = self.logs[tp], list(self.logs[tp])
        log[1] = log[2] = max(log[0], log[2] - cut)
        sign = self.lease(ev.INCREMENTAL)
        try:
            event = accept(self.seen(accept=False).snapshot, self.state, {}, [NamedSource(TOPIC, tp.partition)])
        except Refused:
            log[:] = before
            return
        if event is not None:
            self.write(sign(event))
        for offset in [offset for offset in self.rows.get(tp, {}) if offset >= log[2]]:
            del self.rows[tp][offset]  # they stay, as those of an older generation
        self.truncated.add(tp)
        found = self.group.get(tp)
        if found is not None and not found.metadata:
            self.group[tp] = found._replace(offset=min(found.offset, log[2]))

    @rule(number=st.integers(0, 2), offset=st.integers(0, 40))
    def reset_by_hand(self, number: int, offset: int) -> None:
        """The group's offset is set within the log, as the tools of Kafka do; the next run is told to accept it."""
        tp = self.log(number)
        start, stable, _ = self.logs[tp]
        self.group[tp] = CommittedOffset(min(max(offset, start), stable), -1, "")

    @rule(minutes=st.integers(1, 300))
    def time_passes(self, minutes: int) -> None:
        self.now_ms += minutes * 60_000

    @rule()
    def expiry(self) -> None:
        self.group.clear()

    # --- runs

    def seen(self, *, accept: bool) -> PlanInputs:
        partitions = {tp.partition: PartitionMetadata(tp.partition, 1, 0, (1,), (1,)) for tp in self.logs}
        bounds = {tp: LogBounds(*log) for tp, log in self.logs.items()}
        starts = {
            tp: b.start if self.job.source.starting_offsets == "earliest" else b.last_stable for tp, b in bounds.items()
        }
        snapshot = SourceSnapshot(
            cluster_id="cluster",
            topics={TOPIC: TopicMetadata(TOPIC, TOPIC_ID, False, partitions)},
            bounds=bounds,
            starts=starts,
            ends={tp: b.last_stable for tp, b in bounds.items()},
        )
        offsets = {tp: self.group.get(tp, CommittedOffset(-1, -1, "")) for tp in self.logs}
        return PlanInputs(self.job, snapshot, {"/lake/orders": None}, GroupView(GROUP, offsets, accept=accept))

    def write(self, *events: ev.Event) -> None:
        self.state = fold(self.state, [Entry(event, datetime.now(UTC), self.state.sequence + 1) for event in events])

    def lease(self, chain: str) -> Any:
        attempt = self.state.next_attempt(chain)
        self.write(ev.Leased(chain=chain, owner="me", attempt=attempt, duration=60.0))
        return lambda event: replace(event, chain=chain, owner="me", attempt=attempt)

    def draft(self, chain: str, planner: Any, *, accept: bool = True) -> None:
        """Plan a run of a chain that has none; what is refused leaves no trace."""
        if self.state.unfinished(chain) is not None:
            return
        for tp, found in self.group.items() if accept else ():
            # A partition that was added to the topic begins at 0.
            added = TOPIC in self.state.topics and tp.partition not in self.state.topics[TOPIC].partitions
            frontier = 0 if added else self.state.frontier(tp)
            if frontier is not None and not found.metadata:
                self.may_be_passed.setdefault(tp, set()).update(range(frontier, found.offset))
        sign = self.lease(chain)
        draft = Draft(self.seen(accept=accept), self.state, sign)
        try:
            plan = planner(draft)
        except (Refused, RetriableFailure):
            return
        before, self.state = self.state, draft.state
        if plan is not None:
            self.check_plan(plan, before)

    def check_plan(self, plan: ev.RunPlan, before: JobState) -> None:
        for tp, offsets in plan.offsets().items():
            start, stable, _ = self.logs[tp]
            planned = _members(offsets)
            assert planned
            assert planned <= set(range(start, stable)), "it reads what the log does not hold, or is not decided"
            others = [run for run in before.unfinished_runs() if run.chain != plan.chain]
            assert not any(planned & _members(run.plan.offsets().get(tp, ())) for run in others)

    @rule(accept=st.booleans())
    def incremental(self, accept: bool) -> None:
        self.draft(ev.INCREMENTAL, plan_incremental, accept=accept)

    @rule(
        number=st.integers(0, 2),
        start=st.integers(0, 40),
        length=st.integers(1, 12),
        mode=st.sampled_from(["missing", "missing", "missing", "replace", "append"]),
        commits=st.booleans(),
    )
    def backfill(self, number: int, start: int, length: int, mode: Any, commits: bool) -> None:
        tp = self.log(number)
        start %= self.logs[tp][1] + 1
        end = min(start + length, self.logs[tp][1])
        if start == end:
            return
        first, last = PartitionOffset(*tp, start), PartitionOffset(*tp, end)
        label = "again" if mode == "append" else None
        self.ask(BackfillRequest((first,), (last,), None, mode, label, commits))

    @rule(number=st.integers(0, 2), start=st.integers(0, 40), length=st.integers(1, 12), steps=st.integers(0, 2))
    def replace_that_is_abandoned(self, number: int, start: int, length: int, steps: int) -> None:
        """Where its rows had come, those that it replaced are gone as well."""
        before = set(self.state.runs)
        self.backfill(number, start, length, "replace", False)
        for run_id in set(self.state.runs) - before:
            for _ in range(steps):
                self.one_step(self.state.runs[run_id])
            self.abandon(self.state.runs[run_id])

    @rule()
    def a_whole_run(self) -> None:
        self.incremental(accept=False)
        if (run := self.state.unfinished()) is not None:
            self.to_its_end(run.run_id)

    @rule(
        first=st.integers(0, 8),
        length=st.integers(1, 4),
        mode=st.sampled_from(["missing", "missing", "replace"]),
        commits=st.booleans(),
    )
    def interval(self, first: int, length: int, mode: Any, commits: bool) -> None:
        hours = [EPOCH + timedelta(hours=number) for number in (first, first + length)]
        self.ask(BackfillRequest(interval=Interval(*hours), mode=mode, commit_offsets=commits))

    def ask(self, request: BackfillRequest) -> None:
        run_id = run_id_of(request, self.state)
        if (run := self.state.runs.get(run_id)) is not None and not run.abandoned:
            return
        asked = _Asked(self, request, run_id)
        self.draft(run_id, asked.decide)

    def boundary(self, tp: TopicPartition, moment: datetime) -> int:
        """The first offset at or after a time, as a broker would tell."""
        start, _, end = self.logs[tp]
        return min(max(start, int((moment - EPOCH).total_seconds() // 3600) * A_TICK), end)

    @precondition(lambda self: any(self.state.unfinished_runs()))
    @rule(data=st.data(), abandon=st.booleans())
    def go_on(self, data: Any, abandon: bool) -> None:
        run = data.draw(st.sampled_from(list(self.state.unfinished_runs())))
        if abandon and run.offsets_committed is None:
            self.abandon(run)
        else:
            self.one_step(run)

    @precondition(lambda self: any(self.state.unfinished_runs()))
    @rule(data=st.data())
    def finish(self, data: Any) -> None:
        self.to_its_end(data.draw(st.sampled_from(list(self.state.unfinished_runs()))).run_id)

    def abandon(self, run: Any) -> None:
        sign = self.lease(run.chain)
        if not run.abandoning:
            self.write(sign(ev.Abandoning(run_id=run.run_id)))
        self.write(sign(ev.Abandoned(run_id=run.run_id)))
        for of_partition in self.rows.values():
            for landed in of_partition.values():
                landed[:] = [plan for plan in landed if plan is not run.plan]

    def one_step(self, run: Any) -> None:
        sign = self.lease(run.chain)
        if run.accounted is None and not run.landed:
            commit = ev.TableCommit(run.sequence, 1, ev.TableState("table", self.state.sequence, 1))
            self.write(sign(ev.Landed(run_id=run.run_id, table="/lake/orders", commit=commit)))
            for r in run.plan.ranges:
                for offset in range(r.start, r.end):
                    landed = self.rows.setdefault(r.tp, {}).setdefault(offset, [])
                    if run.mode == "backfill-replace":
                        landed.clear()
                    landed.append(run.plan)
        elif run.accounted is None:
            accounts = tuple(
                ev.RangeAccount(r.topic, r.partition, r.start, r.end, ev.RangeCounts(data=r.length))
                for r in run.plan.ranges
            )
            self.write(sign(ev.Accounted(run_id=run.run_id, ranges=accounts, rows_in=1, rows_out=1)))
        elif run.plan.commit_offsets and run.offsets_committed is None:
            offsets = frontier_offsets(self.state, run.run_id, list(self.logs))
            self.group |= offsets
            told = {tp: ev.GroupOffset(o.offset, o.metadata or "", o.leader_epoch) for tp, o in offsets.items()}
            self.write(sign(ev.OffsetsCommitted(run_id=run.run_id, group=GROUP, how="transactional", offsets=told)))
        else:
            self.write(sign(ev.Finished(run_id=run.run_id)))

    def to_its_end(self, run_id: str) -> None:
        while not (run := self.state.runs[run_id]).ended:
            self.abandon(run) if run.abandoning else self.one_step(run)

    # --- what must hold

    @invariant()
    def nothing_lands_twice_unless_it_is_asked_for(self) -> None:
        for of_partition in self.rows.values():
            for landed in of_partition.values():
                assert len([plan for plan in landed if plan.mode != "backfill-append"]) <= 1
                assert len({plan.run_id for plan in landed}) == len(landed)

    @invariant()
    def the_frontier_is_the_first_open_offset(self) -> None:
        for tp in self.logs:
            if (base := self.state.bases.get(tp)) is not None:
                covered = _members(self.state.landed(tp)) | _members(self.state.given_up(tp))
                expected = next(offset for offset in range(base, 10_000) if offset not in covered)
                assert self.state.frontier(tp) == expected

    @invariant()
    def boundaries_ascend_with_their_times(self) -> None:
        """Or an interval between two of them would end before it begins, and its neighbours would share offsets."""
        for tp in self.logs:
            pinned = sorted((at, offset) for (of, at), offset in self.state.boundaries.items() if of == tp)
            offsets = [offset for _, offset in pinned]
            assert offsets == sorted(offsets)
            # One above all that has landed is not known to be of a log that was cut off since.
            assert all(offset <= self.logs[tp][1] for offset in offsets) or tp in self.truncated

    @invariant()
    def only_what_was_lost_or_jumped_over_is_given_up(self) -> None:
        for tp in self.logs:
            assert _members(self.state.given_up(tp)) <= self.may_be_passed.get(tp, set())

    def teardown(self) -> None:
        """Everything is finished, retention is allowed for, and one more run reads the rest."""
        if not hasattr(self, "job"):
            return
        self.job = make_job("record", "earliest")
        for run in list(self.state.unfinished_runs()):
            self.to_its_end(run.run_id)
        for _ in range(2):
            self.incremental(accept=True)
            for run in list(self.state.unfinished_runs()):
                self.to_its_end(run.run_id)
        for tp, (_, stable, _) in self.logs.items():
            base = self.state.bases[tp]
            landed, given_up = _members(self.state.landed(tp)), _members(self.state.given_up(tp))
            assert set(range(base, stable)) <= landed | given_up
            assert not landed & given_up
            assert self.state.frontier(tp) == max(base, stable)
            rows = {offset for offset, landed in self.rows.get(tp, {}).items() if landed}
            assert set(range(base, stable)) - given_up <= rows, "passed over"
            assert not rows & given_up
        self.nothing_lands_twice_unless_it_is_asked_for()


class _Asked(BackfillPlanner):
    """A backfill whose times are found in the model's logs."""

    def __init__(self, life: Life, request: BackfillRequest, run_id: str) -> None:
        super().__init__(life.job, SimpleNamespace(), request, run_id)  # type: ignore[arg-type]
        self.boundaries = _InModel(life)


class _InModel(BoundaryReader):
    def __init__(self, life: Life) -> None:
        super().__init__(SimpleNamespace(), life.job)  # type: ignore[arg-type]
        self.life = life

    def decisions(
        self, state: JobState, bounds: Any, time_ms: int, now_ms: int, *, ends: bool
    ) -> dict[TopicPartition, Decision]:
        observations = from_ledger(state, time_ms, bounds)
        for tp, observation in observations.items():
            first = self.life.boundary(tp, EPOCH + timedelta(milliseconds=time_ms - epoch_millis(EPOCH)))
            older = bounds[tp].start < first
            observations[tp] = replace(observation, older=older)
            if first < bounds[tp].last_stable:
                observations[tp] = replace(observation, older=older, first=first, passed=True)
        return evaluate(time_ms, observations, IntervalRules(), self.life.now_ms)


def _members(intervals: Any) -> set[int]:
    return {offset for start, end in intervals for offset in range(start, end)}


TestLife = Life.TestCase
TestLife.settings = settings(stateful_step_count=30)
