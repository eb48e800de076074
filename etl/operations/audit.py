"""Audit: differences between asset events, ledger, tables and the group's offsets, each with a remedy. Writes nothing.

It finds what a run would refuse, and what no run checks: asset events that are missing or contradict the ledger, and
table versions that do not contain the commit that the ledger names. Rows are compared by `kseg verify`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kseg.etl.catalogs.registry import resolve
from kseg.etl.config.job import Job
from kseg.etl.errors import AddressValue, KsegError, Refused
from kseg.etl.ledger.events import INCREMENTAL
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.table_names import current_names
from kseg.etl.operations.audit_events import Difference, compare_events
from kseg.etl.planning.group_reconciliation import standing_of
from kseg.etl.planning.preflight import check_again, examine_tables
from kseg.etl.run.context import JobContext

COMMITS_CHECKED = 200
"""How many of each table's newest landings are compared with the commits in its log."""


@dataclass(slots=True)
class AuditReport:
    """The result of `kseg audit`. checked: the number of objects that were compared, by kind."""

    job: str
    differences: list[Difference] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return {
            "job": self.job,
            "ok": self.ok,
            "differences": [one.to_json() for one in self.differences],
            "checked": self.checked,
            "notes": self.notes,
        }


def audit(job: Job, events: Sequence[Mapping[str, Any]] | None = None) -> AuditReport:
    """Compare all of them. events: from `parse_events`; None: compare only ledger, tables and group.

    Raises:
        Refused: there is no ledger, or it is damaged.
        KafkaError, RetriableFailure: brokers or stores are not available.
    """
    with JobContext.open(job, ledger="required") as context:
        state = context.clients.read_state()
        report = AuditReport(job.name)
        if events is not None:
            report.differences += compare_events(events, state, datetime.now(UTC))
            mine = sum(event.get("job") == job.name for event in events)
            report.checked["events"] = mine
            if mine < len(events):
                report.notes.append(f"{len(events) - mine} events are of other jobs")
        report.differences += _source(context, state)
        report.differences += _tables(context, state, report)
        report.differences += _group(context, state, report)
        report.checked["runs"] = len(state.runs)
        for run in state.unfinished_runs():
            report.notes.append(f"run {run.run_id} ({run.mode}), planned at {run.planned_at}, is {run.phase}")
        return report


def _source(context: JobContext, state: JobState) -> Iterator[Difference]:
    """Whether the topics are still those that the ledger has recorded."""
    try:
        check_again(context.inputs, state)
    except Refused as refused:
        yield _of(refused)


def _of(refused: Refused) -> Difference:
    return Difference(
        refused.code,
        refused.message,
        refused.remedy or "check why the run stopped: `kseg report JOB --run RUN`",
        refused.address,
    )


def _tables(context: JobContext, state: JobState, report: AuditReport) -> Iterator[Difference]:
    report.checked["tables"] = report.checked["commits"] = 0
    for table in current_names(state.tables):
        if resolve(table).location is None:
            report.notes.append(f"{table}: not checked, only Spark can read a table in a catalog")
            continue
        report.checked["tables"] += 1
        try:
            examine_tables(context.inputs, state, INCREMENTAL, [table])
        except Refused as refused:
            yield _of(refused)
            if refused.code != "ledger-older-than-table":
                continue
        yield from _commits(context, state, table, report)


def _commits(context: JobContext, state: JobState, table: str, report: AuditReport) -> Iterator[Difference]:
    """Whether the table versions in the ledger are the runs' commits, as far back as the table's log goes."""
    access = context.targets.access(table)
    assert access is not None  # it was checked
    runs = [run for run in state.runs.values() if table in run.landed and not run.abandoned]
    for run in runs[-COMMITS_CHECKED:]:
        version = run.landed[table].version
        commit = access.recorded_commit(run.landed[table])
        if commit is None:
            continue  # log cleanup has removed this commit; a checkpoint contains its result
        report.checked["commits"] += 1
        if commit.transactions.get(run.plan.app_id) != run.plan.app_version:
            yield Difference(
                "table-version-differs",
                f"version {version} of the table is not the commit of run {run.run_id}",
                "the table's log was changed: restore the table, or give the job a new ledger and land "
                "everything again",
                {"table": table, "version": version, "run": run.run_id},
            )


def _group(context: JobContext, state: JobState, report: AuditReport) -> Iterator[Difference]:
    """Whether the group's offsets are those that the job committed: the frontier, or lower ones if only backfills have
    advanced the frontier since."""
    if not context.job.commits_offsets:
        return
    snapshot = context.inputs.snapshot()
    try:
        view = context.inputs.group_view(snapshot.partitions)
    except KsegError as error:
        yield Difference("group-unknown", error.message, error.remedy or "check the group", error.address)
        return
    report.checked["partitions"] = len(snapshot.partitions)
    assert view is not None
    left = state.group_offsets(view.group)
    behind = 0
    for tp, found in sorted(view.offsets.items()):
        frontier, standing = state.frontier(tp), standing_of(view.group, tp, found, state)
        address: dict[str, AddressValue] = {"group": view.group, "topic": tp.topic, "partition": tp.partition}
        if frontier is None or found.offset == frontier:
            continue
        if found.offset < 0:
            if tp in left:
                report.notes.append(f"group {view.group} has no offset for {tp}: it expired; the next run commits it")
            continue
        if standing == "as left":
            behind += found.offset < frontier
            continue
        if standing == "ledger older":
            reason, remedy = "this ledger committed it, and was rolled back", "restore the ledger's newest version"
        elif found.offset > frontier:
            reason, remedy = "records between them have not landed", "set it back, or `--accept-group-offsets`"
        else:
            reason, remedy = "they have landed already", "set it forward, or `--accept-group-offsets`"
        yield Difference(
            "group-ahead" if found.offset > frontier else "group-behind",
            f"the group is at {found.offset}, the ledger's frontier at {frontier}: {reason}",
            remedy,
            {**address, "offset": found.offset},
        )
    if behind:
        report.notes.append(f"the group is behind the frontier in {behind} partitions: the next ingest commits it")
