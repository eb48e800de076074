"""A broker's files landed for a job of brokers, which goes on there: one ledger, one frontier, each row once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.operations.verify import verify
from kseg.jobs.broker.process import EmbeddedKafka
from run_steps import FEW_FILE_STEPS, FILE_STEPS
from skips import IN_FULL

NOBODY = {"bootstrap.servers": "127.0.0.1:9"}
"""Where no broker is: whoever asks one fails."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker that tests stop and start."""
    with EmbeddedKafka(tmp_path_factory.mktemp("own"), light=True) as started:
        yield started


@pytest.fixture(scope="module")
def own(broker: EmbeddedKafka, kafka_of: Callable[..., Any], records_of: Callable[..., Any]) -> Any:
    """Records at that broker."""
    return records_of(kafka_of(broker))


@pytest.fixture
def job_of(own: Any, home_of: Callable[..., Any]) -> Callable[..., Any]:
    def make(*topics: str, **changes: Any) -> Any:
        return home_of(own, *topics, **{"run": {"deadline": "30s"}} | changes)

    return make


def from_files(job: Any, *folders: Path, **options: Any) -> Any:
    """A backfill of all in these folders, with no broker in reach."""
    servers = job.document["kafka"]["bootstrap.servers"]
    job.change(kafka=NOBODY)
    try:
        return job.backfill(segments=[str(folder) for folder in folders], **options)
    finally:
        job.change(kafka={"bootstrap.servers": servers})


def copied(folder: Path, to: Path) -> Path:
    """A copy, also of what a broker uses: what it writes in place of its checkpoints is there for a moment alone."""
    return Path(shutil.copytree(folder, to, ignore=shutil.ignore_patterns(".lock", "*.tmp")))


def test_a_job_goes_on_where_its_dead_broker_s_files_ended(broker, own, job_of, tmp_path):
    topic = own.topic(2)
    own.write_mixed(topic, 2, rounds=1)
    job = job_of(topic)
    job.ingest()
    own.write_mixed(topic, 2, rounds=1)
    own.settle(topic)
    undecided = Producer(own.settings | {"transactional.id": f"open-{topic}", "transaction.timeout.ms": 900_000})
    undecided.init_transactions(60)
    undecided.begin_transaction()
    undecided.produce(topic, b"undecided", partition=0)
    assert undecided.flush(60) == 0
    stable = own.ends(topic)
    landed = [row for row in own.rows(topic) if row[2] < stable[row[:2]]]
    broker.stop_node(1)

    files = broker.log_dirs[0]
    report = from_files(job, files)
    assert (report.status, report.mode, report.group) == ("done", "backfill-missing", None)
    assert job.rows() == landed
    assert job.frontiers() == stable
    assert from_files(job, files).status == "nothing-to-do"
    told = verify(job.change(kafka=NOBODY).job, segments=[str(files)])
    assert told.ok
    assert told.tables[0].rows == len(landed)

    broker.restart(1)
    job.change(kafka={"bootstrap.servers": own.kafka.bootstrap_servers})
    undecided.abort_transaction(60)
    own.write(topic, 0, 5)
    own.write(topic, 1, 5, transaction="commit")
    own.settle(topic)
    assert job.ingest().status == "done"
    job.assert_complete(runs=3)
    assert job.ingest().status == "nothing-to-do"
    assert verify(job.job).ok


def test_a_job_may_begin_with_files(broker, own, job_of):
    topic = own.topic(2)
    own.write_mixed(topic, 2, rounds=1)
    own.settle(topic)
    job = job_of(topic)
    assert from_files(job, broker.log_dirs[0]).status == "done"
    assert job.rows() == own.rows(topic)
    assert job.group_offsets() == {}
    own.write_mixed(topic, 2, rounds=1)
    job.ingest()
    job.assert_complete(runs=2)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_job_may_begin_with_files_of_one_partition(broker, own, job_of, tmp_path, start):
    """The others start at the brokers as in a first run: at the group's offset, else at the configured start."""
    topic = own.topic(3)
    for partition in range(3):
        own.write(topic, partition, 10)
    own.delete_records(topic, 1, 6)
    own.settle(topic)
    job = job_of(topic, source={"topics": [topic], "starting_offsets": start})
    own.set_group_offsets(job.job.group, {(topic, 2): 8})
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(broker.log_dirs[0] / "meta.properties", copy)
    copied(broker.log_dirs[0] / f"{topic}-0", copy / f"{topic}-0")
    assert from_files(job, copy, from_=(f"{topic}:0:0",), to=(f"{topic}:0:10",)).status == "done"
    at_brokers = [(0, 0, 10), *([(1, 6, 10)] if start == "earliest" else []), (2, 8, 10)]
    report = job.ingest()
    assert [(r.partition, r.start, r.end) for r in report.ranges] == at_brokers[1:]
    assert [row[1:3] for row in job.rows()] == [
        (p, offset) for p, first, end in at_brokers for offset in range(first, end)
    ]
    assert job.ingest().status == "nothing-to-do"
    own.kafka.add_partitions(topic, 4)
    own.forget_metadata()
    own.write(topic, 3, 5)
    assert [(r.partition, r.start, r.end) for r in job.ingest().ranges] == [(3, 0, 5)]


