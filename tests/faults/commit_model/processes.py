"""The processes of the model, step by step as `etl/run` has them. Between any two steps others may do anything.

A process that has crashed is gone; one that sleeps is one whose next step comes late. Leases can always be taken over:
in the model they protect nothing by their time, only by their number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from commit_model.world import CHANGED, JOB, PARTITIONS, TABLES, World, digest_of
from kseg.etl.config.job import Job
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.backfill import BackfillPlanner, run_id_of
from kseg.etl.planning.backfill_request import BackfillRequest, PartitionOffset
from kseg.etl.planning.freshness import group_as_of, inputs_as_of
from kseg.etl.planning.group_reconciliation import GroupView, reconcile
from kseg.etl.planning.plan import Draft, PlanInputs, plan_incremental
from kseg.etl.run.group_commit import _already_committed, _lowered, as_events, frontier_offsets
from kseg.etl.run.next_step import next_step

BACKFILL = BackfillRequest(
    from_=tuple(PartitionOffset(*tp, 0) for tp in PARTITIONS), to=tuple(PartitionOffset(*tp, 1) for tp in PARTITIONS)
)
"""The first record of each log: what the first incremental run would read as well."""

INCREMENTAL_KINDS = ("ingest", "changed", "finish")


@dataclass(frozen=True)
class Process:
    """kind: `ingest`, `changed` (the same with the changed job file), `finish` (as the run was planned), `backfill` or
    `abandon`. at: its next step. attempt: of its lease on `chain`, 0 before it.

    marked: the run that its commit of offsets names where it has none of its own, as a run with nothing to do has.
    read, inputs, view: what it has observed and not used yet. epoch: of its producer. table: number of the next one.
    stake: the tables with rows that it has decided to remove; None: an abandonment that another one has decided on.
    """

    kind: str
    at: str = "lease"
    chain: str = ""
    attempt: int = 0
    run_id: str = ""
    marked: str = ""
    inputs: PlanInputs | None = None
    view: GroupView | None = None
    read: JobState | None = None
    epoch: int = 0
    offsets: Any = None
    table: int = 0
    stake: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        read = None if self.read is None else digest_of(self.read)
        seen = None if self.inputs is None else (self.inputs.snapshot.ends, self.inputs.group, self.inputs.tables)
        shown = (
            self.kind,
            self.at,
            self.chain,
            self.attempt,
            self.run_id,
            self.marked,
            seen,
            self.view,
            read,
            self.epoch,
        )
        return repr((*shown, self.offsets, self.table, self.stake))


Stepped = tuple[World, Process | None]
"""The world after a step, and the process; None where it has ended."""


def step(world: World, process: Process) -> Stepped:
    """One step. Raises Refused where the run would refuse: of this model nothing but what is reserved may be."""
    try:
        return _STEPS[process.at](world, process)
    except LeaseLost:
        return world, None


def _write(world: World, process: Process, *events: ev.Event) -> World:
    """A transition of the ledger under the process' lease."""
    world.hold(process.chain, process.attempt)
    signed = [_signed(process, event) for event in events]
    return world.write(signed)


def _signed(process: Process, event: ev.Event) -> ev.Event:
    return replace(event, chain=process.chain, owner="model", attempt=process.attempt)


def _lease(world: World, process: Process) -> Stepped:
    chain = ev.INCREMENTAL if process.kind in INCREMENTAL_KINDS else process.chain
    if process.kind == "backfill":
        chain = run_id_of(BACKFILL, world.ledger)
    attempt = world.ledger.next_attempt(chain)
    world = world.write([ev.Leased(chain=chain, owner="model", attempt=attempt, duration=60.0)])
    return world, replace(process, at="fence", chain=chain, attempt=attempt)


def _fence(world: World, process: Process) -> Stepped:
    run = world.ledger.unfinished(process.chain) if process.kind == "abandon" else None
    if run is None or run.accounted is not None:
        world = replace(world, producer=world.producer + 1)
    return world, replace(process, at="fence tables" if process.kind == "abandon" else "read")


@dataclass(frozen=True)
class _View:
    """What the real decision asks for. `finish` has the job as the run was planned."""

    world: World
    job: Job
    copy: bool = False

    def has_landed(self, run: RunState) -> bool:
        tables = map(self.world.table, run.plan.tables)
        return any(table.transaction(run.plan.app_id) >= run.plan.app_version for table in tables)

    def check(self, state: JobState, run: RunState) -> None: ...

    def inputs(self, state: JobState) -> PlanInputs:
        raise AssertionError("an unfinished run is decided on without inputs of a plan")


def _job(process: Process) -> Job:
    return CHANGED if process.kind == "changed" else JOB


def _read(world: World, process: Process) -> Stepped:
    """The unfinished run is taken up or abandoned; else the inputs of a new plan are read, behind the ledger."""
    run = world.ledger.unfinished(process.chain)
    if run is None:
        return world, replace(process, at="plan", read=world.ledger, inputs=world.inputs(_job(process)))
    job = _job(process)
    if process.kind == "finish":
        job = CHANGED if run.config_hash == CHANGED.hash_by(run.plan.rules) else JOB
    found = next_step(_View(world, job), world.ledger, process.chain, plan_incremental, lambda e: _signed(process, e))
    if found.kind == "abandon":
        return world, replace(process, at="fence tables")
    return world, replace(process, at="land", run_id=run.run_id, table=0)


