"""A run whose schemas change in the middle of its ranges, killed at each step and started again: table, dead letters
and ledger have each record once. Three versions are interleaved, one of which the run finds on its way, with bad
records of each kind between them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify
from registries import SharedRegistry
from run_steps import steps_of
from skips import IN_FULL

DECODE = {"value": {"format": "avro", "schema": "registry"}, "on_error": "dead_letter"}
COLUMNS = ["id", "note", "amount", "tags"]
STEPS = [*steps_of("dead", "first"), "schemas:after"]
DRAFT = "http://json-schema.org/draft-07/schema#"
ROUNDS = 6


@pytest.fixture(scope="module")
def registry(schema_registry: SharedRegistry) -> SharedRegistry:
    return schema_registry


def schema(name: str, *fields: tuple[str, Any]) -> str:
    listed = [{"name": field, "type": kind} for field, kind in fields]
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "aliases": ["Order"], "fields": listed})


class Written:
    """A topic of two partitions, and what of it should be where."""

    def __init__(self, records: Any, registry: SharedRegistry) -> None:
        self.topic = str(records.topic(2))
        self.rows: set[tuple[Any, ...]] = set()
        self.dead: dict[tuple[int, int], tuple[str, bytes]] = {}
        self._producer = Producer(records.settings)
        self._next = [0, 0]
        client = registry.client
        other = f"Order{self.topic.rpartition('-')[2]}"
        first = schema("Order", ("id", "int"), ("note", "string"))
        second = schema("Order", ("id", "long"), ("note", "string"), ("amount", ["null", "long"]))
        tags = {"type": "array", "items": "string"}
        third = schema(other, ("id", "long"), ("tags", tags))
        plain = AvroSerializer(client, first), AvroSerializer(client, second)
        by_name = AvroSerializer(client, third, conf={"subject.name.strategy": record_subject_name_strategy})
        text = json.dumps({"$schema": DRAFT, "type": "object", "title": self.topic, "properties": {}})
        of_json = client.register_schema(f"{self.topic}-json", Schema(text, "JSON"))
        number = 0
        for turn in range(ROUNDS):
            for partition in (0, 1):
                for serializer, values in (
                    (plain[0], {"note": f"n{turn}"}),
                    (plain[1], {"note": "", "amount": 2**60 + turn}),
                    (by_name, {"tags": ["a", "b"][: turn % 3]}),
                ):
                    number += 1
                    value = {"id": number, **values}
                    data = serializer(value, SerializationContext(self.topic, MessageField.VALUE))
                    offset = self._write(partition, data)
                    found = tuple(json.dumps(value.get(column)) for column in COLUMNS)
                    self.rows.add((partition, offset, *found))
                bad = {
                    "UNKNOWN_SCHEMA": b"\0\x7f\xff\xff\xff" + bytes([turn]),
                    "INCOMPATIBLE_SCHEMA": b"\0" + of_json.to_bytes(4, "big") + b"{}",
                    "TRUNCATED": data[:6],
                }
                error, data = list(bad.items())[turn % 3]
                self.dead[partition, self._write(partition, data)] = error, data
        assert self._producer.flush(60) == 0

    def _write(self, partition: int, data: bytes) -> int:
        self._producer.produce(self.topic, data, partition=partition)
        self._next[partition] += 1
        return self._next[partition] - 1


@pytest.fixture(scope="module")
def written(records: Any, registry: SharedRegistry) -> Written:
    return Written(records, registry)


@pytest.fixture
def job(written: Written, home: Any, registry: SharedRegistry) -> Any:
    dead = {"dead_letters": {"path": "./lake/dead", "max": "50%"}}
    return home(written.topic, decode=DECODE, registry={"url": registry.url}, sink=dead)


def assert_exact(job: Any, written: Written, records: Any) -> None:
    rows = job.table("first").to_pyarrow_table().to_pylist()
    found = [
        (row["_kseg_partition"], row["_kseg_offset"], *(json.dumps(row[column]) for column in COLUMNS)) for row in rows
    ]
    assert (len(found), set(found)) == (len(written.rows), written.rows)
    letters = job.table("dead").to_pyarrow_table().to_pylist()
    assert len(letters) == len(written.dead)
    assert {(row["partition"], row["offset"]): (row["error"], row["value"]) for row in letters} == written.dead
    state = job.state
    (run,) = (run for run in state.runs.values() if not run.abandoned)
    assert {row["_kseg_run"] for row in [*rows, *letters]} == {run.run_id}
    counts = run.accounted.counts.decoding
    assert (counts.decoded, counts.dead, counts.dropped) == (len(rows), len(letters), 0)
    assert (run.accounted.rows_in, run.accounted.rows_out) == (len(rows) + len(letters), len(rows))
    assert job.frontiers() == records.ends(written.topic) == job.group_offsets()
    lineage = state.lineages["value"]
    assert len(set(lineage.readers)) == len(lineage.readers) <= 2
    assert run.plan.schemas["value"].reader == len(lineage.readers)
    assert status(job.job).dead_letters == {"open": len(letters)}
    assert job.orphans() == set()


@pytest.mark.parametrize("step", STEPS)
def test_a_run_killed_between_its_schemas_lands_each_record_once(
    step: str, job: Any, written: Written, records: Any, children: Any, scale: Any
) -> None:
    if step not in scale(("schemas:after", "land:dead:committed", "land:first:committed"), STEPS):
        pytest.skip(IN_FULL)
    children.run(job, at=step, signal="SIGKILL").killed()
    report = job.ingest(take_over=True)
    assert report.status == ("nothing-to-do" if step == "finish:after" else "done")
    assert_exact(job, written, records)
    before = job.state.lineages
    assert job.ingest().status == "nothing-to-do"
    assert_exact(job, written, records)
    assert job.state.lineages == before
    found = verify(job.job)
    rows = sum(table.rows for table in found.tables)
    assert rows > 0
    said = f"all rows agree ({rows} rows), decoded again from their records"
    assert (found.findings, found.headline) == ([], said)