def test_files_that_have_grown_are_read_further(broker, own, job_of):
    topic = own.topic(1)
    own.write(topic, 0, 10)
    job = job_of(topic)
    from_files(job, broker.log_dirs[0])
    own.write(topic, 0, 10, transaction="commit")
    own.settle(topic)
    report = from_files(job, broker.log_dirs[0])
    assert [(r.start, r.end) for r in report.ranges] == [(10, 21)]
    job.assert_complete(runs=2, committed=False)


def test_group_offsets_move_where_that_is_asked_for(broker, own, job_of):
    topic = own.topic(2)
    own.write_mixed(topic, 2, rounds=1)
    own.settle(topic)
    job = job_of(topic)
    job.backfill(segments=[str(broker.log_dirs[0])], commit_offsets=True)
    job.assert_complete(runs=1)


def test_a_job_of_files_commits_its_group_s_offsets_at_brokers_that_it_names(broker, own, job_of):
    topic = own.topic(2)
    own.write_mixed(topic, 2, rounds=1)
    own.settle(topic)
    job = job_of(topic, source={"segments": [str(broker.log_dirs[0])]})
    report = job.ingest()
    assert report.group.how == "transactional"
    job.assert_complete(runs=1)


def test_a_run_that_commits_while_files_are_looked_at_is_no_sign_of_an_old_ledger(broker, own, job_of, look_behind):
    topic = own.topic(1)
    own.write_mixed(topic, 1, rounds=1)
    job = job_of(topic)
    job.ingest()
    own.write_mixed(topic, 1, rounds=1)
    own.settle(topic)
    looks = look_behind("kseg.etl.planning.backfill", job.ingest)
    report = job.backfill(segments=[str(broker.log_dirs[0])], commit_offsets=True)
    assert report.status == "nothing-to-do"
    assert len(looks) == 2
    job.assert_complete(runs=2)


@pytest.mark.parametrize("step", FILE_STEPS)
def test_a_backfill_from_files_killed_at_any_step_is_taken_up(step, broker, own, job_of, children, grown_topic, scale):
    """And the job goes on at the broker, whose topic has grown meanwhile."""
    if step not in scale(FEW_FILE_STEPS, FILE_STEPS):
        pytest.skip(IN_FULL)
    topic, folder = grown_topic
    job = job_of(topic, kafka=NOBODY)
    request = {"segments": [str(folder)]}
    children.run(job, at=step, signal="SIGKILL", do="backfill", request=request).killed()
    report = from_files(job, folder, take_over=True)
    assert report.status == ("nothing-to-do" if step == "finish:after" else "done")
    assert job.table("first").version() == 1
    job.change(kafka={"bootstrap.servers": own.kafka.bootstrap_servers})
    job.ingest()
    job.assert_complete(runs=2)


