"""States of a job and of its schema registry that lead to refusals (`remedy_state.py`)."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema

from remedy_state import State, first_table, run_of, state_with_registry


class Framed:
    """Records in Confluent's framing, of small ints."""

    def __init__(self, records: Any, registry: Any) -> None:
        self.topic, self.client = str(records.topic(1)), registry.client
        self._producer = Producer(records.settings)
        self.offsets = 0

    def register(self, *kinds: str, subject: str | None = None) -> int:
        fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
        text = json.dumps(
            {"type": "record", "name": "Order", "namespace": self.topic.replace("-", "_"), "fields": fields}
        )
        return int(self.client.register_schema(subject or f"{self.topic}-value", Schema(text, "AVRO")))

    def write(self, number: int, *values: int) -> None:
        body = bytes(2 * value for value in values)  # small ints as Avro has them
        self._producer.produce(self.topic, b"\0" + struct.pack(">I", number) + body, partition=0)
        assert self._producer.flush(60) == 0
        self.offsets += 1


def job_of(home: Any, records: Any, registry: Any, written: Framed) -> State:
    value = {"format": "avro", "schema": "registry"}
    job = home(written.topic, decode={"value": value}, registry={"url": registry.url})
    made = State(job, records, {"TOPIC": written.topic, "TABLE": str(first_table(job))})
    made.expected = lambda: [(written.topic, 0, offset) for offset in range(written.offsets)]  # type: ignore[method-assign]
    return made


@state_with_registry
def a_schema_of_another_type(home: Any, records: Any, folder: Path, registry: Any) -> State:
    written = Framed(records, registry)
    good = written.register("int")
    written.write(good, 1)
    made = job_of(home, records, registry, written)
    made.job.ingest()
    subject = f"{written.topic}-value"
    written.client.set_compatibility(subject, "NONE")
    written.write(written.register("string"), 1)
    written.write(good, 2)
    made.expected = lambda: [(written.topic, 0, offset) for offset in (0, 2)]  # type: ignore[method-assign]

    def corrected() -> None:
        written.client.delete_version(subject, 2)
        written.client.delete_version(subject, 2, permanent=True)

    made.person["a schema that keeps the type is registered"] = corrected
    return made


@state_with_registry
def a_schema_that_the_registry_does_not_know(home: Any, records: Any, folder: Path, registry: Any) -> State:
    written = Framed(records, registry)
    written.write(written.register("int"), 1)
    made = job_of(home, records, registry, written)
    written.write(8388607, 1)
    return made


@state_with_registry
def more_columns_than_allowed(home: Any, records: Any, folder: Path, registry: Any) -> State:
    written = Framed(records, registry)
    written.write(written.register("int"), 1)
    made = job_of(home, records, registry, written)
    made.job.change(decode={"value": {"max_columns": 1}})
    made.job.ingest()
    written.client.set_compatibility(f"{written.topic}-value", "NONE")
    written.write(written.register("int", "int"), 2, 3)
    return made


@state_with_registry
def a_run_that_was_planned_with_another_registry(home: Any, records: Any, folder: Path, registry: Any) -> State:
    written = Framed(records, registry)
    planned = written.register("int")
    late = written.register("int", "int", subject=f"{written.topic}-other")
    written.write(planned, 1)
    written.write(late, 2, 3)
    made = job_of(home, records, registry, written)
    made.job.die("plan:after")
    made.values["RUN"] = run_of(made.job)
    made.job.change(registry={"url": registry.url.replace("127.0.0.1", "localhost")})
    made.person["registry.url is set as it was"] = lambda: made.job.change(registry={"url": registry.url})
    return made
