"""What a run does when the topic is not as the ledger left it: made anew, cut short, grown, on another cluster."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ExitCode, Refused
from kseg.etl.run.range_jobs import RangeJobs
from kseg.jobs.broker.process import EmbeddedKafka


def refused(job: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        job.ingest()
    return caught.value


def written_anew(records: Any, topic: str, count: int) -> None:
    producer = Producer(records.settings)
    for number in range(count):
        producer.produce(topic, b"new %d" % number, partition=number % 2)
    assert producer.flush(60) == 0


# --- another topic of the same name


@pytest.mark.parametrize("count", [10, 500])
def test_a_topic_deleted_and_made_again_is_refused(count, topic, any_home, records):
    """Whether it is shorter than before or longer: offsets mean other records now."""
    job = any_home(topic)
    job.ingest()
    rows, offsets = job.rows(), job.frontiers()
    records.kafka.make_anew(topic, 2)
    written_anew(records, topic, count)
    for _ in range(2):
        assert refused(job).code == "topic-recreated"
    assert job.rows() == rows
    assert job.frontiers() == offsets
    assert len(job.state.runs) == 1


def test_a_topic_made_again_under_an_unfinished_run_is_refused(topic, any_home, records):
    job = any_home(topic)
    job.die("plan:after")
    records.kafka.make_anew(topic, 2)
    written_anew(records, topic, 200)
    assert refused(job).code == "topic-recreated"
    assert not (job.folder / "lake").exists()
    assert job.group_offsets() == {}


def test_a_topic_made_again_while_a_run_reads_it_is_refused_before_anything_lands(topic, home, records, monkeypatch):
    """The rows are those of the old topic, or of both; as landed ones they would count for the old one."""
    job = home(topic)
    write = RangeJobs.write

    def made_again(jobs, *arguments):
        written = write(jobs, *arguments)
        records.kafka.make_anew(topic, 2)
        records.forget_metadata()
        return written

    with monkeypatch.context() as patch:
        patch.setattr(RangeJobs, "write", made_again)
        assert refused(job).code == "topic-recreated"
    assert job.rows() == []
    job.abandon(job.state.unfinished().run_id)
    job.accept_source(topic)
    written_anew(records, topic, 20)
    job.ingest()
    assert len(job.rows()) == 20
    assert job.group_offsets() == records.ends(topic) == job.frontiers()


def test_a_topic_made_again_before_a_run_reads_it_is_refused_by_its_tasks(topic, home, records, monkeypatch):
    """They ended with UnknownTopic, exit code 1 and no remedy."""
    job = home(topic)
    write = RangeJobs.write

    def made_again(jobs, *arguments):
        records.kafka.make_anew(topic, 2)
        records.forget_metadata()
        written_anew(records, topic, 200)
        return write(jobs, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(RangeJobs, "write", made_again)
        found = refused(job)
    assert (found.code, found.exit_code) == ("topic-recreated", ExitCode.REFUSED)
    assert f"kseg repair JOB --accept-source {topic}" in refused(job).remedy
    job.abandon(job.state.unfinished().run_id)
    job.accept_source(topic)
    job.ingest()
    assert len(job.rows()) == 200


def test_a_deleted_topic_is_refused(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    records.kafka.delete(topic)
    assert refused(job).code == "topic-missing"


@pytest.mark.rule(43)
def test_another_cluster_is_refused(topic, any_home, records):
    """With a topic of the same name, of the same length."""
    job = any_home(topic)
    job.ingest()
    with EmbeddedKafka(light=True) as other:
        settings = {"bootstrap.servers": other.bootstrap_servers, "log_level": 0}
        admin = AdminClient(settings)
        admin.create_topics([NewTopic(topic, 2, 1)], operation_timeout=60)[topic].result(60)
        producer = Producer(settings)
        for number in range(200):
            producer.produce(topic, b"other %d" % number, partition=number % 2)
        assert producer.flush(60) == 0
        del producer
        job.change(kafka={"bootstrap.servers": other.bootstrap_servers})
        assert refused(job).code == "another-cluster"
        assert len(job.state.runs) == 1


# --- retention


def test_records_lost_before_they_were_read_are_refused_or_recorded(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    frontier = job.frontiers()[topic, 0]
    lost = records.write(topic, 0, 10)
    records.write(topic, 0, 5)
    records.write(topic, 1, 5)
    records.delete_records(topic, 0, frontier + 10)
    rows, offsets = job.rows(), job.group_offsets()
    refusal = refused(job)
    assert refusal.code == "data-lost"
    assert refusal.address["partition"] == 0
    assert (job.rows(), job.group_offsets()) == (rows, offsets)

    job.change(source={"on_data_loss": "record"})
    job.ingest()
    assert job.rows() == [row for row in records.rows(topic) if row not in lost]
    assert list(job.state.given_up(TopicPartition(topic, 0))) == [(frontier, frontier + 10)]
    assert job.frontiers() == records.ends(topic) == job.group_offsets()
    assert job.ingest().status == "nothing-to-do"


def test_records_that_landed_before_they_were_lost_are_no_loss(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    records.delete_records(topic, 0, job.frontiers()[topic, 0])
    records.delete_records(topic, 1, 7)
    records.write(topic, 0, 5)
    job.ingest()
    job.assert_complete(runs=2)


def test_records_lost_between_plan_and_reading_are_refused_or_recorded(topic, any_home, records):
    """The run's ranges are pinned: what of them is gone is recorded as lost, and the rest lands."""
    job = any_home(topic)
    job.die("plan:after")
    records.delete_records(topic, 1, 10)
    refusal = refused(job)
    assert refusal.code == "data-lost"
    assert job.group_offsets() == {}

    job.change(source={"on_data_loss": "record"})
    job.ingest()
    assert job.rows() == [row for row in records.rows(topic) if row[1] == 0 or row[2] >= 10]
    run = next(iter(job.state.runs.values()))
    assert run.phase == "finished"
    assert [(gap.partition, gap.start, gap.end) for gap in run.accounted.gaps] == [(1, 0, 10)]
    assert job.frontiers() == records.ends(topic) == job.group_offsets()


