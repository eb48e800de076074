"""The second equation against defects: writers and committers that lose rows, and believe in what they say."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.dispositions.port import Disposition
from kseg.etl.dispositions.registry import APPEND
from kseg.etl.errors import Refused
from kseg.etl.ledger.values import PlannedRange, RangeAccount, RangeCounts, RunPlan
from kseg.etl.run.row_counts import (
    TableRows,
    TaskRows,
    allowed_rows,
    refuse_lost_landing,
    routed_mismatch,
    rows_mismatch,
    rows_of_table,
    rows_of_tasks,
    tables_without_rows,
)
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.delta.log import entry_path
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tables.parquet.task_output import TaskOutput, WrittenFile, read_task_output, written_files
from kseg.etl.tables.parquet.writer import LandingPlan, TaskWriter, land
from kseg.etl.tables.side_kinds import LETTERS, QUARANTINE
from kseg.etl.tables.values import RunCommit

RUN = RunCommit("run-1", "kseg/ledger/job", 1)
SCHEMA = DecodeOptions().schema


def batch(first: int, count: int) -> pa.RecordBatch:
    columns = {name: pa.nulls(count, SCHEMA.field(name).type) for name in SCHEMA.names}
    columns |= {"topic": pa.repeat("orders", count), "offset": pa.array(range(first, first + count))}
    columns["partition"] = pa.repeat(pa.scalar(0, pa.int32()), count)
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


class Table:
    """A Delta table, and one task after the other that writes ten rows for it."""

    def __init__(self, folder: Path, target: type[DeltaTarget] = DeltaTarget) -> None:
        self.target = target(str(folder))
        self.ready = self.target.ensure(sink_schema(SCHEMA))
        self.plan = LandingPlan(RUN.owner, sink_schema(SCHEMA), (self.ready.write,))

    def write(self, tasks: int = 2, make_writer: Any = None, **place: int) -> list[TaskOutput]:
        outputs: list[TaskOutput] = []
        for task in range(tasks):
            rows = iter([batch(10 * task, 4), batch(10 * task + 4, 6)])
            place = {"task": task, "attempt": task + 100}
            for written in land(rows, self.plan, make_writer=make_writer, **place):
                outputs += read_task_output(written.to_pylist())
        return outputs

    def mismatch(
        self,
        outputs: Sequence[TaskOutput],
        files: list[WrittenFile] | None = None,
        *,
        decoded: int = 20,
        tasks: int = 2,
    ) -> str | None:
        """Commits what was written and compares."""
        files = written_files(outputs) if files is None else files
        commit = self.target.commit(files, RUN, expected=self.ready.state).commit
        counted = rows_of_table("t", self.target, commit, files, (decoded, decoded), removes=False)
        return rows_mismatch(rows_of_tasks(outputs, dict.fromkeys(range(tasks), 10)), [counted])


class WritesLess(TaskWriter):
    """Drops a batch between what came in and the file."""

    def write(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows != 6:
            super().write(rows)


class ClaimsMore(WritesLess):
    """And says that its files have what came in."""

    def close(self) -> list[WrittenFile]:
        return [replace(file, rows=10) for file in super().close()]


class LeavesAFileOut(DeltaTarget):
    def commit(self, files: Sequence[WrittenFile], run: RunCommit, **options: Any) -> Any:
        return super().commit(files[1:], run, **options)


class LeavesAFileOutAndClaimsIt(DeltaTarget):
    def commit(self, files: Sequence[WrittenFile], run: RunCommit, **options: Any) -> Any:
        outcome = super().commit(files[1:], run, **options)
        return replace(outcome, commit=replace(outcome.commit, rows=sum(file.rows for file in files)))


class CommitsAFileTwice(DeltaTarget):
    """The second time under another name, as the file of an attempt that lost would be."""

    def commit(self, files: Sequence[WrittenFile], run: RunCommit, **options: Any) -> Any:
        return super().commit([*files, replace(files[0], path=f"other-{files[0].path}")], run, **options)


def test_counts_that_were_made_apart_agree(tmp_path: Path) -> None:
    table = Table(tmp_path)
    assert table.mismatch(table.write()) is None


def test_a_writer_that_drops_rows_is_found_by_its_files(tmp_path: Path) -> None:
    table = Table(tmp_path)
    found = table.mismatch(table.write(make_writer=WritesLess))
    assert found == "10 rows came to the writer of task 0, and its files have 4"


def test_a_writer_that_claims_what_it_dropped_is_found_by_the_footers_in_the_tables_log(tmp_path: Path) -> None:
    table = Table(tmp_path)
    found = table.mismatch(table.write(make_writer=ClaimsMore))
    assert found == "the files for t have 20 rows, and its commit 8"


@pytest.mark.parametrize("target", [LeavesAFileOut, LeavesAFileOutAndClaimsIt])
def test_a_commit_that_leaves_a_file_out_is_found_by_the_tables_log(tmp_path: Path, target: type[DeltaTarget]) -> None:
    table = Table(tmp_path, target)
    assert table.mismatch(table.write()) == "the commit of t lacks 1 files of its tasks, and has 0 others"


def test_a_file_that_no_task_wrote_is_found_by_the_tables_log(tmp_path: Path) -> None:
    table = Table(tmp_path, CommitsAFileTwice)
    assert table.mismatch(table.write()) == "the commit of t lacks 0 files of its tasks, and has 1 others"


def test_a_task_that_is_counted_twice(tmp_path: Path) -> None:
    table = Table(tmp_path)
    again = [replace(output, attempt=200) for output in table.write(tasks=1)]
    assert table.mismatch([*table.write(), *again]) == "task 0 is counted 2 times: attempts (100, 200)"


def test_outputs_of_a_task_that_never_came(tmp_path: Path) -> None:
    table = Table(tmp_path)
    assert table.mismatch(table.write(), tasks=3) == "task 2 read 10 rows, and 0 came to its writer"


def test_rows_that_steps_or_spark_lose_before_the_writer(tmp_path: Path) -> None:
    assert TaskRows(3, read=12, handed=10, in_files=10, attempts=(1,)).mismatch == (
        "task 3 read 12 rows, and 10 came to its writer"
    )
    # Between a query and the writer nothing is known, and a filter is legal.
    assert TaskRows(3, read=None, handed=10, in_files=10, attempts=(1,)).mismatch is None


def test_without_a_transform_a_commit_has_the_rows_that_were_decoded(tmp_path: Path) -> None:
    table = Table(tmp_path)
    expected = "21 records were decoded for t, and its commit has 20 rows"
    assert table.mismatch(table.write(), decoded=21) == expected


@pytest.mark.parametrize(("now", "most"), [(True, 7), (False, 10)])
def test_what_landed_before_may_have_been_removed_from_the_log_since(now: bool, most: int) -> None:
    counts = RangeCounts(data=7, control=1, aborted=1, dead_lettered=1, absent=2)
    assert allowed(counts, now=now) == {"t": (7, most)}


@pytest.mark.parametrize(("now", "more"), [(True, 0), (False, 3)])
def test_a_table_has_no_row_of_what_decoding_left_out_and_the_dead_letters_have_it(now: bool, more: int) -> None:
    counts = RangeCounts(data=7, dead_lettered=1, absent=2, decoding=DecodingCounts(decoded=4, dead=2, dropped=1))
    assert allowed(counts, now=now, dead_letters="d") == {"t": (4, 4 + more), "d": (2, 2 + more)}
    assert allowed(counts, now=now, dead_letters="d", transformed=True) == {"d": (2, 2 + more)}


def appended(_: str) -> Disposition:
    return APPEND


def allowed(
    counts: RangeCounts, *, now: bool, dead_letters: str | None = None, transformed: bool = False
) -> dict[str, tuple[int, int]]:
    planned = PlannedRange("orders", 0, 0, counts.total, table="t")
    plan = RunPlan("r", "incremental", "incremental", "a", 1, "", "", None, {}, (planned,), {})
    accounts = [RangeAccount("orders", 0, 0, counts.total, counts)]
    landed_now = {"t", "d"} if now else set()
    side_tables = {} if dead_letters is None else {dead_letters: LETTERS, "q": QUARANTINE}
    return allowed_rows(plan, accounts, landed_now, side_tables, transformed=transformed, disposition=appended)


def test_the_ledgers_count_is_that_of_the_tables_log(tmp_path: Path) -> None:
    table = Table(tmp_path)
    files = written_files(table.write())
    commit = table.target.commit(files, RUN, expected=table.ready.state).commit
    noted = replace(commit, rows=19)
    for known in (files, None):
        counted = rows_of_table("t", table.target, noted, known, None, removes=False)
        assert counted.mismatch == "the commit of t has 20 rows, and the ledger has 19"


# --- rows of a range in several tables


def routed(**counts: Any) -> tuple[RunPlan, list[RangeAccount]]:
    """A range whose records had routes to the tables x and y."""
    made = RangeCounts(**counts)
    planned = PlannedRange("orders", 0, 0, made.total)
    plan = RunPlan("r", "incremental", "incremental", "a", 1, "", "", None, {}, (planned,), {})
    plan = replace(plan, routes={"1": "x", "2": "y", "3": "x"})
    return plan, [RangeAccount("orders", 0, 0, made.total, made)]


def file_of(table: str, rows: int) -> WrittenFile:
    return WrittenFile(table, "part", 1, rows)


def test_each_table_of_a_routed_run_has_what_was_routed_to_it() -> None:
    decoding = DecodingCounts(decoded=7, dead=2)
    plan, accounts = routed(data=9, control=1, absent=3, dead_lettered=1, decoding=decoding, routed={"x": 7})
    # What an earlier attempt could read, and this one could not, may have been of any table.
    assert allowed_rows(plan, accounts, {"x"}, {}, transformed=False, disposition=appended) == {
        "x": (7, 7),
        "y": (0, 4),
    }
    assert allowed_rows(plan, accounts, set(), {}, transformed=True, disposition=appended) == {}
    assert rows_mismatch((), [TableRows("y", (1, 1), 0, 0, 0)]) is not None


def test_a_row_in_another_tables_file_is_found_before_a_commit() -> None:
    plan, accounts = routed(data=9, routed={"x": 7, "y": 2})
    files = {"x": [file_of("x", 4), file_of("x", 3)], "y": [file_of("y", 2)]}
    assert routed_mismatch(plan, accounts, files) is None
    assert routed_mismatch(plan, accounts, {"y": [file_of("y", 2)]}) is None, "x had landed before"
    files = {"x": [file_of("x", 8)], "y": [file_of("y", 1)]}
    assert routed_mismatch(plan, accounts, files) == "7 rows were routed to x, and its files have 8"
    assert routed_mismatch(plan, accounts, {"x": [file_of("x", 7)], "y": []}) == (
        "2 rows were routed to y, and its files have 0"
    )
    assert routed_mismatch(replace(plan, routes={}), accounts, {"t": [file_of("t", 1)]}) is None


def test_a_writer_counts_what_it_passes_over() -> None:
    assert TaskRows(3, read=12, handed=12, in_files=10, attempts=(1,), passed=2).mismatch is None
    assert TaskRows(3, read=12, handed=12, in_files=10, attempts=(1,), passed=1).mismatch == (
        "12 rows came to the writer of task 3, and its files have 10, beside 1 rows of tables that had landed before"
    )


@pytest.mark.parametrize(
    ("table", "counts", "transformed", "needs_none"),
    [
        ("y", {}, False, True),
        ("x", {}, False, False),
        ("y", {"absent": 1}, False, False),
        ("y", {"dead_lettered": 1}, False, False),
        ("y", {}, True, False),
        ("other", {}, False, False),
    ],
)
def test_a_table_needs_no_commit_where_no_attempt_can_have_a_row_for_it(
    table: str, counts: dict[str, int], transformed: bool, needs_none: bool
) -> None:
    plan, accounts = routed(data=7, control=1, aborted=1, routed={"x": 7}, **counts)
    assert (table in tables_without_rows(plan, accounts, transformed=transformed)) is needs_none


@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("lost", [False, True])
def test_another_writer_s_commit_of_as_many_rows_is_no_landing(tmp_path: Path, lost: bool, cleaned: bool) -> None:
    """The table was put back from a copy that was made before the landing, and others have written to it."""
    table = Table(tmp_path / "table")
    files = written_files(table.write())
    (tmp_path / "copy").mkdir()
    shutil.copytree(tmp_path / "table", tmp_path / "copy/table")
    commit = table.target.commit(files, RUN, expected=table.ready.state).commit
    if lost:
        shutil.rmtree(tmp_path / "table")
        shutil.copytree(tmp_path / "copy/table", tmp_path / "table")
    other = RunCommit("run-of-another", "kseg/ledger/other", 1)
    assert (table.target.commit(files, other).commit.version == commit.version) == lost
    if cleaned:
        table.target.commit([], RunCommit("run-2", "kseg/ledger/other", 2))
        table.target.load().create_checkpoint()
        (tmp_path / "table" / entry_path(commit.version)).unlink()
    plan: Any = SimpleNamespace(run_id=RUN.run_id, app_id=RUN.app_id, app_version=RUN.app_version)
    if not lost:
        refuse_lost_landing("t", table.target, commit, plan)
        return
    with pytest.raises(Refused) as caught:
        refuse_lost_landing("t", table.target, commit, plan)
    assert caught.value.code == "table-older-than-ledger"
