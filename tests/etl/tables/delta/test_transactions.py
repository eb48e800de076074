"""App transactions of all apps at once, out of commits and checkpoints of every form."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.errors import RetriableFailure
from kseg.etl.ledger.values import TableState
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.delta.transactions import MOST_COMMITS, transactions_of

APP = "kseg/l/job"


def append(path: Path, **versions: int) -> None:
    transactions = [Transaction(app.replace("_", "/"), version) for app, version in versions.items()]
    properties = CommitProperties(app_transactions=transactions or None)
    write_deltalake(path, pa.table({"n": [1]}), mode="append", commit_properties=properties)


def found(path: Path, after: int | None = None) -> dict[str, int]:
    return transactions_of(log_at(path), APP, DeltaTable(path).version(), after)


def log_at(place: str | Path) -> DeltaLog:
    return DeltaAccess(str(place)).log


def log(path: Path) -> Path:
    return path / "_delta_log"


def test_the_last_transaction_of_each_app_counts(tmp_path: Path) -> None:
    append(tmp_path, kseg_l_job=1, kseg_l_job_b1=1)
    append(tmp_path, kseg_l_job=2, kseg_l_job2=9, kseg_x_job=9)
    assert found(tmp_path) == {APP: 2, f"{APP}/b1": 1}
    assert found(tmp_path, after=0) == {APP: 2}
    assert found(tmp_path, after=1) == {}
    DeltaTable(tmp_path).create_checkpoint()
    append(tmp_path, kseg_l_job=3)
    assert found(tmp_path) == {APP: 3, f"{APP}/b1": 1}


def test_all_are_read_where_the_log_does_not_reach_back(tmp_path: Path) -> None:
    append(tmp_path, kseg_l_job=1, kseg_l_job_b1=1)
    append(tmp_path)
    DeltaTable(tmp_path).create_checkpoint()
    append(tmp_path)
    (log(tmp_path) / f"{1:020d}.json").unlink()
    assert found(tmp_path, after=1) == {}
    assert found(tmp_path, after=0) == {APP: 1, f"{APP}/b1": 1}
    (log(tmp_path) / f"{2:020d}.json").unlink()
    with pytest.raises(RetriableFailure):
        transactions_of(log_at(tmp_path), APP, 2)


def test_thousands_of_old_transactions_take_no_time(tmp_path: Path) -> None:
    append(tmp_path, kseg_l_job=1, **{f"kseg_l_job_b{n}": 1 for n in range(5000)})
    DeltaTable(tmp_path).create_checkpoint()
    for _ in range(3 * MOST_COMMITS):
        append(tmp_path)
    begun = time.perf_counter()
    assert len(found(tmp_path, after=0)) == 5001
    assert found(tmp_path, after=3 * MOST_COMMITS - 5) == {}
    assert time.perf_counter() - begun < 2


def test_transactions_are_read_in_an_object_store(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bucket by the names of two schemes."""
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    append(tmp_path / "t", kseg_l_job=1, kseg_l_job_b1=1)
    DeltaTable(tmp_path / "t").create_checkpoint()
    append(tmp_path / "t", kseg_l_job=2)
    shutil.copytree(tmp_path / "t", s3.folder / tmp_path.name)
    for scheme in ("s3", "s3a"):
        table = log_at(f"{scheme}://logs/{tmp_path.name}")
        assert transactions_of(table, APP, 1) == {APP: 2, f"{APP}/b1": 1}
        assert transactions_of(table, APP, 1, after=0) == {APP: 2}


def test_requests_of_questions_that_the_log_answers(memory_s3: Any, tmp_path: Path) -> None:
    """With five commits after a checkpoint; through delta-rs and Arrow they took 14, 2, 8, 19 and 37."""
    for number in range(8):
        append(tmp_path, kseg_l_job=number)
        if number == 2:
            DeltaTable(tmp_path).create_checkpoint()
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        memory_s3.put(f"asked/{file.relative_to(tmp_path)}", file.read_bytes(), only_if_absent=False)
    access = DeltaAccess("s3://logs/asked", memory_s3.options)
    now = TableState(str(DeltaTable(tmp_path).metadata().id), 7, 8)

    def cost(question: Callable[[], object]) -> tuple[object, int]:
        memory_s3.asked.clear()
        return question(), len(memory_s3.asked)

    assert cost(lambda: access.transactions(APP, now)) == ({APP: 7}, 8), "hint, list, checkpoint, five commits"
    assert cost(lambda: access.transactions(APP, now, replace(now, version=6))) == ({APP: 7}, 1)
    assert cost(lambda: access.transactions(APP, now, replace(now, version=3))) == ({APP: 7}, 4)
    assert cost(lambda: access.state_at(5)) == (TableState(now.id, 5, 6), 6)
    assert cost(access.clustering_columns) == ((), 8)
