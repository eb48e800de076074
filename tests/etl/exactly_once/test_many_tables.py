"""Of many tables several commits are made side by side and written down together: a run that dies in between finds them
by their app transactions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kseg.etl.errors import AnotherRunActive
from kseg.etl.ledger.events import Landed

MANY = 40  # of which three at a time are written down


@pytest.fixture
def job(any_home: Any, records: Any) -> Any:
    """A job whose topics each have a table, and one finished run; there are new records in each."""
    topics = [records.topic(1) for _ in range(MANY)]
    job = any_home(*topics, sink={"routes": None, "path": "./lake/{topic}"})
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


def test_those_that_are_written_down_together_are_made_side_by_side(job: Any) -> None:
    """Each waits for the others of its part before it commits; one after the other they would wait in vain."""
    parts = [sorted(job.topics)[first : first + 3] for first in range(0, MANY, 3)]
    barriers = {topic: barrier for part in parts for barrier in [threading.Barrier(len(part))] for topic in part}
    steps: list[str] = []

    def observe(step: str) -> None:
        steps.append(step)
        if step.startswith("land:") and step.endswith(":before"):
            barriers[step.split("/")[-1].removesuffix(":before")].wait(60)

    job.ingest(observe=observe)
    job.assert_complete(runs=2)
    ends = [step.rpartition(":")[2] for step in steps if step.startswith("land:")]
    assert ends[:9] == ["before"] * 3 + ["committed"] * 3 + ["after"] * 3


def test_commits_that_nobody_lived_to_write_down_are_found(job: Any) -> None:
    first, dies, last = sorted(job.topics)[24:27]  # the ninth part

    def observe(step: str) -> None:
        if step.endswith((f"{first}:committed", f"{last}:committed")):
            others.release()
        if step.endswith(f"{dies}:committed"):
            assert all(others.acquire(timeout=60) for _ in range(2))
            raise KeyError(step)

    others = threading.Semaphore(0)
    with pytest.raises(KeyError):
        job.ingest(observe=observe)
    assert len(landed(job)) == 24
    assert sum(job.table(table).version() for table in job.tables) == 1 * MANY + 27
    job.ingest()
    job.assert_complete(runs=2)
    assert len(landed(job)) == MANY
    assert sum(job.table(table).version() for table in job.tables) == 2 * MANY


def test_a_lease_that_is_lost_meanwhile_stops_the_other_commits(job: Any) -> None:
    """Of one part, one table has landed when another driver takes over: the others check the lease before they do."""
    first = sorted(job.topics)[0]
    waiting = threading.Barrier(3)
    taken = threading.Event()

    def observe(step: str) -> None:
        if step.endswith(f"{first}:committed"):
            assert job.ingest(take_over=True).status == "done"
            taken.set()
        if step.startswith("land:") and step.endswith(":before") and not taken.is_set():
            waiting.wait(60)
            if first not in step:
                assert taken.wait(120)  # as if suspended: it commits into a table that has landed

    with pytest.raises(AnotherRunActive):
        job.ingest(observe=observe)
    job.assert_complete(runs=2)
    assert sum(job.table(table).version() for table in job.tables) == 2 * MANY


def test_an_abandoned_run_leaves_no_row_in_any_of_them(job: Any) -> None:
    before = job.rows()
    job.die(f"land:{sorted(job.topics)[25]}:committed")
    job.abandon(job.state.unfinished().run_id)
    assert job.rows() == before
    job.ingest()
    assert job.rows() == job.records.rows(*job.topics)