def _plan(world: World, process: Process) -> Stepped:
    assert process.inputs is not None
    assert process.read is not None
    world.hold(process.chain, process.attempt)
    done = world.ledger.runs.get(process.chain)
    if done is not None and done.finished:
        return world, replace(process, at="release", inputs=None, read=None)
    inputs = inputs_as_of(process.inputs, process.read, world.ledger) or world.inputs(_job(process))
    try:
        draft = _draft(world, process, inputs)
    except Refused:
        if process.read.sequence == world.ledger.sequence:
            raise
        draft = _draft(world, process, world.inputs(_job(process)))
    planned = draft.events and isinstance(draft.events[-1], ev.Planned)
    world = _write(world, process, *draft.events)
    run = world.ledger.unfinished(process.chain)
    process = replace(process, inputs=None, read=None)
    if run is None or not planned:
        if process.kind == "backfill" or not any(tp in world.ledger.bases for tp in PARTITIONS):
            return world, replace(process, at="release")
        return world, replace(process, at="begin", marked=next(reversed(world.ledger.runs), "-"))
    return world, replace(process, at="land", run_id=run.run_id, table=0)


def _draft(world: World, process: Process, inputs: PlanInputs) -> Draft:
    draft = Draft(inputs, world.ledger, lambda event: _signed(process, event))
    if process.kind in INCREMENTAL_KINDS:
        plan_incremental(draft)
    else:
        BackfillPlanner(JOB, SimpleNamespace(), BACKFILL, process.chain).decide(draft)  # type: ignore[arg-type]
    return draft


def _land(world: World, process: Process) -> Stepped:
    """One table: its commit, unless the app transaction is taken. The event is written afterwards.

    Only behind a fence is the lease read. Elsewhere a process goes by its clocks, by which it holds what it has lost.
    """
    run = world.ledger.runs[process.run_id]
    tables = sorted(run.plan.tables)
    if run.accounted is not None or process.table == len(tables):
        return world, replace(process, at="account" if run.accounted is None else "observe")
    path = tables[process.table]
    table, planned = world.table(path), run.plan.tables[path]
    if planned is not None and table.fenced > planned.version:
        world.hold(process.chain, process.attempt)
    if table.transaction(run.plan.app_id) < run.plan.app_version:
        added = frozenset(
            (r.tp, offset, run.run_id)
            for r in run.plan.ranges
            if TABLES[r.topic] == path
            for offset in range(r.start, r.end)
        )
        world = world.with_table(path, table.commit(run.plan.app_id, run.plan.app_version, add=added))
    return world, replace(process, at="landed")


def _landed(world: World, process: Process) -> Stepped:
    run = world.ledger.runs[process.run_id]
    path = sorted(run.plan.tables)[process.table]
    if path not in run.landed:
        table = world.state_of(path)
        commit = ev.TableCommit(table.version, 1, table)
        world = _write(world, process, ev.Landed(run_id=run.run_id, table=path, commit=commit))
    return world, replace(process, at="land", table=process.table + 1)


def _account(world: World, process: Process) -> Stepped:
    run = world.ledger.runs[process.run_id]
    accounts = tuple(
        ev.RangeAccount(r.topic, r.partition, r.start, r.end, ev.RangeCounts(data=r.length)) for r in run.plan.ranges
    )
    world = _write(world, process, ev.Accounted(run_id=run.run_id, ranges=accounts, rows_in=1, rows_out=1))
    return world, replace(process, at="observe")


def _observe(world: World, process: Process) -> Stepped:
    """The group's offsets, before they are committed."""
    run = world.ledger.runs.get(process.run_id)
    if process.kind == "backfill" or (run is not None and run.offsets_committed is not None):
        return world, replace(process, at="finish")
    world.hold(process.chain, process.attempt)
    return world, replace(process, at="reconcile", read=world.ledger, view=world.view())


def _reconcile(world: World, process: Process) -> Stepped:
    assert process.view is not None
    assert process.read is not None
    world.hold(process.chain, process.attempt)
    view = group_as_of(process.view, process.read, world.ledger)
    world = _write(world, process, *reconcile(view, world.ledger, {}, moves_offsets=True))
    return world, replace(process, at="begin", view=None, read=None)


def _begin(world: World, process: Process) -> Stepped:
    world = replace(world, producer=world.producer + 1)
    return world, replace(process, at="offsets", epoch=world.producer)


def _offsets(world: World, process: Process) -> Stepped:
    world.hold(process.chain, process.attempt)
    offsets = frontier_offsets(world.ledger, process.run_id or process.marked, PARTITIONS)
    return world, replace(process, at="end", offsets=tuple(sorted(offsets.items())))


