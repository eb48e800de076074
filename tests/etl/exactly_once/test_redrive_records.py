"""Which record a dead letter has: its topic, partition and offset, and its run, never less."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.operations import redrive
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify

#: What a record is: decoded, decoded once the job file says `time_zone`, and decoded by nothing.
GOOD, LOCAL, BROKEN = b'{"at": "2026-01-02T03:04:05Z"}', b'{"at": "2026-01-02 03:04:05"}', b'{"at": '
DEAD_LETTERS = {"dead_letters": {"path": "./lake/dead", "max": "100%"}}


def decode(**columns: str) -> dict[str, Any]:
    return {
        "value": {"format": "json", "schema": {"columns": {"at": "timestamp", **columns}}},
        "on_error": "dead_letter",
    }


def write(records: Any, topic: str, *values: bytes, partition: int = 0) -> None:
    producer = Producer(records.settings)
    for value in values:
        producer.produce(topic, value=value, partition=partition)
    assert producer.flush(60) == 0


@pytest.fixture
def topic(records: Any) -> str:
    """One partition: offsets 1, 3 and 5 have no time zone."""
    name = str(records.topic(1))
    write(records, name, GOOD, LOCAL, GOOD, LOCAL, GOOD, LOCAL, GOOD)
    return name


@pytest.fixture
def job(topic: str, any_home: Any) -> Any:
    return any_home(topic, decode=decode(), sink=dict(DEAD_LETTERS))


def mend(job: Any) -> Any:
    return job.change(decode={"value": {"time_zone": "UTC"}})


def unmend(job: Any) -> Any:
    return job.change(decode={"value": {"time_zone": None}})


def offsets(job: Any) -> list[int]:
    """With each row's, as often as it is there."""
    return sorted(job.table("first").to_pyarrow_table()["_kseg_offset"].to_pylist())


def places(job: Any, table: str) -> list[tuple[int, int]]:
    """Partition and offset of each row."""
    rows = job.table(table).to_pyarrow_table()
    return sorted(zip(*(rows[f"_kseg_{name}"].to_pylist() for name in ("partition", "offset")), strict=True))


MODULE = """
import pyarrow as pa

def picky(rows):
    for name, partition in zip(rows.column("name").to_pylist(), rows.column("_kseg_partition").to_pylist()):
        if name == "bad":
            raise ValueError(f"not this one of partition {partition}")
    return rows
"""


