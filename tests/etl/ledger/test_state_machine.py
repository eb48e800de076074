"""Random lives of a job, against a model that keeps every offset by itself.

The model knows nothing of intervals, phases or chains' rules: it keeps which runs hold rows of an offset. Whatever the
fold lets through must agree with it, no offset may be landed twice unless somebody asked for it, and folding the
events up to any point into a summary must change nothing that a planner asks.
"""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import codec
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.errors import IllegalEvent, LeaseLost
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.maintenance import summary_of
from kseg.etl.ledger.ranges import OffsetRange, OffsetSet
from kseg.etl.ledger.state import JobState, Summary

PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
CHAINS = [ev.INCREMENTAL, "b1", "b2"]
SIZE = 8
START = datetime(2026, 1, 1, tzinfo=UTC)

chains = st.sampled_from(CHAINS)
partitions = st.sampled_from(PARTITIONS)
spans = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda pair: (min(pair), max(pair)))
backfill_modes = st.sampled_from(["interval", "backfill-missing", "backfill-replace", "backfill-append"])


def planner_view(state: JobState):
    """All that plans, commits and refusals are made from."""
    unfinished = {chain: state.unfinished(chain) for chain in CHAINS}
    return {
        "sequence": state.sequence,
        "bases": state.bases,
        "landed": {tp: state.landed(tp) for tp in PARTITIONS},
        "given_up": {tp: state.given_up(tp) for tp in PARTITIONS},
        "reserved": {tp: state.reserved(tp) for tp in PARTITIONS},
        "frontier": {tp: state.frontier(tp) for tp in PARTITIONS},
        "boundaries": state.boundaries,
        "reopened": state.reopened,
        "topics": state.topics,
        "tables": state.tables,
        "table_records": state.table_records,
        "committed": state.committed,
        "numbers": {chain: state.next_app_transaction(chain) for chain in CHAINS},
        "unfinished": unfinished,
        "order": [run.run_id for run in state.unfinished_runs()],
        "leases": state.leases,
        "backfills": {chain: state.runs[chain].phase for chain in CHAINS if chain in state.runs},
        "rows": sum_rows(state),
    }


def sum_rows(state: JobState):
    rows = state.archive.rows_out
    return rows + sum(run.accounted.rows_out for run in state.runs.values() if run.finished and run.accounted)


