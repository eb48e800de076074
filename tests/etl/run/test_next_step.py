"""What is foreseen without a lease is what a run does under one: for any state of the ledger, and any change of job,
source, tables and group."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.group_reconciliation import GroupView
from kseg.etl.planning.plan import PlanInputs, plan_incremental
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.planning.source_identity import check_source
from kseg.etl.run import live_view, pipeline
from kseg.etl.run.live_view import LiveView
from kseg.etl.run.next_step import foresee
from kseg.etl.source.resolve import LogBounds
from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.etl.telemetry.stopwatch import Stopwatch

TOPIC, TABLE = "orders", "/lake/orders"
TP = TopicPartition(TOPIC, 0)
PLANNED, ANOTHER = UUID(int=7), UUID(int=8)
PHASES = (
    "none", "planned", "landing", "account-failed", "rows-failed", "accounted", "offsets-committed", "finished",
    "abandoning", "abandoning-landed", "abandoned",
)  # fmt: skip


def job_of(**changes: Any) -> Job:
    source = {"topics": [TOPIC], "on_gap": changes.pop("on_gap", "fail"), "on_data_loss": changes.pop("loss", "fail")}
    return job_from_document(
        {
            "version": 1,
            "name": "job",
            "kafka": {"bootstrap.servers": "localhost:1"},
            "source": source,
            "sink": {"path": TABLE, **changes},
            "group": "group",
            "ledger": "/lake/ledger",
        }
    )


@dataclass
class World:
    """What a run finds, and the ledger that it writes to. unrecorded: the last run has landed, and died before it
    recorded that."""

    job: Job
    topic_id: UUID = PLANNED
    start: int = 0
    end: int = 0
    group: int | None = None
    table_gone: bool = False
    unrecorded: bool = False
    state: JobState = field(default_factory=lambda: JobState(job="job", ledger_id="L"))
    written: int = 0

    def write(self, *events: ev.Event) -> JobState:
        entries = [Entry(event, datetime.now(UTC), self.state.sequence + 1) for event in events]
        self.state = fold(self.state, entries)
        self.written += 1
        return self.state

    def snapshot(self) -> SourceSnapshot:
        metadata = TopicMetadata(TOPIC, self.topic_id, False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})
        bounds = {TP: LogBounds(self.start, self.end, self.end)}
        return SourceSnapshot("cluster", {TOPIC: metadata}, bounds, {TP: self.start}, {TP: self.end})

    def tables(self, state: JobState) -> dict[str, ev.TableState | None]:
        record = state.table_records.get(TABLE, ev.TableRecord())
        if self.table_gone and record.landed is not None:
            raise Refused("table-missing", "rows have landed in a table that does not exist any more")
        return {TABLE: None if self.table_gone else state.tables.get(TABLE)}

    def inputs(self, state: JobState) -> PlanInputs:
        found = {} if self.group is None else {TP: CommittedOffset(self.group, -1, "")}
        return PlanInputs(self.job, self.snapshot(), self.tables(state), GroupView("group", found))


class HeldLease:
    """A chain's lease in a world whose ledger is in memory."""

    def __init__(self, world: World) -> None:
        self.world, self.chain = world, ev.INCREMENTAL
        self.attempt = world.state.next_attempt()
        world.write(ev.Leased(chain=self.chain, owner="run", attempt=self.attempt, duration=60.0))

    def sign(self, event: ev.Event) -> ev.Event:
        return replace(event, chain=self.chain, owner="run", attempt=self.attempt)

    def transition(self, decide: Any, **_: Any) -> JobState:
        events: Sequence[ev.Event] = decide(self.world.state)
        return self.world.write(*map(self.sign, events)) if events else self.world.state

    def check(self) -> None:
        pass


def context_of(world: World) -> Any:
    @contextmanager
    def run_lease(chain: str, *, take_over: bool) -> Iterator[HeldLease]:
        yield HeldLease(world)

    targets = SimpleNamespace(
        access=lambda table: None, transaction_version=lambda table, app: int(world.unrecorded) * 99
    )
    return SimpleNamespace(
        job=world.job,
        inputs=SimpleNamespace(copy=False),
        targets=targets,
        engine=SimpleNamespace(expect=lambda offsets: None),
        clients=SimpleNamespace(read_state=lambda: world.state),
        progress=NULL_PROGRESS,
        stopwatch=Stopwatch(),
        observe=lambda step: None,
        run_lease=run_lease,
    )


