"""What a run does when the consumer group is not as the ledger left it: reset, expired, in use, in a transaction."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer

from kseg.client import Cluster
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.client.transactions.transaction import Transaction
from kseg.etl.errors import Refused
from kseg.etl.run.group_commit import transactional_id


@pytest.fixture
def job(topic, any_home):
    """A job with one finished run."""
    job = any_home(topic)
    job.ingest()
    job.assert_complete(runs=1)
    return job


def refused(job: Any, **options: Any) -> Refused:
    """Nothing but a note in the ledger comes of a refusal."""
    rows, offsets, runs = job.rows(), job.group_offsets(), list(job.state.runs)
    with pytest.raises(Refused) as caught:
        job.ingest(**options)
    assert (job.rows(), job.group_offsets(), list(job.state.runs)) == (rows, offsets, runs)
    return caught.value


# --- reset by hand


def test_offsets_set_forward_are_refused_and_then_given_up(job, topic, records):
    frontier = job.frontiers()[topic, 0]
    skipped = records.write(topic, 0, 10)
    records.write(topic, 0, 5)
    records.write(topic, 1, 5)
    records.set_group_offsets(job.group, {(topic, 0): frontier + 10})
    refusal = refused(job)
    assert refusal.code == "group-offsets-differ"
    assert refusal.address["partition"] == 0

    job.ingest(accept_group_offsets=True)
    assert job.rows() == [row for row in records.rows(topic) if row not in skipped]
    assert job.frontiers() == records.ends(topic) == job.group_offsets()
    assert list(job.state.given_up(TopicPartition(topic, 0))) == [(frontier, frontier + 10)]
    records.write(topic, 0, 5)
    job.ingest()
    assert job.rows() == [row for row in records.rows(topic) if row not in skipped]

    bounds = {"from_": [f"{topic}:0:{frontier}"], "to": [f"{topic}:0:{frontier + 10}"]}
    job.backfill(**bounds)
    assert job.rows() == records.rows(topic), "what was given up can still be had"
    assert not job.state.given_up(TopicPartition(topic, 0))


def test_offsets_set_back_are_refused_and_then_nothing_lands_twice(job, topic, records):
    records.set_group_offsets(job.group, {(topic, 0): 3, (topic, 1): 0})
    assert refused(job).code == "group-offsets-differ"
    records.write(topic, 1, 5)
    job.ingest(accept_group_offsets=True)
    job.assert_complete(runs=2)


def test_accepting_with_nothing_new_to_read_sets_the_offsets_right(job, topic, records):
    records.set_group_offsets(job.group, {(topic, 0): 3})
    assert refused(job).code == "group-offsets-differ"
    assert job.ingest(accept_group_offsets=True).status == "nothing-to-do"
    job.assert_complete(runs=1)
    assert job.ingest().status == "nothing-to-do"


def test_what_was_given_up_is_read_when_the_offsets_are_set_back(job, topic, records):
    frontier = job.frontiers()[topic, 0]
    records.write(topic, 0, 10)
    records.set_group_offsets(job.group, {(topic, 0): frontier + 10})
    job.ingest(accept_group_offsets=True)
    assert len(job.rows()) == len(records.rows(topic)) - 10
    records.set_group_offsets(job.group, {(topic, 0): frontier + 4})
    job.ingest(accept_group_offsets=True)
    assert len(job.rows()) == len(records.rows(topic)) - 4
    assert list(job.state.given_up(TopicPartition(topic, 0))) == [(frontier, frontier + 4)]


def test_offsets_before_the_base_move_the_base(topic, any_home, records):
    job = any_home(topic, source={"starting_offsets": {topic: {0: 20, 1: 20}}})
    job.ingest()
    assert job.rows() == [row for row in records.rows(topic) if row[2] >= 20]
    records.set_group_offsets(job.group, {(topic, 0): 10})
    assert refused(job).code == "group-offsets-differ"
    job.ingest(accept_group_offsets=True)
    assert job.rows() == [row for row in records.rows(topic) if row[2] >= (20, 10)[row[1] == 0]]
    assert job.group_offsets() == records.ends(topic)


def test_offsets_set_by_hand_under_an_unfinished_run_are_refused(topic, any_home, records):
    """It would commit over them, without a word."""
    job = any_home(topic)
    job.die("land:first:committed")
    records.set_group_offsets(job.group, {(topic, 0): 1, (topic, 1): 9})
    for _ in range(2):
        refusal = refused(job)
        assert refusal.code == "group-offsets-differ"
        assert job.state.unfinished().phase == "accounted"
    job.ingest(accept_group_offsets=True)
    job.assert_complete(runs=1)


def test_offsets_set_by_hand_under_a_run_at_work_are_refused(job, topic, records):
    records.write(topic, 0, 5)

    def set_them(step: str) -> None:
        if step == "account:after":
            records.set_group_offsets(job.group, {(topic, 0): 1})

    with pytest.raises(Refused) as caught:
        job.ingest(observe=set_them)
    assert caught.value.code == "group-offsets-differ"
    assert job.group_offsets()[topic, 0] == 1
    job.ingest(accept_group_offsets=True)
    job.assert_complete(runs=2)


# --- where a job begins


def test_a_first_run_begins_where_the_group_stands(topic, any_home, records):
    """Somebody else had the group before: the job goes on where they stopped, in the partitions that they had."""
    job = any_home(topic)
    records.set_group_offsets(job.group, {(topic, 1): 12})
    job.ingest()
    assert job.rows() == [row for row in records.rows(topic) if row[1] == 0 or row[2] >= 12]
    assert job.group_offsets() == records.ends(topic)


def test_a_first_run_that_is_a_backfill_begins_there_as_well(topic, any_home, records):
    """It commits nothing, so the group stays where the consumers had left it: the ledger has taken that for its own."""
    job = any_home(topic)
    records.set_group_offsets(job.group, {(topic, 0): 12, (topic, 1): 3})
    job.backfill(from_=[f"{topic}:0:12"], to=[f"{topic}:0:20"])
    assert job.group_offsets() == {(topic, 0): 12, (topic, 1): 3}
    job.ingest()
    assert job.rows() == [row for row in records.rows(topic) if row[2] >= (12, 3)[row[1]]]
    assert job.group_offsets() == records.ends(topic)


# --- expired


@pytest.mark.rule(195)
def test_expired_offsets_are_committed_again(job, topic, records):
    records.delete_group(job.group)
    assert job.group_offsets() == {}
    assert job.ingest().status == "nothing-to-do"
    job.assert_complete(runs=1)
    records.delete_group(job.group)
    records.write(topic, 0, 5)
    job.ingest()
    job.assert_complete(runs=2)  # also of the partition with nothing new


# --- somebody is there


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.filterwarnings("ignore")
def test_a_group_with_live_members_is_refused_before_planning(protocol, topic, any_home, records):
    job = any_home(topic)
    consumer = Consumer(
        records.settings | {"group.id": job.group, "group.protocol": protocol, "enable.auto.commit": False}
    )
    assigned: list[Any] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    deadline = time.monotonic() + 120
    while not assigned:
        assert time.monotonic() < deadline, "the member was assigned nothing"
        consumer.poll(0.1)
    try:
        with pytest.raises(Refused) as caught:
            job.ingest()
    finally:
        consumer.close()
    assert caught.value.code == "group-has-members"
    assert not (job.folder / "lake").exists()
    assert not job.state.runs
    assert job.state.lease() is None
    job.ingest()
    job.assert_complete(runs=1)


# --- the commit


def test_a_run_that_died_inside_its_transaction_does_not_hold_up_the_next(job, topic, records):
    """Offsets in an open transaction are unstable: nobody can read what the group holds until it is decided, which the
    coordinator alone would do when it times out."""
    frontier = job.frontiers()[topic, 0]
    with Cluster(job.job.client_config()) as cluster:
        left = Transaction(cluster, transactional_id(job.job, job.ledger.id), timeout_ms=900_000)
        left.begin()
        left.commit_offsets(job.group, {TopicPartition(topic, 0): CommittedOffset(frontier, -1, "kseg:died")})
    records.write(topic, 0, 5)
    job.ingest()  # would it wait for that timeout, it would have failed before
    job.assert_complete(runs=2)


def test_offsets_are_committed_plainly_where_the_job_says_so(topic, any_home, records):
    job = any_home(topic, group_commit="plain")
    report = job.ingest()
    assert report.group is not None
    assert report.group.how == "plain"
    job.assert_complete(runs=1)
    records.write(topic, 1, 5)
    job.die("commit:after")
    job.ingest()
    job.assert_complete(runs=2)
    records.set_group_offsets(job.group, {(topic, 0): 1})
    assert refused(job).code == "group-offsets-differ"


def test_offsets_are_not_committed_where_the_job_says_so(topic, any_home, records):
    """The group may even be in use, and its offsets may be anywhere: they say where the first run begins, no more."""
    job = any_home(topic, group_commit="none")
    report = job.ingest()
    assert report.group is None
    job.assert_complete(runs=1, committed=False)
    assert job.group_offsets() == {}
    records.set_group_offsets(job.group, {(topic, 0): 1})
    records.write(topic, 1, 5)
    job.ingest()
    job.assert_complete(runs=2, committed=False)
    assert job.group_offsets() == {(topic, 0): 1}


def test_a_job_without_a_group(topic, any_home, records):
    job = any_home(topic, group=None)
    job.ingest()
    job.assert_complete(runs=1, committed=False)
    records.write(topic, 1, 5)
    job.die("land:first:committed")
    job.ingest()
    job.assert_complete(runs=2, committed=False)


@pytest.mark.parametrize("change", [{"group": None}, {"group_commit": "none"}], ids=["no group", "no commits"])
def test_a_run_that_is_taken_up_commits_no_offsets_once_the_job_commits_none(change, topic, any_home, records):
    job = any_home(topic)
    job.die("account:after")
    group = job.group
    job.change(**change)
    job.ingest()
    assert [run.phase for run in job.state.runs.values()] == ["finished"]
    assert records.group_offsets(group) == {}
    assert job.rows() == records.rows(topic)


def test_the_other_isolation_level_lands_aborted_records_too(topic, any_home, records):
    job = any_home(topic, source={"isolation_level": "read_uncommitted"})
    job.ingest()
    assert job.rows() == records.rows(topic, aborted=True)
    assert job.group_offsets() == records.ends(topic, stable=False)
