"""Of many tables several commits are written down together: a run that dies in between finds them by their app
transactions."""

from __future__ import annotations

from typing import Any

import pytest

from kseg.etl.ledger.events import Landed

MANY = 40  # of which three at a time are written down


@pytest.fixture
def job(home: Any, records: Any) -> Any:
    """A job whose topics each have a table, and one finished run; there are new records in each."""
    topics = [records.topic(1) for _ in range(MANY)]
    job = home(*topics, sink={"routes": None, "path": "./lake/{topic}"})
    for _ in range(2):
        for topic in topics:
            records.write(topic, 0, 2)
        if not (job.folder / "ledger").exists():
            job.ingest()
    return job


def landed(job: Any) -> list[Any]:
    """The ledger's entries that write a commit down, those of the first run left out."""
    first = next(iter(job.state.runs))
    entries = job.ledger.events(job.document["name"])
    return [entry for entry in entries if isinstance(entry.event, Landed) and entry.event.run_id != first]


def test_a_run_into_many_tables_makes_few_commits_to_the_ledger(job: Any) -> None:
    job.ingest()
    job.assert_complete(runs=2)
    told = landed(job)
    assert len({entry.event.table for entry in told}) == len(told) == MANY
    assert len({entry.sequence for entry in told}) == 14


def test_commits_that_nobody_lived_to_write_down_are_found(job: Any) -> None:
    job.die(f"land:{sorted(job.topics)[25]}:committed")
    assert len(landed(job)) == 24
    assert sum(job.table(table).version() for table in job.tables) == 1 * MANY + 26
    job.ingest()
    job.assert_complete(runs=2)
    assert len(landed(job)) == MANY
    assert sum(job.table(table).version() for table in job.tables) == 2 * MANY


def test_an_abandoned_run_leaves_no_row_in_any_of_them(job: Any) -> None:
    before = job.rows()
    job.die(f"land:{sorted(job.topics)[25]}:committed")
    job.abandon(job.state.unfinished().run_id)
    assert job.rows() == before
    job.ingest()
    assert job.rows() == job.records.rows(*job.topics)
