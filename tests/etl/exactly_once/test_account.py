"""The account of a run: offsets that nobody can explain stop it before anything lands, and stay a state of the ledger.

The gaps are real: a topic is compacted by the broker's cleaner, and is then no compacted topic any more.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import ResourceType

from kseg.etl.errors import Refused

KEYS, ROUNDS = 4, 5


def held(records: Any, topic: str) -> list[int]:
    """Offsets that the broker still has."""
    consumer = Consumer(records.settings | {"group.id": "held", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(60)
        assert message is not None
        if message.error():
            break
        found.append(message.offset())
    consumer.close()
    return found


@pytest.fixture(scope="module")
def with_gaps(records: Any) -> tuple[str, list[int]]:
    """A topic that lacks some offsets, and those that it still has."""
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1",
        "segment.ms": "10",
        "retention.ms": "-1",
    }
    records.configure(ResourceType.BROKER, "1", log_cleaner_backoff_ms="100")
    topic = records.topic(1, config)
    now = int(time.time() * 1000)
    for number in range(ROUNDS):
        # Each round opens a segment: its records are a second younger.
        records.write_keys(topic, [b"k%d" % key for key in range(KEYS)], timestamp=now - 1000 * (ROUNDS - number))
    deadline = time.monotonic() + 180
    while len(held(records, topic)) != 2 * KEYS:  # the newest of each key, and the segment that is written to
        assert time.monotonic() < deadline, "the cleaner has not cleaned"
        time.sleep(0.2)
    records.configure(ResourceType.BROKER, "1", log_cleaner_backoff_ms=None)
    records.configure(ResourceType.TOPIC, topic, cleanup_policy="delete")
    return topic, held(records, topic)


def refused(run: Any, *arguments: Any) -> str:
    with pytest.raises(Refused) as caught:
        run(*arguments)
    return caught.value.code


def test_a_gap_is_refused_lastingly_and_then_recorded(with_gaps, any_home, records):
    topic, left = with_gaps
    job = any_home(topic)
    assert refused(job.ingest) == "offsets-absent"
    run = job.state.unfinished()
    assert run.phase == "account-failed"
    assert run.account_failed.equation == "offsets"
    assert job.rows() == []
    assert job.group_offsets() == {}
    assert refused(job.ingest) == "account-failed"
    assert refused(job.finish, run.run_id) == "offsets-absent"
    assert job.state.unfinished().phase == "account-failed"

    job.change(source={"on_gap": "record"})
    job.ingest()
    state = job.state
    accounted = state.runs[run.run_id].accounted
    absent = [offset for gap in accounted.gaps for offset in range(gap.start, gap.end)]
    assert sorted(absent + left) == list(range(KEYS * ROUNDS))
    assert accounted.counts.absent == len(absent) > 0
    assert [row[2] for row in job.rows()] == left
    assert job.group_offsets() == {(topic, 0): KEYS * ROUNDS} == job.frontiers()
    assert job.ingest().status == "nothing-to-do"


def test_a_run_with_a_gap_can_be_abandoned(with_gaps, any_home):
    topic, _ = with_gaps
    job = any_home(topic)
    assert refused(job.ingest) == "offsets-absent"
    run = job.state.unfinished()
    job.abandon(run.run_id)
    assert job.state.runs[run.run_id].abandoned
    assert refused(job.ingest) == "offsets-absent"
    assert job.state.unfinished().run_id != run.run_id


def test_a_gap_in_a_compacted_topic_is_no_gap(with_gaps, any_home, records):
    topic, left = with_gaps
    records.configure(ResourceType.TOPIC, topic, cleanup_policy="compact,delete")
    try:
        job = any_home(topic)
        report = job.ingest()
    finally:
        records.configure(ResourceType.TOPIC, topic, cleanup_policy="delete")
    assert report.counts["absent"] == KEYS * ROUNDS - len(left)
    assert report.given_up == []
    assert [row[2] for row in job.rows()] == left


def test_rows_that_are_not_in_the_commit_are_a_failed_account(any_home, records, monkeypatch):
    """The second equation: what tasks say they wrote, and what the tables' commits hold."""
    topic = records.topic(1)
    records.write(topic, 0, 10)
    job = any_home(topic)
    from kseg.etl.tables.delta.commit import DeltaTarget
    from kseg.etl.tables.values import NewCommit

    whole = DeltaTarget.commit

    def one_less(self: DeltaTarget, files: Any, *arguments: Any, **options: Any) -> Any:
        from dataclasses import replace

        outcome = whole(self, files, *arguments, **options)
        return NewCommit(replace(outcome.commit, rows=outcome.commit.rows - 1)) if files else outcome

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTarget, "commit", one_less)
        assert refused(job.ingest) == "account-failed"
    run = job.state.unfinished()
    assert run.account_failed.equation == "rows"
    assert job.group_offsets() == {}
    assert refused(job.ingest) == "account-failed"
    assert job.group_offsets() == {}
    job.abandon(run.run_id)
    assert job.rows() == []
    job.ingest()
    job.assert_complete(runs=1)


def test_rows_of_a_transform_that_are_not_as_counted_can_only_be_abandoned(home, records, monkeypatch):
    """`--finish` would read again, and have nothing to compare what has landed with."""
    topic = records.topic(1)
    records.write(topic, 0, 10)
    transform = [{"sql": "SELECT * FROM __rows__"}]
    job = home(topic, transform=transform)
    from kseg.etl.run import land

    rows_mismatch = land.rows_mismatch

    def after_the_commit(tasks: Any, tables: Any) -> str | None:
        return "planted" if tables else rows_mismatch(tasks, tables)

    with monkeypatch.context() as patch:
        patch.setattr(land, "rows_mismatch", after_the_commit)
        assert refused(job.ingest) == "account-failed"
    run = job.state.unfinished()
    assert run.account_failed.final
    for way in (job.ingest, lambda: job.finish(run.run_id)):
        with pytest.raises(Refused, match="planted") as caught:
            way()
        assert "--finish" not in str(caught.value.remedy)
    assert job.state.unfinished().phase == "account-failed"
    job.abandon(run.run_id)
    job.ingest()
    job.assert_complete(runs=1)