class JobLife(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.entries: list[Entry] = []
        self.initial = JobState(job="orders", ledger_id="L")
        self.state = self.initial
        self.now = START
        self.attempts = Counter()
        self.number = 0
        self.holders: dict[TopicPartition, list[list[str]]] = {tp: [[] for _ in range(SIZE)] for tp in PARTITIONS}
        self.again: set[str] = set()
        self.passed: dict[TopicPartition, set[int]] = {tp: set() for tp in PARTITIONS}

    def write(self, *events: ev.Event) -> bool:
        """One transition; False where the fold refuses it."""
        self.now += timedelta(hours=1)
        entries = [Entry(event, self.now, self.state.sequence + 1) for event in events]
        try:
            self.state = fold(self.state, entries)
        except IllegalEvent:
            return False
        self.entries += entries
        return True

    def sign(self, kind, chain, run_id="", **fields):
        return kind(chain=chain, run_id=run_id, owner=chain, attempt=self.attempts[chain], **fields)

    @initialize()
    def begin(self):
        for chain in CHAINS:
            self.take(chain)
        assert self.write(self.sign(BasePinned, ev.INCREMENTAL, bases=dict.fromkeys(PARTITIONS, 0), reason="group"))

    @rule(chain=chains)
    def take(self, chain):
        self.attempts[chain] += 1
        assert self.write(self.sign(ev.Leased, chain, duration=60.0))

    @rule(chain=chains)
    def a_lease_before_the_last_writes_nothing(self, chain):
        stale = replace(self.sign(ev.Renewed, chain), attempt=self.attempts[chain] - 1)
        try:
            fold(self.state, [Entry(stale, self.now, self.state.sequence + 1)])
        except LeaseLost:
            return
        raise AssertionError("a stale lease wrote")

    @rule(spans=st.lists(st.tuples(partitions, spans), max_size=2))
    def plan_anything(self, spans):
        """A run as planned by somebody who did not look: mostly refused."""
        self.number += 1
        self.plan(ev.INCREMENTAL, f"r{self.number}", "incremental", [OffsetRange(*tp, *span) for tp, span in spans])

    @rule(most=st.integers(1, 8))
    def plan_well(self, most):
        self.plan_what_is_open(most)

    def plan_what_is_open(self, most):
        """A run as a planner makes it: never refused, if the chain is free."""
        wanted = []
        for tp in PARTITIONS:
            start = self.state.frontier(tp)
            wanted += self.state.open_in(tp, start, max(start, min(start + most, SIZE))).ranges(tp)
        self.number += 1
        free = self.state.unfinished() is None
        assert self.plan(ev.INCREMENTAL, f"r{self.number}", "incremental", wanted) == free

    @rule(chain=st.sampled_from(CHAINS[1:]), mode=backfill_modes, tp=partitions, span=spans)
    def backfill(self, chain, mode, tp, span):
        self.plan(chain, chain, mode, [OffsetRange(*tp, *span)])

    @rule(chain=st.sampled_from(CHAINS[1:]), mode=backfill_modes, tp=partitions, span=spans, account=st.booleans())
    def backfill_and_abandon(self, chain, mode, tp, span, account):
        if self.plan(chain, chain, mode, [OffsetRange(*tp, *span)]):
            run = self.state.runs[chain]
            self.land(run)
            for kind in (ev.Accounted, ev.Abandoning) if account else (ev.Abandoning,):
                self.step(run, kind)
            self.abandoned(run)

    @rule(most=st.integers(1, 8))
    def a_whole_run(self, most):
        self.plan_what_is_open(most)
        run = self.state.unfinished()
        if run is not None and run.phase == "planned":
            self.land(run)
            for kind in (ev.Accounted, ev.Finished):
                self.step(run, kind)

    def plan(self, chain, run_id, mode, ranges):
        app_id, app_version = self.state.next_app_transaction(chain)
        plan = ev.RunPlan(
            run_id=run_id,
            mode=mode,
            chain=chain,
            app_id=app_id,
            app_version=app_version,
            config_hash="h",
            pinned_config="{}",
            cluster_id="c",
            topics={},
            ranges=tuple(ev.PlannedRange(r.topic, r.partition, r.start, r.end, table="t") for r in ranges),
            tables={},
            generations={tp: number for tp in {r.tp for r in ranges} if (number := self.state.generation(tp))},
        )
        done = self.write(self.sign(ev.Planned, chain, run_id, plan=plan))
        if done:
            (self.again.add if mode in ("backfill-replace", "backfill-append") else self.again.discard)(run_id)
        return done

    def offsets(self, run):
        return [(r.tp, offset) for r in run.plan.ranges for offset in range(r.start, r.end)]

    @precondition(lambda self: any(self.state.unfinished_runs()))
    @rule(data=st.data(), times=st.integers(1, 3))
    def advance(self, data, times):
        """Some steps of a run that goes as it should."""
        run = data.draw(st.sampled_from(list(self.state.unfinished_runs())))
        for _ in range(times):
            run = self.state.runs[run.run_id]
            match run.phase:
                case "planned":
                    self.land(run)
                case "landing":
                    self.step(run, ev.Accounted)
                case "account-failed":
                    self.step(run, ev.AccountCleared)
                case "accounted" | "offsets-committed":
                    self.step(run, ev.Finished)
                case _:
                    self.abandoned(run)

    @precondition(lambda self: any(self.state.unfinished_runs()))
    @rule(data=st.data())
    def stumble(self, data):
        """Any step of any run, the legal ones among them."""
        run = data.draw(st.sampled_from(list(self.state.unfinished_runs())))
        kinds = [ev.Landed, ev.Accounted, ev.AccountFailed, ev.OffsetsCommitted, ev.Finished, ev.Abandoning]
        kind = data.draw(st.sampled_from([*kinds, ev.Abandoning, ev.Abandoning]))
        if kind is ev.Landed:
            self.land(run)
        elif run.landed or kind is not ev.Accounted:  # a run that lands nothing has no rows in the model's table
            self.step(run, kind)

    def land(self, run):
        commit = ev.TableCommit(self.state.sequence, 1, ev.TableState("t", self.state.sequence, 1))
        if self.write(self.sign(ev.Landed, run.chain, run.run_id, table="t", commit=commit)):
            for tp, offset in self.offsets(run):
                if run.mode == "backfill-replace":
                    self.holders[tp][offset].clear()
                self.holders[tp][offset].append(run.run_id)

    def step(self, run, kind):
        accounts = tuple(
            ev.RangeAccount(r.topic, r.partition, r.start, r.end, ev.RangeCounts(data=r.length))
            for r in run.plan.ranges
        )
        fields = {
            ev.Accounted: {"ranges": accounts, "rows_in": 3, "rows_out": 2},
            ev.AccountFailed: {"equation": "rows", "reason": "lost one"},
            ev.AccountCleared: {"reason": "repaired"},
            ev.OffsetsCommitted: {"group": "g", "how": "plain", "offsets": {PARTITIONS[0]: ev.GroupOffset(1, "m")}},
        }
        self.write(self.sign(kind, run.chain, run.run_id, **fields.get(kind, {})))

    def abandoned(self, run):
        if self.write(self.sign(ev.Abandoned, run.chain, run.run_id)):
            for of_partition in self.holders.values():
                for held in of_partition:
                    held[:] = [run_id for run_id in held if run_id != run.run_id]

    @rule(tp=partitions, span=spans, back=st.booleans())
    def give_up(self, tp, span, back):
        ranges = (OffsetRange(*tp, *span),)
        if back:
            assert self.write(self.sign(ev.OffsetsReclaimed, ev.INCREMENTAL, ranges=ranges, reason="x"))
            self.passed[tp] -= set(range(*span))
        else:
            assert self.write(self.sign(ev.OffsetsGivenUp, ev.INCREMENTAL, ranges=ranges, reason="retention"))
            self.passed[tp] |= set(range(*span))

    @rule(tp=partitions, time_ms=st.integers(0, 3), offset=st.integers(0, 2))
    def pin_boundary(self, tp, time_ms, offset):
        known = self.state.boundary(tp, time_ms)
        done = self.write(self.sign(ev.BoundaryPinned, ev.INCREMENTAL, time_ms=time_ms, offsets={tp: offset}))
        assert done == (known in (None, offset))

    @rule(tp=partitions, first=st.integers(0, SIZE))
    def accept_a_truncation(self, tp, first):
        """What stands from there on means other records: nothing of it has landed, been passed over or been pinned."""
        waiting = [run for run in self.state.unfinished_runs() if run.accounted is None]
        blocked = any(r.tp == tp and r.end > first for run in waiting for r in run.plan.ranges)
        event = self.sign(ev.SourceAccepted, ev.INCREMENTAL, topics={}, reopened={tp: first}, reason="log-truncated")
        assert self.write(event) == (not blocked)
        if not blocked:
            for held in self.holders[tp][first:]:
                held.clear()
            self.passed[tp] -= set(range(first, SIZE))
            assert all(offset <= first for (of, _), offset in self.state.boundaries.items() if of == tp)

    @invariant()
    def landed_is_what_accounted_runs_hold(self):
        counting = {run.run_id for run in self.state.runs.values() if run.accounted and not run.abandoned}
        pending = {run.run_id for run in self.state.unfinished_runs()}
        for tp in PARTITIONS:
            landed = self.state.landed(tp)
            for offset, held in enumerate(self.holders[tp]):
                if counting & set(held):
                    assert offset in landed
                elif not pending & set(held):
                    assert offset not in landed
            assert not landed.subtract(OffsetSet.single(0, SIZE))

    @invariant()
    def nothing_lands_twice_unasked(self):
        for of_partition in self.holders.values():
            for held in of_partition:
                assert len(held) == len(set(held))
                assert len([run_id for run_id in held if run_id not in self.again]) <= 1

    @invariant()
    def the_frontier_is_the_first_open_offset(self):
        for tp in PARTITIONS:
            frontier = 0
            while frontier in self.state.landed(tp) or frontier in self.passed[tp]:
                frontier += 1
            if tp in self.state.bases:
                assert self.state.frontier(tp) == frontier

    def teardown(self):
        if not self.entries:
            return
        last = self.entries[-1].sequence
        for runs_kept, cut in enumerate(sorted({1, last // 3, 2 * last // 3, last} - {0})):
            self.check_summary(cut, runs_kept)

    def check_summary(self, cut, runs_kept):
        """Start from a summary at `cut`, as it comes out of the table: what follows is as legal, and means the same."""
        early = [entry for entry in self.entries if entry.sequence <= cut]
        rest = [entry for entry in self.entries if entry.sequence > cut]
        again = fold(fold(self.initial, [stored(fold(self.initial, early), runs_kept)]), rest)
        assert planner_view(again) == planner_view(self.state)
        twice = fold(self.initial, [stored(again, 0)])
        assert planner_view(twice) == planner_view(again)


def stored(state, runs_kept):
    """The entry of a summary, through the table's own encoding."""
    entry = Entry(Summary(state=summary_of(state, runs_kept=runs_kept)), state.updated_at, state.sequence)
    return codec.decode("orders", codec.encode("orders", [codec.Row(entry, 0, 1, "summary")]))[0].entry


TestJobLife = JobLife.TestCase