def _end(world: World, process: Process) -> Stepped:
    """EndTxn: the offsets are there at once, or a later producer has fenced this one."""
    if process.epoch == world.producer:
        group = {**world.offsets(), **dict(process.offsets)}
        world = replace(world, group=tuple(sorted(group.items())))
        return replace(world, excused=world.excused and bool(world.ahead())), replace(process, at="committed")
    world.hold(process.chain, process.attempt)
    done = frontier_offsets(world.ledger, process.run_id or process.marked, PARTITIONS)
    if _already_committed(world.offsets(), done, lowered=_lowered(world.ledger, "etl", done)):
        return world, replace(process, at="committed", offsets=tuple(sorted(done.items())))
    return world, replace(process, at="begin", offsets=None)


def _committed(world: World, process: Process) -> Stepped:
    how = "transactional"
    event = ev.OffsetsCommitted(run_id=process.run_id, group="etl", how=how, offsets=as_events(dict(process.offsets)))
    world = _write(world, process, event)
    return world, replace(process, at="finish", offsets=None, epoch=0)


def _finish(world: World, process: Process) -> Stepped:
    if process.run_id:
        world = _write(world, process, ev.Finished(run_id=process.run_id))
    return world, replace(process, at="release")


def _release(world: World, process: Process) -> Stepped:
    return _write(world, process, ev.Released()), None


# --- abandoning


def _fence_tables(world: World, process: Process) -> Stepped:
    """One table; behind the last one what is abandoned is decided, by the rows that are there."""
    run = world.ledger.unfinished(process.chain)
    if run is None or run.abandoning or run.offsets_committed is not None:
        return world, replace(process, at="begin abandoning", table=0)
    tables = sorted(run.plan.tables)
    if process.table == len(tables):
        return world, replace(process, at="decide", table=0)
    table = world.table(tables[process.table])
    if table.transaction(run.plan.app_id) < run.plan.app_version:
        world = world.with_table(tables[process.table], table.fence())
    return world, replace(process, table=process.table + 1)


def _decide(world: World, process: Process) -> Stepped:
    """A person agrees to lose what is there; without one, a run that has landed is not abandoned."""
    run = world.ledger.unfinished(process.chain)
    if run is None:
        return world, replace(process, at="begin abandoning")
    if process.kind != "abandon":
        view = _View(world, _job(process))
        next_step(view, world.ledger, process.chain, plan_incremental, lambda event: _signed(process, event))
    landed = (path for path in sorted(run.plan.tables) if _rows_in(world, path, run))
    return world, replace(process, at="begin abandoning", stake=tuple(landed))


def _rows_in(world: World, path: str, run: RunState) -> bool:
    return any(run_id == run.run_id for _, _, run_id in world.table(path).rows)


def _begin_abandoning(world: World, process: Process) -> Stepped:
    run = world.ledger.unfinished(process.chain)
    if run is None or run.offsets_committed is not None:
        return world, replace(process, at=_after_abandoning(process))
    process = replace(process, at="remove", run_id=run.run_id, table=0)
    return (world if run.abandoning else _write(world, process, ev.Abandoning(run_id=run.run_id))), process


def _remove(world: World, process: Process) -> Stepped:
    run = world.ledger.runs[process.run_id]
    tables = sorted(run.plan.tables)
    if process.table == len(tables):
        world = _write(world, process, ev.Abandoned(run_id=run.run_id, tables=_states(world, run)))
        return world, replace(process, at=_after_abandoning(process), run_id="", table=0)
    world.hold(process.chain, process.attempt)
    path = tables[process.table]
    table = world.table(path)
    if process.stake is not None and path not in process.stake and _rows_in(world, path, run):
        world = replace(world, unasked=f"rows of {run.run_id} were removed that nobody was asked about")
    after = table.commit(run.plan.app_id, run.plan.app_version, without=run.run_id)
    excused = world.excused or _may_be_committed_over(world, run)
    world = replace(world.with_table(path, after), excused=excused)
    return world, replace(process, table=process.table + 1)


def _after_abandoning(process: Process) -> str:
    """A run that has abandoned another one plans again."""
    return "release" if process.kind == "abandon" else "read"


def _states(world: World, run: RunState) -> dict[str, ev.TableState]:
    return {path: world.state_of(path) for path in sorted(run.plan.tables)}


def _may_be_committed_over(world: World, run: RunState) -> bool:
    """Whether the group's offsets are above the run's rows already; those of a backfill others may yet commit over."""
    committed = world.offsets()
    before = any(r.tp in committed and committed[r.tp].offset > r.start for r in run.plan.ranges)
    return run.accounted is not None and (before or run.chain != ev.INCREMENTAL)


_STEPS: dict[str, Callable[[World, Process], Stepped]] = {
    "lease": _lease,
    "fence": _fence,
    "read": _read,
    "plan": _plan,
    "land": _land,
    "landed": _landed,
    "account": _account,
    "observe": _observe,
    "reconcile": _reconcile,
    "begin": _begin,
    "offsets": _offsets,
    "end": _end,
    "committed": _committed,
    "finish": _finish,
    "release": _release,
    "fence tables": _fence_tables,
    "decide": _decide,
    "begin abandoning": _begin_abandoning,
    "remove": _remove,
}
