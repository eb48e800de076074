"""What a run asks of stores. On an object store to load a table is a list and a read of each commit since the last
checkpoint, several times over: runs are as quick as they are few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from kseg.etl.ledger.store import Ledger
from kseg.etl.ledger.table_objects import TableObjects
from kseg.etl.tables.delta.table import DeltaAccess


@pytest.fixture
def job(home: Any, records: Any) -> Any:
    """A job of one topic and one table, with one finished run; there are new records."""
    topic = records.topic()
    job = home(topic, sink={"routes": None, "path": "./lake/orders"})
    for _ in range(2):
        records.write(topic, 0, 5)
        if not (job.folder / "ledger").exists():
            job.ingest()
    return job


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the ledger and tables were looked at, and loaded."""
    counts: Counter[str] = Counter()

    def counting(name: str, whole: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def count(self: Any) -> Any:
            counts[name] += 1
            return whole(self)

        return count

    monkeypatch.setattr(TableObjects, "take", counting("ledger", TableObjects.take))
    monkeypatch.setattr(Ledger, "table", counting("ledger loaded", Ledger.table))
    monkeypatch.setattr(DeltaAccess, "look", counting("table", DeltaAccess.look))
    monkeypatch.setattr(DeltaAccess, "load", counting("table loaded", DeltaAccess.load))
    return counts


def test_a_run_looks_as_often_as_it_decides_something(job: Any, looks: Counter[str]) -> None:
    job.ingest()
    # Eight transitions (one of which finds nothing to write), and a state read before the plan, behind the tables,
    # before the group's offsets, inside the transaction of Kafka, and for the ledger's upkeep.
    assert looks["ledger"] == 8 + 5
    # Opened with `Ledger.open`, and again behind so many commits that this is cheaper.
    assert looks["ledger loaded"] <= 1
    # For the plan; who has to write; unchanged since; how to write; the commit.
    assert looks["table"] == 5
    assert looks["table loaded"] == 1
    job.assert_complete(runs=2)


def test_a_run_with_nothing_to_do_looks_less(job: Any, looks: Counter[str]) -> None:
    job.ingest()
    looks.clear()
    assert job.ingest().status == "nothing-to-do"
    assert (looks["ledger"], looks["ledger loaded"], looks["table"], looks["table loaded"]) == (7, 0, 1, 1)


def test_what_each_look_reads_is_bounded_by_checkpoints(job: Any, records: Any) -> None:
    for _ in range(2):
        job.ingest()
        records.write(job.topics[0], 0, 5)
    log = job.folder / "ledger" / "_delta_log"
    last = max(int(file.name.split(".")[0]) for file in log.glob("*.checkpoint.parquet"))
    assert DeltaTable(job.folder / "ledger").version() - last < 10
