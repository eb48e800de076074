"""The ways out of a changed source: a truncated log, a topic made anew, a start beyond the log.

And what looks like one and is none: a leader that changes while the brokers are asked.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.lease import acquire
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from kseg.etl.operations.table_history import TableHistory
from kseg.etl.run.range_jobs import RangeJobs
from kseg.etl.source.brokers.logs import BrokerLogs
from kseg.jobs.broker.process import EmbeddedKafka


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """One whose log may be cut off, and which may be restarted."""
    with EmbeddedKafka(light=True, directory=tmp_path_factory.mktemp("kafka"), start_timeout=300) as broker:
        yield broker


@pytest.fixture(scope="module")
def own(broker: EmbeddedKafka, kafka_of: Callable[..., Any], records_of: Callable[..., Any]) -> Any:
    return records_of(kafka_of(broker))


def refused(what: Callable[[], Any]) -> Refused:
    with pytest.raises(Refused) as caught:
        what()
    return caught.value


def make_anew(records: Any, topic: str, count: int) -> list[Any]:
    """The topic again, with other records; gives what of them a table holds."""
    records.kafka.make_anew(topic, 2)
    records.forget_metadata()
    producer, rows = Producer(records.settings), []
    for number in range(count):
        producer.produce(topic, b"new %d" % number, partition=number % 2)
        rows.append((topic, number % 2, number // 2, b"new %d" % number))
    assert producer.flush(60) == 0
    return sorted(rows)


def values(rows: list[Any]) -> list[Any]:
    return sorted((*row[:3], row[4]) for row in rows)


def landed(job: Any) -> list[Any]:
    """Rows may have an address twice, of two generations."""
    rows = job.table("first").to_pyarrow_table(columns=["topic", "partition", "offset", "value"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def truncate(broker: EmbeddedKafka, topic: str, offset: int) -> None:
    """Cut a partition's log off, as an unclean election does: batches from this offset on are gone, and so is what the
    broker remembers of them."""
    (log,) = [found for folder in broker.log_dirs for found in Path(folder).glob(f"{topic}-0")]
    broker.stop_node(1)
    (segment,) = log.glob("*.log")
    data, at = segment.read_bytes(), 0
    while at < len(data) and int.from_bytes(data[at : at + 8], "big") < offset:
        at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
    segment.write_bytes(data[:at])
    for file in (*log.glob("*.index"), *log.glob("*.timeindex"), *log.glob("*.snapshot")):
        file.unlink()
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        for folder in broker.log_dirs:
            file = Path(folder) / checkpoint
            lines = file.read_text().splitlines()
            cut = [f"{topic} 0 {offset}" if line.startswith(f"{topic} 0 ") else line for line in lines]
            file.write_text("\n".join(cut) + "\n")
    broker.restart(1)


# --- truncated


def test_a_log_that_is_cut_off_under_a_run_is_refused_before_anything_lands(broker, own, home_of, monkeypatch):
    """What it reads above the cut are the new records. Landed for the old ones, they would land once more."""
    topic = own.topic(1)
    there = own.write(topic, 0, 10)
    own.write(topic, 0, 10)
    job = home_of(own, topic)
    schemas = RangeJobs.sink_schemas

    def cut_off(jobs, tables):
        found = schemas(jobs, tables)
        truncate(broker, topic, 10)
        own.forget_metadata()
        there.extend(own.write(topic, 0, 20))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(RangeJobs, "sink_schemas", cut_off)
        assert refused(job.ingest).code == "log-truncated"
    assert job.rows() == []
    assert refused(lambda: job.accept_source(topic)).code == "run-unfinished"
    job.abandon(job.state.unfinished().run_id)
    job.ingest()
    assert landed(job) == values(there)
    assert job.frontiers() == own.ends(topic) == job.group_offsets()


def test_a_truncated_log_is_gone_on_with_once_it_is_accepted(broker, own, home_of):
    topic = own.topic(1)
    tp = TopicPartition(topic, 0)
    first = own.write(topic, 0, 10)
    lost = own.write(topic, 0, 10)
    job = home_of(own, topic)
    job.ingest()
    truncate(broker, topic, 10)
    own.forget_metadata()
    new = own.write(topic, 0, 20)
    assert own.ends(topic)[topic, 0] == 30
    for way in (job.ingest, lambda: job.ingest(take_over=True, accept_group_offsets=True), job.plan):
        assert refused(way).code == "log-truncated"

    would = job.accept_source(topic, dry_run=True)
    assert [(r.partition, r.offset, r.generation, r.landed) for r in would.reopened] == [(0, 10, 1, 10)]
    assert refused(job.ingest).code == "log-truncated"
    report = job.accept_source(f"{topic}:0")
    assert (report.status, report.reason) == ("accepted", "log-truncated")
    assert job.accept_source(topic).status == "nothing-to-do"

    job.ingest()
    assert landed(job) == values([*first, *lost, *new])  # rows of lost records stay
    state = job.state
    old, last = state.runs.values()
    assert (state.generation_of(old, tp), state.generation_of(last, tp)) == (0, 1)
    assert state.current(old, tp, OffsetSet.single(0, 30)) == OffsetSet.single(0, 10)
    assert [(r.start, r.end) for r in last.plan.ranges] == [(10, 30)]
    assert {row[:3] for row in lost} <= {row[:3] for row in new}  # one address, two generations
    assert job.group_offsets() == own.ends(topic) == job.frontiers()
    assert job.ingest().status == "nothing-to-do"

    again = {"from_": [f"{topic}:0:0"], "to": [f"{topic}:0:30"], "mode": "replace"}
    job.backfill(**again)
    assert landed(job) == values([*first, *lost, *new])
    job.backfill(**again, drop_older_generations=True)
    assert landed(job) == values([*first, *new])


def test_a_backfill_asked_again_after_a_truncation_lands_what_is_there_now(broker, own, home_of):
    topic = own.topic(1)
    written = [*own.write(topic, 0, 10), *own.write(topic, 0, 10)]
    job = home_of(own, topic)
    request = {"from_": [f"{topic}:0:0"], "to": [f"{topic}:0:20"]}
    job.backfill(**request)
    assert job.backfill(**request).status == "nothing-to-do"
    truncate(broker, topic, 10)
    own.forget_metadata()
    written += own.write(topic, 0, 10)
    job.accept_source(topic)
    report = job.backfill(**request)
    assert [(r.start, r.end) for r in report.ranges] == [(10, 20)]
    assert landed(job) == values(written)
    assert job.backfill(**request).status == "nothing-to-do"


def test_an_unfinished_run_is_abandoned_before_its_log_is_accepted(broker, own, home_of):
    topic = own.topic(1)
    own.write(topic, 0, 10)
    own.write(topic, 0, 10)
    job = home_of(own, topic)
    job.die("account:before")  # it has landed
    truncate(broker, topic, 10)
    own.forget_metadata()
    own.write(topic, 0, 15)
    (run,) = job.state.unfinished_runs()
    for way in (job.ingest, lambda: job.finish(run.run_id), lambda: job.backfill(interval=None, **_first_ten(topic))):
        assert refused(way).code == "log-truncated"
    refusal = refused(lambda: job.accept_source(topic))
    assert refusal.code == "run-unfinished"
    assert f"--abandon {run.run_id}" in refusal.remedy
    job.abandon(run.run_id, lose_rows=True)
    job.accept_source(topic)
    job.ingest()
    assert sorted(row[2] for row in landed(job)) == list(range(25))
    assert job.group_offsets() == own.ends(topic)


def _first_ten(topic: str) -> dict[str, list[str]]:
    return {"from_": [f"{topic}:0:0"], "to": [f"{topic}:0:10"]}


# --- not truncated


def test_a_leader_that_changes_between_metadata_and_ends_is_no_truncation(broker, own, home_of, monkeypatch):
    topic = own.topic(1)
    own.write(topic, 0, 20)
    job = home_of(own, topic)
    job.ingest()
    own.write(topic, 0, 5)
    whole, done = BrokerLogs.bounds, []

    def bounds(self: BrokerLogs, partitions: Any) -> Any:
        if not done:
            done.append(1)
            broker.restart(1)
            own.forget_metadata()
            own.write(topic, 0, 10)
        return whole(self, partitions)

    monkeypatch.setattr(BrokerLogs, "bounds", bounds)
    job.ingest()
    broker.restart(1)
    own.forget_metadata()
    own.write(topic, 0, 5)
    job.ingest()
    job.assert_complete(runs=3)


def test_a_ledger_with_the_epoch_of_another_moment_goes_on_without_landing_twice(broker, own, home_of):
    """As earlier releases could write it: an end of one leader epoch beside the epoch before. The log lost nothing."""
    topic = own.topic(1)
    own.write(topic, 0, 10)
    job = home_of(own, topic)
    broker.restart(1)
    own.forget_metadata()
    own.write(topic, 0, 10)
    job.ingest()
    known = job.state.topics[topic]
    seen = known.partitions[0]
    wrong = ev.TopicIdentity(known.topic_id, known.cluster_id, {0: ev.PartitionIdentity(seen.leader_epoch - 1, 20)})
    with acquire(job.ledger, job.document["name"], duration=job.job.run.lease) as lease:
        lease.transition(lambda _: [ev.TopicSeen(topics={topic: wrong})])
    own.write(topic, 0, 5)
    refusal = refused(job.ingest)
    assert (refusal.code, refusal.address["offset"]) == ("log-truncated", 10)
    assert job.accept_source(f"{topic}:0:20").reopened == []
    job.ingest()
    job.assert_complete(runs=2)
    assert job.state.reopened == {}


# --- another topic


def test_offsets_of_an_accounted_run_never_go_onto_a_topic_made_anew(topic, any_home, records):
    job = any_home(topic)
    job.die("commit:before")
    old = landed(job)
    new = make_anew(records, topic, 10)
    (run,) = job.state.unfinished_runs()
    for way in (job.ingest, job.ingest, lambda: job.finish(run.run_id)):
        assert refused(way).code == "topic-recreated"
    assert job.group_offsets() == {}

    job.accept_source(topic)
    assert job.ingest().run_id == run.run_id  # it has landed: what is left is to commit
    assert job.group_offsets() == {(topic, 0): 0, (topic, 1): 0}
    job.ingest()
    assert landed(job) == sorted([*old, *new])
    assert job.group_offsets() == records.ends(topic) == job.frontiers()


def test_a_topic_made_anew_without_anything_to_read_gets_no_old_offsets(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    make_anew(records, topic, 0)
    assert refused(job.ingest).code == "topic-recreated"
    assert job.group_offsets() == {}
    job.accept_source(topic)
    assert job.ingest().status == "nothing-to-do"
    assert set(job.group_offsets().values()) == {0}


def test_a_topic_made_anew_is_read_from_its_first_record_once_it_is_accepted(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    old = landed(job)
    new = make_anew(records, topic, 500)
    with pytest.raises(ConfigurationError, match="all of its partitions"):
        job.accept_source(f"{topic}:0")
    report = job.accept_source(topic)
    assert [(r.partition, r.offset, r.generation) for r in report.reopened] == [(0, 0, 1), (1, 0, 1)]
    job.ingest()
    assert landed(job) == sorted([*old, *new])
    assert job.frontiers() == job.group_offsets() == records.ends(topic)


def test_a_ledger_that_is_lost_afterwards_is_rebuilt_with_the_new_generation(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    old = landed(job)
    new = make_anew(records, topic, 10)
    job.accept_source(topic)
    job.ingest()
    shutil.rmtree(job.folder / "ledger")
    rebuild_ledger(job.job)
    assert job.frontiers() == records.ends(topic)
    assert {tp.partition: job.state.generation(tp) for tp in job.state.bases} == {0: 1, 1: 1}
    producer = Producer(records.settings)
    for number in range(60):  # up to offsets that only rows of the old topic have
        producer.produce(topic, b"newer", partition=number % 2)
    assert producer.flush(60) == 0
    job.ingest()
    newer = [(topic, partition, offset, b"newer") for partition in (0, 1) for offset in range(5, 35)]
    assert landed(job) == sorted([*old, *new, *newer])
    job.backfill(from_=[f"{topic}:0:0"], to=[f"{topic}:0:35"], mode="replace", drop_older_generations=True)
    kept = [row for row in old if row[1] == 1 or row[2] >= 35]
    assert landed(job) == sorted([*kept, *new, *newer])


@pytest.mark.parametrize("change", ["a topic made anew", "the same, and once more after the rebuild"])
def test_a_replacement_after_a_rebuild_leaves_rows_of_the_old_generation_alone(change, topic, any_home, records):
    """Backfills and incremental runs of both generations; the rebuilt ledger has the plan of none of them."""
    job = any_home(topic)
    job.ingest()
    ends = [f"{topic}:{partition}:{end}" for (_, partition), end in sorted(records.ends(topic).items())]
    job.backfill(from_=[f"{topic}:0:0", f"{topic}:1:0"], to=ends, mode="append", label="again")
    old = landed(job)
    new = make_anew(records, topic, 40)
    job.accept_source(topic)
    job.ingest()
    whole = {"from_": [f"{topic}:0:0", f"{topic}:1:0"], "to": [f"{topic}:0:20", f"{topic}:1:20"], "mode": "replace"}
    job.backfill(from_=[f"{topic}:0:0"], to=[f"{topic}:0:20"], mode="replace")  # an unnumbered run of the newest
    assert landed(job) == sorted([*old, *new])
    shutil.rmtree(job.folder / "ledger")
    rebuild_ledger(job.job)
    if change != "a topic made anew":
        old, new = sorted([*old, *new]), make_anew(records, topic, 40)
        job.accept_source(topic)
        job.ingest()
    job.backfill(**whole)
    assert landed(job) == sorted([*old, *new])
    job.backfill(**whole, drop_older_generations=True)
    beyond = [row for row in old if row[2] >= 20]
    assert landed(job) == sorted([*beyond, *new])


def test_of_a_ledger_that_an_earlier_release_rebuilt_no_row_is_guessed_to_be_current(
    topic, any_home, records, monkeypatch
):
    job = any_home(topic)
    job.ingest()
    old = landed(job)
    new = make_anew(records, topic, 40)
    job.accept_source(topic)
    job.ingest()
    shutil.rmtree(job.folder / "ledger")
    monkeypatch.setattr(TableHistory, "generations_read", lambda _: None)
    rebuild_ledger(job.job)
    whole = {"from_": [f"{topic}:0:0", f"{topic}:1:0"], "to": [f"{topic}:0:20", f"{topic}:1:20"], "mode": "replace"}
    found = refused(lambda: job.backfill(**whole))
    assert (found.code, found.address["topic"]) == ("rows-of-unknown-run", topic)
    assert landed(job) == sorted([*old, *new])
    (run,) = job.state.unfinished_runs()
    job.abandon(run.run_id)
    job.backfill(**whole, drop_older_generations=True)
    assert landed(job) == sorted([*(row for row in old if row[2] >= 20), *new])


# --- a start beyond the log


def test_a_configured_start_beyond_the_log_is_refused_before_it_is_pinned(topic, any_home, records):
    job = any_home(topic, source={"starting_offsets": {topic: {0: 100_000, 1: 0}}})
    with pytest.raises(ConfigurationError, match="would start at offset 100000"):
        job.ingest()
    assert job.group_offsets() == {}
    job.change(source={"starting_offsets": {topic: {0: 0, 1: 0}}})
    job.ingest()
    job.assert_complete(runs=1)


def test_a_group_offset_beyond_the_log_is_refused_before_it_is_pinned(topic, any_home, records):
    job = any_home(topic)
    records.set_group_offsets(job.group, {(topic, 0): 100_000, (topic, 1): 0})
    assert refused(job.ingest).code == "start-beyond-end"
    assert refused(lambda: job.ingest(accept_group_offsets=True)).code == "start-beyond-end"
    records.set_group_offsets(job.group, {(topic, 0): 0})
    job.ingest()
    job.assert_complete(runs=1)


@pytest.mark.parametrize("way", ["group", "source"])
def test_a_ledger_that_starts_beyond_its_log_is_led_out(way, topic, any_home, records):
    """As earlier releases could write it: 100000 is pinned and committed over a log of a few records."""
    job = any_home(topic)
    job.die("lease:after")
    tp = TopicPartition(topic, 0)
    with acquire(job.ledger, job.document["name"], duration=job.job.run.lease, take_over=True) as lease:
        lease.transition(lambda _: [BasePinned(bases={tp: 100_000, tp._replace(partition=1): 0}, reason="configured")])
    assert refused(job.ingest).code == "start-beyond-end"
    if way == "group":
        records.set_group_offsets(job.group, {(topic, 0): 0})
        job.ingest(accept_group_offsets=True)
    else:
        job.accept_source(f"{topic}:0:0")
        job.ingest()
    job.assert_complete(runs=1)
