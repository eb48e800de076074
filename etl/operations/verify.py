"""Verify tables against Kafka: the ledger's ranges are read again, and rows are compared by their addresses.

    transform                            what is compared
    -----------------------------------  ----------------------------------------------------------------------
    none, and no `decode:`               every column, as a 128-bit fingerprint of the row
    none, and `decode:`                  the same: records are decoded again as the run that landed them did
    one that keeps the number of rows    the addresses, but for those of open dead letters
    one that changed it in some run      counts: rows in the table against those that its runs wrote

Each table is compared with what its runs have landed (`etl.operations.landings`): small tables without a JVM, others
in Spark (`etl.operations.table_check`).
Offsets that retention has removed from Kafka cannot be read again: they are counted separately and are no finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.sections import Segments
from kseg.etl.errors import listed
from kseg.etl.ledger.ranges import EMPTY, OffsetSet, union_of
from kseg.etl.ledger.run_ids import mark_of
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import APP_ROOT, app_owners
from kseg.etl.operations.dead_letters import DeadLetters
from kseg.etl.operations.landings import TableLandings, landings
from kseg.etl.operations.table_check import TableCheck
from kseg.etl.operations.verdicts import MAX_FINDINGS, Compared, Finding
from kseg.etl.planning.losses import recorded_losses
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.run.context import JobContext
from kseg.etl.tables.errors import table_missing
from kseg.etl.tables.protocol import TableAccess
from kseg.etl.telemetry.progress import Progress


@dataclass(frozen=True, slots=True)
class TableResult:
    """One table. rows: number of rows compared with Kafka. unreadable: number of offsets that Kafka no longer has.
    unknown: number of offsets that may have landed in another table: a summary or a lost ledger does not show where.

    by_address: the number of rows of which only the address was compared, if others were compared in full.
    by_reference: the number of offsets whose records the reference decoders (plain Python) have decoded.
    """

    path: str
    compared: Compared
    rows: int
    unreadable: int
    findings: int
    by_address: int = 0
    by_reference: int = 0
    unknown: int = 0


@dataclass(slots=True)
class VerifyReport:
    """The result of `kseg verify`. findings: the first hundred of each kind and table; tables count all.

    not_compared: number of offsets that were not compared in all tables which may have rows of them; each counts once.
    """

    job: str
    tables: list[TableResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    not_compared: int = 0

    @property
    def ok(self) -> bool:
        """Whether anything was compared, and agrees."""
        return bool(self.tables) and not any(table.findings for table in self.tables)

    @property
    def headline(self) -> str:
        """The result in one sentence. Without findings, it describes the least thorough comparison of all tables."""
        if any(table.findings for table in self.tables):
            return "rows do not agree"
        compared = {table.compared for table in self.tables}
        if not compared:
            return "there is no table to compare"
        rows = sum(table.rows for table in self.tables)
        if not rows and any(table.unreadable for table in self.tables):
            return "no rows were compared: Kafka no longer has their records"
        if not rows:
            return "there are no rows of finished runs to compare"
        left = self.not_compared
        return self._agreement(rows, "all rows that were compared" if left else "all rows") + (
            f"; {left} offsets were not compared" if left else ""
        )

    def _agreement(self, rows: int, of_all: str) -> str:
        compared = {table.compared for table in self.tables}
        if "counts" in compared:
            return f"the numbers of rows agree ({rows} rows); rows were not compared"
        if "addresses" in compared:
            return f"the addresses of {of_all} agree ({rows} rows); other columns were not compared"
        if in_part := sum(table.by_address for table in self.tables):
            return f"{of_all} agree ({rows} rows), {in_part} of them by their addresses alone"
        if "decoded" not in compared:
            return f"{of_all} agree ({rows} rows)"
        sampled = sum(table.by_reference for table in self.tables)
        also = f", up to {sampled} of them in plain Python" if sampled else ""
        return f"{of_all} agree ({rows} rows), decoded again from their records{also}"

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return {**asdict(self), "ok": self.ok}


def verify(
    job: Job,
    progress: Progress | None = None,
    *,
    segments: Sequence[str] = (),
    tables: Collection[str] | None = None,
    reference: bool = False,
    in_spark: bool = False,
) -> VerifyReport:
    """Compare the job's tables with Kafka, or with files. Nothing is written, no lease is taken.

    segments: compare with these files, as far as they reach, instead of with the brokers. tables: only these of the
    job's tables; None: all. reference: for jobs that decode, decode a sample of the records with the reference decoders
    (plain Python) instead of the compiled ones. in_spark: Spark compares small tables, too.

    Raises:
        Refused: there is no ledger, or a table that rows have landed in is gone.
        KafkaError: the brokers are not available.
    """
    if segments:
        job = job.of_files(Segments.named(segments), brokers=False)
    with JobContext.open(job, progress, ledger="required", copy=bool(segments)) as context:
        state = context.clients.read_state()
        report = VerifyReport(job.name)
        left_out: list[Mapping[TopicPartition, OffsetSet]] = []
        snapshot = context.inputs.snapshot()
        letters = DeadLetters.read(context, state)
        compared = _compared(job, letters, state)
        for table, landed in landings(job, state).items():
            if tables is not None and table not in tables:
                continue
            context.progress.phase(f"verify {table}")
            access = _access(context, state, table, report)
            if access is None:
                continue
            if missing := access.missing_files():
                report.tables.append(TableResult(table, compared, 0, 0, len(missing)))
                report.findings += _files(table, missing)
                report.notes.append(f"{table}: not compared, its rows cannot be read without these files")
                continue
            readable = {
                tp: both
                for tp, offsets in landed.compared.items()
                if tp in snapshot.bounds
                and (both := offsets.intersect(snapshot.readable(tp, job.source.isolation_level)))
            }
            above = _above_the_log(readable, snapshot)
            readable = {tp: offsets.subtract(above.get(tp, EMPTY)) for tp, offsets in readable.items()}
            absent = letters.excused(landed)
            others = _others(access, state)
            checker = TableCheck(context, state, landed, readable, others, absent, reference, in_spark)
            with context.spark.typed_errors():
                found = checker.counts() if compared == "counts" else checker.rows(compared)
            unread = {tp: all_of.subtract(readable.get(tp, EMPTY)) for tp, all_of in landed.compared.items()}
            unreadable, unknown = _length(unread), _length(landed.unknown)
            left_out += unread, landed.unknown
            report.tables.append(
                TableResult(
                    table,
                    compared,
                    *(checker.compared_rows, unreadable, found.total),
                    by_address=checker.by_address if compared == "decoded" else 0,
                    by_reference=checker.sampled,
                    unknown=unknown,
                )
            )
            if report.tables[-1].by_address:
                what = "runs that are older than the ledger's summary, or had a transform"
                report.notes.append(
                    f"{table}: {checker.by_address} rows were compared by their addresses alone: {what}"
                )
            report.findings += found.findings
            report.notes += [f"{table}: {note}" for note in (*_left_out(landed, unreadable, compared), *found.notes)]
            report.notes += [
                f"{tp}: {offsets} have landed and lie above the log's end: `kseg ingest` shows whether it was truncated"
                for tp, offsets in above.items()
            ]
        report.not_compared = _length(union_of(left_out))
        quarantined = sum(run.accounted.counts.dead_lettered for run in state.runs.values() if run.accounted)
        if quarantined:
            where = job.quarantine or "the quarantine table"
            report.notes.append(f"{quarantined} offsets could not be read when they landed: {where} has their bytes")
        report.notes += letters.notes(job.dead_letters)
        report.notes += recorded_losses(state)
        if compared == "counts":
            what = "transform, tombstones that are dropped, or dead letters that were deleted"
            report.notes.append(f"rows are not as many as records ({what}): only counts were compared")
        if not report.ok and _steps(context.clients.read_state()) != _steps(state):
            report.notes.append("runs were active meanwhile: verify again when none is")
        return report


def _steps(state: JobState) -> list[tuple[str, str, int]]:
    """The progress of each run. If it has changed, rows may have been added or removed during the comparison."""
    return [(run.run_id, run.phase, len(run.landed)) for run in state.runs.values()]


def _above_the_log(
    offsets: Mapping[TopicPartition, OffsetSet], snapshot: SourceSnapshot
) -> dict[TopicPartition, OffsetSet]:
    """Offsets at and above a log's end: a truncated log, or a new leader whose high watermark is still behind."""
    ends = {tp: OffsetSet.single(0, snapshot.bounds[tp].high_watermark) for tp in offsets}
    return {tp: above for tp, of_tp in offsets.items() if (above := of_tp.subtract(ends[tp]))}


