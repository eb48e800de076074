from __future__ import annotations

import json
from pathlib import Path

from deltalake import DeltaTable

from kseg.etl.tables.delta.checkpoints import DEFAULT_INTERVAL
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tables.values import RunCommit

APP = "kseg/ledger/job"


def run(number: int) -> RunCommit:
    return RunCommit(f"run-{number}", APP, number, {"ranges": []})


def checkpoints(table) -> list[int]:
    return sorted(int(file.name[:20]) for file in (Path(table.path) / "_delta_log").glob("*.checkpoint.parquet"))


def test_a_look_at_a_table_of_many_runs_asks_no_more_of_the_store(rows, memory_s3):
    """Each log entry since the last checkpoint is two requests."""
    target = DeltaTarget("s3://logs/lake/orders")
    target.ensure(sink_schema(rows().schema))
    asked = []
    for number in range(1, 52):
        target.commit([], run(number))
        memory_s3.asked.clear()
        assert target.state().version == number
        asked.append(len(memory_s3.asked))
    assert max(asked[-20:]) <= 2 * max(asked[: DEFAULT_INTERVAL - 1])


def test_a_checkpoint_is_due_after_other_writers_commits_as_well(lander, rows):
    """Of every two versions one is another writer's: none of ours is ever a multiple of the interval."""
    table = lander()
    table.land(rows(0, 10))
    for number in range(2, 16):
        table.commit([], f"run-{number}", number)
        DeltaTable(table.path).alter.set_table_properties({"delta.appendOnly": "false"})
    last = DeltaTable(table.path).version()
    assert last == 29
    pointer = json.loads((Path(table.path) / "_delta_log" / "_last_checkpoint").read_text())
    assert last - pointer["version"] <= DEFAULT_INTERVAL + 1
    assert len(table.offsets()) == 10


def test_the_tables_own_interval_counts(lander, rows):
    table = lander()
    table.land(rows(0, 10))
    DeltaTable(table.path).alter.set_table_properties({"delta.checkpointInterval": "25"})
    for number in range(2, 20):
        table.commit([], f"run-{number}", number)
    assert checkpoints(table) == []
    for number in range(20, 40):
        table.commit([], f"run-{number}", number)
    assert len(checkpoints(table)) == 1


def test_a_checkpoint_that_cannot_be_written_hinders_no_commit(lander, rows, monkeypatch):
    def fails(self):
        raise OSError("the store is away")

    monkeypatch.setattr(DeltaTable, "create_checkpoint", fails)
    table = lander()
    table.land(rows(0, 10))
    for number in range(2, 16):
        table.commit([], f"run-{number}", number)
    assert table.target.transaction_version(APP) == 15
    assert checkpoints(table) == []
