"""A topic with the cases that are hard for readers, written by another client (librdkafka).

Each round writes to every partition:

- records of plain producers, one for each codec, some with null keys, null or empty values, and headers that are
  null or whose keys repeat;
- transactions of four producers that run at the same time, their batches interleaved, a third of them aborted, some
  with batches in several partitions and some in one;
- in partition 0, last, a transaction that stays open, with committed records behind it: they lie below the high
  watermark, and above the last stable offset, which a reader of committed records may not cross.

The second round first commits the transaction that the first one left open, so that the records behind it can be read,
and leaves another one open. Its timeout is longer than any demo.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kseg.jobs.demo.group import ends
from kseg.segment_reader.codecs.registry import CODECS

if TYPE_CHECKING:
    from confluent_kafka import Producer

PARTITIONS = 4
PLAIN_RECORDS = 30_000
"""Records of each plain producer in a round."""
TRANSACTIONS = 6
"""Transactions of each transactional producer in a round."""
TRANSACTION_RECORDS = 1_200
OPEN_RECORDS = 500

_OPEN_TIMEOUT_MS = 15 * 60 * 1000
_TIMEOUT = 60.0
_FIRST_TIMESTAMP = 1_767_225_600_000
_TRANSACTIONAL_CODECS = ("lz4", "zstd", "none", "snappy")

Headers = list[tuple[str, str | bytes | None]]
Advance = Callable[[int], None]


@dataclass
class ProducedCount:
    """The number of records produced so far (markers not counted)."""

    committed: int = 0
    aborted: int = 0
    open: int = 0
    behind_open: int = 0

    @property
    def records(self) -> int:
        return self.committed + self.aborted + self.open


@dataclass
class HardTopic:
    """Makes the topic and writes its rounds.

    A context manager: leaving it drops the producers, and the open transaction stays open.
    """

    bootstrap_servers: str
    name: str = "hard"
    partitions: int = PARTITIONS
    scale: float = 1.0
    written: ProducedCount = field(default_factory=ProducedCount)
    _open: Producer | None = None
    _transactional: list[Producer] = field(default_factory=list)
    _serial: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Producers are dropped without waiting for a broker that may be gone; deliveries were awaited in each round.
        self._transactional.clear()
        self._open = None

    def create(self) -> None:
        """Create the topic. Raises confluent_kafka.KafkaException."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        # Several segments at full scale, and no retention: the records' timestamps are old.
        config = {"segment.bytes": str(2 << 20), "retention.ms": "-1"}
        topic = NewTopic(self.name, num_partitions=self.partitions, replication_factor=1, config=config)
        for created in admin.create_topics([topic]).values():
            created.result(_TIMEOUT)

    @property
    def round_size(self) -> int:
        """Records of one round."""
        plain = len(CODECS) * self._scaled(PLAIN_RECORDS)
        in_transactions = len(_TRANSACTIONAL_CODECS) * TRANSACTIONS * self._scaled(TRANSACTION_RECORDS)
        return plain + in_transactions + 2 * self._scaled(OPEN_RECORDS)

    def write_round(self, advance: Advance = lambda _: None) -> ProducedCount:
        """Write one round; ``advance`` is called with numbers of records as they are sent. Returns all so far."""
        self._commit_open()
        self._write_plain(advance)
        self._write_transactions(advance)
        self._await_markers()
        self._leave_open(advance)
        return self.written

    def _scaled(self, count: int) -> int:
        return max(1, int(count * self.scale))

    # The parts of a round

    def _write_plain(self, advance: Advance) -> None:
        count = self._scaled(PLAIN_RECORDS)
        producers = [self._producer(codec.name) for codec in CODECS]
        for start in range(0, count, 5_000):
            for producer in producers:
                amount = min(5_000, count - start)
                self._send(producer, amount)
                advance(amount)
        _flush(producers)
        self.written.committed += count * len(producers)

    def _write_transactions(self, advance: Advance) -> None:
        if not self._transactional:
            for number, codec in enumerate(_TRANSACTIONAL_CODECS):
                producer = self._producer(codec, **{"transactional.id": f"demo-{number}"})
                producer.init_transactions(_TIMEOUT)
                self._transactional.append(producer)
        count = self._scaled(TRANSACTION_RECORDS)
        for turn in range(TRANSACTIONS):
            for producer in self._transactional:
                producer.begin_transaction()
            # Three parts each, flushed in turn: that is what interleaves the batches in the log.
            for part in range(3):
                amount = count // 3 if part else count - 2 * (count // 3)
                for number, producer in enumerate(self._transactional):
                    self._send(producer, amount, only=number % self.partitions if turn % 2 else None)
                    producer.flush(_TIMEOUT)
                    advance(amount)
            for number, producer in enumerate(self._transactional):
                if (turn + number) % 3 == 2:
                    producer.abort_transaction(_TIMEOUT)
                    self.written.aborted += count
                else:
                    producer.commit_transaction(_TIMEOUT)
                    self.written.committed += count

    def _await_markers(self) -> None:
        """A producer learns that its transaction has ended before the markers are written."""
        from confluent_kafka import TopicPartition

        addresses = [TopicPartition(self.name, partition) for partition in range(self.partitions)]
        deadline = time.monotonic() + _TIMEOUT
        while True:
            stable, high = ends(self.bootstrap_servers, addresses)
            if stable == high:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"transactions stay open in {self.name} after {_TIMEOUT:.0f} s")
            time.sleep(0.05)

    def _leave_open(self, advance: Advance) -> None:
        count = self._scaled(OPEN_RECORDS)
        self._open = self._producer(
            "lz4", **{"transactional.id": "demo-open", "transaction.timeout.ms": _OPEN_TIMEOUT_MS}
        )
        self._open.init_transactions(_TIMEOUT)
        self._open.begin_transaction()
        # Written now, by their own account too: a report shows by it how long they have been held back.
        self._send(self._open, count, only=0, now=True)
        self._open.flush(_TIMEOUT)
        self.written.open = count
        behind = self._producer("none")
        self._send(behind, count, only=0)
        _flush([behind])
        self.written.committed += count
        self.written.behind_open = count
        advance(2 * count)

    def _commit_open(self) -> None:
        if self._open is not None:
            self._open.commit_transaction(_TIMEOUT)
            self.written.committed += self.written.open
            self.written.open = self.written.behind_open = 0
            self._open = None

    # Records

    def _producer(self, codec: str, **config: Any) -> Producer:
        from confluent_kafka import Producer

        common = {
            "bootstrap.servers": self.bootstrap_servers,
            "compression.type": codec,
            "linger.ms": 20,
            "batch.num.messages": 2_000,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 3,
        }
        return Producer(common | config)

    def _send(self, producer: Producer, count: int, *, only: int | None = None, now: bool = False) -> None:
        produce, name, partitions = producer.produce, self.name, self.partitions
        first = self._serial
        self._serial += count
        for number, (key, value, headers) in enumerate(_records(first, count), first):
            partition = number % partitions if only is None else only
            # Timestamps go back and forth by up to a minute; 0 is librdkafka's "now".
            timestamp = 0 if now else _FIRST_TIMESTAMP + number * 10 - (number * 7919) % 60_000
            if headers is None:
                produce(name, value, key, partition, timestamp=timestamp)
            else:
                produce(name, value, key, partition, timestamp=timestamp, headers=headers)
        producer.poll(0)


