"""A run that is suspended (SIGSTOP) while another does its work, and then goes on: it must not do anything twice.

A suspended process is worse than a dead one: it has decided already, and it wakes up with commits in its hands. When
its lease has run out it can know by its clocks. When it was taken over sooner, only tables, ledger and coordinator can
stop it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.errors import AnotherRunActive, ExitCode, Refused
from kseg.etl.run import group_commit
from run_steps import STEPS
from skips import IN_FULL

ENDS_WELL = ("lease:before", "finish:after")
"""Who holds no lease there has nothing to lose: it takes one of its own, or had done everything."""


@pytest.fixture
def topics(records: Any) -> tuple[str, str]:
    first, rest = records.topic(2), records.topic(1)
    records.write_mixed(first, 2, rounds=1)
    records.write_mixed(rest, 1, rounds=1)
    return first, rest


def go_on(child: Any) -> dict[str, Any]:
    child.wake()
    answer: dict[str, Any] = child.answer()
    return answer


@pytest.mark.parametrize("step", STEPS)
def test_a_run_suspended_past_its_lease(step, topics, home, children, records, scale):
    if step not in scale(("commit:before",), STEPS):
        pytest.skip(IN_FULL)
    job = home(*topics, run={"lease": "10s"})
    child = children.run(job, at=step, signal="SIGSTOP", own_jvm=scale(False, True))
    child.suspended()
    job.change(run={"lease": "2m"})  # of those who come now
    while True:
        try:
            job.ingest()
            break
        except AnotherRunActive:
            time.sleep(0.2)  # what a scheduler does with exit code 5
    job.assert_complete(runs=1)
    records.write_mixed(topics[0], 2, rounds=1)
    job.ingest()
    job.assert_complete(runs=2)
    answer = go_on(child)
    assert answer["exit"] == (0 if step in ENDS_WELL else ExitCode.ANOTHER_RUN_ACTIVE), answer
    job.assert_complete(runs=2)
    records.write_mixed(topics[0], 2, rounds=1)
    job.ingest()
    job.assert_complete(runs=3)


@pytest.mark.parametrize("step", STEPS[1:-1])
def test_a_run_taken_over_while_its_lease_is_live(step, topics, home, children, records, scale):
    """By its own clocks the sleeper still holds the lease when it wakes up."""
    if step not in scale(("land:rest:before", "commit:before"), STEPS):
        pytest.skip(IN_FULL)
    job = home(*topics)
    child = children.run(job, at=step, signal="SIGSTOP", own_jvm=scale(False, True))
    child.suspended()
    job.ingest(take_over=True)
    job.assert_complete(runs=1)
    answer = go_on(child)
    assert answer["exit"] == ExitCode.ANOTHER_RUN_ACTIVE, answer
    job.assert_complete(runs=1)
    records.write_mixed(topics[1], 1, rounds=1)
    job.ingest()
    job.assert_complete(runs=2)


def test_both_work_at_the_same_time_after_a_take_over(topics, home, children):
    """The sleeper wakes up in the middle of the other's work: between its table commits."""
    job = home(*topics)
    sleeper = children.run(job, at="land:first:before", signal="SIGSTOP")
    sleeper.suspended()
    other = children.run(job, at="land:rest:before", signal="SIGSTOP", take_over=True)
    other.suspended()
    assert go_on(sleeper)["exit"] == ExitCode.ANOTHER_RUN_ACTIVE
    assert go_on(other)["exit"] == 0
    job.assert_complete(runs=1)


@pytest.mark.parametrize("step", ["plan:after", "land:first:before"])
def test_a_run_abandoned_in_its_sleep_lands_nothing(step, topics, home, children):
    """Its configuration changed before it had landed anything, so the next run abandoned it and plans anew. Before
    that one has landed, the sleeper wakes up: at `plan:after` there are no tables yet that could say no to it."""
    job = home(*topics)
    sleeper = children.run(job, at=step, signal="SIGSTOP")
    sleeper.suspended()
    job.change(sink={"merge_schema": True})
    other = children.run(job, at="plan:after", signal="SIGSTOP", take_over=True)
    other.suspended()
    answer = go_on(sleeper)
    assert answer["exit"] == ExitCode.ANOTHER_RUN_ACTIVE, answer
    assert go_on(other)["exit"] == 0
    job.assert_complete(runs=1)


WRITERS = {
    "delta-rs": {},
    "spark": {"routes": None, "path": "./lake/first", "cluster_by": ["offset"], "single_driver": True},
}


def wakes_at(step: str, sleeper: Any, *then: Callable[[], Any]) -> Callable[[str], None]:
    """An observer: at this step the sleeper goes on, and ends without its lease; after it has, other things happen."""

    def observe(seen: str) -> None:
        if seen == step:
            answer = go_on(sleeper)
            assert answer["exit"] == ExitCode.ANOTHER_RUN_ACTIVE, answer
            for happens in then:
                happens()

    return observe


