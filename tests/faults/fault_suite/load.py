"""Producers that write until they are stopped: plain, idempotent, transactional with aborts, and one that hangs.

They are librdkafka's, and survive whatever brokers do: an error ends a batch, and the next one is written by a new
producer where the old one cannot go on.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from fault_suite.journal import Address, Journal, digest

ABORTED = 0.3
"""The share of transactions that are aborted."""

BATCH = 25
ANSWER_SECONDS = 30


class Load:
    """Use as a context manager: it writes inside. partitions: by topic; a topic may get more while it writes. pause:
    seconds between a producer's batches. values: how those of a topic are made, random bytes for others."""

    def __init__(
        self,
        servers: str,
        partitions: dict[str, int],
        journal: Journal,
        seed: int,
        *,
        pause: float = 0.25,
        values: Mapping[str, Callable[[random.Random], bytes | None]] | None = None,
    ) -> None:
        self._values = values or {}
        self._settings = {"bootstrap.servers": servers, "log_level": 0, "linger.ms": 5, "acks": "all"}
        self._settings |= {"message.timeout.ms": ANSWER_SECONDS * 1000, "reconnect.backoff.max.ms": 500}
        self._partitions = partitions
        self._journal = journal
        self._seed = seed
        self._pause = pause
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._turns: list[threading.Lock] = []
        self._pauses = 0
        self.errors: list[BaseException] = []

    def __enter__(self) -> Load:
        kinds: dict[str, Callable[[random.Random, threading.Lock], None]] = {
            "plain": self._plain,
            "idempotent": self._idempotent,
            "transactional": self._transactional,
            "hanging": self._hanging,
        }
        for number, (name, work) in enumerate(kinds.items()):
            choice = random.Random(f"{self._seed}-{number}")
            self._turns.append(turn := threading.Lock())
            given = (work, choice, turn)
            thread = threading.Thread(target=self._guarded, args=given, name=f"{name} producer", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(4 * ANSWER_SECONDS)
            # What has failed is the reason, where a lane has failed that lets producers wait.
            assert kind is not None or not thread.is_alive(), f"{thread.name} does not end"

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is written, and nothing is unanswered, but a transaction may be left open. New producers go on: the
        former ones know epochs and sequences of logs that may be others afterwards."""
        with ExitStack() as turns:
            for turn in self._turns:
                turns.enter_context(turn)
            yield
            self._pauses += 1

    def _guarded(
        self,
        work: Callable[[random.Random, threading.Lock], None],
        choice: random.Random,
        turn: threading.Lock,
    ) -> None:
        try:
            work(choice, turn)
        except BaseException as error:  # a thread's error would be lost: the suite raises it
            self.errors.append(error)

    # --- the kinds of producers

    def _plain(self, choice: random.Random, turn: threading.Lock) -> None:
        self._write_on(choice, turn, {**self._settings, "enable.idempotence": False})

    def _idempotent(self, choice: random.Random, turn: threading.Lock) -> None:
        self._write_on(choice, turn, {**self._settings, "enable.idempotence": True})

    def _write_on(self, choice: random.Random, turn: threading.Lock, settings: dict[str, Any]) -> None:
        producer, pauses = Producer(settings), self._pauses
        while not self._stop.wait(self._pause):
            with turn:
                if pauses != self._pauses:
                    producer, pauses = Producer(settings), self._pauses
                batch = _Batch()
                self._fill(choice, producer, batch)
                unanswered = producer.flush(2 * ANSWER_SECONDS)
                self._journal.doubt(unanswered)
                self._journal.acknowledge(batch.delivered)
                self._journal.doubt(batch.failed)

    def _transactional(self, choice: random.Random, turn: threading.Lock) -> None:
        producer, pauses = None, self._pauses
        while not self._stop.wait(self._pause):
            with turn:
                producer, pauses = (producer if pauses == self._pauses else None), self._pauses
                producer = self._one_transaction(choice, producer)

    def _one_transaction(self, choice: random.Random, producer: Any) -> Any:
        """The producer for the next one, None where it must be a new one."""
        batch = _Batch()
        try:
            if producer is None:
                producer = self._new_transactional("load", 60)
            producer.begin_transaction()
            self._fill(choice, producer, batch)
            if choice.random() < ABORTED:
                producer.abort_transaction(ANSWER_SECONDS)
            else:
                producer.commit_transaction(ANSWER_SECONDS)
                self._journal.acknowledge(batch.delivered)
            return producer
        except KafkaException as error:
            # A commit that was not answered may have been carried out.
            self._journal.doubt(len(batch.delivered))
            return self._after(error, producer)

    def _after(self, error: KafkaException, producer: Any) -> Any:
        """The producer, where its transaction can be aborted; None where a new one has to fence it."""
        if producer is not None and error.args[0].txn_requires_abort():
            with suppress(KafkaException):
                producer.abort_transaction(ANSWER_SECONDS)
                return producer
        return None

    def _new_transactional(self, name: str, timeout: int) -> Any:
        own = {"transactional.id": f"faults-{name}-{self._seed}", "transaction.timeout.ms": timeout * 1000}
        producer = Producer({**self._settings, "message.timeout.ms": timeout * 1000, **own})
        producer.init_transactions(ANSWER_SECONDS)
        return producer

    def _hanging(self, choice: random.Random, turn: threading.Lock) -> None:
        """Now and then a transaction is left open: its partitions have no later stable offset until the broker aborts
        it, ten to twenty seconds later, or the next one does."""
        while not self._stop.wait(choice.uniform(5, 30)):
            with turn, suppress(KafkaException):
                producer = self._new_transactional("hanging", 10)
                producer.begin_transaction()
                self._fill(choice, producer, _Batch(), count=3)
                producer.flush(ANSWER_SECONDS)
        with suppress(KafkaException):  # the next producer of its id ends what it has left open
            self._new_transactional("hanging", 10)

    def _fill(self, choice: random.Random, producer: Any, batch: _Batch, count: int = BATCH) -> None:
        topic = choice.choice(sorted(self._partitions))
        for _ in range(count):
            key = None if choice.random() < 0.15 else b"k%d" % choice.randrange(1000)
            size = 20_000 if choice.random() < 0.01 else choice.randrange(200)
            make = self._values.get(topic)
            value = make(choice) if make else None if choice.random() < 0.02 else choice.randbytes(size)
            headers = [("a", b"%d" % size), ("a", None)] if choice.random() < 0.2 else []
            try:
                producer.produce(
                    topic,
                    key=key,
                    value=value,
                    headers=headers,
                    partition=choice.randrange(self._partitions[topic]),
                    on_delivery=batch.note(digest(key, value)),
                )
            except KafkaException as error:
                # A partition that was added a moment ago: the producer does not know it yet, and has sent nothing.
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    raise
            producer.poll(0)


class _Batch:
    """What was delivered of one batch, by address."""

    def __init__(self) -> None:
        self.delivered: dict[Address, bytes] = {}
        self.failed = 0

    def note(self, content: bytes) -> Callable[[Any, Any], None]:
        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.failed += 1
            else:
                self.delivered[message.topic(), message.partition(), message.offset()] = content

        return delivered