def _access(context: JobContext, state: JobState, table: str, report: VerifyReport) -> TableAccess | None:
    """The table; None if it is gone and the job file no longer names it."""
    with context.spark.typed_errors():
        access = context.targets.access(table)
    if access is not None and access.state() is not None:
        return access
    topics = {tp.topic for tp, offsets in state.landed_offsets.items() if offsets}
    if topics and table in context.job.sink.tables_of(topics):
        raise table_missing(table, routed=context.job.sink.routed)
    report.notes.append(f"{table}: not compared, rows have landed there and the table is gone")
    return None


def _others(access: TableAccess, state: JobState) -> frozenset[str]:
    """Marks (prefixes of the run ids) of other jobs in this table. Rows of this job with another ledger are not among
    them: that ledger was lost, and if this one has landed the same offsets, the rows are duplicates."""
    now = access.state()
    apps = access.transactions(APP_ROOT, now) if now is not None else {}
    return frozenset(mark_of(ledger, job) for ledger, job in app_owners(apps) if job != state.job)


def _length(offsets: Mapping[TopicPartition, OffsetSet]) -> int:
    return sum(of_one.length for of_one in offsets.values())


def _files(table: str, missing: Sequence[str]) -> Iterator[Finding]:
    for path in missing[:MAX_FINDINGS]:
        yield Finding("file", table, None, None, None, f"the table's data file {path} is not in the store")