def ranges(plan: ev.RunPlan) -> list[tuple[int, int]]:
    return [(planned.start, planned.end) for planned in plan.ranges]


def foreseen(world: World) -> tuple[Any, ...]:
    view = LiveView(context_of(world), world.inputs)
    before = world.state
    try:
        found = foresee(view, world.state, ev.INCREMENTAL, plan_incremental)
    except Refused as refused:
        return "refused", refused.code
    finally:
        assert (world.state, world.written) == (before, 0)
    abandoned = found.abandoned.run.run_id if found.abandoned is not None and found.abandoned.run is not None else None
    if found.step.kind == "continue":
        assert found.step.run is not None
        return "continue", found.step.run.run_id
    planned = (
        [event.plan for event in found.step.draft.events if isinstance(event, ev.Planned)] if found.step.draft else []
    )
    assert (found.step.kind == "plan") == bool(planned)
    return ("plan", abandoned, ranges(planned[0])) if planned else ("nothing", abandoned)


def done(world: World) -> tuple[Any, ...]:
    """What a run does, until it reads its ranges."""
    executed: list[tuple[Any, bool]] = []
    left = world.state.unfinished()

    def execute(context: Any, lease: Any, state: JobState, run: Any, *, new: bool, **_: Any) -> Any:
        executed.append((run, new))
        return SimpleNamespace(notes=[], unread=None)

    nothing = SimpleNamespace(notes=[], unread=None)
    with (
        mock.patch.object(pipeline, "execute", execute),
        mock.patch.object(pipeline, "_nothing_to_do", return_value=nothing),
        mock.patch.object(pipeline, "preflight", lambda inputs, state, *_, **__: world.inputs(state)),
    ):
        try:
            pipeline.pursue(context_of(world), ev.INCREMENTAL, plan_incremental, take_over=False)
        except Refused as refused:
            return "refused", refused.code
    abandoned = left.run_id if left is not None and world.state.runs[left.run_id].abandoned else None
    if not executed:
        return "nothing", abandoned
    ((run, new),) = executed
    return ("plan", abandoned, ranges(run.plan)) if new else ("continue", run.run_id)


def history(world: World, lengths: Sequence[int], phase: str, planned_by: Job) -> None:
    """Finished runs of these lengths, and another one that has come to a phase."""
    world.write(ev.Leased(chain=ev.INCREMENTAL, owner="me", attempt=1, duration=60.0))
    signed: dict[str, Any] = {"owner": "me", "attempt": 1}
    if lengths or phase != "none":
        world.write(BasePinned(**signed, bases={TP: 0}, reason="configured"))
    at = 0
    for number, length in enumerate([*lengths, 5 if phase != "none" else 0], 1):
        if not length:
            continue
        last = number > len(lengths)
        upto, run_id = phase if last else "finished", f"run-{number}"
        app_id, version = world.state.next_app_transaction()
        plan = ev.RunPlan(
            run_id=run_id, mode="incremental", chain=ev.INCREMENTAL, app_id=app_id, app_version=version,
            config_hash=planned_by.config_hash, pinned_config=json.dumps(planned_by.pinned()), cluster_id="cluster",
            topics={TOPIC: ev.TopicIdentity(PLANNED, "cluster", {0: ev.PartitionIdentity(0, at + length)})},
            ranges=(ev.PlannedRange(TOPIC, 0, at, at + length, 0, TABLE),),
            tables={TABLE: world.state.tables.get(TABLE)}, group="group",
        )  # fmt: skip
        after = ev.TableState("table", number, at + length)
        landed = ev.Landed(**signed, run_id=run_id, table=TABLE, commit=ev.TableCommit(number, length, after))
        account = (ev.RangeAccount(TOPIC, 0, at, at + length, ev.RangeCounts(data=length)),)
        failed = {"ranges": account, "reason": "counts"}
        steps: dict[str, list[ev.Event]] = {
            "planned": [],
            "landing": [landed],
            "account-failed": [ev.AccountFailed(**signed, run_id=run_id, equation="offsets", **failed)],
            "rows-failed": [landed, ev.AccountFailed(**signed, run_id=run_id, equation="rows", **failed)],
            "abandoning": [ev.Abandoning(**signed, run_id=run_id, landed_in=())],
            "abandoning-landed": [landed, ev.Abandoning(**signed, run_id=run_id, landed_in=(TABLE,))],
            "abandoned": [ev.Abandoning(**signed, run_id=run_id, landed_in=()), ev.Abandoned(**signed, run_id=run_id)],
        }
        accounted: list[ev.Event] = [
            landed,
            ev.Accounted(**signed, run_id=run_id, ranges=account, rows_in=length, rows_out=length),
        ]
        offsets = {TP: ev.GroupOffset(at + length, f"kseg:L:{run_id}")}
        committed = ev.OffsetsCommitted(**signed, run_id=run_id, group="group", how="transactional", offsets=offsets)
        steps |= {
            "accounted": accounted,
            "offsets-committed": [*accounted, committed],
            "finished": [*accounted, committed, ev.Finished(**signed, run_id=run_id)],
        }
        world.write(ev.Planned(**signed, run_id=run_id, plan=plan))
        for event in steps[upto]:
            world.write(event)
        at += length
    world.end = at
    world.group = at if lengths else None
    world.written = 0


