"""`kseg redrive` of every kind of job: whichever step makes the rows, whichever writer commits them, however they are
routed and partitioned, and wherever it dies."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify
from run_steps import steps_of
from skips import IN_FULL

pytestmark = pytest.mark.spark

COUNT = 12
MODULE = """
import pyarrow as pa
import pyarrow.compute as pc

def doubled(rows):
    return rows.append_column("twice", pc.multiply(rows.column("id"), pa.scalar(2, pa.int64())))

def joined(rows):
    from pyspark.sql import functions as f
    kinds = rows.sparkSession.createDataFrame([("order", 2), ("payment", 2)], "kind string, factor long")
    return rows.join(f.broadcast(kinds), "kind").withColumn("twice", f.col("id") * f.col("factor")).drop("factor")
"""
NO_STEP = "none"
STEPS = {
    NO_STEP: None,
    "arrow": "MODULE:doubled",
    "duckdb": "SELECT *, id * 2 AS twice FROM __rows__",
    "sql": "SELECT *, id * 2 AS twice FROM __rows__",
    "selection": "SELECT *, id AS twice FROM __rows__",
    "python": "MODULE:joined",
}
SINKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitioned": {"partition_by": ["kind", {"day": "at"}]},
    "spark": {"cluster_by": ["id"], "single_driver": True},
    "topics": {},
    "topics-spark": {"cluster_by": ["id"], "single_driver": True},
    "routed": {
        "path": None,
        "route_by": "value.kind",
        "routes": {"order": {"path": "./lake/first"}, "payment": {"path": "./lake/rest"}},
    },
}
FULL = [(step, sink) for step in STEPS for sink in SINKS if not (sink == "routed" and step in ("sql", "selection"))]
REDUCED = [
    ("arrow", "partitioned"),
    ("duckdb", "routed"),
    ("sql", "partitioned"),
    ("sql", "topics"),
    ("selection", "plain"),
    ("python", "spark"),
]


def kind(number: int) -> str:
    return "payment" if number % 3 == 0 else "order"


def is_dead(number: int) -> bool:
    """Every other pair of records has a time without a zone."""
    return number % 4 >= 2


def value(number: int) -> bytes:
    at = f"2026-01-{number + 1:02}" + (" 03:04:05" if is_dead(number) else "T03:04:05Z")
    return json.dumps({"kind": kind(number), "id": number, "at": at}).encode()


@pytest.fixture(scope="module")
def topics(records: Any) -> tuple[str, str]:
    """Record n of either is in partition n % 2, at offset n // 2: dead letters of one offset in both partitions."""
    made = str(records.topic(2)), str(records.topic(2))
    producer = Producer(records.settings)
    for topic in made:
        for number in range(COUNT):
            producer.produce(topic, value=value(number), partition=number % 2)
    assert producer.flush(60) == 0
    return made


@pytest.fixture
def job_of(topics: tuple[str, str], home: Any, spark: Any) -> Any:
    """job_of(step, sink): a job whose dead letters decode once the job file says `time_zone`."""

    def make(step: str, sink: str) -> Any:
        read = topics if "topics" in sink else topics[:1]
        columns = {"kind": "string", "id": "bigint", "at": "timestamp"}
        decode = {"value": {"format": "json", "schema": {"columns": columns}}, "on_error": "dead_letter"}
        job = home(
            *read, decode=decode, sink={**deepcopy(SINKS[sink]), "dead_letters": {"path": "./lake/dead", "max": "100%"}}
        )
        if (text := STEPS[step]) is not None:
            module = f"redriven_{job.document['name'].replace('-', '_')}"
            (job.folder / f"{module}.py").write_text(MODULE)
            spark.sparkContext.addPyFile(str(job.folder / f"{module}.py"))
            job.python_path = str(job.folder)
            job.change(transform=[{"sql" if step == "selection" else step: text.replace("MODULE", module)}])
        return job

    return make


def mend(job: Any) -> Any:
    return job.change(decode={"value": {"time_zone": "UTC"}})


def landed(job: Any) -> list[tuple[str, int, Any]]:
    """Topic, number and `twice` of each row, of all tables."""
    return sorted(
        (row["_kseg_topic"], row["_kseg_offset"] * 2 + row["_kseg_partition"], row["id"], row.get("twice"))
        for table in job.tables
        if table != "dead"
        for row in job.table(table).to_pyarrow_table().to_pylist()
    )


def due(job: Any, step: str, *, redriven: bool) -> list[tuple[str, int, Any]]:
    twice = {NO_STEP: lambda n: None, "selection": lambda n: n}.get(step, lambda n: 2 * n)
    return sorted(
        (topic, number, number, twice(number))
        for topic in job.topics
        for number in range(COUNT)
        if redriven or not is_dead(number)
    )


def assert_redriven(job: Any, step: str) -> None:
    """Each record has one row in the table of its route, and verify, status and the next redrive agree."""
    assert landed(job) == due(job, step, redriven=True)
    if "route_by" in job.document["sink"]:
        kinds = {table: set(job.table(table).to_pyarrow_table()["kind"].to_pylist()) for table in ("first", "rest")}
        assert kinds == {"first": {"order"}, "rest": {"payment"}}
    assert verify(job.job).ok
    assert set(status(job.job).dead_letters) == {"redriven"}
    assert job.redrive().status == "nothing-to-do"
    assert landed(job) == due(job, step, redriven=True)


@pytest.mark.parametrize(("step", "sink"), FULL)
def test_dead_letters_of_every_kind_of_job_are_redriven(step: str, sink: str, job_of: Any, scale: Any) -> None:
    if (step, sink) not in scale(REDUCED, FULL):
        pytest.skip(IN_FULL)
    job = job_of(step, sink)
    job.ingest()
    assert landed(job) == due(job, step, redriven=False)
    assert job.redrive().status == "nothing-to-do", "nothing was corrected"
    job.table("dead").optimize.compact()
    assert mend(job).redrive().status == "done"
    assert_redriven(job, step)


AT = tuple(step for step in steps_of("first", "rest") if not step.startswith("commit:"))
KILLED = [(step, sink) for step in ("sql", "python", "arrow") for sink in ("topics", "topics-spark")]


@pytest.mark.parametrize("at", AT)
@pytest.mark.parametrize(("step", "sink"), [*KILLED, ("duckdb", "routed")])
def test_a_killed_redrive_lands_each_record_once(
    at: str, step: str, sink: str, job_of: Any, children: Any, scale: Any
) -> None:
    few = [("land:first:committed", "sql", "topics"), ("land:rest:before", "python", "topics-spark")]
    if (at, step, sink) not in scale(few, [(at, step, sink)]):
        pytest.skip(IN_FULL)
    job = job_of(step, sink)
    job.ingest()
    mend(job)
    children.run(job, do="redrive", at=at, signal="SIGKILL").killed()
    job.redrive(take_over=True)
    assert_redriven(job, step)
