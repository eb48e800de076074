"""Rows on their way into a table, counted at each step. The second equation compares the counts.

    decoder ──► Arrow steps ──► the task's writer ──► footers of its files ──► the table's commit
    in the range results        as they come in       read back from the       read back from the
                                                      store                    table's log

SQL and Python steps are a Spark query between the Arrow steps and the writer. It may drop and add rows, so their rows
are compared from the writer on. Without a transform a table's commit has as many rows as its ranges have records, less
the dead letters and tombstones that decoding left out. The dead-letter table has those of all ranges.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from kseg.etl.ledger.values import RangeAccount, RangeCounts, RunPlan, TableCommit
from kseg.etl.source.range_result import RangeResult
from kseg.etl.tables.errors import name_abandoning, table_older_than_ledger
from kseg.etl.tables.parquet.task_output import TaskOutput, WrittenFile, rows_handed, written_files
from kseg.etl.tables.protocol import TableAccess


@dataclass(frozen=True, slots=True)
class TaskRows:
    """One task of a Spark job that wrote files.

    read: rows that its ranges gave after the Arrow steps; None where a query lies between. handed: rows that came to
    its writer. passed: of these, rows of tables that had landed before. in_files: by the footers of its files.
    attempts: whose outputs these are; one, or it counts twice.
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

    decoded: the fewest and the most rows that it may have by its ranges; None with a transform. in_files: by the
    footers of the files that this attempt wrote; None where another attempt, or Spark, wrote them. committed: by the
    table's log. noted: as the ledger has it. left_out, unknown: files of this attempt that the commit lacks, and files
    that no task of it wrote.
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
    """The tasks behind these outputs. read: rows of each task's ranges, by its number; None: a query lies between."""
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
    """Rows that these ranges gave, after the Arrow steps where there are some."""
    return sum(result.rows if result.rows_out is None else result.rows_out for result in results)


def decoded_by_table(plan: RunPlan, accounts: Iterable[RangeAccount]) -> dict[str, RangeCounts]:
    """What the ranges of each table hold. Where rows are routed by something else than their topic, each range has what
    its account says for each table; what it does not hold of its offsets may have been of any."""
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
    dead_letters: str | None,
    *,
    transformed: bool,
) -> dict[str, tuple[int, int]]:
    """The fewest and the most rows that each table may have of its ranges. Behind a transform nothing is known.

    landed_now: tables that landed with the reading that counted; what an earlier one could read may be gone since.
    dead_letters: the table that has those of all ranges.
    """
    allowed: dict[str, tuple[int, int]] = {}
    if not transformed:
        for table, counts in decoded_by_table(plan, accounts).items():
            allowed[table] = _at_least(counts.rows, counts, now=table in landed_now)
    if dead_letters is not None:
        total = sum((account.counts for account in accounts), RangeCounts())
        dead = total.decoding.dead if total.decoding is not None else 0
        allowed[dead_letters] = _at_least(dead, total, now=dead_letters in landed_now)
    return allowed


def _at_least(rows: int, counts: RangeCounts, *, now: bool) -> tuple[int, int]:
    return rows, rows + (0 if now else counts.absent + counts.dead_lettered)


def rows_of_table(
    table: str,
    access: TableAccess | None,
    commit: TableCommit,
    files: Sequence[WrittenFile] | None,
    decoded: tuple[int, int] | None,
    *,
    removes: bool,
) -> TableRows:
    """A table's counts, the commit read back from its log.

    files: that this attempt has written and committed; None where it has not. removes: the commit also removes rows,
    and has files with those that were beside them.
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
    """Of a commit that an earlier attempt made: that the table still has it. Where the table was put back from an older
    copy, the version may be another writer's commit, and that may have as many rows.

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
        refused = table_older_than_ledger(table, plan.app_id, found, plan.app_version)
        name_abandoning(refused, plan.run_id)
        raise refused


def routed_mismatch(
    plan: RunPlan, accounts: Iterable[RangeAccount], files: Mapping[str, Sequence[WrittenFile]]
) -> str | None:
    """Where the files for a table have another number of rows than were routed to it; None where they agree. Without a
    transform alone, which may drop rows."""
    decoded = decoded_by_table(plan, accounts)
    for table, of_table in files.items():
        in_files = sum(file.rows for file in of_table)
        if table in plan.routed and in_files != decoded[table].rows:
            return f"{decoded[table].rows} rows were routed to {table}, and its files have {in_files}"
    return None


def tables_without_rows(plan: RunPlan, accounts: Iterable[RangeAccount], *, transformed: bool) -> frozenset[str]:
    """Of the tables that a run routes rows to, those that no attempt can have rows for: they need no commit.

    A commit without rows is else what keeps a suspended attempt from landing there later. Every attempt routes a record
    alike, so one that has read all records of the ranges knows. It does not know where a transform makes the rows, or
    where offsets are absent or damaged that an earlier attempt may have read.
    """
    total = sum((account.counts for account in accounts), RangeCounts())
    if transformed or total.absent or total.dead_lettered:
        return frozenset()
    return frozenset(table for table in plan.routed if not total.routed.get(table))


def rows_mismatch(tasks: Iterable[TaskRows], tables: Iterable[TableRows]) -> str | None:
    """Why the second equation does not hold; None where it does."""
    mismatches = chain((task.mismatch for task in tasks), (table.mismatch for table in tables))
    return next(filter(None, mismatches), None)