@pytest.fixture(scope="module")
def grown_topic(broker: EmbeddedKafka, own: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A topic, and a copy of its broker's files from before it grew."""
    topic = own.topic(2)
    own.write_mixed(topic, 2)
    own.settle(topic)
    folder = copied(broker.log_dirs[0], tmp_path_factory.mktemp("copy") / "data")
    own.write_mixed(topic, 2, rounds=1)
    own.settle(topic)
    return topic, folder


def test_the_matrix_has_every_step(job_of, children, grown_topic):
    topic, folder = grown_topic
    request = {"segments": [str(folder)]}
    answer = children.run(job_of(topic, kafka=NOBODY), do="backfill", request=request).answer()
    assert answer["exit"] == 0, answer
    assert tuple(answer["steps"]) == FILE_STEPS


def test_a_person_may_finish_or_abandon_a_backfill_from_files(own, job_of, grown_topic):
    topic, folder = grown_topic
    for way in ("finish", "abandon"):
        job = job_of(topic, kafka=NOBODY)
        job.die("land:first:committed", segments=[str(folder)])
        (run_id,) = job.state.runs
        getattr(job, way)(run_id)
        job.change(kafka={"bootstrap.servers": own.kafka.bootstrap_servers})
        job.ingest()
        job.assert_complete(runs=2 if way == "finish" else 1)


@pytest.mark.parametrize("named", [False, True], ids=["all", "by offsets"])
def test_a_backfill_is_not_completed_from_other_files_than_it_was_planned_from(broker, own, job_of, tmp_path, named):
    """With `on_data_loss: record` what the other copy lacks was recorded as lost, and counted as landed."""
    topic = own.topic(1)
    own.write(topic, 0, 10)
    older = copied(broker.log_dirs[0], tmp_path / "older")
    own.write(topic, 0, 10)
    newer = copied(broker.log_dirs[0], tmp_path / "newer")
    job = job_of(topic, kafka=NOBODY, source={"on_data_loss": "record"})
    bounds = {"from_": [f"{topic}:0:0"], "to": [f"{topic}:0:20"]} if named else {}
    job.die("plan:after", segments=[str(newer)], **bounds)
    (run_id,) = job.state.runs
    with pytest.raises(Refused) as refused:
        from_files(job, older, **bounds)
    if named:  # nothing had landed, so it is planned anew, for the files of this request
        assert (refused.value.code, job.state.runs[run_id].phase) == ("offsets-not-in-files", "abandoned")
        from_files(job, newer, **bounds)
    else:
        assert f"--finish {run_id}" in str(refused.value.remedy)
        job.finish(run_id)
    assert job.rows() == own.rows(topic)


def test_a_run_that_died_with_its_broker_makes_room_for_the_files(own, job_of, grown_topic):
    """Its offsets are planned and can be read by nobody until it is given up, for which no broker is needed."""
    topic, folder = grown_topic
    job = job_of(topic)
    job.die("land:first:before")
    (run_id,) = job.state.runs
    with pytest.raises(Refused, match=run_id) as refused:
        from_files(job, folder)
    assert refused.value.code == "offsets-reserved"
    job.change(kafka=NOBODY).abandon(run_id)
    from_files(job, folder)
    job.change(kafka={"bootstrap.servers": own.kafka.bootstrap_servers})
    job.ingest()
    job.assert_complete(runs=2)


# --- copies that do not reach as far


def test_an_old_copy_fills_in_what_retention_took(broker, own, job_of, tmp_path):
    """The copy ends before what the job has landed, and lacks nothing that is asked of it."""
    topic = own.topic(2)
    own.write_mixed(topic, 2, rounds=1)
    own.settle(topic)
    folder = copied(broker.log_dirs[0], tmp_path / "copy")
    own.write_mixed(topic, 2, rounds=1)
    own.settle(topic)
    own.delete_records(topic, 0, 20)
    job = job_of(topic)
    job.ingest()
    assert all(row[1] == 1 or row[2] >= 20 for row in job.rows())
    bounds = {"from_": [f"{topic}:0:0"], "to": [f"{topic}:0:20"]}
    from_files(job, folder, **bounds)
    assert job.rows() == own.rows(topic)
    assert from_files(job, folder, **bounds).status == "nothing-to-do"
    assert verify(job.job, segments=[str(folder)]).ok


def test_offsets_that_a_copy_lacks_are_no_loss(own, job_of, grown_topic):
    topic, folder = grown_topic
    job = job_of(topic, source={"on_data_loss": "record"})
    with pytest.raises(Refused) as refused:
        from_files(job, folder, from_=[f"{topic}:1:0"], to=[f"{topic}:1:100000"])
    assert refused.value.code == "offsets-not-in-files"
    assert job.state.runs == {}
    assert not job.state.given_up(TopicPartition(topic, 1))


def test_partitions_that_one_broker_lacks_are_left_to_the_others(own, job_of, grown_topic, tmp_path):
    topic, folder = grown_topic
    part = copied(folder, tmp_path / "part")
    shutil.rmtree(part / f"{topic}-0")
    job = job_of(topic)
    from_files(job, part)
    assert {row[1] for row in job.rows()} == {1}
    job.ingest()
    assert job.frontiers() == own.ends(topic)
    assert len(job.rows()) == len(set(job.addresses()))


def test_records_that_only_a_dead_broker_had_are_refused_at_the_brokers(broker, own, job_of, tmp_path):
    """Its files hold a tail in a leader epoch that ended earlier for everybody else: offsets mean two things."""
    topic = own.topic(1)
    own.write(topic, 0, 10)
    broker.stop_node(1)
    log_dir = broker.log_dirs[0]
    agreed = copied(log_dir / f"{topic}-0", tmp_path / "agreed")
    broker.restart(1)
    own.write(topic, 0, 20)
    broker.stop_node(1)
    files = copied(log_dir, tmp_path / "files")
    shutil.rmtree(log_dir / f"{topic}-0")
    shutil.copytree(agreed, log_dir / f"{topic}-0")
    broker.restart(1)
    own.write(topic, 0, 40)
    own.settle(topic)

    job = job_of(topic)
    from_files(job, files)
    assert len(job.rows()) == 30
    with pytest.raises(Refused) as refused:
        job.ingest()
    assert refused.value.code == "log-truncated"
    assert len(job.rows()) == 30
