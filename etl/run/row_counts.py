"""Counts of rows at each step of landing. The second equation compares these counts.

    decoder ──► Arrow steps ──► the task's writer ──► footers of its files ──► the table's commit
    in the range results        as they come in       read back from the       read back from the
                                                      store                    table's log

SQL and Python steps are a Spark query between the Arrow steps and the writer. The query may drop and add rows, so
counts are compared only from the writer on. Without a transform, a table's commit has one row for each record of its
ranges, except dead letters and tombstones that decoding left out. The dead-letter table has the dead letters of all
ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from kseg.etl.dispositions.port import Disposition
from kseg.etl.ledger.values import RangeAccount, RangeCounts, RunPlan, TableCommit
from kseg.etl.source.range_result import RangeResult
from kseg.etl.tables.errors import table_older_than_ledger
from kseg.etl.tables.parquet.task_output import TaskOutput, WrittenFile, rows_handed, written_files
from kseg.etl.tables.protocol import TableAccess
from kseg.etl.tables.side_kinds import SideKind


@dataclass(frozen=True, slots=True)
class TaskRows:
    """One task of a Spark job that wrote files.

    read: rows of its ranges after the Arrow steps; None if a query follows them. handed: rows that its writer received.
    passed: those of tables that had landed before. in_files: rows by the footers of its files. attempts: the attempts
    of these outputs; there must be only one, or rows are counted twice.
    """

    task: int
    read: int | None
    handed: int
    in_files: int
    attempts: tuple[int, ...]
    passed: int = 0

    @property
    def mismatch(self) -> str | None:
        if len(self.attempts) > 1:
            return f"task {self.task} is counted {len(self.attempts)} times: attempts {self.attempts}"
        if self.read is not None and self.read != self.handed:
            return f"task {self.task} read {self.read} rows, and {self.handed} came to its writer"
        if self.handed != self.in_files + self.passed:
            landed = f", beside {self.passed} rows of tables that had landed before" if self.passed else ""
            return (
                f"{self.handed} rows came to the writer of task {self.task}, and its files have {self.in_files}{landed}"
            )
        return None


@dataclass(frozen=True, slots=True)
class TableRows:
    """One table, after its commit.

    decoded: the minimum and maximum number of rows by its ranges; None with a transform. in_files: rows by the footers
    of the files that this attempt wrote; None if another attempt, or Spark, wrote them. committed: rows by the table's
    log. noted: rows in the ledger. left_out, unknown: files of this attempt that the commit lacks, and files in the
    commit that none of its tasks wrote.
    """

    table: str
    decoded: tuple[int, int] | None
    in_files: int | None
    committed: int
    noted: int
    left_out: int = 0
    unknown: int = 0

    @property
    def mismatch(self) -> str | None:
        if self.left_out or self.unknown:
            return f"the commit of {self.table} lacks {self.left_out} files of its tasks, and has {self.unknown} others"
        if self.in_files is not None and self.in_files != self.committed:
            return f"the files for {self.table} have {self.in_files} rows, and its commit {self.committed}"
        if self.noted != self.committed:
            return f"the commit of {self.table} has {self.committed} rows, and the ledger has {self.noted}"
        if self.decoded is not None and not self.decoded[0] <= self.committed <= self.decoded[1]:
            return f"{self.decoded[0]} records were decoded for {self.table}, and its commit has {self.committed} rows"
        return None


def rows_of_tasks(outputs: Sequence[TaskOutput], read: Mapping[int, int] | None = None) -> tuple[TaskRows, ...]:
    """The tasks of these outputs. read: rows of each task's ranges, by task number; None: a query follows them."""
    in_files: dict[tuple[int, int], int] = {}
    for output in outputs:
        in_files.setdefault((output.task, output.attempt), 0)
        in_files[output.task, output.attempt] += sum(file.rows for file in written_files([output]))
    handed, passed = rows_handed(outputs), rows_handed(outputs, "passed")
    attempts: dict[int, list[int]] = {number: [] for number in read or ()}
    for task, attempt in sorted(in_files):
        attempts.setdefault(task, []).append(attempt)
    return tuple(
        TaskRows(
            task,
            None if read is None else read.get(task, 0),
            sum(handed.get((task, attempt), 0) for attempt in of_task),
            sum(in_files[task, attempt] for attempt in of_task),
            tuple(of_task),
            passed=sum(passed.get((task, attempt), 0) for attempt in of_task),
        )
        for task, of_task in attempts.items()
    )


def rows_read(results: Iterable[RangeResult]) -> int:
    """The number of rows of these ranges, after the Arrow steps if there are any."""
    return sum(result.rows if result.rows_out is None else result.rows_out for result in results)


def decoded_by_table(plan: RunPlan, accounts: Iterable[RangeAccount]) -> dict[str, RangeCounts]:
    """The counts of each table's ranges.

    If routes are not selected by topic, each range has the routed counts of each table; its absent offsets may have
    belonged to any table.
    """
    if plan.routed:
        total = sum((account.counts for account in accounts), RangeCounts())
        unknown = RangeCounts(absent=total.absent, dead_lettered=total.dead_lettered)
        return {table: replace(unknown, data=total.routed.get(table, 0)) for table in plan.routed}
    tables = {(planned.tp, planned.start, planned.end): planned.table for planned in plan.ranges}
    sums: dict[str, RangeCounts] = {}
    for account in accounts:
        if (table := tables.get((account.tp, account.start, account.end))) is not None:
            sums[table] = sums.get(table, RangeCounts()) + account.counts
    return sums


