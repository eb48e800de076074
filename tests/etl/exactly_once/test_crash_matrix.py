"""The process is killed before and after every step of a run; whoever runs the job next leaves everything as if nothing
had happened: tables, ledger and group offsets, exactly.
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from kseg.etl.errors import AnotherRunActive
from kseg.etl.ledger.lease import grace
from run_steps import STEPS
from skips import IN_FULL

TABLES = ("first", "rest")


@pytest.fixture(scope="module")
def topics(records: Any) -> tuple[str, str]:
    first, rest = records.topic(2), records.topic(1)
    records.write_mixed(first, 2)
    records.write_mixed(rest, 1)
    return first, rest


def test_the_matrix_has_every_step(topics, home, children):
    """A step that is added to a run has to be added here."""
    answer = children.run(home(*topics)).answer()
    assert answer["exit"] == 0, answer
    assert tuple(answer["steps"]) == STEPS


def kill_at(step: str, job: Any, children: Any, **options: Any) -> None:
    children.run(job, at=step, signal="SIGKILL", **options).killed()


def versions(job: Any, *tables: str) -> dict[str, int]:
    return {table: job.table(table).version() for table in tables}


def landed_before(step: str) -> tuple[str, ...]:
    """Tables whose commit is durable when a run dies at this step."""
    return tuple(table for table in TABLES if STEPS.index(step) >= STEPS.index(f"land:{table}:committed"))


@pytest.mark.parametrize("step", STEPS)
def test_a_job_killed_in_its_first_run_is_taken_up(step, topics, home, children, scale):
    job = home(*topics)
    kill_at(step, job, children, own_jvm=scale(False, True))
    had_landed = versions(job, *landed_before(step))
    report = job.ingest(take_over=True)
    assert report.status == ("nothing-to-do" if step == "finish:after" else "done")
    job.assert_complete(runs=1)
    assert versions(job, *had_landed) == had_landed, "a table that had landed was written again"
    assert job.ingest().status == "nothing-to-do"
    job.assert_complete(runs=1)


@pytest.mark.parametrize("step", STEPS)
def test_a_job_killed_in_its_second_run_is_taken_up(step, topics, home, children, scale):
    """Tables, bases and group offsets are there already, and there is an earlier app transaction."""
    if step not in scale(("land:rest:before", "commit:after"), STEPS):
        pytest.skip(IN_FULL)
    middle = {topic: dict.fromkeys(range(2 - number), 20) for number, topic in enumerate(topics)}
    job = home(*topics, source={"ending_offsets": middle})
    assert job.ingest().counts["offsets"] == 60
    job.change(source={"ending_offsets": "latest"})
    kill_at(step, job, children, own_jvm=scale(False, True))
    job.ingest(take_over=True)
    job.assert_complete(runs=2)


def test_the_jvm_dies_with_its_run(topics, home, children):
    """As deployed: the driver's JVM is a child of the killed process and ends by itself."""
    job = home(*topics)
    kill_at("land:first:committed", job, children, own_jvm=True)
    job.ingest(take_over=True)
    job.assert_complete(runs=1)


def test_two_deaths_in_a_row(topics, home, children, scale):
    """The one who takes over dies as well, further on, before, or at the same place."""
    few = [("land:first:committed", "land:rest:before"), ("account:after", "commit:after")]
    for first, second in scale(
        few, [*few, ("land:rest:before", "land:rest:before"), ("commit:after", "finish:before")]
    ):
        job = home(*topics)
        kill_at(first, job, children)
        kill_at(second, job, children, take_over=True)
        job.ingest(take_over=True)
        job.assert_complete(runs=1)


def test_without_take_over_the_lease_is_waited_out_on_another_machine(topics, home, children, monkeypatch):
    monkeypatch.setattr("kseg.etl.ledger.holder_process._place", lambda: "00000000")
    seconds = 10  # so long a busy machine may keep the run from renewing it
    job = home(*topics, run={"lease": f"{seconds}s"})
    kill_at("land:rest:committed", job, children)
    lease = job.state.lease()
    job.change(run={"lease": "2m"})  # of those who come now
    refusals, taken = [], []

    def note(step: str) -> None:
        if step == "lease:after":
            taken.append(datetime.now(UTC))

    while True:
        began = datetime.now(UTC)
        try:
            job.ingest(observe=note)
        except AnotherRunActive as active:
            refusals.append((began, active.owner))
            time.sleep(0.2)  # what a scheduler does with exit code 5
        else:
            break
    assert [when >= lease.until for when in taken] == [True]
    assert all(owner == lease.owner and when < lease.until + grace(seconds) for when, owner in refusals)
    job.assert_complete(runs=1)
    assert [run.phase for run in job.state.runs.values()] == ["finished"]
    assert job.state.lease().attempt == 2, "one who is refused takes no lease"


def test_killed_at_any_moment(topics, home, children, scale):
    """Between the steps as well: in the middle of a stage, of a commit, of the transaction."""
    choice = random.Random(7)
    for _ in range(scale(4, 60)):
        job = home(*topics)
        child = children.run(job)
        child.ready()
        time.sleep(choice.uniform(0, 1.5))
        child.kill()
        job.ingest(take_over=True)
        job.assert_complete(runs=1, swept=False)
