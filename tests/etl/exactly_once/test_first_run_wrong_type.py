"""A first run that fails leaves a table with the columns of a wrong job file, and no rows. The corrected job file gives
it another shape, also where the run that does so is killed, suspended or abandoned in the middle.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import record_subject_name_strategy, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable

from kseg.client.registry.schemas import Resolved, Schema
from kseg.etl.decoding.errors import UndecodablePayload
from kseg.etl.errors import ExitCode, Refused
from kseg.etl.ledger.table_shaped import TableShaped
from kseg.etl.operations.maintain import MaintenanceRequest, maintain_job
from kseg.etl.operations.schema_check import check_against_job, parts_of
from skips import IN_FULL

WRONG = {"id": "bigint", "day": "string"}
RIGHT = {"id": "string", "day": "date"}
OTHER = {"id": "string", "day": "string", "note": "string"}
DAYS = ["2026-01-01", "2026-01-02", "2026-01-03"]

STEPS = (
    "plan:after",
    "shape:first:before",
    "shape:first:renewed",
    "shape:first:committed",
    "shape:first:after",
    "land:first:before",
    "land:first:committed",
    "land:first:after",
)
"""The steps of the corrected run from its plan to its landing."""
BEFORE_LANDING = STEPS[:6]
WRITERS = {"delta-rs": {"partition_by": ["day"]}, "spark": {"cluster_by": ["id"], "single_driver": True}}


def typed(columns: dict[str, str]) -> dict[str, Any]:
    return {"value": {"format": "json", "schema": {"columns": dict(columns)}}}


def names(job: Any) -> list[str]:
    return [field.name for field in job.table("first").schema().fields if not field.name.startswith("_kseg_")]


def rows(job: Any) -> list[tuple[str, str]]:
    found = job.table("first").to_pyarrow_table().to_pylist()
    return sorted((row["id"], str(row["day"])[:10]) for row in found)


ALL = [(f"a{number}", day) for number, day in enumerate(DAYS)]


@pytest.fixture
def topic(records: Any) -> str:
    name: str = records.topic(1)
    producer = Producer(records.settings)
    for number, day in enumerate(DAYS):
        producer.produce(name, json.dumps({"id": f"a{number}", "day": day}))
    assert producer.flush(60) == 0
    return name


@pytest.fixture(params=["delta-rs", "spark"])
def writer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def failed(topic: str, local_home: Any, request: pytest.FixtureRequest) -> Any:
    """failed(writer): a job whose first run has failed with a wrong type, and whose file is corrected. It runs on the
    local engine if Spark is not the writer: all that is decided here is decided in the driver."""

    def make(writer: str = "delta-rs") -> Any:
        home = request.getfixturevalue("home") if writer == "spark" else local_home
        sink = {"path": "./lake/first"} | ({} if writer == "delta-rs" else WRITERS[writer])
        job = home(topic, decode=typed(WRONG), sink=sink)
        with pytest.raises(UndecodablePayload):
            job.ingest()
        return job.change(decode=typed(RIGHT), sink=WRITERS[writer])

    return make


def test_the_corrected_job_lands_in_the_same_table(failed, writer):
    job = failed(writer)
    before = str(job.table("first").metadata().id)
    plan = job.plan()
    assert not [note for note in plan.notes if "fit" in note and writer == "delta-rs"]
    job.ingest()
    table = job.table("first")
    assert (str(table.metadata().id), rows(job)) == (before, ALL)
    assert table.metadata().partition_columns == (["day"] if writer == "delta-rs" else [])
    (shaped,) = [entry.event for entry in job.ledger.events(job.document["name"], [TableShaped])]
    assert shaped.state.id == before
    assert job.ingest().status == "nothing-to-do"
    (known,) = job.state.tables.values()
    assert (known.id, known.version, known.rows) == (before, table.version(), 3)


@pytest.mark.parametrize("step", STEPS)
def test_a_corrected_run_that_is_killed_is_taken_up(step, writer, failed, children, scale):
    if (step, writer) not in scale([("shape:first:committed", "delta-rs")], [(s, writer) for s in STEPS]):
        pytest.skip(IN_FULL)
    job = failed(writer)
    children.run(job, at=step, signal="SIGKILL").killed()
    job.ingest(take_over=True)
    assert rows(job) == ALL
    assert job.ingest().status == "nothing-to-do"
    assert rows(job) == ALL


@pytest.mark.parametrize("step", BEFORE_LANDING)
def test_a_corrected_run_that_is_killed_is_abandoned_for_the_next_correction(step, writer, failed, children, scale):
    if (step, writer) not in scale([("shape:first:renewed", "delta-rs")], [(s, writer) for s in BEFORE_LANDING]):
        pytest.skip(IN_FULL)
    job = failed(writer)
    children.run(job, at=step, signal="SIGKILL").killed()
    job.change(decode=typed(OTHER), sink={"partition_by": None})
    job.ingest(take_over=True)
    assert (names(job), rows(job)) == ([*OTHER], ALL)


@pytest.mark.parametrize("step", BEFORE_LANDING)
def test_a_corrected_run_that_was_suspended_and_abandoned_changes_nothing(step, writer, failed, children, scale):
    if (step, writer) not in scale([("shape:first:renewed", "delta-rs")], [(s, writer) for s in BEFORE_LANDING]):
        pytest.skip(IN_FULL)
    job = failed(writer)
    sleeper = children.run(job, at=step, signal="SIGSTOP", own_jvm=scale(False, True))
    sleeper.suspended()
    job.change(decode=typed(OTHER), sink={"partition_by": None})
    job.ingest(take_over=True)
    assert (names(job), rows(job)) == ([*OTHER], ALL)
    sleeper.wake()
    answer = sleeper.answer()
    assert answer["exit"] == ExitCode.ANOTHER_RUN_ACTIVE, answer
    assert (names(job), rows(job)) == ([*OTHER], ALL)
    assert job.ingest().status == "nothing-to-do"


@pytest.mark.parametrize("step", ["plan:after", "shape:first:renewed", "shape:first:committed"])
def test_a_sleeper_that_wakes_up_before_the_next_one_has_landed(step, failed, children, scale):
    if step not in scale(["shape:first:renewed"], [step]):
        pytest.skip(IN_FULL)
    job = failed()
    sleeper = children.run(job, at=step, signal="SIGSTOP")
    sleeper.suspended()
    job.change(decode=typed(OTHER), sink={"partition_by": None})
    other = children.run(job, at="shape:first:after", signal="SIGSTOP", take_over=True)
    other.suspended()
    sleeper.wake()
    assert sleeper.answer()["exit"] == ExitCode.ANOTHER_RUN_ACTIVE
    other.wake()
    assert other.answer()["exit"] == 0
    assert (names(job), rows(job)) == ([*OTHER], ALL)


# --- a table that was deleted before anything had landed in it


@pytest.mark.parametrize("corrected_before", [True, False], ids=["planned-anew", "taken-up"])
def test_a_deleted_table_without_rows_is_created_again(corrected_before, failed, topic, records):
    job = failed()
    if not corrected_before:  # the same run again: its plan has the table of an abandoned one
        job.change(decode=typed({"id": "int", "day": "date"}))
        with pytest.raises(UndecodablePayload):
            job.ingest()
        job.change(decode=typed(RIGHT))
        job.die("land:first:before")
    shutil.rmtree(job.folder / "lake" / "first")
    assert job.plan().status == "dry-run"
    maintain_job(job.job, MaintenanceRequest())
    job.ingest()
    assert rows(job) == ALL
    (known,) = job.state.tables.values()
    assert known.id == str(job.table("first").metadata().id)


def test_a_table_that_rows_have_landed_in_and_that_is_gone_is_refused(failed):
    job = failed()
    job.ingest()
    shutil.rmtree(job.folder / "lake" / "first")
    with pytest.raises(Refused) as caught:
        job.ingest()
    assert caught.value.code == "table-missing"


def test_a_run_killed_after_it_created_a_deleted_table_again_is_taken_up(failed, children):
    job = failed()
    job.die("plan:after")
    shutil.rmtree(job.folder / "lake" / "first")
    children.run(job, at="land:first:before", signal="SIGKILL").killed()
    job.ingest(take_over=True)
    assert rows(job) == ALL


def test_a_sleeper_does_not_land_in_a_table_that_was_deleted_and_created_again(failed, children):
    job = failed()
    job.die("plan:after")
    sleeper = children.run(job, at="land:first:before", signal="SIGSTOP", take_over=True)
    sleeper.suspended()
    shutil.rmtree(job.folder / "lake" / "first")
    job.change(decode=typed(OTHER), sink={"partition_by": None})
    job.ingest(take_over=True)
    sleeper.wake()
    assert sleeper.answer()["exit"] != 0
    assert (names(job), rows(job)) == ([*OTHER], ALL)


def test_a_table_of_another_job_keeps_its_columns(failed, local_home, topic):
    job = failed()
    other = local_home(topic, decode=typed(RIGHT), sink={"path": str(job.folder / "lake" / "first")})
    with pytest.raises(Exception, match="id"):
        other.ingest()
    assert DeltaTable(job.folder / "lake" / "first").version() == 0


# --- a schema that is corrected in a registry


def test_a_schema_that_is_corrected_before_any_row_has_landed_gives_the_table_its_columns(
    records, local_home, registered
):
    """The wrong schema's record, and one of the corrected schema that the first run meets on its way."""
    topic = records.topic(1)
    write = registered(topic)
    write("int", 0)
    write("string", "met", strategy=record_subject_name_strategy)
    decode = {"value": {"format": "avro", "schema": "registry"}}
    job = local_home(topic, decode=decode, registry={"url": write.url})
    with pytest.raises(Refused, match="string does not fit the column, which is int") as conflict:
        job.ingest()
    (run,) = job.state.runs
    assert f"`kseg repair JOB --abandon {run}`): no row has landed" in (conflict.value.remedy or "")
    right = write("string", "corrected")
    job.abandon(run)
    (part,) = parts_of(job.job, f"{topic}-value")
    assert not check_against_job(job.job, job.state, part, Resolved(Schema(right)), "the new one").refused
    with pytest.raises(Refused, match="int does not fit the column, which is string"):
        job.ingest()
    job.abandon(list(job.state.runs)[-1])
    job.change(decode={"on_error": "dead_letter"}, sink={"dead_letters": {"path": "./lake/dead", "max": "50%"}})
    job.ingest()
    assert sorted(row["id"] for row in job.table("first").to_pyarrow_table().to_pylist()) == ["corrected", "met"]
    assert [letter["offset"] for letter in job.table("dead").to_pyarrow_table().to_pylist()] == [0]
    aside = {"decode": {"on_error": "dead_letter"}, "sink": {"dead_letters": {"path": "./lake/dead", "max": "100%"}}}
    job.change(decode={"on_error": None}, sink={"dead_letters": None})
    write("boolean", True, strategy=record_subject_name_strategy)
    with pytest.raises(Refused, match="boolean does not fit the column, which is string") as later:
        job.ingest()  # planned, and nothing of it has landed
    assert "set decode.on_error: dead_letter" in (later.value.remedy or "")
    job.change(**aside).ingest()
    assert len(job.table("dead").to_pyarrow_table()) == 2
    write("double", 0.5)
    with pytest.raises(Refused, match="double does not fit the column, which is string"):  # rows have landed
        job.ingest()


@pytest.fixture
def registered(records: Any, schema_registry: Any) -> Any:
    """registered(topic): writes records with a column `id` of a type in Avro, whose schema it registers and returns."""

    def of_topic(topic: str) -> Any:
        producer = Producer(records.settings)

        def write(kind: str, value: Any, strategy: Any = topic_subject_name_strategy) -> str:
            name, fields = f"Order{topic.rpartition('-')[2]}", [{"name": "id", "type": kind}]
            text = json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": fields})
            serializer = AvroSerializer(schema_registry.client, text, conf={"subject.name.strategy": strategy})
            producer.produce(topic, serializer({"id": value}, SerializationContext(topic, MessageField.VALUE)))
            assert producer.flush(60) == 0
            return text

        write.url = schema_registry.url
        return write

    return of_topic