@pytest.mark.parametrize("other_topic", [False, True])
def test_a_record_for_which_a_step_raises_is_not_mistaken_for_one_of_another_partition(
    other_topic: bool, records: Any, home: Any, spark: Any
) -> None:
    """Offset 1 of both partitions is a dead letter, and the step raises for one of them still."""
    topics = [str(records.topic(2)) for _ in range(1 + other_topic)]
    for topic in topics:
        for partition, name in enumerate([b"bad", b"good"]):
            at = [b'{"at": "2026-01-02 03:04:05", "name": "%s"}' % text for text in (b"fine", name, b"fine")]
            write(records, topic, *at, partition=partition)
    job = home(*topics, decode=decode(name="string"), sink=dict(DEAD_LETTERS))
    job.ingest()
    module = f"picky_{job.document['name'].replace('-', '_')}"
    (job.folder / f"{module}.py").write_text(MODULE)
    spark.sparkContext.addPyFile(str(job.folder / f"{module}.py"))
    job.table("dead").optimize.compact()  # so that letters of all partitions are read, and decoded, together
    mend(job.change(transform=[{"arrow": f"{module}:picky"}]))
    report = job.redrive()
    assert (report.status, "stay open: " in " ".join(report.notes)) == ("done", True)
    for topic, table in zip(topics, ("first", "rest"), strict=False):
        assert f"{topic}-0 offset 1: row at transform[0].arrow" in " ".join(report.notes)
        assert places(job, table) == [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert job.redrive().status == "nothing-to-do"
    assert status(job.job).dead_letters == {"open": len(topics), "redriven": 5 * len(topics)}
    job.change(transform=None).redrive()
    assert set(status(job.job).dead_letters) == {"redriven"}


def test_a_record_without_a_route_is_not_mistaken_for_one_of_another_partition(records: Any, any_home: Any) -> None:
    """In one partition a letter still does not decode, so that rows are fewer than records."""
    topic = str(records.topic(2))
    routed, unrouted = (b'{"at": "2026-01-02 03:04:05", "kind": "%s"}' % kind for kind in (b"order", b"odd"))
    for partition, values in enumerate(([BROKEN, unrouted, routed], [routed, routed, unrouted])):
        write(records, topic, *values, partition=partition)
    routes = {"path": None, "route_by": "value.kind", "routes": {"order": {"path": "./lake/first"}}}
    job = any_home(topic, decode=decode(kind="string"), sink={**routes, **DEAD_LETTERS})
    job.ingest()
    job.table("dead").optimize.compact()
    assert mend(job).redrive().status == "done"
    assert places(job, "first") == [(0, 2), (1, 0), (1, 1)]
    assert status(job.job).dead_letters == {"open": 3, "redriven": 3}
    assert verify(job.job).ok


@pytest.mark.parametrize("run", [None, "0" * 32], ids=["none", "unknown"])
def test_a_dead_letter_whose_run_is_unknown_is_refused_with_its_address(run: str | None, job: Any, topic: str) -> None:
    """It may be another job's, or of a record that had this offset before the topic was made again."""
    job.ingest()
    letter = job.table("dead").to_pyarrow_table().slice(0, 1)
    column = letter.schema.get_field_index("_kseg_run")
    write_deltalake(job.table("dead"), letter.set_column(column, "_kseg_run", pa.array([run])), mode="append")
    with pytest.raises(Refused) as caught:
        mend(job).redrive()
    found = caught.value
    assert (found.code, found.address["topic"], found.address["offset"]) == ("rows-of-unknown-run", topic, 1)
    assert offsets(job) == [0, 2, 4, 6]
    job.table("dead").delete("_kseg_run IS NULL" if run is None else f"_kseg_run = '{run}'")
    assert job.redrive().status == "done"
    assert offsets(job) == list(range(7))


def test_a_dead_letter_table_without_runs_is_refused(job: Any) -> None:
    job.ingest()
    letters = job.table("dead").to_pyarrow_table().drop_columns(["_kseg_run"])
    write_deltalake(job.table("dead"), letters, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(Refused, match="no column _kseg_run") as caught:
        mend(job).redrive()
    assert (caught.value.code, offsets(job)) == ("rows-of-unknown-run", [0, 2, 4, 6])


def test_what_has_no_row_while_it_lands_is_a_dead_letter_of_the_redrive(job: Any, monkeypatch: Any) -> None:
    """What decided on it has changed between the look at it and the landing, such as the user's function."""
    job.ingest()
    monkeypatch.setattr(redrive.Trial, "still_dead", lambda *_: set())
    report = job.redrive()
    assert (report.status, report.dead_letters.rows) == ("done", 3)
    assert status(job.job).dead_letters == {"open": 3, "redriven": 3}
    monkeypatch.undo()
    assert job.redrive().status == "nothing-to-do"
    mend(job).redrive()
    assert offsets(job) == list(range(7))
    assert status(job.job).dead_letters == {"redriven": 6}
    assert verify(job.job).ok


FAIL = {"decode": {"on_error": "fail"}, "sink": {"dead_letters": None}}


@pytest.mark.parametrize(
    ("step", "remedy"), [("plan:after", "--finish"), ("land:first:committed", "--finish"), ("account:after", "redrive")]
)
def test_an_unfinished_redrive_is_named_with_its_way_out_after_a_change_to_fail(
    step: str, remedy: str, job: Any
) -> None:
    job.ingest()
    mend(job).die_redriving(step)
    job.change(**FAIL)
    (run,) = job.state.unfinished_runs()
    (problem,) = status(job.job).problems
    assert problem.run == run.run_id
    if remedy == "redrive":
        assert (problem.remedy or "").startswith(f"`kseg redrive JOB` completes run {run.run_id}")
        assert job.redrive(take_over=True).status == "done"
    else:
        assert (problem.remedy or "").startswith(f"`kseg repair JOB --finish {run.run_id}` completes it as it was plan")
        if step != "plan:after":
            with pytest.raises(Refused, match=f"run {run.run_id} has landed in some of its tables") as refused:
                job.redrive(take_over=True)
            assert refused.value.code == "configuration-changed"
            assert (refused.value.remedy or "").startswith(f"`kseg repair JOB --finish {run.run_id}` completes it")
        job.finish(run.run_id, take_over=True)
    assert (offsets(job), status(job.job).problems) == (list(range(7)), [])
    with pytest.raises(ConfigurationError, match="nothing to redrive"):
        job.redrive()
    assert verify(job.job).ok


def test_a_redrive_of_which_nothing_has_landed_is_abandoned_before_a_job_without_letters_is_refused(job: Any) -> None:
    job.ingest()
    mend(job).die_redriving("plan:after")
    job.change(**FAIL)
    with pytest.raises(ConfigurationError, match="nothing to redrive"):
        job.redrive(take_over=True)
    assert (list(job.state.unfinished_runs()), status(job.job).problems) == ([], [])
    job.change(decode={"on_error": "dead_letter"}, sink=dict(DEAD_LETTERS))
    assert job.redrive().status == "done"
    assert offsets(job) == list(range(7))