def agree(world: World) -> tuple[Any, ...]:
    with (
        mock.patch.object(live_view, "check_again", lambda _, state: check_source(world.snapshot(), state, {})),
        mock.patch.object(live_view, "examine_tables", lambda inputs, state, *_: world.tables(state)),
    ):
        before = foreseen(world)
        assert done(world) == before
    return before


@settings(deadline=None)
@given(data=st.data())
def test_a_plan_without_a_lease_decides_as_a_run_does(data: st.DataObject) -> None:
    draw = data.draw
    planned_by = job_of()
    changed = draw(st.sampled_from([{}, {}, {"merge_schema": True}, {"partition_by": ["partition"]}]), label="job")
    world = World(
        job_of(
            **changed, on_gap=draw(st.sampled_from(["fail", "record"])), loss=draw(st.sampled_from(["fail", "record"]))
        )
    )
    history(world, draw(st.lists(st.integers(1, 9), max_size=3)), draw(st.sampled_from(PHASES)), planned_by)
    world.end += draw(st.integers(-3, 9).map(lambda more: max(more, -world.end)), label="grown")
    world.start = draw(st.integers(0, world.end), label="start")
    world.topic_id = draw(st.sampled_from([PLANNED, PLANNED, PLANNED, ANOTHER]))
    world.table_gone = draw(st.sampled_from([False, False, True]))
    world.unrecorded = draw(st.booleans(), label="unrecorded")
    world.group = draw(st.sampled_from([world.group, world.group, 0, 1]), label="group")
    agree(world)


@pytest.mark.parametrize(
    ("phase", "change", "expected"),
    [
        ("planned", {}, ("continue", "run-2")),
        ("planned", {"merge_schema": True}, ("plan", "run-2", [(4, 12)])),
        ("landing", {"merge_schema": True}, ("refused", "configuration-changed")),
        ("accounted", {"merge_schema": True}, ("continue", "run-2")),
        ("abandoning", {}, ("plan", "run-2", [(4, 12)])),
        ("abandoning-landed", {"merge_schema": True}, ("plan", "run-2", [(4, 12)])),
        ("account-failed", {}, ("refused", "account-failed")),
        ("account-failed", {"on_gap": "record"}, ("continue", "run-2")),
        ("finished", {}, ("plan", None, [(9, 12)])),
        ("abandoned", {"merge_schema": True}, ("plan", None, [(4, 12)])),
    ],
)
def test_each_decision(phase: str, change: dict[str, Any], expected: tuple[Any, ...]) -> None:
    world = World(job_of(**change))
    history(world, [4], phase, job_of(on_gap=change.get("on_gap", "fail")))
    world.group, world.end = None, 12
    assert agree(world) == expected


def test_a_landing_that_was_not_recorded_is_no_less_a_landing() -> None:
    world = World(job_of(merge_schema=True), unrecorded=True)
    history(world, [], "planned", job_of())
    assert agree(world) == ("refused", "configuration-changed")


def test_another_topic_of_that_name_is_refused_before_a_run_is_said_to_continue() -> None:
    world = World(job_of(), topic_id=ANOTHER)
    history(world, [], "planned", job_of())
    assert agree(world)[0] == "refused"
