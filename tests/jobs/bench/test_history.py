"""The ledgers and logs that are measured are real ones."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.store import Ledger
from kseg.jobs.bench.history import JOB, PARTITIONS, ROWS_A_RUN, HistoryEffort, make_ledger, make_table, measure


def test_a_ledger_with_a_history_reads_as_one_that_a_job_wrote(tmp_path: Path) -> None:
    make_ledger(tmp_path / "ledger", 150)
    state = Ledger.open(tmp_path / "ledger", create=False).read(JOB)
    assert state.sequence == 7 * 150
    assert not list(state.unfinished_runs())
    assert list(state.landed_offsets.values()) == [OffsetSet.single(0, 150 * ROWS_A_RUN)] * PARTITIONS


def test_a_log_with_a_history_is_a_table(tmp_path: Path) -> None:
    make_table(tmp_path / "table", 30)
    table = DeltaTable(tmp_path / "table")
    assert (table.version(), table.count()) == (29, 30)


def test_each_size_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    found = measure(tmp_path, HistoryEffort((5,), (5,)))
    assert [entry["runs"] for entry in found["ledgers"]] == [5]
    assert [entry["versions"] for entry in found["table_logs"]] == [5]