def test_a_first_run_begins_where_the_log_does(topic, any_home, records):
    records.delete_records(topic, 0, 10)
    job = any_home(topic)
    job.ingest()
    assert job.rows() == [row for row in records.rows(topic) if row[1] == 1 or row[2] >= 10]


# --- growth


@pytest.mark.parametrize("starting_offsets", ["earliest", "latest"])
def test_a_partition_added_later_is_read_from_its_first_record(starting_offsets, topic, any_home, records):
    """Also where the job began at the latest offsets: there was nothing before."""
    job = any_home(topic, source={"starting_offsets": starting_offsets})
    job.ingest()
    before = [] if starting_offsets == "latest" else records.rows(topic)
    records.kafka.add_partitions(topic, 3)
    records.forget_metadata()
    added = records.write(topic, 2, 10, transaction="commit")
    records.settle(topic)
    job.ingest()
    assert job.rows() == sorted([*before, *added])
    assert job.group_offsets() == records.ends(topic) == job.frontiers()


def test_a_topic_that_a_pattern_finds_later_is_read_from_its_first_record(topic, any_home, records):
    job = any_home(topic, source={"topics": None, "pattern": f"^{topic}", "starting_offsets": "latest"})
    job.ingest()
    later = f"{topic}-more"
    records.admin.create_topics([NewTopic(later, 1, 1)], operation_timeout=60)[later].result(60)
    written_anew(records, topic, 4)
    producer = Producer(records.settings)
    producer.produce(later, b"first")
    assert producer.flush(60) == 0
    job.ingest()
    assert [(row[0], row[4]) for row in job.rows() if row[0] == later] == [(later, b"first")]
    assert len(job.rows()) == 5
