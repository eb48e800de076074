"""A run that is suspended (SIGSTOP) while another does its work, and then goes on: it must not do anything twice.

A suspended process is worse than a dead one: it has decided already, and it wakes up with commits in its hands. When
its lease has run out it can know by its clocks. When it was taken over sooner, only tables, ledger and coordinator can
stop it.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from kseg.etl.errors import AnotherRunActive, ExitCode
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
