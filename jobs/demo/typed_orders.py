"""The demo's second topic: Avro orders with schemas in a registry, some bad ones, and a schema change in the middle.

    round 1   orders of version 1
    round 2   orders of version 2, which has one field more, and of version 1, in turn

Among a hundred orders in each round are

    1 with a negative amount       breaks the job's expectation; lands by a redrive once the expectation is dropped
    1 that ends too early          stays a dead letter
    1 without a registry's frame   stays a dead letter

Written by librdkafka and fastavro; the registry is asked by plain HTTP. `verify` reads all of it again in the same way.
"""

from __future__ import annotations

import io
import json
import struct
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC: Final = "orders"
PARTITIONS: Final = 2
ORDERS: Final = 20_000
"""The number of orders in a round."""
_OF: Final = 100
_FRAME: Final = 5
_TIMEOUT: Final = 60.0

_FIELDS: Final[list[dict[str, Any]]] = [
    {"name": "id", "type": "long"},
    {"name": "customer", "type": "string"},
    {"name": "amount", "type": "double"},
]
_NOTE: Final[dict[str, Any]] = {"name": "note", "type": ["null", "string"], "default": None}
VERSIONS: Final = tuple(
    {"type": "record", "name": "Order", "fields": fields} for fields in (_FIELDS, [*_FIELDS, _NOTE])
)

Address = tuple[int, int]
"""Partition and offset."""


@dataclass
class WrittenOrders:
    """The contents of the topic so far: orders that land at once, that land by a redrive, and that never do."""

    good: int = 0
    negative: int = 0
    unreadable: int = 0


class Orders:
    """The topic's producer. registry: base URL of the REST API."""

    def __init__(self, servers: str, registry: str, count: int) -> None:
        from confluent_kafka import Producer
        from fastavro import parse_schema

        self._servers = servers
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 50})
        self._schemas = [parse_schema(version) for version in VERSIONS]
        self._registry, self._count = registry, count
        self._ids: list[int] = []
        self.written = WrittenOrders()

    def create(self) -> None:
        """Create the topic."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self._servers})
        for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            created.result(_TIMEOUT)

    def write_round(self, advance: Callable[[int], None]) -> WrittenOrders:
        """The next round, with the schema that is new in it registered first."""
        self._ids.append(_register(self._registry, VERSIONS[len(self._ids)]))
        first = self.written.good + self.written.negative + self.written.unreadable
        for number in range(first, first + self._count):
            version = number % len(self._ids)
            self._producer.produce(TOPIC, self._payload(number, version), partition=number % PARTITIONS)
            if number % 1_000 == 999:
                self._producer.poll(0)
                advance(1_000)
        if self._producer.flush(_TIMEOUT):
            raise TimeoutError(f"orders were not acknowledged within {_TIMEOUT:.0f} s")
        return self.written

    def _payload(self, number: int, version: int) -> bytes:
        from fastavro import schemaless_writer

        kind = number % _OF
        order = {"id": number, "customer": f"customer {number % 97}", "amount": number % 1_000 / 4}
        if kind == 13:
            order["amount"] = -1.0
            self.written.negative += 1
        if version:
            order["note"] = None if number % 3 else f"note {number}"
        out = io.BytesIO()
        schemaless_writer(out, self._schemas[version], order)
        payload = b"\0" + self._ids[version].to_bytes(4, "big") + out.getvalue()
        if kind in (42, 77):
            self.written.unreadable += 1
            return payload[:-9] if kind == 42 else b"an order by hand"
        self.written.good += kind != 13
        return payload


@dataclass(frozen=True)
class Verified:
    """rows: equal in every column. dead: records that are dead letters, and no rows. faults: differences."""

    rows: int = 0
    dead: int = 0
    faults: tuple[str, ...] = field(default=())


def verify(servers: str, registry: str, rows: pa.Table, dead_letters: pa.Table) -> Verified:
    """Compare the topic, decoded by fastavro, with the table and the dead letters. rows: after the redrive."""
    expected, unreadable = _decoded(servers, registry)
    actual = {
        (row["_kseg_partition"], row["_kseg_offset"]): {
            name: row[name] for name in ("id", "customer", "amount", "note")
        }
        for row in rows.to_pylist()
    }
    faults = []
    if len(actual) != rows.num_rows:
        faults.append(f"{rows.num_rows - len(actual)} orders are in the table twice")
    wrong = [address for address in expected if actual.get(address) != expected[address]]
    if wrong:
        faults.append(f"{len(wrong)} orders are not in the table as they were written, the first at {min(wrong)}")
    if extra := actual.keys() - expected.keys():
        faults.append(f"{len(extra)} rows are of no order, the first at {min(extra)}")
    letters = dead_letters.select(["partition", "offset"]).to_pylist()
    dead = [(letter["partition"], letter["offset"]) for letter in letters]
    once_dead = unreadable | {address for address, order in expected.items() if order["amount"] < 0}
    if sorted(dead) != sorted(once_dead):
        faults.append(f"{len(dead)} dead letters, {len(once_dead)} bad orders were written")
    return Verified(len(expected) - len(wrong), len(unreadable & set(dead)), tuple(faults))


def _decoded(servers: str, registry: str) -> tuple[dict[Address, dict[str, Any]], set[Address]]:
    """Orders by address, and the addresses of those that fastavro cannot read."""
    from fastavro import parse_schema, schemaless_reader

    schemas: dict[int, Any] = {}
    orders: dict[Address, dict[str, Any]] = {}
    unreadable: set[Address] = set()
    for address, payload in _read(servers):
        data = io.BytesIO(payload[_FRAME:])
        try:
            if payload[:1] != b"\0":
                raise ValueError("no frame")
            key = int.from_bytes(payload[1:_FRAME], "big")
            if key not in schemas:
                schemas[key] = parse_schema(json.loads(_ask(f"{registry}/schemas/ids/{key}")["schema"]))
            order = schemaless_reader(data, schemas[key], None)
            if data.read(1):
                raise ValueError("bytes behind the order")
            assert isinstance(order, dict)
            orders[address] = {"note": None, **order}
        except (EOFError, ValueError, IndexError, struct.error):
            unreadable.add(address)
    return orders, unreadable


def _read(servers: str) -> list[tuple[Address, bytes]]:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": "demo-verify-orders", "enable.auto.commit": False}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "fetch.wait.max.ms": 50, "log_level": 3})
    try:
        places = [TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)]
        due = sum(consumer.get_watermark_offsets(place, timeout=_TIMEOUT)[1] for place in places)
        consumer.assign(places)
        found: list[tuple[Address, bytes]] = []
        while len(found) < due:
            messages = consumer.consume(min(20_000, due - len(found)), _TIMEOUT)
            if not messages:
                raise TimeoutError(f"no order within {_TIMEOUT:.0f} s")
            for message in messages:
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None and offset is not None and value is not None  # noqa: PT018
                found.append(((partition, offset), value))
        return found
    finally:
        consumer.close()


def _register(registry: str, schema: Mapping[str, Any]) -> int:
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    return int(_ask(f"{registry}/subjects/{TOPIC}-value/versions", body)["id"])


def _ask(url: str, body: bytes | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=_TIMEOUT) as answer:
        document: dict[str, Any] = json.load(answer)
    return document