@pytest.mark.parametrize("writer", WRITERS)
def test_rows_that_land_after_a_run_was_found_to_have_none_are_not_removed(
    writer, topics, home, children, records, scale
):
    """The job file has changed, so the run is to be abandoned. Its sleeper lands a table after they were looked at, and
    Kafka then loses the records: the abandonment removed those rows for good, and nobody was asked."""
    if writer not in scale(("delta-rs",), WRITERS):
        pytest.skip(IN_FULL)
    topics = topics if writer == "delta-rs" else topics[:1]
    job = home(*topics, sink=WRITERS[writer])
    sleeper = children.run(job, at="land:first:before", signal="SIGSTOP", own_jvm=scale(False, True))
    sleeper.suspended()
    kept = records.rows(*topics)
    job.change(sink={"merge_schema": True}, source={"on_data_loss": "record"})
    loss = wakes_at("abandon:before", sleeper, lambda: records.delete_records(topics[0], 0, 20))
    with pytest.raises(Refused) as refused:
        job.ingest(take_over=True, observe=loss)
    assert refused.value.code == "configuration-changed"
    (run,) = job.state.runs
    with pytest.raises(Refused) as asked:
        job.abandon(run)
    assert asked.value.code == "rows-would-be-lost"
    job.finish(run)
    assert job.rows() == kept
    assert job.ingest().status == "nothing-to-do"


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_lands_between_the_last_look_for_a_runs_rows_and_its_abandonment(writer, topics, home, children, scale):
    """By its own clocks the sleeper holds its lease, and it reads its tables only when it has woken up."""
    if writer not in scale(("delta-rs",), WRITERS):
        pytest.skip(IN_FULL)
    topics = topics if writer == "delta-rs" else topics[:1]
    job = home(*topics, sink=WRITERS[writer])
    sleeper = children.run(job, at="land:first:before", signal="SIGSTOP", own_jvm=scale(False, True))
    sleeper.suspended()
    job.change(sink={"merge_schema": True})
    job.ingest(take_over=True, observe=wakes_at("abandon:fenced", sleeper))
    assert [run.landed_in for run in job.state.runs.values() if run.abandoned] == [()]
    job.assert_complete(runs=1, swept=writer == "delta-rs")


def test_no_row_is_lost_to_an_answer_that_a_sleeper_has_made_wrong(home, children, records):
    """Somebody is asked whether the rows of one table may be lost; meanwhile the sleeper would land in the other."""
    topics = records.topic(1), records.topic(1)
    for topic in topics:
        records.write(topic, 0, 10)
    job = home(*topics)
    sleeper = children.run(job, at="land:rest:before", signal="SIGSTOP")
    sleeper.suspended()
    records.delete_records(topics[0], 0, 4)
    (run,) = job.state.runs

    def answer(stake: Any) -> bool:
        assert stake.gone == 4
        assert go_on(sleeper)["exit"] == ExitCode.ANOTHER_RUN_ACTIVE
        records.delete_records(topics[1], 0, 10)
        return True

    report = job.abandon(run, take_over=True, ask=answer)
    assert [(Path(table.path).name, table.rows) for table in report.tables] == [("first", 10), ("rest", 0)]


@pytest.mark.parametrize("carry_out", ["abandon", "finish"])
def test_a_run_whose_place_was_taken_before_endtxn_commits_no_offsets(carry_out, topics, home, monkeypatch):
    """It is suspended with its offsets in an open transaction, and wakes up when its rows are gone or it has ended."""
    job = home(*topics)
    whole, taken = group_commit.refuse_live_group, []

    def suspended(cluster: Any, group: str) -> None:
        whole(cluster, group)
        if not taken:
            taken.append(run := job.state.unfinished())
            assert run.phase == "accounted"
            getattr(job, carry_out)(run.run_id, take_over=True)

    monkeypatch.setattr(group_commit, "refuse_live_group", suspended)
    with pytest.raises(AnotherRunActive):
        job.ingest()
    assert taken
    if carry_out == "abandon":
        assert (job.rows(), job.group_offsets()) == ([], {})
        job.ingest()
    job.assert_complete(runs=1)


@pytest.mark.parametrize("step", ["plan:after", "land:first:before"])
def test_a_run_abandoned_and_replaced_in_its_sleep_says_who_has_the_lease(step, topics, home, children):
    """The table has a later run of this chain by then. That is no older ledger: the lease is gone, and it says so."""
    job = home(*topics)
    sleeper = children.run(job, at=step, signal="SIGSTOP")
    sleeper.suspended()
    job.change(sink={"merge_schema": True})
    job.ingest(take_over=True)
    answer = go_on(sleeper)
    assert answer["exit"] == ExitCode.ANOTHER_RUN_ACTIVE, answer
    job.assert_complete(runs=1)