def _left_out(landed: TableLandings, unreadable: int, compared: Compared) -> Iterator[str]:
    """Notes on what is not compared, or not in full."""
    if unreadable:
        yield f"{unreadable} offsets can no longer be read and could not be compared"
    if any(landed.older.values()) and compared == "counts":
        yield (
            "some offsets were landed by runs that are older than the ledger's summary, or with a lost ledger: their "
            "rows were not counted"
        )
    elif any(landed.older.values()):
        yield (
            "some offsets were landed by runs that are older than the ledger's summary, or with a lost ledger: "
            "each row was compared with Kafka, but not with the run that landed it"
        )
    if any(landed.older.values()) and not landed.older_once and compared != "counts":
        yield "runs of mode append may be among them: rows of several runs at one offset were not counted"
    if doubtful := _length(landed.doubtful):
        yield (
            f"{doubtful} offsets of a lost ledger may have no row (tombstones that were dropped, dead letters of which "
            "it is not known whether they have landed since): a row that is missing there is no finding"
        )
    if unknown := _length(landed.unknown):
        yield (
            f"{unknown} offsets were landed by runs that are older than the ledger's summary, and into which "
            "table is not known any more: not compared"
        )
    if landed.open_runs:
        yield f"{len(landed.open_runs)} runs have not ended ({listed(landed.open_runs, most=3)}): not compared"


def _compared(job: Job, letters: DeadLetters, state: JobState) -> Compared:
    if not job.transforms_rows:
        return "rows"
    if not (letters.excusable and job.sink.addresses):
        return "counts"
    if job.transform and state.lost_ledgers:  # it may have made any number of rows of a record
        return "counts"
    return "addresses" if job.transform else "decoded"
