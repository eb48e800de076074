"""`kseg verify` finds what was done to a table behind the ledger's back, and nothing where nothing was done.

Comparisons are made twice: in the driver, as tables of this size are, and by Spark, as large ones are.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import Refused
from kseg.etl.executors.driver import DriverExecutor
from kseg.etl.executors.local.pool import LocalExecutor
from kseg.etl.executors.port import Read
from kseg.etl.executors.spark import SparkExecutor
from kseg.etl.ledger.maintenance import summarise
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger
from kseg.etl.operations.backfill import run_backfill
from kseg.etl.operations.verify import TableResult, VerifyReport
from kseg.etl.operations.verify import verify as verify_once
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.run.pipeline import run_ingest
from kseg.etl.spark.job_session import JobSession
from kseg.etl.tasks.packs import TaskResult
from verified import verify as verify_before_damage
from verified import verify_both_ways as verify

RECORDS = 60

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@dataclass
class Landed:
    job: Job
    table: Path
    topic: str

    def delete(self, predicate: str) -> None:
        DeltaTable(self.table).delete(predicate)

    def backfill(self, mode: str, partition: int, start: int, end: int) -> None:
        bounds = {"from_": [f"{self.topic}:{partition}:{start}"], "to": [f"{self.topic}:{partition}:{end}"]}
        label = "again" if mode == "append" else None
        run_backfill(self.job, BackfillRequest.parse(**bounds, mode=mode, label=label))

    @property
    def state(self) -> JobState:
        return Ledger.open(self.job.ledger, create=False).read(self.job.name)

    def rows(self, predicate: str) -> pa.Table:
        return pa.table(DeltaTable(self.table).scan(None, predicate))

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self.table, rows, mode="append")

    def kinds(self) -> dict[str, list[tuple[int | None, int | None]]]:
        found: dict[str, list[tuple[int | None, int | None]]] = {}
        for finding in verify(self.job).findings:
            found.setdefault(finding.kind, []).append((finding.partition, finding.offset))
        return found


@pytest.fixture
def land(kafka: Any, spark: Any, tmp_path: Path) -> Callable[..., Landed]:
    """Lands a topic of two partitions; the last argument is the job's transform."""

    def build(transform: str = "[]", sink: str = "{path: ./table}") -> Landed:
        topic = kafka.topic(2, prefix="verify")
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce(topic, key=b"%d" % number, value=b"value", partition=number % 2, headers=[("h", None)])
        assert producer.flush(60) == 0
        file = tmp_path / "job.yaml"
        file.write_text(
            f"""
version: 1
name: {topic}
kafka: {{bootstrap.servers: "{kafka.bootstrap_servers}"}}
source: {{topics: [{topic}]}}
transform: {transform}
sink: {sink}
ledger: ./ledger
"""
        )
        job = load_job(file)
        run_ingest(job)
        return Landed(job, tmp_path / "table", topic)

    return build


def test_an_untouched_table_agrees_in_every_column(land: Callable[..., Landed]) -> None:
    landed = land()
    report = verify(landed.job)
    assert report.ok
    assert [(t.compared, t.rows, t.unreadable, t.findings) for t in report.tables] == [("rows", RECORDS, 0, 0)]


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def refuse(self: JobSession, **_: Any) -> None:
        raise AssertionError("Spark is started")

    def from_now_on() -> None:
        for way in ("session", "context"):
            monkeypatch.setattr(JobSession, way, refuse)

    return from_now_on


