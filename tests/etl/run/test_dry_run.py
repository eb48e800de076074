"""A dry run's plan is the plan of the run, and it writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from kseg.client import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.store import Ledger
from kseg.etl.operations.backfill import run_backfill
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.run.dry_run import plan_only
from kseg.etl.run.pipeline import run_ingest
from kseg.etl.run.report import RunReport
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.jobs.cli import cli
from kseg.segment_reader.encode.batches import Record, encode_batch
from sending import send_to


@pytest.fixture
def job(spark: Any, planned_job: Job) -> Job:
    """The same, that can be run."""
    return planned_job


@pytest.fixture
def planned_job(log_files: Any, tmp_path: Path) -> Job:
    """Forty records, one a minute from 1970 on."""
    batch = encode_batch([Record(None, b"v%d" % n, (), n * 60_000) for n in range(40)])
    log_files.write_partition(tmp_path / "log" / "orders-0", [[batch]])
    document = {
        "version": 1,
        "name": "orders",
        "source": {"topics": ["orders"], "segments": "./log"},
        "sink": {"path": "./lake/orders"},
        "ledger": "./ledger",
        "spark": {"master": "local[1]"},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(document))  # JSON is YAML
    return load_job(tmp_path / "job.yaml")


def ranges_of(report: RunReport) -> list[tuple[str, int, int, int]]:
    return [(r.topic, r.partition, r.start, r.end) for r in report.ranges]


@pytest.mark.parametrize(
    ("asked", "ranges"),
    [
        ({"from_": ("orders:0:5",), "to": ("orders:0:9",)}, [(5, 9)]),
        ({"from_": ("1970-01-01T00:03:00Z",), "to": ("1970-01-01T00:10:00Z",)}, [(3, 10)]),
        ({"interval": "1970-01-01T00:10:00Z/1970-01-01T00:20:00Z"}, [(10, 20)]),
        ({"segments": ("log",)}, [(0, 40)]),
    ],
    ids=["offsets", "times", "interval", "files"],
)
def test_of_a_backfill(job: Job, tmp_path: Path, asked: dict[str, Any], ranges: list[tuple[int, int]]) -> None:
    if "segments" in asked:
        asked = {"segments": [str(tmp_path / folder) for folder in asked["segments"]]}
    request = BackfillRequest.parse(**asked)
    planned = plan_only(job, request)
    assert (planned.status, planned.run_id) == ("dry-run", None)
    assert ranges_of(planned) == [("orders", 0, *of_one) for of_one in ranges]
    assert not (tmp_path / "ledger").exists()
    assert not (tmp_path / "lake").exists()
    done = run_backfill(job, request)
    assert (done.status, done.mode, ranges_of(done)) == ("done", planned.mode, ranges_of(planned))
    assert plan_only(job, request).status == "nothing-to-do"


BEFORE_1970 = [
    "1969-12-31T23:59:59.999Z",
    "1969-12-31T23:59:59.998Z",
    "1969-12-31T23:59:59.997Z",
    "1969-12-31T23:59:59.99Z",
    "1970-01-01T00:00:00+01:00",
    "0001-01-01T00:00:00Z",
]
"""The first three were sent to brokers as -1, -2 and -3 ms: latest, earliest, the largest timestamp."""


@pytest.mark.broker
@pytest.mark.parametrize("of", ["brokers", "files"])
@pytest.mark.parametrize("start", BEFORE_1970)
def test_a_start_before_1970_reads_all(kafka: Any, cluster: Any, tmp_path: Path, of: str, start: str) -> None:
    """Records without a timestamp too."""
    topic = kafka.topic(2, {"retention.ms": "-1"})
    records = {TopicPartition(topic, 0): [Record(value=b"v")] * 3, TopicPartition(topic, 1): [Record(value=b"v")]}
    send_to(cluster, records)
    send_to(cluster, {TopicPartition(topic, 0): [Record(value=b"v", timestamp=1_767_225_600_000)]})
    source: dict[str, Any] = {"topics": [topic], "starting_offsets": {"timestamp": start}}
    document: dict[str, Any] = {
        "version": 1,
        "name": "orders",
        "source": source,
        "sink": {"path": str(tmp_path / "lake")},
        "ledger": str(tmp_path / "ledger"),
    }
    if of == "files":
        source["segments"] = [*map(str, kafka.log_dirs)]
    else:
        document["kafka"] = {"bootstrap.servers": kafka.bootstrap_servers}
    job = load_job(document)
    everything = [(topic, 0, 0, 4), (topic, 1, 0, 1)]
    assert ranges_of(plan_only(job)) == everything
    assert ranges_of(plan_only(job, BackfillRequest.parse(from_=(start,), to=("2026-11-01T00:00:00Z",)))) == everything
    assert ranges_of(plan_only(job, BackfillRequest.parse(interval=f"{start}/2026-02-01T00:00:00Z"))) == everything


def test_of_an_ingest(job: Job, tmp_path: Path) -> None:
    planned = plan_only(job)
    assert (planned.status, ranges_of(planned)) == ("dry-run", [("orders", 0, 0, 40)])
    assert not (tmp_path / "ledger").exists()
    assert ranges_of(run_ingest(job)) == ranges_of(planned)
    assert plan_only(job).status == "nothing-to-do"


def test_what_a_run_would_refuse_is_refused(job: Job) -> None:
    without = job.model_copy(update={"sink": job.sink.model_copy(update={"addresses": False})})
    request = BackfillRequest.parse(from_=("orders:0:5",), to=("orders:0:9",), mode="replace")
    with pytest.raises(ConfigurationError, match="replace finds rows by address"):
        plan_only(without, request)


@pytest.mark.parametrize(
    ("sink", "table", "said"),
    [
        ({"partition_by": ["topic"]}, {"value": pa.binary()}, "the table is partitioned by nothing"),
        ({}, {"value": pa.binary(), "offset": pa.string()}, "the rows have bigint, the table has string"),
        ({}, {"value": pa.binary()}, "the table has no such column"),
        ({"merge_schema": True}, {"value": pa.binary()}, None),
    ],
)
def test_rows_that_do_not_fit_their_table_are_found(
    planned_job: Job, tmp_path: Path, sink: dict[str, Any], table: dict[str, pa.DataType], said: str | None
) -> None:
    """The plan was good, and the run ended with exit 2: without a transform the table was not compared."""
    write_deltalake(tmp_path / "lake/orders", pa.schema(table).empty_table())
    job = changed(tmp_path, sink={"path": "./lake/orders", **sink})
    if said is None:
        assert not [note for note in plan_only(job).notes if "rows fit" in note]
        return
    with pytest.raises(IncompatibleSchema, match=said):
        plan_only(job)


def test_clustering_that_an_existing_table_lacks_is_noted(planned_job: Job, tmp_path: Path) -> None:
    sink = {"path": "./lake/orders", "cluster_by": ["offset"], "single_driver": True}
    job = changed(tmp_path, sink=sink)
    assert not [note for note in plan_only(job).notes if "cluster_by" in note]
    write_deltalake(tmp_path / "lake/orders", pa.schema({"value": pa.binary(), "offset": pa.int64()}).empty_table())
    job = changed(tmp_path, sink={**sink, "merge_schema": True})
    [note] = [note for note in plan_only(job).notes if "cluster_by" in note]
    assert "lake/orders, not clustered: `ALTER TABLE … CLUSTER BY (offset)`" in note


def test_rows_of_steps_on_the_dataframe_are_named_as_not_compared(planned_job: Job, tmp_path: Path) -> None:
    sql = with_transform(planned_job, tmp_path, "SELECT * FROM __rows__")
    assert "not checked: whether the rows fit the tables" in plan_only(sql).notes


def with_transform(job: Job, folder: Path, sql: str) -> Job:
    return changed(folder, transform=[{"sql": sql}])


def changed(folder: Path, **sections: Any) -> Job:
    document = json.loads((folder / "job.yaml").read_text()) | sections
    (folder / "job.yaml").write_text(json.dumps(document))
    return load_job(folder / "job.yaml")


def test_a_query_that_does_not_work_is_found_with_spark_alone_and_else_named_as_not_checked(
    job: Job, tmp_path: Path
) -> None:
    wrong = with_transform(job, tmp_path, "SELECT *, no_such_column FROM __rows__")
    [note] = [note for note in plan_only(wrong).notes if "--with-spark" in note]
    assert note.startswith("not checked: transform[0].sql")
    with pytest.raises(ConfigurationError, match="no_such_column"):
        plan_only(wrong, with_spark=True)
    right = with_transform(job, tmp_path, "SELECT * FROM __rows__")
    notes = plan_only(right, with_spark=True).notes
    assert not [note for note in notes if "--with-spark" in note]
    assert [note for note in notes if note.startswith("not checked: whether tasks reach")]


class Stopped(Exception):
    """Ends a run where a test wants it."""


def stop_after_the_plan(step: str) -> None:
    if step == "plan:after":
        raise Stopped


def left_planned(job: Job) -> str:
    """The run that an attempt on this job has planned, and nothing else."""
    with pytest.raises(Stopped):
        run_ingest(job, observe=stop_after_the_plan)
    run = Ledger.open(job.ledger, create=False).read(job.name).unfinished()
    assert run is not None
    return run.run_id


def test_an_unfinished_run_is_said_to_continue_or_to_be_abandoned_as_the_run_does(
    planned_job: Job, tmp_path: Path
) -> None:
    left = left_planned(planned_job)
    same = plan_only(planned_job)
    assert (same.run_id, same.notes[0]) == (left, f"run {left} is unfinished (planned) and would continue")
    other = changed(tmp_path, source={"topics": ["orders"], "segments": "./log", "starting_offsets": "latest"})
    before = Ledger.open(other.ledger, create=False).read(other.name)
    again = plan_only(other)
    assert again.notes[0] == f"run {left} would be abandoned: nothing had landed, and the job file has changed since"
    assert (again.status, again.run_id, ranges_of(again)) == ("dry-run", None, [("orders", 0, 0, 40)])
    assert Ledger.open(other.ledger, create=False).read(other.name) == before
    with pytest.raises(Stopped):
        run_ingest(other, observe=stop_after_the_plan)
    after = Ledger.open(other.ledger, create=False).read(other.name)
    assert after.runs[left].abandoned
    planned = after.unfinished()
    assert planned is not None
    assert [(r.topic, r.partition, r.start, r.end) for r in planned.plan.ranges] == ranges_of(again)


def test_a_changed_job_that_cannot_be_planned_is_refused_although_a_run_is_unfinished(
    planned_job: Job, tmp_path: Path
) -> None:
    """A topic that does not exist: it was said to continue with the ranges of the old one."""
    left_planned(planned_job)
    other = changed(tmp_path, source={"topics": ["no-such-topic"], "segments": "./log"})
    with pytest.raises(ConfigurationError, match="there is no topic no-such-topic"):
        plan_only(other)
    file = str(tmp_path / "job.yaml")
    for words in (["plan", file], ["check", file, "--connect"], ["ingest", file, "--dry-run"]):
        result = CliRunner().invoke(cli, words)
        assert (result.exit_code, "there is no topic no-such-topic" in result.stderr) == (2, True), words


def test_check_connect_tells_what_the_next_run_would_do(planned_job: Job, tmp_path: Path) -> None:
    left = left_planned(planned_job)
    changed(tmp_path, sink={"path": "./lake/others"})
    result = CliRunner().invoke(cli, ["check", str(tmp_path / "job.yaml"), "--connect"])
    assert result.exit_code == 0, result.stderr
    assert f"run {left} would be abandoned" in result.stderr
    assert "`kseg plan`" not in result.stderr