def _records(first: int, count: int) -> Iterator[tuple[bytes | None, bytes | None, Headers | None]]:
    """Keys, values and headers with all that may be odd about them, by number."""
    for number in range(first, first + count):
        key = None if number % 7 == 3 else b"" if number % 31 == 5 else b"customer-%d" % (number % 997)
        if number % 11 == 4:
            value = None
        elif number % 13 == 6:
            value = b""
        else:
            value = _VALUES[number % len(_VALUES)] % number
        yield key, value, _HEADERS.get(number % 20)


_HEADERS: dict[int, Headers] = {
    0: [("source", b"demo")],
    5: [("trace", b"1"), ("trace", b"2"), ("trace", b"1")],
    10: [("nothing", None), ("", b"no name"), ("empty", b"")],
    15: [("schlüssel", b"wert"), ("binary", bytes(range(0, 256, 17)))],
}


def _values() -> Iterator[bytes]:
    cities = ("Lisbon", "Kraków", "Osaka", "Lagos", "Quito", "Perth", "Oslo")
    for number in range(101):
        order = {
            "city": cities[number % 7],
            "amount": number * 1.25,
            "items": list(range(number % 9)),
            "note": "x" * (number % 60),
        }
        yield b'{"order": %d, ' + json.dumps(order, ensure_ascii=False).encode()[1:].replace(b"%", b"%%")


_VALUES = tuple(_values())


def _flush(producers: Sequence[Producer]) -> None:
    for producer in producers:
        left = producer.flush(_TIMEOUT)
        if left:
            raise TimeoutError(f"{left} records were not written within {_TIMEOUT:.0f} s")
