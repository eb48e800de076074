"""An unfinished run meets a job file that was changed: with nothing landed the change wins, with some tables landed a
person has to say which of both shall be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.errors import Refused
from kseg.etl.operations.verify import verify

CHANGE = {"merge_schema": True}
"""Changes what a run is, and not its rows."""


@pytest.fixture
def topics(records: Any) -> tuple[str, str]:
    first, rest = records.topic(2), records.topic(1)
    records.write_mixed(first, 2, rounds=1)
    records.write_mixed(rest, 1, rounds=1)
    return first, rest


def refused(job: Any, run: Any, **options: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        run(**options)
    return caught.value


@pytest.mark.parametrize("step", ["plan:after", "land:first:before"])
def test_with_nothing_landed_the_new_configuration_goes_on(step, topics, home, records):
    job = home(*topics)
    job.die(step)
    planned = job.state.unfinished()
    routes = job.document["sink"]["routes"]
    routes[topics[0]]["path"] = "./lake/elsewhere"
    job.change()
    records.write(topics[0], 0, 5)
    job.ingest()
    assert job.rows("elsewhere") == records.rows(topics[0])
    assert job.rows("rest") == records.rows(topics[1])
    assert [run.phase for run in job.state.runs.values()] == ["abandoned", "finished"]
    assert job.state.runs[planned.run_id].abandoned
    assert job.group_offsets() == records.ends(*topics) == job.frontiers()
    assert "first" not in job.tables or job.rows("first") == []
    assert not {file for file in job.orphans() if planned.run_id in file}


@pytest.mark.parametrize("step", ["land:first:committed", "land:first:after", "land:rest:committed", "account:before"])
def test_with_a_table_landed_it_is_refused_until_it_is_finished(step, topics, home, records):
    job = home(*topics)
    job.die(step)
    planned = job.state.unfinished()
    job.change(sink=CHANGE)
    records.write(topics[0], 0, 5)
    refusal = refused(job, job.ingest)
    assert refusal.code == "configuration-changed"
    assert f"--finish {planned.run_id}" in (refusal.remedy or "")
    assert job.group_offsets() == {}

    job.finish(planned.run_id)
    state = job.state
    assert state.runs[planned.run_id].phase == "finished"
    assert state.runs[planned.run_id].config_hash == planned.config_hash
    assert job.rows() == [row for row in records.rows(*topics) if row[2] < planned_end(planned, row)]
    assert job.group_offsets() == job.frontiers()
    job.ingest()
    job.assert_complete(runs=2)


@pytest.mark.parametrize("step", ["land:first:committed", "land:rest:after", "account:after"])
def test_with_a_table_landed_it_is_refused_until_it_is_abandoned(step, topics, home, records):
    job = home(*topics)
    job.die(step)
    planned = job.state.unfinished()
    changed = job.change(sink=CHANGE)
    if step != "account:after":
        assert refused(job, changed.ingest).code == "configuration-changed"
    job.abandon(planned.run_id)
    assert job.rows() == []
    assert job.state.runs[planned.run_id].abandoned
    assert job.group_offsets() == {}
    assert set(job.frontiers().values()) == {0}
    assert refused(job, job.abandon, run_id=planned.run_id).code == "run-ended"
    records.write(topics[0], 0, 5)
    job.ingest()
    assert [run.phase for run in job.state.runs.values()] == ["abandoned", "finished"]
    job.assert_complete(runs=1)


def test_an_accounted_run_goes_on_whatever_the_configuration_is(topics, home, records):
    """All its rows have landed: only offsets are left, and they are not configured."""
    job = home(*topics)
    job.die("account:after")
    job.change(sink=CHANGE)
    job.ingest()
    job.assert_complete(runs=1)


def test_an_interrupted_abandonment_is_ended_by_the_next_run(topics, home, records, monkeypatch):
    """Between its tables: the first one's rows are gone, the second one's are not."""
    job = home(*topics)
    job.die("account:before")
    planned = job.state.unfinished()
    from kseg.etl.tables.delta.commit import DeltaTarget

    whole = DeltaTarget.remove_run

    def stop_at_the_second(self: DeltaTarget, run: Any) -> Any:
        if self.name.endswith("/rest"):
            raise OSError("the machine stopped")
        return whole(self, run)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTarget, "remove_run", stop_at_the_second)
        with pytest.raises(OSError, match="stopped"):
            job.abandon(planned.run_id)
    assert job.state.unfinished().phase == "abandoning"
    assert job.rows("first") == []
    assert refused(job, job.finish, run_id=planned.run_id).code == "run-abandoning"
    job.ingest()
    job.assert_complete(runs=1)
    assert job.state.runs[planned.run_id].abandoned


def test_offsets_that_are_committed_cannot_be_abandoned(topics, home):
    job = home(*topics)
    job.die("finish:before")
    planned = job.state.unfinished()
    assert refused(job, job.abandon, run_id=planned.run_id).code == "offsets-committed"
    job.finish(planned.run_id)
    job.assert_complete(runs=1)


def test_repair_does_not_go_behind_the_back_of_a_run_that_lives(topics, home, children):
    job = home(*topics)
    child = children.run(job, at="land:first:before", signal="SIGSTOP")
    child.suspended()
    planned = job.state.unfinished()
    from kseg.etl.errors import AnotherRunActive

    with pytest.raises(AnotherRunActive):
        job.finish(planned.run_id)
    with pytest.raises(AnotherRunActive):
        job.abandon(planned.run_id)
    child.wake()
    assert child.answer()["exit"] == 0
    job.assert_complete(runs=1)


def test_a_run_is_finished_with_the_transform_that_it_was_planned_with(topics, home, records):
    """The pinned configuration is what decides its rows, not the job file of now."""
    job = home(*topics, transform=[{"sql": "SELECT * FROM __rows__ WHERE offset % 2 = 0"}])
    job.die("land:first:committed")
    planned = job.state.unfinished()
    job.change(transform=None)
    job.finish(planned.run_id)
    assert job.rows() == [row for row in records.rows(*topics) if row[2] % 2 == 0]


def planned_end(run: Any, row: Any) -> int:
    """Where the run's range of the row's partition ends."""
    return next(r.end for r in run.plan.ranges if (r.topic, r.partition) == row[:2])


@pytest.mark.parametrize("of_earlier_release", [False, True])
def test_columns_of_a_struct_are_in_the_job_files_order_when_a_run_is_finished(
    of_earlier_release, any_home, records, monkeypatch
):
    """Plans had the keys of the job file in alphabetical order, and `--finish` was refused: the struct had another
    type than the table's."""
    if of_earlier_release:
        monkeypatch.setattr("kseg.etl.planning.plan.as_text", lambda document: json.dumps(document, sort_keys=True))
    first, rest = records.topic(1), records.topic(1)
    producer = Producer(records.settings)
    decode = {"format": "json", "into": "struct", "schema": {"columns": {"z": "bigint", "a": "string", "m": "int"}}}
    job = any_home(first, rest, decode={"value": decode})

    def write(number: int) -> None:
        for topic in (first, rest):
            producer.produce(topic, json.dumps({"z": number, "a": "x", "m": 1}))
        assert producer.flush(60) == 0

    write(1)
    job.ingest()
    write(2)
    job.die("land:first:committed")
    planned = job.state.unfinished()
    job.change(decode={"value": decode | {"tombstones": "drop"}})
    assert refused(job, job.ingest).code == "configuration-changed"
    job.finish(planned.run_id, take_over=True)
    for table in ("first", "rest"):
        rows = job.table(table).to_pyarrow_table().column("value").to_pylist()
        assert sorted(row["z"] for row in rows) == [1, 2]
        assert [*rows[0]] == ["z", "a", "m"]
    assert verify(job.job).ok


@pytest.mark.parametrize("step", ["land:first:committed", "land:first:after"])
def test_a_loss_is_recorded_by_the_run_that_is_finished(step, any_home, records):
    """`--finish` said "set source.on_data_loss: record", and refused again when it was set: the whole source was the
    plan's. Only abandoning led out, which removes rows that Kafka no longer has."""
    topic = records.topic(1)
    records.write(topic, 0, 20)
    job = any_home(topic)
    job.die(step)
    planned = job.state.unfinished()
    job.change(sink=CHANGE)
    records.delete_records(topic, 0, 12)
    refusal = refused(job, job.finish, run_id=planned.run_id)
    assert refusal.code == "data-lost"
    assert "source.on_data_loss: record" in (refusal.remedy or "")
    job.change(source={"on_data_loss": "record"})
    report = job.finish(planned.run_id)
    assert report.status == "done"
    assert job.rows() == records.rows(topic), "rows that had landed stay, those that Kafka has no more among them"
    assert job.state.runs[planned.run_id].config_hash == planned.config_hash
    assert job.group_offsets() == job.frontiers() == records.ends(topic)
    records.write(topic, 0, 3)
    job.ingest()
    assert job.rows() == records.rows(topic)
