"""The demo's orders are bad where they say so, and its verification finds every difference."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.decoding.formats.avro import AvroSchemas
from kseg.etl.decoding.framed import FramedDecoder, FramedSchemas
from kseg.jobs.demo import typed_orders
from kseg.jobs.demo.typed_orders import VERSIONS, Address, Orders, Verified, verify
from kseg.segment_reader.payload.decoder import Status

IDS = (3, 9)


class Sent:
    """In place of librdkafka's producer: keeps what it is given."""

    def __init__(self) -> None:
        self.payloads: list[tuple[Address, bytes]] = []
        self.ends: Counter[int] = Counter()

    def produce(self, topic: str, payload: bytes, *, partition: int) -> None:
        self.payloads.append(((partition, self.ends[partition]), payload))
        self.ends[partition] += 1

    def poll(self, seconds: float) -> None: ...

    def flush(self, seconds: float) -> int:
        return 0


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Two rounds."""
    sent, ids = Sent(), iter(IDS)
    monkeypatch.setattr("confluent_kafka.Producer", lambda settings: sent)
    monkeypatch.setattr(typed_orders, "_register", lambda registry, schema: next(ids))
    monkeypatch.setattr(typed_orders, "_read", lambda servers: sent.payloads)
    asked = {f"r/schemas/ids/{key}": {"schema": json.dumps(VERSIONS[number])} for number, key in enumerate(IDS)}
    monkeypatch.setattr(typed_orders, "_ask", lambda url, body=None: asked[url])
    writer = Orders("b:1", "r", 1_000)
    for _ in range(2):
        written = writer.write_round(lambda count: None)
    assert (written.good, written.negative, written.unreadable) == (1_940, 20, 40)
    return sent


def landed(sent: Sent) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and dead letters as a job has them after the redrive."""
    texts = [json.dumps(version) for version in VERSIONS]
    writers = tuple((key, (text, ())) for key, text in zip(IDS, texts, strict=True))
    decoder = FramedDecoder(FramedSchemas(texts[1], writers, AvroSchemas()))
    decoded = decoder.decode(pa.array([payload for _, payload in sent.payloads], pa.binary()), None, "value")
    rows, dead = [], []
    for ((partition, offset), _), row, status in zip(
        sent.payloads, decoded.rows.to_pylist(), decoded.status.tolist(), strict=True
    ):
        if status == Status.DECODED:
            rows.append({"_kseg_partition": partition, "_kseg_offset": offset, **row})
        if status != Status.DECODED or row["amount"] < 0:
            dead.append({"partition": partition, "offset": offset})
    return rows, dead


def test_all_that_is_landed_rightly_is_verified(orders: Sent) -> None:
    rows, dead = map(pa.Table.from_pylist, landed(orders))
    assert verify("b:1", "r", rows, dead) == Verified(rows=1_960, dead=40)


def test_every_difference_is_found(orders: Sent) -> None:
    rows, dead = landed(orders)

    def faults(its_rows: list[dict[str, Any]], its_dead: list[dict[str, Any]]) -> str:
        found = verify("b:1", "r", pa.Table.from_pylist(its_rows), pa.Table.from_pylist(its_dead))
        return "; ".join(found.faults)

    assert faults([{**rows[0], "amount": 7.0}, *rows[1:]], dead).startswith(
        "1 orders are not in the table as they were"
    )
    assert "not in the table" in faults([{**row, "note": None} for row in rows], dead)
    assert "not in the table" in faults(rows[1:], dead)
    assert faults([*rows, rows[0]], dead) == "1 orders are in the table twice"
    assert "are of no order" in faults([*rows, {**rows[0], "_kseg_offset": 10**6}], dead)
    assert faults(rows, dead[1:]) == "59 dead letters, 60 bad orders were written"
    assert "dead letters" in faults(rows, [*dead, dead[0]])
