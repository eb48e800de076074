"""Accept a table's current state after a change because of which runs are refused: RESTORE, overwrite, lost rows.

    restored to its newest version, or recreated with all rows   `verify` finds nothing: accepted, and runs continue
    rows are missing, or differ                                  refused, unless the user skips the comparison
    data files are not in the store                              always refused: nobody can read the table
    has runs that the ledger does not know                       refused: restore the ledger's newest version, or start
                                                                 with a new ledger

Offsets stay landed in the ledger: only a backfill lands missing rows again (`land_again`). So the ledger must know
every run that has landed in the table, and an unfinished run with rows in the table must be abandoned first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from kseg.etl.config.job import Job
from kseg.etl.errors import Refused, listed
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.verdicts import Finding
from kseg.etl.operations.verify import verify
from kseg.etl.planning.preflight import examine_tables, refuse_unknown_runs
from kseg.etl.run.context import JobContext
from kseg.etl.tables.errors import land_again
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.protocol import TableAccess
from kseg.etl.telemetry.progress import Progress


@dataclass(slots=True)
class AcceptReport:
    """The result of `kseg repair --accept-table`.

    status: accepted, dry-run, or nothing-to-do if no run would refuse the table. incident: the code with which runs
    refuse it. before: the table's state in the ledger. after: its current state; None: no table. verified: whether its
    rows were compared with Kafka. rows: the number of compared rows.
    """

    job: str
    table: str
    status: str
    incident: str = ""
    before: ev.TableState | None = None
    after: ev.TableState | None = None
    verified: bool = False
    rows: int = 0
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return asdict(self)


def accept_table(
    job: Job,
    table: str,
    *,
    verify_rows: bool = True,
    dry_run: bool = False,
    take_over: bool = False,
    progress: Progress | None = None,
) -> AcceptReport:
    """Record a table's current state in the ledger; later plans compare the table with it.

    verify_rows: first compare the rows that the job has landed in the table with Kafka.

    Raises:
        Refused: the ledger has no such table; its data files are missing; rows differ; an unfinished run has rows in
            it; or the table has runs that the ledger does not know.
        AnotherRunActive: an incremental run holds the lease.
    """
    with JobContext.open(job, progress, ledger="required") as context:
        state = context.clients.read_state()
        name = _known_name(state, table)
        access = context.targets.access(name)
        now = access.state() if access is not None else None
        if access is not None and now is not None:
            _refuse_missing_files(name, access, routed=job.sink.routed)
        report = AcceptReport(job.name, name, "nothing-to-do", before=state.tables[name], after=now)
        report.incident = _incident(context, state, name)
        if not report.incident:
            return report
        if access is not None and now is not None:
            refuse_unknown_runs(state, context.targets, name, access.transactions(state.job_app, now))
        _refuse_unfinished(context, state, name, access)
        if verify_rows:
            _verify(job, report, progress)
        if dry_run:
            report.status = "dry-run"
            return report
        with context.run_lease(ev.INCREMENTAL, take_over=take_over) as lease:
            if access is not None and now is not None:
                _refuse_moved(name, access, now)
            accepted = ev.TableAccepted(table=name, state=now, incident=report.incident, verified=report.verified)
            lease.transition(lambda _: [accepted])
        report.status = "accepted"
        return report


def _known_name(state: JobState, table: str) -> str:
    """The ledger's name of a table; `table` may spell the same path differently. Raises Refused."""
    if table in state.tables:
        return table
    place = TableLocation.of(table).place
    for name in state.tables:
        there = TableLocation.of_table(name)
        if there is not None and there.place == place:
            return name
    raise Refused.of("no-such-table", {"tables": ", ".join(sorted(state.tables)) or "none yet"}, table=table)


def _incident(context: JobContext, state: JobState, name: str) -> str:
    try:
        examine_tables(context.inputs, state, ev.INCREMENTAL, [name])
    except Refused as refused:
        if refused.code == "ledger-older-than-table":
            raise
        return refused.code
    return ""


def _refuse_missing_files(name: str, access: TableAccess, *, routed: bool) -> None:
    if missing := access.missing_files():
        values = {"count": len(missing), "first": listed(missing, most=3), "again": land_again(routed=routed)}
        raise Refused.of("table-lacks-files", values, table=name)


def _refuse_unfinished(context: JobContext, state: JobState, name: str, access: TableAccess | None) -> None:
    """Refuse if an unfinished run has rows in the table: it lands them twice if its app transaction is lost."""
    for run in state.unfinished_runs():
        if run.accounted is not None or name not in run.plan.tables:
            continue
        landed = name in run.landed
        if not landed and access is not None:
            landed = (access.transaction_version(run.plan.app_id) or 0) >= run.plan.app_version
            landed = landed or context.targets.rows_of_run(name, run.run_id) > 0
        if landed:
            raise Refused.of("run-unfinished", case="accepting a table", table=name, run=run.run_id)


def _refuse_moved(name: str, access: TableAccess, verified: ev.TableState) -> None:
    """Refuse changes made during the command: later plans compare with the recorded state, and cannot detect them."""
    for incident in access.incidents_since(verified, access.state()):
        raise Refused.of(incident.code, {"what": incident.message}, case="while accepting", table=name)


def _verify(job: Job, report: AcceptReport, progress: Progress | None) -> None:
    again = land_again(routed=job.sink.routed)
    if report.after is None:
        raise Refused.of("table-missing", {"again": again}, case="to be accepted", table=report.table)
    found = verify(job, progress, tables=[report.table])
    result = next((one for one in found.tables if one.path == report.table), None)
    if result is None:
        report.notes.append("the job has landed no rows there that could be compared with Kafka")
        return
    if result.findings:
        first = "; ".join(_told(one) for one in found.findings[:3])
        values = {"findings": result.findings, "first": first, "again": again}
        raise Refused.of("table-differs", values, table=report.table)
    report.verified, report.rows = True, result.rows
    report.notes += found.notes


def _told(finding: Finding) -> str:
    if finding.offset is None:
        return finding.message
    return f"{finding.kind} at {finding.topic}:{finding.partition}:{finding.offset}"