@pytest.mark.parametrize(
    ("transform", "compared"),
    [
        ("[]", "rows"),
        ('[{sql: "SELECT *, 1 AS n FROM __rows__"}]', "addresses"),
        ('[{sql: "SELECT * FROM __rows__ WHERE offset > 3"}]', "counts"),
    ],
    ids=["no transform", "as many rows", "fewer rows"],
)
def test_a_small_table_needs_no_spark(
    transform: str, compared: str, land: Callable[..., Landed], no_spark: Callable[[], None]
) -> None:
    landed = land(transform)
    no_spark()
    report = verify_once(landed.job)
    assert (report.ok, [table.compared for table in report.tables]) == (True, [compared])


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ("table_check.MOST_ROWS", RECORDS - 1),
        ("table_check.MOST_FILE_BYTES", 1),
        ("driver_comparison.MOST_ROW_BYTES", 1),
    ],
    ids=["rows", "file bytes", "memory"],
)
def test_a_table_beyond_a_limit_is_compared_by_spark(
    limit: str, most: int, land: Callable[..., Landed], no_spark: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = land()
    monkeypatch.setattr(f"kseg.etl.operations.{limit}", most)
    no_spark()
    with pytest.raises(AssertionError, match="Spark is started"):
        verify_once(landed.job)


@pytest.mark.parametrize("executor", ["driver", "local", "spark"])
def test_records_are_compared_whichever_executor_reads_them(
    executor: str, land: Callable[..., Landed], spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = land()
    local = LocalExecutor(workers=2)
    executors = {"driver": DriverExecutor(), "local": local, "spark": SparkExecutor(spark.sparkContext)}
    monkeypatch.setattr("kseg.etl.operations.table_check.small_executor", lambda *_: executors[executor])
    try:
        report = verify_once(landed.job)
        assert (report.ok, [(t.compared, t.rows) for t in report.tables]) == (True, [("rows", RECORDS)])
        changed = landed.rows("partition = 1 AND offset = 4")
        landed.delete("(partition = 0 AND offset = 7) OR (partition = 1 AND offset = 4)")
        value = changed.schema.get_field_index("value")
        landed.append(changed.set_column(value, "value", pa.array([b"other"], changed.schema.field(value).type)))
        found = [(finding.kind, finding.partition, finding.offset) for finding in verify_once(landed.job).findings]
        assert found == [("gap", 0, 7), ("mismatch", 1, 4)]
    finally:
        local.close()


def test_the_local_engine_reads_the_records_of_more_than_one_pack(
    land: Callable[..., Landed], no_spark: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = land()
    no_spark()
    read, run = [], LocalExecutor.run

    def watched(self: LocalExecutor, of_records: Read) -> tuple[TaskResult, ...]:
        read.append(sum(task.length for task in of_records.tasks))
        return run(self, of_records)

    monkeypatch.setattr(LocalExecutor, "run", watched)
    monkeypatch.setattr("kseg.etl.run.engine_choice.SMALL", RECORDS - 1)
    local = load_job(landed.table.parent / "job.yaml", overrides={"run": {"engine": "local"}})
    assert verify_once(local).ok
    assert read == [RECORDS]


def test_each_kind_of_damage_is_told_with_its_address(land: Callable[..., Landed]) -> None:
    landed = land()
    twice = landed.rows("partition = 0 AND offset = 3")
    changed = landed.rows("partition = 1 AND offset = 4")
    stranger = landed.rows("partition = 1 AND offset = 5").set_column(4, "offset", pa.array([29], pa.int64()))
    landed.delete("(partition = 0 AND offset = 7) OR (partition = 1 AND offset IN (4, 29))")
    value = changed.schema.get_field_index("value")
    landed.append(twice)
    landed.append(changed.set_column(value, "value", pa.array([b"other"], changed.schema.field(value).type)))
    landed.append(stranger)
    assert landed.kinds() == {
        "duplicate": [(0, 3)],
        "gap": [(0, 7)],
        # A row that says it is another one's: its address is right, and its contents are not.
        "mismatch": [(1, 4), (1, 29)],
    }


def test_a_column_that_somebody_has_added_is_null_in_every_record(land: Callable[..., Landed]) -> None:
    landed = land()
    row = landed.rows("partition = 0 AND offset = 3")
    landed.delete("partition = 0 AND offset = 3")
    DeltaTable(landed.table).alter.add_columns(Field("added", PrimitiveType("string")))
    write_deltalake(landed.table, row, mode="append", schema_mode="merge")
    assert verify_before_damage(landed.job).ok
    landed.delete("partition = 0 AND offset = 3")
    write_deltalake(landed.table, row.append_column("added", pa.array(["x"])), mode="append")
    assert landed.kinds() == {"mismatch": [(0, 3)]}


def test_rows_of_offsets_that_hold_no_record_are_strangers(
    land: Callable[..., Landed], kafka: Any, await_markers: Callable[[str, str], None]
) -> None:
    landed = land()
    writer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": landed.topic})
    writer.init_transactions(60)
    writer.begin_transaction()
    writer.produce(landed.topic, b"never", partition=0)
    assert writer.flush(60) == 0
    writer.abort_transaction(60)
    await_markers(kafka.bootstrap_servers, landed.topic)
    run_ingest(landed.job)  # offset 30 is aborted, 31 its marker
    assert verify_before_damage(landed.job).ok
    row = landed.rows("partition = 0 AND offset = 3")
    landed.append(row.set_column(4, "offset", pa.array([30], pa.int64())))
    assert landed.kinds() == {"stranger": [(0, 30)]}


def test_a_transform_that_keeps_the_rows_is_compared_by_address(land: Callable[..., Landed]) -> None:
    landed = land('[{sql: "SELECT *, length(value) AS n FROM __rows__"}]')
    assert [t.compared for t in verify_before_damage(landed.job).tables] == ["addresses"]
    landed.delete("partition = 0 AND offset = 7")
    assert landed.kinds() == {"gap": [(0, 7)]}


def test_a_transform_that_filters_is_compared_by_counts_and_says_so(land: Callable[..., Landed]) -> None:
    landed = land('[{sql: "SELECT * FROM __rows__ WHERE offset % 3 = 0"}]')
    report: VerifyReport = verify_before_damage(landed.job)
    assert report.ok
    assert [(t.compared, t.rows) for t in report.tables] == [("counts", RECORDS // 3)]
    assert any("only counts were compared" in note for note in report.notes)
    landed.delete("partition = 0 AND offset = 0")
    assert landed.kinds() == {"count": [(None, None)]}


def test_an_append_excuses_its_own_rows_alone(land: Callable[..., Landed]) -> None:
    landed = land()
    landed.backfill("append", 0, 0, 5)
    report = verify_before_damage(landed.job)
    assert (report.ok, [t.rows for t in report.tables]) == (True, [RECORDS])
    first = next(iter(landed.state.runs))
    landed.append(landed.rows("partition = 1 AND offset = 4"))
    landed.append(landed.rows(f"partition = 0 AND offset = 2 AND _kseg_run = '{first}'"))
    assert landed.kinds() == {"duplicate": [(0, 2), (1, 4)]}
    landed.delete("(partition = 1 AND offset = 4) OR (partition = 0 AND offset = 2)")
    landed.delete(f"partition = 0 AND offset = 3 AND _kseg_run = '{first}'")
    assert landed.kinds() == {"gap": [(0, 2), (0, 3), (1, 4)]}, (
        "the append's own row does not stand for the first one's"
    )


def test_a_replaced_run_is_compared_with_what_stands_now(land: Callable[..., Landed]) -> None:
    landed = land()
    before = landed.rows("partition = 0 AND offset = 3")
    unknown = before.set_column(
        before.schema.get_field_index("_kseg_run"),
        "_kseg_run",
        pa.array(["another"], before.schema.field("_kseg_run").type),
    )
    landed.backfill("replace", 0, 0, 5)
    assert verify_before_damage(landed.job).ok
    landed.append(before)
    assert landed.kinds() == {"duplicate": [(0, 3)]}
    landed.append(unknown)
    (finding,) = verify(landed.job).findings
    assert (finding.kind, finding.offset) == ("stranger", 3)
    assert "run another" in finding.message


def test_a_file_that_is_gone_is_a_finding(land: Callable[..., Landed]) -> None:
    landed = land()
    gone = DeltaTable(landed.table).file_uris()[0]
    Path(gone).unlink()
    report = verify(landed.job)
    assert [(t.rows, t.findings) for t in report.tables] == [(0, 1)]
    (finding,) = report.findings
    assert finding.kind == "file"
    assert Path(gone).name in finding.message


def test_rows_of_another_job_are_its_own_and_those_of_a_lost_ledger_are_not(land: Callable[..., Landed]) -> None:
    landed = land()
    row = landed.rows("partition = 0 AND offset = 3")

    def landed_by(ledger: str, job: str) -> None:
        run = incremental_run_id(ledger, job, 1)
        place = row.schema.get_field_index("_kseg_run")
        other = row.set_column(place, "_kseg_run", pa.array([run], row.schema.field(place).type))
        app = CommitProperties(app_transactions=[Transaction(f"kseg/{ledger}/{job}", 1)])
        write_deltalake(landed.table, other, mode="append", commit_properties=app)

    landed_by("another", "of another cluster")
    report = verify_before_damage(landed.job)
    assert report.ok
    assert "1 rows not compared: other jobs" in " ".join(report.notes)
    landed_by("lost", landed.job.name)
    assert landed.kinds() == {"stranger": [(0, 3)]}


def test_counts_of_replaced_runs_are_compared_together(land: Callable[..., Landed]) -> None:
    landed = land('[{sql: "SELECT * FROM __rows__ WHERE offset % 3 = 0"}]')
    landed.backfill("replace", 0, 2, 8)
    assert verify_before_damage(landed.job).ok
    landed.delete("partition = 0 AND offset = 3")
    assert landed.kinds() == {"count": [(None, None)]}


def test_runs_older_than_the_summary_are_compared_with_kafka(
    land: Callable[..., Landed], monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = land()
    monkeypatch.setattr("kseg.etl.ledger.maintenance.RUNS_KEPT", 0)
    assert summarise(Ledger.open(landed.job.ledger, create=False), landed.job.name, after=0)
    assert list(landed.state.runs) == []
    report = verify_before_damage(landed.job)
    assert (report.ok, [t.rows for t in report.tables]) == (True, [RECORDS])
    assert "older than the ledger's summary" in " ".join(report.notes)
    again = landed.rows("partition = 1 AND offset = 4")
    landed.delete("partition = 0 AND offset = 7")
    landed.append(again)
    assert landed.kinds() == {"duplicate": [(1, 4)], "gap": [(0, 7)]}


def test_a_table_in_a_catalog_is_compared(
    land: Callable[..., Landed], spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tests' Spark outlives a run, and so does its catalog, which is in memory.
    monkeypatch.setattr("kseg.etl.spark.job_session.refuse_forgetful", lambda *_: None)
    name = f"spark_catalog.default.verified_{uuid.uuid4().hex[:8]}"
    try:
        landed = land(sink=f"{{table: {name}, single_driver: true}}")
        report = verify_before_damage(landed.job)
        assert [(t.path, t.compared, t.rows, t.findings) for t in report.tables] == [(name, "rows", RECORDS, 0)]
        spark.sql(f"DELETE FROM {name} WHERE partition = 0 AND offset = 7")
        assert landed.kinds() == {"gap": [(0, 7)]}
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    with pytest.raises(Refused) as caught:
        verify(landed.job)
    assert caught.value.code == "table-missing"


def test_a_small_table_is_shuffled_in_one_partition_unless_somebody_has_said_how_many(
    land: Callable[..., Landed], spark: Any
) -> None:
    landed = land()
    setting, before = "spark.sql.shuffle.partitions", spark.conf.get("spark.sql.shuffle.partitions")

    def widest() -> int:
        group = f"verify-{landed.topic}-{uuid.uuid4()}"
        spark.sparkContext.setJobGroup(group, "verify")
        try:
            assert verify_once(landed.job, in_spark=True).ok
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # the tracker hears of jobs from there
        tracker = spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
        return max(stage.numTasks for stage in stages if stage is not None)

    try:
        spark.conf.set(setting, "7")
        assert widest() == 7
        assert spark.conf.get(setting) == "7"
        spark.conf.unset(setting)
        assert spark.conf.get(setting) == "200"
        assert widest() <= 4  # of reading
        assert spark.conf.get(setting) == "200"
    finally:
        spark.conf.set(setting, before)


@pytest.mark.parametrize(
    ("compared", "findings", "said"),
    [
        (["rows", "rows"], 0, "all rows agree (14 rows)"),
        (["rows", "addresses"], 0, "the addresses of all rows agree (14 rows); other columns were not compared"),
        (["addresses", "counts"], 0, "the numbers of rows agree (14 rows); rows were not compared"),
        ([], 0, "there is no table to compare"),
        (["rows"], 1, "rows do not agree"),
    ],
)
def test_the_headline_says_what_was_compared(compared, findings, said):
    tables = [TableResult(f"t{number}", one, 7, 0, findings) for number, one in enumerate(compared)]
    report = VerifyReport("orders", tables)
    assert (report.headline, report.ok) == (said, bool(compared) and not findings)


def test_the_headline_does_not_say_all_where_offsets_were_left_out():
    """Those that Kafka no longer has, and those of routed runs that a rebuilt ledger does not know."""
    tables = [TableResult("t", "rows", 7, 3, 0), TableResult("u", "decoded", 7, 3, 0, unknown=5)]
    said = "all rows that were compared agree (14 rows), decoded again from their records; 5 offsets were not compared"
    assert VerifyReport("orders", tables, not_compared=5).headline == said


@pytest.mark.parametrize(
    ("unreadable", "said"),
    [
        (0, "there are no rows of finished runs to compare"),
        (9, "no rows were compared: Kafka no longer has their records"),
    ],
)
@pytest.mark.parametrize("compared", ["rows", "decoded", "addresses", "counts"])
def test_the_headline_does_not_say_that_no_rows_agree(compared, unreadable, said):
    assert VerifyReport("orders", [TableResult("t", compared, 0, unreadable, 0)]).headline == said
