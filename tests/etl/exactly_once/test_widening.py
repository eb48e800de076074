"""`sink.widen`: a table's types become wider for good, by Spark's writer; every command works on the table then."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.operations.audit import audit
from kseg.etl.operations.maintain import MaintenanceRequest, maintain_job
from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify
from kseg.etl.tables.errors import IncompatibleSchema
from registries import SharedRegistry

SINK = {"widen": True, "single_driver": True}


@pytest.fixture
def table(spark: Any) -> Any:
    """table(job): its rows, as Spark reads them."""

    def read(job: Any) -> list[dict[str, Any]]:
        rows = spark.read.format("delta").load(str(job.folder / "lake" / "first"))
        return [row.asDict(recursive=True) for row in rows.orderBy("_kseg_offset").collect()]

    return read


def produce(records: Any, topic: str, *values: Any) -> None:
    producer = Producer(records.settings)
    for value in values:
        producer.produce(topic, value if isinstance(value, bytes) else json.dumps(value).encode())
    assert producer.flush(60) == 0


def order(number: str, price: str) -> str:
    line = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": number}]}
    fields = [("id", number), ("price", price), ("line", line), ("lines", {"type": "array", "items": "Line"})]
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": listed})


def avro(registry: SharedRegistry, topic: str, schema: str, *numbers: int) -> list[bytes]:
    serialize, at = AvroSerializer(registry.client, schema), SerializationContext(topic, MessageField.VALUE)
    lines = ({"id": n, "price": 0.5, "line": {"n": n}, "lines": [{"n": n}]} for n in numbers)
    return [serialize(line, at) for line in lines]


def test_columns_of_avro_become_wider_and_every_command_works_on_the_table(
    records: Any, home: Any, schema_registry: SharedRegistry, table: Any
) -> None:
    topic, large = records.topic(1), 2**40
    job = home(
        topic,
        decode={"value": {"format": "avro", "schema": "registry"}, "on_error": "dead_letter"},
        registry={"url": schema_registry.url},
        sink={"single_driver": True, "dead_letters": {"path": "./lake/dead", "max": "90%"}},
    )
    bad = b"\0\x7f\xff\xff\xff"
    produce(records, topic, *avro(schema_registry, topic, order("int", "float"), 1, 2), bad)
    job.ingest()
    produce(records, topic, *avro(schema_registry, topic, order("long", "double"), large), bad)
    with pytest.raises(Refused, match="does not fit") as refused:
        job.ingest()
    assert refused.value.code == "schema-conflict"
    lines = str(refused.value.remedy).splitlines()
    assert "sink.widen: true" in lines[0]
    assert ["id:", "bigint", "id:", "int"] in [line.split() for line in lines]

    job.change(sink={"widen": True})
    report = job.ingest()
    (note,) = {note.partition(":")[2] for note in report.notes if "widened id" in note}
    assert note == " widened id from int to bigint, for good: from now on Spark's own writer lands its rows"
    produce(records, topic, *avro(schema_registry, topic, order("int", "float"), 3))
    assert not [note for note in job.ingest().notes if "widened" in note]
    rows = table(job)
    assert [row["id"] for row in rows] == [1, 2, large, 3]
    assert [row["line"]["n"] for row in rows] == [row["lines"][0]["n"] for row in rows] == [1, 2, large, 3]
    schema = pa.schema(job.table("first").schema().to_arrow())
    assert (schema.field("id").type, schema.field("price").type) == (pa.int64(), pa.float64())
    assert schema.field("line").type == pa.struct([("n", pa.int64())])

    job.redrive()
    assert job.accept_table("first").status == "nothing-to-do"
    maintain_job(job.job, MaintenanceRequest(vacuum=timedelta(days=7)))
    job.backfill(mode="replace", from_=[f"{topic}:0:0"], to=[f"{topic}:0:2"])
    assert [row["id"] for row in table(job)] == [1, 2, large, 3]
    found = verify(job.job)
    assert (found.findings, sum(one.rows for one in found.tables)) == ([], 4)
    assert status(job.job).dead_letters == {"open": 2}
    assert audit(job.job).ok
    shutil.rmtree(job.folder / "ledger")
    assert rebuild_ledger(job.job).status == "rebuilt"
    assert job.ingest().status == "nothing-to-do"
    assert [row["id"] for row in table(job)] == [1, 2, large, 3]


def columns(**kinds: str) -> dict[str, Any]:
    return {"value": {"format": "json", "schema": {"columns": kinds}}}


def test_a_run_killed_behind_the_change_of_a_type_goes_on(records: Any, home: Any, table: Any) -> None:
    topic = records.topic(1)
    produce(records, topic, {"id": 1, "amount": 1.25, "day": "2026-01-02"})
    before = columns(id="int", amount="decimal(6,2)", day="date")
    job = home(topic, decode=before, sink={"single_driver": True, "partition_by": ["id"]})
    job.ingest()
    produce(records, topic, {"id": 2**40, "amount": 1234567.125, "day": "2026-01-02T03:04:05"})
    job.change(decode=columns(id="bigint", amount="decimal(12,3)", day="timestamp_ntz"))
    with pytest.raises(IncompatibleSchema) as refused:
        job.ingest()
    assert refused.value.columns == ("id", "amount", "day")
    assert str(refused.value).count("sink.widen: true") == 3
    assert ["id:", "bigint", "id:", "int"] in [line.split() for line in str(refused.value).splitlines()]

    job.change(sink={"widen": True})
    job.die("land:first:before")
    assert pa.schema(job.table("first").schema().to_arrow()).field("id").type == pa.int64()
    (unfinished,) = job.state.unfinished_runs()
    job.change(sink={"widen": False})  # what is done is done
    job.ingest()
    assert [run.phase for run in job.state.runs.values() if not run.abandoned] == ["finished"] * 2
    assert unfinished.run_id in job.state.runs
    rows = table(job)
    assert [row["id"] for row in rows] == [1, 2**40]
    assert [str(row["amount"]) for row in rows] == ["1.250", "1234567.125"]
    assert [row["day"].isoformat() for row in rows] == ["2026-01-02T00:00:00", "2026-01-02T03:04:05"]
    assert verify(job.job).ok
    assert not [path for path in job.orphans() if "_kseg/lease" not in path]


def test_what_delta_cannot_widen_stays_refused(records: Any, home: Any) -> None:
    topic = records.topic(1)
    produce(records, topic, {"id": 1, "n": 1})
    sink = SINK | {"partition_by": [{"bucket": [4, "n"]}]}
    job = home(topic, decode=columns(id="bigint", n="int"), sink=sink)
    job.ingest()
    produce(records, topic, {"id": 2, "n": 1})
    for changed, words in (
        (
            columns(id="double", n="int"),
            "have double, the table has bigint — write decode.value.schema.columns.id: big",
        ),
        (
            columns(id="int", n="string"),
            "have string, the table has int — write decode.value.schema.columns.n: int",
        ),
        (columns(id="bigint", n="bigint"), "n_bucket is made by bucket(4, n), which differs between these types"),
    ):
        job.change(decode=changed)
        with pytest.raises(IncompatibleSchema) as refused:
            job.ingest()
        assert words in str(refused.value)
        assert "sink.widen" not in str(refused.value)
    job.change(decode=columns(id="int", n="int"))  # narrower: the table keeps its type
    job.ingest()
    rows = job.table("first").to_pyarrow_table()
    assert (rows.schema.field("id").type, sorted(rows["id"].to_pylist())) == (pa.int64(), [1, 2])


def test_a_store_that_is_not_safe_for_sparks_commits_is_refused_before_anything_changes(
    records: Any, home: Any
) -> None:
    topic = records.topic(1)
    produce(records, topic, {"id": 1})
    job = home(topic, decode=columns(id="int"), sink={"widen": True})
    job.ingest()
    produce(records, topic, {"id": 2**40})
    job.change(decode=columns(id="bigint"))
    with pytest.raises(ConfigurationError, match=r"sink\.single_driver"):
        job.ingest()
    assert pa.schema(job.table("first").schema().to_arrow()).field("id").type == pa.int32()


def test_a_run_of_another_job_that_meets_the_change_is_continued(records: Any, home: Any, table: Any) -> None:
    topics = records.topic(1), records.topic(1)
    for number, topic in enumerate(topics):
        produce(records, topic, {"id": number, "s": {"n": number}})
    narrow, wide = (columns(id=kind, s=f"struct<n:{kind}>") for kind in ("int", "bigint"))
    job = home(topics[0], decode=narrow, sink={"single_driver": True})
    other = home(topics[1], decode=narrow, sink={"single_driver": True, "path": str(job.folder / "lake" / "first")})
    job.ingest()
    produce(records, topics[0], {"id": 2**40, "s": {"n": 2**40}})
    job.change(decode=wide, sink={"widen": True})

    def widened(step: str) -> None:
        if step.startswith("land:") and step.endswith(":before"):
            job.ingest()  # the other run has written its files, and not committed them

    with pytest.raises(Refused, match="typeWidening") as refused:
        other.ingest(observe=widened)
    assert refused.value.code == "table-needs-spark-writer"
    assert other.ingest().status == "done"
    found = sorted((row["id"], row["s"]["n"]) for row in table(job))
    assert found == [(0, 0), (1, 1), (2**40, 2**40)]
    assert verify(job.job).ok
    assert verify(other.job).ok