def allowed_rows(
    plan: RunPlan,
    accounts: Sequence[RangeAccount],
    landed_now: Container[str],
    side_tables: Mapping[str, SideKind],
    *,
    transformed: bool,
    disposition: Callable[[str], Disposition],
) -> dict[str, tuple[int, int]]:
    """The minimum and maximum number of rows of each table's commit by its ranges; unknown after a transform.

    landed_now: tables that landed with the attempt whose counts these are; an earlier attempt may have read records
    that are gone now. side_tables: what is set aside of all ranges, by table. disposition: of a table's rows.
    """
    allowed: dict[str, tuple[int, int]] = {}
    if not transformed:
        for table, counts in decoded_by_table(plan, accounts).items():
            due = disposition(table).rows_due(counts.rows)
            allowed[table] = _at_least(due, counts, now=table in landed_now)
    total = sum((account.counts for account in accounts), RangeCounts()) if side_tables else RangeCounts()
    for table, kind in side_tables.items():
        if (rows := kind.rows_due(total)) is not None:
            allowed[table] = _at_least(disposition(table).rows_due(rows), total, now=table in landed_now)
    return allowed


def _at_least(due: tuple[int, int], counts: RangeCounts, *, now: bool) -> tuple[int, int]:
    least, most = due
    return least, most + (0 if now else counts.absent + counts.dead_lettered)


def rows_of_table(
    table: str,
    access: TableAccess | None,
    commit: TableCommit,
    files: Sequence[WrittenFile] | None,
    decoded: tuple[int, int] | None,
    *,
    removes: bool,
) -> TableRows:
    """A table's counts; the commit is read back from its log.

    files: the files that this attempt has written and committed; None if it has not. removes: the commit also removes
    rows, and has rewritten files with the remaining rows.
    """
    record = None if access is None else access.recorded_commit(commit)
    in_files = None if files is None else sum(file.rows for file in files)
    if record is None:  # the history does not go back so far
        return TableRows(table, decoded, in_files, commit.rows, commit.rows)
    if files is None:
        known = None if removes or None in record.added.values() else sum(rows or 0 for rows in record.added.values())
        return TableRows(table, decoded, None, commit.rows if known is None else known, commit.rows)
    paths = [file.path for file in files]
    found = [record.added[path] for path in paths if path in record.added]
    return TableRows(
        table,
        decoded,
        in_files,
        sum(rows or 0 for rows in found),
        commit.rows,
        left_out=len(paths) - len(found),
        unknown=0 if removes else len(record.added.keys() - set(paths)),
    )


def refuse_lost_landing(table: str, access: TableAccess | None, commit: TableCommit, plan: RunPlan) -> None:
    """Check that the table still has a commit that an earlier attempt made.

    If the table was restored from an older copy, its version may be another writer's commit with the same number of
    rows.

    Raises:
        Refused: neither that commit nor the table has the run's app transaction (`table-older-than-ledger`).
    """
    if access is None:
        return
    record = access.recorded_commit(commit)
    if record is not None and record.transactions.get(plan.app_id) == plan.app_version:
        return
    found = access.transaction_version(plan.app_id) or 0
    if found < plan.app_version:
        raise table_older_than_ledger(table, plan.app_id, found, plan.app_version)


def routed_mismatch(
    plan: RunPlan, accounts: Iterable[RangeAccount], files: Mapping[str, Sequence[WrittenFile]]
) -> str | None:
    """The difference between rows in files and rows routed to each table; None if they agree.

    Only without a transform, which may drop rows.
    """
    decoded = decoded_by_table(plan, accounts)
    for table, of_table in files.items():
        in_files = sum(file.rows for file in of_table)
        if table in plan.routed and in_files != decoded[table].rows:
            return f"{decoded[table].rows} rows were routed to {table}, and its files have {in_files}"
    return None


def tables_without_rows(plan: RunPlan, accounts: Iterable[RangeAccount], *, transformed: bool) -> frozenset[str]:
    """Tables of a routed run for which no attempt can have rows, so that they need no commit.

    In other tables, a commit without rows prevents a suspended attempt from landing later. All attempts route a record
    to the same table, so an attempt that has read all records knows which tables have no rows. This does not hold with
    a transform, or if offsets are absent or damaged that an earlier attempt may have read.
    """
    total = sum((account.counts for account in accounts), RangeCounts())
    if transformed or total.absent or total.dead_lettered:
        return frozenset()
    return frozenset(table for table in plan.routed if not total.routed.get(table))


def rows_mismatch(tasks: Iterable[TaskRows], tables: Iterable[TableRows]) -> str | None:
    """The reason why the second equation does not hold; None if it holds."""
    mismatches = chain((task.mismatch for task in tasks), (table.mismatch for table in tables))
    return next(filter(None, mismatches), None)
